"""Probes of what an order says nothing about: fused products, rounding, subnormals."""

from __future__ import annotations

from workbench.orders.arithmetic.ask import Arithmetic, Dots, arithmetic

__all__ = ["Arithmetic", "Dots", "arithmetic"]
