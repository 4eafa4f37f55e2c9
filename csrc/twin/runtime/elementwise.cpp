// The one way every elementwise instruction runs: lanes, checks, then arithmetic on consecutive
// elements (arith.h).
#include "arith.h"
#include "lanes.h"
#include "round.h"
#include "twin/mask.h"
#include "twin/vector.h"

namespace twin {

uint64_t extent(const Access &a) {
    uint64_t end = 0;
    if (a.shape == Access::kLanes && a.pattern->repeats != 0 && !a.pattern->counted) {
        // The last repeat reaches furthest, whatever the strides, which are not negative.
        const Pattern &p = *a.pattern;
        for (uint32_t lane = p.lanes; lane-- > 0;) {
            if (p.takes(0, lane)) {
                const uint64_t last = lane_at(p.repeats - 1, lane, a.blk, a.rep, a.elem) + a.elem;
                end = last > end ? last : end;
                if (a.blk != 0) {
                    break;
                }
            }
        }
        return end;
    }
    for_each_run(a, [&](int64_t from, uint64_t bytes) {
        end = uint64_t(from) + bytes > end ? uint64_t(from) + bytes : end;
    });
    return end;
}

Pattern pattern_of(const Lanes &given, uint32_t elem, const char *name, Where where) {
    Block &b = block();
    Pattern p{};
    p.lanes = kRepeat / elem;
    if (given.form == Lanes::kCount) {
        p.counted = p.dense = true;
        p.total = given.count;
        p.repeats = (given.count + p.lanes - 1) / p.lanes;
        return p;
    }
    p.repeats = given.repeat;
    if (b.counter_mode) {
        // The mask is the number of elements, and the repeats follow from it.
        if (given.form != Lanes::kRegister) {
            b.mask[0] = given.bits[0];
            b.mask[1] = 0;
        }
        p.counted = true;
        p.total = static_cast<uint32_t>(b.mask[0]);
        p.repeats = (p.total + p.lanes - 1) / p.lanes;
        return p;
    }
    if (given.form == Lanes::kRegister) {
        p.mask[0] = b.mask[0];
        p.mask[1] = b.mask[1];
    } else if (given.form == Lanes::kBits) {
        p.mask[0] = given.bits[0];
        p.mask[1] = given.bits[1];
    } else {
        const uint64_t n = given.bits[0];
        if (n > p.lanes || n > 128) {
            fault(where, "mem", "mask", "%s with a mask of %llu lanes; a repeat has %u", name,
                  static_cast<unsigned long long>(n), p.lanes);
        }
        p.mask[0] = n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
        p.mask[1] = n >= 128 ? ~uint64_t{0} : n > 64 ? (uint64_t{1} << (n - 64)) - 1 : 0;
    }
    if (p.lanes <= 64) {
        if (given.form == Lanes::kBits && p.mask[1] != 0) {
            fault(where, "mem", "mask",
                  "%s with a mask beyond the %u lanes that a repeat of %u-byte elements has", name,
                  p.lanes, elem);
        }
        p.mask[1] = 0;
        if (p.lanes < 64) {
            p.mask[0] &= (uint64_t{1} << p.lanes) - 1;
        }
    }
    if (given.form != Lanes::kRegister) {
        // The instruction has set the registers: the next one with isSetMask = false goes by them.
        b.mask[0] = p.mask[0];
        b.mask[1] = p.mask[1];
    }
    if (p.mask[0] == 0 && p.mask[1] == 0) {
        p.repeats = 0;  // no operation
    }
    return p;
}

namespace {

constexpr uint32_t kChunk = 256;    // elements of the buffers below
constexpr uint32_t kAskFor = 1024;  // bytes asked for ahead per chunk

bool in_saturation_mode(Op op, Type dst) {
    if (block().arch->inf_nan || (dst != Type::kHalf && dst != Type::kBf16)) {
        return false;
    }
    return op != Op::Duplicate && op != Op::Not && op != Op::And && op != Op::Or && op != Op::Xor;
}

void finish(Op op, void *dst, Type type, uint32_t n) {
    if (__builtin_expect(in_saturation_mode(op, type), 0)) {
        saturate(dst, type, n);
    }
}

// int32_t to half by the scale of SetDeqScale: the product rounds once (the 2^17 of the documented
// formula are exact).
void dequantise(void *dst, const int32_t *src, uint32_t n, Where where) {
    const Block &b = block();
    if (b.deq_scale_set == 0) {
        fault(where, "mem", "deq-scale", "%s before SetDeqScale: the scale is not set",
              op_name(b.op));
    }
    for (uint32_t i = 0; i < n; ++i) {
        static_cast<uint16_t *>(dst)[i] =
            float_to_half(odd_float(double(src[i]) * double(b.deq_scale)));
    }
}

// The instructions of two steps, the first of which rounds to the source type; and those whose
// results a seed moves. Up to kChunk elements; dst is not one of the sources unless the sizes
// agree.
class Steps {
  public:
    Steps(const Elementwise &e, uint64_t scalar) : e_(e) {
        const Block &b = block();
        operands_ = {scalar, e.mode, b.arch->fused};
        switch (e.op) {
            case Op::AddReluCast:
                first_ = Op::AddRelu;
                break;
            case Op::SubReluCast:
                first_ = Op::SubRelu;
                break;
            case Op::MulCast:
                first_ = Op::Mul;
                break;
            case Op::AddDeqRelu:
                first_ = Op::Add;
                break;
            default:
                break;
        }
        dequantises_ =
            e.op == Op::AddDeqRelu || ((e.op == Op::Cast || e.op == Op::CastDeq) &&
                                       e.src_type == Type::kS32 && e.dst_type == Type::kHalf);
        const int none = static_cast<int>(AscendC::RoundMode::CAST_NONE);
        if (first_ != Op::kCount) {
            f_ = arithmetic(first_, e.src_type, e.src_type, 0);
            second_ = dequantises_ ? nullptr : cast_arithmetic(e.dst_type, e.src_type, none);
        } else if (!dequantises_) {
            f_ = arithmetic(e.op, e.dst_type, e.src_type, e.mode);
        }
        const bool known = first_ != Op::kCount
                               ? f_ != nullptr && (dequantises_ || second_ != nullptr)
                               : dequantises_ || f_ != nullptr;
        if (!known) {
            fault(e.where, "mem", "unsupported",
                  "%s does not take these types, or this mode, on %s", op_name(e.op), b.arch->name);
        }
        perturbs_ = b.perturb != 0 && kOpFidelity[unsigned(e.op)][b.arch->index] == 2;
        plain_ = first_ == Op::kCount && !dequantises_ && !perturbs_;
    }

    void run(void *dst, const void *src0, const void *src1, uint32_t n) const {
        if (plain_) {
            f_(dst, src0, src1, n, operands_);
            finish(e_.op, dst, e_.dst_type, n);
            return;
        }
        const uint32_t de = size_of(e_.dst_type), se = size_of(e_.src_type);
        for (uint32_t i = 0; i < n; i += kChunk) {
            chunk(static_cast<uint8_t *>(dst) + uint64_t(i) * de,
                  static_cast<const uint8_t *>(src0) + uint64_t(i) * se,
                  static_cast<const uint8_t *>(src1) + uint64_t(i) * se,
                  n - i < kChunk ? n - i : kChunk);
        }
    }

  private:
    void chunk(void *dst, const void *src0, const void *src1, uint32_t n) const {
        if (perturbs_) {
            int8_t moves[kChunk];
            moves_of(moves, block().perturb, e_.op, src0, src1, size_of(e_.src_type),
                     operands_.scalar, n);
            f_(dst, src0, src1, n, operands_);
            move(dst, e_.dst_type, moves, n);
            finish(e_.op, dst, e_.dst_type, n);
            return;
        }
        alignas(64) uint8_t between[kChunk * 8];
        const void *source = src0;
        if (first_ != Op::kCount) {
            f_(between, src0, src1, n, operands_);
            finish(first_, between, e_.src_type, n);
            source = between;
        }
        if (!dequantises_) {
            second_(dst, source, source, n, operands_);
            finish(e_.op, dst, e_.dst_type, n);
            return;
        }
        dequantise(dst, static_cast<const int32_t *>(source), n, e_.where);
        if (e_.op == Op::AddDeqRelu) {
            arithmetic(Op::Relu, Type::kHalf, Type::kHalf, 0)(dst, dst, dst, n, operands_);
        }
        finish(e_.op, dst, e_.dst_type, n);
    }

    const Elementwise &e_;
    Operands operands_{};
    Op first_ = Op::kCount;
    Arith f_ = nullptr, second_ = nullptr;
    bool dequantises_ = false, perturbs_ = false, plain_ = false;
};

// Whether [a, a + a_bytes) and [b, b + b_bytes) share bytes without being the same elements.
bool tangled(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes && !(a == b && a_bytes == b_bytes);
}

// Whether the lanes that take part are the first ones of every repeat.
bool is_prefix(const Pattern &p) {
    const uint64_t low = p.mask[0], high = p.mask[1];
    return p.counted || ((low & (low + 1)) == 0 && (high & (high + 1)) == 0 &&
                         (high == 0 || low == ~uint64_t{0}));
}

bool in_ub(const Block &b, const Local &operand, uint64_t bytes) {
    const uint64_t offset = static_cast<uint64_t>(operand.address - b.ub);
    return offset % kDataBlock == 0 && offset + bytes <= b.arch->ub_bytes;
}

// Most instructions are of one step, on the first n elements, in a block that nothing watches, with
// operands that are the same or apart. Does such a one, or nothing at all; the long way below would
// do the same, and says what is wrong where something is.
bool done_at_once(const Elementwise &e) {
    Block &b = block();
    if (e.lanes.form != Lanes::kCount || b.observer != nullptr || b.perturb != 0 ||
        !b.arch->inf_nan || e.scalar_at != nullptr || e.lanes.count == 0) {
        return false;
    }
    const uint64_t dst_bytes = uint64_t(e.lanes.count) * size_of(e.dst_type);
    const uint64_t src_bytes = uint64_t(e.lanes.count) * size_of(e.src_type);
    if (!in_ub(b, e.dst, dst_bytes) ||
        (e.sources > 0 && (!in_ub(b, e.src0, src_bytes) ||
                           tangled(e.dst.address, dst_bytes, e.src0.address, src_bytes))) ||
        (e.sources > 1 && (!in_ub(b, e.src1, src_bytes) ||
                           tangled(e.dst.address, dst_bytes, e.src1.address, src_bytes)))) {
        return false;
    }
    switch (e.op) {  // those of two steps
        case Op::AddReluCast:
        case Op::SubReluCast:
        case Op::MulCast:
        case Op::AddDeqRelu:
        case Op::CastDeq:
            return false;
        case Op::Cast:
            if (e.src_type == Type::kS32 && e.dst_type == Type::kHalf) {
                return false;
            }
            break;
        default:
            break;
    }
    const Arith f = arithmetic(e.op, e.dst_type, e.src_type, e.mode);
    if (f == nullptr) {
        return false;
    }
    const unsigned op = static_cast<unsigned>(e.op);
    b.op = e.op;
    b.used[op / 64] |= uint64_t{1} << op % 64;
    uint8_t *dst = e.dst.address;
    const uint8_t *src0 = e.sources > 0 ? e.src0.address : dst;
    const uint8_t *src1 = e.sources > 1 ? e.src1.address : src0;
    const Operands operands{e.scalar, e.mode, b.arch->fused};
    uint32_t left = e.lanes.count;
    // What will probably be copied next is asked for in between.
    for (; b.ahead_bytes != 0 && left > kChunk; left -= kChunk) {
        const uint32_t lines = b.ahead_bytes < kAskFor ? b.ahead_bytes : kAskFor;
        for (uint32_t i = 0; i < lines; i += 64) {
            __builtin_prefetch(b.ahead + i, 0, 2);
        }
        b.ahead += lines;
        b.ahead_bytes -= lines;
        f(dst, src0, src1, kChunk, operands);
        dst += kChunk * size_of(e.dst_type);
        src0 += kChunk * size_of(e.sources > 0 ? e.src_type : e.dst_type);
        src1 += kChunk * size_of(e.sources > 0 ? e.src_type : e.dst_type);
    }
    f(dst, src0, src1, left, operands);
    return true;
}

}  // namespace

void elementwise(const Elementwise &e) {
    if (done_at_once(e)) {
        return;
    }
    const uint32_t dst_elem = size_of(e.dst_type), src_elem = size_of(e.src_type);
    const uint32_t wide = dst_elem > src_elem ? dst_elem : src_elem;
    const Strides &s = e.strides;
    const Pattern p = pattern_of(e.lanes, wide, op_name(e.op), e.where);
    Access accesses[5];
    unsigned n = 0;
    if (e.sources > 0) {
        accesses[n++] = lanes_of(e.sources == 1 ? "src" : "src0", e.src0, p, s.src0_blk, s.src0_rep,
                                 uint8_t(src_elem), false);
    }
    if (e.sources > 1) {
        accesses[n++] =
            lanes_of("src1", e.src1, p, s.src1_blk, s.src1_rep, uint8_t(src_elem), false);
    }
    if (e.reads_dst) {
        accesses[n++] = lanes_of("dst", e.dst, p, s.dst_blk, s.dst_rep, uint8_t(dst_elem), false);
    }
    accesses[n++] = lanes_of("dst", e.dst, p, s.dst_blk, s.dst_rep, uint8_t(dst_elem), true);
    if (e.scalar_at != nullptr && p.repeats != 0) {
        accesses[n++] = bytes_of("scalar", *e.scalar_at, src_elem, false, uint8_t(src_elem));
    }
    begin({e.op, Pipe::kV, e.where, p.repeats, accesses, n, false, true});
    if (p.repeats == 0) {
        return;
    }
    uint64_t scalar = e.scalar;
    if (e.scalar_at != nullptr) {
        scalar = 0;
        std::memcpy(&scalar, e.scalar_at->address, src_elem);
    }
    const Steps steps(e, scalar);
    uint8_t *dst = e.dst.address;
    const uint8_t *src0 = e.sources > 0 ? e.src0.address : dst;
    const uint8_t *src1 = e.sources > 1 ? e.src1.address : src0;
    auto simple = [&](const uint8_t *d, const uint8_t *a, const uint8_t *b, uint64_t lanes) {
        return (e.sources < 1 || !tangled(d, lanes * dst_elem, a, lanes * src_elem)) &&
               (e.sources < 2 || !tangled(d, lanes * dst_elem, b, lanes * src_elem));
    };
    const bool in_line =
        p.dense || (is_prefix(p) && s.dst_blk == 1 && (e.sources < 1 || s.src0_blk == 1) &&
                    (e.sources < 2 || s.src1_blk == 1));
    if (in_line) {
        const uint32_t dst_rep = p.lanes * dst_elem / kDataBlock;
        const uint32_t src_rep = p.lanes * src_elem / kDataBlock;
        const bool follow = p.dense || (s.dst_rep == dst_rep && (p.counted || p.full(0)) &&
                                        (e.sources < 1 || s.src0_rep == src_rep) &&
                                        (e.sources < 2 || s.src1_rep == src_rep));
        const uint32_t total = p.counted ? p.total : p.repeats * p.lanes;
        if (follow && simple(dst, src0, src1, total)) {
            steps.run(dst, src0, src1, total);
            return;
        }
    }
    // Repeat by repeat: each reads all its lanes before it writes any.
    const uint32_t dst_step = p.dense ? p.lanes * dst_elem : s.dst_rep * kDataBlock;
    const uint32_t src0_step = p.dense ? p.lanes * src_elem : s.src0_rep * kDataBlock;
    const uint32_t src1_step = p.dense ? p.lanes * src_elem : s.src1_rep * kDataBlock;
    alignas(64) uint8_t a[kRepeat], c[kRepeat], d[kRepeat];
    for (uint32_t r = 0; r < p.repeats; ++r) {
        const uint32_t lanes = p.active(r);
        uint8_t *to = dst + uint64_t(r) * dst_step;
        const uint8_t *from0 = src0 + (e.sources > 0 ? uint64_t(r) * src0_step : 0);
        const uint8_t *from1 = e.sources > 1 ? src1 + uint64_t(r) * src1_step : from0;
        if (in_line) {
            if (simple(to, from0, from1, lanes)) {
                steps.run(to, from0, from1, lanes);
                continue;
            }
            std::memcpy(a, from0, e.sources > 0 ? lanes * src_elem : 0);
            std::memcpy(c, from1, e.sources > 1 ? lanes * src_elem : 0);
            std::memcpy(d, to, lanes * dst_elem);
            steps.run(d, a, e.sources > 1 ? c : a, lanes);
            std::memcpy(to, d, lanes * dst_elem);
            continue;
        }
        if (e.sources > 0) {
            gather_lanes(a, e.src0.address, p, r, s.src0_blk, s.src0_rep, src_elem);
        }
        if (e.sources > 1) {
            gather_lanes(c, e.src1.address, p, r, s.src1_blk, s.src1_rep, src_elem);
        }
        if (e.reads_dst) {
            gather_lanes(d, e.dst.address, p, r, s.dst_blk, s.dst_rep, dst_elem);
        }
        steps.run(d, a, e.sources > 1 ? c : a, lanes);
        scatter_lanes(e.dst.address, d, p, r, s.dst_blk, s.dst_rep, dst_elem);
    }
}

// ---- what the headers call ----------------------------------------------------------------------

void unary(Op op, Types types, const Local &dst, const Local &src, const Lanes &lanes,
           const Strides &strides, Where where) {
    elementwise({op, types.dst, types.src, 1, false, 0, dst, src, {}, 0, lanes, strides, where});
}

void binary(Op op, Types types, const Local &dst, const Local &src0, const Local &src1,
            const Lanes &lanes, const Strides &strides, Where where) {
    const bool reads_dst =
        op == Op::MulAddDst || op == Op::FusedMulAdd || op == Op::FusedMulAddRelu;
    elementwise(
        {op, types.dst, types.src, 2, reads_dst, 0, dst, src0, src1, 0, lanes, strides, where});
}

void scalar(Op op, Types types, const Local &dst, const Local &src, uint64_t value, int mode,
            const Lanes &lanes, const Strides &strides, Where where) {
    if (op == Op::ShiftLeft || op == Op::ShiftRight) {
        // A negative distance of a signed type is a large one in its bits.
        const uint32_t width = 8 * size_of(types.src);
        if (value > width) {
            const bool negative = value >> (width - 1) != 0;
            fault(where, "mem", "shift-distance", "%s by %s%llu bits; these elements take 0 to %u",
                  op_name(op), negative ? "-" : "",
                  static_cast<unsigned long long>(negative && width < 64
                                                      ? (uint64_t{1} << width) - value
                                                  : negative ? uint64_t(0) - value
                                                             : value),
                  width);
        }
        mode = mode != 0 && block().arch->shift_right_rounds;
    }
    elementwise({op,
                 types.dst,
                 types.src,
                 1,
                 op == Op::Axpy,
                 int16_t(mode),
                 dst,
                 src,
                 {},
                 value,
                 lanes,
                 strides,
                 where});
}

void scalar_tensor(Op op, Types types, const Local &dst, const Local &src, const Local &value,
                   const Lanes &lanes, const Strides &strides, Where where) {
    elementwise(
        {op, types.dst, types.src, 1, false, 0, dst, src, {}, 0, lanes, strides, where, &value});
}

void duplicate(Type type, const Local &dst, uint64_t value, const Lanes &lanes,
               const Strides &strides, Where where) {
    elementwise(
        {Op::Duplicate, type, type, 0, false, 0, dst, {}, {}, value, lanes, strides, where});
}

// ---- the mask registers -------------------------------------------------------------------------

void set_mask_mode(Op op, bool counter, Where where) {
    begin({op, Pipe::kS, where, 0, nullptr, 0, false});
    block().counter_mode = counter;
}

void set_mask(Op op, uint64_t high, uint64_t low, Where where) {
    begin({op, Pipe::kS, where, 0, nullptr, 0, false});
    block().mask[0] = low;
    block().mask[1] = high;
}

void set_mask_len(int32_t len, uint32_t elem, bool counter, Where where) {
    begin({Op::SetVectorMask, Pipe::kS, where, 0, nullptr, 0, false});
    Block &b = block();
    const uint32_t lanes = kRepeat / elem < 128 ? kRepeat / elem : 128;
    if (len < 0 || (!counter && !b.counter_mode && uint32_t(len) > lanes)) {
        fault(where, "mem", "mask", "SetVectorMask with %d lanes; a repeat has %u", len, lanes);
    }
    const uint32_t n = uint32_t(len);
    if (counter || b.counter_mode) {
        b.mask[0] = n;
        b.mask[1] = 0;
        return;
    }
    b.mask[0] = n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
    b.mask[1] = n >= 128 ? ~uint64_t{0} : n > 64 ? (uint64_t{1} << (n - 64)) - 1 : 0;
}

}  // namespace twin
