"""Operands on which two orders show that they differ, and two kinds of arithmetic too."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

DRAWS = 8  # of N(0, 1)


def draws(
    rows: int, columns: int, n: int, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """(name, a [rows, n], b [columns, n]), fp32."""

    def normal(count: int) -> np.ndarray:
        return rng.standard_normal((count, n)).astype(np.float32)

    def scaled(count: int, low: int, high: int) -> np.ndarray:
        scale = 2.0 ** rng.integers(low, high + 1, (count, n))
        return (rng.standard_normal((count, n)) * scale).astype(np.float32)

    for _ in range(DRAWS):
        yield "N(0, 1)", normal(rows), normal(columns)
    yield "numbers of one sign", np.abs(normal(rows)), np.abs(normal(columns))
    yield "mixed scales", scaled(rows, -20, 20), scaled(columns, -20, 20)
    a, b = normal(rows), normal(columns)
    half = n // 2
    a[:, half : 2 * half] = -a[:, :half]  # with b doubled, all that is left is rounding
    b[:, half : 2 * half] = b[:, :half]
    yield "terms that cancel", a, b
    yield "subnormal products", scaled(rows, -75, -60), scaled(columns, -75, -60)
    yield "subnormal operands", scaled(rows, -149, -126), scaled(columns, -2, 8)
    # A product of 2^127 at most, so some sums overflow on the way and others do not.
    yield "near overflow", scaled(rows, 58, 62), scaled(columns, 58, 62)
    yield "0.1 everywhere", np.full((rows, n), 0.1, np.float32), np.ones((columns, n), np.float32)
    yield "nothing but -0", np.full((rows, n), -0.0, np.float32), np.ones((columns, n), np.float32)
    a = normal(rows)
    a[np.arange(rows), rng.integers(0, n, rows)] = np.inf
    yield "an infinity in each row", a, normal(columns)
