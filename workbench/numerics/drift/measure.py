"""Drift: how far a kernel's logits are from the exact ones, and from `torch.mv`'s.

Bits are judged in `invariance`; here it is distance. `torch.mv` is itself a sum in some order, so
its own error against the exact value always stands beside the kernel's distance from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from workbench.errors import ConfigError, InputError
from workbench.evidence import evidence
from workbench.numerics.drift.views import (
    DriftComparison,
    DriftResult,
    DriftValues,
    differing,
    largest_places,
)
from workbench.numerics.exact import (
    METHODS,
    check_exact,
    exact_linear,
    rounded_linear,
    rounded_to,
)
from workbench.numerics.operands import Operands, check_tensors
from workbench.ops.native import NativeLMHeadOp
from workbench.ops.precision import full_fp32
from workbench.orders import declared_order
from workbench.orders.tree import ReductionTree

Logits = Callable[..., torch.Tensor]
Against = str | Mapping[str, Logits] | Sequence[str | Mapping[str, Logits]]

_AGAINST = ("exact", "torch.mv")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
_CHECKED = 64  # outputs whose fp64 value is checked against the correctly rounded one
_TERMS = 1 << 17  # products whose partial sums are held at a time: they stay in the cache


@torch.no_grad()
def drift(
    kernel: Logits,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    against: Against = _AGAINST,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    *,
    tree: ReductionTree | str | None = None,
    exact: str = "fp64",
) -> DriftResult:
    """Distance of `kernel(hidden, weight)` from the exact logits and from references.

    All three pairs are compared: kernel against exact, kernel against each reference, and each
    reference against exact. References are computed in fp32 from the same inputs and rounded once
    to the output dtype:

    * "torch.mv": `torch.mv(weight, row)` for each row on its own, plus bias;
    * "F.linear": `torch.nn.functional.linear` on all rows at once;
    * {"name": callable}: any other, called like the kernel.

    The first two need an fp32 copy of the weight: in chunks of the vocabulary the library may add
    in another order.

    Args:
        kernel: A kernel, or any callable (hidden, weight) -> [..., V]. It is given `bias=` and
            `out_dtype=` only where they are not None.
        hidden: [..., H], any float dtype.
        weight: [V, H], same dtype.
        against: "exact", "torch.mv", "F.linear", {name: callable}, or several of them.
        bias: [V] or None.
        out_dtype: Dtype asked of the kernel, or None for its own choice.
        tree: The kernel's order of summation, for errors in ULP of the largest partial sum: a
            `ReductionTree` over H terms, or "declared" for the one that a shipped kernel declares.
            None: that unit is not computed. It takes every partial sum again in numpy, 3 to 4
            ns a product: minutes at 59 x 4096 x 151,936.
        exact: "fp64": a product in fp64, whose own bound stands in `result.exact`, beside a check
            of 64 outputs against correctly rounded values. "rounded": the exact sums rounded once,
            for sums that cancel further than fp64 carries; some 10 ns a product.

    Raises:
        InputError: Shapes or dtypes that do not fit, nothing to compare, unknown reference, or a
            tree of another size.
        CandidateError: The kernel or a reference raised, or wrote into its operands.
        ConfigError: tree="declared" for something that is no shipped kernel.

    Example:
        >>> hidden, weight = torch.ones(2, 8), torch.ones(3, 8)
        >>> drift(lambda h, w: h @ w.T, hidden, weight)["kernel", "exact"].max_abs
        0.0
    """
    truth = Truth(hidden, weight, against, bias, exact)
    return judge(kernel, truth, out_dtype, tree)


class Truth:
    """Inputs with their exact logits and references, computed once for any number of kernels.

    Args:
        hidden, weight, against, bias, exact: As in `drift`.
    """

    def __init__(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        against: Against = _AGAINST,
        bias: torch.Tensor | None = None,
        exact: str = "fp64",
    ) -> None:
        self.wanted = _references(against)
        _check(hidden, weight, bias, exact)
        self.hidden, self.weight, self.bias = hidden, weight, bias
        self.operands = Operands(hidden=hidden, weight=weight, bias=bias)
        self.rows = hidden.detach().reshape(hidden.shape[:-1].numel(), hidden.shape[-1])
        self.fp64, self.scale = exact_linear(self.rows, weight, bias)
        self.rounded = rounded_linear(self.rows, weight, bias) if exact == "rounded" else None
        self.exact = self.fp64 if self.rounded is None else self.rounded
        sizes = (abs(row[np.isfinite(row)]).max(initial=0) for row in self.exact.numpy())
        self.peak = torch.tensor([*sizes], dtype=torch.float64)
        self._made: dict[Any, dict[str, torch.Tensor]] = {}

    def references(self, out_dtype: torch.dtype | None) -> dict[str, torch.Tensor]:
        """{name: [N, V]} as computed, for an output dtype (of which callables are told)."""
        if out_dtype not in self._made:
            matrix = None
            made = {}
            for name, fn in self.wanted.items():
                if fn is not None:
                    made[name] = run(fn, self, out_dtype, name)
                elif name != "exact":
                    if matrix is None:
                        matrix = self.weight.detach().cpu().float().contiguous()
                    wide = None if self.bias is None else self.bias.detach().cpu().float()
                    made[name] = _LIBRARY[name](self.rows.cpu().float(), matrix, wide)
            self._made[out_dtype] = made
        return self._made[out_dtype]


def judge(
    kernel: Logits,
    truth: Truth,
    out_dtype: torch.dtype | None = None,
    tree: ReductionTree | str | None = None,
) -> DriftResult:
    """The drift of one kernel from a `Truth`; `drift` is this with a truth of its own.

    Example:
        >>> truth = Truth(torch.ones(2, 8), torch.ones(3, 8), against="exact")
        >>> judge(torch.nn.functional.linear, truth)["kernel", "exact"].max_abs
        0.0
    """
    hidden, weight, bias, rows = truth.hidden, truth.weight, truth.bias, truth.rows
    order = _tree(tree, kernel, rows.shape[1])
    out = run(kernel, truth, out_dtype, "kernel")
    sides = {"kernel": out, "exact": truth.exact}
    for name, value in truth.references(out_dtype).items():
        sides[name] = rounded_to(value, out.dtype)
    largest = None if order is None else _largest(order, rows, weight, truth.exact)
    values = DriftValues(sides, truth.scale, largest, truth.peak, out.dtype)
    names = [name for name in truth.wanted if name != "exact"]
    pairs = [("kernel", "exact")] if "exact" in truth.wanted else []
    pairs += [pair for name in names for pair in (("kernel", name), (name, "exact"))]
    comparisons = tuple(_compare(values, pair) for pair in pairs)
    n, v = out.shape
    at = None if truth.rounded is not None else _telling(values, comparisons[0])
    return DriftResult(
        comparisons=comparisons,
        shape=(n, rows.shape[1], v),
        dtype=_name(hidden.dtype),
        out_dtype=_name(out.dtype),
        exact=check_exact(
            rows, weight, bias, truth.fp64, truth.scale, out.dtype, at=at, rounded=truth.rounded
        ),
        evidence=evidence(kernel, hidden, weight, bias),
        tree_hash=None if order is None else order.hash,
    )


def run(kernel: Logits, truth: Truth, out_dtype: torch.dtype | None, name: str) -> torch.Tensor:
    """Call `kernel` and return its logits as [N, V] on the CPU, checked for shape and dtype.

    They are a copy: a kernel may write its next result into the same buffer.
    """
    hidden, weight = truth.hidden, truth.weight
    who = "the kernel" if name == "kernel" else f"the reference {name!r}"
    out = truth.operands.call(who, kernel, hidden, weight, bias=truth.bias, out_dtype=out_dtype)
    wanted = (*hidden.shape[:-1], len(weight))
    if not isinstance(out, torch.Tensor) or tuple(out.shape) != wanted or out.dtype not in _FLOATS:
        shown = f"{list(out.shape)} {out.dtype}" if isinstance(out, torch.Tensor) else repr(out)
        raise InputError(
            f"{who} returned {shown:.80}; "
            f"wanted floats of shape {list(wanted)}: [..., V] for hidden [..., H], weight [V, H]"
        )
    return out.detach().reshape(-1, len(weight)).to("cpu", copy=True)


# ---- references ----------------------------------------------------------------------------------


def _linear(rows: torch.Tensor, matrix: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    # Alignment in memory changes the library's bits: a clone is aligned, wherever its row stands.
    with full_fp32("cpu"):
        return torch.nn.functional.linear(rows.contiguous().clone(), matrix, bias)


_LIBRARY: dict[str, Logits] = {
    "torch.mv": NativeLMHeadOp().forward_fp32,
    "F.linear": _linear,
}  # all in fp32


def _references(against: Against) -> dict[str, Logits | None]:
    """{name: callable}, None for the names that are known here."""
    items = (against,) if isinstance(against, (str, Mapping)) else tuple(against)
    found: dict[str, Logits | None] = {}
    for item in items:
        for name, fn in item.items() if isinstance(item, Mapping) else [(item, None)]:
            if fn is None and name not in ("exact", *_LIBRARY):
                raise InputError(
                    f"against={against!r} names {name!r}; known are 'exact', "
                    f"{', '.join(map(repr, _LIBRARY))}, and anything as {{name: callable}}"
                )
            if fn is not None and (name in ("kernel", "exact", *_LIBRARY) or not callable(fn)):
                raise InputError(
                    f"against gives {name!r}: {fn!r:.60}; wanted a callable under a name that is "
                    "not taken (kernel, exact, torch.mv, F.linear)"
                )
            found[name] = fn
    if not found:
        raise InputError(
            f"against={against!r} names nothing; give one or more of 'exact', "
            f"{', '.join(map(repr, _LIBRARY))}, or {{name: callable}}"
        )
    return found


def _tree(tree: ReductionTree | str | None, kernel: Logits, width: int) -> ReductionTree | None:
    if isinstance(tree, str):
        spec = getattr(kernel, "spec", None)
        if tree != "declared" or spec is None:
            raise ConfigError(
                f"tree={tree!r} for {kernel!r:.60}: only a shipped kernel declares its order. Give "
                "a ReductionTree, for example wb.declared_order(…) or wb.reveal(…)"
            )
        tree = declared_order(spec.op, kernel.config, width)  # type: ignore[attr-defined]
    if tree is not None and tree.leaves != width:
        raise InputError(
            f"the tree adds {tree.leaves} terms and a logit is a sum of H = {width}; give the "
            "order for this H"
        )
    return tree


# ---- measuring -----------------------------------------------------------------------------------


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _check(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, exact: str
) -> None:
    if exact not in METHODS:
        raise InputError(f"exact={exact!r} is unknown; give one of {', '.join(METHODS)}")
    check_tensors(hidden)
    check_tensors(weight, "weight", bias=bias)
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


def _largest(
    tree: ReductionTree, rows: torch.Tensor, weight: torch.Tensor, exact: torch.Tensor
) -> torch.Tensor:
    """The largest |number| that is rounded on the way to each logit: fp64 [N, V].

    Products and partial sums in the dtype of the sum (fp32; fp64 for fp64 inputs), and the logit.
    """
    wide = torch.float64 if torch.float64 in (rows.dtype, weight.dtype) else torch.float32
    found = exact.abs()
    step = max(1, _TERMS // max(1, rows.shape[1]))
    given = rows.cpu().to(wide).numpy()
    with np.errstate(all="ignore"):
        for start in range(0, len(weight), step):
            part = weight.detach()[start : start + step].cpu().to(wide).numpy()
            for n, row in enumerate(given):
                terms = part * row
                sums = tree.partial_sums(terms)
                both = [abs(x).max(1, initial=0).astype(np.float64) for x in (terms, sums)]
                place = found[n, start : start + step].numpy()
                np.maximum(place, np.maximum(*both), out=place)
    return found


def _telling(values: DriftValues, comparison: DriftComparison) -> torch.Tensor:
    """Positions in [N, V] whose exact value matters most: worst, most cancelled, and evenly."""
    n, v = values.scale.shape
    quarter = _CHECKED // 4
    places = [np.linspace(0, n * v - 1, 2 * quarter).astype(np.int64)]
    tops = [(np.empty(0), np.empty(0, np.int64)) for _ in range(2)]
    for rows in values.blocks():
        error = abs(values.error((comparison.candidate, "exact"), rows))
        with np.errstate(all="ignore"):
            lost = values.scale[rows].numpy() / abs(values.sides["exact"][rows].numpy())
        for k, key in enumerate((error, lost)):
            key = np.where(np.isnan(key), 0, key).ravel()
            best = largest_places(key, quarter)
            size = np.append(tops[k][0], key[best])
            place = np.append(tops[k][1], best + rows.start * v)
            keep = largest_places(size, quarter)
            tops[k] = size[keep], place[keep]
    places += [place for _, place in tops]
    return torch.from_numpy(np.unique(np.concatenate(places)))


def _compare(values: DriftValues, pair: tuple[str, str]) -> DriftComparison:
    n, v = values.scale.shape
    worst, at = -1.0, 0
    total = squares = finite_max = 0.0
    other = broken = 0
    units = dict.fromkeys((u for u in values.units() if u != "abs"), 0.0)
    with np.errstate(all="ignore"):
        for rows in values.blocks():
            size = abs(values.error(pair, rows))
            # argmax takes the first NaN if there is one: that is the worst place.
            place = int(size.argmax())
            top = float(size.flat[place])
            if not np.isnan(worst) and not top <= worst:
                worst, at = top, rows.start * v + place
            total += float(size.sum())
            squares += float(np.square(size).sum())
            finite = np.isfinite(size)
            broken += size.size - int(finite.sum())
            finite_max = max(finite_max, float(size.max(initial=0, where=finite)))
            other += int(differing(values, pair, rows).sum())
            for unit in units:
                largest = abs(values.in_unit(pair, unit, rows)).max()
                units[unit] = float(np.maximum(units[unit], largest))
    row, column = divmod(at, v)
    got, wanted = (values.sides[side][row, column] for side in pair)
    return DriftComparison(
        candidate=pair[0],
        reference=pair[1],
        max_abs=worst,
        mean_abs=total / (n * v),
        rms=(squares / (n * v)) ** 0.5,
        max_ulp=units["ulp"],
        max_partial_ulp=units.get("partial_ulp"),
        max_peak=units["peak"],
        max_finite=finite_max,
        differing=other,
        outputs=n * v,
        nonfinite=broken,
        worst={
            "row": row,
            "vocab_id": column,
            "candidate": float(got),
            "reference": float(wanted),
            "error": float(got.double() - wanted.double()),
        },
        values=values,
    )
