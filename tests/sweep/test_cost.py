"""The cost model: exact sums from exact counters, sourced rates, and fits that recover what made
the times."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import random
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

import workbench as wb
from workbench import paths
from workbench.build import arch as archs
from workbench.errors import InputError
from workbench.plots.cost import cost_bars, counter_growth
from workbench.sweep import cost_model as cost_module
from workbench.sweep.calibration import calibrate
from workbench.sweep.cost_model import PIPES, cost, work
from workbench.sweep.growth import growth
from workbench.sweep.ranking import rank
from workbench.sweep.rates import MODEL, parse, rates
from workbench.sweep.run import Inputs, Provenance, Run, WallTime

ROOT = Path(__file__).resolve().parents[2]
# Powers of two: every product and sum below is exact in doubles.
PLAIN = {
    "clock_hz": 2.0**30,
    "gm_bytes_per_second": 2.0**40,
    "core_bytes_per_second": 2.0**35,
    "copy_start_cycles": 32,
    "repeat_cycles": 1,
    "vector_start_cycles": 16,
    "barrier_cycles": 8,
    "scalar_access_cycles": 64,
    "flag_cycles": 4,
    "queue_cycles": 2,
    "issue_cycles": 1,
    "launch_seconds": 2.0**-20,
    "block_seconds": 2.0**-24,
}
EXACT = rates("dav-2201").but(PLAIN, cores=16)


def expected(counters: dict[str, int], blocks: int, given=EXACT) -> dict[str, Fraction]:
    """The model written a second time, in fractions, from the page and not from the code."""
    r = {name: Fraction(rate.value) for name, rate in given.table.items()}
    c = {**dict.fromkeys(cost_module.COUNTERS, 0), **counters}
    waves = -(-blocks // given.cores)
    per_core = Fraction(waves, blocks)
    tick = per_core / r["clock_hz"]
    byte = max(per_core / r["core_bytes_per_second"], 1 / r["gm_bytes_per_second"])
    vector = c["vector_repeats"] * r["repeat_cycles"]
    vector += c["vector_instructions"] * r["vector_start_cycles"]
    vector += c["barriers"] * r["barrier_cycles"]
    scalar = (c["scalar_reads"] + c["scalar_writes"]) * r["scalar_access_cycles"]
    scalar += c["flags"] * r["flag_cycles"] + c["queue_operations"] * r["queue_cycles"]
    scalar += (c["vector_instructions"] + c["copies"]) * r["issue_cycles"]
    found = {
        "MTE2": c["gm_to_ub_bytes"] * byte + c["copies_in"] * r["copy_start_cycles"] * tick,
        "V": vector * tick,
        "MTE3": c["ub_to_gm_bytes"] * byte + c["copies_out"] * r["copy_start_cycles"] * tick,
        "S": scalar * tick,
        "GM": (c["gm_to_ub_bytes"] + c["ub_to_gm_bytes"]) / r["gm_bytes_per_second"],
        "start": r["launch_seconds"] + waves * r["block_seconds"],
    }
    return found


def output_schedule(n: int, h: int, v: int) -> dict[str, int]:
    """Counters of the LM head, schedule "output", fp32, one tile a row: from its source."""
    each = n * v  # one output a turn
    return {
        "gm_to_ub_bytes": 8 * h * each,  # a row of hidden and one of weight
        "ub_to_gm_bytes": 4 * each,
        "vector_instructions": 3 * each,  # Mul, ReduceSum, the store
        "vector_repeats": (2 * (h // 64) + 1) * each,
        "scalar_reads": each,
        "scalar_writes": 0,
        "flags": 4 * each,
        "barriers": each,
        "queue_operations": 12 * each,
        "copies": 3 * each,
        "copies_in": 2 * each,
        "copies_out": each,
    }


@pytest.fixture(scope="module")
def kernels():
    return {
        name: wb.build("lm_head", wb.KernelConfig(schedule=name, max_blocks=48), backend="twin")
        for name in ("output", "weight_stationary")
    }


def launched(kernel, n: int, h: int, v: int, **options):
    kernel(torch.ones(n, h), torch.ones(v, h), counters=True, **options)
    return kernel


# ---- the sum -------------------------------------------------------------------------------------


def random_counters(seed: int) -> dict[str, int]:
    draw = random.Random(seed)
    made = {name: draw.randrange(2**20) for name in cost_module.COUNTERS}
    made["copies"] = made["copies_in"] + made["copies_out"]
    return made


@pytest.mark.parametrize("blocks", [1, 2, 16, 32, 64])  # so waves / blocks is a power of two
@pytest.mark.parametrize("seed", range(4))
def test_every_pipe_is_the_sum_of_the_page_bit_for_bit(blocks, seed):
    counters = random_counters(seed)
    found = cost(counters, "dav-2201", EXACT, blocks=blocks)
    want = expected(counters, blocks)
    assert {**found.pipes, "GM": found.gm_seconds, "start": found.start_seconds} == want
    assert found.serial == want["start"] + sum(want[p] for p in PIPES)
    assert found.overlapped == want["start"] + max(want[p] for p in (*PIPES, "GM"))
    assert want[found.limiting] == max(want[p] for p in (*PIPES, "GM"))


def test_a_model_with_a_mistake_is_found_out(monkeypatch):
    broken = copy.deepcopy(cost_module.TERMS)
    del broken["V"]["barriers"]
    monkeypatch.setattr(cost_module, "TERMS", broken)
    counters = random_counters(0)
    assert cost(counters, "dav-2201", EXACT, blocks=2).pipes["V"] != expected(counters, 2)["V"]


def test_gm_limits_where_copies_both_ways_share_it():
    moved = {"gm_to_ub_bytes": 2**40, "ub_to_gm_bytes": 2**40}
    wide = cost(moved, "dav-2201", EXACT.but({"core_bytes_per_second": 2.0**37}), blocks=16)
    assert wide.limiting == "GM" and wide.gm_seconds == 2 == 2 * wide.pipes["MTE2"]
    narrow = cost(moved, "dav-2201", EXACT, blocks=16)  # 16 cores of 2**35: half of GM's rate
    assert narrow.limiting == "MTE2" and narrow.pipes["MTE2"] == 2


def test_cycles_of_an_assumed_clock_are_assumed():
    """No page gives the clock of dav-3510: what is documented in cycles is no known time."""
    no_start = {"launch_seconds": 0, "block_seconds": 0}
    given = rates("dav-3510").but(no_start)
    assert given.table["clock_hz"].tag == "assumed" != given.table["repeat_cycles"].tag
    found = cost({"vector_repeats": 2**30, "blocks": 16}, "dav-3510", given)
    assert found.limiting == "V" and found.assumed_share == 1.0
    assert "(repeat_cycles, assumed)" in found.formula()
    known = cost({"vector_repeats": 2**30, "blocks": 16}, "dav-2201", rates().but(no_start))
    assert known.assumed_share == 0.0 and "(repeat_cycles, derived)" in known.formula()
    # Bytes and seconds have no clock; and a clock that was given is not assumed.
    moved = cost({"gm_to_ub_bytes": 2**40, "blocks": 64}, "dav-3510", given)
    assert moved.assumed_share == 0.0
    mine = given.but({"clock_hz": 2e9})
    assert cost({"vector_repeats": 1, "blocks": 16}, "dav-3510", mine).assumed_share == 0.0


def test_what_gm_takes_rests_on_its_own_rate():
    given = rates().but({"core_bytes_per_second": 2.0**50, "launch_seconds": 0, "block_seconds": 0})
    moved = {"gm_to_ub_bytes": 2**30, "ub_to_gm_bytes": 2**30, "copies": 4, "copies_out": 2}
    found = cost(moved, "dav-2201", given, blocks=16)
    assert found.limiting == "GM" and given.table["copy_start_cycles"].tag == "assumed"
    assert found.assumed_share == 0.0


def test_blocks_beyond_the_cores_run_in_waves():
    counters = {"vector_repeats": 2**30}
    one, full, over, double = (cost(counters, "dav-2201", EXACT, blocks=b) for b in (1, 16, 17, 32))
    assert [c.waves for c in (one, full, over, double)] == [1, 1, 2, 2]
    assert one.pipes["V"] == 16 * full.pipes["V"] and double.pipes["V"] == full.pipes["V"]
    # The second wave of 17 blocks has one block in it, and takes as long as a full one.
    ratio = Fraction(over.pipes["V"]) / Fraction(full.pipes["V"])
    assert abs(ratio - Fraction(32, 17)) <= Fraction(2, 2**52), "two roundings, each at most u"
    assert over.start_seconds - full.start_seconds == PLAIN["block_seconds"]


# ---- from counters of the twin -------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 64, 3), (3, 256, 16), (2, 1024, 24)])
def test_a_launch_costs_what_its_source_says(kernels, shape):
    kernel = launched(kernels["output"], *shape)
    found, want = cost(kernel, rates=EXACT), output_schedule(*shape)
    assert dict(found.work.counters) == {name: want[name] for name in cost_module.COUNTERS}
    blocks = min(shape[0] * shape[2], 48)
    assert (found.work.blocks, found.waves) == (blocks, -(-blocks // 16))
    assert cost(kernel.last, rates=EXACT).to_dict() == found.to_dict()
    again = cost(want, "dav-2201", EXACT, blocks=blocks)
    assert again.pipes == found.pipes


@pytest.mark.parametrize("schedule", ["output", "weight_stationary"])
def test_lines_add_up_to_the_pipes(kernels, schedule):
    found = cost(launched(kernels[schedule], 4, 256, 16), rates=EXACT)
    for pipe in PIPES:
        assert sum(at.pipes[pipe] for at in found.lines) == found.pipes[pipe] > 0
    assert all(at.file.endswith("lm_head_ascend.asc") for at in found.lines)
    seconds = [at.seconds for at in found.lines]
    assert seconds == sorted(seconds, reverse=True)
    source = Path(found.lines[0].file).read_text().splitlines()
    copies = [at for at in found.lines if at.pipes["MTE2"]]
    assert copies and all("DataCopy" in source[at.line - 1] for at in copies)


def test_counters_grow_as_the_source_says(kernels):
    def count(n, h, v):
        return launched(kernels["output"], n, h, v).last.counters

    found = growth(count, (3, 128, 8), (1, 2, 3, 5))
    for axis, at in zip("NHV", range(3), strict=True):
        base = [3, 128, 8]
        for counter in count(*base):
            low, high = ([*base[:at], s, *base[at + 1 :]] for s in (base[at], 2 * base[at]))
            a, b = (output_schedule(*shape)[counter] for shape in (low, high))
            law = found.law(axis, counter)
            assert law.slope == Fraction(b - a, base[at])
            assert law.fixed == a - law.slope * base[at]
    assert found.law("V", "gm_to_ub_bytes").slope == 8 * 3 * 128
    kinds = {axis: found.law(axis, "vector_repeats").kind for axis in "NHV"}
    assert kinds == {"N": "proportional", "H": "affine", "V": "proportional"}
    assert found.law("H", "copies").kind == "constant"


def test_the_stationary_schedule_reads_a_hidden_row_once_for_four_weights(kernels):
    for n, h, v in ((5, 128, 8), (3, 256, 12)):
        counters = launched(kernels["weight_stationary"], n, h, v).last.counters
        assert counters["gm_to_ub_bytes"] == 4 * h * (v + n * -(-v // 4))
        assert counters["ub_to_gm_bytes"] == 4 * n * v
    # A group of four that begins is a group: not a line in V.
    counts = growth(
        lambda n, h, v: launched(kernels["weight_stationary"], n, h, v).last.counters,
        (4, 64, 2),
        (1, 2, 3),
    )
    assert counts.law("V", "gm_to_ub_bytes").kind == "other"
    assert "not a line in V" in str(counts.law("V", "gm_to_ub_bytes"))


def test_growth_needs_three_points():
    with pytest.raises(InputError, match="at least three"):
        growth(lambda n, h, v: {"a": n}, (1, 1, 1), (1, 2, 2))


def test_the_stationary_schedule_comes_first_and_too_few_blocks_last(kernels):
    n, h, v = 59, 512, 96
    costs = {name: cost(launched(k, n, h, v)) for name, k in kernels.items()}
    costs["few"] = cost(launched(kernels["weight_stationary"], n, h, v, blocks=2))
    found = rank(costs)
    assert found.entries[0].name == "weight_stationary"
    moved = {name: c.work.counters["gm_to_ub_bytes"] for name, c in costs.items()}
    ratio = Fraction(moved["output"], moved["weight_stationary"])
    assert ratio == Fraction(2 * n) / (1 + Fraction(n, 4))  # 7.49
    assert costs["few"].pipes["V"] == 12 * costs["weight_stationary"].pipes["V"]
    assert MODEL in str(found) and all(e.times_best >= 1 for e in found.entries)


def test_an_order_that_hangs_on_an_assumption_is_not_sure():
    much = {"gm_to_ub_bytes": 10**9, "blocks": 48}
    a = cost({**much, "copies": 1000}, "dav-2201")
    b = cost({"gm_to_ub_bytes": 980 * 10**6, "copies": 10**5, "blocks": 48}, "dav-2201")
    found = rank({"few copies": a, "many copies": b})
    assert found.entries[0].shaky == ("copy_start_cycles",) and not found.sure
    assert rank(
        {"few copies": a, "twice": cost({**much, "gm_to_ub_bytes": 2 * 10**9}, "dav-2201")}
    ).sure
    with pytest.raises(InputError, match="different rates"):
        rank({"a": a, "b": cost(b.work, rates=EXACT)})


# ---- what it is called ---------------------------------------------------------------------------


def words(fig: Figure) -> str:
    texts = fig.findobj(lambda artist: hasattr(artist, "get_text"))
    return " ".join(text.get_text() for text in texts)


def test_every_form_says_that_it_is_a_model(kernels):
    found = cost(launched(kernels["output"], 2, 64, 8))
    for text in (str(found), found.formula(), found._repr_html_(), json.dumps(found.to_dict())):
        assert MODEL in text
    assert all(row["label"] == MODEL for row in found.rows())
    fig = cost_bars({"a": found, "b": found})
    assert MODEL in words(fig) and "nothing measured on hardware" in words(fig)
    assert MODEL == "model, not calibrated"


def test_the_formula_shows_its_numbers_and_their_tags(kernels):
    found = cost(launched(kernels["output"], 6, 4096, 8))
    text = found.formula()
    for number in (found.work.counters["gm_to_ub_bytes"], found.work.counters["flags"]):
        assert str(number) in text
    assert "documented" in text and "assumed" in text and "ceil(48 blocks / 48 cores) = 1" in text
    assert 0 < found.assumed_share < 1
    known = found.rates.but({n: found.rates.table[n].value for n in found.rates.assumed})
    assert cost(found.work, rates=known).assumed_share == 0


def test_figures_draw_what_they_are_given(kernels):
    costs = {name: cost(launched(k, 4, 256, 16)) for name, k in kernels.items()}
    ax = cost_bars(costs).axes[0]
    ends = [
        max(bar.get_x() + bar.get_width() for bar in row)
        for row in zip(*ax.containers, strict=True)
    ]
    assert np.argmax(ends) == [*costs].index(max(costs, key=lambda name: costs[name].serial))
    found = growth(lambda n, h, v: output_schedule(n, h, v), (1, 64, 2))
    panel = counter_growth({"output": found}).axes[2]
    assert panel.get_xlabel() == "V"
    drawn = panel.get_lines()[0].get_ydata()
    assert tuple(drawn) == found.law("V", "gm_to_ub_bytes").counts
    for empty in (cost_bars, counter_growth):
        with pytest.raises(InputError, match="nothing to draw"):
            empty({})


# ---- rates ---------------------------------------------------------------------------------------


def test_every_architecture_has_rates_with_a_source_or_the_tag_assumed():
    for name in archs.names():
        found = rates(name)
        assert found.cores == max(archs.load(name).vector_cores)
        for rate in found.table.values():
            assert rate.tag in ("documented", "reported", "derived", "assumed")
            assert (rate.tag == "assumed") == (not rate.source)
    assert rates("dav-2201").table["gm_bytes_per_second"].tag == "documented"
    assert pickle.loads(pickle.dumps(EXACT)) == EXACT == copy.deepcopy(EXACT)


def test_derived_rates_are_what_their_reason_says():
    table = rates("dav-2201").table
    assert f"{48 * 64 * 2 * table['clock_hz'].value / 1e12:.2f}" == "11.06"
    assert rates("dav-1001").clock_hz == 256e12 / (32 * 2 * 4096)
    for name in archs.names():
        found = rates(name)
        start = found.seconds("copy_start_cycles")
        flow = 16384 * found.seconds("core_bytes_per_second")
        cycle = 1 / found.clock_hz
        assert abs(9 * start - flow) < 9 * cycle, "nine tenths at 16 KiB, to a cycle"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"source": ""}, "without a source"),
        ({"tag": "measured"}, "tag 'measured'"),
        ({"why": ""}, "without a reason"),
        ({"value": -1.0}, "0 or more"),
        ({"value": 0}, "above 0"),
        ({"value": float("nan")}, "finite"),
    ],
)
def test_a_rate_without_its_source_is_refused(change, says):
    data = json.loads((paths.DATA / "rates.json").read_text())
    parse(data, "dav-2201", 48)
    data["archs"]["dav-2201"]["gm_bytes_per_second"].update(change)
    with pytest.raises(InputError, match=says):
        parse(data, "dav-2201", 48)


def test_a_missing_rate_is_refused():
    data = json.loads((paths.DATA / "rates.json").read_text())
    del data["archs"]["dav-2201"]["clock_hz"]
    with pytest.raises(InputError, match="clock_hz"):
        parse(data, "dav-2201", 48)


def test_the_page_has_the_rates_of_the_file():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make_cost
    finally:
        sys.path.pop(0)
    assert make_cost.rates_table() in (ROOT / "docs" / "cost-model.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: cost({}, "dav-2201", blocks=1), "counters=True"),
        (lambda: cost({"copies": 1}, "dav-2201"), "blocks=None"),
        (lambda: cost({"copies": 1}, "dav-2201", blocks=0), "from 1 on"),
        (lambda: cost({"copies": 1}, blocks=1), "give arch="),
        (lambda: cost({"copies": 1, "copies_in": 2, "blocks": 1}, "dav-2201"), "copies=1"),
        (lambda: cost({"copies": -1, "blocks": 1}, "dav-2201"), "whole numbers"),
        (lambda: cost({"copies": 1, "blocks": 1}, "dav-3510", EXACT), "rates of dav-2201"),
        (lambda: cost(3), "want a kernel"),
        (lambda: rates("dav-2201").but({"speed": 1}), "no rate speed"),
        (lambda: rates("dav-2201", cores=0), "cores=0"),
        (lambda: rank({}), "nothing to rank"),
    ],
)
def test_bad_input_is_refused_in_words(ask, says):
    with pytest.raises(InputError, match=says):
        ask()


def test_counters_of_another_architecture_are_refused(kernels):
    launched(kernels["output"], 1, 64, 2)
    with pytest.raises(InputError, match="Build it for dav-3510"):
        cost(kernels["output"], "dav-3510")
    kernels["output"](torch.ones(1, 64), torch.ones(2, 64))
    with pytest.raises(InputError, match="no counters"):
        cost(kernels["output"])


# ---- calibration ---------------------------------------------------------------------------------

# The made-up device: slower memory, faster vector unit, another launch than the public rates.
DEVICE = {"launch_seconds": 2e-5, "gm_bytes_per_second": 9e11, "repeat_cycles": 0.5}
NOISE = 0.02
_TWO = ("launch_seconds", "gm_bytes_per_second")
_MADE = Provenance("ab12", "bisheng", "0.1", "2.13.0", machine="made up")


def program(k: int) -> dict[str, int]:
    """Counters of the k-th program: copies limit one half of them, the vector unit the other."""
    size = 2**15 * (k + 1)
    if k % 2:
        return {"gm_to_ub_bytes": 200 * size, "copies": 64, "vector_repeats": size // 64}
    return {"gm_to_ub_bytes": size, "copies": 64, "vector_repeats": 40 * size}


def run(k: int, seconds: float, backend: str = "npu", counters: bool = True, **other) -> Run:
    given = {**program(k), "blocks": 48} if counters else {}
    time = WallTime(1.0, "torch.mv", seconds, seconds)
    made = dataclasses.replace(_MADE, machine=other.pop("machine", _MADE.machine))
    return Run("lm_head", {"tile_length": 64 + k}, other.pop("arch", "dav-2201"), backend, "fp32",
               (2, 64, 8 + k), Inputs("5f0c"), made, counters=given, time=time)  # fmt: skip


def true_seconds(k: int, overlap: bool = True) -> float:
    device = rates("dav-2201").but(DEVICE)
    parts = expected({**program(k), "copies_in": 64}, 48, device)
    pipes = [parts[p] for p in PIPES]
    slowest = max(*pipes, parts["GM"]) if overlap else sum(pipes)
    return float(parts["start"] + slowest)


def device_runs(count: int, noise: float, overlap: bool = True, **other) -> list[Run]:
    draw = random.Random(7)
    return [
        run(k, true_seconds(k, overlap) * (1 + noise * draw.uniform(-1, 1)), **other)
        for k in range(count)
    ]


def margin(runs: list[Run], overlap: bool) -> dict[str, float]:
    """How far noise of at most NOISE can move each fitted time, as a part of it.

    Least squares of A x / t = 1 gives x + pinv(A / t) e with |e| <= NOISE / (1 - NOISE).
    """
    rows = []
    for k, one in enumerate(runs):
        given = program(k)
        tick = 1 / (48 * rates("dav-2201").clock_hz)
        copies, vector = given["gm_to_ub_bytes"], given["vector_repeats"] * tick
        if overlap:
            copies, vector = (copies, 0) if k % 2 else (0, vector)
        rows.append([1 / one.time.median, copies / one.time.median, vector / one.time.median])
    reach = np.abs(np.linalg.pinv(np.array(rows))).sum(axis=1) * NOISE / (1 - NOISE)
    true = [DEVICE["launch_seconds"], 1 / DEVICE["gm_bytes_per_second"], DEVICE["repeat_cycles"]]
    return dict(zip(DEVICE, reach / np.array(true), strict=True))


def off(found, name: str) -> float:
    """How far the fitted time of a rate is from the device's, as a part of it."""
    true = DEVICE[name]
    got = getattr(found, name)
    return abs(true / got - 1) if name.endswith("per_second") else abs(got / true - 1)


@pytest.mark.parametrize("overlap", [True, False])
def test_the_rates_that_made_the_times_are_found(overlap):
    runs = device_runs(24, NOISE, overlap)
    found = calibrate(runs, overlap=overlap)
    within = margin(runs, overlap)
    for name in DEVICE:
        assert off(found, name) <= within[name] < 1, name
        assert found.table[name].tag == "fitted"
        before = rates("dav-2201")
        public = abs(getattr(before, name) / DEVICE[name] - 1)
        assert off(found, name) < public / 4, "nearer than the public rates were"
    report = found.calibration
    # Least squares leaves no more than the noise itself, in the 2-norm.
    assert report.worst <= np.sqrt(24) * NOISE / (1 - NOISE)
    assert len(report.residuals) == report.runs == 24
    if overlap:
        assert report.limiting == tuple("MTE2 (GM)" if k % 2 else "V" for k in range(24))
    labelled = cost({**program(1), "blocks": 48}, "dav-2201", found)
    assert labelled.label.startswith("model, calibrated on 24 runs of npu made up")
    assert MODEL not in str(labelled) and found.but().label == MODEL


def test_without_noise_the_fit_is_as_exact_as_its_arithmetic():
    runs = device_runs(12, 0.0)
    found = calibrate(runs)
    u = 2.0**-53
    for name in DEVICE:
        # Some tens of roundings in each time, amplified as noise would be.
        assert off(found, name) <= 64 * u * margin(runs, True)[name] / NOISE
    assert found.calibration.worst <= 64 * u * 24


def test_residuals_show_a_device_that_is_no_such_model():
    runs = device_runs(24, 0.0)
    other = [dataclasses.replace(r, time=WallTime(1.0, "x", r.time.median * (1 + k // 2 % 2), 1.0))
             for k, r in enumerate(runs)]  # fmt: skip
    assert calibrate(other).calibration.worst > 10 * NOISE > 10 * calibrate(runs).calibration.worst


def test_runs_of_the_twin_are_refused_and_lend_only_their_counters():
    twins = device_runs(24, 0.0, backend="twin")
    with pytest.raises(InputError, match="none of these 24 runs was timed on a device"):
        calibrate(twins)
    wrong = [dataclasses.replace(t, time=WallTime(1.0, "x", 1.0, 1.0)) for t in twins]
    bare = device_runs(24, 0.0, counters=False)
    with pytest.raises(InputError, match="has no counters"):
        calibrate(bare)
    both = calibrate([*bare, *wrong])  # the times of the twin's runs are wrong, and not used
    assert both == calibrate(device_runs(24, 0.0))


def test_counters_of_a_part_of_a_launch_do_not_explain_its_time():
    runs = device_runs(24, 0.0)
    whole = [r.shape[0] * r.shape[2] for r in runs]

    def counted(logits: list[int]) -> list[Run]:
        return [
            dataclasses.replace(r, counters={**r.counters, "logits": n})
            for r, n in zip(runs, logits, strict=True)
        ]

    assert calibrate(counted(whole)) == calibrate(runs)
    with pytest.raises(InputError, match="no whole launch"):
        calibrate(counted([n - 1 for n in whole]))
    assert "the 3 of its 16 logits" in cost(counted([3] * 24)[0]).title()


@pytest.mark.parametrize(
    ("runs", "options", "says"),
    [
        (lambda: device_runs(3, 0.0), {}, "3 runs for 3 rates"),
        (list, {}, "none of these 0 runs"),
        (lambda: [run(1, 1e-3 * (1 + k)) for k in range(9)], {}, "cannot tell|no run is limited"),
        (lambda: [run(1, true_seconds(1)) for _ in range(9)], {"fit": _TWO}, "cannot tell"),
        (lambda: device_runs(9, 0.0), {"fit": ("flag_cycles",)}, "limited by flag_cycles"),
        (lambda: device_runs(9, 0.0), {"fit": ("clock_hz",)}, "give names among"),
        (lambda: device_runs(9, 0.0), {"fit": ()}, "give names among"),
        (lambda: [*device_runs(9, 0.0), run(9, 1.0, machine="other")], {}, "several machines"),
        (lambda: [*device_runs(9, 0.0), run(9, 1.0, arch="dav-3510")], {}, "several architectures"),
        (lambda: [*device_runs(9, 0.0), run(9, 1.0, backend="sim")], {}, "not put into one figure"),
        (lambda: device_runs(9, 0.0), {"start": rates("dav-3510")}, "rates of dav-3510"),
        (lambda: [run(k, 0.0) for k in range(9)], {}, "took no time"),
        (lambda: [run(k, 1.0 / (k + 1)) for k in range(9)], {}, "would take no time|never|better"),
    ],
)  # fmt: skip
def test_runs_that_cannot_calibrate_are_refused(runs, options, says):
    with pytest.raises(InputError, match=says):
        calibrate(runs(), **options)


def test_a_run_of_a_record_has_a_cost(kernels):
    counted = work(launched(kernels["output"], 2, 64, 8))
    one = dataclasses.replace(run(0, 1.0), counters=counted.flat())
    assert cost(one, rates=EXACT).pipes == cost(counted, rates=EXACT).pipes
    assert Run.from_dict(one.to_dict()).counters == counted.flat()
