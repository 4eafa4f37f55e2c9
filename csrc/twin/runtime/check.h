// What every instruction asks of its operands.
#pragma once

#include "twin/runtime.h"

namespace twin {

[[noreturn]] void operand_fault(Where where, const char *name, const void *address, uint64_t bytes);

// Faults unless [address, address + bytes) lies in this block's UB and starts on a data block.
inline void check_operand(Where where, const char *name, const void *address, uint64_t bytes) {
    const uint64_t offset =
        static_cast<uint64_t>(static_cast<const uint8_t *>(address) - block().ub);
    if (__builtin_expect(offset % kDataBlock != 0 || offset + bytes > kUbMax, 0)) {
        operand_fault(where, name, address, bytes);
    }
}

}  // namespace twin
