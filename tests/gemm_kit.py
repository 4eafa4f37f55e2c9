"""What the tests of the matrix product share: kernels by configuration, and the model's answer."""

from __future__ import annotations

import functools
import re

import numpy as np
import torch
from helpers import DTYPES, bits
from models import gemm_numpy

import workbench as wb
from workbench import paths

SOURCE = paths.ASCEND / "det_gemm_ascend.asc"
# (dtype of a, of b, of the result, kernel)
ENTRIES = [
    ("fp32", "fp32", "fp32", "det_gemm_fp32"),
    ("bf16", "bf16", "bf16", "det_gemm_bf16"),
    ("fp16", "fp16", "fp16", "det_gemm_fp16"),
    ("bf16", "bf16", "fp32", "det_gemm_bf16_fp32"),
    ("fp16", "fp16", "fp32", "det_gemm_fp16_fp32"),
    ("fp32", "bf16", "bf16", "det_gemm_wide_bf16"),
    ("fp32", "bf16", "fp32", "det_gemm_wide_bf16_fp32"),
    ("fp32", "fp16", "fp16", "det_gemm_wide_fp16"),
    ("fp32", "fp16", "fp32", "det_gemm_wide_fp16_fp32"),
]
NAMES = {dtype: name for name, dtype in DTYPES.items()}


@functools.cache
def gemm(arch: str = "dav-2201", **constants: int):
    """The shipped kernel."""
    return wb.build("det_gemm", wb.KernelConfig(arch=arch, **constants), backend="twin")


def model(a: torch.Tensor, b: torch.Tensor, out: str = "same", leaf: int = 128) -> np.ndarray:
    """The independent model's raw bits [M, N] for a [M, K] and b [K, N]."""
    dtypes = {"a_dtype": NAMES[a.dtype], "b_dtype": NAMES[b.dtype]}
    return gemm_numpy.gemm(bits(a), bits(b), leaf=leaf, out_dtype=out, **dtypes)


# What a mistake in the kernel would look like: (what is written, what would be written instead,
# after which words of the source).
MUTATIONS = {
    # Split K more finely for few rows, as a heuristic that looks at the shape does.
    "leaves by the number of rows": ("kLeaf", "(m_ < 4 ? kLeaf / 2 : kLeaf)", "class DetGemm"),
    "the last leaf dropped": ("begin < k_;", "begin + kLeaf <= k_;", "class DetGemm"),
    "a leaf not combined": ("left % 2 == 0", "left % 2 == 0 || level == 2", "class DetGemm"),
    "truncated, not rounded": ("CAST_RINT", "CAST_TRUNC", "class DetGemm"),
    "products in another order": (
        "piece_.GetValue(i * piecePitch_ + (l + row) % kPiece)",
        "piece_.GetValue(i * piecePitch_ + (l + count - 1 - row) % kPiece)",
        "class DetGemm",
    ),
}


def only(source: str, *entries: str) -> str:
    """A kernel's source with these entries alone: a fraction of the time to compile."""
    head, *found = re.split(r'(?=extern "C")', source)
    named = [e for e in found if re.search(r"void (\w+)\(", e)[1] in entries]
    assert len(named) == len(entries)
    return head + "".join(named)


def mutant(folder, name: str, **constants: int):
    """The shipped kernel with one of the MUTATIONS, as `launch` takes it: entries
    det_gemm_fp32, det_gemm_bf16 and det_gemm_bf16_fp32."""
    old, new, after = MUTATIONS[name]
    text = only(SOURCE.read_text(), "det_gemm_fp32", "det_gemm_bf16", "det_gemm_bf16_fp32")
    head, found, tail = text.partition(after)
    assert old in tail, f"{name}: {old!r} is not in the kernel any more"
    path = folder / f"{'_'.join(name.split())}.asc"
    path.write_text(head + found + tail.replace(old, new))
    return wb.build(path, wb.KernelConfig(), backend="twin", defines=constants)


def launch(kernel, name: str, a: torch.Tensor, b: torch.Tensor, **options) -> torch.Tensor:
    """Run the entry `name` of any build of det_gemm's source."""
    out_dtype = next(out for _, _, out, entry in ENTRIES if entry == name)
    (m, k), n = a.shape, b.shape[1]
    out = torch.full((m, n), float("nan"), dtype=DTYPES[out_dtype])
    kernel.launch(name, 7, a.contiguous(), b.contiguous(), out, m, k, n, **options)
    return out
