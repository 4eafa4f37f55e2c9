// Elementwise vector instructions, in the three forms of the API: the first n elements, a number of
// lanes per repeat, a bit per lane. isSetMask = false keeps the mask registers (mask.h).
#pragma once

#include "twin/params.h"
#include "twin/tensor.h"

namespace twin {

struct Types {
    Type dst, src;
};
void unary(Op op, Types types, const Local &dst, const Local &src, const Lanes &lanes,
           const Strides &strides, Where where);
void binary(Op op, Types types, const Local &dst, const Local &src0, const Local &src1,
            const Lanes &lanes, const Strides &strides, Where where);
// A tensor and a scalar; `mode` is ShiftRight's rounding.
void scalar(Op op, Types types, const Local &dst, const Local &src, uint64_t value, int mode,
            const Lanes &lanes, const Strides &strides, Where where);
// The scalar is the first element of `value`, which the vector unit reads.
void scalar_tensor(Op op, Types types, const Local &dst, const Local &src, const Local &value,
                   const Lanes &lanes, const Strides &strides, Where where);
void duplicate(Type type, const Local &dst, uint64_t value, const Lanes &lanes,
               const Strides &strides, Where where);

template <typename Dst, typename Src>
constexpr Types types_of() {
    return {TypeOf<Dst>::value, TypeOf<Src>::value};
}

}  // namespace twin

namespace AscendC {

#define TWIN_UNARY(name)                                                                         \
    template <typename T, bool isSetMask = true>                                                 \
    __aicore__ inline void name(const LocalTensor<T> &dst, const LocalTensor<T> &src,            \
                                const int32_t &count, twin::Where where = twin::Where::here()) { \
        TWIN_TAKES(name, T);                                                                     \
        twin::unary(twin::Op::name, twin::types_of<T, T>(), dst.twin_local(), src.twin_local(),  \
                    twin::Lanes::first(count), {}, where);                                       \
    }                                                                                            \
    template <typename T, bool isSetMask = true>                                                 \
    __aicore__ inline void name(const LocalTensor<T> &dst, const LocalTensor<T> &src,            \
                                uint64_t mask, const uint8_t repeatTime,                         \
                                const UnaryRepeatParams &repeatParams,                           \
                                twin::Where where = twin::Where::here()) {                       \
        TWIN_MASKED(name, T);                                                                    \
        twin::unary(twin::Op::name, twin::types_of<T, T>(), dst.twin_local(), src.twin_local(),  \
                    twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),                     \
                    twin::strides_of(repeatParams), where);                                      \
    }                                                                                            \
    template <typename T, bool isSetMask = true>                                                 \
    __aicore__ inline void name(const LocalTensor<T> &dst, const LocalTensor<T> &src,            \
                                const uint64_t mask[], const uint8_t repeatTime,                 \
                                const UnaryRepeatParams &repeatParams,                           \
                                twin::Where where = twin::Where::here()) {                       \
        TWIN_MASKED(name, T);                                                                    \
        twin::unary(twin::Op::name, twin::types_of<T, T>(), dst.twin_local(), src.twin_local(),  \
                    twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),                     \
                    twin::strides_of(repeatParams), where);                                      \
    }

// Dst and Src as the instruction's own template parameters name them; `check` and `masked` are the
// assertions for them.
#define TWIN_BINARY_FORMS(name, op, params, Dst, Src, check, masked)                              \
    template <params, bool isSetMask = true>                                                      \
    __aicore__ inline void name(const LocalTensor<Dst> &dst, const LocalTensor<Src> &src0,        \
                                const LocalTensor<Src> &src1, const int32_t &count,               \
                                twin::Where where = twin::Where::here()) {                        \
        check;                                                                                    \
        twin::binary(twin::Op::op, twin::types_of<Dst, Src>(), dst.twin_local(),                  \
                     src0.twin_local(), src1.twin_local(), twin::Lanes::first(count), {}, where); \
    }                                                                                             \
    template <params, bool isSetMask = true>                                                      \
    __aicore__ inline void name(const LocalTensor<Dst> &dst, const LocalTensor<Src> &src0,        \
                                const LocalTensor<Src> &src1, uint64_t mask,                      \
                                const uint8_t repeatTime, const BinaryRepeatParams &repeatParams, \
                                twin::Where where = twin::Where::here()) {                        \
        masked;                                                                                   \
        twin::binary(twin::Op::op, twin::types_of<Dst, Src>(), dst.twin_local(),                  \
                     src0.twin_local(), src1.twin_local(),                                        \
                     twin::lanes_for<isSetMask>(mask, repeatTime, twin::wider<Dst, Src>()),       \
                     twin::strides_of(repeatParams), where);                                      \
    }                                                                                             \
    template <params, bool isSetMask = true>                                                      \
    __aicore__ inline void name(const LocalTensor<Dst> &dst, const LocalTensor<Src> &src0,        \
                                const LocalTensor<Src> &src1, const uint64_t mask[],              \
                                const uint8_t repeatTime, const BinaryRepeatParams &repeatParams, \
                                twin::Where where = twin::Where::here()) {                        \
        masked;                                                                                   \
        twin::binary(twin::Op::op, twin::types_of<Dst, Src>(), dst.twin_local(),                  \
                     src0.twin_local(), src1.twin_local(),                                        \
                     twin::lanes_for<isSetMask>(mask, repeatTime, twin::wider<Dst, Src>()),       \
                     twin::strides_of(repeatParams), where);                                      \
    }

#define TWIN_BINARY(name) \
    TWIN_BINARY_FORMS(name, name, typename T, T, T, TWIN_TAKES(name, T), TWIN_MASKED(name, T))
#define TWIN_COMMA ,
#define TWIN_BINARY_PAIR(name)                                                  \
    TWIN_BINARY_FORMS(name, name, typename T TWIN_COMMA typename U, T, U,       \
                      TWIN_TAKES_PAIR(name, T, U), TWIN_TAKES_PAIR(name, T, U); \
                      TWIN_MASKED(name, U))

#define TWIN_SCALAR(name)                                                                        \
    template <typename T, bool isSetMask = true>                                                 \
    __aicore__ inline void name(const LocalTensor<T> &dst, const LocalTensor<T> &src,            \
                                const T &scalarValue, const int32_t &count,                      \
                                twin::Where where = twin::Where::here()) {                       \
        TWIN_TAKES(name, T);                                                                     \
        twin::scalar(twin::Op::name, twin::types_of<T, T>(), dst.twin_local(), src.twin_local(), \
                     twin::scalar_bits(scalarValue), 0, twin::Lanes::first(count), {}, where);   \
    }                                                                                            \
    template <typename T, bool isSetMask = true>                                                 \
    __aicore__ inline void name(const LocalTensor<T> &dst, const LocalTensor<T> &src,            \
                                const T &scalarValue, uint64_t mask, const uint8_t repeatTime,   \
                                const UnaryRepeatParams &repeatParams,                           \
                                twin::Where where = twin::Where::here()) {                       \
        TWIN_MASKED(name, T);                                                                    \
        twin::scalar(twin::Op::name, twin::types_of<T, T>(), dst.twin_local(), src.twin_local(), \
                     twin::scalar_bits(scalarValue), 0,                                          \
                     twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),                    \
                     twin::strides_of(repeatParams), where);                                     \
    }                                                                                            \
    template <typename T, bool isSetMask = true>                                                 \
    __aicore__ inline void name(const LocalTensor<T> &dst, const LocalTensor<T> &src,            \
                                const T &scalarValue, const uint64_t mask[],                     \
                                const uint8_t repeatTime, const UnaryRepeatParams &repeatParams, \
                                twin::Where where = twin::Where::here()) {                       \
        TWIN_MASKED(name, T);                                                                    \
        twin::scalar(twin::Op::name, twin::types_of<T, T>(), dst.twin_local(), src.twin_local(), \
                     twin::scalar_bits(scalarValue), 0,                                          \
                     twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),                    \
                     twin::strides_of(repeatParams), where);                                     \
    }

TWIN_UNARY(Exp)
TWIN_UNARY(Ln)
TWIN_UNARY(Abs)
TWIN_UNARY(Reciprocal)
TWIN_UNARY(Rsqrt)
TWIN_UNARY(Sqrt)
TWIN_UNARY(Relu)
TWIN_UNARY(Not)

TWIN_BINARY(Add)
TWIN_BINARY(Sub)
TWIN_BINARY(Mul)
TWIN_BINARY(Div)
TWIN_BINARY(Max)
TWIN_BINARY(Min)
TWIN_BINARY(And)
TWIN_BINARY(Or)
TWIN_BINARY(AddRelu)
TWIN_BINARY(SubRelu)
TWIN_BINARY(FusedMulAdd)
TWIN_BINARY(FusedMulAddRelu)
TWIN_BINARY_FORMS(MulAddRelu, FusedMulAddRelu, typename T, T, T, TWIN_TAKES(FusedMulAddRelu, T),
                  TWIN_MASKED(FusedMulAddRelu, T))
TWIN_BINARY_PAIR(MulAddDst)
TWIN_BINARY_PAIR(AddReluCast)
TWIN_BINARY_PAIR(SubReluCast)
TWIN_BINARY_PAIR(MulCast)
TWIN_BINARY_PAIR(AddDeqRelu)

template <bool isSetMask>
__aicore__ inline void AddDeqRelu(const LocalTensor<half> &dst, const LocalTensor<int32_t> &src0,
                                  const LocalTensor<int32_t> &src1, uint64_t mask,
                                  const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
                                  twin::Where where = twin::Where::here()) {
    AddDeqRelu<half, int32_t, isSetMask>(dst, src0, src1, mask, repeatTime, repeatParams, where);
}
template <bool isSetMask>
__aicore__ inline void AddDeqRelu(const LocalTensor<half> &dst, const LocalTensor<int32_t> &src0,
                                  const LocalTensor<int32_t> &src1, const uint64_t mask[],
                                  const uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
                                  twin::Where where = twin::Where::here()) {
    AddDeqRelu<half, int32_t, isSetMask>(dst, src0, src1, mask, repeatTime, repeatParams, where);
}

TWIN_SCALAR(Adds)
TWIN_SCALAR(Muls)
TWIN_SCALAR(Maxs)
TWIN_SCALAR(Mins)
TWIN_SCALAR(LeakyRelu)
TWIN_SCALAR(ShiftLeft)

// ShiftRight: `roundEn` adds the last bit shifted out, for signed types.
template <typename T, bool isSetMask = true>
__aicore__ inline void ShiftRight(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                  const T &scalarValue, const int32_t &count,
                                  twin::Where where = twin::Where::here()) {
    TWIN_TAKES(ShiftRight, T);
    twin::scalar(twin::Op::ShiftRight, twin::types_of<T, T>(), dst.twin_local(), src.twin_local(),
                 twin::scalar_bits(scalarValue), 0, twin::Lanes::first(count), {}, where);
}
template <typename T, bool isSetMask = true>
__aicore__ inline void ShiftRight(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                  const T &scalarValue, uint64_t mask, const uint8_t repeatTime,
                                  const UnaryRepeatParams &repeatParams, bool roundEn = false,
                                  twin::Where where = twin::Where::here()) {
    TWIN_MASKED(ShiftRight, T);
    twin::scalar(twin::Op::ShiftRight, twin::types_of<T, T>(), dst.twin_local(), src.twin_local(),
                 twin::scalar_bits(scalarValue), roundEn,
                 twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                 twin::strides_of(repeatParams), where);
}
template <typename T, bool isSetMask = true>
__aicore__ inline void ShiftRight(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                  const T &scalarValue, const uint64_t mask[],
                                  const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
                                  bool roundEn = false, twin::Where where = twin::Where::here()) {
    TWIN_MASKED(ShiftRight, T);
    twin::scalar(twin::Op::ShiftRight, twin::types_of<T, T>(), dst.twin_local(), src.twin_local(),
                 twin::scalar_bits(scalarValue), roundEn,
                 twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                 twin::strides_of(repeatParams), where);
}

// dst += scalarValue * src.
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src,
                            const U &scalarValue, const int32_t &count,
                            twin::Where where = twin::Where::here()) {
    TWIN_TAKES_PAIR(Axpy, T, U);
    twin::scalar(twin::Op::Axpy, twin::types_of<T, U>(), dst.twin_local(), src.twin_local(),
                 twin::scalar_bits(scalarValue), 0, twin::Lanes::first(count), {}, where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src,
                            const U &scalarValue, uint64_t mask, const uint8_t repeatTime,
                            const UnaryRepeatParams &repeatParams,
                            twin::Where where = twin::Where::here()) {
    TWIN_TAKES_PAIR(Axpy, T, U);
    TWIN_MASKED(Axpy, U);
    twin::scalar(twin::Op::Axpy, twin::types_of<T, U>(), dst.twin_local(), src.twin_local(),
                 twin::scalar_bits(scalarValue), 0,
                 twin::lanes_for<isSetMask>(mask, repeatTime, twin::wider<T, U>()),
                 twin::strides_of(repeatParams), where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Axpy(const LocalTensor<T> &dst, const LocalTensor<U> &src,
                            const U &scalarValue, const uint64_t mask[], const uint8_t repeatTime,
                            const UnaryRepeatParams &repeatParams,
                            twin::Where where = twin::Where::here()) {
    TWIN_TAKES_PAIR(Axpy, T, U);
    TWIN_MASKED(Axpy, U);
    twin::scalar(twin::Op::Axpy, twin::types_of<T, U>(), dst.twin_local(), src.twin_local(),
                 twin::scalar_bits(scalarValue), 0,
                 twin::lanes_for<isSetMask>(mask, repeatTime, twin::wider<T, U>()),
                 twin::strides_of(repeatParams), where);
}

// A float that is NaN is written as the twin's one NaN, like every scalar (tensor.h).
template <typename T, bool isSetMask = true>
__aicore__ inline void Duplicate(const LocalTensor<T> &dst, const T &scalarValue,
                                 const int32_t &count, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Duplicate, T);
    twin::duplicate(twin::TypeOf<T>::value, dst.twin_local(), twin::scalar_bits(scalarValue),
                    twin::Lanes::first(count), {}, where);
}
template <typename T, bool isSetMask = true>
__aicore__ inline void Duplicate(const LocalTensor<T> &dst, const T &scalarValue, uint64_t mask,
                                 const uint8_t repeatTime, const uint16_t dstBlockStride,
                                 const uint8_t dstRepeatStride,
                                 twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Duplicate, T);
    twin::duplicate(twin::TypeOf<T>::value, dst.twin_local(), twin::scalar_bits(scalarValue),
                    twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                    {dstBlockStride, 1, 1, dstRepeatStride, 8, 8}, where);
}
template <typename T, bool isSetMask = true>
__aicore__ inline void Duplicate(const LocalTensor<T> &dst, const T &scalarValue,
                                 const uint64_t mask[], const uint8_t repeatTime,
                                 const uint16_t dstBlockStride, const uint8_t dstRepeatStride,
                                 twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Duplicate, T);
    twin::duplicate(twin::TypeOf<T>::value, dst.twin_local(), twin::scalar_bits(scalarValue),
                    twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                    {dstBlockStride, 1, 1, dstRepeatStride, 8, 8}, where);
}

// dst = src0 ^ src1; the temporary tensor that the vendor's own version needs is not touched.
template <typename T, bool isReuseSource = false>
__aicore__ inline void Xor(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                           const LocalTensor<T> &src1, const uint32_t calCount,
                           twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Xor, T);
    twin::binary(twin::Op::Xor, twin::types_of<T, T>(), dst.twin_local(), src0.twin_local(),
                 src1.twin_local(), twin::Lanes::first(calCount), {}, where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void Xor(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                           const LocalTensor<T> &src1, twin::Where where = twin::Where::here()) {
    Xor<T>(dst, src0, src1, src0.GetSize(), where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void Xor(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                           const LocalTensor<T> &src1, const LocalTensor<uint8_t> &,
                           const uint32_t calCount, twin::Where where = twin::Where::here()) {
    Xor<T>(dst, src0, src1, calCount, where);
}
template <typename T, bool isReuseSource = false>
__aicore__ inline void Xor(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                           const LocalTensor<T> &src1, const LocalTensor<uint8_t> &,
                           twin::Where where = twin::Where::here()) {
    Xor<T>(dst, src0, src1, src0.GetSize(), where);
}

#undef TWIN_UNARY
#undef TWIN_BINARY
#undef TWIN_BINARY_PAIR
#undef TWIN_BINARY_FORMS
#undef TWIN_COMMA
#undef TWIN_SCALAR

}  // namespace AscendC
