"""Blocks that wait for each other: right on any number of threads, and a fault where a device would
hang."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import workbench as wb

ASC = Path(__file__).parent / "asc" / "cross.asc"
THREADS = (1, 2, 5)

# which: (kind, code, the block that faults, words)
WRONG = {
    0: ("sync", "deadlock", 0, "block 48, which does not start before another block ends"),
    1: ("sync", "deadlock", 0, "block 3, which has ended without calling it"),
    2: ("sync", "event-id", 5, "SetFlag with event id 77"),  # and not the deadlock of the others
    3: ("sync", "flag-not-set", 2, "no SetFlag has set"),
    4: ("sync", "deadlock", 0, "a flag that this block has not set itself"),
    5: ("sync", "flag-left", 0, "flagId 1, and the launch ends"),
    6: ("sync", "event-id", 0, "flagId 11; dav-2201 has 0 to 10"),
    7: ("sync", "flag-set-twice", 0, "for the 16th time"),
    8: ("sync", "deadlock", 0, "IBWait waits for block 1, which waits for something itself"),
    9: ("sync", "deadlock", 0, "which nobody waits for since it was set last"),
    10: ("sync", "no-workspace-init", 0, "without InitDetermineComputeWorkspace"),
    11: ("sync", "deadlock", 1, "block 0, which has ended without NotifyNextBlock"),
    12: ("mem", "workspace", 0, "gmWorkspace has 160 bytes; 192 are needed"),
    13: ("mem", "workspace", 0, "ubWorkspace has 160 bytes; 192 are needed"),
    14: ("mem", "workspace", 0, "gmWorkspace has 192 bytes; 224 are needed"),
    15: ("sync", "deadlock", 0, "block 3, which has ended without setting the flag"),
    16: ("sync", "block-index", 0, "IBSet for block 6 of 6"),
}


@pytest.fixture(scope="module")
def kernel():
    return wb.build(ASC, wb.KernelConfig(), backend="twin")


@pytest.fixture
def x() -> torch.Tensor:
    return torch.zeros(4096, dtype=torch.int32)


@pytest.fixture
def y() -> torch.Tensor:
    return torch.zeros(1024, dtype=torch.int32)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("blocks", [1, 5, 48])
def test_all_blocks_meet(kernel, x, y, blocks: int, threads: int) -> None:
    pairs = blocks * (blocks - 1) // 2
    for soft in (0, 1):
        kernel.launch("rounds", blocks, x, y, 20, soft, threads=threads)
        want = sum((t % 7 + 1) * (t + 1) * pairs for t in range(20))
        assert (y[: blocks * 16 : 16] == want).all()
        y.zero_()
    kernel.launch("flags", blocks, x, y, 20, threads=threads)
    assert (y[: blocks * 16 : 16] == sum((t + 1) * (pairs + t * blocks) for t in range(20))).all()


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("name", ["chain", "determine"])
def test_one_block_after_the_other(kernel, x, y, name: str, threads: int) -> None:
    word, want = 0, [0] * 48
    for _ in range(3):
        for b in range(48):
            word = (word * 3 + b + 1) % 2**32
            want[b] = word
    kernel.launch(name, 48, x, y, threads=threads)
    assert y[:768:16].numpy().view(np.uint32).tolist() == want


def test_some_of_the_blocks_meet(kernel, x, y) -> None:
    kernel.launch("partly", 5, x, y)
    assert y[:80:16].tolist() == [6, 6, 6, 0, 0]


@pytest.mark.parametrize("which", WRONG)
def test_what_hangs_on_a_device_is_a_fault(kernel, x, y, which: int) -> None:
    kind, code, block, words = WRONG[which]
    lines = ASC.read_text().splitlines()
    for threads in THREADS:
        with pytest.raises(wb.TwinFault) as caught:
            blocks = 49 if which == 0 else 6
            check = "sync" if which == 5 else False
            kernel.launch("wrong", blocks, x, y, which, threads=threads, check=check)
        fault = caught.value
        assert (fault.kind, fault.code, fault.block) == (kind, code, block)
        assert f"which == {which}" in lines[fault.line - 1] and words in str(fault)
    kernel.launch("wrong", 6, x, y, 99)  # the control: none of them


def test_as_many_blocks_as_cores_may_meet(kernel, x, y) -> None:
    kernel.launch("wrong", 48, x, y, 0)  # the control of 49


def test_lines_come_in_ascending_order_of_blocks(kernel, x, y, capfd) -> None:
    want = "".join(f"{r}.{b}\n" for r in range(3) for b in range(9))
    for threads in THREADS:
        kernel.launch("lines", 9, x, y, threads=threads)
        assert capfd.readouterr().out == want


def test_many_blocks_that_do_nothing(kernel, x, y) -> None:
    for threads in THREADS:
        kernel.launch("empty", 65535, x, y, threads=threads)


@pytest.mark.parametrize("name", ["rounds", "flags", "chain", "determine", "partly"])
def test_the_checks_know_who_waited_for_whom(kernel, x, y, name: str) -> None:
    args = {"rounds": (5, 1), "flags": (5,)}.get(name, ())
    kernel.launch(name, 5, x, y, *args, check=True, threads=2)


def test_without_waiting_the_same_is_a_race(kernel, x, y) -> None:
    with pytest.raises(wb.TwinFault) as caught:
        kernel.launch("alone", 5, x, y, check="race")
    assert caught.value.kind == "race"
