// Conversions between element types.
#pragma once

#include "twin/params.h"
#include "twin/tensor.h"
#include "twin/vector.h"

namespace twin {

// `modes`: kCastModes of the pair.
void cast(Types types, unsigned modes, int mode, const Local &dst, const Local &src,
          const Lanes &lanes, const Strides &strides, Where where);
void cast_deq(Types types, bool table, bool half_block, const Local &dst, const Local &src,
              const Lanes &lanes, const Strides &strides, Where where);
void set_deq_scale(float scale, Where where);
void set_deq_scale(float scale, int16_t offset, bool sign, Where where);
void set_deq_table(const Local &table, const float *scales, const int16_t *offsets,
                   const bool *signs, Where where);

}  // namespace twin

namespace AscendC {

#if defined(WB_TWIN_ARCH)
#define TWIN_CASTS(Dst, Src)                                                          \
    constexpr twin::Types types = twin::types_of<Dst, Src>();                         \
    static_assert(types.dst != twin::Type::kCount && types.src != twin::Type::kCount, \
                  TWIN_TAKES_TEXT_Cast);                                              \
    constexpr unsigned modes =                                                        \
        twin::kCastModes[unsigned(types.src) % unsigned(twin::Type::kCount)]          \
                        [unsigned(types.dst) % unsigned(twin::Type::kCount)];         \
    static_assert(modes != 0, "Cast on " TWIN_ARCH_NAME                               \
                              " does not exist between these two types; "             \
                              "docs/twin.md lists the pairs")
#else
#define TWIN_CASTS(Dst, Src)                                  \
    constexpr twin::Types types = twin::types_of<Dst, Src>(); \
    constexpr unsigned modes = 0
#endif

template <typename T, typename U>
__aicore__ inline void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src,
                            const RoundMode &roundMode, const uint32_t count,
                            twin::Where where = twin::Where::here()) {
    TWIN_CASTS(T, U);
    twin::cast(types, modes, int(roundMode), dst.twin_local(), src.twin_local(),
               twin::Lanes::first(count), {}, where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src,
                            const RoundMode &roundMode, const uint64_t mask,
                            const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
                            twin::Where where = twin::Where::here()) {
    TWIN_CASTS(T, U);
    twin::cast(types, modes, int(roundMode), dst.twin_local(), src.twin_local(),
               twin::lanes_for<isSetMask>(mask, repeatTime, twin::wider<T, U>()),
               twin::strides_of(repeatParams), where);
}
template <typename T, typename U, bool isSetMask = true>
__aicore__ inline void Cast(const LocalTensor<T> &dst, const LocalTensor<U> &src,
                            const RoundMode &roundMode, const uint64_t mask[],
                            const uint8_t repeatTime, const UnaryRepeatParams &repeatParams,
                            twin::Where where = twin::Where::here()) {
    TWIN_CASTS(T, U);
    twin::cast(types, modes, int(roundMode), dst.twin_local(), src.twin_local(),
               twin::lanes_for<isSetMask>(mask, repeatTime, twin::wider<T, U>()),
               twin::strides_of(repeatParams), where);
}
#undef TWIN_CASTS

// CastDeq (int16_t): dst = src * scale + offset, sixteen results in one half of each data block;
// `halfBlock`: the first half. `isVecDeq`: sixteen scales and offsets in turn.
#define TWIN_CAST_DEQ(name)                                                                       \
    template <typename T, typename U, bool isVecDeq = true, bool halfBlock = true>                \
    __aicore__ inline void name(const LocalTensor<T> &dst, const LocalTensor<U> &src,             \
                                const uint32_t count, twin::Where where = twin::Where::here()) {  \
        TWIN_TAKES_PAIR(CastDeq, T, U);                                                           \
        twin::cast_deq(twin::types_of<T, U>(), isVecDeq, halfBlock, dst.twin_local(),             \
                       src.twin_local(), twin::Lanes::first(count), {}, where);                   \
    }                                                                                             \
    template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true,                \
              bool halfBlock = true>                                                              \
    __aicore__ inline void name(const LocalTensor<T> &dst, const LocalTensor<U> &src,             \
                                const int32_t mask, uint8_t repeatTime,                           \
                                const UnaryRepeatParams &repeatParams,                            \
                                twin::Where where = twin::Where::here()) {                        \
        TWIN_TAKES_PAIR(CastDeq, T, U);                                                           \
        twin::cast_deq(twin::types_of<T, U>(), isVecDeq, halfBlock, dst.twin_local(),             \
                       src.twin_local(),                                                          \
                       twin::lanes_for<isSetMask>(uint64_t(mask), repeatTime, sizeof(U)),         \
                       twin::strides_of(repeatParams), where);                                    \
    }                                                                                             \
    template <typename T, typename U, bool isSetMask = true, bool isVecDeq = true,                \
              bool halfBlock = true>                                                              \
    __aicore__ inline void name(const LocalTensor<T> &dst, const LocalTensor<U> &src,             \
                                const uint64_t mask[], uint8_t repeatTime,                        \
                                const UnaryRepeatParams &repeatParams,                            \
                                twin::Where where = twin::Where::here()) {                        \
        TWIN_TAKES_PAIR(CastDeq, T, U);                                                           \
        twin::cast_deq(twin::types_of<T, U>(), isVecDeq, halfBlock, dst.twin_local(),             \
                       src.twin_local(), twin::lanes_for<isSetMask>(mask, repeatTime, sizeof(U)), \
                       twin::strides_of(repeatParams), where);                                    \
    }
TWIN_CAST_DEQ(CastDeq)
TWIN_CAST_DEQ(CastDequant)
#undef TWIN_CAST_DEQ

constexpr uint8_t VDEQ_TENSOR_SIZE = 16;

struct VdeqInfo {
    float vdeqScale[VDEQ_TENSOR_SIZE] = {};
    int16_t vdeqOffset[VDEQ_TENSOR_SIZE] = {};
    bool vdeqSignMode[VDEQ_TENSOR_SIZE] = {};

    VdeqInfo() = default;
    VdeqInfo(const float scales[VDEQ_TENSOR_SIZE], const int16_t offsets[VDEQ_TENSOR_SIZE],
             const bool signs[VDEQ_TENSOR_SIZE]) {
        for (int i = 0; i < VDEQ_TENSOR_SIZE; ++i) {
            vdeqScale[i] = scales[i];
            vdeqOffset[i] = offsets[i];
            vdeqSignMode[i] = signs[i];
        }
    }
};

// int32_t to half: Cast, CastDeq and AddDeqRelu.
template <int zero = 0>
__aicore__ inline void SetDeqScale(half scale, twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(SetDeqScale, zero);
    twin::set_deq_scale(scale, where);
}
// CastDeq with isVecDeq = false. `offset` has nine bits.
template <int zero = 0>
__aicore__ inline void SetDeqScale(float scale, int16_t offset, bool signMode,
                                   twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(SetDeqScale, zero);
    twin::set_deq_scale(scale, offset, signMode, where);
}
// CastDeq with isVecDeq = true: the scalar unit writes the sixteen into `vdeq`, 128 bytes.
template <typename T>
__aicore__ inline void SetDeqScale(const LocalTensor<T> &vdeq, const VdeqInfo &vdeqInfo,
                                   twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(SetDeqScale, sizeof(T) * 0);
    twin::set_deq_table(vdeq.twin_local(), vdeqInfo.vdeqScale, vdeqInfo.vdeqOffset,
                        vdeqInfo.vdeqSignMode, where);
}

}  // namespace AscendC
