// The kernels of scale.asc.
#ifndef PROGRAMS_SCALE_IMPL_H
#define PROGRAMS_SCALE_IMPL_H
#include "kernel_operator.h"
namespace OpKernel {
constexpr int32_t kDepth = 0;  // in place
enum class Act : int { NONE, RELU, ABS };
template <typename T, int TILE, Act act>
class Scale {
  public:
    __aicore__ inline void Init(__gm__ uint8_t *x, __gm__ uint8_t *y, int64_t n, T s);
    __aicore__ inline void Process();

  private:
    AscendC::TPipe pipe_;
    AscendC::TQue<AscendC::TPosition::VECIN, kDepth> q_;
    AscendC::TQue<AscendC::TPosition::VECOUT, kDepth> o_;
    AscendC::GlobalTensor<T> x_, y_;
    int64_t n_;
    T s_;
};
template <typename T, int TILE, Act act>
__aicore__ inline void Scale<T, TILE, act>::Init(__gm__ uint8_t *x, __gm__ uint8_t *y, int64_t n,
                                                 T s) {
    n_ = n;
    s_ = s;
    x_.SetGlobalBuffer((__gm__ T *)x, n);
    y_.SetGlobalBuffer((__gm__ T *)y, n);
    pipe_.InitBuffer(q_, 2, TILE * sizeof(T));
    pipe_.InitBuffer(o_, 2, TILE * sizeof(T));
}
template <typename T, int TILE, Act act>
__aicore__ inline void Scale<T, TILE, act>::Process() {
    AscendC::LocalTensor<T> a, b;
    for (int64_t i = AscendC::GetBlockIdx() * TILE; i < n_; i += AscendC::GetBlockNum() * TILE) {
        const uint32_t m = static_cast<uint32_t>(n_ - i < TILE ? n_ - i : TILE);
        q_.template AllocTensor<T>(a);
        AscendC::DataCopyPad(a, x_[i], {1, static_cast<uint32_t>(m * sizeof(T)), 0, 0, 0},
                             {false, 0, 0, 0});
        q_.EnQue(a);
        q_.template DeQue<T>(a);
        o_.template AllocTensor<T>(b);
        AscendC::Muls(b, a, s_, m);
        AscendC::PipeBarrier<PIPE_V>();
        if constexpr (act == Act::RELU)
            AscendC::Relu(b, b, m);
        else if constexpr (act == Act::ABS)
            AscendC::Abs(b, b, m);
        q_.FreeTensor(a);
        o_.EnQue(b);
        o_.template DeQue<T>(b);
        AscendC::DataCopyPad(y_[i], b, {1, static_cast<uint32_t>(m * sizeof(T)), 0, 0, 0});
        o_.FreeTensor(b);
    }
}
template <typename T, int TILE, Act act>
__global__ __aicore__ void scale(GM_ADDR x, GM_ADDR y, int64_t n, float s) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    Scale<T, TILE, act> op;
    op.Init(x, y, n, static_cast<T>(s));
    op.Process();
}
}  // namespace OpKernel
#endif
