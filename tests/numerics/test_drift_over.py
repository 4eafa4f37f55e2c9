"""Drift over tiles and dtypes is drift of each, and its figures are those known for this draw."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers import DTYPES, kernel

import workbench as wb
from workbench.errors import ConfigError, InputError
from workbench.numerics.drift import drift
from workbench.numerics.drift.over import drift_over
from workbench.orders import declared_order
from workbench.plots.style import scientific

G = torch.Generator().manual_seed(5)
HIDDEN, WEIGHT = torch.randn(4, 300, generator=G), torch.randn(9, 300, generator=G)
TILES = (64, 128)


@pytest.mark.parametrize("out_dtype", [None, torch.float32])
def test_each_entry_is_the_drift_of_that_kernel(out_dtype):
    table = drift_over(
        kernel(4096), TILES, list(DTYPES), HIDDEN, WEIGHT, out_dtype=out_dtype, tree="declared"
    )
    assert table.labels == list(TILES) and table.dtypes == list(DTYPES)
    for tile in TILES:
        one = kernel(tile)
        order = declared_order("lm_head", one.config, 300)
        for name, dtype in DTYPES.items():
            inputs = HIDDEN.to(dtype), WEIGHT.to(dtype)
            own = drift(one, *inputs, out_dtype=out_dtype, tree=order)
            found = table[tile, name]
            assert found.comparisons == own.comparisons and found.exact == own.exact
            assert found.tree_hash == order.hash
            assert found.evidence.fixture_id == own.evidence.fixture_id
            assert found.evidence.config["tile_length"] == tile
    assert len(table.rows()) == 2 * 3 * 3
    assert {r["config"] for r in table.rows()} == set(TILES)
    assert "2 configurations in fp32, bf16, fp16 at 4 x 300 x 9" in str(table)


def test_names_configurations_and_functions():
    config = wb.KernelConfig(tile_length=64, arch="dav-3510")
    given = {"A2": 64, "950": config}
    table = drift_over("lm_head", given, ["fp32"], HIDDEN, WEIGHT, "exact", backend="twin")
    assert table["950", "fp32"].evidence.arch == "dav-3510"
    assert table["A2", "fp32"].evidence.arch == "dav-2201"
    by_config = drift_over(kernel(4096), [config], [torch.float32], HIDDEN, WEIGHT, "exact")
    assert by_config.labels == ["dav-3510 tile_length=64"]
    (only,) = by_config.drifts.values()
    assert only.comparisons == table["950", "fp32"].comparisons

    def shifted(by):
        return lambda h, w: (h.double() @ w.double().T + by).float()

    table = drift_over(shifted, {"none": 0, "one": 1}, ["fp32"], HIDDEN, WEIGHT, "exact")
    worst = [table[k, "fp32"]["kernel", "exact"].max_abs for k in ("none", "one")]
    assert worst[0] < 2.0**-18 and abs(worst[1] - 1) <= 2.0**-18  # half an ulp below 64


def test_references_are_computed_once_a_dtype():
    calls = []

    def mine(h, w):
        calls.append(h.dtype)
        return h @ w.T

    drift_over(kernel(4096), TILES, ["fp32", "bf16"], HIDDEN, WEIGHT, {"mine": mine})
    assert calls == [torch.float32, torch.bfloat16]


def test_refusals():
    for configs, dtypes in (((), ["fp32"]), (TILES, [])):
        with pytest.raises(InputError, match="nothing to measure"):
            drift_over("lm_head", configs, dtypes, HIDDEN, WEIGHT, backend="twin")
    with pytest.raises(InputError, match="fp8"):
        drift_over("lm_head", TILES, ["fp8"], HIDDEN, WEIGHT, backend="twin")
    with pytest.raises(ConfigError):
        drift_over("lm_head", [7], ["fp32"], HIDDEN, WEIGHT, backend="twin")
    table = drift_over("lm_head", [64], ["fp32"], HIDDEN, WEIGHT, "exact", backend="twin")
    with pytest.raises(KeyError, match="it has \\(64, 'fp32'\\)"):
        table[128, "fp32"]


def test_the_page_has_the_figures_of_this_kernel():
    """The rows that no library's order enters: made by docs/make_drift.py, found again here."""
    page = (Path(wb.__file__).parents[1] / "docs" / "drift.md").read_text("utf-8")
    sample = wb.samples.smollm2()
    hidden, weight = sample.hidden.reshape(-1, 576), sample.weight.float()
    c = drift(kernel(4096), hidden, weight, "exact")["kernel", "exact"]
    found = [scientific(c.max_abs), scientific(c.rms), f"{c.max_ulp:.2f}"]
    assert f"| kernel | exact | {' | '.join(found)} |" in page
    assert f"| {scientific(c.max_peak)} | {c.differing:,} of {c.outputs:,} |" in page
