// The high-level API, element by element: functions of one or two tensors, and activations. Each is
// one instruction of the twin; temporary tensors are taken and left alone. What each computes, and
// in which steps it rounds: csrc/twin/runtime/high_math.cpp.
#pragma once

#include "twin/tensor.h"

namespace twin {

// dst = op(src0, src1, scalar); src1 null: of one tensor. `scalar_first`: Power(scalar, tensor).
void high_math(Op op, Type type, const Local &dst, const Local &src0, const Local *src1,
               float scalar, bool scalar_first, uint32_t count, Where where);

}  // namespace twin

namespace AscendC {

// (dst, src, [sharedTmpBuffer], [calCount])
#define TWIN_MATH(Name)                                                                           \
    template <typename T, bool isReuseSource = false>                                             \
    __aicore__ inline void Name(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor, \
                                uint32_t calCount, twin::Where where = twin::Where::here()) {     \
        TWIN_TAKES(Name, T);                                                                      \
        twin::high_math(twin::Op::Name, twin::TypeOf<T>::value, dstTensor.twin_local(),           \
                        srcTensor.twin_local(), nullptr, 0, false, calCount, where);              \
    }                                                                                             \
    template <typename T, bool isReuseSource = false>                                             \
    __aicore__ inline void Name(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor, \
                                twin::Where where = twin::Where::here()) {                        \
        Name<T, isReuseSource>(dstTensor, srcTensor, srcTensor.GetSize(), where);                 \
    }                                                                                             \
    template <typename T, bool isReuseSource = false>                                             \
    __aicore__ inline void Name(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor, \
                                const LocalTensor<uint8_t> &, uint32_t calCount,                  \
                                twin::Where where = twin::Where::here()) {                        \
        Name<T, isReuseSource>(dstTensor, srcTensor, calCount, where);                            \
    }                                                                                             \
    template <typename T, bool isReuseSource = false>                                             \
    __aicore__ inline void Name(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor, \
                                const LocalTensor<uint8_t> &,                                     \
                                twin::Where where = twin::Where::here()) {                        \
        Name<T, isReuseSource>(dstTensor, srcTensor, srcTensor.GetSize(), where);                 \
    }

TWIN_MATH(Log)
TWIN_MATH(Log2)
TWIN_MATH(Log10)
TWIN_MATH(Sin)
TWIN_MATH(Cos)
TWIN_MATH(Tan)
TWIN_MATH(Asin)
TWIN_MATH(Acos)
TWIN_MATH(Atan)
TWIN_MATH(Sinh)
TWIN_MATH(Cosh)
TWIN_MATH(Tanh)
TWIN_MATH(Asinh)
TWIN_MATH(Acosh)
TWIN_MATH(Atanh)
TWIN_MATH(Erf)
TWIN_MATH(Erfc)
TWIN_MATH(Ceil)
TWIN_MATH(Floor)
TWIN_MATH(Round)
TWIN_MATH(Trunc)
TWIN_MATH(Frac)
TWIN_MATH(Sign)
TWIN_MATH(Sigmoid)
TWIN_MATH(Silu)
#undef TWIN_MATH

// As TWIN_MATH, with two more flags in front of the call.
#define TWIN_GELU(Name)                                                                         \
    template <typename T, bool highPrecision = false, bool highPerformance = false>             \
    __aicore__ inline void Name(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal, \
                                uint32_t dataSize, twin::Where where = twin::Where::here()) {   \
        TWIN_TAKES(Name, T);                                                                    \
        twin::high_math(twin::Op::Name, twin::TypeOf<T>::value, dstLocal.twin_local(),          \
                        srcLocal.twin_local(), nullptr, 0, false, dataSize, where);             \
    }                                                                                           \
    template <typename T, bool highPrecision = false, bool highPerformance = false>             \
    __aicore__ inline void Name(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal, \
                                const LocalTensor<uint8_t> &, uint32_t dataSize,                \
                                twin::Where where = twin::Where::here()) {                      \
        Name<T>(dstLocal, srcLocal, dataSize, where);                                           \
    }

TWIN_GELU(Gelu)
TWIN_GELU(FasterGelu)
TWIN_GELU(FasterGeluV2)
#undef TWIN_GELU

// Exp with a choice of the vendor's expansion; here the one exponential, as in Exp(dst, src, n).
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
__aicore__ inline void Exp(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal,
                           uint32_t calCount, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Exp, T);
    twin::high_math(twin::Op::Exp, twin::TypeOf<T>::value, dstLocal.twin_local(),
                    srcLocal.twin_local(), nullptr, 0, false, calCount, where);
}
template <typename T, uint8_t taylorExpandLevel, bool isReuseSource = false>
__aicore__ inline void Exp(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal,
                           const LocalTensor<uint8_t> &, uint32_t calCount,
                           twin::Where where = twin::Where::here()) {
    Exp<T, taylorExpandLevel, isReuseSource>(dstLocal, srcLocal, calCount, where);
}

// x / (1 + exp(-scalarValue x))
template <typename T, bool isReuseSource = false>
__aicore__ inline void Swish(const LocalTensor<T> &dstLocal, const LocalTensor<T> &srcLocal,
                             uint32_t dataSize, const T scalarValue,
                             twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Swish, T);
    twin::high_math(twin::Op::Swish, twin::TypeOf<T>::value, dstLocal.twin_local(),
                    srcLocal.twin_local(), nullptr, float(scalarValue), false, dataSize, where);
}

// No element above, or below, the scalar.
#define TWIN_CLAMP(Name)                                                                          \
    template <typename T, bool isReuseSource = false>                                             \
    __aicore__ inline void Name(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor, \
                                const T scalar, uint32_t calCount,                                \
                                twin::Where where = twin::Where::here()) {                        \
        TWIN_TAKES(Name, T);                                                                      \
        twin::high_math(twin::Op::Name, twin::TypeOf<T>::value, dstTensor.twin_local(),           \
                        srcTensor.twin_local(), nullptr, float(scalar), false, calCount, where);  \
    }                                                                                             \
    template <typename T, bool isReuseSource = false>                                             \
    __aicore__ inline void Name(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor, \
                                const LocalTensor<uint8_t> &, const T scalar, uint32_t calCount,  \
                                twin::Where where = twin::Where::here()) {                        \
        Name<T>(dstTensor, srcTensor, scalar, calCount, where);                                   \
    }

TWIN_CLAMP(ClampMax)
TWIN_CLAMP(ClampMin)
#undef TWIN_CLAMP

// (dst, src0, src1, [sharedTmpBuffer], [calCount])
#define TWIN_MATH2(Name)                                                                      \
    template <typename T, bool isReuseSource = false>                                         \
    __aicore__ inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0,        \
                                const LocalTensor<T> &src1, uint32_t calCount,                \
                                twin::Where where = twin::Where::here()) {                    \
        TWIN_TAKES(Name, T);                                                                  \
        twin::high_math(twin::Op::Name, twin::TypeOf<T>::value, dst.twin_local(),             \
                        src0.twin_local(), &src1.twin_local(), 0, false, calCount, where);    \
    }                                                                                         \
    template <typename T, bool isReuseSource = false>                                         \
    __aicore__ inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0,        \
                                const LocalTensor<T> &src1,                                   \
                                twin::Where where = twin::Where::here()) {                    \
        Name<T, isReuseSource>(dst, src0, src1, src0.GetSize(), where);                       \
    }                                                                                         \
    template <typename T, bool isReuseSource = false>                                         \
    __aicore__ inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0,        \
                                const LocalTensor<T> &src1, const LocalTensor<uint8_t> &,     \
                                uint32_t calCount, twin::Where where = twin::Where::here()) { \
        Name<T, isReuseSource>(dst, src0, src1, calCount, where);                             \
    }                                                                                         \
    template <typename T, bool isReuseSource = false>                                         \
    __aicore__ inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src0,        \
                                const LocalTensor<T> &src1, const LocalTensor<uint8_t> &,     \
                                twin::Where where = twin::Where::here()) {                    \
        Name<T, isReuseSource>(dst, src0, src1, src0.GetSize(), where);                       \
    }

TWIN_MATH2(Fmod)
TWIN_MATH2(Power)
TWIN_MATH2(GeGLU)
TWIN_MATH2(ReGlu)
#undef TWIN_MATH2

// Powers with a scalar exponent or base.
template <typename T, bool isReuseSource = false>
__aicore__ inline void Power(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const T &src1,
                             uint32_t calCount, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Power, T);
    twin::high_math(twin::Op::Power, twin::TypeOf<T>::value, dst.twin_local(), src0.twin_local(),
                    nullptr, float(src1), false, calCount, where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void Power(const LocalTensor<T> &dst, const LocalTensor<T> &src0, const T &src1,
                             const LocalTensor<uint8_t> &, uint32_t calCount,
                             twin::Where where = twin::Where::here()) {
    Power<T, isReuseSource>(dst, src0, src1, calCount, where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void Power(const LocalTensor<T> &dst, const T &src0, const LocalTensor<T> &src1,
                             uint32_t calCount, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Power, T);
    twin::high_math(twin::Op::Power, twin::TypeOf<T>::value, dst.twin_local(), src1.twin_local(),
                    nullptr, float(src0), true, calCount, where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void Power(const LocalTensor<T> &dst, const T &src0, const LocalTensor<T> &src1,
                             const LocalTensor<uint8_t> &, uint32_t calCount,
                             twin::Where where = twin::Where::here()) {
    Power<T, isReuseSource>(dst, src0, src1, calCount, where);
}

// src0 times Swish(src1)
template <typename T, bool isReuseSource = false>
__aicore__ inline void SwiGLU(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor0,
                              const LocalTensor<T> &srcTensor1, const float &scalarValue,
                              uint32_t calCount, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SwiGLU, T);
    twin::high_math(twin::Op::SwiGLU, twin::TypeOf<T>::value, dstTensor.twin_local(),
                    srcTensor0.twin_local(), &srcTensor1.twin_local(), scalarValue, false, calCount,
                    where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void SwiGLU(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor0,
                              const LocalTensor<T> &srcTensor1, const float &scalarValue,
                              twin::Where where = twin::Where::here()) {
    SwiGLU<T>(dstTensor, srcTensor0, srcTensor1, scalarValue, srcTensor0.GetSize(), where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void SwiGLU(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor0,
                              const LocalTensor<T> &srcTensor1, const float &scalarValue,
                              const LocalTensor<uint8_t> &, uint32_t calCount,
                              twin::Where where = twin::Where::here()) {
    SwiGLU<T>(dstTensor, srcTensor0, srcTensor1, scalarValue, calCount, where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void SwiGLU(const LocalTensor<T> &dstTensor, const LocalTensor<T> &srcTensor0,
                              const LocalTensor<T> &srcTensor1, const float &scalarValue,
                              const LocalTensor<uint8_t> &,
                              twin::Where where = twin::Where::here()) {
    SwiGLU<T>(dstTensor, srcTensor0, srcTensor1, scalarValue, srcTensor0.GetSize(), where);
}

}  // namespace AscendC
