"""The headless report: verdicts, failures that are named, and what an interrupted run leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.report_kit import notebook
from workbench import cli, paths
from workbench.errors import InputError, MissingError
from workbench.report import run_report
from workbench.report.pages import _mended

ROOT = Path(__file__).resolve().parent.parent


FIGURE = """
import matplotlib.pyplot as plt
from IPython.display import display
fig, ax = plt.subplots(figsize=(1, 1)); ax.plot([1, tile])
{show}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One report over a notebook that passes and one for each way to fail."""
    folder = tmp_path_factory.mktemp("notebooks {x}")  # papermill would format a path with braces
    with_alt = "display(fig, metadata={'image/png': {'alt': 'A line that rises'}}); plt.close(fig)"
    files = [
        notebook(
            folder / "01_good.ipynb",
            ("md", "# The *good* one\n\nIts claim, with [a link](x), `holds`.\n\nMore."),
            ("parameters", "tile = 64\narch: str = 'dav-2201'"),
            ("code", "import sys, workbench\nprint('INTERPRETER', sys.executable)"),
            ("md", "## A figure without words"),
            ("code", FIGURE.format(show="plt.show()")),
            ("code", FIGURE.format(show=with_alt)),
            ("code", "import ipywidgets\nipywidgets.IntSlider()"),
            ("code", "assert tile == 7, tile"),
        ),
        notebook(
            folder / "02_bad.ipynb",
            ("md", "# Bad\n\nIt fails."),
            ("code", "x = 1"),
            ("md", "## Claim one\n\ntext\n\n## Claim two: x is 2"),
            ("code", "assert x == 2, f'x is {x}, <b>not</b> 2'"),
            ("code", "print('NEVER')"),
        ),
        notebook(
            folder / "03_exit.ipynb",
            ("md", "# Exits"),
            ("code", "import sys; sys.exit(0)"),
            ("code", "1"),
        ),
        notebook(folder / "04_dies.ipynb", ("code", "import os; os._exit(3)"), ("code", "1")),
        notebook(folder / "05_slow.ipynb", ("code", "import time"), ("code", "time.sleep(60)")),
    ]
    out = tmp_path_factory.mktemp("report") / "deep" / "out"
    lines: list[str] = []
    return run_report(out, files, {"tile": 7}, timeout=9, progress=lines.append, jobs=1), out, lines


def test_verdicts(made):
    report, out, lines = made
    assert [n.status for n in report.notebooks] == ["passed", *["failed"] * 4]
    assert not report.passed
    assert lines[0] == "[1/5] 01_good" and len(lines) == 10
    assert re.fullmatch(r"passed 01_good \(\d+\.\d s\)", lines[1])
    data = json.loads((out / "report.json").read_text())
    assert data == report.to_dict()
    for found in data["notebooks"]:
        assert {"name", "passed", "seconds", "html"} <= set(found)
        assert (out / found["html"]).is_file() and found["seconds"] > 0
    good = report.notebooks[0]
    assert (good.heading, good.claim) == ("The good one", "Its claim, with a link, holds.")
    assert good.parameters == {"tile": "7", "arch": "'dav-2201'"}
    assert report.provenance["architecture"] == "dav-2201"
    assert str(report).splitlines()[0].startswith("passed")


def test_a_failure_names_its_claim_cell_and_message(made):
    _, bad, exits, dies, slow = made[0].notebooks
    assert (bad.failed_claim, bad.failed_cell, bad.not_reached) == ("Claim two: x is 2", 4, 1)
    assert bad.message == "AssertionError: x is 1, <b>not</b> 2"
    assert (exits.failed_cell, exits.not_reached) == (2, 1)  # a notebook cannot leave early
    assert (
        "DeadKernelError: the kernel process died in this cell" in dies.message
        and dies.failed_cell == 1
    )
    assert slow.message == "TimeoutError: the cell took more than 9 s" and slow.failed_cell == 2
    index = (made[1] / "index.html").read_text()
    assert "Claim two: x is 2" in index
    assert "x is 1, &lt;b&gt;not&lt;/b&gt; 2" in index
    assert "NEVER" not in re.sub(r"<[^>]*>|print.*", "", (made[1] / "02_bad.html").read_text())


def test_links_to_files_beside_the_notebook_are_words(made):
    """The page is read elsewhere, as an artefact of CI say, where those files are not."""
    page = (made[1] / "01_good.html").read_text()
    assert ">a link (<code>x</code>)</span>" in page and 'href="x"' not in page
    beside = '<a href="../docs/contract.md#a">the <em>contract</em></a>'
    kept = '<a href="https://example.org/b">there</a> <a class="anchor-link" href="#up">up</a>'
    assert _mended(f"{beside} {kept}") == (
        '<span data-file="../docs/contract.md#a">the <em>contract</em> '
        f"(<code>docs/contract.md#a</code>)</span> {kept}"
    )


def test_the_kernel_is_this_interpreter(made):
    assert f"INTERPRETER {sys.executable}" in (made[1] / "01_good.html").read_text()


class Page(HTMLParser):
    """Collects what an accessibility check needs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def all(self, tag: str) -> list[dict]:
        return [attrs for name, attrs in self.tags if name == tag]


def test_pages_stand_alone_and_are_accessible(made):
    report, out, _ = made
    for name in ["index.html", *[n.html for n in report.notebooks]]:
        page = Page((out / name).read_text())
        assert page.all("html")[0]["lang"] == "en"
        assert page.all("title") and page.all("main")
        for tag, attrs in page.tags:
            for link in (attrs.get("src"), attrs.get("href") if tag == "link" else None):
                assert not link or link.startswith("data:"), f"{name} fetches {link}"
        assert not page.all("script")
        assert all(image.get("alt") for image in page.all("img"))
        ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
        assert len(ids) == len(set(ids)), name
        for link in page.all("a"):
            target = link["href"]
            assert target[1:] in ids if target.startswith("#") else "/" not in target
            page_, _, place = target.partition("#")
            if page_ and place:
                assert f'id="{place}"' in (out / page_).read_text()
    index = (out / "index.html").read_text()
    assert "prefers-color-scheme: dark" in index
    for word in (
        "Notebooks: 1 passed, 4 failed, of 5",
        "not reached",
        "twin, no Ascend hardware",
        "commit",
        "✓",
        "✗",
        "Provenance",
        "torch",
        "cores",
    ):
        assert word in index
    assert {"01_good.html", "report.json", "report.xml"} <= {
        a["href"] for a in Page(index).all("a")
    }


def test_figures_keep_their_alt_text_and_widgets_leave_a_note(made):
    text = (made[1] / "01_good.html").read_text()
    alts = [image["alt"] for image in Page(text).all("img")]
    assert alts == ["Figure under the heading: A figure without words", "A line that rises"]
    assert "An interactive panel stands here" in text and "IntSlider(value" not in text
    (thumbnail,) = Page((made[1] / "index.html").read_text()).all("img")
    assert thumbnail["src"].startswith("data:image/png;base64,")


def test_command_line_exit_codes(tmp_path, capfd):
    good = notebook(tmp_path / "g.ipynb", ("md", "# G"), ("code", "print('x')"))
    bad = notebook(tmp_path / "b.ipynb", ("md", "# B"), ("code", "assert False, 'because'"))
    args = ["report", "--out", str(tmp_path / "out"), "--json"]
    assert cli.main([*args, "--notebook", str(good)]) == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["passed"], found["notebooks"][0]["html"]) == (True, "g.html")
    assert cli.main([*args, "--notebook", str(bad)]) == 1
    (found,) = json.loads(capfd.readouterr().out)["notebooks"]
    assert found["message"] == "AssertionError: because" and found["failed_claim"] == "B"
    assert (tmp_path / "out" / "index.html").is_file()


def test_notebooks_at_once_leave_this_process_where_it_is(tmp_path, monkeypatch):
    """papermill's own `cwd` moves the process: under another notebook, and under a relative out."""
    monkeypatch.chdir(tmp_path)
    where = "import os, time; time.sleep({}); assert os.getcwd() != {!r}"
    good = notebook(tmp_path / "g.ipynb", ("code", where.format(0, str(tmp_path))))
    bad = notebook(tmp_path / "b.ipynb", ("code", where.format(3, str(tmp_path)) + "; assert 0"))
    seen = []
    asked = {"jobs": 2, "progress": lambda line: seen.append(os.getcwd())}
    found = run_report("out", [good, bad], **asked).to_dict()
    assert seen == [str(tmp_path)] * 4
    assert [n["passed"] for n in found["notebooks"]] == [True, False]
    assert (tmp_path / "out" / "index.html").is_file()


def test_parameters_on_the_command_line(tmp_path, capfd):
    file = notebook(tmp_path / "g.ipynb", ("parameters", "tile = 1\nname = 'x'\nseed = 0"))
    (tmp_path / "p.yml").write_text("tile: 3\ng: {seed: 5}\n")
    args = ["report", "--out", str(tmp_path / "out"), "--notebook", str(file), "--json"]
    given = ["-p", "tile", "2", "-p", "name=a b", "--parameters-file", str(tmp_path / "p.yml")]
    assert cli.main([*args, *given]) == 0
    (found,) = json.loads(capfd.readouterr().out)["notebooks"]
    assert found["parameters"] == {"tile": "2", "name": "'a b'", "seed": "5"}
    for wrong in (["-p", "tile"], ["-p", "tile=1", "2"], ["now"], ["--jobs", "0"],
                  ["--notebook-timeout", "0"], ["--parameters-file", "nowhere.yml"]):  # fmt: skip
        assert cli.main([*args, *wrong]) == 2, wrong
        assert json.loads(capfd.readouterr().out)["error"]


def test_wrong_input(tmp_path, monkeypatch):
    file = notebook(tmp_path / "a.ipynb", ("parameters", "tile = 1"))
    (tmp_path / "other").mkdir()
    same = notebook(tmp_path / "other" / "a.ipynb", ("code", "1"))
    with pytest.raises(InputError, match="no file and no notebook"):
        run_report(tmp_path / "out", ["nowhere"])
    with pytest.raises(InputError, match=r"parameter tiles; they have: tile"):
        run_report(tmp_path / "out", [file], {"tiles": 3})
    with pytest.raises(InputError, match="same page"):
        run_report(tmp_path / "out", [file, same])
    with pytest.raises(InputError, match="Cannot write"):
        run_report(file, [file])
    (tmp_path / "no.ipynb").write_text("{")
    with pytest.raises(InputError, match="not a notebook"):
        run_report(tmp_path / "out", [tmp_path / "no.ipynb"])
    with pytest.raises(
        InputError, match=r"Give 01_\w+\.ipynb, the notebook that it is paired with"
    ):
        run_report(tmp_path / "out", [paths.NOTEBOOKS / "01_same_row_other_bits.py"])
    index = notebook(tmp_path / "index.ipynb", ("code", "1"))
    with pytest.raises(InputError, match=r"over the report's index\.html"):
        run_report(tmp_path / "out", [index])
    for wrong in ({"timeout": 0}, {"timeout": float("nan")}, {"notebook_timeout": -1.0}):
        with pytest.raises(InputError, match="more than 0 seconds"):
            run_report(tmp_path / "out", [file], **wrong)
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path / "empty")
    with pytest.raises(MissingError, match="no notebooks"):
        run_report(tmp_path / "out")


def test_the_machine_cannot_switch_assertions_off(tmp_path, monkeypatch):
    """Python leaves every `assert` out under PYTHONOPTIMIZE, and the report would be green.

    The name and the time-outs are odd too: links lead there, and no timer overflows.
    """
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    file = notebook(tmp_path / "a b#c?%41.ipynb", ("md", "# T"), ("code", "assert False, 'seen'"))
    asked = {"timeout": float("inf"), "notebook_timeout": 1e12}
    report = run_report(tmp_path / "out", [file], **asked)
    assert not report.passed and report.notebooks[0].message == "AssertionError: seen"
    assert [a.status for claim in report.claims for a in claim.assertions] == ["failed"]
    links = [a["href"] for a in Page((tmp_path / "out" / "index.html").read_text()).all("a")]
    assert [unquote(link) for link in links if "%23c%3F" in link and ".html" in link]
    for link in links:
        name = unquote(link.partition("#")[0])
        assert not name or (tmp_path / "out" / name).is_file(), link


def test_two_reports_into_one_folder_are_not_mixed(tmp_path, monkeypatch):
    file = notebook(tmp_path / "a.ipynb", ("md", "# A"), ("code", "assert True"))
    out = tmp_path / "out"
    refused = []

    def second(line):
        with pytest.raises(InputError, match="Another report is being written into"):
            run_report(out, [file])
        refused.append(line)

    assert run_report(out, [file], progress=second).passed and len(refused) == 2
    monkeypatch.setattr("workbench.report.run.execute_all", lambda *a: [])
    run_report(out, [file])  # the folder is free again


LINE = """
import sys
from workbench import cli
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_an_interrupted_run_leaves_the_finished_notebooks(tmp_path, number):
    first = notebook(tmp_path / "1.ipynb", ("md", "# One"), ("code", "1"))
    pid = tmp_path / "pid"
    hangs = f"import os, time, pathlib; pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))"
    second = notebook(tmp_path / "2.ipynb", ("code", hangs), ("code", "time.sleep(300)"))
    out = tmp_path / "out"
    line = [sys.executable, "-c", LINE, "report", "--out", str(out), "--json", "--jobs", "1"]
    line += ["--notebook", str(first), "--notebook", str(second)]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    stdout, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(stdout)["error"]["message"] == "interrupted"
    data = json.loads((out / "report.json").read_text())
    assert data["interrupted"] and not data["passed"]
    assert [n["status"] for n in data["notebooks"]] == ["passed", "not run"]
    assert (out / "1.html").is_file()
    index = (out / "index.html").read_text()
    assert "The run was interrupted" in index and "1 not run" in index
    assert not list(out.glob("*.new"))
    deadline = time.monotonic() + 10
    while alive(int(pid.read_text())) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(int(pid.read_text())), "the kernel outlived the interrupted report"


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
