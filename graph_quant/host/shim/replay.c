/* Replays of captured graphs, what they wait for, and the kernels in Python that they call. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* Runs kernels first .. last - 1 of a model; an error code if one of them failed. */
static acl_error (*run_kernels)(uint32_t model, uint32_t first, uint32_t last);
static struct run *waiting;

EXPORT void host_on_replay(acl_error (*hook)(uint32_t, uint32_t, uint32_t))
{
    run_kernels = hook;
}

/* Lets Python say why a kernel failed. */
EXPORT acl_error host_failed(const char *message)
{
    return host_fail(ACL_BAD_PARAMETER, "%s", message);
}

enum { WAIT_AT_LEAST = 0, WAIT_EQUAL = 1, WAIT_AND = 2, WAIT_NOR = 3 };

static bool is_written(const struct task *task)
{
    uint64_t value = __atomic_load_n((uint64_t *)task->target, __ATOMIC_SEQ_CST);
    switch (task->flag) {
    case WAIT_AT_LEAST:
        return (int64_t)(value - task->value) >= 0;
    case WAIT_EQUAL:
        return value == task->value;
    case WAIT_AND:
        return (value & task->value) != 0;
    default:
        return ~(value | task->value) != 0;
    }
}

static acl_error run_task(const struct task *task)
{
    switch (task->kind) {
    case COPY:
        memmove(task->target, task->source, task->size);
        break;
    case SET:
        memset(task->target, (int)task->value, task->size);
        break;
    case CALL:
        task->call(task->target);
        break;
    case VALUE_WRITE:
        __atomic_store_n((uint64_t *)task->target, task->value, __ATOMIC_SEQ_CST);
        break;
    default: /* events only order work, and the order of the tape is the order of the work */
        break;
    }
    return ACL_OK;
}

static void finish(struct run *run)
{
    pthread_mutex_lock(&capture_lock);
    run->model->running = false;
    pthread_mutex_unlock(&capture_lock);
    free(run);
}

/* Go on with a replay until it is done, fails, or has to wait. */
static acl_error proceed(struct run *run)
{
    const struct model *model = run->model;
    acl_error status = ACL_OK;
    while (status == ACL_OK && run->next < model->task_count) {
        const struct task *task = &model->tasks[run->next];
        if (task->kind == KERNEL) {
            size_t end = run->next + 1;
            while (end < model->task_count && model->tasks[end].kind == KERNEL)
                end++;
            status = run_kernels(model->id, task->kernel, task->kernel + (uint32_t)(end - run->next));
            run->next = end;
            continue;
        }
        if (task->kind == VALUE_WAIT) {
            pthread_mutex_lock(&capture_lock);
            if (!is_written(task)) {
                run->stream->waiting = run;
                run->link = waiting;
                waiting = run;
                __atomic_add_fetch(host_recording, 1, __ATOMIC_SEQ_CST);
                pthread_mutex_unlock(&capture_lock);
                return ACL_OK;
            }
            pthread_mutex_unlock(&capture_lock);
        } else {
            status = run_task(task);
        }
        run->next++;
    }
    finish(run);
    return status;
}

static struct run *take_ready(void)
{
    for (struct run **place = &waiting; *place; place = &(*place)->link) {
        struct run *run = *place;
        if (is_written(&run->model->tasks[run->next])) {
            *place = run->link;
            run->stream->waiting = NULL;
            __atomic_sub_fetch(host_recording, 1, __ATOMIC_SEQ_CST);
            return run;
        }
    }
    return NULL;
}

void resume_waiting(void)
{
    for (;;) {
        pthread_mutex_lock(&capture_lock);
        struct run *run = take_ready();
        pthread_mutex_unlock(&capture_lock);
        if (!run)
            return;
        proceed(run);
    }
}

EXPORT acl_error aclmdlRIExecuteAsync(void *handle, void *stream_handle)
{
    struct stream *stream = stream_of(stream_handle);
    if (stream->model)
        return may_wait(stream, "aclmdlRIExecuteAsync");
    acl_error status = may_launch(stream, "aclmdlRIExecuteAsync");
    if (status != ACL_OK)
        return status;
    struct run *run = calloc(1, sizeof *run);
    if (!run)
        return host_fail(ACL_OUT_OF_MEMORY, "a replay could not be allocated");
    pthread_mutex_lock(&capture_lock);
    struct model *model = model_of(handle);
    if (!model || model->status != CAPTURE_NONE)
        status = host_fail(ACL_BAD_PARAMETER, "aclmdlRIExecuteAsync: the captured graph is not there");
    else if (model->running)
        status = host_fail(ACL_MODEL_RUNNING, "aclmdlRIExecuteAsync: an earlier replay of this graph has not ended");
    else
        model->running = true;
    pthread_mutex_unlock(&capture_lock);
    if (status != ACL_OK) {
        free(run);
        return status;
    }
    run->model = model;
    run->stream = stream;
    return proceed(run);
}

EXPORT acl_error aclrtValueWrite(void *target, uint64_t value, uint32_t flag, void *stream)
{
    (void)flag;
    acl_error status;
    struct task task = {.target = target, .value = value};
    if (captured(stream, VALUE_WRITE, &task, &status))
        return status;
    status = may_launch(stream_of(stream), "aclrtValueWrite");
    if (status == ACL_OK) {
        __atomic_store_n((uint64_t *)target, value, __ATOMIC_SEQ_CST);
        resume_waiting();
    }
    return status;
}

EXPORT acl_error aclrtValueWait(void *target, uint64_t value, uint32_t flag, void *stream)
{
    acl_error status;
    struct task task = {.target = target, .value = value, .flag = flag};
    if (captured(stream, VALUE_WAIT, &task, &status))
        return status;
    status = may_launch(stream_of(stream), "aclrtValueWait");
    if (status == ACL_OK && !is_written(&task))
        return host_fail(ACL_STREAM_SYNC_TIMEOUT,
                         "aclrtValueWait: nobody has written the value, and outside of a replay the host runs everything "
                         "at once: this would wait for ever");
    return status;
}

EXPORT acl_error aclrtLaunchHostFunc(void *stream, void (*call)(void *), void *argument)
{
    acl_error status;
    struct task task = {.call = call, .target = argument};
    if (captured(stream, CALL, &task, &status))
        return status;
    status = may_launch(stream_of(stream), "aclrtLaunchHostFunc");
    if (status == ACL_OK)
        call(argument);
    return status;
}

EXPORT acl_error aclrtLaunchCallback(void (*call)(void *), void *argument, int blocks, void *stream)
{
    (void)blocks;
    return aclrtLaunchHostFunc(stream, call, argument);
}

/* Callbacks run in the thread that reaches them: there is no other one to subscribe. */
EXPORT acl_error aclrtSubscribeReport(uint64_t thread, void *stream)
{
    (void)thread;
    (void)stream;
    return ACL_OK;
}

EXPORT acl_error aclrtUnSubscribeReport(uint64_t thread, void *stream)
{
    return aclrtSubscribeReport(thread, stream);
}
