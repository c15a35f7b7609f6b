/*
 * Streams and events. Everything runs in the calling thread, in program order: whatever was put on a
 * stream is done by the time the call returns, so waiting is never needed and a query always says "done".
 */
#include "host_npu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct stream {
    int32_t id;
};

struct event {
    int64_t recorded_ns; /* 0 until recorded */
};

enum { EVENT_NOT_READY = 0, EVENT_COMPLETE = 1, EVENT_WAIT_COMPLETE = 0, STREAM_COMPLETE = 0 };

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

EXPORT acl_error aclrtCreateStream(void **handle)
{
    static atomic_int next_id = 1;
    struct stream *stream = malloc(sizeof *stream);
    if (!stream)
        return host_fail(ACL_OUT_OF_MEMORY, "a stream could not be allocated");
    stream->id = atomic_fetch_add(&next_id, 1);
    *handle = stream;
    return ACL_OK;
}

EXPORT acl_error aclrtCreateStreamWithConfig(void **handle, uint32_t priority, uint32_t flag)
{
    (void)priority;
    (void)flag;
    return aclrtCreateStream(handle);
}

EXPORT acl_error aclrtDestroyStream(void *handle)
{
    free(handle);
    return ACL_OK;
}

EXPORT acl_error aclrtDestroyStreamForce(void *handle)
{
    return aclrtDestroyStream(handle);
}

EXPORT acl_error aclrtStreamGetId(void *handle, int32_t *id)
{
    *id = handle ? ((struct stream *)handle)->id : 0; /* the default stream has no handle */
    return ACL_OK;
}

EXPORT acl_error aclrtStreamQuery(void *handle, int *status)
{
    (void)handle;
    *status = STREAM_COMPLETE;
    return ACL_OK;
}

EXPORT acl_error aclrtSynchronizeStream(void *handle)
{
    (void)handle;
    return ACL_OK;
}

EXPORT acl_error aclrtSynchronizeStreamWithTimeout(void *handle, int32_t timeout)
{
    (void)handle;
    (void)timeout;
    return ACL_OK;
}

EXPORT acl_error aclrtSynchronizeDevice(void)
{
    return ACL_OK;
}

EXPORT acl_error aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    (void)timeout;
    return ACL_OK;
}

/* Timeouts guard a device that may hang; calls here have returned by the time one could be measured. */
EXPORT acl_error aclrtSetOpExecuteTimeOut(uint32_t seconds)
{
    (void)seconds;
    return ACL_OK;
}

EXPORT acl_error aclrtSetOpWaitTimeout(uint32_t seconds)
{
    (void)seconds;
    return ACL_OK;
}

EXPORT acl_error aclrtCreateEventExWithFlag(void **handle, uint32_t flag)
{
    (void)flag;
    *handle = calloc(1, sizeof(struct event));
    return *handle ? ACL_OK : host_fail(ACL_OUT_OF_MEMORY, "an event could not be allocated");
}

EXPORT acl_error aclrtCreateEventWithFlag(void **handle, uint32_t flag)
{
    return aclrtCreateEventExWithFlag(handle, flag);
}

EXPORT acl_error aclrtDestroyEvent(void *handle)
{
    free(handle);
    return ACL_OK;
}

EXPORT acl_error aclrtRecordEvent(void *handle, void *stream)
{
    (void)stream;
    ((struct event *)handle)->recorded_ns = now_ns();
    return ACL_OK;
}

EXPORT acl_error aclrtResetEvent(void *handle, void *stream)
{
    (void)stream;
    ((struct event *)handle)->recorded_ns = 0;
    return ACL_OK;
}

EXPORT acl_error aclrtQueryEventStatus(void *handle, int *status)
{
    *status = ((struct event *)handle)->recorded_ns ? EVENT_COMPLETE : EVENT_NOT_READY;
    return ACL_OK;
}

EXPORT acl_error aclrtQueryEventWaitStatus(void *handle, int *status)
{
    (void)handle;
    *status = EVENT_WAIT_COMPLETE;
    return ACL_OK;
}

EXPORT acl_error aclrtSynchronizeEvent(void *handle)
{
    (void)handle;
    return ACL_OK;
}

EXPORT acl_error aclrtStreamWaitEvent(void *stream, void *handle)
{
    (void)stream;
    (void)handle;
    return ACL_OK;
}

EXPORT acl_error aclrtEventElapsedTime(float *milliseconds, void *start, void *end)
{
    const struct event *from = start, *to = end;
    if (!from->recorded_ns || !to->recorded_ns)
        return host_fail(ACL_BAD_PARAMETER, "aclrtEventElapsedTime: both events must have been recorded");
    *milliseconds = (float)((double)(to->recorded_ns - from->recorded_ns) / 1e6);
    return ACL_OK;
}

EXPORT acl_error aclrtEventGetTimestamp(void *handle, uint64_t *microseconds)
{
    *microseconds = (uint64_t)((struct event *)handle)->recorded_ns / 1000;
    return ACL_OK;
}
