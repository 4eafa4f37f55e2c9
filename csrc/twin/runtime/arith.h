// The arithmetic of elementwise instructions on consecutive elements.
#pragma once

#include "twin/block.h"

namespace twin {

struct Operands {
    uint64_t scalar;  // the bits of the scalar operand, in the type of the source
    int16_t mode;
    bool fused;  // MulAddDst and its like round once
};

// Computes n elements. `dst` may be one of the sources (same element size); it overlaps them in no
// other way. An instruction that reads dst finds its old elements there. With one source, src1 is
// src0.
using Arith = void (*)(void *dst, const void *src0, const void *src1, uint32_t n,
                       const Operands &operands);

// Null: the instruction does not take these types or this mode.
Arith arithmetic(Op op, Type dst, Type src, int mode);
Arith float_arithmetic(Op op, Type type);             // arith_float.cpp
Arith fused_arithmetic(Op op, Type dst, Type src);    // arith_fused.cpp
Arith integer_arithmetic(Op op, Type type);           // arith_int.cpp
Arith cast_arithmetic(Type dst, Type src, int mode);  // convert.cpp
Arith transcendental(Op op, Type type);               // transcendental.cpp

// What becomes of n results where overflow saturates instead of giving an infinity: half and
// bfloat16_t infinities the largest number, NaN 0.
void saturate(void *dst, Type type, uint32_t n);

// How an approximate instruction's results move: -1, 0 or +1 ulp, by a hash of the seed and of what
// the instruction reads there, so that equal inputs give equal results.
void moves_of(int8_t *moves, uint64_t seed, Op op, const void *src0, const void *src1,
              uint32_t elem, uint64_t scalar, uint32_t n);
void move(void *dst, Type type, const int8_t *moves, uint32_t n);

constexpr uint32_t size_of(Type type) {
    switch (type) {
        case Type::kS16:
        case Type::kU16:
        case Type::kHalf:
        case Type::kBf16:
            return 2;
        case Type::kS32:
        case Type::kU32:
        case Type::kFloat:
            return 4;
        case Type::kS64:
        case Type::kU64:
        case Type::kDouble:
            return 8;
        default:
            return 1;
    }
}

}  // namespace twin
