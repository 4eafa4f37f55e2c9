"""Arithmetic: every half through the unary instructions, the three forms, masks, operators.

References are numpy in double (exact for half before its one rounding) or `decimal`.
"""

from __future__ import annotations

import decimal

import numpy as np
import pytest

from twin.image import Lines, assert_only, get, put, random_image
from workbench.errors import BuildError, TwinFault

HALVES = np.arange(65536, dtype=np.uint16)  # all of them; half an image at a time
PARTS = (HALVES[:32768], HALVES[32768:])


def to_half(values: np.ndarray, saturate: bool = False) -> np.ndarray:
    """float64 -> bits of half, one rounding, the twin's one NaN."""
    with np.errstate(all="ignore"):
        bits = values.astype(np.float16).view(np.uint16)
    bits = np.where(np.isnan(values), np.uint16(0x7E00), bits)
    if saturate:
        bits = np.where((bits & 0x7FFF) == 0x7C00, bits - 1, bits)
        bits = np.where(np.isnan(values), 0, bits)
    return bits.astype(np.uint16)


def of_half(bits: np.ndarray) -> np.ndarray:
    return np.asarray(bits, np.uint16).view(np.float16).astype(np.float64)


def canonical(x: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(x), np.uint32(0x7FC00000), x.view(np.uint32)).astype(np.uint32)


UNARY = {
    "Exp": np.exp,
    "Ln": np.log,
    "Abs": np.abs,
    "Reciprocal": lambda x: 1 / x,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Sqrt": np.sqrt,
    "Relu": lambda x: np.where(x > 0, x, np.where(np.isnan(x), x, 0.0)),
}
SPECIAL = np.array(
    [0, 0x80000000, 1, 0x80000001, 0x7F800000, 0xFF800000, 0x7FC12345, 0xFFC00001, 0x7F800001,
     0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x00800000, 0x42B17218, 0xC2CFF1B5],
    np.uint32,
)  # fmt: skip


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    table = {op: f"{op}(UB(half, 0), UB(half, 0), 32768);" for op in UNARY}
    table["Not"] = "Not(UB(uint16_t, 0), UB(uint16_t, 0), 32768);"
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        table[f"{op} half"] = f"{op}(UB(half, 0), UB(half, 16384), UB(half, 32768), 8192);"
        table[f"{op} float"] = f"{op}(UB(float, 0), UB(float, 16384), UB(float, 32768), 4096);"
    for op in ("Exp", "Ln", "Rsqrt", "Sqrt", "Reciprocal", "Abs", "Relu"):
        table[f"{op} float"] = f"{op}(UB(float, 0), UB(float, 0), 8192);"
    for op in ("MulAddDst", "FusedMulAdd", "FusedMulAddRelu"):
        table[f"{op} half"] = f"{op}(UB(half, 0), UB(half, 16384), UB(half, 32768), 8192);"
    table["Axpy float half"] = "Axpy(UB(float, 0), UB(half, 16384), half(1.5f), 4096);"
    return Lines(tmp_path_factory.mktemp("arith"), table)


@pytest.mark.parametrize("op", UNARY)
def test_every_half(lines, op):
    for part in PARTS:
        got = lines(op, part.view(np.uint8))[0].view(np.uint16)
        with np.errstate(all="ignore"):
            want = to_half(UNARY[op](of_half(part)))
        wrong = np.flatnonzero(got != want)
        assert wrong.size == 0, [(hex(part[i]), hex(got[i]), hex(want[i])) for i in wrong[:5]]


def test_every_half_control(lines):
    """The check above sees a result that is one ulp off, or another NaN."""
    part = PARTS[0]
    with np.errstate(all="ignore"):
        want = to_half(np.exp(of_half(part)))
    got = lines("Exp", part.view(np.uint8))[0].view(np.uint16)
    assert np.array_equal(got, want)
    with np.errstate(all="ignore"):
        single = np.exp(of_half(part).astype(np.float32)).astype(np.float16).view(np.uint16)
    assert not np.array_equal(got[:0x7C00], to_half(of_half(single ^ 1))[:0x7C00])
    assert np.flatnonzero(got != single).size > 0  # NaN payloads, at least


def test_every_half_bitwise(lines):
    for part in PARTS:
        assert np.array_equal(lines("Not", part.view(np.uint8))[0].view(np.uint16), ~part)


BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
}


def operands(kind, seed):
    rng = np.random.default_rng(seed)
    if kind == "half":
        a, b = rng.integers(0, 65536, (2, 8192), dtype=np.uint16)
        a[:256], b[:256] = np.repeat(HALVES[::4096], 16), np.tile(HALVES[::4096], 16)
    else:
        a, b = rng.integers(0, 1 << 32, (2, 4096), dtype=np.uint32)
        a[:256], b[:256] = np.repeat(SPECIAL, 16), np.tile(SPECIAL, 16)
        b[256:2048] = a[256:2048] + rng.integers(0, 1 << 22, 1792, dtype=np.uint32)
    return a, b


@pytest.mark.parametrize("kind", ("half", "float"))
@pytest.mark.parametrize("op", BINARY)
def test_binary(lines, op, kind):
    a, b = operands(kind, 1)
    image = put(put(random_image(2), 16384, a), 32768, b)
    after = lines(f"{op} {kind}", image)[0]
    with np.errstate(all="ignore"):
        if kind == "half":
            want = to_half(BINARY[op](of_half(a), of_half(b)))
        else:
            want = canonical(BINARY[op](a.view(np.float32), b.view(np.float32)))
    assert_only(image, after, {0: want})


def extremum(a, b, larger):
    """IEEE 754-2019 maximum and minimum, in integers: order the bits, NaN apart."""
    width = 16 if a.dtype == np.uint16 else 32
    sign, inf = 1 << (width - 1), 0x7C00 if width == 16 else 0x7F800000
    nan = 0x7E00 if width == 16 else 0x7FC00000

    def key(x):
        x = x.astype(np.int64)
        return np.where(x & sign, -(x & (sign - 1)) - 1, x)

    first = key(a) >= key(b) if larger else key(a) <= key(b)
    either = ((a & (sign - 1)) > inf) | ((b & (sign - 1)) > inf)
    return np.where(either, nan, np.where(first, a, b)).astype(a.dtype)


@pytest.mark.parametrize("kind", ("half", "float"))
def test_max_min(lines, kind):
    a, b = operands(kind, 3)
    image = put(put(random_image(4), 16384, a), 32768, b)
    for op, larger in (("Max", True), ("Min", False)):
        assert_only(image, lines(f"{op} {kind}", image)[0], {0: extremum(a, b, larger)})
    # -0 and +0 meet among the operands, either way round: a plain comparison would give the first.
    assert set(zip(a[:256].tolist(), b[:256].tolist(), strict=True)) >= {
        (0, 1 << 31 if kind == "float" else 0x8000)
    }


# ---- correctly rounded floats -------------------------------------------------------------------

_CONTEXT = decimal.Context(prec=60, Emin=-(10**6), Emax=10**6)
EXACT = {
    "Exp": lambda x: _CONTEXT.exp(x),
    "Ln": lambda x: _CONTEXT.ln(x),
    "Rsqrt": lambda x: _CONTEXT.divide(decimal.Decimal(1), _CONTEXT.sqrt(x)),
}


def nearest_float(target: decimal.Decimal, guess: float) -> np.float32:
    base = np.float32(guess)
    around = [np.nextafter(base, np.float32(d)) for d in (-np.inf, np.inf)] + [base]
    finite = [v for v in around if np.isfinite(v)]
    return min(finite, key=lambda v: abs(_CONTEXT.subtract(decimal.Decimal(float(v)), target)))


def hard_inputs(op: str) -> np.ndarray:
    """Floats whose result lies nearest to the middle of two floats, among four million."""
    low, high = {"Exp": (0.5, 1.0), "Ln": (1.0, 1.5), "Rsqrt": (1.0, 4.0)}[op]
    x = np.arange(np.float32(low).view(np.uint32), np.float32(high).view(np.uint32), 4, np.uint32)
    x = x.view(np.float32)
    y = {"Exp": np.exp, "Ln": np.log, "Rsqrt": lambda v: 1 / np.sqrt(v)}[op](x.astype(np.float64))
    rest = y.view(np.uint64) & np.uint64((1 << 29) - 1)
    distance = np.abs(rest.astype(np.int64) - (1 << 28))
    return x[np.argsort(distance)[:256]]


@pytest.mark.parametrize("op", EXACT)
def test_float_correctly_rounded(lines, op):
    rng = np.random.default_rng(5)
    span = {"Exp": (-110, 92), "Ln": (1e-3, 1e3), "Rsqrt": (1e-3, 1e3)}[op]
    x = np.concatenate([
        hard_inputs(op),
        rng.uniform(*span, 1500).astype(np.float32),
        np.abs(rng.integers(0, 0x7F800000, 300, dtype=np.uint32).view(np.float32)),
    ])  # fmt: skip
    if op == "Exp":
        x = x[np.abs(x) < 104]
    image = put(random_image(6), 0, x)
    got = get(lines(f"{op} float", image)[0], 0, np.uint32, x.size)
    with np.errstate(all="ignore"):
        guess = {"Exp": np.exp, "Ln": np.log, "Rsqrt": lambda v: 1 / np.sqrt(v)}[op]
        guesses = guess(x.astype(np.float64))
        for i, value in enumerate(x):
            want = guesses[i]
            if guesses[i] != 0:
                want = nearest_float(EXACT[op](decimal.Decimal(float(value))), guesses[i])
            if np.float32(guesses[i]) == np.inf:
                want = np.inf if float(guesses[i]) > 3.4028235677973366e38 else want
            assert got[i] == np.float32(want).view(np.uint32), (op, value, want)


def test_hard_inputs_are_hard():
    """Some of them a double cannot decide: the second stage of the twin is reached."""
    x = hard_inputs("Rsqrt")
    y = 1 / np.sqrt(x.astype(np.float64))
    with np.errstate(all="ignore"):
        low, high = (y * (1 - 2.0**-48)).astype(np.float32), (y * (1 + 2.0**-48)).astype(np.float32)
    assert np.count_nonzero(low != high) > 0


@pytest.mark.parametrize("op", ("Exp", "Ln", "Rsqrt", "Sqrt", "Reciprocal", "Abs", "Relu"))
def test_float_special(lines, op):
    image = put(random_image(7), 0, SPECIAL)
    got = get(lines(f"{op} float", image)[0], 0, np.uint32, SPECIAL.size)
    x = SPECIAL.view(np.float32)
    with np.errstate(all="ignore"):
        y = UNARY[op](x.astype(np.float64))
        want = canonical(y.astype(np.float32))
    assert np.array_equal(got, want), [
        (hex(a), hex(b), hex(c)) for a, b, c in zip(SPECIAL, got, want, strict=True)
    ]


# ---- fused --------------------------------------------------------------------------------------


def exact_fma(a, b, c):
    """Bits of half of a * b + c, rounded once. Halves times 2^24 are whole: Python integers do."""
    out = []
    for x, y, z in zip(of_half(a), of_half(b), of_half(c), strict=True):
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            with np.errstate(all="ignore"):
                out.append(to_half(np.array([x * y + z]))[0])
            continue
        total = int(x * 2**24) * int(y * 2**24) + int(z * 2**24) * 2**24  # times 2^48
        if total == 0:
            with np.errstate(all="ignore"):
                out.append(to_half(np.array([x * y + z]))[0])
            continue
        magnitude = abs(total)
        exponent = max(magnitude.bit_length() - 11, 24)  # of the last place, times 2^-48
        kept, rest = magnitude >> exponent, magnitude & ((1 << exponent) - 1)
        half = 1 << (exponent - 1)
        kept += rest > half or (rest == half and kept & 1)
        code = kept + ((exponent - 24) << 10 if exponent > 24 or kept >= 1024 else 0)
        sign = 0x8000 if total < 0 else 0
        out.append(sign | min(code, 0x7C00))
    return np.array(out, np.uint16)


def test_fused_half(lines):
    a, b = operands("half", 8)
    c = np.random.default_rng(9).integers(0, 65536, 8192, dtype=np.uint16)
    with np.errstate(all="ignore"):
        c[4096:] = to_half(-of_half(a[4096:]) * of_half(b[4096:]))  # two roundings would show
    image = put(put(put(random_image(10), 0, c), 16384, a), 32768, b)
    want = exact_fma(a, b, c)
    assert_only(image, lines("MulAddDst half", image)[0], {0: want})
    with np.errstate(all="ignore"):
        twice = to_half(of_half(to_half(of_half(a) * of_half(b))) + of_half(c))
    assert np.count_nonzero(twice != want) > 1000  # control: the inputs tell the two apart
    swapped = exact_fma(a, c, b)  # dst = src0 * dst + src1
    assert_only(image, lines("FusedMulAdd half", image)[0], {0: swapped})
    relu = np.where((swapped & 0x8000 != 0) & (swapped & 0x7FFF <= 0x7C00), 0, swapped)
    assert_only(image, lines("FusedMulAddRelu half", image)[0], {0: relu.astype(np.uint16)})


def test_axpy_float_from_half(lines):
    x = np.random.default_rng(11).integers(0, 65536, 4096, dtype=np.uint16)
    old = np.random.default_rng(12).normal(size=4096).astype(np.float32)
    image = put(put(random_image(13), 0, old), 16384, x)
    with np.errstate(all="ignore"):
        want = canonical(
            (of_half(x) * 1.5 + old).astype(np.float32)
        )  # products are exact in double
    assert_only(image, lines("Axpy float half", image)[0], {0: want})


# ---- forms --------------------------------------------------------------------------------------

FORMS = {
    "mask": "Add(UB(float, 0), UB(float, 8192), UB(float, 16384), 37, 3, {1, 1, 1, 8, 8, 8});",
    "strides": "Add(UB(float, 0), UB(float, 8192), UB(float, 16384), 64, 2, {2, 1, 3, 20, 9, 30});",
    "bits": "uint64_t m[1] = {0x8000000180000005}; "
    "Add(UB(float, 0), UB(float, 8192), UB(float, 16384), m, 2, {1, 1, 1, 8, 8, 8});",
    "bits half": "uint64_t m[2] = {0x5, 0x8000000000000000}; "
    "Adds(UB(half, 0), UB(half, 8192), half(1.0f), m, 2, {1, 1, 8, 8});",
    "register": "SetVectorMask<float>(0, 0xf0); "
    "Add<float, false>(UB(float, 0), UB(float, 8192), UB(float, 16384), MASK_PLACEHOLDER, 2, "
    "{1, 1, 1, 8, 8, 8}); ResetMask();",
    "register len": "SetVectorMask<float>(5); "
    "Add<float, false>(UB(float, 0), UB(float, 8192), UB(float, 16384), MASK_PLACEHOLDER, 2, "
    "{1, 1, 1, 8, 8, 8}); ResetMask();",
    "register kept": "Add(UB(float, 0), UB(float, 8192), UB(float, 16384), 3, 1, "
    "{1, 1, 1, 8, 8, 8});"
    "Add<float, false>(UB(float, 256), UB(float, 8192), UB(float, 16384), MASK_PLACEHOLDER, 1, "
    "{1, 1, 1, 8, 8, 8});",
    "counter": "SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(100); "
    "Add<float, false>(UB(float, 0), UB(float, 8192), UB(float, 16384), MASK_PLACEHOLDER, 1, "
    "{1, 1, 1, 8, 8, 8}); SetMaskNorm(); ResetMask();",
    "counter mask": "SetMaskCount(); Add(UB(float, 0), UB(float, 8192), UB(float, 16384), 100, 1, "
    "{1, 1, 1, 8, 8, 8}); SetMaskNorm(); ResetMask();",
    "nothing": "Add(UB(float, 0), UB(float, 8192), UB(float, 16384), 0); "
    "Add(UB(float, 0), UB(float, 8192), UB(float, 16384), 64, 0, {1, 1, 1, 8, 8, 8}); "
    "uint64_t m[1] = {0}; "
    "Add(UB(float, 0), UB(float, 8192), UB(float, 16384), m, 1, {1, 1, 1, 8, 8, 8});",
    "dst in repeat": "Add(UB(float, 0), UB(float, 0), UB(float, 8192), 64, 4, {1, 1, 1, 0, 0, 8});",
    "shifted": "Adds(UB(float, 32), UB(float, 0), 1.0f, 64);",
    "Duplicate bits": "uint64_t m[2] = {~0ull, 0}; "
    "Duplicate(UB(half, 0), half(2.0f), m, 2, 2, 16);",
    "Duplicate count": "Duplicate(UB(int16_t, 0), int16_t(-3), 77);",
    "Duplicate negative zero": "Duplicate(UB(float, 0), -0.0f, 9);",
    "Duplicate bf16": "Duplicate(UB(bfloat16_t, 0), bfloat16_t(1.5f), 100);",
    "negative zero": "Adds(UB(float, 0), UB(float, 8192), -0.0f, 8);",
    "operators": "LocalTensor<float> d = UB(float, 0), a = UB(float, 8192), b = UB(float, 16384);"
    "d.SetSize(50); d = a * b;",
    "operator compare": "LocalTensor<uint8_t> d = UB(uint8_t, 0); "
    "LocalTensor<float> a = UB(float, 8192), b = UB(float, 16384); a.SetSize(128); d = a < b;",
    "operator and": "LocalTensor<int16_t> d = UB(int16_t, 0), a = UB(int16_t, 8192), "
    "b = UB(int16_t, 16384); d.SetSize(50); d = a & b;",
    "xor": "Xor(UB(uint16_t, 0), UB(uint16_t, 8192), UB(uint16_t, 16384), UB(uint8_t, 32768), 99);",
    "interpolate": "BilinearInterpolation(UB(half, 0), UB(half, 8192), UB(uint32_t, 32768), "
    "UB(half, 16384), uint64_t(100), 3, true, 2, 304, 2, UB(uint8_t, 40000));",
    "interpolate one": "BilinearInterpolation(UB(half, 0), UB(half, 8192), UB(uint32_t, 32768), "
    "UB(half, 16384), uint64_t(128), 2, false, 1, 128, 2, UB(uint8_t, 40000));",
    "shift left": "ShiftLeft(UB(uint16_t, 0), UB(uint16_t, 8192), uint16_t(16), 100);",
    "shift right": "ShiftRight(UB(int32_t, 0), UB(int32_t, 8192), 3, 64, 1, {1, 1, 8, 8}, true);",
    "shift right all": "ShiftRight(UB(int16_t, 0), UB(int16_t, 8192), int16_t(16), 100);",
    "muls int": "Muls(UB(int32_t, 0), UB(int32_t, 8192), 100003, 100);",
    "adds relu": "AddRelu(UB(int16_t, 0), UB(int16_t, 8192), UB(int16_t, 16384), 100);",
    "leaky": "LeakyRelu(UB(float, 0), UB(float, 8192), 0.1f, 100);",
}


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    return Lines(tmp_path_factory.mktemp("forms"), FORMS, unchecked=("shifted",))


@pytest.fixture(scope="module")
def image():
    rng = np.random.default_rng(20)
    base = put(random_image(20), 8192, rng.normal(size=2048).astype(np.float32))
    return put(base, 16384, rng.normal(size=2048).astype(np.float32))


def scattered(image, pieces):
    """The image with single elements at byte offsets."""
    return {int(at): value for at, value in pieces}


def test_mask_and_strides(forms, image):
    a, b = get(image, 8192, np.float32, 2048), get(image, 16384, np.float32, 2048)
    total = a + b
    rows = {r * 256: total[r * 64 : r * 64 + 37] for r in range(3)}
    assert_only(image, forms("mask", image)[0], rows)
    pieces = {}
    for r in range(2):
        for block in range(8):
            x = a[(r * 9 + block) * 8 :][:8]
            y = b[(r * 30 + block * 3) * 8 :][:8]
            pieces[(r * 20 + block * 2) * 32] = x + y
    assert_only(image, forms("strides", image)[0], pieces)
    lanes = [i for i in range(64) if 0x8000000180000005 >> i & 1]
    pieces = {4 * (r * 64 + i): total[r * 64 + i : r * 64 + i + 1] for r in range(2) for i in lanes}
    assert_only(image, forms("bits", image)[0], pieces)
    with np.errstate(all="ignore"):
        h = of_half(get(image, 8192, np.uint16, 256)) + 1
    pieces = {2 * (r * 128 + i): to_half(h[r * 128 + i :][:1]) for r in (0, 1) for i in (0, 2, 127)}
    assert_only(image, forms("bits half", image)[0], pieces)


def test_mask_registers(forms, image):
    a, b = get(image, 8192, np.float32, 2048), get(image, 16384, np.float32, 2048)
    total = a + b
    got = forms("register", image)[0]
    assert_only(image, got, {16: total[4:8], 256 + 16: total[68:72]})
    assert_only(image, forms("register len", image)[0], {0: total[:5], 256: total[64:69]})
    assert_only(image, forms("register kept", image)[0], {0: total[:3], 256: total[:3]})
    assert_only(image, forms("counter", image)[0], {0: total[:100]})
    assert_only(image, forms("counter mask", image)[0], {0: total[:100]})
    assert_only(image, forms("nothing", image)[0], {})
    with pytest.raises(AssertionError):  # control: one lane more or less is seen
        assert_only(image, forms("counter", image)[0], {0: total[:101]})


def test_order_within_and_between_repeats(forms, image):
    image = put(image, 0, np.arange(200, dtype=np.float32))
    b = get(image, 8192, np.float32, 256).reshape(4, 64)
    want = np.arange(64, dtype=np.float32)
    for row in b:  # each repeat reads what the one before wrote
        want = want + row
    assert_only(image, forms("dst in repeat", image)[0], {0: want})
    # Within a repeat everything is read first: not a running sum.
    assert_only(image, forms("shifted", image)[0], {32: np.arange(64, dtype=np.float32) + 1})


def test_duplicate(forms, image):
    two = to_half(np.full(16, 2.0))
    rows = {r * 512 + block * 64: two for r in range(2) for block in range(4)}
    assert_only(image, forms("Duplicate bits", image)[0], rows)
    assert_only(image, forms("Duplicate count", image)[0], {0: np.full(77, -3, np.int16)})
    zero = np.full(9, 0x80000000, np.uint32)
    assert_only(image, forms("Duplicate negative zero", image)[0], {0: zero})
    assert_only(image, forms("Duplicate bf16", image)[0], {0: np.full(100, 0x3FC0, np.uint16)})
    minus = put(image, 8192, np.full(8, -0.0, np.float32))
    assert_only(minus, forms("negative zero", minus)[0], {0: np.full(8, 0x80000000, np.uint32)})


def test_operators(forms, image):
    a, b = get(image, 8192, np.float32, 128), get(image, 16384, np.float32, 128)
    assert_only(image, forms("operators", image)[0], {0: (a * b)[:50]})
    bits = np.packbits(a < b, bitorder="little")
    assert_only(image, forms("operator compare", image)[0], {0: bits})
    i, j = get(image, 8192, np.int16, 50), get(image, 16384, np.int16, 50)
    assert_only(image, forms("operator and", image)[0], {0: i & j})


def test_integers(forms, image):
    image = put(
        image, 8192, np.random.default_rng(21).integers(-(2**31), 2**31, 512, dtype=np.int32)
    )
    assert_only(image, forms("shift left", image)[0], {0: np.zeros(100, np.uint16)})
    x = get(image, 8192, np.int32, 64)
    assert_only(image, forms("shift right", image)[0], {0: (x >> 3) + (x >> 2 & 1)})
    h = get(image, 8192, np.int16, 100)
    assert_only(
        image, forms("shift right all", image)[0], {0: np.where(h < 0, -1, 0).astype(np.int16)}
    )
    wide = get(image, 8192, np.int32, 100).astype(np.int64) * 100003
    assert_only(image, forms("muls int", image)[0], {0: wide.astype(np.int32)})
    total = (h.astype(np.int32) + get(image, 16384, np.int16, 100)).astype(np.int16)
    assert_only(image, forms("adds relu", image)[0], {0: np.maximum(total, 0)})


def test_xor(forms, image):
    a, b = get(image, 8192, np.uint16, 99), get(image, 16384, np.uint16, 99)
    assert_only(image, forms("xor", image)[0], {0: a ^ b})


def test_interpolation(forms, image):
    rng = np.random.default_rng(22)
    src, weights = rng.normal(size=(2, 1024)).astype(np.float16)
    offsets = (rng.integers(0, 60, 48) * 32).astype(np.uint32)
    image = put(put(put(image, 8192, src), 16384, weights), 32768, offsets)
    for name, lanes, rows, each, stride, step in (
        ("interpolate", 100, 3, True, 2, 304),
        ("interpolate one", 128, 2, False, 1, 128),
    ):
        want = {}
        for v in range(2):
            total = None
            for h in range(rows):
                i = v * rows + h
                blocks = [src[o // 2 :][:16] for o in offsets[i * 8 : i * 8 + 8]]
                by = weights[i * 8 : i * 8 + 8] if each else np.full(8, weights[i])
                product = np.concatenate([b * w for b, w in zip(blocks, by, strict=True)])
                total = product if total is None else total + product
            for block in range(8):
                piece = total[block * 16 : min(block * 16 + 16, lanes)]
                if piece.size:
                    want[2 * v * step + block * stride * 32] = piece
        assert_only(image, forms(name, image)[0], want)


def test_leaky_relu(forms, image):
    a = get(image, 8192, np.float32, 100)
    want = np.where(a < 0, a * np.float32(0.1), a)
    assert_only(image, forms("leaky", image)[0], {0: want})


# ---- faults, refusals, perturbation -------------------------------------------------------------

FAULTS = {
    "mask": "Adds(UB(float, 0), UB(float, 0), 1.0f, N, 1, {1, 1, 8, 8});",
    "shift-distance": "ShiftLeft(UB(int16_t, 0), UB(int16_t, 0), int16_t(N), 16);",
    "alignment": "Adds(UB(float, 4 * N), UB(float, 0), 1.0f, 8);",
}
VALUES = {"mask": (65, 64), "shift-distance": (-1, 16), "alignment": (1, 8)}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    table = {}
    for code, line in FAULTS.items():
        bad, good = VALUES[code]
        table[code], table[f"{code} good"] = (
            line.replace("N", str(bad)),
            line.replace("N", str(good)),
        )
    return Lines(tmp_path_factory.mktemp("faulty"), table)


@pytest.mark.parametrize("code", FAULTS)
def test_faults(faulty, image, code):
    with pytest.raises(TwinFault) as caught:
        faulty(code, image)
    assert caught.value.code == code
    faulty(f"{code} good", image)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Add(UB(int8_t, 0), UB(int8_t, 0), UB(int8_t, 0), 32);", "Add on dav-2201 takes"),
        ("And(UB(int32_t, 0), UB(int32_t, 0), UB(int32_t, 0), 32);", "And on dav-2201 takes"),
        ("Axpy(UB(half, 0), UB(float, 0), 1.0f, 32);", "Axpy on dav-2201 takes"),
        ("Cast(UB(half, 0), UB(bfloat16_t, 0), RoundMode::CAST_RINT, 32);", "Cast on dav-2201"),
    ],
)
def test_refused_in_one_sentence(tmp_path, line, words):
    with pytest.raises(BuildError, match=words):
        Lines(tmp_path, {"x": line})


def test_perturbation(lines):
    x = np.random.default_rng(30).uniform(-5, 5, 8192).astype(np.float32)
    x[4096:] = x[:4096]
    image = put(random_image(31), 0, x)
    plain = lines("Exp float", image)[0].view(np.int32)[:8192]
    moved = lines("Exp float", image, perturb=1)[0].view(np.int32)[:8192]
    step = moved - plain
    assert set(step.tolist()) == {-1, 0, 1}
    assert np.array_equal(step[:4096], step[4096:])  # the same input moves the same way
    other = lines("Exp float", image, perturb=2)[0].view(np.int32)[:8192]
    assert not np.array_equal(moved, other)
    again = lines("Exp float", image, perturb=1)[0].view(np.int32)[:8192]
    assert np.array_equal(moved, again)
    add = lines("Add float", image)[0]
    assert np.array_equal(add, lines("Add float", image, perturb=1)[0])  # exact: never moved


def test_saturation(tmp_path):
    """dav-2002: half results stop at 65504, NaN becomes 0; bits that only pass stay."""
    table = {
        "Exp": "Exp(UB(half, 0), UB(half, 0), 32768);",
        "Not": "Not(UB(uint16_t, 0), UB(uint16_t, 0), 32768);",
    }
    old = Lines(tmp_path, table, "dav-2002")
    for part in PARTS:
        with np.errstate(all="ignore"):
            want = to_half(np.exp(of_half(part)), saturate=True)
        assert np.array_equal(old("Exp", part.view(np.uint8))[0].view(np.uint16), want)
        assert np.array_equal(old("Not", part.view(np.uint8))[0].view(np.uint16), ~part)
