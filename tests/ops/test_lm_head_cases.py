"""The cases of the LM head: which test has each one, and those that no other file has.

`COVERED` maps a row of the case table (LA…, LN…, CI…) or a point of the contract's list of cases
(Case 1 …) to tests; a test below reads it. The operator tests of test_lm_head.py are collected here
once more, for the weight-stationary schedule: the fixture `op` of this file gives it to them.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path

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
TESTS = Path(__file__).resolve().parent.parent

OPS, CASES, FULL = "ops/test_lm_head.py", "ops/test_lm_head_cases.py", "test_full_width.py"
BITS, BOTH = "twin/test_lm_head_bits.py", "twin/test_lm_head_schedules.py"
COVERED = {
    "LA01-03": [f"{OPS}::test_forward_accuracy"],
    "LA04-06": [f"{OPS}::test_forward_fp32_accuracy"],
    "LA07-09": [f"{OPS}::test_forward_accuracy", f"{OPS}::test_forward_fp32_accuracy"],
    "LA10-12": [f"{OPS}::test_leading_dims"],
    "LA13-15": [f"{OPS}::test_gradient_accuracy"],
    "LA16-18": [f"{OPS}::test_gradient_accuracy"],
    "LA19": [f"{OPS}::test_rows_do_not_see_the_batch_size"],
    "LA20": [f"{OPS}::test_rows_do_not_see_their_position"],
    "LA21": [f"{OPS}::test_repeats"],
    "LA22": [f"{OPS}::test_repeats"],
    "LA23": ["ops/test_registry.py"],
    "LA24": [f"{OPS}::test_empty"],
    "LN01": [f"{OPS}::test_each_row_as_if_it_were_alone"],
    "LN02": [f"{OPS}::test_the_caller_s_precision_is_ignored_and_restored"],
    "LN04": [f"{OPS}::test_representative_shape"],
    "LN05": [f"{OPS}::test_representative_shape"],
    "LN06": [f"{OPS}::test_leading_dims"],
    "LN07": [f"{OPS}::test_empty"],
    "LN08": [f"{OPS}::test_bias_is_added_once"],
    "LN09": [f"{OPS}::test_slices_and_padding", f"{CASES}::test_slices_of_many_rows"],
    "LN10": [f"{OPS}::test_slices_and_padding", f"{CASES}::test_slices_of_many_rows"],
    "LN11": [f"{OPS}::test_inputs_are_not_changed"],
    "LN12": [f"{OPS}::test_gradient_closed_form"],
    "LN13": [f"{FULL}::test_short_and_primary_representative_cases", f"{FULL}::test_accuracy"],
    "CI01": [
        f"{FULL}::test_short_and_primary_representative_cases",
        f"{FULL}::test_time_and_memory_of_a_call",
        f"{FULL}::test_every_form_has_the_bits_of_the_canonical_one",
        f"{FULL}::test_accuracy",
    ],
    "Case 1: several tiles, tile edges": [
        f"{CASES}::test_tile_edges_by_the_contract_and_across_batches",
        f"{BITS}::test_equals_the_model",
        f"{BOTH}::test_equals_the_model_and_the_other_schedule",
    ],
    "Case 2: block edges, V = 1, N V beyond 2^31": [
        f"{BITS}::test_block_edges",
        f"{BITS}::test_more_outputs_than_32_bits_count",
        f"{BOTH}::test_groups_and_passes_of_every_size",
        f"{BOTH}::test_more_outputs_than_32_bits_count",
        f"{CASES}::test_block_edges_of_both_schedules",
    ],
    "Case 3: MAX_BLOCKS, TILE_LENGTH": [
        f"{BITS}::test_block_edges",
        f"{BOTH}::test_block_counts_change_nothing",
        f"{CASES}::test_tiles_up_to_the_largest",
        "build/test_refused.py::test_the_largest_tile_runs_and_fills_the_ub_as_the_spec_says",
    ],
    "Case 4: batch sizes, places in them": [f"{CASES}::test_a_row_in_every_batch_and_place"],
    "Case 5: special values, hard sums, overflow": [
        f"{BITS}::test_special_values",
        f"{BITS}::test_hard_sums",
        f"{BITS}::test_fp16_overflow_and_its_edge",
        f"{BITS}::test_flush_to_zero_in_the_caller_changes_nothing",
        f"{BOTH}::test_special_values",
    ],
    "Case 6: strides, offsets, empty": [
        f"{OPS}::test_strides_and_offsets",
        f"{OPS}::test_empty",
        f"{OPS}::test_a_zero_upstream_gradient",
        f"{BOTH}::test_nothing_to_sum_and_nothing_to_write",
    ],
    "Case 7: errors": ["ops/test_inputs.py::test_wrong_inputs"],
    "Case 8: bias": [
        f"{OPS}::test_a_bias_at_any_column",
        f"{OPS}::test_gradient_accuracy",
        f"{OPS}::test_gradient_of_forward_fp32",
    ],
    "Mutations": ["controls/test_mutants.py::test_a_named_test_catches_it"],
    "Controls of T1-T7": [
        "controls/test_flawed.py::test_each_is_caught_by_name",
        "controls/test_mutants.py::test_flaws_of_the_weight_stationary_schedule",
    ],
}
# Not here: LN03 is of CUDA; Case 9, gradient invariance: numerics/test_invariance_operators.py;
# Case 10, the extension and the registry: build/ and ops/test_registry.py.


@pytest.fixture
def op():
    """The operator with the other schedule, a small pass and an odd number of weight rows."""
    rows = {"weight_rows": 3, "hidden_rows": 4}
    return AscendLMHeadOp(wb.KernelConfig(schedule="weight_stationary", **rows))


@functools.cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_case_names_tests_that_exist():
    for case, named in COVERED.items():
        for name in named:
            file, _, function = name.partition("::")
            assert (TESTS / file).is_file(), (case, name)
            assert not function or function in functions_of(file), (case, name)
    assert "test_no_such_thing" not in functions_of(OPS)  # the control
    # Every row of the table that is to be adopted, and every point of the list.
    ids = {f"LA{i:02}" for i in range(1, 25)} | {f"LN{i:02}" for i in range(1, 14)} | {"CI01"}
    assert len(COVERED) == len(set(COVERED))
    found = set()
    for case in COVERED:
        first, _, last = case.partition("-")
        if case[:2] in ("LA", "LN", "CI"):
            numbers = range(int(first[2:]), int(last or first[2:]) + 1)
            found |= {f"{case[:2]}{i:02}" for i in numbers}
    assert found == ids - {"LN03"}
    assert {c.split(":")[0] for c in COVERED if c[:5] == "Case "} == {
        f"Case {i}" for i in range(1, 9)
    }


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
