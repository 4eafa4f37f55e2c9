"""A function with every bit of a library's, made from its revealed order."""

from __future__ import annotations

from workbench.orders.parity.match import Parity, ParityError, evaluate, explains, parity

__all__ = ["Parity", "ParityError", "evaluate", "explains", "parity"]
