// Sorting: descending by score, equal scores in the order they came in. An element is a score and
// an index in eight bytes (half: score, two reserved bytes, index), on dav-1001 and dav-2002 a
// region proposal of eight numbers with the score in the fifth.
#pragma once

#include "twin/tensor.h"

namespace AscendC {

struct MrgSort4Info {
    MrgSort4Info() = default;
    MrgSort4Info(const uint16_t lengths[4], bool suspend, uint16_t valid, uint16_t repeats)
        : elementLengths{lengths[0], lengths[1], lengths[2], lengths[3]},
          ifExhaustedSuspension(suspend),
          validBit(valid),
          repeatTimes(repeats) {}
    uint16_t elementLengths[4] = {0};
    bool ifExhaustedSuspension = false;
    uint16_t validBit = 0;
    uint8_t repeatTimes = 1;
};

template <typename T>
struct MrgSortSrcList {
    MrgSortSrcList() = default;
    MrgSortSrcList(const LocalTensor<T> &a, const LocalTensor<T> &b, const LocalTensor<T> &c,
                   const LocalTensor<T> &d)
        : src1(a), src2(b), src3(c), src4(d) {}
    LocalTensor<T> src1;
    LocalTensor<T> src2;
    LocalTensor<T> src3;
    LocalTensor<T> src4;
};

}  // namespace AscendC

namespace twin {

void sort32(Local dst, Local scores, Local indices, Type type, int32_t repeat, Where where);
struct Merge {
    Op op;
    Type type;
    uint32_t item;  // bytes of one element of a list
    uint32_t key;   // bytes of its score from its start
    Local dst, src[4];
    uint16_t lengths[4];
    bool suspend;
    uint16_t valid;
    int32_t repeat;
    Where where;
};
void merge_lists(const Merge &m);
void sort16(Local dst, Local src, Type type, int32_t repeat, Where where);
void proposal_concat(Local dst, Local src, uint32_t elem, int32_t repeat, int32_t mode,
                     Where where);
void proposal_extract(Local dst, Local src, uint32_t elem, int32_t repeat, int32_t mode,
                      Where where);
void extract(Local values, Local indices, Local sorted, Type type, int32_t repeat, Where where);
void sort_all(Local dst, Local scores, Local indices, Local tmp, Type type, bool full,
              int32_t repeat, Where where);

template <typename T>
inline Merge merge(Op op, uint32_t item, uint32_t key, const AscendC::LocalTensor<T> &dst,
                   const AscendC::MrgSortSrcList<T> &src, const uint16_t lengths[4], bool suspend,
                   uint16_t valid, int32_t repeat, Where where) {
    return {op,
            TypeOf<T>::value,
            item,
            key,
            dst.twin_local(),
            {src.src1.twin_local(), src.src2.twin_local(), src.src3.twin_local(),
             src.src4.twin_local()},
            {lengths[0], lengths[1], lengths[2], lengths[3]},
            suspend,
            valid,
            repeat,
            where};
}

}  // namespace twin

namespace AscendC {

// Sorts 32 scores with their indices per repeat.
template <typename T>
__aicore__ inline void Sort32(const LocalTensor<T> &dst, const LocalTensor<T> &src0,
                              const LocalTensor<uint32_t> &src1, const int32_t repeatTime,
                              twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Sort32, T);
    twin::sort32(dst.twin_local(), src0.twin_local(), src1.twin_local(), twin::TypeOf<T>::value,
                 repeatTime, where);
}

// Merges up to four sorted lists; equal scores: the earlier list first.
template <typename T>
__aicore__ inline void MrgSort(const LocalTensor<T> &dst, const MrgSortSrcList<T> &src,
                               const MrgSort4Info &params,
                               twin::Where where = twin::Where::here()) {
    TWIN_TAKES(MrgSort, T);
    twin::merge_lists(twin::merge(twin::Op::MrgSort, 8, 0, dst, src, params.elementLengths,
                                  params.ifExhaustedSuspension, params.validBit, params.repeatTimes,
                                  where));
}
template <typename T, bool isExhaustedSuspension = false>
__aicore__ inline void MrgSort(const LocalTensor<T> &dst, const MrgSortSrcList<T> &sortList,
                               const uint16_t elementCountList[4], uint32_t sortedNum[4],
                               uint16_t validBit, const int32_t repeatTime,
                               twin::Where where = twin::Where::here()) {
    TWIN_TAKES(MrgSort, T);
    twin::merge_lists(twin::merge(twin::Op::MrgSort, 8, 0, dst, sortList, elementCountList,
                                  isExhaustedSuspension, validBit, repeatTime, where));
    for (int i = 0; i < 4; ++i) {
        sortedNum[i] = twin::block().sort_list[i];
    }
}
// How many elements of each list the last merge took.
__aicore__ inline void GetMrgSortResult(uint16_t &mrgSortList1, uint16_t &mrgSortList2,
                                        uint16_t &mrgSortList3, uint16_t &mrgSortList4) {
    const uint16_t *taken = twin::block().sort_list;
    mrgSortList1 = taken[0];
    mrgSortList2 = taken[1];
    mrgSortList3 = taken[2];
    mrgSortList4 = taken[3];
}

// ---- region proposals ---------------------------------------------------------------------------

template <typename T>
__aicore__ inline void RpSort16(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                const int32_t repeatTime, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(RpSort16, T);
    twin::sort16(dst.twin_local(), src.twin_local(), twin::TypeOf<T>::value, repeatTime, where);
}
template <typename T>
__aicore__ inline void MrgSort4(const LocalTensor<T> &dst, const MrgSortSrcList<T> &src,
                                const MrgSort4Info &params,
                                twin::Where where = twin::Where::here()) {
    TWIN_TAKES(MrgSort4, T);
    twin::merge_lists(twin::merge(twin::Op::MrgSort4, 8 * sizeof(T), 4 * sizeof(T), dst, src,
                                  params.elementLengths, params.ifExhaustedSuspension,
                                  params.validBit, params.repeatTimes, where));
}
// 16 elements into number `modeNumber` of 16 proposals per repeat, and back.
template <typename T>
__aicore__ inline void ProposalConcat(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                      const int32_t repeatTime, const int32_t modeNumber,
                                      twin::Where where = twin::Where::here()) {
    TWIN_TAKES(ProposalConcat, T);
    twin::proposal_concat(dst.twin_local(), src.twin_local(), sizeof(T), repeatTime, modeNumber,
                          where);
}
template <typename T>
__aicore__ inline void ProposalExtract(const LocalTensor<T> &dst, const LocalTensor<T> &src,
                                       const int32_t repeatTime, const int32_t modeNumber,
                                       twin::Where where = twin::Where::here()) {
    TWIN_TAKES(ProposalExtract, T);
    twin::proposal_extract(dst.twin_local(), src.twin_local(), sizeof(T), repeatTime, modeNumber,
                           where);
}

// ---- the high-level functions, for elements of eight bytes --------------------------------------

// Where elements are a score and an index there is nothing to join: Sort takes the scores as they
// are.
template <typename T>
__aicore__ inline void Concat(LocalTensor<T> &concat, const LocalTensor<T> &src,
                              const LocalTensor<T> &tmp, const int32_t repeatTime) {
    TWIN_TAKES(Concat, T);
    (void)tmp;
    (void)repeatTime;
    concat = src;
}
// 32 elements per repeat; isFullSort: one sorted list over all repeats.
template <typename T, bool isFullSort>
__aicore__ inline void Sort(const LocalTensor<T> &dst, const LocalTensor<T> &concat,
                            const LocalTensor<uint32_t> &index, LocalTensor<T> &tmp,
                            const int32_t repeatTime, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Sort, T);
    twin::sort_all(dst.twin_local(), concat.twin_local(), index.twin_local(), tmp.twin_local(),
                   twin::TypeOf<T>::value, isFullSort, repeatTime, where);
}
template <typename T>
__aicore__ inline void Extract(const LocalTensor<T> &dstValue,
                               const LocalTensor<uint32_t> &dstIndex, const LocalTensor<T> &sorted,
                               const int32_t repeatTime, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(Extract, T);
    twin::extract(dstValue.twin_local(), dstIndex.twin_local(), sorted.twin_local(),
                  twin::TypeOf<T>::value, repeatTime, where);
}
// Elements of T before the `elemOffset`th sorted element, and in `elemCount` of them.
template <typename T>
__aicore__ inline uint32_t GetSortOffset(const uint32_t elemOffset) {
    TWIN_TAKES(GetSortOffset, T);
    return elemOffset * uint32_t(8 / sizeof(T));
}
template <typename T>
__aicore__ inline uint32_t GetSortLen(const uint32_t elemCount) {
    TWIN_TAKES(GetSortLen, T);
    return elemCount * uint32_t(8 / sizeof(T));
}

}  // namespace AscendC
