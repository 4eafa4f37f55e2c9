"""Runs as a table for other programs: CSV, Parquet, pandas."""

from __future__ import annotations

import csv
import json
import math
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.errors import InputError, MissingError
from workbench.sweep.run import Inputs, Provenance, Run

FORMATS = (".csv", ".parquet")

_EMPTY = Run("-", {}, "-", "-", "-", (0, 0, 0), Inputs(""), Provenance("", "", "", ""))


def table(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One flat row for each run, the same columns in each: what a run lacks is None."""
    rows = [run.flat() for run in runs]
    fixed = list(_EMPTY.flat())
    own = sorted({name for row in rows for name in row} - {*fixed})
    return [{name: row.get(name) for name in (*fixed, *own)} for row in rows]


def columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The columns of `table`, also where there are no rows."""
    return list(rows[0] if rows else _EMPTY.flat())


def to_pandas(runs: Sequence[Run]) -> Any:
    """The table as a `pandas.DataFrame`."""
    import pandas as pd

    rows = table(runs)
    return pd.DataFrame(rows, columns=columns(rows))


def write(runs: Sequence[Run], path: Path) -> None:
    """Write `runs` to a .csv or .parquet file, which appears when it is whole.

    Raises:
        InputError: Another ending.
        MissingError: Parquet without pyarrow.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise InputError(f"{path} ends in {ending!r}; give one of {', '.join(FORMATS)}")
    save = _csv if ending == ".csv" else _parquet()
    name = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        save(table(runs), name)
        os.replace(name, path)
    except OSError as e:
        raise InputError(f"{path} cannot be written: {e.strerror}; give another path") from None
    finally:
        name.unlink(missing_ok=True)


def _csv(rows: list[dict[str, Any]], name: Path) -> None:
    # repr keeps every bit of a float; None is an empty field, a NaN is "nan".
    with open(name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns(rows))
        writer.writerows([_plain(v) for v in row.values()] for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.dumps(value) if isinstance(value, bool) else value


def _parquet() -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingError(
            "Parquet needs pyarrow, which is not installed. Run `pip install pyarrow`, or export "
            "to .csv"
        ) from None

    def save(rows: list[dict[str, Any]], name: Path) -> None:
        # A column has one type, the same in every export: also where all of it is missing.
        fields = [
            (column, _type(column, [row[column] for row in rows])) for column in columns(rows)
        ]
        kinds = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "text": pa.string()}
        arrays = {
            column: pa.array([_as(kind, row[column]) for row in rows], kinds[kind])
            for column, kind in fields
        }
        pq.write_table(pa.table(arrays), name)

    return save


_INTS = ("id", "n", "h", "v", "repeat", "inputs.seed")
_FLOATS = ("drift.", "reference_drift.", "bound.max", "bound.worst_ratio", "time.ratio",
           "time.median", "time.reference_median", "provenance.seconds")  # fmt: skip


def _type(column: str, values: list[Any]) -> str:
    if column in _INTS:
        return "int"
    if column == "invariance.passed":
        return "bool"
    if column.startswith(_FLOATS):
        return "float"
    if not column.startswith(("config.", "counters.", "provenance.")):
        return "text"
    kinds = {type(value) for value in values} - {type(None)}
    small = all(abs(value) < 2**63 for value in values if isinstance(value, int))
    named = {bool: "bool", int: "int", float: "float"}
    return named.get(next(iter(kinds)), "text") if len(kinds) == 1 and small else "text"


def _as(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "text":
        return value if isinstance(value, str) else json.dumps(value)
    return {"int": int, "float": float, "bool": bool}[kind](value)
