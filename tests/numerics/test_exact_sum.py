"""Correctly rounded sums against two other ways: `math.fsum`, and fractions of integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from workbench.errors import InputError, WorkbenchError
from workbench.numerics import exact_sum
from workbench.numerics.exact_sum import rounded_dot, rounded_sum

BITS = {"float64": np.int64, "float32": np.int32, "float16": np.int16}
NARROW = ("float32", "float16")


def terms_of(kind: str, n: int, rows: int = 12, seed: int = 0) -> np.ndarray:
    g = np.random.default_rng((seed, n, *kind.encode()))
    t = g.standard_normal((rows, n))
    if kind == "wide":  # 600 powers of two
        t = np.ldexp(t, g.integers(-300, 300, t.shape))
    elif kind == "cancelling":  # all but the last bits of every second term go
        half = n // 2
        t[:, half : 2 * half] = -t[:, :half] * (1 + g.integers(0, 2, (rows, half)) * 2.0**-50)
    elif kind == "subnormal":
        t = np.ldexp(t, g.integers(-1080, -1040, t.shape))
    elif kind == "midpoint":  # of two fp32 numbers, and something tiny or nothing beside it
        t = np.zeros((rows, n))
        if n > 3:
            t[:, 0], t[:, 1] = 1 + g.integers(0, 8, rows) * 2.0**-23, 2.0**-24
            t[:, 2] = g.choice([0, 2.0**-80, -(2.0**-80)], rows)
    elif kind == "tie":  # of two fp64 numbers, broken by a term far below the last bit
        t = np.zeros((rows, n))
        if n > 3:
            t[:, 0], t[:, 1] = 1 + g.integers(0, 8, rows) * 2.0**-52, 2.0**-53
            t[:, 2] = g.choice([0, 2.0**-120, -(2.0**-120)], rows)
    elif kind == "large":
        t = np.ldexp(t, 1022)
    return t


KINDS = ("normal", "wide", "cancelling", "subnormal", "midpoint", "tie", "large")
SIZES = (0, 1, 2, 3, 7, 64, 257)


def fraction(row) -> Fraction:
    return sum((Fraction(float(x)) for x in row), Fraction(0))


def nearest(value: Fraction, name: str):
    """The number of a narrow format nearest to a fraction, by trying neighbours."""
    kind = np.dtype(name).type
    largest = np.finfo(name).max
    if abs(value) > Fraction(float(largest)) * 2:
        return kind(-math.inf if value < 0 else math.inf)
    with np.errstate(over="ignore"):
        start = np.clip(kind(double(value)), -largest, largest)
    # Beyond the largest number stands the power of two that would come next.
    after = Fraction(2) ** (int(np.frexp(np.float64(largest))[1]))
    tried = {start, np.nextafter(start, kind(np.inf)), np.nextafter(start, kind(-np.inf))}

    def key(x):
        held = int(math.copysign(1, x)) * after if np.isinf(x) else Fraction(float(x))
        return abs(held - value), int(np.asarray(x).view(BITS[name])) & 1

    best = min(tried, key=key)
    return kind(-0.0 if value < 0 else 0.0) if best == 0 else best


def double(value: Fraction) -> float:
    """Likewise in fp64: Python divides integers with one rounding, and refuses to overflow."""
    if abs(value) < 2**1024 - 2**970:
        return float(value)
    return -math.inf if value < 0 else math.inf


def check_fsum(kind: str) -> None:
    for n in SIZES:
        terms = terms_of(kind, n)
        got = rounded_sum(terms)
        for row, value in zip(terms, got, strict=True):
            try:
                want = math.fsum(row)
            except OverflowError:  # fsum gives up where a partial sum overflows
                want = double(fraction(row))
            assert value.view(np.int64) == np.float64(want + 0.0).view(np.int64), (kind, n)


def check_narrow(kind: str, name: str) -> None:
    for n in SIZES[:-1]:
        terms = terms_of(kind, n)
        got = rounded_sum(terms, name)
        assert got.dtype == name
        for row, value in zip(terms, got, strict=True):
            want = nearest(fraction(row), name)
            assert value.view(BITS[name]) == want.view(BITS[name]), (kind, n, value, want)


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_fsum(kind):
    check_fsum(kind)


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("kind", KINDS)
def test_narrow_sums_are_rounded_once(kind, name):
    check_narrow(kind, name)


def test_subnormals_of_the_narrow_formats():
    for name, low in (("float32", -149), ("float16", -24)):
        terms = np.ldexp(np.array([[1, 0.5, 2.0**-40], [1, 0.5, 0], [2, 0.5, 0]]), low)
        assert [float(v) for v in rounded_sum(terms, name)] == [2.0 ** (low + 1)] * 3


def test_overflow_is_that_of_the_exact_sum():
    top = np.finfo(np.float64).max
    tie = 2.0**970  # half the spacing at the top: beyond it is 2^1024, which is even
    rows = np.array([[top, top, -top], [top, top, 0], [-top, -top, 0], [top, tie, 0]])
    assert rounded_sum(rows).tolist() == [top, math.inf, -math.inf, math.inf]
    assert rounded_sum(np.array([top, tie, -1])) == top
    largest = np.float64(np.finfo(np.float32).max)
    half = 2.0**103
    rows = np.array([[largest, half, 0], [largest, half, -(2.0**-100)]])
    assert rounded_sum(rows, "float32").tolist() == [math.inf, largest]


def test_nan_and_inf_are_those_of_ieee_addition():
    inf, nan, top = math.inf, math.nan, np.finfo(np.float64).max
    rows = np.array([[inf, 1, 2], [inf, -inf, 1], [nan, inf, 1], [top, top, -inf]])
    got = rounded_sum(rows)
    assert got[0] == inf and np.isnan(got[1]) and np.isnan(got[2]) and got[3] == -inf
    with np.errstate(invalid="ignore"):
        both = rounded_dot(np.float32([[inf, 1], [1, nan], [1, 2]]), np.float32([0, 1]))
    assert np.isnan(both[0]) and np.isnan(both[1]) and both[2] == 2


def test_zero_is_positive():
    for rows in (np.zeros((2, 3)), -np.zeros((2, 3)), np.array([[1.5, -1.5, 0]])):
        assert not np.signbit(rounded_sum(rows)).any()
    assert rounded_sum(np.zeros((3, 0))).tolist() == [0, 0, 0]
    assert rounded_sum(np.zeros(0)).shape == ()


def test_dots_of_fp32_are_rounded_once():
    g = np.random.default_rng(1)
    a = np.ldexp(g.standard_normal((20, 33)), g.integers(-140, 60, (20, 33))).astype(np.float32)
    b = np.ldexp(g.standard_normal(33), g.integers(-140, 60, 33)).astype(np.float32)
    exact = [
        sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(r, b, strict=True)) for r in a
    ]
    assert rounded_dot(a, b).tolist() == [float(e) for e in exact]
    assert rounded_dot(a, b, "float32").tolist() == [float(nearest(e, "float32")) for e in exact]
    assert rounded_dot(a[0], b) == float(exact[0])


def test_dots_of_fp64_are_rounded_once_beyond_its_range_too():
    g = np.random.default_rng(2)
    shape = (20, 9)
    a = np.ldexp(g.standard_normal(shape), g.integers(-1060, 1000, shape))
    b = np.ldexp(g.standard_normal(shape), g.integers(-1060, 20, shape))
    a[0, :3], b[0, :3] = (1e200, 1e200, 1), (1e200, -1e200, 1)  # products that overflow and cancel
    b[0, 3:] = 0
    a[1], b[1] = 2.0**-600, 2.0**-473  # each product is below the smallest subnormal's half
    got = rounded_dot(a, b)
    for x, y, value in zip(a, b, got, strict=True):
        exact = sum(Fraction(float(p)) * Fraction(float(q)) for p, q in zip(x, y, strict=True))
        assert value == double(exact)
    assert got[0] == 1 and got[1] != 0


def test_the_order_of_terms_does_not_matter_and_neither_do_blocks(monkeypatch):
    terms = terms_of("cancelling", 64)
    whole = rounded_sum(terms)
    assert (rounded_sum(terms[:, ::-1]).view(np.int64) == whole.view(np.int64)).all()
    monkeypatch.setattr(exact_sum, "_BLOCK", 100)
    monkeypatch.setattr(exact_sum, "_COUNT", 5)
    assert (rounded_sum(terms).view(np.int64) == whole.view(np.int64)).all()
    integers = exact_sum._rounded_integers(terms, None, "float64")
    assert (integers.view(np.int64) == whole.view(np.int64)).all()


def test_the_quick_way_settles_most_sums(monkeypatch):
    """Else the certificate would be worth nothing, and the controls below would test nothing."""
    left = []
    slow = exact_sum._rounded_integers

    def counted(values, exponents, name):
        left.append(len(values))
        return slow(values, exponents, name)

    monkeypatch.setattr(exact_sum, "_rounded_integers", counted)
    g = np.random.default_rng(3)
    for name in ("float64", "float32"):
        rounded_sum(g.standard_normal((2000, 100)), name)
    assert sum(left) < 0.05 * 4000


# ---- controls ------------------------------------------------------------------------------------


def test_control_without_the_certificate_sums_are_wrong(monkeypatch):
    settled = exact_sum._settled

    def certain(*given):
        out, sure = settled(*given)
        return out, np.ones_like(sure)

    monkeypatch.setattr(exact_sum, "_settled", certain)
    with pytest.raises(AssertionError):
        check_fsum("tie")


def test_control_without_the_errors_sums_are_wrong(monkeypatch):
    monkeypatch.setattr(exact_sum, "two_sum", lambda a, b: (a + b, np.zeros_like(a)))
    with pytest.raises(AssertionError):
        check_fsum("cancelling")


def test_control_rounding_twice_is_caught(monkeypatch):
    once = rounded_sum

    def twice(terms, name="float64"):
        return once(terms).astype(name)

    monkeypatch.setitem(globals(), "rounded_sum", twice)
    with pytest.raises(AssertionError):
        check_narrow("midpoint", "float32")


# ---- refusals ------------------------------------------------------------------------------------


def test_refusals():
    ones = np.ones((2, 3))
    for call, match in (
        (lambda: rounded_sum(ones.astype(int)), "int64"),
        (lambda: rounded_sum(ones[None]), r"\[1, 2, 3\]"),
        (lambda: rounded_sum(ones, "int32"), "int32"),
        (lambda: rounded_dot(ones, np.ones(2)), r"\[2\] do not fit"),
        (lambda: rounded_dot(ones, ones.astype(np.int8)), "int8"),
    ):
        with pytest.raises(InputError, match=match):
            call()


def test_flushed_subnormals_are_refused():
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush subnormals")
    try:
        with pytest.raises(WorkbenchError, match="flush"):
            rounded_sum(np.ones(3))
    finally:
        torch.set_flush_denormal(False)
