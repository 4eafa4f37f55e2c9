"""The dashboard of `wb.explore()`: state, study, panes, and the widget on top."""

from __future__ import annotations

from workbench.widgets.explore.dashboard import Explore, explore
from workbench.widgets.explore.inputs import Inputs
from workbench.widgets.explore.pins import PinComparison
from workbench.widgets.explore.result import ExploreResult
from workbench.widgets.explore.state import ExploreState
from workbench.widgets.explore.study import Study

__all__ = [
    "Explore",
    "ExploreResult",
    "ExploreState",
    "Inputs",
    "PinComparison",
    "Study",
    "explore",
]
