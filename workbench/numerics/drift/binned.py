"""A large table of signed numbers in few bins: of each bin the number that is farthest from 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workbench.errors import InputError

ROWS, COLUMNS = 96, 384  # bins along the sides of a picture, at most


@dataclass(frozen=True, eq=False)
class Bins:
    """A part of a table, neighbours together.

    Attributes:
        low, high: The part: rows low[0] .. high[0] - 1, columns low[1] .. high[1] - 1.
        rows, columns: Where each bin begins, and the end: [tall + 1], [wide + 1].
        values: fp64 [tall, wide], the number with the largest |value| of each bin, with its sign.
            A NaN counts as larger than all others, then an infinity.
        at: int64 [tall, wide, 2], the row and the column of that number.
    """

    low: tuple[int, int]
    high: tuple[int, int]
    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    at: np.ndarray

    @property
    def outputs(self) -> int:
        """How many numbers a bin holds, at most."""
        return int(np.diff(self.rows).max() * np.diff(self.columns).max())


def binned(
    values: np.ndarray,
    low: tuple[int, int] = (0, 0),
    high: tuple[int, int] | None = None,
    most: tuple[int, int] = (ROWS, COLUMNS),
) -> Bins:
    """Bins of equal sides (but the last) over rows and columns of `values`.

    Args:
        values: Real [R, C].
        low, high: The part of it; None: to the end.
        most: Bins along each side, at most.

    Raises:
        InputError: No table, or no such part.

    Example:
        >>> found = binned(np.array([[1.0, -3.0, 2.0, 0.0]]), most=(1, 2))
        >>> found.values.tolist(), found.at[0].tolist()
        ([[-3.0, 2.0]], [[0, 1], [0, 2]])
    """
    if values.ndim != 2 or not values.size:
        raise InputError(
            f"values have shape {list(values.shape)}; wanted a table [R, C], not empty"
        )
    high = (values.shape[0], values.shape[1]) if high is None else high
    if not all(0 <= a < b <= n for a, b, n in zip(low, high, values.shape, strict=True)):
        raise InputError(
            f"rows {low[0]}:{high[0]} and columns {low[1]}:{high[1]} of a table "
            f"{list(values.shape)}; give a part that is in it and not empty"
        )
    if min(most) < 1:
        raise InputError(f"most={most}; wanted one bin or more along each side")
    rows, columns = (_edges(a, b, m) for a, b, m in zip(low, high, most, strict=True))
    tall, wide = len(rows) - 1, len(columns) - 1
    found, at = np.zeros((tall, wide)), np.zeros((tall, wide, 2), np.int64)
    step = int(columns[1] - columns[0])
    for k in range(tall):
        block = np.asarray(values[rows[k] : rows[k + 1], low[1] : high[1]], np.float64)
        size = np.minimum(np.abs(block), np.finfo(np.float64).max)  # an infinity is no NaN
        size[np.isnan(size)] = np.inf
        # First the row that is farthest from 0 in each column, then the column in each bin.
        row = size.argmax(axis=0)
        padded = np.full(wide * step, -1.0)
        padded[: block.shape[1]] = size.max(axis=0)
        column = np.arange(wide) * step + padded.reshape(wide, step).argmax(axis=1)
        at[k, :, 0], at[k, :, 1] = rows[k] + row[column], low[1] + column
        found[k] = block[row[column], column]
    return Bins(low, high, rows, columns, found, at)


def _edges(low: int, high: int, most: int) -> np.ndarray:
    step = -(-(high - low) // most)
    return np.append(np.arange(low, high, step), high)
