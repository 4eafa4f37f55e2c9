"""Widgets on the functions that the notebooks call: they draw nothing and compute nothing."""

from workbench.widgets.judge import Judge, PanelResult, PanelState, tile_choices
from workbench.widgets.latest import Latest
from workbench.widgets.panel import Panel, panel
from workbench.widgets.tolerance import TolerancePanel, tolerance_panel

__all__ = [
    "Judge",
    "Latest",
    "Panel",
    "PanelResult",
    "PanelState",
    "TolerancePanel",
    "panel",
    "tile_choices",
    "tolerance_panel",
]
