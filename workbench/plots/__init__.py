"""One function per figure: it takes results, trees or arrays and returns a matplotlib Figure.

Nothing here computes a result, and no global state of matplotlib is touched. `show` displays a
figure in a notebook with its text alternative.
"""

from workbench.plots.agreement import agreement_bars, agreement_table, token_ratios
from workbench.plots.bits import bit_patterns, changed_outputs, tile_overview
from workbench.plots.bounds import bound_scatter
from workbench.plots.cells import (
    batch_shift,
    bit_classes,
    drift_heatmap,
    invariance_grid,
    invariance_table,
)
from workbench.plots.classes import class_table
from workbench.plots.cost import cost_bars, counter_growth
from workbench.plots.drift import drift_by_tile, drift_by_vocab, drift_histogram, drift_map
from workbench.plots.folded import icicle, icicles
from workbench.plots.matrix import order_matrix
from workbench.plots.mutations import mutation_grid
from workbench.plots.probes import comparison_table, probe_table
from workbench.plots.source import source_lines
from workbench.plots.style import evidence_text, png, show
from workbench.plots.sweep import pareto_plot, sweep_table
from workbench.plots.tolerance import tolerance_plane, tolerance_ratios
from workbench.plots.trees import order, orders

__all__ = [
    "agreement_bars",
    "agreement_table",
    "batch_shift",
    "bit_classes",
    "bit_patterns",
    "bound_scatter",
    "changed_outputs",
    "class_table",
    "comparison_table",
    "cost_bars",
    "counter_growth",
    "drift_by_tile",
    "drift_by_vocab",
    "drift_heatmap",
    "drift_histogram",
    "drift_map",
    "evidence_text",
    "icicle",
    "icicles",
    "invariance_grid",
    "invariance_table",
    "mutation_grid",
    "order",
    "order_matrix",
    "orders",
    "pareto_plot",
    "png",
    "probe_table",
    "show",
    "source_lines",
    "sweep_table",
    "tile_overview",
    "token_ratios",
    "tolerance_plane",
    "tolerance_ratios",
]
