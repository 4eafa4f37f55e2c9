// Overlaps of a vector instruction's operands. The vector unit reads a repeat's lanes before it
// writes them, but reads those of the next repeat before the result of this one is there; so within
// a repeat source and destination are the same bytes or none in common, and the destination of a
// repeat is no source of a later one. The documented exception: with repeat strides of 0 both are
// the same data blocks in every repeat, and the results add up there.
#include <algorithm>

#include "buffers.h"
#include "lanes.h"
#include "watched.h"

namespace twin {
namespace {

// Calls each(offset, bytes) for the lanes of repeat r of an operand, in pieces of one element.
template <typename Each>
void lanes_of_repeat(const Access &a, uint32_t r, uint32_t lanes, Each each) {
    if (a.shape == Access::kBytes) {
        const uint64_t from = uint64_t(r) * lanes * a.elem;
        if (from < a.bytes) {
            each(from, std::min<uint64_t>(uint64_t(lanes) * a.elem, a.bytes - from));
        }
        return;
    }
    const Pattern &p = *a.pattern;
    for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
        if (p.takes(r, lane)) {
            each(lane_at(r, lane, a.blk, a.rep, a.elem), a.elem);
        }
    }
}

bool same_places(const Access &a, const Access &b) {
    if (a.address != b.address || a.shape != b.shape || a.elem != b.elem) {
        return false;
    }
    return a.shape == Access::kBytes || (a.blk == b.blk && a.rep == b.rep);
}

// A conversion to a narrower type in place: the lanes of a repeat are read before the shorter row
// that replaces them is written (assumed; documented as unsafe is only the way to a wider type).
bool narrows_in_place(const Access &dst, const Access &src) {
    return dst.address == src.address && dst.elem < src.elem;
}

std::string text_of(const Access &dst, const Access &src) {
    const uint8_t *ub = block().ub;
    return describe(dst.name, uint64_t(dst.address - ub), extent(dst), nullptr) + " over " +
           describe(src.name, uint64_t(src.address - ub), extent(src), nullptr);
}

// Accumulation: each repeat works on the same data blocks.
bool in_place_sum(const Access &dst, const Access &src) {
    return dst.shape == Access::kLanes && same_places(dst, src) && dst.rep == 0;
}

}  // namespace

void check_copy_overlap(const Instruction &i) {
    const Access &src = i.accesses[0], &dst = i.accesses[1];
    const bool same = src.address == dst.address && src.shape == dst.shape &&
                      (src.shape == Access::kBytes || src.step == dst.step);
    if (same || src.address >= dst.address + extent(dst) ||
        dst.address >= src.address + extent(src)) {
        return;
    }
    const uint8_t *base = std::min(dst.address, src.address);
    std::vector<bool> read(uint64_t(src.address - base) + extent(src));
    for_each_run(src, [&](int64_t from, uint64_t bytes) {
        std::fill_n(read.begin() + (src.address - base) + from, bytes, true);
    });
    uint64_t shared = 0;
    for_each_run(dst, [&](int64_t from, uint64_t bytes) {
        const uint64_t at = uint64_t(dst.address - base) + uint64_t(from);
        for (uint64_t k = at; k < std::min<uint64_t>(at + bytes, read.size()); ++k) {
            shared += read[k];
        }
    });
    if (shared != 0) {
        fault_of(i.where, "mem", "overlap", text_of(dst, src),
                 "%s: operands dst and src share %llu bytes, but are not the same", op_name(i.op),
                 static_cast<unsigned long long>(shared));
    }
}

void check_result_overlap(const Instruction &i) {
    const Access &src = i.accesses[0], &dst = i.accesses[1];
    if (src.shape != Access::kLanes || dst.shape != Access::kBursts || dst.count != i.repeats ||
        src.address >= dst.address + extent(dst) || dst.address >= src.address + extent(src)) {
        return;
    }
    const uint32_t lanes = kRepeat / src.elem;
    for (uint32_t r = 1; r < i.repeats; ++r) {
        lanes_of_repeat(src, r, lanes, [&](uint64_t from, uint64_t bytes) {
            for (uint32_t w = 0; w < r; ++w) {
                const uint8_t *result = dst.address + int64_t(w) * dst.step;
                if (result < src.address + from + bytes &&
                    src.address + from < result + dst.bytes) {
                    fault_of(i.where, "mem", "overlap-repeats", text_of(dst, src),
                             "%s: the result of repeat %u lies over src of repeat %u, which is "
                             "read before that result is there",
                             op_name(i.op), w, r);
                }
            }
        });
    }
}

void check_overlap(const Instruction &i) {
    const Access *dst = nullptr;
    uint32_t wide = 1;
    for (unsigned a = 0; a < i.n; ++a) {
        dst = i.accesses[a].write ? &i.accesses[a] : dst;
        wide = std::max<uint32_t>(wide, i.accesses[a].elem);
    }
    if (dst == nullptr || dst->gm || dst->shape == Access::kBursts) {
        return;
    }
    const uint64_t dst_end = extent(*dst);
    const uint32_t lanes = kRepeat / wide;
    for (unsigned a = 0; a < i.n; ++a) {
        const Access &src = i.accesses[a];
        if (src.write || src.gm || src.shape == Access::kBursts ||
            src.address >= dst->address + dst_end || dst->address >= src.address + extent(src)) {
            continue;
        }
        // The same places in every repeat, each repeat its own: in place, which is fine.
        if (same_places(*dst, src) && (dst->shape == Access::kBytes || dst->rep > 7 * dst->blk ||
                                       in_place_sum(*dst, src) || i.repeats == 1)) {
            continue;
        }
        // Byte by byte: which repeat wrote it last (counted from 1).
        const uint8_t *base = std::min(dst->address, src.address);
        std::vector<uint32_t> wrote(std::max(uint64_t(dst->address - base) + dst_end,
                                             uint64_t(src.address - base) + extent(src)));
        std::vector<uint32_t> read(wrote.size());
        for (uint32_t r = 0; r < i.repeats; ++r) {
            uint64_t own = 0, shared = 0, total = 0;
            uint32_t before = 0;
            lanes_of_repeat(src, r, lanes, [&](uint64_t from, uint64_t bytes) {
                for (uint64_t k = 0; k < bytes; ++k) {
                    const uint64_t at = uint64_t(src.address - base) + from + k;
                    before = std::max(before, wrote[at]);
                    own += read[at] != r + 1;
                    read[at] = r + 1;
                }
            });
            lanes_of_repeat(*dst, r, lanes, [&](uint64_t from, uint64_t bytes) {
                for (uint64_t k = 0; k < bytes; ++k) {
                    const uint64_t at = uint64_t(dst->address - base) + from + k;
                    total += wrote[at] != r + 1;
                    shared += wrote[at] != r + 1 && read[at] == r + 1;
                    wrote[at] = r + 1;
                }
            });
            if (before != 0) {
                fault_of(i.where, "mem", "overlap-repeats", text_of(*dst, src),
                         "%s: operand %s of repeat %u lies over %s of repeat %u, which is read "
                         "before that result is there",
                         op_name(i.op), dst->name, before - 1, src.name, r);
            }
            if (shared != 0 && (shared != own || shared != total) && !narrows_in_place(*dst, src)) {
                fault_of(i.where, "mem", "overlap", text_of(*dst, src),
                         "%s: operands %s and %s of repeat %u share %llu bytes, but are not the "
                         "same",
                         op_name(i.op), dst->name, src.name, r,
                         static_cast<unsigned long long>(shared));
            }
        }
    }
}

}  // namespace twin
