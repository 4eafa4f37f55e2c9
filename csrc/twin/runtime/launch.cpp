// Blocks, threads, faults and the floating-point environment of the twin.
#include <atomic>
#include <cfenv>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"
#include "twin/bind.h"
#include "twin/runtime.h"

namespace twin {
namespace {

struct FaultError {
    Fault fault;
};

thread_local Block *current = nullptr;

// The default environment is round to nearest, subnormals kept, on every architecture; whatever the
// caller has set (torch.set_flush_denormal, a rounding mode) comes back at the end.
class FloatEnvironment {
  public:
    FloatEnvironment() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~FloatEnvironment() { std::fesetenv(&saved_); }
    FloatEnvironment(const FloatEnvironment &) = delete;
    FloatEnvironment &operator=(const FloatEnvironment &) = delete;

  private:
    std::fenv_t saved_;
};

class Ub {
  public:
    Ub() : memory_(static_cast<uint8_t *>(std::aligned_alloc(64, kUbMax))) {
        if (memory_ == nullptr) {
            throw std::bad_alloc();
        }
    }
    ~Ub() { std::free(memory_); }
    Ub(const Ub &) = delete;
    Ub &operator=(const Ub &) = delete;
    uint8_t *get() const { return memory_; }

  private:
    uint8_t *memory_;
};

void set_text(char *to, size_t size, const char *from) {
    std::snprintf(to, size, "%s", from);
}

}  // namespace

Block &block() {
    return *current;
}

void fault(Where where, const char *kind, const char *code, const char *format, ...) {
    FaultError error{};
    set_text(error.fault.kind, sizeof error.fault.kind, kind);
    set_text(error.fault.code, sizeof error.fault.code, code);
    set_text(error.fault.file, sizeof error.fault.file, where.file);
    error.fault.line = where.line;
    error.fault.block = current != nullptr ? static_cast<int>(current->index) : -1;
    va_list args;
    va_start(args, format);
    std::vsnprintf(error.fault.message, sizeof error.fault.message, format, args);
    va_end(args);
    throw error;
}

void operand_fault(Where where, const char *name, const void *address, uint64_t bytes) {
    const uint64_t offset =
        static_cast<uint64_t>(static_cast<const uint8_t *>(address) - block().ub);
    if (offset < kUbMax && offset % kDataBlock != 0) {
        fault(where, "mem", "alignment",
              "%s has an operand at UB offset %llu, which is not a multiple of 32 "
              "(a device says: VEC supports illegal configurations, unaligned UUB addresses)",
              name, static_cast<unsigned long long>(offset));
    }
    fault(where, "mem", "out-of-bounds",
          "%s has an operand of %llu bytes that is not all in UB (a device says: the ub address "
          "out of bounds)",
          name, static_cast<unsigned long long>(bytes));
}

bool run_blocks(const Launch &launch, void (*body)(void *), void *context, Report *report) {
    uint32_t total = launch.block_ids != nullptr ? launch.n_block_ids : launch.blocks;
    uint32_t threads = launch.threads != 0 ? launch.threads : std::thread::hardware_concurrency();
    if (threads > total) {
        threads = total;
    }
    std::atomic<uint32_t> next{0};
    std::atomic<bool> stop{false};
    std::mutex mutex;

    auto fail = [&](const Fault &f) {
        std::lock_guard<std::mutex> lock(mutex);
        if (report->fault.kind[0] == 0) {
            report->fault = f;
        }
        stop = true;
    };
    auto work = [&] {
        FloatEnvironment environment;
        Fault fault{};
        try {
            Ub ub;
            Block state;
            uint32_t high_water = 0;
            for (uint32_t i = next++; i < total && !stop; i = next++) {
                state = Block{};
                state.index = launch.block_ids != nullptr ? launch.block_ids[i] : i;
                state.count = launch.blocks;
                state.ub = ub.get();
                current = &state;
                body(context);
                high_water = state.ub_used > high_water ? state.ub_used : high_water;
            }
            current = nullptr;
            std::lock_guard<std::mutex> lock(mutex);
            if (high_water > report->ub_high_water) {
                report->ub_high_water = high_water;
            }
            return;
        } catch (const FaultError &error) {
            fault = error.fault;
        } catch (const std::exception &error) {
            set_text(fault.kind, sizeof fault.kind, "mem");
            set_text(fault.code, sizeof fault.code, "host");
            set_text(fault.message, sizeof fault.message, error.what());
        }
        current = nullptr;
        fail(fault);
    };

    std::vector<std::thread> helpers;
    for (uint32_t t = 1; t < threads; ++t) {
        try {
            helpers.emplace_back(work);
        } catch (const std::system_error &) {
            break;  // no more threads to be had: the ones there are do the work
        }
    }
    work();
    for (std::thread &helper : helpers) {
        helper.join();
    }
    return report->fault.kind[0] == 0;
}

void run_or_die(uint32_t blocks, void (*body)(void *), void *context) {
    Report report{};
    if (!run_blocks(Launch{blocks, 0, nullptr, 0}, body, context, &report)) {
        const Fault &f = report.fault;
        std::fprintf(stderr, "%s:%d: %s fault (%s) in block %d: %s\n", f.file, f.line, f.kind,
                     f.code, f.block, f.message);
        std::abort();
    }
}

void bound_launch(const wb_launch *launch, const uint64_t *args, wb_report *report,
                  void (*body)(void *args)) {
    Report inner{};
    const Launch request{launch->blocks, launch->threads, launch->block_ids, launch->n_block_ids};
    run_blocks(request, body, const_cast<uint64_t *>(args), &inner);
    const Fault &fault = inner.fault;
    set_text(report->kind, sizeof report->kind, fault.kind);
    set_text(report->code, sizeof report->code, fault.code);
    set_text(report->file, sizeof report->file, fault.file);
    set_text(report->message, sizeof report->message, fault.message);
    report->line = fault.line;
    report->block = fault.block;
    report->ub_high_water = inner.ub_high_water;
}

}  // namespace twin
