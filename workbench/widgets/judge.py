"""What the panel shows, computed without a widget: a state goes in, results come in stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from workbench._result import Result
from workbench.build import KernelConfig, build, spec
from workbench.errors import ConfigError, WorkbenchError
from workbench.numerics import (
    BitComparison,
    DriftResult,
    InvarianceResult,
    compare_bits,
    drift,
    invariance,
)
from workbench.ops.inputs import DTYPES
from workbench.orders import ReductionTree, declared_order
from workbench.widgets import words
from workbench.widgets.words import explain

OP = "lm_head"
BASELINE_TILE = 4096
BATCHES = (1, 2, 7, 16, 33, 64)  # of the quick invariance check
COLUMNS = 32  # vocabulary entries it looks at, at most


@dataclass(frozen=True)
class PanelState:
    """What the controls say. Nothing is checked here: a wrong tile is for `Judge` to refuse."""

    tile_length: int = BASELINE_TILE
    max_blocks: int = 128
    arch: str = "dav-2201"
    dtype: str = "fp32"

    @property
    def config(self) -> KernelConfig:
        return KernelConfig(
            tile_length=self.tile_length, max_blocks=self.max_blocks, arch=self.arch
        )

    def changes_from(self, other: PanelState) -> str:
        """ "tile 4096 → 1024, MAX_BLOCKS 128 → 40", or "" where nothing changed."""
        names = {item.name: item.name for item in dataclasses.fields(self)}
        names |= {"tile_length": "tile", "max_blocks": "MAX_BLOCKS"}
        return words.changes_text(other, self, names)


@dataclass(frozen=True)
class PanelResult(Result):
    """What is known of a state so far; fields fill up stage by stage.

    Attributes:
        state: The configuration and dtype.
        seconds, cached: Of the build.
        backend: "twin" or "npu".
        tree: The declared order.
        drift: Of the fp32 logits, against "exact" and "torch.mv".
        baseline: Bits of the logits compared with the baseline tile's.
        change: Bits compared with those of the state shown before; None where there is none, or
            where dtype or data differ.
        changed: That change in words.
        invariance: The verdict on raw bits, over fewer batches and columns than a notebook takes.
        error: Why there is no (further) result, in words; "" if all went well.
        complete: True when no stage is left.
    """

    state: PanelState
    seconds: float | None = None
    cached: bool | None = None
    backend: str | None = None
    tree: ReductionTree | None = field(default=None, metadata={"json": False})
    drift: DriftResult | None = None
    baseline: BitComparison | None = None
    change: BitComparison | None = None
    changed: str = ""
    invariance: InvarianceResult | None = None
    error: str = ""
    complete: bool = False
    logits: torch.Tensor | None = field(
        default=None, repr=False, compare=False, metadata={"json": False}
    )

    def rows(self) -> list[dict]:
        found = {"build": self.build_text(), "order": self.order_text(), "drift": self.drift_text()}
        found |= {"bits": self.baseline_text(), "change": self.change_text()}
        found |= {"invariance": self.invariance_text(), "error": self.error}
        return [{"what": k, "value": v} for k, v in found.items() if v]

    def title(self) -> str:
        s = self.state
        return f"tile {s.tile_length}, MAX_BLOCKS {s.max_blocks}, {s.arch}, {s.dtype}"

    # Each text is "" until its stage has been reached.

    def build_text(self) -> str:
        if self.seconds is None:
            return ""
        return words.build_text(self.seconds, bool(self.cached), self.backend or "")

    def order_text(self) -> str:
        return words.order_text(self.tree) if self.tree is not None else ""

    def drift_text(self) -> str:
        return words.drift_text(self.drift, "torch.mv") if self.drift is not None else ""

    def baseline_text(self) -> str:
        if self.baseline is None:
            return ""
        against = f"tile {BASELINE_TILE}, MAX_BLOCKS 128"
        same, differ = "every bit equal to", "outputs differ from"
        return f"{words.bits_text(self.baseline, same, differ)} {against}"

    def change_text(self) -> str:
        if self.change is None:
            return ""
        same = "bits unchanged"
        return f"{self.changed}: {words.bits_text(self.change, same, 'outputs changed their bits')}"

    def invariance_text(self) -> str:
        return words.invariance_text(self.invariance) if self.invariance is not None else ""


class Judge:
    """Builds and judges one state after another on the same inputs.

    Args:
        hidden: [..., H], any float dtype; converted to each state's.
        weight: [V, H].
        backend: "twin" or "npu"; "auto": npu for tensors on an NPU, else the twin.
    """

    def __init__(self, hidden: torch.Tensor, weight: torch.Tensor, backend: str = "auto") -> None:
        if backend == "auto":
            backend = "npu" if hidden.device.type == "npu" else "twin"
        self.hidden, self.weight, self.backend = hidden.detach(), weight.detach(), backend
        self._baselines: dict[tuple[str, str], torch.Tensor] = {}

    def judge(self, state: PanelState, previous: PanelResult | None = None) -> PanelResult:
        """The complete result for `state`; errors raised on purpose are in its `error`."""
        return list(self.stages(state, previous))[-1]

    def stages(
        self, state: PanelState, previous: PanelResult | None = None
    ) -> Iterator[PanelResult]:
        """Results that hold more and more, from nothing to a complete one or an `error`.

        Args:
            previous: What was shown before, to say what this change did to the bits.
        """
        found = PanelResult(state)
        yield found
        try:
            for stage in self._stages(found, previous):
                found = stage
                yield stage
        except WorkbenchError as error:
            yield dataclasses.replace(found, error=explain(error), complete=True)

    def _stages(self, found: PanelResult, previous: PanelResult | None) -> Iterator[PanelResult]:
        state = found.state
        if state.dtype not in DTYPES:
            raise ConfigError(f"dtype {state.dtype!r} is unknown; known: {', '.join(DTYPES)}")
        # For this dtype: the budget of the smallest one would let too large a tile through.
        spec(OP).check(spec(OP).complete(state.config), state.dtype)
        kernel = build(OP, state.config, self.backend, dtypes=[state.dtype])
        hidden, weight = self.inputs(state.dtype)
        found = dataclasses.replace(
            found,
            seconds=kernel.info.seconds,
            cached=kernel.info.cached,
            backend=kernel.info.backend,
            tree=declared_order(OP, kernel.config, hidden.shape[-1]),
        )
        yield found
        # fp32 out of 16-bit inputs: rounding to 16 bits would hide the order.
        logits = kernel(hidden, weight, out_dtype=torch.float32)
        baseline = self.baseline(state)
        change, changed = None, ""
        if previous is not None and previous.logits is not None:
            changed = state.changes_from(previous.state)
            if changed and previous.state.dtype == state.dtype:
                change = compare_bits(previous.logits, logits)
        found = dataclasses.replace(
            found,
            logits=logits,
            baseline=compare_bits(baseline, logits),
            change=change,
            changed=changed,
        )
        yield found
        found = dataclasses.replace(
            found, drift=drift(kernel, hidden, weight, out_dtype=torch.float32)
        )
        yield found
        verdict = invariance(
            kernel,
            hidden,
            weight[:COLUMNS],
            sizes=BATCHES,
            position_sizes=(17,),
            max_blocks=(),  # block counts have their own slider
            out_dtype=torch.float32,
        )
        yield dataclasses.replace(found, invariance=verdict, complete=True)

    def inputs(self, dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
        """hidden and weight in `dtype`."""
        return self.hidden.to(DTYPES[dtype]), self.weight.to(DTYPES[dtype])

    def baseline(self, state: PanelState) -> torch.Tensor:
        """Logits of the baseline tile for the state's architecture and dtype, kept."""
        key = state.arch, state.dtype
        if key not in self._baselines:
            config = PanelState(arch=state.arch).config
            kernel = build(OP, config, self.backend, dtypes=[state.dtype])
            self._baselines[key] = kernel(*self.inputs(state.dtype), out_dtype=torch.float32)
        return self._baselines[key]


def tile_choices(
    arch: str, dtype: str, op: str = OP, config: KernelConfig | None = None
) -> list[int]:
    """Tiles worth a stop on a slider: 64, 128, 192, 256, 384, … and the largest that fits.

    Args:
        arch, dtype: What has to fit into whose UB.
        op: A shipped kernel.
        config: Its other constants; None: their defaults.
    """
    largest = spec(op).largest_tile(arch, dtype, config)
    steps = {64 * k << i for i in range(16) for k in (1, 3) if 64 * k << i < largest}
    return sorted({*steps, largest})
