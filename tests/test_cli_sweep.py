"""`workbench sweep`."""

from __future__ import annotations

import pytest

from workbench.commands.sweep import OPS, SAMPLES, sweep
from workbench.samples import DISTRIBUTIONS
from workbench.sweep import runner, space
from workbench.sweep.fixtures import REAL
from workbench.sweep.record import Record


@pytest.fixture
def run(command_line):
    return command_line("sweep")


SMALL = ("--rows", 2, "--vocab", 8, "--workers", 0, "--timing", 0)


def test_json_then_resume(run, tmp_path, monkeypatch):
    store = tmp_path / "runs.sqlite"
    args = ("--tile", "64,100,128", "--max-blocks", "1:3:+2", "--store", store, "--json", *SMALL)
    code, found, _ = run(*args)
    assert code == 0 and found["failed"] == 0 and found["refused"] == 2 and found["kept"] == 0
    assert found["store"] == str(store) and len(found["runs"]) == found["total"] == 6
    assert [len(c["configs"]) for c in found["classes"]] == [2, 2]
    assert found["passed"] is True and found["backend"] == "twin"
    assert found["space"]["tiles"] == [64, 100, 128] and found["space"]["op"] == "lm_head"
    (advice,) = found["recommendations"]
    assert advice["choice"]["config"]["tile_length"] in (64, 128) and advice["reason"]
    row = found["runs"][0]
    assert row["status"] == "ok" and row["config.tile_length"] == 64 and row["drift.max_abs"] > 0
    with Record(store, readonly=True) as record:
        assert len(record) == 6
    monkeypatch.setattr(runner, "measure", lambda task: pytest.fail("measured again"))
    code, again, _ = run(*args, "--resume")
    assert code == 0 and again["kept"] == 6 and again["runs"] == found["runs"]


def test_text_and_the_bits_to_keep(run, tmp_path):
    code, out, _ = run(
        *("--tile", "64,128,4096", "--schedule", "output,weight_stationary", "--max-blocks", "1"),
        *("--store", tmp_path / "r", "--same-bits-as", "tile_length=4096,schedule=output", *SMALL),
    )
    assert code == 0
    out = " ".join(out.split())  # on one line
    assert "6 runs" in out and "every bit is that of the configuration to keep" in out
    assert "2 of other bits" in out  # tile 128


def test_a_schedule_has_one_word(run, tmp_path):
    """In the text and everywhere in the JSON, given as a word or as a number."""
    words = {"output", "weight_stationary"}
    args = ("--tile", "64", "--max-blocks", "1", "--store", tmp_path / "r", *SMALL)
    for given in ("output,weight_stationary", "0,1"):
        code, found, _ = run(*args, "--resume", "--schedule", given, "--json")
        assert code == 0 and {r["config.schedule"] for r in found["runs"]} == words
        assert {c["schedule"] for one in found["classes"] for c in one["configs"]} == words
        assert found["recommendations"][0]["choice"]["config"]["schedule"] in words
        assert set(found["space"]["schedules"]) == words
        assert found["runs"][0]["config.tile_length"] == 64  # a number without a word stays one
    code, out, _ = run(*args, "--resume", "--schedule", "0,1")
    assert all(word in out for word in words)


def test_outputs_by_the_host_kernel(run, tmp_path):
    args = ("--tile", "64", "--max-blocks", "1", "--store", tmp_path / "r", "--json", *SMALL)
    code, out, _ = run(*args, "--outputs", "host")
    (row,) = out["runs"]
    assert code == 0 and row["provenance.outputs"] == "host"
    assert "compared with the twin" in row["provenance.outputs_by"]
    code, out, _ = run(*args, "--resume")
    (row,) = out["runs"]
    assert code == 0 and row["provenance.outputs"] == "" and row["id"] == 2


def test_what_is_not_invariant_has_not_passed(run, tmp_path, monkeypatch):
    real = runner.measure

    def measure(task):
        found = real(task)
        return found | {"invariance": found["invariance"] | {"passed": False}}

    monkeypatch.setattr(runner, "measure", measure)
    code, found, _ = run("--tile", "64", "--store", tmp_path / "r", "--json", *SMALL)
    assert code == 1 and found["passed"] is False and found["failed"] == 0


def test_other_constants_and_inputs(run, tmp_path):
    code, found, _ = run(
        *("--op", "det_gemm", "-D", "LEAF_LENGTH=32,64", "--sample", "normal", "--hidden", 64),
        *("--seed", 3, "--dtype", "fp32,bf16", "--store", tmp_path / "r", "--json", *SMALL),
    )
    assert code == 0 and len(found["runs"]) == 4
    assert {(r["h"], r["inputs.seed"]) for r in found["runs"]} == {(64, 3)}
    assert {r["dtype"] for r in found["recommendations"]} == {"fp32", "bf16"}


def test_a_failed_run_is_exit_code_1(run, tmp_path, monkeypatch):
    real = runner.measure

    def measure(task):
        failed = task.unfinished("failed", "of itself").to_dict()
        return failed if task.config.tile_length == 64 else real(task)

    monkeypatch.setattr(runner, "measure", measure)
    code, found, _ = run("--tile", "64,128", "--store", tmp_path / "r", "--json", *SMALL)
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
        (("-D", "WEIGHT_ROWS", "--store", "r"), 2, "NAME=VALUE"),
        (("-D", "WEIGHT_ROWS=1", "-D", "WEIGHT_ROWS=2", "--store", "r"), 2, "twice"),
        (("-D", "WEIGHT_ROWS=1", "-D", "weight_rows=2", "--store", "r"), 2, "twice"),
        (("-D", "ARCH=dav-3510", "--store", "r"), 2, "--arch"),
        (("--same-bits-as", "tile_length=64,tile_length=128", "--store", "r"), 2, "twice"),
        (("--hidden", "64", "--store", "r"), 2, "--sample normal"),
        (("--scheduler", "tcp://x:1", "--workers", "1", "--store", "r"), 2, "drop it"),
        (("--rows", "161", "--store", "r", "--workers", "0"), 2, "160 rows"),
        (("--same-bits-as", "4096", "--tile", "100", "--store", "r"), 2, "NAME=VALUE"),
        (("--same-bits-as", "tile_length=64", "--tile", "100", "--store", "r"), 2, "not in the sp"),
        (("--same-bits-as", "tile_length=64:128:x2", "--store", "r"), 2, "tile_length="),
        (("--same-bits-as", "leaf_length=6", "--store", "r"), 2, "no constant leaf_length"),
        (("--same-bits-as", "tile_length=100", "--tile", "64,100", "--store", "r"), 2, "be built"),
    ],
)
def test_wrong_usage(run, args, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, _, err = run(*args)
    assert found == code and words in err
    if "--rows" not in args:
        assert not (tmp_path / "r").exists()  # nothing was begun


def test_a_file_that_is_no_record_is_wrong_usage(run, tmp_path):
    # 1 would say that a kernel failed its check.
    store = tmp_path / "r"
    store.write_text("a diary")
    code, _, err = run("--tile", "64", "--store", store, *SMALL)
    assert code == 2 and "no SQLite file" in err and store.read_text() == "a diary"


def test_an_interrupted_sweep_says_how_to_go_on(run, tmp_path, monkeypatch):
    real, said, asked = runner.measure, [], []

    def measure(task):
        asked.append(task)  # in the order in which their builds end, which is no order
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(task)

    monkeypatch.setattr(runner, "measure", measure)
    monkeypatch.setitem(sweep.callback.__globals__, "progress", said.append)
    code, _, err = run("--tile", "64,128", "--store", tmp_path / "r", *SMALL)
    assert code == 130 and "interrupted" in err
    assert "1 runs are in" in said[-1] and "--resume" in said[-1]
    with Record(tmp_path / "r", readonly=True) as record:
        assert len(record) == 1


def test_the_table_of_a_large_sweep_fits_a_terminal(run, tmp_path):
    code, out, _ = run(
        *("--tile", "64,100,1024", "--schedule", "output,weight_stationary"),
        *("--max-blocks", "1,40", "--arch", "dav-2201,dav-3510", "--store", tmp_path / "r"),
        *("--rows", 2, "--vocab", 8, "--workers", 0, "--timing", 1),
    )
    table = [line for line in out.splitlines() if line.startswith("  dav-")]
    assert code == 0 and len(table) == 24 and max(map(len, table)) <= 100
    assert "no Ascend hardware" in out and "inputs smollm2: 2 of 160 rows" in out
    assert "of a simulation" in out and "16 of 16 kept every bit" in out
    assert "2 refused: tile_length=100" in out
    # Each recommendation says of what architecture it is.
    for arch in ("dav-2201", "dav-3510"):
        assert f"\n{arch}, fp32: max_blocks " in out


def test_lists_that_are_written_twice_agree():
    assert OPS == space.OPS
    assert (REAL, *DISTRIBUTIONS) == SAMPLES
