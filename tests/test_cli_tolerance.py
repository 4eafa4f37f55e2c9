"""`workbench tolerance`: its text, its JSON and its exit codes."""

from __future__ import annotations

import pytest
import torch

from workbench.numerics.contract import contract
from workbench.ops.lm_head import AscendLMHeadOp

SMALL = ["--rows", "2", "--vocab", "9"]
KINDS = ["worst_case", "running", "probabilistic"]


@pytest.fixture
def run(command_line):
    return command_line("tolerance")


def test_json_of_the_defaults(run):
    code, out, err = run(*SMALL, "--json")
    assert (code, err) == (0, "") and out["shape"] == [2, 576, 9] and out["sample"] == "smollm2"
    assert list(out["bounds"]) == KINDS and out["kind"] == "running"
    cell = contract().cell("forward_accuracy", "lm_head", "fp32")
    assert (out["chosen"]["atol"], out["chosen"]["rtol"]) == (cell.atol, cell.rtol)
    for entry in out["bounds"].values():
        assert 0 < entry["median"] <= entry["max"] and entry["beyond"] == 0
        assert [p["rtol"] for p in entry["proposed"]] == [cell.rtol, 2.0**-24, 0.0]
        assert all(p["flagged"] == 0 for p in entry["proposed"])
        assert entry["proposed"][-1]["atol"] >= entry["max"]
    assert list(out["cells"]) == ["fp32", "bf16", "fp16"] and out["flagged"] == 0
    assert out["evidence"]["backend"] == "twin" and out["evidence"]["arch"] == "dav-2201"
    assert out["warnings"] == [] and len(out["tree_hash"]) == 16


def test_every_flag(run):
    code, out, _ = run(
        *("--op", "lm_head", "--dtype", "bf16", "--tile", 64, "--arch", "dav-3510", "--rows", 3),
        *("--backend", "twin", "--sample", "synthetic", "--vocab", 5, "--hidden", 200, "--seed", 7),
        *("--atol", 2.0**-20, "--rtol", 0, "--bound", "worst_case", "--delta", 0.5),
        *("--reference", "torch.mv", "--json"),
    )
    assert code == 0 and out["shape"] == [3, 200, 5] and out["dtype"] == "bf16"
    assert (out["kind"], out["delta"], out["sample"]) == ("worst_case", 0.5, "synthetic")
    assert "torch.mv" in out["reference"] and out["evidence"]["arch"] == "dav-3510"
    assert out["evidence"]["config"]["tile_length"] == 64
    assert (out["chosen"]["atol"], out["chosen"]["rtol"]) == (2.0**-20, 0.0)
    assert out["flagged"] == out["chosen"]["count"]


@pytest.mark.parametrize("op", ["lm_head", "det_gemm", "batch_invariant_logp", "linear_logp"])
def test_every_operator_in_words(run, op):
    code, out, err = run("--op", op, *SMALL)
    lines = out.splitlines()
    assert (code, err) == (0, "") and lines[0].startswith(f"Tolerance of {op} at 2 x ")
    assert "order: " in lines[1] and "declared" in lines[1]
    kinds = ["worst_case"] if op == "batch_invariant_logp" else KINDS
    assert [line.split()[0] for line in lines if " no output beyond it" in line] == kinds
    assert sum(line.startswith("  contract ") for line in lines) == 3
    assert sum("<- tightest" in line for line in lines) == 1


def test_a_tight_pair_flags_and_is_no_failure(run):
    code, out, _ = run("--rows", 4, "--vocab", 64, "--atol", 0, "--rtol", 0, "--json")
    assert code == 0 and out["flagged"] > 100
    assert out["chosen"]["below"] == out["chosen"]["outputs"] == 256
    assert out["chosen"]["false_alarms"] == out["flagged"]


def test_a_kernel_beyond_its_bound_fails(run, monkeypatch):
    right = AscendLMHeadOp.forward

    def off(self, hidden, weight, bias=None):
        out = right(self, hidden, weight, bias)
        out[0, 1] += 2.0**-6
        return out

    monkeypatch.setattr(AscendLMHeadOp, "__call__", off)
    code, out, _ = run(*SMALL)
    assert code == 1 and "1 outputs beyond it" in out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--op", "conv"], "conv"),
        (["--atol", "-1"], "atol"),
        (["--rtol", "nan"], "nan"),
        (["--delta", "1"], "delta"),
        (["--hidden", "64"], "--sample synthetic"),
        (["--seed", "1"], "--sample synthetic"),
        (["--rows", "161"], "160 hidden states"),
        (["--tile", "100"], "multiple of 64"),
        (["--arch", "dav-9999"], "dav-9999"),
        (["--op", "linear_logp", "--reference", "torch.mv"], "'exact'"),
        (["--op", "batch_invariant_logp", "--bound", "running"], "worst_case"),
    ],
)
def test_wrong_use_exits_with_2(run, args, words):
    code, out, err = run(*args)
    assert code == 2 and out == "" and words in err


def test_the_numbers_are_those_of_the_function(run):
    import workbench as wb
    from workbench.numerics.tolerance import tolerance as judge

    _, out, _ = run(*SMALL, "--tile", 64, "--json")
    sample = wb.samples.smollm2()
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin")
    found = judge(kernel, sample.hidden.flatten(0, 1)[:2], sample.weight[:9], dtype=torch.float32)
    assert out["chosen"] == found.chosen.to_dict() and out["tree_hash"] == found.tree_hash
    assert out["bounds"]["running"]["median"] == found.bounds["running"].median
