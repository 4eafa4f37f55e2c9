// The block that a thread is running, and what an instruction tells the runtime of itself.
#pragma once

#include "twin/api.h"
#include "twin/arch.h"
#include "twin/types.h"

namespace twin {

constexpr unsigned kDataBlock = 32;  // bytes
constexpr unsigned kRepeat = 256;    // bytes one vector instruction handles per repeat
constexpr unsigned kEventIds = 8;
constexpr unsigned kUbMax = 262144;  // the largest UB of any architecture: what a block allocates

// The place in the user's source that an instruction was written at.
struct Where {
    const char *file;
    int line;
    static constexpr Where here(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

// Ends the block with a fault; the launch reports it. `kind` is mem, init, race or sync; what would
// mend it and what a device says is looked up by `code` (csrc/twin/runtime/faults.cpp).
[[noreturn]] void fault(Where where, const char *kind, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// The engines of a vector core that run side by side.
enum class Pipe : uint8_t { kS, kV, kMTE2, kMTE3, kCount };
constexpr unsigned kPipes = static_cast<unsigned>(Pipe::kCount);

// A LocalTensor without its element type: two registers.
struct Local {
    uint8_t *address;
    uint32_t bytes;
    int16_t buffer;  // the buffer of its queue; -1: not a queue's
    AscendC::TPosition position;
    uint8_t turn;  // which of its buffer's AllocTensors handed it out, modulo 256
};

// A GlobalTensor without its element type. `bytes` is what SetGlobalBuffer was told; UINT64_MAX:
// nothing.
struct Global {
    uint8_t *address;
    uint64_t bytes;
};

// ---- what the vector unit works on --------------------------------------------------------------

// Which lanes of how many repeats take part: the three forms of the vector API, and the form that
// keeps the mask registers (isSetMask = false).
struct Lanes {
    enum Form : uint8_t { kCount, kMask, kBits, kRegister };
    uint64_t bits[2];  // kMask: bits[0] is the number of lanes (of elements in counter mode)
    uint32_t count;    // kCount: elements
    uint8_t repeat;
    Form form;

    static Lanes first(uint32_t count) { return {{0, 0}, count, 0, kCount}; }
    static Lanes masked(uint64_t mask, uint8_t repeat) { return {{mask, 0}, 0, repeat, kMask}; }
    static Lanes masked(const uint64_t mask[], uint8_t repeat) {
        return {{mask[0], mask[1]}, 0, repeat, kBits};
    }
    static Lanes kept(uint8_t repeat) { return {{0, 0}, 0, repeat, kRegister}; }
};

// From one data block to the next within a repeat, and from one repeat to the next: data blocks.
struct Strides {
    uint16_t dst_blk = 1, src0_blk = 1, src1_blk = 1;
    uint16_t dst_rep = 8, src0_rep = 8, src1_rep = 8;
};

// An instruction whose every result lane depends on the same lane of its sources alone.
struct Elementwise {
    Op op;
    Type dst_type, src_type;
    uint8_t sources;  // 1 or 2
    bool reads_dst;   // as MulAddDst and Axpy do
    int16_t mode;     // RoundMode, CMPMODE …: what the instruction makes of it
    Local dst, src0, src1;
    uint64_t scalar;  // the bits of its scalar operand, in the type of the source
    Lanes lanes;
    Strides strides;
    Where where;
    const Local *scalar_at = nullptr;  // a tensor whose first element is the scalar operand instead
};
void elementwise(const Elementwise &e);

template <typename T>
inline uint64_t scalar_bits(T value) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a scalar operand has at most eight bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}

// ---- the state of a block ----------------------------------------------------------------------

class Observer;  // the checked mode and the counters; csrc/twin/runtime/observer.h
struct Fiber;    // the block's place in the schedule; csrc/twin/runtime/schedule.h

struct Block {
    uint32_t index;
    uint32_t count;
    uint8_t *ub;
    const Arch *arch;             // with the switches of this launch
    Observer *observer;           // null: nothing is checked beyond what is cheap, nothing counted
    const struct Launch *launch;  // null: it does not say which GM there is
    Fiber *fiber;
    uint64_t perturb;  // seed of the ±1 ulp of approximate results; 0: none
    Op op;             // the instruction last begun: what a fault names
    uint64_t used[8];  // one bit per Op that was executed

    // UB
    uint32_t ub_used;
    uint32_t ub_high_water;
    uint32_t buffers;
    void *pipe;        // the TPipe that is alive
    bool ub_poisoned;  // the part that no TPipe reserves, for static tensors
    uint8_t taken[static_cast<int>(AscendC::TPosition::MAX)];  // AllocTensor without FreeTensor
    void *workspace;                                           // SetSysWorkspace
    uint64_t cycles;                                           // GetSystemCycle
    uint64_t control;                                          // SetCtrlSpr

    // Flags between pipes
    uint8_t flags[static_cast<int>(AscendC::HardEvent::MAX)][kEventIds];
    uint8_t taken_events[static_cast<int>(AscendC::HardEvent::MAX)];  // AllocEventID, a bit per id

    // Registers of the vector unit
    uint64_t mask[2];
    bool counter_mode;                    // SetMaskCount
    uint64_t compare_mask[2];             // Compare without a destination; Select reads it
    float accumulator;                    // GetAccVal
    uint64_t reduce_value, reduce_index;  // GetReduceMaxMinCount
    uint64_t gathered;                    // elements the last GatherMask kept
    uint32_t deq_scale_set;  // by SetDeqScale: 0 not at all, 1 one scale, 2 sixteen in deq_table
    float deq_scale;
    int16_t deq_offset;
    bool deq_signed;
    Local deq_table;
    uint16_t sort_list[4];  // elements each list gave to the last MrgSort

    // Where the last large copies came from, and where the next one will probably come from: asked
    // for while the vector unit works, as a device's copies run beside it (elementwise.cpp).
    uint64_t sources[4];
    const uint8_t *ahead;
    uint32_t ahead_bytes;

    // Copies to GM: what they do to what is there
    uint8_t atomic;  // 0 none, 1 add, 2 max, 3 min
    Type atomic_type;
    uint64_t pad_value;  // SetPadValue: its bits
    bool pad_value_set;
};

Block &block();

// ---- instructions, as the checks see them -------------------------------------------------------

// The bytes one operand reads or writes, exactly.
struct Access {
    enum Shape : uint8_t {
        kBytes,   // `bytes` from `address` on
        kBursts,  // `count` bursts of `bytes`, `step` bytes apart
        kLanes    // per repeat the lanes of a pattern; see csrc/twin/runtime/lanes.h
    };
    const char *name;  // the parameter's name in the documents: "dst", "src0"
    uint8_t *address;
    uint64_t bytes;
    int64_t step;
    uint32_t count;
    const struct Pattern *pattern;  // kLanes
    uint16_t blk, rep;              // kLanes: data blocks
    uint8_t elem;                   // kLanes: bytes of one element
    Shape shape;
    uint8_t align;  // what the address must be a multiple of (UB)
    bool write;
    bool gm;
    const Local *tensor;   // UB: the tensor it was given as
    const Global *global;  // GM: the tensor it was given as
};

struct Instruction {
    Op op;
    Pipe pipe;
    Where where;
    uint32_t repeats;  // of the vector unit; 0 for others
    const Access *accesses;
    uint32_t n;
    bool atomic;            // its writes to GM add up with those of other blocks
    bool lanewise = false;  // each lane of a result comes from the same lane of the sources
    // A bit per pipe that need not wait for its result: the instruction sets the flags itself.
    uint8_t settled = 0;
};

// GetValue and SetValue: `offset` in bytes from the tensor's address.
void scalar_access(const Local &tensor, uint64_t offset, uint32_t bytes, bool write, Where where);
void scalar_access_gm(const Global &tensor, uint64_t offset, uint32_t bytes, bool write,
                      Where where);

// ---- waiting for other blocks -------------------------------------------------------------------

// Nothing more happens in this block until `ready(context)`, which is asked under the lock that
// `change` takes; other blocks run meanwhile. If nothing can make it ready any more, a device would
// hang, so the block ends with a sync fault of this `code` and `message`.
void wait_until(bool (*ready)(void *), void *context, Where where, const char *code,
                const char *message);
// Changes what a `ready` looks at, under the lock.
void change(void (*how)(void *), void *context);
// Waits until every block before this one has ended or is in wait_until: what the blocks do from
// here to their next wait happens in ascending order of blocks, whatever threads they run on.
void wait_for_turn();

}  // namespace twin
