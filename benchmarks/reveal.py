"""How long it takes to find the order of a sum, beside one probe a call.

    python benchmarks/reveal.py [--quick] [--out FILE]

The shipped LM head on the twin, n = 4096, fp32, both architectures. `reveal` puts all probes of a
level into a call or two. Its peer is the same `reveal` with a batch of one row, so that the same
probes of the same function cost a call each; the two alternate in one run. Neither time has a
build in it; the checks before and after are part of both.
"""

from __future__ import annotations

import math
from typing import Any

from _common import ratios, run, spread

import workbench as wb
from workbench.orders.declared import declared_order
from workbench.orders.reveal import reveal


def compared(arch: str, n: int, runs: int, peers: int) -> dict[str, Any]:
    kernel = wb.build("lm_head", wb.KernelConfig(arch=arch), backend="twin")
    reveal(kernel, 64)  # compiles and loads
    reports, alone = [], []
    for turn in range(runs):
        tree = reveal(kernel, n, seed=turn)
        assert tree == declared_order("lm_head", kernel.config, n)
        reports.append(tree.report)
        if turn < peers:
            peer = reveal(kernel, n, seed=turn, batch_bytes=4 * n)
            assert peer == tree
            alone.append(peer.report)
    return {
        "arch": arch,
        "height": tree.height,
        # The most that any choice of pivots took: a bound is claimed for all of them.
        "probes": max(r.probes for r in reports),
        "calls": max(r.calls for r in reports),
        "calls_allowed": int(2 * math.log2(n)),
        "check_calls": tree.report.check_calls,
        "seconds": spread([r.seconds for r in reports]),
        "one_probe_a_call": {
            "calls": max(r.calls for r in alone),
            "seconds": spread([r.seconds for r in alone]),
        },
        "times_faster": ratios([r.seconds for r in alone], [r.seconds for r in reports[:peers]]),
    }


def measure(quick: bool) -> dict[str, Any]:
    n, runs, peers = (512, 3, 1) if quick else (4096, 15, 5)
    return {
        "what": f"seconds to reveal the order of the LM head, n = {n}, fp32, backend twin",
        "runs": runs,
        "n": n,
        "kernels": [compared(arch, n, runs, peers) for arch in ("dav-2201", "dav-3510")],
    }


if __name__ == "__main__":
    run(measure, __doc__)
