"""What the bounds of a sum are made of: sizes of its partial sums, for every output.

The order is executed in fp32, many outputs at a time. Which evaluation of the order it is (fused or
not, rounded once or twice) moves the sizes by a factor 1 + O(h u), which `bounds` pays for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from workbench.errors import InputError
from workbench.numerics.exact import exact_product
from workbench.orders.dot import exact_products, pairs_of_leaves
from workbench.orders.tree import ReductionTree
from workbench.orders.tree.execute import Schedule, check_terms, schedule
from workbench.orders.tree.layout import Layout

KINDS = ("worst_case", "running", "probabilistic")
U = 2.0**-24  # unit roundoff of fp32
HALF_TINY = 2.0**-150  # half the smallest subnormal of fp32: what a product may lose to underflow
WIDE = 2.0**-53  # unit roundoff of fp64, in which the bounds are computed
DIGITS = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}  # bits of the significand

_VALUES_BYTES = 4 << 20  # values of all nodes of the outputs in work; measured best near this
_WEIGHT_ROWS = 1024  # rows of the weight that are widened at a time
_BLOCK_BYTES = 1 << 18  # fp64 copy of some nodes: stays in the processor's cache


@dataclass(frozen=True)
class Parts:
    """Sizes of the partial sums s_k at the inner nodes, fp64 [N, V].

    Attributes:
        total: Σ|s_k|.
        squares: Σ s_k².
        largest: The largest of |s_k| and of the |p_i|.
        root: The sum itself as fp32 in this order gives it (without bias).
    """

    total: np.ndarray
    squares: np.ndarray
    largest: np.ndarray
    root: np.ndarray


def parts(tree: ReductionTree, rows: np.ndarray, weight: np.ndarray) -> Parts:
    """Execute `tree` on the products of each row with each weight row.

    Args:
        tree: The order over H terms; nodes of any arity.
        rows: fp32 [N, H].
        weight: fp32 [V, H].

    Returns:
        `Parts` of [N, V]. Inf or NaN where fp32 overflows on the way.

    Raises:
        WorkbenchError: This thread flushes subnormals to zero.
    """
    check_terms(rows, tree.leaves)
    n, v = len(rows), len(weight)
    found = Parts(*(np.zeros((n, v)) for _ in range(4)))
    if not (n and v and tree.leaves):
        return found
    plan = plan_of(tree)
    slots, root = len(plan.slot), int(plan.slot[-1])
    room = max(1, _VALUES_BYTES // (4 * slots))
    across = min(v, room)  # outputs of one hidden row
    down = min(n, max(1, room // across))  # hidden rows at a time, where V is small
    values = np.empty(slots * across * down, np.float32)
    by_leaf_x = np.ascontiguousarray(rows.T)
    for first in range(0, v, across):
        by_leaf_w = np.ascontiguousarray(weight[first : first + across].T)
        for top in range(0, n, down):
            x = by_leaf_x[:, top : top + down]
            shape = (x.shape[1], by_leaf_w.shape[1])
            part = values[: slots * shape[0] * shape[1]].reshape(slots, -1)
            with np.errstate(all="ignore"):  # Inf and NaN are told by the result
                leaves = part[: tree.leaves].reshape(tree.leaves, *shape)
                np.multiply(x[:, :, None], by_leaf_w[:, None, :], out=leaves)
                execute(plan, part)
                sizes = _sizes(part, tree.leaves)
            at = (slice(top, top + shape[0]), slice(first, first + shape[1]))
            for name, size in zip(("total", "squares", "largest"), sizes, strict=True):
                getattr(found, name)[at] = size.reshape(shape)
            found.root[at] = part[root].reshape(shape)
    return found


def plan_of(tree: ReductionTree) -> Schedule:
    """The additions of `tree` in steps; children of a node stand before it."""
    return schedule(Layout(tree.leaves, tree.children, tree.offsets))


def execute(plan: Schedule, part: np.ndarray) -> None:
    """Fill the inner nodes of `part` [slots, columns] from its leaves, in its dtype."""
    for step in plan.steps:
        step(part)


def _sizes(part: np.ndarray, leaves: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Σ|s|, Σ s² of the inner nodes and the largest |value| of all, summed in fp64."""
    columns = part.shape[1]
    total, squares = np.zeros(columns), np.zeros(columns)
    largest = np.maximum(part[:leaves].max(0), -part[:leaves].min(0)).astype(np.float64)
    step = max(1, _BLOCK_BYTES // (8 * columns))
    wide = np.empty((step, columns))
    for start in range(leaves, len(part), step):
        some = part[start : start + step]
        block = wide[: len(some)]
        np.abs(some, out=block)
        total += block.sum(0)
        np.maximum(largest, block.max(0), out=largest)
        np.multiply(block, block, out=block)
        squares += block.sum(0)
    return total, squares, largest


# ---- the bounds of one sum -----------------------------------------------------------------------


class Side:
    """The bounds of one fp32 sum against the fp64 one, with the rounding to the output's dtype.

    `rounded` tells for each product whether it is rounded before its first addition; `digits` is
    the length of a product's significand.
    """

    def __init__(
        self,
        tree: ReductionTree,
        x: np.ndarray,
        w: np.ndarray,
        bias: np.ndarray | None,
        delta: float,
        rounded: np.ndarray,
        digits: int,
    ) -> None:
        self.tree, self.rounded, self.bias, self.delta = tree, rounded, bias, delta
        self.n = x.shape[1]
        tx, tw = torch.from_numpy(x), torch.from_numpy(w)
        exact, scale = exact_product(tx, tw)
        self.sum, self.sizes = exact.numpy(), scale.numpy()  # without the bias
        self.own = self.parts = parts(tree, x, w)
        self.exact, self.scale = self.sum, self.sizes
        self.worst = _weighted(tx, tw, gamma(tree.depths() + rounded + (bias is not None)))
        if bias is not None:
            self._add(bias)
        self.product_sizes = self.sizes
        if not rounded.all():
            self.product_sizes = _weighted(tx, tw, rounded.astype(np.float64))
        self.all_squares = self.product_squares = np.zeros_like(self.sizes)
        if digits > DIGITS[torch.float32]:
            self.all_squares = self.product_squares = _squares(tx, tw, np.ones(self.n))
            if not rounded.all():
                self.product_squares = _squares(tx, tw, rounded.astype(np.float64))
        # Exact values are fp64 sums: γ of n additions, and of the bias.
        self.own64 = (self.n + 2) * WIDE * self.scale
        # The last bit of a product this large is a subnormal of fp32 at least: nothing underflows.
        safe = _least(x) * _least(w) >= 2.0 ** (digits - 150)
        self.underflow = 0.0 if safe else self.n * HALF_TINY

    def _add(self, bias: np.ndarray) -> None:
        self.exact, self.scale = self.sum + bias, self.sizes + np.abs(bias)
        self.worst += gamma(np.ones(1)) * np.abs(bias)
        with np.errstate(over="ignore", invalid="ignore"):
            last = self.own.root.astype(np.float32) + bias.astype(np.float32)
        last = np.abs(last.astype(np.float64))
        self.parts = Parts(
            self.own.total + last,
            self.own.squares + last**2,
            np.maximum(np.maximum(self.own.largest, last), np.abs(bias)),
            self.own.root,
        )

    @property
    def products(self) -> str:
        kept = int((~self.rounded).sum())
        return f"{kept} of {self.n} fused" if 0 < kept < self.n else "exact" if kept else "rounded"

    def own_error(self) -> np.ndarray:
        """The error of our own evaluation over u sqrt(Σ s_k² + Σ p_i²); 0 where there is none."""
        spread = U * np.sqrt(self.own.squares + self.all_squares)
        with np.errstate(all="ignore"):
            error = np.abs(self.own.root - self.sum) - self.own64
            return np.where(error > 0, error / spread, 0.0)

    def bounds(self, out_dtype: torch.dtype) -> dict[str, np.ndarray]:
        """The three bounds with the rounding to `out_dtype`."""
        height = self.tree.height + 1 + (self.bias is not None)
        c = height * U
        c = 2 * c / (1 - c)
        slack = 1 + 4 * (self.tree.leaves + 8) * WIDE  # of the fp64 sums in this module
        with np.errstate(all="ignore"):
            everything = self.parts.total + self.sizes
            running = U * (self.parts.total + self.product_sizes + c * everything)
            running = slack * (running + (1 + c) * self.underflow)
            likely = np.sqrt(2 * np.log(2 * max(self.sum.size, 1) / self.delta))
            worst = slack * (self.worst + (1 + c) * self.underflow)
            running = np.minimum(running, worst)  # terms of one sign: equal to first order
            likely = U * likely * np.sqrt(self.parts.squares + self.product_squares)
            likely = np.minimum(slack * (likely + self.underflow), running)
            most = self.parts.largest + 2 * running  # ours and theirs, each off by that
            fits = np.isfinite(self.exact) & (most <= torch.finfo(torch.float32).max)
            found = {}
            for kind, off in zip(KINDS, (worst, running, likely), strict=True):
                off = np.where(fits, off + self.own64, np.inf)
                found[kind] = off + output_rounding(out_dtype, np.abs(self.exact) + off)
        return found

    def any_order(self) -> np.ndarray:
        """The bound of the same sum in an order that is not known."""
        return any_order(self.scale, max(self.n, 1) + (self.bias is not None), self.n)


def any_order(scale: np.ndarray, roundings: int, products: int) -> np.ndarray:
    """The bound on an fp32 sum in an order that is not known, against the fp64 one.

    γ_n Σ|p_i| with n roundings at most on the way of a term, what products may lose to underflow,
    and what the fp64 sum may be off; Inf where a partial sum may overflow.

    Args:
        scale: fp64, Σ|x w| (+ |bias|).
        roundings: One product and all additions, with a bias one more.
        products: How many.
    """
    with np.errstate(all="ignore"):
        off = gamma(np.array(roundings)) * scale + 2 * products * HALF_TINY
        fits = scale + off <= torch.finfo(torch.float32).max
        return np.where(fits, off + (products + 2) * WIDE * scale, np.inf)


def gamma(steps: np.ndarray) -> np.ndarray:
    """k u / (1 - k u) of fp32 for an array of k: the relative error of k roundings in a row.

    Raises:
        InputError: k u >= 1, where nothing is known.

    Example:
        >>> gamma(np.array([0, 1])).tolist() == [0.0, 2**-24 / (1 - 2**-24)]
        True
    """
    if (steps * U >= 1).any():
        raise InputError(
            f"{int(steps.max())} roundings in a row have no bound in fp32; it takes fewer than 2^24"
        )
    return steps * U / (1 - steps * U)


def output_rounding(dtype: torch.dtype, size: np.ndarray) -> np.ndarray:
    """The error of rounding an fp32 value of at most `size`; Inf where it may overflow."""
    return np.zeros_like(size) if dtype == torch.float32 else rounding_to(dtype, size)


def rounding_to(dtype: torch.dtype, size: np.ndarray) -> np.ndarray:
    info = torch.finfo(dtype)
    unit, half_tiny = info.eps / 2, info.smallest_normal * info.eps / 2
    with np.errstate(all="ignore"):
        # Up to half a step above the largest number a value is still rounded down to it.
        fits = size < info.max * (1 + unit / 2)
        return np.where(fits, np.maximum(unit * size, half_tiny), np.inf)


# ---- products -----------------------------------------------------------------------------------


def _weighted(x: torch.Tensor, w: torch.Tensor, factors: np.ndarray) -> np.ndarray:
    """Σ_i factors_i |x_i w_i|, fp64 [N, V]."""
    return _product(x.double().abs() * torch.from_numpy(factors), w, torch.abs)


def _squares(x: torch.Tensor, w: torch.Tensor, factors: np.ndarray) -> np.ndarray:
    """Σ_i factors_i (x_i w_i)², fp64 [N, V]."""
    return _product(x.double() ** 2 * torch.from_numpy(factors), w, torch.square)


def _product(left: torch.Tensor, w: torch.Tensor, of: Callable[..., torch.Tensor]) -> np.ndarray:
    """`left @ of(w).T` in fp64; the weight is never widened as a whole."""
    found = torch.empty(len(left), len(w), dtype=torch.float64)
    for start in range(0, len(w), _WEIGHT_ROWS):
        rows = slice(start, start + _WEIGHT_ROWS)
        found[:, rows] = left @ of(w[rows].double()).T
    return found.numpy()


def _least(values: np.ndarray) -> float:
    """The smallest nonzero magnitude; 1 where there is none."""
    least = 1.0
    for start in range(0, len(values), _WEIGHT_ROWS):
        size = np.abs(values[start : start + _WEIGHT_ROWS])
        least = min(least, float(size[size > 0].min(initial=1.0)))
    return least


def unfused(tree: ReductionTree, fused: bool | np.ndarray) -> np.ndarray:
    """Which products are not fused into their first addition: bool [H]."""
    if isinstance(fused, (bool, np.bool_)):
        return ~fusable(tree) if fused else np.ones(tree.leaves, bool)
    return ~exact_products(tree, fused)


def fusable(tree: ReductionTree) -> np.ndarray:
    """The products that can go unrounded into their first addition: bool [leaves].

    A fused multiply-add takes one product, so of two products in one binary node the
    lowest-numbered is rounded first. A node of more children takes all exactly. A sum of one term
    is that product, rounded.

    Example:
        >>> fusable(ReductionTree.from_nested([[[0, 1], 2], 3])).tolist()
        [False, True, True, True]
    """
    mask = np.ones(tree.leaves, bool)
    if len(tree.offsets) < 2:
        return ~mask
    mask[pairs_of_leaves(tree).min(0)] = False
    return mask
