// The static style: a kernel without TPipe that places its tensors itself.
#pragma once

#include "twin/tensor.h"

namespace twin {

// `bytes` from byte *at of UB on; *at becomes the next free one.
Local allocate(uint32_t *at, uint64_t bytes, AscendC::TPosition position, Where where);
void init_soc_state(Where where);

}  // namespace twin

namespace AscendC {

enum class Hardware : uint8_t { GM, UB, L1, L0A, L0B, L0C, BIAS, FIXBUF, MAX };

// Gives UB out from its start on, each tensor on a data block; nothing is given back.
template <Hardware hard = Hardware::UB>
class LocalMemAllocator {
  public:
    static_assert(hard == Hardware::UB,
                  "the other memories belong to the cube unit, which the twin does not have");

    __aicore__ inline uint32_t GetCurAddr() const { return at_; }
    template <typename T, uint32_t tileSize>
    __aicore__ inline LocalTensor<T> Alloc(twin::Where where = twin::Where::here()) {
        return Alloc<TPosition::VECCALC, T>(tileSize, where);
    }
    template <TPosition position, typename T, uint32_t tileSize>
    __aicore__ inline LocalTensor<T> Alloc(twin::Where where = twin::Where::here()) {
        return Alloc<position, T>(tileSize, where);
    }
    template <typename T>
    __aicore__ inline LocalTensor<T> Alloc(uint32_t tileSize,
                                           twin::Where where = twin::Where::here()) {
        return Alloc<TPosition::VECCALC, T>(tileSize, where);
    }
    template <TPosition position, typename T>
    __aicore__ inline LocalTensor<T> Alloc(uint32_t tileSize,
                                           twin::Where where = twin::Where::here()) {
        return LocalTensor<T>(twin::allocate(&at_, twin::size_of<T>(tileSize), position, where));
    }

  private:
    uint32_t at_ = 0;
};

// Masks, mask mode and atomics as a kernel finds them at its start.
__aicore__ inline void InitSocState(twin::Where where = twin::Where::here()) {
    twin::init_soc_state(where);
}

}  // namespace AscendC
