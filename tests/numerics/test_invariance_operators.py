"""Forward and gradient invariance of every operator in every dtype, on raw bits, on the twin.

The names BL…, DL…, LP…, LA…, LN… are rows of the case table.
"""

from __future__ import annotations

import functools

import pytest
import torch
from helpers import DTYPES

import workbench as wb
from workbench.errors import ConfigError, InputError
from workbench.numerics import TRANSFORMS
from workbench.numerics.adapters import (
    OperatorInputs,
    drawn_inputs,
    operator_inputs,
    operator_invariance,
    operator_rows,
)
from workbench.numerics.invariance import SIZES
from workbench.ops import registry

FORWARD, GRADIENT = "forward_invariance", "gradient_invariance"

each_op = pytest.mark.parametrize("op", registry.ops())
each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_judgement = pytest.mark.parametrize("judgement", [FORWARD, GRADIENT])
logp = functools.partial(operator_invariance, "batch_invariant_logp")
lm_head = functools.partial(operator_invariance, "lm_head")


def several_tiles(op: str, arch: str = "dav-2201") -> wb.KernelConfig:
    """A configuration under which the small shapes of these tests take more than one tile."""
    name = "leaf_length" if op == "det_gemm" else "tile_length"
    return wb.KernelConfig(arch=arch, **{name: 16 if op == "det_gemm" else 64})


# ---- the four judgements' two on raw bits, for every operator and dtype --------------------------


@each_dtype
@each_judgement
@each_op
def test_every_bit_is_kept(op, judgement, dtype):
    """Cases 4, 9 and every transform: 4 operators, 3 dtypes, forward and gradient; in one dtype
    every size of the judge, in the others some."""
    few = {"sizes": (1, 2, 7, 16, 65, 300), "position_sizes": (17, 129)}
    result = operator_invariance(
        op,
        several_tiles(op),
        judgement=judgement,
        dtype=dtype,
        width=150,
        vocab=131,
        max_blocks=(1, 3, 40),
        **({} if dtype == "bf16" else few),
    )
    assert dtype != "bf16" or result["T1"].cases >= len(SIZES) >= 15
    assert [t.name for t in result.transforms] == list(TRANSFORMS)
    assert all(t.mismatches == 0 and t.elements > 0 for t in result.transforms), str(result)
    assert result.passed and result["T5"].cases >= 4 + 2  # chunks, and other builds
    assert (result.op, result.judgement, result.dtype) == (op, judgement, str(DTYPES[dtype])[6:])
    assert (result.evidence.backend, result.evidence.arch) == ("twin", "dav-2201")
    forward_dtype = torch.float32 if "logp" in op else DTYPES[dtype]
    wanted = DTYPES[dtype] if judgement == GRADIENT else forward_dtype
    assert result.out_dtype == str(wanted)[6:]


@each_judgement
@each_op
def test_every_bit_is_kept_on_the_other_architecture(op, judgement):
    result = operator_invariance(
        op,
        several_tiles(op, "dav-3510"),
        judgement=judgement,
        sizes=(1, 2, 33),
        position_sizes=(17,),
        max_blocks=(1, 3),
    )
    assert result.passed, str(result)
    assert result.evidence.arch == "dav-3510"


@each_judgement
def test_a_bias_and_fp32_logits_of_16_bit_inputs(judgement):
    for bias in (False, True):
        result = lm_head(
            judgement=judgement,
            dtype="bf16",
            bias=bias,
            out_dtype=torch.float32,
            sizes=(1, 2, 17),
            max_blocks=(1, 3),
        )
        assert result.passed, str(result)
        assert result.out_dtype == ("float32" if judgement == FORWARD else "bfloat16")


# ---- rows of the case table ----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_bl02_bl14_batch_sizes(dtype):
    """BL02, BL14: a row alone and in batches of 2 to 128, V 1024, several tiles and one."""
    for config in (None, wb.KernelConfig(tile_length=64)):
        result = logp(
            config,
            dtype=dtype,
            vocab=1024,
            transforms="T1",
            sizes=(1, 2, 4, 8, 16, 32, 64, 128),
        )
        assert result.passed and result.shape == (20, 1024, 2), str(result)


def test_bl03_every_position_of_16():
    """BL03: each row of 16 at each of 16 places."""
    inputs = drawn_inputs("batch_invariant_logp", rows=16, vocab=257)
    run = operator_rows("batch_invariant_logp", several_tiles("batch_invariant_logp"))
    logits, (target,) = inputs.rows, inputs.row_inputs
    alone = torch.cat([run(logits[i : i + 1], target[i : i + 1]) for i in range(16)])
    for turn in range(16):
        order = [(i + turn) % 16 for i in range(16)]
        found = wb.numerics.compare_bits(alone[order], run(logits[order], target[order]))
        assert found.equal, (turn, str(found))


@each_judgement
def test_bl04_twenty_neighbourhoods(judgement):
    """BL04: other random, NaN and Inf neighbours from each of 20 seeds; the rows stay the same."""
    inputs = drawn_inputs("batch_invariant_logp", vocab=257, gradient=judgement == GRADIENT)
    ids = set()
    for seed in range(20):
        result = logp(judgement=judgement, inputs=inputs, transforms="T3", seed=seed)
        assert result.passed and result["T3"].cases == 5, str(result)
        ids.add(result.evidence.fixture_id)
    assert len(ids) == 1


@each_judgement
def test_bl05_padding(judgement):
    """BL05: sequences padded on the left and on the right, with zeros and with anything."""
    result = logp(judgement=judgement, vocab=257, transforms="T4")
    assert result.passed and result["T4"].cases == 8, str(result)


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_bl06_bl14_fifty_repeats(dtype):
    """BL06, BL14: 50 repeats of one call."""
    result = logp(dtype=dtype, vocab=1024, transforms="T7", repeats=50)
    assert result.passed and result["T7"].cases >= 50, str(result)


@each_dtype
def test_bl09_lp05_gradients_in_batches(dtype):
    """BL09: the gradient of a row in batches of 4, 16 and 64. LP05: gradients are row-local."""
    inputs = drawn_inputs("batch_invariant_logp", dtype, gradient=True, rows=64, vocab=1024)
    result = logp(judgement=GRADIENT, dtype=dtype, inputs=inputs, sizes=(1, 4, 16, 64))
    assert result.passed, str(result)


@pytest.mark.parametrize(("batch", "position"), [(1, 0), (2, 1), (4, 2), (8, 5), (16, 11)])
def test_dl02_batch_and_position(batch, position):
    """DL02: one bf16 row at a position of a batch."""
    run = operator_rows("batch_invariant_logp")
    inputs = drawn_inputs("batch_invariant_logp", "bf16", rows=16, vocab=4099)
    logits, target = inputs.rows, inputs.row_inputs[0].clamp(min=0)
    alone = run(logits[:1], target[:1])
    order = [*range(1, position + 1), 0, *range(position + 1, batch)]
    got = run(logits[order], target[order])[position : position + 1]
    assert wb.numerics.compare_bits(alone, got).equal


@each_judgement
def test_lp03_300_rows(judgement):
    """LP03: 300 rows, more than blocks, so that a block has several; seed 13."""
    result = logp(
        judgement=judgement,
        rows=300,
        vocab=257,
        seed=13,
        sizes=(1, 300),
        position_sizes=(300,),
        max_blocks=(1, 7, 128, 256),
    )
    assert result.passed, str(result)


@each_judgement
def test_la19_batches_up_to_300(judgement):
    """LA19: bf16, V 129, H 1000, seed 7: a row alone and in batches of 2, 4, 16, 300."""
    result = lm_head(
        judgement=judgement,
        dtype="bf16",
        width=1000,
        vocab=129,
        seed=7,
        transforms="T1",
        sizes=(1, 2, 4, 16, 300),
    )
    assert result.passed, str(result)


def test_la20_positions():
    """LA20: fp16, seed 11: a row at every position of 8."""
    run = operator_rows("lm_head")
    inputs = drawn_inputs("lm_head", "fp16", rows=8, width=1000, vocab=129, seed=11)
    first = run(inputs.rows[:1], inputs.weight)
    for position in range(1, 8):
        got = run(inputs.rows.roll(position, 0), inputs.weight)[position : position + 1]
        assert wb.numerics.compare_bits(first, got).equal, position


@pytest.mark.parametrize(
    ("dtype", "rows", "width"), [("fp32", 4, 10000), ("bf16", 15, 1000)], ids=["LA21", "LA22"]
)
def test_la21_la22_repeats(dtype, rows, width):
    """LA21: three tiles, two runs. LA22: (3, 5) rows, three runs. Seed 5."""
    result = lm_head(dtype=dtype, rows=rows, width=width, vocab=129, seed=5, transforms="T7")
    assert result.passed and result["T7"].cases >= 5, str(result)


def test_ln09_ln10_slices_and_padding_rows():
    """LN09: [:1] and [3:5] of (8, 32). LN10: (4, 10) and 6 rows of padding."""
    inputs = drawn_inputs("lm_head", rows=256, width=64, vocab=17)
    hidden = inputs.rows.reshape(8, 32, 64)
    run = operator_rows("lm_head")
    whole = run(hidden, inputs.weight)
    for part in (slice(0, 1), slice(3, 5)):
        assert wb.numerics.compare_bits(whole[part], run(hidden[part], inputs.weight)).equal
    short = hidden[:4, :10]
    for content in (0.0, float("nan")):
        padded = torch.full((4, 16, 64), content)
        padded[:, :10] = short
        got = run(padded, inputs.weight)[:, :10]
        assert wb.numerics.compare_bits(run(short, inputs.weight), got).equal


# ---- what the gradient of what is shared does ----------------------------------------------------


def test_the_gradient_of_the_weight_has_one_order_and_that_is_of_the_batch():
    """grad_weight sums over rows: repeats and block counts keep its bits, another order of the rows
    does not. So it is no row's property and stands outside the judgement."""
    g = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(40, 64, generator=g), torch.randn(33, 64, generator=g)
    upstream = torch.randn(40, 33, generator=g)

    def grad_weight(order, blocks=128):
        op = wb.ops.AscendLMHeadOp(wb.KernelConfig(max_blocks=blocks), "twin")
        w = weight.clone().requires_grad_()
        op(hidden[order], w).backward(upstream[order])
        return w.grad

    rows = torch.arange(40)
    base = grad_weight(rows)
    assert wb.numerics.compare_bits(base, grad_weight(rows)).equal
    assert wb.numerics.compare_bits(base, grad_weight(rows, blocks=3)).equal
    assert not wb.numerics.compare_bits(base, grad_weight(rows.flip(0))).equal


# ---- inputs, names, refusals ---------------------------------------------------------------------


@each_judgement
@each_op
def test_the_inputs_reach_what_matters(op, judgement):
    """Ignored targets, zero upstreams and their neighbours are among the rows that are compared."""
    inputs = drawn_inputs(op, gradient=judgement == GRADIENT)
    active = torch.linspace(0, 19, 8).long()
    whole = [t for t in inputs.row_inputs if not t.is_floating_point()]
    upstream = [t for t in inputs.row_inputs if t.is_floating_point()]
    assert len(whole) == ("logp" in op)
    for target in whole:
        assert (target[active] == -100).any() and (target[active] >= 0).any()
    assert len(upstream) == (0 if judgement == FORWARD else 2 if "logp" in op else 1)
    for gradient in upstream:
        zero = gradient[active] == 0
        assert zero.any() and not zero.all() and gradient[active][zero].signbit().all()


@each_op
def test_a_first_mismatch_says_where(op):
    """Row, token and vocabulary id, of a bit flipped on purpose in one output."""
    run = operator_rows(op)
    inputs = drawn_inputs(op, rows=20)
    inputs = OperatorInputs(
        inputs.rows.unflatten(0, (4, 5)),
        inputs.weight,
        tuple(t.unflatten(0, (4, 5)) for t in inputs.row_inputs),
    )

    def flips(rows, *others):
        out = run(rows, *others).clone()
        if len(rows) == 16:
            out.view(torch.int32)[4, 1] ^= 1  # the fifth active row: row 10, (2, 0)
        return out

    result = operator_invariance(
        op, fn=flips, inputs=inputs, transforms="T1", sizes=(16,), leading_dims=False
    )
    (found,) = result.transforms
    first = found.first_mismatch
    assert (found.mismatches, first["row"], first["index"]) == (1, 10, [2, 0])
    assert int(first["expected_bits"], 16) ^ int(first["got_bits"], 16) == 1
    wanted = {
        "lm_head": ("vocab_id", 1),
        "batch_invariant_logp": (
            "lse",
            int(inputs.row_inputs[0][2, 0]) if inputs.row_inputs else 0,
        ),
        "det_gemm": ("column", None),
        "linear_logp": ("lse", int(inputs.row_inputs[0][2, 0]) if inputs.row_inputs else 0),
    }[op]
    assert (first["column_name"], first["vocab_id"], first["column"]) == (*wanted, 1)
    assert f"{wanted[0] if wanted[0] != 'vocab_id' else 'id'} 1" in result._repr_html_()


def test_native_references_are_judged_too():
    result = operator_invariance("lm_head", impl="native", sizes=(1, 2, 17), position_sizes=(17,))
    assert result.evidence.target == "NativeLMHeadOp" and result.evidence.backend is None
    assert result["T5"].cases == 4  # chunks: there is nothing to build


def test_refusals():
    for call, error, match in (
        (lambda: operator_invariance("softmax"), InputError, "softmax.*lm_head"),
        (lambda: lm_head(judgement="forward_accuracy"), InputError, "gradient_invariance"),
        (lambda: lm_head(dtype="fp8"), InputError, "fp8.*bf16"),
        (lambda: lm_head(impl="cuda"), InputError, "cuda.*native"),
        (lambda: lm_head(wb.KernelConfig(), impl="native"), InputError, "no configuration"),
        (lambda: lm_head(wb.KernelConfig(tile_length=65)), ConfigError, "multiple of 64"),
        (
            lambda: operator_rows("lm_head", logp_config=wb.KernelConfig()),
            ConfigError,
            "logp_config",
        ),
        (lambda: operator_inputs("lm_head", torch.ones(2, 3)), InputError, "weight"),
        (lambda: operator_inputs("linear_logp", torch.ones(2, 3)), InputError, "target"),
    ):
        with pytest.raises(error, match=match):
            call()
