// The acl host API on the twin: memory. See acl.cpp.
#include <cstdio>
#include <cstring>

#include "acl_common.h"

namespace {

using twin::failed;
using twin::need_live;
using twin::Where;

constexpr uint64_t kTotal = 64ull << 30;  // bytes of device memory, *assumed*

void describe(const void *address, uint64_t bytes, char (&text)[900]) {
    twin::gm_describe(address, bytes, text, sizeof text);
}

// Whether [address, address + bytes) may be used as `role` of a copy; `device` says on which side
// the kind of the copy puts it. (Documented: a device goes by the addresses, not by the kind. So a
// kind that contradicts them is a fault with the mem check, and the copy is made.)
aclError check_memory(const char *function, const char *role, const void *address, uint64_t bytes,
                      bool device, Where where) {
    const twin::GmRegion *region = twin::gm_region(address);
    char place[900];
    if (region == nullptr && !device) {
        return ACL_SUCCESS;  // the host's own memory
    }
    describe(address, bytes, place);
    const auto range = static_cast<unsigned long long>(bytes);
    const char *wanted = device ? ", not in device memory" : ", not in host memory";
    if (region == nullptr || (region->alive && region->device != device)) {
        twin::misuse(where, "mem", "memory-kind", function, "%s, %llu bytes from %p on, is %s%s",
                     role, range, address, place, wanted);
        if (region == nullptr) {
            return failed(ACL_ERROR_RT_INVALID_MEMORY_TYPE, function, where,
                          "%s, %llu bytes from %p on, is %s%s", role, range, address, place,
                          wanted);
        }
    }
    if (!region->alive || !region->contains(address, bytes)) {
        twin::misuse(where, "mem", region->alive ? "copy-bounds" : "use-after-free", function,
                     "%s, %llu bytes from %p on, is %s", role, range, address, place);
        return failed(ACL_ERROR_RT_PARAM_INVALID, function, where,
                      "%s, %llu bytes from %p on, is %s", role, range, address, place);
    }
    return ACL_SUCCESS;
}

// With the race and init checks: a call that waits for no stream touches memory that a kernel may
// still be writing.
void check_awaited(const char *function, const char *role, const void *address, Where where) {
    const twin::GmRegion *region = twin::gm_region(address);
    if (region == nullptr || region->writer == 0) {
        return;
    }
    const Where launch = twin::unawaited_launch(region->writer);
    if (launch.line != 0) {
        char place[900];
        describe(address, 1, place);
        twin::misuse(where, "race", "missing-sync", function,
                     "%s is %s; the kernel launched at %s:%d may still be writing there", role,
                     place, launch.file, launch.line);
    }
}

bool on_device(const void *address) {
    const twin::GmRegion *region = twin::gm_region(address);
    return region != nullptr && region->device;
}

struct Sides {
    bool dst_device, src_device;
};

bool sides_of(aclrtMemcpyKind kind, const void *dst, const void *src, Sides *sides) {
    switch (kind) {
        case ACL_MEMCPY_HOST_TO_HOST:
            *sides = {false, false};
            return true;
        case ACL_MEMCPY_HOST_TO_DEVICE:
        case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
            *sides = {true, false};
            return true;
        case ACL_MEMCPY_DEVICE_TO_HOST:
            *sides = {false, true};
            return true;
        case ACL_MEMCPY_DEVICE_TO_DEVICE:
        case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
        case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
            *sides = {true, true};
            return true;
        case ACL_MEMCPY_DEFAULT:
            *sides = {on_device(dst), on_device(src)};
            return true;
    }
    return false;
}

// With the init check: bytes on their way to the host that nobody has written.
void check_written(const char *function, const void *src, uint64_t bytes, Where where) {
    const twin::GmRegion *region = twin::gm_region(src);
    const void *first = region != nullptr ? twin::gm_unwritten(*region, src, bytes) : nullptr;
    if (first != nullptr) {
        char place[900];
        describe(first, 1, place);
        twin::misuse(where, "init", "uninitialised", function,
                     "copies bytes to the host that nobody has written; the first is %s", place);
    }
}

// The checks of a copy of `height` rows, and the copy. `dst_pitch` and `src_pitch`: from one row to
// the next. `at_once`: it waits for no stream.
aclError copy(const char *function, void *dst, uint64_t dst_pitch, const void *src,
              uint64_t src_pitch, uint64_t width, uint64_t height, aclrtMemcpyKind kind,
              bool at_once, Where where) {
    Sides sides{};
    if (!sides_of(kind, dst, src, &sides)) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where, "%d is no aclrtMemcpyKind",
                      int(kind));
    }
    const uint64_t dst_bytes = (height - 1) * dst_pitch + width;
    const uint64_t src_bytes = (height - 1) * src_pitch + width;
    aclError error = check_memory(function, "dst", dst, dst_bytes, sides.dst_device, where);
    if (error == ACL_SUCCESS) {
        error = check_memory(function, "src", src, src_bytes, sides.src_device, where);
    }
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (at_once) {
        check_awaited(function, "dst", dst, where);
        check_awaited(function, "src", src, where);
    } else if (twin::gm_region(sides.dst_device ? src : dst) == nullptr) {
        // Documented: with host memory that is not aclrtMallocHost's the call returns after the
        // copy, so after all that was on the stream before.
        twin::launches_awaited();
    }
    for (uint64_t row = 0; row < height; ++row) {
        auto *to = static_cast<uint8_t *>(dst) + row * dst_pitch;
        const auto *from = static_cast<const uint8_t *>(src) + row * src_pitch;
        if (!on_device(dst)) {
            check_written(function, from, width, where);
        }
        twin::gm_copied(to, from, width);
        std::memmove(to, from, width);
    }
    return ACL_SUCCESS;
}

aclError allocate(const char *function, void **pointer, size_t size, bool device, Where where) {
    if (pointer == nullptr || size == 0) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where,
                      pointer == nullptr ? "the place for the address is null"
                                         : "0 bytes cannot be allocated");
    }
    if (const aclError error = twin::need_context(function, where)) {
        return error;
    }
    void *memory = nullptr;
    if (!device || size <= kTotal - twin::gm_device_bytes()) {
        memory = twin::gm_allocate(size, device, where);
    }
    if (memory == nullptr) {
        return failed(ACL_ERROR_RT_MEMORY_ALLOCATION, function, where,
                      "%zu bytes cannot be had; %llu are allocated", size,
                      static_cast<unsigned long long>(twin::gm_device_bytes()));
    }
    *pointer = memory;
    return ACL_SUCCESS;
}

aclError release(const char *function, void *pointer, bool device, Where where) {
    if (pointer == nullptr) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where, "the address is null");
    }
    twin::gm_check_guards(where, function);
    twin::GmRegion was{};
    const twin::GmFree result = twin::gm_release(pointer, device, where, &was);
    if (result == twin::GmFree::kOk) {
        return ACL_SUCCESS;
    }
    char place[900];
    describe(pointer, 1, place);
    const bool twice = result == twin::GmFree::kTwice;
    const char *what = "";
    if (result == twin::GmFree::kUnknown) {
        what = device ? ", so aclrtFree does not free it" : ", so aclrtFreeHost does not free it";
    } else if (result == twin::GmFree::kOtherKind) {
        what = device ? "; aclrtFreeHost frees it" : "; aclrtFree frees it";
    } else if (result == twin::GmFree::kInside) {
        what = "; it is freed by the address that was given";
    }
    twin::misuse(where, "mem", twice ? "double-free" : "foreign-free", function, "%p is %s%s",
                 pointer, place, what);
    return failed(ACL_ERROR_RT_PARAM_INVALID, function, where, "%p is %s%s", pointer, place, what);
}

aclError fill(const char *function, void *address, size_t most, int32_t value, size_t count,
              bool at_once, Where where) {
    if (address == nullptr || count > most) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where,
                      address == nullptr ? "the address is null" : "count is larger than maxCount");
    }
    if (count == 0) {
        return failed(ACL_ERROR_RT_PARAM_INVALID, function, where, "count is 0");
    }
    const aclError error =
        check_memory(function, "devPtr", address, count, on_device(address), where);
    if (error != ACL_SUCCESS) {
        return error;
    }
    if (at_once) {
        check_awaited(function, "devPtr", address, where);
    }
    std::memset(address, value, count);
    const twin::GmRegion *region = twin::gm_region(address);
    if (region != nullptr) {
        twin::gm_mark(*region, address, count);
    }
    return ACL_SUCCESS;
}

aclError copy_flat(const char *function, void *dst, size_t dst_max, const void *src, size_t count,
                   aclrtMemcpyKind kind, bool at_once, Where where) {
    if (dst == nullptr || src == nullptr) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where, "%s is null",
                      dst == nullptr ? "dst" : "src");
    }
    if (count > dst_max) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where,
                      "count %zu is larger than destMax %zu", count, dst_max);
    }
    if (count == 0) {
        return failed(ACL_ERROR_RT_PARAM_INVALID, function, where, "count is 0");
    }
    return copy(function, dst, count, src, count, count, 1, kind, at_once, where);
}

aclError copy_rows(const char *function, void *dst, size_t dst_pitch, const void *src,
                   size_t src_pitch, size_t width, size_t height, aclrtMemcpyKind kind,
                   bool at_once, Where where) {
    if (dst == nullptr || src == nullptr) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where, "%s is null",
                      dst == nullptr ? "dst" : "src");
    }
    if (width == 0 || height == 0 || width > dst_pitch || width > src_pitch) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where,
                      "%zu rows of %zu bytes with pitches %zu and %zu", height, width, dst_pitch,
                      src_pitch);
    }
    return copy(function, dst, dst_pitch, src, src_pitch, width, height, kind, at_once, where);
}

}  // namespace

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy /*policy*/, Where where) {
    return allocate(__func__, devPtr, size, true, where);
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy /*policy*/,
                            Where where) {
    return allocate(__func__, devPtr, size, true, where);
}

aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy /*policy*/,
                           Where where) {
    return allocate(__func__, devPtr, size, true, where);
}

aclError aclrtFree(void *devPtr, Where where) {
    return release(__func__, devPtr, true, where);
}

aclError aclrtMallocHost(void **hostPtr, size_t size, Where where) {
    return allocate(__func__, hostPtr, size, false, where);
}

aclError aclrtFreeHost(void *hostPtr, Where where) {
    return release(__func__, hostPtr, false, where);
}

aclError aclrtMemFlush(void *devPtr, size_t size, Where where) {
    NEED(devPtr != nullptr && size != 0, ACL_ERROR_INVALID_PARAM, "no address, or 0 bytes");
    return check_memory(__func__, "devPtr", devPtr, size, true, where);
}

aclError aclrtMemInvalidate(void *devPtr, size_t size, Where where) {
    return aclrtMemFlush(devPtr, size, where);
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total, Where where) {
    NEED(free != nullptr && total != nullptr, ACL_ERROR_INVALID_PARAM, "a place is null");
    if (const aclError error = twin::need_context(__func__, where)) {
        return error;
    }
    NEED(attr >= ACL_DDR_MEM && attr <= ACL_HBM_MEM_NORMAL, ACL_ERROR_INVALID_PARAM,
         "%d is no aclrtMemAttr", int(attr));
    *total = kTotal;
    *free = *total - size_t(twin::gm_device_bytes());
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                     Where where) {
    if (const aclError error =
            need_live(__func__, kind != ACL_MEMCPY_HOST_TO_HOST, nullptr, where)) {
        return error;
    }
    return copy_flat(__func__, dst, destMax, src, count, kind, true, where);
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream, Where where) {
    NEED(kind != ACL_MEMCPY_HOST_TO_HOST, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
         "a copy within the host is never asynchronous; use aclrtMemcpy");
    if (const aclError error = need_live(__func__, true, stream, where)) {
        return error;
    }
    return copy_flat(__func__, dst, destMax, src, count, kind, false, where);
}

aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                       size_t height, aclrtMemcpyKind kind, Where where) {
    if (const aclError error = need_live(__func__, true, nullptr, where)) {
        return error;
    }
    return copy_rows(__func__, dst, dpitch, src, spitch, width, height, kind, true, where);
}

aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream, Where where) {
    if (const aclError error = need_live(__func__, true, stream, where)) {
        return error;
    }
    return copy_rows(__func__, dst, dpitch, src, spitch, width, height, kind, false, where);
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count, Where where) {
    if (const aclError error = need_live(__func__, true, nullptr, where)) {
        return error;
    }
    return fill(__func__, devPtr, maxCount, value, count, true, where);
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream, Where where) {
    if (const aclError error = need_live(__func__, true, stream, where)) {
        return error;
    }
    return fill(__func__, devPtr, maxCount, value, count, false, where);
}
