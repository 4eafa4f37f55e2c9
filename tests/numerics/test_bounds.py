"""The bounds of a sum in a known order: formulas found a second way, and every kind of input."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
import torch

from workbench.errors import InputError, WorkbenchError
from workbench.numerics.bounds import bounds
from workbench.numerics.bounds import parts as bounds_parts
from workbench.numerics.bounds.parts import KINDS, U, fusable, gamma
from workbench.numerics.bounds.study import errors_in, fused_order, random_order
from workbench.numerics.exact_sum import rounded_dot
from workbench.orders.dot import dot
from workbench.orders.standard import pairwise_order, reduce_sum, sequential_order
from workbench.orders.tree import ReductionTree

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
NAN, INF = float("nan"), float("inf")


pytestmark = pytest.mark.usefixtures("one_thread")


def draw(rows=3, hidden=64, vocab=50, seed=0, dtype=F32):
    g = torch.Generator().manual_seed(seed)
    x, w = torch.randn(rows, hidden, generator=g), torch.randn(vocab, hidden, generator=g)
    return x.to(dtype), w.to(dtype)


def by_fractions(tree: ReductionTree, x: np.ndarray, w: np.ndarray) -> dict[str, Fraction]:
    """The sums in the formulas, exactly: leaf by leaf and node by node, no array in sight."""
    products = [Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, w, strict=True)]
    values, depth = [*products], [0] * len(products)
    inside = [[i] for i in range(len(products))]
    for k in range(len(tree.offsets) - 1):
        node = tree.children[tree.offsets[k] : tree.offsets[k + 1]].tolist()
        values.append(sum((values[c] for c in node), Fraction(0)))
        inside.append([i for c in node for i in inside[c]])
        for i in inside[-1]:
            depth[i] += 1
    partial = values[len(products) :]
    g = [Fraction(d + 1, 2**24 - d - 1) for d in depth]
    return {
        "worst_case": sum(a * abs(p) for a, p in zip(g, products, strict=True)),
        "running": (sum(map(abs, partial)) + sum(map(abs, products))) / 2**24,
        "squares": (sum(s * s for s in partial) + sum(p * p for p in products)),
        "exact": values[-1],
        "partials": sum(map(abs, partial)),
        "max_partial": max(map(abs, values)),
    }


TREES = {
    "sequential": sequential_order(9),
    "pairwise": pairwise_order(9),
    "random": random_order(9, np.random.default_rng(3)),
    "fused": fused_order(9, 3),
}


@pytest.mark.parametrize("name", TREES)
def test_the_formulas_a_second_way(name):
    """Exact rationals give each bound from below; what is added stays of second order."""
    tree, (x, w) = TREES[name], draw(2, 9, 4)
    found, delta, m = bounds(tree, x, w), 1e-3, 8
    for i in range(2):
        for j in range(4):
            want = by_fractions(tree, x[i].numpy(), w[j].numpy())
            # c = (h + 1) u is the relative change of all sizes; three times it for what is added
            room = Fraction(1) + Fraction(3 * (tree.height + 2), 2**24) * 16
            for kind in ("worst_case", "running"):
                got = Fraction(float(found.get(kind)[i, j]))
                least = min(want[kind], want["worst_case"])
                assert least * (2 - room) <= got <= least * room, kind
            likely = U * np.sqrt(2 * np.log(2 * m / delta)) * np.sqrt(float(want["squares"]))
            likely = min(Fraction(likely), want["running"], want["worst_case"])
            got = Fraction(float(found.probabilistic[i, j]))
            assert likely * (2 - room) <= got <= likely * room
            assert abs(Fraction(float(found.exact[i, j])) - want["exact"]) <= Fraction(
                11 * float(found.scale[i, j])
            ) / (2**53)
            for part in ("partials", "max_partial"):
                got = Fraction(float(getattr(found, part)[i, j]))
                assert want[part] * (2 - room) <= got <= want[part] * room


def test_the_proved_bounds_are_not_below_the_formulas():
    """The worst case is no less than the exact rational, for each of many draws."""
    tree = random_order(9, np.random.default_rng(5))
    x, w = draw(1, 9, 60, seed=7)
    found = bounds(tree, x, w)
    for j in range(60):
        want = by_fractions(tree, x[0].numpy(), w[j].numpy())
        assert Fraction(float(found.worst_case[0, j])) >= want["worst_case"]
        least = min(want["worst_case"], want["running"])
        assert Fraction(float(found.running[0, j])) >= least


def test_they_are_ordered_and_at_most_the_bound_by_the_height():
    x, w = draw(3, 1024, 40)
    tree = reduce_sum(1024, 1)
    found = bounds(tree, x, w)
    assert (found.probabilistic <= found.running).all()
    assert (found.running <= found.worst_case).all()
    by_height = gamma(np.array([tree.height + 1])) * found.scale
    own = 1026 * 2.0**-52 * found.scale + 1024 * 2.0**-149
    assert (found.worst_case <= by_height + own).all()
    assert (found.worst_case < 0.8 * by_height).all(), "terms of less depth should count less"


def test_a_sum_of_two_nearly_reaches_its_bounds():
    x, w = draw(10, 2, 400)
    tree = sequential_order(2)
    found = bounds(tree, x, w)
    ratio = found.ratio(errors_in(tree, x, w, F32, False))
    assert all(0.8 < r <= 1 for r in ratio.values()), ratio


@pytest.mark.parametrize("scale", [1.0, 2.0**-60])
def test_controls_half_the_bound_another_order_and_a_lost_term(scale):
    x, w = draw(2, 256, 200)
    x = x * scale
    tree = sequential_order(256)
    error = errors_in(tree, x, w, F32, False)
    found = bounds(tree, x, w)
    assert set(found.violations(error).values()) == {0}
    two = bounds(sequential_order(2), x[:, :2], w[:, :2])
    near = errors_in(sequential_order(2), x[:, :2], w[:, :2], F32, False)
    assert two.violations(2 * near)["running"] > 0
    # The wrong tree: bounds of a lower one for errors of the sequential one, of one sign.
    flat = bounds(pairwise_order(256), x.abs(), w.abs())
    assert flat.violations(errors_in(tree, x.abs(), w.abs(), F32, False))["running"] > 0
    less = x.clone()
    less[:, 100] = 0
    lost = dot(tree, w.numpy(), less.numpy()).T - np.stack(
        [rounded_dot(w.numpy(), r) for r in x.numpy()]
    )
    assert found.violations(lost)["worst_case"] > 0.9 * lost.size


# ---- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [BF16, F16])
def test_products_of_16_bits_are_not_counted(dtype):
    x, w = draw(2, 64, 30, dtype=dtype)
    tree = pairwise_order(64)
    exact, rounded = bounds(tree, x, w), bounds(tree, x, w, products="rounded")
    assert (exact.products, rounded.products) == ("exact", "rounded")
    # Without them: u Σ|p| less in the running bound, one rounding less in the worst case.
    for kind in ("worst_case", "running"):
        less = rounded.get(kind) - exact.get(kind)
        assert (less > 0.9 * U * exact.scale).all() and (less < 1.1 * U * exact.scale).all()
    assert exact.violations(errors_in(tree, x, w, F32, False))["running"] == 0


def test_control_a_rounded_product_violates_the_bound_of_exact_ones():
    x, w = draw(5, 2, 400)
    tree = sequential_order(2)
    error = errors_in(tree, x, w, F32, False)
    assert bounds(tree, x, w, products="exact").violations(error)["worst_case"] > 0
    assert bounds(tree, x, w).violations(error)["worst_case"] == 0


def test_bf16_products_below_what_fp32_holds_may_lose_half_its_smallest():
    x = torch.full((1, 4), (1 + 2**-7) * 2.0**-70, dtype=BF16)
    w = torch.full((2, 4), (1 + 2**-7) * 2.0**-75, dtype=BF16)
    tree = pairwise_order(4)
    found, error = bounds(tree, x, w), errors_in(tree, x, w, F32, False)
    assert np.abs(error).min() > 0, "the case is to round a product"
    assert found.violations(error)["running"] == 0
    assert float(found.running[0, 0]) >= 4 * 2.0**-150
    above = bounds(tree, x * 2.0**40, w)
    # u Σ|s| and no more: of each pair 2 p, of the root 4 p, and the fp64 product's own error
    p = float(x[0, 0]) * 2.0**40 * float(w[0, 0])
    assert 8 * p * U <= float(above.running[0, 0]) <= 8 * p * U * (1 + 2**-16)


def test_fused_products_by_mask_and_by_rule():
    tree = sequential_order(64)
    x, w = draw(3, 64, 100)
    mask = fusable(tree)
    assert mask.tolist() == [False] + [True] * 63
    by_mask, by_rule = bounds(tree, x, w, fused=mask), bounds(tree, x, w, fused=True)
    assert by_mask.products == by_rule.products == "63 of 64 fused"
    assert (by_mask.running == by_rule.running).all()
    assert by_rule.violations(errors_in(tree, x, w, F32, True))["running"] == 0
    assert (by_rule.running < bounds(tree, x, w).running).all()


def test_a_fused_bound_fits_the_fused_sum_only():
    # (1 + a)² - (1 + 2 a) = a², which a rounded product loses.
    a = 2.0**-12
    x, w = torch.tensor([[1 + 2 * a, 1 + a]]), torch.tensor([[-1.0, 1 + a]])
    tree, mask = sequential_order(2), np.array([False, True])
    found = bounds(tree, x, w, fused=mask)
    once = dot(tree, w.numpy(), x[0].numpy(), mask) - found.exact[0]
    twice = dot(tree, w.numpy(), x[0].numpy()) - found.exact[0]
    assert found.violations(once[None])["running"] == 0 and once[0] == 0
    assert abs(twice[0]) == a * a <= bounds(tree, x, w).running[0, 0]
    single = bounds(
        sequential_order(1), torch.tensor([[1 + a]]), torch.tensor([[1 + a]]), fused=True
    )
    assert single.products == "rounded", "a product alone is rounded once"


@pytest.mark.parametrize(
    "fused", [np.ones(4, bool), [True, True, False, False], np.ones(3, bool), np.ones(4, int)]
)
def test_a_mask_that_no_multiply_add_fits_is_refused(fused):
    x, w = draw(1, 4, 1)
    with pytest.raises(InputError, match="fused"):
        bounds(pairwise_order(4), x, w, fused=np.asarray(fused))


# ---- outputs, bias, references -------------------------------------------------------------------


@pytest.mark.parametrize("out", [BF16, F16])
def test_the_output_is_rounded_once(out):
    x, w = draw(4, 96, 300)
    tree = pairwise_order(96)
    found, plain = bounds(tree, x, w, out_dtype=out), bounds(tree, x, w)
    unit = torch.finfo(out).eps / 2
    more = found.running - plain.running
    assert (more >= unit * np.abs(found.exact)).all()
    # The rounding of the sum's own error is the second-order part.
    assert (more <= unit * (np.abs(found.exact) + plain.running) * (1 + 2**-20) + 2.0**-25).all()
    error = errors_in(tree, x, w, out, False)
    ratio = found.ratio(error)
    assert 0.8 < ratio["running"] <= 1
    assert plain.violations(error)["running"] > 0.9 * error.size, "control: without the rounding"


def test_an_fp16_output_that_may_overflow_has_no_bound():
    w = torch.tensor([[65519.0], [65520 - 2.0**-8], [65520.0], [1.0], [2.0**-26]])
    found = bounds(sequential_order(1), torch.ones(1, 1), w, out_dtype=F16)
    assert np.isinf(found.running).tolist() == [[False, True, True, False, False]]
    assert found.unbounded == 2
    # (The second with its one rounding may be 65520, from which on fp16 gives Inf.)
    out = w.T.to(F16).double().numpy()
    assert found.violations(out - found.exact) == dict.fromkeys(KINDS, 0)
    assert found.running[0, 4] >= 2.0**-26  # a subnormal that becomes 0


def test_a_worst_case_that_may_overflow_leaves_the_running_bound():
    """Ones of alternating sign: a long sum whose partial sums are small."""
    n = 2**14
    x = torch.ones(1, n)
    x[0, 1::2] = -1
    x[0, -2:] = torch.tensor([65515.0, 0.0])
    found = bounds(sequential_order(n), x, torch.ones(1, n), out_dtype=F16)
    assert np.isinf(found.worst_case[0, 0]) and np.isfinite(found.running[0, 0])
    assert found.unbounded == 0 and found.rows()[0]["max"] == 0
    rounded = np.array([[65504.0]]) - found.exact
    assert found.violations(rounded) == dict.fromkeys(KINDS, 0)


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_bias_is_one_more_node(dtype):
    x, w = draw(3, 64, 200)
    b = (5000 * torch.randn(200, generator=torch.Generator().manual_seed(2))).to(dtype)
    tree = reduce_sum(64, 1)
    found, plain = bounds(tree, x, w, bias=b), bounds(tree, x, w)
    sums = dot(tree, w.numpy(), x.numpy()).T
    wide = np.concatenate([w.numpy(), b.float().numpy()[:, None]], 1)
    exact = np.stack([rounded_dot(wide, np.append(r, np.float32(1))) for r in x.numpy()])
    error = (sums + b.float().numpy()).astype(np.float64) - exact
    assert found.violations(error)["running"] == 0
    assert plain.violations(error)["probabilistic"] > 0, "control: the bias rounds"
    assert (found.scale == plain.scale + b.double().abs().numpy()).all()
    assert (found.partials > plain.partials).all() and (found.worst_case > plain.worst_case).all()


@pytest.mark.parametrize("out", [F32, BF16])
def test_a_bias_counts_as_a_term_added_last(out):
    """The same sum written as a tree with one leaf more, whose product by 1 is exact."""
    x, w = draw(3, 40, 30, dtype=F16)
    b = torch.randn(30, generator=torch.Generator().manual_seed(4)).to(F16)
    tree = reduce_sum(40, 1)
    longer = ReductionTree.from_nested([tree.to_nested(), 40])
    wide_x = torch.cat([x, torch.ones(3, 1, dtype=F16)], 1)
    wide_w = torch.cat([w, b[:, None]], 1)
    by_bias = bounds(tree, x, w, bias=b, out_dtype=out)
    by_leaf = bounds(longer, wide_x, wide_w, out_dtype=out)
    for kind in KINDS:
        # They differ by what fp64 rounds, 2^-29 of one fp32 rounding for each term.
        apart = np.abs(by_bias.get(kind) - by_leaf.get(kind))
        assert (apart <= by_leaf.get(kind) * 40 * 2.0**-29).all()
    assert (by_bias.max_partial == by_leaf.max_partial).all()


def test_the_error_of_the_fp64_value_is_paid_for():
    """Pairs that cancel exactly: no fp32 rounding at all, but fp64 sums in another order round."""
    n = 4096
    x, w = draw(2, n, 20, dtype=BF16)
    x[:, 1::2] = x[:, ::2]
    w[:, 1::2] = -w[:, ::2]
    found = bounds(pairwise_order(n), x, w)
    assert not found.partials.any(), "the case is that every partial sum is 0"
    assert (found.running >= n * 2.0**-53 * found.scale).all()
    assert (found.running <= 2 * n * 2.0**-53 * found.scale).all()
    assert found.violations(-found.exact) == dict.fromkeys(KINDS, 0)


def test_two_sided_against_another_tree():
    x, w = draw(3, 2048, 100)
    one, other = pairwise_order(2048), sequential_order(2048)
    found = bounds(one, x, w, reference=other)
    alone = [bounds(t, x, w) for t in (one, other)]
    for kind in ("worst_case", "running"):
        assert (found.get(kind) == alone[0].get(kind) + alone[1].get(kind)).all()
    # Either of the two may exceed its own probabilistic bound: each has half of delta.
    assert (found.probabilistic > alone[0].probabilistic + alone[1].probabilistic).all()
    difference = errors_in(one, x, w, F32, False) - errors_in(other, x, w, F32, False)
    assert found.violations(difference) == dict.fromkeys(KINDS, 0)
    assert alone[0].violations(difference)["probabilistic"] > 0, "control: one side only"
    assert found.reference == f"tree {other.hash}"


@pytest.mark.parametrize("reference", ["any order", "torch.mv", "torch.matmul", "F.linear"])
def test_against_an_order_nobody_knows(reference):
    x, w = draw(3, 300, 100)
    tree = reduce_sum(300, 1)
    found, alone = bounds(tree, x, w, reference=reference), bounds(tree, x, w)
    least = float(gamma(np.array([300]))[0]) * alone.scale
    for kind in KINDS:
        assert (found.get(kind) >= alone.get(kind) + least).all()
    got = torch.stack([torch.mv(w, row) for row in x]).double().numpy()
    mine = dot(tree, w.numpy(), x.numpy()).T
    assert found.violations(mine - got) == dict.fromkeys(KINDS, 0)


@pytest.mark.parametrize("reference", [F32, BF16, F16])
def test_against_the_exact_value_rounded(reference):
    x, w = draw(2, 32, 80)
    tree = pairwise_order(32)
    found = bounds(tree, x, w, reference=reference)
    rounded = torch.from_numpy(found.exact).to(reference).double().numpy()
    error = errors_in(tree, x, w, F32, False) + found.exact - rounded
    assert found.violations(error)["running"] == 0
    if reference != F32:
        assert bounds(tree, x, w).violations(error)["running"] > 0, "control"
    wide = bounds(tree, x, w, reference=torch.float64)
    assert (wide.running == bounds(tree, x, w, reference="exact").running).all()


# ---- what has no bound ---------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [INF, -INF, NAN])
def test_an_operand_that_is_not_finite_gives_no_bound_in_its_row(bad):
    x, w = draw(3, 16, 5)
    x[1, 3] = bad
    found = bounds(pairwise_order(16), x, w)
    for kind in KINDS:
        assert np.isinf(found.get(kind)).all(1).tolist() == [False, True, False]
        assert np.isfinite(found.get(kind)).all(1).tolist() == [True, False, True]
    assert found.unbounded == 5 and "5 outputs without a bound" in str(found)


def test_overflow_on_the_way_has_no_bound_and_just_below_has_one():
    top = torch.finfo(F32).max
    x = torch.tensor([[1.0, 1.0, -1.0]])
    w = torch.tensor([[top, top, top], [top / 2, top / 4, top / 8], [top, 0.0, top]])
    found = bounds(sequential_order(3), x, w)
    sums = dot(sequential_order(3), w.numpy(), x[0].numpy())
    assert np.isinf(found.running).tolist() == [[True, False, True]]
    assert not np.isfinite(sums[0]), "the first does overflow"
    # (The last does not, but the largest number with any error on it might.)
    assert found.violations((sums - found.exact)[:1])["worst_case"] == 0
    w = torch.tensor([[0.6 * top, -0.6 * top, -0.6 * top]])
    assert np.isfinite(bounds(sequential_order(3), x, w).running).all()
    either = bounds(sequential_order(3), x, w, reference="torch.mv")
    assert np.isinf(either.running).all(), "in another order it does overflow"


def test_a_nan_where_a_bound_stands_is_a_violation():
    x, w = draw(1, 8, 3)
    found = bounds(pairwise_order(8), x, w)
    error = np.zeros((1, 3))
    assert found.ratio(error) == dict.fromkeys(KINDS, 0.0)
    error[0, 1] = NAN
    assert found.violations(error) == dict.fromkeys(KINDS, 1)
    assert found.ratio(torch.from_numpy(error))["running"] == INF
    zeros = bounds(pairwise_order(8), torch.zeros(1, 8, dtype=F16), w.to(F16))
    assert zeros.violations(np.full((1, 3), 2.0**-200))["running"] == 3, "a bound of 0 is one"
    assert zeros.violations(np.zeros((1, 3)))["running"] == 0


# ---- input and output ----------------------------------------------------------------------------


def test_chunks_change_nothing(monkeypatch):
    x, w = draw(7, 33, 21)
    tree = random_order(33, np.random.default_rng(0))
    whole = bounds(tree, x, w)
    for size in (1, 65 * 4 * 5, 65 * 4 * 50):
        monkeypatch.setattr(bounds_parts, "_VALUES_BYTES", size)
        monkeypatch.setattr(bounds_parts, "_WEIGHT_ROWS", 4)
        monkeypatch.setattr(bounds_parts, "_BLOCK_BYTES", 8 * 40)
        part = bounds(tree, x, w)
        assert (part.max_partial == whole.max_partial).all()
        # Sums of other lengths round differently in fp64, by what the bounds allow for.
        assert (np.abs(part.partials - whole.partials) <= 33 * 2.0**-52 * whole.partials).all()
        assert (np.abs(part.running - whole.running) <= 99 * 2.0**-50 * whole.running).all()


@pytest.mark.parametrize("shape", [(0, 4, 3), (2, 4, 0), (2, 0, 3), (2, 1, 3), (0, 0, 0)])
def test_empty_and_single(shape):
    n, h, v = shape
    found = bounds(sequential_order(h), torch.ones(n, h), torch.ones(v, h))
    assert found.shape == shape and found.running.shape == (n, v)
    assert found.warnings == () and found.violations(np.zeros((n, v)))["running"] == 0
    assert len(found.rows()) == 3 and str(found)
    if h == 0:
        assert not found.worst_case.any()


def test_leading_axes_mixed_dtypes_and_strides():
    x, w = draw(6, 16, 5)
    plain = bounds(pairwise_order(16), x, w)
    led = bounds(pairwise_order(16), x.reshape(2, 3, 16), w)
    assert led.shape == (6, 16, 5) and (led.running == plain.running).all()
    assert led.violations(torch.zeros(2, 3, 5))["running"] == 0
    strided = bounds(pairwise_order(16), x.T.contiguous().T, w.T.contiguous().T)
    assert (strided.partials == plain.partials).all()
    mixed = bounds(pairwise_order(16), x, w.to(BF16))
    assert (mixed.products, mixed.dtype) == ("rounded", "float32")
    grad = bounds(pairwise_order(16), x.clone().requires_grad_(), w)
    assert (grad.running == plain.running).all()


def test_the_result_says_what_it_is():
    x, w = draw(2, 16, 5)
    found = bounds(pairwise_order(16), x, w, 0.01, out_dtype=BF16)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["basis"] == found.basis == "running"
    assert told["delta"] == 0.01 and told["out_dtype"] == "bfloat16"
    assert told["tree_hash"] == pairwise_order(16).hash and "worst_case" not in told
    assert [r["bound"] for r in told["bounds"]] == list(KINDS)
    assert found.trusted == KINDS and "running" in found._repr_html_()
    assert found.evidence.target == "bounds" and len(found.evidence.fixture_id) == 16
    doubted = bounds(sequential_order(512), torch.full((1, 512), 0.1), torch.ones(1, 512))
    assert doubted.trusted == KINDS[:2] and "<li>" in doubted._repr_html_()
    with pytest.raises(InputError, match="no bound 'tight'"):
        found.get("tight")
    with pytest.raises(InputError, match="2 x 5 outputs"):
        found.ratio(np.zeros((5, 2)))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"tree": "[[0,1],2]"}, "tree is a str"),
        ({"tree": pairwise_order(15)}, "tree adds 15 terms"),
        ({"hidden": torch.ones(2, 16).double()}, "hidden has dtype"),
        ({"weight": torch.ones(5, 16, dtype=torch.int32)}, "weight has dtype"),
        ({"weight": torch.ones(5, 15)}, r"\[V, H\] of one H"),
        ({"weight": torch.ones(16)}, r"\[V, H\] of one H"),
        ({"bias": torch.ones(4)}, "bias is"),
        ({"delta": 0}, "probability"),
        ({"delta": 1.0}, "probability"),
        ({"delta": NAN}, "probability"),
        ({"out_dtype": torch.float64}, "out_dtype"),
        ({"products": "some"}, "products"),
        ({"reference": "torch.dot"}, "none of"),
        ({"reference": torch.int8}, "no dtype of a logit"),
        ({"reference": pairwise_order(15)}, "reference adds 15 terms"),
    ],
)
def test_what_does_not_fit_is_refused(change, match):
    x, w = draw(2, 16, 5)
    given = {"tree": pairwise_order(16), "hidden": x, "weight": w} | change
    with pytest.raises(InputError, match=match):
        bounds(given.pop("tree"), given.pop("hidden"), given.pop("weight"), **given)


def test_a_thread_that_flushes_subnormals_is_refused():
    x, w = draw(1, 4, 1)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush")
    try:
        with pytest.raises(WorkbenchError, match="flush"):
            bounds(pairwise_order(4), x, w)
    finally:
        torch.set_flush_denormal(False)


def test_gamma_ends_where_nothing_is_known():
    assert gamma(np.array([2])).tolist() == [2 * U / (1 - 2 * U)]
    with pytest.raises(InputError, match="2\\^24"):
        gamma(np.array([2**24]))
