"""`HeatmapView`: a table of signed numbers, row by row, with a cell that can be chosen."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import traitlets

from workbench.errors import InputError
from workbench.numerics.drift.binned import Bins, binned
from workbench.numerics.operands import check_tensors
from workbench.plots import style
from workbench.plots.views import heatmap_svg, palette, svg_image
from workbench.widgets.views.front import STILL, View, evidence_line, script, whole_number

WORST = 12  # outputs in the list, unless asked otherwise


def heatmap_view(
    values: Any,
    *,
    unit: str = "",
    names: tuple[str, str] = ("row", "column"),
    label: str = "",
    evidence: Any = "",
    limit: float | None = None,
    worst: int = WORST,
) -> HeatmapView:
    """Signed numbers on a map of colours centred on 0, to zoom into and to choose a cell of.

    Where there are more numbers than cells, a cell shows the number with the largest |value| of
    those in it, with its sign, and choosing the cell chooses that number.

    Args:
        values: Real [R, C], numpy or torch; errors with their signs, for instance.
        unit: Of the values.
        names: What a row and a column are.
        label: The finding, above the map.
        evidence: The line below: a text, or results that carry their evidence.
        limit: The colour scale goes from -limit to limit. None: to the largest finite |value|.
        worst: How many of the largest |values| are listed beside the map.

    Returns:
        A widget. `.selected` is (row, column), and may be set; `.on_select` calls back.

    Raises:
        InputError: No table of real numbers, or a limit that is not positive.

    Example:
        >>> view = heatmap_view([[0.0, -2.0], [1.0, 0.5]], unit="ULP")
        >>> view.selected, view.value
        ((0, 1), -2.0)
    """
    return HeatmapView(values, unit, names, label, evidence, limit, worst)


class HeatmapView(View):
    """Made by `heatmap_view`.

    Attributes:
        selected: (row, column) of the number that is chosen; at first the one farthest from 0.
        worst: [[row, column, value], …], the largest |values|.
    """

    _esm = script("heatmap_view.js")

    selected: Any = traitlets.Tuple().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)
    shape: Any = traitlets.Tuple().tag(sync=True)
    first: Any = traitlets.Dict().tag(sync=True)
    worst: Any = traitlets.List().tag(sync=True)
    unit = traitlets.Unicode().tag(sync=True)
    names: Any = traitlets.Tuple().tag(sync=True)
    label = traitlets.Unicode().tag(sync=True)
    limit = traitlets.Float().tag(sync=True)
    alt = traitlets.Unicode().tag(sync=True)
    evidence = traitlets.Unicode().tag(sync=True)
    palette: Any = traitlets.List().tag(sync=True)

    def __init__(
        self,
        values: Any,
        unit: str = "",
        names: Sequence[str] = ("row", "column"),
        label: str = "",
        evidence: Any = "",
        limit: float | None = None,
        worst: int = WORST,
    ) -> None:
        self._values = _table(values)
        bins = binned(self._values)
        if limit is None:
            limit = _largest_finite(self._values)
        if not (isinstance(limit, (int, float, np.number)) and np.isfinite(limit) and limit > 0):
            raise InputError(
                f"limit={limit!r}; wanted a positive number, in the unit of the values"
            )
        if isinstance(names, str) or len(names) != 2:
            raise InputError(f"names={names!r}; wanted two: what a row and what a column is")
        worst = max(0, whole_number(worst, "worst"))
        places = _largest(self._values, worst)
        rows, columns = self._values.shape
        head, parts = _packed(bins, float(limit))
        self._called: list[Callable[[int, int], Any]] = []
        super().__init__(
            selected=places[0],
            shape=(rows, columns),
            first=head | parts,
            worst=[[*place, _number(self._values[place])] for place in places[:worst]],
            unit=unit,
            names=tuple(names),
            label=label or "Signed values; the largest of each cell",
            limit=float(limit),
            evidence=evidence_line(evidence),
            palette=palette(style.DIVERGING),
        )
        self._bins = bins
        self.chosen = self._chosen()
        self.alt = (
            f"{self.label}. Map of {rows:,} x {columns:,} values, "
            f"{_told(self._values, unit)}; colours from {-limit:.3g} to {limit:.3g}; "
            f"farthest from 0: {self.chosen}"
        )

    @property
    def value(self) -> float:
        """The number that is chosen."""
        return float(self._values[self.selected])

    def on_select(self, call: Callable[[int, int], Any]) -> HeatmapView:
        """Call `call(row, column)` whenever another cell has been chosen."""
        self._called.append(call)
        return self

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Replies of the kernel: {"ask": "window", "low": [row, column], "high": […]}.

        Raises:
            InputError: No such part of the table.
        """
        if asked["ask"] != "window":
            raise InputError(f"the page asked for {asked['ask']!r}; this view answers window")
        low, high = ([whole_number(x, name) for x in asked[name]] for name in ("low", "high"))
        found = binned(self._values, (low[0], low[1]), (high[0], high[1]))
        head, parts = _packed(found, self.limit)
        return {"view": head, "buffers": list(parts.values())}

    @traitlets.validate("selected")
    def _valid(self, proposal: Any) -> tuple[int, int]:
        try:
            row, column = proposal["value"]
        except (TypeError, ValueError):
            raise InputError(f"selected={proposal['value']!r}; wanted (row, column)") from None
        place = whole_number(row, "row"), whole_number(column, "column")
        if not all(0 <= k < n for k, n in zip(place, self._values.shape, strict=True)):
            raise InputError(f"selected={place}: the table is {' x '.join(map(str, self.shape))}")
        return place

    @traitlets.observe("selected")
    def _selected(self, change: Any) -> None:
        if not hasattr(self, "_bins"):
            return  # still being made
        self.chosen = self._chosen()
        for call in self._called:
            call(*self.selected)

    def _chosen(self) -> str:
        (row, column), unit = self.selected, f" {self.unit}" if self.unit else ""
        where = f"{self.names[0]} {row:,}, {self.names[1]} {column:,}"
        value = "NaN" if np.isnan(self.value) else f"{self.value:+.4g}"
        return f"{where}: {value}{unit}"

    def still(self) -> str:
        rows, columns = self.shape
        svg = heatmap_svg(
            self._bins.values,
            self.limit,
            ((0, rows - 1), (0, columns - 1)),
            (self.names[0], self.names[1]),
            self.unit,
            self.label,
            self.evidence,
        )
        items = "".join(
            f"<li>{html.escape(f'{self.names[0]} {r:,}, {self.names[1]} {c:,}: {v}')}</li>"
            for r, c, v in self.worst
        )
        return (
            f'<div class="workbench-view">{svg_image(svg, self.alt)}'
            f"<p>Farthest from 0, in {html.escape(self.unit or 'units of the values')}:</p>"
            f'<ol>{items}</ol><p class="workbench-note">{html.escape(STILL)}</p></div>'
        )

    def __repr__(self) -> str:
        return f"HeatmapView: {self.alt}"


def _table(values: Any) -> np.ndarray:
    if hasattr(values, "detach"):
        check_tensors(values, "values")
        values = values.detach().cpu()
        # numpy has no bfloat16 and no float8.
        narrow = values.is_floating_point() and values.dtype.itemsize < 4
        values = (values.double() if narrow else values).numpy()
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise InputError(f"values are no table: {error}") from None
    if found.ndim != 2 or not found.size or found.dtype.kind not in "fiub":
        raise InputError(
            f"values are {found.dtype.name} of shape {list(found.shape)}; wanted real numbers "
            "[R, C], at least one"
        )
    return found


def _told(values: np.ndarray, unit: str) -> str:
    """From where to where they go, and how many are no finite numbers: "-2 to 5 ULP"."""
    known = values[np.isfinite(values)]
    span = f"{known.min():.3g} to {known.max():.3g} {unit}".rstrip() if len(known) else ""
    broken = f"{values.size - len(known):,} NaN or Inf" if len(known) < values.size else ""
    return ", ".join(filter(None, (span, broken)))


def _largest(values: np.ndarray, count: int) -> list[tuple[int, int]]:
    """Where the largest |values| are, NaN first; of equal ones the first. At least one place."""
    count = min(max(count, 1), values.size)
    size = np.abs(np.asarray(values, np.float64)).ravel()
    size = np.where(np.isnan(size), np.inf, size)
    least = np.partition(size, size.size - count)[size.size - count]
    among = np.flatnonzero(size >= least)
    best = among[np.argsort(-size[among], kind="stable")][:count]
    return [divmod(int(k), values.shape[1]) for k in best]


def _largest_finite(values: np.ndarray) -> float:
    """The end of the colour scale. (A bin with a NaN hides its finite numbers: all are asked.)"""
    size = np.abs(np.asarray(values, np.float64))
    return float(size.max(initial=0, where=np.isfinite(size))) or 1.0


def _number(value: Any) -> Any:
    """For JSON, which has no NaN."""
    number = float(value)
    return float(f"{number:.4g}") if np.isfinite(number) else str(number)


def _packed(bins: Bins, limit: float) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Bins for a page: what they are, and their numbers (shares of the limit) as bytes."""
    tall, wide = bins.values.shape
    head = {
        "low": list(bins.low),
        "high": list(bins.high),
        "tall": tall,
        "wide": wide,
        "row_edges": bins.rows.tolist(),
        "column_edges": bins.columns.tolist(),
        "outputs": bins.outputs,
    }
    with np.errstate(over="ignore"):
        shares = (bins.values / limit).astype("<f4")
    return head, {"values": shares.tobytes(), "at": bins.at.astype("<i4").tobytes()}
