"""`workbench classes` on the command line."""

from __future__ import annotations

import pytest

from workbench.errors import MissingError
from workbench.orders.reveal import RevealError


@pytest.fixture
def run(command_line):
    return command_line("classes")


def test_classes_of_a_grid(run):
    code, found, _ = run(
        *("--tile", "64:256:x2", "--max-blocks", "1,3", "--arch", "dav-2201,dav-3510"),
        *("--n", "256", "--backend", "twin", "--json"),
    )
    assert code == 0 and found["passed"]
    assert sum(len(one["configs"]) for one in found["classes"]) == 12
    assert {"hash", "configs"} <= set(found["classes"][0])
    assert found["failed"] == []


def test_names_of_values_and_the_text(run):
    code, out, _ = run(
        *("--tile", "64", "-D", "SCHEDULE=output,weight_stationary", "--n", "64"),
        *("--backend", "twin", "--order", "declared"),
    )
    assert code == 0 and "schedule output, weight_stationary" in " ".join(out.split())


def test_one_that_cannot_be_built_is_exit_1(run):
    code, out, _ = run("--tile", "64,100", "--n", "64", "--backend", "twin", "--order", "declared")
    assert code == 1 and "multiple of 64" in out and "class=A" in out
    assert "configurations=dav-2201: tile_length=100: it must be" in out
    code, out, _ = run("--tile", "64", "--max-blocks", "1,0", "--n", "64", "--backend", "twin")
    assert code == 1 and "configurations=dav-2201: tile_length 64; max_blocks=0: it" in out


def test_nothing_that_can_be_built_is_wrong_usage(run):
    args = ("--tile", "100,200", "--n", "64", "--backend", "twin")
    code, out, err = run(*args)
    assert code == 2 and not out and "no configuration ran" in err
    assert err.count("tile_length") == err.count("it must be a multiple of 64") == 2
    code, found, _ = run(*args, "--json")
    assert code == 2 and found["error"]["type"] == "ConfigError"


def test_nothing_that_can_run_here_is_missing(run, monkeypatch):
    def build(*_, **__):
        raise MissingError("no compiler")

    monkeypatch.setattr("workbench.build.build", build)
    code, _, err = run("--tile", "64", "--n", "64")
    assert code == 3 and "no configuration ran: no compiler" in err


def test_nothing_that_could_be_revealed_is_a_failed_check(run, monkeypatch):
    """The control: it can be built, so that is no wrong usage."""

    def refuse(*_, **__):
        raise RevealError("no order", "not a sum")

    monkeypatch.setattr("workbench.orders.classes._order", refuse)
    code, out, _ = run("--tile", "64", "--n", "64", "--backend", "twin")
    assert code == 1 and "no order" in out


def test_false_equals_are_counted(run):
    code, found, _ = run("--random", "5", "--n", "300", "--backend", "twin", "--json")
    assert code == 0 and found["pairs"] == 10
    assert found["counts"]["order and bits"][0] == 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--random", "5", "--tile", "64"), "drop the others"),
        (("--tile", "a:b"), "not a list of whole numbers"),
        (("-D", "ROWS"), "wanted NAME=VALUE"),
        (("--tile", "64", "-D", "TILE_LENGTH=128"), "given twice"),
        (("--arch", "dav-9999"), "dav-9999"),
        (("-D", "LEAF_LENGTH=3"), "no constant leaf_length"),
    ],
)
def test_wrong_usage(run, args, words):
    code, _, err = run(*args)
    assert code == 2 and words in err
