// The mask registers of the vector unit, which instructions with isSetMask = false go by.
#pragma once

#include "twin/tensor.h"

namespace twin {

// counter: the mask is the number of elements of an instruction, and its repeats follow from it.
void set_mask_mode(Op op, bool counter, Where where);
void set_mask(Op op, uint64_t high, uint64_t low, Where where);
// The first `len` lanes (elements, where `counter`) of elements of `elem` bytes.
void set_mask_len(int32_t len, uint32_t elem, bool counter, Where where);

}  // namespace twin

namespace AscendC {

__aicore__ inline void SetMaskNorm(twin::Where where = twin::Where::here()) {
    twin::set_mask_mode(twin::Op::SetMaskNorm, false, where);
}
__aicore__ inline void SetMaskCount(twin::Where where = twin::Where::here()) {
    twin::set_mask_mode(twin::Op::SetMaskCount, true, where);
}
// All lanes, in the mode that is set.
__aicore__ inline void ResetMask(twin::Where where = twin::Where::here()) {
    twin::set_mask(twin::Op::ResetMask, ~uint64_t{0}, ~uint64_t{0}, where);
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
__aicore__ inline void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow,
                                     twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SetVectorMask, T);
    twin::set_mask(twin::Op::SetVectorMask, maskHigh, maskLow, where);
}
template <typename T, MaskMode mode = MaskMode::NORMAL>
__aicore__ inline void SetVectorMask(int32_t len, twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SetVectorMask, T);
    twin::set_mask_len(len, sizeof(T), mode == MaskMode::COUNTER, where);
}

}  // namespace AscendC
