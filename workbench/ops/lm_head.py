"""The deterministic LM head: the kernel as a callable, a torch custom op, and the operator people
import."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from workbench.build.config import KernelConfig, spec
from workbench.build.kernel import Kernel
from workbench.errors import InputError
from workbench.ops.det_gemm import product
from workbench.ops.func import batch_first, differentiable, each_slice
from workbench.ops.inputs import check_lm_head, check_out, short_name
from workbench.ops.precision import full_fp32
from workbench.ops.variant import backend_of, built, check_backend, config_for, plain

BACKWARDS = ("deterministic", "matmul")

_VJP_BYTES = 4 << 20  # of a 16-bit weight in fp32 that exist at a time in backward


class LMHeadKernel(Kernel):
    """A built LM head. `kernel(hidden, weight)` launches it; there is no autograd at this level."""

    def __call__(
        self,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        out_dtype: torch.dtype | None = None,
        *,
        out: torch.Tensor | None = None,
        blocks: int | None = None,
        block_ids: Sequence[int] | None = None,
        threads: int = 0,
        check: bool | str | Sequence[str] | None = None,
        counters: bool = False,
        perturb: int = 0,
    ) -> torch.Tensor:
        """Logits `hidden @ weight.T (+ bias)` in the kernel's own order of summation.

        Args:
            hidden: [..., H] fp32, bf16 or fp16, any strides.
            weight: [V, H] of the same dtype and device.
            bias: [V] likewise, or None.
            out_dtype: None (the inputs' dtype) or torch.float32: the fp32 sum as it is, an entry of
                its own.
            out: Where to write, contiguous, [..., V] of the output dtype; None: a new tensor.
            blocks: How many blocks to launch; None: min(block turns, MAX_BLOCKS). Never changes a
                bit.
            block_ids: Twin only: run just these blocks, and leave the elements of the others as
                they were in `out`. Block b of B owns the turns b, b + B, b + 2 B, …: with schedule
                "output" turn t is element t of [N, V]; with "weight_stationary" and G groups of
                WEIGHT_ROWS vocabulary ids it is group t % G of pass t // G over HIDDEN_ROWS rows.
            threads: Twin only: host threads; 0: one per core.
            check, counters, perturb: Twin only; as in `Kernel.launch`.

        Returns:
            [..., V] of `out_dtype`.

        Raises:
            InputError: Shapes, dtypes or devices that do not fit.
            ConfigError: The tile is over the UB budget for this dtype.
        """
        wanted = check_lm_head(hidden, weight, bias, out_dtype)
        assert self.spec is not None
        dtype = short_name(hidden.dtype)
        self.spec.check(self.config, dtype)
        shape = (*hidden.shape[:-1], weight.shape[0])
        if out is None:
            out = torch.empty(shape, dtype=wanted, device=hidden.device)
        else:
            check_out("out", out, shape, wanted)
        outputs = out.numel()
        if outputs == 0:
            return out
        width, vocab = hidden.shape[-1], weight.shape[0]
        rows = outputs // vocab
        if blocks is None:
            blocks = min(self._turns(rows, vocab), self.constants["MAX_BLOCKS"])
        self.launch(
            self.spec.entry(dtype, short_name(wanted)),
            blocks,
            plain(hidden),
            plain(weight),
            None if bias is None else plain(bias),
            out.detach(),
            rows,
            width,
            vocab,
            int(bias is not None),
            threads=threads,
            block_ids=block_ids,
            check=check,
            counters=counters,
            perturb=perturb,
        )
        return out

    def _turns(self, rows: int, vocab: int) -> int:
        """Block turns of a launch; more blocks would have nothing to do."""
        given = self.constants
        if given["SCHEDULE"] == 0:
            return rows * vocab
        return -(-vocab // given["WEIGHT_ROWS"]) * -(-rows // given["HIDDEN_ROWS"])


@torch.library.custom_op("workbench::lm_head", mutates_args=())
def lm_head(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    fp32_out: bool,
    config: str,
    backend: str,
    backward: str = "deterministic",
) -> torch.Tensor:
    """The LM head as a torch operator; `config` is a `KernelConfig.to_key()`, `backward` one of
    BACKWARDS."""
    kernel = built("lm_head", config, backend, hidden.dtype)
    return kernel(hidden, weight, bias, torch.float32 if fp32_out else None)


@lm_head.register_fake
def _(hidden, weight, bias, fp32_out, config, backend, backward="deterministic"):
    wanted = check_lm_head(hidden, weight, bias, torch.float32 if fp32_out else None)
    return hidden.new_empty((*hidden.shape[:-1], weight.shape[0]), dtype=wanted)


@lm_head.register_vmap
def _(info, in_dims, hidden, weight, bias, *rest):
    if in_dims[1] is None and in_dims[2] is None:  # rows do not see each other
        hidden = batch_first(hidden, in_dims[0], info.batch_size)
        return lm_head(hidden, weight, bias, *rest), 0
    return each_slice(lm_head, info.batch_size, in_dims, (hidden, weight, bias, *rest))


def _setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    hidden, weight, bias, _, ctx.config, ctx.backend, ctx.mode = inputs
    ctx.save_for_backward(hidden, weight)
    ctx.bias_dtype = None if bias is None else bias.dtype


def _backward(ctx: Any, grad: torch.Tensor) -> tuple:
    need_hidden, need_weight, need_bias = ctx.needs_input_grad[:3]
    hidden, weight = ctx.saved_tensors
    grads = head_vjp(
        grad,
        hidden,
        weight,
        ctx.config,
        ctx.mode,
        ctx.backend,
        need_hidden=need_hidden,
        need_weight=need_weight,
        bias_dtype=ctx.bias_dtype if need_bias else None,
    )
    return (*grads, None, None, None, None)


run_lm_head = differentiable(lm_head, _backward, _setup_context)


def check_backward(backward: str) -> None:
    """Raise InputError unless `backward` is one of BACKWARDS."""
    if backward not in BACKWARDS:
        raise InputError(f"unknown backward {backward!r}; known ones are {', '.join(BACKWARDS)}")


@functools.lru_cache(maxsize=256)
def gemm_key(config: str) -> str:
    """The `KernelConfig.to_key()` of det_gemm that goes with one of the LM head (`config_for`)."""
    return config_for("det_gemm", KernelConfig.from_key(config)).to_key()


def head_vjp(
    grad: torch.Tensor,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    config: str,
    backward: str,
    backend: str,
    *,
    need_hidden: bool = True,
    need_weight: bool = True,
    bias_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Gradients of `hidden @ weight.T + bias`, each in the dtype of its input.

    Args:
        grad: [..., V], the gradient of the logits.
        hidden: [..., H].
        weight: [V, H].
        config: The `KernelConfig.to_key()` of the LM head.
        backward: "deterministic" (`deterministic_vjp`) or "matmul" (`linear_vjp`).
        backend: "twin" or "npu".
        bias_dtype: dtype of the bias's gradient; None: no bias gradient.

    Returns:
        (grad_hidden [..., H], grad_weight [V, H], grad_bias [V]); None for what was not asked for.
    """
    wanted: dict[str, Any] = {
        "need_hidden": need_hidden,
        "need_weight": need_weight,
        "bias_dtype": bias_dtype,
    }
    if backward == "matmul":
        with full_fp32(grad.device.type):
            return linear_vjp(grad, hidden, weight, **wanted)
    return deterministic_vjp(grad, hidden, weight, gemm_key(config), backend, **wanted)


def deterministic_vjp(
    grad: torch.Tensor,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    config: str,
    backend: str,
    *,
    need_hidden: bool = True,
    need_weight: bool = True,
    bias_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Gradients of `hidden @ weight.T + bias` by det_gemm: sums in fp32 in its one order, each
    rounded once to the input's dtype.

    The sums run over the vocabulary for grad_hidden, so that a row's gradient does not see the
    batch, and over the rows, in their order, for grad_weight and grad_bias.

    Args:
        grad: [..., V], the gradient of the logits.
        hidden: [..., H].
        weight: [V, H].
        config: A `KernelConfig.to_key()` of det_gemm.
        backend: "twin" or "npu".
        bias_dtype: dtype of the bias's gradient; None: no bias gradient.

    Returns:
        (grad_hidden [..., H], grad_weight [V, H], grad_bias [V]); None for what was not asked for.
        No input is widened as a whole.
    """
    vocab, width = weight.shape
    rows = hidden.shape[:-1].numel()  # a reshape to (-1, 0) would be ambiguous
    g, h = grad.reshape(rows, vocab), hidden.reshape(rows, width)
    run = functools.partial(product, config=config, backend=backend)
    grad_hidden = grad_weight = grad_bias = None
    if need_hidden:
        grad_hidden = run(g, weight, hidden.dtype).reshape(hidden.shape)
    if need_weight:
        grad_weight = run(g.T, h, weight.dtype)
    if bias_dtype is not None:
        grad_bias = run(g.new_ones(1, rows), g, bias_dtype)[0]
    return grad_hidden, grad_weight, grad_bias


def linear_vjp(
    grad: torch.Tensor,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    *,
    need_hidden: bool = True,
    need_weight: bool = True,
    bias_dtype: torch.dtype | None = None,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
    """Gradients of `hidden @ weight.T + bias` in fp32, cast to the inputs' dtypes at the end.

    Args:
        grad: [..., V], the gradient of the logits.
        hidden: [..., H].
        weight: [V, H].
        bias_dtype: dtype of the bias's gradient; None: no bias gradient.

    Returns:
        (grad_hidden [..., H], grad_weight [V, H], grad_bias [V]); None for what was not asked for.
        A 16-bit weight is widened a part at a time, never as a whole.
    """
    vocab, width = weight.shape
    rows = hidden.shape[:-1].numel()  # a reshape to (-1, 0) would be ambiguous
    g = grad.reshape(rows, vocab).float()
    h = hidden.reshape(rows, width).float()
    grad_hidden = grad_weight = grad_bias = None
    parts = [slice(low, low + _chunk(weight)) for low in range(0, vocab, _chunk(weight))]
    if need_hidden:
        total = g.new_zeros(h.shape)
        for part in parts:
            total = total + g[:, part] @ weight[part].float()
        grad_hidden = total.reshape(hidden.shape).to(hidden.dtype)
    if need_weight:
        if len(parts) == 1:
            grad_weight = (g.T @ h).to(weight.dtype)
        else:
            grad_weight = weight.new_empty(weight.shape)
            for part in parts:
                grad_weight[part] = g[:, part].T @ h
    if bias_dtype is not None:
        grad_bias = g.sum(0).to(bias_dtype)
    return grad_hidden, grad_weight, grad_bias


def _chunk(weight: torch.Tensor) -> int:
    """Rows of the weight that backward works on at a time."""
    vocab, width = weight.shape
    if weight.dtype == torch.float32:
        return max(vocab, 1)
    return max(_VJP_BYTES // (4 * max(width, 1)), 1)


class AscendLMHeadOp:
    """The deterministic LM head as an operator with autograd.

    A row's logits have the same bits in any batch, at any position and for any number of blocks.
    The order of summation depends on `config.tile_length` and `config.arch` and on nothing else.
    The gradient of a row of hidden has the same property; those of weight and bias are sums over
    the rows in their order.

    Args:
        config: KernelConfig; None: the kernel's defaults (tile 4096, 128 blocks) on "dav-2201".
        backend: "twin", "npu", or "auto": npu for tensors on an NPU, the twin for tensors on the
            CPU.
        backward: "deterministic": gradients by the deterministic matrix product; "matmul": by
            torch.matmul in fp32, in whatever order its library takes for the shape. (The second
            derivative of "matmul" is torch's own: there the caller's autocast and precision apply.)

    Example:
        >>> op = AscendLMHeadOp(KernelConfig(tile_length=64))
        >>> op(torch.ones(2, 8), torch.ones(3, 8))
        tensor([[8., 8., 8.],
                [8., 8., 8.]])
    """

    def __init__(
        self,
        config: KernelConfig | None = None,
        backend: str = "auto",
        backward: str = "deterministic",
    ) -> None:
        check_backend(backend)
        check_backward(backward)
        self.config = spec("lm_head").complete(config)
        spec("lm_head").check(self.config)
        self.backend = backend
        self.backward = backward
        self._key = self.config.to_key()  # here, since torch.compile does not trace json

    def forward(
        self, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Logits [..., V] in the dtype of hidden [..., H], weight [V, H] and bias [V].

        Raises:
            InputError: Shapes, dtypes or devices that do not fit.
        """
        return self._run(hidden, weight, bias, fp32_out=False)

    __call__ = forward

    def forward_fp32(
        self, hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The same logits as fp32: what `forward` holds before its one rounding."""
        return self._run(hidden, weight, bias, fp32_out=True)

    def _run(self, hidden, weight, bias, *, fp32_out: bool) -> torch.Tensor:
        check_lm_head(hidden, weight, bias, None)
        backend = backend_of(hidden, self.backend)
        return run_lm_head(hidden, weight, bias, fp32_out, self._key, backend, self.backward)

    def __repr__(self) -> str:
        return (
            f"AscendLMHeadOp({self.config!r}, backend={self.backend!r}, backward={self.backward!r})"
        )
