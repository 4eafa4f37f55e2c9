"""The class table: which configurations share every bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from workbench.orders.classes import value_text
from workbench.plots import style

_LENGTHS = ("tile_length", "leaf_length")  # what stands at the left; the rest goes to the top
_WORDS = {"tile_length": "tile length", "leaf_length": "leaf length", "max_blocks": "MAX_BLOCKS"}
_MANY = 14  # columns from which their names are turned


def class_table(classes: Any, evidence: str = "", title: str = "") -> Figure:
    """One cell per configuration, one letter and colour per bit class.

    Args:
        classes: `workbench.orders.classes.BitClasses`. A configuration that failed is marked "!",
            one that was not asked for is left white.
        evidence: The line below; "": what `classes` rests on.
        title: The finding; "": the count of configurations and classes.
    """
    cells = [
        (config, one.letter, k) for k, one in enumerate(classes.classes) for config in one.configs
    ]
    cells += [(config, "!", -1) for config in classes.failed]
    values: dict[str, list] = {}
    for config, _, _ in cells:
        for name, value in {"arch": config.arch, **dict(config.constants)}.items():
            values.setdefault(name, [])
            if value not in values[name]:
                values[name].append(value)
    left = next((name for name in _LENGTHS if len(values.get(name, [])) > 1), _LENGTHS[0])
    if left not in values:
        left = _LENGTHS[1]
    tops = [name for name in values if name != left and (len(values[name]) > 1 or name == "arch")]
    rows = sorted(values[left])
    columns = sorted({_key(config, tops) for config, _, _ in cells})
    colors = np.ones((len(rows), len(columns), 3))
    marks = np.full((len(rows), len(columns)), "", dtype=object)
    for config, mark, k in cells:
        row, column = rows.index(getattr(config, left)), columns.index(_key(config, tops))
        color = style.CATEGORIES[k % len(style.CATEGORIES)] if k >= 0 else "#ffffff"
        # More classes than colours: each round is lighter than the one before.
        lighter = 1 - 0.55 ** (k // len(style.CATEGORIES)) if k >= 0 else 0
        colors[row, column] = np.array(style.to_rgb(color)) * (1 - lighter) + lighter
        marks[row, column] = mark
    configs, groups = len(cells), len(classes.classes)
    title = title or (
        f"{configs} configurations of {classes.op}, {groups} bit classes: "
        "cells of one letter give the same bits"
    )
    turned = len(columns) > _MANY
    names = [
        (", " if turned else "\n").join(
            str(v) if name == "arch" else value_text(classes.op, name, v)
            for name, v in zip(tops, column, strict=True)
        )
        for column in columns
    ]
    widest = max(len(line) for name in names for line in name.split("\n"))
    fig = style.figure(
        max(8.0, 2.4 + (0.5 if turned else max(0.95, 0.09 * widest)) * len(columns)),
        2.6 + 0.42 * len(rows) + (0.9 if turned else 0.25 * (len(tops) - 1)),
        title,
        evidence or style.evidence_text(classes.evidence),
    )
    ax = fig.subplots()
    ax.imshow(colors, aspect="auto", interpolation="nearest")
    for (row, column), mark in np.ndenumerate(marks):
        ink = style.ink_on(colors[row, column])
        ax.text(column, row, mark, ha="center", va="center", color=ink, fontsize=12)
    style.cell_axes(ax, names, rows)
    if turned:
        ax.tick_params(axis="x", labelrotation=90)
    ax.set_ylabel(_WORDS.get(left, left))
    ax.set_xlabel(", ".join(_WORDS.get(name, name) for name in tops))
    ax.set_title(
        f"n = {classes.n}, {classes.dtype}, by the {classes.rests_on} order and the bits of "
        f"{classes.outputs} results each" + ("; !: not built" if classes.failed else ""),
        loc="left",
        fontsize=10.5,
        color=style.SOFT,
    )
    return fig


def _key(config: Any, names: list[str]) -> tuple:
    return tuple(getattr(config, name) for name in names)
