"""Mutations: each against a second way to its outputs, some against the kernel with the bug."""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType

import helpers
import numpy as np
import pytest
import torch
from controls import shipped_with

import workbench as wb
from workbench.errors import ConfigError, InputError
from workbench.numerics.bits import compare_bits
from workbench.numerics.bounds import bounds
from workbench.numerics.exact import exact_linear
from workbench.numerics.gates import mutations as module
from workbench.numerics.gates import table as tables
from workbench.numerics.gates.mutations import (
    MUTATIONS,
    NotApplicable,
    add_truncated,
    correct,
    mutate,
    setting,
)
from workbench.numerics.gates.standards import STANDARDS, standards
from workbench.numerics.gates.table import draw, mutation_table
from workbench.orders.tree import ReductionTree

DOCS = Path(__file__).parents[2] / "docs" / "mutations.md"
TILE, WIDTH = 64, 200
DTYPES = helpers.DTYPES
ORDER = wb.declared_order("lm_head", wb.KernelConfig(tile_length=TILE), n=WIDTH)
OTHER = wb.declared_order("lm_head", wb.KernelConfig(tile_length=32), n=WIDTH)
HIDDEN, WEIGHT, BIAS = draw((5, WIDTH, 12), seed=3)


def case(dtype="fp32", out=None, bias=True, **given):
    h, w, b = (t.to(DTYPES[dtype]) for t in (HIDDEN, WEIGHT, BIAS))
    given = {"out_dtype": out, "tile": TILE, "other": OTHER, "seed": 7} | given
    return setting(h, w, ORDER, bias=b if bias else None, **given)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return compare_bits(a, b).mismatches == 0


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32))


def run(name, **given):
    return MUTATIONS[name].run(case(**given))


# ---- the correct result --------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "out"), helpers.ENTRIES)
def test_without_a_mistake_it_is_the_shipped_kernel(dtype, out):
    kernel = helpers.kernel(TILE)
    h, w, b = (t.to(DTYPES[dtype]) for t in (HIDDEN, WEIGHT, BIAS))
    out_dtype = torch.float32 if out == "fp32" else None
    assert same(correct(case(dtype, out_dtype)), kernel(h, w, b, out_dtype))
    assert same(correct(case(dtype, out_dtype, bias=False)), kernel(h, w, None, out_dtype))


# The same mistake in the source of the shipped kernel: name, edits, dtypes.
IN_SOURCE = {
    "drop_last_tile": (
        [
            (
                "sum += TileSum(TileElements(width_, begin));",
                "const float tile = TileSum(TileElements(width_, begin));"
                "sum += width_ - begin <= kTile ? 0.0f : tile;",
            )
        ],
        ("fp32", "bf16"),
    ),
    "bias_twice": ([("Add(total, total, bias, 1);", "Add(total, total, bias, 1);" * 2)], ("fp32",)),
    "truncate_output": (
        [
            (
                "Cast(out, total, RoundMode::CAST_RINT, 1);",
                "Cast(out, total, RoundMode::CAST_TRUNC, 1);",
            )
        ],
        ("bf16", "fp16"),
    ),
    "drop_tail": (  # 200 = 3 x 64 + 8: the whole last tile is the ragged repeat
        [("sum += TileSum(TileElements(width_, begin));",
          "const float tile = TileSum(TileElements(width_, begin));"
          "sum += TileElements(width_, begin) / 64 * 64 ? tile : 0.0f;")],
        ("fp32", "fp16"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_SOURCE)
def test_the_model_of_a_mistake_is_the_kernel_with_the_mistake(name, tmp_path):
    edits, dtypes = IN_SOURCE[name]
    with shipped_with("lm_head", edits, tmp_path):
        kernel = helpers.kernel(TILE)
        for dtype in dtypes:
            h, w, b = (t.to(DTYPES[dtype]) for t in (HIDDEN, WEIGHT, BIAS))
            out = kernel(h, w, b)
            assert same(run(name, dtype=dtype), out)
            assert not same(correct(case(dtype)), out)


# ---- every mutation ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_repeatable_and_leaves_the_setting_alone(name, dtype):
    now = case(dtype)
    before = [now.hidden.copy(), now.weight.copy(), now.sums.copy(), correct(now)]
    try:
        out = MUTATIONS[name].run(now)
    except NotApplicable as why:
        assert (name, dtype) in (
            ("truncate_output", "fp32"),
            ("inputs_in_11_bits", "bf16"),
            ("inputs_in_11_bits", "fp16"),
        ), why
        return
    assert out.shape == (5, 12) and out.dtype == DTYPES[dtype]
    assert same(out, run(name, dtype=dtype))
    after = [now.hidden, now.weight, now.sums, correct(now)]
    assert all((np.asarray(a.float() if torch.is_tensor(a) else a) ==
                np.asarray(b.float() if torch.is_tensor(b) else b)).all()
               for a, b in zip(before, after, strict=True))  # fmt: skip
    # In fp32 each changes a bit, but for the one that must not.
    if dtype == "fp32":
        assert same(out, correct(now)) == (MUTATIONS[name].kind == "same")


def test_kinds():
    kinds = {kind: [m.name for m in MUTATIONS.values() if m.kind == kind] for kind in module.KINDS}
    assert kinds["same"] == ["swap_children"]
    assert kinds["correct"] == ["exchange_leaves", "other_tile", "fused_products"]
    assert len(kinds["wrong"]) == len(MUTATIONS) - 4 > 20
    # "Other correct results" are inside the bound of an order of the same height, or their own.
    for name in kinds["correct"]:
        error = run(name).double() - exact_linear(HIDDEN, WEIGHT, BIAS)[0]
        tree = OTHER if name == "other_tile" else ORDER
        assert not bounds(tree, HIDDEN, WEIGHT, bias=BIAS).violations(error)["worst_case"]


# ---- one by one, by a second way -----------------------------------------------------------------


def again(hidden=HIDDEN, weight=WEIGHT, bias=BIAS, tree=ORDER):
    return correct(setting(hidden, weight, tree, bias=bias))


def with_term(factor: float, at, hidden=HIDDEN):
    changed = hidden.clone()
    changed[:, at] *= factor
    return changed


def test_terms_are_dropped_or_doubled():
    k = case().chosen
    assert same(run("drop_term"), again(with_term(0, k)))
    assert same(run("double_count"), again(with_term(2, k)))
    assert same(run("drop_last_term"), again(with_term(0, WIDTH - 1)))
    assert same(run("drop_tail"), again(with_term(0, slice(192, 200))))
    assert same(run("drop_last_tile"), again(with_term(0, slice(192, 200))))
    order = wb.declared_order("lm_head", wb.KernelConfig(tile_length=TILE), n=128)
    whole = setting(HIDDEN[:, :128], WEIGHT[:, :128], order, tile=128)  # no ragged repeat
    assert (whole.tail, whole.last_tile) == (slice(64, 128), slice(0, 128))


def test_a_random_term_is_dropped_once_in_every_output():
    lost = np.random.default_rng(7).integers(WIDTH, size=(5, 12))
    wanted = torch.stack([
        torch.cat([again(with_term(0, lost[r, v], HIDDEN[r : r + 1]), WEIGHT[v : v + 1],
                         BIAS[v : v + 1]).flatten() for v in range(12)]) for r in range(5)
    ])  # fmt: skip
    assert same(run("drop_random_term"), wanted)


def test_indices():
    rows = [0, 1, 3, 3, 4]
    assert same(run("wrong_row"), again(HIDDEN[rows]))
    flat = torch.cat([WEIGHT.flatten(), WEIGHT.flatten()])
    assert same(run("wrong_stride"), again(weight=flat.as_strided((12, WIDTH), (WIDTH + 1, 1))))
    as_h_by_v = WEIGHT.flatten().as_strided((12, WIDTH), (1, 12))
    assert same(run("transposed"), again(weight=as_h_by_v))
    stale = again()
    stale[4, 4:] = torch.cat([stale[3, 8:], stale[4, :4]])
    assert same(run("stale_turn"), stale)


def test_bias():
    sums = again(bias=None)
    assert same(run("bias_forgotten"), sums)
    assert same(run("bias_twice"), (sums + BIAS) + BIAS)
    assert same(run("scaled_2^-13"), again() * (1 + 2.0**-13))


def test_orders():
    swapped = ReductionTree.from_nested(_reversed(ORDER.to_nested()))
    assert swapped == ORDER and same(run("swap_children"), again(tree=swapped))
    back = torch.arange(WIDTH)
    back[0], back[-1] = WIDTH - 1, 0
    assert same(run("exchange_leaves"), again(HIDDEN[:, back], WEIGHT[:, back]))
    assert same(run("other_tile"), again(tree=OTHER))


def _reversed(nested):
    return nested if isinstance(nested, int) else [_reversed(part) for part in reversed(nested)]


def test_an_adder_that_truncates_against_exact_fractions():
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(3000).astype(np.float32) for _ in range(2))
    b[:1000] *= np.float32(2) ** rng.integers(-30, 30, 1000)
    b[1000:1100] = -a[1000:1100]  # cancels
    tiny = np.float32(2.0**-149)
    a, b = np.append(a, [0, tiny, -tiny, 1]), np.append(b, [0, tiny, tiny, -tiny])
    a, b = a.astype(np.float32), b.astype(np.float32)
    got = add_truncated(a, b)
    away = 0
    for x, y, z in zip(a.tolist(), b.tolist(), got.tolist(), strict=True):
        exact, above = Fraction(x) + Fraction(y), np.nextafter(np.float32(abs(z)), np.float32(9e9))
        assert abs(Fraction(z)) <= abs(exact) < Fraction(float(above))
        assert z == 0 or (z > 0) == (exact > 0)
        away += abs(Fraction(float(np.float32(x) + np.float32(y)))) > abs(exact)
    assert away > 100  # nearest goes the other way often enough to be told apart


def test_truncating_nodes_walks_the_tree():
    tree = ReductionTree.from_nested([[[0, 1], 2], [3, 4]])
    h, w = normal(2, 5), normal(3, 5, seed=1)
    p = (h[:, None] * w).numpy()
    t = add_truncated
    wanted = t(t(t(p[..., 0], p[..., 1]), p[..., 2]), t(p[..., 3], p[..., 4]))
    assert same(mutate("truncate_nodes", h, w, tree), torch.from_numpy(wanted))


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_a_conversion_that_truncates_against_the_bits(dtype):
    wide = correct(case(dtype, torch.float32)).numpy()
    got = run("truncate_output", dtype=dtype)
    keep = {"bf16": 16, "fp16": 13}[dtype]  # mantissa bits of fp32 that the dtype has not
    cut = (wide.view(np.uint32) >> keep << keep).view(np.float32)
    assert (got.float().numpy() == cut).all() and (np.abs(wide) > 2.0**-14).sum() >= wide.size - 5


@pytest.mark.parametrize(
    ("name", "dtype"), [("accumulate_bf16", "bf16"), ("accumulate_fp16", "fp16")]
)
def test_sums_in_16_bits_are_torch_s_own_additions(name, dtype):
    """torch rounds every product and every sum of 16-bit tensors to the dtype."""
    tree = ReductionTree.from_nested([[[0, 1], 2], [3, [4, 5]]])
    narrow = DTYPES[dtype]
    h, w = normal(2, 6).to(narrow), normal(3, 6, seed=1).to(narrow)
    p = (h[:, None] * w).unbind(-1)
    wanted = ((p[0] + p[1]) + p[2]) + (p[3] + (p[4] + p[5]))
    assert wanted.dtype == narrow
    assert same(mutate(name, h, w, tree), wanted)


def test_rounded_products_inputs_and_sums():
    p = [(HIDDEN[:, None] * WEIGHT)[..., k].to(torch.bfloat16).float() for k in range(WIDTH)]
    rows = torch.stack(p, -1).reshape(-1, WIDTH).numpy()
    wanted = torch.from_numpy(ORDER.sum(rows)).reshape(5, 12) + BIAS
    assert same(run("products_in_16_bits"), wanted)
    # fp16 has 11 bits: in its normal range it rounds as an 11-bit input does.
    clipped = HIDDEN.abs().clamp(2.0**-14) * torch.where(HIDDEN < 0, -1, 1)
    got = module._to_11_bits(clipped.numpy())
    assert (got == clipped.half().float().numpy()).all() and (got != clipped.numpy()).any()
    assert same(run("rounded_twice"), again(bias=None).bfloat16().float() + BIAS)
    half = run("rounded_twice", dtype="fp16")
    first = correct(case("fp16", torch.float32, bias=False)).half()
    assert same(half, (first.float() + BIAS.half().float()).half())


def test_fused_products_against_exact_fractions():
    tree = ReductionTree.from_nested([[[0, 1], [2, 3]], 4])
    h, w = normal(4, 5), normal(6, 5, seed=1)
    got = mutate("fused_products", h, w, tree)

    def fma(x, y, c):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(c))
        near = np.float32(float(exact))
        around = [np.nextafter(near, np.float32(s)) for s in (-np.inf, np.inf)] + [near]
        return min(around, key=lambda z: (abs(Fraction(float(z)) - exact), int(z.view("u4")) & 1))

    moved = 0
    for r, v in np.ndindex(4, 6):
        x, y = h[r].numpy(), w[v].numpy()
        first, second = fma(x[1], y[1], x[0] * y[0]), fma(x[3], y[3], x[2] * y[2])
        assert got[r, v].numpy() == (first + second) + x[4] * y[4]
        moved += first != x[0] * y[0] + x[1] * y[1]
    assert moved
    # 16-bit inputs have exact products: fusing changes no bit.
    assert same(run("fused_products", dtype="fp16"), correct(case("fp16")))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_output(dtype):
    good = correct(case(dtype))
    width, mantissa = (32, 23) if dtype == "fp32" else (16, {"bf16": 7, "fp16": 10}[dtype])
    for name, bit in (
        ("flip_low_bit", 0),
        ("flip_high_bit", mantissa - 1),
        ("flip_sign", width - 1),
    ):
        bad = run(name, dtype=dtype)
        flipped = helpers.bits(bad) ^ helpers.bits(good)
        assert flipped[flipped != 0].tolist() == [1 << bit], name
    zero = run("sign_of_zero", dtype=dtype)
    assert good[0, 0] == 0 and torch.signbit(zero[0, 0]) and not torch.signbit(good[0, 0])
    assert compare_bits(zero, good).mismatches == 1
    nan = run("nan_in_one", dtype=dtype)
    assert int(nan.isnan().sum()) == compare_bits(nan, good).mismatches == 1


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "match"),
    [
        ("bias_twice", {"bias": False}, "no bias"),
        ("bias_forgotten", {"bias": False}, "no bias"),
        ("rounded_twice", {"bias": False, "dtype": "bf16"}, "without a bias"),
        ("truncate_output", {}, "not converted"),
        ("inputs_in_11_bits", {"dtype": "fp16"}, "no more than 11 bits"),
        ("other_tile", {"other": None}, "no other order"),
        ("other_tile", {"other": ORDER}, "no other order"),
    ],
)
def test_not_applicable(name, given, match):
    with pytest.raises(NotApplicable, match=match):
        run(name, **given)


def test_not_applicable_by_shape():
    pair = ReductionTree.from_nested([0, 1])
    for name, match in (
        ("wrong_row", "no neighbour"),
        ("stale_turn", "no turn"),
        ("exchange_leaves", "added to each other"),
        ("transposed", "own transpose"),
        ("sign_of_zero", r"no output is \+0"),
    ):
        with pytest.raises(NotApplicable, match=match):
            mutate(name, torch.ones(1, 2), torch.ones(1, 2), pair)
    with pytest.raises(NotApplicable, match="finite"):
        mutate("nan_in_one", torch.zeros(1, 2), torch.ones(1, 2), pair)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"hidden": HIDDEN.double()}, "wanted both in one"),
        ({"weight": WEIGHT.half()}, "wanted both in one"),
        ({"weight": WEIGHT[:, 1:]}, "do not fit"),
        ({"hidden": HIDDEN[:0]}, "nothing to mutate"),
        ({"out_dtype": torch.float16}, "returns"),
        ({"bias": BIAS[1:]}, "bias is"),
        ({"tree": ReductionTree.from_nested([0, 1])}, "wanted a binary order"),
        ({"tree": ReductionTree.from_nested(list(range(WIDTH)))}, "wanted a binary order"),
        ({"name": "wolf"}, "unknown"),
    ],
)
def test_what_is_refused(change, match):
    given = {"name": "drop_term", "hidden": HIDDEN, "weight": WEIGHT, "tree": ORDER} | change
    with pytest.raises(InputError, match=match):
        mutate(**given)


# ---- the table -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    return mutation_table((4, 300, 16), seed=1, tile=64)


def test_the_table_has_every_mutation_and_control_in_every_dtype(small):
    assert small.passed and small.shape == (4, 300, 16)
    names = [r.name for r in small.of("fp32")]
    assert names[: len(MUTATIONS)] == list(MUTATIONS) and names[len(MUTATIONS)] == "correct"
    for dtype in DTYPES:
        assert [r.name for r in small.of(dtype)] == names
        for row in small.of(dtype):
            assert len(row.verdicts) == (0 if row.why_not else len(STANDARDS))
            assert (row.changed is None) == bool(row.why_not)
    assert small.row("correct", "fp32").changed == 0
    assert small.row("truncate_output", "fp32").why_not == "an fp32 sum is not converted"


def test_bits_see_all_that_changes_and_bounds_never_cry_wolf(small):
    for dtype in DTYPES:
        seen, judged = small.seen("raw_bits", dtype)
        assert seen == judged >= 20
        for kind in ("worst_case", "running"):
            assert small.false_alarms(kind, dtype)[0] == 0
        for name in ("drop_tail", "wrong_row", "transposed", "bias_twice", "nan_in_one"):
            row = small.row(name, dtype)
            assert not row["running"].passed and row["running"].flagged > 0
        assert small.seen("cosine", dtype)[0] < small.seen("running", dtype)[0]
    assert small.row("drop_term", "fp32")["cosine"].passed
    assert not small.row("correct", "bf16")["msprobe_thousandth"].passed


def test_the_verdicts_are_those_of_the_standards(small):
    h, w, b = draw((4, 300, 16), seed=1)
    tree = wb.declared_order("lm_head", wb.KernelConfig(tile_length=64), n=300)
    out = mutate("drop_last_term", h, w, tree, bias=b, seed=1)
    exact = exact_linear(h, w, b)[0]
    found = standards(out, exact.float(), exact=exact, bounds=bounds(tree, h, w, bias=b))
    for gate in ("contract", "worst_case", "running", "probabilistic", "assert_close", "cosine"):
        there = small.row("drop_last_term", "fp32")[gate]
        assert (there.passed, there.flagged) == (found[gate].passed, found[gate].flagged)


def test_the_table_s_own_check_can_fail(monkeypatch):
    few = {"dtypes": ["fp32"], "mutations": ["swap_children"]}
    assert mutation_table((2, 40, 8), gates=["raw_bits", "running"], **few).passed
    swapped = dataclasses.replace(MUTATIONS["swap_children"], run=MUTATIONS["flip_low_bit"].run)
    patched = MappingProxyType({**MUTATIONS, "swap_children": swapped})
    monkeypatch.setattr(tables, "MUTATIONS", patched)
    assert not mutation_table((2, 40, 8), gates=["raw_bits", "running"], **few).passed
    monkeypatch.undo()
    real = tables.bounds

    def halved(*args, **given):
        found = real(*args, **given)
        return dataclasses.replace(found, running=found.running * 2.0**-6)

    monkeypatch.setattr(tables, "bounds", halved)
    found = mutation_table((2, 40, 8), gates=["raw_bits", "running"], **few)
    assert not found.passed and found.false_alarms("running", "fp32")[0]


def test_inputs_and_an_fp32_output_may_be_given():
    h, w, _ = draw((2, 40, 8), seed=4)
    few = {"gates": ["raw_bits", "running"], "mutations": ["drop_term", "bias_twice"]}
    found = mutation_table(
        dtypes=["bf16"], hidden=h, weight=w, out_dtype=torch.float32, tile=64, bench="torch", **few
    )
    assert (found.shape, found.out_dtype, found.seed) == ((2, 40, 8), "fp32", 0)
    assert found.row("bias_twice", "bf16").why_not == "there is no bias"
    assert found.row("drop_term", "bf16")["running"].flagged == 14  # all but the padding row
    assert "numpy model of lm_head" in str(found.evidence)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"dtypes": ["fp8"]}, "dtype fp8"),
        ({"gates": ["wolf"]}, "gate wolf"),
        ({"mutations": ["wolf"]}, "mutation wolf"),
        ({"mutations": []}, r"mutation \(none\)"),
        ({"bench": "wolf"}, "bench wolf"),
        ({"shape": (0, 1, 1)}, "sizes >= 1"),
        ({"shape": (2, 3)}, r"\(2, 3\) .*whole numbers: \(N, H, V\)"),
        ({"shape": (2.5, 8, 2)}, "whole numbers"),
        ({"shape": 7}, "whole numbers"),
        ({"seed": "a"}, "whole numbers"),
        ({"hidden": HIDDEN}, "together"),
        ({"hidden": HIDDEN.numpy(), "weight": WEIGHT}, "hidden is ndarray"),
        ({"hidden": torch.ones(2, 8) * torch.nan, "weight": torch.ones(2, 8)}, "16 numbers in hid"),
        ({"hidden": torch.ones(2, 8), "weight": torch.ones(2, 8) / 0}, "16 numbers in weight"),
        ({"hidden": torch.ones(2, 8) * 2.0**17, "weight": torch.ones(2, 8)}, "Inf in fp16"),
        (
            {"hidden": HIDDEN, "weight": WEIGHT, "bias": torch.full((len(WEIGHT),), torch.inf)},
            "in bias",
        ),
    ],
)
def test_what_the_table_refuses(given, match):
    with pytest.raises(InputError, match=match):
        mutation_table(**given)


@pytest.mark.parametrize("tile", [63, 32, 0, 1 << 20])
def test_a_tile_that_no_kernel_has_is_refused(tile):
    with pytest.raises(ConfigError, match=f"tile_length={tile}"):
        mutation_table((2, 100, 2), tile=tile)


@pytest.mark.parametrize(("tile", "other"), [(64, 128), (128, 64), (192, 64), (320, 128)])
def test_the_other_tile_is_one_of_a_kernel_too(monkeypatch, tile, other):
    asked = []
    real = tables.declared_order
    monkeypatch.setattr(
        tables, "declared_order", lambda op, c, n: asked.append(c.tile_length) or real(op, c, n)
    )
    mutation_table((1, 9, 2), ["fp32"], tile=tile, gates=["cosine"], mutations=["drop_term"])
    assert asked[:2] == [tile, other]


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_the_bench_of_an_fp32_result_is_an_fp32_result(monkeypatch, dtype):
    """Rounded to 16 bits first, it would be so far off that nothing is worse than it."""
    h, w, b = draw((4, 200, 16), seed=2)
    benches = []
    real = tables.standards
    monkeypatch.setattr(
        tables, "standards", lambda *a, **k: benches.append(k["bench"]) or real(*a, **k)
    )
    few = {"gates": ["twice_torch"], "mutations": ["bias_forgotten"], "bench": "torch"}
    h, w, b = (t.to(DTYPES[dtype]) for t in (h, w, b))
    given = {"dtypes": [dtype], "hidden": h, "weight": w, "bias": b, **few}
    mutation_table(out_dtype=torch.float32, **given)
    wide = benches.pop()
    assert wide.dtype == torch.float32
    exact = exact_linear(h, w, b)[0]
    # As good as a correct fp32 sum can be in any order of 200 terms: gamma(201) of sum |x w| + |b|.
    scale = h.double().abs() @ w.double().abs().T + b.double().abs()
    most = 201 * 2.0**-24
    assert ((wide.double() - exact).abs() <= most / (1 - most) * scale).all()
    benches.clear()
    mutation_table(**given)  # a result of 16 bits has a bench of 16 bits
    assert same(benches.pop(), torch.nn.functional.linear(h, w, b))


def test_cells_and_totals(small):
    lines = small.markdown().splitlines()
    row = next(line for line in lines if line.startswith("| drop_tail |"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1] == f"{small.row('drop_tail', 'fp32').changed}"
    assert cells[2 + list(STANDARDS).index("running")] == (
        f"{small.row('drop_tail', 'fp32')['running'].flagged}"
    )
    seen = next(line for line in lines if line.startswith("| wrong, seen |"))
    assert "{} of {}".format(*small.seen("running", "fp32")) in seen
    text = str(small)
    assert "-- wrong" in text and max(map(len, text.splitlines())) <= 100
    # Columns that do not fit stand below, under rows of the same names; none is lost.
    heads = [line for line in text.splitlines() if " outputs  " in line]
    shown = [name for line in heads for name in re.split("  +", line)[1:]]
    assert len(heads) > 3 and text.count("correct, flagged") == len(heads)
    assert sorted(shown) == sorted(3 * ["bits changed", *(STANDARDS[g].short for g in small.gates)])
    assert len(small.rows()) == len(small.table) and small.to_dict()["bench"] == "split-k"


def test_one_term_of_4096_dropped():
    """The comparison of the docs: a page's row for each gate, counted anew."""
    g = torch.Generator().manual_seed(0)
    h, w = torch.randn(32, 4096, generator=g), torch.randn(257, 4096, generator=g)
    tree = wb.declared_order("lm_head", wb.KernelConfig(tile_length=4096, arch="dav-2201"), n=4096)
    exact, _ = exact_linear(h, w)
    less = h.clone()
    less[:, 3596] = 0
    good, bad = (correct(setting(side, w, tree)) for side in (h, less))
    limits = bounds(tree, h, w)
    kinds = ("contract", "worst_case", "running", "probabilistic", "assert_close", "cosine")
    found, control = (
        {
            (v.standard, dtype): v
            for dtype in ("fp32", "bf16")
            for v in standards(
                side,
                exact.float(),
                exact=exact,
                bounds=limits,
                dtype=dtype,
                only=[*kinds, "cann_mere_mare"],
            ).verdicts
        }
        for side in (bad, good)
    )
    cells = [("contract", d) for d in ("fp32", "bf16")]
    assert [found[cell].flagged for cell in cells] == [8015, 2157]
    assert found["cosine", "fp32"].passed and control["cosine", "fp32"].passed
    assert not any(control[kind, "fp32"].flagged for kind in kinds[:4])
    words = {
        "cosine": "cosine similarity",
        "contract": "contract, fp32 cell",
        "worst_case": "worst-case bound",
        "running": "running bound",
        "probabilistic": "probabilistic bound",
        "assert_close": "`assert_close`, defaults",
        "cann_mere_mare": "CANN MERE/MARE",
    }
    wanted = [_line("contract, bf16 cell", found["contract", "bf16"], control["contract", "bf16"])]
    wanted += [_line(text, found[k, "fp32"], control[k, "fp32"]) for k, text in words.items()]
    page = DOCS.read_text("utf-8")
    assert [line for line in wanted if line not in page] == []


def _line(words, *verdicts):
    cells = [
        "passes" if v.passed else "flags" if v.flagged is None else f"{v.flagged:,}"
        for v in verdicts
    ]
    return f"| {words} | {' | '.join(cells)} |"


def test_the_number_of_threads_is_given_back_and_changes_nothing():
    threads = torch.get_num_threads()
    few = {"dtypes": ["fp32"], "mutations": ["drop_term"]}
    with pytest.raises(RuntimeError), tables._one_thread():
        assert torch.get_num_threads() == 1
        raise RuntimeError
    assert torch.get_num_threads() == threads
    first = mutation_table((2, 40, 8), **few)
    assert torch.get_num_threads() == threads
    torch.set_num_threads(1)
    try:
        assert mutation_table((2, 40, 8), **few).table == first.table
    finally:
        torch.set_num_threads(threads)


def test_truncation_does_not_overflow():
    """Toward zero the largest number is as far as a finite sum gets; infinite ones stay."""
    top = float(np.finfo(np.float32).max)
    a = np.float32([top, -top, top, np.inf, -np.inf, np.inf])
    b = np.float32([top, -top, -top, 1, 1, -np.inf])
    with np.errstate(all="ignore"):
        got = add_truncated(a, b)
    assert got[:5].tolist() == [top, -top, 0.0, np.inf, -np.inf] and np.isnan(got[5])
