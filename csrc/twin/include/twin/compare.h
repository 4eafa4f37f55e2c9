// Comparisons, which give one bit per element, and Select, which goes by such bits.
#pragma once

#include "twin/params.h"
#include "twin/tensor.h"

namespace twin {

// `scalar`: src1 is `value`. Without `dst` the bits go to the compare register.
struct Comparison {
    Op op;
    Type type;
    AscendC::CMPMODE mode;
    bool scalar, to_register;
    Local dst, src0, src1;
    uint64_t value;
    bool at_src1 = false;  // `scalar`: the value is the first element of src1
};
void compare(const Comparison &c, const Lanes &lanes, const Strides &strides, Where where);
void get_compare_mask(const Local &dst, Where where);
void set_compare_mask(const Local &src, Where where);

// Where the bits of a Select are: in `mask`, or (from_register) in, or at the address in, the
// compare register, which SetCmpMask fills.
struct Selection {
    Type type;
    AscendC::SELMODE mode;
    bool scalar, from_register;
    Local dst, mask, src0, src1;
    uint64_t value;
};
void select(const Selection &s, const Lanes &lanes, const Strides &strides, Where where);

}  // namespace twin

namespace AscendC {

template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0,
                               const LocalTensor<T> &src1, CMPMODE cmpMode, uint32_t count,
                               twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Compare, T);
    twin::compare({twin::Op::Compare, twin::TypeOf<T>::value, cmpMode, false, false,
                   dst.twin_local(), src0.twin_local(), src1.twin_local(), 0},
                  twin::Lanes::first(count), {}, where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0,
                               const LocalTensor<T> &src1, CMPMODE cmpMode, const uint64_t mask,
                               uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
                               twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Compare, T);
    twin::compare({twin::Op::Compare, twin::TypeOf<T>::value, cmpMode, false, false,
                   dst.twin_local(), src0.twin_local(), src1.twin_local(), 0},
                  twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                  twin::strides_of(repeatParams), where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Compare(const LocalTensor<U> &dst, const LocalTensor<T> &src0,
                               const LocalTensor<T> &src1, CMPMODE cmpMode, const uint64_t mask[],
                               uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
                               twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Compare, T);
    twin::compare({twin::Op::Compare, twin::TypeOf<T>::value, cmpMode, false, false,
                   dst.twin_local(), src0.twin_local(), src1.twin_local(), 0},
                  twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                  twin::strides_of(repeatParams), where);
}
// One repeat, into the compare register.
template <typename T, bool isSetMask = true>
__aicore__ inline void Compare(const LocalTensor<T> &src0, const LocalTensor<T> &src1,
                               CMPMODE cmpMode, const uint64_t mask,
                               const BinaryRepeatParams &repeatParams,
                               twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Compare, T);
    twin::compare({twin::Op::Compare,
                   twin::TypeOf<T>::value,
                   cmpMode,
                   false,
                   true,
                   {},
                   src0.twin_local(),
                   src1.twin_local(),
                   0},
                  twin::lanes_for<isSetMask>(mask, 1, sizeof(T)), twin::strides_of(repeatParams),
                  where);
}
template <typename T, bool isSetMask = true>
__aicore__ inline void Compare(const LocalTensor<T> &src0, const LocalTensor<T> &src1,
                               CMPMODE cmpMode, const uint64_t mask[],
                               const BinaryRepeatParams &repeatParams,
                               twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Compare, T);
    twin::compare({twin::Op::Compare,
                   twin::TypeOf<T>::value,
                   cmpMode,
                   false,
                   true,
                   {},
                   src0.twin_local(),
                   src1.twin_local(),
                   0},
                  twin::lanes_for<isSetMask>(mask, 1, sizeof(T)), twin::strides_of(repeatParams),
                  where);
}

#define TWIN_COMPARE_SCALAR(name)                                                           \
    template <typename T, typename U, bool isSetMask = true>                                \
    __aicore__ inline void name(const LocalTensor<U> &dst, const LocalTensor<T> &src0,      \
                                const T src1Scalar, CMPMODE cmpMode, uint32_t count,        \
                                twin::Where where = twin::Where::here()) {                  \
        TWIN_TAKES(CompareScalar, T);                                                       \
        twin::compare({twin::Op::CompareScalar,                                             \
                       twin::TypeOf<T>::value,                                              \
                       cmpMode,                                                             \
                       true,                                                                \
                       false,                                                               \
                       dst.twin_local(),                                                    \
                       src0.twin_local(),                                                   \
                       {},                                                                  \
                       twin::scalar_bits(src1Scalar)},                                      \
                      twin::Lanes::first(count), {}, where);                                \
    }                                                                                       \
    template <typename T, typename U, bool isSetMask = true>                                \
    __aicore__ inline void name(const LocalTensor<U> &dst, const LocalTensor<T> &src0,      \
                                const T src1Scalar, CMPMODE cmpMode, const uint64_t mask,   \
                                uint8_t repeatTime, const UnaryRepeatParams &repeatParams,  \
                                twin::Where where = twin::Where::here()) {                  \
        TWIN_MASKED(CompareScalar, T);                                                      \
        twin::compare({twin::Op::CompareScalar,                                             \
                       twin::TypeOf<T>::value,                                              \
                       cmpMode,                                                             \
                       true,                                                                \
                       false,                                                               \
                       dst.twin_local(),                                                    \
                       src0.twin_local(),                                                   \
                       {},                                                                  \
                       twin::scalar_bits(src1Scalar)},                                      \
                      twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),              \
                      twin::strides_of(repeatParams), where);                               \
    }                                                                                       \
    template <typename T, typename U, bool isSetMask = true>                                \
    __aicore__ inline void name(const LocalTensor<U> &dst, const LocalTensor<T> &src0,      \
                                const T src1Scalar, CMPMODE cmpMode, const uint64_t mask[], \
                                uint8_t repeatTime, const UnaryRepeatParams &repeatParams,  \
                                twin::Where where = twin::Where::here()) {                  \
        TWIN_MASKED(CompareScalar, T);                                                      \
        twin::compare({twin::Op::CompareScalar,                                             \
                       twin::TypeOf<T>::value,                                              \
                       cmpMode,                                                             \
                       true,                                                                \
                       false,                                                               \
                       dst.twin_local(),                                                    \
                       src0.twin_local(),                                                   \
                       {},                                                                  \
                       twin::scalar_bits(src1Scalar)},                                      \
                      twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),              \
                      twin::strides_of(repeatParams), where);                               \
    }
TWIN_COMPARE_SCALAR(CompareScalar)
TWIN_COMPARE_SCALAR(Compares)
#undef TWIN_COMPARE_SCALAR

template <typename T>
__aicore__ inline void GetCmpMask(const LocalTensor<T> &dst,
                                  twin::Where where = twin::Where::here()) {
    TWIN_TAKES(GetCmpMask, T);
    twin::get_compare_mask(dst.twin_local(), where);
}
template <typename T>
__aicore__ inline void SetCmpMask(const LocalTensor<T> &src,
                                  twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SetCmpMask, T);
    twin::set_compare_mask(src.twin_local(), where);
}

// src1: a tensor.
template <typename T, typename U>
__aicore__ inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask,
                              const LocalTensor<T> &src0, const LocalTensor<T> &src1,
                              SELMODE selMode, uint32_t count,
                              twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Select, T);
    twin::select({twin::TypeOf<T>::value, selMode, false, false, dst.twin_local(),
                  selMask.twin_local(), src0.twin_local(), src1.twin_local(), 0},
                 twin::Lanes::first(count), {}, where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask,
                              const LocalTensor<T> &src0, const LocalTensor<T> &src1,
                              SELMODE selMode, uint64_t mask, uint8_t repeatTime,
                              const BinaryRepeatParams &repeatParams,
                              twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Select, T);
    twin::select({twin::TypeOf<T>::value, selMode, false, false, dst.twin_local(),
                  selMask.twin_local(), src0.twin_local(), src1.twin_local(), 0},
                 twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                 twin::strides_of(repeatParams), where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask,
                              const LocalTensor<T> &src0, const LocalTensor<T> &src1,
                              SELMODE selMode, const uint64_t mask[], uint8_t repeatTime,
                              const BinaryRepeatParams &repeatParams,
                              twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Select, T);
    twin::select({twin::TypeOf<T>::value, selMode, false, false, dst.twin_local(),
                  selMask.twin_local(), src0.twin_local(), src1.twin_local(), 0},
                 twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                 twin::strides_of(repeatParams), where);
}
// src1: a scalar.
template <typename T, typename U>
__aicore__ inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask,
                              const LocalTensor<T> &src0, T src1, SELMODE selMode, uint32_t count,
                              twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Select, T);
    twin::select({twin::TypeOf<T>::value,
                  selMode,
                  true,
                  false,
                  dst.twin_local(),
                  selMask.twin_local(),
                  src0.twin_local(),
                  {},
                  twin::scalar_bits(src1)},
                 twin::Lanes::first(count), {}, where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask,
                              const LocalTensor<T> &src0, T src1, SELMODE selMode, uint64_t mask,
                              uint8_t repeatTime, const BinaryRepeatParams &repeatParams,
                              twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Select, T);
    twin::select({twin::TypeOf<T>::value,
                  selMode,
                  true,
                  false,
                  dst.twin_local(),
                  selMask.twin_local(),
                  src0.twin_local(),
                  {},
                  twin::scalar_bits(src1)},
                 twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                 twin::strides_of(repeatParams), where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask,
                              const LocalTensor<T> &src0, T src1, SELMODE selMode,
                              const uint64_t mask[], uint8_t repeatTime,
                              const BinaryRepeatParams &repeatParams,
                              twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Select, T);
    twin::select({twin::TypeOf<T>::value,
                  selMode,
                  true,
                  false,
                  dst.twin_local(),
                  selMask.twin_local(),
                  src0.twin_local(),
                  {},
                  twin::scalar_bits(src1)},
                 twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(T)),
                 twin::strides_of(repeatParams), where);
}
// By the compare register, with the mask that is set: two tensors (modes 0 and 2) …
template <typename T, SELMODE selMode>
__aicore__ inline void Select(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                              const LocalTensor<T> &src1, uint8_t repeatTime,
                              const BinaryRepeatParams &repeatParams,
                              twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Select, T);
    twin::select({twin::TypeOf<T>::value,
                  selMode,
                  false,
                  true,
                  dst.twin_local(),
                  {},
                  src0.twin_local(),
                  src1.twin_local(),
                  0},
                 twin::Lanes::kept(repeatTime), twin::strides_of(repeatParams), where);
}
// … and a tensor and the scalar that SetCmpMask has put there (mode 1).
template <typename T, typename U>
__aicore__ inline void Select(const LocalTensor<T> &dst, const LocalTensor<U> &selMask,
                              const LocalTensor<T> &src0, uint8_t repeatTime,
                              const BinaryRepeatParams &repeatParams,
                              twin::Where where = twin::Where::here()) {
    TWIN_MASKED(Select, T);
    twin::select({twin::TypeOf<T>::value,
                  SELMODE::VSEL_TENSOR_SCALAR_MODE,
                  true,
                  true,
                  dst.twin_local(),
                  selMask.twin_local(),
                  src0.twin_local(),
                  {},
                  0},
                 twin::Lanes::kept(repeatTime), twin::strides_of(repeatParams), where);
}

}  // namespace AscendC
