// The k largest, or smallest, of each row.
#pragma once

#include "twin/high_level/rows.h"

namespace twin {

struct TopKShape {
    Rows rows;
    uint32_t k;
    bool packed;  // rows of the results: k elements; else whole data blocks
    bool largest;
    bool own_indices;   // src_index is read: one a column, or, packed, one an element
    bool has_finished;  // rows that do not count
};
void top_k(Type type, const Local &dst, const Local &dst_index, const Local &src,
           const Local &src_index, const Local &finished, const TopKShape &shape, Where where);

}  // namespace twin

// The twin needs none of what the host's tiling function fills.
struct TopkTiling {
    uint32_t tmpLocalSize = 0;
};

namespace AscendC {

using ::TopkTiling;

enum class TopKMode { TOPK_NORMAL, TOPK_NSMALL };

struct TopKInfo {
    int32_t outter = 1;
    int32_t inner = 0;
    int32_t n = 0;
};

template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          enum TopKMode topkMode = TopKMode::TOPK_NORMAL>
__aicore__ inline void TopK(const LocalTensor<T> &dstValueLocal,
                            const LocalTensor<int32_t> &dstIndexLocal,
                            const LocalTensor<T> &srcLocal,
                            const LocalTensor<int32_t> &srcIndexLocal,
                            const LocalTensor<bool> &finishLocal, const int32_t k,
                            const TopkTiling &, const TopKInfo &topKInfo,
                            const bool isLargest = true, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(TopK, T);
    twin::top_k(twin::TypeOf<T>::value, dstValueLocal.twin_local(), dstIndexLocal.twin_local(),
                srcLocal.twin_local(), srcIndexLocal.twin_local(), finishLocal.twin_local(),
                {{uint32_t(topKInfo.outter), uint32_t(topKInfo.n), uint32_t(topKInfo.inner)},
                 uint32_t(k),
                 topkMode == TopKMode::TOPK_NSMALL,
                 isLargest,
                 isInitIndex,
                 isHasfinish},
                where);
}
template <typename T, bool isInitIndex = false, bool isHasfinish = false, bool isReuseSrc = false,
          enum TopKMode topkMode = TopKMode::TOPK_NORMAL>
__aicore__ inline void TopK(const LocalTensor<T> &dstValueLocal,
                            const LocalTensor<int32_t> &dstIndexLocal,
                            const LocalTensor<T> &srcLocal,
                            const LocalTensor<int32_t> &srcIndexLocal,
                            const LocalTensor<bool> &finishLocal, const LocalTensor<uint8_t> &,
                            const int32_t k, const TopkTiling &tiling, const TopKInfo &topKInfo,
                            const bool isLargest = true, twin::Where where = twin::Where::here()) {
    TopK<T, isInitIndex, isHasfinish, isReuseSrc, topkMode>(dstValueLocal, dstIndexLocal, srcLocal,
                                                            srcIndexLocal, finishLocal, k, tiling,
                                                            topKInfo, isLargest, where);
}

}  // namespace AscendC
