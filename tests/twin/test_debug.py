"""printf, DumpTensor and assert, and faults of resources, each at its line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import workbench as wb

ASC = Path(__file__).parent / "asc" / "debug.asc"

FIRST = "block {} of 3:  3.14|ab    |00beef|+7|z|200|%|end\n"
SECOND = (
    "half 1.500000 bf16 2.5 element 2.500000 width [   42] -1 as 65535 and ff, 1099511627776\n"
    "again\n"
)
DUMP = (
    "DumpTensor: desc=5, addr=0, data_type=float16, position=UB, dump_size=4\n"
    "[0.000000, 0.500000, 1.000000, 1.500000]\n"
    "DumpTensor: desc=6, addr=0, data_type=float16, position=UB, dump_size=5\n"
    "[[0.000000, 0.500000, 1.000000],\n[1.500000, 2.000000, -]]\n"
    "DumpTensor: desc=7, addr=4, data_type=float16, position=UB, dump_size=3\n"
    "[1.000000, 1.500000, 2.000000]\n"
    "DumpTensor: desc=8, addr={:x}, data_type=float32, position=GM, dump_size=2\n"
    "[4.000000, 5.000000]\n"
    "DumpTensor: desc=0, addr=0, data_type=int8, position=UB, dump_size=3\n"
    "[0, 0, 0]\n"
)

# In the order of the kernel `fails`: (kind, code, words)
FAILS = [
    ("mem", "assert", "Assertion `n == 2'"),
    ("mem", "assert", "Assertion `n != 1' n is 1, not that"),
    ("mem", "trap", "Trap was called"),
    ("sync", "barrier-pipe", "PipeBarrier<PIPE_S>"),
    ("mem", "second-pipe", "a second TPipe"),
    ("mem", "no-pipe", "there is no TPipe"),
    ("sync", "no-event-id", "all of the 6 event ids"),
    ("sync", "event-released", "has not given out"),
    ("sync", "queue-events", "AllocTensor number 9 at once on the queues of VECIN"),
    ("mem", "buffer-bounds", "68 bytes from byte 0 on of a TBuf of 64"),
    ("mem", "alignment", "byte 16 of its buffer"),
    ("mem", "alignment", "UB offset 16"),
    ("mem", "ub-budget", "36 bytes at UB offset 196320"),
    ("mem", "ub-budget", "196352 of the 196352 bytes"),
    ("mem", "no-init-buffer", "without InitBufPool"),
    ("mem", "ub-budget", "1 x 96 bytes of a TBufPool; 0 of its 64"),
    ("mem", "buffer-count", "the TBufPool has 3 buffers; it holds at most 2"),
    ("mem", "ub-budget", "96 bytes at the place of a TBufPool of 64"),
    ("mem", "ub-budget", "196384 bytes; 0 of the 196352"),
    ("mem", "queue-tensor", "did not hand out"),
    ("sync", "queue-empty", "not in the queue"),
    ("mem", "queue-overflow", "number 2 on a queue of depth 1"),
    ("mem", "out-of-bounds", "DumpTensor of 9 elements"),
    ("mem", "gm-declared", "DumpTensor of 9 elements"),
]


@pytest.fixture(scope="module")
def kernel():
    return wb.build(ASC, wb.KernelConfig(), backend="twin")


def test_text_and_dumps(kernel, capfd) -> None:
    x, y = torch.arange(64.0), torch.zeros(64)
    want = "".join(FIRST.format(b) for b in range(3))
    want += SECOND + SECOND + DUMP.format(x.data_ptr() + 16) + SECOND
    for threads in (1, 3):
        kernel.launch("text", 3, x, y, threads=threads)
        assert capfd.readouterr().out == want


def test_dump_switched_off(capfd) -> None:
    kernel = wb.build(ASC, wb.KernelConfig(), backend="twin", defines={"ASCENDC_DUMP": 0})
    x, y = torch.zeros(64), torch.zeros(64)
    kernel.launch("text", 3, x, y)
    kernel.launch("fails", 1, x, y, 0)  # its assert too
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("which", range(len(FAILS)))
def test_fault_at_its_line(kernel, which: int, capfd) -> None:
    kind, code, words = FAILS[which]
    lines = ASC.read_text().splitlines()
    with pytest.raises(wb.TwinFault) as caught:
        kernel.launch("fails", 2, torch.zeros(64), torch.zeros(64), which)
    fault = caught.value
    assert (fault.kind, fault.code, fault.block) == (kind, code, 0)
    assert lines[fault.line - 1].endswith(f"// fault {which}") and words in str(fault)
    shown = capfd.readouterr().out
    assert (f"[ASSERT] {ASC}:{fault.line}: {words}\n" == shown) == (code == "assert")


def test_the_corrected_twin_of_them_all(kernel) -> None:
    kernel.launch("fails", 2, torch.zeros(64), torch.zeros(64), 99)
