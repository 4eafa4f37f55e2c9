"""References in plain torch, a row at a time, so that the batch cannot reach a row."""

from __future__ import annotations

from typing import Any

import torch

from workbench.ops.inputs import (
    IGNORE_INDEX,
    check_det_gemm,
    check_linear_logp,
    check_lm_head,
    check_logp,
    check_targets,
)
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


class NativeBatchInvariantLogpOp:
    """log_softmax of one row at a time in fp32, and the element at its target.

    It is a reference for accuracy, not for bits: the order in which torch sums is the library's
    own, and differs between libraries and CPUs. Differentiable by torch, as often as wanted.

    Example:
        >>> NativeBatchInvariantLogpOp()(torch.zeros(2, 1), torch.tensor([0, -100]))
        tensor([0., 0.])
    """

    def forward(
        self,
        logits: torch.Tensor,
        target: torch.Tensor,
        *,
        ignore_index: int = IGNORE_INDEX,
        validate: bool = True,
        return_lse: bool = False,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """log softmax(logits)[target] of each row, fp32 whatever the logits are.

        Args:
            logits: [..., V] fp32, bf16 or fp16, with at least one leading dimension.
            target: [...] int64 or int32: 0 to V - 1, or `ignore_index`.
            ignore_index: Rows with this target give 0 and 0, and a zero gradient.
            validate: Refuse other targets; False: their rows and gradients are NaN.
            return_lse: Return log sum exp(logits) of each row as well.

        Returns:
            logp fp32 [...], in nats; with `return_lse` (logp, lse fp32 [...]).

        Raises:
            InputError: Shapes, dtypes, devices or targets that do not fit.
        """
        check_logp(logits, target, ignore_index)
        vocab = logits.shape[-1]
        if validate:
            check_targets(target, vocab, ignore_index)
        # Not reshape(-1, vocab): that is ambiguous for V = 0.
        flat = logits.reshape(target.numel(), vocab).float()
        # The sum of nothing: +0, but an edge of the autograd graph. Where every row is ignored, or
        # there is none, the gradient is zero and not missing.
        zero = flat[:0].sum()
        logp, lse = [], []
        for wide, token in zip(flat, target.flatten().tolist(), strict=True):
            if token == ignore_index:
                logp.append(zero)
                lse.append(zero)
            elif not 0 <= token < vocab:
                logp.append(wide.sum() * float("nan"))
                lse.append(logp[-1])
            else:
                logp.append(torch.log_softmax(wide, -1)[token])
                lse.append(torch.logsumexp(wide, -1))
        shape = target.shape
        out = torch.stack(logp) if logp else zero.expand(0)
        if not return_lse:
            return out.reshape(shape)
        return out.reshape(shape), (torch.stack(lse) if lse else zero.expand(0)).reshape(shape)

    __call__ = forward
    forward_fp32 = forward  # the result is fp32 in any case

    def __repr__(self) -> str:
        return "NativeBatchInvariantLogpOp()"


class NativeDetGemmOp:
    """The matrix product by `torch.mv` in fp32, a row of `a` at a time, so that the other rows
    cannot reach one.

    It is a reference for accuracy, not for bits, as `NativeLMHeadOp` is. 16-bit inputs are widened
    as a whole.

    Example:
        >>> NativeDetGemmOp()(torch.ones(2, 8), torch.ones(8, 3)).shape
        torch.Size([2, 3])
    """

    def forward(
        self, a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """The product [M, N] of a [M, K] and b [K, N], both fp32, bf16 or fp16.

        Args:
            out_dtype: None (the inputs' dtype) or torch.float32.

        Raises:
            InputError: Shapes, dtypes or devices that do not fit.
        """
        wanted = check_det_gemm(a, b, out_dtype)
        with full_fp32(a.device.type):
            left, right = a.float(), b.float().T
            # A clone is aligned wherever the row lies: alignment can reach the library's bits.
            rows = [torch.mv(right, row.clone()) for row in left]
            # With no rows a product keeps the edges of the autograd graph.
            product = torch.stack(rows) if rows else left @ right.T
        return product.to(wanted)

    __call__ = forward

    def forward_fp32(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The same product before its rounding to the inputs' dtype."""
        return self.forward(a, b, torch.float32)

    def __repr__(self) -> str:
        return "NativeDetGemmOp()"


class NativeLinearLogpOp:
    """`NativeLMHeadOp`, then `NativeBatchInvariantLogpOp`: the log-probability of one token per
    row, straight from hidden states.

    A reference: it holds the logits of all rows, for autograd too.

    Example:
        >>> op = NativeLinearLogpOp()
        >>> op(torch.zeros(2, 8), torch.ones(1, 8), torch.tensor([0, -100]))
        tensor([0., 0.])
    """

    def forward(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        ignore_index: int = IGNORE_INDEX,
        validate: bool = True,
        return_lse: bool = False,
        logits_dtype: torch.dtype | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """log softmax(hidden @ weight.T + bias)[target] of each row; arguments as in
        `AscendLinearLogpOp.forward`.

        Returns:
            logp fp32 [...], in nats; with `return_lse` (logp, lse fp32 [...]).

        Raises:
            InputError: Shapes, dtypes, devices or targets that do not fit.
        """
        wanted = check_linear_logp(hidden, weight, target, bias, ignore_index, logits_dtype)
        logits = NativeLMHeadOp().forward_fp32(hidden, weight, bias).to(wanted)
        return NativeBatchInvariantLogpOp()(
            logits, target, ignore_index=ignore_index, validate=validate, return_lse=return_lse
        )

    __call__ = forward

    def forward_fp32(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        bias: torch.Tensor | None = None,
        **options: Any,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """The same of fp32 logits, which are not rounded in between."""
        return self.forward(
            hidden, weight, target, bias, **{**options, "logits_dtype": torch.float32}
        )

    def __repr__(self) -> str:
        return "NativeLinearLogpOp()"
