"""DataCopy, DataCopyPad and the atomic copies: between GM and UB, and inside UB.

``extra["way"]`` is "in" (GM -> UB), "out" (UB -> GM) or "ub" (UB -> UB); offsets belong to the
memory on their side. Lengths and strides are bytes here: the caller of DataCopyParams multiplies.
"""

from __future__ import annotations

import numpy as np

from . import floats
from .core import BLOCK, FLOATS, NUMPY, SIZE, Instr, Settings, Unsupported

ATOMIC_TYPES = ("float", "half", "int16_t", "int32_t", "int8_t", "bfloat16_t")


def _memories(i: Instr, ub: np.ndarray, gm: np.ndarray | None):
    way = i.extra["way"]
    if way != "ub" and gm is None:
        raise ValueError(f"{i.op} {way}: no GM was given")
    return (gm if way == "out" else ub), (gm if way == "in" else ub)


def atomic(old: np.ndarray, new: np.ndarray, kind: str, how: str, s: Settings) -> np.ndarray:
    """Bytes in GM and bytes that arrive -> bytes after add, max or min in ``kind``."""
    if kind not in ATOMIC_TYPES:
        raise Unsupported(f"no atomics on {kind}")
    a, b = old.view(NUMPY[kind]), new.view(NUMPY[kind])
    if kind not in FLOATS:
        f = {"add": np.add, "max": np.maximum, "min": np.minimum}[how]
        return f(a, b).view(np.uint8)
    if kind == "bfloat16_t":
        x, y = (floats.from_bfloat(v).astype(np.float64) for v in (a, b))
    else:
        x, y = floats.load(a, kind), floats.load(b, kind)
    f = {"add": np.add, "max": floats.maximum, "min": floats.minimum}[how]
    result = f(x, y)
    if kind == "bfloat16_t":
        result = to_bfloat(result)
    else:
        result = floats.finish(result, kind, s.overflow == "saturate")
    return result.view(np.uint8)


def to_bfloat(x: np.ndarray) -> np.ndarray:
    """float64 -> bf16 bits, nearest even. A sum of two bf16 numbers is rounded to odd first."""
    single = x.astype(np.float32)
    back = single.astype(np.float64)
    inexact = np.isfinite(single) & (back != x) & (single.view(np.uint32) & 1 == 0)
    toward = np.where(x > back, np.float32(np.inf), np.float32(-np.inf))
    single = np.where(inexact, np.nextafter(single, toward), single)
    bits = single.view(np.uint32)
    up = (bits >> 16 & 1) + np.uint32(0x7FFF)
    rounded = ((bits + up) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(floats.NANB16), rounded)


def _put(target: np.ndarray, at: int, data: np.ndarray, i: Instr, s: Settings) -> None:
    how = i.extra.get("atomic")
    here = target[at : at + len(data)]
    here[:] = data if how is None else atomic(here.copy(), data, i.types[0], how, s)


def _data_copy(i: Instr, ub: np.ndarray, s: Settings, gm: np.ndarray | None) -> dict:
    """``count`` elements, their bytes rounded down to 32; or extra: blocks, length, gaps.

    The gaps (source, destination) lie between the end of one burst and the start of the next.
    """
    target, source = _memories(i, ub, gm)
    if i.form == "count":
        bursts, length, gaps = 1, i.count * SIZE[i.types[0]] // BLOCK * BLOCK, (0, 0)
    else:
        bursts, length, gaps = i.extra["blocks"], i.extra["length"], i.extra["gaps"]
    for n in range(bursts):
        start = i.srcs[0] + n * (length + gaps[0])
        data = source[start : start + length].copy()
        _put(target, i.dst + n * (length + gaps[1]), data, i, s)
    return {}


def _pad_in(i: Instr, ub: np.ndarray, gm: np.ndarray, s: Settings) -> dict:
    """GM -> UB: each burst on its own data blocks. extra: pad (is_pad, left, right, value bits)."""
    is_pad, left, right, value = i.extra["pad"]
    size, length = SIZE[i.types[0]], i.extra["length"]
    gm_gap, ub_gap = i.extra["gaps"]
    width = -(-(length + (left + right) * size) // BLOCK) * BLOCK
    element = np.array([value], np.uint64).view(np.uint8)[:size]
    ignore = []
    for n in range(i.extra["blocks"]):
        at = i.dst + n * (width + ub_gap * BLOCK)
        start = i.srcs[0] + n * (length + gm_gap)
        data = gm[start : start + length]
        body = at + left * size
        ub[body : body + length] = data
        end = at + width
        if left == right == 0:
            # The rest of the last data block holds the burst's first element.
            rest = end - (body + length)
            ub[body + length : end] = np.resize(data[:size], rest + size)[:rest]
        elif is_pad:
            ub[at:body] = np.resize(element, left * size)
            after = body + length
            ub[after : after + right * size] = np.resize(element, right * size)
            ignore.append((after + right * size, end))
        else:
            ignore += [(at, body), (body + length, end)]
    return {"ignore": [(a, b) for a, b in ignore if a < b]}


def _data_copy_pad(i: Instr, ub: np.ndarray, s: Settings, gm: np.ndarray | None) -> dict:
    """extra: blocks, length (bytes), gaps (src, dst: GM in bytes, UB in data blocks), way, pad."""
    if s.arch in ("dav-1001", "dav-2002"):
        raise Unsupported(f"{s.arch} has no DataCopyPad")
    if gm is None:
        raise ValueError("DataCopyPad: no GM was given")
    if i.extra["way"] == "in":
        return _pad_in(i, ub, gm, s)
    length = i.extra["length"]
    ub_gap, gm_gap = i.extra["gaps"]
    step = (-(-length // BLOCK) + ub_gap) * BLOCK
    for n in range(i.extra["blocks"]):
        data = ub[i.srcs[0] + n * step :][:length].copy()
        _put(gm, i.dst + n * (length + gm_gap), data, i, s)
    return {}


GROUP = {"DataCopy": _data_copy, "DataCopyPad": _data_copy_pad}
