// What sums and extremes share.
#pragma once

#include <algorithm>

#include "accesses.h"
#include "arith.h"
#include "twin/reduce.h"

namespace twin {

// The lanes of a reduction, whose repeat count may be larger than that of other instructions.
Pattern reduce_pattern(Op op, const ReduceLanes &given, Type type, int64_t most, Where where);
void check_stride(Op op, const char *name, int32_t stride, Where where);
void extremes_per_repeat(const PerRepeat &i, const Pattern &p);

}  // namespace twin
