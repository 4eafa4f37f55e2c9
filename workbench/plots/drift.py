"""Figures of drift: where errors are, how large they are in which unit, and what a tile changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from workbench.plots import style
from workbench.plots.cells import cells

Pair = tuple[str, str]

_WORDS = {
    "abs": "units of the logits",
    "ulp": "ULP of Σ|x\u00a0w|",
    "partial_ulp": "ULP of the largest partial sum",
    "peak": "shares of the row's largest |logit|",
}
_COLUMNS = {"abs": "max_abs", "ulp": "max_ulp", "partial_ulp": "max_partial_ulp"}
_COLUMNS["peak"] = "max_peak"
_SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
_BROKEN = style.ACCENT  # a cell with NaN or Inf in it
_CELLS = (80, 256)  # of a map, at most: rows and columns
_DOTS = 1500  # of a line of dots, at most: more vocabulary ids share one


def drift_map(
    result: Any,
    pairs: Sequence[Pair] | None = None,
    unit: str = "ulp",
    evidence: str = "",
    title: str = "",
) -> Figure:
    """Errors over rows and vocabulary ids, one panel a pair, all on one scale.

    A cell shows the largest |error| in it; where there are more outputs than cells, neighbours
    share one. Cells with NaN or Inf in them are orange.

    Args:
        result: A `DriftResult`.
        pairs: Which comparisons; None: every candidate against "exact".
        unit: "abs", "ulp", "partial_ulp" or "peak".
    """
    pairs = _pairs(result, pairs)
    n, _, v = result.shape
    grids = {pair: result.pooled(pair, unit, *_CELLS) for pair in pairs}
    tall, wide = (-(-size // most) for size, most in zip((n, v), _CELLS, strict=True))
    top = max((float(g[np.isfinite(g)].max(initial=0)) for g in grids.values()), default=0)
    norm = Normalize(0, top or 1)
    cmap = colormaps[style.SEQUENTIAL].with_extremes(bad=_BROKEN)
    fig = style.figure(
        12,
        1.9 + 2.5 * len(pairs),
        title or f"Where the errors are: largest {_ends(result, pairs, unit)}",
        evidence or style.evidence_text(result),
    )
    axes = fig.subplots(len(pairs), 1, squeeze=False, sharex=True)[:, 0]
    broken = any(not np.isfinite(g).all() for g in grids.values())
    for ax, (pair, grid) in zip(axes, grids.items(), strict=True):
        shown = np.ma.masked_invalid(grid)
        ax.imshow(
            shown,
            aspect="auto",
            cmap=cmap,
            norm=norm,
            interpolation="nearest",
            extent=(-0.5, wide * grid.shape[1] - 0.5, tall * grid.shape[0] - 0.5, -0.5),
        )
        ax.set(xlim=(-0.5, v - 0.5), ylim=(n - 0.5, -0.5))
        style.plain_axes(ax)
        ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        note = f"{_against(pair)}: largest {_number(result, pair, unit)}"
        ax.set_title(note, loc="left", fontsize=12.5, fontweight="bold")
        ax.set_ylabel("row of hidden")
    axes[-1].set_xlabel("vocabulary id (row of weight)")
    axes[-1].xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes[-1].xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    bar = fig.colorbar(ScalarMappable(norm, cmap), ax=axes, pad=0.01, aspect=26)
    pooled = tall * wide > 1
    label = f"largest |error| of {tall} x {wide} outputs, in " if pooled else "|error| in "
    more = "\norange: NaN or Inf" if broken else ""
    bar.set_label(label + _WORDS[unit] + more, fontsize=11)
    bar.outline.set_visible(False)
    return fig


def drift_histogram(
    histogram: Any, evidence: str = "", title: str = "", names: dict[str, str] | None = None
) -> Figure:
    """How often errors of each size occur: the kernel and its references on the same axes.

    Args:
        histogram: `DriftResult.histogram(…)`.
        names: {"kernel": "tile 4096", …}: other words for the sides.
    """
    words, edges = _WORDS[histogram.unit], histogram.edges
    fig = style.figure(
        11,
        5.6,
        title or "Errors about 0: the narrower, the closer to the exact logits",
        evidence or style.evidence_text(histogram),
    )
    ax = fig.subplots()
    style.plain_axes(ax, grid=True)
    least = 1.0
    for index, (pair, counts) in enumerate(histogram.counts.items()):
        total = max(int(counts.sum()), 1)
        share = counts / total
        least = min(least, 1 / total)
        color = style.CATEGORIES[index % len(style.CATEGORIES)]
        label = _against(pair, names)
        if histogram.exactly[pair]:
            label += f", exactly 0: {histogram.exactly[pair] / total:.0%}"
        if histogram.nonfinite[pair]:
            label += f", NaN or Inf: {histogram.nonfinite[pair]:,}"
        shown: dict[str, Any] = {
            "color": color,
            "lw": 2.2,
            "label": label,
            "zorder": 3 - 0.1 * index,
        }
        ax.stairs(share, edges, baseline=least / 2, **shown)
        ax.stairs(share, edges, baseline=least / 2, color=color, fill=True, alpha=0.13, zorder=2)
    ax.axvline(0, color=style.SOFT, lw=1)
    ax.set_xlim(edges[0], edges[-1])
    # Logarithmic: the tails hold few outputs, and they are what a tolerance meets.
    ax.set_yscale("log")
    ax.set_ylim(least / 2, 1.3)
    ax.set_xlabel(f"error in {words}, one bin {style.scientific(edges[1] - edges[0])} wide")
    ax.set_ylabel("share of the outputs in a bin")
    _legend(ax, len(histogram.counts))
    return fig


def drift_by_vocab(
    result: Any,
    pairs: Sequence[Pair] | None = None,
    unit: str = "ulp",
    evidence: str = "",
    title: str = "",
) -> Figure:
    """The largest |error| of each vocabulary id over all rows.

    Args:
        result: A `DriftResult`.
        pairs: Which comparisons; None: every candidate against "exact".
        unit: "abs", "ulp", "partial_ulp" or "peak".
    """
    pairs = _pairs(result, pairs)
    v = result.shape[2]
    groups = None if v <= _DOTS else _DOTS
    fig = style.figure(
        12,
        5.4,
        title or f"Along the vocabulary: largest {_ends(result, pairs, unit)}",
        evidence or style.evidence_text(result),
    )
    ax = fig.subplots()
    style.plain_axes(ax, grid=True)
    size = float(np.clip(4000 / max(v if groups is None else groups, 1), 3, 20))
    top, broken = 0.0, 0
    for index, pair in enumerate(pairs):
        table = result.by_vocab(pair, groups)
        values = table[_COLUMNS[unit]]
        finite = np.isfinite(values)
        broken += int(table["nonfinite"].sum())
        top = max(top, float(values[finite].max(initial=0)))
        ax.scatter(
            table["vocab_id"][finite],
            values[finite],
            s=size,
            color=style.CATEGORIES[index % len(style.CATEGORIES)],
            linewidths=0,
            label=f"{_against(pair)}: largest {_number(result, pair, unit)}",
            zorder=3 - 0.1 * index,
        )
    ax.set_xlim(-0.01 * v, 1.01 * v)
    ax.set_ylim(0, top * 1.05 or 1)
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    shared = "" if groups is None else f"; a dot: {-(-v // groups):,} neighbouring ids"
    lost = f"; {broken:,} outputs with NaN or Inf not drawn" if broken else ""
    ax.set_xlabel(f"vocabulary id (row of weight){shared}{lost}")
    ax.set_ylabel(f"largest |error| over the rows,\nin {_WORDS[unit]}")
    _legend(ax, len(pairs), markerscale=2.5)
    return fig


def drift_by_tile(table: Any, unit: str = "abs", evidence: str = "", title: str = "") -> Figure:
    """The largest error against the exact logits for each configuration and dtype.

    Below a gap stand the references' own errors, which know no tile.

    Args:
        table: A `DriftTable` of `drift_over`, drifts against "exact" among others.
        unit: "abs", "ulp", "partial_ulp" or "peak".
    """
    labels, dtypes = table.labels, table.dtypes
    first = next(iter(table.drifts.values()))
    others = [c for c, r in first.pairs() if r == "exact" and c != "kernel"]
    if unit == "partial_ulp":  # a reference is measured in the kernel's unit, which has a tile
        others = []
    rows = [*labels, *([""] if others else []), *others]
    values = np.full((len(rows), len(dtypes)), np.nan)
    for column, dtype in enumerate(dtypes):
        for row, label in enumerate(labels):
            values[row, column] = _value(table[label, dtype], ("kernel", "exact"), unit)
        for row, name in enumerate(others, start=len(labels) + 1):
            values[row, column] = _value(table[labels[0], dtype], (name, "exact"), unit)
    positive = values[np.isfinite(values) & (values > 0)]
    norm = LogNorm(*(positive.min(), positive.max()) if len(positive) else (1, 2))
    fig = style.figure(
        4.6 + 1.7 * len(dtypes),
        2.4 + 0.52 * len(rows),
        title or _ranges(values, len(labels), others, unit),
        evidence or style.evidence_text(table.drifts),
    )
    ax = fig.subplots()
    cells(ax, values, norm, lambda value: _written(value, unit))
    heads = [
        d if r.dtype == r.out_dtype else f"{d} → {_SHORT.get(r.out_dtype, r.out_dtype)}"
        for d in dtypes
        for r in (table[labels[0], d],)
    ]
    style.cell_axes(ax, heads, rows)
    ax.set_xlabel("dtype of the inputs (→ of the output)")
    ax.set_ylabel("tile length" if all(isinstance(k, int) for k in labels) else "configuration")
    bar = fig.colorbar(ScalarMappable(norm, style.SEQUENTIAL), ax=ax, pad=0.02, aspect=24)
    bar.set_label(f"max |error| in\n{_WORDS[unit]}", fontsize=11)
    bar.outline.set_visible(False)
    return fig


# ---- words ---------------------------------------------------------------------------------------


def _pairs(result: Any, pairs: Sequence[Pair] | None) -> list[Pair]:
    if pairs is not None:
        return list(pairs)
    return [p for p in result.pairs() if p[1] == "exact"] or result.pairs()


def _against(pair: Pair, names: dict[str, str] | None = None) -> str:
    got, wanted = ((names or {}).get(side, side) for side in pair)
    return f"{got} against {wanted}"


def _value(result: Any, pair: Pair, unit: str) -> float:
    found = getattr(result[pair], _COLUMNS[unit])
    return np.nan if found is None else found


def _number(result: Any, pair: Pair, unit: str) -> str:
    return _written(_value(result, pair, unit), unit)


def _written(value: float, unit: str) -> str:
    return style.scientific(value) if unit in ("abs", "peak") else f"{value:.2f}"


def _ends(result: Any, pairs: Sequence[Pair], unit: str) -> str:
    """ "0.31 (kernel) and 0.90 (torch.mv) ULP of Σ|x w|"."""
    same = len({wanted for _, wanted in pairs}) == 1
    parts = [
        f"{_number(result, pair, unit)} ({pair[0] if same else _against(pair)})" for pair in pairs
    ]
    *first, last = parts
    return f"{', '.join(first)}{' and ' if first else ''}{last} {_WORDS[unit]}"


def _ranges(values: np.ndarray, tiles: int, others: Sequence[str], unit: str) -> str:
    """ "Largest errors: kernel 7.2e-6 to 1.1e-5, torch.mv 2.3e-5 to 2.8e-5"."""
    parts = {"kernel": values[:tiles]}
    parts |= {name: values[tiles + 1 + k] for k, name in enumerate(others)}
    told = []
    for name, part in parts.items():
        ends = sorted({_written(float(f(part)), unit) for f in (np.min, np.max)})
        told.append(f"{name} {' to '.join(sorted(ends, key=float))}")
    return f"Largest errors: {', '.join(told)}"


def _legend(ax: Axes, columns: int, **more: Any) -> None:
    """Above the axes, where no point can be."""
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=columns if columns <= 3 else 2,
        fontsize=10.5,
        frameon=False,
        **more,
    )
