"""Drift: how far logits are from the exact ones, and from a reference's."""

from __future__ import annotations

from workbench.numerics.drift.measure import drift
from workbench.numerics.drift.views import DriftComparison, DriftResult

__all__ = ["DriftComparison", "DriftResult", "drift"]
