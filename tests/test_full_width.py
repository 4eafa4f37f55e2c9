"""The fixed Qwen3-8B workload at its full width on the twin: H 4096, V 151,936, bf16, no bias.

Four samples of 11, 16, 13 and 19 tokens, packed to 59; of each the tokens after a prompt of 8 are
active, 27 in all. The same tokens are run packed, permuted, in chunks and padded, all with the
weight-stationary schedule, which is the quicker one here; "output" runs a part of the columns. No
work is left out: every form computes all its rows and all columns; `linear_logp` the rows of the
active tokens, whose log-probs it is asked for. Times are of the twin.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import pytest
import torch
from controls import Flawed
from helpers import kernel

import workbench as wb
from workbench.numerics.bits import compare_bits
from workbench.numerics.contract import contract
from workbench.ops import AscendBatchInvariantLogpOp, AscendLinearLogpOp, NativeLMHeadOp
from workbench.orders.linear import linear
from workbench.orders.logp import logp

pytestmark = [pytest.mark.slow, pytest.mark.serial]

SEED = 20260812
LENGTHS, PROMPT = (11, 16, 13, 19), 8
TOKENS = sum(LENGTHS)
PERMUTATION, CHUNK, PADDED = (2, 0, 3, 1), 7, 20
MIB = 1 << 20
ALLOWANCE = 64 * MIB  # beside inputs and outputs

STARTS = [sum(LENGTHS[:i]) for i in range(len(LENGTHS))]
ACTIVE = [s + k for s, length in zip(STARTS, LENGTHS, strict=True) for k in range(PROMPT, length)]


@pytest.fixture(scope="module")
def sample():
    return wb.samples.qwen3(rows=TOKENS, seed=SEED)


@pytest.fixture(scope="module")
def head():
    return kernel(schedule="weight_stationary")


@pytest.fixture(scope="module")
def canonical(sample, head):
    return head(sample.hidden, sample.weight)


def permuted(hidden):
    """[59, H] with the samples in another order, and where each token went."""
    order = [STARTS[i] + k for i in PERMUTATION for k in range(LENGTHS[i])]
    return [hidden[order]], torch.tensor(order).argsort()


def chunked(hidden):
    return list(hidden.split(CHUNK)), torch.arange(TOKENS)


def padded(hidden, side):
    """[4, 20, H] with other rows as padding."""
    batch = torch.randn(len(LENGTHS), PADDED, hidden.shape[1], generator=torch.manual_seed(SEED))
    batch, at = batch.to(hidden.dtype), []
    for i, length in enumerate(LENGTHS):
        first = PADDED - length if side == "left" else 0
        batch[i, first : first + length] = hidden[STARTS[i] : STARTS[i] + length]
        at += range(i * PADDED + first, i * PADDED + first + length)
    return [batch], torch.tensor(at)


FORMS = {
    "permuted": permuted,
    "chunked": chunked,
    "padded left": lambda hidden: padded(hidden, "left"),
    "padded right": lambda hidden: padded(hidden, "right"),
}


def in_form(name, run, hidden, weight) -> torch.Tensor:
    """Logits [59, V] in canonical order, out of another form of the batch."""
    batches, at = FORMS[name](hidden)
    out = [run(batch, weight).reshape(-1, len(weight)) for batch in batches]
    return (out[0] if len(out) == 1 else torch.cat(out))[at]


def status(field: str) -> int:
    """A line of /proc/self/status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) << 10
    raise AssertionError(field)


def test_the_workload_is_the_one_of_the_contract(sample):
    assert (TOKENS, len(ACTIVE), sample.hidden.shape) == (59, 27, (59, 4096))
    assert sample.weight.shape == (151936, 4096) and sample.weight.dtype == torch.bfloat16
    assert [len(b) for b in chunked(sample.hidden)[0]] == [7] * 8 + [3]
    for name in FORMS:  # each form has every token, in its place
        batches, at = FORMS[name](sample.hidden)
        flat = torch.cat([b.reshape(-1, 4096) for b in batches])
        assert compare_bits(sample.hidden, flat[at]).equal, name
        assert name == "chunked" or not compare_bits(sample.hidden, flat[:TOKENS]).equal


@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_the_bits_of_the_canonical_one(
    sample, head, canonical, name, record_property
):
    begin = time.perf_counter()
    got = in_form(name, head, sample.hidden, sample.weight)
    seconds = time.perf_counter() - begin
    print(f"{name}: {seconds:.1f} s")
    record_property("seconds", round(seconds, 1))
    active = compare_bits(canonical[ACTIVE], got[ACTIVE])
    assert active.equal and active.elements == 27 * 151936, active
    assert compare_bits(canonical, got).equal  # the prompts, too


@pytest.fixture(scope="module")
def target(sample):
    """[59] token ids, -100 for the prompts: what the log-prob of a completion is asked for."""
    prompts = torch.ones(TOKENS, dtype=torch.bool)
    prompts[ACTIVE] = False
    return sample.target.masked_fill(prompts, -100)


@pytest.fixture(scope="module")
def log_probs(canonical, target):
    """(logp, lse) [59] of the logits of the canonical call: the operators in sequence."""
    return AscendBatchInvariantLogpOp()(canonical, target, return_lse=True)


def linear_in_form(name, sample, target):
    """(logp, lse) [59] in canonical order, out of another form of the batch."""
    op = AscendLinearLogpOp(wb.KernelConfig(schedule="weight_stationary"))
    batches, at = FORMS[name](sample.hidden)
    ids = torch.full((sum(b[..., 0].numel() for b in batches),), -100)
    ids[at] = target  # padding has no target
    parts = ids.split([b[..., 0].numel() for b in batches])
    found = [
        op(b, sample.weight, t.view(b.shape[:-1]), return_lse=True)
        for b, t in zip(batches, parts, strict=True)
    ]
    return [torch.cat([t.flatten() for t in outputs])[at] for outputs in zip(*found, strict=True)]


@pytest.mark.parametrize("name", FORMS)
def test_log_probs_of_every_form(sample, target, log_probs, name, record_property):
    """linear_logp of the 27 active tokens: the bits of the two operators on the canonical form."""
    begin = time.perf_counter()
    got = linear_in_form(name, sample, target)
    seconds = time.perf_counter() - begin
    print(f"linear_logp, {name}: {seconds:.1f} s")
    record_property("seconds", round(seconds, 1))
    for one, want in zip(got, log_probs, strict=True):
        compared = compare_bits(want[ACTIVE], one[ACTIVE])
        assert compared.equal and compared.elements == 27, compared
        assert compare_bits(want, one).equal and one[ACTIVE].all()  # the prompts: +0
    found = contract().agreement(log_probs[0][ACTIVE], got[0][ACTIVE], dtype="bf16")
    assert (found.max_abs, found.approx_kl, found.clip_fraction) == (0, 0, 0)
    # Control: log-probs of other tokens are seen.
    other = contract().agreement(log_probs[0][ACTIVE], got[0][ACTIVE].roll(1), dtype="bf16")
    assert not compare_bits(log_probs[0][ACTIVE], got[0][ACTIVE].roll(1)).equal and other.max_abs


needs_peak = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc (Linux)"
)


@needs_peak
def test_time_and_memory_of_linear_logp(sample, target, log_probs, record_property):
    """Beside its 27 rows of logits it holds a copy of hidden and of its results."""
    op = AscendLinearLogpOp(wb.KernelConfig(schedule="weight_stationary"))
    got, seconds, growth = measured(lambda: op(sample.hidden, sample.weight, target))
    logits = len(ACTIVE) * len(sample.weight) * 2
    print(f"linear_logp of 27 tokens: {seconds:.1f} s, {growth / MIB:.0f} MiB above its inputs")
    record_property("seconds", round(seconds, 1))
    record_property("MiB above inputs", round(growth / MIB))
    assert logits / 2 < growth <= logits + ALLOWANCE  # the logits at least: the peak is seen
    assert compare_bits(log_probs[0], got).equal


def measured(call):
    """(result, seconds, bytes that the process's memory grew by at its peak)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)  # what earlier tests have freed would hide what this call takes
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from here
    before, begin = status("VmRSS"), time.perf_counter()
    got = call()
    return got, time.perf_counter() - begin, status("VmHWM") - before


@needs_peak
def test_time_and_memory_of_a_call(sample, head, canonical, record_property):
    """CI01 (T59): a repeat in one process: the same bits, and no more memory than its output."""
    again, seconds, growth = measured(lambda: head(sample.hidden, sample.weight))
    outputs = again.numel() * again.element_size()
    print(f"59 x 4096 x 151936: {seconds:.1f} s, {growth / MIB:.0f} MiB above its inputs")
    record_property("seconds", round(seconds, 1))
    record_property("MiB above inputs", round(growth / MIB))
    assert outputs / 2 < growth <= outputs + ALLOWANCE  # the output at least: the peak is seen
    assert compare_bits(canonical, again).equal


@needs_peak
def test_the_host_kernels(sample, head, canonical, target, log_probs, record_property):
    """The bits of both operators on the twin, within inputs, outputs and 64 MiB."""
    got, seconds, growth = measured(lambda: linear(sample.hidden, sample.weight, head))
    outputs = got.numel() * got.element_size()
    print(f"on the host: {seconds:.1f} s, {growth / MIB:.0f} MiB above its inputs")
    record_property("seconds", round(seconds, 1))
    record_property("MiB above inputs", round(growth / MIB))
    assert outputs / 2 < growth <= outputs + ALLOWANCE  # the output at least: the peak is seen
    assert compare_bits(canonical, got).equal
    for one, want in zip(logp(got, target), log_probs, strict=True):
        assert compare_bits(want, one).equal
    # Control: another order is seen.
    other = linear(sample.hidden, sample.weight[:1000], head.config.replace(tile_length=1024))
    assert not compare_bits(canonical[:, :1000].contiguous(), other).equal


def test_short_and_primary_representative_cases(sample, head, canonical):
    """CI01 (T8), LN13 (2 x 16): fewer rows, the bits of the same rows."""
    assert compare_bits(canonical[:8], head(sample.hidden[:8], sample.weight)).equal
    got = head(sample.hidden[:32].view(2, 16, 4096), sample.weight)
    assert got.shape == (2, 16, 151936) and compare_bits(canonical[:32], got.flatten(0, 1)).equal


def test_accuracy(sample, canonical, record_property):
    """CI01, LN13: every logit under the contract's cell against fp64, those of T8 also against
    `torch.mv` in fp32."""
    worst = 0.0
    for part in torch.arange(len(sample.weight)).split(8192):
        columns = slice(int(part[0]), int(part[-1]) + 1)
        weight, got = sample.weight[columns], canonical[:, columns]
        exact = sample.hidden.double() @ weight.double().T
        found = contract().judge(got, exact, "forward_accuracy", "lm_head", "bf16")
        assert found.passed, found
        gold = NativeLMHeadOp().forward_fp32(sample.hidden[:8], weight)
        short = contract().judge(got[:8], gold, "forward_accuracy", "lm_head", "bf16", exact[:8])
        assert short.passed, short
        worst = max(worst, found.tolerance_ratio)
    print(f"worst tolerance ratio {worst:.3f}")
    record_property("tolerance_ratio", round(worst, 3))
    # Control: logits of the next vocabulary id do not pass.
    shifted = got.roll(1, 1)
    assert not contract().judge(shifted, exact, "forward_accuracy", "lm_head", "bf16").passed


@pytest.mark.parametrize("columns", [slice(0, 1000), slice(-1001, None)], ids=["first", "last"])
def test_both_schedules_on_a_part_of_the_columns(sample, canonical, columns):
    got = kernel()(sample.hidden, sample.weight[columns])
    assert compare_bits(canonical[:, columns].contiguous(), got).equal


@pytest.mark.parametrize(
    ("flawed", "caught"),
    [
        ("sound", set()),
        ("flawed_by_rows", {"chunked", "padded left", "padded right"}),
        ("flawed_by_position", {"permuted", "chunked", "padded left", "padded right"}),
    ],
)
def test_control_flawed_kernels_are_caught_on_the_same_path(flawed, caught):
    """Fewer columns and fp32, which is what the flawed kernels take."""
    sample = wb.samples.qwen3(rows=TOKENS, vocab=40, dtype=torch.float32, seed=SEED)
    run = Flawed(flawed)
    want = run(sample.hidden, sample.weight)
    found = set()
    for name in FORMS:
        got = in_form(name, run, sample.hidden, sample.weight)
        if not compare_bits(want[ACTIVE], got[ACTIVE]).equal:
            found.add(name)
    assert found == caught
