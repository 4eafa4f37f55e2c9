// UB, queues and flags.
#include <cstdio>
#include <cstdlib>

#include "check.h"
#include "twin/pipe.h"
#include "ub.h"

namespace twin {

// Fills reserved UB with a pattern that is a NaN as float, as half and as bfloat16_t, so that what
// nobody wrote is never a harmless zero.
void poison(void *address, uint64_t bytes) {
    typedef uint16_t Wide __attribute__((vector_size(32), aligned(1), may_alias));
    const uint16_t pattern = 0x7fa5;
    const Wide wide = Wide{} + pattern;
    auto *at = static_cast<uint8_t *>(address);
    uint64_t i = 0;
    for (; i + sizeof wide <= bytes; i += sizeof wide) {
        *reinterpret_cast<Wide *>(at + i) = wide;
    }
    for (; i + sizeof pattern <= bytes; i += sizeof pattern) {
        std::memcpy(at + i, &pattern, sizeof pattern);
    }
}

namespace {

using AscendC::HardEvent;
using AscendC::TPosition;

constexpr uint32_t kMostBuffers = 64;

uint32_t usable_events(const Arch &arch) {
    return arch.event_ids - arch.reserved_events;
}

void known_event(const Arch &arch, int32_t id, const char *what, Where where) {
    if (id < 0 || unsigned(id) >= arch.event_ids) {
        fault(where, "sync", "event-id", "%s with event id %d; %s has 0 to %u", what, id, arch.name,
              arch.event_ids - 1);
    }
}

uint8_t &flag(HardEvent event, int32_t id) {
    return block().flags[static_cast<int>(event)][id];
}

uint8_t &taken_events(HardEvent event) {
    if (event >= HardEvent::MAX) {
        fault({nullptr, 0}, "sync", "event-id", "this HardEvent has a pipe of the cube unit");
    }
    return block().taken_events[static_cast<int>(event)];
}

const char *position_name(TPosition position) {
    return position == TPosition::VECIN     ? "VECIN"
           : position == TPosition::VECOUT  ? "VECOUT"
           : position == TPosition::VECCALC ? "VECCALC"
           : position == TPosition::GM      ? "GM"
                                            : "other";
}

void undefine(uint32_t offset, uint32_t bytes) {
    Block &b = block();
    poison(b.ub + offset, bytes);
    if (b.observer != nullptr) {
        b.observer->undefined(b.ub + offset, bytes);
    }
}

void high_water(uint64_t end) {
    Block &b = block();
    if (end > b.ub_high_water) {
        b.ub_high_water = static_cast<uint32_t>(end);
    }
}

}  // namespace

uint64_t round_to_block(uint64_t bytes) {
    return (bytes + kDataBlock - 1) / kDataBlock * kDataBlock;
}

// ---- TPipe and TBufPool -------------------------------------------------------------------------

void begin_pipe(void *pipe, Where where) {
    if (!in_block()) {
        std::fprintf(stderr,
                     "%s:%d: a TPipe outside of a launch. A kernel is not called like a function: "
                     "kernel<<<blocks, nullptr, stream>>>(...)\n",
                     where.file, where.line);
        std::abort();
    }
    Block &b = block();
    if (b.pipe != nullptr && b.pipe != pipe) {
        fault(where, "mem", "second-pipe",
              "a second TPipe while the first one is alive: both would give out the same UB");
    }
    b.pipe = pipe;
    reset_pipe(Op::kCount, where);
}

void reset_pipe(Op op, Where where) {
    Block &b = op == Op::kCount ? block() : mark(op);
    if (op != Op::kCount && b.observer != nullptr) {
        b.observer->buffers_taken_back(where);
    }
    if (op == Op::Reset && b.observer != nullptr) {
        b.observer->events_ended(0, b.arch->ub_bytes);
    }
    b.ub_used = 0;
    b.buffers = 0;
    std::memset(b.taken_events, 0, sizeof b.taken_events);
    std::memset(b.taken, 0, sizeof b.taken);
}

void *current_pipe(Where where) {
    Block &b = mark(Op::GetTPipePtr);
    if (b.pipe == nullptr) {
        fault(where, "mem", "no-pipe", "GetTPipePtr, and there is no TPipe");
    }
    return b.pipe;
}

uint32_t reserve(Area *area, uint32_t num, uint32_t len, TPosition position, Where where) {
    Block &b = mark(Op::InitBuffer);
    const Arch &arch = *b.arch;
    const uint64_t wanted = num * round_to_block(len);
    uint32_t offset;
    if (area != nullptr) {
        if (area->bytes == 0) {
            fault(where, "mem", "no-init-buffer", "InitBuffer from a TBufPool without InitBufPool");
        }
        if (area->used + wanted > area->bytes) {
            fault(where, "mem", "ub-budget",
                  "InitBuffer asks for %u x %u bytes of a TBufPool; %u of its %u bytes are taken "
                  "already",
                  num, len, area->used, area->bytes);
        }
        if (area->buffers + num > area->most_buffers) {
            fault(where, "mem", "buffer-count", "the TBufPool has %u buffers; it holds at most %u",
                  area->buffers + num, area->most_buffers);
        }
        offset = area->offset + area->used;
        area->used += static_cast<uint32_t>(wanted);
        area->buffers += num;
    } else {
        if (b.ub_used + wanted > arch.ub_bytes) {
            fault(where, "mem", "ub-budget",
                  "InitBuffer asks for %u x %u bytes of UB; %u of the %u bytes of %s are taken "
                  "already",
                  num, len, b.ub_used, arch.ub_bytes, arch.name);
        }
        b.buffers += num;
        if (b.buffers > kMostBuffers) {
            fault(where, "mem", "buffer-count",
                  "the kernel has %u buffers; a TPipe holds at most %u", b.buffers, kMostBuffers);
        }
        offset = b.ub_used;
        b.ub_used += static_cast<uint32_t>(wanted);
    }
    high_water(offset + wanted);
    if (b.observer != nullptr) {
        b.observer->buffer(offset, static_cast<uint32_t>(round_to_block(len)), num, position,
                           where);
    }
    poison(b.ub + offset, wanted);
    return offset;
}

void init_pool(Area *area, Area &pool, const Area *shared, uint32_t len, uint32_t most_buffers,
               Where where) {
    Block &b = mark(Op::InitBufPool);
    const uint64_t wanted = round_to_block(len);
    pool = {};
    pool.most_buffers = most_buffers;
    pool.bytes = static_cast<uint32_t>(wanted);
    if (shared != nullptr) {
        if (shared->bytes == 0 || wanted > shared->bytes) {
            fault(where, "mem", "ub-budget",
                  "InitBufPool asks for %u bytes at the place of a TBufPool of %u bytes", len,
                  shared->bytes);
        }
        pool.offset = shared->offset;
        return;
    }
    const uint32_t used = area != nullptr ? area->used : b.ub_used;
    const uint32_t have = area != nullptr ? area->bytes : b.arch->ub_bytes;
    if (used + wanted > have) {
        fault(where, "mem", "ub-budget",
              "InitBufPool asks for %u bytes; %u of the %u bytes of %s are taken already", len,
              used, have, area != nullptr ? "its TBufPool" : b.arch->name);
    }
    if (area != nullptr) {
        pool.offset = area->offset + area->used;
        area->used += pool.bytes;
    } else {
        pool.offset = b.ub_used;
        b.ub_used += pool.bytes;
    }
    high_water(pool.offset + wanted);
    poison(b.ub + pool.offset, wanted);
}

void reset_pool(Area &pool, Where) {
    Block &b = mark(Op::Reset);
    if (b.observer != nullptr) {
        b.observer->events_ended(pool.offset, pool.bytes);
    }
    undefine(pool.offset, pool.bytes);  // its buffers stay, what they held does not
}

Local part_of_buffer(uint32_t offset, uint32_t have, uint64_t at, uint64_t len, TPosition position,
                     Where where) {
    Block &b = mark(Op::Get);
    if (have == 0) {
        fault(where, "mem", "no-init-buffer", "TBuf::Get without InitBuffer");
    }
    if (at % kDataBlock != 0) {
        fault(where, "mem", "alignment",
              "GetWithOffset starts at byte %llu of its buffer, which is not a multiple of %u",
              static_cast<unsigned long long>(at), kDataBlock);
    }
    if (at + len > have) {
        fault(where, "mem", "buffer-bounds",
              "Get of %llu bytes from byte %llu on of a TBuf of %u bytes",
              static_cast<unsigned long long>(len), static_cast<unsigned long long>(at), have);
    }
    return {b.ub + offset + at, static_cast<uint32_t>(len), -1, position, 0};
}

Local rest_of_ub(TPosition position, Where where) {
    Block &b = mark(Op::PopStackBuffer);
    const uint32_t bytes = b.arch->ub_bytes - b.ub_used;
    high_water(b.arch->ub_bytes);
    if (b.observer != nullptr && bytes != 0) {
        b.observer->buffer(b.ub_used, bytes, 1, position, where);
    }
    poison(b.ub + b.ub_used, bytes);
    return {b.ub + b.ub_used, bytes, -1, position, 0};
}

Local static_tensor(TPosition position, uint64_t offset, uint64_t bytes, Where where) {
    Block &b = block();
    if (offset % kDataBlock != 0) {
        fault(where, "mem", "alignment",
              "LocalTensor at UB offset %llu, which is not a multiple of %u",
              static_cast<unsigned long long>(offset), kDataBlock);
    }
    if (offset + bytes > b.arch->ub_bytes) {
        fault(where, "mem", "ub-budget",
              "LocalTensor of %llu bytes at UB offset %llu, which is not all in the %u bytes of UB "
              "of %s",
              static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(offset),
              b.arch->ub_bytes, b.arch->name);
    }
    if (!b.ub_poisoned) {
        b.ub_poisoned = true;
        poison(b.ub + b.ub_used, b.arch->ub_bytes - b.ub_used);
    }
    high_water(offset + bytes);
    if (b.observer != nullptr) {
        b.observer->placed(static_cast<uint32_t>(offset), bytes);
    }
    return {b.ub + offset, static_cast<uint32_t>(bytes), -1, position, 0};
}

// ---- flags --------------------------------------------------------------------------------------

int32_t fetch_event(HardEvent event, Where where) {
    const uint8_t taken = taken_events(event);
    mark(Op::FetchEventID);
    for (uint32_t id = 0; id < usable_events(*block().arch); ++id) {
        if ((taken >> id & 1u) == 0) {
            return static_cast<int32_t>(id);
        }
    }
    fault(where, "sync", "no-event-id",
          "all of the %u event ids that %s has for this HardEvent are "
          "taken by AllocEventID",
          usable_events(*block().arch), block().arch->name);
}

int32_t alloc_event(HardEvent event, Where where) {
    const int32_t id = fetch_event(event, where);
    mark(Op::AllocEventID);
    taken_events(event) |= static_cast<uint8_t>(1u << id);
    return id;
}

void release_event(HardEvent event, int32_t id, Where where) {
    const Arch &arch = *mark(Op::ReleaseEventID).arch;
    known_event(arch, id, "ReleaseEventID", where);
    uint8_t &taken = taken_events(event);
    if ((taken >> id & 1u) == 0) {
        fault(where, "sync", "event-released",
              "ReleaseEventID of event id %d, which AllocEventID has not given out", id);
    }
    taken = static_cast<uint8_t>(taken & ~(1u << id));
}

void set_flag(HardEvent event, int32_t id, Where where) {
    const Arch &arch = *mark(Op::SetFlag).arch;
    known_event(arch, id, "SetFlag", where);
    if (flag(event, id) != 0) {
        fault(where, "sync", "flag-set-twice", "SetFlag of event id %d that is set already", id);
    }
    if (block().observer != nullptr) {
        block().observer->flag(event, id, true, where);
    }
    flag(event, id) = 1;
}

void wait_flag(HardEvent event, int32_t id, Where where) {
    const Arch &arch = *mark(Op::WaitFlag).arch;
    known_event(arch, id, "WaitFlag", where);
    if (flag(event, id) == 0) {
        fault(where, "sync", "flag-not-set",
              "WaitFlag for event id %d that no SetFlag has set: a device hangs here", id);
    }
    if (block().observer != nullptr) {
        block().observer->flag(event, id, false, where);
    }
    flag(event, id) = 0;
}

// ---- queues -------------------------------------------------------------------------------------

void Queue::init(Area *area, uint32_t buffers, uint32_t bytes, Where where) {
    mark(Op::InitBuffer);
    if (buffers == 0 || buffers > kMaxBuffers) {
        fault(where, "mem", "queue-buffers",
              "InitBuffer asks for %u buffers in one queue; 1 to %u are possible", buffers,
              kMaxBuffers);
    }
    offset = reserve(area, buffers, bytes, from, where);
    num = static_cast<uint8_t>(buffers);
    len = static_cast<uint32_t>(round_to_block(bytes));  // fits: reserve has checked it
    next = head = queued = 0;
    std::memset(state, 0, sizeof state);
    if (block().observer != nullptr) {
        block().observer->queue(QueueStep::kInit, *this, -1, where);
    }
}

Local Queue::tensor(int16_t slot, TPosition position) const {
    return {address(slot), len, slot, position, turns[slot]};
}

int16_t Queue::slot_of(const Local &tensor) const {
    const int16_t slot = tensor.buffer;
    return slot >= 0 && slot < num && tensor.address >= address(slot) &&
                   tensor.address < address(slot) + len
               ? slot
               : int16_t{-1};
}

bool Queue::idle() const {
    for (uint8_t slot = 0; slot < num; ++slot) {
        if (state[slot] == kFree) {
            return true;
        }
    }
    return false;
}

Queue::State Queue::state_of(const Local &tensor, Where where) const {
    mark(Op::GetState);
    const int16_t slot = slot_of(tensor);
    if (slot < 0) {
        fault(where, "mem", "queue-tensor",
              "GetState of a tensor that this queue did not hand out");
    }
    return state[slot];
}

Local Queue::alloc(Where where) {
    Block &b = mark(Op::AllocTensor);
    if (num == 0) {
        fault(where, "mem", "no-init-buffer", "AllocTensor on a queue without InitBuffer");
    }
    uint8_t slot = next;
    for (uint8_t i = 0; state[slot] != kFree; ++i) {
        if (i == num) {
            fault(where, "sync", "queue-deadlock",
                  "AllocTensor finds none of the queue's %u buffers free: a device hangs here",
                  num);
        }
        slot = static_cast<uint8_t>((slot + 1) % num);
    }
    // A tensor holds event ids of its position until it is freed, and there are only so many.
    uint8_t &taken = b.taken[static_cast<int>(from)];
    if (taken >= b.arch->event_ids) {
        fault(where, "sync", "queue-events",
              "AllocTensor number %u at once on the queues of %s: %s has event ids for %u",
              taken + 1u, position_name(from), b.arch->name, b.arch->event_ids);
    }
    ++turns[slot];
    if (b.observer != nullptr) {
        b.observer->queue(QueueStep::kAlloc, *this, slot, where);
    }
    ++taken;
    state[slot] = kTaken;
    next = static_cast<uint8_t>((slot + 1) % num);
    return tensor(slot, from == TPosition::GM ? to : from);
}

namespace {

// The positions of this step, where they are not the queue's own (EnQue<src, dst>).
class Step {
  public:
    Step(Queue &queue, TPosition from, TPosition to)
        : queue_(queue), from_(queue.from), to_(queue.to) {
        queue.from = from;
        queue.to = to;
    }
    ~Step() {
        queue_.from = from_;
        queue_.to = to_;
    }
    Step(const Step &) = delete;
    Step &operator=(const Step &) = delete;

  private:
    Queue &queue_;
    TPosition from_, to_;
};

bool is_taken(Queue::State state) {
    return state == Queue::kTaken || state == Queue::kDequeued;
}

}  // namespace

void Queue::enque(const Local &tensor, int depth, TPosition src, TPosition dst, Where where) {
    mark(Op::EnQue);
    const int16_t slot = slot_of(tensor);
    if (slot < 0 || !is_taken(state[slot])) {
        fault(where, "mem", "queue-tensor",
              "EnQue of a tensor that this queue did not hand out, or that was queued or freed "
              "already");
    }
    if (queued >= (depth > 0 ? depth : num)) {
        fault(where, "mem", "queue-overflow",
              "EnQue of tensor number %d on a queue of depth %d: undefined on a device", queued + 1,
              depth);
    }
    if (block().observer != nullptr) {
        const Step step(*this, src, dst);
        block().observer->queue(QueueStep::kEnQue, *this, slot, where);
    }
    state[slot] = kQueued;
    order[(head + queued) % kMaxBuffers] = static_cast<uint8_t>(slot);
    ++queued;
}

Local Queue::deque(TPosition src, TPosition dst, Where where) {
    mark(Op::DeQue);
    if (queued == 0) {
        fault(where, "sync", "queue-empty", "DeQue on an empty queue: a device hangs here");
    }
    const uint8_t slot = order[head];
    if (block().observer != nullptr) {
        const Step step(*this, src, dst);
        block().observer->queue(QueueStep::kDeQue, *this, slot, where);
    }
    head = static_cast<uint8_t>((head + 1) % kMaxBuffers);
    --queued;
    state[slot] = kDequeued;
    return tensor(slot, to == TPosition::GM ? from : to);
}

void Queue::deque_in_place(Local &tensor, Where where) {
    // In place the tensor itself says which buffer it is; the queue keeps no order (assumed: a
    // tensor that names none stands for the oldest one).
    const int16_t slot = slot_of(tensor);
    if (slot >= 0 && state[slot] == kQueued) {
        uint8_t at = 0;
        while (order[(head + at) % kMaxBuffers] != slot) {
            ++at;
        }
        for (; at > 0; --at) {
            order[(head + at) % kMaxBuffers] = order[(head + at - 1) % kMaxBuffers];
        }
        order[head] = static_cast<uint8_t>(slot);
    } else if (slot >= 0) {
        mark(Op::DeQue);
        fault(where, "sync", "queue-empty",
              "DeQue of a tensor that is not in the queue: a device hangs here");
    }
    tensor = deque(from, to, where);
}

void Queue::free(const Local &tensor, Where where) {
    Block &b = mark(Op::FreeTensor);
    const int16_t slot = slot_of(tensor);
    if (slot < 0 || !is_taken(state[slot])) {
        fault(where, "mem", "queue-tensor",
              "FreeTensor of a tensor that this queue did not hand out, or that is queued or freed "
              "already");
    }
    if (b.observer != nullptr) {
        b.observer->queue(QueueStep::kFree, *this, slot, where);
    }
    uint8_t &taken = b.taken[static_cast<int>(from)];
    taken = static_cast<uint8_t>(taken - (taken != 0));
    state[slot] = kFree;
}

void pipe_barrier(pipe_t pipe, Where where) {
    Block &b = mark(Op::PipeBarrier);
    if (pipe == PIPE_S) {
        fault(where, "sync", "barrier-pipe",
              "PipeBarrier<PIPE_S>: the scalar unit works in order and has no barrier");
    }
    if (b.observer != nullptr) {
        b.observer->barrier(pipe, where);
    }
}

void scalar_access(const Local &tensor, uint64_t offset, uint32_t bytes, bool write, Where where) {
    const Block &b = block();
    const uint64_t at = static_cast<uint64_t>(tensor.address - b.ub) + offset;
    if (__builtin_expect(at + bytes > b.arch->ub_bytes, 0)) {
        fault(where, "mem", "out-of-bounds",
              "%s of %u bytes at UB offset %lld, which is not in the %u bytes of UB of %s",
              write ? "SetValue" : "GetValue", bytes, static_cast<long long>(at), b.arch->ub_bytes,
              b.arch->name);
    }
    if (__builtin_expect(b.observer != nullptr, 0)) {
        b.observer->scalar(tensor, offset, bytes, write, where);
    }
}

void scalar_access_gm(const Global &tensor, uint64_t offset, uint32_t bytes, bool write,
                      Where where) {
    block().observer->scalar_gm(tensor, offset, bytes, write, where);
}

}  // namespace twin
