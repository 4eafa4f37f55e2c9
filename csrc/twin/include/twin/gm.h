// Device memory: which regions there are, whether they are alive, and which of their bytes have
// been written. aclrtMalloc and its relatives fill it; the checks ask it.
#pragma once

#include "twin/block.h"

namespace twin {

struct GmRegion {
    uint8_t *begin;
    uint64_t bytes;  // as asked for, not rounded
    bool device;     // aclrtMalloc; else host memory of aclrtMallocHost
    bool alive;
    Where allocated;
    Where freed;
    uint64_t *written;  // a bit per byte, with the init check; else null
    uint64_t writer;    // number of the last launch that wrote to it, as far as gm_mark is told

    bool contains(const void *address, uint64_t n) const {
        const auto at = static_cast<const uint8_t *>(address);
        return at >= begin && n <= bytes && uint64_t(at - begin) <= bytes - n;
    }
};

// Untouched bytes of ours on both sides of a region, where a small overrun lands.
constexpr uint64_t kGmGuard = 512;

// The region whose bytes or guards hold `address`, alive or freed (with the mem check the freed
// ones are kept); null: memory that the registry does not know. The region stays where it is until
// it is forgotten, which no launch does.
const GmRegion *gm_region(const void *address);

// Whether there is any device memory in the registry: then a kernel has no business elsewhere.
bool gm_in_use();

// With the init check: `bytes` bytes from `address` on, which lie in `region`, have been written.
void gm_mark(const GmRegion &region, const void *address, uint64_t bytes);

// With the init check: the first of these bytes that nobody has written, or null. (A kernel that
// stores through a plain pointer marks nothing; so bytes count as never written only where a whole
// unmarked run still holds the pattern that aclrtMalloc has put there.)
const void *gm_unwritten(const GmRegion &region, const void *address, uint64_t bytes);

// Says where `address` is, for a message: "64 bytes past the end of the 512 bytes that
// aclrtMalloc gave at main.asc:12".
void gm_describe(const void *address, uint64_t bytes, char *text, size_t size);

}  // namespace twin
