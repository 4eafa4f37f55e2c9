"""Orders of summation as icicles: every partial sum a cell, any number of terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from workbench.orders.tree import ReductionTree
from workbench.orders.tree.layout import Layout
from workbench.plots import style
from workbench.plots.trees import header

_WIDE, _HIGH = 720, 480  # cells of the picture that a panel is painted on
_EDGES = 2500  # partial sums that get a border, at most
_DEEP = 40  # levels up to which the axis is linear
_NUMBERED = 24  # terms up to which the strip has figures
_STRIP = 0.075  # height of the strip of term numbers, of the panel's
_APART = 0.07  # between two levels with a number on them, of the axis, at least


def icicle(tree: ReductionTree, label: str = "", evidence: str = "", title: str = "") -> Figure:
    """One order of summation as an icicle; see `icicles`."""
    if not title:
        depths = tree.depths()
        low, high = (int(depths.min()), tree.height) if tree.leaves else (0, 0)
        times = f"{high} times" if low == high else f"{low} to {high} times"
        title = f"{label or 'This order'}: a term is rounded {times}"
    return icicles({"": tree}, evidence, title)


def icicles(
    trees: Mapping[str, ReductionTree],
    evidence: str = "",
    title: str = "",
    columns: int = 3,
    log: bool | None = None,
    high: float = 3.7,
) -> Figure:
    """Orders of summation as icicles side by side.

    The result is the bar on top; below each sum stand the parts it adds, as wide as they have
    terms. How far a column hangs down is how often that term is rounded. The colour is the number
    of terms in a partial sum. The grey strip below has the number of each term, from light, the
    first, to dark, the last: a plain ramp unless the order takes terms from far apart. Where a
    column of the picture holds several terms, it shows the deepest one.

    Args:
        trees: {label: tree}; orders with one hash share the colour of their bar.
        evidence: The line below the figure.
        title: The finding; "": one that counts the different orders.
        columns: Panels in a row, at most.
        log: A logarithmic axis of roundings. None: where an order is deeper than 40 levels.
        high: Inches of a row of panels.
    """
    different = list(dict.fromkeys(tree.hash for tree in trees.values()))
    if not title:
        deep = [tree.height for tree in trees.values()]
        title = (
            f"{len(different)} different orders: the deepest term is rounded "
            + (f"{max(deep):,}" if min(deep) == max(deep) else f"{min(deep)} to {max(deep):,}")
            + " times"
        )
    columns = min(columns, len(trees))
    rows = -(-len(trees) // columns)
    width = max(9.5, 4.4 * columns)
    fig = style.figure(width, 1.3 + high * rows, title, evidence or style.evidence_text())
    axes = fig.subplots(rows, columns, squeeze=False, sharey=True)
    top = max([1, *(tree.height for tree in trees.values())])
    if log is None:
        log = top > _DEEP
    largest = max([2, *(tree.leaves for tree in trees.values())])
    norm = Normalize(0, np.log2(largest))
    scale = _Scale(top, log)
    for ax, (label, tree) in zip(axes.flat, trees.items(), strict=False):
        _draw(ax, tree.sorted(), scale, norm)
        color = style.CATEGORIES[different.index(tree.hash) % len(style.CATEGORIES)]
        header(ax, label, f"height {tree.height:,} · order {tree.hash[:6]}", color)
        ax.set_xlabel(f"{tree.leaves:,} terms, as the order takes them")
    for ax in axes[:, 0]:
        ax.set_ylabel("roundings" + (" (log)" if log else ""))
    for ax in axes.flat[len(trees) :]:
        ax.set_visible(False)
    style.size_bar(fig, axes, norm, "terms in a partial sum")
    return fig


class _Scale:
    """Levels of the tree (0 is the result) against the place on the axis."""

    def __init__(self, top: int, log: bool):
        self.top, self.log = top, log
        self.end = float(self.of(np.array([top + 1.0]))[0])

    def of(self, level: np.ndarray) -> np.ndarray:
        return np.log2(1 + level) if self.log else level

    def level(self, place: np.ndarray) -> np.ndarray:
        found = np.exp2(place) - 1 if self.log else place
        return np.floor(found).astype(np.int64)

    def _apart(self, a: int, b: int) -> float:
        """How far two levels are from each other on the axis, of all of it with its strips."""
        at = self.of(np.array([a, b]) + 0.5)
        return float(abs(at[1] - at[0]) / self.end / (1 + 2 * _STRIP))

    def ticks(self) -> list[int]:
        """Levels with a number on them: round ones, and the last but for lack of room."""
        if self.log:
            found = [0, self.top]
            for level in [factor * 10**power for factor in (1, 3) for power in range(7)]:
                if level < self.top and min(self._apart(level, other) for other in found) > _APART:
                    found.append(level)
            return sorted(found)
        step = max(1, -(-self.top // 6))
        return [*range(0, self.top - step // 2, step), self.top]


def _draw(ax: Axes, tree: ReductionTree, scale: _Scale, norm: Normalize) -> None:
    style.plain_axes(ax)
    n = max(tree.leaves, 1)
    strip = _STRIP * scale.end
    ax.set_xlim(0, n)
    ax.set_ylim(scale.end + 2 * strip, 0)  # the result is on top
    ticks = scale.ticks()
    ax.set_yticks(scale.of(np.array(ticks) + 0.5).tolist(), [f"{t:,}" for t in ticks])
    ax.set_xticks([0, n] if n < 4 else [0, n // 2, n])
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    if not tree.leaves:
        return
    layout = tree._layout
    picture = _painted(layout, scale)
    shown: dict[str, Any] = {"aspect": "auto", "interpolation": "nearest", "zorder": 1}
    ax.imshow(
        np.ma.masked_less(picture, 0),
        cmap=style.SEQUENTIAL,
        norm=norm,
        extent=(0, n, scale.end, 0),
        **shown,
    )
    numbers = layout.leaf_order[_columns(layout)][None]
    below = (0, n, scale.end + 2 * strip, scale.end + strip)
    ax.imshow(numbers, cmap="Greys", vmin=-0.2 * n, vmax=n, extent=below, **shown)
    ax.text(
        0.004 * n,
        scale.end + 0.93 * strip,
        "number of each term: light, the first; dark, the last",
        fontsize=9,
        color=style.SOFT,
        va="bottom",
    )
    if n <= _NUMBERED:
        for place, term in enumerate(layout.leaf_order.tolist()):
            color = "white" if term > n / 2 else style.INK
            ax.text(
                place + 0.5,
                scale.end + 1.5 * strip,
                str(term),
                fontsize=8,
                color=color,
                ha="center",
                va="center",
            )
    _borders(ax, layout, scale)


def _columns(layout: Layout) -> np.ndarray:
    """The place of the term that each column of the picture shows: its deepest one."""
    n = layout.leaves
    wide = min(n, _WIDE)
    edges = np.arange(wide + 1) * n // wide
    depths = layout.depths[layout.leaf_order]
    deepest = np.maximum.reduceat(depths, edges[:-1])
    column = np.repeat(np.arange(wide), np.diff(edges))
    hit = np.flatnonzero(depths == deepest[column])
    return hit[np.searchsorted(column[hit], np.arange(wide))]


def _painted(layout: Layout, scale: _Scale) -> np.ndarray:
    """The logarithm of the size of the partial sum at each point; -1 where there is none."""
    places = _columns(layout)
    levels = scale.level((np.arange(_HIGH) + 0.5) / _HIGH * scale.end)
    by = np.lexsort((layout.starts, layout.depths))
    bounds = np.searchsorted(layout.depths[by], np.arange(scale.top + 3))
    picture = np.full((_HIGH, len(places)), -1.0)
    drawn: dict[int, np.ndarray] = {}
    for row, level in enumerate(np.minimum(levels, scale.top + 1).tolist()):
        if level not in drawn:
            nodes = by[bounds[level] : bounds[level + 1]]
            line = np.full(len(places), -1.0)
            if len(nodes):
                at = np.searchsorted(layout.starts[nodes], places, side="right") - 1
                node = nodes[np.maximum(at, 0)]
                inside = (at >= 0) & (places < layout.starts[node] + layout.sizes[node])
                line[inside] = np.log2(layout.sizes[node[inside]])
            drawn[level] = line
        picture[row] = drawn[level]
    return picture


def _borders(ax: Axes, layout: Layout, scale: _Scale) -> None:
    """White borders around the cells that are large enough to have them."""
    high = scale.of(layout.depths + 1.0) - scale.of(layout.depths + 0.0)
    seen = (layout.sizes * 150 >= layout.leaves) & (high * 75 >= scale.end)
    nodes = np.flatnonzero(seen)
    if not 0 < len(nodes) <= _EDGES:
        return
    left, right = layout.starts[nodes], layout.starts[nodes] + layout.sizes[nodes]
    up, down = scale.of(layout.depths[nodes] + 0.0), scale.of(layout.depths[nodes] + 1.0)
    corners = np.stack([left, up, right, up, right, down, left, down], axis=1)
    cells = PolyCollection(list(corners.reshape(-1, 4, 2)), zorder=2)
    cells.set(facecolor="none", edgecolor="white", linewidth=0.5)
    ax.add_collection(cells)
