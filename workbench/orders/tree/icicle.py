"""One order of summation as cells of a picture: every sum a cell above the parts it adds.

Two pictures of one order share a shape, so that one function finds what a window of either shows
(`workbench.orders.tree.window`): in the plain one each partial sum is a cell; in the folded one
equal partial sums are one cell, and a run is one level.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.errors import InputError
from workbench.orders.tree.execute import check_terms
from workbench.orders.tree.fold import CHAIN, Shape, uses
from workbench.orders.tree.layout import Layout, RangeExtremes
from workbench.orders.tree.reduction import ReductionTree

# The folded picture: its width, and the least share of the width of a sum that a part of it has.
_WIDE, _LEAST = 1 << 40, 0.07
_FEW = 2000  # cells; with more of them widths are to scale

ROUNDOFF = {"float16": 2.0**-11, "float32": 2.0**-24, "float64": 2.0**-53}


@dataclass(frozen=True, eq=False, repr=False)
class Icicle:
    """The cells of one picture. All arrays are int64 [cells]; a cell covers places on a line.

    Attributes:
        tree: The order, children by their least terms.
        folded: Whether equal sums share a cell.
        start, width: The places a cell covers; its parts tile it. In the plain picture a place is
            a term, as the order takes them. In the folded one widths only tend to follow the
            number of terms: a small part is drawn wide enough to be read.
        level: 0 for the root, one more for each step down.
        parent: The cell above, -1 for the root.
        terms: Terms in one of the sums that the cell stands for.
        count: How many sums that is; 1 in the plain picture.
        things: Parts that one of the sums adds: 2 for an addition, more for a fused node or a run,
            0 for a single term.
        run: 1 where the parts are added from left to right, one after another; else 0.
        first, last: The least and the greatest term number in the first of the sums.
        step: Distance of the least terms of one sum and the next; 0 if there is no such distance.
        depth_min, depth_max: How many additions follow on these sums, up to the result.
        cell_of: For each node of the tree (numbered as in `ReductionTree`) the cell it is in.
    """

    tree: ReductionTree
    folded: bool
    start: np.ndarray
    width: np.ndarray
    level: np.ndarray
    parent: np.ndarray
    terms: np.ndarray
    count: np.ndarray
    things: np.ndarray
    run: np.ndarray
    first: np.ndarray
    last: np.ndarray
    step: np.ndarray
    depth_min: np.ndarray
    depth_max: np.ndarray
    cell_of: np.ndarray
    _shapes: tuple[Shape, ...] = ()  # of the folded picture: what is in its cells,
    _kinds: tuple[int, ...] = ()  # and which of them is in each

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        kind = "folded" if self.folded else "plain"
        return f"Icicle({kind}, {len(self):,} cells of {self.tree.leaves:,} terms)"

    @functools.cached_property
    def by_level(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cells by level and place, their starts, and where each level begins among them."""
        by = np.lexsort((self.start, self.level))
        deepest = int(self.level.max(initial=-1))
        return by, self.start[by], np.searchsorted(self.level[by], np.arange(deepest + 2))

    @functools.cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The cells that have none below them, from left to right, and their starts."""
        above = np.zeros(len(self), bool)
        above[self.parent[self.parent >= 0]] = True
        found = np.flatnonzero(~above)
        found = found[np.argsort(self.start[found])]
        return found, self.start[found]

    @property
    def places(self) -> int:
        """Width of the whole picture."""
        return int(self.width.max())

    @functools.cached_property
    def end(self) -> np.ndarray:
        """The place after the last that a cell covers."""
        return self.start + self.width

    def nodes(self, cell: int) -> np.ndarray:
        """The nodes of the tree in a cell, ascending; of a run all its partial sums."""
        return np.flatnonzero(self.cell_of == cell)


@dataclass(frozen=True, eq=False)
class Shares:
    """How the running error bound of one sum is made up.

    Each addition is off by at most u times the size of its result, and these local errors add up
    to the error of the sum of these terms. So u times the sum of all |partial sum| bounds it, and
    each cell has a share of that bound. It is a share of a bound: where the error itself arose is
    not said. What the terms were rounded by before they were added is not in it.

    Attributes:
        bound: u times the sum of all |partial sum|; NaN where one of them is no finite number.
        own: Share of the additions of each cell itself: fp64 [cells]; NaN without a bound.
        below: Share of each cell with all cells below it.
    """

    bound: float
    own: np.ndarray
    below: np.ndarray


def icicle(tree: ReductionTree, folded: bool = False) -> Icicle:
    """The cells of a picture of `tree`.

    Args:
        tree: Any order of summation, up to millions of terms.
        folded: Equal sums (up to a shift of term numbers) share a cell; see `FoldedTree`.

    Raises:
        InputError: The order adds nothing: there is no cell to draw.

    Example:
        >>> from workbench.orders.standard import reduce_sum
        >>> order = reduce_sum(4096, 1)
        >>> len(icicle(order)), len(icicle(order, folded=True))
        (8191, 8)
    """
    if not tree.leaves:
        raise InputError("this order adds no terms; give one of at least one term to draw it")
    tree = tree.sorted()
    layout = tree._layout
    last = RangeExtremes(layout.leaf_order, np.maximum)(layout.starts, layout.starts + layout.sizes)
    return _folded(tree, last) if folded else _plain(tree, last)


def shares(cells: Icicle, terms: Any) -> Shares:
    """Shares of the running error bound of the sum of `terms`, taken in this order.

    Args:
        cells: A picture of the order.
        terms: float16, float32 or float64 [n].

    Raises:
        InputError: Another shape or dtype.

    Example:
        >>> from workbench.orders.standard import sequential_order
        >>> found = shares(icicle(sequential_order(3)), np.array([1, 2, 5], np.float32))
        >>> found.own.tolist(), found.bound == (3 + 8) * 2**-24
        ([0.0, 0.0, 0.0, 0.2727272727272727, 0.7272727272727273], True)
    """
    terms = check_terms(terms, cells.tree.leaves)
    if terms.ndim != 1:
        raise InputError(
            f"terms have shape {list(terms.shape)}; shares are those of one sum. Give one row [n]"
        )
    size = np.abs(cells.tree.partial_sums(terms).astype(np.float64))
    total = float(size.sum())
    known = np.isfinite(total)
    own: np.ndarray = np.zeros(len(cells))
    if total > 0 or not known:
        inner = cells.cell_of[cells.tree.leaves :]
        part = size / total if known else np.full(len(size), np.nan)
        own = np.bincount(inner, weights=part, minlength=len(cells))
    if not known:
        own[:] = np.nan
    below, up = own.tolist(), cells.parent.tolist()
    # From the bottom up; single terms add nothing.
    by = cells.by_level[0]
    for cell in by[cells.things[by] > 0][::-1].tolist():
        if up[cell] >= 0:
            below[up[cell]] += below[cell]
    bound = ROUNDOFF[terms.dtype.name] * total if known else float("nan")
    return Shares(bound, own, np.array(below))


def _plain(tree: ReductionTree, last: np.ndarray) -> Icicle:
    layout = tree._layout
    ones = np.ones(layout.total, np.int64)
    things = np.zeros(layout.total, np.int64)
    things[layout.leaves :] = np.diff(layout.offsets)
    return Icicle(
        tree,
        False,
        start=layout.starts,
        width=layout.sizes,
        level=layout.depths,
        parent=layout.parents,
        terms=layout.sizes,
        count=ones,
        things=things,
        run=0 * ones,
        first=layout.least,
        last=last,
        step=0 * ones,
        depth_min=layout.depths,
        depth_max=layout.depths,
        cell_of=np.arange(layout.total),
    )


# ---- equal sums in one cell ----------------------------------------------------------------------


def _folded(tree: ReductionTree, last: np.ndarray) -> Icicle:
    layout, shapes = tree._layout, tree.fold().shapes
    sizes = [1]
    for shape in shapes[1:]:
        sizes.append(sum(times * sizes[part] for part, times in uses(shape)))
    columns: dict[str, list[int]] = collections.defaultdict(list)
    cell_of = np.full(layout.total, -1, np.int64)
    # From the root down: a shape, the nodes of the tree that have it, the cell above, its level.
    kinds: list[int] = []
    waiting = [(len(shapes) - 1, np.array([layout.total - 1]), -1, 0)]
    for kind, nodes, parent, level in waiting:
        cell, shape = len(kinds), shapes[kind]
        nodes = nodes[np.argsort(layout.least[nodes])]
        is_run = bool(shape) and shape[0] == CHAIN
        if is_run:
            own, parts = _run_parts(layout, shape, nodes)
        else:
            own, parts = nodes, _node_parts(layout, shape, nodes)
        cell_of[own] = cell
        kinds.append(kind)
        least, depth = layout.least[nodes], layout.depths[nodes]
        steps = np.diff(least)
        even = len(steps) and (steps == steps[0]).all()
        values = {
            "level": level,
            "parent": parent,
            "terms": sizes[kind],
            "count": len(nodes),
            "things": shape[6] + 1 if is_run else len(shape) // 2,
            "run": is_run,
            "first": least[0],
            "last": last[nodes[0]],
            "step": steps[0] if even else 0,
            "depth_min": depth.min(),
            "depth_max": depth.max(),
        }
        for name, value in values.items():
            columns[name].append(int(value))
        for part, found in parts.items():
            waiting.append((part, np.concatenate(found), cell, level + 1))
    arrays = {name: np.array(values, np.int64) for name, values in columns.items()}
    start, width = _widths(arrays["parent"], arrays["terms"] * arrays["count"])
    shown = arrays | {"start": start, "width": width, "cell_of": cell_of}
    return Icicle(tree, True, **shown, _shapes=shapes, _kinds=tuple(kinds))


def _widths(parent: np.ndarray, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Starts and widths of cells, parents before parts, for their numbers of terms."""
    below: list[list[int]] = [[] for _ in terms]
    for cell, above in enumerate(parent.tolist()[1:], 1):
        below[above].append(cell)
    size = terms.tolist()
    # (Remainders of remainders may become narrower than a place: then widths are to scale.)
    for readable in (len(terms) <= _FEW, False):
        start, width = [0] * len(size), [0] * len(size)
        width[0] = _WIDE if readable else size[0]
        for cell, those in enumerate(below):
            if not those:
                continue
            at, least = start[cell], min(_LEAST, 0.5 / len(those))
            for k in those:
                share = least + (1 - least * len(those)) * size[k] / size[cell]
                start[k] = at
                width[k] = int(width[cell] * share) if readable else size[k]
                at += width[k]
            width[those[-1]] = start[cell] + width[cell] - start[those[-1]]
        if min(width) > 0:
            break
    return np.array(start), np.array(width)


def _node_parts(layout: Layout, shape: Shape, nodes: np.ndarray) -> dict[int, list[np.ndarray]]:
    """{shape: children of `nodes` that have it}. Children stand by their least terms, as parts."""
    parts: dict[int, list[np.ndarray]] = {}
    at = layout.offsets[nodes - layout.leaves] if shape else nodes
    for k, part in enumerate(shape[::2]):
        parts.setdefault(part, []).append(layout.children[at + k])
    return parts


def _run_parts(
    layout: Layout, shape: Shape, nodes: np.ndarray
) -> tuple[np.ndarray, dict[int, list[np.ndarray]]]:
    """The partial sums of runs that end in `nodes`, and {shape: the heads, the things added}."""
    _, head, _, item, first, stride, count = shape
    sums, heads, items = [], [], []
    children, offsets, least = _lists(layout)
    for node in nodes.tolist():
        # The last thing was added last. Which child it is, its least term tells.
        wanted = least[node] + first + stride * (count - 1)
        for _ in range(count):
            sums.append(node)
            at = offsets[node - layout.leaves]
            a, b = children[at], children[at + 1]
            node, thing = (b, a) if least[a] == wanted else (a, b)
            items.append(thing)
            wanted -= stride
        heads.append(node)
    parts = {head: [np.array(heads)]}
    parts.setdefault(item, []).append(np.array(items))
    return np.array(sums), parts


def _lists(layout: Layout) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Arrays as lists: many times faster to walk. Kept with the layout."""
    kept = layout.__dict__.get("_walkable")
    if kept is None:
        kept = layout.children.tolist(), layout.offsets.tolist(), layout.least.tolist()
        layout.__dict__["_walkable"] = kept
    return kept
