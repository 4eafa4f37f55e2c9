"""Products in fp64, and rounded once: what "exact" stands for wherever an error is measured.

Products of fp32, bf16 and fp16 numbers are exact in fp64, and a sum's own error is 2^-29 of that of
an fp32 sum. Where terms cancel beyond that, `rounded_linear` gives the exact value rounded once.
Chunks keep the fp64 copy of a large weight small.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from workbench._result import Result
from workbench.numerics.exact_sum import rounded_dot
from workbench.numerics.ulp import spacing

METHODS = ("fp64", "rounded")

_CHUNK_BYTES = 64 << 20  # fp64 copy of rows held at a time
_UNIT = 2.0**-53


def exact_product(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`a @ b.T` and the sums of |a b|, in fp64 on the CPU.

    Args:
        a: [M, K], any real dtype and strides.
        b: [N, K] likewise; never widened as a whole.

    Returns:
        (exact [M, N], scale [M, N]).

    Example:
        >>> [t.tolist() for t in exact_product(torch.tensor([[1.0, -2.0]]), torch.ones(1, 2))]
        [[[-1.0]], [[3.0]]]
    """
    wide = a.detach().cpu().double()
    size = wide.abs()
    exact = torch.empty(len(a), len(b), dtype=torch.float64)
    scale = torch.empty_like(exact)
    step = max(1, _CHUNK_BYTES // (8 * max(1, a.shape[1])))
    for start in range(0, len(b), step):
        part = b.detach()[start : start + step].cpu().double()
        exact[:, start : start + step] = wide @ part.T
        scale[:, start : start + step] = size @ part.abs().T
    return exact, scale


def exact_linear(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and the sums of |x w| (+ |b|), both fp64 [N, V].

    Args:
        rows: [N, H].
        weight: [V, H].
        bias: [V] or None.
    """
    exact, scale = exact_product(rows, weight)
    if bias is not None:
        exact += bias.detach().cpu().double()
        scale += bias.detach().cpu().double().abs()
    return exact, scale


def fp64_bound(scale: torch.Tensor, width: int) -> torch.Tensor:
    """How far the fp64 logits of `exact_linear` may be from the exact ones: gamma_n Σ|x w|.

    n = width + 1 roundings (products, sums and the bias) in any order, gamma_n = n u / (1 - n u)
    with u = 2^-53; absent overflow and, for fp64 inputs, products below 2^-1022.

    Args:
        scale: fp64, the sums of |x w|.
        width: H.

    Example:
        >>> float(fp64_bound(torch.ones(1), 4095)) == 2**12 * 2**-53 / (1 - 2**-41)
        True
    """
    return scale.double() * _gamma(width)


def _gamma(width: int) -> float:
    n = width + 1
    return n * _UNIT / (1 - n * _UNIT)


def rounded_linear(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> torch.Tensor:
    """Logits rounded once from their exact values to fp64: [N, V] on the CPU.

    About 10 ns a product on one core (fp64 inputs: 120 ns), so seconds for 160 x 576 x 4096.

    Args:
        rows: [N, H] fp32, bf16, fp16 or fp64.
        weight: [V, H] likewise.
        bias: [V] or None.

    Raises:
        WorkbenchError: This thread flushes subnormals to zero.

    Example:
        >>> rows = torch.tensor([[1e30, 1.0, -1e30]])
        >>> float(rounded_linear(rows, torch.ones(1, 3))), float(rows.double().sum())
        (1.0, 0.0)
    """
    out = np.empty((len(rows), len(weight)))
    given = [_numpy(row) for row in rows]
    step = max(1, _CHUNK_BYTES // (8 * max(1, rows.shape[1])))
    for start in range(0, len(weight), step):
        part = _numpy(weight[start : start + step])
        if bias is not None:  # one more product, by 1
            part = np.concatenate([part, _numpy(bias[start : start + step, None])], 1)
        for n, row in enumerate(given):
            row = row if bias is None else np.append(row, row.dtype.type(1))
            out[n, start : start + step] = rounded_dot(part, row)
    return torch.from_numpy(out)


def rounded_to(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """`values.to(dtype)` rounded once, to nearest, ties to even.

    torch takes fp64 to a 16-bit dtype through fp32 and so rounds twice: a value that is next to a
    midpoint of the 16-bit numbers, by less than fp32 shows, goes to the wrong side.

    Args:
        values: Any float dtype, on the CPU.
        dtype: fp64, fp32, bf16 or fp16.

    Example:
        >>> beside = torch.tensor([1 + 2**-8 + 2**-40], dtype=torch.float64)
        >>> rounded_to(beside, torch.bfloat16).tolist(), beside.to(torch.bfloat16).tolist()
        ([1.0078125], [1.0])
    """
    if values.dtype != torch.float64 or dtype not in (torch.bfloat16, torch.float16):
        return values.to(dtype)
    # To fp32 by rounding to odd: toward zero, and the last bit set where anything is lost. With
    # two bits more than the 16-bit format the second rounding is then the right one.
    narrow = values.float()
    wide = narrow.double()
    lost = (wide != values) & ~torch.isnan(values)
    bits = narrow.view(torch.int32) - (lost & (wide.abs() > values.abs())).to(torch.int32)
    return (bits | lost.to(torch.int32)).view(torch.float32).to(dtype)


def _numpy(tensor: torch.Tensor) -> np.ndarray:
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


@dataclass(frozen=True)
class ExactCheck(Result):
    """The fp64 logits beside their correctly rounded values, on some or all outputs.

    Attributes:
        method: "fp64" or "rounded": which of the two stands for "exact".
        own_error: The most the values used may be off: the largest bound over all outputs, in
            units of the logits.
        own_error_ulp: The same in ULP (of the output dtype) of Σ|x w| of each output.
        checked: Outputs on which both were computed: a sample, or all of them for "rounded".
        differing: Of those, how many round to another value in the output dtype; +0 and -0 are
            one value here.
        max_difference: The largest |fp64 - correctly rounded| among them.
        max_relative: The largest of those differences over |correctly rounded|; 1 or more: there
            fp64 has no correct digit.
        beyond_bound: How many of those differences are larger than the fp64 bound. It must be 0.
    """

    method: str
    own_error: float
    own_error_ulp: float
    checked: int
    differing: int
    max_difference: float
    max_relative: float
    beyond_bound: int


def check_exact(
    rows: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    fp64: torch.Tensor,
    scale: torch.Tensor,
    out_dtype: torch.dtype,
    *,
    at: torch.Tensor | None = None,
    rounded: torch.Tensor | None = None,
) -> ExactCheck:
    """Compare fp64 logits with their correctly rounded values.

    Args:
        rows, weight, bias: As in `exact_linear`, which gave `fp64` and `scale`.
        out_dtype: In whose bits and ULP a difference is told.
        at: int64, flat positions in [N, V] to check; or
        rounded: fp64 [N, V] of `rounded_linear`: check all of them, and judge the rounded values.

    Example:
        >>> rows, weight = torch.tensor([[1e30, 1.0, -1e30]]), torch.ones(1, 3)
        >>> found = check_exact(
        ...     rows, weight, None, *exact_linear(rows, weight), torch.float32, at=torch.arange(1)
        ... )
        >>> found.differing, found.max_difference, found.beyond_bound
        (1, 1.0, 0)
    """
    width = rows.shape[1]
    if rounded is None:
        assert at is not None
        right = _some(rows, weight, bias, at)
        got, size = fp64.flatten()[at], scale.flatten()[at]
    else:
        right, got, size = (t.flatten() for t in (rounded, fp64, scale))
    own = own_ulp = 0.0
    for k, row in enumerate(scale.numpy()):  # the units of all rows would take as much again
        bound = row * _gamma(width) if rounded is None else abs(rounded[k].numpy()) * _UNIT
        with np.errstate(invalid="ignore"):
            ratio = bound / spacing(row, out_dtype)
        own = max(own, float(bound[np.isfinite(bound)].max(initial=0)))
        own_ulp = max(own_ulp, float(ratio[np.isfinite(ratio)].max(initial=0)))
    finite = torch.isfinite(right)
    right, got, size = right[finite], got[finite], size[finite]
    off = (got - right).abs()
    relative = torch.where(off == 0, off, off / right.abs())
    return ExactCheck(
        method="fp64" if rounded is None else "rounded",
        own_error=own,
        own_error_ulp=own_ulp,
        checked=len(right),
        differing=int((rounded_to(got, out_dtype) != rounded_to(right, out_dtype)).sum()),
        max_difference=_largest(off),
        max_relative=_largest(relative),
        # the right value is itself rounded: half an ulp of it comes on top
        beyond_bound=int((off > fp64_bound(size, width) + right.abs() * _UNIT).sum()),
    )


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _some(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, at: torch.Tensor
) -> torch.Tensor:
    """Correctly rounded logits at flat positions of [N, V]."""
    row, column = at // len(weight), at % len(weight)
    a, b = _numpy(rows[row]), _numpy(weight[column])
    if bias is not None:
        b = np.concatenate([b, _numpy(bias[column, None])], 1)
        a = np.concatenate([a, np.ones((len(a), 1), a.dtype)], 1)
    return torch.from_numpy(np.asarray(rounded_dot(a, b)))
