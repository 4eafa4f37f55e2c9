"""Figures about single bits, and about how many outputs change theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from workbench.orders import ReductionTree
from workbench.plots import style
from workbench.plots.trees import draw_tree, header

_FIELDS = {"sign": (0, 1), "exponent": (1, 9), "mantissa": (9, 32)}  # of fp32, from the left
_OFF, _ON = "#f3f4f2", "#b9c0c7"


def bit_patterns(
    patterns: Mapping[str, np.ndarray],
    sizes: Sequence[int],
    evidence: str = "",
    title: str = "",
    axis: str = "rows in batch",
) -> Figure:
    """One logit, its 32 bits, for each size of the batch its row stands in.

    Args:
        patterns: {label: int32 or uint32 [len(sizes)], the bits of one fp32 logit}; the first is
            the row on its own. Bits that differ from the first are coloured and crossed.
        sizes: Batch sizes.
        axis: What the sizes are.
    """
    moved = [label for label, p in patterns.items() if len(set(np.asarray(p).tolist())) > 1]
    title = title or (
        f"One logit of one row: {' and '.join(moved)} write other bits into it"
        if moved
        else "One logit of one row: the same 32 bits in every batch"
    )
    fig = style.figure(
        13,
        1.7 + (0.6 + 0.26 * len(sizes)) * len(patterns),
        title,
        evidence or style.evidence_text(),
    )
    axes = fig.subplots(len(patterns), 1, squeeze=False, sharex=True)[:, 0]
    for ax, (label, pattern) in zip(axes, patterns.items(), strict=True):
        words = np.asarray(pattern).astype(np.int64) & 0xFFFFFFFF
        bits = (words[:, None] >> np.arange(31, -1, -1)) & 1
        flipped = bits != bits[0]
        colors = np.empty((*bits.shape, 3))
        colors[bits == 0], colors[bits == 1] = style.to_rgb(_OFF), style.to_rgb(_ON)
        colors[flipped] = style.to_rgb(style.ACCENT)
        ax.imshow(colors, aspect="auto", interpolation="nearest")
        style.cell_axes(ax, [""] * 32, sizes)
        for row, column in zip(*np.nonzero(flipped), strict=True):
            ax.text(column, row, "×", ha="center", va="center", color="white", fontsize=10)
        for row, word in enumerate(words.tolist()):
            value = np.array(word, np.uint32).view(np.float32)
            ax.text(
                31.8,
                row,
                f"{word:#010x}   {value:.9g}",
                va="center",
                fontsize=9.5,
                family="monospace",
                color=style.INK if not flipped[row].any() else style.ACCENT,
            )
        for _, end in list(_FIELDS.values())[:-1]:
            ax.axvline(end - 0.5, color=style.INK, lw=1.2)
        ax.set_title(label, loc="left", fontsize=12.5, fontweight="bold")
        ax.set_ylabel(axis)
    for name, (start, end) in _FIELDS.items():
        axes[-1].text(
            (start + end - 1) / 2,
            len(sizes) - 0.35,
            name,
            ha="center",
            va="top",
            fontsize=11,
            color=style.SOFT,
        )
    note = "dark: 1, light: 0, ×: differs from the first line"
    axes[0].set_title(note, loc="right", fontsize=10, color=style.SOFT)
    # imshow's limits leave no room for the hex column beside it.
    for ax in axes:
        ax.set_xlim(-0.5, 40)
    return fig


def changed_outputs(
    by_blocks: Mapping[int, Any],
    by_tile: Mapping[int, Any],
    baselines: tuple[str, str] = ("", ""),
    evidence: str = "",
    title: str = "",
) -> Figure:
    """How many outputs change their bits with MAX_BLOCKS (none may) and with the tile length.

    Args:
        by_blocks: {MAX_BLOCKS: BitComparison with the baseline}.
        by_tile: {tile: BitComparison with the baseline}.
        baselines: The configurations compared with, in words, for each side.
    """
    moved = sum(not c.equal for c in by_blocks.values())
    title = title or (
        "MAX_BLOCKS changes no bit; the tile length does"
        if not moved
        else f"{moved} of {len(by_blocks)} values of MAX_BLOCKS change bits"
    )
    fig = style.figure(13, 4.6, title, evidence or style.evidence_text())
    left, right = fig.subplots(1, 2, sharey=True, width_ratios=[len(by_blocks), len(by_tile)])
    top = max(c.elements for c in [*by_blocks.values(), *by_tile.values()])
    sides = (left, by_blocks, "MAX_BLOCKS"), (right, by_tile, "tile length")
    for (ax, found, name), baseline in zip(sides, baselines, strict=True):
        _bars(ax, found)
        ax.set_xlabel(name)
        ax.set_title(baseline, loc="left", fontsize=12.5, fontweight="bold")
        ax.axhline(top, color=style.SOFT, lw=1, ls=(0, (4, 3)))
        ax.set_ylim(-0.02 * top, top * 1.14)
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    left.text(-0.4, top * 1.015, f"all {top:,} outputs", fontsize=10, color=style.SOFT)
    left.set_ylabel("outputs whose bits differ")
    return fig


def _bars(ax: Axes, found: Mapping[int, Any]) -> None:
    style.plain_axes(ax, grid=True)
    counts = [c.mismatches for c in found.values()]
    ax.bar(range(len(found)), counts, color=style.CATEGORIES[0], width=0.7)
    for x, count in enumerate(counts):
        text, color = (f"≠\n{count:,}", style.INK) if count else ("=\n0", style.INK)
        ax.text(x, count, text, ha="center", va="bottom", fontsize=11, color=color)
    ax.set_xticks(range(len(found)), [str(key) for key in found])
    ax.tick_params(axis="x", length=0)


def tile_overview(
    trees: Mapping[int, ReductionTree],
    drifts: Mapping[int, Any],
    changed: Mapping[int, Any],
    blocks_changed: Mapping[int, Mapping[int, Any]],
    evidence: str = "",
    title: str = "",
) -> Figure:
    """Everything a tile decides at a glance: order, bit class, drift; and MAX_BLOCKS, nothing.

    Args:
        trees: {tile: declared order}.
        drifts: {tile: DriftResult against "exact" and "torch.mv"}.
        changed: {tile: BitComparison with the last tile}.
        blocks_changed: {tile: {MAX_BLOCKS: BitComparison with the default one}}.
    """
    classes = list(dict.fromkeys(trees[t].hash for t in reversed(list(trees))))
    moved = sum(not c.equal for found in blocks_changed.values() for c in found.values())
    title = title or (
        "The tile decides the order, the bits and the error; MAX_BLOCKS decides none of them"
        if not moved
        else f"{moved} values of MAX_BLOCKS change bits"
    )
    n, last = len(trees), list(trees)[-1]
    fig = style.figure(12, 6.2, title, evidence or style.evidence_text(drifts))
    axes = fig.subplots(3, n, squeeze=False, sharey="row", height_ratios=[3.2, 1.5, 0.62])
    top = max(tree.height for tree in trees.values())
    reference = max(d["torch.mv", "exact"].max_abs for d in drifts.values())
    for column, (tile, tree) in enumerate(trees.items()):
        index = classes.index(tree.hash)
        color = style.CATEGORIES[index % len(style.CATEGORIES)]
        found = changed[tile]
        versus = (
            "the default"
            if tile == last
            else (f"= tile {last}" if found.equal else f"≠ {found.mismatches:,} outputs")
        )
        ax = axes[0, column]
        draw_tree(ax, tree, None, color)
        ax.set_ylim(-0.02 * top, top * 1.1)
        header(ax, f"tile {tile}", f"bit class {'ABCDEFGH'[index]} · {versus}", color)
        ax.set_xticks([])
        _error_bars(axes[1, column], drifts[tile], reference, color)
        _strip(axes[2, column], blocks_changed[tile])
    axes[0, 0].set_ylabel("order\n(additions)")
    axes[1, 0].set_ylabel("max error\nagainst fp64")
    axes[2, 0].set_ylabel("MAX_\nBLOCKS", rotation=0, ha="right", va="center")
    return fig


def _error_bars(ax: Axes, drift: Any, reference: float, color: str) -> None:
    own, mv = drift["kernel", "exact"].max_abs, drift["torch.mv", "exact"].max_abs
    style.plain_axes(ax)
    ax.barh([1, 0], [own, mv], color=[color, style.FAINT], height=0.72)
    ax.set_xlim(0, reference * 1.02)
    ax.set_ylim(-0.5, 1.5)
    ax.set_yticks([])
    ax.set_xticks([])
    for y, value, name in ((1, own, "kernel"), (0, mv, "torch.mv")):
        text, inside = f" {name} {style.scientific(value)}", value > 0.6 * reference
        x = 0 if inside else value
        ink = style.ink_on(style.FAINT) if inside else style.INK
        ax.text(x, y, text, va="center", ha="left", fontsize=10.5, color=ink)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)


def _strip(ax: Axes, found: Mapping[int, Any]) -> None:
    style.plain_axes(ax)
    for x, comparison in enumerate(found.values()):
        color = "#eef1f4" if comparison.equal else style.ACCENT
        ax.bar(x, 1, 0.94, color=color)
        mark = "=" if comparison.equal else "≠"
        ax.text(x, 0.5, mark, ha="center", va="center", fontsize=11, color=style.ink_on(color))
    ax.set_xticks(range(len(found)), [str(b) for b in found])
    ax.tick_params(axis="x", length=0, labelsize=9)
    ax.set_yticks([])
    ax.set_ylim(0, 1)
    moved = sum(not c.equal for c in found.values())
    ax.set_xlabel("every bit equal" if not moved else f"{moved} change bits", fontsize=10.5)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
