"""The gradients of the LM head: accuracy, one order, and the bits that a row keeps in any batch.

The names LA…, LN… are rows of the case table. What holds for both ways of going backward, and for
the reference, is in test_lm_head.py.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from gemm_kit import launch, model, mutant
from helpers import ARCHS, DTYPES, bits, same_bits, skip_unless_mkl_on_avx512, wild

import workbench as wb
import workbench.ops.det_gemm as gemm_module
import workbench.ops.lm_head as head_module
from workbench.errors import InputError
from workbench.numerics.contract import contract
from workbench.ops import AscendLMHeadOp, NativeLMHeadOp
from workbench.ops.lm_head import BACKWARDS, gemm_key, head_vjp, linear_vjp

each_dtype = pytest.mark.parametrize("dtype", DTYPES)
each_way = pytest.mark.parametrize("backward", BACKWARDS)


def gradients(op, tensors, upstream, fp32: bool = False) -> list[torch.Tensor]:
    leaves = [t.detach().clone().requires_grad_() for t in tensors]
    (op.forward_fp32 if fp32 else op)(*leaves).backward(upstream)
    return [t.grad for t in leaves]


def by_the_model(tensors, upstream) -> list[torch.Tensor]:
    """Gradients of hidden, weight and bias by the numpy model: sums over the vocabulary, and over
    the rows in their order; each rounded once."""
    hidden, weight = tensors[:2]
    g, h = upstream.float().reshape(-1, len(weight)), hidden.float().reshape(-1, hidden.shape[-1])
    pairs = [(g, weight.float()), (g.T, h), (torch.ones(1, len(g)), g)][: len(tensors)]
    found = [model(a.contiguous(), b.contiguous()).view(np.float32) for a, b in pairs]
    return [
        torch.from_numpy(f.copy()).reshape(t.shape).to(t.dtype)
        for f, t in zip(found, tensors, strict=True)
    ]


def closed_form(tensors, upstream) -> list[torch.Tensor]:
    """Gradients in fp64."""
    hidden, weight = tensors[:2]
    g, h = upstream.double().reshape(-1, len(weight)), hidden.double().reshape(-1, hidden.shape[-1])
    return [(g @ weight.double()).reshape(hidden.shape), g.T @ h, g.sum(0)][: len(tensors)]


# ---- accuracy and order: LA13-18, LN12, Cases 8 ------------------------------------------------


def accurate(got, tensors, upstream, dtype) -> bool:
    """Every gradient within the contract's cell of the reference's and of fp64."""
    native = gradients(NativeLMHeadOp(), tensors, upstream)
    judge = functools.partial(contract().judge, judgement="gradient_accuracy", op="lm_head")
    pairs = zip(got, native, closed_form(tensors, upstream), strict=True)
    return all(
        judge(g, r, dtype=dtype).passed and judge(g, e, dtype=dtype).passed for g, r, e in pairs
    )


@each_dtype
@each_way
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])
def test_accuracy(draw, dtype, backward, biased):
    """LA13-18"""
    *tensors, upstream = draw((3, 5, 1000), (129, 1000), (129,), (3, 5, 129), dtype=DTYPES[dtype])
    tensors = tensors if biased else tensors[:2]
    got = gradients(AscendLMHeadOp(backward=backward), tensors, upstream)
    for g, t in zip(got, tensors, strict=True):
        assert g.shape == t.shape and g.dtype == t.dtype and g.isfinite().all()
    assert accurate(got, tensors, upstream, dtype)
    # Control: one entry of the upstream that does not count is seen in each of them.
    less = upstream.clone()
    less[1, 2, 64] = 0
    for i, g in enumerate(gradients(AscendLMHeadOp(backward=backward), tensors, less)):
        assert not accurate([*got[:i], g, *got[i + 1 :]], tensors, upstream, dtype)


def test_a_swapped_sign_in_backward_is_caught(draw, monkeypatch):
    """A mutation: `accurate` and the model both see it, in each gradient."""
    *tensors, upstream = draw((3, 5, 100), (29, 100), (29,), (3, 5, 29))
    right = gradients(AscendLMHeadOp(), tensors, upstream)
    assert accurate(right, tensors, upstream, "fp32")
    monkeypatch.setattr(head_module, "product", lambda *a, **k: -gemm_module.product(*a, **k))
    for i, g in enumerate(gradients(AscendLMHeadOp(), tensors, upstream)):
        assert not accurate([*right[:i], g, *right[i + 1 :]], tensors, upstream, "fp32")
        assert not same_bits(g, by_the_model(tensors, upstream)[i])


@each_dtype
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("fp32_out", [False, True])
def test_the_order_is_the_stated_one(arch, fp32_out, dtype):
    """On raw bits: det_gemm's order over the vocabulary, and over the rows from first to last."""
    tensors = [wild(s, i, dtype, spread=3) for i, s in enumerate([(2, 150, 70), (300, 70), (300,)])]
    upstream = wild((2, 150, 300), 9, "fp32" if fp32_out else dtype, spread=3)
    op = AscendLMHeadOp(wb.KernelConfig(arch=arch, tile_length=64))
    got = gradients(op, tensors, upstream, fp32_out)
    for g, want in zip(got, by_the_model(tensors, upstream), strict=True):
        assert same_bits(g, want)
    # Control: another order of the rows is another sum, where rows are what is summed over.
    order = torch.arange(150).flip(0)
    turned = [tensors[0][:, order], *tensors[1:]]
    again = gradients(op, turned, upstream[:, order], fp32_out)
    assert same_bits(again[0][:, order], got[0])
    if dtype == "fp32":
        assert not same_bits(again[1], got[1]) and not same_bits(again[2], got[2])


def test_the_two_ways_differ_in_bits_only():
    tensors = [wild(s, i) for i, s in enumerate([(40, 70), (300, 70), (300,)])]
    upstream = wild((40, 300), 9)
    ways = [gradients(AscendLMHeadOp(backward=way), tensors, upstream) for way in BACKWARDS]
    key = AscendLMHeadOp().config.to_key()
    for way, found in zip(BACKWARDS, ways, strict=True):  # the same as a function of tensors
        vjp = head_vjp(upstream, *tensors[:2], key, way, "twin", bias_dtype=torch.float32)
        assert all(same_bits(a, b) for a, b in zip(vjp, found, strict=True))
    matmul = linear_vjp(upstream, *tensors[:2], bias_dtype=torch.float32)
    assert all(same_bits(a, b) for a, b in zip(matmul, ways[1], strict=True))
    assert not any(same_bits(a, b) for a, b in zip(*ways, strict=True))
    nothing = {"need_hidden": False, "need_weight": False}
    for way in BACKWARDS:
        assert head_vjp(upstream, *tensors[:2], key, way, "twin", **nothing) == (None, None, None)


# ---- bits of a row: Cases 9 --------------------------------------------------------------------

ROWS, WIDTH, VOCAB = 300, 33, 700  # six leaves of the vocabulary


@functools.cache
def fixture(dtype: str):
    """hidden [N, H], weight [V, H], upstream [N, V]."""
    shapes = [(ROWS, WIDTH), (VOCAB, WIDTH), (ROWS, VOCAB)]
    return [wild(s, i, dtype, spread=3) for i, s in enumerate(shapes)]


def grad_hidden(op, hidden, weight, upstream):
    return gradients(op, [hidden, weight], upstream)[0]


SIZES = (1, 2, 3, 4, 7, 8, 16, 17, 33, 64, 65, 129, 255, 256, 257, 300)


def seen_by_a_row(op, dtype: str) -> set[str]:
    """Which changes of the batch reach the bits of the gradient of rows 0 and 1."""
    hidden, weight, upstream = fixture(dtype)
    run = functools.partial(grad_hidden, op)
    alone = [run(hidden[i : i + 1], weight, upstream[i : i + 1])[0] for i in (0, 1)]
    seen = set()

    def compare(name, got, i=0):
        if not same_bits(got.reshape(alone[i].shape), alone[i]):
            seen.add(name)

    for size in SIZES:
        got = run(hidden[:size], weight, upstream[:size])
        compare("batch size", got[0])
        if size > 1:
            compare("batch size", got[1], 1)
    order = torch.arange(17)
    for place in (1, 8, 16):
        turned = order.roll(place)
        compare("position", run(hidden[turned], weight, upstream[turned])[place])
    for filler in (float("nan"), float("inf"), 0.0):
        h, g = hidden[:9].clone(), upstream[:9].clone()
        h[[0, 2, 8]] = filler
        g[[0, 2, 8]] = filler
        compare("neighbours", run(h, weight, g)[1], 1)
    sequence, its = hidden[:2], upstream[:2]
    for left in (0, 3):
        h, g = (
            torch.zeros(1, 9, WIDTH, dtype=hidden.dtype),
            torch.zeros(1, 9, VOCAB, dtype=its.dtype),
        )
        h[0, left : left + 2], g[0, left : left + 2] = sequence, its
        compare("padding", run(h, weight, g)[0, left])
    return seen


@each_dtype
@pytest.mark.parametrize("arch", ARCHS)
def test_the_gradient_of_a_row_does_not_see_the_batch(arch, dtype):
    """Batch sizes, positions, neighbours of any content, padding: raw bits."""
    op = AscendLMHeadOp(wb.KernelConfig(arch=arch, tile_length=64))
    assert seen_by_a_row(op, dtype) == set()


def test_control_a_kernel_that_looks_at_the_number_of_rows_is_seen(tmp_path, monkeypatch):
    """Split-K by shape, in the kernel that backward runs on. Positions and padding are compared
    with the row alone, too, and that has fewer rows."""
    flawed = mutant(tmp_path, "leaves by the number of rows")

    class Flawed:
        def __call__(self, a, b, out_dtype):
            return launch(flawed, "det_gemm_fp32", a, b)

    monkeypatch.setattr(gemm_module, "built", lambda *asked: Flawed())
    op = AscendLMHeadOp(wb.KernelConfig(tile_length=64))
    assert {"batch size", "position", "padding"} <= seen_by_a_row(op, "fp32")


def test_matmul_is_seen_where_the_library_is_known():
    seen = seen_by_a_row(AscendLMHeadOp(backward="matmul"), "fp32")
    skip_unless_mkl_on_avx512(sorted(seen))
    assert "batch size" in seen


@each_dtype
@pytest.mark.parametrize("max_blocks", [1, 2, 3, 7, 40, 48, 128, 256])
def test_blocks_do_not_reach_the_gradients(dtype, max_blocks):
    hidden, weight, upstream = fixture(dtype)
    tensors = [hidden[:9], weight, wild(VOCAB, 5, dtype)]
    want = gradients(AscendLMHeadOp(), tensors, upstream[:9])
    op = AscendLMHeadOp(wb.KernelConfig(max_blocks=max_blocks))
    got = gradients(op, tensors, upstream[:9])
    assert all(same_bits(a, b) for a, b in zip(got, want, strict=True))


def test_backward_runs_on_the_configuration_of_the_head(monkeypatch):
    asked = []
    real = gemm_module.built
    monkeypatch.setattr(gemm_module, "built", lambda *a: (asked.append(a), real(*a))[1])
    config = wb.KernelConfig(arch="dav-3510", max_blocks=7, switches={"masked_lanes": "zero"})
    op = AscendLMHeadOp(config, "twin")
    gradients(op, [torch.ones(2, 8), torch.ones(3, 8)], torch.ones(2, 3))
    assert len(asked) == 2  # hidden, weight
    for name, key, backend, _ in asked:
        used = wb.KernelConfig.from_key(key)
        assert (name, backend, used.arch, used.max_blocks) == ("det_gemm", "twin", "dav-3510", 7)
        assert dict(used.switches) == {"masked_lanes": "zero"} and used.leaf_length == 128
    assert gemm_key(wb.KernelConfig().to_key()) == gemm_key(AscendLMHeadOp().config.to_key())
    asked.clear()
    op = AscendLMHeadOp(config, "twin", backward="matmul")
    gradients(op, [torch.ones(2, 8), torch.ones(3, 8)], torch.ones(2, 3))
    assert asked == []


# ---- sums over the rows ------------------------------------------------------------------------


@each_dtype
def test_rows_without_a_gradient_at_the_end_change_nothing(dtype):
    """Right padding of the batch: sums over the rows keep their bits, whatever it holds."""
    hidden, weight, upstream = fixture(dtype)
    bias = wild(VOCAB, 5, dtype)
    want = gradients(AscendLMHeadOp(), [hidden[:150], weight, bias], upstream[:150])
    for rows in (151, 256, 300):
        g = upstream[:rows].clone()
        g[150:] = 0
        got = gradients(AscendLMHeadOp(), [hidden[:rows], weight, bias], g)
        assert same_bits(got[1], want[1]) and same_bits(got[2], want[2])
        assert same_bits(got[0][:150], want[0]) and not bits(got[0][150:]).any()
    # Control: one of them with a gradient is seen.
    g[299] = upstream[299]
    got = gradients(AscendLMHeadOp(), [hidden[:300], weight, bias], g)
    assert not same_bits(got[1], want[1]) and not same_bits(got[2], want[2])


# ---- Cases 6, LN07 -----------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_zero_upstream_gradient_gives_plus_zero(draw, dtype, zero):
    tensors = draw((3, 40), (7, 40), (7,), dtype=DTYPES[dtype])
    upstream = torch.full((3, 7), zero, dtype=DTYPES[dtype])
    for g in gradients(AscendLMHeadOp(), tensors, upstream):
        assert not bits(g).any()
    # One row without a gradient leaves the others' alone, on raw bits.
    (upstream,) = draw((3, 7), dtype=DTYPES[dtype])
    upstream[1] = zero
    got = gradients(AscendLMHeadOp(), tensors, upstream)
    without = [tensors[0][[0, 2]], *tensors[1:]]
    want = gradients(AscendLMHeadOp(), without, upstream[[0, 2]])
    assert same_bits(got[0][[0, 2]], want[0]) and not bits(got[0][1]).any()
    assert same_bits(got[1], want[1]) and same_bits(got[2], want[2])


@each_dtype
@each_way
@pytest.mark.parametrize(
    ("leading", "width", "vocab"),
    [((0,), 8, 3), ((2, 0), 8, 3), ((0, 0), 0, 0), ((4,), 8, 0), ((4,), 0, 3), ((2, 2), 0, 0)],
)
def test_gradients_of_the_empty(draw, dtype, backward, leading, width, vocab):
    """LN07 and more: zero rows, V = 0, H = 0; the edges of the graph are kept."""
    op = AscendLMHeadOp(backward=backward)
    tensors = draw((*leading, width), (vocab, width), (vocab,), dtype=DTYPES[dtype])
    upstream = torch.ones(*leading, vocab, dtype=DTYPES[dtype])
    for g, t in zip(gradients(op, tensors, upstream), tensors, strict=True):
        assert g.shape == t.shape and g.dtype == t.dtype
        rows = torch.Size(leading).numel()
        assert (g == (rows if t.ndim == 1 else 0)).all() and not torch.signbit(g).any()


def test_an_expanded_or_strided_upstream_gradient(draw):
    hidden, weight, upstream = draw((6, 40), (9, 40), (6, 9))
    want = gradients(AscendLMHeadOp(), [hidden, weight], upstream)
    for form in (upstream.T.contiguous().T, torch.stack([upstream, upstream], -1)[..., 0]):
        got = gradients(AscendLMHeadOp(), [hidden, weight], form)
        assert all(same_bits(a, b) for a, b in zip(got, want, strict=True))
    leaf = hidden.clone().requires_grad_()
    AscendLMHeadOp()(leaf, weight).sum().backward()
    want = gradients(AscendLMHeadOp(), [hidden, weight], torch.ones(6, 9))
    assert same_bits(leaf.grad, want[0])


# ---- as torch sees it --------------------------------------------------------------------------


@each_way
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_gradient_of_the_gradient(draw, dtype, backward):
    """Deterministic: made of det_gemm, which has a derivative; matmul: of torch's operators."""
    op = AscendLMHeadOp(backward=backward)
    leaves = [t.requires_grad_() for t in draw((2, 8), (3, 8), (3,), dtype=DTYPES[dtype])]
    for run in (op, op.forward_fp32):
        first = torch.autograd.grad(run(*leaves).pow(2).sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(g.float().sum() for g in first), leaves)
        wide = [t.detach().double().requires_grad_() for t in leaves]
        logits = wide[0] @ wide[1].T + wide[2]
        exact = torch.autograd.grad(logits.pow(2).sum(), wide, create_graph=True)
        want = torch.autograd.grad(sum(g.sum() for g in exact), wide)
        judge = functools.partial(contract().judge, judgement="gradient_accuracy", op="lm_head")
        for g, e in zip(second, want, strict=True):
            assert judge(g, e, dtype=dtype).passed
            assert not judge(-g, e, dtype=dtype).passed


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_with_backward_by_matmul(draw, dynamic):
    """The deterministic way is in test_torch.py. No bits are promised of this one."""
    op = AscendLMHeadOp(wb.KernelConfig(tile_length=64), backward="matmul")
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda *t: op(*t).logsumexp(-1), fullgraph=True, backend="aot_eager", dynamic=dynamic
    )
    for rows in (3, 5, 1, 0):
        leaves = [t.requires_grad_() for t in draw((2, rows, 70), (9, 70), (9,))]
        again = [t.detach().clone().requires_grad_() for t in leaves]
        compiled(*leaves).sum().backward()
        op(*again).logsumexp(-1).sum().backward()
        judge = functools.partial(contract().judge, judgement="gradient_accuracy", op="lm_head")
        for a, b in zip(leaves, again, strict=True):
            assert a.grad.shape == b.grad.shape
            assert not b.grad.numel() or judge(a.grad, b.grad, dtype="fp32").passed


@each_way
def test_what_is_around_does_not_reach_the_gradients(draw, backward):
    """Autocast, flush-to-zero, the precision of matmuls."""
    *tensors, upstream = draw((3, 70), (9, 70), (9,), (3, 9))
    op = AscendLMHeadOp(backward=backward)
    want = gradients(op, tensors, upstream)
    before = torch.backends.mkldnn.matmul.fp32_precision
    torch.set_flush_denormal(True)
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", torch.bfloat16):
            got = gradients(op, tensors, upstream)
    finally:
        torch.set_flush_denormal(False)
        torch.set_float32_matmul_precision("highest")
        torch.backends.mkldnn.matmul.fp32_precision = before
    assert all(same_bits(a, b) for a, b in zip(got, want, strict=True))


def test_an_unknown_way():
    with pytest.raises(InputError, match=r"unknown backward 'fast'.*deterministic, matmul"):
        AscendLMHeadOp(backward="fast")
    assert AscendLMHeadOp().backward == "deterministic"
    assert "backward='matmul'" in repr(AscendLMHeadOp(backward="matmul"))
