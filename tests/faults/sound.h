// What the sound kernels share: many styles, under all checks no fault, and the same bits as
// without. The comment above each says what is in it; `blocks: N` if it is not one.
#pragma once

#include "kernel_operator.h"

using namespace AscendC;

// The second pipe waits for the first.
#define WAIT(event, id)            \
    SetFlag<HardEvent::event>(id); \
    WaitFlag<HardEvent::event>(id)
#define BUFFER(T, name, bytes)          \
    TBuf<TPosition::VECCALC> name##Buf; \
    pipe.InitBuffer(name##Buf, bytes);  \
    LocalTensor<T> name = name##Buf.Get<T>()
#define CLEAN(tensor) \
    DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(tensor)

// 1024 floats in GM each.
#define TENSORS                                   \
    GlobalTensor<float> x, y, z;                  \
    x.SetGlobalBuffer((__gm__ float *)xGm, 1024); \
    y.SetGlobalBuffer((__gm__ float *)yGm, 1024); \
    z.SetGlobalBuffer((__gm__ float *)zGm, 1024)
