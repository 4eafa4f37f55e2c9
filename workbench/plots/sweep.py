"""Sweeps: one number of each configuration as a table of cells, and drift against cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure

from workbench.errors import InputError
from workbench.plots import style
from workbench.sweep import bit_classes, choose, words
from workbench.sweep.result import counted
from workbench.sweep.run import Run

# What a cell may show -> (in words, of a run, whether the steps between values are ratios).
SHOWN: dict[str, tuple[str, Any, bool]] = {
    "drift": ("largest error of a logit", lambda r: r.drift and r.drift.max_abs, True),
    "bound": ("largest error / its bound", lambda r: r.bound and r.bound.worst_ratio, False),
    "bytes": ("bytes moved per logit", choose.bytes_per_logit, True),
    "time": ("wall time over F.linear's", lambda r: r.time and 1 / r.time.ratio, True),
}
_LEFT = ("tile_length", "leaf_length")
_WORDS = {"tile_length": "tile length", "leaf_length": "leaf length", "max_blocks": "MAX_BLOCKS"}
_MANY = 12  # columns from which their names are turned


def sweep_table(runs: Sequence[Run], shown: str = "drift", *, title: str = "") -> Figure:
    """One cell for each configuration: its bit class, and a number as letter and colour.

    Args:
        runs: Of a `SweepResult` or a record: one input, one shape. A run that was refused is marked
            "–", one that failed "!".
        shown: "drift", "bound", "bytes" or "time".
        title: The finding; "": counts of configurations and classes.

    Raises:
        InputError: No runs; an unknown name; two runs of one cell: other inputs, shapes, backends,
            versions or repetitions.
    """
    if shown not in SHOWN:
        raise InputError(f"shown={shown!r}; give one of {', '.join(SHOWN)}")
    shown_as, of, ratios = SHOWN[shown]
    runs = list(runs)
    if not runs:
        raise InputError("there is nothing to draw; give the runs of a sweep or a record")
    if shown == "time" and {run.backend for run in runs} == {"twin"}:
        shown_as += " (of a simulation)"
    letters = {run.key: one.letter for one in bit_classes.classes(runs) for run in one.runs}
    names = ["arch", "dtype", *dict.fromkeys(n for run in runs for n in run.config)]
    varied = [n for n in names if len({str(words.value(run, n)) for run in runs}) > 1]
    asked = varied or names
    left = next((n for n in _LEFT if n in asked), asked[0])
    # MAX_BLOCKS last: what should have the same bits stands side by side.
    tops = sorted((n for n in varied if n != left), key=lambda n: n == "max_blocks")
    rows = sorted({_sort(run, [left]) for run in runs})
    columns = sorted({_sort(run, tops) for run in runs})
    values = np.full((len(rows), len(columns)), np.nan)
    marks = np.full(values.shape, "", dtype=object)
    for run in runs:
        at = rows.index(_sort(run, [left])), columns.index(_sort(run, tops))
        if marks[at]:
            raise InputError(
                f"two runs of {words.label(run)}: a cell holds one. Draw one input, shape, "
                "backend and version at a time, for example those of one run.inputs.fixture_id"
            )
        number = of(run) if run.status == "ok" else None
        values[at] = math.nan if number is None else number
        text = "" if number is None else f"\n{_short(number, shown)}"
        marks[at] = {"refused": "–", "failed": "!"}.get(
            run.status, letters.get(run.key, "?") + text
        )
    done, classes = sum(run.status == "ok" for run in runs), len(set(letters.values()))
    turned = len(columns) > _MANY
    heads = [(", " if turned else "\n").join(_words(runs, tops, c)) or " " for c in columns]
    widest = max(len(line) for head in heads for line in head.split("\n"))
    fig = style.figure(
        max(8.0, 2.2 + (0.66 if turned else max(0.9, 0.09 * widest)) * len(columns)),
        2.9 + 0.55 * len(rows) + (0.9 if turned else 0.2 * len(tops)),
        title
        or f"{counted(done, 'configuration')}, {counted(classes, 'bit class', 'bit classes')}: "
        "cells of one letter give the same bits",
        _evidence(runs),
    )
    ax = fig.subplots()
    colors = _colors(values, ratios)
    ax.imshow(colors, aspect="auto", interpolation="nearest")
    for (row, column), mark in np.ndenumerate(marks):
        ink = style.ink_on(colors[row, column])
        ax.text(column, row, mark, ha="center", va="center", color=ink, fontsize=10)
    style.cell_axes(ax, heads, [_words(runs, [left], row)[0] for row in rows])
    if turned:
        ax.tick_params(axis="x", labelrotation=90)
    ax.set_ylabel(_WORDS.get(left, left))
    ax.set_xlabel(", ".join(_WORDS.get(n, n) for n in tops))
    missing = {run.status for run in runs} - {"ok"}
    notes = [n for s, n in (("refused", "–: cannot be built"), ("failed", "!: failed"))
             if s in missing]  # fmt: skip
    ax.set_title(
        "; ".join([f"letter: bit class; number and colour: {shown_as}, darker is less", *notes]),
        loc="left",
        fontsize=10.5,
        color=style.SOFT,
    )
    return fig


def pareto_plot(found: choose.Recommendation, runs: Sequence[Run], *, title: str = "") -> Figure:
    """Drift against cost: every configuration, the front, the recommended one, the reference.

    Args:
        found: Of `recommend`.
        runs: Those it was made of: what the line below says they rest on.
        title: The finding; "": what is recommended.
    """
    keys = {key for choice in found.choices for key in choice.runs}
    considered = [run for run in runs if run.key in keys]
    fig = style.figure(
        9.0, 5.6, title or f"Recommended: {found.choice.label}", _evidence(considered)
    )
    ax = fig.subplots()
    # A point is a configuration over all its inputs, as in the front.
    x = [choice.cost for choice in found.choices]
    y = [choice.drift for choice in found.choices]
    ax.scatter(x, y, s=46, color=style.CATEGORIES[0], alpha=0.45, lw=0, label="configurations")
    front = found.front
    ax.plot(
        [c.cost for c in front],
        [c.drift for c in front],
        drawstyle="steps-post",
        color=style.INK,
        lw=1.2,
        marker="o",
        ms=4,
        label="no other is better in both",
    )
    best = found.choice
    ax.scatter(
        [best.cost], [best.drift], s=190, facecolor="none", edgecolor=style.ACCENT, lw=2.2,
        label="recommended", zorder=3,
    )  # fmt: skip
    # Several inputs have several references: there is no one line.
    one = best.reference_drift if len(best.runs) == 1 else math.nan
    line, meaning = (one, "torch.mv's own error") if found.limit is None else (found.limit, "limit")
    if math.isfinite(line):
        ax.axhline(line, color=style.SOFT, lw=1, ls="--")
        ax.annotate(
            meaning,
            (1, line),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
            color=style.SOFT,
            fontsize=10,
        )
    if min(x) > 0 and max(x) > 8 * min(x):
        ax.set_xscale("log")
    ax.set_ylim(0, 1.15 * max([*y, line if math.isfinite(line) else 0.0]))
    style.plain_axes(ax, grid=True)
    ax.set_xlabel(choose.COSTS[found.cost])
    of = "\n(the largest of its inputs)" if len(best.runs) > 1 else ""
    ax.set_ylabel(f"error of the logits, {found.drift}{of}")
    ax.yaxis.set_major_formatter(lambda value, _: style.scientific(value))
    ax.legend(frameon=False, fontsize=10.5, loc="best")
    return fig


def _sort(run: Run, names: Sequence[str]) -> tuple[Any, ...]:
    """A place among rows or columns: numbers by size."""
    return tuple(run.config.get(n, getattr(run, n, "")) for n in names)


def _words(runs: Sequence[Run], names: Sequence[str], place: tuple[Any, ...]) -> list[str]:
    run = next(run for run in runs if _sort(run, names) == place)
    return [str(words.value(run, name)) for name in names]


def _short(number: float, shown: str) -> str:
    if shown == "bound":
        return f"{number:.2f}"
    if number >= 10:
        return f"{number:.0f}"
    return f"{number:.2g}" if shown == "time" else style.scientific(number)


def _colors(values: np.ndarray, ratios: bool) -> np.ndarray:
    colors = np.ones((*values.shape, 3))
    finite = np.isfinite(values)
    if finite.any():
        low, high = values[finite].min(), values[finite].max()
        log = ratios and low > 0 and high > 4 * low
        scale = LogNorm(low, high) if log else Normalize(low, high)
        shade = np.asarray(scale(values[finite])) if high > low else np.full(finite.sum(), 0.7)
        colors[finite] = colormaps[style.SEQUENTIAL](0.15 + 0.8 * shade)[:, :3]
    return colors


def _evidence(runs: Sequence[Run]) -> str:
    """What the runs rest on, in one line."""
    if not runs:
        return ""
    ok = [run for run in runs if run.status == "ok"] or list(runs)
    parts = [
        " and ".join(dict.fromkeys(style.BACKENDS.get(run.backend, run.backend) for run in ok)),
        ", ".join(dict.fromkeys(run.arch for run in ok)),
        ", ".join(dict.fromkeys(f"{'×'.join(map(str, r.shape))} {r.dtype}" for r in ok)),
        "; ".join(dict.fromkeys(run.inputs.name for run in ok)),
        "inputs " + ", ".join(dict.fromkeys(run.inputs.fixture_id for run in ok)),
        ", ".join(dict.fromkeys(run.provenance.cpu for run in ok)),
        f"torch {ok[0].provenance.torch}, workbench {ok[0].provenance.workbench}",
    ]
    return " · ".join(filter(None, parts))
