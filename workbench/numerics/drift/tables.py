"""Tables and counts of errors: what the views of a drift return."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench._result import Result, html_table
from workbench.errors import InputError
from workbench.evidence import Evidence

Pair = tuple[str, str]  # (candidate, reference)

_SHOWN = 20  # rows of a long table in a text or a notebook


@dataclass(frozen=True)
class ErrorTable(Result):
    """Rows with the same columns, the longest ones shown in part; all of them in `rows()`.

    Attributes:
        name: What the table is.
        columns: {column: 1-D array or list}, all of one length.
        evidence: Of the drift behind it.
    """

    name: str
    columns: dict[str, Any]
    evidence: Evidence

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, column: str) -> np.ndarray:
        return np.asarray(self.columns[column])

    def to_dict(self) -> dict[str, Any]:
        lists = {name: np.asarray(values).tolist() for name, values in self.columns.items()}
        return {
            "name": self.name,
            "columns": _finite(lists),
            "evidence": self.evidence.to_dict(),
        }

    def rows(self) -> list[dict[str, Any]]:
        lists = [np.asarray(values).tolist() for values in self.columns.values()]
        return [dict(zip(self.columns, row, strict=True)) for row in zip(*lists, strict=True)]

    def head(self, k: int = _SHOWN) -> ErrorTable:
        """The first k rows."""
        part = {name: np.asarray(values)[:k] for name, values in self.columns.items()}
        return ErrorTable(self.name, part, self.evidence)

    def worst(self, k: int = _SHOWN, by: str = "max_abs") -> ErrorTable:
        """The k rows with the largest values in a column, NaN first."""
        if by not in self.columns:
            raise InputError(f"there is no column {by!r}; columns are {', '.join(self.columns)}")
        key = np.asarray(self.columns[by], float)
        order = np.argsort(-np.where(np.isnan(key), np.inf, key), kind="stable")[:k]
        part = {name: np.asarray(values)[order] for name, values in self.columns.items()}
        return ErrorTable(self.name, part, self.evidence)

    def title(self) -> str:
        return self.name

    def __str__(self) -> str:
        more = len(self) - _SHOWN
        text = super().__str__() if more <= 0 else Result.__str__(self.head())
        return text if more <= 0 else f"{text}\n  … {more:,} more rows in rows()"

    def _repr_html_(self) -> str:
        more = f" (the first {_SHOWN} of {len(self):,} rows)" if len(self) > _SHOWN else ""
        return html_table(self.head().rows(), self.title() + more)


def _finite(value: Any) -> Any:
    """JSON has no NaN or Inf: their names instead, as in every result."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


@dataclass(frozen=True)
class DriftHistogram(Result):
    """How often errors of each size occur, for several pairs on the same edges.

    Attributes:
        unit: One of `UNITS`.
        edges: fp64 [bins + 1], ascending, symmetric about 0.
        counts: {pair: int64 [bins]} of finite errors.
        exactly: {pair: how many errors are exactly 0}; they are in `counts` too.
        nonfinite: {pair: how many errors are NaN or Inf}, in no bin.
        shape, dtype, out_dtype, evidence: Of the drift.
    """

    unit: str
    edges: np.ndarray = field(metadata={"json": False})
    counts: dict[Pair, np.ndarray] = field(metadata={"json": False})
    exactly: dict[Pair, int]
    nonfinite: dict[Pair, int]
    shape: tuple[int, int, int]
    dtype: str
    out_dtype: str
    evidence: Evidence

    def to_dict(self) -> dict[str, Any]:
        counts = {" against ".join(pair): c.tolist() for pair, c in self.counts.items()}
        return {
            "unit": self.unit,
            "edges": self.edges.tolist(),
            "counts": counts,
            "table": self.rows(),
            "evidence": self.evidence.to_dict(),
        }

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"candidate": pair[0], "reference": pair[1], "outputs": int(c.sum())}
            | {"exactly_0": self.exactly[pair], "nonfinite": self.nonfinite[pair]}
            for pair, c in self.counts.items()
        ]
