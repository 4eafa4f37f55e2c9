"""Mistakes in the shipped LM head, by another text in its source: each is caught by a named test.

The named tests are called as they are; only the kernel that they build is another one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from ops import test_lm_head
from twin import test_lm_head_bits, test_lm_head_schedules

import workbench as wb
from controls import shipped_with
from workbench.numerics import TRANSFORMS
from workbench.ops import AscendLMHeadOp

OUTPUT, STATIONARY = "output", "weight_stationary"


def draw(*shapes, seed=0, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=g).to(dtype) for shape in shapes]


def model(dtype: str, out: str):
    """test_equals_the_model at tile 64: each schedule's own."""
    return {
        OUTPUT: lambda: test_lm_head_bits.test_equals_the_model("dav-2201", 64, dtype, out),
        STATIONARY: lambda: test_lm_head_schedules.test_equals_the_model_and_the_other_schedule(
            "dav-2201", (64, 4, 64), dtype, out
        ),
    }


def accuracy(dtype: torch.dtype):
    """test_forward_accuracy: the contract sees it, too. It has the default schedule and tile."""
    return {OUTPUT: lambda: test_lm_head.test_forward_accuracy(draw, dtype, True)}


def bias_columns(schedule: str):
    def run():
        op = AscendLMHeadOp(wb.KernelConfig(schedule=schedule))
        test_lm_head.test_a_bias_at_any_column(op, draw, torch.bfloat16, 11)

    return {schedule: run}


DROPPED = "width_ - begin <= kTile && begin > 0"  # the last tile of several

# name: (edits, the named tests that must fail)
MUTANTS = {
    "a tile dropped, output": (
        [
            (
                "sum += TileSum(TileElements(width_, begin));",
                "const float tile = TileSum(TileElements(width_, begin));"
                f"sum += {DROPPED} ? 0.0f : tile;",
            )
        ],
        [model("fp32", "fp32")[OUTPUT], model("bf16", "bf16")[OUTPUT]],
    ),
    "half a tile dropped, output": (
        [
            (
                "ReduceSum(partial, hidden, work, static_cast<int32_t>(count));",
                "ReduceSum(partial, hidden, work, static_cast<int32_t>(count + 1) / 2);",
            )
        ],
        [model("fp32", "fp32")[OUTPUT], accuracy(torch.float32)[OUTPUT]],
    ),
    "a tile dropped, weight_stationary": (
        [("AddRows(sums, partial, 1);", f"if (!({DROPPED})) AddRows(sums, partial, 1);")],
        [model("fp32", "fp32")[STATIONARY], model("fp16", "fp16")[STATIONARY]],
    ),
    "the bias of a whole data block's first column, output": (
        [("CopyIn(biasQue_, bias_, v, 1);", "CopyIn(biasQue_, bias_, v / 8 * 8, 1);")],
        [
            model("fp32", "fp32")[OUTPUT],
            bias_columns(OUTPUT)[OUTPUT],
            accuracy(torch.bfloat16)[OUTPUT],
        ],
    ),
    "the bias of a whole data block's first column, weight_stationary": (
        [
            (
                "CopyIn(biasQue_, bias_, firstColumn_, columns_);",
                "CopyIn(biasQue_, bias_, firstColumn_ / 8 * 8, columns_);",
            )
        ],
        [model("fp32", "fp32")[STATIONARY], bias_columns(STATIONARY)[STATIONARY]],
    ),
    "truncation for nearest even, output": (
        [
            (
                "Cast(out, total, RoundMode::CAST_RINT, 1);",
                "Cast(out, total, RoundMode::CAST_TRUNC, 1);",
            )
        ],
        [
            model("bf16", "bf16")[OUTPUT],
            model("fp16", "fp16")[OUTPUT],
            lambda: test_lm_head.test_forward_fp32_accuracy(draw, torch.bfloat16, False),
        ],
    ),
    "truncation for nearest even, weight_stationary": (
        [("CAST_RINT, columns_", "CAST_TRUNC, columns_")],
        [model("bf16", "bf16")[STATIONARY], model("fp16", "fp16")[STATIONARY]],
    ),
    "a sum that does not start anew, weight_stationary": (
        [
            (
                "Duplicate(sums, 0.0f,",
                "if (GetBlockIdx() == firstColumn_ / kWeightRows) Duplicate(sums, 0.0f,",
            )
        ],
        [lambda: test_lm_head_schedules.test_block_counts_change_nothing("bf16", "bf16")],
    ),
    "weight of the first tile for all, weight_stationary": (
        [("CopyWeight(begin + kTile);", "CopyWeight(0);")],
        [model("fp32", "fp32")[STATIONARY], model("bf16", "fp32")[STATIONARY]],
    ),
    "a stride that wraps, weight_stationary": (
        [("if (gap <= 0xffffffffu) {", "if (true) {")],
        [test_lm_head_schedules.test_rows_of_the_output_too_far_apart_for_a_stride],
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_named_test_catches_it(name, tmp_path):
    edits, named = MUTANTS[name]
    with shipped_with("lm_head", edits, tmp_path):
        for test in named:
            with pytest.raises((AssertionError, wb.TwinFault)):
                test()


def test_control_the_named_tests_pass_on_a_plain_copy(tmp_path):
    same = [("namespace lm_head {", "namespace lm_head {  // a copy")]
    with shipped_with("lm_head", same, tmp_path):
        built = wb.build("lm_head", backend="twin")
        assert Path(built.info.source).parent == tmp_path
        for test in (
            model("fp32", "fp32")[OUTPUT],
            model("bf16", "bf16")[STATIONARY],
            accuracy(torch.bfloat16)[OUTPUT],
            *bias_columns(OUTPUT).values(),
            *bias_columns(STATIONARY).values(),
            test_lm_head_schedules.test_rows_of_the_output_too_far_apart_for_a_stride,
        ):
            test()
    assert Path(wb.build("lm_head", backend="twin").info.source).parent != tmp_path


# ---- flaws that break batch invariance -----------------------------------------------------------

SUMMED = "ReduceSum(partial[column], product, work, static_cast<int32_t>(count));"


def split_if(condition: str) -> list[tuple[str, str]]:
    """A tile whose first repeat is summed apart where the condition holds: other last bits."""
    return [
        (
            SUMMED,
            f"""
            const int32_t n = static_cast<int32_t>(count);
            const int32_t head = ({condition}) && n > 64 ? 64 : n;
            ReduceSum(partial[column], product, work, head);
            if (head < n) {{
                const float first = partial.GetValue(column);
                ReduceSum(partial[column], product[head], work, n - head);
                partial.SetValue(column, first + partial.GetValue(column));
            }}
            """,
        )
    ]


# The first element of a row of hidden. The flaws are run in fp32 only.
FIRST_OF = (
    "    // As Output::Process.",
    """
    __aicore__ inline float FirstOf(uint64_t row) const {
        if constexpr (kIsFloat<In>) {
            return hidden_.GetValue(row * width_);
        }
        return 1.0f;
    }
    // As Output::Process.""",
)
TWINS = "rows_ > 1 && FirstOf(firstRow_) == FirstOf(firstRow_ + 1) && FirstOf(firstRow_) != 0.0f"

# name: (edits, transforms that must see it, those that must not)
FLAWS = {
    "sound": ([], (), TRANSFORMS),
    "by block count": (
        split_if("GetBlockNum() == 1"),
        ("T5",),
        ("T1", "T2", "T3", "T4", "T6", "T7"),
    ),
    "by rows of the pass": (split_if("rows_ < 3"), ("T1", "T5"), ()),
    "in the second pass": (split_if("firstRow_ > 0"), ("T1", "T2"), ()),
    "by padding": (
        [FIRST_OF, *split_if("FirstOf(firstRow_) == 0.0f")],
        ("T4",),
        ("T1", "T2", "T3", "T5", "T6", "T7"),
    ),
    "by twins": ([FIRST_OF, *split_if(TWINS)], ("T6",), ("T1", "T2", "T3", "T4", "T5", "T7")),
    "by neighbour": (
        [
            FIRST_OF,
            (
                "Sum(out);",
                "Sum(out); Adds(out, out, 0.0f * FirstOf(firstRow_), "
                "static_cast<int32_t>(rows_ * kLanes));",
            ),
        ],
        ("T3",),
        ("T1", "T2", "T4", "T5", "T6", "T7"),
    ),
    "by what out held": (
        [
            (
                "Sum(out);",
                "Sum(out); Adds(out, out, 0.0f * logits.GetValue(static_cast<uint64_t>(firstRow_) "
                "* vocab_), static_cast<int32_t>(rows_ * kLanes));",
            )
        ],
        ("T7",),
        (),
    ),
}


@pytest.mark.parametrize("name", FLAWS)
def test_flaws_of_the_weight_stationary_schedule(name, tmp_path):
    """T1 to T7, each with a flaw that it sees; most flaws are seen by nothing else."""
    edits, broken, kept = FLAWS[name]
    hidden, weight = draw((12, 4096), (9, 4096), seed=3)
    config = wb.KernelConfig(tile_length=512, schedule=STATIONARY, hidden_rows=5)
    with shipped_with("lm_head", edits, tmp_path):
        kernel = wb.build("lm_head", config, backend="twin")
        result = wb.invariance(kernel, hidden, weight)
    assert result.passed == (not broken)
    for transform in broken:
        found = result[transform]
        assert found.mismatches and not found.passed, transform
    for transform in kept:
        assert result[transform].passed, result[transform]


def test_every_transform_has_its_flaw():
    assert {t for _, broken, _ in FLAWS.values() for t in broken} == set(TRANSFORMS)
