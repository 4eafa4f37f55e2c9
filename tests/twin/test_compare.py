"""Comparisons, selections by their bits, and the scalar unit."""

from __future__ import annotations

import numpy as np
import pytest

from twin.image import Lines, assert_only, get, put, random_image
from workbench.errors import TwinFault

MODES = {
    "LT": np.less,
    "GT": np.greater,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GE": np.greater_equal,
    "NE": np.not_equal,
}
TYPES = {"half": np.float16, "float": np.float32}
A, B, M = 8192, 16384, 24576  # where the sources and the bits of a selection are


def scalars(kind: str) -> str:
    return f"{kind}(0.25f)"


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    table = {}
    for kind in TYPES:
        a, b = f"UB({kind}, {A})", f"UB({kind}, {B})"
        for mode in MODES:
            table[f"{kind} {mode}"] = f"Compare(UB(uint8_t, 0), {a}, {b}, CMPMODE::{mode}, 512);"
            table[f"{kind} {mode} scalar"] = (
                f"CompareScalar(UB(uint8_t, 0), {a}, {scalars(kind)}, CMPMODE::{mode}, 512);"
            )
        table[f"{kind} repeats"] = (
            f"Compare(UB(uint8_t, 0), {a}, {b}, CMPMODE::LT, uint64_t(3), 2, "
            "{1, 2, 1, 8, 16, 8});"
        )
        table[f"{kind} scalar repeats"] = (
            f"Compares(UB(uint8_t, 0), {a}, {scalars(kind)}, CMPMODE::GE, uint64_t(64), 3, "
            "{1, 1, 8, 9});"
        )
        table[f"{kind} register"] = (
            f"Compare({a}, {b}, CMPMODE::GT, uint64_t(64), {{1, 1, 1, 8, 8, 8}}); "
            "GetCmpMask(UB(uint8_t, 0));"
        )
        m, d = f"UB(uint8_t, {M})", f"UB({kind}, 0)"
        for name, mode in (("spr", "CMPMASK_SPR"), ("tensors", "TENSOR_TENSOR_MODE")):
            table[f"{kind} select {name}"] = (
                f"Select({d}, {m}, {a}, {b}, SELMODE::VSEL_{mode}, 300);"
            )
            table[f"{kind} select {name} mask"] = (
                f"Select({d}, {m}, {a}, {b}, SELMODE::VSEL_{mode}, uint64_t(40), 3, "
                "{1, 1, 2, 9, 8, 20});"
            )
        scalar = "SELMODE::VSEL_TENSOR_SCALAR_MODE"
        table[f"{kind} select scalar"] = f"Select({d}, {m}, {a}, {scalars(kind)}, {scalar}, 300);"
        table[f"{kind} select scalar bits"] = (
            f"uint64_t bits[2] = {{0x8000000000000101, 0x3}}; "
            f"Select({d}, {m}, {a}, {scalars(kind)}, {scalar}, bits, 2, {{1, 1, 1, 8, 8, 8}});"
        )
        params = "{1, 1, 1, 8, 8, 8}"
        table[f"{kind} select by register"] = (
            f"SetCmpMask({m}); PipeBarrier<PIPE_V>(); SetVectorMask<{kind}>(64); "
            f"Select<{kind}, SELMODE::VSEL_CMPMASK_SPR>({d}, {a}, {b}, 3, {params}); ResetMask();"
        )
        table[f"{kind} select by address"] = (
            f"UB(int64_t, 32768).SetValue(0, (int64_t){m}.GetPhyAddr()); PipeBarrier<PIPE_ALL>(); "
            f"SetCmpMask(UB(int64_t, 32768)); SetVectorMask<{kind}>(64); "
            f"Select<{kind}, SELMODE::VSEL_TENSOR_TENSOR_MODE>({d}, {a}, {b}, 3, {params}); "
            "ResetMask();"
        )
        table[f"{kind} select scalar by register"] = (
            f"SetCmpMask({b}); SetVectorMask<{kind}>(64); "
            f"Select<{kind}, uint8_t>({d}, {m}, {a}, 3, {params}); ResetMask();"
        )
    table["int32 EQ"] = (
        f"Compare(UB(uint8_t, 0), UB(int32_t, {A}), UB(int32_t, {B}), CMPMODE::EQ, 512);"
    )
    table["int32 LT"] = table["int32 EQ"].replace("EQ", "LT")
    table["tail"] = f"Compare(UB(uint8_t, 0), UB(half, {A}), UB(half, {B}), CMPMODE::EQ, 130);"
    table["tail good"] = table["tail"].replace("130", "128")
    table["scalar mode"] = (
        f"Select(UB(half, 0), UB(uint8_t, {M}), UB(half, {A}), UB(half, {B}), "
        "SELMODE::VSEL_TENSOR_SCALAR_MODE, 128);"
    )
    table["address"] = (
        "SetCmpMask(UB(int64_t, 32768)); Select<half, SELMODE::VSEL_TENSOR_TENSOR_MODE>("
        f"UB(half, 0), UB(half, {A}), UB(half, {B}), 1, {{1, 1, 1, 8, 8, 8}});"
    )
    table["scalar unit"] = """
        out[0] = ScalarGetCountOfValue<1>(0xf0f1); out[1] = GetBitCount<0>(0xf0f1);
        out[2] = ScalarCountLeadingZero(0x0fffffffffffffff); out[3] = CountLeadingZero(0);
        out[4] = CountBitsCntSameAsSignBit(0x0f00000000000000);
        out[5] = CountBitsCntSameAsSignBit(-1); out[6] = CountBitsCntSameAsSignBit(-256);
        out[7] = ScalarGetSFFValue<1>(0x28); out[8] = GetSFFValue<0>(0x7);
        out[9] = GetSFFValue<1>(0);
        out[10] = uint64_t(int64_t(ScalarCast<float, int32_t, RoundMode::CAST_ROUND>(2.5f)));
        out[11] = uint64_t(int64_t(Cast<float, int32_t, RoundMode::CAST_FLOOR>(-2.5f)));
        out[12] = ScalarCast<float, half, RoundMode::CAST_ODD>(1.0001f).bits;
        out[13] = ToBfloat16(1.0f).bits; out[14] = uint64_t(ToFloat(ToBfloat16(3.0f)));
        out[15] = CeilDivision(10, 3) * 100 + AlignUp(33, 32);
    """
    return Lines(tmp_path_factory.mktemp("compare"), table)


def values(kind: str):
    """Two sources: normal numbers, equal ones, NaN, infinities, both zeros."""
    rng = np.random.default_rng(1)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 0.25, 1e-7, -0.25], TYPES[kind])
    a, b = rng.normal(size=(2, 2048)).astype(TYPES[kind])
    a[:64], b[:64] = np.repeat(special, 8), np.tile(special, 8)
    b[100:200] = a[100:200]
    image = put(put(random_image(2), A, a), B, b)
    return image, a, b


def packed(bits: np.ndarray) -> np.ndarray:
    return np.packbits(bits, bitorder="little")


@pytest.mark.parametrize("kind", TYPES)
def test_compare(lines, kind):
    image, a, b = values(kind)
    seen = set()
    for mode, holds in MODES.items():
        want = packed(holds(a[:512], b[:512]))
        seen.add(want.tobytes())
        assert_only(image, lines(f"{kind} {mode}", image)[0], {0: want})
        want = packed(holds(a[:512], TYPES[kind](0.25)))
        assert_only(image, lines(f"{kind} {mode} scalar", image)[0], {0: want})
    assert len(seen) == 6  # control: the sources tell the modes apart


@pytest.mark.parametrize("kind", TYPES)
def test_compare_ignores_its_mask(lines, kind):
    image, a, b = values(kind)
    lanes = 256 // a.itemsize
    per = 32 // a.itemsize
    index = (np.arange(lanes) // per * 2 * per + np.arange(lanes) % per)[None] + [[0], [16 * per]]
    want = packed((a[index] < b[: 2 * lanes].reshape(2, lanes)).ravel())
    assert_only(image, lines(f"{kind} repeats", image)[0], {0: want})
    rows = np.concatenate([a[r * 9 * per :][:lanes] >= TYPES[kind](0.25) for r in range(3)])
    assert_only(image, lines(f"{kind} scalar repeats", image)[0], {0: packed(rows)})


@pytest.mark.parametrize("kind", TYPES)
def test_compare_into_the_register(lines, kind):
    image, a, b = values(kind)
    after = lines(f"{kind} register", image)[0]
    assert np.array_equal(after[:8], packed(a[:64] > b[:64]))
    assert np.array_equal(after[16:], image[16:])


@pytest.mark.parametrize("kind", TYPES)
def test_select(lines, kind):
    image, a, _ = values(kind)
    raw = np.uint16 if kind == "half" else np.uint32
    lanes, per = 256 // a.itemsize, 32 // a.itemsize
    x, y = (get(image, at, raw, 2048) for at in (A, B))  # bits: a NaN keeps its payload
    bits = np.unpackbits(image[M : M + 1024], bitorder="little").astype(bool)
    scalar = np.array(0.25, TYPES[kind]).view(raw)
    want = np.where(bits[:300], x[:300], y[:300])
    assert_only(image, lines(f"{kind} select tensors", image)[0], {0: want})
    same = np.resize(bits[:lanes], 300)
    first = np.where(same, x[:300], y[:300])
    assert_only(image, lines(f"{kind} select spr", image)[0], {0: first})
    assert not np.array_equal(want, first)  # control: the modes differ on these bits
    want = np.where(bits[:300], x[:300], scalar)
    assert_only(image, lines(f"{kind} select scalar", image)[0], {0: want})
    for name in ("spr", "tensors"):
        rows = {}
        for r in range(3):
            row = bits[:lanes] if name == "spr" else bits[r * lanes :][:lanes]
            src1 = y[r * 20 * per + np.arange(40) // per * 2 * per + np.arange(40) % per]
            rows[r * 9 * 32] = np.where(row[:40], x[r * 8 * per :][:40], src1)
        assert_only(image, lines(f"{kind} select {name} mask", image)[0], rows)
    low, high = 0x8000000000000101, 0x3
    live = [i for i in range(lanes) if (low | high << 64) >> i & 1]
    rows = {}
    for r in range(2):
        for i in live:
            at = r * lanes + i
            rows[at * a.itemsize] = np.where(bits[at : at + 1], x[at : at + 1], scalar)
    assert_only(image, lines(f"{kind} select scalar bits", image)[0], rows)


@pytest.mark.parametrize("kind", TYPES)
def test_select_by_the_register(lines, kind):
    image, a, _ = values(kind)
    raw = np.uint16 if kind == "half" else np.uint32
    lanes = 256 // a.itemsize
    x, y = (get(image, at, raw, 2048) for at in (A, B))
    bits = np.unpackbits(image[M : M + 1024], bitorder="little").astype(bool)

    def rows(choose):
        return {r * 256: choose(r, slice(r * lanes, r * lanes + 64)) for r in range(3)}

    got = lines(f"{kind} select by register", image)[0]
    assert_only(image, got, rows(lambda r, s: np.where(bits[:64], x[s], y[s])))
    got = lines(f"{kind} select by address", image)[0]
    got[32768:32776] = image[32768:32776]
    assert_only(image, got, rows(lambda r, s: np.where(bits[s], x[s], y[s])))
    got = lines(f"{kind} select scalar by register", image)[0]
    assert_only(image, got, rows(lambda r, s: np.where(bits[s], x[s], y[0])))


def test_int32_compares_for_equality_only(lines):
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 4, (2, 512), dtype=np.int32)
    image = put(put(random_image(3), A, a), B, b)
    assert_only(image, lines("int32 EQ", image)[0], {0: packed(a == b)})
    with pytest.raises(TwinFault, match="EQ only") as caught:
        lines("int32 LT", image)
    assert caught.value.code == "compare-mode"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("tail", "compare-count", "whole repeats"),
        ("scalar mode", "select-mode", "VSEL_TENSOR_SCALAR_MODE"),
        ("address", "out-of-bounds", "selMask"),
    ],
)
def test_faults(lines, line, code, words):
    image = put(random_image(4), 32768, np.full(4, 0x7FFFFFFFFFFF0000, np.int64))
    with pytest.raises(TwinFault, match=words) as caught:
        lines(line, image)
    assert caught.value.code == code
    lines("tail good", image)


def test_scalar_unit(lines):
    z = lines("scalar unit", random_image(5))[2]
    want = [9, 55, 4, 64, 3, -1, 55, 3, 3, -1, 3, -3, 0x3C01, 0x3F80, 3, 464]
    assert z.tolist() == want
