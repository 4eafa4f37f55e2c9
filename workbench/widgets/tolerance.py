"""The tolerance panel: sliders for a pair (atol, rtol), and at once what the pair flags.

Counting and drawing are `Tolerance`'s and the plots'; the panel asks and shows. Two threads work
for it: one counts, so that numbers follow a slider that is moved, and one draws when it rests.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import ipywidgets as ipw
import torch

from workbench import samples
from workbench.build import KernelConfig, build, spec
from workbench.errors import InputError, WorkbenchError
from workbench.numerics.tolerance import Tolerance, ToleranceGrid, tolerance
from workbench.numerics.tolerance.scale import STEPS_A_DECADE, Flagged
from workbench.numerics.tolerance.subject import REFERENCES
from workbench.plots.tolerance import three_digits, tolerance_plane, tolerance_ratios
from workbench.widgets import markup
from workbench.widgets.judge import BASELINE_TILE, OP, tile_choices
from workbench.widgets.latest import Latest
from workbench.widgets.words import explain

DECADES = (-8, 0)  # of both sliders
STEP = 0.02  # of both sliders, in decades
REST = 0.12  # seconds without a move, after which the figures are drawn
KEPT = 3  # configurations whose errors and bounds are kept
_BOUNDS = {
    "running": "running (holds always, in this order)",
    "worst_case": "worst case (by the tree's height)",
    "probabilistic": "probabilistic (independent roundings)",
}
_STEPS = range(DECADES[0] * STEPS_A_DECADE, DECADES[1] * STEPS_A_DECADE + 1)
_AXIS = [10.0 ** (k / STEPS_A_DECADE) for k in _STEPS]  # the scale of the sliders
_TENSORS = ("hidden", "weight")  # of a sample
_WIDE = ipw.Layout(width="30rem", max_width="calc(100% - 4px)")  # less its margins
_STYLE = {"description_width": "7rem"}


class ToleranceState(NamedTuple):
    """What the controls say."""

    atol: float
    rtol: float
    kind: str
    tile_length: int
    arch: str
    dtype: str
    reference: str

    @property
    def subject(self) -> tuple[int, str, str, str]:
        """What errors and bounds depend on: all but the pair and the kind."""
        return self.tile_length, self.arch, self.dtype, self.reference


class Shown(NamedTuple):
    """What a state gave: a tolerance and the pair on its scale, or why there is none."""

    state: ToleranceState
    tolerance: Tolerance | None = None
    flagged: Flagged | None = None
    error: str = ""


def tolerance_panel(
    sample: Any = None,
    *,
    rows: int = 40,
    vocab: int | None = None,
    tile_length: int = BASELINE_TILE,
    arch: str = "dav-2201",
    dtype: str = "fp32",
    reference: str = "exact",
    backend: str = "auto",
) -> TolerancePanel:
    """Sliders for atol and rtol on real outputs: what a pair flags, and how loose it is.

    A move of a slider recounts every output. Another dtype, tile, architecture or reference
    rebuilds the LM head and derives its bounds again, which takes seconds at 160 rows.

    Args:
        sample: Anything with `hidden` [..., H] and `weight` [V, H]; None: `samples.smollm2()`.
        rows: Hidden states of it, from the first; all if there are fewer.
        vocab: Rows of the weight; None: all.
        tile_length, arch, dtype, reference: Where to start. The pair starts at the contract's cell.
        backend: "twin", "npu" or "auto": npu for tensors on an NPU, else the twin.

    Returns:
        A widget. Without a front end it works too: `.set(atol=…).wait()`, then `.flagged`.

    Raises:
        InputError: Fewer than one row or column, no such sample, dtype, architecture or reference.

    Example:
        >>> shown = tolerance_panel(rows=1, vocab=16)
        >>> shown.flagged.count, shown.set(atol=1e-8, rtol=1e-8).wait().flagged.below
        (0, 16)
    """
    found = samples.smollm2() if sample is None else sample
    if not all(isinstance(getattr(found, name, None), torch.Tensor) for name in _TENSORS):
        raise InputError(
            f"sample={sample!r:.60} has no tensors hidden [..., H] and weight [V, H]; give "
            "wb.samples.smollm2() or anything else that has"
        )
    for name, value, known in (
        ("dtype", dtype, spec(OP).dtypes),
        ("arch", arch, spec(OP).raw["archs"]),
        ("reference", reference, REFERENCES),
    ):
        if value not in known:
            raise InputError(f"{name}={value!r}: the panel offers {', '.join(known)}")
    if rows < 1 or (vocab is not None and vocab < 1):
        raise InputError(f"rows={rows}, vocab={vocab}: give at least one of each")
    hidden = found.hidden.detach().reshape(-1, found.hidden.shape[-1])[:rows]
    weight = found.weight.detach()[:vocab]
    start = ToleranceState(0.0, 0.0, "running", tile_length, arch, dtype, reference)
    return TolerancePanel(hidden, weight, start, backend)


class TolerancePanel(ipw.VBox):
    """Made by `tolerance_panel`. `set` moves its controls, `wait` waits for it.

    Attributes:
        tolerance: The `Tolerance` that is shown, or None.
        flagged: What the sliders' pair does.
        error: Why there is nothing to show; "" if there is.
    """

    def __init__(
        self, hidden: torch.Tensor, weight: torch.Tensor, start: ToleranceState, backend: str
    ) -> None:
        if backend == "auto":
            backend = "npu" if hidden.device.type == "npu" else "twin"
        self._hidden, self._weight, self._backend = hidden, weight, backend
        self._known: dict[tuple, Tolerance] = {}
        self._plane: tuple[Tolerance, ToleranceGrid] | None = None
        self._ratios = ""  # the last histograms, shown faintly while the next are drawn
        self._asked: dict[str, float] = {}  # what the program set the sliders to
        self._quiet = False  # True while a control is moved by the program
        self.tolerance: Tolerance | None = None
        self.flagged: Flagged | None = None
        self.error = ""
        self._counter = Latest(self._count, self._show, self._unexpected)
        self._artist = Latest(self._draw, self._hang, self._undrawn)
        self._make_controls(start)
        self.status, self.numbers, self.picture = ipw.HTML(), ipw.HTML(), ipw.HTML()
        super().__init__([self._controls, self.status, self.numbers, self.picture])
        self.add_class("workbench-tolerance")
        # The first result is there when the cell ends: no thread is left behind headless.
        self._start(start)

    def set(self, **values: Any) -> TolerancePanel:
        """Move controls: atol, rtol, kind, tile_length, arch, dtype, reference. Does not wait.

        Raises:
            InputError: No such control, or a number that its slider does not reach.
        """
        names = {
            "atol": self.atol,
            "rtol": self.rtol,
            "kind": self.kind,
            "tile_length": self.tile,
            "arch": self.arch,
            "dtype": self.dtype,
            "reference": self.reference,
        }
        low, high = (10.0**decade for decade in DECADES)
        for name, value in values.items():
            if name not in names:
                raise InputError(f"the panel has no control {name!r}; it has {', '.join(names)}")
            if name in ("atol", "rtol") and not low <= value <= high:
                raise InputError(f"{name}={value!r}: the slider goes from {low:g} to {high:g}")
            control = names[name]
            if hasattr(control, "options") and value not in _choices(control):
                known = ", ".join(map(str, _choices(control)))
                raise InputError(f"{name}={value!r}: the panel offers {known}")
            if name in ("atol", "rtol"):
                self._asked[name] = value
            control.value = value
        return self

    def wait(self, timeout: float = 60) -> TolerancePanel:
        """Wait until the controls' last position has been counted and drawn.

        Raises:
            TimeoutError: It took longer than `timeout` seconds.
        """
        # (Counting asks for a picture, so it comes first.)
        if not (self._counter.wait(timeout) and self._artist.wait(timeout)):
            raise TimeoutError(f"the panel was still at work after {timeout:g} s")
        return self

    def to_contract(self, _: Any = None) -> None:
        """Move the sliders to the contract's cell."""
        if self.tolerance is not None:
            self._set_pair(*self._own_cell())
            self._moved(None)

    def to_derived(self, _: Any = None) -> None:
        """Move the atol slider to the smallest that, with this rtol, flags no correct kernel."""
        if self.tolerance is not None:
            rtol = self._exactly("rtol")
            self._set_pair(self.tolerance.smallest_atol(rtol, self.kind.value), rtol)
            self._moved(None)

    # ---- controls ----------------------------------------------------------------------------

    def _make_controls(self, start: ToleranceState) -> None:
        low, high = DECADES
        live: dict[str, Any] = {
            "base": 10.0,
            "min": low,
            "max": high,
            "step": STEP,
            "readout_format": ".2e",
            "style": _STYLE,
            "layout": _WIDE,
        }
        self.atol = ipw.FloatLogSlider(value=1.0, description="atol", **live)
        self.rtol = ipw.FloatLogSlider(value=1.0, description="rtol", **live)
        self.kind = ipw.Dropdown(
            options=[(text, kind) for kind, text in _BOUNDS.items()],
            value=start.kind,
            description="bound",
            style=_STYLE,
            layout=_WIDE,
        )
        tiles = sorted({*tile_choices(start.arch, start.dtype), start.tile_length})
        self.tile = ipw.SelectionSlider(
            options=tiles,
            value=start.tile_length,
            description="tile length",
            continuous_update=False,
            style=_STYLE,
            layout=_WIDE,
        )
        small: dict[str, Any] = {"style": _STYLE, "layout": ipw.Layout(width="16rem")}
        self.arch = ipw.Dropdown(
            options=spec(OP).raw["archs"], value=start.arch, description="architecture", **small
        )
        self.dtype = ipw.Dropdown(
            options=spec(OP).dtypes, value=start.dtype, description="input dtype", **small
        )
        self.reference = ipw.Dropdown(
            options=REFERENCES, value=start.reference, description="reference", **small
        )
        self.contract = ipw.Button(
            description="contract's cell",
            tooltip="Move atol and rtol to the contract's cell of this dtype",
            layout=ipw.Layout(width="9rem"),
        )
        self.derived = ipw.Button(
            description="derived atol",
            tooltip="Keep rtol; move atol to the smallest that the chosen bound never exceeds",
            layout=ipw.Layout(width="9rem"),
        )
        self.contract.on_click(self.to_contract)
        self.derived.on_click(self.to_derived)
        for control in (self.atol, self.rtol, self.kind, self.tile, self.reference):
            control.observe(self._moved, "value")
        for control in (self.arch, self.dtype):
            control.observe(self._limits_moved, "value")
        goto = ipw.Label("move to", layout=ipw.Layout(width="7rem", justify_content="flex-end"))
        buttons = ipw.HBox([goto, self.contract, self.derived])
        column = ipw.Layout(max_width="100%")
        left = ipw.VBox([self.atol, self.rtol, buttons, self.kind], layout=column)
        right = ipw.VBox([self.dtype, self.arch, self.reference, self.tile], layout=column)
        self._controls = ipw.HBox([left, right], layout=ipw.Layout(flex_flow="row wrap"))

    def _state(self) -> ToleranceState:
        return ToleranceState(
            self._exactly("atol"),
            self._exactly("rtol"),
            self.kind.value,
            self.tile.value,
            self.arch.value,
            self.dtype.value,
            self.reference.value,
        )

    def _exactly(self, name: str) -> float:
        """A slider's value, or what the program set it to.

        A front end knows the slider's steps only: it moves what was set to the nearest and sends
        that back. The contract's cell and a derived atol are to be counted as they are.
        """
        value = getattr(self, name).value
        if not _on_a_step(value):
            self._asked[name] = value
        elif name in self._asked and _nearest(self._asked[name]) != _nearest(value):
            del self._asked[name]  # moved by hand
        return self._asked.get(name, value)

    def _moved(self, change: Any) -> None:
        if not self._quiet:
            self._counter.submit(self._state())

    def _limits_moved(self, change: Any) -> None:
        """Architecture or dtype: another UB, other tiles on the slider."""
        tiles = tile_choices(self.arch.value, self.dtype.value)
        tile = min(self.tile.value, tiles[-1])
        with _Quietly(self):
            self.tile.options = sorted({*tiles, tile})
            self.tile.value = tile
        self._moved(change)

    def _own_cell(self) -> tuple[float, float]:
        assert self.tolerance is not None
        own = next(iter(self.tolerance.cells.values()))
        return own.atol, own.rtol

    def _set_pair(self, atol: float, rtol: float) -> None:
        low, high = (10.0**decade for decade in DECADES)
        with _Quietly(self):
            for name, value in (("atol", atol), ("rtol", rtol)):
                self._asked[name] = getattr(self, name).value = min(max(value, low), high)

    # ---- counting ----------------------------------------------------------------------------

    def _start(self, start: ToleranceState) -> None:
        """Count and draw on this thread, with the sliders at the contract's cell."""
        try:
            for shown in self._count(start):
                self._show(shown, draw=False)
            if self.tolerance is None:
                return
            self._set_pair(*self._own_cell())
            for shown in self._count(self._state()):
                self._show(shown, draw=False)
            for picture in self._draw(self._shown):
                self._hang(picture)
        except Exception as error:
            self._unexpected(start, error)

    def _count(self, state: ToleranceState) -> Iterator[Shown]:
        try:
            found = self._known.get(state.subject)
            if found is None:
                yield Shown(state)
                found = self._measured(state)
            yield Shown(state, found, found.at(state.atol, state.rtol, state.kind))
        except WorkbenchError as error:
            yield Shown(state, error=explain(error))

    def _measured(self, state: ToleranceState) -> Tolerance:
        spec(OP).check(spec(OP).complete(self._config(state)), state.dtype)
        kernel = build(OP, self._config(state), self._backend, dtypes=[state.dtype])
        found = tolerance(
            kernel, self._hidden, self._weight, dtype=state.dtype, reference=state.reference
        )
        while len(self._known) >= KEPT:
            del self._known[next(iter(self._known))]
        self._known[state.subject] = found
        return found

    @staticmethod
    def _config(state: ToleranceState) -> KernelConfig:
        return KernelConfig(tile_length=state.tile_length, arch=state.arch)

    def _unexpected(self, state: ToleranceState, error: BaseException) -> None:
        self._show(Shown(state, error=explain(error)))

    # ---- showing -----------------------------------------------------------------------------

    def _show(self, shown: Shown, draw: bool = True) -> None:
        self._shown = shown
        state, self.error = shown.state, shown.error
        if shown.error:
            self.tolerance = self.flagged = None
            self.status.value = markup.status("nothing to show")
            self.numbers.value, self.picture.value = markup.error(shown.error), ""
            return
        if shown.tolerance is None or shown.flagged is None:
            self.status.value = markup.status(
                f"building tile {state.tile_length} for {state.arch} in {state.dtype} and "
                "deriving its bounds …"
                + (" Below is what was shown before." if self.tolerance else "")
            )
            return  # what was shown before stays until there is something new to say
        self.tolerance, self.flagged = shown.tolerance, shown.flagged
        self.status.value = markup.status("counted, drawing …")
        self.numbers.value = _numbers(shown)
        if draw:
            self._artist.submit(shown)

    def _draw(self, shown: Shown) -> Iterator[tuple[Shown, str, bool]]:
        found, state = shown.tolerance, shown.state
        if found is None or shown.flagged is None:
            return
        if threading.current_thread() is not threading.main_thread():
            time.sleep(REST)  # drawing would slow the counting down while a slider is moved
        if self._shown is not shown:
            return
        if self._plane is None or self._plane[0] is not found:
            self._plane = found, found.grid(_AXIS, _AXIS)
        plane = tolerance_plane(self._plane[1], (state.atol, state.rtol))
        first = markup.image(plane, f"Plane of atol and rtol: {shown.flagged.title()}.")
        old = f'<div aria-hidden="true" style="opacity: .35">{self._ratios}</div>'
        yield shown, first + (old if self._ratios else ""), False
        if self._shown is not shown:
            return
        ratios = tolerance_ratios(found.histogram(state.atol, state.rtol, state.kind))
        self._ratios = markup.image(ratios, f"Histograms: {_looseness(shown.flagged)}.")
        yield shown, first + self._ratios, True

    def _hang(self, drawn: tuple[Shown, str, bool]) -> None:
        shown, picture, complete = drawn
        if self._shown is shown:  # else it is of a position that was left
            self.picture.value = picture
            if complete:
                self.status.value = markup.status("done")

    def _undrawn(self, shown: Shown, error: BaseException) -> None:
        self.status.value = markup.status("counted")
        self.picture.value = markup.error(explain(error))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """The widget, and for a page without a kernel what it shows now, as text and images."""
        data = super()._repr_mimebundle_(**kwargs)
        data["text/plain"] = repr(self)
        data["text/html"] = markup.as_it_was("The panel", self.numbers.value, self.picture.value)
        return data

    def __repr__(self) -> str:
        return f"TolerancePanel: {self.error or self.flagged}"


class _Quietly:
    """While it lasts, controls are moved by the program and ask for nothing."""

    def __init__(self, panel: TolerancePanel) -> None:
        self._panel = panel

    def __enter__(self) -> None:
        self._panel._quiet = True

    def __exit__(self, *_: Any) -> None:
        self._panel._quiet = False


def _choices(control: Any) -> list[Any]:
    return [o[1] if isinstance(o, tuple) else o for o in control.options]


def _nearest(value: float) -> int:
    """The step of a slider that is nearest to `value`, from its left end."""
    return round((math.log10(value) - DECADES[0]) / STEP)


def _on_a_step(value: float) -> bool:
    """To six digits of a step: the browser's powers of ten may differ from Python's in a bit."""
    steps = (math.log10(value) - DECADES[0]) / STEP if value > 0 else math.inf
    return math.isfinite(steps) and round(steps, 6) == round(steps)


def _looseness(f: Flagged) -> str:
    bound = f.kind.replace("_", "-")
    return (
        f"the pair allows {three_digits(f.looseness_min)} to {three_digits(f.looseness_max)} times "
        f"the {bound} bound, median {three_digits(f.looseness_median)}"
    )


def _numbers(shown: Shown) -> str:
    found, f, state = shown.tolerance, shown.flagged, shown.state
    assert found is not None and f is not None
    bound = f.kind.replace("_", "-")
    mark = "=" if not f.count else "≠"
    below = "no correct kernel is flagged (on these inputs, in this order of addition)"
    if f.kind == "probabilistic":
        below = (
            "if roundings are independent, no correct kernel is flagged, except with a probability "
            f"of at most {found.delta:g} for all outputs together"
        )
    if f.below:
        below = f"less than it at {f.below:,} outputs: a correct kernel may be flagged"
    least = {kind: found.smallest_atol(state.rtol, kind) for kind in found.bounds}
    derived = ", ".join(f"{kind.replace('_', '-')} {atol:.2e}" for kind, atol in least.items())
    own = next(iter(found.cells.values()))
    beyond = found.bounds[f.kind].beyond
    place = f"row {f.worst['row']}, vocabulary id {f.worst['column']}"
    lines = {
        "worst error": f"{three_digits(f.worst_ratio)} times what the pair allows there ({place})",
        "against the bound": f"{_looseness(f)}; {below}",
        "far above it": f"more than ten times the bound is allowed at {f.far:,}"
        + (": there a fault may hide" if f.far else ""),
        "false alarms": f"{f.false_alarms:,} of the flagged outputs are within their bound",
        "missed": f"{f.missed:,} of the outputs that pass are beyond their bound",
        "smallest atol": f"that flags no correct kernel with this rtol, by bound: {derived}",
        "contract's cell": f"of this dtype: atol {own.atol:.3g}, rtol {own.rtol:.3g}, which flags "
        f"{own.count:,}",
        "this kernel": f"{beyond:,} of its outputs are beyond the {bound} bound",
        "order of addition": found.order,
        "reference": found.reference,
        "warnings": "; ".join(found.warnings),
    }
    if any(not _on_a_step(value) for value in (state.atol, state.rtol)):
        lines["sliders"] = "stand at the step next to this pair"
    table = markup.facts(lines)
    heading = (
        '<div class="workbench-this-pair" style="font-size: 1.25em; padding: .2rem 0">'
        f"atol {state.atol:.3g}, rtol {state.rtol:.3g}: <b>{mark} {f.count:,} of {f.outputs:,} "
        f"outputs flagged</b> ({_percent(f)})</div>"
    )
    return f'<div style="line-height: 1.45">{heading}{table}{markup.evidence(found)}</div>'


def _percent(f: Flagged) -> str:
    text = f"{100 * f.share:.3g} %"
    return "nearly 100 %" if text == "100 %" and f.count < f.outputs else text
