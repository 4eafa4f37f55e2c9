"""What every benchmark here shares: medians over alternating runs, and where they were made.

A benchmark is a file with `measure(quick) -> dict` and `run(measure, __doc__)` at its end. The dict
has "what" (a line: what, sizes, threads) and "runs", and its figures as medians with a spread and
as ratios of neighbouring runs. How it is told is in _sections.py and _figures.py.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="also write the result as JSON to this file")
    parser.add_argument("--quick", action="store_true", help="few runs, small: to see it work")
    return parser.parse_args()


def seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, smallest and largest of a series."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def ratios(above: Sequence[float], below: Sequence[float]) -> dict[str, float]:
    """Spread of the ratios of neighbouring runs: what slows both of a pair cancels."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def in_turn(
    candidates: Mapping[Any, Callable[[], Any]], runs: int, calls: int = 1
) -> dict[Any, list[float]]:
    """Seconds of each candidate in `runs` rounds, one after the other in every round, as the median
    of `calls` calls. A round before these warms up and does not count."""
    times: dict[Any, list[float]] = {name: [] for name in candidates}
    for turn in range(-1, runs):
        for name, candidate in candidates.items():
            took = statistics.median(seconds(candidate) for _ in range(calls))
            if turn >= 0:
                times[name].append(took)
    return times


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


def run(measure: Callable[[bool], dict[str, Any]], description: str | None) -> dict[str, Any]:
    """The whole of a benchmark's command line; returns the result that it has printed."""
    options = arguments(description)
    where, started = machine(), time.time()
    found = measure(options.quick)
    result = {
        "benchmark": Path(sys.argv[0]).stem,
        "what": found.pop("what"),
        "quick": options.quick,
        "machine": where,
        "when": datetime.datetime.fromtimestamp(started, datetime.timezone.utc).isoformat(
            "T", "minutes"
        ),
        "took_seconds": round(time.time() - started, 1),
        **found,
    }
    text = json.dumps(result, indent=2, allow_nan=False)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n", "utf-8")
    return result


def run_with_table(
    measure: Callable[[bool], dict[str, Any]],
    description: str | None,
    table: Callable[[dict[str, Any]], str],
    page: str,
    name: str,
) -> None:
    """`run`; `--page` writes the table into docs/`page`, between the comments of that name."""
    wanted = "--page" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--page"]
    result = run(measure, description)
    if wanted:
        begin, end, to = f"<!-- {name} table -->", f"<!-- /{name} table -->", DOCS / page
        head, rest = to.read_text("utf-8").split(begin)
        to.write_text(f"{head}{begin}\n{table(result)}\n{end}{rest.split(end)[1]}", "utf-8")
