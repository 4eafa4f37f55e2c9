"""The custom operator as torch sees it: fake tensors, opcheck, torch.compile, threads."""

from __future__ import annotations

import itertools
import threading

import pytest
import torch
from helpers import ARCHS, bits, expected
from torch._subclasses import FakeTensorMode

import workbench as wb
from workbench.errors import InputError
from workbench.ops import AscendLMHeadOp
from workbench.ops.lm_head import lm_head
from workbench.ops.precision import full_fp32

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
CONFIG = wb.KernelConfig(tile_length=64, max_blocks=7, arch="dav-3510")


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("fp32_out", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_opcheck(draw, dtype, fp32_out, biased):
    tensors = draw((2, 3, 70), (9, 70), (9,), dtype=dtype)
    hidden, weight, bias = (t.requires_grad_() for t in tensors)
    config = wb.KernelConfig(tile_length=64, arch="dav-2201").to_key()
    rest = (fp32_out, config, "twin")
    found = torch.library.opcheck(lm_head, (hidden, weight, bias if biased else None, *rest))
    assert set(found.values()) == {"SUCCESS"} and len(found) >= 4


@pytest.mark.parametrize("dtype", DTYPES, ids=["fp32", "bf16", "fp16"])
def test_meta_and_fake_tensors(draw, dtype):
    hidden, weight, bias = draw((2, 0, 70), (9, 70), (9,), dtype=dtype)
    op = AscendLMHeadOp(CONFIG)
    on_meta = [t.to("meta") for t in (hidden, weight, bias)]
    for run, out_dtype in ((op, dtype), (op.forward_fp32, torch.float32)):
        out = run(*on_meta)
        assert (out.device.type, out.shape, out.dtype) == ("meta", (2, 0, 9), out_dtype)
        with FakeTensorMode() as mode:
            fakes = [mode.from_tensor(t) for t in (hidden, weight, bias)]
            out = run(*fakes)
            assert (out.device.type, out.shape, out.dtype) == ("cpu", (2, 0, 9), out_dtype)
            # Control: the fake implementation refuses what the real one refuses.
            with pytest.raises(InputError, match="same H"):
                run(fakes[0], torch.empty(9, 71, dtype=dtype))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(draw, dynamic):
    op = AscendLMHeadOp(CONFIG)

    def loss(hidden, weight, bias):
        return (op(hidden, weight, bias) * 2).logsumexp(-1) + op.forward_fp32(hidden, weight)[
            ..., 0
        ]

    torch._dynamo.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for rows in (3, 5, 1, 0):
        leaves = [t.requires_grad_() for t in draw((2, rows, 70), (9, 70), (9,))]
        again = [t.detach().clone().requires_grad_() for t in leaves]
        out, want = compiled(*leaves), loss(*again)
        assert (bits(out) == bits(want)).all()
        out.sum().backward()
        want.sum().backward()
        for a, b in zip(leaves, again, strict=True):
            torch.testing.assert_close(a.grad, b.grad)


def test_export(draw):
    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(draw((9, 70))[0])
            self.op = AscendLMHeadOp(CONFIG)

        def forward(self, hidden):
            return self.op(hidden, self.weight)

    head = Head()
    (hidden,) = draw((4, 70), seed=1)
    program = torch.export.export(head, (hidden,))
    assert "workbench.lm_head" in str(program.graph)
    assert (bits(program.module()(hidden)) == bits(head(hidden))).all()


def test_vmap(draw):
    """Batched by torch a slice at a time: the bits of each slice."""
    hidden, weight = draw((4, 3, 70), (9, 70))
    op = AscendLMHeadOp(CONFIG)
    assert (
        bits(torch.func.vmap(lambda h: op(h, weight))(hidden)) == bits(op(hidden, weight))
    ).all()


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


@pytest.mark.parametrize("same", [True, False], ids=["one operator", "one operator each"])
def test_threads(draw, same):
    """Forward and backward from several threads at once, each with inputs of its own."""
    configs = [wb.KernelConfig(tile_length=t, arch=a) for t in (64, 1024) for a in ARCHS]
    shared = AscendLMHeadOp(configs[0])
    jobs = []
    for i, config in enumerate(configs):
        op = shared if same else AscendLMHeadOp(config)
        dtype = DTYPES[i % 3]
        jobs.append((op, draw((5, 1000), (13, 1000), (13,), (5, 13), seed=i, dtype=dtype)))

    def run(op, tensors):
        *leaves, upstream = (t.clone() for t in tensors)
        for t in leaves:
            t.requires_grad_()
        out = op(*leaves)
        out.backward(upstream)
        return [out.detach(), *(t.grad for t in leaves)]

    alone = [run(*job) for job in jobs]
    precision = torch.backends.mkldnn.matmul.fp32_precision
    wrong: list = []
    start = threading.Barrier(len(jobs))

    def work(i):
        try:
            start.wait(30)
            for _ in range(20):
                got = run(*jobs[i])
                assert (bits(got[0]) == bits(alone[i][0])).all()
                for g, want in zip(got[1:], alone[i][1:], strict=True):
                    torch.testing.assert_close(g, want)
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
