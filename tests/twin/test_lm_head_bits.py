"""The LM-head kernel on the twin against the independent numpy model, bit for bit."""

from __future__ import annotations

import ctypes
import functools
import mmap
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from helpers import (
    ARCHS,
    DTYPES,
    ENTRIES,
    LARGEST_TILE,
    bits,
    expected,
    from_bits,
    kernel,
    poisoned,
    wild,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from models import ascend_numpy as model

import workbench as wb
from workbench.build import spec

WIDTHS = (1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65)
WIDTHS += (4095, 4096, 4097, 8191, 8192, 8193, 10000)
TILES = (64, 1024, 4096, "largest")
ROWS, VOCAB = 3, 11
NAN = {"fp32": 0x7FC00000, "bf16": 0x7FC0, "fp16": 0x7E00}

each_schedule = pytest.mark.parametrize("schedule", ["output", "weight_stationary"])


def tile_of(tile, arch: str) -> int:
    return LARGEST_TILE[arch] if tile == "largest" else tile


def inputs(width: int, dtype: str, rows: int = ROWS, vocab: int = VOCAB):
    """hidden, weight and bias: sums that fit fp16, wild enough for every association to show."""
    hidden = wild((rows, width), width, dtype, spread=3)
    weight = wild((vocab, width), width + 1, dtype, spread=3)
    return hidden, weight, wild(vocab, width + 2, dtype, spread=5)


# ---- every width, tile, dtype, output dtype and architecture ---------------------------------


def test_the_largest_tiles_are_those_of_the_spec():
    for arch, largest in LARGEST_TILE.items():
        for dtype in DTYPES:
            assert spec("lm_head").largest_tile(arch, dtype) == largest


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
def test_equals_the_model(arch, tile, dtype, out):
    tile = tile_of(tile, arch)
    run = kernel(tile, arch)
    for width in WIDTHS:
        hidden, weight, bias = inputs(width, dtype)
        for b in (None, bias):
            got = run(hidden, weight, b, DTYPES[out])
            assert got.dtype == DTYPES[out]
            want = expected(hidden, weight, b, arch=arch, tile=tile, out=out)
            np.testing.assert_array_equal(bits(got), want, f"H={width}, bias={b is not None}")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_control_another_tile_method_or_bias_order_would_be_seen(arch, tile, dtype):
    tile = tile_of(tile, arch)
    other_arch = ARCHS[1 - ARCHS.index(arch)]
    differ = {"tile": 0, "architecture": 0, "bias first": 0}
    for width in (4097, 8193, 10000):
        hidden, weight, bias = inputs(width, dtype)
        got = bits(kernel(tile, arch)(hidden, weight, bias, torch.float32))
        fp32 = functools.partial(expected, hidden, weight, out="fp32")
        wrong = {
            "tile": fp32(bias, arch=arch, tile=1024 if tile != 1024 else 4096),
            "architecture": fp32(bias, arch=other_arch, tile=tile),
        }
        # A bias that is a term of the sum: one more product, in front.
        one, more = torch.ones(ROWS, 1, dtype=hidden.dtype), bias[:, None]
        hidden, weight = torch.cat([one, hidden], 1), torch.cat([more, weight], 1)
        wrong["bias first"] = expected(hidden, weight, arch=arch, tile=tile, out="fp32")
        for name, found in wrong.items():
            differ[name] += int((found != got).sum())
    if tile == 64:  # one repeat a tile: every method is the same tree
        assert differ.pop("architecture") == 0
    assert min(differ.values()) > 0, differ


def test_control_a_cast_from_the_rounded_logits_would_be_seen():
    for dtype in ("bf16", "fp16"):
        hidden, weight, _ = inputs(4096, dtype)
        exact = kernel()(hidden, weight, None, torch.float32)
        rounded = kernel()(hidden, weight)
        assert (exact.to(DTYPES[dtype]) == rounded).all()  # rounded once
        assert (rounded.float() != exact).any()  # an entry of its own, not cast back up


# ---- special values ----------------------------------------------------------------------------

# NaN of three kinds, Inf, zeros, subnormals, the extremes, ones, and 1e20, 3, -1e20, 7 (fp16: 300).
SPECIALS = {
    "fp32": """
        7fc12345 ffc00001 7f800001 7f800000 ff800000 00000000 80000000 00000001 80000001 007fffff
        807fffff 00800000 7f7fffff ff7fffff 3f800000 bf800000 60ad78ec 40400000 e0ad78ec 40e00000
    """,
    "bf16": """
        7fd1 ffc1 7f81 7f80 ff80 0000 8000 0001 8001 007f 807f 0080 7f7f ff7f 3f80 bf80
        60ad 4040 e0ad 40e0
    """,
    "fp16": """
        7e11 fe01 7c01 7c00 fc00 0000 8000 0001 8001 03ff 83ff 0400 7bff fbff 3c00 bc00
        5cb0 4200 dcb0 4700
    """,
}


def specials(dtype: str) -> np.ndarray:
    kind = np.uint32 if dtype == "fp32" else np.uint16
    return np.array([int(text, 16) for text in SPECIALS[dtype].split()], kind)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", [64, 1024])
@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
@pytest.mark.parametrize("width", [1, 4, 65, 128, 200])
def test_special_values(arch, tile, dtype, out, width):
    """Every special value against every other: as constant rows, and one among ordinary terms."""
    values = specials(dtype)
    constant = np.repeat(values[:, None], width, 1)
    ordinary = bits(wild((len(values), width), 5, dtype, spread=1))
    lone = ordinary.copy()
    lone[np.arange(len(values)), np.arange(len(values)) % width] = values
    mixed = np.random.default_rng(width).choice(values, (16, width))
    hidden = from_bits(np.concatenate([constant, lone, mixed]), dtype)
    weight = from_bits(np.concatenate([constant, ordinary]), dtype)
    for bias in (None, from_bits(np.resize(values, len(weight)), dtype)):
        got = bits(kernel(tile, arch)(hidden, weight, bias, DTYPES[out]))
        want = expected(hidden, weight, bias, arch=arch, tile=tile, out=out)
        np.testing.assert_array_equal(got, want)
        inf = {"fp32": 0x7F800000, "bf16": 0x7F80, "fp16": 0x7C00}[out]
        nan = (got & ~np.array(1 << 8 * got.itemsize - 1, got.dtype)) > inf
        assert nan.any() and (got[nan] == NAN[out]).all()
        assert (got == inf).any() and (~nan).any()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", [64, 1024, 4096])
@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
@each_schedule
def test_hard_sums(arch, tile, dtype, out, schedule):
    g = torch.Generator().manual_seed(1)
    width = 4096
    normal = torch.randn(8, width, generator=g)
    outliers = torch.randn(2, width, generator=g)
    outliers[:, [7, 100, 2111]] *= 500
    big = 1e20 if dtype != "fp16" else 6e4
    rows = [
        torch.tensor([big, 3, -big, 7]).repeat(width // 4),
        torch.tensor([big, 3, -big, 7]).repeat_interleave(width // 4),
        *outliers,
        torch.linspace(-100, 100, width),
        torch.full((width,), 0.1),
        torch.full((width,), -0.0),
        torch.full((width,), 3e-6),  # products are subnormal against 1e-38 or underflow in fp16
        torch.arange(width) % 2 * 2.0 - 1,
    ]
    hidden = torch.stack(rows).to(DTYPES[dtype])
    tiny = torch.full((1, width), 1e-36 if dtype != "fp16" else 6e-8)
    weight = torch.cat([torch.ones(1, width), tiny, torch.full((1, width), 0.25), normal])
    weight = weight.to(DTYPES[dtype])
    got = bits(kernel(tile, arch, schedule=schedule)(hidden, weight, None, DTYPES[out]))
    want = expected(hidden, weight, arch=arch, tile=tile, out=out)
    np.testing.assert_array_equal(got, want)
    assert not got[6].any()  # a sum of -0 leaves the +0 start of the accumulator
    if dtype != "fp16":
        # This order cancels each 1e20 with its -1e20, and swallows the 3 and the 7 beside them.
        assert not got[0, 0]
        assert (bits(hidden.float()[0] * weight.float()[1]) != 0).all()


@each_schedule
def test_fp16_overflow_and_its_edge(schedule):
    run = kernel(schedule=schedule)
    width = 64
    weight = torch.ones(5, width, dtype=torch.float16)
    weight[1:, 1] = torch.tensor([15, 15.9921875, 16, 1000])  # 65504 + it; 65520 is the tie to Inf
    hidden = torch.zeros(2, width, dtype=torch.float16)
    hidden[:, :2] = torch.tensor([[65504.0, 1], [-65504.0, -1]])
    weight[0, 1] = 0
    got = bits(run(hidden, weight))
    want = np.array([0x7BFF, 0x7BFF, 0x7BFF, 0x7C00, 0x7C00], np.uint16)
    np.testing.assert_array_equal(got, [want, want | 0x8000])
    exact = run(hidden, weight, None, torch.float32)
    assert exact[0].tolist() == [65504, 65519, 65519.9921875, 65520, 66504]
    # A bias is added before the one rounding: it can bring a sum back into range.
    back = run(hidden, weight, torch.full((5,), -1000.0, dtype=torch.float16))
    assert back.isfinite().tolist() == [[True] * 5, [False] * 5]


@st.composite
def cases(draw):
    dtype, out = draw(st.sampled_from(ENTRIES))
    return SimpleNamespace(
        arch=draw(st.sampled_from(ARCHS)),
        tile=draw(st.sampled_from([64, 128, 192, 1024])),
        dtype=dtype,
        out=out,
        rows=draw(st.integers(1, 4)),
        vocab=draw(st.integers(1, 9)),
        width=draw(st.integers(1, 400)),
        bias=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32 - 1)),
        exponents=draw(st.sampled_from(["all", "finite", "near one"])),
    )


def drawn(case):
    """hidden, weight, and bias or None, of a case: random bit patterns."""
    rng = np.random.default_rng(case.seed)
    kind = np.uint32 if case.dtype == "fp32" else np.uint16
    width, fraction, bias = {"fp32": (8, 23, 127), "bf16": (8, 7, 127), "fp16": (5, 10, 15)}[
        case.dtype
    ]

    def draw(*shape):
        pattern = rng.integers(0, np.iinfo(kind).max, shape, kind, endpoint=True)
        low, high = {
            "all": (0, (1 << width) - 1),
            "finite": (0, (1 << width) - 2),
            "near one": (bias - 3, bias + 3),
        }[case.exponents]
        exponent = rng.integers(low, high, shape, kind, endpoint=True)
        mask = kind(((1 << width) - 1) << fraction)
        return from_bits(pattern & ~mask | (exponent << kind(fraction)), case.dtype)

    hidden, weight = draw(case.rows, case.width), draw(case.vocab, case.width)
    return hidden, weight, draw(case.vocab) if case.bias else None


@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(cases())
def test_random_bit_patterns(case):
    hidden, weight, b = drawn(case)
    got = kernel(case.tile, case.arch)(hidden, weight, b, DTYPES[case.out])
    want = expected(hidden, weight, b, arch=case.arch, tile=case.tile, out=case.out)
    np.testing.assert_array_equal(bits(got), want)


@each_schedule
def test_flush_to_zero_in_the_caller_changes_nothing(schedule):
    run = kernel(64, schedule=schedule)
    # Products of 1e-30 and 1e-10 are subnormal, and so are the sums.
    hidden, weight = torch.full((2, 100), 1e-30), torch.full((3, 100), 1e-10)
    small = torch.full((2, 100), 6e-8, dtype=torch.float16)  # a subnormal fp16
    want = expected(hidden, weight, arch="dav-2201", tile=64)
    want16 = bits(run(small, small, None, torch.float16))
    assert want.all()
    if not torch.set_flush_denormal(True):
        pytest.fail("this CPU cannot flush subnormals, so the test tests nothing; mark it so")
    try:
        flushed = bits(hidden * weight[:1])
        got = [bits(run(hidden, weight, threads=t)) for t in (1, 2, 0)]
        got16 = bits(run(small, small, None, torch.float16))
        still = bits(hidden * weight[:1])
    finally:
        torch.set_flush_denormal(False)
    assert not flushed.any() and not still.any()  # the control; and the caller's state came back
    for g in got:
        np.testing.assert_array_equal(g, want)
    np.testing.assert_array_equal(got16, want16)


# ---- bit classes -------------------------------------------------------------------------------


@functools.cache
def normal(width: int, rows: int = 8, vocab: int = 64):
    g = torch.Generator().manual_seed(width)
    return torch.randn(rows, width, generator=g), torch.randn(vocab, width, generator=g)


def config(tile: int, arch: str):
    return wb.KernelConfig(tile_length=tile, arch=arch)


def test_tiles_64_and_4096_share_their_bits_on_2201_only():
    hidden, weight = normal(4096)
    differ = {}
    for arch in ARCHS:
        small, large = (bits(kernel(tile, arch)(hidden, weight)) for tile in (64, 4096))
        differ[arch] = int((small != large).sum())
    assert differ["dav-2201"] == 0 and differ["dav-3510"] > 0, differ


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("width", [65, 576, 1000, 4096, 4097])
@pytest.mark.parametrize("tile", [64, 256, 1024, 4096])
def test_the_declared_tree_executed_gives_the_kernels_bits(arch, width, tile):
    hidden, weight = normal(width)
    tree = wb.declared_order("lm_head", config(tile, arch), n=width)
    products = (hidden[:, None] * weight[None]).reshape(-1, width).numpy()
    got = bits(kernel(tile, arch)(hidden, weight)).reshape(-1)
    np.testing.assert_array_equal(tree.sum(products).view(np.uint32), got)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("width", [576, 1000, 4096, 10000])
def test_the_classes_of_declared_hashes_are_the_classes_of_bits(arch, width):
    hidden, weight = normal(width)
    by_hash, by_bits = {}, {}
    for tile in (64, 128, 256, 512, 1024, 2048, 4096, 8192, LARGEST_TILE[arch]):
        order = wb.declared_order("lm_head", config(tile, arch), n=width)
        by_hash.setdefault(order.hash, set()).add(tile)
        found = bits(kernel(tile, arch)(hidden, weight)).tobytes()
        by_bits.setdefault(found, set()).add(tile)
    as_sets = [sorted(map(sorted, groups.values())) for groups in (by_hash, by_bits)]
    assert as_sets[0] == as_sets[1]
    assert len(by_hash) > 1  # tiles of one class only would show nothing


# ---- blocks ------------------------------------------------------------------------------------

EDGES = [(1, 1), (1, 127), (127, 1), (1, 128), (128, 1), (8, 16), (1, 129), (43, 3), (129, 1)]
EDGES += [(1, 255), (15, 17), (255, 1), (1, 257), (257, 1), (2, 200), (200, 2)]
BLOCKS = (1, 2, 3, 7, 40, 48, 128, 256)


@pytest.mark.parametrize("max_blocks", BLOCKS)
def test_block_edges(max_blocks):
    run = kernel(64, "dav-2201", max_blocks)
    for rows, vocab in EDGES:
        hidden, weight, bias = inputs(100, "bf16", rows, vocab)
        want = expected(hidden, weight, bias, arch="dav-2201", tile=64)
        # `out` starts at an odd element of a poisoned buffer, with a guard on either side.
        buffer = poisoned(rows * vocab + 2, "bf16")
        out = buffer[1:-1].view(rows, vocab)
        assert run(hidden, weight, bias, out=out) is out
        np.testing.assert_array_equal(bits(out), want)
        assert (bits(buffer)[[0, -1]] == 0x7FED).all()
        for threads in (1, 2, 5):
            got = run(hidden, weight, bias, threads=threads)
            np.testing.assert_array_equal(bits(got), want)


@pytest.mark.parametrize("blocks", [1, 2, 7, 50, 257, 65535])
def test_the_number_of_blocks_of_a_launch_changes_no_bit(blocks):
    hidden, weight, bias = inputs(4097, "fp16", 5, 13)
    want = expected(hidden, weight, bias, arch="dav-3510", tile=1024)
    got = kernel(1024, "dav-3510")(hidden, weight, bias, blocks=blocks)
    np.testing.assert_array_equal(bits(got), want)


@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
def test_chosen_blocks_write_their_own_elements_only(dtype, out):
    hidden, weight, bias = inputs(70, dtype, 9, 15)
    want = expected(hidden, weight, bias, arch="dav-2201", tile=64, out=out).reshape(-1)
    choices = ((7, [3]), (7, [6, 0]), (40, [39, 1, 17]), (200, [134, 150]), (7, range(7)))
    for blocks, chosen in choices:
        got = poisoned((9, 15), out)
        kernel(64)(hidden, weight, bias, DTYPES[out], out=got, blocks=blocks, block_ids=chosen)
        at = np.arange(9 * 15)
        mine = np.isin(at % blocks, chosen)
        flat = bits(got).reshape(-1)
        np.testing.assert_array_equal(flat[mine], want[mine])
        assert (flat[~mine] == bits(poisoned(1, out))).all()


def test_no_chosen_block_writes_nothing():
    hidden, weight, _ = inputs(70, "fp32", 2, 3)
    got = poisoned((2, 3), "fp32")
    kernel(64)(hidden, weight, out=got, block_ids=[])
    assert (bits(got) == 0x7FEDDEAD).all()


@pytest.mark.parametrize(
    ("dtype", "rows", "wrap"), [("fp16", 65537, 2**31), ("bf16", 131077, 2**32)]
)
def test_more_outputs_than_32_bits_count(dtype, rows, wrap):
    """Element indices pass 2^31 and 2^32: some blocks of 65,535, over lazily mapped memory."""
    vocab, width, blocks, chosen = 32771, 3, 65535, [0, 1, 40000]
    total = rows * vocab
    assert total > wrap
    hidden, weight, bias = inputs(width, dtype, rows, vocab)
    lazily = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, 2 * total, flags=lazily)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # else the few elements would touch all of it
    try:
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        out = torch.frombuffer(memory, dtype=DTYPES[dtype]).view(rows, vocab)
        assert out.data_ptr() == address
        kernel(64)(hidden, weight, bias, out=out, blocks=blocks, block_ids=chosen)
        flat = bits(out).reshape(-1)
        at = np.concatenate([np.arange(c, total, blocks) for c in chosen])
        assert at.max() > wrap and len(at) > 90000
        got, beside = flat[at].copy(), flat[np.minimum(at + 3, total - 1)].copy()
    finally:
        del out, flat
    h, w, b = (model.widen(bits(t), dtype) for t in (hidden, weight, bias))
    narrow = model.fp32_to_bf16 if dtype == "bf16" else model.fp32_to_fp16

    def logits(index):
        n, v = index // vocab, index % vocab
        sums = model.reduce_sum(model.mul(h[n], w[v]), "dav-2201")
        return narrow(model.add(model.add(np.float32(0), sums), b[v]))

    np.testing.assert_array_equal(got, logits(at))
    assert not beside.any()  # the elements of other blocks were not written
    late = at >= wrap  # control: an index that wraps would have read other rows
    assert (logits(at[late] - wrap) != got[late]).any()


def test_rows_of_logits_as_far_apart_as_a_stride_can_tell_and_farther():
    """fp32 logits of 2^30 + 3 columns: the step from row to row of a full group of the
    weight-stationary schedule just fits 32 bits of bytes; that of the last, smaller group does not.
    """
    vocab, rows, blocks = 2**30 + 3, 3, 65535
    lazily = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)

    def zeros(*shape):
        memory = mmap.mmap(-1, 4 * int(np.prod(shape)), flags=lazily)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)  # else the few elements would touch all of it
        return torch.frombuffer(memory, dtype=torch.float32).view(shape)

    weight, out = zeros(vocab, 1), zeros(rows, vocab)
    groups = -(-vocab // 4)
    full, last = groups - 2, groups - 1
    columns = [*range(4 * full, 4 * full + 4), *range(4 * last, vocab)]
    assert len(columns) == 7 and 4 * (vocab - 4) == 2**32 - 4 and 4 * (vocab - 3) == 2**32
    weight[columns, 0] = torch.arange(1.0, 8.0)
    hidden = torch.tensor([[1.0], [10.0], [100.0]])
    run = kernel(64, schedule=1, weight_rows=4, hidden_rows=3)
    run(hidden, weight, out=out, blocks=blocks, block_ids=[full % blocks, last % blocks])
    assert torch.equal(out[:, columns], hidden * weight[columns, 0])
    assert not out[:, columns[0] - 4 : columns[0]].any()  # another block's: not written
