"""The order that a kernel's source promises is the one that its results show, on the twin.

The whole grid (every tile, and more dtypes, widths and schedules) takes minutes:
`python tests/orders/reveal_grid.py --all`.
"""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from gemm_kit import only
from orders import reveal_grid as grid

import workbench as wb
from workbench import paths
from workbench.orders.reveal import reveal
from workbench.orders.tree import ReductionTree, adjacent_pairs, sequential

CASES = [*grid.quick()]


@pytest.mark.parametrize("arch", grid.ARCHS)
@pytest.mark.parametrize("op", ["lm_head", "batch_invariant_logp", "det_gemm"])
def test_declared_and_revealed_order_agree(op, arch):
    cases = [case for case in CASES if (case.op, case.arch) == (op, arch)]
    assert cases
    assert [str(case) for case in cases if not grid.agrees(case)] == []


def test_the_grid_has_what_it_should():
    head = [case for case in CASES if case.op == "lm_head"]
    for arch in grid.ARCHS:
        mine = [case for case in head if case.arch == arch]
        tiles = {dict(case.constants)["tile_length"] for case in mine}
        assert {64, 128, 256, 512, 1024, 2048, 4096} <= tiles
        assert {1, 63, 65, 576, 1000, 4096, 4097, 10_000} <= {case.n for case in mine}
        assert {case.dtype for case in mine} == {"fp32", "bf16", "fp16"}
        assert {dict(case.constants).get("schedule") for case in mine} == {
            *(None, "weight_stationary")
        }
    assert {case.op for case in grid.every()} == {case.op for case in CASES}
    assert Counter(grid.every()).most_common(1)[0][1] <= 2


def test_another_declaration_fails_the_same_comparison():
    """The control: no case of more than a tile or a leaf agrees with the order of another one."""

    def other(asked):
        constants = {k: v * 2 if k != "schedule" else v for k, v in asked.constants}
        return grid.declared(asked._replace(constants=tuple(constants.items())))

    told_apart = 0
    for op in ("lm_head", "batch_invariant_logp", "det_gemm"):
        cases = [c for c in CASES if c.op == op and c.n > 64 and other(c) != grid.declared(c)]
        assert cases
        for asked in cases[:4]:
            assert not grid.agrees(asked, want=other), str(asked)
            told_apart += 1
    assert told_apart == 12


@pytest.mark.parametrize("arch", grid.ARCHS)
def test_a_kernel_that_adds_its_tiles_backwards_fails_the_same_comparison(arch, tmp_path):
    text = (paths.ASCEND / "lm_head_ascend.asc").read_text()
    loop = "for (uint32_t begin = 0; begin < width_; begin += kTile) {\n            // The next"
    down = (
        "uint32_t left = (width_ + kTile - 1) / kTile;\n"
        "        for (uint32_t begin = (left - 1) * kTile; left > 0; begin -= kTile, --left) {\n"
        "            // The next"
    )
    ahead = (
        "            if (width_ - begin > kTile) {\n"
        "                CopyTile(hiddenRow, weightRow, begin + kTile);\n"
        "            }\n"
    )
    edits = {
        "            CopyTile(hiddenRow, weightRow, 0);\n": "",
        ahead: "            CopyTile(hiddenRow, weightRow, begin);\n",
        loop: down,
    }
    for old, new in edits.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = tmp_path / "backwards.asc"
    path.write_text(only(text, "lm_head_fp32"))
    config = wb.KernelConfig(arch=arch)
    kernel = wb.build(path, config, backend="twin", defines={"TILE_LENGTH": 64})

    def backwards(terms):
        rows, width = terms.shape
        out = torch.empty(rows, 1)
        ones = torch.ones(1, width)
        kernel.launch("lm_head_fp32", min(rows, 7), terms, ones, None, out, rows, width, 1, 0)
        return out[:, 0]

    asked = grid.case("lm_head", arch, 300, tile_length=64)
    assert grid.agrees(asked) and not grid.agrees(asked, backwards)
    tiles = [range(at, min(at + 64, 300)) for at in range(0, 300, 64)]
    want = sequential(adjacent_pairs(tile) for tile in reversed(tiles))
    assert reveal(backwards, 300) == ReductionTree.from_nested(want)
