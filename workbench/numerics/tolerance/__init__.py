"""What a tolerance would flag, how loose it is, and one that is derived."""

from __future__ import annotations

from workbench.numerics.tolerance.judge import Tolerance, ToleranceGrid, tolerance

__all__ = ["Tolerance", "ToleranceGrid", "tolerance"]
