"""Standard orders against loops over values: no trees, no builder, one fp32 addition at a time."""

from __future__ import annotations

import numpy as np
import pytest
from models import ascend_numpy

from workbench.errors import ConfigError, InputError
from workbench.orders.standard import (
    NAMES,
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

LENGTHS = (1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 127, 129, 255, 256, 257, 576, 1000, 4097)


def from_left(x):
    total = x[0]
    for value in x[1:]:
        total = total + value
    return total


def neighbours(x):
    while len(x) > 1:
        odd = x[len(x) - len(x) % 2 :]
        x = np.concatenate([x[0 : len(x) - len(odd) : 2] + x[1::2], odd])
    return x[0]


def recursive_halves(x):
    if len(x) == 1:
        return x[0]
    return recursive_halves(x[: len(x) // 2]) + recursive_halves(x[len(x) // 2 :])


def numpy_pairwise(x):
    n = len(x)
    if n < 8:
        return from_left(x)
    if n <= 128:
        r = [x[k] for k in range(8)]
        for i in range(8, n - n % 8, 8):
            for k in range(8):
                r[k] = r[k] + x[i + k]
        total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
        for value in x[n - n % 8 :]:
            total = total + value
        return total
    half = n // 2
    half -= half % 8
    return numpy_pairwise(x[:half]) + numpy_pairwise(x[half:])


def halving(x):
    """A block with its threads in shared memory, zeros up to a power of two."""
    width = 1
    while width < len(x):
        width *= 2
    shared = np.zeros(width, np.float32)
    shared[: len(x)] = x
    while width > 1:
        width //= 2
        for t in range(width):
            shared[t] = shared[t] + shared[t + width]
    return shared[0]


def split_k(x, parts, inner, combine, interleaved):
    size = -(-len(x) // parts)
    pieces = [x[p::parts] if interleaved else x[p * size : (p + 1) * size] for p in range(parts)]
    return combine(np.array([inner(piece) for piece in pieces if len(piece)]))


def shuffle_down(lanes, offset):
    """`__shfl_down_sync`: lane i gets the value of lane i + offset, its own beyond the warp."""
    return np.array([lanes[i + offset] if i + offset < 32 else lanes[i] for i in range(32)])


def warp_reduce(lanes):
    for offset in (16, 8, 4, 2, 1):
        lanes = lanes + shuffle_down(lanes, offset)
    return lanes[0]


def cuda_block(x, threads):
    values = np.zeros(threads, np.float32)
    for start in range(0, len(x), threads):
        part = x[start : start + threads]
        values[: len(part)] = values[: len(part)] + part
    shared = np.zeros(32, np.float32)
    for warp in range(threads // 32):
        shared[warp] = warp_reduce(values[32 * warp : 32 * warp + 32])
    return warp_reduce(shared)


def check(tree_of, execute, lengths=LENGTHS, dtype=np.float32):
    for n in lengths:
        terms = np.random.default_rng(n).normal(size=(3, n)).astype(dtype)
        tree = tree_of(n)
        want = np.array([execute(row) for row in terms], dtype)
        assert tree.leaves == n and tree.arity <= 2
        assert tree.sum(terms).tobytes() == want.tobytes(), n


@pytest.mark.parametrize(
    ("tree_of", "execute"),
    [
        (sequential_order, from_left),
        (reversed_order, lambda x: from_left(x[::-1])),
        (pairwise_order, neighbours),
        (lambda n: pairwise_order(n, "halves"), recursive_halves),
        (lambda n: pairwise_order(n, "numpy"), numpy_pairwise),
        (halving_order, halving),
    ],
    ids=["sequential", "reversed", "neighbours", "halves", "numpy", "halving"],
)
def test_simple_orders(tree_of, execute):
    check(tree_of, execute)


def test_pairwise_numpy_is_what_numpy_does():
    """numpy's own `sum` of contiguous memory on this machine."""
    check(lambda n: pairwise_order(n, "numpy"), np.sum, (*LENGTHS, 10_000))


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("inner", ["sequential", "pairs"])
@pytest.mark.parametrize("combine", ["sequential", "pairs"])
@pytest.mark.parametrize("parts", [1, 3, 8, 70])
def test_split_k(parts, inner, combine, interleaved):
    ways = {"sequential": from_left, "pairs": neighbours}
    check(
        lambda n: split_k_order(n, parts, inner, combine, interleaved),
        lambda x: split_k(x, parts, ways[inner], ways[combine], interleaved),
        (1, 2, 8, 9, 64, 100, 257),
    )


@pytest.mark.parametrize("threads", [32, 96, 256, 1024])
def test_warp_shuffle(threads):
    check(lambda n: warp_shuffle_order(n, threads), lambda x: cuda_block(x, threads))


@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510", "dav-1001", "dav-2002"])
def test_reduce_sum_by_architecture(arch):
    check(
        lambda n: reduce_sum(n, arch=arch),
        lambda x: ascend_numpy.reduce_sum(x, arch).reshape(()),
    )
    check(
        lambda n: reduce_sum(n, arch=arch, interface="high_dim"),
        lambda x: ascend_numpy.reduce_sum(x, arch, "high").reshape(()),
        (64, 128, 192, 576, 4096),
    )


@pytest.mark.parametrize("lanes", [64, 128])
def test_reduce_sum_by_method(lanes):
    """In loops over repeats; 128 lanes are those of fp16."""
    dtype = {64: np.float32, 128: np.float16}[lanes]

    def repeats(x):
        return [x[at : at + lanes] for at in range(0, len(x), lanes)]

    def tree(x):
        x = np.concatenate([x, np.zeros(lanes - len(x), dtype)])
        while len(x) > 1:
            x = x[0::2] + x[1::2]
        return x[0]

    def one(x):
        return from_left(np.array([tree(r) for r in repeats(x)]))

    def two(x):
        while len(x) > 1:
            x = np.array([tree(r) for r in repeats(x)])
        return x[0]

    def three(x):
        v = [np.concatenate([r, np.zeros(lanes - len(r), dtype)]) for r in repeats(x)]
        if len(v) == 4:
            return tree((v[0] + v[1]) + (v[2] + v[3]))
        return tree(from_left(np.array(v)))

    check(lambda n: reduce_sum(n, 1, lanes), one, dtype=dtype)
    check(lambda n: reduce_sum(n, 2, lanes), two, dtype=dtype)
    short = [n for n in LENGTHS if n <= 4 * lanes]
    check(lambda n: reduce_sum(n, 3, lanes), three, short, dtype=dtype)


def test_the_table_of_the_architectures():
    assert reduce_sum(4096, arch="dav-2201") == reduce_sum(4096, 1)
    assert reduce_sum(4096, arch="dav-2201", interface="high_dim") == reduce_sum(4096, 2)
    assert reduce_sum(4096, arch="dav-3510") == reduce_sum(4096, 2)
    for n, method in ((63, 2), (64, 3), (256, 3), (257, 2)):
        assert reduce_sum(n, arch="dav-3510") == reduce_sum(n, method), n
    # fp16 counts 2 bytes an element: 1024 bytes are 512 of them.
    assert reduce_sum(512, lanes=128, arch="dav-3510") == reduce_sum(512, 3, 128)
    assert reduce_sum(513, lanes=128, arch="dav-3510") == reduce_sum(513, 2, 128)
    assert reduce_sum(512, 3, 128) != reduce_sum(512, 2, 128)  # so that these can fail


def test_the_orders_are_different_orders():
    """Control: at one length all of them differ, so no loop above tests another's tree."""
    trees = [named(name, 1000) for name in NAMES if name != "reduce-sum"]
    trees += [pairwise_order(1000, kind) for kind in ("halves", "numpy")]
    trees += [reduce_sum(1000, 1), split_k_order(1000, 8, interleaved=True)]
    assert len({tree.hash for tree in trees}) == len(trees)
    assert reduce_sum(1000, 2) == pairwise_order(1000)  # 64 is a power of two


def test_orders_of_nothing_and_of_one():
    for name in NAMES:
        options = {"method": 1} if name == "reduce-sum" else {}
        assert named(name, 1, **options).to_json() == "0"
        if name != "reduce-sum":
            assert named(name, 0).leaves == 0
    assert named("warp-shuffle", np.int64(40), threads=64) == warp_shuffle_order(40, 64)
    assert named("reduce-sum", 300, arch="dav-2201") == reduce_sum(300, 1)


def test_refusals():
    for call, match in [
        (lambda: sequential_order(-1), "n=-1"),
        (lambda: sequential_order(2.0), r"n=2\.0"),
        (lambda: sequential_order(True), "n=True"),
        (lambda: pairwise_order(4, "thirds"), "neighbours, halves, numpy"),
        (lambda: split_k_order(4, 0), "parts=0"),
        (lambda: split_k_order(4, inner="x"), "inner='x'"),
        (lambda: split_k_order(4, combine="x"), "combine='x'"),
        (lambda: warp_shuffle_order(4, 100), "threads=100"),
        (lambda: warp_shuffle_order(4, 2048), "threads=2048"),
        (lambda: warp_shuffle_order(4, 0), "threads=0"),
        (lambda: reduce_sum(4), "method=None and arch=None"),
        (lambda: reduce_sum(4, 1, arch="dav-2201"), "give one"),
        (lambda: reduce_sum(4, 4), "methods 1, 2 and 3"),
        (lambda: reduce_sum(0, 1), "n >= 1"),
        (lambda: reduce_sum(300, 3), "at most 4"),
        (lambda: reduce_sum(4, 1, interface="x"), "interface='x'"),
        (lambda: named("kahan", 4), "sequential, reversed"),
        (lambda: named("sequential", 4, parts=2), "parts"),
    ]:
        with pytest.raises(InputError, match=match):
            call()
    with pytest.raises(ConfigError, match="dav-9999"):
        reduce_sum(4, arch="dav-9999")


def test_a_compensated_sum_has_no_tree():
    """Why Kahan is not among them: of each order of three terms, some row's sum differs."""

    def kahan(x):
        total = lost = np.float32(0)
        for value in x:
            y = value - lost
            new = total + y
            lost, total = (new - total) - y, new
        return total

    rng = np.random.default_rng(0)
    rows = np.ldexp(rng.normal(size=(300, 3)), rng.integers(-12, 13, (300, 3))).astype(np.float32)
    sums = np.array([kahan(row) for row in rows])
    for order in ([[0, 1], 2], [[0, 2], 1], [0, [1, 2]], [0, 1, 2]):
        assert (ReductionTree.from_nested(order).sum(rows) != sums).any(), order
