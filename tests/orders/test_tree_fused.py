"""Nodes with more than two children: the exact sum, rounded once, against rational numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import nested_trees

from workbench.orders.tree import ReductionTree, fused
from workbench.orders.tree.fused import fused_sum

# dtype: (digits, exponent of the smallest subnormal, exponent of the first power too large)
FORMATS = {"float16": (11, -24, 16), "float32": (24, -149, 128), "float64": (53, -1074, 1024)}
BITS = {"float16": np.uint16, "float32": np.uint32, "float64": np.uint64}
DTYPES = list(FORMATS)


def rounded(exact: Fraction, dtype: str) -> np.ndarray:
    """To nearest, ties to even, by rational arithmetic alone."""
    digits, smallest, large = FORMATS[dtype]
    sign, size = (-1, -exact) if exact < 0 else (1, exact)
    if size == 0:
        return np.zeros((), dtype)
    high = size.numerator.bit_length() - size.denominator.bit_length()
    high -= Fraction(2) ** high > size
    unit = Fraction(2) ** max(high - digits + 1, smallest)
    steps = round(size / unit)  # Python rounds half to even
    if steps * unit >= Fraction(2) ** large:
        return np.array(sign * np.inf, dtype)
    return np.array(sign * float(steps * unit), dtype)


def model(values) -> np.ndarray:
    """One fused node of scalars, with the rules for zeros, infinities and NaN written out."""
    dtype = values[0].dtype.name
    if any(np.isnan(v) for v in values) or {np.inf, -np.inf} <= {float(v) for v in values}:
        return np.array(np.nan, dtype)
    for infinite in (np.inf, -np.inf):
        if any(v == infinite for v in values):
            return np.array(infinite, dtype)
    total = sum((Fraction(float(v)) for v in values), Fraction(0))
    if total == 0 and all(np.signbit(v) for v in values):
        return np.array(-0.0, dtype)
    return rounded(total, dtype)


def same_bits(got: np.ndarray, want: np.ndarray) -> bool:
    """Bits, but for the payloads of NaN, which an order says nothing about."""
    got, want = np.asarray(got), np.asarray(want)
    bits = BITS[got.dtype.name]
    nan = np.isnan(want)
    return got.dtype == want.dtype and bool(
        ((got.view(bits) == want.view(bits)) | (nan & np.isnan(got))).all()
    )


def hard_values(dtype: str, m: int, columns: int, rng) -> np.ndarray:
    """Random bit patterns of all exponents, with cancellation, ties and special values."""
    values = rng.integers(0, np.iinfo(BITS[dtype]).max, (m, columns), BITS[dtype], endpoint=True)
    values = values.view(dtype).copy()
    values[:, ::3] = rng.normal(size=values[:, ::3].shape).astype(dtype)
    if m > 2:
        values[1, 1::5] = -values[0, 1::5]
        digits = FORMATS[dtype][0]
        values[:3, 2::5] = np.array([[1], [2.0**-digits], [0]], dtype)  # a tie …
        values[2, 2::10] = np.finfo(dtype).smallest_subnormal  # … and just above one
        # Sums around the smallest normal number, where few bits or none are rounded away.
        small = rng.integers(2 ** (digits - 2), 2**digits, (m, len(values[0, 4::5])))
        values[:, 4::5] = np.ldexp(small.astype(dtype), FORMATS[dtype][1])
    return values


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [1, 2, 3, 5, 17, 64])
def test_a_fused_node_is_the_exact_sum_rounded_once(dtype, m):
    values = hard_values(dtype, m, 200, np.random.default_rng(m))
    want = np.array([model(list(column)) for column in values.T])
    assert same_bits(fused_sum(values), want)
    assert m < 17 or np.isnan(want).any()
    if m == 3:  # ties and what lies above them are among the values
        above = [np.nextafter(np.ones((), dtype), np.full((), 2, dtype)), np.ones((), dtype)]
        assert want[2:200:5].tolist() == [float(above[k % 2]) for k in range(40)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_both_ways_of_adding_are_tested(dtype, monkeypatch):
    """The short way takes only sums that fp64 holds; the long way alone gives the same bits."""
    values = hard_values(dtype, 5, 200, np.random.default_rng(0))
    calls = []
    by_limbs = fused._by_limbs
    monkeypatch.setattr(fused, "_by_limbs", lambda v: calls.append(v.shape[1]) or by_limbs(v))
    short = fused_sum(values)
    assert 0 < sum(calls) < 200
    finite = np.isfinite(values).all(axis=0)
    with np.errstate(all="ignore"):
        long = by_limbs(values[:, finite])
    zero = long == 0  # the long way does not know the sign of zero: it never meets it
    assert (~zero).sum() > 50
    assert same_bits(short[finite][~zero], long[~zero])


def test_where_separate_additions_round_differently():
    """Controls: another order of binary additions, and double rounding, give other bits."""
    big, tiny = np.float32(2**24), np.float32(2.0**-60)
    values = np.array([big, 1, tiny], np.float32)[:, None]
    assert fused_sum(values)[0] == big + 2  # just above a tie
    assert (big + np.float32(1)) + tiny == big and np.float32(np.float64(big) + 1 + tiny) == big


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_infinities_and_overflow(dtype):
    top, inf, nan = float(np.finfo(dtype).max), np.inf, np.nan
    for column, want in [
        ([-0.0, -0.0, -0.0], -0.0),
        ([-0.0, 0.0, -0.0], 0.0),
        ([1, -1, -0.0], 0.0),
        ([inf, top, top], inf),
        ([-inf, top, top], -inf),  # no overflow on the way to +inf, so no NaN
        ([inf, 1, -inf], nan),
        ([nan, 1, inf], nan),
        ([top, top, -top], top),
        ([top, top, top], inf),
        ([-top, -top, 1], -inf),
    ]:
        values = np.array(column, dtype)[:, None]
        assert same_bits(fused_sum(values), np.array([want], dtype)), column
        assert same_bits(model(list(values[:, 0])), np.array(want, dtype)), column


def test_many_children_of_one_node():
    """40,000 values whose fp16 sum leaves fp64's exact range, and a long column of limbs."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 0x7C00, (40_000, 2), np.uint16).view(np.float16)
    assert same_bits(fused_sum(values), np.array([np.inf, np.inf], np.float16))
    values[1::2] = -values[::2]
    values[-1] = 1.5
    want = 1.5 + float(values[-2, 0])
    assert fused_sum(values)[0] == np.float16(want)


@settings(max_examples=60, deadline=None)
@given(nested_trees(arity=6, most=24), st.sampled_from(DTYPES), st.integers(0, 999))
def test_sums_and_partial_sums_are_the_recursive_model(case, dtype, seed):
    n, nested = case
    rng = np.random.default_rng(seed)
    terms = np.ldexp(rng.normal(size=(3, n)), rng.integers(-12, 12, (3, n))).astype(dtype)
    terms[2] = hard_values(dtype, n, 3, rng)[:, 0]
    tree = ReductionTree.from_nested(nested)

    def walk(part, row, seen):
        if isinstance(part, int):
            return row[part]
        values = [walk(x, row, seen) for x in part]
        with np.errstate(all="ignore"):
            value = values[0] + values[1] if len(values) == 2 else model(values)[()]
        seen.append(value)
        return value

    partial = []
    for row in terms:
        partial.append([])
        walk(nested, row, partial[-1])
    want = np.array(partial, dtype).reshape(3, -1)  # from_nested stores nodes as a walk meets them
    assert same_bits(tree.partial_sums(terms), want)
    if n > 1:
        assert same_bits(tree.sum(terms), want[:, -1])
    assert same_bits(tree.partial_sums(terms[0]), want[0])


def test_partial_sums_of_small_trees():
    assert ReductionTree.from_nested([]).partial_sums(np.zeros((2, 0), np.float32)).shape == (2, 0)
    assert ReductionTree.from_nested(0).partial_sums(np.zeros((2, 1), np.float16)).shape == (2, 0)
    none = ReductionTree.from_nested([[0, 1], 2]).partial_sums(np.zeros((0, 3), np.float64))
    assert none.shape == (0, 2) and none.dtype == np.float64
