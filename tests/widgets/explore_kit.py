"""What the tests of the dashboard share: small tensors, an own kernel file and how to call it."""

from __future__ import annotations

from pathlib import Path

import torch

from workbench.widgets.explore import Inputs

FLAWED = Path(__file__).resolve().parents[1] / "controls" / "flawed_lm_head.asc"
H, N, V = 320, 6, 9


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(11)
    return torch.randn(N, H, generator=g), torch.randn(V, H, generator=g)


HIDDEN, WEIGHT = tensors()


def inputs() -> Inputs:
    return Inputs(HIDDEN, WEIGHT)


def calling(name: str):
    """How the control kernel `name` of flawed_lm_head.asc is called."""

    def call(kernel, hidden, weight):
        rows = hidden.reshape(-1, hidden.shape[-1]).contiguous()
        out = torch.empty(len(rows), len(weight))
        kernel.launch(name, 3, rows, weight.contiguous(), out, *rows.shape, len(weight))
        return out.reshape(*hidden.shape[:-1], len(weight))

    return call


def bits(tensor: torch.Tensor) -> list:
    return tensor.contiguous().view(torch.int32).tolist()
