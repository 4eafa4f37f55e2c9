// The compiler's vector types, as the arithmetic of the twin uses them. No intrinsics: the same
// text serves x86-64 and aarch64.
#pragma once

#include <cstring>

#include "twin/block.h"

namespace twin {

constexpr int kSimd = 8;
constexpr uint32_t kFloatLanes = kRepeat / sizeof(float);  // 64

typedef float Vec __attribute__((vector_size(kSimd * 4)));
typedef uint32_t VecU __attribute__((vector_size(kSimd * 4)));
typedef int32_t VecS __attribute__((vector_size(kSimd * 4)));
typedef uint16_t VecH __attribute__((vector_size(kSimd * 2)));

// Unaligned access through a type that may alias, not through memcpy: gcc expands that in halves by
// way of the stack.
template <typename V, typename T>
inline V load(const T *p) {
    typedef V Unaligned __attribute__((aligned(1), may_alias));
    return *reinterpret_cast<const Unaligned *>(p);
}

template <typename V, typename T>
inline void store(T *p, V v) {
    typedef V Unaligned __attribute__((aligned(1), may_alias));
    *reinterpret_cast<Unaligned *>(p) = v;
}

inline Vec splat(float value) {  // not Vec{} + value, which makes +0 of -0
    return Vec{value, value, value, value, value, value, value, value};
}

inline Vec canonical(Vec v) {
    const VecU nan = VecU{} + kNan;
    return reinterpret_cast<Vec>((v == v) ? reinterpret_cast<VecU>(v) : nan);
}

// ---- 16-bit floats as floats --------------------------------------------------------------------

inline VecU bits_of(Vec v) {
    return reinterpret_cast<VecU>(v);
}
inline Vec float_of(VecU v) {
    return reinterpret_cast<Vec>(v);
}

inline Vec widen_half(VecH bits) {
    const VecU h = __builtin_convertvector(bits, VecU);
    const VecU magnitude = (h & 0x7fffu) << 13;
    // Times 2^112 moves half's exponent range into float's; exact for subnormals too.
    const VecU scaled = bits_of(float_of(magnitude) * 0x1p112f);
    const VecU special = magnitude | 0x7f800000u;  // infinity, or NaN with its payload
    const auto finite = magnitude < (0x7c00u << 13);
    return float_of((finite ? scaled : special) | ((h & 0x8000u) << 16));
}

// Nearest even, overflow to infinity, NaN 0x7e00: float_to_half in vectors.
inline VecH narrow_half(Vec v) {
    const VecU u = bits_of(v);
    const VecU sign = (u >> 16) & 0x8000u;
    const VecU magnitude = u & 0x7fffffffu;
    VecU normal = magnitude - (112u << 23);
    normal = (normal + 0xfffu + ((normal >> 13) & 1u)) >> 13;
    // Below 2^-14: a multiple of 2^-24, rounded by one addition.
    const VecU small = bits_of(float_of(magnitude) + 0x1p-1f) - 0x3f000000u;
    VecU result = magnitude < 0x38800000u ? small : normal;
    result = magnitude >= 0x477ff000u ? VecU{} + 0x7c00u : result;
    result |= sign;
    result = magnitude > 0x7f800000u ? VecU{} + 0x7e00u : result;
    return __builtin_convertvector(result, VecH);
}

inline Vec widen_bf16(VecH bits) {
    return float_of(__builtin_convertvector(bits, VecU) << 16);
}

inline VecH narrow_bf16(Vec v) {
    const VecU u = bits_of(v);
    VecU result = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    result = (u & 0x7fffffffu) > 0x7f800000u ? VecU{} + 0x7fc0u : result;
    return __builtin_convertvector(result, VecH);
}

// ---- loops --------------------------------------------------------------------------------------

// Calls f(dst, src0, src1) for L elements at a time; the last ones go through buffers of L
// elements, the old elements of dst too.
template <int L, typename D, typename S, typename F>
inline void by_lanes(void *dst, const void *src0, const void *src1, uint32_t n, F f) {
    auto *d = static_cast<D *>(dst);
    auto *a = static_cast<const S *>(src0);
    auto *b = static_cast<const S *>(src1);
    uint32_t i = 0;
    for (; i + L <= n; i += L) {
        f(d + i, a + i, b + i);
    }
    if (const uint32_t rest = n - i) {
        D td[L] = {};
        S ta[L] = {}, tb[L] = {};
        std::memcpy(td, d + i, rest * sizeof(D));
        std::memcpy(ta, a + i, rest * sizeof(S));
        std::memcpy(tb, b + i, rest * sizeof(S));
        f(td, ta, tb);
        std::memcpy(d + i, td, rest * sizeof(D));
    }
}

}  // namespace twin
