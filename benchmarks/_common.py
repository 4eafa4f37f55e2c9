"""What every benchmark here shares: medians over alternating runs, and where they were made."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, help="also write the result as JSON to this file")
    parser.add_argument("--quick", action="store_true", help="fewer runs: to see that it works")
    return parser.parse_args()


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def spread(values: list[float]) -> dict[str, float]:
    """Median, smallest and largest of a series of seconds."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def machine() -> dict[str, Any]:
    """What the figures depend on; the load says how busy the machine was before the run."""
    import torch

    from workbench.build.compiler import find_cxx
    from workbench.evidence import cpu_name

    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "compiler": find_cxx().version,
        "load_before": round(os.getloadavg()[0], 2),
    }


def finish(result: dict[str, Any], out: Path | None) -> None:
    text = json.dumps(result, indent=2)
    print(text)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text + "\n")
