"""The deterministic backward of the LM head on the twin, beside torch's products ("matmul").

    python benchmarks/backward.py [--quick] [--out FILE]

One thread each, in turn, all gradients. A ratio is the time of "deterministic" over that of
"matmul" (1 would be as fast).
"""

from __future__ import annotations

import os
from typing import Any

import torch
from _common import in_turn, ratios, run, spread

import workbench as wb
from workbench.ops import AscendLMHeadOp

WIDTH = 4096


def compared(dtype: torch.dtype, rows: int, vocab: int, runs: int) -> dict[str, Any]:
    sample = wb.samples.qwen3(rows=rows, vocab=vocab, dtype=dtype)
    hidden, weight = (t.clone().requires_grad_() for t in (sample.hidden, sample.weight))
    upstream = torch.randn(rows, vocab, generator=torch.Generator().manual_seed(0)).to(dtype)

    def gradients(mode: str) -> Any:
        config = wb.KernelConfig(schedule="weight_stationary")
        out = AscendLMHeadOp(config, "twin", backward=mode)(hidden, weight)
        return lambda: torch.autograd.grad(out, (hidden, weight), upstream, retain_graph=True)

    times = in_turn({mode: gradients(mode) for mode in ("deterministic", "matmul")}, runs)
    spreads = ratios(times["deterministic"], times["matmul"])
    return {
        "dtype": str(dtype).removeprefix("torch."),
        "rows": rows,
        "ratio": spreads["median"],
        "ratio_spread": spreads,
        "seconds": {mode: spread(values) for mode, values in times.items()},
    }


def measure(quick: bool) -> dict[str, Any]:
    runs, vocab, counts = (3, 200, (2,)) if quick else (5, 8000, (2, 8, 32))
    torch.set_num_threads(1)
    os.environ["WORKBENCH_THREADS"] = "1"  # of the twin
    table = [
        compared(dtype, rows, vocab, runs)
        for dtype in (torch.float32, torch.bfloat16)
        for rows in counts
    ]
    what = f"backward of the LM head on the twin, rows x {WIDTH} x {vocab}, 1 thread, seconds"
    return {"what": what, "runs": runs, "table": table}


if __name__ == "__main__":
    run(measure, __doc__)
