"""The space: a product whose impossible corners are refused with the reason."""

from __future__ import annotations

import pytest

from workbench.build.config import KernelConfig, spec
from workbench.errors import ConfigError, InputError
from workbench.sweep.space import Space


def test_product_and_order():
    space = Space(
        tiles=(128, 64), max_blocks=(1, 40), schedules=("output", 1), dtypes=("fp32", "bf16")
    )
    points = space.points()
    assert len(space) == len(points) == 16
    constants = [(p.dtype, p.config.tile_length, p.config.max_blocks, p.config.schedule)
                 for p in points]  # fmt: skip
    expected = [
        (dtype, tile, blocks, schedule)
        for dtype in ("fp32", "bf16")
        for tile in (128, 64)
        for blocks in (1, 40)
        for schedule in (0, 1)
    ]
    assert constants == expected
    assert all(p.config == spec("lm_head").complete(p.config) for p in points)


def test_names_and_numbers_are_one_configuration():
    assert len(Space(schedules=("output", 0))) == 1


def test_empty_lists_are_the_defaults():
    (point,) = Space().points()
    assert point.config == spec("lm_head").complete(KernelConfig())


def test_refused_with_the_reason_of_the_spec():
    rules = spec("lm_head")
    stationary = KernelConfig(schedule="weight_stationary")
    most = rules.largest_tile("dav-2201", "bf16", stationary)
    assert most < rules.largest_tile("dav-2201", "fp32", stationary)
    space = Space(
        tiles=(100, most, most + 64), schedules=("weight_stationary",), dtypes=("fp32", "bf16")
    )
    refused = {(p.dtype, p.config.tile_length): p.refusal for p in space.refused()}
    assert set(refused) == {("fp32", 100), ("bf16", 100), ("bf16", most + 64)}
    assert "multiple of 64" in refused["fp32", 100]
    assert f"largest value that works is {most}" in refused["bf16", most + 64]
    assert "3 of which cannot be built" in space.title()


def test_a_dtype_without_such_an_output_is_refused():
    space = Space(dtypes=("fp32", "bf16"), out_dtype="bf16")
    assert [(p.dtype, "no forward entry" in p.refusal) for p in space.refused()] == [("fp32", True)]


def test_another_operator():
    space = Space(op="det_gemm", constants={"leaf_length": (32, 128)}, max_blocks=(1, 2))
    assert [p.config.leaf_length for p in space.points()] == [32, 128, 32, 128]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"op": "rms_norm"}, ConfigError, "lm_head and det_gemm"),
        ({"op": "batch_invariant_logp"}, ConfigError, "lm_head and det_gemm"),
        ({"arches": ("dav-9999",)}, ConfigError, "dav-9999"),
        ({"dtypes": ("fp8",)}, InputError, "fp8"),
        ({"dtypes": ()}, InputError, "at least one"),
        ({"tiles": 64}, InputError, "list of values"),
        ({"dtypes": "fp32"}, InputError, "list of values"),
        ({"schedules": ("sideways",)}, ConfigError, "sideways"),
        ({"constants": {"leaf_length": (3,)}}, ConfigError, "no constant leaf_length"),
        ({"tiles": (64,), "constants": {"tile_length": (64,)}}, InputError, "given twice"),
        ({"constants": {"arch": ("dav-3510",)}}, InputError, "arches="),
        ({"constants": {"switches": ("x",)}}, InputError, "no constant"),
        ({"shapes": ((0, 8),)}, InputError, "at least 1"),
        ({"shapes": ((2, 3, 4),)}, InputError, "rows, vocabulary ids"),
        ({"backend": "gpu"}, InputError, "gpu"),
        ({"op": "det_gemm", "schedules": (0,)}, ConfigError, "no constant schedule"),
    ],
)
def test_what_cannot_be_meant(changes, error, words):
    with pytest.raises(error, match=words):
        Space(**changes)
