"""Figures made of coloured cells: bit classes, drift over tile and hidden size, invariance."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize, TwoSlopeNorm
from matplotlib.figure import Figure

from workbench.plots import style

Cell = tuple[int, int]  # (tile length, hidden size) or (tile length, MAX_BLOCKS)
_SAME = "#c3c9cf"  # the same bits: darker than the middle of the diverging map
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class _Drift(Protocol):  # what is used of workbench.numerics.DriftResult
    evidence: Any

    def __getitem__(self, pair: tuple[str, str]) -> Any: ...


class _Invariance(Protocol):  # what is used of workbench.numerics.InvarianceResult
    transforms: Any
    passed: bool


def bit_classes(
    declared: Mapping[str, Mapping[Cell, str]],
    observed: Mapping[str, Mapping[Cell, str]],
    evidence: str = "",
    title: str = "",
) -> Figure:
    """Which tiles share every bit, by the declared order and by the bits of real outputs.

    Within a column (one hidden size) cells of one letter have one declared order; A is the
    class of the largest tile. A filled dot says that the bits of the outputs group the same way,
    a cross that they do not.

    Args:
        declared: {panel: {(tile, hidden size): name of the order}}.
        observed: Likewise, names of the outputs' bits (`workbench.numerics.fixture_id`).
    """
    title = title or "Tiles with one letter share every bit"
    shapes = {label: _axes_of([names]) for label, names in declared.items()}
    columns = [len(sizes) for _, sizes in shapes.values()]
    rows = max(len(tiles) for tiles, _ in shapes.values())
    fig = style.figure(
        max(8.0, 1.6 + sum(max(2.5, 0.9 * count) for count in columns)),
        2.6 + 0.5 * rows,
        title,
        evidence or style.evidence_text(),
    )
    axes = fig.subplots(1, len(declared), squeeze=False, sharey=True, width_ratios=columns)[0]
    for ax, (label, names) in zip(axes, declared.items(), strict=True):
        tiles, sizes = shapes[label]
        colors = np.ones((len(tiles), len(sizes), 3))
        for column, size in enumerate(sizes):
            letters = _letters({t: names[t, size] for t in tiles if (t, size) in names})
            seen = _letters({t: observed[label][t, size] for t in letters})
            mark = "●" if letters == seen else "×"
            for row, tile in enumerate(tiles):
                if tile not in letters:
                    continue
                index = _LETTERS.index(letters[tile])
                color = style.CATEGORIES[index % len(style.CATEGORIES)]
                colors[row, column] = style.to_rgb(color)
                ink = style.ink_on(color)
                ax.text(column, row, letters[tile], ha="center", va="center", color=ink, size=13)
                ax.text(column + 0.36, row - 0.3, mark, ha="center", va="center", color=ink, size=7)
        ax.imshow(colors, aspect="auto", interpolation="nearest")
        style.cell_axes(ax, sizes, tiles)
        ax.set_xlabel("hidden size H")
        ax.set_title(f"{label}\n", loc="left", fontsize=12.5, fontweight="bold")
    axes[0].set_ylabel("tile length")
    legend = "letter: the declared order   ●: the outputs' bits group alike   ×: they do not"
    where = {"transform": axes[0].transAxes, "fontsize": 10.5, "va": "bottom"}
    # Out of the layout: it runs over the panels to its right.
    axes[0].text(0, 1.02, legend, color=style.SOFT, **where).set_in_layout(False)
    return fig


def _letters(names: Mapping[int, str]) -> dict[int, str]:
    """Letters for the names of one column, A for that of the largest tile."""
    order = list(dict.fromkeys(names[tile] for tile in sorted(names, reverse=True)))
    return {tile: _LETTERS[order.index(name)] for tile, name in names.items()}


def drift_heatmap(
    panels: Mapping[str, Mapping[Cell, _Drift]], evidence: str = "", title: str = ""
) -> Figure:
    """The largest error against the exact logits over tile and hidden size; `torch.mv`'s below it.

    Args:
        panels: {panel: {(tile, hidden size): DriftResult against "exact" and "torch.mv"}}.
    """
    title = title or "The error follows the order of summation, so it follows the tile"
    tables = []
    for results in panels.values():
        tiles, sizes = _axes_of([results])
        table = np.full((len(tiles) + 1, len(sizes)), np.nan)
        for (tile, size), result in results.items():
            column = sizes.index(size)
            table[tiles.index(tile), column] = result["kernel", "exact"].max_abs
            table[-1, column] = result["torch.mv", "exact"].max_abs
        tables.append((tiles, sizes, table))
    positive = np.concatenate([t[(t > 0) & np.isfinite(t)] for _, _, t in tables])
    norm = LogNorm(*(positive.min(), positive.max()) if len(positive) else (1e-9, 1))
    columns = [len(sizes) for _, sizes, _ in tables]
    rows = max(len(t) for _, _, t in tables)
    fig = style.figure(
        2.6 + 0.9 * sum(columns) + 0.9 * len(columns),
        2.5 + 0.52 * rows,
        title,
        evidence or style.evidence_text(*panels.values()),
    )
    axes = fig.subplots(1, len(panels), squeeze=False, width_ratios=columns)[0]
    for ax, label, (tiles, sizes, table) in zip(axes, panels, tables, strict=True):
        # A gap row between the kernel's tiles and torch.mv, which has no tile.
        spread = np.insert(table, len(tiles), np.nan, axis=0)
        cells(ax, spread, norm, style.scientific)
        style.cell_axes(ax, sizes, [*tiles, "", "torch.mv"])
        if ax is not axes[0] and tiles == tables[0][0]:
            ax.tick_params(labelleft=False)
        ax.set_xlabel("hidden size H")
        ax.set_title(label, loc="left", fontsize=12.5, fontweight="bold")
    axes[0].set_ylabel("tile length")
    bar = fig.colorbar(ScalarMappable(norm, style.SEQUENTIAL), ax=axes, pad=0.01, aspect=28)
    bar.set_label("max |error| against fp64, in units of the logits", fontsize=11)
    bar.outline.set_visible(False)
    return fig


def invariance_table(
    results: Mapping[str, _Invariance], evidence: str = "", title: str = ""
) -> Figure:
    """Mismatches per callable and transform: "=" every bit equal, "≠" and the share that differs.

    Where every cell is "=", there is no colour bar: it would be a scale of nothing.

    Args:
        results: {label: InvarianceResult}, all with the same transforms.
    """
    passed = [label for label, result in results.items() if result.passed]
    title = title or f"{len(passed)} of {len(results)} keep every bit of a row in every batch"
    names = list(dict.fromkeys(t.name for r in results.values() for t in r.transforms))
    words = {t.name: t.relation for r in results.values() for t in r.transforms}
    share = np.full((len(results), len(names)), np.nan)
    texts = np.full(share.shape, "", dtype=object)
    for row, result in enumerate(results.values()):
        for t in result.transforms:
            column = names.index(t.name)
            share[row, column] = t.mismatches / max(t.elements, 1)
            texts[row, column] = "=" if t.passed else "none" if not t.elements else _share(t)
    fig = style.figure(
        3.4 + 1.35 * len(names),
        2.2 + 0.6 * len(results),
        title,
        evidence or style.evidence_text(*results.values()),
    )
    ax = fig.subplots()
    cells(ax, share, Normalize(0, 1), None, texts, zero="#eef1f4")
    columns = [f"{name}\n{_short(words[name])}" for name in names]
    style.cell_axes(ax, columns, list(results))
    ax.xaxis.tick_top()
    if np.nansum(share) > 0:
        bar = fig.colorbar(
            ScalarMappable(Normalize(0, 100), style.SEQUENTIAL), ax=ax, pad=0.01, aspect=18
        )
        bar.set_label("% of outputs changed", fontsize=11)
        bar.outline.set_visible(False)
    return fig


def _share(transform: Any) -> str:
    share = transform.mismatches / transform.elements
    return f"≠ {share:.0%}" if share >= 0.01 else f"≠ {transform.mismatches:,}"


def _short(relation: str) -> str:
    """ "batch population: the same rows in …" as two short lines."""
    head = relation.split(":")[0].replace("neighbour content", "neighbours")
    head = head.replace("batch population", "batch size")
    return head.split(",")[0]


def invariance_grid(
    results: Mapping[Cell, _Invariance],
    controls: Mapping[str, _Invariance] | None = None,
    evidence: str = "",
    title: str = "",
) -> Figure:
    """Mismatches for each configuration, and below the grid those of controls that must be caught.

    Args:
        results: {(tile, MAX_BLOCKS): InvarianceResult}.
        controls: {label: InvarianceResult} of callables that break the rule on purpose.
    """
    controls = controls or {}
    tiles, blocks = _axes_of([results])
    failed = sum(not r.passed for r in results.values())
    title = title or (
        f"All {len(results)} configurations keep every bit of a row in every batch"
        if not failed
        else f"{failed} of {len(results)} configurations change a row's bits with its batch"
    )
    rows = [*tiles, *([""] if controls else []), *controls]
    share = np.full((len(rows), len(blocks)), np.nan)
    texts = np.full(share.shape, "", dtype=object)
    for (tile, block), result in results.items():
        at = tiles.index(tile), blocks.index(block)
        share[at], texts[at] = _total(result)
    fig = style.figure(
        4.2 + 1.3 * len(blocks),
        2.4 + 0.55 * len(rows),
        title,
        evidence or style.evidence_text(results),
    )
    ax = fig.subplots()
    cells(ax, share, Normalize(0, 1), None, texts, zero="#eef1f4")
    for row, result in zip(range(len(tiles) + 1, len(rows)), controls.values(), strict=True):
        value, text = _total(result)
        color = colormaps[style.SEQUENTIAL](value)
        ax.barh(row, len(blocks), 1, left=-0.5, color=color, zorder=3)
        ax.text(
            (len(blocks) - 1) / 2,
            row,
            f"{text}: caught" if value else f"{text}: not caught",
            ha="center",
            va="center",
            color=style.ink_on(color),
            fontsize=12,
            zorder=4,
        )
    style.cell_axes(ax, blocks, rows)
    ax.set_xlim(-0.5, len(blocks) - 0.5)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel("MAX_BLOCKS")
    ax.set_ylabel("tile length")
    return fig


def _total(result: _Invariance) -> tuple[float, str]:
    elements = sum(t.elements for t in result.transforms)
    mismatches = sum(t.mismatches for t in result.transforms)
    sign = "=" if not mismatches else "≠"
    return mismatches / max(elements, 1), f"{sign}  {mismatches:,} of {elements:,}"


def batch_shift(
    shifts: Mapping[str, np.ndarray], sizes: list[int], evidence: str = "", title: str = ""
) -> Figure:
    """How far each logit of one row moves when the row stands in a larger batch.

    Args:
        shifts: {label: [len(sizes), V]}, logit in a batch of that size minus logit alone; exactly
            0 is drawn grey, whatever the scale.
        sizes: Batch sizes, the rows of each array.
    """
    moved = [label for label, shift in shifts.items() if (shift != 0).any()]
    title = title or (
        f"{' and '.join(moved)} move a row's logits with its batch"
        if moved
        else "No logit moves with the batch"
    )
    fig = style.figure(1.2 + 5.2 * len(shifts), 5, title, evidence or style.evidence_text())
    axes = fig.subplots(1, len(shifts), squeeze=False, sharey=True)[0]
    cmap = colormaps[style.DIVERGING].with_extremes(bad=_SAME)
    for ax, (label, shift) in zip(axes, shifts.items(), strict=True):
        # A scale of its own: what is far for one input is near for another.
        largest = float(np.abs(shift).max(initial=0)) or 1e-9
        norm = TwoSlopeNorm(0, -largest, largest)
        drawn = np.ma.masked_equal(shift, 0)
        ax.imshow(drawn, aspect="auto", cmap=cmap, norm=norm, interpolation="nearest")
        count = int((shift != 0).sum())
        share = f"{count / max(shift.size, 1):.0%} of logits moved" if count else "every bit equal"
        ax.set_title(f"{label}\n", loc="left", fontsize=12.5, fontweight="bold")
        ax.text(
            0,
            1.02,
            f"{share}; grey: same bits",
            transform=ax.transAxes,
            fontsize=11,
            color=style.SOFT,
        )
        ax.set_xlabel("vocabulary entry")
        ax.set_yticks(range(len(sizes)), [str(s) for s in sizes])
        style.plain_axes(ax)
        ax.tick_params(axis="y", length=0)
        bar = fig.colorbar(ScalarMappable(norm, cmap), ax=ax, pad=0.02, aspect=28)
        bar.formatter.set_powerlimits((0, 0))  # type: ignore[attr-defined]
        bar.outline.set_visible(False)
        bar.ax.set_title("shift", fontsize=10, pad=18)
    axes[0].set_ylabel("rows in the batch")
    return fig


def cells(
    ax: Axes,
    values: np.ndarray,
    norm: Normalize,
    form: Any,
    texts: np.ndarray | None = None,
    zero: str | None = None,
) -> None:
    """A table of cells coloured by `values`, with a text in each; NaN stays empty.

    Args:
        form: value -> text; not used where `texts` are given.
        zero: Colour of cells that are exactly 0, instead of the map's end.
    """
    cmap = colormaps[style.SEQUENTIAL]
    colors = cmap(norm(np.where(np.isnan(values), 1.0, values)))
    colors[np.isnan(values)] = (1, 1, 1, 0)
    if zero is not None:
        colors[values == 0] = (*style.to_rgb(zero), 1)
    ax.imshow(colors, aspect="auto", interpolation="nearest")
    for row, column in itertools.product(*map(range, values.shape)):
        if np.isnan(values[row, column]):
            continue
        text = form(values[row, column]) if texts is None else texts[row, column]
        ink = style.ink_on(colors[row, column][:3])
        ax.text(column, row, text, ha="center", va="center", color=ink, fontsize=10.5)


def _axes_of(tables: Any) -> tuple[list[int], list[int]]:
    """All first and all second parts of the keys, ascending."""
    keys = [key for table in tables for key in table]
    return sorted({a for a, _ in keys}), sorted({b for _, b in keys})
