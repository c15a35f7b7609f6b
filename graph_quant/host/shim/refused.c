/*
 * Names that torch_npu's libraries link against or look up, and that only a real CANN can implement. Each fails
 * by name when called. The lists are kept complete by `graph-quant symbols`, which reads the wheel.
 */
#include "host_npu.h"

#define REFUSE(name)                                                                                                   \
    EXPORT acl_error name(void)                                                                                        \
    {                                                                                                                  \
        return host_refuse(#name);                                                                                     \
    }
#include "refused_error.def"
#undef REFUSE

/* Functions that return a pointer or a count: NULL and 0 are what their callers test for. */
#define REFUSE(name)                                                                                                   \
    EXPORT void *name(void)                                                                                            \
    {                                                                                                                  \
        host_refuse(#name);                                                                                            \
        return NULL;                                                                                                   \
    }
#include "refused_null.def"
#undef REFUSE

#define REFUSE(symbol, name)                                                                                           \
    EXPORT void symbol(void)                                                                                           \
    {                                                                                                                  \
        host_refuse_cxx(name);                                                                                         \
    }
#include "refused_cxx.def"
#undef REFUSE

/* For `graph-quant symbols`: which of the names that are there only refuse. */
#define REFUSE(name) #name,
EXPORT const char *const host_refused_names[] = {
#include "refused_error.def"
#include "refused_null.def"
    NULL,
};
#undef REFUSE
