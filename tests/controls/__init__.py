"""Kernels and callables that must fail a judgement: the proof that the judgement can."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import helpers
import torch

import workbench as wb
from workbench.build import config as configs
from workbench.ops import variant

SOURCE = Path(__file__).parent / "flawed_lm_head.asc"
KERNELS = (
    "sound",
    "flawed_by_blocks",
    "flawed_by_rows",
    "flawed_by_position",
    "flawed_by_padding",
    "flawed_by_twins",
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


@contextlib.contextmanager
def shipped_with(op: str, edits: list[tuple[str, str]], folder: Path) -> Iterator[None]:
    """Within it the shipped kernel `op` is built from a copy of its source with other text.

    Each text to replace must stand in the source once.
    """
    own = configs.spec(op)
    text = own.source.read_text("utf-8")
    for old, new in edits:
        assert text.count(old) == 1, f"{text.count(old)} times in {own.source.name}: {old}"
        text = text.replace(old, new)
    copy = folder / own.source.name
    copy.write_text(text, "utf-8")
    forget = (helpers.kernel.cache_clear, variant.forget)
    try:
        for clear in forget:
            clear()
        with mock.patch.dict(configs.specs(), {op: dataclasses.replace(own, source=copy)}):
            yield
    finally:
        for clear in forget:
            clear()
