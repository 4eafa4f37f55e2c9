"""Errors against bounds: the figure says what it shows, and where the line is crossed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from plots.test_plots import assert_inside, texts

from workbench.errors import InputError
from workbench.numerics.bounds import bounds
from workbench.numerics.bounds.study import errors_in
from workbench.orders.standard import pairwise_order, sequential_order
from workbench.plots import style
from workbench.plots.bounds import bound_scatter


@pytest.fixture(scope="module")
def sets():
    g = torch.Generator().manual_seed(0)
    x, w = torch.randn(4, 512, generator=g), torch.randn(60, 512, generator=g)
    constant = torch.full((2, 4096), 0.1)
    found = {}
    for label, tree, a, b in (
        ("N(0, 1)", pairwise_order(512), x, w),
        ("N(0, 1), sequential", sequential_order(512), x, w),
        ("all 0.1", sequential_order(4096), constant, constant),
    ):
        found[label] = bounds(tree, a, b), errors_in(tree, a, b, torch.float32, False)
    return found


@pytest.fixture(scope="module")
def figure(sets):
    return bound_scatter(sets)


def points(ax, label: str) -> np.ndarray:
    (found,) = [c for c in ax.collections if label in str(c.get_label())]
    return np.asarray(found.get_offsets())


def test_it_says_what_was_found_inside_its_edges(figure):
    assert_inside(figure)
    text = texts(figure).replace("\n", " ")
    assert "No error is above the worst-case or the running bound" in text
    assert "4 above the probabilistic one, all under a warning" in text
    assert "⚠ all 0.1: 4 of 4 above" in text and "N(0, 1): 0 of 240 above" in text


def test_the_title_follows_the_errors(sets):
    (found, errors), doubted = sets["N(0, 1)"], sets["all 0.1"]
    titles = {
        "nor above the probabilistic one": (found, errors),
        "are above a bound that is proved": (found, 1e4 * errors),
        "4 above the probabilistic one, all under a warning": doubted,
        "4 above the probabilistic one, without a warning": (
            dataclasses.replace(doubted[0], warnings=()),
            doubted[1],
        ),
    }
    for words, one in titles.items():
        title = bound_scatter({"set": one}).get_suptitle().replace("\n", " ")
        assert words in title


def test_every_point_is_a_bound_and_its_error(sets, figure):
    for ax, kind in zip(figure.axes, ("worst_case", "running", "probabilistic"), strict=True):
        found, errors = sets["all 0.1"]
        want = {(b, abs(e)) for b, e in zip(found.get(kind).flat, errors.flat, strict=True)}
        assert {tuple(p) for p in points(ax, "all 0.1").tolist()} == want
        some = points(ax, "sequential: ")
        assert len(some) == 240 - (sets["N(0, 1), sequential"][1] == 0).sum()
        (line,) = ax.lines
        assert (line.get_xdata() == line.get_ydata()).all()
        crosses = [c for c in ax.collections if "all 0.1" in str(c.get_label())]
        assert style.to_rgb(style.ACCENT) == tuple(crosses[0].get_edgecolor()[0][:3])


def test_what_is_above_the_line_is_inside_the_axes(figure):
    for ax in figure.axes:
        for label in ("all 0.1", "sequential: "):
            x, y = points(ax, label).T
            assert ax.get_xlim()[0] <= x.min() and x.max() <= ax.get_xlim()[1]
            assert ax.get_ylim()[0] <= y.min() and y.max() <= ax.get_ylim()[1]


def test_the_words_above_the_line_stand_above_every_point(figure):
    figure.draw_without_rendering()
    for ax in figure.axes:
        (words,) = [t for t in ax.texts if t.get_text() == "error above the bound"]
        bottom = ax.transData.inverted().transform(words.get_window_extent().p0)[1]
        assert bottom > max(points(ax, label)[:, 1].max() for label in ("all 0.1", "sequential: "))


def test_large_counts_have_commas():
    many = bounds(sequential_order(4), torch.ones(30, 4), torch.ones(40, 4))
    said = texts(bound_scatter({"many": (many, np.zeros((30, 40)))}))
    assert "many: 0 of 1,200 above (1,200 errors are 0)" in said
    assert "many: 1,200 of 1,200 above" in texts(bound_scatter({"many": (many, np.ones((30, 40)))}))


def test_zeros_and_outputs_without_a_bound_are_counted_not_drawn():
    x, w = torch.ones(1, 4), torch.tensor([[1.0] * 4, [3e38] * 4, [0.1] * 4])
    tree = sequential_order(4)
    errors = np.array([[0.0, np.inf, 1e-9]])
    figure = bound_scatter({"few": (bounds(tree, x, w), errors)})
    assert "few: 0 of 2 above (1 error is 0)" in texts(figure)
    assert len(points(figure.axes[0], "few")) == 1


def test_nothing_to_draw_is_refused(sets):
    with pytest.raises(InputError, match="nothing to draw"):
        bound_scatter({})
    found, _ = sets["N(0, 1)"]
    with pytest.raises(InputError, match="4 x 60 outputs"):
        bound_scatter({"short": (found, np.zeros((1, 60)))})
