"""Pictures to move about in: a reduction tree of any size, and a map of signed errors."""

from __future__ import annotations

from workbench.widgets.views.heatmap import HeatmapView, heatmap_view
from workbench.widgets.views.linked import DriftView, drift_view
from workbench.widgets.views.tree import TreeView, tree_view

__all__ = ["DriftView", "HeatmapView", "TreeView", "drift_view", "heatmap_view", "tree_view"]
