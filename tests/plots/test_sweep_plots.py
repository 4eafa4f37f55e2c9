"""The figures of a sweep: each cell and point is the run it stands for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from workbench.plots import style
from workbench.plots.sweep import pareto_plot, sweep_table
from workbench.sweep import choose
from workbench.sweep.run import DriftFigures

sys.path.insert(0, str(Path(__file__).parents[1] / "sweep"))
from sweep_kit import made


def run(tile, blocks, order, off, moved, **changes):
    figures = DriftFigures(off, off, off, off)
    own = DriftFigures(8.0, 8.0, 8.0, 8.0)
    return made(
        **{
            "config": {"tile_length": tile, "max_blocks": blocks},
            "order_hash": order,
            "drift": figures,
            "reference_drift": own,
            "counters": {"gm_to_ub_bytes": moved, "logits": 1, "blocks": 1, "copies": 1},
        }
        | changes
    )


RUNS = [
    run(64, 1, "o1", 4.0, 12),
    run(64, 40, "o1", 4.0, 12),
    run(4096, 1, "o2", 2.0, 30),
    made(config={"tile_length": 4096, "max_blocks": 40}, status="refused", error="x",
         order_hash=None, bits=None),
    made(config={"tile_length": 100, "max_blocks": 1}, status="failed", error="x",
         order_hash=None, bits=None),
]  # fmt: skip


def words(ax):
    return {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text()
            for t in ax.texts}  # fmt: skip


def test_cells_are_the_runs():
    fig = sweep_table(RUNS)
    (ax,) = fig.axes
    assert words(ax) == {
        (0, 0): "A\n4.0e0",
        (0, 1): "A\n4.0e0",
        (1, 0): "!",
        (1, 1): "",
        (2, 0): "B\n2.0e0",
        (2, 1): "–",
    }
    assert [t.get_text() for t in ax.get_yticklabels()] == ["64", "100", "4096"]
    pixels = ax.images[0].get_array()
    assert (pixels[0, 0] == pixels[0, 1]).all() and (pixels[0, 0] != pixels[2, 0]).any()
    assert pixels[2, 0].sum() < pixels[0, 0].sum()  # less error is darker
    assert "2 bit classes" in fig.get_suptitle() and "no Ascend hardware" in fig.get_supxlabel()
    assert style.png(fig, 0.5).startswith(b"\x89PNG")


@pytest.mark.parametrize(("shown", "text"), [("bytes", "A\n12"), ("time", "A"), ("bound", "A")])
def test_other_numbers(shown, text):
    (ax,) = sweep_table(RUNS, shown).axes
    assert words(ax)[0, 0] == text


def test_one_run():
    (ax,) = sweep_table(RUNS[:1]).axes
    assert words(ax) == {(0, 0): "A\n4.0e0"}


def test_front_and_recommended():
    found = choose.recommend(RUNS)
    fig = pareto_plot(found, RUNS)
    (ax,) = fig.axes
    points = sorted(map(tuple, ax.collections[0].get_offsets()))
    assert points == [(12, 4), (12, 4), (30, 2)]
    front = next(line for line in ax.lines if line.get_marker() == "o")
    assert list(zip(*front.get_data(), strict=True)) == [(12, 4), (30, 2)]
    assert tuple(ax.collections[1].get_offsets()[0]) == (12, 4)
    assert found.choice.label in fig.get_suptitle()
    assert style.png(fig, 0.5).startswith(b"\x89PNG")
