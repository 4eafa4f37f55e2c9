"""The two schedules of the LM head on the twin beside `torch.mv` and `F.linear`: 59 rows, H 4096.

    python benchmarks/schedules.py [--quick] [--out FILE]

Bytes are what a kernel copies from GM per logit, which does not depend on where it runs. Times are
of the twin, one thread, all four in turn; a ratio is the other's time over weight_stationary's (1
would be as fast).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from _common import arguments, finish, machine, seconds, spread

import workbench as wb

ROWS, WIDTH = 59, 4096


def measure(dtype: torch.dtype, vocab: int, runs: int) -> dict[str, Any]:
    sample = wb.samples.qwen3(rows=ROWS, vocab=vocab, dtype=dtype)
    hidden, weight = sample.hidden, sample.weight
    kernels = {
        name: wb.build("lm_head", wb.KernelConfig(schedule=name), backend="twin")
        for name in ("output", "weight_stationary")
    }
    runners: dict[str, Callable[[], Any]] = {
        "output": lambda: kernels["output"](hidden, weight, threads=1),
        "weight_stationary": lambda: kernels["weight_stationary"](hidden, weight, threads=1),
        "torch.mv": lambda: [torch.mv(weight, row) for row in hidden],
        "F.linear": lambda: torch.nn.functional.linear(hidden, weight),
    }
    times: dict[str, list[float]] = {name: [] for name in runners}
    for turn in range(runs + 1):
        for name, run in runners.items():
            took = seconds(run)
            if turn:  # the first one warms up
                times[name].append(took)
    read = {}
    for name, kernel in kernels.items():
        kernel(hidden, weight, threads=1, counters=True)
        read[name] = kernel.last.counters["gm_to_ub_bytes"] / (ROWS * vocab)
    ours = times["weight_stationary"]
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "bytes_per_logit": read,
        "ratio": {
            name: statistics.median(b / a for b, a in zip(times[name], ours, strict=True))
            for name in ("output", "torch.mv", "F.linear")
        },
        "seconds": {name: spread(values) for name, values in times.items()},
    }


def main() -> None:
    options = arguments(__doc__)
    runs = 3 if options.quick else 9
    vocab = 512 if options.quick else 2048
    torch.set_num_threads(1)
    where = machine()
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    table = [measure(dtype, vocab, runs) for dtype in dtypes]
    what = f"LM head on the twin, {ROWS} x {WIDTH} x {vocab}, 1 thread, seconds and bytes from GM"
    finish({"what": what, "machine": where, "runs": runs, "table": table}, options.out)


if __name__ == "__main__":
    main()
