// Vector instructions, first-n forms: the instruction works on elements 0 .. count-1.
#pragma once

#include "twin/tensor.h"

namespace AscendC {

template <typename T>
__aicore__ inline void Mul(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                           const LocalTensor<T> &src1, const int32_t &count,
                           twin::Where where = twin::Where::here()) {
    static_assert(IsSameType<T, float>::value, "the twin's Mul takes float so far");
    twin::mul(dst.data(), src0.data(), src1.data(), count, where);
}

template <typename T>
__aicore__ inline void Add(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                           const LocalTensor<T> &src1, const int32_t &count,
                           twin::Where where = twin::Where::here()) {
    static_assert(IsSameType<T, float>::value, "the twin's Add takes float so far");
    twin::add(dst.data(), src0.data(), src1.data(), count, where);
}

template <typename T>
__aicore__ inline void Duplicate(const LocalTensor<T> &dst, const T &value, const int32_t &count,
                                 twin::Where where = twin::Where::here()) {
    static_assert(IsSameType<T, float>::value, "the twin's Duplicate takes float so far");
    twin::duplicate(dst.data(), value, count, where);
}

// Widening is exact. float -> half and float -> bfloat16_t round to nearest even.
template <typename Dst, typename Src>
__aicore__ inline void Cast(const LocalTensor<Dst> &dst, const LocalTensor<Src> &src,
                            const RoundMode &mode, const uint32_t count,
                            twin::Where where = twin::Where::here()) {
    constexpr bool widening = IsSameType<Dst, float>::value &&
                              (IsSameType<Src, half>::value || IsSameType<Src, bfloat16_t>::value);
    constexpr bool narrowing = IsSameType<Src, float>::value &&
                               (IsSameType<Dst, half>::value || IsSameType<Dst, bfloat16_t>::value);
    static_assert(widening || narrowing,
                  "the twin casts between float and half or bfloat16_t so far");
    twin::cast(dst.data(), src.data(), mode, count, where);
}

// The count form. The order is the architecture's: see workbench/data/architectures.json.
template <typename T, bool isSetMask = true>
__aicore__ inline void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                 const LocalTensor<T> &tmp, const int32_t count,
                                 twin::Where where = twin::Where::here()) {
    static_assert(IsSameType<T, float>::value, "the twin's ReduceSum takes float so far");
    twin::reduce_sum(twin::kArch, dst.data(), src.data(), tmp.GetSize(), count, where);
}

}  // namespace AscendC
