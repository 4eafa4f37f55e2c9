"""The order-exact linear layer: raw bits against the kernel on the twin and the numpy model."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import (
    ARCHS,
    DTYPES,
    ENTRIES,
    NO_MEMORY,
    bits,
    expected,
    from_bits,
    kernel,
    same_bits,
    wild,
)

import workbench as wb
from workbench.build import compiler
from workbench.errors import ConfigError, InputError, WorkbenchError
from workbench.orders import host
from workbench.orders import linear as module
from workbench.orders.linear import linear
from workbench.orders.tree import ReductionTree

WIDTHS = (1, 63, 64, 65, 200, 576, 1000, 4096, 4097)
ROWS = (*range(1, 18), 33, 64)
VOCABS = (*range(1, 10), 33, 257)
MOST_ROWS, MOST_VOCAB = max(ROWS), 33
EVERY_WAY = (1, 2, 3, 4, 8, 9)  # numbers of rows that are summed in ways of their own


def config(tile: int = 64, arch: str = "dav-2201", **more) -> wb.KernelConfig:
    return wb.KernelConfig(tile_length=tile, arch=arch, **more)


@functools.cache
def inputs(dtype: str, rows: int, width: int, vocab: int):
    hidden = wild((rows, width), width, dtype, spread=3)
    return hidden, wild((vocab, width), width + 1, dtype, spread=3), wild(vocab, 7, dtype)


# ---- against the twin ----------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", [64, 256, 4096])
@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
def test_equals_the_twin_for_every_width_and_number_of_rows(arch, tile, dtype, out):
    run, given = kernel(tile, arch, schedule="weight_stationary"), config(tile, arch)
    for number, width in enumerate(WIDTHS):
        hidden, weight, bias = inputs(dtype, MOST_ROWS, width, MOST_VOCAB)
        bias = bias if number % 2 else None
        want = bits(run(hidden, weight, bias, DTYPES[out]))
        # Rows do not see each other, so a part of what the twin computed is what it would compute.
        for rows in ROWS if width in (65, 576) else (1, 2, 3, 4, 8, 64):
            got = linear(hidden[:rows], weight, given, bias, DTYPES[out], threads=1)
            np.testing.assert_array_equal(bits(got), want[:rows], f"H={width}, N={rows}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 2, 5])
def test_equals_the_twin_for_every_number_of_columns(dtype, rows):
    hidden, weight, bias = inputs(dtype, MOST_ROWS, 200, max(VOCABS))
    want = bits(kernel(64)(hidden[:rows], weight, bias))
    for vocab in VOCABS:
        for threads in (1, 2, 5):
            got = linear(hidden[:rows], weight[:vocab], config(), bias[:vocab], threads=threads)
            np.testing.assert_array_equal(bits(got), want[:, :vocab], f"V={vocab}")


@pytest.mark.parametrize("arch", ARCHS)
def test_tiles_of_every_number_of_repeats(arch):
    """Method 3 folds 2, 3 or 4 repeats; method 2 has a ragged end; the last tile has its own."""
    for tile in (128, 192, 256, 320, 448, 960):
        for width in (1100, 1087):
            for rows in (1, 4, 7):
                hidden, weight, _ = inputs("fp32", 7, width, 5)
                got = linear(hidden[:rows], weight, config(tile, arch))
                want = kernel(tile, arch)(hidden[:rows], weight)
                assert same_bits(got, want), (tile, width, rows)


def test_the_largest_tiles_and_a_width_of_many_chunks():
    hidden, weight, _ = inputs("bf16", 4, 12500, 3)
    for arch, tile in (("dav-2201", 12160), ("dav-3510", 15744), ("dav-3510", 8128)):
        want = kernel(tile, arch)(hidden, weight)
        for rows in (1, 2, 3, 4):
            got = linear(hidden[:rows], weight, config(tile, arch))
            assert same_bits(got, want[:rows]), (arch, tile, rows)


def test_a_width_that_is_too_large_for_the_fastest_way():
    """Of 3 rows, which would be spread over more than the memory that hidden may take."""
    hidden = wild((3, 400_001), 1, "fp16", spread=3)
    weight = wild((5, 400_001), 2, "fp16", spread=3)
    want = torch.cat([linear(hidden[i : i + 1], weight, config(4096)) for i in range(3)])
    assert same_bits(linear(hidden, weight, config(4096)), want)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_one_row_of_hidden(arch, dtype):
    """Its repeats are summed in up to three ways: here 16, 4, and 2 with a ragged one, after 64."""
    for width in (64 * 22 + 7, 64 * (64 + 22) + 7):
        hidden = wild((1, width), 1, dtype, spread=3)
        weight = wild((37, width), 2, dtype, spread=3).clone()
        for row, at in enumerate((0, 64 * 15 + 3, 64 * 16, 64 * 19 + 63, 64 * 20, 64 * 21 + 9, -1)):
            weight[3 * row, at] = float("inf")  # in a repeat of each way
            weight[3 * row + 1, at] = float("nan")
        for tile in (64, 512, 4096):
            got = linear(hidden, weight, config(tile, arch), threads=1)
            assert same_bits(got, kernel(tile, arch)(hidden, weight)), (width, tile)


def test_more_rows_than_are_worked_on_at_once():
    hidden, weight, bias = inputs("fp32", 523, 70, 17)
    for threads in (1, 3):
        got = linear(hidden, weight, config(), bias, threads=threads)
        assert same_bits(got, kernel(64)(hidden, weight, bias))


SWITCHES = [{"masked_lanes": "skip"}, {"accumulator_start": "first"}, {"overflow": "saturate"}]


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
def test_switches(switches, dtype, out):
    """Only the overflow of 16-bit outputs can show; the sums are those of any choice."""
    hidden, weight, bias = inputs(dtype, 6, 130, 19)
    hidden, weight = hidden.clone() * 300, weight.clone()
    hidden[1], hidden[2, 5], hidden[3, 7] = -0.0, float("inf"), float("nan")
    given = config(switches=switches)
    want = wb.build("lm_head", given, backend="twin")(hidden, weight, bias, DTYPES[out])
    got = linear(hidden, weight, given, bias, DTYPES[out])
    assert same_bits(got, want)
    if switches == {"overflow": "saturate"} and out != "fp32":
        plain = linear(hidden, weight, config(), bias, DTYPES[out])
        assert not same_bits(got, plain), "the control: the switch does something"


# ---- against the numpy model ---------------------------------------------------------------------


def patterns(shape, dtype: str, seed: int, exponents: str):
    """Random bits: every exponent (Inf, NaN, subnormals), or one range where sums round."""
    rng = np.random.default_rng(seed)
    kind = np.uint32 if dtype == "fp32" else np.uint16
    width, fraction, bias = {"fp32": (8, 23, 127), "bf16": (8, 7, 127), "fp16": (5, 10, 15)}[dtype]
    low, high = {
        "all": (0, (1 << width) - 1),
        "finite": (0, (1 << width) - 2),
        "small": (0, bias // 2),  # products below the smallest fp32, or subnormal
        "near one": (bias - 3, bias + 3),
    }[exponents]
    value = rng.integers(0, np.iinfo(kind).max, shape, kind, endpoint=True)
    exponent = rng.integers(low, high, shape, kind, endpoint=True) << kind(fraction)
    return from_bits(value & ~kind(((1 << width) - 1) << fraction) | exponent, dtype)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("exponents", ["all", "finite", "small", "near one"])
@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
def test_random_bit_patterns_equal_the_model(arch, exponents, dtype, out):
    for seed, (rows, width) in enumerate(
        [(1, 5), (1, 300), (2, 257), (3, 70), (4, 200), (6, 130), (9, 140)]
    ):
        hidden = patterns((rows, width), dtype, seed, exponents)
        weight = patterns((7, width), dtype, seed + 50, exponents)
        bias = patterns(7, dtype, seed + 90, exponents) if seed % 2 else None
        for tile in (64, 256):
            got = linear(hidden, weight, config(tile, arch), bias, DTYPES[out])
            want = expected(hidden, weight, bias, arch=arch, tile=tile, out=out)
            np.testing.assert_array_equal(bits(got), want, f"{rows} x {width}, tile {tile}")


@pytest.mark.parametrize("special", ["inf", "-inf", "nan"])
def test_one_special_weight_of_fp16_anywhere(special):
    """fp16 is read in a short way that only infinity and NaN do not survive; where there is one it
    must be seen, in either half of a word, in any row, in whole and ragged repeats, and only then
    is the longer way taken."""
    for rows in (1, 2, 3, 5, 9):
        hidden = wild((rows, 200), 1, "fp16", spread=3)
        for row, column in ((0, 0), (3, 1), (8, 63), (15, 127), (16, 128), (18, 199)):
            weight = wild((19, 200), 2, "fp16", spread=3)
            weight[row, column] = float(special)
            got = bits(linear(hidden, weight, config()))
            np.testing.assert_array_equal(got, expected(hidden, weight, arch=ARCHS[0], tile=64))
            beside = np.delete(got, row, 1)
            assert np.isfinite(beside.view(np.float16)).all()


def test_the_smallest_and_largest_numbers_of_fp16():
    """The ends of what is scaled by powers of two on the way: products of 2^-48, sums of 2^40."""
    for value, other in ((2.0**-24, 2.0**-24), (32768.0, 32768.0), (65504.0, 2.0**-24)):
        for rows in EVERY_WAY:
            hidden = torch.full((rows, 4096), value, dtype=torch.float16)
            weight = torch.full((2, 4096), other, dtype=torch.float16)
            got = linear(hidden, weight, config(4096), out_dtype=torch.float32)
            assert (got.double() == 4096 * value * other).all()
    hidden = torch.full((max(EVERY_WAY), 4096), 65504.0, dtype=torch.float16)
    for rows in EVERY_WAY:
        got = linear(hidden[:rows], hidden[:2], config(64), out_dtype=torch.float32)
        want = expected(hidden[:rows], hidden[:2], arch=ARCHS[0], tile=64, out="fp32")
        np.testing.assert_array_equal(bits(got), want)


def test_bf16_products_that_are_not_exact_are_rounded_on_their_own():
    """Where the first level of the tree may not fuse: below 2^-126 and above the largest number. A
    fused multiply-add of either product, whichever is the one, shows in one of two rows."""
    ends = {  # two products, and their sum after each was rounded to fp32
        # 1.25 * 2^-149 becomes 2^-149, half a unit of the sum, which is even without it.
        "subnormal": (((2.0**-62, 2.0**-63), (1.25 * 2.0**-73, 2.0**-76)), 2.0**-125),
        "overflow": (((2.0**64, 2.0**64), (-(2.0**64), 2.0**63)), np.inf),
    }
    for name, (products, want) in ends.items():
        first, second = (w * x for w, x in products)
        assert np.float32(first + second) != np.float32(want), "the control: fused is another sum"
        for place in (0, 30, 62):
            weight, hidden = torch.zeros(2, 18, 70), torch.zeros(2, max(EVERY_WAY), 70)
            for turn in (0, 1):
                for i, (w, x) in enumerate(products[:: 1 - 2 * turn]):
                    weight[turn, :, place + i], hidden[turn, :, place + i] = w, x
            for turn, rows in itertools.product((0, 1), EVERY_WAY):
                given = hidden[turn, :rows].bfloat16(), weight[turn].bfloat16()
                got = linear(*given, config(), out_dtype=torch.float32)
                assert (got == want).all(), (name, place, turn, rows)


def test_a_sum_of_negative_zeros_is_positive():
    for dtype, rows in itertools.product(DTYPES.values(), EVERY_WAY):
        hidden, weight = torch.full((rows, 70), -0.0, dtype=dtype), torch.ones(2, 70, dtype=dtype)
        assert not bits(linear(hidden, weight, config())).any()
        bias = torch.full((2,), -0.0, dtype=dtype)
        assert not bits(linear(hidden, weight, config(), bias)).any()


# ---- the caller's surroundings -------------------------------------------------------------------


def test_flush_to_zero_in_the_caller_changes_nothing():
    hidden, weight = torch.full((3, 100), 1e-30), torch.full((40, 100), 1e-10)
    half = torch.full((3, 100), 6e-8, dtype=torch.float16)  # subnormal
    run = functools.partial(linear, config_or_tree=config())
    ones = torch.ones(3, 100, dtype=torch.float16)
    want, want16 = bits(run(hidden, weight)), bits(run(ones, half))  # a subnormal output as well
    wide = bits(run(half, half, out_dtype=torch.float32))
    assert want.all() and want16.all() and wide.all() and (want16 < 0x400).all()
    torch.set_flush_denormal(True)
    try:
        flushed = bits(hidden[:1] * weight[:1])
        got = [bits(run(hidden, weight, threads=t)) for t in (1, 2)]
        got16 = bits(run(ones, half))
        got_wide = bits(run(half, half, out_dtype=torch.float32))
        still = bits(hidden[:1] * weight[:1])
    finally:
        torch.set_flush_denormal(False)
    assert not flushed.any() and not still.any()  # the control; and the caller's state came back
    for bits_got in got:
        np.testing.assert_array_equal(bits_got, want)
    np.testing.assert_array_equal(got16, want16)
    np.testing.assert_array_equal(got_wide, wide)


def test_strides_and_leading_dimensions():
    hidden, weight, bias = inputs("bf16", 6, 130, 9)
    want = linear(hidden, weight, config(), bias)
    assert same_bits(linear(hidden.T.contiguous().T, weight, config(), bias), want)
    wide = torch.zeros(9, 260, dtype=torch.bfloat16)
    wide[:, ::2] = weight
    assert same_bits(linear(hidden, wide[:, ::2], config(), bias), want)
    assert same_bits(linear(hidden.view(2, 3, 130), weight, config(), bias), want.view(2, 3, 9))
    assert same_bits(linear(hidden[:1].expand(4, 130), weight, config()), want_rows(hidden, weight))


def want_rows(hidden, weight):
    return linear(hidden[:1], weight, config()).expand(4, 9).contiguous()


def test_nothing_to_add_and_nothing_to_write():
    for dtype in DTYPES.values():
        bias = torch.tensor([1.5, -2.0], dtype=dtype)
        empty, weight = torch.empty(3, 0, dtype=dtype), torch.empty(2, 0, dtype=dtype)
        assert not bits(linear(empty, weight, config())).any()
        assert (linear(empty, weight, config(), bias) == bias).all()
        assert linear(torch.ones(0, 5, dtype=dtype), torch.ones(2, 5, dtype=dtype)).shape == (0, 2)
        assert linear(torch.ones(3, 5, dtype=dtype), torch.ones(0, 5, dtype=dtype)).shape == (3, 0)


def test_a_kernel_or_nothing_stands_for_its_configuration():
    hidden, weight, _ = inputs("fp32", 3, 5000, 4)
    run = kernel(256, "dav-3510")
    assert same_bits(linear(hidden, weight, run), run(hidden, weight))
    assert same_bits(linear(hidden, weight), kernel()(hidden, weight))
    assert not same_bits(linear(hidden, weight), run(hidden, weight))


# What would be written to address 0 otherwise: in processes of their own.
WITHOUT_MEMORY = """
from workbench.orders.linear import linear

hidden, weight, config = torch.ones(3, 70), torch.ones(5, 70), wb.KernelConfig(tile_length=64)
want = linear(hidden, weight, config)

with torch.device("meta"):
    for order in (config, wb.declared_order("lm_head", config, n=70)):
        found = linear(hidden, weight, order)
        assert found.device.type == "cpu" and found.equal(want)
with FakeTensorMode(allow_non_fake_inputs=True) as mode:
    refused(lambda: linear(mode.from_tensor(hidden), mode.from_tensor(weight), config))
    refused(lambda: linear(hidden, weight, config))
refused(lambda: torch.func.functionalize(lambda h: linear(h, weight, config))(hidden))
refused(lambda: torch.vmap(lambda h: linear(h[None], weight, config))(hidden))
refused(lambda: torch.func.grad(lambda h: linear(h, weight, config).sum())(hidden))
"""


def test_tensors_without_memory_are_refused_whatever_the_default_device():
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY + WITHOUT_MEMORY], capture_output=True, text=True
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])


def test_refusals():
    hidden, weight = torch.ones(2, 8), torch.ones(3, 8)
    other = wb.build("batch_invariant_logp", backend="twin")
    for error, text, arguments, options in (
        (InputError, "same H", (hidden, torch.ones(3, 9)), {}),
        (InputError, "one dtype", (hidden, weight.half()), {}),
        (InputError, "on the CPU", (hidden.to("meta"), weight.to("meta")), {}),
        (InputError, "to_dense", (hidden.to_sparse(), weight), {}),
        (InputError, "to_dense", (hidden, weight.to_sparse()), {}),
        (InputError, "positive integer", (hidden, weight), {"threads": 0}),
        (InputError, "n=8", (hidden, weight, ReductionTree.from_nested([0, 1])), {}),
        (InputError, "in pairs", (hidden, weight, ReductionTree.from_nested([*range(8)])), {}),
        (ConfigError, "bytes of UB", (hidden, weight, config(1 << 20)), {}),
        (ConfigError, "does not run", (hidden, weight, config(arch="dav-2002")), {}),
        (ConfigError, "KernelConfig", (hidden, weight, "tile 64"), {}),
        (ConfigError, "is a batch_invariant_logp", (hidden, weight, other), {}),
    ):
        with pytest.raises(error, match=text):
            linear(*arguments, **options)


# ---- trees ---------------------------------------------------------------------------------------


def test_the_declared_tree_gives_the_bits_of_the_configuration():
    given = config(64, "dav-2201")
    tree = wb.declared_order("lm_head", given, n=200)
    for dtype, out in ENTRIES:
        hidden, weight, bias = inputs(dtype, 5, 200, 9)
        for b in (None, bias):
            by_tree = linear(hidden, weight, tree, b, DTYPES[out], threads=2)
            assert same_bits(by_tree, linear(hidden, weight, given, b, DTYPES[out])), (dtype, out)
    for dtype, out in ENTRIES:
        hidden, weight, _ = inputs(dtype, 17, 200, 9)
        hidden = hidden.clone()
        hidden[0, 3], hidden[1], hidden[2, 7] = float("nan"), -0.0, float("inf")
        by_tree = linear(hidden, weight, tree, None, DTYPES[out])
        assert same_bits(by_tree, linear(hidden, weight, given, None, DTYPES[out])), (dtype, out)


def test_a_tree_on_a_thread_that_flushes_is_refused():
    torch.set_flush_denormal(True)
    try:
        with pytest.raises(WorkbenchError, match="flushes subnormal"):
            linear(torch.ones(1, 2), torch.ones(1, 2), ReductionTree.from_nested([0, 1]))
    finally:
        torch.set_flush_denormal(False)


ROUNDINGS = {"x86_64": (0x400, 0x800, 0xC00), "aarch64": (0x400000, 0x800000, 0xC00000)}


@pytest.mark.skipif(platform.machine() not in ROUNDINGS, reason="values of <fenv.h>")
def test_other_rounding_modes_of_the_caller():
    """They change nothing with a configuration, come back, and are refused with a tree."""
    hidden, weight, bias = inputs("fp32", 5, 200, 9)
    want, math = bits(linear(hidden, weight, config(), bias)), ctypes.CDLL("libm.so.6")
    tree = wb.declared_order("lm_head", config(), n=200)
    for mode in ROUNDINGS[platform.machine()]:
        math.fesetround(mode)
        try:
            got = linear(hidden, weight, config(), bias, threads=2)
            still = math.fegetround()
            with pytest.raises(WorkbenchError, match="round to nearest"):
                linear(hidden, weight, tree, bias)
        finally:
            math.fesetround(0)
        assert still == mode
        np.testing.assert_array_equal(bits(got), want)


# ---- controls ------------------------------------------------------------------------------------

SWAPS = {  # file -> (as it is, with an addition swapped)
    "linear_trees.h": (
        ("constexpr int kHalf = 1 << (kLog - 1);",  # (0 + 1) + (2 + 3) is (0 + 2) + (1 + 3)
         "constexpr int kHalf = kLog == 1 ? 2 : kLog == 2 ? 1 : 1 << (kLog - 1);"),
        ("add(other, last);", "add(out, last);"),  # ((v0 + v1) + v3) + v2
    ),
    "linear_lanes.h": (
        ("/ 4 * 4 + i % 2 * 2 + i % 4 / 2 * n;", "/ 4 * 4 + i % 2 + i % 4 / 2 * n;"),
        ("EvenLanes::at(i, n) + 1;", "EvenLanes::at(i, n) + 2;"),
    ),
    "linear.cpp": (("linear<order::Fp16>", "linear<order::Fp32>"),),  # which compiles sooner
    "linear_fours.h": (("const int j = 2 * half + k;", "const int j = half + 2 * k;"),),
    "linear_work.h": (
        ("for (; end ? i >> at != 0", "for (; false ? i >> at != 0"),  # the ragged end forgets
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def swapped(tmp_path_factory):
    """The library with each of SWAPS made; compiled quickly."""
    folder = tmp_path_factory.mktemp("swapped")
    for path in host.FOLDER.glob("*"):
        text = path.read_text()
        for old, new in SWAPS.get(path.name, ()):
            assert text.count(old) == 1, (path.name, old, text.count(old))
            text = text.replace(old, new)
        (folder / path.name).write_text(text)
    flags = [*host.native_flags(compiler.find_cxx()), "-O1"]
    return ctypes.CDLL(str(host.compiled(folder / "linear.cpp", compiler.find_cxx(), flags)))


def alone(shape, places):
    """Numbers at `places` of the last axis, zeros elsewhere: only the sums between them matter."""
    values = torch.zeros(shape)
    rng = np.random.default_rng(3)
    values[..., places] = torch.from_numpy(
        rng.standard_normal((*shape[:-1], len(places))).astype(np.float32)
    )
    return values


def test_control_swapped_additions_are_caught(swapped, monkeypatch):
    cases = {  # rows, arch, tile, dtype, places that are not zero: (what is swapped there)
        "tree in registers": (9, "dav-2201", 64, "fp32", [0, 1, 2, 3]),
        "fours of rows": (3, "dav-2201", 64, "bf16", [0, 2, 4, 6]),
        "neighbours by shuffles": (1, "dav-2201", 64, "fp32", [0, 1, 2, 3]),
        "one row of hidden, 16 bits": (1, "dav-2201", 64, "bf16", [0, 2, 4, 6]),
        "fold of method 3": (4, "dav-3510", 256, "fp32", [0, 64, 128, 192]),
        "ragged end of method 2": (4, "dav-3510", 448, "fp32", [*range(0, 448, 64)]),
    }

    def computed(rows, arch, tile, dtype, places, run):
        hidden, weight = alone((rows, 1024), places), torch.ones(40, 1024)
        hidden[:, places] *= 2.0 ** (torch.arange(len(places)) * 11 % 16)  # sums of bf16 round too
        weight *= alone((40, 1), [0]).abs() + 1
        return run(hidden.to(DTYPES[dtype]), weight.to(DTYPES[dtype]), tile, arch)

    def ours(hidden, weight, tile, arch):
        return linear(hidden, weight, config(tile, arch), out_dtype=torch.float32)

    def twin(hidden, weight, tile, arch):
        return kernel(tile, arch)(hidden, weight, None, torch.float32)

    right = {name: computed(*case, ours) for name, case in cases.items()}
    for name, case in cases.items():
        assert same_bits(right[name], computed(*case, twin)), name
    monkeypatch.setattr(host, "library", lambda source: swapped)
    for name, case in cases.items():
        assert not same_bits(computed(*case, ours), right[name]), name
    # One term of a repeat is summed rightly in any order inside, and the repeats are in order.
    hidden, weight = alone((4, 512), [5, 69, 133]), torch.ones(7, 512)
    assert same_bits(linear(hidden, weight, config()), kernel(64)(hidden, weight))


def test_control_the_tests_inputs_tell_orders_apart():
    hidden, weight, _ = inputs("fp32", 8, 4096, 33)
    seen = {
        bits(linear(hidden, weight, config(tile, arch))).tobytes()
        for arch in ARCHS
        for tile in (64, 256, 1024)
    }
    assert len(seen) == 6 - 1  # at tile 64 every method is the same


# ---- memory --------------------------------------------------------------------------------------

MEMORY = """
import sys
import torch, workbench as wb
from workbench.orders.linear import linear

def status(name):
    return next(int(x.split()[1]) << 10 for x in open("/proc/self/status") if x.startswith(name))

hidden = torch.ones(59, 4096, dtype=torch.bfloat16)
weight = torch.ones(6000, 4096, dtype=torch.bfloat16)
linear(hidden[:1, :64], weight[:1, :64])
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
before = status("VmRSS")
if sys.argv[1:] == ["wide"]:
    linear(hidden.float(), weight.float(), threads=2)  # what a widened weight takes
out = linear(hidden, weight, threads=2)
print(status("VmHWM") - before - out.numel() * out.element_size())
"""


@pytest.mark.skipif(platform.system() != "Linux", reason="reads /proc/self/status")
def test_memory_beyond_inputs_and_outputs():
    found = []
    for more in ([], ["wide"]):
        command = [sys.executable, "-c", MEMORY, *more]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(int(done.stdout))
    assert 0 < found[0] < 64 << 20  # above 0: it was the peak of the call
    assert found[1] > 64 << 20  # the control: a weight in fp32 would be seen


# ---- other machines ------------------------------------------------------------------------------

CROSS, QEMU, ROOT = "aarch64-linux-gnu-g++", "qemu-aarch64", "/usr/aarch64-linux-gnu"

PROGRAM = r"""
#include "linear.cpp"
#include <cstdio>
// Prints a digest of the outputs for drawn inputs of every dtype, method and shape.
int main() {
    uint64_t state = 88172645463325252u, digest = 1469598103934665603u;
    const auto next = [&] {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return uint32_t(state >> 20);
    };
    for (int in = 0; in < 3; ++in)
    for (int method = 1; method <= 3; ++method)
    for (long tile : {64L, 128L, 192L, 256L, 4096L})
    for (long width : {0L, 1L, 63L, 64L, 65L, 200L, 576L, 4097L})
    for (long rows : {1L, 2L, 3L, 5L, 9L}) {
        if (method == 3 && tile > 256) continue;
        const long vocab = 19;
        std::vector<uint32_t> parts[3];
        const long sizes[3] = {rows * width, vocab * width, vocab};
        for (int i = 0; i < 3; ++i) {
            parts[i].resize(size_t(sizes[i] + 16));
            for (uint32_t &word : parts[i]) {
                const uint32_t r = next(), e = next();
                word = in == 0 ? (r & 0x807fffff) | (107 + e % 40) << 23
                     : in == 1 ? (r & 0x807f807f) | (107 + e % 40) * 0x00800080
                               : (r & 0x83ff83ff) | (e % 31) * 0x04000400;
                if (next() % 997 == 0) word = r;
            }
        }
        std::vector<uint32_t> out(size_t(rows * vocab));
        const long rest = width % tile;
        const int last = method != 3 || rest == 0 ? method : rest >= 64 && rest <= 256 ? 3 : 2;
        for (int outputs : {0, in}) {
            order::Call call{parts[0].data(), parts[1].data(),
                             width % 2 ? parts[2].data() : nullptr, out.data(), rows, width, vocab,
                             tile, method, last, in, outputs, 0, 2};
            if (order_linear(&call)) return 1;
            const auto *bytes = reinterpret_cast<const uint8_t *>(out.data());
            for (long i = 0; i < rows * vocab * (outputs ? 2 : 4); ++i)
                digest = (digest ^ bytes[i]) * 1099511628211u;
        }
    }
    std::printf("%016llx %d", static_cast<unsigned long long>(digest), order::kLanes);
}
"""


def digest_of(folder: Path, cxx: str, flags: list[str], run: list[str]) -> tuple[str, str]:
    """(digest, lanes) of PROGRAM compiled so."""
    program = folder / "program"
    line = [cxx, "-std=c++17", "-ffp-contract=off", "-fno-math-errno", "-O1", "-Wno-psabi"]
    line += [*flags, "-pthread", f"-I{host.FOLDER}", "-o", str(program)]
    subprocess.run([*line, str(folder / "program.cpp")], check=True)
    done = subprocess.run([*run, str(program)], capture_output=True, text=True, check=True)
    digest, lanes = done.stdout.split()
    return digest, lanes


@pytest.mark.slow
def test_other_instruction_sets_and_aarch64_give_the_same_bits(tmp_path):
    (tmp_path / "program.cpp").write_text(PROGRAM)
    cxx = compiler.find_cxx()
    here = digest_of(tmp_path, cxx.path, host.native_flags(cxx), [])
    lanes = {here[1]}
    others = []
    if platform.machine() == "x86_64":
        others = [(cxx.path, ["-march=x86-64"], [])]
        if shutil.which(CROSS) and shutil.which(QEMU):
            others.append((CROSS, [], [QEMU, "-L", ROOT]))
    for other in others:
        digest, count = digest_of(tmp_path, *other)
        assert digest == here[0], other
        lanes.add(count)
    if others:
        assert len(lanes) > 1, "other machines with the same code would show nothing"


def test_the_module_is_the_function():
    hidden, weight = torch.ones(1, 4), torch.ones(2, 4)
    assert module(hidden, weight, config()).tolist() == [[4.0, 4.0]]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is Linux's")
def test_threads_run_where_the_process_may_and_no_mask_is_changed():
    """New threads are moved to other processors; with one allowed there is none to move to."""
    hidden, weight, _ = inputs("bf16", 2, 4096, 300)
    want, allowed = linear(hidden, weight, config(1024), threads=1), os.sched_getaffinity(0)
    for cpus in ({min(allowed)}, allowed):
        os.sched_setaffinity(0, cpus)
        try:
            for threads in (2, 5):
                assert same_bits(linear(hidden, weight, config(1024), threads=threads), want)
            assert os.sched_getaffinity(0) == cpus
        finally:
            os.sched_setaffinity(0, allowed)
