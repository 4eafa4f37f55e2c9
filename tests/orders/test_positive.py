"""Orders of sums of positive terms, found by triples: random trees, fused adders, log-sum-exp."""

from __future__ import annotations

import pickle
import random

import numpy as np
import pytest
import torch
from logp_kit import OP, SOURCE, source_of
from logp_kit import kernel as logp_kernel

import workbench as wb
from workbench.errors import InputError
from workbench.orders.reveal.positive import (
    PositiveSum,
    agrees_by_triples,
    log_sum_exp,
    log_sum_exp_stages,
    reveal_positive,
    root_of_squares,
)
from workbench.orders.reveal.targets import RevealError
from workbench.orders.tree import ReductionTree, adjacent_pairs, sequential


def random_nested(n: int, arity: int, seed: int):
    """Random nodes joined, 2 to `arity` at a time, until one is left."""
    rng = random.Random(seed)
    nodes: list = rng.sample(range(n), n)
    while len(nodes) > 1:
        size = min(len(nodes), rng.randint(2, arity))
        nodes.append([nodes.pop(rng.randrange(len(nodes))) for _ in range(size)])
    return nodes[0]


def adder(nested, how: str = "exact"):
    """float32 [R, n] -> [R], written without ReductionTree.

    A node of more than two children is "exact" (one rounding of the exact sum), "cut" (terms are
    cut off at the ulp of the largest) or "always cut", where binary nodes do it as well.
    """

    def value(node, x):
        if isinstance(node, int):
            return x[:, node]
        terms = np.stack([value(child, x) for child in node]).astype(np.float64)
        if how != "exact" and (len(node) > 2 or how == "always cut"):
            ulp = np.spacing(terms.max(axis=0).astype(np.float32)).astype(np.float64)
            terms = np.floor(terms / ulp) * ulp
        return terms.sum(axis=0).astype(np.float32)

    return lambda x: value(nested, x)


@pytest.mark.parametrize("how", ["exact", "cut", "always cut"])
@pytest.mark.parametrize("arity", [2, 3, 7])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9, 40, 150])
def test_random_orders_are_found(n, arity, how):
    for seed in range(3 if n < 100 else 1):
        nested = random_nested(n, arity, seed)
        want = ReductionTree.from_nested(nested)
        found = reveal_positive(adder(nested, how), n, seed=seed + 1)
        assert found == want, found.to_json()
        assert agrees_by_triples(want, adder(nested, how))
        if how == "always cut" and want.arity == 2 and n > 2:
            assert found.report.cut > 0  # told apart from rounding to nearest


def test_the_empty_sum_and_the_report():
    assert reveal_positive(lambda x: x.sum(1), 0).leaves == 0
    found = reveal_positive(adder([[0, 2], [1, 3]]), 4)
    again = pickle.loads(pickle.dumps(found))
    assert again == found and again.report.probes == found.report.probes > 0
    assert found.report.checks[0].startswith("one triple for each inner edge (2)")
    assert "probes" in str(found.report) and found.report.to_dict()["n"] == 4


@pytest.mark.parametrize("kind", ["left to right", "right to left", "neighbours"])
def test_calls_and_probes_grow_as_they_should(kind):
    n = 512
    nested = {
        "left to right": sequential(range(n)),
        "right to left": sequential(range(n - 1, -1, -1)),
        "neighbours": adjacent_pairs(range(n)),
    }[kind]
    tree = ReductionTree.from_nested(nested)
    found = reveal_positive(tree.sum, n)
    assert found == tree
    assert found.report.calls <= 4 * 9 and found.report.probes <= 6 * n * 9


def test_a_batch_of_one_row_is_enough():
    nested = random_nested(20, 3, 0)
    asked: list[int] = []

    def fn(x):
        asked.append(len(x))
        return adder(nested)(x)

    assert reveal_positive(fn, 20, batch_bytes=1) == ReductionTree.from_nested(nested)
    assert set(asked) == {1}


def test_an_exact_sum_is_one_node_and_says_so():
    def wide(x):
        return x.sum(axis=1, dtype=np.float64).astype(np.float32)

    found = reveal_positive(wide, 200)
    assert found.arity == 200 and "wider accumulator" in " ".join(found.report.checks)
    assert not agrees_by_triples(ReductionTree.from_nested(sequential(range(200))), wide)


@pytest.mark.parametrize("n", [3, 8, 50])
@pytest.mark.parametrize("first", [1, -1])
@pytest.mark.parametrize("after", [np.asarray, np.log1p])
def test_a_sum_that_sorts_its_terms_is_refused(first, n, after):
    """Its triples are those of one node; sums of ordinary terms are not."""

    def by_size(x):
        return adder(sequential(range(n)))(np.sort(x, axis=1)[:, ::first])

    own = PositiveSum(lambda x: after(by_size(x)), term=np.asarray)
    with pytest.raises(RevealError, match="do not rise with the sums") as refused:
        reveal_positive(own, n)
    assert refused.value.reason == "unexplained"
    found = reveal_positive(by_size, n, check=False)
    assert found.arity == n


def pairs_of(row):
    while len(row) > 1:
        whole = len(row) // 2 * 2
        row = np.concatenate([row[:whole].reshape(-1, 2).sum(1), row[whole:]])
    return row[0] if len(row) else np.float32(0)


def without_zeros(x):
    """Zeros are left out, and the rest is added in pairs: of three terms no probe tells."""
    return np.array([pairs_of(row[row > 0]) for row in x], np.float32)


def by_their_number(x):
    forth, back = (np.cumsum(x[:, ::way], axis=1, dtype=np.float32)[:, -1] for way in (1, -1))
    return np.where((x != 0).sum(1) > 3, back, forth)


@pytest.mark.parametrize("n", [4, 8, 33])
@pytest.mark.parametrize("sums", [without_zeros, by_their_number])
def test_orders_that_depend_on_zeros_are_refused(sums, n):
    with pytest.raises(RevealError, match="with no zero among the other terms") as refused:
        reveal_positive(sums, n)
    assert refused.value.reason == "value-dependent"
    wrong = reveal_positive(sums, n, check=False)  # the control: triples over zeros do not see it
    assert "with no zero" in agrees_by_triples(wrong, sums).difference

    def lse(x):  # of terms that nobody knows: exponentials
        largest = x.max(-1, keepdim=True).values
        terms = np.exp((x - largest).numpy())
        return largest[:, 0] + torch.from_numpy(np.log(sums(terms)))

    with pytest.raises(RevealError, match="with no zero among the other terms"):
        reveal_positive(log_sum_exp(lse), n)
    with pytest.raises(RevealError, match="with no zero among the other terms"):
        reveal_positive(root_of_squares(lambda x: np.sqrt(sums(x * x))), n)


@pytest.mark.parametrize("after", [np.asarray, np.log1p, np.square, lambda s: np.float32(3) * s])
def test_what_follows_the_sum_may_be_any_increasing_function(after):
    nested = random_nested(30, 2, 7)
    found = reveal_positive(lambda x: after(adder(nested)(x)), 30)
    assert found == ReductionTree.from_nested(nested)
    assert "rise with fp32 sums along the tree" in " ".join(found.report.checks)


def test_an_order_that_ordinary_sizes_choose_is_refused():
    def by_size(x):
        even = (x > 2.0**-30).all(1)
        forth, back = (np.cumsum(x[:, ::way], axis=1, dtype=np.float32)[:, -1] for way in (1, -1))
        return np.where(even, back, forth)

    with pytest.raises(RevealError, match="do not rise") as refused:
        reveal_positive(by_size, 9)
    assert refused.value.reason == "unexplained"


def test_a_callable_that_raises_or_writes_is_named():
    def breaks(x):
        raise KeyError("no such thing")

    with pytest.raises(
        RevealError, match=r"breaks raised KeyError.*\[7, 5\]|on rows \["
    ) as refused:
        reveal_positive(breaks, 5)
    assert refused.value.reason == "raised"

    def writes(x):
        if len(x) > 9:
            x[0] = x[0][::-1].copy()
        return x.sum(1)

    with pytest.raises(RevealError, match="changes the rows it is given") as refused:
        reveal_positive(writes, 12)
    assert refused.value.reason == "changes its argument"


def test_a_wide_node_among_others():
    nested = [[list(range(80)), [80, 81]], [82, 83]]
    assert reveal_positive(adder(nested), 84) == ReductionTree.from_nested(nested)


@pytest.mark.parametrize("arity", [2, 4])
def test_every_other_order_of_a_few_terms_is_told_apart(arity):
    """n - 2 triples settle it: no other tree of five terms gives the same answers."""
    trees = {ReductionTree.from_nested(random_nested(5, arity, seed)) for seed in range(400)}
    assert len(trees) > 80
    for declared in list(trees)[:12]:
        told = [bool(agrees_by_triples(declared, adder(t.to_nested()))) for t in trees]
        assert sum(told) == 1 and told[list(trees).index(declared)]


def test_the_number_of_triples_and_the_difference_in_words():
    tree = ReductionTree.from_nested(adjacent_pairs(range(64)))
    same = agrees_by_triples(tree, tree.sum)
    assert same.equal and same.triples == 62 and same.difference is None
    other = agrees_by_triples(tree, ReductionTree.from_nested(sequential(range(64))).sum)
    assert not other.equal and not other
    assert other.difference.startswith("declared: the terms ") and "found: " in other.difference


def test_a_norm():
    nested = random_nested(50, 2, 4)
    found = reveal_positive(root_of_squares(lambda x: np.sqrt(adder(nested)(x * x))), 50)
    assert found == ReductionTree.from_nested(nested)


# ---- what is refused -----------------------------------------------------------------------------


def test_refusals():
    for n in (-1, 2.5):
        with pytest.raises(InputError, match=f"n={n}; a sum has a whole number"):
            reveal_positive(lambda x: x.sum(1), n)
    with pytest.raises(InputError, match="got int"):
        reveal_positive(3, 4)
    with pytest.raises(InputError, match=r"gave \[\] for"):
        reveal_positive(lambda x: x.sum(), 4)
    with pytest.raises(InputError, match="unknown dtype 'fp8'"):
        log_sum_exp(lambda x: x, "fp8")
    with pytest.raises(InputError, match="lm_head has no sum of exponentials"):
        log_sum_exp(wb.build("lm_head", backend="twin"))
    with pytest.raises(InputError, match="n=1; stages"):
        log_sum_exp_stages(lambda x: x, 1)


def test_what_is_no_sum_is_refused():
    def weighted(x):
        return x @ np.arange(1, 9, dtype=np.float32)

    def upwards(x):  # every addition that is not exact is rounded up
        total = np.zeros(len(x), np.float32)
        for term in x.T:
            exact = total.astype(np.float64) + term
            total = exact.astype(np.float32)
            total = np.where(total < exact, np.nextafter(total, np.float32(2)), total)
        return total

    def coarse(x):
        return torch.from_numpy(x.sum(1)).bfloat16().float().numpy()

    for fn, reason in (
        (weighted, "not a sum"),
        (upwards, "not a sum"),
        (coarse, "accumulator too narrow"),
    ):
        with pytest.raises(RevealError) as refused:
            reveal_positive(fn, 8)
        assert refused.value.reason == reason, fn.__name__

    calls = [0]

    def changing(x):  # another order from the third call on
        calls[0] += 1
        half = adjacent_pairs(range(8)) if calls[0] > 5 else sequential(range(8))
        return adder(half)(x)

    with pytest.raises(RevealError) as refused:
        reveal_positive(changing, 8)
    assert refused.value.reason in ("inconsistent", "value-dependent")


# ---- log-sum-exp ---------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
@pytest.mark.parametrize("tile", [64, 256, 1024])
def test_the_kernel_adds_its_exponentials_as_declared(arch, tile):
    target = log_sum_exp(logp_kernel(tile, arch))
    config = wb.KernelConfig(tile_length=tile, arch=arch)
    for vocab in (1, 65, 257):
        assert reveal_positive(target, vocab) == wb.declared_order(OP, config, vocab), vocab
    # A whole vocabulary's order is confirmed by its triples; that of another tile is not.
    vocab = 2500
    assert agrees_by_triples(wb.declared_order(OP, config, vocab), target)
    other = config.replace(tile_length=tile + 64)
    assert not agrees_by_triples(wb.declared_order(OP, other, vocab), target)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_kernel_in_16_bits(dtype):
    config = wb.KernelConfig(tile_length=64, arch="dav-2201")
    found = reveal_positive(log_sum_exp(logp_kernel(64, "dav-2201"), dtype), 200)
    assert found == wb.declared_order(OP, config, 200)
    assert found.report.evidence.backend == "twin" and dtype in found.report.target


def test_the_stages_of_the_kernel():
    found = log_sum_exp_stages(logp_kernel(64, "dav-2201"), 150)
    assert found.maximum and found.exponential
    want = wb.declared_order(OP, wb.KernelConfig(tile_length=64), 150)
    assert found.order == want and found.to_dict()["hash"] == want.hash
    assert [row["stage"] for row in found.rows()] == ["maximum", "exponentials", "their sum"]


def test_stages_that_depend_on_the_place_are_seen():
    def lse(x, *, shift=0.0, factor=1.0):
        largest = x.max(-1, keepdim=True).values
        terms = (x - largest).exp()
        terms[:, x.shape[1] // 2 :] *= factor
        return largest[:, 0] + terms.cumsum(-1)[:, -1].log() + shift * (x.argmax(-1) > 3)

    plain = log_sum_exp_stages(lse, 20)
    assert plain.maximum and plain.exponential
    with pytest.raises(RevealError, match="the term 1 alone gives"):
        log_sum_exp_stages(lambda x: lse(x, shift=1.0), 20)

    # In the upper half every exponential but that of 0 is an ulp off.
    def ragged(x):
        largest = x.max(-1, keepdim=True).values
        terms = (x - largest).exp()
        upper = terms[:, 10:]
        upper[upper < 1] *= 1 + 2.0**-22
        return largest[:, 0] + terms.cumsum(-1)[:, -1].log()

    found = log_sum_exp_stages(ragged, 20)
    assert found.maximum and not found.exponential


def test_a_kernel_that_adds_its_tiles_backwards_is_told_apart(tmp_path):
    """The order of a log-sum-exp shows through Exp and Ln."""
    forwards = (
        "        in_.CopyTile(row, 0);\n"
        "        for (uint32_t begin = 0; begin < in_.vocab_; begin += kTile) {\n"
        "            in_.CopyNextTile(row, begin);\n"
        "            sum += TileExpSum(in_.TileElements(begin), largest);\n"
    )
    backwards = (
        "        for (uint32_t left = (in_.vocab_ + kTile - 1) / kTile; left > 0; --left) {\n"
        "            const uint32_t begin = (left - 1) * kTile;\n"
        "            in_.CopyTile(row, begin);\n"
        "            sum += TileExpSum(in_.TileElements(begin), largest);\n"
    )
    text = source_of("fp32")
    assert text.count(forwards) == 1 and SOURCE.read_text().count(forwards) == 1
    path = tmp_path / "backwards.asc"
    path.write_text(text.replace(forwards, backwards))
    built = wb.build(path, wb.KernelConfig(), backend="twin", defines={"TILE_LENGTH": 64})

    def lse(logits):
        rows, vocab = logits.shape
        target = torch.zeros(rows, dtype=torch.int64)
        out = [torch.empty(rows) for _ in range(2)]
        built.launch(f"{OP}_fp32", min(rows, 7), logits, target, *out, rows, vocab, -100)
        return out[1]

    declared = wb.declared_order(OP, wb.KernelConfig(tile_length=64), 300)
    found = reveal_positive(log_sum_exp(lse), 300)
    tiles = [range(at, min(at + 64, 300)) for at in range(0, 300, 64)]
    assert found == ReductionTree.from_nested(
        sequential(adjacent_pairs(tile) for tile in reversed(tiles))
    )
    assert found != declared and not agrees_by_triples(declared, log_sum_exp(lse))


def test_the_order_of_torch_logsumexp_is_found():
    """Whatever it is here: a fact of this machine's library. It is one order, and it repeats."""
    target = log_sum_exp(lambda x: torch.logsumexp(x, -1))
    found = reveal_positive(target, 100)
    assert found == reveal_positive(target, 100, seed=5) and agrees_by_triples(found, target)


def test_own_inputs():
    tripled = PositiveSum(lambda x: adder([[0, 1], 2])(3 * x), "tripled", one=1 / 3)
    with pytest.raises(RevealError):  # 3 v is not lost beside 1
        reveal_positive(tripled, 3)
