"""Notebooks that a test writes itself: into a server, and run there by the menu."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

from workbench import lab

SLOW = 60_000  # ms: a start or a rebuild on a busy machine
IDLE = ".jp-Notebook-ExecutionIndicator[data-status=idle]"


def notebook(cells: Sequence[str]) -> nbformat.NotebookNode:
    """A notebook of code cells, for the kernel of the servers here."""
    made = [nbformat.v4.new_code_cell(source.strip()) for source in cells]
    kernel = {"name": lab.KERNEL, "display_name": "workbench", "language": "python"}
    return nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel})


def write(folder: Path, name: str, cells: Sequence[str]) -> None:
    """The notebook as a file, for Voilà."""
    nbformat.write(notebook(cells), folder / name)


def put(jupyter: str, name: str, cells: Sequence[str]) -> None:
    """The notebook through JupyterLab's own interface."""
    token = "0123456789abcdef" * 2  # a cookie and a header that agree are what it asks for
    request = urllib.request.Request(
        f"{jupyter}/api/contents/{name}",
        json.dumps({"type": "notebook", "content": notebook(cells)}).encode(),
        {"Cookie": f"_xsrf={token}", "X-XSRFToken": token, "Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status in (200, 201)


def get(jupyter: str, name: str) -> nbformat.NotebookNode:
    """The notebook as it was saved."""
    with urllib.request.urlopen(f"{jupyter}/api/contents/{name}", timeout=20) as answer:
        return nbformat.from_dict(json.load(answer)["content"])


def saved(page: Any, jupyter: str, name: str) -> nbformat.NotebookNode:
    """The notebook on disk, saved by Ctrl+S until it holds outputs."""
    for _ in range(SLOW // 250):
        page.keyboard.press("Control+s")
        page.wait_for_timeout(250)
        notebook = get(jupyter, name)
        if any(cell.get("outputs") for cell in notebook.cells):
            return notebook
    pytest.fail("the notebook was not saved")


def run_all(page: Any, seen: Any, timeout: float = 2 * SLOW) -> None:
    """Run > Run All Cells, until `seen` is seen; an exception of a cell fails the test."""
    from playwright.sync_api import expect

    page.wait_for_selector(f".jp-NotebookPanel {IDLE}", timeout=SLOW)
    # The notebook may look idle before its kernel is connected: JupyterLab then asks which one.
    expect(page.locator("#jp-main-statusbar")).to_contain_text("(workbench) | Idle", timeout=SLOW)
    asks = page.locator(".jp-Dialog")
    page.add_locator_handler(asks, lambda: asks.locator(".jp-mod-accept").click())
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    raised = page.locator("[data-mime-type='application/vnd.jupyter.error']")
    expect(seen.or_(raised).first).to_be_visible(timeout=timeout)
    assert raised.all_inner_texts() == []
    page.wait_for_selector(IDLE, timeout=timeout)


# Texts and controls that end beyond the right edge of `root`, or are cut there.
CUT_OFF = """root => {
  const edge = root.getBoundingClientRect().right + 1;
  const scrolls = ".workbench-scroll, .workbench-log, .wb-worst ol, textarea";
  return [...root.querySelectorAll("*")]
    .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(scrolls))
    .filter((e) => e.matches("select, input, button")
      || [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .filter((e) => !e.matches(".workbench-live, .wb-live"))
    .filter((e) => {
      const own = getComputedStyle(e).overflowX !== "visible" && e.scrollWidth > e.clientWidth;
      return own || e.getBoundingClientRect().right > edge;
    })
    .map((e) => e.textContent.trim().slice(0, 60));
}"""


def cut_off(root: Any) -> list[str]:
    """Texts and controls of a widget that a narrow page cuts off, by what they say."""
    root.page.wait_for_timeout(500)  # a page that has just become narrow is laid out anew
    return root.evaluate(CUT_OFF)


def serious_faults(page: Any, selector: str) -> list[str]:
    """What axe finds in a part of the page that would shut somebody out."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    # JupyterLab's body is 0 high and hides what overflows: axe takes its texts for invisible then,
    # and would look at the contrast of none.
    page.evaluate("document.body.style.height = '100vh'")
    found = axe.run(page, context=selector).response["violations"]
    return [
        f"{v['id']}: {[n['html'][:160] for n in v['nodes']][:4]}"
        for v in found
        if v["impact"] in ("serious", "critical")
    ]
