// Products that are added up: MulAddDst, Axpy, FusedMulAdd. Fused they round once; else the product
// is rounded to the type first.
#include "arith.h"
#include "round.h"

namespace twin {
namespace {

struct Float {
    using Element = float;
    static double in(float v) { return double(v); }
    static float out(double v) { return twin::canonical(float(v)); }
    static double scalar(uint64_t bits) { return bits_to_float(uint32_t(bits)); }
};
struct Half {
    using Element = uint16_t;
    static double in(uint16_t v) { return double(half_to_float(v)); }
    static uint16_t out(double v) { return float_to_half(odd_float(v)); }
    static double scalar(uint64_t bits) { return half_to_float(uint16_t(bits)); }
};
struct Bf16 {
    using Element = uint16_t;
    static double in(uint16_t v) { return double(bfloat16_to_float(v)); }
    static uint16_t out(double v) { return float_to_bfloat16(odd_float(v)); }
    static double scalar(uint64_t bits) { return bfloat16_to_float(uint16_t(bits)); }
};

// x * y + z in type D. The product of two floats is exact in double; the sum rounds to odd there,
// so that the rounding to D is the only one.
template <typename D>
inline typename D::Element multiply_add(double x, double y, double z, bool fused) {
    const double product = x * y;
    return fused ? D::out(odd_sum(product, z)) : D::out(odd_sum(D::in(D::out(product)), z));
}

enum Kind { kMulAddDst, kAxpy, kFusedMulAdd, kFusedMulAddRelu };

template <typename D, typename S, Kind kind>
void run(void *dst, const void *a, const void *b, uint32_t n, const Operands &operands) {
    auto *d = static_cast<typename D::Element *>(dst);
    auto *x = static_cast<const typename S::Element *>(a);
    auto *y = static_cast<const typename S::Element *>(b);
    const double value = S::scalar(operands.scalar);
    for (uint32_t i = 0; i < n; ++i) {
        const double old = D::in(d[i]);
        if (kind == kMulAddDst) {
            d[i] = multiply_add<D>(S::in(x[i]), S::in(y[i]), old, operands.fused);
        } else if (kind == kAxpy) {
            d[i] = multiply_add<D>(S::in(x[i]), value, old, operands.fused);
        } else {
            d[i] = multiply_add<D>(S::in(x[i]), old, S::in(y[i]), operands.fused);
            if (kind == kFusedMulAddRelu && D::in(d[i]) <= 0) {
                d[i] = 0;
            }
        }
    }
}

template <typename D, typename S>
Arith of_types(Op op) {
    switch (op) {
        case Op::MulAddDst:
            return run<D, S, kMulAddDst>;
        case Op::Axpy:
            return run<D, S, kAxpy>;
        case Op::FusedMulAdd:
            return run<D, S, kFusedMulAdd>;
        case Op::FusedMulAddRelu:
            return run<D, S, kFusedMulAddRelu>;
        default:
            return nullptr;
    }
}

}  // namespace

Arith fused_arithmetic(Op op, Type dst, Type src) {
    if (dst == Type::kFloat && src == Type::kFloat) {
        return of_types<Float, Float>(op);
    }
    if (dst == Type::kHalf && src == Type::kHalf) {
        return of_types<Half, Half>(op);
    }
    if (dst == Type::kFloat && src == Type::kHalf) {
        return of_types<Float, Half>(op);
    }
    if (dst == Type::kBf16 && src == Type::kBf16) {
        return of_types<Bf16, Bf16>(op);
    }
    return nullptr;
}

}  // namespace twin
