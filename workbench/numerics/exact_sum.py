"""Sums and dot products rounded once: the exact value, rounded to nearest, ties to even.

Two ways, of which the first says when it does not know:

* errors carried along: every addition's own rounding error is computed exactly (Knuth's TwoSum)
  and summed beside it. A bound on what that second sum may be off decides whether the rounding is
  certain (Ogita, Rump and Oishi, "Accurate sum and dot product", 2005);
* else the terms are added as integers, in as many 32-bit limbs as their exponents span. There is
  no rounding and no overflow, whatever cancels.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import InputError
from workbench.orders.dot import two_sum
from workbench.orders.tree.execute import refuse_flush

_FLOATS = ("float16", "float32", "float64")
_BLOCK = 1 << 15  # fp64 terms worked on at a time: they stay in the cache
_HUGE = 2.0**1000  # above it a partial sum or an error term could overflow
_UNIT = 2.0**-53
_LIMB = 32
_COUNT = 1 << 20  # limbs of 32 bits that a double adds up exactly, with a bit to spare


class _Format(NamedTuple):
    digits: int  # of the significand, with the leading bit
    lowest: int  # exponent of the smallest subnormal


_FORMATS = {
    "float64": _Format(53, -1074),
    "float32": _Format(24, -149),
    "float16": _Format(11, -24),
}


def rounded_sum(terms: np.ndarray, dtype: Any = "float64") -> np.ndarray:
    """The exact sum of each row, rounded once.

    Args:
        terms: fp16, fp32 or fp64, [R, n] or [n].
        dtype: "float64", "float32" or "float16": what to round to. To fp32 in one step: through
            fp64 a sum beside a midpoint would be rounded twice.

    Returns:
        [R] (or a scalar array for [n]) of `dtype`. A sum of exactly 0 is +0; one that is
        too small for the format is a 0 with its sign. Inf and NaN among the terms give what IEEE
        addition gives; finite terms overflow only if their exact sum does.

    Raises:
        InputError: Another dtype or shape.
        WorkbenchError: This thread flushes subnormals to zero, so terms would be lost.

    Example:
        >>> import numpy as np
        >>> terms = np.array([1e30, 1, -1e30])
        >>> float(terms.sum()), float(rounded_sum(terms))
        (0.0, 1.0)
    """
    terms = np.asarray(terms)
    name = _output(dtype)
    _check("terms", terms)
    if terms.ndim not in (1, 2):
        raise InputError(f"terms have shape {list(terms.shape)}; wanted [R, n] or [n]")
    refuse_flush()
    rows = np.atleast_2d(terms)
    out = np.zeros(len(rows), name)
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        out[start : start + step] = _block(rows[start : start + step].astype(np.float64), name)
    return out if terms.ndim == 2 else out[0]


def rounded_dot(a: np.ndarray, b: np.ndarray, dtype: Any = "float64") -> np.ndarray:
    """The exact dot product of each row of `a` with `b`, rounded once.

    Products of fp32 and fp16 numbers are exact in fp64 and go the quick way. Those of fp64 are
    split into two exact parts first and added as integers: as exact, about ten times slower.

    Args:
        a: fp16, fp32 or fp64, [R, n] or [n].
        b: [n], or of the shape of `a`.
        dtype: As in `rounded_sum`.

    Returns:
        [R] (or a scalar array) of `dtype`; 0, Inf and NaN as in `rounded_sum`.

    Raises:
        InputError, WorkbenchError: As `rounded_sum`.

    Example:
        >>> import numpy as np
        >>> a = np.array([[2**12 + 1, 1]], np.float32)
        >>> rounded_dot(a, np.array([2**12 + 1, -(2**24)], np.float32)).tolist()
        [8193.0]
    """
    a, b = np.asarray(a), np.asarray(b)
    name = _output(dtype)
    _check("a", a)
    _check("b", b)
    if a.ndim not in (1, 2) or b.shape not in (a.shape, a.shape[-1:]):
        raise InputError(
            f"a {list(a.shape)} and b {list(b.shape)} do not fit; wanted a [R, n] or [n], and b "
            "of the same shape or [n]"
        )
    refuse_flush()
    left = np.atleast_2d(a)
    right = np.broadcast_to(b, left.shape)
    narrow = "float64" not in (a.dtype.name, b.dtype.name)
    out = np.zeros(len(left), name)
    step = max(1, _BLOCK // max(1, left.shape[1]))
    for start in range(0, len(left), step):
        x, y = (side[start : start + step].astype(np.float64) for side in (left, right))
        if narrow:
            with np.errstate(all="ignore"):  # 0 * Inf is NaN, as in the sum it belongs to
                out[start : start + step] = _block(x * y, name)
        else:
            out[start : start + step] = _wide_dot(x, y, name)
    return out if a.ndim == 2 else out[0]


def _output(dtype: Any) -> str:
    name = np.dtype(dtype).name
    if name not in _FORMATS:
        raise InputError(f"cannot round to {name}; give one of {', '.join(_FORMATS)}")
    return name


def _check(what: str, values: np.ndarray) -> None:
    if values.dtype.name not in _FLOATS:
        raise InputError(
            f"{what} has dtype {values.dtype.name}; wanted one of {', '.join(_FLOATS)}. "
            "bf16 numbers are exact in fp32: convert them first"
        )


# ---- errors carried along ------------------------------------------------------------------------


def _block(terms: np.ndarray, name: str) -> np.ndarray:
    """Rows of fp64 terms, each summed and rounded: quickly where that is certain."""
    with np.errstate(all="ignore"):
        size = np.abs(terms).sum(1)
        total, rest, doubt = _carried(terms, size)
        out, certain = _settled(total, rest, doubt, name)
        certain &= size < _HUGE  # also false for NaN and Inf
        certain |= size == 0
    if not certain.all():
        left = ~certain
        out[left] = _rounded_integers(terms[left], None, name)
    return out


def _carried(terms: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(total, rest, doubt): the exact sum is within `doubt` of total + rest; total = fl(both)."""
    n = terms.shape[1]
    rest = np.zeros(len(terms))
    level = terms
    while level.shape[1] > 1:
        half = level.shape[1] // 2
        upper, error = two_sum(level[:, :half], level[:, half : 2 * half])
        rest += error.sum(1)
        if level.shape[1] % 2:
            upper[:, 0], error = two_sum(upper[:, 0], level[:, -1])
            rest += error
        level = upper
    total = level[:, 0] if n else np.zeros(len(terms))
    total, rest = two_sum(total, rest)
    # A term goes through at most 2 log2 n additions, so the errors' sizes add up to at most
    # u 2 log2(n) size; adding them, n u of that. Four times as much covers (1 + u)^n, the rounding
    # of `size` and of the comparisons; the last part, sizes that vanish in fp64.
    doubt = 4 * n * 2 * n.bit_length() * _UNIT**2 * size + 2.0**-1074
    return total, rest, doubt


def _settled(
    total: np.ndarray, rest: np.ndarray, doubt: np.ndarray, name: str
) -> tuple[np.ndarray, np.ndarray]:
    """The rounded sums, and which of them are certain."""
    up, down = np.nextafter(total, np.inf), np.nextafter(total, -np.inf)
    if name == "float64":
        # Within half the gap to the neighbour on either side, total is the nearest number.
        certain = (rest + doubt < (up - total) / 2) & (doubt - rest < (total - down) / 2)
        return total.copy(), certain
    # The exact sum lies in (down, up). Rounding to odd first (total where its last bit is 1, else
    # the neighbour on the side of the rest) makes the second rounding the right one.
    certain = (rest + doubt < up - total) & (doubt - rest < total - down)
    odd = (total.view(np.int64) & 1).astype(bool)
    above, even, below = (np.where(odd, total, side).astype(name) for side in (up, total, down))
    # Away from a midpoint of the narrow format all three agree, and the side does not matter.
    same = (above == even) & (even == below)
    out = np.where(rest > 0, above, np.where(rest < 0, below, even))
    return out, certain & (same | (np.abs(rest) > doubt))


# ---- integers ------------------------------------------------------------------------------------


def _wide_dot(x: np.ndarray, y: np.ndarray, name: str) -> np.ndarray:
    """Rows of fp64 products, each split into two exact parts with exponents of their own."""
    with np.errstate(all="ignore"):
        products = x * y
    odd = ~np.isfinite(x) | ~np.isfinite(y)
    a, ea = np.frexp(np.where(odd, 0, x))
    b, eb = np.frexp(np.where(odd, 0, y))
    high = a * b  # in [1/4, 1): neither overflow nor underflow
    # Dekker's product: 27 and 26 bits a side, whose partial products are exact.
    factor = 2.0**27 + 1
    t, s = factor * a, factor * b
    a1, b1 = t - (t - a), s - (s - b)
    a2, b2 = a - a1, b - b1
    low = ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2
    exponent = np.where(odd, 0, ea + eb)
    # NaN and Inf stand in the first part, with what IEEE multiplication makes of them.
    values = np.concatenate([np.where(odd, products, high), low], 1)
    return _rounded_integers(values, np.concatenate([exponent, exponent], 1), name)


def _rounded_integers(values: np.ndarray, exponents: np.ndarray | None, name: str) -> np.ndarray:
    """Rows of value * 2^exponent, added as integers and rounded."""
    out = np.zeros(len(values), name)
    finite = np.isfinite(values)
    step = max(1, 8 * _BLOCK // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        part = slice(start, start + step)
        more = None if exponents is None else exponents[part]
        sums, scale = _integer_sums(np.where(finite[part], values[part], 0), more)
        nearest = np.array([_nearest(s, scale, _FORMATS[name]) for s in sums])
        with np.errstate(over="ignore"):  # a sum that rounds to 2^128 is Inf in fp32
            out[part] = nearest
    broken = ~finite.all(1)
    if broken.any():
        with np.errstate(all="ignore"):
            # Inf - Inf is NaN; finite terms do not matter beside either
            out[broken] = np.where(finite[broken], 0, values[broken]).sum(1)
    return out


def _integer_sums(values: np.ndarray, exponents: np.ndarray | None) -> tuple[list[int], int]:
    """(integers, scale): the sum of row r is integers[r] * 2^scale, exactly."""
    rows, n = values.shape
    mantissa, place = np.frexp(values)
    place = place.astype(np.int64) - 53  # of the last of 53 bits
    if exponents is not None:
        place += exponents
    bits = np.abs(np.ldexp(mantissa, 53)).astype(np.uint64)
    used = bits != 0
    if not used.any():
        return [0] * rows, 0
    scale = int(place[used].min())
    place = np.where(used, place - scale, 0)
    # 53 bits shifted by up to 31 lie in three limbs; two more take the carries and the sign.
    limbs = int(place.max()) // _LIMB + 5
    sums = np.zeros((rows, limbs), np.int64)
    sign, mask = np.sign(mantissa), np.uint64((1 << _LIMB) - 1)
    offset = (place % _LIMB).astype(np.uint64)
    over = bits >> (np.uint64(_LIMB) - offset)
    pieces = ((bits << offset) & mask, over & mask, over >> np.uint64(_LIMB))
    first = place // _LIMB + np.arange(rows)[:, None] * limbs
    for at in range(0, n, _COUNT):
        columns = slice(at, at + _COUNT)
        for shift, piece in enumerate(pieces):
            weights = (sign[:, columns] * piece[:, columns].astype(np.float64)).ravel()
            index = (first[:, columns] + shift).ravel()
            # Sums of fewer than 2^21 integers below 2^32: exact in the doubles of bincount.
            found = np.bincount(index, weights, rows * limbs)
            sums += found.astype(np.int64).reshape(rows, limbs)
    for k in range(limbs - 1):
        sums[:, k + 1] += sums[:, k] >> _LIMB
        sums[:, k] &= (1 << _LIMB) - 1
    words = (sums & ((1 << _LIMB) - 1)).astype("<u4")  # two's complement, the last word its sign
    return [int.from_bytes(row.tobytes(), "little", signed=True) for row in words], scale


def _nearest(value: int, scale: int, form: _Format) -> float:
    """value * 2^scale rounded to `form`, ties to even, as a Python float (Inf where too large)."""
    size = abs(value)
    drop = max(size.bit_length() - form.digits, form.lowest - scale)
    if drop > 0:
        kept, lost, half = size >> drop, size & ((1 << drop) - 1), 1 << (drop - 1)
        size = kept + (lost > half or (lost == half and kept & 1))
        scale += drop
    try:
        found = math.ldexp(size, scale)
    except OverflowError:
        found = math.inf
    return -found if value < 0 else found
