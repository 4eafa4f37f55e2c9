"""`wb.explore()` on a page, as people read and move it: what its tests in both front ends share."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from scratch import SLOW

import workbench as wb

FEATURES, OUTPUTS = 576, 32 * 257  # of the first view: terms of a sum, and how many sums
WINDOW = {"width": 1400, "height": 2600}  # the highest pane fits, for its picture
TABS = ("order", "drift", "invariance", "tolerance", "counters", "build", "pins")

# The bits that a view shows, as a program would name them.
DIGEST = """
def digest(view):
    import hashlib
    from workbench.evidence import raw_bits
    bits = raw_bits(view.result.outputs)
    return f"{view.state.title()}: {hashlib.sha256(bytes(bits.numpy().data)).hexdigest()[:16]}"
"""


def cells(gate: Path, call: str = "wb.explore()") -> list[str]:
    """The notebook: the dashboard, and below it the digest of the bits that it shows.

    While the file `gate` is there compilers wait before they compile, and write where into
    `gate`.at: so a test can give up a build that is certainly at work.
    """
    return [
        f"""
import pathlib
import ipywidgets as ipw
import workbench as wb
from workbench.build.twin import TwinToolchain

gate, compiling = pathlib.Path({str(gate)!r}), TwinToolchain.commands

def held(self, unit, work, objects):
    wait = f"pwd > {{gate}}.at; while test -e {{gate}}; do sleep 0.02; done"
    first = [["sh", "-c", wait]] if gate.exists() else []
    return [*first, *compiling(self, unit, work, objects)]

TwinToolchain.commands = held
view = {call}
view
""",
        DIGEST
        + """
shown = ipw.Label(digest(view)).add_class("test-digest")

def told(change):
    if "done" in change["new"] and not view.result.error:
        shown.value = digest(view)

view.parts.status.observe(told, "value")
shown
""",
    ]


def listen(page: Any, known: str = "^$") -> None:
    """Keep what the page's console says of errors, but what `known` matches."""

    def heard(message: Any) -> None:
        text = f"{message.text} [{message.location.get('url', '')}]"
        if message.type == "error" and not re.search(known, text):
            page.complaints.append(text)

    page.on("console", heard)


class Dashboard:
    """The dashboard that is on the page.

    Args:
        page: Playwright's.
        artefacts: Where pictures go.
        name: Of the front end, in the names of pictures.
    """

    def __init__(self, page: Any, artefacts: Path, name: str) -> None:
        self.page, self.artefacts, self.name = page, artefacts, name
        self.root = page.locator(".workbench-explore")
        self.summary = self.root.locator(".workbench-summary-box")
        self.change = self.summary.locator(".workbench-this-change")
        self.status = self.root.locator(".workbench-status")
        self.error = self.root.locator(".workbench-error:visible")
        self.code = self.root.locator(".workbench-code textarea")
        self.tile = self.handle("tile-length")
        self.blocks = self.handle("max-blocks")
        self.tile_text = self.root.locator(".workbench-control-tile-text input")

    # ---- moving ----------------------------------------------------------------------------------

    def handle(self, control: str) -> Any:
        return self.root.locator(f".workbench-control-{control} [role=slider]")

    def press(self, where: Any, *keys: str) -> None:
        where.focus()
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, where: Any, text: object) -> None:
        """Into a text, or into the number beside a slider."""
        where.click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(str(text))
        self.page.keyboard.press("Enter")

    def button(self, name: str) -> Any:
        return self.root.locator(f".workbench-{name}")

    def tab(self, name: str) -> Any:
        return self.root.locator(".workbench-tabs [role=tab]").nth(TABS.index(name))

    def open(self, name: str) -> Any:
        """Open a pane and wait until it has all it will have."""
        from playwright.sync_api import expect

        self.tab(name).click()
        expect(self.pane(name)).to_be_visible()
        expect(self.pane(name)).not_to_contain_text("Computed when this tab is opened")
        said = self.pane(name).locator(".workbench-facts, .workbench-table, .workbench-log, p")
        expect(said.first).to_be_visible(timeout=SLOW)
        self.done()
        return self.pane(name)

    # ---- reading ---------------------------------------------------------------------------------

    def pane(self, name: str) -> Any:
        return self.root.locator(f".workbench-pane-{name}")

    def done(self) -> None:
        from playwright.sync_api import expect

        expect(self.status).to_have_text("done", timeout=SLOW)

    def shows(self, *words: str) -> None:
        """Wait until the summary says all this, and everything is done."""
        from playwright.sync_api import expect

        for text in words:
            expect(self.summary).to_contain_text(text, timeout=SLOW)
        self.done()

    def said(self, row: str) -> str:
        return self.summary.locator(f".workbench-{row} td").inner_text()

    def bits(self) -> str:
        """Digest of the outputs that are shown: "title: digest"."""
        from playwright.sync_api import expect

        label = self.page.locator(".test-digest")
        title = self.summary.locator(".workbench-title").inner_text()
        expect(label).to_contain_text(title, timeout=SLOW)
        return label.inner_text()

    def cells(self) -> list[str]:
        """What the picture of the order says of its cells, to those who cannot see it."""
        items = self.pane("order").locator(".wb-tree [role=treeitem]")
        return items.evaluate_all("items => items.map(i => i.getAttribute('aria-label'))")

    def has_cells(self, wanted: list[str]) -> None:
        """Wait until these are the cells: a page draws a picture some frames after its words."""
        until(self.page, lambda: self.cells() == wanted, lambda: f"{self.cells()} is not {wanted}")

    def picture(self, name: str) -> None:
        self.root.screenshot(path=self.artefacts / f"explore_{self.name}_{name}.png")


# ---- the steps, in order -----------------------------------------------------------------------


def order_of(tile: int) -> Any:
    return wb.declared_order("lm_head", wb.KernelConfig(tile_length=tile), FEATURES)


def shows_its_first_result(d: Dashboard) -> None:
    d.shows("lm_head, tile 4096, MAX_BLOCKS 128, dav-2201, fp32", "this is the default")
    tree = d.pane("order").locator(".wb-tree")
    assert f"height {order_of(4096).height} · order {order_of(4096).hash[:6]}" in tree.inner_text()
    # One tile holds the whole row; its repeats of 64 are added one to the other.
    assert d.cells()[0].startswith(f"sum of {FEATURES} terms; terms 0..575")
    d.picture("1_at_first")


def a_tile_changes_order_and_bits(d: Dashboard) -> None:
    from playwright.sync_api import expect

    before, bits = d.cells(), d.bits()
    tree = d.pane("order").locator(".wb-tree")
    # 576 terms fit into one tile of 4096, whose repeats are of 64: tile 64 adds in the same order.
    assert order_of(64) == order_of(4096) != order_of(128)
    d.press(d.tile, "Home")
    d.shows("tile 64, MAX_BLOCKS 128", "tile 4096 → 64: = bits unchanged")
    d.has_cells(before)
    d.press(d.tile, "ArrowRight")
    expect(tree).to_contain_text(f"order {order_of(128).hash[:6]}", timeout=SLOW)
    d.shows("tile 128, MAX_BLOCKS 128", "this change", "outputs changed their bits")
    expect(d.pane("order")).to_contain_text("= the binary adds as its source declares")
    assert d.cells() != before
    assert any(f"sum of {FEATURES % 128 or 128} terms" in cell for cell in d.cells()), d.cells()
    changed, of = differing(d.said("this-change"), "tile 64 → 128: ")
    assert 0 < changed <= of == OUTPUTS
    assert changed == differing(d.said("bits"), "")[0], "tile 64 has the default's bits"
    assert d.bits().partition(": ")[2] != bits.partition(": ")[2]
    d.picture("2_tile_moved")


def differing(text: str, head: str) -> tuple[int, int]:
    found = re.match(re.escape(head) + r"≠ ([\d,]+) of ([\d,]+) outputs", text)
    assert found, text
    return tuple(int(number.replace(",", "")) for number in found.groups())  # type: ignore[return-value]


def a_block_count_does_not(d: Dashboard) -> None:
    before, bits = d.cells(), d.bits()
    d.press(d.blocks, "ArrowLeft")
    d.shows("tile 128, MAX_BLOCKS 127", "MAX_BLOCKS 128 → 127: = bits unchanged")
    d.has_cells(before)
    title, _, digest = d.bits().partition(": ")
    assert "MAX_BLOCKS 127" in title and digest == bits.partition(": ")[2]
    # They have been compared with the default's too, which are others.
    assert differing(d.said("bits"), "")[1] == OUTPUTS


def a_tile_over_the_budget_is_refused_in_words(d: Dashboard) -> None:
    from playwright.sync_api import expect

    d.type(d.tile_text, 99968)
    expect(d.error).to_have_count(1, timeout=SLOW)
    expect(d.error).to_have_attribute("role", "alert")
    expect(d.error).to_contain_text(re.compile(r"needs [\d,]+ bytes of UB"))
    expect(d.error).to_contain_text("The largest value that works is 12160")
    expect(d.status).to_have_text("not built")
    # A live region that was in the page before says it; one that comes with its text may not.
    expect(d.root.locator(".workbench-live")).to_contain_text("bytes of UB")
    d.picture("3_over_the_budget")
    d.type(d.tile_text, "many")
    expect(d.error).to_contain_text("“many” is not a tile length")
    d.type(d.tile_text, 192)
    d.shows("tile 192, MAX_BLOCKS 127")
    expect(d.error).to_have_count(0)
    expect(d.pane("order").locator(".wb-tree")).to_contain_text(order_of(192).hash[:6])


def more_rows_than_there_are_is_refused_in_words(d: Dashboard) -> None:
    from playwright.sync_api import expect

    rows = d.root.locator(".workbench-control-rows input")
    d.type(rows, 4000)
    expect(d.error).to_contain_text("rows 4,000: this input has 1 to 160", timeout=SLOW)
    expect(rows).to_have_value("4000")
    expect(d.code).to_have_value(re.compile("^# Refused: rows 4,000"))
    d.type(rows, 32)
    d.shows("tile 192, MAX_BLOCKS 127")
    expect(d.error).to_have_count(0)


def a_build_is_cancelled(d: Dashboard, gate: Path) -> None:
    from playwright.sync_api import expect

    at = gate.with_name(gate.name + ".at")
    shown, cells = d.bits(), d.cells()
    number = d.root.locator(".workbench-control-max-blocks .widget-readout")
    gate.touch()
    title = d.summary.locator(".workbench-title")

    def started() -> bool:
        return at.exists() and bool(at.read_text().strip())

    def shown_at_once() -> bool:
        there = f"MAX_BLOCKS {blocks}," in title.inner_text()
        return there and d.status.inner_text() == "done"

    # What an earlier run has built is not built now: as many are tried as it takes.
    before = 127
    for blocks in random.sample(range(2, 127), 60):
        d.type(number, blocks)
        until(d.page, lambda: started() or shown_at_once(), "neither built nor shown")
        if started():
            break
        before = blocks
    assert started(), "no compiler was started: empty the build cache"
    work = Path(at.read_text().strip())
    assert work.is_dir()
    expect(d.root.locator(".workbench-status progress")).to_be_visible()
    d.picture("4_building")
    d.button("cancel").click()
    expect(d.status).to_contain_text("cancelled", timeout=SLOW)
    expect(d.button("cancel")).to_be_disabled()
    expect(d.pane("order")).to_contain_text("Cancelled. What stands below was there before")
    until(d.page, lambda: not work.exists(), "the work of a build that was given up is left")
    d.has_cells(cells)
    gate.unlink()
    # Nothing half made is taken for the kernel: it is built now.
    d.button("refresh").click()
    d.shows(
        f"MAX_BLOCKS {blocks},", "rebuilt in", f"MAX_BLOCKS {before} → {blocks}: = bits unchanged"
    )
    assert d.bits().partition(": ")[2] == shown.partition(": ")[2]


def until(page: Any, true: Any, complaint: Any) -> None:
    for _ in range(SLOW // 40):
        if true():
            return
        page.wait_for_timeout(20)
    pytest.fail(str(complaint() if callable(complaint) else complaint))


class Fresh:
    """A view's code in a process of its own, while the page is used."""

    def __init__(self, code: str) -> None:
        text = f"{code}\n{DIGEST}\nprint(digest(view))\n"
        command = [sys.executable, "-c", text]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def said(self) -> str:
        out, _ = self.process.communicate(timeout=SLOW / 1000)
        assert self.process.returncode == 0, out
        return out.strip()


def is_copied_as_code(d: Dashboard) -> tuple[Fresh, str]:
    """The process that runs the code, and what it is to say."""
    from playwright.sync_api import expect

    d.type(d.tile_text, 256)
    d.shows("tile 256,", "outputs changed their bits")
    code = d.code.input_value()
    assert "tile_length=256" in code
    d.page.evaluate("navigator.clipboard.writeText('something else')")
    d.button("copy").click()
    expect(d.button("copy")).to_have_text("Copied ✓")
    expect(d.root.locator(".workbench-live")).to_have_text("The code is in the clipboard.")
    copied = d.page.evaluate("navigator.clipboard.readText()")
    assert copied == code
    return Fresh(copied), d.bits()


def pins_are_compared(d: Dashboard, folder: Path) -> None:
    """Pinned by keyboard: tile 256 as A, tile 128 as B; shown then: tile 256 in other blocks."""
    from playwright.sync_api import expect

    d.press(d.button("pin"), "Enter")
    expect(d.status).to_contain_text("pinned as A: lm_head, tile 256")
    d.type(d.tile_text, 128)
    d.shows("tile 128,")
    d.press(d.button("pin"), "Space")
    expect(d.status).to_contain_text("pinned as B: lm_head, tile 128")
    d.type(d.tile_text, 256)
    d.press(d.blocks, "End")
    d.shows("tile 256, MAX_BLOCKS 256")
    assert d.tab("pins").inner_text() == "Pins (2)"
    pane = d.open("pins")
    expect(pane.locator("tbody tr")).to_have_count(3)
    heads, now, a, b = (row.locator("th, td").all_inner_texts() for row in pane.locator("tr").all())
    table = [dict(zip(heads, row, strict=True)) for row in (now, a, b)]
    bits, order = "bits, against what is shown now", "order, against what is shown now"
    assert [row["order"] for row in table] == [order_of(t).hash[:6] for t in (256, 256, 128)]
    assert (table[1][bits], table[1][order]) == ("= every bit equal", "= the same order")
    differ = re.fullmatch(r"≠ ([\d,]+) of 8,224 outputs differ", table[2][bits])
    assert differ and table[2][order] == "≠ another order", table[2]
    assert re.search(r"row \d+, column \d+: 0x\w{8} .* and 0x\w{8}", " ".join(b)), b
    assert re.fullmatch(r"\d\.\de-\d+", table[0]["kernel's largest |error|"])
    d.picture("5_pins")
    files = exported(d, "pins", folder)
    rows = list(csv.DictReader(text(files["pins.csv"])))
    assert [(row["pin"], row["bits"]) for row in rows] == [
        ("A", table[1][bits]),
        ("B", table[2][bits]),
    ]
    assert set(json.loads(files["pins.json"])) == {"A", "B"}
    # Removed, it stands there no more.
    d.press(pane.locator(".workbench-unpin"), "Enter")
    expect(pane.locator("tbody tr")).to_have_count(2)
    expect(pane.locator("tbody tr").last).to_contain_text("every bit equal")


def panes_are_exported(d: Dashboard, folder: Path) -> None:
    """Each link saves a file with what its name says."""
    from playwright.sync_api import expect

    files = exported(d, "order", folder)
    assert d.root.locator("a.workbench-download").count() == 4
    d.tab("drift").click()
    expect(d.root.locator("a.workbench-download")).to_have_count(0)  # they were of another pane
    assert sorted(files) == ["order.csv", "order.json", "order.png", "order.svg"]
    tree, rows = json.loads(files["order.json"]), list(csv.DictReader(text(files["order.csv"])))
    assert (tree["hash"], tree["height"]) == (order_of(256).hash, order_of(256).height)
    assert [row["term"] for row in rows] == [str(k) for k in range(FEATURES)]
    assert max(int(row["roundings"]) for row in rows) == tree["height"]
    files = exported(d, "drift", folder)
    names = {f"drift_{what}.{kind}" for what in ("map", "histogram") for kind in ("png", "svg")}
    assert set(files) == names | {"drift.json", "drift.csv"}
    rows = list(csv.DictReader(text(files["drift.csv"])))
    assert {(row["candidate"], row["reference"]) for row in rows} == {
        ("kernel", "exact"), ("torch.mv", "exact"), ("kernel", "torch.mv")
    }  # fmt: skip
    assert json.loads(files["drift.json"])["shape"] == [32, FEATURES, 257]


def exported(d: Dashboard, pane: str, folder: Path) -> dict[str, bytes]:
    from playwright.sync_api import expect

    d.open(pane)
    d.press(d.button("export"), "Enter")
    links = d.root.locator("a.workbench-download")
    expect(links.first).to_have_text(re.compile(f"^{pane}"), timeout=SLOW)
    found = {}
    for link in links.all():
        with d.page.expect_download() as download:
            d.press(link, "Enter")
        assert download.value.suggested_filename == link.inner_text()
        download.value.save_as(folder / link.inner_text())
        found[link.inner_text()] = (folder / link.inner_text()).read_bytes()
    for name, content in found.items():
        if name.endswith(".png"):
            assert content.startswith(b"\x89PNG\r\n") and len(content) > 10_000, name
        if name.endswith(".svg"):
            root = ElementTree.fromstring(content)
            assert root.tag.endswith("}svg") and len(list(root.iter())) > 20, name
    return found


def text(content: bytes) -> io.StringIO:
    return io.StringIO(content.decode())


def does_what_a_person_asks(d: Dashboard, gate: Path, folder: Path) -> None:
    """All of the above, in order, from the first result on."""
    shows_its_first_result(d)
    a_tile_changes_order_and_bits(d)
    a_block_count_does_not(d)
    a_tile_over_the_budget_is_refused_in_words(d)
    more_rows_than_there_are_is_refused_in_words(d)
    a_build_is_cancelled(d, gate)
    fresh, bits = is_copied_as_code(d)
    pins_are_compared(d, folder)
    panes_are_exported(d, folder)
    assert fresh.said() == bits
