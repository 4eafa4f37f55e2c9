"""The LM head on the twin beside `torch.mv`: one row, H 4096, one thread each, in turn.

    python benchmarks/twin.py [--quick] [--out FILE]

The ratio is torch.mv's time over the twin's for the same product (1 would be as fast).
"""

from __future__ import annotations

import statistics

import torch
from _common import arguments, finish, machine, seconds, spread

import workbench as wb


def main() -> None:
    options = arguments(__doc__)
    runs = 3 if options.quick else 11
    vocab = 2000 if options.quick else 20000
    torch.set_num_threads(1)
    where = machine()
    table = []
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        sample = wb.samples.qwen3(rows=1, vocab=vocab, dtype=dtype)
        for tile in (256, 1024, 4096):
            kernel = wb.build("lm_head", wb.KernelConfig(tile_length=tile), backend="twin")
            kernel(sample.hidden, sample.weight, threads=1)
            ours, theirs = [], []
            for _ in range(runs):
                ours.append(seconds(lambda k=kernel, s=sample: k(s.hidden, s.weight, threads=1)))
                theirs.append(seconds(lambda s=sample: torch.mv(s.weight, s.hidden[0])))
            # The checked mode and the counters, beside the fast mode of the same moment.
            checked, counted = [], []
            for _ in range(3):
                fast = seconds(lambda k=kernel, s=sample: k(s.hidden, s.weight, threads=1))
                for to, how in ((checked, {"check": True}), (counted, {"counters": True})):
                    slow = seconds(
                        lambda k=kernel, s=sample, how=how: k(s.hidden, s.weight, threads=1, **how)
                    )
                    to.append(slow / fast)
            table.append(
                {
                    "checked": statistics.median(checked),
                    "counters": statistics.median(counted),
                    "dtype": str(dtype).removeprefix("torch."),
                    "tile": tile,
                    "twin": spread(ours),
                    "torch.mv": spread(theirs),
                    "ratio": statistics.median(b / a for a, b in zip(ours, theirs, strict=True)),
                }
            )
    what = f"LM head on the twin against torch.mv, 1 x 4096 x {vocab}, 1 thread, seconds"
    finish({"what": what, "machine": where, "runs": runs, "table": table}, options.out)


if __name__ == "__main__":
    main()
