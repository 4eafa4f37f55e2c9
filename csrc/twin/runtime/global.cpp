// GM under watch, within one block. Between blocks: races.cpp.
#include "global.h"

#include <algorithm>
#include <cstdio>
#include <tuple>

#include "check.h"
#include "data_cache.h"
#include "twin/gm.h"
#include "watched.h"

namespace twin {
namespace {

const Region *region_of(const Launch &launch, const uint8_t *address, uint64_t bytes) {
    const Region *touching = nullptr;
    for (uint32_t r = 0; r < launch.n_regions; ++r) {
        const auto *begin = static_cast<const uint8_t *>(launch.regions[r].address);
        if (address >= begin && address < begin + launch.regions[r].bytes) {
            if (bytes <= launch.regions[r].bytes - uint64_t(address - begin)) {
                return &launch.regions[r];
            }
            touching = &launch.regions[r];
        }
    }
    return touching;
}

// The region that ends or begins nearest to `address`, for a message.
const Region *nearest(const Launch &launch, const uint8_t *address) {
    const Region *best = nullptr;
    uint64_t least = UINT64_MAX;
    for (uint32_t r = 0; r < launch.n_regions; ++r) {
        const auto *begin = static_cast<const uint8_t *>(launch.regions[r].address);
        const uint64_t away = address < begin ? uint64_t(begin - address)
                                              : uint64_t(address - begin) - launch.regions[r].bytes;
        if (away < least) {
            least = away;
            best = &launch.regions[r];
        }
    }
    return best;
}

unsigned long long ull(uint64_t n) {
    return n;
}

}  // namespace

void describe_gm(const Launch &launch, const uint8_t *address, char *text, size_t size) {
    if (launch.regions == nullptr) {
        gm_describe(address, 1, text, size);
        return;
    }
    const Region *region = region_of(launch, address, 1);
    region = region == nullptr ? nearest(launch, address) : region;
    if (region == nullptr) {
        std::snprintf(text, size, "memory that the launch was not given");
        return;
    }
    const auto *begin = static_cast<const uint8_t *>(region->address);
    const unsigned number = unsigned(region - launch.regions) + 1;
    if (address < begin) {
        std::snprintf(text, size, "%llu bytes before the %llu bytes of tensor %u of the launch",
                      ull(uint64_t(begin - address)), ull(region->bytes), number);
    } else if (address >= begin + region->bytes) {
        std::snprintf(text, size,
                      "%llu bytes past the end of the %llu bytes of tensor %u of the launch",
                      ull(uint64_t(address - begin) - region->bytes), ull(region->bytes), number);
    } else {
        std::snprintf(text, size, "byte %llu of the %llu bytes of tensor %u of the launch",
                      ull(uint64_t(address - begin)), ull(region->bytes), number);
    }
}

void check_gm_bounds(const Launch &launch, Where where, const char *name, const Access &access,
                     uint64_t bytes) {
    const auto fail = [&](const char *code, const char *format, auto... values) {
        char place[300];
        describe_gm(launch, access.address, place, sizeof place);
        const bool known = launch.regions != nullptr || gm_region(access.address) != nullptr;
        const std::string tensor = std::string(access.name) + ": " + std::to_string(bytes) +
                                   (known ? " bytes of GM from " : " bytes ") + place +
                                   (known ? " on" : "");
        fault_of(where, "mem", code, tensor, format, name, access.name, values...);
    };
    char last[300];
    if (launch.regions != nullptr) {
        const Region *region = region_of(launch, access.address, bytes);
        const auto *begin =
            region == nullptr ? nullptr : static_cast<const uint8_t *>(region->address);
        if (region == nullptr || uint64_t(access.address - begin) + bytes > region->bytes) {
            describe_gm(launch, region == nullptr ? access.address : access.address + bytes - 1,
                        last, sizeof last);
            fail("gm-out-of-bounds", "%s: operand %s %s %llu bytes of GM%s; the %s of them is %s",
                 access.write ? "writes" : "reads", ull(bytes),
                 access.shape == Access::kBursts ? " in bursts, with the gaps" : "",
                 region == nullptr ? "first" : "last", last);
        }
    } else if (gm_in_use()) {
        const GmRegion *region = gm_region(access.address);
        if (region == nullptr) {
            fail("gm-out-of-bounds",
                 "%s: operand %s %s %llu bytes at an address that no aclrtMalloc gave: a "
                 "pointer to memory of the host, or no address at all",
                 access.write ? "writes" : "reads", ull(bytes));
        }
        gm_describe(access.address, bytes, last, sizeof last);
        if (!region->alive) {
            fail("gm-freed", "%s: operand %s %s %llu bytes: %s", access.write ? "writes" : "reads",
                 ull(bytes), last);
        }
        if (!region->contains(access.address, bytes)) {
            fail("gm-out-of-bounds", "%s: operand %s %s %llu bytes of GM: %s",
                 access.write ? "writes" : "reads", ull(bytes), last);
        }
        if (!region->device) {
            fail("gm-host-memory", "%s: operand %s %s %llu bytes of host memory: %s",
                 access.write ? "writes" : "reads", ull(bytes), last);
        }
    }
    if (access.global != nullptr && access.global->bytes != UINT64_MAX) {
        // Below zero where the tensor begins past the end, so as a signed number.
        const auto declared =
            int64_t(access.global->bytes) + (access.global->address - access.address);
        if (declared < int64_t(bytes)) {
            fail("gm-declared",
                 "%s: operand %s %s %llu bytes from an address on that has %lld left of the size "
                 "SetGlobalBuffer was told",
                 access.write ? "writes" : "reads", ull(bytes), static_cast<long long>(declared));
        }
    }
}

void check_gm(const Launch &launch, Where where, const char *name, const Access &access) {
    const uint64_t bytes = access.shape == Access::kBytes ? access.bytes : extent(access);
    const Region *region = region_of(launch, access.address, bytes);
    if (bytes != 0 &&
        (region == nullptr ||
         bytes > region->bytes -
                     uint64_t(access.address - static_cast<const uint8_t *>(region->address)))) {
        check_gm_bounds(launch, where, name, access, bytes);
    }
}

CacheLineAt cache_line_at(const Launch &launch, const uint8_t *address) {
    const uint8_t *begin = nullptr;
    uint64_t bytes = UINT64_MAX;
    if (launch.regions != nullptr) {
        if (const Region *region = region_of(launch, address, 1)) {
            begin = static_cast<const uint8_t *>(region->address);
            bytes = region->bytes;
        }
    } else if (gm_in_use()) {
        if (const GmRegion *region = gm_region(address)) {
            begin = region->begin;
            bytes = region->bytes;
        }
    }
    const auto start = reinterpret_cast<uint64_t>(begin);
    const uint64_t line = (reinterpret_cast<uint64_t>(address) - start) / kCacheLine * kCacheLine;
    return {start + line, start + std::min(line + kCacheLine, bytes)};
}

const uint8_t *gm_unwritten_byte(const Access &access) {
    const uint8_t *found = nullptr;
    const GmRegion *region = gm_in_use() ? gm_region(access.address) : nullptr;
    if (region == nullptr || region->written == nullptr || !region->alive) {
        return nullptr;
    }
    for_each_run(access, [&](int64_t from, uint64_t bytes) {
        if (found == nullptr && region->contains(access.address + from, bytes)) {
            found =
                static_cast<const uint8_t *>(gm_unwritten(*region, access.address + from, bytes));
        }
    });
    return found;
}

void gm_written(const Access &access) {
    const GmRegion *region = gm_in_use() ? gm_region(access.address) : nullptr;
    if (region == nullptr || region->written == nullptr || !region->alive) {
        return;
    }
    for_each_run(access, [&](int64_t from, uint64_t bytes) {
        if (region->contains(access.address + from, bytes)) {
            gm_mark(*region, access.address + from, bytes);
        }
    });
}

// ---- one block ----------------------------------------------------------------------------------

GmShadow::Spans::iterator GmShadow::split(uint64_t at) {
    auto next = spans_.lower_bound(at);
    if (next != spans_.begin() && (next == spans_.end() || next->first != at)) {
        auto before = std::prev(next);
        if (before->second.end > at) {
            Span rest = before->second;
            before->second.end = at;
            return spans_.emplace_hint(next, at, rest);
        }
    }
    return next;
}

bool GmShadow::run(uint64_t from, uint64_t to, bool write, uint8_t atomic, const Doing &doing,
                   Hit *hit) {
    const uint32_t n = doing.number;
    const uint32_t *after = doing.after.at;
    split(to);
    auto it = split(from);
    uint64_t at = from;
    while (at < to) {
        if (it == spans_.end() || it->first > at) {
            const uint64_t end = it == spans_.end() || it->first > to ? to : it->first;
            Span fresh = {end, 0, Pipe::kS, 0, {}};
            it = spans_.emplace_hint(it, at, fresh);
        }
        Span &span = it->second;
        for (unsigned p = 0; write && p < kPipes; ++p) {
            if (span.read[p] > after[p] && span.read[p] != n) {
                *hit = {Hit::kRace, at, span.read[p], false};
                return true;
            }
        }
        if (span.write > after[unsigned(span.writer)] && span.write != n &&
            !(write && atomic != 0 && span.atomic == atomic)) {
            *hit = {Hit::kRace, at, span.write, true};
            return true;
        }
        at = span.end;
        if (write) {
            it = spans_.erase(it);
        } else {
            span.read[unsigned(doing.pipe)] = n;
            ++it;
        }
    }
    if (write) {
        spans_.emplace_hint(it, from, Span{to, n, doing.pipe, atomic, {}});
    }
    return false;
}

Hit GmShadow::access(const Access &a, const Doing &doing, uint8_t atomic) {
    Hit hit;
    bool bad = false;
    const auto base = reinterpret_cast<uint64_t>(a.address);
    for_each_run(a, [&](int64_t from, uint64_t bytes) {
        if (!bad && bytes != 0) {
            const uint64_t at = base + uint64_t(from);
            bad = run(at, at + bytes, a.write, atomic, doing, &hit);
        }
    });
    if (bad) {
        hit.offset -= base;
    }
    return hit;
}

void GmShadow::prune(const Order &order) {
    if (spans_.size() < limit_) {
        return;
    }
    for (auto it = spans_.begin(); it != spans_.end();) {
        const Span &span = it->second;
        bool over = order.over(span.writer, span.write);
        for (unsigned p = 0; p < kPipes; ++p) {
            over = over && order.over(Pipe(p), span.read[p]);
        }
        it = over ? spans_.erase(it) : std::next(it);
    }
    limit_ = std::max(kLimit, 2 * spans_.size());
}

// ---- for the other blocks -----------------------------------------------------------------------

void DoneList::add(const Access &a, Done done) {
    const auto base = reinterpret_cast<uint64_t>(a.address);
    for_each_run(a, [&](int64_t from, uint64_t bytes) {
        if (bytes != 0) {
            done.begin = base + uint64_t(from);
            done.end = done.begin + bytes;
            push(&open_, done);
        }
    });
}

namespace {

// Whatever tells two accesses apart but for where and when in their phase they were.
bool alike(const Done &a, const Done &b) {
    return a.phase == b.phase && a.after == b.after && a.until == b.until && a.site == b.site &&
           a.write == b.write && a.atomic == b.atomic && a.line == b.line;
}

}  // namespace

void DoneList::push(Part *part, const Done &done) {
    if (!part->all.empty()) {
        Done &last = part->all.back();
        if (last.end == done.begin && alike(last, done)) {
            last.end = done.end;
            last.last = std::max(last.last, done.last);
            return;
        }
    }
    part->all.push_back(done);
    if (part->all.size() >= part->limit) {
        compact(&part->all);
        part->limit = std::max(kLimit, 2 * part->all.size());
    }
}

void DoneList::compact(std::vector<Done> *all) {
    std::sort(all->begin(), all->end(), [](const Done &a, const Done &b) {
        const auto key = [](const Done &d) {
            return std::make_tuple(d.phase, d.after, d.until, d.site, d.write, d.atomic, d.line,
                                   d.begin, d.number, d.end);
        };
        return key(a) < key(b);
    });
    size_t kept = 0;
    for (const Done &done : *all) {
        if (kept != 0) {
            Done &last = (*all)[kept - 1];
            if (alike(last, done) && done.begin <= last.end) {
                last.end = std::max(last.end, done.end);
                last.number = std::min(last.number, done.number);
                last.last = std::max(last.last, done.last);
                continue;
            }
        }
        (*all)[kept++] = done;
    }
    all->resize(kept);
}

std::vector<Done> DoneList::take() {
    std::vector<Done> out = std::move(closed_.all);
    out.insert(out.end(), open_.all.begin(), open_.all.end());
    compact(&out);
    clear();
    return out;
}

}  // namespace twin
