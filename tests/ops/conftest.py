"""What the operator tests share."""

from __future__ import annotations

import pytest
import torch

from workbench.ops import AscendLMHeadOp, NativeLMHeadOp


@pytest.fixture(params=[AscendLMHeadOp, NativeLMHeadOp], ids=["ascend", "native"])
def op(request):
    """Each of the two operators, in its default configuration."""
    return request.param()


@pytest.fixture
def draw():
    """Draws fp32 N(0,1) tensors of the given shapes from one seed."""

    def shapes(*wanted, seed=0, dtype=torch.float32):
        g = torch.Generator().manual_seed(seed)
        return [torch.randn(shape, generator=g).to(dtype) for shape in wanted]

    return shapes
