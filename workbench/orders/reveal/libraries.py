"""The library functions whose orders can be asked for by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

# name -> (kind, array): "rows" sums each row of x [rows, n]; "mv" is x [rows, n] times a vector,
# "dot" one such row; "mm" is a [rows, n] @ b [n, columns]; "linear" has b as [columns, n].
KINDS = {
    "torch.sum": ("rows", "torch"),
    "torch.cumsum": ("rows", "torch"),
    "torch.mv": ("mv", "torch"),
    "torch.dot": ("dot", "torch"),
    "torch.matmul": ("mm", "torch"),
    "torch.mm": ("mm", "torch"),
    "torch.einsum": ("mm", "torch"),
    "F.linear": ("linear", "torch"),
    "numpy.sum": ("rows", "numpy"),
    "numpy.cumsum": ("rows", "numpy"),
    "numpy.dot": ("mv", "numpy"),
    "numpy.matmul": ("mm", "numpy"),
    "numpy.einsum": ("mm", "numpy"),
}
NAMES = tuple(KINDS)


def function_of(name: str) -> Callable[..., Any]:
    """The library function; sums over the last dimension, and products a @ b.

    One row is asked as the vector it is: that is the call people make.
    """
    found: dict[str, Callable[..., Any]]
    if name.startswith("numpy."):
        found = {
            "numpy.sum": lambda x: np.sum(x[0]) if len(x) == 1 else np.sum(x, axis=1),
            "numpy.cumsum": lambda x: np.cumsum(x, axis=1)[:, -1],
            "numpy.dot": lambda x, v: np.dot(x[0], v) if len(x) == 1 else np.dot(x, v),
            "numpy.matmul": np.matmul,
            "numpy.einsum": lambda a, b: np.einsum("ik,kj->ij", a, b),
        }
        return found[name]
    import torch

    found = {
        "torch.sum": lambda x: torch.sum(x[0]) if len(x) == 1 else torch.sum(x, dim=1),
        "torch.cumsum": lambda x: torch.cumsum(x, dim=1)[:, -1],
        "torch.mv": torch.mv,
        "torch.dot": lambda x, v: torch.dot(x[0], v),
        "torch.matmul": torch.matmul,
        "torch.mm": torch.mm,
        "torch.einsum": lambda a, b: torch.einsum("ik,kj->ij", a, b),
        "F.linear": torch.nn.functional.linear,
    }
    return found[name]


def ones_like(terms: Any) -> Any:
    """Ones of the same kind, shape and dtype."""
    if isinstance(terms, np.ndarray):
        return np.ones_like(terms)
    return terms.new_ones(terms.shape)


def new_matrix(b: Any) -> Any:
    """A copy with the strides of a new matrix: [n, 1] that was a view of [1, n] has others, and
    is another call for a BLAS."""
    if isinstance(b, np.ndarray):
        made = np.empty(b.shape, b.dtype)
        made[:] = b
        return made
    return b.new_empty(b.shape).copy_(b)
