"""Declared against revealed order: the grid, for the test (a part of it) and as a script.

    python tests/orders/reveal_grid.py          the part that the test takes
    python tests/orders/reveal_grid.py --all    every tile from 64 to 4096, and more of the rest

The script prints one line per case that differs, a summary, and exits with 1 if any differs. All
kernels run on the twin: the orders are those of the sources as the twin executes them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import workbench as wb
from workbench.orders.reveal import reveal
from workbench.orders.reveal.positive import agrees_by_triples, log_sum_exp, reveal_positive
from workbench.orders.tree import ReductionTree

ARCHS = ("dav-2201", "dav-3510")
DTYPES = ("fp32", "bf16", "fp16")
WIDTHS = (1, 2, 63, 64, 65, 576, 1000, 4096, 4097, 10_000)
TILES = (64, 128, 192, 256, 512, 1024, 2048, 4096)
LOGP = "batch_invariant_logp"
_FULL_LOGP = 300  # up to here every triple that is needed is asked, above it the n - 2


class Case(NamedTuple):
    op: str
    arch: str
    dtype: str
    n: int
    constants: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        constants = " ".join(f"{k}={v}" for k, v in self.constants)
        return f"{self.op} {self.arch} {self.dtype} n={self.n} {constants}"


def case(op: str, arch: str, n: int, dtype: str = "fp32", **constants: Any) -> Case:
    return Case(op, arch, dtype, n, tuple(constants.items()))


def quick() -> Iterator[Case]:
    """Each axis once: tiles, widths, schedules, dtypes, leaf lengths; both architectures."""
    for arch in ARCHS:
        for tile in TILES:  # two whole tiles and a ragged one, of the largest a whole one
            width = min(2 * tile + 65, max(tile + 65, 2113))
            yield case("lm_head", arch, width, tile_length=tile)
        for width in WIDTHS:
            yield case("lm_head", arch, width, tile_length=1024)
        for dtype in DTYPES:
            for tile in (192, 1024):
                yield case("lm_head", arch, 1500, dtype, tile_length=tile)
            yield case("lm_head", arch, 700, dtype, tile_length=192, schedule="weight_stationary")
        for vocab in (1, 64, 65, 257, 4161):
            yield case(LOGP, arch, vocab, tile_length=256)
        yield case(LOGP, arch, 257, "bf16", tile_length=64)
    for leaf in (1, 3, 64, 128):
        for depth in (1, 129, 1000):
            yield case("det_gemm", ARCHS[0], depth, leaf_length=leaf)
    for dtype in DTYPES[1:]:
        yield case("det_gemm", ARCHS[1], 300, dtype, leaf_length=64)


def every() -> Iterator[Case]:
    """All tiles that the spec allows from 64 to 4096, and what `quick` leaves out."""
    for arch in ARCHS:
        for tile in range(64, 4097, 64):
            yield case("lm_head", arch, min(2 * tile + 65, 4161), tile_length=tile)
        for dtype in DTYPES:
            for tile in TILES:
                yield case("lm_head", arch, 5000, dtype, tile_length=tile)
            for schedule in ("output", "weight_stationary"):
                for width in WIDTHS:
                    for tile in (64, 1024):
                        constants = {"tile_length": tile, "schedule": schedule}
                        yield case("lm_head", arch, width, dtype, **constants)
            for tile in TILES:
                for vocab in (65, 257, 2 * tile + 65):
                    yield case(LOGP, arch, vocab, dtype, tile_length=tile)
            for leaf in (1, 2, 3, 7, 64, 100, 128, 1000):
                for depth in (1, 2, 129, 576, 1000, 4097):
                    yield case("det_gemm", arch, depth, dtype, leaf_length=leaf)


def declared(asked: Case) -> ReductionTree:
    config = wb.KernelConfig(arch=asked.arch, **dict(asked.constants))
    return wb.declared_order(asked.op, config, asked.n)


def built(asked: Case) -> Any:
    config = wb.KernelConfig(arch=asked.arch, **dict(asked.constants))
    return wb.build(asked.op, config, backend="twin", dtypes=[asked.dtype])


def agrees(asked: Case, kernel: Any = None, want: Callable[[Case], ReductionTree] = declared):
    """Whether the kernel, or a callable in its place, adds in the order `want`."""
    kernel = built(asked) if kernel is None else kernel
    tree = want(asked)
    if asked.op != LOGP:
        given = {} if not hasattr(kernel, "spec") else {"dtype": asked.dtype}
        return reveal(kernel, asked.n, check=False, **given) == tree
    sums = log_sum_exp(kernel, asked.dtype)
    if asked.n <= _FULL_LOGP:
        return reveal_positive(sums, asked.n, check=False) == tree
    return bool(agrees_by_triples(tree, sums))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="the whole grid: some minutes")
    cases = [*(every() if parser.parse_args().all else quick())]
    start, differing = time.perf_counter(), 0
    for asked in cases:
        if not agrees(asked):
            differing += 1
            print(f"differs: {asked}", flush=True)
    seconds = time.perf_counter() - start
    print(f"{len(cases)} cases, {differing} differ, {seconds:.0f} s, on the twin")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
