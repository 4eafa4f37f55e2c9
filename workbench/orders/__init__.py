"""Orders of summation: declared, revealed, compared, executed, rebuilt.

This package itself needs numpy only, never torch. What runs something (`reveal`, `parity`,
`synthesise`, `arithmetic`, `classes`) is a module or package of its own below it.
"""

from __future__ import annotations

import importlib
from typing import Any

from workbench.orders.declared import declared_order, gemm_order, lm_head_order, reduce_sum_order
from workbench.orders.standard import (
    NAMES,
    halving_order,
    named,
    pairwise_order,
    reduce_sum,
    reversed_order,
    sequential_order,
    split_k_order,
    warp_shuffle_order,
)
from workbench.orders.tree import (
    Difference,
    FoldedTree,
    Nested,
    ReductionTree,
    adjacent_pairs,
    sequential,
)

__all__ = [
    "NAMES",
    "Difference",
    "FoldedTree",
    "Nested",
    "ReductionTree",
    "adjacent_pairs",
    "declared_order",
    "gemm_order",
    "halving_order",
    "lm_head_order",
    "named",
    "pairwise_order",
    "reduce_sum",
    "reduce_sum_order",
    "reversed_order",
    "sequential",
    "sequential_order",
    "split_k_order",
    "warp_shuffle_order",
]

# What loads torch, so on first use: modules that are functions too, and a class.
_CALLABLE = ("linear", "logp")


def __getattr__(name: str) -> Any:
    if name in _CALLABLE:
        return importlib.import_module(f"workbench.orders.{name}")
    if name == "OnHost":
        return importlib.import_module("workbench.orders.on_host").OnHost
    raise AttributeError(f"module 'workbench.orders' has no attribute {name!r}")
