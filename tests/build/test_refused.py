"""What cannot work is refused before anything is compiled, with the largest value that would."""

from __future__ import annotations

import re

import build_kit as kit
import pytest
import torch

import workbench as wb
from workbench.build import arch, config
from workbench.build.config import KernelConfig

SPEC = config.spec("lm_head")
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def test_the_generated_header_is_up_to_date():
    assert arch.HEADER.read_text() == arch.header_text(), "run python -m workbench.build.arch"


@pytest.mark.parametrize("name", ["dav-9999", "", "2201", None])
def test_an_unknown_architecture(name):
    with pytest.raises(wb.ConfigError, match="known ones are dav-1001, dav-2002, dav-2201"):
        KernelConfig(arch=name)


def test_reduce_sum_methods_by_bytes():
    at = {n: arch.load("dav-3510").reduce_sum_method_count(n) for n in (252, 256, 1024, 1028)}
    assert at == {252: 2, 256: 3, 1024: 3, 1028: 2}
    assert arch.load("dav-2201").reduce_sum_method_count(512) == 1


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"tile_length": 12224}, "The largest value that works is 12160"),
        ({"tile_length": 100}, "largest value that works is 12160; 64 is the nearest below"),
        ({"tile_length": 0}, "from 64 to 12160"),
        ({"tile_length": -64}, "from 64 to 12160"),
        ({"tile_length": 10**9}, "largest value that works is 12160"),
        ({"max_blocks": 0}, "from 1 to 65535"),
        ({"max_blocks": 65536}, "The largest value that works is 65535"),
        ({"block_dim": 3}, "no constant block_dim; it has tile_length, max_blocks"),
        ({"schedule": "rows"}, "lm_head wants one of output, weight_stationary"),
        ({"schedule": 2}, "lm_head has 0 (output), 1 (weight_stationary)"),
        ({"weight_rows": 0}, "from 1 to 8"),
        ({"weight_rows": 9}, "a row of hidden has one data block, 8 fp32"),
        ({"hidden_rows": 256}, "from 1 to 255"),
        (
            {"schedule": "weight_stationary", "weight_rows": 8, "tile_length": 4416},
            "The largest value that works is 4352",
        ),
        ({"arch": "dav-1001"}, "does not run on dav-1001; it runs on dav-2201, dav-3510"),
    ],
)
def test_refused_before_compiling(record, constants, words):
    with pytest.raises(wb.ConfigError, match=re.escape(words)):
        wb.build("lm_head", KernelConfig(**constants), backend="twin")
    assert record.compilations == []


@pytest.mark.parametrize("value", [True, 64.0, "64", None])
def test_a_constant_is_an_integer(value):
    with pytest.raises(wb.ConfigError, match="a build-time constant is an integer"):
        KernelConfig(tile_length=value)


def test_constants_do_not_come_through_defines(record):
    with pytest.raises(wb.ConfigError, match=r"give it in the KernelConfig \(tile_length=…\)"):
        wb.build("lm_head", backend="twin", defines={"TILE_LENGTH": 64})
    with pytest.raises(wb.ConfigError, match="not the name of a macro"):
        wb.build("lm_head", backend="twin", defines={"A B": 1})
    with pytest.raises(
        wb.ConfigError, match=r"no kernel is called .lm_tail.; shipped ones are .*lm_head"
    ):
        wb.build("lm_tail", backend="twin")
    with pytest.raises(wb.ConfigError, match=r"no file /no/such\.asc"):
        wb.build("/no/such.asc", backend="twin")
    with pytest.raises(wb.ConfigError, match="takes inputs of fp32, bf16, fp16"):
        wb.build("lm_head", backend="twin", dtypes=["fp64"])
    assert record.compilations == []


@pytest.mark.parametrize("arch_name", ["dav-2201", "dav-3510"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "schedule",
    [
        {},
        {"schedule": "weight_stationary"},
        {"schedule": "weight_stationary", "weight_rows": 1, "hidden_rows": 255},
        {"schedule": "weight_stationary", "weight_rows": 8, "hidden_rows": 1},
    ],
    ids=["output", "weight_stationary", "one weight row", "one hidden row"],
)
def test_the_largest_tile_runs_and_fills_the_ub_as_the_spec_says(
    record, arch_name, dtype, schedule
):
    base = KernelConfig(arch=arch_name, **schedule)
    largest = SPEC.largest_tile(arch_name, dtype, base)
    budget = arch.load(arch_name).ub_bytes
    for tile in (64, largest):
        cfg = base.replace(tile_length=tile)
        kernel = wb.build("lm_head", cfg, backend="twin", dtypes=[dtype])
        ones = torch.ones(2, 2 * largest, dtype=DTYPES[dtype])
        assert torch.equal(
            kernel(ones, ones[:1], None, torch.float32), torch.full((2, 1), 2.0 * largest)
        )
        assert kernel.last_ub_bytes == SPEC.ub_bytes(dtype, cfg) <= budget
    assert SPEC.ub_bytes(dtype, base.replace(tile_length=largest + 64)) > budget
    record.reset()
    with pytest.raises(wb.ConfigError, match=f"The largest value that works is {largest}"):
        cfg = base.replace(tile_length=largest + 64)
        wb.build("lm_head", cfg, backend="twin", dtypes=[dtype])
    assert record.compilations == []


def test_a_tile_over_the_budget_that_is_compiled_anyway_is_a_fault(record):
    kernel = wb.build(
        SPEC.source,
        KernelConfig(),
        backend="twin",
        defines={"TILE_LENGTH": SPEC.largest_tile("dav-2201", "fp32") + 64, "MAX_BLOCKS": 1},
    )
    x, out = torch.ones(1, 8), torch.empty(1, 1)
    with pytest.raises(wb.TwinFault, match=rf"{SPEC.source.name}:\d+: InitBuffer asks for") as e:
        kernel.launch("lm_head_fp32", 1, x, x, None, out, 1, 8, 1, 0)
    assert (e.value.kind, e.value.code, e.value.block) == ("mem", "ub-budget", 0)


def test_a_configuration_is_a_value():
    a, b = KernelConfig(tile_length=64), KernelConfig(tile_length=64, arch="dav-2201")
    assert a == b and hash(a) == hash(b) and a != a.replace(tile_length=128)
    assert SPEC.complete(a).to_dict() == {
        "arch": "dav-2201",
        "hidden_rows": 64,
        "max_blocks": 128,
        "schedule": 0,
        "tile_length": 64,
        "weight_rows": 4,
    }
    assert SPEC.complete(None).tile_length == 4096, "the published default"
    with pytest.raises(AttributeError, match="immutable"):
        a.tile_length = 3
    with pytest.raises(AttributeError, match="does not set 'max_blocks'"):
        _ = a.max_blocks


def test_entries_are_compiled_when_they_are_used(record):
    kernel = wb.build("lm_head", KernelConfig(tile_length=64), backend="twin")
    assert kernel.info.entries == ["lm_head_fp32"] and len(record.compilations) == 1
    x = torch.ones(1, 64, dtype=torch.bfloat16)
    assert kernel(x, x).item() == 64 and len(record.compilations) == 2
    assert kernel(x, x, None, torch.float32).item() == 64 and len(record.compilations) == 2
    assert len(kernel.kernels) == 5 and len(record.compilations) == 3
    again = wb.build("lm_head", KernelConfig(tile_length=64), backend="twin", dtypes=["bf16"])
    assert again.info.cached and len(record.compilations) == 3
    assert kit.modules(), "the control: these variants are in the cache"


def test_a_gradient_is_compiled_when_it_is_used(record):
    kernel = wb.build("batch_invariant_logp", KernelConfig(tile_length=64), backend="twin")
    assert kernel.info.entries == ["batch_invariant_logp_fp32"] and len(record.compilations) == 1
    x, ids = torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    _, lse = kernel(x, ids)
    assert len(record.compilations) == 1
    assert kernel.grad(x, ids, lse, torch.ones(1), torch.zeros(1)).tolist() == [[0.5, -0.5]]
    assert len(record.compilations) == 2


def test_what_is_known_to_work_is_no_excuse_for_what_is_not():
    """`check` remembers what works, by configuration and dtype."""
    kept = SPEC.complete(KernelConfig(schedule="weight_stationary"))  # 16 bits need more UB there
    tile = SPEC.largest_tile("dav-2201", "fp32", kept)
    fits = kept.replace(tile_length=tile)
    SPEC.check(fits, "fp32")
    SPEC.check(kept.replace(tile_length=tile), "fp32")
    others = (fits.replace(tile_length=tile + 64), fits.replace(max_blocks=0))
    for given, dtype in ((fits, "bf16"), *((other, "fp32") for other in others)):
        for _ in range(2):
            with pytest.raises(wb.ConfigError, match="largest value that works"):
                SPEC.check(given, dtype)
