/* What happens when torch_npu calls something that only a real CANN can do: it fails by name. */
#define _GNU_SOURCE
#include "host_npu.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char recent_error[512];

acl_error host_fail(acl_error code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(recent_error, sizeof recent_error, format, arguments);
    va_end(arguments);
    return code;
}

/* Reading the message clears it, as in CANN; an empty string means that there was none. */
EXPORT const char *aclGetRecentErrMsg(void)
{
    static _Thread_local char message[sizeof recent_error];
    memcpy(message, recent_error, sizeof message);
    recent_error[0] = '\0';
    return message;
}

acl_error host_refuse(const char *function)
{
    return host_fail(ACL_NOT_SUPPORTED, "%s needs an NPU and CANN: the graph_quant host does not implement it",
                     function);
}

/*
 * The C++ runtime is found at run time, so that the shim builds with a C compiler alone. It is always
 * there: whoever calls a C++ function was linked against it.
 */
_Noreturn void host_refuse_cxx(const char *function)
{
    char message[512];
    snprintf(message, sizeof message, "%s needs an NPU and CANN: the graph_quant host does not implement it",
             function);

    void *runtime = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_NOLOAD);
    if (runtime) {
        void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(runtime, "__cxa_allocate_exception");
        void (*throw_it)(void *, void *, void *) =
            (void (*)(void *, void *, void *))dlsym(runtime, "__cxa_throw");
        void (*construct)(void *, const char *) =
            (void (*)(void *, const char *))dlsym(runtime, "_ZNSt13runtime_errorC1EPKc");
        void *destroy = dlsym(runtime, "_ZNSt13runtime_errorD1Ev");
        void *type = dlsym(runtime, "_ZTISt13runtime_error");
        if (allocate && throw_it && construct && destroy && type) {
            void *exception = allocate(2 * sizeof(void *)); /* vtable and one shared string */
            construct(exception, message);
            throw_it(exception, type, destroy);
        }
    }
    fprintf(stderr, "graph_quant: %s\n", message);
    abort();
}
