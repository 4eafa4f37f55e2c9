"""The order-exact linear layer beside `torch.nn.functional.linear`, at the same thread count.

    python benchmarks/linear.py [--quick] [--out FILE] [--page]

Processes, one for each, take turns: threads of one library that spin after their work would slow
the other. Every ratio is the median over pairs of neighbouring turns, above 1 where ours is faster.
For one thread there is also the ratio of CPU times, in which other work of the machine counts less.
`read` is the bandwidth of a plain sum over the weight in the same run. Before it is timed, each
case is compared with the kernel on the twin, on raw bits, for a part of the vocabulary.

All of them read the same weight, a file in memory that each process maps: how fast memory is read
depends on its pages (their size, and whether they follow each other), and two copies of a tensor
were seen to differ by 1.6 times. What pages they are is in the result.

bf16 has a second peer: torch kept from the AVX512-BF16 instructions by ONEDNN_MAX_CPU_ISA, which is
what torch does where a CPU has none. What an odd size loses is measured on ours alone: speed (in
products a second) at an odd H or V against the even neighbour; at an odd N against the mean time of
N - 1 and N + 1. `--page` writes the table into docs/host-kernels.md.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from _common import run_with_table, spread

WIDTH, VOCAB = 4096, 20000
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
HALF_ROWS = (1, 2, 4, 8, 32)
ODD = ((3, 4096, 20000), (7, 4096, 20000), (17, 4096, 20000), (33, 4096, 20000),
       (8, 4097, 20000), (8, 4095, 20000), (8, 4096, 20001), (33, 4097, 20001))  # fmt: skip
# oneDNN reads it once, when it is loaded.
PLAIN = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
TILE = 1024
RUNS = 3  # calls of a turn; their median counts
TWIN_VOCAB = 33  # rows of weight that the twin computes too


class Worker:
    """A process that has the tensors and runs one of the candidates when it is told to."""

    def __init__(self, who: str, folder: str, **environment: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        given = (who, other, folder, environment)
        self._process = context.Process(target=_serve, args=given, daemon=True)
        self._process.start()
        other.close()  # else the end of a worker that dies would never be seen

    def ask(self, *what: Any) -> Any:
        self._pipe.send(what)
        return self._pipe.recv()


def pages() -> dict[str, Any]:
    """What pages a weight has: whether files in memory may have large ones, and how much has."""
    enabled = Path("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
    rollup = Path("/proc/self/smaps_rollup").read_text().splitlines()
    large = sum(int(line.split()[1]) for line in rollup if "ShmemPmdMapped" in line)
    found = enabled.read_text().split("[")[1].split("]")[0] if enabled.exists() else "unknown"
    return {"page_bytes": os.sysconf("SC_PAGESIZE"), "large_pages": found, "in_large_kib": large}


def _serve(who: str, pipe: Any, folder: str, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    import torch

    import workbench as wb
    from workbench.orders.linear import linear

    config = wb.KernelConfig(tile_length=TILE)
    weights: dict[tuple, Any] = {}

    def file_of(key: tuple) -> Path:
        return Path(folder, "-".join(map(str, key)))

    def tensors(dtype: str, rows: int, width: int, vocab: int) -> tuple:
        key, kind = (dtype, width, vocab), getattr(torch, dtype)
        if key not in weights:
            while len(weights) > 1:  # an odd size and its neighbour
                old = next(iter(weights))
                del weights[old]
                if who == "ours":  # the others ask for it no more either
                    file_of(old).unlink()
            path, drawn = file_of(key), not file_of(key).exists()
            options = {"shared": True, "size": vocab * width, "dtype": kind}
            weights[key] = torch.from_file(str(path), **options).view(vocab, width)
            if drawn:  # by whoever is asked first
                g = torch.Generator().manual_seed(1)
                weights[key].copy_(torch.randn(vocab, width, generator=g))
        g = torch.Generator().manual_seed(rows)
        return torch.randn(rows, width, generator=g).to(kind), weights[key]

    def run(hidden: Any, weight: Any, threads: int) -> Any:
        if who == "ours":
            return linear(hidden, weight, config, threads=threads)
        return torch.nn.functional.linear(hidden, weight)

    while True:
        try:
            task, *rest = pipe.recv()
        except EOFError:  # the parent has ended
            return
        if task == "time":
            *case, threads, runs = rest
            torch.set_num_threads(threads)
            hidden, weight = tensors(*case)
            run(hidden, weight, threads)  # the caches and the clock are as in a loop
            wall, cpu = [], []
            for _ in range(runs):
                start = time.perf_counter(), time.process_time()
                run(hidden, weight, threads)
                wall.append(time.perf_counter() - start[0])
                cpu.append(time.process_time() - start[1])
            pipe.send((statistics.median(wall), statistics.median(cpu)))
        elif task == "read":
            *case, threads = rest
            torch.set_num_threads(threads)
            _, weight = tensors(*case)
            words = weight.view(-1).view(torch.float64)
            words.sum()  # as above
            taken_each = []
            for _ in range(RUNS):
                begin = time.perf_counter()
                words.sum()
                taken_each.append(time.perf_counter() - begin)
            moved = weight.numel() * weight.element_size()
            pipe.send(moved / statistics.median(taken_each) / 1e9)
        elif task == "pages":
            pipe.send(pages())
        elif task == "bits":
            hidden, weight = tensors(*rest)
            kernel = wb.build("lm_head", config, backend="twin")
            part = weight[:TWIN_VOCAB]
            view = torch.int32 if weight.element_size() == 4 else torch.int16
            ours = linear(hidden, weight, config)[:, :TWIN_VOCAB].contiguous().view(view)
            pipe.send(bool((ours == kernel(hidden, part).view(view)).all()))


def measured(workers: dict[str, Worker], case: tuple, threads: int, pairs: int) -> dict:
    dtype, rows, width, vocab = case
    ours = workers["ours"]
    assert ours.ask("bits", *case), f"{case}: bits differ from the twin's"
    asked = {w: p for w, p in workers.items() if w != "torch_plain" or dtype == "bfloat16"}
    wall: dict[str, list[float]] = {who: [] for who in asked}
    cpu: dict[str, list[float]] = {who: [] for who in asked}
    read = []
    rest = 0.25 if threads > 1 else 0
    for _ in range(pairs):
        for who, worker in asked.items():
            taken, used = worker.ask("time", *case, threads, RUNS)
            wall[who].append(taken)
            cpu[who].append(used)
            time.sleep(rest)  # the threads of torch go to sleep
        if rows == 1:
            read.append(ours.ask("read", *case, threads))
            time.sleep(rest)

    def all_ratios(times: dict[str, list[float]], peer: str = "torch") -> list[float]:
        return [t / o for o, t in zip(times["ours"], times[peer], strict=True)]

    def faster(times: dict[str, list[float]], peer: str = "torch") -> float:
        return round(statistics.median(all_ratios(times, peer)), 3)

    seconds = {name: statistics.median(t) for name, t in wall.items()}
    flops = 2.0 * rows * width * vocab
    found = {
        "dtype": dtype,
        "rows": rows,
        "width": width,
        "vocab": vocab,
        "threads": threads,
        "bits_equal_twin": True,
        "times_faster": faster(wall),
        "times_faster_range": [round(f(all_ratios(wall)), 3) for f in (min, max)],
        "gflops": {name: round(flops / t / 1e9, 1) for name, t in seconds.items()},
    }
    if "torch_plain" in asked:
        found["times_faster_than_plain"] = faster(wall, "torch_plain")
    if threads == 1:  # of several threads the time that they spin would count as well
        found["times_faster_by_cpu_time"] = faster(cpu)
    if read:
        moved = width * vocab * (4 if dtype == "float32" else 2)
        found["gb_per_s"] = {name: round(moved / t / 1e9, 1) for name, t in seconds.items()}
        found["gb_per_s"]["read"] = round(statistics.median(read), 1)
        shares = [moved / o / 1e9 / r for o, r in zip(wall["ours"], read, strict=True)]
        found["of_read_bandwidth"] = round(statistics.median(shares), 2)
    return found


def table(result: dict) -> str:
    """Markdown: a line for each case, both thread counts beside each other."""
    where, found = result["machine"], {}
    for cell in result["cells"]:
        case = (cell["dtype"], cell["rows"], cell["width"], cell["vocab"])
        found.setdefault(case, {})[cell["threads"]] = cell
    lines = [
        f"{where['cpu']}, torch {where['torch']}, {where['compiler']}; method 1, tile {TILE}; "
        f"medians over {result['pairs']} pairs; load before the run {where['load_before']} on "
        f"{where['cores']} cores; all read one weight, in pages of "
        f"{result['pages']['page_bytes']} bytes ({result['pages']['in_large_kib']} KiB in large "
        "ones).",
        "",
        "| dtype | N | H | V | times faster, 1 and 2 threads | by CPU time, 1 thread | "
        "GFLOP/s, ours | torch | of the read bandwidth | than torch without AVX512-BF16 |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (dtype, rows, width, vocab), by_threads in found.items():
        cells = [by_threads[t] for t in sorted(by_threads)]
        faster = ", ".join(f"{c['times_faster']:.2f}" for c in cells)
        ours, theirs = (
            ", ".join(f"{c['gflops'][who]:.0f}" for c in cells) for who in ("ours", "torch")
        )
        read = ", ".join(str(c.get("of_read_bandwidth", "")) for c in cells).strip(", ")
        plain = (str(c.get("times_faster_than_plain", "")) for c in cells)
        beside = ", ".join(plain).strip(", ")
        lines.append(
            f"| {dtype} | {rows} | {width} | {vocab} | {faster} | "
            f"{cells[0].get('times_faster_by_cpu_time', '')} | {ours} | {theirs} | {read} | "
            f"{beside} |"
        )
    return "\n".join(lines)


def odd_cases(vocab: int) -> dict[str, list[tuple]]:
    """(odd case, the even ones that it is measured against) for each axis."""
    return {
        "N": [
            ((n, WIDTH, vocab), [(n - 1, WIDTH, vocab), (n + 1, WIDTH, vocab)])
            for n in (3, 7, 17, 33)
        ],
        "H": [((8, h, vocab), [(8, WIDTH, vocab)]) for h in (WIDTH - 1, WIDTH + 1)],
        "V": [((n, WIDTH, vocab + 1), [(n, WIDTH, vocab)]) for n in (8, 33)],
    }


def lost(ours: Worker, odd: tuple, even: list[tuple], pairs: int) -> dict[str, Any]:
    """The share of its speed that ours has at an odd size, one thread."""
    shares = []
    for _ in range(pairs):
        times = [ours.ask("time", "float32", *case, 1, RUNS)[0] for case in [*even, odd]]
        work = [rows * width * vocab for rows, width, vocab in [*even, odd]]
        speed = work[-1] / times[-1]
        shares.append(speed / (sum(work[:-1]) / sum(times[:-1])))
    return {"shape": odd, "against": even, "keeps": spread(shares)}


def measure(quick: bool) -> dict[str, Any]:
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="workbench-linear-", dir=memory) as folder:
        return measured_in(folder, quick)


def measured_in(folder: str, quick: bool) -> dict[str, Any]:
    vocab, pairs = (1000, 3) if quick else (VOCAB, 7)
    workers = {
        "ours": Worker("ours", folder),
        "torch": Worker("torch", folder),
        "torch_plain": Worker("torch", folder, **PLAIN),
    }
    cases = [("float32", rows, WIDTH, vocab) for rows in ((1, 2, 32) if quick else ROWS)]
    if not quick:
        cases += [("float32", *shape) for shape in ODD]
    halves = (1, 2) if quick else HALF_ROWS
    cases += [(d, r, WIDTH, vocab) for d in ("bfloat16", "float16") for r in halves]
    cells = []
    for case, threads in itertools.product(cases, (1, 2)):
        cells.append(measured(workers, case, threads, pairs))
        print(cells[-1], flush=True)
    odd = {
        axis: [lost(workers["ours"], *case, pairs) for case in given[: 1 if quick else None]]
        for axis, given in odd_cases(vocab).items()
    }
    return {
        "what": f"times that linear is faster than torch.nn.functional.linear, method 1, tile "
        f"{TILE}",
        "runs": pairs,
        "pairs": pairs,
        "pages": workers["ours"].ask("pages"),
        "cells": cells,
        "odd": odd,
    }


if __name__ == "__main__":
    run_with_table(measure, __doc__, table, "host-kernels.md", "linear")
