"""Rooted triples: which two of three terms of a sum are added to each other before the third.

The probing behind `workbench.orders.reveal.positive`, which says how a triple is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.errors import InputError, WorkbenchError
from workbench.orders.reveal.targets import RevealError
from workbench.orders.tree import ReductionTree

# Where the third term of a triple stands to the node where the first two meet.
OUTSIDE, WITH_FIRST, WITH_SECOND, FUSED = range(4)
WIDE = 64  # children of a node beyond which triples are drawn, where all pairs would be too many
_WIDE_TRIPLES = 256
_MOST_PROBES = 128  # times n log2 n; beyond, the answers are those of no sum that has an order


@dataclass(frozen=True)
class PositiveSum:
    """A function of a sum of positive terms, and the inputs that make the terms 1, v and 0.

    Attributes:
        fn: float32 numpy [R, n] -> float32 numpy [R]: an increasing function of each row's sum.
        name: For reports.
        one, zero: Inputs whose terms are 1 (or another number, in whose ulps the small ones are
            then meant) and 0.
        small: Inputs for v: the first for sums rounded to nearest, the second for sums that are
            cut off.
        visible: Input whose term beside 1 alone raises the sum by 2^-23.
        dust: Input whose term is positive and at most 2^-56 (so that the sum of 2^28 of them is
            lost beside v): a background without zeros to ask triples over. None: such rows are not
            asked, but where `one`, `zero` and `small` are the terms themselves (2^-60 then).
        term: float32 numpy inputs -> their terms, exactly; None where these are not known, but
            where `one`, `zero` and `small` are the terms themselves.
        kernel: The kernel behind `fn`, for the evidence; None for another callable.

    Example:
        >>> from workbench.orders.reveal.positive import reveal_positive
        >>> total = PositiveSum(lambda x: x[:, 0] + (x[:, 1] + x[:, 2]), "total")
        >>> reveal_positive(total, 3).to_json()
        '[0,[1,2]]'
    """

    fn: Callable[[np.ndarray], Any]
    name: str = "sum"
    one: float = 1.0
    zero: float = 0.0
    small: tuple[float, ...] = (0.75 * 2.0**-24, 0.75 * 2.0**-23)
    visible: float = 2.0**-23
    dust: float | None = None
    term: Callable[[np.ndarray], np.ndarray] | None = field(default=None, compare=False)
    kernel: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        plain = (self.one, self.zero, self.small) == (1.0, 0.0, (0.75 * 2.0**-24, 0.75 * 2.0**-23))
        if plain and self.dust is None:
            object.__setattr__(self, "dust", 2.0**-60)
        if plain and self.term is None:
            object.__setattr__(self, "term", np.asarray)


class Asker:
    """Asks `PositiveSum` about triples, many in a call, and keeps count."""

    def __init__(self, target: Any, n: int, batch_bytes: int, rng: np.random.Generator) -> None:
        self.target = target if isinstance(target, PositiveSum) else _plain(target)
        self.n = n
        self.step = max(1, batch_bytes // (4 * max(n, 1)))
        self.probes = self.calls = self.cut = 0
        self.most = _MOST_PROBES * (n + 64) * max(1, n.bit_length())
        self.small = self.target.small[0]
        self.base = np.float32(0)
        self.background = self.target.zero  # of every row; `over_dust` puts another
        self._calibrate(rng)

    def over_dust(self, triples: np.ndarray) -> np.ndarray:
        """`relations` where the other terms are tiny instead of 0: the same in any fixed order."""
        assert self.target.dust is not None
        self.background = self.target.dust
        try:
            return self.relations(triples)
        finally:
            self.background = self.target.zero

    def evaluated(self, rows: np.ndarray) -> np.ndarray:
        """Results [R] of rows of inputs [R, n]."""
        parts = [self._call(rows[at : at + self.step]) for at in range(0, len(rows), self.step)]
        self.probes += len(rows)
        return np.concatenate(parts)

    def _calibrate(self, rng: np.random.Generator) -> None:
        """Is the term 1 the same everywhere, is v lost beside it, and does its last bit show?"""
        n = self.n
        if n == 0:
            return
        alone = np.unique(np.r_[0, n - 1, rng.integers(0, n, 6)])
        ones = self._run(alone[:, None], np.full((len(alone), 1), self.target.one, np.float32))
        self.base = ones[0]
        if not np.isfinite(ones).all() or (ones != self.base).any():
            raise RevealError(
                f"{self.target.name}: the term 1 alone gives {_listed(ones)} at the places "
                f"{_listed(alone)}. A sum gives one finite number wherever the term stands",
                "not a sum",
            )
        if n < 3:
            return
        pairs = np.array([rng.permutation(n)[:2] for _ in range(8)])
        if (self._beside_one(pairs, self.small) != self.base).any():
            raise RevealError(
                f"{self.target.name}: the term of {self.small:g} beside 1 is not lost, so nothing "
                "tells whether two of them met first. The sum is rounded up or is wider than its "
                "result; give a PositiveSum with another `small`",
                "not a sum",
            )
        if not (self._beside_one(pairs, self.target.visible) > self.base).all():
            raise RevealError(
                f"{self.target.name}: the term of {self.target.visible:g} beside 1 does not show, "
                "though it raises the sum by its last bit. What follows the sum hides that bit; "
                "give a PositiveSum with another `one`, `small` and `visible`",
                "accumulator too narrow",
            )

    def _beside_one(self, pairs: np.ndarray, value: float) -> np.ndarray:
        """Results with the term 1 at the first place of each pair and `value` at the second."""
        values = np.array([self.target.one, value], np.float32)
        return self._run(pairs, np.tile(values, (len(pairs), 1)))

    def _run(self, places: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Rows of zeros with values [R, m] at places [R, m] -> results [R]."""
        results = np.empty(len(places), np.float32)
        for at in range(0, len(places), self.step):
            part = places[at : at + self.step]
            rows = np.full((len(part), self.n), self.background, np.float32)
            np.put_along_axis(rows, part, values[at : at + self.step], axis=1)
            results[at : at + len(part)] = self._call(rows)
        self.probes += len(places)
        if self.probes > self.most:
            raise RevealError(
                f"{self.target.name}: {self.probes:,} rows do not tell the order of {self.n} "
                "terms: the answers are not those of a sum in one order, or of one whose fused "
                "nodes are too wide",
                "inconsistent",
            )
        return results

    def _call(self, rows: np.ndarray) -> np.ndarray:
        """Results of one call; what goes wrong in it is said with the callable and the shapes."""
        self.calls += 1
        held = rows.copy()
        try:
            got = np.asarray(self.target.fn(rows))
        except WorkbenchError:
            raise
        except Exception as error:
            raise RevealError(
                f"{self.target.name} raised {type(error).__name__}: {error} on rows "
                f"[{len(rows)}, {self.n}] of float32 (numpy). Wanted: one number per row",
                "raised",
            ) from error
        if got.shape != (len(rows),):
            raise InputError(
                f"{self.target.name} gave {list(got.shape)} for [{len(rows)}, {self.n}]; "
                f"wanted one number per row, [{len(rows)}]"
            )
        if not np.array_equal(held.view(np.uint32), rows.view(np.uint32)):
            raise RevealError(
                f"{self.target.name} changes the rows it is given (seen in call {self.calls}, of "
                f"{len(rows)} rows); wanted a function that leaves its argument as it is (let it "
                "work on a copy)",
                "changes its argument",
            )
        return got

    def _seen(self, triples: np.ndarray, small: float | None = None) -> np.ndarray:
        """[T, 3] -> bool [T]: do the first two meet before either meets the third?"""
        v = self.small if small is None else small
        values = np.array([v, v, self.target.one], np.float32)
        return self._run(triples, np.tile(values, (len(triples), 1))) != self.base

    def _seen_where_cut(self, roles: np.ndarray) -> np.ndarray:
        """[3, T, 3] -> bool [3, T]: the same where a node cuts off what binary nodes round.

        Where nothing is seen with v < 2^-24, 2 v may have been cut off, too. So a larger one is
        asked, and its answer counts where each of the two alone is cut off beside the third.
        """
        seen = np.zeros(roles.shape[:2], bool)
        for small in self.target.small[1:] if roles.shape[1] else ():
            flat = roles.reshape(-1, 3)
            alone = [self._beside_one(flat[:, [2, at]], small) == self.base for at in (0, 1)]
            seen |= (self._seen(flat, small) & alone[0] & alone[1]).reshape(seen.shape)
        self.cut += int(seen.any(axis=0).sum())
        return seen

    def relations(self, triples: np.ndarray) -> np.ndarray:
        """[T, 3] of leaves i, j, k -> int [T]: where k stands to the node where i and j meet."""
        i, j, k = triples.T
        roles = np.stack([(i, j, k), (i, k, j), (j, k, i)]).transpose(0, 2, 1)
        seen = self._seen(roles.reshape(-1, 3)).reshape(3, -1)
        none = ~seen.any(axis=0)
        seen[:, none] = self._seen_where_cut(roles[:, none])
        count = seen.sum(axis=0)
        if (count == 2).any():
            at = int(np.argmax(count == 2))
            raise RevealError(
                f"{self.target.name}: of the terms {_listed(triples[at])} two different pairs seem "
                "to be added first. The order depends on the values, or this is no sum",
                "value-dependent",
            )
        return np.where(count == 1, np.argmax(seen, axis=0), FUSED)


def _plain(fn: Callable) -> PositiveSum:
    if not callable(fn):
        raise InputError(
            f"got {type(fn).__name__}; want a callable float32 [R, n] -> [R], or a PositiveSum"
        )
    return PositiveSum(fn, getattr(fn, "__name__", type(fn).__name__))


def resolve(asker: Asker, n: int, rng: np.random.Generator) -> tuple[list[list[int]], int]:
    """Children of the nodes n, n + 1, … in the order they were found, and the root's id.

    A problem is a set of nodes that form one subtree, and the slot its root goes to: a node, or one
    of the negative slots, whose content is put in place at the end.
    """
    children: list[list[int]] = []
    leaf_of = list(range(n))  # a leaf below each node: it speaks for the node
    parked: dict[int, int] = {}  # negative slot -> root of its problem
    merges: list[tuple[int, int, int]] = []  # (node, slot of its third and further children, leaf)

    def attach(slot: int, node: int) -> None:
        if slot >= n:
            children[slot - n].append(node)
        else:
            parked[slot] = node

    def new_node(below: int) -> int:
        children.append([])
        leaf_of.append(leaf_of[below])
        return n + len(children) - 1

    problems: list[tuple[np.ndarray, int]] = [(np.arange(n), -1)] if n else []
    while problems:
        asked: list[tuple[np.ndarray, int, int]] = []  # (other nodes, …), the pair in front
        open_sets: list[tuple[np.ndarray, int]] = []
        for items, slot in problems:
            if len(items) == 1:
                attach(slot, int(items[0]))
            elif len(items) == 2:
                node = new_node(int(items[0]))
                attach(node, int(items[0]))
                attach(node, int(items[1]))
                attach(slot, node)
            else:
                items = rng.permutation(items)
                open_sets.append((items, slot))
                asked.append((items[2:], int(items[0]), int(items[1])))
        leaves = np.array(leaf_of)
        triples = [
            np.column_stack([np.full(len(k), leaves[i]), np.full(len(k), leaves[j]), leaves[k]])
            for k, i, j in asked
        ]
        answers = asker.relations(np.concatenate(triples)) if triples else np.empty(0, int)
        problems, at = [], 0
        for (items, slot), (others, i, j) in zip(open_sets, asked, strict=True):
            where = answers[at : at + len(others)]
            at += len(others)
            node = new_node(i)
            problems.append((np.r_[i, others[where == WITH_FIRST]], node))
            problems.append((np.r_[j, others[where == WITH_SECOND]], node))
            fused = others[where == FUSED]
            if len(fused) == len(others) > WIDE and _is_star(asker, leaves[items], rng):
                children[node - n] = items.tolist()
                attach(slot, node)
                problems = problems[:-2]
                continue
            if len(fused):
                merges.append((node, -2 - len(merges), leaf_of[i]))
                problems.append((fused, merges[-1][1]))
            problems.append((np.r_[node, others[where == OUTSIDE]], slot))
    _merge(asker, children, leaf_of, parked, merges)
    return children, parked.get(-1, -1)


def _is_star(asker: Asker, leaves: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether random triples of these leaves all meet in one node, as they do in an exact sum."""
    triples = np.array([rng.permutation(leaves)[:3] for _ in range(_WIDE_TRIPLES)])
    return bool((asker.relations(triples) == FUSED).all())


def _merge(
    asker: Asker,
    children: list[list[int]],
    leaf_of: list[int],
    parked: dict[int, int],
    merges: list[tuple[int, int, int]],
) -> None:
    """Put what met in a fused node's third and further children in its place.

    Those terms were resolved as a tree of their own. Its root is either one more child, or the
    fused node itself seen again, and then its children are the fused node's.
    """
    n = len(leaf_of) - len(children)
    inner = [m for m in merges if parked[m[1]] >= n]
    pairs = [[leaf_of[c] for c in children[parked[slot] - n][:2]] for _, slot, _ in inner]
    triples = [(*pair, leaf) for pair, (_, _, leaf) in zip(pairs, inner, strict=True)]
    answers = asker.relations(np.array(triples)).tolist() if triples else []
    same = {slot: answer for (_, slot, _), answer in zip(inner, answers, strict=True)}
    # Later ones first: a tree that is merged has taken in its own by then.
    for node, slot, _ in reversed(merges):
        root, answer = parked[slot], same.get(slot, OUTSIDE)
        if answer == OUTSIDE:
            children[node - n].append(root)
        elif answer == FUSED:
            children[node - n] += children[root - n]
            children[root - n] = []
        else:
            raise RevealError(
                f"{asker.target.name}: the answers about the terms below a fused node contradict "
                "each other. The order depends on the values, or this is no sum",
                "inconsistent",
            )


def numbered(children: list[list[int]], root: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The tree's arrays: inner nodes renumbered so that children come before their parents,
    and children in the order of their lowest leaves."""
    downwards: list[int] = []  # parents before children
    todo = [root] if root >= n else []
    while todo:
        node = todo.pop()
        downwards.append(node)
        todo += [c for c in children[node - n] if c >= n]
    order = downwards[::-1]
    number = {node: n + at for at, node in enumerate(order)}
    lowest = list(range(n)) + [0] * len(children)  # leaf below each node
    for node in order:
        children[node - n].sort(key=lowest.__getitem__)
        lowest[node] = lowest[children[node - n][0]]
    nodes = [[number.get(c, c) for c in children[node - n]] for node in order]
    flat = np.array([c for node in nodes for c in node], np.int64)
    return flat, np.cumsum([0, *(len(node) for node in nodes)], dtype=np.int64)


def distinguishing(tree: ReductionTree, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Triples [T, 3] that no other tree answers alike, and this tree's answers [T]."""
    n, flat, at = tree.leaves, tree.children.tolist(), tree.offsets.tolist()
    leaf = list(range(n))  # a leaf below each node
    triples: list[tuple[int, int, int]] = []
    fused: list[tuple[int, int, int]] = []
    for node in range(len(at) - 1):
        below = flat[at[node] : at[node + 1]]
        leaf.append(leaf[below[0]])
        for child in below:
            if child >= n:
                a, b = flat[at[child - n] : at[child - n] + 2]
                other = below[1] if child == below[0] else below[0]
                triples.append((leaf[a], leaf[b], leaf[other]))
        first, *rest = (leaf[c] for c in below)
        if len(below) <= WIDE:
            fused += [(first, a, b) for k, a in enumerate(rest) for b in rest[k + 1 :]]
        else:
            drawn = (rng.permutation(below)[:3] for _ in range(_WIDE_TRIPLES))
            fused += [tuple(leaf[c] for c in some) for some in drawn]
    wanted = [OUTSIDE] * len(triples) + [FUSED] * len(fused)
    return np.array(triples + fused, np.int64).reshape(-1, 3), np.array(wanted, np.int64)


def random_triples(
    tree: ReductionTree, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random triples, and the answers that follow from where the paths to the root meet."""
    triples = np.array([rng.permutation(tree.leaves)[:3] for _ in range(count)])
    parent = {c: tree.leaves + k for k, node in enumerate(tree._nodes()) for c in node}
    met = np.array([_meet(parent, int(i), [int(j), int(k)]) for i, j, k in triples])
    other = np.array([_meet(parent, int(j), [int(k)])[0] for _, j, k in triples])
    ij, ik = met.T  # parents have higher numbers than their children
    answers = np.select(
        [(ij == ik) & (ij == other), (ij < ik) & (ij < other), (ik < ij) & (ik < other)],
        [FUSED, OUTSIDE, WITH_FIRST],
        WITH_SECOND,
    )
    return triples, answers


def _meet(parent: dict[int, int], i: int, others: Sequence[int]) -> list[int]:
    """The nodes where the path of leaf i to the root meets those of the others."""
    path, node = {i}, i
    while node in parent:
        node = parent[node]
        path.add(node)
    found = []
    for other in others:
        while other not in path:
            other = parent[other]
        found.append(other)
    return found


def in_words(triple: Sequence[int], relation: int) -> str:
    i, j, k = (int(t) for t in triple)
    first, second, last = {
        OUTSIDE: (i, j, k),
        WITH_FIRST: (i, k, j),
        WITH_SECOND: (j, k, i),
    }.get(relation, (i, j, k))
    if relation == FUSED:
        return f"the terms {i}, {j} and {k} meet in one node"
    return f"the terms {min(first, second)} and {max(first, second)} meet before {last}"


def _listed(values: Any) -> str:
    return ", ".join(f"{v:g}" for v in np.asarray(values).tolist())
