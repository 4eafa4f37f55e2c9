"""Runs tests with the twin built under AddressSanitizer and UndefinedBehaviorSanitizer.

    python tests/run_sanitized.py                # every test that runs a kernel on the twin
    python tests/run_sanitized.py tests/twin -k sort

Everything the twin compiles (its runtime, the kernels, whole programs) is instrumented; the first
report of a sanitizer ends the process, and so fails the run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1"
# What runs kernels. The rest of the tests compile nothing, or time what a sanitizer slows down.
TESTS = ("twin", "faults", "fuzz", "run", "ops", "controls", "numerics", "high_level")

# A sanitizer takes SIGSEGV for itself: a program that ends by it ends otherwise here. And it
# keeps what is freed for a while, so that peaks of memory are its own.
LEFT_OUT = (
    "tests/run/test_run_process.py::test_a_signal[11]",
    "tests/ops/test_linear_logp.py::test_the_logits_are_never_held",
)


def environment(cache: str) -> dict[str, str]:
    """The environment in which a Python process takes instrumented modules.

    Python itself is not instrumented, so the sanitizer's library has to come first; what Python
    and torch leave allocated at their end is none of ours, so leaks are not looked for here (the
    checked mode's own are: tests/twin/test_memory.py).
    """
    # libstdc++ behind it: the sanitizer looks for the function that throws when it starts, which
    # Python has not loaded by then.
    libraries = [
        subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libstdc++.so.6")
    ]
    return {
        **os.environ,
        "CXX": f"g++ {FLAGS}",
        "LD_PRELOAD": ":".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0:strict_string_checks=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "WORKBENCH_CACHE": cache,
    }


def main(args: list[str]) -> int:
    if shutil.which("g++") is None:
        print("run_sanitized: needs g++", file=sys.stderr)
        return 3
    chosen = args or [str(p) for name in TESTS if (p := ROOT / "tests" / name).is_dir()]
    with tempfile.TemporaryDirectory(prefix="sanitized-") as cache:
        left_out = [f"--deselect={name}" for name in LEFT_OUT]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *left_out]
        command += chosen
        return subprocess.run(command, cwd=ROOT, env=environment(cache), check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
