"""Comparing tensors by their raw bits.

Bits are compared through integer views, so +0 and -0 differ and so do NaNs with other payloads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from workbench._result import Result
from workbench.errors import InputError
from workbench.evidence import hex_bits, raw_bits


@dataclass(frozen=True)
class BitComparison(Result):
    """What `compare_bits` found.

    Attributes:
        elements: Number of elements compared.
        mismatches: Number of elements whose bits differ.
        first_mismatch: None, or a dict of `index` (list of int, the first in row-major order),
            `expected_bits` and `got_bits` (hex), `expected` and `got` (numbers).
    """

    elements: int
    mismatches: int
    first_mismatch: dict[str, Any] | None

    @property
    def equal(self) -> bool:
        """True if every bit is the same."""
        return self.mismatches == 0

    def title(self) -> str:
        verdict = "bits equal" if self.equal else "bits differ"
        return f"{verdict}: {self.mismatches} of {self.elements} elements differ"


def compare_bits(expected: torch.Tensor, got: torch.Tensor) -> BitComparison:
    """Compare two tensors bit for bit.

    Args:
        expected: Any shape, dtype of 1, 2, 4 or 8 bytes.
        got: Same shape and dtype.

    Raises:
        InputError: Shapes or dtypes differ; that is another question than that of bits.

    Example:
        >>> compare_bits(torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0])).first_mismatch
        {'index': [0], 'expected_bits': '0x00000000', 'got_bits': '0x80000000', 'expected': 0.0, \
'got': -0.0}
    """
    if expected.shape != got.shape or expected.dtype != got.dtype:
        raise InputError(
            f"cannot compare bits of {list(expected.shape)} {expected.dtype} with "
            f"{list(got.shape)} {got.dtype}; give equal shapes and dtypes"
        )
    differ = raw_bits(expected) != raw_bits(got)
    count = int(differ.sum())
    first = None
    if count:
        flat = int(differ.to(torch.uint8).flatten().argmax())  # the first of equal maxima
        index = tuple(int(i) for i in np.unravel_index(flat, tuple(differ.shape)))
        a, b = expected[index], got[index]
        first = {
            "index": list(index),
            "expected_bits": hex_bits(a),
            "got_bits": hex_bits(b),
            "expected": a.item(),
            "got": b.item(),
        }
    return BitComparison(differ.numel(), count, first)
