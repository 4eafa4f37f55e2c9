// GlobalTensor and LocalTensor.
#pragma once

#include "twin/runtime.h"

namespace AscendC {

template <typename T>
class GlobalTensor {
  public:
    using PrimType = T;

    __aicore__ inline void SetGlobalBuffer(__gm__ T *buffer) {
        SetGlobalBuffer(buffer, UINT64_MAX);
    }
    __aicore__ inline void SetGlobalBuffer(__gm__ T *buffer, uint64_t size) {
        address_ = buffer;
        size_ = size;
    }
    __aicore__ inline const __gm__ T *GetPhyAddr() const { return address_; }
    __aicore__ inline __gm__ T *GetPhyAddr(uint64_t offset) const { return address_ + offset; }
    __aicore__ inline uint64_t GetSize() const { return size_; }
    __aicore__ inline T GetValue(uint64_t offset) const { return address_[offset]; }
    __aicore__ inline void SetValue(uint64_t offset, T value) const { address_[offset] = value; }
    __aicore__ inline T operator()(uint64_t offset) const { return GetValue(offset); }
    __aicore__ inline GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor sub;
        sub.SetGlobalBuffer(address_ + offset, size_ == UINT64_MAX ? size_ : size_ - offset);
        return sub;
    }

  private:
    T *address_ = nullptr;
    uint64_t size_ = 0;
};

template <typename T>
class LocalTensor {
  public:
    using PrimType = T;

    LocalTensor() = default;
    LocalTensor(T *address, uint32_t size, int16_t buffer, TPosition position)
        : address_(address), size_(size), buffer_(buffer), position_(position) {}

    __aicore__ inline T GetValue(uint32_t index) const { return from_ub(address_[index]); }
    __aicore__ inline void SetValue(uint32_t index, T value) const {
        address_[index] = from_ub(value);
    }
    __aicore__ inline T operator()(uint32_t index) const { return GetValue(index); }
    __aicore__ inline LocalTensor operator[](uint32_t offset) const {
        return LocalTensor(address_ + offset, size_ - offset, buffer_, position_);
    }
    __aicore__ inline uint32_t GetSize() const { return size_; }
    __aicore__ inline uint32_t GetLength() const { return size_ * sizeof(T); }
    __aicore__ inline TPosition GetPosition() const { return position_; }
    __aicore__ inline uint64_t GetPhyAddr() const { return reinterpret_cast<uint64_t>(address_); }
    template <typename U>
    __aicore__ inline LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>(reinterpret_cast<U *>(address_), size_ * sizeof(T) / sizeof(U),
                              buffer_, position_);
    }

    // For the twin's own use: the host address, and which queue buffer this is.
    T *data() const { return address_; }
    int16_t buffer() const { return buffer_; }

  private:
    static T from_ub(T value) {
        if constexpr (IsSameType<T, float>::value) {
            return twin::canonical(value);
        } else {
            return value;
        }
    }

    T *address_ = nullptr;
    uint32_t size_ = 0;
    int16_t buffer_ = -1;
    TPosition position_ = TPosition::VECCALC;
};

}  // namespace AscendC
