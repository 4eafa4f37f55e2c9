"""The orders that the vendor's documents and the kernels' sources promise.

Source: Ascend C API reference (CANN 8.5), `ReduceSum`, `WholeReduceSum`. Nothing here was run on
hardware.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.errors import ConfigError, InputError
from workbench.orders.tree import (
    Nested,
    ReductionTree,
    adjacent_pairs,
    by_levels,
    joined,
    paired,
    sequential,
)

_FP32_BYTES = 4


def reduce_sum_order(
    method: int,
    items: int | Iterable[Nested],
    lanes: int = 64,
    tail_apart: bool = False,
) -> Nested:
    """The order of one Ascend C `ReduceSum`, as nested lists for `ReductionTree.from_nested`.

    Inside one repeat (256 bytes) every method adds adjacent pairs. Between repeats:

    * method 1: the repeats' results are accumulated in ascending order. The accumulator starts at
      +0, which is no term of the sum and so no leaf;
    * method 2: passes of the same trees over the results, 64 lanes at a time, until one remains;
    * method 3: up to four repeats are folded lane by lane (v0 + v1; (v0 + v1) + v2;
      (v0 + v1) + (v2 + v3)), then one tree.

    Masked lanes of a ragged last repeat add nothing to the order.

    Args:
        method: 1, 2 or 3.
        items: A number of terms n, or the terms themselves (numbers, nested lists, trees).
        lanes: Elements in a repeat: 64 for fp32, 128 for fp16.
        tail_apart: Sum the whole repeats first, the ragged tail on its own, then body + tail
            (the `count` form on dav-1001 and dav-2002).

    Raises:
        InputError: Unknown method, no terms, `lanes` < 2, or more than four repeats in method 3.

    Example:
        >>> reduce_sum_order(2, 5, lanes=2)
        [[[0, 1], [2, 3]], 4]
        >>> reduce_sum_order(3, 5, lanes=2)
        [[[0, 2], 4], [1, 3]]
    """
    terms: list[Nested] = list(range(items)) if isinstance(items, int) else list(items)
    if method not in (1, 2, 3):
        raise InputError(f"ReduceSum has the methods 1, 2 and 3; got {method!r}")
    if lanes < 2:
        raise InputError(f"a repeat has at least 2 lanes; got {lanes}. fp32 has 64, fp16 128")
    if not terms:
        raise InputError("ReduceSum over 0 elements does nothing and has no order; give n >= 1")
    whole = len(terms) - len(terms) % lanes
    if tail_apart and 0 < whole < len(terms):
        body = reduce_sum_order(method, terms[:whole], lanes)
        return paired(body, reduce_sum_order(method, terms[whole:], lanes))
    if method == 1:
        return sequential(adjacent_pairs(r) for r in _repeats(terms, lanes))
    if method == 2:
        return by_levels(terms, lambda level: [adjacent_pairs(r) for r in _repeats(level, lanes)])
    return adjacent_pairs(_folded(_repeats(terms, lanes)))


def _repeats(items: list[Nested], lanes: int) -> list[list[Nested]]:
    return [items[i : i + lanes] for i in range(0, len(items), lanes)]


def _folded(repeats: list[list[Nested]]) -> list[Nested]:
    """Method 3's vector adds: one node a lane. A ragged last repeat folds its own lanes only."""
    if len(repeats) > 4:
        raise InputError(
            f"method 3 folds at most 4 repeats and this sum has {len(repeats)}; the documents "
            "give it to sums of 256 to 1024 bytes only. Use method 2 above that"
        )
    groups = [repeats] if len(repeats) < 4 else [repeats[:2], repeats[2:]]
    lanes = range(len(repeats[0]))
    halves = [[[r[i] for r in group if i < len(r)] for i in lanes] for group in groups]
    return [
        joined([sequential(half[i]) for half in halves if half[i]])  # (v0+v1)+v2, (v0+v1)+(v2+v3)
        for i in lanes
    ]


def lm_head_order(n: int, tile_length: int, arch: Any, method: int | None = None) -> ReductionTree:
    """The order of one logit: `ReduceSum` of each tile, tiles added in ascending order.

    Args:
        n: Hidden size H; 0 gives the empty sum.
        tile_length: Elements in a tile.
        arch: A `workbench.build.arch.Arch`: `reduce_sum_method_count(nbytes)` and `tail_apart`
            are used. May be None when `method` is given.
        method: Use this method for every tile instead of the architecture's.
    """
    if n < 0 or tile_length < 1:
        raise InputError(
            f"got n={n} and tile_length={tile_length}; an order needs n >= 0 and a tile >= 1"
        )
    apart = bool(getattr(arch, "tail_apart", False))
    tiles = []
    for start in range(0, n, tile_length):
        size = min(tile_length, n - start)
        # Products are fp32 whatever the inputs are, so it is fp32 bytes that choose the method.
        how = method if method is not None else arch.reduce_sum_method_count(size * _FP32_BYTES)
        tiles.append(reduce_sum_order(how, range(start, start + size), tail_apart=apart))
    return ReductionTree.from_nested(sequential(tiles) if tiles else [])


def gemm_order(n: int, leaf_length: int) -> ReductionTree:
    """The order of one element of det_gemm: the products of a leaf in ascending order, then the
    leaves as neighbours. (The kernel counts leaves in binary: to the left of a node is the largest
    power of two of leaves, which is what adding neighbours gives.)

    Args:
        n: Depth K; 0 gives the empty sum.
        leaf_length: Products in a leaf.

    Example:
        >>> gemm_order(5, 2).to_json()
        '[[[0,1],[2,3]],4]'
    """
    if n < 0 or leaf_length < 1:
        raise InputError(
            f"got n={n} and leaf_length={leaf_length}; an order needs n >= 0 and a leaf >= 1"
        )
    leaves = [sequential(range(i, min(i + leaf_length, n))) for i in range(0, n, leaf_length)]
    return ReductionTree.from_nested(adjacent_pairs(leaves) if leaves else [])


# What the order of an operator depends on, besides n.
_DEPENDS = {
    "lm_head": ("arch", "tile_length"),
    "batch_invariant_logp": ("arch", "tile_length"),
    "det_gemm": ("leaf_length",),
}


def declared_order(op: str, cfg: Any, n: int, method: int | None = None) -> ReductionTree:
    """The order of summation that the source of `op` promises for a configuration.

    Args:
        op: "lm_head", "batch_invariant_logp" or "det_gemm".
        cfg: A `KernelConfig` (the kernel's defaults fill it up), or anything with `arch`
            (e.g. "dav-2201") and `tile_length`; for det_gemm with `leaf_length` alone.
        n: Number of terms: the hidden size H of lm_head, V of batch_invariant_logp, K of det_gemm.
        method: Override the architecture's `ReduceSum` method (1, 2 or 3) for every tile; det_gemm
            has none.

    Returns:
        The tree over the products `hidden[k] * weight[k]`, over `exp(logits[v] - max)`, or over
        the products `a[i, k] * b[k, j]`, in ascending order of k or v. The bias, added once at the
        end, and the accumulators' +0 starts are not leaves.

    Raises:
        ConfigError: Unknown operator or architecture, or a configuration without tile or leaf
            length.
        InputError: n < 0, a length < 1, or a method that does not fit.

    Example:
        >>> import workbench as wb
        >>> cfg = wb.KernelConfig(tile_length=4096, max_blocks=128, arch="dav-2201")
        >>> wb.declared_order("lm_head", cfg, n=4096).height
        69
        >>> wb.declared_order("det_gemm", wb.KernelConfig(), n=4096).height  # 32 leaves of 128
        132
    """
    if op not in _DEPENDS:
        raise ConfigError(f"no order is declared for {op!r}; declared ones: {', '.join(_DEPENDS)}")
    *_, length = _DEPENDS[op]
    if hasattr(cfg, "constants") and getattr(cfg, length, None) is None:
        from workbench.build.config import spec

        cfg = spec(op).complete(cfg)  # a KernelConfig that leaves it to the kernel's default
    for name in _DEPENDS[op]:
        if getattr(cfg, name, None) is None:
            raise ConfigError(
                f"the configuration {cfg!r} has no {name}; the order of {op} depends on it. "
                f"Pass a KernelConfig with {' and '.join(f'{d}=…' for d in _DEPENDS[op])}"
            )
    if op == "det_gemm":
        if method is not None:
            raise InputError(f"method={method!r}: det_gemm adds without ReduceSum; leave it out")
        return gemm_order(int(n), int(cfg.leaf_length))
    arch = None
    if method is None:
        from workbench.build import arch as architectures

        arch = architectures.load(cfg.arch)
    # The exponentials are tiled as the products of a logit are.
    return lm_head_order(int(n), int(cfg.tile_length), arch, method)
