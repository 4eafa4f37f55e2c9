"""Sums along a tree in arithmetic that `ReductionTree.sum` does not have: narrow, mixed, aligned.

A fused node that aligns shifts its terms to the largest exponent, cuts off what then lies too far
below, adds what is left and rounds once. How many bits are kept and how the sum is rounded differs
from device to device, so several are tried; that one of them has a function's bits is what was
seen, not what a device is documented to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from workbench.orders.tree import ReductionTree
from workbench.orders.tree.fused import fused_sum

Node = Callable[[int, np.ndarray], np.ndarray]  # (inner node, values [m, R] fp64) -> [R] fp64


@dataclass(frozen=True)
class Aligned:
    """A fused node that aligns its terms.

    Attributes:
        bits: Kept of the largest term; 24 are those of fp32.
        nearest: Whether the sum is rounded to nearest even, or else toward zero.
        pairs: Whether nodes of two children add so too.
    """

    bits: int
    nearest: bool
    pairs: bool

    def __str__(self) -> str:
        which = "all nodes" if self.pairs else "fused nodes"
        how = "to nearest even" if self.nearest else "toward zero"
        return f"{which} keep {self.bits} bits below their largest term and round {how}"

    def __call__(self, values: np.ndarray) -> np.ndarray:
        _, exponent = np.frexp(np.abs(values).max(axis=0))
        grid = np.ldexp(1.0, exponent - self.bits)
        total = (np.trunc(values / grid) * grid).sum(axis=0)  # exact in fp64
        near = total.astype(np.float32)
        if not self.nearest:
            away = np.abs(near.astype(np.float64)) > np.abs(total)
            near = np.where(away, np.nextafter(near, np.float32(0)), near)
        return near.astype(np.float64)


def aligned_models(pairs: bool) -> Iterator[Aligned]:
    """Those that are tried, for fp32 sums; `pairs`: the tree has nodes of two children."""
    for also in (False, True) if pairs else (False,):
        for bits in range(24, 29):
            for nearest in (False, True):
                yield Aligned(bits, nearest, also)


def along(tree: ReductionTree, terms: np.ndarray, node: Node) -> np.ndarray:
    """Sums along a tree whose nodes add as `node` does, fp64 [R].

    Args:
        terms: [R, n] numbers.
    """
    if not tree.leaves:
        return np.zeros(len(terms))
    values: list = [*np.asarray(terms, np.float64).T]
    with np.errstate(all="ignore"):
        for k, children in enumerate(tree._nodes()):
            values.append(node(k, np.stack([values[c] for c in children])))
            for c in children:
                values[c] = None
    return values[-1]


def in_fp32(values: np.ndarray) -> np.ndarray:
    """A sum of two fp32 values, rounded: to fp64 and then to fp32 is as if once."""
    return (values[0] + values[1]).astype(np.float32).astype(np.float64)


def in_bf16(values: np.ndarray) -> np.ndarray:
    """A sum of two bf16 values, rounded: to fp32 and then to bf16 is as if once."""
    bits = (values[0] + values[1]).astype(np.float32).view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32).astype(np.float64)


def mixed_sum(tree: ReductionTree, terms: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """Sums along a binary tree, fp32 but for the `wide` nodes, which keep fp64; [R] fp32.

    Args:
        terms: [R, n] values of fp32.
        wide: bool [inner].
    """
    return along(
        tree, terms, lambda k, values: values[0] + values[1] if wide[k] else in_fp32(values)
    ).astype(np.float32)


def aligned_sum(
    tree: ReductionTree, terms: np.ndarray, model: Aligned, exact: np.ndarray | None = None
) -> np.ndarray:
    """Sums along a tree whose fused nodes align; [R] fp32.

    Args:
        terms: [R, n] values of fp32.
        exact: bool [inner], fused nodes that add exactly and round once; None: none.
    """

    def node(k: int, values: np.ndarray) -> np.ndarray:
        if len(values) == 2:
            return model(values) if model.pairs else in_fp32(values)
        if exact is not None and exact[k]:
            return np.asarray(fused_sum(values.astype(np.float32)), np.float64)
        return model(values)

    return along(tree, terms, node).astype(np.float32)


def twice_rounded_sum(tree: ReductionTree, terms: np.ndarray) -> np.ndarray:
    """Sums along a tree whose fused nodes round their exact sum to fp64, then to fp32; [R] fp32."""

    def node(_: int, values: np.ndarray) -> np.ndarray:
        if len(values) == 2:
            return in_fp32(values)
        return np.asarray(fused_sum(values)).astype(np.float32).astype(np.float64)

    return along(tree, terms, node).astype(np.float32)
