"""Dot products in a given order: which products are rounded, and which are fused into a sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import InputError
from workbench.orders.tree import ReductionTree
from workbench.orders.tree.execute import refuse_flush

_CHUNK_BYTES = 16 << 20  # working set of one chunk of rows


def dot(
    tree: ReductionTree,
    weight: Any,
    x: Any,
    fused: Any = None,
    *,
    zero_start: bool = False,
) -> np.ndarray:
    """sum_k weight[r, k] * x[k] in fp32, added in the order of `tree`.

    Every product is rounded to fp32 and then added, but for the leaves that `fused` names: such a
    product is not rounded by itself, it enters its first addition exactly, as a fused
    multiply-add does.

    Args:
        tree: The order over the n products; a node with more than two children is the exact sum
            of its children rounded once (`ReductionTree.sum`).
        weight: fp32 [R, n], a numpy array or a tensor on the CPU.
        x: fp32 [n], or [Q, n] for Q vectors (hidden [N, n] and weight [V, n] give logits [N, V]).
        fused: bool [n], or None for none. Of two leaves that are added to each other only one can
            be fused.
        zero_start: The sum starts at +0, as an accumulator that was cleared does. It changes one
            thing: a sum of nothing but -0 is +0.

    Returns:
        fp32 [R], or [R, Q].

    Raises:
        InputError: Shapes or dtypes that do not fit, or a fused leaf that no multiply-add can fuse.
        WorkbenchError: This thread flushes subnormals to zero, which changes bits.

    Example:
        >>> import numpy as np
        >>> tree = ReductionTree.from_nested([0, 1])
        >>> a = np.float32([[-(1 + 2**-11), 1 + 2**-12]])
        >>> x = np.float32([1, 1 + 2**-12])
        >>> dot(tree, a, x).tolist(), dot(tree, a, x, fused=[False, True])[0] == 2**-24
        ([0.0], np.True_)
    """
    weight, x, vectors = operands(tree.leaves, weight, x)
    mask = fused_mask(tree, fused)
    out = np.empty(len(weight) * len(vectors), np.float32)
    levels = _levels(tree, mask) if mask.any() else None
    # All pairs of a row and a vector, in chunks: a level of the tree is then a few operations on
    # long arrays, and not as many for each vector.
    step = max(1, _CHUNK_BYTES // (8 * max(1, tree.leaves)))
    with np.errstate(all="ignore"):  # Inf and NaN are results like any other
        for start in range(0, len(out), step):
            at = np.arange(start, min(start + step, len(out)))
            left, right = weight[at // len(vectors)], vectors[at % len(vectors)]
            out[at] = _fused(tree, left, right, *levels) if levels else tree.sum(left * right)
        if zero_start:
            out += np.float32(0)
    return out.reshape(len(weight), len(vectors)) if x.ndim == 2 else out


def operands(n: int, weight: Any, x: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(weight [R, n], x as given, x as [Q, n]), all fp32 numpy.

    Raises:
        InputError: Another dtype or shape.
    """
    weight, x = (fp32_array(name, value) for name, value in (("weight", weight), ("x", x)))
    if weight.ndim != 2 or x.ndim not in (1, 2) or {weight.shape[1], x.shape[-1]} != {n}:
        raise InputError(
            f"got weight {list(weight.shape)} and x {list(x.shape)}; this order adds n = {n} "
            f"products: give weight [R, {n}] and x [{n}] or [Q, {n}]"
        )
    return weight, x, np.atleast_2d(x)


def fp32_array(name: str, value: Any) -> np.ndarray:
    """`value` as a numpy array, if it is fp32 on the CPU."""
    if hasattr(value, "detach"):
        value = value.detach()
        if str(value.dtype) != "torch.float32" or value.device.type != "cpu":
            raise InputError(
                f"{name} is {value.dtype} on {value.device}; want fp32 on the CPU. Convert it "
                "with .float().cpu()"
            )
        value = value.numpy()
    value = np.asarray(value)
    if value.dtype != np.float32:
        raise InputError(f"{name} is {value.dtype}; want fp32. Convert it with .astype('float32')")
    return value


def fused_mask(tree: ReductionTree, fused: Any) -> np.ndarray:
    """`fused` as a checked bool array [n]; None: none.

    Raises:
        InputError: Wrong shape or dtype, both leaves of a pair fused, or a leaf of a tree with more
            than two children in a node.
    """
    mask = exact_products(tree, np.zeros(tree.leaves, bool) if fused is None else fused)
    if mask.any() and tree.arity != 2:
        raise InputError(
            "fused products need an addition of two; this order has "
            + (f"a node with {tree.arity} children" if tree.arity else "no addition at all")
        )
    return mask


def exact_products(tree: ReductionTree, mask: Any) -> np.ndarray:
    """`mask` as a checked bool array [n]: products that enter their first addition unrounded.

    A node with more than two children may take any of them; one with two children one at most.

    Raises:
        InputError: Wrong shape or dtype, or both leaves of a pair.
    """
    mask = np.asarray(mask)
    if mask.shape != (tree.leaves,) or mask.dtype != bool:
        raise InputError(
            f"fused is {mask.dtype} {list(mask.shape)}; wanted one bool for each of the "
            f"{tree.leaves} products: True where it enters its first addition unrounded"
        )
    pairs = pairs_of_leaves(tree)
    both = np.flatnonzero(mask[pairs].all(0))
    if len(both):
        i, j = pairs[:, both[0]].tolist()
        raise InputError(
            f"the terms {i} and {j} are added to each other and both are fused; a multiply-add "
            "fuses one product, so the other was rounded before. Leave one of them out"
        )
    return mask


def pairs_of_leaves(tree: ReductionTree) -> np.ndarray:
    """The two terms of each binary node that adds two terms: int64 [2, k].

    Example:
        >>> pairs_of_leaves(ReductionTree.from_nested([[[0, 3], 2], 1])).tolist()
        [[0], [3]]
    """
    starts = tree.offsets[:-1][np.diff(tree.offsets) == 2]
    pairs = np.stack([tree.children[starts], tree.children[starts + 1]])
    return pairs[:, (pairs < tree.leaves).all(0)]


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b rounded to nearest, and exactly what that lost (Knuth), where nothing overflows.

    Example:
        >>> import numpy as np
        >>> [float(x) for x in two_sum(np.float32(1), np.float32(2**-30))] == [1, 2**-30]
        True
    """
    with np.errstate(all="ignore"):
        total = a + b
        moved = total - a
        return total, (a - (total - moved)) + (b - moved)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c in fp32 with one rounding (nearest, ties to even), elementwise.

    The product of two fp32 numbers is exact in fp64. Its sum with c is made with round-to-odd, so
    that the second rounding, to fp32, is that of the exact sum (Boldo and Melquiond, 2008): plain
    fp64 addition would round twice.

    Args:
        a, b, c: fp32, shapes that broadcast.

    Example:
        >>> import numpy as np
        >>> one = np.float32(1 + 2**-12)
        >>> float(fma(one, one, np.float32(-(1 + 2**-11)))) == 2**-24
        True
    """
    with np.errstate(all="ignore"):
        product = np.multiply(a, b, dtype=np.float64)
        c = np.asarray(c, np.float64)
        total, lost = map(np.atleast_1d, two_sum(product, c))  # nothing overflows in fp64 here
        inexact = np.isfinite(total) & (lost != 0)  # a lost NaN goes with a total that is none
        bits = total.view(np.int64)
        step = np.where((lost > 0) == (total > 0), 1, -1)  # away from zero, or towards it
        odd = np.where(inexact & (bits & 1 == 0), bits + step, bits)
        return odd.view(np.float64).astype(np.float32).reshape(np.shape(product + c))


def _fused(
    tree: ReductionTree, a: np.ndarray, b: np.ndarray, plain: list, multiply: list
) -> np.ndarray:
    """Row by row sums of a * b, both [K, n]."""
    refuse_flush()
    n = tree.leaves
    a, b = np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)
    value = np.empty((n + len(tree.offsets) - 1, a.shape[1]), np.float32)
    np.multiply(a, b, out=value[:n])
    for (node, left, right), (fnode, leaf, other) in zip(plain, multiply, strict=True):
        if len(node):
            value[node] = value[left] + value[right]
        if len(fnode):
            value[fnode] = fma(a[leaf], b[leaf], value[other])
    return value[-1]


def _levels(tree: ReductionTree, mask: np.ndarray) -> tuple[list, list]:
    """Per level (node, left, right) of plain additions and (node, leaf, other) of fused ones."""
    n, pairs = tree.leaves, tree.children.reshape(-1, 2)
    level = [0] * (n + len(pairs))
    for k, (a, b) in enumerate(pairs.tolist()):
        level[n + k] = 1 + max(level[a], level[b])
    levels = np.array(level[n:], np.int64)
    is_fused = np.zeros(n + len(pairs), bool)
    is_fused[:n] = mask
    by_level = np.argsort(levels, kind="stable")
    plain, multiply = [], []
    for nodes in np.split(by_level, np.cumsum(np.bincount(levels)[1:])[:-1]):
        left, right = pairs[nodes].T
        swap = is_fused[right]
        left, right = np.where(swap, right, left), np.where(swap, left, right)
        f = is_fused[left]
        plain.append((n + nodes[~f], left[~f], right[~f]))
        multiply.append((n + nodes[f], left[f], right[f]))
    return plain, multiply
