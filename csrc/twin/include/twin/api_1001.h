// Generated from workbench/data/ascend_api.json by `python -m workbench.build.api`.
// Do not edit: a test compares.
// clang-format off
#pragma once

#define TWIN_ARCH_NAME "dav-1001"

namespace twin {
constexpr unsigned kArchIndex = 0;

constexpr uint32_t kTakes_InitBuffer = 0xffffffff;
constexpr uint32_t kTakes_AllocTensor = 0xffffffff;
constexpr uint32_t kTakes_FreeTensor = 0xffffffff;
constexpr uint32_t kTakes_EnQue = 0xffffffff;
constexpr uint32_t kTakes_DeQue = 0xffffffff;
constexpr uint32_t kTakes_VacantInQue = 0xffffffff;
constexpr uint32_t kTakes_HasTensorInQue = 0xffffffff;
constexpr uint32_t kTakes_GetTensorCountInQue = 0xffffffff;
constexpr uint32_t kTakes_HasIdleBuffer = 0xffffffff;
constexpr uint32_t kTakes_FreeAllEvent = 0xffffffff;
constexpr uint32_t kTakes_GetState = 0xffffffff;
constexpr uint32_t kTakes_AllocEventID = 0xffffffff;
constexpr uint32_t kTakes_ReleaseEventID = 0xffffffff;
constexpr uint32_t kTakes_FetchEventID = 0xffffffff;
constexpr uint32_t kTakes_Get = 0xffffffff;
constexpr uint32_t kTakes_Reset = 0xffffffff;
constexpr uint32_t kTakes_Destroy = 0xffffffff;
constexpr uint32_t kTakes_InitBufPool = 0xffffffff;
constexpr uint32_t kTakes_Alloc = 0xffffffff;
constexpr uint32_t kTakes_GetCurAddr = 0xffffffff;
constexpr uint32_t kTakes_GetTPipePtr = 0xffffffff;
constexpr uint32_t kTakes_GetBaseAddr = 0xffffffff;
constexpr uint32_t kTakes_InitSocState = 0xffffffff;
constexpr uint32_t kTakes_GetSysWorkSpacePtr = 0xffffffff;
constexpr uint32_t kTakes_SetSysWorkSpace = 0xffffffff;
constexpr uint32_t kTakes_GetUserWorkspace = 0xffffffff;
constexpr uint32_t kTakes_PopStackBuffer = 0xffffffff;
constexpr uint32_t kTakes_PopStackShareBuffer = 0xffffffff;
constexpr uint32_t kTakes_GetValue = 0x3bfe;
constexpr uint32_t kTakes_SetValue = 0x3bfe;
constexpr uint32_t kTakes_WriteGmByPassDCache = 0x0;
constexpr uint32_t kTakes_ReadGmByPassDCache = 0x0;
constexpr uint32_t kTakes_DataCopy = 0x1bfe;
constexpr uint32_t kTakes_DataCopyPad = 0x0;
constexpr uint32_t kTakes_Copy = 0x0;
constexpr uint32_t kMasked_Copy = 0x0;
constexpr uint32_t kTakes_SetPadValue = 0x0;
constexpr uint32_t kTakes_Exp = 0xa00;
constexpr uint32_t kMasked_Exp = 0xa00;
constexpr uint32_t kTakes_Ln = 0xa00;
constexpr uint32_t kMasked_Ln = 0xa00;
constexpr uint32_t kTakes_Abs = 0xa00;
constexpr uint32_t kMasked_Abs = 0xa00;
constexpr uint32_t kTakes_Reciprocal = 0xa00;
constexpr uint32_t kMasked_Reciprocal = 0xa00;
constexpr uint32_t kTakes_Rsqrt = 0xa00;
constexpr uint32_t kMasked_Rsqrt = 0xa00;
constexpr uint32_t kTakes_Sqrt = 0xa00;
constexpr uint32_t kMasked_Sqrt = 0xa00;
constexpr uint32_t kTakes_Relu = 0x200;
constexpr uint32_t kMasked_Relu = 0x200;
constexpr uint32_t kTakes_Add = 0xa20;
constexpr uint32_t kMasked_Add = 0xa20;
constexpr uint32_t kTakes_Sub = 0xa20;
constexpr uint32_t kMasked_Sub = 0xa20;
constexpr uint32_t kTakes_Mul = 0xa20;
constexpr uint32_t kMasked_Mul = 0xa20;
constexpr uint32_t kTakes_Div = 0xa00;
constexpr uint32_t kMasked_Div = 0xa00;
constexpr uint32_t kTakes_Max = 0xa20;
constexpr uint32_t kMasked_Max = 0xa20;
constexpr uint32_t kTakes_Min = 0xa20;
constexpr uint32_t kMasked_Min = 0xa20;
constexpr uint32_t kTakes_BilinearInterpolation = 0x0;
constexpr uint32_t kMasked_BilinearInterpolation = 0x0;
constexpr uint32_t kTakes_Adds = 0xa00;
constexpr uint32_t kMasked_Adds = 0xa00;
constexpr uint32_t kTakes_Muls = 0xa00;
constexpr uint32_t kMasked_Muls = 0xa00;
constexpr uint32_t kTakes_Maxs = 0x0;
constexpr uint32_t kMasked_Maxs = 0x0;
constexpr uint32_t kTakes_Mins = 0x0;
constexpr uint32_t kMasked_Mins = 0x0;
constexpr uint32_t kTakes_LeakyRelu = 0x0;
constexpr uint32_t kMasked_LeakyRelu = 0x0;
constexpr uint32_t kTakes_Axpy = 0xa00;
constexpr uint32_t kMasked_Axpy = 0xa00;
constexpr uint32_t kFrom_Axpy[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x200, 0x0, 0xa00, 0x0, 0x0};
constexpr uint32_t kTakes_MulAddDst = 0x0;
constexpr uint32_t kMasked_MulAddDst = 0x0;
constexpr uint32_t kFrom_MulAddDst[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_FusedMulAdd = 0x0;
constexpr uint32_t kMasked_FusedMulAdd = 0x0;
constexpr uint32_t kTakes_FusedMulAddRelu = 0x0;
constexpr uint32_t kMasked_FusedMulAddRelu = 0x0;
constexpr uint32_t kTakes_AddRelu = 0x0;
constexpr uint32_t kMasked_AddRelu = 0x0;
constexpr uint32_t kTakes_SubRelu = 0x0;
constexpr uint32_t kMasked_SubRelu = 0x0;
constexpr uint32_t kTakes_AddReluCast = 0x0;
constexpr uint32_t kMasked_AddReluCast = 0x0;
constexpr uint32_t kFrom_AddReluCast[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_SubReluCast = 0x0;
constexpr uint32_t kMasked_SubReluCast = 0x0;
constexpr uint32_t kFrom_SubReluCast[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_AddDeqRelu = 0x0;
constexpr uint32_t kMasked_AddDeqRelu = 0x0;
constexpr uint32_t kFrom_AddDeqRelu[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_MulCast = 0x0;
constexpr uint32_t kMasked_MulCast = 0x0;
constexpr uint32_t kFrom_MulCast[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_Not = 0x18;
constexpr uint32_t kMasked_Not = 0x18;
constexpr uint32_t kTakes_And = 0x18;
constexpr uint32_t kMasked_And = 0x18;
constexpr uint32_t kTakes_Or = 0x18;
constexpr uint32_t kMasked_Or = 0x18;
constexpr uint32_t kTakes_Xor = 0x0;
constexpr uint32_t kTakes_ShiftLeft = 0x0;
constexpr uint32_t kMasked_ShiftLeft = 0x0;
constexpr uint32_t kTakes_ShiftRight = 0x0;
constexpr uint32_t kMasked_ShiftRight = 0x0;
constexpr uint32_t kTakes_Cast = 0xa2e;
constexpr uint32_t kMasked_Cast = 0xa2e;
constexpr uint32_t kTakes_CastDeq = 0x0;
constexpr uint32_t kMasked_CastDeq = 0x0;
constexpr uint32_t kFrom_CastDeq[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_SetDeqScale = 0x0;
constexpr uint32_t kTakes_Compare = 0xa00;
constexpr uint32_t kMasked_Compare = 0xa00;
constexpr uint32_t kTakes_CompareScalar = 0x0;
constexpr uint32_t kMasked_CompareScalar = 0x0;
constexpr uint32_t kTakes_GetCmpMask = 0x154;
constexpr uint32_t kTakes_SetCmpMask = 0xbf4;
constexpr uint32_t kTakes_Select = 0xa00;
constexpr uint32_t kMasked_Select = 0xa00;
constexpr uint32_t kTakes_Duplicate = 0xe78;
constexpr uint32_t kMasked_Duplicate = 0xe78;
constexpr uint32_t kTakes_Brcb = 0x0;
constexpr uint32_t kTakes_CreateVecIndex = 0x0;
constexpr uint32_t kMasked_CreateVecIndex = 0x0;
constexpr uint32_t kTakes_ArithProgression = 0x0;
constexpr uint32_t kTakes_Gather = 0x0;
constexpr uint32_t kMasked_Gather = 0x0;
constexpr uint32_t kTakes_Gatherb = 0x0;
constexpr uint32_t kTakes_Scatter = 0x0;
constexpr uint32_t kMasked_Scatter = 0x0;
constexpr uint32_t kTakes_GatherMask = 0x0;
constexpr uint32_t kTakes_Transpose = 0x218;
constexpr uint32_t kTakes_TransDataTo5HD = 0x21e;
constexpr uint32_t kTakes_Sort32 = 0x0;
constexpr uint32_t kTakes_MrgSort = 0x0;
constexpr uint32_t kTakes_RpSort16 = 0x200;
constexpr uint32_t kTakes_MrgSort4 = 0x200;
constexpr uint32_t kTakes_ProposalConcat = 0x200;
constexpr uint32_t kTakes_ProposalExtract = 0x200;
constexpr uint32_t kTakes_GetMrgSortResult = 0xffffffff;
constexpr uint32_t kTakes_Sort = 0x0;
constexpr uint32_t kTakes_Concat = 0x0;
constexpr uint32_t kTakes_Extract = 0x0;
constexpr uint32_t kTakes_GetSortOffset = 0x0;
constexpr uint32_t kTakes_GetSortLen = 0x0;
constexpr uint32_t kTakes_TopK = 0x0;
constexpr uint32_t kTakes_WholeReduceSum = 0x200;
constexpr uint32_t kMasked_WholeReduceSum = 0x200;
constexpr uint32_t kTakes_WholeReduceMax = 0x200;
constexpr uint32_t kMasked_WholeReduceMax = 0x200;
constexpr uint32_t kTakes_WholeReduceMin = 0x200;
constexpr uint32_t kMasked_WholeReduceMin = 0x200;
constexpr uint32_t kTakes_BlockReduceSum = 0x200;
constexpr uint32_t kMasked_BlockReduceSum = 0x200;
constexpr uint32_t kTakes_BlockReduceMax = 0x200;
constexpr uint32_t kMasked_BlockReduceMax = 0x200;
constexpr uint32_t kTakes_BlockReduceMin = 0x200;
constexpr uint32_t kMasked_BlockReduceMin = 0x200;
constexpr uint32_t kTakes_PairReduceSum = 0x200;
constexpr uint32_t kMasked_PairReduceSum = 0x200;
constexpr uint32_t kTakes_RepeatReduceSum = 0x200;
constexpr uint32_t kTakes_ReduceSum = 0xa00;
constexpr uint32_t kMasked_ReduceSum = 0xa00;
constexpr uint32_t kTakes_ReduceMax = 0x200;
constexpr uint32_t kMasked_ReduceMax = 0x200;
constexpr uint32_t kTakes_ReduceMin = 0x200;
constexpr uint32_t kMasked_ReduceMin = 0x200;
constexpr uint32_t kTakes_GetReduceMaxMinCount = 0x200;
constexpr uint32_t kTakes_GetAccVal = 0x0;
constexpr uint32_t kTakes_SetMaskNorm = 0xffffffff;
constexpr uint32_t kTakes_SetMaskCount = 0xffffffff;
constexpr uint32_t kTakes_ResetMask = 0xffffffff;
constexpr uint32_t kTakes_SetVectorMask = 0xbfe;
constexpr uint32_t kTakes_SetAtomicAdd = 0x800;
constexpr uint32_t kTakes_SetAtomicMax = 0x0;
constexpr uint32_t kTakes_SetAtomicMin = 0x0;
constexpr uint32_t kTakes_SetAtomicType = 0x0;
constexpr uint32_t kTakes_SetAtomicNone = 0xffffffff;
constexpr uint32_t kTakes_SetStoreAtomicConfig = 0x0;
constexpr uint32_t kTakes_GetStoreAtomicConfig = 0x0;
constexpr uint32_t kTakes_SetFlag = 0xffffffff;
constexpr uint32_t kTakes_WaitFlag = 0xffffffff;
constexpr uint32_t kTakes_PipeBarrier = 0xffffffff;
constexpr uint32_t kTakes_DataSyncBarrier = 0x0;
constexpr uint32_t kTakes_SyncAll = 0xffffffff;
constexpr uint32_t kTakes_CrossCoreSetFlag = 0x0;
constexpr uint32_t kTakes_CrossCoreWaitFlag = 0x0;
constexpr uint32_t kTakes_IBSet = 0xffffffff;
constexpr uint32_t kTakes_IBWait = 0xffffffff;
constexpr uint32_t kTakes_InitDetermineComputeWorkspace = 0xffffffff;
constexpr uint32_t kTakes_WaitPreBlock = 0xffffffff;
constexpr uint32_t kTakes_NotifyNextBlock = 0xffffffff;
constexpr uint32_t kTakes_DataCacheCleanAndInvalid = 0xffffffff;
constexpr uint32_t kTakes_DataCachePreload = 0xffffffff;
constexpr uint32_t kTakes_ICachePreLoad = 0x0;
constexpr uint32_t kTakes_GetICachePreloadStatus = 0x0;
constexpr uint32_t kTakes_GetBlockIdx = 0xffffffff;
constexpr uint32_t kTakes_GetBlockNum = 0xffffffff;
constexpr uint32_t kTakes_GetSubBlockIdx = 0xffffffff;
constexpr uint32_t kTakes_GetSubBlockNum = 0xffffffff;
constexpr uint32_t kTakes_GetTaskRation = 0xffffffff;
constexpr uint32_t kTakes_GetProgramCounter = 0xffffffff;
constexpr uint32_t kTakes_GetSystemCycle = 0xffffffff;
constexpr uint32_t kTakes_GetArchVersion = 0xffffffff;
constexpr uint32_t kTakes_GetDataBlockSizeInBytes = 0xffffffff;
constexpr uint32_t kTakes_GetUBSizeInBytes = 0xffffffff;
constexpr uint32_t kTakes_GetRuntimeUBSize = 0xffffffff;
constexpr uint32_t kTakes_GetVecLen = 0xffffffff;
constexpr uint32_t kTakes_SetCtrlSpr = 0x0;
constexpr uint32_t kTakes_GetCtrlSpr = 0x0;
constexpr uint32_t kTakes_ResetCtrlSpr = 0x0;
constexpr uint32_t kTakes_SetSaturationFlag = 0x0;
constexpr uint32_t kTakes_GetSaturationFlag = 0x0;
constexpr uint32_t kTakes_ScalarGetCountOfValue = 0x100;
constexpr uint32_t kTakes_ScalarCountLeadingZero = 0x100;
constexpr uint32_t kTakes_CountBitsCntSameAsSignBit = 0x80;
constexpr uint32_t kTakes_ScalarGetSFFValue = 0x100;
constexpr uint32_t kTakes_ScalarCast = 0x0;
constexpr uint32_t kFrom_ScalarCast[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_ToBfloat16 = 0x0;
constexpr uint32_t kTakes_ToFloat = 0x0;
constexpr uint32_t kTakes_Nop = 0xffffffff;
constexpr uint32_t kTakes_CeilDivision = 0xffffffff;
constexpr uint32_t kTakes_AlignUp = 0xffffffff;
constexpr uint32_t kTakes_Async = 0xffffffff;
constexpr uint32_t kTakes_Printf = 0xffffffff;
constexpr uint32_t kTakes_Assert = 0xffffffff;
constexpr uint32_t kTakes_Trap = 0xffffffff;
constexpr uint32_t kTakes_DumpTensor = 0xa78;
constexpr uint32_t kTakes_DumpAccChkPoint = 0xa78;
constexpr uint32_t kTakes_PrintTimeStamp = 0xffffffff;
constexpr uint32_t kTakes_MetricsProfStart = 0xffffffff;
constexpr uint32_t kTakes_MetricsProfStop = 0xffffffff;
constexpr uint32_t kTakes_MarkStamp = 0xffffffff;
constexpr uint32_t kTakes_Sum = 0x0;
constexpr uint32_t kTakes_Mean = 0x0;
constexpr uint32_t kTakes_CumSum = 0x0;
constexpr uint32_t kTakes_Log = 0x0;
constexpr uint32_t kTakes_Log2 = 0x0;
constexpr uint32_t kTakes_Log10 = 0x0;
constexpr uint32_t kTakes_Sin = 0x0;
constexpr uint32_t kTakes_Cos = 0x0;
constexpr uint32_t kTakes_Tan = 0x0;
constexpr uint32_t kTakes_Asin = 0x0;
constexpr uint32_t kTakes_Acos = 0x0;
constexpr uint32_t kTakes_Atan = 0x0;
constexpr uint32_t kTakes_Sinh = 0x0;
constexpr uint32_t kTakes_Cosh = 0x0;
constexpr uint32_t kTakes_Tanh = 0x0;
constexpr uint32_t kTakes_Asinh = 0x0;
constexpr uint32_t kTakes_Acosh = 0x0;
constexpr uint32_t kTakes_Atanh = 0x0;
constexpr uint32_t kTakes_Erf = 0x0;
constexpr uint32_t kTakes_Erfc = 0x0;
constexpr uint32_t kTakes_Power = 0x0;
constexpr uint32_t kTakes_Ceil = 0x0;
constexpr uint32_t kTakes_Floor = 0x0;
constexpr uint32_t kTakes_Round = 0x0;
constexpr uint32_t kTakes_Trunc = 0x0;
constexpr uint32_t kTakes_Frac = 0x0;
constexpr uint32_t kTakes_Sign = 0x0;
constexpr uint32_t kTakes_Fmod = 0x0;
constexpr uint32_t kTakes_ClampMax = 0x0;
constexpr uint32_t kTakes_ClampMin = 0x0;
constexpr uint32_t kTakes_SoftMax = 0x0;
constexpr uint32_t kTakes_SimpleSoftMax = 0x0;
constexpr uint32_t kTakes_LogSoftMax = 0x0;
constexpr uint32_t kTakes_AdjustSoftMaxRes = 0x0;
constexpr uint32_t kTakes_RmsNorm = 0x0;
constexpr uint32_t kTakes_LayerNorm = 0x0;
constexpr uint32_t kTakes_Gelu = 0x0;
constexpr uint32_t kTakes_FasterGelu = 0x0;
constexpr uint32_t kTakes_FasterGeluV2 = 0x0;
constexpr uint32_t kTakes_Sigmoid = 0x0;
constexpr uint32_t kTakes_Silu = 0x0;
constexpr uint32_t kTakes_Swish = 0x0;
constexpr uint32_t kTakes_SwiGLU = 0x0;
constexpr uint32_t kTakes_GeGLU = 0x0;
constexpr uint32_t kTakes_ReGlu = 0x0;
constexpr uint32_t kTakes_Broadcast = 0x0;
constexpr uint32_t kTakes_Pad = 0x0;
constexpr uint32_t kTakes_UnPad = 0x0;
constexpr uint32_t kTakes_SelectWithBytesMask = 0x0;

constexpr uint8_t kCastModes[14][14] = {
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from int4b_t
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},  // from int8_t
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},  // from uint8_t
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0},  // from int16_t
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from uint16_t
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0},  // from int32_t
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from uint32_t
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from int64_t
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from uint64_t
    {0, 61, 61, 0, 0, 62, 0, 0, 0, 0, 0, 1, 0, 0},  // from half
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from bfloat16_t
    {0, 0, 0, 0, 0, 0, 0, 62, 0, 65, 0, 0, 0, 0},  // from float
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from double
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from bool
};
}  // namespace twin

#define TWIN_TAKES_TEXT_InitBuffer "InitBuffer is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AllocTensor "AllocTensor is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FreeTensor "FreeTensor is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_EnQue "EnQue is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DeQue "DeQue is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_VacantInQue "VacantInQue is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_HasTensorInQue "HasTensorInQue is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetTensorCountInQue "GetTensorCountInQue is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_HasIdleBuffer "HasIdleBuffer is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FreeAllEvent "FreeAllEvent is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetState "GetState is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AllocEventID "AllocEventID is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReleaseEventID "ReleaseEventID is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FetchEventID "FetchEventID is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Get "Get is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Reset "Reset is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Destroy "Destroy is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_InitBufPool "InitBufPool is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Alloc "Alloc is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetCurAddr "GetCurAddr is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetTPipePtr "GetTPipePtr is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetBaseAddr "GetBaseAddr is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_InitSocState "InitSocState is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSysWorkSpacePtr "GetSysWorkSpacePtr is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetSysWorkSpace "SetSysWorkSpace is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetUserWorkspace "GetUserWorkspace is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_PopStackBuffer "PopStackBuffer is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_PopStackShareBuffer "PopStackShareBuffer is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetValue "GetValue on dav-1001 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, half, float, double, bool (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetValue "SetValue on dav-1001 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, half, float, double, bool (docs/twin.md)"
#define TWIN_TAKES_TEXT_WriteGmByPassDCache "WriteGmByPassDCache does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReadGmByPassDCache "ReadGmByPassDCache does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataCopy "DataCopy on dav-1001 takes int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float, int64_t, uint64_t, double (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataCopyPad "DataCopyPad does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Copy "Copy does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetPadValue "SetPadValue does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Exp "Exp on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Ln "Ln on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Abs "Abs on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Reciprocal "Reciprocal on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Rsqrt "Rsqrt on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sqrt "Sqrt on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Relu "Relu on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_Add "Add on dav-1001 takes half, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sub "Sub on dav-1001 takes half, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Mul "Mul on dav-1001 takes half, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Div "Div on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Max "Max on dav-1001 takes half, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Min "Min on dav-1001 takes half, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_BilinearInterpolation "BilinearInterpolation does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Adds "Adds on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Muls "Muls on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Maxs "Maxs does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Mins "Mins does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_LeakyRelu "LeakyRelu does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Axpy "Axpy on dav-1001 takes half, float (half from half, float from float, float from half) (docs/twin.md)"
#define TWIN_TAKES_TEXT_MulAddDst "MulAddDst does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FusedMulAdd "FusedMulAdd does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FusedMulAddRelu "FusedMulAddRelu does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AddRelu "AddRelu does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SubRelu "SubRelu does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AddReluCast "AddReluCast does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SubReluCast "SubReluCast does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AddDeqRelu "AddDeqRelu does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_MulCast "MulCast does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Not "Not on dav-1001 takes int16_t, uint16_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_And "And on dav-1001 takes int16_t, uint16_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_Or "Or on dav-1001 takes int16_t, uint16_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_Xor "Xor does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ShiftLeft "ShiftLeft does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ShiftRight "ShiftRight does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Cast "Cast on dav-1001 takes int8_t, uint8_t, int16_t, int32_t, half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_CastDeq "CastDeq does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetDeqScale "SetDeqScale does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Compare "Compare on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_CompareScalar "CompareScalar does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetCmpMask "GetCmpMask on dav-1001 takes uint8_t, uint16_t, uint32_t, uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetCmpMask "SetCmpMask on dav-1001 takes uint8_t, uint16_t, uint32_t, uint64_t, half, float, int32_t, int64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_Select "Select on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Duplicate "Duplicate on dav-1001 takes int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Brcb "Brcb does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_CreateVecIndex "CreateVecIndex does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ArithProgression "ArithProgression does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Gather "Gather does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Gatherb "Gatherb does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Scatter "Scatter does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GatherMask "GatherMask does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Transpose "Transpose on dav-1001 takes int16_t, uint16_t, half (docs/twin.md)"
#define TWIN_TAKES_TEXT_TransDataTo5HD "TransDataTo5HD on dav-1001 takes int8_t, uint8_t, int16_t, uint16_t, half (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sort32 "Sort32 does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_MrgSort "MrgSort does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_RpSort16 "RpSort16 on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_MrgSort4 "MrgSort4 on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_ProposalConcat "ProposalConcat on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_ProposalExtract "ProposalExtract on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetMrgSortResult "GetMrgSortResult is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sort "Sort does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Concat "Concat does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Extract "Extract does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSortOffset "GetSortOffset does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSortLen "GetSortLen does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_TopK "TopK does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_WholeReduceSum "WholeReduceSum on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_WholeReduceMax "WholeReduceMax on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_WholeReduceMin "WholeReduceMin on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_BlockReduceSum "BlockReduceSum on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_BlockReduceMax "BlockReduceMax on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_BlockReduceMin "BlockReduceMin on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_PairReduceSum "PairReduceSum on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_RepeatReduceSum "RepeatReduceSum on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReduceSum "ReduceSum on dav-1001 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReduceMax "ReduceMax on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReduceMin "ReduceMin on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetReduceMaxMinCount "GetReduceMaxMinCount on dav-1001 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetAccVal "GetAccVal does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetMaskNorm "SetMaskNorm is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetMaskCount "SetMaskCount is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ResetMask "ResetMask is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetVectorMask "SetVectorMask on dav-1001 takes int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float, int64_t, uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicAdd "SetAtomicAdd on dav-1001 takes float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicMax "SetAtomicMax does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicMin "SetAtomicMin does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicType "SetAtomicType does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicNone "SetAtomicNone is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetStoreAtomicConfig "SetStoreAtomicConfig does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetStoreAtomicConfig "GetStoreAtomicConfig does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetFlag "SetFlag is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_WaitFlag "WaitFlag is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_PipeBarrier "PipeBarrier is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataSyncBarrier "DataSyncBarrier does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SyncAll "SyncAll is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_CrossCoreSetFlag "CrossCoreSetFlag does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_CrossCoreWaitFlag "CrossCoreWaitFlag does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_IBSet "IBSet is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_IBWait "IBWait is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_InitDetermineComputeWorkspace "InitDetermineComputeWorkspace is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_WaitPreBlock "WaitPreBlock is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_NotifyNextBlock "NotifyNextBlock is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataCacheCleanAndInvalid "DataCacheCleanAndInvalid is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataCachePreload "DataCachePreload is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ICachePreLoad "ICachePreLoad does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetICachePreloadStatus "GetICachePreloadStatus does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetBlockIdx "GetBlockIdx is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetBlockNum "GetBlockNum is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSubBlockIdx "GetSubBlockIdx is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSubBlockNum "GetSubBlockNum is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetTaskRation "GetTaskRation is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetProgramCounter "GetProgramCounter is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSystemCycle "GetSystemCycle is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetArchVersion "GetArchVersion is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetDataBlockSizeInBytes "GetDataBlockSizeInBytes is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetUBSizeInBytes "GetUBSizeInBytes is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetRuntimeUBSize "GetRuntimeUBSize is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetVecLen "GetVecLen is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetCtrlSpr "SetCtrlSpr does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetCtrlSpr "GetCtrlSpr does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ResetCtrlSpr "ResetCtrlSpr does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetSaturationFlag "SetSaturationFlag does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSaturationFlag "GetSaturationFlag does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ScalarGetCountOfValue "ScalarGetCountOfValue on dav-1001 takes uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_ScalarCountLeadingZero "ScalarCountLeadingZero on dav-1001 takes uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_CountBitsCntSameAsSignBit "CountBitsCntSameAsSignBit on dav-1001 takes int64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_ScalarGetSFFValue "ScalarGetSFFValue on dav-1001 takes uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_ScalarCast "ScalarCast does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ToBfloat16 "ToBfloat16 does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ToFloat "ToFloat does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Nop "Nop is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_CeilDivision "CeilDivision is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AlignUp "AlignUp is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Async "Async is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Printf "printf is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Assert "assert is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Trap "Trap is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DumpTensor "DumpTensor on dav-1001 takes int16_t, uint16_t, half, int32_t, uint32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_DumpAccChkPoint "DumpAccChkPoint on dav-1001 takes int16_t, uint16_t, half, int32_t, uint32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_PrintTimeStamp "PrintTimeStamp is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_MetricsProfStart "MetricsProfStart is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_MetricsProfStop "MetricsProfStop is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_MarkStamp "MarkStamp is on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sum "Sum does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Mean "Mean does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_CumSum "CumSum does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Log "Log does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Log2 "Log2 does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Log10 "Log10 does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sin "Sin does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Cos "Cos does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Tan "Tan does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Asin "Asin does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Acos "Acos does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Atan "Atan does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sinh "Sinh does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Cosh "Cosh does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Tanh "Tanh does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Asinh "Asinh does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Acosh "Acosh does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Atanh "Atanh does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Erf "Erf does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Erfc "Erfc does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Power "Power does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Ceil "Ceil does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Floor "Floor does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Round "Round does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Trunc "Trunc does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Frac "Frac does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sign "Sign does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Fmod "Fmod does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ClampMax "ClampMax does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ClampMin "ClampMin does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SoftMax "SoftMax does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SimpleSoftMax "SimpleSoftMax does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_LogSoftMax "LogSoftMax does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AdjustSoftMaxRes "AdjustSoftMaxRes does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_RmsNorm "RmsNorm does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_LayerNorm "LayerNorm does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Gelu "Gelu does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FasterGelu "FasterGelu does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FasterGeluV2 "FasterGeluV2 does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sigmoid "Sigmoid does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Silu "Silu does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Swish "Swish does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SwiGLU "SwiGLU does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GeGLU "GeGLU does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReGlu "ReGlu does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Broadcast "Broadcast does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Pad "Pad does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_UnPad "UnPad does not exist on dav-1001 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SelectWithBytesMask "SelectWithBytesMask does not exist on dav-1001 (docs/twin.md)"
