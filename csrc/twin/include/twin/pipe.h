// TPipe, TQue, TBuf, flags and barriers. In the twin a block runs its instructions in program
// order, so a queue carries data and capacity, not time; what would hang on a device is a fault
// here.
#pragma once

#include "twin/tensor.h"

namespace AscendC {

// TQue and TBuf keep their buffers as offsets into UB.
template <TPosition position, int32_t depth, int32_t mask = 0>
class TQue;
template <TPosition position = TPosition::LCM>
class TBuf;

class TPipe {
  public:
    TPipe() { twin::block().pipe = this; }
    TPipe(const TPipe &) = delete;
    TPipe &operator=(const TPipe &) = delete;
    ~TPipe() { Destroy(); }

    __aicore__ inline void Destroy() { twin::block().pipe = nullptr; }

    template <TPosition position, int32_t depth, int32_t mask>
    __aicore__ inline bool InitBuffer(TQue<position, depth, mask> &que, uint8_t num, uint32_t len,
                                      twin::Where where = twin::Where::here()) {
        que.state().init(twin::kArch, num, len, where);
        return true;
    }

    template <TPosition position>
    __aicore__ inline bool InitBuffer(TBuf<position> &buf, uint32_t len,
                                      twin::Where where = twin::Where::here()) {
        buf.init(twin::reserve(twin::kArch, 1, len, where), uint32_t(twin::round_to_block(len)));
        return true;
    }

    template <HardEvent event>
    __aicore__ inline int32_t AllocEventID() {
        return FetchEventID(event);
    }
    template <HardEvent event>
    __aicore__ inline void ReleaseEventID(int32_t) {}
    __aicore__ inline int32_t FetchEventID(HardEvent event) {
        return twin::fetch_event(twin::kArch, event);
    }
    template <HardEvent event>
    __aicore__ inline int32_t FetchEventID() {
        return FetchEventID(event);
    }
};

__aicore__ inline TPipe *GetTPipePtr() {
    return static_cast<TPipe *>(twin::block().pipe);
}

template <TPosition position, int32_t depth, int32_t mask>
class TQue {
  public:
    template <typename T>
    __aicore__ inline LocalTensor<T> AllocTensor(twin::Where where = twin::Where::here()) {
        return tensor<T>(state_.alloc(where));
    }
    template <typename T>
    __aicore__ inline bool EnQue(const LocalTensor<T> &tensor,
                                 twin::Where where = twin::Where::here()) {
        state_.enque(tensor.buffer(), depth, where);
        return true;
    }
    template <typename T>
    __aicore__ inline LocalTensor<T> DeQue(twin::Where where = twin::Where::here()) {
        return tensor<T>(state_.deque(where));
    }
    template <typename T>
    __aicore__ inline void FreeTensor(const LocalTensor<T> &tensor,
                                      twin::Where where = twin::Where::here()) {
        state_.free(tensor.buffer(), where);
    }
    __aicore__ inline bool HasTensorInQue() const { return state_.queued != 0; }
    __aicore__ inline int32_t GetTensorCountInQue() const { return state_.queued; }

    twin::Queue &state() { return state_; }

  private:
    template <typename T>
    LocalTensor<T> tensor(int16_t slot) const {
        return LocalTensor<T>(static_cast<T *>(state_.address(slot)), state_.len / sizeof(T), slot,
                              position);
    }

    twin::Queue state_;
};

template <TPosition position>
class TBuf {
  public:
    template <typename T>
    __aicore__ inline LocalTensor<T> Get(twin::Where where = twin::Where::here()) {
        if (len_ == 0) {
            twin::fault(where, "mem", "no-init-buffer", "TBuf::Get without InitBuffer");
        }
        return LocalTensor<T>(reinterpret_cast<T *>(twin::block().ub + offset_), len_ / sizeof(T),
                              -1, position);
    }
    template <typename T>
    __aicore__ inline LocalTensor<T> Get(uint32_t len, twin::Where where = twin::Where::here()) {
        LocalTensor<T> whole = Get<T>(where);
        return LocalTensor<T>(whole.data(), len, -1, position);
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

template <HardEvent event>
__aicore__ inline void SetFlag(int32_t id, twin::Where where = twin::Where::here()) {
    twin::set_flag(twin::kArch, event, id, where);
}
template <HardEvent event>
__aicore__ inline void WaitFlag(int32_t id, twin::Where where = twin::Where::here()) {
    twin::wait_flag(twin::kArch, event, id, where);
}

template <pipe_t pipe>
__aicore__ inline void PipeBarrier() {}

}  // namespace AscendC
