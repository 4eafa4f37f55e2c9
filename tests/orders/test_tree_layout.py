"""What is read off a tree, against naive walks; and trees given as arrays."""

from __future__ import annotations

import json
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_trees import clades, mirrored, nested_trees, terms_of

from workbench.errors import InputError
from workbench.orders.standard import sequential_order
from workbench.orders.tree import ReductionTree

PROPERTY = settings(max_examples=60, deadline=None)


def walk(tree: ReductionTree, node: int) -> list[int]:
    """From a node up to the root, by looking through all lists of children."""
    path = [node]
    while True:
        for k in range(len(tree.offsets) - 1):
            if path[-1] in tree.children[tree.offsets[k] : tree.offsets[k + 1]].tolist():
                path.append(tree.leaves + k)
                break
        else:
            return path


@PROPERTY
@given(nested_trees(most=16, arity=5))
def test_parents_sizes_depths_and_heights_are_those_of_a_walk(case):
    n, nested = case
    tree = ReductionTree.from_nested(nested)
    total = n + len(tree.offsets) - 1
    paths = [walk(tree, node) for node in range(total)]
    assert tree.parents().tolist() == [p[1] if len(p) > 1 else -1 for p in paths]
    below = [sum(node in paths[leaf] for leaf in range(n)) for node in range(total)]
    assert tree.sizes().tolist() == below
    assert tree.depths().tolist() == [len(paths[leaf]) - 1 for leaf in range(n)]
    assert tree.height == max(len(p) - 1 for p in paths[:n])
    assert tree.arity == max(np.bincount([p for p in tree.parents() if p >= 0]), default=0)


@PROPERTY
@given(nested_trees(most=16, arity=4))
def test_lca_sizes_are_those_of_the_smallest_common_set(case):
    n, nested = case
    tree = ReductionTree.from_nested(nested)
    sets = clades(nested)
    want = [
        [min((len(c) for c in sets if {i, j} <= c), default=1) if i != j else 1 for j in range(n)]
        for i in range(n)
    ]
    assert tree.lca_matrix().tolist() == want
    i, j = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    assert tree.lca_sizes(i, j).tolist() == want
    assert tree.lca_sizes(0, np.arange(n)).tolist() == want[0]
    assert int(tree.lca_sizes(n - 1, 0)) == want[n - 1][0]


def test_lca_sizes_where_range_maxima_are_long():
    """A sequential sum: i and j meet in the sum that ends at the later one."""
    tree = sequential_order(3000)
    i, j = np.random.default_rng(0).integers(0, 3000, (2, 500))
    want = np.where(i == j, 1, np.maximum(i, j) + 1)
    assert tree.lca_sizes(i, j).tolist() == want.tolist()
    assert tree.lca_matrix()[i, j].tolist() == want.tolist()


@PROPERTY
@given(nested_trees(arity=4), st.randoms(use_true_random=False))
def test_permuted_and_sorted(case, random):
    n, nested = case
    tree = ReductionTree.from_nested(nested)
    order = list(range(n))
    random.shuffle(order)
    terms = np.random.default_rng(n).normal(size=(2, n)).astype(np.float32)
    moved = tree.permuted(order)
    assert moved.sum(terms).tobytes() == tree.sum(terms[:, order]).tobytes()
    back = np.argsort(order)
    assert moved.permuted(back) == tree
    assert tree.sorted() == tree
    assert tree.sorted().to_json() == ReductionTree.from_nested(mirrored(nested)).sorted().to_json()
    for node in json.loads("[" + tree.sorted().to_json() + "]"):
        assert in_order(node)


def in_order(nested) -> bool:
    if isinstance(nested, int):
        return True
    least = [min(terms_of(x)) for x in nested]
    return least == sorted(least) and all(map(in_order, nested))


@PROPERTY
@given(nested_trees(arity=4, most=12), st.data())
def test_another_order_has_another_hash(case, data):
    """Equal hashes exactly if the sets of partial sums are equal, which is what an order is."""
    n, nested = case
    tree = ReductionTree.from_nested(nested)
    other = data.draw(nested_trees(arity=4, most=n, least=n))[1]
    assert (tree.hash == ReductionTree.from_nested(other).hash) == (clades(nested) == clades(other))
    if n > 2:  # and two terms that do not meet each other first change places
        i, j = data.draw(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)))
        swap = {i: j, j: i}
        moved = tree.permuted([swap.get(k, k) for k in range(n)])
        twins = i == j or tree.parents()[i] == tree.parents()[j]
        assert (moved == tree) == twins


@pytest.mark.parametrize(
    ("nested", "kept"),
    [
        ([], "2e1cfa82b035c26c"),
        ([[[0, 1], 2], 3], "5bfefd5a595aa4e3"),
        ([0, [1, 2, 3], 4], "1b492a9efa741f7b"),
    ],
)
def test_hashes_stay_what_they_are(nested, kept):
    """Hashes are kept in files. These were written before this module was rewritten."""
    assert ReductionTree.from_nested(nested).hash == kept

    def of(x) -> bytes:  # the definition once more, recursively
        if isinstance(x, int):
            return sha256(b"leaf" + x.to_bytes(8, "little")).digest()
        return sha256(b"node" + b"".join(sorted(map(of, x)))).digest()

    assert (of(nested) if nested else sha256(b"empty").digest()).hex()[:16] == kept


# ---- arrays --------------------------------------------------------------------------------------


@PROPERTY
@given(nested_trees(arity=4))
def test_arrays_there_and_back(case):
    tree = ReductionTree.from_nested(case[1])
    again = ReductionTree.from_arrays(tree.children.tolist(), tree.offsets.tolist())
    assert again == tree and again.to_json() == tree.to_json()


def test_arrays_are_copied():
    children, offsets = np.array([0, 1]), np.array([0, 2])
    tree = ReductionTree.from_arrays(children, offsets)
    children[0] = 1
    assert tree.to_json() == "[0,1]" and children.flags.writeable


def test_trees_without_nodes():
    assert ReductionTree.from_arrays([], [0]).to_json() == "0"
    assert ReductionTree.from_arrays([], [0], leaves=1).leaves == 1
    assert ReductionTree.from_arrays([], [0], leaves=0) == ReductionTree.from_nested([])
    one = ReductionTree.from_arrays([], [0])
    assert (one.parents().tolist(), one.sizes().tolist(), one.height) == ([-1], [1], 0)
    assert one.lca_matrix().tolist() == [[1]] and one.permuted([0]) == one.sorted() == one
    none = ReductionTree.from_nested([])
    assert none.parents().size == none.sizes().size == 0 and none.lca_matrix().shape == (0, 0)
    assert none.permuted([]) == none.sorted() == none


@pytest.mark.parametrize(
    ("children", "offsets", "match"),
    [
        ([0, 1], [], "from 0 to the number of children"),
        ([0, 1], [0, 1], "from 0 to the number"),
        ([0, 1], [1, 2], "from 0 to the number"),
        ([0, 1, 2], [0, 2, 3], "inner node 1 has 1 children"),
        ([0, 1, 2, 3], [0, 3, 2, 4], "has -1 children"),
        ([0, 0], [0, 2], "node 0 is a child 2 times"),
        ([0, 1, 3, 3], [0, 2, 4], "node 2 is a child 0 times"),
        ([0, 5], [0, 2], "node 1 is a child 0 times"),
        ([0, -1], [0, 2], "node 1 is a child 0 times"),
        ([0, 4, 1, 2], [0, 2, 4], "node 3 is a child 0 times"),
        ([0, 4, 3, 2, 1, 5], [0, 2, 4, 6], None),
        ([0, 5, 1, 2, 3, 4], [0, 2, 4, 6], "used before it is made"),
        ([0.5, 1], [0, 2], "whole numbers"),
    ],
)
def test_arrays_that_are_no_tree(children, offsets, match):
    if match is None:
        with pytest.raises(InputError):
            ReductionTree.from_arrays(children, offsets)
        return
    with pytest.raises(InputError, match=match):
        ReductionTree.from_arrays(children, offsets)


def test_refusals():
    tree = sequential_order(4)
    with pytest.raises(InputError, match="leaves=3"):
        ReductionTree.from_arrays(tree.children, tree.offsets, leaves=3)
    with pytest.raises(InputError, match="leaves=2"):
        ReductionTree.from_arrays([], [0], leaves=2)
    for order in ([0, 1, 2], [0, 1, 2, 2], [0, 1, 2, 4], [[0, 1, 2, 3]]):
        with pytest.raises(InputError, match=r"each of 0\.\.3 once"):
            tree.permuted(order)
    for i in (4, -1):
        with pytest.raises(InputError, match=r"0\.\.3"):
            tree.lca_sizes(i, 0)
    with pytest.raises(InputError, match="whole numbers"):
        tree.lca_sizes(0.5, 0)
    with pytest.raises(InputError, match=r"86 GiB.*lca_sizes"):
        sequential_order(151_936).lca_matrix()
    with pytest.raises(InputError, match="3 items for a tree of 4"):
        tree.filled("abc")


def test_the_text_of_a_part():
    tree = ReductionTree.from_nested([[0, [1, 2]], 3])
    assert tree.to_json(node=4) == "[1,2]" and tree.to_json(node=3) == "3"
    assert sequential_order(1000).to_json(limit=20).endswith(" …")
    assert tree.to_json(limit=100) == tree.to_json()
