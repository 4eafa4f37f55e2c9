// Reading and writing whole files, and giving up where something fails: what every program here
// needs.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "acl/acl.h"

#define CHECK_ACL(call)                                                                     \
    do {                                                                                    \
        const aclError error = (call);                                                      \
        if (error != ACL_SUCCESS) {                                                         \
            std::fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, error); \
            std::exit(2);                                                                   \
        }                                                                                   \
    } while (false)

inline std::vector<char> read_file(const char *name) {
    std::ifstream file(name, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "cannot read %s\n", name);
        std::exit(2);
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const char *name, const std::vector<char> &data) {
    std::ofstream(name, std::ios::binary).write(data.data(), std::streamsize(data.size()));
}

inline void *to_device(const std::vector<char> &data) {
    void *device = nullptr;
    CHECK_ACL(aclrtMalloc(&device, data.size(), ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_ACL(
        aclrtMemcpy(device, data.size(), data.data(), data.size(), ACL_MEMCPY_HOST_TO_DEVICE));
    return device;
}

inline std::vector<char> to_host(const void *device, size_t bytes) {
    std::vector<char> data(bytes);
    CHECK_ACL(aclrtMemcpy(data.data(), bytes, device, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    return data;
}

// What a kernel has written goes to a file, and its memory back.
inline void save(const char *name, void *device, size_t bytes) {
    write_file(name, to_host(device, bytes));
    CHECK_ACL(aclrtFree(device));
}
