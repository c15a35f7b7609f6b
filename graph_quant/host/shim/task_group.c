/* Kernels recorded by Python, and groups of them that are replaced between two replays. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* What a kernel on a stream does: it runs, or is recorded in a capture or in an update. */
enum { RUNS, CAPTURED, UPDATES, REFUSED };

struct kernel_id {
    uint32_t model;  /* id of the model */
    uint32_t kernel; /* index among its kernels */
};

EXPORT int host_stream_state(void *handle)
{
    const struct stream *stream = stream_of(handle);
    if (may_launch(stream, "kernel") != ACL_OK)
        return REFUSED;
    if (stream->model)
        return CAPTURED;
    return stream->update ? UPDATES : RUNS;
}

/* An operator that needs values of an executed stream invalidates the capture. */
EXPORT void host_invalidate(void *handle, const char *operator_name)
{
    pthread_mutex_lock(&capture_lock);
    struct stream *stream = stream_of(handle);
    if (stream->model)
        invalidate(stream->model, operator_name);
    pthread_mutex_unlock(&capture_lock);
}

EXPORT acl_error host_capture_kernel(void *handle, const char *name, const char *detail, struct kernel_id *id)
{
    struct stream *stream = stream_of(handle);
    acl_error status = ACL_OK;
    pthread_mutex_lock(&capture_lock);
    struct task *task = stream->model ? append_task(stream, KERNEL) : NULL;
    if (task) {
        task->name = strdup(name);
        task->detail = strdup(detail);
        task->kernel = stream->model->kernel_count++;
        *id = (struct kernel_id){stream->model->id, task->kernel};
        if (stream->open)
            stream->open->count++;
    } else {
        status = host_fail(ACL_STREAM_NOT_CAPTURED, "%s: the stream is not capturing any more", name);
    }
    pthread_mutex_unlock(&capture_lock);
    return status;
}

static struct task *kernel_task(struct model *model, uint32_t kernel)
{
    for (size_t i = 0; i < model->task_count; i++)
        if (model->tasks[i].kind == KERNEL && model->tasks[i].kernel == kernel)
            return &model->tasks[i];
    return NULL;
}

EXPORT acl_error host_update_kernel(void *handle, const char *name, const char *detail, struct kernel_id *id)
{
    struct stream *stream = stream_of(handle);
    acl_error status = ACL_OK;
    pthread_mutex_lock(&capture_lock);
    struct task_group *group = stream->update;
    struct model *model = group ? model_with(group) : NULL;
    struct task *task = model && stream->updated < group->count ? kernel_task(model, group->first + stream->updated) : NULL;
    if (!task) {
        status = host_fail(ACL_TASK_GROUP_STATUS, "%s: the task group has %u operators, and no more can be updated", name,
                           group ? group->count : 0);
    } else if (strcmp(task->name, name) != 0) {
        status = host_fail(ACL_TASK_GROUP_STATUS, "%s: the operator captured here is %s, and only its arguments can be "
                           "updated", name, task->name);
    } else {
        free(task->detail);
        task->detail = strdup(detail);
        *id = (struct kernel_id){model->id, task->kernel};
        stream->updated++;
    }
    pthread_mutex_unlock(&capture_lock);
    return status;
}

EXPORT acl_error aclmdlRICaptureTaskGrpBegin(void *handle)
{
    struct stream *stream = stream_of(handle);
    acl_error status = may_launch(stream, "aclmdlRICaptureTaskGrpBegin");
    if (status != ACL_OK)
        return status;
    if (!stream->model)
        return host_fail(ACL_STREAM_NOT_CAPTURED, "aclmdlRICaptureTaskGrpBegin: the stream is not capturing");
    if (stream->open)
        return host_fail(ACL_TASK_GROUP_STATUS, "aclmdlRICaptureTaskGrpBegin: a task group is open already");
    struct task_group *group = calloc(1, sizeof *group);
    if (!group)
        return host_fail(ACL_OUT_OF_MEMORY, "a task group could not be allocated");
    pthread_mutex_lock(&capture_lock);
    group->first = stream->model->kernel_count;
    group->next = stream->model->groups;
    stream->model->groups = group;
    stream->open = group;
    pthread_mutex_unlock(&capture_lock);
    return ACL_OK;
}

EXPORT acl_error aclmdlRICaptureTaskGrpEnd(void *handle, void **group)
{
    struct stream *stream = stream_of(handle);
    if (!stream->open)
        return host_fail(ACL_TASK_GROUP_STATUS, "aclmdlRICaptureTaskGrpEnd: no task group was begun on this stream");
    *group = stream->open;
    stream->open = NULL;
    return ACL_OK;
}

EXPORT acl_error aclmdlRICaptureTaskUpdateBegin(void *handle, void *group)
{
    struct stream *stream = stream_of(handle);
    acl_error status = may_launch(stream, "aclmdlRICaptureTaskUpdateBegin");
    if (status != ACL_OK)
        return status;
    if (stream->model)
        return host_fail(ACL_STREAM_CAPTURED, "aclmdlRICaptureTaskUpdateBegin: operation not permitted when stream is "
                         "capturing");
    pthread_mutex_lock(&capture_lock);
    struct model *model = model_with(group);
    if (!model) {
        status = host_fail(ACL_TASK_GROUP_STATUS, "aclmdlRICaptureTaskUpdateBegin: the graph of this task group is gone");
    } else {
        stream->update = group;
        stream->updated = 0;
        __atomic_add_fetch(host_recording, 1, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&capture_lock);
    return status;
}

EXPORT acl_error aclmdlRICaptureTaskUpdateEnd(void *handle)
{
    struct stream *stream = stream_of(handle);
    acl_error status = ACL_OK;
    pthread_mutex_lock(&capture_lock);
    struct task_group *group = stream->update;
    if (!group)
        status = host_fail(ACL_TASK_GROUP_STATUS, "aclmdlRICaptureTaskUpdateEnd: no update was begun on this stream");
    else {
        __atomic_sub_fetch(host_recording, 1, __ATOMIC_SEQ_CST);
        stream->update = NULL;
        if (model_with(group) && stream->updated != group->count)
            status = host_fail(ACL_TASK_GROUP_STATUS, "aclmdlRICaptureTaskUpdateEnd: the task group has %u operators, but "
                               "%u were updated", group->count, stream->updated);
    }
    pthread_mutex_unlock(&capture_lock);
    return status;
}
