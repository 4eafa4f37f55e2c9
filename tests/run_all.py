"""What `make test` runs: the linters, then the tests, then a summary that hides nothing.

Tests marked `serial` (they measure time or memory) run alone after the others. A test that was
skipped is never counted as passed: the summary lists each reason and how many tests it cost.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTHING_COLLECTED = 5  # pytest's exit code

# The wheel has no module to run; an .asc file is C++ to clang-format too.
CLANG_FORMAT = """
import clang_format, pathlib, subprocess, sys
files = [f for f in pathlib.Path("csrc").rglob("*") if f.suffix in (".asc", ".cpp", ".h")]
program = clang_format.get_executable("clang-format")
sys.exit(subprocess.run([program, "--dry-run", "--Werror", *files]).returncode)
"""

LINTERS = {
    "ruff check": ["-m", "ruff", "check", "."],
    "ruff format": ["-m", "ruff", "format", "--check", "."],
    "mypy": ["-m", "mypy"],
    "clang-format": ["-c", CLANG_FORMAT],
}


@dataclass
class Tally:
    """Counts over all runs of pytest, and the reasons of what was skipped."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    expected_failures: int = 0

    def add(self, junit: Path) -> None:
        """Add the results of one run."""
        for case in ET.parse(junit).getroot().iter("testcase"):
            name = f"{case.get('classname')}::{case.get('name')}"
            skip = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed.append(name)
            elif skip is None:
                self.passed += 1
            elif skip.get("type") == "pytest.xfail":
                self.expected_failures += 1
            else:
                self.skipped[skip.get("message") or "no reason given"] += 1


def lint() -> list[str]:
    """Run the linters; the names of those that complained."""
    failed = []
    for name, arguments in LINTERS.items():
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, *arguments], cwd=ROOT).returncode:
            failed.append(name)
    return failed


def run_pytest(tally: Tally, *arguments: str) -> str | None:
    """One run of pytest; a complaint where it could not end as it should."""
    with tempfile.TemporaryDirectory() as folder:
        junit = Path(folder, "junit.xml")
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={junit}", *arguments]
        print("==", " ".join(["pytest", *arguments]), flush=True)
        code = subprocess.run(command, cwd=ROOT).returncode
        if junit.exists():
            tally.add(junit)
    if code in (0, 1, NOTHING_COLLECTED):
        return None
    return f"pytest {' '.join(arguments)} ended with exit code {code}"


def npu_state() -> str:
    """Why nothing ran on an Ascend NPU; empty where one is ready."""
    sys.path.insert(0, str(ROOT))
    from workbench.doctor import diagnose

    npu = diagnose().backends["npu"]
    return "" if npu["ok"] else "; ".join(npu["reasons"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default="2", help="workers for the tests that run in parallel")
    parser.add_argument("--lint-only", action="store_true")
    options = parser.parse_args()
    start = time.perf_counter()
    complaints = lint()
    if options.lint_only:
        return 1 if complaints else 0

    tally = Tally()
    parallel = ["-n", options.jobs, "--dist", "worksteal", "-m", "not serial"]
    for arguments in (parallel, ["-p", "no:xdist", "-m", "serial"]):
        problem = run_pytest(tally, *arguments)
        complaints += [problem] if problem else []
    if not tally.passed:
        complaints.append("no test passed")

    print("\n== Summary")
    for name in tally.failed:
        print(f"FAILED  {name}")
    for complaint in complaints:
        print(f"FAILED  {complaint}")
    print("Not run on this machine, and why:")
    if reasons := npu_state():
        print(f"  everything on an Ascend NPU: {reasons}")
    for reason, count in tally.skipped.most_common():
        print(f"  {count} test{'s'[: count != 1]}: {reason}")
    if not reasons and not tally.skipped:
        print("  nothing: every test ran")
    print(f"linters: {', '.join(n for n in LINTERS if n not in complaints) or 'none'} passed")
    if tally.expected_failures:
        print(f"{tally.expected_failures} expected failures")
    print(
        f"{tally.passed} passed, {len(tally.failed) + len(complaints)} failed, "
        f"{tally.skipped.total()} skipped in {time.perf_counter() - start:.0f} s"
    )
    return 1 if tally.failed or complaints else 0


if __name__ == "__main__":
    sys.exit(main())
