"""Fills, gathers and transpositions, byte for byte against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.twin.image import Lines, assert_only, get, put, random_image

IMAGE = random_image(3)
RNG = np.random.default_rng(4)
# Byte offsets of halves, of floats and of data blocks, at 32768 of the image.
OFFSETS2 = (RNG.integers(0, 4096, 1024) * 2).astype(np.uint32)
OFFSETS4 = (RNG.integers(0, 4096, 1024) * 4).astype(np.uint32)
OFFSETS32 = (RNG.integers(0, 256, 1024) * 32).astype(np.uint32)
OFFSETS1 = np.array([0, 4, 6, 8] * 256, np.uint32)  # 6 is no offset of a float
BITS = "uint64_t mask[] = {0x00ff123456789abcull, 0x8000000000000001ull};"
BITS_VALUE = (0x00FF123456789ABC, 0x8000000000000001)

LINES = {
    "brcb half": "Brcb(UB(half, 8192), UB(half, 64), 3, BrcbRepeatParams(2, 17));",
    "brcb float": "Brcb(UB(float, 8192), UB(float, 64), 2, {1, 8});",
    "index float": "CreateVecIndex(UB(float, 0), 2.5f, 100u);",
    "index half": "CreateVecIndex(UB(half, 0), half(-3.0f), 5000u);",
    "index s16 mask": "CreateVecIndex(UB(int16_t, 0), (int16_t)32700, (uint64_t)100, 2, 2, 20);",
    "index s32 bits": "uint64_t mask[] = {0x00ff123456789abcull, 0};"
    "CreateVecIndex(UB(int32_t, 0), (int32_t)5, mask, 2, 1, 8);",
    "index s32 too many bits": BITS + "CreateVecIndex(UB(int32_t, 0), (int32_t)5, mask, 2, 1, 8);",
    "progression": "ArithProgression(UB(int32_t, 0), (int32_t)-7, (int32_t)3, 99);",
    "progression float": "ArithProgression(UB(float, 0), 0.1f, 0.3f, 70);",
    "progression half": "Arange(UB(half, 0), half(0.1f), half(0.3f), 300);",
    "gather half": "Gather(UB(half, 16384), UB(half, 64), UB(uint32_t, 32768), 32u, 200u);",
    "gather float mask": "Gather(UB(float, 16384), UB(float, 0), UB(uint32_t, 32768), 0u,"
    "(uint64_t)33, 3, 9);",
    "gather half bits": BITS + "Gather(UB(half, 16384), UB(half, 0), UB(uint32_t, 32768), 2u,"
    "mask, 2, 8);",
    "gatherb": "Gatherb(UB(uint16_t, 16384), UB(uint16_t, 0), UB(uint32_t, 32768), 3,"
    "GatherRepeatParams(2, 16));",
    "mask 1": "GatherMask(UB(half, 16384), UB(half, 0), 1, false, 0, {1, 3, 8, 0}, out[0]);",
    "mask 2": "GatherMask(UB(half, 16384), UB(half, 0), 2, false, 0, {2, 2, 20, 0}, out[0]);",
    "mask 6": "GatherMask(UB(float, 16384), UB(float, 0), 6, false, 0, {1, 2, 8, 0}, out[0]);",
    "mask 7": "GatherMask(UB(float, 16384), UB(float, 0), 7, true, 70, {1, 2, 12, 0}, out[0]);"
    "out[1] = GetGatherMaskRemainCount();",
    "mask tensor": "GatherMask(UB(float, 16384), UB(float, 0), UB(uint32_t, 32768), true, 70,"
    "{1, 2, 4, 0}, out[0]);",
    "mask tensor normal": "GatherMask(UB(half, 16384), UB(half, 0), UB(uint16_t, 32768), false, 0,"
    "{1, 3, 8, 1}, out[0]);",
    "mask in place": "GatherMask(UB(float, 0), UB(float, 0), 2, false, 0, {1, 4, 8, 0}, out[0]);",
    "transpose": "Transpose(UB(half, 8192), UB(half, 0));",
    "transpose in place": "Transpose(UB(half, 0), UB(half, 0));",
    "nchw": "Transpose(UB(float, 16384), UB(float, 0), UB(uint8_t, 32768),"
    "TransposeParamsExt(2, 3, 4, 6, TransposeType::TRANSPOSE_NCHW2NHWC));",
    "nhwc": "Transpose(UB(int8_t, 16384), UB(int8_t, 0), UB(uint8_t, 32768),"
    "TransposeParamsExt(2, 3, 4, 8, TransposeType::TRANSPOSE_NHWC2NCHW));",
}
# The sixteen rows: 256 bytes apart in src, 96 in dst.
LISTS = (
    "LocalTensor<{0}> dst[16], src[16]; for (int i = 0; i < 16; ++i) {{"
    "src[i] = UB({0}, i * 256); dst[i] = UB({0}, 16384 + i * 96); }}"
)
ADDRESSES = (
    "uint64_t dst[16], src[16]; for (int i = 0; i < 16; ++i) {{ src[i] = UB({0}, i * 256)"
    ".GetPhyAddr(); dst[i] = UB({0}, 16384 + i * 96).GetPhyAddr(); }}"
)
LINES |= {
    "5hd half": LISTS.format("half") + "TransDataTo5HD<half>(dst, src, {false, false, 2, 3, 1});",
    "5hd one": LISTS.format("half") + "TransDataTo5HD<half>(dst, src, {false, false, 1, 3, 1});",
    "5hd float": LISTS.format("float")
    + "TransDataTo5HD<float>(dst, src, {false, false, 2, 48, 2});",
    "5hd s8": LISTS.format("int8_t") + "TransDataTo5HD<int8_t>(dst, src, {true, false, 1, 0, 0});",
    "5hd addresses": ADDRESSES.format("half")
    + "TransDataTo5HD<half>(dst, src, {false, false, 2, 3, 1});",
    "5hd tensor": ADDRESSES.format("half")
    + "for (int i = 0; i < 16; ++i) { UB(uint64_t, 40960).SetValue(i, dst[i]);"
    "UB(uint64_t, 49152).SetValue(i, src[i]); }"
    "TransDataTo5HD<half>(UB(uint64_t, 40960), UB(uint64_t, 49152), {false, false, 2, 3, 1});",
}


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> Lines:
    return Lines(tmp_path_factory.mktemp("gather"), LINES)


def lane(r: int, i: int, blk: int, rep: int, size: int) -> int:
    return (r * rep + i * size // 32 * blk) * 32 + i * size % 32


def test_brcb(lines: Lines) -> None:
    want = {}
    for r in range(3):
        for j in range(8):
            element = get(IMAGE, 64 + (r * 8 + j) * 2, np.uint16, 1)
            want[8192 + (r * 17 + j * 2) * 32] = np.repeat(element, 16)
    assert_only(IMAGE, lines("brcb half", IMAGE)[0], want)
    want = {8192: np.repeat(get(IMAGE, 64, np.uint32, 16), 8)}
    assert_only(IMAGE, lines("brcb float", IMAGE)[0], want)


def test_sequences(lines: Lines) -> None:
    want = np.float32(2.5) + np.arange(100, dtype=np.float32)
    assert_only(IMAGE, lines("index float", IMAGE)[0], {0: want})
    exact = np.arange(5000, dtype=np.float64) - 3
    assert_only(IMAGE, lines("index half", IMAGE)[0], {0: exact.astype(np.float16)})
    index = (32700 + np.arange(256)).astype(np.uint16)  # wraps, as int16_t does
    want = {}
    for r in range(2):
        for i in range(100):
            want[lane(r, i, 2, 20, 2)] = index[r * 128 + i]
    assert_only(IMAGE, lines("index s16 mask", IMAGE)[0], want)
    want = {
        lane(r, i, 1, 8, 4): np.int32(5 + r * 64 + i)
        for r in range(2)
        for i in range(64)
        if BITS_VALUE[0] >> i & 1
    }
    assert_only(IMAGE, lines("index s32 bits", IMAGE)[0], want)
    # A mask of two words is too long for elements of four bytes.
    with pytest.raises(wb.TwinFault, match="a mask beyond the 64 lanes"):
        lines("index s32 too many bits", IMAGE)


def test_progressions(lines: Lines) -> None:
    got = lines("progression", IMAGE)[0]
    assert_only(IMAGE, got, {0: np.arange(99, dtype=np.int32) * 3 - 7})
    i = np.arange(70, dtype=np.float32)
    want = np.float32(0.1) + np.float32(0.3) * i
    assert_only(IMAGE, lines("progression float", IMAGE)[0], {0: want})
    step, first = np.float16(0.3), np.float16(0.1)
    product = (np.float64(step) * np.arange(300)).astype(np.float16)
    want = (np.float64(first) + product.astype(np.float64)).astype(np.float16)
    assert_only(IMAGE, lines("progression half", IMAGE)[0], {0: want})


def test_gather(lines: Lines) -> None:
    image = put(IMAGE, 32768, OFFSETS2)
    want = np.array([get(image, 96 + o, np.uint16, 1)[0] for o in OFFSETS2[:200]])
    assert_only(image, lines("gather half", image)[0], {16384: want})

    image = put(IMAGE, 32768, OFFSETS4)
    want = {}
    for r in range(3):
        for i in range(33):
            want[16384 + lane(r, i, 1, 9, 4)] = get(image, OFFSETS4[r * 64 + i], np.uint32, 1)
    assert_only(image, lines("gather float mask", image)[0], want)

    image = put(IMAGE, 32768, OFFSETS2)
    want = {}
    for r in range(2):
        for i in range(128):
            if BITS_VALUE[i // 64] >> i % 64 & 1:
                at = 16384 + lane(r, i, 1, 8, 2)
                want[at] = get(image, 2 + OFFSETS2[r * 128 + i], np.uint16, 1)
    assert_only(image, lines("gather half bits", image)[0], want)

    image = put(IMAGE, 32768, OFFSETS32)
    want = {}
    for r in range(3):
        for j in range(8):
            want[16384 + (r * 16 + j * 2) * 32] = get(image, OFFSETS32[r * 8 + j], np.uint8, 32)
    assert_only(image, lines("gatherb", image)[0], want)


def test_offsets_that_are_none(lines: Lines) -> None:
    image = put(IMAGE, 32768, OFFSETS1)
    for name in ("gather float mask", "gatherb"):
        with pytest.raises(wb.TwinFault, match="not a multiple") as caught:
            lines(name, image)
        assert (caught.value.kind, caught.value.code) == ("mem", "gather-offset")
    beyond = put(IMAGE, 32768, OFFSETS32)
    for n in (5, 25):  # 25: not among the 24 that are used
        image = put(beyond, 32768 + n * 4, np.uint32([196352]))
        if n == 5:
            with pytest.raises(wb.TwinFault, match="196352 bytes of UB"):
                lines("gatherb", image)
        else:
            lines("gatherb", image)


FIXED = {1: (2, 0), 2: (2, 1), 3: (4, 0), 4: (4, 1), 5: (4, 2), 6: (4, 3), 7: (1, 0)}


def test_gather_mask_of_fixed_patterns(lines: Lines) -> None:
    half, word = IMAGE.view(np.uint16), IMAGE.view(np.uint32)
    ub, _, z = lines("mask 1", IMAGE)
    assert_only(IMAGE, ub, {16384: half[: 3 * 128 : 2]})
    assert z[0] == 192
    ub, _, z = lines("mask 2", IMAGE)
    picked = [half[lane(r, i, 2, 20, 2) // 2] for r in range(2) for i in range(128) if i % 2 == 1]
    assert_only(IMAGE, ub, {16384: np.array(picked)})
    assert z[0] == 128
    ub, _, z = lines("mask 6", IMAGE)
    assert_only(IMAGE, ub, {16384: word[3:128:4]})
    assert z[0] == 32
    ub, _, z = lines("mask 7", IMAGE)  # counted: 70 elements of each of two repeats
    assert_only(IMAGE, ub, {16384: np.r_[word[:70], word[96:166]]})
    assert z[:2].tolist() == [140, 140]
    ub, _, z = lines("mask in place", IMAGE)
    assert_only(IMAGE, ub, {0: word[1:256:2]})


def test_gather_mask_by_a_tensor(lines: Lines) -> None:
    bits = np.unpackbits(IMAGE[32768 : 32768 + 128], bitorder="little").astype(bool)
    word, half = IMAGE.view(np.uint32), IMAGE.view(np.uint16)
    ub, _, z = lines("mask tensor", IMAGE)  # both repeats by the same bits: stride 0
    want = np.r_[word[:70][bits[:70]], word[32:102][bits[:70]]]
    assert_only(IMAGE, ub, {16384: want})
    assert z[0] == want.size
    ub, _, z = lines("mask tensor normal", IMAGE)  # each repeat's bits start on a data block
    want = np.concatenate(
        [half[r * 128 : r * 128 + 128][bits[r * 256 : r * 256 + 128]] for r in range(3)]
    )
    assert_only(IMAGE, ub, {16384: want})
    assert z[0] == want.size


def test_transpose(lines: Lines) -> None:
    square = get(IMAGE, 0, np.uint16, 256).reshape(16, 16)
    assert_only(IMAGE, lines("transpose", IMAGE)[0], {8192: square.T})
    assert_only(IMAGE, lines("transpose in place", IMAGE)[0], {0: square.T})
    nchw = get(IMAGE, 0, np.uint32, 144).reshape(2, 3, 4, 6)
    ub, _, _ = lines("nchw", IMAGE)
    tmp = (3 + 2) * 16 * 8 * 4
    same = put(ub, 32768, IMAGE[32768 : 32768 + tmp])  # what tmp holds is not documented
    assert_only(IMAGE, same, {16384: nchw.transpose(0, 2, 3, 1)})
    nhwc = get(IMAGE, 0, np.uint8, 192).reshape(2, 4, 8, 3)
    ub, _, _ = lines("nhwc", IMAGE)
    same = put(ub, 32768, IMAGE[32768 : 32768 + (2 * 3 + 1) * 32 * 32])
    assert_only(IMAGE, same, {16384: nhwc.transpose(0, 3, 1, 2)})


def test_trans_data(lines: Lines) -> None:
    def rows(at: int, size: int) -> np.ndarray:
        dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[size]
        return np.array([get(IMAGE, i * 256 + at, dtype, 32 // size) for i in range(16)])

    want = {}
    for r in range(2):
        for i, row in enumerate(rows(r * 32, 2).T):
            want[16384 + i * 96 + r * 96] = row
    # Rows of dst overlap those of the next repeat: the later one stays.
    assert_only(IMAGE, lines("5hd half", IMAGE)[0], want)
    assert_only(IMAGE, lines("5hd addresses", IMAGE)[0], want)
    ub = lines("5hd tensor", IMAGE)[0]
    for at in (40960, 49152):
        ub = put(ub, at, IMAGE[at : at + 128])
    assert_only(IMAGE, ub, want)

    # A single repeat starts one stride on (documented).
    want = {16384 + i * 96 + 96: row for i, row in enumerate(rows(32, 2).T)}
    assert_only(IMAGE, lines("5hd one", IMAGE)[0], want)

    want = {}
    for r in range(2):
        columns = rows(r * 64, 4).T.reshape(16, 8)  # 8 columns of 16: two data blocks each
        for i, row in enumerate(columns):
            want[16384 + i * 96 + r * 48 * 32] = row
    assert_only(IMAGE, lines("5hd float", IMAGE)[0], want)

    low = rows(0, 1)[:, :16]  # the low half of src into the high half of dst
    want = {16384 + i * 96 + 16: row for i, row in enumerate(low.T)}
    assert_only(IMAGE, lines("5hd s8", IMAGE)[0], want)


OLD = {
    "scatter": "Scatter(UB(half, 0), UB(half, 16384), UB(uint32_t, 32768), 32u, 200u);",
    "scatter mask": "Scatter(UB(float, 0), UB(float, 16384), UB(uint32_t, 32768), 0u,"
    "(uint64_t)33, 3, 9);",
    # dav-2002: the mask is the number of all elements.
    "mask counted": "GatherMask(UB(float, 16384), UB(float, 0), 1, true, 150, {1, 1, 10, 0},"
    "out[0]);",
    "mask 7": "GatherMask(UB(float, 16384), UB(float, 0), 7, false, 0, {1, 1, 8, 0}, out[0]);",
}


def test_dav_2002(tmp_path) -> None:
    old = Lines(tmp_path, OLD, "dav-2002")
    image = put(IMAGE, 32768, OFFSETS2)
    want = image.copy()
    for i in range(200):  # ascending: of several for one place the last stays
        want = put(want, 32 + OFFSETS2[i], get(image, 16384 + 2 * i, np.uint16, 1))
    assert len(set(OFFSETS2[:200])) < 200
    assert np.array_equal(old("scatter", image)[0], want)
    image = put(IMAGE, 32768, OFFSETS4)
    want = image.copy()
    for r in range(3):
        for i in range(33):
            element = get(image, 16384 + lane(r, i, 1, 9, 4), np.uint32, 1)
            want = put(want, OFFSETS4[r * 64 + i], element)
    assert np.array_equal(old("scatter mask", image)[0], want)
    word = IMAGE.view(np.uint32)
    ub, _, z = old("mask counted", IMAGE)
    picked = np.r_[word[:64:2], word[80:144:2], word[160:182:2]]
    assert_only(IMAGE, ub, {16384: picked})
    assert z[0] == picked.size == 75
    with pytest.raises(wb.TwinFault, match="pattern 7; dav-2002 has 1 to 6"):
        old("mask 7", IMAGE)


FAULTS = {
    "no such pattern": (
        "mask",
        "GatherMask(UB(half, 16384), UB(half, 0), 8, false, 0, {1, 3, 8, 0}, out[0]);",
        "GatherMask(UB(half, 16384), UB(half, 0), 7, false, 0, {1, 3, 8, 0}, out[0]);",
    ),
    "an area that fills no data block": (
        "transpose-params",
        "Transpose(UB(float, 16384), UB(float, 0), UB(uint8_t, 32768),"
        "TransposeParamsExt(2, 3, 4, 5, TransposeType::TRANSPOSE_NCHW2NHWC));",
        "Transpose(UB(float, 16384), UB(float, 0), UB(uint8_t, 32768),"
        "TransposeParamsExt(2, 3, 4, 4, TransposeType::TRANSPOSE_NCHW2NHWC));",
    ),
    "a temporary that is too small": (
        "transpose-tmp",
        "LocalTensor<uint8_t> tmp = UB(uint8_t, 32768); tmp.SetSize(2559);"
        "Transpose(UB(float, 16384), UB(float, 0), tmp,"
        "TransposeParamsExt(2, 3, 4, 6, TransposeType::TRANSPOSE_NCHW2NHWC));",
        "LocalTensor<uint8_t> tmp = UB(uint8_t, 32768); tmp.SetSize(2560);"
        "Transpose(UB(float, 16384), UB(float, 0), tmp,"
        "TransposeParamsExt(2, 3, 4, 6, TransposeType::TRANSPOSE_NCHW2NHWC));",
    ),
    "a row that is not aligned": (
        "alignment",
        LISTS.format("half") + "src[3] = UB(half, 786);"
        "TransDataTo5HD<half>(dst, src, {false, false, 1, 0, 0});",
        LISTS.format("half") + "src[3] = UB(half, 800);"
        "TransDataTo5HD<half>(dst, src, {false, false, 1, 0, 0});",
    ),
}


def test_faults(tmp_path) -> None:
    both = {}
    for name, (_, faulty, corrected) in FAULTS.items():
        both[f"{name}: faulty"], both[f"{name}: corrected"] = faulty, corrected
    faults = Lines(tmp_path, both)
    for name, (code, _, _) in FAULTS.items():
        with pytest.raises(wb.TwinFault) as caught:
            faults(f"{name}: faulty", IMAGE)
        assert (caught.value.kind, caught.value.code) == ("mem", code)
        faults(f"{name}: corrected", IMAGE)
