"""What `import workbench` adds to `import torch`, in new processes that alternate.

    python benchmarks/startup.py [--quick] [--out FILE]

Beyond torch: the time of `import workbench` in a new process that has just imported torch (the
peer), taken inside it; the difference of two whole processes says the same with more noise, and is
there as well. Most of the package loads on first use, so the names that a first cell needs are
looked up too: `used` is what import and look-up take together.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

from _common import ratios, run, spread

PROGRAMS = {
    "nothing": ["pass"],
    "torch": ["import torch"],
    "workbench": ["import workbench"],
    "both": ["import torch", "import workbench"],
    "used": [
        "import torch",
        "import workbench as wb",
        "wb.build, wb.KernelConfig, wb.drift, wb.sweep",
    ],
}


def timed(statements: list[str]) -> list[float]:
    """Seconds of each statement in a new process, and of the whole process last."""
    code = "import json, time\ntimes = [time.perf_counter()]\n"
    code += "".join(f"{line}\ntimes.append(time.perf_counter())\n" for line in statements)
    code += "print(json.dumps([b - a for a, b in zip(times, times[1:])]))"
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    return [*json.loads(done.stdout), time.perf_counter() - started]


def measure(quick: bool) -> dict[str, Any]:
    runs = 1 if quick else 11
    found: dict[str, list[list[float]]] = {name: [] for name in PROGRAMS}
    # The first round reads the files from the disk and writes their bytecode.
    for turn in range(-1, runs):
        for name, statements in PROGRAMS.items():
            times = timed(statements)
            if turn >= 0:
                found[name].append(times)
    whole = {name: [times[-1] for times in rounds] for name, rounds in found.items()}
    imported = [times[1] for times in found["both"]]
    return {
        "what": "seconds of a new process that imports",
        "runs": runs,
        "programs": {name: "; ".join(lines) for name, lines in PROGRAMS.items()},
        "seconds": {name: spread(times) for name, times in whole.items()},
        "beyond_torch": {
            "import": spread(imported),
            "used": spread([times[1] + times[2] for times in found["used"]]),
            "whole_process": spread(
                [a - b for a, b in zip(whole["both"], whole["torch"], strict=True)]
            ),
        },
        "import_torch": spread([times[0] for times in found["both"]]),
        "of_torch": ratios(imported, [times[0] for times in found["both"]]),
    }


if __name__ == "__main__":
    run(measure, __doc__)
