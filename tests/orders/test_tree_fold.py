"""Equal subtrees held once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import clades, mirrored, nested_trees, shifted

from workbench.errors import InputError
from workbench.orders.standard import (
    halving_order,
    named,
    pairwise_order,
    reduce_sum,
    reversed_order,
    sequential_order,
    split_k_order,
    warp_shuffle_order,
)
from workbench.orders.tree import ReductionTree
from workbench.orders.tree.fold import FoldedTree

PROPERTY = settings(max_examples=80, deadline=None)


def folded(nested) -> FoldedTree:
    return ReductionTree.from_nested(nested).fold()


def text_of(nested) -> str:
    return folded(nested).text()


@PROPERTY
@given(nested_trees(arity=4))
def test_unfolding_gives_the_tree_back(case):
    n, nested = case
    tree = ReductionTree.from_nested(nested)
    fold = tree.fold()
    assert fold.unfold() == tree and fold.leaves == n
    assert tree.permuted(range(n)).fold() == folded(mirrored(nested)) == fold
    assert FoldedTree.from_json(fold.to_json()) == fold
    assert fold.occurrences()[0] == n and fold.occurrences()[-1] == 1
    assert fold.text()


@PROPERTY
@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.sampled_from([1, -1, 3, 5]))
def test_runs_of_all_kinds_come_back(lengths, stride):
    """Left-to-right runs over runs, up, down and strided: where folding is most intricate."""
    total = sum(lengths)
    order = [k * stride % (total * 7 + 1) for k in range(total)]
    rank = np.argsort(np.argsort(order)).tolist()
    terms, parts = iter(rank), []
    for length in lengths:
        part = next(terms)
        for _ in range(length - 1):
            part = [part, next(terms)]
        parts.append(part)
    whole = parts[0]
    for part in parts[1:]:
        whole = [whole, part]
    tree = ReductionTree.from_nested(whole)
    assert tree.fold().unfold() == tree


@PROPERTY
@given(nested_trees(arity=3, most=10, least=2), st.integers(2, 5))
def test_copies_of_a_subtree_are_held_once(case, copies):
    n, nested = case
    once = len(folded(nested))
    parts = [shifted(nested if k % 2 else mirrored(nested), k * n) for k in range(copies)]
    whole = folded(parts)  # one fused node over all copies
    assert len(whole) == once + 1
    assert whole.occurrences()[-2] == copies
    assert whole.occurrences()[0] == n * copies


def test_subtrees_that_differ_are_not_held_as_one():
    """Control: the same shape over other distances is another shape."""
    assert len(folded([[0, 1], [2, 3]])) == 3 and len(folded([[0, 2], [1, 3]])) == 3
    assert len(folded([[0, 3], [1, 2]])) == 4
    a, b = folded([[[0, 1], 2], [[3, 4], 5]]), folded([[[0, 1], 2], [3, [4, 5]]])
    assert a != b and len(b) > len(a)
    assert folded([[0, 1], [2, 3]]).occurrences() == [4, 2, 1]


@pytest.mark.parametrize(
    ("tree", "text", "most"),
    [
        (sequential_order(4096), "4096 in sequence", 2),
        (reversed_order(4096), "4096 in sequence, downwards", 2),
        (pairwise_order(4096), "pairs of 4096", 13),
        (pairwise_order(4097), "pairs of 4097", 14),
        (pairwise_order(4095), "pairs of 4095", 23),
        (halving_order(4096), "halves of 4096", 13),
        (halving_order(7), "halves of 7", 6),
        (reduce_sum(4096, 1), "64 x [pairs of 64]", 8),
        (reduce_sum(4096, 2), "pairs of 4096", 13),
        (reduce_sum(4100, 1), "(64 x [pairs of 64] + pairs of 4)", 9),
        (split_k_order(4096, 8), "8 x [512 in sequence]", 3),
        (
            split_k_order(4096, 8, combine="pairs", interleaved=True),
            "pairs of 8 x [512 in sequence, 8 apart], 1 apart",
            5,
        ),
        (
            warp_shuffle_order(4096),
            "halves of 8 x [halves of 32 x [16 in sequence, 256 apart], 1 apart], 32 apart",
            10,
        ),
        (ReductionTree.from_nested(list(range(8))), "fused 8", 2),
        (
            ReductionTree.from_nested([[0, 1, 2], [3, 4, 5], 6]),
            "fused(fused 3, fused 3, 1 term)",
            3,
        ),
        (ReductionTree.from_nested([[[0, 1], 2], [3, 4]]), "(3 in sequence + pairs of 2)", 4),
        (ReductionTree.from_nested([[[[0, 2], 3], 4], 1]), None, 4),
        (
            ReductionTree.from_nested([pairwise_order(4), pairwise_order(16).to_nested(4)]),
            "(pairs of 4 + pairs of 16)",
            6,
        ),
        (
            ReductionTree.from_nested([pairwise_order(3), pairwise_order(2).to_nested(3)]),
            "(3 in sequence + pairs of 2)",
            4,
        ),
        (ReductionTree.from_nested(0), "1 term", 1),
        (ReductionTree.from_nested([]), "nothing", 0),
    ],
)
def test_texts(tree, text, most):
    fold = tree.fold()
    assert (text is None or fold.text() == str(fold) == text) and len(fold) <= most
    assert fold.unfold() == tree


def test_a_text_tells_orders_apart():
    """Different regular orders of one n have different texts, so that a text is a description."""
    trees = [
        *(named(name, 64) for name in ("sequential", "reversed", "pairwise", "halving", "split-k")),
        pairwise_order(64, "numpy"),
        split_k_order(64, 4),
        split_k_order(64, 8, interleaved=True),
        split_k_order(64, 8, combine="pairs"),
    ]
    assert len({t.hash for t in trees}) == len({t.fold().text() for t in trees}) == len(trees)


def test_a_run_that_goes_on_is_not_a_sum_of_its_own():
    head = [[0, 1], [2, 3]]
    on = folded([[[[head, 4], 5], 6], 7])
    apart = folded([head, [[[4, 5], 6], 7]])
    assert on.text() == "(pairs of 4 then 4 terms)"
    assert apart.text() == "(pairs of 4 + 4 in sequence)"
    threes = [[[k, k + 1], k + 2] for k in (4, 7, 10)]
    runs = folded([[[[head, threes[0]], threes[1]], threes[2]], 13])
    assert runs.text() == "((pairs of 4 then 3 x [3 in sequence]) + 1 term)"
    # A head like the items is one of them, also where it is itself a pair of smaller things.
    assert text_of([[[[head, [4, 5]], [6, 7]], [8, 9]], 10]) == "(5 x [pairs of 2] + 1 term)"


def test_small_trees_with_one_text_have_one_height_and_size():
    """A text without distances is no full description, but never one of another sum."""
    rng = np.random.default_rng(5)
    groups: dict[str, set[ReductionTree]] = {}
    for _ in range(3000):
        parts: list = rng.permutation(int(rng.integers(3, 7))).tolist()
        while len(parts) > 1:
            taken = [parts.pop() for _ in range(min(len(parts), int(rng.integers(2, 4))))]
            parts.insert(int(rng.integers(0, len(parts) + 1)), taken)
        tree = ReductionTree.from_nested(parts[0])
        groups.setdefault(tree.fold().text(), set()).add(tree)
    assert sum(len(trees) > 1 for trees in groups.values()) > 50, "nothing to compare"
    for trees in groups.values():
        assert len({(tuple(sorted(tree.depths())), tree.arity) for tree in trees}) == 1


def test_a_long_text_is_cut():
    order = np.random.default_rng(0).permutation(200)
    fold = sequential_order(200).permuted(order).fold()
    assert len(fold.text(10_000)) > 1000
    assert fold.text(100).endswith(" …") and len(fold.text(100)) < 150


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[2,[[]]]",
        "[1,[[],[0,0,0,1]]]",
        "[2,[[],[0,0,1,1]]]",
        "[2,[[],[0,0,0,1.0]]]",
        "[2,[[],[0,0]]]",
        "[2,[[],[0,0,0,0]]]",
        "[2,[[],[0,0,0,5]]]",
        "[2,[[0,0,0,1],[]]]",
        "[3,[[],[-1,0,0,0,1,1,0]]]",
        "[3,[[],[-1,0,0,0,1,1,1000000000]]]",
        '["a",[[],[0,0,0,1]]]',
        "[" * 100_000,
        "[1000000000,[[],[-1,0,0,0,1,1,999999999]]]",  # would take some 16 GB
        "[true,[[]]]",
        "[-1,[[]]]",
        "[3,[[],[-1,0,0,0,1,99999999999999999999,2]]]",
    ],
)
def test_texts_that_are_no_folded_tree(text):
    with pytest.raises(InputError):
        FoldedTree.from_json(text)


def test_clades_of_the_kit():
    assert clades([[0, 1], 2]) == {frozenset({0, 1}), frozenset({0, 1, 2})}
