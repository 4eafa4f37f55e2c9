// Rounding, written out: nothing here depends on the machine's conversions beyond double -> float
// in round-to-nearest.
#pragma once

#include <cstring>

#include "twin/types.h"

namespace twin {

inline uint64_t double_to_bits(double d) {
    uint64_t u;
    std::memcpy(&u, &d, sizeof u);
    return u;
}

inline double bits_to_double(uint64_t u) {
    double d;
    std::memcpy(&d, &u, sizeof d);
    return d;
}

// hi + lo, where hi is the double nearest to it, rounded to odd: a later rounding to at most 51
// bits is then the only one that shows (Boldo and Melquiond).
inline double odd(double hi, double lo) {
    uint64_t bits = double_to_bits(hi);
    if (lo != 0 && hi - hi == 0 && (bits & 1) == 0) {
        bits += (lo > 0) == (hi > 0) ? 1 : uint64_t(-1);
        return bits_to_double(bits);
    }
    return hi;
}

// a + b rounded to odd.
inline double odd_sum(double a, double b) {
    const double sum = a + b;
    const double back = sum - a;
    return odd(sum, (a - (sum - back)) + (b - back));
}

// A double as a float, rounded to odd.
inline float odd_float(double d) {
    const float nearest = static_cast<float>(d);
    uint32_t bits = float_to_bits(nearest);
    if (double(nearest) != d && d == d && (bits & 1) == 0) {
        const double magnitude = d < 0 ? -d : d;
        bits += double(bits_to_float(bits & 0x7fffffffu)) > magnitude ? uint32_t(-1) : 1u;
    }
    return bits_to_float(bits);
}

// An integer as a double, rounded to odd.
inline double odd_double(int64_t value) {
    const uint64_t magnitude = value < 0 ? uint64_t(0) - uint64_t(value) : uint64_t(value);
    if (magnitude >> 53 == 0) {
        return double(value);
    }
    const int shift = 11 - __builtin_clzll(magnitude);
    const uint64_t kept = magnitude >> shift;
    const uint64_t sticky = (magnitude & ((uint64_t{1} << shift) - 1)) != 0;
    const double rounded = double(kept | sticky) * double(uint64_t{1} << shift);
    return value < 0 ? -rounded : rounded;
}

// Whether a magnitude with `kept` above and `rest` out of `unit` below the last place goes up.
template <AscendC::RoundMode mode>
inline bool rounds_up(uint64_t kept, uint64_t rest, uint64_t unit, bool negative) {
    using AscendC::RoundMode;
    switch (mode) {
        case RoundMode::CAST_FLOOR:
            return rest != 0 && negative;
        case RoundMode::CAST_CEIL:
            return rest != 0 && !negative;
        case RoundMode::CAST_ROUND:
            return rest >= unit / 2;
        case RoundMode::CAST_TRUNC:
            return false;
        case RoundMode::CAST_ODD:
            return rest != 0 && (kept & 1) == 0;
        default:  // CAST_NONE, CAST_RINT
            return rest > unit / 2 || (rest == unit / 2 && (kept & 1) != 0);
    }
}

// A double as a format of `fraction` stored bits and this bias: its bits, without NaN's payload.
// Beyond the largest number: infinity, except in a mode that rounds inwards there (assumed).
template <AscendC::RoundMode mode, int fraction, int bias>
inline uint32_t narrow(double value) {
    using AscendC::RoundMode;
    constexpr uint32_t inf = uint32_t(2 * bias + 1) << fraction;
    const uint64_t bits = double_to_bits(value);
    const bool negative = bits >> 63 != 0;
    const uint64_t magnitude = bits & ~(uint64_t{1} << 63);
    const uint32_t sign = uint32_t(negative) << (fraction == 23 ? 31 : 15);
    constexpr uint64_t infinite = uint64_t{0x7ff} << 52;
    if (magnitude > infinite) {
        return inf | uint32_t{1} << (fraction - 1);
    }
    if (magnitude == infinite) {
        return sign | inf;
    }
    if (magnitude == 0) {
        return sign;
    }
    // value = significand * 2^(exponent - 1075)
    const bool normal = magnitude >> 52 != 0;
    const int exponent = normal ? int(magnitude >> 52) : 1;
    const uint64_t significand = (magnitude & ((uint64_t{1} << 52) - 1)) | uint64_t(normal) << 52;
    const int field = exponent - 1023 + bias;
    const int target = field > 1 ? field : 1;
    int shift = (target - bias - fraction) - (exponent - 1075);
    shift = shift < 60 ? shift : 60;
    const uint64_t kept = significand >> shift;
    const uint64_t unit = uint64_t{1} << shift;
    const uint64_t rest = significand & (unit - 1);
    const uint64_t code =
        (uint64_t(target - 1) << fraction) + kept + rounds_up<mode>(kept, rest, unit, negative);
    if (code >= inf) {
        const bool inward = mode == RoundMode::CAST_TRUNC || mode == RoundMode::CAST_ODD ||
                            (mode == RoundMode::CAST_FLOOR && !negative) ||
                            (mode == RoundMode::CAST_CEIL && negative);
        return sign | (inward ? inf - 1 : inf);
    }
    return sign | uint32_t(code);
}

template <AscendC::RoundMode mode>
inline uint16_t narrow_to_half(double value) {
    return uint16_t(narrow<mode, 10, 15>(value));
}
template <AscendC::RoundMode mode>
inline uint16_t narrow_to_bf16(double value) {
    return uint16_t(narrow<mode, 7, 127>(value));
}
template <AscendC::RoundMode mode>
inline float narrow_to_float(double value) {
    return bits_to_float(narrow<mode, 23, 127>(value));
}

// A double as a whole number; infinities and NaN as they are.
template <AscendC::RoundMode mode>
inline double whole(double value) {
    using AscendC::RoundMode;
    switch (mode) {
        case RoundMode::CAST_FLOOR:
            return __builtin_floor(value);
        case RoundMode::CAST_CEIL:
            return __builtin_ceil(value);
        case RoundMode::CAST_TRUNC:
            return __builtin_trunc(value);
        case RoundMode::CAST_ROUND: {
            const double down = __builtin_trunc(value);
            const double rest = value - down;  // exact; NaN for infinities
            return rest >= 0.5 ? down + 1 : rest <= -0.5 ? down - 1 : down;
        }
        default:
            return __builtin_rint(value);
    }
}

// A whole double as an integer that stops at the ends of its type; NaN gives 0.
template <typename T>
inline T integer(double value) {
    constexpr bool has_sign = T(-1) < T(0);
    constexpr int bits = int(8 * sizeof(T)) - has_sign;
    // 2^bits
    constexpr double end = double(uint64_t{1} << (bits - 1)) * 2;
    constexpr T top = T(~uint64_t{0} >> (64 - bits));
    if (value != value) {
        return 0;
    }
    if (value >= end) {
        return top;
    }
    if (value <= (has_sign ? -end : 0.0)) {
        return has_sign ? T(-top - 1) : T(0);
    }
    return static_cast<T>(value);
}

}  // namespace twin
