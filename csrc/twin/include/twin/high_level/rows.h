// The high-level API, row by row: sums, softmax, normalisation, and what changes a shape.
#pragma once

#include "twin/tensor.h"

namespace twin {

// `rows` rows of `cols` elements that count, each starting `stride` elements after the last.
struct Rows {
    uint32_t rows, cols, stride;
};
void row_sums(Op op, Type type, bool in_float, const Local &dst, const Local &src, const Rows &rows,
              Where where);
// `last`: null, or where the last row goes.
void cum_sum(Type type, const Local &dst, const Local *last, const Local &src, const Rows &rows,
             bool along_rows, Where where);
// sum and max: one data block a row, null: not given; read by SimpleSoftMax, written by the others.
void softmax(Op op, Type type, Type stat_type, const Local &dst, const Local *sum, const Local *max,
             const Local &src, const Rows &rows, Where where);
bool adjust_softmax(Type type, Type stat_type, const Local &res, const Local &max, uint32_t from,
                    float to, const Rows &rows, Where where);
void rms_norm(Type type, const Local &dst, const Local &src, const Local &gamma, float epsilon,
              const Rows &rows, Where where);
void layer_norm(Type type, const Local &dst, const Local &mean, const Local &variance,
                const Local &src, const Local &gamma, const Local &beta, float epsilon,
                const Rows &rows, Where where);
void broadcast(uint32_t elem, const Local &dst, const Local &src, const uint32_t dst_shape[2],
               const uint32_t src_shape[2], Where where);
// Each row of `rows` becomes left + cols + right elements of dst, whose rows start on data blocks.
void pad(uint32_t elem, const Local &dst, const Local &src, const Rows &rows, uint32_t left,
         uint32_t right, uint64_t value, Where where);
void unpad(uint32_t elem, const Local &dst, const Local &src, const Rows &rows, uint32_t left,
           uint32_t right, Where where);
void select_bytes(uint32_t elem, const Local &dst, const Local &src, uint64_t scalar,
                  bool scalar_is_src1, const Local &mask, const Rows &rows, uint32_t mask_stride,
                  Where where);

}  // namespace twin

// What the tiling functions of the host fill; a kernel of the twin's may fill them itself.
struct SoftMaxTiling {
    uint32_t srcM = 0, srcK = 0, srcSize = 0, outMaxM = 0, outMaxK = 0, outMaxSize = 0, splitM = 0,
             splitK = 0, splitSize = 0, reduceM = 0, reduceK = 0, reduceSize = 0, rangeM = 0,
             tailM = 0, tailSplitSize = 0, tailReduceSize = 0;
};
using LogSoftMaxTiling = SoftMaxTiling;
struct RmsNormTiling {
    uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0;
    float reciprocalOfHLength = 0;
    uint32_t mainBshLength = 0, mainBsLength = 0, mainBsLengthAlign = 0, loopRound = 0,
             inputTailPos = 0, tailBshLength = 0, tailBsLength = 0;
};
struct LayerNormTiling {
    uint32_t bLength = 0, sLength = 0, hLength = 0, originalHLength = 0;
};
struct PadTiling {
    uint32_t srcHeight = 0, srcWidth = 0, srcOriWidth = 0;
};
struct UnPadTiling {
    uint32_t srcHeight = 0, srcWidth = 0;
};

namespace AscendC {

using ::LayerNormTiling;
using ::LogSoftMaxTiling;
using ::PadTiling;
using ::RmsNormTiling;
using ::SoftMaxTiling;
using ::UnPadTiling;

// ---- sums ---------------------------------------------------------------------------------------

struct SumParams {
    uint32_t outter = 1;
    uint32_t inner = 0;  // elements from one row to the next: whole data blocks
    uint32_t n = 0;      // of them the first n count
};
struct MeanParams {
    uint32_t outter = 1;
    uint32_t inner = 0;
    uint32_t n = 0;
};

template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
__aicore__ inline void Sum(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                           const SumParams &sumParams, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Sum, T);
    static_assert(reduceDim == -1, "Sum takes the last dimension only");
    twin::row_sums(twin::Op::Sum, twin::TypeOf<T>::value, false, dstTensor.twin_local(),
                   srcTensor.twin_local(), {sumParams.outter, sumParams.n, sumParams.inner}, where);
}
template <typename T, int32_t reduceDim = -1, bool isReuseSource = false, bool isBasicBlock = false>
__aicore__ inline void Sum(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                           const LocalTensor<uint8_t> &, const SumParams &sumParams,
                           twin::Where where = twin::Where::here()) {
    Sum<T, reduceDim>(dstTensor, srcTensor, sumParams, where);
}
template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false,
          int32_t reduceDim = -1>
__aicore__ inline void Mean(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                            const MeanParams &meanParams, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Mean, T);
    static_assert(reduceDim == -1, "Mean takes the last dimension only");
    twin::row_sums(twin::Op::Mean, twin::TypeOf<T>::value, IsSameType<accType, float>::value,
                   dstTensor.twin_local(), srcTensor.twin_local(),
                   {meanParams.outter, meanParams.n, meanParams.inner}, where);
}
template <typename T, typename accType = T, bool isReuseSource = false, bool isBasicBlock = false,
          int32_t reduceDim = -1>
__aicore__ inline void Mean(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                            const LocalTensor<uint8_t> &, const MeanParams &meanParams,
                            twin::Where where = twin::Where::here()) {
    Mean<T, accType, isReuseSource, isBasicBlock, reduceDim>(dstTensor, srcTensor, meanParams,
                                                             where);
}

struct CumSumConfig {
    bool isLastAxis{true};
    bool isReuseSource{false};
    bool outputLastRow{false};
};
constexpr CumSumConfig defaultCumSumConfig = {true, false, true};
struct CumSumInfo {
    uint32_t outter{0};
    uint32_t inner{0};
};

template <typename T, const CumSumConfig &config = defaultCumSumConfig>
__aicore__ inline void CumSum(const LocalTensor<T> &dstTensor, const LocalTensor<T> &lastRowTensor,
                              const LocalTensor<T> &srcTensor, const CumSumInfo &cumSumInfo,
                              twin::Where where = twin::Where::here()) {
    TWIN_TAKES(CumSum, T);
    twin::cum_sum(twin::TypeOf<T>::value, dstTensor.twin_local(),
                  config.outputLastRow ? &lastRowTensor.twin_local() : nullptr,
                  srcTensor.twin_local(), {cumSumInfo.outter, cumSumInfo.inner, cumSumInfo.inner},
                  config.isLastAxis, where);
}
template <typename T, const CumSumConfig &config = defaultCumSumConfig>
__aicore__ inline void CumSum(const LocalTensor<T> &dstTensor, const LocalTensor<T> &lastRowTensor,
                              const LocalTensor<T> &srcTensor, const LocalTensor<uint8_t> &,
                              const CumSumInfo &cumSumInfo,
                              twin::Where where = twin::Where::here()) {
    CumSum<T, config>(dstTensor, lastRowTensor, srcTensor, cumSumInfo, where);
}

// ---- softmax ------------------------------------------------------------------------------------

struct SoftmaxConfig {
    bool isCheckTiling = true;
    uint32_t oriSrcM = 0;
    uint32_t oriSrcK = 0;
};
constexpr SoftmaxConfig SOFTMAX_DEFAULT_CFG = {true, 0, 0};

struct SoftMaxShapeInfo {
    uint32_t srcM{0};
    uint32_t srcK{0};
    uint32_t oriSrcM{0};
    uint32_t oriSrcK{0};
};

}  // namespace AscendC

namespace twin {

// The shape of a softmax: what the call says, else the tensor's own, else the tiling's.
template <typename T>
inline Rows softmax_rows(const AscendC::LocalTensor<T> &src, const SoftMaxTiling &tiling,
                         const AscendC::SoftMaxShapeInfo &info) {
    if (info.srcK != 0) {
        return {info.oriSrcM != 0 ? info.oriSrcM : info.srcM,
                info.oriSrcK != 0 ? info.oriSrcK : info.srcK, info.srcK};
    }
    const AscendC::ShapeInfo shape = src.GetShapeInfo();
    if (shape.shapeDim >= 2) {
        uint32_t rows = 1;
        for (uint32_t i = 0; i + 1 < shape.shapeDim; ++i) {
            rows *= shape.shape[i];
        }
        const uint32_t original =
            shape.originalShapeDim != 0 ? shape.originalShape[shape.originalShapeDim - 1] : 0;
        const uint32_t stride = shape.shape[shape.shapeDim - 1];
        return {rows, original != 0 ? original : stride, stride};
    }
    return {tiling.srcM, tiling.srcK, tiling.srcK};
}

}  // namespace twin

namespace AscendC {

#define TWIN_NOT_NZ(nz) static_assert(!nz, "the twin's softmax takes the ND format only")

// (dst, sum, max, src, [sharedTmpBuffer], tiling, [shape]); U: half sources may have float sums.
#define TWIN_SOFTMAX(Name)                                                                        \
    template <typename T, bool isReuseSource = false, bool isBasicBlock = false,                  \
              bool isDataFormatNZ = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG,     \
              typename U>                                                                         \
    __aicore__ inline void Name(const LocalTensor<T> &dstTensor, const LocalTensor<U> &sumTensor, \
                                const LocalTensor<U> &maxTensor, const LocalTensor<T> &srcTensor, \
                                const SoftMaxTiling &tiling,                                      \
                                const SoftMaxShapeInfo &softmaxShapeInfo = {},                    \
                                twin::Where where = twin::Where::here()) {                        \
        TWIN_TAKES(Name, T);                                                                      \
        TWIN_NOT_NZ(isDataFormatNZ);                                                              \
        twin::softmax(twin::Op::Name, twin::TypeOf<T>::value, twin::TypeOf<U>::value,             \
                      dstTensor.twin_local(), &sumTensor.twin_local(), &maxTensor.twin_local(),   \
                      srcTensor.twin_local(),                                                     \
                      twin::softmax_rows(srcTensor, tiling, softmaxShapeInfo), where);            \
    }                                                                                             \
    template <typename T, bool isReuseSource = false, bool isBasicBlock = false,                  \
              bool isDataFormatNZ = false, const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG,     \
              typename U>                                                                         \
    __aicore__ inline void Name(const LocalTensor<T> &dstTensor, const LocalTensor<U> &sumTensor, \
                                const LocalTensor<U> &maxTensor, const LocalTensor<T> &srcTensor, \
                                const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling,        \
                                const SoftMaxShapeInfo &softmaxShapeInfo = {},                    \
                                twin::Where where = twin::Where::here()) {                        \
        Name<T, isReuseSource, isBasicBlock, isDataFormatNZ, config, U>(                          \
            dstTensor, sumTensor, maxTensor, srcTensor, tiling, softmaxShapeInfo, where);         \
    }

TWIN_SOFTMAX(SoftMax)
TWIN_SOFTMAX(SimpleSoftMax)
TWIN_SOFTMAX(LogSoftMax)
#undef TWIN_SOFTMAX

// Without sums and maxima.
template <typename T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG>
__aicore__ inline void SoftMax(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                               const SoftMaxTiling &tiling,
                               const SoftMaxShapeInfo &softmaxShapeInfo = {},
                               twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SoftMax, T);
    twin::softmax(twin::Op::SoftMax, twin::TypeOf<T>::value, twin::TypeOf<T>::value,
                  dstTensor.twin_local(), nullptr, nullptr, srcTensor.twin_local(),
                  twin::softmax_rows(srcTensor, tiling, softmaxShapeInfo), where);
}
template <typename T, bool isReuseSource = false, bool isBasicBlock = false,
          const SoftmaxConfig &config = SOFTMAX_DEFAULT_CFG>
__aicore__ inline void SoftMax(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                               const LocalTensor<uint8_t> &, const SoftMaxTiling &tiling,
                               const SoftMaxShapeInfo &softmaxShapeInfo = {},
                               twin::Where where = twin::Where::here()) {
    SoftMax<T, isReuseSource, isBasicBlock, config>(dstTensor, srcTensor, tiling, softmaxShapeInfo,
                                                    where);
}

// Rows whose maximum has the bits `from` become `to`; true: there was one.
template <typename T1, typename T2, bool isDataFormatNZ = false, uint8_t stepSizeMode = 0>
__aicore__ inline bool AdjustSoftMaxRes(const LocalTensor<T1> &softMaxRes,
                                        const LocalTensor<T2> &maxTensor, const uint32_t from,
                                        const T1 to, const SoftMaxShapeInfo &softmaxShapeInfo,
                                        twin::Where where = twin::Where::here()) {
    TWIN_TAKES(AdjustSoftMaxRes, T1);
    TWIN_NOT_NZ(isDataFormatNZ);
    return twin::adjust_softmax(
        twin::TypeOf<T1>::value, twin::TypeOf<T2>::value, softMaxRes.twin_local(),
        maxTensor.twin_local(), from, float(to),
        {softmaxShapeInfo.srcM, softmaxShapeInfo.srcK, softmaxShapeInfo.srcK}, where);
}
#undef TWIN_NOT_NZ

// ---- normalisation ------------------------------------------------------------------------------

template <typename T, bool isBasicBlock = false>
__aicore__ inline void RmsNorm(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal,
                               const LocalTensor<T> &gammaLocal, const T epsilon,
                               const RmsNormTiling &tiling,
                               twin::Where where = twin::Where::here()) {
    TWIN_TAKES(RmsNorm, T);
    twin::rms_norm(
        twin::TypeOf<T>::value, dstLocal.twin_local(), srcLocal.twin_local(),
        gammaLocal.twin_local(), float(epsilon),
        {tiling.bLength * tiling.sLength,
         tiling.originalHLength != 0 ? tiling.originalHLength : tiling.hLength, tiling.hLength},
        where);
}
template <typename T, bool isBasicBlock = false>
__aicore__ inline void RmsNorm(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal,
                               const LocalTensor<T> &gammaLocal, const LocalTensor<uint8_t> &,
                               const T epsilon, const RmsNormTiling &tiling,
                               twin::Where where = twin::Where::here()) {
    RmsNorm<T>(dstLocal, srcLocal, gammaLocal, epsilon, tiling, where);
}

template <typename T, bool isReuseSource = false>
__aicore__ inline void LayerNorm(const LocalTensor<T> &output, const LocalTensor<T> &outputMean,
                                 const LocalTensor<T> &outputVariance, const LocalTensor<T> &inputX,
                                 const LocalTensor<T> &gamma, const LocalTensor<T> &beta,
                                 const T epsilon, const LayerNormTiling &tiling,
                                 twin::Where where = twin::Where::here()) {
    TWIN_TAKES(LayerNorm, T);
    twin::layer_norm(
        twin::TypeOf<T>::value, output.twin_local(), outputMean.twin_local(),
        outputVariance.twin_local(), inputX.twin_local(), gamma.twin_local(), beta.twin_local(),
        float(epsilon),
        {tiling.bLength * tiling.sLength,
         tiling.originalHLength != 0 ? tiling.originalHLength : tiling.hLength, tiling.hLength},
        where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void LayerNorm(const LocalTensor<T> &output, const LocalTensor<T> &outputMean,
                                 const LocalTensor<T> &outputVariance, const LocalTensor<T> &inputX,
                                 const LocalTensor<T> &gamma, const LocalTensor<T> &beta,
                                 const LocalTensor<uint8_t> &, const T epsilon,
                                 const LayerNormTiling &tiling,
                                 twin::Where where = twin::Where::here()) {
    LayerNorm<T>(output, outputMean, outputVariance, inputX, gamma, beta, epsilon, tiling, where);
}

// ---- shapes -------------------------------------------------------------------------------------

template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
__aicore__ inline void Broadcast(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal,
                                 const uint32_t dstShape[dim], const uint32_t srcShape[dim],
                                 twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Broadcast, T);
    static_assert(dim == 1 || dim == 2, "Broadcast takes one or two dimensions");
    static_assert(axis >= 0 && axis < dim, "the axis is one of the dimensions");
    const uint32_t dst[2] = {dim == 2 ? dstShape[0] : 1, dstShape[dim - 1]};
    const uint32_t src[2] = {dim == 2 ? srcShape[0] : 1, srcShape[dim - 1]};
    twin::broadcast(sizeof(T), dstLocal.twin_local(), srcLocal.twin_local(), dst, src, where);
}
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
__aicore__ inline void Broadcast(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal,
                                 const uint32_t dstShape[dim], const uint32_t srcShape[dim],
                                 const LocalTensor<uint8_t> &,
                                 twin::Where where = twin::Where::here()) {
    Broadcast<T, dim, axis>(dstLocal, srcLocal, dstShape, srcShape, where);
}
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
__aicore__ inline void BroadCast(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal,
                                 const uint32_t dstShape[dim], const uint32_t srcShape[dim],
                                 twin::Where where = twin::Where::here()) {
    Broadcast<T, dim, axis>(dstLocal, srcLocal, dstShape, srcShape, where);
}
template <typename T, int32_t dim, int32_t axis, bool isReuseSource = false>
__aicore__ inline void BroadCast(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal,
                                 const uint32_t dstShape[dim], const uint32_t srcShape[dim],
                                 const LocalTensor<uint8_t> &,
                                 twin::Where where = twin::Where::here()) {
    Broadcast<T, dim, axis>(dstLocal, srcLocal, dstShape, srcShape, where);
}

struct PadParams {
    uint16_t leftPad = 0;
    uint16_t rightPad = 0;
    int32_t padValue = 0;
};
struct UnPadParams {
    uint16_t leftPad = 0;
    uint16_t rightPad = 0;
};

template <typename T>
__aicore__ inline void Pad(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                           const PadParams &padParams, const PadTiling &tiling,
                           twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Pad, T);
    twin::pad(sizeof(T), dstTensor.twin_local(), srcTensor.twin_local(),
              {tiling.srcHeight, tiling.srcOriWidth != 0 ? tiling.srcOriWidth : tiling.srcWidth,
               tiling.srcWidth},
              padParams.leftPad, padParams.rightPad,
              twin::scalar_bits(static_cast<T>(padParams.padValue)), where);
}
template <typename T>
__aicore__ inline void Pad(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                           const PadParams &padParams, const LocalTensor<uint8_t> &,
                           const PadTiling &tiling, twin::Where where = twin::Where::here()) {
    Pad<T>(dstTensor, srcTensor, padParams, tiling, where);
}
template <typename T>
__aicore__ inline void UnPad(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                             const UnPadParams &unPadParams, const UnPadTiling &tiling,
                             twin::Where where = twin::Where::here()) {
    TWIN_TAKES(UnPad, T);
    twin::unpad(sizeof(T), dstTensor.twin_local(), srcTensor.twin_local(),
                {tiling.srcHeight, tiling.srcWidth, tiling.srcWidth}, unPadParams.leftPad,
                unPadParams.rightPad, where);
}
template <typename T>
__aicore__ inline void UnPad(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor,
                             const UnPadParams &unPadParams, const LocalTensor<uint8_t> &,
                             const UnPadTiling &tiling, twin::Where where = twin::Where::here()) {
    UnPad<T>(dstTensor, srcTensor, unPadParams, tiling, where);
}

struct SelectWithBytesMaskShapeInfo {
    uint32_t firstAxis = 0;
    uint32_t srcLastAxis = 0;
    uint32_t maskLastAxis = 0;
};

// Where a byte of the mask is 0 the first source, else the second.
template <typename T, typename U, bool isReuseMask = true>
__aicore__ inline void SelectWithBytesMask(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                                           T src1, const LocalTensor<U> &mask,
                                           const LocalTensor<uint8_t> &,
                                           const SelectWithBytesMaskShapeInfo &info,
                                           twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SelectWithBytesMask, T);
    static_assert(sizeof(U) == 1, "the mask's elements are bytes");
    twin::select_bytes(sizeof(T), dst.twin_local(), src0.twin_local(), twin::scalar_bits(src1),
                       true, mask.twin_local(),
                       {info.firstAxis, info.srcLastAxis, info.srcLastAxis}, info.maskLastAxis,
                       where);
}
template <typename T, typename U, bool isReuseMask = true>
__aicore__ inline void SelectWithBytesMask(const LocalTensor<T> &dst, T src0,
                                           const LocalTensor<T> &src1, const LocalTensor<U> &mask,
                                           const LocalTensor<uint8_t> &,
                                           const SelectWithBytesMaskShapeInfo &info,
                                           twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SelectWithBytesMask, T);
    static_assert(sizeof(U) == 1, "the mask's elements are bytes");
    twin::select_bytes(sizeof(T), dst.twin_local(), src1.twin_local(), twin::scalar_bits(src0),
                       false, mask.twin_local(),
                       {info.firstAxis, info.srcLastAxis, info.srcLastAxis}, info.maskLastAxis,
                       where);
}

}  // namespace AscendC
