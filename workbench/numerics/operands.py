"""Calling what a user gave on operands that have to stay as they are.

References and bounds are computed from the caller's tensors. A function that writes into them
would be judged on other data than it was given, and `h.zero_() @ w.T` would be right about 0.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import torch

from workbench.errors import InputError, WorkbenchError
from workbench.evidence import raw_bits
from workbench.numerics.candidates import CandidateError, one_line

_KEPT = 16 << 20  # bytes of an operand up to which a copy is kept, to put it back
_CHUNK = 16 << 20  # bytes looked at at a time: no copy of a large operand is ever made


def check_tensors(first: Any, name: str = "hidden", /, **others: Any) -> None:
    """Raise InputError for what is no dense tensor with data: an array, a meta tensor.

    Args:
        first, name: One tensor and what it is called.
        others: More of them, by name; None where there is none.

    Example:
        >>> check_tensors(torch.ones(2), bias=None)
    """
    given = {key: value for key, value in others.items() if value is not None}
    for key, value in {name: first, **given}.items():
        if not isinstance(value, torch.Tensor):
            kind = type(value).__name__
            more = ": torch.from_numpy(…) makes one of an array" if kind == "ndarray" else ""
            raise InputError(f"{key} is {kind}; give a tensor{more}")
        if value.device.type == "meta" or value.layout != torch.strided:
            what = "on the meta device" if value.device.type == "meta" else f"{value.layout}"
            raise InputError(
                f"{key} {list(value.shape)} is {what}; wanted numbers in memory. Give a dense "
                "tensor with data"
            )


class Operands:
    """The tensors that callables are given, remembered, so that a change of them is seen.

    Up to 16 MiB a copy is kept, which is put back; of a larger tensor only a checksum (CRC-32 of
    its bytes, some 0.5 s a GB).

    Args:
        named: The tensors by their names; None is left out.

    Example:
        >>> hidden = torch.ones(2)
        >>> watched = Operands(hidden=hidden)
        >>> watched.call("the kernel", lambda h: h + 1, hidden).tolist()
        [2.0, 2.0]
        >>> watched.call("the kernel", lambda h: h.zero_(), hidden)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        workbench.numerics.candidates.CandidateError: the kernel wrote into hidden [2], ...
        >>> hidden.tolist()
        [1.0, 1.0]
    """

    def __init__(self, **named: torch.Tensor | None) -> None:
        self.named = {name: value for name, value in named.items() if value is not None}
        self._before = {name: _State(value) for name, value in self.named.items()}

    def call(self, who: str, fn: Callable[..., Any], *args: Any, **given: Any) -> Any:
        """`fn(*args, **given)` without a graph. Options that are None are left out.

        Args:
            who: What the function is called in a message: "the kernel", "reference 'mine'".

        Raises:
            CandidateError: It raised (the error is its cause), or wrote into an operand.
            InputError: It does not take one of the options.
            WorkbenchError: What a kernel of ours says itself.
        """
        options = {name: value for name, value in given.items() if value is not None}
        try:
            with torch.no_grad():
                out = fn(*args, **options)
        except WorkbenchError:
            self._put_back()
            raise
        except Exception as error:
            changed = self._put_back()
            for name in options:
                if isinstance(error, TypeError) and f"keyword argument '{name}'" in str(error):
                    raise InputError(
                        f"{who} does not take {name}= ({error}); leave {name} out, or give a "
                        f"callable that has the argument, like lambda h, w, {name}=None: …"
                    ) from error
            shapes = ", ".join(
                f"{name} {list(value.shape)} {str(value.dtype).removeprefix('torch.')}"
                for name, value in self.named.items()
            )
            also = f"; before that it wrote into {changed}" if changed else ""
            raise CandidateError(
                f"{who} raised {one_line(error)}, called with {shapes}{also}"
            ) from error
        changed = self._put_back()
        if changed:
            raise CandidateError(
                f"{who} wrote into {changed}: what it returned is of other data than it was given. "
                "Let it write into a copy, as in hidden.clone().mul_(2)"
            )
        return out

    def _put_back(self) -> str:
        """What was changed, in words; "" if nothing was."""
        return " and ".join(
            f"{name} {list(value.shape)}, which {self._before[name].put_back(value)}"
            for name, value in self.named.items()
            if not self._before[name].same(value)
        )


class _State:
    """Bytes, shape, strides and dtype of a tensor at one moment."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.layout = _layout(tensor)
        small = tensor.numel() * tensor.element_size() <= _KEPT
        self.copy = tensor.detach().clone() if small else None
        self.crc = None if small else _crc(tensor)

    def same(self, tensor: torch.Tensor) -> bool:
        if _layout(tensor) != self.layout:
            return False
        if self.copy is None:
            return _crc(tensor) == self.crc
        return torch.equal(raw_bits(tensor), raw_bits(self.copy))

    def put_back(self, tensor: torch.Tensor) -> str:
        if self.copy is None or _layout(tensor) != self.layout:
            return "stays changed"
        try:
            with torch.no_grad():
                tensor.detach().copy_(self.copy)
        except RuntimeError:  # expanded: elements share a place in memory
            return "stays changed"
        return "was put back"


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _crc(tensor: torch.Tensor) -> int:
    """CRC-32 of the bytes of a tensor with at least one dimension."""
    # In the order of memory: a transposed weight would be gathered number by number.
    order = sorted(range(tensor.ndim), key=tensor.stride, reverse=True)
    found, flat = 0, tensor.detach().permute(order)
    bytes_a_row = max(1, flat[:1].numel() * flat.element_size())
    for piece in flat.split(max(1, _CHUNK // bytes_a_row)):
        found = zlib.crc32(raw_bits(piece).contiguous().numpy().data.cast("B"), found)
    return found
