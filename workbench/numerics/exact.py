"""Products in fp64: what "exact" stands for wherever an error is measured.

Products of fp32, bf16 and fp16 numbers are exact in fp64, and a sum's own error is 2^-29 of that of
an fp32 sum. Chunks keep the fp64 copy of a large weight small.
"""

from __future__ import annotations

import torch

_CHUNK_BYTES = 64 << 20  # fp64 copy of rows held at a time


def exact_product(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`a @ b.T` and the sums of |a b|, in fp64 on the CPU.

    Args:
        a: [M, K], any real dtype and strides.
        b: [N, K] likewise; never widened as a whole.

    Returns:
        (exact [M, N], scale [M, N]).

    Example:
        >>> [t.tolist() for t in exact_product(torch.tensor([[1.0, -2.0]]), torch.ones(1, 2))]
        [[[-1.0]], [[3.0]]]
    """
    wide = a.detach().cpu().double()
    size = wide.abs()
    exact = torch.empty(len(a), len(b), dtype=torch.float64)
    scale = torch.empty_like(exact)
    step = max(1, _CHUNK_BYTES // (8 * max(1, a.shape[1])))
    for start in range(0, len(b), step):
        part = b.detach()[start : start + step].cpu().double()
        exact[:, start : start + step] = wide @ part.T
        scale[:, start : start + step] = size @ part.abs().T
    return exact, scale


def exact_linear(
    rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and the sums of |x w| (+ |b|), both fp64 [N, V].

    Args:
        rows: [N, H].
        weight: [V, H].
        bias: [V] or None.
    """
    exact, scale = exact_product(rows, weight)
    if bias is not None:
        exact += bias.detach().cpu().double()
        scale += bias.detach().cpu().double().abs()
    return exact, scale
