"""The dashboard: controls that ask `Study`, and what it says, a pane each.

Nothing is drawn or computed here. One thread works for it, off the kernel's main one; the latest
change wins, and only what is looked at is computed.
"""

from __future__ import annotations

import os
import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ipywidgets as ipw
import torch

from workbench.build.cancelling import Cancel
from workbench.errors import Cancelled, InputError
from workbench.widgets import markup
from workbench.widgets.explore import export, panes
from workbench.widgets.explore.controls import Controls, default_reference
from workbench.widgets.explore.inputs import Inputs
from workbench.widgets.explore.parts import Parts
from workbench.widgets.explore.pins import PinComparison, compare, overview
from workbench.widgets.explore.result import ExploreResult
from workbench.widgets.explore.state import OWN, REAL, ExploreState, default_blocks
from workbench.widgets.explore.study import PANES, Call, Study
from workbench.widgets.explore.work import DONE, PINS, TABS, Look, Looks, Request, Step, Work
from workbench.widgets.latest import Latest
from workbench.widgets.views.front import close_parts
from workbench.widgets.words import explain

ROWS, VOCAB = 32, 257  # of the first view
PATIENCE = 5.0  # seconds that older work may take to notice that it is not wanted
_TWIN = (
    "Results of the twin: the kernel's own source, compiled for this CPU and simulated. "
    "None of it was measured on Ascend hardware."
)
_UNSEEN = markup.note("Computed when this tab is opened.")
_CANCELLED = "cancelled: what stands here was there before, or is not complete"
_MARK = markup.note("Cancelled. What stands below was there before, or is not complete.")
_NPU = "Results of an NPU, through torch_npu."


def explore(
    op: str = "lm_head",
    *,
    hidden: torch.Tensor | None = None,
    weight: torch.Tensor | None = None,
    target: torch.Tensor | None = None,
    call: Call | None = None,
    arch: str = "dav-2201",
    tile_length: int | None = None,
    max_blocks: int | None = None,
    dtype: str = "fp32",
    schedule: str = "output",
    leaf_length: int = 128,
    rows: int | None = None,
    vocab: int | None = None,
    data: str | None = None,
    reference: str | None = None,
    backend: str = "auto",
    pane: str = "order",
) -> Explore:
    """The dashboard: a kernel rebuilt as its controls move, and what that does to its numbers.

    Args:
        op: "lm_head", "batch_invariant_logp", "det_gemm", or the path of an own `.asc` file.
        hidden: [..., H] of your own, beside the samples; of det_gemm `a`.
        weight: [V, H], given together with hidden; of det_gemm `b` transposed. A log-prob kernel is
            given the logits of both.
        target: [...] int64 of the log-prob kernel; None: row r aims at r % V.
        call: For an own file: f(kernel, hidden [N, H], weight [V, H]) -> [N, V], which launches it.
        arch, tile_length, max_blocks, schedule, leaf_length: The configuration to start with; a
            tile length or a block count of None is the kernel's default.
        dtype: Of the inputs: "fp32", "bf16" or "fp16".
        rows, vocab: How many rows of hidden and of weight; None: 32 and 257, or all.
        data: "smollm2" (real), "qwen3" (synthetic) or "own"; None: your own if there are any.
        reference: "exact", "torch.mv", "F.linear" (of log-probs "torch.log_softmax"): what stands
            beside the kernel.
        backend: "twin", "npu" or "auto": npu for tensors on an NPU, else the twin.
        pane: The tab that is open: "order", "drift", "invariance", "tolerance", "counters", "build"
            or "pins".

    Returns:
        A widget. Without a front end it works too: `.set(tile_length=64).wait().result`.

    Raises:
        InputError: A value that no control has, or tensors that do not fit.

    Example:
        >>> view = explore(rows=2, vocab=8, pane="build")
        >>> view.set(max_blocks=3).wait().result.change.equal
        True
    """
    inputs = Inputs(hidden, weight, target)
    data = data or (OWN if OWN in inputs.names else REAL)
    limits = inputs.limits(data)
    start = ExploreState(
        op=_path(op),
        arch=arch,
        tile_length=tile_length,
        max_blocks=default_blocks(_path(op)) if max_blocks is None else max_blocks,
        dtype=dtype,
        schedule=schedule,
        leaf_length=leaf_length,
        rows=min(ROWS, limits["rows"]) if rows is None else rows,
        vocab=min(VOCAB, limits["vocab"]) if vocab is None else vocab,
        data=data,
        reference=reference or default_reference(_path(op)),
    )
    if pane not in TABS:
        raise InputError(f"pane={pane!r}: there are {', '.join(TABS)}")
    return Explore(start, inputs, backend, call, pane)


class Explore(ipw.VBox):
    """Made by `explore`. `set` moves its controls, `wait` waits for it, `result` is what it shows.

    Attributes:
        result: The `ExploreResult` of the controls' position; fields of panes that were not opened
            are None.
        pins: {name: `ExploreResult`} of the configurations that were pinned.
        latency: Seconds from the last change to what it changed: "first" (any pane or line),
            "bits" (the verdict on its bits), "figure", "done".
    """

    def __init__(
        self,
        start: ExploreState,
        inputs: Inputs,
        backend: str = "auto",
        call: Call | None = None,
        pane: str = "order",
    ) -> None:
        self._inputs, self._backend, self._call = inputs, backend, call
        self._looks = Looks()
        self._wish = Cancel()
        self._refusal = ""
        self._last_good: ExploreResult | None = None
        self.pins: dict[str, ExploreResult] = {}
        self._pinned: dict[str, Look] = {}
        self._hung: dict[str, Any] = {}  # of what the widget in a pane is
        self._output: panes.Output | None = None  # that was chosen in the map of drift
        self.latency: dict[str, float] = {}
        self._work = Work()
        self._worker = Latest(self._work, self._show, self._unexpected, PATIENCE)
        self._exporter = Latest(self._make_links, self._show_links, self._links_failed)
        self.controls = Controls(start, inputs, self._moved, self._refused)
        self._look = self._look_at(self.controls.state)
        self.parts = Parts(pane)
        self._connect()
        super().__init__(self.parts.children(self.controls))
        self.add_class("workbench-explore")
        # The first result is there when the cell ends: no thread is left behind headless.
        request = self._request(None)
        try:
            for step in self._work(request):
                self._show(step)
        except Exception as error:
            self._unexpected(request, error)

    # ---- what programs use -------------------------------------------------------------------

    @property
    def state(self) -> ExploreState:
        """The position of the controls."""
        return self._look.study.state

    @property
    def result(self) -> ExploreResult:
        """What is known of it so far."""
        if self._refusal:
            return ExploreResult(self.state, error=self._refusal, done=frozenset(PANES))
        return self._look.result

    @property
    def pane(self) -> str:
        """The tab that is open; setting it computes what that tab shows."""
        return TABS[self.parts.tabs.selected_index or 0]

    @pane.setter
    def pane(self, name: str) -> None:
        if name not in TABS:
            raise InputError(f"pane={name!r}: there are {', '.join(TABS)}")
        self.parts.tabs.selected_index = TABS.index(name)

    @property
    def code(self) -> str:
        """Python text that reproduces what is shown; after a refusal the position before it."""
        fixture = self.result.fixture
        more = {"pane": self.pane} if self.pane != TABS[0] else {}
        if self._backend != "auto":
            more["backend"] = self._backend
        call, target = self._call is not None, self._inputs.own_target
        text = self.state.code(fixture=fixture, call=call, target=target, **more)
        if self._refusal:
            why = "\n# ".join(self._refusal.splitlines())
            text = f"# Refused: {why}\n# What follows is the position before that.\n{text}"
        return text

    def set(self, **values: Any) -> Explore:
        """Move controls, by the names of `ExploreState`, and `pane`. Does not wait.

        Raises:
            InputError: No such control, or a value that it does not have; nothing has moved then.
        """
        pane = values.pop("pane", self.pane)
        if pane not in TABS:
            raise InputError(f"pane={pane!r}: there are {', '.join(TABS)}")
        if "op" in values:
            values["op"] = _path(values["op"])
        before = self.state
        state = before.replace(**values)
        if state.op != before.op:
            fresh: dict[str, Any] = {"tile_length": None, "schedule": "output"}
            if state.shipped is None:
                fresh["max_blocks"] = default_blocks(state.op)
            if state.reference not in state.references:
                fresh["reference"] = default_reference(state.op)
            state = state.replace(**{k: v for k, v in fresh.items() if k not in values})
        if values:
            self.controls.put(state)
        if pane != self.pane:
            self._quiet_tab(pane)
        self._moved()
        return self

    def wait(self, timeout: float = 60) -> Explore:
        """Wait until the controls' last position has been judged and the open pane is drawn.

        Raises:
            TimeoutError: It took longer than `timeout` seconds.
        """
        if not (self._worker.wait(timeout) and self._exporter.wait(timeout)):
            raise TimeoutError(f"the dashboard was still at work after {timeout:g} s")
        return self

    def refresh(self, _: Any = None) -> Explore:
        """Build and judge again, as after an edit of the kernel's source."""
        self._looks.forget()
        self._moved()
        return self

    def cancel(self, _: Any = None) -> Explore:
        """Give up what is being worked on; a compiler that runs for it is ended."""
        if self._worker.busy:
            self._worker.forget()
            self._wish.cancel()
            self._idle(_CANCELLED)
            words = self.parts.words[self.pane]
            if not words.value.startswith(_MARK):
                words.value = _MARK + words.value
        return self

    def pin(self, _: Any = None) -> str:
        """Keep the configuration that is shown, to compare others with it; its name."""
        if self.result.outputs is None:
            self.parts.say("nothing to pin: there is no result")
            return ""
        held = [name for name, look in self._pinned.items() if look is self._look]
        free = (c for c in string.ascii_uppercase if c not in self._pinned)
        name = held[0] if held else next(free, "")
        if not name:
            self.parts.say("26 configurations are pinned; remove one first")
            return ""
        self._pinned[name] = self._look
        self.parts.say(f"pinned as {name}: {self.state.title()}")
        self._pins_changed()
        return name

    def unpin(self, name: str) -> None:
        """Forget a pinned configuration.

        Raises:
            InputError: There is no such pin.
        """
        self._known_pin(name)
        del self._pinned[name]
        self._pins_changed()

    def compare(self, left: str, right: str | None = None) -> PinComparison:
        """Two configurations beside each other: bits, order, drift, the first difference.

        Args:
            left: Name of a pin.
            right: Name of another; None: what is shown now.

        Raises:
            InputError: There is no such pin.
        """
        other = self.result if right is None else self._known_pin(right).result
        return compare(self._known_pin(left).result, other)

    def show_pin(self, name: str) -> Explore:
        """Move the controls to a pinned configuration."""
        self.controls.put(self._known_pin(name).study.state)
        self._moved()
        return self

    def export(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write figures (PNG, SVG), data (JSON, CSV) and code of all panes computed so far, and how
        each pin compares with what is shown now.

        Returns:
            The files written.

        Raises:
            InputError: The folder cannot be written.
        """
        self.wait()
        return export.write(Path(folder), self.result, self.code, self._comparisons())

    def close(self) -> None:
        """Give up what is being worked on, and take the dashboard away with all its parts."""
        if self.comm is not None:
            self._worker.forget()
            self._exporter.forget()
            self._wish.cancel()
            close_parts(self)
            super().close()

    # ---- parts -------------------------------------------------------------------------------

    def _connect(self) -> None:
        parts = self.parts
        parts.cancel.on_click(self.cancel)
        parts.pin.on_click(self.pin)
        parts.refresh.on_click(self.refresh)
        parts.export.on_click(self._links_wanted)
        parts.show_pin.on_click(lambda _: self._of_choice(self.show_pin))
        parts.unpin.on_click(lambda _: self._of_choice(self.unpin))
        parts.tabs.observe(self._tab_opened, "selected_index")
        parts.name_pins(())

    def _quiet_tab(self, pane: str) -> None:
        with self.parts.tabs.hold_trait_notifications():
            self.parts.tabs.unobserve(self._tab_opened, "selected_index")
            self.parts.tabs.selected_index = TABS.index(pane)
        self.parts.tabs.observe(self._tab_opened, "selected_index")

    def _of_choice(self, act: Any) -> None:
        if self.parts.pin_choice.value:
            act(self.parts.pin_choice.value)

    def _known_pin(self, name: str) -> Look:
        if name not in self._pinned:
            known = ", ".join(self._pinned) or "none"
            raise InputError(f"there is no pin {name!r}; there is {known}")
        return self._pinned[name]

    def _pins_changed(self) -> None:
        self.parts.name_pins([*self._pinned])
        self._pins_shown()
        if self.pane == PINS:
            self._submit()

    # ---- asking ------------------------------------------------------------------------------

    def _look_at(self, state: ExploreState) -> Look:
        return self._looks.of(Study(state, self._inputs, self._backend, self._call))

    def _moved(self) -> None:
        self._worker.forget()  # or a step of the older position lands between what follows
        look = self._look_at(self.controls.state)
        if look is not self._look:
            self._look = look
            for name in TABS:
                if name != self.pane:
                    self.parts.words[name].value = _UNSEEN
                    self.parts.pictures[name].value = ""
                    if name != PINS:
                        self._hang(name, None, None)
        self._submit()

    def _refused(self, reason: str) -> None:
        """Show why there is no result; whatever is being computed no longer counts."""
        self._worker.forget()
        self._wish.cancel()
        self._refusal = reason
        self._show_error(self.result)

    def _tab_opened(self, change: Any) -> None:
        if self._refusal:
            self.controls.put(self.state)  # what was typed there and refused is not what is shown
        self._submit()

    def _request(self, previous: ExploreResult | None) -> Request:
        self._wish = Cancel()
        pinned = tuple(self._pinned.values())
        started = time.perf_counter()
        return Request(
            self._look, self.pane, previous, pinned, self._wish, started, self._hung, self._output
        )

    def _submit(self) -> None:
        older = self._wish
        self._refusal = ""
        self.latency = {}
        self._exporter.forget()
        self.parts.links.value = ""  # they save what was shown before
        request = self._request(self._last_good)
        self.parts.cancel.disabled = False
        self.parts.say("working …", 0)
        self._worker.submit(request)
        older.cancel()  # a compiler at work for an older position is in the way

    def _unexpected(self, request: Request, error: BaseException) -> None:
        if isinstance(error, Cancelled):
            self._idle("cancelled")
            return
        self._refusal = explain(error)
        self._show_error(self.result)

    # ---- showing -----------------------------------------------------------------------------

    def _show(self, step: Step) -> None:
        request, found = step.request, step.result
        took = time.perf_counter() - request.started
        if found is not None and found.error:
            self._show_error(found)
            return
        if found is not None:
            self._show_result(request, found, took)
        if step.view is not None:
            self._hang(request.pane, *step.view)
            self.latency.setdefault("figure", took)
        if step.pictures is not None:
            self.parts.pictures[request.pane].value = "".join(step.pictures)
            if step.pictures:
                self.latency.setdefault("figure", took)
        if step.text != DONE:
            self.parts.say(step.text, step.done)
            return
        self._last_good = request.look.result
        self.latency["done"] = took
        if request.pane == PINS:
            self._pins_shown()
        self._idle("done")
        self._announce(request.look.result)

    def _show_result(self, request: Request, found: ExploreResult, took: float) -> None:
        self.parts.code.value = self.code
        if found.tree is None and found.info is None:
            return  # what was shown before stays until there is something new to say
        self.latency.setdefault("first", took)
        if found.outputs is not None:
            self.latency.setdefault("bits", took)
        self.parts.summary.value = _summary(found)
        if request.pane != PINS:
            text = panes.numbers(request.pane, found)
            if text:
                self.parts.words[request.pane].value = text

    def _hang(self, pane: str, key: Any, view: Any) -> None:
        self._hung[pane] = key
        if pane == "drift" and view is not None:
            view.on_select(self._output_chosen)
        self.parts.hang(pane, view)

    def _output_chosen(self, row: int, column: int) -> None:
        """The same output is looked at when the order is opened, and in other configurations."""
        self._output = row, column

    def _pins_shown(self) -> None:
        self.pins = {name: look.result for name, look in self._pinned.items()}
        self.parts.words[PINS].value = overview(self.pins, self.result)

    def _show_error(self, found: ExploreResult) -> None:
        for name in PANES:
            self._hang(name, None, None)
            self.parts.pictures[name].value = ""
            self.parts.words[name].value = panes.numbers(name, found)
        self.parts.words[PINS].value = overview(self.pins, found)
        self.parts.summary.value = _summary(found)
        self.parts.code.value = self.code
        built = found.info is not None  # it failed when it ran
        self._idle("built, without a result" if built else "not built")
        self.parts.front.announcement = f"{'No result' if built else 'Not built'}. {found.error}"

    def _announce(self, found: ExploreResult) -> None:
        told = [found.title(), found.change_text() or found.baseline_text()]
        self.parts.front.announcement = ". ".join(filter(None, told))

    def _idle(self, text: str) -> None:
        self.parts.cancel.disabled = True
        self.parts.say(text)

    # ---- exporting ---------------------------------------------------------------------------

    def _links_wanted(self, _: Any) -> None:
        self._exporter.submit((self.pane, self.result, self._comparisons()))

    def _comparisons(self) -> dict[str, PinComparison]:
        """Every pin against what is shown now."""
        return {name: self.compare(name) for name in self._pinned}

    def _make_links(
        self, asked: tuple[str, ExploreResult, dict[str, PinComparison]]
    ) -> Iterator[str]:
        yield markup.status("preparing …")
        yield export.links(*asked)

    def _show_links(self, html: str) -> None:
        self.parts.links.value = html

    def _links_failed(self, asked: Any, error: BaseException) -> None:
        self.parts.links.value = markup.error(explain(error))

    # ---- without a kernel ----------------------------------------------------------------------

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The widget, and for a page without a kernel what it shows now, as text and images."""
        data = super()._repr_mimebundle_(**kwargs)
        data["text/plain"] = repr(self)
        shown = "".join(
            self._still(name)
            for name in TABS
            if not self.result.error and self.parts.words[name].value not in ("", _UNSEEN)
        )
        shown = shown or panes.numbers("order", self.result)
        summary = self.parts.summary.value
        data["text/html"] = markup.as_it_was("The dashboard", summary, shown)
        return data

    def _still(self, pane: str) -> str:
        view = self.parts.views.get(pane)
        parts = (
            f"<h3>{panes.TITLES[pane]}</h3>",
            self.parts.words[pane].value,
            view.still() if view is not None else "",
            self.parts.pictures[pane].value,
        )
        return "".join(parts)

    def __repr__(self) -> str:
        return f"Explore: {self.result.error or self.result}"


def _path(op: Any) -> str:
    if not isinstance(op, (str, os.PathLike)):
        raise InputError(f"op={op!r}; wanted a kernel's name or the path of an .asc file")
    return os.fspath(os.path.expanduser(op))


def _summary(found: ExploreResult) -> str:
    backend = found.info.backend if found.info is not None else "twin"
    said = _TWIN if backend == "twin" else _NPU
    lines = {} if found.error else found.lines()
    title = f'<div class="workbench-title"><b>{markup.text(found.title())}</b></div>'
    return (
        f"{title}{markup.facts(lines)}"
        f'<p class="workbench-evidence workbench-twin-or-not">{said}</p>'
    )
