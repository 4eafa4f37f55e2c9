"""The example for GitHub Actions: it parses, is bounded in time, and every command in it exists."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from workbench import cli
from workbench.commands.arguments import literal, parse_pairs
from workbench.errors import InputError
from workbench.report.claims import declared, read
from workbench.report.parameters import distribute, find, from_file

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "ci" / "github-actions.yml"


def steps(text: str) -> list[dict]:
    (job,) = yaml.safe_load(text)["jobs"].values()
    return job["steps"]


def lines(text: str) -> list[str]:
    """Every `workbench …` line of the steps, without redirections."""
    found = [line for step in steps(text) for line in step.get("run", "").splitlines()]
    return [line.strip() for line in found if line.strip().startswith("workbench ")]


def parsed(line: str) -> dict:
    """The options of a command line, read by the command itself; nothing is run."""
    name, *rest = shlex.split(line)[1:]
    command = cli.cli.get_command(click.Context(cli.cli), name)
    if command is None:
        raise click.UsageError(f"no command {name}")
    return command.make_context(name, rest).params


def test_every_command_line_parses():
    text = FILE.read_text("utf-8")
    names = [line.split()[1] for line in lines(text)]
    assert names == ["doctor", "report", "report"]
    for line in lines(text):
        parsed(line)


@pytest.mark.parametrize("line", ["reports", "report --hours 3", "report --jobs 0"])
def test_a_line_that_is_wrong_is_seen(line):
    with pytest.raises(click.UsageError):
        parsed(f"workbench {line}")


def test_the_parameters_it_gives_are_declared(tmp_path):
    """Those of the file it writes and of -p, by the notebooks that it names."""
    text = FILE.read_text("utf-8")
    (written,) = re.findall(r"echo '(.*)' > (\S+)", text)
    (tmp_path / written[1]).write_text(written[0])
    line = lines(text)[-1]
    options = parsed(line)
    assert options["file"] == written[1]
    files = {file: declared(read(file)) for file in find(options["notebooks"])}
    pairs = parse_pairs(options["parameters"], "-p")
    given = {name: literal(value) for name, value in pairs.items()}  # as the command reads them
    ((values),) = distribute(files, from_file(tmp_path / written[1]), given).values()
    assert set(values) == set(json.loads(written[0])["01"]) | set(given)
    with pytest.raises(InputError):
        distribute(files, {"01": {"tile": 3}})


def unbounded(text: str) -> list[str]:
    """What may run for ever: a job, or a report whose cells, notebooks or step have no limit."""
    found = []
    for name, job in yaml.safe_load(text)["jobs"].items():
        found += [] if "timeout-minutes" in job else [name]
    for step in steps(text):
        if "workbench report" in step.get("run", "") and "timeout-minutes" not in step:
            found.append(step["name"])
    return found


def test_everything_in_it_has_a_time_out():
    text = FILE.read_text("utf-8")
    assert unbounded(text) == []
    assert unbounded(text.replace("timeout-minutes", "x")) == [
        "report", "Check the claims", "One notebook with other parameters",
    ]  # fmt: skip


def test_it_caches_and_keeps_what_it_makes():
    text = FILE.read_text("utf-8")
    uses = [step for step in steps(text) if "uses" in step]
    used = {step["uses"].split("@")[0]: step.get("with", {}) for step in uses}
    assert "actions/cache" in used and used["actions/setup-python"]["cache"] == "pip"
    for name in used["actions/setup-python"]["cache-dependency-path"].split():
        assert (ROOT / name).is_file()
    # The report's folder holds report.xml as well; it is kept when a claim failed, too.
    kept = used["actions/upload-artifact"]["path"].split()
    assert kept == [f"{parsed(line)['out']}/" for line in lines(text) if " report " in line]
    (upload,) = (s for s in steps(text) if "upload-artifact" in s.get("uses", ""))
    assert "cancelled()" in upload["if"]
