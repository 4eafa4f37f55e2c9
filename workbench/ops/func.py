"""The workbench's torch operators under `torch.func`, and forward mode refused.

A custom operator of torch knows ordinary autograd and vmap. Under `torch.func.grad`, `vjp` or
`jacrev` it raises an error about something else, and in forward mode it drops the tangent without a
word, which is a wrong derivative. `differentiable` mends the first and refuses the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad

from workbench.errors import InputError


def _differentiating() -> bool:
    """Whether a transform of torch.func that differentiates is at work. vmap alone is not one: the
    operator has a rule for it."""
    functorch = torch._C._functorch  # not public, and the only place to ask
    if not hasattr(functorch, "get_interpreter_stack"):  # another torch: as if there were none
        return False
    kinds = {interpreter.key() for interpreter in functorch.get_interpreter_stack() or ()}
    return not kinds.isdisjoint({functorch.TransformType.Grad, functorch.TransformType.Jvp})


def differentiable(
    op: Any, backward: Callable[..., Any], setup_context: Callable[..., None]
) -> Callable[..., Any]:
    """Register the derivative of a custom operator; returns what to call in its place.

    Args:
        op: A `torch.library.custom_op`.
        backward, setup_context: As `op.register_autograd` takes them. `backward` calls other
            operators through what this function returned for them.

    Returns:
        `op`, which also works under `torch.func.grad`, `vjp`, `jacrev` and `vmap`, and which
        raises InputError in forward mode (`torch.func.jvp`, `torch.autograd.forward_ad`).
    """
    op.register_autograd(backward, setup_context=setup_context)
    name = op._qualname.partition("::")[2]

    def refuse() -> None:
        raise InputError(
            f"{name} has no forward-mode derivative (torch.func.jvp, jacfwd, hessian, "
            "forward_ad). Take the reverse mode: torch.func.vjp, jacrev or grad, or .backward()"
        )

    class Transformed(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*args: Any) -> Any:
            return op(*args)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            refuse()

    Transformed.setup_context = staticmethod(setup_context)  # type: ignore[method-assign]
    Transformed.backward = staticmethod(backward)  # type: ignore[method-assign]
    Transformed.__name__ = Transformed.__qualname__ = name  # what a graph's nodes are called

    def call(*args: Any) -> Any:
        if torch.compiler.is_compiling():  # it traces the operator itself
            return op(*args)
        if _differentiating():
            return Transformed.apply(*args)
        for arg in args:
            if isinstance(arg, torch.Tensor) and forward_ad.unpack_dual(arg).tangent is not None:
                refuse()
        return op(*args)

    return call


# ---- rules for vmap ------------------------------------------------------------------------------


def batch_first(tensor: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """The batch dimension of vmap as one more leading dimension of a tensor [...]."""
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def each_slice(op: Any, size: int, in_dims: Any, arguments: Any) -> tuple[Any, Any]:
    """What a rule of vmap returns, by one call of `op` per slice of the batch: (results, dims)."""

    if not size:
        return _no_slices(op, in_dims, arguments)

    def slice_of(i: int) -> list:
        pairs = zip(arguments, in_dims, strict=True)
        return [a if d is None else a.select(d, i) for a, d in pairs]

    results = [op(*slice_of(i)) for i in range(size)]
    if isinstance(results[0], torch.Tensor):
        return torch.stack(results), 0
    return tuple(map(torch.stack, zip(*results, strict=True))), (0,) * len(results[0])


def _no_slices(op: Any, in_dims: Any, arguments: Any) -> tuple[Any, Any]:
    """The same of an empty batch: shapes and dtypes from a slice without data."""

    def shape_of(a: Any, d: int | None) -> Any:
        if not isinstance(a, torch.Tensor):
            return a
        shape = list(a.shape)
        if d is not None:
            del shape[d]
        return torch.empty(shape, dtype=a.dtype, device="meta")

    device = next(a.device for a in arguments if isinstance(a, torch.Tensor))
    found = op(*map(shape_of, arguments, in_dims))

    def empty(result: torch.Tensor) -> torch.Tensor:
        return torch.empty((0, *result.shape), dtype=result.dtype, device=device)

    if isinstance(found, torch.Tensor):
        return empty(found), 0
    return tuple(map(empty, found)), (0,) * len(found)
