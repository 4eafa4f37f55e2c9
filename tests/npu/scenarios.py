"""What is run on a device, written so that it also runs on the CPU: the operators on fixed inputs,
and a launch on a side stream between work that torch has queued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import workbench as wb
from workbench import ops

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def draw(seed: int, *shape: int, dtype: torch.dtype, device: str) -> torch.Tensor:
    """Normal numbers, drawn on the CPU so that every device gets the same ones."""
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
    return made.to(device).requires_grad_()


def lm_head(device: str, dtype: torch.dtype, config: wb.KernelConfig | None) -> list[torch.Tensor]:
    op = ops.AscendLMHeadOp(config)
    hidden, weight = (draw(s, n, 4100, dtype=dtype, device=device) for s, n in ((1, 5), (2, 33)))
    bias = draw(3, 33, dtype=dtype, device=device)
    out = op(hidden, weight, bias)
    grads = torch.autograd.grad(out, (hidden, weight, bias), torch.ones_like(out))
    return [out, op.forward_fp32(hidden, weight, bias), *grads]


def det_gemm(device: str, dtype: torch.dtype, config: wb.KernelConfig | None) -> list[torch.Tensor]:
    op = ops.AscendDetGemmOp(config)
    a, b = draw(4, 9, 700, dtype=dtype, device=device), draw(5, 700, 70, dtype=dtype, device=device)
    out = op(a, b)
    return [out, op.forward_fp32(a, b), *torch.autograd.grad(out, (a, b), torch.ones_like(out))]


def batch_invariant_logp(
    device: str, dtype: torch.dtype, config: wb.KernelConfig | None
) -> list[torch.Tensor]:
    op = ops.AscendBatchInvariantLogpOp(config)
    logits = draw(6, 6, 5000, dtype=dtype, device=device)
    target = torch.tensor([0, 4999, 17, -100, 2500, 1], device=device)
    logp, lse = op(logits, target, return_lse=True)
    (grad,) = torch.autograd.grad(logp, logits, torch.ones_like(logp))
    return [logp, lse, grad]


# {operator: it on fixed inputs, forward and backward}
OPERATORS: dict[str, Callable[..., list[torch.Tensor]]] = {
    "lm_head": lm_head,
    "det_gemm": det_gemm,
    "batch_invariant_logp": batch_invariant_logp,
}


def bits(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Raw bits, as integers on the CPU."""
    sizes = {2: torch.int16, 4: torch.int32}
    return [t.detach().cpu().contiguous().view(sizes[t.element_size()]) for t in tensors]


def mismatches(candidate: list[torch.Tensor], wanted: list[torch.Tensor]) -> list[int]:
    """How many elements of each result differ in a bit."""
    pairs = zip(bits(candidate), bits(wanted), strict=True)
    return [int((a != b).sum()) for a, b in pairs]


def side_stream(device: str, streams: Any, op: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """(what a consumer saw, what it should have seen) of an LM head launched on a stream that is
    not the default one, between work that torch has queued before it and after it.

    Every number in it is a small integer, so that all sums are exact in any order: only a launch
    that came too early, too late or on another stream makes a difference.

    Args:
        streams: `torch.npu`, or `torch.cpu`, where streams have no effect.
    """
    rows, width, vocab, steps = 64, 1024, 128, 300
    weight = (torch.arange(vocab * width, device=device) % 3).float().reshape(vocab, width)
    streams.synchronize()
    stream = streams.Stream()
    with streams.stream(stream):
        hidden = torch.zeros(rows, width, device=device)
        for _ in range(steps):  # the operator's input is ready when all of them have run
            hidden = hidden + 1
        logits = op(hidden, weight)
        seen = logits * 2  # a consumer, queued at once
        hidden.zero_()  # and the input is gone: a kernel that runs late reads this
        logits.zero_()
    streams.synchronize()
    wanted = (weight.sum(1) * steps * 2).expand(rows, vocab)
    return seen.cpu(), wanted.cpu()
