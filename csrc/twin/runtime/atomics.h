// Atomic copies to GM.
#pragma once

#include "twin/block.h"

namespace twin {

// Before an instruction that copies to GM begins, with the bytes of one burst: if it is atomic, it
// waits for the blocks before this one and is checked. Returns whether it is atomic.
bool begin_atomic_slow(uint64_t bytes, Where where);
inline bool begin_atomic(uint64_t bytes, Where where) {
    return __builtin_expect(block().atomic != 0, 0) && begin_atomic_slow(bytes, where);
}

// Adds, or takes the extreme of, what is at `to` and what comes from `from`.
void combine(uint8_t *to, const uint8_t *from, uint64_t bytes);

}  // namespace twin
