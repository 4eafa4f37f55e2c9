"""Mistakes that real kernels make, put into a correct LM-head result: what can a gate see?

A mutation recomputes the logits of `hidden @ weight.T + bias` in a given order of summation with
one thing wrong. Everything is evaluated in numpy in the order of the tree, so it is a model of the
kernel and not the kernel; tests/numerics/test_mutations.py holds some of them against the shipped
source with the same mistake, bit for bit.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.errors import InputError
from workbench.ops.inputs import NAMES
from workbench.orders.dot import fma, two_sum
from workbench.orders.tree import ReductionTree

_BLOCK_BYTES = 16 << 20  # products held at a time
LANES = 64  # fp32 elements of one repeat
DATA_BLOCK = 8  # fp32 elements of one 32-byte data block
KINDS = ("same", "correct", "wrong")


class NotApplicable(InputError):
    """This mutation means nothing for these inputs; the message says why."""


@dataclass(frozen=True)
class Setting:
    """A correct LM head: inputs, order, dtypes. Build one with `setting`.

    Attributes:
        hidden, weight, bias: fp32 numpy [N, H], [V, H], [V] or None: the inputs, widened.
        tree: The order of one logit.
        dtype, out_dtype: Of the inputs and of the outputs.
        tile: Elements of a tile, for mutations of the last one; None: the whole row.
        other: Another correct order of the same sum, for `other_tile`; None: not known.
        seed: Of whatever a mutation draws.
    """

    hidden: np.ndarray
    weight: np.ndarray
    bias: np.ndarray | None
    tree: ReductionTree
    dtype: torch.dtype
    out_dtype: torch.dtype
    tile: int | None = None
    other: ReductionTree | None = None
    seed: int = 0

    @property
    def width(self) -> int:
        return self.hidden.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.hidden), len(self.weight)

    @property
    def tail(self) -> slice:
        """The terms of the last, ragged repeat; of a whole one where none is ragged."""
        return slice(self.width - (self.width % LANES or min(LANES, self.width)), self.width)

    @property
    def last_tile(self) -> slice:
        tile = self.tile or self.width
        return slice((self.width - 1) // tile * tile, self.width)

    @property
    def chosen(self) -> int:
        """The term that some mutations drop or count twice."""
        return int(np.random.default_rng(self.seed).integers(self.width))

    @functools.cached_property
    def sums(self) -> np.ndarray:
        """The correct fp32 sums before the bias [N, V]; never written into."""
        found = sums(self)
        found.flags.writeable = False
        return found


def setting(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    tree: ReductionTree,
    *,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    tile: int | None = None,
    other: ReductionTree | None = None,
    seed: int = 0,
) -> Setting:
    """The correct computation that mutations start from.

    Args:
        hidden: [N, H] fp32, bf16 or fp16.
        weight: [V, H] likewise.
        tree: A binary order of H terms.
        bias: [V] likewise, or None; added in fp32 after the sum.
        out_dtype: None (the inputs' dtype) or torch.float32.
        tile, other, seed: As in `Setting`.

    Raises:
        InputError: Shapes or dtypes that do not fit, no output, or a tree that is not binary.
    """
    if hidden.dtype not in NAMES or weight.dtype != hidden.dtype:
        raise InputError(
            f"hidden is {hidden.dtype} and weight {weight.dtype}; wanted both in one of "
            f"{', '.join(NAMES.values())}"
        )
    out = hidden.dtype if out_dtype is None else out_dtype
    if out not in (hidden.dtype, torch.float32):
        raise InputError(f"out_dtype={out}: the LM head returns {hidden.dtype} or torch.float32")
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1]:
        raise InputError(
            f"hidden {list(hidden.shape)} and weight {list(weight.shape)} do not fit; wanted "
            "[N, H] and [V, H] with the same H"
        )
    if not len(hidden) or not len(weight) or not hidden.shape[1]:
        raise InputError("there is nothing to mutate: give at least one row, column and term")
    if bias is not None and (tuple(bias.shape) != (len(weight),) or bias.dtype != hidden.dtype):
        raise InputError(
            f"bias is {list(bias.shape)} {bias.dtype}; wanted [{len(weight)}] {hidden.dtype}"
        )
    for order in (tree, other):
        if order is not None and (order.leaves != hidden.shape[1] or order.arity > 2):
            raise InputError(
                f"the order has {order.leaves} leaves and arity {order.arity}; wanted a binary "
                f"order of H = {hidden.shape[1]} terms"
            )
    wide = [None if t is None else t.detach().cpu().float().numpy() for t in (hidden, weight, bias)]
    assert wide[0] is not None and wide[1] is not None
    return Setting(wide[0], wide[1], wide[2], tree, hidden.dtype, out, tile, other, seed)


# ---- evaluation ------------------------------------------------------------------------------

Terms = Callable[[np.ndarray, int, slice], np.ndarray]  # products [v, H], row, columns -> terms
Add = Callable[[np.ndarray, np.ndarray], np.ndarray]


def sums(
    case: Setting,
    terms: Terms | None = None,
    tree: ReductionTree | None = None,
    add: Add | None = None,
) -> np.ndarray:
    """The fp32 sums [N, V] before the bias: products rounded to fp32, then the order of the tree.

    Args:
        case: Inputs and order.
        terms: Changes the products of one row and some columns.
        tree: Another order.
        add: Another addition for every node, [.., R] and [.., R] -> [.., R].
    """
    order = case.tree if tree is None else tree
    out = np.empty(case.shape, np.float32)
    with np.errstate(all="ignore"):
        for row, columns in _blocks(case):
            products = case.hidden[row] * case.weight[columns]
            if terms is not None:
                products = terms(products, row, columns)
            total = order.sum(products) if add is None else _walk(order, products, add)
            out[row, columns] = total
    return out


def _blocks(case: Setting) -> Iterator[tuple[int, slice]]:
    rows, columns = case.shape
    step = max(1, _BLOCK_BYTES // (4 * case.width))
    for row in range(rows):
        for start in range(0, columns, step):
            yield row, slice(start, min(start + step, columns))


def _walk(tree: ReductionTree, terms: np.ndarray, add: Add) -> np.ndarray:
    """`tree.sum` with an addition of one's own."""
    values = np.empty((tree.leaves + len(tree.offsets) - 1, len(terms)), np.float32)
    values[: tree.leaves] = terms.T
    for nodes, left, right in _levels(tree):
        values[nodes] = add(values[left], values[right])
    return values[-1]


@functools.lru_cache(maxsize=8)
def _levels(tree: ReductionTree) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The inner nodes by height, with their two children: a level is one vector operation."""
    pairs = tree.children.reshape(-1, 2)
    height = [0] * (tree.leaves + len(pairs))
    for k, (left, right) in enumerate(pairs.tolist()):
        height[tree.leaves + k] = 1 + max(height[left], height[right])
    inner = np.array(height[tree.leaves :], np.int64)
    levels = (np.flatnonzero(inner == h) for h in range(1, max(height) + 1))
    return [(tree.leaves + at, pairs[at, 0], pairs[at, 1]) for at in levels]


def finish(case: Setting, total: np.ndarray, times: int = 1) -> torch.Tensor:
    """Bias (fp32, `times` times) and the one rounding to the output dtype: [N, V]."""
    with np.errstate(all="ignore"):
        for _ in range(times if case.bias is not None else 0):
            total = total + case.bias
    return torch.from_numpy(np.array(total)).to(case.out_dtype)  # a copy: mutations write into it


def correct(case: Setting) -> torch.Tensor:
    """The logits without a mistake, [N, V] of the output dtype.

    Example:
        >>> tree = ReductionTree.from_nested([[0, 1], [2, 3]])
        >>> correct(setting(torch.ones(1, 4), torch.ones(2, 4), tree)).tolist()
        [[4.0, 4.0]]
    """
    return finish(case, case.sums)


# ---- mutations -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutation(Result):
    """One mistake.

    Attributes:
        name: Key in `MUTATIONS`.
        kind: "same" (the order is the same, no bit may change), "correct" (another correct result:
            only bits may tell it apart) or "wrong".
        bug: What a real kernel does that looks like this.
        run: Setting -> outputs [N, V]; raises `NotApplicable`.
    """

    name: str
    kind: str
    bug: str
    run: Callable[[Setting], torch.Tensor] = field(repr=False, metadata={"json": False})


_FOUND: dict[str, Mutation] = {}


def _mutation(kind: str, bug: str, name: str = "") -> Callable:
    def note(run: Callable[[Setting], torch.Tensor]) -> Callable[[Setting], torch.Tensor]:
        key = name or run.__name__.lstrip("_")
        _FOUND[key] = Mutation(key, kind, bug, run)
        return run

    return note


def mutate(
    name: str, hidden: torch.Tensor, weight: torch.Tensor, tree: ReductionTree, **given: Any
) -> torch.Tensor:
    """The logits with one mistake in them; the other arguments and errors as in `setting`.

    Raises:
        InputError: Unknown mutation.
        NotApplicable: It means nothing for these inputs (no bias to forget, one row only).

    Example:
        >>> tree = ReductionTree.from_nested([[0, 1], [2, 3]])
        >>> mutate("drop_last_term", torch.ones(1, 4), torch.ones(2, 4), tree).tolist()
        [[3.0, 3.0]]
    """
    if name not in MUTATIONS:
        raise InputError(f"mutation {name!r} is unknown; there are {', '.join(MUTATIONS)}")
    return MUTATIONS[name].run(setting(hidden, weight, tree, **given))


# An order that is the same, and other correct results.


@_mutation("same", "the operands of every addition are exchanged: IEEE addition commutes")
def swap_children(case: Setting) -> torch.Tensor:
    pairs = case.tree.children.reshape(-1, 2)[:, ::-1]
    return finish(case, sums(case, tree=_with_children(case.tree, pairs)))


@_mutation("correct", "an index is off by a permutation: the first and the last term change places")
def exchange_leaves(case: Setting) -> torch.Tensor:
    first, last = 0, case.width - 1
    swapped = case.tree.children.copy()
    at_first, at_last = swapped == first, swapped == last
    swapped[at_first], swapped[at_last] = last, first
    tree = _with_children(case.tree, swapped)
    if tree == case.tree:
        raise NotApplicable("the first and the last term are added to each other anyway")
    return finish(case, sums(case, tree=tree))


@_mutation("correct", "a rebuild with another TILE_LENGTH")
def other_tile(case: Setting) -> torch.Tensor:
    if case.other is None or case.other == case.tree:
        raise NotApplicable("no other order is known for this sum")
    return finish(case, sums(case, tree=case.other))


@_mutation("correct", "the compiler contracts a product and its first addition into one FMA")
def fused_products(case: Setting) -> torch.Tensor:
    def terms(products: np.ndarray, row: int, columns: slice) -> np.ndarray:
        # Of two leaves that meet first: the right product is added unrounded to the rounded left.
        x, w = case.hidden[row, right], case.weight[columns][:, right]
        products[:, left] = fma(x, w, products[:, left])
        products[:, right] = -0.0  # x + -0 is x for every x, and -0 + -0 is -0
        return products

    pairs = case.tree.children.reshape(-1, 2)
    both = pairs[(pairs < case.tree.leaves).all(axis=1)]
    left, right = both[:, 0], both[:, 1]
    return finish(case, sums(case, terms))


# Terms.


@_mutation("wrong", "one term of all outputs is lost: a mask with a wrong bit")
def drop_term(case: Setting) -> torch.Tensor:
    return finish(case, sums(case, _set_terms(case.chosen, 0.0)))


@_mutation("wrong", "the loop ends one element early")
def drop_last_term(case: Setting) -> torch.Tensor:
    return finish(case, sums(case, _set_terms(case.width - 1, 0.0)))


@_mutation("wrong", "a race loses a term, another one for every output")
def drop_random_term(case: Setting) -> torch.Tensor:
    lost = np.random.default_rng(case.seed).integers(case.width, size=case.shape)

    def terms(products: np.ndarray, row: int, columns: slice) -> np.ndarray:
        np.put_along_axis(products, lost[row, columns, None], 0.0, axis=1)
        return products

    return finish(case, sums(case, terms))


@_mutation("wrong", "the count is rounded down to whole repeats of 64 lanes")
def drop_tail(case: Setting) -> torch.Tensor:
    return finish(case, sums(case, _set_terms(case.tail, 0.0)))


@_mutation("wrong", "the last tile is never added")
def drop_last_tile(case: Setting) -> torch.Tensor:
    return finish(case, sums(case, _set_terms(case.last_tile, 0.0)))


@_mutation("wrong", "two tiles overlap by one element, which counts twice")
def double_count(case: Setting) -> torch.Tensor:
    def terms(products: np.ndarray, row: int, columns: slice) -> np.ndarray:
        products[:, case.chosen] *= 2
        return products

    return finish(case, sums(case, terms))


# Indices.


@_mutation("wrong", "one row reads the hidden state of its neighbour")
def wrong_row(case: Setting) -> torch.Tensor:
    rows = len(case.hidden)
    if rows < 2:
        raise NotApplicable("one row has no neighbour")
    hidden = case.hidden.copy()
    hidden[rows // 2] = case.hidden[(rows // 2 + 1) % rows]
    return finish(case, sums(dataclasses.replace(case, hidden=hidden)))


@_mutation("wrong", "the row stride of the weight is one element too long")
def wrong_stride(case: Setting) -> torch.Tensor:
    at = np.arange(len(case.weight))[:, None] * (case.width + 1) + np.arange(case.width)
    weight = case.weight.ravel()[at % case.weight.size]
    return finish(case, sums(dataclasses.replace(case, weight=weight)))


@_mutation("wrong", "the weight is read as if it were stored [H, V]")
def transposed(case: Setting) -> torch.Tensor:
    if 1 in case.weight.shape:
        raise NotApplicable("a weight of one row or column is its own transpose in memory")
    weight = np.ascontiguousarray(case.weight.reshape(case.weight.shape[::-1]).T)
    return finish(case, sums(dataclasses.replace(case, weight=weight)))


@_mutation("wrong", "the last block turn writes what the turn before it computed")
def stale_turn(case: Setting) -> torch.Tensor:
    out = correct(case)
    if out.numel() < 2 * DATA_BLOCK:
        raise NotApplicable(f"fewer than {2 * DATA_BLOCK} outputs: there is no turn before it")
    flat = out.flatten()
    flat[-DATA_BLOCK:] = flat[-2 * DATA_BLOCK : -DATA_BLOCK].clone()
    return flat.reshape(out.shape)


# Bias.


@_mutation("wrong", "the bias is forgotten")
def bias_forgotten(case: Setting) -> torch.Tensor:
    _need_bias(case)
    return finish(case, case.sums, times=0)


@_mutation("wrong", "the bias is added by two blocks")
def bias_twice(case: Setting) -> torch.Tensor:
    _need_bias(case)
    return finish(case, case.sums, times=2)


# Precision.


@_mutation("wrong", "the adder truncates instead of rounding to nearest")
def truncate_nodes(case: Setting) -> torch.Tensor:
    return finish(case, sums(case, add=add_truncated))


@_mutation("wrong", "the conversion to the output dtype truncates")
def truncate_output(case: Setting) -> torch.Tensor:
    if case.out_dtype == torch.float32:
        raise NotApplicable("an fp32 sum is not converted")
    wide = torch.from_numpy(case.sums + (0 if case.bias is None else case.bias))
    out = wide.to(case.out_dtype)
    # Nearest may have gone away from 0; the number before it in magnitude is one less in its bits.
    bits = out.view(torch.int16) - (out.float().abs() > wide.abs()).to(torch.int16)
    return bits.view(case.out_dtype)


@_mutation("wrong", "products and sums are kept in bf16")
def accumulate_bf16(case: Setting) -> torch.Tensor:
    return _accumulate(case, torch.bfloat16)


@_mutation("wrong", "products and sums are kept in fp16")
def accumulate_fp16(case: Setting) -> torch.Tensor:
    return _accumulate(case, torch.float16)


@_mutation("wrong", "products are rounded to 16 bits before they are added")
def products_in_16_bits(case: Setting) -> torch.Tensor:
    return finish(case, sums(case, lambda products, *_: rounded(products, _short(case))))


@_mutation("wrong", "inputs are cut to 11 bits: a matrix unit in HF32 or TF32 mode")
def inputs_in_11_bits(case: Setting) -> torch.Tensor:
    if case.dtype != torch.float32:
        raise NotApplicable("16-bit inputs have no more than 11 bits")
    hidden, weight = (_to_11_bits(side) for side in (case.hidden, case.weight))
    return finish(case, sums(dataclasses.replace(case, hidden=hidden, weight=weight)))


@_mutation("wrong", "the sum is rounded to 16 bits, and again after the bias")
def rounded_twice(case: Setting) -> torch.Tensor:
    if case.bias is None and case.out_dtype != torch.float32:
        raise NotApplicable("without a bias the second rounding changes nothing")
    return finish(case, rounded(case.sums, _short(case)))


def _scaled(power: int) -> None:
    @_mutation("wrong", f"a scale is off by 1 + 2^-{power}", f"scaled_2^-{power}")
    def run(case: Setting) -> torch.Tensor:
        wide = case.sums + (np.float32(0) if case.bias is None else case.bias)
        return torch.from_numpy(wide * np.float32(1 + 2.0**-power)).to(case.out_dtype)


for _power in (8, 13, 20):
    _scaled(_power)


# One output.


def _flipped(name: str, which: str, bug: str) -> None:
    @_mutation("wrong", bug, name)
    def run(case: Setting) -> torch.Tensor:
        mantissa = {torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}[case.out_dtype]
        width = 16 if case.out_dtype.itemsize == 2 else 32
        bit = {"low": 0, "high": mantissa - 1, "sign": width - 1}[which]
        out = correct(case)
        bits = out.view(torch.int16 if width == 16 else torch.int32)
        # The sign bit as the negative number it is in the signed view.
        bits[_one_output(out)] ^= -(1 << bit) if bit == width - 1 else 1 << bit
        return out


_flipped("flip_low_bit", "low", "the lowest mantissa bit of one output flips: memory, or a cast")
_flipped("flip_high_bit", "high", "the highest mantissa bit of one output flips")
_flipped("flip_sign", "sign", "the sign of one output flips")


@_mutation("wrong", "an output that is +0 comes out as -0: an accumulator that starts at -0")
def sign_of_zero(case: Setting) -> torch.Tensor:
    out = correct(case)
    zeros = torch.nonzero((out == 0) & ~torch.signbit(out))
    if not len(zeros):
        raise NotApplicable("no output is +0")
    out[tuple(zeros[0])] = -0.0
    return out


@_mutation("wrong", "one output is NaN: it was never written")
def nan_in_one(case: Setting) -> torch.Tensor:
    out = correct(case)
    out[_one_output(out)] = torch.nan
    return out


# ---- pieces ----------------------------------------------------------------------------------


def _with_children(tree: ReductionTree, children: np.ndarray) -> ReductionTree:
    flat = np.ascontiguousarray(children, np.int64).ravel()
    return ReductionTree(tree.leaves, flat, np.array(tree.offsets))


def _set_terms(which: int | slice, value: float) -> Terms:
    def terms(products: np.ndarray, row: int, columns: slice) -> np.ndarray:
        products[:, which] = value
        return products

    return terms


def _need_bias(case: Setting) -> None:
    if case.bias is None:
        raise NotApplicable("there is no bias")


def _short(case: Setting) -> torch.dtype:
    return torch.bfloat16 if case.dtype == torch.float32 else case.dtype


def _one_output(out: torch.Tensor) -> tuple[int, int]:
    """The middle output, or the next one that is finite and not 0."""
    usable = torch.nonzero((torch.isfinite(out) & (out != 0)).flatten()).flatten()
    if not len(usable):
        raise NotApplicable("no output is finite and other than 0")
    after = usable[usable >= out.numel() // 2]
    row, column = divmod(int(after[0] if len(after) else usable[0]), out.shape[1])
    return row, column


def rounded(values: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """fp32 values rounded to nearest even in another float dtype, as fp32 again."""
    return torch.from_numpy(np.array(values)).to(dtype).float().numpy()


def _accumulate(case: Setting, dtype: torch.dtype) -> torch.Tensor:
    # fp32 has more than twice the bits plus two of either format: rounding a sum of two such
    # numbers to fp32 first does not change what it is rounded to after.
    def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return rounded(a + b, dtype)

    return finish(case, sums(case, lambda products, *_: rounded(products, dtype), add=add))


def add_truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """fp32 a + b rounded toward zero; a finite sum does not overflow.

    Example:
        >>> one, tiny = np.float32([1, -1]), np.float32([-(2**-40), 2**-40])
        >>> add_truncated(one, tiny).tolist() == [1 - 2**-24, -(1 - 2**-24)]
        True
    """
    total, error = two_sum(a, b)
    # Nearest went past the exact sum. (Of an overflow the error is not known, or NaN.)
    away = np.where(
        np.isinf(total),
        np.isfinite(a) & np.isfinite(b),
        (error != 0) & ((error < 0) == (total > 0)),
    )
    return np.where(away, np.nextafter(total, np.zeros_like(total)), total)


def _to_11_bits(values: np.ndarray) -> np.ndarray:
    """fp32 rounded to nearest even at 11 significant bits (assumed; a unit may truncate)."""
    drop = 24 - 11
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    half = (np.uint64(1) << np.uint64(drop - 1)) - np.uint64(1)
    odd = (bits >> np.uint64(drop)) & np.uint64(1)
    kept = ((bits + half + odd) >> np.uint64(drop)) << np.uint64(drop)
    return kept.astype(np.uint32).view(np.float32)


MUTATIONS: Mapping[str, Mutation] = MappingProxyType(_FOUND)
