// Exp and Ln of fp32, correctly rounded, as the twin's: so whatever way leads there gives the same
// bits. Vectors of doubles decide nearly always; where a rounding boundary is too near, two doubles
// do. No libm: its results differ between versions.
#pragma once

#include "linear_lanes.h"

namespace order {

// ---- two doubles
// ---------------------------------------------------------------------------------

struct Two {
    double hi, lo;
};

inline Two exact_sum(double a, double b) {
    const double s = a + b, back = s - a;
    return {s, (a - (s - back)) + (b - back)};
}
inline Two exact_product(double a, double b) {
    const double p = a * b;
    return {p, __builtin_fma(a, b, -p)};
}
inline Two add(Two a, Two b) {
    const Two high = exact_sum(a.hi, b.hi), low = exact_sum(a.lo, b.lo);
    const Two s = exact_sum(high.hi, high.lo + low.hi);
    return exact_sum(s.hi, s.lo + low.lo);
}
inline Two multiply(Two a, Two b) {
    const Two p = exact_product(a.hi, b.hi);
    return exact_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
inline Two divide(Two a, double b) {
    const double q = a.hi / b;
    const Two p = exact_product(q, b);
    return exact_sum(q, add(a, {-p.hi, -p.lo}).hi / b);
}

inline double double_of(uint64_t bits) {
    double d;
    std::memcpy(&d, &bits, sizeof d);
    return d;
}

// a.hi + a.lo rounded once to fp32: to odd in double first, so that the second rounding is the only
// one that shows.
inline float rounded(Two a) {
    uint64_t bits;
    std::memcpy(&bits, &a.hi, sizeof bits);
    if (a.lo != 0 && (bits & 1) == 0) {
        bits += (a.lo > 0) == (a.hi > 0) ? 1 : uint64_t(-1);
    }
    return float(double_of(bits));
}

// ln 2 = high + mid + low to 2^-133; multiples of the first two up to 2^11 are exact.
constexpr double kLn2High = 0x1.62e42fefap-1, kLn2Mid = 0x1.cf79abc9ep-40;
constexpr double kLn2Low = 0x1.d9cc01f97b57ap-79, kLog2E = 0x1.71547652b82fep+0;

// e^x to about 2^-98, for |x| < 700.
inline Two exp_of(double x) {
    const double k = __builtin_rint(x * kLog2E);
    const Two r = add(add(exact_sum(x, -k * kLn2High), {-k * kLn2Mid, 0}), {-k * kLn2Low, 0});
    Two sum = {1, 0};
    for (int i = 26; i >= 1; --i) {  // 1 + r/1 (1 + r/2 (1 + r/3 …))
        sum = add({1, 0}, divide(multiply(sum, r), i));
    }
    const double scale = double_of(uint64_t(int64_t(k) + 1023) << 52);
    return {sum.hi * scale, sum.lo * scale};
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
    uint64_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    double m = double_of((bits & 0xfffffffffffff) | 0x3ff0000000000000);
    int e = int(bits >> 52) - 1023;
    if (m > 1.5) {
        m *= 0.5;
        ++e;
    }
    // ln m = 2 atanh s to some 40 bits; then once Newton's step, with its second term.
    const double s = (m - 1) / (m + 1), q = s * s;
    double series = 0;
    for (int i = 31; i >= 1; i -= 2) {
        series = series * q + 2.0 / i;
    }
    const double y = e * (kLn2High + kLn2Mid) + s * series;
    const Two rest = add(multiply(exp_of(-y), {x, 0}), {-1, 0});  // x e^-y - 1
    return rounded(add({y, 0}, {rest.hi - 0.5 * rest.hi * rest.hi, rest.lo}));
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
                out[i] = rounded(exp_of(x[i]));
            }
        }
    }
}

}  // namespace order
