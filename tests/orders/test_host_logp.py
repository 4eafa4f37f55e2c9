"""The log-probability on the host: raw bits against the kernel on the twin and the numpy model."""

from __future__ import annotations

import ctypes

import logp_kit as kit
import numpy as np
import pytest
import torch
from helpers import ARCHS, DTYPES, bits, from_bits
from models import ascend_numpy, logp_numpy

import workbench as wb
from workbench.build import compiler
from workbench.errors import ConfigError, InputError
from workbench.orders import host
from workbench.orders.logp import logp

VOCABS = (1, 7, 8, 9, 63, 64, 65, 200, 257, 1000, 4097, 10000)


def config(tile: int = 64, arch: str = "dav-2201", **more) -> wb.KernelConfig:
    return wb.KernelConfig(tile_length=tile, arch=arch, **more)


def assert_equal(got, want, what="") -> None:
    for name, a, b in zip(("logp", "lse"), got, want, strict=True):
        np.testing.assert_array_equal(bits(a), b if isinstance(b, np.ndarray) else bits(b), what)
        assert a.dtype == torch.float32, name


def batch(vocab: int, dtype: str, scale: float = 4.0) -> kit.Batch:
    """Row 2 ignored, rows 3 and 4 outside; NaN, +inf, -inf and only -inf among the logits."""
    drawn = kit.draw(10, vocab, dtype, seed=vocab, scale=scale)
    drawn.target[2:5] = torch.tensor([-100, vocab, -1])
    drawn.logits[5, vocab // 2] = float("nan")
    drawn.logits[6, vocab // 3] = float("inf")
    drawn.logits[7] = -float("inf")
    drawn.logits[8, vocab - 1] = -float("inf")
    return drawn


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("tile", [64, 128, 192, 256, 960, 4096])
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_the_twin(arch, tile, dtype):
    run = kit.kernel(tile, arch)
    for number, vocab in enumerate(VOCABS):
        drawn = batch(vocab, dtype, scale=(1.0, 4.0, 60.0)[number % 3])
        want = run(drawn.logits, drawn.target, validate=False)
        for threads in (1, 3):
            got = logp(
                drawn.logits, drawn.target, config(tile, arch), validate=False, threads=threads
            )
            assert_equal(got, want, f"V={vocab}")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_equals_the_model(arch, dtype):
    for vocab in (1, 65, 700):
        drawn = batch(vocab, dtype)
        given = bits(drawn.logits), drawn.target.numpy()
        want = logp_numpy.forward(*given, dtype=dtype, arch=arch, tile=256)
        got = logp(drawn.logits, drawn.target, config(256, arch), validate=False)
        assert_equal(got, want, f"V={vocab}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_bit_patterns_equal_the_model(dtype):
    rng = np.random.default_rng(5)
    kind = np.uint32 if dtype == "fp32" else np.uint16
    pattern = rng.integers(0, np.iinfo(kind).max, (40, 9), kind, endpoint=True)
    target = torch.from_numpy(rng.integers(0, 9, 40))
    want = logp_numpy.forward(pattern, target.numpy(), dtype=dtype, tile=64)
    assert_equal(logp(from_bits(pattern, dtype), target, config()), want)
    assert (want[0] == ascend_numpy.NAN32).any() and (want[0] != ascend_numpy.NAN32).any()


def test_control_another_order_would_be_seen():
    drawn = kit.draw(40, 10000, "fp32", seed=1, scale=1.0)
    seen = {
        bits(logp(drawn.logits, drawn.target, config(tile, arch))[1]).tobytes()
        for arch in ARCHS
        for tile in (64, 256, 1024)
    }
    assert len(seen) == 6 - 1  # at tile 64 every method is the same


# ---- Exp and Ln ----------------------------------------------------------------------------------


def called(library: ctypes.CDLL, name: str, x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    function = getattr(library, name)
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    function.restype = None
    function(x.ctypes.data, out.ctypes.data, len(x))
    return ascend_numpy.bits32(ascend_numpy.canonical(out))


@pytest.fixture(scope="module")
def hard() -> np.ndarray:
    """x for which e^x is within 2^-36 of the middle between two fp32 numbers."""
    rng = np.random.default_rng(9)
    x = (rng.uniform(-80, 0, 1 << 21) * rng.choice([1, 2.0**-4, 2.0**-9], 1 << 21)).astype(
        np.float32
    )
    below = np.exp(x.astype(np.float64)).view(np.int64) & ((1 << 29) - 1)  # under fp32's last bit
    near = x[np.abs(below - (1 << 28)) < 1 << 16]
    assert len(near) > 300
    return near


def test_exp_is_correctly_rounded(hard):
    library, rng = host.library("logp.cpp"), np.random.default_rng(2)
    usual = np.concatenate([rng.uniform(-110, 0, 20001), -(2.0 ** rng.uniform(-149, 7, 5000))])
    edges = [0.0, -0.0, -np.inf, np.nan, -103.97, -103.98, -87.33, -87.34, -1e30, -(2.0**-149)]
    for x in (hard, usual.astype(np.float32), np.array(edges, np.float32)):
        want = ascend_numpy.bits32(logp_numpy.exp(x))
        np.testing.assert_array_equal(called(library, "order_exp", x), want)


def test_control_the_hard_cases_need_the_second_way(hard, tmp_path):
    for path in host.FOLDER.glob("*"):
        text = path.read_text()
        if path.name == "logp_math.h":
            assert text.count("__builtin_expect(any != 0, 0)") == 1
            text = text.replace("__builtin_expect(any != 0, 0)", "false && any != 0")
        (tmp_path / path.name).write_text(text)
    cxx = compiler.find_cxx()
    library = ctypes.CDLL(str(host.compiled(tmp_path / "logp.cpp", cxx)))
    want = ascend_numpy.bits32(logp_numpy.exp(hard))
    assert (called(library, "order_exp", hard) != want).any()


def test_ln_is_correctly_rounded():
    rng = np.random.default_rng(4)
    x = np.concatenate(
        [
            rng.integers(1, 0x7F800000, 3000).astype(np.uint32).view(np.float32),  # all exponents
            (1 + rng.integers(-3000, 3000, 1000) * 2.0**-24).astype(np.float32),
            rng.uniform(1, 200000, 3000).astype(np.float32),
            np.array([0.0, -0.0, -1.0, np.inf, np.nan, 1.0, 2.0**-149], np.float32),
        ]
    )
    want = ascend_numpy.bits32(logp_numpy.ln(x))
    np.testing.assert_array_equal(called(host.library("logp.cpp"), "order_ln", x), want)


# ---- the caller's surroundings -------------------------------------------------------------------


def test_flush_to_zero_in_the_caller_changes_nothing():
    logits, target = torch.full((2, 1), 1e-40), torch.tensor([0, 0])
    want = logp(logits, target, config())
    assert (bits(want[1]) == bits(logits)[:, 0]).all() and bits(want[1]).all()  # subnormal
    torch.set_flush_denormal(True)
    try:
        got = [logp(logits, target, config(), threads=t) for t in (1, 2)]
    finally:
        torch.set_flush_denormal(False)
    for found in got:
        assert_equal(found, want)


def test_strides_dimensions_and_ignored_rows():
    drawn = kit.draw(6, 300, "bf16", seed=3)
    want = logp(drawn.logits, drawn.target, config())
    assert_equal(logp(drawn.logits.T.contiguous().T, drawn.target.int(), config()), want)
    shaped = logp(drawn.logits.view(2, 3, 300), drawn.target.view(2, 3), config())
    assert_equal([t.view(6) for t in shaped], want)
    every = torch.full((6,), 7)
    assert not any(t.any() for t in logp(drawn.logits, every, config(), ignore_index=7))
    assert logp(torch.ones(0, 5), torch.ones(0, dtype=torch.int64))[0].shape == (0,)
    run = kit.kernel(256, "dav-3510")
    assert_equal(logp(drawn.logits, drawn.target, run), run(drawn.logits, drawn.target))


def test_refusals():
    logits, target = torch.ones(2, 8), torch.tensor([0, 8])
    for error, text, arguments, options in (
        (InputError, "outside", (logits, target), {}),
        (InputError, "one target", (logits, target[:1]), {}),
        (InputError, "on the CPU", (logits.to("meta"), target.to("meta")), {}),
        (InputError, "positive integer", (logits, target), {"threads": -1}),
        (ConfigError, "bytes of UB", (logits, target, config(1 << 20)), {}),
        (ConfigError, "KernelConfig", (logits, target, "tile 64"), {}),
    ):
        with pytest.raises(error, match=text):
            logp(*arguments, **options)
