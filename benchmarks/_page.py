"""Writes docs/benchmarks.md from the JSON of the benchmarks, so that the docs quote what was run.

python benchmarks/rebuild.py --out benchmarks/results/rebuild.json
python benchmarks/twin.py --out benchmarks/results/twin.json
python benchmarks/schedules.py --out benchmarks/results/schedules.json
python benchmarks/backward.py --out benchmarks/results/backward.json
python benchmarks/reveal.py --out benchmarks/results/reveal.json
python benchmarks/_page.py
"""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"


def _machine(result: dict) -> str:
    m = result["machine"]
    return (
        f"{m['cpu']}, {m['cores']} cores, Python {m['python']}, torch {m['torch']}, "
        f"{m['compiler']}; load before the run {m['load_before']}"
    )


def _seconds(name: str, s: dict) -> str:
    return f"| {name} | {s['median']:.4g} | {s['min']:.4g} | {s['max']:.4g} |"


def _revealed(kernel: dict) -> str:
    peer = kernel["one_probe_a_call"]["calls"]
    return (
        f"| {kernel['arch']} | {kernel['calls']} | {kernel['check_calls']} | "
        f"{kernel['seconds']['median']:.2f} | {peer:,} | "
        f"{kernel['times_faster']['median']:.0f} times |"
    )


def page(rebuild: dict, twin: dict, schedules: dict, backward: dict, reveal: dict) -> str:
    rows = [
        f"| {r['dtype']} | {r['tile']} | {r['ratio']:.2f} | {r['checked']:.1f} | "
        f"{r['counters']:.2f} |"
        for r in sorted(twin["table"], key=lambda r: r["dtype"] != "float32")
    ]
    both = [
        f"| {r['dtype']} | {r['bytes_per_logit']['output']:,.0f} | "
        f"{r['bytes_per_logit']['weight_stationary']:,.0f} | {r['ratio']['output']:.2f} | "
        f"{r['ratio']['torch.mv']:.2f} | {r['ratio']['F.linear']:.3f} |"
        for r in schedules["table"]
    ]
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "Written by `make bench`. Times are of one shared, noisy machine: read the ratios,",
            "each side of which comes from the same run. All of it is the twin on a CPU; nothing",
            "here says how fast a kernel is on an NPU.",
            "",
            "## A changed constant, until the kernel has run again",
            "",
            f"{rebuild['what']}; {rebuild['variants']} variants. {_machine(rebuild)}.",
            "",
            "| seconds | median | min | max |",
            "|---|---|---|---|",
            _seconds("cold: never built, shared objects cached", rebuild["cold"]),
            _seconds("cached, loaded in this process", rebuild["cached_in_process"]),
            _seconds("cached on disk", rebuild["cached_on_disk"]),
            _seconds(
                "`torch.utils.cpp_extension.load`, the same change",
                rebuild["peer_torch_cpp_extension"],
            ),
            "",
            f"Cold is **{rebuild['times_faster_than_peer']:.0f} times** faster than the peer. The "
            f"very first build, which also compiles",
            f"the shared objects, took {rebuild['first_build_with_shared_objects']:.0f} s.",
            "",
            "## The twin beside `torch.mv`",
            "",
            f"{twin['what']}; the ratio is torch.mv's time over the twin's, median of "
            f"{twin['runs']} pairs. {_machine(twin)}.",
            "",
            "| dtype | tile | speed of the twin, torch.mv = 1 | checked mode, times fast mode | "
            "with counters |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "## The two schedules of the LM head",
            "",
            f"{schedules['what']}; median of {schedules['runs']} runs in turn. "
            f"{_machine(schedules)}.",
            "Bytes do not depend on where a kernel runs. A ratio is the other's time over that of",
            "`weight_stationary`: above 1 it is slower than that.",
            "",
            "| dtype | bytes from GM per logit, `output` | `weight_stationary` | time of "
            "`output` | of `torch.mv` per row | of `F.linear` |",
            "|---|---|---|---|---|---|",
            *both,
            "",
            "## The deterministic backward of the LM head",
            "",
            f"{backward['what']}; median of {backward['runs']} pairs. {_machine(backward)}.",
            "",
            "| dtype | rows | time of `deterministic`, `matmul` = 1 |",
            "|---|---|---|",
            *(f"| {r['dtype']} | {r['rows']} | {r['ratio']:.2f} |" for r in backward["table"]),
            "",
            "## An order revealed",
            "",
            f"{reveal['what']}; median of {reveal['runs']} runs. {_machine(reveal)}.",
            "Calls that confirm (rows are independent, the order explains other values) are",
            "counted apart. The peer asks the same function one probe a call.",
            "",
            "| arch | calls to find it (2 log2 n = 24) | to confirm | seconds | "
            "one probe a call: calls | batched is faster by |",
            "|---|---|---|---|---|---|",
            *(_revealed(k) for k in reveal["kernels"]),
            "",
            "Parity and its generated kernels: [parity.md](parity.md), written by",
            "`benchmarks/parity.py --page`.",
            "",
        ]
    )


if __name__ == "__main__":
    results = HERE / "results"
    text = page(
        json.loads((results / "rebuild.json").read_text()),
        json.loads((results / "twin.json").read_text()),
        json.loads((results / "schedules.json").read_text()),
        json.loads((results / "backward.json").read_text()),
        json.loads((results / "reveal.json").read_text()),
    )
    PAGE.write_text(text)
    print(f"wrote {PAGE}")
