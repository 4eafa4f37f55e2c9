"""The LM head on the host: the bits of the kernel on the twin, at the speed of a BLAS."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch

from workbench._callable import make_callable
from workbench.build import arch as architectures
from workbench.build.config import KernelConfig, spec
from workbench.errors import ConfigError, InputError, WorkbenchError
from workbench.ops.inputs import check_lm_head, short_name
from workbench.ops.variant import plain
from workbench.orders import host
from workbench.orders.tree import ReductionTree

_DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
_FP32_BYTES = 4
_TREE_BYTES = 8 << 20  # of a 16-bit weight in fp32 that exist at a time with a tree


class _Call(ctypes.Structure):
    """`order::Call` of csrc/orders/linear_work.h."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("hidden", "weight", "bias", "out")),
        *((name, ctypes.c_int64) for name in ("rows", "width", "vocab", "tile")),
        *((name, ctypes.c_int32) for name in ("method", "last", "dtype", "outputs")),
        *((name, ctypes.c_int32) for name in ("saturate", "threads")),
    ]


def linear(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    config_or_tree: Any = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    *,
    threads: int | None = None,
) -> torch.Tensor:
    """Logits `hidden @ weight.T (+ bias)` in one order of summation, on the CPU.

    With a configuration of the LM head these are the bits of its kernel on the twin: every product
    rounded to fp32, each tile added as `ReduceSum` of the architecture adds it, the tiles in
    ascending order, bias added once, one rounding to the output dtype, NaN canonical. The same for
    any number of rows, position, or number of threads.

    Args:
        hidden: [..., H] fp32, bf16 or fp16 on the CPU, any strides. There is no autograd.
        weight: [V, H] of the same dtype; 16-bit weights are read as they are.
        config_or_tree: A `KernelConfig`, a built LM head (its configuration is taken), None (the
            kernel's defaults), or a `ReductionTree` over H products for an order of any other kind:
            its sum starts at +0, and it runs as compiled by `synthesise`.
        bias: [V] of the same dtype, or None.
        out_dtype: None (hidden's dtype) or torch.float32.
        threads: Of the host; None: as many as torch uses.

    Returns:
        [..., V] of `out_dtype`.

    Raises:
        InputError: Shapes, dtypes or devices that do not fit, tensors without memory (sparse, fake,
            under torch.func), a tree over another H, or one with a node of more than two children.
        WorkbenchError: With a tree: this thread flushes subnormals to zero, or does not round to
            nearest.
        ConfigError: A configuration that the kernel does not take.
        BuildError, MissingError: No C++ compiler, or one that fails.

    Example:
        >>> import torch, workbench as wb
        >>> hidden, weight = torch.ones(2, 8), torch.ones(3, 8)
        >>> linear(hidden, weight, wb.KernelConfig(tile_length=64)).tolist()
        [[8.0, 8.0, 8.0], [8.0, 8.0, 8.0]]
    """
    wanted = check_lm_head(hidden, weight, bias, out_dtype)
    host.check_strided(hidden=hidden, weight=weight, bias=bias)
    threads = checked_threads(threads)
    if isinstance(config_or_tree, ReductionTree):
        return _by_tree(hidden, weight, config_or_tree, bias, wanted, threads)
    config = config_of(config_or_tree, "lm_head")
    spec("lm_head").check(config, short_name(hidden.dtype))
    hidden, weight = plain(hidden), plain(weight)
    bias = None if bias is None else plain(bias)
    # On the CPU whatever torch's default device is.
    out = torch.empty((*hidden.shape[:-1], weight.shape[0]), dtype=wanted, device="cpu")
    if not out.numel():
        return out
    width, vocab = hidden.shape[-1], weight.shape[0]
    arch, tile = architectures.load(config.arch), config.tile_length
    rest = width % tile
    call = _Call(
        hidden=host.address("hidden", hidden),
        weight=host.address("weight", weight),
        bias=host.address("bias", bias),
        out=host.address("out", out),
        rows=out.numel() // vocab,
        width=width,
        vocab=vocab,
        tile=tile,
        method=arch.reduce_sum_method_count(tile * _FP32_BYTES),
        last=arch.reduce_sum_method_count((rest or tile) * _FP32_BYTES),
        dtype=_DTYPES[hidden.dtype],
        outputs=_DTYPES[wanted],
        saturate=overflow_of(config) == "saturate",
        threads=threads,
    )
    if host.library("linear.cpp").order_linear(ctypes.byref(call)):
        raise MemoryError(f"no memory for the sums of hidden {tuple(hidden.shape)}")
    return out


def config_of(given: Any, op: str) -> KernelConfig:
    """The complete configuration of `op` that `given` stands for: a KernelConfig, something built
    with one, or None.

    Raises:
        ConfigError: It has constants that `op` does not have, is built for another operator, or is
            something else.
    """
    made_for = getattr(getattr(given, "spec", None), "op", op)
    if made_for != op:  # some have no constants beyond those of another
        raise ConfigError(f"{given!r:.80} is a {made_for}; want a {op}, its KernelConfig, or None")
    config = getattr(given, "config", given)
    return spec(op).complete(config)


def overflow_of(config: KernelConfig) -> str:
    """What 16-bit results do that overflow: "inf_nan" or "saturate"."""
    return dict(config.switches).get("overflow", architectures.load(config.arch).overflow)


def checked_threads(threads: int | None) -> int:
    """How many threads to use.

    Raises:
        InputError: Not a positive integer.
    """
    if threads is None:
        return torch.get_num_threads()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise InputError(
            f"threads={threads!r}; want a positive integer, or None for as many as torch uses "
            f"({torch.get_num_threads()}). This machine has {os.cpu_count()} cores"
        )
    return min(threads, 4 * (os.cpu_count() or 1))


def _by_tree(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    tree: ReductionTree,
    bias: torch.Tensor | None,
    wanted: torch.dtype,
    threads: int,
) -> torch.Tensor:
    from concurrent.futures import ThreadPoolExecutor

    from workbench.orders.synthesise.host import host_kernel

    width, vocab = hidden.shape[-1], weight.shape[0]
    if tree.leaves != width:
        raise InputError(
            f"this tree adds {tree.leaves} products and hidden {tuple(hidden.shape)} has H = "
            f"{width}; take the order for n={width}"
        )
    out = torch.empty((*hidden.shape[:-1], vocab), dtype=wanted, device="cpu")
    if not out.numel():
        return out
    if not width:
        raise InputError(f"hidden {tuple(hidden.shape)} has no products to add in this order")
    flat, rows = out.view(-1, vocab), plain(hidden).reshape(-1, width).float()
    # What comes after the sums is torch's own, in this thread's environment.
    tiny, one = (torch.full((1,), x, device="cpu") for x in (2.0**-149, 1.0))
    if not (tiny + tiny).any():
        raise WorkbenchError(
            "this thread flushes subnormal numbers to zero, and an order with its bias keeps them. "
            "Call torch.set_flush_denormal(False) first"
        )
    if bool((one + tiny != 1).any() or (one - tiny != 1).any()):
        raise WorkbenchError(
            "this thread does not round to nearest, and an order with its bias does. "
            "Set the rounding mode back (FE_TONEAREST) first"
        )
    kernel = host_kernel(tree, zero_start=True)
    step = max(1, min(_TREE_BYTES // (_FP32_BYTES * width), -(-vocab // threads)))

    def part(low: int) -> None:
        columns = slice(low, low + step)
        sums = kernel(rows, plain(weight[columns]).float())
        if bias is not None:
            sums = sums + plain(bias[columns]).float()
        # NaN canonical after the rounding: torch's own to bf16 makes another one.
        flat[:, columns] = sums.to(wanted).masked_fill_(sums.isnan(), torch.nan)

    with ThreadPoolExecutor(max_workers=threads) as pool:
        list(pool.map(part, range(0, vocab, step)))
    return out


make_callable(__name__, linear)
