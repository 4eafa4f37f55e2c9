"""Bit classes: equal only where order and bits agree, counted against an independent truth."""

from __future__ import annotations

import json

import pytest
import torch

import workbench as wb
from workbench.errors import ConfigError, InputError
from workbench.orders import classes as under_test
from workbench.orders.classes import (
    adversarial,
    bit_classes,
    config_text,
    equals_study,
    letter,
    random_configs,
)
from workbench.orders.declared import declared_order


def groups(found) -> list[set[tuple]]:
    return [{(c.arch, c.tile_length, c.max_blocks) for c in one.configs} for one in found.classes]


def test_the_tile_decides_the_class_and_max_blocks_does_not():
    configs = [
        wb.KernelConfig(arch=arch, tile_length=tile, max_blocks=blocks)
        for arch in ("dav-2201", "dav-3510")
        for tile in (64, 256, 4096)
        for blocks in (1, 40)
    ]
    found = bit_classes(configs, 4096, backend="twin")
    assert found.passed and found.rests_on == "revealed"
    assert not [d for d in found.disagreements if d.kind.startswith("same order")]
    # A sequence of repeats is what method 1 adds, and what tiles of one repeat add up to.
    both = {(arch, 64, b) for arch in ("dav-2201", "dav-3510") for b in (1, 40)}
    assert groups(found) == [
        both | {("dav-2201", 4096, 1), ("dav-2201", 4096, 40)},
        {("dav-2201", 256, 1), ("dav-2201", 256, 40)},
        {("dav-3510", 256, 1), ("dav-3510", 256, 40)},
        {("dav-3510", 4096, 1), ("dav-3510", 4096, 40)},
    ]
    for one in found.classes:  # what the binary does is what the source says
        for config in one.configs:
            assert one.hash == declared_order("lm_head", config, 4096).hash


def test_the_schedule_does_not_decide_the_class():
    configs = [
        wb.KernelConfig(tile_length=128, schedule=schedule, max_blocks=blocks)
        for schedule in ("output", "weight_stationary")
        for blocks in (1, 7)
    ]
    found = bit_classes(configs, 300, dtype="bf16", backend="twin")
    assert [len(one.configs) for one in found.classes] == [4]


@pytest.mark.parametrize(
    ("op", "apart"),
    [
        ("det_gemm", [{"leaf_length": 32}, {"leaf_length": 64}]),
        ("batch_invariant_logp", [{"tile_length": 64}, {"tile_length": 128}]),
    ],
)
def test_the_other_operators(op, apart):
    configs = [wb.KernelConfig(max_blocks=b, **values) for values in apart for b in (1, 3)]
    found = bit_classes(configs, 200, op=op, backend="twin")
    assert found.passed
    assert [len(one.configs) for one in found.classes] == [2, 2]
    for one in found.classes:
        assert one.hash == declared_order(op, one.configs[0], 200).hash


TILES = [wb.KernelConfig(tile_length=t) for t in (64, 128, 4096)]


def test_one_order_with_other_bits_is_caught_and_not_called_equal(monkeypatch):
    """A control: an order that says less than the truth must not make configurations equal."""
    blind = declared_order("lm_head", TILES[0], 640)
    monkeypatch.setattr(under_test, "_order", lambda *_: blind)
    found = bit_classes(TILES, 640, backend="twin")
    assert not found.passed
    assert [d.kind for d in found.disagreements] == ["same order, other bits"]
    assert found.same(TILES[0], TILES[2]) and not found.same(TILES[0], TILES[1])


def test_data_that_cannot_tell_do_not_make_configurations_equal(monkeypatch):
    monkeypatch.setattr(under_test, "results", lambda *_: (torch.zeros(3),))
    found = bit_classes(TILES, 640, backend="twin", order="declared")
    assert found.passed  # nothing false was said
    assert [d.kind for d in found.disagreements] == ["other order, same bits"]
    assert not found.same(TILES[0], TILES[1])


def test_a_configuration_that_fails_does_not_lose_the_others():
    bad = wb.KernelConfig(tile_length=100)
    seen = []
    found = bit_classes(
        [bad, TILES[0]],
        64,
        backend="twin",
        order="declared",
        progress=lambda *step: seen.append(step[:2]),
    )
    assert seen == [(0, 2), (1, 2)]
    assert len(found.classes) == 1 and not found.passed
    assert "multiple of 64" in str(found) and "dav-2201: tile_length=100:" in str(found)
    with pytest.raises(InputError, match=r"failed: .*multiple of 64"):
        found.class_of(bad)
    with pytest.raises(InputError, match="was not asked for"):
        found.class_of(TILES[1])


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_no_false_equal_among_random_configurations(dtype):
    configs = random_configs(14, dtype=dtype, seed=5)
    study = equals_study(configs, 600, dtype=dtype, backend="twin", seed=5)
    assert study.configs == 14 and study.pairs == 91
    assert study.counts["order and bits"] == (0, 0)
    # Controls: the truth tells other keys apart, and there is something to tell.
    assert 0 < study.equal < study.pairs
    assert study.counts["architecture"][0] > 0
    assert study.counts["architecture and n % tile"][1] > 0
    assert study.passed


def test_a_study_in_which_the_rule_is_wrong_fails(monkeypatch):
    monkeypatch.setattr(under_test.BitClasses, "class_of", lambda self, config: self.classes[0])
    configs = random_configs(6, seed=5)
    assert not equals_study(configs, 600, backend="twin", draws=1).passed


def test_random_configurations_are_reproducible_and_fit():
    for op in ("lm_head", "det_gemm", "batch_invariant_logp"):
        drawn = random_configs(20, op=op, dtype="bf16", seed=3)
        assert drawn == random_configs(20, op=op, dtype="bf16", seed=3)
        assert len(set(drawn)) > 10
        for config in drawn:
            wb.build.spec(op).check(config, "bf16")


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_adversarial_data_are_finite_and_give_orders_away(dtype):
    hidden, weight = adversarial(512, 12, 8, dtype, seed=1)
    assert torch.isfinite(hidden).all() and torch.isfinite(weight).all()
    again = adversarial(512, 12, 8, dtype, seed=1)
    assert torch.equal(hidden, again[0]) and torch.equal(weight, again[1])
    products = (hidden[:, None].float() * weight.float()).numpy().reshape(-1, 512)
    for one, other in [(64, 128), (128, 256), (64, 192)]:
        trees = [
            declared_order("lm_head", wb.KernelConfig(tile_length=t), 512) for t in (one, other)
        ]
        assert (trees[0].sum(products) != trees[1].sum(products)).mean() > 0.1


def test_results_and_words():
    found = bit_classes(TILES, 640, backend="twin", order="declared")
    data = json.loads(json.dumps(found.to_dict()))
    assert [set(one) for one in data["classes"]] == [
        {"letter", "hash", "bits", "height", "configs"}
    ] * 2
    assert data["classes"][0]["configs"][0]["tile_length"] == 64
    assert data["evidence"][0]["arch"] == "dav-2201" and data["evidence"][0]["backend"] == "twin"
    assert list(found.to_pandas()["class"]) == ["A", "B"]
    assert "tile_length 64, 4096" in found._repr_html_()
    assert "twin" in found.title() and "2 bit classes" in found.title()
    assert [letter(k) for k in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
    named = wb.build.spec("lm_head").complete(wb.KernelConfig(schedule="weight_stationary"))
    assert "schedule weight_stationary" in config_text(
        "lm_head", [named, named.replace(schedule=0)]
    )


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"configs": []}, InputError, "no configurations"),
        ({"n": 0}, InputError, "at least 1"),
        ({"op": "batch_invariant_logp", "n": 151_936}, InputError, "order='declared'"),
        ({"order": "guessed"}, InputError, "revealed, declared"),
        ({"dtype": "fp64"}, InputError, "fp32"),
        ({"op": "softmax"}, ConfigError, "no kernel is called"),
        ({"configs": None}, InputError, "configs is a NoneType"),
        ({"configs": wb.KernelConfig()}, InputError, "configs is a KernelConfig"),
        ({"n": "a"}, InputError, "n='a'"),
        ({"n": 2.5}, InputError, "n=2.5"),
        ({"rows": True}, InputError, "rows=True"),
        ({"configs": ["tile 64"]}, ConfigError, "KernelConfig"),
        ({"configs": [wb.KernelConfig(leaf_length=2)]}, ConfigError, "no constant leaf_length"),
    ],
)
def test_wrong_input(given, error, words):
    with pytest.raises(error, match=words):
        bit_classes(**{"configs": TILES, "n": 64, **given})


def test_drawing_ends_where_no_tile_fits(monkeypatch):
    rules = type(wb.build.spec("lm_head"))
    monkeypatch.setattr(rules, "largest_tile", lambda self, arch, dtype, config: 0)
    with pytest.raises(ConfigError, match="draws in a row left no room"):
        random_configs(3)
    for count in (-1, 2.5, "a"):
        with pytest.raises(InputError, match="a whole number of 0 or more"):
            random_configs(count)
