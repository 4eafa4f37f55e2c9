// What copies to GM do to what is there. The order of the blocks' contributions is not documented:
// here it is ascending, whatever threads they run on.
#pragma once

#include "twin/tensor.h"

namespace twin {

enum AtomicKind : uint8_t { kAtomicNone, kAtomicAdd, kAtomicMax, kAtomicMin };
void set_atomic(Op op, AtomicKind kind, Type type, Where where);
void set_atomic_type(Type type, Where where);
void set_atomic_config(uint16_t type, uint16_t op, Where where);
void get_atomic_config(uint16_t *type, uint16_t *op);

}  // namespace twin

namespace AscendC {

enum class AtomicDtype {
    ATOMIC_NONE = 0,
    ATOMIC_F32,
    ATOMIC_F16,
    ATOMIC_S16,
    ATOMIC_S32,
    ATOMIC_S8,
    ATOMIC_BF16
};
enum class AtomicOp { ATOMIC_SUM = 0 };

template <typename T>
__aicore__ inline void SetAtomicAdd(twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SetAtomicAdd, T);
    twin::set_atomic(twin::Op::SetAtomicAdd, twin::kAtomicAdd, twin::TypeOf<T>::value, where);
}
template <typename T>
__aicore__ inline void SetAtomicMax(twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SetAtomicMax, T);
    twin::set_atomic(twin::Op::SetAtomicMax, twin::kAtomicMax, twin::TypeOf<T>::value, where);
}
template <typename T>
__aicore__ inline void SetAtomicMin(twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SetAtomicMin, T);
    twin::set_atomic(twin::Op::SetAtomicMin, twin::kAtomicMin, twin::TypeOf<T>::value, where);
}
// The type alone; what is done with it stays.
template <typename T>
__aicore__ inline void SetAtomicType(twin::Where where = twin::Where::here()) {
    TWIN_TAKES(SetAtomicType, T);
    twin::set_atomic_type(twin::TypeOf<T>::value, where);
}
__aicore__ inline void SetAtomicNone(twin::Where where = twin::Where::here()) {
    twin::set_atomic(twin::Op::SetAtomicNone, twin::kAtomicNone, twin::Type::kFloat, where);
}
// 9.x
__aicore__ inline void DisableDmaAtomic(twin::Where where = twin::Where::here()) {
    SetAtomicNone(where);
}
template <AtomicDtype type, AtomicOp op>
__aicore__ inline void SetStoreAtomicConfig(twin::Where where = twin::Where::here()) {
    TWIN_EXISTS(SetStoreAtomicConfig, int(type) * 0);
    twin::set_atomic_config(uint16_t(type), uint16_t(op), where);
}
template <int zero = 0>
__aicore__ inline void GetStoreAtomicConfig(uint16_t &atomicType, uint16_t &atomicOp) {
    TWIN_EXISTS(GetStoreAtomicConfig, zero);
    twin::get_atomic_config(&atomicType, &atomicOp);
}

}  // namespace AscendC
