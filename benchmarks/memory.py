"""Memory of the order-exact linear layer at the full width of Qwen3-8B, beyond inputs and output.

    python benchmarks/memory.py [--quick] [--out FILE]

59 x 4096 x 151,936 in bf16, beside `F.linear`. Each call has a process of its own, so that memory
which a call before has left to the process hides nothing. The peak is that of the resident set
(Linux: VmHWM, reset before the call), less what was resident before, less the output. A small call
before has loaded the compiled library.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _common import run, spread

MIB = 1 << 20
SHAPE, TOY = (59, 4096, 151936), (8, 512, 16384)
CANDIDATES = ("linear", "F.linear")


def status(field: str) -> int:
    """A line of /proc/self/status in bytes."""
    for words in map(str.split, Path("/proc/self/status").read_text().splitlines()):
        if words[0] == f"{field}:":
            return int(words[1]) << 10
    raise LookupError(field)


def one_call(who: str, threads: int, rows: int, width: int, vocab: int) -> None:
    """Prints MiB beyond inputs and output, and the seconds of the call."""
    import torch

    import workbench as wb
    from workbench.orders.linear import linear

    torch.set_num_threads(threads)
    config = wb.KernelConfig(tile_length=1024)

    def call(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        if who == "linear":
            return linear(hidden, weight, config, threads=threads)
        return torch.nn.functional.linear(hidden, weight)

    sample = wb.samples.qwen3(rows, 1024, width, dtype=torch.bfloat16)
    # To draw all of the weight would take longer than all else here; no value changes a size.
    weight = torch.empty(vocab, width, dtype=torch.bfloat16)
    for part in weight.split(1024):
        part.copy_(sample.weight[: len(part)])
    call(sample.hidden[:2].clone(), weight[:8].clone())
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)  # what the sample's making has freed would hide what the call takes
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before, started = status("VmRSS"), time.perf_counter()
    out = call(sample.hidden, weight)
    took = time.perf_counter() - started
    grown, output = status("VmHWM") - before, out.numel() * out.element_size()
    assert grown > output / 2, f"{grown} bytes for an output of {output}: the peak is not seen"
    print((grown - output) / MIB, took)


def measure(quick: bool) -> dict[str, Any]:
    shape, runs = (TOY, 1) if quick else (SHAPE, 3)
    what = "MiB beyond inputs and output, {} x {} x {:,}, bf16".format(*shape)
    if not Path("/proc/self/clear_refs").exists():
        why = "the peak is read from /proc (Linux)"
        return {"what": what, "runs": 0, "measured": False, "why": why}
    found: dict[tuple, list[list[float]]] = {}
    for _ in range(runs):
        for threads in (1, 2):
            for who in CANDIDATES:
                done = subprocess.run(
                    [sys.executable, __file__, "call", who, *map(str, (threads, *shape))],
                    check=True,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                found.setdefault((who, threads), []).append([*map(float, done.stdout.split())])
    cells = [
        {
            "who": who,
            "threads": threads,
            "mib": spread([mib for mib, _ in calls]),
            "seconds": spread([took for _, took in calls]),
        }
        for (who, threads), calls in found.items()
    ]
    rows, width, vocab = shape
    return {
        "what": what,
        "runs": runs,
        "measured": True,
        "inputs_mib": 2 * width * (rows + vocab) / MIB,
        "output_mib": 2 * rows * vocab / MIB,
        "cells": cells,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["call"]:
        one_call(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        run(measure, __doc__)
