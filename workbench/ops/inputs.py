"""What the LM head takes, and what it says about anything else."""

from __future__ import annotations

import torch

from workbench.errors import InputError

DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
LARGEST = 2**31 - 1  # of one dimension: a kernel counts rows, width and vocab in 32 bits


def short_name(dtype: torch.dtype) -> str:
    return DTYPES.get(dtype, str(dtype).removeprefix("torch."))


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
    if hidden.dtype not in DTYPES:
        raise InputError(
            f"hidden is {short_name(hidden.dtype)}; the LM head takes fp32, bf16 and fp16. "
            "Convert it, for example hidden.float()"
        )
    if hidden.ndim < 2:
        raise InputError(
            f"hidden has shape {tuple(hidden.shape)}; want [..., H] with at least one leading "
            "dimension. "
            "For one row pass hidden.unsqueeze(0)"
        )
    if weight.ndim != 2:
        raise InputError(
            f"weight has shape {tuple(weight.shape)}; want [V, H] with H = {hidden.shape[-1]}"
        )
    if weight.shape[1] != hidden.shape[-1]:
        raise InputError(
            f"weight has shape {tuple(weight.shape)}, hidden {tuple(hidden.shape)}: their last "
            "dimensions, "
            f"{weight.shape[1]} and {hidden.shape[-1]}, must be the same H"
        )
    if weight.dtype != hidden.dtype:
        raise InputError(
            f"weight is {short_name(weight.dtype)}, hidden {short_name(hidden.dtype)}; they "
            "must have one dtype. "
            f"Convert one, for example weight.to({hidden.dtype})"
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
        raise InputError(
            f"out_dtype={out_dtype}: logits of {short_name(hidden.dtype)} inputs come as "
            f"{short_name(hidden.dtype)} or fp32"
        )
    if max(hidden.shape[:-1].numel(), *hidden.shape, *weight.shape) > LARGEST:
        raise InputError(
            f"hidden {tuple(hidden.shape)}, weight {tuple(weight.shape)}: rows, H and V may "
            f"each be at most {LARGEST}. "
            "Give the rows in several calls"
        )
    return wanted
