"""The dashboard in a real JupyterLab, from Run All Cells to the dark theme, by mouse and keys."""

from __future__ import annotations

import explore_access as access
import explore_steps as steps
import pytest
import scratch
from explore_steps import TABS, Dashboard

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

NOTEBOOK = "explore.ipynb"


def test_the_dashboard_in_jupyterlab(jupyter, lab_page, page, artefacts, tmp_path):
    steps.listen(page)
    page.set_viewport_size(steps.WINDOW)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    gate = tmp_path / "gate"
    scratch.put(jupyter, NOTEBOOK, steps.cells(gate))
    lab_page(NOTEBOOK)
    d = Dashboard(page, artefacts, "lab")
    scratch.run_all(page, d.root)
    steps.does_what_a_person_asks(d, gate, tmp_path)

    access.is_reached_by_tab(d)
    access.the_walk_misses_what_tab_does_not_reach(d)
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    access.is_operated_by_keys(d)
    access.tabs_and_pictures_are_operated_by_keys(d)
    # No key was taken for a command of JupyterLab: "b" is one that adds a cell.
    d.press(d.button("pin"), "b")
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
    scratch.saved(page, jupyter, NOTEBOOK)  # but those with Ctrl are JupyterLab's

    access.every_pane_is_free_of_faults(d, "light", TABS)
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    for name in ("Theme", "JupyterLab Dark"):
        page.locator(".lm-Menu-itemLabel").get_by_text(name, exact=True).click()
    page.wait_for_selector("body[data-jp-theme-light=false]")
    access.every_pane_is_free_of_faults(d, "dark", ("order", "drift", "counters"))
    access.fits_into_800_pixels(d)
    access.axe_would_find_them(d)
    assert page.complaints == []
