"""Generated kernels against `dot`, bit for bit, and their controls."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workbench.build import arch as architectures
from workbench.errors import CacheError, InputError
from workbench.orders.declared import lm_head_order
from workbench.orders.dot import dot
from workbench.orders.synthesise import SynthesisError, asc, synthesise
from workbench.orders.synthesise.asc import ascend_source, reduce_sum_tiles
from workbench.orders.synthesise.host import fold_spines, host_source, operations
from workbench.orders.synthesise.regular import lanes_of
from workbench.orders.tree import ReductionTree, adjacent_pairs, sequential


def random_order(n, seed):
    rng = np.random.default_rng(seed)
    items = [int(i) for i in rng.permutation(n)]
    while len(items) > 1:
        i, j = sorted(rng.choice(len(items), 2, replace=False).tolist())
        b, a = items.pop(j), items.pop(i)
        items.append([a, b])
    return items[0]


def lanes(width, blocks, before=0, after=0, late=()):
    """As a BLAS adds: `before` terms into the first lane, lanes, then `after` terms one by one;
    `late` terms go on in their lanes."""
    start, end = before, before + width * blocks
    chains = [[*range(start + k, end, width)] for k in range(width)]
    chains[0] = [*range(before), *chains[0]]
    for k, term in enumerate(late):
        chains[k].append(term)
    n = end + len(late)
    return sequential([adjacent_pairs([sequential(c) for c in chains]), *range(n, n + after)])


def fusable(tree, share, seed):
    """Fused terms at random, one of a pair at most."""
    rng = np.random.default_rng(seed)
    mask = rng.random(tree.leaves) < share
    for i, j in tree.children.reshape(-1, 2).tolist():
        if i < tree.leaves and j < tree.leaves and mask[i] and mask[j]:
            mask[i] = False
    return mask


def draw(rows, n, seed):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((rows, n)) * 2.0 ** rng.integers(-8, 9, (rows, n))).astype(
        np.float32
    )


ORDERS = {
    "8 lanes": (lanes(8, 7, 4, 4), "lanes"),
    "4 lanes": (lanes(4, 15, 4), "lanes"),
    "5 lanes": (lanes(5, 6, 1, 2), "lanes"),
    "16 lanes, unequal": (lanes(16, 3, 0, 1, late=(48, 49, 50)), "lanes"),
    "method 1": (lm_head_order(300, 64, None, 1), "folded"),
    "method 2": (lm_head_order(256, 128, None, 2), "folded"),
    "left to right": (sequential(range(100)), "folded"),
    "right to left": (sequential(range(99, -1, -1)), "folded"),
    "random": (random_order(70, 0), "folded"),
    "random, large": (random_order(700, 1), "table"),
    "a pair": ([0, 1], "folded"),
    "a term": (0, "folded"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_host_kernels_have_the_bits_of_the_order(name):
    nested, form = ORDERS[name]
    tree = nested if isinstance(nested, ReductionTree) else ReductionTree.from_nested(nested)
    n = tree.leaves
    a, b = draw(37, n, 1), draw(3, n, 2)
    kernel = synthesise(tree, zero_start=True)
    assert kernel.form == form and kernel.tree == tree
    want = dot(tree, a, b)
    assert kernel(a, b).tobytes() == want.tobytes()
    assert kernel(b, a).tobytes() == np.ascontiguousarray(want.T).tobytes()
    assert kernel(a, b[1]).tobytes() == np.ascontiguousarray(want[:, 1]).tobytes()
    got = kernel(torch.from_numpy(a), torch.from_numpy(b))
    assert isinstance(got, torch.Tensor) and got.numpy().tobytes() == want.tobytes()


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("8 lanes", 1.0),
        ("5 lanes", 1.0),
        ("5 lanes", 0.4),
        ("method 1", 0.4),
        ("random, large", 0.4),
    ],
)
def test_fused_products(name, share):
    nested, form = ORDERS[name]
    tree = nested if isinstance(nested, ReductionTree) else ReductionTree.from_nested(nested)
    mask = fusable(tree, share, 3)
    kernel = synthesise(tree, fused=mask)
    a, b = draw(20, tree.leaves, 1), draw(2, tree.leaves, 2)
    want = dot(tree, a, b, mask)
    assert kernel(a, b).tobytes() == want.tobytes()
    assert want.tobytes() != dot(tree, a, b).tobytes(), "the data must tell fused from rounded"
    if form == "lanes" and share == 1.0:
        assert kernel.form == "lanes"


def test_a_kernel_of_another_order_has_other_bits():
    """The comparison above can fail: one pair of terms in each other's place."""
    tree = ReductionTree.from_nested(lanes(8, 7, 4, 4))
    children = np.array(tree.children)
    children[tree.children == 9], children[tree.children == 30] = 30, 9
    other = ReductionTree(tree.leaves, children, np.array(tree.offsets))
    a, b = draw(37, tree.leaves, 1), draw(3, tree.leaves, 2)
    assert synthesise(other)(a, b).tobytes() == dot(other, a, b).tobytes()
    assert synthesise(other)(a, b).tobytes() != dot(tree, a, b).tobytes()


@pytest.mark.parametrize("name", ["8 lanes", "method 1"])
def test_signs_of_zero_subnormals_infinities(name):
    nested, _ = ORDERS[name]
    tree = nested if isinstance(nested, ReductionTree) else ReductionTree.from_nested(nested)
    n = tree.leaves
    rng = np.random.default_rng(4)
    a = np.full((4, n), -0.0, np.float32)
    a[1] = rng.integers(-9, 9, n) * np.float32(2.0**-149)
    a[2, n // 2] = np.inf
    a[3] = 3e38
    one = np.ones(n, np.float32)
    for zero_start in (False, True):
        kernel = synthesise(tree, zero_start=zero_start)
        want = dot(tree, a, one, zero_start=zero_start)
        assert kernel(a, one).tobytes() == want.tobytes()
        assert np.signbit(want[0]) == (not zero_start) and want[2] == want[3] == np.inf
    torch.set_flush_denormal(True)
    try:
        flushed = kernel(a, one)
    finally:
        torch.set_flush_denormal(False)
    assert flushed.tobytes() == want.tobytes() and flushed[1] != 0


@pytest.mark.parametrize("name", ["method 1", "random, large", "8 lanes"])
def test_fused_products_keep_the_sign_of_zero(name):
    """1 * -0 is -0, also where it is fused, and whichever operand fills the lanes of outputs."""
    nested, _ = ORDERS[name]
    tree = nested if isinstance(nested, ReductionTree) else ReductionTree.from_nested(nested)
    mask = fusable(tree, 0.5, 6)
    kernel = synthesise(tree, fused=mask)
    ones, minus = np.ones((20, tree.leaves), np.float32), np.full((2, tree.leaves), -0.0, "f4")
    want = dot(tree, ones, minus, mask)
    assert np.signbit(want).all() and mask.any()
    assert kernel(ones, minus).tobytes() == want.tobytes()
    assert kernel(minus, ones).tobytes() == np.ascontiguousarray(want.T).tobytes()


def test_code_stays_small():
    """A table for 4096 terms in no order; a few functions for what repeats; nothing is unrolled."""
    wild = ReductionTree.from_nested(random_order(4096, 5))
    source, form, _ = host_source(wild)
    assert form == "table" and len(source) < 12 * 4096
    assert sorted(x >> 2 for x in operations(wild, np.zeros(4096, bool)) if x & 3 < 3) == [
        *range(4096)
    ]
    for tree in (lm_head_order(10000, 64, None, 1), lm_head_order(10000, 2048, None, 2)):
        source, form, _ = host_source(tree)
        assert form == "folded" and len(source) < 8000
    shapes, _, first = fold_spines(
        ReductionTree.from_nested(sequential(range(10000))), np.zeros(10000, bool)
    )
    assert (shapes, first) == ([((-1, 1, 1, 9999),)], 0)


def test_compiled_once():
    tree = ReductionTree.from_nested(lanes(4, 5))
    synthesise(tree)
    again = synthesise(tree, name="by another name")
    assert again.cached and again.name == "by another name" and "lanes" in str(again)


# ---- lanes ---------------------------------------------------------------------------------------


def test_what_lanes_are_seen():
    def seen(nested):
        return lanes_of(ReductionTree.from_nested(nested))

    found, _ = seen(lanes(16, 3, 0, 1, late=(48, 49, 50)))
    assert (found.start, found.blocks, found.width) == (0, 3, 16)
    assert [lane.after for lane in found.lanes[:4]] == [(48,), (49,), (50,), ()]
    found, _ = seen(lanes(8, 7, 4, 4))
    assert found.lanes[0].before == (0, 1, 2, 3) and str(found).startswith("8 lanes of 7 terms")
    for nested in (adjacent_pairs(range(64)), random_order(50, 2), sequential(range(9, -1, -1)), 0):
        found, why = seen(nested)
        assert found is None and why
    tree = ReductionTree.from_nested(lanes(4, 6))
    some = np.arange(24) == 13
    assert lanes_of(tree, some)[0] is None and "others are not" in lanes_of(tree, some)[1]


def rebuilt(found):
    """The order that is read off `Lanes`, written down again."""
    start, width, blocks = found.start, found.width, found.blocks
    chains = [
        sequential([*lane.before, *range(start + k, start + width * blocks, width), *lane.after])
        for k, lane in enumerate(found.lanes)
    ]

    def nested(node):
        if node[0] == "lane":
            return chains[node[1]]
        return node[1] if node[0] == "term" else [nested(child) for child in node]

    return ReductionTree.from_nested(nested(found.combine))


def test_lanes_are_the_order_they_were_read_from():
    """Orders of lanes in which a few terms have changed places: seen rightly, or not as lanes."""
    rng = np.random.default_rng(8)
    some = 0
    for nested in (
        lanes(8, 7, 4, 4),
        lanes(4, 9, 2),
        lanes(3, 5, 0, 2, late=(15, 16)),
        lanes(1, 30),
    ):
        tree = ReductionTree.from_nested(nested)
        for swaps in (0, 1, 1, 1, 1, 2, 2, 3, 3, 5):
            order = np.arange(tree.leaves)
            for i, j in rng.integers(0, tree.leaves, (swaps, 2)):
                order[[i, j]] = order[[j, i]]
            children = np.array(tree.children)
            below = children < tree.leaves
            children[below] = order[children[below]]
            other = ReductionTree(tree.leaves, children, np.array(tree.offsets))
            found, _ = lanes_of(other)
            if found is not None:
                assert rebuilt(found) == other
                some += other != tree
    assert some > 10


# ---- Ascend C ------------------------------------------------------------------------------------

REGULAR = {
    "8 lanes": (lanes(8, 7, 4, 4), "dav-2201", "lanes"),
    "3 lanes": (lanes(3, 4, 2, 1), "dav-3510", "lanes"),
    "left to right": ([[sequential(range(90))][0]], "dav-2201", "scalar"),
    "method 1": (lm_head_order(300, 128, None, 1), "dav-2201", "ReduceSum"),
    "method 2 by repeats": (lm_head_order(512, 256, None, 2), "dav-2201", "ReduceSum"),
    "method 2": (lm_head_order(1100, 512, None, 2), "dav-3510", "ReduceSum"),
}


@pytest.mark.parametrize("name", REGULAR)
def test_ascend_kernels_have_the_bits_of_the_order(name):
    nested, arch, form = REGULAR[name]
    tree = nested if isinstance(nested, ReductionTree) else ReductionTree.from_nested(nested)
    kernel = synthesise(tree, kind="ascend", arch=arch, backend="twin")
    assert (kernel.form, kernel.kernel.info.arch) == (form, arch)
    a, b = draw(5, tree.leaves, 1), draw(2, tree.leaves, 2)
    want = dot(tree, a, b)
    assert kernel(a, b).tobytes() == want.tobytes()
    assert kernel(torch.from_numpy(a), torch.from_numpy(b[0])).numpy().tobytes() == (
        np.ascontiguousarray(want[:, 0]).tobytes()
    )
    out = torch.empty(5, 2)  # no fault in the checked mode, with blocks that take several turns
    given = (torch.from_numpy(a), torch.from_numpy(b), out)
    kernel.kernel.launch(kernel.name, 3, *given, 5, 2, check=True)
    assert out.numpy().tobytes() == want.tobytes()


def test_a_long_row_is_taken_in_pieces():
    tree = ReductionTree.from_nested(lanes(4, 2100, 3, 2))  # more blocks than one piece holds
    kernel = synthesise(tree, kind="ascend", backend="twin", zero_start=True)
    a, b = draw(2, tree.leaves, 1), draw(1, tree.leaves, 2)
    assert kernel(a, b).tobytes() == dot(tree, a, b).tobytes()
    minus = np.full((1, tree.leaves), -0.0, np.float32)
    assert not np.signbit(kernel(minus, np.ones(tree.leaves, np.float32))).any()


def test_a_tile_longer_than_a_piece_has_room_in_ub():
    """ReduceSum takes a tile whole; the checked mode sees a copy beyond its buffer."""
    tree = lm_head_order(12_864, 12_800, None, 2)
    kernel = synthesise(tree, kind="ascend", arch="dav-3510", backend="twin")
    assert "tiles of 12800 terms" in kernel.what
    a, b = draw(2, tree.leaves, 1), draw(1, tree.leaves, 2)
    out = torch.empty(2, 1)
    given = (torch.from_numpy(a), torch.from_numpy(b), out)
    kernel.kernel.launch(kernel.name, 2, *given, 2, 1, check=True)
    assert out.numpy().tobytes() == dot(tree, a, b).tobytes()


@pytest.mark.parametrize("method", [1, 2])
def test_the_shortest_tile_of_an_order_is_found(method, monkeypatch):
    """Against a search that tries every tile; few are tried here."""
    on = architectures.load("dav-3510")
    for n, tile in ((1, 64), (64, 64), (700, 192), (1000, 320), (1024, 512), (960, 128)):
        tree = lm_head_order(n, tile, None, method)
        every = [
            (t, repeats)
            for t in range(64, n + 64, 64)
            for repeats, order in (
                (False, lm_head_order(n, t, on)),
                (True, lm_head_order(n, t, None, 2) if n % 64 == 0 else None),
            )
            if order == tree
        ]
        assert reduce_sum_tiles(tree, on) == (every[0] if every else None), (n, tile)
    tried = []
    monkeypatch.setattr(asc, "lm_head_order", lambda *how: tried.append(how) or tree)
    assert reduce_sum_tiles(ReductionTree.from_nested(random_order(2000, 3)), on) is None
    assert len(tried) < 6


def test_orders_that_no_ascend_kernel_has():
    with pytest.raises(SynthesisError, match='kind="host" takes any') as caught:
        synthesise(ReductionTree.from_nested(random_order(60, 3)), kind="ascend")
    assert caught.value.reason
    tree = ReductionTree.from_nested(lanes(8, 3))
    with pytest.raises(SynthesisError) as caught:
        synthesise(tree, kind="ascend", fused=np.arange(24) >= 8)
    assert caught.value.reason == "fused products"
    with pytest.raises(SynthesisError):  # method 1 is not what dav-3510 does
        ascend_source(lm_head_order(400, 192, None, 1), arch="dav-3510")


def test_refused_arguments(tmp_path):
    tree = ReductionTree.from_nested([0, 1])
    for bad in (
        lambda: synthesise(tree, kind="cuda"),
        lambda: synthesise(tree, kind="ascend", name="no name"),
        lambda: synthesise(ReductionTree.from_nested([])),
        lambda: synthesise(ReductionTree.from_nested([0, 1, 2])),
        lambda: synthesise(tree)(np.ones((1, 3), np.float32), np.ones(3, np.float32)),
    ):
        with pytest.raises(InputError):
            bad()
    for tree_like in ([0, 1], None, "[0,1]"):
        for kind in ("host", "ascend"):
            with pytest.raises(InputError, match="wanted a ReductionTree"):
                synthesise(tree_like, kind=kind)
    file = tmp_path / "deep" / "mine.asc"
    kernel = synthesise(tree, kind="ascend", path=file, name="mine", backend="twin")
    assert file.read_text() == kernel.source and "void mine(" in kernel.source
    assert kernel.to_dict()["path"] == str(file)


def test_what_people_wrote_is_not_overwritten(tmp_path):
    tree, other = (ReductionTree.from_nested(t) for t in ([0, 1], [[0, 1], 2]))
    mine = tmp_path / "mine.asc"
    for held in (b"// my own kernel\n", b"", b"\xff\xfe"):
        mine.write_bytes(held)
        with pytest.raises(InputError, match="was not generated by workbench"):
            synthesise(tree, kind="ascend", path=mine, backend="twin")
        assert mine.read_bytes() == held
    mine.unlink()
    synthesise(tree, kind="ascend", path=mine, backend="twin")
    again = synthesise(other, kind="ascend", path=mine, backend="twin")  # ours: replaced
    assert mine.read_text() == again.source and [*tmp_path.iterdir()] == [mine]


@pytest.mark.parametrize("error", [OSError(27, "File too large"), KeyboardInterrupt()])
def test_a_source_that_cannot_be_written_leaves_nothing_behind(error, tmp_path, monkeypatch):
    tree = ReductionTree.from_nested([0, 1])

    def half(self, text, encoding):
        self.write_bytes(text.encode()[:10])
        raise error

    mine = tmp_path / "mine.asc"
    monkeypatch.setattr(asc.Path, "write_text", half)
    with pytest.raises(CacheError if isinstance(error, OSError) else KeyboardInterrupt):
        synthesise(tree, kind="ascend", path=mine, backend="twin")
    assert not [*tmp_path.iterdir()]


def test_paths_that_are_no_files(tmp_path):
    tree = ReductionTree.from_nested([0, 1])
    folder = tmp_path / "folder.asc"
    folder.mkdir()
    (tmp_path / "file").write_text("")
    for path, error, words in (
        (folder, InputError, "is no file"),
        (tmp_path / "kernel", InputError, "ends in .asc"),
        (3, InputError, "wanted the name of a file"),
        ("/proc/mine.asc", CacheError, "cannot be written"),
        (tmp_path / "file" / "mine.asc", CacheError, "cannot be written"),
        (tmp_path / ("x" * 300 + ".asc"), CacheError, "cannot be written"),
        ("a\0.asc", CacheError, "cannot be written"),
    ):
        with pytest.raises(error, match=words):
            synthesise(tree, kind="ascend", path=path, backend="twin")
