"""The spacing of floating-point numbers, as a unit for errors."""

from __future__ import annotations

import torch


def ulp(scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Spacing of `dtype` at `scale`: 2^(floor(log2 |scale|) - p + 1), at least the subnormal one.

    Args:
        scale: Any shape, finite; judged in fp64.
        dtype: A float dtype, p its precision in bits.

    Returns:
        fp64, the shape of `scale`.

    Example:
        >>> ulp(torch.tensor([1.0, 3.0, 0.0]), torch.float32).tolist() == [2**-23, 2**-22, 2**-149]
        True
    """
    info = torch.finfo(dtype)
    # frexp's mantissa is in [0.5, 1)
    exponent = torch.frexp(scale.double().abs()).exponent.double() - 1
    spacing = torch.exp2(exponent) * info.eps
    # frexp gives 0 the exponent 0; its spacing is that of the subnormals
    spacing = torch.where(scale == 0, torch.zeros_like(spacing), spacing)
    return spacing.clamp(min=info.smallest_normal * info.eps)
