"""Widgets on the functions that the notebooks call: they draw nothing and compute nothing."""

from workbench.widgets.judge import Judge, PanelResult, PanelState, tile_choices
from workbench.widgets.latest import Latest
from workbench.widgets.panel import Panel, panel

__all__ = ["Judge", "Latest", "Panel", "PanelResult", "PanelState", "panel", "tile_choices"]
