// Blocks on threads. A block is a fiber that stays on its thread: it runs to its end without a
// switch unless it waits for another block (SyncAll, a cross-core flag), when its thread takes the
// next block up. Not more blocks are alive than the architecture has vector cores, as on a device.
#pragma once

#include <ucontext.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "observer.h"
#include "twin/runtime.h"

namespace twin {

struct FaultError {
    Fault fault;
};

struct Session;

struct Fiber {
    Fiber();
    ~Fiber();
    Fiber(const Fiber &) = delete;
    Fiber &operator=(const Fiber &) = delete;

    ucontext_t context;
    uint8_t *stack;
    uint8_t *ub;
    void *fake_stack;  // AddressSanitizer's
    Block block;
    Session *session;
    ucontext_t *scheduler;
    uint32_t position;  // in the order of starting
    bool alive;         // has a block that has not ended
    bool (*ready)(void *);
    void *ready_context;
    bool for_turn;   // waits in wait_for_turn
    bool resumable;  // what it waited for has come: its thread is to go on with it
    bool doomed;     // to be resumed for its fault: nothing can make it ready
    std::vector<std::unique_ptr<uint8_t[]>> kept;  // what `keep` was given
    Arch own_arch;  // of a block that has changed its control register
};

// One launch.
struct Session {
    enum Status : uint8_t { kNotStarted, kRunning, kWaiting, kDone };

    Session(const Launch &launch, void (*body)(void *), void *context);
    void run();
    void report(Report *to);

    const Launch &launch;
    void (*body)(void *);
    void *body_context;
    LaunchObserver observer;

    std::mutex mutex;
    std::condition_variable changed;
    uint64_t version = 0;
    uint32_t total;
    uint32_t next = 0;
    uint32_t done_before = 0;  // every position before this one has ended
    uint32_t live = 0;
    uint32_t cores;
    uint32_t workers = 0, sleeping = 0;
    std::vector<Status> status;
    uint32_t fault_at = UINT32_MAX;  // the first position that faulted; none after it starts
    std::vector<Fiber *> waiters;    // of all threads
    Fault fault = {};
    uint32_t ub_high_water = 0;
    uint64_t used[8] = {};

    // What SyncAll and the cross-core flags wait for; csrc/twin/runtime/cross.cpp.
    std::shared_ptr<void> cross;

    void work();
    void run_fiber(Fiber *fiber);  // on the fiber: block after block while there are any
    bool claim(Fiber *fiber);
    void finish(Fiber *fiber, const Fault *fault);
    void notify_locked();
    bool doom_first_locked();
    void forget_locked(Fiber *fiber);
};

inline Session &session() {
    return *block().fiber->session;
}

// After the last block: false and a fault where a cross-core flag was left set.
bool cross_finish(Session &s, Fault *fault);

// wait_until, but returns false where that would end the block with a fault. `ready` may take what
// it has waited for: once it has said true it is not asked again.
bool wait_or_doom(bool (*ready)(void *), void *context);

}  // namespace twin
