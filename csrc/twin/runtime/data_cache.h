// The data cache between a block's scalar unit and GM. GetValue and SetValue of a GlobalTensor go
// through it in lines of 64 bytes, copies do not. What SetValue wrote stays in it until
// DataCacheCleanAndInvalid or the end of the kernel, and goes to GM as a whole line; a line that is
// there is not loaded again (all documented, but for how long it stays: for ever is assumed).
#pragma once

#include <map>

#include "lanes.h"

namespace twin {

constexpr uint64_t kCacheLine = 64;

class DataCache {
  public:
    struct Line {
        uint64_t end;
        uint32_t phase;   // of the block, when it was loaded
        uint64_t dirty;   // a bit per byte that SetValue wrote
        uint32_t writer;  // the last such SetValue
        uint32_t copier;  // the last copy of this block that wrote to the line in GM; 0: none
    };
    using Lines = std::map<uint64_t, Line>;  // by first byte

    void clear() { lines_.clear(); }
    bool empty() const { return lines_.empty(); }
    // The line from `begin` to `end`, loaded in `phase` unless it is there already.
    Line &load(uint64_t begin, uint64_t end, uint32_t phase) {
        return lines_.emplace(begin, Line{end, phase, 0, 0, 0}).first->second;
    }
    // DataCacheCleanAndInvalid of the line at an address.
    void clean(uint64_t address) {
        const auto line = first(address);
        if (line != lines_.end() && line->first <= address) {
            lines_.erase(line);
        }
    }
    // Whether some byte from `begin` to `end` has not reached GM.
    bool dirty(uint64_t begin, uint64_t end) const;
    // The first line that the copy must not meet: one it reads while its bytes are dirty, or that
    // it writes to while any are. What it writes to is out of date from now on (number of the
    // copy).
    const Line *copy(const Access &access, uint32_t number);

  private:
    Lines::iterator first(uint64_t address) {  // that ends after `address`
        auto line = lines_.upper_bound(address);
        return line != lines_.begin() && std::prev(line)->second.end > address ? std::prev(line)
                                                                               : line;
    }

    Lines lines_;
};

}  // namespace twin
