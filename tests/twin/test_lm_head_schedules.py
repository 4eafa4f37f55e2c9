"""The weight-stationary schedule of the LM head: the bits of the other one, and the bytes it moves.

That the other one, "output", has the bits of the independent model is in test_lm_head_bits.py; here
the model judges the new one once more, and "output" stands in for it where inputs are many.
"""

from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
import torch
from helpers import (
    ARCHS,
    DTYPES,
    ENTRIES,
    bits,
    expected,
    from_bits,
    kernel,
    poisoned,
    same_bits,
    wild,
)
from hypothesis import given, settings

from twin.test_lm_head_bits import VOCAB, cases, drawn, inputs, specials

# TILE_LENGTH, WEIGHT_ROWS, HIDDEN_ROWS
SHAPES = ((64, 4, 64), (64, 1, 1), (128, 8, 2), (1024, 3, 255), (4096, 4, 64))
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2}


def stationary(tile=64, weight_rows=4, hidden_rows=64, arch="dav-2201", max_blocks=128):
    rows = {"weight_rows": weight_rows, "hidden_rows": hidden_rows}
    return kernel(tile, arch, max_blocks, schedule="weight_stationary", **rows)


def owned(block, blocks, rows, vocab, weight_rows=4, hidden_rows=64) -> np.ndarray:
    """Flat indices of the elements of [rows, vocab] that a block owns, as the docstring says."""
    groups, passes = -(-vocab // weight_rows), -(-rows // hidden_rows)
    turn = np.arange(block, groups * passes, blocks)
    n = turn[:, None] // groups * hidden_rows + np.arange(hidden_rows)
    v = turn[:, None] % groups * weight_rows + np.arange(weight_rows)
    inside = (n < rows)[:, :, None] & (v < vocab)[:, None, :]
    return (n[:, :, None] * vocab + v[:, None, :])[inside]


# ---- the same bits ---------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
def test_equals_the_model_and_the_other_schedule(arch, shape, dtype, out):
    run, other = stationary(*shape, arch), kernel(shape[0], arch)
    for width in (1, 7, 16, 63, 64, 65, 257, 1000, 4097, 8193):
        hidden, weight, bias = inputs(width, dtype)
        for b in (None, bias):
            got = run(hidden, weight, b, DTYPES[out])
            want = expected(hidden, weight, b, arch=arch, tile=shape[0], out=out)
            np.testing.assert_array_equal(bits(got), want, f"H={width}, bias={b is not None}")
            assert same_bits(got, other(hidden, weight, b, DTYPES[out]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_control_another_order_would_be_seen(dtype):
    hidden, weight, bias = inputs(8193, dtype)
    got = stationary(1024)(hidden, weight, bias, torch.float32)
    assert not same_bits(got, kernel(4096)(hidden, weight, bias, torch.float32))
    assert not same_bits(got, kernel(1024, "dav-3510")(hidden, weight, bias, torch.float32))
    last_first = torch.cat([hidden[:, 1024:], hidden[:, :1024]], 1)  # its tiles in another order
    moved = torch.cat([weight[:, 1024:], weight[:, :1024]], 1)
    assert not same_bits(got, stationary(1024)(last_first, moved, bias, torch.float32))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
def test_groups_and_passes_of_every_size(arch, dtype, out):
    """The last group of vocabulary ids and the last pass over hidden are often parts."""
    all_hidden, all_weight, all_bias = inputs(70, dtype, 130, 17)
    whole = kernel(64, arch)(all_hidden, all_weight, all_bias, DTYPES[out])
    for rows in (1, 2, 63, 64, 65, 127, 128, 129, 130):
        for vocab in (1, 3, 4, 5, 7, 8, 9, 17):
            got = poisoned((rows, vocab), out)
            args = (all_hidden[:rows], all_weight[:vocab], all_bias[:vocab], DTYPES[out])
            returned = stationary(64, arch=arch)(*args, out=got)
            assert returned is got and same_bits(got, whole[:rows, :vocab]), (rows, vocab)
    many = stationary(64, 8, 255, arch)(all_hidden, all_weight, all_bias, DTYPES[out])
    assert same_bits(many, whole)


@pytest.mark.parametrize("rows", [255, 256, 300])
def test_a_pass_of_255_rows(rows):
    """As many repeats as one vector instruction takes, and one row more."""
    hidden, weight, bias = inputs(65, "bf16", rows, 9)
    got = stationary(64, 8, 255)(hidden, weight, bias)
    assert same_bits(got, kernel(64)(hidden, weight, bias))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
@pytest.mark.parametrize("width", [4, 65, 200])
def test_special_values(arch, dtype, out, width):
    """NaN, Inf, zeros, subnormals and the extremes, each against each, as terms and as bias."""
    values = specials(dtype)
    constant = np.repeat(values[:, None], width, 1)
    mixed = np.random.default_rng(width).choice(values, (17, width))
    hidden = from_bits(np.concatenate([constant, mixed]), dtype)
    weight = from_bits(np.concatenate([mixed[:7], constant]), dtype)
    run, other = stationary(64, 4, 16, arch), kernel(64, arch)
    for bias in (None, from_bits(np.resize(values, len(weight)), dtype)):
        got = run(hidden, weight, bias, DTYPES[out])
        assert same_bits(got, other(hidden, weight, bias, DTYPES[out]))
        assert got.isnan().any() and got.isinf().any() and got.isfinite().any()


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(cases())
def test_random_bit_patterns(case):
    hidden, weight, bias = drawn(case)
    args = (hidden, weight, bias, DTYPES[case.out])
    got = stationary(case.tile, 3, 2, case.arch)(*args)
    assert same_bits(got, kernel(case.tile, case.arch)(*args))


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_to_sum_and_nothing_to_write(dtype):
    hidden, weight = torch.empty(70, 0).to(DTYPES[dtype]), torch.empty(VOCAB, 0).to(DTYPES[dtype])
    bias = torch.full((VOCAB,), -0.0).to(DTYPES[dtype])
    bias[3] = 1.5
    got = stationary()(hidden, weight, bias)
    want = torch.zeros(70, VOCAB, dtype=DTYPES[dtype])
    want[:, 3] = 1.5  # +0 and the bias; +0 + -0 is +0
    assert same_bits(got, want) and same_bits(stationary()(hidden, weight), torch.zeros_like(want))
    assert stationary()(weight[:0], weight).shape == (0, VOCAB)
    assert stationary()(hidden, weight[:0]).shape == (70, 0)


# ---- blocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
def test_block_counts_change_nothing(dtype, out):
    hidden, weight, bias = inputs(257, dtype, 9, 15)
    want = bits(kernel(64)(hidden, weight, bias, DTYPES[out]))
    for max_blocks in (1, 2, 3, 7, 40, 48, 128, 256):
        run = stationary(64, 2, 2, max_blocks=max_blocks)
        for threads in (1, 3):
            got = run(hidden, weight, bias, DTYPES[out], threads=threads)
            np.testing.assert_array_equal(bits(got), want, f"{max_blocks}, {threads}")
    for blocks in (1, 5, 1000, 65535):  # more than there are turns, too
        got = run(hidden, weight, bias, DTYPES[out], blocks=blocks)
        np.testing.assert_array_equal(bits(got), want, str(blocks))


def test_no_more_blocks_than_turns():
    hidden, weight, _ = inputs(64, "fp32", 130, 17)
    for run, turns in (
        (stationary(), 5 * 3),
        (stationary(64, 8, 255), 3),
        (stationary(64, 1, 64, max_blocks=50), 50),  # of 17 * 3
        (kernel(64), 128),  # of 130 * 17
    ):
        run(hidden, weight)
        assert run.last.blocks == turns
    kernel(64)(hidden[:2], weight)
    assert kernel(64).last.blocks == 2 * 17


@pytest.mark.parametrize(("dtype", "out"), ENTRIES)
def test_chosen_blocks_write_what_they_own_and_nothing_else(dtype, out):
    hidden, weight, bias = inputs(65, dtype, 9, 15)
    run = stationary(64, 4, 2)
    want = bits(run(hidden, weight, bias, DTYPES[out])).reshape(-1)
    for blocks, chosen in ((1, [0]), (7, [2, 5]), (20, [0, 19]), (50, [3, 49])):
        got = poisoned((9, 15), out)
        run(hidden, weight, bias, DTYPES[out], out=got, blocks=blocks, block_ids=chosen)
        mine = np.zeros(9 * 15, bool)
        for block in chosen:
            mine[owned(block, blocks, 9, 15, 4, 2)] = True
        flat = bits(got).reshape(-1)
        np.testing.assert_array_equal(flat[mine], want[mine])
        assert (flat[~mine] == bits(poisoned(1, out))).all() and mine.any()


def lazily(elements: int, dtype: str) -> torch.Tensor:
    """A tensor whose memory exists only where it is touched; zeros elsewhere."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, BYTES[dtype] * elements, flags=flags)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # else the few elements would touch all of it
    tensor = torch.frombuffer(memory, dtype=DTYPES[dtype])
    assert tensor.data_ptr() == ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return tensor


@pytest.mark.parametrize(
    ("dtype", "rows", "wrap"), [("fp16", 65537, 2**31), ("bf16", 131077, 2**32)]
)
def test_more_outputs_than_32_bits_count(dtype, rows, wrap):
    """Element indices pass 2^31 and 2^32: some blocks of 65,535, over lazily mapped memory."""
    vocab, blocks, chosen = 32771, 65535, [0, 1, 40000]
    hidden, weight, bias = inputs(3, dtype, rows, vocab)
    out = lazily(rows * vocab, dtype).view(rows, vocab)
    stationary()(hidden, weight, bias, out=out, blocks=blocks, block_ids=chosen)
    at = np.concatenate([owned(block, blocks, rows, vocab) for block in chosen])
    assert at.max() > wrap and len(at) > 90000
    flat = bits(out).reshape(-1)
    n, v = at // vocab, at % vocab
    picked = np.linspace(0, len(at) - 1, 300).astype(int)
    picked = np.append(picked, (at >= wrap).nonzero()[0][:50])
    for k in picked:  # by the other schedule, one element at a time
        row, column = slice(n[k], n[k] + 1), slice(v[k], v[k] + 1)
        want = kernel(64)(hidden[row], weight[column], bias[column])
        assert flat[at[k]] == bits(want)[0, 0], (n[k], v[k])
    beyond = np.setdiff1d((at + vocab * 64) % (rows * vocab), at)
    assert len(beyond) and not flat[beyond].any()  # elements of other blocks were not written


def test_rows_of_the_output_too_far_apart_for_a_stride():
    """From V = 2^30 on, two rows of fp32 logits are 2^32 bytes apart: a copy per row."""
    vocab, blocks, chosen = 2**30 + 6, 65535, 40000
    weight, out = lazily(vocab, "fp32").view(vocab, 1), lazily(3 * vocab, "fp32").view(3, vocab)
    groups = np.arange(chosen, -(-vocab // 4), blocks)
    columns = torch.from_numpy((groups[:, None] * 4 + np.arange(4)).reshape(-1))
    weight[columns, 0] = wild(len(columns), 1)
    hidden = wild((3, 1), 2)
    stationary()(hidden, weight, out=out, blocks=blocks, block_ids=[chosen])
    got = out[:, columns]
    assert same_bits(got, kernel(64)(hidden, weight[columns]))
    assert not out[:, (columns + 4) % vocab].any()
    # The last group: two columns, which end with the tensor.
    last = -(-vocab // 4) - 1
    weight[-2:, 0] = wild(2, 3)
    stationary()(hidden, weight, out=out, blocks=blocks, block_ids=[last % blocks])
    assert same_bits(out[:, -2:].contiguous(), kernel(64)(hidden, weight[-2:].contiguous()))
    assert out[:, -2:].all()


# ---- bytes -----------------------------------------------------------------------------------


def bytes_from_gm(rows, width, vocab, size, biased, weight_rows=None, hidden_rows=None) -> int:
    """What a schedule reads from GM, `weight_rows` None: "output"."""
    if weight_rows is None:
        return rows * vocab * size * (2 * width + biased)
    groups, passes = -(-vocab // weight_rows), -(-rows // hidden_rows)
    # Each pass reads the weight (and bias) once, each group of vocabulary ids reads hidden once.
    return size * (passes * vocab * (width + biased) + groups * rows * width)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("rows", "width", "vocab"), [(1, 64, 4), (5, 300, 13), (64, 128, 8), (130, 65, 17), (3, 0, 5)]
)
def test_bytes_are_those_of_the_formula(dtype, biased, rows, width, vocab):
    hidden, weight, bias = inputs(max(width, 1), dtype, rows, vocab)
    args = (hidden[:, :width], weight[:, :width], bias if biased else None)
    read = {}
    for shape in (None, (4, 64), (1, 1), (8, 3)):
        run = stationary(64, *shape) if shape else kernel(64)
        run(*args, counters=True)
        read[shape] = run.last.counters["gm_to_ub_bytes"]
        sizes = (rows, width, vocab, BYTES[dtype], biased)
        assert read[shape] == bytes_from_gm(*sizes, *(shape or ()))
        assert run.last.counters["ub_to_gm_bytes"] == rows * vocab * BYTES[dtype]
    if width > 64 and rows > 1:  # control: the counter tells the schedules apart
        assert len(set(read.values())) == 4 - (read[1, 1] == read[None])


def test_bytes_per_logit_as_published_and_weight_stationary():
    """H 4096 in bf16: 16 KB a logit, and 2,176 bytes: 7.5 times less."""
    hidden, weight, _ = inputs(4096, "bf16", 64, 8)
    per_logit = {}
    for name in ("output", "weight_stationary"):
        run = kernel(4096, schedule=name)
        run(hidden, weight, counters=True)
        per_logit[name] = run.last.counters["gm_to_ub_bytes"] / (64 * 8)
    assert per_logit == {"output": 2 * 4096 * 2, "weight_stationary": 4096 * 2 * (1 / 4 + 1 / 64)}
    assert per_logit["output"] / per_logit["weight_stationary"] == 2 / (1 / 4 + 1 / 64)
