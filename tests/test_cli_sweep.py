"""`workbench sweep`."""

from __future__ import annotations

import json

import pytest

from workbench import cli
from workbench.commands.sweep import SAMPLES, sweep
from workbench.samples import DISTRIBUTIONS
from workbench.sweep import runner
from workbench.sweep.record import Record
from workbench.sweep.space import OPS


@pytest.fixture
def run(capsys):
    def call(*args: object) -> tuple[int, str, str]:
        code = cli.main(["sweep", *map(str, args)])
        out, err = capsys.readouterr()
        return code, out, err

    return call


SMALL = ("--rows", 2, "--vocab", 8, "--workers", 0, "--timing", 0)


def test_json_then_resume(run, tmp_path, monkeypatch):
    store = tmp_path / "runs.sqlite"
    args = ("--tile", "64,100,128", "--max-blocks", "1:3:+2", "--store", store, "--json", *SMALL)
    code, out, _ = run(*args)
    found = json.loads(out)
    assert code == 0 and found["failed"] == 0 and found["refused"] == 2 and found["kept"] == 0
    assert found["store"] == str(store) and len(found["runs"]) == found["total"] == 6
    assert [len(c["configs"]) for c in found["classes"]] == [2, 2]
    (advice,) = found["recommendations"]
    assert advice["choice"]["config"]["tile_length"] in (64, 128) and advice["reason"]
    row = found["runs"][0]
    assert row["status"] == "ok" and row["config.tile_length"] == 64 and row["drift.max_abs"] > 0
    with Record(store, readonly=True) as record:
        assert len(record) == 6
    monkeypatch.setattr(runner, "measure", lambda task: pytest.fail("measured again"))
    code, out, _ = run(*args, "--resume")
    again = json.loads(out)
    assert code == 0 and again["kept"] == 6 and again["runs"] == found["runs"]


def test_text_and_the_bits_to_keep(run, tmp_path):
    code, out, _ = run(
        *("--tile", "64,128,4096", "--schedule", "output,weight_stationary", "--max-blocks", "1"),
        *("--store", tmp_path / "r", "--same-bits-as", "tile_length=4096,schedule=output", *SMALL),
    )
    assert code == 0
    assert "6 runs" in out and "every bit is that of the configuration to keep" in out
    assert "2 of other bits" in out  # tile 128


def test_other_constants_and_inputs(run, tmp_path):
    code, out, _ = run(
        *("--op", "det_gemm", "-D", "LEAF_LENGTH=32,64", "--sample", "normal", "--hidden", 64),
        *("--seed", 3, "--dtype", "fp32,bf16", "--store", tmp_path / "r", "--json", *SMALL),
    )
    found = json.loads(out)
    assert code == 0 and len(found["runs"]) == 4
    assert {(r["h"], r["inputs.seed"]) for r in found["runs"]} == {(64, 3)}
    assert {r["dtype"] for r in found["recommendations"]} == {"fp32", "bf16"}


def test_a_failed_run_is_exit_code_1(run, tmp_path, monkeypatch):
    real = runner.measure

    def measure(task):
        failed = task.unfinished("failed", "of itself").to_dict()
        return failed if task.config.tile_length == 64 else real(task)

    monkeypatch.setattr(runner, "measure", measure)
    code, out, _ = run("--tile", "64,128", "--store", tmp_path / "r", "--json", *SMALL)
    found = json.loads(out)
    assert code == 1 and found["failed"] == 1
    assert [r["error"] for r in found["runs"]] == ["of itself", None]


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("--tile", "64"), 2, "--store"),
        (("--tile", "x", "--store", "r"), 2, "whole numbers"),
        (("--dtype", "fp8", "--store", "r"), 2, "fp8"),
        (("--dtype", ",", "--store", "r"), 2, "one or more"),
        (("--arch", "dav-9999", "--store", "r"), 2, "dav-9999"),
        (("--sample", "gpt5", "--store", "r"), 2, "gpt5"),
        (("--schedule", "sideways", "--store", "r"), 2, "sideways"),
        (("-D", "LEAF_LENGTH=3", "--store", "r"), 2, "no constant leaf_length"),
        (("-D", "WEIGHT_ROWS", "--store", "r"), 2, "NAME=LIST"),
        (("-D", "WEIGHT_ROWS=1", "-D", "WEIGHT_ROWS=2", "--store", "r"), 2, "twice"),
        (("--hidden", "64", "--store", "r"), 2, "--sample normal"),
        (("--scheduler", "tcp://x:1", "--workers", "1", "--store", "r"), 2, "drop it"),
        (("--rows", "161", "--store", "r", "--workers", "0"), 2, "160 rows"),
        (("--same-bits-as", "4096", "--tile", "100", "--store", "r"), 2, "NAME=VALUE"),
        (("--same-bits-as", "tile_length=64", "--tile", "100", "--store", "r"), 2, "not in the sp"),
        (("--same-bits-as", "leaf_length=6", "--store", "r"), 2, "no constant leaf_length"),
    ],
)
def test_wrong_usage(run, args, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, _, err = run(*args)
    assert found == code and words in err
    if "--rows" not in args:
        assert not (tmp_path / "r").exists()  # nothing was begun


def test_lists_that_are_written_twice_agree():
    # In the command's own words, so that --help imports no torch.
    choices = {p.name: p.type for p in sweep.params}["op"]
    assert tuple(choices.choices) == OPS and ("smollm2", *DISTRIBUTIONS) == SAMPLES
