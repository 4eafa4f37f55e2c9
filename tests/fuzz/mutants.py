"""Models with one mistake each, every one of which the harness must report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest import mock

import numpy as np
from models.vector import apply, casts, elementwise, floats, reduce


def _patched(owner, name: str, value) -> Callable:
    def model(*args):
        with mock.patch.object(owner, name, value):
            return apply(*args)

    return model


def _halving(x, on, levels, kind, s):
    """A tree that adds lane i and lane i + n/2."""
    x = x if on is None else np.where(on, x, x.dtype.type(0))
    for _ in range(levels):
        half = x.shape[-1] // 2
        x = reduce._node(x[..., :half], x[..., half:], kind, s)
    return x, None


def _flush(x, kind, saturate, finish=floats.finish):
    """Results that are subnormal become zeros."""
    x = finish(x, kind, saturate)
    if kind == "half":
        return np.where(x & 0x7C00 == 0, x & 0x8000, x)
    if kind == "float":
        return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)
    return x


def _truncated(x, mode):
    return np.trunc(x)


def _last_of_equals(x, on, largest):
    sign = x if largest else -x
    sign = sign if on is None else np.where(on, sign, -np.inf)
    return sign.shape[-1] - 1 - np.argmax(sign[..., ::-1], axis=-1)


def _unfused(i, ub, arch, gm):
    from models.vector import settings

    s = settings(arch) if isinstance(arch, str) else arch
    return apply(i, ub, replace(s, fused=False), gm)


def _one_byte_more(i, ub, arch, gm):
    """Writes one byte behind everything that changed."""
    out, after, facts = apply(i, ub, arch, gm)
    changed = np.flatnonzero(out != ub)
    if len(changed) and changed[-1] + 1 < len(out):
        out[changed[-1] + 1] ^= 1
    return out, after, facts


def _payload(x):
    """NaN keeps its bits."""
    return x


def _ignores_the_mask(i, ub, arch, gm):
    if i.form == "bits":
        i = replace(i, mask=((1 << 64) - 1, (1 << 64) - 1))
    return apply(i, ub, arch, gm)


def _saturates(op, a, b, kind, s, binary=elementwise.binary):
    return binary(op, a, b, kind, replace(s, integers="saturate"))


def _any(case) -> bool:
    return True


# name -> (model, instructions that must be reported, the cases of those in which it shows)
MUTANTS: dict[str, tuple[Callable, str, Callable]] = {
    "halving": (_patched(reduce, "fold", _halving), "WholeReduceSum,ReduceSum", _any),
    "flush": (_patched(floats, "finish", _flush), "Mul,Div,Muls", _any),
    "truncate": (
        _patched(casts, "to_integer", _truncated),
        "Cast",
        lambda case: "int" in case.types[0] and case.variant in ("RINT", "CEIL", "ROUND"),
    ),
    "last": (_patched(reduce, "_best", _last_of_equals), "WholeReduceMax,ReduceMin", _any),
    "unfused": (_unfused, "MulAddDst,Axpy", lambda case: case.types[0] == case.types[1]),
    "past-the-end": (_one_byte_more, "Add,Copy,Gather,Sort32", _any),
    "nan": (_patched(floats, "canonical", _payload), "Add,Sqrt", lambda c: "float" in c.types),
    "mask": (
        _ignores_the_mask,
        "Relu,Duplicate,BlockReduceSum",
        lambda case: case.form == "bits",
    ),
    "saturate": (
        _patched(elementwise, "binary", _saturates),
        "Add,Sub,Muls",
        lambda case: "int" in case.types[0],
    ),
}
