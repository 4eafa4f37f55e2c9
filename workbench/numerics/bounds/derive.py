"""How far a sum in a known order can be from the exact one: three bounds for each logit.

Nothing here is fitted or measured. Each bound follows from the order, from the inputs and from
IEEE arithmetic (fp32, round to nearest, subnormals kept).
"""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from workbench._result import Result, html_table
from workbench.errors import InputError
from workbench.evidence import Evidence, evidence
from workbench.numerics.bounds.parts import (
    DIGITS,
    KINDS,
    Side,
    U,
    output_rounding,
    rounding_to,
    unfused,
)
from workbench.numerics.bounds.warnings import doubts
from workbench.numerics.operands import check_tensors
from workbench.orders.tree import ReductionTree

ANY_ORDER = ("any order", "torch.mv", "torch.matmul", "F.linear")  # references of unknown order
PRODUCTS = ("auto", "rounded", "exact")

_OUT = (torch.float32, torch.bfloat16, torch.float16)
_HOLDS = {
    "worst_case": "always, at these depths",
    "running": "always, in this order",
    "probabilistic": "roundings as if independent",
}


@dataclass(frozen=True)
class Bounds(Result):
    """Bounds on |candidate - reference| for each of the N x V outputs.

    Attributes:
        worst_case, running, probabilistic: fp64 [N, V], in units of the logits. Inf where nothing
            is promised: an operand is not finite, or a partial sum or the output may overflow.
        exact: Exact values (an fp64 product), fp64 [N, V].
        scale: Σ|x w| (+ |b|), fp64 [N, V].
        partials: Σ|s_k| over the partial sums, fp64 [N, V].
        max_partial: The largest |s_k| or |x w|, fp64 [N, V].
        delta: The probabilistic bound may be exceeded anywhere with this probability.
        shape: [N, H, V].
        dtype, out_dtype: Of the inputs and of the output.
        products: How the products are taken: "rounded", "exact", or "fused" (n of H).
        reference: "exact", the name of an unknown order, a dtype, or "tree " and its hash.
        tree_hash, height: Of the order.
        unbounded: Outputs whose bound is Inf.
        warnings: Why the roundings may not behave as independent; empty where nothing was seen.
        evidence: Inputs and versions.
    """

    delta: float
    shape: tuple[int, int, int]
    dtype: str
    out_dtype: str
    products: str
    reference: str
    tree_hash: str
    height: int
    unbounded: int
    warnings: tuple[str, ...]
    evidence: Evidence
    worst_case: np.ndarray = field(repr=False, compare=False, metadata={"json": False})
    running: np.ndarray = field(repr=False, compare=False, metadata={"json": False})
    probabilistic: np.ndarray = field(repr=False, compare=False, metadata={"json": False})
    exact: np.ndarray = field(repr=False, compare=False, metadata={"json": False})
    scale: np.ndarray = field(repr=False, compare=False, metadata={"json": False})
    partials: np.ndarray = field(repr=False, compare=False, metadata={"json": False})
    max_partial: np.ndarray = field(repr=False, compare=False, metadata={"json": False})

    def get(self, kind: str) -> np.ndarray:
        """The bound of that kind, fp64 [N, V].

        Raises:
            InputError: No such kind.
        """
        if kind not in KINDS:
            raise InputError(f"there is no bound {kind!r}; give one of {', '.join(KINDS)}")
        return getattr(self, kind)

    @property
    def basis(self) -> str:
        """The kind a verdict rests on: the smallest one that holds without a probability."""
        return "running"

    @property
    def trusted(self) -> tuple[str, ...]:
        """The kinds a verdict may rest on: the probabilistic one only without a warning."""
        return KINDS[:2] if self.warnings else KINDS

    def ratio(self, errors: Any) -> dict[str, float]:
        """The largest |error| / bound of each kind; above 1 the bound is violated.

        Outputs without a bound are left out. A NaN where there is a bound gives Inf.

        Args:
            errors: candidate - reference, [N, V] or [..., V], numpy or torch.
        """
        found = self._ratios(errors)
        return {kind: float(ratio.max(initial=0.0)) for kind, ratio in found.items()}

    def violations(self, errors: Any) -> dict[str, int]:
        """The number of outputs whose |error| is above the bound, of each kind."""
        return {kind: int((ratio > 1).sum()) for kind, ratio in self._ratios(errors).items()}

    def _ratios(self, errors: Any) -> dict[str, np.ndarray]:
        given = errors.detach().cpu().double().numpy() if hasattr(errors, "detach") else errors
        size = np.abs(np.asarray(given, np.float64))
        n, _, v = self.shape
        if size.shape[-1:] != (v,) or size.size != n * v:
            raise InputError(
                f"errors have shape {list(size.shape)}; these bounds are of {n} x {v} outputs. "
                "Give candidate - reference as [N, V]"
            )
        size, judged = size.reshape(n, v), np.isfinite(self.running)
        found = {}
        for kind in KINDS:
            error, bound = size[judged], self.get(kind)[judged]
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                ratio = np.where(error == 0, 0.0, error / bound)
            found[kind] = np.where(np.isnan(ratio), np.inf, ratio)
        return found

    def rows(self) -> list[dict[str, Any]]:
        rows = []
        for kind in KINDS:
            finite = np.isfinite(self.get(kind))
            bound, scale = self.get(kind)[finite], self.scale[finite]
            relative = bound[scale > 0] / scale[scale > 0]
            rows.append(
                {
                    "bound": kind,
                    "median": _median(bound),
                    "max": float(bound.max(initial=0.0)),
                    "median / (u scale)": _median(relative / U),
                    "holds": _HOLDS[kind],
                    "may carry a verdict": kind in self.trusted,
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"basis": self.basis, "bounds": self.rows()}

    def _repr_html_(self) -> str:
        listed = "".join(f"<li>{html.escape(w)}</li>" for w in self.warnings)
        title = self.title().splitlines()[0]
        return html_table(self.rows(), title) + (f"<ul>{listed}</ul>" if listed else "")

    def title(self) -> str:
        n, h, v = self.shape
        text = (
            f"Bounds of {n} x {h} x {v}, {self.dtype} -> {self.out_dtype}, order {self.tree_hash} "
            f"(height {self.height}), products {self.products}, against {self.reference}; "
            f"a verdict rests on {self.basis}"
        )
        if self.unbounded:
            text += f"; {self.unbounded} outputs without a bound"
        return "\n".join([text, *(f"warning: {w}" for w in self.warnings)])


@torch.no_grad()
def bounds(
    tree: ReductionTree,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    delta: float = 1e-3,
    *,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.float32,
    fused: bool | np.ndarray = False,
    reference: ReductionTree | torch.dtype | str | None = None,
    products: str = "auto",
) -> Bounds:
    """Bounds on the error of logits whose products are added in the order of `tree`.

    Write u = 2^-24, p_i the exact products, s_k the partial sums at the inner nodes, d_i the number
    of roundings that product i goes through (its depth; one more where the product is rounded, and
    one more with a bias), γ_k = k u / (1 - k u). Every rounding is off by at most u times its own
    result, so the error of a sum is the sum of the local errors. Then

    * worst_case = Σ γ_{d_i} |p_i|, which is at most γ_{h+1} Σ|p_i| for a tree of height h;
    * running = u (Σ|s_k| + Σ|p_i|), the sums as computed. The s_k are those of our own evaluation,
      with rounded products. Another evaluation of the same order has others, by at most
      2 c / (1 - c) of Σ|s_k| + Σ|p_i| together, c = (h + 1) u, so u times that is added: the bound
      is proved, not of first order only;
    * probabilistic = u sqrt(2 ln(2 m / delta)) sqrt(Σ s_k² + Σ p_i²) for m outputs (Hallman and
      Ipsen), to first order, for roundings that behave as independent ones of mean zero. Nowhere
      above `running`, which is nowhere above `worst_case`.

    To each is added: 2^-150 for each product that may underflow; (n + 2) 2^-53 Σ|p_i|, what the
    fp64 product that stands for the exact value may be off; one rounding to `out_dtype`; and the
    reference's own bound. Where fp32 or the output may overflow the bound is Inf.

    Products of fp16 and bf16 numbers are exact in fp32 (bf16: above 2^-134, and below they are off
    by 2^-150), so Σ|p_i| and Σ p_i² go; likewise where a product is fused into its
    first addition.

    Args:
        tree: The order over the H products; a node of more than two children is rounded once.
        hidden: [..., H] fp32, bf16 or fp16, H the tree's number of leaves.
        weight: [V, H] likewise.
        delta: Probability that the probabilistic bound is exceeded anywhere, in (0, 1).
        bias: [V], added once after the sum, or None.
        out_dtype: fp32, bf16 or fp16: what the fp32 sum is rounded to.
        fused: Which products go unrounded into their first addition: a bool mask [H]; or True for
            all that can (all but the lowest-numbered of a binary node that adds two products).
        reference: What the candidate is compared with. None or "exact": the exact value. A
            `torch.dtype`: the exact value rounded to it. A `ReductionTree`: the same sum in that
            order, rounded to `out_dtype`. "any order", "torch.mv", "torch.matmul" or "F.linear": an
            fp32 sum in an order nobody knows, rounded to `out_dtype`, which has a worst-case bound
            only (γ_n Σ|p_i|), in all three kinds.
        products: "rounded" or "exact" instead of what the dtypes say ("auto").

    Raises:
        InputError: Shapes, dtypes or options that do not fit.
        WorkbenchError: This thread flushes subnormals to zero.

    Example:
        >>> x, w = torch.full((1, 4), 0.1), torch.ones(2, 4)
        >>> found = bounds(ReductionTree.from_nested([[0, 1], [2, 3]]), x, w)
        >>> error = (x @ w.T).double().numpy() - found.exact
        >>> found.violations(error)["running"], found.worst_case.shape, found.basis
        (0, (1, 2), 'running')
    """
    rows = _checked(tree, hidden, weight, bias, delta, out_dtype, products)
    x, w = rows.float().numpy(), weight.detach().cpu().float().numpy()
    b = None if bias is None else bias.detach().cpu().double().numpy()
    digits = DIGITS[hidden.dtype] + DIGITS[weight.dtype]
    wide = digits > DIGITS[torch.float32]  # what fp32 does not hold
    round_ = wide if products == "auto" else products == "rounded"
    # Either of two orders may exceed its probabilistic bound.
    share = delta / 2 if isinstance(reference, ReductionTree) else delta
    side = Side(tree, x, w, b, share, unfused(tree, fused) & round_, digits)
    exact = side.exact
    found = side.bounds(out_dtype)
    warnings = doubts(tree, x, w, side.own_error(), wide)
    name = "exact"
    if isinstance(reference, ReductionTree):
        _check_leaves(reference, x.shape[1], "reference")
        every = np.full(x.shape[1], round_)
        other = Side(reference, x, w, b, share, every, digits)
        found = {kind: found[kind] + off for kind, off in other.bounds(out_dtype).items()}
        more = doubts(reference, x, w, other.own_error(), wide)
        warnings += tuple(f"reference: {text}" for text in more if text not in warnings)
        name = f"tree {reference.hash}"
    elif isinstance(reference, torch.dtype):
        if reference not in (*_OUT, torch.float64):
            raise InputError(f"reference={reference} is no dtype of a logit; give one of {_OUT}")
        name = _name(reference)
        if reference != torch.float64:
            found = {k: f + rounding_to(reference, np.abs(exact)) for k, f in found.items()}
    elif isinstance(reference, str) and reference in ANY_ORDER:
        off = side.any_order()
        off = off + output_rounding(out_dtype, np.abs(exact) + off)
        found, name = {kind: f + off for kind, f in found.items()}, str(reference)
    elif reference is not None and not (isinstance(reference, str) and reference == "exact"):
        raise InputError(
            f"reference={reference!r:.80} is none of: None, 'exact', a tree, a torch.dtype, "
            f"{', '.join(map(repr, ANY_ORDER))}"
        )
    unbounded = ~(np.isfinite(exact) & np.isfinite(found["running"]))
    for kind in KINDS:
        found[kind][unbounded] = np.inf
    return Bounds(
        **found,
        exact=exact,
        scale=side.scale,
        partials=side.parts.total,
        max_partial=side.parts.largest,
        delta=float(delta),
        shape=(len(x), x.shape[1], len(w)),
        dtype=_name(hidden.dtype),
        out_dtype=_name(out_dtype),
        products=side.products,
        reference=name,
        tree_hash=tree.hash,
        height=tree.height,
        unbounded=int(unbounded.sum()),
        warnings=warnings,
        evidence=evidence(bounds, hidden, weight, bias),
    )


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if values.size else float("nan")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check_leaves(tree: ReductionTree, h: int, what: str) -> None:
    if tree.leaves != h:
        raise InputError(
            f"{what} adds {tree.leaves} terms and hidden has width {h}; take the order for n={h}"
        )


def check_delta(delta: float) -> None:
    """Raise InputError unless `delta` is a number between 0 and 1."""
    if not (isinstance(delta, (int, float, np.floating)) and 0 < delta < 1):
        raise InputError(f"delta={delta!r} is a probability; wanted a number between 0 and 1")


def _checked(
    tree: ReductionTree,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    delta: float,
    out_dtype: torch.dtype,
    products: str,
) -> torch.Tensor:
    """`hidden` as [N, H] on the CPU, after a look at everything."""
    if not isinstance(tree, ReductionTree):
        raise InputError(f"tree is a {type(tree).__name__}; wanted a ReductionTree")
    check_tensors(hidden)
    check_tensors(weight, "weight", bias=bias)
    for name, tensor in (("hidden", hidden), ("weight", weight)):
        if tensor.dtype not in DIGITS:
            raise InputError(
                f"{name} has dtype {tensor.dtype}; these bounds are of fp32, bf16, fp16"
            )
    if hidden.ndim < 1 or weight.ndim != 2 or hidden.shape[-1] != weight.shape[1]:
        raise InputError(
            f"hidden is {list(hidden.shape)} and weight {list(weight.shape)}; wanted [..., H] and "
            "[V, H] of one H"
        )
    _check_leaves(tree, hidden.shape[-1], "tree")
    if bias is not None and (tuple(bias.shape) != (len(weight),) or bias.dtype not in DIGITS):
        raise InputError(
            f"bias is {list(bias.shape)} {bias.dtype}; wanted [{len(weight)}] in fp32, bf16 or fp16"
        )
    check_delta(delta)
    if out_dtype not in _OUT:
        raise InputError(f"out_dtype={out_dtype!r}; wanted one of {', '.join(map(_name, _OUT))}")
    if products not in PRODUCTS:
        raise InputError(f"products={products!r}; wanted one of {', '.join(PRODUCTS)}")
    lead = hidden.shape[:-1].numel()
    return hidden.detach().cpu().reshape(lead, hidden.shape[-1])
