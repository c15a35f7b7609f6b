/* The profiling interface that torch.profiler asks for a device's activity: here that is the CPU's, recorded already. */
#include "host_npu.h"

#include <stdbool.h>

enum { MSPTI_SUCCESS = 0, MSPTI_NOTHING_LEFT = 1 };

EXPORT int msptiSubscribe(void **subscriber, void *callback, void *data)
{
    (void)callback;
    (void)data;
    static char only;
    *subscriber = &only;
    return MSPTI_SUCCESS;
}

EXPORT int msptiUnsubscribe(void *subscriber)
{
    (void)subscriber;
    return MSPTI_SUCCESS;
}

EXPORT int msptiActivityRegisterCallbacks(void *requested, void *completed)
{
    (void)requested;
    (void)completed;
    return MSPTI_SUCCESS;
}

EXPORT int msptiActivityEnable(int kind)
{
    (void)kind;
    return MSPTI_SUCCESS;
}

EXPORT int msptiActivityDisable(int kind)
{
    (void)kind;
    return MSPTI_SUCCESS;
}

EXPORT bool msptiActivityIsEnabled(int kind)
{
    (void)kind;
    return false;
}

EXPORT int msptiActivityFlushAll(uint32_t flag)
{
    (void)flag;
    return MSPTI_SUCCESS;
}

EXPORT int msptiActivityGetNextRecord(uint8_t *buffer, size_t size, void **record)
{
    (void)buffer;
    (void)size;
    (void)record;
    return MSPTI_NOTHING_LEFT;
}

enum { ROOM = 256 };
static _Thread_local uint64_t pushed[ROOM];
static _Thread_local size_t depth;

EXPORT int msptiActivityPushExternalCorrelationId(int kind, uint64_t id)
{
    (void)kind;
    if (depth < ROOM)
        pushed[depth] = id;
    depth++;
    return MSPTI_SUCCESS;
}

EXPORT int msptiActivityPopExternalCorrelationId(int kind, uint64_t *last)
{
    (void)kind;
    if (depth == 0)
        return MSPTI_NOTHING_LEFT;
    depth--;
    if (last)
        *last = depth < ROOM ? pushed[depth] : 0;
    return MSPTI_SUCCESS;
}
