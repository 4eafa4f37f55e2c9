// Generated from workbench/data/architectures.json by `python -m workbench.build.arch`.
// Do not edit: a test compares.
// clang-format off
#pragma once

namespace twin {

struct Arch {
    const char *name;
    unsigned ub_bytes;
    bool bf16_arithmetic;
    bool data_copy_pad;
    unsigned event_ids;
    unsigned vector_cores;
    int count_method;          // ReduceSum(dst, src, tmp, count)
    bool count_tail_apart;     // whole repeats first, the tail on its own, then body + tail
    unsigned small_min_bytes;  // within [min, max] bytes the count form uses small_method
    unsigned small_max_bytes;
    int small_method;
    int high_dim_method;       // ReduceSum(dst, src, tmp, mask, repeat, stride)
    bool masked_is_zero;       // masked lanes count as +0 (else they are skipped)
    bool starts_at_zero;       // accumulators start at +0 (else at the first result)
    bool fused;                // MulAddDst and its like round once (else twice)
    bool inf_nan;              // overflow to infinity (else saturation)
    unsigned index;            // among the architectures in order of their names
    unsigned reserved_events;  // the last event ids of a pipe pair are the system's
    bool masked_compare;       // the mask of a comparison has an effect
    bool select_by_register_only;  // Select knows VSEL_CMPMASK_SPR alone
    bool shift_right_rounds;   // roundEn has an effect
    bool extremes_need_tmp;    // ReduceMax and ReduceMin use their temporary tensor
    bool gather_mask_in_all;   // GatherMask: mask elements in all, not per repeat
};

#if !defined(WB_TWIN_ARCH)
// The runtime is compiled once for all architectures: it asks the block for its own.
constexpr Arch kArch = {};
#elif WB_TWIN_ARCH == 1001
constexpr Arch kArch = {"dav-1001", 262144u, false, false, 4u, 32u, 2, true, 1u, 0u, 0, 2, true, true, true, false, 0u, 0u, false, true, true, true, false};
#elif WB_TWIN_ARCH == 2002
constexpr Arch kArch = {"dav-2002", 262144u, false, false, 8u, 7u, 2, true, 1u, 0u, 0, 2, true, true, true, false, 1u, 0u, false, false, true, true, true};
#elif WB_TWIN_ARCH == 2201
constexpr Arch kArch = {"dav-2201", 196352u, false, true, 8u, 48u, 1, false, 1u, 0u, 0, 2, true, true, true, true, 2u, 2u, false, false, true, true, false};
#elif WB_TWIN_ARCH == 3510
constexpr Arch kArch = {"dav-3510", 253952u, true, true, 8u, 64u, 2, false, 256u, 1024u, 3, 2, false, true, true, true, 3u, 0u, true, false, false, false, false};
#else
#error "WB_TWIN_ARCH is not a known architecture (1001, 2002, 2201, 3510)"
#endif

}  // namespace twin
