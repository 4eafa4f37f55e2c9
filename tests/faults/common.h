// What the faulty kernels of this folder share. Each kernel has one mistake: in BAD where it is
// something that should not be there, in GOOD where it is something that lacks. The line that the
// twin must name is marked with `// <-`; the comment above the kernel is the code of the fault and
// what the mistake is, as docs/twin.md shows it.
#pragma once

#include "kernel_operator.h"

#if FAULTY
#define BAD(...) __VA_ARGS__
#define GOOD(...)
#else
#define BAD(...)
#define GOOD(...) __VA_ARGS__
#endif

using namespace AscendC;

// 1024 floats in GM on each side, two queues and two buffers of 256 floats.
#define GIVEN                                     \
    TPipe pipe;                                   \
    GlobalTensor<float> in, out;                  \
    in.SetGlobalBuffer((__gm__ float *)x, 1024);  \
    out.SetGlobalBuffer((__gm__ float *)y, 1024); \
    TQue<TPosition::VECIN, 2> inQue;              \
    TQue<TPosition::VECOUT, 2> outQue;            \
    TBuf<TPosition::VECCALC> buf, work;           \
    pipe.InitBuffer(inQue, 2, 1024);              \
    pipe.InitBuffer(outQue, 2, 1024);             \
    pipe.InitBuffer(buf, 1024);                   \
    pipe.InitBuffer(work, 1024);                  \
    LocalTensor<float> a = buf.Get<float>();      \
    LocalTensor<float> b = work.Get<float>()

#define COPY_IN(to, from, n) \
    DataCopyPad(to, from, DataCopyExtParams{1, (n) * 4, 0, 0, 0}, DataCopyPadExtParams<float>())
#define COPY_OUT(to, from, n) DataCopyPad(to, from, DataCopyExtParams{1, (n) * 4, 0, 0, 0})

// The second pipe waits for the first.
#define WAIT(event)                    \
    SetFlag<HardEvent::event>(0);      \
    WaitFlag<HardEvent::event>(0)

// What SetValue wrote goes to GM, and GetValue reads from there again.
#define CLEAN(tensor)                                                              \
    DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE,                  \
                             DcciDst::CACHELINE_OUT>(tensor)
