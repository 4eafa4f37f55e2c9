// dav-3510: the scalar on either side, as a number or as one element of a tensor.
#pragma once

#if defined(WB_TWIN_ARCH) && WB_TWIN_ARCH == 3510

#include "twin/compare.h"
#include "twin/vector.h"

namespace AscendC {

struct BinaryDefaultType {};
// Which source is the scalar, where both are tensors: 0 or 1.
struct BinaryConfig {
    int8_t scalarTensorIndex = 1;
};
constexpr BinaryConfig DEFAULT_BINARY_CONFIG = {1};

}  // namespace AscendC

namespace twin {

template <typename T>
struct ElementOf {
    using type = void;  // not a tensor
};
template <typename T>
struct ElementOf<AscendC::LocalTensor<T>> {
    using type = T;
};
template <typename T>
constexpr bool is_tensor() {
    return !AscendC::IsSameType<typename ElementOf<T>::type, void>::value;
}

// For instructions that do not care which side the scalar is on.
template <int8_t index, typename U, typename S, typename V>
void flexible(Op op, const U &dst, const S &src0, const V &src1, const Lanes &lanes,
              const Strides &strides, Where where) {
    using T = typename ElementOf<U>::type;
    constexpr Types types = types_of<T, T>();
    if constexpr (is_tensor<S>() && is_tensor<V>()) {
        static_assert(index == 0 || index == 1, "BinaryConfig::scalarTensorIndex is 0 or 1");
        scalar_tensor(op, types, dst.twin_local(), (index == 1 ? src0 : src1).twin_local(),
                      (index == 1 ? src1 : src0).twin_local(), lanes, strides, where);
    } else if constexpr (is_tensor<S>()) {
        scalar(op, types, dst.twin_local(), src0.twin_local(), scalar_bits(static_cast<T>(src1)), 0,
               lanes, strides, where);
    } else {
        scalar(op, types, dst.twin_local(), src1.twin_local(), scalar_bits(static_cast<T>(src0)), 0,
               lanes, strides, where);
    }
}

constexpr AscendC::CMPMODE mirrored(AscendC::CMPMODE mode) {
    using AscendC::CMPMODE;
    return mode == CMPMODE::LT   ? CMPMODE::GT
           : mode == CMPMODE::GT ? CMPMODE::LT
           : mode == CMPMODE::LE ? CMPMODE::GE
           : mode == CMPMODE::GE ? CMPMODE::LE
                                 : mode;
}

template <int8_t index, typename U, typename S, typename V>
void flexible_compare(const U &dst, const S &src0, const V &src1, AscendC::CMPMODE mode,
                      const Lanes &lanes, const Strides &strides, Where where) {
    constexpr Op op = Op::CompareScalar;
    if constexpr (is_tensor<S>() && is_tensor<V>()) {
        constexpr Type type = TypeOf<typename ElementOf<S>::type>::value;
        compare({op, type, index == 1 ? mode : mirrored(mode), true, false, dst.twin_local(),
                 (index == 1 ? src0 : src1).twin_local(), (index == 1 ? src1 : src0).twin_local(),
                 0, true},
                lanes, strides, where);
    } else if constexpr (is_tensor<S>()) {
        using T = typename ElementOf<S>::type;
        compare({op,
                 TypeOf<T>::value,
                 mode,
                 true,
                 false,
                 dst.twin_local(),
                 src0.twin_local(),
                 {},
                 scalar_bits(static_cast<T>(src1))},
                lanes, strides, where);
    } else {
        using T = typename ElementOf<V>::type;
        compare({op,
                 TypeOf<T>::value,
                 mirrored(mode),
                 true,
                 false,
                 dst.twin_local(),
                 src1.twin_local(),
                 {},
                 scalar_bits(static_cast<T>(src0))},
                lanes, strides, where);
    }
}

// The elements of whichever is a tensor.
template <typename S, typename V, bool first = is_tensor<S>()>
struct OperandOf {
    using type = typename ElementOf<S>::type;
};
template <typename S, typename V>
struct OperandOf<S, V, false> {
    using type = typename ElementOf<V>::type;
};
template <typename S, typename V>
using Operand = typename OperandOf<S, V>::type;

}  // namespace twin

namespace AscendC {

#define TWIN_FLEXIBLE(name)                                                                       \
    template <typename T = BinaryDefaultType, bool isSetMask = true,                              \
              const BinaryConfig &config = DEFAULT_BINARY_CONFIG, typename U, typename S,         \
              typename V>                                                                         \
    __aicore__ inline void name(const U &dst, const S &src0, const V &src1, const int32_t &count, \
                                twin::Where where = twin::Where::here()) {                        \
        TWIN_TAKES(name, typename twin::ElementOf<U>::type);                                      \
        twin::flexible<config.scalarTensorIndex>(twin::Op::name, dst, src0, src1,                 \
                                                 twin::Lanes::first(count), {}, where);           \
    }                                                                                             \
    template <typename T = BinaryDefaultType, bool isSetMask = true,                              \
              const BinaryConfig &config = DEFAULT_BINARY_CONFIG, typename U, typename S,         \
              typename V, typename Mask>                                                          \
    __aicore__ inline void name(const U &dst, const S &src0, const V &src1, Mask mask,            \
                                const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,  \
                                twin::Where where = twin::Where::here()) {                        \
        TWIN_MASKED(name, typename twin::ElementOf<U>::type);                                     \
        twin::flexible<config.scalarTensorIndex>(                                                 \
            twin::Op::name, dst, src0, src1,                                                      \
            twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(twin::Operand<S, V>)),            \
            twin::strides_of(repeatParams), where);                                               \
    }
TWIN_FLEXIBLE(Adds)
TWIN_FLEXIBLE(Muls)
TWIN_FLEXIBLE(Maxs)
TWIN_FLEXIBLE(Mins)
#undef TWIN_FLEXIBLE

template <typename T0 = BinaryDefaultType, typename T1 = BinaryDefaultType, bool isSetMask = true,
          const BinaryConfig &config = DEFAULT_BINARY_CONFIG, typename T2, typename T3, typename T4>
__aicore__ inline void Compares(const T2 &dst, const T3 &src0, const T4 &src1, CMPMODE cmpMode,
                                uint32_t count, twin::Where where = twin::Where::here()) {
    using T = twin::Operand<T3, T4>;
    TWIN_TAKES(CompareScalar, T);
    twin::flexible_compare<config.scalarTensorIndex>(dst, src0, src1, cmpMode,
                                                     twin::Lanes::first(count), {}, where);
}
template <typename T0 = BinaryDefaultType, typename T1 = BinaryDefaultType, bool isSetMask = true,
          const BinaryConfig &config = DEFAULT_BINARY_CONFIG, typename T2, typename T3, typename T4,
          typename Mask>
__aicore__ inline void Compares(const T2 &dst, const T3 &src0, const T4 &src1, CMPMODE cmpMode,
                                Mask mask, uint8_t repeatTime,
                                const UnaryRepeatParams &repeatParams,
                                twin::Where where = twin::Where::here()) {
    using T = twin::Operand<T3, T4>;
    TWIN_MASKED(CompareScalar, T);
    twin::flexible_compare<config.scalarTensorIndex>(
        dst, src0, src1, cmpMode, twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
        twin::strides_of(repeatParams), where);
}

}  // namespace AscendC

#endif  // dav-3510
