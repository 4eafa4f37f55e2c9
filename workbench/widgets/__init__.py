"""Widgets on the functions that the notebooks call: they draw nothing and compute nothing."""

from workbench.widgets.judge import Judge, PanelResult, PanelState, tile_choices
from workbench.widgets.latest import Latest
from workbench.widgets.panel import Panel, panel
from workbench.widgets.tolerance import TolerancePanel, tolerance_panel
from workbench.widgets.views import (
    DriftView,
    HeatmapView,
    TreeView,
    drift_view,
    heatmap_view,
    tree_view,
)

__all__ = [
    "DriftView",
    "HeatmapView",
    "Judge",
    "Latest",
    "Panel",
    "PanelResult",
    "PanelState",
    "TolerancePanel",
    "TreeView",
    "drift_view",
    "heatmap_view",
    "panel",
    "tile_choices",
    "tolerance_panel",
    "tree_view",
]
