"""The orders that the vendor's documents and the kernels' sources promise.

Source: Ascend C API reference (CANN 8.5), `ReduceSum`, `WholeReduceSum`. Nothing here was run on
hardware.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from workbench.errors import ConfigError, InputError
from workbench.orders.tree import ReductionTree
from workbench.orders.tree.builder import Builder
from workbench.orders.tree.nested import Nested

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
    build = Builder(len(terms))
    root = add_reduce_sum(build, np.arange(len(terms))[None], method, lanes, tail_apart)
    return build.tree(root).filled(terms)


def add_reduce_sum(
    build: Builder, terms: np.ndarray, method: int, lanes: int = 64, tail_apart: bool = False
) -> np.ndarray:
    """`ReduceSum` of each row of node ids `terms` [B, m]; the ids of the B results.

    See `reduce_sum_order` for the methods and the errors.
    """
    if method not in (1, 2, 3):
        raise InputError(f"ReduceSum has the methods 1, 2 and 3; got {method!r}")
    if lanes < 2:
        raise InputError(f"a repeat has at least 2 lanes; got {lanes}. fp32 has 64, fp16 128")
    count = terms.shape[1]
    if not count:
        raise InputError("ReduceSum over 0 elements does nothing and has no order; give n >= 1")
    whole = count - count % lanes
    if tail_apart and 0 < whole < count:
        body = add_reduce_sum(build, terms[:, :whole], method, lanes)
        tail = add_reduce_sum(build, terms[:, whole:], method, lanes)
        return build.add(np.stack([body, tail], axis=-1))
    if method == 1:
        return build.chain(_repeats(build, terms, lanes))
    if method == 2:
        return build.levels(terms, lambda level: _repeats(build, level, lanes))
    return build.pairs(_folded(build, terms, lanes))


def _repeats(build: Builder, terms: np.ndarray, lanes: int) -> np.ndarray:
    """The result of each repeat: adjacent pairs of its lanes; [B, repeats]."""
    rows, count = terms.shape
    whole = count - count % lanes
    full = build.pairs(terms[:, :whole].reshape(-1, lanes)) if whole else terms[:, :0]
    results = [full.reshape(rows, whole // lanes)]
    if whole < count:
        results.append(build.pairs(terms[:, whole:])[:, None])
    return np.concatenate(results, axis=1)


def _folded(build: Builder, terms: np.ndarray, lanes: int) -> np.ndarray:
    """Method 3's vector adds: one node a lane. A ragged last repeat folds its own lanes only."""
    repeats = [terms[:, at : at + lanes] for at in range(0, terms.shape[1], lanes)]
    if len(repeats) > 4:
        raise InputError(
            f"method 3 folds at most 4 repeats and this sum has {len(repeats)}; the documents "
            "give it to sums of 256 to 1024 bytes only. Use method 2 above that"
        )
    if len(repeats) == 4:  # (v0 + v1) + (v2 + v3)
        repeats = [_vector_add(build, *repeats[:2]), _vector_add(build, *repeats[2:])]
    total = repeats[0]
    for other in repeats[1:]:  # (v0 + v1) + v2
        total = _vector_add(build, total, other)
    return total


def _vector_add(build: Builder, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    both = min(left.shape[1], right.shape[1])
    made = build.add(np.stack([left[:, :both], right[:, :both]], axis=-1))
    return np.concatenate([made, left[:, both:]], axis=1)


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
    build, results = Builder(n), []
    whole = n - n % tile_length
    # All whole tiles are added alike, the ragged last one by its own size.
    for terms in (np.arange(whole).reshape(-1, tile_length), np.arange(whole, n)[None]):
        if terms.size:
            # Products are fp32 whatever the inputs are, so fp32 bytes choose the method.
            how = method
            if how is None:
                how = arch.reduce_sum_method_count(terms.shape[1] * _FP32_BYTES)
            results.append(add_reduce_sum(build, terms, how, tail_apart=apart))
    return build.tree(build.chain(np.concatenate(results)[None]) if results else None)


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
    build, whole = Builder(n), n - n % leaf_length
    leaves = [
        build.chain(terms)
        for terms in (np.arange(whole).reshape(-1, leaf_length), np.arange(whole, n)[None])
        if terms.size
    ]
    return build.tree(build.pairs(np.concatenate(leaves)[None]) if leaves else None)


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
        hint = (
            ". linear_logp runs lm_head over H and batch_invariant_logp over V: ask for each"
            if op == "linear_logp"
            else ""
        )
        raise ConfigError(
            f"no order is declared for {op!r}; declared ones: {', '.join(_DEPENDS)}{hint}"
        )
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
