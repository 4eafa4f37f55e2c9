"""Figures about tolerances: they say what the results say, inside their edges."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from matplotlib.text import Text

from workbench.numerics.tolerance import tolerance
from workbench.orders import ReductionTree, sequential
from workbench.plots.tolerance import tolerance_plane, tolerance_ratios

G = torch.Generator().manual_seed(2)
HIDDEN, WEIGHT = torch.randn(8, 64, generator=G), torch.randn(50, 64, generator=G)
TREE = ReductionTree.from_nested(sequential(range(64)))


def linear(hidden, weight, **options):
    return hidden @ weight.T


@pytest.fixture(scope="module")
def found():
    return tolerance(linear, HIDDEN, WEIGHT, tree=TREE)


def texts(figure) -> str:
    return "\n".join(t.get_text() for t in figure.findobj(Text) if t.get_visible())


def assert_inside(figure) -> None:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    width, height = canvas.get_width_height()
    ticks = {
        label
        for ax in figure.axes
        for axis in (ax.xaxis, ax.yaxis)
        for label in axis.get_ticklabels(which="both")
    }
    for text in figure.findobj(Text):
        if text in ticks or not text.get_visible() or not text.get_text().strip():
            continue
        box = text.get_window_extent(renderer)
        ok = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert ok, f"{text.get_text()!r} at {box} leaves the figure of {width} x {height}"
    # A legend that runs into the title is the other fault of a figure with much above its axes.
    title = figure._suptitle.get_window_extent(renderer)
    for ax in figure.axes:
        if ax.get_legend() is not None:
            assert ax.get_legend().get_window_extent(renderer).y1 <= title.y0 + 1


def figures(found) -> dict:
    grid, tight = found.grid(), found.histogram(2.0**-24, 0.0)
    return {
        "ratios": tolerance_ratios(found.histogram()),
        "tight": tolerance_ratios(tight),
        "plane": tolerance_plane(grid),
        "at": tolerance_plane(grid, (2.0**-30, 0.0)),
    }


def test_every_figure_keeps_its_text_inside_and_names_its_evidence(found):
    for figure in figures(found).values():
        assert_inside(figure)
        assert found.evidence.fixture_id in texts(figure)


def test_the_histograms_hold_the_counts(found):
    h = found.histogram(2.0**-24, 0.0)
    figure = tolerance_ratios(h)
    left, right = figure.axes
    drawn = [np.asarray(p.get_data().values) for p in left.patches]
    assert any(np.array_equal(d, h.rule) for d in drawn)
    assert any(np.array_equal(d, h.derived) for d in drawn)
    drawn = [np.asarray(p.get_data().values) for p in right.patches]
    assert all(any(np.array_equal(d, c) for d in drawn) for c in h.looseness.values())
    said = texts(figure)
    pair = h.placed["this pair"]
    assert f"The rule flags {pair.count:,} of 400 outputs" in said.replace("\n", " ")
    assert f"{h.exact} outputs without any error" in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"count": 0, "below": 0}, "flags no output and allows"),
        ({"count": 3, "below": 7}, "less for 7 outputs"),
        ({"below": 400}, "less than it everywhere"),
    ],
)
def test_the_title_says_what_was_found(found, changes, words):
    h = found.histogram()
    pair = dataclasses.replace(h.placed["fp32"], **changes)
    figure = tolerance_ratios(dataclasses.replace(h, placed={**h.placed, "fp32": pair}))
    assert words in texts(figure).replace("\n", " ")


def test_the_plane_holds_the_counts_the_lines_and_the_cells(found):
    grid = found.grid()
    figure = tolerance_plane(grid, (2.0**-20, 2.0**-21))
    ax = figure.axes[0]
    mesh = next(c for c in ax.collections if isinstance(c, QuadMesh))
    values = mesh.get_array()
    assert np.array_equal(np.ma.filled(values, 0).reshape(grid.flagged.shape), grid.flagged)
    lines = {line.get_label(): line.get_xydata() for line in ax.lines}
    for kind, name in (("running", "running bound"), ("worst_case", "worst-case bound")):
        x, y = lines[name].T
        known = dict(zip(grid.rtols, grid.frontiers[kind], strict=True))
        assert all(known[r] == a or known[r] < a == x.min() for a, r in zip(x, y, strict=True))
    assert tuple(lines["contract fp32"][0]) == grid.cells["fp32"]
    pair = next(xy for label, xy in lines.items() if label.startswith("this pair"))
    assert tuple(pair[0]) == (2.0**-20, 2.0**-21)


def test_a_plane_of_log_probs_marks_cells_of_rtol_0(found):
    cells = {"fp32": (2.0**-17, 0.0)}
    grid = dataclasses.replace(found.grid(), cells=cells, own="fp32")
    figure = tolerance_plane(grid)
    assert_inside(figure)
    legend = figure.axes[0].get_legend()
    assert "contract fp32 (rtol 0)" in [t.get_text() for t in legend.get_texts()]


def test_where_nothing_is_flagged_there_is_still_a_figure():
    zeros = torch.zeros(2, 64)
    found = tolerance(linear, zeros, zeros, tree=TREE)
    assert found.histogram().exact == 4
    for figure in (tolerance_ratios(found.histogram()), tolerance_plane(found.grid())):
        assert_inside(figure)
