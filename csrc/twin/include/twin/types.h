// Scalar types, address-space words and enums of Ascend C.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// The architecture, as the device's compiler says it: __NPU_ARCH__ is documented; __CCE_AICORE__,
// its older form, and its values are assumed.
#if defined(WB_TWIN_ARCH) && !defined(__NPU_ARCH__)
#define __NPU_ARCH__ WB_TWIN_ARCH
#if WB_TWIN_ARCH == 1001
#define __CCE_AICORE__ 100
#elif WB_TWIN_ARCH == 2002
#define __CCE_AICORE__ 200
#elif WB_TWIN_ARCH == 2201
#define __CCE_AICORE__ 220
#elif WB_TWIN_ARCH == 3510
#define __CCE_AICORE__ 310
#endif
#endif

#define __aicore__
// A kernel that no launcher of this unit refers to is not compiled.
#define __global__ inline
#define __vector__
#define __gm__
#define __ubuf__
#define GM_ADDR uint8_t *
#define __inout_pipe__(pipe)
#define TWIN_KERNEL_TYPE(type)                                               \
    static_assert(::AscendC::type == ::AscendC::KERNEL_TYPE_AIV_ONLY ||      \
                      ::AscendC::type == ::AscendC::KERNEL_TYPE_MIX_AIV_1_0, \
                  "the twin runs vector-only kernels: it has no cube unit")
#define KERNEL_TASK_TYPE_DEFAULT(type) TWIN_KERNEL_TYPE(type)
#define KERNEL_TASK_TYPE(key, type) TWIN_KERNEL_TYPE(type)

namespace twin {

inline float bits_to_float(uint32_t u) {
    float f;
    std::memcpy(&f, &u, sizeof f);
    return f;
}

inline uint32_t float_to_bits(float f) {
    uint32_t u;
    std::memcpy(&u, &f, sizeof u);
    return u;
}

// A NaN made by arithmetic has no bits of its own: x86 makes 0xffc00000, aarch64 0x7fc00000. Here
// it is always 0x7fc00000 (assumed; docs/architecture.md).
constexpr uint32_t kNan = 0x7fc00000u;

inline float canonical(float f) {
    return f == f ? f : bits_to_float(kNan);
}

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);  // nearest even, overflow to infinity
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);  // nearest even, overflow to infinity

}  // namespace twin

struct half {
    uint16_t bits;
    half() = default;
    half(float value) : bits(twin::float_to_half(value)) {}
    operator float() const { return twin::half_to_float(bits); }
    half &operator+=(float value) { return *this = half(float(*this) + value); }
    half &operator-=(float value) { return *this = half(float(*this) - value); }
    half &operator*=(float value) { return *this = half(float(*this) * value); }
    half &operator/=(float value) { return *this = half(float(*this) / value); }
};

struct bfloat16_t {
    uint16_t bits;
    bfloat16_t() = default;
    bfloat16_t(float value) : bits(twin::float_to_bfloat16(value)) {}
    explicit operator float() const { return twin::bfloat16_to_float(bits); }
};

// A name for LocalTensor: in UB two of them share a byte, the first one in its low half.
struct int4b_t {
    uint8_t pair;
};

enum pipe_t { PIPE_S, PIPE_V, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_M, PIPE_FIX, PIPE_ALL };

namespace AscendC {

enum KernelType {
    KERNEL_TYPE_AIV_ONLY,
    KERNEL_TYPE_AIC_ONLY,
    KERNEL_TYPE_MIX_AIV_1_0,
    KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2
};

// One byte, so that a LocalTensor fits into two registers.
enum class TPosition : uint8_t {
    GM,
    A1,
    A2,
    B1,
    B2,
    C1,
    C2,
    CO1,
    CO2,
    VECIN,
    VECOUT,
    VECCALC,
    LCM,
    SPM,
    MAX
};
using QuePosition = TPosition;

enum class RoundMode {
    CAST_NONE,
    CAST_RINT,
    CAST_FLOOR,
    CAST_CEIL,
    CAST_ROUND,
    CAST_TRUNC,
    CAST_ODD
};

enum class CMPMODE : uint8_t { LT, GT, EQ, LE, GE, NE };

// Where Select finds its bits and its second source.
enum class SELMODE : uint8_t {
    VSEL_CMPMASK_SPR,         // the same bits in every repeat; two tensors
    VSEL_TENSOR_SCALAR_MODE,  // a bit per element; a tensor and a scalar
    VSEL_TENSOR_TENSOR_MODE   // a bit per element; two tensors
};

enum class MaskMode : uint8_t { NORMAL, COUNTER };

// What stands where a mask would, in calls with isSetMask = false.
constexpr uint64_t MASK_PLACEHOLDER = 0;
constexpr uint64_t MASK_PLACEHOLDER_LIST[2] = {0, 0};

// The pipe pairs that flags exist for: FROM_TO. Before MAX those of the vector core; SetFlag and
// WaitFlag refuse the others.
enum class HardEvent {
    V_S,
    S_V,
    V_MTE2,
    MTE2_V,
    V_MTE3,
    MTE3_V,
    MTE2_S,
    S_MTE2,
    MTE3_S,
    S_MTE3,
    MTE2_MTE3,
    MTE3_MTE2,
    V_V,
    MAX,
    MTE2_MTE1,
    MTE1_MTE2,
    MTE1_M,
    M_MTE1,
    M_V,
    V_M,
    MTE3_MTE1,
    MTE1_MTE3,
    MTE1_V,
    V_MTE1,
    MTE2_M,
    M_MTE2,
    M_FIX,
    FIX_M,
    MTE2_FIX,
    FIX_MTE2,
    FIX_MTE3,
    FIX_S,
    M_S
};

template <typename A, typename B>
struct IsSameType {
    static constexpr bool value = false;
};
template <typename A>
struct IsSameType<A, A> {
    static constexpr bool value = true;
};

}  // namespace AscendC
using AscendC::HardEvent;
