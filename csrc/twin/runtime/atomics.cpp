// Atomic copies to GM: sums round once to their type, integers wrap, extremes are those of Max and
// Min.
#include "atomics.h"

#include <cstring>

#include "arith.h"
#include "check.h"
#include "rounding.h"
#include "twin/atomics.h"

namespace twin {
namespace {

// AtomicDtype of the documents, in its order; 0 is none.
constexpr Type kConfigTypes[] = {Type::kCount, Type::kFloat, Type::kHalf, Type::kS16,
                                 Type::kS32,   Type::kS8,    Type::kBf16};

float bf16_sum(float a, float b, bool saturate) {
    const float sum = a + b;  // one rounding in float, another to bfloat16_t: innocuous
    if (!saturate) {
        return bfloat16_to_float(float_to_bfloat16(sum));
    }
    if (sum != sum) {
        return 0.0f;
    }
    const float rounded = bfloat16_to_float(float_to_bfloat16(sum));
    const uint32_t sign = float_to_bits(rounded) & 0x80000000u;
    const bool infinite = (float_to_bits(rounded) & 0x7fffffffu) == 0x7f800000u;
    return infinite ? bits_to_float(sign | 0x7f7f0000u) : rounded;
}

// The larger (or smaller) of two; a NaN wins, and -0 < +0.
float extreme(float a, float b, bool larger) {
    if (a != a || b != b) {
        return bits_to_float(kNan);
    }
    if (a == b) {
        const uint32_t x = float_to_bits(a), y = float_to_bits(b);
        return bits_to_float(larger ? x & y : x | y);  // differs for zeros of two signs only
    }
    return (a > b) == larger ? a : b;
}

template <typename T, typename U>
void integers(uint8_t *to, const uint8_t *from, uint64_t bytes, AtomicKind kind) {
    for (uint64_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
        T a, b;
        std::memcpy(&a, to + i, sizeof a);
        std::memcpy(&b, from + i, sizeof b);
        const T r = kind == kAtomicAdd   ? T(U(U(a) + U(b)))
                    : kind == kAtomicMax ? (a > b ? a : b)
                                         : (a < b ? a : b);
        std::memcpy(to + i, &r, sizeof r);
    }
}

// Read, Write: between the bits of an element and a float; Add: their sum as such a float.
template <typename T, typename Read, typename Write, typename Add>
void floats(uint8_t *to, const uint8_t *from, uint64_t bytes, AtomicKind kind, Read read,
            Write write, Add sum) {
    for (uint64_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
        T a, b;
        std::memcpy(&a, to + i, sizeof a);
        std::memcpy(&b, from + i, sizeof b);
        const float x = read(a), y = read(b);
        const T r = write(kind == kAtomicAdd ? sum(x, y) : extreme(x, y, kind == kAtomicMax));
        std::memcpy(to + i, &r, sizeof r);
    }
}

}  // namespace

bool begin_atomic_slow(uint64_t bytes, Where where) {
    const uint32_t elem = size_of(block().atomic_type);
    if (bytes % elem != 0) {
        fault(where, "mem", "atomic-type",
              "an atomic copy of %llu bytes while the atomic type has %u bytes",
              static_cast<unsigned long long>(bytes), elem);
    }
    wait_for_turn();
    return true;
}

void combine(uint8_t *to, const uint8_t *from, uint64_t bytes) {
    const Block &b = block();
    const auto kind = static_cast<AtomicKind>(b.atomic);
    const bool saturate = !b.arch->inf_nan;
    switch (b.atomic_type) {
        case Type::kS8:
            return integers<int8_t, uint8_t>(to, from, bytes, kind);
        case Type::kS16:
            return integers<int16_t, uint16_t>(to, from, bytes, kind);
        case Type::kS32:
            return integers<int32_t, uint32_t>(to, from, bytes, kind);
        case Type::kHalf:
            return floats<uint16_t>(
                to, from, bytes, kind, half_value, half_bits,
                [=](float x, float y) { return round_to_half(x + y, saturate); });
        case Type::kBf16:
            return floats<uint16_t>(
                to, from, bytes, kind, bfloat16_to_float,
                [](float v) { return uint16_t(float_to_bits(v) >> 16); },
                [=](float x, float y) { return bf16_sum(x, y, saturate); });
        default:
            return floats<float>(
                to, from, bytes, kind, [](float v) { return v; }, [](float v) { return v; },
                [](float x, float y) { return twin::canonical(x + y); });
    }
}

void set_atomic(Op op, AtomicKind kind, Type type, Where where) {
    begin({op, Pipe::kS, where, 0, nullptr, 0, false});
    block().atomic = kind;
    block().atomic_type = type;
}

void set_atomic_type(Type type, Where where) {
    begin({Op::SetAtomicType, Pipe::kS, where, 0, nullptr, 0, false});
    block().atomic_type = type;
}

void set_atomic_config(uint16_t type, uint16_t op, Where where) {
    begin({Op::SetStoreAtomicConfig, Pipe::kS, where, 0, nullptr, 0, false});
    if (type >= sizeof kConfigTypes / sizeof *kConfigTypes || op != 0) {
        fault(where, "mem", "atomic-type",
              "SetStoreAtomicConfig with type %u and operation %u; there are the types of "
              "AtomicDtype and ATOMIC_SUM",
              type, op);
    }
    block().atomic = type == 0 ? kAtomicNone : kAtomicAdd;
    block().atomic_type = type == 0 ? Type::kFloat : kConfigTypes[type];
}

void get_atomic_config(uint16_t *type, uint16_t *op) {
    const Block &b = block();
    *type = 0;
    *op = 0;
    for (uint16_t i = 1; b.atomic != kAtomicNone && i < 7; ++i) {
        *type = kConfigTypes[i] == b.atomic_type ? i : *type;
    }
}

}  // namespace twin
