"""The numpy model against third parties: numpy's own half, tables of all values, exact fractions,
a recursive scalar reading of the sums, and the answers of the ten probes as documented."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from . import ascend_numpy as model

ALL16 = np.arange(1 << 16, dtype=np.uint16)
INF, NAN = float("inf"), float("nan")
F32 = np.float32


def same_bits(a, b) -> None:
    np.testing.assert_array_equal(np.asarray(a, F32).view("u4"), np.asarray(b, F32).view("u4"))


def wild(shape, seed: int, spread: float = 12.0) -> np.ndarray:
    """float32 whose magnitudes span about 2**-spread .. 2**spread: every association shows."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal(shape) * 2.0 ** rng.uniform(-spread, spread, shape)).astype(F32)


# --- casts ----------------------------------------------------------------------------------------


def table(fmt: str) -> tuple[np.ndarray, np.ndarray]:
    """Finite values of a 16-bit format as float64, ascending from -max to +max, and their bits."""
    fraction, bias = {"fp16": (10, 15), "bf16": (7, 127)}[fmt]
    top = (0x7FFF >> fraction) << fraction
    code = np.arange(top)
    exponent, mantissa = code >> fraction, code & ((1 << fraction) - 1)
    leading = np.where(exponent > 0, 1 << fraction, 0)
    value = np.ldexp((mantissa + leading).astype(float), np.maximum(exponent, 1) - bias - fraction)
    return np.concatenate([-value[:0:-1], value]), np.concatenate([code[:0:-1] | 0x8000, code])


def by_table(x: np.ndarray, fmt: str, mode: str) -> np.ndarray:
    """Finite float32 inside the finite range -> bits, by looking up the two neighbours."""
    values, bits = table(fmt)
    v = x.astype(np.float64)
    low = np.searchsorted(values, v, side="right") - 1
    high = np.searchsorted(values, v, side="left")
    to_low, to_high = v - values[low], values[high] - v
    nearest = np.where(to_low < to_high, low, high)
    tie = (to_low == to_high) & (low != high)
    even, odd = np.where(bits[low] & 1, high, low), np.where(bits[low] & 1, low, high)
    away, inner = np.where(v < 0, low, high), np.where(v < 0, high, low)
    pick = {
        "FLOOR": low,
        "CEIL": high,
        "TRUNC": inner,
        "RINT": np.where(tie, even, nearest),
        "NONE": np.where(tie, even, nearest),
        "ROUND": np.where(tie, away, nearest),
        "ODD": np.where(low == high, low, odd),
    }[mode]
    # The sign of a zero result is that of the input.
    return (bits[pick] & 0x7FFF) | np.where(np.signbit(x), 0x8000, 0)


def around(fmt: str, seed: int) -> np.ndarray:
    """float32 in range: every value of the format, the midpoints, one ulp around both, random."""
    values, _ = table(fmt)
    middle = (values[:-1] + values[1:]) / 2
    points = np.concatenate([values, middle]).astype(F32)
    beside = [np.nextafter(points, F32(s)) for s in (INF, -INF)]
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, 300_000, dtype=np.uint32).view(F32)
    tiny = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 2.0**-126, -(2.0**-126)], F32)
    x = np.concatenate([points, *beside, bits, wild(100_000, seed), tiny])
    x = x[np.isfinite(x)]
    return x[np.abs(x.astype(np.float64)) <= values[-1]]


def test_widening_fp16_is_numpys_for_all_patterns():
    ours = model.fp16_to_fp32(ALL16)
    numpys = ALL16.view(np.float16).astype(F32)
    same_bits(ours, model.canonical(numpys))
    assert np.isnan(numpys).sum() == 2 * 1023


def test_widening_bf16_for_all_patterns():
    ours = model.bf16_to_fp32(ALL16)
    values, bits = table("bf16")
    finite = (ALL16 & 0x7F80) != 0x7F80
    expected = np.zeros(1 << 16)
    expected[bits] = values
    np.testing.assert_array_equal(ours[finite].astype(np.float64), expected[finite])
    np.testing.assert_array_equal(np.signbit(ours[finite]), (ALL16 >> 15 == 1)[finite])
    assert ours[0x7F80] == INF and ours[0xFF80] == -INF
    nan = (ALL16 & 0x7FFF) > 0x7F80
    assert (model.bits32(ours)[nan] == model.NAN32).all()


@pytest.mark.parametrize("fmt", ["fp16", "bf16"])
def test_every_pattern_survives_the_round_trip_in_every_mode(fmt):
    up, down = getattr(model, f"{fmt}_to_fp32"), getattr(model, f"fp32_to_{fmt}")
    nan = np.isnan(up(ALL16))
    expected = np.where(nan, {"fp16": 0x7E00, "bf16": 0x7FC0}[fmt], ALL16)
    for mode in model._FORMATS[fmt].modes:
        np.testing.assert_array_equal(down(up(ALL16), mode), expected)


FORMAT_MODES = [(fmt, mode) for fmt in ("fp16", "bf16") for mode in model._FORMATS[fmt].modes]


@pytest.mark.parametrize("fmt, mode", FORMAT_MODES)
def test_narrowing_in_range_is_the_tables(fmt, mode):
    x = around(fmt, seed=5)
    ours = getattr(model, f"fp32_to_{fmt}")(x, mode)
    np.testing.assert_array_equal(ours, by_table(x, fmt, mode))


def test_narrowing_fp16_is_numpys():
    rng = np.random.default_rng(1)
    random = rng.integers(0, 1 << 32, 1_000_000, dtype=np.uint32).view(F32)
    edges = np.array([65504, 65519.996, 65520, 65536, 70000, 1e30, INF, 5.96e-8, 2.0**-25], F32)
    x = np.concatenate([random, around("fp16", 2), edges, -edges])
    with np.errstate(all="ignore"):
        numpys = x.astype(np.float16).view(np.uint16)
    numpys = np.where(np.isnan(x), 0x7E00, numpys)
    for mode in ("RINT", "NONE"):
        np.testing.assert_array_equal(model.fp32_to_fp16(x, mode), numpys)


@pytest.mark.parametrize(
    "fmt, inf, beyond, first_inf",
    [("fp16", 0x7C00, 70000.0, 65520.0), ("bf16", 0x7F80, 2.0**128 - 2.0**104, 511 * 2.0**119)],
)
def test_narrowing_beyond_the_range(fmt, inf, beyond, first_inf):
    down = getattr(model, f"fp32_to_{fmt}")
    beyond, first_inf = F32(beyond), F32(first_inf)  # the latter: halfway to the next binade
    last_max = np.nextafter(first_inf, F32(0))
    for value, mode, positive, negative in [
        (beyond, "RINT", inf, inf),
        (beyond, "ROUND", inf, inf),
        (beyond, "TRUNC", inf - 1, inf - 1),
        (beyond, "FLOOR", inf - 1, inf),
        (beyond, "CEIL", inf, inf - 1),
        (first_inf, "RINT", inf, inf),
        (last_max, "RINT", inf - 1, inf - 1),
        (F32(INF), "TRUNC", inf, inf),
    ]:
        np.testing.assert_array_equal(
            down(np.array([value, -value]), mode), [positive, negative | 0x8000], f"{value} {mode}"
        )
        np.testing.assert_array_equal(
            down(np.array([value, -value]), mode, "saturate"), [inf - 1, (inf - 1) | 0x8000]
        )
    if fmt == "fp16":
        assert down(np.array([beyond, -beyond]), "ODD").tolist() == [inf - 1, (inf - 1) | 0x8000]
    nans = from_bits([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF])
    assert set(down(nans)) == {{"fp16": 0x7E00, "bf16": 0x7FC0}[fmt]}
    assert set(down(nans, overflow="saturate")) == {0}


def from_bits(bits):
    value = model.from_bits32(bits)
    return value[()] if value.ndim == 0 else value


def test_narrowing_refuses_what_is_not_listed():
    one = np.ones(1, F32)
    for mode in ("NONE", "ODD"):
        with pytest.raises(ValueError, match="no mode"):
            model.fp32_to_bf16(one, mode)
    with pytest.raises(ValueError, match="no mode"):
        model.fp32_to_fp16(one, "NEAREST")
    with pytest.raises(TypeError, match="float32"):
        model.fp32_to_fp16(np.ones(1))
    with pytest.raises(TypeError, match="uint16"):
        model.fp16_to_fp32(one)


# --- fp32 arithmetic ------------------------------------------------------------------------------


def test_mul_and_add_return_the_canonical_nan_only():
    a = from_bits([0x7F800000, 0x7FC12345, 0xFFC00000, 0x3F800000])
    b = from_bits([0x00000000, 0x3F800000, 0x3F800000, 0x7F800001])
    assert (model.bits32(model.mul(a, b)) == model.NAN32).all()
    assert model.bits32(model.add(F32(INF), F32(-INF))) == model.NAN32
    assert model.bits32(model.mul(F32(-1e-30), F32(1e-30))) == 0x80000000
    quanta = round(Fraction(float(F32(1e-20))) ** 2 * 2**149)  # a subnormal product
    assert model.bits32(model.mul(F32(1e-20), F32(1e-20))) == quanta


def test_fused_multiply_add_rounds_the_exact_sum_once():
    x, y = wild(20_000, 1), wild(20_000, 2)
    near = -(x * y) * (1 + np.random.default_rng(3).integers(-2, 3, 20_000) * 2.0**-23)
    dst = np.where(np.arange(20_000) % 2, near.astype(F32), wild(20_000, 4, 30)).astype(F32)
    fused = model.mul_add_dst(dst, x, y, fused=True)
    for d, a, b, got in zip(*(v.astype(float).tolist() for v in (dst, x, y, fused)), strict=True):
        exact = Fraction(a) * Fraction(b) + Fraction(d)
        error = abs(Fraction(got) - exact)
        for other in (-INF, INF):
            assert error <= abs(Fraction(float(np.nextafter(F32(got), F32(other)))) - exact)
    assert (fused != model.mul_add_dst(dst, x, y, fused=False)).any()


def test_fused_multiply_add_is_not_rounded_twice():
    # dst + x y = 2**24 + 3 - 2**-46, just below the middle of two fp32; float64 loses the 2**-46
    # and would then tie upwards to even. The mirror image checks the other sign.
    dst, x, y = F32(2.0**24 + 2), F32(1 + 2.0**-23), F32(1 - 2.0**-23)
    assert model.mul_add_dst(dst, x, y, fused=True) == 2.0**24 + 2
    assert model.mul_add_dst(-dst, -x, y, fused=True) == -(2.0**24 + 2)


# --- sums: a recursive scalar reading -------------------------------------------------------------


def node(a, b, skip):
    """Two children, None where a lane takes no part."""
    if skip and (a is None or b is None):
        return b if a is None else a
    return (F32(0) if a is None else a) + (F32(0) if b is None else b)


def tree(lanes, skip):
    if len(lanes) == 1:
        return lanes[0]
    half = len(lanes) // 2  # of a power of two: the recursive form of adjacent pairs
    return node(tree(lanes[:half], skip), tree(lanes[half:], skip), skip)


def cut(x):
    x = list(x)
    return [(x[i : i + 64] + [None] * 64)[:64] for i in range(0, len(x), 64)]


def passes(x, skip):
    x = [tree(repeat, skip) for repeat in cut(x)]
    return x[0] if len(x) == 1 else passes(x, skip)


def scalar_sum(x, arch, skip, start):
    n = len(x)
    if arch == "dav-2201":
        total = F32(0) if start else None
        for repeat in cut(x):
            result = tree(repeat, skip)
            total = result if total is None else total + result
        return total
    if arch == "dav-3510" and 64 <= n <= 256:
        v = cut(x)
        plus = lambda p, q: [node(a, b, skip) for a, b in zip(p, q, strict=True)]  # noqa: E731
        folded = {
            1: lambda: v[0],
            2: lambda: plus(v[0], v[1]),
            3: lambda: plus(plus(v[0], v[1]), v[2]),
            4: lambda: plus(plus(v[0], v[1]), plus(v[2], v[3])),
        }[len(v)]()
        return tree(folded, skip)
    if arch == "dav-3510":
        return passes(x, skip)
    body, tail = x[: n // 64 * 64], x[n // 64 * 64 :]
    if not len(tail):
        return passes(body, skip)
    if not len(body):
        return passes(tail, skip)
    return passes([passes(body, skip), passes(tail, skip)], skip)


# Around every edge of a repeat and of a method, and one where a third pass splits body and tail.
COUNTS = [1, 2, 3, 7, 8, 33, 63, 64, 65, 100, 127, 128, 129, 191, 192, 200, 255, 256, 257]
COUNTS += [1000, 4095, 4096, 4097, 8193, 64 * 194 + 5]


@pytest.mark.parametrize("arch", model.ARCHS)
@pytest.mark.parametrize("masked", ["zero", "skip"])
@pytest.mark.parametrize("start", [True, False])
def test_reduce_sum_is_the_scalar_reading(arch, masked, start):
    for n in COUNTS:
        x = wild((2, n), seed=n)
        x[1] = -0.0
        ours = model.reduce_sum(x, arch, masked=masked, acc_start=start)
        with np.errstate(all="ignore"):
            same_bits(ours, [scalar_sum(row, arch, masked == "skip", start) for row in x])


def test_skipping_a_lane_is_adding_minus_zero():
    for n in COUNTS:
        x = wild((3, n), seed=n)
        x[1] = -0.0
        padded = np.concatenate([x, np.full((3, -n % 64), -0.0, F32)], axis=1)
        for arch in ("dav-2201", "dav-3510"):
            if arch == "dav-3510" and n < 64:
                continue  # padding would change the method
            same_bits(
                model.reduce_sum(x, arch, masked="skip", acc_start=False),
                model.reduce_sum(padded, arch, acc_start=False),
            )


def test_the_high_dimensional_form_is_method_2_everywhere():
    for repeats in (1, 2, 3, 63, 64, 65, 130, 256, 767):
        x = wild((3, repeats * 64), seed=repeats)
        for arch in model.ARCHS:
            expected = [passes(row, skip=arch != "dav-2201") for row in x]
            same_bits(model.reduce_sum(x, arch, "high"), expected)
    x = wild((4, 5 * 64), seed=1)
    masked = x.reshape(4, 5, 64).copy()
    masked[..., 37:] = -0.0
    same_bits(
        model.reduce_sum(x, "dav-2201", "high", mask=37),
        model.reduce_sum(masked.reshape(4, -1), "dav-2201", "high"),
    )
    lanes = np.arange(64) % 3 == 1
    masked = np.where(lanes, x.reshape(4, 5, 64), F32(-0.0)).reshape(4, -1)
    same_bits(
        model.reduce_sum(x, "dav-3510", "high", mask=lanes),
        model.reduce_sum(masked, "dav-3510", "high"),
    )


def test_reduce_sum_has_no_wider_intermediate_and_keeps_shape():
    x = wild((2, 3, 700), seed=0)
    for arch in model.ARCHS:
        sums = model.reduce_sum(x, arch)
        assert sums.shape == (2, 3) and sums.dtype == F32
        same_bits(sums[1, 2], model.reduce_sum(x[1, 2], arch))
        exact = np.array([[math.fsum(row) for row in plane] for plane in x.astype(float)])
        assert (np.abs(sums - exact) <= 80 * 2.0**-24 * np.abs(x).sum(-1, dtype=float)).all()


def test_reduce_sum_special_values():
    for arch in model.ARCHS:
        for n in (1, 64, 100, 300, 5000):
            x = np.ones((5, n), F32)
            x[0, n // 2] = from_bits(0xFFC00001)
            x[1, 0], x[1, -1] = INF, -INF if n > 1 else NAN
            x[2, 0] = INF
            x[3, 0] = -INF
            x[4] = 3e38
            bits = model.bits32(model.reduce_sum(x, arch))
            overflow = 0x7F800000 if n > 1 else model.bits32(F32(3e38))
            wanted = [model.NAN32, model.NAN32, 0x7F800000, 0xFF800000, overflow]
            assert bits.tolist() == wanted
            if n == 64:
                assert model.bits32(model.reduce_sum(x, arch, "high")).tolist() == wanted


def test_reduce_sum_refuses():
    x = np.ones((2, 64), F32)
    for bad, message in [
        (lambda: model.reduce_sum(x, "dav-9999"), "unknown architecture"),
        (lambda: model.reduce_sum(x[:, :0], "dav-2201"), "no operation"),
        (lambda: model.reduce_sum(x, "dav-2201", "wide"), "form must be"),
        (lambda: model.reduce_sum(x, "dav-2201", masked="one"), "masked must be"),
        (lambda: model.reduce_sum(x[:, :63], "dav-2201", "high"), "whole repeats"),
        (lambda: model.reduce_sum(x, "dav-2201", "high", mask=0), "mask must be"),
        (lambda: model.reduce_sum(x, "dav-2201", "high", mask=65), "mask must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            bad()
    with pytest.raises(TypeError, match="float32"):
        model.reduce_sum(x.astype(float), "dav-2201")


# --- the LM head ----------------------------------------------------------------------------------


def encode(x, dtype):
    return x if dtype == "fp32" else getattr(model, f"fp32_to_{dtype}")(x)


def scalar_lm_head(hidden, weight, bias, arch, tile):
    out = np.zeros((len(hidden), len(weight)), F32)
    for i, h in enumerate(hidden):
        for j, w in enumerate(weight):
            total = F32(0)
            for k in range(0, len(h), tile):
                total += scalar_sum(
                    h[k : k + tile] * w[k : k + tile], arch, arch != "dav-2201", True
                )
            out[i, j] = total if bias is None else total + bias[j]
    return out


@pytest.mark.parametrize("arch", ["dav-2201", "dav-3510", "dav-1001"])
@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_lm_head_is_the_scalar_reading(arch, dtype):
    if dtype == "bf16" and arch == "dav-1001":
        with pytest.raises(ValueError, match="no bf16"):
            model.lm_head(ALL16[None], ALL16[None], arch=arch, in_dtype=dtype)
        return
    for width, tile in [(1, 64), (65, 64), (129, 64), (300, 256), (700, 300), (257, 4096)]:
        h, w, b = (
            encode(wild(s, width + i, 2), dtype) for i, s in enumerate([(2, width), (3, width), 3])
        )
        wide = [model.widen(v, dtype) for v in (h, w, b)]
        for bias in (None, b):
            expected = scalar_lm_head(*wide[:2], None if bias is None else wide[2], arch, tile)
            args = {"arch": arch, "tile": tile, "in_dtype": dtype}
            same = model.lm_head(h, w, bias, **args)
            full = model.lm_head(h, w, bias, out_dtype="fp32", **args)
            assert full.dtype == np.uint32
            np.testing.assert_array_equal(full, model.bits32(expected))
            if dtype != "fp32":
                assert same.dtype == np.uint16
                expected = getattr(model, f"fp32_to_{dtype}")(expected)
            np.testing.assert_array_equal(same, expected.view(same.dtype))


def test_lm_head_does_not_depend_on_batch_or_chunks():
    h, w = wild((7, 1000), 1, 2), wild((33, 1000), 2, 2)
    whole = model.lm_head(h, w, tile=256)
    np.testing.assert_array_equal(whole, model.lm_head(h, w, tile=256, chunk_bytes=1))
    rows = [model.lm_head(h[i : i + 1], w, tile=256) for i in range(7)]
    np.testing.assert_array_equal(whole, np.concatenate(rows))
    np.testing.assert_array_equal(whole, model.lm_head(h.view("u4"), w.view("u4"), tile=256))


def test_lm_head_edges():
    h, w = np.zeros((2, 0), F32), np.zeros((3, 0), F32)
    assert model.lm_head(h, w).tolist() == [[0] * 3] * 2  # H = 0: +0
    bias = np.array([1, -0.0, NAN], F32)
    assert model.lm_head(h, w, bias)[0].tolist() == [0x3F800000, 0, model.NAN32]
    assert model.lm_head(np.ones((0, 8), F32), np.ones((3, 8), F32)).shape == (0, 3)
    assert model.lm_head(np.ones((2, 8), F32), np.ones((0, 8), F32)).shape == (2, 0)
    ones = encode(np.full((1, 300), 15.0, F32), "fp16")
    assert model.lm_head(ones, ones, tile=64, in_dtype="fp16") == 0x7C00  # 67500 overflows
    assert model.lm_head(np.full((1, 9), -0.0, F32), np.ones((1, 9), F32), tile=4) == 0
    inf = np.array([[INF, 0.0]], F32)
    assert model.lm_head(inf, inf) == 0x7F800000
    assert model.lm_head(inf, inf[:, ::-1]) == model.NAN32
    with pytest.raises(ValueError, match=r"\[N, H\]"):
        model.lm_head(np.ones((2, 3), F32), np.ones((2, 4), F32))
    with pytest.raises(ValueError, match="out_dtype"):
        model.lm_head(np.ones((2, 3), F32), np.ones((2, 3), F32), out_dtype="fp16")
    with pytest.raises(ValueError, match="tile"):
        model.lm_head(np.ones((2, 3), F32), np.ones((2, 3), F32), tile=0)


# --- the ten probes -------------------------------------------------------------------------------

PROBES = {probe.id: probe for probe in model.PROBES}


def test_the_probes_are_the_ten():
    numbers = {probe.id.split("/")[0] for probe in model.PROBES}
    assert numbers == {f"H{i}" for i in range(1, 11)}
    for probe in model.PROBES:
        assert set(probe.answers) <= set(model.ARCHS)
        assert all(value in probe.tells.values() for value in probe.answers.values())


@pytest.mark.parametrize("name, arch", [(p.id, a) for p in model.PROBES for a in p.answers])
def test_the_model_answers_as_documented(name, arch):
    probe = PROBES[name]
    got, wanted = model.answer(probe, arch), probe.answers[arch]
    assert got == wanted
    if isinstance(wanted, float):
        assert math.copysign(1, got) == math.copysign(1, wanted)


def test_the_probes_tell_what_the_table_says():
    x = {name: probe.build().get("x") for name, probe in PROBES.items()}
    tells = {name: probe.tells for name, probe in PROBES.items()}
    assert model.sequential_sum(x["H1"]) == tells["H1"]["sequential"] == 1
    assert model.halving_sum(x["H1"]) == tells["H1"]["halving"] == 32
    assert model.sequential_sum(x["H10"]) == tells["H10"]["sequential"] == 1
    assert model.halving_sum(x["H10"]) == tells["H10"]["halving"] == 12
    methods = {
        "method 1": lambda v: model.reduce_sum(v, "dav-2201"),
        "method 2": lambda v: model.reduce_sum(v, "dav-2201", "high"),
        "method 3": lambda v: model.reduce_sum(v, "dav-3510"),
    }
    table = {"H2": (1, 0, 0), "H3": (0, 0, 2), "H10": (17, 16, 9)}
    for name, values in table.items():
        for (method, run), value in zip(methods.items(), values, strict=True):
            assert run(x[name]) == value == tells[name][method]
    wide = F32(x["H4"].sum(dtype=np.float64))
    assert wide == tells["H4"]["wider intermediate"] == 1 + 2.0**-23
    assert f"{tells['H5']['kept']:.6e}" == "6.399966e-39"
    seven = PROBES["H7"].build()
    assert model.mul_add_dst(**seven, fused=True) == 2.0**-24
    assert model.mul_add_dst(**seven, fused=False) == 0
    assert model.fp32_to_fp16(x["H8"]) == 0x7C00
    assert model.fp32_to_fp16(x["H8"], overflow="saturate") == 0x7BFF


@pytest.mark.parametrize("masked", ["zero", "skip"])
@pytest.mark.parametrize("start", [True, False])
def test_h6_shows_both_switches(masked, start):
    def bits(name):
        x = PROBES[name].build()["x"]
        return model.bits32(model.reduce_sum(x, "dav-2201", masked=masked, acc_start=start))

    assert bits("H6/64") == (0 if start else 0x80000000)
    assert bits("H6/1") == (0 if start or masked == "zero" else 0x80000000)


def test_h9_on_the_seed_kernels_pairs_of_tiles():
    given = PROBES["H9"].build()
    heads = {t: model.lm_head(given["hidden"], given["weight"], tile=t) for t in (64, 256, 4096)}
    np.testing.assert_array_equal(heads[64], heads[4096])
    assert (heads[64] != heads[256]).any()  # equal only for one repeat, or one tile


def test_lm_head_on_the_seed_kernels_draw():
    # numerics.md, section 2: outputs of 32 x 257 whose bits differ from tile 4096, and the error.
    torch = pytest.importorskip("torch")
    g = torch.Generator().manual_seed(0)
    h, w = (torch.randn(rows, 4096, generator=g).numpy() for rows in (32, 257))
    heads = {t: model.lm_head(h, w, tile=t) for t in (64, 256, 1024, 2048, 4096)}
    differ = [int((head != heads[4096]).sum()) for head in heads.values()]
    assert differ == [0, 6687, 6650, 6351, 0]
    exact = h.astype(float) @ w.T.astype(float)
    errors = [np.abs(head.view(F32) - exact).max() for head in heads.values()]
    shown = [f"{error * 1e5:.1f}" for error in errors]
    assert shown == ["7.0", "4.1", "3.4", "4.7", "7.0"]


def test_the_model_refuses_a_foreign_floating_point_environment():
    torch = pytest.importorskip("torch")
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU has no flush mode")
    try:
        with pytest.raises(RuntimeError, match="flushed"):
            model.reduce_sum(np.ones(64, F32), "dav-2201")
    finally:
        torch.set_flush_denormal(False)
    model.check_environment()
