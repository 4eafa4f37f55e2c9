from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from models import ascend_numpy as model
from models import gemm_numpy, logp_numpy

from workbench.build.config import KernelConfig, spec
from workbench.errors import ConfigError, InputError
from workbench.orders import ReductionTree, declared_order, reduce_sum_order

OP = "batch_invariant_logp"
# Hidden sizes at the edges of tiles and repeats (8191.. and 10000 take several tiles).
EDGES = (1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 4095, 4096, 4097, 8191, 8192, 8193, 10000)


def config(tile: int, arch: str = "dav-2201") -> SimpleNamespace:
    return SimpleNamespace(tile_length=tile, arch=arch)


def bits(x: np.ndarray) -> bytes:
    return np.ascontiguousarray(x, np.float32).tobytes()


# ---- an independent model: vectors of lanes, no trees ------------------------------------


def repeat_sum(x: np.ndarray) -> np.ndarray:
    """One repeat: 64 lanes, masked ones +0, six levels of adjacent pairs."""
    x = np.concatenate([x, np.zeros(64 - len(x), np.float32)])
    while len(x) > 1:
        x = x[0::2] + x[1::2]
    return x[0]


def model_reduce_sum(x: np.ndarray, method: int, tail_apart: bool = False) -> np.float32:
    if tail_apart and len(x) > 64 and len(x) % 64:
        whole = len(x) // 64 * 64
        return model_reduce_sum(x[:whole], method) + model_reduce_sum(x[whole:], method)
    repeats = [x[i : i + 64] for i in range(0, len(x), 64)]
    if method == 3:
        v = [np.concatenate([r, np.zeros(64 - len(r), np.float32)]) for r in repeats]
        if len(v) == 4:
            return repeat_sum((v[0] + v[1]) + (v[2] + v[3]))
        for other in v[1:]:
            v[0] = v[0] + other
        return repeat_sum(v[0])
    if method == 1:
        total = np.float32(0)
        for r in repeats:
            total = total + repeat_sum(r)
        return total
    while len(x) > 1:
        x = np.array([repeat_sum(x[i : i + 64]) for i in range(0, len(x), 64)])
    return x[0]


def model_lm_head(x: np.ndarray, tile: int, arch: str) -> np.float32:
    total = np.float32(0)
    for start in range(0, len(x), tile):
        part = x[start : start + tile]
        method = {"dav-2201": 1}.get(arch, 2)
        if arch == "dav-3510" and 256 <= 4 * len(part) <= 1024:
            method = 3
        total = total + model_reduce_sum(part, method, arch in ("dav-1001", "dav-2002"))
    return total


@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510", "dav-1001", "dav-2002"])
@pytest.mark.parametrize("tile", [64, 192, 256, 1024, 4096])
def test_declared_order_is_the_model_bit_for_bit(arch, tile):
    rng = np.random.default_rng(tile)
    for n in EDGES:
        terms = rng.normal(size=(2, n)).astype(np.float32)
        tree = declared_order("lm_head", config(tile, arch), n)
        assert tree.leaves == n and tree.arity <= 2
        model = np.array([model_lm_head(row, tile, arch) for row in terms], np.float32)
        assert tree.sum(terms).tobytes() == model.tobytes(), n


def test_the_model_tells_architectures_and_tiles_apart():
    terms = np.random.default_rng(1).normal(size=(64, 4097)).astype(np.float32)
    sums = {
        key: np.array([model_lm_head(row, *key) for row in terms]).tobytes()
        for key in [(4096, "dav-2201"), (1024, "dav-2201"), (4096, "dav-3510"), (192, "dav-3510")]
    }
    assert len(set(sums.values())) == 4


def test_heights_and_bit_classes_at_4096():
    order = {
        (method, tile): declared_order("lm_head", config(tile), 4096, method=method)
        for method in (1, 2)
        for tile in (64, 256, 1024, 2048, 4096)
    }
    assert order[1, 64].height == order[1, 4096].height == 69
    assert order[1, 64] == order[1, 4096] and order[1, 64] == order[2, 64]
    assert order[2, 4096].height == 12 and order[2, 4096] == order[2, 2048]
    assert len({tree.hash for tree in order.values()}) == 7
    assert declared_order("lm_head", config(4096), 4096) == order[1, 4096]
    small, large = (declared_order("lm_head", config(t, "dav-3510"), 4096) for t in (64, 4096))
    assert small != large and large == order[2, 4096]


def test_method_three_only_from_256_to_1024_bytes():
    for tile, method in ((32, 2), (64, 3), (192, 3), (256, 3), (320, 2)):
        order = declared_order("lm_head", config(tile, "dav-3510"), tile)
        assert order == ReductionTree.from_nested(reduce_sum_order(method, tile)), tile
    folded, passes = (ReductionTree.from_nested(reduce_sum_order(m, 256)) for m in (3, 2))
    assert folded != passes  # so that the loop above can fail


def test_small_orders_written_out():
    assert reduce_sum_order(1, 6, lanes=2) == [[[0, 1], [2, 3]], [4, 5]]
    assert reduce_sum_order(2, 7, lanes=2) == [[[0, 1], [2, 3]], [[4, 5], 6]]
    assert reduce_sum_order(2, 9, lanes=4) == [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]], 8]
    assert reduce_sum_order(3, 4, lanes=2) == [[0, 2], [1, 3]]
    assert reduce_sum_order(3, 6, lanes=2) == [[[0, 2], 4], [[1, 3], 5]]
    assert reduce_sum_order(3, 8, lanes=2) == [[[0, 2], [4, 6]], [[1, 3], [5, 7]]]
    assert reduce_sum_order(3, 7, lanes=2) == [[[0, 2], [4, 6]], [[1, 3], 5]]
    assert reduce_sum_order(2, [[0, 1], 2, 3], lanes=2) == [[[0, 1], 2], 3]
    assert reduce_sum_order(2, 5, lanes=2, tail_apart=True) == [[[0, 1], [2, 3]], 4]
    assert reduce_sum_order(1, 1) == 0


def test_a_tail_apart_is_another_order():
    together, apart = (
        ReductionTree.from_nested(reduce_sum_order(2, 130, tail_apart=flag))
        for flag in (False, True)
    )
    assert together == apart  # two whole repeats and a tail: ((a, b), t) either way
    together, apart = (
        ReductionTree.from_nested(reduce_sum_order(2, 3 * 64 + 2, tail_apart=flag))
        for flag in (False, True)
    )
    assert together != apart  # ((a, b), (c, t)) against (((a, b), c), t)


def test_nothing_to_add_and_tiles_longer_than_the_row():
    assert declared_order("lm_head", config(64), 0).leaves == 0
    assert declared_order("lm_head", config(4096), 10) == declared_order("lm_head", config(64), 10)


# ---- the other operators, against the numpy models of their kernels ------------------------------

DEPTHS = (1, 2, 7, 64, 127, 128, 129, 255, 256, 257, 383, 640, 641, 1000, 4097)


@pytest.mark.parametrize("leaf", [1, 3, 64, 128])
def test_the_order_of_det_gemm_is_the_model_bit_for_bit(leaf):
    rng = np.random.default_rng(leaf)
    other = KernelConfig(leaf_length=leaf + 2)  # 1 and 2 give the same tree
    told_apart = 0
    for depth in DEPTHS:
        a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((3, depth), (depth, 5)))
        products = model.mul(a[:, None, :], b.T[None, :, :]).reshape(15, depth)
        want = gemm_numpy.gemm(a, b, leaf=leaf).tobytes()
        tree = declared_order("det_gemm", KernelConfig(leaf_length=leaf), depth)
        assert tree.leaves == depth and tree.arity <= 2
        assert bits(tree.sum(products)) == want, depth
        told_apart += bits(declared_order("det_gemm", other, depth).sum(products)) != want
    assert told_apart > len(DEPTHS) // 2


@pytest.mark.parametrize(("depth", "leaf"), [(4, 4), (5, 4), (16, 4), (17, 4), (3, 1), (257, 128)])
def test_the_height_of_det_gemm(depth, leaf):
    def height(leaves):
        """Of leaves in order, by their heights: left the largest power of two below them all."""
        if len(leaves) == 1:
            return leaves[0]
        left = 1 << (len(leaves) - 1).bit_length() - 1
        return 1 + max(height(leaves[:left]), height(leaves[left:]))

    sizes = [min(leaf, depth - start) for start in range(0, depth, leaf)]
    order = declared_order("det_gemm", KernelConfig(leaf_length=leaf), depth)
    assert order.height == height([size - 1 for size in sizes])
    # A ragged last leaf takes nothing off: the first one is as deep and whole.
    assert order.height == min(leaf, depth) - 1 + (len(sizes) - 1).bit_length()


def test_det_gemm_written_out():
    def order(n, leaf):
        return declared_order("det_gemm", SimpleNamespace(leaf_length=leaf), n).to_json()

    assert order(7, 2) == "[[[0,1],[2,3]],[[4,5],6]]"
    assert order(5, 1) == "[[[0,1],[2,3]],4]"
    assert order(8, 3) == "[[[[0,1],2],[[3,4],5]],[6,7]]"
    assert order(3, 128) == "[[0,1],2]" and order(0, 128) == "[]"
    default = declared_order("det_gemm", KernelConfig(arch="dav-3510", rows=8), 1000)
    assert default == declared_order("det_gemm", KernelConfig(leaf_length=128), 1000)


@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
@pytest.mark.parametrize("tile", [64, 192, 256, 1024, 4096])
def test_the_order_of_the_exponentials_is_the_model_bit_for_bit(arch, tile, monkeypatch):
    """With the largest logit 0 and the logarithm left out, lse is the sum of exponentials."""
    monkeypatch.setattr(logp_numpy, "ln", lambda total: total)
    rng = np.random.default_rng(tile)
    other = KernelConfig(tile_length=tile + 64, arch=arch)
    told_apart = 0
    for vocab in EDGES:
        logits = rng.uniform(-8, 0, size=(8, vocab)).astype(np.float32)
        logits[:, vocab // 2] = 0
        target = np.zeros(8, np.int64)
        _, lse = logp_numpy.forward(logits, target, arch=arch, tile=tile)
        terms = logp_numpy.exp(logits)
        tree = declared_order(OP, config(tile, arch), vocab)
        assert tree.leaves == vocab and tree.arity <= 2
        assert bits(tree.sum(terms)) == lse.tobytes(), vocab
        told_apart += bits(declared_order(OP, other, vocab).sum(terms)) != lse.tobytes()
    assert told_apart > 0


def test_heights_of_the_exponentials():
    for vocab, height in ((1, 0), (64, 6), (65, 7), (257, 6 + 4), (4096, 69)):
        assert declared_order(OP, config(4096), vocab).height == height, vocab
    # On dav-3510 a tile is one tree; two tiles are one more addition.
    assert declared_order(OP, config(1024, "dav-3510"), 1024).height == 10
    assert declared_order(OP, config(1024, "dav-3510"), 2048).height == 11
    default = declared_order(OP, KernelConfig(), 5000)
    assert default == declared_order(OP, config(4096), 5000)
    assert default != declared_order(OP, config(1024, "dav-3510"), 5000)


def test_a_config_without_a_tile_takes_the_kernel_s_default():
    default = spec("lm_head").complete(KernelConfig()).tile_length
    for arch in ("dav-2201", "dav-3510"):
        order = declared_order("lm_head", KernelConfig(arch=arch), 5000)
        assert order == declared_order("lm_head", config(default, arch), 5000)


def test_refusals():
    with pytest.raises(ConfigError, match=r"linear_logp.*lm_head, batch_invariant_logp, det_gemm"):
        declared_order("linear_logp", config(64), 64)
    with pytest.raises(ConfigError, match=r"no leaf_length; the order of det_gemm"):
        declared_order("det_gemm", config(64), 64)
    with pytest.raises(InputError, match="leaf_length=0"):
        declared_order("det_gemm", SimpleNamespace(leaf_length=0), 64)
    with pytest.raises(InputError, match="method=1: det_gemm"):
        declared_order("det_gemm", KernelConfig(), 64, method=1)
    with pytest.raises(ConfigError, match="dav-9999"):
        declared_order("lm_head", config(64, "dav-9999"), 64)
    with pytest.raises(ConfigError, match="tile_length"):
        declared_order("lm_head", SimpleNamespace(arch="dav-2201"), 64)
    with pytest.raises(InputError, match="n=-1"):
        declared_order("lm_head", config(64), -1)
    with pytest.raises(InputError, match="tile_length=0"):
        declared_order("lm_head", config(0), 64)
    for arguments, match in (((4, 64), "methods"), ((1, 0), "n >= 1"), ((3, 257), "at most 4")):
        with pytest.raises(InputError, match=match):
            reduce_sum_order(*arguments)
    with pytest.raises(InputError, match="lanes"):
        reduce_sum_order(1, 4, lanes=1)
