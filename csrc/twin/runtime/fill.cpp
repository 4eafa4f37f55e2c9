// Brcb and sequences.
#include "twin/fill.h"

#include "accesses.h"
#include "arith.h"
#include "rounding.h"

namespace twin {

void broadcast_to_blocks(Local dst, Local src, uint32_t elem, uint8_t repeat, uint16_t dst_blk,
                         uint16_t dst_rep, Where where) {
    constexpr uint32_t kBlocks = kRepeat / kDataBlock;  // per repeat: as many elements of src
    const Pattern p = whole_repeats(repeat, elem);
    const Access accesses[] = {bytes_of("src0", src, uint64_t(repeat) * kBlocks * elem, false),
                               lanes_of("dst", dst, p, dst_blk, dst_rep, uint8_t(elem), true)};
    begin({Op::Brcb, Pipe::kV, where, repeat, accesses, 2, false});
    for (uint32_t r = 0; r < repeat; ++r) {
        uint8_t elements[kBlocks * 8];
        std::memcpy(elements, src.address + uint64_t(r) * kBlocks * elem, kBlocks * elem);
        for (uint32_t j = 0; j < kBlocks; ++j) {
            uint8_t *to =
                dst.address + (uint64_t(r) * dst_rep + uint64_t(j) * dst_blk) * kDataBlock;
            for (uint32_t i = 0; i < kDataBlock; i += elem) {
                std::memcpy(to + i, elements + j * elem, elem);
            }
        }
    }
}

namespace {

uint64_t one(Type type) {
    return type == Type::kFloat ? float_to_bits(1.0f) : type == Type::kHalf ? 0x3c00u : 1u;
}

// A double as the float that leaves every later rounding to half right: towards zero, and odd where
// that was not exact.
float to_odd(double d) {
    float f = static_cast<float>(d);
    if (double(f) != d && f == f) {
        uint32_t u = float_to_bits(f);
        u -= __builtin_fabs(double(f)) > __builtin_fabs(d) ? 1 : 0;
        f = bits_to_float(u | 1u);
    }
    return f;
}

// Element number i of first, first + difference, …: integers wrap; floats round the product, then
// the sum, each once to their type.
uint64_t element(Type type, uint64_t first, uint64_t difference, uint32_t i) {
    const bool saturate = !block().arch->inf_nan;
    switch (type) {
        case Type::kFloat: {
            const float product = bits_to_float(uint32_t(difference)) * float(i);
            return float_to_bits(twin::canonical(bits_to_float(uint32_t(first)) + product));
        }
        case Type::kHalf: {
            const double exact = double(half_value(uint16_t(difference))) * i;
            // A step of one is the index itself, which has not been a half on its way.
            const double product =
                difference == one(type) ? exact : round_to_half(to_odd(exact), saturate);
            const double sum = double(half_value(uint16_t(first))) + product;
            return half_bits(round_to_half(to_odd(sum), saturate));
        }
        default:
            return first + difference * i;
    }
}

void put(uint8_t *to, uint64_t bits, uint32_t elem) {
    std::memcpy(to, &bits, elem);  // little-endian, as Ascend is
}

}  // namespace

void vector_index(Local dst, Type type, uint64_t first, const Lanes &lanes, uint16_t dst_blk,
                  uint16_t dst_rep, Where where) {
    const uint32_t elem = size_of(type);
    const Pattern p = pattern_of(lanes, elem, "CreateVecIndex", where);
    const Access accesses[] = {lanes_of("dst", dst, p, dst_blk, dst_rep, uint8_t(elem), true)};
    begin({Op::CreateVecIndex, Pipe::kV, where, p.repeats, accesses, 1, false});
    const uint64_t step = one(type);
    for (uint32_t r = 0; r < p.repeats; ++r) {
        for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
            if (p.takes(r, lane)) {
                put(dst.address + lane_at(r, lane, dst_blk, dst_rep, elem),
                    element(type, first, step, r * p.lanes + lane), elem);
            }
        }
    }
}

void progression(Local dst, Type type, uint64_t first, uint64_t difference, int32_t count,
                 Where where) {
    const uint32_t elem = size_of(type);
    const uint32_t n = count > 0 ? uint32_t(count) : 0;
    const Access accesses[] = {bytes_of("dst", dst, uint64_t(n) * elem, true)};
    begin({Op::ArithProgression, Pipe::kV, where, (n * elem + kRepeat - 1) / kRepeat, accesses, 1,
           false});
    for (uint32_t i = 0; i < n; ++i) {
        put(dst.address + uint64_t(i) * elem, element(type, first, difference, i), elem);
    }
}

}  // namespace twin
