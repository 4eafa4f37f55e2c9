"""The operators as torch sees them: opcheck, fake tensors, compile, export, autocast, threads.

`test_func.py` has torch.func; second derivatives are with each operator's own tests.
"""

from __future__ import annotations

import copy
import itertools
import pickle
import threading

import pytest
import torch
from helpers import ARCHS, DTYPES, bits, expected, same_bits
from op_cases import ARCH, CASES, grads
from torch._inductor import metrics
from torch._subclasses import FakeTensorMode

import workbench as wb
from workbench.build.config import spec
from workbench.errors import InputError
from workbench.ops import AscendLMHeadOp
from workbench.ops.precision import full_fp32

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)


# ---- opcheck -------------------------------------------------------------------------------------


def checked(name: str, dtype: torch.dtype) -> list[tuple]:
    """Calls of the torch operator `name` that opcheck tries; `torch.ops.workbench` has them."""
    config = wb.KernelConfig(tile_length=64, arch=ARCH)
    head = spec("lm_head").complete(config).to_key()
    logp = spec("batch_invariant_logp").complete(config).to_key()
    gemm = spec("det_gemm").complete(wb.KernelConfig(leaf_length=16, arch=ARCH)).to_key()

    def leaves(op, **options):
        case = CASES[op]
        return case.leaves(case.draw(dtype, **options))

    hidden, weight, bias = leaves("lm_head", rows=(2, 3))
    if name == "lm_head":
        modes = itertools.product((bias, None), (False, True), ("deterministic", "matmul"))
        return [(hidden, weight, b, wide, head, "twin", mode) for b, wide, mode in modes]
    if name == "det_gemm":
        a, b = leaves("det_gemm")
        mixed = a.detach().float().requires_grad_()
        return [(left, b, wide, gemm, "twin") for left in (a, mixed) for wide in (False, True)]
    logits, target = leaves("batch_invariant_logp", rows=(2, 3))
    if name == "batch_invariant_logp":
        return [(logits, target, -100, validate, logp, "twin") for validate in (True, False)]
    _, lse = torch.ops.workbench.batch_invariant_logp(logits, target, -100, True, logp, "twin")
    ups = [torch.randn(2, 3, requires_grad=True) for _ in range(2)]
    lse = lse.detach()
    if name == "batch_invariant_logp_grad":
        return [(logits, target, lse.requires_grad_(), *ups, -100, logp, "twin")]
    rest = (1000, head, logp, "deterministic", "twin")
    if name == "linear_logp":
        return [
            (hidden, weight, target, b, -100, validate, wide, *rest)
            for b, validate, wide in ((bias, True, False), (None, False, True))
        ]
    assert name == "linear_logp_grad"
    _, lse = torch.ops.workbench.linear_logp(hidden, weight, target, bias, -100, True, False, *rest)
    plain = [t.detach() for t in (*ups, hidden, weight, target, bias, lse)]  # no second derivative
    needs = ((True, True, True), (True, False, False), (False, False, False))
    return [(*plain, *need, -100, False, *rest) for need in needs]


TORCH_OPS = (
    *("lm_head", "det_gemm", "batch_invariant_logp", "batch_invariant_logp_grad"),
    *("linear_logp", "linear_logp_grad"),
)


@each_dtype
@pytest.mark.parametrize("name", TORCH_OPS)
def test_opcheck(name, dtype):
    for arguments in checked(name, dtype):
        found = torch.library.opcheck(getattr(torch.ops.workbench, name).default, arguments)
        assert set(found.values()) == {"SUCCESS"} and len(found) >= 4


def test_every_torch_operator_is_checked():
    for case in CASES.values():
        case.make()
    known = {
        name.partition("::")[2]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("workbench::")
    }
    assert {name.partition(".")[0] for name in known} == set(TORCH_OPS)


# ---- tensors without values ----------------------------------------------------------------------


@each_dtype
@each_case
def test_meta_and_fake_tensors(case, dtype):
    op = case.make()
    for rows in ((0,), (5,)):
        tensors = case.draw(dtype, rows)
        for method, out_dtype in case.methods:
            run = getattr(op, method)
            want = run(*tensors)
            assert want.dtype == (out_dtype or dtype)
            out = run(*(t.to("meta") for t in tensors))
            assert (out.device.type, out.shape, out.dtype) == ("meta", want.shape, want.dtype)
            with FakeTensorMode() as mode:
                fakes = case.leaves([mode.from_tensor(t) for t in tensors])
                out = run(*fakes)
                assert (out.device.type, out.shape, out.dtype) == ("cpu", want.shape, want.dtype)
                out.sum().backward()
                for leaf in fakes:
                    if leaf.is_floating_point():
                        assert (leaf.grad.shape, leaf.grad.dtype) == (leaf.shape, leaf.dtype)
                # Control: the fake implementation refuses what the real one refuses.
                with pytest.raises(InputError):
                    run(*fakes[:-1], fakes[-1].unsqueeze(-1))


# ---- torch.compile and export --------------------------------------------------------------------


def loss_of(case):
    """A function of the operator with work of torch's own before and after it."""
    op = case.make()

    def loss(first, *rest):
        a, b = (getattr(op, method)(first * 2, *rest) for method, _ in case.methods)
        return (a.float().sin() + b.float()).sum(-1)

    return loss


@each_case
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_compile(case, dynamic):
    """One graph, forward and backward, and the bits of the plain call."""
    loss = loss_of(case)
    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for rows in (3, 5, 1, 0):
        tensors = case.draw(rows=(rows,), seed=rows)
        leaves, again = case.leaves(tensors), case.leaves(tensors)
        out, want = compiled(*leaves), loss(*again)
        assert same_bits(out, want)
        out.sum().backward()
        want.sum().backward()
        for a, b in zip(grads(leaves), grads(again), strict=True):
            assert same_bits(a, b)


@pytest.mark.slow
@each_case
def test_compile_by_the_default_backend(case):
    """Inductor, whose own code runs before and after the operator: the operator's bits, forward
    and backward. Doubling is exact, so no code of torch's can change a bit of these."""
    op = case.make()

    def doubled(first, *rest):
        return op(first * 2, *rest) * 2

    torch._dynamo.reset()
    metrics.reset()
    leaves, again = case.leaves(case.draw()), case.leaves(case.draw())
    out, want = torch.compile(doubled, fullgraph=True)(*leaves), doubled(*again)
    assert metrics.generated_kernel_count >= 2  # it was inductor, and not eager
    assert same_bits(out, want)
    upstream = torch.randn(want.shape, generator=torch.Generator().manual_seed(1))
    out.backward(upstream)
    want.backward(upstream)
    for a, b in zip(grads(leaves), grads(again), strict=True):
        assert same_bits(a, b) and a.count_nonzero()


@each_case
def test_no_graph_breaks(case):
    loss, tensors = loss_of(case), case.leaves(case.draw())
    torch._dynamo.reset()
    found = torch._dynamo.explain(loss)(*tensors)
    assert (found.graph_count, found.graph_break_count) == (1, 0), found.break_reasons

    # Control: a break is counted.
    def broken(*tensors):
        out = loss(*tensors)
        torch._dynamo.graph_break()
        return out + loss(*tensors)

    torch._dynamo.reset()
    assert torch._dynamo.explain(broken)(*tensors).graph_break_count >= 1


@each_case
def test_compile_under_autocast(case):
    loss, tensors = loss_of(case), case.draw(torch.bfloat16)
    want = loss(*tensors)
    torch._dynamo.reset()
    with torch.autocast("cpu", torch.bfloat16):
        assert same_bits(torch.compile(loss, fullgraph=True, backend="aot_eager")(*tensors), want)


@each_case
def test_export(case):
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.op = case.make()

        def forward(self, *tensors):
            return self.op(*tensors)

    tensors = tuple(case.draw())
    program = torch.export.export(Module(), tensors)
    assert f"workbench.{case.name}" in str(program.graph)
    assert same_bits(program.module()(*tensors), case.make()(*tensors))


# ---- modes of torch ------------------------------------------------------------------------------


@each_dtype
@each_case
def test_autocast_changes_nothing(case, dtype):
    """Neither bits nor dtypes, forward and backward."""
    op = case.make()
    for method, out_dtype in case.methods:
        results = []
        for on in (False, True):
            leaves = case.leaves(case.draw(dtype))
            with torch.autocast("cpu", torch.bfloat16, enabled=on):
                out = getattr(op, method)(*leaves)
                assert (torch.mm(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.bfloat16) == on
                out.sum().backward()
            assert out.dtype == (out_dtype or dtype)
            results.append([out, *grads(leaves)])
        for a, b in zip(*results, strict=True):
            assert same_bits(a, b)


@each_case
def test_no_grad_and_inference_mode(case):
    op, tensors = case.make(), case.draw()
    want = op(*tensors)
    assert not want.requires_grad
    leaves = case.leaves(tensors)
    assert op(*leaves).requires_grad
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            out = op(*leaves)
            assert same_bits(out, want) and not out.requires_grad
            assert same_bits(op(*(t.clone() for t in tensors)), want)  # tensors born in the mode


@pytest.mark.parametrize("case", [CASES["batch_invariant_logp"], CASES["linear_logp"]])
def test_a_target_has_no_gradient(case):
    tensors = case.draw()
    place = case.arguments.index("target")
    with pytest.raises(RuntimeError, match="floating point"):
        tensors[place].clone().requires_grad_()
    floats = case.leaves(tensors)
    with pytest.raises(InputError, match="target is fp32; want int64 or int32"):
        op_arguments = [*floats]
        op_arguments[place] = tensors[place].float().requires_grad_()
        case.make()(*op_arguments)
    case.make()(*floats).sum().backward()
    assert floats[place].grad is None


@each_case
def test_default_dtype_changes_nothing(case):
    op, tensors = case.make(), case.draw(torch.bfloat16)
    want = op(*tensors)
    torch.set_default_dtype(torch.float64)
    try:
        leaves = case.leaves(tensors)
        out = op(*leaves)
        out.sum().backward()
    finally:
        torch.set_default_dtype(torch.float32)
    assert same_bits(out, want)
    assert all(g.dtype == torch.bfloat16 for g in grads(leaves))


@each_case
def test_copies_of_an_operator(case):
    op, tensors = case.make(), case.draw()
    want = op(*tensors)
    for other in (copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        assert repr(other) == repr(op) and same_bits(other(*tensors), want)
    native = case.native()
    assert same_bits(pickle.loads(pickle.dumps(native))(*tensors), native(*tensors))


@each_case
def test_checkpointing(case):
    """Recomputed in backward by torch.utils.checkpoint: the same bits."""
    op, tensors = case.make(), case.draw()
    leaves, again = case.leaves(tensors), case.leaves(tensors)
    op(*leaves).sum().backward()
    torch.utils.checkpoint.checkpoint(op, *again, use_reentrant=False).sum().backward()
    for a, b in zip(grads(leaves), grads(again), strict=True):
        assert same_bits(a, b)


# ---- side by side, and from several threads ------------------------------------------------------


def test_two_configurations_side_by_side(draw):
    hidden, weight = draw((8, 4096), (33, 4096))
    ops = {
        (arch, tile): AscendLMHeadOp(wb.KernelConfig(tile_length=tile, arch=arch))
        for arch, tile in itertools.product(ARCHS, (64, 1024))
    }
    for _ in range(2):  # in turn, so that neither disturbs the other
        for (arch, tile), op in ops.items():
            want = expected(hidden, weight, arch=arch, tile=tile)
            assert (bits(op(hidden, weight)) == want).all()
    distinct = {bits(op(hidden, weight)).tobytes() for op in ops.values()}
    assert len(distinct) == 3  # tile 64 is one order on both; the others differ


@pytest.mark.parametrize("shared", [True, False], ids=["one operator", "one operator each"])
@each_case
def test_threads(case, shared):
    """Forward and backward from several threads at once, each with inputs of its own."""
    one = case.make()
    jobs = [
        (one if shared else case.make(), case.draw(dtype, (5,), seed))
        for seed, dtype in enumerate([*DTYPES.values(), torch.float32])
    ]

    def run(op, tensors):
        leaves = case.leaves(tensors)
        out = op(*leaves)
        out.sum().backward()
        return [out.detach(), *grads(leaves)]

    alone = [run(*job) for job in jobs]
    precision = torch.backends.mkldnn.matmul.fp32_precision
    wrong: list = []
    start = threading.Barrier(len(jobs))

    def work(i):
        try:
            start.wait(30)
            for _ in range(10):
                assert all(same_bits(a, b) for a, b in zip(run(*jobs[i]), alone[i], strict=True))
        except BaseException as error:
            wrong.append((i, error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not wrong and not any(thread.is_alive() for thread in threads), wrong
    assert torch.backends.mkldnn.matmul.fp32_precision == precision


def test_the_precision_of_the_process_survives_threads_that_overlap():
    """The first in is the first out: it must not restore while the other is inside."""
    place = torch.backends.mkldnn.matmul
    before = place.fp32_precision
    place.fp32_precision = "bf16"
    try:
        first, second = full_fp32("cpu"), full_fp32("cpu")
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert place.fp32_precision == "ieee"
        second.__exit__(None, None, None)
        assert place.fp32_precision == "bf16"
    finally:
        place.fp32_precision = before
