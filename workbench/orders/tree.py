"""`ReductionTree`: an order of summation as a value that can be hashed, compared and executed.

Nothing here recurses: a left-to-right sum of 10,000 terms is a tree 9,999 levels deep.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, Union

import numpy as np

from workbench.errors import InputError, WorkbenchError

# A leaf number, a finished tree, or a list of such things: one list is one node.
Nested: TypeAlias = Union[int, "ReductionTree", Sequence["Nested"]]

_TOKEN = re.compile(r"\s*(\[|\]|,|[0-9]+)")
_FLOATS = ("float16", "float32", "float64")
_CHUNK_BYTES = 16 << 20  # working set of one chunk of rows in `sum`


@dataclass(frozen=True, eq=False, repr=False)
class ReductionTree:
    """An order in which the terms 0..n-1 are added. Immutable.

    Build one with `from_nested`, `from_json` or `workbench.declared_order`. Leaves are numbered
    0..n-1 in storage, inner nodes n.. with every child before its parent, so each pass over the
    tree is a loop. Two trees are equal when they differ by the order of children only, since IEEE
    addition commutes (bit for bit, NaN payloads aside: an order claims nothing about those).

    Attributes:
        leaves: Number of terms n; 0 for the empty sum, which is +0.
        children: Ids of the children of all inner nodes, one node after another; int64.
        offsets: Where each inner node starts in `children`, and the end; int64 [inner + 1].

    Example:
        >>> tree = ReductionTree.from_nested([[0, 1], [2, 3]])
        >>> tree.height, tree.arity, tree == ReductionTree.from_nested([[3, 2], [1, 0]])
        (2, 2, True)
    """

    leaves: int
    children: np.ndarray
    offsets: np.ndarray

    def __post_init__(self) -> None:
        self.children.flags.writeable = False
        self.offsets.flags.writeable = False

    # ---------------------------------------------------------------- in and out

    @classmethod
    def from_nested(cls, nested: Nested) -> ReductionTree:
        """The tree written as nested lists of term numbers: `[[0, 1], 2]` is (x0 + x1) + x2.

        A list of one element adds nothing and is the element itself; `[]` alone is the empty sum.
        A finished tree may stand for the subtree of its own term numbers.

        Raises:
            InputError: A term number is missing, repeated or negative, or a part is no list.

        Example:
            >>> ReductionTree.from_nested([[0, 1], 2]).height
            2
        """
        leaf_nodes: list[int] = []  # term numbers in the order met
        inner: list[list[int]] = []  # children; ~k is the k-th leaf met, k the k-th inner node
        # A frame is an iterator over a list and the children collected from it so far.
        frames: list[tuple] = [(iter((nested,)), [])]
        while True:
            iterator, collected = frames[-1]
            item = next(iterator, _END)
            if isinstance(item, ReductionTree):
                item = item.to_nested()
            if item is _END:
                frames.pop()
                if not frames:
                    break
                if not collected:
                    if len(frames) == 1:  # the outermost list is empty: the empty sum
                        break
                    raise InputError(
                        "the nested lists hold an empty list inside another; every node needs at "
                        "least one term. Leave the empty list out"
                    )
                if len(collected) == 1:
                    frames[-1][1].append(collected[0])
                else:
                    inner.append(collected)
                    frames[-1][1].append(len(inner) - 1)
            elif isinstance(item, (list, tuple, range)):
                frames.append((iter(item), []))
            else:
                leaf_nodes.append(_term_number(item))
                collected.append(~(len(leaf_nodes) - 1))
        n = len(leaf_nodes)
        _check_terms(leaf_nodes)
        flat = [leaf_nodes[~c] if c < 0 else n + c for node in inner for c in node]
        sizes = [0, *(len(node) for node in inner)]
        return cls(n, np.array(flat, np.int64), np.cumsum(sizes, dtype=np.int64))

    def to_nested(self, first: int = 0) -> list | int:
        """Nested lists of term numbers, children in stored order. `[]` for the empty sum.

        Args:
            first: Number of the first term, to put the tree into a larger one.

        Example:
            >>> pair = ReductionTree.from_nested([0, 1])
            >>> ReductionTree.from_nested([pair.to_nested(2), pair]).to_json()
            '[[2,3],[0,1]]'
        """
        if not self.leaves:
            return []
        parts: list = list(range(first, first + self.leaves))
        for node in self._nodes():
            parts.append([parts[c] for c in node])
        return parts[-1]

    @classmethod
    def from_json(cls, text: str) -> ReductionTree:
        """The tree of `to_json`. Reads any depth, which `json.loads` does not.

        Raises:
            InputError: `text` is not nested lists of term numbers.

        Example:
            >>> ReductionTree.from_json("[[0,1],2]").to_json()
            '[[0,1],2]'
        """
        stack: list[list] = [[]]  # stack[0] collects the one outermost value
        at, end, before = 0, len(text.rstrip()), ","
        while at < end:
            match = _TOKEN.match(text, at)
            token = match.group(1) if match else "?"
            if token == "[" or token.isdecimal():
                fits = before in "[,"
            elif token == "]":
                fits = len(stack) > 1 and before != ","
            else:
                fits = token == "," and len(stack) > 1 and before not in "[,"
            if not match or not fits:
                raise InputError(
                    f"a tree is nested lists of term numbers like [[0,1],2]; character {at} of "
                    f"the text does not fit: {text[at : at + 10]!r}. Write trees with `to_json`"
                )
            at, before = match.end(), token
            if token == "[":
                stack.append([])
            elif token == "]":
                done = stack.pop()
                stack[-1].append(done)
            elif token != ",":
                stack[-1].append(int(token))
        if len(stack) != 1 or not stack[0]:
            raise InputError(
                "a tree is nested lists of term numbers like [[0,1],2]; this text is "
                f"{'cut off' if stack[0] or len(stack) > 1 else 'empty'}: {text[:40]!r}"
            )
        return cls.from_nested(stack[0][0])

    def to_json(self) -> str:
        """Nested lists of term numbers as JSON text, e.g. `[[0,1],2]`; any depth."""
        if not self.leaves:
            return "[]"
        out: list[str] = []
        todo: list = [self._root]  # node ids, and finished pieces of text
        n, nodes = self.leaves, self._nodes()
        while todo:
            item = todo.pop()
            if isinstance(item, str):
                out.append(item)
            elif item < n:
                out.append(str(item))
            else:
                todo.append("]")
                for i, child in enumerate(reversed(nodes[item - n])):
                    todo += [","] if i else []
                    todo.append(child)
                out.append("[")
        return "".join(out)

    def __reduce__(self):
        return type(self), (self.leaves, np.array(self.children), np.array(self.offsets))

    def __repr__(self) -> str:
        return (
            f"ReductionTree(leaves={self.leaves}, height={self.height}, arity={self.arity}, "
            f"hash={self.hash!r})"
        )

    # ---------------------------------------------------------------- properties

    @property
    def hash(self) -> str:
        """16 hex digits that name the order: equal for equal trees, children unordered."""
        return self._digest.hex()[:16]

    @property
    def height(self) -> int:
        """Edges on the longest path from a leaf to the root; 0 for one leaf."""
        return int(self.depths().max(initial=0))

    @property
    def arity(self) -> int:
        """The largest number of children of a node; 0 when there is no inner node."""
        return int(np.diff(self.offsets).max(initial=0))

    def depths(self) -> np.ndarray:
        """Edges from each leaf to the root: int64 [n]. A term is rounded that many times."""
        return self._depths.copy()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReductionTree):
            return NotImplemented
        return self.leaves == other.leaves and self._digest == other._digest

    def __hash__(self) -> int:
        return hash(self._digest)

    @property
    def _root(self) -> int:
        return self.leaves + len(self.offsets) - 2 if len(self.offsets) > 1 else 0

    def _nodes(self) -> list[list[int]]:
        """Children of each inner node as Python lists (numpy scalars are slow in loops)."""
        flat, at = self.children.tolist(), self.offsets.tolist()
        return [flat[a:b] for a, b in itertools.pairwise(at)]

    @functools.cached_property
    def _digest(self) -> bytes:
        # Children sorted by digest make the hash independent of their order. The tag and the
        # fixed width of a digest keep a leaf, a node and the number of children apart.
        sha = hashlib.sha256
        digests = [sha(b"leaf" + i.to_bytes(8, "little")).digest() for i in range(self.leaves)]
        for node in self._nodes():
            digests.append(sha(b"node" + b"".join(sorted(digests[c] for c in node))).digest())
        return digests[-1] if digests else sha(b"empty").digest()

    @functools.cached_property
    def _depths(self) -> np.ndarray:
        n, nodes = self.leaves, self._nodes()
        depth = [0] * (n + len(nodes))
        for k in range(len(nodes) - 1, -1, -1):  # parents before children
            below = depth[n + k] + 1
            for child in nodes[k]:
                depth[child] = below
        return np.array(depth[:n], np.int64)

    # ---------------------------------------------------------------- execution

    def sum(self, terms: np.ndarray) -> np.ndarray:
        """Add `terms` in exactly this order, every node rounded to the dtype of the terms.

        Args:
            terms: float16, float32 or float64, [R, n] or [n]; rows are independent sums.

        Returns:
            [R] (or a scalar array for [n]), same dtype. The empty sum is +0.

        Raises:
            InputError: Wrong shape or dtype, or a node with more than two children: what a fused
                node rounds is not defined yet, so there is no exact answer to give.
            WorkbenchError: This thread flushes subnormals to zero, which changes bits.

        Example:
            >>> import numpy as np
            >>> terms = np.array([[1e8, 1, -1e8, 1]], np.float32)
            >>> ReductionTree.from_nested([[[0, 1], 2], 3]).sum(terms)
            array([1.], dtype=float32)
            >>> ReductionTree.from_nested([[0, 2], [1, 3]]).sum(terms)
            array([2.], dtype=float32)
        """
        terms = np.asarray(terms)
        if terms.dtype.name not in _FLOATS:
            raise InputError(
                f"terms have dtype {terms.dtype.name}; wanted one of {', '.join(_FLOATS)}. "
                "Convert them first: every node is rounded to that dtype"
            )
        if terms.ndim not in (1, 2) or terms.shape[-1] != self.leaves:
            raise InputError(
                f"terms have shape {list(terms.shape)}; this tree adds [R, {self.leaves}]. "
                "Give one row per sum, or take the order for another n"
            )
        if self.arity > 2:
            raise InputError(
                f"this tree has a node with {self.arity} children and `sum` executes binary nodes "
                "only: what a fused node rounds is not defined. Write it as binary nodes"
            )
        _refuse_flush()
        rows = np.atleast_2d(terms)
        total = np.zeros(len(rows), terms.dtype)
        if self.leaves and len(rows):
            inner = len(self.offsets) - 1
            step = max(1, _CHUNK_BYTES // ((self.leaves + inner) * terms.dtype.itemsize))
            step = min(step, len(rows))
            steps, root = self._schedule
            values = np.empty((self.leaves + inner, step), terms.dtype)
            with np.errstate(all="ignore"):  # Inf and NaN are results like any other
                for start in range(0, len(rows), step):
                    chunk = rows[start : start + step]
                    part = values[:, : len(chunk)]
                    part[: self.leaves] = chunk.T
                    for low, high, left, right in steps:
                        np.add(part[left], part[right], out=part[low:high])
                    total[start : start + step] = part[root]
        return total if terms.ndim == 2 else total[0]

    @functools.cached_property
    def _schedule(self) -> tuple[list[tuple], int]:
        """Inner nodes renumbered level by level, so that one vector addition does a level."""
        n, nodes = self.leaves, self._nodes()
        level = [0] * (n + len(nodes))
        for k, node in enumerate(nodes):
            level[n + k] = 1 + max(level[c] for c in node)
        levels = np.array(level[n:], np.int64)
        order = np.argsort(levels, kind="stable")
        slot = np.arange(n + len(nodes))
        slot[n + order] = n + np.arange(len(nodes))
        pairs = slot[self.children.reshape(-1, 2)[order]]
        steps, done = [], 0
        for size in np.bincount(levels)[1:].tolist() if len(nodes) else []:
            left, right = pairs[done : done + size].T
            steps.append((n + done, n + done + size, _as_slice(left), _as_slice(right)))
            done += size
        return steps, int(slot[self._root])


_END = object()


def _term_number(item: object) -> int:
    try:
        if isinstance(item, (bool, np.bool_)):
            raise TypeError
        return operator.index(item)  # type: ignore[arg-type]
    except TypeError:
        raise InputError(
            f"a tree holds term numbers and lists of them; got {item!r} of type "
            f"{type(item).__name__}. Write (x0 + x1) + x2 as [[0, 1], 2]"
        ) from None


def _check_terms(numbers: list[int]) -> None:
    n = len(numbers)
    seen = set(numbers)
    if len(seen) == n and (not n or (min(seen) == 0 and max(seen) == n - 1)):
        return
    bad = sorted(i for i in seen if not 0 <= i < n)
    missing = next((i for i in range(n) if i not in seen), None)
    raise InputError(
        f"a tree of {n} leaves holds each of the terms 0..{n - 1} once; "
        + (f"number {bad[0]} is out of range" if bad else "a term is repeated")
        + f" and term {missing} is missing. Number the terms from 0 without gaps"
    )


def _as_slice(index: np.ndarray) -> np.ndarray | slice:
    """`index` as a slice where its steps are equal: a view, not a gathered copy."""
    if len(index) == 1:
        return slice(int(index[0]), int(index[0]) + 1)
    step = int(index[1] - index[0])
    if step > 0 and (np.diff(index) == step).all():
        return slice(int(index[0]), int(index[-1]) + 1, step)
    return index


def _refuse_flush() -> None:
    # torch.set_flush_denormal(True) acts on this thread, numpy included.
    tiny = np.full(1, 2.0**-149, np.float32)
    if (tiny + tiny)[0] == 0:
        raise WorkbenchError(
            "this thread flushes subnormal numbers to zero, and an exact sum keeps them. "
            "Call torch.set_flush_denormal(False) first"
        )


# -------------------------------------------------------------------- composition


def sequential(items: Iterable[Nested]) -> Nested:
    """`items` added from left to right: ((a + b) + c) + d.

    Args:
        items: Term numbers, nested lists or trees; at least one.

    Example:
        >>> sequential(range(4))
        [[[0, 1], 2], 3]
    """
    return _not_empty(functools.reduce(paired, items, None))


def adjacent_pairs(items: Iterable[Nested]) -> Nested:
    """`items` added as neighbours, then the results as neighbours, until one remains.

    An odd last item is passed on to the next level as it is. A full power of two gives the
    balanced tree of one `ReduceSum` repeat (not a halving tree, which adds i and i + n/2).

    Args:
        items: Term numbers, nested lists or trees; at least one.

    Example:
        >>> adjacent_pairs(range(5))
        [[[0, 1], [2, 3]], 4]
    """
    return by_levels(
        items, lambda level: [joined(level[i : i + 2]) for i in range(0, len(level), 2)]
    )


def by_levels(items: Iterable[Nested], once: Callable[[list], list]) -> Nested:
    """Apply `once`, which shortens a list of nodes, until one node remains."""
    level = list(items)
    while len(level) > 1:
        level = once(level)
    return _not_empty(level[0] if level else None)


def paired(left: Nested | None, right: Nested) -> Nested:
    return right if left is None else [left, right]


def joined(items: list[Nested]) -> Nested:
    return items[0] if len(items) == 1 else items


def _not_empty(nested: Nested | None) -> Nested:
    if nested is None:
        raise InputError("there is nothing to add: give at least one term, leaf or subtree")
    return nested
