/*
 * Captures: between begin and end, work on a stream (and on those that wait for its events) is recorded
 * instead of executed. Kernels live in Python; a model keeps their order, their names and their tensors.
 */
#include "capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
EXPORT uint32_t host_recording[1];

static struct model *models;
static _Thread_local int thread_mode = MODE_GLOBAL;

struct model *model_of(const void *handle)
{
    for (struct model *model = models; model; model = model->next)
        if (model == handle)
            return model;
    return NULL;
}

struct model *model_with(const struct task_group *group)
{
    for (struct model *model = models; model; model = model->next)
        for (const struct task_group *own = model->groups; own; own = own->next)
            if (own == group)
                return model;
    return NULL;
}

struct model *live_model(uint32_t id)
{
    for (struct model *model = models; model; model = model->next)
        if (model->id == id && model->status != CAPTURE_NONE)
            return model;
    return NULL;
}

/* An invalidated branch invalidates the graphs around it. */
void invalidate(struct model *model, const char *why)
{
    for (; model; model = model->parent) {
        if (model->status == CAPTURE_ACTIVE) {
            model->status = CAPTURE_INVALIDATED;
            snprintf(model->invalidated_by, sizeof model->invalidated_by, "%s", why);
        }
    }
}

struct task *append_task(struct stream *stream, enum task_kind kind)
{
    struct model *model = stream->model;
    if (model->task_count == model->task_room) {
        size_t room = model->task_room ? 2 * model->task_room : 64;
        struct task *tasks = realloc(model->tasks, room * sizeof *tasks);
        if (!tasks) {
            host_fail(ACL_OUT_OF_MEMORY, "a captured task could not be allocated");
            return NULL;
        }
        model->tasks = tasks;
        model->task_room = room;
    }
    struct task *task = &model->tasks[model->task_count++];
    *task = (struct task){.kind = kind, .stream_id = stream->id};
    stream->progress.of[stream->slot] = ++model->count[stream->slot];
    return task;
}

static acl_error lost_capture(const struct model *model)
{
    return host_fail(ACL_CAPTURE_INVALIDATED,
                     "operation failed due to a previous error during capture: %s is not permitted when stream is "
                     "capturing",
                     model->invalidated_by);
}

acl_error may_launch(const struct stream *stream, const char *function)
{
    if (stream->model && stream->model->status == CAPTURE_INVALIDATED)
        return lost_capture(stream->model);
    if (stream->waiting)
        return host_fail(ACL_STREAM_SYNC_TIMEOUT,
                         "%s: stream %d waits for an event that has not been recorded; record it (or update the graph that "
                         "was replayed) before using the stream",
                         function, stream->id);
    if (stream->update && strcmp(function, "kernel") != 0)
        return host_fail(ACL_TASK_GROUP_STATUS, "%s: only operators can be updated in a captured graph", function);
    return ACL_OK;
}

bool captured(void *handle, enum task_kind kind, const struct task *task, acl_error *status)
{
    struct stream *stream = stream_of(handle);
    if (!stream->model)
        return false;
    pthread_mutex_lock(&capture_lock);
    *status = may_launch(stream, "task");
    if (*status == ACL_OK) {
        struct task *kept = append_task(stream, kind);
        if (kept) {
            *kept = *task;
            kept->kind = kind;
            kept->stream_id = stream->id;
        } else {
            *status = ACL_OUT_OF_MEMORY;
        }
    }
    pthread_mutex_unlock(&capture_lock);
    return true;
}

acl_error may_wait(struct stream *stream, const char *function)
{
    if (!stream->model)
        return may_launch(stream, function);
    pthread_mutex_lock(&capture_lock);
    invalidate(stream->model, function);
    pthread_mutex_unlock(&capture_lock);
    return host_fail(ACL_STREAM_CAPTURED, "%s: operation not permitted when stream is capturing", function);
}

/* The first capture that forbids unsafe calls in this thread; those of other threads do in global mode only. */
static struct model *forbidding_capture(void)
{
    if (thread_mode == MODE_RELAXED)
        return NULL;
    for (struct model *model = models; model; model = model->next) {
        if (model->status == CAPTURE_NONE || model->mode == MODE_RELAXED)
            continue;
        if (pthread_equal(model->thread, pthread_self()))
            return model;
        if (model->mode == MODE_GLOBAL && thread_mode == MODE_GLOBAL)
            return model;
    }
    return NULL;
}

acl_error may_block(const char *function)
{
    acl_error status = ACL_OK;
    if (!__atomic_load_n(host_recording, __ATOMIC_SEQ_CST))
        return status;
    pthread_mutex_lock(&capture_lock);
    struct model *model = forbidding_capture();
    if (model) {
        if (pthread_equal(model->thread, pthread_self()))
            invalidate(model, function);
        status = host_fail(ACL_CAPTURE_MODE_NOT_SUPPORTED, "%s: operation not permitted when stream is capturing",
                           function);
    }
    pthread_mutex_unlock(&capture_lock);
    return status;
}

/* For the kernels in Python: may_block, under the name of the operator. */
EXPORT acl_error host_may_block(const char *operator_name)
{
    return may_block(operator_name);
}

EXPORT acl_error aclmdlRICaptureThreadExchangeMode(int *mode)
{
    if (*mode < MODE_GLOBAL || *mode > MODE_RELAXED)
        return host_fail(ACL_BAD_PARAMETER, "aclmdlRICaptureThreadExchangeMode: mode %d is not known", *mode);
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return ACL_OK;
}

/* With the lock held; so does begin_capture. */
struct model *new_model(struct model *parent)
{
    static uint32_t next_id = 1;
    struct model *model = calloc(1, sizeof *model);
    if (!model) {
        host_fail(ACL_OUT_OF_MEMORY, "a captured graph could not be allocated");
        return NULL;
    }
    model->id = next_id++;
    model->parent = parent;
    model->next = models;
    models = model;
    return model;
}

/* A device has 2,048 stream ids. torch_npu's two pools have 32 streams each, which leaves 1,984 for captured graphs and
   for streams that a program creates; a graph keeps those it was captured with until it is destroyed. */
EXPORT uint32_t host_captured_streams[2] = {0, 1984};
EXPORT uint32_t host_created_streams;
enum { OWN_STREAMS = 64 + 2 }; /* of torch_npu on a device: the pools, and those of its start */

acl_error may_take_stream(const char *function)
{
    uint32_t held = __atomic_load_n(&host_captured_streams[0], __ATOMIC_SEQ_CST);
    uint32_t created = __atomic_load_n(&host_created_streams, __ATOMIC_SEQ_CST), devices = 1;
    aclrtGetDeviceCount(&devices);
    uint32_t others = created > OWN_STREAMS * devices ? created - OWN_STREAMS * devices : 0;
    if (held + others < host_captured_streams[1])
        return ACL_OK;
    return host_fail(ACL_NO_STREAM_RESOURCE,
                     "%s: stream resources are insufficient (207008): captured graphs hold %u streams and the program "
                     "%u beside torch_npu's, a device has %u for them; capture fewer sizes or pieces, or destroy graphs",
                     function, held, others, host_captured_streams[1]);
}

void begin_capture(struct stream *stream, struct model *model, int mode)
{
    model->status = CAPTURE_ACTIVE;
    model->mode = mode;
    model->thread = pthread_self();
    model->origin = model->streams[0] = stream;
    model->stream_count = 1;
    __atomic_add_fetch(&host_captured_streams[0], 1, __ATOMIC_SEQ_CST);
    model->outer = *stream;
    stream->model = model;
    stream->slot = 0;
    stream->open = NULL;
    stream->progress = (struct progress){{0}};
    __atomic_add_fetch(host_recording, 1, __ATOMIC_SEQ_CST);
}

static bool is_within(const struct model *model, const struct model *outer)
{
    while (model && model != outer)
        model = model->parent;
    return model;
}

acl_error may_begin(const struct stream *stream, const struct model *parent, int mode, const char *function)
{
    if (mode < MODE_GLOBAL || mode > MODE_RELAXED)
        return host_fail(ACL_BAD_PARAMETER, "%s: mode %d is not known", function, mode);
    if (stream->model && !is_within(parent, stream->model))
        return host_fail(ACL_STREAM_CAPTURED, "%s: the stream is capturing already", function);
    acl_error status = may_take_stream(function);
    return status == ACL_OK ? may_launch(stream, function) : status;
}

EXPORT acl_error aclmdlRICaptureBegin(void *handle, int mode)
{
    struct stream *stream = stream_of(handle);
    acl_error status = may_begin(stream, NULL, mode, "aclmdlRICaptureBegin");
    if (status != ACL_OK)
        return status;
    pthread_mutex_lock(&capture_lock);
    struct model *model = new_model(NULL);
    if (model)
        begin_capture(stream, model, mode);
    pthread_mutex_unlock(&capture_lock);
    return model ? ACL_OK : ACL_OUT_OF_MEMORY;
}

EXPORT acl_error aclmdlRICaptureGetInfo(void *handle, int *status, void **model)
{
    const struct stream *stream = stream_of(handle);
    pthread_mutex_lock(&capture_lock);
    *status = stream->model ? stream->model->status : CAPTURE_NONE;
    *model = stream->model;
    pthread_mutex_unlock(&capture_lock);
    return ACL_OK;
}

EXPORT acl_error aclmdlRIGetId(const void *handle, uint32_t *id)
{
    *id = ((const struct model *)handle)->id;
    return ACL_OK;
}

/* The first stream whose last task the origin does not wait for, or NULL. */
static const struct stream *unjoined_stream(const struct model *model)
{
    for (uint32_t slot = 1; slot < model->stream_count; slot++)
        if (model->origin->progress.of[slot] < model->count[slot])
            return model->streams[slot];
    return NULL;
}

static void leave_capture(struct model *model)
{
    if (model->status == CAPTURE_NONE)
        return;
    for (uint32_t slot = 0; slot < model->stream_count; slot++) {
        model->streams[slot]->model = NULL;
        model->streams[slot]->open = NULL;
    }
    model->origin->model = model->outer.model;
    model->origin->slot = model->outer.slot;
    model->origin->open = model->outer.open;
    model->origin->progress = model->outer.progress;
    __atomic_sub_fetch(host_recording, model->stream_count, __ATOMIC_SEQ_CST);
    model->status = CAPTURE_NONE;
}

/* Remove a graph and its branches from the models, and return them as a list. With the lock held. */
static struct model *detach(struct model *outer)
{
    struct model *detached = NULL;
    for (struct model **link = &models; *link;) {
        struct model *model = *link;
        if (is_within(model, outer)) {
            leave_capture(model);
            *link = model->next;
            model->next = detached;
            detached = model;
        } else {
            link = &model->next;
        }
    }
    return detached;
}

void free_model(struct model *model)
{
    __atomic_sub_fetch(&host_captured_streams[0], model->stream_count, __ATOMIC_SEQ_CST);
    for (size_t i = 0; i < model->task_count; i++) {
        free(model->tasks[i].name);
        free(model->tasks[i].detail);
    }
    for (struct task_group *group = model->groups; group;) {
        struct task_group *next = group->next;
        free(group);
        group = next;
    }
    for (struct condition *condition = model->conditions; condition;) {
        struct condition *next = condition->next;
        free(condition);
        condition = next;
    }
    free(model->tasks);
    free(model);
}

static void (*forget)(uint32_t model);

EXPORT void host_on_forget(void (*hook)(uint32_t))
{
    forget = hook;
}

/* Without the lock: Python drops the kernels, and may have to wait for the interpreter lock. */
static void drop(struct model *detached)
{
    while (detached) {
        struct model *next = detached->next;
        if (forget)
            forget(detached->id);
        free_model(detached);
        detached = next;
    }
}

static acl_error check_end(const struct stream *stream, const struct model *model)
{
    if (!model)
        return host_fail(ACL_STREAM_NOT_CAPTURED, "aclmdlRICaptureEnd: the stream is not capturing");
    if (model->origin != stream)
        return host_fail(ACL_CAPTURE_UNMATCHED, "aclmdlRICaptureEnd: the capture did not begin on this stream");
    if (model->mode != MODE_RELAXED && !pthread_equal(model->thread, pthread_self()))
        return host_fail(ACL_CAPTURE_WRONG_THREAD, "aclmdlRICaptureEnd: the capture was begun by another thread");
    return ACL_OK;
}

static acl_error check_whole(const struct stream *stream, const struct model *model)
{
    const struct stream *unjoined = unjoined_stream(model);
    if (model->status == CAPTURE_INVALIDATED)
        return lost_capture(model);
    if (stream->open)
        return host_fail(ACL_TASK_GROUP_STATUS, "aclmdlRICaptureEnd: a task group was begun and not ended");
    if (unjoined)
        return host_fail(ACL_STREAM_UNJOINED,
                         "aclmdlRICaptureEnd: stream %d was not joined to the stream that began the capture (record an "
                         "event on it and wait for that)",
                         unjoined->id);
    for (const struct model *branch = models; branch; branch = branch->next)
        if (branch->parent == model && branch->status != CAPTURE_NONE)
            return host_fail(ACL_CAPTURE_UNMATCHED, "aclmdlRICaptureEnd: a branch of the graph is still being captured");
    return ACL_OK;
}

EXPORT acl_error aclmdlRICaptureEnd(void *handle, void **result)
{
    struct stream *stream = stream_of(handle);
    struct model *lost = NULL;
    pthread_mutex_lock(&capture_lock);
    struct model *model = stream->model;
    acl_error status = check_end(stream, model);
    if (status == ACL_OK) {
        *result = model;
        status = check_whole(stream, model);
        leave_capture(model);
        if (status != ACL_OK && model->parent) {
            /* torch_npu closes a branch only if this succeeds; the end of the whole graph is what fails then. */
            invalidate(model->parent, "what ended a branch");
            status = ACL_OK;
        } else if (status != ACL_OK) {
            lost = detach(model);
        }
    }
    pthread_mutex_unlock(&capture_lock);
    drop(lost);
    return status;
}

/* For Python: end a capture that torch_npu does not end, whatever is open in it. */
EXPORT void host_abandon_capture(void *handle)
{
    pthread_mutex_lock(&capture_lock);
    struct model *model = stream_of(handle)->model;
    while (model && model->parent)
        model = model->parent;
    struct model *lost = model ? detach(model) : NULL;
    pthread_mutex_unlock(&capture_lock);
    drop(lost);
}

EXPORT acl_error aclmdlRIDestroy(void *handle)
{
    struct model *unused = NULL;
    pthread_mutex_lock(&capture_lock);
    struct model *model = model_of(handle);
    if (model && !model->parent && model->status == CAPTURE_NONE && !model->running)
        unused = detach(model);
    pthread_mutex_unlock(&capture_lock);
    if (!unused)
        return host_fail(ACL_MODEL_RUNNING, "aclmdlRIDestroy: the captured graph is not there, or in use");
    drop(unused);
    return ACL_OK;
}
