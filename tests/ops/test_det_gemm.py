"""The matrix product as an operator: accuracy by the contract, parts of K, autograd, torch's view.

The names DG… are rows of the case table. Its bits against the model: tests/twin.
"""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from gemm_kit import gemm, model
from helpers import DTYPES, bits, same_bits, wild

import workbench as wb
from workbench.errors import ConfigError, InputError
from workbench.numerics.contract import contract
from workbench.ops import AscendDetGemmOp, NativeDetGemmOp
from workbench.ops.det_gemm import combine, product, shard_length
from workbench.ops.inputs import LARGEST_PITCH, check_det_gemm

each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
both = pytest.mark.parametrize(
    "op", [AscendDetGemmOp(), NativeDetGemmOp()], ids=["ascend", "native"]
)
KEY = AscendDetGemmOp().config.to_key()
U = 2.0**-24  # unit roundoff of fp32

DG01 = [
    (128, 128, 128),
    (128, 2048, 2048),
    (31, 70, 65),
    (1, 32, 32),
    (4, 12288, 64),
    (2, 1, 128),
    (2, 17, 32),
    (2, 33, 64),
    (2, 65, 128),
    (2, 96, 128),
    (2, 32, 129),
    (2, 32, 257),
    (1, 32768, 32),
]


def exact(a, b):
    return a.double() @ b.double()


def within_the_bound(got, a, b) -> bool:
    """fp32 sums against fp64 by the worst case of their order: a leaf and the tree above it."""
    k = a.shape[1]
    height = min(k, 128) + (max(-(-k // 128), 1) - 1).bit_length() + 1
    gamma = height * U / (1 - height * U)
    scale = a.double().abs() @ b.double().abs()
    return bool(((got.double() - exact(a, b)).abs() <= gamma * scale).all())


# ---- accuracy: DG01, DG03 ----------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("shape", DG01, ids=str)
def test_accuracy(draw, shape, dtype):
    """DG01: the contract's cell against the reference and fp64, and the derived bound."""
    m, k, n = shape
    a, b = draw((m, k), (k, n), seed=123, dtype=dtype)
    out, wide = AscendDetGemmOp()(a, b), AscendDetGemmOp().forward_fp32(a, b)
    assert out.dtype == dtype and out.shape == (m, n) and wide.dtype == torch.float32
    assert same_bits(out, wide.to(dtype))
    assert within_the_bound(wide, a, b)
    reference, precise = NativeDetGemmOp().forward_fp32(a, b), exact(a, b)
    judged = contract().judge(out, reference, "forward_accuracy", "det_gemm", dtype, precise)
    assert judged.tolerance_ratio_exact <= 1
    assert judged.passed or judged.cause == "reference", judged
    # Control: terms that do not count are seen by the cell and by the bound.
    a = a.clone()
    a[:, : -(-k // 4)] = 0
    wrong = AscendDetGemmOp().forward_fp32(a, b)
    assert not contract().judge(wrong, precise, "forward_accuracy", "det_gemm", dtype).passed
    assert not within_the_bound(wrong, *draw((m, k), (k, n), seed=123, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "fp16"])
def test_the_reference_is_a_product_in_fp32_rounded_once(draw, dtype):
    """Never one of 16 bits: docs/contract.md says what the checker judges."""
    a, b = draw((3, 300), (300, 7), dtype=dtype)
    native = NativeDetGemmOp()
    wide = native.forward_fp32(a, b)
    assert wide.dtype == torch.float32
    assert same_bits(native(a, b), wide.to(dtype))
    assert same_bits(wide, NativeDetGemmOp()(a.float(), b.float()))
    assert within_the_bound(wide, a, b)
    # Control: big, 1, -big. Sums in 16 bits lose the 1, on any library.
    a = torch.tensor([[1024.0, 0.25, -1024]], dtype=dtype)
    ones = torch.ones(3, 1, dtype=dtype)
    step_by_step = (a[:, 0] + a[:, 1]) + a[:, 2]
    assert native(a, ones) == 0.25 and step_by_step == 0


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("shape", [s for s in DG01 if s != (128, 2048, 2048)], ids=str)
def test_bits_at_the_shapes_of_the_case_table(shape, dtype):
    m, k, n = shape
    a, b = wild((m, k), k, dtype, spread=3), wild((k, n), n, dtype, spread=3)
    assert (bits(AscendDetGemmOp()(a, b)) == model(a, b)).all()


def test_a_large_product_by_a_sample_of_its_rows():
    """DG03: 4096 x 4096 by 4096 x 32000 in bf16. The launch is that of the whole; of its blocks,
    one per group of four rows and tile of columns, those of a few groups run."""
    m, k, n, dtype = 4096, 4096, 32000, torch.bfloat16
    g = torch.Generator().manual_seed(123)
    a = torch.randn(m, k, generator=g, dtype=torch.float32).to(dtype)
    b = torch.empty(k, n, dtype=dtype)
    for rows in b.split(512):
        rows.normal_(generator=g)
    run = gemm()
    groups, tiles = m // 4, -(-n // 512)
    assert run.turns(m, n) == groups * tiles <= 65535
    sampled = (0, 411, groups - 1)
    out = torch.empty(m, n, dtype=dtype)  # memory that only the sampled rows fill
    blocks = [tile * groups + group for tile in range(tiles) for group in sampled]
    run(a, b, out=out, blocks=groups * tiles, block_ids=blocks)
    rows = [4 * group + i for group in sampled for i in range(4)]
    some, precise = a[rows], torch.cat([exact(a[rows], part) for part in b.split(4000, 1)], 1)
    judged = contract().judge(
        out[rows], (some.float() @ b.float()), "forward_accuracy", "det_gemm", dtype, precise
    )
    assert judged.passed and judged.tolerance_ratio_exact <= 1, judged
    columns = [0, 1, 511, 512, 16000, 31999]
    want = model(some[:, :], b[:, columns].contiguous())
    assert (bits(out[rows][:, columns]) == want).all()


# ---- parts of K: DG02 --------------------------------------------------------------------------


def parts(a, b, length):
    op = AscendDetGemmOp()
    pairs = zip(a.split(length, 1), b.split(length), strict=True)
    return [op.forward_fp32(x, y) for x, y in pairs]


@each_dtype
@pytest.mark.parametrize(
    ("k", "count"),
    [
        *[(2048, 2), (2048, 4), (4096, 2), (4096, 4), (4096, 8), (12288, 2), (12288, 3)],
        *[(1000, 2), (1000, 4), (1000, 8), (129, 2), (128, 2), (5000, 3), (5000, 7)],
    ],
)
def test_parts_of_k_combine_to_the_bits_of_the_whole(k, count, dtype):
    """DG02: tensor parallelism over K, also where the last part is short."""
    name = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}[dtype]
    a, b = wild((5, k), k, name, spread=3), wild((k, 33), count, name, spread=3)
    length = shard_length(k, count)
    found = parts(a, b, length)
    assert len(found) <= count and (len(found) > 1 or k <= 128)
    assert same_bits(combine(found), AscendDetGemmOp().forward_fp32(a, b))
    assert same_bits(combine(found).to(dtype), AscendDetGemmOp()(a, b))


def test_control_parts_that_do_not_follow_the_order_have_other_bits():
    a, b = wild((5, 4096), 1, spread=3), wild((4096, 64), 2, spread=3)
    whole = AscendDetGemmOp().forward_fp32(a, b)
    for length in (1000, 1536, 2100):  # not a leaf times a power of two
        assert not same_bits(combine(parts(a, b, length)), whole)
    four = parts(a, b, 1024)
    assert same_bits(combine(four), whole)
    assert not same_bits(((four[0] + four[1]) + four[2]) + four[3], whole)  # as a ring adds them
    assert not same_bits(combine([four[i] for i in (0, 2, 1, 3)]), whole)
    assert same_bits(combine(four[::-1]), whole)  # mirrored: additions commute
    # Parts that are rounded to 16 bits first cannot give the bits of one rounding.
    low = [p.bfloat16().float() for p in four]
    assert not same_bits(combine(low).bfloat16(), whole.bfloat16())


def test_parts_with_nan_and_inf():
    a, b = torch.ones(3, 512), torch.ones(512, 2)
    a[0, 5], a[1, 5], a[1, 300] = float("nan"), float("inf"), float("-inf")
    a.view(torch.int32)[0, 5] = 0x7FC12345  # a payload: a sum makes the one NaN of it
    whole = AscendDetGemmOp().forward_fp32(a, b)
    assert whole[:2].isnan().all() and whole[2].tolist() == [512.0, 512.0]
    assert same_bits(combine(parts(a, b, 256)), whole)


def test_shard_length():
    for depth, count, leaf, want in [(4096, 2, 128, 2048), (96 * 128, 2, 128, 8192), (1, 5, 8, 8)]:
        assert shard_length(depth, count, leaf) == want
    for k in range(1, 2000, 37):
        for count in range(1, 9):
            length = shard_length(k, count)
            assert length * count >= k and (length == 128 or length // 2 * count < k)
    for wrong in ((0, 1), (1, 0), (1, 1, 0)):
        with pytest.raises(InputError, match="want a positive number"):
            shard_length(*wrong)


def test_wrong_parts():
    one = torch.ones(2, 3)
    for given, words in (
        ([], ["empty"]),
        ([one, one.bfloat16()], ["partials[1] is bf16", "fp32", "forward_fp32"]),
        ([one, 3.0], ["partials[1] is", "float"]),
        ([one, torch.ones(3, 2)], ["partials[1] is (3, 2)", "(2, 3)"]),
        ([one, torch.ones(2, 3, device="meta")], ["meta", "cpu"]),
    ):
        with pytest.raises(InputError) as caught:
            combine(given)
        assert all(word in str(caught.value) for word in words), str(caught.value)


# ---- inputs ------------------------------------------------------------------------------------

A, B = torch.ones(3, 40), torch.ones(40, 7)
WRONG = {
    "a fp64": ((A.double(), B), ["a is float64", "fp32, bf16 and fp16", "a.float()"]),
    "b int": ((A, B.int()), ["b is int32", "b.float()"]),
    "a fp8": ((A.to(torch.float8_e4m3fn), B), ["a is float8_e4m3fn"]),
    "a list": (([[1.0]], B), ["a is a list", "torch.Tensor"]),
    "b none": ((A, None), ["b is a NoneType"]),
    "a 1-D": ((A[0], B), ["a has shape (40,)", "[M, K]"]),
    "b 3-D": ((A, B[None]), ["b has shape (1, 40, 7)", "[K, N]"]),
    "another K": ((A, B[1:]), ["(3, 40)", "(39, 7)", "40", "39", "same K"]),
    "b transposed": ((A, B.T), ["40 columns of a", "7 rows of b"]),
    "b bf16": ((A, B.bfloat16()), ["a is fp32, b bf16", "one dtype", "b.to(torch.float32)"]),
    "a fp16": ((A.half(), B.bfloat16()), ["a is fp16, b bf16", "one dtype"]),
    "elsewhere": ((A, B.to("meta")), ["a is on cpu, b on meta", "one device"]),
    "out_dtype": ((A.bfloat16(), B.bfloat16(), torch.float16), ["bf16 or fp32", "float16"]),
    "out fp64": ((A, B, torch.float64), ["float64", "fp32"]),
}


@both
@pytest.mark.parametrize("name", WRONG)
def test_wrong_inputs(op, name):
    arguments, words = WRONG[name]
    with pytest.raises(InputError) as caught:
        op(*arguments)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@both
def test_control_the_right_inputs_pass(op):
    assert (op(A, B) == 40).all() and op(A, B).dtype == torch.float32
    assert op(A.half(), B.half(), torch.float32).dtype == torch.float32
    assert op(A.half(), B.half(), torch.float16).dtype == torch.float16


def test_wrong_launches_and_configurations():
    meta = [torch.empty(s, device="meta") for s in ((1, LARGEST_PITCH + 1), (LARGEST_PITCH + 1, 1))]
    with pytest.raises(InputError, match="at most 1073741823"):
        check_det_gemm(*meta, None)
    for out, words in (
        (torch.empty(7, 3), ["(7, 3)", "(3, 7)"]),
        (torch.empty(3, 7).half(), ["fp16", "fp32"]),
        (torch.empty(7, 3).T, ["contiguous=False"]),
    ):
        with pytest.raises(InputError) as caught:
            gemm()(A, B, out=out)
        assert all(word in str(caught.value) for word in words), str(caught.value)
    with pytest.raises(InputError, match="fp16"):  # only fp32 may stand beside another dtype
        gemm()(A.half(), B.bfloat16())
    with pytest.raises(InputError, match=r"unknown backend 'gpu'"):
        AscendDetGemmOp(backend="gpu")
    for constants, message in (
        ({"tile_length": 100}, "multiple of 64"),
        ({"tile_length": 576}, "largest value that works is 512"),
        ({"leaf_length": 0}, "from 1 to 65536"),
        ({"rows": 65}, "from 1 to 64"),
        ({"rows": 8}, "UB"),
        ({"max_blocks": 0}, "1 to 65535"),
        ({"weight_rows": 3}, "no constant weight_rows"),
    ):
        with pytest.raises(ConfigError, match=message):
            AscendDetGemmOp(wb.KernelConfig(**constants))


@each_dtype
def test_strides_and_offsets(draw, dtype):
    a, b = draw((6, 50), (50, 9), dtype=dtype)
    want = AscendDetGemmOp()(a, b)

    def shifted(t):
        buffer = torch.full((t.numel() + 3,), float("nan"), dtype=dtype)
        buffer[3:] = t.flatten()
        return buffer[3:].view(t.shape)

    def wide(t):
        buffer = torch.full((t.shape[0], 3 * t.shape[1]), float("nan"), dtype=dtype)
        buffer[:, t.shape[1] : 2 * t.shape[1]] = t
        return buffer[:, t.shape[1] : 2 * t.shape[1]]

    def transposed(t):
        return t.t().contiguous().t()

    def negated(t):
        return torch._neg_view(-t)

    for form in (shifted, wide, transposed, negated):
        assert same_bits(AscendDetGemmOp()(form(a), form(b)), want), form.__name__
    one = a[:1].expand(6, 50)
    assert same_bits(AscendDetGemmOp()(one, b), want[:1].expand(6, 9).clone())


@both
@each_dtype
@pytest.mark.parametrize("shape", [(0, 8, 3), (4, 0, 3), (4, 8, 0), (0, 0, 0), (0, 8, 0)], ids=str)
def test_empty(op, draw, shape, dtype):
    m, k, n = shape
    a, b = (t.requires_grad_() for t in draw((m, k), (k, n), dtype=dtype))
    for out_dtype in (None, torch.float32):
        a.grad = b.grad = None
        out = op(a, b, out_dtype)
        assert out.shape == (m, n) and out.dtype == (out_dtype or dtype) and out.grad_fn
        assert not bits(out).any()  # K = 0 is the empty sum, +0
        out.backward(torch.ones_like(out))
        for t in (a, b):
            assert t.grad.shape == t.shape and t.grad.dtype == dtype and not t.grad.any()


# ---- autograd ----------------------------------------------------------------------------------


def gradients(op, a, b, upstream, **options):
    leaves = [t.detach().clone().requires_grad_() for t in (a, b)]
    op(*leaves, **options).backward(upstream)
    return [t.grad for t in leaves]


@each_dtype
@pytest.mark.parametrize("fp32_out", [False, True])
def test_gradients_are_products_of_the_same_kind(draw, dtype, fp32_out):
    out_dtype = torch.float32 if fp32_out else dtype
    a, b = draw((5, 200), (200, 33), dtype=dtype)
    (upstream,) = draw((5, 33), seed=1, dtype=out_dtype)
    op = AscendDetGemmOp()
    got = gradients(op, a, b, upstream, out_dtype=out_dtype)
    native = gradients(NativeDetGemmOp(), a, b, upstream, out_dtype=out_dtype)
    # Each as its definition says, by the model: dA = dC B^T, dB = A^T dC, rounded once.
    wide = [t.float() for t in (a, b, upstream)]
    want = [
        torch.from_numpy(model(x.contiguous(), y.contiguous()).view(np.float32)).to(dtype)
        for x, y in ((wide[2], wide[1].T), (wide[0].T, wide[2]))
    ]
    truth = [exact(upstream, b.T), exact(a.T, upstream)]
    for g, w, n, e in zip(got, want, native, truth, strict=True):
        assert same_bits(g, w)
        judged = contract().judge(g, n, "gradient_accuracy", "det_gemm", dtype, e)
        assert judged.passed and judged.tolerance_ratio_exact <= 1, judged
        assert not contract().judge(-g, n, "gradient_accuracy", "det_gemm", dtype).passed


@each_dtype
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_zero_upstream_gradient_gives_plus_zero(draw, dtype, zero):
    a, b, upstream = draw((3, 40), (40, 7), (3, 7), dtype=dtype)
    nothing = torch.full((3, 7), zero, dtype=dtype)
    assert bool(nothing.signbit().all()) == (str(zero) == "-0.0")
    for g in gradients(AscendDetGemmOp(), a, b, nothing):
        assert not bits(g).any()
    # One row without a gradient leaves the others' alone.
    upstream[1] = zero
    got = gradients(AscendDetGemmOp(), a, b, upstream)
    want = gradients(AscendDetGemmOp(), a[[0, 2]], b, upstream[[0, 2]])
    assert same_bits(got[0][[0, 2]], want[0]) and not bits(got[0][1]).any()
    assert same_bits(got[1], want[1]) and got[1].any()


@pytest.mark.parametrize(
    ("a_dtype", "b_dtype", "out_dtype"),
    [
        (torch.float32, torch.bfloat16, torch.bfloat16),
        (torch.float32, torch.bfloat16, torch.float32),
        (torch.bfloat16, torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float32, torch.float32),
        (torch.float32, torch.float16, torch.float16),
        (torch.float16, torch.float32, torch.float32),
        (torch.float32, torch.float32, torch.float16),
    ],
    ids=str,
)
def test_products_of_two_dtypes(draw, a_dtype, b_dtype, out_dtype):
    """What backward needs: fp32 beside 16 bits on either side, and its own gradients."""
    a, b = draw((5, 200), dtype=a_dtype) + draw((200, 33), seed=1, dtype=b_dtype)
    (upstream,) = draw((5, 33), seed=2, dtype=out_dtype)
    want = model(a.float(), b.float())
    out = product(a, b, out_dtype, KEY, "twin")
    assert same_bits(out, torch.from_numpy(want.view(np.float32)).to(out_dtype))
    got = gradients(lambda x, y: product(x, y, out_dtype, KEY, "twin"), a, b, upstream)
    for g, t, pair in zip(got, (a, b), ((upstream, b.T), (a.T, upstream)), strict=True):
        wide = [x.float().contiguous() for x in pair]
        want = torch.from_numpy(model(*wide).view(np.float32)).to(t.dtype)
        assert same_bits(g, want)


def test_gradients_only_where_wanted(draw):
    a, b, upstream = draw((4, 50), (50, 9), (4, 9))
    every = gradients(AscendDetGemmOp(), a, b, upstream)
    for chosen in range(2):
        leaves = [a.clone(), b.clone()]
        leaves[chosen].requires_grad_()
        AscendDetGemmOp()(*leaves).backward(upstream)
        assert leaves[1 - chosen].grad is None
        assert same_bits(leaves[chosen].grad, every[chosen])
    assert not AscendDetGemmOp()(a, b).requires_grad


@each_dtype
def test_a_gradient_of_the_gradient(draw, dtype):
    a, b = (t.requires_grad_() for t in draw((2, 8), (8, 3), dtype=dtype))
    op = AscendDetGemmOp()
    (first,) = torch.autograd.grad(op(a, b).pow(2).sum(), a, create_graph=True)
    second = torch.autograd.grad(first.sum(), (a, b))
    x, y = (t.detach().double().requires_grad_() for t in (a, b))
    (want,) = torch.autograd.grad((x @ y).pow(2).sum(), x, create_graph=True)
    for g, e in zip(second, torch.autograd.grad(want.sum(), (x, y)), strict=True):
        assert g.dtype == dtype
        assert contract().judge(g, e, "gradient_accuracy", "det_gemm", torch.bfloat16).passed


# ---- what is around; what every operator has as torch sees it is in test_torch.py, test_func.py --


def test_flush_to_zero_in_the_caller_changes_nothing(draw):
    a, b, upstream = (t * 2.0**-65 for t in draw((3, 70), (70, 9), (3, 9)))

    def run():
        return [AscendDetGemmOp()(a, b), *gradients(AscendDetGemmOp(), a, b, upstream)]

    want = run()
    assert all((t != 0).all() for t in want)  # subnormal, and not zero already
    torch.set_flush_denormal(True)
    try:
        assert not (a * b[:3, :1]).any()  # so this is a test
        assert all(same_bits(x, y) for x, y in zip(run(), want, strict=True))
    finally:
        torch.set_flush_denormal(False)


def test_two_configurations_and_threads_side_by_side():
    a, b = wild((9, 700), 1, spread=3), wild((700, 70), 2, spread=3)
    ops = {leaf: AscendDetGemmOp(wb.KernelConfig(leaf_length=leaf)) for leaf in (32, 128)}
    want = {leaf: model(a, b, leaf=leaf) for leaf in ops}
    assert (want[32] != want[128]).any()
    wrong: list = []

    def work(leaf):
        try:
            for _ in range(5):
                assert (bits(ops[leaf](a, b)) == want[leaf]).all()
        except BaseException as error:
            wrong.append((leaf, error))

    threads = [threading.Thread(target=work, args=(leaf,)) for leaf in (32, 128, 32, 128)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and not any(thread.is_alive() for thread in threads), wrong


def test_representations():
    assert "leaf_length=128" in repr(AscendDetGemmOp()) and "auto" in repr(AscendDetGemmOp())
    assert repr(NativeDetGemmOp()) == "NativeDetGemmOp()"
    assert AscendDetGemmOp().config == wb.KernelConfig(
        leaf_length=128, tile_length=512, rows=4, max_blocks=128
    )
