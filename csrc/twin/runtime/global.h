// GM under watch: where a kernel may go, what it did there, and what two blocks did at one place.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shadow.h"

namespace twin {

// Where `address` lies, for a message: "byte 64 of the 512-byte tensor 2 of the launch".
void describe_gm(const Launch &launch, const uint8_t *address, char *text, size_t size);
// Faults if an operand leaves the memory that the kernel was given, or the size that
// SetGlobalBuffer was told.
void check_gm_bounds(const Launch &launch, Where where, const char *name, const Access &access,
                     uint64_t bytes);
// The line of the data cache that `address` is in: lines begin where the memory that the kernel was
// given does (a device's is aligned).
struct CacheLineAt {
    uint64_t begin, end;
};
CacheLineAt cache_line_at(const Launch &launch, const uint8_t *address);
// With the init check, in whole programs. The first byte that nobody has written, or null.
const uint8_t *gm_unwritten_byte(const Access &access);
void gm_written(const Access &access);

// Within one block: what each byte's last accesses were. An interval has one history.
class GmShadow {
  public:
    void clear() {
        spans_.clear();
        limit_ = kLimit;
    }
    // `atomic`: kind and type of an atomic write, 0 for others.
    Hit access(const Access &a, const Doing &doing, uint8_t atomic);
    // Forgets what everything that is still to come is ordered after.
    void prune(const Order &order);

  private:
    struct Span {
        uint64_t end;
        uint32_t write;
        Pipe writer;
        uint8_t atomic;
        uint32_t read[kPipes];
    };
    using Spans = std::map<uint64_t, Span>;
    static constexpr size_t kLimit = 1024;

    Spans::iterator split(uint64_t at);
    bool run(uint64_t from, uint64_t to, bool write, uint8_t atomic, const Doing &doing, Hit *hit);

    Spans spans_;
    size_t limit_ = kLimit;
};

// What a block did to GM. It is in a phase: it begins a new one at every SyncAll and cross-core
// flag. What others have done counts as of `after`, and others can count on it as of `until`.
struct Done {
    static constexpr uint32_t kOpen = UINT32_MAX;

    uint64_t begin, end;
    uint32_t number, last;  // of the first and last such instruction
    uint32_t site;          // which instruction of the source it was: index into the block's sites
    uint32_t phase;         // when it was
    uint32_t after;         // `phase`; of what is from the data cache, when its line was loaded
    uint32_t until;         // when a SyncAll or flag came that had waited for it
    Pipe pipe;              // kS: through the data cache
    uint8_t atomic;         // kind and type of an atomic write, 0 for others
    bool write;
    bool line;  // the whole line around a SetValue, which only collides with writes
};

// The accesses of one block, for the comparison with the others.
class DoneList {
  public:
    void clear() {
        for (Part *part : {&open_, &closed_}) {
            part->all.clear();
            part->limit = kLimit;
        }
    }
    // What is the same for each run of the access; the rest of `done` is given.
    void add(const Access &a, Done done);
    void push(const Done &done) { push(&open_, done); }
    // The end of a phase: what `waits(done)` is true for, others can count on.
    template <typename Waits>
    void close(uint32_t phase, Waits waits) {
        size_t kept = 0;
        for (Done &done : open_.all) {
            if (waits(done)) {
                done.until = phase;
                push(&closed_, done);
            } else {
                open_.all[kept++] = done;
            }
        }
        open_.all.resize(kept);
    }
    std::vector<Done> take();

  private:
    static constexpr size_t kLimit = 4096;
    struct Part {
        std::vector<Done> all;
        size_t limit = kLimit;
    };
    static void push(Part *part, const Done &done);
    static void compact(std::vector<Done> *all);

    Part open_, closed_;
};

// How far a block's phase knows of others: those that came before it.
struct Phase {
    uint32_t epoch = 0;             // SyncAlls that have passed
    std::vector<uint32_t> done_of;  // per block: its phases below this one; empty: of none
};

struct BlockHistory {
    uint32_t index;
    std::vector<Done> done;
    std::vector<Phase> phases;
    std::vector<struct Site> sites;
};

// Whether no two blocks met at a byte of GM without one waiting for the other; else the fault.
bool blocks_apart(const Launch &launch, std::vector<BlockHistory> *blocks, Fault *fault);

}  // namespace twin
