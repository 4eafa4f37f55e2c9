"""Figures of log-probs, probes and sources say what their results say."""

from __future__ import annotations

import math

import pytest
import torch

import workbench as wb
from workbench.errors import InputError
from workbench.plots import png
from workbench.plots.agreement import agreement_bars, agreement_table, token_ratios
from workbench.plots.probes import comparison_table, probe_table
from workbench.plots.source import source_lines


def texts(ax) -> list[str]:
    return [t.get_text() for t in ax.texts]


# ---- log-probs -----------------------------------------------------------------------------------


def test_tokens_outside_the_range_are_marked_and_counted():
    sampler = torch.zeros(4)
    trainer = torch.tensor([0.0, math.log(1.1), math.log(1.3), math.log(0.5)])
    fig = token_ratios({"same": (sampler, sampler), "other": (sampler, trainer)}, (0.8, 1.2), "e")
    same, other = fig.axes
    assert texts(same) == ["every ratio is exactly 1"]
    assert texts(other) == ["3 of 4 ratios are not 1, × 2 outside [0.8, 1.2]"]
    inside, cut = (c.get_offsets() for c in other.collections)
    assert [round(x) for x in cut[:, 0]] == [2, 3] and len(inside) == 2
    low, high = other.get_ylim()
    assert all(low < y < high for y in (0.5, 1.3))  # nothing is cut off
    assert fig.get_suptitle() == "same: 0 tokens clipped; other: 2 tokens clipped"
    assert png(fig)[:4] == b"\x89PNG"
    with pytest.raises(InputError, match="nothing to draw"):
        token_ratios({}, (0.8, 1.2))


def test_a_ratio_far_away_is_drawn_at_the_edge_and_counted():
    fig = token_ratios({"far": (torch.zeros(3), torch.tensor([0.0, -800.0, 900.0]))}, (0.8, 1.2))
    (ax,) = fig.axes
    low, high = ax.get_ylim()
    assert texts(ax) == ["2 of 3 ratios are not 1, × 2 outside [0.8, 1.2], 2 beyond this axis"]
    assert [y for _, y in ax.collections[1].get_offsets()] == [low, high]
    assert png(fig)[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("trainer", "clip_range"),
    [
        ([0.0, math.nan], (0.8, 1.2)),
        ([0.0, -math.inf], (0.8, 1.2)),
        ([0.0], (0.8, 1.2)),
        ([0.0, 0.0], (0.0, 1.2)),
        ([0.0, 0.0], (1.2, 0.8)),
    ],
)
def test_log_probs_without_a_ratio_are_refused(trainer, clip_range):
    with pytest.raises(InputError):
        token_ratios({"a": (torch.zeros(2), torch.tensor(trainer))}, clip_range)
    with pytest.raises(InputError, match="at least one"):
        token_ratios({"a": (torch.zeros(0), torch.zeros(0))}, (0.8, 1.2))


class Sample:
    def __init__(self) -> None:
        draw = wb.samples.qwen3(rows=8, vocab=16, dtype=torch.float32)
        self.hidden, self.weight = draw.hidden.reshape(2, 4, -1), draw.weight
        self.target = torch.arange(8).reshape(2, 4)


def rows_alone(hidden, weight, target):
    logits = torch.stack([weight @ row for row in hidden.reshape(-1, hidden.shape[-1])])
    at = target.reshape(-1, 1).clamp(min=0)
    return logits.log_softmax(-1).gather(-1, at).reshape(target.shape)


def with_the_batch(hidden, weight, target):
    return rows_alone(hidden, weight, target) + float(target.numel())


def test_the_table_has_a_cell_for_each_pair_that_was_compared():
    results = {
        "alone": wb.sampler_trainer(rows_alone, Sample(), prompt=1),
        "batch": wb.sampler_trainer(with_the_batch, Sample(), prompt=1, trainers=("packed",)),
    }
    fig = agreement_table(results)
    (ax,) = fig.axes
    shown = texts(ax)
    assert shown.count("=") == 8 and sum(t.startswith("≠ 6 of 6") for t in shown) == 2
    assert len(shown) == 10 and "empty: not compared" in ax.get_title("left")
    assert fig.get_suptitle() == "1 of 2 give sampler and trainer the same bits"
    with pytest.raises(InputError, match="nothing to draw"):
        agreement_table({})


def test_bars_write_zero_and_mark_what_is_beyond_the_limit():
    logp = torch.zeros(4)
    results = {"same": wb.agreement(logp, logp), "far": wb.agreement(logp, logp + 1)}
    fig = agreement_bars(results)
    for ax, limit in zip(fig.axes, (True, True, False), strict=True):
        assert texts(ax)[0] == " 0"
        # A limit of 0 has no place on a logarithmic axis: it is told in words.
        assert texts(ax)[1].endswith("beyond" if limit else "beyond limit 0")
        assert ("limit 0" in ax.get_title("left")) != limit and bool(ax.lines) == limit
        (bar,) = ax.patches  # none for what is 0
        low, high = ax.get_xlim()
        assert low < bar.get_x() + bar.get_width() < high
    assert [t.get_text() for t in fig.axes[0].get_yticklabels()] == ["same", "far"]
    with pytest.raises(InputError, match="nothing to draw"):
        agreement_bars({})


# ---- probes and records --------------------------------------------------------------------------


def test_the_probe_table_marks_other_answers():
    results = {name: wb.probe(name) for name in ("dav-2201", "dav-3510", "dav-1001")}
    fig = probe_table(results)
    (ax,) = fig.axes
    halves = [list(found.halves()) for found in results.values()]
    wanted = {
        (column, row)
        for column, answers in enumerate(halves)
        for row, answer in enumerate(answers)
        if answer.bits != halves[0][row].bits
    }
    marked = {tuple(map(round, t.get_position())) for t in ax.texts if t.get_text()[:1] == "≠"}
    assert marked == wanted and {c for c, _ in wanted} >= {1}
    assert len(ax.texts) == 3 * len(halves[0])
    assert "no Ascend hardware" in fig.get_supxlabel()
    with pytest.raises(InputError, match="nothing to draw"):
        probe_table({})


def test_the_comparison_table_says_what_was_not_compared():
    from workbench.sweep.compare import compare
    from workbench.sweep.run import DriftFigures, Inputs, Provenance, Run

    def ran(bits, order, fixture="5f0c", drift=0.25):
        made = Provenance("ab12", "g++ 12.2.0", "0.1", "2.13.0")
        figures = DriftFigures(drift, drift, drift, 1.0)
        return Run("lm_head", {"tile_length": 64}, "dav-2201", "twin", "fp32", (2, 64, 8),
                   Inputs(fixture), made, bits=bits, order_hash=order, drift=figures)  # fmt: skip

    found = {
        "one": compare(ran("aa", "t"), ran("aa", "t")),
        "two": compare(ran("aa", "t"), ran("ab", "s", drift=0.5)),
        "three": compare(ran("aa", "t"), ran("aa", "t", fixture="0000")),
    }
    fig = comparison_table(found, "e")
    (ax,) = fig.axes
    shown = texts(ax)
    assert shown[:3] == ["=", "=", "2.5e-1"] and shown[3:6] == ["≠", "≠", "2.5e-1 | 5.0e-1"]
    assert shown[7] == "not compared"
    assert fig.get_suptitle() == "1 of 3 pairs of runs share every bit"
    with pytest.raises(InputError, match="nothing to draw"):
        comparison_table({})


# ---- sources -------------------------------------------------------------------------------------


def test_notes_stand_at_their_lines():
    text = "zero\n    one\n    two\n    three\n"
    fig = source_lines(text, {3: "a note " * 40}, {4: "B"}, "e", first=2)
    (ax,) = fig.axes
    at = {t.get_text(): t.get_position()[1] for t in ax.texts}
    assert "zero" not in at and at["one"] < at["two"] < at["three"]  # without their indent
    assert at["3"] == at["two"] == at["▶"] and at["B"] == at["three"]
    (note,) = (t for t in at if t.startswith("a note"))
    assert at[note] == at["two"] and note.endswith("…") and note.count("\n") == 1
    for notes, marks in (({1: "x"}, {}), ({}, {5: "x"})):
        with pytest.raises(InputError, match="has the lines 2 to 4"):
            source_lines(text, notes, marks, first=2)
