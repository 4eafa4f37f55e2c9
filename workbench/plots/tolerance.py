"""Figures about tolerances: errors on the scale of a rule, and rules on the scale of a bound."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, StrMethodFormatter

from workbench.plots import style

_KINDS = {
    "worst_case": ("worst-case bound", style.CATEGORIES[2], "-."),
    "running": ("running bound", style.CATEGORIES[0], "-"),
    "probabilistic": ("probabilistic bound", style.CATEGORIES[3], "--"),
}
_CELLS = (style.CATEGORIES[4], style.CATEGORIES[6], style.INK)  # the kinds have other colours
_MARKS = {"fp32": "o", "bf16": "s", "fp16": "D"}


def tolerance_ratios(found: Any, evidence: str = "", title: str = "") -> Figure:
    """How large the errors are and how loose the rules: three histograms of ratios.

    Args:
        found: A `RatioHistogram`: `Tolerance.histogram()`.
    """
    pair = found.placed.get("this pair", found.placed[found.own])
    fig = style.figure(12.5, 5.2, title or _verdict(pair), evidence or style.evidence_text(found))
    left, right = fig.subplots(1, 2)
    rule = f"allowed by the rule: atol {_number(found.atol)}, rtol {_number(found.rtol)}"
    bound, color, _ = _KINDS[found.kind]
    _steps(left, found.edges, found.rule, style.ACCENT, rule, fill=True)
    _steps(left, found.edges, found.derived, color, f"allowed by the derived {bound}")
    note = f"\n{found.exact:,} outputs without any error are in no bin" if found.exact else ""
    left.set_xlabel(f"|error| / what is allowed{note}")
    _limit(left, "passes", "is flagged")
    for i, (label, counts) in enumerate(found.looseness.items()):
        own = label in (found.own, "this pair")
        name = label if label == "this pair" else f"the contract's {label} cell"
        f = found.placed[label]
        shade = style.ACCENT if label == "this pair" else _CELLS[i % len(_CELLS)]
        _steps(
            right,
            found.edges,
            counts,
            shade,
            f"{name}: median {three_digits(f.looseness_median)}",
            fill=own,
        )
    right.set_xlabel(f"what a rule allows / the derived {bound}")
    _limit(right, "a correct kernel\nmay be flagged", "a fault may hide")
    shown = [found.rule, found.derived], list(found.looseness.values())
    for ax, counts in zip((left, right), shown, strict=True):
        ax.set_ylabel("outputs")
        ax.set_xlim(*_span(found.edges, counts))
        ax.set_ylim(0, 1.25 * max([1, *(int(c.max()) for c in counts)]))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.01), fontsize=10, frameon=False)
    return fig


def _verdict(pair: Any) -> str:
    flagged = "no output" if not pair.count else f"{pair.count:,} of {pair.outputs:,} outputs"
    bound, _, _ = _KINDS[pair.kind]
    text = f"The rule flags {flagged} and allows {pair.looseness_median:.2g} times the {bound}"
    if pair.below == pair.outputs:
        return f"{text} in the median, less than it everywhere"
    return f"{text} in the median" + (
        f", less for {pair.below:,} output{'s' * (pair.below > 1)}" if pair.below else ""
    )


def _steps(
    ax: Axes, edges: np.ndarray, counts: np.ndarray, color: str, label: str, fill: bool = False
) -> None:
    style.plain_axes(ax, grid=True)
    if fill:
        ax.stairs(counts, edges, color=color, fill=True, alpha=0.25)
    ax.stairs(counts, edges, color=color, lw=1.8, label=label)


def _limit(ax: Axes, before: str, after: str) -> None:
    """The line at a ratio of 1, and what lies on its sides."""
    ax.axvline(0, color=style.INK, lw=1.4)
    for text, shift, side in ((f"← {before}", -4, "right"), (f"{after} →", 4, "left")):
        ax.annotate(
            text,
            (0, 0.98),
            xycoords=ax.get_xaxis_transform(),
            xytext=(shift, 0),
            textcoords="offset points",
            ha=side,
            va="top",
            fontsize=10,
            color=style.INK,
        )
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _power(x)))


def _power(exponent: float) -> str:
    if exponent == 0:
        return "1"
    return f"$10^{{{exponent:g}}}$" if exponent == round(exponent) else ""


def _span(edges: np.ndarray, counts: Sequence[np.ndarray]) -> tuple[float, float]:
    """Where there is anything, with room for the words on both sides of 1."""
    filled = np.flatnonzero(np.sum(counts, axis=0))
    if not len(filled):
        return -2.0, 2.0
    low, high = min(edges[filled[0]], -0.5), max(edges[filled[-1] + 1], 0.5)
    room = 0.42 * (high - low)
    return min(low, -room), max(high, room)


def three_digits(value: float) -> str:
    """Three digits, and no power of ten where there is no need: 12,700."""
    short = f"{value:.3g}"
    return f"{float(short):,.0f}" if 1000 <= abs(value) < 1e6 else short


def _number(value: float) -> str:
    return style.scientific(value) if value < 0.01 else f"{value:.3g}"


def tolerance_plane(
    found: Any, at: tuple[float, float] | None = None, evidence: str = "", title: str = ""
) -> Figure:
    """The plane of (atol, rtol): outputs that are flagged, derived bounds, the contract's cells.

    To the right of (and above) a bound's line no correct kernel of this order is flagged on these
    inputs; left of it one may be.

    Args:
        found: A `ToleranceGrid`: `Tolerance.grid()`.
        at: A pair to mark, or None.
    """
    title = title or (
        "Right of a line no correct kernel is flagged; in the coloured area some of these "
        f"{found.outputs:,} outputs are"
    )
    fig = style.figure(10.5, 6.4, title, evidence or style.evidence_text(found))
    ax = fig.subplots()
    style.plain_axes(ax)
    counts = np.ma.masked_equal(found.flagged, 0)
    mesh = ax.pcolormesh(
        _edges(found.atols),
        _edges(found.rtols),
        counts,
        norm=LogNorm(1, max(found.outputs, 2)),
        cmap=style.SEQUENTIAL,
        rasterized=True,
    )
    low, high = _edges(found.rtols)[[0, -1]]
    left, right = _edges(found.atols)[[0, -1]]
    ax.set_xscale("log")
    ax.set_yscale("log")
    bar = fig.colorbar(mesh, ax=ax, pad=0.02)
    bar.set_label("outputs flagged (white: none)", fontsize=11, color=style.INK)
    for kind, atols in found.frontiers.items():
        name, color, dashes = _KINDS[kind]
        shown = []
        for a, r in zip(atols, found.rtols, strict=True):
            if a < math.inf:
                shown.append((max(a, left), r))
            if not a:  # from here on the rtol alone is enough
                break
        if shown:
            x, y = zip(*shown, strict=True)
            for width, ink in ((4.5, "white"), (2.2, color)):
                label = name if ink == color else None
                if label and kind == "probabilistic":
                    label += ": almost none"
                ax.plot(x, y, color=ink, lw=width, ls=dashes, label=label)
    _cells(ax, found.cells, found.own, low)
    if at is not None:
        ax.plot(
            [max(at[0], left)],
            [max(at[1], low)],
            marker="X",
            ms=13,
            mec="white",
            mew=1.2,
            color=style.ACCENT,
            ls="",
            label=f"this pair: {_number(at[0])}, {_number(at[1])}",
            clip_on=False,
            zorder=6,
        )
    cells = found.cells.values()
    ax.set_xlim(left, max(right, 2 * max(a for a, _ in cells)))
    ax.set_ylim(low, max(high, 2 * max(r for _, r in cells)))
    ax.set_xlabel("atol")
    ax.set_ylabel("rtol")
    ax.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=3,
        fontsize=10,
        frameon=False,
        markerscale=0.6,
    )
    return fig


def _cells(ax: Axes, cells: Mapping[str, tuple[float, float]], own: str, low: float) -> None:
    for name, (atol, rtol) in cells.items():
        text = f"contract {name}" + ("" if rtol else " (rtol 0)")
        ax.plot(
            [atol],
            [max(rtol, low)],
            marker=_MARKS[name],
            # The own one is large enough to be seen around the mark of a pair that is on it.
            ms=20 if name == own else 8,
            color=style.INK if name == own else "white",
            mec="white" if name == own else style.INK,
            mew=1.5,
            ls="",
            label=text,
            clip_on=False,
            zorder=5,
        )
        ax.annotate(
            name,
            (atol, max(rtol, low)),
            xytext=(11, 5),
            textcoords="offset points",
            fontsize=11,
            fontweight="bold" if name == own else "normal",
            color=style.INK,
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85},
            annotation_clip=False,
            zorder=5,
        )


def _edges(values: tuple[float, ...]) -> np.ndarray:
    """Edges of cells around values that are even on a logarithmic scale."""
    logs = np.log10(np.maximum(values, 1e-30))
    step = (logs[1] - logs[0]) / 2 if len(logs) > 1 else 0.125
    middle = (logs[1:] + logs[:-1]) / 2
    return 10 ** np.concatenate([[logs[0] - step], middle, [logs[-1] + step]])
