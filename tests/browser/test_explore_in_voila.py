"""The dashboard as a page of Voilà: the same steps as in JupyterLab."""

from __future__ import annotations

import explore_access as access
import explore_steps as steps
import pytest
import scratch
from explore_steps import Dashboard

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

NOTEBOOK = "explore.ipynb"
VOILAS_OWN = r"\[https://cdn\."  # its template asks the network for icons and formulas


def test_the_dashboard_in_voila(voila, page, artefacts, tmp_path):
    address, folder = voila
    steps.listen(page, known=VOILAS_OWN)
    page.set_viewport_size(steps.WINDOW)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    gate = tmp_path / "gate"
    scratch.write(folder, NOTEBOOK, steps.cells(gate))
    page.goto(f"{address}/voila/render/{NOTEBOOK}", timeout=2 * scratch.SLOW)
    d = Dashboard(page, artefacts, "voila")
    steps.does_what_a_person_asks(d, gate, tmp_path)

    access.is_reached_by_tab(d)
    access.the_walk_misses_what_tab_does_not_reach(d)
    access.is_operated_by_keys(d)
    access.tabs_and_pictures_are_operated_by_keys(d)
    access.every_pane_is_free_of_faults(d, "light", ("drift",))
    access.fits_into_800_pixels(d)
    access.axe_would_find_them(d)
    assert page.complaints == []
