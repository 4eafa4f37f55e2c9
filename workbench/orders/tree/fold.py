"""A tree with equal subtrees held once: 151,936 terms in a dozen lines.

Two subtrees are equal here when one is the other with all term numbers shifted by a constant (and
children in any order). A left-to-right run over equal things at equal distances is one shape too,
else a sequential sum, whose partial sums all differ, could not be folded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError
from workbench.orders.tree.builder import Builder
from workbench.orders.tree.foldtext import describe
from workbench.orders.tree.reduction import ReductionTree

# How shapes are written. Offsets count from the least term of the shape itself.
#   leaf   ()
#   node   (shape, offset, shape, offset, …)     children by ascending offset
#   chain  (-1, head, offset, item, first, stride, count)
#          head + item at `first` + item at `first + stride` + …, from left to right
Shape = tuple[int, ...]
CHAIN = -1
MOST_LEAVES = 1 << 24  # of a tree that is read: the text may be short and the tree large


@dataclass(frozen=True)
class FoldedTree:
    """A `ReductionTree` in which equal subtrees are held once.

    Attributes:
        leaves: Number of terms n.
        shapes: The different subtrees, each after its parts; the first is a single term, the last
            the whole tree. Empty for the empty sum. See `Shape` in this module.

    Example:
        >>> from workbench.orders.standard import reduce_sum
        >>> folded = reduce_sum(4096, 1).fold()
        >>> print(folded)
        64 x [pairs of 64]
        >>> len(folded), folded.unfold() == reduce_sum(4096, 1)
        (8, True)
    """

    leaves: int
    shapes: tuple[Shape, ...]

    def __len__(self) -> int:
        return len(self.shapes)

    def __str__(self) -> str:
        return self.text()

    def text(self, limit: int = 400) -> str:
        """What is added in what order, for people; cut after about `limit` characters.

        "64 x [A]" adds 64 of A from left to right, "pairs of 64" neighbours in pairs, "halves of
        64" the i-th and the (i + 32)-th, "fused 8" eight in one node. "(A + B)" adds two things,
        "(A then 3 x [B])" goes on from A and adds one B at a time. Distances are named where things
        do not stand side by side.
        """
        return describe(self.shapes, limit)

    def occurrences(self) -> list[int]:
        """How often each of the shapes occurs in the tree, inside others too.

        Partial sums of a run count as parts of the run only.

        Example:
            >>> ReductionTree.from_nested([[0, 1], [2, 3]]).fold().occurrences()
            [4, 2, 1]
        """
        counts = [0] * len(self.shapes)
        if counts:
            counts[-1] = 1
        for k in range(len(self.shapes) - 1, -1, -1):
            for part, times in uses(self.shapes[k]):
                counts[part] += times * counts[k]
        return counts

    def unfold(self) -> ReductionTree:
        """The tree itself.

        Raises:
            InputError: The shapes make no tree of `leaves` terms.
        """
        if not self.shapes:
            return ReductionTree.from_nested([])
        sizes = [1]
        for shape in self.shapes[1:]:
            sizes.append(sum(times * sizes[part] for part, times in uses(shape)))
        if sizes[-1] != self.leaves:  # before anything large is made of wrong numbers
            raise InputError(f"these shapes hold {sizes[-1]} terms, not {self.leaves}")
        # From the top down, where each occurrence of each shape begins; then up again.
        places: list[list[np.ndarray]] = [[] for _ in self.shapes]
        counts = [0] * len(self.shapes)
        wanted: list[list[tuple[int, int, tuple[int, ...]]]] = [[] for _ in self.shapes]

        def ask(shape: int, part: int, at: np.ndarray) -> None:
            wanted[shape].append((part, counts[part], at.shape))
            places[part].append(at.reshape(-1))
            counts[part] += at.size

        ask(len(self.shapes) - 1, len(self.shapes) - 1, np.zeros(1, np.int64))
        wanted[-1].clear()
        for k in range(len(self.shapes) - 1, 0, -1):
            shape, at = self.shapes[k], np.concatenate(places[k])
            if shape[0] == CHAIN:
                _, head, offset, item, first, stride, count = shape
                ask(k, head, at[:, None] + offset)
                ask(k, item, at[:, None] + first + stride * np.arange(count))
            else:
                for part, offset in zip(shape[::2], shape[1::2], strict=True):
                    ask(k, part, at[:, None] + offset)
        build = Builder(self.leaves)
        results = [np.concatenate(places[0])]
        for shape, parts in zip(self.shapes[1:], wanted[1:], strict=True):
            found = [
                results[part][start : start + sides[0] * sides[1]].reshape(sides)
                for part, start, sides in parts
            ]
            things = np.concatenate(found, axis=1)
            results.append(build.chain(things) if shape[0] == CHAIN else build.add(things))
        return build.tree(results[-1])

    def to_json(self) -> str:
        """A short JSON text, also of a large tree: [n, [shape, shape, …]]."""
        return json.dumps([self.leaves, [list(s) for s in self.shapes]], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> FoldedTree:
        """The folded tree of `to_json`.

        Raises:
            InputError: `text` is something else.

        Example:
            >>> FoldedTree.from_json('[3,[[],[0,0,0,1],[1,0,0,2]]]').unfold().to_json()
            '[[0,1],2]'
        """
        try:
            leaves, shapes = json.loads(text)
            if type(leaves) is not int or not 0 <= leaves <= MOST_LEAVES:
                raise ValueError(f"it has {str(leaves)[:40]} terms; wanted 0 to {MOST_LEAVES:,}")
            folded = cls(leaves, tuple(_checked(k, shape) for k, shape in enumerate(shapes)))
            folded.unfold()
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            raise InputError(f"this is no folded tree ({error}); `to_json` writes one") from None
        return folded


def uses(shape: Shape) -> list[tuple[int, int]]:
    """(part, how often) of one shape."""
    if shape and shape[0] == CHAIN:
        return [(shape[1], 1), (shape[3], shape[6])]
    return [(part, 1) for part in shape[::2]]


def fold(tree: ReductionTree) -> FoldedTree:
    """`tree` with equal subtrees held once; `ReductionTree.fold` calls it."""
    return FoldedTree(tree.leaves, shapes_below(tree, tree._root) if tree.leaves else ())


def shapes_below(tree: ReductionTree, root: int) -> tuple[Shape, ...]:
    """The shapes of the subtree of a node, as in `FoldedTree`."""
    layout = tree._layout
    least, kind = layout.least.tolist(), [0] * layout.total
    shapes: list[Shape] = [()]
    known: dict[Shape, int] = {}
    for node, children in enumerate(tree._nodes(), tree.leaves):
        if len(children) == 2:
            a, b = children
            if least[a] > least[b]:
                a, b = b, a
            gap = least[b] - least[a]
            first, second = kind[a], kind[b]
            shape = (
                _longer(shapes, first, second, gap)
                or _longer(shapes, second, first, -gap)
                or (first, 0, second, gap)
            )
        else:
            parts = sorted((least[c] - least[node], kind[c]) for c in children)
            shape = tuple(x for offset, part in parts for x in (part, offset))
        found = known.get(shape)
        if found is None:
            found = known[shape] = len(shapes)
            shapes.append(shape)
        kind[node] = found
    return _reached(shapes, kind[root])


def _longer(shapes: list[Shape], run: int, item: int, gap: int) -> Shape | None:
    """The run that `run` becomes with one `item` more, `gap` terms on; None if that is no run.

    A sum of two things becomes a run with the third. Either of the two may have been its head: of
    three equal things the one that makes all steps equal, if there is one.
    """
    shape = shapes[run]
    if len(shape) == 7 and shape[0] == CHAIN:
        _, head, offset, thing, first, stride, count = shape
        if thing != item or gap != first + stride * count:
            return None
        count += 1
    elif len(shape) == 4:
        choices = []
        for h in (0, 2):
            head, offset, thing, first = *shape[h : h + 2], *shape[2 - h : 4 - h]
            if thing == item:
                stride = gap - first
                choices.append((first - offset != stride, h, head, offset, first, stride))
        if not choices:
            return None
        _, _, head, offset, first, stride = min(choices)
        count = 2
    else:
        return None
    lower = min(gap, 0)  # where the new least term is, seen from the old one
    return (CHAIN, head, offset - lower, item, first - lower, stride, count)


def _reached(shapes: list[Shape], root: int) -> tuple[Shape, ...]:
    """The shapes that `root` is made of, numbered as met on the way up, so that equal trees fold
    alike. Those before it in a run fall away."""
    new: dict[int, int] = {}
    todo = [(root, False)]
    while todo:
        shape, done = todo.pop()
        if done:
            new.setdefault(shape, len(new))
        elif shape not in new:
            todo.append((shape, True))
            todo += [(part, False) for part, _ in reversed(uses(shapes[shape]))]

    def renamed(shape: Shape) -> Shape:
        if shape and shape[0] == CHAIN:
            return (CHAIN, new[shape[1]], shape[2], new[shape[3]], *shape[4:])
        return tuple(new[x] if i % 2 == 0 else x for i, x in enumerate(shape))

    return tuple(renamed(shapes[old]) for old in new)


def _checked(k: int, shape: Sequence[int]) -> Shape:
    """Parts come before the shape itself, and there are enough of them."""
    found = tuple(shape)
    if not all(type(x) is int for x in found):
        raise ValueError(f"shape {k} holds something that is no whole number")
    chain = bool(found) and found[0] == CHAIN
    fits = (
        len(found) == 7 and found[6] >= 1
        if chain
        else (len(found) >= 4 and len(found) % 2 == 0) == (k > 0) and (k > 0 or not found)
    )
    if not fits or not all(0 <= part < k for part, _ in uses(found)):
        raise ValueError(f"shape {k} is {list(found)[:8]}, which is neither a node nor a run")
    return found
