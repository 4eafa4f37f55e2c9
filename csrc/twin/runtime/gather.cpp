// Gather, Gatherb, Scatter, GatherMask.
#include "twin/gather.h"

#include "accesses.h"
#include "arith.h"

namespace twin {
namespace {

uint32_t offset_at(const Local &offsets, uint64_t at) {
    uint32_t offset;
    std::memcpy(&offset, offsets.address + at, sizeof offset);
    return offset;
}

// The addressed operand of Gather or Scatter: every lane's byte offset, checked.
struct Addressed {
    std::vector<uint32_t> at;  // of the lanes that take part, in their order
    std::vector<Access> accesses;
};

Addressed addresses(Op op, const char *name, const Local &target, const Local &offsets,
                    const char *offsets_name, const Pattern &p, uint32_t elem, uint32_t base,
                    bool write, Where where) {
    Addressed a;
    // The offsets lie one after another, four bytes a lane, whatever the size of an element.
    const uint16_t rep = static_cast<uint16_t>(p.lanes * sizeof(uint32_t) / kDataBlock);
    const Access read = lanes_of(offsets_name, offsets, p, 1, rep, sizeof(uint32_t), false);
    a.accesses.push_back(read);
    block().op = op;  // what a fault below names
    check_operand(where, op_name(op), read);
    Runs runs(name, target, write, uint8_t(elem));
    for (uint32_t r = 0; r < p.repeats; ++r) {
        for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
            if (!p.takes(r, lane)) {
                continue;
            }
            const uint32_t offset =
                base + offset_at(offsets, lane_at(r, lane, 1, rep, sizeof(uint32_t)));
            if (offset % elem != 0) {
                begin({op, Pipe::kV, where, p.repeats, &read, 1, false});  // if nobody wrote it
                fault(where, "mem", "gather-offset",
                      "%s: offset %u of lane %u in repeat %u is not a multiple of the %u bytes of "
                      "an element",
                      op_name(op), offset, lane, r, elem);
            }
            a.at.push_back(offset);
            runs.add(offset, elem);
        }
    }
    runs.append_to(&a.accesses);
    return a;
}

template <typename T>
void gather_lanes_as(const Local &dst, const Local &src, const Addressed &a, const Pattern &p,
                     uint16_t dst_rep) {
    size_t next = 0;
    for (uint32_t r = 0; r < p.repeats; ++r) {
        T lanes[kMaxLanes];  // all are read before any is written
        uint32_t n = 0;
        for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
            if (p.takes(r, lane)) {
                std::memcpy(&lanes[n++], src.address + a.at[next++], sizeof(T));
            }
        }
        scatter_lanes(dst.address, lanes, p, r, 1, dst_rep, sizeof(T));
    }
}

}  // namespace

void gather(Local dst, Local src, Local offsets, uint32_t elem, uint32_t base, const Lanes &lanes,
            uint16_t dst_rep, Where where) {
    // A repeat is 256 bytes of dst, however wide the offsets are.
    const Pattern p = pattern_of(lanes, elem, "Gather", where);
    Addressed a =
        addresses(Op::Gather, "src", src, offsets, "srcOffset", p, elem, base, false, where);
    a.accesses.push_back(lanes_of("dst", dst, p, 1, dst_rep, uint8_t(elem), true));
    begin(Op::Gather, Pipe::kV, where, p.repeats, a.accesses);
    switch (elem) {
        case 1:
            return gather_lanes_as<uint8_t>(dst, src, a, p, dst_rep);
        case 2:
            return gather_lanes_as<uint16_t>(dst, src, a, p, dst_rep);
        case 4:
            return gather_lanes_as<uint32_t>(dst, src, a, p, dst_rep);
        default:
            return gather_lanes_as<uint64_t>(dst, src, a, p, dst_rep);
    }
}

void scatter(Local dst, Local src, Local offsets, uint32_t elem, uint32_t base, const Lanes &lanes,
             uint16_t src_rep, Where where) {
    const Pattern p = pattern_of(lanes, elem, "Scatter", where);
    Addressed a =
        addresses(Op::Scatter, "dst", dst, offsets, "dstOffset", p, elem, base, true, where);
    a.accesses.push_back(lanes_of("src", src, p, 1, src_rep, uint8_t(elem), false));
    begin(Op::Scatter, Pipe::kV, where, p.repeats, a.accesses);
    size_t next = 0;
    for (uint32_t r = 0; r < p.repeats; ++r) {
        alignas(64) uint8_t packed[kRepeat];
        const uint32_t n = gather_lanes(packed, src.address, p, r, 1, src_rep, elem);
        for (uint32_t i = 0; i < n; ++i) {
            std::memcpy(dst.address + a.at[next++], packed + i * elem, elem);
        }
    }
}

void gather_blocks(Local dst, Local src, Local offsets, uint8_t repeat, uint16_t dst_blk,
                   uint16_t dst_rep, Where where) {
    constexpr uint32_t kBlocks = kRepeat / kDataBlock;
    const Pattern p = whole_repeats(repeat, 4);
    std::vector<Access> accesses;
    accesses.push_back(
        bytes_of("offset", offsets, uint64_t(repeat) * kBlocks * sizeof(uint32_t), false));
    block().op = Op::Gatherb;
    check_operand(where, "Gatherb", accesses[0]);
    Runs runs("src0", src, false, kDataBlock);
    for (uint32_t i = 0; i < repeat * kBlocks; ++i) {
        const uint32_t offset = offset_at(offsets, uint64_t(i) * sizeof(uint32_t));
        if (offset % kDataBlock != 0) {
            begin({Op::Gatherb, Pipe::kV, where, repeat, accesses.data(), 1, false});
            fault(where, "mem", "gather-offset",
                  "Gatherb: offset %u of data block %u is not a multiple of 32", offset, i);
        }
        runs.add(offset, kDataBlock);
    }
    runs.append_to(&accesses);
    accesses.push_back(lanes_of("dst", dst, p, dst_blk, dst_rep, 4, true));
    begin(Op::Gatherb, Pipe::kV, where, repeat, accesses);
    for (uint32_t r = 0; r < repeat; ++r) {
        uint8_t blocks[kRepeat];
        for (uint32_t j = 0; j < kBlocks; ++j) {
            const uint32_t at = offset_at(offsets, uint64_t(r * kBlocks + j) * sizeof(uint32_t));
            std::memcpy(blocks + j * kDataBlock, src.address + at, kDataBlock);
        }
        for (uint32_t j = 0; j < kBlocks; ++j) {
            std::memcpy(dst.address + (uint64_t(r) * dst_rep + uint64_t(j) * dst_blk) * kDataBlock,
                        blocks + j * kDataBlock, kDataBlock);
        }
    }
}

// ---- GatherMask ---------------------------------------------------------------------------------

namespace {

// Whether a fixed pattern keeps element i of a repeat: 1, 2: of two the first, the second; 3 to 6:
// of four the first to the fourth; 7: all.
bool kept_by(uint32_t pattern, uint32_t i) {
    if (pattern <= 2) {
        return i % 2 == pattern - 1;
    }
    return pattern == 7 || i % 4 == pattern - 3;
}

}  // namespace

uint64_t gather_mask(Local dst, Local src, const Local *bits, uint32_t pattern, uint32_t elem,
                     bool counted, uint32_t mask, const GatherMaskStrides &s, Where where) {
    Block &b = block();
    const bool all_in_mask = b.arch->gather_mask_in_all;
    const uint32_t patterns = all_in_mask ? 6 : 7;
    b.op = Op::GatherMask;
    if (bits == nullptr && (pattern < 1 || pattern > patterns)) {
        fault(where, "mem", "mask", "GatherMask with pattern %u; %s has 1 to %u", pattern,
              b.arch->name, patterns);
    }
    const uint32_t lanes = kRepeat / elem;
    // Elements of each repeat, and of the last one. On dav-2002 the mask is the number of all
    // elements, and the repeats follow from it.
    uint32_t repeats = s.repeats, per_repeat = lanes, last = lanes;
    if (counted && all_in_mask) {
        repeats = (mask + lanes - 1) / lanes;
        last = mask - (repeats - (repeats != 0)) * lanes;
    } else if (counted) {
        per_repeat = last = mask;
    }
    std::vector<Access> accesses;
    Local mask_bits{};
    if (bits != nullptr) {
        mask_bits = *bits;
        for (uint32_t r = 0; r < repeats; ++r) {
            const uint32_t n = r + 1 == repeats ? last : per_repeat;
            Access read = bytes_of("src1Pattern", mask_bits, (n + 7) / 8, false);
            read.address += uint64_t(r) * s.src1_rep * kDataBlock;
            check_operand(where, "GatherMask", read);
            accesses.push_back(read);
        }
    }
    Runs runs("src0", src, false, uint8_t(elem));
    std::vector<uint64_t> kept;  // bytes from src0
    for (uint32_t r = 0; r < repeats; ++r) {
        const uint32_t n = r + 1 == repeats ? last : per_repeat;
        const uint8_t *of_repeat =
            bits != nullptr ? mask_bits.address + uint64_t(r) * s.src1_rep * kDataBlock : nullptr;
        for (uint32_t i = 0; i < n; ++i) {
            if (bits != nullptr ? (of_repeat[i / 8] >> i % 8 & 1) != 0 : kept_by(pattern, i)) {
                const uint64_t at = lane_at(r, i, s.src0_blk, s.src0_rep, elem);
                kept.push_back(at);
                runs.add(at, elem);
            }
        }
    }
    check_start(Op::GatherMask, "src0", src, kDataBlock, where);
    runs.append_to(&accesses);
    accesses.push_back(bytes_of("dst", dst, kept.size() * elem, true));
    begin(Op::GatherMask, Pipe::kV, where, repeats, accesses);
    // Everything is read before anything is written: dst may be src0.
    std::vector<uint8_t> packed(kept.size() * elem);
    for (size_t i = 0; i < kept.size(); ++i) {
        std::memcpy(packed.data() + i * elem, src.address + kept[i], elem);
    }
    if (!kept.empty()) {
        std::memcpy(dst.address, packed.data(), packed.size());
    }
    b.gathered = kept.size();
    b.counter_mode = false;  // documented: the mask mode is normal afterwards
    return kept.size();
}

}  // namespace twin
