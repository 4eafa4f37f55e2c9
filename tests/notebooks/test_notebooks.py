"""The shipped notebooks, executed headless as `workbench report` does it."""

from __future__ import annotations

import os
import re

import nbformat
import pytest

from workbench import paths
from workbench.report import run_report
from workbench.report.claims import assertions

NOTEBOOKS = sorted(f.stem for f in paths.NOTEBOOKS.glob("*.ipynb"))
# Not serial, though a notebook has a time to keep: the limit counts what else runs.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_proves_its_claims_within_a_minute(name, tmp_path):
    report = run_report(tmp_path, notebooks=[name])
    assert report.passed, str(report)
    (run,) = report.notebooks
    # A minute on two cores of its own; more where other processes want them too.
    crowd = max(1, os.getloadavg()[0] / (os.cpu_count() or 1))
    assert run.seconds < 60 * crowd, f"{name} took {run.seconds:.0f} s at a load of {crowd:.1f}"
    page = (tmp_path / f"{name}.html").read_text()
    figures = re.findall(r"<img\b[^>]*>", page)
    assert len(figures) >= 4
    for figure in figures:
        (alt,) = re.findall(r'alt="([^"]*)"', figure)
        assert len(alt) > 40 and not alt.startswith("Figure under the heading")
    # The widget at its end, as it was: what it showed, and no word of a widget that is missing.
    assert page.count('class="widget-still"') == 1 and "Loading widget" not in page
    assert "interactive panel" in page and "output_stderr" not in page.split("<body")[-1]


def test_what_torch_does_is_not_asserted_on_another_cpu(tmp_path, monkeypatch):
    """With other vector instructions torch may sum otherwise: shown, and no failure either way."""
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    report = run_report(tmp_path, notebooks=["01"])
    assert report.passed, str(report)
    page = (tmp_path / "01_same_row_other_bits.html").read_text()
    assert "shown, not asserted" in page


def test_another_dtype_and_number_of_parts_have_claims_of_their_own(tmp_path):
    """In fp32 two parts clip no token and keep within the contract: only bits tell."""
    asked = {"dtype": "fp32", "parts": 2, "sequences": 1, "vocab": 128}
    report = run_report(tmp_path, notebooks=["07"], parameters=asked)
    assert report.passed, str(report)
    (run,) = report.notebooks
    told = {a.source.split(",")[0]: a.status for a in run.claims[0].assertions}
    assert told["assert clipped == 0"] == told["assert not split.bits_equal"] == "passed"
    assert told["assert clipped > 0"] == told["assert not split.passed"] != "passed"


def test_a_notebook_fails_where_its_claim_is_false(tmp_path):
    """The control: a notebook that cannot fail proves nothing."""
    few = {"max_blocks": [1], "grid_blocks": [1]}
    asked = {"archs": ["dav-3510", "dav-2201"], **few}
    report = run_report(tmp_path, notebooks=["02"], parameters=asked)
    (run,) = report.notebooks
    # Reversed, the last claim is about dav-3510, where tile 64 and tile 4096 share no order.
    assert not run.passed and run.message.startswith("AssertionError")
    assert run.failed_claim == "MAX_BLOCKS changes nothing"


def test_one_assertion_broken_fails_the_whole_run(tmp_path):
    """A shipped notebook executed as it is, but for its last assertion under the first claim.

    tests/test_report_claims.py breaks every assertion of every notebook, without the code around.
    """
    file = paths.NOTEBOOKS / "02_what_a_tile_size_does.ipynb"
    notebook = nbformat.read(file, as_version=4)
    asserting = [c for c in notebook.cells if c.cell_type == "code" and assertions(c.source)]
    cell = asserting[0]
    (*_, last) = assertions(cell.source)
    lines = cell.source.splitlines()
    assert lines[last.line - 1].startswith("assert ") and last.line == last.last_line
    lines[last.line - 1] = "assert not (" + lines[last.line - 1].removeprefix("assert ") + ")"
    cell.source = "\n".join(lines)
    nbformat.write(notebook, tmp_path / "broken.ipynb")
    report = run_report(tmp_path / "out", [tmp_path / "broken.ipynb"])
    (run,) = report.notebooks
    assert not report.passed and run.message.startswith("AssertionError")
    first, *others = run.claims
    assert (first.status, first.heading) == ("failed", run.failed_claim)
    assert [a.status for a in first.assertions][-2:] == ["passed", "failed"]
    assert {claim.status for claim in others} == {"not reached"}
