"""What the dashboard knows of one position of its controls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.build import KernelInfo
from workbench.build.launch import LaunchReport
from workbench.evidence import Evidence
from workbench.numerics import BitComparison, DriftResult, InvarianceResult, Tolerance
from workbench.numerics.drift.tables import DriftHistogram
from workbench.orders import ReductionTree
from workbench.widgets import words
from workbench.widgets.explore.inputs import Given
from workbench.widgets.explore.state import ExploreState

Pair = tuple[str, str]


@dataclass(frozen=True)
class RowErrors(Result):
    """Errors of one number a row (log-probs, in nats) against the exact ones.

    Attributes:
        errors: {(candidate, "exact"): fp64 [N]}, with their signs.
        of: int64 [N], the row of the batch that each is of: ignored targets have no error.
        shape: (rows, terms of a sum, 1).
        dtype, out_dtype, evidence: As in every result.
    """

    errors: dict[Pair, np.ndarray] = field(repr=False, metadata={"json": False})
    of: np.ndarray = field(repr=False, metadata={"json": False})
    shape: tuple[int, int, int]
    dtype: str
    out_dtype: str
    evidence: Evidence

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "candidate": candidate,
                "reference": reference,
                "max_abs": float(abs(found).max()),
                "mean_abs": float(abs(found).mean()),
                "worst_row": int(self.of[abs(found).argmax()]),  # (a NaN is the largest)
            }
            for (candidate, reference), found in self.errors.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"comparisons": self.rows()}

    def max_abs(self, pair: Pair) -> float:
        """Largest |error| of one side, in nats."""
        return float(abs(self.errors[pair]).max())

    def histogram(self, bins: int = 41) -> DriftHistogram:
        """Errors with their signs, counted on edges that all sides share."""
        known = {pair: found[np.isfinite(found)] for pair, found in self.errors.items()}
        reach = max(abs(found).max(initial=0) for found in known.values()) or 1.0
        edges = np.linspace(-reach, reach, bins + 1)
        return DriftHistogram(
            unit="abs",
            edges=edges,
            counts={pair: np.histogram(found, edges)[0] for pair, found in known.items()},
            exactly={pair: int((found == 0).sum()) for pair, found in self.errors.items()},
            nonfinite={p: len(found) - len(known[p]) for p, found in self.errors.items()},
            shape=self.shape,
            dtype=self.dtype,
            out_dtype=self.out_dtype,
            evidence=self.evidence,
        )


@dataclass(frozen=True)
class Counted(Result):
    """What the twin counted in one launch.

    Attributes:
        report: Bytes, instructions, synchronisation, in all and by source line.
        shape: (rows, columns) of the launch that was counted.
        same_bits: Whether it gave the bits of the launch that was not.
    """

    report: LaunchReport
    shape: tuple[int, ...]
    same_bits: bool


@dataclass(frozen=True)
class ExploreResult(Result):
    """What is known of a state so far; fields fill up stage by stage.

    Attributes:
        state: The position of the controls.
        fixture: Name of the inputs' content.
        order: The declared order; None where none is declared.
        revealed: The order found from the running binary.
        info: Of the kernel: what was built, how, in which time.
        outputs: fp32 results: logits [N, V], the product, or log-probs [N].
        baseline: Their bits compared with the default configuration's.
        change: Their bits compared with those of the state shown before; None where there is none,
            or where its inputs were others.
        changed: That change in words.
        drift: Errors of kernel and reference: a `DriftResult`, of log-probs `RowErrors`.
        invariance: The verdict on raw bits.
        tolerance: Derived bounds, and what the contract's cell flags.
        counters: Of a launch on the twin.
        log: What the compiler said, also when it refused.
        notes: {pane: why it has nothing to show, in words}.
        given: The tensors that the kernel was run on.
        error: Why there is no result at all, in words; "" if there is.
        done: Panes that have all they will have.
    """

    state: ExploreState
    fixture: str = ""
    order: ReductionTree | None = field(default=None, metadata={"json": False})
    revealed: ReductionTree | None = field(default=None, metadata={"json": False})
    info: KernelInfo | None = None
    outputs: torch.Tensor | None = field(
        default=None, repr=False, compare=False, metadata={"json": False}
    )
    baseline: BitComparison | None = None
    change: BitComparison | None = None
    changed: str = ""
    drift: DriftResult | RowErrors | None = None
    invariance: InvarianceResult | None = None
    tolerance: Tolerance | None = None
    counters: Counted | None = None
    log: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    given: Given | None = field(default=None, repr=False, compare=False, metadata={"json": False})
    error: str = ""
    done: frozenset[str] = frozenset()

    @property
    def tree(self) -> ReductionTree | None:
        """The order as it is best known: the binary's own, else what the source declares."""
        return self.revealed if self.revealed is not None else self.order

    @property
    def order_holds(self) -> bool | None:
        """Whether the binary adds as its source declares; None where one of both is not known."""
        if self.order is None or self.revealed is None:
            return None
        return self.order == self.revealed

    def to_dict(self) -> dict[str, Any]:
        found = super().to_dict() | {"done": sorted(self.done)}
        for name in ("order", "revealed"):
            tree = getattr(self, name)
            found[name] = None if tree is None else {"hash": tree.hash, "height": tree.height}
        return found

    def rows(self) -> list[dict[str, Any]]:
        return [{"what": k, "value": v} for k, v in self.lines().items() if v]

    def title(self) -> str:
        return self.state.title()

    def lines(self) -> dict[str, str]:
        """What stands above the panes: one line each, "" until its stage has been reached."""
        return {
            "build": self.build_text(),
            "order": self.order_text(),
            "bits": self.baseline_text(),
            "this change": self.change_text(),
        }

    def build_text(self) -> str:
        if self.info is None:
            return ""
        return words.build_text(self.info.seconds, self.info.cached, self.info.backend)

    def order_text(self) -> str:
        return "" if self.tree is None else words.order_text(self.tree)

    def baseline_text(self) -> str:
        if self.baseline is None:
            return ""
        if self.state.resolved() == self.state.baseline().resolved():
            return "this is the default; other configurations are compared with it"
        same, differ = "every bit equal to", "outputs differ from"
        text = words.bits_text(self.baseline, same, differ)
        return f"{text} the default ({self.state.baseline().title()})"

    def change_text(self) -> str:
        if not self.changed:
            return ""
        if self.change is None:
            return f"{self.changed}: other inputs, so bits are not compared"
        differ = "outputs changed their bits"
        return f"{self.changed}: {words.bits_text(self.change, 'bits unchanged', differ)}"
