"""What the first issue says must be seen, on the real kernel and at real sizes."""

from __future__ import annotations

import functools
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from helpers import ARCHS, DTYPES, bits, kernel, mkl_on_avx2

import workbench as wb
from workbench.numerics import TRANSFORMS
from workbench.ops.lm_head import BACKWARDS

TESTS = Path(__file__).parent


@functools.cache
def draw(rows, width, vocab, seed=0):
    """The draw that the facts name: hidden first, then weight, from one generator."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=g), torch.randn(vocab, width, generator=g)


# ---- invariance ----------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tile", [64, 1024, 4096])
def test_no_mismatch_in_batches_up_to_300(arch, dtype, tile):
    hidden, weight = (t.to(DTYPES[dtype]) for t in draw(40, 4096, 33))
    run = kernel(tile, arch, {64: 128, 1024: 7, 4096: 40}[tile])
    result = wb.invariance(run, hidden, weight, weight[:, 0].contiguous())
    assert [t.name for t in result.transforms] == list(TRANSFORMS)
    assert result["T1"].cases >= 15 and result["T5"].cases >= 8  # 4 chunks, other block counts
    assert all(t.mismatches == 0 and t.elements > 0 for t in result.transforms), str(result)
    assert result.passed and result.shape == (40, 4096, 33)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_no_mismatch_of_fp32_logits_of_16_bit_inputs(dtype):
    hidden, weight = (t.to(DTYPES[dtype]) for t in draw(20, 4096, 33))
    result = wb.invariance(kernel(1024), hidden, weight, out_dtype=torch.float32)
    assert result.passed and result.out_dtype == "float32"


def test_the_first_row_of_300_alone():
    """The claim without the judge: one row, 300 rows, and the last row of them."""
    hidden, weight = draw(300, 4096, 33)
    for arch in ARCHS:
        run = kernel(4096, arch)
        batch = bits(run(hidden, weight))
        for row in (0, 150, 299):
            assert (bits(run(hidden[row : row + 1], weight)) == batch[row]).all()


# ---- drift ---------------------------------------------------------------------------------------

# max |error| against fp64 and outputs of 8,224 whose bits differ from tile 4096's, simulated for
# this draw. dav-2201 uses method 1, dav-3510 method 2, except method 3 for 256 to 1024 bytes:
# tiles 64 and 256, whose figures are not in the table.
SIMULATED = {
    "dav-2201": {
        64: ("7.0e-05", 0),
        256: ("4.1e-05", 6687),
        1024: ("3.4e-05", 6650),
        2048: ("4.7e-05", 6351),
        4096: ("7.0e-05", 0),
    },
    "dav-3510": {1024: ("2.7e-05", 2150), 2048: ("2.7e-05", 0), 4096: ("2.7e-05", 0)},
}


@pytest.mark.parametrize("arch", ARCHS)
def test_the_simulated_drift_is_found_again(arch):
    hidden, weight = draw(32, 4096, 257)
    base = bits(kernel(4096, arch)(hidden, weight))
    for tile, (error, differing) in SIMULATED[arch].items():
        run = kernel(tile, arch)
        result = wb.drift(run, hidden, weight, against="exact")["kernel", "exact"]
        assert result.outputs == 8224
        assert f"{result.max_abs:.1e}" == error, tile
        assert int((bits(run(hidden, weight)) != base).sum()) == differing, tile


def test_control_the_other_architecture_has_other_figures():
    hidden, weight = draw(32, 4096, 257)
    for tile in (1024, 2048, 4096):
        found = {
            f"{wb.drift(kernel(tile, a), hidden, weight, 'exact')['kernel', 'exact'].max_abs:.1e}"
            for a in ARCHS
        }
        assert len(found) == 2, tile


def test_most_of_the_drift_from_mv_is_its_own():
    hidden, weight = draw(32, 4096, 257)
    result = wb.drift(kernel(4096), hidden, weight)
    own, distance = result["torch.mv", "exact"], result["kernel", "torch.mv"]
    # True on any library: two distances from fp64 and the one between them form a triangle.
    sides = own.max_abs + result["kernel", "exact"].max_abs
    assert distance.max_abs <= sides * (1 + 2.0**-50)  # they are fp64
    if not mkl_on_avx2():
        e = result.evidence
        pytest.skip(f"the size of mv's error is known for MKL on AVX2; here {e.blas}, {e.cpu}")
    assert f"{own.max_abs:.0e}" == "2e-04"
    assert own.max_abs > 2.5 * result["kernel", "exact"].max_abs


def test_an_autocast_of_the_caller_does_not_reach_the_references():
    hidden, weight = draw(32, 4096, 257)
    plain = wb.drift(kernel(4096), hidden[:2], weight)
    with torch.autocast("cpu", torch.bfloat16):
        assert wb.drift(kernel(4096), hidden[:2], weight) == plain


# ---- memory --------------------------------------------------------------------------------------

MEASURE = """
    import re, sys
    sys.path.insert(0, {tests!r})
    import torch
    from helpers import kernel
    from workbench.ops import AscendLMHeadOp

    def status(name):
        text = open("/proc/self/status").read()
        return int(re.search(name + r":\\s+(\\d+) kB", text)[1]) << 10

    torch.set_num_threads(2)
    rows, width, vocab = {rows}, 4096, {vocab}
    weight = torch.empty(vocab, width, dtype=torch.bfloat16)
    weight[:512].normal_()
    for low in range(512, vocab, 512):  # real memory, made without an fp32 copy
        weight[low : low + 512] = weight[: min(512, vocab - low)]
    hidden = torch.randn(rows, width).to(torch.bfloat16)
    op = AscendLMHeadOp(backward={backward!r})
    h, w = hidden.clone().requires_grad_(), weight[:600].clone().requires_grad_()
    op(h, w).float().sum().backward()  # build, load, start threads
    del h, w
    try:
        open("/proc/self/clear_refs", "w").write("5")  # the peak starts from here
    except OSError:
        pass
    before = status("VmRSS")
    hidden.requires_grad_(), weight.requires_grad_()

    {call}

    growth = status("VmHWM") - before
    held = sum(t.numel() * t.element_size() for t in outputs)
    assert all(t.isfinite().all() for t in outputs[:1])
    print((growth - held) / 2**20)
"""
FORWARD = "outputs = [op(hidden, weight)]"
UPCAST = "outputs = [(hidden.float() @ weight.float().T).to(torch.bfloat16)]"
BACKWARD = """y = op(hidden, weight)
    y.backward(torch.ones_like(y))
    outputs = [y, hidden.grad, weight.grad]"""


def excess(call: str, rows: int, vocab: int, backward: str = "deterministic") -> float:
    """MiB of peak memory beyond inputs and outputs, in a process of its own."""
    code = textwrap.dedent(MEASURE).format(
        tests=str(TESTS),
        rows=rows,
        vocab=vocab,
        backward=backward,
        call=textwrap.dedent(call).replace("\n    ", "\n"),
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc (Linux)"
)


@needs_proc
@pytest.mark.serial
@pytest.mark.slow
def test_no_fp32_copy_of_the_weight_at_full_size():
    assert excess(FORWARD, rows=2, vocab=151936) <= 64


@needs_proc
@pytest.mark.serial
@pytest.mark.parametrize("backward", BACKWARDS)
def test_no_fp32_copy_of_the_weight_in_backward(backward):
    """20,000 x 4096 in bf16 is 156 MiB; fp32 would be 312 more, a second gradient 156 more."""
    assert excess(BACKWARD, rows=2, vocab=20000, backward=backward) <= 64


@needs_proc
@pytest.mark.serial
def test_control_an_fp32_copy_is_seen():
    assert 300 < excess(UPCAST, rows=2, vocab=20000) < 400
