// Fills: a data block per element, and sequences.
#pragma once

#include "twin/tensor.h"

namespace twin {

void broadcast_to_blocks(Local dst, Local src, uint32_t elem, uint8_t repeat, uint16_t dst_blk,
                         uint16_t dst_rep, Where where);
void vector_index(Local dst, Type type, uint64_t first, const Lanes &lanes, uint16_t dst_blk,
                  uint16_t dst_rep, Where where);
void progression(Local dst, Type type, uint64_t first, uint64_t difference, int32_t count,
                 Where where);

}  // namespace twin

namespace AscendC {

struct BrcbRepeatParams {
    BrcbRepeatParams() : BrcbRepeatParams(1, 8) {}
    BrcbRepeatParams(uint16_t blk, uint16_t rep) : dstBlkStride(blk), dstRepStride(rep) {}
    uint16_t dstBlkStride;
    uint16_t dstRepStride;
};

// Eight elements of src become eight data blocks of dst, per repeat.
template <typename T>
__aicore__ inline void Brcb(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                            const uint8_t repeatTime, const BrcbRepeatParams &repeatParams,
                            twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Brcb, T);
    twin::broadcast_to_blocks(dst.twin_local(), src0.twin_local(), sizeof(T), repeatTime,
                              repeatParams.dstBlkStride, repeatParams.dstRepStride, where);
}

// firstValue, firstValue + 1, …
template <typename T>
__aicore__ inline void CreateVecIndex(const LocalTensor<T> &dst, const T &firstValue,
                                      uint32_t count, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(CreateVecIndex, T);
    twin::vector_index(dst.twin_local(), twin::TypeOf<T>::value, twin::scalar_bits(firstValue),
                       twin::Lanes::first(count), 1, 8, where);
}
template <typename T>
__aicore__ inline void CreateVecIndex(const LocalTensor<T> &dst, const T &firstValue, uint64_t mask,
                                      uint8_t repeatTime, uint16_t dstBlkStride,
                                      uint8_t dstRepStride,
                                      twin::Where where = twin::Where::here()) {
    TWIN_MASKED(CreateVecIndex, T);
    twin::vector_index(dst.twin_local(), twin::TypeOf<T>::value, twin::scalar_bits(firstValue),
                       twin::Lanes::masked(mask, repeatTime), dstBlkStride, dstRepStride, where);
}
template <typename T>
__aicore__ inline void CreateVecIndex(const LocalTensor<T> &dst, const T &firstValue,
                                      const uint64_t mask[], uint8_t repeatTime,
                                      uint16_t dstBlkStride, uint8_t dstRepStride,
                                      twin::Where where = twin::Where::here()) {
    TWIN_MASKED(CreateVecIndex, T);
    twin::vector_index(dst.twin_local(), twin::TypeOf<T>::value, twin::scalar_bits(firstValue),
                       twin::Lanes::masked(mask, repeatTime), dstBlkStride, dstRepStride, where);
}

// firstValue, firstValue + diffValue, firstValue + 2 diffValue, …
template <typename T>
__aicore__ inline void ArithProgression(const LocalTensor<T> &dst, const T firstValue,
                                        const T diffValue, const int32_t count,
                                        twin::Where where = twin::Where::here()) {
    TWIN_TAKES(ArithProgression, T);
    twin::progression(dst.twin_local(), twin::TypeOf<T>::value, twin::scalar_bits(firstValue),
                      twin::scalar_bits(diffValue), count, where);
}
// 9.x
template <typename T>
__aicore__ inline void Arange(const LocalTensor<T> &dst, const T firstValue, const T diffValue,
                              const int32_t count, twin::Where where = twin::Where::here()) {
    ArithProgression(dst, firstValue, diffValue, count, where);
}

}  // namespace AscendC
