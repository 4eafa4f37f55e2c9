// Which bytes of UB hold something, and who touched them last.
#pragma once

#include <vector>

#include "lanes.h"
#include "order.h"

namespace twin {

// An access that must not be: the byte, and the instruction it collides with.
struct Hit {
    enum What : uint8_t { kNone, kUnwritten, kRace };
    What what = kNone;
    uint64_t offset = 0;  // in UB; of GM from the start of the access
    uint32_t other = 0;   // the number of the instruction
    bool other_writes = false;
};

// Of the instruction that is looked at.
struct Doing {
    uint32_t number;
    Pipe pipe;
    Clock after;  // what it comes after
};

class Shadow {
  public:
    Shadow() : cells_(kUbMax / kDataBlock) {}
    void clear();
    // These bytes hold nothing any more; who touched them is remembered.
    void forget(uint64_t offset, uint64_t bytes);
    // Looks at what the access, of UB, does to each byte, and remembers it (unless `remember` is
    // false). All reads of an instruction come before its writes.
    Hit access(const Access &a, uint64_t offset, const Doing &doing, bool init, bool race,
               bool remember = true);

  private:
    typedef uint32_t PerPipe __attribute__((vector_size(16)));

    // A data block. Its bytes share a history, or have one each in `details_`.
    struct alignas(32) Cell {
        PerPipe read;      // the last instruction of each pipe that read it; 0: none
        uint32_t write;    // the last one that wrote it; 0: none
        uint32_t written;  // a bit per byte: it holds something
        uint32_t detail;   // 0: none
        uint32_t writer;   // the pipe of `write`
    };
    struct Detail {
        uint32_t write[kDataBlock];
        uint8_t writer[kDataBlock];
        uint32_t read[kPipes][kDataBlock];
    };
    static_assert(sizeof(Cell) == 32 && kPipes == 4, "a cell is half a cache line");

    bool run(uint64_t from, uint64_t bytes, bool write, Hit *hit);
    bool whole_cells(uint64_t cell, uint64_t end, bool write, Hit *hit);
    bool some_bytes(uint64_t cell, uint32_t mask, bool write, Hit *hit);
    Detail &detail(Cell *cell);

    std::vector<Cell> cells_;
    std::vector<Detail> details_;
    std::vector<uint32_t> free_details_;
    uint64_t top_ = 0;  // no cell from here on was touched
    Doing doing_;
    bool init_ = false, race_ = false, remember_ = true;
};

}  // namespace twin
