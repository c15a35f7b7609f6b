/* Conditional tasks: a value in memory decides at replay whether a branch is replayed. */
#include "capture.h"

#include <stdlib.h>

enum { COND_IF = 0 }; /* aclmdlRICondTaskType: the only one that torch_npu uses */

struct condition_task { /* aclmdlRICondTaskParams */
    void *handle;
    int type;
    uint32_t size;
    void **branches;
};

EXPORT acl_error aclmdlRICondHandleCreate(void *handle, uint32_t at_launch, int flag, void **result)
{
    struct condition *condition = calloc(1, sizeof *condition);
    if (!condition)
        return host_fail(ACL_OUT_OF_MEMORY, "a condition could not be allocated");
    *condition = (struct condition){.value = at_launch, .at_launch = at_launch, .assigned = flag == 1};
    pthread_mutex_lock(&capture_lock);
    struct model *model = model_of(handle);
    if (model) {
        condition->next = model->conditions;
        model->conditions = condition;
    }
    pthread_mutex_unlock(&capture_lock);
    if (!model) {
        free(condition);
        return host_fail(ACL_BAD_PARAMETER, "aclmdlRICondHandleCreate: the captured graph is not there");
    }
    *result = condition;
    return ACL_OK;
}

EXPORT acl_error aclmdlRICondHandleGetCondPtr(void *handle, uint64_t **pointer)
{
    *pointer = &((struct condition *)handle)->value;
    return ACL_OK;
}

static acl_error check_condition(const struct condition_task *params, const struct stream *stream)
{
    if (!stream->model)
        return host_fail(ACL_STREAM_NOT_CAPTURED, "aclmdlRIAddCondTask: the stream is not capturing");
    if (params->type != COND_IF || params->size != 1)
        return host_fail(ACL_NOT_SUPPORTED, "aclmdlRIAddCondTask: the host knows conditions of type IF with one branch, "
                         "got type %d with %u", params->type, params->size);
    return may_launch(stream, "aclmdlRIAddCondTask");
}

EXPORT acl_error aclmdlRIAddCondTask(struct condition_task params, void *handle, uint32_t flags)
{
    (void)flags;
    struct stream *stream = stream_of(handle);
    acl_error status = check_condition(&params, stream);
    if (status != ACL_OK)
        return status;
    pthread_mutex_lock(&capture_lock);
    struct model *branch = new_model(stream->model);
    struct task *task = branch ? append_task(stream, CONDITION) : NULL;
    if (task) {
        task->target = params.handle;
        task->branch = branch;
        *params.branches = branch;
    }
    pthread_mutex_unlock(&capture_lock);
    return task ? ACL_OK : ACL_OUT_OF_MEMORY;
}

/* torch_npu takes a stream from its pool for this, which may be the one that the outer graph is captured on. */
EXPORT acl_error aclmdlRICaptureToModelRIBegin(void *handle, void *branch, int mode)
{
    acl_error status;
    pthread_mutex_lock(&capture_lock);
    struct model *model = model_of(branch);
    if (!model || !model->parent || model->origin)
        status = host_fail(ACL_BAD_PARAMETER, "aclmdlRICaptureToModelRIBegin: the graph is no branch, or was captured "
                           "already");
    else
        status = may_begin(stream_of(handle), model->parent, mode, "aclmdlRICaptureToModelRIBegin");
    if (status == ACL_OK)
        begin_capture(stream_of(handle), model, mode);
    pthread_mutex_unlock(&capture_lock);
    return status;
}

/* For the kernels in Python: whether a captured stream belongs to a branch. */
EXPORT int host_in_branch(void *handle)
{
    const struct stream *stream = stream_of(handle);
    return stream->model && stream->model->parent;
}
