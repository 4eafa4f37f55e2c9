"""An independent numpy model of the parts of the Ascend vector unit that decide the LM head's bits.

Written from ``ascendc.md`` and ``numerics.md`` alone, in array form (pairwise folds over reshaped
axes with explicit lane masks, integer arithmetic on bit patterns), so that it shares no code and no
loop structure with the twin that it is compared with on raw bits.

Conventions
-----------
* fp32 values are ``float32`` arrays; ``bits32`` gives their ``uint32`` patterns.
* fp16 and bf16 values are always ``uint16`` arrays of bit patterns: numpy's own ``float16`` is
  never used here.
* Arithmetic rounds to nearest even and keeps subnormals; every NaN that an operation returns is
  the canonical ``0x7fc00000`` (*assumed*, see the architecture page). Overflow gives infinities.
* Nothing here was measured on hardware.

What the documents leave open is marked [?]; the switches that they name are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

LANES = 64  # fp32 lanes of one 256-byte repeat
NAN32, NAN16, NANB16 = 0x7FC00000, 0x7E00, 0x7FC0


# --- architectures --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arch:
    """What one architecture does in the ``count`` form of ``ReduceSum`` and around it."""

    count_form: str  # "sequential" | "tree" | "split" | "fold-or-tree"
    masked: str  # default treatment of masked lanes: "zero" (count as +0) or "skip"
    bf16: bool  # has casts to and from bf16
    cast_overflow: str  # mode under torch_npu: "inf_nan" | "saturate"


ARCHS: Mapping[str, Arch] = MappingProxyType(
    {
        # Masked lanes on 1001 and 2002: "do not take part", nothing more is said, so skipped [?].
        "dav-1001": Arch("split", "skip", bf16=False, cast_overflow="saturate"),
        "dav-2002": Arch("split", "skip", bf16=False, cast_overflow="saturate"),
        "dav-2201": Arch("sequential", "zero", bf16=True, cast_overflow="inf_nan"),
        "dav-3510": Arch("fold-or-tree", "skip", bf16=True, cast_overflow="inf_nan"),
    }
)


def _arch(name: str) -> Arch:
    try:
        return ARCHS[name]
    except KeyError:
        raise ValueError(f"unknown architecture {name!r}; known: {', '.join(ARCHS)}") from None


def check_environment() -> None:
    """Raise ``RuntimeError`` unless this thread rounds to nearest even and keeps subnormals.

    The model adds with numpy's float32, so ``torch.set_flush_denormal(True)`` elsewhere in the
    process would change its bits without a word.
    """
    tiny = np.array([1], np.uint32).view(np.float32)
    if (tiny + tiny).view(np.uint32)[0] != 2:
        raise RuntimeError("subnormals are flushed in this thread: the model's bits would be wrong")
    one, ulp = np.array([1, -1], np.float32), np.array([2.0**-24, -(2.0**-24)], np.float32)
    if (one + ulp != one).any() or (one + 3 * ulp != one + 4 * ulp).any():
        raise RuntimeError("this thread does not round to nearest even")


# --- fp32 -----------------------------------------------------------------------------------------


def bits32(x) -> np.ndarray:
    """float32 [...] (or anything numpy turns into it) -> uint32 [...], the raw bits."""
    return np.asarray(x, np.float32).view(np.uint32)


def from_bits32(bits) -> np.ndarray:
    """uint32 [...] -> float32 [...] with those raw bits."""
    return np.asarray(bits, np.uint32).view(np.float32)


def canonical(x) -> np.ndarray:
    """float32 [...] -> the same with every NaN replaced by 0x7fc00000."""
    bits = bits32(x)
    return from_bits32(np.where((bits & 0x7FFFFFFF) > 0x7F800000, np.uint32(NAN32), bits))


def _f32(x, name: str = "x") -> np.ndarray:
    x = np.asarray(x)
    if x.dtype == np.uint32:
        x = x.view(np.float32)
    if x.dtype != np.float32:
        raise TypeError(f"{name} must be float32 (or uint32 raw bits), not {x.dtype}")
    return x


def mul(a, b) -> np.ndarray:
    """float32 [...] x float32 [...] -> float32, rounded once, NaN canonical."""
    with np.errstate(all="ignore"):
        return canonical(np.multiply(_f32(a, "a"), _f32(b, "b"), dtype=np.float32))


def add(a, b) -> np.ndarray:
    """float32 [...] + float32 [...] -> float32, rounded once, NaN canonical."""
    with np.errstate(all="ignore"):
        return canonical(np.add(_f32(a, "a"), _f32(b, "b"), dtype=np.float32))


def mul_add_dst(dst, x, y, fused: bool) -> np.ndarray:
    """``MulAddDst``: dst + x * y, float32 [...] -> float32 [...].

    ``fused=True`` rounds once: the product is exact in float64, the sum is rounded to odd there
    (the error of the addition is known from TwoSum), and 53 >= 24 + 2 bits make the last rounding
    to fp32 the only one.
    """
    dst, x, y = _f32(dst, "dst"), _f32(x, "x"), _f32(y, "y")
    if not fused:
        return add(dst, mul(x, y))
    with np.errstate(all="ignore"):
        product, addend = x.astype(np.float64) * y, dst.astype(np.float64)
        total = np.asarray(product + addend)
        back = total - product
        error = (product - (total - back)) + (addend - back)
        even = (total.view(np.uint64) & 1) == 0
        toward = np.where(error > 0, np.inf, -np.inf)
        odd = np.isfinite(total) & (error != 0) & even
        return canonical(np.where(odd, np.nextafter(total, toward), total).astype(np.float32))


# --- casts ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Format:
    name: str
    fraction: int  # bits of the stored fraction
    bias: int
    nan: int  # canonical quiet NaN
    modes: tuple[str, ...]  # documented for float -> this format on 2201

    @property
    def inf(self) -> int:
        return 0x7FFF >> self.fraction << self.fraction


_FP16 = _Format("fp16", 10, 15, NAN16, ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD"))
_BF16 = _Format("bf16", 7, 127, NANB16, ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"))
_FORMATS = {"fp16": _FP16, "bf16": _BF16}


def _narrow(x, fmt: _Format, mode: str, overflow: str) -> np.ndarray:
    if mode not in fmt.modes:
        raise ValueError(
            f"cast float -> {fmt.name} has no mode {mode!r}: use {', '.join(fmt.modes)}"
        )
    if overflow not in ("inf_nan", "saturate"):
        raise ValueError(f"overflow must be 'inf_nan' or 'saturate', not {overflow!r}")
    bits = bits32(_f32(x)).astype(np.int64)
    negative, magnitude = bits >> 31 == 1, bits & 0x7FFFFFFF

    # |x| = significand * 2**(exponent - 150), exact, subnormals included.
    exponent = np.maximum(magnitude >> 23, 1)
    significand = (magnitude & 0x7FFFFF) | ((magnitude >= 0x800000).astype(np.int64) << 23)

    # The target's exponent field (at least 1: below that the quantum stays), and how many low bits
    # of the significand lie under its quantum. A shift of 30 leaves only a remainder below 1/2.
    target = np.maximum(exponent - 127 + fmt.bias, 1)
    shift = np.minimum((target - fmt.bias - fmt.fraction) - (exponent - 150), 30)
    kept, rest = significand >> shift, significand & ((np.int64(1) << shift) - 1)
    twice, unit, inexact = 2 * rest, np.int64(1) << shift, rest != 0

    up = {
        "NONE": lambda: (twice > unit) | ((twice == unit) & (kept & 1 == 1)),
        "RINT": lambda: (twice > unit) | ((twice == unit) & (kept & 1 == 1)),
        "ROUND": lambda: twice >= unit,
        "TRUNC": lambda: np.zeros_like(inexact),
        "FLOOR": lambda: inexact & negative,
        "CEIL": lambda: inexact & ~negative,
        "ODD": lambda: inexact & (kept & 1 == 0),
    }[mode]()
    code = ((target - 1) << fmt.fraction) + kept + up  # a carry moves into the exponent by itself

    # Beyond the largest finite value: as IEEE, infinity unless the mode rounds inwards there [?].
    inward = {"TRUNC": True, "ODD": True, "FLOOR": ~negative, "CEIL": negative}.get(mode, False)
    too_big = code >= fmt.inf
    infinite, nan = magnitude == 0x7F800000, magnitude > 0x7F800000
    code = np.where(too_big, np.where(inward, fmt.inf - 1, fmt.inf), code)
    code = np.where(infinite, fmt.inf, code)
    if overflow == "saturate":
        code = np.minimum(code, fmt.inf - 1)
    code = code | (negative.astype(np.int64) << 15)
    return np.where(nan, fmt.nan if overflow == "inf_nan" else 0, code).astype(np.uint16)


def fp32_to_fp16(x, mode: str = "RINT", overflow: str = "inf_nan") -> np.ndarray:
    """``Cast`` float -> half: float32 [...] -> uint16 [...] raw bits.

    ``mode``: RINT FLOOR CEIL ROUND TRUNC ODD, or NONE (as RINT). ``overflow``: "inf_nan" keeps
    infinities and gives 0x7e00 for NaN; "saturate" gives the largest finite value and +0.
    """
    return _narrow(x, _FP16, mode, overflow)


def fp32_to_bf16(x, mode: str = "RINT", overflow: str = "inf_nan") -> np.ndarray:
    """``Cast`` float -> bf16: float32 [...] -> uint16 [...] raw bits; NONE and ODD do not exist."""
    return _narrow(x, _BF16, mode, overflow)


def _halfwords(h, name: str) -> np.ndarray:
    h = np.asarray(h)
    if h.dtype != np.uint16:
        raise TypeError(f"{name} must be uint16 raw bits, not {h.dtype}")
    return h.astype(np.uint32)


def bf16_to_fp32(h) -> np.ndarray:
    """``Cast`` bf16 -> float (NONE): uint16 [...] -> float32 [...], exact; NaN canonical."""
    return canonical(from_bits32(_halfwords(h, "bf16") << 16))


def fp16_to_fp32(h) -> np.ndarray:
    """``Cast`` half -> float (NONE): uint16 [...] -> float32 [...], exact; NaN canonical."""
    h = _halfwords(h, "fp16")
    sign, exponent, fraction = h >> 15 << 31, (h >> 10) & 31, h & 0x3FF
    # A subnormal is fraction * 2**-24: its leading bit, at position `top`, becomes implicit.
    top = (fraction[..., None] >= np.uint32(1) << np.arange(1, 10, dtype=np.uint32)).sum(-1)
    top = top.astype(np.uint32)
    small = ((top + (127 - 24)) << 23) | ((fraction << (23 - top)) & 0x7FFFFF)
    small = np.where(fraction == 0, np.uint32(0), small)
    body = np.where(exponent == 0, small, ((exponent + (127 - 15)) << 23) | (fraction << 13))
    body = np.where(exponent == 31, np.uint32(0x7F800000) | (fraction << 13), body)
    return canonical(from_bits32((sign | body).astype(np.uint32)))


def widen(x, dtype: str) -> np.ndarray:
    """Values of ``dtype`` ("fp32": float32 or uint32 bits; else uint16 bits) -> float32, exact."""
    if dtype == "fp32":
        return _f32(x)
    return {"fp16": fp16_to_fp32, "bf16": bf16_to_fp32}[_dtype(dtype)](x)


def _dtype(name: str) -> str:
    if name not in ("fp32", *_FORMATS):
        raise ValueError(f"unknown dtype {name!r}; known: fp32, bf16, fp16")
    return name


# --- ReduceSum ------------------------------------------------------------------------------------
#
# Every helper works on the last axis. `live` is a bool array [repeats, 64] (the same for all rows),
# or None where every lane takes part.


def _merge(a: np.ndarray, b: np.ndarray, live_a, live_b) -> np.ndarray:
    """Node of two children: their sum, or the only live one unchanged. Dead results are zero."""
    return np.where(live_a & live_b, a + b, np.where(live_a, a, np.where(live_b, b, np.float32(0))))


def _into_repeats(x: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """[..., n] -> ([..., repeats, 64], live [repeats, 64] or None); the padding is dead."""
    n = x.shape[-1]
    repeats = -(-n // LANES)
    padded = np.zeros((*x.shape[:-1], repeats * LANES), np.float32)
    padded[..., :n] = x
    live = None if n % LANES == 0 else (np.arange(repeats * LANES) < n).reshape(repeats, LANES)
    return padded.reshape(*x.shape[:-1], repeats, LANES), live


def _adjacent_tree(v: np.ndarray, live: np.ndarray | None, masked: str) -> np.ndarray:
    """One tree of adjacent pairs per repeat: [..., repeats, 64] -> [..., repeats].

    The 64 lanes become six axes of length two, the innermost of which is folded away six times.
    """
    if live is not None and masked == "zero":
        v, live = np.where(live, v, np.float32(0)), None
    v = v.reshape(*v.shape[:-1], *(2,) * 6)
    live = None if live is None else live.reshape(*live.shape[:-1], *(2,) * 6)
    for _ in range(6):
        if live is None:
            v = v[..., 0] + v[..., 1]
        else:
            v = _merge(v[..., 0], v[..., 1], live[..., 0], live[..., 1])
            live = live.any(-1)
    return v


def _trees(x: np.ndarray, masked: str) -> np.ndarray:
    """One pass over a flat last axis: [..., n] -> [..., ceil(n / 64)]."""
    return _adjacent_tree(*_into_repeats(x), masked)


def _method_2(x: np.ndarray, masked: str) -> np.ndarray:
    """[..., n] -> [...]: pass after pass of 64-lane trees until one value is left."""
    x = _trees(x, masked)
    while x.shape[-1] > 1:
        x = _trees(x, masked)
    return x[..., 0]


def _method_1(x: np.ndarray, masked: str, acc_start: bool) -> np.ndarray:
    """[..., n] -> [...]: one tree per repeat, the results accumulated in ascending order."""
    results = _trees(x, masked)
    if acc_start:
        results = np.concatenate([np.zeros_like(results[..., :1]), results], axis=-1)
    return np.add.accumulate(results, axis=-1, dtype=np.float32)[..., -1]


def _method_3(x: np.ndarray, masked: str) -> np.ndarray:
    """[..., n], at most four repeats -> [...]: repeats folded lane by lane, then one tree.

    v0, v0+v1, (v0+v1)+v2 or (v0+v1)+(v2+v3): adjacent repeats in pairs, an odd one passed on.
    """
    v, live = _into_repeats(x)
    live = np.ones(v.shape[-2:], bool) if live is None else live
    if masked == "zero":
        v, live = np.where(live, v, np.float32(0)), np.ones_like(live)
    while v.shape[-2] > 1:
        even = v.shape[-2] // 2 * 2
        a, b, la, lb = v[..., 0:even:2, :], v[..., 1:even:2, :], live[0:even:2], live[1:even:2]
        v = np.concatenate([_merge(a, b, la, lb), v[..., even:, :]], axis=-2)
        live = np.concatenate([la | lb, live[even:]], axis=0)
    return _adjacent_tree(v, live, masked)[..., 0]


def _split(x: np.ndarray, masked: str) -> np.ndarray:
    """[..., n] -> [...]: whole repeats by method 2, the tail on its own, then [body, tail]."""
    whole = x.shape[-1] // LANES * LANES
    parts = [_method_2(p, masked) for p in (x[..., :whole], x[..., whole:]) if p.shape[-1]]
    return parts[0] if len(parts) == 1 else _trees(np.stack(parts, axis=-1), masked)[..., 0]


def reduce_sum(
    x,
    arch: str,
    form: str = "count",
    *,
    masked: str | None = None,
    acc_start: bool = True,
    mask: int | np.ndarray = LANES,
) -> np.ndarray:
    """``ReduceSum`` of fp32, vectorised over rows: float32 [..., n] -> float32 [...].

    form
        "count": ``(dst, src, tmp, n)``. "high": ``(dst, src, tmp, mask, n / 64, 8)``, method 2 on
        every architecture; n must be a multiple of 64 and ``mask`` (a number of lanes, or 64 bools)
        selects the same lanes in every repeat.
    masked
        "zero": lanes out of the mask count as +0; "skip": a pair with one live lane passes it on
        unchanged. None: the architecture's default (2201 zero, others skip).
    acc_start
        Method 1 only: whether the accumulator starts at +0 or at the first repeat's result.

    NaN results are 0x7fc00000. A count or a mask of 0 is "no operation", which has no value:
    ValueError.
    """
    x, info = _f32(x), _arch(arch)
    masked = info.masked if masked is None else masked
    if masked not in ("zero", "skip"):
        raise ValueError(f"masked must be 'zero' or 'skip', not {masked!r}")
    if x.ndim == 0 or x.shape[-1] == 0:
        raise ValueError("a count of 0 is no operation: dst keeps what it held")
    check_environment()
    n = x.shape[-1]
    with np.errstate(all="ignore"):
        if form == "high":
            return canonical(_high(x, masked, mask))
        if form != "count":
            raise ValueError(f"form must be 'count' or 'high', not {form!r}")
        if info.count_form == "sequential":
            total = _method_1(x, masked, acc_start)
        elif info.count_form == "split":
            total = _split(x, masked)
        elif info.count_form == "fold-or-tree" and 256 <= 4 * n <= 1024:
            total = _method_3(x, masked)
        else:
            total = _method_2(x, masked)
    return canonical(total)


def _high(x: np.ndarray, masked: str, mask: int | np.ndarray) -> np.ndarray:
    if x.shape[-1] % LANES:
        raise ValueError(f"the high-dimensional form takes whole repeats, not {x.shape[-1]} lanes")
    lanes = np.arange(LANES) < mask if np.ndim(mask) == 0 else np.asarray(mask, bool)
    if lanes.shape != (LANES,) or not lanes.any() or (np.ndim(mask) == 0 and mask > LANES):
        raise ValueError("mask must be 1..64 or 64 bools, one of them set")
    v, _ = _into_repeats(x)
    live = None if lanes.all() else np.broadcast_to(lanes, v.shape[-2:])
    first = _adjacent_tree(v, live, masked)
    return first[..., 0] if first.shape[-1] == 1 else _method_2(first, masked)


# --- the LM head ----------------------------------------------------------------------------------


def lm_head(
    hidden,
    weight,
    bias=None,
    *,
    arch: str = "dav-2201",
    tile: int = 1024,
    in_dtype: str = "fp32",
    out_dtype: str = "same",
    masked: str | None = None,
    acc_start: bool = True,
    chunk_bytes: int = 1 << 25,
) -> np.ndarray:
    """The LM-head kernel: hidden [N, H], weight [V, H], bias [V] or None -> raw bits [N, V].

    Inputs are of ``in_dtype``: "fp32" (float32, or uint32 bits), "bf16" or "fp16" (uint16 bits).
    The result is uint32 for ``out_dtype`` "fp32", else uint16; "same" means ``in_dtype``.

    Inputs are widened exactly; products are rounded to fp32; each tile of ``tile`` products (the
    last may be shorter) goes through ``ReduceSum`` in its count form; the tiles are added in
    ascending order to an fp32 accumulator that starts at +0; a bias, if given, is added once in
    fp32; one RINT cast gives the output type. INF/NAN overflow mode.
    """
    out_dtype = _dtype(in_dtype) if out_dtype == "same" else _dtype(out_dtype)
    if out_dtype not in (in_dtype, "fp32"):
        raise ValueError(f"out_dtype is {in_dtype} or fp32, not {out_dtype}")
    if in_dtype == "bf16" and not _arch(arch).bf16:
        raise ValueError(f"{arch} has no bf16")
    if tile < 1:
        raise ValueError(f"tile must be at least 1, not {tile}")
    hidden, weight = widen(hidden, in_dtype), widen(weight, in_dtype)
    if hidden.ndim != 2 or weight.ndim != 2 or hidden.shape[1] != weight.shape[1]:
        raise ValueError(f"hidden [N, H] and weight [V, H]: got {hidden.shape}, {weight.shape}")
    (rows, width), columns = hidden.shape, weight.shape[0]

    logits = np.zeros((rows, columns), np.float32)
    step = max(1, chunk_bytes // max(1, 4 * rows * min(tile, width)))
    for start in range(0, width, tile) if rows else ():
        h = hidden[:, None, start : start + tile]
        for first in range(0, columns, step):
            part = slice(first, first + step)
            products = mul(h, weight[None, part, start : start + tile])
            sums = reduce_sum(products, arch, masked=masked, acc_start=acc_start)
            logits[:, part] = add(logits[:, part], sums)
    if bias is not None:
        bias = widen(bias, in_dtype)
        if bias.shape != (columns,):
            raise ValueError(f"bias [V] = ({columns},): got {bias.shape}")
        logits = add(logits, bias)
    if out_dtype == "fp32":
        return bits32(logits)
    return _narrow(logits, _FORMATS[out_dtype], "RINT", "inf_nan")


# --- orders that the probes tell apart from Ascend's ----------------------------------------------


def sequential_sum(x) -> np.ndarray:
    """float32 [..., n] -> [...]: left to right, lane by lane."""
    return np.add.accumulate(_f32(x), axis=-1, dtype=np.float32)[..., -1]


def halving_sum(x) -> np.ndarray:
    """float32 [..., n], n a power of two -> [...]: lane i is added to lane i + n/2, and so on."""
    x = _f32(x)
    while x.shape[-1] > 1:
        x = x[..., : x.shape[-1] // 2] + x[..., x.shape[-1] // 2 :]
    return x[..., 0]


# --- the ten probes -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Probe:
    """One probe of ``ascendc.md``.

    call
        "reduce_sum" (inputs: ``x`` float32 [n]), "mul_add_dst" (``dst``, ``x``, ``y`` float32 [1]),
        "cast_fp16" (``x`` float32 [1]) or "lm_head" (``hidden`` [N, H], ``weight`` [V, H],
        ``tiles``: two numbers).
    build
        Returns the inputs as a dictionary; the same ones every time.
    tells
        What each candidate behaviour answers, from the table.
    answers
        What each architecture is documented (or assumed) to answer: a value of ``tells``. For H9,
        whether the two tiles give equal bits. A name absent from it has no documented answer.
    """

    id: str
    call: str
    build: Callable[[], dict]
    tells: Mapping[str, object]
    answers: Mapping[str, object] = field(default_factory=dict)


def _at(n: int, values: Mapping[int, float]) -> np.ndarray:
    x = np.zeros(n, np.float32)
    x[list(values)] = list(values.values())
    return x


def _h9() -> dict:
    rng = np.random.default_rng(9)
    hidden = rng.standard_normal((4, 4096), dtype=np.float32)
    weight = rng.standard_normal((33, 4096), dtype=np.float32)
    return {"hidden": hidden, "weight": weight, "tiles": (64, 4096)}


def _every(value) -> dict[str, object]:
    return dict.fromkeys(ARCHS, value)


_H5_BITS = 64 * 71362  # 1e-40 is 71362 quanta of 2**-149
_H10 = {13: 1, 20: -1e8, 34: 3, 51: 3, 93: 1, 104: 3, 132: 1e8, 219: 1}

PROBES: tuple[Probe, ...] = (
    Probe(
        "H1",
        "reduce_sum",
        lambda: {"x": np.tile(np.array([1e8, 1, -1e8, 1], np.float32), 16)},
        {"adjacent": 0.0, "halving": 32.0, "sequential": 1.0},
        _every(0.0),
    ),
    Probe(
        "H2",
        "reduce_sum",
        lambda: {"x": _at(256, {0: 1e8, 64: 1, 128: -1e8, 192: 1})},
        {"method 1": 1.0, "method 2": 0.0, "method 3": 0.0},
        {**_every(0.0), "dav-2201": 1.0},
    ),
    Probe(
        "H3",
        "reduce_sum",
        lambda: {"x": _at(128, {0: 1e8, 1: 1, 64: -1e8, 65: 1})},
        {"method 1": 0.0, "method 2": 0.0, "method 3": 2.0},
        {**_every(0.0), "dav-3510": 2.0},
    ),
    Probe(
        "H4",
        "reduce_sum",
        lambda: {"x": np.array([1, 2.0**-24, 2.0**-24, 0], np.float32)},
        {"rounding per node": 1.0, "wider intermediate": 1 + 2.0**-23},
        _every(1.0),
    ),
    Probe(
        "H5",
        "reduce_sum",
        lambda: {"x": np.full(64, 1e-40, np.float32)},
        {"kept": _H5_BITS * 2.0**-149, "flushed": 0.0},
        _every(_H5_BITS * 2.0**-149),
    ),
    Probe(  # 64 lanes: nothing is masked, so a +0 can only come from the accumulator
        "H6/64",
        "reduce_sum",
        lambda: {"x": np.full(64, -0.0, np.float32)},
        {"accumulator starts at +0": 0.0, "no start": -0.0},
        {**_every(-0.0), "dav-2201": 0.0},
    ),
    Probe(
        "H6/1",
        "reduce_sum",
        lambda: {"x": np.full(1, -0.0, np.float32)},
        {"start at +0, or masked lanes +0": 0.0, "no start, masked lanes skipped": -0.0},
        {**_every(-0.0), "dav-2201": 0.0},
    ),
    Probe(
        "H7",
        "mul_add_dst",
        lambda: {
            "dst": np.array([-(1 + 2.0**-11)], np.float32),
            "x": np.array([1 + 2.0**-12], np.float32),
            "y": np.array([1 + 2.0**-12], np.float32),
        },
        {"fused": 2.0**-24, "unfused": 0.0},
        {"dav-2201": 2.0**-24, "dav-3510": 2.0**-24},
    ),
    Probe(
        "H8",
        "cast_fp16",
        lambda: {"x": np.array([70000], np.float32)},
        {"inf_nan": float("inf"), "saturate": 65504.0},
        {
            "dav-1001": 65504.0,
            "dav-2002": 65504.0,
            "dav-2201": float("inf"),
            "dav-3510": float("inf"),
        },
    ),
    Probe(
        "H9",
        "lm_head",
        _h9,
        {"method 1": True, "method 2": False, "method 3": False},
        {**_every(False), "dav-2201": True},
    ),
    Probe(
        "H10",
        "reduce_sum",
        lambda: {"x": _at(256, _H10)},
        {"method 1": 17.0, "method 2": 16.0, "method 3": 9.0, "sequential": 1.0, "halving": 12.0},
        {"dav-1001": 16.0, "dav-2002": 16.0, "dav-2201": 17.0, "dav-3510": 9.0},
    ),
)


def answer(probe: Probe, arch: str):
    """What this model answers to a probe on ``arch``: a float, or for H9 a bool (equal bits)."""
    given = probe.build()
    if probe.call == "reduce_sum":
        return float(reduce_sum(given["x"], arch))
    if probe.call == "mul_add_dst":
        return float(mul_add_dst(**given, fused=True)[0])
    if probe.call == "cast_fp16":
        return float(fp16_to_fp32(fp32_to_fp16(given["x"], overflow=_arch(arch).cast_overflow))[0])
    if probe.call == "lm_head":
        one, two = (
            lm_head(given["hidden"], given["weight"], arch=arch, tile=t) for t in given["tiles"]
        )
        return bool((one == two).all())
    raise ValueError(f"probe {probe.id}: unknown call {probe.call!r}")
