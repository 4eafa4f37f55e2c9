"""A node with more than two children: the exact sum of them all, rounded once.

This is the model of an ideal fused adder. It is an assumption, and documented for no device: a real
fused adder may cut bits off (truncate) before it rounds.
"""

from __future__ import annotations

import numpy as np

# dtype: (digits of the significand, exponent of the smallest subnormal)
_FORMATS = {"float16": (11, -24), "float32": (24, -149), "float64": (53, -1074)}
_LIMB = 32
_MASK = (1 << _LIMB) - 1
_COLUMNS = 1 << 14  # sums that are done at once: 70 limbs of 8 bytes each


def fused_sum(values: np.ndarray) -> np.ndarray:
    """The exact sum along the first axis, rounded once to nearest, ties to even.

    Args:
        values: float16, float32 or float64, [m, ...], m >= 1.

    Returns:
        [...] of the same dtype. NaN where a value is NaN or where both infinities meet; else an
        infinity where one is added (however large the finite values are) or where the exact sum
        rounds to one; a sum of exactly zero is -0 if every value is -0, and +0 otherwise.

    Example:
        >>> fused_sum(np.array([1e8, 1, -1e8, 1], np.float32))
        np.float32(2.0)
    """
    dtype = values.dtype
    with np.errstate(all="ignore"):  # Inf and NaN are results like any other
        # In fp64, with the error of each addition. Where all errors are 0, the sum is exact and
        # the conversion is the one rounding. IEEE zeros already have the signs promised above.
        total = values[0].astype(np.float64)
        exact = np.isfinite(total)
        for value in values[1:]:
            new = total + value
            back = new - total
            exact &= (total - (new - back)) + (value - back) == 0  # NaN compares unequal
            total = new
        result = np.asarray(total.astype(dtype))
        rest = np.nonzero(~np.atleast_1d(exact).reshape(-1))[0]
        flat, columns = result.reshape(-1), values.reshape(len(values), -1)
        for start in range(0, len(rest), _COLUMNS):
            chosen = rest[start : start + _COLUMNS]
            flat[chosen] = _by_limbs(columns[:, chosen])
    return result[()]


def _by_limbs(values: np.ndarray) -> np.ndarray:
    """`fused_sum` of [m, k] by integers: a fixed-point number of 32-bit limbs for each column."""
    digits, unit = _FORMATS[values.dtype.name]
    wide = values.astype(np.float64)
    finite = np.isfinite(wide)
    limbs, negative = _add_up(np.where(finite, wide, 0), unit)
    size = _round(limbs, digits, unit)
    total = np.where(negative, -size, size)
    # Infinities and NaN decide alone: a finite value changes nothing, whatever it sums to.
    special = np.where(finite, 0, wide).sum(axis=0)
    return np.where(finite.all(axis=0), total, special).astype(values.dtype)


def _add_up(values: np.ndarray, unit: int) -> tuple[np.ndarray, np.ndarray]:
    """|sum| of each column in units of 2**unit as limbs [L, k], and whether it is negative."""
    fraction, exponent = np.frexp(values)
    whole = np.ldexp(fraction, 53).astype(np.int64)
    place = exponent.astype(np.int64) - 53 - unit
    whole >>= np.minimum(np.maximum(-place, 0), 63)  # the bits shifted out are zeros
    place = np.maximum(place, 0)
    limb, shift = place // _LIMB, place % _LIMB
    column = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    limbs = np.zeros((int(limb.max(initial=0)) + 4, values.shape[1]), np.int64)
    # A limb takes values below 2**32 in size, so it holds the carries of 2**31 of them.
    for part, at in (((whole & _MASK) << shift, limb), ((whole >> _LIMB) << shift, limb + 1)):
        np.add.at(limbs, (at, column), part & _MASK)
        np.add.at(limbs, (at + 1, column), part >> _LIMB)
    _carry(limbs)
    negative = limbs[-1] < 0
    limbs[:, negative] *= -1
    _carry(limbs)
    return limbs, negative


def _carry(limbs: np.ndarray) -> None:
    """Every limb but the last into 0 .. 2**32 - 1; the last one keeps the sign."""
    for k in range(len(limbs) - 1):
        limbs[k + 1] += limbs[k] >> _LIMB
        limbs[k] &= _MASK


def _round(limbs: np.ndarray, digits: int, unit: int) -> np.ndarray:
    """The number in the limbs, times 2**unit, rounded to `digits` bits; fp64 holds it exactly."""
    count = len(limbs)
    at = np.arange(limbs.shape[1])
    top = count - 1 - np.argmax(limbs[::-1] != 0, axis=0)
    high = _LIMB * top + np.frexp(limbs[top, at].astype(np.float64))[1] - 1  # highest set bit
    drop = np.maximum(high - (digits - 1), 0)  # bits below this one are rounded away
    kept = np.zeros(limbs.shape[1], np.int64)
    for below in range(3):  # 53 bits lie in at most three limbs
        k = top - below
        limb = np.where(k >= 0, limbs[k, at], 0)
        move = _LIMB * k - drop
        kept += np.where(move >= 0, limb << np.clip(move, 0, 53), limb >> np.clip(-move, 0, 63))
    half = np.maximum(drop - 1, 0)
    limb, bit = half // _LIMB, half % _LIMB
    over = (limbs[limb, at] >> bit & 1).astype(bool) & (drop > 0)
    lower = np.concatenate([np.zeros((1, len(at)), bool), np.logical_or.accumulate(limbs != 0)])
    sticky = lower[limb, at] | ((limbs[limb, at] & ((1 << bit) - 1)) != 0)
    kept += over & (sticky | (kept & 1).astype(bool))
    return np.ldexp(kept.astype(np.float64), drop + unit)
