"""Library functions, shapes, dtypes and kernels as targets of `reveal`."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers import ARCHS, kernel

import workbench as wb
from workbench import paths
from workbench.errors import InputError
from workbench.orders.declared import declared_order
from workbench.orders.reveal import RevealError, reveal
from workbench.orders.reveal.rows import broadcast_sums, row_orders
from workbench.orders.reveal.targets import NAMES, Target, target_of
from workbench.orders.standard import sequential_order
from workbench.orders.tree import ReductionTree, sequential

ARITHMETIC = {  # of the sums along a tree; the result is fp32
    "fp32 sums": np.float32,
    "fp64 sums, rounded to fp32": np.float64,
}


def draw(rows, n, seed=0):
    return torch.randn(rows, n, generator=torch.Generator().manual_seed(seed))


# ---- libraries -----------------------------------------------------------------------------------

CALLS = {
    "numpy.sum": lambda x: np.sum(x.numpy()[0]),
    "numpy.cumsum": lambda x: np.cumsum(x.numpy()[0])[-1],
    "numpy.dot": lambda x: np.dot(x.numpy()[0], np.ones(x.shape[1], np.float32)),
    "numpy.matmul": lambda x: np.matmul(x.numpy(), np.ones((x.shape[1], 1), np.float32)),
    "numpy.einsum": lambda x: np.einsum(
        "ik,kj->ij", x.numpy(), np.ones((x.shape[1], 1), np.float32)
    ),
    "torch.sum": lambda x: torch.sum(x[0]),
    "torch.cumsum": lambda x: torch.cumsum(x, 1)[0, -1],
    "torch.mv": lambda x: torch.mv(x, torch.ones(x.shape[1])),
    "torch.dot": lambda x: torch.dot(x[0], torch.ones(x.shape[1])),
    "torch.matmul": lambda x: torch.matmul(x, torch.ones(x.shape[1], 1)),
    "torch.mm": lambda x: torch.mm(x, torch.ones(x.shape[1], 1)),
    "torch.einsum": lambda x: torch.einsum("ik,kj->ij", x, torch.ones(x.shape[1], 1)),
    "F.linear": lambda x: torch.nn.functional.linear(x, torch.ones(1, x.shape[1])),
}


@pytest.mark.parametrize("name", NAMES)
def test_the_tree_of_a_library_function_gives_its_bits(name):
    """On new random terms, by a call written out here. What libraries do elsewhere is not assumed:
    where the arithmetic is not plain the report says so."""
    n = 224  # a multiple of 32: OpenBLAS adds a remainder in fp64
    tree = reveal(name, n)
    assert tree.leaves == n and tree.report.target == name
    dtype = ARITHMETIC.get(tree.report.arithmetic or "")
    if dtype is None:
        assert tree.report.arithmetic or "not plain sums" in tree.report.checks[-1]
        return
    for seed in range(20):
        terms = draw(1, n, seed)
        got = np.asarray(CALLS[name](terms)).reshape(1)
        ours = tree.sum(terms.numpy().astype(dtype)).astype(np.float32)
        assert got.tobytes() == ours.tobytes(), seed


def test_every_name_is_tested():
    assert {*CALLS} == {*NAMES}


@pytest.mark.parametrize("name", ["torch.mv", "F.linear", "numpy.matmul"])
def test_an_output_of_a_matrix_product_has_its_own_order(name):
    rows, n, row = 6, 100, 5
    tree = reveal(name, n, rows=rows, row=row)
    assert tree.report.shape["rows"] == rows and tree.report.shape["row"] == row
    if tree.report.arithmetic != "fp32 sums":
        return
    target = target_of(name, n, rows=rows, row=row)
    terms = draw(9, n).numpy()
    assert target.sums(terms).tobytes() == tree.sum(terms).tobytes()


def test_terms_go_where_there_are_more_sums():
    """[2, n] x [n, 5]: the terms lie in the right operand; the sums are those of the product."""
    a, b = draw(2, 40).numpy(), draw(5, 40, 1).numpy()
    target = target_of("F.linear", 40, rows=2, row=1, columns=5, column=3)
    assert target.slots == 5 and target.slot == 3
    ones = np.ones((2, 40), np.float32)
    wanted = torch.nn.functional.linear(torch.from_numpy(ones), torch.from_numpy(b))[1]
    assert target.call(b).tobytes() == wanted.numpy().tobytes()
    target = target_of("numpy.matmul", 40, rows=2, row=1, columns=1)
    assert target.call(a).tobytes() == (a @ np.ones((40, 1), np.float32))[:, 0].tobytes()


def test_the_other_operand_can_be_given():
    x, w = draw(3, 50), draw(1, 50, 1)
    for target in (target_of("torch.mv", 50, rows=3), target_of(kernel(), 50)):
        got = target.at((0, 1, 2)) if target.slots else target
        products = got.sums(x.numpy(), w[0].numpy())
        exact = (x.double() @ w[0].double()).numpy()
        plain = got.sums(x.numpy())
        assert np.abs(products - exact).max() < np.abs(plain - exact).max()


@pytest.mark.parametrize("dtype", ["fp16", "bf16", "fp64"])
def test_other_dtypes(dtype):
    tree = reveal("torch.sum", 300, dtype=dtype)
    kind = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}[dtype]
    if tree.report.arithmetic is None:
        return
    values = draw(1, 300).to(kind)
    wide = values.double().numpy() if dtype == "fp64" else values.float().numpy()
    got = torch.from_numpy(tree.sum(wide)).to(kind)
    if tree.report.arithmetic.startswith(("fp32", "fp64 sums")):
        assert torch.equal(got[0], torch.sum(values[0]))


def test_numpy_terms_are_not_given_to_torch():
    """np.sum of a tensor would be torch's own sum; the callable gets an array instead."""
    tree = reveal(lambda terms: np.sum(terms, axis=1), 1000)
    assert tree.report.array == "numpy"
    assert tree == reveal("numpy.sum", 1000)


def test_callables_of_torch_get_tensors():
    tree = reveal(lambda terms: terms.cumsum(1)[:, -1], 50)
    assert tree.report.array == "torch"


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("name", ["numpy.sum", "torch.sum", "torch.mv", "lm_head"])
def test_few_terms_of_a_sum_that_starts_at_0(name, n):
    """Its sum of nothing but -0 is +0, and a tree's is -0: that is no reason to refuse it."""
    for seed in range(12):
        tree = reveal(kernel() if name == "lm_head" else name, n, seed=seed)
        assert tree == sequential_order(n) and tree.report.arithmetic, seed


@pytest.mark.parametrize("n", [1, 2])
def test_few_terms_that_are_not_summed_as_they_are(n):
    """The control: whole numbers give a sum that is one ulp off."""

    def off(terms):
        exact = terms.sum(1)
        whole = (terms == terms.round()).all(1) & (exact != 0) & (exact.abs() < 2.0**20)
        return torch.where(whole & (exact != exact[0]), exact.nextafter(exact * 2), exact)

    for seed in range(12):
        with pytest.raises(RevealError):
            reveal(off, n, seed=seed)


def test_a_branch_on_the_sign_of_a_zero():
    """-0 stays among the rows of ordinary terms, where it stands beside other values."""

    def branch(terms):
        negative = ((terms == 0) & np.signbit(terms)).any(1)
        left, right = (np.cumsum(terms[:, ::way], axis=1)[:, -1] for way in (1, -1))
        return np.where(negative, right, left)

    with pytest.raises(RevealError, match="does not explain ordinary sums"):
        reveal(branch, 9, array="numpy")


# ---- the outputs of one call ---------------------------------------------------------------------


def mixed(terms):
    """Rows 3, 4 and 9 from the right, the last in pairs, the others from the left."""
    out = np.cumsum(terms, axis=1)[:, -1]
    out[[3, 4, 9]] = np.cumsum(terms[[3, 4, 9], ::-1], axis=1)[:, -1]
    last = terms[-1]
    while len(last) > 1:
        last = last[0::2] + last[1::2]
    out[-1] = last[0]
    return out


def test_outputs_are_grouped_by_order():
    found = row_orders(mixed, 64, 12, array="numpy")
    assert [outputs for _, outputs in found.groups] == [(0, 1, 2, 5, 6, 7, 8, 10), (3, 4, 9), (11,)]
    assert found.tree_of(0) == ReductionTree.from_nested(sequential(range(64)))
    assert found.tree_of(9) == ReductionTree.from_nested(sequential(range(64)[::-1]))
    assert found.tree_of(11).height == 6 and not found.unexplained
    assert "0-2, 5-8, 10" in str(found) and found.to_dict()["groups"][1]["rows"] == "3-4, 9"
    with pytest.raises(InputError, match="output 12 of 12"):
        found.tree_of(12)


def test_slots_that_share_an_order_share_calls():
    def fast(terms):
        return np.cumsum(terms, axis=1)[:, -1]

    (tree, outputs), *more = row_orders(fast, 64, 32, array="numpy").groups
    assert not more and len(outputs) == 32
    assert tree.report.calls * 8 < reveal(fast, 64, array="numpy", rows=32).report.calls


def test_slots_that_do_not_are_found_out():
    """The control of `positions`: rows 2 and 3 are said to share an order and do not."""
    target = target_of(mixed, 64, rows=12, array="numpy")
    from workbench.orders.reveal import revealed

    with pytest.raises(RevealError, match="different bits") as error:
        revealed(target.at((2, 3)))
    assert error.value.reason == "rows not independent"


def wide(terms):
    return np.cumsum(terms.astype(np.float64), axis=1)[:, -1].astype(terms.dtype)


@pytest.mark.parametrize(("fn", "dtype"), [(wide, "fp32"), ("torch.sum", "fp16")])
def test_outputs_of_a_wider_accumulator_are_explained(fn, dtype):
    found = row_orders(fn, 100, 4, dtype=dtype)
    ((tree, outputs),) = found.groups
    assert outputs == (0, 1, 2, 3)
    assert found.unexplained == (() if tree.report.arithmetic else outputs)
    assert tree.report.arithmetic or fn != wide


def test_outputs_that_no_arithmetic_explains_are_named():
    def cut(terms):  # terms lose their last bits first
        kept = (terms.view(np.int32) & np.int32(-(1 << 13))).view(np.float32)
        return np.cumsum(kept, axis=1)[:, -1]

    assert row_orders(cut, 40, 3, array="numpy").unexplained == (0, 1, 2)
    nothing = row_orders("torch.sum", 0, 3)
    assert nothing.unexplained == () and nothing.rows()[0]["arithmetic"] == "nothing is added"


def test_rows_of_mv_each_follow_their_tree():
    """Whatever the BLAS does: all 257 outputs of one call follow the trees found for them."""
    n, compared = 96, 0
    found = row_orders("torch.mv", n, 257)
    assert sorted(o for _, outputs in found.groups for o in outputs) == list(range(257))
    terms = draw(5, n, 7).numpy()
    sums = broadcast_sums(target_of("torch.mv", n, rows=257), terms)
    for tree, outputs in found.groups:
        dtype = ARITHMETIC.get(tree.report.arithmetic or "")
        if dtype is not None:
            wanted = tree.sum(terms.astype(dtype)).astype(np.float32)
            for o in {*outputs} - {*found.unexplained}:
                assert sums[:, o].tobytes() == wanted.tobytes(), o
                compared += 1
    assert compared, [tree.report.arithmetic for tree, _ in found.groups]


# ---- kernels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", [64, 256, 1024, 4096])
def test_the_lm_head_sums_as_declared(tile, arch):
    built = kernel(tile, arch)
    n = 3 * tile // 2 + 7 if tile < 4096 else 4700  # two tiles, the second ragged
    tree = reveal(built, n)
    assert tree == declared_order("lm_head", built.config, n)
    assert tree.report.arithmetic == "fp32 sums" and tree.report.arch == arch
    assert tree.report.backend == "twin" and tree.report.config["tile_length"] == tile


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_16_bit_inputs_show_the_fp32_accumulator(dtype):
    built = kernel(64)
    tree = reveal(built, 2200, dtype=dtype)
    assert tree == declared_order("lm_head", built.config, 2200)
    assert tree.report.units == "all" and tree.report.arithmetic == "fp32 sums"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_det_gemm_sums_as_declared(dtype):
    built = wb.build("det_gemm", backend="twin")
    tree = reveal(built, 700, dtype=dtype)
    assert tree == declared_order("det_gemm", built.config, 700)
    at = reveal(built, 130, rows=3, row=1, columns=5, column=4)
    assert at == declared_order("det_gemm", built.config, 130)


def test_calls_at_4096():
    """At most 2 log2 n calls, on both architectures; the checks are counted apart."""
    for arch in ARCHS:
        report = reveal(kernel(arch=arch), 4096).report
        assert report.calls <= 24 and report.check_calls < 20
        assert report.probes <= 12 * 2048 and not report.fused
        for seed in (2, 4, 14):  # other pivots
            assert reveal(kernel(arch=arch), 4096, seed=seed, check=False).report.calls <= 24


def test_an_operator_and_a_name_are_targets_too():
    op = wb.ops.AscendLMHeadOp(wb.KernelConfig(tile_length=64), backend="twin")
    assert reveal(op, 130) == declared_order("lm_head", op.config, 130)
    assert reveal("lm_head", 70).report.target == "lm_head"


def test_a_kernel_of_positive_terms_goes_its_own_way():
    kernel = wb.build(
        "batch_invariant_logp", wb.KernelConfig(tile_length=64, arch="dav-2201"), backend="twin"
    )
    with pytest.raises(InputError, match=r"orders\.reveal\.positive"):
        target_of(kernel, 10)
    found = wb.reveal(kernel, 200)
    other = kernel.config.replace(tile_length=128)
    assert found == wb.declared_order("batch_invariant_logp", kernel.config, 200)
    assert found != wb.declared_order("batch_invariant_logp", other, 200)
    assert wb.reveal("batch_invariant_logp", 3).leaves == 3
    with pytest.raises(InputError, match="leave rows and columns out"):
        wb.reveal(kernel, 10, rows=2)


def edited(text: str, changes: list[tuple[str, str]]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_a_kernel_that_adds_its_tiles_backwards(tmp_path):
    text = (paths.ASCEND / "lm_head_ascend.asc").read_text()
    text = text[: text.index('extern "C" __global__ __aicore__ void lm_head_bf16(')]  # fp32 alone
    last_first = "(width_ - 1) / kTile * kTile - begin"
    text = edited(
        text,
        [
            (
                "        const uint32_t count = TileElements(width_, begin);\n"
                "        CopyIn(hiddenQue_, hidden_, hiddenRow",
                f"        begin = {last_first};\n"
                "        const uint32_t count = TileElements(width_, begin);\n"
                "        CopyIn(hiddenQue_, hidden_, hiddenRow",
            ),
            (
                "sum += TileSum(TileElements(width_, begin));",
                f"sum += TileSum(TileElements(width_, {last_first}));",
            ),
        ],
    )
    source = tmp_path / "backwards.asc"
    source.write_text(text)
    built = wb.build(source, wb.KernelConfig(tile_length=64), backend="twin")
    ones = torch.ones(1, 450)

    def backwards(terms):
        out = torch.empty(len(terms), 1)
        shape = (len(terms), terms.shape[1], 1, 0)
        built.launch("lm_head_fp32", 8, terms.contiguous(), ones, None, out, *shape)
        return out[:, 0]

    tree = reveal(backwards, 450)
    declared = declared_order("lm_head", built.config.replace(max_blocks=128), 450)
    assert tree != declared and tree.diff(declared)
    tiles = [list(range(at, min(at + 64, 450))) for at in range(0, 450, 64)]
    pairs = declared_order("lm_head", wb.KernelConfig(tile_length=64), 64)
    ragged = declared_order("lm_head", wb.KernelConfig(tile_length=64), len(tiles[-1]))
    parts = [(ragged if t is tiles[-1] else pairs).to_nested(t[0]) for t in tiles]
    assert tree == ReductionTree.from_nested(sequential(parts[::-1]))


def test_a_target_can_be_made_by_hand():
    target = Target("mine", 5, "fp32", "numpy", lambda terms, fixed: np.cumsum(terms, 1)[:, -1])
    assert reveal(target, 5) == sequential_order(5)


@pytest.mark.serial
def test_a_level_a_call_is_ten_times_faster_than_a_probe_a_call():
    """The same function and pivots in one run; neither time has a build in it."""
    built, n = kernel(), 2048
    together = min((reveal(built, n) for _ in range(3)), key=lambda tree: tree.report.seconds)
    apart = reveal(built, n, batch_bytes=4 * n)
    assert together == apart and apart.report.calls == apart.report.probes
    assert together.report.probes == apart.report.probes
    assert apart.report.seconds > 10 * together.report.seconds


@pytest.mark.parametrize("rows", [2.5, "a", True, 0])
def test_numbers_of_rows_that_are_none(rows):
    with pytest.raises(InputError, match=r"rows=.*wanted"):
        row_orders("torch.mv", 3, rows)


@pytest.mark.parametrize("given", [{"rows": 2.5}, {"columns": "a"}, {"row": 0.5}, {"seed": "a"}])
def test_numbers_of_a_call_that_are_none(given):
    with pytest.raises(InputError, match="wanted a whole number"):
        reveal("torch.matmul", 3, **given)


def test_a_call_that_no_memory_holds():
    with pytest.raises(InputError, match="give smaller sizes"):
        reveal("numpy.sum", 10**11)
