#include "shadow.h"

namespace twin {
namespace {

constexpr uint32_t kAll = ~uint32_t{0};

// Bits `from` to `to` of a data block's bytes.
uint32_t bytes_mask(uint64_t from, uint64_t to) {
    const uint32_t below = to >= kDataBlock ? kAll : (uint32_t{1} << to) - 1;
    return below & ~((uint32_t{1} << from) - 1);
}

}  // namespace

void Shadow::clear() {
    std::memset(static_cast<void *>(cells_.data()), 0, top_ * sizeof(Cell));
    details_.clear();
    free_details_.clear();
    top_ = 0;
}

void Shadow::forget(uint64_t offset, uint64_t bytes) {
    const uint64_t end = offset + bytes < kUbMax ? offset + bytes : kUbMax;
    while (offset < end) {
        const uint64_t cell = offset / kDataBlock;
        const uint64_t next = (cell + 1) * kDataBlock < end ? (cell + 1) * kDataBlock : end;
        cells_[cell].written &= ~bytes_mask(offset - cell * kDataBlock, next - cell * kDataBlock);
        offset = next;
    }
}

Hit Shadow::access(const Access &a, uint64_t offset, const Doing &doing, bool init, bool race,
                   bool remember) {
    doing_ = doing;
    init_ = init;
    race_ = race;
    remember_ = remember;
    Hit hit;
    if (a.shape == Access::kBytes) {
        run(offset, a.bytes, a.write, &hit);
        return hit;
    }
    // Lanes of one data block may come as several runs: they are looked at together.
    uint64_t cell = 0;
    uint32_t mask = 0;
    bool bad = false;
    for_each_run(a, [&](int64_t from, uint64_t bytes) {
        if (bad) {
            return;
        }
        const uint64_t at = offset + uint64_t(from);
        const uint64_t in_cell = at % kDataBlock;
        if (in_cell + bytes <= kDataBlock) {
            if (mask != 0 && at / kDataBlock != cell) {
                bad = some_bytes(cell, mask, a.write, &hit);
                mask = 0;
            }
            cell = at / kDataBlock;
            mask |= bytes_mask(in_cell, in_cell + bytes);
            return;
        }
        if (mask != 0) {
            bad = some_bytes(cell, mask, a.write, &hit);
            mask = 0;
        }
        bad = bad || run(at, bytes, a.write, &hit);
    });
    if (!bad && mask != 0) {
        some_bytes(cell, mask, a.write, &hit);
    }
    return hit;
}

bool Shadow::run(uint64_t from, uint64_t bytes, bool write, Hit *hit) {
    const uint64_t to = from + bytes;
    uint64_t cell = from / kDataBlock;
    const uint64_t last = to / kDataBlock;
    if (from % kDataBlock != 0 || cell == last) {
        const uint64_t end = cell == last ? to % kDataBlock : kDataBlock;
        if (end != 0 && some_bytes(cell, bytes_mask(from % kDataBlock, end), write, hit)) {
            return true;
        }
        ++cell;
    }
    if (cell < last && whole_cells(cell, last, write, hit)) {
        return true;
    }
    return cell <= last && to % kDataBlock != 0 &&
           some_bytes(last, bytes_mask(0, to % kDataBlock), write, hit);
}

// The common case: long, consecutive, one history per data block.
bool Shadow::whole_cells(uint64_t cell, uint64_t end, bool write, Hit *hit) {
    const uint32_t n = doing_.number;
    const unsigned pipe = unsigned(doing_.pipe);
    PerPipe after;
    std::memcpy(&after, doing_.after.at, sizeof after);
    const uint32_t after_writer[kPipes] = {after[0], after[1], after[2], after[3]};
    top_ = end > top_ ? end : top_;
    for (uint64_t i = cell; i < end; ++i) {
        Cell &c = cells_[i];
        if (__builtin_expect(c.detail != 0, 0)) {
            if (some_bytes(i, kAll, write, hit)) {
                return true;
            }
            continue;
        }
        bool bad = race_ && c.write > after_writer[c.writer] && c.write != n;
        if (write) {
            // What this instruction itself has read is no collision.
            const PerPipe late = PerPipe((c.read > after) & (c.read != n));
            bad |= race_ && (late[0] | late[1] | late[2] | late[3]) != 0;
        } else {
            bad |= init_ && c.written != kAll;
        }
        if (__builtin_expect(bad, 0)) {
            if (some_bytes(i, kAll, write, hit)) {
                return true;
            }
            continue;
        }
        if (!remember_) {
            continue;
        }
        if (write) {
            c.read = PerPipe{0, 0, 0, 0};
            c.write = n;
            c.writer = pipe;
            c.written = kAll;
        } else {
            c.read[pipe] = n;
        }
    }
    return false;
}

Shadow::Detail &Shadow::detail(Cell *cell) {
    if (cell->detail == 0) {
        if (free_details_.empty()) {
            details_.emplace_back();
            cell->detail = uint32_t(details_.size());
        } else {
            cell->detail = free_details_.back();
            free_details_.pop_back();
        }
        Detail &d = details_[cell->detail - 1];
        for (unsigned b = 0; b < kDataBlock; ++b) {
            d.write[b] = cell->write;
            d.writer[b] = uint8_t(cell->writer);
            for (unsigned p = 0; p < kPipes; ++p) {
                d.read[p][b] = cell->read[p];
            }
        }
    }
    return details_[cell->detail - 1];
}

bool Shadow::some_bytes(uint64_t index, uint32_t mask, bool write, Hit *hit) {
    Cell &cell = cells_[index];
    top_ = index + 1 > top_ ? index + 1 : top_;
    const uint32_t n = doing_.number;
    const uint32_t *after = doing_.after.at;
    if (!write && init_ && (cell.written & mask) != mask) {
        hit->what = Hit::kUnwritten;
        hit->offset = index * kDataBlock + unsigned(__builtin_ctz(mask & ~cell.written));
        return true;
    }
    if (!race_) {
        cell.written |= write && remember_ ? mask : 0;
        return false;
    }
    Detail &d = detail(&cell);
    for (uint32_t left = mask; left != 0; left &= left - 1) {
        const unsigned b = unsigned(__builtin_ctz(left));
        // A read came after the last write, so it says more.
        for (unsigned p = 0; write && p < kPipes; ++p) {
            if (d.read[p][b] > after[p] && d.read[p][b] != n) {
                *hit = {Hit::kRace, index * kDataBlock + b, d.read[p][b], false};
                return true;
            }
        }
        if (d.write[b] > after[d.writer[b]] && d.write[b] != n) {
            *hit = {Hit::kRace, index * kDataBlock + b, d.write[b], true};
            return true;
        }
        if (!remember_) {
            continue;
        }
        if (write) {
            d.write[b] = n;
            d.writer[b] = uint8_t(doing_.pipe);
            for (auto &read : d.read) {
                read[b] = 0;
            }
        } else {
            d.read[unsigned(doing_.pipe)][b] = n;
        }
    }
    if (write && remember_) {
        cell.written |= mask;
        if (mask == kAll) {  // one history again
            free_details_.push_back(cell.detail);
            cell.detail = 0;
            cell.write = n;
            cell.writer = uint32_t(doing_.pipe);
            cell.read = PerPipe{0, 0, 0, 0};
        }
    }
    return false;
}

}  // namespace twin
