// Launching: from the host's `kernel<<<…>>>(…)`, and from the table that Python sees.
#pragma once

#include "twin/block.h"

namespace twin {

enum Check : uint32_t {
    kCheckMem = 1,
    kCheckInit = 2,
    kCheckRace = 4,
    kCheckSync = 8,
    kCount = 16  // counters
};

// Device memory that the launch may touch.
struct Region {
    const void *address;
    uint64_t bytes;
};

struct Launch {
    uint32_t blocks;
    uint32_t threads;           // 0: as many as the machine has cores
    const uint32_t *block_ids;  // the blocks to run, or null for all
    uint32_t n_block_ids;
    const Arch *arch;  // with the switches of this launch
    uint32_t checks;   // of Check
    uint64_t perturb;
    const Region *regions;  // null: the registry of twin/gm.h is asked
    uint32_t n_regions;
    Where where;  // the launch itself, where that has a line
};

struct Fault {
    char kind[8];
    char code[32];
    char instruction[48];
    char tensor[160];
    char file[512];
    int line;
    int block;
    char message[1024];
    char mend[256];
    char device[256];
};

struct Counters {
    uint64_t gm_to_ub, ub_to_gm;  // bytes
    uint64_t vector_instructions, vector_repeats;
    uint64_t scalar_reads, scalar_writes;
    uint64_t flags;  // SetFlag and WaitFlag
    uint64_t barriers;
    uint64_t queue_operations;  // AllocTensor, EnQue, DeQue, FreeTensor
    uint64_t copies;
};

struct LineCounters {
    const char *file;
    int line;
    Counters counters;
};

struct Report {
    Fault fault;             // fault.kind is empty when there was none
    uint32_t ub_high_water;  // bytes of UB the hungriest block had reserved
    uint64_t used[8];        // one bit per Op that some block executed
    Counters counters;       // with kCount
    LineCounters *lines;     // by file and line; freed with release()
    uint32_t n_lines;
};
void release(Report *report);

// Runs `body(context)` once per block, spread over threads. Returns false and fills report->fault
// if one faulted; with several, the one of the first block.
bool run_blocks(const Launch &launch, void (*body)(void *), void *context, Report *report);

// A launch by the host code of a whole program; its options come from the environment
// (csrc/twin/runtime/host.cpp). A fault is recorded, and the stream is dead from then on.
void host_launch(const Arch &arch, uint32_t blocks, void (*body)(void *), void *context,
                 Where where);

// `kernel<<<blocks, l2ctrl, stream>>>(args…)` is rewritten to `::twin::configure(blocks, l2ctrl,
// stream)([&](auto... wb) { kernel(wb...); })(args…)`: the arguments choose among overloads and
// fill in template parameters, as in any call.
template <typename Kernel>
struct Call {
    uint32_t blocks;
    Where where;
    Kernel kernel;
    template <typename... Args>
    void operator()(Args... args) const {
        auto body = [&] { kernel(args...); };
        host_launch(
            kArch, blocks, [](void *context) { (*static_cast<decltype(body) *>(context))(); },
            &body, where);
    }
};

struct Configured {
    uint32_t blocks;
    Where where;
    template <typename Kernel>
    Call<Kernel> operator()(Kernel kernel) const {
        return {blocks, where, kernel};
    }
};

inline Configured configure(uint32_t blocks, void * /*l2ctrl*/, void * /*stream*/,
                            Where where = Where::here()) {
    return {blocks, where};
}

}  // namespace twin
