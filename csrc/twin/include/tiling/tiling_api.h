// What a host program calls before it launches a kernel of the high-level API: the tiling
// structures filled from shapes, and how much temporary UB a function wants. Written from the
// public documentation (names, signatures, meaning).
//
// The twin's high-level functions read the shapes in the tiling, and take no temporary space. The
// sizes are *assumed*: the vendor gives no formulas, only that less than the minimum is wrong and
// more than the maximum of no use.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

#include "kernel_operator.h"
#include "tiling/platform/platform_ascendc.h"

namespace ge {

class Shape {
  public:
    Shape() = default;
    Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
    explicit Shape(const std::vector<int64_t> &dims) : dims_(dims) {}
    size_t GetDimNum() const { return dims_.size(); }
    int64_t GetDim(size_t i) const { return i < dims_.size() ? dims_[i] : 0; }
    bool SetDim(size_t i, int64_t value) {
        if (i >= dims_.size()) {
            return false;
        }
        dims_[i] = value;
        return true;
    }
    std::vector<int64_t> GetDims() const { return dims_; }
    int64_t GetShapeSize() const {
        int64_t size = dims_.empty() ? 0 : 1;
        for (const int64_t dim : dims_) {
            size *= dim;
        }
        return size;
    }

  private:
    std::vector<int64_t> dims_;
};

}  // namespace ge

// The kernel's structures as the host has them: with a getter and a setter per field, and
// SaveToBuffer for the bytes that go to the kernel.
namespace optiling {

#define TWIN_TILING(Name)                                        \
    class Name : public ::Name {                                 \
      public:                                                    \
        size_t GetDataSize() const { return sizeof(::Name); }    \
        void SaveToBuffer(void *buffer, size_t capacity) const { \
            const ::Name &plain = *this;                         \
            if (capacity >= sizeof plain) {                      \
                std::memcpy(buffer, &plain, sizeof plain);       \
            }                                                    \
        }
#define TWIN_FIELD(type, name) \
    void set_##name(type to) { \
        name = to;             \
    }                          \
    type get_##name() const {  \
        return name;           \
    }

TWIN_TILING(SoftMaxTiling)
TWIN_FIELD(uint32_t, srcM)
TWIN_FIELD(uint32_t, srcK)
TWIN_FIELD(uint32_t, srcSize)
TWIN_FIELD(uint32_t, outMaxM)
TWIN_FIELD(uint32_t, outMaxK)
TWIN_FIELD(uint32_t, outMaxSize)
TWIN_FIELD(uint32_t, splitM)
TWIN_FIELD(uint32_t, splitK)
TWIN_FIELD(uint32_t, splitSize)
TWIN_FIELD(uint32_t, reduceM)
TWIN_FIELD(uint32_t, reduceK)
TWIN_FIELD(uint32_t, reduceSize)
TWIN_FIELD(uint32_t, rangeM)
TWIN_FIELD(uint32_t, tailM)
TWIN_FIELD(uint32_t, tailSplitSize)
TWIN_FIELD(uint32_t, tailReduceSize)
};
using LogSoftMaxTiling = SoftMaxTiling;

TWIN_TILING(LayerNormTiling)
TWIN_FIELD(uint32_t, bLength)
TWIN_FIELD(uint32_t, sLength)
TWIN_FIELD(uint32_t, hLength)
TWIN_FIELD(uint32_t, originalHLength)
}
;

TWIN_TILING(RmsNormTiling)
TWIN_FIELD(uint32_t, bLength)
TWIN_FIELD(uint32_t, sLength)
TWIN_FIELD(uint32_t, hLength)
TWIN_FIELD(uint32_t, originalHLength)
}
;

TWIN_TILING(PadTiling)
TWIN_FIELD(uint32_t, srcHeight)
TWIN_FIELD(uint32_t, srcWidth)
TWIN_FIELD(uint32_t, srcOriWidth)
}
;

TWIN_TILING(UnPadTiling)
TWIN_FIELD(uint32_t, srcHeight)
TWIN_FIELD(uint32_t, srcWidth)
}
;

TWIN_TILING(TopkTiling)
}
;

#undef TWIN_FIELD
#undef TWIN_TILING

}  // namespace optiling

namespace AscendC {

// CANN 8.5 names the kernel's structures here too.
namespace tiling {
using ::LayerNormTiling;
using ::LogSoftMaxTiling;
using ::PadTiling;
using ::RmsNormTiling;
using ::SoftMaxTiling;
using ::TopkTiling;
using ::UnPadTiling;
}  // namespace tiling

}  // namespace AscendC

namespace twin {

constexpr uint32_t kLeastTmp = 256;

inline uint32_t most_tmp(uint64_t bytes) {
    const uint64_t whole = (bytes + kLeastTmp - 1) / kLeastTmp * kLeastTmp;
    return uint32_t(whole < kLeastTmp ? kLeastTmp : whole);
}
inline uint32_t most_tmp(const ge::Shape &shape, uint32_t type_size) {
    return most_tmp(uint64_t(shape.GetShapeSize()) * type_size);
}
inline uint32_t last_dim(const ge::Shape &shape) {
    return shape.GetDimNum() == 0 ? 0 : uint32_t(shape.GetDim(shape.GetDimNum() - 1));
}
inline uint32_t rows_before(const ge::Shape &shape) {
    const uint32_t last = last_dim(shape);
    return last == 0 ? 0 : uint32_t(shape.GetShapeSize() / last);
}

}  // namespace twin

namespace AscendC {

// ---- softmax ------------------------------------------------------------------------------------

// All rows at once: the twin does not split them.
#define TWIN_SOFTMAX_TILING(Name)                                                                  \
    inline uint32_t Get##Name##MaxTmpSize(const ge::Shape &srcShape, const uint32_t dataTypeSize,  \
                                          const bool /*isReuseSource*/) {                          \
        return twin::most_tmp(srcShape, dataTypeSize);                                             \
    }                                                                                              \
    inline uint32_t Get##Name##MinTmpSize(const ge::Shape &, const uint32_t, const bool) {         \
        return twin::kLeastTmp;                                                                    \
    }                                                                                              \
    inline void Name##TilingFunc(const ge::Shape &srcShape, const uint32_t dataTypeSize,           \
                                 const uint32_t /*localWorkSpaceSize*/, ::SoftMaxTiling &tiling) { \
        const uint32_t rows = twin::rows_before(srcShape), cols = twin::last_dim(srcShape);        \
        const uint32_t lanes = dataTypeSize == 0 ? 0 : 32 / dataTypeSize;                          \
        tiling.srcM = tiling.outMaxM = tiling.splitM = tiling.reduceM = rows;                      \
        tiling.srcK = tiling.splitK = cols;                                                        \
        tiling.srcSize = tiling.splitSize = rows * cols;                                           \
        tiling.outMaxK = tiling.reduceK = lanes;                                                   \
        tiling.outMaxSize = tiling.reduceSize = rows * lanes;                                      \
        tiling.rangeM = 1;                                                                         \
        tiling.tailM = tiling.tailSplitSize = tiling.tailReduceSize = 0;                           \
    }
TWIN_SOFTMAX_TILING(SoftMax)
TWIN_SOFTMAX_TILING(LogSoftMax)
#undef TWIN_SOFTMAX_TILING

// A basic block has rows in eights, and columns in 64s, fewer than 2048.
inline bool IsBasicBlockInSoftMax(const ::SoftMaxTiling &tiling, const uint32_t = 2) {
    return tiling.splitM % 8 == 0 && tiling.splitK % 64 == 0 && tiling.splitK < 2048;
}

// ---- normalisation ------------------------------------------------------------------------------

// {B, S, H as stored, H}
inline void GetLayerNormMaxMinTmpSize(const ge::Shape &srcShape, const uint32_t typeSize,
                                      const bool /*isReuseSource*/, uint32_t &maxValue,
                                      uint32_t &minValue) {
    const int64_t elements = srcShape.GetDim(0) * srcShape.GetDim(1) * srcShape.GetDim(2);
    maxValue = twin::most_tmp(uint64_t(elements) * typeSize);
    minValue = twin::kLeastTmp;
}
inline void GetLayerNormNDTilingInfo(const ge::Shape &srcShape, const uint32_t /*stackBufferSize*/,
                                     const uint32_t /*typeSize*/, const bool /*isReuseSource*/,
                                     ::LayerNormTiling &tiling) {
    tiling.bLength = uint32_t(srcShape.GetDim(0));
    tiling.sLength = uint32_t(srcShape.GetDim(1));
    tiling.hLength = uint32_t(srcShape.GetDim(2));
    tiling.originalHLength = uint32_t(srcShape.GetDim(srcShape.GetDimNum() > 3 ? 3 : 2));
}

inline bool GetRmsNormMaxMinTmpSize(const ge::Shape &srcShape, const uint32_t typeSize,
                                    uint32_t &maxValue, uint32_t &minValue,
                                    const bool /*isBasicBlock*/ = false) {
    maxValue = twin::most_tmp(srcShape, typeSize);
    minValue = twin::kLeastTmp;
    return srcShape.GetDimNum() == 3;
}
inline bool GetRmsNormTilingInfo(const ge::Shape &srcShape, const ge::Shape &originSrcShape,
                                 const uint32_t /*stackBufferByteSize*/,
                                 const uint32_t /*typeSize*/, ::RmsNormTiling &tiling,
                                 const bool /*isBasicBlock*/ = false) {
    if (srcShape.GetDimNum() != 3 || originSrcShape.GetDimNum() != 3) {
        return false;
    }
    tiling.bLength = uint32_t(srcShape.GetDim(0));
    tiling.sLength = uint32_t(srcShape.GetDim(1));
    tiling.hLength = uint32_t(srcShape.GetDim(2));
    tiling.originalHLength = uint32_t(originSrcShape.GetDim(2));
    tiling.reciprocalOfHLength =
        tiling.originalHLength == 0 ? 0.0f : 1.0f / float(tiling.originalHLength);
    return true;
}

// ---- sums, sorting, shapes ----------------------------------------------------------------------

inline void GetSumMaxMinTmpSize(const uint32_t n, const uint32_t typeSize, const bool,
                                uint32_t &maxValue, uint32_t &minValue) {
    maxValue = minValue = twin::most_tmp(uint64_t(n) * typeSize);
}
inline void GetMeanMaxMinTmpSize(const uint32_t n, const uint32_t typeSize,
                                 const uint32_t accTypeSize, const bool, uint32_t &maxValue,
                                 uint32_t &minValue) {
    maxValue = minValue =
        twin::most_tmp(uint64_t(n) * (typeSize > accTypeSize ? typeSize : accTypeSize));
}
inline void GetCumSumMaxMinTmpSize(const ge::Shape &srcShape, const uint32_t typeSize, const bool,
                                   const bool, uint32_t &maxValue, uint32_t &minValue) {
    maxValue = minValue = twin::most_tmp(srcShape, typeSize);
}
inline void GetTopKMaxMinTmpSize(const platform_ascendc::PlatformAscendC &, const int32_t inner,
                                 const int32_t outter, const bool, const bool, enum TopKMode,
                                 const bool, const uint32_t dataTypeSize, uint32_t &maxValue,
                                 uint32_t &minValue) {
    maxValue = twin::most_tmp(uint64_t(inner) * uint64_t(outter) * dataTypeSize);
    minValue = twin::kLeastTmp;
}
inline bool TopKTilingFunc(const platform_ascendc::PlatformAscendC &, const int32_t inner,
                           const int32_t outter, const int32_t k, const uint32_t, const bool,
                           enum TopKMode, const bool, ::TopkTiling &) {
    return inner > 0 && outter > 0 && k > 0 && k <= inner;
}
// Bytes for the temporary tensors of Sort and Concat: a (value, index) pair an element.
inline uint32_t GetSortTmpSize(const platform_ascendc::PlatformAscendC &, const uint32_t elemCount,
                               const uint32_t) {
    return twin::most_tmp(uint64_t(elemCount) * 8);
}
inline uint32_t GetConcatTmpSize(const platform_ascendc::PlatformAscendC &,
                                 const uint32_t elemCount, const uint32_t) {
    return twin::most_tmp(uint64_t(elemCount) * 8);
}
inline void GetBroadCastMaxMinTmpSize(const platform_ascendc::PlatformAscendC &, const ge::Shape &,
                                      const ge::Shape &dstShape, uint32_t typeSize, const bool,
                                      uint32_t &maxValue, uint32_t &minValue) {
    maxValue = twin::most_tmp(dstShape, typeSize);
    minValue = twin::kLeastTmp;
}
inline void GetPadMaxMinTmpSize(const ge::Shape &srcShape, const uint32_t typeSize,
                                uint32_t &maxValue, uint32_t &minValue) {
    maxValue = twin::most_tmp(srcShape, typeSize);
    minValue = twin::kLeastTmp;
}
// {height, width as stored}, and the width that counts.
inline void PadTilingFunc(const ge::Shape srcShape, const ge::Shape oriSrcShape, const uint32_t,
                          const uint32_t, ::PadTiling &tiling) {
    tiling.srcHeight = twin::rows_before(srcShape);
    tiling.srcWidth = twin::last_dim(srcShape);
    tiling.srcOriWidth = twin::last_dim(oriSrcShape);
}
inline void GetUnPadMaxMinTmpSize(const platform_ascendc::PlatformAscendC &,
                                  const ge::Shape &srcShape, const uint32_t typeSize,
                                  uint32_t &maxValue, uint32_t &minValue) {
    maxValue = twin::most_tmp(srcShape, typeSize);
    minValue = twin::kLeastTmp;
}
inline void UnPadTilingFunc(const ge::Shape srcShape, const uint32_t, const uint32_t,
                            ::UnPadTiling &tiling) {
    tiling.srcHeight = twin::rows_before(srcShape);
    tiling.srcWidth = twin::last_dim(srcShape);
}

// ---- elementwise --------------------------------------------------------------------------------

#define TWIN_TMP_SIZE(Name)                                                                  \
    inline void Get##Name##MaxMinTmpSize(const ge::Shape &srcShape, const uint32_t typeSize, \
                                         const bool /*isReuseSource*/, uint32_t &maxValue,   \
                                         uint32_t &minValue) {                               \
        maxValue = twin::most_tmp(srcShape, typeSize);                                       \
        minValue = twin::kLeastTmp;                                                          \
    }
TWIN_TMP_SIZE(Acos)
TWIN_TMP_SIZE(Acosh)
TWIN_TMP_SIZE(Asin)
TWIN_TMP_SIZE(Asinh)
TWIN_TMP_SIZE(Atan)
TWIN_TMP_SIZE(Atanh)
TWIN_TMP_SIZE(Ceil)
TWIN_TMP_SIZE(ClampMax)
TWIN_TMP_SIZE(ClampMin)
TWIN_TMP_SIZE(Cos)
TWIN_TMP_SIZE(Cosh)
TWIN_TMP_SIZE(Erf)
TWIN_TMP_SIZE(Erfc)
TWIN_TMP_SIZE(Exp)
TWIN_TMP_SIZE(Floor)
TWIN_TMP_SIZE(Fmod)
TWIN_TMP_SIZE(Frac)
TWIN_TMP_SIZE(Log)
TWIN_TMP_SIZE(Log10)
TWIN_TMP_SIZE(Log2)
TWIN_TMP_SIZE(Round)
TWIN_TMP_SIZE(Sigmoid)
TWIN_TMP_SIZE(Sign)
TWIN_TMP_SIZE(Sin)
TWIN_TMP_SIZE(Sinh)
TWIN_TMP_SIZE(Tan)
TWIN_TMP_SIZE(Tanh)
TWIN_TMP_SIZE(Trunc)
#undef TWIN_TMP_SIZE

inline void GetPowerMaxMinTmpSize(const ge::Shape &srcShape1, const ge::Shape &srcShape2,
                                  const bool /*typeIsInt*/, const uint32_t typeSize, const bool,
                                  uint32_t &maxValue, uint32_t &minValue) {
    const uint32_t one = twin::most_tmp(srcShape1, typeSize),
                   two = twin::most_tmp(srcShape2, typeSize);
    maxValue = one > two ? one : two;
    minValue = twin::kLeastTmp;
}
inline void GetGeluMaxMinTmpSize(const ge::Shape &srcShape, const uint32_t typeSize,
                                 uint32_t &maxValue, uint32_t &minValue) {
    maxValue = twin::most_tmp(srcShape, typeSize);
    minValue = twin::kLeastTmp;
}
inline void GetSwiGLUMaxMinTmpSize(const ge::Shape &srcShape, const uint32_t typeSize,
                                   uint32_t &maxValue, uint32_t &minValue, const bool) {
    maxValue = twin::most_tmp(srcShape, typeSize);
    minValue = twin::kLeastTmp;
}

}  // namespace AscendC
