"""Which terms meet early: l(i, j), the number of terms in the first partial sum with both."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from workbench.orders.tree import ReductionTree
from workbench.plots import style
from workbench.plots.trees import header

_WHOLE = 512  # terms up to which all pairs are shown
_PICKED = 256  # terms picked from a longer sum, and terms at its beginning


def order_matrix(
    trees: ReductionTree | Mapping[str, ReductionTree],
    label: str = "",
    evidence: str = "",
    title: str = "",
) -> Figure:
    """l(i, j) of all pairs of terms, one order a column: dark terms meet early.

    Blocks on the diagonal are terms that are summed on their own first; stripes beside it are terms
    far apart that meet early (strided lanes). A sum of more than 512 terms takes two pictures: 256
    terms picked at random, one from each equal piece of the sum (evenly spaced ones would hide
    stripes), and below all pairs of its first 256.

    Args:
        trees: A tree, or {label: tree}.
        label: The label of a single tree.
        evidence: The line below the figure.
        title: The finding; "": what to look for.
    """
    several = {label: trees} if isinstance(trees, ReductionTree) else dict(trees)
    large = any(tree.leaves > _WHOLE for tree in several.values())
    rows = 2 if large else 1
    if not title:
        title = "Which terms meet early: dark pairs share a small partial sum, light ones meet last"
    width = max(6.5, 1.4 + 3.4 * len(several))
    fig = style.figure(width, 1.3 + 3.2 * rows, title, evidence or style.evidence_text())
    axes = fig.subplots(rows, len(several), squeeze=False)
    different = list(dict.fromkeys(tree.hash for tree in several.values()))
    largest = max([2, *(tree.leaves for tree in several.values())])
    norm = Normalize(0, np.log2(largest))
    for column, (name, tree) in enumerate(several.items()):
        n = tree.leaves
        ax = axes[0, column]
        color = style.CATEGORIES[different.index(tree.hash) % len(style.CATEGORIES)]
        header(ax, name, f"{n:,} terms · order {tree.hash[:6]}", color)
        picked = _picked(n) if n > _WHOLE else np.arange(n)
        _heat(ax, tree, picked, norm, n)
        ax.set_xlabel(f"{len(picked)} of the terms" if n > _WHOLE else "term")
        if large:
            first = np.arange(min(n, _PICKED))
            _heat(axes[1, column], tree, first, norm, len(first))
            axes[1, column].set_xlabel(f"the first {len(first)} terms")
    for ax in axes[:, 0]:
        ax.set_ylabel("term")
    style.size_bar(fig, axes, norm, "l(i, j): terms in the first\npartial sum with both")
    return fig


def _picked(n: int) -> np.ndarray:
    edges = np.arange(_PICKED + 1) * n // _PICKED
    return np.random.default_rng(0).integers(edges[:-1], edges[1:])


def _heat(ax: Axes, tree: ReductionTree, terms: np.ndarray, norm: Normalize, end: int) -> None:
    style.plain_axes(ax)
    if not len(terms):
        return
    values = np.log2(tree.lca_sizes(terms[:, None], terms[None]))
    ax.imshow(
        values, cmap=style.SEQUENTIAL, norm=norm, interpolation="nearest", extent=(0, end, end, 0)
    )
    ticks = [0, end] if end < 4 else [0, end // 2, end]
    ax.set_xticks(ticks)
    ax.set_yticks(ticks)
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    ax.yaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    for spine in ax.spines.values():
        spine.set_visible(False)
