"""How long it takes to find the order of a sum, beside one probe a call.

    python benchmarks/reveal.py [--quick] [--out FILE]

The shipped LM head on the twin, n = 4096, fp32, both architectures. `reveal` puts all probes of a
level into a call or two. Its peer is the same `reveal` with a batch of one row, so that the same
probes of the same function cost a call each; the two alternate in one run. Neither time has a
build in it; the checks before and after are part of both.
"""

from __future__ import annotations

import math

from _common import arguments, finish, machine, spread

import workbench as wb
from workbench.orders.declared import declared_order
from workbench.orders.reveal import reveal

N = 4096


def main() -> None:
    options = arguments(__doc__)
    runs, peers = (3, 1) if options.quick else (15, 3)
    where = machine()
    kernels = []
    for arch in ("dav-2201", "dav-3510"):
        kernel = wb.build("lm_head", wb.KernelConfig(arch=arch), backend="twin")
        reveal(kernel, 64)  # compiles and loads
        reports, alone, ratios = [], [], []
        for run in range(runs):
            tree = reveal(kernel, N, seed=run)
            assert tree == declared_order("lm_head", kernel.config, N)
            reports.append(tree.report)
            if run < peers:
                peer = reveal(kernel, N, seed=run, batch_bytes=4 * N)
                assert peer == tree
                alone.append(peer.report)
                ratios.append(peer.report.seconds / tree.report.seconds)
        kernels.append(
            {
                "arch": arch,
                "height": tree.height,
                # The most that any choice of pivots took: a bound is claimed for all of them.
                "probes": max(r.probes for r in reports),
                "calls": max(r.calls for r in reports),
                "calls_allowed": int(2 * math.log2(N)),
                "check_calls": tree.report.check_calls,
                "seconds": spread([r.seconds for r in reports]),
                "one_probe_a_call": {
                    "calls": max(r.calls for r in alone),
                    "seconds": spread([r.seconds for r in alone]),
                },
                "times_faster": spread(ratios),
            }
        )
    finish(
        {
            "what": f"seconds to reveal the order of the LM head, n = {N}, fp32, backend twin",
            "machine": where,
            "runs": runs,
            "kernels": kernels,
        },
        options.out,
    )


if __name__ == "__main__":
    main()
