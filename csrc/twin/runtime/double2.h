// Numbers of two doubles, and Exp and Ln in them: what decides where a double is too near a
// rounding boundary. csrc/orders takes them as well.
#pragma once

#include "round.h"

namespace twin {

struct Double2 {
    double hi, lo;
};

inline Double2 two_sum(double a, double b) {
    const double s = a + b, back = s - a;
    return {s, (a - (s - back)) + (b - back)};
}

inline Double2 fast_two_sum(double a, double b) {
    const double s = a + b;
    return {s, b - (s - a)};
}

inline Double2 two_product(double a, double b) {
    const double p = a * b;
    return {p, __builtin_fma(a, b, -p)};
}

inline Double2 add(Double2 a, Double2 b) {
    const Double2 s = two_sum(a.hi, b.hi), t = two_sum(a.lo, b.lo);
    const Double2 u = fast_two_sum(s.hi, s.lo + t.hi);
    return fast_two_sum(u.hi, u.lo + t.lo);
}

inline Double2 multiply(Double2 a, Double2 b) {
    const Double2 p = two_product(a.hi, b.hi);
    return fast_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

inline Double2 divide(Double2 a, double b) {
    const double q = a.hi / b;
    const Double2 p = two_product(q, b);
    const Double2 rest = add(a, {-p.hi, -p.lo});
    return fast_two_sum(q, rest.hi / b);
}

// ln 2 = kLn2High + kLn2Mid + kLn2Low to 2^-133; multiples of the first two up to 2^11 are
// exact.
constexpr double kLn2High = 0x1.62e42fefap-1;
constexpr double kLn2Mid = 0x1.cf79abc9ep-40;
constexpr double kLn2Low = 0x1.d9cc01f97b57ap-79;
constexpr double kLog2E = 0x1.71547652b82fep+0;

inline double scale(double value, int exponent) {  // exact for normal results
    return value * bits_to_double(uint64_t(exponent + 1023) << 52);
}

// e^x to about 2^-98, for |x| < 700.
inline Double2 exp2x(double x) {
    const double k = __builtin_rint(x * kLog2E);
    const Double2 r = add(add(two_sum(x, -k * kLn2High), {-k * kLn2Mid, 0}), {-k * kLn2Low, 0});
    Double2 sum = {1, 0};
    for (int i = 26; i >= 1; --i) {  // 1 + r/1 (1 + r/2 (1 + r/3 …))
        sum = add({1, 0}, divide(multiply(sum, r), i));
    }
    return {scale(sum.hi, int(k)), scale(sum.lo, int(k))};
}

// ln x to about 2^-95 from its double: y + (x e^-y - 1) - (x e^-y - 1)^2 / 2.
inline Double2 ln2x(double x, double y) {
    const Double2 t = add(multiply(exp2x(-y), {x, 0}), {-1, 0});
    return add({y, 0}, {t.hi - 0.5 * t.hi * t.hi, t.lo});
}

}  // namespace twin
