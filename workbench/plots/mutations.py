"""The figure of mutations against gates: what each accuracy standard sees, and where it errs."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from workbench.plots import style

_KINDS = {  # groups of rows, from top to bottom, with what a flag means there
    "wrong": "mistakes: a flag is right",
    "correct": "other correct results: a flag is a false alarm (bits: another order)",
    "same": "the same order: no flag but those of the kernel itself",
    "control": "correct kernels, several orders: a flag is a false alarm (bits: another order)",
}
_PASS, _NONE = "#eef1f4", "white"


class _Table(Protocol):  # what is used of workbench.numerics.gates.table.MutationTable
    gates: Any
    shape: Any
    tile: Any
    arch: Any
    bench: Any

    def of(self, dtype: str, *kinds: str) -> Any: ...
    def seen(self, gate: str, dtype: str) -> tuple[int, int]: ...
    def false_alarms(self, gate: str, dtype: str) -> tuple[int, int]: ...


def mutation_grid(
    table: _Table,
    dtype: str,
    names: dict[str, str] | None = None,
    split: int = 0,
    evidence: str = "",
    title: str = "",
) -> Figure:
    """Mutations and correct controls (rows) before every gate (columns), for one dtype.

    A number is the percentage of outputs that the gate flags (its colour follows it), "✕" a flag
    on the whole, "·" passes, empty: no verdict.

    Args:
        table: A `MutationTable`.
        dtype: One of its dtypes.
        names: {gate: column head}; None: the gates' own names.
        split: A line before this column parts our own gates from quoted ones; 0: none.
    """
    groups = [(words, table.of(dtype, kind)) for kind, words in _KINDS.items()]
    groups = [(words, [r for r in rows if r.changed is not None]) for words, rows in groups]
    groups = [(words, rows) for words, rows in groups if rows]
    heads = [(names or {}).get(gate, gate).replace("_", " ") for gate in table.gates]
    count = sum(len(rows) for _, rows in groups)
    outputs = table.shape[0] * table.shape[2]
    fig = style.figure(
        4.6 + 0.62 * len(heads),
        3.2 + 0.29 * (count + len(groups)),
        title or _finding(table, dtype),
        evidence or style.evidence_text(table, note=_note(table)),
    )
    ax = fig.subplots()
    labels: list[tuple[float, str]] = []
    y = 0.0
    for words, rows in groups:
        ax.text(
            -0.5, y + 0.1, words, fontsize=10.5, fontweight="bold", color=style.INK, va="center"
        )
        y += 1
        for row in rows:
            labels.append((y, row.name.replace("_", " ")))
            for x, gate in enumerate(table.gates):
                color, mark = _cell(row[gate], outputs)
                ax.add_patch(Rectangle((x - 0.48, y - 0.46), 0.96, 0.92, color=color, lw=0))
                ax.text(x, y, mark, ha="center", va="center", fontsize=9, color=style.ink_on(color))
            if 0 < split < len(heads):  # ours to the left, quoted standards to the right
                ax.plot([split - 0.5] * 2, [y - 0.5, y + 0.5], color=style.INK, linewidth=2)
            y += 1
    ax.set_xlim(-0.5, len(heads) - 0.5)
    ax.set_ylim(y - 0.4, -0.5)
    ax.set_xticks(range(len(heads)), heads, rotation=40, ha="left", rotation_mode="anchor")
    ax.set_yticks([at for at, _ in labels], [name for _, name in labels])
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelsize=10, labelcolor=style.INK)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return fig


def _cell(verdict: Any, outputs: int) -> tuple[Any, str]:
    if verdict is None or verdict.passed is None:
        return _NONE, ""
    if verdict.passed:
        return _PASS, "·"
    if not verdict.flagged:
        return style.ACCENT, "✕"
    share = verdict.flagged / outputs
    # By the root of the share: one output of thousands must look unlike none.
    return colormaps[style.SEQUENTIAL].reversed()(float(np.sqrt(share))), _percent(share)


def _percent(share: float) -> str:
    if share >= 0.01:
        return "100" if share == 1 else f"{min(100 * share, 99):.0f}"  # 100 is all of them
    return f"{100 * share:.1f}" if 1000 * share >= 1 else "<.1"


def _finding(table: _Table, dtype: str) -> str:
    counts = {gate: table.seen(gate, dtype) for gate in table.gates}
    judged = max((total for _, total in counts.values()), default=0)
    # (One that could not judge all of them is no match.)
    least = min((g for g in counts if counts[g][1] == judged), key=lambda gate: counts[gate][0])
    words = f"{dtype}: of {judged} mistakes that change a bit, {least.replace('_', ' ')} sees "
    words += str(counts[least][0])
    if "running" in counts:
        alarms = table.false_alarms("running", dtype)[0]
        words += f", the running bound {counts['running'][0]} with {alarms} false alarms"
    return words


def _note(table: _Table) -> str:
    marks = "number: % of outputs flagged, ✕: flagged as a whole, ·: passes"
    order = f"declared order of tile {table.tile}, {table.arch}; no hardware"
    return f"{marks} · {order} · bench {table.bench}"
