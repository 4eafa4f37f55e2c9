"""Kernels generated in a given order: C++ for the host, Ascend C for regular orders."""

from __future__ import annotations

from workbench.orders.synthesise.choose import SynthesisError, synthesise

__all__ = ["SynthesisError", "synthesise"]
