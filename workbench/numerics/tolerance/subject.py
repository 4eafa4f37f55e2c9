"""What `tolerance` judges: an operator's outputs, what they are compared with, and how far a
correct kernel may be from that.

| operator | hidden | weight | outputs |
|---|---|---|---|
| lm_head | [..., H] | [V, H] | logits [N, V] |
| det_gemm | a [M, K] | b transposed, [N, K] | [M, N] |
| batch_invariant_logp | logits [..., V] | None | logp [N, 1] of the rows that are not ignored |
| linear_logp | [..., H] | [V, H] | logp [N, 1] likewise |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from workbench.errors import InputError
from workbench.numerics.bounds import KINDS, bounds
from workbench.numerics.bounds.linear_logp import log_prob_bound
from workbench.numerics.bounds.parts import any_order, output_rounding
from workbench.numerics.exact import exact_linear
from workbench.numerics.operands import Operands
from workbench.ops import registry
from workbench.ops.inputs import IGNORE_INDEX
from workbench.ops.native import NativeLMHeadOp
from workbench.orders.declared import declared_order
from workbench.orders.tree import ReductionTree

REFERENCES = ("exact", "torch.mv")

_LOGP = ("batch_invariant_logp", "linear_logp")
_CANDIDATE = "the candidate"


@dataclass(frozen=True, eq=False)
class Subject:
    """Outputs and their bounds, C of them a row.

    Attributes:
        got: [N, C], as the candidate returned them.
        reference: fp32 [N, C], what the pass rule compares them with.
        bounds: By kind, fp64 [N, C]: how far a correct kernel is from `reference` at most.
        order: The order of summation in words.
        tree_hash: Its hash; None if no order is known.
        reference_text: What the reference is, and what its own error counts as.
        shape: (N, terms of a sum, C).
        warnings: What weakens the bounds.
    """

    got: torch.Tensor
    reference: torch.Tensor
    bounds: dict[str, torch.Tensor]
    order: str
    tree_hash: str | None
    reference_text: str
    shape: tuple[int, int, int]
    warnings: tuple[str, ...]


def subject(
    fn: Callable[..., Any],
    op: str,
    hidden: torch.Tensor,
    weight: torch.Tensor | None,
    target: torch.Tensor | None,
    bias: torch.Tensor | None,
    tree: ReductionTree | str | None,
    reference: str | ReductionTree,
    delta: float,
    out_dtype: torch.dtype | None,
) -> Subject:
    """The outputs of `fn` with their reference and bounds; arguments as in `tolerance`."""
    _check(fn, op, hidden, weight, target, bias, reference)
    if op in _LOGP:
        assert target is not None
        return _log_prob(fn, op, hidden, weight, target, bias, tree, delta, out_dtype)
    assert weight is not None
    return _linear(fn, op, hidden, weight, bias, tree, reference, delta, out_dtype)


def _check(
    fn: Any,
    op: str,
    hidden: torch.Tensor,
    weight: torch.Tensor | None,
    target: torch.Tensor | None,
    bias: torch.Tensor | None,
    reference: str | ReductionTree,
) -> None:
    if op not in registry.ops():
        raise InputError(f"op {op!r} is unknown; known: {', '.join(registry.ops())}")
    if hidden.ndim < 1:
        raise InputError("hidden has no dimension; give [..., H]")
    built = getattr(getattr(fn, "spec", None), "op", op)
    if built != op:
        raise InputError(f"the kernel is one of {built}, and op={op!r}; give op={built!r}")
    if (weight is None) != (op == "batch_invariant_logp"):
        text = "takes logits and no weight" if weight is not None else "needs a weight [V, H]"
        raise InputError(f"{op} {text}; hidden is {list(hidden.shape)}")
    if (target is None) != (op not in _LOGP):
        raise InputError(f"{op} {'needs a target [...]' if target is None else 'has no target'}")
    if bias is not None and op not in ("lm_head", "linear_logp"):
        raise InputError(f"{op} has no bias; leave it out")
    if weight is not None and (weight.ndim != 2 or weight.shape[-1] != hidden.shape[-1]):
        raise InputError(
            f"hidden {list(hidden.shape)} and weight {list(weight.shape)} do not fit; wanted "
            "[..., H] and [V, H] with the same H (of det_gemm b transposed, [N, K])"
        )
    if weight is not None and weight.dtype != hidden.dtype:
        raise InputError(
            f"hidden is {hidden.dtype} and weight {weight.dtype}; give one dtype, or dtype=… to "
            "convert both"
        )
    wanted = None if weight is None else (len(weight),)
    if bias is not None and (tuple(bias.shape) != wanted or bias.dtype != hidden.dtype):
        raise InputError(
            f"bias is {list(bias.shape)} {bias.dtype}; wanted [V] = {wanted} {hidden.dtype}"
        )
    if isinstance(reference, ReductionTree):
        if op in _LOGP:
            raise InputError(f"a reference's order is for sums of products; {op} takes 'exact'")
    elif reference not in REFERENCES or (op in _LOGP and reference != "exact"):
        known = ("exact",) if op in _LOGP else REFERENCES
        raise InputError(
            f"reference={reference!r}: {op} is compared with {' or '.join(map(repr, known))}"
            + ("" if op in _LOGP else ", or with a sum in the order of a ReductionTree")
        )
    if not hidden.numel() or (weight is not None and not weight.numel()):
        raise InputError("there are no outputs to judge; give at least one row and one column")


# ---- sums of products ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Order:
    """An order of summation, or that none is known (`tree` None)."""

    tree: ReductionTree | None
    text: str
    warnings: tuple[str, ...] = ()

    @property
    def hash(self) -> str | None:
        return None if self.tree is None else self.tree.hash


def _linear(
    fn: Callable[..., Any],
    op: str,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    tree: ReductionTree | str | None,
    reference: str | ReductionTree,
    delta: float,
    out_dtype: torch.dtype | None,
) -> Subject:
    width = hidden.shape[-1]
    rows = hidden.detach().reshape(-1, width)
    inputs = (hidden, weight) if op == "lm_head" else (rows, weight.T)
    operands = Operands(hidden=hidden, weight=weight, bias=bias)
    got = _outputs(_called(fn, operands, out_dtype, *inputs, bias=bias), len(rows), len(weight))
    rows, weight = rows.cpu(), weight.detach().cpu()
    bias = None if bias is None else bias.detach().cpu()
    order = _order(fn, op, width, tree, len(rows), len(weight))
    other = reference if isinstance(reference, ReductionTree) else None
    exact, bounded, warnings = _bounded(order, rows, weight, bias, got.dtype, delta, other)
    if isinstance(reference, ReductionTree):
        wanted = _in_order(reference, rows, weight, bias).to(got.dtype).float()
        own = torch.zeros_like(exact)
        text = f"sums in the order {reference.hash[:6]} (their own bound counts)"
    elif reference == "torch.mv":
        # Its order may differ from row to row, but its values are here, and so are their errors.
        wanted = NativeLMHeadOp().forward_fp32(rows, weight, bias).to(got.dtype).float()
        own = (wanted.double() - exact).abs()
        text = "torch.mv of each row (its own error counts)"
    else:
        wanted = exact.float()  # the pass rule is one of fp32
        own = (wanted.double() - exact).abs()
        text = "the exact values (fp64)"
    return Subject(
        got=got,
        reference=wanted,
        bounds={kind: bound + own for kind, bound in bounded.items()},
        order=order.text,
        tree_hash=order.hash,
        reference_text=text,
        shape=(len(rows), width, len(weight)),
        warnings=warnings,
    )


def _order(
    fn: Any, op: str, n: int, tree: ReductionTree | str | None, rows: int, columns: int
) -> _Order:
    """The order of a sum of n products in a call with that many rows and columns."""
    warnings: tuple[str, ...] = ()
    if isinstance(tree, ReductionTree):
        found, how = tree, "given"
    elif tree == "reveal":
        found, how = _revealed(fn, op, n, rows, columns), "revealed"
        if getattr(fn, "config", None) is None:
            warnings = (
                "the order was revealed of row 0, with fp32 inputs and as many columns as there "
                "were probes: where the function sums other outputs, shapes or dtypes in another "
                "order, these bounds do not hold",
            )
    elif tree is None and getattr(fn, "config", None) is not None:
        found, how = declared_order(op, fn.config, n), "declared"
    elif tree in (None, "any"):
        return _Order(None, f"any order of {n} terms")
    else:
        raise InputError(f"tree={tree!r}: give a ReductionTree, 'reveal', 'any' or nothing")
    if found.leaves != n:
        raise InputError(f"the tree adds {found.leaves} terms and the sums here have {n}")
    return _Order(found, f"{how}, {found.height} additions deep, {found.hash[:6]}", warnings)


def _revealed(fn: Any, op: str, n: int, rows: int, columns: int) -> ReductionTree:
    from workbench.orders.reveal import RevealError, reveal

    if getattr(fn, "config", None) is not None:
        return reveal(fn, n)

    def first_row(terms: torch.Tensor) -> torch.Tensor:
        # A library chooses its code by the number of rows, so the probes have as many.
        ones = torch.ones(rows, n)
        return fn(ones, terms if op == "lm_head" else terms.T)[0]

    first_row.__name__ = getattr(fn, "__name__", type(fn).__name__)  # named in messages
    try:
        return reveal(first_row, n, array="torch")
    except RevealError as error:
        if error.reason != "rows not independent":
            raise
        # Its own advice is for `reveal`, whose rows are our columns.
        weight = "terms" if op == "lm_head" else "terms.T"
        raise RevealError(
            f"tree='reveal': {str(error).partition('. ')[0]} (rows are columns here). "
            "Take the order of this call and give it: "
            f'tree=wb.reveal("F.linear", {n}, rows={rows}, columns={columns}) for a function of '
            f"the library, or tree=wb.reveal(lambda terms: fn(torch.ones({rows}, {n}), "
            f'{weight})[0], {n}, rows={columns}, array="torch") for one of your own; or leave tree '
            "out for the worst case over all orders",
            error.reason,
        ) from error


def _bounded(
    order: _Order,
    rows: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    out_dtype: torch.dtype,
    delta: float,
    reference: ReductionTree | None = None,
) -> tuple[torch.Tensor, dict[str, torch.Tensor], tuple[str, ...]]:
    """Exact sums [N, V], by kind the bound on their error, and warnings.

    Rounding to `out_dtype` is in the bound, and that of a reference in another order.
    """
    if order.tree is not None:
        found = bounds(
            order.tree, rows, weight, delta, bias=bias, out_dtype=out_dtype, reference=reference
        )
        by_kind = {kind: torch.from_numpy(found.get(kind)) for kind in KINDS}
        return torch.from_numpy(found.exact), by_kind, order.warnings + found.warnings
    exact, scale = exact_linear(rows, weight, bias)
    n = rows.shape[1]
    off = any_order(scale.numpy(), n + (bias is not None), n)
    off = off + output_rounding(out_dtype, exact.abs().numpy() + off)
    if reference is not None:
        off = off + bounds(reference, rows, weight, bias=bias, out_dtype=out_dtype).worst_case
    warning = (
        f"no order is known: the bound is the worst case over all orders of {n} terms, in fp32 "
        "and rounded once at the end. Give tree=…, or tree='reveal'"
    )
    return exact, {"worst_case": torch.from_numpy(off)}, (warning,)


def _called(
    fn: Any, operands: Operands, out_dtype: torch.dtype | None, *args: Any, **given: Any
) -> torch.Tensor:
    """`fn(*args)` without a graph; fp32 results of an operator come from its `forward_fp32`."""
    if out_dtype == torch.float32 and hasattr(fn, "forward_fp32"):
        return operands.call(_CANDIDATE, fn.forward_fp32, *args, **given)
    return operands.call(_CANDIDATE, fn, *args, **given, out_dtype=out_dtype)


def _outputs(got: Any, rows: int, columns: int) -> torch.Tensor:
    if not isinstance(got, torch.Tensor) or got.numel() != rows * columns:
        shape = list(got.shape) if isinstance(got, torch.Tensor) else type(got).__name__
        raise InputError(f"the candidate returned {shape}; wanted {rows} x {columns} outputs")
    if got.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise InputError(f"the candidate returned {got.dtype}; the rule compares fp32, bf16, fp16")
    # A copy: a kernel may write its next result into the same buffer.
    return got.detach().reshape(rows, columns).to("cpu", copy=True)


def _in_order(
    tree: ReductionTree, rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
) -> torch.Tensor:
    from workbench.orders.dot import dot

    matrix, wide = weight.float().numpy(), rows.float().numpy()
    out = torch.from_numpy(dot(tree, matrix, wide)).T
    return out if bias is None else out + bias.float()


# ---- log-probs -----------------------------------------------------------------------------------


def _log_prob(
    fn: Any,
    op: str,
    hidden: torch.Tensor,
    weight: torch.Tensor | None,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    tree: ReductionTree | str | None,
    delta: float,
    out_dtype: torch.dtype | None,
) -> Subject:
    if tuple(target.shape) != tuple(hidden.shape[:-1]):
        raise InputError(f"target is {list(target.shape)}; wanted {list(hidden.shape[:-1])}")
    if out_dtype not in (None, torch.float32):
        raise InputError(f"out_dtype={out_dtype}: log-probs are fp32")
    if isinstance(tree, str) and tree != "any":
        raise InputError(f"tree={tree!r}: of log-probs give a ReductionTree, 'any' or nothing")
    ids = target.detach().reshape(-1).cpu().long()
    active = (ids != IGNORE_INDEX).nonzero().flatten()
    if not len(active):
        raise InputError("every target is ignored: there is no log-prob to judge")
    rows = hidden.detach().reshape(len(ids), -1)
    inputs = (hidden, target) if weight is None else (hidden, weight, target)
    operands = Operands(hidden=hidden, weight=weight, target=target, bias=bias)
    got = operands.call(_CANDIDATE, fn, *inputs, bias=bias)
    got = _outputs(got[0] if isinstance(got, tuple) else got, len(ids), 1)[active]
    rows, ids = rows.cpu()[active], ids[active]

    vocab = rows.shape[1] if weight is None else len(weight)
    if bool(((ids < 0) | (ids >= vocab)).any()):
        raise InputError(f"a target is outside [0, {vocab}) and not {IGNORE_INDEX}")
    config = getattr(fn, "logp_config", None) or getattr(fn, "config", None)
    given_order = tree if weight is None else (tree if tree == "any" else None)
    sums, known = _softmax_height(config, vocab, given_order)
    warnings: tuple[str, ...] = ()
    tree_hash, terms = None, vocab
    if weight is None:
        exact = rows.double()
        off = {"worst_case": torch.zeros_like(exact)}  # the logits are inputs
        order = f"exponentials: {known}"
    else:
        terms = rows.shape[1]
        logits = _order(fn, "lm_head", terms, tree, len(ids), vocab)
        weight, bias = weight.detach().cpu(), None if bias is None else bias.detach().cpu()
        # In between the logits are rounded to the inputs' dtype.
        exact, off, warnings = _bounded(logits, rows, weight, bias, hidden.dtype, delta)
        order, tree_hash = f"logits: {logits.text}; exponentials: {known}", logits.hash
    bounded = {kind: log_prob_bound(exact, e, ids, sums) for kind, e in off.items()}
    wanted = next(iter(bounded.values()))[0]
    reference = wanted.float()
    own = (reference.double() - wanted).abs()
    return Subject(
        got=got,
        reference=reference[:, None],
        bounds={kind: (bound + own)[:, None] for kind, (_, bound) in bounded.items()},
        order=order,
        tree_hash=tree_hash,
        reference_text="the exact values (fp64)",
        shape=(len(ids), terms, 1),
        warnings=warnings,
    )


def _softmax_height(config: Any, vocab: int, tree: ReductionTree | str | None) -> tuple[int, str]:
    """Height of the sum of exponentials, and where it is from."""
    if isinstance(tree, ReductionTree):
        if tree.leaves != vocab:
            raise InputError(f"the tree adds {tree.leaves} terms and there are {vocab} logits")
        return tree.height, f"given, {tree.height} additions deep"
    if tree is None and config is not None:
        height = declared_order("batch_invariant_logp", config, vocab).height
        return height, f"declared, {height} additions deep"
    return vocab - 1, f"any order of {vocab} terms"
