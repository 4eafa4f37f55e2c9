"""The contract's tolerances, in one place. A missing cell is an error; nobody relaxes one.

Until the contract is a data file of the package, these are the cells that the tests need.
"""

from __future__ import annotations

import torch

FORWARD, GRADIENT = "forward_accuracy", "gradient_accuracy"

# judgement, op class, dtype -> (atol, rtol)
CELLS = {
    (FORWARD, "reduction", torch.float32): (1e-4, 1e-4),
    (FORWARD, "reduction", torch.bfloat16): (5e-2, 2e-2),
    (FORWARD, "reduction", torch.float16): (1e-3, 1e-3),
    (GRADIENT, "reduction", torch.float32): (1e-4, 1e-4),
    (GRADIENT, "reduction", torch.bfloat16): (1e-1, 2e-2),
    (GRADIENT, "reduction", torch.float16): (1e-3, 1e-3),
}


def ratio(got: torch.Tensor, reference: torch.Tensor, judgement: str, dtype: torch.dtype) -> float:
    """The worst |error| / (atol + rtol |reference|) of a reduction in fp32; at most 1 passes.

    NaN and Inf on either side, and nothing to compare, are errors.
    """
    atol, rtol = CELLS[judgement, "reduction", dtype]
    got, reference = got.detach().float(), reference.detach().float()
    assert got.shape == reference.shape
    assert got.numel(), "nothing to compare"
    assert got.isfinite().all() and reference.isfinite().all()
    return float(((got - reference).abs() / (atol + rtol * reference.abs())).max())
