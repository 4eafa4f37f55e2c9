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
        fast, slow, ratios = [], [], []
        for run in range(runs):
            tree = reveal(kernel, N, seed=run)
            assert tree == declared_order("lm_head", kernel.config, N)
            fast.append(tree.report.seconds)
            if run < peers:
                alone = reveal(kernel, N, seed=run, batch_bytes=4 * N)
                assert alone == tree
                slow.append(alone.report.seconds)
                ratios.append(alone.report.seconds / tree.report.seconds)
        kernels.append(
            {
                "arch": arch,
                "height": tree.height,
                "probes": tree.report.probes,
                "calls": tree.report.calls,
                "calls_allowed": int(2 * math.log2(N)),
                "check_calls": tree.report.check_calls,
                "seconds": spread(fast),
                "one_probe_a_call": {"calls": alone.report.calls, "seconds": spread(slow)},
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
