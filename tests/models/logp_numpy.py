"""An independent numpy model of the log-probability kernels, on raw bits.

Written from the order that the head of the kernel states, in array form (all rows of a tile at
once), from the primitives of `ascend_numpy` and the correctly rounded functions of `vector.floats`:
there numpy's double result decides where the whole interval of 2**-48 around it rounds to one fp32
number, and `decimal` with 60 digits where it does not. So nothing is left to a libm.
"""

from __future__ import annotations

import numpy as np

from models import ascend_numpy as model
from models.vector import floats

IGNORED, OUTSIDE, INSIDE = 0, 1, 2


def exp(x: np.ndarray) -> np.ndarray:
    """float32 [...] -> e^x, correctly rounded, NaN canonical."""
    with np.errstate(all="ignore"):
        return model.canonical(floats.rounded("Exp", x, "float").astype(np.float32))


def ln(x: np.ndarray) -> np.ndarray:
    """float32 [...] -> the natural logarithm, correctly rounded, NaN canonical."""
    with np.errstate(all="ignore"):
        return model.canonical(floats.rounded("Ln", x, "float").astype(np.float32))


def sub(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """float32 [...] - float32 [...], rounded once, NaN canonical."""
    return model.add(a, -b)


def kinds(target: np.ndarray, vocab: int, ignore_index: int) -> np.ndarray:
    """int64 [N] -> IGNORED, OUTSIDE or INSIDE [N]; ignore_index wins over an index of the row."""
    inside = np.where((target >= 0) & (target < vocab), INSIDE, OUTSIDE)
    return np.where(target == ignore_index, IGNORED, inside)


def forward(
    logits: np.ndarray,
    target: np.ndarray,
    *,
    dtype: str = "fp32",
    arch: str = "dav-2201",
    tile: int = 4096,
    ignore_index: int = -100,
) -> tuple[np.ndarray, np.ndarray]:
    """logits [N, V] raw bits of `dtype`, target int64 [N] -> (logp, lse) uint32 [N] raw bits."""
    x = model.widen(logits, dtype)
    rows, vocab = x.shape
    largest = model.canonical(x.max(axis=1))  # NaN wins
    total = np.zeros(rows, np.float32)
    for begin in range(0, vocab, tile):
        terms = exp(sub(x[:, begin : begin + tile], largest[:, None]))
        total = model.add(total, model.reduce_sum(terms, arch))
    log = ln(total)
    kind = kinds(target, vocab, ignore_index)
    picked = x[np.arange(rows), np.where(kind == INSIDE, target, 0)]
    logp = sub(sub(picked, largest), log)
    lse = model.add(largest, log)
    return tuple(
        np.choose(kind, [np.uint32(0), np.uint32(model.NAN32), model.bits32(v)])
        for v in (logp, lse)
    )


def grad(
    logits: np.ndarray,
    target: np.ndarray,
    lse: np.ndarray,
    grad_logp: np.ndarray,
    grad_lse: np.ndarray,
    *,
    dtype: str = "fp32",
    ignore_index: int = -100,
    mode: str = "RINT",
) -> np.ndarray:
    """The gradient of logits [N, V]: raw bits of `dtype`; lse, grad_logp, grad_lse float32 [N].

    `mode` is the rounding of the last cast.
    """
    x = model.widen(logits, dtype)
    vocab = x.shape[1]
    kind = kinds(target, vocab, ignore_index)
    p = exp(sub(x, lse[:, None]))
    out = model.mul(p, sub(grad_lse, grad_logp)[:, None])
    at = np.arange(vocab) == np.where(kind == INSIDE, target, -1)[:, None]
    out = np.where(at, model.add(out, np.broadcast_to(grad_logp[:, None], x.shape)), out)
    if dtype == "fp32":
        bits, nan = model.bits32(out), np.uint32(model.NAN32)
    else:
        narrow = {"bf16": model.fp32_to_bf16, "fp16": model.fp32_to_fp16}[dtype]
        bits = narrow(out, mode)
        nan = np.uint16({"bf16": model.NANB16, "fp16": model.NAN16}[dtype])
    return np.choose(kind[:, None], [np.zeros_like(nan), nan, bits])
