// Transpositions.
#pragma once

#include "twin/tensor.h"

namespace AscendC {

enum class TransposeType : uint8_t {
    TRANSPOSE_TYPE_NONE,
    TRANSPOSE_NZ2ND_0213,
    TRANSPOSE_NZ2NZ_0213,
    TRANSPOSE_NZ2NZ_012_WITH_N,
    TRANSPOSE_NZ2ND_012_WITH_N,
    TRANSPOSE_NZ2ND_012_WITHOUT_N,
    TRANSPOSE_NZ2NZ_012_WITHOUT_N,
    TRANSPOSE_ND2ND_ONLY,
    TRANSPOSE_ND_UB_GM,
    TRANSPOSE_GRAD_ND_UB_GM,
    TRANSPOSE_ND2ND_B16,
    TRANSPOSE_NCHW2NHWC,
    TRANSPOSE_NHWC2NCHW
};

struct TransposeParamsExt {
    TransposeParamsExt() = default;
    TransposeParamsExt(uint16_t n, uint16_t c, uint16_t h, uint16_t w, TransposeType type)
        : nSize(n), cSize(c), hSize(h), wSize(w), transposeType(type) {}
    uint16_t nSize = 0;
    uint16_t cSize = 0;
    uint16_t hSize = 0;
    uint16_t wSize = 0;
    TransposeType transposeType = TransposeType::TRANSPOSE_ND2ND_B16;
};

struct TransDataTo5HDParams {
    TransDataTo5HDParams() = default;
    TransDataTo5HDParams(bool dst_high, bool src_high, uint8_t repeats, uint16_t dst_rep,
                         uint16_t src_rep)
        : dstHighHalf(dst_high),
          srcHighHalf(src_high),
          repeatTimes(repeats),
          dstRepStride(dst_rep),
          srcRepStride(src_rep) {}
    bool dstHighHalf = false;
    bool srcHighHalf = false;
    uint8_t repeatTimes = 1;
    uint16_t dstRepStride = 0;
    uint16_t srcRepStride = 0;
};

constexpr uint32_t NCHW_CONV_ADDR_LIST_SIZE = 16;

}  // namespace AscendC

namespace twin {

void transpose_16x16(Local dst, Local src, Where where);
void transpose_ext(Local dst, Local src, Local tmp, uint32_t elem,
                   const AscendC::TransposeParamsExt &p, Where where);
// 16 data blocks on either side, per repeat.
void trans_data(const Local dst[], const Local src[], uint32_t elem,
                const AscendC::TransDataTo5HDParams &p, Where where);
// The same by addresses, as GetPhyAddr gives them.
void trans_data(const uint64_t dst[], const uint64_t src[], uint32_t elem,
                const AscendC::TransDataTo5HDParams &p, Where where);
// The same by addresses that lie in UB.
void trans_data(Local dst, Local src, uint32_t elem, const AscendC::TransDataTo5HDParams &p,
                Where where);

}  // namespace twin

namespace AscendC {

template <typename T>
__aicore__ inline void Transpose(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                 twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Transpose, T);
    static_assert(sizeof(T) == 2, "the plain Transpose takes int16_t, uint16_t and half");
    twin::transpose_16x16(dst.twin_local(), src.twin_local(), where);
}
template <typename T>
__aicore__ inline void Transpose(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                 const LocalTensor<uint8_t> &sharedTmpBuffer,
                                 const TransposeParamsExt &transposeParams,
                                 twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Transpose, T);
    twin::transpose_ext(dst.twin_local(), src.twin_local(), sharedTmpBuffer.twin_local(), sizeof(T),
                        transposeParams, where);
}

template <typename T>
__aicore__ inline void TransDataTo5HD(const LocalTensor<T> (&dstList)[NCHW_CONV_ADDR_LIST_SIZE],
                                      const LocalTensor<T> (&srcList)[NCHW_CONV_ADDR_LIST_SIZE],
                                      const TransDataTo5HDParams &nchwconvParams,
                                      twin::Where where = twin::Where::here()) {
    TWIN_TAKES(TransDataTo5HD, T);
    twin::Local dst[NCHW_CONV_ADDR_LIST_SIZE], src[NCHW_CONV_ADDR_LIST_SIZE];
    for (uint32_t i = 0; i < NCHW_CONV_ADDR_LIST_SIZE; ++i) {
        dst[i] = dstList[i].twin_local();
        src[i] = srcList[i].twin_local();
    }
    twin::trans_data(dst, src, sizeof(T), nchwconvParams, where);
}
template <typename T>
__aicore__ inline void TransDataTo5HD(uint64_t dstList[NCHW_CONV_ADDR_LIST_SIZE],
                                      uint64_t srcList[NCHW_CONV_ADDR_LIST_SIZE],
                                      const TransDataTo5HDParams &nchwconvParams,
                                      twin::Where where = twin::Where::here()) {
    TWIN_TAKES(TransDataTo5HD, T);
    twin::trans_data(dstList, srcList, sizeof(T), nchwconvParams, where);
}
template <typename T>
__aicore__ inline void TransDataTo5HD(const LocalTensor<uint64_t> &dst,
                                      const LocalTensor<uint64_t> &src,
                                      const TransDataTo5HDParams &nchwconvParams,
                                      twin::Where where = twin::Where::here()) {
    TWIN_TAKES(TransDataTo5HD, T);
    twin::trans_data(dst.twin_local(), src.twin_local(), sizeof(T), nchwconvParams, where);
}

}  // namespace AscendC
