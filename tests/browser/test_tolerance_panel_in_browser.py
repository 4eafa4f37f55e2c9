"""The tolerance panel in a real JupyterLab: its count follows keyboard and mouse and is right.

Every count is made here a second time: exact sums by `math.fsum`, and the pass rule
|got - reference| <= atol + rtol |reference| in fp32 by numpy, on the kernel's own outputs.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import scratch
from scratch import SLOW

import workbench as wb
from workbench import samples
from workbench.numerics.contract import contract
from workbench.ops.inputs import DTYPES
from workbench.widgets.judge import tile_choices

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NOTEBOOK = "tolerance_panel.ipynb"
ROWS, VOCAB = 4, 256
SOURCE = f"import workbench as wb\n\nwb.tolerance_panel(rows={ROWS}, vocab={VOCAB})"
STEP, LEFT = 0.02, -8  # of the sliders, in decades


class Counted:
    """The outputs of the panel's kernel, and what a pair flags of them."""

    def __init__(self, dtype: str = "fp32", tile: int = 4096) -> None:
        sample = samples.smollm2()
        hidden = sample.hidden.reshape(-1, sample.hidden.shape[-1])[:ROWS].to(DTYPES[dtype])
        weight = sample.weight[:VOCAB].to(DTYPES[dtype])
        self.kernel = wb.build("lm_head", wb.KernelConfig(tile_length=tile), backend="twin")
        self.inputs = hidden, weight
        self.got = self.kernel(hidden, weight).float().numpy()
        # Products of fp32 are exact in fp64, and fsum rounds their sum once.
        products = hidden.double().numpy()[:, None, :] * weight.double().numpy()[None]
        self.reference = np.array([[math.fsum(terms) for terms in row] for row in products])

    def flagged(self, atol: float, rtol: float) -> int:
        reference = self.reference.astype(np.float32)
        allowed = np.float32(atol) + np.float32(rtol) * np.abs(reference)
        return int((np.abs(self.got - reference) > allowed).sum())


def at_step(number: int) -> float:
    return 10.0 ** (LEFT + STEP * number)


def nearest_step(value: float) -> int:
    return round((math.log10(value) - LEFT) / STEP)


class Shown:
    """The panel on the page, as a user reads and moves it."""

    def __init__(self, page, artefacts) -> None:
        self.page, self.artefacts = page, artefacts
        self.panel = page.locator(".workbench-tolerance")
        self.pair = self.panel.locator(".workbench-this-pair")
        self.status = self.panel.locator(".workbench-status")
        self.against = self.panel.locator(".workbench-against-the-bound")

    def expect(self, atol: float, rtol: float, count: int) -> None:
        from playwright.sync_api import expect

        words = f"atol {atol:.3g}, rtol {rtol:.3g}: {'≠' if count else '='} {count:,} of "
        expect(self.pair).to_contain_text(f"{words}{ROWS * VOCAB:,} outputs", timeout=SLOW)

    def done(self, name: str = "") -> None:
        from playwright.sync_api import expect

        expect(self.status).to_have_text("done", timeout=SLOW)
        if name:
            self.panel.screenshot(path=self.artefacts / f"tolerance_{name}.png")

    def alts(self) -> list[str]:
        return [image.get_attribute("alt") for image in self.panel.locator("img").all()]

    def handle(self, number: int):
        return self.panel.locator(".noUi-handle").nth(number)

    def press(self, slider: int, *keys: str) -> None:
        self.handle(slider).focus()
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, slider: int, text: str) -> None:
        self.panel.locator(".widget-readout").nth(slider).click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")


@pytest.fixture
def shown(jupyter, lab_page, page, artefacts):
    """The panel of the scratch notebook, its first result drawn."""
    page.on("console", lambda m: page.complaints.append(m.text) if m.type == "error" else None)
    page.set_viewport_size({"width": 1400, "height": 1700})
    scratch.put(jupyter, NOTEBOOK, [SOURCE])
    lab_page(NOTEBOOK)
    found = Shown(page, artefacts)
    scratch.run_all(page, found.panel)
    found.done("1_at_first")
    return found


def test_the_tolerance_panel(shown, jupyter, page, artefacts):
    from playwright.sync_api import expect

    fp32 = Counted()
    cell = contract().cell("forward_accuracy", "lm_head", "fp32")
    shown.expect(cell.atol, cell.rtol, fp32.flagged(cell.atol, cell.rtol))
    assert [alt.split(":")[0] for alt in shown.alts()] == ["Plane of atol and rtol", "Histograms"]

    # By keyboard: each stop shows the count of its own pair, and no two counts are the same.
    a = shown.handle(0)
    stops = [(0, "Home", 1, (0, None)), (1, "Home", 1, (0, 0)), (0, "PageUp", 13, (65, 0))]
    stops += [(1, "PageUp", 14, (65, 70)), (0, "ArrowRight", 4, (69, 70))]
    stops += [(1, "ArrowLeft", 6, (69, 64))]
    counts = []
    for slider, key, times, (atol, rtol) in stops:
        shown.press(slider, *[key] * times)
        pair = at_step(atol), cell.rtol if rtol is None else at_step(rtol)
        counts.append(fp32.flagged(*pair))
        shown.expect(*pair, counts[-1])
    assert len(set(counts)) == len(counts), counts
    shown.done("2_by_keyboard")
    assert f": {counts[-1]:,} of {ROWS * VOCAB:,} outputs flagged" in shown.alts()[0]

    # By mouse: the count follows while the button is still down.
    box = a.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    seen = [shown.pair.inner_text()]
    for moved in (10, 20, 30):
        page.mouse.move(x + moved, y, steps=3)
        expect(shown.pair).not_to_have_text(seen[-1], timeout=SLOW)
        seen.append(shown.pair.inner_text())
        said, count = re.findall(r"atol ([\d.e-]+), .* ([\d,]+) of", seen[-1])[0]
        atol = at_step(nearest_step(float(said)))
        assert int(count.replace(",", "")) == fp32.flagged(atol, at_step(64)), seen
    page.mouse.up()
    assert len(set(seen)) == 4, seen

    # What cannot be: a word leaves the slider where it is, a number beyond its ends stops there.
    shown.type(0, "3e-7")
    step = nearest_step(3e-7)
    shown.expect(at_step(step), at_step(64), fp32.flagged(at_step(step), at_step(64)))
    shown.type(0, "abc")
    expect(shown.panel.locator(".widget-readout").nth(0)).to_have_text("3.02e-7")
    shown.type(0, "7")
    shown.expect(1.0, at_step(64), 0)
    shown.type(0, "0")
    shown.expect(at_step(0), at_step(64), fp32.flagged(at_step(0), at_step(64)))

    # Another dtype: another kernel, its own count, and the contract's cell to the last digit.
    shown.panel.get_by_label("input dtype").select_option("bf16")
    bf16 = Counted("bf16")
    shown.expect(at_step(0), at_step(64), bf16.flagged(at_step(0), at_step(64)))
    cell = contract().cell("forward_accuracy", "lm_head", "bf16")
    shown.panel.get_by_role("button", name="contract's cell").click()
    shown.expect(cell.atol, cell.rtol, bf16.flagged(cell.atol, cell.rtol))
    # The browser's slider cannot stand on this derived atol; the panel counts with it all the same.
    found = wb.tolerance(bf16.kernel, *bf16.inputs)
    shown.press(1, "Home")
    least = found.smallest_atol(at_step(0))
    nearest = at_step(nearest_step(least))
    assert f"{least:.3g}" != f"{nearest:.3g}", "this data cannot tell a moved slider"
    shown.panel.get_by_role("button", name="derived atol").click()
    shown.expect(least, at_step(0), bf16.flagged(least, at_step(0)))
    shown.done("3_bf16_derived")
    shown.expect(least, at_step(0), bf16.flagged(least, at_step(0)))
    expect(shown.against).to_contain_text("no correct kernel is flagged")
    shown.press(0, "ArrowLeft", "ArrowLeft")
    expect(shown.against).to_contain_text("a correct kernel may be flagged", timeout=SLOW)

    # Another tile: another order of addition.
    shown.panel.get_by_label("input dtype").select_option("fp32")
    shown.press(0, "Home", *["PageUp"] * 13)
    shown.press(2, "Home", "ArrowRight")
    tile = Counted(tile=tile_choices("dav-2201", "fp32")[1])
    pair = at_step(65), at_step(0)
    shown.expect(*pair, tile.flagged(*pair))
    assert tile.flagged(*pair) != fp32.flagged(*pair), "this data cannot tell the tiles"
    shown.done("4_another_tile")
    page.set_viewport_size({"width": 900, "height": 1700})
    assert scratch.cut_off(shown.panel) == []
    shown.done("5_narrow")
    assert page.complaints == []

    the_saved_notebook_reads_without_a_kernel(
        scratch.saved(page, jupyter, NOTEBOOK), page, artefacts
    )


def the_saved_notebook_reads_without_a_kernel(notebook, page, artefacts) -> None:
    """A static page has the numbers as text and the figures as images."""
    from nbconvert import HTMLExporter

    body, _ = HTMLExporter().from_notebook_node(notebook)
    file = artefacts / "tolerance_static.html"
    file.write_text(body, "utf-8")
    page.goto(file.as_uri(), wait_until="domcontentloaded")
    text = page.locator("body").inner_text()
    assert f"0 of {ROWS * VOCAB:,} outputs flagged" in text and "no Ascend hardware" in text
    assert "Run the cell to move its controls" in text
    images = page.locator(".jp-OutputArea-output img")
    widths = images.evaluate_all("images => images.map(i => i.naturalWidth)")
    assert len(widths) == 2 and min(widths) > 600
    assert all(image.get_attribute("alt") for image in images.all())
    page.screenshot(path=artefacts / "tolerance_static.png", full_page=True)
