"""Pairs, units, tables and counts of a drift, each against a plain second computation."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from workbench.errors import ConfigError, InputError
from workbench.evidence import raw_bits
from workbench.numerics.drift import drift
from workbench.numerics.drift import views as drift_views
from workbench.numerics.drift.views import UNITS
from workbench.orders import ReductionTree, sequential

G = torch.Generator().manual_seed(3)
HIDDEN, WEIGHT = torch.randn(6, 40, generator=G), torch.randn(11, 40, generator=G)
ORDER = ReductionTree.from_nested(sequential(range(40)))


def in_order(hidden, weight):
    """fp32 products, added from left to right."""
    out = torch.zeros(len(hidden), len(weight))
    for k in range(hidden.shape[1]):
        out = out + hidden[:, k, None] * weight[None, :, k]
    return out


def backwards(hidden, weight):
    return in_order(hidden.flip(1), weight.flip(1))


@pytest.fixture(scope="module")
def result():
    against = ("exact", "torch.mv", "F.linear", {"backwards": backwards})
    return drift(in_order, HIDDEN, WEIGHT, against, tree=ORDER)


def test_all_three_pairs_of_every_reference(result):
    names = ("torch.mv", "F.linear", "backwards")
    pairs = [("kernel", "exact"), *(p for n in names for p in (("kernel", n), (n, "exact")))]
    assert result.pairs() == pairs
    outs = {"kernel": in_order(HIDDEN, WEIGHT), "backwards": backwards(HIDDEN, WEIGHT)}
    outs["F.linear"] = torch.nn.functional.linear(HIDDEN, WEIGHT)
    outs["torch.mv"] = torch.stack([torch.mv(WEIGHT, row.clone()) for row in HIDDEN])
    outs["exact"] = HIDDEN.double() @ WEIGHT.double().T
    for got, wanted in pairs:
        c = result[got, wanted]
        error = (outs[got].double() - outs[wanted].double()).numpy()
        assert (c.errors == error).all() and c.max_abs == abs(error).max() == c.max_finite
        other = raw_bits(outs[got]) != raw_bits(outs[wanted].float())
        assert c.differing == int(other.sum()) and c.nonfinite == 0
    # Control: the two orders are told apart.
    assert result["kernel", "backwards"].differing > 20


def test_references_take_bias_and_are_rounded_once_to_the_output():
    bias = torch.arange(11.0)
    hidden, weight, bias = HIDDEN.bfloat16(), WEIGHT.bfloat16(), bias.bfloat16()
    seen = []

    def mine(h, w, bias=None, out_dtype=None):
        seen.append((bias is not None, out_dtype))
        return (h.double() @ w.double().T + bias.double()).float()

    result = drift(
        mine, hidden, weight, ("F.linear", {"mine": mine}), bias=bias, out_dtype=torch.float32
    )
    assert seen == [(True, torch.float32)] * 2
    assert result["kernel", "mine"].differing == 0
    wide = torch.nn.functional.linear(hidden.float(), weight.float(), bias.float())
    exact = hidden.double() @ weight.double().T + bias.double()
    assert (result["F.linear", "exact"].errors == (wide.double() - exact).numpy()).all()


def test_units_against_loops_in_python(result):
    c = result["kernel", "exact"]
    assert set(result.values.units()) == set(UNITS)
    units = {u: c.errors_in(u) for u in UNITS}
    exact = (HIDDEN.double() @ WEIGHT.double().T).numpy()
    for n in range(len(HIDDEN)):
        for v in range(len(WEIGHT)):
            x, w = HIDDEN[n].numpy(), WEIGHT[v].numpy()
            products = x * w
            scale = sum(abs(float(a) * float(b)) for a, b in zip(x, w, strict=True))
            partial, largest = np.float32(0), 0.0
            for p in products:
                partial = np.float32(partial + p)
                largest = max(largest, abs(float(partial)), abs(float(p)))
            error = c.errors[n, v]
            assert units["abs"][n, v] == error
            assert units["ulp"][n, v] == error / (math.ulp(scale) * 2**29)
            largest = max(largest, abs(float(exact[n, v])))
            assert units["partial_ulp"][n, v] == error / (math.ulp(largest) * 2**29)
            assert units["peak"][n, v] == error / abs(exact[n]).max()
    assert c.max_ulp == abs(units["ulp"]).max() and c.max_peak == abs(units["peak"]).max()
    assert c.max_partial_ulp == abs(units["partial_ulp"]).max() > c.max_ulp


def test_the_order_of_the_tree_decides_the_largest_partial_sum():
    hidden, weight = torch.tensor([[1000.0, -1000.0, 3.0, 4.0]]), torch.ones(1, 4)

    def off(h, w):
        return (h @ w.T) + 1

    trees = ([[0, 1], [2, 3]], [[0, 2], [1, 3]])
    found = [drift(off, hidden, weight, "exact", tree=ReductionTree.from_nested(t)) for t in trees]
    # 1000 is a product; 1003 and 996 stand in the second order: 1000 < 1024, so one ULP
    assert [f["kernel", "exact"].max_partial_ulp for f in found] == [2.0**14, 2.0**14]
    hidden[0, 0] = 1023.0
    found = [drift(off, hidden, weight, "exact", tree=ReductionTree.from_nested(t)) for t in trees]
    assert [f["kernel", "exact"].max_partial_ulp for f in found] == [2.0**14, 2.0**13]
    assert found[0].tree_hash != found[1].tree_hash


def test_chunks_change_nothing(result, monkeypatch):
    monkeypatch.setattr(drift_views, "_BLOCK", 25)  # two rows at a time
    monkeypatch.setattr(sys.modules["workbench.numerics.drift.measure"], "_TERMS", 100)
    against = ("exact", "torch.mv", "F.linear", {"backwards": backwards})
    again = drift(in_order, HIDDEN, WEIGHT, against, tree=ORDER)
    for one, other in zip(result.comparisons, again.comparisons, strict=True):
        sums = ("mean_abs", "rms")  # added in another order
        a, b = (dict(c.to_dict()) for c in (one, other))
        for key in sums:
            x, y = a.pop(key), b.pop(key)
            assert abs(x - y) <= 66 * 2.0**-52 * x
        assert a == b
    for pair in result.pairs():
        assert (result.pooled(pair, "ulp", 4, 5) == again.pooled(pair, "ulp", 4, 5)).all()
        assert result.worst(7, pair).rows() == again.worst(7, pair).rows()
        a, b = (r.by_vocab(pair, 4)["max_ulp"] for r in (result, again))
        assert (a == b).all()


def test_by_row_and_by_vocab(result):
    pair = ("torch.mv", "exact")
    error, ulps = result[pair].errors, abs(result[pair].errors_in("ulp"))
    for axis, table in ((1, result.by_row(pair)), (0, result.by_vocab(pair))):
        assert (table["max_abs"] == abs(error).max(axis)).all()
        assert (table["max_ulp"] == ulps.max(axis)).all()
        many = error.shape[axis]
        room = many * 2.0**-52 * abs(error).sum(axis)  # another order of the same sum
        assert (abs(table["mean_abs"] * many - abs(error).sum(axis)) <= room).all()
        assert (abs(table["mean"] * many - error.sum(axis)) <= room).all()
        assert table["differing"].sum() == result[pair].differing
    assert list(result.by_row(pair)["row"]) == list(range(6))
    assert len(result.by_vocab()) == 11 * len(result.pairs())
    grouped = result.by_vocab(pair, groups=4)
    assert list(grouped["vocab_id"]) == [0, 3, 6, 9] and list(grouped["last_id"]) == [2, 5, 8, 10]
    blocks = [abs(error[:, a:b]).max() for a, b in ((0, 3), (3, 6), (6, 9), (9, 11))]
    assert list(grouped["max_abs"]) == blocks
    frame = result.by_vocab(pair).to_pandas()
    assert len(frame) == 11 and frame["max_abs"].max() == result[pair].max_abs
    assert list(result.by_row(pair).worst(2)["max_abs"]) == sorted(abs(error).max(1))[:-3:-1]
    with pytest.raises(InputError, match="no column 'size'"):
        frame = result.by_row(pair).worst(1, by="size")


def test_worst_outputs(result):
    for unit in UNITS:
        table = result.worst(9, ("torch.mv", "exact"), unit)
        size = abs(result["torch.mv", "exact"].errors_in(unit))
        places = np.argsort(-size.ravel(), kind="stable")[:9]
        assert [r * 11 + c for r, c in zip(table["row"], table["vocab_id"], strict=True)] == list(
            places
        )
        assert list(abs(table["error" if unit == "abs" else unit])) == list(size.ravel()[places])
    first = result.worst(1)
    assert first["row"][0] == result["kernel", "exact"].worst["row"]
    assert len(result.worst(1000)) == 66


def test_pooled(result):
    size = abs(result["kernel", "exact"].errors_in("peak"))
    assert (result.pooled(unit="peak") == size).all()
    grid = result.pooled(unit="peak", rows=3, columns=4)
    assert grid.shape == (3, 4)
    for i in range(3):
        for j in range(4):
            assert grid[i, j] == size[2 * i : 2 * i + 2, 3 * j : 3 * j + 3].max()


def test_histogram(result):
    found = result.histogram(bins=9)
    assert list(found.counts) == [p for p in result.pairs() if p[1] == "exact"]
    for pair, counts in found.counts.items():
        errors = result[pair].errors_in("ulp")
        assert (counts == np.histogram(errors, found.edges)[0]).all() and counts.sum() == 66
        assert found.exactly[pair] == int((errors == 0).sum()) and found.nonfinite[pair] == 0
    reach = max(result[p].max_ulp for p in found.counts)
    assert found.edges[-1] == -found.edges[0] == reach
    json.dumps(found.to_dict(), allow_nan=False)
    assert "exactly_0" in str(found)


def test_not_finite_is_counted_everywhere_and_hides_nothing_else():
    """Near-overflow, Inf and NaN in one drift."""
    hidden, weight = HIDDEN.clone(), WEIGHT.clone()
    hidden[1, 0] = math.nan
    hidden[2, 0] = 3e38  # fp32 products overflow, fp64's do not
    hidden[4] *= 2.0**-149 / 4  # subnormal products
    weight[5, 1] = math.inf
    result = drift(in_order, hidden, weight, tree=ORDER)
    c = result["kernel", "exact"]
    out = in_order(hidden, weight).double()
    error = (out - hidden.double() @ weight.double().T).numpy()
    bad = ~np.isfinite(error)
    assert c.nonfinite == bad.sum() and bad[1].all() and bad[:, 5].all() and bad[2].sum() > 1
    assert math.isnan(c.max_abs) and c.max_finite == abs(error[~bad]).max() > 0
    assert (np.isfinite(c.errors_in("ulp")) == ~bad).all()
    assert (np.isfinite(c.errors_in("peak")) == ~bad).all()
    table = result.by_row(("kernel", "exact"))
    assert list(table["nonfinite"]) == list(bad.sum(1))
    assert list(result.by_vocab(("kernel", "exact"))["nonfinite"]) == list(bad.sum(0))
    found = result.histogram([("kernel", "exact")])
    assert found.nonfinite["kernel", "exact"] == bad.sum()
    assert found.counts["kernel", "exact"].sum() == 66 - bad.sum()
    worst = result.worst(int(bad.sum()))
    assert all(bad[r, v] for r, v in zip(worst["row"], worst["vocab_id"], strict=True))
    assert (np.isfinite(result.pooled()) == ~bad).all()
    for view in (result, table, worst, found):
        json.dumps(view.to_dict(), allow_nan=False)


def test_subnormal_logits_are_measured_in_subnormal_steps():
    hidden, weight = torch.full((1, 4), 2.0**-140), torch.ones(2, 4)

    def off(h, w):
        return (h @ w.T) + 2.0**-149

    c = drift(off, hidden, weight, "exact")["kernel", "exact"]
    assert (c.max_abs, c.max_ulp, c.nonfinite) == (2.0**-149, 1.0, 0)


def test_no_error_is_zero_in_every_unit():
    result = drift(lambda h, w: h @ w.T, torch.zeros(2, 4), torch.zeros(3, 4), "exact")
    assert result["kernel", "exact"].max_peak == result["kernel", "exact"].max_ulp == 0
    off = drift(lambda h, w: h @ w.T + 1, torch.zeros(2, 4), torch.zeros(3, 4), "exact")
    assert off["kernel", "exact"].max_peak == math.inf


def test_long_tables_are_shown_in_part():
    result = drift(lambda h, w: h @ w.T, torch.ones(2, 4), torch.ones(300, 4), "exact")
    table = result.by_vocab()
    assert len(table.rows()) == 300 and "280 more rows" in str(table)
    assert table._repr_html_().count("<tr>") == 21 and "the first 20 of 300" in table._repr_html_()


def test_refusals(result):
    for arguments, match in (
        ({"against": {"kernel": in_order}}, "not taken"),
        ({"against": {"mine": 3}}, "callable"),
        ({"against": ("exact", {})}, None),
        ({"against": "numpy.dot"}, "numpy.dot"),
        ({"tree": ReductionTree.from_nested([0, 1])}, "2 terms"),
        ({"against": {"mine": lambda h, w: "text"}}, "reference 'mine' returned"),
    ):
        if match is None:
            assert drift(in_order, HIDDEN, WEIGHT, **arguments).pairs() == [("kernel", "exact")]
            continue
        with pytest.raises(InputError, match=match):
            drift(in_order, HIDDEN, WEIGHT, **arguments)
    with pytest.raises(ConfigError, match="declares its order"):
        drift(in_order, HIDDEN, WEIGHT, tree="declared")
    plain = drift(in_order, HIDDEN, WEIGHT)
    assert plain["kernel", "exact"].max_partial_ulp is None
    with pytest.raises(InputError, match="tree="):
        plain.worst(unit="partial_ulp")
    with pytest.raises(InputError, match="no unit 'eps'"):
        plain["kernel", "exact"].errors_in("eps")
    with pytest.raises(KeyError, match="was not compared"):
        plain.worst(pair=("kernel", "F.linear"))


MEMORY = """
    import re, torch
    from workbench.numerics.drift import drift

    def status(name):
        text = open("/proc/self/status").read()
        return int(re.search(name + r":\\s+(\\d+) kB", text)[1]) << 10

    linear, g = torch.nn.functional.linear, torch.Generator().manual_seed(0)
    hidden, vocab = torch.randn(32, 16, generator=g), 1 << 16
    drift(linear, hidden, torch.randn(9, 16, generator=g))  # load what is loaded late
    weight = torch.randn(vocab, 16, generator=g)
    linear(hidden, weight)
    before = status("VmRSS")
    result = drift(linear, hidden, weight)
    result.by_vocab(), result.by_row(), result.worst(10), result.pooled(), result.histogram()
    array = 8 * 32 * vocab  # of fp64, of all outputs
    print((status("VmHWM") - before) / array)
    kept = [c.errors_in(u) for c in result.comparisons for u in result.values.units()]
    print((status("VmHWM") - before) / array)
"""


@pytest.mark.serial
def test_errors_and_units_are_never_held_as_a_whole():
    """The exact logits, Σ|x w|, and the two sides' logits stay: three arrays of fp64 in all."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MEMORY)], capture_output=True, text=True, check=True
    )
    used, control = map(float, run.stdout.split())
    assert used < 9, used
    assert control > 10, control  # three pairs in three units
