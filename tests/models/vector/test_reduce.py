"""Reductions against hand-made trees, the older model of fp32 sums, and the probes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from .. import ascend_numpy as old
from . import Instr, apply, settings
from .test_elementwise import bits, f32, half, memory, read

ARCHS = ("dav-1001", "dav-2002", "dav-2201", "dav-3510")


def run(i: Instr, x: np.ndarray, arch="dav-2201"):
    raw = np.ascontiguousarray(x).view(np.uint8)
    ub = np.full(max(8192, 4096 + len(raw)), 0xA5, np.uint8)
    ub[4096 : 4096 + len(raw)] = raw
    return apply(i, ub, arch)[0]


def wild(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(n) * 2.0 ** rng.uniform(-6, 6, n)).astype(np.float32)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("n", [1, 63, 64, 65, 130, 200, 256, 257, 640, 4100])
def test_float_sums_are_those_of_the_older_model(arch, n):
    x = wild(n, n)
    i = Instr("ReduceSum", ("float", "float"), 0, (4096,), count=n)
    s = settings(arch)
    want = old.reduce_sum(x, arch, masked=s.masked, acc_start=s.acc_start)
    assert bits(read(run(i, x, arch), "float", 1)) == bits(np.array([want]))


@pytest.mark.parametrize("arch", ARCHS)
def test_float_sums_of_the_high_dimensional_form(arch):
    x = wild(64 * 70, 1)
    for mask in (64, 17):
        i = Instr("ReduceSum", ("float", "float"), 0, (4096,), "mask", mask=mask, repeat=70)
        want = old.reduce_sum(x, arch, form="high", mask=mask, masked=settings(arch).masked)
        assert bits(read(run(i, x, arch), "float", 1)) == bits(np.array([want]))


@pytest.mark.parametrize("arch", ARCHS)
def test_probes(arch):
    for probe in old.PROBES:
        if probe.call != "reduce_sum" or arch not in probe.answers or probe.id.startswith("H6"):
            continue
        x = probe.build()["x"]
        i = Instr("ReduceSum", ("float", "float"), 0, (4096,), count=len(x))
        assert read(run(i, x, arch), "float", 1)[0] == probe.answers[arch], probe.id


def test_half_nodes_round_and_saturate():
    # The documents' example, alone in a repeat. They write 65504 - 29900 = 35604 where nodes
    # saturate; in half the second node is -29904, and 35600 lies between 35584 and 35616 (a tie).
    x = half(60000, 60000, -30000, 100)
    i = Instr("WholeReduceSum", ("half", "half"), 0, (4096,), "mask", mask=4, dst_rep=1)
    assert bits(read(run(i, x, "dav-2002"), "half", 1)) == bits(half(35584))
    assert bits(read(run(i, x, "dav-2201"), "half", 1)) == bits(half(np.inf))
    # 2048 + 1 rounds back to 2048 at its node, so the pairs lose both ones.
    y = half(2048, 1, 2048, 1)
    assert bits(read(run(i, y), "half", 1)) == bits(half(4096))
    z = half(2048, 2048, 1, 1)
    assert bits(read(run(i, z), "half", 1)) == bits(half(4096))
    w = half(2048, 2048, 3, 3)
    assert bits(read(run(i, w), "half", 1)) == bits(half(4104))


def test_block_and_pair_sums_leave_what_is_masked():
    x = np.arange(128, dtype=np.float32)
    i = Instr(
        "BlockReduceSum",
        ("float", "float"),
        0,
        (4096,),
        "bits",
        mask=(0xFF | 1 << 17, 0),
        repeat=2,
        dst_rep=2,
    )
    got = read(run(i, x), "float", 24)
    assert got[[0, 2]].tolist() == [28, 17] and got[[16, 18]].tolist() == [540, 81]
    untouched = read(np.full(4, 0xA5, np.uint8), "float", 1)[0]
    assert got[1] == untouched and got[8] == untouched
    i = Instr("PairReduceSum", ("float", "float"), 0, (4096,), "bits", mask=(0b1011, 0), dst_rep=1)
    got = read(run(i, x), "float", 3)
    assert got[:2].tolist() == [1, 3] and got[2] == untouched


def test_masked_lane_as_zero_or_skipped():
    """-0 alone survives only where masked lanes are skipped."""
    x = np.full(64, -0.0, np.float32)
    i = Instr("WholeReduceSum", ("float", "float"), 0, (4096,), "mask", mask=1, dst_rep=1)
    assert bits(read(run(i, x, "dav-2201"), "float", 1)) == [0]
    assert bits(read(run(i, x, "dav-3510"), "float", 1)) == [0x80000000]
    other = replace(settings("dav-2201"), masked="skip")
    assert bits(read(run(i, x, other), "float", 1)) == [0x80000000]


def test_maxima():
    x = np.zeros(128, np.float32)
    x[[5, 9]], x[64 + 3] = 7, -np.inf
    base = Instr(
        "WholeReduceMax",
        ("float", "float"),
        0,
        (4096,),
        "mask",
        mask=64,
        repeat=2,
        dst_rep=1,
        mode="VALUE_INDEX",
    )
    got = read(run(base, x), "uint32_t", 4)
    assert got.tolist() == [f32(7).view(np.uint32)[0], 5, 0, 0]
    got = read(run(replace(base, mode="INDEX_VALUE"), x), "uint32_t", 4)
    assert got[:2].tolist() == [5, f32(7).view(np.uint32)[0]]
    got = read(run(replace(base, mode="ONLY_INDEX", dst_rep=2), x), "uint32_t", 3)
    assert got.tolist() == [5, 0xA5A5A5A5, 0]
    got = read(run(replace(base, mode="ONLY_VALUE"), x), "float", 2)
    assert got.tolist() == [7, 0]
    low = replace(base, op="WholeReduceMin")
    assert read(run(low, x), "uint32_t", 4)[3] == 3
    # An infinity that takes part wins over masked lanes.
    y = np.full(64, -np.inf, np.float32)
    one = replace(base, form="bits", mask=(0b1000, 0), repeat=1)
    assert read(run(one, y), "uint32_t", 2)[1] == 3


def test_index_over_everything():
    x = np.zeros(200, np.float32)
    x[[150, 199]] = 4
    i = Instr("ReduceMax", ("float", "float"), 0, (4096,), count=200, extra={"index": True})
    assert read(run(i, x), "uint32_t", 3).tolist() == [0x40800000, 150, 0xA5A5A5A5]
    i = replace(i, extra={})
    assert read(run(i, x), "uint32_t", 2)[1] == 0xA5A5A5A5
    h = np.zeros(256, np.float16)
    h[130], h[129] = 1, 3
    i = Instr(
        "ReduceMax",
        ("half", "half"),
        0,
        (4096,),
        "bits",
        mask=(0xFFFFFFFFFFFFFFFD, 0),
        repeat=2,
        extra={"index": True},
    )
    assert read(run(i, h), "uint16_t", 2)[1] == 130
    i = Instr("BlockReduceMin", ("half", "half"), 0, (4096,), "mask", mask=16, dst_rep=1)
    got = read(run(i, -h), "uint16_t", 2)
    assert got.tolist() == [0x8000, 0xA5A5]


def test_a_halving_tree_is_told_apart():
    """Control: the draw of the sum tests distinguishes orders."""
    x = wild(64, 64)
    i = Instr("WholeReduceSum", ("float", "float"), 0, (4096,), "mask", mask=64, dst_rep=1)
    assert bits(read(run(i, x), "float", 1)) != bits(np.array([old.halving_sum(x)]))
    assert memory().size == 8192
