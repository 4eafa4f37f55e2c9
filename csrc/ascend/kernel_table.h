// The C ABI between a compiled kernel file and the pybind11 part (npu_module.cpp). The builder's
// source pass emits one wb_kernel per __global__ function it finds; both toolchains use the same
// table.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

typedef struct {
    const char *name;
    const char *type;
    char kind;  // p: address, i: signed, u: unsigned, f: float, b: bool, s: anything else
    unsigned char size;
} wb_parameter;

typedef struct {
    uint64_t address;
    uint64_t bytes;
} wb_region;

typedef struct {
    uint32_t blocks;
    void *stream;
    // The rest is the twin's only.
    uint32_t threads;           // 0: one per core
    const uint32_t *block_ids;  // run these blocks of `blocks`; null: all
    uint32_t n_block_ids;
    uint32_t checks;    // bits: 1 memory, 2 initialisation, 4 races, 8 synchronisation, 16 counters
    uint32_t switches;  // two bits per switch of workbench/build/arch.py; 0: the architecture's
    uint64_t perturb;   // seed of a change by one ulp of approximate results; 0: none
    const wb_region *regions;  // memory that the kernel may touch; null: not known
    uint32_t n_regions;
} wb_launch;

typedef struct {
    uint64_t gm_to_ub, ub_to_gm;  // bytes
    uint64_t vector_instructions, vector_repeats;
    uint64_t scalar_reads, scalar_writes;
    uint64_t flags, barriers, queue_operations, copies;
} wb_counters;

typedef struct {
    const char *file;
    int line;
    wb_counters counters;
} wb_line;

typedef struct {
    char kind[8];  // empty: no fault
    char code[32];
    char instruction[48];
    char tensor[160];
    char file[512];
    int line;
    int block;
    char message[1024];
    char mend[256];
    char device[256];
    uint32_t ub_high_water;  // bytes of UB; 0 where the backend cannot tell
    uint64_t used[8];        // a bit per instruction of workbench/data/ascend_api.json executed
    wb_counters counters;
    wb_line *lines;  // malloc: the caller frees it
    uint32_t n_lines;
} wb_report;

// args[i] holds the bytes of parameter i, as its type, from the first byte on. A float of any size
// comes as a double: the launcher rounds it, in the floating-point environment of the kernel.
typedef struct {
    const char *name;
    const wb_parameter *parameters;
    uint32_t n_parameters;
    void (*launch)(const wb_launch *, const uint64_t *args, wb_report *);
} wb_kernel;

typedef struct {
    const char *name;
    long long value;
} wb_constant;

typedef struct {
    const char *backend;  // "twin" or "npu"
    const char *arch;     // "dav-2201"
    const wb_kernel *kernels;
    uint32_t n_kernels;
    const wb_constant *constants;  // build-time constants as the compiler saw them
    uint32_t n_constants;
    const char *manifest;  // JSON, of a module built ahead of time; null in a variant
} wb_table;

// The one table of a module. A module built ahead of time merges those of its kernel files.
const wb_table *wb_kernel_table(void);

// One kernel file of a module built ahead of time.
typedef struct {
    const char *name;  // "lm_head": goes before the names of its constants
    const wb_table *(*table)(void);
} wb_part;

// Written by the build (workbench/build/aot.py), for merged_table.cpp.
extern const wb_part wb_parts[];
extern const uint32_t wb_n_parts;
extern const char wb_manifest[];
}

#ifdef __cplusplus
namespace wb {

// The kind of a parameter, told from its type rather than from its spelling.
template <typename T, typename = void>
struct Kind {
    static constexpr bool number = false, real = false;
    static constexpr char get() { return 's'; }
};
template <typename T>
struct Kind<T, decltype(void(float(T(0.5f))))> {
    static constexpr bool number = sizeof(T) <= sizeof(uint64_t), real = number;
    static constexpr char get() {
        return !number ? 's' : float(T(0.5f)) != 0.0f ? 'f' : float(T(-1)) < 0.0f ? 'i' : 'u';
    }
};
template <>
struct Kind<bool, void> {
    static constexpr bool number = true, real = false;
    static constexpr char get() { return 'b'; }
};
template <typename T>
struct Kind<T *, void> {
    static constexpr bool number = true, real = false;
    static constexpr char get() { return 'p'; }
};

template <typename T>
constexpr char kind() {
    return Kind<T>::get();
}

template <typename T>
constexpr unsigned char size() {
    return sizeof(T) <= sizeof(uint64_t) ? sizeof(T) : 0;
}

template <typename T>
T argument(const uint64_t &slot) {
    if constexpr (!Kind<T>::number) {
        __builtin_trap();  // never called: npu_module.cpp takes no argument of kind s
    } else {
        if constexpr (Kind<T>::real) {
            if (Kind<T>::get() == 'f') {
                double value;
                __builtin_memcpy(&value, &slot, sizeof value);
                if constexpr (sizeof(T) == sizeof(double)) {
                    return T(value);
                } else {
                    return T(static_cast<float>(value));
                }
            }
        }
        T value;
        __builtin_memcpy(&value, &slot, sizeof value);
        return value;
    }
}

}  // namespace wb
#endif
