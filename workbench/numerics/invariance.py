"""Invariance: does a row keep its bits whatever stands around it? Raw bits, no tolerance.

The baseline of a row is what the callable gives for that row alone, [1, H]. Each transform puts
the rows into other batches; only the rows under test ("active") are compared. A gradient is judged
like anything else that has rows: the gradient of a row, with its upstream beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from workbench._result import Result, html_table
from workbench.errors import InputError
from workbench.evidence import Evidence, evidence, hex_bits, raw_bits
from workbench.numerics.bits import compare_bits
from workbench.numerics.transforms import RELATIONS, TRANSFORMS, Bench, Case, cases, take

SIZES = (1, 2, 4, 7, 8, 16, 17, 33, 64, 65, 129, 255, 256, 257, 300)
POSITION_SIZES = (17, 257)
CHUNKS = (1, 3, 7, 16)
MAX_BLOCKS = (1, 3, 40, 128, 256)
SEED = 20260812
JUDGEMENTS = ("forward_invariance", "gradient_invariance")
VOCAB_ID = "vocab_id"  # what the last dimension of a row's result counts, where it is ids


@dataclass(frozen=True)
class TransformResult(Result):
    """What one transform found.

    Attributes:
        name: "T1" … "T7".
        relation: What was held equal, in words.
        cases: Batches compared with the baseline.
        failed_cases: Those with a mismatch.
        elements: Active outputs compared, over all cases.
        mismatches: Those whose bits differ.
        first_mismatch: None, or the first by (row, column) over all cases: `case`, `row` (of the
            flattened hidden), `index` (of it in the leading dims: sequence, token), `column` (of
            the row's result), `column_name` (what that counts, or which result it is),
            `vocab_id` (the column where columns are vocabulary ids, else the row's target where
            one travels with it, else None), `expected_bits`, `got_bits`.
    """

    name: str
    relation: str
    cases: int
    failed_cases: int
    elements: int
    mismatches: int
    first_mismatch: dict[str, Any] | None

    @property
    def passed(self) -> bool:
        """True if something was compared and every bit was equal."""
        return self.elements > 0 and self.mismatches == 0

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "passed": self.passed} | super().to_dict()


@dataclass(frozen=True)
class InvarianceResult(Result):
    """What `invariance` found; `result["T3"]` is one transform.

    Attributes:
        passed: True if every transform passed.
        transforms: One `TransformResult` for each transform that was asked for.
        active: The rows of the flattened hidden that were compared.
        shape: [N, H, V]: rows, width of a row, elements of a row's result.
        dtype, out_dtype: Of the inputs and of the outputs.
        seed: Seed of the filler rows and permutations.
        evidence: Backend, architecture, configuration, inputs (fixture id), versions.
        judgement: "forward_invariance" or "gradient_invariance".
        op: Name of the operator, or None for a kernel or callable given as such.
    """

    passed: bool
    transforms: tuple[TransformResult, ...]
    active: tuple[int, ...]
    shape: tuple[int, int, int]
    dtype: str
    out_dtype: str
    seed: int
    evidence: Evidence
    judgement: str = JUDGEMENTS[0]
    op: str | None = None

    def __getitem__(self, name: str) -> TransformResult:
        for transform in self.transforms:
            if transform.name == name:
                return transform
        raise KeyError(f"{name!r} was not run; this result has {[t.name for t in self.transforms]}")

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for t in self.transforms:
            at = t.first_mismatch or {}
            rows.append(
                {
                    "name": t.name,
                    "passed": t.passed,
                    "relation": t.relation,
                    "cases": t.cases,
                    "elements": t.elements,
                    "mismatches": t.mismatches,
                    "first_case": at.get("case", ""),
                    "first_row": at.get("row", ""),
                    "first_vocab_id": at.get("vocab_id", ""),
                    "expected_bits": at.get("expected_bits", ""),
                    "got_bits": at.get("got_bits", ""),
                }
            )
        return rows

    def _repr_html_(self) -> str:
        """Fewer, wider columns than `rows`: a person reads this, pandas reads those."""
        shown = []
        for t in self.transforms:
            at = t.first_mismatch
            first = (
                f"{at['case']}: {place(at)}, {at['expected_bits']} became {at['got_bits']}"
                if at
                else "none"
            )
            shown.append(
                {
                    "transform": f"{t.name} {t.relation}",
                    "verdict": "passed" if t.passed else "failed",
                    "differ": f"{t.mismatches:,} of {t.elements:,}",
                    "first mismatch": first,
                }
            )
        return html_table(shown, self.title())

    def title(self) -> str:
        n, h, v = self.shape
        e = self.evidence
        who = " ".join(part for part in (e.target, e.backend, e.arch) if part)
        verdict = "every bit equal" if self.passed else "bits differ"
        what = "Gradient invariance" if self.judgement == JUDGEMENTS[1] else "Invariance"
        return f"{what} of {who} at {n} x {h} x {v}, {self.dtype}: {verdict}"


def place(at: dict[str, Any]) -> str:
    """Where a first mismatch stands, for people: "row 3, id 17" or "row 3, channel 5"."""
    if at["column_name"] == VOCAB_ID:
        return f"row {at['row']}, id {at['vocab_id']}"
    target = "" if at["vocab_id"] is None else f" of id {at['vocab_id']}"
    return f"row {at['row']}, {at['column_name']} {at['column']}{target}"


@torch.no_grad()
def invariance(
    fn: Callable[..., Any],
    hidden: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    transforms: Sequence[str] = TRANSFORMS,
    *,
    row_inputs: Sequence[torch.Tensor] = (),
    seed: int = SEED,
    sizes: Sequence[int] = SIZES,
    position_sizes: Sequence[int] = POSITION_SIZES,
    chunks: Sequence[int] = CHUNKS,
    max_blocks: Sequence[int] = MAX_BLOCKS,
    repeats: int = 3,
    max_active: int = 8,
    out_dtype: torch.dtype | None = None,
    leading_dims: bool | None = None,
    row_shape: Sequence[int] | None = None,
    columns: str | Sequence[str] = VOCAB_ID,
    judgement: str = JUDGEMENTS[0],
    op: str | None = None,
) -> InvarianceResult:
    """Whether each row of `fn(hidden, weight)` keeps its bits under the transforms of a batch.

    Whatever has rows can be judged: logits and a target, a gradient and its upstream. What belongs
    to a row is given as `row_inputs` and moves with its row.

    Args:
        fn: A kernel, or any callable (hidden [N, H], weight [V, H], *row_inputs) -> [N, V]. It is
            given `bias=` and `out_dtype=` only where they are not None, and `out=` (T7) only where
            its signature has a parameter of that name. Only the rows of the result are judged: what
            sums over rows (the gradient of the weight) depends on the batch by its nature.
        hidden: [..., H]. Up to `max_active` rows, evenly spread, are compared; the others
            (or random ones where there are none) fill the batches.
        weight: [V, H], or None: `fn` is called as fn(hidden, *row_inputs).
        bias: [V] or None.
        transforms: Some of "T1" … "T7"; see `RELATIONS`.
        row_inputs: Tensors [..., *any] with the leading dims of hidden. In rows that are made up,
            floats are random (NaN and Inf where the rows are), whole numbers are drawn from those
            given (so a target stays a valid one).
        seed: Of random neighbours and permutations.
        sizes: Batch sizes of T1.
        position_sizes: Batch sizes of T2.
        chunks: Chunk sizes of T5.
        max_blocks: Block counts of T5, for a kernel with `rebuild`. Its other constants that decide
            no bits are varied too; () leaves out every other build.
        repeats: Repeats of T7.
        max_active: How many rows are compared, at most.
        out_dtype: Dtype asked of the callable, or None for its own choice.
        leading_dims: Whether T4 and T6 also call it with [B, S, H]. None: where `hidden` has
            leading dims itself, or `fn` is a kernel.
        row_shape: Shape of one row's result; None: [V] where there is a weight and nothing else,
            otherwise whatever the first call returns.
        columns: What the last dimension of a row's result counts ("vocab_id", "channel"), or names,
            one for each of its elements ("logp", "lse").
        judgement: "forward_invariance" or "gradient_invariance": what the result is called.
        op: Name of the operator, for the result.

    Raises:
        InputError: Shapes that do not fit, no rows, unknown transform, or a callable that changes
            its inputs or whose result has another shape than [..., *row_shape].

    Example:
        >>> def per_row(hidden, weight):
        ...     return torch.stack([(weight.double() * row.double()).sum(-1) for row in hidden])
        >>> invariance(per_row, torch.ones(3, 8), torch.ones(5, 8), sizes=(1, 2, 5)).passed
        True
        >>> def picked(logits, target):
        ...     return logits.gather(-1, target.unsqueeze(-1))
        >>> logits, target = torch.randn(6, 9), torch.tensor([0, 8, 3, 1, 1, 7])
        >>> invariance(picked, logits, row_inputs=[target], transforms="T6").passed
        True
    """
    names = (transforms,) if isinstance(transforms, str) else tuple(transforms)
    _check(hidden, weight, names, max_active, row_inputs, judgement)
    n, leading = hidden.shape[:-1].numel(), hidden.shape[:-1]
    given = tuple(
        tensor.detach().reshape(n, *tensor.shape[len(leading) :])
        for tensor in (hidden, *row_inputs)
    )
    picked = torch.linspace(0, n - 1, min(max_active, n)).long()
    rest = torch.ones(n, dtype=torch.bool)
    rest[picked] = False
    call = {"bias": bias, "out_dtype": out_dtype}
    if leading_dims is None:
        leading_dims = hidden.ndim > 2 or hasattr(fn, "rebuild") or hasattr(fn, "launch")
    if row_shape is None and weight is not None and not row_inputs:
        row_shape = (len(weight),)
    bench = Bench(
        fn=fn,
        weight=weight,
        active=tuple(tensor[picked] for tensor in given),
        filler=tuple(tensor[rest] for tensor in given),
        leading=leading_dims,
        call={k: v for k, v in call.items() if v is not None},
        generator=torch.Generator().manual_seed(seed),
        drawn_from=given,
        row_shape=None if row_shape is None else tuple(row_shape),
    )
    if not len(bench.filler[0]):
        bench.filler = bench.noise(16)
    # Cloned one by one: a callable may hand out the same buffer every time.
    alone = (bench.run(take(bench.active, slice(i, i + 1))) for i in range(bench.total))
    bench.baseline = torch.cat([out.detach().clone() for out in alone])
    if not bench.baseline.numel():
        raise InputError(
            f"a row's result has shape {list(bench.row_shape or ())}: nothing to judge"
        )
    targets = next((t for t in bench.active[1:] if _is_target(t)), None)
    naming = _Naming(picked.tolist(), leading, columns, targets)
    found = tuple(
        _judge(
            name,
            cases(
                name,
                bench,
                sizes=sizes,
                position_sizes=position_sizes,
                chunks=chunks,
                max_blocks=max_blocks,
                repeats=repeats,
            ),
            bench.baseline,
            naming,
        )
        for name in names
    )
    return InvarianceResult(
        passed=all(t.passed for t in found),
        transforms=found,
        active=tuple(picked.tolist()),
        shape=(n, given[0].shape[1], bench.baseline[0].numel()),
        dtype=str(hidden.dtype).removeprefix("torch."),
        out_dtype=str(bench.baseline.dtype).removeprefix("torch."),
        seed=seed,
        evidence=evidence(fn, hidden, weight, bias, *row_inputs),
        judgement=judgement,
        op=op,
    )


def _is_target(tensor: torch.Tensor) -> bool:
    return tensor.ndim == 1 and not tensor.is_floating_point()


def _check(
    hidden: torch.Tensor,
    weight: torch.Tensor | None,
    names: tuple[str, ...],
    max_active: int,
    row_inputs: Sequence[torch.Tensor],
    judgement: str,
) -> None:
    unknown = [name for name in names if name not in RELATIONS]
    if unknown or not names:
        given = f"transform {', '.join(unknown)} is unknown" if unknown else "no transform is given"
        raise InputError(f"{given}; known ones are {', '.join(TRANSFORMS)}")
    if judgement not in JUDGEMENTS:
        raise InputError(f"judgement={judgement!r}; known: {', '.join(JUDGEMENTS)}")
    fits = weight is None or (weight.ndim == 2 and hidden.shape[-1:] == weight.shape[-1:])
    if hidden.ndim < 1 or not fits:
        raise InputError(
            f"hidden {list(hidden.shape)} and weight {[] if weight is None else list(weight.shape)}"
            " do not fit; wanted [..., H] and [V, H] with the same H"
        )
    for i, tensor in enumerate(row_inputs):
        if tensor.shape[: hidden.ndim - 1] != hidden.shape[:-1]:
            raise InputError(
                f"row_inputs[{i}] has shape {list(tensor.shape)}; wanted the leading dims of "
                f"hidden, {list(hidden.shape[:-1])}, and then anything"
            )
    columns = hidden.shape[-1] if weight is None else len(weight)
    if not hidden.shape[:-1].numel() or not columns or max_active < 1:
        raise InputError(
            f"hidden {list(hidden.shape)}, weight {[] if weight is None else list(weight.shape)}, "
            f"max_active={max_active}: nothing would be compared. Give at least one row and one "
            "column"
        )


@dataclass(frozen=True)
class _Naming:
    """How a mismatch is named: by row of hidden, leading dims, column."""

    picked: list[int]
    leading: torch.Size
    columns: str | Sequence[str]
    targets: torch.Tensor | None  # [A], of the active rows

    def __call__(self, active: int, column: int) -> dict[str, Any]:
        row = self.picked[active]
        index = torch.unravel_index(torch.tensor(row), self.leading) if self.leading else ()
        name = self.columns if isinstance(self.columns, str) else self.columns[column]
        vocab_id: int | None = None
        if name == VOCAB_ID:
            vocab_id = column
        elif self.targets is not None:
            vocab_id = int(self.targets[active])
        return {
            "row": row,
            "index": [int(i) for i in index],
            "column": column,
            "column_name": name,
            VOCAB_ID: vocab_id,
        }


def _judge(
    name: str, found: Iterator[Case], baseline: torch.Tensor, naming: _Naming
) -> TransformResult:
    count = failed = elements = mismatches = 0
    first: dict[str, Any] | None = None
    for case in found:
        which = list(case.which)
        expected = baseline[which].reshape(len(which), -1)
        got = case.got.reshape(len(which), -1)
        compared = compare_bits(expected, got)
        count += 1
        elements += compared.elements
        if compared.equal:
            continue
        failed += 1
        mismatches += compared.mismatches
        differ = raw_bits(expected) != raw_bits(got)
        # Rows of a case stand in the case's order; the first is by row of `hidden`.
        k = min(differ.any(1).nonzero().flatten().tolist(), key=lambda at: which[at])
        column = int(differ[k].to(torch.uint8).argmax())
        at = naming(which[k], column)
        if first is None or (at["row"], column) < (first["row"], first["column"]):
            first = {
                "case": case.label,
                **at,
                "expected_bits": hex_bits(expected[k, column]),
                "got_bits": hex_bits(got[k, column]),
            }
    return TransformResult(name, RELATIONS[name], count, failed, elements, mismatches, first)
