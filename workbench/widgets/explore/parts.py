"""The widgets that the dashboard is made of, without anything that they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets as ipw

from workbench.widgets import markup
from workbench.widgets.explore import panes
from workbench.widgets.explore.front import Front
from workbench.widgets.explore.work import PINS, STEPS, TABS


class Parts:
    """All widgets but the controls. Each has a CSS class, `workbench-` and what it is.

    Args:
        pane: The tab that is open first.
    """

    def __init__(self, pane: str) -> None:
        self.front = Front()
        self.status, self.summary, self.links = ipw.HTML(), ipw.HTML(), ipw.HTML()
        for name in ("status", "summary", "links"):
            getattr(self, name).add_class(f"workbench-{name}-box")
        self.cancel = _button("Cancel", "Give up; a running compiler is ended", "cancel")
        self.cancel.disabled = True
        self.pin = _button("Pin this configuration", "Keep it, to compare", "pin")
        self.refresh = _button("Build again", "As after an edit of the source", "refresh")
        self.copy = _button("Copy as code", "The call that reproduces this view", "copy")
        self.export = _button("Export this pane", "Links to its figures and data", "export")
        self.code = ipw.Textarea(
            description="as code",
            rows=5,
            style={"description_width": "6.5rem"},
            layout={"width": "99%", "max_width": "60rem"},
        )
        self.code.add_class("workbench-code")
        self.words = {name: ipw.HTML() for name in TABS}
        self.pictures = {name: ipw.HTML() for name in TABS}
        self.views: dict[str, Any] = {}
        self.pin_choice = ipw.Dropdown(options=[], description="pin", layout={"width": "12rem"})
        self.pin_choice.add_class("workbench-pin-choice")
        self.show_pin = _button("Show it again", "Move the controls there", "pin-show")
        self.unpin = _button("Remove it", "Forget this pin", "unpin")
        self._of_pins = ipw.HBox([self.pin_choice, self.show_pin, self.unpin])
        boxes = [self._box(name) for name in TABS]
        self.boxes = dict(zip(TABS, boxes, strict=True))
        self.tabs = ipw.Tab(boxes, titles=[panes.TITLES[name] for name in TABS])
        self.tabs.selected_index = TABS.index(pane)
        self.tabs.add_class("workbench-tabs")

    def children(self, controls: Any) -> list[Any]:
        """What stands in the dashboard, from top to bottom."""
        line = ipw.HBox([self.status, self.cancel])
        line.add_class("workbench-status-line")
        buttons = ipw.HBox(
            [self.pin, self.refresh, self.copy, self.export, self.links],
            layout={"flex_flow": "row wrap"},
        )
        return [self.front, controls, line, self.summary, buttons, self.tabs, self.code]

    def _box(self, name: str) -> ipw.VBox:
        heading = ipw.HTML(f'<h2 class="workbench-heading">{panes.TITLES[name]}</h2>')
        inside: list[Any] = [heading, self.words[name], self.pictures[name]]
        box = ipw.VBox([*inside, self._of_pins] if name == PINS else inside)
        box.add_class(f"workbench-pane-{name}")
        return box

    def hang(self, pane: str, view: Any) -> None:
        """Put a widget between the words and the figures of a pane; None: none."""
        old = self.views.get(pane)
        if view is old:
            return
        self.views.pop(pane, None)
        if view is not None:
            self.views[pane] = view
        heading, words, *_ = self.boxes[pane].children
        shown = [] if view is None else [view]
        self.boxes[pane].children = (heading, words, *shown, self.pictures[pane])
        if old is not None:
            old.close()  # or the kernel and the page would keep each one there has been

    def name_pins(self, names: Sequence[str]) -> None:
        """The pins that there are, the newest of them chosen."""
        self.pin_choice.options = [*names]
        if names:
            self.pin_choice.value = names[-1]
        many = f" ({len(names)})" if names else ""
        self.tabs.set_title(TABS.index(PINS), panes.TITLES[PINS] + many)
        for control in (self.pin_choice, self.show_pin, self.unpin):
            control.disabled = not names

    def say(self, text: str, done: int | None = None) -> None:
        """What is going on, with a bar while there is work."""
        bar = "" if done is None else markup.progress(done, STEPS, "work on this view")
        self.status.value = markup.status(text, bar=bar)


def _button(text: str, tooltip: str, name: str) -> ipw.Button:
    made = ipw.Button(description=text, tooltip=tooltip, layout={"width": "auto"})
    made.add_class(f"workbench-{name}")
    return made
