"""No check cries wolf: sound kernels of many styles run clean, with the same bits as without."""

from __future__ import annotations

import functools
import re

import pytest
import torch

import workbench as wb
from faults.cases import HERE

FILES = sorted(HERE.glob("sound_*.asc"))
_KERNEL = re.compile(
    r"// .+\n(?:// blocks: (\d+)\n)?"
    r'extern "C" __global__ __aicore__ void (\w+)\('
)
# name: (file, blocks)
KERNELS = {
    name: (path, int(blocks or 1))
    for path in FILES
    for blocks, name in _KERNEL.findall(path.read_text())
}


@functools.cache
def built(path):
    return wb.build(path, wb.KernelConfig(arch="dav-2201"), backend="twin")


def inputs() -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(1)
    return [torch.randn(1024, generator=random), torch.zeros(1024), torch.zeros(1024)]


def launch(name: str, **options) -> torch.Tensor:
    path, blocks = KERNELS[name]
    tensors = inputs()
    built(path).launch(name, blocks, *tensors, **options)
    return torch.cat(tensors).view(torch.int32)


@pytest.mark.parametrize("name", KERNELS)
def test_a_sound_kernel(name: str) -> None:
    fast = launch(name)
    untouched = torch.cat(inputs()).view(torch.int32)
    assert not torch.equal(fast, untouched), "a kernel that writes nothing shows nothing"
    for threads in (1, 2):
        assert torch.equal(fast, launch(name, check=True, counters=True, threads=threads))


def test_there_are_enough() -> None:
    assert len(KERNELS) >= 50
    assert len(KERNELS) == sum(path.read_text().count("__global__") for path in FILES)
