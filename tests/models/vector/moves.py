"""Instructions that move or make elements without arithmetic on floats: fill, gather, transpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import floats
from .core import (
    BLOCK,
    FLOATS,
    NUMPY,
    SIZE,
    Group,
    Instr,
    Operands,
    Settings,
    Unsupported,
    lanes_of,
    live,
    repeats_of,
    scalar_of,
    table,
    view,
)

_WORDS = ("half", "bfloat16_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "float")
_RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
TAKES = {
    "Duplicate": _WORDS,
    "Copy": _WORDS,
    "Brcb": _WORDS,
    "CreateVecIndex": ("int16_t", "half", "int32_t", "float"),
    "ArithProgression": ("int16_t", "half", "int32_t", "float"),
    "Gather": _WORDS,
    "Gatherb": _WORDS,
    "Scatter": _WORDS,
    "GatherMask": _WORDS,
    "Transpose": ("int16_t", "uint16_t", "half"),
    "TransDataTo5HD": ("int8_t", "uint8_t", *(k for k in _WORDS if k != "bfloat16_t")),
}


def _takes(i: Instr, s: Settings) -> None:
    if i.types[0] not in TAKES[i.op] or (i.types[0] == "bfloat16_t" and s.bf16 == "none"):
        raise Unsupported(f"{i.op} on {s.arch} does not take {i.types[0]}")


def _raw(i: Instr) -> type:
    return _RAW[SIZE[i.types[0]]]


def _duplicate(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    _takes(i, s)
    o = Operands(i, ub)
    o.store(np.broadcast_to(scalar_of(i, i.types[0]), o.old().shape))
    return {}


def _copy(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Bits pass unchanged. In counter mode the count is per repeat, and the repeats do count."""
    _takes(i, s)
    if i.form == "counter":
        lanes, size = lanes_of(SIZE[i.types[0]]), SIZE[i.types[0]]
        rows = -(-i.count // lanes) * lanes
        src = table(size, rows, i.repeat, i.src_blk[0], i.src_rep[0])[:, : i.count]
        dst = table(size, rows, i.repeat, i.dst_blk, i.dst_rep)[:, : i.count]
        view(ub, i.dst, i.types[0])[dst] = view(ub, i.srcs[0], i.types[0])[src]
        return {}
    o = Operands(i, ub)
    o.store(o.src(0))
    return {}


def _brcb(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Eight elements per repeat, each fills a data block."""
    _takes(i, s)
    kind = i.types[0]
    per = BLOCK // SIZE[kind]
    x = view(ub, i.srcs[0], kind)[: 8 * i.repeat].reshape(i.repeat, 8)
    index = table(SIZE[kind], 8 * per, i.repeat, i.dst_blk, i.dst_rep)
    view(ub, i.dst, kind)[index] = np.repeat(x, per, axis=1)
    return {}


def _create_vec_index(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """first, first + 1, ...: the number of the lane counts, also past lanes that the mask skips.

    ArithProgression: first, first + step, ... (extra: step, bits), each term rounded once.
    """
    _takes(i, s)
    kind = i.types[0]
    o = Operands(i, ub)
    if o.flat:
        number = np.arange(i.count)
    else:
        number = np.arange(o.repeats * o.lanes).reshape(o.repeats, o.lanes)
        number = number if o.on is None else number[o.on]
    first = scalar_of(i, kind)
    if i.op == "ArithProgression":
        step = scalar_of(replace(i, scalar=i.extra["step"]), kind)
        number = number * (floats.load(step, kind) if kind in FLOATS else step.astype(np.int64))
    if kind in ("half", "float"):
        values = floats.load(first, kind).astype(np.float64) + number
        o.store(floats.finish(values, kind, s.overflow == "saturate"))
    else:
        o.store((first.astype(np.int64) + number).astype(NUMPY[kind]))
    return {}


# --- gather, scatter ------------------------------------------------------------------------------


def _lane_numbers(i: Instr, lanes: int) -> np.ndarray:
    """Running number of each lane that takes part (offsets lie one after another)."""
    if i.form == "count":
        return np.arange(i.count)
    number = np.arange(repeats_of(i, lanes) * lanes).reshape(-1, lanes)
    on = live(i, lanes)
    return number if on is None else number[on]


def _gather(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """dst lane = element at src + base + offset[lane]. srcs: (src, offsets); extra: base, bytes."""
    _takes(i, s)
    kind = i.types[0]
    o = Operands(i, ub)
    offsets = view(ub, i.srcs[1], "uint32_t")[_lane_numbers(i, o.lanes)].astype(np.int64)
    byte = offsets + i.srcs[0] + i.extra.get("base", 0)
    if (byte % SIZE[kind]).any():
        raise ValueError("Gather: an offset is not a multiple of the element's size")
    o.store(view(ub, 0, kind)[byte // SIZE[kind]])
    return {}


def _gatherb(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Eight data blocks per repeat, block b from src + offset[b]. srcs: (src, offsets)."""
    _takes(i, s)
    offsets = view(ub, i.srcs[1], "uint32_t")[: 8 * i.repeat].astype(np.int64)
    source = (offsets + i.srcs[0])[:, None] + np.arange(BLOCK)
    number = np.arange(8 * i.repeat)
    start = i.dst + (number // 8) * i.dst_rep * BLOCK + (number % 8) * i.dst_blk * BLOCK
    ub[start[:, None] + np.arange(BLOCK)] = ub[source]
    return {}


def _scatter(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Element at dst + base + offset[lane] = src lane, in ascending order. Not on dav-2201.

    srcs: (src, offsets); strides of src only.
    """
    _takes(i, s)
    if s.arch == "dav-2201":
        raise Unsupported("dav-2201 has no Scatter")
    kind = i.types[0]
    o = Operands(i, ub)
    offsets = view(ub, i.srcs[1], "uint32_t")[_lane_numbers(i, o.lanes)].astype(np.int64)
    byte = offsets + i.dst + i.extra.get("base", 0)
    view(ub, 0, kind)[(byte // SIZE[kind]).ravel()] = o.src(0, kind).ravel()
    return {}


_PATTERNS = {1: 0x55, 2: 0xAA, 3: 0x11, 4: 0x22, 5: 0x44, 6: 0x88, 7: 0xFF}


def _gather_mask(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Keeps the elements whose bit is 1, one after another in dst; returns how many.

    extra: pattern (1 .. 7), or none and srcs[1] is a tensor of bits; reduce (counter mode: ``mask``
    elements per repeat); src1_rep (data blocks between the bits of two repeats).
    """
    _takes(i, s)
    kind = i.types[0]
    size, lanes = SIZE[kind], lanes_of(SIZE[kind])
    each = int(i.mask) if i.extra.get("reduce") else lanes
    rows = -(-each // lanes) * lanes
    index = table(size, rows, i.repeat, i.src_blk[0], i.src_rep[0])[:, :each]
    x = view(ub, i.srcs[0], kind)[index]
    pattern = i.extra.get("pattern")
    if pattern is not None:
        one = np.unpackbits(np.full(rows // 8, _PATTERNS[pattern], np.uint8), bitorder="little")
        bits = np.broadcast_to(one[:each], x.shape)
    else:
        start = i.srcs[1] + np.arange(i.repeat) * i.extra["src1_rep"] * BLOCK
        raw = ub[start[:, None] + np.arange(rows // 8)]
        bits = np.unpackbits(raw, axis=1, bitorder="little")[:, :each]
    kept = x[bits == 1]
    view(ub, i.dst, kind)[: len(kept)] = kept
    # What follows the kept elements is undefined.
    end = i.dst + -(-x.size * size // BLOCK) * BLOCK
    return {"rsvd": len(kept), "ignore": [(i.dst + len(kept) * size, end)]}


# --- transpose ------------------------------------------------------------------------------------


def _transpose(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """mode "" or ND2ND_B16: 16 x 16 halfwords. NCHW2NHWC, NHWC2NCHW: extra shape (n, c, h, w)."""
    kind = i.types[0]
    if i.mode in ("", "ND2ND_B16"):
        _takes(i, s)
        x = view(ub, i.srcs[0], kind)[:256].reshape(16, 16)
        view(ub, i.dst, kind)[:256] = x.T.ravel()
    else:
        n, c, h, w = i.extra["shape"]
        if h * w * SIZE[kind] % BLOCK:
            raise ValueError("Transpose: h * w elements must be whole data blocks")
        x = view(ub, i.srcs[0], kind)[: n * c * h * w]
        if i.mode == "NCHW2NHWC":
            x = x.reshape(n, c, h, w).transpose(0, 2, 3, 1)
        else:
            x = x.reshape(n, h, w, c).transpose(0, 3, 1, 2)
        view(ub, i.dst, kind)[: n * c * h * w] = x.ravel()
    return {"ignore": [i.extra["tmp"]] if "tmp" in i.extra else []}


def _trans_data(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """TransDataTo5HD. extra: dst_list, src_list (16 offsets each), dst_high, src_high.

    With one repeat the lists are moved by the repeat strides first, as documented.
    """
    _takes(i, s)
    size = SIZE[i.types[0]]
    dst, src = (np.array(i.extra[name]) for name in ("dst_list", "src_list"))
    per = BLOCK // size
    for n in range(i.repeat):
        step = n + (i.repeat == 1)
        a = ub[(src + step * i.src_rep[0] * BLOCK)[:, None] + np.arange(BLOCK)]
        a = a.view(_RAW[size]).reshape(16, per)
        b = dst + step * i.dst_rep * BLOCK
        if size == 1:
            part = a[:, 16:] if i.extra["src_high"] else a[:, :16]
            out = b[:, None] + np.arange(16) + (16 if i.extra["dst_high"] else 0)
            ub[out] = part.T
        else:  # 4 bytes: loop k fills the lists' elements 2k and 2k + 1
            rows = a.T.reshape(16, per) if size == 4 else a.T
            rows = np.ascontiguousarray(rows).view(np.uint8).reshape(16, BLOCK)
            for k in range(16):
                ub[b[k] : b[k] + BLOCK] = rows[k]
    return {}


GROUP: Group = {
    "Duplicate": _duplicate,
    "Copy": _copy,
    "Brcb": _brcb,
    "CreateVecIndex": _create_vec_index,
    "ArithProgression": _create_vec_index,
    "Gather": _gather,
    "Gatherb": _gatherb,
    "Scatter": _scatter,
    "GatherMask": _gather_mask,
    "Transpose": _transpose,
    "TransDataTo5HD": _trans_data,
}
