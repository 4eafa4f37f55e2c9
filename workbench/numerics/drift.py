"""Drift: how far a kernel's logits are from the exact ones, and from `torch.mv`'s.

Bits are judged in `invariance`; here it is distance. `torch.mv` is itself a sum in some order, so
its own error against the exact value always stands beside the kernel's distance from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.errors import InputError
from workbench.evidence import Evidence, evidence, raw_bits
from workbench.numerics.exact import exact_linear
from workbench.numerics.ulp import ulp
from workbench.ops.precision import full_fp32

_AGAINST = ("exact", "torch.mv")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


@dataclass(frozen=True)
class DriftComparison(Result):
    """One candidate against one reference, over all N x V outputs.

    Both sides are values of the output dtype, except "exact", which is fp64. NaN and Inf are not
    hidden: they are counted in `nonfinite` and pass into the aggregates.

    Attributes:
        candidate, reference: "kernel", "torch.mv" or "exact".
        max_abs, mean_abs, rms: Of candidate - reference, in units of the logits.
        max_ulp: Largest |error| in ULP (of the output dtype) of the sum of |x w| of that output.
            The ULP of the result itself would mean nothing where terms cancel.
        differing: Outputs whose bits differ from the reference rounded to the output dtype.
        outputs: N x V.
        nonfinite: Outputs where the error is NaN or Inf.
        worst: `row`, `vocab_id`, `candidate`, `reference`, `error` at the largest |error|.
        errors: candidate - reference, fp64 [N, V]; not in the dict.
    """

    candidate: str
    reference: str
    max_abs: float
    mean_abs: float
    rms: float
    max_ulp: float
    differing: int
    outputs: int
    nonfinite: int
    worst: dict[str, Any]
    errors: np.ndarray = field(repr=False, compare=False, metadata={"json": False})

    def rows(self) -> list[dict[str, Any]]:
        entry = self.to_dict()
        worst = entry.pop("worst")
        return [entry | {"worst_row": worst["row"], "worst_vocab_id": worst["vocab_id"]}]


@dataclass(frozen=True)
class DriftResult(Result):
    """What `drift` measured; `result["kernel", "exact"]` is one comparison.

    Attributes:
        comparisons: One `DriftComparison` for each pair that was asked for.
        shape: [N, H, V].
        dtype, out_dtype: Of the inputs and of the kernel's output.
        evidence: Backend, architecture, configuration, inputs, versions.
    """

    comparisons: tuple[DriftComparison, ...]
    shape: tuple[int, int, int]
    dtype: str
    out_dtype: str
    evidence: Evidence

    def __getitem__(self, pair: tuple[str, str]) -> DriftComparison:
        for comparison in self.comparisons:
            if (comparison.candidate, comparison.reference) == tuple(pair):
                return comparison
        known = ", ".join(f"{c.candidate!r} against {c.reference!r}" for c in self.comparisons)
        raise KeyError(f"{pair!r} was not compared; this result has {known}")

    def rows(self) -> list[dict[str, Any]]:
        return [row for comparison in self.comparisons for row in comparison.rows()]

    def title(self) -> str:
        n, h, v = self.shape
        where = self.evidence.backend or self.evidence.target
        arch = f" {self.evidence.arch}" if self.evidence.arch else ""
        return f"Drift of {where}{arch} at {n} x {h} x {v}, {self.dtype} -> {self.out_dtype}"


@torch.no_grad()
def drift(
    kernel: Callable[..., torch.Tensor],
    hidden: torch.Tensor,
    weight: torch.Tensor,
    against: Sequence[str] = _AGAINST,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> DriftResult:
    """Distance of `kernel(hidden, weight)` from the exact logits and from per-row `torch.mv`.

    "exact" is an fp64 product of the same inputs (fp32 products are exact in it; its own error is
    2^-29 of an fp32 one). "torch.mv" is `torch.mv(weight, row)` in fp32 for each row, plus bias,
    rounded once to the output dtype; it needs an fp32 copy of the weight, since chunks of the
    vocabulary would change its order. With "torch.mv" its own error against exact comes along.

    Args:
        kernel: A kernel, or any callable (hidden, weight) -> [..., V]. It is given `bias=` and
            `out_dtype=` only where they are not None.
        hidden: [..., H], any float dtype.
        weight: [V, H], same dtype.
        against: "exact", "torch.mv" or both.
        bias: [V] or None.
        out_dtype: Dtype asked of the kernel, or None for its own choice.

    Raises:
        InputError: Shapes or dtypes that do not fit, nothing to compare, unknown reference.

    Example:
        >>> hidden, weight = torch.ones(2, 8), torch.ones(3, 8)
        >>> drift(lambda h, w: h @ w.T, hidden, weight)["kernel", "exact"].max_abs
        0.0
    """
    against = (against,) if isinstance(against, str) else tuple(against)
    _check(hidden, weight, bias, against)
    given = {"bias": bias, "out_dtype": out_dtype}
    out = kernel(hidden, weight, **{k: v for k, v in given.items() if v is not None})
    rows = hidden.detach().reshape(hidden.shape[:-1].numel(), hidden.shape[-1])
    n, v = len(rows), len(weight)
    if tuple(out.shape) != (*hidden.shape[:-1], v) or out.dtype not in _FLOATS:
        raise InputError(
            f"the kernel returned {list(out.shape)} {out.dtype}; wanted floats of shape "
            f"{[*hidden.shape[:-1], v]}: [..., V] for hidden [..., H] and weight [V, H]"
        )
    out = out.detach().reshape(n, v).cpu()
    exact, scale = exact_linear(rows, weight, bias)
    spacing = ulp(scale, out.dtype)
    comparisons = []
    if "exact" in against:
        comparisons.append(_compare("kernel", out, "exact", exact, spacing))
    if "torch.mv" in against:
        mv = _per_row_mv(rows, weight, bias).to(out.dtype)
        comparisons.append(_compare("kernel", out, "torch.mv", mv, spacing))
        comparisons.append(_compare("torch.mv", mv, "exact", exact, spacing))
    return DriftResult(
        comparisons=tuple(comparisons),
        shape=(n, rows.shape[1], v),
        dtype=_name(hidden.dtype),
        out_dtype=_name(out.dtype),
        evidence=evidence(kernel, hidden, weight, bias),
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    against: tuple[str, ...],
) -> None:
    unknown = [name for name in against if name not in _AGAINST]
    if unknown or not against:
        raise InputError(
            f"against={against!r} names {unknown or 'nothing'}; give one or both of {_AGAINST}"
        )
    if hidden.dtype not in _FLOATS or weight.dtype not in _FLOATS:
        raise InputError(
            f"hidden is {hidden.dtype} and weight {weight.dtype}; drift takes "
            f"{', '.join(map(_name, _FLOATS))}"
        )
    if hidden.ndim < 1 or weight.ndim != 2 or hidden.shape[-1] != weight.shape[-1]:
        raise InputError(
            f"hidden {list(hidden.shape)} and weight {list(weight.shape)} do not fit; "
            "wanted [..., H] and [V, H] with the same H"
        )
    if bias is not None and tuple(bias.shape) != (len(weight),):
        raise InputError(f"bias is {list(bias.shape)}; wanted [V] = [{len(weight)}]")
    if not hidden.shape[:-1].numel() or not len(weight):
        raise InputError("there are no outputs to measure; give at least one row and one column")


def _per_row_mv(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    wide, matrix = rows.cpu().float(), weight.detach().cpu().float().contiguous()
    # Alignment in memory changes the library's bits: a clone is aligned, wherever its row stands.
    with full_fp32("cpu"):
        out = torch.stack([torch.mv(matrix, row.clone()) for row in wide])
    return out if bias is None else out + bias.detach().cpu().float()


def _compare(
    candidate: str, got: torch.Tensor, reference: str, wanted: torch.Tensor, spacing: torch.Tensor
) -> DriftComparison:
    error = got.double() - wanted.double()
    size = error.abs()
    # argmax takes the first NaN if there is one: that is the worst place.
    row, column = divmod(int(size.argmax()), size.shape[1])
    differ = raw_bits(wanted.to(got.dtype)) != raw_bits(got)
    return DriftComparison(
        candidate=candidate,
        reference=reference,
        max_abs=float(size.max()),
        mean_abs=float(size.mean()),
        rms=float(size.square().mean().sqrt()),
        max_ulp=float((size / spacing).max()),
        differing=int(differ.sum()),
        outputs=size.numel(),
        nonfinite=int((~torch.isfinite(size)).sum()),
        worst={
            "row": row,
            "vocab_id": column,
            "candidate": float(got[row, column]),
            "reference": float(wanted[row, column]),
            "error": float(error[row, column]),
        },
        errors=error.numpy(),
    )
