// What the checked mode knows of a block.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>

#include "buffers.h"
#include "counters.h"
#include "data_cache.h"
#include "global.h"
#include "observer.h"

namespace twin {

// An instruction of the source, as a message names it.
struct Site {
    Op op;
    Pipe pipe;
    Where where;
};

// Which instruction had which number.
class Log {
  public:
    void clear() {
        sites_.clear();
        index_.clear();
        numbers_.assign(1, 0);
        last_ = 0;
    }
    // The number of an instruction that begins now: 1, 2, …
    uint32_t begin(Op op, Pipe pipe, Where where);
    const Site &operator[](uint32_t number) const { return sites_[numbers_[number]]; }
    uint32_t site_of(uint32_t number) const { return numbers_[number]; }
    uint32_t next() const { return uint32_t(numbers_.size()); }
    const std::vector<Site> &sites() const { return sites_; }

  private:
    struct Key {
        const char *file;
        int line;
        Op op;
        Pipe pipe;
        bool operator==(const Key &o) const {
            return file == o.file && line == o.line && op == o.op && pipe == o.pipe;
        }
    };
    struct Hash {
        size_t operator()(const Key &k) const {
            return (reinterpret_cast<size_t>(k.file) * 31 + size_t(k.line)) * 1009 +
                   size_t(k.op) * 5 + size_t(k.pipe);
        }
    };
    std::vector<Site> sites_;
    std::vector<uint32_t> numbers_{0};
    std::unordered_map<Key, uint32_t, Hash> index_;
    uint32_t last_ = 0;
};

struct Watched {
    LineTable lines;
    Log log;
    Order order;
    Shadow shadow;
    Buffers buffers;
    GmShadow gm;
    DoneList done;
    DataCache cache;
    std::vector<Phase> phases;
    Where flags[size_t(AscendC::HardEvent::MAX)][kEventIds];  // the last SetFlag of each

    void clear();
};

struct WatchedLaunch {
    std::mutex mutex;
    LineTable lines;
    std::vector<std::unique_ptr<Watched>> idle;  // their memory is warm
    std::vector<BlockHistory> histories;
    std::map<uint64_t, Phase> crossings;  // by key: what the last block that set it had done
};

// The mention of an instruction in a message: "the Add of line 12 (vector pipe)".
std::string mention(const Site &site, Where from);

Fault make_fault(Where where, const char *kind, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// A fault that names its operand.
[[noreturn]] void fault_of(Where where, const char *kind, const char *code,
                           const std::string &tensor, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

}  // namespace twin
