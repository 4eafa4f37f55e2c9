// Elements and data blocks by address, and the elements that a mask keeps.
#pragma once

#include "twin/tensor.h"

namespace twin {

void gather(Local dst, Local src, Local offsets, uint32_t elem, uint32_t base, const Lanes &lanes,
            uint16_t dst_rep, Where where);
void gather_blocks(Local dst, Local src, Local offsets, uint8_t repeat, uint16_t dst_blk,
                   uint16_t dst_rep, Where where);
void scatter(Local dst, Local src, Local offsets, uint32_t elem, uint32_t base, const Lanes &lanes,
             uint16_t src_rep, Where where);

struct GatherMaskStrides {
    uint8_t src0_blk;
    uint16_t repeats, src0_rep;
    uint8_t src1_rep;
};
// `pattern` 1 to 7, or 0: the bits of `bits`. Returns how many elements it kept.
uint64_t gather_mask(Local dst, Local src, const Local *bits, uint32_t pattern, uint32_t elem,
                     bool counted, uint32_t mask, const GatherMaskStrides &strides, Where where);

}  // namespace twin

namespace AscendC {

struct GatherRepeatParams {
    GatherRepeatParams() : GatherRepeatParams(1, 8) {}
    GatherRepeatParams(uint8_t blk, uint16_t rep) : dstBlkStride(blk), dstRepStride(rep) {}
    uint8_t dstBlkStride;
    uint16_t dstRepStride;
};

struct GatherMaskParams {
    GatherMaskParams() : GatherMaskParams(0, 0, 0, 0) {}
    GatherMaskParams(uint8_t blk, uint16_t repeats, uint16_t rep0, uint8_t rep1)
        : src0BlockStride(blk),
          repeatTimes(repeats),
          src0RepeatStride(rep0),
          src1RepeatStride(rep1) {}
    uint8_t src0BlockStride;
    uint16_t repeatTimes;
    uint16_t src0RepeatStride;
    uint8_t src1RepeatStride;
};

enum class GatherMaskMode : uint8_t { VERSION_V1 = 0, VERSION_V2 = 1, DEFAULT = 0 };
constexpr GatherMaskMode defaultGatherMaskMode = GatherMaskMode::DEFAULT;

// dst[i] = the element at byte srcBaseAddr + srcOffset[i] of src.
template <typename T>
__aicore__ inline void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                              const LocalTensor<uint32_t> &srcOffset, const uint32_t srcBaseAddr,
                              const uint32_t count, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Gather, T);
    twin::gather(dst.twin_local(), src.twin_local(), srcOffset.twin_local(), sizeof(T), srcBaseAddr,
                 twin::Lanes::first(count), 8, where);
}
template <typename T>
__aicore__ inline void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                              const LocalTensor<uint32_t> &srcOffset, const uint32_t srcBaseAddr,
                              const uint64_t mask, const uint8_t repeatTime,
                              const uint16_t dstRepStride,
                              twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Gather, T);
    twin::gather(dst.twin_local(), src.twin_local(), srcOffset.twin_local(), sizeof(T), srcBaseAddr,
                 twin::Lanes::masked(mask, repeatTime), dstRepStride, where);
}
template <typename T>
__aicore__ inline void Gather(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                              const LocalTensor<uint32_t> &srcOffset, const uint32_t srcBaseAddr,
                              const uint64_t mask[], const uint8_t repeatTime,
                              const uint16_t dstRepStride,
                              twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Gather, T);
    twin::gather(dst.twin_local(), src.twin_local(), srcOffset.twin_local(), sizeof(T), srcBaseAddr,
                 twin::Lanes::masked(mask, repeatTime), dstRepStride, where);
}

// Eight data blocks per repeat, each from its own byte offset.
template <typename T>
__aicore__ inline void Gatherb(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                               const LocalTensor<uint32_t> &offset, const uint8_t repeatTime,
                               const GatherRepeatParams &repeatParams,
                               twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Gatherb, T);
    twin::gather_blocks(dst.twin_local(), src0.twin_local(), offset.twin_local(), repeatTime,
                        repeatParams.dstBlkStride, repeatParams.dstRepStride, where);
}

// The element at byte dstBaseAddr + dstOffset[i] of dst = src[i]; of several for one place the
// last.
template <typename T>
__aicore__ inline void Scatter(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                               const LocalTensor<uint32_t> &dstOffset, const uint32_t dstBaseAddr,
                               const uint32_t count, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Scatter, T);
    twin::scatter(dst.twin_local(), src.twin_local(), dstOffset.twin_local(), sizeof(T),
                  dstBaseAddr, twin::Lanes::first(count), 8, where);
}
template <typename T>
__aicore__ inline void Scatter(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                               const LocalTensor<uint32_t> &dstOffset, const uint32_t dstBaseAddr,
                               const uint64_t mask, const uint8_t repeatTime,
                               const uint8_t srcRepStride,
                               twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Scatter, T);
    twin::scatter(dst.twin_local(), src.twin_local(), dstOffset.twin_local(), sizeof(T),
                  dstBaseAddr, twin::Lanes::masked(mask, repeatTime), srcRepStride, where);
}
template <typename T>
__aicore__ inline void Scatter(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                               const LocalTensor<uint32_t> &dstOffset, const uint32_t dstBaseAddr,
                               const uint64_t mask[], const uint8_t repeatTime,
                               const uint8_t srcRepStride,
                               twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Scatter, T);
    twin::scatter(dst.twin_local(), src.twin_local(), dstOffset.twin_local(), sizeof(T),
                  dstBaseAddr, twin::Lanes::masked(mask, repeatTime), srcRepStride, where);
}

// The elements of src0 whose bit is set, one after another. reduceMode false: whole repeats of 256
// bytes; true: `mask` elements per repeat (dav-2002: `mask` elements in all). 8.0 spelt the default
// of its last template parameter differently, so that nobody writes it.
template <typename T, GatherMaskMode mode = defaultGatherMaskMode>
__aicore__ inline void GatherMask(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                                  const uint8_t src1Pattern, const bool reduceMode,
                                  const uint32_t mask, const GatherMaskParams &gatherMaskParams,
                                  uint64_t &rsvdCnt, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(GatherMask, T);
    rsvdCnt = twin::gather_mask(
        dst.twin_local(), src0.twin_local(), nullptr, src1Pattern, sizeof(T), reduceMode, mask,
        {gatherMaskParams.src0BlockStride, gatherMaskParams.repeatTimes,
         gatherMaskParams.src0RepeatStride, gatherMaskParams.src1RepeatStride},
        where);
}
template <typename T, typename U, GatherMaskMode mode = defaultGatherMaskMode>
__aicore__ inline void GatherMask(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                                  const LocalTensor<U> &src1Pattern, const bool reduceMode,
                                  const uint32_t mask, const GatherMaskParams &gatherMaskParams,
                                  uint64_t &rsvdCnt, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(GatherMask, T);
    static_assert(sizeof(T) == sizeof(U) && U(-1) > U(0),
                  "GatherMask takes its mask as uint16_t for elements of two bytes, as uint32_t "
                  "for elements of four");
    rsvdCnt =
        twin::gather_mask(dst.twin_local(), src0.twin_local(), &src1Pattern.twin_local(), 0,
                          sizeof(T), reduceMode, mask,
                          {gatherMaskParams.src0BlockStride, gatherMaskParams.repeatTimes,
                           gatherMaskParams.src0RepeatStride, gatherMaskParams.src1RepeatStride},
                          where);
}
// What the last GatherMask kept.
__aicore__ inline int64_t GetGatherMaskRemainCount() {
    return int64_t(twin::block().gathered);
}

}  // namespace AscendC
