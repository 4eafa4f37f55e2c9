"""Answers of the probes side by side, and what a comparison of records found."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from workbench.errors import InputError
from workbench.plots import style

_SAME, _OTHER = "#eef1f4", "#E69F00"
_ASKS = 46  # characters of a question in a line


def probe_table(results: Mapping[str, Any], evidence: str = "", title: str = "") -> Figure:
    """What each question was answered, a column a result; "≠" where it is not the first column's.

    Args:
        results: {label: `Probes`}; the first is what the others are compared with, bit by bit.
        evidence: The line below; "": backends and architectures of the results.
        title: The finding; "": how many questions have more than one answer.

    Raises:
        InputError: Nothing to draw, or results of other questions.
    """
    given = {label: {a.name: a for a in found.halves()} for label, found in results.items()}
    if not given:
        raise InputError("there is nothing to draw; give {label: wb.probe(…)}")
    first = next(iter(given.values()))
    if any([*answers] != [*first] for answers in given.values()):
        raise InputError("these results answer other questions; give results of wb.probe alone")
    texts, other = [], []
    for name, wanted in first.items():
        row = [answers[name] for answers in given.values()]
        other.append([answer.bits != wanted.bits for answer in row])
        texts.append(
            [
                ("≠ " if differs else "") + _value(answer)
                for answer, differs in zip(row, other[-1], strict=True)
            ]
        )
    split = sum(any(row) for row in other)
    told = {"twin": "twin (no Ascend hardware)"}
    who = [
        ", ".join(dict.fromkeys([told.get(r.backend, r.backend) for r in results.values()])),
        ", ".join(dict.fromkeys([r.arch for r in results.values()])),
    ]
    fig = style.figure(
        5.4 + 1.75 * len(given),
        2.0 + 0.46 * len(first),
        title or f"{split} of {len(first)} questions have more than one answer here",
        evidence or style.evidence_text(note=" · ".join(who)),
    )
    ax = fig.subplots()
    asks = [f"{name}: {answer.asks}" for name, answer in first.items()]
    _table(ax, texts, np.array(other), list(given), [textwrap.fill(a, _ASKS) for a in asks])
    return fig


def comparison_table(found: Mapping[str, Any], evidence: str = "", title: str = "") -> Figure:
    """Pairs of runs: whether they share the order of summation and every bit, and both drifts.

    Args:
        found: {label: `Comparison`}.
        evidence: The line below.
        title: The finding; "": how many pairs share every bit.

    Raises:
        InputError: Nothing to draw.
    """
    if not found:
        raise InputError("there is nothing to draw; give {label: record.compare(…)}")
    texts, other = [], []
    for one in found.values():
        drifts = [run.drift.max_abs if run.drift else None for run in (one.a, one.b)]
        same = [one.same_order, one.same_bits, None if None in drifts else drifts[0] == drifts[1]]
        other.append([answer is False for answer in same])
        words = [{True: "=", False: "≠", None: "not compared"}[answer] for answer in same[:2]]
        shown = ["–" if d is None else style.scientific(d) for d in drifts]
        texts.append([*words, shown[0] if same[2] else " | ".join(shown)])
    equal = sum(one.same_bits is True for one in found.values())
    fig = style.figure(
        10.5,
        2.0 + 0.5 * len(found),
        title or f"{equal} of {len(found)} pairs of runs share every bit",
        evidence or style.evidence_text(),
    )
    ax = fig.subplots()
    heads = ["order of summation", "bits of the results", "largest error"]
    _table(ax, texts, np.array(other), heads, list(found))
    return fig


def _table(
    ax: Axes, texts: list[list[str]], other: np.ndarray, heads: list[str], rows: list[str]
) -> None:
    colors = np.full((*other.shape, 3), style.to_rgb(_SAME))
    colors[other] = style.to_rgb(_OTHER)
    ax.imshow(colors, aspect="auto", interpolation="nearest")
    for (row, column), differs in np.ndenumerate(other):
        weight = "bold" if differs else "normal"
        shown: dict[str, Any] = {
            "ha": "center",
            "va": "center",
            "fontsize": 10.5,
            "color": style.INK,
        }
        ax.text(column, row, texts[row][column], fontweight=weight, **shown)
    style.cell_axes(ax, [textwrap.fill(h, 18) for h in heads], rows)
    ax.xaxis.tick_top()


def _value(answer: Any) -> str:
    if answer.value is not None:
        return f"{answer.value:.6g}"
    return "inf" if answer.bits else "no such instruction"
