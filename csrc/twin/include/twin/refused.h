// Generated from workbench/data/ascend_api.json by `python -m workbench.build.api`.
// Do not edit: a test compares.
// clang-format off
// A use of one of these names fails to compile with one sentence, at the user's line.
// The ellipsis is the worst match there is: a user's own function of that name wins.
#pragma once

#if defined(__has_attribute)
#if __has_attribute(unavailable)
#define TWIN_NO(why) __attribute__((unavailable(why)))
#define TWIN_BODY(why, ...) ;
#endif
#endif
#if !defined(TWIN_NO)  // g++ before 12: the error stands at the stub, the warning here
#define TWIN_NO(why) [[deprecated(why)]]
#define TWIN_BODY(why, ...) { static_assert(::twin::__VA_ARGS__, why); return 0; }
#define TWIN_CLASS(why, ...) { static_assert(::twin::__VA_ARGS__, why); }
#elif defined(__clang__) && __clang_major__ < 18  // overlooks it on a class template
#define TWIN_CLASS(why, ...) { static_assert(::twin::__VA_ARGS__, why); }
#else
#define TWIN_CLASS(why, ...) {}
#endif

namespace twin {
template <typename...> constexpr bool refused_types = false;
template <auto...> constexpr bool refused_values = false;
}  // namespace twin

#define TWIN_CUBE " needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)"
#define TWIN_REG " belongs to the register API of dav-3510, which the twin does not have: use the functions on LocalTensor (docs/twin.md)"
#define TWIN_SIMT " belongs to the SIMT API of dav-3510, which the twin does not have: use the functions on LocalTensor (docs/twin.md)"
#define TWIN_HCCL " communicates between devices, which the twin does not do: it runs one device (docs/twin.md)"
#define TWIN_TILING " reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)"
#define TWIN_CPU " belongs to the CPU mode of the vendor's toolkit: launch with <<<...>>> or from Python (docs/twin.md)"
#define TWIN_ABSENT " is not in the twin (docs/twin.md)"

namespace AscendC {
class TWIN_NO("TensorTrait" TWIN_ABSENT) TensorTrait {};
class TWIN_NO("TensorDesc" TWIN_ABSENT) TensorDesc {};
class TWIN_NO("ListTensorDesc" TWIN_ABSENT) ListTensorDesc {};
class TWIN_NO("Coordinate" TWIN_ABSENT) Coordinate {};
class TWIN_NO("Layout" TWIN_ABSENT) Layout {};
class TWIN_NO("TSCM" TWIN_CUBE) TSCM {};
template <typename... X> TWIN_NO("SetLoopModePara" TWIN_ABSENT) int SetLoopModePara(...) TWIN_BODY("SetLoopModePara" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetLoopModePara" TWIN_ABSENT) int SetLoopModePara(...) TWIN_BODY("SetLoopModePara" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ResetLoopModePara" TWIN_ABSENT) int ResetLoopModePara(...) TWIN_BODY("ResetLoopModePara" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ResetLoopModePara" TWIN_ABSENT) int ResetLoopModePara(...) TWIN_BODY("ResetLoopModePara" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Neg" TWIN_ABSENT) int Neg(...) TWIN_BODY("Neg" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Neg" TWIN_ABSENT) int Neg(...) TWIN_BODY("Neg" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Prelu" TWIN_ABSENT) int Prelu(...) TWIN_BODY("Prelu" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Prelu" TWIN_ABSENT) int Prelu(...) TWIN_BODY("Prelu" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Mull" TWIN_ABSENT) int Mull(...) TWIN_BODY("Mull" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Mull" TWIN_ABSENT) int Mull(...) TWIN_BODY("Mull" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Subs" TWIN_ABSENT) int Subs(...) TWIN_BODY("Subs" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Subs" TWIN_ABSENT) int Subs(...) TWIN_BODY("Subs" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Divs" TWIN_ABSENT) int Divs(...) TWIN_BODY("Divs" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Divs" TWIN_ABSENT) int Divs(...) TWIN_BODY("Divs" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AbsSub" TWIN_ABSENT) int AbsSub(...) TWIN_BODY("AbsSub" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AbsSub" TWIN_ABSENT) int AbsSub(...) TWIN_BODY("AbsSub" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ExpSub" TWIN_ABSENT) int ExpSub(...) TWIN_BODY("ExpSub" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ExpSub" TWIN_ABSENT) int ExpSub(...) TWIN_BODY("ExpSub" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("MulsCast" TWIN_ABSENT) int MulsCast(...) TWIN_BODY("MulsCast" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("MulsCast" TWIN_ABSENT) int MulsCast(...) TWIN_BODY("MulsCast" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Ands" TWIN_ABSENT) int Ands(...) TWIN_BODY("Ands" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Ands" TWIN_ABSENT) int Ands(...) TWIN_BODY("Ands" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Ors" TWIN_ABSENT) int Ors(...) TWIN_BODY("Ors" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Ors" TWIN_ABSENT) int Ors(...) TWIN_BODY("Ors" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Truncate" TWIN_ABSENT) int Truncate(...) TWIN_BODY("Truncate" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Truncate" TWIN_ABSENT) int Truncate(...) TWIN_BODY("Truncate" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("VectorPadding" TWIN_ABSENT) int VectorPadding(...) TWIN_BODY("VectorPadding" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("VectorPadding" TWIN_ABSENT) int VectorPadding(...) TWIN_BODY("VectorPadding" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ConfusionTranspose" TWIN_ABSENT) int ConfusionTranspose(...) TWIN_BODY("ConfusionTranspose" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ConfusionTranspose" TWIN_ABSENT) int ConfusionTranspose(...) TWIN_BODY("ConfusionTranspose" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Interleave" TWIN_ABSENT) int Interleave(...) TWIN_BODY("Interleave" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Interleave" TWIN_ABSENT) int Interleave(...) TWIN_BODY("Interleave" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("DeInterleave" TWIN_ABSENT) int DeInterleave(...) TWIN_BODY("DeInterleave" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("DeInterleave" TWIN_ABSENT) int DeInterleave(...) TWIN_BODY("DeInterleave" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AtomicAdd" TWIN_ABSENT) int AtomicAdd(...) TWIN_BODY("AtomicAdd" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AtomicAdd" TWIN_ABSENT) int AtomicAdd(...) TWIN_BODY("AtomicAdd" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AtomicMin" TWIN_ABSENT) int AtomicMin(...) TWIN_BODY("AtomicMin" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AtomicMin" TWIN_ABSENT) int AtomicMin(...) TWIN_BODY("AtomicMin" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AtomicMax" TWIN_ABSENT) int AtomicMax(...) TWIN_BODY("AtomicMax" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AtomicMax" TWIN_ABSENT) int AtomicMax(...) TWIN_BODY("AtomicMax" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AtomicCas" TWIN_ABSENT) int AtomicCas(...) TWIN_BODY("AtomicCas" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AtomicCas" TWIN_ABSENT) int AtomicCas(...) TWIN_BODY("AtomicCas" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AtomicExch" TWIN_ABSENT) int AtomicExch(...) TWIN_BODY("AtomicExch" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AtomicExch" TWIN_ABSENT) int AtomicExch(...) TWIN_BODY("AtomicExch" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("SetNextTaskStart" TWIN_ABSENT) int SetNextTaskStart(...) TWIN_BODY("SetNextTaskStart" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetNextTaskStart" TWIN_ABSENT) int SetNextTaskStart(...) TWIN_BODY("SetNextTaskStart" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("WaitPreTaskEnd" TWIN_ABSENT) int WaitPreTaskEnd(...) TWIN_BODY("WaitPreTaskEnd" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("WaitPreTaskEnd" TWIN_ABSENT) int WaitPreTaskEnd(...) TWIN_BODY("WaitPreTaskEnd" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AllocMutexID" TWIN_ABSENT) int AllocMutexID(...) TWIN_BODY("AllocMutexID" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AllocMutexID" TWIN_ABSENT) int AllocMutexID(...) TWIN_BODY("AllocMutexID" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ReleaseMutexID" TWIN_ABSENT) int ReleaseMutexID(...) TWIN_BODY("ReleaseMutexID" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ReleaseMutexID" TWIN_ABSENT) int ReleaseMutexID(...) TWIN_BODY("ReleaseMutexID" TWIN_ABSENT, refused_values<V>)
class TWIN_NO("Mutex" TWIN_ABSENT) Mutex {};
template <typename... X> TWIN_NO("GetSpr" TWIN_ABSENT) int GetSpr(...) TWIN_BODY("GetSpr" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("GetSpr" TWIN_ABSENT) int GetSpr(...) TWIN_BODY("GetSpr" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ClearSpr" TWIN_ABSENT) int ClearSpr(...) TWIN_BODY("ClearSpr" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ClearSpr" TWIN_ABSENT) int ClearSpr(...) TWIN_BODY("ClearSpr" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("GetSsbufBaseAddr" TWIN_ABSENT) int GetSsbufBaseAddr(...) TWIN_BODY("GetSsbufBaseAddr" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("GetSsbufBaseAddr" TWIN_ABSENT) int GetSsbufBaseAddr(...) TWIN_BODY("GetSsbufBaseAddr" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("CheckLocalMemoryIA" TWIN_ABSENT) int CheckLocalMemoryIA(...) TWIN_BODY("CheckLocalMemoryIA" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("CheckLocalMemoryIA" TWIN_ABSENT) int CheckLocalMemoryIA(...) TWIN_BODY("CheckLocalMemoryIA" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("GmAlloc" TWIN_CPU) int GmAlloc(...) TWIN_BODY("GmAlloc" TWIN_CPU, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("GmAlloc" TWIN_CPU) int GmAlloc(...) TWIN_BODY("GmAlloc" TWIN_CPU, refused_values<V>)
template <typename... X> TWIN_NO("GmFree" TWIN_CPU) int GmFree(...) TWIN_BODY("GmFree" TWIN_CPU, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("GmFree" TWIN_CPU) int GmFree(...) TWIN_BODY("GmFree" TWIN_CPU, refused_values<V>)
template <typename... X> TWIN_NO("SetKernelMode" TWIN_CPU) int SetKernelMode(...) TWIN_BODY("SetKernelMode" TWIN_CPU, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetKernelMode" TWIN_CPU) int SetKernelMode(...) TWIN_BODY("SetKernelMode" TWIN_CPU, refused_values<V>)
template <typename... X> TWIN_NO("Lgamma" TWIN_ABSENT) int Lgamma(...) TWIN_BODY("Lgamma" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Lgamma" TWIN_ABSENT) int Lgamma(...) TWIN_BODY("Lgamma" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Digamma" TWIN_ABSENT) int Digamma(...) TWIN_BODY("Digamma" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Digamma" TWIN_ABSENT) int Digamma(...) TWIN_BODY("Digamma" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("SoftmaxFlash" TWIN_ABSENT) int SoftmaxFlash(...) TWIN_BODY("SoftmaxFlash" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SoftmaxFlash" TWIN_ABSENT) int SoftmaxFlash(...) TWIN_BODY("SoftmaxFlash" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("SoftmaxFlashV2" TWIN_ABSENT) int SoftmaxFlashV2(...) TWIN_BODY("SoftmaxFlashV2" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SoftmaxFlashV2" TWIN_ABSENT) int SoftmaxFlashV2(...) TWIN_BODY("SoftmaxFlashV2" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("SoftmaxGrad" TWIN_ABSENT) int SoftmaxGrad(...) TWIN_BODY("SoftmaxGrad" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SoftmaxGrad" TWIN_ABSENT) int SoftmaxGrad(...) TWIN_BODY("SoftmaxGrad" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("SoftmaxGradFront" TWIN_ABSENT) int SoftmaxGradFront(...) TWIN_BODY("SoftmaxGradFront" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SoftmaxGradFront" TWIN_ABSENT) int SoftmaxGradFront(...) TWIN_BODY("SoftmaxGradFront" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("BatchNorm" TWIN_ABSENT) int BatchNorm(...) TWIN_BODY("BatchNorm" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("BatchNorm" TWIN_ABSENT) int BatchNorm(...) TWIN_BODY("BatchNorm" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("DeepNorm" TWIN_ABSENT) int DeepNorm(...) TWIN_BODY("DeepNorm" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("DeepNorm" TWIN_ABSENT) int DeepNorm(...) TWIN_BODY("DeepNorm" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("GroupNorm" TWIN_ABSENT) int GroupNorm(...) TWIN_BODY("GroupNorm" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("GroupNorm" TWIN_ABSENT) int GroupNorm(...) TWIN_BODY("GroupNorm" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("LayerNormGrad" TWIN_ABSENT) int LayerNormGrad(...) TWIN_BODY("LayerNormGrad" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LayerNormGrad" TWIN_ABSENT) int LayerNormGrad(...) TWIN_BODY("LayerNormGrad" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("LayerNormGradBeta" TWIN_ABSENT) int LayerNormGradBeta(...) TWIN_BODY("LayerNormGradBeta" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LayerNormGradBeta" TWIN_ABSENT) int LayerNormGradBeta(...) TWIN_BODY("LayerNormGradBeta" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Normalize" TWIN_ABSENT) int Normalize(...) TWIN_BODY("Normalize" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Normalize" TWIN_ABSENT) int Normalize(...) TWIN_BODY("Normalize" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("WelfordUpdate" TWIN_ABSENT) int WelfordUpdate(...) TWIN_BODY("WelfordUpdate" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("WelfordUpdate" TWIN_ABSENT) int WelfordUpdate(...) TWIN_BODY("WelfordUpdate" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("WelfordFinalize" TWIN_ABSENT) int WelfordFinalize(...) TWIN_BODY("WelfordFinalize" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("WelfordFinalize" TWIN_ABSENT) int WelfordFinalize(...) TWIN_BODY("WelfordFinalize" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ReduceAll" TWIN_ABSENT) int ReduceAll(...) TWIN_BODY("ReduceAll" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ReduceAll" TWIN_ABSENT) int ReduceAll(...) TWIN_BODY("ReduceAll" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ReduceAny" TWIN_ABSENT) int ReduceAny(...) TWIN_BODY("ReduceAny" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ReduceAny" TWIN_ABSENT) int ReduceAny(...) TWIN_BODY("ReduceAny" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ReduceMean" TWIN_ABSENT) int ReduceMean(...) TWIN_BODY("ReduceMean" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ReduceMean" TWIN_ABSENT) int ReduceMean(...) TWIN_BODY("ReduceMean" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ReduceProd" TWIN_ABSENT) int ReduceProd(...) TWIN_BODY("ReduceProd" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ReduceProd" TWIN_ABSENT) int ReduceProd(...) TWIN_BODY("ReduceProd" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("ReduceXorSum" TWIN_ABSENT) int ReduceXorSum(...) TWIN_BODY("ReduceXorSum" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("ReduceXorSum" TWIN_ABSENT) int ReduceXorSum(...) TWIN_BODY("ReduceXorSum" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AscendQuant" TWIN_ABSENT) int AscendQuant(...) TWIN_BODY("AscendQuant" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AscendQuant" TWIN_ABSENT) int AscendQuant(...) TWIN_BODY("AscendQuant" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AscendDequant" TWIN_ABSENT) int AscendDequant(...) TWIN_BODY("AscendDequant" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AscendDequant" TWIN_ABSENT) int AscendDequant(...) TWIN_BODY("AscendDequant" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("AscendAntiQuant" TWIN_ABSENT) int AscendAntiQuant(...) TWIN_BODY("AscendAntiQuant" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("AscendAntiQuant" TWIN_ABSENT) int AscendAntiQuant(...) TWIN_BODY("AscendAntiQuant" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("DropOut" TWIN_ABSENT) int DropOut(...) TWIN_BODY("DropOut" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("DropOut" TWIN_ABSENT) int DropOut(...) TWIN_BODY("DropOut" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Fill" TWIN_ABSENT) int Fill(...) TWIN_BODY("Fill" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Fill" TWIN_ABSENT) int Fill(...) TWIN_BODY("Fill" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Where" TWIN_ABSENT) int Where(...) TWIN_BODY("Where" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Where" TWIN_ABSENT) int Where(...) TWIN_BODY("Where" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("aclrtSubscribeReport" TWIN_ABSENT) int aclrtSubscribeReport(...) TWIN_BODY("aclrtSubscribeReport" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("aclrtSubscribeReport" TWIN_ABSENT) int aclrtSubscribeReport(...) TWIN_BODY("aclrtSubscribeReport" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("aclrtLaunchCallback" TWIN_ABSENT) int aclrtLaunchCallback(...) TWIN_BODY("aclrtLaunchCallback" TWIN_ABSENT, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("aclrtLaunchCallback" TWIN_ABSENT) int aclrtLaunchCallback(...) TWIN_BODY("aclrtLaunchCallback" TWIN_ABSENT, refused_values<V>)
template <typename... X> TWIN_NO("Mmad" TWIN_CUBE) int Mmad(...) TWIN_BODY("Mmad" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Mmad" TWIN_CUBE) int Mmad(...) TWIN_BODY("Mmad" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("Mmad" TWIN_CUBE) int Mmad(...) TWIN_BODY("Mmad" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("Mmad" TWIN_CUBE) int Mmad(...) TWIN_BODY("Mmad" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("MmadWithSparse" TWIN_CUBE) int MmadWithSparse(...) TWIN_BODY("MmadWithSparse" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("MmadWithSparse" TWIN_CUBE) int MmadWithSparse(...) TWIN_BODY("MmadWithSparse" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("MmadWithSparse" TWIN_CUBE) int MmadWithSparse(...) TWIN_BODY("MmadWithSparse" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("MmadWithSparse" TWIN_CUBE) int MmadWithSparse(...) TWIN_BODY("MmadWithSparse" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("MmadMx" TWIN_CUBE) int MmadMx(...) TWIN_BODY("MmadMx" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("MmadMx" TWIN_CUBE) int MmadMx(...) TWIN_BODY("MmadMx" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("MmadMx" TWIN_CUBE) int MmadMx(...) TWIN_BODY("MmadMx" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("MmadMx" TWIN_CUBE) int MmadMx(...) TWIN_BODY("MmadMx" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("MmadBitMode" TWIN_CUBE) int MmadBitMode(...) TWIN_BODY("MmadBitMode" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("MmadBitMode" TWIN_CUBE) int MmadBitMode(...) TWIN_BODY("MmadBitMode" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("MmadBitMode" TWIN_CUBE) int MmadBitMode(...) TWIN_BODY("MmadBitMode" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("MmadBitMode" TWIN_CUBE) int MmadBitMode(...) TWIN_BODY("MmadBitMode" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("LoadData" TWIN_CUBE) int LoadData(...) TWIN_BODY("LoadData" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LoadData" TWIN_CUBE) int LoadData(...) TWIN_BODY("LoadData" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("LoadData" TWIN_CUBE) int LoadData(...) TWIN_BODY("LoadData" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("LoadData" TWIN_CUBE) int LoadData(...) TWIN_BODY("LoadData" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("LoadDataWithTranspose" TWIN_CUBE) int LoadDataWithTranspose(...) TWIN_BODY("LoadDataWithTranspose" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LoadDataWithTranspose" TWIN_CUBE) int LoadDataWithTranspose(...) TWIN_BODY("LoadDataWithTranspose" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("LoadDataWithTranspose" TWIN_CUBE) int LoadDataWithTranspose(...) TWIN_BODY("LoadDataWithTranspose" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("LoadDataWithTranspose" TWIN_CUBE) int LoadDataWithTranspose(...) TWIN_BODY("LoadDataWithTranspose" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("LoadDataWithSparse" TWIN_CUBE) int LoadDataWithSparse(...) TWIN_BODY("LoadDataWithSparse" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LoadDataWithSparse" TWIN_CUBE) int LoadDataWithSparse(...) TWIN_BODY("LoadDataWithSparse" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("LoadDataWithSparse" TWIN_CUBE) int LoadDataWithSparse(...) TWIN_BODY("LoadDataWithSparse" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("LoadDataWithSparse" TWIN_CUBE) int LoadDataWithSparse(...) TWIN_BODY("LoadDataWithSparse" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("LoadDataUnzip" TWIN_CUBE) int LoadDataUnzip(...) TWIN_BODY("LoadDataUnzip" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LoadDataUnzip" TWIN_CUBE) int LoadDataUnzip(...) TWIN_BODY("LoadDataUnzip" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("LoadDataUnzip" TWIN_CUBE) int LoadDataUnzip(...) TWIN_BODY("LoadDataUnzip" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("LoadDataUnzip" TWIN_CUBE) int LoadDataUnzip(...) TWIN_BODY("LoadDataUnzip" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("LoadImageToLocal" TWIN_CUBE) int LoadImageToLocal(...) TWIN_BODY("LoadImageToLocal" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LoadImageToLocal" TWIN_CUBE) int LoadImageToLocal(...) TWIN_BODY("LoadImageToLocal" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("LoadImageToLocal" TWIN_CUBE) int LoadImageToLocal(...) TWIN_BODY("LoadImageToLocal" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("LoadImageToLocal" TWIN_CUBE) int LoadImageToLocal(...) TWIN_BODY("LoadImageToLocal" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("LoadUnzipIndex" TWIN_CUBE) int LoadUnzipIndex(...) TWIN_BODY("LoadUnzipIndex" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LoadUnzipIndex" TWIN_CUBE) int LoadUnzipIndex(...) TWIN_BODY("LoadUnzipIndex" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("LoadUnzipIndex" TWIN_CUBE) int LoadUnzipIndex(...) TWIN_BODY("LoadUnzipIndex" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("LoadUnzipIndex" TWIN_CUBE) int LoadUnzipIndex(...) TWIN_BODY("LoadUnzipIndex" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetAippFunctions" TWIN_CUBE) int SetAippFunctions(...) TWIN_BODY("SetAippFunctions" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetAippFunctions" TWIN_CUBE) int SetAippFunctions(...) TWIN_BODY("SetAippFunctions" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetAippFunctions" TWIN_CUBE) int SetAippFunctions(...) TWIN_BODY("SetAippFunctions" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetAippFunctions" TWIN_CUBE) int SetAippFunctions(...) TWIN_BODY("SetAippFunctions" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("BroadCastVecToMM" TWIN_CUBE) int BroadCastVecToMM(...) TWIN_BODY("BroadCastVecToMM" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("BroadCastVecToMM" TWIN_CUBE) int BroadCastVecToMM(...) TWIN_BODY("BroadCastVecToMM" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("BroadCastVecToMM" TWIN_CUBE) int BroadCastVecToMM(...) TWIN_BODY("BroadCastVecToMM" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("BroadCastVecToMM" TWIN_CUBE) int BroadCastVecToMM(...) TWIN_BODY("BroadCastVecToMM" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("InitConstValue" TWIN_CUBE) int InitConstValue(...) TWIN_BODY("InitConstValue" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("InitConstValue" TWIN_CUBE) int InitConstValue(...) TWIN_BODY("InitConstValue" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("InitConstValue" TWIN_CUBE) int InitConstValue(...) TWIN_BODY("InitConstValue" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("InitConstValue" TWIN_CUBE) int InitConstValue(...) TWIN_BODY("InitConstValue" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("Fixpipe" TWIN_CUBE) int Fixpipe(...) TWIN_BODY("Fixpipe" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Fixpipe" TWIN_CUBE) int Fixpipe(...) TWIN_BODY("Fixpipe" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("Fixpipe" TWIN_CUBE) int Fixpipe(...) TWIN_BODY("Fixpipe" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("Fixpipe" TWIN_CUBE) int Fixpipe(...) TWIN_BODY("Fixpipe" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetFixPipeConfig" TWIN_CUBE) int SetFixPipeConfig(...) TWIN_BODY("SetFixPipeConfig" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetFixPipeConfig" TWIN_CUBE) int SetFixPipeConfig(...) TWIN_BODY("SetFixPipeConfig" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetFixPipeConfig" TWIN_CUBE) int SetFixPipeConfig(...) TWIN_BODY("SetFixPipeConfig" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetFixPipeConfig" TWIN_CUBE) int SetFixPipeConfig(...) TWIN_BODY("SetFixPipeConfig" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetFixpipeNz2ndFlag" TWIN_CUBE) int SetFixpipeNz2ndFlag(...) TWIN_BODY("SetFixpipeNz2ndFlag" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetFixpipeNz2ndFlag" TWIN_CUBE) int SetFixpipeNz2ndFlag(...) TWIN_BODY("SetFixpipeNz2ndFlag" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetFixpipeNz2ndFlag" TWIN_CUBE) int SetFixpipeNz2ndFlag(...) TWIN_BODY("SetFixpipeNz2ndFlag" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetFixpipeNz2ndFlag" TWIN_CUBE) int SetFixpipeNz2ndFlag(...) TWIN_BODY("SetFixpipeNz2ndFlag" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetFixpipePreQuantFlag" TWIN_CUBE) int SetFixpipePreQuantFlag(...) TWIN_BODY("SetFixpipePreQuantFlag" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetFixpipePreQuantFlag" TWIN_CUBE) int SetFixpipePreQuantFlag(...) TWIN_BODY("SetFixpipePreQuantFlag" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetFixpipePreQuantFlag" TWIN_CUBE) int SetFixpipePreQuantFlag(...) TWIN_BODY("SetFixpipePreQuantFlag" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetFixpipePreQuantFlag" TWIN_CUBE) int SetFixpipePreQuantFlag(...) TWIN_BODY("SetFixpipePreQuantFlag" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetFixPipeClipRelu" TWIN_CUBE) int SetFixPipeClipRelu(...) TWIN_BODY("SetFixPipeClipRelu" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetFixPipeClipRelu" TWIN_CUBE) int SetFixPipeClipRelu(...) TWIN_BODY("SetFixPipeClipRelu" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetFixPipeClipRelu" TWIN_CUBE) int SetFixPipeClipRelu(...) TWIN_BODY("SetFixPipeClipRelu" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetFixPipeClipRelu" TWIN_CUBE) int SetFixPipeClipRelu(...) TWIN_BODY("SetFixPipeClipRelu" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetFixPipeAddr" TWIN_CUBE) int SetFixPipeAddr(...) TWIN_BODY("SetFixPipeAddr" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetFixPipeAddr" TWIN_CUBE) int SetFixPipeAddr(...) TWIN_BODY("SetFixPipeAddr" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetFixPipeAddr" TWIN_CUBE) int SetFixPipeAddr(...) TWIN_BODY("SetFixPipeAddr" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetFixPipeAddr" TWIN_CUBE) int SetFixPipeAddr(...) TWIN_BODY("SetFixPipeAddr" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetFmatrix" TWIN_CUBE) int SetFmatrix(...) TWIN_BODY("SetFmatrix" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetFmatrix" TWIN_CUBE) int SetFmatrix(...) TWIN_BODY("SetFmatrix" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetFmatrix" TWIN_CUBE) int SetFmatrix(...) TWIN_BODY("SetFmatrix" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetFmatrix" TWIN_CUBE) int SetFmatrix(...) TWIN_BODY("SetFmatrix" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetFmatrixBitMode" TWIN_CUBE) int SetFmatrixBitMode(...) TWIN_BODY("SetFmatrixBitMode" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetFmatrixBitMode" TWIN_CUBE) int SetFmatrixBitMode(...) TWIN_BODY("SetFmatrixBitMode" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetFmatrixBitMode" TWIN_CUBE) int SetFmatrixBitMode(...) TWIN_BODY("SetFmatrixBitMode" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetFmatrixBitMode" TWIN_CUBE) int SetFmatrixBitMode(...) TWIN_BODY("SetFmatrixBitMode" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetLoadDataBoundary" TWIN_CUBE) int SetLoadDataBoundary(...) TWIN_BODY("SetLoadDataBoundary" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetLoadDataBoundary" TWIN_CUBE) int SetLoadDataBoundary(...) TWIN_BODY("SetLoadDataBoundary" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetLoadDataBoundary" TWIN_CUBE) int SetLoadDataBoundary(...) TWIN_BODY("SetLoadDataBoundary" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetLoadDataBoundary" TWIN_CUBE) int SetLoadDataBoundary(...) TWIN_BODY("SetLoadDataBoundary" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetLoadDataRepeat" TWIN_CUBE) int SetLoadDataRepeat(...) TWIN_BODY("SetLoadDataRepeat" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetLoadDataRepeat" TWIN_CUBE) int SetLoadDataRepeat(...) TWIN_BODY("SetLoadDataRepeat" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetLoadDataRepeat" TWIN_CUBE) int SetLoadDataRepeat(...) TWIN_BODY("SetLoadDataRepeat" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetLoadDataRepeat" TWIN_CUBE) int SetLoadDataRepeat(...) TWIN_BODY("SetLoadDataRepeat" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetLoadDataPaddingValue" TWIN_CUBE) int SetLoadDataPaddingValue(...) TWIN_BODY("SetLoadDataPaddingValue" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetLoadDataPaddingValue" TWIN_CUBE) int SetLoadDataPaddingValue(...) TWIN_BODY("SetLoadDataPaddingValue" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetLoadDataPaddingValue" TWIN_CUBE) int SetLoadDataPaddingValue(...) TWIN_BODY("SetLoadDataPaddingValue" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetLoadDataPaddingValue" TWIN_CUBE) int SetLoadDataPaddingValue(...) TWIN_BODY("SetLoadDataPaddingValue" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetMMColumnMajor" TWIN_CUBE) int SetMMColumnMajor(...) TWIN_BODY("SetMMColumnMajor" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetMMColumnMajor" TWIN_CUBE) int SetMMColumnMajor(...) TWIN_BODY("SetMMColumnMajor" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetMMColumnMajor" TWIN_CUBE) int SetMMColumnMajor(...) TWIN_BODY("SetMMColumnMajor" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetMMColumnMajor" TWIN_CUBE) int SetMMColumnMajor(...) TWIN_BODY("SetMMColumnMajor" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetMMRowMajor" TWIN_CUBE) int SetMMRowMajor(...) TWIN_BODY("SetMMRowMajor" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetMMRowMajor" TWIN_CUBE) int SetMMRowMajor(...) TWIN_BODY("SetMMRowMajor" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetMMRowMajor" TWIN_CUBE) int SetMMRowMajor(...) TWIN_BODY("SetMMRowMajor" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetMMRowMajor" TWIN_CUBE) int SetMMRowMajor(...) TWIN_BODY("SetMMRowMajor" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetMMLayoutTransform" TWIN_CUBE) int SetMMLayoutTransform(...) TWIN_BODY("SetMMLayoutTransform" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetMMLayoutTransform" TWIN_CUBE) int SetMMLayoutTransform(...) TWIN_BODY("SetMMLayoutTransform" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetMMLayoutTransform" TWIN_CUBE) int SetMMLayoutTransform(...) TWIN_BODY("SetMMLayoutTransform" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetMMLayoutTransform" TWIN_CUBE) int SetMMLayoutTransform(...) TWIN_BODY("SetMMLayoutTransform" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetHF32Mode" TWIN_CUBE) int SetHF32Mode(...) TWIN_BODY("SetHF32Mode" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetHF32Mode" TWIN_CUBE) int SetHF32Mode(...) TWIN_BODY("SetHF32Mode" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetHF32Mode" TWIN_CUBE) int SetHF32Mode(...) TWIN_BODY("SetHF32Mode" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetHF32Mode" TWIN_CUBE) int SetHF32Mode(...) TWIN_BODY("SetHF32Mode" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("SetHF32TransMode" TWIN_CUBE) int SetHF32TransMode(...) TWIN_BODY("SetHF32TransMode" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("SetHF32TransMode" TWIN_CUBE) int SetHF32TransMode(...) TWIN_BODY("SetHF32TransMode" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("SetHF32TransMode" TWIN_CUBE) int SetHF32TransMode(...) TWIN_BODY("SetHF32TransMode" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("SetHF32TransMode" TWIN_CUBE) int SetHF32TransMode(...) TWIN_BODY("SetHF32TransMode" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("Conv2D" TWIN_CUBE) int Conv2D(...) TWIN_BODY("Conv2D" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Conv2D" TWIN_CUBE) int Conv2D(...) TWIN_BODY("Conv2D" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("Conv2D" TWIN_CUBE) int Conv2D(...) TWIN_BODY("Conv2D" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("Conv2D" TWIN_CUBE) int Conv2D(...) TWIN_BODY("Conv2D" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("Gemm" TWIN_CUBE) int Gemm(...) TWIN_BODY("Gemm" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Gemm" TWIN_CUBE) int Gemm(...) TWIN_BODY("Gemm" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("Gemm" TWIN_CUBE) int Gemm(...) TWIN_BODY("Gemm" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("Gemm" TWIN_CUBE) int Gemm(...) TWIN_BODY("Gemm" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("DataCopyL1ToUB" TWIN_CUBE) int DataCopyL1ToUB(...) TWIN_BODY("DataCopyL1ToUB" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("DataCopyL1ToUB" TWIN_CUBE) int DataCopyL1ToUB(...) TWIN_BODY("DataCopyL1ToUB" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("DataCopyL1ToUB" TWIN_CUBE) int DataCopyL1ToUB(...) TWIN_BODY("DataCopyL1ToUB" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("DataCopyL1ToUB" TWIN_CUBE) int DataCopyL1ToUB(...) TWIN_BODY("DataCopyL1ToUB" TWIN_CUBE, refused_values<V>)
template <typename... X> TWIN_NO("CreateCubeResGroup" TWIN_CUBE) int CreateCubeResGroup(...) TWIN_BODY("CreateCubeResGroup" TWIN_CUBE, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("CreateCubeResGroup" TWIN_CUBE) int CreateCubeResGroup(...) TWIN_BODY("CreateCubeResGroup" TWIN_CUBE, refused_values<V>)
template <auto V, auto... X> TWIN_NO("CreateCubeResGroup" TWIN_CUBE) int CreateCubeResGroup(...) TWIN_BODY("CreateCubeResGroup" TWIN_CUBE, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("CreateCubeResGroup" TWIN_CUBE) int CreateCubeResGroup(...) TWIN_BODY("CreateCubeResGroup" TWIN_CUBE, refused_values<V>)
template <typename A, typename, typename = void, typename = void, auto...> class TWIN_NO("Matmul" TWIN_CUBE) Matmul TWIN_CLASS("Matmul" TWIN_CUBE, refused_types<A>);
template <typename A, typename, typename = void, typename = void, auto...> class TWIN_NO("MatmulImpl" TWIN_CUBE) MatmulImpl TWIN_CLASS("MatmulImpl" TWIN_CUBE, refused_types<A>);
template <typename A, typename, typename = void, typename = void, auto...> class TWIN_NO("BatchMatmul" TWIN_CUBE) BatchMatmul TWIN_CLASS("BatchMatmul" TWIN_CUBE, refused_types<A>);
template <auto A, auto, typename, auto...> class TWIN_NO("MatmulType" TWIN_CUBE) MatmulType TWIN_CLASS("MatmulType" TWIN_CUBE, refused_values<A>);
template <typename... A> class TWIN_NO("CubeResGroupHandle" TWIN_CUBE) CubeResGroupHandle TWIN_CLASS("CubeResGroupHandle" TWIN_CUBE, refused_types<A...>);
class TWIN_NO("MmadParams" TWIN_CUBE) MmadParams {};
class TWIN_NO("LoadData2DParams" TWIN_CUBE) LoadData2DParams {};
class TWIN_NO("LoadData2DParamsV2" TWIN_CUBE) LoadData2DParamsV2 {};
class TWIN_NO("LoadData2dTransposeParams" TWIN_CUBE) LoadData2dTransposeParams {};
template <typename... A> class TWIN_NO("LoadData3DParamsV1" TWIN_CUBE) LoadData3DParamsV1 TWIN_CLASS("LoadData3DParamsV1" TWIN_CUBE, refused_types<A...>);
template <typename... A> class TWIN_NO("LoadData3DParamsV2" TWIN_CUBE) LoadData3DParamsV2 TWIN_CLASS("LoadData3DParamsV2" TWIN_CUBE, refused_types<A...>);
class TWIN_NO("LoadData3DParamsV2Pro" TWIN_CUBE) LoadData3DParamsV2Pro {};
template <typename... A> class TWIN_NO("FixpipeParams" TWIN_CUBE) FixpipeParams TWIN_CLASS("FixpipeParams" TWIN_CUBE, refused_types<A...>);
class TWIN_NO("FixpipeParamsV220" TWIN_CUBE) FixpipeParamsV220 {};
class TWIN_NO("FixpipeParamsM300" TWIN_CUBE) FixpipeParamsM300 {};
template <auto... A> class TWIN_NO("FixpipeParamsC310" TWIN_CUBE) FixpipeParamsC310 TWIN_CLASS("FixpipeParamsC310" TWIN_CUBE, refused_values<A...>);
template <typename... A> class TWIN_NO("InitConstValueParams" TWIN_CUBE) InitConstValueParams TWIN_CLASS("InitConstValueParams" TWIN_CUBE, refused_types<A...>);
class TWIN_NO("LoadImageToLocalParams" TWIN_CUBE) LoadImageToLocalParams {};
class TWIN_NO("Conv2dParams" TWIN_CUBE) Conv2dParams {};
class TWIN_NO("Conv2dTilling" TWIN_CUBE) Conv2dTilling {};
class TWIN_NO("GemmTiling" TWIN_CUBE) GemmTiling {};
template <auto... A> class TWIN_NO("GroupBarrier" TWIN_CUBE) GroupBarrier TWIN_CLASS("GroupBarrier" TWIN_CUBE, refused_values<A...>);
class TWIN_NO("KfcWorkspace" TWIN_CUBE) KfcWorkspace {};
template <typename... X> TWIN_NO("asc_vf_call" TWIN_REG) int asc_vf_call(...) TWIN_BODY("asc_vf_call" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("asc_vf_call" TWIN_REG) int asc_vf_call(...) TWIN_BODY("asc_vf_call" TWIN_REG, refused_values<V>)
template <auto V, auto... X> TWIN_NO("asc_vf_call" TWIN_REG) int asc_vf_call(...) TWIN_BODY("asc_vf_call" TWIN_REG, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("asc_vf_call" TWIN_REG) int asc_vf_call(...) TWIN_BODY("asc_vf_call" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("VF_CALL" TWIN_REG) int VF_CALL(...) TWIN_BODY("VF_CALL" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("VF_CALL" TWIN_REG) int VF_CALL(...) TWIN_BODY("VF_CALL" TWIN_REG, refused_values<V>)
template <auto V, auto... X> TWIN_NO("VF_CALL" TWIN_REG) int VF_CALL(...) TWIN_BODY("VF_CALL" TWIN_REG, refused_values<V>)
template <typename A, typename B, auto V, auto... X> TWIN_NO("VF_CALL" TWIN_REG) int VF_CALL(...) TWIN_BODY("VF_CALL" TWIN_REG, refused_values<V>)
template <auto... A> class TWIN_NO("Hccl" TWIN_HCCL) Hccl TWIN_CLASS("Hccl" TWIN_HCCL, refused_values<A...>);
template <typename... X> TWIN_NO("GetHcclContext" TWIN_HCCL) int GetHcclContext(...) TWIN_BODY("GetHcclContext" TWIN_HCCL, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("GetHcclContext" TWIN_HCCL) int GetHcclContext(...) TWIN_BODY("GetHcclContext" TWIN_HCCL, refused_values<V>)
}  // namespace AscendC

namespace matmul {
template <typename A, typename, typename = void, typename = void, auto...> class TWIN_NO("Matmul" TWIN_CUBE) Matmul TWIN_CLASS("Matmul" TWIN_CUBE, refused_types<A>);
template <typename A, typename, typename = void, typename = void, auto...> class TWIN_NO("MatmulImpl" TWIN_CUBE) MatmulImpl TWIN_CLASS("MatmulImpl" TWIN_CUBE, refused_types<A>);
template <auto A, auto, typename, auto...> class TWIN_NO("MatmulType" TWIN_CUBE) MatmulType TWIN_CLASS("MatmulType" TWIN_CUBE, refused_values<A>);
}  // namespace matmul

namespace AscendC::Reg {
template <typename A, auto...> class TWIN_NO("RegTensor" TWIN_REG) RegTensor TWIN_CLASS("RegTensor" TWIN_REG, refused_types<A>);
class TWIN_NO("MaskReg" TWIN_REG) MaskReg {};
class TWIN_NO("UnalignReg" TWIN_REG) UnalignReg {};
class TWIN_NO("UnalignRegForLoad" TWIN_REG) UnalignRegForLoad {};
class TWIN_NO("UnalignRegForStore" TWIN_REG) UnalignRegForStore {};
class TWIN_NO("AddrReg" TWIN_REG) AddrReg {};
template <typename... X> TWIN_NO("LoadAlign" TWIN_REG) int LoadAlign(...) TWIN_BODY("LoadAlign" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LoadAlign" TWIN_REG) int LoadAlign(...) TWIN_BODY("LoadAlign" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("LoadUnAlign" TWIN_REG) int LoadUnAlign(...) TWIN_BODY("LoadUnAlign" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LoadUnAlign" TWIN_REG) int LoadUnAlign(...) TWIN_BODY("LoadUnAlign" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("LoadUnAlignPre" TWIN_REG) int LoadUnAlignPre(...) TWIN_BODY("LoadUnAlignPre" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LoadUnAlignPre" TWIN_REG) int LoadUnAlignPre(...) TWIN_BODY("LoadUnAlignPre" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("StoreAlign" TWIN_REG) int StoreAlign(...) TWIN_BODY("StoreAlign" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("StoreAlign" TWIN_REG) int StoreAlign(...) TWIN_BODY("StoreAlign" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("StoreUnAlign" TWIN_REG) int StoreUnAlign(...) TWIN_BODY("StoreUnAlign" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("StoreUnAlign" TWIN_REG) int StoreUnAlign(...) TWIN_BODY("StoreUnAlign" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("StoreUnAlignPost" TWIN_REG) int StoreUnAlignPost(...) TWIN_BODY("StoreUnAlignPost" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("StoreUnAlignPost" TWIN_REG) int StoreUnAlignPost(...) TWIN_BODY("StoreUnAlignPost" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("LocalMemBar" TWIN_REG) int LocalMemBar(...) TWIN_BODY("LocalMemBar" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("LocalMemBar" TWIN_REG) int LocalMemBar(...) TWIN_BODY("LocalMemBar" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("CreateMask" TWIN_REG) int CreateMask(...) TWIN_BODY("CreateMask" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("CreateMask" TWIN_REG) int CreateMask(...) TWIN_BODY("CreateMask" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("UpdateMask" TWIN_REG) int UpdateMask(...) TWIN_BODY("UpdateMask" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("UpdateMask" TWIN_REG) int UpdateMask(...) TWIN_BODY("UpdateMask" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("MaskPack" TWIN_REG) int MaskPack(...) TWIN_BODY("MaskPack" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("MaskPack" TWIN_REG) int MaskPack(...) TWIN_BODY("MaskPack" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("MaskUnPack" TWIN_REG) int MaskUnPack(...) TWIN_BODY("MaskUnPack" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("MaskUnPack" TWIN_REG) int MaskUnPack(...) TWIN_BODY("MaskUnPack" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("MoveMask" TWIN_REG) int MoveMask(...) TWIN_BODY("MoveMask" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("MoveMask" TWIN_REG) int MoveMask(...) TWIN_BODY("MoveMask" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("Squeeze" TWIN_REG) int Squeeze(...) TWIN_BODY("Squeeze" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Squeeze" TWIN_REG) int Squeeze(...) TWIN_BODY("Squeeze" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("Unsqueeze" TWIN_REG) int Unsqueeze(...) TWIN_BODY("Unsqueeze" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Unsqueeze" TWIN_REG) int Unsqueeze(...) TWIN_BODY("Unsqueeze" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("Pack" TWIN_REG) int Pack(...) TWIN_BODY("Pack" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Pack" TWIN_REG) int Pack(...) TWIN_BODY("Pack" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("UnPack" TWIN_REG) int UnPack(...) TWIN_BODY("UnPack" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("UnPack" TWIN_REG) int UnPack(...) TWIN_BODY("UnPack" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("Histograms" TWIN_REG) int Histograms(...) TWIN_BODY("Histograms" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("Histograms" TWIN_REG) int Histograms(...) TWIN_BODY("Histograms" TWIN_REG, refused_values<V>)
template <typename... X> TWIN_NO("CreateAddrReg" TWIN_REG) int CreateAddrReg(...) TWIN_BODY("CreateAddrReg" TWIN_REG, refused_types<X...>)
template <typename A, auto V, auto... X> TWIN_NO("CreateAddrReg" TWIN_REG) int CreateAddrReg(...) TWIN_BODY("CreateAddrReg" TWIN_REG, refused_values<V>)
}  // namespace AscendC::Reg

namespace AscendC {
namespace MicroAPI = Reg;
}  // namespace AscendC

#undef ICPU_RUN_KF
#define ICPU_RUN_KF(...) _Pragma("GCC error \"ICPU_RUN_KF belongs to the CPU mode of the vendor's toolkit: launch with <<<...>>> or from Python (docs/twin.md)\"")
#undef ICPU_SET_TILING_KEY
#define ICPU_SET_TILING_KEY(...) _Pragma("GCC error \"ICPU_SET_TILING_KEY belongs to the CPU mode of the vendor's toolkit: launch with <<<...>>> or from Python (docs/twin.md)\"")
#undef GET_TILING_DATA
#define GET_TILING_DATA(...) _Pragma("GCC error \"GET_TILING_DATA reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef GET_TILING_DATA_WITH_STRUCT
#define GET_TILING_DATA_WITH_STRUCT(...) _Pragma("GCC error \"GET_TILING_DATA_WITH_STRUCT reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef GET_TILING_DATA_MEMBER
#define GET_TILING_DATA_MEMBER(...) _Pragma("GCC error \"GET_TILING_DATA_MEMBER reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef GET_TILING_DATA_PTR_WITH_STRUCT
#define GET_TILING_DATA_PTR_WITH_STRUCT(...) _Pragma("GCC error \"GET_TILING_DATA_PTR_WITH_STRUCT reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef COPY_TILING_WITH_STRUCT
#define COPY_TILING_WITH_STRUCT(...) _Pragma("GCC error \"COPY_TILING_WITH_STRUCT reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef COPY_TILING_WITH_ARRAY
#define COPY_TILING_WITH_ARRAY(...) _Pragma("GCC error \"COPY_TILING_WITH_ARRAY reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef TILING_KEY_IS
#define TILING_KEY_IS(...) _Pragma("GCC error \"TILING_KEY_IS reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef TILING_KEY_LIST
#define TILING_KEY_LIST(...) _Pragma("GCC error \"TILING_KEY_LIST reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef REGISTER_TILING_DEFAULT
#define REGISTER_TILING_DEFAULT(...) _Pragma("GCC error \"REGISTER_TILING_DEFAULT reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef REGISTER_TILING_FOR_TILINGKEY
#define REGISTER_TILING_FOR_TILINGKEY(...) _Pragma("GCC error \"REGISTER_TILING_FOR_TILINGKEY reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef REGISTER_NONE_TILING
#define REGISTER_NONE_TILING _Pragma("GCC error \"REGISTER_NONE_TILING reads what the operator framework writes, which the twin does not have: pass the values as kernel arguments (docs/twin.md)\"")
#undef REGIST_MATMUL_OBJ
#define REGIST_MATMUL_OBJ(...) _Pragma("GCC error \"REGIST_MATMUL_OBJ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef REGIST_CUBE_OBJ
#define REGIST_CUBE_OBJ(...) _Pragma("GCC error \"REGIST_CUBE_OBJ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef __cube__
#define __cube__ _Pragma("GCC error \"__cube__ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef __ca__
#define __ca__ _Pragma("GCC error \"__ca__ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef __cb__
#define __cb__ _Pragma("GCC error \"__cb__ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef __cc__
#define __cc__ _Pragma("GCC error \"__cc__ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef __cbuf__
#define __cbuf__ _Pragma("GCC error \"__cbuf__ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef __fbuf__
#define __fbuf__ _Pragma("GCC error \"__fbuf__ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef __biasbuf__
#define __biasbuf__ _Pragma("GCC error \"__biasbuf__ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef __mix__
#define __mix__(...) _Pragma("GCC error \"__mix__ needs the cube unit, which the twin does not have: it runs vector kernels only (docs/twin.md)\"")
#undef __simd_vf__
#define __simd_vf__ _Pragma("GCC error \"__simd_vf__ belongs to the register API of dav-3510, which the twin does not have: use the functions on LocalTensor (docs/twin.md)\"")
#undef __simd_callee__
#define __simd_callee__ _Pragma("GCC error \"__simd_callee__ belongs to the register API of dav-3510, which the twin does not have: use the functions on LocalTensor (docs/twin.md)\"")
#undef __VEC_SCOPE__
#define __VEC_SCOPE__ _Pragma("GCC error \"__VEC_SCOPE__ belongs to the register API of dav-3510, which the twin does not have: use the functions on LocalTensor (docs/twin.md)\"")
#undef __simt_vf__
#define __simt_vf__ _Pragma("GCC error \"__simt_vf__ belongs to the SIMT API of dav-3510, which the twin does not have: use the functions on LocalTensor (docs/twin.md)\"")
#undef __simt_callee__
#define __simt_callee__ _Pragma("GCC error \"__simt_callee__ belongs to the SIMT API of dav-3510, which the twin does not have: use the functions on LocalTensor (docs/twin.md)\"")
#undef __launch_bounds__
#define __launch_bounds__(...) _Pragma("GCC error \"__launch_bounds__ belongs to the SIMT API of dav-3510, which the twin does not have: use the functions on LocalTensor (docs/twin.md)\"")
