"""The figure of each benchmark. Takes its JSON; computes nothing but what a title says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from _musts import (
    AIM,
    CACHED_MS,
    COLD_S,
    IMPORT_S,
    MEMORY_MIB,
    MUST,
    MUST_16,
    MUST_READ,
    SWEEP_S,
    operators,
)
from _telling import SHORT, Result, number
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from workbench.plots import style

BLUE, ORANGE, GREEN, PINK, SKY = style.CATEGORIES[:5]
MARKS = ("o", "s", "D", "^")
DTYPES = {"float32": (BLUE, "o"), "bfloat16": (ORANGE, "s"), "float16": (GREEN, "D")}


def evidence(result: Result) -> str:
    m = result["machine"]
    parts = [
        "QUICK RUN, no measurement" if result.get("quick") else "",
        result["what"],
        f"medians over {result['runs']} alternating runs" if result["runs"] > 1 else "one run",
        f"{m['cpu']}, {m['cores']} cores, torch {m['torch']}, load before {m['load_before']}",
        "twin and host code on a CPU, no Ascend hardware",
    ]
    return " · ".join(filter(None, parts))


def plain(value: float, _: Any = None) -> str:
    return f"{value:,.10g}"


def log_axis(axis: Any, ticks: Sequence[float]) -> None:
    """Numbers as people write them, at these places only."""
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_locator(NullLocator())
    axis.set_ticks([*ticks])


def steps(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … over a range, fewer where that would be many."""
    each = [m * 10.0**p for p in range(-6, 7) for m in (1, 2, 5)]
    found = [v for v in each if low <= v <= high]
    return found if len(found) < 9 else [v for v in found if f"{v:e}"[0] == "1"]


@dataclass(frozen=True)
class Dot:
    """One line of a dot plot: a median with its range, or a median alone."""

    label: str
    median: float
    low: float
    high: float
    color: str = BLUE
    mark: str = "o"


def dot(label: str, found: dict[str, float], color: str = BLUE, mark: str = "o", scale=1.0) -> Dot:
    return Dot(label, *(scale * found[k] for k in ("median", "min", "max")), color, mark)


def dots(ax: Axes, lines: Sequence[Dot], unit: str, label: str, *, log: bool = True) -> None:
    for place, line in enumerate(lines):
        ax.plot([line.low, line.high], [place, place], color=line.color, lw=2.5, alpha=0.6)
        ax.plot([line.median], [place], line.mark, color=line.color, ms=9)
        ax.annotate(
            f"{number(line.median)}{unit}", (line.high, place), (10, 0),
            textcoords="offset points", va="center", fontsize=10.5, color=style.INK, zorder=4,
            bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
        )  # fmt: skip
    ax.set_yticks(range(len(lines)), [line.label for line in lines])
    ax.set_ylim(len(lines) - 0.4, -0.9)  # room above the first for the words at a mark
    ax.set_xlabel(label)
    style.plain_axes(ax)
    ax.grid(axis="x", color=style.FAINT, linewidth=0.8)
    ax.set_axisbelow(True)
    if log:
        low, high = min(x.low for x in lines), max(x.high for x in lines)
        low, high = low / 1.6, high * max(2.0, (high / low) ** 0.2)  # room for the last number
        ax.set_xscale("log")
        ax.set_xlim(low, high)
        log_axis(ax.xaxis, steps(low, high))
    else:
        ax.set_xlim(min(0.0, *(1.15 * x.low for x in lines)), 1.25 * max(x.high for x in lines))


def mark(ax: Axes, at: float, words: str, color: str = style.ACCENT) -> None:
    """A vertical line with its words at the top, in view."""
    low, high = ax.get_xlim()
    ax.set_xlim(min(low, at / 1.3 if low > 0 else low), max(high, 1.35 * at))
    ax.axvline(at, color=color, lw=1.6, ls="--", zorder=1)
    ax.annotate(
        words, (at, 1), (4, -2), xycoords=("data", "axes fraction"), textcoords="offset points",
        va="top", fontsize=10, color=color,
    )  # fmt: skip


# ---- linear --------------------------------------------------------------------------------------


def linear(result: Result) -> Figure:
    shape = result["cells"][0]["width"], result["cells"][0]["vocab"]
    cells = [c for c in result["cells"] if (c["width"], c["vocab"]) == shape and c["rows"] in MUST]
    fp32 = [c for c in cells if c["dtype"] == "float32"]
    met = sum(c["times_faster"] >= MUST[c["rows"]] for c in fp32)
    halves = [c for c in cells if c["dtype"] != "float32" and c["rows"] > 1]
    met_16 = sum(c["times_faster"] >= MUST_16 for c in halves)
    fig = style.figure(
        14,
        5.6,
        f"Order-exact linear: {met} of {len(fp32)} points of fp32 reach their Must, "
        f"{met_16} of {len(halves)} of bf16 and fp16 at N ≥ 2",
        evidence(result) + f" · H, V = {shape[0]:,}, {shape[1]:,} · ranges: smallest to largest",
    )
    axes = fig.subplots(1, 3, sharey=True, width_ratios=(1.5, 1, 1))
    top = max(c.get("times_faster_range", [0, c["times_faster"]])[1] for c in cells)
    low = min(c.get("times_faster_range", [c["times_faster"]])[0] for c in cells)
    for ax, dtype in zip(axes, DTYPES, strict=True):
        own = [c for c in cells if c["dtype"] == dtype]
        ax.axhline(1, color=style.INK, lw=1.4)
        for threads, color, symbol in ((1, BLUE, "o"), (2, ORANGE, "s")):
            mine = [c for c in own if c["threads"] == threads]
            label, aside = (f"{threads} thread{'s' * (threads > 1)}", 0.94 + 0.04 * threads)
            _line(ax, mine, "times_faster", color, symbol, label, aside)
        beside = [c for c in own if c["threads"] == 1 and "times_faster_than_plain" in c]
        if beside:
            label = "1 thread, beside torch without AVX512-BF16"
            _line(ax, beside, "times_faster_than_plain", PINK, "^", label, 1.0)
        rows = sorted({c["rows"] for c in own})
        for n in rows:
            wanted = MUST[n] if dtype == "float32" else MUST_16
            if dtype == "float32" or n > 1:
                _short(ax, n, wanted, style.ACCENT, "-", "Must" if n == rows[-1] else None)
            if dtype == "float32":
                _short(ax, n, AIM[n], GREEN, ":", "aim" if n == rows[-1] else None)
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(rows, [str(n) for n in rows])
        first = [c["of_read_bandwidth"] for c in own if "of_read_bandwidth" in c]
        if first and dtype != "float32":  # the Must at N = 1 is another one
            words = f"N = 1: {min(first):.2f} of the read bandwidth (Must {MUST_READ})"
            ax.text(0.03, 0.03, words, transform=ax.transAxes, fontsize=9.5, color=style.ACCENT)
        ax.set_ylim(low / 1.5, top * 3.2)  # room for the legend
        log_axis(ax.yaxis, [v for v in (0.25, 0.5, 1, 2, 4, 8, 16) if low / 1.5 < v < top * 2])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlim(rows[0] / 1.5, rows[-1] * 1.5)
        ax.set_xlabel("N, rows of hidden")
        ax.set_title(SHORT[dtype], loc="left", fontsize=13, color=style.INK)
        style.plain_axes(ax, grid=True)
        ax.legend(loc="upper left", fontsize=9.5, frameon=False, ncols=2 if not beside else 1)
    axes[0].set_ylabel("times as fast as F.linear (1: as fast)")
    return fig


def _line(
    ax: Axes, cells: list[dict], key: str, color: str, symbol: str, label: str, aside: float
) -> None:
    cells = sorted(cells, key=lambda c: c["rows"])
    at = [c["rows"] * aside for c in cells]
    ax.plot(at, [c[key] for c in cells], symbol + "-", color=color, lw=1.6, ms=7, label=label)
    for x, cell in zip(at, cells, strict=True):
        if key == "times_faster" and "times_faster_range" in cell:
            ax.plot([x, x], cell["times_faster_range"], color=color, lw=2.4, alpha=0.45)


def _short(ax: Axes, n: int, y: float, color: str, dashes: str, label: str | None) -> None:
    ax.plot([n / 1.25, n * 1.25], [y, y], color=color, lw=2.4, ls=dashes, label=label)


# ---- times ---------------------------------------------------------------------------------------


def rebuild(result: Result) -> Figure:
    peer = result["peer_torch_cpp_extension"]
    lines = []
    for name, found in operators(result).items():
        lines.append(dot(f"{name}, cold", found["cold"], BLUE, "o", 1e3))
    for name, found in operators(result).items():
        lines.append(dot(f"{name}, cached on disk", found["cached_on_disk"], GREEN, "D", 1e3))
    lines.append(dot("torch.utils.cpp_extension.load", peer, ORANGE, "s", 1e3))
    fig = style.figure(
        12,
        2.2 + 0.42 * len(lines),
        f"A changed constant runs again {result['times_faster_than_peer']:.0f} times as soon as "
        "with torch's own JIT",
        evidence(result),
    )
    ax = fig.subplots()
    dots(ax, lines, " ms", "milliseconds to a first result (log scale)")
    mark(ax, 1e3 * COLD_S, "Must, cold")
    mark(ax, CACHED_MS, "Must, cached")
    return fig


def memory(result: Result) -> Figure:
    lines = [
        dot(f"{c['who']}, {c['threads']} thread{'s' * (c['threads'] > 1)}", c["mib"],
            *((BLUE, "o") if c["who"] == "linear" else (ORANGE, "s")))
        for c in sorted(result["cells"], key=lambda c: c["who"] != "linear")
    ]  # fmt: skip
    most = max(line.high for line in lines if line.color == BLUE)
    fig = style.figure(
        11,
        3.6,
        f"At full width the linear layer holds at most {most:.2g} MiB beyond inputs and output",
        evidence(result),
    )
    ax = fig.subplots()
    dots(ax, lines, " MiB", "MiB beyond inputs and output", log=False)
    mark(ax, MEMORY_MIB, "Must")
    return fig


def sweep(result: Result) -> Figure:
    peer = result["one_after_another"]
    lines = [
        dot("workbench sweep, from nothing", result["seconds"]),
        dot("its processor seconds", result["processor_seconds"], SKY, "D"),
        Dot("one after another", *[peer["seconds"]] * 3, ORANGE, "s"),
    ]
    fig = style.figure(
        11,
        3.4,
        f"{result['configurations']} configurations in {result['seconds']['median']:.0f} s, "
        f"{result['times_faster']['median']:.1f} times as fast as one after another",
        evidence(result),
    )
    ax = fig.subplots()
    dots(ax, lines, " s", "seconds", log=False)
    mark(ax, SWEEP_S, "Must")
    return fig


def startup(result: Result) -> Figure:
    found = result["beyond_torch"]
    fig = style.figure(
        13,
        3.6,
        f"import workbench adds {1e3 * found['import']['median']:.0f} ms to import torch",
        evidence(result),
    )
    left, right = fig.subplots(1, 2, width_ratios=(1.2, 1))
    names = {
        "nothing": "nothing",
        "torch": "torch (the peer)",
        "workbench": "workbench",
        "both": "torch, workbench",
        "used": "and what a first cell uses",
    }
    lines = [
        dot(words, result["seconds"][name], *((ORANGE, "s") if name == "torch" else (BLUE, "o")))
        for name, words in names.items()
    ]
    dots(left, lines, " s", "seconds of a process that imports", log=False)
    lines = [dot("import", found["import"]), dot("import and use", found["used"], SKY, "D")]
    dots(right, lines, " s", "seconds in a process that has torch", log=False)
    mark(right, IMPORT_S, "Must, import")
    return fig


def growth(result: Result) -> Figure:
    panels = [
        *(("order-exact linear", p) for p in result["panels"]["linear"]),
        *(("logp", p) for p in result["panels"]["logp"]),
        *(("LM head on the twin", p) for p in result["panels"]["twin"]),
    ]
    last = [next(iter(panel["lines"].values()))["last"] for _, panel in panels]
    fig = style.figure(
        15,
        8,
        f"A size doubled: time grows with its power {min(last):.2f} to {max(last):.2f} "
        "(1: in proportion)",
        evidence(result) + " · ranges: smallest to largest · dotted: in proportion",
    )
    axes = fig.subplots(2, 4).ravel()
    for ax, (name, panel) in zip(axes, panels, strict=False):
        _growth(ax, name, panel)
    for ax in axes[len(panels) :]:  # what is left over
        ax.set_axis_off()
    return fig


def _growth(ax: Axes, title: str, panel: dict[str, Any]) -> None:
    sizes = panel["sizes"]
    for (name, found), color, symbol in zip(
        panel["lines"].items(), (BLUE, ORANGE), ("o", "s"), strict=True
    ):
        middle = [1e3 * s["median"] for s in found["seconds"]]
        low, high = ([1e3 * s[end] for s in found["seconds"]] for end in ("min", "max"))
        ax.fill_between(sizes, low, high, color=color, alpha=0.2, lw=0)
        label = f"{name}: slope {found['slope']:.2f}, last {found['last']:.2f}"
        ax.plot(sizes, middle, symbol + "-", color=color, lw=1.6, ms=6, label=label)
    first = next(iter(panel["lines"].values()))["seconds"]
    end = 1e3 * first[-1]["median"]
    ax.plot(sizes, [end * s / sizes[-1] for s in sizes], color=style.SOFT, lw=1, ls=":", zorder=0)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    high *= (high / low) ** 0.35  # room for the legend
    ax.set_ylim(low, high)
    log_axis(ax.yaxis, steps(low, high))
    ax.set_xticks(sizes, [f"{s:,}" for s in sizes], rotation=35, ha="right")
    ax.xaxis.set_minor_locator(NullLocator())
    fixed = ", ".join(
        f"{k} {v:,}"
        for k, v in panel["base"].items()
        if k != panel["axis"] and (k, title) != ("H", "logp")
    )
    ax.set_xlabel(panel["axis"])
    ax.set_ylabel("ms")
    ax.set_title(f"{title}; {fixed}", loc="left", fontsize=11.5)
    style.plain_axes(ax, grid=True)
    ax.tick_params(axis="x", labelsize=9.5)
    ax.legend(loc="upper left", fontsize=9.5, frameon=False)


# ---- ratios --------------------------------------------------------------------------------------


def _of_one(fig: Figure, lines: Sequence[Dot], label: str, words: str) -> Figure:
    ax = fig.subplots()
    dots(ax, lines, "", label)
    mark(ax, 1, words, style.INK)
    return fig


def _range(row: dict, key: str = "ratio_spread") -> dict[str, float]:
    """Of results made before ranges were kept: the median alone."""
    return row.get(key) or dict.fromkeys(("median", "min", "max"), row["ratio"])


def twin(result: Result) -> Figure:
    lines = [
        dot(f"{SHORT[dtype]}, tile {r['tile']}", _range(r), color, symbol)
        for dtype, (color, symbol) in DTYPES.items()
        for r in result["table"]
        if r["dtype"] == dtype
    ]
    best = max(lines, key=lambda line: line.median)
    fig = style.figure(
        11,
        2.2 + 0.38 * len(lines),
        f"The twin runs a kernel at up to {best.median:.2f} of torch.mv's speed ({best.label})",
        evidence(result),
    )
    return _of_one(fig, lines, "speed, torch.mv = 1 (log scale)", "torch.mv")


def schedules(result: Result) -> Figure:
    lines = []
    for r in result["table"]:
        for k, (name, words) in enumerate(
            {"output": "output, twin", "torch.mv": "torch.mv", "F.linear": "F.linear"}.items()
        ):
            alone = dict.fromkeys(("median", "min", "max"), r["ratio"][name])
            found = r.get("ratio_spread", {}).get(name, alone)
            lines.append(dot(f"{SHORT[r['dtype']]}: {words}", found, style.CATEGORIES[k], MARKS[k]))
    ratios = [r["ratio"]["output"] for r in result["table"]]
    fig = style.figure(
        11,
        2.2 + 0.38 * len(lines),
        f"On the twin weight_stationary is {min(ratios):.1f} to {max(ratios):.1f} times as fast as "
        "output",
        evidence(result),
    )
    label = "time over that of weight_stationary (log scale)"
    return _of_one(fig, lines, label, "weight_stationary")


def backward(result: Result) -> Figure:
    lines = [
        dot(f"{SHORT[r['dtype']]}, {r['rows']} rows", _range(r), *DTYPES[r["dtype"]])
        for r in result["table"]
    ]
    found = [line.median for line in lines]
    fig = style.figure(
        11,
        2.2 + 0.38 * len(lines),
        f"The deterministic backward takes {min(found):.1f} to {max(found):.1f} times as long as "
        "torch's products",
        evidence(result),
    )
    return _of_one(fig, lines, "time, torch's products = 1 (log scale)", "torch's products")


def reveal(result: Result) -> Figure:
    lines = []
    for kernel in result["kernels"]:
        alone = kernel["one_probe_a_call"]["seconds"]
        lines.append(dot(f"{kernel['arch']}, batched", kernel["seconds"], BLUE, "o"))
        lines.append(dot(f"{kernel['arch']}, one probe a call", alone, ORANGE, "s"))
    found = [k["times_faster"]["median"] for k in result["kernels"]]
    fig = style.figure(
        11,
        3.8,
        f"Probes in batches find an order {min(found):.0f} to {max(found):.0f} times as soon as "
        "one a call",
        evidence(result),
    )
    dots(fig.subplots(), lines, " s", "seconds (log scale)")
    return fig


def parity(result: Result) -> Figure:
    lines = []
    for case in result["cases"]:
        if "ratio" not in case:
            continue
        columns = f" by [{case['columns']}, {case['n']}]" if case.get("columns") else ""
        offset = ", off its line" if any(case["offset"]) else ""
        name = f"{case['target']} [{case['rows']}, {case['n']}]{columns}{offset}"
        lines.append(Dot(name, *[case["ratio"]] * 3))
    found = sorted(line.median for line in lines)
    fig = style.figure(
        12,
        2.2 + 0.34 * len(lines),
        f"Every bit of a library's call, at {found[0]:.1f} to {found[-1]:.1f} times its time",
        evidence(result),
    )
    return _of_one(fig, lines, "time, the library = 1 (log scale)", "the library")


FIGURES: dict[str, Callable[[Result], Figure]] = {
    "linear": linear,
    "memory": memory,
    "sweep": sweep,
    "rebuild": rebuild,
    "startup": startup,
    "growth": growth,
    "twin": twin,
    "schedules": schedules,
    "backward": backward,
    "reveal": reveal,
    "parity": parity,
}
