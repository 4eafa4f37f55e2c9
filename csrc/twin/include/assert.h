// The C library's header, and after it the twin's own `assert`, which ends a block and not the
// process. Without a guard, as the C library's: the last inclusion counts.
#include_next <assert.h>
#ifdef ascendc_assert
#undef assert
#define assert(condition, ...) ascendc_assert(condition, ##__VA_ARGS__)
#endif
