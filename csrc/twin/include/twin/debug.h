// printf, DumpTensor, assert and their relatives. Blocks print in ascending order, whatever threads
// they run on. -DASCENDC_DUMP=0 turns all of it off, as it does on a device.
#pragma once

#include "twin/system.h"
#include "twin/tensor.h"

namespace twin {

// An argument of printf.
struct Printed {
    enum Kind : uint8_t { kSigned, kUnsigned, kFloat, kText, kAddress };
    union {
        int64_t s;
        uint64_t u;
        double f;
        const void *p;
    };
    Kind kind;
    uint8_t bytes;

    template <typename T>
    static Printed integer(T value) {
        Printed out{};
        if (T(-1) < T(0)) {
            out.s = static_cast<int64_t>(value);
            out.kind = kSigned;
        } else {
            out.u = static_cast<uint64_t>(value);
            out.kind = kUnsigned;
        }
        out.bytes = sizeof(T);
        return out;
    }
    static Printed number(double value) {
        Printed out{};
        out.f = value;
        out.kind = kFloat;
        out.bytes = sizeof value;
        return out;
    }
    static Printed address(const void *value, Kind kind) {
        Printed out{};
        out.p = value;
        out.kind = kind;
        out.bytes = sizeof value;
        return out;
    }
};

inline Printed printed(bool v) {
    return Printed::integer<int>(v);
}
inline Printed printed(char v) {
    return Printed::integer<int>(v);
}
inline Printed printed(signed char v) {
    return Printed::integer(v);
}
inline Printed printed(unsigned char v) {
    return Printed::integer(v);
}
inline Printed printed(short v) {
    return Printed::integer(v);
}
inline Printed printed(unsigned short v) {
    return Printed::integer(v);
}
inline Printed printed(int v) {
    return Printed::integer(v);
}
inline Printed printed(unsigned v) {
    return Printed::integer(v);
}
inline Printed printed(long v) {
    return Printed::integer(v);
}
inline Printed printed(unsigned long v) {
    return Printed::integer(v);
}
inline Printed printed(long long v) {
    return Printed::integer(v);
}
inline Printed printed(unsigned long long v) {
    return Printed::integer(v);
}
inline Printed printed(float v) {
    return Printed::number(double(v));
}
inline Printed printed(double v) {
    return Printed::number(v);
}
inline Printed printed(half v) {
    return Printed::number(double(float(v)));
}
inline Printed printed(bfloat16_t v) {
    return Printed::number(double(float(v)));
}
inline Printed printed(const char *v) {
    return Printed::address(v, Printed::kText);
}
inline Printed printed(const void *v) {
    return Printed::address(v, Printed::kAddress);
}
inline Printed printed(BlockIndex v) {
    return Printed::integer(int64_t(v));
}
inline Printed printed(BlockCount v) {
    return Printed::integer(int64_t(v));
}
template <typename Tensor>
inline Printed printed(const Element<Tensor> &v) {
    return printed(typename Tensor::PrimType(v));
}

// Returns the number of characters. Outside of a kernel it is the C library's printf.
int print(const char *format, const Printed *args, unsigned n);
[[noreturn]] void assert_failed(Where where, const char *condition, const char *format,
                                const Printed *args, unsigned n);
[[noreturn]] void trap(Where where);

template <typename... Args>
inline int print_all(const char *format, const Args &...args) {
    const Printed list[sizeof...(args) + 1] = {printed(args)...};
    return print(format, list, sizeof...(args));
}
[[noreturn]] inline void fail_assert(Where where, const char *condition) {
    assert_failed(where, condition, nullptr, nullptr, 0);
}
template <typename... Args>
[[noreturn]] inline void fail_assert(Where where, const char *condition, const char *format,
                                     const Args &...args) {
    const Printed list[sizeof...(args) + 1] = {printed(args)...};
    assert_failed(where, condition, format, list, sizeof...(args));
}

// `shape` null: one row.
void dump_tensor(Op op, const Local &tensor, Type type, uint32_t desc, uint64_t first,
                 uint32_t count, const AscendC::ShapeInfo *shape, Where where);
void dump_tensor(Op op, const Global &tensor, Type type, uint32_t desc, uint64_t first,
                 uint32_t count, const AscendC::ShapeInfo *shape, Where where);

}  // namespace twin

namespace AscendC {

template <typename... Args>
__aicore__ inline int printf(const char *format, const Args &...args) {
#if TWIN_DUMP
    return twin::print_all(format, args...);
#else
    return 0;
#endif
}
template <typename... Args>
__aicore__ inline int PRINTF(const char *format, const Args &...args) {
    return printf(format, args...);
}

// The first dumpSize elements; `desc` is a number of the user's own.
template <typename T>
__aicore__ inline void DumpTensor(const LocalTensor<T> &tensor, uint32_t desc, uint32_t dumpSize,
                                  twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DumpTensor, T);
#if TWIN_DUMP
    twin::dump_tensor(twin::Op::DumpTensor, tensor.twin_local(), twin::TypeOf<T>::value, desc, 0,
                      dumpSize, nullptr, where);
#endif
}
template <typename T>
__aicore__ inline void DumpTensor(const GlobalTensor<T> &tensor, uint32_t desc, uint32_t dumpSize,
                                  twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DumpTensor, T);
#if TWIN_DUMP
    twin::dump_tensor(twin::Op::DumpTensor, tensor.twin_global(), twin::TypeOf<T>::value, desc, 0,
                      dumpSize, nullptr, where);
#endif
}
template <typename T>
__aicore__ inline void DumpTensor(const LocalTensor<T> &tensor, uint32_t desc, uint32_t dumpSize,
                                  const ShapeInfo &shapeInfo,
                                  twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DumpTensor, T);
#if TWIN_DUMP
    twin::dump_tensor(twin::Op::DumpTensor, tensor.twin_local(), twin::TypeOf<T>::value, desc, 0,
                      dumpSize, &shapeInfo, where);
#endif
}
template <typename T>
__aicore__ inline void DumpTensor(const GlobalTensor<T> &tensor, uint32_t desc, uint32_t dumpSize,
                                  const ShapeInfo &shapeInfo,
                                  twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DumpTensor, T);
#if TWIN_DUMP
    twin::dump_tensor(twin::Op::DumpTensor, tensor.twin_global(), twin::TypeOf<T>::value, desc, 0,
                      dumpSize, &shapeInfo, where);
#endif
}
template <typename T>
__aicore__ inline void DumpAccChkPoint(const LocalTensor<T> &tensor, uint32_t index,
                                       uint32_t countOff, uint32_t dumpSize,
                                       twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DumpAccChkPoint, T);
#if TWIN_DUMP
    twin::dump_tensor(twin::Op::DumpAccChkPoint, tensor.twin_local(), twin::TypeOf<T>::value, index,
                      countOff, dumpSize, nullptr, where);
#endif
}
template <typename T>
__aicore__ inline void DumpAccChkPoint(const GlobalTensor<T> &tensor, uint32_t index,
                                       uint32_t countOff, uint32_t dumpSize,
                                       twin::Where where = twin::Where::here()) {
    TWIN_TAKES(DumpAccChkPoint, T);
#if TWIN_DUMP
    twin::dump_tensor(twin::Op::DumpAccChkPoint, tensor.twin_global(), twin::TypeOf<T>::value,
                      index, countOff, dumpSize, nullptr, where);
#endif
}

__aicore__ inline void Trap(twin::Where where = twin::Where::here()) {
    twin::trap(where);
}

// Profiling: the twin has no clock.
__aicore__ inline void PrintTimeStamp(uint32_t) {}
__aicore__ inline void MetricsProfStart() {}
__aicore__ inline void MetricsProfStop() {}
template <typename... Args>
__aicore__ inline void MarkStamp(const Args &...) {}

}  // namespace AscendC

// `printf` in a kernel without a using-directive; host code gets the C library's behaviour from it.
using AscendC::printf;

// A fault of the block (code "assert") and not the end of the process.
#if TWIN_DUMP
#define ascendc_assert(condition, ...)  \
    ((condition) ? static_cast<void>(0) \
                 : ::twin::fail_assert({__FILE__, __LINE__}, #condition, ##__VA_ARGS__))
#else
#define ascendc_assert(condition, ...) static_cast<void>(0)
#endif
#define ASSERT_MSG(condition, ...) ascendc_assert(condition, ##__VA_ARGS__)
#undef assert
#define assert(condition, ...) ascendc_assert(condition, ##__VA_ARGS__)
