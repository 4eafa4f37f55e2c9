"""Parity with libraries: equal bits, or an error that names the reason.

Which of the two is a fact of one machine. That there is no third is not.
"""

from __future__ import annotations

import platform
from dataclasses import fields

import numpy as np
import pytest
import torch

import workbench as wb
from workbench.errors import InputError
from workbench.orders.dot import dot, fma
from workbench.orders.parity import ParityError, evaluate, explains, parity
from workbench.orders.parity import data as parity_data
from workbench.orders.parity.asked import aligned, asked_of
from workbench.orders.tree import ReductionTree, adjacent_pairs, sequential

REASONS = {
    *("not repeatable", "order depends on the position", "fused nodes", "arithmetic"),
    *("bits differ", "value-dependent", "not a sum", "rows not independent", "inconsistent"),
    *("accumulator too narrow", "compensated", "raised", "changes its argument"),
}


def found(*args, **kwargs):
    """A parity, or the ParityError, whose contract is checked here."""
    try:
        return parity(*args, **kwargs)
    except ParityError as error:
        assert error.reason in REASONS and error.reason in str(error)
        assert error.row is not None or "outputs" in str(error)
        return error


def real(rows, n):
    """The sample's weight and hidden states, as one row of numbers each and cut anew."""
    sample = wb.samples.smollm2()
    weight = sample.weight.float().flatten()[: rows * n].reshape(rows, n)
    return weight, sample.hidden.flatten()[:n].clone()


@pytest.mark.parametrize("n", [64, 576, 1000, 4096])
@pytest.mark.parametrize("rows", [1, 257])
def test_torch_mv(rows, n):
    ours = found("torch.mv", rows, n, threads=1)
    if isinstance(ours, ParityError):
        # Seen to hold with MKL on CPUs with AVX2 and with AVX-512; of others nothing is claimed.
        wide = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
        mkl = torch.backends.mkl.is_available() and platform.machine() == "x86_64"
        assert not (mkl and wide), ours
        pytest.skip(f"nothing to compare: {ours}")
    compiled = ours.compiled() if n in (576, 4096) else ours
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for seed in range(5):
            g = torch.Generator().manual_seed(100 + seed)
            w, x = torch.randn(rows, n, generator=g), torch.randn(n, generator=g)
            if seed == 0:
                w, x = real(rows, n)
            want = torch.mv(w, x)
            assert torch.equal(ours(w, x), want) and torch.equal(compiled(w, x), want)
    finally:
        torch.set_num_threads(before)
    assert sum(order["outputs"].startswith("rows 0") for order in ours.report.orders) == 1
    assert {"N(0, 1)", "terms that cancel", "nothing but -0"} <= set(ours.report.checks)


OTHERS = [
    ("F.linear", 1, 9),
    ("F.linear", 2, 9),
    ("F.linear", 8, 5),
    ("torch.matmul", 1, None),
    ("torch.matmul", 4, 9),
    ("numpy.dot", 1, None),
    ("numpy.dot", 9, None),
    ("numpy.matmul", 4, 5),
]


def test_other_functions():
    """None of them is claimed to hold everywhere, but somewhere one must: the bits of those that
    are not refused are compared, and there are some."""
    n, compared, refused = 64, [], []
    for name, rows, columns in OTHERS:
        ours = found(name, rows, n, columns=columns, threads=1)
        if isinstance(ours, ParityError):
            refused.append(str(ours))
            continue
        rng = np.random.default_rng(5)
        a = rng.standard_normal((rows, n)).astype(np.float32)
        b = rng.standard_normal((columns or 1, n)).astype(np.float32)
        want = ours._asked.outputs(a, b)
        given = b[0] if columns is None else b if name == "F.linear" else np.ascontiguousarray(b.T)
        got = ours(a, given)
        assert got.shape == ((rows,) if columns is None else (rows, columns))
        assert got.reshape(want.shape).tobytes() == want.tobytes(), (name, rows, columns)
        compared.append((name, rows, columns))
        if rows > 4:
            compiled = ours.compiled()
            assert np.array_equal(compiled(torch.from_numpy(a), torch.from_numpy(given)), got)
    assert compared, refused


# ---- targets whose order and arithmetic are known ------------------------------------------------


def of_tree(*nested, fused=None):
    """A target whose row r adds in the order nested[r % len(nested)]."""
    trees = [ReductionTree.from_nested(x) for x in nested]

    def target(weight, x):
        rows = [
            dot(trees[r % len(trees)], weight[r : r + 1], x, fused, zero_start=True)
            for r in range(len(weight))
        ]
        return torch.from_numpy(np.concatenate(rows))

    return target, trees


def test_an_order_nobody_knows_is_found_and_has_the_same_bits():
    rng = np.random.default_rng(0)
    items = [int(i) for i in rng.permutation(40)]
    while len(items) > 1:
        i, j = sorted(rng.choice(len(items), 2, replace=False))
        b, a = items.pop(j), items.pop(i)
        items.append([a, b])
    target, (tree,) = of_tree(items[0])
    ours = parity(target, 3, 40)
    assert ours.tree == tree and ours.trees == {"rows 0-2": tree}
    (order,) = ours.orders
    assert order.zero_start and not order.fused.any()


def test_fused_products_are_found_one_by_one():
    fused = np.array([False, True, True, False, False, True])
    target, (tree,) = of_tree([sequential(range(4)), [4, 5]], fused=fused)
    ours = parity(target, 2, 6)
    assert ours.tree == tree and (ours.orders[0].fused == fused).all()


def test_a_loop_of_multiply_adds():
    def target(weight, x):
        total = np.zeros(len(weight), np.float32)
        for k in range(weight.shape[1]):
            total = fma(weight.numpy()[:, k], x.numpy()[k], total)
        return torch.from_numpy(total)

    ours = parity(target, 2, 14)
    w, x = torch.randn(2, 14), torch.randn(14)
    assert ours.orders[0].fused.sum() == 13 and torch.equal(ours(w, x), target(w, x))
    w = torch.randn(64, 14)
    assert not torch.equal(torch.from_numpy(dot(ours.tree, w, x)), target(w, x))


def test_rows_of_several_orders_are_told_apart():
    target, trees = of_tree(sequential(range(12)), adjacent_pairs(range(12)))
    ours = parity(target, 5, 12)
    assert ours.trees == {"rows 0, 2, 4": trees[0], "rows 1, 3": trees[1]}
    with pytest.raises(ParityError, match=r"adds in 2 orders .*rows 1, 3"):
        _ = ours.tree
    w, x = torch.randn(5, 12), torch.randn(12)
    assert torch.equal(ours(w, x), target(w, x))


def test_too_many_orders_are_refused():
    rng = np.random.default_rng(1)
    orders = [sequential(rng.permutation(24).tolist()) for _ in range(20)]
    with pytest.raises(ParityError, match="at least 20 ways") as caught:
        parity(of_tree(*orders)[0], 20, 24)
    assert caught.value.reason == "order depends on the position"


def test_an_order_that_depends_on_the_values_is_refused():
    forward = ReductionTree.from_nested(sequential(range(20)))
    back = ReductionTree.from_nested(sequential(range(19, -1, -1)))

    def by_size(weight, x):  # adds the smallest first
        terms = weight.numpy() * x.numpy()
        terms = np.take_along_axis(terms, np.argsort(np.abs(terms), axis=1), axis=1)
        return torch.from_numpy(forward.sum(terms))

    def by_sign(weight, x):  # what no probe shows: their first terms are 1 or M
        terms = weight.numpy() * x.numpy()
        both = np.where(terms[:, 0] * terms[:, 1] < 0, forward.sum(terms), back.sum(terms))
        return torch.from_numpy(both)

    for target in (by_size, by_sign):
        with pytest.raises(ParityError) as caught:
            parity(target, 3, 20)
        assert caught.value.reason in REASONS and caught.value.row is not None


def test_what_is_no_plain_sum_is_refused():
    rng = np.random.default_rng(0)

    def noisy(weight, x):
        return weight @ x * float(1 + 1e-3 * rng.random())

    def compensated(weight, x):
        total, lost = np.zeros((2, len(weight)), np.float32)
        for product in (weight * x).numpy().T:
            y = product - lost
            t = total + y
            total, lost = t, (t - total) - y
        return torch.from_numpy(total)

    def wide(weight, x):
        return (weight.double() * x).cumsum(1)[:, -1].float()

    for target, reason in ((noisy, "not repeatable"), (compensated, None), (wide, "arithmetic")):
        with pytest.raises(ParityError) as caught:
            parity(target, 2, 24)
        assert caught.value.reason == (reason or caught.value.reason), str(caught.value)


def test_a_target_that_looks_at_its_memory():
    """A BLAS does so: operands off their line may be added in another order."""
    forward = ReductionTree.from_nested(sequential(range(20)))
    pairs = ReductionTree.from_nested(adjacent_pairs(range(20)))

    def target(weight, x):
        tree = forward if weight.data_ptr() % 64 == 0 else pairs
        return torch.from_numpy(dot(tree, weight, x, zero_start=True))

    ours = parity(target, 2, 20)
    assert ours.tree == forward
    first, second = ours.report.alignment.split("; ")
    assert first.endswith("other bits 4, 8, 12, 16, 32 bytes further") and "no change" in second
    assert parity(target, 2, 20, offset=(1, 0)).tree == pairs
    assert aligned((3, 5), 2).data_ptr() % 64 == 8 and aligned((3, 5)).data_ptr() % 64 == 0


def test_threads_are_set_for_the_call_and_restored():
    seen = []

    def target(weight, x):
        seen.append(torch.get_num_threads())
        order = sequential(range(20)) if seen[-1] == 1 else adjacent_pairs(range(20))
        return torch.from_numpy(dot(ReductionTree.from_nested(order), weight, x, zero_start=True))

    before = torch.get_num_threads()
    ours = parity(target, 2, 20, threads=1)
    assert torch.get_num_threads() == before and {1, 2, 4} <= set(seen)
    assert "2 threads: other bits" in ours.report.other_threads


# ---- controls of the comparison itself -----------------------------------------------------------


def swapped(tree, i, j):
    """The tree with two terms in each other's place."""
    children = np.array(tree.children)
    children[tree.children == i], children[tree.children == j] = j, i
    return ReductionTree(tree.leaves, children, np.array(tree.offsets))


def test_a_wrong_order_or_flag_does_not_pass():
    target, (tree,) = of_tree([sequential(range(16)), sequential(range(16, 32))])
    ours = parity(target, 4, 32)
    (right,) = ours.orders
    wrong_tree = swapped(tree, 3, 20)
    flipped = right.fused.copy()
    flipped[5] = True
    w, x = torch.randn(4, 32), torch.randn(32)
    ours.check(w, x)
    for change in ({"tree": wrong_tree}, {"fused": flipped}, {"zero_start": False}):
        ours.orders = (
            type(right)(**{**{f.name: getattr(right, f.name) for f in fields(right)}, **change}),
        )
        caught = []
        rng = np.random.default_rng(9)
        for name, a, b in parity_data.draws(4, 1, 32, rng):
            assert evaluate(ours.orders, a, b).shape == (4, 1)
            try:
                ours.check(a, b[0], name)
            except ParityError as error:
                assert error.data == name and error.reason == "bits differ"
                caught.append(name)
        wanted = "nothing but -0" if "zero_start" in change else "N(0, 1)"
        assert wanted in caught, (change, caught)


def test_n_minus_1_probes_tell_an_order():
    rng = np.random.default_rng(2)
    for nested in (sequential(range(33)), adjacent_pairs(range(33)), [[2, 0], [1, 3]]):
        tree = ReductionTree.from_nested(nested)
        assert explains(tree, tree.sum)
        for _ in range(10):
            i, j = rng.choice(tree.leaves, 2, replace=False).tolist()
            other = swapped(tree, i, j)
            assert explains(tree, other.sum) == (tree == other)


def test_a_parity_calls_neither_the_target_nor_a_blas(monkeypatch):
    ours = parity(of_tree(sequential(range(12)))[0], 2, 12)
    w, x = torch.randn(2, 12), torch.randn(12)
    want = ours(w, x)

    def never(*args, **kwargs):
        raise AssertionError("called")

    monkeypatch.setattr(ours._asked, "fn", never)
    for name in ("mv", "matmul", "mm"):
        monkeypatch.setattr(torch, name, never)
    for name in ("dot", "matmul"):
        monkeypatch.setattr(np, name, never)
    assert torch.equal(ours(w, x), want) and torch.equal(ours.compiled()(w, x), want)


def test_one_term():
    ours = parity(of_tree(0)[0], 2, 1)
    assert ours.tree.leaves == 1 and ours(torch.ones(2, 1), torch.ones(1)).tolist() == [1, 1]


def test_refused_arguments():
    for bad in (
        {"target": "torch.mw"},
        {"target": 3},
        {"rows": 0},
        {"n": 2.5},
        {"threads": 0},
        {"offset": (16, 0)},
        {"target": "F.linear"},
        {"columns": 3},
    ):
        with pytest.raises(InputError):
            asked_of(**{"target": "torch.mv", "rows": 1, "n": 8, **bad})
    ours = parity(of_tree([0, 1])[0], 1, 2)
    with pytest.raises(InputError, match="another shape may have another order"):
        ours(torch.ones(2, 2), torch.ones(2))
    with pytest.raises(InputError, match=r"fp32"):
        ours(torch.ones(1, 2, dtype=torch.float64), torch.ones(2))
    with pytest.raises(InputError, match="wanted fp32"):
        parity(lambda w, x: (w @ x).double(), 1, 4)


def test_a_report_says_what_it_rests_on():
    ours = parity(of_tree(sequential(range(12)))[0], 2, 12)
    report = ours.report.to_dict()
    assert report["calls"] and report["orders"][0]["order"] == ours.tree.hash
    assert "12" in str(ours) and "<table>" in ours._repr_html_()
    assert ours.report.evidence.torch_version == torch.__version__


@pytest.mark.parametrize("offset", [3, (1,), (1, 16), (True, 0), "ab", None])
def test_offsets_that_are_none(offset):
    with pytest.raises(InputError, match="two numbers of elements"):
        parity("torch.mv", 3, 9, offset=offset)


def test_a_callable_that_raises_is_named_with_its_operands():
    def broken(weight, x):
        raise ZeroDivisionError("by zero")

    with pytest.raises(InputError, match=r"broken raised ZeroDivisionError: .*\[3, 9\] and \[9\]"):
        parity(broken, 3, 9)


def in_a_row(weight, x, way=1):
    products = (weight.numpy() * x.numpy())[:, ::way]
    return torch.from_numpy(np.cumsum(products, axis=1, dtype=np.float32)[:, -1].copy())


def test_threads_are_restored_also_where_the_function_sets_them():
    before = torch.get_num_threads()

    def sets(weight, x):
        torch.set_num_threads(before + 1)
        return in_a_row(weight, x)

    try:
        assert parity(sets, 3, 9, threads=before).tree.leaves == 9
        assert torch.get_num_threads() == before
    finally:
        torch.set_num_threads(before)


def test_the_default_dtype_does_not_matter():
    torch.set_default_dtype(torch.float64)
    try:
        assert aligned((3, 5), 2).dtype == torch.float32
        assert aligned((3, 5), 2).data_ptr() % 64 == 8
        ours = parity(in_a_row, 3, 9)
    finally:
        torch.set_default_dtype(torch.float32)
    assert ours.tree == ReductionTree.from_nested(sequential(range(9)))


def test_operands_that_lie_otherwise_are_told_once(recwarn):
    def by_place(weight, x):  # another order where the first operand is off its line
        return in_a_row(weight, x, 1 if weight.data_ptr() % 64 == 0 else -1)

    ours = parity(by_place, 3, 9)
    assert "first operand: other bits" in ours.report.alignment
    weight, x = aligned((3, 9)), aligned((9,))
    ours(weight, x)
    ours(weight, aligned((9,), 3))  # the place of the second operand changes nothing
    assert not recwarn.list
    with pytest.warns(UserWarning, match="starts 8 bytes behind a 64-byte line, not 0"):
        ours(aligned((3, 9), 2), x)
    recwarn.clear()
    ours(aligned((3, 9), 2), x)
    assert not recwarn.list
    plain = parity(in_a_row, 3, 9)
    plain(aligned((3, 9), 2), x)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="not contiguous"):
        plain(torch.ones(9, 3).T, x)
