"""Sort32, MrgSort, Extract; RpSort16, ProposalConcat and ProposalExtract (dav-1001, dav-2002)."""

from __future__ import annotations

import numpy as np

from . import floats
from .core import Group, Instr, Settings, Unsupported, view

PAIR = 8  # bytes of (score, index), for half as well


def _floats(i: Instr) -> str:
    kind = i.types[0]
    if kind not in ("half", "float"):
        raise Unsupported(f"{i.op} does not take {kind}")
    return kind


def _not_nan(score: np.ndarray, op: str) -> np.ndarray:
    if np.isnan(score).any():
        raise ValueError(f"{op}: the place of a NaN is not documented")
    return score


def _sort32(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Per repeat 32 (score, index), largest first, equal scores in their order.

    srcs: (score, index). The two bytes between a half and its index are reserved: ignored.
    """
    kind = _floats(i)
    if s.arch in ("dav-1001", "dav-2002"):
        raise Unsupported(f"{s.arch} has no Sort32")
    n = 32 * i.repeat
    raw = view(ub, i.srcs[0], kind)[:n].reshape(-1, 32)
    index = view(ub, i.srcs[1], "uint32_t")[:n].reshape(-1, 32)
    order = np.argsort(-_not_nan(floats.load(raw, kind), "Sort32"), axis=1, kind="stable")
    raw, index = np.take_along_axis(raw, order, 1), np.take_along_axis(index, order, 1)
    out = ub[i.dst : i.dst + n * PAIR].reshape(n, PAIR)
    width = raw.dtype.itemsize
    out[:, :width] = raw.reshape(-1, 1).view(np.uint8)
    out[:, 4:] = index.reshape(-1, 1).view(np.uint8)
    if kind == "float":
        return {}
    gaps = i.dst + PAIR * np.arange(n)
    return {"ignore": [(int(g) + 2, int(g) + 4) for g in gaps]}


def _scores(queue: np.ndarray, kind: str, op: str) -> np.ndarray:
    width = 2 if kind == "half" else 4
    raw = np.ascontiguousarray(queue[:, :width]).view(np.uint16 if kind == "half" else np.float32)
    return _not_nan(floats.load(raw.ravel(), kind), op)


def _merge(queues: list[np.ndarray], kind: str, suspend: bool) -> tuple[np.ndarray, list[int]]:
    """Sorted queues [n, 8] -> (merged [m, 8], elements taken of each). Ties: the earlier queue."""
    number = np.concatenate([np.full(len(q), n) for n, q in enumerate(queues)])
    together = np.concatenate(queues)
    order = np.argsort(-_scores(together, kind, "MrgSort"), kind="stable")
    taken = number[order]
    if suspend:  # stop when one queue has given its last element
        ends = [np.flatnonzero(taken == n)[-1] for n, q in enumerate(queues) if len(q)]
        order = order[: min(ends) + 1]
        taken = number[order]
    return together[order], [int((taken == n).sum()) for n in range(len(queues))]


def _mrg_sort(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """2 .. 4 queues of pairs, each sorted, into one. srcs: the queues.

    extra: lengths (pairs), suspend; repeat > 1 needs four equal queues one after another. A queue
    that is not sorted has no documented result: the caller sees to it.
    """
    kind = _floats(i)
    lengths, suspend = i.extra["lengths"], i.extra.get("suspend", False)
    if not 2 <= len(i.srcs) <= 4 or len(lengths) != len(i.srcs):
        raise ValueError("MrgSort takes two to four queues, each with its length")
    counts: list[int] = []
    step, out = sum(lengths) * PAIR, i.dst
    for n in range(i.repeat):
        queues = [
            ub[o + n * step : o + n * step + length * PAIR].reshape(length, PAIR).copy()
            for o, length in zip(i.srcs, lengths, strict=True)
        ]
        merged, counts = _merge(queues, kind, suspend)
        ub[out : out + merged.size] = merged.ravel()
        out += step
    return {"sorted": counts}


def _extract(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Pairs -> scores and indices apart, 32 pairs per repeat. dst: scores; extra: index."""
    kind = _floats(i)
    n = 32 * i.repeat
    pairs = ub[i.srcs[0] : i.srcs[0] + n * PAIR].reshape(n, PAIR).copy()
    width = 2 if kind == "half" else 4
    ub[i.dst : i.dst + n * width] = pairs[:, :width].ravel()
    index = i.extra["index"]
    ub[index : index + 4 * n] = pairs[:, 4:].ravel()
    return {}


# --- region proposals: eight halves each, the score in the fifth ----------------------------------


def _old_only(i: Instr, s: Settings) -> None:
    if s.arch not in ("dav-1001", "dav-2002"):
        raise Unsupported(f"{s.arch} has no {i.op}")


def _rp_sort16(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """Per repeat 16 proposals, by score, largest first."""
    _old_only(i, s)
    x = view(ub, i.srcs[0], "half")[: 128 * i.repeat].reshape(i.repeat, 16, 8).copy()
    score = _not_nan(floats.from_half(np.ascontiguousarray(x[:, :, 4])), "RpSort16")
    order = np.argsort(-score, axis=1, kind="stable")
    view(ub, i.dst, "half")[: x.size] = np.take_along_axis(x, order[:, :, None], 1).ravel()
    return {}


def _proposal(i: Instr, ub: np.ndarray, s: Settings) -> dict:
    """ProposalConcat puts element k into a field of proposal k, Extract reads it. extra: field."""
    _old_only(i, s)
    n, part = 16 * i.repeat, i.extra["field"]
    if i.op == "ProposalConcat":
        view(ub, i.dst, "half")[: 8 * n].reshape(n, 8)[:, part] = view(ub, i.srcs[0], "half")[:n]
    else:
        view(ub, i.dst, "half")[:n] = view(ub, i.srcs[0], "half")[: 8 * n].reshape(n, 8)[:, part]
    return {}


GROUP: Group = {
    "Sort32": _sort32,
    "MrgSort": _mrg_sort,
    "Extract": _extract,
    "RpSort16": _rp_sort16,
    "ProposalConcat": _proposal,
    "ProposalExtract": _proposal,
}
