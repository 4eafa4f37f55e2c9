"""What the dashboard's kernels are run on, cut to size and converted, and the exact results."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from workbench import samples
from workbench.errors import InputError
from workbench.evidence import fixture_id
from workbench.numerics.drift.measure import Truth
from workbench.numerics.operands import check_tensors
from workbench.ops.inputs import DTYPES, IGNORE_INDEX
from workbench.widgets.explore.state import LOGP, OWN, REAL, SYNTHETIC, ExploreState
from workbench.widgets.views.linked import products

SYNTHETIC_ROWS, SYNTHETIC_IDS = 256, 8192  # what is drawn anew at each change stays small
KEPT = 4  # of each kind of thing that several configurations share
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Given:
    """Tensors on one device: hidden [N, H] and weight [V, H] of one dtype, target int64 [N].

    Attributes:
        fixture: Name of the content.
        logits: [N, V] of the same dtype: what a log-prob kernel is given.
    """

    hidden: torch.Tensor
    weight: torch.Tensor
    target: torch.Tensor
    logits: torch.Tensor
    fixture: str

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.hidden), self.hidden.shape[1], len(self.weight)

    def terms(self, op: str, row: int, column: int) -> tuple[np.ndarray, str]:
        """What the kernel adds for one output, fp32, and what that is called.

        Of a log-prob kernel: the exponentials of a row of logits less the largest of them. They are
        numpy's, so their last bits may be others than the kernel's.
        """
        if op == LOGP:
            logits = self.logits[row].cpu().float().numpy()
            return np.exp(logits - logits.max()), f"row {row:,}"
        place = f"row {row:,}, vocabulary id {column:,}"
        return products(self.hidden, self.weight, row, column), place


class Inputs:
    """The inputs that the dashboard offers.

    Args:
        hidden: [..., H] of the user's own, or None.
        weight: [V, H], given together with hidden.
        target: [...] int64 of the user's own, or None: row r aims at r % V.

    Raises:
        InputError: Only one of them, or shapes that do not fit.
    """

    def __init__(
        self,
        hidden: torch.Tensor | None = None,
        weight: torch.Tensor | None = None,
        target: torch.Tensor | None = None,
    ) -> None:
        if (hidden is None) != (weight is None):
            raise InputError("give hidden and weight together, or neither to use the samples")
        self._own: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
        if hidden is not None and weight is not None:
            self._own = _own(hidden, weight, target)
        elif target is not None:
            raise InputError("target goes with hidden and weight; give all three")
        self.own_target = target is not None
        self._kept: dict[str, OrderedDict[Any, Any]] = {}
        # Several views may share the exact results of one. A lock a kind: while the default's bits
        # are made, which may take a compiler, the controls go on asking how large the sample is.
        self._turns: dict[str, threading.RLock] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """What `data` may be, the default first."""
        return (OWN, REAL, SYNTHETIC) if self._own is not None else (REAL, SYNTHETIC)

    @property
    def device(self) -> str:
        """Where the user's own tensors are: "cpu" or "npu"."""
        return self._own[0].device.type if self._own is not None else "cpu"

    def limits(self, data: str) -> dict[str, int]:
        """The most rows and vocabulary ids there are.

        Raises:
            InputError: There is no such input.
        """
        if data not in self.names:
            known = ", ".join(self.names)
            more = ". Your own need hidden= and weight=" if data == OWN else ""
            raise InputError(f"data={data!r}: there is {known}{more}")
        if data == SYNTHETIC:
            return {"rows": SYNTHETIC_ROWS, "vocab": SYNTHETIC_IDS}
        hidden, weight, _ = self._source(data)
        return {"rows": len(hidden), "vocab": len(weight)}

    def take(self, state: ExploreState) -> Given:
        """The tensors of a state that `ExploreState.check` let through; the last few are kept."""
        key = state.data, state.dtype, state.rows, state.vocab
        return self.keep("given", key, lambda: self._take(state))

    def truth(self, state: ExploreState) -> Truth:
        """The exact sums of products and the reference of a state; the last few are kept."""
        key = state.data, state.dtype, state.rows, state.vocab, state.reference
        given = self.take(state)
        against = dict.fromkeys(("exact", state.reference))
        return self.keep("truth", key, lambda: Truth(given.hidden, given.weight, tuple(against)))

    def _take(self, state: ExploreState) -> Given:
        dtype = DTYPES[state.dtype]
        if state.data == SYNTHETIC:
            drawn = samples.qwen3(rows=state.rows, vocab=state.vocab, dtype=torch.float32)
            hidden, weight, target = drawn.hidden, drawn.weight, drawn.target
        else:
            hidden, weight, target = self._source(state.data)
        hidden, weight = hidden[: state.rows], weight[: state.vocab]
        # (float: a product in 16 bits would round to them on the way.)
        logits = torch.nn.functional.linear(hidden.float(), weight.float()).to(dtype)
        target = target[: state.rows].clone()
        target[(target < 0) | (target >= state.vocab)] = IGNORE_INDEX
        hidden, weight = hidden.to(dtype).contiguous(), weight.to(dtype).contiguous()
        return Given(hidden, weight, target, logits, fixture_id(hidden, weight))

    def _source(self, data: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        if data == OWN:
            assert self._own is not None
            return self._own
        return self.keep("source", data, _real)

    def keep(self, kind: str, key: Any, make: Callable[[], T]) -> T:
        """What `make` gives for a key, made once; of each kind the last few are kept."""
        with self._turns.setdefault(kind, threading.RLock()):
            kept = self._kept.setdefault(kind, OrderedDict())
            if key not in kept:
                kept[key] = make()
                while len(kept) > KEPT:
                    kept.popitem(last=False)
            kept.move_to_end(key)
            return kept[key]


def _real() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    sample = samples.smollm2()
    return sample.hidden.flatten(0, -2), sample.weight, sample.target.flatten()


def _own(
    hidden: torch.Tensor, weight: torch.Tensor, target: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    check_tensors(hidden, weight=weight, target=target)
    fits = hidden.ndim >= 1 and weight.ndim == 2 and hidden.shape[-1] == weight.shape[-1]
    if not fits or not hidden.numel() or not weight.numel():
        raise InputError(
            f"hidden {list(hidden.shape)} and weight {list(weight.shape)} do not fit; wanted "
            "[..., H] and [V, H] with the same H, at least one row each"
        )
    if not (hidden.is_floating_point() and weight.is_floating_point()):
        raise InputError(f"hidden is {hidden.dtype} and weight {weight.dtype}; wanted floats")
    rows = hidden.detach().reshape(-1, hidden.shape[-1])
    if target is None:
        target = torch.arange(len(rows), device=rows.device) % len(weight)
    elif target.is_floating_point() or target.shape != hidden.shape[:-1]:
        raise InputError(
            f"target is {target.dtype} {list(target.shape)}; wanted whole numbers "
            f"{list(hidden.shape[:-1])}, one a row"
        )
    return rows, weight.detach(), target.detach().reshape(-1).long()
