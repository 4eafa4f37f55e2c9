"""A map of drift and the order of one of its sums, linked: choose an output, see it added."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import ipywidgets as ipw
import numpy as np
import torch

from workbench.errors import InputError
from workbench.numerics.drift.views import KERNEL_EXACT, UNITS, DriftResult
from workbench.orders.declared import declared_order
from workbench.orders.tree.reduction import ReductionTree
from workbench.widgets.views.front import close_parts
from workbench.widgets.views.heatmap import WORST, HeatmapView, heatmap_view
from workbench.widgets.views.tree import tree_view

Pair = tuple[str, str]


def drift_view(
    result: DriftResult,
    kernel: Any,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    *,
    tree: ReductionTree | None = None,
    pair: Pair = KERNEL_EXACT,
    unit: str = "ulp",
    worst: int = WORST,
) -> DriftView:
    """A map of drift over rows x vocabulary, and below it the order of the output chosen.

    Choosing a cell, by mouse or arrow keys, or one of the outputs that drift most shows the order
    of its sum, with the share of each partial sum in the running error bound, and the error of
    each side there. "errors of" puts a reference's own errors on the map, on the same scale.

    Args:
        result: What `drift(kernel, hidden, weight)` gave.
        kernel: The kernel; for its order, where `tree` is None.
        hidden, weight: The inputs: [..., H] and [V, H].
        tree: The order of its sums; None: the one that a shipped kernel declares.
        pair: (candidate, reference) to show first.
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
    tree = _order(result, kernel, hidden, weight, tree)
    if unit not in UNITS:
        raise InputError(f"there is no unit {unit!r}; units are {', '.join(UNITS)}")
    return DriftView(result, hidden, weight, tree, pair, unit, worst)


def _order(
    result: DriftResult,
    kernel: Any,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    tree: ReductionTree | None,
) -> ReductionTree:
    """The order of the sums of a result on these inputs."""
    n, h, v = result.shape
    rows = hidden[..., 0].numel() if hidden.ndim else 0
    if (rows, *hidden.shape[-1:], *weight.shape) != (n, h, v, h):
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
    return tree


def products(hidden: torch.Tensor, weight: torch.Tensor, row: int, column: int) -> np.ndarray:
    """What output (row, column) adds: fp32 [H] (fp64 of fp64 inputs).

    The inputs [N, H] and [V, H] are widened exactly and each product is rounded once, as the
    kernels do.
    """
    wide = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    left, right = (x.detach().cpu().to(wide) for x in (hidden[row], weight[column]))
    return (left * right).numpy()


class DriftView(ipw.VBox):
    """Made by `drift_view`.

    Attributes:
        pairs: (candidate, reference) that the map can show: `pair`, and each side against "exact".
        of: The control that says which of them it shows.
        words: The errors of all sides at the output that is chosen.
        order: The `TreeView` of that output.
    """

    def __init__(
        self,
        result: DriftResult,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        tree: ReductionTree,
        pair: Pair,
        unit: str,
        worst: int,
    ) -> None:
        rows = hidden.detach().reshape(-1, hidden.shape[-1])
        self._result, self._unit, self._worst = result, unit, worst
        self._rows, self._weight = rows, weight.detach()
        exact = [p for p in result.pairs() if p[1] == "exact"]
        self.pairs: tuple[Pair, ...] = tuple(dict.fromkeys([pair, *exact]))
        self._errors = {p: result[p].errors_in(unit) for p in self.pairs}
        largest = [np.abs(e).max(initial=0, where=np.isfinite(e)) for e in self._errors.values()]
        self._limit = float(max(largest)) or 1.0  # of all maps: colours can then be compared
        self._maps: dict[Pair, HeatmapView] = {}
        self._told: list[Callable[[int, int], Any]] = []
        self._pair = pair
        self.order = tree_view(tree, label="Order of the output chosen", evidence=result)
        self.words = ipw.HTML()
        self.of = ipw.Dropdown(
            options=[(_name(p), p) for p in self.pairs],
            value=pair,
            description="errors of",
            layout={"width": "22rem", "max_width": "100%"},
        )
        self.of.add_class("workbench-errors-of")
        self._show(*self.map.selected)
        super().__init__(self._shown())
        self.of.observe(self._turned, "value")
        self.add_class("workbench-drift-view")

    @property
    def map(self) -> HeatmapView:
        """The map that is shown."""
        return self._map_of(self._pair)

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

    def on_select(self, call: Callable[[int, int], Any]) -> DriftView:
        """Call `call(row, vocabulary id)` whenever another output has been chosen."""
        self._told.append(call)
        return self

    def terms(self) -> np.ndarray:
        """The products that the chosen output adds: fp32 [H] (fp64 of fp64 inputs)."""
        return products(self._rows, self._weight, *self.selected)

    def close(self) -> None:
        """Close this view and all that it is made of."""
        if self.comm is not None:
            for part in (*self._maps.values(), self.order, self.words, self.of):
                close_parts(part)
                part.close()
            self.layout.close()
            super().close()

    def _map_of(self, pair: Pair) -> HeatmapView:
        if pair not in self._maps:
            worst = f"{self._result[pair].max_abs:.1e} units of the logits"
            self._maps[pair] = heatmap_view(
                self._errors[pair],
                unit=UNITS[self._unit],
                names=("row", "vocabulary id"),
                label=f"{_side(pair[0])} − {pair[1]}: largest error {worst}",
                evidence=self._result,
                limit=self._limit,
                worst=self._worst,
            ).on_select(self._show)
        return self._maps[pair]

    def _shown(self) -> list[Any]:
        choice = [self.of] if len(self.pairs) > 1 else []
        return [*choice, self.map, self.words, self.order]

    def _turned(self, change: Any) -> None:
        """The errors of another side, the same output chosen."""
        at, self._pair = self.selected, change["new"]
        self.map.selected = at
        self.children = self._shown()

    def _show(self, row: int, column: int) -> None:
        place = f"row {row:,}, vocabulary id {column:,}"
        self.order.set_terms(self.terms(), place)
        self.words.value = self._said(row, column, place)
        for call in self._told:
            call(row, column)

    def _said(self, row: int, column: int, place: str) -> str:
        """The errors of all sides at one output, in a line."""
        unit = "" if self._unit == "abs" else f" {UNITS[self._unit]}"
        sides = ", ".join(
            f"{_name(p)} {self._errors[p][row, column]:+.3g}{unit}" for p in self.pairs
        )
        text = html.escape(f"At {place}: {sides}.")
        return f'<div class="workbench-at-output">{text}</div>'

    def still(self) -> str:
        """HTML of what is shown now, for a page without a kernel."""
        return f"{self.map.still()}{self.words.value}{self.order.still()}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        data = super()._repr_mimebundle_(**kwargs)
        data["text/plain"] = repr(self)
        data["text/html"] = self.still()
        return data

    def __repr__(self) -> str:
        return f"DriftView: {self.map.alt}"


def _side(name: str) -> str:
    return "Kernel" if name == "kernel" else name


def _name(pair: Pair) -> str:
    if pair[1] != "exact":
        return f"{pair[0]} against {pair[1]}"
    return pair[0] if pair[0] == "kernel" else f"{pair[0]} itself"
