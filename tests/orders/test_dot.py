"""Dot products in a given order, against exact rational arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch

from workbench.errors import InputError, WorkbenchError
from workbench.orders.dot import dot, exact_products, fma, fused_mask
from workbench.orders.tree import ReductionTree, adjacent_pairs, sequential


def rounded(exact: Fraction) -> np.float32:
    """The fp32 number nearest to a rational one, ties to even, by integers alone."""
    if exact == 0:
        return np.float32(0)
    sign, value = (-1, -exact) if exact < 0 else (1, exact)
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    exponent -= value < Fraction(2) ** exponent
    step = Fraction(2) ** (max(exponent, -126) - 23)
    whole, rest = divmod(value, step)
    whole += (rest * 2 > step) or (rest * 2 == step and whole % 2 == 1)
    value = whole * step
    if value >= 2**128:
        return np.float32(sign * np.inf)
    return np.float32(sign * float(value))


def exact_dot(nested, a, b, fused):
    """(value, exact product or None) of a nested order: the recursion that `dot` does not do."""
    if isinstance(nested, int):
        product = Fraction(float(a[nested])) * Fraction(float(b[nested]))
        return rounded(product), product if fused[nested] else None
    (left, exact_left), (right, exact_right) = (exact_dot(c, a, b, fused) for c in nested)
    left = Fraction(float(left)) if exact_left is None else exact_left
    right = Fraction(float(right)) if exact_right is None else exact_right
    return rounded(left + right), None


def hard_numbers(rng, n):
    """Few bits over a wide range of exponents: ties and near-ties, subnormal results, cancels."""
    mantissa = rng.integers(1 << 23, 1 << 24, n) | rng.choice([0, 1, 0xFFF, 0x800], n)
    mantissa = np.where(rng.random(n) < 0.5, mantissa, 1 << rng.integers(0, 24, n))
    scale = rng.choice([0, 1, -1, 12, -12, 24, -24, -60, 30], n).astype(float)
    return (mantissa * np.exp2(scale - 23) * rng.choice([-1, 1], n)).astype(np.float32)


def test_the_model_here_rounds_as_numpy_does():
    rng = np.random.default_rng(0)
    wide = rng.standard_normal(500) * np.exp2(rng.integers(-160, 130, 500))
    with np.errstate(over="ignore"):
        want = wide.astype(np.float32)
    got = np.array([rounded(Fraction(x)) for x in wide], np.float32)
    assert got.tobytes() == want.tobytes()
    assert rounded(Fraction(2**24 + 1)) == 2**24 and rounded(Fraction(2**24 + 3)) == 2**24 + 4


def test_fma_rounds_once():
    rng = np.random.default_rng(1)
    a, b, c = (hard_numbers(rng, 4000) for _ in range(3))
    c[::5] = -(a[::5] * b[::5])  # what is left is the rounding error of the product
    # A product just below or above half a step of c: fp64 rounds it to the half, and then to even.
    c[1::5] = rng.integers(1 << 23, 1 << 24, 800).astype(np.float32)
    a[1::5], b[1::5] = 1 + 2.0**-23, 0.5 - 2.0**-24
    a[2::5], b[2::5], c[2::5] = 1 + 2.0**-12, 0.5 + 2.0**-13, c[1::5]
    want = [
        rounded(Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)))
        for p, q, r in zip(a, b, c, strict=True)
    ]
    got = fma(a, b, c)
    assert (got == np.array(want)).all()  # an exact zero is +0 in both but for 0 * x, tested below
    twice = (a.astype(np.float64) * b + c).astype(np.float32)
    assert (twice != got).any(), "the data must tell one rounding from two"


def test_fma_at_the_edges():
    f = np.float32
    tiny = f(2.0**-149)
    assert fma(tiny, f(0.5), tiny) == f(2.0**-148)  # 1.5 steps: the tie goes to even
    assert fma(tiny, f(0.5), f(0)) == 0 and fma(tiny, f(0.75), f(0)) == tiny
    assert np.signbit(fma(f(-0.0), f(1), f(-0.0))) and not np.signbit(fma(f(-0.0), f(1), f(0)))
    assert fma(f(3e38), f(3e38), f(-np.inf)) == -np.inf and fma(f(3e38), f(3e38), f(1)) == np.inf
    assert np.isnan(fma(f(np.inf), f(0), f(1))) and np.isnan(fma(f(np.inf), f(1), f(-np.inf)))
    assert fma(f(2.0**127), f(2), f(-(2.0**127))) == f(2.0**127)  # the product alone overflows


ORDERS = [
    sequential(range(9)),
    adjacent_pairs(range(9)),
    [[[4, [0, 8]], 2], [[1, 7], [[3, 6], 5]]],
]


@pytest.mark.parametrize("nested", ORDERS)
@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
def test_equals_exact_arithmetic_node_by_node(nested, share):
    rng = np.random.default_rng(int(10 * share))
    tree = ReductionTree.from_nested(nested)
    fused = rng.random(9) < share
    for i, j in tree.children.reshape(-1, 2).tolist():
        if i < 9 and j < 9 and fused[i] and fused[j]:
            fused[i] = False
    weight = hard_numbers(rng, 9 * 60).reshape(60, 9)
    weight[30:] = rng.standard_normal((30, 9))
    x = rng.standard_normal((2, 9)).astype(np.float32)
    got = dot(tree, weight, x, fused)
    want = [[exact_dot(nested, w, v, fused)[0] for v in x] for w in weight]
    assert (got == np.array(want, np.float32)).all()
    if share:
        other = dot(tree, weight, x)
        assert (other != got).any(), "the data must tell fused products from rounded ones"
    assert dot(tree, torch.from_numpy(weight), torch.from_numpy(x[0]), fused).tobytes() == (
        got[:, 0].tobytes()
    )


def test_a_fused_order_is_a_loop_of_multiply_adds():
    """A long one, in chunks of rows, against a plain loop."""
    rng = np.random.default_rng(3)
    n, rows = 3000, 1500
    weight = rng.standard_normal((rows, n)).astype(np.float32)
    x = rng.standard_normal(n).astype(np.float32)
    total = weight[:, 0] * x[0]
    for k in range(1, n):
        total = fma(weight[:, k], x[k], total)
    fused = np.arange(n) > 0
    got = dot(ReductionTree.from_nested(sequential(range(n))), weight, x, fused)
    assert got.tobytes() == total.tobytes()


def test_what_starts_at_zero_has_no_negative_zero():
    tree = ReductionTree.from_nested([0, 1])
    minus = np.full((1, 2), -0.0, np.float32)
    one = np.ones(2, np.float32)
    assert np.signbit(dot(tree, minus, one)).all()
    assert not np.signbit(dot(tree, minus, one, zero_start=True)).any()
    assert np.signbit(dot(tree, minus, one, [False, True])).all()


def test_refusals():
    tree = ReductionTree.from_nested([[0, 1], 2])
    w, x = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    for bad in (
        lambda: dot(tree, w[:, :2], x),
        lambda: dot(tree, w, x[:2]),
        lambda: dot(tree, w[0], x),
        lambda: dot(tree, w.astype(np.float64), x),
        lambda: dot(tree, torch.ones(2, 3, dtype=torch.float16), x),
        lambda: dot(tree, w, x, [True, False]),
        lambda: dot(tree, w, x, [0, 1, 1]),
        lambda: dot(ReductionTree.from_nested([0, 1, 2]), w, x, [False, False, True]),
    ):
        with pytest.raises(InputError):
            bad()
    with pytest.raises(InputError, match=r"terms 0 and 1 .* both are fused"):
        dot(tree, w, x, [True, True, False])
    torch.set_flush_denormal(True)
    try:
        for fused in (None, [False, True, False]):
            with pytest.raises(WorkbenchError, match="flushes subnormal"):
                dot(tree, w, x, fused)
    finally:
        torch.set_flush_denormal(False)


def test_a_wide_node_takes_every_product_exactly():
    """Which `dot` has no multiply-add for; `bounds` has a bound."""
    wide = ReductionTree.from_nested([[0, 1], 2, 3])
    assert exact_products(wide, [True, False, True, True]).tolist() == [True, False, True, True]
    with pytest.raises(InputError, match="a node with 3 children"):
        fused_mask(wide, [True, False, True, True])
    for check in (exact_products, fused_mask):
        with pytest.raises(InputError, match="terms 0 and 1"):
            check(wide, [True, True, False, False])


def test_the_empty_sum_and_the_single_product():
    empty = ReductionTree.from_nested([])
    assert dot(empty, np.empty((3, 0), np.float32), np.empty(0, np.float32)).tolist() == [0, 0, 0]
    one = ReductionTree.from_nested(0)
    assert dot(one, np.float32([[3]]), np.float32([2])).tolist() == [6]
