"""The tree and the map of drift in a real JupyterLab: by keyboard, by mouse, by axe."""

from __future__ import annotations

import re

import pytest
import scratch
from scratch import SLOW

import workbench as wb

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NOTEBOOK = "views.ipynb"
VOCABULARY = 151_936
CELLS = [
    """
import ipywidgets as ipw, numpy as np, torch, workbench as wb
from workbench.numerics import drift
from workbench.orders.standard import reduce_sum
from workbench.widgets.views import drift_view, tree_view

terms = np.random.default_rng(0).standard_normal(151_936).astype(np.float32)
order = wb.declared_order("batch_invariant_logp", wb.KernelConfig(tile_length=4096), 151_936)
tree = tree_view(order, terms=terms, label="log-sum-exp, tile 4096", folded=False)
chosen = ipw.Label("none")
tree.observe(lambda change: setattr(chosen, "value", f"node {change['new'][1]}"), "selected")
ipw.VBox([tree, chosen])
""",
    """
generator = torch.Generator().manual_seed(0)
hidden, weight = (torch.randn(n, 512, generator=generator) for n in (6, 2000))
found = drift(torch.nn.functional.linear, hidden, weight)
drift_view(found, None, hidden, weight, tree=reduce_sum(512, 1))
""",
    """
configs = wb.KernelConfig(tile_length=256), wb.KernelConfig(tile_length=1024)
tree_view(*(wb.declared_order("lm_head", config, 4096) for config in configs))
""",
]
# The time from the next key to the new place in the breadcrumb.
TIMER = """() => {
  const crumbs = document.querySelector(".wb-crumbs");
  let start;
  addEventListener("keydown", () => (start = performance.now()), { capture: true, once: true });
  const seen = new MutationObserver(() => {
    window.waited = performance.now() - start;
    seen.disconnect();
  });
  seen.observe(crumbs, { childList: true, subtree: true });
}"""


def serious(page) -> list[str]:
    return scratch.serious_faults(page, ".wb-view")


@pytest.fixture
def shown(jupyter, lab_page, page):
    page.set_viewport_size({"width": 1400, "height": 2000})
    scratch.put(jupyter, NOTEBOOK, CELLS)
    lab_page(NOTEBOOK)
    scratch.run_all(page, page.locator(".wb-tree").nth(2))
    return page


def test_two_orders_zoom_to_the_first_difference(shown):
    """Also from the folded picture, where equal sums share a cell."""
    from playwright.sync_api import expect

    both = shown.locator(".wb-tree").nth(2)
    fold = both.get_by_role("button", name="Fold equal sums")
    expect(fold).to_have_attribute("aria-pressed", "true")
    both.get_by_role("button", name="To the first difference").click()
    expect(fold).to_have_attribute("aria-pressed", "false", timeout=SLOW)
    expect(both.locator(".wb-detail")).to_contain_text("the first difference", timeout=SLOW)
    # Terms 0 to 255 are a tile of one, and a quarter of a tile of the other.
    for crumbs in both.locator(".wb-crumbs").all():
        expect(crumbs).not_to_have_text("all 4,096 terms", timeout=SLOW)


def test_the_views(shown, artefacts):
    from playwright.sync_api import expect

    page = shown
    tree, map_ = page.locator(".wb-tree").first, page.locator(".wb-heatmap")
    picture, crumbs = tree.locator(".wb-picture"), tree.locator(".wb-crumbs")
    detail = tree.locator(".wb-detail")
    cells = page.locator(".jp-Notebook .jp-Cell").count()

    # By keyboard: down the run of tiles and into one, the kernel answering each step.
    order = wb.declared_order("batch_invariant_logp", wb.KernelConfig(tile_length=4096), VOCABULARY)
    expect(crumbs).to_have_text(f"all {VOCABULARY:,} terms")
    expect(page.get_by_text("none", exact=True)).to_be_visible()
    picture.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(detail).to_contain_text("sum of 4,096 terms · terms 147,456..151,551 · depth 2")
    expect(detail).to_contain_text("Terms 147456..151551", timeout=SLOW)
    label = page.get_by_text(re.compile(r"^node \d+$"))
    node = int(label.inner_text().split()[1])
    assert order.sizes()[node] == 4096
    tree.screenshot(path=artefacts / "views_1_tree.png")
    page.evaluate(TIMER)
    page.keyboard.press("Enter")
    expect(crumbs.locator("[aria-current]")).to_have_text("4,096 terms", timeout=SLOW)
    expect(tree.locator("[role=treeitem]").first).to_have_attribute(
        "aria-label", re.compile("^sum of 4,096 terms; terms 147,456..151,551")
    )
    tree.screenshot(path=artefacts / "views_2_tree_zoomed.png")
    # From key to picture, for people to read; on a busy machine it says nothing about the view.
    print(f"a window of {VOCABULARY:,} terms: {page.evaluate('window.waited'):.0f} ms")
    page.keyboard.press("Escape")
    expect(crumbs).to_have_text(f"all {VOCABULARY:,} terms")
    # None of these keys was taken for a command of JupyterLab.
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells

    # Folded: 37 tiles are one cell, which the plain picture cannot show.
    tiles = tree.get_by_text("37 × 4,096 terms")
    expect(tiles).to_have_count(0)
    tree.get_by_role("button", name="Fold equal sums").click()
    expect(tiles).to_have_count(1, timeout=SLOW)
    assert 10 < tree.locator("[role=treeitem]").count() < 40
    tree.screenshot(path=artefacts / "views_3_tree_folded.png")

    # A choice in the list and one by keyboard in the map: each shows the order with its own terms.
    legend = page.locator(".wb-tree").nth(1).locator(".wb-legend")
    item = map_.locator(".wb-worst button").nth(4)
    place = re.search(r"row \d+, vocabulary id [\d,]+", item.inner_text()).group()
    expect(legend).not_to_contain_text(place)
    item.click()
    expect(legend).to_contain_text(f"bound of {place},", timeout=SLOW)
    before = map_.locator(".wb-facts").inner_text()
    map_.locator(".wb-frame").focus()
    page.keyboard.press("ArrowRight")
    expect(map_.locator(".wb-facts")).not_to_have_text(before, timeout=SLOW)
    place = map_.locator(".wb-facts").inner_text().split(":")[0]
    expect(legend).to_contain_text(f"bound of {place},", timeout=SLOW)
    page.keyboard.press("Enter")
    expect(map_.locator(".wb-sides").first).not_to_contain_text("row 0 to 5", timeout=SLOW)
    map_.screenshot(path=artefacts / "views_4_map.png")

    assert serious(page) == []
    legend = "document.querySelector('.wb-legend')"
    page.evaluate(f"{legend}.append(document.createElement('button'))")
    page.evaluate(f"{legend}.style = 'color: #888; background: #999'")
    rules = [fault.split(":")[0] for fault in serious(page)]
    assert rules == ["button-name", "color-contrast"], "axe does not look here"
    page.evaluate(f"{legend}.lastChild.remove()")
    page.evaluate(f"{legend}.style = ''")

    # Dark: JupyterLab's own theme.
    page.get_by_role("menuitem", name="Settings", exact=True).click()
    for name in ("Theme", "JupyterLab Dark"):
        page.locator(".lm-Menu-itemLabel").get_by_text(name, exact=True).click()
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", "false", timeout=SLOW)
    tree.screenshot(path=artefacts / "views_5_tree_dark.png")
    map_.screenshot(path=artefacts / "views_6_map_dark.png")
    assert serious(page) == []
    assert page.complaints == []
