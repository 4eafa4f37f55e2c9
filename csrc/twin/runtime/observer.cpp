// Checked mode: what watches the instructions of a block.
#include "observer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "schedule.h"
#include "watched.h"

namespace twin {
namespace {

constexpr uint32_t kHistory = kCheckInit | kCheckRace;  // what needs the shadow of UB
constexpr uint32_t kAllChecks = kCheckMem | kCheckInit | kCheckRace | kCheckSync;

const char *pipe_name(Pipe pipe) {
    constexpr const char *kNames[] = {"scalar unit", "vector pipe", "MTE2", "MTE3"};
    return kNames[unsigned(pipe)];
}

// False: not one of the pipes of a vector core.
bool pipe_of(pipe_t pipe, Pipe *one) {
    *one = pipe == PIPE_S      ? Pipe::kS
           : pipe == PIPE_V    ? Pipe::kV
           : pipe == PIPE_MTE2 ? Pipe::kMTE2
                               : Pipe::kMTE3;
    return pipe == PIPE_S || pipe == PIPE_V || pipe == PIPE_MTE2 || pipe == PIPE_MTE3;
}

// What orders the second after the first, for a message.
std::string flag_between(Pipe first, Pipe second) {
    constexpr const char *kNames[] = {"S", "V", "MTE2", "MTE3"};
    const std::string a = kNames[unsigned(first)], b = kNames[unsigned(second)];
    return first == second ? "PipeBarrier<PIPE_" + a + ">" : a + "_" + b + " flag";
}

uint64_t size_in(const Access &a) {
    return a.shape == Access::kBytes ? a.bytes : extent(a);
}

// Whether the instruction also reads about where it writes.
bool in_place(const Instruction &i, const Access &write) {
    for (unsigned a = 0; a < i.n; ++a) {
        const Access &read = i.accesses[a];
        if (!read.write && !read.gm && read.address < write.address + size_in(write) &&
            write.address < read.address + size_in(read)) {
            return true;
        }
    }
    return false;
}

}  // namespace

std::string mention(const Site &site, Where from) {
    std::string text = std::string(op_name(site.op)) + " at ";
    if (site.where.file != from.file) {
        const char *slash = std::strrchr(site.where.file, '/');
        text += slash != nullptr ? slash + 1 : site.where.file;
        text += ":";
    } else {
        text += "line ";
    }
    return text + std::to_string(site.where.line) + ", " + pipe_name(site.pipe);
}

uint32_t Log::begin(Op op, Pipe pipe, Where where) {
    const auto is = [&](const Site &s) {
        return s.where.line == where.line && s.where.file == where.file && s.op == op &&
               s.pipe == pipe;
    };
    // Loops run the same few instructions in the same order.
    uint32_t site = last_ + 1;
    if (site >= sites_.size() || !is(sites_[site])) {
        const auto found =
            index_.emplace(Key{where.file, where.line, op, pipe}, uint32_t(sites_.size()));
        site = found.first->second;
        if (found.second) {
            sites_.push_back({op, pipe, where});
        }
    }
    last_ = site;
    numbers_.push_back(site);
    return uint32_t(numbers_.size() - 1);
}

void Watched::clear() {
    lines.clear();
    log.clear();
    order.clear();
    shadow.clear();
    buffers.clear();
    gm.clear();
    done.clear();
    cache.clear();
    phases.assign(1, Phase{});
}

Observer::Observer(LaunchObserver &launch, Block &block) : launch_(launch), block_(block) {
    WatchedLaunch &all = *launch.watched_;
    {
        std::lock_guard<std::mutex> lock(all.mutex);
        if (!all.idle.empty()) {
            watched_ = all.idle.back().release();
            all.idle.pop_back();
        } else {
            watched_ = nullptr;
        }
    }
    if (watched_ == nullptr) {
        watched_ = new Watched;
    }
    watched_->clear();
}

Observer::~Observer() {
    WatchedLaunch &all = *launch_.watched_;
    std::lock_guard<std::mutex> lock(all.mutex);
    all.idle.emplace_back(watched_);
}

std::string Observer::describe(const Access &access) const {
    const auto offset = static_cast<uint64_t>(access.address - block_.ub);
    const Buffer *buffer =
        access.tensor != nullptr ? watched_->buffers.of(*access.tensor, block_.ub) : nullptr;
    return twin::describe(access.name, offset, size_in(access), buffer);
}

void Observer::instruction(const Instruction &i) {
    const uint32_t checks = launch_.launch.checks;
    Watched &w = *watched_;
    if ((checks & kCount) != 0) {
        count(&w.lines.at(i.where), i);
    }
    if ((checks & kCheckMem) != 0) {
        for (unsigned a = 0; a < i.n; ++a) {
            const Access &access = i.accesses[a];
            const uint64_t bytes = size_in(access);
            if (bytes == 0) {
                continue;
            }
            if (access.gm) {
                check_gm_bounds(launch_.launch, i.where, op_name(i.op), access, bytes);
            } else {
                w.buffers.check(i, access, bytes, block_.ub);
            }
        }
        if (i.lanewise) {
            check_overlap(i);
        } else if (i.pipe == Pipe::kV && i.n == 2 && !i.accesses[0].write && i.accesses[1].write) {
            i.op == Op::DataCopy ? check_copy_overlap(i) : check_result_overlap(i);
        }
    }
    if ((checks & kHistory) != 0 && i.n != 0) {
        look(i);
    }
}

void Observer::look(const Instruction &i) {
    const bool race = (launch_.launch.checks & kCheckRace) != 0;
    Watched &w = *watched_;
    Doing doing;
    doing.number = w.log.begin(i.op, i.pipe, i.where);
    doing.pipe = i.pipe;
    doing.after = w.order.before(i.pipe, doing.number);
    // Reads before writes: an instruction may read what it overwrites. But its own reads hide those
    // of an earlier instruction of its pipe, so what it overwrites in place is looked at first.
    for (unsigned a = 0; race && a < i.n; ++a) {
        if (i.accesses[a].write && !i.accesses[a].gm && in_place(i, i.accesses[a])) {
            look_ub(i, i.accesses[a], doing, false);
        }
    }
    for (const bool write : {false, true}) {
        for (unsigned a = 0; a < i.n; ++a) {
            const Access &access = i.accesses[a];
            if (access.write == write) {
                access.gm ? look_gm(i, access, doing) : look_ub(i, access, doing, true);
            }
        }
    }
    w.order.issued(i.pipe, doing.number, i.settled);
}

void Observer::look_ub(const Instruction &i, const Access &access, const Doing &doing,
                       bool remember) {
    const uint32_t checks = launch_.launch.checks;
    const auto offset = static_cast<uint64_t>(access.address - block_.ub);
    const Hit hit = watched_->shadow.access(access, offset, doing, (checks & kCheckInit) != 0,
                                            (checks & kCheckRace) != 0, remember);
    if (__builtin_expect(hit.what != Hit::kNone, 0)) {
        collide(i, access, hit);
    }
}

void Observer::look_gm(const Instruction &i, const Access &access, const Doing &doing) {
    Watched &w = *watched_;
    if ((launch_.launch.checks & kCheckInit) != 0) {
        const uint8_t *byte = !access.write || i.atomic ? gm_unwritten_byte(access) : nullptr;
        if (byte != nullptr) {
            unwritten_gm(i, access, byte);
        }
        if (access.write) {
            gm_written(access);
        }
    }
    if ((launch_.launch.checks & kCheckRace) != 0) {
        const uint8_t atomic =
            i.atomic && access.write
                ? uint8_t(block_.atomic << 5 | unsigned(block_.atomic_type))  // never 0
                : uint8_t{0};
        const Hit hit = w.gm.access(access, doing, atomic);
        if (hit.what != Hit::kNone) {
            collide(i, access, hit);
        }
        const auto phase = uint32_t(w.phases.size() - 1);
        Done done{};
        done.number = done.last = doing.number;
        done.site = w.log.site_of(doing.number);
        done.phase = done.after = phase;
        done.until = Done::kOpen;
        done.pipe = i.pipe;
        done.atomic = atomic;
        done.write = access.write;
        if (i.pipe == Pipe::kS) {
            through_cache(i, access, &done);
        } else if (!w.cache.empty()) {
            beside_cache(i, access, doing.number);
        }
        w.done.add(access, done);
        w.gm.prune(w.order);
    }
}

void Observer::collide(const Instruction &i, const Access &access, const Hit &hit) const {
    std::string tensor;
    if (access.gm) {
        tensor = gm_text(access, hit.offset);
    } else {
        tensor = describe(access);
    }
    if (hit.what == Hit::kUnwritten) {
        const uint64_t first = hit.offset - static_cast<uint64_t>(access.address - block_.ub);
        fault_of(i.where, "init", "uninitialised", tensor,
                 "%s: operand %s reads UB that nobody has written: byte %llu of it, at UB offset "
                 "%llu",
                 op_name(i.op), access.name, static_cast<unsigned long long>(first),
                 static_cast<unsigned long long>(hit.offset));
    }
    const Site &other = watched_->log[hit.other];
    const char *code = !access.write ? "race-raw" : hit.other_writes ? "race-waw" : "race-war";
    fault_of(i.where, "race", code, tensor,
             "%s (%s) %s operand %s, which is %s by %s, without waiting for that: no %s lies "
             "between",
             op_name(i.op), pipe_name(i.pipe), access.write ? "writes" : "reads", access.name,
             hit.other_writes ? "written" : "read", mention(other, i.where).c_str(),
             flag_between(other.pipe, i.pipe).c_str());
}

// GetValue or SetValue of GM.
void Observer::through_cache(const Instruction &i, const Access &access, Done *done) {
    Watched &w = *watched_;
    const CacheLineAt at = cache_line_at(launch_.launch, access.address);
    DataCache::Line &line = w.cache.load(at.begin, at.end, done->phase);
    if (line.copier != 0) {
        const Site &copy = w.log[line.copier];
        fault_of(i.where, "race", "data-cache", gm_text(access, 0),
                 "%s goes through the data cache, which has held this line of 64 bytes since "
                 "before %s wrote to it in GM: no DataCacheCleanAndInvalid lies between",
                 op_name(i.op), mention(copy, i.where).c_str());
    }
    if (!access.write) {
        done->after = line.phase;
    } else {
        const uint64_t from = reinterpret_cast<uint64_t>(access.address) - at.begin;
        if (line.dirty == 0) {
            Done whole = *done;
            whole.after = line.phase;  // its other bytes are as they were then
            whole.begin = at.begin;
            whole.end = at.end;
            whole.line = true;
            w.done.push(whole);
        }
        line.dirty |= ((access.bytes < 64 ? uint64_t{1} << access.bytes : 0) - 1) << from;
        line.writer = done->number;
    }
}

// A copy: it does not see the cache, nor the cache it.
void Observer::beside_cache(const Instruction &i, const Access &access, uint32_t number) {
    Watched &w = *watched_;
    if (const DataCache::Line *line = w.cache.copy(access, number)) {
        const std::string other = mention(w.log[line->writer], i.where);
        if (access.write) {
            fault_of(i.where, "race", "data-cache", gm_text(access, 0),
                     "%s writes to a line of 64 bytes of GM that the data cache holds changed by "
                     "%s, and will overwrite as a whole: no DataCacheCleanAndInvalid lies between",
                     op_name(i.op), other.c_str());
        }
        fault_of(i.where, "race", "data-cache", gm_text(access, 0),
                 "%s reads GM, and what %s wrote there is still in the data cache: no "
                 "DataCacheCleanAndInvalid lies between",
                 op_name(i.op), other.c_str());
    }
}

void Observer::cache_cleaned(const Global &tensor, bool entire) {
    entire ? watched_->cache.clear()
           : watched_->cache.clean(reinterpret_cast<uint64_t>(tensor.address));
}

std::string Observer::gm_text(const Access &access, uint64_t from) const {
    char place[240];
    describe_gm(launch_.launch, access.address + from, place, sizeof place);
    return std::string(access.name) + ": " + std::to_string(size_in(access)) +
           " bytes of GM, from " + place + " on";
}

void Observer::unwritten_gm(const Instruction &i, const Access &access, const uint8_t *byte) const {
    char place[300];
    describe_gm(launch_.launch, byte, place, sizeof place);
    fault_of(i.where, "init", "gm-uninitialised",
             std::string(access.name) + ": " + std::to_string(size_in(access)) + " bytes of GM",
             "%s: operand %s reads GM that nobody has written: %s", op_name(i.op), access.name,
             place);
}

// ---- UB and queues ------------------------------------------------------------------------------

void Observer::buffer(uint32_t offset, uint32_t bytes, uint32_t num, AscendC::TPosition position,
                      Where where) {
    const uint32_t checks = launch_.launch.checks;
    if ((checks & kAllChecks) != 0) {
        watched_->buffers.add(offset, bytes, num, position, where);
    }
    if ((checks & kHistory) != 0) {
        watched_->shadow.forget(offset, uint64_t(bytes) * num);
    }
}

void Observer::queue(QueueStep step, const Queue &queue, int slot, Where where) {
    const uint32_t checks = launch_.launch.checks;
    Watched &w = *watched_;
    if ((checks & kCount) != 0 && step != QueueStep::kInit) {
        ++w.lines.at(where).queue_operations;
    }
    if ((checks & kAllChecks) == 0) {
        return;
    }
    if (step == QueueStep::kInit) {
        w.buffers.belong_to(queue);
        return;
    }
    Buffer *b = w.buffers.slot(queue, slot);
    if (b == nullptr) {
        return;
    }
    const Pipe fills = filler(queue.from), empties = emptier(queue.to);
    switch (step) {
        case QueueStep::kAlloc:
            w.order.join(fills, b->emptied);
            b->handed_out = where;
            b->turn = queue.turns[slot];
            b->state = Queue::kTaken;
            break;
        case QueueStep::kEnQue:
            b->filled = w.order.all_of(fills);
            b->state = Queue::kQueued;
            break;
        case QueueStep::kDeQue:
            w.order.join(empties, b->filled);
            b->state = Queue::kTaken;
            break;
        default:
            b->emptied = w.order.all_of(empties);
            b->state = Queue::kFree;
            break;
    }
    b->changed = where;
}

void Observer::events_ended(uint32_t offset, uint64_t bytes) {
    Watched &w = *watched_;
    for (const Buffer &b : w.buffers.all()) {
        if (b.queue && b.offset >= offset && b.offset < offset + bytes) {
            w.order.join(filler(b.from), b.emptied);
        }
    }
}

void Observer::buffers_taken_back(Where where) {
    watched_->buffers.take_back(where);
}

void Observer::placed(uint32_t offset, uint64_t bytes) {
    watched_->buffers.forget_taken_back(offset, bytes);
}

void Observer::undefined(const uint8_t *address, uint64_t bytes) {
    if ((launch_.launch.checks & kCheckInit) != 0) {
        watched_->shadow.forget(static_cast<uint64_t>(address - block_.ub), bytes);
    }
}

void Observer::lost_tail(uint32_t bytes, Where where) {
    if ((launch_.launch.checks & kCheckMem) != 0) {
        fault(where, "mem", "lost-tail",
              "%s rounds its length down to whole data blocks of 32 bytes: the last %u bytes are "
              "not copied",
              op_name(block_.op), bytes);
    }
}

// ---- flags --------------------------------------------------------------------------------------

void Observer::flag(AscendC::HardEvent event, int32_t id, bool set, Where where) {
    const uint32_t checks = launch_.launch.checks;
    Watched &w = *watched_;
    if ((checks & kCount) != 0) {
        ++w.lines.at(where).flags;
    }
    const Arch &arch = *block_.arch;
    const uint32_t free_ids = arch.event_ids - arch.reserved_events;
    if ((checks & kCheckSync) != 0 && uint32_t(id) >= free_ids) {
        block_.op = set ? Op::SetFlag : Op::WaitFlag;
        fault(where, "sync", "event-reserved",
              "%s with event id %d: the last %u belong to the system on %s, 0 to %u are free",
              set ? "SetFlag" : "WaitFlag", id, arch.reserved_events, arch.name, free_ids - 1);
    }
    if (set) {
        w.flags[size_t(event)][id] = where;
        w.order.set(event, id);
    } else {
        w.order.wait(event, id);
    }
}

void Observer::barrier(pipe_t pipe, Where where) {
    Watched &w = *watched_;
    if ((launch_.launch.checks & kCount) != 0) {
        ++w.lines.at(where).barriers;
    }
    Pipe one;
    if (pipe == PIPE_ALL) {
        w.order.barrier_all();
    } else if (pipe_of(pipe, &one) && one != Pipe::kS) {
        w.order.barrier(one);
    }
}

// ---- the scalar unit ----------------------------------------------------------------------------

void Observer::scalar(const Local &tensor, uint64_t offset, uint32_t bytes, bool write,
                      Where where) {
    Watched &w = *watched_;
    if ((launch_.launch.checks & kCount) != 0) {
        Counters &c = w.lines.at(where);
        ++(write ? c.scalar_writes : c.scalar_reads);
    }
    Access a{};
    a.name = "tensor";
    a.address = tensor.address + offset;
    a.bytes = bytes;
    a.shape = Access::kBytes;
    a.write = write;
    a.tensor = &tensor;
    single(a, write, where);
}

void Observer::scalar_gm(const Global &tensor, uint64_t offset, uint32_t bytes, bool write,
                         Where where) {
    Watched &w = *watched_;
    if ((launch_.launch.checks & kCount) != 0) {
        Counters &c = w.lines.at(where);
        ++(write ? c.scalar_writes : c.scalar_reads);
    }
    Access a{};
    a.name = "tensor";
    a.address = tensor.address + offset;
    a.bytes = bytes;
    a.shape = Access::kBytes;
    a.write = write;
    a.gm = true;
    a.global = &tensor;
    single(a, write, where);
}

void Observer::single(const Access &access, bool write, Where where) {
    const uint32_t checks = launch_.launch.checks;
    const Op op = write ? Op::SetValue : Op::GetValue;
    block_.op = op;
    const Instruction i = {op, Pipe::kS, where, 0, &access, 1, false};
    if ((checks & kCheckMem) != 0) {
        if (access.gm) {
            check_gm_bounds(launch_.launch, where, op_name(op), access, access.bytes);
        } else {
            watched_->buffers.check(i, access, access.bytes, block_.ub);
        }
    }
    if ((checks & kHistory) != 0) {
        look(i);
    }
}

// ---- other blocks -------------------------------------------------------------------------------

void Observer::sync_all(Where) {
    Watched &w = *watched_;
    if ((launch_.launch.checks & kCheckRace) == 0) {
        return;
    }
    w.order.barrier_all();
    end_phase(PIPE_ALL);
    Phase next = w.phases.back();
    ++next.epoch;
    w.phases.push_back(next);
}

// What other blocks can count on from now on: what was written to GM, and not only to the cache.
void Observer::end_phase(pipe_t pipe) {
    Watched &w = *watched_;
    Pipe one = Pipe::kS;
    const bool all = !pipe_of(pipe, &one);
    const Clock over = w.order.all_of(one);
    w.done.close(uint32_t(w.phases.size() - 1), [&](const Done &done) {
        if (done.pipe == Pipe::kS) {  // GetValue has its value; SetValue is done once it is in GM
            return !done.write || !w.cache.dirty(done.begin, done.end);
        }
        return all || done.last <= over.at[unsigned(done.pipe)];
    });
}

void Observer::cross_set(uint64_t key, pipe_t pipe, Where) {
    Watched &w = *watched_;
    if ((launch_.launch.checks & kCheckRace) == 0) {
        return;
    }
    end_phase(pipe);
    // What the flag stands for is what this block and those it has waited for have done.
    Phase next = w.phases.back();
    if (next.done_of.size() <= block_.index) {
        next.done_of.resize(block_.index + 1);
    }
    next.done_of[block_.index] = uint32_t(w.phases.size());
    WatchedLaunch &all = *launch_.watched_;
    {
        std::lock_guard<std::mutex> lock(all.mutex);
        Phase &there = all.crossings[key];
        if (there.done_of.size() < next.done_of.size()) {
            there.done_of.resize(next.done_of.size());
        }
        for (size_t b = 0; b < next.done_of.size(); ++b) {
            there.done_of[b] = std::max(there.done_of[b], next.done_of[b]);
        }
    }
    w.phases.push_back(next);
}

void Observer::cross_wait(uint64_t key, Where) {
    Watched &w = *watched_;
    if ((launch_.launch.checks & kCheckRace) == 0) {
        return;
    }
    Phase next = w.phases.back();
    WatchedLaunch &all = *launch_.watched_;
    {
        std::lock_guard<std::mutex> lock(all.mutex);
        const Phase &there = all.crossings[key];
        if (next.done_of.size() < there.done_of.size()) {
            next.done_of.resize(there.done_of.size());
        }
        for (size_t b = 0; b < there.done_of.size(); ++b) {
            next.done_of[b] = std::max(next.done_of[b], there.done_of[b]);
        }
    }
    w.order.barrier_all();
    w.phases.push_back(next);
}

void Observer::end() {
    const uint32_t checks = launch_.launch.checks;
    block_.op = Op::kCount;
    if ((checks & kCheckSync) != 0) {
        for (size_t event = 0; event < size_t(AscendC::HardEvent::MAX); ++event) {
            for (unsigned id = 0; id < kEventIds; ++id) {
                if (block_.flags[event][id] != 0) {
                    block_.op = Op::SetFlag;
                    fault(watched_->flags[event][id], "sync", "flag-left",
                          "SetFlag of event id %u, for which no WaitFlag comes before the kernel "
                          "ends",
                          id);
                }
            }
        }
    }
    if ((checks & kCheckMem) != 0) {
        watched_->buffers.check_end();
    }
}

// ---- the launch ---------------------------------------------------------------------------------

LaunchObserver::LaunchObserver(const Launch &launch)
    : launch(launch), watched_(launch.checks != 0 ? new WatchedLaunch : nullptr) {}

LaunchObserver::~LaunchObserver() {
    delete watched_;
}

Observer *LaunchObserver::begin_block(Block &block) {
    return new Observer(*this, block);
}

void LaunchObserver::end_block(Observer *observer) {
    Watched &w = *observer->watched_;
    BlockHistory history;
    if ((launch.checks & kCheckRace) != 0) {
        history.index = observer->block_.index;
        history.done = w.done.take();
        history.phases = std::move(w.phases);
        history.sites = w.log.sites();
    }
    {
        std::lock_guard<std::mutex> lock(watched_->mutex);
        watched_->lines.add(w.lines);
        if (!history.done.empty()) {
            watched_->histories.push_back(std::move(history));
        }
    }
    delete observer;
}

bool LaunchObserver::finish(Fault *fault) {
    return watched_ == nullptr || blocks_apart(launch, &watched_->histories, fault);
}

void LaunchObserver::counters(Report *report) {
    if ((launch.checks & kCount) != 0) {
        watched_->lines.report(report);
    }
}

}  // namespace twin
