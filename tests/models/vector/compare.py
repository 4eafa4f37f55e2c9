"""Compare, CompareScalar (Compares), the compare into CMPMASK, and the three modes of Select."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from . import floats
from .core import (
    NUMPY,
    SIZE,
    Group,
    Instr,
    Operands,
    Settings,
    Unsupported,
    by_repeat,
    lanes_of,
    scalar_of,
    table,
    view,
)

MODES = ("LT", "GT", "EQ", "LE", "GE", "NE")
_COMPARE = {
    "LT": np.less,
    "GT": np.greater,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GE": np.greater_equal,
    "NE": np.not_equal,
}


def _check(i: Instr) -> None:
    kind = i.types[1]
    if kind == "int32_t" and i.mode != "EQ":
        raise Unsupported(f"{i.op} takes int32_t with EQ only")
    if kind not in ("half", "float", "int32_t") or i.mode not in MODES:
        raise Unsupported(f"{i.op} does not take {kind} with {i.mode}")


def _all_lanes(i: Instr, ub: np.ndarray, n: int, kind: str) -> np.ndarray:
    """Source n with every lane of every repeat: dav-2201 ignores the mask of a compare."""
    x = view(ub, i.srcs[n], kind)
    if i.form == "count":
        return x[: i.count]
    lanes = lanes_of(SIZE[kind])
    return x[table(SIZE[kind], lanes, i.repeat, i.src_blk[n], i.src_rep[n])].ravel()


def _compare(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """One bit per lane, the first lane in the lowest bit; NaN compares as IEEE says.

    Repeats write their 8 (float) or 16 (half) bytes one after another: the destination's strides
    have no effect (*assumed*).
    """
    _check(i)
    kind = i.types[1]
    if i.form == "count" and i.count * SIZE[kind] % 256:
        raise ValueError(f"{i.op}: {i.count} elements of {kind} are not whole repeats of 256 bytes")
    a = floats.load(_all_lanes(i, ub, 0, kind), kind)
    if i.op == "Compare":
        b = floats.load(_all_lanes(i, ub, 1, kind), kind)
    else:
        b = floats.load(scalar_of(i, kind), kind)
    bits = np.packbits(_COMPARE[i.mode](a, b), bitorder="little")
    ub[i.dst : i.dst + len(bits)] = bits
    return {}


def _compare_mask(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """One repeat into CMPMASK, then GetCmpMask writes its 16 bytes to dst.

    Lanes that the mask leaves out and, for float, the upper 64 bits are not documented: ignored.
    """
    _check(i)
    kind = i.types[1]
    o = Operands(i, ub, lanes_of(SIZE[kind]))
    a, b = (floats.load(o.src(n), kind) for n in (0, 1))
    on = np.ones(o.lanes, bool) if o.on is None else o.on[0]
    bits = np.zeros(o.lanes, bool)
    bits[on] = _COMPARE[i.mode](a, b).ravel()
    packed = np.packbits(bits, bitorder="little")
    ub[i.dst : i.dst + len(packed)] = packed
    ignore = [] if on.all() else [(i.dst, i.dst + len(packed))]
    if len(packed) < 16:
        ignore.append((i.dst + len(packed), i.dst + 16))
    return {"ignore": ignore}


SELECT_MODES = ("CMPMASK", "TENSOR_SCALAR", "TENSOR_TENSOR")


def _select(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Bit 1 takes src0, bit 0 src1 (a tensor, or the scalar); bits of values pass unchanged.

    srcs: (selMask, src0[, src1]); src_blk and src_rep belong to src0 and src1. CMPMASK reads the
    same 64 (float) or 128 (half) bits in every repeat, the others go on to the next ones.
    """
    kind = i.types[0]
    if kind not in ("half", "float") or i.mode not in SELECT_MODES:
        raise Unsupported(f"Select does not take {kind} with {i.mode}")
    lanes = lanes_of(SIZE[kind])
    raw = np.uint16 if kind == "half" else np.uint32
    selmask = ub[i.srcs[0] :]
    values = replace(i, srcs=i.srcs[1:])
    for n, step in enumerate(by_repeat(values) or ()):
        bits_at = i.srcs[0] + (0 if i.mode == "CMPMASK" else n * lanes // 8)
        _select(replace(step, srcs=(bits_at, *step.srcs)), ub, s)
    if by_repeat(values):
        return {}
    o = Operands(values, ub)
    if o.flat:
        total, on = i.count, None
    else:
        total, on = o.repeats * lanes, o.on
    if i.mode == "CMPMASK":
        one = np.unpackbits(selmask[: lanes // 8], bitorder="little")
        bits = np.resize(one, total)
    else:
        bits = np.unpackbits(selmask[: -(-total // 8)], bitorder="little")[:total]
    if not o.flat:
        bits = bits.reshape(o.repeats, lanes)
        bits = bits if on is None else bits[on]
    a = o.src(0).view(raw)
    if i.mode == "TENSOR_SCALAR":
        b = scalar_of(i, kind).view(raw)
    else:
        b = o.src(1).view(raw)
    o.store(np.where(bits == 1, a, b).astype(raw).view(NUMPY[kind]))
    return {}


GROUP: Group = {
    "Compare": _compare,
    "CompareScalar": _compare,
    "CompareMask": _compare_mask,
    "Select": _select,
}
