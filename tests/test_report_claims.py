"""Each claim of a report: what judges it, and that every shipped one can fail."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import nbformat
import pytest

from tests.report_kit import notebook, run_reduced
from workbench import paths
from workbench.errors import InputError
from workbench.report import Report, run_report
from workbench.report.claims import assertions, claims, describe, read
from workbench.report.execute import Executed, Execution
from workbench.report.judge import judge
from workbench.report.junit import junit
from workbench.report.parameters import distribute, find, from_file
from workbench.report.result import Claim, NotebookRun
from workbench.report.run import execute_all

SHIPPED = sorted(paths.NOTEBOOKS.glob("*.ipynb"))


# ---- every shipped claim can fail --------------------------------------------------------------


def judged(file, source, cell=None, line=None) -> NotebookRun:
    """The verdict on a shipped notebook whose assertions are all true but the one given.

    Only the assertions are executed, so that all of them can be broken in turn; one notebook is
    broken and executed whole in tests/notebooks.
    """
    run = NotebookRun(file.stem, "title", "")
    executed, held = run_reduced(source, cell, line)
    error = None if cell is None else RuntimeError("papermill's")
    judge(run, Executed(executed, error, 1.0, "", held), 600, 600)
    return run


@pytest.mark.parametrize("file", SHIPPED, ids=lambda f: f.stem)
def test_any_assertion_broken_fails_its_claim(file):
    source = read(file)
    whole = judged(file, source)
    assert whole.passed and {c.status for c in whole.claims} == {"passed"}
    places = [
        (claim, one) for claim in claims(source.cells, "").values() for one in claim.assertions
    ]
    assert len(places) >= 4
    for number, (claim, one) in enumerate(places):
        run = judged(file, source, one.cell - 1, one.line)
        assert not run.passed and run.message == "AssertionError: broken on purpose"
        (failed,) = [c for c in run.claims if c.status == "failed"]
        assert failed.heading == run.failed_claim == claim.heading
        assert run.failed_cell == one.cell
        flat = [a for c in run.claims for a in c.assertions]
        assert [a.status for a in flat].count("failed") == 1
        assert flat[number].status == "failed" and flat[number].source == one.source
        assert {a.status for a in flat[number + 1 :] if a.cell > one.cell} <= {"not reached"}
        before = run.claims[: run.claims.index(failed)]
        assert all(c.status == "passed" for c in before)


def test_an_assertion_without_words_is_quoted(tmp_path):
    source = read(
        notebook(tmp_path / "a.ipynb", ("md", "# A"), ("code", "assert 1\nassert b == c"))
    )
    executed, held = run_reduced(source, 1, 2)
    executed.cells[1].outputs[0].evalue = ""
    run = NotebookRun("a", "A", "")
    judge(run, Executed(executed, RuntimeError("papermill's"), 1.0, "", held), 600, 600)
    assert run.message == run.claims[0].message == "AssertionError: assert b == c"


# ---- what is found in a notebook ---------------------------------------------------------------


def test_claims_are_headings_with_their_assertions(tmp_path):
    file = notebook(
        tmp_path / "a.ipynb",
        ("md", "# Title\n\nclaim"),
        ("code", "assert 1"),
        ("md", "## A\n\n## B *with* `marks`"),
        ("code", "%matplotlib inline\n\nx = 1\nif x:\n    assert x == 1, (\n        x)"),
        ("md", "no heading\n\n```python\n# not one either\n```"),
        ("code", "!ls\nassert x"),
        ("md", "## Nothing asserted"),
        ("code", "%%bash\nassert 3"),
        ("md", "## B *with* `marks`"),
        ("code", "assert 5"),
    )
    found = claims(read(file).cells, "T")
    assert [(c.heading, [(a.cell, a.line, a.source) for a in c.assertions])
            for c in found.values()] == [
        ("Title", [(2, 1, "assert 1")]),
        ("B with marks", [(4, 5, "assert x == 1, ( x)"), (6, 2, "assert x")]),
        ("B with marks", [(10, 1, "assert 5")]),
    ]  # fmt: skip
    assert assertions("assert (") == []  # the run says so


def test_what_is_no_notebook_is_said_in_words(tmp_path):
    file = tmp_path / "a.ipynb"
    for content, said in {
        b"<<<<<<< ours\n{}": "not JSON.*merge conflict",
        b"\xff\xfe": "not JSON",
        b"[1]": "must have cells",
        b"{}": "must have cells",
    }.items():
        file.write_bytes(content)
        with pytest.raises(InputError, match=f"(?s){said}"):
            read(file)


# ---- executed for real -------------------------------------------------------------------------


def test_what_a_kernel_evaluated_is_told_from_what_it_passed_over(tmp_path):
    """One kernel: loops, conditions, functions; the failing assertion, and those behind it."""
    file = notebook(
        tmp_path / "a.ipynb",
        ("parameters", "known = True"),
        ("md", "## Held"),
        ("code", "for i in range(3):\n    assert i >= 0\nif known:\n    assert 0, 'not here'"),
        ("md", "## Passed over"),
        ("code", "for i in []:\n    assert i"),
        ("md", "## Broken"),
        ("code", "def check(k):\n    assert k < 2, k\n\nassert True"),
        ("code", "assert 1\nfor k in range(3):\n    check(k)\nassert 2"),
        ("md", "## After"),
        ("code", "assert 3"),
    )
    report = run_report(tmp_path / "out", [file], {"known": False}, timeout=100)
    (run,) = report.notebooks
    assert [(c.heading, c.status) for c in run.claims] == [
        ("Held", "passed"),
        ("Passed over", "not asserted"),
        ("Broken", "failed"),
        ("After", "not reached"),
    ]
    assert "1 of 4 claims, 1 not asserted on this machine" in str(report)
    held, _, broken, _ = run.claims
    assert [a.status for a in held.assertions] == ["passed", "not asserted"]
    assert [(a.source, a.status) for a in broken.assertions] == [
        ("assert k < 2, k", "failed"),  # it had held before, in the same loop
        ("assert True", "passed"),
        ("assert 1", "passed"),
        ("assert 2", "not reached"),
    ]
    assert (run.failed_claim, run.failed_cell) == ("Broken", 8)
    assert held.seconds is not None and run.claims[-1].seconds is None
    root = ET.parse(tmp_path / "out" / "report.xml").getroot()
    assert dict(root.attrib, time="") == {
        "name": "workbench report", "tests": "4", "failures": "1", "errors": "0", "skipped": "2",
        "time": "",
    }  # fmt: skip
    failure = root.find("testsuite/testcase[@name='Broken']/failure")
    assert failure.get("type") == "AssertionError" and "assert k < 2, k" in failure.text
    index = (tmp_path / "out" / "index.html").read_text()
    assert 'href="a.html#Broken"' in index
    assert 'id="Broken"' in (tmp_path / "out" / "a.html").read_text()


def test_a_notebook_out_of_time_is_stopped_with_what_it_started(tmp_path):
    pid = tmp_path / "pid"
    hangs = (
        "import subprocess, signal, pathlib\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sleep', '300'])\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(child.pid))\n"
        "child.wait()\nassert 1"
    )
    file = notebook(tmp_path / "a.ipynb", ("md", "# Hangs"), ("code", hangs))
    execution = Execution(read(file), {}, 500, 500)
    run = describe(file, read(file), {})
    work = execute_all([(run, execution)], 1)

    # The clock of the test starts once the cell is running.
    def until_it_hangs() -> None:
        while not (pid.exists() and pid.read_text()):
            time.sleep(0.05)
        late.set()
        execution.stop()

    late = threading.Event()
    threading.Thread(target=until_it_hangs, daemon=True).start()
    ((_, executed),) = work
    assert late.is_set()
    executed.out_of_time = True
    judge(run, executed, 500, 7)
    assert run.message == "TimeoutError: the notebook took more than 7 s"
    assert (run.failed_claim, run.failed_cell) == ("Hangs", 2)
    assert [a.status for c in run.claims for a in c.assertions] == ["not reached"]
    deadline = time.monotonic() + 10
    while running(int(pid.read_text())) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not running(int(pid.read_text())), "what the cell started outlived it"


def running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")  # where there is one: a zombie has ended too
    return not status.exists() or not re.search(r"^State:\s+Z", status.read_text(), re.M)


class Fake:
    """An execution that takes its time and says when it ran."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.source, self.span, self.stopped = seconds, None, (0.0, 0.0), False

    def run(self) -> str:
        start = time.monotonic()
        time.sleep(self.seconds)
        self.span = (start, time.monotonic())
        return "done"

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize("jobs", [1, 2])
def test_jobs_run_at_once_and_no_more(jobs):
    work = [(NotebookRun(str(k), "", ""), Fake(0.1)) for k in range(5)]
    lines: list[str] = []
    assert len(list(execute_all(work, jobs, lines.append))) == 5
    assert lines == [f"[{k + 1}/5] {k}" for k in range(5)]
    spans = [execution.span for _, execution in work]
    at_once = max(sum(a <= start < b for a, b in spans) for start, _ in spans)
    assert at_once == jobs
    assert not any(execution.stopped for _, execution in work)


def test_an_error_of_ours_is_a_verdict_and_the_rest_goes_on():
    bad = Fake(0)
    bad.run = lambda: 1 / 0
    work = [(NotebookRun("bad", "", ""), bad), (NotebookRun("good", "", ""), Fake(0))]
    found = {run.name: executed for run, executed in execute_all(work, 1)}
    assert isinstance(found["bad"].error, ZeroDivisionError) and found["good"] == "done"


def test_an_interrupted_run_stops_what_is_running():
    work = [(NotebookRun(str(k), "", ""), Fake(0.3)) for k in range(3)]
    first = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        for _ in execute_all(work, 1):
            raise KeyboardInterrupt
    assert all(execution.stopped for _, execution in work) and time.monotonic() - first < 5


def test_what_ended_while_a_page_was_written_is_kept(tmp_path, monkeypatch):
    """Ctrl-C comes with one notebook written, one ended and not yet fetched, one running."""
    ended, stopped = threading.Event(), threading.Event()

    class Reduced:
        def __init__(self, source, *_):
            self.source = source

        def run(self) -> Executed:
            last = "c" in self.source.cells[0].source
            if last:
                ended.set()
                stopped.wait(30)
            return Executed(*_executed(self.source), given_up=last)

        def stop(self) -> None:
            stopped.set()

    def _executed(source):
        executed, held = run_reduced(source, None, None)
        return executed, None, 1.0, "", held

    def progress(line: str) -> None:
        if line.startswith("passed"):
            assert ended.wait(30)
            raise KeyboardInterrupt

    monkeypatch.setattr("workbench.report.run.Execution", Reduced)
    files = [
        notebook(tmp_path / f"{k}.ipynb", ("md", f"# {k}"), ("code", "assert 1")) for k in "abc"
    ]
    with pytest.raises(KeyboardInterrupt):
        run_report(tmp_path / "out", files, jobs=1, progress=progress)
    found = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [n["status"] for n in found["notebooks"]] == ["passed", "passed", "not run"]
    assert found["interrupted"] and (tmp_path / "out" / "b.html").is_file()


@pytest.mark.parametrize(
    ("code", "said"),
    [(3, "exit code 3"), (-signal.SIGKILL, "SIGKILL: often too little memory"), (None, "cell\n")],
)
def test_a_dead_kernel_is_said_in_words(tmp_path, code, said):
    class DeadKernelError(RuntimeError):
        pass

    file = notebook(tmp_path / "a.ipynb", ("md", "# A"), ("code", "1"))
    run = describe(file, read(file), {})
    executed = Executed(read(file), DeadKernelError(), 1.0, "log", None, exit_code=code)
    judge(run, executed, 9, 9)
    assert said in run.message and run.message.endswith("log")


def test_a_magic_that_refuses_leaves_no_error_output_and_is_named_all_the_same(tmp_path):
    from papermill.exceptions import PapermillExecutionError

    file = notebook(tmp_path / "a.ipynb", ("md", "# A"), ("code", "%%nothing\n1"))
    run = describe(file, read(file), {})
    error = PapermillExecutionError(1, 1, "%%nothing", "CellExecutionError", "", [])
    executed = read(file)
    executed.cells[1].execution_count = 1
    executed.cells[1].metadata["papermill"] = {"start_time": "x"}
    text = "UsageError: no such magic\n"
    executed.cells[1].outputs = [nbformat.v4.new_output("stream", name="stderr", text=text)]
    judge(run, Executed(executed, error, 1.0, "", set()), 9, 9)
    assert run.message == "UsageError: no such magic" and run.failed_claim == "A"


# ---- JUnit -------------------------------------------------------------------------------------


def suite(status: str, *claims_: Claim, **fields) -> ET.Element:
    run = NotebookRun("n\x00ame", "H", "c", status, 1.5, claims=list(claims_), **fields)
    text = junit(Report("o", "i", [run], {"date": "2026-01-01T00:00:00+00:00"}))
    return ET.fromstring(text.split("\n", 1)[1])


def test_junit_says_failure_skipped_and_error():
    root = suite(
        "failed",
        Claim("good", [], "passed", 1.0),
        Claim("b<a>d \ud800\x1b", [], "failed", 2.0, message="E: \x07 a\nb"),
        Claim("later", [], "not reached"),
        Claim("elsewhere", [], "not asserted"),
        failed_claim="bad",
    )
    assert [[child.tag for child in case] for case in root.iter("testcase")] == [
        [], ["failure"], ["skipped"], ["skipped"],
    ]  # fmt: skip
    assert root.get("time") == "1.500" and root.get("failures") == "1"
    assert [case.get("time") for case in root.iter("testcase")][:2] == ["1.000", "2.000"]


def test_junit_of_an_interrupted_report_is_not_green():
    root = suite("not run", Claim("c", [], "not run"))
    assert root.get("errors") == "1"
    # nor is a notebook without a single assertion invisible
    assert suite("failed", message="E: x").get("failures") == "1"
    assert suite("passed").get("tests") == "1"


# ---- parameters from a file --------------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    one, other = tmp_path / "02_a.ipynb", tmp_path / "08_b.ipynb"
    some = {"name": "'x'", "any": "None", "made": "2 * n"}
    others = {"tile": "2", "blocks": "[1, 2]", "rate": "0.5"}
    return {one: {"tile": "1", "archs": "[]", **some}, other: others}, one, other


def test_parameters_for_all_for_one_and_from_the_command_line(two, tmp_path):
    declared, one, other = two
    file = tmp_path / "p.yml"
    file.write_text("tile: 64\n02: {archs: [dav-2201], tile: 7}\n'08': {}\n")
    assert distribute(declared, from_file(file)) == {
        one: {"tile": 7, "archs": ["dav-2201"]},
        other: {"tile": 64},
    }
    assert distribute(declared, from_file(file), {"tile": 9})[one]["tile"] == 9
    (tmp_path / "p.json").write_text('{"02_a": {"tile": 5}}')
    assert distribute(declared, from_file(tmp_path / "p.json")) == {one: {"tile": 5}, other: {}}
    file.write_text("# nothing\n")
    assert from_file(file) == {}


def test_yaml_is_read_as_people_mean_it(two, tmp_path):
    declared, one, other = two
    file = tmp_path / "p.yml"
    file.write_text("name: no\ntile: 010\nrate: 1e3\nmade: [x]\nany: {a: 1}\n08: {tile: -3}\n")
    given = distribute(declared, from_file(file))
    assert given == {
        one: {"name": "no", "tile": 10, "made": ["x"], "any": {"a": 1}},
        other: {"tile": -3, "rate": 1000.0},
    }
    assert type(given[other]["rate"]) is float
    file.write_text("x: &x {tile: 5}\n2:\n  <<: *x\n  tile: 6\nrate: 2\n".replace("x: &x", "8: &x"))
    assert distribute(declared, from_file(file)) == {
        one: {"tile": 6},
        other: {"tile": 5, "rate": 2},
    }


def test_a_number_names_the_notebook_with_that_number():
    for asked in ("1", "01", "01_same"):
        assert [f.stem for f in find([asked])] == ["01_same_row_other_bits"]
    assert [f.stem for f in find(["10"])] == ["10_on_a_real_npu"]
    with pytest.raises(InputError, match="'0' names no file and no notebook"):
        find(["0"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- a", "holds a list"),
        ("a: [", "is not YAML"),
        ("a: 1\na: 2", "a is given twice"),
        ("a: 2026-01-01", "read as a date"),
        ("1.5: 2", "is no name"),
        ("a: {b: [!!binary aGk=]}", "read as a bytes"),
        ("tiles: 3", "No notebook that is run has the parameter tiles.*Did you mean tile"),
        ("08: {archs: 1}", "08_b has no parameter archs; it has: tile, blocks, rate"),
        ("77: {tile: 1}", "'77'.*no notebook of this report"),
        ("'': {tile: 1}", "more than one notebook"),
        ("'0': {tile: 1}", "'0'.*no notebook of this report"),  # a number is not a beginning
        ("a: &x [*x]", "holds itself"),
        ("a: " + "[" * 3000 + "]" * 3000, "nested too deep"),
        ("? [a]\n: b", "unhashable key"),
        ("tile: [64]", r"02_a: tile is \[64\]; wanted a whole number, such as 1"),
        ("tile: 64.5", "wanted a whole number"),
        ("tile: true", "wanted a whole number"),
        ("tile: null", "wanted a whole number"),
        ("tile: 12:30", "'12:30'; wanted a whole number"),  # 750 in YAML 1.1
        ("archs: dav-2201", "02_a: archs is 'dav-2201'; wanted a list"),
        ("blocks: [1, a]", "08_b: blocks is .* each item a whole number, such as"),
        ("2: {name: off}\nrate: off", "08_b: rate is 'off'; wanted a number"),
    ],
)
def test_wrong_parameters_are_refused(two, tmp_path, text, said):
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        distribute(two[0], from_file(file))


def test_a_parameters_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        from_file(tmp_path / "none.yml")
    (tmp_path / "b.json").write_bytes(b"\xff")
    with pytest.raises(InputError, match="not UTF-8"):
        from_file(tmp_path / "b.json")
    (tmp_path / "b.json").write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        from_file(tmp_path / "b.json")


def test_a_notebook_that_is_not_run_this_time_may_have_its_parameters(tmp_path):
    file = tmp_path / "x.ipynb"
    assert distribute({file: {}}, {"01": {"vocab": 3}}) == {file: {}}
