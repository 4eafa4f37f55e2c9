"""Arithmetic on floats: exact in double (or proved so), then one rounding to the element type.

Halfwords are bit patterns outside this module. Inside, half becomes float64, where a sum or a
product of two halves is exact (at most 41 and 22 significant bits), and one rounding goes back.

* ``to_half``: numpy's double -> half, checked against exact fractions in the tests.
* quotient and square root of halves in double, of floats in numpy's float32: IEEE operations.
  The double rounding of a half quotient is harmless: with 53 >= 2 * 11 + 2 bits a quotient of two
  11-bit numbers that is not a midpoint is further from one than the double's error.
* ``fma``: the product of two 24-bit numbers is exact in double; the sum is rounded to odd there,
  and 53 >= 24 + 2 bits make the last rounding the only one (Boldo and Melquiond).
* Exp, Ln, Rsqrt: a double result is within a few units of 2**-52 of the truth; where the whole
  interval of 2**-48 around it rounds to one value that value is right, and the rest (one in about
  2**24) is decided by ``decimal`` with 60 digits, whose exp, ln and sqrt are correctly rounded.
"""

from __future__ import annotations

import decimal

import numpy as np

NAN32, NAN16, NANB16 = 0x7FC00000, 0x7E00, 0x7FC0
_DOUBT = 2.0**-48


def from_half(bits: np.ndarray) -> np.ndarray:
    """uint16 bits -> float64, exact."""
    return bits.view(np.float16).astype(np.float64)


def to_half(x: np.ndarray, saturate: bool = False) -> np.ndarray:
    """float64 -> uint16 bits, nearest even, NaN 0x7e00; saturated: inf -> +-65504, NaN -> 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        bits = x.astype(np.float16).view(np.uint16)
    nan = np.isnan(x)
    if saturate:
        bits = np.where((bits & 0x7FFF) == 0x7C00, bits - np.uint16(1), bits)
        return np.where(nan, np.uint16(0), bits)
    if nan.any():
        bits = np.where(nan, np.uint16(NAN16), bits)
    return bits


def from_bfloat(bits: np.ndarray) -> np.ndarray:
    """uint16 bits -> float32, exact."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def canonical(x: np.ndarray) -> np.ndarray:
    """float32 -> the same with every NaN 0x7fc00000."""
    nan = np.isnan(x)
    if nan.any():
        x = x.copy()
        x.view(np.uint32)[nan] = NAN32
    return x


def load(x: np.ndarray, kind: str) -> np.ndarray:
    """Elements as numpy holds them -> numbers to compute with: half as float64, float as it is."""
    return from_half(x) if kind == "half" else x


def finish(x: np.ndarray, kind: str, saturate: bool) -> np.ndarray:
    """Numbers -> elements: one rounding, NaN canonical. Saturation concerns half only."""
    if kind == "half":
        return to_half(x, saturate)
    if kind == "float":
        return canonical(x.astype(np.float32, copy=False))
    return x


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c in double, rounded to odd: any later rounding to float or half is the only one."""
    a, b, c = (np.asarray(v).astype(np.float64) for v in (a, b, c))
    product = a * b
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    inexact = np.isfinite(total) & (error != 0) & (total.view(np.uint64) & 1 == 0)
    if inexact.any():
        toward = np.where(error > 0, np.inf, -np.inf)
        total = np.where(inexact, np.nextafter(total, toward), total)
    return total


def relu(x: np.ndarray) -> np.ndarray:
    """max(x, +0): -0 becomes +0, NaN stays NaN."""
    return np.where(x > 0, x, np.where(np.isnan(x), x, x.dtype.type(0)))


def maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """IEEE 754-2019 maximum: NaN wins, +0 is larger than -0."""
    both = (a == 0) & (b == 0)
    return np.where(both, np.where(np.signbit(a), b, a), np.maximum(a, b))


def minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """IEEE 754-2019 minimum: NaN wins, -0 is smaller than +0."""
    both = (a == 0) & (b == 0)
    return np.where(both, np.where(np.signbit(a), a, b), np.minimum(a, b))


# --- correctly rounded functions ------------------------------------------------------------------

_CONTEXT = decimal.Context(prec=60, Emin=-(10**6), Emax=10**6)


def _exact(name: str, x: float) -> decimal.Decimal:
    d = decimal.Decimal(x)
    if name == "Exp":
        return _CONTEXT.exp(d)
    if name == "Ln":
        return _CONTEXT.ln(d)
    return _CONTEXT.divide(decimal.Decimal(1), _CONTEXT.sqrt(d))


def _nearest(target: decimal.Decimal, guess: float, kind: str) -> float:
    """The element nearest to ``target`` among those around ``guess`` (ties: even, cannot occur)."""
    if kind == "half":
        base = int(to_half(np.array([guess]))[0])
        codes = np.array([max(base - 1, 0), base, base + 1], np.uint16)
        values = [float(v) for v in from_half(codes)]
    else:
        base = np.float32(guess)
        values = [float(np.nextafter(base, d, dtype=np.float32)) for d in (-np.inf, np.inf)]
        values.append(float(base))
    finite = [v for v in values if np.isfinite(v)]
    return min(finite, key=lambda v: abs(_CONTEXT.subtract(decimal.Decimal(v), target)))


def rounded(name: str, x: np.ndarray, kind: str) -> np.ndarray:
    """Exp, Ln or Rsqrt of numbers as ``load`` gives them -> float64 that is already rounded."""
    wide = x.astype(np.float64)
    if name == "Exp":
        y = np.exp(wide)
    elif name == "Ln":
        y = np.log(wide)
    else:
        y = 1 / np.sqrt(wide)

    def narrow(v: np.ndarray) -> np.ndarray:
        if kind == "half":
            return from_half(to_half(v))
        return v.astype(np.float32).astype(np.float64)

    result = narrow(y)
    low, high = narrow(y * (1 - _DOUBT)), narrow(y * (1 + _DOUBT))
    doubt = (low != high) & np.isfinite(y)
    for n in np.flatnonzero(doubt):
        # exp(0) = 1, ln(1) = 0 and powers of four are exact, and no doubt remains after decimal.
        result.flat[n] = _nearest(_exact(name, float(wide.flat[n])), float(y.flat[n]), kind)
    return result
