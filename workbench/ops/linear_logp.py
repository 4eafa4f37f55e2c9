"""The LM head and the log-probability as one path that never holds the logits of all rows.

`workbench.ops.linear_logp` is this module and the function: it can be called.

The logits are computed a chunk at a time, in forward by rows. Backward computes them again, because
keeping them is what is to be avoided: by rows for the gradient of `hidden`, which sums over the
vocabulary, and by columns for those of `weight` and `bias`, which sum over the rows. Every chunk
has whole sums, so no chunk changes a bit: the results and gradients are those of the two operators
one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from workbench._callable import make_callable
from workbench.build.config import KernelConfig, spec
from workbench.errors import ConfigError, InputError
from workbench.ops import registry
from workbench.ops.func import batch_first, differentiable, each_slice
from workbench.ops.inputs import IGNORE_INDEX, check_linear_logp, check_targets
from workbench.ops.lm_head import check_backward, head_vjp
from workbench.ops.variant import backend_of, built, check_backend, config_for, plain

CHUNK_BYTES = 64 << 20

# Backward has the logits of a chunk, their gradient, that gradient with the ignored rows, and its
# transpose, all at one time.
_BACKWARD_COPIES = 4


class _Chunks:
    """The kernels and inputs of one call, by rows and columns."""

    def __init__(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        bias: torch.Tensor | None,
        ignore_index: int,
        fp32_logits: bool,
        config: str,
        logp_config: str,
        backend: str,
    ) -> None:
        self.head = built("lm_head", config, backend, hidden.dtype)
        self.rows, self.vocab = target.numel(), weight.shape[0]
        self.hidden = plain(hidden).reshape(self.rows, hidden.shape[-1])
        self.weight, self.bias = plain(weight), None if bias is None else plain(bias)
        self.target = target.detach().reshape(self.rows).long()
        self.ignore_index = ignore_index
        self.dtype = torch.float32 if fp32_logits else hidden.dtype
        self.logp = built("batch_invariant_logp", logp_config, backend, self.dtype)
        self.active = (self.target != ignore_index).nonzero()[:, 0]

    def row_bytes(self) -> int:
        """Bytes of a row of logits, or of hidden where that is longer: both are copied."""
        return max(self.vocab, self.hidden.shape[1], 1) * self.dtype.itemsize

    def by_rows(self, budget: int) -> Iterator[torch.Tensor]:
        """Numbers of active rows, as many at a time as `budget` bytes of logits allow."""
        step = max(budget // self.row_bytes(), 1)
        return iter(self.active.split(step) if len(self.active) else ())

    def logits(self, rows: torch.Tensor, low: int = 0, high: int | None = None) -> torch.Tensor:
        """Logits of some rows at the columns [low, high)."""
        bias = None if self.bias is None else self.bias[low:high]
        return self.head(self.hidden[rows], self.weight[low:high], bias, self.dtype)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(logp, lse) of some rows."""
        return self.logp(
            self.logits(rows), self.target[rows], ignore_index=self.ignore_index, validate=False
        )

    def gradient(
        self,
        rows: torch.Tensor,
        lse: torch.Tensor,
        grads: tuple[torch.Tensor, torch.Tensor],
        low: int,
        high: int,
    ) -> torch.Tensor:
        """The gradient of the logits of some active rows at the columns [low, high).

        Args:
            lse, grads: Of all rows: the log-sum-exp, and the gradients of logp and of lse.
        """
        # The kernel wants a target in each row. Where it is in another chunk, one more column
        # stands in for it and is dropped. A target outside [0, V) makes no difference: its
        # log-sum-exp is NaN, and so is its row.
        before = int(low > 0 and high == self.vocab)
        after = int(high < self.vocab)
        first, last = low - before, high + after
        spare = 0 if before else high - first
        target = self.target[rows]
        local = torch.where((target >= low) & (target < high), target - first, spare)
        got = self.logp.grad(
            self.logits(rows, first, last),
            local,
            lse[rows],
            grads[0][rows],
            grads[1][rows],
            ignore_index=IGNORE_INDEX,  # no column's number, as the caller's may be
        )
        return got[:, before : before + high - low]


@torch.library.custom_op("workbench::linear_logp", mutates_args=())
def linear_logp_op(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    ignore_index: int,
    validate: bool,
    fp32_logits: bool,
    chunk_bytes: int,
    config: str,
    logp_config: str,
    backward: str,
    backend: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(logp, lse) as a torch operator; the configurations are `KernelConfig.to_key()`s."""
    if validate:
        check_targets(target, weight.shape[0], ignore_index)
    chunks = _Chunks(
        hidden, weight, target, bias, ignore_index, fp32_logits, config, logp_config, backend
    )
    logp, lse = (
        torch.zeros(chunks.rows, dtype=torch.float32, device=hidden.device) for _ in range(2)
    )
    for rows in chunks.by_rows(chunk_bytes):
        logp[rows], lse[rows] = chunks.forward(rows)
    return logp.reshape(target.shape), lse.reshape(target.shape)


@linear_logp_op.register_fake
def _(hidden, weight, target, bias, ignore_index, *rest):
    check_linear_logp(hidden, weight, target, bias, ignore_index)
    like = {"size": target.shape, "dtype": torch.float32}
    return hidden.new_empty(**like), hidden.new_empty(**like)


@torch.library.custom_op("workbench::linear_logp_grad", mutates_args=())
def linear_logp_grad_op(
    grad_logp: torch.Tensor,
    grad_lse: torch.Tensor,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    lse: torch.Tensor,
    need_hidden: bool,
    need_weight: bool,
    need_bias: bool,
    ignore_index: int,
    fp32_logits: bool,
    chunk_bytes: int,
    config: str,
    logp_config: str,
    backward: str,
    backend: str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of hidden, weight and bias as a torch operator; an empty tensor for each that is
    not needed."""
    chunks = _Chunks(
        hidden, weight, target, bias, ignore_index, fp32_logits, config, logp_config, backend
    )
    rows = chunks.rows
    back = _Gradients(
        chunks,
        lse.reshape(rows),
        (grad_logp.reshape(rows), grad_lse.reshape(rows)),
        chunk_bytes // _BACKWARD_COPIES,
        functools.partial(head_vjp, config=config, backward=backward, backend=backend),
    )
    whole = back.whole()
    grad_hidden, grad_weight, grad_bias = (hidden.new_empty(0) for _ in range(3))
    if need_hidden:
        grad_hidden = back.of_hidden(whole).reshape(hidden.shape)
    if need_weight or need_bias:
        dtype = bias.dtype if bias is not None and need_bias else None
        grad_weight, grad_bias = back.of_weight(whole, need_weight, dtype)
    return grad_hidden, grad_weight, grad_bias


@dataclass(frozen=True)
class _Gradients:
    """The gradients of one call, from those of its results.

    Attributes:
        lse, grads: Of all rows: the log-sum-exp, and the gradients of logp and of lse.
        budget: Bytes of logits that may exist at a time.
        vjp: `head_vjp` with the configuration, its kind and backend.
    """

    chunks: _Chunks
    lse: torch.Tensor
    grads: tuple[torch.Tensor, torch.Tensor]
    budget: int
    vjp: Callable[..., tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]]

    def gradient(self, rows: torch.Tensor, low: int, high: int) -> torch.Tensor:
        """The gradient of the logits of some active rows at the columns [low, high)."""
        return self.chunks.gradient(rows, self.lse, self.grads, low, high)

    def whole(self) -> torch.Tensor | None:
        """That of all active rows at all columns, if the budget allows it."""
        chunks = self.chunks
        if len(chunks.active) * chunks.row_bytes() > self.budget:
            return None
        return self.gradient(chunks.active, 0, chunks.vocab)

    def of_hidden(self, whole: torch.Tensor | None) -> torch.Tensor:
        """The gradient of hidden [N, H], row by row: each sums over the whole vocabulary."""
        chunks = self.chunks
        out = torch.zeros_like(chunks.hidden)
        for rows in chunks.by_rows(self.budget):
            g = self.gradient(rows, 0, chunks.vocab) if whole is None else whole
            out[rows] = self._rows(g, chunks.hidden[rows])
        ignored = chunks.target == chunks.ignore_index
        if bool(ignored.any()) and not _all_finite(chunks.weight, self.budget):
            # Zero times Inf: what the product of a row of zeros gives, without computing a product
            # where the weight is as it should be.
            h = chunks.hidden[ignored][:1]
            zeros = torch.zeros(1, chunks.vocab, dtype=chunks.dtype, device=h.device)
            out[ignored] = self._rows(zeros, h)
        return out

    def _rows(self, g: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        found, *_ = self.vjp(g, hidden, self.chunks.weight, need_weight=False)
        assert found is not None
        return found

    def of_weight(
        self, whole: torch.Tensor | None, need_weight: bool, bias_dtype: torch.dtype | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradients of weight [V, H] and bias [V], or empty ones, column by column: each sums
        over all rows, those with a zero gradient too."""
        chunks = self.chunks
        weight, hidden = chunks.weight, chunks.hidden
        out_weight = torch.empty_like(weight) if need_weight else hidden.new_empty(0)
        out_bias = hidden.new_empty(0 if bias_dtype is None else chunks.vocab)
        step = max(self.budget // max(chunks.rows * chunks.dtype.itemsize, 1) - 1, 1)
        for low in range(0, chunks.vocab, step):
            high = min(low + step, chunks.vocab)
            if whole is not None:
                some = whole[:, low:high]
            else:
                some = self.gradient(chunks.active, low, high)
            g = some
            if len(chunks.active) < chunks.rows:
                g = torch.zeros(chunks.rows, high - low, dtype=chunks.dtype, device=hidden.device)
                g[chunks.active] = some
            _, for_weight, for_bias = self.vjp(
                g,
                hidden,
                weight[low:high],
                need_hidden=False,
                need_weight=need_weight,
                bias_dtype=bias_dtype,
            )
            if for_weight is not None:
                out_weight[low:high] = for_weight
            if for_bias is not None:
                out_bias[low:high] = for_bias
        return out_weight, out_bias


def _all_finite(tensor: torch.Tensor, budget: int) -> bool:
    step = max(budget // max(tensor.shape[-1] * tensor.element_size(), 1), 1)
    return all(bool(part.isfinite().all()) for part in tensor.split(step))


@linear_logp_grad_op.register_fake
def _(grad_logp, grad_lse, hidden, weight, target, bias, lse, *rest):
    needed = zip((hidden, weight, bias), rest[:3], strict=True)
    # Contiguous as the gradients are, whatever the strides of the inputs.
    found = [t.new_empty(t.shape) if need else hidden.new_empty(0) for t, need in needed]
    return found[0], found[1], found[2]


def _setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
    hidden, weight, target, bias, ignore_index, _, *rest = inputs
    ctx.save_for_backward(hidden, weight, target, bias, output[1])
    ctx.rest = (ignore_index, *rest)


def _backward(ctx: Any, grad_logp: torch.Tensor, grad_lse: torch.Tensor) -> tuple:
    hidden, weight, target, bias, lse = ctx.saved_tensors
    need_hidden, need_weight, _, need_bias = ctx.needs_input_grad[:4]
    needs = (need_hidden, need_weight, need_bias and bias is not None)
    found = _grad(grad_logp, grad_lse, hidden, weight, target, bias, lse, *needs, *ctx.rest)
    grads = [g if need else None for g, need in zip(found, needs, strict=True)]
    return (grads[0], grads[1], None, grads[2], *[None] * 8)


def _no_context(ctx: Any, inputs: tuple, output: tuple) -> None:
    pass


def _no_second_derivative(ctx: Any, *grads: torch.Tensor) -> tuple:
    raise InputError(
        "linear_logp has no second derivative: it keeps no logits. Use AscendLMHeadOp, then "
        "AscendBatchInvariantLogpOp on its logits; both have one"
    )


@linear_logp_op.register_vmap
def _(info, in_dims, hidden, weight, target, bias, *rest):
    if in_dims[1] is None and in_dims[3] is None:  # rows do not see each other
        hidden = batch_first(hidden, in_dims[0], info.batch_size)
        target = batch_first(target, in_dims[2], info.batch_size)
        return linear_logp_op(hidden, weight, target, bias, *rest), (0, 0)
    arguments = (hidden, weight, target, bias, *rest)
    return each_slice(linear_logp_op, info.batch_size, in_dims, arguments)


@linear_logp_grad_op.register_vmap
def _(info, in_dims, *arguments):
    # The gradient of the weight is one per slice.
    return each_slice(linear_logp_grad_op, info.batch_size, in_dims, arguments)


_call = differentiable(linear_logp_op, _backward, _setup_context)
_grad = differentiable(linear_logp_grad_op, _no_second_derivative, _no_context)


# ---- what people import --------------------------------------------------------------------------


class AscendLinearLogpOp:
    """The log-probability of one token per row, straight from hidden states, with autograd.

    Equal on raw bits to `AscendLMHeadOp` followed by `AscendBatchInvariantLogpOp`, results and
    gradients, without the [N, V] logits: about `chunk_bytes` of them exist at a time. A row's
    results have the same bits in any batch. Ignored rows cost nothing in forward.

    There is no second derivative. Backward computes the logits again: once where those of all
    active rows fit into a quarter of `chunk_bytes`, else twice.

    Args:
        config: KernelConfig of the LM head; None: its defaults on "dav-2201".
        backend: "twin", "npu", or "auto": npu for tensors on an NPU, the twin for tensors on the
            CPU.
        logp_config: KernelConfig of the log-probability, of the same architecture; None: its
            defaults with the architecture, switches and `max_blocks` of `config`.
        backward: As in `AscendLMHeadOp`: "deterministic" or "matmul".
        chunk_bytes: Bytes of logits (in backward of logits, their gradient and its copies) that
            exist at a time; at least one row or column. It never changes a bit of "deterministic".

    Raises:
        ConfigError: A configuration that a kernel does not take, or two architectures.

    Example:
        >>> op = AscendLinearLogpOp()
        >>> op(torch.zeros(2, 8), torch.ones(1, 8), torch.tensor([0, -100]))
        tensor([0., 0.])
    """

    def __init__(
        self,
        config: KernelConfig | None = None,
        backend: str = "auto",
        *,
        logp_config: KernelConfig | None = None,
        backward: str = "deterministic",
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        check_backend(backend)
        check_backward(backward)
        if isinstance(chunk_bytes, bool) or not isinstance(chunk_bytes, int) or chunk_bytes < 1:
            raise InputError(f"chunk_bytes={chunk_bytes!r}; want a positive number of bytes")
        self.config = spec("lm_head").complete(config)
        logp_spec = spec("batch_invariant_logp")
        self.logp_config = logp_spec.complete(
            logp_config or config_for("batch_invariant_logp", self.config)
        )
        if self.logp_config.arch != self.config.arch:
            raise ConfigError(
                f"config is for {self.config.arch}, logp_config for {self.logp_config.arch}; both "
                "kernels run on one device, so give one architecture"
            )
        spec("lm_head").check(self.config)
        logp_spec.check(self.logp_config)
        self.backend = backend
        self.backward = backward
        self.chunk_bytes = chunk_bytes
        # Here, since torch.compile does not trace json.
        self._keys = (self.config.to_key(), self.logp_config.to_key())

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
        """log softmax(hidden @ weight.T + bias)[target] of each row.

        Args:
            hidden: [..., H] fp32, bf16 or fp16, at least one leading dimension.
            weight: [V, H] of the same dtype and device.
            target: [...] int64 or int32: 0 to V - 1, or `ignore_index`.
            bias: [V] of the same dtype and device, or None.
            ignore_index: Rows with this target give 0 and 0, and a zero gradient.
            validate: Refuse other targets, which costs a copy of one element from the device;
                False: their rows and gradients are NaN.
            return_lse: Return log sum exp(logits) of each row as well.
            logits_dtype: What the logits are rounded to in between: None (hidden's dtype), or
                torch.float32 (not at all).

        Returns:
            logp fp32 [...], in nats; with `return_lse` (logp, lse fp32 [...]).

        Raises:
            InputError: Shapes, dtypes, devices or targets that do not fit.
        """
        wanted = check_linear_logp(hidden, weight, target, bias, ignore_index, logits_dtype)
        logp, lse = _call(
            hidden,
            weight,
            target,
            bias,
            ignore_index,
            validate,
            wanted == torch.float32,
            self.chunk_bytes,
            *self._keys,
            self.backward,
            backend_of(hidden, self.backend),
        )
        return (logp, lse) if return_lse else logp

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
        return (
            f"AscendLinearLogpOp({self.config!r}, backend={self.backend!r}, "
            f"logp_config={self.logp_config!r}, backward={self.backward!r}, "
            f"chunk_bytes={self.chunk_bytes})"
        )


def linear_logp(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    config: KernelConfig | None = None,
    logp_config: KernelConfig | None = None,
    ignore_index: int = IGNORE_INDEX,
    validate: bool = True,
    return_lse: bool = False,
    logits_dtype: torch.dtype | None = None,
    chunk_bytes: int | None = None,
    backward: str | None = None,
    impl: str | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of `target` straight from hidden states, by the registry's choice.

    It asks the registry at each call, which torch.compile cannot trace: there, and in a loop, make
    an operator once by `registry.get_op("linear_logp")` or `AscendLinearLogpOp`, whose
    documentation has the arguments.

    Args:
        impl: "twin", "ascend" or "native"; None: the first that can run where `hidden` is.

    Returns:
        logp fp32 [...]; with `return_lse` (logp, lse fp32 [...]).

    Raises:
        InputError: Shapes, dtypes, devices, targets or names that do not fit.
        MissingError: Nothing that takes these arguments can run here.

    Example:
        >>> linear_logp(torch.zeros(2, 8), torch.ones(1, 8), torch.tensor([0, -100]))
        tensor([0., 0.])
    """
    given = {"logp_config": logp_config, "chunk_bytes": chunk_bytes, "backward": backward}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    op = registry.get_op("linear_logp", tensor=hidden, impl=impl, config=config, **options)
    return op(
        hidden,
        weight,
        target,
        bias,
        ignore_index=ignore_index,
        validate=validate,
        return_lse=return_lse,
        logits_dtype=logits_dtype,
    )


make_callable(__name__, linear_logp)
