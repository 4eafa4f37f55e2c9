"""What tests/npu runs on a device, run on the CPU: that it can run, and that it can fail."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from npu import conftest, scenarios

import workbench as wb
from workbench import ops
from workbench.build import config as configs

ROOT = Path(__file__).resolve().parent.parent


def test_every_operator_has_a_scenario():
    assert sorted(scenarios.OPERATORS) == sorted(configs.specs())


@pytest.mark.parametrize("op", scenarios.OPERATORS)
def test_the_operators_run_and_a_changed_bit_is_counted(op):
    first = scenarios.OPERATORS[op]("cpu", torch.bfloat16, None)
    again = scenarios.OPERATORS[op]("cpu", torch.bfloat16, wb.KernelConfig())
    assert scenarios.mismatches(again, first) == [0] * len(first)
    changed = [t.detach().clone() for t in first]
    for tensor in changed:
        tensor.view(-1)[-1] = tensor.view(-1)[-1] + 1
    assert scenarios.mismatches(changed, first) == [1] * len(first)


class Late:
    """An operator whose kernel runs after what was queued behind it."""

    def __init__(self) -> None:
        self.op = ops.AscendLMHeadOp()

    def __call__(self, hidden, weight):
        return self.op(torch.zeros_like(hidden), weight)


class Early(Late):
    """… or before what was queued ahead of it."""

    def __call__(self, hidden, weight):
        return self.op(hidden - 1, weight)


def test_the_side_stream_scenario_holds_and_sees_a_launch_at_the_wrong_time():
    seen, wanted = scenarios.side_stream("cpu", torch.cpu, ops.AscendLMHeadOp())
    assert scenarios.mismatches([seen], [wanted]) == [0]
    for wrong in (Late(), Early()):
        seen, wanted = scenarios.side_stream("cpu", torch.cpu, wrong)
        assert scenarios.mismatches([seen], [wanted])[0] > wanted.numel() // 2


def test_without_a_device_nothing_is_collected_and_the_summary_says_why():
    if not conftest.REASONS:
        pytest.skip("there is a device: tests/npu runs")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:xdist",
            "-p",
            "no:cacheprovider",
            "tests/npu",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 5, done.stdout  # pytest's code for no test at all
    assert f"tests/npu was not run: {conftest.REASONS[0]}" in done.stdout


def test_the_tests_for_a_device_import():
    """They are collected only there, so a name that is gone would not be seen here."""
    code = (
        "import npu.test_on_device as t; print(len([n for n in dir(t) if n.startswith('test_')]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT / "tests",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    source = (ROOT / "tests" / "npu" / "test_on_device.py").read_text()
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    assert int(done.stdout) == len(functions) >= 6
