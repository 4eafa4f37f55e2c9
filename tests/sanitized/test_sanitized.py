"""The twin's own code under AddressSanitizer and UndefinedBehaviorSanitizer.

A short part of the tests here; `python tests/run_sanitized.py` runs all that a kernel runs in.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import run_sanitized

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.serial,
    pytest.mark.skipif(shutil.which("g++") is None, reason="no g++ (apt-get install g++)"),
]

LAUNCH = """
import sys
import torch
import workbench as wb

kernel = wb.build(sys.argv[1], wb.KernelConfig(), backend="twin")
kernel.launch("k", 1, torch.ones(8), 8)
print("lived")
"""

# A kernel that the twin cannot watch: its own variables are host memory. (The index and the number
# come from outside, so that no compiler sees the mistake.)
KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void k(GM_ADDR x, int32_t n) {
    volatile int32_t own[8] = {};
    for (int32_t i = 0; i < 8; ++i) own[i] = i;
    volatile int32_t last = %s;
    (void)last;
}
"""


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """Runs a script with the twin under the sanitizers."""
    cache = str(tmp_path_factory.mktemp("sanitized"))

    def run(*command: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, *command],
            cwd=ROOT,
            env=run_sanitized.environment(cache),
            capture_output=True,
            text=True,
            timeout=900,
        )

    return run


@pytest.mark.parametrize(
    ("name", "expression", "report"),
    [
        ("sound", "own[n - 1]", None),
        ("past the end of an array", "own[n]", "AddressSanitizer|runtime error: index 8"),
        ("signed overflow", "0x7fffffff - 8 + n + 1", "runtime error: signed integer overflow"),
    ],
)
def test_control_the_sanitizers_see_what_they_should(
    sanitized, tmp_path, name, expression, report
) -> None:
    path = tmp_path / "k.asc"
    path.write_text(KERNEL % expression)
    done = sanitized("-c", LAUNCH, str(path))
    if report is None:
        assert done.returncode == 0 and "lived" in done.stdout, done.stderr[-2000:]
    else:
        assert done.returncode != 0 and "lived" not in done.stdout
        assert any(part in done.stderr for part in report.split("|")), done.stderr[-2000:]


def test_the_twin_is_clean(sanitized) -> None:
    done = sanitized("-m", "pytest", "-q", "-p", "no:cacheprovider", *SHORT)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


SHORT = (
    "tests/twin/test_cross.py",
    "tests/twin/test_faults.py",
    "tests/twin/test_launch_report.py",
)
