"""The operators people import, their references, and the registry that chooses among them.

Names load on first use: asking for the registry imports no operator.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# public name -> module below this package that has it; "": the module itself
_LAZY = {
    "AscendBatchInvariantLogpOp": "logp",
    "AscendDetGemmOp": "det_gemm",
    "AscendLMHeadOp": "lm_head",
    "AscendLinearLogpOp": "linear_logp",
    "BatchInvariantLogpKernel": "logp",
    "DetGemmKernel": "det_gemm",
    "LMHeadKernel": "lm_head",
    "NativeBatchInvariantLogpOp": "native",
    "NativeDetGemmOp": "native",
    "NativeLMHeadOp": "native",
    "NativeLinearLogpOp": "native",
    "linear_logp": "",
    "registry": "",
}

__all__ = [*_LAZY]

if TYPE_CHECKING:
    from workbench.ops import linear_logp as linear_logp
    from workbench.ops import registry as registry
    from workbench.ops.det_gemm import AscendDetGemmOp as AscendDetGemmOp
    from workbench.ops.det_gemm import DetGemmKernel as DetGemmKernel
    from workbench.ops.linear_logp import AscendLinearLogpOp as AscendLinearLogpOp
    from workbench.ops.lm_head import AscendLMHeadOp as AscendLMHeadOp
    from workbench.ops.lm_head import LMHeadKernel as LMHeadKernel
    from workbench.ops.logp import AscendBatchInvariantLogpOp as AscendBatchInvariantLogpOp
    from workbench.ops.logp import BatchInvariantLogpKernel as BatchInvariantLogpKernel
    from workbench.ops.native import NativeBatchInvariantLogpOp as NativeBatchInvariantLogpOp
    from workbench.ops.native import NativeDetGemmOp as NativeDetGemmOp
    from workbench.ops.native import NativeLinearLogpOp as NativeLinearLogpOp
    from workbench.ops.native import NativeLMHeadOp as NativeLMHeadOp


def __getattr__(name: str) -> Any:
    try:
        module = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module 'workbench.ops' has no attribute {name!r}") from None
    found = importlib.import_module(f"workbench.ops.{module or name}")
    value = getattr(found, name) if module else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
