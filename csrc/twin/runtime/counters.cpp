#include "counters.h"

#include <cstdlib>

#include "lanes.h"

namespace twin {
namespace {

uint64_t bytes_in(const Access &access) {
    if (access.shape != Access::kLanes) {
        return access.bytes * (access.shape == Access::kBursts ? access.count : 1);
    }
    uint64_t bytes = 0;
    for_each_run(access, [&](int64_t, uint64_t n) { bytes += n; });
    return bytes;
}

void add_up(Counters *to, const Counters &from) {
    auto *a = reinterpret_cast<uint64_t *>(to);
    auto *b = reinterpret_cast<const uint64_t *>(&from);
    for (size_t i = 0; i < sizeof from / sizeof *b; ++i) {
        a[i] += b[i];
    }
}

}  // namespace

Counters &LineTable::at(Where where) {
    const Key key{where.file, where.line};
    if (last_line_ == nullptr || key != last_) {
        last_ = key;
        last_line_ = &lines_[key];
    }
    return *last_line_;
}

void LineTable::add(const LineTable &other) {
    for (const auto &entry : other.lines_) {
        add_up(&lines_[entry.first], entry.second);
    }
}

void LineTable::clear() {
    lines_.clear();
    last_line_ = nullptr;
}

void LineTable::report(Report *report) const {
    if (lines_.empty()) {
        return;
    }
    report->lines = static_cast<LineCounters *>(std::calloc(lines_.size(), sizeof(LineCounters)));
    if (report->lines == nullptr) {
        return;
    }
    for (const auto &entry : lines_) {
        LineCounters &to = report->lines[report->n_lines++];
        to.file = entry.first.first;
        to.line = entry.first.second;
        to.counters = entry.second;
        add_up(&report->counters, entry.second);
    }
}

void count(Counters *c, const Instruction &i) {
    if (i.pipe == Pipe::kV) {
        ++c->vector_instructions;
        c->vector_repeats += i.repeats;
        return;
    }
    if (i.pipe == Pipe::kS) {
        return;
    }
    ++c->copies;
    for (unsigned a = 0; a < i.n; ++a) {
        if (i.accesses[a].gm) {
            (i.accesses[a].write ? c->ub_to_gm : c->gm_to_ub) += bytes_in(i.accesses[a]);
        }
    }
}

}  // namespace twin
