"""Choosing: what shares bits, what no other beats, and what is recommended, with the reason."""

from __future__ import annotations

import dataclasses
import math
import random
import sys

import pytest
from sweep_kit import made, small

import workbench as wb
from workbench.errors import InputError, MissingError
from workbench.sweep import bit_classes, choose
from workbench.sweep.bit_classes import classes, disagreements, in_class_of
from workbench.sweep.choose import pareto, recommend
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


OTHER = Inputs("other")


def test_the_same_bits_on_one_input_are_not_every_bit():
    """Two tiles above the H of one input are one order there, and two on a longer input."""
    runs = [run(4096), run(4096, inputs=OTHER, order="long"), run(1024), run(1024, 3),
            run(1024, inputs=OTHER, order="cut"), run(2048), run(2048, inputs=OTHER, order="long"),
            run(512), run(256), run(256, inputs=OTHER, status="failed", error="x"),
            ]  # fmt: skip
    kept = in_class_of(runs, {"tile_length": 4096})
    assert kept == [runs[0], runs[1], runs[5], runs[6]]
    assert in_class_of(runs, runs[0]) == in_class_of(runs, runs[1].key) == kept
    found = recommend(runs, same_bits_as={"tile_length": 4096})
    assert tiles(found.choices) == [4096, 2048]
    assert found.excluded == {"of other bits": 2, bit_classes.PARTLY: 3}


def test_a_configuration_to_keep_has_one_class():
    runs = [run(64, 1, order="a"), run(64, 2, order="b"), run(128, order="b")]
    with pytest.raises(InputError, match=r"two bit classes.*Give more of its constants"):
        in_class_of(runs, {"tile_length": 64})
    assert in_class_of(runs, {"tile_length": 64, "max_blocks": 2}) == runs[1:]
    with pytest.raises(InputError, match="two bit classes"):  # and not an empty list of advice
        choose.recommend_each(runs, same_bits_as={"tile_length": 64})
    # On two architectures it may have two: each is held to its own.
    runs = [run(64), run(128), run(64, arch="dav-3510", order="b"), run(128, arch="dav-3510"),
            run(256, arch="dav-3510", order="b")]  # fmt: skip
    found = choose.recommend_each(runs, same_bits_as={"tile_length": 64})
    assert [tiles(one.choices) for one in found] == [[64, 128], [64, 256]]


def test_a_refused_configuration_has_no_bits_to_keep():
    refused = run(100, status="refused", error="a multiple of 64", order_hash=None, bits=None)
    with pytest.raises(bit_classes.NothingToChoose, match="refused: a multiple of 64"):
        in_class_of([run(64), refused], {"tile_length": 100})


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
        "dav-2201, fp32: tile_length 128 has the fewest bytes moved per logit (5) among the 2 of 3 "
        "whose max_abs error (1.5 here) is at most torch.mv's own 2."
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
    # What all that are left share is told too, where others have it otherwise.
    only = recommend(runs, same_bits_as={"tile_length": 64})
    assert only.reason.startswith("dav-2201, fp32: tile_length 64 has ")
    assert 64 not in tiles(found.front + found.runners_up)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"invariance": Verdict(False, ("T1",), {"row": 0})}, "not invariant"),
        ({"bound": BoundFigures("running", 1.0, 1.5)}, "over the derived bound"),
        ({"bound": BoundFigures("running", 1.0, float("nan"))}, "over the derived bound"),
        ({"drift": DriftFigures(float("nan"), 1.0, 1.0, 1.0)}, "without a finite drift"),
        ({"counters": {}}, "without bytes moved per logit"),
        ({"invariance": None}, "without an invariance check"),
        ({"order_hash": None, "bound": None}, "without a bound"),
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


def test_small_enough_is_asked_on_each_input():
    """An input with logits 100 times as large does not decide for the other."""
    runs = [run(64, off=1.0, own=2.0), run(64, off=100.0, own=200.0, inputs=OTHER),
            run(128, off=3.0, own=2.0, moved=1), run(128, off=9.0, own=200.0, inputs=OTHER, moved=1)
            ]  # fmt: skip
    found = recommend(runs)
    assert tiles([found.choice]) == [64] and "among the 1 of 2" in found.reason
    assert "torch.mv's own on each input" in found.reason
    assert [c.of_reference for c in found.choices] == [1.5, 0.5]
    assert (found.choice.drift, found.choice.reference_drift) == (100.0, 2.0)
    assert found.choice.of_reference == 0.5


def test_means_are_over_the_same_inputs():
    runs = [run(64, moved=10), run(64, moved=1000, inputs=OTHER), run(128, moved=100)]
    found = recommend(runs)
    assert tiles(found.choices) == [64] and found.excluded == {bit_classes.PARTLY: 1}
    assert pareto(runs) == list(found.front) == [found.choice]


@pytest.mark.parametrize("what", ["source_digest", "code_digest", "compiler", "workbench", "torch"])
def test_versions_are_not_put_into_one_figure(what):
    other = dataclasses.replace(run(64).provenance, **{what: "another"})
    runs = [run(64), run(64, provenance=other), run(128)]
    words = {"code_digest": r"the code \(one without a name, an", "source_digest": "the kernel's",
             "compiler": r"the compiler \(g"}  # fmt: skip
    for ask in (recommend, pareto, choose.recommend_each):
        with pytest.raises(InputError, match=f"2 versions of {words.get(what, what)}") as error:
            ask(runs)
        for word in ("another", "only_newest=True", f"run.provenance.versions['{what}'] == '"):
            assert word in str(error.value)
    assert tiles([recommend([r for r in runs if r.provenance == other]).choice]) == [64]


def versioned(code, started, tile=64, **changes):
    first = run(64).provenance
    made = dataclasses.replace(first, code_digest=code, started=f"2026-01-{started:02}")
    return run(tile, provenance=made, **changes)


def test_only_the_newest_version_is_chosen_from():
    """A record keeps runs of the code before an edit; in any order, after a merge."""
    runs = [versioned("new", 2, 128), versioned("", 1, 64, bits="older"),
            versioned("new", 3, 64, off=1.5), versioned("old", 2, 256)]  # fmt: skip
    new = [runs[0], runs[2]]
    assert choose.newest(runs) == new and choose.newest(new) == new and choose.newest([]) == []
    found = recommend(runs, only_newest=True)
    assert found.choices == recommend(new).choices and found.excluded == {choose.OLDER: 2}
    assert not recommend(new, only_newest=True).excluded
    # The bits to keep are those of the newest too: the older ones of that tile are others.
    (kept,) = choose.recommend_each(runs, only_newest=True, same_bits_as={"tile_length": 64})
    assert tiles(kept.choices) == [128, 64]
    with pytest.raises(InputError, match="two bit classes"):  # the control
        choose.recommend_each(runs, same_bits_as={"tile_length": 64})
    # Of each architecture its own newest: none is lost because the other was measured later.
    old = versioned("old", 1, arch="dav-3510")
    assert choose.newest([*runs, old]) == [*new, old]


@pytest.mark.parametrize("options", [{"limit": "x"}, {"limit": -1}, {"limit": math.nan},
                                     {"limit": True}, {"runners_up": -1}, {"runners_up": "x"},
                                     {"cost": ["bytes"]}, {"drift": 3}])  # fmt: skip
def test_what_cannot_be_asked_is_refused(options):
    (name,) = options
    for ask in (recommend, choose.recommend_each):
        with pytest.raises(InputError, match=f"{name}=.*(want|give)"):
            ask([run(64)], **options)
    assert recommend([run(64, off=0.0)], limit=0).choice and recommend([run(64)], limit=math.inf)


def test_what_is_raised_can_be_named():
    assert wb.sweep.NothingToChoose is bit_classes.NothingToChoose
    with pytest.raises(wb.sweep.NothingToChoose):
        recommend([])


def test_constants_have_their_words_in_json():
    runs = [run(64, config={"tile_length": 64, "schedule": s}, order=o)
            for s, o in ((0, "a"), (1, "b"))]  # fmt: skip
    words = ["output", "weight_stationary"]
    assert [c.to_dict()["configs"][0]["schedule"] for c in classes(runs)] == words
    found = recommend(runs)
    assert found.to_dict()["choice"]["config"] == {"arch": "dav-2201", "tile_length": 64,
                                                   "schedule": "output"}  # fmt: skip
    assert found.choice.config["schedule"] == 0 and "schedule output" in found.reason


@pytest.mark.parametrize("changes", [{"machine": "another"}, {"cpu": "another"}])
def test_times_of_two_machines_are_not_compared(changes):
    def timed(tile, ratio, **more):
        time = WallTime(ratio, "F.linear", 1.0, ratio)
        return run(tile, time=time, provenance=dataclasses.replace(run(64).provenance, **more))

    runs = [timed(64, 0.5), timed(128, 0.9, **changes)]
    with pytest.raises(InputError, match="and another"):
        recommend(runs, cost="time")
    assert recommend(runs).considered == 2  # bytes are the same everywhere


def test_without_the_reference_a_limit_is_asked_for():
    found = recommend([run(64, reference_drift=None)])
    assert "give a limit" in found.reason and math.isnan(found.choice.of_reference)


def test_nothing_off_is_within_a_reference_that_is_not_off():
    found = recommend([run(64, off=0.0, own=0.0), run(128, off=1.0, own=0.0, moved=1)])
    assert tiles([found.choice]) == [64] and "at most torch.mv's own 0" in found.reason


def test_counters_without_blocks_still_have_bytes():
    bare = run(64, counters={"gm_to_ub_bytes": 10, "ub_to_gm_bytes": 0, "logits": 10})
    assert recommend([bare]).choice.cost == 1
    with pytest.raises(InputError, match="1 without modelled seconds"):
        recommend([bare], cost="model")


def test_the_drift_that_is_asked_for_is_looked_at():
    runs = [run(64, moved=1, drift=DriftFigures(1.0, float("nan"), 1.0, 1.0)), run(128)]
    assert tiles([recommend(runs, drift="mean_abs").choice]) == [128]
    assert tiles([recommend(runs).choice]) == [64]


def test_equal_ones_are_told():
    found = recommend([run(64), run(128), run(256)])
    assert tiles([found.choice]) == [64] and "2 others are equal" in found.reason


def test_costs():
    slow, fast = (run(t, time=WallTime(r, "F.linear", 1.0, r)) for t, r in ((64, 0.1), (128, 0.5)))
    assert tiles([recommend([slow, fast], cost="time").choice]) == [128]
    more = run(256, moved=10**7)
    assert tiles([recommend([more, slow], cost="model").choice]) == [64]
    for ratio in (0.0, float("nan"), float("inf")):  # no time at all, or of a clock that jumped
        odd = run(256, time=WallTime(ratio, "F.linear", 1.0, ratio))
        found = recommend([odd, fast], cost="time")
        assert tiles(found.choices) == [128] and sum(found.excluded.values()) == 1


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
    for bad in ({"trials": "x"}, {"trials": 0}, {"batch": 1.5}, {"seed": -1}, {"trials": True}):
        (name,) = bad
        with pytest.raises(InputError, match=f"{name}=.*whole number"):
            search(small(), **bad)
