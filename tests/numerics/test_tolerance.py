"""Tolerances on the scale of derived bounds, each number against a second way of getting it."""

from __future__ import annotations

import json
import math
import re
import time

import numpy as np
import pytest
import torch

import workbench as wb
from workbench._result import json_text
from workbench.errors import InputError
from workbench.evidence import raw_bits
from workbench.numerics.bounds import bounds
from workbench.numerics.bounds.linear_logp import (
    TINY,
    Heights,
    gamma,
    linear_logp_bounds,
    log_prob_bound,
)
from workbench.numerics.contract import contract
from workbench.numerics.exact import exact_linear
from workbench.numerics.tolerance import tolerance
from workbench.numerics.tolerance.scale import FAR, Scale, lower_median
from workbench.numerics.tolerance.subject import Subject
from workbench.ops.inputs import DTYPES
from workbench.orders import ReductionTree, declared_order, sequential
from workbench.orders.reveal import RevealError
from workbench.orders.standard import pairwise_order, reversed_order, sequential_order

G = torch.Generator().manual_seed(11)
HIDDEN = torch.randn(6, 320, generator=G)
WEIGHT = torch.randn(40, 320, generator=G)
KINDS = ("worst_case", "running", "probabilistic")
CELL = contract().cell("forward_accuracy", "lm_head", "fp32")
HUGE = 4.0  # allows any error here but NaN and Inf
BEYOND = dict.fromkeys(["rtol"], 2 * float(torch.finfo(torch.float32).max))


@pytest.fixture(scope="module")
def kernel():
    return wb.build("lm_head", wb.KernelConfig(tile_length=64), backend="twin")


@pytest.fixture(scope="module")
def found(kernel):
    return tolerance(kernel, HIDDEN, WEIGHT)


def returning(values):
    """A candidate that gives these outputs, whatever it is given."""
    return lambda *inputs, **options: values


# ---- the counts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_what_is_flagged_is_what_the_contract_flags(kernel, dtype):
    hidden, weight = HIDDEN.to(DTYPES[dtype]), WEIGHT.to(DTYPES[dtype])
    found = tolerance(kernel, hidden, weight)
    got, (exact, _) = kernel(hidden, weight), exact_linear(hidden, weight)
    cell = contract().cell("forward_accuracy", "lm_head", dtype)
    counts = []
    for share in (1, 2**-3, 2**-6, 2**-8, 2**-10, 0):
        atol, rtol = cell.atol * share, cell.rtol * share
        judged = contract().judge(
            got, exact, "forward_accuracy", "lm_head", dtype, atol=atol, rtol=rtol
        )
        flagged = found.at(atol, rtol)
        assert flagged.count == judged.mismatches
        assert flagged.worst_ratio == judged.tolerance_ratio
        assert [flagged.worst["row"], flagged.worst["column"]] == judged.worst["index"]
        counts.append(flagged.count)
    assert counts == sorted(counts) and counts[0] == 0 < counts[-1]


def test_what_nothing_allows_is_below_every_bound():
    """atol + 0 * Inf is NaN."""
    one, inf = torch.ones(1, 1), torch.full((1, 1), torch.inf)
    flagged = Scale(Subject(one, inf, {"running": one.double()}, "", None, "", (1, 1, 1), ())).at(
        1.0, 0.0, "running"
    )
    assert (flagged.count, flagged.below, flagged.far) == (1, 1, 0)
    assert math.isnan(flagged.looseness_median), "there is no bound on such an output"


def test_every_count_against_a_loop_over_the_outputs(kernel):
    got = kernel(HIDDEN, WEIGHT)
    got[0, 3] += 1  # one output beyond any bound
    tree = declared_order("lm_head", kernel.config, 320)
    found = tolerance(returning(got), HIDDEN, WEIGHT, tree=tree)
    exact = exact_linear(HIDDEN, WEIGHT)[0].numpy()
    for kind in KINDS:
        for atol, rtol in ((2.0**-19, 2.0**-20), (2.0**-16, 0.0), (0.0, 2.0**-13), (2.0, 0.0)):
            flagged = found.at(atol, rtol, kind)
            below = far = alarms = missed = count = 0
            ratios = []
            for i in np.ndindex(exact.shape):
                reference = np.float32(exact[i])
                allowed = np.float32(atol) + np.float32(rtol) * abs(reference)
                assert allowed.dtype == np.float32
                error = abs(float(got[i]) - float(reference))
                bound = float(found.bound(kind)[i])
                outside = not abs(np.float32(got[i]) - reference) <= allowed
                count += outside
                below += float(allowed) < bound
                far += float(allowed) / bound > FAR
                alarms += outside and error <= bound
                missed += not outside and error > bound
                ratios.append(float(allowed) / bound)
            assert (flagged.count, flagged.below, flagged.far) == (count, below, far)
            assert (flagged.false_alarms, flagged.missed) == (alarms, missed)
            ratios.sort()
            middle = ratios[(len(ratios) - 1) // 2]
            assert flagged.looseness_min == ratios[0] and flagged.looseness_max == ratios[-1]
            assert flagged.looseness_median == middle
    assert found.at(2.0, 0.0).missed == 1 and found.bounds["running"].beyond == 1
    assert found.bounds["worst_case"].worst_ratio > 1


def test_the_grid_is_the_pairs_one_by_one(found):
    atols, rtols = [0.0, 2.0**-22, 2.0**-20, 2.0**-17], [0.0, 2.0**-21, 2.0**-15]
    grid = found.grid(atols, rtols)
    for i, rtol in enumerate(rtols):
        for j, atol in enumerate(atols):
            assert grid.flagged[i, j] == found.at(atol, rtol).count
    assert grid.flagged[0, 0] > grid.flagged[0, 1] > grid.flagged[-1, -1] == 0
    assert grid.cells["fp32"] == (CELL.atol, CELL.rtol) and grid.own == "fp32"
    assert len(grid.rows()) == 12 and len(grid.to_dict()["flagged"]) == 3


def test_the_default_grid_goes_from_all_to_nothing_and_holds_the_cells(found):
    grid = found.grid()
    some = int((found.scale.size > 0).sum())
    assert grid.flagged[0, 0] > some / 2 and grid.flagged[:, -1].max() == 0
    assert all(grid.atols[0] < atol < grid.atols[-1] for atol, _ in grid.cells.values())


def test_the_histogram_counts_every_output_once(found):
    h = found.histogram()
    assert h.exact + h.rule.sum() == h.exact + h.derived.sum() == h.outputs == 240
    assert h.exact == int((found.scale.error == 0).sum()) > 0
    assert list(h.looseness) == ["fp32", "bf16", "fp16"]
    assert all(counts.sum() == h.outputs for counts in h.looseness.values())
    # No error is beyond its bound, and the rule's cell flags nothing: no count right of 1.
    middle = len(h.edges) // 2
    assert h.edges[middle] == 0 and h.rule[middle:].sum() == h.derived[middle:].sum() == 0
    other = found.histogram(2.0**-30, 0.0)
    assert list(other.looseness)[-1] == "this pair" and other.looseness["this pair"].sum() == 240
    assert other.rule[middle:].sum() == found.at(2.0**-30, 0.0).count


# ---- what is proposed ----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_proposed_pair_never_flags_what_is_within_the_bound_and_a_smaller_one_does(
    kernel, kind, dtype
):
    """The worst correct kernel there is: every output as far off as its bound lets it be."""
    hidden, weight = HIDDEN.to(DTYPES[dtype]), WEIGHT.to(DTYPES[dtype])
    tree = declared_order("lm_head", kernel.config, 320)
    found = tolerance(kernel, hidden, weight, tree=tree, kind=kind)
    exact = exact_linear(hidden, weight)[0]
    reference = exact.float().double()
    bound = torch.from_numpy(found.bound(kind))
    step = 2.0**-22 * float(reference.abs().max())  # outputs lie this close together, or closer
    controls = 0
    for sign in (1.0, -1.0):
        worst = (reference + sign * bound).to(torch.float32)
        beyond = (worst.double() - reference).abs() > bound  # rounding has put it there
        worst = torch.where(beyond, torch.nextafter(worst, reference.float()), worst)
        assert bool(((worst.double() - reference).abs() <= bound).all())
        hostile = tolerance(returning(worst), hidden.float(), weight.float(), tree=tree)
        for rtol in (0.0, 2.0**-24, 2.0**-11, 2.0**-8, CELL.rtol):
            atol = found.smallest_atol(rtol, kind)
            assert hostile.at(atol, rtol).count == 0
            if atol > step:
                assert hostile.at(atol - step, rtol).count > 0
                controls += 1
    assert controls > 3
    for p in found.proposals:
        least = found.smallest_atol(p.rtol, p.kind)
        assert least <= p.atol <= least * 1.01
        assert found.at(p.atol, p.rtol, p.kind).below == 0 and p.flagged == 0
    assert {p.rtol for p in found.proposals} >= {0.0, torch.finfo(DTYPES[dtype]).eps / 2}
    assert found.proposal.kind == kind


def test_the_smallest_atol_is_that_of_all_outputs_not_only_of_the_few_that_decide(found):
    reference = found.scale.reference.double().abs().numpy()
    for kind in KINDS:
        bound = found.bound(kind).ravel()
        for rtol in (0.0, 2.0**-20, 2.0**-14, 2.0**-7, 1.0):
            needed = max(0.0, float((bound * (1 + 2.0**-22) - rtol * reference).max()))
            slack = 1 + 2.0**-23
            assert needed <= found.smallest_atol(rtol, kind) <= (needed + 2.0**-149) * slack
        assert len(found.scale.part(kind).rivals[0]) < 30, "few decide"


def test_a_16_bit_output_wants_its_own_rounding_as_rtol(kernel):
    found = tolerance(kernel, HIDDEN, WEIGHT, dtype="bf16")
    assert found.out_dtype == "bf16" and found.proposal.rtol == 2.0**-8
    plain = next(p for p in found.proposals if p.kind == "running" and p.rtol == 0)
    assert found.proposal.looseness_median < plain.looseness_median
    wide = tolerance(kernel, HIDDEN, WEIGHT, dtype="bf16", out_dtype=torch.float32)
    assert wide.out_dtype == "fp32"
    assert wide.bounds["running"].max < found.bounds["running"].median


# ---- a kernel that is wrong ----------------------------------------------------------------------


def test_a_dropped_term_is_beyond_the_bound_and_passes_a_loose_rule(kernel):
    def dropped(hidden, weight):
        hidden = hidden.clone()
        hidden[:, 17] = 0
        return kernel(hidden, weight)

    tree = declared_order("lm_head", kernel.config, 320)
    bad = tolerance(dropped, HIDDEN, WEIGHT, tree=tree)
    assert bad.bounds["running"].beyond > 200 and bad.bounds["worst_case"].beyond > 200
    assert bad.at(CELL.atol, CELL.rtol).missed < bad.cells["bf16"].missed
    assert bad.cells["bf16"].missed > 10, "what the loose cell lets through"
    good = tolerance(kernel, HIDDEN, WEIGHT)
    assert [b.beyond for b in good.bounds.values()] == [0, 0, 0]
    assert good.cells["bf16"].missed == 0


def test_outputs_that_are_not_finite_are_flagged_and_named(kernel):
    got = kernel(HIDDEN, WEIGHT)
    got[2, 5], got[3, 1] = math.nan, math.inf
    tree = declared_order("lm_head", kernel.config, 320)
    found = tolerance(returning(got), HIDDEN, WEIGHT, tree=tree, atol=HUGE, rtol=0.0)
    assert found.chosen.count == 2 and math.isnan(found.chosen.worst_ratio)
    assert found.chosen.worst["row"] == 2 and found.chosen.worst["column"] == 5
    assert found.bounds["running"].beyond == 2 and found.warnings == ()
    assert json.loads(json_text(found.to_dict()))["chosen"]["worst_ratio"] == "nan"


def test_where_nothing_is_bounded_nothing_is_proposed(kernel):
    """Partial sums overflow in one output, the exact value in the other."""
    weight = torch.full((1, 320), 2.0**64)
    hidden = torch.full((2, 320), 2.0**63)
    hidden[0, 160:] *= -1
    found = tolerance(kernel, hidden, weight, atol=0.0, rtol=0.0)
    assert math.isinf(found.smallest_atol(0.0)) and math.isinf(found.proposal.atol)
    assert found.chosen.count == 2 and found.chosen.below == 2
    assert "1 outputs have no finite reference" in found.warnings[-1]
    assert len(found.rows()) == 4, "no row of a proposal that there is not"
    # Nothing is promised of these outputs, so the kernel has broken nothing.
    assert all((b.beyond, b.unbounded, b.worst_ratio) == (0, 2, 0.0) for b in found.bounds.values())
    assert (found.chosen.false_alarms, found.chosen.missed) == (0, 0)
    assert any("2 outputs have no bound" in warning for warning in found.warnings)
    # The control: one output with a bound, and beyond it.
    mixed = torch.cat([weight, torch.ones(1, 320)])
    bad = tolerance(
        returning(torch.zeros(2, 2)),
        hidden,
        mixed,
        tree=declared_order("lm_head", kernel.config, 320),
    )
    assert (bad.bounds["running"].beyond, bad.bounds["running"].unbounded) == (1, 2)


# ---- references and orders -----------------------------------------------------------------------


def test_against_torch_mv_its_own_error_counts(kernel):
    exact = exact_linear(HIDDEN, WEIGHT)[0]
    mv = torch.stack([torch.mv(WEIGHT, row.clone()) for row in HIDDEN])
    found = tolerance(kernel, HIDDEN, WEIGHT, reference="torch.mv")
    alone = tolerance(kernel, HIDDEN, WEIGHT)
    assert torch.equal(raw_bits(found.scale.reference.reshape(mv.shape)), raw_bits(mv))
    own = (mv.double() - exact).abs().numpy()
    rounded = (exact.float().double() - exact).abs().numpy()
    for kind in KINDS:
        derived = alone.bound(kind) - rounded
        # One fp64 addition apart.
        assert np.all(np.abs(found.bound(kind) - own - derived) <= 2.0**-50 * found.bound(kind))
    assert found.bounds["running"].beyond == 0 and "torch.mv" in found.reference


def test_against_sums_in_another_order_the_bounds_add_up(kernel):
    other = ReductionTree.from_nested(sequential(range(320)))
    found = tolerance(kernel, HIDDEN, WEIGHT, reference=other)
    alone = tolerance(kernel, HIDDEN, WEIGHT)
    wanted = torch.zeros(6, 40)
    for k in range(320):  # the order itself, one product after another
        product = HIDDEN[:, k, None] * WEIGHT[:, k]
        wanted = product if k == 0 else wanted + product
    assert torch.equal(raw_bits(found.scale.reference.reshape(6, 40)), raw_bits(wanted))
    assert other.hash[:6] in found.reference
    for kind in KINDS:
        assert np.all(found.bound(kind) > alone.bound(kind))
    assert found.bounds["running"].beyond == 0


def test_the_doubts_and_the_delta_of_a_reference_s_order_count(kernel):
    """A sequential sum of constants is what the probabilistic bound fails on."""
    other = ReductionTree.from_nested(sequential(range(320)))
    order = declared_order("lm_head", kernel.config, 320)
    hidden, weight = torch.full((2, 320), 0.1), torch.full((3, 320), 0.1)
    found = tolerance(kernel, hidden, weight, reference=other)
    assert any(w.startswith("reference: roundings share a sign") for w in found.warnings)
    alone = tolerance(kernel, hidden, weight)
    assert not any("reference" in w for w in alone.warnings)
    both = tolerance(kernel, HIDDEN, WEIGHT, reference=other)
    wanted = bounds(order, HIDDEN, WEIGHT, reference=other)
    for kind in KINDS:
        assert np.array_equal(both.bound(kind), wanted.get(kind))
    known = tolerance(torch.nn.functional.linear, HIDDEN, WEIGHT, reference=other)
    plain = tolerance(torch.nn.functional.linear, HIDDEN, WEIGHT)
    assert np.all(known.bound() > plain.bound()) and list(known.bounds) == ["worst_case"]


def test_without_an_order_there_is_the_worst_over_all_of_them(kernel):
    found = tolerance(torch.nn.functional.linear, HIDDEN, WEIGHT)
    assert list(found.bounds) == ["worst_case"] and found.kind == "worst_case"
    assert found.tree_hash is None and found.order == "any order of 320 terms"
    assert "no order is known" in found.warnings[0] and found.bounds["worst_case"].beyond == 0
    deepest = ReductionTree.from_nested(sequential(range(320)))
    known = tolerance(kernel, HIDDEN, WEIGHT, tree=deepest)
    assert np.all(found.bound() > known.bound("worst_case")), "no order is worse than the worst"
    assert tolerance(kernel, HIDDEN, WEIGHT, tree="any").bounds.keys() == {"worst_case"}
    low = tolerance(torch.nn.functional.linear, HIDDEN, WEIGHT, dtype="bf16")
    assert low.bounds["worst_case"].beyond == 0 and low.bounds["worst_case"].max > 2.0**-8
    with pytest.raises(InputError, match="'running': of these outputs there are worst_case"):
        found.at(0.0, 0.0, "running")


def test_an_order_can_be_revealed(kernel):
    found = tolerance(kernel, HIDDEN[:2], WEIGHT[:3], tree="reveal")
    assert found.tree_hash == declared_order("lm_head", kernel.config, 320).hash
    assert found.order.startswith("revealed, ")

    def by_halves(hidden, weight):
        parts = zip(hidden.split(16, -1), weight.split(16, -1), strict=True)
        return sum((h[:, None] * w).sum(-1) for h, w in parts)

    asked = tolerance(by_halves, HIDDEN[:2, :32], WEIGHT[:3, :32], tree="reveal")
    assert list(asked.bounds) == list(KINDS) and asked.bounds["running"].beyond == 0
    assert asked.warnings[0].startswith("the order was revealed of row 0"), "of others: not known"
    assert not any("row 0" in warning for warning in found.warnings), "a kernel's rows are alike"


def test_an_order_that_depends_on_the_columns_is_refused_with_advice_that_works():
    orders = {5: sequential_order(32), 1: pairwise_order(32)}

    def fn(hidden, weight):
        order = orders.get(len(weight), reversed_order(32))
        terms = (hidden[:, None] * weight).reshape(-1, 32).numpy()
        return torch.from_numpy(order.sum(terms)).reshape(len(hidden), len(weight))

    hidden, weight = HIDDEN[:2, :32].contiguous(), WEIGHT[:5, :32].contiguous()
    with pytest.raises(RevealError, match="rows are not independent") as caught:
        tolerance(fn, hidden, weight, tree="reveal")
    assert caught.value.reason == "rows not independent"
    asked = re.findall(r"tree=(wb\.reveal\(.*?\)) for ", str(caught.value))
    assert asked[0] == 'wb.reveal("F.linear", 32, rows=2, columns=5)'
    tree = eval(asked[1], {"wb": wb, "torch": torch, "fn": fn})
    assert tree == orders[5] and tree != orders[1]
    for order in (tree, None):
        found = tolerance(fn, hidden, weight, tree=order)
        assert all(bound.beyond == 0 for bound in found.bounds.values())
    with pytest.raises(RevealError, match="wanted one sum a row") as caught:  # nothing to advise
        tolerance(lambda h, w: (h @ w.T).amax(1, True).expand(-1, 5), hidden, weight, tree="reveal")
    assert "wb.reveal" not in str(caught.value)


def test_a_kernel_an_operator_and_its_callable_agree(kernel, found):
    operator = wb.ops.lm_head.AscendLMHeadOp(kernel.config)
    other = tolerance(operator, HIDDEN, WEIGHT)
    assert other.chosen == found.chosen and other.bounds == found.bounds
    assert (other.evidence.backend, other.evidence.arch) == ("twin", "dav-2201")
    wide = tolerance(operator, HIDDEN, WEIGHT, dtype="fp16", out_dtype=torch.float32)
    assert wide.out_dtype == "fp32" and wide.bounds["running"].beyond == 0


def test_a_bias_is_in_the_bound(kernel, found):
    bias = 1000 * torch.randn(40, generator=G)
    biased = tolerance(kernel, HIDDEN, WEIGHT, bias=bias)
    assert biased.bounds["running"].beyond == 0
    assert biased.bounds["running"].median > 1.5 * found.bounds["running"].median


# ---- the other operators -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_det_gemm(dtype):
    a, b = HIDDEN.to(DTYPES[dtype]), WEIGHT.to(DTYPES[dtype])
    kernel = wb.build("det_gemm", backend="twin")
    found = tolerance(kernel, a, b, op="det_gemm")
    assert found.shape == (6, 320, 40) and found.bounds["running"].beyond == 0
    assert found.tree_hash == declared_order("det_gemm", kernel.config, 320).hash
    wrong = tolerance(lambda x, y: kernel(x, y).flip(1), a, b, op="det_gemm", tree="any")
    assert wrong.bounds["worst_case"].beyond > 200


LOGITS = 20 * torch.randn(9, 130, generator=G)
TARGET = torch.randint(130, (9,), generator=G)


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_log_probs_of_given_logits(dtype):
    kernel = wb.build("batch_invariant_logp", backend="twin")
    logits = LOGITS.to(DTYPES[dtype])
    target = TARGET.clone()
    target[4] = -100
    found = tolerance(kernel, logits, op="batch_invariant_logp", target=target)
    assert found.outputs == 8 and list(found.bounds) == ["worst_case"], "one row is ignored"
    assert found.bounds["worst_case"].beyond == 0
    assert (
        found.cells[found.dtype].atol
        == contract().cell("forward_accuracy", "batch_invariant_logp", dtype).atol
    )

    def coarse(logits, target):  # exponentials kept in bf16: wrong, though not by much
        z = logits.float()
        e = (z - z.amax(-1, keepdim=True)).exp().bfloat16().float()
        shifted = z - z.amax(-1, keepdim=True) - e.sum(-1, keepdim=True).log()
        return shifted.gather(-1, target.clamp(min=0)[:, None])[:, 0]

    bad = tolerance(coarse, logits, op="batch_invariant_logp", target=target)
    assert bad.bounds["worst_case"].beyond > 0 and bad.order.startswith("exponentials: any order")


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_log_probs_from_hidden_states(dtype):
    operator = wb.ops.linear_logp.AscendLinearLogpOp()
    target = TARGET[:6] % 40
    found = tolerance(operator, HIDDEN, WEIGHT, op="linear_logp", dtype=dtype, target=target)
    assert list(found.bounds) == list(KINDS) and found.outputs == 6
    assert [b.beyond for b in found.bounds.values()] == [0, 0, 0]
    assert "logits: declared" in found.order and "exponentials: declared" in found.order
    shifted = tolerance(
        lambda h, w, t: operator(h, w, (t + 1) % 40),
        HIDDEN,
        WEIGHT,
        op="linear_logp",
        dtype=dtype,
        target=target,
    )
    assert shifted.bounds["worst_case"].beyond == 6


def test_the_bound_of_a_log_prob_is_that_of_linear_logp_for_the_same_logits():
    """`linear_logp_bounds` derives its logits' error itself; given that one, both must agree."""
    target = TARGET[:6] % 40
    height, softmax = 12, 9
    whole = linear_logp_bounds(HIDDEN, WEIGHT, target, heights=Heights(height, softmax, 0, 0))[
        "logp"
    ]
    z, scale = exact_linear(HIDDEN, WEIGHT)
    logp, bound = log_prob_bound(z, gamma(height + 1) * scale + 320 * TINY, target, softmax)
    assert torch.equal(raw_bits(logp), raw_bits(whole.exact))
    assert torch.equal(raw_bits(bound), raw_bits(whole.bound))


# ---- wrong use -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"atol": -HUGE}, "atol=-4.0"),
        ({"rtol": math.nan}, "rtol=nan"),
        ({"atol": math.inf}, "finite"),
        ({"op": "conv"}, "known: lm_head"),
        ({"op": "det_gemm"}, "give op='lm_head'"),
        ({"reference": "torch.sum"}, "'exact' or 'torch.mv'"),
        ({"tree": "declared"}, "give a ReductionTree"),
        ({"tree": ReductionTree.from_nested([0, 1])}, "the tree adds 2 terms"),
        ({"kind": "best"}, "worst_case, running"),
        ({"target": TARGET}, "no target"),
        ({"weight": None}, "needs a weight"),
        ({"weight": [1.0]}, "weight is list"),
        ({"hidden": [1.0], "dtype": "fp32"}, "hidden is list"),
        ({"hidden": torch.ones(())}, "no dimension"),
        ({"bias": torch.ones(1)}, r"bias is \[1\]"),
        ({"bias": torch.ones(40).double()}, "float64"),
        ({"fn": torch.nn.functional.linear, "delta": 7.0}, "delta=7.0"),
        (BEYOND, "range of fp32"),
        ({"weight": WEIGHT[:, :9]}, "do not fit"),
        ({"weight": WEIGHT.bfloat16()}, "give one dtype"),
        ({"hidden": HIDDEN[:0]}, "no outputs"),
        ({"hidden": HIDDEN.double()}, "the contract judges"),
        ({"dtype": "fp8"}, "out of the contract"),
        ({"fn": returning(torch.zeros(3))}, "wanted 6 x 40"),
        ({"fn": returning(torch.zeros(6, 40).double())}, "float64"),
        ({"fn": returning(None)}, "NoneType"),
        ({"op": "linear_logp", "fn": returning(None)}, "needs a target"),
        (
            {"op": "linear_logp", "fn": returning(None), "target": torch.full((6,), -100)},
            "every target is ignored",
        ),
        (
            {"op": "linear_logp", "fn": returning(torch.ones(6)), "target": torch.arange(6) + 99},
            "outside",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_words(kernel, given, words):
    call = {"fn": kernel, "hidden": HIDDEN, "weight": WEIGHT, **given}
    with pytest.raises(InputError, match=words):
        tolerance(call.pop("fn"), call.pop("hidden"), call.pop("weight"), **call)


def test_pairs_and_axes_that_do_not_fit_are_refused(found):
    with pytest.raises(InputError, match="rtol=-1"):
        found.at(0.0, -1.0)
    for axes in ([], [1.0, 0.5], [-1.0, 1.0], [0.0, math.nan, 1.0], [0.0, math.inf], ["a"]):
        with pytest.raises(InputError, match=r"atol|rtol"):
            found.grid(axes, [0.0])
        with pytest.raises(InputError, match=r"rtol"):
            found.grid([0.0], axes)


# ---- what is printed -----------------------------------------------------------------------------


def test_texts_and_json(found):
    data = json.loads(json_text(found.to_dict()))
    assert "scale" not in data and data["cells"]["fp32"]["atol"] == CELL.atol
    assert data["evidence"]["backend"] == "twin" and data["proposals"][0]["kind"] == "worst_case"
    assert str(found).startswith("Tolerance of lm_head at 6 x 320 x 40, fp32 -> fp32")
    assert [row["pair"] for row in found.rows()][:2] == ["chosen", "contract fp32"]
    assert "240 outputs flagged" in str(found.chosen) and "<table>" in found._repr_html_()
    page = found.chosen._repr_html_()
    assert "240 outputs flagged" in page and "in running bounds: least" in page
    assert "looseness_min" not in page and page.count("<tr>") == 7  # in words, one below another


@pytest.mark.parametrize("count", [1, 2, 7, 4096, 20_001, 50_000])
@pytest.mark.parametrize("kind", ["normal", "sorted", "ties", "blocks", "inf"])
def test_the_lower_median_against_all_in_order(kind, count):
    values = np.random.default_rng(count).standard_normal(count)
    if kind == "sorted":
        values.sort()
    elif kind == "ties":
        values = np.round(values)
    elif kind == "blocks":  # what stands at a sample's places is unlike the rest
        values[:: max(1, count // 4096)] += 9
    elif kind == "inf":
        values[count // 3 :] = np.inf
    assert lower_median(values) == sorted(values.tolist())[(count - 1) // 2]
    values[-1] = np.nan
    assert math.isnan(lower_median(values)) and math.isnan(lower_median(values[:0]))


def test_blocks_say_what_the_whole_says(kernel):
    """More outputs than a block, not a multiple of it; no error, NaN and Inf among them."""
    rows, columns = 37, 1801
    exact = torch.randn(rows, columns, generator=G)
    got = exact + 2.0**-22 * torch.randn(rows, columns, generator=G)
    got[:, 3], got[20, 5], got[30, 7] = exact[:, 3], math.nan, math.inf
    exact[4, 3] = got[4, 3] = 0.0  # no error, and with atol 0 no allowance
    bound = torch.rand(rows, columns, generator=G).double() * 2.0**-20
    bound[36, 1] = math.inf
    flat = Scale(Subject(got, exact, {"running": bound}, "", None, "", (rows, 1, columns), ()))
    for atol, rtol in ((0.0, 2.0**-22), (2.0**-22, 2.0**-24), (0.0, 0.0)):
        found = flat.at(atol, np.float32(rtol), "running")
        allowed = np.float32(atol) + np.float32(rtol) * abs(exact.numpy())
        with np.errstate(all="ignore"):
            size = abs(got.numpy() - exact.numpy())
            error = abs(got.double().numpy() - exact.double().numpy())
        b, outside = bound.numpy(), ~(size <= allowed)
        known = b < math.inf
        assert found.count == outside.sum() and found.below == (~(allowed.astype(float) >= b)).sum()
        assert found.false_alarms == (outside & (error <= b) & known).sum()
        assert found.missed == (~outside & ~(error <= b) & known).sum()
        loose = np.sort((allowed / b).ravel())
        assert found.looseness_median == loose[(loose.size - 1) // 2]
        assert (found.looseness_min, found.looseness_max) == (loose[0], loose[-1])
        assert found.far == (loose > FAR).sum()
        assert math.isnan(found.worst_ratio) and found.worst["row"] == 20
        assert type(found.count) is type(found.far) is int
    got[20, 5], got[30, 7] = exact[20, 5], exact[30, 7]
    flat = Scale(Subject(got, exact, {"running": bound}, "", None, "", (rows, 1, columns), ()))
    found = flat.at(2.0**-22, 0.0, "running")
    ratio = (got - exact).abs() / np.float32(2.0**-22)
    assert found.worst_ratio == float(ratio.max())
    assert found.worst["row"] * columns + found.worst["column"] == int(ratio.argmax())


@pytest.mark.serial
def test_a_pair_costs_no_more_than_judging_once():
    """A slider must feel live: at 160 x 4096 outputs a pair costs a few passes over them.

    One thread against torch's: on a busy machine those wait for each other, so the two are timed in
    turn and each at its best.
    """
    exact = torch.randn(160, 4096, generator=G).double()
    got = (exact + 2.0**-22 * torch.randn(160, 4096, generator=G)).float()
    limits = {"running": torch.rand(160, 4096, generator=G).double() * 2.0**-20}
    scale = Scale(Subject(got, exact.float(), limits, "", None, "", (160, 1, 4096), ()))

    def judged() -> None:
        contract().judge(got, exact, "forward_accuracy", "lm_head", "fp32")

    def asked() -> None:
        assert scale.at(CELL.atol, CELL.rtol, "running").outputs == 160 * 4096

    best = dict.fromkeys((judged, asked), math.inf)
    for _ in range(9):
        for call in best:
            start = time.perf_counter()
            call()
            best[call] = min(best[call], time.perf_counter() - start)
    assert best[asked] < 3 * best[judged]
