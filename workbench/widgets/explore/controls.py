"""The dashboard's controls: widgets for each field of an `ExploreState`, kept in step with it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import ipywidgets as ipw

from workbench.build import spec
from workbench.build.arch import load
from workbench.errors import InputError
from workbench.widgets.explore.inputs import Inputs
from workbench.widgets.explore.state import DATA, LOGP, NAMES, OPS, ExploreState, default_blocks
from workbench.widgets.judge import tile_choices
from workbench.widgets.tile import TileControl
from workbench.widgets.views.front import whole_number

LARGEST_SLIDER_BLOCKS = 256
LARGEST_LEAF = 65536
TYPED = ("rows", "vocab", "leaf_length")  # any number can be typed there
_STYLE = {"description_width": "5.6rem"}
_OWN_TILES = [1 << k for k in range(4, 15)]  # of a file whose limits nobody knows


class Controls(ipw.HBox):
    """Widgets for a state; `state` reads them, `put` moves them without telling anybody.

    Args:
        start: Where they stand first.
        inputs: The inputs they offer.
        moved: Called when the user has moved one.
        refused: Called with the reason when what was typed is no value.
    """

    def __init__(
        self,
        start: ExploreState,
        inputs: Inputs,
        moved: Callable[[], None],
        refused: Callable[[str], None],
    ) -> None:
        self._inputs, self._told, self._quiet = inputs, moved, False
        self._refused = refused
        # (Dicts: a Layout that widgets share would hide them together.)
        start = _sound(start)
        small: dict[str, Any] = {"style": _STYLE, "layout": {"width": "14.5rem"}}
        fits = "calc(100% - 4px)"  # less its margins
        wide: dict[str, Any] = {"style": _STYLE, "layout": {"width": "24rem", "max_width": fits}}
        names = {"style": _STYLE, "layout": {"width": "17rem", "max_width": fits}}
        self.op = ipw.Dropdown(options=[*OPS], description="kernel", **names)
        self.path = ipw.Text(
            description="own .asc",
            placeholder="path, then Enter",
            continuous_update=False,
            **names,
        )
        self.arch = ipw.Dropdown(options=[start.arch], description="architecture", **small)
        self.dtype = ipw.Dropdown(options=[start.dtype], description="input dtype", **small)
        self.schedule = ipw.Dropdown(options=[start.schedule], description="schedule", **small)
        # (No BoundedIntText: it would put another number in the place of one out of range.)
        self.leaf_length = ipw.IntText(description="leaf length", **small)
        self.tiles = TileControl([start.tile or 64], start.tile or 64, self._moved, refused,
                                 wide, small)  # fmt: skip
        self.max_blocks = ipw.IntSlider(
            value=start.max_blocks,
            min=1,
            max=max(LARGEST_SLIDER_BLOCKS, start.max_blocks),
            description="MAX_BLOCKS",
            continuous_update=False,
            **wide,
        )
        self.data = ipw.Dropdown(
            options=[(DATA[name], name) for name in inputs.names], description="input", **wide
        )
        self.rows = ipw.IntText(description="rows", **small)
        self.vocab = ipw.IntText(description="vocabulary", **small)
        self.reference = ipw.Dropdown(options=["exact"], description="reference", **wide)
        for name in ("op", "arch", "dtype", "schedule", "leaf_length", "max_blocks", "data",
                     "rows", "vocab", "reference"):  # fmt: skip
            getattr(self, name).observe(self._moved_by_hand, "value")
        self.path.observe(self._path_typed, "value")
        self.put(start)
        self._last = self.state
        columns = (
            [self.tiles.slider, self.max_blocks, self.data, self.reference],
            [self.tiles.text, self.leaf_length, self.schedule, self.rows, self.vocab],
            [self.op, self.path, self.arch, self.dtype],
        )
        column = ipw.Layout(max_width="100%")
        super().__init__([ipw.VBox(c, layout=column) for c in columns])
        self.add_class("workbench-controls")
        for name in (*ExploreState.__dataclass_fields__, "path"):
            widget = self.tiles.slider if name == "tile_length" else getattr(self, name)
            widget.add_class(f"workbench-control-{name.replace('_', '-')}")
        self.tiles.text.add_class("workbench-control-tile-text")

    @property
    def state(self) -> ExploreState:
        """What the controls say; a number that was refused is what it was before."""
        tile = self.tiles.value
        for name in TYPED:
            if self._why_not(name):
                with self._hushed():
                    getattr(self, name).value = getattr(self._last, name)
        plain = ExploreState(op=self.op.value)
        return ExploreState(
            op=self.op.value,
            arch=self.arch.value,
            tile_length=None if tile == plain.tile else tile,
            max_blocks=self.max_blocks.value,
            dtype=self.dtype.value,
            schedule=self.schedule.value,
            # (Of another kernel it is hidden, and would stand in no code.)
            leaf_length=self.leaf_length.value
            if "leaf_length" in plain.constants
            else plain.leaf_length,
            rows=self.rows.value,
            vocab=self.vocab.value,
            data=self.data.value,
            reference=self.reference.value,
        )

    def put(self, state: ExploreState) -> None:
        """Move all controls to a state, and their limits with them; nobody is told.

        Raises:
            InputError: A value that a control does not have.
        """
        state = _sound(state)
        limits = self._inputs.limits(state.data)
        offered = self._offered(state)
        for name, options in offered.items():
            value = getattr(state, name)
            if value not in options:
                known = ", ".join(map(str, options))
                raise InputError(f"{name}={value!r}: the dashboard offers {known}")
        for name in ("rows", "vocab"):
            value = getattr(state, name)
            if not 1 <= value <= limits[name]:
                raise InputError(f"{name}={value!r}: this input has 1 to {limits[name]:,}")
        with self._hushed():
            if state.op not in self.op.options:
                self.op.options = [*OPS, state.op]
            self.op.value = state.op
            self.data.value = state.data
            for name, options in offered.items():
                control = getattr(self, name)
                if tuple(control.options) != tuple(options):
                    control.options = options
                control.value = getattr(state, name)
            for name in TYPED:
                getattr(self, name).value = getattr(state, name)
            self.max_blocks.max = max(self.max_blocks.max, state.max_blocks)
            self.max_blocks.value = state.max_blocks
            own = state.shipped is None
            self.tiles.step = 1 if own else 64
            self.tiles.limit(self._tiles(state), state.tile)
            knobs = {
                "tile_length": (self.tiles.slider, self.tiles.text),
                "max_blocks": (self.max_blocks,),
                "schedule": (self.schedule,),
                "leaf_length": (self.leaf_length,),
            }
            for name, widgets in knobs.items():
                for control in widgets:
                    control.disabled = name not in state.constants
            for control, name in ((self.schedule, "schedule"), (self.leaf_length, "leaf_length")):
                control.layout.display = None if name in state.constants else "none"
        self._last = state

    @staticmethod
    def _offered(state: ExploreState) -> dict[str, list[str]]:
        found = state.shipped
        known = found or spec("lm_head")
        schedules = ["output"]
        if found is not None and "SCHEDULE" in found.raw["constants"]:
            schedules = [*found.raw["constants"]["SCHEDULE"]["names"]]
        return {
            "arch": [*known.raw["archs"]],
            "dtype": [*known.dtypes],
            "schedule": schedules,
            "reference": list(state.references),
        }

    @staticmethod
    def _tiles(state: ExploreState) -> list[int]:
        if state.shipped is None:
            return _OWN_TILES
        load(state.arch)
        return tile_choices(
            state.arch, state.dtype, state.op, state.replace(tile_length=None).config
        )

    def _path_typed(self, change: Any) -> None:
        if self._quiet:
            return
        path = os.path.expanduser(change["new"].strip())
        if path and not os.path.isfile(path):
            self._refused(f"There is no file “{path}”. Give the path of an .asc file of your own.")
            return
        op = path or (self._last.op if self._last.op in OPS else OPS[0])  # emptied: one of ours
        self.put(self._fitted(self.state.replace(op=op), self._last))
        self._told()

    def _moved_by_hand(self, change: Any) -> None:
        if self._quiet:
            return
        for name in TYPED:
            if change["owner"] is getattr(self, name) and (reason := self._why_not(name)):
                self._refused(reason)
                return
        self.put(self._fitted(self.state, self._last))
        self._told()

    def _why_not(self, name: str) -> str:
        """Why the number typed for `name` is refused, or ""."""
        number = getattr(self, name).value
        if name == "leaf_length":
            most, has = LARGEST_LEAF, "a leaf has"
        else:
            most, has = self._inputs.limits(self._last.data)[name], "this input has"
        return "" if 1 <= number <= most else f"{NAMES[name]} {number:,}: {has} 1 to {most:,}"

    @contextlib.contextmanager
    def _hushed(self) -> Iterator[None]:
        """Controls move here without telling anybody."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def _moved(self) -> None:
        self._last = self.state
        self._told()

    def _fitted(self, state: ExploreState, before: ExploreState) -> ExploreState:
        """The state with what its kernel and its input cannot do replaced by what is nearest."""
        changes: dict[str, Any] = {}
        if state.op != before.op:
            changes["tile_length"] = None
            if state.shipped is None:
                changes["max_blocks"] = default_blocks(state.op)
            if state.reference not in state.references:
                changes["reference"] = state.references[1 if before.reference != "exact" else 0]
            changes["schedule"] = "output"
        limits = self._inputs.limits(state.data)
        for name, most in limits.items():
            changes[name] = min(getattr(state, name), most)
        fitted = state.replace(**changes)
        if state.shipped is not None and state.op == before.op:
            largest = self._tiles(fitted)[-1]
            shrunk = (state.arch, state.dtype, state.schedule) != (
                before.arch, before.dtype, before.schedule)  # fmt: skip
            if shrunk and fitted.tile > largest:
                fitted = fitted.replace(tile_length=largest)
        return fitted


def _sound(state: ExploreState) -> ExploreState:
    """The state with plain whole numbers: a widget would take another one in silence.

    Raises:
        InputError: A number that no control can show. (The builder refuses a tile too large.)
    """
    least = {"tile_length": None, "max_blocks": 1, "leaf_length": 1, "rows": 1, "vocab": 1}
    numbers: dict[str, Any] = {}
    for name, low in least.items():
        value = getattr(state, name)
        if name == "tile_length" and value is None:
            continue
        numbers[name] = found = whole_number(value, name)
        most = LARGEST_LEAF if name == "leaf_length" else None
        if (low is not None and found < low) or (most is not None and found > most):
            to = f" to {most:,}" if most else " or more"
            raise InputError(f"{name}={value!r}: wanted {low}{to}")
    return state.replace(**numbers)


def default_reference(op: str) -> str:
    """What an operator is measured against where nobody says."""
    return "torch.log_softmax" if op == LOGP else "torch.mv"
