"""An independent numpy model of the deterministic matrix product, in array form.

Written from the order that the kernel's documentation states, not from the kernel: leaves are
accumulations over an axis and the tree above them is a recursion over halves, where the kernel
goes element by element with a binary counter. Conventions as in `ascend_numpy`.
"""

from __future__ import annotations

import numpy as np

from models.ascend_numpy import _FORMATS, _narrow, add, bits32, canonical, mul, widen


def leaf_sums(products: np.ndarray, leaf: int) -> list[np.ndarray]:
    """float32 [K, ...] -> one float32 [...] per leaf: +0 plus its products in ascending order."""
    found = []
    for start in range(0, len(products), leaf):
        terms = products[start : start + leaf]
        with np.errstate(all="ignore"):
            begun = np.concatenate([np.zeros_like(terms[:1]), terms])
            total = np.add.accumulate(begun, axis=0, dtype=np.float32)[-1]
        found.append(canonical(total))
    return found


def tree_sum(parts: list[np.ndarray]) -> np.ndarray:
    """The sum of one or more float32 [...]: the left part is the largest power of two below."""
    if len(parts) == 1:
        return parts[0]
    half = 1
    while half * 2 < len(parts):
        half *= 2
    return add(tree_sum(parts[:half]), tree_sum(parts[half:]))


def gemm(
    a,
    b,
    *,
    leaf: int = 128,
    a_dtype: str = "fp32",
    b_dtype: str = "fp32",
    out_dtype: str = "same",
    chunk_bytes: int = 1 << 25,
) -> np.ndarray:
    """The kernel's product: a [M, K], b [K, N] -> raw bits [M, N].

    Inputs are of ``a_dtype`` and ``b_dtype``: "fp32" (float32, or uint32 bits), "bf16" or "fp16"
    (uint16 bits). The result is uint32 for ``out_dtype`` "fp32", else uint16; "same" means
    ``b_dtype``. Inputs are widened exactly, products and sums rounded to fp32, the sum cast once
    with RINT in INF/NAN mode. The order knows no architecture.
    """
    out_dtype = b_dtype if out_dtype == "same" else out_dtype
    a, b = widen(a, a_dtype), widen(b, b_dtype)
    (rows, depth), columns = a.shape, b.shape[1]
    total = np.zeros((rows, columns), np.float32)
    step = max(1, chunk_bytes // max(1, 4 * depth * rows))
    for first in range(0, columns, step) if depth and rows else ():
        part = slice(first, first + step)
        products = mul(a.T[:, :, None], b[:, None, part])
        total[:, part] = tree_sum(leaf_sums(products, leaf))
    if out_dtype == "fp32":
        return bits32(total)
    return _narrow(total, _FORMATS[out_dtype], "RINT", "inf_nan")
