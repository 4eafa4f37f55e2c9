// What the parts of a whole program's host side share: the options it runs with, its device's
// state, and the report.
#pragma once

#include "twin/gm.h"
#include "twin/runtime.h"

namespace twin {

struct HostOptions {
    uint32_t checks;   // of Check, from WORKBENCH_RUN_CHECK
    uint32_t threads;  // from WORKBENCH_RUN_THREADS; 0: as many as the machine has cores
};
const HostOptions &host_options();

// Writes the fault to the report at once. One of a kernel also makes the device useless until it is
// reset.
void host_fault(const Fault &fault);
void kernel_fault(const Fault &fault);

// The error that everything returns since a kernel faulted; 0: the device is fine.
int device_error();
void reset_device();

// Launches are numbered from 1. The one that is running (0: none); where one that no call has
// waited for yet was written (line 0: there is no such launch, or it was waited for); and that
// call.
uint64_t running_launch();
Where unawaited_launch(uint64_t number);
void launches_awaited();

// A fault of host code, recorded if the check of its kind is on.
void misuse(Where where, const char *kind, const char *code, const char *function,
            const char *format, ...) __attribute__((format(printf, 5, 6)));

// ---- the registry's other side (gm.cpp)
enum class GmFree { kOk, kUnknown, kTwice, kOtherKind, kInside };

// Memory of `bytes` bytes, full of a pattern that is no useful number; null: there is none left.
void *gm_allocate(uint64_t bytes, bool device, Where where);
// Gives `address` back. For what went wrong, *was is the region it belongs to (else null).
GmFree gm_release(void *address, bool device, Where where, GmRegion *was);
// Copies the marks of `bytes` bytes within the registry; for a source outside of it, marks them.
void gm_copied(const void *dst, const void *src, uint64_t bytes);
uint64_t gm_device_bytes();

// With the mem check: records what wrote into a guard since the last look, at `where`.
void gm_check_guards(Where where, const char *after);
// With the mem check: records every region that nobody has freed.
void gm_report_leaks();

}  // namespace twin
