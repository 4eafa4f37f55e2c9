"""Hand-computed cases of fills, gathers, transposes, sorts and copies, many of the documents."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from . import Instr, Unsupported, apply
from .test_elementwise import bits, f32, half, memory, read, scalar


def run(i: Instr, *parts, arch="dav-2201", gm=None):
    return apply(i, memory(*parts), arch, gm)


def test_duplicate_and_brcb():
    i = Instr(
        "Duplicate", ("half", "half"), 0, (), "mask", mask=2, repeat=2, dst_rep=1, scalar=0x7E01
    )
    out, _, _ = run(i)
    assert bits(read(out, "half", 18)) == [0x7E01] * 2 + [0xA5A5] * 14 + [0x7E01] * 2
    x = np.arange(16, dtype=np.uint16)
    i = Instr("Brcb", ("uint16_t", "uint16_t"), 0, (1024,), repeat=2, dst_blk=1, dst_rep=8)
    out, _, _ = run(i, (1024, x))
    assert read(out, "uint16_t", 256).tolist() == np.repeat(x, 16).tolist()


def test_copy_counts_per_repeat_in_counter_mode():
    x = np.arange(256, dtype=np.uint32)
    i = Instr(
        "Copy",
        ("uint32_t", "uint32_t"),
        0,
        (4096,),
        "counter",
        count=66,
        repeat=2,
        dst_blk=1,
        src_blk=(1,),
        dst_rep=16,
        src_rep=(8,),
    )
    out, _, _ = run(i, (4096, x))
    got = read(out, "uint32_t", 256)
    assert got[:66].tolist() == list(range(66)) and got[66] == 0xA5A5A5A5
    assert got[128:194].tolist() == list(range(64, 130))


def test_create_vec_index():
    i = Instr("CreateVecIndex", ("int16_t", "int16_t"), 0, (), count=3, scalar=5)
    out, _, _ = run(i)
    assert read(out, "int16_t", 3).tolist() == [5, 6, 7]
    i = Instr(
        "CreateVecIndex",
        ("float", "float"),
        0,
        (),
        "bits",
        mask=(0b101, 0),
        repeat=2,
        scalar=scalar(f32(1)),
    )
    out, _, _ = run(i)
    assert read(out, "float", 67)[[0, 2, 64, 66]].tolist() == [1, 3, 65, 67]


def test_gather():
    x = np.arange(128).astype(np.float16).view(np.uint16)
    offsets = np.arange(254, -2, -2).astype(np.uint32)
    i = Instr("Gather", ("half", "half"), 0, (1024, 2048), count=128, extra={"base": 0})
    out, _, _ = run(i, (1024, x), (2048, offsets))
    assert bits(read(out, "half", 128)) == bits(x[::-1].copy())
    blocks = np.arange(224, -32, -32).astype(np.uint32)
    y = np.arange(128, dtype=np.uint16)
    i = Instr("Gatherb", ("uint16_t", "uint16_t"), 0, (1024, 2048), repeat=1)
    out, _, _ = run(i, (1024, y), (2048, blocks))
    want = y.reshape(8, 16)[::-1].ravel()
    assert read(out, "uint16_t", 128).tolist() == want.tolist()
    i = Instr("Scatter", ("half", "half"), 0, (1024, 2048), count=2)
    out, _, _ = run(i, (1024, half(1, 2)), (2048, np.array([6, 6], np.uint32)), arch="dav-3510")
    assert bits(read(out, "half", 4)) == [0xA5A5] * 3 + bits(half(2))
    with pytest.raises(Unsupported):
        run(i)


def test_gather_mask():
    x = np.arange(1, 129, dtype=np.uint16)
    i = Instr(
        "GatherMask",
        ("uint16_t", "uint16_t"),
        0,
        (1024,),
        repeat=1,
        extra={"pattern": 2, "reduce": False},
    )
    out, _, facts = run(i, (1024, x))
    assert read(out, "uint16_t", 64).tolist() == list(range(2, 130, 2)) and facts["rsvd"] == 64
    assert facts["ignore"] == [(128, 256)]
    # The documents' example: counter mode, 70 elements per repeat, source stride 4 blocks, the
    # bits from the start in both repeats.
    y = np.arange(256, dtype=np.uint32)
    pattern = np.zeros(32, np.uint8)
    pattern[0], pattern[8] = 0b1, 0b100001  # elements 0, 64 and 69
    i = Instr(
        "GatherMask",
        ("uint32_t", "uint32_t"),
        0,
        (1024, 4096),
        mask=70,
        repeat=2,
        src_rep=(4,),
        extra={"reduce": True, "src1_rep": 0},
    )
    out, _, facts = run(i, (1024, y), (4096, pattern))
    assert read(out, "uint32_t", 6).tolist() == [0, 64, 69, 32, 96, 101] and facts["rsvd"] == 6
    i = replace(i, extra={"reduce": False, "src1_rep": 1}, src_rep=(8,))
    second = np.zeros(64, np.uint8)
    second[0], second[32] = 2, 4
    out, _, facts = run(i, (1024, y), (4096, second))
    assert read(out, "uint32_t", 2).tolist() == [1, 66] and facts["rsvd"] == 2


def test_transposes():
    x = np.arange(256, dtype=np.uint16)
    out, _, _ = run(Instr("Transpose", ("uint16_t", "uint16_t"), 0, (1024,)), (1024, x))
    assert read(out, "uint16_t", 3).tolist() == [0, 16, 32]
    shape = (2, 3, 2, 4)
    y = np.arange(48, dtype=np.float32)
    i = Instr("Transpose", ("float", "float"), 0, (1024,), mode="NCHW2NHWC", extra={"shape": shape})
    out, _, _ = run(i, (1024, y))
    got = read(out, "float", 48)
    assert got[:6].tolist() == [0, 8, 16, 1, 9, 17]
    back = replace(i, mode="NHWC2NCHW", srcs=(0,), dst=4096)
    out, _, _ = apply(back, out)
    assert read(out, "float", 48, 4096).tolist() == y.tolist()


def test_trans_data_to_5hd():
    lists = {
        "dst_list": [32 * n for n in range(16)],
        "src_list": [1024 + 32 * n for n in range(16)],
        "dst_high": False,
        "src_high": False,
    }
    base = Instr(
        "TransDataTo5HD", ("half", "half"), 0, (), repeat=1, dst_rep=0, src_rep=(0,), extra=lists
    )
    x = np.arange(256, dtype=np.uint16)
    out, _, _ = run(base, (1024, x))
    assert read(out, "uint16_t", 256).tolist() == x.reshape(16, 16).T.ravel().tolist()
    y = np.arange(128, dtype=np.float32)
    out, _, _ = run(replace(base, types=("float", "float")), (1024, y))
    # dst 0 and 1 hold element 0 of the sixteen blocks.
    assert read(out, "float", 18).tolist() == [*range(0, 128, 8), 1, 9]
    z = np.arange(512).astype(np.uint8)
    i = replace(
        base, types=("uint8_t", "uint8_t"), extra={**lists, "dst_high": True, "src_high": True}
    )
    out, _, _ = run(i, (1024, z))
    assert out[16:20].tolist() == [16, 48, 80, 112] and (out[:16] == 0xA5).all()
    # One repeat starts at list + stride.
    shifted = replace(base, dst_rep=1, src_rep=(2,))
    out, _, _ = run(shifted, (1024 + 64, x))
    assert (out[:32] == 0xA5).all() and read(out, "uint16_t", 2, 32).tolist() == [0, 16]


def test_sorts():
    score = np.zeros(32, np.float32)
    score[[3, 7, 9]] = [5, 5, 9]
    index = np.arange(100, 132, dtype=np.uint32)
    i = Instr("Sort32", ("float", "float"), 0, (1024, 2048), repeat=1)
    out, _, _ = run(i, (1024, score), (2048, index))
    pairs = read(out, "uint32_t", 64).reshape(32, 2)
    assert pairs[:4, 1].tolist() == [109, 103, 107, 100]
    assert pairs[:3, 0].view(np.float32).tolist() == [9, 5, 5]
    h = score.astype(np.float16).view(np.uint16)
    i = replace(i, types=("half", "half"))
    out, _, facts = run(i, (1024, h), (2048, index))
    pairs = read(out, "uint32_t", 64).reshape(32, 2)
    assert pairs[:4, 1].tolist() == [109, 103, 107, 100] and facts["ignore"][0] == (2, 4)


def pairs(scores, start: int) -> np.ndarray:
    out = np.zeros((len(scores), 2), np.uint32)
    out[:, 0] = f32(*scores).view(np.uint32)
    out[:, 1] = np.arange(start, start + len(scores))
    return out


def test_mrg_sort():
    a, b = pairs([9, 5, 1], 0), pairs([5, 4], 10)
    i = Instr("MrgSort", ("float", "float"), 0, (1024, 2048), extra={"lengths": (3, 2)})
    out, _, facts = run(i, (1024, a), (2048, b))
    got = read(out, "uint32_t", 10).reshape(5, 2)
    assert got[:, 1].tolist() == [0, 1, 10, 11, 2] and facts["sorted"] == [3, 2]
    i = replace(i, extra={"lengths": (3, 2), "suspend": True})
    out, _, facts = run(i, (1024, a), (2048, b))
    assert facts["sorted"] == [2, 2]
    got = read(out, "uint32_t", 10)
    assert got[7] == 11 and got[8] == 0xA5A5A5A5, "stops when the second queue is empty"
    i = Instr("Extract", ("float", "float"), 0, (1024,), extra={"index": 512})
    out, _, _ = run(i, (1024, pairs(range(32), 70)))
    assert read(out, "float", 3).tolist() == [0, 1, 2]
    assert read(out, "uint32_t", 2, 512).tolist() == [70, 71]


def test_region_proposals():
    score = np.zeros(16, np.float16)
    score[5] = 3
    i = Instr("ProposalConcat", ("half", "half"), 0, (1024,), extra={"field": 4})
    out, _, _ = run(i, (1024, score), arch="dav-2002")
    assert bits(read(out, "half", 128).reshape(16, 8)[5, 3:5]) == [0xA5A5, *bits(half(3))]
    i = Instr("RpSort16", ("half", "half"), 4096, (0,))
    out, _, _ = apply(i, out, "dav-2002")
    assert bits(read(out, "half", 8, 4096)[4:5]) == bits(half(3))
    with pytest.raises(Unsupported):
        apply(i, out, "dav-2201")


# --- copies ---------------------------------------------------------------------------------------


def test_data_copy_loses_its_tail():
    gm = np.arange(256).astype(np.uint8)
    i = Instr("DataCopy", ("float", "float"), 0, (0,), count=9, extra={"way": "in"})
    out, _, _ = run(i, gm=gm)
    assert out[:33].tolist() == [*range(32), 0xA5]
    i = Instr(
        "DataCopy",
        ("half", "half"),
        128,
        (0,),
        "params",
        extra={"way": "out", "blocks": 2, "length": 32, "gaps": (32, 0)},
    )
    _, after, _ = run(i, (0, np.arange(128, dtype=np.uint8)), gm=gm)
    assert after[128:192].tolist() == [*range(32), *range(64, 96)]


def test_data_copy_pad():
    gm = np.arange(200).astype(np.uint8)
    i = Instr(
        "DataCopyPad",
        ("half", "half"),
        0,
        (10,),
        "params",
        extra={"way": "in", "blocks": 2, "length": 6, "gaps": (4, 1), "pad": (False, 0, 0, 0)},
    )
    out, _, _ = run(i, gm=gm)
    assert out[:8].tolist() == [10, 11, 12, 13, 14, 15, 10, 11]
    assert out[30:32].tolist() == [10, 11] and (out[32:64] == 0xA5).all()
    assert out[64:72].tolist() == [20, 21, 22, 23, 24, 25, 20, 21]
    i = replace(i, extra={**i.extra, "pad": (True, 1, 2, 0x0708)})
    out, _, facts = run(i, gm=gm)
    assert out[:12].tolist() == [8, 7, 10, 11, 12, 13, 14, 15, 8, 7, 8, 7]
    assert facts["ignore"][0] == (12, 32)
    i = Instr(
        "DataCopyPad",
        ("half", "half"),
        3,
        (0,),
        "params",
        extra={"way": "out", "blocks": 2, "length": 5, "gaps": (1, 2)},
    )
    _, after, _ = run(i, (0, np.arange(100, dtype=np.uint8)), gm=gm)
    # UB steps one started block and one gap per burst.
    assert after[3:17].tolist() == [0, 1, 2, 3, 4, 8, 9, 64, 65, 66, 67, 68, 15, 16]


def test_atomics():
    gm = np.zeros(64, np.uint8)
    gm[:32].view(np.float32)[:] = 1
    base = Instr(
        "DataCopy", ("float", "float"), 0, (0,), count=8, extra={"way": "out", "atomic": "add"}
    )
    _, after, _ = run(base, (0, f32(*range(8))), gm=gm)
    assert after[:32].view(np.float32).tolist() == [1 + n for n in range(8)]
    i = replace(base, extra={"way": "out", "atomic": "min"})
    _, after, _ = run(i, (0, f32(*range(8))), gm=gm)
    assert after[:32].view(np.float32).tolist() == [0, 1, 1, 1, 1, 1, 1, 1]
    # bf16: 256 + 1 is a tie to even, 258 + 1 goes up; 256 + 1 + 2^-20 must not round twice.
    gm[:4] = np.array([0x4380, 0x4381], np.uint16).view(np.uint8)
    one = np.resize(np.array([0x3F80, 0x3F80], np.uint16), 16)
    i = replace(base, types=("bfloat16_t", "bfloat16_t"), count=16)
    _, after, _ = run(i, (0, one), gm=gm)
    assert after[:4].view(np.uint16).tolist() == [0x4380, 0x4382]
