// Blocks that wait for each other.
//
// The vendor's functions poll words of a workspace in GM. Here the state is the launch's own, under
// the lock of the schedule, so that a block that would wait for ever is known to; the workspaces
// are only asked for, as large as the documents want them.
#include "twin/cross.h"

#include <map>
#include <string>
#include <utility>

#include "check.h"
#include "schedule.h"
#include "twin/static_tensor.h"
#include "twin/system.h"
#include "ub.h"

namespace twin {
namespace {

constexpr uint32_t kMostSets = 15;  // of one flag, before it is waited for
constexpr uint32_t kLastFlag = 10;  // documented for dav-2201, assumed for dav-3510

struct Barrier {
    uint32_t arrived = 0;
    uint64_t generation = 0;
};

// A cross-core flag of one group of blocks: what each has set and waited for.
struct Flag {
    std::vector<uint64_t> sets, waits;
    std::vector<Where> last;  // SetFlag, for what is left at the end
    uint64_t rounds = 0;      // how often all have set it
};

struct Cell {  // of IBSet
    bool set = false;
    uint64_t sets = 0;
};

struct Determine {
    std::vector<bool> ready;
    std::vector<uint64_t> waits, notifies;
};

struct Cross {
    std::map<uint32_t, Barrier> barriers;                 // by the number of blocks
    std::map<std::pair<uint32_t, uint32_t>, Flag> flags;  // by mode and id, group
    std::map<uint64_t, Cell> cells;                       // by address in GM
    std::map<uint64_t, Determine> determine;              // by address in GM
};

Cross &cross(Session &s) {
    if (!s.cross) {
        s.cross = std::make_shared<Cross>();
    }
    return *static_cast<Cross *>(s.cross.get());
}

uint32_t position() {
    return block().fiber->position;
}

uint32_t block_at(const Session &s, uint32_t position) {
    return s.launch.block_ids != nullptr ? s.launch.block_ids[position] : position;
}

// One of what `cross_set` and `cross_wait` agree on.
uint64_t key_of(uint64_t kind, uint64_t place, uint64_t who, uint64_t count) {
    uint64_t key = 0xcbf29ce484222325u;
    for (const uint64_t part : {kind, place, who, count}) {
        for (int shift = 0; shift < 64; shift += 8) {
            key = (key ^ (part >> shift & 0xffu)) * 0x100000001b3u;
        }
    }
    return key;
}

enum : uint64_t { kBarrier, kCrossFlag, kCell, kDetermine };

void observe(bool set, uint64_t key, Where where, pipe_t pipe = PIPE_ALL) {
    Block &b = block();
    if (b.observer != nullptr) {
        set ? b.observer->cross_set(key, pipe, where) : b.observer->cross_wait(key, where);
    }
}

// What keeps the block at `p` from doing what another one waits for.
std::string why(Session &s, uint32_t p, const char *what) {
    std::lock_guard<std::mutex> lock(s.mutex);
    const std::string name = "block " + std::to_string(block_at(s, p));
    switch (s.status[p]) {
        case Session::kNotStarted:
            return name +
                   ", which does not start before another block ends: " + s.launch.arch->name +
                   " runs " + std::to_string(s.cores) + " blocks at a time";
        case Session::kDone:
            return name + ", which has ended without " + what;
        default:
            return name + ", which waits for something itself";
    }
}

[[noreturn]] void deadlock(Where where, const char *name, const std::string &for_whom) {
    fault(where, "sync", "deadlock", "%s waits for %s: a device hangs here", name,
          for_whom.c_str());
}

void workspace(const char *name, const Global &gm, uint64_t gm_bytes, const Local &ub,
               uint64_t ub_bytes, Where where) {
    if (gm.address == nullptr) {
        fault(where, "mem", "null-address", "%s: gmWorkspace has a null address", name);
    }
    if (gm.bytes < gm_bytes) {
        fault(where, "mem", "workspace", "%s: gmWorkspace has %llu bytes; %llu are needed", name,
              static_cast<unsigned long long>(gm.bytes), static_cast<unsigned long long>(gm_bytes));
    }
    if (ub.bytes < ub_bytes) {
        fault(where, "mem", "workspace", "%s: ubWorkspace has %u bytes; %llu are needed", name,
              ub.bytes, static_cast<unsigned long long>(ub_bytes));
    }
}

uint64_t address_of(const Global &gm) {
    return reinterpret_cast<uint64_t>(gm.address);
}

}  // namespace

// ---- SyncAll ------------------------------------------------------------------------------------

void sync_all(uint32_t cores, const Global *gm, const Local *ub, Where where) {
    mark(Op::SyncAll);
    Session &s = session();
    const bool all = cores == 0 || cores == s.total;
    const uint32_t wanted = all ? s.total : cores;
    if (gm != nullptr) {
        workspace("SyncAll", *gm, uint64_t{wanted} * kDataBlock, *ub, uint64_t{wanted} * kDataBlock,
                  where);
    }
    struct Arrival {
        Barrier *barrier;
        uint64_t generation;
    } arrival{};
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        arrival.barrier = &cross(s).barriers[wanted];
        arrival.generation = arrival.barrier->generation;
    }
    // No other generation can begin before this block has arrived.
    const uint64_t key = key_of(kBarrier, wanted, 0, arrival.generation);
    if (!all) {
        observe(true, key, where);
    }
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        if (++arrival.barrier->arrived == wanted) {
            arrival.barrier->arrived = 0;
            ++arrival.barrier->generation;
            s.notify_locked();
        }
    }
    const bool passed = wait_or_doom(
        [](void *context) {
            const auto *a = static_cast<const Arrival *>(context);
            return a->barrier->generation != a->generation;
        },
        &arrival);
    if (!passed) {
        if (wanted > s.total) {
            fault(where, "sync", "deadlock",
                  "SyncAll waits for %u blocks and the launch has %u: a device hangs here", wanted,
                  s.total);
        }
        uint32_t p = 0;
        {
            std::lock_guard<std::mutex> lock(s.mutex);
            while (p < s.total && s.status[p] != Session::kDone) {
                ++p;
            }
            for (uint32_t q = 0; p == s.total && q < s.total; ++q) {
                p = s.status[q] == Session::kNotStarted ? q : p;
            }
        }
        deadlock(where, "SyncAll",
                 p < s.total ? why(s, p, "calling it") : "blocks that wait for something else");
    }
    if (!all) {
        observe(false, key, where);
    } else if (block().observer != nullptr) {
        block().observer->sync_all(where);
    }
}

// ---- CrossCoreSetFlag, CrossCoreWaitFlag
// ---------------------------------------------------------

namespace {

struct Group {
    uint32_t number, first, size;
};

Group group_of(const Session &s, uint8_t mode) {
    if (mode == 0) {
        return {0, 0, s.total};
    }
    const uint32_t first = position() / 2 * 2;
    return {first / 2, first, first + 1 < s.total ? 2u : 1u};
}

Flag &flag_of(Session &s, uint8_t mode, uint16_t id, const Group &group) {
    Flag &flag = cross(s).flags[{uint32_t{mode} << 16 | id, group.number}];
    if (flag.sets.empty()) {
        flag.sets.resize(group.size);
        flag.waits.resize(group.size);
        flag.last.resize(group.size);
    }
    return flag;
}

void check_flag_id(const char *name, uint16_t id, Where where) {
    if (id > kLastFlag) {
        fault(where, "sync", "event-id", "%s with flagId %u; %s has 0 to %u", name, id,
              block().arch->name, kLastFlag);
    }
}

}  // namespace

void cross_core_set(uint8_t mode, pipe_t pipe, uint16_t id, Where where) {
    mark(Op::CrossCoreSetFlag);
    check_flag_id("CrossCoreSetFlag", id, where);
    Session &s = session();
    const Group group = group_of(s, mode);
    const uint32_t me = position() - group.first;
    uint64_t round;
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        const Flag &flag = flag_of(s, mode, id, group);
        round = flag.sets[me];
        if (round - flag.waits[me] >= kMostSets) {
            fault(where, "sync", "flag-set-twice",
                  "CrossCoreSetFlag of flagId %u for the %uth time without CrossCoreWaitFlag; its "
                  "counter ends at %u",
                  id, kMostSets + 1, kMostSets);
        }
    }
    observe(true, key_of(kCrossFlag, uint64_t{mode} << 16 | id, group.number, round), where, pipe);
    std::lock_guard<std::mutex> lock(s.mutex);
    Flag &flag = flag_of(s, mode, id, group);
    ++flag.sets[me];
    flag.last[me] = where;
    bool complete = true;
    for (const uint64_t sets : flag.sets) {
        complete = complete && sets > flag.rounds;
    }
    if (complete) {
        ++flag.rounds;
        s.notify_locked();
    }
}

void cross_core_wait(uint8_t mode, uint16_t id, Where where) {
    mark(Op::CrossCoreWaitFlag);
    check_flag_id("CrossCoreWaitFlag", id, where);
    Session &s = session();
    const Group group = group_of(s, mode);
    struct Wait {
        Flag *flag;
        uint64_t *waits;
    } wait{};
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        wait.flag = &flag_of(s, mode, id, group);
        wait.waits = &wait.flag->waits[position() - group.first];
    }
    const uint64_t round = *wait.waits;  // only this block changes it
    const bool passed = wait_or_doom(
        [](void *context) {
            const auto *w = static_cast<const Wait *>(context);
            if (w->flag->rounds <= *w->waits) {
                return false;
            }
            ++*w->waits;
            return true;
        },
        &wait);
    if (!passed) {
        uint32_t p = 0;
        {
            std::lock_guard<std::mutex> lock(s.mutex);
            while (p + 1 < group.size && wait.flag->sets[p] > round) {
                ++p;
            }
        }
        deadlock(where, "CrossCoreWaitFlag",
                 group.first + p == position() ? "a flag that this block has not set itself"
                                               : why(s, group.first + p, "setting the flag"));
    }
    observe(false, key_of(kCrossFlag, uint64_t{mode} << 16 | id, group.number, round), where);
}

namespace {

void write_fault(Fault *fault, Where where, const char *kind, const char *code, const char *format,
                 ...) {
    va_list args;
    va_start(args, format);
    fault_text(fault, where, kind, code, format, args);
    va_end(args);
}

}  // namespace

bool cross_finish(Session &s, Fault *fault) {
    if (!s.cross) {
        return true;
    }
    for (const auto &entry : cross(s).flags) {
        const Flag &flag = entry.second;
        const uint32_t first = entry.first.first >> 16 == 0 ? 0 : entry.first.second * 2;
        for (uint32_t p = 0; p < flag.sets.size(); ++p) {
            if (flag.sets[p] > flag.waits[p]) {
                write_fault(fault, flag.last[p], "sync", "flag-left",
                            "CrossCoreSetFlag of flagId %u, and the launch ends without its "
                            "CrossCoreWaitFlag",
                            entry.first.first & 0xffffu);
                fault->block = static_cast<int>(block_at(s, first + p));
                return false;
            }
        }
    }
    return true;
}

// ---- IBSet, IBWait ------------------------------------------------------------------------------

namespace {

// The place in gmWorkspace that the two of them name.
uint64_t cell_of(const char *name, const Global &gm, const Local &ub, int32_t block_index,
                 int32_t event, Where where) {
    const uint32_t total = session().total;
    if (block_index < 0 || uint32_t(block_index) >= block().count) {
        fault(where, "sync", "block-index", "%s for block %d of %u", name, block_index,
              block().count);
    }
    if (event < 0) {
        fault(where, "sync", "event-id", "%s with event id %d; they begin at 0", name, event);
    }
    const uint64_t at = (uint64_t{total} * uint32_t(event) + uint32_t(block_index)) * kDataBlock;
    workspace(name, gm, at + kDataBlock, ub, kDataBlock, where);
    return address_of(gm) + at;
}

struct CellWait {
    Cell *cell;
    bool want;
    uint64_t count;  // which of its sets
};

// Takes the cell: from clear to set, or from set to clear.
bool take_cell(void *context) {
    auto *wait = static_cast<CellWait *>(context);
    Cell &cell = *wait->cell;
    if (cell.set != wait->want) {
        return false;
    }
    cell.set = !wait->want;
    if (wait->want) {
        wait->count = cell.sets - 1;
    } else {
        wait->count = cell.sets++;
    }
    return true;
}

CellWait cell_wait(Session &s, uint64_t at, bool want) {
    std::lock_guard<std::mutex> lock(s.mutex);
    Cell &cell = cross(s).cells[at];
    return {&cell, want, cell.sets};
}

// Where the block that the other end belongs to is; total: this launch does not run it.
uint32_t position_of(const Session &s, int32_t block_index) {
    uint32_t p = 0;
    while (p < s.total && block_at(s, p) != uint32_t(block_index)) {
        ++p;
    }
    return p;
}

}  // namespace

void ib_set(const Global &gm, const Local &ub, int32_t block_index, int32_t event, Where where) {
    mark(Op::IBSet);
    Session &s = session();
    const uint64_t at = cell_of("IBSet", gm, ub, block_index, event, where);
    CellWait wait = cell_wait(s, at, false);
    observe(true, key_of(kCell, at, 0, wait.count), where);
    if (!wait_or_doom(take_cell, &wait)) {
        fault(where, "sync", "deadlock",
              "IBSet for block %d and event %d, which nobody waits for since it was set last: a "
              "device hangs here",
              block_index, event);
    }
    change([](void *) {}, nullptr);  // an IBWait may go on
}

void ib_wait(const Global &gm, const Local &ub, int32_t block_index, int32_t event, Where where) {
    mark(Op::IBWait);
    Session &s = session();
    const uint64_t at = cell_of("IBWait", gm, ub, block_index, event, where);
    CellWait wait = cell_wait(s, at, true);
    if (!wait_or_doom(take_cell, &wait)) {
        const uint32_t p = position_of(s, block_index);
        deadlock(where, "IBWait",
                 p < s.total && p != position() ? why(s, p, "IBSet") : "an IBSet that never comes");
    }
    observe(false, key_of(kCell, at, 0, wait.count), where);
}

// ---- WaitPreBlock, NotifyNextBlock --------------------------------------------------------------

namespace {

Determine &determine_of(Session &s, const Global &gm) {
    Determine &d = cross(s).determine[address_of(gm)];
    if (d.waits.empty()) {
        d.ready.resize(s.total);
        d.waits.resize(s.total);
        d.notifies.resize(s.total);
    }
    return d;
}

Determine &begin_determine(Op op, const char *name, const Global &gm, const Local &ub,
                           Where where) {
    mark(op);
    Session &s = session();
    const uint64_t bytes = uint64_t{s.total} * kDataBlock;
    workspace(name, gm, bytes, ub, bytes + kDataBlock, where);
    bool ready;
    Determine *d;
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        d = &determine_of(s, gm);
        ready = op == Op::InitDetermineComputeWorkspace || d->ready[position()];
        d->ready[position()] = true;
    }
    if (!ready) {
        fault(where, "sync", "no-workspace-init",
              "%s on a workspace without InitDetermineComputeWorkspace", name);
    }
    return *d;
}

}  // namespace

void determine_init(const Global &gm, const Local &ub, Where where) {
    begin_determine(Op::InitDetermineComputeWorkspace, "InitDetermineComputeWorkspace", gm, ub,
                    where);
}

void wait_pre_block(const Global &gm, const Local &ub, Where where) {
    struct Turn {
        Determine *d;
        uint32_t before;  // who is to notify
        uint64_t times;   // how often
    };
    Session &s = session();
    const uint32_t me = position();
    Determine &d = begin_determine(Op::WaitPreBlock, "WaitPreBlock", gm, ub, where);
    const uint64_t count = d.waits[me]++;  // only this block changes it
    Turn turn{&d, me > 0 ? me - 1 : s.total - 1, me > 0 ? count + 1 : count};
    const bool passed = wait_or_doom(
        [](void *context) {
            const auto *t = static_cast<const Turn *>(context);
            return t->d->notifies[t->before] >= t->times;
        },
        &turn);
    if (!passed) {
        deadlock(where, "WaitPreBlock", why(s, turn.before, "NotifyNextBlock"));
    }
    if (turn.times != 0) {
        observe(false, key_of(kDetermine, address_of(gm), turn.before, turn.times), where);
    }
}

void notify_next_block(const Global &gm, const Local &ub, Where where) {
    Session &s = session();
    const uint32_t me = position();
    Determine &d = begin_determine(Op::NotifyNextBlock, "NotifyNextBlock", gm, ub, where);
    observe(true, key_of(kDetermine, address_of(gm), me, d.notifies[me] + 1), where);
    std::lock_guard<std::mutex> lock(s.mutex);
    ++d.notifies[me];
    s.notify_locked();
}

// ---- what has no effect, and the rest of a block's state ----------------------------------------

void note(Op op, Where) {
    mark(op);
}

void data_cache_clean(const Global &tensor, bool entire, Where) {
    Block &b = mark(Op::DataCacheCleanAndInvalid);
    if (b.observer != nullptr) {
        b.observer->cache_cleaned(tensor, entire);
    }
}

namespace {

constexpr uint64_t kInfNan = uint64_t{1} << 48;

}  // namespace

uint64_t control_register() {
    const Block &b = mark(Op::GetCtrlSpr);
    return (b.control & ~kInfNan) | (b.arch->inf_nan ? kInfNan : 0);
}

void set_control_register(uint64_t value, uint64_t mask, Where) {
    Block &b = mark(Op::SetCtrlSpr);
    b.control = (b.control & ~mask) | (value & mask);
    if ((mask & kInfNan) != 0 && b.arch->inf_nan != ((value & kInfNan) != 0)) {
        Arch &own = b.fiber->own_arch;
        own = *b.arch;
        own.inf_nan = !own.inf_nan;
        b.arch = &own;
    }
}

void reset_control_register(uint64_t mask, Where where) {
    set_control_register(session().launch.arch->inf_nan ? kInfNan : 0, mask, where);
    mark(Op::ResetCtrlSpr);
}

void init_soc_state(Where) {
    Block &b = mark(Op::InitSocState);
    b.mask[0] = b.mask[1] = ~uint64_t{0};
    b.counter_mode = false;
    b.atomic = 0;
}

Local allocate(uint32_t *at, uint64_t bytes, AscendC::TPosition position, Where where) {
    Block &b = mark(Op::Alloc);
    if (*at + bytes > b.arch->ub_bytes) {
        fault(where, "mem", "ub-budget",
              "Alloc asks for %llu bytes of UB; %u of the %u bytes of %s are taken already",
              static_cast<unsigned long long>(bytes), *at, b.arch->ub_bytes, b.arch->name);
    }
    const Local tensor = static_tensor(position, *at, bytes, where);
    if (b.observer != nullptr) {
        b.observer->buffer(*at, static_cast<uint32_t>(bytes), 1, position, where);
    }
    *at += static_cast<uint32_t>(round_to_block(bytes));
    return tensor;
}

}  // namespace twin
