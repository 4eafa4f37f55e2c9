"""Unary, binary, scalar, shift, logic and fused instructions.

Each function takes the numbers of its sources (half as float64, float as float32, integers as they
are) and gives numbers; ``_element`` loads and rounds. What an instruction takes stands in ``TAKES``
(dav-2201; other architectures where a name says so).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import floats
from .core import FLOATS, NUMPY, Group, Instr, Operands, Settings, Unsupported, by_repeat, scalar_of

_INTS = ("int16_t", "int32_t")
_ARITHMETIC = ("half", "float", *_INTS)
_REAL = ("half", "float")
_LOGIC = ("int16_t", "uint16_t")
_SHIFT = ("int16_t", "uint16_t", "int32_t", "uint32_t")

# op -> types. Those of "later" exist as basic instructions on dav-3510 only.
TAKES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Exp", "Ln", "Abs", "Reciprocal", "Sqrt", "Rsqrt"), _REAL),
    "Relu": ("half", "float", "int32_t"),
    "Not": _LOGIC,
    **dict.fromkeys(("Add", "Sub", "Mul", "Max", "Min"), _ARITHMETIC),
    "Div": _REAL,
    **dict.fromkeys(("And", "Or"), _LOGIC),
    "AddRelu": ("int16_t", "half", "float"),
    "SubRelu": ("int16_t", "half", "float"),
    **dict.fromkeys(("Adds", "Muls", "Maxs", "Mins"), _ARITHMETIC),
    "LeakyRelu": _REAL,
    **dict.fromkeys(("ShiftLeft", "ShiftRight"), _SHIFT),
    **dict.fromkeys(("FusedMulAdd", "FusedMulAddRelu"), _REAL),
}
LATER: dict[str, tuple[str, ...]] = {
    "Neg": ("half", "float", *_INTS),
    "Xor": _LOGIC,
    **dict.fromkeys(("Subs", "Divs"), _REAL),
    **dict.fromkeys(("Ands", "Ors"), _LOGIC),
}
# Instructions with two types, (dst, src).
MIXED: dict[str, tuple[tuple[str, str], ...]] = {
    "Axpy": (("half", "half"), ("float", "float"), ("float", "half")),
    "MulAddDst": (("half", "half"), ("float", "float"), ("float", "half")),
}


def _takes(i: Instr, s: Settings) -> None:
    dst, src = i.types
    if i.op in MIXED:
        allowed = (dst, src) in MIXED[i.op]
    elif dst != src:
        allowed = False
    elif i.op in LATER:
        allowed = dst in LATER[i.op] and s.arch == "dav-3510"
    else:
        allowed = dst in TAKES[i.op]
    if not allowed:
        raise Unsupported(f"{i.op} on {s.arch} does not take {dst}, {src}")


# --- one source -----------------------------------------------------------------------------------


def _abs(x: np.ndarray) -> np.ndarray:
    return np.abs(x)


def _reciprocal(x: np.ndarray) -> np.ndarray:
    return x.dtype.type(1) / x


_UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Abs": _abs,
    "Neg": np.negative,
    "Not": np.invert,
    "Relu": floats.relu,
    "Sqrt": np.sqrt,
    "Reciprocal": _reciprocal,
}
_ROUNDED = frozenset(("Exp", "Ln", "Rsqrt"))


def _shift_left(x: np.ndarray, by: int) -> np.ndarray:
    """Bits move up, zeros come in; a shift by the whole width gives 0."""
    width = 8 * x.dtype.itemsize
    if not 0 <= by <= width:
        raise ValueError(f"a shift of {by} bits: 0 .. {width} are documented")
    return np.zeros_like(x) if by == width else x << x.dtype.type(by)


def _shift_right(x: np.ndarray, by: int, rounding: bool) -> np.ndarray:
    """Logical for unsigned, arithmetic for signed; rounding adds the last bit that went out."""
    width = 8 * x.dtype.itemsize
    if not 0 <= by <= width:
        raise ValueError(f"a shift of {by} bits: 0 .. {width} are documented")
    wide = x.astype(np.int64)  # every type here fits, so a shift by the whole width is defined
    result = wide >> by
    if rounding and by and np.issubdtype(x.dtype, np.signedinteger):
        result = result + (wide >> (by - 1) & 1)
    return result.astype(x.dtype)


# --- two sources ----------------------------------------------------------------------------------


def _max(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return floats.maximum(a, b) if a.dtype.kind == "f" else np.maximum(a, b)


def _min(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return floats.minimum(a, b) if a.dtype.kind == "f" else np.minimum(a, b)


_BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": _max,
    "Min": _min,
    "And": np.bitwise_and,
    "Or": np.bitwise_or,
    "Xor": np.bitwise_xor,
}
_SCALAR = {
    "Adds": "Add",
    "Subs": "Sub",
    "Muls": "Mul",
    "Divs": "Div",
    "Maxs": "Max",
    "Mins": "Min",
    "Ands": "And",
    "Ors": "Or",
}


def saturated_integers(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Add, Sub or Mul of integers that stop at the ends of the type (CTRL[53] = 1)."""
    f = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}[op]
    info = np.iinfo(a.dtype)
    return np.clip(f(a.astype(np.int64), b.astype(np.int64)), info.min, info.max).astype(a.dtype)


def binary(op: str, a: np.ndarray, b: np.ndarray, kind: str, s: Settings) -> np.ndarray:
    """One of ``_BINARY`` on elements (half as bits), rounded to ``kind``."""
    if kind not in FLOATS and s.integers == "saturate" and op in ("Add", "Sub", "Mul"):
        return saturated_integers(op, a, b)
    x, y = floats.load(a, kind), floats.load(b, kind)
    result = _BINARY[op](x, y)
    return floats.finish(result, kind, s.overflow == "saturate")


def relu_of(x: np.ndarray, kind: str) -> np.ndarray:
    """Relu of elements (half as bits)."""
    if kind not in FLOATS:
        return np.maximum(x, x.dtype.type(0))
    return floats.finish(floats.relu(floats.load(x, kind)), kind, False)


def _fused(a, b, c, s: Settings, kind: str) -> np.ndarray:
    """a * b + c as numbers that one more rounding to ``kind`` finishes."""
    if s.fused:
        return floats.fma(a, b, c)
    if kind == "half":
        return floats.from_half(floats.to_half(a * b)) + c
    return (np.float32(1) * a * b).astype(np.float32) + c


def _element(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Every instruction of this module."""
    _takes(i, s)
    steps = by_repeat(i)
    if steps is not None:
        for step in steps:
            _element(step, ub, s)
        return {}
    o = Operands(i, ub)
    kind, saturate = i.types[0], s.overflow == "saturate"
    op = i.op
    if op in _ROUNDED:
        x = floats.load(o.src(0), kind)
        values = floats.finish(floats.rounded(op, x, kind), kind, saturate)
    elif op in _UNARY:
        x = o.src(0)
        if kind in FLOATS:
            values = floats.finish(_UNARY[op](floats.load(x, kind)), kind, saturate)
        elif op == "Relu":
            values = relu_of(x, kind)
        else:
            values = _UNARY[op](x)
    elif op in _BINARY:
        values = binary(op, o.src(0), o.src(1), kind, s)
    elif op in _SCALAR:
        values = binary(_SCALAR[op], o.src(0), scalar_of(i, kind), kind, s)
    elif op in ("AddRelu", "SubRelu"):
        values = relu_of(binary(op[:3], o.src(0), o.src(1), kind, s), kind)
    elif op == "LeakyRelu":
        x, slope = floats.load(o.src(0), kind), floats.load(scalar_of(i, kind), kind)
        values = floats.finish(np.where(x < 0, x * slope, x), kind, saturate)
    elif op in ("ShiftLeft", "ShiftRight"):
        by = int(scalar_of(i, kind)[0])
        x = o.src(0)
        rounding = bool(i.extra.get("round", False))
        values = _shift_left(x, by) if op == "ShiftLeft" else _shift_right(x, by, rounding)
    elif op in ("FusedMulAdd", "FusedMulAddRelu"):
        # dst = src0 * dst + src1
        a, c = floats.load(o.src(0), kind), floats.load(o.src(1), kind)
        total = _fused(a, floats.load(o.old(), kind), c, s, kind)
        values = floats.finish(total, kind, saturate)
        if op == "FusedMulAddRelu":
            values = relu_of(values, kind)
    else:  # Axpy: dst = src * scalar + dst; MulAddDst: dst = src0 * src1 + dst
        source = i.types[1]
        a = floats.load(o.src(0), source)
        b = floats.load(scalar_of(i, source) if op == "Axpy" else o.src(1), source)
        values = floats.finish(_fused(a, b, floats.load(o.old(), kind), s, kind), kind, saturate)
    o.store(values.astype(NUMPY[kind], copy=False))
    return {}


GROUP: Group = dict.fromkeys((*TAKES, *LATER, *MIXED), _element)
