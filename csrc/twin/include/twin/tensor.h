// GlobalTensor and LocalTensor.
#pragma once

#include "twin/runtime.h"

// What a kernel prints, and its asserts (twin/debug.h).
#if defined(ASCENDC_DUMP) && ASCENDC_DUMP == 0
#define TWIN_DUMP 0
#else
#define TWIN_DUMP 1
#endif

namespace twin {

// The code of an element type.
template <typename T>
struct TypeOf {
    static constexpr Type value = Type::kCount;  // no element type
};
#define TWIN_TYPE(type, code)               \
    template <>                             \
    struct TypeOf<type> {                   \
        static constexpr Type value = code; \
    };
TWIN_TYPE(int8_t, Type::kS8)
TWIN_TYPE(uint8_t, Type::kU8)
TWIN_TYPE(int16_t, Type::kS16)
TWIN_TYPE(uint16_t, Type::kU16)
TWIN_TYPE(int32_t, Type::kS32)
TWIN_TYPE(uint32_t, Type::kU32)
TWIN_TYPE(int64_t, Type::kS64)
TWIN_TYPE(uint64_t, Type::kU64)
TWIN_TYPE(half, Type::kHalf)
TWIN_TYPE(bfloat16_t, Type::kBf16)
TWIN_TYPE(float, Type::kFloat)
TWIN_TYPE(double, Type::kDouble)
TWIN_TYPE(bool, Type::kBool)
TWIN_TYPE(int4b_t, Type::kS4)
#undef TWIN_TYPE

// TWIN_TAKES(Add, T): refuses, in one sentence, a type that Add does not take on this architecture.
#if defined(WB_TWIN_ARCH)
#define TWIN_TAKES(name, T)                                                                \
    static_assert((::twin::kTakes_##name >> unsigned(::twin::TypeOf<T>::value) & 1u) != 0, \
                  TWIN_TAKES_TEXT_##name)
// TWIN_MASKED(Add, T): the same for the forms with a mask, which take fewer types.
#define TWIN_MASKED(name, T)                                                                \
    static_assert((::twin::kMasked_##name >> unsigned(::twin::TypeOf<T>::value) & 1u) != 0, \
                  TWIN_TAKES_TEXT_##name)
// TWIN_EXISTS(SetCtrlSpr, zero): refuses a function without element types that this architecture
// does not have. `zero` is 0 and depends on a template parameter, so that only a use is refused.
#define TWIN_EXISTS(name, zero) \
    static_assert((::twin::kTakes_##name >> (zero)) != 0, TWIN_TAKES_TEXT_##name)
// For accessors: types that are no element type of the table (long long, a struct) are let through.
#define TWIN_ACCESSES(name, T)                                                                 \
    static_assert(::twin::TypeOf<T>::value == ::twin::Type::kCount ||                          \
                      (::twin::kTakes_##name >> unsigned(::twin::TypeOf<T>::value) & 1u) != 0, \
                  TWIN_TAKES_TEXT_##name)
#else  // the runtime, which instantiates no instruction
#define TWIN_TAKES(name, T) static_assert(sizeof(T) != 0, #name)
#define TWIN_MASKED(name, T) static_assert(sizeof(T) != 0, #name)
#define TWIN_EXISTS(name, zero) static_assert((zero) == 0, #name)
#define TWIN_ACCESSES(name, T) static_assert(sizeof(T) != 0, #name)
#endif

template <typename T>
struct Assigned;  // the right side of dst = a + b: operators.h

// A float that enters UB through the scalar unit: a NaN of no bits of its own becomes the twin's.
template <typename T>
inline T through_scalar(T value) {
    if constexpr (AscendC::IsSameType<T, float>::value) {
        return canonical(value);
    } else {
        return value;
    }
}

// Bytes of `n` elements: int4b_t has two to a byte.
template <typename T>
constexpr uint64_t size_of(uint64_t n) {
    return TypeOf<T>::value == Type::kS4 ? n / 2 : n * sizeof(T);
}
template <typename T>
constexpr uint64_t elements_in(uint64_t bytes) {
    return TypeOf<T>::value == Type::kS4 ? bytes * 2 : bytes / sizeof(T);
}

// A copy of `bytes` that lives as long as the block does.
const void *keep(const void *what, uint32_t bytes);

// A tensor at a place of UB that the kernel itself has chosen (csrc/twin/runtime/ub.cpp). What is
// not reserved through a TPipe is poisoned when the first one is made.
Local static_tensor(AscendC::TPosition position, uint64_t offset, uint64_t bytes, Where where);

// LocalTensor::Print and ToFile; false: the file could not be written.
void print_tensor(const Local &tensor, Type type, uint32_t elements, Where where);
bool write_tensor(const Local &tensor, const char *path);

// What operator() of a tensor gives: an element that can be read and assigned to.
template <typename Tensor>
class Element {
  public:
    using T = typename Tensor::PrimType;

    Element(const Tensor &tensor, uint64_t offset, Where where)
        : tensor_(tensor), offset_(offset), where_(where) {}
    operator T() const { return tensor_.GetValue(offset_, where_); }
    const Element &operator=(T value) const {
        tensor_.SetValue(offset_, value, where_);
        return *this;
    }
    const Element &operator=(const Element &other) const { return *this = static_cast<T>(other); }
    const Element &operator+=(T value) const { return *this = static_cast<T>(T(*this) + value); }
    const Element &operator-=(T value) const { return *this = static_cast<T>(T(*this) - value); }
    const Element &operator*=(T value) const { return *this = static_cast<T>(T(*this) * value); }
    const Element &operator/=(T value) const { return *this = static_cast<T>(T(*this) / value); }

  private:
    const Tensor &tensor_;
    uint64_t offset_;
    Where where_;
};

}  // namespace twin

namespace AscendC {

enum class DataFormat : uint8_t { ND, NZ, NCHW, NC1HWC0, NHWC };
enum class CacheRwMode { READ = 1, WRITE, RW };
enum class CacheMode {
    CACHE_MODE_DISABLE,
    CACHE_MODE_NORMAL,
    CACHE_MODE_LAST,
    CACHE_MODE_PERSISTENT
};
using TTagType = int32_t;

constexpr uint32_t K_MAX_SHAPE_DIM = 8;

// The shape that a tensor is said to have. No instruction looks at it but DumpTensor.
struct ShapeInfo {
    ShapeInfo() = default;
    ShapeInfo(uint8_t dims, const uint32_t sizes[], DataFormat format = DataFormat::ND)
        : ShapeInfo(dims, sizes, dims, sizes, format) {}
    ShapeInfo(uint8_t dims, const uint32_t sizes[], uint8_t originalDims,
              const uint32_t originalSizes[], DataFormat format)
        : shapeDim(dims), originalShapeDim(originalDims), dataFormat(format) {
        for (uint32_t i = 0; i < K_MAX_SHAPE_DIM; ++i) {
            shape[i] = i < dims ? sizes[i] : 0;
            originalShape[i] = i < originalDims ? originalSizes[i] : 0;
        }
    }

    uint8_t shapeDim = 0;
    uint8_t originalShapeDim = 0;
    uint32_t shape[K_MAX_SHAPE_DIM] = {};
    uint32_t originalShape[K_MAX_SHAPE_DIM] = {};
    DataFormat dataFormat = DataFormat::ND;
};

__aicore__ inline int GetShapeSize(const ShapeInfo &info) {
    uint32_t size = 1;
    for (uint32_t i = 0; i < info.shapeDim; ++i) {
        size *= info.shape[i];
    }
    return static_cast<int>(size);
}

template <typename T>
class GlobalTensor {
  public:
    using PrimType = T;

    __aicore__ inline void SetGlobalBuffer(__gm__ T *buffer) {
        address_ = buffer;
        size_ = UINT64_MAX;
    }
    __aicore__ inline void SetGlobalBuffer(__gm__ T *buffer, uint64_t size) {
        address_ = buffer;
        size_ = size;
    }
    __aicore__ inline const __gm__ T *GetPhyAddr() const { return address_; }
    __aicore__ inline __gm__ T *GetPhyAddr(uint64_t offset) const { return address_ + offset; }
    // Elements, as SetGlobalBuffer was told; 0 where it was not (assumed).
    __aicore__ inline uint64_t GetSize() const { return size_ == UINT64_MAX ? 0 : size_; }
    __aicore__ inline T GetValue(uint64_t offset, twin::Where where = twin::Where::here()) const {
        TWIN_ACCESSES(GetValue, T);
        touch(offset, false, where);
        return address_[offset];
    }
    __aicore__ inline void SetValue(uint64_t offset, T value,
                                    twin::Where where = twin::Where::here()) const {
        TWIN_ACCESSES(SetValue, T);
        touch(offset, true, where);
        address_[offset] = value;
    }
    __aicore__ inline twin::Element<GlobalTensor> operator()(
        uint64_t offset, twin::Where where = twin::Where::here()) const {
        return {*this, offset, where};
    }
    __aicore__ inline GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor sub = *this;
        sub.address_ = address_ + twin::size_of<T>(offset) / sizeof(T);
        sub.size_ = size_ == UINT64_MAX ? size_ : size_ > offset ? size_ - offset : 0;
        return sub;
    }
    template <typename U>
    __aicore__ inline GlobalTensor<U> ReinterpretCast() const {
        GlobalTensor<U> other;
        if (size_ == UINT64_MAX) {
            other.SetGlobalBuffer(reinterpret_cast<U *>(address_));
        } else {
            other.SetGlobalBuffer(reinterpret_cast<U *>(address_),
                                  twin::elements_in<U>(twin::size_of<T>(size_)));
        }
        return other;
    }
    __aicore__ inline void SetShapeInfo(const ShapeInfo &info) {
        shape_ = static_cast<const ShapeInfo *>(twin::keep(&info, sizeof info));
    }
    __aicore__ inline ShapeInfo GetShapeInfo() const {
        return shape_ != nullptr ? *shape_ : ShapeInfo();
    }
    // Whether the L2 cache keeps it changes no result.
    template <CacheRwMode mode = CacheRwMode::RW>
    __aicore__ inline void SetL2CacheHint(CacheMode) {}

    // For the twin's own use: the address and the bytes that the kernel said are there.
    twin::Global twin_global() const {
        return {reinterpret_cast<uint8_t *>(address_),
                size_ == UINT64_MAX ? UINT64_MAX : twin::size_of<T>(size_)};
    }

  private:
    void touch(uint64_t offset, bool write, twin::Where where) const {
        if (__builtin_expect(twin::block().observer != nullptr, 0)) {
            twin::scalar_access_gm(twin_global(), offset * sizeof(T), sizeof(T), write, where);
        }
    }

    T *address_ = nullptr;
    uint64_t size_ = 0;
    const ShapeInfo *shape_ = nullptr;
};

template <typename T>
class LocalTensor {
  public:
    using PrimType = T;

    LocalTensor() = default;
    explicit LocalTensor(const twin::Local &local) : local_(local) {}
    // The static style: `size` elements from byte `address` of UB on.
    LocalTensor(TPosition position, uint32_t address, uint32_t size,
                twin::Where where = twin::Where::here())
        : local_(twin::static_tensor(position, address, twin::size_of<T>(size), where)) {}
    LocalTensor(uint32_t address, uint32_t size, twin::Where where = twin::Where::here())
        : LocalTensor(TPosition::VECCALC, address, size, where) {}

    __aicore__ inline T GetValue(uint32_t index, twin::Where where = twin::Where::here()) const {
        TWIN_ACCESSES(GetValue, T);
        touch(index, false, where);
        return twin::through_scalar(at(index));
    }
    template <typename U>
    __aicore__ inline void SetValue(uint32_t index, const U value,
                                    twin::Where where = twin::Where::here()) const {
        TWIN_ACCESSES(SetValue, T);
        touch(index, true, where);
        at(index) = twin::through_scalar(static_cast<T>(value));
    }
    __aicore__ inline twin::Element<LocalTensor> operator()(
        uint32_t index, twin::Where where = twin::Where::here()) const {
        return {*this, index, where};
    }
    __aicore__ inline LocalTensor operator[](uint32_t offset) const {
        LocalTensor sub = *this;
        const auto bytes = twin::size_of<T>(offset);
        sub.local_.address += bytes;
        sub.local_.bytes = bytes < local_.bytes ? local_.bytes - static_cast<uint32_t>(bytes) : 0;
        return sub;
    }
    __aicore__ inline uint32_t GetSize() const {
        return static_cast<uint32_t>(twin::elements_in<T>(local_.bytes));
    }
    __aicore__ inline void SetSize(uint32_t size) {
        local_.bytes = static_cast<uint32_t>(twin::size_of<T>(size));
    }
    // In bytes, as GetLength (assumed).
    __aicore__ inline void SetBufferLen(uint32_t bytes) { local_.bytes = bytes; }
    __aicore__ inline uint32_t GetLength() const { return local_.bytes; }
    // This tensor becomes the part of `src` from its element `offset` on.
    template <typename U>
    __aicore__ inline void SetAddrWithOffset(const LocalTensor<U> &src, uint32_t offset) {
        local_ = src[offset].twin_local();
    }
    __aicore__ inline void SetUserTag(const TTagType tag) { tag_ = tag; }
    __aicore__ inline TTagType GetUserTag() const { return tag_; }
    __aicore__ inline void SetShapeInfo(const ShapeInfo &info) {
        shape_ = static_cast<const ShapeInfo *>(twin::keep(&info, sizeof info));
    }
    __aicore__ inline ShapeInfo GetShapeInfo() const {
        return shape_ != nullptr ? *shape_ : ShapeInfo();
    }
    // For the eye: no instruction, nothing is checked.
    __aicore__ inline void Print(twin::Where where = twin::Where::here()) const {
        Print(GetSize(), where);
    }
    __aicore__ inline void Print(uint32_t size, twin::Where where = twin::Where::here()) const {
        if (TWIN_DUMP) {
            twin::print_tensor(local_, twin::TypeOf<T>::value, size < GetSize() ? size : GetSize(),
                               where);
        }
    }
    template <typename Path>
    __aicore__ inline int32_t ToFile(const Path &path) const {
        if constexpr (IsSameType<Path, const char *>::value) {
            return twin::write_tensor(local_, path) ? 0 : -1;
        } else {
            return twin::write_tensor(local_, &path[0]) ? 0 : -1;
        }
    }
    __aicore__ inline TPosition GetPosition() const { return local_.position; }
    __aicore__ inline uint64_t GetPhyAddr() const {
        return reinterpret_cast<uint64_t>(local_.address);
    }
    __aicore__ inline uint64_t GetPhyAddr(uint32_t offset) const {
        return reinterpret_cast<uint64_t>(local_.address + twin::size_of<T>(offset));
    }
    template <typename U>
    __aicore__ inline LocalTensor<U> ReinterpretCast() const {
        LocalTensor<U> other(local_);
        other.SetUserTag(tag_);
        return other;
    }

    // dst = a + b and its like: operators.h.
    __aicore__ inline LocalTensor &operator=(const twin::Assigned<T> &expression) {
        expression.to(local_);
        return *this;
    }

    // For the twin's own use.
    const twin::Local &twin_local() const { return local_; }

  private:
    T &at(uint32_t index) const { return reinterpret_cast<T *>(local_.address)[index]; }
    void touch(uint32_t index, bool write, twin::Where where) const {
        twin::scalar_access(local_, uint64_t(index) * sizeof(T), sizeof(T), write, where);
    }

    twin::Local local_ = {nullptr, 0, -1, TPosition::VECCALC};
    TTagType tag_ = 0;
    const ShapeInfo *shape_ = nullptr;
};

}  // namespace AscendC
