"""The examples of the README and of the operators' pages run as printed; commands, links and tests
that the pages name exist."""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
import subprocess
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import workbench
from workbench.cli import cli, main

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


COMMANDS = re.findall(r"^workbench .*$", _block("bash", "workbench doctor"), re.M)


@pytest.mark.parametrize("line", COMMANDS)
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


def test_the_program_runs_as_written(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, line = re.search(r"^(head .*)\n(workbench run .*)$", README, re.M).groups()
    monkeypatch.chdir(ROOT)
    here = [text.split("#")[0].replace("/tmp", str(tmp_path)) for text in (made, line)]
    subprocess.run(here[0], shell=True, check=True)
    assert main(here[1].split()[1:]) == 0
    assert capfd.readouterr().err.startswith("workbench: 0 faults; checked mem, init, race, sync")
    rows, columns = map(int, here[1].split()[-2:])
    found = np.fromfile(tmp_path / "y.bin", np.float32)
    # The softmax of equal numbers.
    assert found.tobytes() == np.full(rows * columns, 1 / columns, np.float32).tobytes()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def missing_names(text: str) -> list[str]:
    """What the Python blocks of a page import from the workbench, or reach through it, in vain."""
    found = []
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        tree = ast.parse(textwrap.dedent(block).replace("…", "..."))
        known = {"wb": "workbench", "workbench": "workbench"}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("workbench"):
                for name in node.names:
                    known[name.asname or name.name] = f"{node.module}.{name.name}"
        chains = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        wanted = {known[n] for n in known if n not in ("wb", "workbench")}
        for chain in chains:
            head, _, rest = chain.partition(".")
            if head in known and re.fullmatch(r"[\w.]+", rest):
                wanted.add(f"{known[head]}.{rest}")
        found += [name for name in sorted(wanted) if not _is_there(name)]
    return found


def _is_there(name: str) -> bool:
    """Whether a module has the name; what a class's instances have is not looked for."""
    thing: Any = workbench
    for part in name.split(".")[1:]:
        if not isinstance(thing, ModuleType):
            return True
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(f"{thing.__name__}.{part}")
        if not hasattr(thing, part):
            return False
        thing = getattr(thing, part)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_the_python_of_a_page_names_is_there(page: Path) -> None:
    assert missing_names(page.read_text()) == []


def test_a_name_that_is_not_there_is_seen() -> None:
    page = "```python\nfrom workbench.sweep import choose\nwb.build(choose.{}(x), wb.{})\n```"
    assert missing_names(page.format("pareto", "sweep.Space")) == []
    gone = ["workbench.sweep.Spice", "workbench.sweep.choose.in_class_of"]
    assert missing_names(page.format("in_class_of", "sweep.Spice")) == gone
    assert missing_names("```python\nfrom workbench.plots import sketch\n```")


OPERATORS = sorted((ROOT / "docs" / "operators").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_linked_file_is_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []
    assert local or page.name not in ("README.md", "lm_head.md"), "the control: links are found"


@pytest.mark.parametrize("page", OPERATORS, ids=lambda p: p.name)
def test_the_operators_pages_run_and_name_tests_that_exist(page: Path) -> None:
    text = page.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})
    table = text.partition("## Tests")[2].partition("\n## ")[0]
    named: list[str] = []
    for row in table.splitlines():
        folder = ""
        for name in re.findall(r"`([\w/]+(?:\.py)?)`", row.rpartition(" | ")[2]):
            folder = name.rpartition("/")[0] or folder  # `tests/ops/a.py`, `b.py`
            named.append(name if "/" in name else f"{folder}/{name}")
    assert named and [name for name in named if not (ROOT / name).exists()] == []


NUMBERS = [
    ROOT / "docs" / f"{n}.md" for n in ("orders", "bit-classes", "parity", "drift", "bounds")
]
NUMBERS += [ROOT / "docs" / "tolerances.md"]


@pytest.mark.parametrize("page", NUMBERS, ids=lambda p: p.name)
def test_the_pages_on_numbers_run(page: Path) -> None:
    """Blocks of a page run one after another, as a reader would paste them."""
    text = page.read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert blocks
    for line in re.findall(r"^(workbench [^\n]*)$", text, re.M):
        test_each_command_exists_with_its_options(line)
