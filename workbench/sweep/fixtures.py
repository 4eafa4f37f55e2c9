"""The inputs of a sweep, as references that travel to workers and as tensors where they arrive."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from workbench import samples
from workbench.errors import InputError, MissingError
from workbench.evidence import fixture_id
from workbench.ops.inputs import DTYPES
from workbench.sweep.run import Inputs

REAL = "smollm2"


@dataclass(frozen=True)
class InputRef:
    """Where hidden states and weights come from: a few words that any process can follow.

    Attributes:
        name: "smollm2" (the real sample); a distribution of `samples.qwen3` ("normal", …), drawn
            anew in each size; or what is in `file`.
        file: A safetensors file with `hidden` [N, H] and `weight` [V, H]; "" for a name.
        hidden_size: H of a distribution.
        seed: Of a distribution.
    """

    name: str
    file: str = ""
    hidden_size: int = samples.QWEN3_HIDDEN
    seed: int | None = None


@dataclass(frozen=True)
class Fixture:
    """Tensors on the CPU: hidden [N, H] and weight [V, H] of one dtype, and their name."""

    hidden: torch.Tensor
    weight: torch.Tensor
    inputs: Inputs

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.hidden), self.hidden.shape[1], len(self.weight)


def references(given: Any, folder: Callable[[], Path]) -> list[InputRef]:
    """References for what a caller names or holds; tensors are written to a folder.

    Args:
        given: "smollm2", a distribution, an `InputRef`, a sample, (hidden, weight); or a list.
        folder: Says which one; it is asked if there are tensors.

    Raises:
        InputError: Something else, or nothing.
    """
    pair = isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], torch.Tensor)
    several = isinstance(given, Sequence) and not isinstance(given, str) and not pair
    items = list(given) if several else [given]
    if not items:
        raise InputError("there are no inputs; give at least one, for example 'smollm2'")
    return list(dict.fromkeys(_reference(item, folder) for item in items))


def _reference(given: Any, folder: Callable[[], Path]) -> InputRef:
    if isinstance(given, InputRef):
        if not given.file and given.name not in (REAL, *samples.DISTRIBUTIONS):
            raise _unknown(given.name)
        drawn = given.name in samples.DISTRIBUTIONS and not given.file
        # The seed is part of a run's key: none is 0, as in `load`.
        return dataclasses.replace(given, seed=0) if drawn and given.seed is None else given
    if isinstance(given, str):
        if given not in (REAL, *samples.DISTRIBUTIONS):
            raise _unknown(given)
        return InputRef(given, seed=None if given == REAL else 0)
    name = getattr(given, "name", "tensors")
    try:
        hidden, weight = given if isinstance(given, tuple) else (given.hidden, given.weight)
        hidden = hidden.detach().cpu().reshape(-1, hidden.shape[-1])
        weight = weight.detach().cpu()
        fits = weight.ndim == 2 and weight.shape[1] == hidden.shape[1] > 0
    except (AttributeError, TypeError, ValueError, IndexError):
        raise _unknown(given) from None
    if not fits or not hidden.is_floating_point() or not weight.is_floating_point():
        raise InputError(
            f"hidden {list(hidden.shape)} {hidden.dtype} and weight {list(weight.shape)} "
            f"{weight.dtype} do not fit; want floats [..., H] and [V, H] of one H"
        )
    from safetensors.torch import save_file

    file = folder() / f"{fixture_id(hidden, weight)}.safetensors"
    part = file.with_name(f"{uuid.uuid4().hex}.part")
    save_file({"hidden": hidden.contiguous(), "weight": weight.contiguous()}, str(part))
    os.replace(part, file)
    return InputRef(str(name), str(file))


def _unknown(given: Any) -> InputError:
    return InputError(
        f"inputs={given!r:.60}; give {REAL!r}, one of {', '.join(samples.DISTRIBUTIONS)}, a sample "
        "with hidden and weight, a pair of tensors, or a list of such"
    )


def load(ref: InputRef, dtype: str, shape: tuple[int | None, int | None]) -> Fixture:
    """The tensors of a reference, as the kernel is given them; the last few are kept, as long as
    their file is as it was.

    Of what is there, `shape` takes the first vocabulary ids and rows that are evenly spread. In the
    real sample the first ids are those that its texts aim at.

    Raises:
        InputError: More rows or ids than there are.
        MissingError: A file that is not on this machine.
    """
    stamp = None
    if ref.file:
        with contextlib.suppress(FileNotFoundError):
            info = os.stat(ref.file)
            stamp = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
    return _load(ref, dtype, shape, stamp)


@functools.lru_cache(maxsize=8)
def _load(
    ref: InputRef, dtype: str, shape: tuple[int | None, int | None], stamp: tuple[int, ...] | None
) -> Fixture:
    rows, ids = shape
    if ref.name in samples.DISTRIBUTIONS and not ref.file:
        made = samples.qwen3(
            rows or 59,
            ids or samples.QWEN3_VOCAB,
            ref.hidden_size,
            ref.name,
            DTYPES[dtype],
            ref.seed or 0,
        )
        return _named(ref, made.hidden, made.weight, f"{made.name}, seed {ref.seed or 0}")
    if ref.file:
        hidden, weight = _read(ref.file)
    else:
        real = samples.smollm2()
        hidden, weight = real.hidden.flatten(0, -2), real.weight
    n, v = len(hidden), len(weight)
    if (rows or n) > n or (ids or v) > v:
        raise InputError(
            f"{ref.name} has {n} rows and {v} vocabulary ids, and the shape is ({rows}, {ids}): a "
            "space has (8, 512) if none is given. Give shapes=[None] for all of it, or a smaller "
            f"shape (on the command line --rows {n} --vocab {v})"
        )
    picked = torch.linspace(0, n - 1, rows or n).long()
    name = f"{ref.name}: {rows or n} of {n} rows, evenly spread; the first {ids or v} of {v} ids"
    to = DTYPES[dtype]
    return _named(ref, hidden[picked].to(to), weight[: ids or v].to(to), name)


def _named(ref: InputRef, hidden: torch.Tensor, weight: torch.Tensor, name: str) -> Fixture:
    hidden, weight = hidden.contiguous(), weight.contiguous()
    return Fixture(hidden, weight, Inputs(fixture_id(hidden, weight), name, ref.seed))


def _read(file: str) -> tuple[torch.Tensor, torch.Tensor]:
    from safetensors.torch import load_file

    if not Path(file).is_file():
        raise MissingError(
            f"the inputs {file} are not on this machine. Give inputs by name ('smollm2'), or as an "
            "InputRef to a file on a disk that all machines share"
        )
    found = load_file(file)
    return found["hidden"], found["weight"]
