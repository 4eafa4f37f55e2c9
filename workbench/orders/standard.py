"""The orders that people name: left to right, in pairs, split-K, a CUDA block, `ReduceSum`.

Compensated summation (Kahan, Neumaier) is not among them and has no tree: what it adds next is the
rounding error of the last addition, so the order of its operations is fixed but a term does not
enter the sum as itself. Its result is no function of an association alone. A sum with atomics or
sorting has no tree either, since its order depends on time or on values.

Accumulators that start at +0 are no leaves: +0 + x is x, except that it turns -0 into +0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.errors import InputError
from workbench.orders.declared import add_reduce_sum
from workbench.orders.tree import ReductionTree
from workbench.orders.tree.builder import Builder

_UNROLL, _BLOCK = 8, 128  # of numpy's pairwise summation
_WARP = 32


def sequential_order(n: int) -> ReductionTree:
    """From left to right: ((x0 + x1) + x2) + x3 …

    Example:
        >>> sequential_order(4).to_json()
        '[[[0,1],2],3]'
    """
    return _built(n, lambda build, terms: build.chain(terms))


def reversed_order(n: int) -> ReductionTree:
    """From right to left: ((x3 + x2) + x1) + x0.

    Example:
        >>> reversed_order(4).to_json()
        '[[[3,2],1],0]'
    """
    return _built(n, lambda build, terms: build.chain(terms[:, ::-1]))


def pairwise_order(n: int, kind: str = "neighbours") -> ReductionTree:
    """Pairwise ("cascade") summation; three things carry this name.

    Args:
        n: Number of terms.
        kind: "neighbours": x0 + x1, x2 + x3, …, then the results likewise; an odd last one is
            passed on. "halves": the sum of the first n // 2 terms and the sum of the rest, each
            made in the same way (the textbook's recursion; the same tree where n is a power of
            two). "numpy": what `numpy.sum` does along contiguous memory: up to 7 terms from left
            to right, up to 128 by eight accumulators, more by halves cut at a multiple of 8.

    Raises:
        InputError: Unknown kind, n < 0.

    Example:
        >>> pairwise_order(5).to_json(), pairwise_order(5, "halves").to_json()
        ('[[[0,1],[2,3]],4]', '[[0,1],[2,[3,4]]]')
    """
    kinds = {"neighbours": _neighbours, "halves": _halves, "numpy": _numpy}
    if kind not in kinds:
        raise InputError(f"pairwise_order has the kinds {', '.join(kinds)}; got {kind!r}")
    return _built(n, kinds[kind])


def halving_order(n: int) -> ReductionTree:
    """x[i] + x[i + h] for all i < h, h half the width; then with h / 2, …, 1.

    The width is the smallest power of two that holds n; a term without a partner waits.

    Example:
        >>> halving_order(8).to_json()
        '[[[0,4],[2,6]],[[1,5],[3,7]]]'
    """
    return _built(n, lambda build, terms: build.halves(terms))


def split_k_order(
    n: int,
    parts: int = 8,
    inner: str = "sequential",
    combine: str = "sequential",
    interleaved: bool = False,
) -> ReductionTree:
    """`parts` partial sums, then their sum.

    Args:
        n: Number of terms.
        parts: Number of partial sums. A part has ceil(n / parts) terms, the last one the rest;
            parts without terms fall away.
        inner: The order in a part, "sequential" or "pairs" (of neighbours).
        combine: The order of the parts' results, likewise.
        interleaved: Part p takes the terms p, p + parts, … (as SIMD lanes do) instead of a
            contiguous piece.

    Raises:
        InputError: n < 0, parts < 1, an unknown order.

    Example:
        >>> split_k_order(6, 2).to_json()
        '[[[0,1],2],[[3,4],5]]'
        >>> split_k_order(6, 2, interleaved=True).to_json()
        '[[[0,2],4],[[1,3],5]]'
    """
    if parts < 1:
        raise InputError(f"got parts={parts}; a sum has at least one part")
    ways: dict[str, Callable] = {"sequential": Builder.chain, "pairs": Builder.pairs}
    for name, way in (("inner", inner), ("combine", combine)):
        if way not in ways:
            raise InputError(f"{name}={way!r}; wanted one of {', '.join(ways)}")

    def add(build: Builder, terms: np.ndarray) -> np.ndarray:
        if interleaved:
            results = _strided(build, n, parts, ways[inner])
        else:
            size = -(-n // parts)
            whole = n - n % size
            pieces = (terms[0, :whole].reshape(-1, size), terms[:, whole:])
            results = np.concatenate([ways[inner](build, p) for p in pieces if p.size])
        return ways[combine](build, results[None])

    return _built(n, add)


def warp_shuffle_order(n: int, threads: int = 256) -> ReductionTree:
    """A block reduction of CUDA: a strided loop, shuffles in each warp, shuffles of the warps.

    Thread t adds the terms t, t + threads, … in ascending order. In each warp of 32, lane i adds
    the value of lane i + 16, then of i + 8, 4, 2 and 1 (`__shfl_down_sync`). The warps' results go
    through shared memory into the first warp, which adds them in the same way. Threads without
    terms hold +0, which is no leaf.

    Args:
        n: Number of terms.
        threads: Threads of the block, a multiple of 32 up to 1024.

    Raises:
        InputError: n < 0, or a number of threads that no block has.

    Example:
        >>> warp_shuffle_order(4).to_json()  # four threads of one warp have a term
        '[[0,2],[1,3]]'
        >>> warp_shuffle_order(151936).height  # 593 additions in a thread, 5 and 3 levels
        601
    """
    if threads < 1 or threads % _WARP or threads > _WARP * _WARP:
        raise InputError(f"got threads={threads}; a block has 32, 64, … or 1024 of them")

    def add(build: Builder, terms: np.ndarray) -> np.ndarray:
        lanes = _strided(build, n, threads, Builder.chain)
        whole = len(lanes) - len(lanes) % _WARP
        groups = [lanes[:whole].reshape(-1, _WARP), lanes[None, whole:]]
        warps = np.concatenate([build.halves(g, _WARP) for g in groups if g.size])
        return build.halves(warps[None], _WARP)

    return _built(n, add)


def reduce_sum(
    n: int,
    method: int | None = None,
    lanes: int = 64,
    *,
    arch: str | None = None,
    interface: str = "count",
) -> ReductionTree:
    """One Ascend C `ReduceSum` over n terms; see `workbench.orders.declared.reduce_sum_order`.

    Args:
        n: Number of terms, at least 1.
        method: 1, 2 or 3; None takes the one the documents give for `arch` and `interface`.
        lanes: Elements in a repeat: 64 for fp32, 128 for fp16.
        arch: For example "dav-2201".
        interface: "count", the form with a number of elements, or "high_dim", the one with mask,
            repeat times and strides (here: all repeats whole and contiguous, but the last).

    Raises:
        InputError: n < 1, an unknown method or interface, neither or both of `method` and `arch`.
        ConfigError: Unknown architecture.

    Example:
        >>> reduce_sum(256, 1).height, reduce_sum(256, 2).height, reduce_sum(256, 3).height
        (9, 8, 8)
        >>> reduce_sum(256, arch="dav-3510") == reduce_sum(256, 3)
        True
    """
    if interface not in ("count", "high_dim"):
        raise InputError(f"interface={interface!r}; wanted 'count' or 'high_dim'")
    if (method is None) == (arch is None):
        raise InputError(
            f"got method={method!r} and arch={arch!r}; give one: the method itself, or the "
            "architecture whose documents name it"
        )
    apart = False
    if method is None:
        from workbench.build import arch as architectures

        found = architectures.load(str(arch))
        apart = found.tail_apart and interface == "count"
        bytes_each = 256 // lanes
        method = (
            found.reduce_sum_method_count(n * bytes_each)
            if interface == "count"
            else found.high_dim_method
        )
    build = Builder(_counted(n))
    return build.tree(add_reduce_sum(build, np.arange(n)[None], method, lanes, apart))


# name: (function, what it is); the names of the command line and of `named`.
_STANDARD: dict[str, tuple[Callable[..., ReductionTree], str]] = {
    "sequential": (sequential_order, "from left to right"),
    "reversed": (reversed_order, "from right to left"),
    "pairwise": (pairwise_order, "neighbours in pairs (kind= halves, numpy)"),
    "halving": (halving_order, "i and i + n/2, then n/4, …"),
    "split-k": (split_k_order, "contiguous parts, then their sums (parts= 8)"),
    "warp-shuffle": (warp_shuffle_order, "a CUDA block (threads= 256)"),
    "reduce-sum": (reduce_sum, "Ascend C ReduceSum (method= 1, 2, 3, or arch=)"),
}
NAMES = tuple(_STANDARD)


def named(name: str, n: int, **options: Any) -> ReductionTree:
    """A standard order by its name; `NAMES` lists them.

    Args:
        name: "sequential", "reversed", "pairwise", "halving", "split-k", "warp-shuffle" or
            "reduce-sum".
        n: Number of terms.
        **options: What the order takes besides, such as `parts=4` or `threads=128`.

    Raises:
        InputError: Unknown name or option.

    Example:
        >>> named("split-k", 8, parts=2) == split_k_order(8, 2)
        True
    """
    if name not in _STANDARD:
        raise InputError(f"no order is called {name!r}; the standard ones: {', '.join(NAMES)}")
    make, what = _STANDARD[name]
    try:
        return make(n, **options)
    except TypeError as error:
        raise InputError(f"{name} ({what}) does not take these options: {error}") from None


# -------------------------------------------------------------------- parts


def _counted(n: int) -> int:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0:
        raise InputError(f"got n={n!r}; an order needs a number of terms, 0 or more")
    return int(n)


def _built(n: int, add: Callable[[Builder, np.ndarray], np.ndarray]) -> ReductionTree:
    build = Builder(_counted(n))
    return build.tree(add(build, np.arange(n)[None]) if n else None)


def _strided(build: Builder, n: int, lanes: int, way: Callable) -> np.ndarray:
    """Lane t adds the terms t, t + lanes, …: the ids of the lanes that have any."""
    short, extra = divmod(n, lanes)  # `extra` lanes have a term more
    lane = np.arange(lanes)
    longer = lane[:extra, None] + lanes * np.arange(short + 1)
    shorter = lane[extra:, None] + lanes * np.arange(short)
    return np.concatenate([way(build, terms) for terms in (longer, shorter) if terms.size])


def _neighbours(build: Builder, terms: np.ndarray) -> np.ndarray:
    return build.pairs(terms)


def _halves(build: Builder, terms: np.ndarray) -> np.ndarray:
    """All pieces of one size are cut together; sizes at one depth differ by one at most."""
    return _cut(build, terms, 1, lambda size: size // 2, lambda piece: piece[:, 0])


def _numpy(build: Builder, terms: np.ndarray) -> np.ndarray:
    def cut(size: int) -> int:
        return size // 2 - size // 2 % _UNROLL

    def block(piece: np.ndarray) -> np.ndarray:
        rows, size = piece.shape
        if size < _UNROLL:
            return build.chain(piece)
        whole = size - size % _UNROLL
        lanes = piece[:, :whole].reshape(rows, -1, _UNROLL).transpose(0, 2, 1)
        sums = build.chain(lanes.reshape(rows * _UNROLL, -1)).reshape(rows, _UNROLL)
        eight = build.pairs(sums)[:, None]
        return build.chain(np.concatenate([eight, piece[:, whole:]], axis=1))

    return _cut(build, terms, _BLOCK, cut, block)


def _cut(
    build: Builder,
    terms: np.ndarray,
    largest: int,
    cut: Callable[[int], int],
    block: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Cut pieces in two until none is longer than `largest`; add blocks, then upwards again."""
    sizes = {terms.shape[1]}
    while more := {part for s in sizes if s > largest for part in (cut(s), s - cut(s))} - sizes:
        sizes |= more
    starts = {size: [] for size in sizes}  # type: dict[int, list[np.ndarray]]
    starts[terms.shape[1]].append(np.zeros(1, np.int64))
    for size in sorted(sizes, reverse=True):
        if size > largest:
            at = np.concatenate(starts[size])
            starts[cut(size)].append(at)
            starts[size - cut(size)].append(at + cut(size))
    result = np.full(terms.shape[1], -1, np.int64)  # of the piece just done that starts there
    for size in sorted(sizes):
        at = np.concatenate(starts[size])
        if size <= largest:
            result[at] = block(terms[0, at[:, None] + np.arange(size)])
        else:
            pair = np.stack([result[at], result[at + cut(size)]], axis=-1)
            result[at] = build.add(pair)
    return result[:1]
