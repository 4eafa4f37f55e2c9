"""What is here needs an Ascend NPU: without one nothing of it is collected, and the summary says
why. `tests/test_npu_scenarios.py` runs the same scenarios on the CPU, so that they do not rot."""

from __future__ import annotations

from workbench.build.cann import device_reasons


def reasons() -> list[str]:
    """Why no NPU can be used; empty where one can."""
    found = device_reasons()
    if not found:
        try:
            import torch_npu  # noqa: F401
        except (ImportError, OSError, RuntimeError) as e:  # all three where CANN does not fit
            found.append(f"torch_npu does not import: {e}")
    return found


REASONS = reasons()
collect_ignore_glob = ["test_*.py"] if REASONS else []


def pytest_terminal_summary(terminalreporter):
    if REASONS:
        terminalreporter.write_line(f"tests/npu was not run: {'; '.join(REASONS)}")
