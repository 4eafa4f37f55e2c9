"""The reference LM head: one `torch.mv` in fp32 per row."""

from __future__ import annotations

import torch

from workbench.ops.inputs import check_lm_head
from workbench.ops.precision import full_fp32


class NativeLMHeadOp:
    """Logits by `torch.mv(weight, row)` in fp32, a row at a time, so that the batch cannot reach a
    row.

    It is a reference for accuracy, not for bits: the order in which `torch.mv` sums is the
    library's own, and differs between libraries, CPUs and shapes. A 16-bit weight is widened as a
    whole.

    Example:
        >>> NativeLMHeadOp()(torch.ones(2, 8), torch.ones(3, 8)).shape
        torch.Size([2, 3])
    """

    def forward(
        self, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Logits [..., V] in the dtype of hidden [..., H], weight [V, H] and bias [V].

        Raises:
            InputError: Shapes, dtypes or devices that do not fit.
        """
        return self.forward_fp32(hidden, weight, bias).to(hidden.dtype)

    __call__ = forward

    def forward_fp32(
        self, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The same logits before their rounding to hidden's dtype."""
        check_lm_head(hidden, weight, bias, None)
        vocab, width = weight.shape
        # Not reshape(-1, width): that is ambiguous for H = 0.
        flat = hidden.reshape(hidden.shape[:-1].numel(), width).float()
        with full_fp32(hidden.device.type):
            wide = weight.float()
            # A row's place in memory decides its alignment, and that the library's bits: a clone
            # is always aligned.
            rows = [torch.mv(wide, row.clone()) for row in flat]
            # With no rows a product keeps the edges of the autograd graph that a new empty tensor
            # would lack.
            logits = torch.stack(rows) if rows else flat @ wide.T
            if bias is not None:
                logits = logits + bias.float()
        return logits.reshape(*hidden.shape[:-1], vocab)

    def __repr__(self) -> str:
        return "NativeLMHeadOp()"
