"""Errors against the bounds on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workbench.errors import InputError
from workbench.numerics.bounds import Bounds
from workbench.numerics.bounds.parts import KINDS
from workbench.plots import style

_POINTS = 4000  # of one set; more would hide each other
_CALM = [c for c in style.CATEGORIES if c != style.ACCENT]
_WORDS_HIGH = 0.09  # of the axis: the strip above all points that has words in it
_MARKS = ("x", "+", "*", "D")  # of sets with a warning
_WORDS = {
    "worst_case": "worst case: γ of each depth",
    "running": "running: from the partial sums",
    "probabilistic": "probabilistic: independent roundings",
}


def bound_scatter(
    sets: Mapping[str, tuple[Bounds, Any]], evidence: str = "", title: str = ""
) -> Figure:
    """|error| against each bound, an output a point, with the line where they are equal.

    Sets for which `bounds` warned have other marks in one colour of their own. Errors of exactly 0
    have no place on a logarithmic axis: their number stands in the legend.

    Args:
        sets: {label: (the result of `bounds`, errors [N, V])}.
        evidence: The line below; made of the results where empty.
        title: Instead of the finding.

    Raises:
        InputError: No set, or errors of another shape than the bounds.
    """
    if not sets:
        raise InputError("there is nothing to draw; give {label: (bounds, errors)}")
    found = {label: (b, _errors(e), b.violations(e)) for label, (b, e) in sets.items()}
    fig = style.figure(
        14,
        6.2,
        title or _finding(found),
        evidence or style.evidence_text([b for b, _, _ in found.values()]),
    )
    axes = fig.subplots(1, len(KINDS), sharex=True, sharey=True)
    for ax, kind in zip(axes, KINDS, strict=True):
        for k, (label, (result, errors, violations)) in enumerate(found.items()):
            _draw(ax, kind, label, result, errors, violations[kind], k)
        style.plain_axes(ax, grid=True)
        ax.set_title(_WORDS[kind], loc="left", fontsize=12)
        ax.set_xlabel("bound, in units of the result")
        ax.set_xscale("log")
        ax.set_yscale("log")
    axes[0].set_ylabel("|error|, in units of the result")
    _equal_lines(axes, len(found))
    for ax in axes:
        legend = ax.legend(loc="lower right", fontsize=9, frameon=True, framealpha=0.92)
        for handle in legend.legend_handles:
            handle.set_alpha(1)
    return fig


def _errors(errors: Any) -> np.ndarray:
    given = errors.detach().cpu().double().numpy() if hasattr(errors, "detach") else errors
    return np.abs(np.asarray(given, np.float64)).reshape(-1)


def _draw(
    ax: Axes,
    kind: str,
    label: str,
    result: Bounds,
    errors: np.ndarray,
    violations: int,
    place: int,
) -> None:
    bound = result.get(kind).reshape(-1)
    shown = np.isfinite(bound) & np.isfinite(errors) & (errors > 0) & (bound > 0)
    zero = int((np.isfinite(bound) & (errors == 0)).sum())
    at = np.flatnonzero(shown)
    at = at[np.linspace(0, len(at) - 1, min(len(at), _POINTS)).astype(np.int64)]
    words = f"{label}: {violations:,} of {np.isfinite(bound).sum():,} above"
    words += f" ({zero:,} error{'s are' if zero > 1 else ' is'} 0)" if zero else ""
    look: dict[str, Any]
    if result.warnings:
        mark = _MARKS[place % len(_MARKS)]
        look = {"s": 60, "marker": mark, "color": style.ACCENT, "linewidths": 1.6, "zorder": 3}
        words = f"⚠ {words}"
    else:
        color = _CALM[place % len(_CALM)]
        look = {"s": 7, "color": color, "alpha": 0.25, "linewidths": 0, "rasterized": True}
    ax.scatter(bound[at], errors[at], label=words, **look)


def _equal_lines(axes: Any, sets: int) -> None:
    """The line error = bound through all panels, which share their limits."""
    # Without a point (every error is 0) there are no limits that a logarithm could take.
    limits = axes[0].get_xlim(), axes[0].get_ylim()
    x, y = (found if found[0] > 0 else (1e-8, 1.0) for found in limits)
    # Room above the line, so that what is above it is seen to be, with a strip above all points
    # for the words, and room for the legend.
    top = max(y[1], x[1])
    high = top * (top / y[0]) ** _WORDS_HIGH
    share = min(0.047 * (sets + 1), 0.45)
    low = y[0] / (high / y[0]) ** (share / (1 - share))
    ends = [min(x[0], low), max(x[1], high)]
    for ax in axes:
        ax.plot(ends, ends, color=style.INK, lw=1.4)
        ax.fill_between(ends, ends, ends[1], color=style.FAINT, alpha=0.5, lw=0)
        ax.text(0.03, 0.985, "error above the bound", transform=ax.transAxes, va="top",
                fontsize=11, color=style.INK)  # fmt: skip
        ax.set_xlim(x)
        ax.set_ylim(low, high)


def _finding(found: Mapping[str, tuple[Bounds, np.ndarray, dict[str, int]]]) -> str:
    above = {kind: sum(v[kind] for _, _, v in found.values()) for kind in KINDS}
    proved = above["worst_case"] + above["running"]
    if proved:
        return f"{proved:,} errors are above a bound that is proved: the order is another one"
    text = "No error is above the worst-case or the running bound"
    likely = above["probabilistic"]
    if not likely:
        return f"{text}, nor above the probabilistic one"
    warned = all(b.warnings for b, _, v in found.values() if v["probabilistic"])
    where = "all under a warning" if warned else "without a warning"
    return f"{text}; {likely:,} above the probabilistic one, {where}"
