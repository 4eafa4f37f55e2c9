"""Reduction trees: declared, executed and compared. Needs numpy only, never torch."""

from __future__ import annotations

from workbench.orders.declared import declared_order, gemm_order, lm_head_order, reduce_sum_order
from workbench.orders.tree import Nested, ReductionTree, adjacent_pairs, sequential

__all__ = [
    "Nested",
    "ReductionTree",
    "adjacent_pairs",
    "declared_order",
    "gemm_order",
    "lm_head_order",
    "reduce_sum_order",
    "sequential",
]
