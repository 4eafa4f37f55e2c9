// What happens before what in a block: its pipes run side by side, and only flags, barriers and
// queues order them.
//
// Instructions are numbered in program order, and a pipe starts its own in that order. A clock
// says, per pipe, up to which number its instructions have ended. An instruction starts after what
// its pipe has waited for; nothing else: not the instruction before it on the same pipe (a
// dependent one needs a PipeBarrier), and not what the scalar unit has read or written (that needs
// an S_V, S_MTE2 or S_MTE3 flag). Scalar accesses are in order among themselves; and once the
// scalar unit has waited, everything that it issues from then on has waited too.
#pragma once

#include <vector>

#include "twin/pipe.h"

namespace twin {

struct Clock {
    uint32_t at[kPipes] = {};

    void join(const Clock &other) {
        for (unsigned p = 0; p < kPipes; ++p) {
            at[p] = other.at[p] > at[p] ? other.at[p] : at[p];
        }
    }
};

// The two sides of a flag. False: one is a pipe that a vector core does not have.
bool pipes_of(AscendC::HardEvent event, Pipe *from, Pipe *to);
// Who fills a buffer of a queue that comes from `from`, and who empties one that goes to `to`.
Pipe filler(AscendC::TPosition from);
Pipe emptier(AscendC::TPosition to);

class Order {
  public:
    Order() : flags_(size_t(AscendC::HardEvent::MAX) * kEventIds) {}

    void clear() {
        for (unsigned p = 0; p < kPipes; ++p) {
            pipes_[p] = Clock{};
            last_[p] = 0;
        }
    }

    // What instruction n, the next one, comes after if `pipe` runs it.
    Clock before(Pipe pipe, uint32_t n) const {
        Clock clock = pipes_[unsigned(pipe)];
        if (pipe == Pipe::kS) {
            clock.at[unsigned(Pipe::kS)] = n - 1;
        }
        return clock;
    }

    // `settled`: a bit per pipe that the instruction itself makes wait for its result.
    void issued(Pipe pipe, uint32_t n, uint8_t settled) {
        last_[unsigned(pipe)] = n;
        for (unsigned p = 0; settled != 0 && p < kPipes; ++p) {
            if ((settled >> p & 1) != 0) {
                join(Pipe(p), all_of(pipe));
            }
        }
    }

    // When everything that `pipe` has begun will have ended: what a flag that it sets stands for.
    Clock all_of(Pipe pipe) const {
        Clock clock = pipes_[unsigned(pipe)];
        clock.at[unsigned(pipe)] = last_[unsigned(pipe)];
        return clock;
    }

    // `pipe` waits for that.
    void join(Pipe pipe, const Clock &clock) {
        if (pipe != Pipe::kS) {
            pipes_[unsigned(pipe)].join(clock);
            return;
        }
        for (Clock &each : pipes_) {
            each.join(clock);
        }
    }

    void barrier(Pipe pipe) { pipes_[unsigned(pipe)].join(all_of(pipe)); }
    void barrier_all() {
        Clock all;
        for (unsigned p = 0; p < kPipes; ++p) {
            all.at[p] = last_[p];
        }
        for (Clock &each : pipes_) {
            each = all;
        }
    }

    void set(AscendC::HardEvent event, int32_t id) {
        Pipe from, to;
        if (pipes_of(event, &from, &to)) {
            flags_[size_t(event) * kEventIds + size_t(id)] = all_of(from);
        }
    }
    void wait(AscendC::HardEvent event, int32_t id) {
        Pipe from, to;
        if (pipes_of(event, &from, &to)) {
            join(to, flags_[size_t(event) * kEventIds + size_t(id)]);
        }
    }

    // Whether every pipe that can still touch the memory comes after instruction n of `pipe`.
    bool over(Pipe pipe, uint32_t n) const {
        for (unsigned p = 0; p < kPipes; ++p) {
            if (pipes_[p].at[unsigned(pipe)] < n &&
                !(p == unsigned(Pipe::kS) && pipe == Pipe::kS)) {
                return false;
            }
        }
        return true;
    }

  private:
    Clock pipes_[kPipes];
    uint32_t last_[kPipes] = {};
    std::vector<Clock> flags_;
};

}  // namespace twin
