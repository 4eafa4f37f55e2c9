"""Orders of summation, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from workbench.orders import ReductionTree
from workbench.plots import style

_POINTS = 1000  # of a panel's side, about: lines that agree to a point are drawn once
_FOLD = 64  # subtrees drawn as one triangle each, at most, where a tree is balanced below


@dataclass
class _Drawing:
    """Where the parts of a tree stand: x in terms (in the order of the tree), y in additions."""

    lines: list[list[tuple[float, float]]] = field(default_factory=list)
    triangles: list[list[tuple[float, float]]] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)  # of the deepest term of each triangle
    path: list[tuple[float, float]] = field(default_factory=list)  # of the deepest term
    folded: set[tuple[int, int]] = field(default_factory=set)  # (terms, height) of triangles


def order(tree: ReductionTree, label: str = "", evidence: str = "", title: str = "") -> Figure:
    """One order of summation; see `orders`."""
    if not title:
        low, high = _ends(tree)
        times = f"{high} times" if low == high else f"between {low} and {high} times"
        title = f"{label or 'This order'}: a term is rounded {times} on its way"
    return orders({"": tree}, evidence, title)


def orders(
    trees: Mapping[str, ReductionTree], evidence: str = "", title: str = "", columns: int = 4
) -> Figure:
    """Orders of summation side by side, on one scale; orders with one hash share a colour.

    The sum runs upwards: terms at the bottom, the result at the top. A triangle is a subtree of
    small balanced sums that would be too fine to see. Its colour, and the marked path, tell how
    often a term is rounded on its way.

    Args:
        trees: {label: tree}; trees over the same number of terms compare best.
        evidence: The line below the figure.
        title: The finding; "": one that counts the different orders.
        columns: Panels in a row, at most.
    """
    different = list(dict.fromkeys(tree.hash for tree in trees.values()))
    if not title:
        title = f"{len(trees)} configurations, {len(different)} different orders of summation"
    columns = min(columns, len(trees))
    rows = -(-len(trees) // columns)
    width = max(9.5, 3.6 * columns)
    fig = style.figure(width, 1.5 + 3.4 * rows, title, evidence or style.evidence_text())
    axes = fig.subplots(rows, columns, squeeze=False, sharey=True)
    top = max([1, *(tree.height for tree in trees.values())])
    norm = Normalize(0, top)
    for ax, (label, tree) in zip(axes.flat, trees.items(), strict=False):
        draw_tree(ax, tree, norm)
        ax.set_ylim(-0.02 * top, top * 1.22)  # room above the tree for two lines of text
        color = style.CATEGORIES[different.index(tree.hash) % len(style.CATEGORIES)]
        header(ax, label, f"height {tree.height} · order {tree.hash[:6]}", color)
        ax.set_xlabel(f"{tree.leaves:,} terms")
    for ax in axes[:, 0]:
        ax.set_ylabel("additions")
    for ax in axes.flat[len(trees) :]:
        ax.set_visible(False)
    bar = fig.colorbar(
        ScalarMappable(norm, style.SEQUENTIAL), ax=axes, shrink=0.8, pad=0.01, aspect=30
    )
    bar.set_label("roundings of a term", fontsize=11)
    bar.ax.tick_params(labelsize=10)
    bar.ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    bar.outline.set_visible(False)
    return fig


def header(ax: Axes, label: str, line: str, color: str) -> None:
    """Two lines above a panel, with a bar in the colour of its class."""
    ax.set_title(
        f"{label}\n" if label else " ",
        loc="left",
        fontsize=12.5,
        fontweight="bold",
        color=style.INK,
    )
    ax.text(0, 1.025, line, transform=ax.transAxes, fontsize=10.5, color=style.SOFT, va="bottom")
    ax.plot([0, 1], [1.005, 1.005], transform=ax.transAxes, color=color, lw=5, clip_on=False)


def draw_tree(ax: Axes, tree: ReductionTree, norm: Normalize | None, color: str = "") -> None:
    """Draw `tree` into `ax`, triangles coloured by `norm` over roundings, or all in `color`."""
    style.plain_axes(ax)
    ax.set_xticks(sorted({0, tree.leaves // 2, tree.leaves}))
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    ax.yaxis.set_major_locator(MaxNLocator(6, integer=True))
    drawing = _lay_out(tree)
    ax.add_collection(
        LineCollection(drawing.lines, colors=style.SOFT, linewidths=0.9, capstyle="round")
    )
    if drawing.triangles:
        triangles = PolyCollection(drawing.triangles)
        if norm is None:
            triangles.set_facecolor(color)
        else:
            triangles.set(array=np.array(drawing.depths), cmap=style.SEQUENTIAL, norm=norm)
        triangles.set_edgecolor("face")
        ax.add_collection(triangles)
    if drawing.path:
        x, y = zip(*drawing.path, strict=True)
        ax.plot(x, y, color=style.ACCENT, lw=2.2, solid_joinstyle="round")
    ax.set_xlim(-0.01 * max(tree.leaves, 1), max(tree.leaves, 1) * 1.01)
    terms = sorted({terms for terms, _ in drawing.folded})
    note = f"▲ {terms[0]:,}" + (f" to {terms[-1]:,}" if len(terms) > 1 else "") if terms else ""
    if note:
        pairs = all(high == (size - 1).bit_length() for size, high in drawing.folded)
        note += " terms, added in pairs" if pairs else " terms, folded"
    where: dict[str, Any] = {"transform": ax.transAxes, "fontsize": 9.5, "va": "top"}
    ax.text(0.02, 0.97, note, color=style.SOFT, **where)
    if drawing.path:
        below = 0.9 if note else 0.97
        ax.text(0.02, below, "━ the longest path", color=style.ACCENT, **where)


def _ends(tree: ReductionTree) -> tuple[int, int]:
    depths = tree.depths()
    return (int(depths.min()) if len(depths) else 0), tree.height


def _lay_out(tree: ReductionTree) -> _Drawing:
    """Fold small subtrees into triangles and give the rest its places. No recursion."""
    drawing = _Drawing()
    n, inner = tree.leaves, len(tree.offsets) - 1
    if not n:
        return drawing
    kids = [
        tree.children[a:b].tolist()
        for a, b in zip(tree.offsets[:-1].tolist(), tree.offsets[1:].tolist(), strict=True)
    ]
    total, layout = n + inner, tree._layout
    size, height, first, depth = (
        found.tolist() for found in (layout.sizes, layout.heights, layout.least, layout.depths)
    )
    limit = n // _FOLD
    # Terms are placed in the order of the tree, so that lines never cross.
    x = [0.0] * total
    place, stack = 0.0, [total - 1]
    shown: list[int] = []
    while stack:
        node = stack.pop()
        if node < n or size[node] <= limit:
            x[node] = place + size[node] / 2
            if node >= n:
                left, right = place, place + size[node]
                drawing.triangles.append([(left, 0), (right, 0), (x[node], height[node])])
                drawing.depths.append(depth[node] + height[node])
                drawing.folded.add((size[node], height[node]))
            place += size[node]
            continue
        shown.append(node)
        stack += sorted(kids[node - n], key=lambda c: first[c], reverse=True)
    fine, drawn = (_POINTS / n, _POINTS / max(height[-1], 1)), set()
    for node in sorted(shown):
        at = [x[c] for c in kids[node - n]]
        low, high = min(at), max(at)
        x[node] = (low + high) / 2
        # A deep tree has more lines than there are points to tell them apart.
        mark = (round(low * fine[0]), round(high * fine[0]), round(height[node] * fine[1]))
        if mark in drawn:
            continue
        drawn.add(mark)
        drawing.lines.append([(low, height[node]), (high, height[node])])
        for child in kids[node - n]:
            drawing.lines.append([(x[child], height[child]), (x[child], height[node])])
    # The path of the deepest term, from the top down to where it is folded.
    node = total - 1
    drawing.path.append((x[node], height[node]))
    while node >= n and size[node] > limit:
        child = max(kids[node - n], key=lambda c: height[c])
        drawing.path += [(x[child], height[node]), (x[child], height[child])]
        node = child
    return drawing
