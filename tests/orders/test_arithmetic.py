"""One-shot probes of arithmetic, against simulated adders of every kind.

The simulation is exact: integers in units of 2^-300, rounded by a choice between two neighbours,
and no floating point.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from helpers import kernel

import workbench as wb
from workbench.errors import InputError
from workbench.orders.arithmetic import Dots, arithmetic, ask
from workbench.orders.arithmetic.probes import rounded_quarters
from workbench.orders.dot import dot
from workbench.orders.tree import ReductionTree, adjacent_pairs, sequential

ORDERS = {
    "sequential": sequential(range(8)),
    "balanced": adjacent_pairs(range(8)),
    "ragged": [[0, [3, 1]], [[2, 5], [4, [7, 6]]]],
}
UNIT = 300  # numbers are integers in units of 2^-300, inputs in units of 2^-150
LOWEST = UNIT - 126  # the bit of fp32's smallest normal number
MODES = (
    *("nearest even", "nearest, ties away", "nearest, ties to zero"),
    *("toward zero", "up", "down", "to odd"),
)


def choose(below: int, part: Fraction, negative: bool, mode: str) -> int:
    """`below` or `below` + 1 for the value below + part, 0 < part < 1."""
    near, half = (below if part < Fraction(1, 2) else below + 1), part == Fraction(1, 2)
    even = below if below % 2 == 0 else below + 1
    outer = below if negative else below + 1
    return {
        "up": below + 1,
        "down": below,
        "toward zero": below + 1 if negative else below,
        "to odd": below if below % 2 else below + 1,
        "nearest even": even if half else near,
        "nearest, ties away": outer if half else near,
        "nearest, ties to zero": (2 * below + 1 - outer) if half else near,
    }[mode]


def rounded(value: int, bits: int = 24, mode: str = "nearest even", flush: bool = False) -> int:
    """value -> the number of `bits` significant bits that fp32's exponents allow; units of UNIT."""
    size = abs(value).bit_length()
    if flush and size <= LOWEST:
        return 0
    drop = max(size, LOWEST + 1) - bits  # bits below the last one that is kept
    if drop <= 0:
        return value
    below, rest = value >> drop, value & ((1 << drop) - 1)
    if rest:
        below = choose(below, Fraction(rest, 1 << drop), value < 0, mode)
    return below << drop


def simulated(
    order,
    *,
    bits: int = 24,
    mode: str = "nearest even",
    product_bits: int = 24,
    product_mode: str = "nearest even",
    fused: str = "none",
    only: tuple[int, ...] = (),
    flush: tuple[str, ...] = (),
    dtype: str = "fp32",
    input_bits: int = 24,
    start: float = -0.0,
):
    """(a [R, n], b [n]) -> [R] float32, in the given order with the given arithmetic.

    `fused`: "none", "leaf" (the second of two leaves, or the one leaf of a node), "only" or "all".
    """
    lowest = {"fp32": -126, "bf16": -126, "fp16": -14}[dtype]

    def taken(x: float) -> int:
        numerator, denominator = x.as_integer_ratio()
        value = (numerator << UNIT // 2) // denominator
        if "inputs" in flush and abs(value) < 1 << UNIT // 2 + lowest:
            return 0
        drop = abs(value).bit_length() - input_bits
        return value if drop <= 0 else (abs(value) >> drop << drop) * (1 if value > 0 else -1)

    def product(p: int) -> int:
        return rounded(p, product_bits, product_mode, "products" in flush)

    def value(node, p):
        if isinstance(node, int):
            return product(p[node])
        parts = []
        leaves = [c for c in node if isinstance(c, int)]
        for child in node:
            whole = isinstance(child, int) and (
                fused == "all"
                or (fused == "leaf" and child == leaves[-1])
                or (fused == "only" and child in only)
            )
            parts.append(p[child] if whole else value(child, p))
        return rounded(sum(parts), bits, mode, "sums" in flush)

    def run(a, b):
        out = []
        b = [taken(y) for y in np.asarray(b).tolist()]
        for row in np.asarray(a).tolist():
            p = [taken(x) * y for x, y in zip(row, b, strict=True)]
            total = rounded(value(order, p), 24, mode if bits <= 24 else "nearest even")
            minus = all(math.copysign(1, x) < 0 and x == 0 for x in row) and np.signbit(start)
            out.append(-0.0 if minus else math.ldexp(total, -UNIT))
        return np.array(out, np.float32)

    return Dots(run, "simulated", dtype)


def probed(order, **flaws):
    return arithmetic(simulated(order, **flaws), 8, tree=ReductionTree.from_nested(order))


def test_the_rule_of_rounding_is_the_search_among_neighbours():
    for mode, quarters in itertools.product(MODES, range(-17, 18)):
        below, part = divmod(Fraction(quarters, 4), 1)
        want = choose(int(below), part, quarters < 0, mode) if part else below
        assert rounded_quarters(quarters, mode) == 4 * want, (mode, quarters)


def test_the_simulation_is_numpy_in_plain_arithmetic():
    rng = np.random.default_rng(0)
    a = (rng.standard_normal((40, 8)) * 2.0 ** rng.integers(-30, 30, (40, 8))).astype(np.float32)
    a[20:] *= np.float32(2.0**-120)  # subnormal products and sums
    b = rng.standard_normal(8).astype(np.float32)
    for order in ORDERS.values():
        want = ReductionTree.from_nested(order).sum(a * b)
        got = simulated(order).run(a, b)
        assert (got.view(np.uint32) == want.view(np.uint32)).all()
    wide = a.astype(np.float64) * b
    got = simulated(ORDERS["balanced"], bits=53, product_bits=53).run(a, b)
    tree = ReductionTree.from_nested(ORDERS["balanced"])
    assert (got == tree.sum(wide).astype(np.float32)).all()


@pytest.mark.parametrize("name", ORDERS)
def test_plain_arithmetic(name):
    found = probed(ORDERS[name])
    assert found.plain and not found.mask.any() and found.fused_leaves == ()
    assert (found.fused, found.product) == ("separate", "24 bits, nearest even")
    assert (found.rounding, found.input_bits, found.sum_bits) == ("nearest even", 24, (24,))
    assert {found.subnormal_inputs, found.subnormal_products, found.subnormal_sums} == {"kept"}
    assert found.empty == "-0" and found.raw["empty"] == ["0x80000000"]
    assert "Every product is rounded" in str(found.sentences())


@pytest.mark.parametrize("name", ORDERS)
def test_fused_products_are_told_term_by_term(name):
    order = ORDERS[name]
    tree = ReductionTree.from_nested(order)
    found = probed(order, fused="leaf")
    assert found.fused == "fused" and not found.plain
    # One leaf of each node that has any: the one that the simulation fuses.
    last = {[c for c in node if c < 8][-1] for node in tree._nodes() if min(node) < 8}
    assert set(found.fused_leaves) == set(np.flatnonzero(found.mask)) == last
    assert probed(order, fused="all").fused == "exact"
    for leaves in itertools.chain([(k,) for k in range(8)], [(1, 5, 6)]):
        some = probed(order, fused="only", only=leaves)
        assert some.fused_leaves == leaves and some.fused == "mixed", leaves


@pytest.mark.parametrize("name", ORDERS)
def test_the_mask_and_the_tree_give_the_target_s_bits(name):
    """What was found is enough to compute what the target computes."""
    order, rng = ORDERS[name], np.random.default_rng(1)
    tree = ReductionTree.from_nested(order)
    a = (rng.standard_normal((200, 8)) * 2.0 ** rng.integers(-9, 9, (200, 8))).astype(np.float32)
    b = rng.standard_normal(8).astype(np.float32)
    target = simulated(order, fused="leaf")
    found = arithmetic(target, 8, tree=tree)
    want = target.run(a, b).view(np.uint32)
    assert (dot(tree, a, b, found.mask).view(np.uint32) == want).all()
    assert (dot(tree, a, b).view(np.uint32) != want).any()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ORDERS)
def test_roundings_of_sums_and_of_products(name, mode):
    found = probed(ORDERS[name], mode=mode)
    assert (found.rounding, found.product) == (mode, "24 bits, nearest even")
    assert found.plain == (mode == "nearest even")
    found = probed(ORDERS[name], product_mode=mode)
    assert (found.rounding, found.product) == ("nearest even", f"24 bits, {mode}")
    assert found.fused == "separate"


@pytest.mark.parametrize("bits", [25, 27, 32, 53, 64])
def test_sums_that_keep_more_bits(bits):
    found = probed(ORDERS["ragged"], bits=bits)
    assert found.sum_bits == (bits,) and found.fused == "separate" and not found.plain
    # With products as wide as the sums no product is rounded before it is added.
    assert probed(ORDERS["ragged"], bits=bits, product_bits=max(bits, 27)).fused == "exact"


@pytest.mark.parametrize("bits", [11, 20])
def test_sums_and_inputs_that_keep_fewer_bits(bits):
    # The probes of rounding are made for fp32 sums: of shorter ones they say that they do not know.
    found = probed(ORDERS["balanced"], bits=bits)
    assert found.sum_bits == (bits,) and found.rounding == "unknown" and not found.plain
    found = probed(ORDERS["balanced"], input_bits=bits)
    assert found.input_bits == bits and not found.plain
    assert found.fused in ("separate", "exact")


def test_one_node_that_differs_is_seen():
    """A sum of two halves that are added in a wider format: two kinds of nodes."""
    half = simulated([0, [1, [2, 3]]]).run

    def run(a, b):
        parts = [half(a[:, k : k + 4], b[k : k + 4]).astype(np.float64) for k in (0, 4)]
        return parts[0] + parts[1]

    tree = ReductionTree.from_nested([[0, [1, [2, 3]]], [4, [5, [6, 7]]]])
    found = arithmetic(run, 8, tree=tree)
    assert found.rounding == "mixed" and not found.plain


@pytest.mark.parametrize("flush", [(), ("inputs",), ("products",), ("sums",), ("inputs", "sums")])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_subnormal_numbers(flush, dtype):
    found = probed(ORDERS["ragged"], flush=flush, dtype=dtype)
    names = ("inputs", "products", "sums")
    got = [getattr(found, f"subnormal_{name}") for name in names]
    want = ["flushed" if name in flush else "kept" for name in names]
    if "sums" in flush:  # a product that is kept does not survive its first addition
        want[1] = "flushed"
    assert got == want and found.plain == (not flush)


def test_a_thread_that_flushes_is_seen_and_the_twin_does_not_care():
    tree = ReductionTree.from_nested([[0, 1], 2])

    def three(x, y):
        p = x * y
        return (p[:, 0] + p[:, 1]) + p[:, 2]

    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no flush to zero that torch can set")
    try:
        flushed = arithmetic(three, 3, tree=tree)
        twin = arithmetic(kernel(256), 3, tree=tree)
        still = np.full(1, 2.0**-126, np.float32) * np.float32(0.5)
    finally:
        torch.set_flush_denormal(False)
    assert still[0] == 0  # the caller's setting is as it was
    names = ("subnormal_inputs", "subnormal_products", "subnormal_sums")
    assert [getattr(flushed, name) for name in names] == ["flushed"] * 3
    assert [getattr(twin, name) for name in names] == ["kept"] * 3
    assert flushed.evidence.flush_denormal and not flushed.plain and twin.plain
    assert arithmetic(three, 3, tree=tree).plain


def test_fp16_has_subnormal_inputs_only():
    found = probed(ORDERS["ragged"], dtype="fp16", flush=("inputs",))
    assert found.subnormal_inputs == "flushed" and not found.plain
    assert found.subnormal_products == found.subnormal_sums == "cannot occur"
    assert probed(ORDERS["ragged"], dtype="fp16").plain


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_products_of_16_bit_inputs(dtype):
    bits = {"bf16": 8, "fp16": 11}[dtype]
    found = probed(ORDERS["ragged"], dtype=dtype)
    assert found.fused == "exact" and found.product == "exact" and found.plain
    assert "fused or not is one" in found.sentences()[0]
    for mode in MODES:
        found = probed(ORDERS["ragged"], dtype=dtype, product_bits=bits, product_mode=mode)
        assert found.product == f"{bits} bits, {mode}" and not found.plain
    for mode in MODES:
        found = probed(ORDERS["sequential"], dtype=dtype, mode=mode)
        assert found.rounding == mode


def test_probes_fit_the_dtype():
    """Every number that is asked is one of the dtype: nothing is rounded on the way in."""
    for dtype, kind in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        plain = simulated(ORDERS["ragged"], dtype=dtype).run

        def run(a, b, plain=plain, kind=kind):
            for operand in (a, b):
                there = torch.from_numpy(operand).to(kind).float().numpy()
                assert (there.view(np.uint32) == operand.view(np.uint32)).all()
            return plain(a, b)

        tree = ReductionTree.from_nested(ORDERS["ragged"])
        assert arithmetic(Dots(run, "checked", dtype), 8, tree=tree).plain


@pytest.mark.parametrize(("start", "empty", "bits"), [(0.0, "+0", "00"), (-0.0, "-0", "80")])
def test_the_sign_of_the_start(start, empty, bits):
    found = probed(ORDERS["sequential"], start=start)
    assert found.empty == empty and found.raw["empty"] == [f"0x{bits}000000"]


def test_a_sum_of_terms_has_no_products():
    tree = ReductionTree.from_nested(ORDERS["ragged"])
    found = arithmetic(tree.sum, 8, tree=tree, array="numpy")
    assert (found.fused, found.product, found.subnormal_products) == ("not probed",) * 3
    assert found.plain and found.rounding == "nearest even" and found.sum_bits == (24,)

    for dtype in ("bf16", "fp16"):
        terms = Dots(lambda a, b: tree.sum(a), "terms", dtype, products=False)
        assert arithmetic(terms, 8, tree=tree).plain

    def flushing(terms):
        terms = terms.copy()
        terms[np.abs(terms) < np.float32(2.0**-126)] = 0
        return tree.sum(terms)

    assert arithmetic(flushing, 8, tree=tree, array="numpy").subnormal_inputs == "flushed"


def test_the_order_is_revealed_where_none_is_given():
    found = arithmetic(simulated(ORDERS["ragged"], fused="leaf"), 8)
    assert found == probed_again(found) and found.fused == "fused"
    assert arithmetic("torch.mv", 16).n == 16  # what it finds is a fact of this machine


def probed_again(found):
    """The same question with the order given; time, probes and evidence aside."""
    again = probed(ORDERS["ragged"], fused="leaf")
    return again.__class__(
        **{
            **vars(again),
            **{k: getattr(found, k) for k in ("seconds", "probes", "calls", "evidence")},
        }
    )


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510"])
def test_the_lm_head_on_the_twin_is_plain(arch, dtype):
    config = wb.KernelConfig(tile_length=256, arch=arch)
    found = arithmetic(
        kernel(256, arch), 600, tree=wb.declared_order("lm_head", config, 600), dtype=dtype
    )
    assert found.plain and found.evidence.backend == "twin" and found.evidence.arch == arch
    # The scalar that collects the tiles starts at +0.
    assert found.empty == "+0"


def test_the_answers_need_the_right_order(monkeypatch):
    """Asked in the reversed order, a chain of fused products would show one: partners are
    elsewhere. So a tree that is not the target's is refused."""
    chain = simulated(ORDERS["sequential"], fused="leaf")
    reverse = ReductionTree.from_nested(sequential(range(7, -1, -1)))
    assert probed(ORDERS["sequential"], fused="leaf").fused_leaves == tuple(range(1, 8))
    with pytest.raises(InputError, match="does not add in the order of this tree"):
        arithmetic(chain, 8, tree=reverse)
    monkeypatch.setattr(ask, "_confirm", lambda *given: None)  # the control
    assert arithmetic(chain, 8, tree=reverse).fused_leaves == (7,)


@pytest.mark.parametrize("mode", ["nearest even", "toward zero", "up"])
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_any_other_tree_is_refused(dtype, mode):
    for right in ORDERS:
        for given in ORDERS:
            dots = simulated(ORDERS[right], dtype=dtype, mode=mode)
            tree = ReductionTree.from_nested(ORDERS[given])
            if right == given:
                assert arithmetic(dots, 8, tree=tree).rounding == mode
            else:
                with pytest.raises(InputError, match="does not add in the order of this tree"):
                    arithmetic(dots, 8, tree=tree)


def test_one_odd_node_is_seen_where_every_node_is_asked():
    """Plain speaks of the nodes that were asked: 32 of 299 may miss the one that keeps 53 bits."""
    n, odd = 300, 150

    def nearly(a, b):
        total, *rest = (a * b).T
        for k, product in enumerate(rest, 1):
            if k == odd + 1:
                continue
            if k == odd:
                total = total.astype(np.float64) + product
                product = rest[odd]
            total = (total + product).astype(np.float32)
        return total

    tree = ReductionTree.from_nested(sequential(range(n)))
    every = arithmetic(nearly, n, tree=tree, nodes=None)
    assert not every.plain and every.sum_bits == (24, 53)


def test_refusals():
    tree = ReductionTree.from_nested([0, 1])
    with pytest.raises(InputError, match="tree is a str"):
        arithmetic(lambda a, b: a @ b, 3, tree="x")
    for n in (2.5, True, "a"):
        with pytest.raises(InputError, match="a whole number"):
            arithmetic(lambda a, b: a @ b, n)
    with pytest.raises(InputError, match="n=1"):
        arithmetic(np.dot, 1)
    with pytest.raises(InputError, match=r"2 terms and n=3"):
        arithmetic(lambda a, b: a @ b, 3, tree=tree)
    with pytest.raises(InputError, match=r"gave \[\] for"):
        arithmetic(lambda a, b: np.float32(0), 2, tree=tree)
    with pytest.raises(InputError, match="fp64"):
        arithmetic(lambda a, b: a @ b, 2, tree=tree, dtype="fp64")


def test_two_terms_are_one_addition():
    tree = ReductionTree.from_nested([0, 1])
    found = arithmetic(lambda a, b: (a * b).sum(1), 2, tree=tree)
    assert found.plain and found.sum_bits == () and "not asked" in str(found.sentences())
