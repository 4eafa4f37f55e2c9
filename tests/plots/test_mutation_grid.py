"""The figure of mutations against gates: every result is in it, with the right mark."""

from __future__ import annotations

import pytest
from plots.test_plots import assert_inside, texts

from workbench.numerics.gates.standards import STANDARDS
from workbench.numerics.gates.table import mutation_table
from workbench.plots.mutations import _cell, _percent, mutation_grid


@pytest.fixture(scope="module")
def table():
    return mutation_table((2, 90, 8), ["fp32", "bf16"], tile=64)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_every_result_is_in_the_figure(table, dtype):
    heads = {name: standard.short for name, standard in STANDARDS.items()}
    figure = mutation_grid(table, dtype, heads, split=5)
    assert_inside(figure)
    seen = texts(figure)
    for row in table.of(dtype):
        assert (row.name.replace("_", " ") in seen) == (row.changed is not None)
    assert all(head.replace("_", " ") in seen for head in heads.values())
    assert "no hardware" in seen and figure.get_suptitle().startswith(f"{dtype}: of ")
    assert seen.count("numpy model") == 1
    (axes,) = figure.axes
    shown = [r for r in table.of(dtype) if r.changed is not None]
    assert len(axes.patches) == len(shown) * len(table.gates)


def test_marks(table):
    row = table.row("nan_in_one", "fp32")
    assert _cell(row["running"], 16)[1] == "6"  # 1 of 16 outputs
    assert _cell(row["cosine"], 16)[1] == "✕"
    assert _cell(table.row("correct", "fp32")["cosine"], 16)[1] == "·"
    assert _cell(None, 16)[1] == ""
    assert [_percent(s) for s in (1.0, 0.994, 0.5, 0.01, 0.001)] == ["100", "99", "50", "1", "0.1"]
    # 100 is all of them, and no number says that there was none.
    assert [_percent(s) for s in (0.9999, 0.0002)] == ["99", "<.1"]


def test_a_gate_that_could_not_judge_is_not_the_one_that_sees_least(table):
    from workbench.plots.mutations import _finding

    class Unjudged:
        gates = ("none", *table.gates)
        false_alarms = staticmethod(table.false_alarms)

        def seen(self, gate, dtype):
            return (0, 0) if gate == "none" else table.seen(gate, dtype)

    assert _finding(Unjudged(), "fp32") == _finding(table, "fp32")
