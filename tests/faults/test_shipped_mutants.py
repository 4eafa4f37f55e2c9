"""Each flag, barrier and queue call of the shipped kernels is needed: without it the checks find a
fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

import workbench as wb
from workbench import paths

_CALLS = (
    r"\b\w+\.(?:template )?(?:EnQue|FreeTensor)(?:<[^;]*?>)?\([^;]*\);",
    r"\b(?:SetFlag|WaitFlag)<[^;]*>\([^;]*\);",
    r"\bPipeBarrier<\w+>\(\);",
    r"SetFlag<[^;]*>\([^;]*\);\s*WaitFlag<[^;]*>\([^;]*\);",  # both of them
    r" = [\w.]+\.(?:template )?(?:DeQue|AllocTensor)<\w+>\(\);",
)


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, what is left out, the source without it)"""
    for call in _CALLS:
        for m in re.finditer(call, source):
            line = source.count("\n", 0, m.start()) + 1
            hole = ";" + "\n" * m[0].count("\n")
            yield line, " ".join(m[0].split()), source[: m.start()] + hole + source[m.end() :]


def lm_head(kernel) -> None:
    random = torch.Generator().manual_seed(0)
    for name, dtype in (("lm_head_fp32", torch.float32), ("lm_head_bf16", torch.bfloat16)):
        rows, width, vocab = 2, 300, 5  # five tiles, the last one a part
        hidden = torch.randn(rows, width, generator=random).to(dtype)
        weight = torch.randn(vocab, width, generator=random).to(dtype)
        bias = torch.randn(vocab, generator=random).to(dtype)
        out = torch.empty(rows, vocab, dtype=dtype)
        args = (hidden, weight, bias, out, rows, width, vocab, 1)
        kernel.launch(name, 2, *args, check=True)


def probe(kernel) -> None:
    x, y = torch.ones(4096), torch.zeros(8)
    kernel.launch("probe_sum", 1, x, y, 256, check=True)
    kernel.launch("probe_tiles", 1, x, y, 256, 64, check=True)
    kernel.launch("probe_mul_add", 1, x, y, check=True)
    kernel.launch("probe_cast", 1, x, y, check=True)


@pytest.mark.parametrize(
    ("name", "run", "defines", "least"),
    [("lm_head_ascend", lm_head, {"TILE_LENGTH": 64}, 20), ("probe_ascend", probe, {}, 12)],
)
def test_nothing_can_be_left_out(
    tmp_path: Path, name: str, run: Callable, defines: dict, least: int
) -> None:
    source = (paths.ASCEND / f"{name}.asc").read_text()
    config = wb.KernelConfig(arch="dav-2201")
    missed, seen = [], 0
    for line, what, text in [(0, "nothing", source), *mutants(source)]:
        path = tmp_path / f"{name}_{seen}.asc"
        path.write_text(text)
        kernel = wb.build(path, config, backend="twin", defines=defines)
        if line == 0:  # the control
            run(kernel)
            continue
        seen += 1
        try:
            run(kernel)
            missed.append(f"line {line}: {what}")
        except wb.TwinFault:
            pass
    assert not missed
    assert seen >= least
