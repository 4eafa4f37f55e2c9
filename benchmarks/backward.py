"""The deterministic backward of the LM head on the twin, beside torch's products ("matmul").

    python benchmarks/backward.py [--quick] [--out FILE]

One thread each, in turn, all gradients. A ratio is the time of "deterministic" over that of
"matmul" (1 would be as fast).
"""

from __future__ import annotations

import os
import statistics
from typing import Any

import torch
from _common import arguments, finish, machine, seconds, spread

import workbench as wb
from workbench.ops import AscendLMHeadOp

WIDTH = 4096


def measure(dtype: torch.dtype, rows: int, vocab: int, runs: int) -> dict[str, Any]:
    sample = wb.samples.qwen3(rows=rows, vocab=vocab, dtype=dtype)
    hidden, weight = (t.clone().requires_grad_() for t in (sample.hidden, sample.weight))
    upstream = torch.randn(rows, vocab, generator=torch.Generator().manual_seed(0)).to(dtype)
    times: dict[str, list[float]] = {}
    outs = {
        mode: AscendLMHeadOp(wb.KernelConfig(schedule="weight_stationary"), "twin", backward=mode)(
            hidden, weight
        )
        for mode in ("deterministic", "matmul")
    }
    for turn in range(runs + 1):
        for mode, out in outs.items():
            took = seconds(
                lambda out=out: torch.autograd.grad(
                    out, (hidden, weight), upstream, retain_graph=True
                )
            )
            if turn:  # the first one builds and warms up
                times.setdefault(mode, []).append(took)
    pairs = zip(times["deterministic"], times["matmul"], strict=True)
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "rows": rows,
        "ratio": statistics.median(a / b for a, b in pairs),
        "seconds": {mode: spread(values) for mode, values in times.items()},
    }


def main() -> None:
    options = arguments(__doc__)
    runs = 3 if options.quick else 5
    vocab = 1000 if options.quick else 8000
    torch.set_num_threads(1)
    os.environ["WORKBENCH_THREADS"] = "1"  # of the twin
    where = machine()
    table = [
        measure(dtype, rows, vocab, runs)
        for dtype in (torch.float32, torch.bfloat16)
        for rows in (2, 8, 32)
    ]
    what = f"backward of the LM head on the twin, rows x {WIDTH} x {vocab}, 1 thread, seconds"
    finish({"what": what, "machine": where, "runs": runs, "table": table}, options.out)


if __name__ == "__main__":
    main()
