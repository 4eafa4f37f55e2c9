"""Cases of the LM head that no other file has; tests/cases.py says which test has which case.

The operator tests of test_lm_head.py are collected here once more, for the weight-stationary
schedule: the fixture `op` of this file gives it to them.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import ARCHS, DTYPES, ENTRIES, bits, expected, kernel, wild

import workbench as wb
from ops.test_lm_head import (  # noqa: F401  collected here, for another schedule
    test_a_bias_at_any_column,
    test_bias_is_added_once,
    test_each_row_as_if_it_were_alone,
    test_empty,
    test_gradient_accuracy,
    test_gradient_closed_form,
    test_gradient_of_forward_fp32,
    test_inputs_are_not_changed,
    test_leading_dims,
    test_repeats,
    test_rows_do_not_see_the_batch_size,
    test_rows_do_not_see_their_position,
    test_slices_and_padding,
    test_strides_and_offsets,
    test_the_caller_s_precision_is_ignored_and_restored,
)
from workbench.build import spec
from workbench.numerics.contract import contract
from workbench.ops import AscendLMHeadOp, NativeLMHeadOp

SCHEDULES = ("output", "weight_stationary")


@pytest.fixture
def op():
    """The operator with the other schedule, a small pass and an odd number of weight rows."""
    rows = {"weight_rows": 3, "hidden_rows": 4}
    return AscendLMHeadOp(wb.KernelConfig(schedule="weight_stationary", **rows))


def test_the_tests_collected_here_have_the_other_schedule(op):
    assert op.config.schedule == spec("lm_head").raw["constants"]["SCHEDULE"]["names"][SCHEDULES[1]]


# ---- accuracy ----------------------------------------------------------------------------------

EDGES = (1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65)
EDGES += (4095, 4096, 4097, 8191, 8192, 8193, 10000)


def judged(got, reference, dtype, exact):
    return contract().judge(got, reference, "forward_accuracy", "lm_head", dtype, exact)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tile_edges_by_the_contract_and_across_batches(draw, dtype, schedule):
    """Case 1: one tile, several, and part of one; in 16 bits also H that no 16 divides."""
    op = AscendLMHeadOp(wb.KernelConfig(schedule=schedule, hidden_rows=2))
    for width in EDGES:
        hidden, weight, bias = draw((5, width), (7, width), (7,), seed=width, dtype=DTYPES[dtype])
        got = op(hidden, weight, bias)
        exact = hidden.double() @ weight.double().T + bias.double()
        gold = NativeLMHeadOp().forward_fp32(hidden, weight, bias)
        found = judged(got, gold, dtype, exact)
        assert found.passed and found.tolerance_ratio_exact <= 1, (width, found)
        for rows in (1, 2, 3, 4):
            assert (bits(op(hidden[:rows], weight, bias)) == bits(got)[:rows]).all(), (width, rows)
        # Control: with another last product it does not pass.
        weight[:, -1] += 8
        assert not judged(op(hidden, weight, bias), gold, dtype, exact).passed, width


# ---- bits --------------------------------------------------------------------------------------

SIZES = (1, 2, 4, 7, 8, 16, 17, 33, 64, 65, 129, 255, 256, 257, 300)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_row_in_every_batch_and_place(draw, dtype, schedule):
    """Case 4: the target row first, in the middle, last, and wherever a permutation puts it."""
    run = kernel(64, schedule=schedule)
    others, row, weight = draw((300, 200), (200,), (9, 200), dtype=DTYPES[dtype])
    alone = bits(run(row[None], weight))[0]
    g = torch.Generator().manual_seed(4)
    for size in SIZES:
        drawn = int(torch.randperm(size, generator=g)[0])
        for place in {0, size // 2, size - 1, drawn}:
            batch = others[:size].clone()
            batch[place] = row
            got = bits(run(batch, weight))
            np.testing.assert_array_equal(got[place], alone, f"{place} of {size}")
            if size > 1:  # control: the other rows are not this one
                assert (got[place - 1] != alone).any()
    batch = torch.cat([others, row[None]])
    order = torch.randperm(301, generator=g)
    np.testing.assert_array_equal(bits(run(batch[order], weight)), bits(run(batch, weight))[order])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_slices_of_many_rows(draw, dtype, schedule):
    """LN09 at (8, 32) rows, LN10 at (4, 10) and six rows of padding; passes of 3 rows."""
    run = kernel(64, schedule=schedule, hidden_rows=3)
    hidden, weight = draw((8, 32, 70), (11, 70), dtype=DTYPES[dtype])
    whole = bits(run(hidden, weight))
    for part in (slice(0, 1), slice(3, 5)):
        assert (bits(run(hidden[part], weight)) == whole[part]).all()
        assert (bits(run(hidden[:, part], weight)) == whole[:, part]).all()
    hidden, padding = hidden[:4, :10], hidden[4:, :6]
    for batch, at in (
        (torch.cat([hidden, padding], 1), slice(0, 10)),
        (torch.cat([padding, hidden], 1), slice(6, 16)),
    ):
        assert (bits(run(batch, weight))[:, at] == whole[:4, :10]).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("rows", "vocab"), [(1, 1), (1, 127), (8, 16), (43, 3), (5, 51), (1, 257)])
def test_block_edges_of_both_schedules(schedule, rows, vocab):
    """Case 2: N V = 1, 127, 128, 129, 255, 257, each also the other way round."""
    assert rows * vocab in (1, 127, 128, 129, 255, 257)
    for n, v in {(rows, vocab), (vocab, rows)}:
        for dtype, out in ENTRIES:
            hidden, weight = wild((n, 65), 1, dtype, 2), wild((v, 65), 2, dtype, 2)
            bias = wild(v, 3, dtype, 2)
            want = expected(hidden, weight, bias, arch="dav-2201", tile=64, out=out)
            for blocks in (1, 7, 128):
                run = kernel(64, max_blocks=blocks, schedule=schedule, hidden_rows=8)
                got = run(hidden, weight, bias, DTYPES[out])
                np.testing.assert_array_equal(bits(got), want, f"{n} x {v}, {blocks} blocks")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tiles_up_to_the_largest(arch, dtype, schedule):
    """Case 3: tile 64, some between, and the largest that the UB takes for this schedule."""
    base = wb.KernelConfig(arch=arch, schedule=schedule)
    largest = spec("lm_head").largest_tile(arch, dtype, base)
    width = 2 * largest + 65
    hidden, weight = wild((2, width), 1, dtype, 3), wild((3, width), 2, dtype, 3)
    for tile in (64, 192, 2048, largest):
        got = kernel(tile, arch, schedule=schedule)(hidden, weight)
        want = expected(hidden, weight, arch=arch, tile=tile)
        np.testing.assert_array_equal(bits(got), want, f"tile {tile}")
