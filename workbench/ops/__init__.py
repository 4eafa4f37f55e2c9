"""The operators people import, and their references."""

from workbench.ops.lm_head import AscendLMHeadOp, LMHeadKernel
from workbench.ops.native import NativeLMHeadOp

__all__ = ["AscendLMHeadOp", "LMHeadKernel", "NativeLMHeadOp"]
