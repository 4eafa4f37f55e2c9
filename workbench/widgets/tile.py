"""The control of a tile length: a slider over tiles that fit, and a text for any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as ipw


class TileControl:
    """A slider and a text that follow each other.

    A tile that does not fit can be typed: it is for the builder to refuse, in its words. What is no
    number is refused here.

    Args:
        choices: Stops of the slider, ascending; the last is the largest that fits.
        start: The tile to begin with, whether it fits or not.
        moved: Called when the tile has changed.
        refused: Called with the reason when the text is no tile.
        slider, text: Further arguments of the two widgets.
        step: A tile is a multiple of it.

    Attributes:
        slider, text: The widgets.
    """

    def __init__(
        self,
        choices: Sequence[int],
        start: int,
        moved: Callable[[], None],
        refused: Callable[[str], None],
        slider: dict[str, Any],
        text: dict[str, Any],
        step: int = 64,
    ) -> None:
        self._moved, self._refused = moved, refused
        self._choices, self.step, self._quiet = list(choices), step, False
        stops = self._with(start)
        self.slider = ipw.SelectionSlider(
            options=stops,
            value=start if start in stops else stops[-1],
            description="tile length",
            continuous_update=False,
            **slider,
        )
        self.text = ipw.Text(
            value=str(start), description="or any tile", continuous_update=False, **text
        )
        self.slider.observe(self._slid, "value")
        self.text.observe(self._typed, "value")

    @property
    def value(self) -> int:
        """The tile; after a text that was refused that of the slider."""
        try:
            return int(self.text.value)
        except ValueError:
            self.quietly(self.text, value=str(self.slider.value))
            return self.slider.value

    def limit(self, choices: Sequence[int], tile: int | None = None) -> None:
        """Other stops, with `tile` among them if it fits; nobody is told.

        None: the slider's, or the largest that fits; but a tile that was typed and that the slider
        does not have is still for the builder to refuse.
        """
        self._choices = list(choices)
        if tile is None:
            typed = self.value
            on_slider = typed == self.slider.value
            tile = min(typed, self._choices[-1]) if on_slider else typed
        self.put(tile)

    def put(self, tile: int) -> None:
        """Show `tile`; nobody is told."""
        stops = self._with(tile)
        shown = tile if tile in stops else min(self.slider.value, stops[-1])
        self.quietly(self.slider, options=sorted({*stops, shown}), value=shown)
        self.quietly(self.text, value=str(tile))

    def quietly(self, widget: Any, **values: Any) -> None:
        """Set traits without telling anybody that the tile has changed."""
        before, self._quiet = self._quiet, True
        try:
            for name, value in values.items():
                setattr(widget, name, value)
        finally:
            self._quiet = before

    def _with(self, tile: int) -> list[int]:
        fits = self.step <= tile <= self._choices[-1] and tile % self.step == 0
        return sorted({*self._choices, tile}) if fits else self._choices

    def _slid(self, change: Any) -> None:
        if not self._quiet:
            self.quietly(self.text, value=str(change["new"]))
            self._moved()

    def _typed(self, change: Any) -> None:
        if self._quiet:
            return
        text = change["new"].strip()
        if not text.lstrip("-").isdecimal():
            wanted = f"Type a number of elements: a multiple of {self.step}."
            self._refused(f"“{text}” is not a tile length. {wanted}")
            return
        tile = int(text)
        if tile in self._with(tile):
            self.quietly(self.slider, options=self._with(tile), value=tile)
        self._moved()
