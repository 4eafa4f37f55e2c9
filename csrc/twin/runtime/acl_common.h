// What the two halves of the acl host API share.
#pragma once

#include "acl/acl.h"
#include "host.h"

namespace twin {

// Keeps the text for aclGetRecentErrMsg and returns `code`.
aclError failed(aclError code, const char *function, Where where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// Whether the stream is one (null: the default one), the thread has a context if it needs one, and
// no kernel has faulted since the device was last reset.
aclError need_live(const char *function, bool with_context, aclrtStream stream, Where where);

// Whether this thread has a context.
aclError need_context(const char *function, Where where);

}  // namespace twin

// For functions with `where` as a parameter.
#define NEED(condition, code, ...)                                   \
    do {                                                             \
        if (!(condition)) {                                          \
            return twin::failed(code, __func__, where, __VA_ARGS__); \
        }                                                            \
    } while (false)
