"""An order of summation found from results alone, of any function that sums."""

from __future__ import annotations

from workbench.orders.reveal.find import RevealedTree, RevealError, RevealReport, reveal, revealed

__all__ = ["RevealError", "RevealReport", "RevealedTree", "reveal", "revealed"]
