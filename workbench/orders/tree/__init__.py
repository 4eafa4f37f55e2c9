"""`ReductionTree`: an order of summation as a value. Needs numpy only."""

from __future__ import annotations

from workbench.orders.tree.compare import Difference
from workbench.orders.tree.fold import FoldedTree
from workbench.orders.tree.reduction import Nested, ReductionTree, adjacent_pairs, sequential

__all__ = ["Difference", "FoldedTree", "Nested", "ReductionTree", "adjacent_pairs", "sequential"]
