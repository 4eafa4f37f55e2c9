"""Sweeps over configurations, and the record of their runs.

`workbench.sweep` is a package and a function: `wb.sweep(space)` is
`workbench.sweep.runner.sweep`. Importing it loads neither torch nor numpy: worker processes and
readers of a record start here.
"""

from __future__ import annotations

import importlib
from typing import Any

from workbench._callable import make_callable

# public name -> module that has it
_LAZY = {
    "Cost": "cost_model",
    "InputRef": "fixtures",
    "NothingToChoose": "bit_classes",
    "Record": "record",
    "RecordError": "record",
    "Run": "run",
    "Space": "space",
    "SweepResult": "result",
    "calibrate": "calibration",
    "cost": "cost_model",
    "in_class_of": "bit_classes",
    "pareto": "choose",
    "rank": "ranking",
    "recommend": "choose",
    "recommend_each": "choose",
    "search": "searching",
}

__all__ = [*_LAZY]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'workbench.sweep' has no attribute {name!r}")
    return getattr(importlib.import_module(f"workbench.sweep.{_LAZY[name]}"), name)


def _sweep(
    space: Any,
    inputs: Any = "smollm2",
    store: Any = "runs.sqlite",
    client: Any = None,
    workers: int | None = None,
    resume: bool = True,
    progress: Any = None,
    **options: Any,
) -> Any:
    """Measure every configuration of `space` on every input, and record each run as it ends.

    The whole of it, with arguments, options and errors, is at `workbench.sweep.runner.sweep`.

    Example:
        >>> import tempfile, workbench as wb
        >>> space = wb.sweep.Space(tiles=(64, 128), shapes=[(2, 16)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = wb.sweep(space, store=f"{folder}/r.sqlite", workers=0, progress=False)
        >>> len(found.runs)
        2
    """
    from workbench.sweep.runner import sweep

    return sweep(space, inputs, store, client, workers, resume, progress, **options)


make_callable(__name__, _sweep)
