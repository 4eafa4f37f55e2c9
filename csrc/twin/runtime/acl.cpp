// The acl host API on the twin: one device, which is the CPU. What is put on a stream has happened
// when the call returns, so a stream is only a name and an event only a time.
//
// Codes and semantics are the documented ones. *Assumed* where the documents are silent: a length
// of 0 is refused with 107000; a null or unknown address with 100000 or 107000; every call but
// aclInit works without aclInit; memory may be freed after its device is reset.
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include "acl_common.h"

namespace {

using twin::failed;
using twin::need_live;
using twin::Where;

// ---- what the last failed call of a thread had to say -----------------------------------------

thread_local std::string recent;
thread_local std::string recent_given;

// ---- device, contexts, streams, events --------------------------------------------------------

struct Context {
    std::set<aclrtStream> streams;
};

struct Event {
    uint32_t flag;
    bool recorded = false;
    std::chrono::steady_clock::time_point time;
};

struct State {
    std::mutex mutex;
    bool initialised = false;
    uint32_t users = 0;  // aclrtSetDevice without its aclrtResetDevice
    Context *of_device = nullptr;
    std::set<Context *> contexts;
    std::set<Event *> events;
};

State &state() {
    static State *the = new State;
    return *the;
}

using Lock = std::lock_guard<std::mutex>;

thread_local Context *current = nullptr;

Context *current_locked() {
    if (state().contexts.count(current) == 0) {
        current = nullptr;
    }
    return current;
}

#define NEED_CONTEXT()                                           \
    NEED(current_locked() != nullptr, ACL_ERROR_RT_CONTEXT_NULL, \
         "this thread has no context; call aclrtSetDevice first")

#define NEED_DEVICE(id) \
    NEED((id) == 0, ACL_ERROR_RT_INVALID_DEVICEID, "device %d; there is device 0 only", int(id))

// The null stream is the context's default one.
bool known_stream_locked(aclrtStream stream) {
    if (stream == nullptr) {
        return true;
    }
    for (Context *context : state().contexts) {
        if (context->streams.count(stream) != 0) {
            return true;
        }
    }
    return false;
}

#define NEED_STREAM(stream)                                        \
    NEED(known_stream_locked(stream), ACL_ERROR_RT_INVALID_HANDLE, \
         "%p is no stream, or one that was destroyed", stream)

#define NEED_EVENT(event)                                                                     \
    NEED((event) != nullptr, ACL_ERROR_INVALID_PARAM, "the event is null");                   \
    NEED(state().events.count(static_cast<Event *>(event)) != 0, ACL_ERROR_RT_INVALID_HANDLE, \
         "%p is no event, or one that was destroyed", event)

// After a fault of a kernel everything that would wait for the device says so, until it is reset.
#define NEED_DEVICE_ALIVE()                                                                     \
    NEED(twin::device_error() == 0, twin::device_error(),                                       \
         "a kernel has faulted before (vector core execution is abnormal); nothing runs until " \
         "aclrtResetDevice")

// A call that returns when what was launched is done.
aclError wait(const char *function, bool with_context, aclrtStream stream, Where where) {
    const aclError error = need_live(function, with_context, stream, where);
    if (error == ACL_SUCCESS) {
        twin::launches_awaited();
    }
    return error;
}

bool timeout_is_valid(int32_t timeout) {
    return timeout >= -1;  // -1: no limit
}

}  // namespace

namespace twin {

aclError failed(aclError code, const char *function, Where where, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    recent = std::string(where.file) + ":" + std::to_string(where.line) + ": " + function + ": " +
             text + " (error " + std::to_string(code) + ")";
    return code;
}

aclError need_live(const char *function, bool with_context, aclrtStream stream, Where where) {
    Lock lock(state().mutex);
    if (with_context && current_locked() == nullptr) {
        return failed(ACL_ERROR_RT_CONTEXT_NULL, function, where,
                      "this thread has no context; call aclrtSetDevice first");
    }
    if (!known_stream_locked(stream)) {
        return failed(ACL_ERROR_RT_INVALID_HANDLE, function, where,
                      "%p is no stream, or one that was destroyed", stream);
    }
    if (const int error = twin::device_error()) {
        return failed(error, function, where,
                      "a kernel has faulted before (%s); nothing runs until aclrtResetDevice",
                      error == ACL_ERROR_RT_VECTOR_CORE_TIMEOUT
                          ? "vector core time-out"
                          : "vector core execution is abnormal");
    }
    return ACL_SUCCESS;
}

aclError need_context(const char *function, Where where) {
    Lock lock(state().mutex);
    if (current_locked() == nullptr) {
        return failed(ACL_ERROR_RT_CONTEXT_NULL, function, where,
                      "this thread has no context; call aclrtSetDevice first");
    }
    return ACL_SUCCESS;
}

}  // namespace twin

// ---- base -------------------------------------------------------------------------------------

size_t aclDataTypeSize(aclDataType dataType) {
    switch (dataType) {
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_BOOL:
            return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16:
            return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
        case ACL_COMPLEX32:
            return 4;
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_DOUBLE:
        case ACL_COMPLEX64:
            return 8;
        case ACL_COMPLEX128:
            return 16;
        default:
            return 0;
    }
}

float aclFloat16ToFloat(aclFloat16 value) {
    return twin::half_to_float(value);
}

aclFloat16 aclFloatToFloat16(float value) {
    return twin::float_to_half(value);
}

const char *aclGetRecentErrMsg() {
    if (recent.empty()) {
        return nullptr;
    }
    recent_given.swap(recent);
    recent.clear();
    return recent_given.c_str();
}

aclError aclInit(const char *configPath, Where where) {
    Lock lock(state().mutex);
    NEED(!state().initialised, ACL_ERROR_REPEAT_INITIALIZE, "it was called before");
    if (configPath != nullptr && *configPath != 0) {
        std::FILE *file = std::fopen(configPath, "rb");
        NEED(file != nullptr, ACL_ERROR_INVALID_FILE, "there is no file %s", configPath);
        std::fclose(file);
    }
    state().initialised = true;
    return ACL_SUCCESS;
}

aclError aclFinalize(Where where) {
    Lock lock(state().mutex);
    NEED(state().initialised, ACL_ERROR_REPEAT_FINALIZE,
         "there was no aclInit, or aclFinalize was called before");
    state().initialised = false;
    return ACL_SUCCESS;
}

// ---- devices ----------------------------------------------------------------------------------

aclError aclrtSetDevice(int32_t deviceId, Where where) {
    Lock lock(state().mutex);
    NEED_DEVICE(deviceId);
    if (state().of_device == nullptr) {
        state().of_device = new Context;
        state().contexts.insert(state().of_device);
    }
    ++state().users;
    current = state().of_device;
    return ACL_SUCCESS;
}

static aclError reset(int32_t deviceId, bool force, const char *function, Where where) {
    Lock lock(state().mutex);
    if (deviceId != 0) {
        return failed(ACL_ERROR_RT_INVALID_DEVICEID, function, where,
                      "device %d; there is device 0 only", int(deviceId));
    }
    if (state().users == 0) {
        return failed(ACL_ERROR_RT_CONTEXT_NULL, function, where, "no aclrtSetDevice came before");
    }
    state().users = force ? 0 : state().users - 1;
    if (state().users == 0) {
        state().contexts.erase(state().of_device);
        delete state().of_device;
        state().of_device = nullptr;
        twin::reset_device();
    }
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId, Where where) {
    return reset(deviceId, false, __func__, where);
}

aclError aclrtResetDeviceForce(int32_t deviceId, Where where) {
    return reset(deviceId, true, __func__, where);
}

aclError aclrtGetDevice(int32_t *deviceId, Where where) {
    Lock lock(state().mutex);
    NEED(deviceId != nullptr, ACL_ERROR_INVALID_PARAM, "the place for the device is null");
    NEED_CONTEXT();
    *deviceId = 0;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count, Where where) {
    NEED(count != nullptr, ACL_ERROR_INVALID_PARAM, "the place for the count is null");
    *count = 1;
    return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode, Where where) {
    NEED(runMode != nullptr, ACL_ERROR_INVALID_PARAM, "the place for the mode is null");
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice(Where where) {
    return wait(__func__, true, nullptr, where);
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout, Where where) {
    NEED(timeout_is_valid(timeout), ACL_ERROR_INVALID_PARAM, "a time limit of %d", timeout);
    return wait(__func__, true, nullptr, where);
}

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion,
                         Where where) {
    NEED(majorVersion != nullptr && minorVersion != nullptr && patchVersion != nullptr,
         ACL_ERROR_INVALID_PARAM, "a place for the version is null");
    *majorVersion = 1;  // *assumed*
    *minorVersion = 0;
    *patchVersion = 0;
    return ACL_SUCCESS;
}

// ---- contexts ---------------------------------------------------------------------------------

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId, Where where) {
    Lock lock(state().mutex);
    NEED(context != nullptr, ACL_ERROR_INVALID_PARAM, "the place for the context is null");
    NEED_DEVICE(deviceId);
    current = new Context;
    state().contexts.insert(current);
    *context = current;
    return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context, Where where) {
    Lock lock(state().mutex);
    auto *found = static_cast<Context *>(context);
    NEED(found != nullptr, ACL_ERROR_INVALID_PARAM, "the context is null");
    NEED(found != state().of_device, ACL_ERROR_INVALID_PARAM,
         "the device's default context goes with aclrtResetDevice");
    NEED(state().contexts.erase(found) != 0, ACL_ERROR_RT_CONTEXT_NULL,
         "%p is no context, or one that was destroyed", context);
    delete found;
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context, Where where) {
    Lock lock(state().mutex);
    auto *found = static_cast<Context *>(context);
    NEED(found != nullptr, ACL_ERROR_INVALID_PARAM, "the context is null");
    NEED(state().contexts.count(found) != 0, ACL_ERROR_RT_CONTEXT_NULL,
         "%p is no context, or one that was destroyed", context);
    current = found;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context, Where where) {
    Lock lock(state().mutex);
    NEED(context != nullptr, ACL_ERROR_INVALID_PARAM, "the place for the context is null");
    NEED_CONTEXT();
    *context = current;
    return ACL_SUCCESS;
}

// ---- streams ----------------------------------------------------------------------------------

static aclError create_stream(const char *function, aclrtStream *stream, Where where) {
    Lock lock(state().mutex);
    if (stream == nullptr) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where, "the place for the stream is null");
    }
    if (current_locked() == nullptr) {
        return failed(ACL_ERROR_RT_CONTEXT_NULL, function, where,
                      "this thread has no context; call aclrtSetDevice first");
    }
    static uintptr_t number = 0x5000;  // a name, never an address
    number += 16;
    *stream = reinterpret_cast<aclrtStream>(number);
    current->streams.insert(*stream);
    return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream *stream, Where where) {
    return create_stream(__func__, stream, where);
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t /*priority*/, uint32_t /*flag*/,
                                     Where where) {
    return create_stream(__func__, stream, where);
}

aclError aclrtDestroyStream(aclrtStream stream, Where where) {
    Lock lock(state().mutex);
    NEED(stream != nullptr, ACL_ERROR_INVALID_PARAM, "the stream is null");
    NEED_STREAM(stream);
    for (Context *context : state().contexts) {
        context->streams.erase(stream);
    }
    return ACL_SUCCESS;
}

aclError aclrtDestroyStreamForce(aclrtStream stream, Where where) {
    return aclrtDestroyStream(stream, where);
}

aclError aclrtSynchronizeStream(aclrtStream stream, Where where) {
    return wait(__func__, stream == nullptr, stream, where);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout, Where where) {
    NEED(timeout_is_valid(timeout), ACL_ERROR_INVALID_PARAM, "a time limit of %d", timeout);
    return wait(__func__, stream == nullptr, stream, where);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status, Where where) {
    NEED(status != nullptr, ACL_ERROR_INVALID_PARAM, "the place for the status is null");
    *status = ACL_STREAM_STATUS_COMPLETE;
    return wait(__func__, stream == nullptr, stream, where);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event, Where where) {
    Lock lock(state().mutex);
    NEED_STREAM(stream);
    NEED_EVENT(event);
    NEED((static_cast<Event *>(event)->flag & ACL_EVENT_SYNC) != 0, ACL_ERROR_RT_PARAM_INVALID,
         "the event was created without ACL_EVENT_SYNC");
    return ACL_SUCCESS;
}

// ---- events -----------------------------------------------------------------------------------

static aclError create_event(const char *function, aclrtEvent *event, uint32_t flag, Where where) {
    Lock lock(state().mutex);
    if (event == nullptr || flag == 0) {
        return failed(ACL_ERROR_INVALID_PARAM, function, where,
                      event == nullptr ? "the place for the event is null" : "flag is 0");
    }
    if (current_locked() == nullptr) {
        return failed(ACL_ERROR_RT_CONTEXT_NULL, function, where,
                      "this thread has no context; call aclrtSetDevice first");
    }
    auto *made = new Event{flag, false, {}};
    state().events.insert(made);
    *event = made;
    return ACL_SUCCESS;
}

aclError aclrtCreateEvent(aclrtEvent *event, Where where) {
    return create_event(__func__, event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, where);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag, Where where) {
    return create_event(__func__, event, flag, where);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag, Where where) {
    return create_event(__func__, event, flag, where);
}

aclError aclrtDestroyEvent(aclrtEvent event, Where where) {
    Lock lock(state().mutex);
    NEED_EVENT(event);
    state().events.erase(static_cast<Event *>(event));
    delete static_cast<Event *>(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream, Where where) {
    Lock lock(state().mutex);
    NEED_EVENT(event);
    NEED_STREAM(stream);
    auto *e = static_cast<Event *>(event);
    e->recorded = true;
    e->time = std::chrono::steady_clock::now();
    return ACL_SUCCESS;
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream, Where where) {
    Lock lock(state().mutex);
    NEED_EVENT(event);
    NEED_STREAM(stream);
    NEED((static_cast<Event *>(event)->flag & ACL_EVENT_SYNC) != 0, ACL_ERROR_RT_PARAM_INVALID,
         "the event was created without ACL_EVENT_SYNC");
    static_cast<Event *>(event)->recorded = false;
    return ACL_SUCCESS;
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status, Where where) {
    Lock lock(state().mutex);
    NEED(status != nullptr, ACL_ERROR_INVALID_PARAM, "the place for the status is null");
    NEED_EVENT(event);
    *status = static_cast<Event *>(event)->recorded ? ACL_EVENT_STATUS_COMPLETE
                                                    : ACL_EVENT_STATUS_NOT_READY;
    if (static_cast<Event *>(event)->recorded) {
        twin::launches_awaited();
    }
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status, Where where) {
    Lock lock(state().mutex);
    NEED(status != nullptr, ACL_ERROR_INVALID_PARAM, "the place for the status is null");
    NEED_EVENT(event);
    *status = static_cast<Event *>(event)->recorded ? ACL_EVENT_RECORDED_STATUS_COMPLETE
                                                    : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    if (static_cast<Event *>(event)->recorded) {
        twin::launches_awaited();
    }
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event, Where where) {
    Lock lock(state().mutex);
    NEED_EVENT(event);
    NEED_DEVICE_ALIVE();
    // *assumed*: an error rather than a wait without end.
    NEED(static_cast<Event *>(event)->recorded, ACL_ERROR_RT_PARAM_INVALID,
         "nobody has recorded this event, so nothing would end the wait");
    twin::launches_awaited();
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout, Where where) {
    NEED(timeout_is_valid(timeout), ACL_ERROR_INVALID_PARAM, "a time limit of %d", timeout);
    return aclrtSynchronizeEvent(event, where);
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent, Where where) {
    Lock lock(state().mutex);
    NEED(ms != nullptr, ACL_ERROR_INVALID_PARAM, "the place for the time is null");
    NEED_EVENT(startEvent);
    NEED_EVENT(endEvent);
    const auto *start = static_cast<Event *>(startEvent);
    const auto *end = static_cast<Event *>(endEvent);
    NEED((start->flag & end->flag & ACL_EVENT_TIME_LINE) != 0 && start->recorded && end->recorded,
         ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
         "an event is not recorded, or was created without ACL_EVENT_TIME_LINE");
    NEED(end->time >= start->time, ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
         "the end was recorded before the start");
    *ms = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return ACL_SUCCESS;
}
