// Strides of the forms with a mask: from one data block to the next within a repeat, and from one
// repeat to the next, in data blocks.
#pragma once

#include "twin/block.h"

namespace AscendC {

struct UnaryRepeatParams {
    uint32_t blockNumber = 8;
    uint16_t dstBlkStride = 1;
    uint16_t srcBlkStride = 1;
    uint8_t dstRepStride = 8;
    uint8_t srcRepStride = 8;
    bool repeatStrideMode = false;
    bool strideSizeMode = false;
    bool halfBlock = false;

    UnaryRepeatParams() = default;
    UnaryRepeatParams(uint16_t dst_blk, uint16_t src_blk, uint8_t dst_rep, uint8_t src_rep)
        : dstBlkStride(dst_blk),
          srcBlkStride(src_blk),
          dstRepStride(dst_rep),
          srcRepStride(src_rep) {}
    UnaryRepeatParams(uint16_t dst_blk, uint16_t src_blk, uint8_t dst_rep, uint8_t src_rep,
                      bool half_block)
        : dstBlkStride(dst_blk),
          srcBlkStride(src_blk),
          dstRepStride(dst_rep),
          srcRepStride(src_rep),
          halfBlock(half_block) {}
};

struct BinaryRepeatParams {
    uint32_t blockNumber = 8;
    uint8_t dstBlkStride = 1;
    uint8_t src0BlkStride = 1;
    uint8_t src1BlkStride = 1;
    uint8_t dstRepStride = 8;
    uint8_t src0RepStride = 8;
    uint8_t src1RepStride = 8;
    bool repeatStrideMode = false;
    bool strideSizeMode = false;

    BinaryRepeatParams() = default;
    BinaryRepeatParams(uint8_t dst_blk, uint8_t src0_blk, uint8_t src1_blk, uint8_t dst_rep,
                       uint8_t src0_rep, uint8_t src1_rep)
        : dstBlkStride(dst_blk),
          src0BlkStride(src0_blk),
          src1BlkStride(src1_blk),
          dstRepStride(dst_rep),
          src0RepStride(src0_rep),
          src1RepStride(src1_rep) {}
};

}  // namespace AscendC

namespace twin {

inline Strides strides_of(const AscendC::UnaryRepeatParams &p) {
    return {p.dstBlkStride, p.srcBlkStride, 1, p.dstRepStride, p.srcRepStride, 8};
}
inline Strides strides_of(const AscendC::BinaryRepeatParams &p) {
    return {p.dstBlkStride, p.src0BlkStride, p.src1BlkStride,
            p.dstRepStride, p.src0RepStride, p.src1RepStride};
}

// Bytes of the wider of two element types: a repeat has as many lanes as it holds of these.
template <typename A, typename B>
constexpr uint32_t wider() {
    return sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B);
}

// The lanes of a form with a mask. A mask of bits has two words where a repeat has more than 64
// lanes, one otherwise.
template <bool isSetMask>
inline Lanes lanes_for(uint64_t mask, uint8_t repeat, uint32_t) {
    return isSetMask ? Lanes::masked(mask, repeat) : Lanes::kept(repeat);
}
template <bool isSetMask>
inline Lanes lanes_for(const uint64_t mask[], uint8_t repeat, uint32_t elem) {
    if (!isSetMask) {
        return Lanes::kept(repeat);
    }
    const uint64_t words[2] = {mask[0], elem > 2 ? 0 : mask[1]};
    return Lanes::masked(words, repeat);
}

}  // namespace twin

// TWIN_TAKES for a pair of types.
#if defined(WB_TWIN_ARCH)
#define TWIN_TAKES_PAIR(name, Dst, Src)                                                        \
    static_assert(::twin::TypeOf<Dst>::value != ::twin::Type::kCount &&                        \
                      (::twin::kFrom_##name[::twin::TypeOf<Dst>::value != ::twin::Type::kCount \
                                                ? unsigned(::twin::TypeOf<Dst>::value)         \
                                                : 0u] >>                                       \
                           unsigned(::twin::TypeOf<Src>::value) &                              \
                       1u) != 0,                                                               \
                  TWIN_TAKES_TEXT_##name)
#else
#define TWIN_TAKES_PAIR(name, Dst, Src) static_assert(sizeof(Dst) + sizeof(Src) != 0, #name)
#endif
