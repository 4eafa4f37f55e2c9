"""The LM-head operators: accuracy by the contract, bits where bits are promised, every shape.

The names LA…, LN… are rows of the case table.
"""

from __future__ import annotations

import pytest
import torch
from helpers import DTYPES, bits, kernel, same_bits
from torch.utils._python_dispatch import TorchDispatchMode

import workbench as wb
from workbench.numerics.contract import contract
from workbench.ops import AscendLMHeadOp, NativeLMHeadOp
from workbench.ops.lm_head import linear_vjp

each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
with_bias = pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])


FORWARD, GRADIENT = "forward_accuracy", "gradient_accuracy"


def ratio(got, reference, judgement, dtype) -> float:
    """The worst |error| / (atol + rtol |reference|) under the contract's cell; at most 1 passes."""
    verdict = contract().judge(got, reference, judgement, "lm_head", dtype)
    assert verdict.cause != "nonfinite"
    assert verdict.passed == (verdict.tolerance_ratio <= 1)
    return verdict.tolerance_ratio


def exact(hidden, weight, bias=None):
    out = hidden.double() @ weight.double().T
    return out if bias is None else out + bias.double()


# ---- forward: LA01-LA12, LN04-LN06, LN08 -------------------------------------------------------


@each_dtype
@with_bias
def test_forward_accuracy(draw, dtype, biased):
    """LA01-03, LA07-09: forward within the contract's cell of torch.mv in fp32."""
    hidden, weight, bias = draw((3, 5, 1000), (129, 1000), (129,), dtype=dtype)
    bias = bias if biased else None
    out = AscendLMHeadOp()(hidden, weight, bias)
    gold = NativeLMHeadOp().forward_fp32(hidden, weight, bias)
    assert out.dtype == dtype and out.shape == (3, 5, 129)
    assert ratio(out, gold, FORWARD, dtype) <= 1
    assert ratio(out, exact(hidden, weight, bias), FORWARD, dtype) <= 1
    # Controls: a term dropped, and the bias forgotten, do not pass.
    dropped = weight.clone()
    dropped[:, 500] = 0
    assert ratio(AscendLMHeadOp()(hidden, dropped, bias), gold, FORWARD, dtype) > 1
    if biased:
        assert ratio(AscendLMHeadOp()(hidden, weight), gold, FORWARD, dtype) > 1


@each_dtype
@with_bias
def test_forward_fp32_accuracy(draw, dtype, biased):
    """LA04-06, Cases 8: fp32 logits of any inputs; `forward` is their one rounding."""
    hidden, weight, bias = draw((3, 5, 1000), (129, 1000), (129,), dtype=dtype)
    bias = bias if biased else None
    op = AscendLMHeadOp()
    wide = op.forward_fp32(hidden, weight, bias)
    assert wide.dtype == torch.float32 and wide.shape == (3, 5, 129)
    gold = NativeLMHeadOp().forward_fp32(hidden, weight, bias)
    assert ratio(wide, gold, FORWARD, dtype) <= 1
    assert ratio(wide, exact(hidden, weight, bias), FORWARD, torch.float32) <= 1
    assert same_bits(wide.to(dtype), op(hidden, weight, bias))


@each_dtype
def test_representative_shape(draw, dtype):
    """LN04, LN05: hidden (2, 16, 4096), V 256."""
    hidden, weight = draw((2, 16, 4096), (256, 4096), dtype=dtype)
    out = AscendLMHeadOp()(hidden, weight)
    assert ratio(out, exact(hidden, weight), FORWARD, dtype) <= 1
    if dtype != torch.float32:  # there torch.mv's own error is larger than the cell (see contract)
        assert ratio(out, NativeLMHeadOp()(hidden, weight), FORWARD, dtype) <= 1


@each_dtype
@pytest.mark.parametrize("vocab", [1, 2, 3, 5, 7, 9, 11, 15, 17, 131])
def test_a_bias_at_any_column(op, draw, dtype, vocab):
    """Cases 8: columns that are not a multiple of 8; a bias moves its own column and no other."""
    hidden, weight = draw((4, 70), (vocab, 70), dtype=dtype)
    plain = op.forward_fp32(hidden, weight)
    for column in {0, vocab // 2, vocab - 1}:
        bias = torch.zeros(vocab, dtype=dtype)
        bias[column] = 1.5
        got = op.forward_fp32(hidden, weight, bias)
        assert same_bits(got[:, column], plain[:, column] + 1.5)
        others = torch.arange(vocab) != column
        assert same_bits(got[:, others], plain[:, others] + 0.0)


@each_dtype
@pytest.mark.parametrize(
    ("leading", "width", "vocab"),
    [((2, 4, 3), 64, 17), ((3, 7), 32, 5), ((1,), 8, 1), ((2, 1, 1, 2, 3), 9, 4), ((5,), 16, 3)],
)
def test_leading_dims(op, draw, dtype, leading, width, vocab):
    """LA10-12, LN06: leading dims stay, and only shape the same rows."""
    hidden, weight = draw((*leading, width), (vocab, width), dtype=dtype)
    out = op(hidden, weight)
    assert out.shape == (*leading, vocab) and out.is_contiguous()
    assert same_bits(out.reshape(-1, vocab), op(hidden.reshape(-1, width), weight))


def test_bias_is_added_once(op, draw):
    """LN08"""
    hidden, weight, bias = draw((2, 4, 32), (7, 32), (7,))
    assert same_bits(op(hidden, weight, bias), op(hidden, weight) + bias)


def test_the_operator_and_the_kernel_are_the_same(draw):
    hidden, weight, bias = draw((6, 1000), (13, 1000), (13,), dtype=torch.bfloat16)
    for arch in ("dav-2201", "dav-3510"):
        op = AscendLMHeadOp(wb.KernelConfig(tile_length=256, max_blocks=7, arch=arch), "twin")
        assert "256" in repr(op) and arch in repr(op)
        run = kernel(256, arch, 7)
        assert same_bits(op(hidden, weight, bias), run(hidden, weight, bias))
        assert same_bits(op.forward_fp32(hidden, weight), run(hidden, weight, None, torch.float32))
    config = AscendLMHeadOp().config
    assert (config.tile_length, config.max_blocks, config.arch) == (4096, 128, "dav-2201")
    assert repr(NativeLMHeadOp()) == "NativeLMHeadOp()"


# ---- bits: LA19-LA22, LN01, LN09-LN11 ----------------------------------------------------------


def test_rows_do_not_see_the_batch_size(op, draw):
    """LA19"""
    hidden, weight = draw((300, 1000), (129, 1000), seed=7, dtype=torch.bfloat16)
    alone = op.forward_fp32(hidden[:1], weight)
    for size in (2, 4, 16, 300):
        assert same_bits(op.forward_fp32(hidden[:size], weight)[:1], alone)
        assert same_bits(op(hidden[:size], weight)[:1], op(hidden[:1], weight))


def test_rows_do_not_see_their_position(op, draw):
    """LA20"""
    row, others, weight = draw((1000,), (8, 1000), (129, 1000), seed=11, dtype=torch.float16)
    alone = op(row[None], weight)[0]
    for position in range(1, 8):
        batch = others.clone()
        batch[position] = row
        assert same_bits(op(batch, weight)[position], alone)


def test_repeats(op, draw):
    """LA21 (three tiles), LA22"""
    hidden, weight = draw((4, 10000), (129, 10000), seed=5)
    assert same_bits(op(hidden, weight), op(hidden, weight))
    hidden, weight = draw((3, 5, 1000), (129, 1000), seed=5, dtype=torch.bfloat16)
    first = op(hidden, weight)
    assert all(same_bits(op(hidden, weight), first) for _ in range(3))


def test_each_row_as_if_it_were_alone(op, draw):
    """LN01"""
    hidden, weight = draw((2, 5, 4096), (128, 4096), seed=1)
    rows = [op(row[None], weight) for row in hidden.reshape(-1, 4096)]
    assert same_bits(op(hidden, weight).reshape(-1, 128), torch.cat(rows))


@pytest.mark.parametrize("width", [32, 33, 50])
def test_slices_and_padding(op, draw, width):
    """LN09, LN10; at widths where rows are not aligned alike."""
    hidden, padding, weight = draw((8, width), (6, width), (7, width))
    whole = op(hidden, weight)
    assert same_bits(op(hidden[:1], weight), whole[:1])
    assert same_bits(op(hidden[3:5], weight), whole[3:5])
    assert same_bits(op(torch.cat([hidden, padding]), weight)[:8], whole)
    assert same_bits(op(torch.cat([padding, hidden]), weight)[6:], whole)


@each_dtype
def test_inputs_are_not_changed(op, draw, dtype):
    """LN11"""
    tensors = draw((2, 8, 40), (9, 40), (9,), dtype=dtype)
    before = [t.clone() for t in tensors]
    versions = [t._version for t in tensors]
    for t in tensors:
        t.requires_grad_()
    op(*tensors).float().sum().backward()
    assert all(same_bits(a.detach(), b) for a, b in zip(tensors, before, strict=True))
    assert [t._version for t in tensors] == versions


def test_the_caller_s_precision_is_ignored_and_restored(op, draw, monkeypatch):
    """LN02: autocast, TF32 and bf16 matmuls."""
    tensors = draw((3, 32), (7, 32), (7,), seed=11)
    upstream = torch.linspace(-1, 1, 21).reshape(3, 7)
    mul, seen = torch.backends.mkldnn.matmul, []

    def run():
        leaves = [t.clone().requires_grad_() for t in tensors]
        out = op(*leaves)
        out.backward(upstream)
        return [out.detach(), *(t.grad for t in leaves)]

    plain = run()
    with torch.autocast("cpu", torch.bfloat16):
        under = run()
        assert torch.mm(*draw((2, 2), (2, 2))).dtype == torch.bfloat16  # still on
    assert all(same_bits(a, b) for a, b in zip(plain, under, strict=True))

    mv, before = torch.mv, mul.fp32_precision
    monkeypatch.setattr(torch, "mv", lambda *a: (seen.append(mul.fp32_precision), mv(*a))[1])
    torch.set_float32_matmul_precision("medium")
    try:
        assert mul.fp32_precision == "bf16"  # so this is a test
        low = run()
        assert mul.fp32_precision == "bf16" and torch.get_float32_matmul_precision() == "medium"
        with pytest.raises(ValueError):
            op(tensors[0], tensors[1][:, :5])
        assert mul.fp32_precision == "bf16"
    finally:
        torch.set_float32_matmul_precision("highest")
        mul.fp32_precision = before
    assert all(same_bits(a, b) for a, b in zip(plain, low, strict=True))
    assert set(seen) <= {"ieee"} and (seen or isinstance(op, AscendLMHeadOp))


# ---- strides: Cases 6 --------------------------------------------------------------------------


@each_dtype
def test_strides_and_offsets(op, draw, dtype):
    hidden, weight, bias = draw((6, 50), (9, 50), (9,), dtype=dtype)
    want = op(hidden, weight, bias)

    def shifted(t, offset):
        """The same values, `offset` elements into a storage: not 32-byte aligned."""
        buffer = torch.full((t.numel() + offset,), float("nan"), dtype=dtype)
        buffer[offset:] = t.flatten()
        return buffer[offset:].view(t.shape)

    def wide(t):
        """The same values as the middle columns of a wider tensor."""
        buffer = torch.full((*t.shape[:-1], 3 * t.shape[-1]), float("nan"), dtype=dtype)
        buffer[..., t.shape[-1] : 2 * t.shape[-1]] = t
        return buffer[..., t.shape[-1] : 2 * t.shape[-1]]

    def transposed(t):
        return t.t().contiguous().t()

    def negated(t):
        return torch._neg_view(-t)

    def strided(t):
        return torch.stack([t, -t], -1)[..., 0]

    ascend = isinstance(op, AscendLMHeadOp)  # the layout of the weight may reach torch.mv's bits
    for form in (wide, transposed, strided, negated):
        h, w, b = form(hidden), form(weight), form(bias)
        assert h.is_neg() or not (h.is_contiguous() and w.is_contiguous())
        assert same_bits(op(h, w if ascend else weight, b), want), form.__name__
        assert ratio(op(h, w, b), want, FORWARD, dtype) <= 1
    for offset in (1, 3, 7):
        h, w, b = shifted(hidden, offset), shifted(weight, offset), shifted(bias, offset)
        assert h.data_ptr() % 32 and w.data_ptr() % 32
        assert same_bits(op(h, w if ascend else weight, b), want)
    one = hidden[:1].expand(6, 50)
    assert one.stride(0) == 0 and same_bits(op(one, weight, bias), want[:1].expand(6, 9).clone())
    columns, column = op(hidden, weight[:1].expand(9, 50)), op(hidden, weight[:1])
    assert ratio(columns, column.expand(6, 9), FORWARD, dtype) <= 1
    assert not ascend or same_bits(columns, column.expand(6, 9).clone())
    ones = torch.ones((), dtype=dtype).expand(9)
    assert same_bits(op(hidden, weight, ones), op(hidden, weight, torch.ones(9, dtype=dtype)))


def test_views_that_torch_negates_lazily_reach_the_kernel(draw):
    hidden, weight, bias = draw((3, 40), (5, 40), (5,))
    want = kernel()(hidden, weight, bias)
    lazy = [torch._neg_view(-t) for t in (hidden, weight, bias)]
    assert all(t.is_neg() for t in lazy) and same_bits(kernel()(*lazy), want)


# ---- gradients: LA13-LA18, LN12, Cases 6 and 8 -------------------------------------------------


def gradients(op, hidden, weight, bias, upstream):
    leaves = [t.clone().requires_grad_() for t in (hidden, weight, bias) if t is not None]
    op(*leaves).backward(upstream)
    return [t.grad for t in leaves]


def closed_form(hidden, weight, bias, upstream):
    """Gradients in fp64."""
    g = upstream.double().reshape(-1, weight.shape[0])
    h = hidden.double().reshape(-1, hidden.shape[-1])
    grads = [(g @ weight.double()).reshape(hidden.shape), g.T @ h]
    return grads if bias is None else [*grads, g.sum(0)]


@each_dtype
@with_bias
def test_gradient_accuracy(op, draw, dtype, biased):
    """LA13-18"""
    hidden, weight, bias, upstream = draw(
        (3, 5, 1000), (129, 1000), (129,), (3, 5, 129), dtype=dtype
    )
    bias = bias if biased else None
    got = gradients(op, hidden, weight, bias, upstream)
    native = gradients(NativeLMHeadOp(), hidden, weight, bias, upstream)
    for g, n, e in zip(got, native, closed_form(hidden, weight, bias, upstream), strict=True):
        assert g.dtype == dtype and g.shape == e.shape
        assert ratio(g, e, GRADIENT, dtype) <= 1
        assert ratio(g, n, GRADIENT, dtype) <= 1
    # Control: a random upstream sees an entry that does not count; ones would hide a wrong mean.
    upstream[1, 2, 64] = 0
    wrong = closed_form(hidden, weight, bias, upstream)
    assert all(ratio(g, e, GRADIENT, dtype) > 1 for g, e in zip(got, wrong, strict=True))


def test_gradient_closed_form(op, draw):
    """LN12"""
    hidden, weight, bias, upstream = draw((2, 4, 32), (7, 32), (7,), (2, 4, 7))
    got = gradients(op, hidden, weight, bias, upstream)
    want = closed_form(hidden, weight, bias, upstream)
    sizes = closed_form(hidden.abs(), weight.abs(), bias, upstream.abs())
    for g, e, size in zip(got, want, sizes, strict=True):
        # At most 8 terms: a product and 7 sums each, in any order.
        bound = 8 * 2.0**-24 * (1 + 2.0**-20) * size
        assert ((g - e).abs() <= bound).all()
        assert not ((-g - e).abs() <= bound).all()  # the control


class CountedProducts(TorchDispatchMode):
    """The depths of torch's matrix products, one after another."""

    def __init__(self):
        super().__init__()
        self.depths = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.mm.default:
            self.depths.append(args[0].shape[1])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_a_weight_of_several_parts(draw, monkeypatch, dtype):
    """Backward by matmul widens a 16-bit weight a part at a time; also where the last is ragged."""
    import workbench.ops.lm_head as module

    hidden, weight, bias, upstream = draw((5, 64), (70, 64), (70,), (5, 70), dtype=dtype)
    op = AscendLMHeadOp(backward="matmul")
    with CountedProducts() as counted:
        whole = gradients(op, hidden, weight, bias, upstream)
    assert counted.depths == [70, 5]  # one for hidden, over V; one for weight, over the rows
    monkeypatch.setattr(module, "_VJP_BYTES", 4 * 64 * 16)
    with CountedProducts() as counted:
        parts = gradients(op, hidden, weight, bias, upstream)
    assert counted.depths == [16, 16, 16, 16, 6, 5, 5, 5, 5, 5]
    assert same_bits(parts[2], whole[2])
    for g, e in zip(parts, closed_form(hidden, weight, bias, upstream), strict=True):
        assert ratio(g, e, GRADIENT, dtype) <= 1
    # Control: without the last part, which is the smallest, each of them is out of its cell.
    upstream[:, 64:] = 0
    for g, e in zip(parts, closed_form(hidden, weight, bias, upstream), strict=True):
        assert ratio(g, e, GRADIENT, dtype) > 1


@each_dtype
def test_gradient_of_forward_fp32(op, draw, dtype):
    hidden, weight, bias = draw((4, 50), (11, 50), (11,), dtype=dtype)
    (upstream,) = draw((4, 11), seed=1)
    leaves = [t.clone().requires_grad_() for t in (hidden, weight, bias)]
    op.forward_fp32(*leaves).backward(upstream)
    for leaf, e in zip(leaves, closed_form(hidden, weight, bias, upstream), strict=True):
        assert leaf.grad.dtype == dtype
        assert ratio(leaf.grad, e, GRADIENT, dtype) <= 1


@each_dtype
def test_gradients_only_where_wanted(op, draw, dtype):
    hidden, weight, bias, upstream = draw((4, 50), (11, 50), (11,), (4, 11), dtype=dtype)
    every = gradients(op, hidden, weight, bias, upstream)
    for chosen in range(3):
        leaves = [t.clone() for t in (hidden, weight, bias)]
        leaves[chosen].requires_grad_()
        op(*leaves).backward(upstream)
        assert [t.grad is not None for t in leaves] == [i == chosen for i in range(3)]
        assert same_bits(leaves[chosen].grad, every[chosen])
    assert not op(hidden, weight, bias).requires_grad
    leaf = hidden.clone().requires_grad_()
    with torch.no_grad():
        assert not op(leaf, weight).requires_grad


@each_dtype
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_zero_upstream_gradient(op, draw, dtype, zero):
    hidden, weight, bias = draw((3, 40), (7, 40), (7,), dtype=dtype)
    upstream = torch.full((3, 7), zero, dtype=dtype)
    assert bool(torch.signbit(upstream).all()) == (str(zero) == "-0.0")
    for g in gradients(op, hidden, weight, bias, upstream):
        assert (g == 0).all()
    # One row without a gradient leaves the others' alone.
    (upstream,) = draw((3, 7), dtype=dtype)
    upstream[1] = zero
    got = gradients(op, hidden, weight, bias, upstream)
    assert (got[0][1] == 0).all() and got[0][[0, 2]].any()
    without = gradients(op, hidden[[0, 2]], weight, bias, upstream[[0, 2]])
    assert ratio(got[1], without[1], GRADIENT, dtype) <= 1


def test_vjp_of_nothing_asked():
    g, h, w = torch.ones(2, 3), torch.ones(2, 4), torch.ones(3, 4)
    assert linear_vjp(g, h, w, need_hidden=False, need_weight=False) == (None, None, None)


# ---- empty: LA24, LN07, Cases 6 ----------------------------------------------------------------


@each_dtype
@with_bias
@pytest.mark.parametrize(
    ("leading", "width", "vocab"),
    [
        ((0,), 8, 3),
        ((2, 0), 8, 3),
        ((0, 0), 0, 0),
        ((4,), 8, 0),
        ((4,), 0, 3),
        ((2, 2), 0, 0),
        ((0,), 0, 3),
    ],
)
def test_empty(op, draw, dtype, biased, leading, width, vocab):
    hidden, weight, bias = (
        t.requires_grad_() for t in draw((*leading, width), (vocab, width), (vocab,), dtype=dtype)
    )
    arguments = (hidden, weight, bias) if biased else (hidden, weight)
    for run, out_dtype in ((op, dtype), (op.forward_fp32, torch.float32)):
        out = run(*arguments)
        assert out.shape == (*leading, vocab) and out.dtype == out_dtype
        # H = 0 is the empty sum, +0, and the bias.
        want = bias if biased else torch.zeros(vocab, dtype=dtype)
        assert same_bits(out, want.detach().to(out_dtype).expand(out.shape).clone())
        for t in arguments:
            t.grad = None
        assert out.grad_fn is not None  # the edges of the graph are kept
        out.backward(torch.ones_like(out))
        for t in arguments:
            assert t.grad is not None and t.grad.shape == t.shape and t.grad.dtype == dtype
        assert not hidden.grad.any() and not weight.grad.any()
        if biased:
            assert (bias.grad == hidden.shape[:-1].numel()).all()


def test_the_empty_sum_is_plus_zero():
    out = AscendLMHeadOp()(torch.empty(2, 0), torch.empty(3, 0), torch.full((3,), -0.0))
    assert not bits(out).any()
