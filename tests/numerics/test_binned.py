"""Bins of a table, against loops over every number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from workbench.errors import InputError
from workbench.numerics.drift.binned import binned


def farthest(values: np.ndarray, key=abs) -> float:
    """The number of a block that is farthest from 0; a NaN before an infinity before the rest."""

    def rank(x):
        return (2, 0) if math.isnan(x) else (1, 0) if math.isinf(x) else (0, key(x))

    return max(values.ravel().tolist(), key=rank)


def wrong_bins(values, bins, key=abs) -> int:
    """How many bins do not show what a loop finds in them, bit for bit, or say a wrong place."""
    bad = 0
    for i in range(len(bins.rows) - 1):
        for j in range(len(bins.columns) - 1):
            down = slice(bins.rows[i], bins.rows[i + 1])
            across = slice(bins.columns[j], bins.columns[j + 1])
            wanted = np.float64(farthest(values[down, across], key))
            row, column = bins.at[i, j]
            got = bins.values[i, j]
            inside = down.start <= row < down.stop and across.start <= column < across.stop
            same = abs(got) == abs(wanted) or (np.isnan(got) and np.isnan(wanted))
            at_place = np.float64(values[row, column]).tobytes() == got.tobytes()
            bad += not (inside and same and at_place)
    return bad


@pytest.mark.parametrize("shape", [(1, 1), (7, 13), (40, 100), (3, 1000)])
@pytest.mark.parametrize("most", [(1, 1), (4, 9), (96, 384)])
def test_each_bin_shows_its_farthest_number(shape, most):
    values = np.random.default_rng(1).standard_normal(shape)
    found = binned(values, most=most)
    assert all(a <= b for a, b in zip(found.values.shape, most, strict=True))
    assert (found.rows[-1], found.columns[-1]) == shape
    assert wrong_bins(values, found) == 0


def test_a_part_of_the_table():
    values = np.random.default_rng(2).standard_normal((30, 200))
    found = binned(values, (3, 50), (20, 181), most=(5, 17))
    assert (found.rows[0], found.rows[-1], found.columns[0], found.columns[-1]) == (3, 20, 50, 181)
    assert wrong_bins(values, found) == 0


def test_nan_and_infinities_are_farthest():
    values = np.random.default_rng(3).standard_normal((20, 60))
    values[3, 4], values[3, 5], values[11, 50], values[0, 0] = np.inf, np.nan, -np.inf, -np.inf
    found = binned(values, most=(3, 5))
    assert wrong_bins(values, found) == 0
    assert (np.isnan(found.values).sum(), np.isinf(found.values).sum()) == (1, 1)


def test_the_check_of_bins_can_fail():
    """The largest number, sign and all, is another than the farthest from 0."""
    values = np.random.default_rng(4).standard_normal((20, 60))
    assert wrong_bins(values, binned(values, most=(3, 5)), key=lambda x: x) > 0


@pytest.mark.parametrize(
    ("shape", "low", "high"),
    [((0, 3), (0, 0), None), ((3,), (0, 0), None), ((3, 3), (1, 1), (1, 2))],
)
def test_no_table_and_no_part(shape, low, high):
    with pytest.raises(InputError):
        binned(np.zeros(shape), low, high)
