"""A tolerance on the scale of what the order of summation allows.

A pass rule `|candidate - reference| <= atol + rtol |reference|` knows nothing of the sums it
judges. The bounds of `bounds` do: from the tree and the data they say, output by output, how far a
correct kernel can be off. Where the rule allows less, a correct kernel may be flagged; where it
allows far more, a fault can hide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.errors import InputError
from workbench.evidence import Evidence, evidence
from workbench.numerics.bounds.derive import check_delta
from workbench.numerics.contract import contract
from workbench.numerics.operands import check_tensors
from workbench.numerics.tolerance.scale import STEPS_A_DECADE, Flagged, Scale, check_pair
from workbench.numerics.tolerance.subject import subject
from workbench.ops.inputs import DTYPES, NAMES
from workbench.ops.variant import backend_of
from workbench.orders.tree import ReductionTree

DIGITS = 3  # of a proposed atol, rounded up

RESTS_ON = {
    "worst_case": "the height of the tree: holds for every rounding, absent overflow",
    "running": "the partial sums of this order on these inputs: holds for every rounding",
    "probabilistic": "roundings that behave as independent: with probability delta at most an "
    "output is beyond it",
}


@dataclass(frozen=True)
class BoundSummary(Result):
    """One kind of bound over all outputs.

    Attributes:
        kind: "worst_case", "running" or "probabilistic".
        rests_on: What it assumes, in words.
        min, median, max: Of the bound, in units of the outputs.
        beyond: Outputs of the candidate whose error is beyond it, or not finite; those without a
            bound (Inf) are not among them.
        worst_ratio: Largest |error| / bound, where there is a bound.
        unbounded: Outputs without a bound: fp32 or the output dtype may overflow.
    """

    kind: str
    rests_on: str
    min: float
    median: float
    max: float
    beyond: int
    worst_ratio: float
    unbounded: int = 0


@dataclass(frozen=True)
class Proposal(Result):
    """A pair that no output fails whose error is within the bound it rests on.

    So no correct kernel with this order fails it on these inputs; of the probabilistic bound: with
    a probability of 1 - delta, if its roundings behave as independent.

    Attributes:
        kind: The bound it rests on.
        atol: The smallest for `rtol`, rounded up to three digits; Inf if there is none.
        rtol: As given.
        looseness_median: Of atol + rtol |reference| over that bound: what one pair for all outputs
            costs.
        flagged: Outputs of the candidate that it flags.
    """

    kind: str
    atol: float
    rtol: float
    looseness_median: float
    flagged: int


@dataclass(frozen=True)
class RatioHistogram(Result):
    """Errors over what is allowed, and what is allowed over the bound, in bins of log10.

    Attributes:
        atol, rtol, kind: The pair, and the bound beside it.
        edges: [B + 1] of the bins, log10 of a ratio; the outer bins take what is beyond.
        rule: [B] counts of |error| / (atol + rtol |reference|).
        derived: [B] counts of |error| / bound.
        looseness: {label: [B] counts of allowed / bound} of the contract's cells and this pair.
        exact: Outputs with no error at all, which are in no bin of `rule` and `derived`.
        outputs: All of them.
        placed: {label: Flagged} of the same labels as `looseness`.
        own: Label of the contract's cell for this dtype.
    """

    atol: float
    rtol: float
    kind: str
    edges: np.ndarray = field(repr=False, metadata={"json": False})
    rule: np.ndarray = field(repr=False, metadata={"json": False})
    derived: np.ndarray = field(repr=False, metadata={"json": False})
    looseness: dict[str, np.ndarray] = field(repr=False, metadata={"json": False})
    exact: int
    outputs: int
    placed: dict[str, Flagged]
    own: str
    evidence: Evidence
    shape: tuple[int, int, int]
    dtype: str
    out_dtype: str


@dataclass(frozen=True)
class ToleranceGrid(Result):
    """Flagged outputs over the plane of (atol, rtol).

    Attributes:
        atols: [A], ascending.
        rtols: [R], ascending.
        flagged: int64 [R, A], outputs of the candidate that are flagged.
        frontiers: {kind: [R]}, the smallest atol for each rtol that no correct kernel fails.
        cells: {label: (atol, rtol)} of the contract.
        own: Label of the contract's cell for this dtype.
        outputs: All of them.
    """

    atols: tuple[float, ...]
    rtols: tuple[float, ...]
    flagged: np.ndarray = field(repr=False, metadata={"json": False})
    frontiers: dict[str, tuple[float, ...]]
    cells: dict[str, tuple[float, float]]
    own: str
    outputs: int
    op: str
    evidence: Evidence
    shape: tuple[int, int, int]
    dtype: str
    out_dtype: str

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"flagged": self.flagged.tolist()}

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"rtol": rtol, "atol": atol, "flagged": int(count)}
            for rtol, row in zip(self.rtols, self.flagged, strict=True)
            for atol, count in zip(self.atols, row, strict=True)
        ]


@dataclass(frozen=True)
class Tolerance(Result):
    """What `tolerance` found; `at` asks about any other pair.

    Attributes:
        op, dtype, out_dtype: The operator, its inputs' and its outputs' dtype.
        shape: (rows, terms of a sum, outputs of a row).
        outputs: How many are judged.
        order: The order of summation the bounds are of, in words.
        tree_hash: Its hash; None if no order is known.
        reference: What the outputs are compared with, in words.
        delta: Of the probabilistic bound, for all outputs together.
        kind: The bound that verdicts rest on where none is named.
        bounds: A summary of each kind there is.
        chosen: The pair that was asked about.
        cells: {label: Flagged}, the contract's forward cells of this operator; its own dtype first.
        proposals: Derived pairs: for each kind one with the chosen rtol, one with the unit roundoff
            of the outputs' dtype (their own rounding is relative), and one with rtol 0.
        warnings: What weakens the bounds.
        evidence: Backend, architecture, configuration, inputs, versions.
    """

    op: str
    dtype: str
    out_dtype: str
    shape: tuple[int, int, int]
    outputs: int
    order: str
    tree_hash: str | None
    reference: str
    delta: float
    kind: str
    bounds: dict[str, BoundSummary]
    chosen: Flagged
    cells: dict[str, Flagged]
    proposals: tuple[Proposal, ...]
    warnings: tuple[str, ...]
    evidence: Evidence
    scale: Scale = field(repr=False, compare=False, metadata={"json": False})

    @property
    def proposal(self) -> Proposal:
        """The tighter one of the pairs that rest on `kind`."""
        own = (p for p in self.proposals if p.kind == self.kind)
        return min(own, key=lambda p: p.looseness_median)

    def at(self, atol: float, rtol: float, kind: str | None = None) -> Flagged:
        """What a pair does to these outputs; the same counts as `contract().judge` has.

        Args:
            atol: From 0, in units of the outputs.
            rtol: From 0.
            kind: The bound to compare with; None: `self.kind`.

        Raises:
            InputError: A number that is negative or not finite, or a bound that there is not.
        """
        return self.scale.at(atol, rtol, kind or self.kind)

    def bound(self, kind: str | None = None) -> np.ndarray:
        """How far a correct kernel may be from the reference, output by output: fp64 [N, C]."""
        bound = self.scale.part(kind or self.kind).bound
        return bound.reshape(self.shape[0], self.shape[2]).numpy()

    def smallest_atol(self, rtol: float, kind: str | None = None) -> float:
        """The smallest atol that with `rtol` no correct kernel fails on these inputs.

        It covers the pass rule's own fp32 roundings. Inf if some bound is infinite.
        """
        return self.scale.smallest_atol(rtol, kind or self.kind)

    def grid(
        self, atols: Sequence[float] | None = None, rtols: Sequence[float] | None = None
    ) -> ToleranceGrid:
        """Flagged outputs over pairs, with the derived bounds and the contract's cells.

        Args:
            atols, rtols: Ascending, from 0; None: powers of ten and what is between, around the
                errors, the bounds and the contract's cells.
        """
        scale = self.scale
        if atols is None:
            atols = scale.axis([f.atol for f in (self.chosen, *self.cells.values())])
        if rtols is None:
            rtols = tuple(10.0 ** (k / STEPS_A_DECADE) for k in range(-7 * STEPS_A_DECADE, 1))
        for name, axis in (("atols", atols), ("rtols", rtols)):
            for value in axis:  # a NaN has no place in any order
                check_pair(*((value, 0.0) if name == "atols" else (0.0, value)))
            if not len(axis) or list(axis) != sorted(axis):
                raise InputError(f"{name}={axis!r}: want ascending numbers, at least one")
        flagged = np.array([scale.counts(atols, rtol) for rtol in rtols], np.int64)
        return ToleranceGrid(
            atols=tuple(map(float, atols)),
            rtols=tuple(map(float, rtols)),
            flagged=flagged,
            frontiers={
                kind: tuple(scale.smallest_atol(rtol, kind) for rtol in rtols)
                for kind in scale.parts
            },
            cells={label: (found.atol, found.rtol) for label, found in self.cells.items()},
            own=next(iter(self.cells)),
            outputs=self.outputs,
            op=self.op,
            evidence=self.evidence,
            shape=self.shape,
            dtype=self.dtype,
            out_dtype=self.out_dtype,
        )

    def histogram(
        self,
        atol: float | None = None,
        rtol: float | None = None,
        kind: str | None = None,
        bins: int = 80,
    ) -> RatioHistogram:
        """Ratios in bins: errors over what is allowed, and what is allowed over the bound.

        Args:
            atol, rtol: The pair; None: the chosen one.
            kind: The bound; None: `self.kind`.
            bins: How many, from 10^-5 to 10^5.
        """
        chosen = self.chosen
        kind = kind or self.kind
        pair = self.at(
            chosen.atol if atol is None else atol, chosen.rtol if rtol is None else rtol, kind
        )
        own = next(iter(self.cells))
        placed = {label: self.at(f.atol, f.rtol, kind) for label, f in self.cells.items()}
        if (pair.atol, pair.rtol) not in {(f.atol, f.rtol) for f in placed.values()}:
            placed["this pair"] = pair
        edges = np.linspace(-5, 5, bins + 1)
        scale = self.scale
        return RatioHistogram(
            atol=pair.atol,
            rtol=pair.rtol,
            kind=kind,
            edges=edges,
            rule=_binned(scale.size.double() / scale.allowed(pair.atol, pair.rtol), edges),
            derived=_binned(scale.error / scale.part(kind).bound, edges),
            looseness={
                label: _binned(scale.looseness(f.atol, f.rtol, kind), edges)
                for label, f in placed.items()
            },
            exact=int((scale.error == 0).sum()),
            outputs=self.outputs,
            placed=placed,
            own=own,
            evidence=self.evidence,
            shape=self.shape,
            dtype=self.dtype,
            out_dtype=self.out_dtype,
        )

    def rows(self) -> list[dict[str, Any]]:
        """One row a pair: the chosen one, the contract's cells, the proposals."""
        found = {"chosen": self.chosen, **{f"contract {k}": v for k, v in self.cells.items()}}
        for p in self.proposals:
            if math.isfinite(p.atol):
                found[f"{p.kind}, rtol {p.rtol:g}"] = self.at(p.atol, p.rtol, p.kind)
        names = ["atol", "rtol", "count", "worst_ratio", "looseness_min", "looseness_median"]
        names += ["looseness_max", "below", "far", "false_alarms", "missed"]
        return [
            {"pair": label, **{name: getattr(f, name) for name in names}}
            for label, f in found.items()
        ]

    def title(self) -> str:
        n, h, c = self.shape
        return (
            f"Tolerance of {self.op} at {n} x {h} x {c}, {self.dtype} -> {self.out_dtype}, "
            f"against {self.reference}"
        )


def _binned(ratios: torch.Tensor, edges: np.ndarray) -> np.ndarray:
    """Counts of log10 of the positive ratios; what is beyond an end goes into the outer bin."""
    logs = torch.log10(ratios[ratios > 0]).clamp(edges[0], edges[-1]).numpy()
    return np.histogram(logs, edges)[0]


# ---- the function --------------------------------------------------------------------------------


def tolerance(
    fn: Callable[..., Any],
    hidden: torch.Tensor,
    weight: torch.Tensor | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    op: str = "lm_head",
    dtype: str | torch.dtype | None = None,
    tree: ReductionTree | str | None = None,
    reference: str | ReductionTree = "exact",
    delta: float = 1e-3,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    target: torch.Tensor | None = None,
    kind: str | None = None,
) -> Tolerance:
    """How a tolerance compares with the error that the order of summation allows.

    For each output a bound is derived from the order and the data (`bounds`). Against it stand the
    pair that is asked about, the contract's cells, and derived pairs: the smallest atol for an
    rtol that no correct kernel with this order fails on these inputs. The bound itself, output by
    output (`.bound()`), is tighter than any one pair.

    Args:
        fn: A kernel of `build`, an operator, or a callable with an operator's arguments. A callable
            is taken to multiply and add in fp32 and to round its result once.
        hidden: [..., H] fp32, bf16 or fp16; of batch_invariant_logp the logits [..., V].
        weight: [V, H]; of det_gemm b transposed, [N, K]; None for batch_invariant_logp.
        atol, rtol: The pair to judge; what is None comes from the contract's cell.
        op: The operator, which chooses the contract's cell.
        dtype: "fp32", "bf16", "fp16" or the torch dtype: hidden, weight and bias are converted to
            it. None: they have one dtype already.
        tree: The order of a sum (of linear_logp: of a logit); "reveal": found by probing; "any":
            the worst over all orders. None: the declared order of a kernel or operator, "any" for a
            callable.
        reference: "exact", "torch.mv" (for each row; its own measured error counts), or a
            ReductionTree: sums in that order, whose bound counts.
        delta: Probability that any output at all exceeds the probabilistic bound.
        bias: [V] or None.
        out_dtype: torch.float32: fp32 results of 16-bit inputs.
        target: [...] of the log-prob operators; ignored rows are not judged.
        kind: The bound that verdicts rest on: "running" where there is one, if None.

    Raises:
        InputError: Shapes, dtypes or names that do not fit, a negative number, nothing to judge.
        CandidateError: `fn` raised, or wrote into its operands (they are put back up to 16 MiB).
        RevealError: tree="reveal", and the order cannot be found.

    Example:
        >>> import workbench as wb
        >>> kernel = wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin")
        >>> found = tolerance(kernel, torch.ones(2, 256), torch.ones(3, 256) / 3)
        >>> found.chosen.count, found.bounds["running"].beyond
        (0, 0)
        >>> tight = found.at(found.smallest_atol(0.0), 0.0)
        >>> tight.below, found.at(tight.atol / 2, 0.0).below > 0
        (0, True)
    """
    check_tensors(hidden, weight=weight, bias=bias, target=target)
    check_delta(delta)
    if dtype is not None:
        wanted = DTYPES[contract().dtype(dtype)]
        hidden = hidden.to(wanted)
        weight = None if weight is None else weight.to(wanted)
        bias = None if bias is None else bias.to(wanted)
    short = contract().dtype(hidden.dtype)
    found = subject(fn, op, hidden, weight, target, bias, tree, reference, delta, out_dtype)
    kinds = tuple(found.bounds)
    kind = kind or ("running" if "running" in kinds else kinds[0])
    scale = Scale(found)
    scale.part(kind)  # an unknown one is refused before any work
    cells = {}
    for name in sorted(contract().dtypes, key=lambda name: name != short):
        cell = contract().cell("forward_accuracy", op, name)
        assert cell.atol is not None and cell.rtol is not None  # accuracy is not judged on bits
        cells[name] = scale.at(cell.atol, cell.rtol, kind)
    own = cells[short]
    chosen = scale.at(own.atol if atol is None else atol, own.rtol if rtol is None else rtol, kind)
    out_unit = torch.finfo(found.got.dtype).eps / 2
    proof = evidence(fn, hidden, weight, bias, target)
    asked = getattr(fn, "backend", None)
    if proof.backend is None and isinstance(asked, str):  # an operator of ours
        proof = replace(proof, backend=backend_of(hidden, asked))
    warnings = list(dict.fromkeys(found.warnings))
    open_ends = int((~torch.isfinite(scale.part(kind).bound)).sum())
    if open_ends:
        warnings.append(f"{open_ends} outputs have no bound: fp32 or the output dtype may overflow")
    lost = int((~torch.isfinite(found.reference)).sum())
    if lost:
        warnings.append(f"{lost} outputs have no finite reference: they are flagged, not bounded")
    return Tolerance(
        op=op,
        dtype=short,
        out_dtype=NAMES[found.got.dtype],
        shape=found.shape,
        outputs=found.got.numel(),
        order=found.order,
        tree_hash=found.tree_hash,
        reference=found.reference_text,
        delta=delta,
        kind=kind,
        bounds={name: _summary(scale, name) for name in kinds},
        chosen=chosen,
        cells=cells,
        proposals=tuple(
            _proposal(scale, name, value)
            for name in kinds
            for value in dict.fromkeys((chosen.rtol, out_unit, 0.0))
        ),
        warnings=tuple(warnings),
        evidence=proof,
        scale=scale,
    )


def _summary(scale: Scale, kind: str) -> BoundSummary:
    part = scale.part(kind)
    bounded = torch.isfinite(part.bound)
    ratios = scale.error[bounded] / part.bound[bounded]
    ratios[scale.error[bounded] == 0] = 0.0
    worst = float(ratios[ratios.argmax()]) if len(ratios) else 0.0
    return BoundSummary(
        kind=kind,
        rests_on=RESTS_ON[kind],
        min=float(part.bound.min()),
        median=float(part.bound.median()),
        max=float(part.bound.max()),
        beyond=int(part.beyond.sum()),
        worst_ratio=worst,
        unbounded=len(bounded) - len(ratios),
    )


def _proposal(scale: Scale, kind: str, rtol: float) -> Proposal:
    atol = _rounded_up(scale.smallest_atol(rtol, kind))
    if not math.isfinite(atol):
        return Proposal(kind, atol, rtol, math.inf, 0)
    found = scale.at(atol, rtol, kind)
    return Proposal(kind, atol, rtol, found.looseness_median, found.count)


def _rounded_up(value: float) -> float:
    """`value` rounded up to DIGITS decimal digits, so that what is printed is what is meant."""
    if not 0 < value < math.inf:
        return value
    return float(Context(prec=DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(value)))
