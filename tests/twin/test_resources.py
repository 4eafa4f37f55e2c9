"""TPipe, queues, pools, static tensors, accessors and system variables, by what they hand out."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import workbench as wb

ASC = Path(__file__).parent / "asc" / "resources.asc"

# What the kernel `states` finds, in its order; the words say which call it is.
STATES = [
    *(1, 0, 1),  # an empty queue: VacantInQue, HasTensorInQue, HasIdleBuffer
    *(32, 64, 0),  # GetSize of 100 bytes rounded up, as float and as half; no buffer idle
    *(1, 2, 0, 2, 3, 0),  # OCCUPIED, ENQUE; vacant, count; DEQUE, FREE
    *(256, 10, 64, 1024),  # Get, Get(len), GetWithOffset, GetLength
    *(12, 1, 12, 253, 8),  # operator(), ReinterpretCast, operator[], its size, GetPhyAddr(2)
    34,  # the tag goes with a part
    *(64, 12, 32, 1),  # SetAddrWithOffset, SetSize, SetBufferLen, GetPosition
    *(6, 24, 1),  # ShapeInfo
    *(128, 28, 1, 2),  # GlobalTensor: ReinterpretCast, operator[], operator(), ShapeInfo
    *(1, 2, 0),  # AllocEventID 0 and 1, FetchEventID 2, and 0 after ReleaseEventID
    1,  # GetTPipePtr
    111,  # block_num * 100 + block_idx + get_block_num() * 10 + GetSubBlockNum(): one block
    *(1, 288, 0x220),  # UB, 256 + 32, GetArchVersion
    *(1, 2),  # GetSystemCycle
    *(0, 1, 15, 0, 1),  # saturation off, on; bits of the control register; off; ASCEND_IS_AIV
]


@pytest.fixture(scope="module")
def kernel():
    return wb.build(ASC, wb.KernelConfig(), backend="twin")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("check", [False, True])
def test_queues_in_place_and_bound(kernel, threads: int, check: bool) -> None:
    x, y = torch.arange(256.0), torch.zeros(256)
    kernel.launch("inplace", 1, x, y, 4, threads=threads, check=check)
    assert torch.equal(y, 2 * x)
    kernel.launch("bound", 1, x, y, threads=threads, check=check)
    assert torch.equal(y, x)


def test_states_and_accessors(kernel) -> None:
    x, out = torch.zeros(64), torch.zeros(64, dtype=torch.int32)
    kernel.launch("states", 1, x, out)
    assert out[: len(STATES)].tolist() == STATES


def test_pools_share_and_nest(kernel) -> None:
    x, out = torch.zeros(64), torch.zeros(8, dtype=torch.int32)
    kernel.launch("pools", 1, x, out)
    # Buffers of a pool one after the other; the pool that shares begins where the first one does;
    # Reset gives all of UB back.
    assert out[:5].tolist() == [11, 1024, 0, 0, 196352 - 64]


def test_static_tensors_start_poisoned(kernel) -> None:
    x, y = torch.arange(256.0), torch.zeros(256)
    kernel.launch("statics", 4, x, y)
    got = y.view(4, 64)
    assert torch.equal(got[:, :32], 4 * x.view(4, 64)[:, :32])
    assert torch.isnan(got[:, 32:]).all()  # what no instruction wrote is never a harmless zero
    again = torch.zeros(256)
    kernel.launch("statics", 4, x, again, threads=2)
    assert torch.equal(again.view(torch.int32), y.view(torch.int32))


def test_what_a_static_tensor_never_got_is_seen(kernel) -> None:
    x, y = torch.arange(256.0), torch.zeros(256)
    with pytest.raises(wb.TwinFault, match="nobody has written: byte 128 of it") as caught:
        kernel.launch("statics", 4, x, y, check="init")
    assert (caught.value.kind, caught.value.block) == ("init", 0)
    kernel.launch("statics", 4, x, y, check="mem,race,sync")  # and nothing else is


def test_std_and_limits() -> None:
    kernel = wb.build(ASC.with_name("std.asc"), wb.KernelConfig(), backend="twin")
    y = torch.zeros(8)
    kernel.launch("limits", 1, y)
    want = [65504.0, -3.4028234663852886e38, 2.0**-24, float("-inf")]
    assert y[:4].tolist() == want and y[4].view(torch.int32).item() == 0x7FC00000
