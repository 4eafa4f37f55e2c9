"""The LM head on the twin beside `torch.mv`: one row, H 4096, one thread each, in turn.

    python benchmarks/twin.py [--quick] [--out FILE]

The ratio is torch.mv's time over the twin's for the same product (1 would be as fast). A second
peer is another simulation of a kernel on the CPU: a matrix-vector product written in Triton, run by
Triton's interpreter (TRITON_INTERPRET=1), where Triton is installed. That one is slow, so it is
measured at a small vocabulary; the interpreter knows no order of summation, and its ratio says what
a simulation costs, nothing else.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable
from typing import Any

import torch
from _common import in_turn, ratios, run, seconds, spread

import workbench as wb

WIDTH, BLOCK = 4096, 1024


def beside_mv(dtype: torch.dtype, tile: int, vocab: int, runs: int) -> dict[str, Any]:
    sample = wb.samples.qwen3(rows=1, vocab=vocab, dtype=dtype)
    hidden, weight = sample.hidden, sample.weight
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=tile), backend="twin")
    times = in_turn(
        {
            "twin": lambda: kernel(hidden, weight, threads=1),
            "torch.mv": lambda: torch.mv(weight, hidden[0]),
        },
        runs,
    )
    # The checked mode and the counters, beside the fast mode of the same moment.
    checked, counted = [], []
    for _ in range(3):
        fast = seconds(lambda: kernel(hidden, weight, threads=1))
        checked.append(seconds(lambda: kernel(hidden, weight, threads=1, check=True)) / fast)
        counted.append(seconds(lambda: kernel(hidden, weight, threads=1, counters=True)) / fast)
    spreads = ratios(times["torch.mv"], times["twin"])
    return {
        "checked": statistics.median(checked),
        "counters": statistics.median(counted),
        "dtype": str(dtype).removeprefix("torch."),
        "tile": tile,
        "twin": spread(times["twin"]),
        "torch.mv": spread(times["torch.mv"]),
        "ratio": spreads["median"],
        "ratio_spread": spreads,
    }


def triton_mv() -> tuple[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] | str:
    """(version, weight [V, H] fp32 and hidden [H] -> logits [V]), or why there is none.

    `tl` must be a global of this file: that is where Triton looks for it.
    """
    global tl
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton is imported
    try:
        import triton
        import triton.language as tl
    except ImportError as error:
        return f"Triton is not installed here ({error}); `pip install triton` adds this row"

    @triton.jit
    def mv(weight, hidden, out, width: tl.constexpr, block: tl.constexpr):  # type: ignore
        row = tl.program_id(0)
        total = 0.0
        for start in range(0, width, block):
            at = start + tl.arange(0, block)
            w = tl.load(weight + row * width + at, mask=at < width, other=0.0)
            x = tl.load(hidden + at, mask=at < width, other=0.0)
            total += tl.sum(w * x)
        tl.store(out + row, total)

    def call(weight: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        out = torch.empty(len(weight))
        mv[(len(weight),)](weight, hidden, out, weight.shape[1], BLOCK)
        return out

    return triton.__version__, call


def beside_triton(vocab: int, runs: int) -> dict[str, Any]:
    found = triton_mv()
    if isinstance(found, str):
        return {"measured": False, "why": found}
    version, interpreted = found
    # Small whole numbers: every order of summation gives the same sum, so a wrong kernel shows.
    draw = torch.Generator().manual_seed(0)
    hidden = torch.randint(-8, 9, (1, WIDTH), generator=draw).float()
    weight = torch.randint(-8, 9, (vocab, WIDTH), generator=draw).float()
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=BLOCK), backend="twin")
    assert torch.equal(kernel(hidden, weight)[0], interpreted(weight, hidden[0]))
    times = in_turn(
        {
            "twin": lambda: kernel(hidden, weight, threads=1),
            "triton": lambda: interpreted(weight, hidden[0]),
        },
        runs,
    )
    return {
        "measured": True,
        "version": version,
        "shape": [1, WIDTH, vocab],
        "block": BLOCK,
        "runs": runs,
        "twin": spread(times["twin"]),
        "triton": spread(times["triton"]),
        "times_faster": ratios(times["triton"], times["twin"]),
    }


def measure(quick: bool) -> dict[str, Any]:
    runs, vocab, tiles = (3, 500, (1024,)) if quick else (11, 20000, (256, 1024, 4096))
    torch.set_num_threads(1)
    table = [
        beside_mv(dtype, tile, vocab, runs)
        for dtype in (torch.float32, torch.bfloat16, torch.float16)
        for tile in tiles
    ]
    return {
        "what": f"LM head on the twin against torch.mv, 1 x {WIDTH} x {vocab}, 1 thread, seconds",
        "runs": runs,
        "table": table,
        "triton_interpreter": beside_triton(4 if quick else 64, 3 if quick else 5),
    }


if __name__ == "__main__":
    run(measure, __doc__)
