"""The chain of `make bench`: runs, JSON, page and figures, in toy sizes; what happens when one
fails; and that the page says what the results say. No time is judged here."""

from __future__ import annotations

import copy
import importlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks"
MEASURED = sorted(p.stem for p in FOLDER.glob("[!_]*.py"))


@pytest.fixture(scope="module")
def bench():
    """The modules of benchmarks/, which is no package."""
    sys.path.insert(0, str(FOLDER))
    try:
        names = ("_all", "_figures", "_musts", "_page", "_sections", "_telling")
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(FOLDER))


@pytest.fixture
def job(bench, tmp_path):
    """A benchmark made of these lines, to run."""

    def make(code: str, limit: float = 30):
        file = tmp_path / "toy.py"
        file.write_text("import sys\nfrom pathlib import Path\n" + code)
        return bench["_all"].Job("toy", file, tmp_path / "results" / "toy.json", limit)

    return make


WRITE = "Path(sys.argv[sys.argv.index('--out') + 1]).write_text('{text}')\n"


def cells(text: str, what: str) -> list[str]:
    """Of the first line of a table whose second cell starts with `what`."""
    for line in text.splitlines():
        found = [c.strip() for c in line.strip("|").split(" | ")]
        if len(found) == 7 and found[1].startswith(what):
            return found
    raise AssertionError(what)


def test_every_benchmark_is_run_told_and_drawn(bench):
    every = [set(bench["_sections"].SECTIONS), set(bench["_figures"].FIGURES),
             set(bench["_all"].LIMITS)]  # fmt: skip
    assert all(names == set(MEASURED) for names in every)
    for name in MEASURED:
        text = (FOLDER / f"{name}.py").read_text("utf-8")
        assert "def measure(quick: bool) -> dict[str, Any]:" in text, name


def test_the_chain_in_toy_sizes(tmp_path):
    """A real benchmark, as `make bench ONLY=growth QUICK=1` runs it."""
    done = subprocess.run(
        [sys.executable, str(FOLDER / "_all.py"), "--quick", "--only", "growth",
         "--to", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    page = (tmp_path / "benchmarks.md").read_text("utf-8")
    assert "Quick run: toy sizes" in page
    result = json.loads((tmp_path / "results" / "growth.json").read_text())
    assert result["quick"] and result["benchmark"] == "growth" and result["machine"]["cores"]
    assert "img/bench_growth.png" in page
    assert (tmp_path / "img" / "bench_growth.png").read_bytes().startswith(b"\x89PNG")
    assert cells(page, "slope of time against N")[-1] == "quick run"  # never "yes" from a toy
    left = sorted(p.name for p in (tmp_path / "results").iterdir())
    assert left == ["growth.json"] and "| not measured here |" in page


def test_unknown_names_are_refused(bench, capsys):
    assert bench["_all"].main(["--only", "linear,lineal"]) == 2
    assert "no benchmark is called lineal; want linear, memory" in capsys.readouterr().err
    assert bench["_all"].chosen("startup, linear") == ["linear", "startup"]
    assert bench["_all"].chosen("") == list(bench["_sections"].SECTIONS)


def test_a_good_run_replaces_the_result(job):
    good = job(WRITE.format(text='{"a": 1}'))
    assert good.run() == "" and json.loads(good.out.read_text()) == {"a": 1}
    assert [p.name for p in good.out.parent.iterdir()] == ["toy.json"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("sys.exit('no luck')", "exit code 1"),
        (WRITE.format(text='{"a": 2}') + "sys.exit(3)", "exit code 3"),
        (WRITE.format(text='{"a": '), "left no result"),
        ("", "left no result"),
    ],
)
def test_a_bad_run_leaves_the_result_and_the_others_go_on(bench, job, capfd, code, why):
    bad = job(code)
    bad.out.parent.mkdir()
    bad.out.write_text("before")
    second = bad.file.with_name("second.py")
    second.write_text("import sys\nfrom pathlib import Path\n" + WRITE.format(text="{}"))
    good = bench["_all"].Job("second", second, bad.out.with_name("second.json"), 30)
    notes = bench["_all"].run([bad, good])
    assert list(notes) == ["toy"] and why in notes["toy"]
    assert bad.out.read_text() == "before" and good.out.read_text() == "{}"
    if "no luck" in code:
        assert "no luck" in capfd.readouterr().err


def test_what_takes_too_long_ends_with_all_that_it_started(job, tmp_path):
    child = "import time; time.sleep(60); open({!r}, 'w')".format(str(tmp_path / "alive"))
    slow = job(
        "import subprocess, time\n"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        f"Path({str(tmp_path / 'pid')!r}).write_text(str(p.pid))\ntime.sleep(60)\n",
        limit=1.5,
    )
    started = time.perf_counter()
    assert "its limit of 2 s" in slow.run() and time.perf_counter() - started < 30
    state = Path("/proc", (tmp_path / "pid").read_text(), "stat")
    deadline = time.monotonic() + 10
    while state.exists() and state.read_text().split()[2] != "Z":
        assert time.monotonic() < deadline, "a child outlived its benchmark"
        time.sleep(0.05)


def test_exit_code_and_page_after_a_failure(bench, tmp_path, capsys):
    """A limit of no seconds: the benchmark is there and cannot end in time."""
    code = bench["_all"].main(
        ["--quick", "--only", "startup", "--to", str(tmp_path)], limits={"startup": 0}
    )
    page = (tmp_path / "benchmarks.md").read_text("utf-8")
    assert code == 1 and "bench: 1 of 1 failed: startup" in capsys.readouterr().err
    assert "The last run gave no result. It was stopped after its limit" in page
    assert cells(page, "not measured here")[-1] == "not measured"


@pytest.fixture(scope="module")
def results(bench):
    return bench["_page"].load(bench["_page"].RESULTS)


@pytest.fixture
def told(bench, monkeypatch, tmp_path):
    """results -> page, without figures."""
    monkeypatch.setattr(bench["_page"], "_draw", lambda *_: None)
    return lambda results, **more: bench["_page"].page(results, tmp_path, tmp_path / "p.md", **more)


def test_the_page_in_the_docs_is_that_of_the_results(bench, results, monkeypatch):
    page = bench["_page"]
    monkeypatch.setattr(page, "_draw", lambda name, result, images: _drawn(name, result, images))
    assert page.page(results, page.IMAGES, page.PAGE) == page.PAGE.read_text("utf-8"), (
        "docs/benchmarks.md is older than benchmarks/results: python benchmarks/_page.py"
    )
    for link in re.findall(r"\]\((?!http|#)([^)#]+)", page.PAGE.read_text("utf-8")):
        assert (page.PAGE.parent / link).exists(), link
    titles = [line[3:] for line in page.PAGE.read_text("utf-8").splitlines() if line[:3] == "## "]
    anchors = {page.anchor(title) for title in titles}
    assert set(re.findall(r"\]\((#[^)]+)\)", page.PAGE.read_text("utf-8"))) <= anchors


def _drawn(name: str, result: dict, images: Path) -> Path | None:
    return None if result.get("measured") is False else images / f"bench_{name}.png"


def test_tests_that_the_page_names_exist(bench):
    for _, test in bench["_page"].TESTED:
        file, _, name = test.partition("::")
        assert f"def {name}" in (ROOT / file).read_text("utf-8")


def test_without_results_the_page_has_every_must(told):
    page = told({})
    assert page.count("| not measured here |") == len(MEASURED)
    for must in ("0.85 at N = 1", "0.55 at N = 128", "0.8 of the read bandwidth at N = 1",
                 "at most a fifth", "at most 64 MiB", "at most 60 s on 2 cores",
                 "at most 0.3 s cold, 5 ms cached, at least 50 times faster",
                 "at most 0.3 s beyond torch", "slopes of time against N, H and V"):  # fmt: skip
        assert must in page, must


def test_a_result_of_another_form_spoils_nothing_else(told, results):
    page = told({**results, "linear": {"what": "older", "runs": 3}})
    assert "results/linear.json is of another form" in page
    assert cells(page, "reveal, n =")


def test_verdicts_follow_the_results(told, results):
    """A linear.json whose ratios are moved to either side of a Must changes the verdict."""
    changed = copy.deepcopy(results["linear"])
    changed["quick"] = False
    one = next(c for c in changed["cells"] if (c["dtype"], c["rows"]) == ("float32", 16))
    others = [c for c in changed["cells"] if c["dtype"] == "float32" and c["rows"] == 16]
    for cell in others:
        cell["times_faster"] = 1.31
    assert cells(told({"linear": changed}), "linear, fp32, N = 16;")[-1] == "yes"
    one["times_faster"] = 1.29  # one thread count is enough to fail
    assert cells(told({"linear": changed}), "linear, fp32, N = 16;")[-1] == "**no**"
    one["bits_equal_twin"] = False
    assert cells(told({"linear": changed}), "linear, bits")[-1] == "**no**"
    changed["quick"] = True
    assert cells(told({"linear": changed}), "linear, fp32, N = 16;")[-1] == "quick run"


@pytest.mark.parametrize("name", ["linear", "rebuild"])
def test_the_figures_with_the_most_in_them_can_be_drawn(bench, results, name):
    figure = bench["_figures"].FIGURES[name](results[name])
    assert figure.axes and figure.get_suptitle()
