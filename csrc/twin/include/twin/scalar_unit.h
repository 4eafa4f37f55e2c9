// Functions of the scalar unit on plain numbers.
#pragma once

#include <type_traits>

#include "twin/params.h"
#include "twin/tensor.h"

namespace twin {

// That the block has executed `op` on the scalar unit.
void scalar_operation(Op op, Where where);
// -1 where no bit of `value` is `bit`.
int64_t first_bit(uint64_t value, int bit);
int64_t sign_bits(int64_t value);
// float to half (CAST_ODD) or int32_t, as Cast does it.
uint16_t scalar_to_half(float value, int mode);
int32_t scalar_to_int32(float value, int mode);

}  // namespace twin

namespace AscendC {

// How many bits of `valueIn` are `countValue`, 0 or 1.
template <int countValue>
__aicore__ inline int64_t GetBitCount(uint64_t valueIn, twin::Where where = twin::Where::here()) {
    static_assert(countValue == 0 || countValue == 1,
                  "GetBitCount counts the bits that are 0 or 1");
    twin::scalar_operation(twin::Op::ScalarGetCountOfValue, where);
    return __builtin_popcountll(countValue == 1 ? valueIn : ~valueIn);
}
template <int countValue>
__aicore__ inline int64_t ScalarGetCountOfValue(uint64_t valueIn,
                                                twin::Where where = twin::Where::here()) {
    return GetBitCount<countValue>(valueIn, where);
}

__aicore__ inline int64_t CountLeadingZero(uint64_t valueIn,
                                           twin::Where where = twin::Where::here()) {
    twin::scalar_operation(twin::Op::ScalarCountLeadingZero, where);
    return valueIn == 0 ? 64 : __builtin_clzll(valueIn);
}
__aicore__ inline int64_t ScalarCountLeadingZero(uint64_t valueIn,
                                                 twin::Where where = twin::Where::here()) {
    return CountLeadingZero(valueIn, where);
}

// How many bits below the sign bit are like it, without a break; -1 for 0 and -1.
__aicore__ inline int64_t CountBitsCntSameAsSignBit(int64_t valueIn,
                                                    twin::Where where = twin::Where::here()) {
    twin::scalar_operation(twin::Op::CountBitsCntSameAsSignBit, where);
    return twin::sign_bits(valueIn);
}
__aicore__ inline int64_t ScalarCountBitsCntSameAsSignBit(int64_t valueIn,
                                                          twin::Where where = twin::Where::here()) {
    return CountBitsCntSameAsSignBit(valueIn, where);
}

// The place of the lowest bit that is `countValue`; -1 where there is none.
template <int countValue>
__aicore__ inline int64_t GetSFFValue(uint64_t valueIn, twin::Where where = twin::Where::here()) {
    static_assert(countValue == 0 || countValue == 1, "GetSFFValue looks for a bit that is 0 or 1");
    twin::scalar_operation(twin::Op::ScalarGetSFFValue, where);
    return twin::first_bit(valueIn, countValue);
}
template <int countValue>
__aicore__ inline int64_t ScalarGetSFFValue(uint64_t valueIn,
                                            twin::Where where = twin::Where::here()) {
    return GetSFFValue<countValue>(valueIn, where);
}

template <typename T, typename U, RoundMode roundMode>
__aicore__ inline U ScalarCast(T valueIn, twin::Where where = twin::Where::here()) {
    constexpr bool to_half = IsSameType<U, half>::value;
    constexpr bool to_int = IsSameType<U, int32_t>::value;
    TWIN_TAKES_PAIR(ScalarCast, U, T);
    static_assert(!to_half || roundMode == RoundMode::CAST_ODD,
                  "ScalarCast converts float to half with CAST_ODD only");
    static_assert(!to_int || roundMode == RoundMode::CAST_ROUND ||
                      roundMode == RoundMode::CAST_CEIL || roundMode == RoundMode::CAST_FLOOR ||
                      roundMode == RoundMode::CAST_RINT,
                  "ScalarCast converts float to int32_t with CAST_ROUND, CAST_CEIL, CAST_FLOOR or "
                  "CAST_RINT");
    twin::scalar_operation(twin::Op::ScalarCast, where);
    if constexpr (to_half) {
        half result;
        result.bits = twin::scalar_to_half(valueIn, int(roundMode));
        return result;
    } else {
        return twin::scalar_to_int32(valueIn, int(roundMode));
    }
}
template <typename T, typename U, RoundMode roundMode>
__aicore__ inline U Cast(T valueIn, twin::Where where = twin::Where::here()) {
    return ScalarCast<T, U, roundMode>(valueIn, where);
}

template <int zero = 0>
__aicore__ inline bfloat16_t ToBfloat16(const float &fVal,
                                        twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(ToBfloat16, zero);
    twin::scalar_operation(twin::Op::ToBfloat16, where);
    return bfloat16_t(fVal);
}
template <int zero = 0>
__aicore__ inline float ToFloat(const bfloat16_t &bVal, twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(ToFloat, zero);
    twin::scalar_operation(twin::Op::ToFloat, where);
    return twin::canonical(float(bVal));
}
// 9.x: float to bfloat16_t, bfloat16_t to float.
template <typename T, typename U>
__aicore__ inline U Cast(const T &valueIn, twin::Where where = twin::Where::here()) {
    constexpr bool narrows = IsSameType<T, float>::value && IsSameType<U, bfloat16_t>::value;
    static_assert(narrows || (IsSameType<T, bfloat16_t>::value && IsSameType<U, float>::value),
                  "Cast of a scalar without a RoundMode: float to bfloat16_t, bfloat16_t to float");
    if constexpr (narrows) {
        return ToBfloat16(valueIn, where);
    } else {
        return ToFloat(valueIn, where);
    }
}

__aicore__ inline void Nop(twin::Where where = twin::Where::here()) {
    twin::scalar_operation(twin::Op::Nop, where);
}
// The vendor's take two uint32_t, so that an int and a uint32_t go together. Wider ones keep
// theirs.
template <typename T, typename U>
__aicore__ inline std::common_type_t<T, U> CeilDivision(T a, U b) {
    return b == 0 ? a : (a + b - 1) / b;
}
template <typename T, typename U>
__aicore__ inline auto DivCeil(T a, U b) {
    return CeilDivision(a, b);
}
template <typename T, typename U>
__aicore__ inline auto AlignUp(T a, U b) {
    return CeilDivision(a, b) * b;
}

enum class EngineType : int32_t { AIC = 1, AIV = 2 };

// Calls the function on the vector core; what is for the cube core does not run here.
template <EngineType engine, auto function, typename... Args>
__aicore__ inline void Async(Args... args) {
    if constexpr (engine == EngineType::AIV) {
        function(args...);
    }
}

}  // namespace AscendC
