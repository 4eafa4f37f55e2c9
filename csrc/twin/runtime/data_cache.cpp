#include "data_cache.h"

#include <algorithm>

namespace twin {
namespace {

// Bits of the bytes from `begin` to `end` that lie in the line at `line`.
uint64_t bits_of(uint64_t line, uint64_t begin, uint64_t end) {
    const uint64_t from = begin > line ? begin - line : 0;
    const uint64_t to = std::min(end - line, kCacheLine);
    if (from >= to) {
        return 0;
    }
    const uint64_t below = to == kCacheLine ? ~uint64_t{0} : (uint64_t{1} << to) - 1;
    return below & ~((uint64_t{1} << from) - 1);
}

}  // namespace

bool DataCache::dirty(uint64_t begin, uint64_t end) const {
    auto line = const_cast<DataCache *>(this)->first(begin);
    for (; line != lines_.end() && line->first < end; ++line) {
        if ((line->second.dirty & bits_of(line->first, begin, end)) != 0) {
            return true;
        }
    }
    return false;
}

const DataCache::Line *DataCache::copy(const Access &access, uint32_t number) {
    const Line *found = nullptr;
    const auto base = reinterpret_cast<uint64_t>(access.address);
    for_each_run(access, [&](int64_t from, uint64_t bytes) {
        const uint64_t begin = base + uint64_t(from), end = begin + bytes;
        for (auto line = first(begin); line != lines_.end() && line->first < end; ++line) {
            Line &l = line->second;
            const uint64_t meets =
                access.write ? l.dirty : l.dirty & bits_of(line->first, begin, end);
            found = found == nullptr && meets != 0 ? &l : found;
            l.copier = access.write ? number : l.copier;
        }
    });
    return found;
}

}  // namespace twin
