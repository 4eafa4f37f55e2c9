"""Choosing: what shares bits, what no other beats, and what is recommended, with the reason."""

from __future__ import annotations

import random
import sys

import pytest
from sweep_kit import made, small

import workbench as wb
from workbench.errors import InputError, MissingError
from workbench.sweep import choose
from workbench.sweep.choose import classes, disagreements, in_class_of, pareto, recommend
from workbench.sweep.run import BoundFigures, DriftFigures, Inputs, Verdict, WallTime


def run(tile, blocks=1, *, off=1.0, moved=100, order="o1", bits="b1", own=2.0, **changes):
    """A run with so much drift, so many bytes a logit, and torch.mv off by `own`."""
    counters = {"gm_to_ub_bytes": 10 * moved, "ub_to_gm_bytes": 0, "logits": 10, "blocks": 1,
                "copies": 1}  # fmt: skip
    fields = {
        "config": {"tile_length": tile, "max_blocks": blocks},
        "drift": DriftFigures(off, off / 2, off / 2, off),
        "reference_drift": DriftFigures(own, own / 2, own / 2, own),
        "reference": "torch.mv",
        "counters": counters,
        "invariance": Verdict(True, ("T1",)),
        "bound": BoundFigures("running", 10 * off, 0.1),
        "order_hash": order,
        "bits": bits,
    }
    return made(**fields | changes)


def tiles(choices):
    return [choice.config["tile_length"] for choice in choices]


# ---- classes -------------------------------------------------------------------------------------


def test_a_class_is_order_and_bits_of_one_question():
    runs = [
        run(64),
        run(64, 2),
        run(128, bits="b2"),
        run(256, order="o2"),
        run(64, inputs=Inputs("other")),
        run(64, backend="npu"),
        run(512, order=None),
        made(config={"tile_length": 7}, status="failed", error="x", order_hash=None, bits=None),
    ]
    found = classes(runs)
    assert [len(c.runs) for c in found] == [2, 1, 1, 1, 1]
    assert [c.letter for c in found] == list("ABCDE")
    (text,) = disagreements(runs)
    assert "tile_length 64" in text and "tile_length 128" in text
    assert not disagreements(runs[:2])


def test_a_config_names_its_class():
    runs = [run(64), run(64, 40), run(128, order="o2"), run(4096), run(512, bits="b2")]
    expected = [runs[0], runs[1], runs[3]]
    for of in ({"tile_length": 64}, runs[1], runs[0].key, wb.KernelConfig(tile_length=4096)):
        assert in_class_of(runs, of) == expected
    assert in_class_of(runs, {"tile_length": 128}) == [runs[2]]


@pytest.mark.parametrize("of", [{"tile_length": 7}, "nokey", {"tile_length": 9}])
def test_a_class_of_nothing(of):
    with pytest.raises(InputError, match="measure it in the same sweep"):
        in_class_of([run(64), run(9, order=None)], of)


def test_a_class_of_something_else():
    with pytest.raises(InputError, match="give a run"):
        in_class_of([run(64)], 7)


# ---- the front -----------------------------------------------------------------------------------


def test_front_against_every_pair():
    draw = random.Random(4)
    runs = [run(64 * i, off=draw.randrange(1, 9), moved=draw.randrange(1, 9), own=99.0)
            for i in range(1, 60)]  # fmt: skip
    front = pareto(runs)
    points = [(r.drift.max_abs, choose.bytes_per_logit(r)) for r in runs]
    best = {p for p in points if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in points)}
    assert [(c.drift, c.cost) for c in front] == sorted(best, key=lambda p: p[1])
    for c in front:  # of equals the first
        assert tiles([c])[0] == runs[points.index((c.drift, c.cost))].config["tile_length"]


# ---- recommending --------------------------------------------------------------------------------


def test_the_cheapest_that_is_no_worse_than_the_reference():
    runs = [run(64, off=2.5, moved=1), run(128, off=1.5, moved=5), run(256, off=1.0, moved=9)]
    found = recommend(runs)
    assert tiles([found.choice]) == [128] and tiles(found.runners_up) == [256]
    assert tiles(found.front) == [64, 128, 256] and found.considered == 3
    assert found.reason == (
        "tile_length 128: the fewest bytes moved per logit (5) among the 2 of 3 whose max_abs "
        "error (1.5 here) is at most torch.mv's own 2."
    )


def test_a_limit_and_none_within_it():
    runs = [run(64, off=2.5, moved=1), run(128, off=1.5, moved=5)]
    assert tiles([recommend(runs, limit=3.0).choice]) == [64]
    none = recommend(runs, limit=1.0)
    assert tiles([none.choice]) == [128] and "none of 2 is within 1" in none.reason


def test_to_stay_in_a_bit_class():
    runs = [run(64, moved=1, order="o2"), run(128, moved=5), run(256, moved=4), run(512, moved=9)]
    assert tiles([recommend(runs).choice]) == [64]
    found = recommend(runs, same_bits_as={"tile_length": 512})
    assert tiles([found.choice]) == [256] and set(found.choice.bits) == {("o1", "b1")}
    assert found.excluded == {"of other bits": 1} and "every bit" in found.reason
    assert 64 not in tiles(found.front + found.runners_up)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"invariance": Verdict(False, ("T1",), {"row": 0})}, "not invariant"),
        ({"bound": BoundFigures("running", 1.0, 1.5)}, "over the derived bound"),
        ({"bound": BoundFigures("running", 1.0, float("nan"))}, "over the derived bound"),
        ({"drift": DriftFigures(float("nan"), 1.0, 1.0, 1.0)}, "without a finite drift"),
        ({"counters": {}}, "without bytes moved per logit"),
        ({"status": "failed", "error": "x"}, "failed"),
        ({"status": "refused", "error": "x"}, "refused"),
    ],
)
def test_what_cannot_be_chosen(changes, why):
    cheap = run(64, moved=1, **changes)
    found = recommend([cheap, run(128, moved=5)])
    assert tiles([found.choice]) == [128] and found.excluded == {why: 1}
    with pytest.raises(InputError, match=why):
        recommend([cheap])


def test_a_configuration_that_fails_on_one_input_is_out():
    second = Inputs("other")
    runs = [run(64, moved=1), run(64, moved=1, inputs=second, status="failed", error="x"),
            run(128, moved=5), run(128, moved=7, off=1.9, inputs=second)]  # fmt: skip
    found = recommend(runs)
    assert tiles([found.choice]) == [128] and found.considered == 1
    assert (found.choice.drift, found.choice.cost) == (1.9, 6)


def test_equal_ones_are_told():
    found = recommend([run(64), run(128), run(256)])
    assert tiles([found.choice]) == [64] and "2 others are equal" in found.reason


def test_costs():
    slow, fast = (run(t, time=WallTime(r, "F.linear", 1.0, r)) for t, r in ((64, 0.1), (128, 0.5)))
    assert tiles([recommend([slow, fast], cost="time").choice]) == [128]
    more = run(256, moved=10**7)
    assert tiles([recommend([more, slow], cost="model").choice]) == [64]


@pytest.mark.parametrize(
    ("runs", "options", "words"),
    [
        ([], {}, "there are none"),
        ([run(64)], {"cost": "luck"}, "luck"),
        ([run(64)], {"drift": "luck"}, "luck"),
        ([run(64), run(64, arch="dav-3510")], {}, "dav-2201 and dav-3510"),
        ([run(64), run(64, dtype="bf16")], {}, "fp32 and bf16"),
        ([run(64), run(64, backend="npu")], {}, "twin and npu"),
    ],
)
def test_what_cannot_be_recommended(runs, options, words):
    with pytest.raises(InputError, match=words):
        recommend(runs, **options)


def test_one_for_each_architecture():
    runs = [run(64), run(128, arch="dav-3510"), run(64, dtype="bf16", status="failed", error="x")]
    assert tiles(r.choice for r in choose.recommend_each(runs)) == [64, 128]


# ---- Optuna --------------------------------------------------------------------------------------


def test_search(tmp_path):
    pytest.importorskip("optuna", reason="needs Optuna: pip install '.[search]'")
    from workbench.sweep.searching import search
    from workbench.sweep.space import Space

    space = Space(tiles=(64, 100, 128, 256), max_blocks=(1, 3), schedules=(0, 1), shapes=((2, 8),))
    options = {"workers": 0, "progress": False, "timing": 0, "batch": 3}
    some = search(space, store=tmp_path / "r", trials=5, seed=1, **options)
    assert len({run.key for run in some.runs}) == len(some.runs) == 5
    assert "5 of 16 configurations" in some.notes[-1]
    again = search(space, store=tmp_path / "r", trials=5, seed=1, **options)
    assert again.kept == 5 and [r.key for r in again.runs] == [r.key for r in some.runs]
    # All of it is found in the end, and the best is that of the grid.
    every = search(space, store=tmp_path / "r", trials=99, seed=1, **options)
    assert len({run.key for run in every.runs}) == 16 and every.refused == 4
    assert every.recommend().choice.cost == min(
        choose.bytes_per_logit(run) for run in every.runs if run.status == "ok"
    )


def test_search_without_optuna(monkeypatch):
    from workbench.sweep.searching import search

    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingError, match="Optuna"):
        search(small())
    for bad in ({"dtypes": ("fp32", "bf16")}, {"tiles": (64,), "max_blocks": (1,)}):
        with pytest.raises(InputError):
            search(small(**bad))
    with pytest.raises(InputError, match="luck"):
        search(small(), cost="luck")
