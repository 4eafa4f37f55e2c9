// UB as bytes.
#pragma once

#include <cstdint>

namespace twin {

uint64_t round_to_block(uint64_t bytes);

// Fills UB with a pattern that is a NaN as float, as half and as bfloat16_t, so that what nobody
// wrote is never a harmless zero.
void poison(void *address, uint64_t bytes);

}  // namespace twin
