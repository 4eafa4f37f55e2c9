// Types, error codes and small helpers of the acl host API. See acl/acl.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include <twin/runtime.h>

typedef int aclError;
typedef uint16_t aclFloat16;

// ---- error codes
// --------------------------------------------------------------------------------- 1xxxxx: wrong
// use; 2xxxxx: resources; 3xxxxx: service; 5xxxxx: the device.
constexpr aclError ACL_SUCCESS = 0;
constexpr aclError ACL_ERROR_NONE = 0;
constexpr aclError ACL_ERROR_INVALID_PARAM = 100000;
constexpr aclError ACL_ERROR_UNINITIALIZE = 100001;
constexpr aclError ACL_ERROR_REPEAT_INITIALIZE = 100002;
constexpr aclError ACL_ERROR_INVALID_FILE = 100003;
constexpr aclError ACL_ERROR_WRITE_FILE = 100004;
constexpr aclError ACL_ERROR_INVALID_FILE_SIZE = 100005;
constexpr aclError ACL_ERROR_PARSE_FILE = 100006;
constexpr aclError ACL_ERROR_REPEAT_FINALIZE = 100037;
constexpr aclError ACL_ERROR_RT_PARAM_INVALID = 107000;
constexpr aclError ACL_ERROR_RT_INVALID_DEVICEID = 107001;
constexpr aclError ACL_ERROR_RT_CONTEXT_NULL = 107002;
constexpr aclError ACL_ERROR_RT_STREAM_CONTEXT = 107003;
constexpr aclError ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID = 107006;
constexpr aclError ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL = 107007;
constexpr aclError ACL_ERROR_RT_ADDR_UNALIGNED = 107008;
constexpr aclError ACL_ERROR_RT_INVALID_MEMORY_TYPE = 107016;
constexpr aclError ACL_ERROR_RT_INVALID_HANDLE = 107017;
constexpr aclError ACL_ERROR_RT_INVALID_MALLOC_TYPE = 107018;
constexpr aclError ACL_ERROR_RT_WAIT_TIMEOUT = 107019;
constexpr aclError ACL_ERROR_BAD_ALLOC = 200000;
constexpr aclError ACL_ERROR_API_NOT_SUPPORT = 200001;
constexpr aclError ACL_ERROR_INVALID_DEVICE = 200002;
constexpr aclError ACL_ERROR_MEMORY_ADDRESS_UNALIGNED = 200003;
constexpr aclError ACL_ERROR_RESOURCE_NOT_MATCH = 200004;
constexpr aclError ACL_ERROR_INVALID_RESOURCE_HANDLE = 200005;
constexpr aclError ACL_ERROR_FEATURE_UNSUPPORTED = 200006;
constexpr aclError ACL_ERROR_RT_FEATURE_NOT_SUPPORT = 207000;
constexpr aclError ACL_ERROR_RT_MEMORY_ALLOCATION = 207001;
constexpr aclError ACL_ERROR_RT_MEMORY_FREE = 207002;
constexpr aclError ACL_ERROR_RT_NO_DEVICE = 207004;
constexpr aclError ACL_ERROR_RT_RESOURCE_ALLOC_FAIL = 207005;
constexpr aclError ACL_ERROR_STORAGE_OVER_LIMIT = 300000;
constexpr aclError ACL_ERROR_INTERNAL_ERROR = 500000;
constexpr aclError ACL_ERROR_FAILURE = 500001;
constexpr aclError ACL_ERROR_RT_FAILURE = 500003;
constexpr aclError ACL_ERROR_RT_INTERNAL_ERROR = 507000;
constexpr aclError ACL_ERROR_RT_AICORE_TIMEOUT = 507014;
constexpr aclError ACL_ERROR_RT_AICORE_EXCEPTION = 507015;
constexpr aclError ACL_ERROR_RT_VECTOR_CORE_TIMEOUT = 507034;
constexpr aclError ACL_ERROR_RT_VECTOR_CORE_EXCEPTION = 507035;

// ---- data types and formats -------------------------------------------------------------------
typedef enum {
    ACL_DT_UNDEFINED = -1,
    ACL_FLOAT = 0,
    ACL_FLOAT16 = 1,
    ACL_INT8 = 2,
    ACL_INT32 = 3,
    ACL_UINT8 = 4,
    ACL_INT16 = 6,
    ACL_UINT16 = 7,
    ACL_UINT32 = 8,
    ACL_INT64 = 9,
    ACL_UINT64 = 10,
    ACL_DOUBLE = 11,
    ACL_BOOL = 12,
    ACL_STRING = 13,
    ACL_COMPLEX64 = 16,
    ACL_COMPLEX128 = 17,
    ACL_BF16 = 27,
    ACL_INT4 = 29,
    ACL_UINT1 = 30,
    ACL_COMPLEX32 = 33
} aclDataType;

typedef enum {
    ACL_FORMAT_UNDEFINED = -1,
    ACL_FORMAT_NCHW = 0,
    ACL_FORMAT_NHWC = 1,
    ACL_FORMAT_ND = 2,
    ACL_FORMAT_NC1HWC0 = 3,
    ACL_FORMAT_FRACTAL_NZ = 29
} aclFormat;

// Bytes of one element; 0 for a type whose elements have no size in bytes of their own.
size_t aclDataTypeSize(aclDataType dataType);

float aclFloat16ToFloat(aclFloat16 value);
aclFloat16 aclFloatToFloat16(float value);  // nearest even

// The text of this thread's last failed call, or null; asking takes it away.
const char *aclGetRecentErrMsg();
