"""The log-probability of one token per row on the host: the bits of its kernel on the twin."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from workbench._callable import make_callable
from workbench.build import arch as architectures
from workbench.build.config import spec
from workbench.ops.inputs import IGNORE_INDEX, check_logp, check_targets, short_name
from workbench.ops.variant import plain
from workbench.orders import host
from workbench.orders.linear import checked_threads, config_of

_OP = "batch_invariant_logp"
_DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
_FP32_BYTES = 4  # the exponentials are fp32 whatever the logits are


class _Call(ctypes.Structure):
    """`order::Call` of csrc/orders/logp.cpp."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("logits", "target", "logp", "lse")),
        *((name, ctypes.c_int64) for name in ("rows", "vocab", "tile", "ignore")),
        *((name, ctypes.c_int32) for name in ("method", "last", "dtype", "threads")),
    ]


def logp(
    logits: torch.Tensor,
    target: torch.Tensor,
    config: Any = None,
    *,
    ignore_index: int = IGNORE_INDEX,
    validate: bool = True,
    threads: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """log softmax(logits)[target] and log sum exp(logits) of each row, on the CPU: the bits of
    batch_invariant_logp on the twin, where Exp and Ln are correctly rounded (what a device's own
    give is not known here).

    Args:
        logits: [..., V] fp32, bf16 or fp16 on the CPU, any strides. There is no autograd.
        target: [...] int64 or int32: 0 to V - 1, or `ignore_index`.
        config: A `KernelConfig` of batch_invariant_logp, a built kernel, or None (its defaults).
        ignore_index: Rows with this target give 0 and 0; their logits are not read.
        validate: Refuse other targets; False: their rows are NaN.
        threads: Of the host, which share the rows; None: as many as torch uses.

    Returns:
        (logp, lse), both fp32 [...], in nats.

    Raises:
        InputError: Shapes, dtypes, devices or targets that do not fit, or tensors without memory
            (sparse, fake, under torch.func).
        ConfigError: A configuration that the kernel does not take.
        BuildError, MissingError: No C++ compiler, or one that fails.

    Example:
        >>> import torch, workbench as wb
        >>> config = wb.KernelConfig(tile_length=64)
        >>> logp(torch.zeros(1, 1), torch.tensor([0]), config)
        (tensor([0.]), tensor([0.]))
    """
    check_logp(logits, target, ignore_index)
    host.check_strided(logits=logits, target=target)
    threads = checked_threads(threads)
    config = config_of(config, _OP)
    spec(_OP).check(config, short_name(logits.dtype))
    # On the CPU whatever torch's default device is.
    result, lse = (torch.empty(target.shape, dtype=torch.float32, device="cpu") for _ in range(2))
    rows, vocab = target.numel(), logits.shape[-1]
    if not rows:
        return result, lse
    if validate:
        check_targets(target, vocab, ignore_index)
    logits, target = plain(logits), plain(target.long())
    arch, tile = architectures.load(config.arch), config.tile_length
    call = _Call(
        logits=host.address("logits", logits),
        target=host.address("target", target),
        logp=host.address("logp", result),
        lse=host.address("lse", lse),
        rows=rows,
        vocab=vocab,
        tile=tile,
        ignore=ignore_index,
        method=arch.reduce_sum_method_count(tile * _FP32_BYTES),
        last=arch.reduce_sum_method_count((vocab % tile or tile) * _FP32_BYTES),
        dtype=_DTYPES[logits.dtype],
        threads=threads,
    )
    if host.library("logp.cpp").order_logp(ctypes.byref(call)):
        raise MemoryError(f"no memory for the threads of logits {tuple(logits.shape)}")
    return result, lse


make_callable(__name__, logp)
