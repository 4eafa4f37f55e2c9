"""What every operator asks of the builder: the kernel of a configuration, on the right backend."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import torch

from workbench.build import builder
from workbench.build.config import KernelConfig, spec
from workbench.errors import InputError
from workbench.ops.inputs import short_name


@dataclass(frozen=True)
class _First:
    """The dtype that a kernel is first used with: compiled at once, and no part of its name."""

    dtype: torch.dtype | None = field(compare=False)


def built(op: str, config: str, backend: str, dtype: torch.dtype | None = None) -> Any:
    """The kernel of `op` for a `KernelConfig.to_key()`, built when it is first asked for, with the
    entries for inputs of `dtype`. Those for others are compiled when they are used."""
    return _built(op, config, backend, _First(dtype))


@functools.lru_cache(maxsize=256)
def _built(op: str, config: str, backend: str, first: _First) -> Any:
    dtypes = None if first.dtype is None else [short_name(first.dtype)]
    return builder.build(op, KernelConfig.from_key(config), backend, dtypes=dtypes)


def forget() -> None:
    """Let the next operator build its kernel anew."""
    _built.cache_clear()


def config_for(op: str, head: KernelConfig | None) -> KernelConfig:
    """The configuration of `op` that goes with one of the LM head: its architecture, switches and
    MAX_BLOCKS, and the defaults of `op` for the rest.

    Raises:
        ConfigError: A constant that the LM head does not have.

    Example:
        >>> config_for("det_gemm", KernelConfig(tile_length=64, max_blocks=7)).max_blocks
        7
    """
    head = spec("lm_head").complete(head)
    given = KernelConfig(arch=head.arch, switches=dict(head.switches), max_blocks=head.max_blocks)
    return spec(op).complete(given)


def check_backend(backend: str) -> None:
    """Raise InputError unless `backend` is one of "auto", "twin", "npu"."""
    if backend not in builder.BACKENDS:
        raise InputError(
            f"unknown backend {backend!r}; known ones are {', '.join(builder.BACKENDS)}"
        )


def backend_of(tensor: torch.Tensor, backend: str) -> str:
    """The backend that fits the tensor where `backend` is "auto": npu on an NPU, else the twin."""
    if backend != "auto":
        return backend
    return "npu" if tensor.device.type == "npu" else "twin"


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as its memory says: contiguous, and not a view that torch negates lazily."""
    return tensor.detach().resolve_neg().contiguous()
