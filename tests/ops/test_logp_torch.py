"""The log-probability as torch sees it, beyond what holds for every operator (test_torch.py,
test_func.py): two results, targets that are checked, one launch for a batch, second derivatives."""

from __future__ import annotations

import logp_kit as kit
import pytest
import torch
from helpers import DTYPES, same_bits

import workbench as wb
from workbench.errors import InputError
from workbench.ops import AscendBatchInvariantLogpOp, NativeBatchInvariantLogpOp
from workbench.ops.variant import built

each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
CONFIG = wb.KernelConfig(tile_length=64, max_blocks=7)
KEY = AscendBatchInvariantLogpOp(CONFIG).config.to_key()
U = 2.0**-24  # unit roundoff of fp32


@each_dtype
def test_both_results_without_values(dtype):
    op = AscendBatchInvariantLogpOp(CONFIG)
    logits = torch.empty(2, 3, 9, dtype=dtype, device="meta")
    target = torch.empty(2, 3, dtype=torch.int32, device="meta")
    for out in op(logits, target, return_lse=True):
        assert (out.device.type, out.shape, out.dtype) == ("meta", (2, 3), torch.float32)


def test_compile_both_results_and_checked_targets():
    """One graph, forward and backward, with targets that are checked: inside of the operator."""
    op = AscendBatchInvariantLogpOp(CONFIG)

    def loss(logits, target):
        logp, lse = op(logits, target, return_lse=True)
        return (logp * 2).exp() + lse - op(logits, target, validate=False)

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for rows in (3, 1):
        batch = kit.draw(rows, 70, seed=rows)
        leaves = [batch.logits.clone().requires_grad_() for _ in range(2)]
        out, want = compiled(leaves[0], batch.target), loss(leaves[1], batch.target)
        assert same_bits(out.detach(), want.detach())
        out.sum().backward()
        want.sum().backward()
        assert same_bits(leaves[0].grad, leaves[1].grad)
    with pytest.raises(InputError, match=r"target\[1\] is 70"):
        compiled(torch.zeros(3, 70), torch.tensor([0, 70, 1]))


@pytest.mark.parametrize("in_dims", [(0, 0), (None, 0), (2, 1)])
def test_vmap(in_dims):
    """The batch dimension becomes a leading one: the bits of each slice, in one launch."""
    op = AscendBatchInvariantLogpOp(CONFIG)
    slices = [kit.draw(3, 70, seed=i) for i in range(4)]
    logits, target = (
        torch.stack([s.logits for s in slices]),
        torch.stack([s.target for s in slices]),
    )
    given = [
        t[0] if dim is None else t.movedim(0, dim)
        for t, dim in zip((logits, target), in_dims, strict=True)
    ]

    def at(i):
        return [t[0 if dim is None else i]
                for t, dim in zip((logits, target), in_dims, strict=True)]  # fmt: skip

    want = torch.stack([op(*at(i)) for i in range(4)])
    assert same_bits(torch.func.vmap(op, in_dims=in_dims)(*given), want)
    last = built(kit.OP, KEY, "twin").last
    assert last.blocks == 7  # of 12 rows, and not of the 3 of one slice

    # Backward through a batched call is batched as well.
    leaf = given[0].clone().requires_grad_()
    torch.func.vmap(op, in_dims=in_dims)(leaf, given[1]).sum().backward()
    other = given[0].clone().requires_grad_()
    rows = [other if in_dims[0] is None else other.select(in_dims[0], i) for i in range(4)]
    torch.stack([op(row, at(i)[1]) for i, row in enumerate(rows)]).sum().backward()
    if in_dims[0] is not None:  # else four slices' gradients are added, in another order
        assert same_bits(leaf.grad, other.grad)
    assert leaf.grad.any() and other.grad.any()


def test_several_upstream_gradients_at_once():
    """is_grads_batched: vmap of the gradient's operator, in one launch."""
    op = AscendBatchInvariantLogpOp(CONFIG)
    batch = kit.draw(4, 70)
    leaf = batch.logits.clone().requires_grad_()
    logp = op(leaf, batch.target)
    (many,) = torch.autograd.grad(
        logp, leaf, torch.eye(4), is_grads_batched=True, retain_graph=True
    )
    for row, unit in zip(many, torch.eye(4), strict=True):
        (one,) = torch.autograd.grad(logp, leaf, unit, retain_graph=True)
        assert same_bits(row, one) and one.any()


@each_dtype
def test_autocast_does_not_reach_the_reference(dtype):
    batch = kit.draw(5, 70, kit.NAMES[dtype])
    run = kit.by_operator(NativeBatchInvariantLogpOp())
    plain = run(batch)
    with torch.autocast("cpu", torch.bfloat16):
        under = run(batch)
        assert torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16  # on
    assert all(same_bits(under[n], plain[n]) for n in kit.OUTPUTS)


def test_one_result_alone():
    op = AscendBatchInvariantLogpOp(CONFIG)
    batch = kit.draw(4, 70)
    leaf = batch.logits.clone().requires_grad_()
    logp, lse = op(leaf, batch.target, return_lse=True)
    both = kit.by_operator(op)
    for out, other, name in ((logp, "grad_lse", "grad_logp"), (lse, "grad_logp", "grad_lse")):
        (alone,) = torch.autograd.grad(out, leaf, getattr(batch, name), retain_graph=True)
        assert same_bits(alone, both(batch._replace(**{other: torch.zeros(4)}))["grad"])


# ---- second derivatives --------------------------------------------------------------------------


def second(op, batch: kit.Batch, v: torch.Tensor) -> list[torch.Tensor]:
    """The gradient of <v, d/dlogits> with respect to the logits and both upstream gradients."""
    leaf = batch.logits.clone().requires_grad_()
    up, down = (t.clone().requires_grad_() for t in batch[2:])
    out = op(leaf, batch.target, return_lse=True)
    (grad,) = torch.autograd.grad(out, leaf, (up, down), create_graph=True)
    return list(torch.autograd.grad((grad.float() * v).sum(), (leaf, up, down)))


def test_the_second_derivative():
    """Against the native operator's, both against the closed form in fp64: with q = v - <v, p>,
    c = grad_lse - grad_logp it is p c q, and v[target] - <v, p> and <v, p> for the upstreams."""
    batch = kit.draw(5, 70, seed=7)
    batch.target[2] = -100
    v = kit.draw(5, 70, seed=8).logits
    got = second(AscendBatchInvariantLogpOp(CONFIG), batch, v)
    native = second(NativeBatchInvariantLogpOp(), batch, v)
    live = (batch.target != -100).double()
    p = torch.softmax(batch.logits.double(), -1) * live[:, None]
    mean = (p * v).sum(-1)
    c = (batch.grad_lse - batch.grad_logp).double()
    at = v.double().gather(1, batch.target.clamp(min=0)[:, None])[:, 0] * live
    want = [p * (c[:, None] * (v - mean[:, None])), at - mean, mean]
    # Every result is a sum of at most 70 + 2 terms, each with a few roundings of its own; p has the
    # error of |x - lse| roundings.
    distance = float((batch.logits - batch.logits.logsumexp(-1, keepdim=True)).abs().max())
    factor = U * (72 + distance + 8)
    scale = [
        p * c.abs()[:, None] * (v.abs() + (p * v.abs()).sum(-1, keepdim=True)),
        at.abs() + (p * v.abs()).sum(-1),
        (p * v.abs()).sum(-1),
    ]
    for g, n, w, s in zip(got, native, want, scale, strict=True):
        assert ((g - w).abs() <= factor * s).all()
        assert ((n - w).abs() <= factor * s).all()
        assert w.abs().max() > 100 * factor * s.max()  # the bound is not vacuous
    assert not any(g[2].any() for g in got)  # the ignored row


def test_gradcheck_of_the_double_backward_formula():
    """The formula itself in fp64, where finite differences mean something: the operators are fp32,
    so a function with the same formulas stands for them."""
    from workbench.ops import logp as module

    class Context:
        ignore_index = -100
        saved_tensors: tuple = ()

    batch = kit.draw(3, 5, seed=9)
    target = torch.tensor([1, -100, 4])
    x, lse, up, down = (
        t.double().requires_grad_() for t in (batch.logits, batch.logits.logsumexp(-1), *batch[2:])
    )
    live = (target != -100).double()[:, None]
    one = torch.nn.functional.one_hot(target.clamp(min=0), 5)

    def gradient(x, lse, up, down):
        p = (x - lse[:, None]).exp()
        return live * (p * (down - up)[:, None] + up[:, None] * one)

    upstream = kit.draw(3, 5, seed=10).logits
    want = torch.autograd.grad(gradient(x, lse, up, down), (x, lse, up, down), upstream.double())
    context = Context()
    context.saved_tensors = (x, target, lse, up, down)
    got = module._double_backward(context, upstream)
    for g, w in zip([got[0], *got[2:5]], want, strict=True):
        # `upstream.float()` is exact here, so only fp64 roundings are left.
        assert ((g - w).abs() <= 2.0**-48 * (1 + w.abs().max())).all()
    assert got[1] is None and got[5:] == (None, None, None)


def test_the_second_derivative_under_no_upstream_of_it():
    """create_graph alone changes no bit of the first derivative."""
    op = AscendBatchInvariantLogpOp(CONFIG)
    batch = kit.draw(4, 70)
    leaf = batch.logits.clone().requires_grad_()
    (plain,) = torch.autograd.grad(op(leaf, batch.target).sum(), leaf)
    (again,) = torch.autograd.grad(op(leaf, batch.target).sum(), leaf, create_graph=True)
    assert same_bits(plain, again.detach()) and again.requires_grad
