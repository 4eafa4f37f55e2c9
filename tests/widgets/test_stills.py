"""What stands for a widget in a page without a kernel: the report, and the site made of it."""

from __future__ import annotations

import html
import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import explore_kit as kit
import ipywidgets as ipw
import nbformat
import numpy as np
import pytest

from workbench.numerics import drift
from workbench.orders.standard import pairwise_order, reduce_sum
from workbench.report import pages
from workbench.report.result import NotebookRun, Report
from workbench.widgets import drift_view, heatmap_view, panel, tolerance_panel, tree_view
from workbench.widgets.explore import explore

HOOKS = Path(__file__).resolve().parents[2] / "docs" / "site_hooks.py"
OWN = {"hidden": kit.HIDDEN, "weight": kit.WEIGHT}


def _drift():
    found = drift(lambda h, w: h @ w.T, kit.HIDDEN, kit.WEIGHT)
    return drift_view(found, None, kit.HIDDEN, kit.WEIGHT, tree=pairwise_order(kit.H))


# name: (how it is made, its images, words that only its content has)
WIDGETS = {
    "explore, order": (lambda: explore(**OWN), 1, "as its source declares"),
    "explore, drift": (lambda: explore(**OWN, pane="drift"), 3, "torch.mv itself"),
    "panel": (lambda: panel(*OWN.values()), 1, "a row keeps its bits"),
    "tolerance panel": (lambda: tolerance_panel(SimpleNamespace(**OWN)), 2, "flagged"),
    "tree": (lambda: tree_view(reduce_sum(256, 1)), 1, "The picture as it was"),
    "map": (lambda: heatmap_view(np.arange(-6.0, 6.0).reshape(3, 4)), 1, "Farthest from 0"),
    "drift": (_drift, 2, "vocabulary id"),
}


def page_of(bundle: dict) -> str:
    """A report's page of a notebook that ends in this output."""
    v4 = nbformat.v4
    output = v4.new_output("execute_result", data=bundle, metadata={}, execution_count=1)
    cells = [v4.new_markdown_cell("# A"), v4.new_code_cell("x", outputs=[output])]
    run = NotebookRun("a", "A", "…", "passed", 1.0)
    report = Report("out", "out/index.html", [run], {"date": "2026-01-01T00:00:00"})
    return pages.notebook_page(v4.new_notebook(cells=cells), run, report)


def bundle_of(widget) -> dict:
    found = widget._repr_mimebundle_()
    return dict(found[0] if isinstance(found, tuple) else found)


def site_page(page: str, folder: Path, monkeypatch) -> str:
    """The same page as the site shows it."""
    spec = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    assert spec is not None and spec.loader is not None
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    monkeypatch.setattr(hooks, "REPORT", folder)
    (folder / "a.html").write_text(page, "utf-8")
    body, _ = hooks.lesson({"html": "a.html", "status": "passed", "seconds": 1.0, "claims": []})
    return body


def faults(page: str, images: int, words: str) -> list[str]:
    """What is wrong with what stands for a widget."""
    main = page[page.index("A</h1>") if "A</h1>" in page else 0 :]
    tags = re.findall(r"<img\b[^>]*>", main)
    alts = [re.search(r'alt="([^"]*)"', tag) for tag in tags]
    text = html.unescape(re.sub("<[^>]*>", " ", main))
    found = []
    if len(tags) != images:
        found.append(f"{len(tags)} images")
    if not all(alt and len(alt[1]) > 40 for alt in alts):
        found.append("an image without a text")
    if not all('src="data:image/' in tag for tag in tags):
        found.append("an image from elsewhere")
    if words not in text:
        found.append("not its content")
    if "An interactive panel stands here" not in text:
        found.append("no word of where it can be used")
    if re.search(r"Loading widget|widget-view\+json|\bmodel_id\b|View: |Panel: |Explore: ", text):
        found.append("the name of an object")
    return found


@pytest.fixture(scope="module", params=WIDGETS)
def shown(request):
    make, images, words = WIDGETS[request.param]
    return bundle_of(make()), images, words


def test_a_widget_stands_in_the_report_and_on_the_site_as_it_was(shown, tmp_path, monkeypatch):
    pytest.importorskip("mkdocs")
    bundle, images, words = shown
    assert "application/vnd.jupyter.widget-view+json" in bundle
    page = page_of(bundle)
    assert faults(page, images, words) == []
    assert faults(site_page(page, tmp_path, monkeypatch), images, words) == []
    # The control: without its own page the same widget is not shown.
    del bundle["text/html"]
    assert faults(page_of(bundle), images, words) == ["0 images", "not its content"]


def test_a_widget_of_somebody_else_leaves_a_note_and_no_name_of_an_object():
    page = page_of(bundle_of(ipw.IntSlider()))
    assert "An interactive panel stands here." in page and "IntSlider" not in page
    assert faults(page, 0, "workbench lab") == []
    raw = nbformat.v4.new_output("display_data", data={"text/plain": "Explore: lm_head"})
    assert faults(page_of(raw.data), 0, "lm_head") == [
        "no word of where it can be used",
        "the name of an object",
    ]
