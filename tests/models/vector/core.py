"""What every group of the model shares: the record of one instruction, types, addresses, masks.

Memory is one ``uint8`` array. An operand of the high-dimensional forms is a table of element
indices [repeats, lanes]; an operand of the ``count`` form is a slice. Nothing here computes.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

BLOCK, REPEAT = 32, 256  # bytes of a data block and of a repeat

# Ascend C's name -> the numpy type that holds its bits. half and bfloat16_t are bit patterns here;
# int4b_t has two elements in a byte, the first one in the low half, and is handled where it occurs.
NUMPY: Mapping[str, type] = {
    "int8_t": np.int8,
    "uint8_t": np.uint8,
    "int16_t": np.int16,
    "uint16_t": np.uint16,
    "int32_t": np.int32,
    "uint32_t": np.uint32,
    "int64_t": np.int64,
    "uint64_t": np.uint64,
    "half": np.uint16,
    "bfloat16_t": np.uint16,
    "float": np.float32,
}
SIZE: Mapping[str, int] = {name: np.dtype(kind).itemsize for name, kind in NUMPY.items()}
FLOATS = frozenset(("half", "bfloat16_t", "float"))


class Unsupported(ValueError):
    """The architecture does not have this instruction, or not with these types or this mode."""


@dataclass
class Instr:
    """One instruction. Offsets are bytes into UB; strides are in the instruction's own units.

    form
        "count" (elements 0 .. count-1), "mask" (the first ``mask`` lanes of every repeat), "bits"
        (``mask`` is (low, high), one bit per lane) or "counter" (isSetMask = false after
        SetMaskCount and SetVectorMask(0, count): ``count`` elements in all, repeat is ignored).
    types
        (dst, src): both the same for most instructions.
    extra
        What only one instruction has; the names stand at the function that reads them.
    """

    op: str
    types: tuple[str, str]
    dst: int
    srcs: tuple[int, ...] = ()
    form: str = "count"
    count: int = 0
    mask: int | tuple[int, int] = 0
    repeat: int = 1
    dst_blk: int = 1
    src_blk: tuple[int, ...] = (1, 1)
    dst_rep: int = 8
    src_rep: tuple[int, ...] = (8, 8)
    scalar: int = 0  # raw bits of the scalar in the source type
    mode: str = ""
    extra: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Settings:
    """What differs between architectures, and the switches that the documents leave open."""

    arch: str
    bf16: str  # "none" | "cast" | "full"
    count_sum: str  # "sequential" | "split" | "fold-or-tree": the name in ascend_numpy
    masked: str  # masked lanes of a sum: "zero" | "skip"
    overflow: str  # "inf_nan" | "saturate": concerns half results and casts (CTRL[48])
    acc_start: bool = True  # an accumulator starts at +0
    fused: bool = True  # MulAddDst, Axpy, FusedMulAdd round once
    integers: str = "wrap"  # integer arithmetic beyond the type (CTRL[53], 0 by default)


@functools.cache
def settings(arch: str) -> Settings:
    """The settings of one architecture, from the project's table of architectures."""
    path = Path(__file__).resolve().parents[3] / "workbench" / "data" / "architectures.json"
    table = json.loads(path.read_text())["archs"]
    if arch not in table:
        raise Unsupported(f"unknown architecture {arch!r}; known: {', '.join(table)}")
    row = table[arch]
    count = row["reduce_sum_count"]
    if count["default"] == 1:
        form = "sequential"
    elif count["tail_apart"]:
        form = "split"
    else:
        form = "fold-or-tree"
    return Settings(
        arch,
        row["bf16"],
        form,
        row["masked_lanes"],
        row["overflow"],
        row["accumulator_start"] == "zero",
    )


Group = dict[str, Callable[[Instr, np.ndarray, Settings], dict]]


def lanes_of(*sizes: int) -> int:
    """Lanes of one repeat: the widest type fills 256 bytes."""
    return REPEAT // max(sizes)


def mask_bits(low: int, high: int, lanes: int) -> np.ndarray:
    """Two 64-bit words -> bool [lanes]."""
    words = np.array([low, high], np.uint64).view(np.uint8)
    return np.unpackbits(words, bitorder="little")[:lanes].astype(bool)


@functools.lru_cache(maxsize=4096)
def _live(form: str, mask, repeat: int, count: int, lanes: int) -> np.ndarray | None:
    """bool [repeats, lanes] of the lanes that take part; None for all of them."""
    if form == "counter":
        repeats = -(-count // lanes)
        if repeats * lanes == count:
            return None
        return (np.arange(repeats * lanes) < count).reshape(repeats, lanes)
    row = np.arange(lanes) < mask if form == "mask" else mask_bits(*mask, lanes)
    return None if row.all() else np.broadcast_to(row, (repeat, lanes))


def live(i: Instr, lanes: int) -> np.ndarray | None:
    """bool [repeats, lanes], or None where every lane takes part. Not for the count form."""
    mask = tuple(i.mask) if i.form == "bits" else i.mask
    return _live(i.form, mask if i.form != "counter" else 0, i.repeat, i.count, lanes)


def repeats_of(i: Instr, lanes: int) -> int:
    return -(-i.count // lanes) if i.form == "counter" else i.repeat


@functools.lru_cache(maxsize=4096)
def table(size: int, lanes: int, repeats: int, blk: int, rep: int) -> np.ndarray:
    """Element index of each lane [repeats, lanes], relative to the operand's first element.

    A lane lies in the block ``lane // (32 / size)`` of its repeat; blocks are ``blk`` and repeats
    ``rep`` data blocks apart.
    """
    per = BLOCK // size
    lane = np.arange(lanes)
    inside = (lane // per) * (blk * per) + lane % per
    index = inside[None, :] + (np.arange(repeats) * (rep * per))[:, None]
    index.setflags(write=False)
    return index


def view(ub: np.ndarray, offset: int, kind: str) -> np.ndarray:
    """UB from ``offset`` to its end as elements of ``kind`` (a view)."""
    size = SIZE[kind]
    if offset % size:
        raise ValueError(f"offset {offset} is not a multiple of {size} ({kind})")
    end = len(ub) - (len(ub) - offset) % size
    return ub[offset:end].view(NUMPY[kind])


class Operands:
    """Reads the sources and writes the destination of an element-wise instruction.

    ``src(n)`` is the n-th source as a flat array of the lanes that take part, ``store`` puts
    results back. ``old()`` reads the destination (for instructions that accumulate into it).
    """

    def __init__(self, i: Instr, ub: np.ndarray, lanes: int | None = None):
        self.i, self.ub = i, ub
        dst, src = i.types
        self.lanes = lanes or lanes_of(SIZE[dst], SIZE[src])
        self.flat = i.form == "count"
        if not self.flat:
            self.repeats = repeats_of(i, self.lanes)
            self.on = live(i, self.lanes)

    def _index(self, kind: str, blk: int, rep: int) -> np.ndarray:
        index = table(SIZE[kind], self.lanes, self.repeats, blk, rep)
        return index if self.on is None else index[self.on]

    def src(self, n: int, kind: str | None = None) -> np.ndarray:
        i, kind = self.i, kind or self.i.types[1]
        x = view(self.ub, i.srcs[n], kind)
        if self.flat:
            return x[: i.count].copy()
        return x[self._index(kind, i.src_blk[n], i.src_rep[n])]

    def old(self, kind: str | None = None) -> np.ndarray:
        i, kind = self.i, kind or self.i.types[0]
        x = view(self.ub, i.dst, kind)
        return x[: i.count].copy() if self.flat else x[self._index(kind, i.dst_blk, i.dst_rep)]

    def store(self, values: np.ndarray, kind: str | None = None) -> None:
        i, kind = self.i, kind or self.i.types[0]
        x = view(self.ub, i.dst, kind)
        values = np.asarray(values)
        if values.dtype != x.dtype:
            raise TypeError(f"{i.op}: {values.dtype} values for {kind}")
        if self.flat:
            x[: i.count] = values
        else:
            # Repeats that share a destination: numpy keeps the last one, as an instruction does.
            x[self._index(kind, i.dst_blk, i.dst_rep)] = values


def by_repeat(i: Instr) -> list[Instr] | None:
    """The same instruction as single repeats, where a later one reads what an earlier one wrote.

    The documents allow that for accumulation in place: destination repeat stride 0 and a source
    with the same address and stride.
    """
    if i.form in ("count", "counter") or i.repeat < 2 or i.dst_rep != 0 or i.dst not in i.srcs:
        return None
    steps = []
    for n in range(i.repeat):
        srcs = tuple(s + n * r * BLOCK for s, r in zip(i.srcs, i.src_rep, strict=False))
        steps.append(replace(i, srcs=srcs, repeat=1))
    return steps


def scalar_of(i: Instr, kind: str) -> np.ndarray:
    """The instruction's scalar as an array of one element of ``kind``."""
    raw = np.array([i.scalar & (1 << 8 * SIZE[kind]) - 1], np.uint64).view(np.uint8)
    return raw[: SIZE[kind]].copy().view(NUMPY[kind])
