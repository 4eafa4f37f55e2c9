"""Bounds on the error of a sum that follow from its order and its data."""

from __future__ import annotations

from workbench.numerics.bounds.derive import KINDS, Bounds, bounds

__all__ = ["KINDS", "Bounds", "bounds"]
