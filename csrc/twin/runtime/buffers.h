// The buffers in UB: which one an operand lies in, and in which hands it is.
#pragma once

#include <string>
#include <vector>

#include "order.h"
#include "observer.h"

namespace twin {

struct Buffer {
    uint32_t offset, bytes;
    uint32_t number, of;  // 0-based among its queue's
    AscendC::TPosition from, to;
    bool queue;
    bool gone;     // its TPipe was Reset or destroyed
    uint8_t turn;  // which AllocTensor has it now, as tensors count them
    Queue::State state;
    Where made;
    Where handed_out;  // the last AllocTensor
    Where taken_back;  // `gone`
    Where changed;     // the last of AllocTensor, EnQue, DeQue, FreeTensor
    Clock filled;      // EnQue: what DeQue waits for
    Clock emptied;     // FreeTensor: what the next AllocTensor waits for
};

class Buffers {
  public:
    Buffers() : owner_(kUbMax / kDataBlock, 0) {}
    void clear();
    void add(uint32_t offset, uint32_t bytes, uint32_t num, AscendC::TPosition position,
             Where where);
    void belong_to(const Queue &queue);
    // The buffer that a tensor lies in; null: none that is known.
    const Buffer *of(const Local &tensor, const uint8_t *ub) const;
    Buffer *slot(const Queue &queue, int slot);
    const std::vector<Buffer> &all() const { return all_; }
    // Faults if the operand leaves its buffer, or if nobody may touch that now.
    void check(const Instruction &i, const Access &access, uint64_t bytes, const uint8_t *ub) const;
    // The TPipe gives up all of its buffers.
    void take_back(Where where);
    // The kernel itself places a tensor here: what the TPipe took back is no matter any more.
    void forget_taken_back(uint64_t offset, uint64_t bytes);
    // Faults if a buffer is still in use.
    void check_end() const;

  private:
    const Buffer *at(uint64_t offset) const;

    std::vector<Buffer> all_;
    std::vector<uint32_t> owner_;  // per data block: 1 + index of its buffer
    uint64_t top_ = 0;
};

const char *position_name(AscendC::TPosition position);
// "buffer 1 of 2 of the VECIN queue made at k.asc:14"
std::string describe(const Buffer &buffer);
// "src0: 256 bytes at UB offset 64, in buffer …"
std::string describe(const char *name, uint64_t offset, uint64_t bytes, const Buffer *buffer);

// Faults if source and destination of a vector instruction overlap as they must not: within a
// repeat otherwise than exactly, or the destination of a repeat over the source of a later one.
void check_overlap(const Instruction &i);
// Of a copy from UB to UB, whose two operands come in this order: src, dst.
void check_copy_overlap(const Instruction &i);
// Of a reduction with one result per repeat: src, dst.
void check_result_overlap(const Instruction &i);

}  // namespace twin
