"""Hand-computed cases of arithmetic, logic, shifts, casts, compares and selections."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from .. import ascend_numpy as old
from . import Instr, Unsupported, apply, casts, settings
from .core import NUMPY

SIZE = 8192


def memory(*parts: tuple[int, np.ndarray], fill: int = 0xA5) -> np.ndarray:
    ub = np.full(SIZE, fill, np.uint8)
    for offset, values in parts:
        raw = np.ascontiguousarray(values).view(np.uint8).ravel()
        ub[offset : offset + len(raw)] = raw
    return ub


def half(*values: float) -> np.ndarray:
    return np.array(values, np.float16).view(np.uint16)


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def read(ub: np.ndarray, kind: str, count: int, offset: int = 0) -> np.ndarray:
    return ub[offset:].view(NUMPY[kind])[:count]


def bits(x: np.ndarray) -> list[int]:
    return x.view(f"u{x.dtype.itemsize}").tolist()


def scalar(values: np.ndarray) -> int:
    return int.from_bytes(values.tobytes(), "little")


def count(op: str, kind: str, *sources: np.ndarray, dst=None, arch="dav-2201", **more):
    """The first elements after the count form, sources at 1024, 2048, 3072."""
    places = [1024 * (n + 1) for n in range(len(sources))]
    parts = list(zip(places, sources, strict=True))
    parts += [] if dst is None else [(0, dst)]
    types = more.pop("types", (kind, kind))
    n = len(sources[0])
    i = Instr(op, types, 0, tuple(places), "count", count=n, **more)
    out, _, _ = apply(i, memory(*parts), arch)
    assert (out[n * np.dtype(NUMPY[types[0]]).itemsize : 1024] == 0xA5).all(), "past the count"
    return read(out, types[0], n)


def test_half_sum_rounds_once():
    # 2048 + 1 is a tie to even; 2048 + 3 = 2051 is nearer to 2052; 65504 + 16 overflows.
    got = count("Add", "half", half(2048, 2048, 65504, 6e-8), half(1, 3, 16, 6e-8))
    assert bits(got) == bits(np.array([0x6800, 0x6802, 0x7C00, 0x0002], np.uint16))
    got = count("Add", "half", half(65504, 65504), half(16, 15), arch="dav-2002")
    assert bits(got) == [0x7BFF, 0x7BFF]


def test_specials():
    nan = np.array([0xFFC12345, 0x7F800001], np.uint32).view(np.float32)
    got = count("Add", "float", np.concatenate([nan, f32(np.inf)]), f32(1, 1, -np.inf))
    assert bits(got) == [0x7FC00000] * 3
    got = count("Max", "float", f32(0.0, -0.0, np.nan, 1), f32(-0.0, 0.0, 1, np.nan))
    assert bits(got) == [0, 0, 0x7FC00000, 0x7FC00000]
    got = count("Min", "float", f32(0.0, -0.0, 1), f32(-0.0, 0.0, 2))
    assert bits(got) == [0x80000000, 0x80000000, 0x3F800000]
    assert bits(count("Relu", "float", f32(-0.0, -1, 2, np.nan))) == [0, 0, 0x40000000, 0x7FC00000]
    assert bits(count("Abs", "half", half(-2, -0.0, np.nan))) == [0x4000, 0, 0x7E00]
    got = count("Rsqrt", "float", f32(4, 0, -1, np.inf))
    assert bits(got) == [*bits(f32(0.5, np.inf)), 0x7FC00000, 0]
    got = count("Ln", "float", f32(1, 0, -1, np.inf))
    assert bits(got) == [*bits(f32(0, -np.inf)), 0x7FC00000, *bits(f32(np.inf))]
    got = count("Exp", "float", f32(0, -200, 200, 1))
    assert bits(got) == bits(f32(1, 0, np.inf, np.e))
    tiny = np.array([1, 2], np.uint32).view(np.float32)
    assert bits(count("Add", "float", tiny, tiny)) == [2, 4], "subnormals are kept"


def test_integers_wrap_and_can_saturate():
    a, b = np.array([32767, -32768, 300], np.int16), np.array([1, -1, 300], np.int16)
    assert count("Add", "int16_t", a, b).tolist() == [-32768, 32767, 600]
    assert count("Mul", "int16_t", a, b).tolist() == [32767, -32768, 90000 - 65536]
    s = replace(settings("dav-2201"), integers="saturate")
    assert count("Add", "int16_t", a, b, arch=s).tolist() == [32767, -32768, 600]
    assert count("Mul", "int16_t", a, b, arch=s).tolist() == [32767, 32767, 32767]


def test_shifts():
    # The documents' example: 17 >> 5 with rounding is 1 (bit 4, "the fifth", is set).
    x = np.array([17, 15, -1, 0b0101010], np.int16)
    more = {"scalar": 5, "extra": {"round": True}}
    assert count("ShiftRight", "int16_t", x, **more).tolist() == [1, 0, 0, 1]
    assert count("ShiftRight", "int16_t", x, scalar=5).tolist() == [0, 0, -1, 1]
    u = np.array([0b1010101010101010], np.uint16)
    assert bits(count("ShiftRight", "uint16_t", u, scalar=1)) == [0b0101010101010101]
    s = u.view(np.int16)
    assert bits(count("ShiftRight", "int16_t", s, scalar=3)) == [0b1111010101010101]
    assert count("ShiftRight", "int16_t", s, scalar=16).tolist() == [-1]
    assert bits(count("ShiftLeft", "uint16_t", u, scalar=16)) == [0]
    assert bits(count("ShiftLeft", "uint16_t", u, scalar=1)) == [0b0101010101010100]


def test_fused():
    x = f32(1 + 2.0**-12)
    got = count("MulAddDst", "float", x, x, dst=f32(-(1 + 2.0**-11)))
    assert got[0] == np.float32(2.0**-24), "probe H7"
    unfused = replace(settings("dav-2201"), fused=False)
    assert count("MulAddDst", "float", x, x, dst=f32(-(1 + 2.0**-11)), arch=unfused)[0] == 0
    got = count("FusedMulAdd", "half", half(3, 3), half(1, -20), dst=half(2, 5))
    assert bits(got) == bits(half(7, -5))
    got = count("FusedMulAddRelu", "half", half(3, 3), half(1, -20), dst=half(2, 5))
    assert bits(got) == bits(half(7, 0))
    got = count(
        "Axpy",
        "float",
        half(2, 4),
        dst=f32(1, 1),
        types=("float", "half"),
        scalar=scalar(half(0.5)),
    )
    assert bits(got) == bits(f32(2, 3))


def test_mask_strides_and_repeats():
    x = np.arange(512, dtype=np.float32)
    i = Instr(
        "Adds",
        ("float", "float"),
        0,
        (4096,),
        "bits",
        mask=(0b1001, 0),
        repeat=2,
        dst_blk=2,
        src_blk=(1, 1),
        dst_rep=16,
        src_rep=(8, 8),
        scalar=scalar(f32(1)),
    )
    out, _, _ = apply(i, memory((4096, x)))
    want = memory((4096, x))
    w = want.view(np.float32)
    w[0], w[3], w[128], w[131] = 1, 4, 65, 68
    np.testing.assert_array_equal(out, want)
    # Mixed widths: 64 lanes; half blocks hold 16 of them, float blocks 8.
    h = np.arange(256).astype(np.float16).view(np.uint16)
    i = Instr(
        "Cast",
        ("float", "half"),
        0,
        (4096,),
        "mask",
        mask=20,
        repeat=2,
        dst_blk=1,
        src_blk=(2,),
        dst_rep=8,
        src_rep=(4,),
        mode="NONE",
    )
    out, _, _ = apply(i, memory((4096, h)))
    got = read(out, "float", 128)
    assert got[:20].tolist() == [*range(16), 32, 33, 34, 35]
    assert got[64:84].tolist() == [*range(64, 80), 96, 97, 98, 99]
    # Counter mode: 70 elements, the second repeat ends after 6.
    i = Instr(
        "Adds", ("float", "float"), 0, (4096,), "counter", count=70, repeat=9, scalar=scalar(f32(1))
    )
    out, _, _ = apply(i, memory((4096, x)))
    assert read(out, "float", 70).tolist() == list(range(1, 71))
    assert (out[280:4096] == 0xA5).all()


def test_accumulation_in_place():
    """dst = src0 with stride 0: the repeats add up."""
    x = np.ones(256, np.float32)
    i = Instr(
        "Add",
        ("float", "float"),
        0,
        (0, 4096),
        "mask",
        mask=64,
        repeat=4,
        dst_rep=0,
        src_rep=(0, 8),
    )
    out, _, _ = apply(i, memory((0, np.zeros(64, np.float32)), (4096, x)))
    assert read(out, "float", 64).tolist() == [4.0] * 64


def test_what_does_not_exist_is_refused():
    ub = memory()
    for i, arch in (
        (Instr("Div", ("int16_t", "int16_t"), 0, (64, 128), count=1), "dav-2201"),
        (Instr("Neg", ("half", "half"), 0, (64,), count=1), "dav-2201"),
        (Instr("Cast", ("bfloat16_t", "float"), 0, (64,), count=1, mode="ODD"), "dav-2201"),
        (Instr("Cast", ("bfloat16_t", "float"), 0, (64,), count=1, mode="RINT"), "dav-2002"),
        (Instr("Compare", ("uint8_t", "int32_t"), 0, (256, 512), count=64, mode="LT"), "dav-2201"),
    ):
        with pytest.raises(Unsupported):
            apply(i, ub, arch)


# --- casts ----------------------------------------------------------------------------------------


def cast(dst: str, src: str, mode: str, values: np.ndarray, **more) -> np.ndarray:
    return count("Cast", dst, values, types=(dst, src), mode=mode, **more)


def test_casts_of_the_documents():
    for mode, want in {"RINT": 0, "FLOOR": 0, "CEIL": 1, "ROUND": 1, "TRUNC": 0}.items():
        assert cast("float", "float", mode, f32(0.5)).tolist() == [want]
    big = f32(2.0**22 + 0.5)
    for mode, up in {"RINT": 0, "FLOOR": 0, "CEIL": 1, "ROUND": 1, "TRUNC": 0}.items():
        assert cast("int32_t", "float", mode, big).tolist() == [2**22 + up]
        assert cast("int64_t", "float", mode, big).tolist() == [2**22 + up]
        assert cast("int16_t", "float", mode, big).tolist() == [2**15 - 1]
    x = np.array([2**25 + 3], np.int32)
    for mode, want in {"RINT": 4, "FLOOR": 0, "CEIL": 4, "ROUND": 4, "TRUNC": 0}.items():
        assert cast("float", "int32_t", mode, x).tolist() == [2**25 + want]
    x = np.array([2**12 + 2], np.int16)
    for mode, want in {"RINT": 0, "FLOOR": 0, "CEIL": 4, "ROUND": 4, "TRUNC": 0}.items():
        got = old.fp16_to_fp32(cast("half", "int16_t", mode, x))
        assert got.tolist() == [2**12 + want]
    assert cast("int16_t", "int32_t", "NONE", np.array([2**31 - 1], np.int32)).tolist() == [32767]
    assert cast("int64_t", "int32_t", "NONE", np.array([-5], np.int32)).tolist() == [-5]
    assert cast("uint8_t", "half", "RINT", half(1.75, 2.5, 300)).tolist() == [2, 2, 255]
    got = cast(
        "half",
        "int32_t",
        "NONE",
        np.array([70000, -3], np.int32),
        extra={"scale": scalar(half(0.5))},
    )
    assert bits(got) == bits(half(35008, -1.5))


def test_cast_extremes():
    x = f32(np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 2.0**63)
    top, low = 2**31 - 1, -(2**31)
    assert cast("int32_t", "float", "RINT", x).tolist() == [0, top, low, top, low, top]
    got = cast("int64_t", "float", "RINT", x).tolist()
    assert got == [0, 2**63 - 1, -(2**63), 2**31, -(2**31), 2**63 - 1]
    y = np.array([2**63 - 1, -(2**63), 2**24 + 1, 0, -1], np.int64)
    assert cast("float", "int64_t", "RINT", y).tolist() == [2.0**63, -(2.0**63), 2.0**24, 0, -1]
    got = cast("float", "int64_t", "TRUNC", y).tolist()
    assert got == [2.0**63 - 2.0**39, -(2.0**63), 2.0**24, 0, -1]


@pytest.mark.parametrize("mode", casts.FIVE)
def test_integers_to_float_against_fractions(mode):
    rng = np.random.default_rng(5)
    x = (rng.integers(-(2**63), 2**63, 3000) >> rng.integers(0, 63, 3000)).astype(np.int64)
    got = casts.integer_to_float(x, mode)
    for value, result in zip(x.tolist(), got.tolist(), strict=True):
        exact, result = value, int(result)
        unit = max(1, 1 << max(abs(exact).bit_length() - 24, 0))
        error = result - exact
        assert abs(error) < unit or (abs(error) == 0)
        if mode == "FLOOR":
            assert error <= 0
        elif mode == "CEIL":
            assert error >= 0
        elif mode == "TRUNC":
            assert abs(result) <= abs(exact)
        else:
            assert 2 * abs(error) <= unit
            if 2 * abs(error) == unit and error:
                tie = abs(result) > abs(exact) if mode == "ROUND" else result // unit % 2 == 0
                assert tie


def test_int4_shares_bytes():
    # Nibbles: the first element lies in the low half; a neighbour that is not written stays.
    i = Instr("Cast", ("int4b_t", "half"), 0, (1024,), count=3, mode="RINT")
    out, _, _ = apply(i, memory((1024, half(1, -2, 100)), fill=0xA5))
    assert out[:2].tolist() == [0xE1, 0xA7]
    i = Instr("Cast", ("half", "int4b_t"), 0, (1024,), count=4, mode="NONE")
    out, _, _ = apply(i, memory((1024, np.array([0xE1, 0x87], np.uint8))))
    assert bits(read(out, "half", 4)) == bits(half(1, -2, 7, -8))


def test_relatives_of_cast():
    got = count(
        "AddReluCast", "int8_t", half(100, -5, 2.5), half(100, 1, 0), types=("int8_t", "half")
    )
    assert got.tolist() == [127, 0, 2]
    got = count(
        "SubReluCast",
        "int8_t",
        np.array([300, -300], np.int16),
        np.array([1, 1], np.int16),
        types=("int8_t", "int16_t"),
    )
    assert got.tolist() == [127, 0]
    got = count("MulCast", "int8_t", half(1, -2, 3), half(1, 3, -4), types=("int8_t", "half"))
    assert got.tolist() == [1, -6, -12]
    got = count(
        "AddDeqRelu",
        "half",
        np.array([3, -3], np.int32),
        np.array([1, 1], np.int32),
        types=("half", "int32_t"),
        extra={"scale": scalar(half(2))},
    )
    assert bits(got) == bits(half(8, 0))
    x = np.arange(-16, 16, dtype=np.int16)
    extra = {"scale": scalar(f32(2)), "offset": 1, "signed": True, "half_block": True}
    i = Instr("CastDeq", ("int8_t", "int16_t"), 0, (1024,), count=32, extra=extra)
    out, _, _ = apply(i, memory((1024, x)))
    assert out[:16].view(np.int8).tolist() == [2 * v + 1 for v in range(-16, 0)]
    assert out[32:48].view(np.int8).tolist() == [2 * v + 1 for v in range(16)]
    assert (out[16:32] == 0xA5).all() and (out[48:64] == 0xA5).all()


# --- compare, select ------------------------------------------------------------------------------


def test_compare_writes_bits():
    a, b = np.zeros(64, np.float32), np.zeros(64, np.float32)
    a[[0, 9]], b[1] = 1, np.nan
    i = Instr("Compare", ("uint8_t", "float"), 0, (1024, 2048), count=64, mode="GT")
    out, _, _ = apply(i, memory((1024, a), (2048, b)))
    assert out[:9].tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0xA5]
    i = replace(i, mode="NE")
    out, _, _ = apply(i, memory((1024, a), (2048, b)))
    assert out[:2].tolist() == [3, 2]
    with pytest.raises(ValueError, match="256"):
        apply(replace(i, count=63), memory())


def test_the_mask_of_a_compare_has_no_effect():
    x = np.arange(128).astype(np.float16).view(np.uint16)
    i = Instr(
        "CompareScalar",
        ("uint8_t", "half"),
        0,
        (1024,),
        "mask",
        mask=1,
        repeat=1,
        scalar=scalar(half(8)),
        mode="LT",
    )
    out, _, _ = apply(i, memory((1024, x)))
    assert out[:17].tolist() == [255] + [0] * 15 + [0xA5]


def test_select():
    a, b = np.arange(128, dtype=np.float32), -np.arange(128, dtype=np.float32)
    sel = np.zeros(16, np.uint8)
    sel[0], sel[8] = 0b11, 0b100
    parts = ((1024, a), (2048, b), (3072, sel))
    i = Instr(
        "Select",
        ("float", "float"),
        0,
        (3072, 1024, 2048),
        "mask",
        mask=4,
        repeat=2,
        mode="TENSOR_TENSOR",
    )
    out, _, _ = apply(i, memory(*parts))
    assert read(out, "float", 68)[[0, 1, 2, 3, 64, 65, 66, 67]].tolist() == [
        0,
        1,
        -2,
        -3,
        -64,
        -65,
        66,
        -67,
    ]
    out, _, _ = apply(replace(i, mode="CMPMASK"), memory(*parts))
    assert read(out, "float", 68)[64:].tolist() == [64, 65, -66, -67]
    one = Instr(
        "Select",
        ("float", "float"),
        0,
        (3072, 1024),
        count=70,
        mode="TENSOR_SCALAR",
        scalar=scalar(f32(9)),
    )
    out, _, _ = apply(one, memory(*parts))
    got = read(out, "float", 70).tolist()
    assert got[:3] == [0, 1, 9] and got[66] == 66 and got[67] == 9
