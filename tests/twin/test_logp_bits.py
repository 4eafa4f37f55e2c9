"""The log-probability kernels on the twin against the independent numpy model, bit for bit."""

from __future__ import annotations

import ctypes
import mmap

import logp_kit as kit
import numpy as np
import pytest
import torch
from helpers import ARCHS, DTYPES, POISON, bits, from_bits
from hypothesis import given, settings
from hypothesis import strategies as st
from models import ascend_numpy, logp_numpy

from workbench.build import spec

# LP01 257, LP04 10000, DL01 and Case 1: tile edges, data blocks, repeats.
VOCABS = (1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1024)
VOCABS += (4095, 4096, 4097, 4099, 8191, 8192, 8193, 10000)
TILES = (64, 4096, "largest")
LARGEST = {
    ("dav-2201", "fp32"): 12224,
    ("dav-2201", "bf16"): 16128,
    ("dav-2201", "fp16"): 16128,
    ("dav-3510", "fp32"): 15808,
    ("dav-3510", "bf16"): 20864,
    ("dav-3510", "fp16"): 20864,
}
NAN = {"fp32": 0x7FC00000, "bf16": 0x7FC0, "fp16": 0x7E00}


def tile_of(tile, arch: str, dtype: str) -> int:
    return LARGEST[arch, dtype] if tile == "largest" else tile


def batch_of(vocab: int, dtype: str, rows: int = 7) -> kit.Batch:
    """Row 2 ignored, row 3 one past the end, row 4 before the first."""
    batch = kit.draw(rows, vocab, dtype, seed=vocab, scale=4.0)
    batch.target[2:5] = torch.tensor([-100, vocab, -1])
    return batch


def assert_equals_the_model(run, batch, *, arch, tile, what="", **options):
    got = run(batch, **options)
    want = kit.expected(batch, arch=arch, tile=tile, ignore_index=run.ignore_index)
    for name in kit.OUTPUTS:
        np.testing.assert_array_equal(bits(got[name]), want[name], f"{what} {name}")


def test_the_largest_tiles_are_those_of_the_spec():
    for (arch, dtype), largest in LARGEST.items():
        assert spec(kit.OP).largest_tile(arch, dtype) == largest


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_the_model(arch, tile, dtype):
    """LP01, LP04, DL01: every edge of V, forward and gradient."""
    tile = tile_of(tile, arch, dtype)
    run = kit.Launched(kit.kernel(tile, arch))
    for vocab in (*VOCABS, tile + 1):
        batch = batch_of(vocab, dtype)
        assert_equals_the_model(run, batch, arch=arch, tile=tile, what=f"V={vocab}", poison=True)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_control_another_order_would_be_seen(arch, dtype):
    other = ARCHS[1 - ARCHS.index(arch)]
    batch = kit.draw(40, 10000, dtype, seed=1, scale=1.0)
    got = bits(kit.Launched(kit.kernel(4096, arch))(batch)["lse"])
    assert (got == kit.expected(batch, arch=arch, tile=4096)["lse"]).all()
    assert (got != kit.expected(batch, arch=arch, tile=64)["lse"]).any()
    assert (got != kit.expected(batch, arch=other, tile=4096)["lse"]).any()


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_control_a_truncated_gradient_would_be_seen(dtype):
    """The last rounding of the gradient is to nearest even: a kernel that cuts off is found."""
    batch = kit.draw(7, 300, dtype)
    want = kit.expected(batch, arch="dav-2201", tile=64)
    cut = kit.flawed("gradient_truncated", dtype=dtype)(batch)
    sound = kit.flawed("sound", dtype=dtype)(batch)
    assert (bits(sound["grad"]) == want["grad"]).all()
    assert (bits(cut["logp"]) == want["logp"]).all()
    assert (bits(cut["grad"]) != want["grad"]).mean() > 0.1


# ---- special values ----------------------------------------------------------------------------

# NaN of three kinds, Inf, zeros, subnormals, the extremes, ones, and what exp just takes to 0.
SPECIALS = {
    "fp32": """
        7fc12345 ffc00001 7f800001 7f800000 ff800000 00000000 80000000 00000001 80000001 007fffff
        807fffff 00800000 7f7fffff ff7fffff 3f800000 bf800000 c2ce8ed0 c2cff1b5 42b17218
    """,
    "bf16": "7fd1 ffc1 7f81 7f80 ff80 0000 8000 0001 8001 007f 0080 7f7f ff7f 3f80 bf80 c2cf",
    "fp16": "7e11 fe01 7c01 7c00 fc00 0000 8000 0001 8001 03ff 0400 7bff fbff 3c00 bc00 d678",
}


def specials(dtype: str) -> np.ndarray:
    kind = np.uint32 if dtype == "fp32" else np.uint16
    return np.array([int(text, 16) for text in SPECIALS[dtype].split()], kind)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("vocab", [1, 2, 65, 200])
def test_special_values(arch, dtype, vocab):
    """Rows of one value, one among ordinary ones (at the target and elsewhere), any mixture; and
    special upstream gradients."""
    values = specials(dtype)
    count = len(values)
    constant = np.repeat(values[:, None], vocab, 1)
    ordinary = bits(kit.draw(count, vocab, dtype, seed=2).logits)
    lone = ordinary.copy()
    lone[np.arange(count), np.arange(count) % vocab] = values
    mixed = np.random.default_rng(vocab).choice(values, (2 * count, vocab))
    logits = from_bits(np.concatenate([constant, lone, lone, mixed]), dtype)
    rows = len(logits)
    target = torch.arange(rows) % count % vocab
    target[2 * count : 3 * count] = (target[2 * count : 3 * count] + 1) % vocab
    target[::11] = -100
    upstream = np.resize(specials("fp32"), rows)
    batch = kit.Batch(
        logits, target, from_bits(upstream, "fp32"), from_bits(upstream[::-1].copy(), "fp32")
    )
    for plain in (batch, batch._replace(grad_logp=torch.ones(rows), grad_lse=torch.zeros(rows))):
        run = kit.Launched(kit.kernel(64, arch))
        assert_equals_the_model(run, plain, arch=arch, tile=64)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tile", [64, 4096])
def test_hard_sums(arch, dtype, tile):
    """Case 5: cancellation, outlier channels, linspace(-100, 100), constants."""
    vocab = 4160  # a ragged tile of 4096, whole ones of 64
    g = torch.Generator().manual_seed(1)
    outliers = torch.randn(2, vocab, generator=g)
    outliers[:, [7, 100, 2111]] *= 500
    big = 1e20 if dtype != "fp16" else 6e4
    rows = [
        torch.tensor([big, 3, -big, 7]).repeat(vocab // 4),
        torch.tensor([3.0, -3, 5, 7]).repeat(vocab // 4),
        *outliers,
        torch.linspace(-100, 100, vocab),
        torch.linspace(100, -100, vocab),
        torch.full((vocab,), 0.1),
        torch.full((vocab,), -0.0),
    ]
    logits = torch.stack(rows).to(DTYPES[dtype])
    drawn = kit.draw(len(rows), vocab)
    target = logits.argmax(-1)
    target[1::2] = drawn.target[1::2]
    batch = drawn._replace(logits=logits, target=target)
    run = kit.Launched(kit.kernel(tile, arch))
    assert_equals_the_model(run, batch, arch=arch, tile=tile)
    got = run(batch)
    assert all(t.isfinite().all() for t in got.values())
    # A constant row is uniform: every term is 1, and their sum, 4160, exact in any order.
    assert got["lse"][7] == torch.tensor(4160.0).log() and (got["logp"][6:] == -got["lse"][7]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_as_log_softmax_where_a_row_has_no_ordinary_answer(dtype):
    """NaN and Inf: NaN where torch.log_softmax has NaN, -inf where it has -inf."""
    inf, nan = float("inf"), float("nan")
    rows = [[0, 1, nan], [nan] * 3, [inf, 0, 1], [inf, inf, 0], [-inf] * 3, [-inf, 0, 1],
            [0, -inf, -inf], [1, inf, -inf], [60000, -60000, 0]]  # fmt: skip
    logits = torch.tensor(rows).to(DTYPES[dtype])
    run = kit.Launched(kit.kernel(64))
    for token in range(3):
        batch = kit.Batch(
            logits, torch.full((9,), token), torch.ones(len(rows)), torch.zeros(len(rows))
        )
        got = run(batch)["logp"]
        want = torch.log_softmax(logits.float(), -1)[:, token]
        assert torch.equal(got.isnan(), want.isnan())
        assert torch.equal(got.isneginf(), want.isneginf())
        assert torch.equal(got == 0, want == 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_logit_has_probability_one(dtype):
    """V = 1: logp is +0, not -0, and its gradient +0, for every finite logit."""
    values = specials(dtype)
    values = values[np.isfinite(ascend_numpy.widen(values, dtype))]
    batch = kit.Batch(
        from_bits(values[:, None], dtype), torch.zeros(len(values), dtype=torch.int64),
        torch.ones(len(values)), torch.zeros(len(values)),
    )  # fmt: skip
    got = kit.Launched(kit.kernel(64))(batch)
    assert len(values) > 9 and not bits(got["logp"]).any()
    assert (got["lse"] == batch.logits[:, 0].float()).all()
    assert not got["grad"].any()


@pytest.mark.parametrize("arch", ARCHS)
def test_what_is_not_documented_of_sums_does_not_matter(arch):
    """No term is negative, so masked lanes and the start of the accumulator cannot show."""
    batch = kit.draw(40, 1000, seed=6, scale=40.0)
    plain = kit.Launched(kit.kernel(64, arch))(batch)
    for lanes in ("zero", "skip"):
        for start in ("zero", "first"):
            switches = (("masked_lanes", lanes), ("accumulator_start", start))
            other = kit.Launched(kit.kernel(64, arch, switches))(batch)
            for name in kit.OUTPUTS:
                assert (bits(other[name]) == bits(plain[name])).all()


# ---- targets, blocks, sizes ----------------------------------------------------------------------


def test_targets_of_64_bits():
    """Both words of a target count: neither is one of them enough to be inside or ignored."""
    vocab = 70
    targets = [2**32, 2**32 + 5, -(2**32), -(2**63), 2**63 - 1, 2**31, -100, 2**32 - 100, 69, 70]
    targets += [-(2**32) - 100 + 2**33]
    batch = kit.draw(len(targets), vocab)._replace(target=torch.tensor(targets))
    run = kit.Launched(kit.kernel(64))
    got = run(batch)["logp"]
    assert_equals_the_model(run, batch, arch="dav-2201", tile=64)
    nan = got.isnan().tolist()
    assert nan == [t not in (-100, 69) for t in targets] and got[6] == 0 and got[8] < 0
    for ignored in (-1, 3, 2**40, -(2**63)):
        at = batch._replace(target=torch.full_like(batch.target, ignored))
        run = kit.Launched(kit.kernel(64), ignored)
        assert not any(bits(t).any() for t in run(at).values())
        assert_equals_the_model(run, batch, arch="dav-2201", tile=64)


def test_ignored_and_outside_rows_are_not_read():
    """Their logits are all NaN: an ignored row is +0 all the same, one outside reads no other."""
    batch = kit.draw(4, 300)
    batch.logits[1:3] = float("nan")
    batch.target[1], batch.target[2] = -100, 300
    got = kit.Launched(kit.kernel(64))(batch, poison=True)
    assert not any(bits(got[name][1]).any() for name in kit.OUTPUTS)
    assert all((bits(got[name][2]) == NAN["fp32"]).all() for name in kit.OUTPUTS)
    assert got["logp"][[0, 3]].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_chosen_blocks_write_their_rows_and_nothing_else(dtype):
    batch = batch_of(300, dtype, rows=11)
    run = kit.Launched(kit.kernel(64))
    whole = run(batch)
    some = run(batch, blocks=5, block_ids=[1, 3], poison=True)
    untouched = torch.arange(11) % 5
    mine = ((untouched == 1) | (untouched == 3)).numpy()
    for name in kit.OUTPUTS:
        assert (bits(some[name])[mine] == bits(whole[name])[mine]).all()
        assert (bits(some[name])[~mine] == POISON[some[name].element_size()]).all()


def test_more_than_2_to_the_32_logits():
    """The place of a row is counted in 64 bits: the last rows of 70000 x 65537, lazily mapped."""
    rows, vocab = 70000, 65537
    total = rows * vocab
    assert total > 2**32
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    maps = [mmap.mmap(-1, 2 * total, flags=flags) for _ in range(2)]
    for memory in maps:
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            memory.madvise(mmap.MADV_NOHUGEPAGE)  # else a few rows would touch all of it
    logits, out = (torch.frombuffer(m, dtype=torch.float16).view(rows, vocab) for m in maps)
    assert logits.data_ptr() == ctypes.addressof(ctypes.c_char.from_buffer(maps[0]))
    try:
        chosen = [rows - 1, 3]
        few = kit.draw(2, vocab, "fp16", seed=9)
        few.target[1] = 70
        logits[chosen] = few.logits
        target = torch.zeros(rows, dtype=torch.int64)
        target[chosen] = few.target
        want = kit.expected(few, arch="dav-2201", tile=64)
        kernel = kit.kernel(64)
        logp, lse, up, down = (torch.zeros(rows) for _ in range(4))
        kernel(logits, target, out=(logp, lse), blocks=35000, block_ids=[34999, 3])
        up[chosen], down[chosen] = few.grad_logp, few.grad_lse
        # Of block 34999 the last row only: its first one has logits 0.
        kernel.grad(logits, target, lse, up, down, out=out, blocks=35000, block_ids=[34999, 3])
        assert (bits(lse[chosen]) == want["lse"]).all()
        assert (bits(logp[chosen]) == want["logp"]).all()
        assert (bits(out[rows - 1]) == want["grad"][0]).all()
        assert (bits(out[3]) == want["grad"][1]).all()
        assert not out[rows - 2].any()
        # Control: a place that wraps around at 2^32 holds other logits.
        wrapped = ((rows - 1) * vocab - 2**32) // vocab
        assert (bits(logits[wrapped]) != bits(few.logits[0])).any()
    finally:
        del logits, out


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_spec_repeats_the_buffers(arch, tile, dtype):
    """The larger need of the two kernels is what the spec says."""
    tile = tile_of(tile, arch, dtype)
    kernel = kit.kernel(tile, arch)
    batch = kit.draw(1, 5, dtype)
    _, lse = kernel(batch.logits, batch.target)
    forward = kernel.last_ub_bytes
    kernel.grad(batch.logits, batch.target, lse, batch.grad_logp, batch.grad_lse)
    assert max(forward, kernel.last_ub_bytes) == spec(kit.OP).ub_bytes(dtype, kernel.config)


# ---- approximate instructions --------------------------------------------------------------------


def test_a_perturbed_exp_or_ln_moves_bits_but_not_invariance():
    """perturb= moves results of Exp and Ln by an ulp as a function of the seed and the value, so
    what is invariant stays so for every seed."""
    batch = kit.draw(33, 300)
    batch.target[5] = -100
    run = kit.Launched(kit.kernel(64))
    plain = bits(run(batch)["lse"])
    for seed in (1, 2, 3):

        def moved(b, seed=seed, **options):
            return run(b, perturb=seed, **options)

        assert (bits(moved(batch)["lse"]) != plain).any()
        assert kit.broken(moved, batch, transforms="T1235") == {}
    flawed = kit.flawed("sum_by_block_id")

    def moved_flawed(b, **options):
        return flawed(b, perturb=1, **options)

    assert "T5" in kit.broken(moved_flawed, batch, transforms="T5")  # the control
    assert run.kernel.last.fidelity == "approximate"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_batch_equals_the_model(data):
    arch, dtype = data.draw(st.sampled_from(ARCHS)), data.draw(st.sampled_from(list(DTYPES)))
    tile = data.draw(st.sampled_from([64, 4096]))
    rows, vocab = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 700))
    seed, scale = data.draw(st.integers(0, 2**31)), data.draw(st.sampled_from([0.0, 1.0, 50.0]))
    batch = kit.draw(rows, vocab, dtype, seed, scale)
    ignore = data.draw(st.sampled_from([-100, -1, 0, vocab - 1]))
    wild = data.draw(st.lists(st.integers(-2, vocab + 1), min_size=rows, max_size=rows))
    batch = batch._replace(target=torch.tensor(wild))
    run = kit.Launched(kit.kernel(tile, arch), ignore)
    blocks = data.draw(st.integers(1, 9))
    assert_equals_the_model(run, batch, arch=arch, tile=tile, blocks=blocks, poison=True)


def test_the_model_is_not_the_kernel():
    """The comparison above can fail: a model with another rule of ignoring disagrees."""
    batch = batch_of(64, "fp32")
    got = bits(kit.Launched(kit.kernel(64))(batch)["logp"])
    logits, target = bits(batch.logits), batch.target.numpy()
    same = logp_numpy.forward(logits, target, tile=64)[0]
    other = logp_numpy.forward(logits, target, tile=64, ignore_index=-1)[0]
    assert (got == same).all() and (got != other).sum() == 2
