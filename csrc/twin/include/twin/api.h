// Generated from workbench/data/ascend_api.json by `python -m workbench.build.api`.
// Do not edit: a test compares.
// clang-format off
#pragma once

#include <cstdint>

namespace twin {

// One per instruction; overloads share one.
enum class Op : uint16_t {
    InitBuffer,
    AllocTensor,
    FreeTensor,
    EnQue,
    DeQue,
    VacantInQue,
    HasTensorInQue,
    GetTensorCountInQue,
    HasIdleBuffer,
    FreeAllEvent,
    GetState,
    AllocEventID,
    ReleaseEventID,
    FetchEventID,
    Get,
    Reset,
    Destroy,
    InitBufPool,
    Alloc,
    GetCurAddr,
    GetTPipePtr,
    GetBaseAddr,
    InitSocState,
    GetSysWorkSpacePtr,
    SetSysWorkSpace,
    GetUserWorkspace,
    PopStackBuffer,
    PopStackShareBuffer,
    GetValue,
    SetValue,
    WriteGmByPassDCache,
    ReadGmByPassDCache,
    DataCopy,
    DataCopyPad,
    Copy,
    SetPadValue,
    Exp,
    Ln,
    Abs,
    Reciprocal,
    Rsqrt,
    Sqrt,
    Relu,
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
    BilinearInterpolation,
    Adds,
    Muls,
    Maxs,
    Mins,
    LeakyRelu,
    Axpy,
    MulAddDst,
    FusedMulAdd,
    FusedMulAddRelu,
    AddRelu,
    SubRelu,
    AddReluCast,
    SubReluCast,
    AddDeqRelu,
    MulCast,
    Not,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Cast,
    CastDeq,
    SetDeqScale,
    Compare,
    CompareScalar,
    GetCmpMask,
    SetCmpMask,
    Select,
    Duplicate,
    Brcb,
    CreateVecIndex,
    ArithProgression,
    Gather,
    Gatherb,
    Scatter,
    GatherMask,
    Transpose,
    TransDataTo5HD,
    Sort32,
    MrgSort,
    RpSort16,
    MrgSort4,
    ProposalConcat,
    ProposalExtract,
    GetMrgSortResult,
    Sort,
    Concat,
    Extract,
    GetSortOffset,
    GetSortLen,
    TopK,
    WholeReduceSum,
    WholeReduceMax,
    WholeReduceMin,
    BlockReduceSum,
    BlockReduceMax,
    BlockReduceMin,
    PairReduceSum,
    RepeatReduceSum,
    ReduceSum,
    ReduceMax,
    ReduceMin,
    GetReduceMaxMinCount,
    GetAccVal,
    SetMaskNorm,
    SetMaskCount,
    ResetMask,
    SetVectorMask,
    SetAtomicAdd,
    SetAtomicMax,
    SetAtomicMin,
    SetAtomicType,
    SetAtomicNone,
    SetStoreAtomicConfig,
    GetStoreAtomicConfig,
    SetFlag,
    WaitFlag,
    PipeBarrier,
    DataSyncBarrier,
    SyncAll,
    CrossCoreSetFlag,
    CrossCoreWaitFlag,
    IBSet,
    IBWait,
    InitDetermineComputeWorkspace,
    WaitPreBlock,
    NotifyNextBlock,
    DataCacheCleanAndInvalid,
    DataCachePreload,
    ICachePreLoad,
    GetICachePreloadStatus,
    GetBlockIdx,
    GetBlockNum,
    GetSubBlockIdx,
    GetSubBlockNum,
    GetTaskRation,
    GetProgramCounter,
    GetSystemCycle,
    GetArchVersion,
    GetDataBlockSizeInBytes,
    GetUBSizeInBytes,
    GetRuntimeUBSize,
    GetVecLen,
    SetCtrlSpr,
    GetCtrlSpr,
    ResetCtrlSpr,
    SetSaturationFlag,
    GetSaturationFlag,
    ScalarGetCountOfValue,
    ScalarCountLeadingZero,
    CountBitsCntSameAsSignBit,
    ScalarGetSFFValue,
    ScalarCast,
    ToBfloat16,
    ToFloat,
    Nop,
    CeilDivision,
    AlignUp,
    Async,
    Printf,
    Assert,
    Trap,
    DumpTensor,
    DumpAccChkPoint,
    PrintTimeStamp,
    MetricsProfStart,
    MetricsProfStop,
    MarkStamp,
    Sum,
    Mean,
    CumSum,
    Log,
    Log2,
    Log10,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    Erfc,
    Power,
    Ceil,
    Floor,
    Round,
    Trunc,
    Frac,
    Sign,
    Fmod,
    ClampMax,
    ClampMin,
    SoftMax,
    SimpleSoftMax,
    LogSoftMax,
    AdjustSoftMaxRes,
    RmsNorm,
    LayerNorm,
    Gelu,
    FasterGelu,
    FasterGeluV2,
    Sigmoid,
    Silu,
    Swish,
    SwiGLU,
    GeGLU,
    ReGlu,
    Broadcast,
    Pad,
    UnPad,
    SelectWithBytesMask,
    kCount
};

extern const char *const kOpNames[];     // as the user writes it
extern const char *const kOpPipes[];     // "V", "S", "MTE" (by direction) or "-"
// 0 documented-exact, 1 assumed, 2 approximate; by kArchIndex.
extern const uint8_t kOpFidelity[][4];

// Element types; the bit of a type in kTakes_… is 1 << its code.
enum class Type : uint8_t {
    kS4,  // int4b_t
    kS8,  // int8_t
    kU8,  // uint8_t
    kS16,  // int16_t
    kU16,  // uint16_t
    kS32,  // int32_t
    kU32,  // uint32_t
    kS64,  // int64_t
    kU64,  // uint64_t
    kHalf,  // half
    kBf16,  // bfloat16_t
    kFloat,  // float
    kDouble,  // double
    kBool,  // bool
    kCount
};

// kTakes_Add: the types that Add takes on this architecture (all bits where it has no
// element type, 0 where it does not exist); kMasked_Add: those of its forms with a mask;
// kFrom_Axpy[dst type]: the source types; kCastModes[from][to]: 1 << RoundMode, and 128
// where the mode has no effect and SetDeqScale scales (0: no such cast).
// TWIN_TAKES_TEXT_Add: the sentence for the static_assert.
}  // namespace twin

#if defined(WB_TWIN_ARCH)
#if WB_TWIN_ARCH == 1001
#include "api_1001.h"
#elif WB_TWIN_ARCH == 2002
#include "api_2002.h"
#elif WB_TWIN_ARCH == 2201
#include "api_2201.h"
#elif WB_TWIN_ARCH == 3510
#include "api_3510.h"
#endif
#endif
