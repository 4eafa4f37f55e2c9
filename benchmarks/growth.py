"""How time grows with N, H and V: the order-exact linear layer, the twin and logp, and their peers.

    python benchmarks/growth.py [--quick] [--out FILE]

One axis is doubled at a time and all sizes take turns in every round, so that a busier moment slows
all points of a line; a turn is the median of three calls. A slope is that of the straight line
through log(time) against log(size), by least squares: 1 is proportional. `last` is the slope of the
last doubling, where fixed costs count least. Beside the twin's time are its counters, whose laws
are exact (workbench.sweep.growth).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from _common import in_turn, run, spread

import workbench as wb
from workbench.orders.linear import linear
from workbench.orders.logp import logp
from workbench.sweep.growth import growth

AXES = ("N", "H", "V")
COUNTER = "gm_to_ub_bytes"
Calls = Mapping[str, Callable[[], Any]]


def doubled(start: int, points: int) -> tuple[int, ...]:
    return tuple(start << k for k in range(points))


def drawn(rows: int, width: int, vocab: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(rows, width, generator=draw), torch.randn(vocab, width, generator=draw)


def linear_calls(n: int, h: int, v: int) -> Calls:
    hidden, weight = drawn(n, h, v)
    config = wb.KernelConfig(tile_length=1024)
    return {
        "linear": lambda: linear(hidden, weight, config, threads=1),
        "F.linear": lambda: torch.nn.functional.linear(hidden, weight),
    }


def twin_calls(n: int, h: int, v: int) -> Calls:
    hidden, weight = drawn(n, h, v)
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=1024), backend="twin")
    return {
        "twin": lambda: kernel(hidden, weight, threads=1),
        "torch.mv": lambda: [torch.mv(weight, row) for row in hidden],
    }


def logp_calls(n: int, h: int, v: int) -> Calls:
    logits, target = drawn(n, v, 1)[0], torch.zeros(n, dtype=torch.long)
    return {
        "logp": lambda: logp(logits, target, threads=1),
        "log_softmax": lambda: torch.log_softmax(logits, -1).gather(-1, target[:, None]),
    }


def slope(sizes: Sequence[int], times: Sequence[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def line(sizes: tuple[int, ...], rounds: list[list[float]]) -> dict[str, Any]:
    """One curve: `rounds[k]` has the seconds at each size in round k."""
    median = [float(np.median(at)) for at in zip(*rounds, strict=True)]
    return {
        "seconds": [spread(at) for at in zip(*rounds, strict=True)],
        "slope": slope(sizes, median),
        "slopes_of_rounds": spread([slope(sizes, r) for r in rounds]),
        "last": slope(sizes[-2:], median[-2:]),
    }


def along(
    calls: Callable[[int, int, int], Calls], base: tuple, axis: str, sizes: tuple, runs: int
) -> dict[str, Any]:
    place = AXES.index(axis)
    shapes = [tuple(size if k == place else b for k, b in enumerate(base)) for size in sizes]
    candidates = {
        (name, size): call
        for shape, size in zip(shapes, sizes, strict=True)
        for name, call in calls(*shape).items()
    }
    times = in_turn(candidates, runs, calls=3)
    names = list(dict.fromkeys(name for name, _ in candidates))
    return {
        "axis": axis,
        "base": dict(zip(AXES, base, strict=True)),
        "sizes": sizes,
        "lines": {
            name: line(sizes, [[times[name, size][k] for size in sizes] for k in range(runs)])
            for name in names
        },
    }


def counted(base: tuple[int, int, int]) -> dict[str, Any]:
    """The laws of the bytes that the twin's LM head copies from GM."""
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=1024), backend="twin")

    def count(n: int, h: int, v: int) -> Mapping[str, int]:
        kernel(torch.ones(n, h), torch.ones(v, h), counters=True)
        return kernel.last.counters

    found = growth(count, base, (1, 2, 4))
    return {axis: str(found.law(axis, COUNTER)) for axis in AXES}


def measure(quick: bool) -> dict[str, Any]:
    torch.set_num_threads(1)
    os.environ["WORKBENCH_THREADS"] = "1"
    runs = 2 if quick else 5
    points = 3 if quick else 6
    toy = 8 if quick else 1  # divides sizes

    def sizes(start: int) -> tuple[int, ...]:
        return doubled(start, points)

    panels = {
        "linear": [
            along(linear_calls, (1, 4096, 8000 // toy), "N", doubled(1, points + 2), runs),
            along(linear_calls, (8, 4096, 8000 // toy), "H", sizes(512), runs),
            along(linear_calls, (8, 4096, 8000 // toy), "V", sizes(1250 // toy), runs),
        ],
        "twin": [
            along(twin_calls, (1, 4096, 1000 // toy), "N", sizes(1), runs),
            along(twin_calls, (2, 4096, 1000 // toy), "H", sizes(512), runs),
            along(twin_calls, (2, 4096, 1000 // toy), "V", sizes(500 // toy), runs),
        ],
        "logp": [along(logp_calls, (4, 1, 4096), "V", sizes(8192 // toy), runs)],
    }
    return {
        "what": "seconds against N, H and V, fp32, 1 thread, tile 1024, slopes on log-log axes",
        "runs": runs,
        "panels": panels,
        "counter": COUNTER,
        "laws": counted((2, 2048, 64)),
    }


if __name__ == "__main__":
    run(measure, __doc__)
