// Exp, Ln and Rsqrt, correctly rounded. A double within 2^-48 of the truth decides nearly always;
// where a rounding boundary lies that near, the rest is decided in twice the precision (Exp, Ln) or
// in integers (Rsqrt). No libm: its results differ between versions.
#include "arith.h"
#include "double2.h"
#include "simd.h"

namespace twin {
namespace {

// ---- double -------------------------------------------------------------------------------------

constexpr double kDoubt = 0x1p-48;

// Four at a time; the same text for one.
typedef double Double4 __attribute__((vector_size(32)));
typedef int64_t Int4 __attribute__((vector_size(32)));

// Adding 1.5 * 2^52 to a small number rounds it to a whole one, which stands in the lower bits.
constexpr double kWhole = 0x1.8p52;
constexpr int64_t kWholeBits = 0x4338000000000000;

// e^x to 2^-49, for |x| < 700.
inline Double4 exp4x(Double4 x) {
    const Double4 shifted = x * kLog2E + kWhole;
    const Double4 k = shifted - kWhole;
    const Double4 r = (x - k * kLn2High) - k * (kLn2Mid + kLn2Low);
    constexpr double kInverse[] = {
        1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
        1.0 / 720,       1.0 / 120,      1.0 / 24,      1.0 / 6,      0.5};
    Double4 p = r * (1.0 / 6227020800) + kInverse[0];  // 1/13!, 1/12!, …
    for (int i = 1; i < 11; ++i) {
        p = p * r + kInverse[i];
    }
    const Int4 scale = (reinterpret_cast<Int4>(shifted) - (kWholeBits - 1023)) << 52;
    return (1 + (r + r * r * p)) * reinterpret_cast<Double4>(scale);
}

// ln x to 2^-49, for 0 < x < infinity: x = m 2^e with m from sqrt(1/2) to sqrt(2), and
// ln m = 2 atanh((m - 1) / (m + 1)).
inline Double4 ln4x(Double4 x) {
    const Int4 bits = reinterpret_cast<Int4>(x);
    const Double4 raw = reinterpret_cast<Double4>((bits & 0xfffffffffffff) | 0x3ff0000000000000);
    const Int4 large = raw > 0x1.6a09e667f3bcdp+0;  // all bits where it is
    const Double4 m = large ? raw * 0.5 : raw;
    const Int4 exponent = (bits >> 52) - 1023 - large;
    const Double4 e = reinterpret_cast<Double4>(exponent + kWholeBits) - kWhole;
    const Double4 f = m - 1, s = f / (m + 1), q = s * s;
    constexpr double kInverse[] = {1.0 / 25, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15,
                                   1.0 / 13, 1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
    Double4 p = q * (1.0 / 27) + kInverse[0];
    for (int i = 1; i < 12; ++i) {
        p = p * q + kInverse[i];
    }
    // f - s f is 2 s, without the rounding of s in the leading term.
    const Double4 log_m = f - s * (f - 2 * q * p);
    return e * kLn2High + (log_m + e * (kLn2Mid + kLn2Low));
}

inline double exp1x(double x) {
    return exp4x(Double4{x, x, x, x})[0];
}
inline double ln1x(double x) {
    return ln4x(Double4{x, x, x, x})[0];
}

// ---- to the element type ------------------------------------------------------------------------

struct Float {
    using Element = float;
    static double in(float v) { return double(v); }
    static float out(double v) { return static_cast<float>(v); }
    static float nan() { return bits_to_float(kNan); }
    // A result is sure where both ends of this relative interval around its double round to it.
    static constexpr double kInterval = 0x1p-48;
    static Vec load8(const float *p) { return load<Vec>(p); }
    static VecS store8(float *p, Vec low, Vec high) {
        store(p, low);
        return bits_of(low) == bits_of(high);
    }
};
struct Half {
    using Element = half;
    static double in(half v) { return double(half_to_float(v.bits)); }
    static half out(double v) {
        half h;
        h.bits = float_to_half(odd_float(v));
        return h;
    }
    static half nan() {
        half h;
        h.bits = 0x7e00;
        return h;
    }
    // Wide enough for the rounding to float on the way.
    static constexpr double kInterval = 0x1p-20;
    static Vec load8(const half *p) { return widen_half(load<VecH>(&p->bits)); }
    static VecS store8(half *p, Vec low, Vec high) {
        const VecH l = narrow_half(low), h = narrow_half(high);
        store(&p->bits, l);
        return __builtin_convertvector(l, VecS) == __builtin_convertvector(h, VecS);
    }
};

inline bool same(float a, float b) {
    return float_to_bits(a) == float_to_bits(b);
}
inline bool same(half a, half b) {
    return a.bits == b.bits;
}

constexpr double kInfinity = __builtin_inf();

struct ExpOp {
    static Double4 f4(Double4 x) { return exp4x(x); }
    static VecS usual(Vec x) { return (x > -200.0f) & (x < 200.0f); }
    template <typename T>
    static typename T::Element f(double x) {
        if (x != x) {
            return T::nan();
        }
        if (x > 200) {
            return T::out(kInfinity);
        }
        if (x < -200) {
            return T::out(0);
        }
        const double y = exp1x(x);
        const auto low = T::out(y - y * kDoubt), high = T::out(y + y * kDoubt);
        if (same(low, high)) {
            return low;
        }
        const Double2 exact = exp2x(x);
        return T::out(odd(exact.hi, exact.lo));
    }
};

struct LnOp {
    static Double4 f4(Double4 x) { return ln4x(x); }
    static VecS usual(Vec x) { return (x > 0.0f) & (x < __builtin_inff()); }
    template <typename T>
    static typename T::Element f(double x) {
        if (x != x || x < 0) {
            return T::nan();
        }
        if (x == 0) {
            return T::out(-kInfinity);
        }
        if (x == kInfinity || x == 1) {
            return T::out(x == 1 ? 0 : x);
        }
        const double y = ln1x(x);
        const auto low = T::out(y - y * kDoubt), high = T::out(y + y * kDoubt);
        if (same(low, high)) {
            return low;
        }
        const Double2 exact = ln2x(x, y);
        return T::out(odd(exact.hi, exact.lo));
    }
};

// Whether 1 / sqrt(x) is above `m`, both positive; x has 24 bits, m has 25, so m^2 x has 74. It is
// never equal to a midpoint m: then x = 1 / m^2 with an odd m of 25 bits would have no end in
// binary.
inline bool rsqrt_above(double x, double m) {
    int ex, em;
    const double fx = __builtin_frexp(x, &ex), fm = __builtin_frexp(m, &em);
    const auto ix = static_cast<unsigned __int128>(fx * 0x1p24);
    const auto im = static_cast<unsigned __int128>(fm * 0x1p25);
    // m^2 x = im^2 ix 2^(2 em - 50 + ex - 24) < 1
    const int shift = 50 + 24 - 2 * em - ex;
    return shift >= 0 && (shift > 100 || im * im * ix < static_cast<unsigned __int128>(1) << shift);
}

struct RsqrtOp {
    template <typename T>
    static typename T::Element f(double x) {
        if (x != x || x < 0) {
            return T::nan();
        }
        if (x == 0) {
            return T::out(1 / x);
        }
        if (x == kInfinity) {
            return T::out(0);
        }
        const double y = 1 / __builtin_sqrt(x);
        const auto low = T::out(y * (1 - kDoubt)), high = T::out(y * (1 + kDoubt));
        if (same(low, high)) {
            return low;
        }
        // Two neighbours: the midpoint between them decides.
        return rsqrt_above(x, (T::in(low) + T::in(high)) / 2) ? high : low;
    }
};

template <typename T, typename Op>
void run(void *dst, const void *a, const void *, uint32_t n, const Operands &) {
    for (uint32_t i = 0; i < n; ++i) {
        static_cast<typename T::Element *>(dst)[i] =
            Op::template f<T>(T::in(static_cast<const typename T::Element *>(a)[i]));
    }
}

// Eight at a time; what is not sure of them, or not usual, one by one.
template <typename T, typename Op>
void run8(void *dst, const void *a, const void *, uint32_t n, const Operands &) {
    using E = typename T::Element;
    typedef float Float4 __attribute__((vector_size(16)));
    by_lanes<kSimd, E, E>(dst, a, a, n, [](E *d, const E *x, const E *) {
        E source[kSimd];
        std::memcpy(source, x, sizeof source);
        const Vec v = T::load8(source);
        float in[kSimd], low[kSimd], high[kSimd];
        const VecS usual = Op::usual(v);
        store(in, float_of(usual ? bits_of(v) : bits_of(splat(1.0f))));
        for (int half = 0; half < kSimd; half += 4) {
            const Double4 y = Op::f4(__builtin_convertvector(load<Float4>(in + half), Double4));
            store(low + half, __builtin_convertvector(y - y * T::kInterval, Float4));
            store(high + half, __builtin_convertvector(y + y * T::kInterval, Float4));
        }
        const VecS sure = T::store8(d, load<Vec>(low), load<Vec>(high)) & usual;
        int all = -1;
        for (int i = 0; i < kSimd; ++i) {
            all &= sure[i];
        }
        for (int i = 0; i < kSimd && all == 0; ++i) {
            if (sure[i] == 0) {
                d[i] = Op::template f<T>(T::in(source[i]));
            }
        }
    });
}

}  // namespace

Arith transcendental(Op op, Type type) {
    const bool is_half = type == Type::kHalf;
    if (!is_half && type != Type::kFloat) {
        return nullptr;
    }
    switch (op) {
        case Op::Exp:
            return is_half ? run8<Half, ExpOp> : run8<Float, ExpOp>;
        case Op::Ln:
            return is_half ? run8<Half, LnOp> : run8<Float, LnOp>;
        case Op::Rsqrt:
            return is_half ? run<Half, RsqrtOp> : run<Float, RsqrtOp>;
        default:
            return nullptr;
    }
}

}  // namespace twin
