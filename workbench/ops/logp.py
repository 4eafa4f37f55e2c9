"""The batch-invariant log-probability: the kernels as callables, torch custom ops, and the operator
people import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from workbench.build.config import KernelConfig, spec
from workbench.build.kernel import Kernel
from workbench.errors import InputError
from workbench.ops.func import batch_first, differentiable
from workbench.ops.inputs import IGNORE_INDEX, check_logp, check_out, check_targets, short_name
from workbench.ops.variant import backend_of, built, check_backend, plain


class BatchInvariantLogpKernel(Kernel):
    """A built log-probability. `kernel(logits, target)` launches the forward kernel and
    `kernel.grad(…)` that of the gradient; there is no autograd at this level."""

    def __call__(
        self,
        logits: torch.Tensor,
        target: torch.Tensor,
        *,
        ignore_index: int = IGNORE_INDEX,
        validate: bool = True,
        out: tuple[torch.Tensor, torch.Tensor] | None = None,
        blocks: int | None = None,
        block_ids: Sequence[int] | None = None,
        threads: int = 0,
        check: bool | str | Sequence[str] | None = None,
        counters: bool = False,
        perturb: int = 0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """log softmax(logits)[target] and log sum exp(logits) of each row, in the kernel's order.

        Args:
            logits: [..., V] fp32, bf16 or fp16, any strides, at least one leading dimension.
            target: [...] int64 or int32 on the same device: 0 to V - 1, or `ignore_index`.
            ignore_index: Rows with this target give 0 and 0; their logits are not read.
            validate: Refuse other targets, which costs a copy of one element from the device;
                False: their rows are NaN.
            out: (logp, lse) to write to, contiguous fp32 [...]; None: new tensors.
            blocks: How many blocks to launch; None: min(rows, MAX_BLOCKS). Never changes a bit.
            block_ids: Twin only: run just these blocks, and leave the rows of the others as they
                were in `out`.
            threads: Twin only: host threads; 0: one per core.
            check, counters, perturb: Twin only; as in `Kernel.launch`.

        Returns:
            (logp, lse), both fp32 [...].

        Raises:
            InputError: Shapes, dtypes, devices or targets that do not fit.
            ConfigError: The tile is over the UB budget for this dtype.

        Example:
            >>> import torch, workbench as wb
            >>> kernel = wb.build("batch_invariant_logp", backend="twin")
            >>> kernel(torch.zeros(1, 1), torch.tensor([0]))
            (tensor([0.]), tensor([0.]))
        """
        check_logp(logits, target, ignore_index)
        assert self.spec is not None
        dtype = short_name(logits.dtype)
        self.spec.check(self.config, dtype)
        if out is None:
            logp, lse = (
                torch.empty(target.shape, dtype=torch.float32, device=logits.device)
                for _ in range(2)
            )
        else:
            logp, lse = out
            check_out("logp", logp, target.shape, torch.float32)
            check_out("lse", lse, target.shape, torch.float32)
        rows, vocab = target.numel(), logits.shape[-1]
        if rows == 0:
            return logp, lse
        if validate:
            check_targets(target, vocab, ignore_index)
        self.launch(
            self.spec.entry(dtype, "fp32"),
            blocks if blocks is not None else min(rows, self.constants["MAX_BLOCKS"]),
            plain(logits),
            plain(target.long()),
            logp.detach(),
            lse.detach(),
            rows,
            vocab,
            ignore_index,
            threads=threads,
            block_ids=block_ids,
            check=check,
            counters=counters,
            perturb=perturb,
        )
        return logp, lse

    def grad(
        self,
        logits: torch.Tensor,
        target: torch.Tensor,
        lse: torch.Tensor,
        grad_logp: torch.Tensor,
        grad_lse: torch.Tensor,
        *,
        ignore_index: int = IGNORE_INDEX,
        out: torch.Tensor | None = None,
        blocks: int | None = None,
        block_ids: Sequence[int] | None = None,
        threads: int = 0,
        check: bool | str | Sequence[str] | None = None,
        counters: bool = False,
        perturb: int = 0,
    ) -> torch.Tensor:
        """The gradient of the logits, p (grad_lse - grad_logp) plus grad_logp at the target, where
        p = exp(logits - lse): fp32, rounded once to the logits' dtype.

        Args:
            logits, target, ignore_index: As given to the forward kernel.
            lse: [...] fp32, as the forward kernel returned it.
            grad_logp, grad_lse: [...] fp32, the gradients of its results.
            out: Where to write, contiguous, [..., V] of the logits' dtype; None: a new tensor.
            blocks, block_ids, threads, check, counters, perturb: As in the forward kernel.

        Returns:
            [..., V] of the logits' dtype; +0 in ignored rows, NaN in rows whose target is outside.

        Raises:
            InputError: Shapes, dtypes or devices that do not fit.
            ConfigError: The tile is over the UB budget for this dtype.

        Example:
            >>> import torch, workbench as wb
            >>> kernel = wb.build("batch_invariant_logp", backend="twin")
            >>> logits, target = torch.zeros(1, 2), torch.tensor([0])
            >>> _, lse = kernel(logits, target)
            >>> kernel.grad(logits, target, lse, torch.ones(1), torch.zeros(1))
            tensor([[ 0.5000, -0.5000]])
        """
        check_logp(logits, target, ignore_index)
        for name, tensor in (("lse", lse), ("grad_logp", grad_logp), ("grad_lse", grad_lse)):
            if (tensor.shape, tensor.dtype) != (target.shape, torch.float32):
                raise InputError(
                    f"{name} is {short_name(tensor.dtype)} {tuple(tensor.shape)}; "
                    f"want fp32 {tuple(target.shape)}, one number per row"
                )
            if tensor.device != logits.device:
                raise InputError(
                    f"{name} is on {tensor.device}, logits on {logits.device}; they must be on one "
                    "device"
                )
        assert self.spec is not None
        dtype = short_name(logits.dtype)
        self.spec.check(self.config, dtype)
        if out is None:
            out = torch.empty(logits.shape, dtype=logits.dtype, device=logits.device)
        else:
            check_out("out", out, logits.shape, logits.dtype)
        rows = target.numel()
        if rows == 0:
            return out
        self.launch(
            self.spec.entry(dtype, dtype, "grad"),
            blocks if blocks is not None else min(rows, self.constants["MAX_BLOCKS"]),
            plain(logits),
            plain(target.long()),
            plain(lse),
            plain(grad_logp),
            plain(grad_lse),
            out.detach(),
            rows,
            logits.shape[-1],
            ignore_index,
            threads=threads,
            block_ids=block_ids,
            check=check,
            counters=counters,
            perturb=perturb,
        )
        return out


# ---- torch operators -----------------------------------------------------------------------------
#
# The targets are checked inside the operator: a check in Python would break the graph of
# torch.compile, which cannot branch on a value.


@torch.library.custom_op("workbench::batch_invariant_logp", mutates_args=())
def batch_invariant_logp(
    logits: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int,
    validate: bool,
    config: str,
    backend: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(logp, lse) as a torch operator; `config` is a `KernelConfig.to_key()`."""
    kernel = built("batch_invariant_logp", config, backend, logits.dtype)
    return kernel(logits, target, ignore_index=ignore_index, validate=validate)


@torch.library.custom_op("workbench::batch_invariant_logp_grad", mutates_args=())
def batch_invariant_logp_grad(
    logits: torch.Tensor,
    target: torch.Tensor,
    lse: torch.Tensor,
    grad_logp: torch.Tensor,
    grad_lse: torch.Tensor,
    ignore_index: int,
    config: str,
    backend: str,
) -> torch.Tensor:
    """The gradient of the logits as a torch operator, itself differentiable."""
    kernel = built("batch_invariant_logp", config, backend, logits.dtype)
    return kernel.grad(logits, target, lse, grad_logp, grad_lse, ignore_index=ignore_index)


@batch_invariant_logp.register_fake
def _(logits, target, ignore_index, validate, config, backend):
    check_logp(logits, target, ignore_index)
    like = {"size": target.shape, "dtype": torch.float32}
    return logits.new_empty(**like), logits.new_empty(**like)


@batch_invariant_logp_grad.register_fake
def _(logits, target, lse, grad_logp, grad_lse, ignore_index, config, backend):
    return logits.new_empty(logits.shape)


def _setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
    logits, target, ctx.ignore_index, _, ctx.config, ctx.backend = inputs
    ctx.save_for_backward(logits, target, output[1])


def _backward(ctx: Any, grad_logp: torch.Tensor, grad_lse: torch.Tensor) -> tuple:
    grad = run_logp_grad(
        *ctx.saved_tensors, grad_logp, grad_lse, ctx.ignore_index, ctx.config, ctx.backend
    )
    return grad, None, None, None, None, None


def _setup_grad_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:5])
    ctx.ignore_index = inputs[5]


def _double_backward(ctx: Any, upstream: torch.Tensor) -> tuple:
    """The closed form in torch's own operations: exact mathematics, no promise of bits.

    With p = exp(x - lse) and c = grad_lse - grad_logp the gradient is g = p c + grad_logp [target].
    lse counts as an input of its own; what it owes to the logits comes back through the forward
    operator, whose output it is.
    """
    logits, target, lse, grad_logp, grad_lse = ctx.saved_tensors
    ignored = target == ctx.ignore_index
    u = upstream.float()
    # Ignored rows have no p, whatever their logits hold; a target outside has lse NaN already.
    p = (logits.float() - lse[..., None]).exp().masked_fill(ignored[..., None], 0)
    up = (u * p).masked_fill(ignored[..., None], 0)
    total = up.sum(-1)
    inside = target.long().clamp(0, max(logits.shape[-1] - 1, 0))
    at_target = u.gather(-1, inside[..., None])[..., 0].masked_fill(ignored, 0)
    factor = (grad_lse - grad_logp).masked_fill(ignored, 0)
    grad_logits = (up * factor[..., None]).to(logits.dtype)
    grads = (grad_logits, None, -total * factor, at_target - total, total)
    return (*grads, None, None, None)


run_logp = differentiable(batch_invariant_logp, _backward, _setup_context)
run_logp_grad = differentiable(batch_invariant_logp_grad, _double_backward, _setup_grad_context)


# Under vmap the batch is one more leading dimension: rows do not see each other.


@batch_invariant_logp.register_vmap
def _(info, in_dims, logits, target, *rest):
    logits, target = (
        batch_first(t, d, info.batch_size)
        for t, d in zip((logits, target), in_dims[:2], strict=True)
    )
    return batch_invariant_logp(logits, target, *rest), (0, 0)


@batch_invariant_logp_grad.register_vmap
def _(info, in_dims, *arguments):
    tensors = [
        batch_first(t, d, info.batch_size) for t, d in zip(arguments[:5], in_dims[:5], strict=True)
    ]
    return batch_invariant_logp_grad(*tensors, *arguments[5:]), 0


# ---- what people import --------------------------------------------------------------------------


class AscendBatchInvariantLogpOp:
    """The log-probability of one token per row as an operator with autograd.

    A row's results and its gradient have the same bits in any batch, at any position and for any
    number of blocks. The order of summation depends on `config.tile_length` and `config.arch` and
    on nothing else. The second derivative is computed with torch's own operations, without a
    promise of bits.

    Args:
        config: KernelConfig; None: the kernel's defaults (tile 4096, 128 blocks) on "dav-2201".
        backend: "twin", "npu", or "auto": npu for tensors on an NPU, the twin for tensors on the
            CPU.

    Example:
        >>> op = AscendBatchInvariantLogpOp(KernelConfig(tile_length=64))
        >>> op(torch.zeros(2, 1), torch.tensor([0, -100]))
        tensor([0., 0.])
    """

    def __init__(self, config: KernelConfig | None = None, backend: str = "auto") -> None:
        check_backend(backend)
        self.config = spec("batch_invariant_logp").complete(config)
        spec("batch_invariant_logp").check(self.config)
        self.backend = backend
        self._key = self.config.to_key()  # here, since torch.compile does not trace json

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
            validate: Refuse other targets, which costs a copy of one element from the device;
                False: their rows and gradients are NaN.
            return_lse: Return log sum exp(logits) of each row as well.

        Returns:
            logp fp32 [...], in nats; with `return_lse` (logp, lse fp32 [...]).

        Raises:
            InputError: Shapes, dtypes, devices or targets that do not fit.
        """
        check_logp(logits, target, ignore_index)
        backend = backend_of(logits, self.backend)
        logp, lse = run_logp(logits, target, ignore_index, validate, self._key, backend)
        return (logp, lse) if return_lse else logp

    __call__ = forward
    forward_fp32 = forward  # the result is fp32 in any case

    def __repr__(self) -> str:
        return f"AscendBatchInvariantLogpOp({self.config!r}, backend={self.backend!r})"
