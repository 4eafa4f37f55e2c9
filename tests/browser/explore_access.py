"""Whether everybody can use the dashboard: by keyboard alone, and what axe finds."""

from __future__ import annotations

import re

import pytest
import scratch
from explore_steps import TABS, WINDOW, Dashboard, order_of, until
from scratch import SLOW

# What a person acts on. Of a composite (tabs, a tree) only one part is a stop of Tab: its arrow
# keys reach the others, which is tried below.
ACTED_ON = (
    "a[href], button, input, select, textarea, [contenteditable=true], [role=slider], "
    "[role=tree], [role=application], [role=tab][aria-selected=true], [tabindex='0']"
)
NAMES = """(root, selector) => {
  window.nameOf = (e) => {
    const label = e.getAttribute("aria-label") || e.labels?.[0]?.textContent || e.textContent;
    return `${e.getAttribute("role") || e.tagName.toLowerCase()} ${label.trim().slice(0, 60)}`;
  };
  const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled;
  return [...root.querySelectorAll(selector)].filter(shown).map(nameOf);
}"""
# The element that has the focus, and whether that can be seen.
FOCUSED = """() => {
  const e = document.activeElement;
  if (!e?.closest(".workbench-explore")) return null;
  const style = getComputedStyle(e);
  const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1;
  const own = e.querySelector(".wb-ring-out, .wb-cursor");
  const seen = ring || style.boxShadow !== "none" || own !== null;
  return { name: nameOf(e), seen, back: e === window.start };
}"""


def acted_on(d: Dashboard) -> list[str]:
    """Names of all that can be acted on now."""
    return d.root.evaluate(NAMES, ACTED_ON)


def walked(d: Dashboard, key: str = "Tab", most: int = 90) -> list[str]:
    """Names of what the key reaches, from where the focus is until it leaves the dashboard or, on a
    page that has nothing else, is back.

    Fails where the focus cannot be seen, and where it does not leave.
    """
    found = []
    d.page.evaluate("window.start = document.activeElement")
    for _ in range(most):
        focused = d.page.evaluate(FOCUSED)
        if focused is None or (found and focused["back"]):
            return found
        assert focused["seen"], f"nothing shows that the focus is on {focused['name']}"
        found.append(focused["name"])
        d.page.keyboard.press(key)
    pytest.fail(f"{key} does not lead out: {found}")


def is_reached_by_tab(d: Dashboard) -> None:
    """Forwards and backwards through all there is, and out."""
    wanted = acted_on(d)
    assert len(wanted) > 20, wanted
    d.tile.focus()
    there = walked(d)
    assert there == wanted
    d.code.focus()
    assert walked(d, "Shift+Tab") == there[::-1]


def the_walk_misses_what_tab_does_not_reach(d: Dashboard) -> None:
    """The control."""
    pin = d.button("pin")
    pin.evaluate("button => { button.tabIndex = -1; }")
    d.tile.focus()
    there = walked(d)
    assert [name for name in acted_on(d) if name not in there] == ["button Pin this configuration"]
    pin.evaluate("button => { button.tabIndex = 0; }")


def is_operated_by_keys(d: Dashboard) -> None:
    """Every control by arrow keys, Enter and Space; what was moved is moved back."""
    from playwright.sync_api import expect

    def control(name: str):
        return d.root.locator(f".workbench-control-{name}").locator("select, input")

    d.open("build")  # the pane that takes least
    d.type(d.tile_text, 128)
    d.type(d.root.locator(".workbench-control-max-blocks .widget-readout"), 128)
    d.shows("tile 128, MAX_BLOCKS 128")
    moves = {
        "schedule": "schedule output → weight_stationary: = bits unchanged",
        "reference": "reference torch.mv → F.linear: = bits unchanged",
        "dtype": "dtype fp32 → bf16: other inputs",
        "rows": "rows 32 → 31: other inputs",
        "vocab": "vocabulary 257 → 256: other inputs",
        "arch": "architecture dav-2201 → dav-3510: ",
        "op": "kernel lm_head → batch_invariant_logp",
    }
    for name, said in moves.items():
        d.press(control(name), "ArrowDown")
        d.shows(said)
        d.press(control(name), "ArrowUp")
        d.shows("this change")
        expect(d.change).not_to_contain_text(said)
        d.done()
    d.type(d.tile_text, 128)
    d.shows("tile 128, MAX_BLOCKS 128")
    d.open("order")


def tabs_and_pictures_are_operated_by_keys(d: Dashboard) -> None:
    from playwright.sync_api import expect

    # From the tab that is open, where Tab stops, to the next one and into it.
    d.press(d.tab("order"), "ArrowRight", "Enter")
    expect(d.pane("drift")).to_be_visible()
    expect(d.tab("drift")).to_be_focused()
    frame, facts = d.pane("drift").locator(".wb-frame"), d.pane("drift").locator(".wb-facts").first
    expect(frame).to_be_visible(timeout=SLOW)
    d.done()
    for key in ("ArrowRight", "ArrowDown"):
        before = facts.inner_text()
        d.press(frame, key)
        expect(facts).not_to_have_text(before, timeout=SLOW)
    # What is chosen on the map is what the order below it is of, and later the pane of the order.
    place = facts.inner_text().split(":")[0]
    assert re.fullmatch(r"row \d+, vocabulary id \d+", place)
    legend = d.pane("drift").locator(".wb-tree .wb-legend")
    expect(legend).to_contain_text(f"bound of {place},", timeout=SLOW)
    d.press(d.tab("drift"), "ArrowLeft", "Space")
    tree = d.pane("order").locator(".wb-tree")
    expect(tree.locator(".wb-legend")).to_contain_text(f"bound of {place},", timeout=SLOW)
    d.done()
    d.press(tree.locator(".wb-picture"), "ArrowDown", "ArrowDown")
    expect(tree.locator(".wb-facts")).not_to_contain_text("sum of 576 terms")
    inner = tree.locator(".wb-facts strong").inner_text()
    d.page.keyboard.press("Enter")
    expect(tree.locator("[aria-current]")).not_to_have_text("all 576 terms", timeout=SLOW)
    assert d.cells()[0].split(";")[0].endswith(inner.split(" × ")[-1]), (inner, d.cells()[0])
    d.page.keyboard.press("Escape")
    expect(tree.locator("[aria-current]")).to_have_text("all 576 terms")
    assert order_of(128).hash[:6] in tree.inner_text()


def faults(d: Dashboard) -> list[str]:
    """What axe finds in the dashboard that would shut somebody out."""
    return scratch.serious_faults(d.page, ".workbench-explore")


def every_pane_is_free_of_faults(d: Dashboard, theme: str, pictures: tuple[str, ...]) -> None:
    for name in TABS:
        d.open(name)
        assert faults(d) == [], name
        if name in pictures:
            d.picture(f"{theme}_{name}")


def fits_into_800_pixels(d: Dashboard) -> None:
    d.page.set_viewport_size({**WINDOW, "width": 800})
    for name in ("order", "drift", "pins"):
        d.open(name)
        until(d.page, lambda: not scratch.cut_off(d.root), lambda: scratch.cut_off(d.root))
        d.picture(f"narrow_{name}")
    # The control: a text that has no room.
    title = d.root.locator(".workbench-title")
    title.evaluate("title => { title.style = 'width: 9rem; overflow: hidden; white-space: pre'; }")
    title.evaluate("title => { title.textContent = title.textContent; }")
    assert len(scratch.cut_off(d.root)) == 1
    d.page.set_viewport_size(WINDOW)


def axe_would_find_them(d: Dashboard) -> None:
    """The control: a select without a name, a text that cannot be read, a picture without words."""
    title = "root.querySelector('.workbench-title')"
    d.root.evaluate(f"""root => {{
        root.querySelector(".workbench-control-dtype label").remove();
        {title}.style = "color: #888; background: #999";
        {title}.append(document.createElement("img"));
    }}""")
    rules = [fault.split(":")[0] for fault in faults(d)]
    assert sorted(rules) == ["color-contrast", "image-alt", "select-name"]
