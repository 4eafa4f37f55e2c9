#include "schedule.h"

#include <sys/mman.h>

#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#if defined(__SANITIZE_ADDRESS__)
#define WB_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WB_ASAN 1
#endif
#endif
#ifdef WB_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace twin {
namespace {

constexpr size_t kStack = 1 << 20;
constexpr size_t kGuard = 1 << 16;  // a whole number of pages, of 64 KiB too

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

// Fibers that a launch has done with, for the next one: their memory is mapped and warm.
class Pool {
  public:
    std::unique_ptr<Fiber> take() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (free_.empty()) {
            return std::make_unique<Fiber>();
        }
        std::unique_ptr<Fiber> fiber = std::move(free_.back());
        free_.pop_back();
        return fiber;
    }
    void give(std::unique_ptr<Fiber> fiber) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (free_.size() < 64) {
            free_.push_back(std::move(fiber));
        }
    }

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Fiber>> free_;
};

Pool &pool() {
    static Pool *all = new Pool;  // never destroyed: a launch may run while the process ends
    return *all;
}

#ifdef WB_ASAN
thread_local const void *scheduler_stack = nullptr;
thread_local size_t scheduler_stack_size = 0;
#endif

// makecontext passes integers only.
void enter(unsigned high, unsigned low) {
    auto *fiber = reinterpret_cast<Fiber *>(uint64_t(high) << 32 | low);
#ifdef WB_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
#endif
    fiber->session->run_fiber(fiber);
#ifdef WB_ASAN
    __sanitizer_start_switch_fiber(nullptr, nullptr, 0);
#endif
    setcontext(fiber->scheduler);
}

// Runs `fiber` until it waits or has no block left.
void switch_to(Fiber *fiber) {
    ucontext_t here;
    fiber->scheduler = &here;
    current = &fiber->block;
#ifdef WB_ASAN
    void *fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, fiber->stack + kGuard, kStack);
#endif
    swapcontext(&here, &fiber->context);
#ifdef WB_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    current = nullptr;
}

// The other way: from a block that waits to its thread's scheduler.
void switch_back(Fiber *fiber) {
#ifdef WB_ASAN
    __sanitizer_start_switch_fiber(&fiber->fake_stack, scheduler_stack, scheduler_stack_size);
#endif
    swapcontext(&fiber->context, fiber->scheduler);
#ifdef WB_ASAN
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &scheduler_stack, &scheduler_stack_size);
#endif
}

void start(Fiber *fiber, Session *session) {
    fiber->session = session;
    fiber->alive = false;
    fiber->doomed = false;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack + kGuard;
    fiber->context.uc_stack.ss_size = kStack;
    fiber->context.uc_link = nullptr;
    const uint64_t address = reinterpret_cast<uint64_t>(fiber);
    makecontext(&fiber->context, reinterpret_cast<void (*)()>(enter), 2,
                static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
    switch_to(fiber);
}

}  // namespace

Fiber::Fiber() {
    void *memory = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ub = static_cast<uint8_t *>(std::aligned_alloc(64, kUbMax));
    if (memory == MAP_FAILED || ub == nullptr) {
        throw std::bad_alloc();
    }
    stack = static_cast<uint8_t *>(memory);
    mprotect(memory, kGuard, PROT_NONE);  // a kernel that overflows its stack ends there
    fake_stack = nullptr;
}

Fiber::~Fiber() {
    munmap(stack, kGuard + kStack);
    std::free(ub);
}

Block &block() {
    return *current;
}

bool in_block() {
    return current != nullptr;
}

Session::Session(const Launch &launch, void (*body)(void *), void *context)
    : launch(launch), body(body), body_context(context), observer(launch) {
    total = launch.block_ids != nullptr ? launch.n_block_ids : launch.blocks;
    cores = launch.arch->vector_cores;
    status.assign(total, kNotStarted);
}

bool Session::claim(Fiber *fiber) {
    std::lock_guard<std::mutex> lock(mutex);
    if (next >= total || next > fault_at || live >= cores) {
        return false;
    }
    fiber->position = next++;
    fiber->alive = true;
    status[fiber->position] = kRunning;
    ++live;
    return true;
}

void Session::finish(Fiber *fiber, const Fault *found) {
    const Block &b = fiber->block;
    std::lock_guard<std::mutex> lock(mutex);
    fiber->alive = false;
    status[fiber->position] = kDone;
    while (done_before < total && status[done_before] == kDone) {
        ++done_before;
    }
    --live;
    ub_high_water = b.ub_high_water > ub_high_water ? b.ub_high_water : ub_high_water;
    for (int i = 0; i < 8; ++i) {
        used[i] |= b.used[i];
    }
    if (found != nullptr && fiber->position < fault_at) {
        // A block that hangs only because another one has faulted is not to blame.
        if (!fiber->doomed || fault_at == UINT32_MAX) {
            fault = *found;
            fault_at = fiber->position;
        }
    }
    notify_locked();
}

void Session::run_fiber(Fiber *fiber) {
    while (claim(fiber)) {
        Block &b = fiber->block;
        b = Block{};
        b.index = launch.block_ids != nullptr ? launch.block_ids[fiber->position] : fiber->position;
        b.count = launch.blocks;
        b.ub = fiber->ub;
        b.arch = launch.arch;
        b.launch = launch.regions != nullptr ? &launch : nullptr;
        b.perturb = launch.perturb;
        b.fiber = fiber;
        b.op = Op::kCount;
        b.mask[0] = b.mask[1] = ~uint64_t{0};
        fiber->doomed = false;
        fiber->kept.clear();
        Fault found{};
        bool faulted = true;
        try {
            if (launch.checks != 0) {
                b.observer = observer.begin_block(b);
            }
            body(body_context);
            if (b.observer != nullptr) {
                b.observer->end();
            }
            faulted = false;
        } catch (const FaultError &error) {
            found = error.fault;
        } catch (const std::exception &error) {
            std::snprintf(found.kind, sizeof found.kind, "mem");
            std::snprintf(found.code, sizeof found.code, "host");
            std::snprintf(found.message, sizeof found.message, "%s", error.what());
        }
        if (b.observer != nullptr) {
            observer.end_block(b.observer);
            b.observer = nullptr;
        }
        finish(fiber, faulted ? &found : nullptr);
    }
}

// Something has changed: who can go on now? That is settled here, and not when a thread comes to
// look, so that a block that can go on counts as running for wait_for_turn from now on.
void Session::notify_locked() {
    ++version;
    bool again = !waiters.empty();
    while (again) {
        again = false;
        for (Fiber *fiber : waiters) {
            if (!fiber->resumable && !fiber->for_turn && fiber->ready(fiber->ready_context)) {
                fiber->resumable = true;
                status[fiber->position] = kRunning;
                again = true;  // it may have taken what it waited for
            }
        }
    }
    for (Fiber *fiber : waiters) {
        if (!fiber->resumable && fiber->for_turn) {
            fiber->resumable = fiber->ready(fiber->ready_context);
        }
    }
    if (sleeping != 0) {
        changed.notify_all();
    }
}

// Every thread sleeps. Unless one of them has yet to notice that it need not, the blocks wait for
// ever, and the first of them gives up.
bool Session::doom_first_locked() {
    Fiber *first = nullptr;
    for (Fiber *fiber : waiters) {
        if (fiber->position >= fault_at) {
            continue;
        }
        if (fiber->resumable) {
            return false;
        }
        if (first == nullptr || fiber->position < first->position) {
            first = fiber;
        }
    }
    if (first == nullptr) {
        return false;
    }
    first->doomed = first->resumable = true;
    status[first->position] = kRunning;
    return true;
}

void Session::forget_locked(Fiber *fiber) {
    for (Fiber *&other : waiters) {
        if (other == fiber) {
            other = waiters.back();
            waiters.pop_back();
            return;
        }
    }
}

void Session::work() {
    FloatEnvironment environment;
    std::vector<std::unique_ptr<Fiber>> waiting;  // of this thread
    std::unique_ptr<Fiber> idle;
    for (;;) {
        Fiber *chosen = nullptr;
        {
            std::unique_lock<std::mutex> lock(mutex);
            for (;;) {
                bool mine = false;
                for (auto &fiber : waiting) {
                    // Once a block has faulted nothing that a later one does matters.
                    if (fiber->position < fault_at) {
                        mine = true;
                        if (fiber->resumable) {
                            chosen = fiber.get();
                            forget_locked(chosen);
                            break;
                        }
                    }
                }
                const bool more = next < total && next <= fault_at;
                if (chosen != nullptr || (more && live < cores)) {
                    break;
                }
                if (!mine && !more) {
                    --workers;
                    if (sleeping != 0) {
                        changed.notify_all();
                    }
                    for (auto &fiber : waiting) {  // never to be resumed
                        forget_locked(fiber.get());
                        if (fiber->block.observer != nullptr) {
                            observer.end_block(fiber->block.observer);
                            fiber->block.observer = nullptr;
                        }
                        pool().give(std::move(fiber));
                    }
                    if (idle) {
                        pool().give(std::move(idle));
                    }
                    return;
                }
                ++sleeping;
                if (sleeping == workers && doom_first_locked()) {
                    ++version;
                    changed.notify_all();
                    --sleeping;
                    continue;
                }
                const uint64_t seen = version;
                const uint32_t with = workers;
                changed.wait(lock, [&] { return version != seen || workers != with; });
                --sleeping;
            }
        }
        if (chosen != nullptr) {
            switch_to(chosen);
            if (!chosen->alive) {
                for (auto &fiber : waiting) {
                    if (fiber.get() == chosen) {
                        idle = std::move(fiber);
                        fiber = std::move(waiting.back());
                        waiting.pop_back();
                        break;
                    }
                }
            }
            continue;
        }
        std::unique_ptr<Fiber> fiber = idle ? std::move(idle) : pool().take();
        start(fiber.get(), this);
        if (fiber->alive) {
            waiting.push_back(std::move(fiber));
        } else {
            idle = std::move(fiber);
        }
    }
}

void Session::run() {
    uint32_t threads = launch.threads != 0 ? launch.threads : std::thread::hardware_concurrency();
    threads = threads == 0 ? 1 : threads;
    threads = threads > total ? total : threads;
    workers = threads;
    std::vector<std::thread> helpers;
    for (uint32_t t = 1; t < threads; ++t) {
        try {
            helpers.emplace_back([this] { work(); });
        } catch (const std::system_error &) {
            // No more threads to be had: the ones there are do the work.
            std::lock_guard<std::mutex> lock(mutex);
            workers -= threads - t;
            break;
        }
    }
    if (threads != 0) {
        work();
    }
    for (std::thread &helper : helpers) {
        helper.join();
    }
}

bool wait_or_doom(bool (*ready)(void *), void *context) {
    Fiber *fiber = block().fiber;
    Session &s = *fiber->session;
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        if (ready(context)) {
            s.notify_locked();
            return true;
        }
        fiber->ready = ready;
        fiber->ready_context = context;
        fiber->for_turn = fiber->resumable = false;
        s.status[fiber->position] = Session::kWaiting;
        s.waiters.push_back(fiber);
        s.notify_locked();  // the turn of a later block may have come
    }
    switch_back(fiber);
    return !fiber->doomed;
}

void wait_until(bool (*ready)(void *), void *context, Where where, const char *code,
                const char *message) {
    if (!wait_or_doom(ready, context)) {
        fault(where, "sync", code, "%s", message);
    }
}

void change(void (*how)(void *), void *context) {
    Session &s = session();
    std::lock_guard<std::mutex> lock(s.mutex);
    how(context);
    s.notify_locked();
}

namespace {

bool is_turn(void *context) {
    const auto *fiber = static_cast<const Fiber *>(context);
    const Session &s = *fiber->session;
    for (uint32_t p = s.done_before; p < fiber->position; ++p) {
        if (s.status[p] == Session::kRunning) {
            return false;
        }
    }
    return true;
}

}  // namespace

const void *keep(const void *what, uint32_t bytes) {
    if (!in_block()) {
        return nullptr;
    }
    auto &kept = block().fiber->kept;
    kept.emplace_back(new uint8_t[bytes]);
    std::memcpy(kept.back().get(), what, bytes);
    return kept.back().get();
}

void wait_for_turn() {
    Fiber *fiber = block().fiber;
    Session &s = *fiber->session;
    {
        std::lock_guard<std::mutex> lock(s.mutex);
        if (is_turn(fiber)) {
            return;
        }
        fiber->ready = is_turn;
        fiber->ready_context = fiber;
        fiber->for_turn = true;
        fiber->resumable = false;
        s.waiters.push_back(fiber);
        // Its status stays kRunning: the blocks after it have to wait for it all the same.
    }
    switch_back(fiber);
}

}  // namespace twin
