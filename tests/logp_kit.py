"""What the tests of the log-probability share: launches of any build of its kernels, flawed copies
of them, the transforms of a batch that must not change a bit, and the model's answer."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from helpers import DTYPES, bits, poisoned
from models import logp_numpy as model

import workbench as wb
from workbench import paths

OP = "batch_invariant_logp"
SOURCE = paths.ASCEND / f"{OP}_ascend.asc"
NAMES = {dtype: name for name, dtype in DTYPES.items()}
OUTPUTS = ("logp", "lse", "grad")


class Batch(NamedTuple):
    """Inputs of both kernels: logits [N, V], target int64 [N], gradients of logp and lse [N]."""

    logits: torch.Tensor
    target: torch.Tensor
    grad_logp: torch.Tensor
    grad_lse: torch.Tensor

    def rows(self, index) -> Batch:
        return Batch(*(t[index] for t in self))


def draw(rows: int, vocab: int, dtype: str = "fp32", seed: int = 0, scale: float = 3.0) -> Batch:
    """Normal logits and upstream gradients; the targets of row 0 and 1 are the first and last."""
    g = torch.Generator().manual_seed(seed)
    logits = (torch.randn(rows, vocab, generator=g) * scale).to(DTYPES[dtype])
    target = torch.randint(0, vocab, (rows,), generator=g)
    target[:2] = torch.tensor([0, vocab - 1])[:rows]
    return Batch(logits, target, *(torch.randn(rows, generator=g) for _ in range(2)))


@functools.cache
def kernel(tile: int = 4096, arch: str = "dav-2201", switches: tuple = ()):
    config = wb.KernelConfig(tile_length=tile, arch=arch, switches=dict(switches))
    return wb.build(OP, config, backend="twin")


class Launched:
    """Both kernels of a build as one callable: Batch -> {"logp", "lse", "grad"}."""

    def __init__(self, built, ignore_index: int = -100) -> None:
        self.kernel = built
        self.ignore_index = ignore_index

    def __call__(
        self, batch: Batch, *, blocks: int | None = None, poison: bool = False, **options
    ) -> dict[str, torch.Tensor]:
        rows, vocab = batch.logits.shape
        dtype = NAMES[batch.logits.dtype]
        new = poisoned if poison else lambda shape, name: torch.zeros(shape, dtype=DTYPES[name])
        logp, lse, grad = new(rows, "fp32"), new(rows, "fp32"), new((rows, vocab), dtype)
        blocks = blocks or min(rows, 7)  # several rows per block, in turn
        logits, target, grad_logp, grad_lse = (t.contiguous() for t in batch)
        sizes = (rows, vocab, self.ignore_index)
        self.kernel.launch(f"{OP}_{dtype}", blocks, logits, target, logp, lse, *sizes, **options)
        self.kernel.launch(
            f"{OP}_grad_{dtype}",
            blocks,
            *(logits, target, lse, grad_logp, grad_lse, grad),
            *sizes,
            **options,
        )
        return {"logp": logp, "lse": lse, "grad": grad}


def by_operator(op, **options) -> Callable:
    """An operator with autograd as such a callable; the number of blocks is its own matter."""

    def run(batch: Batch, **_) -> dict[str, torch.Tensor]:
        logits = batch.logits.clone().requires_grad_()
        logp, lse = op(logits, batch.target, return_lse=True, **options)
        torch.autograd.backward([logp, lse], [batch.grad_logp, batch.grad_lse])
        return {"logp": logp.detach(), "lse": lse.detach(), "grad": logits.grad}

    return run


def expected(batch: Batch, *, arch: str, tile: int, ignore_index: int = -100) -> dict:
    """The model's raw bits of the three results."""
    dtype = NAMES[batch.logits.dtype]
    logits, target = bits(batch.logits), batch.target.numpy()
    rest = {"dtype": dtype, "ignore_index": ignore_index}
    logp, lse = model.forward(logits, target, arch=arch, tile=tile, **rest)
    upstream = (t.numpy() for t in (batch.grad_logp, batch.grad_lse))
    grad = model.grad(logits, target, lse.view(np.float32), *upstream, **rest)
    return {"logp": logp, "lse": lse, "grad": grad}


def exact(batch: Batch) -> dict[str, torch.Tensor]:
    """The three results in fp64; every target an index of its row."""
    logits = batch.logits.double()
    lse = torch.logsumexp(logits, -1)
    p = (logits - lse[:, None]).exp()
    one = torch.nn.functional.one_hot(batch.target, logits.shape[1])
    grad_logp, grad_lse = batch.grad_logp.double()[:, None], batch.grad_lse.double()[:, None]
    logp = logits.gather(1, batch.target[:, None])[:, 0] - lse
    return {"logp": logp, "lse": lse, "grad": grad_logp * (one - p) + grad_lse * p}


# ---- flawed copies -------------------------------------------------------------------------------

_ADD_TILE = "sum += TileExpSum(in_.TileElements(begin), largest);"
_MULS = "Muls(wide, wide, factor, n);"


def _two_sums(condition: str) -> tuple:
    """Every other tile goes into a sum of its own, where the condition holds."""
    part = f"""const float part = TileExpSum(in_.TileElements(begin), largest);
            if (({condition}) && begin / kTile % 2 == 1) {{
                odd += part;
            }} else {{
                sum += part;
            }}"""
    return (
        ("float sum = 0.0f;", "float sum = 0.0f, odd = 0.0f;"),
        (_ADD_TILE, part),
        ("return sum;", "return sum + odd;"),
    )


# name -> replacements; each text occurs exactly once in the kernel.
FLAWS = {
    "sound": (),
    # flaws of order, which no tolerance would see
    "sum_by_block_id": _two_sums("GetBlockIdx() % 2 == 1"),
    "sum_by_block_count": _two_sums("GetBlockNum() % 2 == 0"),
    "sum_by_rows": _two_sums("in_.rows_ > 8"),
    "sum_by_position": _two_sums("row % 2 == 1"),
    "maximum_kept_from_the_row_before": (
        ("before = begin == 0 ? tile : largest;",
         "before = begin == 0 && row < GetBlockNum() ? tile : largest;"),
    ),
    "ignored_rows_not_written": (
        ("CopyToGm(logp_[row], out, 1);", "if (kind != RowKind::kIgnored) "
         "CopyToGm(logp_[row], out, 1);"),
    ),
    "gradient_by_block_id": (
        (_MULS, "if (GetBlockIdx() % 2 == 1) { Muls(wide, wide, 3.0f, n); PipeBarrier<PIPE_V>(); "
         "Muls(wide, wide, factor / 3.0f, n); } else { " + _MULS + " }"),
    ),
    # flaws of value
    "last_tile_dropped": (
        (_ADD_TILE, "const float part = TileExpSum(in_.TileElements(begin), largest);"
         "sum += begin == 0 || begin + kTile < in_.vocab_ ? part : 0.0f;"),
    ),
    "another_ignore_index": (("target == ignoreIndex_", "target == -1"),),
    "outside_is_ignored": (("return RowKind::kOutside;", "return RowKind::kIgnored;"),),
    "swapped_sign_in_backward": (("lse, gradLse - gradLogp,", "lse, gradLogp - gradLse,"),),
    "target_left_out_of_backward": (("AddAt(wide, index - begin, gradLogp);", ""),),
    "gradient_truncated": (("RoundMode::CAST_RINT", "RoundMode::CAST_TRUNC"),),
    "maximum_not_subtracted": (("Adds(terms, terms, -largest, n);", "Adds(terms, terms, 0.0f, n);"),
                               ("Adds(out, logit, -largest, 1);", "Adds(out, logit, 0.0f, 1);"),
                               ("Adds(out[kBlockFloats], log, largest, 1);",
                                "Adds(out[kBlockFloats], log, 0.0f, 1);")),
}  # fmt: skip


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory(prefix="flawed-logp-")


def source_of(*dtypes: str) -> str:
    """The kernels' text with the entries of these dtypes only, which compiles sooner."""
    head, *entries = re.split(r'(?=^extern "C")', SOURCE.read_text(), flags=re.MULTILINE)
    names = [re.search(rf"{OP}(?:_grad)?_(\w+)\(", entry) for entry in entries]
    return head + "".join(
        entry for entry, name in zip(entries, names, strict=True) if name and name[1] in dtypes
    )


@functools.cache
def flawed(name: str, tile: int = 64, dtype: str = "fp32", arch: str = "dav-2201") -> Launched:
    """A copy of the kernels with the flaw `name`."""
    text = source_of(dtype)
    for old, new in FLAWS[name]:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    path = Path(_folder().name) / f"{name}_{dtype}.asc"
    path.write_text(text)
    config = wb.KernelConfig(arch=arch)
    return Launched(wb.build(path, config, backend="twin", defines={"TILE_LENGTH": tile}))


# ---- transforms of a batch -----------------------------------------------------------------------

SIZES = (1, 2, 4, 7, 8, 16, 17, 32, 33, 64, 65, 128)
BLOCKS = (1, 2, 3, 7, 40, 48, 128, 256)
SEEDS = 20
REPEATS = 50


class Case(NamedTuple):
    transform: str
    name: str
    batch: Batch
    at: torch.Tensor  # rows of the batch …
    of: torch.Tensor  # … that are these rows of the original one
    options: dict


def cases(batch: Batch) -> Iterator[Case]:
    """T1 to T7 of a batch of at least 33 rows, among them an ignored one."""
    rows, vocab = batch.logits.shape
    every = torch.arange(rows)

    def case(transform, name, changed=batch, at=every, of=every, **options) -> Case:
        return Case(transform, name, changed, at, of, options)

    for size in (*(s for s in SIZES if s < rows), rows):
        yield case("T1", f"batch {size}", batch.rows(every[:size]), every[:size], every[:size])
    others = every[1:17]
    for position in range(17):
        order = torch.cat([others[:position], every[:1], others[position:]])
        yield case("T2", f"position {position}", batch.rows(order), every[:17], order)

    def among(neighbours: Batch, position: int) -> Batch:
        middle = batch.rows(every[:1])
        parts = zip(neighbours.rows(slice(0, position)), middle,
                    neighbours.rows(slice(position, None)), strict=True)  # fmt: skip
        return Batch(*(torch.cat(p) for p in parts))

    dtype, one = NAMES[batch.logits.dtype], torch.tensor([8])
    for seed in range(SEEDS):
        other = draw(16, vocab, dtype, seed=100 + seed, scale=seed + 1)
        yield case("T3", f"neighbours {seed}", among(other, 8), one, every[:1])
    for value in (float("nan"), float("inf"), -float("inf"), 60000.0):
        other = draw(16, vocab, dtype, seed=1)
        other.logits.fill_(value)
        yield case("T3", f"neighbours {value}", among(other, 8), one, every[:1])
    for left in (0, 1, 6):
        for right in (0, 5) if left else (3,):
            pad = draw(left + right, vocab, dtype, seed=2)
            pad.target.fill_(-100)
            parts = (pad.rows(slice(0, left)), batch, pad.rows(slice(left, None)))
            padded = Batch(*(torch.cat(p) for p in zip(*parts, strict=True)))
            yield case("T4", f"padding {left}, {right}", padded, every + left)
    for blocks in BLOCKS:
        yield case("T5", f"{blocks} blocks", blocks=blocks)
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(3))
    yield case("T6", "permuted", batch.rows(order), every, order)
    some = every[1::3]
    yield case("T6", "selected", batch.rows(some), every[: len(some)], some)
    for n in range(REPEATS):
        yield case("T7", f"repeat {n}", poison=n % 2 == 0)
        if n % 10 == 0:  # other inputs in between
            yield case("T7", "between", draw(3, vocab, dtype, seed=n), every[:0], every[:0])


def broken(run: Callable, batch: Batch, transforms: str = "T1234567") -> dict[str, list[str]]:
    """{transform: ["case: output", …]} of what changes bits; empty where nothing does."""
    alone = {name: bits(t) for name, t in run(batch).items()}
    found: dict[str, list[str]] = {}
    for case in cases(batch):
        if case.transform[1] not in transforms:
            continue
        got = run(case.batch, **case.options)
        for name in OUTPUTS:
            if not (bits(got[name])[case.at.numpy()] == alone[name][case.of.numpy()]).all():
                found.setdefault(case.transform, []).append(f"{case.name}: {name}")
    return found
