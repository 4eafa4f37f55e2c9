"""On an Ascend NPU: the operators against the twin, streams, checks and invariance.

Run by a person with a device: `pytest tests/npu -p no:xdist -s` (docs/on-an-npu.md). Nobody has run
it for this project yet.
"""

from __future__ import annotations

import json

import pytest
import torch
from helpers import assert_check_outputs

import workbench as wb
from npu import scenarios
from workbench import cli, ops
from workbench.build import config as configs
from workbench.build import extension
from workbench.numerics.contract import contract

MANIFEST = extension.look().manifest or {}
ARCH = MANIFEST.get("arch", configs.DEFAULT_ARCH)
CONFIG = wb.KernelConfig(arch=ARCH)


@pytest.mark.parametrize("dtype", scenarios.DTYPES)
@pytest.mark.parametrize("op", scenarios.OPERATORS)
def test_the_device_computes_what_the_twin_predicts(op, dtype, record_property):
    """On raw bits where every instruction is documented; else under the contract, since exp and ln
    of a device are documented to an ulp at best."""
    run = scenarios.OPERATORS[op]
    got = run("npu", scenarios.DTYPES[dtype], CONFIG)
    wanted = run("cpu", scenarios.DTYPES[dtype], CONFIG)
    found = scenarios.mismatches(got, wanted)
    sizes = [t.numel() for t in wanted]
    print(f"\n{op} {dtype}: elements that differ in a bit {found} of {sizes}")
    record_property("mismatches", found)
    if configs.spec(op).fidelity["tag"] != "approximate":
        assert found == [0] * len(found)
        return
    for i, (a, b) in enumerate(zip(got, wanted, strict=True)):
        judgement = "gradient_accuracy" if i == len(got) - 1 else "forward_accuracy"
        judged = contract().judge(a.detach().cpu(), b.detach(), judgement, op, dtype)
        assert judged.passed, judged


def test_a_launch_on_a_side_stream_waits_for_what_is_queued_and_is_waited_for():
    op = ops.AscendLMHeadOp(CONFIG)
    for _ in range(20):
        seen, wanted = scenarios.side_stream("npu", torch.npu, op)
        assert scenarios.mismatches([seen], [wanted]) == [0]


def test_the_kernels_come_from_the_extension_where_there_is_one():
    for op in configs.specs():
        made = wb.build(op, CONFIG, backend="npu").info.made
        assert made == ("ahead of time" if MANIFEST else "at run time")


@pytest.mark.parametrize("dtype", scenarios.DTYPES)
@pytest.mark.parametrize("op", [*scenarios.OPERATORS, "linear_logp"])
def test_check(op, dtype, capfd):
    """As on the twin (test_cli_check.py): a reference that errs more than the cell is no failure
    of ours."""
    args = ["--op", op, "--dtype", dtype, "--arch", ARCH, "--check-grad", "--json"]
    capfd.readouterr()
    code = cli.main(["check", "--device", "npu", *args])
    out = json.loads(capfd.readouterr().out)
    assert out["backend"] == "npu"
    assert_check_outputs(op, code, out)


@pytest.mark.parametrize("op", [*scenarios.OPERATORS, "linear_logp"])
def test_invariance(op):
    args = ["--op", op, "--dtype", "bf16", "--arch", ARCH]
    assert cli.main(["invariance", "--backend", "npu", *args]) == 0
    assert cli.main(["invariance", "--backend", "npu", *args, "--gradient"]) == 0


def test_the_probes_have_answers():
    found = wb.probe(ARCH, backend="npu")
    print(f"\n{found}")
    assert found.backend == "npu" and len(found.probes) == len(wb.probe(ARCH).probes)


def test_a_tensor_that_is_not_there_is_refused_before_it_reaches_the_device():
    kernel = wb.build("lm_head", CONFIG, backend="npu")
    with pytest.raises(wb.InputError, match="takes tensors on npu"):
        kernel(torch.ones(1, 64), torch.ones(2, 64))
