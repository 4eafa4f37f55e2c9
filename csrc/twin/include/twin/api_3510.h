// Generated from workbench/data/ascend_api.json by `python -m workbench.build.api`.
// Do not edit: a test compares.
// clang-format off
#pragma once

#define TWIN_ARCH_NAME "dav-3510"

namespace twin {
constexpr unsigned kArchIndex = 3;

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
constexpr uint32_t kTakes_GetValue = 0x3ffe;
constexpr uint32_t kTakes_SetValue = 0x3ffe;
constexpr uint32_t kTakes_WriteGmByPassDCache = 0xbfe;
constexpr uint32_t kTakes_ReadGmByPassDCache = 0xbfe;
constexpr uint32_t kTakes_DataCopy = 0x3ffe;
constexpr uint32_t kTakes_DataCopyPad = 0x3ffe;
constexpr uint32_t kTakes_Copy = 0xe78;
constexpr uint32_t kMasked_Copy = 0xe78;
constexpr uint32_t kTakes_SetPadValue = 0x1ffe;
constexpr uint32_t kTakes_Exp = 0xa00;
constexpr uint32_t kMasked_Exp = 0xa00;
constexpr uint32_t kTakes_Ln = 0xa00;
constexpr uint32_t kMasked_Ln = 0xa00;
constexpr uint32_t kTakes_Abs = 0xaaa;
constexpr uint32_t kMasked_Abs = 0xa28;
constexpr uint32_t kTakes_Reciprocal = 0xb80;
constexpr uint32_t kMasked_Reciprocal = 0xa00;
constexpr uint32_t kTakes_Rsqrt = 0xa00;
constexpr uint32_t kMasked_Rsqrt = 0xa00;
constexpr uint32_t kTakes_Sqrt = 0xa00;
constexpr uint32_t kMasked_Sqrt = 0xa00;
constexpr uint32_t kTakes_Relu = 0xaa0;
constexpr uint32_t kMasked_Relu = 0xa20;
constexpr uint32_t kTakes_Add = 0xffe;
constexpr uint32_t kMasked_Add = 0xe78;
constexpr uint32_t kTakes_Sub = 0xffe;
constexpr uint32_t kMasked_Sub = 0xe78;
constexpr uint32_t kTakes_Mul = 0xff8;
constexpr uint32_t kMasked_Mul = 0xe78;
constexpr uint32_t kTakes_Div = 0xbf8;
constexpr uint32_t kMasked_Div = 0xa78;
constexpr uint32_t kTakes_Max = 0xffe;
constexpr uint32_t kMasked_Max = 0xe78;
constexpr uint32_t kTakes_Min = 0xffe;
constexpr uint32_t kMasked_Min = 0xe78;
constexpr uint32_t kTakes_BilinearInterpolation = 0x200;
constexpr uint32_t kMasked_BilinearInterpolation = 0x200;
constexpr uint32_t kTakes_Adds = 0xfae;
constexpr uint32_t kMasked_Adds = 0xe28;
constexpr uint32_t kTakes_Muls = 0xfa8;
constexpr uint32_t kMasked_Muls = 0xe28;
constexpr uint32_t kTakes_Maxs = 0xfae;
constexpr uint32_t kMasked_Maxs = 0xe28;
constexpr uint32_t kTakes_Mins = 0xfae;
constexpr uint32_t kMasked_Mins = 0xe28;
constexpr uint32_t kTakes_LeakyRelu = 0xa00;
constexpr uint32_t kMasked_LeakyRelu = 0xa00;
constexpr uint32_t kTakes_Axpy = 0xf80;
constexpr uint32_t kMasked_Axpy = 0xe00;
constexpr uint32_t kFrom_Axpy[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x80, 0x100, 0x200, 0x400, 0xa00, 0x0, 0x0};
constexpr uint32_t kTakes_MulAddDst = 0xb80;
constexpr uint32_t kMasked_MulAddDst = 0xa00;
constexpr uint32_t kFrom_MulAddDst[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x80, 0x100, 0x200, 0x0, 0xa00, 0x0, 0x0};
constexpr uint32_t kTakes_FusedMulAdd = 0xf80;
constexpr uint32_t kMasked_FusedMulAdd = 0xe00;
constexpr uint32_t kTakes_FusedMulAddRelu = 0xb80;
constexpr uint32_t kMasked_FusedMulAddRelu = 0xa00;
constexpr uint32_t kTakes_AddRelu = 0xb88;
constexpr uint32_t kMasked_AddRelu = 0xa08;
constexpr uint32_t kTakes_SubRelu = 0xb88;
constexpr uint32_t kMasked_SubRelu = 0xa08;
constexpr uint32_t kTakes_AddReluCast = 0xa08;
constexpr uint32_t kMasked_AddReluCast = 0xa08;
constexpr uint32_t kFrom_AddReluCast[] = {0x0, 0x208, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x800, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_SubReluCast = 0xa08;
constexpr uint32_t kMasked_SubReluCast = 0xa08;
constexpr uint32_t kFrom_SubReluCast[] = {0x0, 0x208, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x800, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_AddDeqRelu = 0x20;
constexpr uint32_t kMasked_AddDeqRelu = 0x20;
constexpr uint32_t kFrom_AddDeqRelu[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x20, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_MulCast = 0x280;
constexpr uint32_t kMasked_MulCast = 0x200;
constexpr uint32_t kFrom_MulCast[] = {0x0, 0x200, 0x200, 0x0, 0x0, 0x80, 0x0, 0x0, 0x0, 0x0, 0x0, 0x80, 0x0, 0x0};
constexpr uint32_t kTakes_Not = 0xbfe;
constexpr uint32_t kMasked_Not = 0xa78;
constexpr uint32_t kTakes_And = 0x1fe;
constexpr uint32_t kMasked_And = 0x78;
constexpr uint32_t kTakes_Or = 0x1fe;
constexpr uint32_t kMasked_Or = 0x78;
constexpr uint32_t kTakes_Xor = 0x18;
constexpr uint32_t kTakes_ShiftLeft = 0x1fe;
constexpr uint32_t kMasked_ShiftLeft = 0x78;
constexpr uint32_t kTakes_ShiftRight = 0x1fe;
constexpr uint32_t kMasked_ShiftRight = 0x78;
constexpr uint32_t kTakes_Cast = 0x1eff;
constexpr uint32_t kMasked_Cast = 0x1eff;
constexpr uint32_t kTakes_CastDeq = 0x28;
constexpr uint32_t kMasked_CastDeq = 0x28;
constexpr uint32_t kFrom_CastDeq[] = {0x0, 0x8, 0x8, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0, 0x20, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_SetDeqScale = 0xffffffff;
constexpr uint32_t kTakes_Compare = 0x1ffe;
constexpr uint32_t kMasked_Compare = 0xe78;
constexpr uint32_t kTakes_CompareScalar = 0x1ffe;
constexpr uint32_t kMasked_CompareScalar = 0xe78;
constexpr uint32_t kTakes_GetCmpMask = 0x154;
constexpr uint32_t kTakes_SetCmpMask = 0xbf4;
constexpr uint32_t kTakes_Select = 0xffe;
constexpr uint32_t kMasked_Select = 0xe78;
constexpr uint32_t kTakes_Duplicate = 0x2ffe;
constexpr uint32_t kMasked_Duplicate = 0xe78;
constexpr uint32_t kTakes_Brcb = 0xffe;
constexpr uint32_t kTakes_CreateVecIndex = 0xaaa;
constexpr uint32_t kMasked_CreateVecIndex = 0xa28;
constexpr uint32_t kTakes_ArithProgression = 0xa28;
constexpr uint32_t kTakes_Gather = 0xffe;
constexpr uint32_t kMasked_Gather = 0xff8;
constexpr uint32_t kTakes_Gatherb = 0xffe;
constexpr uint32_t kTakes_Scatter = 0xffe;
constexpr uint32_t kMasked_Scatter = 0xff8;
constexpr uint32_t kTakes_GatherMask = 0xe7e;
constexpr uint32_t kTakes_Transpose = 0xe7e;
constexpr uint32_t kTakes_TransDataTo5HD = 0xe7e;
constexpr uint32_t kTakes_Sort32 = 0xa00;
constexpr uint32_t kTakes_MrgSort = 0xa00;
constexpr uint32_t kTakes_RpSort16 = 0x0;
constexpr uint32_t kTakes_MrgSort4 = 0x0;
constexpr uint32_t kTakes_ProposalConcat = 0x0;
constexpr uint32_t kTakes_ProposalExtract = 0x0;
constexpr uint32_t kTakes_GetMrgSortResult = 0xffffffff;
constexpr uint32_t kTakes_Sort = 0xa00;
constexpr uint32_t kTakes_Concat = 0xa00;
constexpr uint32_t kTakes_Extract = 0xa00;
constexpr uint32_t kTakes_GetSortOffset = 0xa00;
constexpr uint32_t kTakes_GetSortLen = 0xa00;
constexpr uint32_t kTakes_TopK = 0xa00;
constexpr uint32_t kTakes_WholeReduceSum = 0xa00;
constexpr uint32_t kMasked_WholeReduceSum = 0xa00;
constexpr uint32_t kTakes_WholeReduceMax = 0xa78;
constexpr uint32_t kMasked_WholeReduceMax = 0xa78;
constexpr uint32_t kTakes_WholeReduceMin = 0xa78;
constexpr uint32_t kMasked_WholeReduceMin = 0xa78;
constexpr uint32_t kTakes_BlockReduceSum = 0xa00;
constexpr uint32_t kMasked_BlockReduceSum = 0xa00;
constexpr uint32_t kTakes_BlockReduceMax = 0xa00;
constexpr uint32_t kMasked_BlockReduceMax = 0xa00;
constexpr uint32_t kTakes_BlockReduceMin = 0xa00;
constexpr uint32_t kMasked_BlockReduceMin = 0xa00;
constexpr uint32_t kTakes_PairReduceSum = 0xa00;
constexpr uint32_t kMasked_PairReduceSum = 0xa00;
constexpr uint32_t kTakes_RepeatReduceSum = 0xa00;
constexpr uint32_t kTakes_ReduceSum = 0xb80;
constexpr uint32_t kMasked_ReduceSum = 0xa00;
constexpr uint32_t kTakes_ReduceMax = 0xbf8;
constexpr uint32_t kMasked_ReduceMax = 0xa78;
constexpr uint32_t kTakes_ReduceMin = 0xbf8;
constexpr uint32_t kMasked_ReduceMin = 0xa78;
constexpr uint32_t kTakes_GetReduceMaxMinCount = 0xa00;
constexpr uint32_t kTakes_GetAccVal = 0x0;
constexpr uint32_t kTakes_SetMaskNorm = 0xffffffff;
constexpr uint32_t kTakes_SetMaskCount = 0xffffffff;
constexpr uint32_t kTakes_ResetMask = 0xffffffff;
constexpr uint32_t kTakes_SetVectorMask = 0xffe;
constexpr uint32_t kTakes_SetAtomicAdd = 0xe2a;
constexpr uint32_t kTakes_SetAtomicMax = 0xe2a;
constexpr uint32_t kTakes_SetAtomicMin = 0xe2a;
constexpr uint32_t kTakes_SetAtomicType = 0xe2a;
constexpr uint32_t kTakes_SetAtomicNone = 0xffffffff;
constexpr uint32_t kTakes_SetStoreAtomicConfig = 0x0;
constexpr uint32_t kTakes_GetStoreAtomicConfig = 0x0;
constexpr uint32_t kTakes_SetFlag = 0xffffffff;
constexpr uint32_t kTakes_WaitFlag = 0xffffffff;
constexpr uint32_t kTakes_PipeBarrier = 0xffffffff;
constexpr uint32_t kTakes_DataSyncBarrier = 0xffffffff;
constexpr uint32_t kTakes_SyncAll = 0xffffffff;
constexpr uint32_t kTakes_CrossCoreSetFlag = 0xffffffff;
constexpr uint32_t kTakes_CrossCoreWaitFlag = 0xffffffff;
constexpr uint32_t kTakes_IBSet = 0xffffffff;
constexpr uint32_t kTakes_IBWait = 0xffffffff;
constexpr uint32_t kTakes_InitDetermineComputeWorkspace = 0xffffffff;
constexpr uint32_t kTakes_WaitPreBlock = 0xffffffff;
constexpr uint32_t kTakes_NotifyNextBlock = 0xffffffff;
constexpr uint32_t kTakes_DataCacheCleanAndInvalid = 0xffffffff;
constexpr uint32_t kTakes_DataCachePreload = 0xffffffff;
constexpr uint32_t kTakes_ICachePreLoad = 0xffffffff;
constexpr uint32_t kTakes_GetICachePreloadStatus = 0xffffffff;
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
constexpr uint32_t kTakes_SetCtrlSpr = 0xffffffff;
constexpr uint32_t kTakes_GetCtrlSpr = 0xffffffff;
constexpr uint32_t kTakes_ResetCtrlSpr = 0xffffffff;
constexpr uint32_t kTakes_SetSaturationFlag = 0xffffffff;
constexpr uint32_t kTakes_GetSaturationFlag = 0xffffffff;
constexpr uint32_t kTakes_ScalarGetCountOfValue = 0x100;
constexpr uint32_t kTakes_ScalarCountLeadingZero = 0x100;
constexpr uint32_t kTakes_CountBitsCntSameAsSignBit = 0x80;
constexpr uint32_t kTakes_ScalarGetSFFValue = 0x100;
constexpr uint32_t kTakes_ScalarCast = 0x800;
constexpr uint32_t kFrom_ScalarCast[] = {0x0, 0x0, 0x0, 0x0, 0x0, 0x800, 0x0, 0x0, 0x0, 0x800, 0x0, 0x0, 0x0, 0x0};
constexpr uint32_t kTakes_ToBfloat16 = 0x800;
constexpr uint32_t kTakes_ToFloat = 0x400;
constexpr uint32_t kTakes_Nop = 0xffffffff;
constexpr uint32_t kTakes_CeilDivision = 0xffffffff;
constexpr uint32_t kTakes_AlignUp = 0xffffffff;
constexpr uint32_t kTakes_Async = 0xffffffff;
constexpr uint32_t kTakes_Printf = 0xffffffff;
constexpr uint32_t kTakes_Assert = 0xffffffff;
constexpr uint32_t kTakes_Trap = 0xffffffff;
constexpr uint32_t kTakes_DumpTensor = 0xffe;
constexpr uint32_t kTakes_DumpAccChkPoint = 0xffe;
constexpr uint32_t kTakes_PrintTimeStamp = 0xffffffff;
constexpr uint32_t kTakes_MetricsProfStart = 0xffffffff;
constexpr uint32_t kTakes_MetricsProfStop = 0xffffffff;
constexpr uint32_t kTakes_MarkStamp = 0xffffffff;
constexpr uint32_t kTakes_Sum = 0xa00;
constexpr uint32_t kTakes_Mean = 0xa00;
constexpr uint32_t kTakes_CumSum = 0xa00;
constexpr uint32_t kTakes_Log = 0xa00;
constexpr uint32_t kTakes_Log2 = 0xa00;
constexpr uint32_t kTakes_Log10 = 0xa00;
constexpr uint32_t kTakes_Sin = 0xa00;
constexpr uint32_t kTakes_Cos = 0xa00;
constexpr uint32_t kTakes_Tan = 0xa00;
constexpr uint32_t kTakes_Asin = 0xa00;
constexpr uint32_t kTakes_Acos = 0xa00;
constexpr uint32_t kTakes_Atan = 0xa00;
constexpr uint32_t kTakes_Sinh = 0xa00;
constexpr uint32_t kTakes_Cosh = 0xa00;
constexpr uint32_t kTakes_Tanh = 0xa00;
constexpr uint32_t kTakes_Asinh = 0xa00;
constexpr uint32_t kTakes_Acosh = 0xa00;
constexpr uint32_t kTakes_Atanh = 0xa00;
constexpr uint32_t kTakes_Erf = 0xa00;
constexpr uint32_t kTakes_Erfc = 0xa00;
constexpr uint32_t kTakes_Power = 0xa00;
constexpr uint32_t kTakes_Ceil = 0xa00;
constexpr uint32_t kTakes_Floor = 0xa00;
constexpr uint32_t kTakes_Round = 0xa00;
constexpr uint32_t kTakes_Trunc = 0xa00;
constexpr uint32_t kTakes_Frac = 0xa00;
constexpr uint32_t kTakes_Sign = 0xa00;
constexpr uint32_t kTakes_Fmod = 0xa00;
constexpr uint32_t kTakes_ClampMax = 0xa00;
constexpr uint32_t kTakes_ClampMin = 0xa00;
constexpr uint32_t kTakes_SoftMax = 0xa00;
constexpr uint32_t kTakes_SimpleSoftMax = 0xa00;
constexpr uint32_t kTakes_LogSoftMax = 0xa00;
constexpr uint32_t kTakes_AdjustSoftMaxRes = 0xa00;
constexpr uint32_t kTakes_RmsNorm = 0xa00;
constexpr uint32_t kTakes_LayerNorm = 0xa00;
constexpr uint32_t kTakes_Gelu = 0xa00;
constexpr uint32_t kTakes_FasterGelu = 0xa00;
constexpr uint32_t kTakes_FasterGeluV2 = 0xa00;
constexpr uint32_t kTakes_Sigmoid = 0xa00;
constexpr uint32_t kTakes_Silu = 0xa00;
constexpr uint32_t kTakes_Swish = 0xa00;
constexpr uint32_t kTakes_SwiGLU = 0xa00;
constexpr uint32_t kTakes_GeGLU = 0xa00;
constexpr uint32_t kTakes_ReGlu = 0xa00;
constexpr uint32_t kTakes_Broadcast = 0xa06;
constexpr uint32_t kTakes_Pad = 0xa78;
constexpr uint32_t kTakes_UnPad = 0xa78;
constexpr uint32_t kTakes_SelectWithBytesMask = 0xa00;

constexpr uint8_t kCastModes[14][14] = {
    {0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0},  // from int4b_t
    {0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0},  // from int8_t
    {0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0},  // from uint8_t
    {1, 0, 1, 0, 0, 1, 1, 0, 0, 62, 0, 1, 0, 0},  // from int16_t
    {0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0},  // from uint16_t
    {0, 0, 1, 1, 1, 0, 0, 1, 0, 128, 0, 62, 0, 0},  // from int32_t
    {0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from uint32_t
    {0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 62, 62, 0},  // from int64_t
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from uint64_t
    {62, 62, 62, 62, 0, 62, 0, 0, 0, 0, 62, 1, 0, 0},  // from half
    {0, 0, 0, 0, 0, 62, 0, 0, 0, 62, 0, 1, 0, 0},  // from bfloat16_t
    {0, 0, 0, 62, 0, 62, 0, 62, 0, 127, 62, 62, 0, 0},  // from float
    {0, 0, 0, 0, 0, 32, 0, 32, 0, 0, 62, 62, 0, 0},  // from double
    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},  // from bool
};
}  // namespace twin

#define TWIN_TAKES_TEXT_InitBuffer "InitBuffer is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AllocTensor "AllocTensor is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FreeTensor "FreeTensor is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_EnQue "EnQue is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DeQue "DeQue is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_VacantInQue "VacantInQue is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_HasTensorInQue "HasTensorInQue is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetTensorCountInQue "GetTensorCountInQue is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_HasIdleBuffer "HasIdleBuffer is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FreeAllEvent "FreeAllEvent is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetState "GetState is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AllocEventID "AllocEventID is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReleaseEventID "ReleaseEventID is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_FetchEventID "FetchEventID is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Get "Get is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Reset "Reset is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Destroy "Destroy is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_InitBufPool "InitBufPool is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Alloc "Alloc is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetCurAddr "GetCurAddr is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetTPipePtr "GetTPipePtr is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetBaseAddr "GetBaseAddr is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_InitSocState "InitSocState is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSysWorkSpacePtr "GetSysWorkSpacePtr is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetSysWorkSpace "SetSysWorkSpace is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetUserWorkspace "GetUserWorkspace is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_PopStackBuffer "PopStackBuffer is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_PopStackShareBuffer "PopStackShareBuffer is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetValue "GetValue on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, half, float, bfloat16_t, double, bool (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetValue "SetValue on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, half, float, bfloat16_t, double, bool (docs/twin.md)"
#define TWIN_TAKES_TEXT_WriteGmByPassDCache "WriteGmByPassDCache on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReadGmByPassDCache "ReadGmByPassDCache on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataCopy "DataCopy on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t, double, bool (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataCopyPad "DataCopyPad on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t, double, bool (docs/twin.md)"
#define TWIN_TAKES_TEXT_Copy "Copy on dav-3510 takes int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetPadValue "SetPadValue on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t, double (docs/twin.md)"
#define TWIN_TAKES_TEXT_Exp "Exp on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Ln "Ln on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Abs "Abs on dav-3510 takes int8_t, int16_t, half, int32_t, float, int64_t (int8_t, int64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Reciprocal "Reciprocal on dav-3510 takes half, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Rsqrt "Rsqrt on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sqrt "Sqrt on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Relu "Relu on dav-3510 takes half, int32_t, float, int64_t (int64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Add "Add on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sub "Sub on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Mul "Mul on dav-3510 takes int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Div "Div on dav-3510 takes int16_t, uint16_t, half, int32_t, uint32_t, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Max "Max on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Min "Min on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_BilinearInterpolation "BilinearInterpolation on dav-3510 takes half (docs/twin.md)"
#define TWIN_TAKES_TEXT_Adds "Adds on dav-3510 takes int8_t, uint8_t, int16_t, half, bfloat16_t, int32_t, float, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Muls "Muls on dav-3510 takes int16_t, half, bfloat16_t, int32_t, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Maxs "Maxs on dav-3510 takes int8_t, uint8_t, int16_t, half, bfloat16_t, int32_t, float, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Mins "Mins on dav-3510 takes int8_t, uint8_t, int16_t, half, bfloat16_t, int32_t, float, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_LeakyRelu "LeakyRelu on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Axpy "Axpy on dav-3510 takes half, float, int64_t, uint64_t, bfloat16_t (half from half, float from float, float from half, int64_t from int64_t, uint64_t from uint64_t, bfloat16_t from bfloat16_t) (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_MulAddDst "MulAddDst on dav-3510 takes half, float, int64_t, uint64_t (half from half, float from float, float from half, int64_t from int64_t, uint64_t from uint64_t) (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_FusedMulAdd "FusedMulAdd on dav-3510 takes half, bfloat16_t, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_FusedMulAddRelu "FusedMulAddRelu on dav-3510 takes half, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_AddRelu "AddRelu on dav-3510 takes int16_t, half, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_SubRelu "SubRelu on dav-3510 takes int16_t, half, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_AddReluCast "AddReluCast on dav-3510 takes half, int16_t, float (int8_t from half, int8_t from int16_t, half from float) (docs/twin.md)"
#define TWIN_TAKES_TEXT_SubReluCast "SubReluCast on dav-3510 takes half, int16_t, float (int8_t from half, int8_t from int16_t, half from float) (docs/twin.md)"
#define TWIN_TAKES_TEXT_AddDeqRelu "AddDeqRelu on dav-3510 takes int32_t (half from int32_t) (docs/twin.md)"
#define TWIN_TAKES_TEXT_MulCast "MulCast on dav-3510 takes half, int64_t (int8_t from half, uint8_t from half, float from int64_t, int32_t from int64_t) (int64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Not "Not on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_And "And on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Or "Or on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Xor "Xor on dav-3510 takes int16_t, uint16_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_ShiftLeft "ShiftLeft on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_ShiftRight "ShiftRight on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Cast "Cast on dav-3510 takes int4b_t, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, half, bfloat16_t, float, double (docs/twin.md)"
#define TWIN_TAKES_TEXT_CastDeq "CastDeq on dav-3510 takes int16_t, int32_t (half from int32_t, int8_t from int16_t, uint8_t from int16_t) (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetDeqScale "SetDeqScale is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Compare "Compare on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t, double (int8_t, uint8_t, int64_t, uint64_t, double only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_CompareScalar "CompareScalar on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t, double (int8_t, uint8_t, int64_t, uint64_t, double only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetCmpMask "GetCmpMask on dav-3510 takes uint8_t, uint16_t, uint32_t, uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetCmpMask "SetCmpMask on dav-3510 takes uint8_t, uint16_t, uint32_t, uint64_t, half, float, int32_t, int64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_Select "Select on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Duplicate "Duplicate on dav-3510 takes bool, int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (bool, int8_t, uint8_t, int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Brcb "Brcb on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_CreateVecIndex "CreateVecIndex on dav-3510 takes int8_t, int16_t, half, int32_t, float, int64_t (int8_t, int64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_ArithProgression "ArithProgression on dav-3510 takes int16_t, half, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Gather "Gather on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (int8_t, uint8_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_Gatherb "Gatherb on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_Scatter "Scatter on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (int8_t, uint8_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_GatherMask "GatherMask on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Transpose "Transpose on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float, bfloat16_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_TransDataTo5HD "TransDataTo5HD on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, int32_t, uint32_t, float, bfloat16_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sort32 "Sort32 on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_MrgSort "MrgSort on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_RpSort16 "RpSort16 does not exist on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_MrgSort4 "MrgSort4 does not exist on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ProposalConcat "ProposalConcat does not exist on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ProposalExtract "ProposalExtract does not exist on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetMrgSortResult "GetMrgSortResult is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sort "Sort on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Concat "Concat on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Extract "Extract on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSortOffset "GetSortOffset on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSortLen "GetSortLen on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_TopK "TopK on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_WholeReduceSum "WholeReduceSum on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_WholeReduceMax "WholeReduceMax on dav-3510 takes int16_t, uint16_t, half, int32_t, uint32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_WholeReduceMin "WholeReduceMin on dav-3510 takes int16_t, uint16_t, half, int32_t, uint32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_BlockReduceSum "BlockReduceSum on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_BlockReduceMax "BlockReduceMax on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_BlockReduceMin "BlockReduceMin on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_PairReduceSum "PairReduceSum on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_RepeatReduceSum "RepeatReduceSum on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReduceSum "ReduceSum on dav-3510 takes half, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReduceMax "ReduceMax on dav-3510 takes int16_t, uint16_t, half, int32_t, uint32_t, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReduceMin "ReduceMin on dav-3510 takes int16_t, uint16_t, half, int32_t, uint32_t, float, int64_t, uint64_t (int64_t, uint64_t only with a count) (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetReduceMaxMinCount "GetReduceMaxMinCount on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetAccVal "GetAccVal does not exist on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetMaskNorm "SetMaskNorm is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetMaskCount "SetMaskCount is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ResetMask "ResetMask is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetVectorMask "SetVectorMask on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicAdd "SetAtomicAdd on dav-3510 takes int8_t, int16_t, half, bfloat16_t, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicMax "SetAtomicMax on dav-3510 takes int8_t, int16_t, half, bfloat16_t, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicMin "SetAtomicMin on dav-3510 takes int8_t, int16_t, half, bfloat16_t, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicType "SetAtomicType on dav-3510 takes int8_t, int16_t, half, bfloat16_t, int32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetAtomicNone "SetAtomicNone is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetStoreAtomicConfig "SetStoreAtomicConfig does not exist on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetStoreAtomicConfig "GetStoreAtomicConfig does not exist on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetFlag "SetFlag is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_WaitFlag "WaitFlag is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_PipeBarrier "PipeBarrier is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataSyncBarrier "DataSyncBarrier is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SyncAll "SyncAll is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_CrossCoreSetFlag "CrossCoreSetFlag is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_CrossCoreWaitFlag "CrossCoreWaitFlag is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_IBSet "IBSet is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_IBWait "IBWait is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_InitDetermineComputeWorkspace "InitDetermineComputeWorkspace is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_WaitPreBlock "WaitPreBlock is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_NotifyNextBlock "NotifyNextBlock is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataCacheCleanAndInvalid "DataCacheCleanAndInvalid is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DataCachePreload "DataCachePreload is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ICachePreLoad "ICachePreLoad is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetICachePreloadStatus "GetICachePreloadStatus is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetBlockIdx "GetBlockIdx is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetBlockNum "GetBlockNum is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSubBlockIdx "GetSubBlockIdx is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSubBlockNum "GetSubBlockNum is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetTaskRation "GetTaskRation is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetProgramCounter "GetProgramCounter is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSystemCycle "GetSystemCycle is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetArchVersion "GetArchVersion is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetDataBlockSizeInBytes "GetDataBlockSizeInBytes is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetUBSizeInBytes "GetUBSizeInBytes is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetRuntimeUBSize "GetRuntimeUBSize is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetVecLen "GetVecLen is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetCtrlSpr "SetCtrlSpr is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetCtrlSpr "GetCtrlSpr is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ResetCtrlSpr "ResetCtrlSpr is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_SetSaturationFlag "SetSaturationFlag is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_GetSaturationFlag "GetSaturationFlag is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_ScalarGetCountOfValue "ScalarGetCountOfValue on dav-3510 takes uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_ScalarCountLeadingZero "ScalarCountLeadingZero on dav-3510 takes uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_CountBitsCntSameAsSignBit "CountBitsCntSameAsSignBit on dav-3510 takes int64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_ScalarGetSFFValue "ScalarGetSFFValue on dav-3510 takes uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_ScalarCast "ScalarCast on dav-3510 takes float (half from float, int32_t from float) (docs/twin.md)"
#define TWIN_TAKES_TEXT_ToBfloat16 "ToBfloat16 on dav-3510 takes float (docs/twin.md)"
#define TWIN_TAKES_TEXT_ToFloat "ToFloat on dav-3510 takes bfloat16_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_Nop "Nop is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_CeilDivision "CeilDivision is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_AlignUp "AlignUp is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Async "Async is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Printf "printf is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Assert "assert is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Trap "Trap is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_DumpTensor "DumpTensor on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_DumpAccChkPoint "DumpAccChkPoint on dav-3510 takes int8_t, uint8_t, int16_t, uint16_t, half, bfloat16_t, int32_t, uint32_t, float, int64_t, uint64_t (docs/twin.md)"
#define TWIN_TAKES_TEXT_PrintTimeStamp "PrintTimeStamp is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_MetricsProfStart "MetricsProfStart is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_MetricsProfStop "MetricsProfStop is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_MarkStamp "MarkStamp is on dav-3510 (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sum "Sum on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Mean "Mean on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_CumSum "CumSum on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Log "Log on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Log2 "Log2 on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Log10 "Log10 on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sin "Sin on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Cos "Cos on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Tan "Tan on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Asin "Asin on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Acos "Acos on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Atan "Atan on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sinh "Sinh on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Cosh "Cosh on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Tanh "Tanh on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Asinh "Asinh on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Acosh "Acosh on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Atanh "Atanh on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Erf "Erf on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Erfc "Erfc on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Power "Power on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Ceil "Ceil on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Floor "Floor on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Round "Round on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Trunc "Trunc on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Frac "Frac on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sign "Sign on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Fmod "Fmod on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_ClampMax "ClampMax on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_ClampMin "ClampMin on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SoftMax "SoftMax on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SimpleSoftMax "SimpleSoftMax on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_LogSoftMax "LogSoftMax on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_AdjustSoftMaxRes "AdjustSoftMaxRes on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_RmsNorm "RmsNorm on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_LayerNorm "LayerNorm on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Gelu "Gelu on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_FasterGelu "FasterGelu on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_FasterGeluV2 "FasterGeluV2 on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Sigmoid "Sigmoid on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Silu "Silu on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Swish "Swish on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SwiGLU "SwiGLU on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_GeGLU "GeGLU on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_ReGlu "ReGlu on dav-3510 takes half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Broadcast "Broadcast on dav-3510 takes int8_t, uint8_t, half, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_Pad "Pad on dav-3510 takes int16_t, uint16_t, half, int32_t, uint32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_UnPad "UnPad on dav-3510 takes int16_t, uint16_t, half, int32_t, uint32_t, float (docs/twin.md)"
#define TWIN_TAKES_TEXT_SelectWithBytesMask "SelectWithBytesMask on dav-3510 takes half, float (docs/twin.md)"
