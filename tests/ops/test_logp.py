"""The log-probability operators: accuracy by the contract, bits where bits are promised, shapes.

The names BL…, LP…, DL…, CI… are rows of the case table.
"""

from __future__ import annotations

import logp_kit as kit
import pytest
import torch
from helpers import ARCHS, DTYPES, bits, same_bits

import workbench as wb
from workbench.errors import InputError
from workbench.numerics.contract import contract
from workbench.ops import AscendBatchInvariantLogpOp, NativeBatchInvariantLogpOp

each_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
FORWARD, GRADIENT = "forward_accuracy", "gradient_accuracy"
SMALL = wb.KernelConfig(tile_length=64, max_blocks=7)


@pytest.fixture(params=[AscendBatchInvariantLogpOp, NativeBatchInvariantLogpOp])
def op(request):
    """Each of the two operators, in its default configuration."""
    return request.param()


def judge(got, reference, judgement, dtype, exact=None):
    return contract().judge(got.detach(), reference.detach(), judgement, kit.OP, dtype, exact=exact)


def assert_accurate(run, batch: kit.Batch) -> None:
    """All three results within the contract's cells of the native operator and of fp64."""
    assert_within(run(batch), batch)


def assert_within(got: dict, batch: kit.Batch) -> None:
    dtype, exact = batch.logits.dtype, kit.exact(batch)
    native = kit.by_operator(NativeBatchInvariantLogpOp())(batch)
    for name in kit.OUTPUTS:
        judgement = GRADIENT if name == "grad" else FORWARD
        found = judge(got[name], native[name], judgement, dtype, exact[name])
        assert found.passed and found.tolerance_ratio_exact <= 1, (name, found)


# ---- accuracy ------------------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("arch", ARCHS)
def test_accuracy(arch, dtype):
    """BL10, BL11, LP04: 8 x 1024 and 4 x 10000 within the contract, forward and gradient."""
    op = AscendBatchInvariantLogpOp(wb.KernelConfig(arch=arch))
    for rows, vocab in ((8, 1024), (4, 10000)):
        assert_accurate(kit.by_operator(op), kit.draw(rows, vocab, kit.NAMES[dtype]))


# DL01: edges of data blocks, repeats and tiles.
EDGES = (1, 2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1024, 4095, 4096, 4097, 4099, 8192)


@each_dtype
@pytest.mark.parametrize("tile", [64, 4096])
def test_accuracy_at_every_edge_of_the_vocabulary(tile, dtype):
    """DL01, and LP01: (3, 5) rows of V 257; forward and gradient."""
    op = AscendBatchInvariantLogpOp(wb.KernelConfig(tile_length=tile))
    for vocab in EDGES:
        assert_accurate(kit.by_operator(op), kit.draw(7, vocab, kit.NAMES[dtype], seed=vocab))
    batch = kit.draw(15, 257, kit.NAMES[dtype])
    shaped = kit.Batch(batch.logits.view(3, 5, 257), *(t.view(3, 5) for t in batch[1:]))
    got = kit.by_operator(op)(shaped)
    assert got["logp"].shape == (3, 5) and got["grad"].shape == (3, 5, 257)
    assert_within({name: t.flatten(0, 1) for name, t in got.items()}, batch)


def test_large_vocabulary():
    """BL12: 4 x 128256, bf16."""
    run = kit.by_operator(AscendBatchInvariantLogpOp())
    assert_accurate(run, kit.draw(4, 128256, "bf16"))


def test_large_logits():
    """exp of the logits themselves would overflow; the maximum is subtracted first."""
    batch = kit.draw(8, 1024, scale=1000.0)
    got = AscendBatchInvariantLogpOp()(batch.logits, batch.target)
    assert got.isfinite().all() and (got < -100).any()
    flawed = kit.flawed("maximum_not_subtracted")(batch)["logp"]  # the control
    assert not flawed.isfinite().all()


@pytest.mark.parametrize("name", ["last_tile_dropped", "swapped_sign_in_backward",
                                  "target_left_out_of_backward"])  # fmt: skip
def test_control_an_inaccurate_kernel_fails_the_contract(name):
    batch = kit.draw(8, 1024)
    assert_accurate(kit.flawed("sound"), batch)
    with pytest.raises(AssertionError, match="grad" if "backward" in name else "logp"):
        assert_accurate(kit.flawed(name), batch)


@each_dtype
def test_native_is_log_softmax_and_gather(dtype):
    """BL01: V 300, three dimensions, one token, V 1, V 128256."""
    native = NativeBatchInvariantLogpOp()
    for shape in ((5, 300), (2, 3, 300), (1, 300), (4, 1), (2, 128256)):
        g = torch.Generator().manual_seed(sum(shape))
        logits = torch.randn(shape, generator=g).to(dtype)
        target = torch.randint(0, shape[-1], shape[:-1], generator=g)
        got, lse = native(logits, target, return_lse=True)
        assert got.dtype == lse.dtype == torch.float32 and got.shape == target.shape
        wide = logits.float()
        want = torch.log_softmax(wide, -1).gather(-1, target[..., None])[..., 0]
        assert judge(got, want, FORWARD, torch.float32).passed
        assert judge(lse, torch.logsumexp(wide, -1), FORWARD, torch.float32).passed
        shifted = torch.log_softmax(wide, -1)[..., 0]  # control: another token
        assert shape[-1] == 1 or not judge(got, shifted, FORWARD, torch.float32).passed


def test_backward_formula(op):
    """BL17, BL15: 4 x 17, the closed form p (grad_lse - grad_logp), grad_logp at the target."""
    batch = kit.draw(4, 17)
    got, want = kit.by_operator(op)(batch)["grad"], kit.exact(batch)["grad"]
    assert judge(got, want.float(), GRADIENT, torch.float32, want).passed


@pytest.mark.slow
def test_qwen3_vocabulary():
    """CI02: 1 x 4 and 4 x 27 rows of V 151936, bf16, seed 20260812: all of them within the
    contract, and the four rows have the same bits in both."""
    few = kit.draw(4, 151936, "bf16", seed=20260812)
    many = kit.draw(108, 151936, "bf16", seed=20260812 + 1)
    at = [0, 30, 57, 107]
    for whole, part in zip(many, few, strict=True):
        whole[at] = part
    run = kit.by_operator(AscendBatchInvariantLogpOp())
    alone, among = run(few), run(many)
    assert all(same_bits(among[name][at], alone[name]) for name in kit.OUTPUTS)
    for part in torch.arange(108).split(27):  # the four rows are among them
        assert_within({name: t[part] for name, t in among.items()}, many.rows(part))
    # Control: one row of the 108 whose neighbour's results it has.
    wrong = {name: t[-27:].clone() for name, t in among.items()}
    wrong["logp"][13] = wrong["logp"][14]
    with pytest.raises(AssertionError, match="logp"):
        assert_within(wrong, many.rows(torch.arange(81, 108)))
    logits, target = many.logits.view(4, 27, -1), many.target.view(4, 27)
    shaped = AscendBatchInvariantLogpOp()(logits, target)
    assert same_bits(shaped.flatten(), among["logp"])


# ---- bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_invariance(arch, dtype):
    """BL02-BL06, BL09, BL14, LP03, LP05: batch sizes, positions, neighbours (NaN and Inf too),
    padding, blocks, selection, repeats into poisoned memory; forward and gradient, V 1024."""
    batch = kit.draw(129, 1024, dtype, seed=3)
    batch.target[5] = -100
    assert kit.broken(kit.Launched(kit.kernel(64, arch)), batch) == {}


@each_dtype
def test_invariance_of_the_operator(dtype):
    """The same of what people import, with autograd: everything but the number of blocks."""
    batch = kit.draw(33, 300, kit.NAMES[dtype], seed=4)
    batch.target[5] = -100
    run = kit.by_operator(AscendBatchInvariantLogpOp(SMALL))
    assert kit.broken(run, batch, transforms="T123467") == {}
    many = AscendBatchInvariantLogpOp(SMALL.replace(max_blocks=3))
    for name, got in kit.by_operator(many)(batch).items():
        assert same_bits(got, run(batch)[name])


def test_300_rows_stride_over_blocks():
    """LP03: more rows than blocks."""
    batch = kit.draw(300, 129, seed=13)
    run = kit.Launched(kit.kernel(64))
    alone = [run(batch.rows(slice(i, i + 1))) for i in range(300)]
    got = run(batch, blocks=128)
    for name in kit.OUTPUTS:
        assert same_bits(got[name], torch.cat([one[name] for one in alone]))


@pytest.mark.parametrize(
    ("dtype", "positions"), [(torch.bfloat16, ((1, 0), (2, 1), (4, 2), (8, 5), (16, 11)))]
)
def test_batch_and_position(dtype, positions):
    """DL02"""
    batch = kit.draw(17, 1024, kit.NAMES[dtype], seed=5)
    run = kit.by_operator(AscendBatchInvariantLogpOp())
    alone = run(batch.rows(slice(16, 17)))
    for size, position in positions:
        among = batch.rows([*range(position), 16, *range(position, size - 1)])
        got = run(among)
        assert all(same_bits(got[n][position], alone[n][0]) for n in kit.OUTPUTS)


# What each flaw must break, and what it leaves alone (so that the transform's name says something).
BREAKS = {
    "sound": ((), "1234567"),
    "sum_by_block_id": (("T2", "T5"), "7"),
    "sum_by_block_count": (("T5",), "237"),
    "sum_by_rows": (("T1",), "23567"),
    "sum_by_position": (("T2", "T6"), "157"),
    "maximum_kept_from_the_row_before": (("T3", "T5"), "7"),
    "ignored_rows_not_written": (("T7",), "123456"),
    "gradient_by_block_id": (("T2", "T5"), "7"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_control_a_flawed_order_is_caught_by_name(name):
    batch = kit.draw(33, 300)
    batch.target[5] = -100
    found = kit.broken(kit.flawed(name), batch)
    needed, kept = BREAKS[name]
    assert set(needed) <= set(found), found
    assert not {f"T{n}" for n in kept} & set(found), found
    if name == "gradient_by_block_id":
        assert all(text.endswith("grad") for texts in found.values() for text in texts)


def test_control_the_flaws_of_order_change_the_last_bits_only():
    """They are wrong in no way that the contract's accuracy would see."""
    batch = kit.draw(33, 300)
    for name in ("sum_by_block_id", "sum_by_block_count", "sum_by_rows", "gradient_by_block_id"):
        assert_accurate(kit.flawed(name), batch)


def test_the_operator_and_the_kernel_are_the_same():
    batch = kit.draw(6, 1000, "bf16")
    for arch in ARCHS:
        config = wb.KernelConfig(tile_length=64, max_blocks=7, arch=arch)
        op = AscendBatchInvariantLogpOp(config, "twin")
        assert "64" in repr(op) and arch in repr(op)
        got, want = kit.by_operator(op)(batch), kit.Launched(kit.kernel(64, arch))(batch)
        assert all(same_bits(got[n], want[n]) for n in kit.OUTPUTS)
        assert same_bits(op.forward_fp32(batch.logits, batch.target), got["logp"])
    defaults = wb.KernelConfig(tile_length=4096, max_blocks=128)
    assert AscendBatchInvariantLogpOp().config == defaults
    assert repr(NativeBatchInvariantLogpOp()) == "NativeBatchInvariantLogpOp()"


@each_dtype
def test_inputs_are_not_changed(op, dtype):
    batch = kit.draw(4, 40, kit.NAMES[dtype])
    before = [t.clone() for t in batch]
    versions = [t._version for t in batch]
    kit.by_operator(op)(batch)
    assert all(torch.equal(a, b) for a, b in zip(batch, before, strict=True))
    assert [t._version for t in batch] == versions


# ---- targets -------------------------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("ignore_index", [-100, -1, 3, 2**40])
def test_ignored_rows(op, dtype, ignore_index):
    """BL07, BL15: logp, lse and gradient are exactly +0, also of rows that hold NaN."""
    batch = kit.draw(6, 17, kit.NAMES[dtype])
    batch.target[:] = torch.tensor([0, 1, 2, 4, 5, 6])
    kept = kit.by_operator(op, ignore_index=ignore_index)(batch)
    batch.target[[1, 4]] = ignore_index
    batch.logits[1] = float("nan")
    got = kit.by_operator(op, ignore_index=ignore_index)(batch)
    for name in kit.OUTPUTS:
        assert not bits(got[name])[[1, 4]].any(), name
        assert same_bits(got[name][[0, 2, 3, 5]], kept[name][[0, 2, 3, 5]])
    assert (kept["logp"] != 0).all()
    batch.target[:] = ignore_index  # every row
    got = kit.by_operator(op, ignore_index=ignore_index)(batch)
    assert not any(bits(got[name]).any() for name in kit.OUTPUTS)


def test_control_another_rule_of_ignoring_is_caught():
    """BL07's controls: a kernel that takes -1 for the ignore index whatever was asked, and one that
    gives 0 for a target outside instead of NaN (LP02)."""
    batch = kit.draw(4, 17)
    batch.target[:] = torch.tensor([-100, 5, -1, 17])
    sound = kit.flawed("sound")(batch)["logp"]
    assert sound[0] == 0 and sound[2:].isnan().all()
    wrong = kit.flawed("another_ignore_index")(batch)["logp"]
    assert wrong[0].isnan() and wrong[2] == 0
    wrong = kit.flawed("outside_is_ignored")(batch)["logp"]
    assert not wrong[[0, 2, 3]].any()


@each_dtype
@pytest.mark.parametrize("bad", [17, -1, -101, 2**31, 2**32 + 3, -(2**63)])
def test_targets_outside(op, dtype, bad):
    """BL08, BL16, LP02: an error that names the first, or NaN where nobody validates."""
    batch = kit.draw(6, 17, kit.NAMES[dtype])
    want = kit.by_operator(op)(batch)
    batch.target[[2, 5]] = bad
    with pytest.raises(InputError) as caught:
        op(batch.logits, batch.target)
    words = [f"target[2] is {bad}", "0 to 16", "ignore_index=-100", "2 of 6", "validate=False"]
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert isinstance(caught.value, ValueError)
    got = kit.by_operator(op, validate=False)(batch)
    for name in kit.OUTPUTS:
        assert got[name][[2, 5]].isnan().all()
        assert same_bits(got[name][[0, 1, 3, 4]], want[name][[0, 1, 3, 4]])


def test_the_first_bad_target_of_several_dimensions(op):
    target = torch.tensor([[1, 2, 0], [-100, 1, 3], [7, 0, 0]])
    with pytest.raises(InputError, match=r"target\[1, 2\] is 3; want 0 to 2 .*2 of 9"):
        op(torch.zeros(3, 3, 3), target)


def test_int32_targets(op):
    batch = kit.draw(6, 17)
    batch.target[3] = -100
    narrow = batch._replace(target=batch.target.int())
    got, want = kit.by_operator(op)(narrow), kit.by_operator(op)(batch)
    assert all(same_bits(got[n], want[n]) for n in kit.OUTPUTS)
    narrow.target[0] = 17
    with pytest.raises(InputError, match=r"target\[0\] is 17"):
        op(narrow.logits, narrow.target)


# ---- shapes and strides ----------------------------------------------------------------------


@each_dtype
@pytest.mark.parametrize("shape", [(1, 9), (2, 3, 9), (3, 5, 257), (2, 1, 1, 2, 3, 4), (4, 1)])
def test_leading_dimensions(op, dtype, shape):
    """BL13, LP01: they stay, and only shape the same rows."""
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(shape, generator=g).to(dtype).requires_grad_()
    target = torch.randint(0, shape[-1], shape[:-1], generator=g)
    logp, lse = op(logits, target, return_lse=True)
    assert logp.shape == lse.shape == shape[:-1] and logp.dtype == lse.dtype == torch.float32
    (grad,) = torch.autograd.grad(logp.sum(), logits)
    flat = logits.detach().reshape(-1, shape[-1]).requires_grad_()
    want = op(flat, target.flatten())
    (want_grad,) = torch.autograd.grad(want.sum(), flat)
    assert same_bits(logp.detach().flatten(), want.detach())
    assert same_bits(grad.reshape(flat.shape), want_grad)
    assert grad.dtype == dtype


@each_dtype
@pytest.mark.parametrize("shape", [(0, 8), (2, 0, 8), (0, 0), (3, 0, 0)])
def test_no_rows(op, dtype, shape):
    """BL13: empty, and the gradient of empty."""
    logits = torch.empty(shape, dtype=dtype, requires_grad=True)
    target = torch.empty(shape[:-1], dtype=torch.int64)
    logp, lse = op(logits, target, return_lse=True)
    assert logp.shape == lse.shape == shape[:-1] and logp.dtype == lse.dtype == torch.float32
    (logp.sum() + lse.sum()).backward()
    assert logits.grad.shape == shape and logits.grad.dtype == dtype


@pytest.mark.parametrize("vocab", [50264, 50257])
def test_every_vocabulary_is_taken(vocab):
    """BL18: rows that do not start on 16 bytes are no matter."""
    batch = kit.draw(3, vocab, "bf16")
    assert_accurate(kit.by_operator(AscendBatchInvariantLogpOp()), batch)


@each_dtype
def test_strides_and_offsets(op, dtype):
    """DL03: transposed, sliced, expanded, negated lazily, and not aligned."""
    batch = kit.draw(6, 50, kit.NAMES[dtype])
    want = kit.by_operator(op)(batch)
    nan = float("nan")

    def check(logits, target=batch.target):
        assert torch.equal(logits, batch.logits)
        leaf = logits.detach().requires_grad_()
        logp, lse = op(leaf, target, return_lse=True)
        torch.autograd.backward([logp, lse], [batch.grad_logp, batch.grad_lse])
        got = {"logp": logp.detach(), "lse": lse.detach(), "grad": leaf.grad}
        assert all(same_bits(got[n].contiguous(), want[n]) for n in kit.OUTPUTS)

    wide = torch.full((6, 150), nan, dtype=dtype)
    wide[:, 50:100] = batch.logits
    check(wide[:, 50:100])
    check(batch.logits.t().contiguous().t())
    check(torch.stack([batch.logits, -batch.logits], -1)[..., 0])
    check(torch._neg_view(-batch.logits))
    for offset in (1, 3, 7):
        buffer = torch.full((300 + offset,), nan, dtype=dtype)
        buffer[offset:] = batch.logits.flatten()
        shifted = buffer[offset:].view(6, 50)
        assert shifted.data_ptr() % 32
        check(shifted)
    check(batch.logits, torch.stack([batch.target, -batch.target], -1)[:, 0])
    one = batch.logits[:1].expand(6, 50)
    row = op(batch.logits[:1], batch.target[:1])
    assert one.stride(0) == 0
    assert same_bits(op(one, batch.target[:1].expand(6)), row.expand(6).clone())


def test_a_caller_s_own_upstream_strides(op):
    """Gradients that arrive expanded (from .sum()) or as slices."""
    batch = kit.draw(6, 50)
    leaf = batch.logits.clone().requires_grad_()
    (expanded,) = torch.autograd.grad(op(leaf, batch.target).sum(), leaf)
    ones = batch._replace(grad_logp=torch.ones(6), grad_lse=torch.zeros(6))
    assert same_bits(expanded, kit.by_operator(op)(ones)["grad"])
    (sliced,) = torch.autograd.grad(op(leaf, batch.target), leaf, torch.ones(12)[::2])
    assert same_bits(sliced, expanded)


def test_a_zero_upstream_gradient(op):
    batch = kit.draw(4, 50)
    for zero in (0.0, -0.0):
        still = batch._replace(grad_logp=torch.full((4,), zero), grad_lse=torch.full((4,), zero))
        assert not kit.by_operator(op)(still)["grad"].any()
