// What the headers ask of the runtime object (csrc/twin/runtime), which is compiled once.
#pragma once

#include "twin/arch.h"
#include "twin/types.h"

namespace twin {

constexpr unsigned kDataBlock = 32;  // bytes
constexpr unsigned kRepeat = 256;    // bytes one vector instruction handles per repeat
constexpr unsigned kEventIds = 8;
constexpr unsigned kUbMax =
    262144;  // the largest UB of any architecture; kArch.ub_bytes is what a kernel may use

// The place in the user's source that an instruction was written at.
struct Where {
    const char *file;
    int line;
    static constexpr Where here(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

// Ends the block with a fault; the launch reports it. `kind` is mem, init, race or sync.
[[noreturn]] void fault(Where where, const char *kind, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// The state of the block that this thread is running.
struct Block {
    uint32_t index;
    uint32_t count;
    uint8_t *ub;
    uint32_t ub_used;
    uint32_t buffers;
    void *pipe;
    uint8_t flags[static_cast<int>(AscendC::HardEvent::MAX)][kEventIds];
    uint8_t next_event[static_cast<int>(AscendC::HardEvent::MAX)];
};
Block &block();

// ---- UB, queues and flags: the state behind TPipe, TQue, TBuf, SetFlag and WaitFlag
// ----------------------------
uint64_t round_to_block(uint64_t bytes);
// Takes `num` buffers of `len` bytes from UB; returns the offset of the first.
uint32_t reserve(const Arch &arch, uint32_t num, uint32_t len, Where where);
int32_t fetch_event(const Arch &arch, AscendC::HardEvent event);
void set_flag(const Arch &arch, AscendC::HardEvent event, int32_t id, Where where);
void wait_flag(const Arch &arch, AscendC::HardEvent event, int32_t id, Where where);

// The buffers of one queue and where each is on its way FREE -> AllocTensor -> EnQue -> DeQue ->
// FreeTensor.
struct Queue {
    static constexpr uint32_t kMaxBuffers = 8;
    enum State : uint8_t { kFree, kTaken, kQueued };

    uint32_t offset = 0;
    uint32_t len = 0;  // bytes of one buffer
    uint8_t num = 0;
    uint8_t next = 0;
    uint8_t head = 0;
    uint8_t queued = 0;
    State state[kMaxBuffers] = {};
    uint8_t order[kMaxBuffers] = {};

    void init(const Arch &arch, uint32_t num, uint32_t len, Where where);
    int16_t alloc(Where where);
    void enque(int16_t slot, int depth, Where where);
    int16_t deque(Where where);
    void free(int16_t slot, Where where);
    void *address(int16_t slot) const { return block().ub + offset + uint32_t(slot) * len; }
};

// ---- instructions
// ----------------------------------------------------------------------------------------------
// Each checks its operands (in UB, on 32-byte boundaries) and then computes.
struct Burst {
    uint32_t count;       // bursts
    uint32_t len;         // bytes of one
    uint32_t src_stride;  // GM side: bytes; UB side: data blocks
    uint32_t dst_stride;
};
struct Padding {
    uint32_t left;  // bytes
    uint32_t right;
    uint32_t element;   // bytes of one element
    const void *value;  // null: the paddings hold anything (poison here)
};
void copy_pad_in(void *dst, const void *src, const Burst &burst, const Padding &padding,
                 Where where);
void copy_pad_out(void *dst, const void *src, const Burst &burst, Where where);

void mul(float *dst, const float *src0, const float *src1, int32_t count, Where where);
void add(float *dst, const float *src0, const float *src1, int32_t count, Where where);
void duplicate(float *dst, float value, int32_t count, Where where);
void cast(float *dst, const half *src, AscendC::RoundMode mode, uint32_t count, Where where);
void cast(float *dst, const bfloat16_t *src, AscendC::RoundMode mode, uint32_t count, Where where);
void cast(half *dst, const float *src, AscendC::RoundMode mode, uint32_t count, Where where);
void cast(bfloat16_t *dst, const float *src, AscendC::RoundMode mode, uint32_t count, Where where);
// ReduceSum(dst, src, tmp, count) in the order of `arch`.
void reduce_sum(const Arch &arch, float *dst, const float *src, uint32_t tmp_elements,
                int32_t count, Where where);

// ---- launching
// -------------------------------------------------------------------------------------------------
struct Launch {
    uint32_t blocks;
    uint32_t threads;           // 0: as many as the machine has cores
    const uint32_t *block_ids;  // the blocks to run, or null for all
    uint32_t n_block_ids;
};

struct Fault {
    char kind[8];
    char code[32];
    char file[512];
    int line;
    int block;
    char message[1024];
};

struct Report {
    Fault fault;             // fault.kind is empty when there was none
    uint32_t ub_high_water;  // bytes of UB the hungriest block had reserved
};

// Runs `body(context)` once per block, spread over threads. Returns false and fills report->fault
// if one faulted.
bool run_blocks(const Launch &launch, void (*body)(void *), void *context, Report *report);

// Ends the process with the fault's text: host code in an .asc file has no other way to hear of it.
void run_or_die(uint32_t blocks, void (*body)(void *), void *context);

// `kernel<<<blocks, l2ctrl, stream>>>(args…)` is rewritten to `::twin::configure(blocks, l2ctrl,
// stream)(kernel)(args…)`.
template <typename Kernel>
struct Call {
    uint32_t blocks;
    Kernel *kernel;
    template <typename... Args>
    void operator()(Args... args) const {
        auto body = [&] { kernel(args...); };
        run_or_die(
            blocks, [](void *context) { (*static_cast<decltype(body) *>(context))(); }, &body);
    }
};

struct Configured {
    uint32_t blocks;
    template <typename Kernel>
    Call<Kernel> operator()(Kernel &kernel) const {
        return {blocks, &kernel};
    }
};

inline Configured configure(uint32_t blocks, void * /*l2ctrl*/, void * /*stream*/) {
    return {blocks};
}

}  // namespace twin

namespace AscendC {

inline uint32_t GetBlockIdx() {
    return twin::block().index;
}
inline uint32_t GetBlockNum() {
    return twin::block().count;
}

}  // namespace AscendC
