"""What the operators take, and what they say about anything else."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from workbench.errors import InputError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
IGNORE_INDEX = -100  # of a target that stands for none, as in torch's losses
LARGEST = 2**31 - 1  # of one dimension: a kernel counts rows, width and vocab in 32 bits
# Of one dimension of the matrix product: a copy steps from row to row by bytes in 32 bits.
LARGEST_PITCH = 2**30 - 1


def short_name(dtype: torch.dtype) -> str:
    return NAMES.get(dtype, str(dtype).removeprefix("torch."))


def check_out(name: str, out: torch.Tensor, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Raise InputError unless a kernel can write a result of this shape and dtype to `out`."""
    if out.shape != tuple(shape) or out.dtype != dtype or not out.is_contiguous():
        raise InputError(
            f"{name} is {short_name(out.dtype)} {tuple(out.shape)}, "
            f"contiguous={out.is_contiguous()}; want contiguous {short_name(dtype)} {tuple(shape)}"
        )


def check_lm_head(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    out_dtype: torch.dtype | None,
) -> torch.dtype:
    """Check the LM head's inputs; returns the dtype of the logits.

    Args:
        hidden: [..., H] with at least one leading dimension, fp32, bf16 or fp16.
        weight: [V, H], of hidden's dtype and on its device.
        bias: [V] likewise, or None.
        out_dtype: None (hidden's), hidden's, or torch.float32.

    Raises:
        InputError: Anything else; the message says what was given and what was wanted.
    """
    for name, tensor in (("hidden", hidden), ("weight", weight), ("bias", bias)):
        if not isinstance(tensor, torch.Tensor) and not (name == "bias" and tensor is None):
            raise InputError(f"{name} is a {type(tensor).__name__}; want a torch.Tensor")
    if hidden.dtype not in NAMES:
        raise InputError(
            f"hidden is {short_name(hidden.dtype)}; the LM head takes fp32, bf16 and fp16. "
            "Convert it, for example hidden.float()"
        )
    if hidden.ndim < 2:
        raise InputError(
            f"hidden has shape {tuple(hidden.shape)}; want [..., H] with at least one leading "
            "dimension. For one row pass hidden.unsqueeze(0)"
        )
    if weight.ndim != 2:
        raise InputError(
            f"weight has shape {tuple(weight.shape)}; want [V, H] with H = {hidden.shape[-1]}"
        )
    if weight.shape[1] != hidden.shape[-1]:
        raise InputError(
            f"weight has shape {tuple(weight.shape)}, hidden {tuple(hidden.shape)}: their last "
            f"dimensions, {weight.shape[1]} and {hidden.shape[-1]}, must be the same H"
        )
    if weight.dtype != hidden.dtype:
        raise InputError(
            f"weight is {short_name(weight.dtype)}, hidden {short_name(hidden.dtype)}; they "
            f"must have one dtype. Convert one, for example weight.to({hidden.dtype})"
        )
    if weight.device != hidden.device:
        raise InputError(
            f"weight is on {weight.device}, hidden on {hidden.device}; they must be on one device"
        )
    if bias is not None:
        if tuple(bias.shape) != (weight.shape[0],):
            raise InputError(
                f"bias has shape {tuple(bias.shape)}; want [V] = ({weight.shape[0]},) for "
                f"weight {tuple(weight.shape)}"
            )
        if bias.dtype != hidden.dtype:
            raise InputError(
                f"bias is {short_name(bias.dtype)}, hidden {short_name(hidden.dtype)}; they "
                "must have one dtype"
            )
        if bias.device != hidden.device:
            raise InputError(
                f"bias is on {bias.device}, hidden on {hidden.device}; they must be on one device"
            )
    wanted = out_dtype or hidden.dtype
    if wanted not in (hidden.dtype, torch.float32):
        names = dict.fromkeys((short_name(hidden.dtype), "fp32"))
        raise InputError(
            f"out_dtype={out_dtype}: logits of {short_name(hidden.dtype)} inputs come as "
            f"{' or '.join(names)}"
        )
    if max(hidden.shape[:-1].numel(), *hidden.shape, *weight.shape) > LARGEST:
        raise InputError(
            f"hidden {tuple(hidden.shape)}, weight {tuple(weight.shape)}: rows, H and V may "
            f"each be at most {LARGEST}. Give the rows in several calls"
        )
    return wanted


def check_logp(logits: torch.Tensor, target: torch.Tensor, ignore_index: int) -> None:
    """Check what the log-probability takes, except the values of the targets.

    Args:
        logits: [..., V] with at least one leading dimension, fp32, bf16 or fp16; V at least 1
            unless there are no rows.
        target: [...] int64 or int32, on the device of logits.
        ignore_index: A Python integer of 64 bits.

    Raises:
        InputError: Anything else; the message says what was given and what was wanted.
    """
    for name, tensor in (("logits", logits), ("target", target)):
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"{name} is a {type(tensor).__name__}; want a torch.Tensor")
    if logits.dtype not in NAMES:
        raise InputError(
            f"logits is {short_name(logits.dtype)}; the log-probability takes fp32, bf16 and "
            "fp16. Convert it, for example logits.float()"
        )
    if logits.ndim < 2:
        raise InputError(
            f"logits has shape {tuple(logits.shape)}; want [..., V] with at least one leading "
            "dimension. For one row pass logits.unsqueeze(0) and target.unsqueeze(0)"
        )
    if target.dtype not in (torch.int64, torch.int32):
        raise InputError(
            f"target is {short_name(target.dtype)}; want int64 or int32. "
            "Convert it, for example target.long()"
        )
    if target.shape != logits.shape[:-1]:
        raise InputError(
            f"target has shape {tuple(target.shape)}, logits {tuple(logits.shape)}; want one "
            f"target per row, {tuple(logits.shape[:-1])}"
        )
    if target.device != logits.device:
        raise InputError(
            f"target is on {target.device}, logits on {logits.device}; they must be on one device"
        )
    if isinstance(ignore_index, bool) or not isinstance(ignore_index, int):
        raise InputError(
            f"ignore_index is {ignore_index!r}, a {type(ignore_index).__name__}; want an int"
        )
    if not -(2**63) <= ignore_index < 2**63:
        raise InputError(f"ignore_index={ignore_index} does not fit into 64 bits, as a target does")
    rows, vocab = target.numel(), logits.shape[-1]
    if rows and not vocab:
        raise InputError(
            f"logits has shape {tuple(logits.shape)}: a log-probability over no logits is not "
            "defined; want V of at least 1"
        )
    if max(rows, vocab) > LARGEST:
        raise InputError(
            f"logits has shape {tuple(logits.shape)}: rows and V may each be at most {LARGEST}. "
            "Give the rows in several calls"
        )


def check_targets(target: torch.Tensor, vocab: int, ignore_index: int) -> None:
    """Raise InputError if a target is neither in [0, vocab) nor ignore_index.

    It is decided on the target's device; one element is copied from there.
    """
    outside = (target < 0) | (target >= vocab)
    outside &= target != ignore_index
    if not bool(outside.any()):
        return
    first = [int(i) for i in outside.nonzero()[0]]
    raise InputError(
        f"target{first} is {int(target[tuple(first)])}; want 0 to {vocab - 1} or "
        f"ignore_index={ignore_index}. {int(outside.sum())} of {target.numel()} targets are "
        "outside. With validate=False their rows are NaN"
    )


def check_det_gemm(
    a: torch.Tensor, b: torch.Tensor, out_dtype: torch.dtype | None, *, wide: bool = False
) -> torch.dtype:
    """Check the inputs of the deterministic matrix product; returns the dtype of the result.

    Args:
        a: [M, K] fp32, bf16 or fp16.
        b: [K, N], of a's dtype and on its device.
        out_dtype: None (b's dtype), b's dtype, or torch.float32.
        wide: Whether `a` may be fp32 beside a 16-bit `b`, as in the backward of fp32 results.

    Raises:
        InputError: Anything else; the message says what was given and what was wanted.
    """
    for name, tensor, shape in (("a", a, "[M, K]"), ("b", b, "[K, N]")):
        if not isinstance(tensor, torch.Tensor):
            raise InputError(f"{name} is a {type(tensor).__name__}; want a torch.Tensor")
        if tensor.dtype not in NAMES:
            raise InputError(
                f"{name} is {short_name(tensor.dtype)}; the product takes fp32, bf16 and fp16. "
                f"Convert it, for example {name}.float()"
            )
        if tensor.ndim != 2:
            raise InputError(
                f"{name} has shape {tuple(tensor.shape)}; want {shape}. Leading dimensions go "
                "into one, for example a.flatten(0, -2)"
            )
    if a.shape[1] != b.shape[0]:
        raise InputError(
            f"a has shape {tuple(a.shape)}, b {tuple(b.shape)}: {a.shape[1]} columns of a and "
            f"{b.shape[0]} rows of b must be the same K"
        )
    if a.dtype != b.dtype and not (wide and a.dtype == torch.float32):
        raise InputError(
            f"a is {short_name(a.dtype)}, b {short_name(b.dtype)}; they must have one dtype. "
            f"Convert one, for example b.to({a.dtype})"
        )
    if a.device != b.device:
        raise InputError(f"a is on {a.device}, b on {b.device}; they must be on one device")
    wanted = out_dtype or b.dtype
    if wanted not in (b.dtype, torch.float32):
        raise InputError(
            f"out_dtype={out_dtype}: a product of {short_name(b.dtype)} inputs comes as "
            f"{short_name(b.dtype)} or fp32"
        )
    if max(*a.shape, *b.shape) > LARGEST_PITCH:
        raise InputError(
            f"a {tuple(a.shape)}, b {tuple(b.shape)}: M, K and N may each be at most "
            f"{LARGEST_PITCH}. Give a part of them per call"
        )
    return wanted


def check_linear_logp(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None,
    ignore_index: int,
    logits_dtype: torch.dtype | None = None,
) -> torch.dtype:
    """Check what the LM head with the log-probability takes, except the values of the targets;
    returns the dtype of the logits in between.

    Args:
        hidden, weight, bias: As the LM head takes them.
        target: [...] int64 or int32, one per row of hidden, on its device.
        ignore_index: A Python integer of 64 bits.
        logits_dtype: None (hidden's), hidden's, or torch.float32.

    Raises:
        InputError: Anything else; the message says what was given and what was wanted.
    """
    wanted = check_lm_head(hidden, weight, bias, logits_dtype)
    if isinstance(target, torch.Tensor) and target.shape != hidden.shape[:-1]:
        raise InputError(
            f"target has shape {tuple(target.shape)}, hidden {tuple(hidden.shape)}; want one "
            f"target per row, {tuple(hidden.shape[:-1])}"
        )
    # Stands for logits that are never made as a whole: one element, shown as [..., V].
    logits = hidden.new_empty(()).expand(*hidden.shape[:-1], weight.shape[0])
    check_logp(logits, target, ignore_index)
    return wanted
