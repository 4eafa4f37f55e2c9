// Synchronisation between blocks, and the caches of the scalar unit. Blocks wait for each other for
// real (csrc/twin/runtime/cross.cpp); the workspaces in GM and UB that the vendor's functions keep
// their state in are asked for and left alone: the twin's state is its own.
#pragma once

#include "twin/tensor.h"

namespace twin {

void sync_all(uint32_t cores, const Global *gm, const Local *ub, Where where);
void cross_core_set(uint8_t mode, pipe_t pipe, uint16_t id, Where where);
void cross_core_wait(uint8_t mode, uint16_t id, Where where);
void ib_set(const Global &gm, const Local &ub, int32_t block_index, int32_t event, Where where);
void ib_wait(const Global &gm, const Local &ub, int32_t block_index, int32_t event, Where where);
void determine_init(const Global &gm, const Local &ub, Where where);
void wait_pre_block(const Global &gm, const Local &ub, Where where);
void notify_next_block(const Global &gm, const Local &ub, Where where);
void data_cache_clean(const Global &tensor, bool entire, Where where);
void note(Op op, Where where);  // a call that has no effect in the twin

}  // namespace twin

namespace AscendC {

// ---- all blocks ---------------------------------------------------------------------------------

template <bool isAIVOnly = true>
__aicore__ inline void SyncAll(twin::Where where = twin::Where::here()) {
    twin::sync_all(0, nullptr, nullptr, where);
}
// With flags in GM instead of the hardware's; of `usedCores` blocks only, unless that is 0.
template <bool isAIVOnly = true>
__aicore__ inline void SyncAll(const GlobalTensor<int32_t> &gmWorkspace,
                               const LocalTensor<int32_t> &ubWorkspace, int32_t usedCores = 0,
                               twin::Where where = twin::Where::here()) {
    const twin::Global gm = gmWorkspace.twin_global();
    twin::sync_all(static_cast<uint32_t>(usedCores), &gm, &ubWorkspace.twin_local(), where);
}

#define TWIN_CROSS_MODE(mode)                                                         \
    static_assert(mode <= 1,                                                          \
                  "modes 0 and 1 synchronise vector cores; the others need the cube " \
                  "unit, which the twin does not have")

// Mode 0: a flag for each block, up by one when all blocks have set it. Mode 1: among the vector
// cores of one AI core (assumed: blocks 2k and 2k + 1).
template <uint8_t modeId, pipe_t pipe>
__aicore__ inline void CrossCoreSetFlag(uint16_t flagId, twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(CrossCoreSetFlag, modeId * 0);
    TWIN_CROSS_MODE(modeId);
    twin::cross_core_set(modeId, pipe, flagId, where);
}
template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
__aicore__ inline void CrossCoreWaitFlag(uint16_t flagId, twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(CrossCoreWaitFlag, modeId * 0);
    TWIN_CROSS_MODE(modeId);
    twin::cross_core_wait(modeId, flagId, where);
}
#undef TWIN_CROSS_MODE

// ---- from one block to another ------------------------------------------------------------------

template <bool isAIVOnly = true>
__aicore__ inline void IBSet(const GlobalTensor<int32_t> &gmWorkspace,
                             const LocalTensor<int32_t> &ubWorkspace, int32_t blockIdx,
                             int32_t eventID, twin::Where where = twin::Where::here()) {
    twin::ib_set(gmWorkspace.twin_global(), ubWorkspace.twin_local(), blockIdx, eventID, where);
}
template <bool isAIVOnly = true>
__aicore__ inline void IBWait(const GlobalTensor<int32_t> &gmWorkspace,
                              const LocalTensor<int32_t> &ubWorkspace, int32_t blockIdx,
                              int32_t eventID, twin::Where where = twin::Where::here()) {
    twin::ib_wait(gmWorkspace.twin_global(), ubWorkspace.twin_local(), blockIdx, eventID, where);
}

// What stands between WaitPreBlock and NotifyNextBlock happens in ascending order of blocks.
__aicore__ inline void InitDetermineComputeWorkspace(GlobalTensor<int32_t> &gmWorkspace,
                                                     LocalTensor<int32_t> &ubWorkspace,
                                                     twin::Where where = twin::Where::here()) {
    twin::determine_init(gmWorkspace.twin_global(), ubWorkspace.twin_local(), where);
}
__aicore__ inline void WaitPreBlock(GlobalTensor<int32_t> &gmWorkspace,
                                    LocalTensor<int32_t> &ubWorkspace,
                                    twin::Where where = twin::Where::here()) {
    twin::wait_pre_block(gmWorkspace.twin_global(), ubWorkspace.twin_local(), where);
}
__aicore__ inline void NotifyNextBlock(GlobalTensor<int32_t> &gmWorkspace,
                                       LocalTensor<int32_t> &ubWorkspace,
                                       twin::Where where = twin::Where::here()) {
    twin::notify_next_block(gmWorkspace.twin_global(), ubWorkspace.twin_local(), where);
}

// ---- caches: the twin has none, so these change no result; checked mode knows where a device has
// one
// --

enum class CacheLine : uint64_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint64_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };
enum class MemDsbT : uint64_t { ALL, DDR, UB, SEQ };

template <typename T, CacheLine entireType, DcciDst dcciDst = DcciDst::CACHELINE_ALL>
__aicore__ inline void DataCacheCleanAndInvalid(const GlobalTensor<T> &dst,
                                                twin::Where where = twin::Where::here()) {
    twin::data_cache_clean(dst.twin_global(), entireType == CacheLine::ENTIRE_DATA_CACHE, where);
}
template <typename T, CacheLine entireType, DcciDst dcciDst = DcciDst::CACHELINE_ALL>
__aicore__ inline void DataCacheCleanAndInvalid(const LocalTensor<T> &,
                                                twin::Where where = twin::Where::here()) {
    twin::note(twin::Op::DataCacheCleanAndInvalid, where);
}
template <typename T>
__aicore__ inline void DataCachePreload(const GlobalTensor<uint64_t> &, const T,
                                        twin::Where where = twin::Where::here()) {
    twin::note(twin::Op::DataCachePreload, where);
}
template <int zero = 0>
__aicore__ inline void ICachePreLoad(const int64_t, twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(ICachePreLoad, zero);
    twin::note(twin::Op::ICachePreLoad, where);
}
template <int zero = 0>
__aicore__ inline int64_t GetICachePreloadStatus(twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(GetICachePreloadStatus, zero);
    twin::note(twin::Op::GetICachePreloadStatus, where);
    return 0;
}
template <MemDsbT kind>
__aicore__ inline void DataSyncBarrier(twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(DataSyncBarrier, int(kind) * 0);
    twin::note(twin::Op::DataSyncBarrier, where);
}

// A scalar access to GM that leaves the data cache out: the twin has none.
template <typename T>
__aicore__ inline void WriteGmByPassDCache(__gm__ T *addr, T value,
                                           twin::Where where = twin::Where::here()) {
    TWIN_TAKES(WriteGmByPassDCache, T);
    GlobalTensor<T> at;
    at.SetGlobalBuffer(addr);
    at.SetValue(0, value, where);
}
template <typename T>
__aicore__ inline T ReadGmByPassDCache(__gm__ T *addr, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(ReadGmByPassDCache, T);
    GlobalTensor<T> at;
    at.SetGlobalBuffer(addr);
    return at.GetValue(0, where);
}

}  // namespace AscendC
