"""Cast and its relatives: Cast, CastDeq, AddReluCast, SubReluCast, MulCast, AddDeqRelu.

``PAIRS`` holds the conversions and modes of dav-2201. Float -> half and bfloat16_t come from the
older model (``models.ascend_numpy``), which has its own tests.
"""

from __future__ import annotations

import numpy as np

from .. import ascend_numpy as old
from . import floats
from .core import (
    NUMPY,
    Group,
    Instr,
    Operands,
    Settings,
    Unsupported,
    lanes_of,
    live,
    repeats_of,
    table,
    view,
)
from .elementwise import binary, relu_of

FIVE = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")
_NONE = ("NONE",)

# (dst, src) -> modes on dav-2201.
PAIRS: dict[tuple[str, str], tuple[str, ...]] = {
    ("float", "float"): FIVE,
    ("half", "float"): ("NONE", *FIVE, "ODD"),
    ("bfloat16_t", "float"): FIVE,
    ("int64_t", "float"): FIVE,
    ("int32_t", "float"): FIVE,
    ("int16_t", "float"): FIVE,
    ("float", "half"): _NONE,
    ("int32_t", "half"): FIVE,
    ("int16_t", "half"): FIVE,
    ("int8_t", "half"): ("NONE", *FIVE),
    ("uint8_t", "half"): ("NONE", *FIVE),
    ("int4b_t", "half"): ("NONE", *FIVE),
    ("float", "bfloat16_t"): _NONE,
    ("int32_t", "bfloat16_t"): FIVE,
    ("half", "int4b_t"): _NONE,
    ("half", "uint8_t"): _NONE,
    ("half", "int8_t"): _NONE,
    ("half", "int16_t"): ("NONE", *FIVE),
    ("float", "int16_t"): _NONE,
    ("float", "int32_t"): ("NONE", *FIVE),
    ("int64_t", "int32_t"): _NONE,
    ("int16_t", "int32_t"): _NONE,
    ("half", "int32_t"): _NONE,  # with SetDeqScale
    ("float", "int64_t"): FIVE,
    ("int32_t", "int64_t"): _NONE,
}
# bfloat16_t does not exist on the older ones, int4b_t is theirs neither.
_FIRST_ON_2201 = frozenset(("bfloat16_t", "int4b_t", "int64_t"))


def to_integer(x: np.ndarray, mode: str) -> np.ndarray:
    """float64 -> float64 that is whole (NaN and infinities stay)."""
    if mode in ("NONE", "RINT"):
        return np.rint(x)
    if mode == "ROUND":  # half away from zero; x is a float, half or bf16, so x + 0.5 is exact
        large = np.abs(x) >= 2.0**51
        return np.where(large, x, np.copysign(np.floor(np.abs(x) + 0.5), x))
    return {"FLOOR": np.floor, "CEIL": np.ceil, "TRUNC": np.trunc}[mode](x)


def integer_to_float(x: np.ndarray, mode: str) -> np.ndarray:
    """int16 .. int64 -> float32 in every mode, in integers: a shift, a remainder, a decision."""
    wide = x.astype(np.int64)
    negative = wide < 0
    magnitude = np.where(negative, (~wide).view(np.uint64) + np.uint64(1), wide.view(np.uint64))
    # Bits of the magnitude, from the exponent of a double that holds its upper 53 bits exactly.
    _, exponent = np.frexp((magnitude >> np.uint64(11)).astype(np.float64))
    top = np.where(magnitude >> np.uint64(11) > 0, exponent + 11, 0)
    low = magnitude < np.uint64(1 << 24)
    shift = np.where(low, 0, top - 24).astype(np.uint64)
    kept = magnitude >> shift
    rest = magnitude & ((np.uint64(1) << shift) - np.uint64(1))
    half = np.where(shift > 0, np.uint64(1) << (np.maximum(shift, np.uint64(1)) - np.uint64(1)), 0)
    half = half.astype(np.uint64)
    inexact = rest > 0
    if mode in ("NONE", "RINT"):
        up = (rest > half) | ((rest == half) & inexact & (kept & np.uint64(1) == 1))
    elif mode == "ROUND":
        up = inexact & (rest >= half)
    elif mode == "TRUNC":
        up = np.zeros_like(inexact)
    else:
        up = inexact & (negative if mode == "FLOOR" else ~negative)
    value = np.ldexp((kept + up.astype(np.uint64)).astype(np.float64), shift.astype(np.int64))
    return np.where(negative, -value, value).astype(np.float32)


def saturated(x: np.ndarray, low: int, high: int, kind) -> np.ndarray:
    """Whole float64 -> integers of ``kind`` that stop at the ends; NaN becomes 0."""
    nan = np.isnan(x)
    clipped = np.where(nan, 0.0, np.clip(x, float(low), float(high)))
    top = clipped >= float(high)  # float(high) may be one more than high (int64)
    result = np.where(top, 0.0, clipped).astype(np.int64)
    return np.where(top, np.int64(high), result).astype(kind)


def _limits(kind: str) -> tuple[int, int]:
    if kind == "int4b_t":
        return -8, 7
    info = np.iinfo(NUMPY[kind])
    return int(info.min), int(info.max)


def deq(x: np.ndarray, scale_bits: int, s: Settings) -> np.ndarray:
    """int32 -> half: x / 2^17 * scale * 2^17, here one product that is rounded once."""
    scale = floats.from_half(np.array([scale_bits & 0xFFFF], np.uint16))
    return floats.to_half(x.astype(np.float64) * scale, s.overflow == "saturate")


def convert(x: np.ndarray, dst: str, src: str, mode: str, s: Settings, scale: int = 0):
    """Elements of ``src`` -> elements of ``dst``. int4b_t is int8 here, one element each."""
    if mode not in PAIRS.get((dst, src), ()):
        raise Unsupported(f"Cast {src} -> {dst} has no mode {mode} on dav-2201")
    if s.arch in ("dav-1001", "dav-2002") and _FIRST_ON_2201 & {dst, src}:
        raise Unsupported(f"{s.arch} has no Cast {src} -> {dst}")
    if (dst, src) == ("half", "int32_t"):
        return deq(x, scale, s)
    if src in floats_of:
        wide = floats_of[src](x)
        if dst == "half":
            return old.fp32_to_fp16(wide, mode, s.overflow)
        if dst == "bfloat16_t":
            return old.fp32_to_bf16(wide, mode, s.overflow)
        if dst == "float" and src != "float":
            return floats.canonical(wide.astype(np.float32))
        whole = to_integer(wide.astype(np.float64), mode)
        if dst == "float":
            return floats.canonical(whole.astype(np.float32))
        return saturated(whole, *_limits(dst), np.int8 if dst == "int4b_t" else NUMPY[dst])
    if dst == "float":
        return integer_to_float(x, mode)
    if dst == "half":
        return old.fp32_to_fp16(x.astype(np.float32), mode, s.overflow)
    low, high = _limits(dst)
    return np.clip(x.astype(np.int64), low, high).astype(NUMPY[dst])


floats_of = {
    "float": lambda x: x,
    "half": floats.from_half,
    "bfloat16_t": floats.from_bfloat,
}


# --- int4b_t: two elements in a byte --------------------------------------------------------------


def _nibbles(i: Instr, ub: np.ndarray, offset: int, blk: int, rep: int, lanes: int):
    """Byte index and half (0 low, 1 high) of each lane that takes part."""
    if i.form == "count":
        lane = np.arange(i.count)
        return offset + lane // 2, lane % 2
    lane = np.arange(lanes)
    inside = (lane // 64) * (blk * 32) + lane % 64 // 2
    byte = offset + inside[None, :] + (np.arange(repeats_of(i, lanes)) * rep * 32)[:, None]
    odd = np.broadcast_to(lane % 2, byte.shape)
    on = live(i, lanes)
    return (byte.ravel(), odd.ravel()) if on is None else (byte[on], odd[on])


def _cast_int4(i: Instr, ub: np.ndarray, s: Settings) -> None:
    dst, src = i.types
    lanes = lanes_of(2)
    if src == "int4b_t":
        byte, odd = _nibbles(i, ub, i.srcs[0], i.src_blk[0], i.src_rep[0], lanes)
        x = (ub[byte] >> (4 * odd).astype(np.uint8) & 0xF).astype(np.int8)
        x = np.where(x > 7, x - 16, x).astype(np.int8)
        values = old.fp32_to_fp16(x.astype(np.float32), "RINT", s.overflow)
        out = view(ub, i.dst, dst)
        if i.form == "count":
            out[: i.count] = values
        else:
            index = table(2, lanes, repeats_of(i, lanes), i.dst_blk, i.dst_rep)
            on = live(i, lanes)
            out[index.ravel() if on is None else index[on]] = values
        return
    x = view(ub, i.srcs[0], src)
    if i.form == "count":
        x = x[: i.count].copy()
    else:
        index = table(2, lanes, repeats_of(i, lanes), i.src_blk[0], i.src_rep[0])
        on = live(i, lanes)
        x = x[index.ravel() if on is None else index[on]]
    values = convert(x, "int4b_t", src, i.mode, s).astype(np.uint8) & 0xF
    byte, odd = _nibbles(i, ub, i.dst, i.dst_blk, i.dst_rep, lanes)
    for half, keep in ((0, 0xF0), (1, 0x0F)):
        here = odd == half
        ub[byte[here]] = (ub[byte[here]] & keep) | (values[here] << np.uint8(4 * half))


def _cast(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """extra: scale, the half bits given to SetDeqScale (int32_t -> half)."""
    dst, src = i.types
    if i.mode not in PAIRS.get((dst, src), ()):
        raise Unsupported(f"Cast {src} -> {dst} has no mode {i.mode} on dav-2201")
    if "int4b_t" in i.types:
        _cast_int4(i, ub, s)
        return {}
    o = Operands(i, ub)
    shape = o.src(0)
    values = convert(shape.ravel(), dst, src, i.mode, s, i.extra.get("scale", 0))
    o.store(values.reshape(shape.shape))
    return {}


_RELU_CAST = (("half", "float"), ("int8_t", "half"), ("int8_t", "int16_t"))


def _relu_cast(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """AddReluCast, SubReluCast: the sum rounds in the source type, then Relu, then a NONE cast."""
    if i.types not in _RELU_CAST:
        raise Unsupported(f"{i.op} does not convert {i.types[1]} -> {i.types[0]}")
    dst, src = i.types
    o = Operands(i, ub)
    total = relu_of(binary(i.op[:3], o.src(0), o.src(1), src, s), src)
    shape, total = total.shape, total.ravel()
    if src == "int16_t":
        values = np.clip(total, -128, 127).astype(np.int8)
    else:
        values = convert(total, dst, src, "NONE", s)
    o.store(values.reshape(shape))
    return {}


def _mul_cast(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """MulCast: the product rounds to half, then a NONE cast."""
    if i.types not in (("int8_t", "half"), ("uint8_t", "half")):
        raise Unsupported(f"MulCast does not convert {i.types[1]} -> {i.types[0]}")
    o = Operands(i, ub)
    product = binary("Mul", o.src(0), o.src(1), "half", s)
    o.store(convert(product.ravel(), *i.types, "NONE", s).reshape(product.shape))
    return {}


def _add_deq_relu(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Relu(Deq(src0 + src1)), int32_t -> half. extra: scale (half bits)."""
    if i.types != ("half", "int32_t"):
        raise Unsupported(f"AddDeqRelu does not convert {i.types[1]} -> {i.types[0]}")
    o = Operands(i, ub)
    total = binary("Add", o.src(0), o.src(1), "int32_t", s)
    o.store(relu_of(deq(total, i.extra["scale"], s), "half"))
    return {}


def _cast_deq(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """CastDeq (CastDequant): int16_t -> int8_t or uint8_t, or int32_t -> half.

    extra: scale (float32 bits), offset, signed; or for isVecDeq ``params``: 16 triples (scale bits,
    offset, signed), used in turn; half_block. Sixteen results fill one half of a data block: its
    first 16 bytes for halfBlock = true, the last for false (*assumed*).
    """
    if i.types == ("half", "int32_t"):
        o = Operands(i, ub)
        o.store(deq(o.src(0), i.extra["scale"], s))
        return {}
    dst, src = i.types
    if src != "int16_t" or dst not in ("int8_t", "uint8_t"):
        raise Unsupported(f"CastDeq does not convert {src} -> {dst}")
    lanes = lanes_of(2)
    x = view(ub, i.srcs[0], src)
    if i.form == "count":
        lane = np.arange(i.count)
        index, out = lane, (lane // 16) * 32 + lane % 16
    else:
        repeats = repeats_of(i, lanes)
        index = table(2, lanes, repeats, i.src_blk[0], i.src_rep[0])
        lane = np.arange(lanes)
        inside = (lane // 16) * (i.dst_blk * 32) + lane % 16
        out = inside[None, :] + (np.arange(repeats) * i.dst_rep * 32)[:, None]
        lane = np.broadcast_to(lane, index.shape)
        on = live(i, lanes)
        if on is not None:
            index, out, lane = index[on], out[on], lane[on]
    params = i.extra.get("params") or [(i.extra["scale"], i.extra["offset"], i.extra["signed"])]
    scale = np.array([p[0] for p in params], np.uint32).view(np.float32).astype(np.float64)
    offset = np.array([p[1] for p in params], np.int64)
    which = lane % 16 if len(params) == 16 else np.zeros_like(lane)
    whole = np.rint(x[index].astype(np.float64) * scale[which])
    values = np.where(np.isnan(whole), 0.0, whole) + offset[which]
    low, high = _limits(dst)
    byte = i.dst + (0 if i.extra["half_block"] else 16) + out
    ub[byte] = np.clip(values, low, high).astype(np.int64).astype(NUMPY[dst]).view(np.uint8)
    return {}


GROUP: Group = {
    "Cast": _cast,
    "AddReluCast": _relu_cast,
    "SubReluCast": _relu_cast,
    "MulCast": _mul_cast,
    "AddDeqRelu": _add_deq_relu,
    "CastDeq": _cast_deq,
}
