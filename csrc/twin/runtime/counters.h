// Counters of a launch, per line of the source.
#pragma once

#include <map>
#include <utility>

#include "twin/runtime.h"

namespace twin {

class LineTable {
  public:
    Counters &at(Where where);
    void add(const LineTable &other);
    void clear();
    void report(Report *report) const;

  private:
    using Key = std::pair<const char *, int>;
    std::map<Key, Counters> lines_;
    Key last_{nullptr, 0};
    Counters *last_line_ = nullptr;  // most instructions come from the line of the one before
};

void count(Counters *c, const Instruction &i);

}  // namespace twin
