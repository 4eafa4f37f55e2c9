"""The numerics contract: which error is too large, in one data file that nothing relaxes.

`contract.json` has a cell for every judgement, op class and dtype. Accuracy is judged element by
element in fp32, `|candidate - reference| <= atol + rtol |reference|`; invariance on raw bits. A
request the file has no answer for is an error, never a default.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from workbench._result import Result
from workbench.errors import ConfigError, InputError
from workbench.numerics.bits import compare_bits
from workbench.numerics.ulp import ulp
from workbench.ops.inputs import NAMES

PATH = Path(__file__).with_name("contract.json")
SCHEMA = Path(__file__).with_name("contract.schema.json")
RAW_BITS = "raw bits"
ROLES = ("candidate", "reference", "exact")

_LONG = {str(dtype).removeprefix("torch."): name for dtype, name in NAMES.items()}


@dataclass(frozen=True)
class Cell(Result):
    """One cell of the contract.

    Attributes:
        judgement, op, op_class, dtype: What it is for; `op` as asked, `dtype` "fp32", "bf16" or
            "fp16".
        kind: "tolerance" or "raw bits".
        atol, rtol: Of the pass rule; None where raw bits are compared.
    """

    judgement: str
    op: str
    op_class: str
    dtype: str
    kind: str
    atol: float | None
    rtol: float | None


@dataclass(frozen=True)
class Operand:
    """A tensor that says what it is, so that two of them cannot be swapped unnoticed.

    Attributes:
        tensor: The values.
        role: "candidate", "reference" or "exact".
        source: Who computed it, for example "twin dav-2201" or "torch.mv"; "" if not said.
    """

    tensor: torch.Tensor
    role: str
    source: str = ""


@dataclass(frozen=True)
class Judgement(Result):
    """A verdict under one cell.

    Attributes:
        passed: The verdict; nothing but the cell decides it.
        judgement, op, op_class, dtype: The cell.
        atol, rtol: Its numbers (tighter ones if asked for); None for raw bits.
        elements: How many were compared.
        mismatches: Elements outside the rule; for raw bits those whose bits differ.
        max_abs, mean_abs: Of candidate - reference, in units of the output.
        max_rel: Largest |error| / |reference|. It means nothing near zero and judges nothing.
        tolerance_ratio: Worst |error| / (atol + rtol |reference|); above 1 fails.
        tolerance_ratio_exact: The same of the candidate against the exact value, which stands in
            the place of the reference; None without it.
        reference_ratio: The same of the reference against the exact value; None without it.
        max_ulp_of_sum: Worst |candidate - exact| in ULP (of the candidate's dtype) of the sum of
            |x w| of that output; None without exact values and scale.
        cause: None where it passed. "reference": tolerance_ratio is above 1 and reference_ratio
            above the contract's share; the verdict stays failed. "candidate": failed otherwise, or
            not judged against an exact value. "nonfinite": NaN or Inf on a side, which no
            aggregate survives.
        reason: Why it failed, in words; "" where it passed.
        worst: The element with the worst ratio: `index`, `candidate`, `reference` and, where given,
            `exact`. For raw bits the first mismatch with both bit patterns, or None.
    """

    passed: bool
    judgement: str
    op: str
    op_class: str
    dtype: str
    atol: float | None
    rtol: float | None
    elements: int
    mismatches: int
    max_abs: float
    mean_abs: float
    max_rel: float
    tolerance_ratio: float | None
    tolerance_ratio_exact: float | None
    reference_ratio: float | None
    max_ulp_of_sum: float | None
    cause: str | None
    reason: str
    worst: dict[str, Any] | None

    def title(self) -> str:
        verdict = "passed" if self.passed else f"FAILED ({self.reason})"
        return f"{self.judgement} of {self.op}, {self.dtype}: {verdict}"


@dataclass(frozen=True)
class Agreement(Result):
    """How far a trainer's log-probs are from a sampler's over the active tokens.

    Attributes:
        passed: Every aggregate is within its limit.
        dtype: Of the model: it chooses the limits.
        tokens: Active tokens.
        max_abs: Largest |d|, d = trainer - sampler, in nats.
        approx_kl: mean(exp(d) - 1 - d), in nats; never negative.
        clip_fraction: Share of tokens whose ratio exp(d) is outside the contract's range.
        limits: The limit of each aggregate.
        failed: Names of the aggregates beyond their limit.
    """

    passed: bool
    dtype: str
    tokens: int
    max_abs: float
    approx_kl: float
    clip_fraction: float
    limits: dict[str, float]
    failed: tuple[str, ...]

    def title(self) -> str:
        verdict = "passed" if self.passed else f"FAILED: {', '.join(self.failed)}"
        return f"Log-prob agreement over {self.tokens} tokens, {self.dtype}: {verdict}"


class Contract:
    """The contract as loaded; `contract()` gives the one of the project.

    Example:
        >>> cell = contract().cell("forward_accuracy", "lm_head", "bf16")
        >>> cell.op_class, cell.kind
        ('reduction', 'tolerance')
        >>> contract().cell("gradient_invariance", "det_gemm", torch.float16).kind
        'raw bits'
    """

    def __init__(self, raw: dict[str, Any], digest: str) -> None:
        self.digest = digest
        self.rule: str = raw["rule"]
        self.dtypes: tuple[str, ...] = tuple(raw["dtypes"])
        self.judgements: tuple[str, ...] = tuple(raw["judgements"])
        self.op_classes: Mapping[str, tuple[str, ...]] = MappingProxyType(
            {name: tuple(ops) for name, ops in raw["op_classes"].items()}
        )
        self.reference_at_fault_above: float = raw["reference_at_fault_above"]
        self._out_of_scope = tuple(raw["out_of_scope"])
        self._class_of = {op: name for name, ops in self.op_classes.items() for op in ops}
        self._cells = MappingProxyType(
            {
                (judgement, op_class, dtype): _frozen(value)
                for judgement, classes in raw["judgements"].items()
                for op_class, dtypes in classes.items()
                for dtype, value in dtypes.items()
            }
        )
        low, high = raw["aggregates"]["clip_range"]
        self.clip_range = (float(low), float(high))
        self._limits = {
            name: dict(raw["aggregates"][name])
            for name in ("max_abs", "approx_kl", "clip_fraction")
        }

    # ---- resolving ---------------------------------------------------------------------------

    def dtype(self, dtype: str | torch.dtype) -> str:
        """The contract's name of a dtype: "fp32", "bf16" or "fp16".

        Raises:
            InputError: fp8, which is out of scope, or any other dtype.
        """
        name = str(dtype).removeprefix("torch.")
        short = NAMES.get(dtype) if isinstance(dtype, torch.dtype) else _LONG.get(name, name)
        if short in self.dtypes:
            return str(short)
        plain = name.replace("float8", "fp8")
        if any(plain.startswith(scope) for scope in self._out_of_scope):
            raise InputError(
                f"dtype {name}: {', '.join(self._out_of_scope)} is out of the contract's scope; it "
                f"judges {', '.join(self.dtypes)}"
            )
        raise InputError(f"dtype {name}: the contract judges {', '.join(self.dtypes)}")

    def op_class(self, op: str) -> str:
        """The op class of an operator; an op class itself is taken too.

        Raises:
            InputError: An operator the contract does not name.
        """
        found = op if op in self.op_classes else self._class_of.get(op)
        if found is None:
            known = ", ".join([*self._class_of, *self.op_classes])
            raise InputError(f"op {op!r} has no class in the contract; it knows {known}")
        return found

    def resolve(
        self,
        judgement: str,
        op: str,
        dtype: str | torch.dtype,
        atol: float | None = None,
        rtol: float | None = None,
    ) -> Cell:
        """The cell for a judgement, with tighter private numbers if any are given.

        Args:
            judgement: "forward_accuracy", "gradient_accuracy", "forward_invariance" or
                "gradient_invariance".
            op: Operator or op class.
            dtype: Of the operator's inputs: "fp32", "bf16", "fp16" or the torch dtype.
            atol, rtol: Private numbers, at most the cell's; None: the cell's.

        Raises:
            InputError: An unknown judgement, op or dtype; a cell that is missing; a private number
                that is looser than the cell, negative or not finite; any number for raw bits.
        """
        if judgement not in self.judgements:
            raise InputError(
                f"judgement {judgement!r} is unknown; the contract has {', '.join(self.judgements)}"
            )
        short, op_class = self.dtype(dtype), self.op_class(op)
        value = self._cells.get((judgement, op_class, short))
        if value is None:
            raise InputError(
                f"the contract has no cell for {judgement}, {op_class}, {short}: add it to "
                f"{PATH.name}; there is no default"
            )
        private = {"atol": atol, "rtol": rtol}
        if isinstance(value, str):
            given = [name for name, number in private.items() if number is not None]
            if given:
                raise InputError(
                    f"{' and '.join(given)} given for {judgement}: invariance is judged on raw "
                    "bits, no tolerance stands in their place. Leave it out"
                )
            return Cell(judgement, op, op_class, short, RAW_BITS, None, None)
        for name, number in private.items():
            if number is not None and not 0 <= number <= value[name]:  # a NaN is refused too
                raise InputError(
                    f"{name}={number} is not within the contract: {judgement} of {op} in {short} "
                    f"has {name}={value[name]}. A private number may be tighter, from 0 up to that"
                )
        chosen = {k: float(value[k] if v is None else v) for k, v in private.items()}
        return Cell(judgement, op, op_class, short, "tolerance", chosen["atol"], chosen["rtol"])

    def cell(self, judgement: str, op: str, dtype: str | torch.dtype) -> Cell:
        """The cell as the contract has it; errors as in `resolve`."""
        return self.resolve(judgement, op, dtype)

    def cells(self) -> list[Cell]:
        """Every cell, by op class."""
        return [self.cell(judgement, op, dtype) for judgement, op, dtype in self._cells]

    def table(self) -> str:
        """The tolerances as a Markdown table: what docs/contract.md shows."""
        head = ["judgement", "op class", *self.dtypes]
        rows = [head, ["---"] * len(head)]
        for judgement in self.judgements:
            for op_class in self.op_classes:
                cells = [self.cell(judgement, op_class, dtype) for dtype in self.dtypes]
                shown = [c.kind if c.atol is None else f"{c.atol:g} / {c.rtol:g}" for c in cells]
                rows.append([judgement, op_class, *shown])
        for name in self._limits:
            rows.append(["aggregate", name, *(f"{self.limits(d)[name]:g}" for d in self.dtypes)])
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    # ---- judging -----------------------------------------------------------------------------

    def judge(
        self,
        candidate: torch.Tensor | Operand,
        reference: torch.Tensor | Operand,
        judgement: str,
        op: str,
        dtype: str | torch.dtype,
        exact: torch.Tensor | Operand | None = None,
        *,
        scale: torch.Tensor | None = None,
        atol: float | None = None,
        rtol: float | None = None,
    ) -> Judgement:
        """Judge a candidate against a reference under the cell of (judgement, op, dtype).

        Args:
            candidate, reference: Real floats of one shape. Accuracy takes any float dtypes and
                compares them in fp32; invariance wants one dtype and compares raw bits (NaNs too).
            exact: fp64 values of the same shape, for the ratios that say whose error it is.
            scale: fp64 sums of |x w| of the same shape, for `max_ulp_of_sum`; needs `exact`.
            atol, rtol: As in `resolve`.

        Raises:
            InputError: Nothing to compare, shapes that differ, operands in each other's places, or
                what `resolve` refuses. NaN and Inf in an accuracy judgement are a failed verdict.

        Example:
            >>> good, bad = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])
            >>> contract().judge(good, good, "forward_accuracy", "lm_head", "fp32").passed
            True
            >>> found = contract().judge(bad, good, "forward_accuracy", "lm_head", "fp32")
            >>> found.passed, found.cause, found.worst["index"]
            (False, 'candidate', [1])
        """
        cell = self.resolve(judgement, op, dtype, atol, rtol)
        got, wanted, truth = _operands(candidate, reference, exact, cell)
        if cell.kind == RAW_BITS:
            if exact is not None or scale is not None:
                raise InputError(f"{judgement} compares raw bits: leave out exact and scale")
            return _by_bits(cell, got, wanted)
        if scale is not None and (truth is None or scale.shape != got.shape):
            raise InputError(
                f"scale {list(scale.shape)} needs exact values, and the shape {list(got.shape)}"
            )
        return self._by_tolerance(cell, got, wanted, truth, scale)

    def _by_tolerance(
        self,
        cell: Cell,
        candidate: torch.Tensor,
        reference: torch.Tensor,
        exact: torch.Tensor | None,
        scale: torch.Tensor | None,
    ) -> Judgement:
        assert cell.atol is not None and cell.rtol is not None
        got, wanted = candidate.float(), reference.float()
        size = (got - wanted).abs()
        allowed = cell.atol + cell.rtol * wanted.abs()
        ratios = _ratio(size, allowed)
        # Not `size > allowed`: a NaN must count as outside.
        outside = ~(size <= allowed)
        at = int(ratios.argmax())  # the first NaN if there is one
        ratio = float(ratios.flatten()[at])
        exact_ratio = reference_ratio = ulps = None
        if exact is not None:
            exact_ratio = _worst_against(candidate, exact, cell.atol, cell.rtol)
            reference_ratio = _worst_against(reference, exact, cell.atol, cell.rtol)
            if scale is not None:
                error = (candidate.double() - exact).abs()
                ulps = float((error / ulp(scale.cpu(), candidate.dtype)).max())
        sides = {"the candidate": got, "the reference": wanted}
        if exact is not None:
            sides["the exact value"] = exact
        broken = {
            side: int((~torch.isfinite(values)).sum())
            for side, values in sides.items()
            if not bool(torch.isfinite(values).all())
        }
        mismatches = int(outside.sum())
        passed = not mismatches and not broken
        cause, reason = None, ""
        if broken:
            cause = "nonfinite"
            counts = ", ".join(f"{count} in {side}" for side, count in broken.items())
            reason = f"NaN or Inf where every value must be finite: {counts}"
        elif not passed:
            cause, reason = self._cause(mismatches, got.numel(), exact_ratio, reference_ratio)
        return Judgement(
            passed=passed,
            judgement=cell.judgement,
            op=cell.op,
            op_class=cell.op_class,
            dtype=cell.dtype,
            atol=cell.atol,
            rtol=cell.rtol,
            elements=got.numel(),
            mismatches=mismatches,
            max_abs=float(size.max()),
            mean_abs=float(size.double().mean()),
            max_rel=float(_ratio(size, wanted.abs()).max()),
            tolerance_ratio=ratio,
            tolerance_ratio_exact=exact_ratio,
            reference_ratio=reference_ratio,
            max_ulp_of_sum=ulps,
            cause=cause,
            reason=reason,
            worst=_place(at, candidate, reference, exact),
        )

    def _cause(
        self, count: int, of: int, exact_ratio: float | None, reference_ratio: float | None
    ) -> tuple[str, str]:
        text = f"{count} of {of} elements are outside the tolerance"
        if reference_ratio is None or exact_ratio is None:
            return "candidate", f"{text}; without exact values nobody else can be blamed"
        held = "keeps" if exact_ratio <= 1 else "misses"
        text += f"; against fp64 the candidate {held} the cell (ratio {exact_ratio:.3g})"
        text += f", the reference has {reference_ratio:.3g}"
        blamed = reference_ratio > self.reference_at_fault_above
        return ("reference" if blamed else "candidate"), text

    # ---- log-prob aggregates -------------------------------------------------------------------

    def limits(self, dtype: str | torch.dtype) -> dict[str, float]:
        """The limits of `max_abs`, `approx_kl` and `clip_fraction` for a dtype."""
        short = self.dtype(dtype)
        return {name: float(values[short]) for name, values in self._limits.items()}

    def agreement(
        self,
        sampler_logp: torch.Tensor,
        trainer_logp: torch.Tensor,
        active: torch.Tensor | None = None,
        dtype: str | torch.dtype = "fp32",
    ) -> Agreement:
        """Judge a trainer's log-probs against a sampler's over the active tokens.

        Args:
            sampler_logp, trainer_logp: [...] log-probs in nats, of one shape.
            active: bool [...], the tokens that count; None: all.
            dtype: Of the model: "fp32", "bf16", "fp16" or the torch dtype.

        Raises:
            InputError: Log-probs that are not real floats, shapes that differ, a mask that is not
                bool, no active token, or NaN or Inf among the active ones.

        Example:
            >>> logp = torch.tensor([-1.0, -2.0])
            >>> contract().agreement(logp, logp).passed
            True
            >>> contract().agreement(logp, logp + 0.5).failed
            ('max_abs', 'approx_kl', 'clip_fraction')
        """
        before = _floats(sampler_logp, "sampler_logp").double()
        after = _floats(trainer_logp, "trainer_logp").double()
        if before.shape != after.shape:
            raise InputError(
                f"sampler_logp is {list(before.shape)}, trainer_logp {list(after.shape)}; give one "
                "shape"
            )
        if active is not None:
            if active.dtype != torch.bool or active.shape != before.shape:
                raise InputError(
                    f"active is {active.dtype} {list(active.shape)}; want bool {list(before.shape)}"
                )
            before, after = before[active.cpu()], after[active.cpu()]
        if not before.numel():
            raise InputError("there is no active token: an aggregate over nothing is no verdict")
        for name, values in (("sampler_logp", before), ("trainer_logp", after)):
            bad = int((~torch.isfinite(values)).sum())
            if bad:
                raise InputError(
                    f"{name} has {bad} NaN or Inf among {values.numel()} active tokens; an "
                    "aggregate needs finite ones. Leave those tokens out through `active`"
                )
        d = after - before
        low, high = self.clip_range
        ratio = d.exp()
        found = {
            "max_abs": float(d.abs().max()),
            # expm1: exp(d) - 1 - d cancels where d is small
            "approx_kl": float((torch.expm1(d) - d).mean()),
            "clip_fraction": float(((ratio < low) | (ratio > high)).double().mean()),
        }
        limits = self.limits(dtype)
        failed = tuple(name for name, value in found.items() if not value <= limits[name])
        return Agreement(
            passed=not failed,
            dtype=self.dtype(dtype),
            tokens=before.numel(),
            limits=limits,
            failed=failed,
            **found,
        )


def _frozen(cell: dict[str, float] | str) -> Mapping[str, float] | str:
    return cell if isinstance(cell, str) else MappingProxyType(dict(cell))


def _floats(value: Any, what: str) -> torch.Tensor:
    """The values on the CPU, once it is sure that they are dense real floats of 16 bits or more."""
    if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
        given = str(value.dtype) if isinstance(value, torch.Tensor) else type(value).__name__
        raise InputError(f"{what} is {given}; want a torch.Tensor of real floats")
    if value.dtype.itemsize < 2:
        raise InputError(f"{what} is {value.dtype}: fp8 and less is out of the contract's scope")
    if value.layout != torch.strided or value.device.type == "meta":
        where = f"{value.layout} on {value.device}"
        raise InputError(f"{what} is {where}; want a dense tensor with values")
    return value.detach().cpu()


def _operands(
    candidate: torch.Tensor | Operand,
    reference: torch.Tensor | Operand,
    exact: torch.Tensor | Operand | None,
    cell: Cell,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """The tensors, once it is sure that each stands in its own place."""
    given = {"candidate": candidate, "reference": reference, "exact": exact}
    found: dict[str, torch.Tensor] = {}
    sources = {}
    for role, value in given.items():
        if value is None:
            continue
        if isinstance(value, Operand):
            if value.role != role:
                known = "" if value.role in ROLES else f" (roles are {', '.join(ROLES)})"
                raise InputError(
                    f"a {value.role!r} stands in the place of the {role}{known}: the rule is not "
                    "symmetric, pass each in its place"
                )
            sources[role] = value.source
            value = value.tensor
        found[role] = _floats(value, f"the {role}")
    if sources.get("candidate") and sources.get("reference"):
        same = sources["candidate"] == sources["reference"]
        if same and cell.kind != RAW_BITS:
            raise InputError(
                f"candidate and reference both come from {sources['candidate']!r}: that says "
                "nothing about accuracy. Give an independent reference"
            )
        if not same and cell.kind == RAW_BITS:
            raise InputError(
                f"raw bits of {sources['candidate']!r} and {sources['reference']!r}: invariance is "
                "judged between results of one source"
            )
    got, wanted, truth = found["candidate"], found["reference"], found.get("exact")
    shapes = {role: list(tensor.shape) for role, tensor in found.items()}
    if len({tuple(shape) for shape in shapes.values()}) > 1:
        raise InputError(f"shapes differ: {shapes}; give one shape")
    if not got.numel():
        raise InputError(f"nothing to judge: shape {list(got.shape)}; an empty verdict is none")
    if truth is not None and truth.dtype != torch.float64:
        raise InputError(f"the exact values are {truth.dtype}; want fp64")
    return got, wanted, truth


def _by_bits(cell: Cell, got: torch.Tensor, wanted: torch.Tensor) -> Judgement:
    found = compare_bits(wanted, got)
    size = (got.double() - wanted.double()).abs()
    reason = f"{found.mismatches} of {found.elements} elements differ in their bits"
    return Judgement(
        passed=found.equal,
        judgement=cell.judgement,
        op=cell.op,
        op_class=cell.op_class,
        dtype=cell.dtype,
        atol=None,
        rtol=None,
        elements=found.elements,
        mismatches=found.mismatches,
        max_abs=float(size.max()),
        mean_abs=float(size.mean()),
        max_rel=float(_ratio(size, wanted.double().abs()).max()),
        tolerance_ratio=None,
        tolerance_ratio_exact=None,
        reference_ratio=None,
        max_ulp_of_sum=None,
        cause=None if found.equal else "candidate",
        reason="" if found.equal else reason,
        worst=found.first_mismatch,
    )


def _ratio(size: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """size / allowed, with 0 / 0 as 0: no error needs no allowance."""
    return torch.where(size == 0, torch.zeros_like(size), size / allowed)


def _worst_against(values: torch.Tensor, exact: torch.Tensor, atol: float, rtol: float) -> float:
    error = (values.double() - exact).abs()
    return float(_ratio(error, atol + rtol * exact.abs()).max())


def _place(
    flat: int, candidate: torch.Tensor, reference: torch.Tensor, exact: torch.Tensor | None
) -> dict[str, Any]:
    index: list[int] = []
    for length in reversed(candidate.shape):
        flat, rest = divmod(flat, length)
        index.insert(0, rest)
    at = tuple(index)
    found: dict[str, Any] = {
        "index": index,
        "candidate": float(candidate[at]),
        "reference": float(reference[at]),
    }
    if exact is not None:
        found["exact"] = float(exact[at])
    return found


def load(path: Path | str = PATH) -> Contract:
    """Read and check a contract.

    Raises:
        ConfigError: It is not JSON, breaks the schema (a cell that is missing, fp8, a tolerance in
            an invariance row, …), or puts one operator into two classes.
    """
    import jsonschema

    text = Path(path).read_bytes()
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    schema = json.loads(SCHEMA.read_text("utf-8"))
    found = jsonschema.Draft202012Validator(schema).iter_errors(raw)
    faults = sorted(found, key=lambda e: str(list(e.path)))
    if faults:
        shown = "; ".join(
            f"{'.'.join(map(str, e.path)) or 'the file'}: {e.message}"[:200] for e in faults[:3]
        )
        raise ConfigError(
            f"{path} breaks {SCHEMA.name} in {len(faults)} place{'s' * (len(faults) > 1)}: {shown}"
        )
    ops = [op for names in raw["op_classes"].values() for op in names]
    twice = sorted({op for op in ops if ops.count(op) > 1 or op in raw["op_classes"]})
    if twice:
        raise ConfigError(
            f"{path}: {', '.join(twice)} must have one class, and not be named as one"
        )
    if raw["aggregates"]["clip_range"][0] > raw["aggregates"]["clip_range"][1]:
        raise ConfigError(f"{path}: aggregates.clip_range wants [low, high]")
    return Contract(raw, hashlib.sha256(text).hexdigest()[:16])


@functools.cache
def contract() -> Contract:
    """The contract of the project, loaded and checked once."""
    return load()


if __name__ == "__main__":
    print(contract().table())
