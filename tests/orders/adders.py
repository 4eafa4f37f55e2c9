"""Sums in a known order that owe nothing to `ReductionTree`: nested lists, a numpy step a node."""

from __future__ import annotations

import math

import numpy as np


def random_nested(n: int, rng: np.random.Generator, most: int = 2):
    """Nested lists over a random permutation of 0..n-1; nodes of 2 to `most` children."""
    parts: list = rng.permutation(n).tolist()
    while len(parts) > 1:
        size = int(min(rng.integers(2, most + 1), len(parts)))
        at = int(rng.integers(0, len(parts) - size + 1))
        parts[at : at + size] = [parts[at : at + size]]
    return parts[0] if parts else []


def program(nested) -> list[list]:
    """The nodes, children first: each a list of term numbers and ~(node numbers)."""
    out: list[list] = []
    if isinstance(nested, int):
        return [[nested]]
    frames: list[tuple] = [(iter(nested), [])]
    while frames:
        walk, got = frames[-1]
        for item in walk:
            if isinstance(item, int):
                got.append(item)
            else:
                frames.append((iter(item), []))
                break
        else:
            frames.pop()
            out.append(got)
            if frames:
                frames[-1][1].append(~(len(out) - 1))
    return out


def exact_node(values: list[np.ndarray]) -> np.ndarray:
    """The exact sum, rounded once (by way of fp64)."""
    return np.array([math.fsum(row) for row in zip(*values, strict=True)]).astype(values[0].dtype)


def aligned_node(values: list[np.ndarray]) -> np.ndarray:
    """A fused adder that cuts its terms at 24 bits below the largest, and its result toward 0."""
    stack = np.stack(values).astype(np.float64)
    _, exponent = np.frexp(np.abs(stack).max(0))
    grid = np.ldexp(1.0, exponent - 24)
    total = (np.trunc(stack / grid) * grid).sum(0)
    near = total.astype(np.float32)
    away = np.abs(near.astype(np.float64)) > np.abs(total)
    return np.where(away, np.nextafter(near, np.float32(0)), near)


def adder(nested, fused=exact_node, dtype=np.float32):
    """A callable of terms [R, n]; binary nodes round to `dtype`, larger ones are `fused`."""
    steps = program(nested)

    def sums(terms):
        values = np.asarray(terms).astype(dtype).T
        done: list[np.ndarray] = []
        for step in steps:
            parts = [values[k] if k >= 0 else done[~k] for k in step]
            if len(parts) == 1:
                done.append(parts[0])
            elif len(parts) == 2:
                done.append(parts[0] + parts[1])
            else:
                done.append(fused(parts))
        return done[-1] if done else np.zeros(len(terms), dtype)

    return sums
