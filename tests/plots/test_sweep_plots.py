"""The figures of a sweep: each cell and point is the run it stands for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from workbench.errors import InputError
from workbench.plots import style
from workbench.plots.sweep import pareto_plot, sweep_table
from workbench.sweep import choose
from workbench.sweep.run import BoundFigures, DriftFigures, Inputs, Verdict, WallTime

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
            "invariance": Verdict(True),
            "bound": BoundFigures("running", 16.0, 0.25),
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


@pytest.mark.parametrize(
    ("shown", "text"), [("bytes", "A\n12"), ("time", "A"), ("bound", "A\n0.25")]
)
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
    assert [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"] == [8.0]


def test_a_limit_is_drawn_where_it_was_given():
    (ax,) = pareto_plot(choose.recommend(RUNS, limit=3.0), RUNS).axes
    assert [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"] == [3.0]
    assert "limit" in [text.get_text() for text in ax.texts]


def test_a_point_is_a_configuration_over_its_inputs():
    other = Inputs("other")
    more = [(64, 1, "o1", 6.0, 20), (64, 40, "o1", 1.0, 20), (4096, 1, "o2", 1.0, 30)]
    runs = [*RUNS, *(run(*one, inputs=other) for one in more)]
    found = choose.recommend(runs)
    (ax,) = pareto_plot(found, runs).axes
    points = sorted(map(tuple, ax.collections[0].get_offsets()))
    assert points == [(16, 4), (16, 6), (30, 2)]
    front = next(line for line in ax.lines if line.get_marker() == "o")
    assert set(zip(*front.get_data(), strict=True)) <= set(points)
    assert "the largest of its inputs" in ax.get_ylabel()
    assert not [line for line in ax.lines if line.get_linestyle() == "--"]  # several references


@pytest.mark.parametrize(
    "changes", [{"inputs": Inputs("other")}, {"backend": "npu"}, {"repeat": 1}]
)
def test_a_cell_does_not_hide_a_run(changes):
    with pytest.raises(InputError, match="a cell holds one"):
        sweep_table([*RUNS, run(64, 1, "o1", 9.0, 1, **changes)])


def test_what_cannot_be_drawn_is_told():
    with pytest.raises(InputError, match="nothing to draw"):
        sweep_table([])
    with pytest.raises(InputError, match="drift, bound, bytes, time"):
        sweep_table(RUNS, "speed")


def test_times_are_plain_numbers_of_a_simulation():
    time = WallTime(0.125, "F.linear", 8.0, 1.0)
    fig = sweep_table([run(64, 1, "o1", 4.0, 12, time=time)], "time")
    (ax,) = fig.axes
    assert words(ax) == {(0, 0): "A\n8"} and "of a simulation" in ax.get_title("left")
    assert ax.get_ylabel() == "tile length" and "1 configuration, 1 bit class:" in (
        fig.get_suptitle().replace("\n", " ")
    )
    device = run(64, 1, "o1", 4.0, 12, time=time, backend="npu")
    assert "simulation" not in sweep_table([device], "time").axes[0].get_title("left")


def test_a_modelled_cost_says_that_it_is_not_calibrated():
    runs = RUNS[:3]
    found = choose.recommend(runs, cost="model")
    (ax,) = pareto_plot(found, runs).axes
    for text in (ax.get_xlabel(), found.reason):
        assert "model, not calibrated" in text
    assert "s/logit (model)" in str(found)


@pytest.mark.parametrize("width", [4.0, 9.0, 12.0])
def test_titles_are_not_cut_off(width):
    # Wide letters in one, narrow ones in the other: a number of characters is no width.
    for title in ("Recommended: max_blocks 40, schedule weight_stationary, tile_length 128",
                  "MMMM WWWW " * 12, "illi till " * 12):  # fmt: skip
        fig = style.figure(width, 3, title)
        box = fig._suptitle.get_window_extent(FigureCanvasAgg(fig).get_renderer())
        assert box.x1 <= fig.bbox.x1, (width, title)
        assert fig.get_suptitle().split() == title.split()
