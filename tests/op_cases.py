"""All four operators in one form, for tests of what torch does with any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

import workbench as wb
from workbench.ops import (
    AscendBatchInvariantLogpOp,
    AscendDetGemmOp,
    AscendLinearLogpOp,
    AscendLMHeadOp,
    NativeBatchInvariantLogpOp,
    NativeDetGemmOp,
    NativeLinearLogpOp,
    NativeLMHeadOp,
)

ARCH = "dav-3510"
H, V = 70, 33


@dataclass(frozen=True)
class Case:
    """An operator and how to call it.

    Attributes:
        arguments: Names of its tensors in order; the first has the rows. "target" is of integers,
            with an ignored row.
        make, native: The operator, the reference.
        methods: Its ways to be called, with the dtype of each result: None for the inputs'.
    """

    name: str
    arguments: tuple[str, ...]
    make: Callable[[], Any]
    native: Callable[[], Any]
    methods: tuple[tuple[str, torch.dtype | None], ...]

    def draw(self, dtype: torch.dtype = torch.float32, rows=(4,), seed: int = 0) -> list:
        g = torch.Generator().manual_seed(seed)
        shapes = {
            "hidden": (*rows, H),
            "weight": (V, H),
            "bias": (V,),
            "logits": (*rows, V),
            "a": (*rows, H),
            "b": (H, V),
        }
        found = []
        for name in self.arguments:
            if name == "target":
                target = torch.randint(V, rows, generator=g)
                if target.numel() > 1:
                    target.view(-1)[1] = -100
                found.append(target)
            else:
                found.append(torch.randn(shapes[name], generator=g).to(dtype))
        return found

    def leaves(self, tensors: list) -> list:
        """Copies to differentiate by; targets as they are."""
        floats = [t.is_floating_point() for t in tensors]
        return [
            t.detach().clone().requires_grad_() if f else t
            for t, f in zip(tensors, floats, strict=True)
        ]

    def with_rows(self) -> list[int]:
        """Places of the arguments that have a row per row of the result."""
        return [i for i, n in enumerate(self.arguments) if n in ("hidden", "logits", "a", "target")]


def _config(**constants: int) -> wb.KernelConfig:
    return wb.KernelConfig(max_blocks=7, arch=ARCH, **constants)


_MAKE = {
    "lm_head": lambda: AscendLMHeadOp(_config(tile_length=64)),
    "batch_invariant_logp": lambda: AscendBatchInvariantLogpOp(_config(tile_length=64)),
    "det_gemm": lambda: AscendDetGemmOp(_config(leaf_length=16)),
    # Several chunks, of rows and of columns.
    "linear_logp": lambda: AscendLinearLogpOp(_config(tile_length=64), chunk_bytes=1000),
}
_BOTH = (("forward", None), ("forward_fp32", torch.float32))
_FP32 = (("forward", torch.float32), ("forward_fp32", torch.float32))
CASES = {
    case.name: case
    for case in (
        Case("lm_head", ("hidden", "weight", "bias"), _MAKE["lm_head"], NativeLMHeadOp, _BOTH),
        Case(
            "batch_invariant_logp",
            ("logits", "target"),
            _MAKE["batch_invariant_logp"],
            NativeBatchInvariantLogpOp,
            _FP32,
        ),
        Case("det_gemm", ("a", "b"), _MAKE["det_gemm"], NativeDetGemmOp, _BOTH),
        Case(
            "linear_logp",
            ("hidden", "weight", "target", "bias"),
            _MAKE["linear_logp"],
            NativeLinearLogpOp,
            _FP32,
        ),
    )
}


def grads(leaves: list) -> list:
    return [t.grad for t in leaves if t.is_floating_point()]
