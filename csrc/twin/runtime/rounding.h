// Half results of arithmetic, rounded once, in the overflow mode of the launch.
#pragma once

#include "twin/block.h"

namespace twin {

// The nearest half of v, as a float; ties to even. Without branches, so that loops become vectors.
// `saturate`: what overflows or is infinite becomes ±65504, a NaN +0.
inline float round_to_half(float v, bool saturate) {
    const uint32_t u = float_to_bits(v);
    const uint32_t sign = u & 0x80000000u;
    const uint32_t magnitude = u & 0x7fffffffu;
    const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u)) & ~0x1fffu;
    // Below 2^-14 halves are multiples of 2^-24, as floats from 0.5 to 1 are.
    const float small = (bits_to_float(magnitude) + 0.5f) - 0.5f;
    uint32_t r = magnitude < 0x38800000u ? float_to_bits(small) : normal;
    const bool over = magnitude >= 0x477ff000u;  // 65520 and above
    const bool nan = magnitude > 0x7f800000u;
    r = over ? (saturate ? 0x477fe000u : 0x7f800000u) : r;
    r |= sign;
    return bits_to_float(nan ? (saturate ? 0u : kNan) : r);
}

// Of a float that is a half: its bits.
inline uint16_t half_bits(float v) {
    const uint32_t u = float_to_bits(v);
    const uint32_t sign = (u >> 16) & 0x8000u;
    const uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude >= 0x7f800000u) {
        return static_cast<uint16_t>(magnitude > 0x7f800000u ? 0x7e00u : sign | 0x7c00u);
    }
    if (magnitude < 0x38800000u) {
        const float scaled = bits_to_float(magnitude) * 0x1p24f;  // an integer below 1024
        return static_cast<uint16_t>(sign | uint32_t(scaled));
    }
    return static_cast<uint16_t>(sign | ((magnitude - (112u << 23)) >> 13));
}

// The float that has the bits of a half; a NaN keeps its payload.
inline float half_value(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
    const uint32_t magnitude = uint32_t(bits & 0x7fffu) << 13;
    const uint32_t scaled = float_to_bits(bits_to_float(magnitude) * 0x1p112f);
    const bool special = (bits & 0x7c00u) == 0x7c00u;
    return bits_to_float(sign | (special ? magnitude | 0x7f800000u : scaled));
}

}  // namespace twin
