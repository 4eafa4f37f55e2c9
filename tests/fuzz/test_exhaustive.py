"""Every value of the 16-bit and 8-bit types through every instruction of one source."""

from __future__ import annotations

import numpy as np
import pytest
from models.vector import Instr, apply, floats
from models.vector.core import NUMPY, SIZE

from . import run as fuzz
from .draw import IMAGE, SCRATCH
from .interpreter import Twin, all_cases

CHUNK = 1024  # values per instruction: the widest result fills the image's first half
SHORT = ("half", "bfloat16_t", "int16_t", "uint16_t", "int8_t", "uint8_t")
CASES = [
    case
    for case in all_cases()
    if case.form == "count"
    and case.group in ("unary", "cast")
    and case.types[1] in SHORT
    and case.types[0] != "int4b_t"
    and case.op not in ("AddReluCast", "SubReluCast", "MulCast")
]


def batch(case) -> tuple[list[Instr], np.ndarray]:
    """Instructions that together read every value of the source's type once."""
    kind = case.types[1]
    width = SIZE[kind]
    values = np.arange(1 << 8 * width).astype(np.uint16 if width == 2 else np.uint8)
    values = values.view(NUMPY[kind])
    chunks = np.array_split(values, max(1, len(values) // CHUNK))
    images = np.full((len(chunks), IMAGE), 0xA5, np.uint8)
    instrs = []
    for image, chunk in zip(images, chunks, strict=True):
        raw = chunk.view(np.uint8)
        image[IMAGE // 2 : IMAGE // 2 + len(raw)] = raw
        mode = case.variant if case.op == "Cast" else ""
        instrs.append(Instr(case.op, case.types, 0, (IMAGE // 2,), count=len(chunk), mode=mode))
    return instrs, images


def differing(executor, case, model=apply) -> int:
    """How many bytes differ."""
    instrs, images = batch(case)
    scratch = np.zeros((len(instrs), SCRATCH), np.uint8)
    out = executor.run([case] * len(instrs), instrs, images, scratch)
    assert out.faults == [None] * len(instrs)
    want = [model(i, image, "dav-2201", gm)[0] for i, image, gm in zip(instrs, images, scratch,
                                                                      strict=True)]  # fmt: skip
    return int((np.stack(want) != out.images).sum())


@pytest.fixture(scope="module")
def twin():
    twin = Twin()
    have = twin.prepare(CASES)
    if not have:
        pytest.fail(f"the twin has none of {len(CASES)} cases: {twin.missing[CASES[0].name]}")
    return twin


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_value(twin, case):
    if case.name in twin.missing:
        pytest.fail(twin.missing[case.name])
    assert differing(twin, case) == 0


def test_one_wrong_value_is_seen(monkeypatch):
    """Control: Exp of one half is one ulp off."""
    rounded = floats.rounded

    def off(name, x, kind):
        y = rounded(name, x, kind)
        return np.where(x == 1.5, np.nextafter(y.astype(np.float16), np.float16(99)), y)

    case = next(case for case in CASES if case.op == "Exp")
    stand = fuzz.Stand()
    monkeypatch.setattr(floats, "rounded", off)
    want = differing(stand, case, apply)
    assert want == 0
    plain = fuzz.Stand(lambda *args: _with(rounded, args))
    assert differing(plain, case) == 1


def _with(rounded, args):
    keep, floats.rounded = floats.rounded, rounded
    try:
        return apply(*args)
    finally:
        floats.rounded = keep
