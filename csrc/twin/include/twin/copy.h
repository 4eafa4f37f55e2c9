// Copies between GM and UB.
#pragma once

#include "twin/tensor.h"

namespace AscendC {

struct DataCopyExtParams {
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;   // bytes
    uint32_t srcStride = 0;  // GM side: bytes; UB side: data blocks of 32 bytes
    uint32_t dstStride = 0;
    uint32_t rsv = 0;
};

template <typename T>
struct DataCopyPadExtParams {
    bool isPad = false;
    uint8_t leftPadding = 0;   // elements
    uint8_t rightPadding = 0;  // elements
    T paddingValue = T(0);
};

// (The conditions below name T so that a compiler judges them on use, not on sight.)
//
// GM -> UB, any length: one burst per block, each starting on a data block of UB. What the paddings
// do not name of a started data block holds the burst's first element (documented, also with isPad
// false); paddings without a value hold anything.
template <typename T>
__aicore__ inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                                   const DataCopyExtParams &params,
                                   const DataCopyPadExtParams<T> &pad,
                                   twin::Where where = twin::Where::here()) {
    static_assert(twin::kArch.data_copy_pad || sizeof(T) == 0,
                  "DataCopyPad does not exist on this architecture");
    twin::copy_pad_in(
        dst.data(), src.GetPhyAddr(),
        {params.blockCount, params.blockLen, params.srcStride, params.dstStride},
        {uint32_t(pad.leftPadding * sizeof(T)), uint32_t(pad.rightPadding * sizeof(T)), sizeof(T),
         pad.isPad ? &pad.paddingValue : nullptr},
        where);
}

// UB -> GM, any length. The UB address steps by whole data blocks per burst.
template <typename T>
__aicore__ inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                                   const DataCopyExtParams &params,
                                   twin::Where where = twin::Where::here()) {
    static_assert(twin::kArch.data_copy_pad || sizeof(T) == 0,
                  "DataCopyPad does not exist on this architecture");
    twin::copy_pad_out(dst.GetPhyAddr(0), src.data(),
                       {params.blockCount, params.blockLen, params.srcStride, params.dstStride},
                       where);
}

}  // namespace AscendC
