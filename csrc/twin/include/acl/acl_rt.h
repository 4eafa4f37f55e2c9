// Devices, contexts, streams, events and memory of the acl host API. See acl/acl.h.
#pragma once

#include "acl_base.h"

typedef void *aclrtStream;
typedef void *aclrtEvent;
typedef void *aclrtContext;

typedef enum { ACL_DEVICE = 0, ACL_HOST = 1 } aclrtRunMode;

typedef enum {
    ACL_MEM_MALLOC_HUGE_FIRST = 0,
    ACL_MEM_MALLOC_HUGE_ONLY = 1,
    ACL_MEM_MALLOC_NORMAL_ONLY = 2,
    ACL_MEM_MALLOC_HUGE_FIRST_P2P = 3,
    ACL_MEM_MALLOC_HUGE_ONLY_P2P = 4,
    ACL_MEM_MALLOC_NORMAL_ONLY_P2P = 5,
    ACL_MEM_MALLOC_HUGE1G_ONLY = 6,
    ACL_MEM_MALLOC_HUGE1G_ONLY_P2P = 7,
    ACL_MEM_TYPE_LOW_BAND_WIDTH = 0x0100,
    ACL_MEM_TYPE_HIGH_BAND_WIDTH = 0x1000
} aclrtMemMallocPolicy;

typedef enum {
    ACL_MEMCPY_HOST_TO_HOST = 0,
    ACL_MEMCPY_HOST_TO_DEVICE = 1,
    ACL_MEMCPY_DEVICE_TO_HOST = 2,
    ACL_MEMCPY_DEVICE_TO_DEVICE = 3,
    ACL_MEMCPY_DEFAULT = 4,
    ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE = 5,
    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE = 6,
    ACL_MEMCPY_INTER_DEVICE_TO_DEVICE = 7
} aclrtMemcpyKind;

typedef enum {
    ACL_DDR_MEM = 0,
    ACL_HBM_MEM = 1,
    ACL_DDR_MEM_HUGE = 2,
    ACL_DDR_MEM_NORMAL = 3,
    ACL_HBM_MEM_HUGE = 4,
    ACL_HBM_MEM_NORMAL = 5
} aclrtMemAttr;

typedef enum {
    ACL_EVENT_STATUS_COMPLETE = 0,
    ACL_EVENT_STATUS_NOT_READY = 1,
    ACL_EVENT_STATUS_RESERVED = 2
} aclrtEventStatus;

typedef enum {
    ACL_EVENT_RECORDED_STATUS_NOT_READY = 0,
    ACL_EVENT_RECORDED_STATUS_COMPLETE = 1
} aclrtEventRecordedStatus;

typedef enum {
    ACL_STREAM_STATUS_COMPLETE = 0,
    ACL_STREAM_STATUS_NOT_READY = 1,
    ACL_STREAM_STATUS_RESERVED = 0xFFFF
} aclrtStreamStatus;

typedef enum {
    ACL_DEVICE_INFO_UNDEFINED = -1,
    ACL_DEVICE_INFO_AI_CORE_NUM = 0,
    ACL_DEVICE_INFO_VECTOR_CORE_NUM = 1,
    ACL_DEVICE_INFO_L2_SIZE = 2
} aclDeviceInfo;

#define ACL_EVENT_SYNC 0x00000001u
#define ACL_EVENT_CAPTURE_STREAM_PROGRESS 0x00000002u
#define ACL_EVENT_TIME_LINE 0x00000008u
#define ACL_STREAM_FAST_LAUNCH 0x00000001u
#define ACL_STREAM_FAST_SYNC 0x00000002u

// ---- devices ----------------------------------------------------------------------------------
aclError aclrtSetDevice(int32_t deviceId, twin::Where where = twin::Where::here());
aclError aclrtResetDevice(int32_t deviceId, twin::Where where = twin::Where::here());
aclError aclrtResetDeviceForce(int32_t deviceId, twin::Where where = twin::Where::here());
aclError aclrtGetDevice(int32_t *deviceId, twin::Where where = twin::Where::here());
aclError aclrtGetDeviceCount(uint32_t *count, twin::Where where = twin::Where::here());
aclError aclrtGetRunMode(aclrtRunMode *runMode, twin::Where where = twin::Where::here());
aclError aclrtSynchronizeDevice(twin::Where where = twin::Where::here());
aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout,
                                           twin::Where where = twin::Where::here());
aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion,
                         twin::Where where = twin::Where::here());

// ---- contexts ---------------------------------------------------------------------------------
aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId,
                            twin::Where where = twin::Where::here());
aclError aclrtDestroyContext(aclrtContext context, twin::Where where = twin::Where::here());
aclError aclrtSetCurrentContext(aclrtContext context, twin::Where where = twin::Where::here());
aclError aclrtGetCurrentContext(aclrtContext *context, twin::Where where = twin::Where::here());

// ---- streams: what is put on one has happened when the call returns ---------------------------
aclError aclrtCreateStream(aclrtStream *stream, twin::Where where = twin::Where::here());
aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag,
                                     twin::Where where = twin::Where::here());
aclError aclrtDestroyStream(aclrtStream stream, twin::Where where = twin::Where::here());
aclError aclrtDestroyStreamForce(aclrtStream stream, twin::Where where = twin::Where::here());
aclError aclrtSynchronizeStream(aclrtStream stream, twin::Where where = twin::Where::here());
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout,
                                           twin::Where where = twin::Where::here());
aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status,
                          twin::Where where = twin::Where::here());
aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event,
                              twin::Where where = twin::Where::here());

// ---- events -----------------------------------------------------------------------------------
aclError aclrtCreateEvent(aclrtEvent *event, twin::Where where = twin::Where::here());
aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag,
                                  twin::Where where = twin::Where::here());
aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag,
                                    twin::Where where = twin::Where::here());
aclError aclrtDestroyEvent(aclrtEvent event, twin::Where where = twin::Where::here());
aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream,
                          twin::Where where = twin::Where::here());
aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream,
                         twin::Where where = twin::Where::here());
aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status,
                         twin::Where where = twin::Where::here());
aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status,
                               twin::Where where = twin::Where::here());
aclError aclrtSynchronizeEvent(aclrtEvent event, twin::Where where = twin::Where::here());
aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout,
                                          twin::Where where = twin::Where::here());
aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent,
                               twin::Where where = twin::Where::here());

// ---- memory -----------------------------------------------------------------------------------
aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                     twin::Where where = twin::Where::here());
aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                            twin::Where where = twin::Where::here());
aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy,
                           twin::Where where = twin::Where::here());
aclError aclrtFree(void *devPtr, twin::Where where = twin::Where::here());
aclError aclrtMallocHost(void **hostPtr, size_t size, twin::Where where = twin::Where::here());
aclError aclrtFreeHost(void *hostPtr, twin::Where where = twin::Where::here());
aclError aclrtMemFlush(void *devPtr, size_t size, twin::Where where = twin::Where::here());
aclError aclrtMemInvalidate(void *devPtr, size_t size, twin::Where where = twin::Where::here());
aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total,
                         twin::Where where = twin::Where::here());

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                     twin::Where where = twin::Where::here());
aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count,
                          aclrtMemcpyKind kind, aclrtStream stream,
                          twin::Where where = twin::Where::here());
aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                       size_t height, aclrtMemcpyKind kind,
                       twin::Where where = twin::Where::here());
aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                            size_t height, aclrtMemcpyKind kind, aclrtStream stream,
                            twin::Where where = twin::Where::here());
aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count,
                     twin::Where where = twin::Where::here());
aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                          aclrtStream stream, twin::Where where = twin::Where::here());

#ifdef WB_TWIN_ARCH  // the runtime's own objects serve every architecture
// ---- what depends on the architecture the program is built for
// ----------------------------------- A product of that architecture (*assumed* which one).
inline const char *aclrtGetSocName() {
#if WB_TWIN_ARCH == 1001
    return "Ascend910A";
#elif WB_TWIN_ARCH == 2002
    return "Ascend310P3";
#elif WB_TWIN_ARCH == 3510
    return "Ascend950PR_9599";
#else
    return "Ascend910B1";
#endif
}

inline aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo deviceInfo,
                                       int64_t *value) {
    if (value == nullptr) {
        return ACL_ERROR_INVALID_PARAM;
    }
    if (deviceId != 0) {
        return ACL_ERROR_RT_INVALID_DEVICEID;
    }
    switch (deviceInfo) {
        case ACL_DEVICE_INFO_AI_CORE_NUM:
            // Architectures that split a core have two vector cores beside each cube core.
            *value =
                twin::kArch.vector_cores / (WB_TWIN_ARCH == 2201 || WB_TWIN_ARCH == 3510 ? 2 : 1);
            return ACL_SUCCESS;
        case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
            *value = twin::kArch.vector_cores;
            return ACL_SUCCESS;
        default:
            return ACL_ERROR_INVALID_PARAM;
    }
}

#endif
