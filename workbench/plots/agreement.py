"""Log-probs of a sampler beside those of a trainer: token by token, and by the pair of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from workbench.errors import InputError
from workbench.plots import style
from workbench.plots.cells import cells

_EVEN = "#eef1f4"  # a cell without a difference
_FARTHEST = 1000.0  # the largest ratio, and the inverse of the least, that has a place of its own
_MARKS = ("o", "s", "D", "^", "v", "P")


def token_ratios(
    pairs: Mapping[str, tuple[Any, Any]],
    clip_range: tuple[float, float],
    evidence: str = "",
    title: str = "",
) -> Figure:
    """The ratio exp(trainer - sampler) of each token, one panel a callable, all on one scale.

    Args:
        pairs: {label: (sampler's log-probs, trainer's)}, each [tokens], in nats.
        clip_range: Ratios outside it are clipped by the policy gradient; those are marked.
        evidence: The line below.
        title: The finding; "": how many tokens are outside the range, by label.

    Raises:
        InputError: Nothing to draw, log-probs that are NaN or Inf, or no range about 1.
    """
    if not pairs:
        raise InputError("there is nothing to draw; give {label: (sampler, trainer)}")
    low, high = clip_range
    if not 0 < low <= 1 <= high < np.inf:
        raise InputError(f"clip_range={clip_range}; wanted (low, high), 0 < low <= 1 <= high")
    apart = {label: _apart(label, a, b) for label, (a, b) in pairs.items()}
    with np.errstate(over="ignore"):
        ratios = {label: np.exp(d) for label, d in apart.items()}
    most = max(float(np.abs(d).max()) for d in apart.values())
    reach = min(1.25 * max(most, abs(np.log(low)), np.log(high)), np.log(_FARTHEST))
    edges = np.exp(-reach), np.exp(reach)
    outside = {label: int(((r < low) | (r > high)).sum()) for label, r in ratios.items()}
    fig = style.figure(
        12.5,
        4.8,
        title or "; ".join(f"{label}: {n} tokens clipped" for label, n in outside.items()),
        evidence or style.evidence_text(),
    )
    axes = np.atleast_1d(fig.subplots(1, len(ratios), sharey=True))
    for k, (ax, (label, ratio)) in enumerate(zip(axes, ratios.items(), strict=True)):
        style.plain_axes(ax, grid=True)
        ax.axhspan(low, high, color=_EVEN, lw=0, zorder=0)
        token = np.arange(len(ratio))
        cut = (ratio < low) | (ratio > high)
        color = style.CATEGORIES[k % len(style.CATEGORIES)]
        at = np.clip(ratio, *edges)
        ax.scatter(token[~cut], at[~cut], s=22, color=color, lw=0, marker=_MARKS[k % 6])
        ax.scatter(token[cut], at[cut], s=90, color=style.ACCENT, marker="x", lw=2.2)
        ax.set_title(label, loc="left", fontsize=12.5, fontweight="bold", color=style.INK, pad=24)
        moved = int((ratio != 1).sum())
        words = f"{moved:,} of {len(ratio):,} ratios are not 1"
        words = words if moved else "every ratio is exactly 1"
        words += f", × {int(cut.sum())} outside [{low:g}, {high:g}]" if cut.any() else ""
        far = int((at != ratio).sum())
        words += f", {far} beyond this axis" if far else ""
        above = {"transform": ax.transAxes, "va": "bottom", "fontsize": 10.5}
        ax.text(0, 1.02, words, color=style.SOFT, **above)
        ax.set_xlabel("token")
    axes[0].set_ylim(*edges)
    axes[0].set_ylabel("ratio exp(trainer - sampler)")
    return fig


def agreement_table(results: Mapping[str, Any], evidence: str = "", title: str = "") -> Figure:
    """Tokens whose bits differ, for each callable and each pair of a sampler's and a trainer's
    batches; below the count the largest |d| in nats and the approximate KL.

    Args:
        results: {label: `SamplerTrainerResult`}.
        evidence: The line below; made of the results where empty.
        title: The finding; "": how many callables agree on every bit.

    Raises:
        InputError: Nothing to draw.
    """
    if not results:
        raise InputError("there is nothing to draw; give {label: sampler_trainer(…)}")
    pairs = list(dict.fromkeys(pair for r in results.values() for pair in r.pairs))
    share = np.full((len(results), len(pairs)), np.nan)
    texts = np.full(share.shape, "", dtype=object)
    for row, result in enumerate(results.values()):
        for pair, found in result.pairs.items():
            at = row, pairs.index(pair)
            share[at] = found.mismatches / found.limits.tokens
            texts[at] = "=" if found.bits_equal else (
                f"≠ {found.mismatches:,} of {found.limits.tokens:,}\n"
                f"{style.scientific(found.limits.max_abs)}\n"
                f"KL {style.scientific(found.limits.approx_kl)}"
            )  # fmt: skip
    equal = sum(result.bits_equal for result in results.values())
    fig = style.figure(
        3.2 + 1.36 * len(pairs),
        2.3 + 0.85 * len(results),
        title or f"{equal} of {len(results)} give sampler and trainer the same bits",
        evidence or style.evidence_text(results.values()),
    )
    ax = fig.subplots()
    cells(ax, share, Normalize(0, 1), None, texts, zero=_EVEN)
    heads = [f"{sampler}\n{trainer.replace(' ', chr(10))}" for sampler, trainer in pairs]
    style.cell_axes(ax, heads, list(results))
    ax.xaxis.tick_top()
    empty = "; empty: not compared" if np.isnan(share).any() else ""
    ax.set_title(
        "sampler's batch above, trainer's below; ≠: tokens whose bits differ, largest |d| in nats, "
        f"approximate KL{empty}",
        loc="left", fontsize=10.5, color=style.SOFT,
    )  # fmt: skip
    return fig


_NOTE: dict[str, Any] = {"loc": "left", "fontsize": 10.5, "color": style.SOFT}
_AGGREGATES = {
    "max_abs": "largest |d|, nats",
    "approx_kl": "approximate KL, nats",
    "clip_fraction": "share of tokens clipped",
}


def agreement_bars(results: Mapping[str, Any], evidence: str = "", title: str = "") -> Figure:
    """The three aggregates by callable on logarithmic axes, with the contract's limits.

    Args:
        results: {label: `LogpAgreement`}. What is 0 has no bar and is written as 0.
        evidence: The line below.
        title: The finding; "": how many have no difference at all.

    Raises:
        InputError: Nothing to draw.
    """
    if not results:
        raise InputError("there is nothing to draw; give {label: agreement(…)}")
    equal = sum(found.bits_equal for found in results.values())
    fig = style.figure(
        13,
        2.0 + 0.5 * len(results),
        title or f"{equal} of {len(results)} have no difference between sampler and trainer",
        evidence or style.evidence_text(),
    )
    axes = fig.subplots(1, len(_AGGREGATES), sharey=True)
    places = np.arange(len(results))
    for ax, (name, words) in zip(axes, _AGGREGATES.items(), strict=True):
        values = [getattr(found.limits, name) for found in results.values()]
        limits = [found.limits.limits[name] for found in results.values()]
        shown = [v for v in (*values, *limits) if v > 0]
        left = min(shown, default=0.1) / 30
        for place, value, limit in zip(places, values, limits, strict=True):
            beyond = value > limit
            color = style.ACCENT if beyond else style.CATEGORIES[0]
            if value:
                ax.barh(place, value - left, left=left, height=0.55, color=color)
            if limit:
                ax.plot([limit, limit], [place - 0.4, place + 0.4], color=style.INK, lw=2)
            # Beside the limit's mark where the two would run into each other.
            end = limit if value < limit < 60 * value else max(value, left)
            over = (" beyond" if limit else " beyond limit 0") if beyond else ""
            text = "0" if not value else style.scientific(value) + over
            ax.text(end, place, f" {text}", va="center", fontsize=10, color=style.INK)
        ax.set_xscale("log")
        ax.set_xlim(left, 60 * max(shown, default=1.0))
        ax.set_xlabel(words)
        if not any(limits):
            ax.set_title("limit 0: no mark on this axis", **_NOTE)
        style.plain_axes(ax)
    axes[0].set_yticks(places, list(results))
    axes[0].invert_yaxis()
    axes[0].set_title("black mark: the contract's limit", **_NOTE)
    return fig


def _apart(label: str, sampler: Any, trainer: Any) -> np.ndarray:
    """trainer - sampler, fp64 [tokens], all of them finite."""
    a, b = _doubles(sampler), _doubles(trainer)
    if a.ndim != 1 or a.shape != b.shape or not len(a):
        raise InputError(
            f"{label}: log-probs are {list(a.shape)} and {list(b.shape)}; wanted [tokens] of both, "
            "at least one"
        )
    broken = int((~(np.isfinite(a) & np.isfinite(b))).sum())
    if broken:
        raise InputError(
            f"{label}: log-probs of {broken} of {len(a)} tokens are NaN or Inf, which have no "
            "ratio; leave those tokens out"
        )
    return b - a


def _doubles(values: Any) -> np.ndarray:
    return np.asarray(values.detach().cpu().double() if hasattr(values, "detach") else values)
