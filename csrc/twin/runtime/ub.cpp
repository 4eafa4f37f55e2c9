// UB, queues, flags and copies: the state of a block outside its arithmetic.
#include "twin/runtime.h"

#include "check.h"

namespace twin {
namespace {

// Fills reserved UB with a pattern that is a NaN as float, as half and as bfloat16_t, so that what
// nobody wrote is never a harmless zero.
void poison(void *address, uint64_t bytes) {
    const uint16_t pattern = 0x7fa5;
    auto *at = static_cast<uint8_t *>(address);
    for (uint64_t i = 0; i + sizeof pattern <= bytes; i += sizeof pattern) {
        std::memcpy(at + i, &pattern, sizeof pattern);
    }
}

// Copies from memory that the caches have not seen: a plain loop of wide moves with the lines ahead
// asked for early. The C library's memcpy takes `rep movsb` at these sizes, which is up to twice as
// slow on some CPUs.
void stream(uint8_t *to, const uint8_t *from, uint32_t bytes) {
    typedef uint64_t Wide __attribute__((vector_size(32), aligned(1), may_alias));
    constexpr uint32_t kStep = 2 * sizeof(Wide);  // one cache line
    constexpr uint32_t kAhead = 4096;             // bytes; measured best of 512 to 8192
    uint32_t i = 0;
    for (; i + kStep <= bytes; i += kStep) {
        __builtin_prefetch(from + i + kAhead);
        const Wide first = *reinterpret_cast<const Wide *>(from + i);
        const Wide second = *reinterpret_cast<const Wide *>(from + i + sizeof(Wide));
        *reinterpret_cast<Wide *>(to + i) = first;
        *reinterpret_cast<Wide *>(to + i + sizeof(Wide)) = second;
    }
    std::memcpy(to + i, from + i, bytes - i);
}

void fill(uint8_t *begin, uint8_t *end, const void *element, uint32_t size) {
    for (; begin + size <= end; begin += size) {
        std::memcpy(begin, element, size);
    }
}

void check_burst(const Burst &burst, Where where) {
    if (burst.len > 2097151 || burst.count > 4095) {
        fault(where, "mem", "copy-params",
              "DataCopyPad of %u bursts of %u bytes; at most 4095 bursts of 2097151 bytes",
              burst.count, burst.len);
    }
}

bool known_event(const Arch &arch, int32_t id) {
    return id >= 0 && unsigned(id) < arch.event_ids;
}

uint8_t &flag(AscendC::HardEvent event, int32_t id) {
    return block().flags[static_cast<int>(event)][id];
}

}  // namespace

uint64_t round_to_block(uint64_t bytes) {
    return (bytes + kDataBlock - 1) / kDataBlock * kDataBlock;
}

uint32_t reserve(const Arch &arch, uint32_t num, uint32_t len, Where where) {
    Block &b = block();
    const uint64_t wanted = num * round_to_block(len);
    if (b.ub_used + wanted > arch.ub_bytes) {
        fault(
            where, "mem", "ub-budget",
            "InitBuffer asks for %u x %u bytes of UB; %u of the %u bytes of %s are taken already. "
            "Make the tile or the number of buffers smaller",
            num, len, b.ub_used, arch.ub_bytes, arch.name);
    }
    b.buffers += num;
    if (b.buffers > 64) {
        fault(where, "mem", "buffer-count", "the kernel has %u buffers; a TPipe holds at most 64",
              b.buffers);
    }
    const uint32_t offset = b.ub_used;
    b.ub_used += static_cast<uint32_t>(wanted);
    poison(b.ub + offset, wanted);
    return offset;
}

int32_t fetch_event(const Arch &arch, AscendC::HardEvent event) {
    // Ids 6 and 7 are the system's on the architectures that have them.
    const uint32_t usable = arch.event_ids > 6 ? 6 : arch.event_ids;
    uint8_t &next = block().next_event[static_cast<int>(event)];
    const int32_t id = next;
    next = static_cast<uint8_t>((next + 1) % usable);
    return id;
}

void set_flag(const Arch &arch, AscendC::HardEvent event, int32_t id, Where where) {
    if (!known_event(arch, id)) {
        fault(where, "sync", "event-id", "SetFlag with event id %d; %s has 0 to %u", id, arch.name,
              arch.event_ids - 1);
    }
    if (flag(event, id) != 0) {
        fault(where, "sync", "flag-set-twice",
              "SetFlag of event id %d that is set already: each SetFlag needs its WaitFlag", id);
    }
    flag(event, id) = 1;
}

void wait_flag(const Arch &arch, AscendC::HardEvent event, int32_t id, Where where) {
    if (!known_event(arch, id)) {
        fault(where, "sync", "event-id", "WaitFlag with event id %d; %s has 0 to %u", id, arch.name,
              arch.event_ids - 1);
    }
    if (flag(event, id) == 0) {
        fault(where, "sync", "flag-not-set",
              "WaitFlag for event id %d that no SetFlag has set: a device hangs here", id);
    }
    flag(event, id) = 0;
}

void Queue::init(const Arch &arch, uint32_t buffers, uint32_t bytes, Where where) {
    if (buffers == 0 || buffers > kMaxBuffers) {
        fault(where, "mem", "queue-buffers",
              "InitBuffer asks for %u buffers in one queue; 1 to %u are possible", buffers,
              kMaxBuffers);
    }
    offset = reserve(arch, buffers, bytes, where);
    num = static_cast<uint8_t>(buffers);
    len = static_cast<uint32_t>(round_to_block(bytes));  // fits: reserve has checked it
}

int16_t Queue::alloc(Where where) {
    for (uint8_t i = 0; i < num; ++i) {
        const uint8_t slot = static_cast<uint8_t>((next + i) % num);
        if (state[slot] == kFree) {
            state[slot] = kTaken;
            next = static_cast<uint8_t>((slot + 1) % num);
            return slot;
        }
    }
    if (num == 0) {
        fault(where, "mem", "no-init-buffer", "AllocTensor on a queue without InitBuffer");
    }
    fault(where, "sync", "queue-deadlock",
          "AllocTensor finds none of the queue's %u buffers free: a device hangs here. "
          "Free a tensor first, or give InitBuffer more buffers",
          num);
}

void Queue::enque(int16_t slot, int depth, Where where) {
    if (slot < 0 || slot >= num || state[slot] != kTaken) {
        fault(where, "mem", "queue-tensor",
              "EnQue of a tensor that this queue did not hand out, or that was queued or freed "
              "already");
    }
    if (queued >= (depth > 0 ? depth : 1)) {
        fault(where, "mem", "queue-overflow",
              "EnQue of tensor number %d on a queue of depth %d: undefined on a device. DeQue "
              "first, or declare the queue deeper",
              queued + 1, depth);
    }
    state[slot] = kQueued;
    order[(head + queued) % kMaxBuffers] = static_cast<uint8_t>(slot);
    ++queued;
}

int16_t Queue::deque(Where where) {
    if (queued == 0) {
        fault(where, "sync", "queue-empty",
              "DeQue on an empty queue: a device hangs here. EnQue first");
    }
    const uint8_t slot = order[head];
    head = static_cast<uint8_t>((head + 1) % kMaxBuffers);
    --queued;
    state[slot] = kTaken;
    return slot;
}

void Queue::free(int16_t slot, Where where) {
    if (slot < 0 || slot >= num || state[slot] != kTaken) {
        fault(where, "mem", "queue-tensor",
              "FreeTensor of a tensor that this queue did not hand out, or that is queued or freed "
              "already");
    }
    state[slot] = kFree;
}

void copy_pad_in(void *dst, const void *src, const Burst &burst, const Padding &padding,
                 Where where) {
    check_burst(burst, where);
    const uint32_t left = padding.left;
    const uint32_t right = padding.right;
    if (left > kDataBlock || right > kDataBlock) {
        fault(where, "mem", "copy-params",
              "DataCopyPad with paddings of %u and %u bytes; at most 32 each", left, right);
    }
    if (burst.len == 0) {
        return;
    }
    const uint32_t whole = uint32_t(round_to_block(left + burst.len + right));
    auto *to = static_cast<uint8_t *>(dst);
    auto *from = static_cast<const uint8_t *>(src);
    for (uint32_t i = 0; i < burst.count; ++i) {
        check_operand(where, "DataCopyPad", to, whole);
        uint8_t *data = to + left;
        uint8_t *end = data + burst.len;
        stream(data, from, burst.len);
        if (left + right == 0) {
            fill(end, to + whole, from, padding.element);
        } else if (padding.value != nullptr) {
            fill(to, data, padding.value, padding.element);
            fill(end, end + right, padding.value, padding.element);
            fill(end + right, to + whole, from, padding.element);
        } else {
            poison(to, left);
            poison(end, to + whole - end);
        }
        to += whole + uint64_t(burst.dst_stride) * kDataBlock;
        from += burst.len + uint64_t(burst.src_stride);
    }
}

void copy_pad_out(void *dst, const void *src, const Burst &burst, Where where) {
    check_burst(burst, where);
    const uint32_t whole = uint32_t(round_to_block(burst.len));
    auto *to = static_cast<uint8_t *>(dst);
    auto *from = static_cast<const uint8_t *>(src);
    for (uint32_t i = 0; i < burst.count; ++i) {
        check_operand(where, "DataCopyPad", from, burst.len);
        std::memcpy(to, from, burst.len);
        from += whole + uint64_t(burst.src_stride) * kDataBlock;
        to += burst.len + uint64_t(burst.dst_stride);
    }
}

}  // namespace twin
