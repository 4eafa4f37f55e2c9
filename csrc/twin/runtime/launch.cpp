// A launch from the kernel table that Python sees.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "schedule.h"
#include "twin/bind.h"

namespace twin {
namespace {

// Two bits per switch, in the order of SWITCHES in workbench/build/arch.py: 0 the architecture's
// own, 1 the first value, 2 the second.
void apply_switches(Arch *arch, uint32_t switches) {
    bool *const fields[] = {&arch->masked_is_zero, &arch->starts_at_zero, &arch->fused,
                            &arch->inf_nan};
    for (bool *field : fields) {
        if ((switches & 3u) != 0) {
            *field = (switches & 3u) == 1;
        }
        switches >>= 2;
    }
}

}  // namespace

bool run_blocks(const Launch &launch, void (*body)(void *), void *context, Report *report) {
    Session session(launch, body, context);
    session.run();
    if (launch.checks != 0) {
        if (session.fault_at == UINT32_MAX) {
            Fault last{};
            if (!session.observer.finish(&last) ||
                ((launch.checks & kCheckSync) != 0 && !cross_finish(session, &last))) {
                session.fault = last;
            }
        }
        session.observer.counters(report);
    }
    report->fault = session.fault;
    report->ub_high_water = session.ub_high_water;
    std::memcpy(report->used, session.used, sizeof report->used);
    return report->fault.kind[0] == 0;
}

void release(Report *report) {
    std::free(report->lines);
    report->lines = nullptr;
    report->n_lines = 0;
}

namespace {

template <size_t n>
void set_text(char (&to)[n], const char *from) {
    std::snprintf(to, n, "%s", from);
}

}  // namespace

void bound_launch(const Arch &arch, const wb_launch *launch, const uint64_t *args,
                  wb_report *report, void (*body)(void *args)) {
    static_assert(sizeof(Region) == sizeof(wb_region) && sizeof(Counters) == sizeof(wb_counters) &&
                      sizeof(LineCounters) == sizeof(wb_line),
                  "kernel_table.h and runtime.h describe the same bytes");
    Arch with = arch;
    if (launch->switches != 0) {
        apply_switches(&with, launch->switches);
    }
    Launch request{};
    request.blocks = launch->blocks;
    request.threads = launch->threads;
    request.block_ids = launch->block_ids;
    request.n_block_ids = launch->n_block_ids;
    request.arch = &with;
    request.checks = launch->checks;
    request.perturb = launch->perturb;
    request.regions = reinterpret_cast<const Region *>(launch->regions);
    request.n_regions = launch->n_regions;
    Report inner{};
    run_blocks(request, body, const_cast<uint64_t *>(args), &inner);
    const Fault &fault = inner.fault;
    set_text(report->kind, fault.kind);
    set_text(report->code, fault.code);
    set_text(report->instruction, fault.instruction);
    set_text(report->tensor, fault.tensor);
    set_text(report->file, fault.file);
    set_text(report->message, fault.message);
    set_text(report->mend, fault.mend);
    set_text(report->device, fault.device);
    report->line = fault.line;
    report->block = fault.block;
    report->ub_high_water = inner.ub_high_water;
    std::memcpy(report->used, inner.used, sizeof report->used);
    std::memcpy(&report->counters, &inner.counters, sizeof report->counters);
    report->lines = reinterpret_cast<wb_line *>(inner.lines);
    report->n_lines = inner.n_lines;
}

}  // namespace twin
