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
    steps.shows_its_first_result(d)
    steps.a_tile_changes_order_and_bits(d)
    steps.a_block_count_does_not(d)
    steps.a_tile_over_the_budget_is_refused_in_words(d)
    steps.a_build_is_cancelled(d, gate)
    fresh, bits = steps.is_copied_as_code(d)
    steps.pins_are_compared(d)
    steps.panes_are_exported(d, tmp_path)
    assert fresh.said() == bits

    access.is_reached_by_tab(d)
    access.the_walk_misses_what_tab_does_not_reach(d)
    access.is_operated_by_keys(d)
    access.tabs_and_pictures_are_operated_by_keys(d)
    access.every_pane_is_free_of_faults(d, "light", ("drift",))
    access.fits_into_800_pixels(d)
    access.axe_would_find_them(d)
    assert page.complaints == []
