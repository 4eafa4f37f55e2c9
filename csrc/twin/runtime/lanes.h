// The lanes of the vector unit: what the three forms of its API come to, and how the lanes of a
// repeat are found in memory.
#pragma once

#include <cstring>

#include "check.h"

namespace twin {

constexpr uint32_t kMaxLanes = kRepeat;  // of one-byte elements

// Lanes of repeats: either the first `total` elements, repeat after repeat, or the same `mask` in
// every one of `repeats`.
struct Pattern {
    uint32_t lanes;  // of one repeat
    uint32_t repeats;
    uint32_t total;  // counted: elements
    bool counted;    // first-n form, or counter mode
    bool dense;      // the first-n form: nothing strided
    uint64_t mask[2];

    // How many lanes of repeat r take part at most: those from this one on do not.
    uint32_t bound(uint32_t r) const {
        if (!counted) {
            return lanes;
        }
        const uint32_t left = total - r * lanes;
        return left < lanes ? left : lanes;
    }
    bool takes(uint32_t r, uint32_t lane) const {
        return counted ? lane < bound(r) : (mask[lane / 64] >> lane % 64 & 1) != 0;
    }
    // Whether every lane of repeat r takes part.
    bool full(uint32_t r) const {
        if (counted) {
            return bound(r) == lanes;
        }
        return lanes <= 64 ? (~mask[0] << (64 - lanes)) == 0
                           : mask[0] == ~uint64_t{0} && (~mask[1] << (128 - lanes)) == 0;
    }
    uint32_t active(uint32_t r) const {
        if (counted) {
            return bound(r);
        }
        uint64_t high = lanes <= 64 ? 0 : mask[1] & (~uint64_t{0} >> (128 - lanes));
        uint64_t low = lanes < 64 ? mask[0] & (~uint64_t{0} >> (64 - lanes)) : mask[0];
        return static_cast<uint32_t>(__builtin_popcountll(low) + __builtin_popcountll(high));
    }
};

// What `lanes` comes to for elements of `elem` bytes (the widest type of the instruction), with the
// mask registers of this block. Faults when the instruction does not take it.
Pattern pattern_of(const Lanes &lanes, uint32_t elem, const char *name, Where where);

inline Access lanes_of(const char *name, const Local &tensor, const Pattern &pattern, uint16_t blk,
                       uint16_t rep, uint8_t elem, bool write, uint8_t align = kDataBlock) {
    if (pattern.dense) {
        Access a = bytes_of(name, tensor, uint64_t(pattern.total) * elem, write, align);
        a.elem = elem;
        return a;
    }
    Access a = bytes_of(name, tensor, 0, write, align);
    a.shape = Access::kLanes;
    a.count = pattern.repeats;
    a.pattern = &pattern;
    a.blk = blk;
    a.rep = rep;
    a.elem = elem;
    return a;
}

// Where lane `lane` of repeat `r` is, in bytes from the operand's address.
inline uint64_t lane_at(uint32_t r, uint32_t lane, uint16_t blk, uint16_t rep, uint32_t elem) {
    const uint32_t per_block = kDataBlock / elem;
    return (uint64_t(r) * rep + uint64_t(lane / per_block) * blk) * kDataBlock +
           uint64_t(lane % per_block) * elem;
}

// Calls run(first byte from the operand's address, bytes) for each stretch of neighbouring bytes
// that the operand has, in ascending order of repeats and lanes.
template <typename Run>
void for_each_run(const Access &a, Run run) {
    if (a.shape == Access::kBytes) {
        if (a.bytes != 0) {
            run(int64_t{0}, a.bytes);
        }
        return;
    }
    if (a.shape == Access::kBursts) {
        for (uint32_t i = 0; i < a.count; ++i) {
            run(int64_t(i) * a.step, a.bytes);
        }
        return;
    }
    const Pattern &p = *a.pattern;
    int64_t from = 0, to = 0;  // the run that is open
    for (uint32_t r = 0; r < p.repeats; ++r) {
        const uint32_t per_block = kDataBlock / a.elem;
        const bool full = p.full(r);
        const uint32_t step = full ? (p.lanes < per_block ? p.lanes : per_block) : 1;
        for (uint32_t lane = 0; lane < p.bound(r); lane += step) {
            if (!full && !p.takes(r, lane)) {
                continue;
            }
            const int64_t at = static_cast<int64_t>(lane_at(r, lane, a.blk, a.rep, a.elem));
            const int64_t end = at + int64_t(step) * a.elem;
            if (at == to && to != from) {
                to = end;
                continue;
            }
            if (to != from) {
                run(from, uint64_t(to - from));
            }
            from = at;
            to = end;
        }
    }
    if (to != from) {
        run(from, uint64_t(to - from));
    }
}

// Copies the lanes of repeat r that take part between memory and consecutive elements; returns how
// many.
inline uint32_t gather_lanes(void *packed, const uint8_t *address, const Pattern &p, uint32_t r,
                             uint16_t blk, uint16_t rep, uint32_t elem) {
    auto *to = static_cast<uint8_t *>(packed);
    if (p.counted || p.full(r)) {  // block by block
        const uint32_t bytes = p.bound(r) * elem;
        const uint8_t *from = address + uint64_t(r) * rep * kDataBlock;
        const uint32_t step = blk == 1 ? bytes : kDataBlock;
        for (uint32_t at = 0; at < bytes; at += step) {
            std::memcpy(to + at, from + uint64_t(at) * blk, step < bytes - at ? step : bytes - at);
        }
        return p.bound(r);
    }
    uint32_t n = 0;
    for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
        if (p.takes(r, lane)) {
            std::memcpy(to + uint64_t(n) * elem, address + lane_at(r, lane, blk, rep, elem), elem);
            ++n;
        }
    }
    return n;
}

inline void scatter_lanes(uint8_t *address, const void *packed, const Pattern &p, uint32_t r,
                          uint16_t blk, uint16_t rep, uint32_t elem) {
    auto *from = static_cast<const uint8_t *>(packed);
    if (p.counted || p.full(r)) {
        const uint32_t bytes = p.bound(r) * elem;
        uint8_t *to = address + uint64_t(r) * rep * kDataBlock;
        const uint32_t step = blk == 1 ? bytes : kDataBlock;
        for (uint32_t at = 0; at < bytes; at += step) {
            std::memcpy(to + uint64_t(at) * blk, from + at, step < bytes - at ? step : bytes - at);
        }
        return;
    }
    uint32_t n = 0;
    for (uint32_t lane = 0; lane < p.bound(r); ++lane) {
        if (p.takes(r, lane)) {
            std::memcpy(address + lane_at(r, lane, blk, rep, elem), from + uint64_t(n) * elem,
                        elem);
            ++n;
        }
    }
}

}  // namespace twin
