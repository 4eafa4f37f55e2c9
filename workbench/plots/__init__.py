"""One function per figure: it takes results, trees or arrays and returns a matplotlib Figure.

Nothing here computes a result, and no global state of matplotlib is touched. `show` displays a
figure in a notebook with its text alternative.
"""

from workbench.plots.bits import bit_patterns, changed_outputs, tile_overview
from workbench.plots.cells import (
    batch_shift,
    bit_classes,
    drift_heatmap,
    invariance_grid,
    invariance_table,
)
from workbench.plots.style import evidence_text, png, show
from workbench.plots.trees import order, orders

__all__ = [
    "batch_shift",
    "bit_classes",
    "bit_patterns",
    "changed_outputs",
    "drift_heatmap",
    "evidence_text",
    "invariance_grid",
    "invariance_table",
    "order",
    "orders",
    "png",
    "show",
    "tile_overview",
]
