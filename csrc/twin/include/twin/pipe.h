// TPipe, TQue, TQueBind, TBuf, TBufPool, flags and barriers. In the twin a block runs its
// instructions in program order, so a queue carries data and capacity, not time; what would hang on
// a device is a fault here.
#pragma once

#include "twin/tensor.h"

namespace twin {

// A part of UB that buffers are taken from: all of it, or what InitBufPool gave.
struct Area {
    uint32_t offset = 0;
    uint32_t bytes = 0;
    uint32_t used = 0;
    uint32_t buffers = 0;
    uint32_t most_buffers = 0;
};

// Takes `num` buffers of `len` bytes from `area` (null: what is left of UB); returns the offset of
// the first.
uint32_t reserve(Area *area, uint32_t num, uint32_t len, AscendC::TPosition position, Where where);
// InitBufPool: `pool` becomes a part of `area`, or the place of `shared`.
void init_pool(Area *area, Area &pool, const Area *shared, uint32_t len, uint32_t most_buffers,
               Where where);
void reset_pool(Area &pool, Where where);

void begin_pipe(void *pipe, Where where);  // a TPipe is made: UB is its own
void reset_pipe(Op op, Where where);       // Reset, Destroy: nothing is reserved any more
void *current_pipe(Where where);           // a fault where there is none

int32_t alloc_event(AscendC::HardEvent event, Where where);
int32_t fetch_event(AscendC::HardEvent event, Where where);
void release_event(AscendC::HardEvent event, int32_t id, Where where);
void set_flag(AscendC::HardEvent event, int32_t id, Where where);
void wait_flag(AscendC::HardEvent event, int32_t id, Where where);
void pipe_barrier(pipe_t pipe, Where where);

// TBuf: `len` bytes from byte `at` on of a buffer of `have` bytes at `offset`.
Local part_of_buffer(uint32_t offset, uint32_t have, uint64_t at, uint64_t len,
                     AscendC::TPosition position, Where where);
// What no TPipe has reserved, as one tensor.
Local rest_of_ub(AscendC::TPosition position, Where where);

// The buffers of one queue and where each is on its way FREE -> AllocTensor -> EnQue -> DeQue ->
// FreeTensor.
struct Queue {
    static constexpr uint32_t kMaxBuffers = 8;
    enum State : uint8_t { kFree, kTaken, kQueued, kDequeued };

    uint32_t offset = 0;
    uint32_t len = 0;  // bytes of one buffer
    uint8_t num = 0;
    uint8_t next = 0;
    uint8_t head = 0;
    uint8_t queued = 0;
    AscendC::TPosition from;  // who fills its buffers, and who empties them
    AscendC::TPosition to;
    State state[kMaxBuffers] = {};
    uint8_t turns[kMaxBuffers] = {};  // AllocTensors of each buffer, modulo 256
    uint8_t order[kMaxBuffers] = {};

    Queue(AscendC::TPosition from, AscendC::TPosition to) : from(from), to(to) {}
    void init(Area *area, uint32_t num, uint32_t len, Where where);
    Local alloc(Where where);
    // `depth` 0: in place. `src` and `dst` are the positions that this step goes between.
    void enque(const Local &tensor, int depth, AscendC::TPosition src, AscendC::TPosition dst,
               Where where);
    Local deque(AscendC::TPosition src, AscendC::TPosition dst, Where where);
    void deque_in_place(Local &tensor, Where where);
    void free(const Local &tensor, Where where);
    State state_of(const Local &tensor, Where where) const;
    bool idle() const;
    Local tensor(int16_t slot, AscendC::TPosition position) const;
    // The buffer that `tensor` is, or lies in; -1: it is none of this queue's.
    int16_t slot_of(const Local &tensor) const;
    uint8_t *address(int16_t slot) const { return block().ub + offset + uint32_t(slot) * len; }
};

constexpr AscendC::HardEvent event_of(pipe_t from, pipe_t to) {
    using E = AscendC::HardEvent;
    return from == PIPE_V      ? (to == PIPE_S      ? E::V_S
                                  : to == PIPE_MTE2 ? E::V_MTE2
                                  : to == PIPE_MTE3 ? E::V_MTE3
                                  : to == PIPE_V    ? E::V_V
                                                    : E::MAX)
           : from == PIPE_S    ? (to == PIPE_V      ? E::S_V
                                  : to == PIPE_MTE2 ? E::S_MTE2
                                  : to == PIPE_MTE3 ? E::S_MTE3
                                                    : E::MAX)
           : from == PIPE_MTE2 ? (to == PIPE_V      ? E::MTE2_V
                                  : to == PIPE_S    ? E::MTE2_S
                                  : to == PIPE_MTE3 ? E::MTE2_MTE3
                                                    : E::MAX)
           : from == PIPE_MTE3 ? (to == PIPE_V      ? E::MTE3_V
                                  : to == PIPE_S    ? E::MTE3_S
                                  : to == PIPE_MTE2 ? E::MTE3_MTE2
                                                    : E::MAX)
                               : E::MAX;
}

}  // namespace twin

namespace AscendC {

using TEventID = int8_t;
constexpr TEventID EVENT_ID0 = 0, EVENT_ID1 = 1, EVENT_ID2 = 2, EVENT_ID3 = 3, EVENT_ID4 = 4,
                   EVENT_ID5 = 5, EVENT_ID6 = 6, EVENT_ID7 = 7;

enum class TBufState : uint8_t { FREE, OCCUPIED, ENQUE, DEQUE };

// What GetTQueConfig collects; a queue of the twin needs none of it.
struct TQueConfig {
    bool nd2nz = false;
    bool nz2nd = false;
    bool scmBlockGroup = false;
    uint32_t bufferLen = 0;
    uint32_t bufferNumber = 0;
    uint32_t consumerSize = 0;
    TPosition consumer[8] = {};
    bool enableStaticEvtId = false;
    bool enableLoopQueue = false;
};
__aicore__ constexpr TQueConfig GetTQueConfig(const TQueConfig &config) {
    return config;
}

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
  public:
    TQueBind() = default;
    TQueBind(const TQueBind &) = delete;
    TQueBind &operator=(const TQueBind &) = delete;

    template <typename T>
    __aicore__ inline LocalTensor<T> AllocTensor(twin::Where where = twin::Where::here()) {
        static_assert(depth != 0 || sizeof(T) == 0,
                      "a queue of depth 0 works in place: AllocTensor(tensor)");
        return LocalTensor<T>(state_.alloc(where));
    }
    template <typename T>
    __aicore__ inline void AllocTensor(LocalTensor<T> &tensor,
                                       twin::Where where = twin::Where::here()) {
        static_assert(depth == 0 || sizeof(T) == 0,
                      "AllocTensor(tensor), the form in place, wants a queue of depth 0");
        tensor = LocalTensor<T>(state_.alloc(where));
    }
    template <typename T>
    __aicore__ inline bool EnQue(const LocalTensor<T> &tensor,
                                 twin::Where where = twin::Where::here()) {
        state_.enque(tensor.twin_local(), depth, src, dst, where);
        return true;
    }
    template <TPosition from, TPosition to, typename T>
    __aicore__ inline bool EnQue(const LocalTensor<T> &tensor,
                                 twin::Where where = twin::Where::here()) {
        state_.enque(tensor.twin_local(), depth, from, to, where);
        return true;
    }
    template <typename T>
    __aicore__ inline LocalTensor<T> DeQue(twin::Where where = twin::Where::here()) {
        static_assert(depth != 0 || sizeof(T) == 0,
                      "a queue of depth 0 works in place: DeQue(tensor)");
        return LocalTensor<T>(state_.deque(src, dst, where));
    }
    template <TPosition from, TPosition to, typename T>
    __aicore__ inline LocalTensor<T> DeQue(twin::Where where = twin::Where::here()) {
        return LocalTensor<T>(state_.deque(from, to, where));
    }
    template <typename T>
    __aicore__ inline void DeQue(LocalTensor<T> &tensor, twin::Where where = twin::Where::here()) {
        static_assert(depth == 0 || sizeof(T) == 0,
                      "DeQue(tensor), the form in place, wants a queue of depth 0");
        twin::Local local = tensor.twin_local();
        state_.deque_in_place(local, where);
        tensor = LocalTensor<T>(local);
    }
    template <typename T>
    __aicore__ inline void FreeTensor(const LocalTensor<T> &tensor,
                                      twin::Where where = twin::Where::here()) {
        state_.free(tensor.twin_local(), where);
    }
    template <typename T>
    __aicore__ inline TBufState GetState(const LocalTensor<T> &tensor,
                                         twin::Where where = twin::Where::here()) const {
        return static_cast<TBufState>(state_.state_of(tensor.twin_local(), where));
    }
    __aicore__ inline bool VacantInQue() const {
        return state_.queued < (depth != 0 ? depth : state_.num);
    }
    __aicore__ inline bool HasTensorInQue() const { return state_.queued != 0; }
    __aicore__ inline int32_t GetTensorCountInQue() const { return state_.queued; }
    __aicore__ inline bool HasIdleBuffer() const { return state_.idle(); }
    __aicore__ inline void FreeAllEvent() {}  // the twin's queues hold no event ids

    twin::Queue &state() { return state_; }

  private:
    twin::Queue state_{src, dst};
};

template <TPosition position, int32_t depth, auto mask = 0>
class TQue : public TQueBind<position, position, depth, mask> {};

template <TPosition position = TPosition::LCM>
class TBuf {
  public:
    template <typename T>
    __aicore__ inline LocalTensor<T> Get(twin::Where where = twin::Where::here()) {
        return LocalTensor<T>(twin::part_of_buffer(offset_, len_, 0, len_, position, where));
    }
    template <typename T>
    __aicore__ inline LocalTensor<T> Get(uint32_t len, twin::Where where = twin::Where::here()) {
        return GetWithOffset<T>(len, 0, where);
    }
    // `size` elements from byte `bufOffset` of the buffer on.
    template <typename T>
    __aicore__ inline LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bufOffset,
                                                   twin::Where where = twin::Where::here()) {
        return LocalTensor<T>(twin::part_of_buffer(offset_, len_, bufOffset, twin::size_of<T>(size),
                                                   position, where));
    }
    __aicore__ inline uint32_t GetBufLen() const { return len_; }

    void init(uint32_t offset, uint32_t len) {
        offset_ = offset;
        len_ = len;
    }

  private:
    uint32_t offset_ = 0;
    uint32_t len_ = 0;
};

template <TPosition position, uint32_t bufIDSize = 4>
class TBufPool {
  public:
    static_assert(bufIDSize <= 16, "a TBufPool holds at most 16 buffers");

    // Of a TQue or TQueBind.
    template <typename Que>
    __aicore__ inline bool InitBuffer(Que &que, uint8_t num, uint32_t len,
                                      twin::Where where = twin::Where::here()) {
        que.state().init(&area_, num, len, where);
        return true;
    }
    template <TPosition other>
    __aicore__ inline bool InitBuffer(TBuf<other> &buf, uint32_t len,
                                      twin::Where where = twin::Where::here()) {
        buf.init(twin::reserve(&area_, 1, len, other, where), (len + 31) / 32 * 32);
        return true;
    }
    template <TPosition other, uint32_t size>
    __aicore__ inline bool InitBufPool(TBufPool<other, size> &pool, uint32_t len,
                                       twin::Where where = twin::Where::here()) {
        twin::init_pool(&area_, pool.area(), nullptr, len, size, where);
        return true;
    }
    template <TPosition other, uint32_t size, TPosition third, uint32_t thirdSize>
    __aicore__ inline bool InitBufPool(TBufPool<other, size> &pool, uint32_t len,
                                       TBufPool<third, thirdSize> &shareBuf,
                                       twin::Where where = twin::Where::here()) {
        twin::init_pool(&area_, pool.area(), &shareBuf.area(), len, size, where);
        return true;
    }
    __aicore__ inline void Reset(twin::Where where = twin::Where::here()) {
        twin::reset_pool(area_, where);
    }

    twin::Area &area() { return area_; }

  private:
    twin::Area area_;
};

class TPipe {
  public:
    explicit TPipe(twin::Where where = twin::Where::here()) { Init(where); }
    TPipe(const TPipe &) = delete;
    TPipe &operator=(const TPipe &) = delete;
    ~TPipe() {
        if (twin::block().pipe == this) {
            twin::block().pipe = nullptr;
        }
    }

    __aicore__ inline void Init(twin::Where where = twin::Where::here()) {
        twin::begin_pipe(this, where);
    }
    __aicore__ inline void Destroy(twin::Where where = twin::Where::here()) {
        twin::reset_pipe(twin::Op::Destroy, where);
        twin::block().pipe = nullptr;
    }
    __aicore__ inline void Reset(twin::Where where = twin::Where::here()) {
        twin::reset_pipe(twin::Op::Reset, where);
    }

    // Of a TQue or TQueBind.
    template <typename Que>
    __aicore__ inline bool InitBuffer(Que &que, uint8_t num, uint32_t len,
                                      twin::Where where = twin::Where::here()) {
        que.state().init(nullptr, num, len, where);
        return true;
    }
    template <TPosition position>
    __aicore__ inline bool InitBuffer(TBuf<position> &buf, uint32_t len,
                                      twin::Where where = twin::Where::here()) {
        buf.init(twin::reserve(nullptr, 1, len, position, where), (len + 31) / 32 * 32);
        return true;
    }
    template <TPosition position, uint32_t size>
    __aicore__ inline bool InitBufPool(TBufPool<position, size> &pool, uint32_t len,
                                       twin::Where where = twin::Where::here()) {
        twin::init_pool(nullptr, pool.area(), nullptr, len, size, where);
        return true;
    }
    template <TPosition position, uint32_t size, TPosition other, uint32_t otherSize>
    __aicore__ inline bool InitBufPool(TBufPool<position, size> &pool, uint32_t len,
                                       TBufPool<other, otherSize> &shareBuf,
                                       twin::Where where = twin::Where::here()) {
        twin::init_pool(nullptr, pool.area(), &shareBuf.area(), len, size, where);
        return true;
    }

    template <HardEvent event>
    __aicore__ inline TEventID AllocEventID(twin::Where where = twin::Where::here()) {
        return static_cast<TEventID>(twin::alloc_event(event, where));
    }
    template <HardEvent event>
    __aicore__ inline void ReleaseEventID(TEventID id, twin::Where where = twin::Where::here()) {
        twin::release_event(event, id, where);
    }
    __aicore__ inline TEventID FetchEventID(HardEvent event,
                                            twin::Where where = twin::Where::here()) {
        return static_cast<TEventID>(twin::fetch_event(event, where));
    }
    template <HardEvent event>
    __aicore__ inline TEventID FetchEventID(twin::Where where = twin::Where::here()) {
        return FetchEventID(event, where);
    }
    // Where the buffers of a position begin: in the twin one UB for all of them.
    __aicore__ inline uint64_t GetBaseAddr(int8_t /*position*/) const {
        return reinterpret_cast<uint64_t>(twin::block().ub);
    }
};

__aicore__ inline TPipe *GetTPipePtr(twin::Where where = twin::Where::here()) {
    return static_cast<TPipe *>(twin::current_pipe(where));
}

// The rest of UB, which no TPipe has reserved, as a temporary tensor.
template <typename T, TPosition position>
__aicore__ inline bool PopStackBuffer(LocalTensor<T> &tensor,
                                      twin::Where where = twin::Where::here()) {
    tensor = LocalTensor<T>(twin::rest_of_ub(position, where));
    return true;
}
template <typename T, TPosition position>
__aicore__ inline bool PopStackShareBuffer(LocalTensor<T> &tensor,
                                           twin::Where where = twin::Where::here()) {
    return PopStackBuffer<T, position>(tensor, where);
}

#define TWIN_VECTOR_CORE_EVENT(event)     \
    static_assert(event < HardEvent::MAX, \
                  "this HardEvent has a pipe of the cube unit, which the twin does not have")

template <HardEvent event>
__aicore__ inline void SetFlag(int32_t id, twin::Where where = twin::Where::here()) {
    TWIN_VECTOR_CORE_EVENT(event);
    twin::set_flag(event, id, where);
}
template <HardEvent event>
__aicore__ inline void WaitFlag(int32_t id, twin::Where where = twin::Where::here()) {
    TWIN_VECTOR_CORE_EVENT(event);
    twin::wait_flag(event, id, where);
}

// The older spelling of flags.
template <pipe_t from, pipe_t to>
class TQueSync {
  public:
    static constexpr HardEvent event = twin::event_of(from, to);
    TWIN_VECTOR_CORE_EVENT(event);

    __aicore__ inline void SetFlag(TEventID id, twin::Where where = twin::Where::here()) {
        twin::set_flag(event, id, where);
    }
    __aicore__ inline void WaitFlag(TEventID id, twin::Where where = twin::Where::here()) {
        twin::wait_flag(event, id, where);
    }
};
#undef TWIN_VECTOR_CORE_EVENT

template <pipe_t pipe>
__aicore__ inline void PipeBarrier(twin::Where where = twin::Where::here()) {
    if (__builtin_expect(twin::block().observer != nullptr || pipe == PIPE_S, 0)) {
        twin::pipe_barrier(pipe, where);
    }
}

}  // namespace AscendC
