"""Cases of linear_logp: edges of the width, blocks, hard sums, shapes, strides, zero upstreams.

On raw bits, against the two operators one after the other.
"""

from __future__ import annotations

import functools

import pytest
import torch
from helpers import DTYPES, bits
from linear_kit import ROWS, InSequence, assert_same_bits, run, tensors

import workbench as wb
from workbench.ops import AscendLinearLogpOp, AscendLMHeadOp

each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
EDGES = (1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65)
EDGES += (4095, 4096, 4097, 8191, 8192, 8193, 10000)


@each_dtype
def test_every_edge_of_the_width(dtype):
    """Case 1: H around data blocks, repeats and tiles, in chunks and at once."""
    for width in EDGES:
        given = tensors(dtype, seed=width, rows=(4,), width=width, vocab=7)
        want = run(InSequence(), *given)
        for chunk in (1, 1 << 26):
            assert_same_bits(run(AscendLinearLogpOp(chunk_bytes=chunk), *given), want, width)


@each_dtype
@pytest.mark.parametrize("schedule", ["output", "weight_stationary"])
def test_block_counts_change_nothing(dtype, schedule):
    """Case 3: MAX_BLOCKS of every kernel under it."""
    given = tensors(dtype)
    want = run(AscendLinearLogpOp(), *given)
    for blocks in (1, 2, 3, 7, 40, 48, 128, 256):
        config = wb.KernelConfig(max_blocks=blocks, schedule=schedule)
        logp_config = wb.KernelConfig(max_blocks=blocks)
        op = AscendLinearLogpOp(config, logp_config=logp_config, chunk_bytes=9000)
        assert_same_bits(run(op, *given), want, blocks)


@each_dtype
def test_hard_sums(dtype):
    """Case 5: cancellation, outlier channels, linspace(-100, 100), constants, logits beyond fp16:
    in chunks what the two operators make of them."""
    width = 132
    big = 6e4 if dtype == torch.float16 else 1e20
    hidden, weight, bias, target, *grads = tensors(dtype, rows=(8,), width=width)
    hidden[1, [7, 100]] *= 500
    hidden[2] = torch.linspace(-100, 100, width)
    hidden[4] = torch.tensor([big, 3, -big, 7]).repeat(width // 4)
    hidden[5], hidden[6], hidden[7] = 0.1, -0.0, 300
    weight[:4], weight[4] = 1, 300
    given = (hidden, weight, bias, target, *grads)
    want = run(InSequence(), *given)
    logits = AscendLMHeadOp()(hidden, weight, bias)
    assert (logits[7, 4] == float("inf")) == (dtype == torch.float16)  # 132 x 300 x 300
    for chunk in (1500, 1 << 26):
        assert_same_bits(run(AscendLinearLogpOp(chunk_bytes=chunk), *given), want, chunk)


SHAPES = {
    "no rows": ((0,), 8, 5),
    "no rows of two": ((2, 0), 8, 5),
    "no rows, no vocabulary": ((0,), 8, 0),
    "one of each": ((1,), 1, 1),
    "no width": ((3,), 0, 5),
    "one token": ((3, 2, 1), 9, 1),
    "two tokens": ((5,), 9, 2),
}


@each_dtype
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("chunk", [1, 1 << 26])
def test_shapes(dtype, name, chunk):
    rows, width, vocab = SHAPES[name]
    g = torch.Generator().manual_seed(1)
    hidden, weight, bias = (
        torch.randn(s, generator=g).to(dtype) for s in ((*rows, width), (vocab, width), (vocab,))
    )
    target = torch.randint(max(vocab, 1), rows, generator=g)
    given = (hidden, weight, bias, target, torch.ones(rows), torch.ones(rows))
    got = run(AscendLinearLogpOp(chunk_bytes=chunk), *given)
    assert_same_bits(got, run(InSequence(), *given))
    assert got[0].shape == rows and got[2].shape == hidden.shape


def shifted(t, offset):
    """The same values, `offset` elements into a storage: not 32-byte aligned."""
    buffer = t.new_full((t.numel() + offset,), float("nan"))
    buffer[offset:] = t.flatten()
    assert buffer[offset:].data_ptr() % 32
    return buffer[offset:].view(t.shape)


def apart(op, hidden, weight, bias, target, grad_logp, grad_lse):
    """As `run`, without a copy of the tensors: the operator is given the very forms."""
    leaves = [t.requires_grad_() for t in (hidden, weight, bias)]
    logp, lse = op(hidden, weight, target, bias, return_lse=True)
    found = torch.autograd.grad([logp, lse], leaves, [grad_logp, grad_lse])
    return [logp.detach(), lse.detach(), *found]


def test_strides():
    """Not contiguous, not aligned, negated lazily, expanded: the values decide."""
    hidden, weight, bias, target, *grads = tensors()
    want = run(AscendLinearLogpOp(), hidden, weight, bias, target, *grads)
    forms = {
        "transposed": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
        "strided": lambda t: torch.stack([t, t], -1)[..., 0],
        "negated": lambda t: torch._neg_view(-t),
        **{f"{n} elements off": functools.partial(shifted, offset=n) for n in (1, 3, 7)},
    }
    for name, form in forms.items():
        given = [form(t) for t in (hidden, weight, bias)]
        ids = target.T.contiguous().T
        upstream = [form(t) for t in grads]
        for chunk in (1500, 1 << 26):
            got = apart(AscendLinearLogpOp(chunk_bytes=chunk), *given, ids, *upstream)
            assert_same_bits(got, want, name)
    leaf = hidden.clone().requires_grad_()
    AscendLinearLogpOp()(leaf, weight, target).sum().backward()  # an expanded scalar comes back
    ones = [torch.ones(ROWS), torch.zeros(ROWS)]
    assert_same_bits([leaf.grad], [run(InSequence(), hidden, weight, None, target, *ones)[2]])


@each_dtype
@pytest.mark.parametrize("zeros", [(0.0, 0.0), (-0.0, -0.0), (0.0, -0.0), (-0.0, 0.0)], ids=str)
@pytest.mark.parametrize("chunk", [1500, 1 << 26])
def test_a_zero_upstream_gradient_gives_plus_zero(dtype, zeros, chunk):
    hidden, weight, bias, target, grad_logp, grad_lse = tensors(dtype)
    op = AscendLinearLogpOp(chunk_bytes=chunk)
    for upstream, zero in zip((grad_logp, grad_lse), zeros, strict=True):
        upstream[0] = zero  # half of the rows: the others' gradients are there
        assert bool(upstream[0].signbit().all()) == (str(zero) == "-0.0")
    got = run(op, hidden, weight, bias, target, grad_logp, grad_lse)
    assert not bits(got[2][0]).any() and got[2][1].any()
    half = [t[1:] for t in (target, grad_logp, grad_lse)]
    assert_same_bits([got[2][1:]], [run(op, hidden[1:], weight, bias, *half)[2]])
    for upstream, zero in zip((grad_logp, grad_lse), zeros, strict=True):
        upstream[1] = zero  # every row
    for g in run(op, hidden, weight, bias, target, grad_logp, grad_lse)[2:]:
        assert not bits(g).any()


def test_inputs_are_not_changed():
    given = tensors(torch.bfloat16)
    before = [t.clone() for t in given]
    run(AscendLinearLogpOp(chunk_bytes=1500), *given)
    assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))
