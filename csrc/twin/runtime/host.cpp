// A whole program's launches, the state of its device, and the report that `workbench run` reads.
//
// The report (the file WORKBENCH_RUN_REPORT) holds one JSON object a line. The first line has a
// fixed width and is written anew after each launch, so that it is right however the program ends;
// faults follow, each written when it happens; the counters of source lines come at the end.
#include "host.h"

#include <fcntl.h>
#include <unistd.h>
#ifdef __linux__
#include <signal.h>
#include <sys/prctl.h>
#endif

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "check.h"

namespace twin {
namespace {

constexpr size_t kHead = 1024;  // bytes of the first line
constexpr uint32_t kMostBlocks = 65535;
constexpr int kVectorCoreTimeout = 507034;
constexpr int kVectorCoreException = 507035;

// What would mend a fault of host code, by its code.
constexpr const char *kMends[][2] = {
    {"leak", "Give it to aclrtFree (or aclrtFreeHost) before the program ends"},
    {"double-free", "Free it once, and set the pointer to nullptr then"},
    {"foreign-free",
     "Free what aclrtMalloc gave with aclrtFree, and what aclrtMallocHost gave with "
     "aclrtFreeHost, each by the address that was given"},
    {"use-after-free", "Free the memory after its last use"},
    {"copy-bounds", "Copy no more bytes than either side has"},
    {"memory-kind", "Give the aclrtMemcpyKind that fits the two addresses"},
    {"guard", "Keep the kernel's writes within the bytes that were allocated"},
    {"uninitialised",
     "Let the kernel write every byte that is copied back (a DataCopy rounds down "
     "to 32 bytes), or copy fewer"},
    {"missing-sync",
     "Call aclrtSynchronizeStream on the kernel's stream first: aclrtMemcpy and "
     "aclrtMemset wait for no stream"},
    {"block-count", "Launch 1 to 65535 blocks"},
};

struct Host {
    HostOptions options{};
    int report = -1;
    int head = -1;  // the same file, for its first line
    const int process = ::getpid();
    std::mutex mutex;  // the report and what is below
    std::recursive_mutex launching;
    Counters counters{};
    uint64_t launches = 0;
    uint32_t ub_high_water = 0;
    std::map<std::pair<std::string, int>, Counters> lines;
    std::atomic<uint32_t> faults{0};
    std::atomic<int> device_error{0};
    std::atomic<uint64_t> running{0};
    std::map<uint64_t, Where> unawaited;  // launches since the last call that waits for a stream

    Host();
};

// Never destroyed: it is used until the very end of the process.
Host &host() {
    static Host *the = new Host;
    return *the;
}

void add_mend(Fault *fault) {
    for (const auto &known : kMends) {
        if (std::strcmp(known[0], fault->code) == 0) {
            std::snprintf(fault->mend, sizeof fault->mend, "%s", known[1]);
        }
    }
}

std::string quoted(const char *text) {
    std::string out = "\"";
    for (const char *c = text; *c != 0; ++c) {
        if (*c == '"' || *c == '\\') {
            out += '\\';
            out += *c;
        } else if (static_cast<unsigned char>(*c) < 0x20) {
            char code[8];
            std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(*c));
            out += code;
        } else {
            out += *c;
        }
    }
    return out + "\"";
}

std::string fields(const Counters &c) {
    const std::pair<const char *, uint64_t> all[] = {
        {"gm_to_ub_bytes", c.gm_to_ub},
        {"ub_to_gm_bytes", c.ub_to_gm},
        {"vector_instructions", c.vector_instructions},
        {"vector_repeats", c.vector_repeats},
        {"scalar_reads", c.scalar_reads},
        {"scalar_writes", c.scalar_writes},
        {"flags", c.flags},
        {"barriers", c.barriers},
        {"queue_operations", c.queue_operations},
        {"copies", c.copies},
    };
    std::string out;
    for (const auto &item : all) {
        out += (out.empty() ? "\"" : ", \"") + std::string(item.first) +
               "\": " + std::to_string(item.second);
    }
    return out;
}

void add(Counters *to, const Counters &from) {
    to->gm_to_ub += from.gm_to_ub;
    to->ub_to_gm += from.ub_to_gm;
    to->vector_instructions += from.vector_instructions;
    to->vector_repeats += from.vector_repeats;
    to->scalar_reads += from.scalar_reads;
    to->scalar_writes += from.scalar_writes;
    to->flags += from.flags;
    to->barriers += from.barriers;
    to->queue_operations += from.queue_operations;
    to->copies += from.copies;
}

void write_all(int file, const std::string &text) {
    if (file >= 0) {
        // One call, so that the lines of several threads do not mix.
        (void)!::write(file, text.data(), text.size());
    }
}

void write_head(Host &h) {
    if (h.head < 0) {
        return;
    }
    std::string line = "{\"counters\": {\"launches\": " + std::to_string(h.launches) +
                       ", \"ub_high_water\": " + std::to_string(h.ub_high_water) + ", " +
                       fields(h.counters) + "}}";
    line.resize(kHead - 1, ' ');
    line += '\n';
    (void)!::pwrite(h.head, line.data(), line.size(), 0);
}

uint32_t checks_of(const char *names) {
    const std::pair<const char *, uint32_t> known[] = {{"mem", kCheckMem},
                                                       {"init", kCheckInit},
                                                       {"race", kCheckRace},
                                                       {"sync", kCheckSync},
                                                       {"count", kCount}};
    const std::string list = std::string(",") + (names != nullptr ? names : "") + ",";
    uint32_t checks = 0;
    for (const auto &item : known) {
        if (list.find(std::string(",") + item.first + ",") != std::string::npos) {
            checks |= item.second;
        }
    }
    return checks;
}

void at_exit() {
    if (host().process != ::getpid()) {
        return;  // a child that the program has forked
    }
    // After a fault a program leaves as it can; what it did not free then says nothing.
    if (host().faults == 0) {
        gm_check_guards(Where{"", 0}, "the host program");
        gm_report_leaks();
    }
    std::lock_guard<std::mutex> lock(host().mutex);
    write_head(host());
    std::string text;
    for (const auto &item : host().lines) {
        text += "{\"line\": {\"file\": " + quoted(item.first.first.c_str()) +
                ", \"line\": " + std::to_string(item.first.second) + ", " + fields(item.second) +
                "}}\n";
    }
    write_all(host().report, text);
}

Host::Host() {
    options.checks = checks_of(std::getenv("WORKBENCH_RUN_CHECK"));
    const char *threads = std::getenv("WORKBENCH_RUN_THREADS");
    options.threads = threads != nullptr ? uint32_t(std::strtoul(threads, nullptr, 10)) : 0;
    const char *path = std::getenv("WORKBENCH_RUN_REPORT");
    if (path != nullptr && *path != 0) {
        head = ::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        report = ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
        write_head(*this);
#ifdef __linux__
        // `workbench run` is the only one who waits for the program: without it, no one stops it.
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
        // Another program of the twin that this one starts has no part in its report.
        ::unsetenv("WORKBENCH_RUN_REPORT");
    }
}

// Before `main`, and before any static object of the program is destroyed.
__attribute__((constructor)) void start() {
    if (std::getenv("WORKBENCH_RUN_REPORT") != nullptr ||
        std::getenv("WORKBENCH_RUN_CHECK") != nullptr) {
        host();
        std::atexit(at_exit);
    }
}

}  // namespace

const HostOptions &host_options() {
    return host().options;
}

void host_fault(const Fault &f) {
    Host &h = host();
    ++h.faults;
    if (h.report < 0) {
        std::fprintf(stderr, "%s:%d: %s fault (%s)", f.file, f.line, f.kind, f.code);
        if (f.block >= 0) {
            std::fprintf(stderr, " in block %d", f.block);
        }
        std::fprintf(stderr, ": %s\n", f.message);
        return;
    }
    std::string line =
        "{\"fault\": {\"kind\": " + quoted(f.kind) + ", \"code\": " + quoted(f.code) +
        ", \"file\": " + (f.file[0] != 0 ? quoted(f.file) : "null") +
        ", \"line\": " + (f.line > 0 ? std::to_string(f.line) : "null") +
        ", \"block\": " + (f.block >= 0 ? std::to_string(f.block) : "null") +
        ", \"message\": " + quoted(f.message) + ", \"instruction\": " + quoted(f.instruction) +
        ", \"tensor\": " + quoted(f.tensor) + ", \"mend\": " + quoted(f.mend) +
        ", \"device\": " + quoted(f.device) + "}}\n";
    std::lock_guard<std::mutex> lock(h.mutex);
    write_all(h.report, line);
}

void kernel_fault(const Fault &fault) {
    host_fault(fault);
    // Families of a device's own: what hangs is a time-out, all else an exception of the core.
    int none = 0;
    host().device_error.compare_exchange_strong(
        none, std::strcmp(fault.kind, "sync") == 0 ? kVectorCoreTimeout : kVectorCoreException);
}

int device_error() {
    return host().device_error;
}

void reset_device() {
    host().device_error = 0;
    launches_awaited();
}

uint64_t running_launch() {
    return host().running.load(std::memory_order_relaxed);
}

Where unawaited_launch(uint64_t number) {
    std::lock_guard<std::mutex> lock(host().mutex);
    const auto found = host().unawaited.find(number);
    return found != host().unawaited.end() ? found->second : Where{"", 0};
}

void launches_awaited() {
    std::lock_guard<std::mutex> lock(host().mutex);
    host().unawaited.clear();
}

void misuse(Where where, const char *kind, const char *code, const char *function,
            const char *format, ...) {
    if ((host().options.checks & checks_of(kind)) == 0) {
        return;
    }
    Fault fault{};
    va_list args;
    va_start(args, format);
    fault_text(&fault, where, kind, code, format, args);
    va_end(args);
    fault.block = -1;
    std::snprintf(fault.instruction, sizeof fault.instruction, "%s", function);
    add_mend(&fault);
    std::string text = std::string(function) + ": " + fault.message;
    std::snprintf(fault.message, sizeof fault.message, "%s", text.c_str());
    host_fault(fault);
}

void host_launch(const Arch &arch, uint32_t blocks, void (*body)(void *), void *context,
                 Where where) {
    Host &h = host();
    std::lock_guard<std::recursive_mutex> turn(h.launching);
    if (h.device_error != 0) {
        return;  // as on a device: nothing runs until it is reset
    }
    if (blocks == 0 || blocks > kMostBlocks) {
        Fault fault{};
        std::snprintf(fault.kind, sizeof fault.kind, "mem");
        std::snprintf(fault.code, sizeof fault.code, "block-count");
        std::snprintf(fault.file, sizeof fault.file, "%s", where.file);
        fault.line = where.line;
        fault.block = -1;
        std::snprintf(fault.message, sizeof fault.message,
                      "a launch of %u blocks; 1 to %u are possible", blocks, kMostBlocks);
        add_mend(&fault);
        kernel_fault(fault);
        return;
    }
    Launch launch{};
    launch.blocks = blocks;
    launch.threads = h.options.threads;
    launch.arch = &arch;
    launch.checks = h.options.checks;
    launch.where = where;
    {
        std::lock_guard<std::mutex> lock(h.mutex);
        h.running = ++h.launches;
        h.unawaited[h.launches] = where;
    }
    Report report{};
    const bool fine = run_blocks(launch, body, context, &report);
    h.running = 0;
    {
        std::lock_guard<std::mutex> lock(h.mutex);
        h.ub_high_water =
            report.ub_high_water > h.ub_high_water ? report.ub_high_water : h.ub_high_water;
        add(&h.counters, report.counters);
        for (uint32_t i = 0; i < report.n_lines; ++i) {
            add(&h.lines[{report.lines[i].file, report.lines[i].line}], report.lines[i].counters);
        }
        write_head(h);
    }
    if (fine) {
        gm_check_guards(where, "the kernel launched here");
    } else {
        kernel_fault(report.fault);
    }
    release(&report);
}

}  // namespace twin
