"""`reveal` finds known orders, and refuses what has none. The sums owe nothing to ReductionTree."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from adders import adder, aligned_node, exact_node, random_nested

from workbench.errors import InputError
from workbench.orders.reveal import RevealError, confirm, probing, reveal
from workbench.orders.reveal.positive import reveal_positive
from workbench.orders.reveal.targets import Target
from workbench.orders.tree import ReductionTree, adjacent_pairs, sequential


def found(fn, n, **options):
    return reveal(fn, n, **{"array": "numpy", **options})


# ---- orders that are known -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_random_binary_orders(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 80))
    nested = random_nested(n, rng)
    tree = found(adder(nested), n, seed=seed)
    assert tree == ReductionTree.from_nested(nested)
    assert tree.report.arithmetic == "fp32 sums"


def test_a_random_order_of_2000_terms():
    nested = random_nested(2000, np.random.default_rng(1))
    tree = found(adder(nested), 2000)
    assert tree == ReductionTree.from_nested(nested) and tree.report.calls < 100


@pytest.mark.parametrize("fused", [exact_node, aligned_node])
@pytest.mark.parametrize("most", [3, 5, 9])
def test_random_orders_with_fused_nodes(fused, most):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 50))
        nested = random_nested(n, rng, most)
        tree = found(adder(nested, fused), n, seed=seed)
        assert tree == ReductionTree.from_nested(nested), (seed, nested)
        if tree.arity > 2:
            assert set(tree.report.fused) == {"exact" if fused is exact_node else "aligned"}


def chunked(n: int, width: int, inside):
    """An accumulator that takes `width` terms at a time, in one fused node with it."""
    total: list = list(range(width))
    for at in range(width, n, width):
        total = inside(total, list(range(at, min(at + width, n))))
    return total


@pytest.mark.parametrize("width", [4, 8, 16])
@pytest.mark.parametrize("fused", [exact_node, aligned_node])
def test_fused_adders_with_an_accumulator(width, fused):
    with_it = chunked(160, width, lambda total, new: [total, *new])
    apart = chunked(160, width, lambda total, new: [total, new])
    for nested in (with_it, apart):
        tree = found(adder(nested, fused), 160)
        assert tree == ReductionTree.from_nested(nested)
        assert tree.report.rounds < 12
    assert ReductionTree.from_nested(with_it) != ReductionTree.from_nested(apart)


def test_an_exact_node_told_from_its_mirror_image():
    """Both give the same counts for every pair; which units are lost differs."""
    for nested in ([[2, 1, 0], 4, 3, 5], [[4, 3, 5], 0, 1, 2]):
        assert found(adder(nested), 6) == ReductionTree.from_nested(nested)


def test_without_the_question_about_sides_the_mirror_image_is_taken(monkeypatch):
    """The control of the test above."""
    monkeypatch.setattr(
        confirm.Prober, "side", lambda self, asked: np.zeros(len(asked.i), np.int64)
    )
    wrong = 0
    for seed in range(8):
        try:
            tree = found(adder([[2, 1, 0], 4, 3, 5]), 6, seed=seed, check=False)
            wrong += tree != ReductionTree.from_nested([[2, 1, 0], 4, 3, 5])
        except RevealError:
            wrong += 1
    assert wrong


def left_to_right(terms):
    return np.cumsum(terms, axis=1, dtype=np.float32)[:, -1]


def right_to_left(terms):
    return np.cumsum(terms[:, ::-1], axis=1, dtype=np.float32)[:, -1]


@pytest.mark.parametrize("way", [1, -1])
def test_ten_thousand_terms_in_a_row(way):
    def in_a_row(terms):  # along the first axis numpy adds whole rows, one after the other
        return np.add.reduce(np.ascontiguousarray(terms[:, ::way].T), axis=0)

    tree = found(in_a_row, 10_000, check=False)
    assert tree == ReductionTree.from_nested(sequential(range(10_000)[::way]))
    assert tree.report.rounds < 40


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_few_terms(n):
    tree = found(left_to_right, n)
    assert tree == ReductionTree.from_nested(sequential(range(n)) if n else [])
    assert tree.report.probes in ((0,), (0,), (1,), (2, 3))[n]


@pytest.mark.parametrize("seed", range(4))
def test_the_seed_chooses_pivots_and_not_the_order(seed):
    nested = adjacent_pairs(range(100))
    tree = found(adder(nested), 100, seed=seed)
    assert tree.to_json() == ReductionTree.from_nested(nested).to_json()


def test_batches_change_calls_only():
    nested = random_nested(60, np.random.default_rng(3))
    small = found(adder(nested), 60, batch_bytes=60 * 4 * 7)
    large = found(adder(nested), 60)
    assert small == large and small.report.probes == large.report.probes
    assert small.report.calls > large.report.calls
    assert large.report.calls == large.report.rounds


def test_a_revealed_tree_is_a_value():
    tree = found(left_to_right, 5)
    again = pickle.loads(pickle.dumps(tree))
    assert again == tree and again.report.checks == tree.report.checks
    assert tree == ReductionTree.from_nested(sequential(range(5)))
    text = str(tree.report)
    assert "left_to_right" in text and "repeat their bits" in text
    page = tree.report._repr_html_()
    assert "<td>" in page and "calls and" in page and "check_calls" not in page  # in words
    assert tree.report.to_dict()["evidence"]["target"] == "left_to_right"


# ---- what the results can count ------------------------------------------------------------------


@pytest.mark.parametrize("fused", [exact_node, aligned_node])
def test_units_in_parts_find_the_same(fused, monkeypatch):
    """Results that hold 5 units at most: the subset is asked about in parts."""
    monkeypatch.setattr(confirm.Prober, "_count", lambda self, rng: 5)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(6, 40))
        nested = random_nested(n, rng, 5)
        tree = found(adder(nested, fused), n, seed=seed)
        assert tree == ReductionTree.from_nested(nested), (seed, nested)
        assert tree.report.units == "at most 5"


def test_an_fp16_accumulator_above_2048_terms():
    def fp16(terms):
        return np.cumsum(terms, axis=1, dtype=np.float16)[:, -1]

    tree = found(fp16, 2500, dtype="fp16")
    assert tree == ReductionTree.from_nested(sequential(range(2500)))
    assert tree.report.units == "at most 2048" and tree.report.arithmetic == "fp16 sums"


def test_counting_beyond_the_results_would_be_wrong(monkeypatch):
    """The control: with all units at once an fp16 result rounds the counts above 2048."""
    monkeypatch.setattr(confirm, "counts_exactly", lambda target: 1 << 24)

    def fp16(terms):
        return np.cumsum(terms, axis=1, dtype=np.float16)[:, -1]

    tree = found(fp16, 2100, dtype="fp16", check=False)
    assert tree != ReductionTree.from_nested(sequential(range(2100)))


def test_a_narrower_accumulator_than_the_results():
    def inside(terms):  # fp32 results of sums in fp16
        return np.cumsum(terms.astype(np.float16), axis=1, dtype=np.float16)[:, -1].astype("f4")

    with pytest.raises(RevealError, match="shorter range") as error:
        found(inside, 50)
    assert error.value.reason == "accumulator too narrow"
    tree = found(inside, 2500, dtype="fp16")
    assert tree == ReductionTree.from_nested(sequential(range(2500)))
    assert tree.report.units == "at most 2048"


def test_a_wider_accumulator_is_said():
    def wide(terms):
        return np.cumsum(terms, axis=1, dtype=np.float64)[:, -1].astype(np.float32)

    tree = found(wide, 70)
    assert tree == ReductionTree.from_nested(sequential(range(70)))
    assert tree.report.arithmetic == "fp64 sums, rounded to fp32"


def test_some_nodes_in_fp64():
    """As OpenBLAS's sdot: a body in fp32, and a tail that is added in fp64."""

    def tail_in_fp64(terms):
        body = np.cumsum(terms[:, :32], axis=1, dtype=np.float32)[:, -1:].astype(np.float64)
        rest = np.concatenate([body, terms[:, 32:].astype(np.float64)], axis=1)
        return np.cumsum(rest, axis=1)[:, -1].astype(np.float32)

    tree = found(tail_in_fp64, 40)
    assert tree == ReductionTree.from_nested(sequential(range(40)))
    assert tree.report.arithmetic == "fp32 sums, 7 of 39 nodes in fp64"


def test_other_rounding_is_not_called_plain():
    tree = found(adder(sequential(range(40)), fused=None), 40)
    assert tree.report.arithmetic == "fp32 sums"

    def cut(terms):  # terms lose their last bits first
        kept = (terms.view(np.int32) & np.int32(-(1 << 13))).view(np.float32)
        return left_to_right(kept)

    with pytest.raises(RevealError, match="does not explain ordinary sums") as error:
        found(cut, 40)
    assert error.value.reason == "unexplained"
    with pytest.warns(UserWarning, match="not plain sums"):
        tree = found(cut, 40, unexplained="warn")
    assert tree == ReductionTree.from_nested(sequential(range(40)))
    assert tree.report.arithmetic is None and "not plain sums" in tree.report.checks[-1]


def test_fsum_is_one_exact_node():
    tree = found(lambda terms: np.array([math.fsum(r) for r in terms], np.float32), 200)
    assert tree.height == 1 and tree.report.fused == {"exact": 1}
    assert tree.report.arithmetic == "fp32 sums"


def neumaier(terms):
    """Nearly exact: what an addition loses is summed beside it, in fp32."""
    total, lost = terms[:, 0].copy(), np.zeros(len(terms), np.float32)
    for x in terms.T[1:]:
        new = total + x
        first = np.abs(total) >= np.abs(x)
        lost += np.where(first, (total - new) + x, (x - new) + total)
        total = new
    return total + lost


@pytest.mark.parametrize("n", [5, 20, 100])
def test_a_sum_that_is_nearly_exact_is_not_called_exact(n):
    """It has the bits of an exact node on N(0, 1), and on terms of mixed scales."""
    with pytest.raises(RevealError, match=r"those of N\(0, 1\), mixed scales.* are explained") as e:
        found(neumaier, n)
    assert e.value.reason == "unexplained"
    tree = found(neumaier, n, unexplained="allow")
    assert tree.height == 1 and tree.report.fused == {"exact": 1}
    assert tree.report.arithmetic is None and "not plain sums" in tree.report.checks[-1]


# ---- refused -------------------------------------------------------------------------------------


def until_zero(terms):
    """Stops where the sum so far is 0."""
    total = terms[:, 0].copy()
    done = total == 0
    for x in terms.T[1:]:
        total = np.where(done, total, total + x)
        done |= total == 0
    return total


def by_sign(terms):
    return np.where((terms > 0).all(1), right_to_left(terms), left_to_right(terms))


def by_any_sign(terms):
    return np.where((terms < 0).any(1), right_to_left(terms), left_to_right(terms))


def in_fp64_unless_large(terms):
    large = np.abs(terms).max(1) > 2.0**50
    wide = np.cumsum(terms, axis=1, dtype=np.float64)[:, -1].astype(np.float32)
    return np.where(large, right_to_left(terms), wide)


def exact_unless_large(terms):
    large = np.abs(terms).max(1) > 2.0**50
    exact = np.array([math.fsum(row) for row in terms.astype(float)], np.float32)
    return np.where(large, right_to_left(terms), exact)


def without_zeros(terms):
    """Neighbours in pairs, zeros left out first."""
    return np.array([pairs_of(row[row != 0]) for row in terms], np.float32)


def pairs_of(row):
    while len(row) > 1:
        odd = row[len(row) - len(row) % 2 :]
        row = np.concatenate([row[: len(row) - len(odd)].reshape(-1, 2).sum(1), odd])
    return row[0] if len(row) else np.float32(0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n", [3, 9, 16, 32, 48])
def test_what_large_values_hide_is_refused(n, seed):
    """None of these has the bits of any sum along the order that its large values show."""
    chosen = [by_value, until_zero, by_sign, by_any_sign, in_fp64_unless_large, exact_unless_large]
    for fn in [*chosen, *([without_zeros] if n > 3 else [])]:
        with pytest.raises(RevealError) as error:
            found(fn, n, seed=seed)
        reasons = "unexplained", "value-dependent", "not a sum", "inconsistent"
        assert error.value.reason in reasons, (fn.__name__, str(error.value))


def test_the_refusal_says_which_sums_differ():
    with pytest.raises(RevealError, match=r"differ .*of positive terms.* are explained") as error:
        found(by_sign, 9)
    assert error.value.reason == "unexplained" and 'unexplained="warn"' in str(error.value)
    assert found(by_sign, 9, unexplained="allow").report.arithmetic is None
    assert found(by_sign, 9, check=False) == found(left_to_right, 9)
    with pytest.raises(InputError, match="unexplained='no'"):
        found(by_sign, 9, unexplained="no")


@pytest.mark.parametrize(("bits", "nearest"), [(24, False), (25, True), (26, False)])
def test_fused_adders_that_cut_are_named_as_what_they_are(bits, nearest):
    def node(values):  # by integers: multiples of 2^(e - bits), e the largest exponent
        out = []
        for row in zip(*[v.astype(float).tolist() for v in values], strict=True):
            e = math.frexp(max(map(abs, row)))[1]
            whole = sum(int(math.ldexp(x, bits - e)) for x in row)
            exact = math.ldexp(whole, e - bits)
            near = np.float32(exact)
            if not nearest and abs(float(near)) > abs(exact):
                near = np.nextafter(near, np.float32(0))
            out.append(near)
        return np.array(out, np.float32)

    nested = chunked(24, 4, lambda total, new: [total, *new])
    tree = found(adder(nested, node), 24)
    assert tree == ReductionTree.from_nested(nested)
    way = "to nearest even" if nearest else "toward zero"
    assert f"keep {bits} bits" in tree.report.arithmetic and way in tree.report.arithmetic
    cut_up = adder(nested, lambda values: np.nextafter(node(values), np.float32(np.inf)))
    with pytest.raises(RevealError):  # its control: a node one ulp off has no model
        found(cut_up, 24)


def test_bf16_sums():
    def sums(terms):
        total = terms[:, 0].clone()
        for k in range(1, terms.shape[1]):
            total = total + terms[:, k]
        return total

    tree = reveal(sums, 40, dtype="bf16")
    assert tree.report.arithmetic == "bf16 sums"


@pytest.mark.parametrize("few", [False, True])
def test_a_function_that_writes_into_some_calls_only(few):
    def writes(terms):
        if len(terms) > 50 or (few and len(terms) == 3):
            terms[0] = terms[0][::-1].copy()  # the same sum of the bits
        return left_to_right(terms)

    with pytest.raises(RevealError, match=r"changes the terms it is given \(seen in call") as error:
        found(writes, 100)
    assert error.value.reason == "changes its argument"


def test_the_report_says_how_many_calls_it_rests_on():
    calls = []

    def counted(terms):
        calls.append(len(terms))
        return left_to_right(terms)

    tree = found(counted, 9)
    (note,) = [check for check in tree.report.checks if "calls" in check]
    assert f"in {len(calls)} calls" in note


def test_a_sum_of_sizes_is_called_that():
    with pytest.raises(RevealError, match="gives 8 for the terms 4 and -4") as error:
        found(lambda terms: np.abs(terms).sum(1), 9)
    assert error.value.reason == "not a sum"


@pytest.mark.parametrize("where", ["root", "inside"])
def test_a_wide_node_that_aligns_takes_no_round_a_term(where):
    nested = list(range(1500)) if where == "root" else [[*range(1499)], 1499]
    rounds = []

    def counted(terms):
        rounds.append(len(terms))
        return adder(nested, aligned_node)(terms)

    tree = found(counted, 1500)
    assert tree == ReductionTree.from_nested(nested)
    assert tree.report.rounds < 8 and "random pairs" in " ".join(tree.report.checks)


def test_a_sorting_sum_in_fp64_is_refused_at_once():
    def sums(terms):
        return np.cumsum(np.sort(terms, 1), axis=1, dtype=np.float64)[:, -1].astype(np.float32)

    with pytest.raises(RevealError) as error:
        found(sums, 2000)
    assert error.value.reason in ("unexplained", "value-dependent")


DRAWS = np.random.default_rng(0)


def shuffled(terms):
    return left_to_right(terms[:, DRAWS.permutation(terms.shape[1])])


def by_value(terms):
    return left_to_right(np.sort(terms, axis=1))


def by_size(terms):
    order = np.argsort(-np.abs(terms), axis=1, kind="stable")
    return left_to_right(np.take_along_axis(terms, order, 1))


def branching(terms):
    large = np.abs(terms).max(1) > 100
    return np.where(large, left_to_right(terms), right_to_left(terms))


def kahan(terms):
    total, carried = np.zeros((2, len(terms)), np.float32)
    for x in terms.T:
        y = x - carried
        new = total + y
        carried = (new - total) - y
        total = new
    return total


def in_place(terms):
    for k in range(1, terms.shape[1]):
        terms[:, 0] += terms[:, k]
    return terms[:, 0].copy()


def of_the_batch(terms):
    return left_to_right(terms) if len(terms) % 2 else right_to_left(terms)


def of_the_place(terms):
    out = left_to_right(terms)
    out[-1] = right_to_left(terms)[-1]
    return out


def of_the_neighbours(terms):
    return np.cumsum(left_to_right(terms))


def of_the_magnitude(terms):
    """Another order where the largest term is beyond 2^100: found by other probes."""
    large = np.abs(terms).max(1) > 2.0**100
    return np.where(large, left_to_right(terms), right_to_left(terms))


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (shuffled, "not repeatable"),
        (by_value, "value-dependent"),
        (by_size, "value-dependent"),
        (branching, "value-dependent"),
        (of_the_magnitude, "value-dependent"),
        (kahan, "compensated"),
        (in_place, "changes its argument"),
        (of_the_batch, "rows not independent"),
        (of_the_place, "rows not independent"),
        (of_the_neighbours, "rows not independent"),
        (lambda terms: terms.mean(1), "not a sum"),
        (lambda terms: left_to_right(terms) + 1, "not a sum"),
        (lambda terms: 2 * left_to_right(terms), "not a sum"),
        (lambda terms: terms.max(1), "not a sum"),
        (lambda terms: left_to_right(terms[:, :-1]), "not a sum"),
        (lambda terms: terms.sum(), "not a sum"),
        (lambda terms: 3, "not a sum"),
        (lambda terms: terms.nothing, "raised"),
    ],
)
def test_what_is_no_sum_in_one_order_is_refused(fn, reason):
    with pytest.raises(RevealError) as error:
        found(fn, 100)
    assert error.value.reason == reason, str(error.value)


def test_a_large_sorting_sum_is_refused_at_once():
    """Taking one node of 3,000 terms apart would cost 3,000 rounds."""
    calls = []

    def counted(terms):
        calls.append(len(terms))
        return by_value(terms)

    with pytest.raises(RevealError, match="sorts its terms"):
        found(counted, 3000)
    assert len(calls) < 40


def test_the_message_for_rows_says_what_to_do_and_that_works():
    with pytest.raises(RevealError, match=r"rows=N, row=r"):
        found(of_the_place, 60)
    forward, backward = (ReductionTree.from_nested(sequential(range(60)[::w])) for w in (1, -1))
    assert found(of_the_place, 60, rows=4, row=2) == forward
    assert found(of_the_place, 60, rows=4, row=3) == backward


def toward_zero(terms):
    """A sequential sum; where rounding to nearest went away from zero, the number before."""
    total = terms[:, 0].copy()
    for x in terms.T[1:]:
        near = total + x
        error = (total.astype(np.float64) - near) + x
        away = (error != 0) & (np.sign(error) == -np.sign(near))
        total = np.where(away, np.nextafter(near, np.float32(0)), near)
    return total


def test_sums_rounded_toward_zero_are_refused_with_the_way_that_takes_them():
    with pytest.raises(RevealError, match="reveal_positive"):
        found(toward_zero, 30)
    assert reveal_positive(toward_zero, 30) == ReductionTree.from_nested(sequential(range(30)))


def test_answers_that_fit_no_tree_are_refused():
    def ask(asked: probing.Round) -> np.ndarray:  # 3 lost for every pair of 5 terms
        return np.full(len(asked.i), 3)

    with pytest.raises(RevealError, match="fit no tree") as error:
        probing.discover(5, ask, lambda asked: ask(asked) - 1, np.random.default_rng(0))
    assert error.value.reason == "inconsistent"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n": -1}, "0 or more terms"),
        ({"n": 2.5}, "a whole number"),
        ({"fn": Target("mine", 5, "fp32", "numpy", lambda terms, fixed: terms)}, "of 5 terms"),
        ({"dtype": "int8"}, "wanted one of fp32"),
        ({"array": "list"}, "wanted 'auto'"),
        ({"batch_bytes": 0}, "at least one row"),
        ({"rows": 0}, "wanted 1 or more"),
        ({"rows": 3, "row": 3}, "wanted 0 to 2"),
        ({"columns": 2}, "rows only"),
        ({"fn": 5}, "is a int"),
        ({"fn": "numpy.prod"}, "is unknown"),
        ({"fn": "torch.dot", "rows": 2}, "has one output"),
        ({"fn": "torch.mv", "columns": 2}, "has no columns"),
        ({"fn": "numpy.sum", "dtype": "bf16"}, "has no bf16"),
    ],
)
def test_wrong_arguments(options, words):
    given = {"fn": left_to_right, "n": 4, **options}
    with pytest.raises(InputError, match=words):
        found(given.pop("fn"), given.pop("n"), **given)
