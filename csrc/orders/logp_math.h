// Exp and Ln of fp32, correctly rounded, as the twin's: so whatever way leads there gives the same
// bits. Vectors of doubles decide nearly always; where a rounding boundary is too near, two doubles
// do. No libm: its results differ between versions.
#pragma once

#include "double2.h"
#include "linear_lanes.h"

namespace order {

using twin::kLn2High, twin::kLn2Low, twin::kLn2Mid, twin::kLog2E;

// The exact number rounded once to fp32.
inline float rounded(twin::Double2 a) {
    return float(twin::odd(a.hi, a.lo));
}

// Ln, correctly rounded: once a row, so always the long way.
inline float ln(float v) {
    if (!(v > 0)) {
        return v == 0 ? -__builtin_inff() : __builtin_nanf("");
    }
    if (v == __builtin_inff() || v == 1) {
        return v == 1 ? 0.0f : v;
    }
    const double x = v;
    const uint64_t bits = twin::double_to_bits(x);
    double m = twin::bits_to_double((bits & 0xfffffffffffff) | 0x3ff0000000000000);
    int e = int(bits >> 52) - 1023;
    if (m > 1.5) {
        m *= 0.5;
        ++e;
    }
    // ln m = 2 atanh s to some 40 bits; two doubles do the rest.
    const double s = (m - 1) / (m + 1), q = s * s;
    double series = 0;
    for (int i = 31; i >= 1; i -= 2) {
        series = series * q + 2.0 / i;
    }
    return rounded(twin::ln2x(x, e * (kLn2High + kLn2Mid) + s * series));
}

// ---- vectors
// -------------------------------------------------------------------------------------

constexpr int kDoubles = kLanes / 2;
typedef double Doubles __attribute__((vector_size(8 * kDoubles)));
typedef int64_t Longs __attribute__((vector_size(8 * kDoubles)));
using Halves = LanesOf<kDoubles>::F;  // as many fp32
using HalvesU = LanesOf<kDoubles>::U;

// e^x to 2^-41, for -700 < x < 700; NaN where x is.
ORDER_INLINE Doubles exp_near(Doubles x) {
    // Adding 1.5 2^52 rounds to a whole number, which stands in the lower bits.
    constexpr double kWhole = 0x1.8p52;
    const Doubles shifted = x * kLog2E + kWhole, k = shifted - kWhole;
    const Doubles r = (x - k * kLn2High) - k * (kLn2Mid + kLn2Low);
    constexpr double kInverse[] = {1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720,
                                   1.0 / 120,    1.0 / 24,    1.0 / 6,    0.5};
    Doubles p = r * (1.0 / 3628800) + kInverse[0];  // 1/10!, 1/9!, … ; the rest is below 2^-41.5
    for (int i = 1; i < 8; ++i) {
        p = p * r + kInverse[i];
    }
    const Longs scale = ((Longs)shifted - (0x4338000000000000 - 1023)) << 52;
    return (1 + (r + r * r * p)) * (Doubles)scale;
}

// out[i] = e^x[i], correctly rounded, of kDoubles numbers that are at most 0 or NaN.
ORDER_INLINE void exp_to(float *out, Halves x) {
    constexpr double kDoubt = 0x1p-40;
    x = x < -200.0f ? Halves{} - 200.0f : x;  // far below what rounds to +0
    const Doubles y = exp_near(__builtin_convertvector(x, Doubles));
    const Halves low = __builtin_convertvector(y - y * kDoubt, Halves);
    const Halves high = __builtin_convertvector(y + y * kDoubt, Halves);
    store(out, low);
    const HalvesU differ = (HalvesU)low ^ (HalvesU)high;
    uint64_t words[kDoubles / 2], any = 0;
    std::memcpy(words, &differ, sizeof words);
    for (uint64_t w : words) {
        any |= w;
    }
    if (__builtin_expect(any != 0, 0)) {
        for (int i = 0; i < kDoubles; ++i) {
            if (differ[i] != 0 && x[i] == x[i]) {
                out[i] = rounded(twin::exp2x(x[i]));
            }
        }
    }
}

}  // namespace order
