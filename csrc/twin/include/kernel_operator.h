// Ascend C on the CPU: what an .asc file includes. Written from the vendor's public documentation
// (names, signatures and semantics); it contains no vendor source. See docs/twin.md.
#pragma once

#include <cmath>  // sqrt and abs of the scalar unit are written without std::

#include "twin/types.h"
#include "twin/block.h"
#include "twin/runtime.h"
#include "twin/tensor.h"
#include "twin/std.h"
#include "twin/system.h"
#include "twin/pipe.h"
#include "twin/static_tensor.h"
#include "twin/cross.h"
#include "twin/debug.h"
#include "twin/copy.h"
#include "twin/atomics.h"
#include "twin/fill.h"
#include "twin/gather.h"
#include "twin/transpose.h"
#include "twin/mask.h"
#include "twin/vector.h"
#include "twin/cast.h"
#include "twin/compare.h"
#include "twin/operators.h"
#include "twin/interpolate.h"
#include "twin/flexible.h"
#include "twin/scalar_unit.h"
#include "twin/reduce.h"
#include "twin/sort.h"
// A file that has a class of its own by one of the high-level names is compiled without them (the
// builder sees to it): with `using namespace AscendC` the two would be one name too many.
#if !defined(TWIN_WITHOUT_HIGH_LEVEL)
#include "twin/high_level/math.h"
#include "twin/high_level/rows.h"
#include "twin/high_level/topk.h"
#endif
#include "twin/refused.h"

// What the documents use without a namespace.
using AscendC::EVENT_ID0;
using AscendC::EVENT_ID1;
using AscendC::EVENT_ID2;
using AscendC::EVENT_ID3;
using AscendC::EVENT_ID4;
using AscendC::EVENT_ID5;
using AscendC::EVENT_ID6;
using AscendC::EVENT_ID7;
using AscendC::GetTPipePtr;
using event_t = AscendC::TEventID;
