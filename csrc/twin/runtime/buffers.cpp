#include "buffers.h"

#include <algorithm>
#include <cstdio>

#include "check.h"
#include "watched.h"

namespace twin {
namespace {

using AscendC::TPosition;

std::string place(Where where) {
    const char *name = std::strrchr(where.file != nullptr ? where.file : "", '/');
    return std::string(name != nullptr ? name + 1 : where.file) + ":" + std::to_string(where.line);
}

}  // namespace

const char *position_name(TPosition position) {
    switch (position) {
        case TPosition::GM:
            return "GM";
        case TPosition::VECIN:
            return "VECIN";
        case TPosition::VECOUT:
            return "VECOUT";
        case TPosition::VECCALC:
            return "VECCALC";
        case TPosition::LCM:
            return "LCM";
        default:
            return "other";
    }
}

std::string describe(const Buffer &b) {
    if (!b.queue) {
        return "the " + std::to_string(b.bytes) + "-byte buffer made at " + place(b.made);
    }
    std::string positions = position_name(b.from);
    if (b.from != b.to) {
        positions += std::string(" to ") + position_name(b.to);
    }
    return "buffer " + std::to_string(b.number + 1) + " of " + std::to_string(b.of) + " of the " +
           positions + " queue made at " + place(b.made);
}

std::string describe(const char *name, uint64_t offset, uint64_t bytes, const Buffer *buffer) {
    std::string text = std::string(name) + ": " + std::to_string(bytes) + " bytes at UB offset " +
                       std::to_string(static_cast<long long>(offset));
    return buffer == nullptr ? text : text + ", in " + describe(*buffer);
}

void Buffers::clear() {
    all_.clear();
    std::fill(owner_.begin(), owner_.begin() + std::ptrdiff_t(top_), 0);
    top_ = 0;
}

void Buffers::add(uint32_t offset, uint32_t bytes, uint32_t num, TPosition position, Where where) {
    for (uint32_t i = 0; i < num; ++i) {
        Buffer b{};
        b.offset = offset + i * bytes;
        b.bytes = bytes;
        b.number = i;
        b.of = num;
        b.from = b.to = position;
        b.made = where;
        all_.push_back(b);
        const uint64_t end = std::min<uint64_t>(
            (uint64_t(b.offset) + bytes + kDataBlock - 1) / kDataBlock, owner_.size());
        for (uint64_t cell = b.offset / kDataBlock; cell < end; ++cell) {
            owner_[cell] = uint32_t(all_.size());
        }
        top_ = std::max(top_, end);
    }
}

void Buffers::belong_to(const Queue &queue) {
    for (uint8_t i = 0; i < queue.num; ++i) {
        if (Buffer *b = slot(queue, i)) {
            b->queue = true;
            b->number = i;
            b->of = queue.num;
            b->from = queue.from;
            b->to = queue.to;
        }
    }
}

const Buffer *Buffers::at(uint64_t offset) const {
    const uint64_t cell = offset / kDataBlock;
    if (cell >= owner_.size() || owner_[cell] == 0) {
        return nullptr;
    }
    const Buffer &b = all_[owner_[cell] - 1];
    return offset - b.offset < b.bytes ? &b : nullptr;
}

Buffer *Buffers::slot(const Queue &queue, int slot) {
    return const_cast<Buffer *>(at(queue.offset + uint64_t(slot) * queue.len));
}

const Buffer *Buffers::of(const Local &tensor, const uint8_t *ub) const {
    const auto offset = static_cast<uint64_t>(tensor.address - ub);
    // A part of a tensor that begins past its end has "less than nothing" left: it still belongs
    // to the buffer before that end.
    const auto left = static_cast<int32_t>(tensor.bytes);
    return left > 0 ? at(offset) : at(offset + uint64_t(int64_t(left)) - 1);
}

void Buffers::check(const Instruction &i, const Access &access, uint64_t bytes,
                    const uint8_t *ub) const {
    const auto offset = static_cast<uint64_t>(access.address - ub);
    const Buffer *b = access.tensor != nullptr ? of(*access.tensor, ub) : at(offset);
    const char *name = op_name(i.op);
    const char *verb = access.write ? "writes" : "reads";
    const auto n = static_cast<unsigned long long>(bytes);
    if (b == nullptr) {
        const auto end = access.tensor == nullptr ? 0
                                                  : int64_t(access.tensor->address - ub) +
                                                        static_cast<int32_t>(access.tensor->bytes);
        if (end > 0 && int64_t(offset + bytes) > end) {
            fault_of(i.where, "mem", "buffer-bounds", describe(access.name, offset, bytes, nullptr),
                     "%s: operand %s %s %llu bytes of a tensor that has %lld", name, access.name,
                     verb, n, static_cast<long long>(end) - static_cast<long long>(offset));
        }
        return;
    }
    if (__builtin_expect(offset < b->offset || offset + bytes > uint64_t(b->offset) + b->bytes,
                         0)) {
        const auto left = int64_t(b->offset) + b->bytes - int64_t(offset);
        fault_of(i.where, "mem", "buffer-bounds", describe(access.name, offset, bytes, b),
                 "%s: operand %s %s %llu bytes from UB offset %llu on, where %s has %lld left",
                 name, access.name, verb, n, static_cast<unsigned long long>(offset),
                 describe(*b).c_str(), static_cast<long long>(left));
    }
    if (b->gone) {
        fault_of(i.where, "mem", "use-after-free", describe(access.name, offset, bytes, b),
                 "%s: operand %s %s %s, which the TPipe took back at %s", name, access.name, verb,
                 describe(*b).c_str(), place(b->taken_back).c_str());
    }
    if (!b->queue) {
        return;
    }
    if (b->state != Queue::kFree && access.tensor != nullptr && access.tensor->buffer >= 0 &&
        access.tensor->turn != b->turn) {
        fault_of(i.where, "mem", "use-after-free", describe(access.name, offset, bytes, b),
                 "%s: operand %s is a tensor that was freed: AllocTensor at %s has handed out %s "
                 "again",
                 name, access.name, place(b->handed_out).c_str(), describe(*b).c_str());
    }
    if (b->state == Queue::kFree) {
        const bool never = b->changed.file == nullptr;
        fault_of(i.where, "mem", "use-after-free", describe(access.name, offset, bytes, b),
                 "%s: operand %s %s %s, which %s%s", name, access.name, verb, describe(*b).c_str(),
                 never ? "no AllocTensor has handed out" : "was freed at ",
                 never ? "" : place(b->changed).c_str());
    }
    if (b->state == Queue::kQueued && access.write) {
        fault_of(i.where, "mem", "queue-overwrite", describe(access.name, offset, bytes, b),
                 "%s: operand %s writes %s, which was enqueued at %s and not yet taken out", name,
                 access.name, describe(*b).c_str(), place(b->changed).c_str());
    }
    if ((i.pipe == Pipe::kMTE2 && access.write && b->from == TPosition::VECOUT) ||
        (i.pipe == Pipe::kMTE3 && !access.write && b->to == TPosition::VECIN)) {
        fault_of(i.where, "mem", "queue-position", describe(access.name, offset, bytes, b),
                 "%s: operand %s %s %s: %s", name, access.name, verb, describe(*b).c_str(),
                 access.write ? "a VECOUT queue is filled by the vector unit, not from GM"
                              : "a VECIN queue is emptied by the vector unit, not to GM");
    }
}

void Buffers::take_back(Where where) {
    for (Buffer &b : all_) {
        b.taken_back = b.gone ? b.taken_back : where;
        b.gone = true;
    }
}

void Buffers::forget_taken_back(uint64_t offset, uint64_t bytes) {
    const uint64_t end = std::min<uint64_t>((offset + bytes + kDataBlock - 1) / kDataBlock, top_);
    for (uint64_t cell = offset / kDataBlock; cell < end; ++cell) {
        if (owner_[cell] != 0 && all_[owner_[cell] - 1].gone) {
            owner_[cell] = 0;
        }
    }
}

void Buffers::check_end() const {
    for (const Buffer &b : all_) {
        if (!b.queue || b.state == Queue::kFree || at(b.offset) != &b) {
            continue;
        }
        if (b.state == Queue::kQueued) {
            block().op = Op::EnQue;
            fault_of(b.changed, "mem", "queue-left", describe(b),
                     "the tensor enqueued here is still in its queue when the kernel ends: %s",
                     describe(b).c_str());
        }
        block().op = Op::AllocTensor;
        const bool moved = b.changed.line != b.handed_out.line;
        fault_of(b.handed_out, "mem", "queue-leak", describe(b),
                 "the tensor handed out here%s%s is never given back with FreeTensor: %s",
                 moved ? " and taken out of the queue at " : "",
                 moved ? place(b.changed).c_str() : "", describe(b).c_str());
    }
}

}  // namespace twin
