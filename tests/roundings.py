"""Numbers that carry a bound on their rounding error, so that a test derives how close is close.

A formula written with `Rounded` gives its value in double and the most that an evaluation may be
off which rounds to the dtype at every step, each function of one argument within an ulp. Bounds are
worst-case, to nothing less than the last step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch


class Rounded:
    """A value (fp64 array) and a bound on its error, for arithmetic of one dtype."""

    def __init__(self, value, dtype: torch.dtype, off=0.0) -> None:
        info = torch.finfo(dtype)
        self.dtype = dtype
        self.unit, self.tiny = info.eps / 2, info.smallest_normal * info.eps / 2
        self.value = np.asarray(value, np.float64)
        self.off = np.broadcast_to(np.asarray(off, np.float64), self.value.shape)

    def _other(self, other) -> Rounded:
        """A number in the source stands in the dtype: rounded, unless it is one of its values."""
        if isinstance(other, Rounded):
            return other
        held = float(torch.tensor(other, dtype=torch.float64).to(self.dtype))
        return Rounded(other, self.dtype, abs(held - other))

    def _step(self, value, off, units: float = 1.0) -> Rounded:
        """The result of one step: what it inherits, and `units` half ulps of its own."""
        return Rounded(value, self.dtype, off + units * self.unit * (abs(value) + off) + self.tiny)

    def __add__(self, other) -> Rounded:
        other = self._other(other)
        return self._step(self.value + other.value, self.off + other.off)

    def __sub__(self, other) -> Rounded:
        return self + -self._other(other)

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.dtype, self.off)

    def __mul__(self, other) -> Rounded:
        other = self._other(other)
        off = abs(self.value) * other.off + abs(other.value) * self.off + self.off * other.off
        return self._step(self.value * other.value, off)

    def __truediv__(self, other) -> Rounded:
        other = self._other(other)
        value = self.value / other.value
        off = (self.off + abs(value) * other.off) / (abs(other.value) - other.off)
        return self._step(value, off)

    def __radd__(self, other) -> Rounded:
        return self._other(other) + self

    def __rmul__(self, other) -> Rounded:
        return self._other(other) * self

    def __rtruediv__(self, other) -> Rounded:
        return self._other(other) / self

    def __getitem__(self, index) -> Rounded:
        return Rounded(self.value[index], self.dtype, self.off[index])

    def _monotone(self, f: Callable) -> Rounded:
        """A monotone function within one ulp, which is two half ulps."""
        value = f(self.value)
        low, high = f(self.value - self.off), f(self.value + self.off)
        return self._step(value, np.maximum(abs(high - value), abs(value - low)), 2.0)

    def exp(self) -> Rounded:
        return self._monotone(np.exp)

    def sqrt(self) -> Rounded:
        return self._monotone(np.sqrt)

    def log(self) -> Rounded:
        return self._monotone(np.log)

    def log10(self) -> Rounded:
        return self._monotone(np.log10)

    def to(self, dtype: torch.dtype) -> Rounded:
        """Stored in another dtype: one rounding, none where it is wider."""
        kept = Rounded(self.value, dtype, self.off)
        return kept if torch.finfo(dtype).eps <= 2 * self.unit else kept._step(self.value, self.off)

    # Exact steps: they choose, and round nothing.

    def abs(self) -> Rounded:
        return Rounded(abs(self.value), self.dtype, self.off)

    def minimum(self, other) -> Rounded:
        other = self._other(other)
        off = np.maximum(self.off, other.off)
        return Rounded(np.minimum(self.value, other.value), self.dtype, off)

    def max(self, axis: int) -> Rounded:
        off = self.off.max(axis, keepdims=True)
        return Rounded(self.value.max(axis, keepdims=True), self.dtype, off)

    def sign(self) -> np.ndarray:
        return np.sign(self.value)

    def sum(self, axis: int) -> Rounded:
        """Over an axis, which stays with length 1; in any order, so the deepest there is."""
        steps = max(self.value.shape[axis] - 1, 0) * self.unit
        off = self.off.sum(axis, keepdims=True)
        size = abs(self.value).sum(axis, keepdims=True) + off
        value = self.value.sum(axis, keepdims=True)
        return Rounded(value, self.dtype, off + steps / (1 - steps) * size)

    def mean(self, axis: int) -> Rounded:
        return self.sum(axis) * (1 / self.value.shape[axis])


def exp(x):
    return x.exp() if isinstance(x, Rounded) else np.exp(x)


def worst(got: torch.Tensor | np.ndarray, want: Rounded) -> float:
    """The largest |error| / bound; at most 1 is as close as the arithmetic promises."""
    values = got.double().numpy() if isinstance(got, torch.Tensor) else got.astype(np.float64)
    assert values.size, "nothing to compare"
    assert values.shape == want.value.shape, (values.shape, want.value.shape)
    error = abs(values - want.value)
    assert np.isfinite(error).all()
    return float(np.where(error == 0, 0.0, error / np.maximum(want.off, want.tiny)).max())
