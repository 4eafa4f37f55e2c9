"""The model's roundings against exact fractions and 60 digits."""

from __future__ import annotations

import decimal
from fractions import Fraction

import numpy as np
import pytest

from . import floats

ALL16 = np.arange(1 << 16, dtype=np.uint16)
FINITE16 = ALL16[(ALL16 & 0x7C00) != 0x7C00]


def half_values() -> tuple[list[Fraction], np.ndarray]:
    """The non-negative finite halves, ascending, as fractions, from the definition."""
    values = []
    for code in range(0x7C00):
        exponent, fraction = code >> 10, code & 0x3FF
        lead = 1024 if exponent else 0
        values.append(Fraction(lead + fraction) * Fraction(2) ** (max(exponent, 1) - 25))
    return values, np.array([float(v) for v in values])


VALUES, AS_DOUBLE = half_values()


def exact_half(x: Fraction) -> int:
    """Nearest even half of a non-negative fraction, as bits."""
    limit = Fraction(65520)
    if x >= limit:
        return 0x7C00
    low = int(np.searchsorted(AS_DOUBLE, float(x), side="right")) - 1
    while low > 0 and VALUES[low] > x:
        low -= 1
    while low + 1 < 0x7C00 and VALUES[low + 1] <= x:
        low += 1
    if low + 1 == 0x7C00:
        return low
    down, up = x - VALUES[low], VALUES[low + 1] - x
    if down != up:
        return low if down < up else low + 1
    return low if low % 2 == 0 else low + 1


def test_double_to_half_rounds_once():
    rng = np.random.default_rng(0)
    mid = (AS_DOUBLE[:-1] + AS_DOUBLE[1:]) / 2
    near = rng.choice(mid, 2000)
    x = np.concatenate(
        [
            rng.choice(mid, 1000),
            near * (1 + 2.0**-50),
            near * (1 - 2.0**-50),
            np.exp2(rng.uniform(-30, 17, 2000)),
            [65504.0, 65519.99, 65520.0, 2.0**-25, 2.0**-25 * (1 + 2.0**-50), 2.0**-26],
        ]
    )
    got = floats.to_half(x)
    want = np.array([exact_half(Fraction(float(v))) for v in x], np.uint16)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(floats.to_half(-x), want | 0x8000)


def test_half_round_trip_and_saturation():
    np.testing.assert_array_equal(floats.to_half(floats.from_half(FINITE16)), FINITE16)
    x = np.array([1e6, -1e6, np.nan, np.inf, 65504.0])
    got = floats.to_half(x, saturate=True)
    np.testing.assert_array_equal(got, np.array([0x7BFF, 0xFBFF, 0, 0x7BFF, 0x7BFF], np.uint16))
    assert floats.to_half(np.array([np.nan]))[0] == 0x7E00


@pytest.mark.parametrize("kind", ["half", "float"])
def test_fma_rounds_once(kind):
    rng = np.random.default_rng(1)
    n = 1500
    spread = 10 if kind == "half" else 40
    raw = [rng.standard_normal(n) * np.exp2(rng.uniform(-spread, spread, n)) for _ in range(3)]
    if kind == "half":
        a, b, c = (floats.from_half(floats.to_half(v / 64)) for v in raw)
        got = floats.to_half(floats.fma(a, b, c))
        total = [
            Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            for x, y, z in zip(a, b, c, strict=True)
        ]
        want = [exact_half(abs(t)) | (0x8000 if t < 0 else 0) for t in total]
        np.testing.assert_array_equal(got, np.array(want, np.uint16))
        return
    a, b, c = (v.astype(np.float32) for v in raw)
    c[::3] = (-(a * b))[::3]  # cancellation: where an unfused product is wrong
    got = floats.fma(a, b, c).astype(np.float32)
    wrong = 0
    for k in range(n):
        exact = Fraction(float(a[k])) * Fraction(float(b[k])) + Fraction(float(c[k]))
        around = [np.nextafter(got[k], np.float32(d)) for d in (-np.inf, np.inf)]
        error = abs(Fraction(float(got[k])) - exact)
        assert all(error <= abs(Fraction(float(v)) - exact) for v in around)
        wrong += a[k] * b[k] + c[k] != got[k]
    assert wrong > n // 5, "the draw must tell fused from unfused"


@pytest.mark.parametrize("name", ["Exp", "Ln", "Rsqrt"])
@pytest.mark.parametrize("kind", ["half", "float"])
def test_functions_are_correctly_rounded(name, kind):
    rng = np.random.default_rng(2)
    if kind == "half":
        bits = rng.choice(FINITE16[1:], 1500)
        x = floats.from_half(bits)
        x = x[(x > -18) & (x < 11)] if name == "Exp" else x[x > 0]
    else:
        x = rng.uniform(-100, 88, 600) if name == "Exp" else np.exp2(rng.uniform(-149, 127, 600))
        near = np.nextafter(np.float32(1), np.float32(2)) if name == "Ln" else np.float32(1e-7)
        x = np.append(x, [1.0, near]).astype(np.float32)
    got = floats.rounded(name, x, kind)
    context = decimal.Context(prec=50, Emin=-(10**6), Emax=10**6)
    for value, result in zip(x, got, strict=True):
        d = decimal.Decimal(float(value))
        exact = {
            "Exp": lambda d=d: context.exp(d),
            "Ln": lambda d=d: context.ln(d),
            "Rsqrt": lambda d=d: context.divide(1, context.sqrt(d)),
        }[name]()
        if kind == "half":
            code = int(floats.to_half(np.array([abs(result)]))[0])
            near = [VALUES[c] for c in (max(code - 1, 0), code, min(code + 1, 0x7BFF))]
            near = [-v if result < 0 else v for v in near]
            near = [decimal.Decimal(v.numerator) / v.denominator for v in near]
        else:
            r = np.float32(result)
            ends = (np.nextafter(r, np.float32(e)) for e in (-np.inf, np.inf))
            near = [decimal.Decimal(float(v)) for v in (*ends, r)]
        error = abs(context.subtract(decimal.Decimal(float(result)), exact))
        assert all(error <= abs(context.subtract(v, exact)) for v in near if v.is_finite())


def test_every_doubtful_case_is_decided_by_decimal(monkeypatch):
    """A control: with a wide doubt every element goes through decimal, with the same result."""
    x = np.random.default_rng(3).uniform(-5, 5, 50).astype(np.float32)
    want = floats.rounded("Exp", x, "float")
    monkeypatch.setattr(floats, "_DOUBT", 2.0**-20)
    asked = []
    exact = floats._exact
    monkeypatch.setattr(floats, "_exact", lambda *a: asked.append(a) or exact(*a))
    np.testing.assert_array_equal(floats.rounded("Exp", x, "float"), want)
    assert len(asked) == 50
