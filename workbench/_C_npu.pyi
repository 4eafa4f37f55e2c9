"""The extension with the kernels for Ascend NPUs, built ahead of time by `setup.py`
(docs/on-an-npu.md). `wb.build(…, backend="npu")` uses it by itself.

The variants that are built at run time are modules of the same form.
"""

from collections.abc import Sequence
from typing import Any

backend: str
"""The toolchain that the module was built with: "npu" or "twin"."""

arch: str
"""The architecture it was built for, for example "dav-2201"."""

manifest: str | None
"""JSON: what the module was made of. None in a variant built at run time."""

def kernels() -> dict[str, list[tuple[str, str, str]]]:
    """{kernel: [(parameter, C++ type, kind)]}; kind is p, i, u, f or b."""

def constants() -> dict[str, int]:
    """Build-time constants as the compiler saw them: "lm_head.TILE_LENGTH" in the extension,
    "TILE_LENGTH" in a variant."""

def launch(
    name: str,
    blocks: int,
    stream: int,
    args: Sequence[Any],
    threads: int = 0,
    block_ids: Sequence[int] | None = None,
    checks: int = 0,
    switches: int = 0,
    perturb: int = 0,
    regions: Sequence[tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """Launch a kernel. Addresses are integers; the caller keeps the memory alive. On an NPU it is
    queued on `stream` (an `aclrtStream` as an integer), and what follows `args` has no effect.

    Returns {"ub_bytes": …, "used": numbers of instructions}; on the twin with "counters", "lines"
    and "fault" where there are any.

    Raises KeyError for a kernel it does not have, TypeError for arguments that do not fit.
    """
