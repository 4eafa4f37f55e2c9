"""Reductions: trees of adjacent pairs, the methods between repeats, maxima with their index.

Numbers are float64 for half and float32 for float. A half node is a sum in double (exact for two
halves) rounded once; in saturation mode it stops at 65504.
"""

from __future__ import annotations

import numpy as np

from . import floats
from .core import BLOCK, SIZE, Group, Instr, Settings, Unsupported, lanes_of, live, table, view

INDEX = {"half": np.uint16, "float": np.uint32}
ORDERS = ("VALUE_INDEX", "INDEX_VALUE", "ONLY_VALUE", "ONLY_INDEX")


def _kind(i: Instr) -> str:
    kind = i.types[0]
    if kind not in INDEX:
        raise Unsupported(f"{i.op} on dav-2201 does not take {kind}")
    return kind


def _node(a: np.ndarray, b: np.ndarray, kind: str, s: Settings) -> np.ndarray:
    total = a + b
    if kind == "half":
        return floats.from_half(floats.to_half(total, s.overflow == "saturate"))
    return total


def fold(x: np.ndarray, on: np.ndarray | None, levels: int, kind: str, s: Settings):
    """``levels`` times adjacent pairs of the last axis. Returns the sums and which are live."""
    if on is not None:
        dead = x.dtype.type(0)
        x = np.where(on, x, dead)
        if s.masked == "zero":
            # The lane counts as +0, but a node with no live lane at all stays unwritten.
            some = on
            for _ in range(levels):
                x = _node(x[..., 0::2], x[..., 1::2], kind, s)
                some = some[..., 0::2] | some[..., 1::2]
            return x, some
        for _ in range(levels):
            a, b, la, lb = x[..., 0::2], x[..., 1::2], on[..., 0::2], on[..., 1::2]
            total = _node(np.where(la & lb, a, dead), np.where(la & lb, b, dead), kind, s)
            x = np.where(la & lb, total, np.where(la, a, np.where(lb, b, dead)))
            on = la | lb
        return x, on
    for _ in range(levels):
        x = _node(x[..., 0::2], x[..., 1::2], kind, s)
    return x, None


def _levels(lanes: int) -> int:
    return lanes.bit_length() - 1


def _store(ub: np.ndarray, index: np.ndarray, offset: int, values, kind: str, written) -> None:
    """Numbers -> elements at ``index`` (from ``offset``) where ``written`` (None: everywhere)."""
    out = view(ub, offset, kind)
    bits = floats.finish(np.asarray(values), kind, False)
    if written is None:
        out[index] = bits
    else:
        out[index[written]] = bits[written]


def _source(i: Instr, ub: np.ndarray, kind: str, s: Settings):
    """The lanes of every repeat as numbers [repeats, lanes] and which take part (None: all)."""
    lanes = lanes_of(SIZE[kind])
    index = table(SIZE[kind], lanes, i.repeat, i.src_blk[0], i.src_rep[0])
    return floats.load(view(ub, i.srcs[0], kind)[index], kind), live(i, lanes)


def _whole_sum(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """WholeReduceSum, RepeatReduceSum: one sum per repeat, dst_rep elements apart."""
    kind = _kind(i)
    x, on = _source(i, ub, kind, s)
    total, some = fold(x, on, _levels(x.shape[1]), kind, s)
    where = np.arange(i.repeat) * i.dst_rep
    _store(ub, where, i.dst, total[:, 0], kind, None if some is None else some[:, 0])
    return {}


def _block_sum(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """One sum per data block, eight per repeat; dst_rep counts eight elements. Empty: -."""
    kind = _kind(i)
    x, on = _source(i, ub, kind, s)
    total, some = fold(x, on, _levels(BLOCK // SIZE[kind]), kind, s)
    where = (np.arange(i.repeat) * i.dst_rep * 8)[:, None] + np.arange(8)
    _store(ub, where, i.dst, total, kind, some)
    return {}


def _pair_sum(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """One sum per pair; dst_rep counts 128 bytes. An empty pair is not written."""
    kind = _kind(i)
    x, on = _source(i, ub, kind, s)
    total, some = fold(x, on, 1, kind, s)
    per = 128 // SIZE[kind]
    where = (np.arange(i.repeat) * i.dst_rep * per)[:, None] + np.arange(per)
    _store(ub, where, i.dst, total, kind, some)
    return {}


# --- ReduceSum ------------------------------------------------------------------------------------


def _flat_repeats(x: np.ndarray, lanes: int):
    """Numbers [n] -> [repeats, lanes] and the live lanes (None where the last repeat is full)."""
    repeats = -(-len(x) // lanes)
    padded = np.zeros(repeats * lanes, x.dtype)
    padded[: len(x)] = x
    on = None
    if repeats * lanes != len(x):
        on = (np.arange(repeats * lanes) < len(x)).reshape(repeats, lanes)
    return padded.reshape(repeats, lanes), on


def _trees(x: np.ndarray, kind: str, s: Settings) -> np.ndarray:
    lanes = lanes_of(SIZE[kind])
    rows, on = _flat_repeats(x, lanes)
    return fold(rows, on, _levels(lanes), kind, s)[0][:, 0]


def tree_of_trees(x: np.ndarray, kind: str, s: Settings) -> np.ndarray:
    """Method 2: passes of trees until one number is left [1]."""
    x = _trees(x, kind, s)
    while len(x) > 1:
        x = _trees(x, kind, s)
    return x


def in_order(x: np.ndarray, kind: str, s: Settings) -> np.ndarray:
    """Method 1: trees, their results accumulated in ascending order [1]."""
    results = _trees(x, kind, s)
    total = x.dtype.type(0) if s.acc_start else results[0]
    for value in results if s.acc_start else results[1:]:
        total = _node(np.array([total]), np.array([value]), kind, s)[0]
    return np.array([total], x.dtype)


def folded(x: np.ndarray, kind: str, s: Settings) -> np.ndarray:
    """Method 3: up to four repeats added lane by lane, then one tree [1]."""
    lanes = lanes_of(SIZE[kind])
    rows, on = _flat_repeats(x, lanes)
    on = np.ones(rows.shape, bool) if on is None else on
    if s.masked == "zero":
        on = np.ones(rows.shape, bool)
    while len(rows) > 1:
        even = len(rows) // 2 * 2
        # One level of the same fold, with the repeats as the axis of the pairs.
        total, some = fold(rows[:even].T, on[:even].T, 1, kind, s)
        rows = np.concatenate([total.T, rows[even:]])
        on = np.concatenate([some.T, on[even:]])
    return fold(rows, on, _levels(lanes), kind, s)[0][:, 0]


def body_and_tail(x: np.ndarray, kind: str, s: Settings) -> np.ndarray:
    """Whole repeats by method 2, the tail on its own, then the two of them [1]."""
    lanes = lanes_of(SIZE[kind])
    whole = len(x) // lanes * lanes
    parts = [tree_of_trees(p, kind, s) for p in (x[:whole], x[whole:]) if len(p)]
    return parts[0] if len(parts) == 1 else _trees(np.concatenate(parts), kind, s)


def _reduce_sum(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """count form, or mask and repeat with src_rep (blocks are adjacent). extra: tmp range."""
    kind = _kind(i)
    ignore = [i.extra["tmp"]] if "tmp" in i.extra else []
    if i.form == "count":
        x = floats.load(view(ub, i.srcs[0], kind)[: i.count], kind)
        if s.count_sum == "sequential":
            total = in_order(x, kind, s)
        elif s.count_sum == "split":
            total = body_and_tail(x, kind, s)
        elif 256 <= i.count * SIZE[kind] <= 1024:
            total = folded(x, kind, s)
        else:
            total = tree_of_trees(x, kind, s)
    else:
        rows, on = _source(i, ub, kind, s)
        first = fold(rows, on, _levels(rows.shape[1]), kind, s)[0][:, 0]
        total = first if len(first) == 1 else tree_of_trees(first, kind, s)
    _store(ub, np.array([0]), i.dst, total, kind, None)
    out = {"ignore": ignore}
    if i.form == "count" and s.count_sum == "sequential":
        out["acc"] = int(view(ub, i.dst, kind)[:1].view(INDEX[kind])[0])
    return out


# --- maxima and minima ----------------------------------------------------------------------------


def _best(x: np.ndarray, on: np.ndarray | None, largest: bool):
    """Position of the extreme along the last axis, the first of equals; NaN wins (*assumed*)."""
    sign = x if largest else -x
    if on is None:
        return np.argmax(sign, axis=-1)
    at = np.argmax(np.where(on, sign, -np.inf), axis=-1)
    # A masked lane can only be picked where every live one is -inf: then the first of those.
    picked = np.take_along_axis(on, at[:, None], 1)[:, 0]
    return np.where(picked, at, np.argmax(on, axis=-1))


def _bits(i: Instr, ub: np.ndarray, kind: str) -> np.ndarray:
    lanes = lanes_of(SIZE[kind])
    index = table(SIZE[kind], lanes, i.repeat, i.src_blk[0], i.src_rep[0])
    return view(ub, i.srcs[0], kind).view(INDEX[kind])[index]


def _whole_best(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """WholeReduceMax, Min: per repeat (value, index in the repeat). mode: one of ``ORDERS``.

    dst_rep counts pairs, elements for ONLY_VALUE, four bytes for ONLY_INDEX (an index of 32 bits).
    """
    kind = _kind(i)
    x, on = _source(i, ub, kind, s)
    raw = _bits(i, ub, kind)
    at = _best(x, on, i.op.endswith("Max"))
    value = np.take_along_axis(raw, at[:, None], 1)[:, 0]
    value = _canonical(value, kind)
    number = np.arange(i.repeat) * i.dst_rep
    if i.mode == "ONLY_INDEX":
        view(ub, i.dst, "uint32_t")[number] = at.astype(np.uint32)
        return {}
    out = view(ub, i.dst, kind).view(INDEX[kind])
    if i.mode == "ONLY_VALUE":
        out[number] = value
        return {}
    first = i.mode != "INDEX_VALUE"
    out[2 * number + (not first)] = value
    out[2 * number + first] = at.astype(INDEX[kind])
    return {}


def _canonical(raw: np.ndarray, kind: str) -> np.ndarray:
    if kind == "half":
        return np.where((raw & 0x7FFF) > 0x7C00, np.uint16(floats.NAN16), raw)
    return np.where((raw & 0x7FFFFFFF) > 0x7F800000, np.uint32(floats.NAN32), raw)


def _block_best(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """BlockReduceMax, Min: the value per data block; an empty block is not written."""
    kind = _kind(i)
    x, on = _source(i, ub, kind, s)
    per = BLOCK // SIZE[kind]
    x, raw = x.reshape(-1, per), _bits(i, ub, kind).reshape(-1, per)
    on = None if on is None else on.reshape(-1, per)
    at = _best(x, on, i.op.endswith("Max"))
    value = _canonical(np.take_along_axis(raw, at[:, None], 1)[:, 0], kind)
    where = ((np.arange(i.repeat) * i.dst_rep * 8)[:, None] + np.arange(8)).ravel()
    out = view(ub, i.dst, kind).view(INDEX[kind])
    keep = slice(None) if on is None else on.any(1)
    out[where[keep]] = value[keep]
    return {}


def _reduce_best(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """ReduceMax, ReduceMin: the extreme of all lanes in dst[0]; extra: index (write it to dst[1]).

    The index counts whole repeats: repeat * lanes + lane. extra: tmp range.
    """
    kind = _kind(i)
    largest = i.op.endswith("Max")
    if i.form == "count":
        raw = view(ub, i.srcs[0], kind).view(INDEX[kind])[: i.count].copy()
        x, on = floats.load(view(ub, i.srcs[0], kind)[: i.count], kind), None
    else:
        x, on = _source(i, ub, kind, s)
        raw = _bits(i, ub, kind).ravel()
        x = x.ravel()
        on = None if on is None else on.ravel()
    at = int(_best(x[None], None if on is None else on[None], largest)[0])
    out = view(ub, i.dst, kind).view(INDEX[kind])
    out[0] = _canonical(raw[at : at + 1], kind)[0]
    ignore = [i.extra["tmp"]] if "tmp" in i.extra else []
    if i.extra.get("index"):
        out[1] = at
    return {"ignore": ignore}


GROUP: Group = {
    "WholeReduceSum": _whole_sum,
    "RepeatReduceSum": _whole_sum,
    "BlockReduceSum": _block_sum,
    "PairReduceSum": _pair_sum,
    "ReduceSum": _reduce_sum,
    "WholeReduceMax": _whole_best,
    "WholeReduceMin": _whole_best,
    "BlockReduceMax": _block_best,
    "BlockReduceMin": _block_best,
    "ReduceMax": _reduce_best,
    "ReduceMin": _reduce_best,
}
