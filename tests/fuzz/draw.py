"""Random values and places for instructions. Everything follows from one seed.

An instruction's image is UB's first ``IMAGE`` bytes. Operands lie at random, aligned, disjoint
places in it (or exactly on each other, where an instruction may work in place); all other bytes
are random too, so that a write outside the destination shows.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field

import numpy as np
from models.vector.core import BLOCK, NUMPY, SIZE, Instr

# Bytes of UB that an instruction sees. 131072 reaches counts of more than 255 repeats.
IMAGE = int(os.environ.get("FUZZ_IMAGE", "8192"))
SCRATCH = 4096  # bytes of GM that a copy sees

POOL = 1 << 16  # elements of a pool; an operand's values are a slice of one

SPECIAL = {
    "float": (
        0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000,
        0xFFC12345, 0x7F800001, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF,
        0xFF7FFFFF, 0x3F7FFFFF, 0x3F800001, 0x477FE000, 0x477FF000, 0x4B800000, 0x4F000000,
        0xCF000000, 0x5F000000, 0x33800000, 0x33000000, 0x3F000000, 0xBF000000, 0x42B17218,
    ),
    "half": (
        0x0000, 0x8000, 0x3C00, 0xBC00, 0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x0001, 0x8001,
        0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x3BFF, 0x3C01, 0x6800, 0x6801, 0x5BF8, 0x5800, 0xD808,
    ),
    "bfloat16_t": (
        0x0000, 0x8000, 0x3F80, 0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x0001, 0x8001, 0x007F, 0x0080,
        0x7F7F, 0xFF7F, 0x4380, 0x4F00,
    ),
}  # fmt: skip


def _floats(rng: np.random.Generator, kind: str, flavour: str) -> np.ndarray:
    bits = NUMPY[kind] if kind != "float" else np.uint32
    width = 8 * np.dtype(bits).itemsize
    if flavour == "minus":
        return np.full(POOL, 1 << (width - 1), bits)
    top, low = {"half": (16, -25), "bfloat16_t": (127, -135), "float": (127, -150)}[kind]
    plain = rng.standard_normal(POOL) * np.exp2(rng.uniform(-8, 8, POOL))
    wide = np.exp2(rng.uniform(low, top, POOL)) * rng.choice([-1, 1], POOL)
    steps = rng.integers(-600, 600, POOL) * 0.5
    which = rng.random(POOL)
    if flavour == "few":  # many equal values: ties
        values = rng.integers(-6, 7, POOL) * 0.5
    else:
        values = np.where(which < 0.6, plain, np.where(which < 0.8, wide, steps))
    single = values.astype(np.float32)
    if kind == "half":
        with np.errstate(over="ignore"):
            out = values.astype(np.float16).view(np.uint16)
    elif kind == "bfloat16_t":
        out = (single.view(np.uint32) >> 16).astype(np.uint16)
    else:
        out = single.view(np.uint32)
    if flavour == "any":
        special = np.array(SPECIAL[kind], bits)
        out = np.where(rng.random(POOL) < 0.15, rng.choice(special, POOL), out)
        raw = rng.integers(0, 1 << width, POOL, dtype=np.uint64).astype(bits)
        out = np.where(rng.random(POOL) < 0.1, raw, out)
    elif flavour == "ordered":  # infinities and zeros of both signs, no NaN
        inf = {"half": 0x7C00, "bfloat16_t": 0x7F80, "float": 0x7F800000}[kind]
        sign = 1 << (width - 1)
        special = np.array([inf, inf | sign, 0, sign], bits)
        out = np.where(rng.random(POOL) < 0.1, rng.choice(special, POOL), out)
    return out.astype(bits)


def _integers(rng: np.random.Generator, kind: str, flavour: str) -> np.ndarray:
    info = np.iinfo(NUMPY[kind])
    wide = rng.integers(info.min, info.max, POOL, dtype=NUMPY[kind], endpoint=True)
    if flavour == "few":
        return (wide % 5).astype(NUMPY[kind])
    by = rng.integers(0, info.bits, POOL).astype(NUMPY[kind])
    out = wide >> by
    ends = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], NUMPY[kind])
    return np.where(rng.random(POOL) < 0.1, rng.choice(ends, POOL), out)


class Pools:
    """Values by type and flavour, made when first asked for.

    "any": everything; "ordered": no NaN; "few": many ties, no NaN; "minus": -0 only; "raw":
    random bytes.
    """

    def __init__(self, seed: int):
        self._seed = seed
        self._made: dict[tuple[str, str], np.ndarray] = {}

    def get(self, kind: str, flavour: str) -> np.ndarray:
        """uint8 [POOL * size]."""
        key = kind, flavour
        if key not in self._made:
            name = f"{self._seed}/{kind}/{flavour}"
            rng = np.random.default_rng(list(name.encode()))
            if flavour == "raw" or kind == "int4b_t":
                values = rng.integers(0, 256, POOL, np.uint8)
            elif kind in SPECIAL:
                values = _floats(rng, kind, flavour)
            else:
                values = _integers(rng, kind, flavour)
            self._made[key] = np.ascontiguousarray(values).view(np.uint8)
        return self._made[key]


@dataclass
class Drawn:
    """One random instruction and what its memory holds before it."""

    instr: Instr
    # (offset, bytes, type, flavour) of operands, or (offset, array): values made for the purpose.
    fills: list = field(default_factory=list)
    uses_gm: bool = False


class Draw(random.Random):
    """A random source with the draws that instructions need."""

    def often(self, usual, *others, share: float = 0.6):
        return usual if self.random() < share else self.choice(others)

    def count(self, most: int, lanes: int) -> int:
        """A number of elements: near whole repeats, small, or anything."""
        kind = self.random()
        if kind < 0.3:
            n = self.randrange(1, 2 * lanes)
        elif kind < 0.6:
            n = lanes * self.randrange(1, 9) + self.choice((-1, 0, 0, 1))
        else:
            n = self.randrange(1, most + 1)
        return max(1, min(n, most))

    def bits(self, lanes: int) -> tuple[int, int]:
        """A mask by bits with at least one lane."""
        kind = self.random()
        if kind < 0.2:
            word = (1 << lanes) - 1
        elif kind < 0.4:
            word = 1 << self.randrange(lanes)
        elif kind < 0.6:
            word = self.getrandbits(lanes) & self.getrandbits(lanes)
        else:
            word = self.getrandbits(lanes)
        word = word or 1
        return word & (1 << 64) - 1, word >> 64

    def mask(self, form: str, lanes: int):
        """The mask argument of a form: lanes, or bits."""
        if form == "bits":
            return self.bits(lanes)
        return lanes if self.random() < 0.4 else self.randrange(1, lanes + 1)

    def places(self, sizes: list[int], align: int = BLOCK, image: int = IMAGE) -> list[int]:
        """Disjoint offsets for regions of ``sizes`` bytes, in random order with random gaps."""
        need = [-(-size // align) * align for size in sizes]
        free = (image - sum(need)) // align
        if free < 0:
            raise ValueError(f"operands of {sum(need)} bytes do not fit into {image}")
        cuts = sorted(self.randrange(free + 1) for _ in sizes)
        order = list(range(len(sizes)))
        self.shuffle(order)
        offsets, at = [0] * len(sizes), 0
        for cut, n in zip(cuts, order, strict=True):
            offsets[n] = at + cut * align
            at += need[n]
        return offsets


def extent(size: int, lanes: int, repeats: int, blk: int, rep: int) -> int:
    """Bytes from an operand's first to its last data block."""
    blocks = max(1, lanes * size // BLOCK)
    return ((repeats - 1) * rep + (blocks - 1) * blk + 1) * BLOCK


def slice_of(rnd: Draw, pools: Pools, kind: str, flavour: str, size: int) -> np.ndarray:
    """``size`` bytes from a pool, at a random element."""
    pool = pools.get(kind, flavour)
    width = SIZE.get(kind, 1)
    if size >= len(pool):
        return np.resize(pool, size)
    start = rnd.randrange((len(pool) - size) // width) * width
    return pool[start : start + size]


def image_of(drawn: Drawn, rnd: Draw, pools: Pools, out: np.ndarray, gm: np.ndarray) -> None:
    """Fills one image (and the GM scratch where the instruction reads it)."""
    out[:] = slice_of(rnd, pools, "uint8_t", "raw", len(out))
    if drawn.uses_gm:
        kind = drawn.instr.types[0]
        gm[:] = slice_of(rnd, pools, kind, "any", len(gm))
    for fill in drawn.fills:
        if len(fill) == 2:
            raw = np.ascontiguousarray(fill[1]).view(np.uint8).ravel()
            out[fill[0] : fill[0] + len(raw)] = raw
        else:
            offset, size, kind, flavour = fill
            out[offset : offset + size] = slice_of(rnd, pools, kind, flavour, size)
