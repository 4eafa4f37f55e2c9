"""Where the probabilistic bound is doubtful: reasons to believe that roundings are not independent.

Thresholds follow from one tail bound: for k sub-Gaussian values with the parameter σ², the mean of
their squares exceeds σ² (1 + 2 sqrt(t / k) + 2 t / k) with probability e^-t at most (Hsu, Kakade
and Zhang 2012). An error over u sqrt(Σ s²) is such a value with σ² = 1/3 if each rounding is spread
evenly over half an ulp to both sides; one over the root of the sum of its own squared roundings has
σ² = 1 if only their signs are independent.
"""

from __future__ import annotations

import math

import numpy as np

from workbench.numerics.bounds.parts import execute, plan_of
from workbench.orders.tree import ReductionTree

SAMPLE = 64  # outputs whose local errors are computed
LOOKED_AT = 256  # hidden rows, and weight rows, looked at for repeated values
REPEATS = 16  # products that repeat: fewer different sizes than one in so many
FALSE_ALARM = 1e-6  # of one test, for roundings that are independent
ABSORBED = 0.25  # of the additions: that many change nothing


def doubts(
    tree: ReductionTree, x: np.ndarray, w: np.ndarray, own: np.ndarray, rounded: bool
) -> tuple[str, ...]:
    """Warnings for the probabilistic bound, each a sentence with figures; empty if none.

    Args:
        tree: The order.
        x, w: fp32 [N, H] and [V, H].
        own: Error of our own evaluation over u sqrt(Σ s_k² + Σ p_i²), fp64 [N, V].
        rounded: Whether products are rounded before they are added.
    """
    if not (own.size and tree.leaves > 1):
        return ()
    rows, columns = _different(x), _different(w)
    if not (len(rows) and len(columns)):
        return ()
    with np.errstate(all="ignore"):  # what overflows has no bound to doubt
        return tuple(_doubts(tree, x, w, rows, columns, own, rounded))


def _doubts(
    tree: ReductionTree,
    x: np.ndarray,
    w: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    own: np.ndarray,
    rounded: bool,
) -> list[str]:
    repeated = _repeated(x, w, rows, columns)
    found = []
    if len(repeated):
        i, j = repeated[0]
        size = np.abs(x[i] * w[j])
        kinds, terms = len(np.unique(size[size > 0])), int((size > 0).sum())
        found.append(
            f"inputs repeat: {terms} products of output ({i}, {j}) have {kinds} different sizes "
            f"({_many(len(repeated), 'output')} of those looked at), so roundings may repeat too"
        )
    spread = _spread(rows, columns)
    for name, pairs in (("sampled outputs", spread), ("outputs with repeated inputs", repeated)):
        local = _local(tree, x, w, pairs[:SAMPLE], name, rounded)
        found += local
        if local:  # the other outputs would say it again
            break
    return found + _whole(own[np.ix_(rows, columns)], rows, columns)


def limit(k: int, tests: int = 1) -> float:
    """The mean of k squared sub-Gaussian values, in units of their parameter, that is too much.

    Example:
        >>> limit(10**9) > 1, limit(1) > limit(64) > limit(10**6)
        (True, True)
    """
    t = math.log(tests / FALSE_ALARM)
    return 1 + 2 * math.sqrt(t / k) + 2 * t / k


def _different(values: np.ndarray) -> np.ndarray:
    """Indices of finite rows without a copy before them: equal rows say nothing new."""
    seen: dict[int, int] = {}
    for i, row in enumerate(values):
        if np.isfinite(row).all():
            seen.setdefault(hash(row.tobytes()), i)
    return np.array(list(seen.values()), np.int64)


def _evenly(indices: np.ndarray, count: int) -> np.ndarray:
    return indices[np.linspace(0, len(indices) - 1, min(count, len(indices))).astype(np.int64)]


def _spread(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Up to SAMPLE outputs over all rows and columns: int64 [k, 2]."""
    total = len(rows) * len(columns)
    flat = np.linspace(0, total - 1, min(SAMPLE, total)).astype(np.int64)
    return np.stack([rows[flat // len(columns)], columns[flat % len(columns)]], axis=1)


def _repeated(x: np.ndarray, w: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Outputs whose products have few different sizes, of those looked at: int64 [k, 2]."""
    some = [
        [i for i in _evenly(picked, LOOKED_AT).tolist() if _few(values[i])]
        for values, picked in ((x, rows), (w, columns))
    ]
    some = [_evenly(np.array(s, np.int64), SAMPLE).tolist() if s else [] for s in some]
    pairs = [(i, j) for i in some[0] for j in some[1] if _few(x[i] * w[j])]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _few(values: np.ndarray) -> bool:
    size = np.abs(values[values != 0])
    # Below a few dozen values nothing repeats often enough to matter.
    return len(size) >= 2 * REPEATS and len(np.unique(size)) * REPEATS <= len(size)


def _local(
    tree: ReductionTree, x: np.ndarray, w: np.ndarray, pairs: np.ndarray, name: str, rounded: bool
) -> list[str]:
    """Warnings from the exact local errors of some outputs."""
    if not len(pairs):
        return []
    left, right = x[pairs[:, 0]].T, w[pairs[:, 1]].T
    total, squares, plus, minus, absorbed, additions = local_errors(tree, left, right, rounded)
    found = []
    moved = np.isfinite(total) & (squares > 0)
    if moved.any():
        # Scaled by their own root mean square: no assumption on how a rounding is spread.
        drift = total[moved] ** 2 / squares[moved]
        if drift.mean() > limit(int(moved.sum())):
            share = np.maximum(plus, minus)[moved] / (plus + minus)[moved]
            signs = (left * right)[:, moved]
            one = ((signs >= 0).all(0) | (signs <= 0).all(0)).mean()
            text = (
                f"roundings share a sign: in {name} they add up to {math.sqrt(drift.mean()):.1f} "
                f"times what independent ones would, {share.mean():.0%} of one sign"
            )
            found.append(text + (", and so are the terms" if one > 0.5 else ""))
    share = absorbed.sum() / max(additions.sum(), 1)
    if share > ABSORBED:
        found.append(
            f"stagnation: in {name} {share:.0%} of the additions change nothing, because one "
            "operand is below half an ulp of the other"
        )
    return found


def local_errors(
    tree: ReductionTree, left: np.ndarray, right: np.ndarray, rounded: bool
) -> tuple[np.ndarray, ...]:
    """Sums over the local rounding errors of some outputs, each error exact.

    Args:
        tree: The order.
        left, right: fp32 [H, k]: the factors of the terms.
        rounded: Count the products' roundings.

    Returns:
        fp64 [k] each: Σε, Σε², errors above and below 0, additions that change nothing, additions
        of two nonzero operands.
    """
    plan, k = plan_of(tree), left.shape[1]
    part = np.empty((len(plan.slot), k), np.float32)
    sums = [np.zeros(k) for _ in range(6)]

    def count(errors: np.ndarray) -> None:
        sums[0] += errors.sum(0)
        sums[1] += (errors**2).sum(0)
        sums[2] += (errors > 0).sum(0)
        sums[3] += (errors < 0).sum(0)

    np.multiply(left, right, out=part[: tree.leaves])
    if rounded:
        count(part[: tree.leaves] - left.astype(np.float64) * right)
    execute(plan, part)
    arity = np.diff(tree.offsets)
    for width in np.unique(arity).tolist():
        nodes = np.flatnonzero(arity == width)
        columns = tree.offsets[nodes][:, None] + np.arange(width)
        result = part[plan.slot[tree.leaves + nodes]].astype(np.float64)
        values = part[plan.slot[tree.children[columns].T]].astype(np.float64)
        if width > 2:
            count(result - values.sum(0))
            continue
        a, b = values
        count(_rounding(a, b, result))
        both = (a != 0) & (b != 0)
        sums[4] += (both & ((result == a) | (result == b))).sum(0)
        sums[5] += both.sum(0)
    return tuple(sums)


def _rounding(a: np.ndarray, b: np.ndarray, result: np.ndarray) -> np.ndarray:
    """result - (a + b) exactly, for fp32 values in fp64: the larger operand goes first."""
    swap = np.abs(a) < np.abs(b)
    large, small = np.where(swap, b, a), np.where(swap, a, b)
    return (result - large) - small


def _whole(own: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> list[str]:
    """Warnings from the errors of our own evaluation, of all outputs."""
    squares = np.where(np.isfinite(own), own, 0.0) ** 2
    found = []
    tests = 1 + len(rows) + len(columns)
    for axis, names, what in ((1, rows, "hidden row"), (0, columns, "weight row")):
        mean = squares.mean(axis)
        bad = np.flatnonzero(3 * mean > limit(squares.shape[axis], tests))
        if len(bad):
            worst = bad[mean[bad].argmax()]
            found.append(
                f"errors add up: in {_many(len(bad), what)}, most in {what} {names[worst]}, those "
                f"of an evaluation in this order are {math.sqrt(3 * mean[worst]):.1f} times what "
                "independent roundings allow"
            )
            break
    return found


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
