// What the high-level functions share: rows of float values, whatever the type in memory.
#pragma once

#include <cstdint>

#include "arith.h"
#include "check.h"

namespace twin {

// n elements of half or float, as float.
void load_values(float *to, const uint8_t *from, Type type, uint32_t n);
// And back: each rounded to the type, NaN canonical, overflow as the architecture has it.
void store_values(uint8_t *to, Type type, const double *values, uint32_t n);
void store_values(uint8_t *to, Type type, const float *values, uint32_t n);

// Exp and Ln as the vector unit's: correctly rounded to float. `to` may be `from`.
void exp_values(float *to, const float *from, uint32_t n);
void ln_values(float *to, const float *from, uint32_t n);

// The sum of a row in the order of ReduceSum's count form on dav-2201 (assumed for all): trees of
// adjacent pairs over the 64 lanes of a repeat (128 of half, each node a half), added in ascending
// order. `x` is not kept.
float sum_values(float *x, uint32_t n, bool as_half);

// Moves approximate results by an ulp, where the launch asks for it; `src` is what they came from.
void perturb_values(Op op, Type type, uint8_t *to, const uint8_t *src, uint32_t n);

inline uint32_t repeats_of(uint64_t bytes) {
    return static_cast<uint32_t>((bytes + kRepeat - 1) / kRepeat);
}

}  // namespace twin
