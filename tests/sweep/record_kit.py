"""Runs to record, and writers that tell what was returned to them. Also run as a program:

    python record_kit.py PATH WRITER COUNT LOG MODE

adds COUNT runs and writes "id key" into LOG when each `add` has returned (MODE "honest"), or, the
control, before its transaction is committed (MODE "early").
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path

from workbench.sweep.record import Record
from workbench.sweep.run import (
    BoundFigures,
    DriftFigures,
    Inputs,
    Provenance,
    Run,
    Verdict,
    WallTime,
)

MADE = Provenance("ab" * 20, "g++ 12.2.0", "0.1", "2.13.0", "AMD EPYC", "host", "2026-01-01", 1.5)


def a_run(number: int = 0, writer: int = 0, **changes) -> Run:
    """A run whose fields all follow from (writer, number)."""
    values = {
        "op": "lm_head",
        "config": {"arch": "dav-2201", "tile_length": 64, "max_blocks": number},
        "arch": "dav-2201",
        "backend": "twin",
        "dtype": "fp32",
        "shape": (160, 576, 4096),
        "inputs": Inputs("5f0c", "smollm2", writer),
        "provenance": MADE,
        "order_hash": "0a" * 8,
        "bits": f"{writer:04x}{number:012x}",
        "drift": DriftFigures(number / 3, 0.1 * number, 1e-300, 5e-324),
        "counters": {"gm_to_ub_bytes": number << 40},
    }
    return Run(**{**values, **changes})


def full_run(**changes) -> Run:
    """A run with every part."""
    parts = {
        "out_dtype": "bf16",
        "reference": "torch.mv",
        "reference_drift": DriftFigures(0.5, 0.25, 0.125, 2.0),
        "invariance": Verdict(False, ("T1", "T7"), {"case": "T7", "row": 3, "column": 9}),
        "bound": BoundFigures("running", 0.75, 0.1),
        "time": WallTime(1.25, "torch.mv", 0.004, 0.005),
        "repeat": 2,
    }
    return a_run(7, **{**parts, **changes})


def returned(log: Path) -> list[tuple[int, str]]:
    """What `add` returned to a writer, from its log; a line that a kill cut short is none."""
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [(int(number), key) for number, key in (line.split() for line in lines)]


def broken_promises(runs: list[Run], logs: list[Path]) -> list[str]:
    """What was returned to a writer and is not among `runs` exactly once, with its id."""
    there = Counter(run.key for run in runs)
    ids = {run.key: run.id for run in runs}
    return [
        key
        for log in logs
        for number, key in returned(log)
        if there[key] != 1 or ids[key] != number
    ]


def write(path: str, writer: int, count: int, log: str, mode: str) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    record = Record(path)
    if mode == "honest":
        for number in range(count):
            run = a_run(number, writer)
            os.write(out, f"{record.add(run)} {run.key}\n".encode())
        return
    from workbench.sweep import schema

    with record._writing() as db:
        for number in range(count):
            run = a_run(number, writer)
            os.write(out, f"{record._put(db, schema.row_of(run))} {run.key}\n".encode())


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5])
