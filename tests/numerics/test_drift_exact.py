"""What "exact" stands for: fp64 within its own bound, and sums rounded once where it is not."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from workbench.errors import InputError
from workbench.numerics.drift import drift
from workbench.numerics.exact import (
    check_exact,
    exact_linear,
    fp64_bound,
    rounded_linear,
    rounded_to,
)
from workbench.numerics.ulp import ulp

CANCEL = torch.tensor([[1e30, 1.0, -1e30]]), torch.ones(1, 3)


def draw(rows=5, hidden=64, vocab=7, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    h, w = torch.randn(rows, hidden, generator=g), torch.randn(vocab, hidden, generator=g)
    return h.to(dtype), w.to(dtype)


def one(hidden, weight):
    return torch.ones(len(hidden), len(weight))


def test_where_fp64_cancels_the_rounded_sum_is_right_and_the_check_says_so():
    by_fp64 = drift(one, *CANCEL, against="exact")
    assert by_fp64["kernel", "exact"].max_abs == 1  # the right answer, called wrong
    found = by_fp64.exact
    assert (found.method, found.checked, found.differing) == ("fp64", 1, 1)
    assert found.max_difference == found.max_relative == 1 and found.beyond_bound == 0
    assert found.own_error > 1  # fp64's own bound had said so
    rounded = drift(one, *CANCEL, against="exact", exact="rounded")
    assert rounded["kernel", "exact"].max_abs == rounded["kernel", "exact"].differing == 0
    found = rounded.exact
    assert (found.method, found.differing, found.max_difference) == ("rounded", 1, 1)
    assert found.own_error == 2.0**-53


def test_the_check_looks_where_terms_cancel_most():
    """One bad output of 40,000 is among the 64 that are checked."""
    hidden, weight = torch.ones(40, 6), torch.rand(1000, 6, generator=torch.manual_seed(0))
    weight[517] = torch.tensor([1e30, 1.0, -1e30, 0, 0, 0])
    hidden[::2] += 1
    result = drift(lambda h, w: h @ w.T, hidden, weight, against="exact")
    assert 30 < result.exact.checked <= 64
    assert result.exact.differing >= 16 and result.exact.max_relative == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_no_false_alarm(dtype):
    hidden, weight = draw(30, 300, 40, dtype=dtype)
    bias = weight[:, 0]
    exact, scale = exact_linear(hidden, weight, bias)
    at = torch.arange(exact.numel())
    found = check_exact(hidden, weight, bias, exact, scale, torch.float32, at=at)
    assert found.checked == 1200 and found.differing == found.beyond_bound == 0
    assert found.max_difference <= found.own_error


def test_control_a_wrong_product_is_beyond_the_bound():
    hidden, weight = draw()
    exact, scale = exact_linear(hidden, weight)
    exact[3, 2] += 1.01 * float(fp64_bound(scale, 64)[3, 2] + exact[3, 2].abs() * 2.0**-52)
    at = torch.arange(exact.numel())
    assert check_exact(hidden, weight, None, exact, scale, torch.float32, at=at).beyond_bound == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("with_bias", [False, True])
def test_rounded_logits_are_those_of_fsum(dtype, with_bias, monkeypatch):
    hidden, weight = draw(4, 33, 9, dtype=dtype)
    bias = weight[:, 1] * 3 if with_bias else None
    if dtype != torch.float64:  # their products are exact in fp64, which fsum adds
        h, w = hidden.double().numpy(), weight.double().numpy()
        terms = h[:, None, :] * w[None]
        if with_bias:
            more = np.broadcast_to(bias.double().numpy()[None, :, None], (4, 9, 1))
            terms = np.concatenate([terms, more], 2)
        want = np.array([[math.fsum(t) for t in row] for row in terms])
    else:
        pairs = [[(h.tolist(), w.tolist()) for w in weight] for h in hidden]
        add = [0.0] * 9 if bias is None else bias.tolist()
        want = np.array(
            [
                [
                    float(sum((Fraction(x) * Fraction(y) for x, y in zip(*p, strict=True)), b))
                    for p, b in zip(row, map(Fraction, add), strict=True)
                ]
                for row in pairs
            ]
        )
    got = rounded_linear(hidden, weight, bias).numpy()
    assert (got.view(np.int64) == want.view(np.int64)).all()
    monkeypatch.setattr("workbench.numerics.exact._CHUNK_BYTES", 8 * 33 * 2)
    again = rounded_linear(hidden, weight, bias).numpy()
    assert (got.view(np.int64) == again.view(np.int64)).all()


def test_rounded_errors_are_close_to_those_by_fp64():
    hidden, weight = draw(6, 200, 30)
    both = [
        drift(lambda h, w: h @ w.T, hidden, weight, "exact", exact=method)["kernel", "exact"]
        for method in ("fp64", "rounded")
    ]
    _, scale = exact_linear(hidden, weight)
    apart = abs(both[0].errors - both[1].errors)
    assert (apart <= 2 * fp64_bound(scale, 200).numpy()).all()


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError, match="fp128"):
        drift(one, *CANCEL, exact="fp128")


# ---- the unit ------------------------------------------------------------------------------------


def test_ulp_is_the_spacing_that_other_libraries_know():
    g = np.random.default_rng(0)
    x = np.ldexp(g.uniform(1, 2, 2000), g.integers(-140, 127, 2000)).astype(np.float32)
    x = np.concatenate([x, np.float32([1, 2, 2.0**-126, 2.0**-127, 2.0**-149, 0])])
    got = ulp(torch.from_numpy(x), torch.float32).numpy()
    assert (got == np.spacing(x).astype(np.float64)).all()
    wide = np.ldexp(g.uniform(1, 2, 2000), g.integers(-1074, 1023, 2000))
    got = ulp(torch.from_numpy(wide), torch.float64).tolist()
    assert got == [math.ulp(v) for v in wide.tolist()]
    half = np.ldexp(g.uniform(1, 2, 500), g.integers(-24, 15, 500)).astype(np.float16)
    got = ulp(torch.from_numpy(half), torch.float16).numpy()
    assert (got == np.spacing(half).astype(np.float64)).all()
    assert float(ulp(torch.tensor(1.0), torch.bfloat16)) == 2.0**-7


def test_ulp_beyond_the_range_and_where_there_is_none():
    assert float(ulp(torch.tensor(2.0**200, dtype=torch.float64), torch.float32)) == 2.0**177
    assert torch.isnan(ulp(torch.tensor([math.inf, math.nan]), torch.float32)).all()


# ---- one rounding to 16 bits ---------------------------------------------------------------------


def nearest(value: float, digits: int, lowest: int, largest: float) -> float:
    """Rounded to nearest even by integers: `digits` bits, multiples of 2^lowest at least."""
    if value == 0 or not math.isfinite(value):
        return value
    step = Fraction(2) ** max(math.frexp(value)[1] - digits, lowest)
    count = round(Fraction(value) / step)  # Python rounds a Fraction's half to even
    found = count * step
    if abs(found) > Fraction(largest):
        return math.copysign(math.inf, value)
    return math.copysign(float(found), value)


@pytest.mark.parametrize(
    ("dtype", "digits", "lowest"), [(torch.bfloat16, 8, -133), (torch.float16, 11, -24)]
)
def test_fp64_goes_to_16_bits_in_one_rounding(dtype, digits, lowest):
    g = torch.Generator().manual_seed(1)
    info = torch.finfo(dtype)
    near = torch.randn(400, generator=g).to(dtype).double()
    scale = torch.exp2(torch.randint(lowest - 3, 20, (400,), generator=g).double())
    values = torch.cat([near, near * scale])
    # On both sides of a midpoint, by less than fp32 shows, and on it.
    half = torch.exp2(torch.frexp(values)[1].double().clamp(min=lowest + digits) - digits - 1)
    values = torch.cat([values + half * side for side in (1 - 2**-30, 1, 1 + 2**-30, -1)])
    ends = [info.max * (1 + info.eps / 4), info.max * (1 + info.eps / 2), 1e300, 1e-300, 2**-150]
    more = [0.0, -0.0, math.inf, -math.inf, math.nan, *ends, *(-e for e in ends)]
    values = torch.cat([values, torch.tensor(more, dtype=torch.float64)])
    got = rounded_to(values, dtype).double()
    right = [nearest(v, digits, lowest, info.max) for v in values.tolist()]
    assert torch.equal(
        torch.nan_to_num(got, 9.0), torch.nan_to_num(torch.tensor(right).double(), 9.0)
    )
    signed = ~torch.isnan(values)
    assert torch.equal(torch.signbit(got)[signed], torch.signbit(values)[signed])
    assert int((values.to(dtype).double() != got)[signed].sum()) > 100, "torch rounds twice"
    assert rounded_to(near, torch.float32).dtype == torch.float32


def test_a_16_bit_kernel_is_compared_with_what_one_rounding_gives():
    hidden = torch.tensor([[1.0, 2.0**-8, 2.0**-40]]).bfloat16()  # just above a midpoint of bf16
    weight = torch.ones(1, 3).bfloat16()
    for answer, differing in ((1 + 2.0**-7, 0), (1.0, 1)):
        out = torch.full((1, 1), answer).bfloat16()
        found = drift(lambda h, w, out=out: out, hidden, weight, against="exact")
        assert found["kernel", "exact"].differing == differing
