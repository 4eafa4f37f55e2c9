"""The sections of the page, in their order.

A section takes the JSON of its benchmark and nothing else, so the page can be written anew without
a run, and without torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from _musts import (
    CACHED_MS,
    COLD_S,
    FASTER,
    IMPORT_S,
    MEMORY_MIB,
    MUST,
    MUST_16,
    MUST_READ,
    SWEEP_S,
    growth,
    growth_rows,
    linear,
    linear_rows,
    memory,
    memory_rows,
    rebuild,
    rebuild_rows,
    startup,
    startup_rows,
    sweep,
    sweep_rows,
)
from _others import (
    backward,
    backward_rows,
    parity,
    parity_rows,
    reveal,
    reveal_rows,
    schedules,
    schedules_rows,
    twin,
    twin_rows,
)
from _telling import Result, Row


@dataclass(frozen=True)
class Section:
    """Of the page: its heading, its lines in the summary, its text."""

    title: str
    rows: Callable[[Result], list[Row]]
    body: Callable[[Result], list[str]]
    must: str = ""  # in short, for a page without its result


SECTIONS = {
    "linear": Section(
        "The order-exact linear layer beside `F.linear`",
        linear_rows,
        linear,
        "; ".join(
            (
                f"fp32: {', '.join(f'{must} at N = {n}' for n, must in MUST.items())}",
                f"bf16, fp16: {MUST_16:g} at N >= 2",
                f"{MUST_READ} of the read bandwidth at N = 1",
                "an odd N, H or V loses at most a fifth",
            )
        ),
    ),
    "memory": Section(
        "Memory at the full width of Qwen3-8B", memory_rows, memory, f"at most {MEMORY_MIB} MiB"
    ),
    "sweep": Section(
        "A sweep from nothing",
        sweep_rows,
        sweep,
        f"200 configurations in at most {SWEEP_S} s on 2 cores",
    ),
    "rebuild": Section(
        "A changed constant, until the kernel has run again",
        rebuild_rows,
        rebuild,
        f"at most {COLD_S} s cold, {CACHED_MS:g} ms cached, at least {FASTER} times faster",
    ),
    "startup": Section(
        "Start-up", startup_rows, startup, f"`import workbench`: at most {IMPORT_S} s beyond torch"
    ),
    "growth": Section(
        "How time grows",
        growth_rows,
        growth,
        "slopes of time against N, H and V plotted and stated",
    ),
    "twin": Section("The twin beside `torch.mv` and Triton's interpreter", twin_rows, twin),
    "schedules": Section("The two schedules of the LM head", schedules_rows, schedules),
    "backward": Section("The deterministic backward of the LM head", backward_rows, backward),
    "reveal": Section("An order revealed", reveal_rows, reveal),
    "parity": Section("Parity with library functions", parity_rows, parity),
}
