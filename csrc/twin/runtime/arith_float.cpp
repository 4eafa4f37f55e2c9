// Arithmetic on float, half and bfloat16_t. A 16-bit result is computed in float and rounded once
// more, which for one sum, product, quotient or square root gives the correctly rounded result: 24
// bits are at least twice 11, and two more (Figueroa).
#include "arith.h"
#include "simd.h"

namespace twin {
namespace {

inline Vec pick(VecS which, Vec a, Vec b) {
    return float_of(which ? bits_of(a) : bits_of(b));
}

struct AddOp {
    static Vec f(Vec a, Vec b) { return a + b; }
};
struct SubOp {
    static Vec f(Vec a, Vec b) { return a - b; }
};
struct MulOp {
    static Vec f(Vec a, Vec b) { return a * b; }
};
struct DivOp {
    static Vec f(Vec a, Vec b) { return a / b; }
};
// IEEE 754-2019 maximum and minimum: a NaN wins, -0 is less than +0 (assumed).
struct MaxOp {
    static Vec f(Vec a, Vec b) {
        const Vec equal = float_of(bits_of(a) & bits_of(b));  // of -0 and +0: +0
        return pick(a != a, a, pick(b != b, b, pick(a == b, equal, pick(a > b, a, b))));
    }
};
struct MinOp {
    static Vec f(Vec a, Vec b) {
        const Vec equal = float_of(bits_of(a) | bits_of(b));
        return pick(a != a, a, pick(b != b, b, pick(a == b, equal, pick(a < b, a, b))));
    }
};
struct LeakyReluOp {
    static Vec f(Vec a, Vec b) { return pick(a < Vec{}, a * b, a); }
};
struct AbsOp {
    static Vec f(Vec a, Vec) { return float_of(bits_of(a) & 0x7fffffffu); }
};
struct ReluOp {
    static Vec f(Vec a, Vec) { return pick(a <= Vec{}, Vec{}, a); }
};
struct ReciprocalOp {
    static Vec f(Vec a, Vec) { return splat(1.0f) / a; }
};
struct SqrtOp {
    static Vec f(Vec a, Vec) {
        Vec r;
        for (int i = 0; i < kSimd; ++i) {
            r[i] = __builtin_sqrtf(a[i]);
        }
        return r;
    }
};

// How each type comes to float and back.
struct Float {
    using Element = float;
    static Vec in(const float *p) { return load<Vec>(p); }
    static void out(float *p, Vec v) { store(p, canonical(v)); }
    static float scalar(uint64_t bits) { return bits_to_float(uint32_t(bits)); }
};
struct Half {
    using Element = uint16_t;
    static Vec in(const uint16_t *p) { return widen_half(load<VecH>(p)); }
    static void out(uint16_t *p, Vec v) { store(p, narrow_half(v)); }
    static float scalar(uint64_t bits) { return half_to_float(uint16_t(bits)); }
};
struct Bf16 {
    using Element = uint16_t;
    static Vec in(const uint16_t *p) { return widen_bf16(load<VecH>(p)); }
    static void out(uint16_t *p, Vec v) { store(p, narrow_bf16(v)); }
    static float scalar(uint64_t bits) { return bfloat16_to_float(uint16_t(bits)); }
};

template <typename T, typename Op>
void tensors(void *dst, const void *a, const void *b, uint32_t n, const Operands &) {
    using E = typename T::Element;
    by_lanes<kSimd, E, E>(
        dst, a, b, n, [](E *d, const E *x, const E *y) { T::out(d, Op::f(T::in(x), T::in(y))); });
}

template <typename T, typename Op>
void with_scalar(void *dst, const void *a, const void *, uint32_t n, const Operands &operands) {
    using E = typename T::Element;
    const Vec value = splat(T::scalar(operands.scalar));
    by_lanes<kSimd, E, E>(
        dst, a, a, n, [value](E *d, const E *x, const E *) { T::out(d, Op::f(T::in(x), value)); });
}

// The sum or difference is rounded to the type before Relu.
template <typename T, typename Op>
void then_relu(void *dst, const void *a, const void *b, uint32_t n, const Operands &) {
    using E = typename T::Element;
    by_lanes<kSimd, E, E>(dst, a, b, n, [](E *d, const E *x, const E *y) {
        T::out(d, Op::f(T::in(x), T::in(y)));
        T::out(d, ReluOp::f(T::in(d), Vec{}));
    });
}

template <typename T>
Arith of_type(Op op) {
    switch (op) {
        case Op::Add:
            return tensors<T, AddOp>;
        case Op::Sub:
            return tensors<T, SubOp>;
        case Op::Mul:
            return tensors<T, MulOp>;
        case Op::Div:
            return tensors<T, DivOp>;
        case Op::Max:
            return tensors<T, MaxOp>;
        case Op::Min:
            return tensors<T, MinOp>;
        case Op::Abs:
            return tensors<T, AbsOp>;
        case Op::Relu:
            return tensors<T, ReluOp>;
        case Op::Reciprocal:
            return tensors<T, ReciprocalOp>;
        case Op::Sqrt:
            return tensors<T, SqrtOp>;
        case Op::Adds:
            return with_scalar<T, AddOp>;
        case Op::Muls:
            return with_scalar<T, MulOp>;
        case Op::Maxs:
            return with_scalar<T, MaxOp>;
        case Op::Mins:
            return with_scalar<T, MinOp>;
        case Op::LeakyRelu:
            return with_scalar<T, LeakyReluOp>;
        case Op::AddRelu:
            return then_relu<T, AddOp>;
        case Op::SubRelu:
            return then_relu<T, SubOp>;
        default:
            return nullptr;
    }
}

}  // namespace

Arith float_arithmetic(Op op, Type type) {
    switch (type) {
        case Type::kFloat:
            return of_type<Float>(op);
        case Type::kHalf:
            return of_type<Half>(op);
        case Type::kBf16:
            return of_type<Bf16>(op);
        default:
            return nullptr;
    }
}

}  // namespace twin
