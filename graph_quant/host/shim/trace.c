/* A captured graph as a Chrome trace: one event a task, one row a stream, as CANN writes it. */
#include "capture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const task_types[] = {
    [KERNEL] = "KERNEL",         [COPY] = "MEMCPY_ASYNC", [SET] = "MEMSET_ASYNC",
    [CALL] = "HOST_FUNC",        [CONDITION] = "COND", [VALUE_WAIT] = "MEM_WAIT_VALUE", [VALUE_WRITE] = "MEM_WRITE_VALUE",
    [EVENT_RECORD] = "EVENT_RECORD", [EVENT_WAIT] = "EVENT_WAIT",
};

static void write_name(FILE *file, const struct task *task)
{
    if (task->kind == KERNEL)
        fprintf(file, "%s", task->name);
    else if (task->kind >= VALUE_WAIT)
        fprintf(file, "%s_%" PRIuPTR, task_types[task->kind], (uintptr_t)task->target);
    else
        fprintf(file, "%s", task_types[task->kind]);
}

static void write_detail(FILE *file, const struct task *task)
{
    switch (task->kind) {
    case KERNEL:
        if (*task->detail)
            fprintf(file, ", %s", task->detail);
        break;
    case COPY:
        fprintf(file, ", \"Source\": %" PRIuPTR, (uintptr_t)task->source);
        /* fall through */
    case SET:
        fprintf(file, ", \"Target\": %" PRIuPTR ", \"Bytes\": %zu", (uintptr_t)task->target, task->size);
        break;
    case CONDITION:
        fprintf(file, ", \"Source\": %" PRIuPTR ", \"Bytes\": %zu, \"Branch\": %u", (uintptr_t)task->target,
                sizeof(uint64_t), task->branch->id);
        break;
    case VALUE_WAIT:
    case VALUE_WRITE:
        fprintf(file, ", \"Value\": %" PRIu64, task->value);
        break;
    default:
        break;
    }
}

/* The tasks of a graph, and after a condition those of its branch; `number` counts them all. */
static void write_tasks(FILE *file, const struct model *model, bool verbose, size_t *number)
{
    for (size_t i = 0; i < model->task_count; i++) {
        const struct task *task = &model->tasks[i];
        fprintf(file, "%s\n{\"name\": \"", *number ? "," : "");
        write_name(file, task);
        fprintf(file,
                "\", \"ph\": \"X\", \"pid\": \"aclGraph\", \"tid\": \"stream%d\", \"ts\": %zu, \"dur\": 1, \"args\": "
                "{\"Model Id\": %u, \"Stream Id\": %d, \"Task Id\": %zu, \"Task Type\": \"%s\"",
                task->stream_id, 2 * *number, model->id, task->stream_id, *number, task_types[task->kind]);
        if (verbose)
            write_detail(file, task);
        fputs("}}", file);
        ++*number;
        if (task->kind == CONDITION)
            write_tasks(file, task->branch, verbose, number);
    }
}

static void write_trace(FILE *file, const struct model *model, bool verbose)
{
    size_t number = 0;
    fputs("[", file);
    write_tasks(file, model, verbose, &number);
    fputs("\n]\n", file);
}

EXPORT acl_error aclmdlRIDebugJsonPrint(void *handle, const char *path, uint32_t flags)
{
    pthread_mutex_lock(&capture_lock);
    const struct model *model = model_of(handle);
    pthread_mutex_unlock(&capture_lock);
    if (!model)
        return host_fail(ACL_BAD_PARAMETER, "aclmdlRIDebugJsonPrint: the captured graph is not there");
    FILE *file = fopen(path, "we");
    if (!file)
        return host_fail(ACL_BAD_PARAMETER, "aclmdlRIDebugJsonPrint: cannot write %s: %s", path, strerror(errno));
    write_trace(file, model, flags & 1);
    if (fclose(file) != 0)
        return host_fail(ACL_BAD_PARAMETER, "aclmdlRIDebugJsonPrint: cannot write %s: %s", path, strerror(errno));
    return ACL_OK;
}

EXPORT acl_error aclmdlRIDebugPrint(void *handle)
{
    pthread_mutex_lock(&capture_lock);
    const struct model *model = model_of(handle);
    pthread_mutex_unlock(&capture_lock);
    if (!model)
        return host_fail(ACL_BAD_PARAMETER, "aclmdlRIDebugPrint: the captured graph is not there");
    write_trace(stdout, model, false);
    fflush(stdout);
    return ACL_OK;
}
