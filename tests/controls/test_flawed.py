"""The control kernels are caught by `wb.invariance`, each under the transform it breaks."""

from __future__ import annotations

import pytest
import torch
from helpers import bits, expected

import workbench as wb
from controls import KERNELS, Flawed
from workbench.numerics import TRANSFORMS
from workbench.numerics.contract import contract

# What each flaw must break, and what it leaves alone (so that the transform's name says something).
BREAKS = {
    "sound": ((), TRANSFORMS),
    "flawed_by_blocks": (("T1", "T5"), ()),
    "flawed_by_rows": (("T1", "T5"), ()),
    "flawed_by_position": (("T1", "T2", "T3", "T4", "T6"), ()),
    "flawed_by_padding": (("T4",), ("T1", "T2", "T3", "T5", "T6", "T7")),
    "flawed_by_twins": (("T6",), ("T1", "T2", "T3", "T4", "T5", "T7")),
    "flawed_by_neighbour": (("T3",), ("T1", "T2", "T4", "T5", "T6")),
    "flawed_by_out": (("T7",), ("T1", "T2", "T3", "T4", "T5", "T6")),
}


def draw(width=4096, rows=12, vocab=9):
    g = torch.Generator().manual_seed(3)
    return torch.randn(rows, width, generator=g), torch.randn(vocab, width, generator=g)


def test_every_control_is_listed():
    assert set(BREAKS) == set(KERNELS) == set(Flawed("sound").kernel.kernels)
    assert {t for broken, _ in BREAKS.values() for t in broken} == set(TRANSFORMS)


@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
@pytest.mark.parametrize("name", KERNELS)
def test_each_is_caught_by_name(name, arch):
    result = wb.invariance(Flawed(name, arch=arch), *draw())
    broken, kept = BREAKS[name]
    assert result.passed == (not broken)
    for transform in broken:
        found = result[transform]
        assert found.mismatches > 0 and not found.passed, transform
        first = found.first_mismatch
        assert first["expected_bits"] != first["got_bits"]
    for transform in kept:
        assert result[transform].passed, result[transform]


def test_the_kind_of_schedule_is_told_apart():
    """Block counts alone: 4 rows, so that the kernel that looks at rows always does the same."""
    only_blocks = {"transforms": "T5", "chunks": (), "max_blocks": (1, 3, 40, 256), "max_active": 2}
    by_rows = wb.invariance(Flawed("flawed_by_rows"), *draw(), **only_blocks)
    by_blocks = wb.invariance(Flawed("flawed_by_blocks"), *draw(), **only_blocks)
    assert by_rows.passed and not by_blocks.passed
    assert by_blocks["T5"].first_mismatch["case"].startswith("max_blocks")


def test_the_sound_one_equals_the_model():
    hidden, weight = draw(1000)
    for arch in ("dav-2201", "dav-3510"):
        got = bits(Flawed("sound", arch=arch)(hidden, weight))
        assert (got == expected(hidden, weight, arch=arch, tile=256)).all()


def test_the_flaws_change_the_last_bits_only():
    """They are wrong in no way that a tolerance would see."""
    hidden, weight = draw()
    exact = hidden.double() @ weight.double().T
    for name in KERNELS:
        got = Flawed(name)(hidden, weight)
        assert contract().judge(got, exact, "forward_accuracy", "lm_head", "fp32").passed, name


def test_linear_is_caught_where_the_library_is_known():
    """`F.linear` changes bits with the batch: a fact of MKL on AVX2, elsewhere not asserted."""
    g = torch.Generator().manual_seed(0)
    hidden, weight = torch.randn(8, 4096, generator=g), torch.randn(257, 4096, generator=g)
    result = wb.invariance(
        torch.nn.functional.linear, hidden, weight, transforms="T1", sizes=(1, 2, 8)
    )
    e = result.evidence
    assert e.cpu and e.blas and e.cpu_capability  # CPU and library are named with the result
    if not (e.blas == "MKL" and e.cpu_capability == "AVX2"):
        pytest.skip(f"known for MKL on AVX2 only; here {e.blas}, {e.cpu_capability}, {e.cpu}")
    assert result["T1"].mismatches > 0
