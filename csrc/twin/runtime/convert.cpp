// Conversions between element types. Floats go by way of double, which holds every source exactly;
// the usual ones have a loop of their own.
#include "arith.h"
#include "round.h"
#include "simd.h"

namespace twin {

float half_to_float(uint16_t bits) {
    uint32_t sign = uint32_t(bits & 0x8000u) << 16;
    uint32_t magnitude = uint32_t(bits & 0x7fffu) << 13;
    if ((bits & 0x7c00u) == 0x7c00u) {
        return bits_to_float(sign | magnitude | 0x7f800000u);
    }
    return bits_to_float(sign | float_to_bits(bits_to_float(magnitude) * 0x1p112f));
}

uint16_t float_to_half(float value) {
    uint32_t u = float_to_bits(value);
    uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
    uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return 0x7e00u;
    }
    if (magnitude >= 0x477ff000u) {  // 65520 and above round to infinity
        return sign | 0x7c00u;
    }
    if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, rounded by one addition
        float aligned = bits_to_float(magnitude) + 0x1p-1f;
        return static_cast<uint16_t>(sign | (float_to_bits(aligned) - 0x3f000000u));
    }
    uint32_t rounded = magnitude - (112u << 23);
    rounded += 0xfffu + ((rounded >> 13) & 1u);
    return static_cast<uint16_t>(sign | (rounded >> 13));
}

float bfloat16_to_float(uint16_t bits) {
    return bits_to_float(uint32_t(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
    uint32_t u = float_to_bits(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
        return 0x7fc0u;
    }
    return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

namespace {

using AscendC::RoundMode;

// ---- the usual ones -----------------------------------------------------------------------------

using Bits = uint16_t;  // of half and bfloat16_t

void half_to_floats(void *dst, const void *src, const void *, uint32_t n, const Operands &) {
    by_lanes<kSimd, float, Bits>(dst, src, src, n, [](float *d, const Bits *x, const Bits *) {
        store(d, canonical(widen_half(load<VecH>(x))));
    });
}

void bf16_to_floats(void *dst, const void *src, const void *, uint32_t n, const Operands &) {
    by_lanes<kSimd, float, Bits>(dst, src, src, n, [](float *d, const Bits *x, const Bits *) {
        store(d, canonical(widen_bf16(load<VecH>(x))));
    });
}

void floats_to_half(void *dst, const void *src, const void *, uint32_t n, const Operands &) {
    by_lanes<kSimd, Bits, float>(dst, src, src, n, [](Bits *d, const float *x, const float *) {
        store(d, narrow_half(load<Vec>(x)));
    });
}

void floats_to_bf16(void *dst, const void *src, const void *, uint32_t n, const Operands &) {
    by_lanes<kSimd, Bits, float>(dst, src, src, n, [](Bits *d, const float *x, const float *) {
        store(d, narrow_bf16(load<Vec>(x)));
    });
}

void int32_to_floats(void *dst, const void *src, const void *, uint32_t n, const Operands &) {
    by_lanes<kSimd, float, int32_t>(
        dst, src, src, n, [](float *d, const int32_t *x, const int32_t *) {
            store(d, __builtin_convertvector(load<VecS>(x), Vec));  // nearest even, as the machine
        });
}

// ---- every one ----------------------------------------------------------------------------------

// half and bfloat16_t as types of their own here, whatever the kernel's are.
struct H {
    uint16_t bits;
};
struct B {
    uint16_t bits;
};

inline double in(H v) {
    return double(half_to_float(v.bits));
}
inline double in(B v) {
    return double(bfloat16_to_float(v.bits));
}
inline double in(float v) {
    return double(v);
}
inline double in(double v) {
    return v;
}
inline double in(int64_t v) {
    return odd_double(v);
}
template <typename T>
inline double in(T v) {
    return double(v);  // exact
}

template <typename T>
struct IsFloat {
    static constexpr bool value = false;
};
template <>
struct IsFloat<H> {
    static constexpr bool value = true;
};
template <>
struct IsFloat<B> {
    static constexpr bool value = true;
};
template <>
struct IsFloat<float> {
    static constexpr bool value = true;
};
template <>
struct IsFloat<double> {
    static constexpr bool value = true;
};

template <typename D, typename S, RoundMode mode>
inline D one(S value) {
    if constexpr (AscendC::IsSameType<D, H>::value) {
        return {narrow_to_half<mode>(in(value))};
    } else if constexpr (AscendC::IsSameType<D, B>::value) {
        return {narrow_to_bf16<mode>(in(value))};
    } else if constexpr (AscendC::IsSameType<D, float>::value) {
        if constexpr (AscendC::IsSameType<S, float>::value) {
            return canonical(float(whole<mode>(in(value))));  // float to float: to whole numbers
        } else {
            return narrow_to_float<mode>(in(value));
        }
    } else if constexpr (AscendC::IsSameType<D, double>::value) {
        return double(value);  // int64_t: see `to_double`
    } else if constexpr (IsFloat<S>::value) {
        return integer<D>(whole<mode>(in(value)));
    } else {
        // Between integers: stops at the ends of the type.
        constexpr bool has_sign = D(-1) < D(0);
        constexpr int bits = int(8 * sizeof(D)) - has_sign;
        const int64_t x = int64_t(value);
        if constexpr (bits < 63) {
            constexpr int64_t top = (int64_t{1} << bits) - 1, bottom = has_sign ? -top - 1 : 0;
            return D(x > top ? top : x < bottom ? bottom : x);
        } else {
            return D(x);
        }
    }
}

template <typename D, typename S, RoundMode mode>
void all(void *dst, const void *src, const void *, uint32_t n, const Operands &) {
    for (uint32_t i = 0; i < n; ++i) {
        static_cast<D *>(dst)[i] = one<D, S, mode>(static_cast<const S *>(src)[i]);
    }
}

// int64_t to double in each mode: the nearest, then one step where it lies on the wrong side.
template <RoundMode mode>
void to_double(void *dst, const void *src, const void *, uint32_t n, const Operands &) {
    for (uint32_t i = 0; i < n; ++i) {
        const int64_t value = static_cast<const int64_t *>(src)[i];
        const bool negative = value < 0;
        const uint64_t magnitude = negative ? uint64_t(0) - uint64_t(value) : uint64_t(value);
        double result = double(magnitude);
        if (magnitude >> 53 != 0) {
            const int shift = 11 - __builtin_clzll(magnitude);
            const uint64_t unit = uint64_t{1} << shift, kept = magnitude >> shift;
            const bool up = rounds_up<mode>(kept, magnitude & (unit - 1), unit, negative);
            result = double(kept + up) * double(unit);
        }
        static_cast<double *>(dst)[i] = negative ? -result : result;
    }
}

template <typename D, typename S>
Arith of_types(RoundMode mode) {
    switch (mode) {
        case RoundMode::CAST_NONE:
        case RoundMode::CAST_RINT:
            return all<D, S, RoundMode::CAST_RINT>;
        case RoundMode::CAST_FLOOR:
            return all<D, S, RoundMode::CAST_FLOOR>;
        case RoundMode::CAST_CEIL:
            return all<D, S, RoundMode::CAST_CEIL>;
        case RoundMode::CAST_ROUND:
            return all<D, S, RoundMode::CAST_ROUND>;
        case RoundMode::CAST_TRUNC:
            return all<D, S, RoundMode::CAST_TRUNC>;
        case RoundMode::CAST_ODD:
            return all<D, S, RoundMode::CAST_ODD>;
    }
    return nullptr;
}

Arith to_doubles(RoundMode mode) {
    switch (mode) {
        case RoundMode::CAST_FLOOR:
            return to_double<RoundMode::CAST_FLOOR>;
        case RoundMode::CAST_CEIL:
            return to_double<RoundMode::CAST_CEIL>;
        case RoundMode::CAST_ROUND:
            return to_double<RoundMode::CAST_ROUND>;
        case RoundMode::CAST_TRUNC:
            return to_double<RoundMode::CAST_TRUNC>;
        default:
            return to_double<RoundMode::CAST_RINT>;
    }
}

// Between integers no mode has an effect.
template <typename D, typename S>
Arith exact() {
    return all<D, S, RoundMode::CAST_RINT>;
}

// What of the types a source is converted to; the table of ascend_api.json, all architectures.
template <typename S>
Arith from_float(Type dst, RoundMode mode) {
    switch (dst) {
        case Type::kS8:
            return of_types<int8_t, S>(mode);
        case Type::kU8:
            return of_types<uint8_t, S>(mode);
        case Type::kS16:
            return of_types<int16_t, S>(mode);
        case Type::kS32:
            return of_types<int32_t, S>(mode);
        case Type::kS64:
            return of_types<int64_t, S>(mode);
        case Type::kHalf:
            return of_types<H, S>(mode);
        case Type::kBf16:
            return of_types<B, S>(mode);
        case Type::kFloat:
            return of_types<float, S>(mode);
        default:
            return nullptr;
    }
}

template <typename S>
Arith from_integer(Type dst, RoundMode mode) {
    switch (dst) {
        case Type::kS8:
            return exact<int8_t, S>();
        case Type::kU8:
            return exact<uint8_t, S>();
        case Type::kS16:
            return exact<int16_t, S>();
        case Type::kU16:
            return exact<uint16_t, S>();
        case Type::kS32:
            return exact<int32_t, S>();
        case Type::kU32:
            return exact<uint32_t, S>();
        case Type::kS64:
            return exact<int64_t, S>();
        case Type::kHalf:
            return of_types<H, S>(mode);
        case Type::kBf16:
            return of_types<B, S>(mode);
        case Type::kFloat:
            return of_types<float, S>(mode);
        default:
            return nullptr;
    }
}

}  // namespace

Arith cast_arithmetic(Type dst, Type src, int mode) {
    const auto round = static_cast<RoundMode>(mode);
    const bool nearest = round == RoundMode::CAST_NONE || round == RoundMode::CAST_RINT;
    if (nearest) {
        if (src == Type::kFloat && dst == Type::kHalf) {
            return floats_to_half;
        }
        if (src == Type::kFloat && dst == Type::kBf16) {
            return floats_to_bf16;
        }
        if (src == Type::kHalf && dst == Type::kFloat) {
            return half_to_floats;
        }
        if (src == Type::kBf16 && dst == Type::kFloat) {
            return bf16_to_floats;
        }
        if (src == Type::kS32 && dst == Type::kFloat) {
            return int32_to_floats;
        }
    }
    switch (src) {
        case Type::kHalf:
            return from_float<H>(dst, round);
        case Type::kBf16:
            return from_float<B>(dst, round);
        case Type::kFloat:
            return from_float<float>(dst, round);
        case Type::kDouble:
            return from_float<double>(dst, round);
        case Type::kS8:
            return from_integer<int8_t>(dst, round);
        case Type::kU8:
            return from_integer<uint8_t>(dst, round);
        case Type::kS16:
            return from_integer<int16_t>(dst, round);
        case Type::kU16:
            return from_integer<uint16_t>(dst, round);
        case Type::kS32:
            return from_integer<int32_t>(dst, round);
        case Type::kU32:
            return from_integer<uint32_t>(dst, round);
        case Type::kS64:
            return dst == Type::kDouble ? to_doubles(round) : from_integer<int64_t>(dst, round);
        default:
            return nullptr;
    }
}

}  // namespace twin
