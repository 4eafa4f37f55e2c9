"""What the dashboard's controls say: a value that can be compared, kept and written as code."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields, replace
from typing import Any

from workbench.build import KernelConfig, spec
from workbench.build.config import Spec, specs
from workbench.errors import ConfigError, InputError
from workbench.ops.inputs import DTYPES
from workbench.widgets.words import changes_text

OPS = ("lm_head", "batch_invariant_logp", "det_gemm")
LOGP = "batch_invariant_logp"
REAL, SYNTHETIC, OWN = "smollm2", "qwen3", "own"
DATA = {
    REAL: "SmolLM2-135M, real (H 576)",
    SYNTHETIC: "Qwen3-8B shape, synthetic (H 4096)",
    OWN: "your tensors",
}
REFERENCES = ("exact", "torch.mv", "F.linear")
LOGP_REFERENCES = ("exact", "torch.log_softmax")
NAMES = {
    "op": "kernel",
    "arch": "architecture",
    "tile_length": "tile",
    "max_blocks": "MAX_BLOCKS",
    "dtype": "dtype",
    "schedule": "schedule",
    "leaf_length": "leaf length",
    "rows": "rows",
    "vocab": "vocabulary",
    "data": "input",
    "reference": "reference",
}
# What lets a build set a constant: `#ifndef NAME`, and the default beside it.
_KNOB = r"^[ \t]*#[ \t]*ifndef[ \t]+{0}\b(?:[^\n]*\n[ \t]*#[ \t]*define[ \t]+{0}[ \t]+(\d+))?"
_INPUTS = ("op", "dtype", "rows", "vocab", "data")  # another one: other numbers, whatever the order


def own_defaults(path: str) -> dict[str, int]:
    """TILE_LENGTH and MAX_BLOCKS with their defaults, as far as a build can set them in a file.

    A file that has `constexpr int TILE_LENGTH = 256` would not compile with such a macro.
    """
    try:
        with open(os.path.expanduser(path), encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return {}
    found = {}
    for name in ("TILE_LENGTH", "MAX_BLOCKS"):
        knob = re.search(_KNOB.format(name), text, re.MULTILINE)
        if knob:
            found[name] = int(knob[1] or 0)
    return found


def default_blocks(op: str) -> int:
    """MAX_BLOCKS where nobody says: an own file's, if a build can set it there."""
    found = 0 if op in specs() else own_defaults(op).get("MAX_BLOCKS", 0)
    return found or ExploreState.max_blocks


@dataclass(frozen=True)
class ExploreState:
    """One position of all controls. Nothing is checked here: a wrong tile is for `Study` to refuse.

    Attributes:
        op: A shipped kernel of OPS, or the path of an own `.asc`.
        arch: Architecture, e.g. "dav-2201".
        tile_length: Elements of a row per tile; None: the kernel's default.
        max_blocks: The most blocks of a launch.
        dtype: Of the inputs: "fp32", "bf16" or "fp16".
        schedule: Of lm_head: "output" or "weight_stationary".
        leaf_length: Of det_gemm: products added one by one.
        rows: Rows of hidden N.
        vocab: Rows of weight V (columns of b of det_gemm).
        data: "smollm2", "qwen3" or "own".
        reference: "exact", or what else errors are measured against: "torch.mv" and "F.linear"
            (sums of products), "torch.log_softmax" (log-probs).

    Example:
        >>> state = ExploreState(tile_length=64)
        >>> state.config.tile_length, state.replace(op="det_gemm").config.leaf_length
        (64, 128)
    """

    op: str = "lm_head"
    arch: str = "dav-2201"
    tile_length: int | None = None
    max_blocks: int = 128
    dtype: str = "fp32"
    schedule: str = "output"
    leaf_length: int = 128
    rows: int = 32
    vocab: int = 257
    data: str = REAL
    reference: str = "torch.mv"

    @property
    def shipped(self) -> Spec | None:
        """The kernel's spec; None for an own file."""
        return specs().get(self.op)

    @property
    def constants(self) -> tuple[str, ...]:
        """The fields that are build-time constants of this kernel."""
        if self.shipped is None:
            return tuple(name.lower() for name in own_defaults(self.op))
        known = ("tile_length", "max_blocks", "schedule", "leaf_length")
        return tuple(name for name in known if name.upper() in self.shipped.raw["constants"])

    @property
    def tile(self) -> int:
        """The tile length, with the kernel's default where none is given."""
        if self.tile_length is not None:
            return self.tile_length
        found = self.shipped
        if found is None:
            return own_defaults(self.op).get("TILE_LENGTH", 0)
        return found.raw["constants"]["TILE_LENGTH"]["default"]

    @property
    def config(self) -> KernelConfig:
        """What is built. Of an own file only what was given becomes a macro.

        Raises:
            ConfigError: An unknown architecture, or the name of no schedule.
        """
        given = {name: getattr(self, name) for name in self.constants}
        given = {name: value for name, value in given.items() if value is not None}
        config = KernelConfig(arch=self.arch, **given)
        return self.shipped.complete(config) if self.shipped else config

    @property
    def references(self) -> tuple[str, ...]:
        """What this kernel can be measured against."""
        return LOGP_REFERENCES if self.op == LOGP else REFERENCES

    def baseline(self) -> ExploreState:
        """The kernel's default configuration on the same inputs."""
        fresh = ExploreState()
        return self.replace(
            tile_length=None,
            max_blocks=fresh.max_blocks,
            schedule=fresh.schedule,
            leaf_length=fresh.leaf_length,
        )

    def same_inputs(self, other: ExploreState) -> bool:
        """Whether the outputs of both are of the same numbers, so that bits can be compared."""
        return all(getattr(self, name) == getattr(other, name) for name in _INPUTS)

    def replace(self, **changes: Any) -> ExploreState:
        """The same position with other values.

        Raises:
            InputError: There is no such control.
        """
        known = [f.name for f in fields(self)]
        for name in changes:
            if name not in known:
                raise InputError(f"there is no control {name!r}; there are {', '.join(known)}")
        return replace(self, **changes)

    def changes_from(self, other: ExploreState) -> str:
        """ "tile 4096 → 1024", or "" where nothing changed."""
        return changes_text(other.resolved(), self.resolved(), NAMES)

    def resolved(self) -> ExploreState:
        """The same with the tile in figures."""
        return self if self.tile_length is not None else self.replace(tile_length=self.tile or None)

    def title(self) -> str:
        """In a line: "lm_head, tile 1024, MAX_BLOCKS 128, dav-2201, fp32"."""
        parts = [os.path.basename(self.op) if self.shipped is None else self.op]
        for name in self.constants:
            value = self.tile if name == "tile_length" else getattr(self, name)
            if name != "schedule" or value != "output":
                parts.append(f"{NAMES[name]} {value}")
        return ", ".join([*parts, self.arch, self.dtype])

    def inputs_text(self) -> str:
        """The inputs in a line: "SmolLM2-135M, real (H 576): 32 rows, vocabulary 257"."""
        return f"{DATA[self.data]}: {self.rows:,} rows, vocabulary {self.vocab:,}"

    def arguments(self) -> dict[str, Any]:
        """What has to be said to reproduce this position: whatever is no default."""
        fresh = ExploreState()
        told = {}
        for item in fields(self):
            value = getattr(self, item.name)
            of_kernel = item.name in self.constants
            of_other = item.name in ("schedule", "leaf_length") and not of_kernel
            default = getattr(fresh, item.name)
            if item.name == "max_blocks":
                default = default_blocks(self.op)
            if value != default and not of_other:
                told[item.name] = value
        return told

    def code(
        self, *, fixture: str = "", call: bool = False, target: bool = False, **more: str
    ) -> str:
        """Python text that shows this position again.

        Args:
            fixture: Name of the content of own tensors, for a comment.
            call: Whether an own file's outputs are made by a function of the user's.
            target: Whether own targets were given.
            more: Further arguments of `wb.explore`, such as the pane.
        """
        given = self.arguments() | more
        lines = ["import workbench as wb", ""]
        if self.data == OWN:
            given.pop("data")
            names = "hidden, weight and target" if target else "hidden and weight"
            lines.append(f"# {names}: the tensors that were given (fixture {fixture})")
        if call:
            lines.append("# call: the function that was given: (kernel, hidden, weight) -> logits")
        words = [repr(given.pop("op"))] if "op" in given else []
        words += ["hidden=hidden, weight=weight"] if self.data == OWN else []
        words += ["target=target"] if self.data == OWN and target else []
        words += ["call=call"] if call else []
        words += [f"{name}={value!r}" for name, value in given.items()]
        lines.append(f"view = wb.explore({', '.join(words)})")
        lines.append("view.result")
        return "\n".join(lines) + "\n"

    def check(self, limits: dict[str, int]) -> None:
        """Refuse what no kernel and no input can do.

        Args:
            limits: The most rows and the most vocabulary ids of the input.

        Raises:
            ConfigError, InputError: With what works.
        """
        if self.shipped is not None and self.op not in OPS:
            raise ConfigError(f"op={self.op!r}: the dashboard shows {', '.join(OPS)} and own .asc")
        if self.shipped is None and not self.op.endswith((".asc", ".cpp", ".cc")):
            spec(self.op)  # says which kernels there are
        if self.dtype not in DTYPES:
            raise ConfigError(f"dtype {self.dtype!r} is unknown; known: {', '.join(DTYPES)}")
        if self.reference not in self.references:
            known = ", ".join(self.references)
            raise InputError(f"reference={self.reference!r}: {self.op} is compared with {known}")
        for name, most in limits.items():
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not 1 <= value <= most:
                raise InputError(f"{name}={value!r}: this input has 1 to {most:,}")
        if self.shipped is not None:
            # For this dtype: the budget of the smallest one would let too large a tile through.
            self.shipped.check(self.config, self.dtype)
