"""What the tests of sweeps share, and what their worker processes import by name."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from workbench.sweep.measure import Task
from workbench.sweep.measure import measure as real
from workbench.sweep.run import Inputs, Provenance, Run
from workbench.sweep.space import Space

# Figures that belong to a moment and a machine's load; all others must repeat.
TIMES = ("time.", "provenance.started", "provenance.seconds")


def small(**changes: Any) -> Space:
    return Space(**{"tiles": (64, 128, 100), "max_blocks": (1, 3), "shapes": ((2, 16),)} | changes)


def table(runs: Any) -> list[dict[str, Any]]:
    """Runs as rows, times and record numbers aside."""
    rows = [run.flat() for run in runs]
    return [{k: v for k, v in row.items() if k != "id" and not k.startswith(TIMES)} for row in rows]


def deadly(task: Task) -> dict[str, Any]:
    """`measure`, but one configuration takes its process with it."""
    if (task.config.tile_length, task.config.max_blocks) == (64, 3):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(task)


def deadly_once(task: Task) -> dict[str, Any]:
    """`measure`, but the first try of one configuration takes its process with it."""
    flag = os.environ["SWEEP_KIT_FLAG"]
    if task.config.tile_length == 64 and not os.path.exists(flag):
        with open(flag, "w"):
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    return real(task)


def slow(task: Task) -> dict[str, Any]:
    """`measure`, with time to be interrupted in."""
    time.sleep(0.2)
    return real(task)


def made(**changes: Any) -> Run:
    """A run that nothing has measured."""
    fields: dict[str, Any] = {
        "op": "lm_head",
        "config": {"tile_length": 64, "max_blocks": 1},
        "arch": "dav-2201",
        "backend": "twin",
        "dtype": "fp32",
        "shape": (2, 64, 8),
        "inputs": Inputs("5f0c"),
        "provenance": Provenance("ab12", "g++", "0.1", "2.13.0"),
        "order_hash": "o1",
        "bits": "b1",
    }
    return Run(**fields | changes)
