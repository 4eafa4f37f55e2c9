"""What is here needs an Ascend NPU: without one nothing of it is collected, and the summary says
why. `tests/test_npu_scenarios.py` runs the same scenarios on the CPU, so that they do not rot."""

from __future__ import annotations

from workbench.build.cann import why_no_npu

REASONS = why_no_npu()
collect_ignore_glob = ["test_*.py"] if REASONS else []


def pytest_terminal_summary(terminalreporter):
    if REASONS:
        terminalreporter.write_line(f"tests/npu was not run: {'; '.join(REASONS)}")
