// The accesses of instructions whose bytes depend on data: addresses in memory, bits of a mask.
#pragma once

#include <vector>

#include "lanes.h"

namespace twin {

// Collects single runs of one operand. Where nothing watches, only their span is kept, which is all
// that the cheap checks look at.
class Runs {
  public:
    Runs(const char *name, const Local &tensor, bool write, uint8_t align = 1)
        : one_(bytes_of(name, tensor, 0, write, align)), watched_(block().observer != nullptr) {}

    // `bytes` bytes from byte `at` of the operand on.
    void add(uint64_t at, uint64_t bytes) {
        if (bytes == 0) {
            return;
        }
        if (!watched_) {
            low_ = at < low_ ? at : low_;
            high_ = at + bytes > high_ ? at + bytes : high_;
        } else if (!list_.empty() && at == end_) {
            list_.back().bytes += bytes;
            end_ += bytes;
        } else {
            list_.push_back(one_);
            list_.back().address += at;
            list_.back().bytes = bytes;
            end_ = at + bytes;
        }
    }
    void append_to(std::vector<Access> *to) const {
        if (!watched_) {
            if (high_ > low_) {
                Access span = one_;
                span.address += low_;
                span.bytes = high_ - low_;
                to->push_back(span);
            }
            return;
        }
        to->insert(to->end(), list_.begin(), list_.end());
    }

  private:
    Access one_;
    bool watched_;
    uint64_t low_ = UINT64_MAX, high_ = 0, end_ = 0;
    std::vector<Access> list_;
};

inline void begin(Op op, Pipe pipe, Where where, uint32_t repeats,
                  const std::vector<Access> &accesses, bool atomic = false) {
    begin(
        Instruction{op, pipe, where, repeats, accesses.data(), unsigned(accesses.size()), atomic});
}

// `count` bursts of `bytes`, `step` bytes apart: made where it stays. (Copying a description that
// has just been written field by field makes the processor wait for the fields.)
template <typename Tensor>
inline Access bursts_of(const char *name, const Tensor &tensor, uint64_t bytes, bool write,
                        uint32_t count, int64_t step) {
    Access a = bytes_of(name, tensor, bytes, write);
    if (count != 1) {
        a.shape = Access::kBursts;
        a.count = count;
        a.step = step;
    }
    return a;
}

// A pattern of whole repeats.
inline Pattern whole_repeats(uint32_t repeats, uint32_t elem) {
    Pattern p{};
    p.lanes = kRepeat / elem;
    p.repeats = repeats;
    p.total = p.lanes * repeats;
    p.counted = true;
    return p;
}

// repeatTime of the functions that take it as an int32_t.
inline void check_repeat(int64_t repeat, int64_t most, Op op, Where where) {
    if (repeat < 0 || repeat > most) {
        fault(where, "mem", "repeat", "%s with a repeat count of %lld; 0 to %lld are possible",
              op_name(op), static_cast<long long>(repeat), static_cast<long long>(most));
    }
}

// The alignment of an operand whose accesses do not begin at its start.
inline void check_start(Op op, const char *name, const Local &tensor, uint8_t align, Where where) {
    if ((tensor.address - block().ub) % align != 0) {
        block().op = op;
        operand_fault(where, op_name(op), bytes_of(name, tensor, align, false, align), align);
    }
}

}  // namespace twin
