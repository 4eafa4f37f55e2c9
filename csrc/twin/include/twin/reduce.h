// Reductions: sums, and extremes with their indices.
#pragma once

#include "twin/tensor.h"

namespace AscendC {

enum class ReduceOrder : uint8_t {
    ORDER_VALUE_INDEX = 0,
    ORDER_INDEX_VALUE,
    ORDER_ONLY_VALUE,
    ORDER_ONLY_INDEX
};
// 9.x
enum class ReduceType { SUM = 0, MAX, MIN };

}  // namespace AscendC

namespace twin {

// The lanes of a reduction: its repeat counts are wider than those of other instructions.
struct ReduceLanes {
    Lanes lanes;     // lanes.repeat is not used
    int32_t repeat;  // not used by the first-n form

    static ReduceLanes first(int32_t count) {
        return {Lanes::first(count > 0 ? uint32_t(count) : 0), 0};
    }
    // The number of lanes is checked as a number, so a negative one stays wrong.
    static ReduceLanes masked(int32_t mask, int32_t repeat, bool set) {
        return {set ? Lanes::masked(uint64_t(int64_t(mask)), 0) : Lanes::kept(0), repeat};
    }
    static ReduceLanes masked(const uint64_t mask[], int32_t repeat, bool set) {
        return {set ? Lanes::masked(mask, 0) : Lanes::kept(0), repeat};
    }
};

// One or more results per repeat.
struct PerRepeat {
    Op op;
    Type type;
    Local dst, src;
    ReduceLanes lanes;
    int32_t dst_rep, src_blk, src_rep;
    AscendC::ReduceOrder order;  // of WholeReduceMax and WholeReduceMin
    Where where;
};
void reduce_per_repeat(const PerRepeat &r);

// One result over everything. The form that takes a count has a call of its own: it is the hot one.
void reduce_sum(Type type, Local dst, Local src, Local tmp, int32_t count, Where where);
void reduce_sum(Type type, Local dst, Local src, Local tmp, const ReduceLanes &lanes,
                int32_t src_rep, Where where);
void reduce_extreme(Op op, Type type, Local dst, Local src, Local tmp, const ReduceLanes &lanes,
                    int32_t src_rep, bool index, Where where);

// GetReduceMaxMinCount and GetAccVal, as bits of `type`.
uint64_t reduced_value(Type type, bool index);
uint64_t accumulated(Type type, Where where);

template <typename T>
inline T from_bits(uint64_t bits) {
    T value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

template <Op op, typename T, typename Mask>
inline void per_repeat(const AscendC::LocalTensor<T> &dst, const AscendC::LocalTensor<T> &src,
                       Mask mask, int32_t repeat, bool set, int32_t dst_rep, int32_t src_blk,
                       int32_t src_rep, AscendC::ReduceOrder order, Where where) {
    reduce_per_repeat({op, TypeOf<T>::value, dst.twin_local(), src.twin_local(),
                       ReduceLanes::masked(mask, repeat, set), dst_rep, src_blk, src_rep, order,
                       where});
}

}  // namespace twin

namespace AscendC {

// ---- over everything ----------------------------------------------------------------------------

template <typename T, bool isSetMask = true>
__aicore__ inline void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                 const LocalTensor<T> &sharedTmpBuffer, const int32_t count,
                                 twin::Where where = twin::Where::here()) {
    TWIN_TAKES(ReduceSum, T);
    twin::reduce_sum(twin::TypeOf<T>::value, dst.twin_local(), src.twin_local(),
                     sharedTmpBuffer.twin_local(), count, where);
}

#define TWIN_REDUCE_SUM(Mask)                                                                     \
    template <typename T>                                                                         \
    __aicore__ inline void ReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src,        \
                                     const LocalTensor<T> &sharedTmpBuffer, Mask,                 \
                                     const int32_t repeatTime, const int32_t srcRepStride,        \
                                     twin::Where where = twin::Where::here()) {                   \
        TWIN_MASKED(ReduceSum, T);                                                                \
        twin::reduce_sum(twin::TypeOf<T>::value, dst.twin_local(), src.twin_local(),              \
                         sharedTmpBuffer.twin_local(),                                            \
                         twin::ReduceLanes::masked(mask, repeatTime, true), srcRepStride, where); \
    }
TWIN_REDUCE_SUM(const int32_t mask)
TWIN_REDUCE_SUM(const uint64_t mask[])
#undef TWIN_REDUCE_SUM

// dst[0] the value and, with calIndex, dst[1] its index as the bits of an integer; of equal ones
// the first.
#define TWIN_REDUCE(Name)                                                                         \
    template <typename T>                                                                         \
    __aicore__ inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src,             \
                                const LocalTensor<T> &sharedTmpBuffer, const int32_t count,       \
                                bool calIndex = false, twin::Where where = twin::Where::here()) { \
        TWIN_TAKES(Name, T);                                                                      \
        twin::reduce_extreme(twin::Op::Name, twin::TypeOf<T>::value, dst.twin_local(),            \
                             src.twin_local(), sharedTmpBuffer.twin_local(),                      \
                             twin::ReduceLanes::first(count), 8, calIndex, where);                \
    }                                                                                             \
    TWIN_REDUCE_MASKED(Name, const int32_t mask)                                                  \
    TWIN_REDUCE_MASKED(Name, const uint64_t mask[])
#define TWIN_REDUCE_MASKED(Name, Mask)                                                            \
    template <typename T>                                                                         \
    __aicore__ inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src,             \
                                const LocalTensor<T> &sharedTmpBuffer, Mask,                      \
                                const int32_t repeatTime, const int32_t srcRepStride,             \
                                bool calIndex = false, twin::Where where = twin::Where::here()) { \
        TWIN_MASKED(Name, T);                                                                     \
        twin::reduce_extreme(twin::Op::Name, twin::TypeOf<T>::value, dst.twin_local(),            \
                             src.twin_local(), sharedTmpBuffer.twin_local(),                      \
                             twin::ReduceLanes::masked(mask, repeatTime, true), srcRepStride,     \
                             calIndex, where);                                                    \
    }
TWIN_REDUCE(ReduceMax)
TWIN_REDUCE(ReduceMin)
#undef TWIN_REDUCE
#undef TWIN_REDUCE_MASKED

// ---- per repeat ---------------------------------------------------------------------------------

// The mask stands before the repeat count in the first three, after it in the others.
#define TWIN_WHOLE_SUM(Mask)                                                                  \
    template <typename T, bool isSetMask = true>                                              \
    __aicore__ inline void WholeReduceSum(                                                    \
        const LocalTensor<T> &dst, const LocalTensor<T> &src, Mask, const int32_t repeatTime, \
        const int32_t dstRepStride, const int32_t srcBlkStride, const int32_t srcRepStride,   \
        twin::Where where = twin::Where::here()) {                                            \
        TWIN_TAKES(WholeReduceSum, T);                                                        \
        twin::per_repeat<twin::Op::WholeReduceSum>(dst, src, mask, repeatTime, isSetMask,     \
                                                   dstRepStride, srcBlkStride, srcRepStride,  \
                                                   ReduceOrder::ORDER_ONLY_VALUE, where);     \
    }
TWIN_WHOLE_SUM(const int32_t mask)
TWIN_WHOLE_SUM(const uint64_t mask[])
#undef TWIN_WHOLE_SUM

#define TWIN_WHOLE(Name, Mask)                                                                \
    template <typename T, bool isSetMask = true>                                              \
    __aicore__ inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src, Mask,   \
                                const int32_t repeatTime, const int32_t dstRepStride,         \
                                const int32_t srcBlkStride, const int32_t srcRepStride,       \
                                ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,           \
                                twin::Where where = twin::Where::here()) {                    \
        TWIN_TAKES(Name, T);                                                                  \
        twin::per_repeat<twin::Op::Name>(dst, src, mask, repeatTime, isSetMask, dstRepStride, \
                                         srcBlkStride, srcRepStride, order, where);           \
    }
TWIN_WHOLE(WholeReduceMax, const int32_t mask)
TWIN_WHOLE(WholeReduceMax, const uint64_t mask[])
TWIN_WHOLE(WholeReduceMin, const int32_t mask)
TWIN_WHOLE(WholeReduceMin, const uint64_t mask[])
#undef TWIN_WHOLE

#define TWIN_BLOCK(Name, Mask)                                                                \
    template <typename T, bool isSetMask = true>                                              \
    __aicore__ inline void Name(const LocalTensor<T> &dst, const LocalTensor<T> &src,         \
                                const int32_t repeatTime, Mask, const int32_t dstRepStride,   \
                                const int32_t srcBlkStride, const int32_t srcRepStride,       \
                                twin::Where where = twin::Where::here()) {                    \
        TWIN_TAKES(Name, T);                                                                  \
        twin::per_repeat<twin::Op::Name>(dst, src, mask, repeatTime, isSetMask, dstRepStride, \
                                         srcBlkStride, srcRepStride,                          \
                                         ReduceOrder::ORDER_ONLY_VALUE, where);               \
    }
TWIN_BLOCK(BlockReduceSum, const int32_t mask)
TWIN_BLOCK(BlockReduceSum, const uint64_t mask[])
TWIN_BLOCK(BlockReduceMax, const int32_t mask)
TWIN_BLOCK(BlockReduceMax, const uint64_t mask[])
TWIN_BLOCK(BlockReduceMin, const int32_t mask)
TWIN_BLOCK(BlockReduceMin, const uint64_t mask[])
TWIN_BLOCK(PairReduceSum, const int32_t mask)
TWIN_BLOCK(PairReduceSum, const uint64_t mask[])
#undef TWIN_BLOCK

// As WholeReduceSum; dstBlkStride has no effect.
template <typename T, bool isSetMask = true>
__aicore__ inline void RepeatReduceSum(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                       const int32_t repeatTime, const int32_t mask,
                                       const int32_t dstBlkStride, const int32_t srcBlkStride,
                                       const int32_t dstRepStride, const int32_t srcRepStride,
                                       twin::Where where = twin::Where::here()) {
    TWIN_TAKES(RepeatReduceSum, T);
    (void)dstBlkStride;
    twin::per_repeat<twin::Op::RepeatReduceSum>(dst, src, mask, repeatTime, isSetMask, dstRepStride,
                                                srcBlkStride, srcRepStride,
                                                ReduceOrder::ORDER_ONLY_VALUE, where);
}

// ---- 9.x names ----------------------------------------------------------------------------------
// (Of their template parameters the first is documented; the order of the others is assumed.)

template <ReduceType type, bool isSetMask = true, typename T, typename Mask>
__aicore__ inline void ReduceRepeat(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                    const Mask mask, const int32_t repeatTime,
                                    const int32_t dstRepStride, const int32_t srcBlkStride,
                                    const int32_t srcRepStride,
                                    ReduceOrder order = ReduceOrder::ORDER_VALUE_INDEX,
                                    twin::Where where = twin::Where::here()) {
    if constexpr (type == ReduceType::SUM) {
        WholeReduceSum<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride,
                                     srcRepStride, where);
    } else if constexpr (type == ReduceType::MAX) {
        WholeReduceMax<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride,
                                     srcRepStride, order, where);
    } else {
        WholeReduceMin<T, isSetMask>(dst, src, mask, repeatTime, dstRepStride, srcBlkStride,
                                     srcRepStride, order, where);
    }
}

template <ReduceType type, bool isSetMask = true, typename T, typename Mask>
__aicore__ inline void ReduceDataBlock(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                       const int32_t repeatTime, const Mask mask,
                                       const int32_t dstRepStride, const int32_t srcBlkStride,
                                       const int32_t srcRepStride,
                                       twin::Where where = twin::Where::here()) {
    if constexpr (type == ReduceType::SUM) {
        BlockReduceSum<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride,
                                     srcRepStride, where);
    } else if constexpr (type == ReduceType::MAX) {
        BlockReduceMax<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride,
                                     srcRepStride, where);
    } else {
        BlockReduceMin<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride,
                                     srcRepStride, where);
    }
}

template <ReduceType type, bool isSetMask = true, typename T, typename Mask>
__aicore__ inline void ReducePairElem(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                      const int32_t repeatTime, const Mask mask,
                                      const int32_t dstRepStride, const int32_t srcBlkStride,
                                      const int32_t srcRepStride,
                                      twin::Where where = twin::Where::here()) {
    static_assert(type == ReduceType::SUM, "ReducePairElem takes ReduceType::SUM");
    PairReduceSum<T, isSetMask>(dst, src, repeatTime, mask, dstRepStride, srcBlkStride,
                                srcRepStride, where);
}

// ---- what the last reduction left in the special registers --------------------------------------

template <typename T>
__aicore__ inline void GetReduceMaxMinCount(T &maxMinValue, T &maxMinIndex) {
    TWIN_TAKES(GetReduceMaxMinCount, T);
    maxMinValue = twin::from_bits<T>(twin::reduced_value(twin::TypeOf<T>::value, false));
    maxMinIndex = twin::from_bits<T>(twin::reduced_value(twin::TypeOf<T>::value, true));
}
template <typename T>
__aicore__ inline void GetReduceMaxMinCount(T &maxMinValue) {
    TWIN_TAKES(GetReduceMaxMinCount, T);
    maxMinValue = twin::from_bits<T>(twin::reduced_value(twin::TypeOf<T>::value, false));
}
template <typename T>
__aicore__ inline void GetReduceRepeatMaxMinSpr(T &maxMinValue, T &maxMinIndex) {
    GetReduceMaxMinCount(maxMinValue, maxMinIndex);
}
template <typename T>
__aicore__ inline void GetReduceRepeatMaxMinSpr(T &maxMinValue) {
    GetReduceMaxMinCount(maxMinValue);
}
template <typename T>
__aicore__ inline T GetAccVal(twin::Where where = twin::Where::here()) {
    TWIN_TAKES(GetAccVal, T);
    return twin::from_bits<T>(twin::accumulated(twin::TypeOf<T>::value, where));
}
template <typename T>
__aicore__ inline T GetReduceRepeatSumSpr(twin::Where where = twin::Where::here()) {
    return GetAccVal<T>(where);
}

}  // namespace AscendC
