"""A tree executed: which additions can be done together, and doing them for many rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from workbench.errors import InputError, WorkbenchError
from workbench.orders.tree.fused import fused_sum
from workbench.orders.tree.layout import Layout

FLOATS = ("float16", "float32", "float64")
_CHUNK_BYTES = 16 << 20  # working set of one chunk of rows
_CHAIN = 4  # levels of one node each from which on a run of them is one step

Index: TypeAlias = "np.ndarray | slice"
Step: TypeAlias = Callable[[np.ndarray], None]


@dataclass(frozen=True)
class Schedule:
    """The additions of a tree in an order that a few vector operations can follow.

    Attributes:
        steps: Each fills some rows of `values` [slots, R], whose first rows are the terms.
        slot: Where the value of each node stands in `values`: int64 [leaves + inner].
    """

    steps: list[Step]
    slot: np.ndarray

    def run(self, rows: np.ndarray) -> np.ndarray:
        """`rows` [R, n] to the values of all nodes, [slots, R]."""
        values = np.empty((len(self.slot), len(rows)), rows.dtype)
        values[: rows.shape[1]] = rows.T
        with np.errstate(all="ignore"):  # Inf and NaN are results like any other
            for step in self.steps:
                step(values)
        return values


def check_terms(terms: Any, leaves: int) -> np.ndarray:
    """`terms` as an array of the right shape and dtype, on a thread that keeps subnormals."""
    terms = _array(terms)
    if terms.dtype.name not in FLOATS:
        raise InputError(
            f"terms have dtype {terms.dtype.name}; wanted one of {', '.join(FLOATS)}. "
            "Convert them first: every node is rounded to that dtype"
        )
    if terms.ndim not in (1, 2) or terms.shape[-1] != leaves:
        raise InputError(
            f"terms have shape {list(terms.shape)}; this tree adds [R, {leaves}]. "
            "Give one row per sum, or take the order for another n"
        )
    refuse_flush()
    return terms


def _array(terms: Any) -> np.ndarray:
    if isinstance(terms, np.ma.MaskedArray):
        raise InputError(
            "terms are a masked array; an order adds every term. Give terms.filled(0), or the "
            "order of those that are left"
        )
    if getattr(terms, "requires_grad", False):
        raise InputError("terms require a gradient, which is not followed; give terms.detach()")
    if str(getattr(terms, "dtype", "")) == "torch.bfloat16":
        raise InputError(
            "terms have dtype bfloat16, which numpy has not; wanted one of "
            f"{', '.join(FLOATS)}. terms.float() holds the same numbers"
        )
    try:
        return np.asarray(terms)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"terms are a {type(terms).__name__} that is no array ({error}); wanted numbers "
            "[R, n] or [n] in memory of the CPU"
        ) from None


def chunk_rows(slots: int, itemsize: int) -> int:
    """Rows that are added at once, so that the working set stays small."""
    return max(1, _CHUNK_BYTES // (max(slots, 1) * itemsize))


def schedule(layout: Layout) -> Schedule:
    """Inner nodes renumbered level by level and by arity, so that one step does many of them."""
    n, inner = layout.leaves, layout.inner
    if not inner:
        return Schedule([], np.arange(n))
    levels, arities = layout.heights[n:], np.diff(layout.offsets)
    order = np.lexsort((arities, levels))
    slot = np.arange(layout.total)
    slot[n + order] = n + np.arange(inner)
    levels, arities = levels[order], arities[order]
    starts = layout.offsets[:-1][order]
    # Where a new level or arity begins; a group in between is one step.
    edge = np.flatnonzero((np.diff(levels) != 0) | (np.diff(arities) != 0)) + 1
    edges = np.concatenate([[0], edge, [inner]])
    binary = bool((arities == 2).all())
    chains = _chains(edges, arities, slot[layout.children], starts, n)
    steps: list[Step] = []
    at, bounds = 0, edges.tolist()
    while at < len(bounds) - 1:
        low, stop = bounds[at], at + chains.get(at, 1)
        high = bounds[stop]
        if stop > at + 1:
            pairs = slot[layout.children[starts[low:high, None] + np.arange(2)]]
            steps.append(_chain(n + low, pairs))
        else:
            arity = 2 if binary else int(arities[low])
            columns = starts[low:high, None] + np.arange(arity)
            steps.append(_level(n + low, slot[layout.children[columns]]))
        at = stop
    return Schedule(steps, slot)


def _chains(
    edges: np.ndarray, arities: np.ndarray, children: np.ndarray, starts: np.ndarray, n: int
) -> dict[int, int]:
    """{group: number of groups from it on} for runs of single nodes each of which adds one thing
    to the node before: a left-to-right sum of 150,000 terms is one run."""
    first = edges[:-1]
    alone = (np.diff(edges) == 1) & (arities[first] == 2)
    left, right = children[starts[first]], children[starts[first] + 1]
    before = n + first - 1
    follows = alone & ((left == before) | (right == before))
    follows[1:] &= alone[:-1]
    follows[0] = False
    change = np.diff(np.concatenate([[False], follows, [False]]).astype(np.int8))
    begin, end = np.flatnonzero(change == 1) - 1, np.flatnonzero(change == -1)
    long = end - begin >= _CHAIN
    lengths = (end - begin)[long].tolist()
    return dict(zip(begin[long].tolist(), lengths, strict=True))


def _chain(low: int, pairs: np.ndarray) -> Step:
    """Nodes low, low + 1, …, each the sum of the node before and one other thing."""
    others = pairs.sum(axis=1) - (low + np.arange(len(pairs)) - 1)
    others[0] = pairs[0, 1]
    things = np.concatenate([pairs[:1, 0], others])

    def step(values: np.ndarray) -> None:
        # `accumulate` adds strictly from the first to the last.
        values[low : low + len(pairs)] = np.add.accumulate(values[things], axis=0)[1:]

    return step


def _level(low: int, children: np.ndarray) -> Step:
    """Nodes low, low + 1, … of equal arity, none of which is below another."""
    high, arity = low + len(children), children.shape[1]
    columns = [_as_slice(column) for column in children.T]
    if arity == 2:
        left, right = columns

        def step(values: np.ndarray) -> None:
            np.add(values[left], values[right], out=values[low:high])

    else:

        def step(values: np.ndarray) -> None:
            values[low:high] = fused_sum(values[children.T])

    return step


def _as_slice(index: np.ndarray) -> Index:
    """`index` as a slice where its steps are equal: a view, not a gathered copy."""
    if len(index) == 1:
        return slice(int(index[0]), int(index[0]) + 1)
    step = int(index[1] - index[0])
    if step > 0 and (np.diff(index) == step).all():
        return slice(int(index[0]), int(index[-1]) + 1, step)
    return index


def refuse_flush() -> None:
    """An error where this thread flushes subnormals to zero."""
    # torch.set_flush_denormal(True) acts on this thread, numpy included.
    tiny = np.full(1, 2.0**-149, np.float32)
    if (tiny + tiny)[0] == 0:
        raise WorkbenchError(
            "this thread flushes subnormal numbers to zero, and an exact sum keeps them. "
            "Call torch.set_flush_denormal(False) first"
        )
