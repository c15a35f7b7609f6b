/*
 * Streams and events. Everything runs in the calling thread, in program order: whatever was put on a
 * stream is done by the time the call returns, so waiting is never needed and a query always says "done".
 * The exceptions are streams that are captured, and streams where a replay waits for a value.
 */
#include "capture.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { EVENT_NOT_READY = 0, EVENT_COMPLETE = 1, EVENT_WAIT_COMPLETE = 0, STREAM_COMPLETE = 0 };

static struct stream default_stream; /* the stream that has no handle */

struct stream *stream_of(void *handle)
{
    return handle ? handle : &default_stream;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

EXPORT acl_error aclrtCreateStream(void **handle)
{
    static atomic_int next_id = 1;
    acl_error status = may_take_stream("aclrtCreateStream");
    if (status != ACL_OK)
        return status;
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return host_fail(ACL_OUT_OF_MEMORY, "a stream could not be allocated");
    stream->id = atomic_fetch_add(&next_id, 1);
    __atomic_add_fetch(&host_created_streams, 1, __ATOMIC_SEQ_CST);
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
    struct stream *stream = handle;
    if (stream && stream->model)
        return host_fail(ACL_STREAM_CAPTURED, "aclrtDestroyStream: operation not permitted when stream is capturing");
    if (stream)
        __atomic_sub_fetch(&host_created_streams, 1, __ATOMIC_SEQ_CST);
    free(stream);
    return ACL_OK;
}

EXPORT acl_error aclrtDestroyStreamForce(void *handle)
{
    return aclrtDestroyStream(handle);
}

EXPORT acl_error aclrtStreamGetId(void *handle, int32_t *id)
{
    *id = stream_of(handle)->id;
    return ACL_OK;
}

EXPORT acl_error aclrtStreamQuery(void *handle, int *status)
{
    *status = STREAM_COMPLETE;
    return may_wait(stream_of(handle), "aclrtStreamQuery");
}

EXPORT acl_error aclrtSynchronizeStream(void *handle)
{
    return may_wait(stream_of(handle), "aclrtSynchronizeStream");
}

EXPORT acl_error aclrtSynchronizeStreamWithTimeout(void *handle, int32_t timeout)
{
    (void)timeout;
    return aclrtSynchronizeStream(handle);
}

EXPORT acl_error aclrtSynchronizeDevice(void)
{
    return may_block("aclrtSynchronizeDevice");
}

EXPORT acl_error aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    (void)timeout;
    return aclrtSynchronizeDevice();
}

/* Timeouts guard a device that may hang; calls here have returned by the time one could be measured. */
EXPORT acl_error aclrtSetOpExecuteTimeOut(uint32_t seconds)
{
    (void)seconds;
    return ACL_OK;
}

/* The device rounds the limit to what its timer can count; the host keeps it as it is given. */
EXPORT acl_error aclrtSetOpExecuteTimeOutV2(uint64_t microseconds, uint64_t *kept)
{
    *kept = microseconds;
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

EXPORT acl_error aclrtRecordEvent(void *handle, void *stream_handle)
{
    struct stream *stream = stream_of(stream_handle);
    struct event *event = handle;
    acl_error status;
    if (captured(stream_handle, EVENT_RECORD, &(struct task){.target = event}, &status)) {
        if (status == ACL_OK) {
            pthread_mutex_lock(&capture_lock);
            event->model_id = stream->model->id;
            event->progress = stream->progress;
            pthread_mutex_unlock(&capture_lock);
        }
        return status;
    }
    status = may_launch(stream, "aclrtRecordEvent");
    if (status == ACL_OK) {
        event->model_id = 0;
        event->recorded_ns = now_ns();
    }
    return status;
}

EXPORT acl_error aclrtResetEvent(void *handle, void *stream)
{
    (void)stream;
    ((struct event *)handle)->recorded_ns = 0;
    return ACL_OK;
}

/* An event of a capture has no time: it marks a position in a graph. */
static acl_error check_outside_of_capture(const struct event *event, const char *function)
{
    if (!event->model_id)
        return ACL_OK;
    pthread_mutex_lock(&capture_lock);
    struct model *model = live_model(event->model_id);
    if (model)
        invalidate(model, function);
    pthread_mutex_unlock(&capture_lock);
    return host_fail(ACL_EVENT_CAPTURED, "%s: operation not permitted on an event last recorded in a capturing stream",
                     function);
}

EXPORT acl_error aclrtQueryEventStatus(void *handle, int *status)
{
    *status = ((struct event *)handle)->recorded_ns ? EVENT_COMPLETE : EVENT_NOT_READY;
    return check_outside_of_capture(handle, "aclrtQueryEventStatus");
}

EXPORT acl_error aclrtQueryEventWaitStatus(void *handle, int *status)
{
    (void)handle;
    *status = EVENT_WAIT_COMPLETE;
    return ACL_OK;
}

EXPORT acl_error aclrtSynchronizeEvent(void *handle)
{
    return check_outside_of_capture(handle, "aclrtSynchronizeEvent");
}

static void add_up(struct progress *into, const struct progress *from)
{
    for (int slot = 0; slot < MAX_STREAMS; slot++)
        if (into->of[slot] < from->of[slot])
            into->of[slot] = from->of[slot];
}

/* A stream that waits for an event of a capture becomes part of that capture. With the lock held. */
static acl_error join_capture(struct stream *stream, const struct event *event)
{
    struct model *model = live_model(event->model_id);
    if (!model || model->status != CAPTURE_ACTIVE)
        return host_fail(ACL_EVENT_CAPTURED, "aclrtStreamWaitEvent: the event was recorded in a capture that has ended");
    if (stream->model == model)
        return ACL_OK;
    if (stream->model) {
        invalidate(model, "aclrtStreamWaitEvent");
        invalidate(stream->model, "aclrtStreamWaitEvent");
        return host_fail(ACL_CAPTURE_CONFLICT, "aclrtStreamWaitEvent: two captures cannot wait for each other");
    }
    if (model->stream_count == MAX_STREAMS)
        return host_fail(ACL_BAD_PARAMETER, "aclrtStreamWaitEvent: a capture has at most %d streams", MAX_STREAMS);
    acl_error status = may_take_stream("aclrtStreamWaitEvent");
    if (status != ACL_OK)
        return status;
    __atomic_add_fetch(&host_captured_streams[0], 1, __ATOMIC_SEQ_CST);
    stream->slot = model->stream_count;
    model->streams[model->stream_count++] = stream;
    stream->model = model;
    stream->progress = (struct progress){{0}};
    __atomic_add_fetch(host_recording, 1, __ATOMIC_SEQ_CST);
    return ACL_OK;
}

EXPORT acl_error aclrtStreamWaitEvent(void *stream_handle, void *handle)
{
    struct stream *stream = stream_of(stream_handle);
    const struct event *event = handle;
    acl_error status = may_launch(stream, "aclrtStreamWaitEvent");
    if (status != ACL_OK || (!event->model_id && !stream->model))
        return status;
    pthread_mutex_lock(&capture_lock);
    if (event->model_id) {
        status = join_capture(stream, event);
    } else {
        invalidate(stream->model, "aclrtStreamWaitEvent");
        status = host_fail(ACL_CAPTURE_DEPENDENCY,
                           "aclrtStreamWaitEvent: a captured stream cannot wait for an event recorded outside its capture");
    }
    if (status == ACL_OK) {
        add_up(&stream->progress, &event->progress);
        struct task *task = append_task(stream, EVENT_WAIT);
        if (task)
            task->target = handle;
        else
            status = ACL_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&capture_lock);
    return status;
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
