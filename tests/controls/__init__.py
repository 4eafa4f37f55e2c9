"""Kernels and callables that must fail a judgement: the proof that the judgement can."""

from __future__ import annotations

import functools
from pathlib import Path

import torch

import workbench as wb

SOURCE = Path(__file__).parent / "flawed_lm_head.asc"
KERNELS = (
    "sound",
    "flawed_by_blocks",
    "flawed_by_rows",
    "flawed_by_position",
    "flawed_by_neighbour",
    "flawed_by_out",
)


@functools.cache
def built(max_blocks: int, arch: str):
    config = wb.KernelConfig(max_blocks=max_blocks, arch=arch)
    return wb.build(SOURCE, config, backend="twin")


class Flawed:
    """One kernel of `flawed_lm_head.asc` as the callable that `wb.invariance` takes."""

    def __init__(self, name: str, max_blocks: int = 128, arch: str = "dav-2201") -> None:
        self.kernel = built(max_blocks, arch)
        self.name = self.__name__ = name
        self.info, self.config = self.kernel.info, self.kernel.config

    def rebuild(self, *, max_blocks: int) -> Flawed:
        return Flawed(self.name, max_blocks, self.config.arch)

    def __call__(self, hidden, weight, *, out=None):
        vocab, width = weight.shape
        shape = (*hidden.shape[:-1], vocab)
        out = torch.zeros(shape) if out is None else out
        rows = out.numel() // vocab
        blocks = min(out.numel(), self.config.max_blocks)
        self.kernel.launch(
            self.name, blocks, hidden.contiguous(), weight.contiguous(), out, rows, width, vocab
        )
        return out
