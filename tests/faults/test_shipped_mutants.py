"""Each flag, barrier and queue call of the shipped kernels is needed: without it the checks find a
fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import gemm_kit
import logp_kit as kit
import pytest
import torch

import workbench as wb
from workbench import paths

_CALLS = (
    r"\b[\w.]+\.(?:template )?(?:EnQue|FreeTensor)(?:<[^;]*?>)?\([^;]*\);",
    r"\b(?:SetFlag|WaitFlag)<[^;]*>\([^;]*\);",
    r"\bPipeBarrier<\w+>\(\);",
    r"SetFlag<[^;]*>\([^;]*\);\s*WaitFlag<[^;]*>\([^;]*\);",  # both of them
    r" = [\w.]+\.(?:template )?(?:DeQue|AllocTensor)<\w+>\(\);",
)


SMALL = {"LEAF_LENGTH": 32, "TILE_LENGTH": 64, "ROWS": 2}
STATIONARY = {"TILE_LENGTH": 64, "SCHEDULE": 1, "WEIGHT_ROWS": 2, "HIDDEN_ROWS": 2}


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """(line, what is left out, the source without it)"""
    for call in _CALLS:
        for m in re.finditer(call, source):
            line = source.count("\n", 0, m.start()) + 1
            hole = ";" + "\n" * m[0].count("\n")
            yield line, " ".join(m[0].split()), source[: m.start()] + hole + source[m.end() :]


def without_class(source: str, name: str) -> str:
    """The source without a class that this build does not use; the lines stay where they are."""
    (found,) = re.finditer(
        rf"^template <typename In>\nclass {name} \{{\n.*?^\}};\n", source, re.M | re.S
    )
    return source[: found.start()] + "\n" * found[0].count("\n") + source[found.end() :]


def lm_head(kernel) -> None:
    random = torch.Generator().manual_seed(0)
    for name, dtype in (("lm_head_fp32", torch.float32), ("lm_head_bf16", torch.bfloat16)):
        # Five tiles, the last one a part; several turns per block, the last ones parts, too.
        rows, width, vocab = 5, 300, 5
        hidden = torch.randn(rows, width, generator=random).to(dtype)
        weight = torch.randn(vocab, width, generator=random).to(dtype)
        bias = torch.randn(vocab, generator=random).to(dtype)
        out = torch.empty(rows, vocab, dtype=dtype)
        args = (hidden, weight, bias, out, rows, width, vocab, 1)
        kernel.launch(name, 2, *args, check=True)


def logp(kernel) -> None:
    """Three rows per block, of every kind and five tiles, the last one a part."""
    for dtype in ("fp32", "bf16"):
        batch = kit.draw(6, 300, dtype)
        batch.target[2], batch.target[3] = -100, 300
        kit.Launched(kernel)(batch, blocks=2, check=True)


def det_gemm(kernel) -> None:
    """Nine leaves of three pieces; several turns per block, the last ones parts."""
    random = torch.Generator().manual_seed(0)
    for name, dtype in (("det_gemm_fp32", torch.float32), ("det_gemm_bf16", torch.bfloat16)):
        m, k, n = 5, 270, 70
        a = torch.randn(m, k, generator=random).to(dtype)
        b = torch.randn(k, n, generator=random).to(dtype)
        out = torch.empty(m, n, dtype=dtype)
        kernel.launch(name, 2, a, b, out, m, k, n, check=True)


def probe(kernel) -> None:
    x, y = torch.ones(4096), torch.zeros(8)
    kernel.launch("probe_sum", 1, x, y, 256, check=True)
    kernel.launch("probe_tiles", 1, x, y, 256, 64, check=True)
    kernel.launch("probe_mul_add", 1, x, y, check=True)
    kernel.launch("probe_cast", 1, x, y, check=True)


@pytest.mark.parametrize(
    ("name", "run", "defines", "least", "unused"),
    [
        ("lm_head_ascend", lm_head, {"TILE_LENGTH": 64}, 20, "WeightStationary"),
        ("lm_head_ascend", lm_head, STATIONARY, 20, "Output"),
        ("batch_invariant_logp_ascend", logp, {"TILE_LENGTH": 64}, 45, None),
        ("det_gemm_ascend", det_gemm, SMALL, 24, None),
        ("probe_ascend", probe, {}, 12, None),
    ],
    ids=[
        "lm_head, output",
        "lm_head, weight_stationary",
        "batch_invariant_logp",
        "det_gemm",
        "probe",
    ],
)
def test_nothing_can_be_left_out(
    tmp_path: Path, name: str, run: Callable, defines: dict, least: int, unused: str | None
) -> None:
    source = (paths.ASCEND / f"{name}.asc").read_text()
    if unused:
        source = without_class(source, unused)
    if run is det_gemm:
        source = gemm_kit.only(source, "det_gemm_fp32", "det_gemm_bf16")
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
