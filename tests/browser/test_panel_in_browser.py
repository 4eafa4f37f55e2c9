"""Notebook 01 in a real JupyterLab: all cells run, and its panel answers keyboard and text."""

from __future__ import annotations

import pytest
import scratch
from scratch import SLOW

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

NOTEBOOK = "01_same_row_other_bits.ipynb"
WHOLE_NOTEBOOK = 300_000


def test_the_panel_of_notebook_01(lab_page, page, artefacts):
    from playwright.sync_api import expect

    lab_page(NOTEBOOK)
    panel = page.locator(".workbench-panel")
    scratch.run_all(page, panel, WHOLE_NOTEBOOK)
    assert page.locator(".jp-OutputArea-output img").count() >= 4
    for number, image in enumerate(page.locator(".jp-RenderedImage").all()):
        image.scroll_into_view_if_needed()
        image.screenshot(path=artefacts / f"figure_{number}.png")

    panel.scroll_into_view_if_needed()
    expect(panel).to_contain_text("a row keeps its bits", timeout=SLOW)
    expect(panel).to_contain_text("tile 4096, MAX_BLOCKS 128, dav-2201, fp32")
    panel.screenshot(path=artefacts / "panel_1_at_first.png")

    # The tile slider by keyboard: one step down.
    tile, blocks = panel.locator(".noUi-handle").all()
    tile.focus()
    page.keyboard.press("ArrowLeft")
    expect(panel).to_contain_text("tile 3072, MAX_BLOCKS 128", timeout=SLOW)
    expect(panel.locator(".workbench-this-change")).to_contain_text(
        "outputs changed their bits", timeout=SLOW
    )
    expect(panel.locator(".workbench-status")).to_have_text("done", timeout=SLOW)
    assert "tile 3072" in panel.locator("img").get_attribute("alt")
    panel.screenshot(path=artefacts / "panel_2_tile_moved.png")

    # MAX_BLOCKS: another kernel, the same bits.
    blocks.focus()
    page.keyboard.press("ArrowLeft")
    expect(panel).to_contain_text("tile 3072, MAX_BLOCKS 127", timeout=SLOW)
    expect(panel.locator(".workbench-this-change")).to_contain_text("bits unchanged", timeout=SLOW)
    expect(panel.locator(".workbench-status")).to_have_text("done", timeout=SLOW)
    panel.screenshot(path=artefacts / "panel_3_blocks_moved.png")

    # A tile over the budget is refused in words, and the panel lives on.
    typed = panel.locator("input[type=text]")
    typed.fill("99968")
    typed.press("Enter")
    error = panel.locator(".workbench-error")
    expect(error).to_contain_text("bytes of UB", timeout=SLOW)
    expect(error).to_contain_text("The largest value that works is 12160")
    panel.screenshot(path=artefacts / "panel_4_over_the_budget.png")
    typed.fill("1024")
    typed.press("Enter")
    expect(error).to_have_count(0, timeout=SLOW)
    expect(panel.locator(".workbench-bits")).to_contain_text("≠ 6,650 of 8,224", timeout=SLOW)
    expect(panel.locator(".workbench-status")).to_have_text("done", timeout=SLOW)
    panel.screenshot(path=artefacts / "panel_5_lives_on.png")
    page.set_viewport_size({"width": 900, "height": 1200})
    assert scratch.cut_off(panel) == []
    panel.screenshot(path=artefacts / "panel_6_narrow.png")
    assert page.complaints == []
