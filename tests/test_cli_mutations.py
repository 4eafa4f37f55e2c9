"""`workbench mutations`: the table of the docs, its JSON, its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.numerics.gates import table as tables
from workbench.numerics.gates.mutations import MUTATIONS
from workbench.numerics.gates.standards import STANDARDS

DOCS = Path(__file__).resolve().parents[1] / "docs" / "mutations.md"
SMALL = ["--rows", "2", "--vocab", "8", "--dtype", "fp32"]


@pytest.fixture
def run(command_line):
    return command_line("mutations")


def test_the_docs_hold_what_the_command_prints(run):
    code, out, _ = run("--markdown")
    _, _, rest = DOCS.read_text("utf-8").partition("<!-- workbench mutations --markdown -->\n")
    table, end, _ = rest.partition("<!-- end -->")
    assert code == 0 and end and table == out


def test_json(run):
    code, found, _ = run(*SMALL, "--hidden", "70", "--tile", "64", "--json")
    assert code == 0
    assert (found["shape"], found["gates"]) == ([2, 70, 8], list(STANDARDS))
    (row,) = [r for r in found["table"] if r["name"] == "drop_last_tile"]
    assert row["kind"] == "wrong" and len(row["verdicts"]) == len(STANDARDS)
    names = [r["name"] for r in found["table"]]
    assert names[: len(MUTATIONS)] == list(MUTATIONS)
    assert (found["tile"], found["arch"], found["bench"]) == (64, "dav-2201", "split-k")


def test_a_choice_of_gates_and_mutations_on_the_real_sample(run):
    chosen = ["--gates", "cosine,running", "--mutations", "drop_term, transposed"]
    code, out, _ = run(
        "--sample", "smollm2", "--out", "fp32", *SMALL[:4], "--dtype", "bf16", *chosen
    )
    assert code == 0 and "2 x 576 x 8" in out and "transposed" in out and "bias_twice" not in out


def test_a_gate_that_cries_wolf_fails_the_command(run, monkeypatch):
    monkeypatch.setattr(tables.MutationTable, "passed", property(lambda self: False))
    assert run(*SMALL, "--hidden", "40", "--mutations", "drop_term", "--gates", "cosine")[0] == 1


@pytest.mark.parametrize(
    ("args", "match"),
    [
        (["--dtype", "fp8"], "dtype fp8"),
        (["--gates", "wolf"], "gate wolf"),
        (["--mutations", "wolf"], "mutation wolf"),
        (["--seed", "-1"], "seed -1"),
        (["--arch", "wolf"], "wolf"),
        (["--rows", "0"], "rows"),
        (["--markdown", "--json"], "give one"),
        (["--tile", "63"], "tile_length=63"),
        (["--sample", "smollm2", "--hidden", "64"], "--hidden"),
        (["--sample", "smollm2", "--rows", "100000"], "hidden states"),
    ],
)
def test_wrong_usage(run, args, match):
    code, out, err = run(*args)
    if "--json" in args:
        out, err = "", out["error"]["message"]
    assert code == 2 and match in err and not out
