"""The high-level API against the documented formulas in double precision, written again here.

Functions whose result is one rounding are compared as bits, with one ulp allowed where the
reference itself (numpy in double) may be off; activations, softmax and norms round at every step,
and the formula itself says how far that may lead (roundings.py).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from roundings import Rounded, exp, worst

import workbench as wb

ASC = Path(__file__).parent / "asc" / "high_level.asc"
DTYPES = {"float": torch.float32, "half": torch.float16}
N = 512


@pytest.fixture(scope="module", params=list(DTYPES))
def built(request):
    config = wb.KernelConfig()
    kernel = wb.build(ASC, config, backend="twin", defines={"ELEMENT": request.param})
    return kernel, DTYPES[request.param]


def _each(f):
    def one(x: float) -> float:
        try:
            return f(x)
        except (ValueError, OverflowError):
            return math.nan

    return np.vectorize(one, otypes=[np.float64])


def _gelu(x):
    return x / (1 + exp(-1.59576912 * (x + 0.044715 * (x * x * x))))


def _fast_v2(x):
    d = (x.abs() * (1 / math.sqrt(2))).minimum(1.769) - 1.769
    half = -0.1444 * (d * d) + 0.5
    signed = Rounded(x.sign() * half.value, x.dtype, half.off)
    return x * (signed + 0.5)


def _power(x, y):
    return np.power(x, y)


# number in the kernel: (f(x, z), "bits" | "ulp" | "formula")
MATH = {
    0: (lambda x, z: np.log(x), "ulp"),
    1: (lambda x, z: np.log2(x), "ulp"),
    2: (lambda x, z: np.log10(x), "ulp"),
    3: (lambda x, z: np.sin(x), "ulp"),
    4: (lambda x, z: np.cos(x), "ulp"),
    5: (lambda x, z: np.tan(x), "ulp"),
    6: (lambda x, z: np.arcsin(x), "ulp"),
    7: (lambda x, z: np.arccos(x), "ulp"),
    8: (lambda x, z: np.arctan(x), "ulp"),
    9: (lambda x, z: np.sinh(x), "ulp"),
    10: (lambda x, z: np.cosh(x), "ulp"),
    11: (lambda x, z: np.tanh(x), "ulp"),
    12: (lambda x, z: np.arcsinh(x), "ulp"),
    13: (lambda x, z: np.arccosh(x), "ulp"),
    14: (lambda x, z: np.arctanh(x), "ulp"),
    15: (lambda x, z: _each(math.erf)(x), "ulp"),
    16: (lambda x, z: _each(math.erfc)(x), "ulp"),
    17: (lambda x, z: np.ceil(x), "bits"),
    18: (lambda x, z: np.floor(x), "bits"),
    19: (lambda x, z: np.rint(x), "bits"),
    20: (lambda x, z: np.trunc(x), "bits"),
    21: (lambda x, z: x - np.trunc(x), "bits"),
    22: (lambda x, z: np.where(np.isnan(x), x, np.sign(x) + 0.0), "bits"),
    23: (lambda x, z: 1 / (1 + exp(-x)), "formula"),
    24: (lambda x, z: x / (1 + exp(-x)), "formula"),
    25: (lambda x, z: _gelu(x), "formula"),
    26: (lambda x, z: x / (1 + exp(-1.702 * x)), "formula"),
    27: (lambda x, z: _fast_v2(x), "formula"),
    28: (lambda x, z: x / (1 + exp(-1.703125 * x)), "formula"),
    29: (lambda x, z: np.where(x > 0.5, 0.5, x), "bits"),
    30: (lambda x, z: np.where(x < -0.5, -0.5, x), "bits"),
    31: (lambda x, z: np.fmod(x, z), "bits"),
    32: (lambda x, z: _power(x, z), "ulp"),
    33: (lambda x, z: _power(x, 2.5), "ulp"),
    34: (lambda x, z: _power(2.0, x), "ulp"),
    35: (lambda x, z: x * _gelu(z), "formula"),
    36: (lambda x, z: x * np.maximum(z, 0), "bits"),
    37: (lambda x, z: x * z / (1 + exp(-1.25 * z)), "formula"),
    38: (lambda x, z: np.exp(x), "ulp"),
}


def _inputs(dtype: torch.dtype, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(N, generator=g, dtype=torch.float64) * 1.5
    x[:12] = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1.5, 4.0, -4.0, 0.25, 8.0])
    return x.to(dtype)


def _ints(t: torch.Tensor) -> np.ndarray:
    """Bits as integers in the order of the numbers."""
    bits = t.numpy().view({2: np.int16, 4: np.int32}[t.element_size()]).astype(np.int64)
    return np.where(bits < 0, -(bits & (2 ** (8 * t.element_size() - 1) - 1)), bits)


@pytest.mark.parametrize("which", MATH)
def test_elementwise(built, which: int) -> None:
    kernel, dtype = built
    f, kind = MATH[which]
    x, z = _inputs(dtype, 1), _inputs(dtype, 2)
    y = torch.full((N,), -77.0, dtype=dtype)
    kernel.launch("math", 1, x, z, y, N, which, check=True)
    if kind == "formula":
        _close(y, f(_single(x.double()), _single(z.double())), dtype)
        return
    with np.errstate(all="ignore"):
        want64 = f(x.double().numpy(), z.double().numpy())
    want = torch.from_numpy(want64).to(dtype)
    nan = torch.isnan(want)
    assert torch.equal(torch.isnan(y), nan)
    off = np.abs(_ints(y) - _ints(want))[~nan.numpy()]
    assert off.max() <= (0 if kind == "bits" else 1)
    assert (off != 0).mean() <= 0.01


def test_basic_and_high_level_exponentials_are_one(built) -> None:
    kernel, dtype = built
    x = _inputs(dtype, 3)
    results = []
    for which in (38, 39, 0, 40):  # Exp with a level, Exp; Log, Ln
        y = torch.zeros(N, dtype=dtype)
        kernel.launch("math", 1, x, x, y, N, which)
        results.append(y.view(torch.int16).tolist())
    assert results[0] == results[1] and results[2] == results[3]
    assert results[0] != results[2]


def test_approximate_results_move_by_an_ulp_and_exact_ones_do_not(built) -> None:
    kernel, dtype = built
    x = _inputs(dtype, 4)
    for which, moves in ((3, True), (23, True), (38, True), (17, False), (29, False)):
        y, moved = torch.zeros(N, dtype=dtype), torch.zeros(N, dtype=dtype)
        kernel.launch("math", 1, x, x, y, N, which)
        kernel.launch("math", 1, x, x, moved, N, which, perturb=7)
        off = np.abs(_ints(y) - _ints(moved))
        assert off.max() == moves


M, K, WIDTH = 5, 23, 32


def _rows(built, which: int, **changed):
    kernel, dtype = built
    g = torch.Generator().manual_seed(which)
    x = torch.randn(M, WIDTH, generator=g).to(dtype)
    gamma = torch.randn(2, WIDTH, generator=g).to(dtype)
    per = 32 // x.element_size()
    y = torch.zeros(M * WIDTH * 2, dtype=dtype)
    s = torch.zeros(2, M, per, dtype=dtype)
    kernel.launch("rows", 1, x, gamma, y, s, M, changed.get("k", K), WIDTH, which, check=True)
    return x.double().numpy(), gamma.double().numpy(), y, s, dtype


def _close(got: torch.Tensor, want: Rounded, dtype: torch.dtype) -> None:
    """Within the bound of arithmetic in fp32 and one rounding to the dtype."""
    assert worst(got, want.to(dtype)) <= 1


def _single(values) -> Rounded:
    return Rounded(values, torch.float32)


def test_sums_and_means(built) -> None:
    for which in (0, 1):
        x, _, _, s, dtype = _rows(built, which)
        # Sum adds in the dtype, Mean<T, float> in fp32.
        want = Rounded(x[:, :K], dtype).sum(1) if which == 0 else _single(x[:, :K]).mean(1)
        _close(s[0].flatten()[:M, None], want, dtype)
        assert (s[0].flatten()[M:] == 0).all()  # one element a row, and no more


def test_sum_is_the_tree_of_reduce_sum(built) -> None:
    kernel, dtype = built
    # Adjacent pairs lose every 1; summed in single precision the halves keep theirs.
    big = {torch.float32: 1e8, torch.float16: 8192.0}[dtype]
    x = torch.tensor([big, 1.0, -big, 1.0] * 8, dtype=dtype)
    y, s = torch.zeros(64, dtype=dtype), torch.zeros(64, dtype=dtype)
    kernel.launch("rows", 1, x, torch.zeros(64, dtype=dtype), y, s, 1, 32, 32, 0)
    assert s[0].item() == 0.0
    kernel.launch("rows", 1, x, torch.zeros(64, dtype=dtype), y, s, 1, 32, 32, 1)
    assert s[0].item() == {torch.float32: 0.0, torch.float16: 0.5}[dtype]  # Mean<T, float>


def _softmax(x, stored=torch.float32):
    """Softmax and its sums, which stand in `stored` before they divide."""
    wide = _single(x)
    e = (wide - wide.max(1)).exp()
    return e / e.sum(1).to(stored).to(torch.float32), e.sum(1)


def test_softmax_and_relatives(built) -> None:
    for which in (2, 3, 4):
        x, _, y, s, dtype = _rows(built, which)
        want, sums = _softmax(x[:, :K], dtype if which == 4 else torch.float32)
        got = y[: M * WIDTH].view(M, WIDTH)
        _close(got[:, :K], want.log10() if which == 3 else want, dtype)
        assert (got[:, K:] == 0).all()  # the padding is left alone
        per = s.shape[2]
        _close(s[0], sums[np.arange(M)[:, None], np.zeros(per, int)], dtype)
        assert (s[1].double().numpy() == x[:, :K].max(1, keepdims=True)).all()
    x, _, y, s, dtype = _rows(built, 5)  # the shape from the tiling: whole rows
    _close(y[: M * WIDTH].view(M, WIDTH), _softmax(x)[0], dtype)


def test_norms(built) -> None:
    x, g, y, _, dtype = _rows(built, 6)
    x, got = _single(x[:, :K]), y[: M * WIDTH].view(M, WIDTH)[:, :K]
    epsilon = float(torch.tensor(1e-3).to(dtype))  # the kernel has it in its own type
    _close(got, x / ((x * x).mean(1) + epsilon).sqrt() * _single(g[0, :K]), dtype)
    x, g, y, s, dtype = _rows(built, 7)
    x, got = _single(x[:, :K]), y[: M * WIDTH].view(M, WIDTH)[:, :K]
    mean = (x * (1 / K)).sum(1)
    off = x - mean
    var = (off * off * (1 / K)).sum(1)
    factor = ((var + epsilon).log() * -0.5).exp()  # documented so
    _close(got, off * factor * _single(g[0, :K]) + _single(g[1, :K]), dtype)
    _close(s[0].flatten()[:M, None], mean, dtype)
    _close(s[1].flatten()[:M, None], var, dtype)


def test_cumulative_sums(built) -> None:
    x, _, y, s, dtype = _rows(built, 9)
    got = y[: M * WIDTH].view(M, WIDTH)
    for row in range(M):
        _close(got[row : row + 1], _single(x[: row + 1]).sum(0), dtype)
    x, _, y, s, dtype = _rows(built, 8)
    for end in range(1, WIDTH + 1):
        _close(y[end - 1 : end], _single(x[0, :end]).sum(0), dtype)
    assert torch.equal(s[0].flatten()[:WIDTH], y[:WIDTH])  # the last row again


def test_shapes_move_bits(built) -> None:
    x, _, y, _, _ = _rows(built, 10)
    assert (y[: M * WIDTH].view(M, WIDTH).double().numpy() == x[0]).all()
    x, _, y, _, _ = _rows(built, 11)
    assert (y[: 2 * M].view(M, 2).double().numpy() == x.flatten()[:M, None]).all()
    x, _, y, _, _ = _rows(built, 12)
    per = 32 // y.element_size()
    stride = -(-(K + 3) // per) * per
    got = y[: M * stride].view(M, stride).double().numpy()
    assert (got[:, 1 : K + 1] == x[:, :K]).all()
    assert (got[:, 0] == 7).all() and (got[:, K + 1 : K + 3] == 7).all()
    x, _, y, _, _ = _rows(built, 13)
    assert (y[: M * K].view(M, K).double().numpy() == x[:, :K]).all()
    x, _, y, _, _ = _rows(built, 14)
    index = np.arange(M)[:, None] * (WIDTH + 32) + np.arange(WIDTH)
    got = y[: M * WIDTH].view(M, WIDTH).double().numpy()
    assert (got == np.where(index % 3 == 0, x, -1.0)).all()


def test_adjusted_softmax(built) -> None:
    _, _, y, s, _ = _rows(built, 15)
    got = y[: M * WIDTH].view(M, WIDTH)
    assert s[0, 0, 0] == 1.0 and (got[1] == 5).all()
    assert (got[0] != 5).all() and (got[2:] != 5).all()


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_top_k(built, mode: int, largest: int) -> None:
    kernel, dtype = built
    n, k = 27, 5
    g = torch.Generator().manual_seed(mode)
    x = torch.randint(-9, 9, (M, 32), generator=g).to(dtype)  # with many ties
    y, index = torch.zeros(M * 32, dtype=dtype), torch.zeros(M * 32, dtype=torch.int32)
    kernel.launch("topk", 1, x, y, index, M, n, k, largest, mode, check=True)
    keys = x[:, :n].double().numpy() * (-1 if largest else 1)
    order = np.argsort(keys, axis=1, kind="stable")[:, :k]
    per = 32 // x.element_size()
    stride, index_stride = (k, k) if mode == 1 else (-(-k // per) * per, 8)
    got = y[: M * stride].view(M, stride)[:, :k]
    assert (got.double().numpy() == np.take_along_axis(x.double().numpy(), order, 1)).all()
    want = order.copy()
    if mode == 2:
        want += 1000
        want[1] = n  # the row that is finished
    assert (index[: M * index_stride].view(M, index_stride)[:, :k].numpy() == want).all()


def test_shapes_that_do_not_fit_are_faults(built) -> None:
    kernel, dtype = built
    x, y = torch.zeros(M, 32, dtype=dtype), torch.zeros(M * 64, dtype=dtype)
    index = torch.zeros(M * 32, dtype=torch.int32)
    with pytest.raises(wb.TwinFault, match="TopK with k 28; a row of 27 elements") as caught:
        kernel.launch("topk", 1, x, y, index, M, 27, 28, 1, 0)
    assert (caught.value.kind, caught.value.code) == ("mem", "shape")
    with pytest.raises(wb.TwinFault, match="rows of 33 elements, which are only 32 apart"):
        kernel.launch("rows", 1, x, y, y, y, M, 33, 32, 0)
