// Ascend C on the CPU: what an .asc file includes. Written from the vendor's public documentation
// (names, signatures and semantics); it contains no vendor source. See docs/architecture.md,
// "Fidelity of the twin".
#pragma once

#include "twin/arch.h"
#include "twin/types.h"
#include "twin/runtime.h"
#include "twin/tensor.h"
#include "twin/pipe.h"
#include "twin/copy.h"
#include "twin/vector.h"
