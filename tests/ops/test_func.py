"""The operators under torch.func: vmap, grad, vjp and jacrev; forward mode, which is refused."""

from __future__ import annotations

import pytest
import torch
from helpers import DTYPES, same_bits
from op_cases import CASES, grads
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

import workbench as wb
from workbench.errors import InputError
from workbench.ops import AscendLMHeadOp

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
twice_differentiable = pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.name != "linear_logp"], ids=lambda c: c.name
)


@pytest.fixture(autouse=True)
def no_fallback():
    """torch's slow path for operators without a rule for vmap, turned into an error."""
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(True)


def batches(case, dtype=torch.float32, size=3):
    """`size` slices with rows of their own, stacked where they have rows: (tensors, in_dims)."""
    drawn = [case.draw(dtype, seed=seed) for seed in range(size)]
    stacked = case.with_rows()
    tensors = [
        torch.stack([d[i] for d in drawn]) if i in stacked else drawn[0][i]
        for i in range(len(case.arguments))
    ]
    return tensors, [0 if i in stacked else None for i in range(len(case.arguments))]


def one(tensors, in_dims, i):
    """The arguments of slice i."""
    return [t if d is None else t.select(d, i) for t, d in zip(tensors, in_dims, strict=True)]


# ---- vmap ----------------------------------------------------------------------------------------


@each_dtype
@each_case
def test_vmap_over_rows(case, dtype):
    """The bits of each slice, for every way to be called."""
    op = case.make()
    tensors, in_dims = batches(case, dtype)
    for method, _ in case.methods:
        run = getattr(op, method)
        want = torch.stack([run(*one(tensors, in_dims, i)) for i in range(3)])
        assert same_bits(vmap(run, tuple(in_dims))(*tensors), want)
        # The batch may lie in any dimension, and the result's too.
        moved = [
            t if d is None else t.movedim(0, -1) for t, d in zip(tensors, in_dims, strict=True)
        ]
        last = tuple(None if d is None else -1 for d in in_dims)
        assert same_bits(vmap(run, last, out_dims=1)(*moved), want.movedim(0, 1).contiguous())


@each_case
def test_vmap_over_nothing(case):
    """An empty batch has the shapes of a slice, whichever arguments have it."""
    op = case.make()
    drawn = case.draw(torch.float32)
    for which in range(len(drawn)):
        given = [t.new_empty((0, *t.shape)) if i == which else t for i, t in enumerate(drawn)]
        in_dims = tuple(0 if i == which else None for i in range(len(drawn)))
        for method, _ in case.methods:
            run = getattr(op, method)
            got, one_slice = vmap(run, in_dims)(*given), run(*drawn)
            assert got.shape == (0, *one_slice.shape) and got.dtype == one_slice.dtype


def test_control_an_operator_without_a_rule_for_vmap_is_seen():
    @torch.library.custom_op("workbench_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    with pytest.raises(RuntimeError, match="hit the vmap fallback"):
        vmap(twice)(torch.ones(2, 3))


@each_case
def test_vmap_over_anything(case):
    """Over each argument alone, weights and targets too, and over all at once."""
    op = case.make()
    drawn = [case.draw(seed=seed) for seed in range(3)]
    places = range(len(case.arguments))
    for chosen in [*({i} for i in places), set(places)]:
        tensors = [
            torch.stack([d[i] for d in drawn]) if i in chosen else drawn[0][i] for i in places
        ]
        in_dims = [0 if i in chosen else None for i in places]
        want = torch.stack([op(*one(tensors, in_dims, i)) for i in range(3)])
        assert same_bits(vmap(op, tuple(in_dims))(*tensors), want), chosen


@each_case
def test_vmap_within_vmap(case):
    op = case.make()
    outer = [case.draw(rows=(2, 3, 4), seed=5)[i] for i in range(len(case.arguments))]
    stacked = case.with_rows()
    in_dims = tuple(0 if i in stacked else None for i in range(len(outer)))
    got = vmap(vmap(op, in_dims), in_dims)(*outer)
    flat = [t.flatten(0, 2) if i in stacked else t for i, t in enumerate(outer)]
    assert same_bits(got.flatten(0, 2), op(*flat))


@each_case
def test_vmap_with_autograd_outside(case):
    op = case.make()
    tensors, in_dims = batches(case)
    leaves, again = case.leaves(tensors), case.leaves(tensors)
    vmap(op, tuple(in_dims))(*leaves).sum().backward()
    sum(op(*one(again, in_dims, i)).sum() for i in range(3)).backward()
    for i, (a, b) in enumerate(zip(leaves, again, strict=True)):
        if a.is_floating_point():
            assert a.grad.count_nonzero()
            if in_dims[i] == 0:  # the others add over slices, in another order
                assert same_bits(a.grad, b.grad)


# ---- grad, vjp, jacrev ---------------------------------------------------------------------------


def total(op, upstream):
    """A function with the given gradient of the operator's result."""
    return lambda *tensors: (op(*tensors) * upstream).sum()


@each_dtype
@each_case
def test_grad(case, dtype):
    """Of every differentiable argument: the bits of `.backward()`."""
    op, tensors = case.make(), case.draw(dtype)
    floats = tuple(i for i, t in enumerate(tensors) if t.is_floating_point())
    upstream = torch.linspace(-1, 1, op(*tensors).numel()).to(op(*tensors)).view_as(op(*tensors))
    leaves = case.leaves(tensors)
    total(op, upstream)(*leaves).backward()
    found = grad(total(op, upstream), argnums=floats)(*tensors)
    for a, b in zip(found, grads(leaves), strict=True):
        assert same_bits(a, b) and a.count_nonzero()
    out, pull = vjp(lambda *chosen: op(*(chosen[floats.index(i)] if i in floats else t
                                         for i, t in enumerate(tensors))),
                    *(tensors[i] for i in floats))  # fmt: skip
    assert same_bits(out, op(*tensors))
    for a, b in zip(pull(upstream), grads(leaves), strict=True):
        assert same_bits(a, b)


@each_case
def test_per_sample_gradients(case):
    """vmap of grad: each slice's gradient of everything, weights too."""
    op = case.make()
    tensors, in_dims = batches(case)
    floats = tuple(i for i, t in enumerate(tensors) if t.is_floating_point())
    found = vmap(grad(total(op, 1.0), argnums=floats), tuple(in_dims))(*tensors)
    for i in range(3):
        leaves = case.leaves(one(tensors, in_dims, i))
        op(*leaves).sum().backward()
        for a, b in zip(found, grads(leaves), strict=True):
            assert same_bits(a[i], b)


@each_case
def test_jacrev(case):
    op, tensors = case.make(), case.draw()
    found = jacrev(op)(*tensors)
    leaves = case.leaves(tensors)
    out = op(*leaves)
    assert found.shape == out.shape + tensors[0].shape
    flat = found.view(out.numel(), *tensors[0].shape)
    for i in range(0, out.numel(), 7):
        unit = torch.zeros(out.numel()).index_fill_(0, torch.tensor(i), 1).view_as(out)
        (row,) = torch.autograd.grad(out, leaves[0], unit, retain_graph=True)
        assert same_bits(flat[i], row)


@twice_differentiable
def test_grad_of_grad(case):
    """As autograd's own second derivative, with respect to the first argument and the second."""
    op, (first, second, *rest) = case.make(), case.draw()

    def inner(a, b):
        return grad(lambda x: op(x, b, *rest).pow(2).sum())(a)

    others = (0, 1) if second.is_floating_point() else (0,)
    found = grad(lambda a, b: inner(a, b).pow(2).sum(), argnums=others)(first, second)
    leaves = case.leaves([first, second])
    (g,) = torch.autograd.grad(op(*leaves, *rest).pow(2).sum(), leaves[0], create_graph=True)
    want = torch.autograd.grad(g.pow(2).sum(), [leaves[i] for i in others])
    for a, b in zip(found, want, strict=True):
        assert same_bits(a, b) and a.count_nonzero()


def test_a_second_derivative_of_linear_logp_is_refused():
    case = CASES["linear_logp"]
    op, (hidden, *rest) = case.make(), case.draw()
    with pytest.raises(InputError, match="AscendLMHeadOp, then AscendBatchInvariantLogpOp"):
        grad(lambda h: grad(lambda x: op(x, *rest).sum())(h).sum())(hidden)


def test_a_module_by_functional_call():
    """The usual way to per-sample gradients of a model."""

    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(9, 70))
            self.op = AscendLMHeadOp(wb.KernelConfig(tile_length=64))

        def forward(self, hidden):
            return self.op(hidden, self.weight)

    head, hidden = Head(), torch.randn(4, 3, 70)
    parameters = {name: p.detach() for name, p in head.named_parameters()}

    def loss(parameters, hidden):
        return functional_call(head, parameters, (hidden,)).pow(2).sum()

    found = vmap(grad(loss), (None, 0))(parameters, hidden)["weight"]
    for i in range(4):
        head.zero_grad()
        head(hidden[i]).pow(2).sum().backward()
        assert same_bits(found[i], head.weight.grad)


@each_case
def test_functionalize(case):
    op, tensors = case.make(), case.draw()
    assert same_bits(torch.func.functionalize(op)(*tensors), op(*tensors))


# ---- forward mode --------------------------------------------------------------------------------


def dual(op, tensors, differentiable):
    first = tensors[0].clone().requires_grad_(differentiable)
    with forward_ad.dual_level():
        return op(forward_ad.make_dual(first, torch.ones_like(first)), *tensors[1:])


FORWARD = {
    "jvp": lambda op, t: jvp(lambda x: op(x, *t[1:]), (t[0],), (t[0],)),
    "jacfwd": lambda op, t: jacfwd(op)(*t),
    "hessian": lambda op, t: hessian(lambda x: op(x, *t[1:]).sum())(t[0]),
    "linearize": lambda op, t: linearize(lambda x: op(x, *t[1:]), t[0]),
    "forward_ad": lambda op, t: dual(op, t, False),
    "forward_ad of a leaf": lambda op, t: dual(op, t, True),
}


@pytest.mark.parametrize("way", FORWARD)
@each_case
def test_forward_mode_is_refused(case, way):
    """Never a tangent that is silently zero."""
    with pytest.raises(InputError, match=f"{case.name}.* has no forward-mode derivative.*jacrev"):
        FORWARD[way](case.make(), case.draw())


@each_case
def test_control_forward_mode_elsewhere_does_not_matter(case):
    """A dual level with no tangent on the inputs, and a tangent of torch's own operations."""
    op, tensors = case.make(), case.draw()
    with forward_ad.dual_level():
        other = forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert same_bits(op(*tensors), case.make()(*tensors))
        assert forward_ad.unpack_dual(other * 2).tangent.tolist() == [2, 2]


def test_control_the_operator_below_drops_the_tangent():
    """Why it is refused: torch's custom operators lose it without a word."""
    hidden, weight, bias = CASES["lm_head"].draw()
    key = CASES["lm_head"].make().config.to_key()
    with forward_ad.dual_level():
        tensor = forward_ad.make_dual(hidden, hidden)
        out = torch.ops.workbench.lm_head(tensor, weight, bias, False, key, "twin")
        assert forward_ad.unpack_dual(out).tangent is None


# ---- with torch.compile --------------------------------------------------------------------------


@each_case
def test_compiled_vmap(case):
    op = case.make()
    tensors, in_dims = batches(case)
    torch._dynamo.reset()
    compiled = torch.compile(vmap(op, tuple(in_dims)), fullgraph=True, backend="aot_eager")
    assert same_bits(compiled(*tensors), vmap(op, tuple(in_dims))(*tensors))


@each_case
def test_compiled_grad_fails_aloud(case):
    """torch cannot trace a custom operator inside torch.func.grad: an error, not other numbers.
    `.backward()` of a compiled function is the way (test_torch.py)."""
    op, tensors = case.make(), case.draw()
    torch._dynamo.reset()
    compiled = torch.compile(grad(total(op, 1.0)), fullgraph=True, backend="aot_eager")
    with pytest.raises(Exception, match=r"setup_context|functorch"):
        compiled(*tensors)
