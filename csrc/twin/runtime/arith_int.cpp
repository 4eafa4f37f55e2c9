// Arithmetic on integers: it wraps around, and it says so in unsigned types.
#include "arith.h"
#include "simd.h"

namespace twin {
namespace {

template <typename T>
struct Unsigned;
#define TWIN_SIGNS(bits)              \
    template <>                       \
    struct Unsigned<int##bits##_t> {  \
        using type = uint##bits##_t;  \
    };                                \
    template <>                       \
    struct Unsigned<uint##bits##_t> { \
        using type = uint##bits##_t;  \
    };
TWIN_SIGNS(8)
TWIN_SIGNS(16)
TWIN_SIGNS(32)
TWIN_SIGNS(64)
#undef TWIN_SIGNS

template <typename T>
struct VectorOf {
    typedef T type __attribute__((vector_size(32)));
};

template <typename T>
constexpr bool is_signed() {
    return T(-1) < T(0);
}

// Each op on vectors of T; U is T without a sign.
struct AddInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return reinterpret_cast<V>(reinterpret_cast<U>(a) + reinterpret_cast<U>(b));
    }
};
struct SubInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return reinterpret_cast<V>(reinterpret_cast<U>(a) - reinterpret_cast<U>(b));
    }
};
struct MulInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return reinterpret_cast<V>(reinterpret_cast<U>(a) * reinterpret_cast<U>(b));
    }
};
struct MaxInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return a > b ? a : b;
    }
};
struct MinInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return a < b ? a : b;
    }
};
struct AndInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return a & b;
    }
};
struct OrInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return a | b;
    }
};
struct XorInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return a ^ b;
    }
};
struct NotInt {
    template <typename V, typename U>
    static V f(V a, V) {
        return ~a;
    }
};
struct AbsInt {
    template <typename V, typename U>
    static V f(V a, V) {
        return a < V{} ? reinterpret_cast<V>(U{} - reinterpret_cast<U>(a)) : a;
    }
};
struct ReluInt {
    template <typename V, typename U>
    static V f(V a, V) {
        return a < V{} ? V{} : a;
    }
};
struct AddReluInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return ReluInt::f<V, U>(AddInt::f<V, U>(a, b), b);
    }
};
struct SubReluInt {
    template <typename V, typename U>
    static V f(V a, V b) {
        return ReluInt::f<V, U>(SubInt::f<V, U>(a, b), b);
    }
};

template <typename T, typename Op>
void tensors(void *dst, const void *a, const void *b, uint32_t n, const Operands &) {
    using V = typename VectorOf<T>::type;
    using U = typename VectorOf<typename Unsigned<T>::type>::type;
    by_lanes<int(32 / sizeof(T)), T, T>(dst, a, b, n, [](T *d, const T *x, const T *y) {
        store(d, Op::template f<V, U>(load<V>(x), load<V>(y)));
    });
}

template <typename T>
T scalar_of(const Operands &operands) {
    T value;
    std::memcpy(&value, &operands.scalar, sizeof value);
    return value;
}

template <typename T, typename Op>
void with_scalar(void *dst, const void *a, const void *, uint32_t n, const Operands &operands) {
    using V = typename VectorOf<T>::type;
    using U = typename VectorOf<typename Unsigned<T>::type>::type;
    const V value = V{} + scalar_of<T>(operands);
    by_lanes<int(32 / sizeof(T)), T, T>(dst, a, a, n, [value](T *d, const T *x, const T *) {
        store(d, Op::template f<V, U>(load<V>(x), value));
    });
}

// Towards zero; the quotient by 0 has all its bits set, the one that overflows wraps (assumed).
template <typename T>
T quotient(T a, T b) {
    using U = typename Unsigned<T>::type;
    if (b == 0) {
        return T(~U(0));
    }
    if (is_signed<T>() && b == T(-1)) {
        return T(U(0) - U(a));
    }
    return T(a / b);
}

template <typename T>
void divide(void *dst, const void *a, const void *b, uint32_t n, const Operands &) {
    for (uint32_t i = 0; i < n; ++i) {
        static_cast<T *>(dst)[i] =
            quotient(static_cast<const T *>(a)[i], static_cast<const T *>(b)[i]);
    }
}

template <typename T>
void reciprocal(void *dst, const void *a, const void *, uint32_t n, const Operands &) {
    for (uint32_t i = 0; i < n; ++i) {
        static_cast<T *>(dst)[i] = quotient(T(1), static_cast<const T *>(a)[i]);
    }
}

// Shifts by up to the whole width; the driver has checked the distance.
template <typename T>
void shift_left(void *dst, const void *a, const void *, uint32_t n, const Operands &operands) {
    using U = typename Unsigned<T>::type;
    const uint32_t by = static_cast<uint32_t>(scalar_of<T>(operands));
    for (uint32_t i = 0; i < n; ++i) {
        const uint64_t x = static_cast<const U *>(a)[i];
        static_cast<U *>(dst)[i] = by >= 8 * sizeof(T) ? U(0) : U(x << by);
    }
}

template <typename T>
void shift_right(void *dst, const void *a, const void *, uint32_t n, const Operands &operands) {
    using U = typename Unsigned<T>::type;
    constexpr uint32_t width = 8 * sizeof(T);
    const uint32_t by = static_cast<uint32_t>(scalar_of<T>(operands));
    const bool rounds = is_signed<T>() && operands.mode != 0 && by != 0;
    for (uint32_t i = 0; i < n; ++i) {
        const U x = static_cast<const U *>(a)[i];
        const bool negative = is_signed<T>() && (x >> (width - 1)) != 0;
        U result = by >= width ? U(0) : U(x >> by);
        if (negative && by != 0) {
            result = U(result | (by >= width ? U(~U(0)) : U(U(~U(0)) << (width - by))));
        }
        if (rounds) {
            result = U(result + (x >> (by - 1) & 1));
        }
        static_cast<U *>(dst)[i] = result;
    }
}

// dst = src0 * dst + src1 and its like, for 64-bit integers.
template <typename T, int kind>
void multiply_add(void *dst, const void *a, const void *b, uint32_t n, const Operands &operands) {
    using U = typename Unsigned<T>::type;
    const U value = U(scalar_of<T>(operands));
    for (uint32_t i = 0; i < n; ++i) {
        const U x = static_cast<const U *>(a)[i], y = static_cast<const U *>(b)[i];
        U &d = static_cast<U *>(dst)[i];
        const U r = kind == 0 ? x * y + d : kind == 1 ? x * value + d : x * d + y;
        d = kind == 3 && T(r) < T(0) ? U(0) : r;
    }
}

template <typename T>
Arith of_type(Op op) {
    switch (op) {
        case Op::Add:
            return tensors<T, AddInt>;
        case Op::Sub:
            return tensors<T, SubInt>;
        case Op::Mul:
            return tensors<T, MulInt>;
        case Op::Div:
            return divide<T>;
        case Op::Max:
            return tensors<T, MaxInt>;
        case Op::Min:
            return tensors<T, MinInt>;
        case Op::And:
            return tensors<T, AndInt>;
        case Op::Or:
            return tensors<T, OrInt>;
        case Op::Xor:
            return tensors<T, XorInt>;
        case Op::Not:
            return tensors<T, NotInt>;
        case Op::Abs:
            return tensors<T, AbsInt>;
        case Op::Relu:
            return tensors<T, ReluInt>;
        case Op::Reciprocal:
            return reciprocal<T>;
        case Op::AddRelu:
            return tensors<T, AddReluInt>;
        case Op::SubRelu:
            return tensors<T, SubReluInt>;
        case Op::Adds:
            return with_scalar<T, AddInt>;
        case Op::Muls:
            return with_scalar<T, MulInt>;
        case Op::Maxs:
            return with_scalar<T, MaxInt>;
        case Op::Mins:
            return with_scalar<T, MinInt>;
        case Op::ShiftLeft:
            return shift_left<T>;
        case Op::ShiftRight:
            return shift_right<T>;
        case Op::MulAddDst:
            return sizeof(T) == 8 ? multiply_add<T, 0> : nullptr;
        case Op::Axpy:
            return sizeof(T) == 8 ? multiply_add<T, 1> : nullptr;
        case Op::FusedMulAdd:
            return sizeof(T) == 8 ? multiply_add<T, 2> : nullptr;
        case Op::FusedMulAddRelu:
            return sizeof(T) == 8 ? multiply_add<T, 3> : nullptr;
        default:
            return nullptr;
    }
}

}  // namespace

Arith integer_arithmetic(Op op, Type type) {
    switch (type) {
        case Type::kS8:
            return of_type<int8_t>(op);
        case Type::kU8:
            return of_type<uint8_t>(op);
        case Type::kS16:
            return of_type<int16_t>(op);
        case Type::kU16:
            return of_type<uint16_t>(op);
        case Type::kS32:
            return of_type<int32_t>(op);
        case Type::kU32:
            return of_type<uint32_t>(op);
        case Type::kS64:
            return of_type<int64_t>(op);
        case Type::kU64:
            return of_type<uint64_t>(op);
        default:
            return nullptr;
    }
}

}  // namespace twin
