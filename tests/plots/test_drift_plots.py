"""Figures of drift: they say the figures of their results, inside their edges."""

from __future__ import annotations

import math

import pytest
import torch
from matplotlib.image import AxesImage
from test_plots import assert_inside, texts

from workbench.numerics.drift import drift
from workbench.numerics.drift.over import drift_over
from workbench.plots import drift as plots
from workbench.plots import style

G = torch.Generator().manual_seed(2)
HIDDEN, WEIGHT = torch.randn(100, 48, generator=G), torch.randn(1700, 48, generator=G)


def by_halves(hidden, weight):
    return hidden[:, :24] @ weight[:, :24].T + hidden[:, 24:] @ weight[:, 24:].T


@pytest.fixture(scope="module")
def result():
    return drift(by_halves, HIDDEN, WEIGHT, ("exact", "torch.mv"))


@pytest.fixture(scope="module")
def table():
    def split(parts):
        return lambda h, w: sum(
            a @ b.T for a, b in zip(h.chunk(parts, 1), w.chunk(parts, 1), strict=True)
        )

    return drift_over(split, (1, 2, 4), ["fp32", "bf16"], HIDDEN[:5], WEIGHT[:9])


def figures(result, table) -> dict:
    return {
        "map": plots.drift_map(result),
        "map of a pair": plots.drift_map(result, [("kernel", "torch.mv")], "abs"),
        "histogram": plots.drift_histogram(result.histogram()),
        "vocabulary": plots.drift_by_vocab(result, unit="peak"),
        "tile": plots.drift_by_tile(table),
        "tile in ULP": plots.drift_by_tile(table, "ulp"),
    }


def test_every_figure_has_a_title_and_evidence_and_stays_inside_its_edges(result, table):
    for name, figure in figures(result, table).items():
        assert len(figure.get_suptitle()) > 15, name
        assert "workbench" in figure.get_supxlabel() and "torch" in figure.get_supxlabel(), name
        assert_inside(figure)


def test_titles_and_panels_tell_the_largest_errors(result, table):
    own, other = result["kernel", "exact"], result["torch.mv", "exact"]
    for figure in (plots.drift_map(result), plots.drift_by_vocab(result)):
        for c in (own, other):
            assert texts(figure).count(f"{c.max_ulp:.2f}") >= 2
    said = texts(plots.drift_map(result, unit="abs"))
    assert f"{style.scientific(own.max_abs)} (kernel)" in said
    said = texts(plots.drift_by_tile(table))
    for key, found in table.drifts.items():
        assert style.scientific(found["kernel", "exact"].max_abs) in said, key
    assert style.scientific(table[1, "bf16"]["torch.mv", "exact"].max_abs) in said


def test_the_map_shows_the_largest_of_its_cells_where_they_are(result):
    figure = plots.drift_map(result)
    panels = [im for ax in figure.axes for im in ax.findobj(AxesImage)]
    c = result["kernel", "exact"]
    shown = panels[0].get_array()
    assert float(shown.max()) == c.max_ulp and shown.shape == (50, 243)  # 2 x 7 outputs a cell
    size = abs(c.errors_in("ulp"))
    row, column = divmod(int(size.argmax()), 1700)
    assert shown[row // 2, column // 7] == c.max_ulp
    assert panels[0].get_extent() == [-0.5, 243 * 7 - 0.5, 99.5, -0.5]


def test_nan_is_drawn_apart_and_said():
    hidden = HIDDEN.clone()
    hidden[3, 0] = math.nan
    broken = drift(by_halves, hidden, WEIGHT, "exact")
    figure = plots.drift_map(broken)
    assert "orange: NaN or Inf" in texts(figure)
    assert "1,700 outputs with NaN or Inf not drawn" in texts(plots.drift_by_vocab(broken))
    assert "NaN or Inf: 1,700" in texts(plots.drift_histogram(broken.histogram()))
    image = next(im for ax in figure.axes for im in ax.findobj(AxesImage))
    assert image.get_array().mask.any(1).sum() == 1
    for drawn in (figure, plots.drift_by_vocab(broken)):
        assert_inside(drawn)
    # Control: without NaN nothing of it is said.
    clean = drift(by_halves, HIDDEN, WEIGHT, "exact")
    assert "NaN" not in texts(plots.drift_map(clean)) + texts(plots.drift_by_vocab(clean))


def test_no_error_at_all_can_be_drawn():
    ones = drift(lambda h, w: h @ w.T, torch.ones(2, 8), torch.ones(3, 8))
    for figure in (
        plots.drift_map(ones),
        plots.drift_by_vocab(ones),
        plots.drift_histogram(ones.histogram()),
    ):
        assert_inside(figure)
    assert "exactly 0: 100%" in texts(plots.drift_histogram(ones.histogram()))
    table = drift_over(
        lambda _: lambda h, w: h @ w.T, [1], ["fp32"], torch.ones(2, 8), torch.ones(3, 8)
    )
    assert_inside(plots.drift_by_tile(table))


def test_all_pairs_share_the_edges_of_a_histogram(result):
    figure = plots.drift_histogram(result.histogram(bins=21), names={"kernel": "two halves"})
    said = texts(figure)
    assert "two halves against exact" in said and "torch.mv against exact" in said
    assert figure.axes[0].get_yscale() == "log"
