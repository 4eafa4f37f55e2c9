"""Where two orders of summation first differ."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench._result import Result, jsonable
from workbench.orders.tree.fold import shapes_below
from workbench.orders.tree.foldtext import describe
from workbench.orders.tree.layout import Layout, RangeExtremes

if TYPE_CHECKING:
    from workbench.orders.tree.reduction import ReductionTree

_TEXT = 160  # characters in which a subtree is written, about
_RANGES = 8  # pieces in which a set of terms is written, at most


def _no_terms() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Difference(Result):
    """How two orders of the same terms differ.

    An order is the set of its partial sums, each taken as the set of terms it holds: two trees are
    equal exactly if these sets are. The first difference is the smallest partial sum that one tree
    makes and the other does not; of several, the one with the least term, and the left tree before
    the right. All partial sums inside it are made by both trees.

    Attributes:
        equal: Whether the orders are the same.
        leaves: Number of terms of the left and of the right tree. Where they differ, nothing
            else is compared.
        side: The tree that makes the first different partial sum: "left", "right", or "" if equal.
        terms: The terms in it, ascending.
        here: How they are added there: nested lists, or in words where those would be long.
        there: The smallest partial sum of the other tree that holds all these terms, likewise.
        there_terms: The terms in that one.
        only_left, only_right, shared: Numbers of partial sums in one tree only and in both.
    """

    equal: bool
    leaves: tuple[int, int]
    side: str = ""
    terms: np.ndarray = field(default_factory=_no_terms, repr=False)
    here: str = ""
    there: str = ""
    there_terms: np.ndarray = field(default_factory=_no_terms, repr=False)
    only_left: int = 0
    only_right: int = 0
    shared: int = 0

    def to_dict(self) -> dict[str, Any]:
        """As a dict for JSON; terms in short, as "0..63, 128"."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("terms", "there_terms"):
            values[name] = ranges(values[name])
        return jsonable(values)

    def rows(self) -> list[dict[str, Any]]:
        if self.equal or not self.side:
            return [self.to_dict()]
        other = "right" if self.side == "left" else "left"
        return [
            {"tree": tree, "size": len(terms), "terms": ranges(terms), "order": text}
            for tree, terms, text in (
                (self.side, self.terms, self.here),
                (other, self.there_terms, self.there),
            )
        ]

    def title(self) -> str:
        n, m = self.leaves
        if n != m:
            return f"orders of different sums: {n} and {m} terms"
        if self.equal:
            return f"the same order of {n} terms"
        return (
            f"different orders of {n} terms; partial sums: {self.shared} in both, "
            f"{self.only_left} only left, {self.only_right} only right"
        )

    def __str__(self) -> str:
        if not self.side:
            return self.title()
        lines = [self.title()]
        for row, words in zip(self.rows(), ("adds", "adds them only among"), strict=True):
            lines.append(f"  {row['tree']} {words} the {row['size']} terms {row['terms']}: ")
            lines[-1] += row["order"]
        return "\n".join(lines)


def ranges(terms: np.ndarray) -> str:
    """Ascending numbers in short: "0..63, 128", with steps "0, 256..3840 by 256"."""
    out: list[str] = []
    at, numbers = 0, terms.tolist()
    while at < len(numbers):
        if len(out) == _RANGES:
            return f"{', '.join(out)}, … ({len(numbers)} of them)"
        end = at + 1
        step = numbers[end] - numbers[at] if end < len(numbers) else 0
        while end < len(numbers) and numbers[end] - numbers[end - 1] == step:
            end += 1
        if end - at > 2:
            by = f" by {step}" if step > 1 else ""
            out.append(f"{numbers[at]}..{numbers[end - 1]}{by}")
        else:
            out.append(str(numbers[at]))
            end = at + 1
        at = end
    return ", ".join(out)


def compare(left: ReductionTree, right: ReductionTree) -> Difference:
    """The first difference of two orders; `ReductionTree.diff` calls it.

    Example:
        >>> from workbench.orders.standard import pairwise_order, sequential_order
        >>> print(sequential_order(4).diff(pairwise_order(4)))
        different orders of 4 terms; partial sums: 2 in both, 1 only left, 1 only right
          right adds the 2 terms 2, 3: [2,3]
          left adds them only among the 4 terms 0..3: [[[0,1],2],3]
    """
    leaves = (left.leaves, right.leaves)
    if leaves[0] != leaves[1]:
        return Difference(False, leaves)
    trees, sides = (left, right), ("left", "right")
    layouts = (left._layout, right._layout)
    found, counts = [], []
    for k in (0, 1):
        own = layouts[k]
        size, holder = _smallest_holders(own, layouts[1 - k])
        sizes, least = own.sizes[own.leaves :], own.least[own.leaves :]
        lone = np.flatnonzero(size != sizes)
        counts.append(len(lone))
        if len(lone):
            first = int(lone[np.lexsort((least[lone], sizes[lone]))[0]])
            key = int(sizes[first]), int(least[first]), k
            found.append((key, own.leaves + first, int(holder[first])))
    if not found:
        return Difference(True, leaves, shared=layouts[0].inner)
    (_, _, k), node, there = min(found)
    return Difference(
        equal=False,
        leaves=leaves,
        side=sides[k],
        terms=layouts[k].terms(node),
        here=_text(trees[k], node),
        there=_text(trees[1 - k], there),
        there_terms=layouts[1 - k].terms(there),
        only_left=counts[0],
        only_right=counts[1],
        shared=layouts[0].inner - counts[0],
    )


def _text(tree: ReductionTree, node: int) -> str:
    text = tree.to_json(node, _TEXT)
    return text if text.endswith("]") else describe(shapes_below(tree, node), _TEXT)


def _smallest_holders(own: Layout, other: Layout) -> tuple[np.ndarray, np.ndarray]:
    """For each inner node of `own`: size and id of the smallest node of `other` with its terms."""
    if not own.inner:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    low = own.starts[own.leaves :]
    high = low + own.sizes[own.leaves :]
    # Its terms stand side by side in the one tree. Their outermost places in the other one meet in
    # the node looked for: the highest of those at which neighbours between them meet.
    places = other.starts[own.leaf_order]
    first = RangeExtremes(places, np.minimum)(low, high)
    last = RangeExtremes(places, np.maximum)(low, high)
    # Sizes grow towards the root, and the id tells which of equally large nodes it is.
    rank = other.sizes[other.gaps] * other.total + other.gaps
    size, node = np.divmod(RangeExtremes(rank, np.maximum)(first, last), other.total)
    return size, node
