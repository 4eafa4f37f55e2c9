"""The bounds that tests derive: never too small, and small enough to see a wrong formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from roundings import Rounded, exp, worst

DTYPES = {"float": torch.float32, "half": torch.float16}
NUMPY = {torch.float32: np.float32, torch.float16: np.float16}


def formula(x, y, z):
    """Every operation once."""
    low = x - x.max(1)
    e = low.exp()
    share = e / e.sum(1)
    return (share * y + 0.3) * (y.abs().minimum(1.7) - 2.0) + (z * z).mean(1) / (z * z + 1).sqrt()


class Plain(np.ndarray):
    """The same methods on arrays of the dtype, which round at every step."""

    def exp(self):
        return np.exp(self.astype(np.float64)).astype(self.dtype)

    def sqrt(self):
        return np.sqrt(self)

    def abs(self):
        return np.abs(self)

    def minimum(self, other):
        return np.minimum(self, self.dtype.type(other))

    def max(self, axis):
        return np.max(np.asarray(self), axis, keepdims=True).view(Plain)

    def sum(self, axis):
        total = np.zeros_like(np.asarray(self)[:, :1])
        for column in range(self.shape[1]):
            total = total + np.asarray(self)[:, column : column + 1]
        return total.view(Plain)

    def mean(self, axis):
        return self.sum(axis) * self.dtype.type(1 / self.shape[1])


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_an_evaluation_in_the_dtype_is_within_the_bound_and_a_wrong_one_is_not(dtype):
    rng = np.random.default_rng(0)
    found = []
    for spread in (0.1, 1.0, 3.0):
        inputs = (rng.standard_normal((3, 40, 24)) * spread).astype(NUMPY[dtype])
        want = formula(*(Rounded(x, dtype) for x in inputs))
        got = formula(*(x.view(Plain) for x in inputs))
        assert got.dtype == NUMPY[dtype]
        found.append(worst(np.asarray(got), want))
        moved = np.asarray(got).astype(np.float64) + 1.001 * want.off + abs(want.value - got)
        assert worst(moved, want) > 1
    assert max(found) <= 1
    # Worst-case bounds are loose, but not by orders of magnitude.
    assert max(found) > 0.05


def test_numbers_of_the_dtype_cost_nothing_and_others_their_rounding():
    x = Rounded([1.0], torch.float16)
    step = x.unit * 1.5 + x.tiny
    assert (x + 0.5).off[0] == step
    assert (x + (0.5 + x.unit / 4)).off[0] > step * (1 + x.unit / 2)
    assert x.to(torch.float32).off[0] == 0 and (x + 0.5).to(torch.float32).off[0] == step
    assert Rounded([1.0], torch.float32).to(torch.float16).off[0] == x.unit + x.tiny
    assert (-x).off[0] == x.abs().off[0] == 0
    assert exp(np.zeros(1))[0] == 1


def test_what_cannot_be_judged_is_refused():
    want = Rounded(np.zeros((2, 2)), torch.float32)
    for bad in (np.zeros((0,)), np.zeros((2, 3)), np.full((2, 2), np.nan)):
        with pytest.raises(AssertionError):
            worst(bad, want)
