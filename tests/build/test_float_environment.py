"""A launch has the default floating-point environment, and gives the caller's back."""

from __future__ import annotations

import ctypes
import platform

import build_kit as kit
import pytest
import torch

import workbench as wb

libm = ctypes.CDLL("libm.so.6")
X86 = platform.machine() in ("x86_64", "AMD64")
UPWARD = 0x800 if X86 else 0x400000
NEAREST = 0

# Products and sums of the vector unit, of scalars, and a scalar argument's own rounding.
KERNEL = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void k(__gm__ float *out, __gm__ float *a, __gm__ float *b,
                                        float scalar) {
    const uint32_t at = GetBlockIdx() * 8;
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 1024);
    LocalTensor<float> x = buf.Get<float>();
    DataCopyExtParams params{1, 32, 0, 0, 0};
    DataCopyPadExtParams<float> pad;
    GlobalTensor<float> from;
    from.SetGlobalBuffer(a + at);
    DataCopyPad(x, from, params, pad);
    from.SetGlobalBuffer(b + at);
    DataCopyPad(x[8], from, params, pad);
    Mul(x[16], x, x[8], 8);
    ReduceSum(x[24], x[16], x[32], 8);
    out[at + 0] = x.GetValue(16);
    out[at + 1] = x.GetValue(24);
    out[at + 2] = a[at + 1] * b[at + 1];
    out[at + 3] = a[at + 2] + b[at + 2];
    out[at + 4] = scalar;
    out[at + 5] = half(scalar);
    out[at + 6] = scalar / 3.0f;
}
"""


@pytest.fixture
def kernel(record, tmp_path):
    return wb.build(kit.source(tmp_path, KERNEL), backend="twin")


def draw(blocks: int = 16):
    """Values whose products are subnormal or inexact."""
    g = torch.Generator().manual_seed(3)
    a = torch.randn(blocks, 8, generator=g)
    b = torch.randn(blocks, 8, generator=g)
    a[::2] *= 1e-20
    b[::2] *= 1e-20
    return a, b


def launch(kernel, a, b, scalar, threads):
    out = torch.zeros_like(a)
    kernel.launch("k", len(a), out, a, b, scalar, threads=threads)
    return out.view(torch.int32)


@pytest.fixture
def flush():
    if not torch.set_flush_denormal(True):
        pytest.skip("torch cannot flush subnormals on this CPU")
    torch.set_flush_denormal(False)
    yield lambda: torch.set_flush_denormal(True)
    torch.set_flush_denormal(False)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scalar", [1e-40, 0.1])
def test_under_flush_to_zero(kernel, flush, threads, scalar):
    a, b = draw()
    tiny, smallest = torch.full((1,), 1e-40), torch.finfo(torch.float32).smallest_normal
    want = launch(kernel, a, b, scalar, threads)
    plain = a * b
    assert (plain != 0).all() and (plain[::2].abs() < smallest).any()
    flush()
    got = launch(kernel, a, b, scalar, threads)
    here = a * b
    kept = (tiny * 0.5).view(torch.int32).item()
    torch.set_flush_denormal(False)
    assert torch.equal(got, want)
    # the controls: torch's own arithmetic differs under flush, after the launch as before it
    assert not torch.equal(here.view(torch.int32), plain.view(torch.int32))
    assert kept == 0 and (tiny * 0.5).view(torch.int32).item() != 0


@pytest.mark.parametrize("threads", [1, 2])
def test_under_another_rounding_mode(kernel, threads):
    a, b = draw()
    want = launch(kernel, a, b, 0.1, threads)
    plain = a * b
    assert libm.fegetround() == NEAREST and libm.fesetround(UPWARD) == 0
    try:
        got = launch(kernel, a, b, 0.1, threads)
        after = libm.fegetround()
        here = a * b
    finally:
        libm.fesetround(NEAREST)
    assert torch.equal(got, want)
    assert after == UPWARD, "the caller's mode comes back"
    assert not torch.equal(here, plain), "the control: torch's own arithmetic differs"


def test_the_callers_state_comes_back_after_a_fault(kernel, record, tmp_path):
    text = (
        '#include "kernel_operator.h"\n'
        'extern "C" __global__ __aicore__ void k() {\n'
        "AscendC::WaitFlag<AscendC::HardEvent::V_S>(0);\n}\n"
    )
    faulty = wb.build(kit.source(tmp_path, text, "faulty.asc"), backend="twin")
    assert libm.fesetround(UPWARD) == 0
    try:
        with pytest.raises(wb.TwinFault):
            faulty.launch("k", 4)
        after = libm.fegetround()
    finally:
        libm.fesetround(NEAREST)
    assert after == UPWARD


def test_the_lm_head_under_flush_to_zero(record, flush):
    """Subnormal products, for each dtype; fp16's own subnormals are widened by a product."""
    g = torch.Generator().manual_seed(4)
    for dtype, scale in ((torch.float32, 1e-21), (torch.bfloat16, 1e-21), (torch.float16, 1e-6)):
        kernel = wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin")
        hidden, weight = ((torch.randn(n, 200, generator=g) * scale).to(dtype) for n in (3, 5))
        want = {t: kernel(hidden, weight, None, torch.float32, threads=t) for t in (1, 2)}
        assert (want[1] != 0).all()
        flush()
        got = {t: kernel(hidden, weight, None, torch.float32, threads=t) for t in (1, 2)}
        torch.set_flush_denormal(False)
        for t in (1, 2):
            assert torch.equal(got[t].view(torch.int32), want[1].view(torch.int32)), (dtype, t)
