"""Names for bits and inputs, and the evidence beside a figure: who computed it, how, on what.

Bits are read through integer views, so +0 and -0 differ and so do NaNs with other payloads.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workbench._result import Result, jsonable
from workbench.errors import InputError

_VIEWS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_DIGEST_BYTES = 64 << 20  # a digest copies at most this much of a tensor at a time


def raw_bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bits of `tensor` as integers of the same width and shape, on the CPU.

    Args:
        tensor: Any shape and strides; dtype of 1, 2, 4 or 8 bytes.

    Raises:
        InputError: The dtype has another width (complex128).

    Example:
        >>> raw_bits(torch.tensor([1.0, -0.0])).tolist()
        [1065353216, -2147483648]
    """
    view = _VIEWS.get(tensor.element_size())
    if view is None or tensor.is_complex():
        raise InputError(f"raw bits of {tensor.dtype} are not defined; give real numbers")
    return tensor.detach().cpu().view(view)


def hex_bits(tensor: torch.Tensor) -> str:
    """The bits of a tensor of one element, e.g. "0x3f800000" for 1.0 in fp32."""
    width = tensor.element_size()
    return f"0x{int(raw_bits(tensor)) % (1 << 8 * width):0{2 * width}x}"


def fixture_id(*tensors: torch.Tensor | None) -> str:
    """A name for inputs, made of their content: 16 hex digits of a SHA-256.

    Dtype, shape and bits count; strides, device and storage do not. None (no bias) counts too.

    Example:
        >>> fixture_id(torch.zeros(2)) == fixture_id(torch.zeros(4)[::2])
        True
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        if tensor is None:
            digest.update(b"none;")
            continue
        digest.update(f"{tensor.dtype}{list(tensor.shape)};".encode())
        # In pieces, so that a large strided weight is never copied as a whole.
        flat = tensor.detach().reshape(1) if tensor.ndim == 0 else tensor.detach()
        if not flat.numel():
            continue
        row_bytes = flat[0].numel() * flat.element_size()
        for piece in flat.split(max(1, _DIGEST_BYTES // row_bytes)):
            digest.update(raw_bits(piece).contiguous().numpy().data.cast("B"))
    return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Evidence(Result):
    """What a figure rests on: who computed it, how configured, on what, with which versions.

    Attributes:
        target: Name of the kernel or callable.
        backend: "twin", "npu", … of a kernel; None for a plain callable.
        arch: Architecture of a kernel, e.g. "dav-2201"; None for a plain callable.
        config: Constants of a kernel; empty for a plain callable.
        fixture_id: `fixture_id` of the inputs.
        torch_version, cpu, cpu_capability, blas: Versions and libraries of this machine.
        threads: Threads torch uses.
        flush_denormal: True if this thread flushes subnormals to zero.
    """

    target: str
    backend: str | None
    arch: str | None
    config: dict[str, Any]
    fixture_id: str
    torch_version: str
    cpu: str
    cpu_capability: str
    blas: str
    threads: int
    flush_denormal: bool


def evidence(fn: Any, *inputs: torch.Tensor | None) -> Evidence:
    """The evidence for a result of `fn` (a kernel or any callable) on `inputs`."""
    info, config = getattr(fn, "info", None), getattr(fn, "config", None)
    if config is None:
        constants = getattr(info, "defines", {})
    else:
        constants = config.to_dict() if hasattr(config, "to_dict") else jsonable(vars(config))
    name = getattr(fn, "__name__", None) or type(fn).__name__
    tiny = torch.full((1,), 2.0**-149)
    return Evidence(
        target=str(getattr(info, "name", None) or name),
        backend=getattr(info, "backend", None),
        arch=getattr(info, "arch", None) or getattr(config, "arch", None),
        config=constants,
        fixture_id=fixture_id(*inputs),
        torch_version=torch.__version__,
        cpu=cpu_name(),
        cpu_capability=torch.backends.cpu.get_cpu_capability(),
        blas="MKL" if torch.backends.mkl.is_available() else _blas_of_build(),
        threads=torch.get_num_threads(),
        flush_denormal=bool((tiny + tiny).item() == 0),
    )


@functools.cache
def cpu_name() -> str:
    """The processor's name as the system gives it, e.g. "AMD EPYC"."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _blas_of_build() -> str:
    for part in torch.__config__.show().replace("\n", ",").split(","):
        key, _, value = part.strip(" -").partition("=")
        if key == "BLAS_INFO":
            return value
    return "unknown"
