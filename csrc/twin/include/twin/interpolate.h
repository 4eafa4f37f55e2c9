// BilinearInterpolation: weighted sums of data blocks that offsets name.
#pragma once

#include "twin/params.h"
#include "twin/tensor.h"

namespace twin {

struct Interpolation {
    Local dst, src0, offsets, src1;
    uint8_t rows, repeats;  // horizontal iterations, each added to the last; vertical ones
    bool weight_per_block;
    uint16_t dst_blk;   // data blocks
    uint16_t dst_step;  // elements from one vertical iteration to the next
};
void interpolate(const Interpolation &i, const Lanes &lanes, Where where);

}  // namespace twin

namespace AscendC {

template <typename T>
__aicore__ inline void BilinearInterpolation(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                                             const LocalTensor<uint32_t> &src0Offset,
                                             const LocalTensor<T> &src1, uint64_t mask,
                                             uint8_t hRepeat, bool repeatMode,
                                             uint16_t dstBlkStride, uint16_t vROffset,
                                             uint8_t vRepeat, const LocalTensor<uint8_t> &,
                                             twin::Where where = twin::Where::here()) {
    TWIN_TAKES(BilinearInterpolation, T);
    twin::interpolate({dst.twin_local(), src0.twin_local(), src0Offset.twin_local(),
                       src1.twin_local(), hRepeat, vRepeat, repeatMode, dstBlkStride, vROffset},
                      twin::Lanes::masked(mask, 1), where);
}
template <typename T>
__aicore__ inline void BilinearInterpolation(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                                             const LocalTensor<uint32_t> &src0Offset,
                                             const LocalTensor<T> &src1, const uint64_t mask[],
                                             uint8_t hRepeat, bool repeatMode,
                                             uint16_t dstBlkStride, uint16_t vROffset,
                                             uint8_t vRepeat, const LocalTensor<uint8_t> &,
                                             twin::Where where = twin::Where::here()) {
    TWIN_TAKES(BilinearInterpolation, T);
    twin::interpolate({dst.twin_local(), src0.twin_local(), src0Offset.twin_local(),
                       src1.twin_local(), hRepeat, vRepeat, repeatMode, dstBlkStride, vROffset},
                      twin::Lanes::masked(mask, 1), where);
}

}  // namespace AscendC
