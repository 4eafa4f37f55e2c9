"""How long a change of a constant takes until the kernel runs again, beside torch's own JIT.

    python benchmarks/rebuild.py [--quick] [--out FILE]

Cold: 20 tile lengths of the LM head that were never built, the pybind11 and runtime objects cached;
each time is `build` plus a first launch. Cached: the same variants again, in this process and, with
the loaded modules forgotten, from disk. Peer: `torch.utils.cpp_extension.load` of an LM head with
the same constant as a macro (peer_extension.cpp), in the same run, in turn with ours.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import torch
from _common import arguments, finish, machine, seconds, spread

import workbench as wb
from workbench.build import builder


def main() -> None:
    options = arguments(__doc__)
    variants = 6 if options.quick else 20
    peers = 1 if options.quick else 3
    where = machine()
    hidden, weight = torch.ones(1, 4096), torch.ones(1, 4096)

    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as peer_folder:
        os.environ["WORKBENCH_CACHE"] = cache

        def build(tile: int):
            kernel = wb.build("lm_head", wb.KernelConfig(tile_length=tile), backend="twin")
            assert kernel(hidden, weight).item() == 4096.0
            return kernel

        def peer(tile: int) -> None:
            from torch.utils import cpp_extension

            module = cpp_extension.load(
                f"peer_{tile}",
                [str(Path(__file__).with_name("peer_extension.cpp"))],
                extra_cflags=[f"-DTILE_LENGTH={tile}", "-O2"],
                build_directory=peer_folder,
            )
            assert module.lm_head(hidden, weight).item() == 4096.0

        first = seconds(lambda: build(64))  # compiles the objects that every variant shares
        tiles = [64 * (i + 2) for i in range(variants)]
        cold, theirs = [], []
        for i, tile in enumerate(tiles):
            cold.append(seconds(lambda tile=tile: build(tile)))
            if i % (variants // peers) == 0 and len(theirs) < peers:
                theirs.append(seconds(lambda tile=tile: peer(tile)))
        loaded = [seconds(lambda tile=tile: build(tile)) for tile in tiles]
        builder._modules.clear()
        from_disk = [seconds(lambda tile=tile: build(tile)) for tile in tiles]

    result = {
        "what": "seconds from a changed constant to a first result, LM head fp32, backend twin",
        "machine": where,
        "variants": variants,
        "first_build_with_shared_objects": first,
        "cold": spread(cold),
        "cached_in_process": spread(loaded),
        "cached_on_disk": spread(from_disk),
        "peer_torch_cpp_extension": spread(theirs),
        "times_faster_than_peer": spread(theirs)["median"] / spread(cold)["median"],
    }
    finish(result, options.out)


if __name__ == "__main__":
    main()
