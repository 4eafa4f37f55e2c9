"""Every operator, forward and gradient, broken in one way each: exactly that transform sees it.

The operators are the real ones on the twin; what breaks them stands around them.
"""

from __future__ import annotations

import functools

import pytest
import torch
from helpers import skip_unless_mkl_on_avx512

import workbench as wb
from workbench.numerics.adapters import drawn_inputs, operator_invariance, operator_rows
from workbench.ops import registry

FORWARD, GRADIENT = "forward_invariance", "gradient_invariance"
QUICK = {
    "sizes": (1, 2, 7, 17, 64, 65),
    "position_sizes": (17, 130),
    "chunks": (1, 3, 7),
    "max_blocks": (3,),
}
SIZES = {"rows": 20, "width": 24, "vocab": 11}

each_op = pytest.mark.parametrize("op", registry.ops())
each_judgement = pytest.mark.parametrize("judgement", [FORWARD, GRADIENT])


@functools.cache
def subject(op: str, judgement: str):
    return operator_rows(op, gradient=judgement == GRADIENT)


@functools.cache
def inputs(op: str, judgement: str):
    return drawn_inputs(op, gradient=judgement == GRADIENT, **SIZES)


def judge(op, judgement, fn, **options):
    return operator_invariance(
        op, judgement=judgement, fn=fn, inputs=inputs(op, judgement), **{**QUICK, **options}
    )


def failed(result) -> set[str]:
    return {t.name for t in result.transforms if not t.passed}


def flip(out: torch.Tensor, where=...) -> torch.Tensor:
    """The lowest bit of every element (or of `where`) turned over."""
    out = out.clone()
    out.view({2: torch.int16, 4: torch.int32}[out.element_size()])[where] ^= 1
    return out


class Broken:
    """An operator whose results `flaw(out, rows, others)` changes."""

    def __init__(self, fn, flaw):
        self.fn, self.flaw = fn, flaw
        self.fills_memory = True

    def __call__(self, rows, *others):
        return self.flaw(self.fn(rows, *others), rows, others)


# ---- one flaw for each transform -----------------------------------------------------------------


def by_batch_size(out, rows, others):
    return flip(out) if rows[..., 0].numel() in (64, 65) else out


def by_position(out, rows, others):
    return flip(out, slice(100, None))


def by_neighbour(out, rows, others):
    return out if rows.isfinite().all() else flip(out)


def by_left_padding(out, rows, others):
    first = rows.reshape(-1, rows.shape[-1])[0]
    return out if first.any() else flip(out)


def by_chunk(out, rows, others):
    return flip(out) if len(rows) == 3 else out


def by_storage(out, rows, others):
    return out if rows.is_contiguous() else flip(out)


def by_equal_rows(out, rows, others):
    pairs = len(rows) == 16 and torch.equal(rows[0::2], rows[1::2])
    return flip(out, slice(1, None, 2)) if pairs else out


class ByRepeat:
    def __init__(self):
        self.last = torch.empty(0)

    def __call__(self, out, rows, others):
        again = torch.equal(rows, self.last)
        self.last = rows.clone()
        return flip(out) if again and len(rows) == 16 else out  # T6 gives 8 rows twice


class OneBuffer:
    """Every result is a view of the same memory."""

    def __init__(self):
        self.buffers = {}

    def __call__(self, out, rows, others):
        flat = out.reshape(-1)
        buffer = self.buffers.setdefault(out.dtype, torch.empty(1 << 17, dtype=out.dtype))
        return buffer[: flat.numel()].copy_(flat).reshape(out.shape)


def by_new_memory(out, rows, others):
    """Reads memory that nobody wrote; usually that does no harm."""
    block = torch.empty(54321)
    full = block.isnan().all()
    block.zero_()  # the next call may get the same memory
    return flip(out) if full else out


FLAWS = {
    "batch size": (by_batch_size, "T1"),
    "position": (by_position, "T2"),
    "neighbour": (by_neighbour, "T3"),
    "left padding": (by_left_padding, "T4"),
    "chunk": (by_chunk, "T5"),
    "storage": (by_storage, "T6"),
    "equal rows": (by_equal_rows, "T6"),
    "repeat": (ByRepeat, "T7"),
    "one buffer": (OneBuffer, "T7"),
    "new memory": (by_new_memory, "T7"),
}


@pytest.mark.parametrize("flaw", FLAWS)
@each_judgement
@each_op
def test_exactly_one_transform_sees_it(op, judgement, flaw):
    how, name = FLAWS[flaw]
    fn = Broken(subject(op, judgement), how() if isinstance(how, type) else how)
    result = judge(op, judgement, fn, leading_dims=False)
    assert failed(result) == {name}, str(result)
    first = result[name].first_mismatch
    assert first["row"] in result.active and first["expected_bits"] != first["got_bits"]
    assert result[name].mismatches >= result[name].failed_cases >= 1


@each_judgement
@each_op
def test_control_of_the_controls(op, judgement):
    fn = Broken(subject(op, judgement), lambda out, rows, others: out)
    assert failed(judge(op, judgement, fn, leading_dims=False)) == set()


# ---- schedules -----------------------------------------------------------------------------------


class OneBuild:
    """An operator of which the build that `label` names is broken."""

    def __init__(self, fn, label):
        self.fn, self.label = fn, label

    def __call__(self, rows, *others):
        return self.fn(rows, *others)

    def schedules(self, dtype, max_blocks):
        for label, other in self.fn.schedules(dtype, max_blocks):
            flaw = by_any if label == self.label else as_it_is
            yield label, Broken(other, flaw)


def by_any(out, rows, others):
    return flip(out)


def as_it_is(out, rows, others):
    return out


BUILDS = {
    "lm_head": {"max_blocks 3", "schedule 1"},
    "batch_invariant_logp": {"max_blocks 3"},
    "det_gemm": {"max_blocks 3", "tile_length 64", "rows 1"},
    "linear_logp": {
        "lm_head: max_blocks 3",
        "lm_head: schedule 1",
        "batch_invariant_logp: max_blocks 3",
        "logits a row at a time",
    },
}


@each_judgement
@each_op
def test_a_build_that_changes_bits_is_seen(op, judgement):
    labels = {label for label, _ in subject(op, judgement).schedules(torch.float32, (3,))}
    assert labels >= BUILDS[op]
    for label in BUILDS[op]:
        fn = OneBuild(subject(op, judgement), label)
        result = judge(op, judgement, fn, transforms="T5")
        assert failed(result) == {"T5"} and result["T5"].failed_cases == 1
        assert result["T5"].first_mismatch["case"] == label


@pytest.mark.parametrize("op", ["lm_head", "batch_invariant_logp", "det_gemm"])
def test_a_real_build_that_changes_bits_is_seen(op):
    """Not by a flipped bit: the constant that does decide bits, passed off as one that does not."""
    name, value = ("leaf_length", 16) if op == "det_gemm" else ("tile_length", 256)
    config = wb.KernelConfig(**{name: value})

    class Flawed(OneBuild):
        def schedules(self, dtype, max_blocks):
            yield "another order", operator_rows(op, config)

    wide = drawn_inputs(op, rows=8, width=1000, vocab=1000 if "logp" in op else 33)
    result = operator_invariance(op, fn=Flawed(operator_rows(op), ""), inputs=wide, transforms="T5")
    assert failed(result) == {"T5"}
    assert result["T5"].first_mismatch["case"] == "another order"


# ---- arithmetic that a kernel might really do ----------------------------------------------------


def halves(fn, rows, weight, *others, gradient: bool):
    """The sum in two halves: over V for a gradient of the rows, over H (or K) for a result."""
    if gradient:
        (upstream,) = others
        half = len(weight) // 2
        parts = [slice(None, half), slice(half, None)]
        a, b = (fn(rows, weight[p], upstream[..., p]) for p in parts)
    else:
        half = weight.shape[1] // 2
        parts = [slice(None, half), slice(half, None)]
        a, b = (fn(rows[..., p], weight[:, p]) for p in parts)
    return a + b


@each_judgement
@pytest.mark.parametrize("op", ["lm_head", "det_gemm"])
def test_a_sum_split_in_large_batches(op, judgement):
    """What split-K heuristics do: another association of the same sum, by the size of the batch."""
    fn = subject(op, judgement)

    def split_k(rows, *others):
        if len(rows) == 64:
            return halves(fn, rows, *others, gradient=judgement == GRADIENT)
        return fn(rows, *others)

    result = judge(op, judgement, split_k, leading_dims=False)
    assert failed(result) == {"T1"}
    assert result["T1"].first_mismatch["case"].startswith("batch of 64")


@each_judgement
@pytest.mark.parametrize("op", ["batch_invariant_logp", "linear_logp"])
def test_a_log_sum_exp_of_other_order_in_large_batches(op, judgement):
    """The same results from torch's own order, where the batch has 64 rows."""
    fn = subject(op, judgement)
    native = operator_rows(op, impl="native", gradient=judgement == GRADIENT)

    def other_order(rows, *others):
        return (native if len(rows) == 64 else fn)(rows, *others)

    wide = drawn_inputs(op, gradient=judgement == GRADIENT, rows=20, width=64, vocab=1000)
    result = operator_invariance(
        op, judgement=judgement, fn=other_order, inputs=wide, leading_dims=False, **QUICK
    )
    assert failed(result) == {"T1"}


@each_op
def test_the_sign_of_a_zero_gradient(op):
    """A rows' gradient of +0 that is -0 in large batches: equal as numbers, not as bits."""

    def other_zero(out, rows, others):
        return torch.where(out == 0, -out, out) if len(rows) in (64, 65) else out

    fn = subject(op, GRADIENT)
    result = judge(op, GRADIENT, Broken(fn, other_zero), leading_dims=False)
    assert failed(result) == {"T1"}
    first = result["T1"].first_mismatch
    assert {first["expected_bits"], first["got_bits"]} == {"0x00000000", "0x80000000"}


@each_op
def test_a_leak_through_the_upstream(op):
    """A gradient that takes 0 times the upstream of its neighbours: NaN there becomes NaN here."""

    def leaks(out, rows, others):
        upstream = others[-1]
        return out + 0 * torch.where(upstream.isfinite(), 0, upstream).sum()

    result = judge(op, GRADIENT, Broken(subject(op, GRADIENT), leaks), leading_dims=False)
    assert "T3" in failed(result)
    assert result["T3"].first_mismatch["got_bits"] == "0x7fc00000"


@pytest.mark.parametrize("op", ["batch_invariant_logp", "linear_logp"])
@each_judgement
def test_a_target_that_stays_behind(op, judgement):
    """Rows are moved and their targets are not: every transform that moves rows sees it."""
    fn = subject(op, judgement)
    known = inputs(op, judgement).row_inputs[0]

    def stays(rows, *others):
        at = 0 if op == "batch_invariant_logp" else 1
        n, vocab = rows[..., 0].numel(), rows.shape[-1] if at == 0 else len(others[0])
        target = known[torch.arange(n) % len(known)] % vocab
        return fn(rows, *others[:at], target, *others[at + 1 :])

    result = judge(op, judgement, stays, leading_dims=False)
    assert failed(result) >= {"T2", "T3", "T6"}


@pytest.mark.parametrize("op", ["lm_head", "batch_invariant_logp", "det_gemm"])
def test_the_out_of_the_kernel_is_poisoned(op):
    """T7 hands the kernel buffers full of NaN. A kernel that leaves a column of them is seen."""
    from workbench.numerics.adapters import KernelRows

    class LeavesAColumn(KernelRows):
        def __call__(self, rows, *others, out=None, **call):
            if out is None:
                return super().__call__(rows, *others, **call)
            last = out[..., -1].clone()
            super().__call__(rows, *others, out=out, **call)
            out[..., -1] = last
            return out

    sound = operator_rows(op)
    assert isinstance(sound, KernelRows)
    result = judge(op, FORWARD, sound, transforms="T7")
    assert result.passed and result["T7"].cases == 11
    fn = LeavesAColumn(op, sound.operator, options=sound.options, configs=sound.configs)
    result = judge(op, FORWARD, fn, transforms="T7")
    assert failed(result) == {"T7"}
    assert result["T7"].first_mismatch["got_bits"] == "0x7feddead"


@pytest.mark.parametrize("op", ["lm_head", "linear_logp"])
def test_matmul_backward_is_caught_where_the_library_is_known(op):
    """`backward="matmul"` sums in the library's order, which changes with the batch."""
    fn = operator_rows(op, gradient=True, backward="matmul")
    wide = drawn_inputs(op, gradient=True, rows=20, width=96, vocab=257)
    result = operator_invariance(op, judgement=GRADIENT, fn=fn, inputs=wide, transforms="T1")
    skip_unless_mkl_on_avx512("no mismatch" if result.passed else result["T1"].first_mismatch)
    assert not result.passed
