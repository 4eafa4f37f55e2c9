"""How long a change of a constant takes until the kernel runs again, beside torch's own JIT.

    python benchmarks/rebuild.py [--quick] [--out FILE]

Cold: tile lengths that were never built, the pybind11 and runtime objects cached; each time is
`build` plus a first launch. Cached: the same variants again, in this process and, with the loaded
modules forgotten, from disk. Peer: `torch.utils.cpp_extension.load` of an LM head with the same
constant as a macro (peer_extension.cpp), in the same run, in turn with ours.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from _common import run, seconds, spread

import workbench as wb
from workbench.build import builder
from workbench.ops import AscendLinearLogpOp

WIDTH = 4096
ONES = torch.ones(1, WIDTH)
FIRST = torch.zeros(1, dtype=torch.long)


def launched(op: str, *inputs: torch.Tensor) -> Callable[[int], Any]:
    """tile length -> first results of the kernel with it."""

    def launch(tile: int) -> Any:
        return wb.build(op, wb.KernelConfig(tile_length=tile), backend="twin")(*inputs)

    return launch


def linear_logp(tile: int) -> Any:
    return AscendLinearLogpOp(wb.KernelConfig(tile_length=tile), "twin")(ONES, ONES, FIRST)


OPERATORS: dict[str, Callable[[int], Any]] = {
    "lm_head": launched("lm_head", ONES, ONES),
    "batch_invariant_logp": launched("batch_invariant_logp", ONES, FIRST),
    "det_gemm": launched("det_gemm", ONES, ONES.T.contiguous()),
    "linear_logp": linear_logp,
}


def variants(
    launch: Callable[[int], Any], tiles: list[int], between: Callable[[int], None]
) -> dict[str, Any]:
    """Cold, then cached, each tile; `between` is called after each cold one."""
    cold = []
    for i, tile in enumerate(tiles):
        cold.append(seconds(lambda tile=tile: launch(tile)))
        between(i)
    loaded = [seconds(lambda tile=tile: launch(tile)) for tile in tiles]
    builder._modules.clear()
    from_disk = [seconds(lambda tile=tile: launch(tile)) for tile in tiles]
    return {
        "variants": len(tiles),
        "cold": spread(cold),
        "cached_in_process": spread(loaded),
        "cached_on_disk": spread(from_disk),
    }


def measure(quick: bool) -> dict[str, Any]:
    peers, many, others = (1, 3, 2) if quick else (5, 20, 6)
    operators = dict(list(OPERATORS.items())[: 1 if quick else None])
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as peer_folder:
        os.environ["WORKBENCH_CACHE"] = cache

        def peer(tile: int) -> None:
            from torch.utils import cpp_extension

            module = cpp_extension.load(
                f"peer_{tile}",
                [str(Path(__file__).with_name("peer_extension.cpp"))],
                extra_cflags=[f"-DTILE_LENGTH={tile}", "-O2"],
                build_directory=peer_folder,
            )
            assert module.lm_head(ONES, ONES).item() == WIDTH

        # Compiles the objects that every variant shares.
        first = seconds(lambda: OPERATORS["lm_head"](64))
        found = {}
        for name, launch in operators.items():
            if name == "lm_head":
                assert launch(64).item() == WIDTH
            else:
                launch(64)  # what its variants share
            count = many if name == "lm_head" else others
            # linear_logp builds the LM head: with tiles of its own it is cold. det_gemm has room
            # for 64 to 512.
            start = 64 * (2 if name != "linear_logp" else 40)
            tiles = [start + 64 * i for i in range(count)]

            def between(i: int, count: int = count, tiles: list[int] = tiles) -> None:
                if i % (count // peers) == 0 and len(theirs) < peers:
                    theirs.append(seconds(lambda: peer(tiles[i])))

            found[name] = variants(launch, tiles, between if name == "lm_head" else lambda i: None)
    return {
        "what": "seconds from a changed constant to a first result, fp32, backend twin; the peer "
        "is an LM head compiled by torch.utils.cpp_extension.load",
        "runs": peers,
        "first_build_with_shared_objects": first,
        "operators": found,
        "peer_torch_cpp_extension": spread(theirs),
        "times_faster_than_peer": spread(theirs)["median"] / found["lm_head"]["cold"]["median"],
    }


if __name__ == "__main__":
    run(measure, __doc__)
