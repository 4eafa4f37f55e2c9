"""The README's example runs as printed, and its commands exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from workbench.cli import cli

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def _block(language: str, containing: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(block for block in blocks if containing in block)


def test_the_example_runs_and_shows_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict = {}
    exec(_block("python", "wb.build"), names)
    printed = capsys.readouterr().out
    changed = int(re.search(r"tensor\((\d+)\)", printed).group(1))
    assert changed > 0, "tile 256 and tile 64 must not share every bit"
    judged = names["wb"].invariance(names["kernel"], names["hidden"][:4], names["weight"])
    assert judged.passed


@pytest.mark.parametrize("line", [x for x in _block("bash", "workbench doctor").split("\n") if x])
def test_each_command_exists_with_its_options(line: str) -> None:
    words = line.split("#")[0].partition(" -- ")[0].split()
    assert words[0] == "workbench"
    command = cli.commands[words[1]]
    group = getattr(command, "commands", None)
    if group is not None:
        command = group[words[2]]
    known = {option for p in command.params for option in p.opts}
    assert {w for w in words if w.startswith("-")} <= known
    assert CliRunner().invoke(cli, [*words[1:2], "--help"]).exit_code == 0


def test_every_linked_file_is_there() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README)
    missing = [link for link in links if not (ROOT / link).exists()]
    assert links and not missing
