"""What is regular in an order: lanes that step through the terms, as BLAS kernels have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.orders.dot import fused_mask
from workbench.orders.tree import ReductionTree

MOST_SCALARS = 512  # terms and lanes outside the regular part, each a line of generated code


@dataclass(frozen=True)
class Lane:
    """One lane, a chain of additions: the terms `before`, the regular part, the terms `after`."""

    before: tuple[int, ...]
    after: tuple[int, ...]


@dataclass(frozen=True)
class Lanes:
    """An order of equal steps: lane l adds start + l, start + l + width, … (`blocks` terms), then
    the lanes and what is left over are added as `combine` says.

    Attributes:
        start: First term of the regular part.
        blocks: Terms that each lane adds in it, at least 2.
        lanes: The lanes, in order of their first regular term; as many as a block has terms.
        combine: Nested pairs of ("lane", l) and ("term", i); children in the order of the tree.
        fused: Whether the regular terms but the first of each lane are fused.
        mask: bool [n]: the fused terms.
    """

    start: int
    blocks: int
    lanes: tuple[Lane, ...]
    combine: Any
    fused: bool
    mask: np.ndarray

    @property
    def width(self) -> int:
        return len(self.lanes)

    def combined(self, lines: list[str], term: Callable[[int, str], str], indent: int = 0) -> str:
        """Append the additions of `combine` to `lines`, as C++; returns the name of the result.

        Args:
            term: term(i, sum) is the expression that adds term i to `sum`; of "", term i alone.

        The lanes are called l0, l1, …
        """
        done: dict[int, str] = {}
        todo = [self.combine]
        while todo:  # no recursion: a tail may be long
            node = todo[-1]
            if node[0] == "lane":
                done[id(node)] = f"l{node[1]}"
            elif node[0] == "term":
                done[id(node)] = ""  # added where it is met
            elif missing := [c for c in node if id(c) not in done]:
                todo += missing
                continue
            else:
                a, b = node
                if a[0] == "term" and (b[0] != "term" or self.mask[a[1]]):
                    a, b = b, a
                left = done[id(a)] or term(a[1], "")
                right = term(b[1], left) if b[0] == "term" else f"{left} + {done[id(b)]}"
                name = f"c{len(done)}"
                lines.append(f"{' ' * indent}const float {name} = {right};")
                done[id(node)] = name
            todo.pop()
        return done[id(self.combine)]

    def __str__(self) -> str:
        head = sum(len(lane.before) for lane in self.lanes)
        rest = len(self.mask) - head - self.width * self.blocks
        return (
            f"{self.width} lanes of {self.blocks} terms from term {self.start} on, "
            f"{head} terms before, {rest} after"
        )


def lanes_of(tree: ReductionTree, fused: Any = None) -> tuple[Lanes | None, str]:
    """The order as lanes, or (None, why it is none).

    Args:
        tree: An order.
        fused: bool [n] as `dot` takes it, or None.

    Example:
        >>> nested = [[[[[0, 1], 3], 5], [[2, 4], 6]], 7]
        >>> print(lanes_of(ReductionTree.from_nested(nested))[0])
        2 lanes of 3 terms from term 1 on, 1 terms before, 1 after
    """
    mask = fused_mask(tree, fused)
    if tree.arity != 2:
        return None, f"it has a node with {tree.arity} children, or no node at all"
    n = tree.leaves
    pairs = tree.children.reshape(-1, 2).tolist()
    chains, top = _chains(n, pairs, mask)
    long = max(chains.values(), key=len)
    width = long[-1] - long[-2]
    if width < 1 or len(chains) < width:
        return None, (
            f"its longest chain of additions ends with the terms {long[-2]} and {long[-1]}, which "
            f"is no step of {len(chains)} lanes"
        )
    steady = {node: _steady(chain, width) for node, chain in chains.items()}
    lanes = {k: c for k, c in chains.items() if steady[k][1] >= 2}
    if len(lanes) != width:
        return None, f"{len(lanes)} chains step by {width}; a block of {width} terms needs {width}"
    start = max(0, max(lanes[k][steady[k][0]] for k in lanes) - width + 1)
    # Steps from the first steady term of a lane to its first one in the regular part.
    skip = {k: max(0, -((c[steady[k][0]] - start) // width)) for k, c in lanes.items()}
    begin = {k: steady[k][0] + skip[k] for k in lanes}
    blocks = min(steady[k][1] - skip[k] for k in lanes)
    if blocks < 2:
        return None, "its chains have no regular part in common"
    if sorted(c[begin[k]] for k, c in lanes.items()) != [*range(start, start + width)]:
        return None, f"its {width} chains that step by {width} do not start at neighbouring terms"
    by_start = sorted(lanes, key=lambda k: lanes[k][begin[k]])
    number = {k: i for i, k in enumerate(by_start)}
    regular = mask[start + width : start + width * blocks]
    if regular.any() and not regular.all():
        return None, "some of the products in its regular part are fused and others are not"
    rest = n - width * blocks
    if rest + width > MOST_SCALARS:
        return None, f"{rest} of its {n} terms lie outside the regular part"
    combine = _combine(n, pairs, top, number)
    return (
        Lanes(
            start=start,
            blocks=blocks,
            lanes=tuple(
                Lane(tuple(lanes[k][: begin[k]]), tuple(lanes[k][begin[k] + blocks :]))
                for k in by_start
            ),
            combine=combine,
            fused=bool(regular.any()),
            mask=mask,
        ),
        "",
    )


def _chains(n: int, pairs: list[list[int]], mask: np.ndarray) -> tuple[dict[int, list[int]], int]:
    """The longest chains (a leaf, then a leaf added at a time): {their last node: the leaves in
    order}, and the root."""
    parent_is_chain = set()
    chain: dict[int, tuple[int, int]] = {}  # node -> (the node before or the first leaf, leaf)
    for k, (a, b) in enumerate(pairs):
        if a < n and b < n:
            # The first of two leaves is the lower one, unless it is fused and so comes second.
            first, second = (a, b) if (a < b) != bool(mask[min(a, b)]) else (b, a)
            chain[n + k] = (first, second)
        elif a < n or b < n:
            leaf, node = (a, b) if a < n else (b, a)
            if node in chain:
                chain[n + k] = (node, leaf)
                parent_is_chain.add(node)
    found = {}
    for node in chain:
        if node in parent_is_chain:
            continue
        leaves, at = [], node
        while at >= n:
            at, leaf = chain[at]
            leaves.append(leaf)
        found[node] = [at, *reversed(leaves)]
    return found, n + len(pairs) - 1


def _steady(chain: list[int], step: int) -> tuple[int, int]:
    """(where, how many): the longest part of the chain that goes up by `step`."""
    best, at = (0, 0), 0
    for i in range(1, len(chain) + 1):
        if i == len(chain) or chain[i] - chain[i - 1] != step:
            best = max(best, (i - at, -at))
            at = i
    return -best[1], best[0]


def _combine(n: int, pairs: list[list[int]], root: int, number: dict[int, int]) -> Any:
    done: dict[int, Any] = {}
    todo = [root]
    while todo:  # no recursion: a tail may be long
        node = todo[-1]
        if node in number:
            done[node] = ("lane", number[node])
        elif node < n:
            done[node] = ("term", node)
        elif missing := [c for c in pairs[node - n] if c not in done]:
            todo += missing
            continue
        else:
            done[node] = tuple(done[c] for c in pairs[node - n])
        todo.pop()
    return done[root]
