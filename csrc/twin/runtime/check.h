// What every instruction begins with: its operands, checked.
#pragma once

#include <cstdarg>

#include "observer.h"
#include "twin/runtime.h"

namespace twin {

bool in_block();
inline const char *op_name(Op op) {
    return kOpNames[static_cast<unsigned>(op)];
}
void fault_text(Fault *f, Where where, const char *kind, const char *code, const char *format,
                va_list args);
[[noreturn]] void operand_fault(Where where, const char *name, const Access &access,
                                uint64_t bytes);

// One past the last byte of an access, counted from its address.
uint64_t extent(const Access &access);

inline void check_operand(Where where, const char *name, const Access &access) {
    const Block &b = block();
    const uint64_t offset = static_cast<uint64_t>(access.address - b.ub);
    const uint64_t bytes = access.shape == Access::kBytes ? access.bytes : extent(access);
    if (__builtin_expect((offset & (access.align - 1u)) != 0 || offset + bytes > b.arch->ub_bytes,
                         0)) {
        if (bytes != 0) {
            operand_fault(where, name, access, bytes);
        }
    }
}

// Calls that are no instruction of a pipe: they are named in faults and in what was used.
inline Block &mark(Op op) {
    Block &b = block();
    b.op = op;
    b.used[static_cast<unsigned>(op) / 64] |= uint64_t{1} << static_cast<unsigned>(op) % 64;
    return b;
}

// Faults if an access leaves the tensors that the launch was given.
void check_gm(const Launch &launch, Where where, const char *name, const Access &access);

// Every instruction begins with this, before it changes anything. A launch from Python says which
// tensors it has, and those are few; a whole program has a registry of its memory, which takes a
// lock, so that there only the observer asks.
inline void begin(const Instruction &i) {
    Block &b = block();
    const unsigned op = static_cast<unsigned>(i.op);
    b.op = i.op;
    b.used[op / 64] |= uint64_t{1} << op % 64;
    for (unsigned a = 0; a < i.n; ++a) {
        if (!i.accesses[a].gm) {
            check_operand(i.where, op_name(i.op), i.accesses[a]);
        } else if (__builtin_expect(i.accesses[a].address == nullptr, 0)) {
            fault(i.where, "mem", "null-address", "%s: operand %s in GM has a null address",
                  op_name(i.op), i.accesses[a].name);
        } else if (b.launch != nullptr) {
            check_gm(*b.launch, i.where, op_name(i.op), i.accesses[a]);
        }
    }
    if (__builtin_expect(b.observer != nullptr, 0)) {
        b.observer->instruction(i);
    }
}

// ---- descriptions of operands -------------------------------------------------------------------

inline Access bytes_of(const char *name, const Local &tensor, uint64_t bytes, bool write,
                       uint8_t align = kDataBlock) {
    Access a{};
    a.name = name;
    a.address = tensor.address;
    a.bytes = bytes;
    a.count = 1;
    a.elem = 1;
    a.shape = Access::kBytes;
    a.align = align;
    a.write = write;
    a.tensor = &tensor;
    return a;
}

inline Access bytes_of(const char *name, const Global &tensor, uint64_t bytes, bool write) {
    Access a{};
    a.name = name;
    a.address = tensor.address;
    a.bytes = bytes;
    a.count = 1;
    a.elem = 1;
    a.shape = Access::kBytes;
    a.align = 1;
    a.write = write;
    a.gm = true;
    a.global = &tensor;
    return a;
}

// The same, as `count` bursts of `bytes`, `step` bytes from one start to the next.
inline Access bursts(Access a, uint32_t count, int64_t step) {
    if (count != 1) {
        a.shape = Access::kBursts;
        a.count = count;
        a.step = step;
    }
    return a;
}

}  // namespace twin
