"""As many terms as a vocabulary: held, hashed, folded, compared, summed."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from workbench.orders.declared import declared_order
from workbench.orders.standard import named, reduce_sum
from workbench.orders.tree.fold import FoldedTree

N = 151_936
ORDERS = {
    "tile 4096": lambda: declared_order(
        "lm_head", SimpleNamespace(tile_length=4096, arch="dav-2201"), N
    ),
    "sequential": lambda: named("sequential", N),
}


@pytest.mark.parametrize("name", ORDERS)
def test_a_vocabulary_of_terms(name):
    begin = time.process_time()
    tree = ORDERS[name]()
    terms = np.random.default_rng(0).normal(size=(8, N)).astype(np.float32)
    sums = tree.sum(terms)
    fold = tree.fold()
    assert len(tree.hash) == 16 and tree.leaves == N
    assert len(fold) < 32 and len(fold.to_json()) < 1000
    assert FoldedTree.from_json(fold.to_json()).unfold() == tree
    assert tree.depths().max() == tree.height
    assert int(tree.lca_sizes(0, N - 1)) == N
    other = tree.permuted(np.arange(N)[::-1])
    assert not tree.diff(other).equal
    if name == "sequential":
        assert tree.height == N - 1
        assert sums.tobytes() == np.cumsum(terms, axis=1, dtype=np.float32)[:, -1].tobytes()
    # About 2 s in all; far more means that a step is no longer linear. CPU time, so that a busy
    # machine does not count.
    assert time.process_time() - begin < 25


def test_the_order_of_a_tile_is_the_sum_of_its_parts():
    """Control of the above at full width: the tiles summed on their own, then left to right."""
    tree = ORDERS["tile 4096"]()
    terms = np.random.default_rng(1).normal(size=(2, N)).astype(np.float32)
    whole = N // 4096 * 4096
    parts = terms[:, :whole].reshape(-1, 4096)
    tiles = reduce_sum(4096, 1).sum(parts).reshape(2, -1)
    tail = reduce_sum(N - whole, 1).sum(terms[:, whole:])
    total = np.cumsum(np.column_stack([tiles, tail]), axis=1, dtype=np.float32)[:, -1]
    assert tree.sum(terms).tobytes() == total.tobytes()
