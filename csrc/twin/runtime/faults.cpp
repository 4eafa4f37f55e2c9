// Faults: what each code means, what would mend it, and what a device says.
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "check.h"
#include "schedule.h"
#include "watched.h"

namespace twin {

#include "op_names.inc"

namespace {

struct Known {
    const char *code;
    const char *mend;
    const char *device;  // "": a device says nothing
};

constexpr const char kHang[] = "hangs; after a while 507014 or 507034, core time-out";
constexpr const char kUnaligned[] =
    "VEC supports illegal configurations; Illegal instruction, which is usually caused by "
    "unaligned UUB addresses; then 507035, vector core execution is abnormal";
constexpr const char kBounds[] =
    "VEC instruction error: the ub address out of bounds; then 507035, vector core execution is "
    "abnormal";

constexpr const char kGmBounds[] =
    "507035, vector core execution is abnormal (an MTE error: the GM address is out of range), or "
    "nothing, where the address is another tensor's";
constexpr const char kSilent[] = "";  // wrong results, now and then

// The order is that of docs/twin.md.
constexpr Known kKnown[] = {
    {"alignment", "Start the operand on a multiple of 32 bytes", kUnaligned},
    {"out-of-bounds", "Make the count smaller, or the buffer larger", kBounds},
    {"ub-budget", "Make the tile or the number of buffers smaller", ""},
    {"buffer-count", "Use one buffer for several purposes, or fewer queues", ""},
    {"queue-buffers", "Give InitBuffer 1 to 8 buffers", ""},
    {"no-init-buffer", "Call pipe.InitBuffer before the first use", ""},
    {"queue-tensor",
     "Give a queue its own tensors, each once: AllocTensor, EnQue, DeQue, FreeTensor", ""},
    {"queue-overflow", "DeQue first, or declare the queue deeper", ""},
    {"queue-deadlock", "Free a tensor first, or give InitBuffer more buffers", kHang},
    {"queue-empty", "EnQue first", kHang},
    {"flag-not-set", "Set the flag before: each WaitFlag needs its SetFlag", kHang},
    {"flag-set-twice", "Wait for the flag between: each SetFlag needs its WaitFlag", ""},
    {"event-id", "Take an id from FetchEventID or AllocEventID", ""},
    {"second-pipe", "Use one TPipe, or call Destroy on the first one before", kSilent},
    {"no-pipe", "Make a TPipe before", ""},
    {"no-event-id", "Give ids back with ReleaseEventID", kHang},
    {"event-released", "Give back each id from AllocEventID, once", ""},
    {"queue-events", "Give several inputs one buffer, so that fewer tensors are held at once",
     kHang},
    {"barrier-pipe", "Leave it out, or use PipeBarrier<PIPE_ALL>", ""},
    {"deadlock",
     "Let every block reach it, and launch no more blocks than the device has vector cores", kHang},
    {"workspace", "Make the workspace as large as the documents ask", kSilent},
    {"block-index", "Name a block from 0 to GetBlockNum() - 1", kSilent},
    {"no-workspace-init", "Call InitDetermineComputeWorkspace in every block before", kHang},
    {"shape", "Give the shape that the tensors have (docs/twin.md)", kSilent},
    {"assert", "", ""},
    {"trap", "", ""},
    {"cast-mode", "Use a RoundMode that the pair of types has (docs/twin.md)", ""},
    {"mask", "Give at most as many lanes as a repeat has: 256 bytes of the widest operand", ""},
    {"shift-distance", "Shift by 0 to as many bits as an element has", ""},
    {"unsupported", "See docs/twin.md for the types that the instruction takes", ""},
    {"deq-scale", "Call the SetDeqScale that belongs to the conversion before it", ""},
    {"int4-count", "Convert an even number of elements: two int4b_t share a byte", ""},
    {"compare-mode", "Use a CMPMODE that the type has", ""},
    {"compare-count", "Compare whole repeats of 256 bytes: round the count up within the buffers",
     ""},
    {"select-mode", "Use the SELMODE that goes with the operands", ""},
    {"copy-params", "Split the copy into several", ""},
    {"reduce-tmp", "Make the temporary tensor larger", ""},
    {"null-address", "Call SetGlobalBuffer with the address before the first use", kGmBounds},
    {"repeat", "Give a number of repeats that the instruction takes: 0 to 255", ""},
    {"stride", "Give a stride that the instruction takes", ""},
    {"atomic-type", "Use a type that atomics take (docs/twin.md)", ""},
    {"gather-offset", "Give offsets in bytes that lie in the source", ""},
    {"merge-params", "Give lists that lie and end within the tensors", ""},
    {"transpose-params", "Use sizes that the form takes (docs/twin.md)", ""},
    {"transpose-tmp", "Make the temporary tensor larger", ""},
    {"sort-tmp", "Make the temporary tensor larger", ""},
    // Those of the checked mode.
    {"buffer-bounds", "Make the count smaller, or give InitBuffer more bytes", kSilent},
    {"use-after-free", "Use a queue's tensor between its AllocTensor or DeQue and its FreeTensor",
     kSilent},
    {"queue-overwrite", "Take the tensor out with DeQue first, or allocate another", kSilent},
    {"queue-position",
     "Fill VECIN queues and empty VECOUT queues by copies, or bind both ends: "
     "TQueBind<TPosition::VECIN, TPosition::VECOUT, …>",
     kSilent},
    {"queue-leak", "Give each tensor from AllocTensor or DeQue back with FreeTensor", kSilent},
    {"queue-left", "Take each tensor that was enqueued out with DeQue, and free it", kSilent},
    {"overlap", "Let the operands start at the same address, or not touch", kSilent},
    {"overlap-repeats", "Write the result to a tensor of its own", kSilent},
    {"lost-tail", "Use DataCopyPad, which takes any length, or pad the tensor in GM", kSilent},
    {"gm-out-of-bounds", "Copy no more than the tensor holds; the last tile is often a shorter one",
     kGmBounds},
    {"gm-declared", "Copy less, or tell SetGlobalBuffer the size that is meant", kSilent},
    {"gm-freed", "Free the memory after the last kernel that uses it", kGmBounds},
    {"gm-host-memory", "Copy it to device memory first (aclrtMalloc, aclrtMemcpy)", kGmBounds},
    {"uninitialised", "Write it first (a copy, Duplicate), or leave those lanes out", kSilent},
    {"gm-uninitialised", "Write it first: aclrtMemcpy, aclrtMemset, or another kernel", kSilent},
    {"race-raw", "Let the reader wait for the writer: EnQue and DeQue, a flag or a barrier",
     kSilent},
    {"race-war",
     "Let the writer wait for the reader: FreeTensor and AllocTensor, a flag or a barrier",
     kSilent},
    {"race-waw", "Let the second wait for the first: a flag or a barrier", kSilent},
    {"race-blocks", "Give each block its own part, add with SetAtomicAdd, or put a SyncAll between",
     kSilent},
    {"data-cache",
     "Call DataCacheCleanAndInvalid after SetValue, and before GetValue of what others write; give "
     "each block lines of 64 bytes of its own",
     kSilent},
    {"flag-left", "Wait for the flag: each SetFlag needs its WaitFlag", kSilent},
    {"event-reserved", "Take an id from FetchEventID or AllocEventID", kSilent},
};

}  // namespace

void fault(Where where, const char *kind, const char *code, const char *format, ...) {
    FaultError error{};
    va_list args;
    va_start(args, format);
    fault_text(&error.fault, where, kind, code, format, args);
    va_end(args);
    throw error;
}

void fault_text(Fault *f, Where where, const char *kind, const char *code, const char *format,
                va_list args) {
    std::snprintf(f->kind, sizeof f->kind, "%s", kind);
    std::snprintf(f->code, sizeof f->code, "%s", code);
    std::snprintf(f->file, sizeof f->file, "%s", where.file != nullptr ? where.file : "");
    f->line = where.line;
    f->block = -1;
    if (in_block()) {
        const Block &b = block();
        f->block = static_cast<int>(b.index);
        if (b.op != Op::kCount) {
            std::snprintf(f->instruction, sizeof f->instruction, "%s", op_name(b.op));
        }
    }
    std::vsnprintf(f->message, sizeof f->message, format, args);
    for (const Known &known : kKnown) {
        if (std::strcmp(known.code, code) == 0) {
            std::snprintf(f->mend, sizeof f->mend, "%s", known.mend);
            std::snprintf(f->device, sizeof f->device, "%s", known.device);
        }
    }
}

void fault_of(Where where, const char *kind, const char *code, const std::string &tensor,
              const char *format, ...) {
    FaultError error{};
    va_list args;
    va_start(args, format);
    fault_text(&error.fault, where, kind, code, format, args);
    va_end(args);
    std::snprintf(error.fault.tensor, sizeof error.fault.tensor, "%s", tensor.c_str());
    throw error;
}

Fault make_fault(Where where, const char *kind, const char *code, const char *format, ...) {
    Fault fault{};
    va_list args;
    va_start(args, format);
    fault_text(&fault, where, kind, code, format, args);
    va_end(args);
    return fault;
}

namespace {

// With what the observer knows of the buffers, if there is one.
std::string describe_operand(const Access &access) {
    const uint64_t bytes = access.shape == Access::kBytes ? access.bytes : extent(access);
    if (block().observer != nullptr) {
        return block().observer->describe(access);
    }
    return describe(access.name, static_cast<uint64_t>(access.address - block().ub), bytes,
                    nullptr);
}

}  // namespace

void operand_fault(Where where, const char *name, const Access &access, uint64_t bytes) {
    const uint64_t offset = static_cast<uint64_t>(access.address - block().ub);
    if (offset < kUbMax && offset % access.align != 0) {
        fault_of(where, "mem", "alignment", describe_operand(access),
                 "%s: operand %s starts at UB offset %llu, which is not a multiple of %u", name,
                 access.name, static_cast<unsigned long long>(offset), access.align);
    }
    fault_of(
        where, "mem", "out-of-bounds", describe_operand(access),
        "%s: operand %s of %llu bytes from UB offset %lld on is not all in the %u bytes of UB of "
        "%s",
        name, access.name, static_cast<unsigned long long>(bytes), static_cast<long long>(offset),
        block().arch->ub_bytes, block().arch->name);
}

}  // namespace twin
