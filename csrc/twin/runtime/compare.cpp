// Comparisons and Select.
#include "twin/compare.h"
#include "twin/operators.h"
#include "twin/vector.h"

#include "arith.h"
#include "lanes.h"

namespace twin {
namespace {

using AscendC::CMPMODE;
using AscendC::SELMODE;

template <typename T>
bool holds(CMPMODE mode, T a, T b) {  // NaN as IEEE: only NE holds
    switch (mode) {
        case CMPMODE::LT:
            return a < b;
        case CMPMODE::GT:
            return a > b;
        case CMPMODE::EQ:
            return a == b;
        case CMPMODE::LE:
            return a <= b;
        case CMPMODE::GE:
            return a >= b;
        default:
            return a != b;
    }
}

struct HalfBits {
    using Element = uint16_t;
    static float in(uint16_t v) { return half_to_float(v); }
};
struct Bf16Bits {
    using Element = uint16_t;
    static float in(uint16_t v) { return bfloat16_to_float(v); }
};
template <typename T>
struct Plain {
    using Element = T;
    static T in(T v) { return v; }
};

// Bit i of `bits`, which are 0 before, is whether a[i] and b[i] (b[0], where `scalar`) compare so.
template <typename T, CMPMODE mode>
void bits_of_mode(uint8_t *bits, const void *a, const void *b, uint32_t n, bool scalar) {
    using E = typename T::Element;
    auto *x = static_cast<const E *>(a);
    auto *y = static_cast<const E *>(b);
    const auto value = T::in(y[0]);
    for (uint32_t i = 0; i < n; i += 8) {
        unsigned byte = 0;
        for (uint32_t j = 0; j < 8 && i + j < n; ++j) {
            const auto other = scalar ? value : T::in(y[i + j]);
            byte |= unsigned(holds(mode, T::in(x[i + j]), other)) << j;
        }
        bits[i / 8] = uint8_t(byte);
    }
}

template <typename T>
void bits_of_type(CMPMODE mode, uint8_t *bits, const void *a, const void *b, uint32_t n,
                  bool scalar) {
    switch (mode) {
        case CMPMODE::LT:
            return bits_of_mode<T, CMPMODE::LT>(bits, a, b, n, scalar);
        case CMPMODE::GT:
            return bits_of_mode<T, CMPMODE::GT>(bits, a, b, n, scalar);
        case CMPMODE::EQ:
            return bits_of_mode<T, CMPMODE::EQ>(bits, a, b, n, scalar);
        case CMPMODE::LE:
            return bits_of_mode<T, CMPMODE::LE>(bits, a, b, n, scalar);
        case CMPMODE::GE:
            return bits_of_mode<T, CMPMODE::GE>(bits, a, b, n, scalar);
        case CMPMODE::NE:
            return bits_of_mode<T, CMPMODE::NE>(bits, a, b, n, scalar);
    }
}

void compare_bits(Type type, CMPMODE mode, uint8_t *bits, const void *a, const void *b, uint32_t n,
                  bool scalar) {
    switch (type) {
        case Type::kHalf:
            return bits_of_type<HalfBits>(mode, bits, a, b, n, scalar);
        case Type::kBf16:
            return bits_of_type<Bf16Bits>(mode, bits, a, b, n, scalar);
        case Type::kFloat:
            return bits_of_type<Plain<float>>(mode, bits, a, b, n, scalar);
        case Type::kDouble:
            return bits_of_type<Plain<double>>(mode, bits, a, b, n, scalar);
        case Type::kS8:
            return bits_of_type<Plain<int8_t>>(mode, bits, a, b, n, scalar);
        case Type::kU8:
            return bits_of_type<Plain<uint8_t>>(mode, bits, a, b, n, scalar);
        case Type::kS16:
            return bits_of_type<Plain<int16_t>>(mode, bits, a, b, n, scalar);
        case Type::kU16:
            return bits_of_type<Plain<uint16_t>>(mode, bits, a, b, n, scalar);
        case Type::kS32:
            return bits_of_type<Plain<int32_t>>(mode, bits, a, b, n, scalar);
        case Type::kU32:
            return bits_of_type<Plain<uint32_t>>(mode, bits, a, b, n, scalar);
        case Type::kS64:
            return bits_of_type<Plain<int64_t>>(mode, bits, a, b, n, scalar);
        default:
            return bits_of_type<Plain<uint64_t>>(mode, bits, a, b, n, scalar);
    }
}

// a[i] stays where bit i is 1; else it becomes b[i], or b[0].
template <typename E>
void pick(void *a, const uint8_t *bits, const void *b, uint32_t n, bool scalar) {
    auto *x = static_cast<E *>(a);
    auto *y = static_cast<const E *>(b);
    for (uint32_t i = 0; i < n; ++i) {
        const E other = y[scalar ? 0 : i];
        x[i] = (bits[i / 8] >> i % 8 & 1) != 0 ? x[i] : other;
    }
}

bool masks_compares() {
    return block().arch->masked_compare;
}

}  // namespace

void compare(const Comparison &c, const Lanes &lanes, const Strides &s, Where where) {
    const char *name = op_name(c.op);
    const uint32_t elem = size_of(c.type);
    if (int(c.mode) > int(CMPMODE::NE) ||
        (c.type == Type::kS32 && c.mode != CMPMODE::EQ && !masks_compares())) {
        fault(where, "mem", "compare-mode",
              "%s with CMPMODE %d: int32_t takes EQ only on %s, half and float LT, GT, EQ, LE, GE "
              "and NE (0 to 5)",
              name, int(c.mode), block().arch->name);
    }
    Pattern masked = pattern_of(lanes, elem, name, where);
    if (masked.dense && !masks_compares() && uint64_t(masked.total) * elem % kRepeat != 0) {
        fault(
            where, "mem", "compare-count",
            "%s of %u elements, %llu bytes: the first-n form takes whole repeats of %u bytes on %s",
            name, masked.total, static_cast<unsigned long long>(masked.total) * elem, kRepeat,
            block().arch->name);
    }
    // What is compared: all lanes, whatever the mask, except into the register.
    Pattern p = masked;
    const bool all = !masked.counted && !c.to_register && !masks_compares();
    if (all) {
        p.repeats = lanes.repeat;
        p.mask[0] = p.lanes < 64 ? (uint64_t{1} << p.lanes) - 1 : ~uint64_t{0};
        p.mask[1] = p.lanes > 64 ? ~uint64_t{0} : 0;
    }
    if (c.to_register && p.repeats > 1) {
        p.repeats = 1;
    }
    const uint32_t row = p.lanes / 8;  // bytes of bits per repeat, one after another (assumed)
    const uint64_t bytes = p.counted ? (uint64_t(p.total) + 7) / 8 : uint64_t(p.repeats) * row;
    Access accesses[3];
    unsigned n = 0;
    accesses[n++] = lanes_of("src0", c.src0, p, s.src0_blk, s.src0_rep, uint8_t(elem), false);
    if (c.at_src1) {
        accesses[n++] = bytes_of("src1", c.src1, p.repeats == 0 ? 0 : elem, false, uint8_t(elem));
    } else if (!c.scalar) {
        accesses[n++] = lanes_of("src1", c.src1, p, s.src1_blk, s.src1_rep, uint8_t(elem), false);
    }
    if (!c.to_register) {
        accesses[n++] = bytes_of("dst", c.dst, bytes, true);
    }
    begin({c.op, Pipe::kV, where, p.repeats, accesses, n, false});
    alignas(64) uint8_t value[8];
    std::memcpy(value, &c.value, sizeof value);
    if (c.at_src1 && p.repeats != 0) {
        std::memcpy(value, c.src1.address, elem);
    }
    for (uint32_t r = 0; r < p.repeats; ++r) {
        alignas(64) uint8_t a[kRepeat], b[kRepeat];
        uint8_t packed[32] = {}, bits[32] = {};
        const uint16_t rep0 = p.dense ? 8 : s.src0_rep, rep1 = p.dense ? 8 : s.src1_rep;
        const uint16_t blk0 = p.dense ? 1 : s.src0_blk, blk1 = p.dense ? 1 : s.src1_blk;
        const uint32_t active = p.active(r);
        const uint8_t *x = c.src0.address + uint64_t(r) * rep0 * kDataBlock;
        const uint8_t *y = c.src1.address + uint64_t(r) * rep1 * kDataBlock;
        if (blk0 != 1 || !p.full(r)) {
            gather_lanes(a, c.src0.address, p, r, blk0, rep0, elem);
            x = a;
        }
        if (!c.scalar && (blk1 != 1 || !p.full(r))) {
            gather_lanes(b, c.src1.address, p, r, blk1, rep1, elem);
            y = b;
        }
        compare_bits(c.type, c.mode, packed, x, c.scalar ? value : y, active, c.scalar);
        const uint8_t *result = packed;
        if (!p.full(r) && !p.counted) {  // lanes that do not take part give 0 (assumed)
            uint32_t i = 0;
            for (uint32_t lane = 0; lane < p.lanes; ++lane) {
                if (p.takes(r, lane)) {
                    bits[lane / 8] |= uint8_t((packed[i / 8] >> i % 8 & 1) << lane % 8);
                    ++i;
                }
            }
            result = bits;
        }
        if (c.to_register) {
            std::memcpy(block().compare_mask, result, row < 16 ? row : 16);
        } else {
            const uint64_t from = uint64_t(r) * row;
            std::memcpy(c.dst.address + from, result, bytes - from < row ? bytes - from : row);
        }
    }
}

void get_compare_mask(const Local &dst, Where where) {
    const Access access = bytes_of("dst", dst, 16, true, 16);
    begin({Op::GetCmpMask, Pipe::kV, where, 1, &access, 1, false});
    std::memcpy(dst.address, block().compare_mask, 16);
}

void set_compare_mask(const Local &src, Where where) {
    const Access access = bytes_of("src", src, 16, false, 16);
    begin({Op::SetCmpMask, Pipe::kV, where, 1, &access, 1, false});
    std::memcpy(block().compare_mask, src.address, 16);
}

void select(const Selection &given, const Lanes &lanes, const Strides &s, Where where) {
    Selection x = given;
    const Block &b = block();
    const uint32_t elem = size_of(x.type);
    const bool old = b.arch->select_by_register_only;
    const bool fits = x.scalar ? x.mode == SELMODE::VSEL_TENSOR_SCALAR_MODE
                               : x.mode == SELMODE::VSEL_CMPMASK_SPR ||
                                     x.mode == SELMODE::VSEL_TENSOR_TENSOR_MODE;
    if (!fits || (old && x.mode != SELMODE::VSEL_CMPMASK_SPR)) {
        fault(
            where, "mem", "select-mode", "Select with SELMODE %d and src1 a %s: %s", int(x.mode),
            x.scalar ? "scalar" : "tensor",
            old ? "dav-1001 has VSEL_CMPMASK_SPR (0) with two tensors only"
                : "two tensors take VSEL_CMPMASK_SPR (0) or VSEL_TENSOR_TENSOR_MODE (2), a tensor "
                  "and a scalar VSEL_TENSOR_SCALAR_MODE (1)");
    }
    const Pattern p = pattern_of(lanes, elem, "Select", where);
    const uint32_t row = p.lanes / 8;
    const bool per_element = x.mode != SELMODE::VSEL_CMPMASK_SPR;
    if (x.from_register) {
        if (x.scalar) {
            x.value = b.compare_mask[0];
        } else if (per_element) {
            // The register has the address of the bits: GetPhyAddr of their tensor.
            x.mask = {reinterpret_cast<uint8_t *>(b.compare_mask[0]), 0, -1,
                      AscendC::TPosition::VECCALC};
            const uint64_t at = uint64_t(x.mask.address - b.ub);
            if (at < b.arch->ub_bytes) {
                x.mask.bytes = uint32_t(b.arch->ub_bytes - at);
            }
        }
    }
    const bool in_register = x.from_register && !per_element;
    Access accesses[4];
    unsigned n = 0;
    if (!in_register) {
        const uint64_t bytes = !per_element ? (p.repeats == 0 ? 0 : row)
                               : p.counted  ? (uint64_t(p.total) + 7) / 8
                                            : uint64_t(p.repeats) * row;
        accesses[n++] = bytes_of("selMask", x.mask, bytes, false);
    }
    accesses[n++] = lanes_of("src0", x.src0, p, s.src0_blk, s.src0_rep, uint8_t(elem), false);
    if (!x.scalar) {
        accesses[n++] = lanes_of("src1", x.src1, p, s.src1_blk, s.src1_rep, uint8_t(elem), false);
    }
    accesses[n++] = lanes_of("dst", x.dst, p, s.dst_blk, s.dst_rep, uint8_t(elem), true);
    begin({Op::Select, Pipe::kV, where, p.repeats, accesses, n, false});
    uint8_t first[32] = {};
    if (!per_element && p.repeats != 0) {
        // Read once, before anything is written.
        std::memcpy(
            first, in_register ? reinterpret_cast<const uint8_t *>(b.compare_mask) : x.mask.address,
            row < 16 || !in_register ? row : 16);
    }
    const uint16_t src0_blk = p.dense ? 1 : s.src0_blk, src0_rep = p.dense ? 8 : s.src0_rep;
    const uint16_t src1_blk = p.dense ? 1 : s.src1_blk, src1_rep = p.dense ? 8 : s.src1_rep;
    const uint16_t dst_blk = p.dense ? 1 : s.dst_blk, dst_rep = p.dense ? 8 : s.dst_rep;
    for (uint32_t r = 0; r < p.repeats; ++r) {
        const uint8_t *bits = per_element ? x.mask.address + uint64_t(r) * row : first;
        alignas(64) uint8_t a[kRepeat], c[kRepeat];
        gather_lanes(a, x.src0.address, p, r, src0_blk, src0_rep, elem);
        if (!x.scalar) {
            gather_lanes(c, x.src1.address, p, r, src1_blk, src1_rep, elem);
        }
        uint8_t packed[32];
        if (!p.counted && !p.full(r)) {  // the bits of the lanes that take part
            std::memset(packed, 0, sizeof packed);
            uint32_t i = 0;
            for (uint32_t lane = 0; lane < p.lanes; ++lane) {
                if (p.takes(r, lane)) {
                    packed[i / 8] |= uint8_t((bits[lane / 8] >> lane % 8 & 1) << i % 8);
                    ++i;
                }
            }
            bits = packed;
        }
        const void *other = x.scalar ? static_cast<const void *>(&x.value) : c;
        if (elem == 2) {
            pick<uint16_t>(a, bits, other, p.active(r), x.scalar);
        } else if (elem == 4) {
            pick<uint32_t>(a, bits, other, p.active(r), x.scalar);
        } else if (elem == 8) {
            pick<uint64_t>(a, bits, other, p.active(r), x.scalar);
        } else {
            pick<uint8_t>(a, bits, other, p.active(r), x.scalar);
        }
        scatter_lanes(x.dst.address, a, p, r, dst_blk, dst_rep, elem);
    }
}

void assign(const Local &dst, Types types, Op op, int mode, const Local &src0, const Local &src1,
            Where where) {
    if (op == Op::Compare) {
        const Comparison c = {op,   types.src, static_cast<CMPMODE>(mode), false, false, dst, src0,
                              src1, 0};
        compare(c, Lanes::first(src0.bytes / size_of(types.src)), {}, where);
    } else {
        binary(op, types, dst, src0, src1, Lanes::first(dst.bytes / size_of(types.dst)), {}, where);
    }
}

}  // namespace twin
