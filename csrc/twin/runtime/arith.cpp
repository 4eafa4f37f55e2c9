// Which arithmetic an instruction has, and what is common to all results.
#include "arith.h"

#include "simd.h"

namespace twin {
namespace {

template <typename T>
void fill(void *dst, const void *, const void *, uint32_t n, const Operands &operands) {
    T value;
    std::memcpy(&value, &operands.scalar, sizeof value);
    for (uint32_t i = 0; i < n; ++i) {
        static_cast<T *>(dst)[i] = value;
    }
}

// A float NaN has passed the scalar unit (tensor.h): the twin's one NaN.
void fill_float(void *dst, const void *, const void *, uint32_t n, const Operands &operands) {
    const Vec value = canonical(splat(bits_to_float(uint32_t(operands.scalar))));
    by_lanes<kSimd, float, float>(
        dst, dst, dst, n, [value](float *d, const float *, const float *) { store(d, value); });
}

Arith duplicate_arithmetic(Type type) {
    if (type == Type::kFloat) {
        return fill_float;
    }
    switch (size_of(type)) {
        case 1:
            return fill<uint8_t>;
        case 2:
            return fill<uint16_t>;
        case 4:
            return fill<uint32_t>;
        default:
            return fill<uint64_t>;
    }
}

// The integer type of the same bits: logic does not look at what they mean.
Type bits_type(Type type) {
    switch (size_of(type)) {
        case 1:
            return Type::kU8;
        case 2:
            return Type::kU16;
        case 4:
            return Type::kU32;
        default:
            return Type::kU64;
    }
}

constexpr bool is_float(Type type) {
    return type == Type::kFloat || type == Type::kHalf || type == Type::kBf16;
}

// SplitMix64's last steps.
uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

template <typename U>
void move_bits(U *p, const int8_t *moves, uint32_t n, U infinity) {
    constexpr U sign = U(U(1) << (8 * sizeof(U) - 1));
    for (uint32_t i = 0; i < n; ++i) {
        const U magnitude = U(p[i] & U(~sign));
        const U moved = U(magnitude + U(moves[i]));
        if (magnitude != 0 && magnitude < infinity && moved < infinity) {
            p[i] = U((p[i] & sign) | moved);
        }
    }
}

}  // namespace

Arith arithmetic(Op op, Type dst, Type src, int mode) {
    switch (op) {
        case Op::Cast:
            return cast_arithmetic(dst, src, mode);
        case Op::Duplicate:
            return duplicate_arithmetic(dst);
        case Op::Exp:
        case Op::Ln:
        case Op::Rsqrt:
            return transcendental(op, src);
        case Op::Not:
        case Op::And:
        case Op::Or:
        case Op::Xor:
            return integer_arithmetic(op, bits_type(src));
        case Op::MulAddDst:
        case Op::Axpy:
        case Op::FusedMulAdd:
        case Op::FusedMulAddRelu:
            if (is_float(src)) {
                return fused_arithmetic(op, dst, src);
            }
            break;
        default:
            break;
    }
    if (dst != src) {
        return nullptr;
    }
    return is_float(src) ? float_arithmetic(op, src) : integer_arithmetic(op, src);
}

void saturate(void *dst, Type type, uint32_t n) {
    auto *p = static_cast<uint16_t *>(dst);
    const uint16_t infinity = type == Type::kBf16 ? 0x7f80 : 0x7c00;
    for (uint32_t i = 0; i < n; ++i) {
        const uint16_t magnitude = p[i] & 0x7fffu;
        if (magnitude >= infinity) {
            p[i] = magnitude > infinity ? uint16_t(0) : uint16_t(p[i] - 1);
        }
    }
}

void moves_of(int8_t *moves, uint64_t seed, Op op, const void *src0, const void *src1,
              uint32_t elem, uint64_t scalar, uint32_t n) {
    const uint64_t start = mixed(seed ^ mixed(uint64_t(op) ^ scalar << 16));
    for (uint32_t i = 0; i < n; ++i) {
        uint64_t a = 0, b = 0;
        std::memcpy(&a, static_cast<const uint8_t *>(src0) + uint64_t(i) * elem, elem);
        std::memcpy(&b, static_cast<const uint8_t *>(src1) + uint64_t(i) * elem, elem);
        moves[i] = int8_t(int(mixed(start ^ mixed(a ^ mixed(b))) % 3) - 1);
    }
}

void move(void *dst, Type type, const int8_t *moves, uint32_t n) {
    if (type == Type::kFloat) {
        move_bits(static_cast<uint32_t *>(dst), moves, n, 0x7f800000u);
    } else if (type == Type::kHalf || type == Type::kBf16) {
        move_bits(static_cast<uint16_t *>(dst), moves, n,
                  uint16_t(type == Type::kHalf ? 0x7c00 : 0x7f80));
    }
}

}  // namespace twin
