/* Replays of captured graphs, what they wait for, and the kernels in Python that they call. */
#include "capture.h"

#include <stdlib.h>
#include <string.h>

/* Runs kernels first .. last - 1 of a model; an error code if one of them failed. */
static acl_error (*run_kernels)(uint32_t model, uint32_t first, uint32_t last);
static struct run *waiting;
static pthread_cond_t replay_ended = PTHREAD_COND_INITIALIZER;

EXPORT void host_on_replay(acl_error (*hook)(uint32_t, uint32_t, uint32_t))
{
    run_kernels = hook;
}

/* Lets Python report why a kernel failed. */
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

static void run_task(const struct task *task)
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
}

static struct run *new_run(struct model *model, struct stream *stream, struct run *outer)
{
    struct run *run = calloc(1, sizeof *run);
    if (!run) {
        host_fail(ACL_OUT_OF_MEMORY, "a replay could not be allocated");
        return NULL;
    }
    *run = (struct run){.model = model, .stream = stream, .outer = outer};
    for (struct condition *condition = model->conditions; condition; condition = condition->next)
        if (condition->assigned)
            condition->value = condition->at_launch;
    return run;
}

/* End a run and continue with the one around it. */
static struct run *leave(struct run *run)
{
    struct run *outer = run->outer;
    if (run->model->transient) {
        free_model(run->model);
    } else if (!outer) {
        pthread_mutex_lock(&capture_lock);
        run->model->running = false;
        pthread_cond_broadcast(&replay_ended);
        pthread_mutex_unlock(&capture_lock);
    }
    free(run);
    return outer;
}

static acl_error run_kernels_from(struct run *run)
{
    const struct model *model = run->model;
    uint32_t first = model->tasks[run->next].kernel, last = first;
    for (; run->next < model->task_count && model->tasks[run->next].kind == KERNEL; run->next++)
        last++;
    return run_kernels(model->id, first, last);
}

/* Let a run wait, unless the value is there. */
static bool waits(struct run *run, const struct task *task)
{
    pthread_mutex_lock(&capture_lock);
    bool has_to = !is_written(task);
    if (has_to) {
        run->stream->waiting = run;
        run->link = waiting;
        waiting = run;
        __atomic_add_fetch(host_recording, 1, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&capture_lock);
    return has_to;
}

/* Evaluate a condition: continue with its branch if it holds. */
static struct run *pass_condition(struct run *run, const struct task *task, acl_error *status)
{
    run->next++;
    if (!__atomic_load_n(&((struct condition *)task->target)->value, __ATOMIC_SEQ_CST))
        return run;
    struct run *inner = new_run(task->branch, run->stream, run);
    if (inner)
        return inner;
    *status = ACL_OUT_OF_MEMORY;
    return run;
}

/* Continue a replay until it is done, fails, or has to wait. */
static acl_error proceed(struct run *run)
{
    acl_error status = ACL_OK;
    while (run && status == ACL_OK) {
        if (run->next == run->model->task_count) {
            run = leave(run);
            continue;
        }
        const struct task *task = &run->model->tasks[run->next];
        if (task->kind == KERNEL) {
            status = run_kernels_from(run);
        } else if (task->kind == CONDITION) {
            run = pass_condition(run, task, &status);
        } else if (task->kind == VALUE_WAIT && waits(run, task)) {
            return ACL_OK;
        } else {
            run_task(task);
            run->next++;
        }
    }
    while (run)
        run = leave(run);
    return status;
}

static struct run *take_ready(void)
{
    for (struct run **link = &waiting; *link; link = &(*link)->link) {
        struct run *run = *link;
        if (is_written(&run->model->tasks[run->next])) {
            *link = run->link;
            run->stream->waiting = NULL;
            __atomic_sub_fetch(host_recording, 1, __ATOMIC_SEQ_CST);
            return run;
        }
    }
    return NULL;
}

/* Continue everything that waited for a value which is there now; its writer gets the error if one fails. */
static acl_error resume_waiting(void)
{
    acl_error failed = ACL_OK;
    for (;;) {
        pthread_mutex_lock(&capture_lock);
        struct run *run = take_ready();
        pthread_mutex_unlock(&capture_lock);
        if (!run)
            return failed;
        acl_error status = proceed(run);
        failed = failed == ACL_OK ? status : failed;
    }
}

static bool is_waiting(const struct model *model)
{
    for (const struct run *run = waiting; run; run = run->link)
        for (const struct run *outer = run; outer; outer = outer->outer)
            if (outer->model == model)
                return true;
    return false;
}

/* Replays of one graph follow each other: wait for that of another thread. With the lock held. */
static acl_error claim(struct model *model)
{
    while (model->running) {
        if (is_waiting(model) || pthread_equal(model->thread, pthread_self()))
            return host_fail(ACL_MODEL_RUNNING, "aclmdlRIExecuteAsync: an earlier replay of this graph has not ended");
        pthread_cond_wait(&replay_ended, &capture_lock);
    }
    model->running = true;
    model->thread = pthread_self();
    return ACL_OK;
}

EXPORT acl_error aclmdlRIExecuteAsync(void *handle, void *stream_handle)
{
    struct stream *stream = stream_of(stream_handle);
    if (stream->model)
        return may_wait(stream, "aclmdlRIExecuteAsync");
    acl_error status = may_launch(stream, "aclmdlRIExecuteAsync");
    if (status != ACL_OK)
        return status;
    pthread_mutex_lock(&capture_lock);
    struct model *model = model_of(handle);
    if (!model || model->parent || model->status != CAPTURE_NONE)
        status = host_fail(ACL_BAD_PARAMETER, "aclmdlRIExecuteAsync: the captured graph is not there");
    else
        status = claim(model);
    pthread_mutex_unlock(&capture_lock);
    if (status != ACL_OK)
        return status;
    struct run *run = new_run(model, stream, NULL);
    if (run)
        return proceed(run);
    pthread_mutex_lock(&capture_lock);
    model->running = false;
    pthread_mutex_unlock(&capture_lock);
    return ACL_OUT_OF_MEMORY;
}

/* Queue a task until the value is written that a stream waits for outside of a replay. */
static bool postponed(struct stream *stream, enum task_kind kind, const struct task *task)
{
    pthread_mutex_lock(&capture_lock);
    struct model *model = stream->waiting && stream->waiting->model->transient ? stream->waiting->model : NULL;
    bool kept = model && model->task_count < model->task_room;
    if (kept) {
        model->tasks[model->task_count] = *task;
        model->tasks[model->task_count++].kind = kind;
    }
    pthread_mutex_unlock(&capture_lock);
    return kept;
}

EXPORT acl_error aclrtValueWrite(void *target, uint64_t value, uint32_t flag, void *stream)
{
    (void)flag;
    acl_error status;
    struct task task = {.target = target, .value = value};
    if (captured(stream, VALUE_WRITE, &task, &status))
        return status;
    if (postponed(stream_of(stream), VALUE_WRITE, &task))
        return ACL_OK;
    status = may_launch(stream_of(stream), "aclrtValueWrite");
    if (status == ACL_OK) {
        run_task(&(struct task){.kind = VALUE_WRITE, .target = target, .value = value});
        status = resume_waiting();
    }
    return status;
}

/* What follows on a stream that waits: the value, and what torch_npu writes to make the event ready for the next one. */
static acl_error wait_on_stream(struct stream *stream, const struct task *task)
{
    enum { ROOM = 8 };
    struct model *model = calloc(1, sizeof *model);
    struct task *tasks = calloc(ROOM, sizeof *tasks);
    struct run *run = model && tasks ? new_run(model, stream, NULL) : NULL;
    if (!run) {
        free(model);
        free(tasks);
        return host_fail(ACL_OUT_OF_MEMORY, "a wait could not be allocated");
    }
    tasks[0] = *task;
    tasks[0].kind = VALUE_WAIT;
    *model = (struct model){.transient = true, .tasks = tasks, .task_count = 1, .task_room = ROOM};
    return proceed(run);
}

EXPORT acl_error aclrtValueWait(void *target, uint64_t value, uint32_t flag, void *stream)
{
    acl_error status;
    struct task task = {.target = target, .value = value, .flag = flag};
    if (captured(stream, VALUE_WAIT, &task, &status))
        return status;
    status = may_launch(stream_of(stream), "aclrtValueWait");
    return status == ACL_OK && !is_written(&task) ? wait_on_stream(stream_of(stream), &task) : status;
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
