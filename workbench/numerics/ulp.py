"""The spacing of floating-point numbers, as a unit for errors."""

from __future__ import annotations

import numpy as np
import torch

_EXPONENT = 0x7FF0_0000_0000_0000  # of fp64


def ulp(scale: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Spacing of `dtype` at `scale`: 2^(floor(log2 |scale|) - p + 1), at least the subnormal one.

    Args:
        scale: Any shape; judged in fp64, where it may be beyond the range of `dtype`. At NaN and
            Inf there is no spacing: NaN.
        dtype: A float dtype, p its precision in bits.

    Returns:
        fp64, the shape of `scale`.

    Example:
        >>> ulp(torch.tensor([1.0, 3.0, 0.0]), torch.float32).tolist() == [2**-23, 2**-22, 2**-149]
        True
    """
    found = spacing(scale.detach().double().cpu().numpy(), dtype)
    return torch.from_numpy(found).to(scale.device)


def spacing(scale: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """`ulp` for numpy arrays: fp64 in, fp64 out. One thread, for blocks that stay in the cache.

    Example:
        >>> spacing(np.array([1.0, -3.0]), torch.float16).tolist() == [2**-10, 2**-9]
        True
    """
    info = torch.finfo(dtype)
    # The exponent's bits alone are the power of two below |scale|; 0 for fp64's subnormals and 0,
    # which are below every minimum, and Inf for Inf and NaN.
    bits = np.atleast_1d(np.ascontiguousarray(scale, np.float64)).view(np.int64)
    power = (bits & _EXPONENT).view(np.float64)
    found = np.maximum(power * info.eps, info.smallest_normal * info.eps)
    found[power == np.inf] = np.nan
    return found.reshape(np.shape(scale))
