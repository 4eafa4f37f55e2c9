"""The panel: controls that ask `Judge`, and its results. Nothing is drawn or computed here."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import ipywidgets as ipw
import torch

from workbench import plots, samples
from workbench.build import spec
from workbench.errors import InputError
from workbench.widgets import markup
from workbench.widgets.judge import (
    BASELINE_TILE,
    OP,
    Judge,
    PanelResult,
    PanelState,
    tile_choices,
)
from workbench.widgets.latest import Latest
from workbench.widgets.tile import TileControl
from workbench.widgets.words import explain

REAL, SYNTHETIC = "SmolLM2-135M, real (H 576)", "Qwen3-8B shape, synthetic (H 4096)"
OWN = "as given"
LARGEST_SLIDER_BLOCKS = 256
_WIDE = ipw.Layout(width="30rem", max_width="calc(100% - 4px)")  # less its margins
_STYLE = {"description_width": "7rem"}


def panel(
    hidden: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    *,
    tile_length: int = BASELINE_TILE,
    max_blocks: int = 128,
    arch: str = "dav-2201",
    dtype: str = "fp32",
    backend: str = "auto",
) -> Panel:
    """Sliders that rebuild the LM head and show at once what the change does to its bits.

    Args:
        hidden: [..., H]; None: a choice of the real sample and a synthetic one, 32 rows each.
        weight: [V, H]; given together with hidden.
        tile_length, max_blocks, arch, dtype: Where to start.
        backend: "twin", "npu" or "auto": npu for tensors on an NPU, else the twin.

    Returns:
        A widget. Without a front end it works too: `.set(tile_length=64).wait()`, then `.result`.

    Raises:
        InputError: Only one of hidden and weight was given.

    Example:
        >>> shown = panel(torch.randn(4, 512), torch.randn(9, 512))
        >>> shown.set(max_blocks=3).wait().result.change.equal
        True
    """
    if (hidden is None) != (weight is None):
        raise InputError("give hidden and weight together, or neither to use the samples")
    data: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
    if hidden is not None and weight is not None:
        data[OWN] = hidden, weight
    else:
        draw = samples.qwen3(rows=32, vocab=257, dtype=torch.float32)
        data[SYNTHETIC] = draw.hidden, draw.weight
        real = samples.smollm2()
        data[REAL] = real.hidden.flatten(0, -2)[:32], real.weight[:512].float()
    return Panel(data, PanelState(tile_length, max_blocks, arch, dtype), backend)


class Panel(ipw.VBox):
    """Made by `panel`. `result` is what it shows, `set` moves its controls, `wait` waits for it."""

    def __init__(
        self,
        data: dict[str, tuple[torch.Tensor, torch.Tensor]],
        state: PanelState,
        backend: str = "auto",
    ) -> None:
        self._judges = {name: Judge(*tensors, backend) for name, tensors in data.items()}
        self.result: PanelResult | None = None
        self._last_good: tuple[str, PanelResult | None] = "", None
        self._drawn = ""
        self._worker = Latest(self._work, self._show, self._unexpected)
        self._make_controls(list(data), state)
        self.status = ipw.HTML()
        self.verdicts = ipw.HTML()
        self.picture = ipw.HTML()
        super().__init__([self._controls, self.status, self.verdicts, self.picture])
        self.add_class("workbench-panel")
        # The first result is there when the cell ends: no thread is left behind headless.
        first = next(iter(data)), state, None
        try:
            for found in self._work(first):
                self._show(found)
        except Exception as error:
            self._unexpected(first, error)

    def set(self, **values: Any) -> Panel:
        """Move controls: tile_length, max_blocks, arch, dtype, data. Does not wait."""
        names = {
            "tile_length": self.tile_text,
            "max_blocks": self.max_blocks,
            "arch": self.arch,
            "dtype": self.dtype,
            "data": self.data,
        }
        for name, value in values.items():
            if name not in names:
                raise InputError(f"the panel has no control {name!r}; it has {', '.join(names)}")
            names[name].value = str(value) if name == "tile_length" else value
        return self

    def wait(self, timeout: float = 60) -> Panel:
        """Wait until the controls' last position has been judged.

        Raises:
            TimeoutError: It took longer than `timeout` seconds.
        """
        if not self._worker.wait(timeout):
            raise TimeoutError(f"the panel was still at work after {timeout:g} s")
        return self

    # ---- controls ----------------------------------------------------------------------------

    def _make_controls(self, data: list[str], state: PanelState) -> None:
        raw = spec(OP).raw
        slow: dict[str, Any] = {"continuous_update": False, "style": _STYLE, "layout": _WIDE}
        small = {"style": _STYLE, "layout": ipw.Layout(width="14rem")}
        self._tiles = TileControl(
            tile_choices(state.arch, state.dtype),
            state.tile_length,
            self._submit,
            self._refuse,
            {"style": _STYLE, "layout": _WIDE},
            small,
        )
        self.tile, self.tile_text = self._tiles.slider, self._tiles.text
        self.max_blocks = ipw.IntSlider(
            value=state.max_blocks,
            min=1,
            max=max(LARGEST_SLIDER_BLOCKS, state.max_blocks),
            description="MAX_BLOCKS",
            **slow,
        )
        self.arch = ipw.Dropdown(
            options=raw["archs"], value=state.arch, description="architecture", **small
        )
        self.dtype = ipw.Dropdown(
            options=spec(OP).dtypes, value=state.dtype, description="input dtype", **small
        )
        self.data = ipw.Dropdown(options=data, description="data", style=_STYLE, layout=_WIDE)
        for control in (self.max_blocks, self.data):
            control.observe(self._moved, "value")
        for control in (self.arch, self.dtype):
            control.observe(self._limits_moved, "value")
        left = [self.tile, self.max_blocks] + ([self.data] if len(data) > 1 else [])
        right = [self.tile_text, self.arch, self.dtype]
        self._controls = ipw.HBox(
            [ipw.VBox(side, layout=ipw.Layout(max_width="100%")) for side in (left, right)],
            layout=ipw.Layout(flex_flow="row wrap"),
        )

    def _limits_moved(self, change: Any) -> None:
        """Architecture or dtype: another UB, other tiles on the slider."""
        self._tiles.limit(tile_choices(self.arch.value, self.dtype.value))
        self._submit()

    def _moved(self, change: Any) -> None:
        self._submit()

    # ---- work --------------------------------------------------------------------------------

    def _submit(self) -> None:
        tile = self._tiles.value
        state = PanelState(tile, self.max_blocks.value, self.arch.value, self.dtype.value)
        data, before = self._last_good
        before = before if data == self.data.value else None
        self._worker.submit((self.data.value, state, before))

    def _refuse(self, message: str) -> None:
        """Show why there is no result; whatever is being computed no longer counts."""
        state = PanelState(
            self.tile.value, self.max_blocks.value, self.arch.value, self.dtype.value
        )
        found = PanelResult(state, error=message, complete=True)
        self._worker.submit((self.data.value, found, None))

    def _work(self, request: tuple) -> Iterator[tuple[str, PanelResult]]:
        data, asked, before = request
        if isinstance(asked, PanelResult):
            yield data, asked
            return
        for found in self._judges[data].stages(asked, before):
            yield data, found

    def _unexpected(self, request: tuple, error: BaseException) -> None:
        state = getattr(request[1], "state", request[1])
        self._show((request[0], PanelResult(state, error=explain(error), complete=True)))

    # ---- showing -----------------------------------------------------------------------------

    def _show(self, shown: tuple[str, PanelResult]) -> None:
        data, found = shown
        self.result = found
        if found.error:
            self.status.value = markup.status("not built", "error")
            self.verdicts.value = markup.error(found.error, "Not built.")
            self.picture.value = self._drawn = ""
            return
        if found.seconds is None:
            state = found.state
            self.status.value = markup.status(
                f"building tile {state.tile_length} for {state.arch} …"
            )
            return  # what was shown before stays until there is something new to say
        if found.complete:
            self._last_good = data, found
        self.status.value = markup.status("done" if found.complete else "judging …")
        self.verdicts.value = _verdicts(found)
        picture = f"{found.state.tile_length} {found.state.arch} {data}"
        if picture != self._drawn:
            self.picture.value, self._drawn = _picture(found), picture

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The widget, and for a page without a kernel what it shows now, as text and images."""
        data = super()._repr_mimebundle_(**kwargs)
        data["text/plain"] = repr(self)
        data["text/html"] = markup.as_it_was("The panel", self.verdicts.value, self.picture.value)
        return data

    def __repr__(self) -> str:
        return f"Panel: {self.result}"


def _verdicts(found: PanelResult) -> str:
    lines = {
        "build": found.build_text(),
        "order": found.order_text(),
        "drift": found.drift_text(),
        "bits": found.baseline_text(),
        "this change": found.change_text(),
        "invariance": found.invariance_text(),
    }
    coming = () if found.complete else [name for name in lines if name != "this change"]
    table = markup.facts(lines, coming)
    heading = f"<b>{html.escape(found.title())}</b>"
    evidence = "" if found.drift is None else markup.evidence(found.drift)
    return f'<div style="line-height: 1.45">{heading}{table}{evidence}</div>'


def _picture(found: PanelResult) -> str:
    if found.tree is None:
        return ""
    s = found.state
    label = f"tile {s.tile_length} on {s.arch}"
    evidence = f"declared by the source, {s.arch}, tile {s.tile_length}"
    figure = plots.order(found.tree, label, plots.evidence_text(note=evidence))
    return markup.image(figure, f"Order of summation of {label}: {found.order_text()}.", 1.5)
