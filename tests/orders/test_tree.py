from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import mirrored, nested_trees

from workbench.errors import InputError, WorkbenchError
from workbench.orders import ReductionTree, adjacent_pairs, sequential


def model_sum(nested, row):
    """The recursive model: numpy scalars, one addition a node."""
    if isinstance(nested, int):
        return row[nested]
    a, b = (model_sum(x, row) for x in nested)
    return row.dtype.type(a + b)


@settings(max_examples=60, deadline=None)
@given(nested_trees(40), st.sampled_from(["float32", "float16", "float64"]), st.integers(0, 99))
def test_sum_is_the_model_bit_for_bit(case, dtype, seed):
    n, nested = case
    terms = np.random.default_rng(seed).normal(size=(3, n)).astype(dtype)
    got = ReductionTree.from_nested(nested).sum(terms)
    assert got.dtype == terms.dtype and got.shape == (3,)
    assert got.tobytes() == np.array([model_sum(nested, row) for row in terms]).tobytes()


@settings(max_examples=60, deadline=None)
@given(nested_trees(40))
def test_hash_ignores_the_order_of_children_only(case):
    n, nested = case
    tree = ReductionTree.from_nested(nested)
    other = ReductionTree.from_nested(mirrored(nested))
    assert tree == other and tree.hash == other.hash and hash(tree) == hash(other)
    assert len(tree.hash) == 16 and int(tree.hash, 16) >= 0
    assert ReductionTree.from_json(tree.to_json()) == tree
    assert ReductionTree.from_nested(tree.to_nested()) == tree
    assert tree.leaves == n and tree.height == tree.depths().max()


def test_another_association_is_another_hash_and_other_bits():
    left, pairs = (ReductionTree.from_nested(x) for x in ([[[0, 1], 2], 3], [[0, 1], [2, 3]]))
    swapped = ReductionTree.from_nested([[0, 2], [1, 3]])
    assert len({left.hash, pairs.hash, swapped.hash}) == 3 and left != pairs != swapped
    terms = np.array([[1e8, 1, -1e8, 1]], np.float32)
    assert [t.sum(terms)[0] for t in (left, pairs, swapped)] == [1, 0, 2]
    # A fused node is not the binary nodes that it spans, nor is a shorter tree a part of it.
    assert ReductionTree.from_nested([0, 1, 2]) != ReductionTree.from_nested([[0, 1], 2])
    assert (left == "left") is False


def mirrored_chain(items):
    return sequential(reversed(items))


@pytest.mark.parametrize("build", [sequential, mirrored_chain])
def test_ten_thousand_levels(build):
    n = 10_000
    tree = ReductionTree.from_nested(build(range(n)))
    assert (tree.leaves, tree.height, tree.arity) == (n, n - 1, 2)
    assert ReductionTree.from_json(tree.to_json()) == tree
    assert ReductionTree.from_nested(tree.to_nested()).hash == tree.hash
    assert pickle.loads(pickle.dumps(tree)) == copy.deepcopy(tree) == tree
    terms = np.random.default_rng(0).normal(size=(2, n)).astype(np.float32)
    order = terms if build is sequential else terms[:, ::-1]
    assert tree.sum(terms).tobytes() == np.cumsum(order, axis=1, dtype=np.float32)[:, -1].tobytes()


def test_known_trees():
    tree = ReductionTree.from_nested([[0, 1], [2, [3, 4]]])
    assert tree.depths().tolist() == [2, 2, 2, 3, 3] and tree.to_json() == "[[0,1],[2,[3,4]]]"
    assert adjacent_pairs(range(5)) == [[[0, 1], [2, 3]], 4]
    assert sequential([[0, 1], 2, 3]) == [[[0, 1], 2], 3]
    fused = ReductionTree.from_nested([[0, 1, 2, 3], 4])
    assert (fused.arity, fused.height) == (4, 2)
    assert fused.sum(np.array([[1e8, 1, -1e8, 1, 5]], np.float32)).tolist() == [7]


def test_trees_inside_trees():
    pair = ReductionTree.from_nested([0, 1])
    tree = ReductionTree.from_nested([pair, pair.to_nested(first=2)])
    assert tree == ReductionTree.from_nested(adjacent_pairs(range(4)))
    assert ReductionTree.from_nested(pair) == pair


def test_small_sums():
    empty, one = ReductionTree.from_nested([]), ReductionTree.from_nested([[0]])
    assert (empty.leaves, empty.height, empty.arity, empty.to_json()) == (0, 0, 0, "[]")
    assert ReductionTree.from_json("[]") == ReductionTree.from_nested(empty) == empty != one
    assert empty.sum(np.zeros((2, 0), np.float32)).tolist() == [0, 0]
    assert (one.leaves, one.height, one.to_json()) == (1, 0, "0")
    assert np.signbit(one.sum(np.array([[-0.0]], np.float32)))[0]  # nothing is added to it
    assert one.sum(np.ones((0, 1), np.float32)).shape == (0,)
    assert ReductionTree.from_nested([0, 1]).sum(np.ones(2, np.float16)) == 2  # [n] gives a scalar


def test_special_values_and_many_rows():
    tree = ReductionTree.from_nested(adjacent_pairs(range(4096)))
    terms = np.zeros((1500, 4096), np.float32)  # several chunks of rows
    terms[:, 0] = np.arange(1500)
    terms[7, 1], terms[8, :2], terms[9, 0] = np.nan, (np.inf, -np.inf), 1e-45
    got = tree.sum(terms)
    assert np.isnan(got[[7, 8]]).all() and got[9] == np.float32(1e-45)
    keep = np.delete(np.arange(1500), [7, 8, 9])
    assert (got[keep] == keep).all()


def test_refuses_a_thread_that_flushes_subnormals():
    torch = pytest.importorskip("torch")
    tree = ReductionTree.from_nested([0, 1])
    terms = np.full((1, 2), 1e-45, np.float32)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU cannot flush subnormals")
    try:
        with pytest.raises(WorkbenchError, match="set_flush_denormal"):
            tree.sum(terms)
    finally:
        torch.set_flush_denormal(False)
    assert tree.sum(terms)[0] > 0


@pytest.mark.parametrize(
    "nested, match",
    [
        ([0, 2], "term 1 is missing"),
        ([0, 0], "repeated"),
        ([-1, 0], "out of range"),
        ([1, 2], "out of range"),
        ([0, []], "empty list"),
        ([0, 1.5], "1.5"),
        ([0, "1"], "'1'"),
        ([0, True], "bool"),
    ],
)
def test_from_nested_refuses(nested, match):
    with pytest.raises(InputError, match=match):
        ReductionTree.from_nested(nested)


@pytest.mark.parametrize(
    "text",
    ["", "[", "[0,1", "[0;1]", "[0,,1]", "[,0]", "[0,]", "0,1", "0,", "[0]]", "[0][1]"],
)
def test_from_json_refuses(text):
    with pytest.raises(InputError):
        ReductionTree.from_json(text)


@pytest.mark.parametrize("text", ["[0," + "9" * 5000 + "]", b"[0,1]", None, 5, [0, 1]])
def test_from_json_refuses_what_is_no_text(text):
    with pytest.raises(InputError, match=r"wanted a text|5000 digits"):
        ReductionTree.from_json(text)


@pytest.mark.parametrize(
    ("leaves", "children", "offsets"),
    [
        (3, [0, 1, 3, 3], [0, 2, 4]),
        (2, [0, 1], [[0], [2]]),
        (2, [[0, 1]], [0, 2]),
        (2, [0, [1]], [0, 2]),
        (5, [0, 1], [0, 2]),
        (2.0, [0, 1], [0, 2]),
        (2, [0, 2], [0, 2]),
        (2, None, None),
    ],
)
def test_the_class_itself_checks_its_arrays(leaves, children, offsets):
    with pytest.raises(InputError):
        ReductionTree(leaves, children, offsets)
    with pytest.raises(InputError):
        ReductionTree.from_arrays(children, offsets, leaves)


def test_from_json_takes_white_space():
    for text in ("[0 1]", "[0,-1]", "[0,1.0]", "{}", "null", "[0,1]x"):
        with pytest.raises(InputError, match="character"):
            ReductionTree.from_json(text)
    assert ReductionTree.from_json(" [ [0 ,1]\n, 2 ] \n").to_json() == "[[0,1],2]"


def test_sum_refuses():
    tree = ReductionTree.from_nested([0, 1])
    for terms, match in (
        (np.zeros((1, 2), np.int32), "int32"),
        (np.zeros((1, 3), np.float32), r"\[1, 3\]"),
        (np.zeros((1, 1, 2), np.float32), r"\[1, 1, 2\]"),
    ):
        with pytest.raises(InputError, match=match):
            tree.sum(terms)


def test_sum_refuses_what_numpy_would_take_for_something_else():
    import torch

    tree = ReductionTree.from_nested([0, 1])
    masked = np.ma.masked_array(np.ones((1, 2), np.float32), mask=[[1, 0]])
    for terms, match in (
        (masked, "a masked array"),
        (torch.ones(1, 2, dtype=torch.bfloat16), "bfloat16"),
        (torch.ones(1, 2, requires_grad=True), r"terms.detach\(\)"),
        (torch.ones(1, 2, device="meta"), "no array"),
        ([[1.0], [1.0, 2.0]], "no array"),
    ):
        for adds in (tree.sum, tree.partial_sums):
            with pytest.raises(InputError, match=match):
                adds(terms)


def test_composition_needs_a_term():
    for compose in (sequential, adjacent_pairs):
        with pytest.raises(InputError, match="at least one term"):
            compose([])


def test_trees_cannot_be_changed():
    tree = ReductionTree.from_nested([0, 1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        tree.leaves = 3
    with pytest.raises(ValueError):
        tree.children[0] = 1
    # What the arrays were made of, and views of it, are the caller's.
    children, offsets = np.array([0, 1, 5]), np.array([0, 2])
    aliased = ReductionTree(2, children[:2], offsets)
    name = aliased.hash
    children[:2], offsets[:] = (1, 0), 0
    assert aliased.to_json() == "[0,1]" and aliased.hash == name
    assert children.flags.writeable and offsets.flags.writeable
    tree.depths()[0] = 9
    assert tree.height == 1
    assert "leaves=2" in repr(tree)


def test_orders_need_no_torch():
    code = "import sys, workbench.orders; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
