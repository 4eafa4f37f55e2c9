"""`workbench check`: its flags, its lines, its exit codes and its JSON; and its default size."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from helpers import assert_check_outputs

from workbench.numerics.contract import contract

SMALL = ["--device", "cpu", "--seq", "3", "--vocab", "33", "--normalized-dim", "70"]
OPS = ("lm_head", "batch_invariant_logp", "det_gemm", "linear_logp")
DTYPES = ("fp32", "bf16", "fp16")


@pytest.fixture
def run(command_line):
    return command_line("check")


NUMBER = r"(-|inf|\d\.\d{3}e[+-]\d{2})"
LINE = re.compile(
    r"  case=(?P<case>\S+) output=(?P<output>\d+)(?: (?P<name>gradient:\w+|lse))? "
    r"shape=\((?P<shape>[\d, ]+)\) dtype=torch\.(?P<dtype>\w+) "
    rf"max_abs={NUMBER} mean_abs={NUMBER} max_rel={NUMBER} "
    rf"tol=\(atol={NUMBER}, rtol={NUMBER}\) passed=(?P<passed>True|False)(?: cause=(?P<cause>\w+))?"
    rf" tolerance_ratio={NUMBER} tolerance_ratio_exact={NUMBER} reference_ratio={NUMBER}"
    rf" max_ulp_of_sum={NUMBER}.*"
)


def test_the_lines(run):
    code, out, err = run("--op", "lm_head", "--check-grad", *SMALL)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "suite=lm_head passed=True pass_rate=1.0000"
    assert lines[1] == "candidate=ascend-lm_head backend=twin passed=True pass_rate=1.0000"
    found = [LINE.fullmatch(line) for line in lines[2:]]
    assert all(found), lines
    plain, biased = "lm_head-torch.float32-2x3x70x33", "lm_head-bias-torch.float32-2x3x70x33"
    gradients = ["gradient:hidden", "gradient:weight", "gradient:bias"]
    assert [(m["case"], m["output"], m["name"]) for m in found] == [
        *((plain, str(i), name) for i, name in enumerate([None, *gradients[:2]])),
        *((biased, str(i), name) for i, name in enumerate([None, *gradients])),
    ]
    assert [m["shape"] for m in found[:3]] == ["2, 3, 33", "2, 3, 70", "33, 70"]
    cell = re.search(r"tol=\(atol=(\S+), rtol=(\S+)\)", lines[2])
    wanted = contract().cell("forward_accuracy", "lm_head", "fp32")
    assert (float(cell[1]), float(cell[2])) == (wanted.atol, wanted.rtol)


def test_json_and_every_flag(run):
    code, out, _ = run(
        *("--op", "linear_logp", "--candidate", "ascend", "--device", "cpu", "--dtype", "bf16"),
        *("--batch", 3, "--seq", 2, "--vocab", 9, "--normalized-dim", 20, "--input-mode"),
        *("constant", "--constant-value", 0.5, "--token-value", 4, "--seed", 5, "--grad-seed", 6),
        *("--check-grad", "--grad-mode", "ones", "--tile", 64, "--max-blocks", 3, "--schedule"),
        *("weight_stationary", "--arch", "dav-3510", "--json"),
    )
    assert code == 0 and out["passed"] is True and out["suite"] == "linear_logp"
    assert out["options"] == {
        "batch": 3,
        "seq": 2,
        "vocab": 9,
        "normalized_dim": 20,
        "input_mode": "constant",
        "constant_value": 0.5,
        "token_value": 4,
        "seed": 5,
        "grad_seed": 6,
        "check_grad": True,
        "grad_mode": "ones",
    }
    assert (out["dtype"], out["backend"], out["evidence"]["arch"]) == ("bf16", "twin", "dav-3510")
    config = out["evidence"]["config"]
    assert (config["tile_length"], config["max_blocks"], config["schedule"]) == (64, 3, 1)
    for case in out["cases"]:
        for output in case["outputs"]:
            assert {
                *("max_abs", "mean_abs", "max_rel", "atol", "rtol", "tolerance_ratio"),
                *("tolerance_ratio_exact", "reference_ratio", "cause", "passed"),
            } <= set(output)


@pytest.mark.parametrize("op", OPS)
def test_the_candidate_pytorch(run, op):
    code, out, _ = run("--op", op, "--candidate", "pytorch", "--check-grad", *SMALL)
    assert code == 0, out
    assert out.splitlines()[1].startswith(f"candidate=pytorch-{op} backend=cpu passed=True")


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine_for_cli.py").write_text(
        "def good(hidden, weight, bias=None):\n"
        "    print('noise')\n"
        "    out = hidden @ weight.T\n"
        "    return out if bias is None else out + bias\n"
        "def bad(hidden, weight, bias=None):\n"
        "    return good(hidden, weight)\n"
        "def detached(hidden, weight, bias=None):\n"
        "    return good(hidden, weight, bias).detach()\n"
        "def ends(hidden, weight, bias=None):\n"
        "    raise SystemExit(0)\n"
        "def at_exit(hidden, weight, bias=None):\n"
        "    import atexit\n"
        "    atexit.register(print, 'late noise')\n"
        "    return good(hidden, weight, bias)\n"
        "class Needs:\n"
        "    def __init__(self, size):\n"
        "        pass\n"
    )
    (tmp_path / "ends_for_cli.py").write_text("import sys; sys.exit(0)\n")
    (tmp_path / "broken_for_cli.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)


def test_a_module_of_the_user_s(run, mine):
    """Exit 0 where it passes, 1 where it fails; what it prints does not reach the JSON."""
    code, out, err = run("--candidate", "mine_for_cli:good", "--check-grad", "--json", *SMALL)
    assert code == 0 and out["passed"] and out["candidate"] == "mine_for_cli:good"
    assert "noise" in err
    code, out, _ = run("--candidate", "mine_for_cli:bad", *SMALL)
    assert code == 1 and out.count("passed=False") == 3
    assert "suite=lm_head passed=False pass_rate=0.5000" in out
    code, out, _ = run("--candidate", "mine_for_cli:detached", "--check-grad", "--json", *SMALL)
    assert code == 1
    assert [o["passed"] for o in out["cases"][0]["outputs"]] == [True, False, False]
    assert run("--candidate", "mine_for_cli:detached", *SMALL)[0] == 0  # no gradient asked for


WRONG = {
    "unknown candidate": ["--candidate", "triton"],
    "candidate not importable": ["--candidate", "nowhere:f"],
    "candidate not callable": ["--candidate", "math:pi"],
    "unknown op": ["--op", "softmax"],
    "unknown dtype": ["--dtype", "fp8"],
    "unknown device": ["--device", "gpu"],
    "no rows": ["--batch", "0"],
    "negative token": ["--token-value", "-1"],
    "token without the constant mode": ["--token-value", "3"],
    "constant without the constant mode": ["--constant-value", "0.5"],
    "constant that the dtype does not hold": [
        *["--input-mode", "constant", "--constant-value", "1e39"]
    ],
    "seed of 65 bits": ["--seed", str(2**63)],
    "gradient's seed of 65 bits": ["--grad-seed", str(2**64)],
    "more than there is memory": ["--vocab", str(10**12)],
    "tile that does not fit this dtype": ["--op", "batch_invariant_logp", "--tile", "12288"],
    "candidate by its path": ["--candidate", "../mine:f"],
    "candidate that ends on import": ["--candidate", "ends_for_cli:f"],
    "candidate that does not compile": ["--candidate", "broken_for_cli:f"],
    "candidate made with arguments": ["--candidate", "mine_for_cli:Needs"],
    "token beyond the vocabulary": ["--input-mode", "constant", "--token-value", "33"],
    "unknown input mode": ["--input-mode", "zeros"],
    "unknown grad mode": ["--grad-mode", "twos"],
    "tile of another candidate": ["--candidate", "pytorch", "--tile", "64"],
    "tile that does not fit": ["--tile", "65"],
    "unknown schedule": ["--schedule", "sideways"],
    "schedule of an operator that has none": ["--op", "det_gemm", "--schedule", "output"],
    "unknown arch": ["--arch", "dav-0000"],
    "an argument": ["lm_head"],
}


@pytest.mark.parametrize("args", WRONG.values(), ids=WRONG)
def test_wrong_usage_is_exit_2(run, args, mine):
    code, out, err = run(*SMALL, *args)
    assert (code, out) == (2, "") and err.startswith("workbench: ")
    code, out, _ = run(*SMALL, *args, "--json")
    assert code == 2 and out["error"]["message"]


def test_a_candidate_that_ends_the_process_has_failed(run, mine):
    code, out, _ = run("--candidate", "mine_for_cli:ends", *SMALL)
    assert code == 1 and "(raised SystemExit: 0)" in out
    code, out, _ = run("--candidate", "mine_for_cli:ends", "--json", *SMALL)
    assert code == 1 and out["passed"] is False
    assert out["cases"][0]["outputs"][0]["reason"] == "raised SystemExit: 0"


def test_what_is_printed_at_exit_does_not_reach_the_json(mine):
    args = ["check", "--candidate", "mine_for_cli:at_exit", "--json", *SMALL]
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli", *args], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"] is True and "late noise" in done.stderr


@pytest.mark.parametrize(
    ("variable", "value", "code", "message"),
    [
        ("WORKBENCH_CACHE", "/proc/nope", 1, "the build cache /proc/nope cannot be used"),
        ("CXX", "nope", 3, "nope is not on PATH"),
    ],
)
def test_a_set_up_that_fails_keeps_its_exit_code(variable, value, code, message):
    """It is no verdict on the candidate. In a process that has no kernel loaded yet."""
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli", "check", *SMALL],
        capture_output=True,
        text=True,
        env={**os.environ, variable: value},
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr and "raised" not in done.stderr


def test_an_unknown_candidate_is_told_the_known_ones(run):
    _, _, err = run("--candidate", "triton")
    assert "ascend, pytorch, module:callable" in err


def test_a_missing_device_is_exit_3(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_npu", None)  # import raises
    code, out, err = run(*SMALL, "--device", "npu")
    assert (code, out) == (3, "") and "workbench doctor" in err


def test_help_loads_no_torch():
    code = "import sys; from workbench.cli import main; main(['check', '--help'])"
    code += "; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--normalized-dim" in done.stdout and "default: 4096" in done.stdout
    assert "--backend" in done.stdout  # the other command's name for --device


# ---- 2 x 16 x 4096 x 257, every operator and dtype ----------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_the_default_size_with_gradients(run, op, dtype):
    """LN04, LN05, LN13 by the contract: against fp64 no output of ours is beyond its cell.

    linear_logp is held to its derived bound and to the raw bits of the two operators.
    """
    code, out, _ = run("--op", op, "--dtype", dtype, "--device", "cpu", "--check-grad", "--json")
    assert_check_outputs(op, code, out)
