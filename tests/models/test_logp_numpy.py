"""The numpy model of the log-probability kernels against exact values and the closed form."""

from __future__ import annotations

import decimal

import numpy as np
import pytest

from models import ascend_numpy as model
from models import logp_numpy as logp

U = 2.0**-24  # unit roundoff of fp32
ARCHS = ("dav-2201", "dav-3510")


def draw(rows: int, vocab: int, seed: int = 0, scale: float = 5.0):
    rng = np.random.default_rng(seed)
    x = (scale * rng.standard_normal((rows, vocab))).astype(np.float32)
    return x, rng.integers(0, vocab, rows)


def closed_form(x: np.ndarray, target: np.ndarray):
    """(logp, lse) in fp64, and the largest |x - m| of each row."""
    wide = x.astype(np.float64)
    m = wide.max(1)
    log = np.log(np.exp(wide - m[:, None]).sum(1))
    return wide[np.arange(len(x)), target] - m - log, m + log, (m - wide.min(1)), log


def test_the_functions_are_correctly_rounded():
    """Against decimal with 60 digits, among them numbers whose double rounds to the wrong side."""
    rng = np.random.default_rng(1)
    context = decimal.Context(prec=60, Emin=-(10**6), Emax=10**6)
    x = np.concatenate([-rng.exponential(20, 300), [-0.0, 0.0, -103.9, -87.4]]).astype(np.float32)
    y = (1 + rng.exponential(1e4, 300)).astype(np.float32)
    for got, given, exact in ((logp.exp(x), x, context.exp), (logp.ln(y), y, context.ln)):
        for g, v in zip(got, given, strict=True):
            want = exact(decimal.Decimal(float(v)))
            error = abs(decimal.Decimal(float(g)) - want)
            for other in (np.nextafter(g, np.float32(-1)), np.nextafter(g, np.float32(1e30))):
                assert error <= abs(decimal.Decimal(float(other)) - want)


def test_exact_cases():
    one = np.float32([[3.5], [-0.0], [1e30]])
    for bits in logp.forward(one, np.zeros(3, np.int64)):
        assert not (bits & 0x7FFFFFFF)[1]
    assert not logp.forward(one, np.zeros(3, np.int64))[0].any()  # V = 1: +0, whatever the logit
    two = np.float32([[2, 2]])
    got, lse = logp.forward(two, np.array([1]))
    assert got.view(np.float32)[0] == np.float32(-np.log(2.0))
    assert lse.view(np.float32)[0] == np.float32(2) + np.float32(np.log(2.0))
    half = logp.grad(two, np.array([1]), lse.view(np.float32), np.float32([1]), np.float32([0]))
    p = logp.exp(np.float32(2) - lse.view(np.float32))
    assert half.view(np.float32).tolist() == [[-p[0], 1 - p[0]]]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", [64, 1024])
def test_within_the_derived_bound_of_fp64(arch, tile):
    """Each term carries the rounding of x - m, as a relative error, and its own; the sum has at
    most one rounding per repeat, tile and level of the tree; then ln and the last operations."""
    x, target = draw(20, 3000)
    got = [
        bits.view(np.float32).astype(np.float64)
        for bits in logp.forward(x, target, arch=arch, tile=tile)
    ]
    exact_logp, exact_lse, spread, log = closed_form(x, target)
    roundings = spread + 1 + 6 + -(-tile // 64) + -(-3000 // tile)
    error = U * (roundings + np.abs(log)) * (1 + 2**-10)
    last = U * (np.abs(exact_logp) + np.abs(exact_lse) + spread)
    assert (np.abs(got[0] - exact_logp) <= error + last).all()
    assert (np.abs(got[1] - exact_lse) <= error + last).all()
    dropped = closed_form(x[:, :-tile], np.zeros(20, np.int64))[1]  # control: a tile left out
    assert (np.abs(dropped - exact_lse) > error + last).any()


def test_the_gradient_within_the_derived_bound_of_fp64():
    x, target = draw(20, 3000, seed=2)
    lse = logp.forward(x, target)[1].view(np.float32)
    rng = np.random.default_rng(3)
    g, h = (rng.standard_normal(20).astype(np.float32) for _ in range(2))
    got = logp.grad(x, target, lse, g, h).view(np.float32).astype(np.float64)
    p = np.exp(x.astype(np.float64) - lse.astype(np.float64)[:, None])
    product = p * (h.astype(np.float64) - g)[:, None]
    want = product.copy()
    want[np.arange(20), target] += g
    distance = np.abs(x.astype(np.float64) - lse[:, None])
    bound = U * ((distance + 4) * np.abs(product) + np.abs(want)) * (1 + 2**-10) + 2.0**-149
    assert (np.abs(got - want) <= bound).all()
    assert (np.abs(-got - want) > bound).any()  # control: the sign


@pytest.mark.parametrize("arch", ARCHS)
def test_tile_and_architecture_decide_bits(arch):
    x, target = draw(40, 9000, seed=4, scale=1.0)
    answers = {
        (a, t): logp.forward(x, target, arch=a, tile=t)[1].tobytes()
        for a in ARCHS
        for t in (64, 1024, 4096)
    }
    assert len({answers[arch, t] for t in (64, 1024, 4096)}) > 1
    assert answers["dav-2201", 4096] != answers["dav-3510", 4096]


def test_kinds_of_rows():
    x = np.float32([[1, 2, np.nan]] * 5)
    target = np.array([-100, 3, -1, 2**40, -100])
    got, lse = logp.forward(x, target)
    nan = model.NAN32
    assert got.tolist() == lse.tolist() == [0, nan, nan, nan, 0]
    ones = np.ones(5, np.float32)
    g = logp.grad(x, target, lse.view(np.float32), ones, ones)
    assert g.tolist() == [[v] * 3 for v in (0, nan, nan, nan, 0)]
    # ignore_index is asked first, also where it is an index of the row.
    assert logp.forward(x, np.array([1] * 5), ignore_index=1)[0].tolist() == [0] * 5


def test_the_last_rounding_of_the_gradient():
    """RINT and TRUNC differ where the model says so: a kernel that truncates would be seen."""
    x, target = draw(4, 500, seed=5)
    for dtype, narrow in (("bf16", model.fp32_to_bf16), ("fp16", model.fp32_to_fp16)):
        h = narrow(x)
        lse = logp.forward(h, target, dtype=dtype)[1].view(np.float32)
        one, zero = np.ones(4, np.float32), np.zeros(4, np.float32)
        near = logp.grad(h, target, lse, one, zero, dtype=dtype)
        cut = logp.grad(h, target, lse, one, zero, dtype=dtype, mode="TRUNC")
        assert (near != cut).mean() > 0.2
