// Between the generated launchers of a kernel file and the runtime: the C ABI of kernel_table.h on
// one side, run_blocks on the other.
#pragma once

#include <kernel_table.h>

#include "twin/arch.h"

namespace twin {

// Runs `body(args)`, which calls the kernel, once per block, with the options of `launch`; fills
// `report`.
void bound_launch(const Arch &arch, const wb_launch *launch, const uint64_t *args,
                  wb_report *report, void (*body)(void *args));

}  // namespace twin
