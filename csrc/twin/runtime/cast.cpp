// Cast, and the conversions that are not elementwise in bytes: int4b_t, two of which share a byte,
// and CastDeq, whose results fill half of each data block.
#include "twin/cast.h"

#include <vector>

#include "arith.h"
#include "lanes.h"
#include "round.h"

namespace twin {
namespace {

constexpr const char *kModes[] = {"CAST_NONE",  "CAST_RINT",  "CAST_FLOOR", "CAST_CEIL",
                                  "CAST_ROUND", "CAST_TRUNC", "CAST_ODD"};
constexpr const char *kTypeNames[] = {"int4b_t",    "int8_t",   "uint8_t", "int16_t",  "uint16_t",
                                      "int32_t",    "uint32_t", "int64_t", "uint64_t", "half",
                                      "bfloat16_t", "float",    "double",  "bool"};
constexpr unsigned kDeq = 128;  // in kCastModes: the mode has no effect

[[noreturn]] void mode_fault(Types types, unsigned modes, int mode, Where where) {
    char list[128] = "";
    unsigned n = 0;
    for (unsigned m = 0; m < 7; ++m) {
        if ((modes >> m & 1) != 0) {
            if (n++ != 0) {
                std::strcat(list, ", ");
            }
            std::strcat(list, kModes[m]);
        }
    }
    const bool named = mode >= 0 && mode < 7;
    fault(where, "mem", "cast-mode", "Cast from %s to %s with %s%.*d: on %s this pair has %s%s",
          kTypeNames[unsigned(types.src)], kTypeNames[unsigned(types.dst)],
          named ? kModes[mode] : "RoundMode ", named ? 0 : 1, named ? 0 : mode, block().arch->name,
          list, n == 1 ? " only" : "");
}

// ---- int4b_t ------------------------------------------------------------------------------------

// Where lane `lane` of repeat `r` of int4b_t is, in bytes from the operand's address: a data block
// has 64.
uint64_t nibble_at(uint32_t r, uint32_t lane, uint16_t blk, uint16_t rep) {
    return (uint64_t(r) * rep + uint64_t(lane / 64) * blk) * kDataBlock + lane % 64 / 2;
}

void check_alignment(Op op, const char *name, const Local &tensor, Where where) {
    Access whole = bytes_of(name, tensor, 1, false);
    check_operand(where, op_name(op), whole);
}

// Appends the bytes of `at(r, lane)`, `bytes` each, of the lanes that take part, as stretches.
template <typename At>
void stretches(std::vector<Access> &to, const char *name, const Local &tensor, const Pattern &p,
               bool write, uint32_t bytes, At at) {
    uint64_t from = 0, end = 0;
    auto flush = [&] {
        if (end != from) {
            Access a = bytes_of(name, tensor, end - from, write, 1);
            a.address += from;
            to.push_back(a);
        }
    };
    for (uint32_t r = 0; r < p.repeats; ++r) {
        for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
            if (!p.takes(r, lane)) {
                continue;
            }
            const uint64_t next = at(r, lane);
            if (next > end || next < from || end == from) {
                flush();
                from = next;
                end = next + bytes;
            } else if (next + bytes > end) {
                end = next + bytes;
            }
        }
    }
    flush();
}

void cast_int4(Types types, int mode, const Local &dst, const Local &src, const Lanes &lanes,
               const Strides &s, Where where) {
    const bool packs = types.dst == Type::kS4;
    const Type other = packs ? types.src : types.dst;
    Pattern p = pattern_of(lanes, 2, "Cast", where);
    if (p.dense && p.total % 2 != 0) {
        fault(where, "mem", "int4-count",
              "Cast of %u elements of int4b_t: two share a byte, so the count is even", p.total);
    }
    const uint16_t packed_blk = p.dense ? 1 : packs ? s.dst_blk : s.src0_blk;
    const uint16_t packed_rep = p.dense ? 2 : packs ? s.dst_rep : s.src0_rep;
    const uint16_t plain_blk = p.dense ? 1 : packs ? s.src0_blk : s.dst_blk;
    const uint16_t plain_rep = p.dense ? 8 : packs ? s.src0_rep : s.dst_rep;
    const Local &packed = packs ? dst : src, &plain = packs ? src : dst;
    std::vector<Access> accesses;
    if (p.repeats != 0) {
        check_alignment(Op::Cast, packs ? "dst" : "src", packed, where);
    }
    accesses.push_back(lanes_of(packs ? "src" : "dst", plain, p, plain_blk, plain_rep,
                                uint8_t(size_of(other)), !packs));
    if (p.dense) {
        accesses.push_back(bytes_of(packs ? "dst" : "src", packed, p.total / 2, packs));
    } else {
        stretches(
            accesses, packs ? "dst" : "src", packed, p, packs, 1,
            [&](uint32_t r, uint32_t lane) { return nibble_at(r, lane, packed_blk, packed_rep); });
    }
    begin(
        {Op::Cast, Pipe::kV, where, p.repeats, accesses.data(), unsigned(accesses.size()), false});
    const Arith f =
        packs ? cast_arithmetic(Type::kS8, other, mode) : cast_arithmetic(other, Type::kS8, mode);
    if (f == nullptr) {
        fault(where, "mem", "unsupported", "Cast does not take these types on %s",
              block().arch->name);
    }
    for (uint32_t r = 0; r < p.repeats; ++r) {
        alignas(64) uint8_t values[kRepeat] = {};
        int8_t nibbles[128];
        uint32_t n = 0;
        if (packs) {
            const uint32_t active =
                gather_lanes(values, plain.address, p, r, plain_blk, plain_rep, size_of(other));
            f(nibbles, values, values, active, {});
        }
        for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
            if (!p.takes(r, lane)) {
                continue;
            }
            uint8_t &byte = packed.address[nibble_at(r, lane, packed_blk, packed_rep)];
            const unsigned shift = lane % 2 * 4;
            if (packs) {
                const int8_t v = nibbles[n] > 7 ? 7 : nibbles[n] < -8 ? -8 : nibbles[n];
                byte = uint8_t((byte & ~(0xfu << shift)) | (unsigned(v) & 0xfu) << shift);
            } else {
                const int v = byte >> shift & 0xf;
                nibbles[n] = int8_t(v > 7 ? v - 16 : v);
            }
            ++n;
        }
        if (!packs) {
            f(values, nibbles, nibbles, n, {});
            scatter_lanes(plain.address, values, p, r, plain_blk, plain_rep, size_of(other));
        }
    }
}

// ---- CastDeq ------------------------------------------------------------------------------------

struct DeqParams {
    double scale;
    int offset;
};

// An entry of the table in UB: the scale in the lower 32 bits, nine bits of offset from bit 37 on,
// the sign mode in bit 46 (the places are assumed; only SetDeqScale writes them).
constexpr unsigned kOffsetAt = 37, kSignAt = 46;

int nine_bits(unsigned bits) {
    const int low = int(bits & 0x1ffu);
    return low >= 256 ? low - 512 : low;
}

DeqParams entry(const uint8_t *table, uint32_t i) {
    uint64_t word;
    std::memcpy(&word, table + i * 8, sizeof word);
    return {double(bits_to_float(uint32_t(word))), nine_bits(unsigned(word >> kOffsetAt))};
}

// src * scale, rounded to a whole number, + offset; stops at the ends of the type (assumed).
int quantised(int16_t value, DeqParams by, bool sign) {
    const double rounded = whole<AscendC::RoundMode::CAST_RINT>(double(value) * by.scale);
    const double sum = (rounded != rounded ? 0.0 : rounded) + by.offset;
    return sign ? integer<int8_t>(sum) : integer<uint8_t>(sum);
}

}  // namespace

void cast(Types types, unsigned modes, int mode, const Local &dst, const Local &src,
          const Lanes &lanes, const Strides &strides, Where where) {
    if ((modes & kDeq) == 0 && (mode < 0 || mode >= 7 || (modes >> mode & 1) == 0)) {
        mode_fault(types, modes, mode, where);
    }
    if (types.dst == Type::kS4 || types.src == Type::kS4) {
        cast_int4(types, mode, dst, src, lanes, strides, where);
        return;
    }
    elementwise({Op::Cast,
                 types.dst,
                 types.src,
                 1,
                 false,
                 int16_t(mode),
                 dst,
                 src,
                 {},
                 0,
                 lanes,
                 strides,
                 where});
}

void cast_deq(Types types, bool table, bool half_block, const Local &dst, const Local &src,
              const Lanes &lanes, const Strides &s, Where where) {
    if (types.src == Type::kS32) {
        elementwise(
            {Op::CastDeq, types.dst, types.src, 1, false, 0, dst, src, {}, 0, lanes, s, where});
        return;
    }
    const Block &b = block();
    const bool sign = types.dst == Type::kS8;
    if (b.deq_scale_set != (table ? 2u : 1u)) {
        fault(where, "mem", "deq-scale", "CastDeq with isVecDeq = %s after %s",
              table ? "true" : "false",
              b.deq_scale_set == 0   ? "no SetDeqScale"
              : b.deq_scale_set == 1 ? "SetDeqScale(scale, …)"
                                     : "SetDeqScale(vdeq, …)");
    }
    if (!table && b.deq_signed != sign) {
        fault(where, "mem", "deq-scale",
              "CastDeq to %s after SetDeqScale with signMode = %s; int8_t goes with true, uint8_t "
              "with false",
              sign ? "int8_t" : "uint8_t", b.deq_signed ? "true" : "false");
    }
    const Pattern p = pattern_of(lanes, 2, "CastDeq", where);
    const uint16_t dst_blk = p.dense ? 1 : s.dst_blk, dst_rep = p.dense ? 8 : s.dst_rep;
    const uint16_t src_blk = p.dense ? 1 : s.src0_blk, src_rep = p.dense ? 8 : s.src0_rep;
    auto at = [&](uint32_t r, uint32_t lane) {
        return (uint64_t(r) * dst_rep + uint64_t(lane / 16) * dst_blk) * kDataBlock +
               (half_block ? 0 : 16) + lane % 16;
    };
    if (p.repeats != 0) {
        check_alignment(Op::CastDeq, "dst", dst, where);
    }
    std::vector<Access> accesses;
    accesses.push_back(lanes_of("src", src, p, src_blk, src_rep, 2, false));
    if (table) {
        accesses.push_back(bytes_of("vdeq", b.deq_table, 128, false));
    }
    stretches(accesses, "dst", dst, p, true, 1, at);
    begin({Op::CastDeq, Pipe::kV, where, p.repeats, accesses.data(), unsigned(accesses.size()),
           false});
    for (uint32_t r = 0; r < p.repeats; ++r) {
        int16_t values[128];
        gather_lanes(values, src.address, p, r, src_blk, src_rep, 2);
        uint32_t n = 0;
        for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
            if (p.takes(r, lane)) {
                const DeqParams by = table ? entry(b.deq_table.address, lane % 16)
                                           : DeqParams{double(b.deq_scale), b.deq_offset};
                dst.address[at(r, lane)] = uint8_t(quantised(values[n++], by, sign));
            }
        }
    }
}

void set_deq_scale(float scale, Where where) {
    set_deq_scale(scale, 0, true, where);
}

void set_deq_scale(float scale, int16_t offset, bool sign, Where where) {
    begin({Op::SetDeqScale, Pipe::kS, where, 0, nullptr, 0, false});
    Block &b = block();
    b.deq_scale_set = 1;
    b.deq_scale = scale;
    b.deq_offset = int16_t(nine_bits(uint16_t(offset)));
    b.deq_signed = sign;
}

void set_deq_table(const Local &table, const float *scales, const int16_t *offsets,
                   const bool *signs, Where where) {
    const Access access = bytes_of("vdeq", table, 128, true);
    begin({Op::SetDeqScale, Pipe::kS, where, 0, &access, 1, false});
    for (unsigned i = 0; i < 16; ++i) {
        const uint64_t word = float_to_bits(scales[i]) |
                              uint64_t(uint16_t(offsets[i]) & 0x1ffu) << kOffsetAt |
                              uint64_t(signs[i]) << kSignAt;
        std::memcpy(table.address + i * 8, &word, sizeof word);
    }
    Block &b = block();
    b.deq_scale_set = 2;
    b.deq_table = table;
}

}  // namespace twin
