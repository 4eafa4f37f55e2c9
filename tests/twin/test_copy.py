"""DataCopy, DataCopyPad, Copy and atomic copies, byte for byte against numpy."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.twin.image import SIZE, Lines, assert_only, get, put, random_image

IMAGE = random_image(1)
GMEM = random_image(2)

LINES = {
    # DataCopy by count: whole data blocks only.
    "in": "DataCopy(UB(half, 1024), GM(half, 6), 100);",
    "out": "DataCopy(GM(int32_t, 4), UB(int32_t, 64), 27);",
    "local": "DataCopy(UB(int8_t, 4096), UB(int8_t, 32), 63);",
    "nothing": "DataCopy(UB(float, 0), GM(float, 0), 7); DataCopy(UB(float, 0), GM(float, 0), 0);",
    # DataCopyParams: data blocks, with gaps.
    "in blocks": "DataCopy(UB(half, 0), GM(half, 2), DataCopyParams(3, 2, 5, 1));",
    "out blocks": "DataCopy(GM(half, 2), UB(half, 0), DataCopyParams(3, 2, 1, 5));",
    "local blocks": "DataCopyParams p; p.blockCount = 4; p.blockLen = 1; p.srcStride = 3;"
    "p.dstStride = 2; DataCopy(UB(half, 8192), UB(half, 0), p);",
    "in braces": "DataCopy(UB(half, 0), GM(half, 0), {1, 4, 0, 0});",
    "enhanced": "DataCopyEnhancedParams e;"
    "DataCopy(UB(half, 0), GM(half, 0), DataCopyParams(1, 4, 0, 0), e);",
    # The example of the documents: 16 to 70 by segments of three data blocks, seven elements
    # between; rows 0 and 2 of three.
    "slice in": "SliceInfo from[] = {{16, 70, 7, 3, 87}, {0, 2, 1, 1, 3}};"
    "SliceInfo to[] = {{0, 47, 0, 3, 48}, {0, 1, 0, 1, 2}};"
    "DataCopy(UB(float, 0), GM(float, 0), to, from, 2);",
    "slice out": "SliceInfo to[] = {{16, 70, 7, 3, 87}, {0, 2, 1, 1, 3}};"
    "SliceInfo from[] = {{0, 47, 0, 3, 48}, {0, 1, 0, 1, 2}};"
    "DataCopy(GM(float, 0), UB(float, 0), to, from, 2);",
    "nd2nz": "DataCopy(UB(half, 0), GM(half, 0), Nd2NzParams(2, 3, 21, 200, 40, 5, 1, 512));",
    "nz2nd": "DataCopy(GM(float, 0), UB(float, 0), Nz2NdParamsFull(2, 4, 32, 2, 6, 50, 300));",
    # DataCopyPad
    "pad in": "DataCopyPad(UB(half, 0), GM(half, 2), DataCopyExtParams(3, 10, 7, 2, 0),"
    "DataCopyPadExtParams<half>(false, 0, 0, half(0)));",
    "pad value": "DataCopyPad(UB(half, 0), GM(half, 2), DataCopyExtParams(2, 10, 6, 0, 0),"
    "DataCopyPadExtParams<half>(true, 3, 5, half(7)));",
    "pad old": "DataCopyPad(UB(int16_t, 0), GM(int16_t, 2), {2, 10, 6, 0}, {true, 3, 5, 7});",
    "pad braces": "DataCopyPad(UB(float, 0), GM(float, 0), {1, 20, 0, 0, 0}, {true, 0, 1, 9});",
    "set pad value": "SetPadValue<int16_t>(7);"
    "DataCopyPad(UB(int16_t, 0), GM(int16_t, 2), DataCopyExtParams(2, 10, 6, 0, 0),"
    "DataCopyPadExtParams<int16_t>(false, 3, 5, 0));",
    "pad out": "DataCopyPad(GM(uint8_t, 3), UB(uint8_t, 32),DataCopyExtParams(3, 37, 1, 11, 0));",
    "pad out old": "DataCopyPad(GM(uint8_t, 3), UB(uint8_t, 32), DataCopyParams(3, 37, 1, 11));",
    "column": "DataCopyPad(GM(float, 0), UB(float, 0), DataCopyExtParams(4, 4, 0, 0, 0));",
    # Copy
    "copy": "Copy(UB(half, 16384), UB(half, 0), (uint64_t)100, 3,CopyRepeatParams(2, 1, 17, 8));",
    "copy bits": "uint64_t mask[] = {0x123456789abcdef0ull, 0};"
    "Copy(UB(float, 16384), UB(float, 0), mask, 2, CopyRepeatParams(1, 1, 8, 9));",
    "copy counter": "SetMaskCount(); SetVectorMask<half, MaskMode::COUNTER>(0, 150);"
    "Copy<half, false>(UB(half, 16384), UB(half, 0), MASK_PLACEHOLDER, 2,"
    "CopyRepeatParams(1, 1, 12, 10)); SetMaskNorm();",
}


@pytest.fixture(scope="module")
def lines(tmp_path_factory) -> Lines:
    lose_a_tail = ("in", "out", "local", "nothing")
    return Lines(tmp_path_factory.mktemp("copy"), LINES, unchecked=lose_a_tail)


def block(data: np.ndarray, at: int, n: int) -> np.ndarray:
    return data[at : at + n]


def test_count(lines: Lines) -> None:
    ub, gm, _ = lines("in", IMAGE, GMEM)
    assert_only(IMAGE, ub, {1024: block(GMEM, 6, 192)})  # 200 bytes: the last 8 are left behind
    assert_only(GMEM, gm, {})
    ub, gm, _ = lines("out", IMAGE, GMEM)
    assert_only(GMEM, gm, {4: block(IMAGE, 64, 96)})
    ub, gm, _ = lines("local", IMAGE, GMEM)
    assert_only(IMAGE, ub, {4096: block(IMAGE, 32, 32)})
    ub, _, _ = lines("nothing", IMAGE, GMEM)
    assert_only(IMAGE, ub, {})


@pytest.mark.parametrize("name", ["in", "out", "local", "nothing"])
def test_a_lost_tail_is_a_fault_of_the_checked_mode(lines: Lines, name: str) -> None:
    with pytest.raises(wb.TwinFault) as caught:
        lines(name, IMAGE, GMEM, check="mem")
    assert (caught.value.kind, caught.value.code) == ("mem", "lost-tail")
    lines("in blocks", IMAGE, GMEM, check="mem")  # the control: nothing is lost here


def test_blocks(lines: Lines) -> None:
    ub, _, _ = lines("in blocks", IMAGE, GMEM)
    assert_only(IMAGE, ub, {i * 96: block(GMEM, 2 + i * 7 * 32, 64) for i in range(3)})
    _, gm, _ = lines("out blocks", IMAGE, GMEM)
    assert_only(GMEM, gm, {2 + i * 7 * 32: block(IMAGE, i * 96, 64) for i in range(3)})
    ub, _, _ = lines("local blocks", IMAGE, GMEM)
    assert_only(IMAGE, ub, {8192 + i * 96: block(IMAGE, i * 128, 32) for i in range(4)})
    for name in ("in braces", "enhanced"):
        ub, _, _ = lines(name, IMAGE, GMEM)
        assert_only(IMAGE, ub, {0: block(GMEM, 0, 128)})


def test_slices(lines: Lines) -> None:
    rows = get(GMEM, 0, np.float32, 3 * 87).view(np.uint32).reshape(3, 87)
    want = np.concatenate([np.r_[row[16:40], row[47:71]] for row in (rows[0], rows[2])])
    ub, _, _ = lines("slice in", IMAGE, GMEM)
    assert_only(IMAGE, ub, {0: want})
    dense = get(IMAGE, 0, np.uint32, 96).reshape(2, 2, 24)
    _, gm, _ = lines("slice out", IMAGE, GMEM)
    places = {(r * 2 * 87 + 16 + s * 31) * 4: dense[r, s] for r in range(2) for s in range(2)}
    assert_only(GMEM, gm, places)


def test_formats(lines: Lines) -> None:
    source = GMEM.view(np.uint16)
    want = {}
    for m in range(2):
        for n in range(3):
            row = np.zeros(32, np.uint16)
            row[:21] = source[m * 200 + n * 40 :][:21]
            for c in range(2):
                want[m * 1024 + c * 5 * 32 + n * 32] = row[c * 16 : c * 16 + 16]
    ub, _, _ = lines("nd2nz", IMAGE, GMEM)
    assert_only(IMAGE, ub, want)
    source32 = IMAGE.view(np.uint32)
    want = {}
    for m in range(2):
        for n in range(4):
            row = np.concatenate([source32[m * 512 + c * 96 + n * 16 :][:16] for c in range(2)])
            want[(m * 300 + n * 50) * 4] = row
    _, gm, _ = lines("nz2nd", IMAGE, GMEM)
    assert_only(GMEM, gm, want)


def test_padding(lines: Lines) -> None:
    ub, _, _ = lines("pad in", IMAGE, GMEM)
    want = {}
    for i in range(3):
        data = GMEM[2 + i * 17 : 12 + i * 17].view(np.uint16)
        # The rest of the data block: the first element of this burst.
        want[i * 96] = np.r_[data, np.repeat(data[:1], 11)]
    assert_only(IMAGE, ub, want)

    ub, _, _ = lines("pad value", IMAGE, GMEM)
    seven = np.array([7], np.float16).view(np.uint16)
    want = {}
    for i in range(2):
        data = GMEM[2 + i * 16 : 12 + i * 16].view(np.uint16)
        filled = np.repeat(seven, 3), data, np.repeat(seven, 5), np.repeat(data[:1], 3)
        want[i * 32] = np.concatenate(filled)
    assert_only(IMAGE, ub, want)
    for name in ("pad old", "set pad value"):
        old, _, _ = lines(name, IMAGE, GMEM)
        for i in range(2):
            want[i * 32][:3] = 7
            want[i * 32][8:13] = 7
        assert_only(IMAGE, old, want)

    ub, _, _ = lines("pad braces", IMAGE, GMEM)
    data = GMEM[:20].view(np.float32)
    assert_only(IMAGE, ub, {0: np.r_[data, np.float32(9), np.repeat(data[:1], 2)]})


def test_padding_out(lines: Lines) -> None:
    for name in ("pad out", "pad out old"):
        _, gm, _ = lines(name, IMAGE, GMEM)
        # 37 bytes are two data blocks of UB, then one is skipped; 11 bytes of GM are.
        assert_only(GMEM, gm, {3 + i * 48: block(IMAGE, 32 + i * 96, 37) for i in range(3)})
    _, gm, _ = lines("column", IMAGE, GMEM)
    column = IMAGE.view(np.uint32)[[0, 8, 16, 24]]
    assert_only(GMEM, gm, {0: column})
    assert not np.array_equal(column, IMAGE.view(np.uint32)[:4]), "the control: not 0, 1, 2, 3"


def lane_bytes(r: int, lane: int, blk: int, rep: int, size: int) -> int:
    return (r * rep + lane * size // 32 * blk) * 32 + lane * size % 32


def test_copy(lines: Lines) -> None:
    want = IMAGE.copy()
    for r in range(3):
        for lane in range(100):
            at = 16384 + lane_bytes(r, lane, 2, 17, 2)
            want = put(want, at, get(IMAGE, lane_bytes(r, lane, 1, 8, 2), np.uint16, 1))
    ub, _, _ = lines("copy", IMAGE, GMEM)
    assert np.array_equal(ub, want)

    want = IMAGE.copy()
    for r in range(2):
        for lane in range(64):
            if 0x123456789ABCDEF0 >> lane & 1:
                at = 16384 + lane_bytes(r, lane, 1, 8, 4)
                want = put(want, at, get(IMAGE, lane_bytes(r, lane, 1, 9, 4), np.uint32, 1))
    ub, _, _ = lines("copy bits", IMAGE, GMEM)
    assert np.array_equal(ub, want)

    ub, _, _ = lines("copy counter", IMAGE, GMEM)  # 150 elements in each repeat (documented)
    assert_only(IMAGE, ub, {16384 + r * 384: block(IMAGE, r * 320, 300) for r in range(2)})


FAULTS = {
    "too many bursts": (
        "copy-params",
        "DataCopy(UB(half, 0), GM(half, 0), DataCopyParams(4096, 1, 0, 0));",
        "DataCopy(UB(half, 0), GM(half, 0), DataCopyParams(1024, 1, 0, 0));",
    ),
    "misaligned": (
        "alignment",
        "DataCopy(UB(half, 2), GM(half, 0), 16);",
        "DataCopy(UB(half, 32), GM(half, 2), 16);",
    ),
    "beyond UB": (
        "out-of-bounds",
        "DataCopy(UB(half, 0), GM(half, 0), DataCopyParams(4, 2, 0, 3000));",
        "DataCopy(UB(half, 0), GM(half, 0), DataCopyParams(4, 2, 0, 600));",
    ),
    "slices of two sizes": (
        "copy-params",
        "SliceInfo from[] = {{0, 15, 0, 2, 64}}; SliceInfo to[] = {{0, 7, 0, 1, 64}};"
        "DataCopy(UB(float, 0), GM(float, 0), to, from, 1);",
        "SliceInfo from[] = {{0, 15, 0, 2, 64}}; SliceInfo to[] = {{0, 15, 0, 1, 64}};"
        "DataCopy(UB(float, 0), GM(float, 0), to, from, 1);",
    ),
    "relu on the way": (
        "copy-params",
        "DataCopyEnhancedParams e; e.isRelu = true;"
        "DataCopy(UB(half, 0), GM(half, 0), DataCopyParams(1, 4, 0, 0), e);",
        "DataCopyEnhancedParams e; e.isRelu = false;"
        "DataCopy(UB(half, 0), GM(half, 0), DataCopyParams(1, 4, 0, 0), e);",
    ),
    "too much padding": (
        "copy-params",
        "DataCopyPad(UB(float, 0), GM(float, 0), {1, 20, 0, 0, 0}, {true, 0, 9, 9});",
        "DataCopyPad(UB(float, 0), GM(float, 0), {1, 20, 0, 0, 0}, {true, 0, 8, 9});",
    ),
    "a mask of too many lanes": (
        "mask",
        "Copy(UB(float, 16384), UB(float, 0), (uint64_t)65, 1, CopyRepeatParams());",
        "Copy(UB(float, 16384), UB(float, 0), (uint64_t)64, 1, CopyRepeatParams());",
    ),
    "half an atomic element": (
        "atomic-type",
        "SetAtomicAdd<float>();"
        "DataCopyPad(GM(uint8_t, 0), UB(uint8_t, 0), DataCopyExtParams(1, 6, 0, 0, 0));",
        "SetAtomicAdd<float>();"
        "DataCopyPad(GM(uint8_t, 0), UB(uint8_t, 0), DataCopyExtParams(1, 8, 0, 0, 0));",
    ),
}


@pytest.fixture(scope="module")
def faults(tmp_path_factory) -> Lines:
    both = {}
    for name, (_, faulty, corrected) in FAULTS.items():
        both[f"{name}: faulty"], both[f"{name}: corrected"] = faulty, corrected
    return Lines(tmp_path_factory.mktemp("faults"), both)


@pytest.mark.parametrize("name", FAULTS)
def test_faults(faults: Lines, name: str) -> None:
    with pytest.raises(wb.TwinFault) as caught:
        faults(f"{name}: faulty", IMAGE, GMEM)
    assert (caught.value.kind, caught.value.code) == ("mem", FAULTS[name][0])
    faults(f"{name}: corrected", IMAGE, GMEM)


# ---- atomics ------------------------------------------------------------------------------------

KINDS = {"Add": "SetAtomicAdd", "Max": "SetAtomicMax", "Min": "SetAtomicMin"}
TYPES = {
    "float": np.uint32,
    "half": np.uint16,
    "bfloat16_t": np.uint16,
    "int8_t": np.int8,
    "int16_t": np.int16,
    "int32_t": np.int32,
}
ATOMIC = {
    f"{kind} {t}": f"{KINDS[kind]}<{t}>(); DataCopy(GM({t}, 0), UB({t}, 0), 2048);"
    for kind in KINDS
    for t in TYPES
}
ATOMIC["pad"] = (
    "SetAtomicAdd<int16_t>();"
    "DataCopyPad(GM(int16_t, 2), UB(int16_t, 0), DataCopyExtParams(2, 10, 0, 4, 0));"
)
ATOMIC["config"] = (
    "SetStoreAtomicConfig<AtomicDtype::ATOMIC_S32, AtomicOp::ATOMIC_SUM>();"
    "uint16_t t, o; GetStoreAtomicConfig(t, o); out[0] = t; out[1] = o;"
    "DataCopy(GM(int32_t, 0), UB(int32_t, 0), 8);"
)
ATOMIC["none"] = (
    "SetAtomicAdd<float>(); DisableDmaAtomic(); DataCopy(GM(float, 0), UB(float, 0), 8);"
)
# Three blocks: each adds its own number times a power of two, whose sum depends on the order.
ATOMIC["blocks"] = (
    "UB(float, 0).SetValue(0, GetBlockIdx() == 0 ? 1e8f : GetBlockIdx() == 1 ? 1.0f : -1e8f);"
    "SetFlag<HardEvent::S_MTE3>(0); WaitFlag<HardEvent::S_MTE3>(0); SetAtomicAdd<float>();"
    "DataCopyPad(GM(float, 0), UB(float, 0), DataCopyExtParams(1, 4, 0, 0, 0));"
)


@pytest.fixture(scope="module")
def atomic(tmp_path_factory) -> Lines:
    # The blocks of "blocks" also write the image, all to the same place.
    return Lines(tmp_path_factory.mktemp("atomic"), ATOMIC, unchecked=["blocks"])


def to_float(bits: np.ndarray, kind: str) -> np.ndarray:
    if kind == "half":
        return bits.view(np.float16).astype(np.float64)
    if kind == "bfloat16_t":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.view(np.float32).astype(np.float64)


def from_float(values: np.ndarray, kind: str) -> np.ndarray:
    """Bits, rounded once to nearest even; NaN as the twin's."""
    with np.errstate(over="ignore", invalid="ignore"):
        if kind == "half":
            bits = values.astype(np.float16).view(np.uint16)
            return np.where(np.isnan(values), np.uint16(0x7E00), bits)
        if kind == "float":
            bits = values.astype(np.float32).view(np.uint32)
            return np.where(np.isnan(values), np.uint32(0x7FC00000), bits)
        # bfloat16_t by exact search among the two neighbours of the float64
        wide = values.astype(np.float32)  # exact: sums of two bfloat16 below 2^24 apart, or rounded
        u = wide.view(np.uint32).astype(np.uint64)
        bits = ((u + 0x7FFF + (u >> 16 & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(values), np.uint16(0x7FC0), bits)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("t", TYPES)
def test_atomics(atomic: Lines, kind: str, t: str) -> None:
    dtype = TYPES[t]
    _, gm, _ = atomic(f"{kind} {t}", IMAGE, GMEM)
    a, b = get(GMEM, 0, dtype, 2048), get(IMAGE, 0, dtype, 2048)
    with np.errstate(over="ignore", invalid="ignore"):
        if t.startswith("int"):
            want = {"Add": a + b, "Max": np.maximum(a, b), "Min": np.minimum(a, b)}[kind]
        else:
            x, y = to_float(a, t), to_float(b, t)
            pick = {"Add": x + y, "Max": np.maximum(x, y), "Min": np.minimum(x, y)}[kind]
            want = from_float(pick, t)
            assert np.isnan(pick).any() and np.isfinite(pick).any()
    assert_only(GMEM, gm, {0: want})


def test_zeros_of_two_signs(atomic: Lines) -> None:
    plus, minus = np.float32(0.0), np.float32(-0.0)
    gm0 = put(GMEM, 0, np.array([plus, minus] * 1024, np.float32))
    image = put(IMAGE, 0, np.array([minus, plus] * 1024, np.float32))
    _, gm, _ = atomic("Max float", image, gm0)
    assert not get(gm, 0, np.uint32, 2048).any()
    _, gm, _ = atomic("Min float", image, gm0)
    assert (get(gm, 0, np.uint32, 2048) == 0x80000000).all()


def test_other_atomic_copies(atomic: Lines) -> None:
    _, gm, _ = atomic("pad", IMAGE, GMEM)
    want = {
        2 + i * 14: get(GMEM, 2 + i * 14, np.int16, 5) + get(IMAGE, i * 32, np.int16, 5)
        for i in range(2)
    }
    assert_only(GMEM, gm, want)
    _, gm, z = atomic("config", IMAGE, GMEM)
    assert_only(GMEM, gm, {0: get(GMEM, 0, np.int32, 8) + get(IMAGE, 0, np.int32, 8)})
    assert z[:2].tolist() == [4, 0]
    _, gm, _ = atomic("none", IMAGE, GMEM)
    assert_only(GMEM, gm, {0: get(IMAGE, 0, np.uint8, 32)})


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_add_in_ascending_order(atomic: Lines, threads: int) -> None:
    zero = put(GMEM, 0, np.zeros(1, np.float32))
    for _ in range(10):
        _, gm, _ = atomic("blocks", IMAGE, zero, blocks=3, threads=threads)
        assert get(gm, 0, np.float32, 1)[0] == 0.0  # (1e8 + 1) - 1e8
    assert (np.float32(1e8) + np.float32(-1e8)) + np.float32(1) == 1.0  # the control: another order


def test_image_is_all_of_the_memory() -> None:
    assert IMAGE.size == GMEM.size == SIZE
