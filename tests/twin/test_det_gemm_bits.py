"""The matrix product on the twin against its independent numpy model, bit for bit."""

from __future__ import annotations

import mmap

import numpy as np
import pytest
import torch
from gemm_kit import ENTRIES, MUTATIONS, gemm, launch, model, mutant
from helpers import ARCHS, DTYPES, bits, from_bits, poisoned, wild
from hypothesis import given, settings
from hypothesis import strategies as st
from models import gemm_numpy

import workbench as wb
from workbench.build import spec
from workbench.errors import InputError
from workbench.ops.inputs import LARGEST_PITCH

SHAPES = [  # M, K, N: each dimension 1, around data blocks, repeats, leaves, pieces and tiles
    (1, 1, 1),
    (1, 0, 5),
    (3, 7, 8),
    (4, 8, 15),
    (5, 127, 17),
    (2, 128, 16),
    (3, 129, 64),
    (9, 257, 31),
    (1, 300, 511),
    (2, 65, 513),
    (4, 640, 33),
    (3, 1300, 7),
    (17, 33, 9),
]
each_entry = pytest.mark.parametrize(("a_dtype", "b_dtype", "out", "entry"), ENTRIES)


def inputs(m: int, k: int, n: int, a_dtype: str = "fp32", b_dtype: str = "fp32", seed: int = 0):
    """Terms wild enough for every association to show, sums that fit fp16."""
    a = wild((m, k), 3 * k + n + seed, a_dtype, spread=3)
    return a, wild((k, n), 5 * k + m + seed, b_dtype, spread=3)


# ---- every entry, shape and architecture -------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
@each_entry
def test_equals_the_model(arch, a_dtype, b_dtype, out, entry):
    run = gemm(arch)
    for shape in SHAPES:
        a, b = inputs(*shape, a_dtype, b_dtype)
        got = run(a, b, DTYPES[out], out=poisoned((len(a), b.shape[1]), out))
        assert got.dtype == DTYPES[out]
        np.testing.assert_array_equal(bits(got), model(a, b, out), f"{shape}")
    assert run.last.kernel == entry  # the entry that was meant


@pytest.mark.parametrize("arch", ARCHS)
@each_entry
def test_every_edge_of_the_depth(arch, a_dtype, b_dtype, out, entry):
    """Case 1: K around data blocks, repeats, and the tiles of the other operators."""
    for k in (7, 15, 16, 31, 63, 64, 65, 4095, 4096, 4097, 8191, 8192, 8193, 10000):
        a, b = inputs(2, k, 9, a_dtype, b_dtype)
        got = gemm(arch)(a, b, DTYPES[out])
        np.testing.assert_array_equal(bits(got), model(a, b, out), f"K = {k}")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("leaf", [1, 5, 8, 100, 127, 129, 512])
def test_every_leaf_length_is_its_own_order(arch, leaf):
    differ = 0
    for shape in [(3, 1300, 70), (2, 640, 9)]:
        a, b = inputs(*shape)
        got = bits(gemm(arch, leaf_length=leaf)(a, b))
        np.testing.assert_array_equal(got, model(a, b, leaf=leaf))
        differ += int((got != model(a, b)).sum())
    assert differ > 0


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(0, 700), st.integers(1, 80)),
    entry=st.sampled_from(ENTRIES),
    leaf=st.sampled_from([1, 3, 8, 128]),
    seed=st.integers(0, 99),
)
def test_random_shapes(shape, entry, leaf, seed):
    a_dtype, b_dtype, out, _ = entry
    a, b = inputs(*shape, a_dtype, b_dtype, seed)
    got = gemm(leaf_length=leaf)(a, b, DTYPES[out])
    np.testing.assert_array_equal(bits(got), model(a, b, out, leaf))


@pytest.mark.parametrize("leaves", range(1, 18))
def test_the_tree_of_any_number_of_leaves(leaves):
    """Leaves of one product each: the tree alone, against its definition."""
    a, b = inputs(2, leaves, 9)
    np.testing.assert_array_equal(bits(gemm(leaf_length=1)(a, b)), model(a, b, leaf=1))
    # Which leaf meets which: M and -M swallow the ones that meet them before they meet each other.
    big = float(2**30)
    for i in range(leaves - 1):
        for j in range(i + 1, leaves):
            row = torch.ones(1, leaves)
            row[0, i], row[0, j] = big, -big
            survivors = gemm(leaf_length=1)(row, torch.ones(leaves, 1))
            low, high = 0, leaves  # the smallest subtree that holds both
            while True:
                split = low + (1 << (high - low - 1).bit_length() - 1)
                if j < split:
                    high = split
                elif i >= split:
                    low = split
                else:
                    break
            assert survivors == leaves - (high - low)


def test_controls_of_the_model_itself():
    """Another tree, a leaf from its far end, an fp64 sum: each would be seen."""
    a, b = inputs(3, 1300, 40)
    products = a.numpy().T[:, :, None] * b.numpy()[:, None, :]
    want = model(a, b).view(np.float32)
    leaves = gemm_numpy.leaf_sums(products, 128)
    assert (gemm_numpy.tree_sum(leaves) == want).all()
    halves = (sum(leaves[1:5], leaves[0]), sum(leaves[6:], leaves[5]))
    wrong = {
        "split in the middle": halves[0] + halves[1],
        "one after another": sum(leaves[1:], leaves[0]),
        "from the far end": gemm_numpy.tree_sum(gemm_numpy.leaf_sums(products[::-1], 128)),
        "in fp64": products.astype(np.float64).sum(0).astype(np.float32),
    }
    for name, found in wrong.items():
        assert (found != want).any(), name


# ---- what must not change a bit ----------------------------------------------------------------


@pytest.mark.parametrize(
    "constants",
    [
        {"tile_length": 64},
        {"tile_length": 448},
        {"tile_length": 1024, "rows": 1},
        {"tile_length": 64, "rows": 1},
        {"tile_length": 64, "rows": 7},
        {"tile_length": 64, "rows": 32},
        {"max_blocks": 1},
        {"max_blocks": 2},
        {"max_blocks": 3},
        {"max_blocks": 7},
        {"max_blocks": 40},
        {"max_blocks": 48},
        {"max_blocks": 128},
        {"max_blocks": 256},
    ],
    ids=str,
)
def test_schedules_do_not_reach_the_bits(constants):
    for a_dtype in ("fp32", "bf16"):
        a, b = inputs(33, 300, 700, a_dtype, a_dtype)
        want = bits(gemm()(a, b))
        run = gemm(**constants)
        for threads in (1, 2):
            assert (bits(run(a, b, threads=threads)) == want).all()
        assert run.last_ub_bytes == spec("det_gemm").ub_bytes(a_dtype, run.config)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_and_columns_do_not_see_each_other(dtype):
    a, b = inputs(70, 260, 130, dtype, dtype)
    whole = bits(gemm()(a, b))
    for m in (1, 2, 3, 4, 5, 16, 69):
        assert (bits(gemm()(a[:m], b)) == whole[:m]).all()
        assert (bits(gemm()(a[-m:], b)) == whole[-m:]).all()
    for n in (1, 2, 8, 15, 64, 129):
        assert (bits(gemm()(a, b[:, :n])) == whole[:, :n]).all()
        assert (bits(gemm()(a, b[:, -n:])) == whole[:, -n:]).all()
    # Neighbours of any content: a NaN or Inf stays in its row and its column.
    for bad in (float("nan"), float("inf"), -0.0):
        around, beside = a.clone(), b.clone()
        around[[0, 1, 3, 69]] = bad
        beside[:, [0, 7, 129]] = bad
        got = bits(gemm()(around, beside))
        kept = [i for i in range(70) if i not in (0, 1, 3, 69)]
        columns = [j for j in range(130) if j not in (0, 7, 129)]
        assert (got[kept][:, columns] == whole[kept][:, columns]).all()


def test_zeros_appended_along_k_change_nothing():
    """The claim of the kernel's head: leaves are never -0, so +0 and -0 add nothing."""
    a, b = inputs(3, 300, 20)
    a[0], a[1, 150:] = -0.0, 0.0
    want = bits(gemm()(a, b))
    for more in (1, 84, 85, 700):
        for zero in (0.0, -0.0):
            longer = torch.cat([a, torch.full((3, more), zero)], 1)
            got = gemm()(longer, torch.cat([b, torch.ones(more, 20)]))
            assert (bits(got) == want).all()
    # Control: in front they move every leaf.
    got = gemm()(torch.cat([torch.zeros(3, 84), a], 1), torch.cat([torch.ones(84, 20), b]))
    assert (bits(got)[2] != want[2]).any()


# ---- the fixed points of the definition --------------------------------------------------------


def test_the_empty_sum_and_the_sum_of_minus_zeros_are_plus_zero():
    for arch in ARCHS:
        for dtype, out in (("fp32", "fp32"), ("bf16", "bf16"), ("bf16", "fp32")):
            empty = torch.empty(3, 0, dtype=DTYPES[dtype])
            assert not bits(gemm(arch)(empty, empty.T, DTYPES[out])).any()
            for k in (1, 128, 129, 300):
                a = torch.full((2, k), -0.0, dtype=DTYPES[dtype])
                got = gemm(arch)(a, torch.ones(k, 5, dtype=a.dtype), DTYPES[out])
                assert not bits(got).any()


def test_one_product_is_rounded_once():
    """K = 1 is the product itself; a sum of a product and a term is not fused."""
    a, b = inputs(40, 1, 40)
    assert (bits(gemm()(a, b)) == bits(a * b)).all()
    # 2^-24 is lost when the product rounds: (1 + 2^-12)^2 - (1 + 2^-11) fused would keep it.
    x = 1 + 2.0**-12
    pair = torch.tensor([[-(1 + 2.0**-11), x]]), torch.tensor([[1.0], [x]])
    assert gemm()(*pair) == 0.0


SPECIALS = {
    "fp32": """
        7fc12345 ffc00001 7f800001 7f800000 ff800000 00000000 80000000 00000001 80000001 007fffff
        807fffff 00800000 7f7fffff ff7fffff 3f800000 bf800000 60ad78ec 40400000 e0ad78ec 40e00000
    """,
    "bf16": """
        7fd1 ffc1 7f81 7f80 ff80 0000 8000 0001 8001 007f 807f 0080 7f7f ff7f 3f80 bf80
        60ad 4040 e0ad 40e0
    """,
    "fp16": """
        7e11 fe01 7c01 7c00 fc00 0000 8000 0001 8001 03ff 83ff 0400 7bff fbff 3c00 bc00
        5cb0 4200 dcb0 4700
    """,
}


@pytest.mark.parametrize("arch", ARCHS)
@each_entry
@pytest.mark.parametrize("k", [1, 4, 129, 260])
def test_special_values(arch, a_dtype, b_dtype, out, entry, k):
    """Every special value against every other, alone and among ordinary terms."""

    def constants(dtype):
        kind = np.uint32 if dtype == "fp32" else np.uint16
        return np.array([int(text, 16) for text in SPECIALS[dtype].split()], kind)

    a = from_bits(np.repeat(constants(a_dtype)[:, None], k, 1), a_dtype)
    b = from_bits(np.repeat(constants(b_dtype)[None], k, 0), b_dtype)
    among_a, among_b = inputs(len(a), k, b.shape[1], a_dtype, b_dtype)
    among_a[:, k // 2], among_b[k // 2] = a[:, 0], b[0]
    for x, y in ((a, b), (among_a, among_b)):
        got = gemm(arch)(x, y, DTYPES[out])
        np.testing.assert_array_equal(bits(got), model(x, y, out))
        assert bool(got.isnan().any()) and bool(got.isinf().any())


@pytest.mark.parametrize("arch", ARCHS)
@each_entry
def test_hard_sums(arch, a_dtype, b_dtype, out, entry):
    """Case 5: cancellation, outlier channels, linspace(-100, 100), constants, underflow."""
    k = 1304  # the last leaf ragged
    g = torch.Generator().manual_seed(1)
    outliers = torch.randn(2, k, generator=g)
    outliers[:, [7, 100, 1111]] *= 500
    small = "fp16" in (a_dtype, b_dtype, out)
    big = 6e4 if small else 1e20
    rows = [
        torch.tensor([big, 3, -big, 7]).repeat(k // 4),
        torch.tensor([big, 3, -big, 7]).repeat_interleave(k // 4),
        *outliers,
        torch.linspace(-100, 100, k),
        torch.full((k,), 0.1),
        torch.full((k,), -0.0),
        torch.full((k,), 3e-6),
        torch.arange(k) % 2 * 2.0 - 1,
    ]
    columns = [
        torch.ones(k),
        torch.full((k,), 6e-8 if small else 1e-36),
        torch.linspace(-100, 100, k),
        *torch.randn(8, k, generator=g),
    ]
    a = torch.stack(rows).to(DTYPES[a_dtype])
    b = torch.stack(columns, 1).to(DTYPES[b_dtype])
    got = gemm(arch)(a, b, DTYPES[out])
    np.testing.assert_array_equal(bits(got), model(a, b, out))
    assert not bits(got)[6].any()  # a sum of zeros of either sign leaves the +0 start
    if not small:
        assert got[0, 0] == 11 * 7  # of each leaf the last term: what follows big is lost in it


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_ties_and_overflow_of_the_one_rounding(dtype):
    """Halfway cases of the 16-bit result, and what is beyond its largest finite value."""
    ulp = 2.0 ** (-7 if dtype == "bf16" else -10)
    terms = [[1.0, ulp / 2], [1.0 + ulp, ulp / 2], [1.0, ulp / 2 + ulp / 64], [-1.0, -ulp / 2]]
    a = torch.tensor(terms, dtype=DTYPES[dtype])
    got = gemm()(a, torch.ones(2, 3, dtype=a.dtype)).float()[:, 0]
    assert got.tolist() == [1.0, 1 + 2 * ulp, 1 + ulp, -1.0]
    if dtype == "fp16":
        a = torch.tensor([[65504.0, 15.0], [65504.0, 16.0], [-65504.0, -16.0]]).half()
        got = gemm()(a, torch.ones(2, 1).half())[:, 0]
        assert got.tolist() == [65504.0, float("inf"), float("-inf")]
        assert gemm()(a, torch.ones(2, 1).half(), torch.float32)[1] == 65520.0


# ---- blocks ------------------------------------------------------------------------------------


def test_chosen_blocks_compute_their_turns_and_nothing_else():
    a, b = inputs(10, 140, 1200)
    want = bits(gemm()(a, b))
    assert gemm().turns(10, 1200) == 9  # 3 groups of rows, 3 tiles of columns
    out = poisoned((10, 1200), "fp32")
    untouched = bits(out).copy()
    gemm()(a, b, out=out, blocks=9, block_ids=[4])  # rows 4 to 7 of the second tile
    mine = np.zeros((10, 1200), bool)
    mine[4:8, 512:1024] = True
    assert (bits(out)[mine] == want[mine]).all()
    assert (bits(out)[~mine] == untouched[~mine]).all()


def lazily_zero(rows: int, columns: int) -> torch.Tensor:
    """fp32 zeros [rows, columns] of memory that is there when it is touched."""
    lazily = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    memory = mmap.mmap(-1, 4 * rows * columns, flags=lazily)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        memory.madvise(mmap.MADV_NOHUGEPAGE)  # else the few elements would touch all of it
    return torch.frombuffer(memory, dtype=torch.float32).view(rows, columns)


def test_more_results_than_32_bits_count():
    """c of more than 2^31 elements, of which chosen blocks compute some."""
    m, n, wrap = 70000, 40000, 1 << 31
    a, b = inputs(m, 1, n)
    out, run = lazily_zero(m, n), gemm(max_blocks=65535)
    turns, groups = run.turns(m, n), m // 4
    chosen = [turns - 1, 40 * groups + groups - 1, wrap // n // 4]  # as turns
    run(a, b, out=out, blocks=65535, block_ids=[turn % 65535 for turn in chosen])
    for turn in chosen:
        row, column = turn % groups * 4, turn // groups * 512
        some = slice(row, row + 4), slice(column, min(column + 512, n))
        assert (bits(out[some]) == bits(a[some[0]] * b[:, some[1]])).all()
    assert (chosen[0] % groups * 4 + 3) * n > wrap
    assert not out[0, :512].any()  # a turn of a block that was not chosen: not written


def test_rows_of_the_greatest_length():
    """b of 2^30 - 1 columns: the step from row to row just fits 32 bits, in bytes."""
    n = LARGEST_PITCH
    b, out = lazily_zero(2, n), lazily_zero(1, n)
    columns = [0, n // 512 // 2 * 512 + 7, n - 512, n - 1]
    b[:, columns] = torch.arange(8.0).view(2, 4)
    a = torch.tensor([[1.0, 10]])
    run = gemm(max_blocks=65535)
    run(a, b, out=out, blocks=65535, block_ids=[c // 512 % 65535 for c in columns])
    assert out[0, columns].tolist() == (a @ b[:, columns])[0].tolist()
    assert out[0, [1, n - 2]].tolist() == [0.0, 0.0]


def test_more_leaves_than_the_levels_hold():
    """2^16 leaves are the most: that many work, one more is refused before a launch."""
    most = 1 << 16
    run = gemm(leaf_length=1)
    a, b = inputs(1, most, 1)
    np.testing.assert_array_equal(bits(run(a, b)), model(a, b, leaf=1))
    with pytest.raises(InputError, match=r"K = 65537.*at most 65536.*larger leaf_length"):
        run(torch.ones(1, most + 1), torch.ones(most + 1, 1))
    with pytest.raises(InputError, match=r"K = 65537"):
        wb.ops.AscendDetGemmOp(wb.KernelConfig(leaf_length=1))(
            torch.ones(1, most + 1), torch.ones(most + 1, 1)
        )


# ---- mutations ---------------------------------------------------------------------------------


def compared(run, out: str) -> tuple[bool, bool]:
    """Whether a build of the kernel gives the model's bits, and whether a row alone has the bits
    that it has in the batch."""
    a, b = inputs(9, 300, 40, "bf16", "bf16")
    entry = "det_gemm_bf16" if out == "bf16" else "det_gemm_bf16_fp32"
    got, alone = (bits(launch(run, entry, x, b)) for x in (a, a[:1]))
    return bool((got == model(a, b, out, 32)).all()), bool((alone == got[:1]).all())


# The mutation -> what `compared` says of it.
CAUGHT = dict.fromkeys(MUTATIONS, (False, True)) | {"leaves by the number of rows": (True, False)}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mistake_in_the_kernel_is_caught(tmp_path, name):
    """By the comparison with the model, or by that of a row alone with the row in a batch."""
    out = "bf16" if name == "truncated, not rounded" else "fp32"
    assert compared(mutant(tmp_path, name, LEAF_LENGTH=32), out) == CAUGHT[name]


def test_control_the_kernel_without_a_mistake_is_not_caught(tmp_path, monkeypatch):
    monkeypatch.setitem(MUTATIONS, "none", ("kLeaf", "kLeaf", "class DetGemm"))
    for out in ("bf16", "fp32"):
        assert compared(mutant(tmp_path, "none", LEAF_LENGTH=32), out) == (True, True)
