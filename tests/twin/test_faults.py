"""What a device forbids or hangs on is a TwinFault at the user's line, and the process lives on.

Each faulty kernel has a corrected twin that runs; both are made from one text.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
import torch

import workbench as wb

HEAD = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR y) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> que;
    TBuf<TPosition::VECCALC> buf;
    TBuf<TPosition::VECCALC> work;
    GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float *)x);
    out.SetGlobalBuffer((__gm__ float *)y);
    DataCopyPadExtParams<float> pad;
    DataCopyExtParams params{1, 512, 0, 0, 0};
"""
TAIL = """
}
"""
SETUP = "pipe.InitBuffer(que, 1, 512); pipe.InitBuffer(buf, 1024); pipe.InitBuffer(work, 32);"
LOAD = "LocalTensor<float> a = que.AllocTensor<float>(); DataCopyPad(a, in, params, pad);"

# name: (kind, code, faulty line, corrected line, words of the message); the line stands on its own
FAULTS = {
    "alloc without a free buffer": (
        "sync",
        "queue-deadlock",
        "LocalTensor<float> b = que.AllocTensor<float>();",
        "que.FreeTensor(a); LocalTensor<float> b = que.AllocTensor<float>();",
        "a device hangs here",
    ),
    "deque from an empty queue": (
        "sync",
        "queue-empty",
        "LocalTensor<float> b = que.DeQue<float>();",
        "que.EnQue(a); LocalTensor<float> b = que.DeQue<float>();",
        "EnQue first",
    ),
    "free twice": (
        "mem",
        "queue-tensor",
        "que.FreeTensor(a); que.FreeTensor(a);",
        "que.FreeTensor(a);",
        "freed already",
    ),
    "enqueue twice": (
        "mem",
        "queue-tensor",
        "que.EnQue(a); que.EnQue(a);",
        "que.EnQue(a);",
        "did not hand out",
    ),
    "wait for a flag nobody set": (
        "sync",
        "flag-not-set",
        "WaitFlag<HardEvent::V_S>(0);",
        "SetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0);",
        "no SetFlag has set",
    ),
    "set a flag twice": (
        "sync",
        "flag-set-twice",
        "SetFlag<HardEvent::V_S>(0); SetFlag<HardEvent::V_S>(0);",
        "SetFlag<HardEvent::V_S>(0); WaitFlag<HardEvent::V_S>(0);",
        "needs its WaitFlag",
    ),
    "event id out of range": (
        "sync",
        "event-id",
        "SetFlag<HardEvent::V_S>(8);",
        "SetFlag<HardEvent::V_S>(7);",
        "0 to 7",
    ),
    "misaligned operand": (
        "mem",
        "alignment",
        "Mul(a[1], a, a, 8);",
        "Mul(a[8], a, a, 8);",
        "unaligned UUB",
    ),
    "operand past the end of UB": (
        "mem",
        "out-of-bounds",
        "Add(a, a, a, 70000);",
        "Add(a, a, a, 128);",
        "out of bounds",
    ),
    "too much UB": (
        "mem",
        "ub-budget",
        "pipe.InitBuffer(work, 196352);",
        "pipe.InitBuffer(work, 1024);",
        "bytes of dav-2201 are taken",
    ),
    "more UB than 32 bits hold": (
        "mem",
        "ub-budget",
        "pipe.InitBuffer(work, 4294967295u);",
        "pipe.InitBuffer(work, 1023);",
        "4294967295 bytes of UB",
    ),
    "no buffers": (
        "mem",
        "queue-buffers",
        "pipe.InitBuffer(que, 9, 32);",
        "pipe.InitBuffer(que, 8, 32);",
        "1 to 8",
    ),
    "get without InitBuffer": (
        "mem",
        "no-init-buffer",
        "TBuf<TPosition::VECCALC> c; c.Get<float>();",
        "TBuf<TPosition::VECCALC> c; pipe.InitBuffer(c, 32); c.Get<float>();",
        "without InitBuffer",
    ),
    "cast mode": (
        "mem",
        "cast-mode",
        "Cast(a, buf.Get<half>(), RoundMode::CAST_RINT, 64);",
        "Cast(a, buf.Get<half>(), RoundMode::CAST_NONE, 64);",
        "CAST_NONE only",
    ),
    "copy too long": (
        "mem",
        "copy-params",
        "DataCopyPad(a, in, DataCopyExtParams{1, 2097152, 0, 0, 0}, pad);",
        "DataCopyPad(a, in, DataCopyExtParams{1, 512, 0, 0, 0}, pad);",
        "2097151",
    ),
}


def _kernel(folder: Path, name: str, line: str, arch: str = "dav-2201") -> tuple:
    text = HEAD + SETUP + "\n" + LOAD + "\n"
    at = text.count("\n") + 1
    path = folder / f"{name}.asc"
    path.write_text(text + line + TAIL)
    return wb.build(path, wb.KernelConfig(arch=arch), backend="twin"), at


@pytest.mark.parametrize("name", FAULTS)
def test_fault_and_its_corrected_twin(name: str, tmp_path: Path) -> None:
    kind, code, faulty, corrected, words = FAULTS[name]
    x, y = torch.ones(128), torch.zeros(128)
    kernel, at = _kernel(tmp_path, "faulty", faulty)
    for threads in (1, 2):
        with pytest.raises(wb.TwinFault) as caught:
            kernel.launch("k", 4, x, y, threads=threads)
        fault = caught.value
        assert (fault.kind, fault.code) == (kind, code)
        assert f"{tmp_path / 'faulty.asc'}:{at}: " in str(fault) and words in str(fault)
        assert fault.block in range(4)
    good, _ = _kernel(tmp_path, "corrected", corrected)
    good.launch("k", 4, x, y)


def test_reduce_tmp_too_small_only_where_the_order_needs_it(tmp_path: Path) -> None:
    line = "ReduceSum(a, a, work.Get<float>(), 128);"  # work holds 8 results; see below for more
    x, y = torch.ones(1024), torch.zeros(1)
    kernel, _ = _kernel(tmp_path, "small", line, "dav-3510")
    kernel.launch("k", 1, x, y)
    wide = (
        "ReduceSum(buf.Get<float>()[0], buf.Get<float>(), work.Get<float>(1), 256); "
        "ReduceSum(buf.Get<float>()[0], buf.Get<float>(), work.Get<float>(1), 320);"
    )
    # 256 elements are method 3 on dav-3510 and need no temporary; 320 are method 2 and need five.
    kernel, at = _kernel(tmp_path, "wide", wide, "dav-3510")
    with pytest.raises(
        wb.TwinFault, match=f"wide.asc:{at}: .*320 elements puts 5 results"
    ) as caught:
        kernel.launch("k", 1, x, y)
    assert caught.value.code == "reduce-tmp"
    kernel, _ = _kernel(tmp_path, "wide2", wide, "dav-2201")  # method 1: the temporary is not used
    kernel.launch("k", 1, x, y)


COPY = """#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR y, uint32_t len, uint32_t isPad,
                                        uint32_t left, uint32_t right) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 256);
    GlobalTensor<float> in, out;
    in.SetGlobalBuffer((__gm__ float *)x);
    out.SetGlobalBuffer((__gm__ float *)y);
    DataCopyPadExtParams<float> pad;
    pad.isPad = isPad != 0;
    pad.leftPadding = left;
    pad.rightPadding = right;
    pad.paddingValue = 7.0f;
    DataCopyPad(buf.Get<float>(), in, DataCopyExtParams{1, len * 4, 0, 0, 0}, pad);
    DataCopyPad(out, buf.Get<float>(), DataCopyExtParams{1, 64, 0, 0, 0});
}
"""


@pytest.mark.parametrize(
    ("length", "is_pad", "left", "right", "want"),
    [
        (8, 0, 0, 0, [1, 2, 3, 4, 5, 6, 7, 8]),
        (3, 0, 0, 0, [1, 2, 3, 1, 1, 1, 1, 1]),  # the rest of the data block: its first element
        (3, 1, 0, 0, [1, 2, 3, 1, 1, 1, 1, 1]),
        (3, 1, 2, 1, [7, 7, 1, 2, 3, 7]),
        (3, 1, 0, 5, [1, 2, 3, 7, 7, 7, 7, 7]),
        (3, 0, 0, 2, [1, 2, 3, None, None]),  # paddings without a value hold anything: never zero
        (11, 0, 0, 0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 1, 1, 1, 1]),
    ],
)
def test_copy_with_a_tail(length, is_pad, left, right, want, tmp_path: Path) -> None:
    path = tmp_path / "copy.asc"
    path.write_text(COPY)
    kernel = wb.build(path, wb.KernelConfig(), backend="twin")
    x, y = torch.arange(1.0, 17.0), torch.zeros(16)
    kernel.launch("k", 1, x, y, length, is_pad, left, right)
    for got, expected in zip(y.tolist(), want, strict=False):
        assert got == expected if expected is not None else got != got  # poison is a NaN
    # What no copy touched is poison too, never a harmless zero.
    touched = -(-(left + length + right) // 8) * 8
    assert all(v != v for v in y[touched:].tolist())


FE_UPWARD = 0x800  # x86; aarch64 has 0x400000


def test_a_host_rounding_mode_changes_nothing_and_comes_back() -> None:
    import platform

    upward = FE_UPWARD if platform.machine() == "x86_64" else 0x400000
    libm = ctypes.CDLL("libm.so.6")
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin")
    g = torch.Generator().manual_seed(5)
    hidden, weight = torch.randn(3, 1000, generator=g), torch.randn(33, 1000, generator=g)
    expected = kernel(hidden, weight)
    nearest = libm.fegetround()
    assert libm.fesetround(upward) == 0
    try:
        outputs = [kernel(hidden, weight, threads=threads) for threads in (1, 2)]
        still = libm.fegetround()
        host = torch.tensor([1.0]) + torch.tensor([2.0**-30])
    finally:
        libm.fesetround(nearest)
    assert still == upward, "the caller's rounding mode must come back"
    assert host.item() > 1.0, "the control: under this mode the host's own sum rounds up"
    for out in outputs:
        assert torch.equal(out.view(torch.int32), expected.view(torch.int32))
