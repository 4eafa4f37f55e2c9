"""What several test modules share: kernels by configuration, raw bits, and the model's answer."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from models import ascend_numpy as model

import workbench as wb

ARCHS = ("dav-2201", "dav-3510")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
ENTRIES = (("fp32", "fp32"), ("bf16", "bf16"), ("fp16", "fp16"), ("bf16", "fp32"), ("fp16", "fp32"))
LARGEST_TILE = {"dav-2201": 12160, "dav-3510": 15744}
POISON = {2: 0x7FED, 4: 0x7FEDDEAD}  # NaNs that arithmetic does not make, by bytes

# The beginning of a program that gives host kernels tensors without memory.
NO_MEMORY = """
import sys
import torch, workbench as wb
from torch._subclasses import FakeTensorMode
from workbench.errors import InputError

def refused(run):
    try:
        run()
    except InputError as error:
        assert "without memory" in str(error), error
    else:
        raise AssertionError(sys._getframe().f_back.f_lineno)
"""

_UNSIGNED = {2: np.uint16, 4: np.uint32}
_SIGNED = {2: torch.int16, 4: torch.int32}


@functools.cache
def kernel(tile: int = 4096, arch: str = "dav-2201", max_blocks: int = 128, **constants):
    config = wb.KernelConfig(tile_length=tile, max_blocks=max_blocks, arch=arch, **constants)
    return wb.build("lm_head", config, backend="twin")


def bits(tensor: torch.Tensor) -> np.ndarray:
    """Raw bits of a 2- or 4-byte tensor: uint16 or uint32 of its shape."""
    size = tensor.element_size()
    return tensor.detach().contiguous().view(_SIGNED[size]).numpy().view(_UNSIGNED[size])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal dtype, shape and raw bits."""
    return a.dtype == b.dtype and a.shape == b.shape and bool((bits(a) == bits(b)).all())


def from_bits(pattern: np.ndarray, dtype: str) -> torch.Tensor:
    """uint16 or uint32 [...] -> a tensor of `dtype` with those bits."""
    signed = np.ascontiguousarray(pattern).view(f"i{pattern.dtype.itemsize}")
    return torch.from_numpy(signed.copy()).view(DTYPES[dtype])


def poisoned(shape, dtype: str) -> torch.Tensor:
    """A contiguous tensor full of `POISON`."""
    out = torch.empty(shape, dtype=DTYPES[dtype])
    out.view(_SIGNED[out.element_size()]).fill_(POISON[out.element_size()])
    return out


def expected(hidden, weight, bias=None, *, arch, tile, out="same") -> np.ndarray:
    """The independent model's raw bits [N, V] for torch tensors hidden [..., H], weight [V, H]."""
    name = {v: k for k, v in DTYPES.items()}[hidden.dtype]
    parts = [bits(hidden.reshape(hidden.shape[:-1].numel(), hidden.shape[-1])), bits(weight)]
    parts += [] if bias is None else [bits(bias)]
    return model.lm_head(*parts, arch=arch, tile=tile, in_dtype=name, out_dtype=out)


def wild(shape, seed: int, dtype: str = "fp32", spread: float = 6.0) -> torch.Tensor:
    """Normal numbers scaled by 2**-spread .. 2**spread, so that every association shows."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) * 2.0 ** rng.uniform(-spread, spread, shape)
    return torch.from_numpy(values.astype(np.float32)).to(DTYPES[dtype])


def mkl_on_avx2() -> bool:
    """Whether torch's own sums have the orders that the documents describe."""
    return torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2"


def skip_unless_mkl_on_avx512(seen) -> None:
    """Skip, with what was seen, where it is not known that torch's own sums change with the batch:
    a fact of MKL on a CPU with AVX-512, measured at the sizes of the tests that ask."""
    cpu = torch.backends.cpu.get_cpu_capability()
    if not (torch.backends.mkl.is_available() and cpu == "AVX512"):
        pytest.skip(f"known for MKL on AVX512 only; here, on {cpu}, seen: {seen}")


def assert_check_outputs(op: str, code: int, out: dict) -> None:
    """`workbench check --json` of a sound operator, at a size where the reference may err: against
    fp64 no output is beyond its cell, and linear_logp keeps its derived bound and its bits."""
    found = [output for case in out["cases"] for output in case["outputs"]]
    assert len(found) > len(out["cases"])
    for output in found:
        if op == "linear_logp":
            assert output["derived_ratio"] <= 1 and output["bits_equal"] and output["gate_passed"]
            continue
        assert output["tolerance_ratio_exact"] <= 1
        # Green, or the reference's own error on this machine's library.
        assert output["passed"] or output["cause"] == "reference"
    wanted = op == "linear_logp" or all(output["passed"] for output in found)
    assert (code == 0) == out["passed"] == wanted
