// Checked mode and counters: what watches the instructions of a block. docs/twin.md, "Checks", says
// what is found; the parts are counters.h, buffers.h, order.h, shadow.h and global.h.
#pragma once

#include <string>

#include "twin/runtime.h"

namespace twin {

struct Queue;
enum class QueueStep : uint8_t { kInit, kAlloc, kEnQue, kDeQue, kFree };

class LaunchObserver;
struct Watched;        // what is known of one block
struct WatchedLaunch;  // what is known of all of them

// Watches one block. Each call comes before the thing happens, and may end the block with a fault.
class Observer {
  public:
    Observer(LaunchObserver &launch, Block &block);
    ~Observer();
    Observer(const Observer &) = delete;
    Observer &operator=(const Observer &) = delete;

    void instruction(const Instruction &i);
    // UB that InitBuffer or an allocator gives out: `num` buffers of `bytes` bytes from `offset`
    // on.
    void buffer(uint32_t offset, uint32_t bytes, uint32_t num, AscendC::TPosition position,
                Where where);
    void queue(QueueStep step, const Queue &queue, int slot, Where where);
    // Reset of a TPipe or TBufPool ends the events of the queues in these bytes: what would wait at
    // the next AllocTensor waits here.
    void events_ended(uint32_t offset, uint64_t bytes);
    // TPipe::Reset, TPipe::Destroy: no tensor made before may be used any more.
    void buffers_taken_back(Where where);
    void placed(uint32_t offset, uint64_t bytes);  // a tensor that the kernel itself places
    void flag(AscendC::HardEvent event, int32_t id, bool set, Where where);
    void barrier(pipe_t pipe, Where where);
    void scalar(const Local &tensor, uint64_t offset, uint32_t bytes, bool write, Where where);
    void scalar_gm(const Global &tensor, uint64_t offset, uint32_t bytes, bool write, Where where);
    // A copy that rounds its length down leaves `bytes` bytes behind.
    void lost_tail(uint32_t bytes, Where where);
    // UB bytes that the instruction last begun has left as anything (paddings without a value).
    void undefined(const uint8_t *address, uint64_t bytes);
    void cache_cleaned(const Global &tensor, bool entire);  // DataCacheCleanAndInvalid
    void sync_all(Where where);                             // after all blocks have arrived
    // Point-to-point flags between blocks: what this block did before `set` comes before what the
    // block that waits for the same key does after it. `cross_set` is called before the flag can be
    // seen, `cross_wait` after it was.
    // The flag waits for what `pipe` has begun, and for what that pipe has waited for.
    void cross_set(uint64_t key, pipe_t pipe, Where where);
    void cross_wait(uint64_t key, Where where);
    void end();  // the kernel has returned

    // Where an operand in UB lies: "src0: 256 bytes at UB offset 64, in buffer 1 of 2 of the VECIN
    // queue made at k.asc:14".
    std::string describe(const Access &access) const;

  private:
    friend class LaunchObserver;

    void look(const Instruction &i);
    void look_ub(const Instruction &i, const Access &access, const struct Doing &doing,
                 bool remember);
    void look_gm(const Instruction &i, const Access &access, const struct Doing &doing);
    void single(const Access &access, bool write, Where where);
    [[noreturn]] void collide(const Instruction &i, const Access &access,
                              const struct Hit &hit) const;
    void through_cache(const Instruction &i, const Access &access, struct Done *done);
    void beside_cache(const Instruction &i, const Access &access, uint32_t number);
    void end_phase(pipe_t pipe);
    std::string gm_text(const Access &access, uint64_t from) const;
    [[noreturn]] void unwritten_gm(const Instruction &i, const Access &access,
                                   const uint8_t *byte) const;

    LaunchObserver &launch_;
    Block &block_;
    Watched *watched_;
};

// One launch: what is known of GM, and what its blocks add up to.
class LaunchObserver {
  public:
    explicit LaunchObserver(const Launch &launch);
    ~LaunchObserver();
    LaunchObserver(const LaunchObserver &) = delete;
    LaunchObserver &operator=(const LaunchObserver &) = delete;

    Observer *begin_block(Block &block);
    void end_block(Observer *observer);  // takes it over
    // After the last block: what only all blocks together show. Returns false with a fault.
    bool finish(Fault *fault);
    void counters(Report *report);

    const Launch &launch;

  private:
    friend class Observer;

    WatchedLaunch *watched_;  // null: nothing is watched
};

}  // namespace twin
