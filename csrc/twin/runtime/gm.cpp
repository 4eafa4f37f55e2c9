// The registry of device memory.
#include "twin/gm.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>

#include "host.h"

namespace twin {
namespace {

constexpr uint64_t kAlign = 512;               // what aclrtMalloc's addresses are multiples of
constexpr uint64_t kKept = 256ull << 20;       // bytes of freed memory kept for its faults
constexpr uint64_t kUnfilled = 1ull << 30;     // larger regions are not filled without checks
constexpr uint8_t kPattern[2] = {0xa5, 0x7f};  // a NaN as float, as half and as bfloat16_t
constexpr uint8_t kGuardByte = 0xe7;
static_assert(kGmGuard % kAlign == 0, "a region starts on its alignment behind its guard");

struct Registry {
    std::shared_mutex mutex;
    std::map<uintptr_t, GmRegion> regions;  // by begin; a node never moves
    std::deque<uintptr_t> freed;            // oldest first
    uint64_t freed_bytes = 0;
    uint64_t device_bytes = 0;
    std::atomic<uint64_t> device_regions{0};
};

// Never destroyed: the leaks are reported after static destructors may have run.
Registry &registry() {
    static Registry *the = new Registry;
    return *the;
}

uint8_t *block_of(const GmRegion &region) {
    return region.begin - kGmGuard;
}

uint64_t words(uint64_t bytes) {
    return (bytes + 63) / 64;
}

void fill(uint8_t *to, uint64_t bytes) {
    uint64_t i = 0;
    for (; i + 2 <= bytes; i += 2) {
        std::memcpy(to + i, kPattern, 2);
    }
    if (i < bytes) {
        to[i] = kPattern[0];
    }
}

GmRegion *find_locked(const void *address) {
    auto &regions = registry().regions;
    const auto at = reinterpret_cast<uintptr_t>(address);
    auto next = regions.upper_bound(at);
    if (next != regions.begin()) {
        auto before = std::prev(next);
        if (at < before->first + before->second.bytes + kGmGuard) {
            return &before->second;
        }
    }
    if (next != regions.end() && at >= next->first - kGmGuard) {
        return &next->second;
    }
    return nullptr;
}

void forget_locked(std::map<uintptr_t, GmRegion>::iterator it) {
    std::free(it->second.written);
    std::free(block_of(it->second));
    registry().regions.erase(it);
}

std::atomic<uint64_t> *atomic_word(uint64_t *word) {
    static_assert(sizeof(std::atomic<uint64_t>) == sizeof(uint64_t), "a word can be atomic");
    return reinterpret_cast<std::atomic<uint64_t> *>(word);
}

bool marked(const GmRegion &region, uint64_t at) {
    return (atomic_word(region.written + at / 64)->load(std::memory_order_relaxed) >> at % 64 &
            1) != 0;
}

void set_marks(const GmRegion &region, uint64_t at, uint64_t bytes) {
    const uint64_t end = at + bytes;
    while (at < end) {
        const uint64_t bit = at % 64;
        const uint64_t n = std::min<uint64_t>(64 - bit, end - at);
        const uint64_t bits = (n == 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1) << bit;
        // Blocks that write neighbouring bytes share a word.
        atomic_word(region.written + at / 64)->fetch_or(bits, std::memory_order_relaxed);
        at += n;
    }
}

const char *giver(const GmRegion &region) {
    return region.device ? "aclrtMalloc" : "aclrtMallocHost";
}

}  // namespace

const GmRegion *gm_region(const void *address) {
    std::shared_lock<std::shared_mutex> lock(registry().mutex);
    return find_locked(address);
}

bool gm_in_use() {
    return registry().device_regions.load(std::memory_order_relaxed) != 0;
}

uint64_t gm_device_bytes() {
    std::shared_lock<std::shared_mutex> lock(registry().mutex);
    return registry().device_bytes;
}

void *gm_allocate(uint64_t bytes, bool device, Where where) {
    if (bytes > (uint64_t(1) << 46)) {
        return nullptr;
    }
    const uint32_t checks = host_options().checks;
    const uint64_t whole = (bytes + kAlign - 1) / kAlign * kAlign + 2 * kGmGuard;
    auto *block = static_cast<uint8_t *>(std::aligned_alloc(kAlign, whole));
    if (block == nullptr) {
        return nullptr;
    }
    GmRegion region = {block + kGmGuard, bytes, device, true, where, {"", 0}, nullptr, 0};
    if (device && (checks & kCheckInit) != 0) {
        region.written =
            static_cast<uint64_t *>(std::calloc(size_t(words(bytes)), sizeof(uint64_t)));
        if (region.written == nullptr) {
            std::free(block);
            return nullptr;
        }
    }
    // What nobody wrote is never a harmless zero. (Filling also takes the pages from the system, so
    // a program that asks for far more than it uses is spared it.)
    if (checks != 0 || bytes <= kUnfilled) {
        fill(region.begin, bytes);
    }
    std::memset(block, kGuardByte, kGmGuard);
    std::memset(region.begin + bytes, kGuardByte, kGmGuard);

    std::unique_lock<std::shared_mutex> lock(registry().mutex);
    registry().regions[reinterpret_cast<uintptr_t>(region.begin)] = region;
    if (device) {
        registry().device_bytes += bytes;
        ++registry().device_regions;
    }
    return region.begin;
}

GmFree gm_release(void *address, bool device, Where where, GmRegion *was) {
    std::unique_lock<std::shared_mutex> lock(registry().mutex);
    Registry &r = registry();
    GmRegion *found = find_locked(address);
    *was = found != nullptr ? *found : GmRegion{};
    if (found == nullptr) {
        return GmFree::kUnknown;
    }
    if (found->begin != address) {
        return GmFree::kInside;
    }
    if (!found->alive) {
        return GmFree::kTwice;
    }
    if (found->device != device) {
        return GmFree::kOtherKind;
    }
    found->alive = false;
    found->freed = where;
    if (device) {
        r.device_bytes -= found->bytes;
    }
    const auto key = reinterpret_cast<uintptr_t>(address);
    if ((host_options().checks & kCheckMem) == 0) {
        forget_locked(r.regions.find(key));
        return GmFree::kOk;
    }
    // Kept, so that a later use of it is known for what it is and hits nobody else's memory.
    r.freed.push_back(key);
    r.freed_bytes += found->bytes;
    while (r.freed_bytes > kKept && r.freed.size() > 1) {
        auto oldest = r.regions.find(r.freed.front());
        r.freed_bytes -= oldest->second.bytes;
        forget_locked(oldest);
        r.freed.pop_front();
    }
    return GmFree::kOk;
}

void gm_mark(const GmRegion &region, const void *address, uint64_t bytes) {
    if (const uint64_t launch = running_launch()) {
        __atomic_store_n(&const_cast<GmRegion &>(region).writer, launch, __ATOMIC_RELAXED);
    }
    if (region.written != nullptr) {
        set_marks(region, uint64_t(static_cast<const uint8_t *>(address) - region.begin), bytes);
    }
}

const void *gm_unwritten(const GmRegion &region, const void *address, uint64_t bytes) {
    if (region.written == nullptr) {
        return nullptr;
    }
    const auto from = uint64_t(static_cast<const uint8_t *>(address) - region.begin);
    const uint64_t end = from + bytes;
    uint64_t at = from;
    while (at < end) {
        if (at % 64 == 0 && end - at >= 64 &&
            atomic_word(region.written + at / 64)->load(std::memory_order_relaxed) ==
                ~uint64_t(0)) {
            at += 64;
            continue;
        }
        if (marked(region, at)) {
            ++at;
            continue;
        }
        const uint64_t run = at;
        bool pattern = true;
        for (; at < end && !marked(region, at); ++at) {
            pattern = pattern && region.begin[at] == kPattern[at % 2];
        }
        if (pattern) {
            return region.begin + run;
        }
    }
    return nullptr;
}

void gm_copied(const void *dst, const void *src, uint64_t bytes) {
    const GmRegion *to = gm_region(dst);
    if (to == nullptr || to->written == nullptr || !to->contains(dst, bytes)) {
        return;
    }
    const GmRegion *from = gm_region(src);
    if (from == nullptr || from->written == nullptr || !from->contains(src, bytes)) {
        gm_mark(*to, dst, bytes);
        return;
    }
    const auto to_at = uint64_t(static_cast<const uint8_t *>(dst) - to->begin);
    const auto from_at = uint64_t(static_cast<const uint8_t *>(src) - from->begin);
    for (uint64_t i = 0; i < bytes; ++i) {
        if (marked(*from, from_at + i)) {
            set_marks(*to, to_at + i, 1);
        }
    }
}

void gm_describe(const void *address, uint64_t bytes, char *text, size_t size) {
    const GmRegion *region = gm_region(address);
    if (region == nullptr) {
        std::snprintf(text, size, "in memory that no aclrtMalloc gave");
        return;
    }
    const auto at = static_cast<const uint8_t *>(address);
    const auto *end = region->begin + region->bytes;
    char place[200];
    if (at < region->begin) {
        std::snprintf(place, sizeof place, "%llu bytes before the start of",
                      static_cast<unsigned long long>(region->begin - at));
    } else if (at >= end) {
        std::snprintf(place, sizeof place, "%llu bytes past the end of",
                      static_cast<unsigned long long>(at - end));
    } else if (!region->contains(address, bytes)) {
        std::snprintf(place, sizeof place, "%llu bytes from the start, and %llu bytes too long, in",
                      static_cast<unsigned long long>(at - region->begin),
                      static_cast<unsigned long long>(bytes - uint64_t(end - at)));
    } else {
        std::snprintf(place, sizeof place, "%llu bytes from the start of",
                      static_cast<unsigned long long>(at - region->begin));
    }
    char freed[560] = "";
    if (!region->alive) {
        std::snprintf(freed, sizeof freed, " and that was freed at %.500s:%d", region->freed.file,
                      region->freed.line);
    }
    std::snprintf(text, size, "%s the %llu bytes that %s gave at %s:%d%s", place,
                  static_cast<unsigned long long>(region->bytes), giver(*region),
                  region->allocated.file, region->allocated.line, freed);
}

void gm_check_guards(Where where, const char *after) {
    if ((host_options().checks & kCheckMem) == 0) {
        return;
    }
    std::unique_lock<std::shared_mutex> lock(registry().mutex);
    for (auto &item : registry().regions) {
        const GmRegion &region = item.second;
        uint8_t *sides[2] = {block_of(region), region.begin + region.bytes};
        for (int side = 0; side < 2; ++side) {
            uint8_t *guard = sides[side];
            for (uint64_t i = 0; i < kGmGuard; ++i) {
                // In front of a region the byte nearest to it says most.
                const uint64_t at = side == 0 ? kGmGuard - 1 - i : i;
                if (guard[at] != kGuardByte) {
                    std::memset(guard, kGuardByte, kGmGuard);
                    misuse(where, "mem", "guard", after,
                           "a byte %llu %s the %llu bytes that %s gave at %s:%d was overwritten",
                           static_cast<unsigned long long>(i + (side == 0 ? 1 : 0)),
                           side == 0 ? "before the start of" : "past the end of",
                           static_cast<unsigned long long>(region.bytes), giver(region),
                           region.allocated.file, region.allocated.line);
                    break;
                }
            }
        }
    }
}

void gm_report_leaks() {
    if ((host_options().checks & kCheckMem) == 0) {
        return;
    }
    std::unique_lock<std::shared_mutex> lock(registry().mutex);
    for (const auto &item : registry().regions) {
        const GmRegion &region = item.second;
        if (region.alive) {
            misuse(region.allocated, "mem", "leak", giver(region), "its %llu bytes are never freed",
                   static_cast<unsigned long long>(region.bytes));
        }
    }
}

}  // namespace twin
