"""Log-prob agreement of sampler and trainer batches, on the real sample."""

from __future__ import annotations

import functools
import json
import math
from types import SimpleNamespace

import pytest
import torch
from helpers import mkl_on_avx2

import workbench as wb
from workbench.errors import InputError
from workbench.numerics.agreement import SAMPLERS, TRAINERS, agreement, sampler_trainer

DTYPES = ("fp32", "bf16", "fp16")
LENGTHS = (40, 31, 25, 18)  # ragged, as sequences end at different steps
PROMPT = 8
each_dtype = pytest.mark.parametrize("dtype", DTYPES)


@functools.cache
def sample(vocab=4096):
    real = wb.samples.smollm2()
    weight, target = real.weight[:vocab], real.target % vocab
    return SimpleNamespace(hidden=real.hidden, weight=weight, target=target)


def from_logits(logits, target):
    at = target.clamp(min=0).unsqueeze(-1)
    logp = logits.float().log_softmax(-1).gather(-1, at).squeeze(-1)
    return torch.where(target < 0, torch.zeros_like(logp), logp)


def linear(hidden, weight, target):
    """What people run: F.linear and log_softmax over the whole batch."""
    return from_logits(torch.nn.functional.linear(hidden, weight), target)


def split_by_batch(hidden, weight, target):
    """A split of K by the number of rows, as heuristics choose it: the control on any machine."""
    rows, parts = target.numel(), 1 if target.numel() > 16 else 4
    flat = hidden.reshape(rows, -1)
    logits = torch.zeros(rows, len(weight))
    for a, b in zip(flat.chunk(parts, 1), weight.chunk(parts, 1), strict=True):
        logits += torch.stack([(b.float() * row.float()).sum(1) for row in a])
    # Not rounded to the inputs' dtype: 16 bits would hide another order of these sums.
    return from_logits(logits, target.flatten()).reshape(target.shape)


# ---- the figures ---------------------------------------------------------------------------------


def test_the_figures_of_a_small_case():
    """d = (0.5, -0.25, 0), worked by hand; the masked token would be an error."""
    sampler = torch.tensor([-1.0, -2.0, -3.0, math.nan])
    trainer = torch.tensor([-0.5, -2.25, -3.0, 7.0])
    active = torch.tensor([True, True, True, False])
    found = agreement(sampler, trainer, active)
    kl = (math.exp(0.5) - 1.5 + math.exp(-0.25) - 0.75) / 3
    assert found.limits.tokens == 3 and found.limits.max_abs == 0.5
    assert abs(found.limits.approx_kl - kl) <= 8 * 2**-53 * 4  # terms of size 4, few operations
    assert found.limits.clip_fraction == 2 / 3  # 1.65 and 0.78 are outside
    assert not found.passed and not found.bits_equal
    assert (found.mismatches, found.first_mismatch["index"]) == (2, [0])


def test_bits_tell_what_the_distance_does_not():
    zeros = torch.zeros(2, 3)
    other = zeros.clone()
    other[1, 2] = -0.0
    found = agreement(zeros, other)
    assert found.passed and found.limits.max_abs == 0 and not found.bits_equal
    assert found.first_mismatch["index"] == [1, 2]
    assert (found.first_mismatch["expected_bits"], found.first_mismatch["got_bits"]) == (
        "0x00000000",
        "0x80000000",
    )
    masked = torch.ones(2, 3, dtype=torch.bool)
    masked[1, 2] = False
    assert agreement(zeros, other, masked).bits_equal
    entry = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert {"passed", "bits_equal", "max_abs", "approx_kl", "clip_fraction"} <= set(entry)
    assert "1 tokens differ in bits" in str(found)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_nan_inf_and_nothing_are_errors(bad):
    good, broken = torch.zeros(3), torch.tensor([0.0, bad, 0.0])
    for pair in ((good, broken), (broken, good)):
        with pytest.raises(InputError, match="NaN or Inf"):
            agreement(*pair)
    for pair, active in (((good, good), good > 0), ((good[:0], good[:0]), None)):
        with pytest.raises(InputError, match="no active token"):
            agreement(*pair, active)
    with pytest.raises(InputError, match="shape"):
        agreement(good, good[:2])
    with pytest.raises(InputError, match="dtypes"):
        agreement(good, good.double())
    with pytest.raises(InputError, match="fp8"):
        agreement(good, good, dtype="fp8")


# ---- sampler and trainer -------------------------------------------------------------------------


@each_dtype
def test_linear_logp_has_the_same_bits_in_every_batch(dtype):
    """On the real sample: all three aggregates are exactly 0, and every bit is equal."""
    result = sampler_trainer("linear_logp", sample(), dtype, lengths=LENGTHS, prompt=PROMPT)
    assert set(result.pairs) == {(s, t) for s in SAMPLERS for t in TRAINERS}
    assert result.tokens == sum(LENGTHS) - 4 * PROMPT == 82
    for found in result.pairs.values():
        limits = found.limits
        assert (limits.max_abs, limits.approx_kl, limits.clip_fraction) == (0, 0, 0)
        assert found.bits_equal and found.passed and limits.tokens == 82
    assert result.passed and result.bits_equal and result.dtype == dtype
    assert (result.evidence.backend, result.evidence.arch) == ("twin", "dav-2201")


@each_dtype
def test_control_a_split_by_the_batch_is_seen(dtype):
    result = sampler_trainer(split_by_batch, sample(257), dtype, lengths=LENGTHS, prompt=PROMPT)
    assert not result.bits_equal
    for sampler in SAMPLERS:  # batches of up to 4 rows, and of 7; against one of 114
        assert result[sampler, "packed"].mismatches > 0
        assert result[sampler, "packed"].limits.max_abs > 0
        assert result[sampler, "micro-batches"].bits_equal
    entry = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert len(entry["pairs"]) == 8 and entry["bits_equal"] is False
    with pytest.raises(KeyError, match="nobody"):
        result["nobody", "packed"]


@each_dtype
def test_linear_and_log_softmax_differ_where_the_library_is_known(dtype):
    """`F.linear` in the sampler's batches and in the trainer's. A fact of MKL on AVX2 in fp32; of
    other libraries, CPUs and dtypes it is shown, not asserted."""
    result = sampler_trainer(linear, sample(), dtype, lengths=LENGTHS, prompt=PROMPT)
    worst = max(found.limits.max_abs for found in result.pairs.values())
    print(f"\nF.linear + log_softmax, {dtype}: max |d| {worst:.3g}\n{result}")
    if mkl_on_avx2() and dtype == "fp32":
        assert not result.bits_equal and worst > 0


def test_every_token_is_computed_in_every_batch():
    """A callable that says which token it was given: hidden holds (sequence, position)."""
    hidden = torch.zeros(3, 6, 2)
    hidden[..., 0] = torch.arange(3.0)[:, None]
    hidden[..., 1] = torch.arange(6.0)
    target = torch.arange(18).reshape(3, 6) % 4
    calls = []

    def fn(rows, weight, ids):
        calls.append((tuple(rows.shape[:-1]), int((ids >= 0).sum())))
        return torch.where(ids >= 0, 100 * rows[..., 0] + 10 * rows[..., 1] + ids, 0)

    made = SimpleNamespace(hidden=hidden, weight=torch.ones(4, 2), target=target)
    result = sampler_trainer(fn, made, lengths=(6, 4, 3), prompt=2, chunk=5)
    assert result.bits_equal and result.tokens == 7
    assert calls[:7] == [((1,), 1)] * 7
    assert calls[7:11] == [((3,), 3), ((2,), 2), ((1,), 1), ((1,), 1)]  # sequences end
    assert calls[11:] == [
        ((13,), 7), ((3, 9), 7), ((3, 9), 7), ((5,), 3), ((5,), 3), ((3,), 1),
    ]  # fmt: skip


def test_refusals_of_batches():
    made = sample(257)
    for options, match in (
        ({"lengths": (40, 40, 40)}, "each of 4 sequences"),
        ({"lengths": (40, 40, 40, 8)}, "prompt=8"),
        ({"samplers": ("beam",)}, "beam.*token"),
        ({"trainers": ()}, "no trainer is given; known ones are packed"),
        ({"config": wb.KernelConfig()}, "config is for"),
    ):
        with pytest.raises(InputError, match=match):
            sampler_trainer(linear, made, **options)
    with pytest.raises(InputError, match="linear_logp"):
        sampler_trainer("lm_head", made)
    flat = SimpleNamespace(hidden=made.hidden[0], weight=made.weight, target=made.target[0])
    with pytest.raises(InputError, match=r"wanted \[S, T, H\]"):
        sampler_trainer(linear, flat)


def test_the_padding_stands_on_the_side_that_is_named():
    """Two samples of 3 and 5 tokens: where the zeros are that the callable is given."""
    hidden, seen = torch.ones(2, 5, 8), []

    def watch(hidden, weight, target):
        seen.append(hidden)
        return torch.zeros(target.shape)

    given = SimpleNamespace(hidden=hidden, weight=torch.eye(8), target=torch.zeros(2, 5).long())
    for side in ("left", "right"):
        seen.clear()
        sampler_trainer(
            watch,
            given,
            lengths=(3, 5),
            prompt=1,
            samplers=("token",),
            trainers=(f"padded {side}",),
        )
        filled = seen[-1][:, :, 0].bool()
        width = filled.shape[1]
        assert width > 5 and filled.sum(1).tolist() == [3, 5]
        for row, length in zip(filled, (3, 5), strict=True):
            first = width - length if side == "left" else 0
            assert row[first : first + length].all()
