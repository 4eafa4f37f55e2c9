"""What configurations would cost by the model, and how counters grow. Computes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from workbench.errors import InputError
from workbench.plots import style
from workbench.sweep.cost_model import PIPES, Cost
from workbench.sweep.growth import AXES, Growth, Law

_WORDS = {
    "MTE2": "MTE2: copies GM to UB",
    "V": "V: vector unit",
    "MTE3": "MTE3: copies UB to GM",
    "S": "S: scalar unit",
}
_MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
_SHOWN = ("gm_to_ub_bytes", "ub_to_gm_bytes", "vector_repeats", "vector_instructions", "copies")


def cost_bars(
    costs: Mapping[str, Cost], evidence: str = "", title: str = "", note: str = ""
) -> Figure:
    """A bar a configuration, stacked by pipe; a tick where the slowest pipe alone would end.

    The true time lies between the tick (all pipes overlap) and the end of the bar (none do), as far
    as the model is right.

    Args:
        costs: {name: what `workbench.sweep.cost_model.cost` gives}.
        evidence: The line below; made of the costs where empty.
        title: Instead of the finding.
        note: Put first in the line below, e.g. the shape.

    Raises:
        InputError: Nothing to draw.
    """
    if not costs:
        raise InputError("there is nothing to draw; give {name: cost(…)}")
    given = list(costs.values())
    fig = style.figure(
        12,
        2.6 + 0.55 * len(costs),
        title or _finding(costs),
        evidence or style.evidence_text(note=_evidence(given, note)),
    )
    ax = fig.subplots()
    scale, unit = _unit(max(c.serial for c in given))
    places = range(len(costs))
    left = [0.0] * len(costs)
    start = [c.start_seconds * scale for c in given]
    layers = [("start of launch and waves", start, style.FAINT)]
    layers += [
        (_WORDS[pipe], [c.pipes[pipe] * scale for c in given], style.CATEGORIES[k])
        for k, pipe in enumerate(PIPES)
    ]
    for words, widths, color in layers:
        ax.barh(places, widths, left=left, height=0.62, color=color, label=words, edgecolor="white")
        left = [a + w for a, w in zip(left, widths, strict=True)]
    for place, one in zip(places, given, strict=True):
        at = one.overlapped * scale
        name = "if all pipes overlap: the slowest alone" if place == 0 else None
        ax.plot([at, at], [place - 0.42, place + 0.42], color=style.INK, lw=2.4, label=name)
        waves = "1 wave" if one.waves == 1 else f"{one.waves} waves"
        ax.text(
            left[place], place, f"  {at:.3g} to {left[place]:.3g} {unit}, {one.limiting}, {waves}",
            va="center", fontsize=10, color=style.INK,
        )  # fmt: skip
    ax.set_yticks(places, list(costs))
    ax.invert_yaxis()
    ax.set_xlim(0, 1.38 * max(left))
    ax.set_xlabel(f"{unit} ({', '.join(dict.fromkeys(c.label for c in given))})")
    style.plain_axes(ax)
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=10, frameon=False)
    return fig


def counter_growth(
    growths: Mapping[str, Growth],
    counters: Sequence[str] = _SHOWN,
    evidence: str = "",
    title: str = "",
) -> Figure:
    """Counters against N, H and V, a row a kernel; the law of each stands in the legend.

    Args:
        growths: {name: what `workbench.sweep.growth.growth` gives}.
        counters: Which counters; those that are 0 everywhere are left out.
        evidence: The line below; made of the shapes where empty.
        title: Instead of the finding.

    Raises:
        InputError: Nothing to draw.
    """
    if not growths:
        raise InputError("there is nothing to draw; give {name: growth(…)}")
    fig = style.figure(
        15,
        1.2 + 4.1 * len(growths),
        title or _laws_found(growths, counters),
        evidence
        or style.evidence_text(
            note="counted on the twin (exact, no Ascend hardware) · "
            + " · ".join(f"{name} from N, H, V = {g.base}" for name, g in growths.items())
        ),
    )
    axes = fig.subplots(len(growths), len(AXES), squeeze=False, sharey="row")
    for row, (name, found) in zip(axes, growths.items(), strict=True):
        shown = [
            c for c in counters if any(any(law.counts) for law in found.laws if law.counter == c)
        ]
        for ax, axis in zip(row, AXES, strict=True):
            for k, counter in enumerate(shown):
                law = found.law(axis, counter)
                _draw(ax, law, k)
            ax.set_xscale("log", base=2)
            ax.set_yscale("log")
            sizes = found.law(axis, shown[0]).sizes
            ax.set_xticks(sizes, [str(s) for s in sizes])
            ax.minorticks_off()
            ax.set_xlabel(axis)
            style.plain_axes(ax, grid=True)
            ax.legend(loc="upper left", fontsize=9.5, frameon=False)
        # Above the points, in all panels of the row: room for the laws, which are what it says.
        low, high = row[0].get_ylim()
        row[0].set_ylim(low, high * (high / low) ** 0.75)
        row[0].set_ylabel("count of a launch")
        row[0].set_title(name, loc="left", fontsize=12)
    return fig


def _draw(ax: Any, law: Law, k: int) -> None:
    color = style.CATEGORIES[k % len(style.CATEGORIES)]
    ax.plot(
        law.sizes, law.counts, marker=_MARKS[k % len(_MARKS)], color=color, lw=1.6, label=str(law)
    )


def _finding(costs: Mapping[str, Cost]) -> str:
    best = min(costs, key=lambda name: costs[name].overlapped)
    worst = max(costs, key=lambda name: costs[name].overlapped)
    label = " and ".join(dict.fromkeys(c.label for c in costs.values()))
    if best == worst:
        return f"{best} is limited by {costs[best].limiting} ({label})"
    ratio = costs[worst].overlapped / costs[best].overlapped
    times = f"{ratio:.2g}" if ratio < 100 else f"{ratio:.0f}"
    return f"{best} would be {times} times as fast as {worst} ({label})"


def _laws_found(growths: Mapping[str, Growth], counters: Sequence[str]) -> str:
    laws = [law for g in growths.values() for law in g.laws]
    laws = [law for law in laws if law.counter in counters and any(law.counts)]
    lines = sum(law.kind != "other" for law in laws)
    return f"{lines} of {len(laws)} curves of a counter over N, H or V are exactly lines"


def _evidence(costs: Sequence[Cost], note: str) -> str:
    archs = dict.fromkeys(f"{c.rates.arch}, {c.rates.cores} vector cores" for c in costs)
    assumed = [c.assumed_share for c in costs]
    ends = dict.fromkeys(f"{100 * end:.0f}" for end in (min(assumed), max(assumed)))
    share = f"{' to '.join(ends)} %"
    parts = [
        note,
        ", ".join(archs),
        "exact counters of the twin, rates documented or assumed, nothing measured on hardware",
        f"{share} of the slowest pipe and the start rests on assumed rates",
    ]
    return " · ".join(filter(None, parts))


def _unit(seconds: float) -> tuple[float, str]:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return scale, unit
    return 1e9, "ns"
