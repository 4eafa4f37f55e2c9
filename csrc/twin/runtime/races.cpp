// Races between blocks: after the last one has ended, what each did to GM is laid side by side.
#include <algorithm>
#include <cstdio>

#include "schedule.h"
#include "watched.h"

namespace twin {
namespace {

struct Entry {
    uint64_t order;  // where it is, the same in every run: by tensor of the launch, not by address
    Done done;
    const BlockHistory *block;
};

// Whether what `b` did in its phase comes after what `a` did in its own.
bool comes_after(const Entry &a, uint32_t until, const Entry &b, uint32_t after) {
    if (until == Done::kOpen) {
        return false;
    }
    const Phase &first = a.block->phases[until];
    const Phase &second = b.block->phases[after];
    return first.epoch < second.epoch ||
           (a.block->index < second.done_of.size() && second.done_of[a.block->index] > until);
}

bool comes_after(const Entry &a, const Entry &b) {
    return comes_after(a, a.done.until, b, b.done.after);
}

// The same if every flag waited for all of its block, and there were no data cache.
bool is_later(const Entry &a, const Entry &b) {
    return comes_after(a, a.done.phase, b, b.done.phase);
}

bool collide(const Entry &a, const Entry &b) {
    if (a.block == b.block || !(a.done.write || b.done.write)) {
        return false;
    }
    const bool whole_line = a.done.line || b.done.line;
    if (whole_line && !(a.done.write && b.done.write)) {
        return false;
    }
    return !(a.done.atomic != 0 && a.done.atomic == b.done.atomic) && !comes_after(a, b) &&
           !comes_after(b, a);
}

// Tensors of a launch one after the other as they were given, those that share memory as one.
class Places {
  public:
    explicit Places(const Launch &launch) {
        for (uint32_t r = 0; r < launch.n_regions; ++r) {
            const auto begin = reinterpret_cast<uint64_t>(launch.regions[r].address);
            all_.push_back({begin, begin + launch.regions[r].bytes, r, 0});
        }
        std::sort(all_.begin(), all_.end(),
                  [](const Place &a, const Place &b) { return a.begin < b.begin; });
        size_t kept = 0;
        for (const Place &place : all_) {
            if (kept != 0 && place.begin < all_[kept - 1].end) {
                Place &last = all_[kept - 1];
                last.end = std::max(last.end, place.end);
                last.first = std::min(last.first, place.first);
            } else {
                all_[kept++] = place;
            }
        }
        all_.resize(kept);
        std::vector<Place *> given;
        for (Place &place : all_) {
            given.push_back(&place);
        }
        std::sort(given.begin(), given.end(),
                  [](const Place *a, const Place *b) { return a->first < b->first; });
        uint64_t base = 0;
        for (Place *place : given) {
            place->base = base;
            base += place->end - place->begin;
        }
    }
    uint64_t of(uint64_t address) const {
        auto next = std::upper_bound(all_.begin(), all_.end(), address,
                                     [](uint64_t at, const Place &p) { return at < p.begin; });
        if (next == all_.begin() || std::prev(next)->end <= address) {
            return address;
        }
        return std::prev(next)->base + (address - std::prev(next)->begin);
    }

  private:
    struct Place {
        uint64_t begin, end;
        uint32_t first;
        uint64_t base;
    };
    std::vector<Place> all_;
};

struct Pair {
    const Entry *low, *high;  // by block
    bool before(const Pair &o) const {
        const uint64_t mine[] = {low->block->index, high->block->index,
                                 std::max(low->done.number, high->done.number),
                                 std::min(low->done.number, high->done.number)};
        const uint64_t its[] = {o.low->block->index, o.high->block->index,
                                std::max(o.low->done.number, o.high->done.number),
                                std::min(o.low->done.number, o.high->done.number)};
        return std::lexicographical_compare(mine, mine + 4, its, its + 4);
    }
};

const char *verb(const Done &done) {
    return done.atomic != 0 ? "changes by an atomic write" : done.write ? "writes" : "reads";
}

void tell(const Launch &launch, const Pair &pair, Fault *fault) {
    // The later one in program order; of the same instruction, the higher block's.
    const bool swap = pair.low->done.number > pair.high->done.number;
    const Entry &late = swap ? *pair.low : *pair.high;
    const Entry &early = swap ? *pair.high : *pair.low;
    const uint64_t begin = std::max(late.done.begin, early.done.begin);
    const uint64_t end = std::min(late.done.end, early.done.end);
    const Site &site = late.block->sites[late.done.site];
    const Site &other = early.block->sites[early.done.site];
    char place[300];
    describe_gm(launch, reinterpret_cast<const uint8_t *>(begin), place, sizeof place);
    const bool line = late.done.line || early.done.line;
    const bool ordered = is_later(early, late) || is_later(late, early);
    const bool cache = late.done.pipe == Pipe::kS || early.done.pipe == Pipe::kS;
    const char *why =
        line ? "SetValue writes the whole line of 64 bytes of the data cache back to GM, so that "
               "one overwrites the other"
        : !ordered ? "neither waits for the other"
        : cache ? "one waits for the other, but no DataCacheCleanAndInvalid lies between SetValue "
                  "and the reader, or between the writer and GetValue"
                : "the flag between them does not wait for the pipe that did it";
    *fault = make_fault(
        site.where, "race", line || (ordered && cache) ? "data-cache" : "race-blocks",
        "%s: block %u %s %llu bytes of GM from %s on, which block %u %s (%s): %s", op_name(site.op),
        late.block->index, verb(late.done), static_cast<unsigned long long>(end - begin), place,
        early.block->index, verb(early.done), mention(other, site.where).c_str(), why);
    fault->block = int(late.block->index);
    std::snprintf(fault->instruction, sizeof fault->instruction, "%s", op_name(site.op));
    std::snprintf(fault->tensor, sizeof fault->tensor, "%llu bytes of GM from %.100s on",
                  static_cast<unsigned long long>(end - begin), place);
}

// Faults at the first place where two blocks meet; `lines`: with the lines of the data cache.
bool sweep(const Launch &launch, const std::vector<Entry> &all, bool lines, Fault *fault) {
    // `reading` and `writing` are the intervals that reach this far.
    std::vector<const Entry *> reading, writing;
    const auto drop = [](std::vector<const Entry *> *from, const Entry &e) {
        from->erase(std::remove_if(from->begin(), from->end(),
                                   [&](const Entry *o) {
                                       return o->done.end <= e.done.begin ||
                                              o->done.begin > e.done.begin;
                                   }),
                    from->end());
    };
    const Pair none = {nullptr, nullptr};
    Pair worst = none;
    uint64_t place = 0;
    for (const Entry &e : all) {
        if (e.done.line && !lines) {
            continue;
        }
        if (worst.low != nullptr && e.order != place) {
            break;
        }
        place = e.order;
        const auto against = [&](const std::vector<const Entry *> &others) {
            for (const Entry *o : others) {
                if (collide(*o, e)) {
                    const bool first = o->block->index < e.block->index;
                    const Pair pair = {first ? o : &e, first ? &e : o};
                    worst = worst.low == nullptr || pair.before(worst) ? pair : worst;
                }
            }
        };
        drop(&writing, e);
        against(writing);
        if (e.done.write) {
            drop(&reading, e);
            against(reading);
            writing.push_back(&e);
        } else {
            reading.push_back(&e);
        }
    }
    if (worst.low != nullptr) {
        tell(launch, worst, fault);
        return false;
    }
    return true;
}

}  // namespace

bool blocks_apart(const Launch &launch, std::vector<BlockHistory> *blocks, Fault *fault) {
    std::sort(blocks->begin(), blocks->end(),
              [](const BlockHistory &a, const BlockHistory &b) { return a.index < b.index; });
    std::vector<Entry> all;
    bool any_write = false, any_line = false;
    for (const BlockHistory &block : *blocks) {
        for (const Done &done : block.done) {
            all.push_back({done.begin, done, &block});
            any_write = any_write || done.write;
            any_line = any_line || done.line;
        }
    }
    if (!any_write || blocks->size() < 2) {
        return true;
    }
    const Places places(launch);
    for (Entry &e : all) {
        e.order = places.of(e.done.begin);
    }
    std::sort(all.begin(), all.end(), [](const Entry &a, const Entry &b) {
        if (a.order != b.order)
            return a.order < b.order;
        if (a.block->index != b.block->index)
            return a.block->index < b.block->index;
        return a.done.number < b.done.number;
    });
    // Lines of the data cache only once nothing else is wrong: they say less.
    return sweep(launch, all, false, fault) && (!any_line || sweep(launch, all, true, fault));
}

}  // namespace twin
