"""Conversions: every half, hard floats in every mode, int4b_t, the ones with a scale.

The references know nothing of the twin: they take the two neighbours of a value among the target's
and choose by the mode's definition.
"""

from __future__ import annotations

import numpy as np
import pytest

from twin.image import Lines, assert_only, get, put, random_image
from workbench.errors import TwinFault

FIVE = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")
SEVEN = ("NONE", *FIVE, "ODD")
PARTS = np.arange(65536, dtype=np.uint16).reshape(4, 16384)  # every half
ROOM = 65536 // 2

FROM_HALF = {
    "float": ("NONE",),
    "int32_t": FIVE,
    "int16_t": FIVE,
    "int8_t": ("NONE", *FIVE),
    "uint8_t": ("NONE", *FIVE),
}
INTEGERS = {"int8_t": np.int8, "uint8_t": np.uint8, "int16_t": np.int16, "int32_t": np.int32,
            "int64_t": np.int64}  # fmt: skip


def of_half(bits):
    return np.asarray(bits, np.uint16).view(np.float16).astype(np.float64)


def whole(x: np.ndarray, mode: str) -> np.ndarray:
    low, high = np.floor(x), np.ceil(x)
    away = np.where(x < 0, low, high)
    near = np.where(x - low < high - x, low, high)
    tie = (x - low == high - x) & (low != high)
    even = np.where(low % 2 == 0, low, high)
    return {
        "NONE": np.where(tie, even, near),
        "RINT": np.where(tie, even, near),
        "FLOOR": low,
        "CEIL": high,
        "ROUND": np.where(tie, away, near),
        "TRUNC": np.where(x < 0, high, low),
    }[mode]


def integers(x: np.ndarray, mode: str, kind) -> np.ndarray:
    info = np.iinfo(kind)
    y = whole(np.where(np.isfinite(x), x, 0), mode)
    limits = np.where(x > 0, float(info.max), float(info.min))
    y = np.where(np.isinf(x), limits, y)
    return np.array([min(max(int(v), info.min), info.max) for v in y], kind)


def neighbours(x: np.ndarray, kind: str):
    """The largest value of the format <= x and the smallest >= x, as floats."""
    if kind == "half":
        with np.errstate(all="ignore"):
            near = x.astype(np.float16)
        wide = near.astype(np.float64)
        down, up = (np.nextafter(near, np.float16(d)).astype(np.float64) for d in (-np.inf, np.inf))
    else:
        bits = x.astype(np.float32).view(np.uint32)
        cut = (bits & 0xFFFF0000).view(np.float32).astype(np.float64)  # towards zero
        out = ((bits & 0xFFFF0000).astype(np.uint64) + 0x10000).astype(np.uint32).view(np.float32)
        out = np.where(cut == x, cut, out.astype(np.float64))
        return np.where(x < 0, out, cut), np.where(x < 0, cut, out)
    return np.where(wide > x, down, wide), np.where(wide < x, up, wide)


def rounded(x: np.ndarray, kind: str, mode: str) -> np.ndarray:
    """float64 that are floats -> bits of half or bfloat16_t."""
    with np.errstate(all="ignore"):
        low, high = neighbours(x, kind)
    exact = low == high
    bits = lambda v: (  # noqa: E731
        v.astype(np.float16).view(np.uint16)
        if kind == "half"
        else (v.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    )
    beyond = 65536.0 if kind == "half" else 2.0**128
    with np.errstate(all="ignore"):
        low_bits, high_bits = bits(low), bits(high)
        reach_low, reach_high = (
            np.where(np.isinf(low), -beyond, low),
            np.where(np.isinf(high), beyond, high),
        )
    nearer_low, tie = x - reach_low < reach_high - x, x - reach_low == reach_high - x
    even_low = low_bits & 1 == 0
    to_low = {
        "NONE": nearer_low | (tie & even_low),
        "RINT": nearer_low | (tie & even_low),
        "FLOOR": np.ones_like(tie),
        "CEIL": np.zeros_like(tie),
        "ROUND": nearer_low | (tie & (x < 0)),
        "TRUNC": x > 0,
        "ODD": ~even_low,
    }[mode]
    result = np.where(exact | to_low, low_bits, high_bits)
    result = np.where(x == 0, np.where(np.signbit(x), 0x8000, 0), result)
    result = np.where((result == 0) & (x < 0), 0x8000, result)
    nan = 0x7E00 if kind == "half" else 0x7FC0
    return np.where(np.isnan(x), nan, result).astype(np.uint16)


def hard_floats(kind: str) -> np.ndarray:
    """Values of the format, the middles between them, and neighbours of both; the ends."""
    rng = np.random.default_rng(1)
    if kind == "half":
        base = rng.integers(0, 0x7C00, 1500).astype(np.uint16).view(np.float16).astype(np.float32)
        step = np.spacing(base.astype(np.float16)).astype(np.float32)
    else:
        raw = (rng.integers(0, 0x7F80, 1500, dtype=np.uint32) << 16).view(np.float32)
        base, step = raw, ((raw.view(np.uint32) + 0x10000).view(np.float32) - raw)
        step[~np.isfinite(step)] = 0
    with np.errstate(all="ignore"):
        middle = base + step / 2
        around = [base, middle] + [np.nextafter(v, np.float32(d)) for v in (base, middle)
                                   for d in (np.inf, -np.inf)]  # fmt: skip
    special = [0, 1, 0x80000000, 0x80000001, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFF812345,
               0x477FE000, 0x477FEFFF, 0x477FF000, 0x477FFFFF, 0x47800000, 0x7F7FFFFF, 0x7F7F8000,
               0x7F7F7FFF, 0x33000000, 0x33000001, 0x32FFFFFF, 0x33800000]  # fmt: skip
    x = np.concatenate([*around, np.array(special, np.uint32).view(np.float32)])
    x = np.concatenate([x, -x])
    return x[: len(x) // 64 * 64]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    table = {}
    for kind, modes in FROM_HALF.items():
        for mode in modes:
            count = 8192 if kind in ("float", "int32_t") else 16384
            table[f"half {kind} {mode}"] = (
                f"Cast(UB({kind}, 0), UB(half, {ROOM}), RoundMode::CAST_{mode}, {count});"
            )
    for mode in SEVEN:
        table[f"float half {mode}"] = (
            f"Cast(UB(half, 0), UB(float, {ROOM}), RoundMode::CAST_{mode}, 8192);"
        )
    for mode in FIVE:
        table[f"float bfloat16_t {mode}"] = (
            f"Cast(UB(bfloat16_t, 0), UB(float, {ROOM}), RoundMode::CAST_{mode}, 8192);"
        )
        table[f"float float {mode}"] = (
            f"Cast(UB(float, 0), UB(float, {ROOM}), RoundMode::CAST_{mode}, 4096);"
        )
        table[f"int64_t float {mode}"] = (
            f"Cast(UB(float, 0), UB(int64_t, {ROOM}), RoundMode::CAST_{mode}, 4096);"
        )
        table[f"int32_t float {mode}"] = (
            f"Cast(UB(float, 0), UB(int32_t, {ROOM}), RoundMode::CAST_{mode}, 4096);"
        )
        for kind in ("int16_t", "int32_t", "int64_t"):
            table[f"float {kind} {mode}"] = (
                f"Cast(UB({kind}, 0), UB(float, {ROOM}), RoundMode::CAST_{mode}, 4096);"
            )
    none = "RoundMode::CAST_NONE"
    table["bfloat16_t float"] = f"Cast(UB(float, 0), UB(bfloat16_t, {ROOM}), {none}, 8192);"
    table["int32_t int16_t"] = f"Cast(UB(int16_t, 0), UB(int32_t, {ROOM}), {none}, 4096);"
    table["int64_t int32_t"] = f"Cast(UB(int32_t, 0), UB(int64_t, {ROOM}), {none}, 4096);"
    table["mask"] = f"Cast(UB(float, 0), UB(half, {ROOM}), {none}, 5, 2, {{1, 1, 8, 4}});"
    table["narrow mask"] = f"Cast(UB(half, 0), UB(float, {ROOM}), {none}, 64, 2, {{2, 1, 12, 8}});"
    table["deq"] = (
        f"SetDeqScale(half(0.37f)); Cast(UB(half, 0), UB(int32_t, {ROOM}), {none}, 1024);"
    )
    table["deq unset"] = f"Cast(UB(half, 0), UB(int32_t, {ROOM}), {none}, 1024);"
    table["add deq relu"] = (
        "SetDeqScale(half(0.37f)); "
        f"AddDeqRelu(UB(half, 0), UB(int32_t, {ROOM}), UB(int32_t, {ROOM + 8192}), 1024);"
    )
    table["cast deq"] = (
        "SetDeqScale(0.5f, int16_t(-3), true); "
        f"CastDeq<int8_t, int16_t, false, true>(UB(int8_t, 0), UB(int16_t, {ROOM}), 40);"
    )
    table["cast deq upper"] = (
        "SetDeqScale(0.5f, int16_t(3), false); "
        f"CastDeq<uint8_t, int16_t, false, false>(UB(uint8_t, 0), UB(int16_t, {ROOM}), 40);"
    )
    table["cast deq table"] = (
        "float s[16]; int16_t o[16]; bool sign[16]; "
        "for (int i = 0; i < 16; ++i) { s[i] = 0.25f * (i + 1); o[i] = i - 8; sign[i] = true; } "
        "SetDeqScale(UB(uint64_t, 16384), VdeqInfo(s, o, sign)); PipeBarrier<PIPE_ALL>(); "
        f"CastDeq<int8_t, int16_t, true, true>(UB(int8_t, 0), UB(int16_t, {ROOM}), 40);"
    )
    table["cast deq sign"] = (
        "SetDeqScale(0.5f, int16_t(3), true); "
        f"CastDeq<uint8_t, int16_t, false, false>(UB(uint8_t, 0), UB(int16_t, {ROOM}), 40);"
    )
    table["relu cast"] = (
        f"AddReluCast(UB(int8_t, 0), UB(half, {ROOM}), UB(half, {ROOM + 8192}), 4096);"
    )
    table["mul cast"] = f"MulCast(UB(uint8_t, 0), UB(half, {ROOM}), UB(half, {ROOM + 8192}), 4096);"
    table["int4 half"] = f"Cast(UB(half, 0), UB(int4b_t, {ROOM}), {none}, 512);"
    table["int4 mask"] = f"Cast(UB(half, 0), UB(int4b_t, {ROOM}), {none}, 66, 2, {{1, 3, 8, 5}});"
    for mode in ("NONE", *FIVE):
        table[f"half int4 {mode}"] = (
            f"Cast(UB(int4b_t, 0), UB(half, {ROOM}), RoundMode::CAST_{mode}, 512);"
        )
    table["half int4 bits"] = (
        "uint64_t m[2] = {0x6, 0x1}; "
        f"Cast(UB(int4b_t, 0), UB(half, {ROOM}), {none}, m, 1, {{1, 1, 2, 8}});"
    )
    table["half int4 odd"] = f"Cast(UB(int4b_t, 0), UB(half, {ROOM}), {none}, 511);"
    table["no such mode"] = f"Cast(UB(float, 0), UB(half, {ROOM}), RoundMode::CAST_RINT, 64);"
    return Lines(tmp_path_factory.mktemp("cast"), table)


@pytest.mark.parametrize("kind", FROM_HALF)
def test_every_half(lines, kind):
    step = 8192 if kind in ("float", "int32_t") else 16384
    for mode in FROM_HALF[kind]:
        for part in PARTS.reshape(-1, step):
            image = put(random_image(1), ROOM, part)
            after = lines(f"half {kind} {mode}", image)[0]
            if kind == "float":
                with np.errstate(all="ignore"):
                    want = of_half(part).astype(np.float32).view(np.uint32)
                want = np.where(np.isnan(of_half(part)), np.uint32(0x7FC00000), want)
            else:
                want = integers(of_half(part), mode, INTEGERS[kind])
            assert_only(image, after, {0: want.astype(want.dtype)})


@pytest.mark.parametrize("kind", ("half", "bfloat16_t"))
def test_float_narrows(lines, kind):
    x = hard_floats(kind)
    seen = {}
    for mode in SEVEN if kind == "half" else FIVE:
        got = []
        for at in range(0, len(x), 8192):
            piece = x[at : at + 8192]
            image = put(random_image(2), ROOM, piece)
            got.append(get(lines(f"float {kind} {mode}", image)[0], 0, np.uint16, len(piece)))
        seen[mode] = np.concatenate(got)
        with np.errstate(all="ignore"):
            want = rounded(x.astype(np.float64), kind, mode)
        wrong = np.flatnonzero(seen[mode] != want)
        assert wrong.size == 0, [(x[i], hex(seen[mode][i]), hex(want[i])) for i in wrong[:5]]
    seen.pop("NONE", None)
    names = list(seen)
    for i, a in enumerate(names):  # control: the inputs tell all the modes apart
        assert all(not np.array_equal(seen[a], seen[b]) for b in names[:i])


@pytest.mark.parametrize("mode", FIVE)
def test_float_to_whole(lines, mode):
    rng = np.random.default_rng(3)
    x = np.concatenate([
        np.array([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, 8388607.5, np.inf, -np.inf,
                  np.nan, 2147483520, 2147483648, -2147483648, -2147483904, 9.2233715e18,
                  9.223372e18, -9.223372e18, -9.2233731e18, 32767.5, -32768.5, 1e30]),
        rng.uniform(-3, 3, 1000), rng.uniform(-4e4, 4e4, 1000), rng.normal(size=1000) * 1e10,
    ]).astype(np.float32)  # fmt: skip
    image = put(random_image(4), ROOM, x)
    wide = x.astype(np.float64)
    for kind in ("int16_t", "int32_t", "int64_t"):
        got = get(lines(f"float {kind} {mode}", image)[0], 0, INTEGERS[kind], x.size)
        want = integers(wide, mode, INTEGERS[kind])
        assert np.array_equal(got, want), [
            v for v in zip(x, got, want, strict=True) if v[1] != v[2]
        ][:5]
    got = get(lines(f"float float {mode}", image)[0], 0, np.uint32, x.size)
    with np.errstate(all="ignore"):
        y = np.copysign(np.where(np.isfinite(wide), whole(wide, mode), wide), wide)
    want = np.where(np.isnan(wide), np.uint32(0x7FC00000), y.astype(np.float32).view(np.uint32))
    assert np.array_equal(got, want)


def float_of_integer(value: int, mode: str) -> np.float32:
    """By the two floats around an integer."""
    near = np.float32(value)
    if int(near) == value:
        return near
    low = near if int(near) < value else np.nextafter(near, np.float32(-np.inf))
    high = np.nextafter(low, np.float32(np.inf))
    below, above = value - int(low), int(high) - value
    tie = low if low.view(np.uint32) & 1 == 0 else high
    if below == above and mode == "ROUND":
        tie = high if value > 0 else low
    nearest = tie if below == above else low if below < above else high
    inward = low if value > 0 else high
    return {"FLOOR": low, "CEIL": high, "TRUNC": inward}.get(mode, nearest)


@pytest.mark.parametrize("mode", FIVE)
@pytest.mark.parametrize("kind", ("int32_t", "int64_t"))
def test_integers_to_float(lines, kind, mode):
    rng = np.random.default_rng(5)
    info = np.iinfo(INTEGERS[kind])
    x = rng.integers(info.min, info.max, 1024, INTEGERS[kind], endpoint=True)
    steps = np.concatenate([(1 << 24) + np.arange(64), -(1 << 25) - np.arange(64)])
    ends = [0, info.min, info.max, -1]
    x = np.concatenate([x, x >> 3, (x | (1 << 24)) & ~((1 << 20) - 1), ends, steps])
    x = x.astype(INTEGERS[kind])
    image = put(random_image(6), ROOM, x)
    got = get(lines(f"{kind} float {mode}", image)[0], 0, np.float32, x.size)
    want = np.array([float_of_integer(int(v), mode) for v in x], np.float32)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def test_exact_and_saturating(lines):
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 65536, 8192, dtype=np.uint16)
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    want = np.where(np.isnan(wide), np.uint32(0x7FC00000), wide.view(np.uint32))
    image = put(random_image(8), ROOM, bits)
    assert_only(image, lines("bfloat16_t float", image)[0], {0: want.astype(np.uint32)})
    x = rng.integers(-70000, 70000, 4096, dtype=np.int32)
    image = put(random_image(9), ROOM, x)
    got = lines("int32_t int16_t", image)[0]
    assert_only(image, got, {0: np.clip(x, -32768, 32767).astype(np.int16)})
    y = rng.integers(-(2**33), 2**33, 4096, dtype=np.int64)
    image = put(random_image(9), ROOM, y)
    got = lines("int64_t int32_t", image)[0]
    assert_only(image, got, {0: np.clip(y, -(2**31), 2**31 - 1).astype(np.int32)})


def test_masks_count_the_wider_type(lines):
    h = np.random.default_rng(10).normal(size=256).astype(np.float16)
    image = put(random_image(10), ROOM, h)
    f = h.astype(np.float32)
    assert_only(image, lines("mask", image)[0], {0: f[:5], 256: f[64:69]})
    x = np.random.default_rng(11).normal(size=128).astype(np.float32)
    image = put(random_image(11), ROOM, x)
    rows = {(r * 12 + b * 2) * 32: x[r * 64 + b * 16 :][:16].astype(np.float16)
            for r in range(2) for b in range(4)}  # fmt: skip
    assert_only(image, lines("narrow mask", image)[0], rows)


def halves(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return values.astype(np.float16)


def test_scales(lines):
    rng = np.random.default_rng(12)
    x, y = rng.integers(-300000, 300000, (2, 1024), dtype=np.int32)
    image = put(put(random_image(12), ROOM, x), ROOM + 8192, y)
    scale = float(np.float16(0.37))
    assert_only(image, lines("deq", image)[0], {0: halves(x * scale)})
    total = np.maximum(halves((x + y) * scale), np.float16(0))
    assert_only(image, lines("add deq relu", image)[0], {0: total})
    with pytest.raises(TwinFault, match="SetDeqScale") as caught:
        lines("deq unset", image)
    assert caught.value.code == "deq-scale"


def test_cast_deq(lines):
    v = np.random.default_rng(13).integers(-700, 700, 48, dtype=np.int16)
    image = put(random_image(13), ROOM, v)
    v = v.astype(np.float64)
    low = np.clip(np.rint(v * 0.5) - 3, -128, 127).astype(np.int8)
    rows = {0: low[:16], 32: low[16:32], 64: low[32:40]}
    assert_only(image, lines("cast deq", image)[0], rows)
    high = np.clip(np.rint(v * 0.5) + 3, 0, 255).astype(np.uint8)
    rows = {16: high[:16], 48: high[16:32], 80: high[32:40]}
    assert_only(image, lines("cast deq upper", image)[0], rows)
    i = np.arange(48) % 16
    turn = np.clip(np.rint(v * (0.25 * (i + 1))) + (i - 8), -128, 127).astype(np.int8)
    got = lines("cast deq table", image)[0]
    got[16384 : 16384 + 128] = image[16384 : 16384 + 128]  # where the twin keeps the table
    assert_only(image, got, {0: turn[:16], 32: turn[16:32], 64: turn[32:40]})
    with pytest.raises(TwinFault, match="signMode"):
        lines("cast deq sign", image)


def test_two_steps(lines):
    rng = np.random.default_rng(14)
    a, b = (rng.normal(size=(2, 4096)) * 60).astype(np.float16)
    image = put(put(random_image(14), ROOM, a), ROOM + 8192, b)
    total = np.maximum(a + b, np.float16(0)).astype(np.float64)  # numpy rounds the sum to half
    assert_only(image, lines("relu cast", image)[0], {0: integers(total, "RINT", np.int8)})
    product = (a * b).astype(np.float64)
    assert_only(image, lines("mul cast", image)[0], {0: integers(product, "RINT", np.uint8)})


def test_int4(lines):
    raw = np.random.default_rng(15).integers(0, 256, 512, dtype=np.uint8)
    image = put(random_image(15), ROOM, raw)
    nibbles = np.stack([raw & 15, raw >> 4], 1).ravel().astype(np.int8)
    values = np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.float16)
    assert_only(image, lines("int4 half", image)[0], {0: values[:512]})
    rows = {}
    for r in range(2):  # blocks of 64 elements: 64, then 2 in the block three further
        first, second = (r * 5) * 64, (r * 5 + 3) * 64
        rows[r * 256] = np.concatenate([values[first : first + 64], values[second : second + 2]])
    assert_only(image, lines("int4 mask", image)[0], rows)
    x = (np.random.default_rng(16).uniform(-10, 10, 512) * 4).round() / 4
    h = x.astype(np.float16)
    image = put(random_image(16), ROOM, h)
    for mode in ("NONE", *FIVE):
        n = np.clip(whole(h.astype(np.float64), mode), -8, 7).astype(np.int8).view(np.uint8) & 15
        assert_only(image, lines(f"half int4 {mode}", image)[0], {0: n[::2] | n[1::2] << 4})
    n = np.clip(whole(h.astype(np.float64), "RINT"), -8, 7).astype(np.int8).view(np.uint8) & 15
    want = {0: (image[0:1] & 15) | n[1] << 4, 1: (image[1:2] & 0xF0) | n[2],
            32: (image[32:33] & 0xF0) | n[64]}  # fmt: skip
    assert_only(image, lines("half int4 bits", image)[0], want)
    with pytest.raises(TwinFault) as caught:
        lines("half int4 odd", image)
    assert caught.value.code == "int4-count"


def test_a_mode_that_is_not_there(lines):
    with pytest.raises(TwinFault, match="CAST_NONE only") as caught:
        lines("no such mode", random_image(17))
    assert caught.value.code == "cast-mode"
    lines("half float NONE", random_image(17))


def test_saturation(tmp_path):
    """dav-2002: infinities become the largest half, NaN becomes 0, in the modes that are there."""
    table = {
        mode: f"Cast(UB(half, 0), UB(float, {ROOM}), RoundMode::CAST_{mode}, 8192);"
        for mode in ("NONE", "ODD")
    }
    old = Lines(tmp_path, table, "dav-2002")
    x = hard_floats("half")[:8192]
    image = put(random_image(18), ROOM, x)
    for mode in table:
        want = rounded(x.astype(np.float64), "half", mode)
        want = np.where(want & 0x7FFF == 0x7C00, want - 1, want)
        want = np.where(np.isnan(x), 0, want).astype(np.uint16)
        assert np.array_equal(get(old(mode, image)[0], 0, np.uint16, len(x)), want)


def test_dav_3510(tmp_path):
    """What only dav-3510 converts and calculates: bfloat16_t, double, 64-bit integers."""
    table = {
        "bf16 add": f"Add(UB(bfloat16_t, 0), UB(bfloat16_t, {ROOM}), UB(bfloat16_t, 49152), 4096);",
        "bf16 half": f"Cast(UB(half, 0), UB(bfloat16_t, {ROOM}), RoundMode::CAST_RINT, 4096);",
        "double": f"Cast(UB(double, 0), UB(int64_t, {ROOM}), RoundMode::CAST_RINT, 1024);",
        "double floor": f"Cast(UB(double, 0), UB(int64_t, {ROOM}), RoundMode::CAST_FLOOR, 1024);",
        "int64": f"Mul(UB(int64_t, 0), UB(int64_t, {ROOM}), UB(int64_t, 49152), 1024);",
        "scalar first": f"Adds(UB(float, 0), 1.5f, UB(float, {ROOM}), 100);",
        "scalar element": f"Muls(UB(float, 0), UB(float, {ROOM}), UB(float, 49156), 100);",
        "scalar element mask": f"Muls(UB(float, 0), UB(float, {ROOM}), UB(float, 49156), "
        "uint64_t(7), 2, UnaryRepeatParams(1, 1, 8, 8));",
        "compares": f"Compares(UB(uint8_t, 0), 0.5f, UB(float, {ROOM}), CMPMODE::LT, 128);",
        "compares element": f"Compares(UB(uint8_t, 0), UB(float, {ROOM}), UB(float, 49156), "
        "CMPMODE::LE, 128);",
        "plain scalar": f"Adds(UB(float, 0), UB(float, {ROOM}), 2.5f, 100);",
        "divide": f"Div(UB(int32_t, 0), UB(int32_t, {ROOM}), UB(int32_t, 49152), 1024);",
    }
    new = Lines(tmp_path, table, "dav-3510")
    rng = np.random.default_rng(19)
    a, b = rng.integers(0, 65536, (2, 4096), dtype=np.uint16)
    image = put(put(random_image(19), ROOM, a), 49152, b)
    wide = [(v.astype(np.uint32) << 16).view(np.float32) for v in (a, b)]
    with np.errstate(all="ignore"):
        total = wide[0] + wide[1]
        want = rounded(total.astype(np.float64), "bfloat16_t", "RINT")
        narrow = rounded(wide[0].astype(np.float64), "half", "RINT")
    assert_only(image, new("bf16 add", image)[0], {0: want})
    assert np.array_equal(get(new("bf16 half", image)[0], 0, np.uint16, 4096), narrow)
    x, y = rng.integers(-(2**63), 2**63 - 1, (2, 1024), dtype=np.int64)
    image = put(put(image, ROOM, x), 49152, y)
    assert_only(image, new("double", image)[0], {0: x.astype(np.float64)})
    down = [v if int(v) <= int(n) else np.nextafter(v, -np.inf)
            for v, n in zip(x.astype(np.float64), x, strict=True)]  # fmt: skip
    assert_only(image, new("double floor", image)[0], {0: np.array(down)})
    with np.errstate(all="ignore"):
        assert_only(image, new("int64", image)[0], {0: x * y})
    p, q = rng.integers(-1000, 1000, (2, 1024), dtype=np.int32)
    q[q == 0] = 7
    image = put(put(image, ROOM, p), 49152, q)
    want = np.array([int(abs(int(i)) // abs(int(j))) * (1 if (i < 0) == (j < 0) else -1)
                     for i, j in zip(p, q, strict=True)], np.int32)  # fmt: skip
    assert_only(image, new("divide", image)[0], {0: want})
    f = rng.normal(size=128).astype(np.float32)
    image = put(put(image, ROOM, f), 49156, np.array([0.75], np.float32))
    c = np.float32(0.75)
    assert_only(image, new("scalar first", image)[0], {0: (f + np.float32(1.5))[:100]})
    assert_only(image, new("plain scalar", image)[0], {0: (f + np.float32(2.5))[:100]})
    assert_only(image, new("scalar element", image)[0], {0: (f * c)[:100]})
    rows = {0: (f * c)[:7], 256: (f * c)[64:71]}
    assert_only(image, new("scalar element mask", image)[0], rows)
    packed = [np.packbits(bits, bitorder="little") for bits in (np.float32(0.5) < f, f <= c)]
    assert_only(image, new("compares", image)[0], {0: packed[0]})
    assert_only(image, new("compares element", image)[0], {0: packed[1]})
