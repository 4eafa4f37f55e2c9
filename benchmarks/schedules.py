"""The two schedules of the LM head on the twin beside `torch.mv` and `F.linear`: 59 rows, H 4096.

    python benchmarks/schedules.py [--quick] [--out FILE]

Bytes are what a kernel copies from GM per logit, which does not depend on where it runs. Times are
of the twin, one thread, all four in turn; a ratio is the other's time over weight_stationary's (1
would be as fast).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from _common import in_turn, ratios, run, spread

import workbench as wb

ROWS, WIDTH = 59, 4096


def compared(dtype: torch.dtype, vocab: int, runs: int) -> dict[str, Any]:
    sample = wb.samples.qwen3(rows=ROWS, vocab=vocab, dtype=dtype)
    hidden, weight = sample.hidden, sample.weight
    kernels = {
        name: wb.build("lm_head", wb.KernelConfig(schedule=name), backend="twin")
        for name in ("output", "weight_stationary")
    }
    candidates: dict[str, Callable[[], Any]] = {
        "output": lambda: kernels["output"](hidden, weight, threads=1),
        "weight_stationary": lambda: kernels["weight_stationary"](hidden, weight, threads=1),
        "torch.mv": lambda: [torch.mv(weight, row) for row in hidden],
        "F.linear": lambda: torch.nn.functional.linear(hidden, weight),
    }
    times = in_turn(candidates, runs)
    read = {}
    for name, kernel in kernels.items():
        kernel(hidden, weight, threads=1, counters=True)
        read[name] = kernel.last.counters["gm_to_ub_bytes"] / (ROWS * vocab)
    spreads = {
        name: ratios(times[name], times["weight_stationary"])
        for name in ("output", "torch.mv", "F.linear")
    }
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "bytes_per_logit": read,
        "ratio": {name: found["median"] for name, found in spreads.items()},
        "ratio_spread": spreads,
        "seconds": {name: spread(values) for name, values in times.items()},
    }


def measure(quick: bool) -> dict[str, Any]:
    runs, vocab = (3, 64) if quick else (9, 2048)
    torch.set_num_threads(1)
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    table = [compared(dtype, vocab, runs) for dtype in dtypes]
    what = f"LM head on the twin, {ROWS} x {WIDTH} x {vocab}, 1 thread, seconds and bytes from GM"
    return {"what": what, "runs": runs, "table": table}


if __name__ == "__main__":
    run(measure, __doc__)
