"""A map of drift and the order of one of its sums, linked: choose an output, see it added."""

from __future__ import annotations

from typing import Any

import ipywidgets as ipw
import numpy as np
import torch

from workbench.errors import InputError
from workbench.numerics.drift.views import KERNEL_EXACT, UNITS, DriftResult
from workbench.orders.declared import declared_order
from workbench.orders.tree.reduction import ReductionTree
from workbench.widgets.views.heatmap import WORST, heatmap_view
from workbench.widgets.views.tree import tree_view


def drift_view(
    result: DriftResult,
    kernel: Any,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    *,
    tree: ReductionTree | None = None,
    pair: tuple[str, str] = KERNEL_EXACT,
    unit: str = "ulp",
    worst: int = WORST,
) -> DriftView:
    """A map of drift over rows x vocabulary, and beside it the order of the output chosen.

    Choosing a cell, by mouse or arrow keys, or one of the outputs that drift most shows the order
    of its sum, with the share of each partial sum in the running error bound.

    Args:
        result: What `drift(kernel, hidden, weight)` gave.
        kernel: The kernel; for its order, where `tree` is None.
        hidden, weight: The inputs: [..., H] and [V, H].
        tree: The order of its sums; None: the one that a shipped kernel declares.
        pair: (candidate, reference) to show.
        unit: "abs", "ulp", "partial_ulp" or "peak", see `DriftComparison.errors_in`.
        worst: How many of the outputs that drift most are listed.

    Raises:
        InputError: Inputs of other shapes than the result's, or no order.

    Example:
        >>> from workbench.numerics import drift
        >>> from workbench.orders.standard import pairwise_order
        >>> hidden, weight = torch.rand(2, 8), torch.rand(3, 8)
        >>> found = drift(torch.nn.functional.linear, hidden, weight)
        >>> view = drift_view(found, None, hidden, weight, tree=pairwise_order(8))
        >>> view.select(1, 2).selected
        (1, 2)
    """
    return DriftView(result, kernel, hidden, weight, tree, pair, unit, worst)


class DriftView(ipw.VBox):
    """Made by `drift_view`.

    Attributes:
        map: The `HeatmapView`.
        order: The `TreeView` of the output that is chosen.
    """

    def __init__(
        self,
        result: DriftResult,
        kernel: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        tree: ReductionTree | None,
        pair: tuple[str, str],
        unit: str,
        worst: int,
    ) -> None:
        n, h, v = result.shape
        rows = hidden.detach().reshape(-1, hidden.shape[-1])
        if (*rows.shape, *weight.shape) != (n, h, v, h):
            raise InputError(
                f"hidden {list(hidden.shape)} and weight {list(weight.shape)} are not the inputs "
                f"of this drift of {n} x {h} x {v}; give those it was measured on"
            )
        if tree is None:
            shipped = getattr(kernel, "spec", None)
            if shipped is None:
                raise InputError(
                    f"{kernel!r:.60} declares no order; give tree=wb.reveal(kernel, n={h}) or "
                    "another ReductionTree"
                )
            tree = declared_order(shipped.op, kernel.config, h)
        if tree.leaves != h:
            raise InputError(f"the tree adds {tree.leaves} terms and a logit is a sum of H = {h}")
        if unit not in UNITS:
            raise InputError(f"there is no unit {unit!r}; units are {', '.join(UNITS)}")
        self._rows, self._weight = rows, weight.detach()
        comparison = result[pair]
        errors = comparison.errors_in(unit)
        self.map = heatmap_view(
            errors,
            unit=UNITS[unit],
            names=("row", "vocabulary id"),
            label=f"{pair[0].capitalize()} − {pair[1]}: largest error {comparison.max_abs:.1e} "
            "units of the logits",
            evidence=result,
            worst=worst,
        )
        self.order = tree_view(tree, label="Order of the output chosen", evidence=result)
        self._show(*self.map.selected)
        self.map.on_select(self._show)
        super().__init__([self.map, self.order])
        self.add_class("workbench-drift-view")

    @property
    def selected(self) -> tuple[int, int]:
        """(row, vocabulary id) of the output that is chosen."""
        return self.map.selected

    def select(self, row: int, column: int) -> DriftView:
        """Choose an output.

        Raises:
            InputError: There is none there.
        """
        self.map.selected = (row, column)
        return self

    def terms(self) -> np.ndarray:
        """The products that the chosen output adds: fp32 [H] (fp64 of fp64 inputs)."""
        row, column = self.selected
        wide = torch.float64 if self._rows.dtype == torch.float64 else torch.float32
        # The inputs are widened exactly and each product rounded once, as the kernel does.
        left, right = (x.cpu().to(wide) for x in (self._rows[row], self._weight[column]))
        return (left * right).numpy()

    def _show(self, row: int, column: int) -> None:
        self.order.set_terms(self.terms(), f"row {row:,}, vocabulary id {column:,}")

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        data = super()._repr_mimebundle_(**kwargs)
        data["text/plain"] = repr(self)
        data["text/html"] = self.map.still() + self.order.still()
        return data

    def __repr__(self) -> str:
        return f"DriftView: {self.map.alt}"
