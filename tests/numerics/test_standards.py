"""The standards side by side: each against cases worked out by hand, on both sides of its limit."""

from __future__ import annotations

import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from workbench.errors import InputError
from workbench.numerics.contract import contract
from workbench.numerics.gates import standards as module
from workbench.numerics.gates.standards import STANDARDS, judge_by, standards, standards_table

OURS = ("raw_bits", "contract", "worst_case", "running", "probabilistic")
QUOTED = tuple(name for name in STANDARDS if name not in OURS)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def ones(n=1000, dtype=torch.float32):
    """n outputs whose golden value is 1: an error is a relative error and its own ULP count."""
    return torch.ones(n // 10, 10, dtype=dtype)


def off(values: dict[int, float], n=1000, dtype=torch.float32):
    """`ones` with other values at some flat places."""
    out = ones(n, dtype).flatten()
    for at, value in values.items():
        out[at] = value
    return out.reshape(-1, 10)


def verdict(name, candidate, **given):
    golden = ones(candidate.numel()).double()
    reference = golden.to(candidate.dtype)
    return judge_by(name, candidate, reference, exact=golden, **given)


# ---- each standard on both sides of its limit ----------------------------------------------------


def test_raw_bits():
    assert verdict("raw_bits", ones()).passed
    found = verdict("raw_bits", off({3: 1 + 2**-23, 4: -1.0, 5: math.nan}))
    assert (found.passed, found.flagged, found.outputs) == (False, 3, 1000)
    zero = torch.zeros(1, 2)
    assert judge_by("raw_bits", -zero, zero).flagged == 2
    # The bits that are wanted may be others than the reference's.
    assert judge_by("raw_bits", -zero, zero, correct=-zero).passed


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_contract_is_the_contract_s_own_verdict(dtype):
    cell = contract().cell("forward_accuracy", "lm_head", dtype)
    limit = cell.atol + cell.rtol
    inside, outside = (off({7: 1 + limit * factor}, dtype=torch.float32) for factor in (0.9, 1.1))
    assert verdict("contract", inside, dtype=dtype).passed
    found = verdict("contract", outside, dtype=dtype)
    assert (found.passed, found.flagged) == (False, 1)
    assert found.statistic["tolerance_ratio"] > 1


@pytest.mark.parametrize("kind", ["worst_case", "running", "probabilistic"])
def test_a_bound_flags_what_is_beyond_it(kind):
    allowed = np.full((100, 10), 2.0**-10)
    allowed[0, 0] = 0
    bounds = SimpleNamespace(get={kind: allowed}.get, exact=np.ones((100, 10)))
    candidate = off({1: 1 + 2**-10, 2: 1 + 2**-9, 3: math.nan})
    found = judge_by(kind, candidate, ones(), bounds=bounds)
    assert (found.passed, found.flagged) == (False, 2)  # on the bound passes, NaN does not
    found = judge_by(kind, off({2: 1 + 2**-9}), ones(), bounds=bounds)
    assert found.statistic == {"error_over_bound": 2.0}
    found = judge_by(kind, off({0: 1 + 2**-23}), ones(), bounds=bounds)
    assert (found.flagged, found.statistic) == (1, {"error_over_bound": math.inf})
    assert judge_by(kind, ones(), ones(), bounds=bounds).passed


@pytest.mark.parametrize("dtype", DTYPES)
def test_assert_close_is_torch_s_own(dtype):
    """Also its count of elements, which is read from its message."""
    torch_own = torch.testing.assert_close
    generator = torch.Generator().manual_seed(5)
    golden = torch.randn(40, 25, generator=generator, dtype=torch.float64)
    reference = golden.to(DTYPES[dtype])
    spread = torch.randn(40, 25, generator=generator, dtype=torch.float64)
    candidate = (golden + spread * 2.0**-18 * (1 if dtype == "fp32" else 2**12)).to(DTYPES[dtype])
    alone = 0
    for got, want in zip(candidate.flatten(), reference.flatten(), strict=True):
        try:
            torch_own(got, want)
        except AssertionError:
            alone += 1
    found = judge_by("assert_close", candidate, reference, exact=golden)
    assert (found.passed, found.flagged) == (False, alone) and 0 < alone < 1000
    assert judge_by("assert_close", reference, reference, exact=golden).passed


def test_cosine_and_accuracy_reached():
    # One of n equal values replaced by x: cos = (n - 1 + x) / sqrt(n (n - 1 + x x)).
    for x, n in ((0.0, 1000), (-1.0, 1000), (30.0, 1000), (-30.0, 1000)):
        cosine = (n - 1 + x) / math.sqrt(n * (n - 1 + x * x))
        found = verdict("cosine", off({0: x}))
        assert abs(found.statistic["cosine"] - cosine) <= 2**-40
        assert found.passed == (cosine > STANDARDS["cosine"].thresholds["cosine_above"])
    # Cosine above 0.99 with an error of 0.5: reached; of 2: not; 0 everywhere: no cosine.
    assert verdict("accuracy_reached", off({0: 1.5})).passed
    assert not verdict("accuracy_reached", off({0: 3.0})).passed
    assert not verdict("accuracy_reached", torch.zeros(100, 10)).passed
    # 0.9 < cosine < 0.99 and an error between the pair's and the one that decides alone.
    mixed = off(dict.fromkeys(range(100), 0.2))
    assert 0.9 < verdict("cosine", mixed).statistic["cosine"] < 0.99
    assert not verdict("accuracy_reached", mixed).passed


def test_msprobe_pre_check():
    name = "msprobe_precheck"
    assert verdict(name, off({0: 1.0005})).passed  # the largest error is below 0.001
    assert verdict(name, off({0: 1.01}, 2000)).passed  # beyond, but 1 of 2000 outputs
    warned = verdict(name, off({0: 1.01}, 2000))
    assert warned.reason == "warning"  # 1 of 2000 is not below 0.0001
    assert not verdict(name, off({0: 1.01, 1: 1.01}, 2000)).passed  # 1 of 1000 is not below 0.001
    # 16 bits: below one in a hundred of relative errors beyond a hundredth.
    some = dict.fromkeys(range(9), 1.0625)
    assert verdict(name, off(some, dtype=torch.float16)).passed
    assert not verdict(name, off(some | {9: 1.0625}, dtype=torch.float16)).passed
    assert not verdict(name, torch.zeros(100, 10)).passed  # no cosine
    assert not verdict(name, off({0: math.nan})).passed


def test_msprobe_double_thousandth():
    name = "msprobe_thousandth"
    assert verdict(name, ones(2000)).passed
    assert verdict(name, off({0: 1.01}, 2000)).passed
    assert not verdict(name, off({0: 1.01, 1: 1.01}, 2000)).passed
    zero = torch.zeros(1, 2)
    assert judge_by(name, zero, zero).passed
    assert not judge_by(name, zero + 2.0**-149, zero).passed


def test_msprobe_ulp():
    name, step = "msprobe_ulp", 2.0**-23
    assert verdict(name, off(dict.fromkeys(range(1000), 1 + 32 * step))).passed  # none beyond 32
    many = off(dict.fromkeys(range(1000), 1 + 63 * step))
    assert verdict(name, many).passed  # all beyond 32, the mean below 64
    assert verdict(name, many).statistic == {"mean_ulp": 63.0, "share_beyond": 1.0}
    worse = off(dict.fromkeys(range(1000), 1 + 64 * step))
    assert not verdict(name, worse).passed
    # Large errors of few outputs: the share decides, a NaN among them.
    assert verdict(name, off(dict.fromkeys(range(49), 2.0))).passed
    assert not verdict(name, off(dict.fromkeys(range(50), 2.0))).passed
    assert verdict(name, off({0: math.nan})).passed
    # A bench that is worse excuses it; one that is as good does not.
    fifty, more = (off(dict.fromkeys(range(n), 2.0)) for n in (50, 51))
    assert verdict(name, fifty, bench=more).passed
    assert not verdict(name, fifty, bench=fifty).passed
    # 16 bits: beyond 1 ULP, one in a thousand.
    half = off({0: 1 + 2 * 2.0**-10}, 2000, torch.float16)
    assert verdict(name, half).passed
    assert not verdict(name, off({0: 1.25}, 1000, torch.float16)).passed
    assert verdict(
        name, off(dict.fromkeys(range(1000), 1 + 2.0 ** (-7)), dtype=torch.bfloat16)
    ).passed


def test_msprobe_dual_benchmark():
    name = "msprobe_bench"
    bench = off({0: 1.25})
    assert verdict(name, bench, bench=bench).statistic == {
        "small_error_ratio": 1.0,
        "rmse_ratio": 1.0,
        "max_relative_ratio": 1.0,
        "mean_relative_ratio": 1.0,
    }
    twice = verdict(name, off({0: 1.5}), bench=bench)
    assert (twice.passed, twice.reason) == (True, "warning")
    assert not verdict(name, off({0: 1.5625}), bench=bench).passed  # 2.25 times
    # Ten times the largest error, with the mean and the RMSE of the bench.
    spread = off(dict.fromkeys(range(500), 1.25))
    once = off({0: 1 + 10 * 0.25})
    assert verdict(name, once, bench=spread).passed
    assert not verdict(name, off({0: 1 + 11 * 0.25}), bench=spread).passed
    assert not verdict(name, off({0: math.nan}), bench=bench).passed
    # Golden values that are small are judged by their absolute errors alone.
    golden = torch.zeros(1, 4, dtype=torch.float64)
    fine, coarse = torch.full((1, 4), 1e-10), torch.full((1, 4), 1e-8)
    given = {"exact": golden, "bench": fine}
    assert judge_by(name, fine, golden.float(), **given).passed
    ratios = judge_by(name, coarse, golden.float(), **given).statistic
    assert ratios["small_error_ratio"] == math.inf and ratios["max_relative_ratio"] == 1


def test_cann_mere_and_mare():
    name = "cann_mere_mare"
    for dtype, power in (("fp32", 13), ("fp16", 10), ("bf16", 7)):
        limit = 2.0**-power
        assert STANDARDS[name].thresholds[dtype] == limit
        below = ones(dtype=torch.float32).double() * (1 + limit * 0.99)
        above = ones(dtype=torch.float32).double() * (1 + limit * 1.01)
        # The golden value moves, so that the candidate is a number of its dtype.
        for golden, passed in ((1 / below, True), (1 / above, False)):
            candidate = ones(dtype=DTYPES[dtype])
            assert judge_by(name, candidate, candidate, exact=golden).passed == passed, dtype
    assert verdict(name, off({0: 1 + 9 * 2.0**-13})).passed
    assert not verdict(name, off({0: 1 + 11 * 2.0**-13})).passed
    # 1e-7 in the denominator keeps an error at golden 0 from being infinite.
    zero = torch.zeros(1, 1)
    assert judge_by(name, zero + 2.0**-40, zero).statistic["mere"] == 2.0**-40 / 1e-7


def test_cann_mixed_tolerance():
    name = "cann_mixed"
    inside, outside = 1 + 2.0**-10, 1 + 2.0**-9
    assert verdict(name, off({0: inside})).flagged == 0
    some = dict.fromkeys(range(10), outside)
    found = verdict(name, off(some))
    assert (found.passed, found.flagged) == (True, 10)  # 0.99 of the outputs match
    assert not verdict(name, off(some | {10: outside})).passed
    assert not verdict(name, off({0: 1.015625})).passed  # one error above the floor, 32 ULP lower
    assert not verdict(name, off({0: math.nan})).passed
    # Where golden is large, 32 ULP are more than the floor.
    golden = torch.full((100, 10), 2.0**20, dtype=torch.float64)
    for ulps, passed in ((32, True), (33, False)):
        candidate = golden.float()
        candidate[0, 0] += ulps * 0.125
        assert judge_by(name, candidate, golden.float(), exact=golden).passed == passed


def test_cann_ratio_and_twice_torch():
    bench = off({0: 1.25})
    assert verdict("cann_ratio", off({0: 1.375}), bench=bench).passed  # 1.5 times
    assert not verdict("cann_ratio", off({0: 1.4375}), bench=bench).passed
    assert verdict("twice_torch", off({0: 1.5}), bench=bench).passed
    assert not verdict("twice_torch", off({0: 1.5 + 2**-23}), bench=bench).passed
    for name in ("cann_ratio", "twice_torch"):
        assert verdict(name, ones(), bench=ones()).passed
        assert not verdict(name, off({0: 1 + 2**-23}), bench=ones()).passed
        assert not verdict(name, off({0: math.nan}), bench=bench).passed


# ---- all together --------------------------------------------------------------------------------


def test_side_by_side():
    found = standards(off({0: 1.25}), ones(), exact=ones().double(), bench=ones())
    assert tuple(v.standard for v in found.verdicts) == tuple(STANDARDS)
    assert found["cosine"].passed and not found["contract"].passed
    for kind in ("worst_case", "running", "probabilistic"):
        assert (found[kind].passed, found[kind].reason) == (None, "needs bounds")
    text = str(found)
    assert "lm_head fp32 -> fp32: 10 of 13 standards flag it" in text and "needs bounds" in text
    without = standards(ones(), ones())
    assert without["twice_torch"].reason == "needs bench"
    assert without["msprobe_ulp"].passed  # it can do without
    json.dumps(found.to_dict(), allow_nan=False)
    with pytest.raises(KeyError, match="was not asked for"):
        standards(ones(), ones(), only=["cosine"])["contract"]


def test_the_inputs_dtype_chooses_the_cell_and_the_outputs_the_other_thresholds():
    candidate = off({0: 1.01})
    found = standards(candidate, ones(), dtype=torch.bfloat16)
    assert found["contract"].passed and (found.dtype, found.out_dtype) == ("bf16", "fp32")
    assert not found["cann_mere_mare"].passed


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"candidate": torch.ones(2, 2, dtype=torch.float64)}, "stated for"),
        ({"candidate": torch.ones(0, 2), "reference": torch.ones(0, 2)}, "no outputs"),
        ({"reference": torch.ones(3, 2)}, "one shape"),
        ({"exact": np.ones(4)}, "exact is"),
        ({"bench": torch.ones(1, 2)}, "bench is"),
        ({"correct": torch.ones(2, 2, dtype=torch.float16)}, "one dtype"),
        ({"only": ["wolf"]}, "unknown"),
        ({"only": "wolf"}, "'wolf' is unknown"),
        ({"only": []}, "names no standard"),
        ({"bounds": "wolf"}, "no get and no exact; give what wb.bounds"),
        ({"bounds": SimpleNamespace(get={}.get)}, "no exact"),
        ({"bounds": SimpleNamespace(get={}.get, exact=np.ones((1, 2)))}, r"of \[1, 2\] outputs"),
        ({"candidate": np.ones((2, 2))}, "candidate is ndarray"),
        ({"reference": None}, "reference is NoneType"),
        ({"bench": torch.ones(2, 2, device="meta")}, "meta"),
        ({"dtype": "fp8"}, "scope"),
        ({"op": "wolf"}, "no class"),
    ],
)
def test_what_is_refused(given, match):
    given = {"candidate": torch.ones(2, 2), "reference": torch.ones(2, 2)} | given
    with pytest.raises(InputError, match=match):
        standards(**given)


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_results_that_are_0_everywhere_agree(dtype):
    """The cosine of equal zeros is 0 / 0. One output that is not 0, or a NaN, has none still."""
    zero = torch.zeros(4, 6, dtype=DTYPES[dtype])
    found = standards(zero, zero, bench=zero)
    assert [v.standard for v in found.verdicts if v.passed is False] == []
    assert found["cosine"].statistic == {"cosine": 1.0}
    for candidate, reference in ((zero, zero + 1), (zero + 1, zero), (zero * math.nan, zero)):
        found = standards(candidate, reference, bench=zero)
        for name in ("cosine", "accuracy_reached", "msprobe_precheck"):
            assert found[name].passed is False, name
    told = [n for n in QUOTED if any("0 everywhere" in text for text in STANDARDS[n].assumed)]
    assert told == ["cosine", "accuracy_reached", "msprobe_precheck"]


# ---- the data file -------------------------------------------------------------------------------


def test_every_quoted_standard_has_its_source_and_every_rule_a_standard():
    assert tuple(n for n, s in STANDARDS.items() if s.ours) == OURS
    assert set(QUOTED) == set(json.loads(module.PATH.read_text())["standards"])
    for name in QUOTED:
        standard = STANDARDS[name]
        assert re.match(r"https://\S+$", standard.url) and standard.source and standard.says
    assert len({s.short for s in STANDARDS.values()}) == len(STANDARDS)


def test_the_table_names_rule_source_and_assumption():
    lines = standards_table().splitlines()
    assert len(lines) == 2 + len(STANDARDS)
    for line, standard in zip(lines[2:], STANDARDS.values(), strict=True):
        assert len(re.findall(r"(?<!\\)\|", line)) == 6  # a "|" of a rule must not open a column
        assert standard.label in line and (standard.ours or f"({standard.url})" in line)
        assert all(a.replace("|", "\\|") in line for a in standard.assumed)


def test_powers_of_two_are_read_exactly():
    assert module._numbers({"a": "2^-10", "b": [1], "c": 3}) == {"a": 2**-10, "b": [1], "c": 3}
