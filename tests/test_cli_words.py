"""What people read of the command line: lines that fit a terminal, numbers and options in words."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from workbench import cli, errors
from workbench.commands import arguments
from workbench.commands.arguments import WIDTH, Outcome, as_options, fit, whole

SMALL = ("--rows=2", "--vocab=7")


@pytest.fixture
def run(command_line):
    return command_line()


@pytest.fixture
def terminal(monkeypatch):
    """What is printed goes to a terminal."""
    monkeypatch.setattr(arguments, "is_terminal", lambda stream: True)


def too_wide(text: str) -> list[str]:
    """Lines beyond the width; a path or a name that is alone on its line may be.

    (`check` is not among the commands here: the contract of its output is a line for each result.)
    """
    return [line for line in text.splitlines() if len(line) > WIDTH and len(line.split()) > 1]


SHOWN = {
    "doctor": ["doctor"],
    "build": ["build", "lm_head", "-D", "TILE_LENGTH=64"],
    "invariance": ["invariance", *SMALL, "--hidden=64"],
    "invariance, gradient": [
        *("invariance", "--op=batch_invariant_logp", "--gradient", *SMALL, "--hidden=64"),
    ],
    "reveal": ["reveal", "lm_head", "--n=200", "-D", "TILE_LENGTH=64", "--arithmetic"],
    "reveal, all": ["reveal", "torch.mv", "--n=100", "--rows=5", "--all"],
    "classes": ["classes", "--tile=64,100,128", "--n=300", "--order=declared"],
    "tolerance": ["tolerance", *SMALL],
    "mutations": ["mutations", "--rows=4", "--vocab=8", "--hidden=64", "--tile=64"],
    "sweep": ["sweep", "--tile=64,128", "--schedule=output,weight_stationary",
              "--arch=dav-2201,dav-3510", "--sample=normal", "--hidden=64", *SMALL,
              "--timing=0", "--workers=0", "--store=a long name of a record.sqlite"],
    "probe": ["probe", "--switch=masked_lanes=skip"],
    "cache": ["cache", "info"],
}  # fmt: skip


@pytest.mark.parametrize("args", SHOWN.values(), ids=SHOWN)
def test_no_line_is_wider_than_a_terminal(run, args, tmp_path, monkeypatch, terminal):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*args)
    assert code in (0, 1) and out, err
    assert too_wide(out) == too_wide(err) == []


def test_lines_stay_whole_where_no_person_reads(run):
    """In a file or a pipe, for tools that read lines; and so the check above has its control."""
    assert too_wide(run("invariance", *SMALL, "--hidden=64", "--candidate=torch.mv")[1])
    assert too_wide(run("mutations", "--mutations", "nope")[2])


REFUSED = {
    "a list of names": ["mutations", "--mutations", "nope"],
    "a target": ["reveal", "torch.nope", "--n", "4"],
    "a number": ["check", "--seed", str(2**70)],
    "an architecture": ["build", "lm_head", "--arch", "dav-1"],
    "a folder": ["probe", "--out", f"/nope/{'long/' * 30}p.md"],
}


@pytest.mark.parametrize("args", REFUSED.values(), ids=REFUSED)
def test_an_error_is_broken_too_and_its_json_is_one_line(run, args, terminal):
    code, _, err = run(*args)
    assert code == 2 and too_wide(err) == []
    _, found, _ = run(*args, "--json")
    message = found["error"]["message"]
    assert "\n" not in message
    # (Before it stands what was being done.)
    assert " ".join(err.partition("\nTry: ")[0].split()).endswith(f"workbench: {message}")


def test_an_error_that_quotes_lines_stays_as_it_is(run, monkeypatch):
    said = "k.asc:3: " + "expected ';' " * 12 + "\n    3 | " + "int a; " * 30

    def fail(*_):
        raise errors.BuildError(said)

    monkeypatch.setattr(cli, "build_kernel", fail)
    assert run("build", "lm_head") == (1, "", f"workbench: {said.strip()}\n")


# ---- breaking lines ------------------------------------------------------------------------------


def test_a_table_keeps_its_columns():
    row = "  T1  passed   16 cases  " + "some words of a relation " * 6
    first, *more = fit(row).splitlines()
    assert first.startswith("  T1  passed   16 cases  some words")
    assert more and all(re.match(r" {25}\S", line) for line in more)
    assert " ".join([first, *more]).split() == row.split()


@pytest.mark.parametrize("piece", [
    "`workbench probe --device npu --out probes.md`", "pip install '.[npu]'",
    whole("/a folder/with blanks in its name/kernel.so"),
])  # fmt: skip
def test_what_is_copied_stays_in_one_piece(piece):
    for before in range(40, 100):
        assert piece.replace("\0", " ") in fit(f"{'x ' * (before // 2)}{piece} and what follows")


def test_a_line_that_fits_is_untouched():
    line = "  two  columns   " + "y" * (WIDTH - 17)
    assert fit(f"{line}\n\n   end") == f"{line}\n\n   end"


def test_markdown_and_commands_are_printed_as_they_are(run, monkeypatch, terminal):
    line = "| a cell | " * 20
    monkeypatch.setattr(cli, "_run", lambda args: (Outcome({}, line, as_is=True), False))
    assert run("any")[1] == f"{line}\n"
    monkeypatch.setattr(cli, "_run", lambda args: (Outcome({}, line), False))
    assert run("any")[1] != f"{line}\n"


# ---- numbers -------------------------------------------------------------------------------------

NUMBERS = {
    ("check", "--seq"): "a whole number, 1 or more",
    ("check", "--token-value"): "a whole number, 0 or more",
    ("check", "--tile"): "a whole number",
    ("check", "--constant-value"): "a number",
    ("check", "--seed"): "a whole number from -2^63 to 2^63 - 1",
    ("tolerance", "--atol"): "a number, 0 or more",
    ("tolerance", "--delta"): "a number between 0 and 1",
    ("lab", "--port"): "a whole number from 1 to 65535",
    ("run", "--timeout"): "a number over 0",
}


@pytest.mark.parametrize("given", ["abc", "1e", "", "nan", "-"])
@pytest.mark.parametrize(("option", "wanted"), NUMBERS.items(), ids=" ".join)
def test_what_is_no_number_is_told_what_is_wanted(run, option, wanted, given):
    code, _, err = run(*option, given)
    assert code == 2
    assert f"Invalid value for '{option[1]}': {given!r}; want {wanted}\n" in err


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (("check", "--seq", "0"), "'0'; want a whole number, 1 or more"),
        (("tolerance", "--delta", "1"), "'1'; want a number between 0 and 1"),
        (("run", "--timeout", "0"), "'0'; want a number over 0"),
        (("lab", "--port", "65536"), "'65536'; want a whole number from 1 to 65535"),
        (("check", "--seed", str(2**63)), "want a whole number from -2^63 to"),
    ],
)
def test_a_number_out_of_range_likewise(run, args, wanted):
    code, _, err = run(*args)
    assert code == 2 and wanted in err


def commands() -> dict[str, click.Command]:
    found = dict(cli.cli.commands)
    for name, command in list(found.items()):
        found |= {f"{name} {n}": c for n, c in getattr(command, "commands", {}).items()}
    return found


def test_every_number_of_every_command_speaks_in_words():
    types = {type(p.type) for c in commands().values() for p in c.params}
    numbers = {t for t in types if issubclass(t, (type(click.INT), type(click.FLOAT)))}
    assert numbers == {
        *(arguments.Whole, arguments.WholeRange, arguments.Number, arguments.NumberRange),
        arguments.Seed,
    }


@pytest.mark.parametrize("name", commands())
def test_the_help_has_no_number_of_64_bits(run, name):
    code, out, _ = run(*name.split(), "--help")
    assert code == 0 and "Usage" in out and not re.search(r"\d{16}", out)


@pytest.mark.parametrize("name", cli.cli.commands)
def test_the_list_of_commands_cuts_no_sentence(run, name):
    code, out, _ = run("--help")
    line = next(x for x in out.splitlines() if re.match(rf"  {name}  ", x))
    assert code == 0 and line.endswith((".", "?")) and not line.endswith("...") and len(line) < 80


# ---- options -------------------------------------------------------------------------------------


def test_an_error_names_the_options_of_its_command(run, monkeypatch):
    for args in (["build", "lm_head"], ["tolerance", *SMALL], ["reveal", "lm_head", "--n=4"]):
        code, _, err = run(*args, "--arch", "dav-1")
        assert code == 2 and "as --arch …" in " ".join(err.split()) and "arch=" not in err
    monkeypatch.setattr(cli, "build_kernel", _no_npu)
    code, found, _ = run("build", "lm_head", "--json")
    assert code == 3 and found["error"]["message"] == "none; use --backend twin."
    code, _, err = run("check", "--input-mode=constant", "--token-value=900", "--vocab=7")
    assert code == 2 and "--token-value 900: want a vocabulary id below 7" in err


def _no_npu(*_):
    raise errors.MissingError("none; use backend='twin'.")


def test_an_option_that_a_command_has_not_got_is_not_named():
    options = {
        name: {o: p for p in command.params for o in p.opts}
        for name, command in cli.cli.commands.items()
    }
    assert as_options("use backend='twin'", options["probe"]) == "use --device twin"
    assert as_options("use backend='twin'", options["check"]) == "use --device cpu"
    assert as_options("use backend='twin'", options["mutations"]) == "use backend='twin'"
    # Constants of a kernel are no options, and code is no sentence.
    for text in ("rows=2: it must be", 'wb.build("lm_head", backend="twin")', "my_arch=3"):
        assert as_options(text, options["invariance"]) == text


def test_transforms_are_told_in_words(run):
    code, _, err = run("invariance", "--transforms=T1,T9", "--candidate=F.linear", *SMALL)
    assert code == 2 and "transform T9 is unknown; known ones are T1, T2, " in err
    code, _, err = run("invariance", "--transforms=,", "--candidate=F.linear", *SMALL)
    assert code == 2 and "no transform is given; known ones are T1, T2, " in err


# ---- files and folders ---------------------------------------------------------------------------

FILES = {"probe": ["probe", "--out"], "sweep": ["sweep", "--tile=64", *SMALL, "--store"]}


@pytest.mark.parametrize("args", FILES.values(), ids=FILES)
def test_a_file_in_a_folder_that_is_not_there_is_refused_first(run, args, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("the work was begun")

    monkeypatch.setattr("workbench.numerics.probes.probe", never)
    monkeypatch.setattr("workbench.sweep.runner.sweep", never)
    for path in (tmp_path / "no" / "file", tmp_path):
        code, out, err = run(*args, path)
        assert (code, out) == (2, "") and str(path) in err and "folder" in err
    assert list(tmp_path.iterdir()) == []
    assert "its folder must be there" in " ".join(run(args[0], "--help")[1].split())


def test_a_folder_is_made(run, tmp_path):
    code, _, _ = run("lab", "--dry-run", "--dir", tmp_path / "a" / "b")
    assert code == 0 and any((tmp_path / "a" / "b").iterdir())
    for command in ("lab", "report"):
        assert "made if it is not there" in " ".join(run(command, "--help")[1].split())


def test_probes_are_written(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("probe", "--out", "probes.md")
    assert code == 0 and out.endswith("wrote probes.md\n")
    assert Path("probes.md").read_text().startswith("# Probes of dav-2201 on the twin")
