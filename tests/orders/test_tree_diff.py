"""The first difference of two orders, against sets of sets."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import clades, mirrored, nested_trees, terms_of

from workbench.orders.standard import reduce_sum, sequential_order, warp_shuffle_order
from workbench.orders.tree import ReductionTree
from workbench.orders.tree.compare import ranges


@settings(max_examples=100, deadline=None)
@given(nested_trees(arity=4, most=14), st.data())
def test_the_first_difference_is_the_smallest_partial_sum_of_one_tree_only(case, data):
    n, a = case
    b = data.draw(nested_trees(arity=4, most=n, least=n))[1]
    left, right = ReductionTree.from_nested(a), ReductionTree.from_nested(b)
    found = left.diff(right)
    of_a, of_b = clades(a), clades(b)
    assert found.equal == (of_a == of_b) == (left == right)
    assert (found.only_left, found.only_right) == (len(of_a - of_b), len(of_b - of_a))
    assert found.shared == len(of_a & of_b)
    if found.equal:
        assert found.side == "" and not len(found.terms)
        return
    lone = [(len(c), min(c), k, c) for k, s in ((0, of_a - of_b), (1, of_b - of_a)) for c in s]
    _, _, k, clade = min(lone, key=lambda x: x[:3])
    assert found.side == ("left", "right")[k] and set(found.terms.tolist()) == clade
    assert terms_of(json.loads(found.here)) == clade
    holder = min((c for c in (of_b, of_a)[k] if clade <= c), key=len)
    assert set(found.there_terms.tolist()) == holder == terms_of(json.loads(found.there))


@settings(max_examples=30, deadline=None)
@given(nested_trees(arity=4))
def test_no_difference(case):
    n, nested = case
    found = ReductionTree.from_nested(nested).diff(ReductionTree.from_nested(mirrored(nested)))
    assert found.equal and found.only_left == found.only_right == 0
    assert str(found) == f"the same order of {n} terms"


def test_what_it_says():
    one, two = reduce_sum(4096, 1), reduce_sum(4096, 2)
    found = one.diff(two)
    assert str(found) == (
        "different orders of 4096 terms; partial sums: 4038 in both, 57 only left, 57 only right\n"
        "  right adds the 128 terms 128..255: pairs of 128\n"
        "  left adds them only among the 256 terms 0..255: 4 x [pairs of 64]"
    )
    as_dict = json.loads(json.dumps(found.to_dict()))
    assert as_dict["terms"] == "128..255" and as_dict["only_left"] == 57
    assert [r["tree"] for r in found.rows()] == ["right", "left"]
    assert "pairs of 128" in found._repr_html_()
    back = two.diff(one)
    assert back.side == "left" and back.terms.tolist() == found.terms.tolist()
    assert "0..31, 256..287" in str(one.diff(warp_shuffle_order(4096)))


def test_other_numbers_of_terms():
    found = sequential_order(3).diff(sequential_order(4))
    assert not found.equal and "3 and 4 terms" in str(found)
    assert found.rows()[0]["leaves"] == [3, 4]
    none = ReductionTree.from_nested([])
    assert none.diff(none).equal and sequential_order(1).diff(sequential_order(1)).equal


def test_a_fused_node_against_binary_ones():
    fused, binary = ReductionTree.from_nested([0, 1, 2]), sequential_order(3)
    found = fused.diff(binary)
    assert (found.side, found.here, found.there) == ("right", "[0,1]", "[0,1,2]")
    assert (found.only_left, found.only_right) == (0, 1)


def test_ranges():
    for numbers, text in [
        ([], ""),
        ([5], "5"),
        ([1, 2], "1, 2"),
        ([1, 2, 3, 7], "1..3, 7"),
        ([0, 256, 512, 513], "0..512 by 256, 513"),
        ([0, 5, 6, 7], "0, 5..7"),
        ([k * k for k in range(1, 12)], "1, 4, 9, 16, 25, 36, 49, 64, … (11 of them)"),
    ]:
        assert ranges(np.array(numbers, np.int64)) == text
