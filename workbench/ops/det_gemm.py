"""The deterministic matrix product: the kernel as a callable, a torch custom op, the operator
people import, and what combines the results of parts of K."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from workbench.build.config import KernelConfig, spec
from workbench.build.kernel import Kernel
from workbench.errors import InputError
from workbench.ops.func import batch_first, differentiable, each_slice
from workbench.ops.inputs import check_det_gemm, check_out, short_name
from workbench.ops.variant import backend_of, built, check_backend, plain

_MOST_LEAVES = 1 << 16  # what the kernel's levels hold


class DetGemmKernel(Kernel):
    """A built deterministic matrix product. `kernel(a, b)` launches it; there is no autograd at
    this level."""

    def __call__(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
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
        """The product `a @ b` in the kernel's own order of summation.

        Args:
            a: [M, K] fp32, bf16 or fp16, any strides. It may be fp32 where b is of 16 bits.
            b: [K, N] of a's dtype, on a's device.
            out_dtype: None (b's dtype) or torch.float32: the fp32 sum as it is, an entry of its
                own.
            out: Where to write, contiguous, [M, N] of the output dtype; None: a new tensor.
            blocks: How many blocks to launch; None: min(turns, MAX_BLOCKS), where a turn is
                TILE_LENGTH columns of ROWS rows. Never changes a bit.
            block_ids: Twin only: run just these blocks, and leave the elements of the others as
                they were in `out`.
            threads: Twin only: host threads; 0: one per core.
            check, counters, perturb: Twin only; as in `Kernel.launch`.

        Returns:
            [M, N] of `out_dtype`.

        Raises:
            InputError: Shapes, dtypes or devices that do not fit; K beyond 65536 leaves.
            ConfigError: The tile is over the UB budget for this dtype.
        """
        wanted = check_det_gemm(a, b, out_dtype, wide=True)
        assert self.spec is not None
        _check_leaves(a.shape[1], self.config)
        dtype = short_name(b.dtype)
        self.spec.check(self.config, dtype)
        shape = (a.shape[0], b.shape[1])
        if out is None:
            out = torch.empty(shape, dtype=wanted, device=a.device)
        else:
            check_out("out", out, shape, wanted)
        if out.numel() == 0:
            return out
        if blocks is None:
            blocks = min(self.turns(*shape), self.constants["MAX_BLOCKS"])
        role = "forward" if a.dtype == b.dtype else "wide"
        self.launch(
            self.spec.entry(dtype, short_name(wanted), role),
            blocks,
            plain(a),
            plain(b),
            out.detach(),
            a.shape[0],
            a.shape[1],
            b.shape[1],
            threads=threads,
            block_ids=block_ids,
            check=check,
            counters=counters,
            perturb=perturb,
        )
        return out

    def turns(self, rows: int, columns: int) -> int:
        """Turns that a product of this shape takes: more blocks than these have nothing to do."""
        constants = self.constants
        return -(-rows // constants["ROWS"]) * -(-columns // constants["TILE_LENGTH"])


def _check_leaves(depth: int, config: KernelConfig) -> None:
    most = config.leaf_length * _MOST_LEAVES
    if depth > most:
        raise InputError(
            f"K = {depth}: with leaf_length={config.leaf_length} K may be at most {most} "
            f"({_MOST_LEAVES} leaves). Give a larger leaf_length, or parts of K whose fp32 "
            "results workbench.ops.det_gemm.combine adds up"
        )


@torch.library.custom_op("workbench::det_gemm", mutates_args=())
def det_gemm(
    a: torch.Tensor, b: torch.Tensor, fp32_out: bool, config: str, backend: str
) -> torch.Tensor:
    """The product as a torch operator; `config` is a `KernelConfig.to_key()`. `a` may be fp32
    beside a 16-bit `b`; the result is of b's dtype, or fp32."""
    kernel = built("det_gemm", config, backend, b.dtype)
    return kernel(a, b, torch.float32 if fp32_out else None)


@det_gemm.register_fake
def _(a, b, fp32_out, config, backend):
    wanted = check_det_gemm(a, b, torch.float32 if fp32_out else None, wide=True)
    return a.new_empty((a.shape[0], b.shape[1]), dtype=wanted)


@det_gemm.register_vmap
def _(info, in_dims, a, b, *rest):
    if in_dims[1] is None:  # rows do not see each other: all of them in one product
        a = batch_first(a, in_dims[0], info.batch_size)
        rows = det_gemm(a.flatten(0, 1), b, *rest)
        return rows.unflatten(0, a.shape[:2]), 0
    return each_slice(det_gemm, info.batch_size, in_dims, (a, b, *rest))


def _setup_context(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])
    ctx.rest = inputs[3:]


def _backward(ctx: Any, grad: torch.Tensor) -> tuple:
    a, b = ctx.saved_tensors
    grad_a = grad_b = None
    if ctx.needs_input_grad[0]:
        grad_a = product(grad, b.T, a.dtype, *ctx.rest)
    if ctx.needs_input_grad[1]:
        grad_b = product(a.T, grad, b.dtype, *ctx.rest)
    return grad_a, grad_b, None, None, None


run_det_gemm = differentiable(det_gemm, _backward, _setup_context)


def product(
    a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype, config: str, backend: str
) -> torch.Tensor:
    """The deterministic `a @ b` where one of the two may be fp32 beside the other's 16 bits.

    Args:
        a: [M, K].
        b: [K, N].
        out_dtype: fp32, or the 16-bit dtype of the inputs or of what they are gradients of.
        config: A `KernelConfig.to_key()` of det_gemm.
        backend: "twin" or "npu".

    Returns:
        [M, N]: fp32 sums in the kernel's order, rounded once to `out_dtype`. Differentiable, by
        det_gemm again.
    """
    if b.dtype == torch.float32 != a.dtype:
        # The kernel widens b, not a. A product of two numbers has no order, so the transposed
        # product has the same bits.
        return product(b.T, a.T, out_dtype, config, backend).T.contiguous()
    fp32_out = out_dtype != b.dtype or b.dtype == torch.float32
    return run_det_gemm(a, b, fp32_out, config, backend).to(out_dtype)


# ---- parts of K ----------------------------------------------------------------------------------


def shard_length(depth: int, parts: int, leaf_length: int = 128) -> int:
    """The length of the parts that K may be cut into, so that `combine` gives the bits of the
    whole.

    Args:
        depth: K.
        parts: How many parts at most, 1 or more.
        leaf_length: Of the kernel's configuration.

    Returns:
        The smallest `leaf_length * 2**j` of which `parts` cover K. The last part is what is left,
        and fewer parts than asked for may be enough.

    Raises:
        InputError: A number that is not positive.

    Example:
        >>> shard_length(4096, 2), shard_length(4096, 3), shard_length(12288, 2)
        (2048, 2048, 8192)
    """
    for name, value in (("depth", depth), ("parts", parts), ("leaf_length", leaf_length)):
        if value < 1:
            raise InputError(f"{name}={value}; want a positive number")
    length = leaf_length
    while length * parts < depth:
        length *= 2
    return length


def combine(partials: Sequence[torch.Tensor]) -> torch.Tensor:
    """The fp32 result of a product from those of consecutive parts of K.

    Equal on raw bits to the product over the whole K, if every part but the last is
    `leaf_length * 2**j` long for one j and the last is no longer: `shard_length` gives such a
    length. The additions are torch's: the caller's flush-to-zero mode applies to them.

    Args:
        partials: fp32 tensors of one shape and device, in the order of K; one or more.

    Returns:
        fp32 of that shape; round it once if another dtype is wanted.

    Raises:
        InputError: Nothing to combine; dtypes, shapes or devices that differ.

    Example:
        >>> op, a, b = AscendDetGemmOp(), torch.randn(2, 1000), torch.randn(1000, 3)
        >>> n = shard_length(1000, 2)
        >>> parts = [op(a[:, :n], b[:n]), op(a[:, n:], b[n:])]
        >>> torch.equal(combine(parts), op(a, b))
        True
    """
    if len(partials) == 0:
        raise InputError("partials is empty; want the fp32 result of each part of K")
    first = partials[0]
    for i, part in enumerate(partials):
        if not isinstance(part, torch.Tensor) or part.dtype != torch.float32:
            given = short_name(part.dtype) if isinstance(part, torch.Tensor) else type(part)
            raise InputError(
                f"partials[{i}] is {given}; want fp32 tensors: a part that is rounded before it is "
                "added has other bits. forward_fp32 gives them"
            )
        if part.shape != first.shape or part.device != first.device:
            raise InputError(
                f"partials[{i}] is {tuple(part.shape)} on {part.device}, partials[0] "
                f"{tuple(first.shape)} on {first.device}; they must be alike"
            )
    return _combined(partials)


def _combined(partials: Sequence[torch.Tensor]) -> torch.Tensor:
    if len(partials) == 1:
        return partials[0]
    left = 1 << (len(partials) - 1).bit_length() - 1  # the largest power of two below
    total = _combined(partials[:left]) + _combined(partials[left:])
    return total.masked_fill(total.isnan(), float("nan"))  # the one NaN that the kernel makes


# ---- the operator --------------------------------------------------------------------------------


class AscendDetGemmOp:
    """The matrix product in one fixed order, as an operator with autograd.

    An element has the same bits whatever the number of rows and columns, its place among them, and
    the number of blocks. The order of summation depends on K and `config.leaf_length` and on
    nothing else. Gradients are products of the same kind.

    Args:
        config: KernelConfig; None: the kernel's defaults (leaf 128, tile 512, 4 rows, 128 blocks)
            on "dav-2201".
        backend: "twin", "npu", or "auto": npu for tensors on an NPU, the twin for tensors on the
            CPU.

    Example:
        >>> op = AscendDetGemmOp(KernelConfig(leaf_length=64))
        >>> op(torch.ones(2, 8), torch.ones(8, 3))
        tensor([[8., 8., 8.],
                [8., 8., 8.]])
    """

    def __init__(self, config: KernelConfig | None = None, backend: str = "auto") -> None:
        check_backend(backend)
        self.config = spec("det_gemm").complete(config)
        spec("det_gemm").check(self.config)
        self.backend = backend
        self._key = self.config.to_key()  # here, since torch.compile does not trace json

    def forward(
        self, a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """The product [M, N] of a [M, K] and b [K, N], both fp32, bf16 or fp16.

        Args:
            out_dtype: None (the inputs' dtype) or torch.float32: the sum before its one rounding.

        Raises:
            InputError: Shapes, dtypes or devices that do not fit; K beyond 65536 leaves.
        """
        wanted = check_det_gemm(a, b, out_dtype)
        _check_leaves(a.shape[1], self.config)
        fp32_out = wanted == torch.float32
        return run_det_gemm(a, b, fp32_out, self._key, backend_of(a, self.backend))

    __call__ = forward

    def forward_fp32(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The same product as fp32: what `forward` holds before its one rounding."""
        return self.forward(a, b, torch.float32)

    def __repr__(self) -> str:
        return f"AscendDetGemmOp({self.config!r}, backend={self.backend!r})"
