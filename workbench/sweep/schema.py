"""The tables of a record, their versions, and how an older file becomes one of today.

A file says what it is in its first page: `APPLICATION_ID`, and the version of its tables in
SQLite's `user_version`. Every version step is one function here; they run in one transaction, so a
file is of the old version or of the new one, whenever the machine stops.
"""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from workbench.sweep.run import Inputs, Provenance, Run

APPLICATION_ID = 0x57424B52  # "WBKR"
VERSION = 2

# Columns that a search may name. The nested parts are JSON: what is in them may grow without a new
# version.
COLUMNS = ("key", "op", "arch", "backend", "dtype", "out_dtype", "n", "h", "v", "status",
           "fixture_id", "order_hash", "bits", "repeat")  # fmt: skip
JSON_COLUMNS = ("config", "inputs", "provenance", "drift", "reference_drift", "invariance",
                "bound", "counters", "time")  # fmt: skip
TEXT_COLUMNS = ("error", "reference")
ALL = (*COLUMNS, *TEXT_COLUMNS, *JSON_COLUMNS)

TABLE = """
CREATE TABLE {name} (
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- a number is never given twice
  key TEXT NOT NULL UNIQUE,
  op TEXT NOT NULL, arch TEXT NOT NULL, backend TEXT NOT NULL,
  dtype TEXT NOT NULL, out_dtype TEXT,
  n INTEGER NOT NULL, h INTEGER NOT NULL, v INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('ok', 'refused', 'failed')),
  fixture_id TEXT NOT NULL, order_hash TEXT, bits TEXT,
  repeat INTEGER NOT NULL,
  error TEXT, reference TEXT,
  config TEXT NOT NULL, inputs TEXT NOT NULL, provenance TEXT NOT NULL,
  drift TEXT, reference_drift TEXT, invariance TEXT, bound TEXT,
  counters TEXT NOT NULL, time TEXT
)"""


def create(db: sqlite3.Connection) -> None:
    """The tables of a new record; inside a transaction of the caller's."""
    db.execute(TABLE.format(name="runs"))
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {VERSION}")


def migrate(db: sqlite3.Connection, found: int) -> None:
    """Bring tables of version `found` to `VERSION`; inside a transaction of the caller's."""
    for version in range(found, VERSION):
        MIGRATIONS[version](db)
    db.execute(f"PRAGMA user_version = {VERSION}")


def insert(db: sqlite3.Connection, row: dict[str, Any], table: str = "runs") -> int:
    names = ", ".join(row)
    marks = ", ".join(f":{name}" for name in row)
    return int(db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", row).lastrowid or 0)


def update(db: sqlite3.Connection, row: dict[str, Any], number: int) -> None:
    pairs = ", ".join(f"{name} = :{name}" for name in row)
    db.execute(f"UPDATE runs SET {pairs} WHERE id = :id", {**row, "id": number})


def row_of(run: Run) -> dict[str, Any]:
    """A run as a row: its plain columns, and JSON for the rest."""
    parts = run.to_dict()
    n, h, v = run.shape
    row = {"n": n, "h": h, "v": v, "fixture_id": run.inputs.fixture_id}
    row |= {name: parts[name] for name in (*COLUMNS, *TEXT_COLUMNS) if name in parts}
    for name in JSON_COLUMNS:
        row[name] = None if parts[name] is None else json.dumps(parts[name], allow_nan=False)
    return row


def run_of(row: sqlite3.Row) -> Run:
    """The run in a row."""
    values = dict(row)
    values["shape"] = tuple(values.pop(name) for name in ("n", "h", "v"))
    del values["fixture_id"]  # stands in `inputs` too
    for name in JSON_COLUMNS:
        values[name] = None if values[name] is None else json.loads(values[name])
    return Run.from_dict(values)


def _to_2(db: sqlite3.Connection) -> None:
    """Version 1 (drafts, before a release) had the time as two columns, invariance as a yes or no,
    and keys without `repeat` and output dtype."""
    db.execute(TABLE.format(name="newer"))
    rows = db.execute("SELECT * FROM runs ORDER BY id")
    names = [column[0] for column in rows.description]
    for values in rows.fetchall():
        old = dict(zip(names, values, strict=True))
        ratio, reference, passed = (old.pop(name) for name in ("ratio", "reference", "passed"))
        if ratio is not None:
            # The medians were not kept; NaN says so.
            time = {"ratio": ratio, "reference": reference, "median": "nan"}
            old["time"] = json.dumps({**time, "reference_median": "nan"})
        if passed is not None:
            old["invariance"] = json.dumps({"passed": bool(passed)})
        inputs = Inputs(**json.loads(old["inputs"]))
        provenance = Provenance(**json.loads(old["provenance"]))
        same = (old["op"], json.loads(old["config"]), old["arch"], old["backend"], old["dtype"])
        old["key"] = Run.key_of(*same, (old["n"], old["h"], old["v"]), inputs, provenance)
        insert(db, {**old, "repeat": 0}, "newer")
    given = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'runs'").fetchone()
    db.execute("DROP TABLE runs")
    db.execute("ALTER TABLE newer RENAME TO runs")
    db.execute("DELETE FROM sqlite_sequence")
    if given is not None:  # the largest number that was ever given, its run deleted or not
        db.execute("INSERT INTO sqlite_sequence VALUES ('runs', ?)", (given[0],))


MIGRATIONS = {1: _to_2}
