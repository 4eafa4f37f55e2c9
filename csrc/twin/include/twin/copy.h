// Copies: between GM and UB (MTE2, MTE3), and within UB (V).
#pragma once

#include "twin/tensor.h"

namespace twin {

// Bursts in data blocks of 32 bytes; the gaps lie between the end of one and the start of the next.
struct DataBlocks {
    uint32_t count, len;
    uint32_t src_gap, dst_gap;
};
void copy_count(Local dst, Global src, uint64_t bytes, Where where);
void copy_count(Global dst, Local src, uint64_t bytes, Where where);
void copy_count(Local dst, Local src, uint64_t bytes, Where where);
void copy_blocks(Local dst, Global src, const DataBlocks &p, Where where);
void copy_blocks(Global dst, Local src, const DataBlocks &p, Where where);
void copy_blocks(Local dst, Local src, const DataBlocks &p, Where where);

// DataCopyPad.
struct Burst {
    uint32_t count;       // bursts
    uint32_t len;         // bytes of one
    uint32_t src_stride;  // GM side: bytes; UB side: data blocks
    uint32_t dst_stride;
};
struct Padding {
    uint32_t left;  // bytes
    uint32_t right;
    uint32_t element;  // bytes of one element
    const void
        *value;  // null: what SetPadValue said, else the paddings hold anything (poison here)
};
void copy_pad_in(Local dst, Global src, const Burst &burst, const Padding &padding, Where where);
void copy_pad_out(Global dst, Local src, const Burst &burst, Type type, Where where);
void set_pad_value(uint64_t bits, Where where);

// Copy.
struct CopyStrides {
    uint16_t dst_blk, src_blk, dst_rep, src_rep;
};
void copy_lanes(Local dst, Local src, Type type, const Lanes &lanes, const CopyStrides &strides,
                Where where);

}  // namespace twin

namespace AscendC {

// The older names of the two gaps, srcStride and dstStride, name the same members.
struct DataCopyParams {
    DataCopyParams() : DataCopyParams(1, 0, 0, 0) {}
    DataCopyParams(uint16_t count, uint16_t len, uint16_t src, uint16_t dst)
        : blockCount(count), blockLen(len), srcGap(src), dstGap(dst) {}
    uint16_t blockCount;
    uint16_t blockLen;  // data blocks of 32 bytes; bytes for DataCopyPad
    union {
        uint16_t srcGap;
        uint16_t srcStride;
    };
    union {
        uint16_t dstGap;
        uint16_t dstStride;
    };
};

// (Constructors, not aggregates, here and below: a list in braces then names one struct of those
// that the overloads take, by its length.)
struct DataCopyExtParams {
    DataCopyExtParams() = default;
    DataCopyExtParams(uint16_t count, uint32_t len, uint32_t src, uint32_t dst, uint32_t reserved)
        : blockCount(count), blockLen(len), srcStride(src), dstStride(dst), rsv(reserved) {}
    uint16_t blockCount = 1;
    uint32_t blockLen = 0;   // bytes
    uint32_t srcStride = 0;  // GM side: bytes; UB side: data blocks of 32 bytes
    uint32_t dstStride = 0;
    uint32_t rsv = 0;
};

struct DataCopyPadParams {
    DataCopyPadParams() = default;
    DataCopyPadParams(bool pad, uint8_t left, uint8_t right, uint64_t value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
    bool isPad = false;
    uint8_t leftPadding = 0;   // elements
    uint8_t rightPadding = 0;  // elements
    uint64_t paddingValue = 0;
};

template <typename T>
struct DataCopyPadExtParams {
    DataCopyPadExtParams() = default;
    DataCopyPadExtParams(bool pad, uint8_t left, uint8_t right, T value)
        : isPad(pad), leftPadding(left), rightPadding(right), paddingValue(value) {}
    bool isPad = false;
    uint8_t leftPadding = 0;   // elements
    uint8_t rightPadding = 0;  // elements
    T paddingValue = T{};
};

// One dimension of a slice, in elements; burstLen in data blocks of 32 bytes.
struct SliceInfo {
    uint32_t startIndex = 0;
    uint32_t endIndex = 0;  // the last element that belongs to it
    uint32_t stride = 0;    // elements between two segments
    uint32_t burstLen = 0;  // of the first dimension; 1 in the others
    uint32_t shapeValue = 0;
};

struct Nd2NzParams {
    Nd2NzParams() = default;
    Nd2NzParams(uint16_t nds, uint16_t n, uint16_t d, uint16_t src_matrix, uint16_t src_row,
                uint16_t dst_c0, uint16_t dst_n, uint16_t dst_matrix)
        : ndNum(nds),
          nValue(n),
          dValue(d),
          srcNdMatrixStride(src_matrix),
          srcDValue(src_row),
          dstNzC0Stride(dst_c0),
          dstNzNStride(dst_n),
          dstNzMatrixStride(dst_matrix) {}
    uint16_t ndNum = 0;
    uint16_t nValue = 0;             // rows
    uint16_t dValue = 0;             // columns
    uint16_t srcNdMatrixStride = 0;  // elements
    uint16_t srcDValue = 0;          // elements from one row to the next
    uint16_t dstNzC0Stride = 0;      // data blocks from one column of data blocks to the next
    uint16_t dstNzNStride = 0;       // data blocks from one row to the next
    uint16_t dstNzMatrixStride = 0;  // elements
};

struct Nz2NdParamsFull {
    Nz2NdParamsFull() = default;
    Nz2NdParamsFull(uint16_t nds, uint16_t n, uint16_t d, uint16_t src_matrix, uint16_t src_n,
                    uint16_t dst_row, uint16_t dst_matrix)
        : ndNum(nds),
          nValue(n),
          dValue(d),
          srcNdMatrixStride(src_matrix),
          srcNStride(src_n),
          dstDStride(dst_row),
          dstNdMatrixStride(dst_matrix) {}
    uint16_t ndNum = 1;
    uint16_t nValue = 0;             // rows
    uint16_t dValue = 0;             // columns, a multiple of 16
    uint16_t srcNdMatrixStride = 1;  // 256 elements
    uint16_t srcNStride = 0;         // 16 elements, from one column of 16 to the next
    uint16_t dstDStride = 0;         // elements from one row to the next
    uint16_t dstNdMatrixStride = 1;  // elements
};

enum class BlockMode : uint8_t {
    BLOCK_MODE_NORMAL = 0,
    BLOCK_MODE_MATRIX,
    BLOCK_MODE_VECTOR,
    BLOCK_MODE_SMALL_CHANNEL,
    BLOCK_MODE_DEPTHWISE
};
enum class DeqScale : uint8_t { DEQ_NONE = 0, DEQ, VDEQ, DEQ8, VDEQ8, DEQ16, VDEQ16 };
struct DataCopyEnhancedParams {
    BlockMode blockMode = BlockMode::BLOCK_MODE_NORMAL;
    DeqScale deqScale = DeqScale::DEQ_NONE;
    uint64_t deqValue = 0;
    uint8_t sidStoreMode = 0;
    bool isRelu = false;
};

struct CopyRepeatParams {
    CopyRepeatParams() : CopyRepeatParams(1, 1, 8, 8) {}
    CopyRepeatParams(uint16_t dst, uint16_t src, uint16_t dst_repeat, uint16_t src_repeat)
        : dstStride(dst), srcStride(src), dstRepeatSize(dst_repeat), srcRepeatSize(src_repeat) {}
    uint16_t dstStride;
    uint16_t srcStride;
    uint16_t dstRepeatSize;
    uint16_t srcRepeatSize;
};

}  // namespace AscendC

namespace twin {

void copy_slice(Local dst, Global src, uint32_t elem, const AscendC::SliceInfo *to,
                const AscendC::SliceInfo *from, uint32_t dims, Where where);
void copy_slice(Global dst, Local src, uint32_t elem, const AscendC::SliceInfo *to,
                const AscendC::SliceInfo *from, uint32_t dims, Where where);
void copy_nd_to_nz(Local dst, Global src, uint32_t elem, const AscendC::Nd2NzParams &p,
                   Where where);
void copy_nz_to_nd(Global dst, Local src, uint32_t elem, const AscendC::Nz2NdParamsFull &p,
                   Where where);
void check_enhanced(const AscendC::DataCopyEnhancedParams &p, Where where);

inline DataBlocks data_blocks(const AscendC::DataCopyParams &p) {
    return {p.blockCount, p.blockLen, p.srcGap, p.dstGap};
}

}  // namespace twin

namespace AscendC {

// The first `count` elements; bytes that do not fill a data block of 32 are silently left behind.
template <typename T>
__aicore__ inline void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                                const uint32_t count, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_count(dst.twin_local(), src.twin_global(), uint64_t(count) * sizeof(T), where);
}
template <typename T>
__aicore__ inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                                const uint32_t count, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_count(dst.twin_global(), src.twin_local(), uint64_t(count) * sizeof(T), where);
}
template <typename T>
__aicore__ inline void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                const uint32_t count, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_count(dst.twin_local(), src.twin_local(), uint64_t(count) * sizeof(T), where);
}

// Bursts of whole data blocks.
template <typename T>
__aicore__ inline void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                                const DataCopyParams &repeatParams,
                                twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_blocks(dst.twin_local(), src.twin_global(), twin::data_blocks(repeatParams), where);
}
template <typename T>
__aicore__ inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                                const DataCopyParams &repeatParams,
                                twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_blocks(dst.twin_global(), src.twin_local(), twin::data_blocks(repeatParams), where);
}
template <typename T>
__aicore__ inline void DataCopy(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                const DataCopyParams &repeatParams,
                                twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_blocks(dst.twin_local(), src.twin_local(), twin::data_blocks(repeatParams), where);
}

// With computation on the way: what a vector core has of it is the plain copy.
template <typename Dst, typename Src>
__aicore__ inline void DataCopy(const Dst &dst, const Src &src, const DataCopyParams &intriParams,
                                const DataCopyEnhancedParams &enhancedParams,
                                twin::Where where = twin::Where::here()) {
    twin::check_enhanced(enhancedParams, where);
    DataCopy(dst, src, intriParams, where);
}

// Slices of up to eight dimensions, the fastest one first.
template <typename T>
__aicore__ inline void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                                const SliceInfo dstSliceInfo[], const SliceInfo srcSliceInfo[],
                                const uint32_t dimValue = 1,
                                twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_slice(dst.twin_local(), src.twin_global(), sizeof(T), dstSliceInfo, srcSliceInfo,
                     dimValue, where);
}
template <typename T>
__aicore__ inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                                const SliceInfo dstSliceInfo[], const SliceInfo srcSliceInfo[],
                                const uint32_t dimValue = 1,
                                twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_slice(dst.twin_global(), src.twin_local(), sizeof(T), dstSliceInfo, srcSliceInfo,
                     dimValue, where);
}

// Rows into columns of data blocks, and back.
template <typename T>
__aicore__ inline void DataCopy(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                                const Nd2NzParams &intriParams,
                                twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_nd_to_nz(dst.twin_local(), src.twin_global(), sizeof(T), intriParams, where);
}
template <typename T>
__aicore__ inline void DataCopy(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                                const Nz2NdParamsFull &intriParams,
                                twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopy, T);
    twin::copy_nz_to_nd(dst.twin_global(), src.twin_local(), sizeof(T), intriParams, where);
}

// GM -> UB, any length: one burst per block, each starting on a data block of UB. What the paddings
// do not name of a started data block holds the burst's first element (documented, also with isPad
// false); paddings without a value hold anything.
template <typename T>
__aicore__ inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                                   const DataCopyExtParams &dataCopyParams,
                                   const DataCopyPadExtParams<T> &padParams,
                                   twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopyPad, T);
    twin::copy_pad_in(
        dst.twin_local(), src.twin_global(),
        {dataCopyParams.blockCount, dataCopyParams.blockLen, dataCopyParams.srcStride,
         dataCopyParams.dstStride},
        {uint32_t(padParams.leftPadding * sizeof(T)), uint32_t(padParams.rightPadding * sizeof(T)),
         sizeof(T), padParams.isPad ? &padParams.paddingValue : nullptr},
        where);
}
// The older form: at most 65535 bytes a burst.
template <typename T>
__aicore__ inline void DataCopyPad(const LocalTensor<T> &dst, const GlobalTensor<T> &src,
                                   const DataCopyParams &dataCopyParams,
                                   const DataCopyPadParams &padParams,
                                   twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopyPad, T);
    twin::copy_pad_in(
        dst.twin_local(), src.twin_global(),
        {dataCopyParams.blockCount, dataCopyParams.blockLen, dataCopyParams.srcGap,
         dataCopyParams.dstGap},
        {uint32_t(padParams.leftPadding * sizeof(T)), uint32_t(padParams.rightPadding * sizeof(T)),
         sizeof(T), padParams.isPad ? &padParams.paddingValue : nullptr},
        where);
}

// UB -> GM, any length. The UB address steps by whole data blocks per burst.
template <typename T>
__aicore__ inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                                   const DataCopyExtParams &dataCopyParams,
                                   twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopyPad, T);
    twin::copy_pad_out(dst.twin_global(), src.twin_local(),
                       {dataCopyParams.blockCount, dataCopyParams.blockLen,
                        dataCopyParams.srcStride, dataCopyParams.dstStride},
                       twin::TypeOf<T>::value, where);
}
template <typename T>
__aicore__ inline void DataCopyPad(const GlobalTensor<T> &dst, const LocalTensor<T> &src,
                                   const DataCopyParams &dataCopyParams,
                                   twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DataCopyPad, T);
    twin::copy_pad_out(dst.twin_global(), src.twin_local(),
                       {dataCopyParams.blockCount, dataCopyParams.blockLen, dataCopyParams.srcGap,
                        dataCopyParams.dstGap},
                       twin::TypeOf<T>::value, where);
}

template <typename T, TPosition pos = TPosition::MAX>
__aicore__ inline void SetPadValue(T paddingValue, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SetPadValue, T);
    twin::set_pad_value(twin::scalar_bits(paddingValue), where);
}

// UB -> UB on the vector unit.
template <typename T, bool isSetMask = true>
__aicore__ inline void Copy(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                            const uint64_t mask, const uint8_t repeatTime,
                            const CopyRepeatParams &repeatParams,
                            twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Copy, T);
    twin::copy_lanes(
        dst.twin_local(), src.twin_local(), twin::TypeOf<T>::value,
        isSetMask ? twin::Lanes::masked(mask, repeatTime) : twin::Lanes::kept(repeatTime),
        {repeatParams.dstStride, repeatParams.srcStride, repeatParams.dstRepeatSize,
         repeatParams.srcRepeatSize},
        where);
}
template <typename T, bool isSetMask = true>
__aicore__ inline void Copy(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                            const uint64_t mask[], const uint8_t repeatTime,
                            const CopyRepeatParams &repeatParams,
                            twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Copy, T);
    twin::copy_lanes(
        dst.twin_local(), src.twin_local(), twin::TypeOf<T>::value,
        isSetMask ? twin::Lanes::masked(mask, repeatTime) : twin::Lanes::kept(repeatTime),
        {repeatParams.dstStride, repeatParams.srcStride, repeatParams.dstRepeatSize,
         repeatParams.srcRepeatSize},
        where);
}

}  // namespace AscendC
