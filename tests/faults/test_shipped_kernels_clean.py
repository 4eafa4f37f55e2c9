"""Every kernel that ships runs under all checks without a fault, and gives the same bits."""

from __future__ import annotations

import time

import gemm_kit
import logp_kit as kit
import numpy
import pytest
import torch
from controls import KERNELS, Flawed
from helpers import DTYPES, bits

import workbench as wb
from workbench import paths
from workbench.build import api

# A tile of a row, a row of a tile and one element more, many tiles.
WIDTHS = (1, 64, 65, 1000, 4097)


def both(kernel, *args, **options) -> None:
    fast = kernel(*args, **options)
    for threads in (1, 2):
        checked = kernel(*args, **options, check=True, counters=True, threads=threads)
        assert numpy.array_equal(bits(fast), bits(checked))


@pytest.mark.parametrize("tile", [64, 1024, 4096])
@pytest.mark.parametrize("schedule", ["output", "weight_stationary"])
@pytest.mark.parametrize(
    ("arch", "dtype", "out_dtype"),
    [
        ("dav-2201", torch.float32, None),
        ("dav-2201", torch.float16, None),
        ("dav-2201", torch.bfloat16, None),
        ("dav-2201", torch.float16, torch.float32),
        ("dav-2201", torch.bfloat16, torch.float32),
        ("dav-3510", torch.float32, None),
        ("dav-3510", torch.bfloat16, torch.float32),
    ],
)
def test_lm_head(
    tile: int, arch: str, dtype: torch.dtype, out_dtype: torch.dtype | None, schedule: str
) -> None:
    # Two passes over hidden; the last vocabulary group is a part.
    config = wb.KernelConfig(tile_length=tile, arch=arch, schedule=schedule, hidden_rows=2)
    kernel = wb.build("lm_head", config, backend="twin")
    g = torch.Generator().manual_seed(tile)
    for width in WIDTHS:
        hidden = torch.randn(3, width, generator=g).to(dtype)
        weight = torch.randn(37, width, generator=g).to(dtype)
        bias = torch.randn(37, generator=g).to(dtype)
        for given in (None, bias):
            both(kernel, hidden, weight, given, out_dtype=out_dtype)


@pytest.mark.parametrize("tile", [64, 4096])
@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_batch_invariant_logp(tile: int, arch: str, dtype: str) -> None:
    """Both kernels; ignored rows and targets outside among the others, several per block."""
    run = kit.Launched(kit.kernel(tile, arch))
    for vocab in WIDTHS:
        batch = kit.draw(9, vocab, dtype)
        batch.target[2:5] = torch.tensor([-100, vocab, -(2**40)])
        fast = run(batch)
        for blocks, threads in ((1, 1), (4, 2), (9, 1)):
            checked = run(batch, blocks=blocks, threads=threads, check=True, counters=True)
            for name in kit.OUTPUTS:
                assert numpy.array_equal(bits(fast[name]), bits(checked[name]))


@pytest.mark.parametrize("constants", [{}, {"leaf_length": 24, "tile_length": 64, "rows": 3}])
@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
@pytest.mark.parametrize("entry", gemm_kit.ENTRIES, ids=lambda entry: entry[3])
def test_det_gemm(entry: tuple[str, str, str, str], arch: str, constants: dict) -> None:
    """Nothing to sum, a piece of a row of a, a piece and one element more, many leaves; the last
    turns are parts."""
    kernel = gemm_kit.gemm(arch, **constants)
    a_dtype, b_dtype, out_dtype = (DTYPES[name] for name in entry[:3])
    g = torch.Generator().manual_seed(7)
    for depth in (0, 1, 128, 129, 500):
        a = torch.randn(7, depth, generator=g).to(a_dtype)
        b = torch.randn(depth, 530, generator=g).to(b_dtype)
        both(kernel, a, b, out_dtype)
        both(kernel, a, b[:, :9].contiguous(), out_dtype, blocks=1)


@pytest.mark.parametrize("name", KERNELS)
def test_the_flawed_controls_do_what_a_device_allows(name: str) -> None:
    """What is wrong with them is the order of their sums, except that one reads its own output,
    which no flag keeps apart from the copy that follows."""
    g = torch.Generator().manual_seed(3)
    hidden, weight = torch.randn(5, 300, generator=g), torch.randn(9, 300, generator=g)
    out = torch.zeros(5, 9)
    args = (name, 4, hidden, weight, out, 5, 300, 9)
    if name == "flawed_by_out":
        with pytest.raises(wb.TwinFault, match="GetValue at line") as caught:
            Flawed(name).kernel.launch(*args, check=True)
        assert (caught.value.kind, caught.value.code) == ("race", "race-war")
        return
    Flawed(name).kernel.launch(*args, check=True)
    assert out.abs().sum() > 0


ARCHS = ("dav-1001", "dav-2002", "dav-2201", "dav-3510")
PROBES = {"probe_sum": (3000,), "probe_tiles": (4096, 64), "probe_mul_add": (), "probe_cast": ()}


def fused(arch: str) -> bool:
    """Whether the architecture has MulAddDst; else that probe is not there to be checked."""
    return bool(api.load()["MulAddDst"].dtypes[arch])


@pytest.mark.parametrize(
    ("name", "arch"), [(n, a) for n in PROBES for a in ARCHS if n != "probe_mul_add" or fused(a)]
)
def test_the_probes(name: str, arch: str) -> None:
    path = paths.ASCEND / "probe_ascend.asc"
    defines = {"PROBE_MUL_ADD": int(fused(arch))}
    kernel = wb.build(path, wb.KernelConfig(arch=arch), backend="twin", defines=defines)
    x, out = torch.ones(4096), torch.zeros(8)
    kernel.launch(name, 1, x, out, *PROBES[name], check=True)
    assert out[0] != 0


@pytest.mark.serial
def test_checked_mode_is_at_most_thirty_times_slower() -> None:
    """lm_head at one row, H 4096, one thread; measured about 4 times."""
    kernel = wb.build("lm_head", wb.KernelConfig(tile_length=4096), backend="twin")
    g = torch.Generator().manual_seed(1)
    hidden, weight = torch.randn(1, 4096, generator=g), torch.randn(2000, 4096, generator=g)

    def seconds(**options) -> float:
        best = float("inf")
        for _ in range(5):
            begin = time.perf_counter()
            kernel(hidden, weight, threads=1, **options)
            best = min(best, time.perf_counter() - begin)
        return best

    assert seconds(check=True, counters=True) < 30 * seconds()
