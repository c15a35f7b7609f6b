/*
 * Device memory and events that another process opens by a key. Shared device memory is a file in memory (memfd), which
 * the other process opens through /proc while its owner lives; mappings stay valid after that.
 */
#define _GNU_SOURCE
#include "capture.h"
#include "ipc.h"
#include "memory_ranges.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { KEY_BYTES = 65, EVENT_HANDLE_BYTES = 64 };

static const char NO_KEY[] = "%s: the key is of no memory that a host NPU shares";

/* Memory that this process shares, or has opened. */
struct shared {
    char key[KEY_BYTES];
    void *start;
    size_t size;
    int file; /* -1: opened from another process */
    struct shared *next;
};

static struct shared *all_shared;
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep(const struct shared *memory)
{
    struct shared *kept = malloc(sizeof *kept);
    if (!kept)
        abort();
    *kept = *memory;
    kept->next = all_shared;
    all_shared = kept;
}

static bool copy_into(int file, const char *source, size_t size)
{
    while (size) {
        const ssize_t written = write(file, source, size);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            source += written;
            size -= (size_t)written;
        }
    }
    return true;
}

/*
 * The pages of the memory become those of a file, at the same address: tensors, aliases and captured graphs that point
 * there stay valid. As with a device, the caller makes sure that nothing writes there meanwhile.
 */
EXPORT acl_error aclrtIpcMemGetExportKey(void *start, size_t size, char *key, size_t key_bytes, uint64_t flags)
{
    static const char name[] = "aclrtIpcMemGetExportKey";
    (void)flags; /* any process of the same user may open it */
    if (key_bytes < KEY_BYTES)
        return host_fail(ACL_BAD_PARAMETER, "%s: a key has %d bytes, room for %zu", name, KEY_BYTES, key_bytes);
    if (memory_kind_of(start) != DEVICE_MEMORY || (uintptr_t)start % PAGE_BYTES || size < PAGE_BYTES)
        return host_fail(ACL_BAD_PARAMETER, "%s: only whole allocations of device memory of at least %d bytes", name,
                         PAGE_BYTES);
    struct shared memory = {.start = start, .size = whole_pages(size)};
    struct statx about; /* stat's functions have another name before glibc 2.33 */
    memory.file = memfd_create("npu memory", MFD_CLOEXEC);
    if (memory.file < 0 || !copy_into(memory.file, start, memory.size) ||
        statx(memory.file, "", AT_EMPTY_PATH, STATX_INO, &about) != 0 ||
        mmap(start, memory.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory.file, 0) == MAP_FAILED) {
        const int cause = errno;
        if (memory.file >= 0)
            close(memory.file);
        return host_fail(ACL_OUT_OF_MEMORY, "%s: %zu bytes could not be shared: %s", name, size, strerror(cause));
    }
    snprintf(memory.key, sizeof memory.key, "host-npu %d %d %" PRIuMAX " %zu", (int)getpid(), memory.file,
             (uintmax_t)about.stx_ino, memory.size);
    memcpy(key, memory.key, KEY_BYTES);
    pthread_mutex_lock(&shared_lock);
    keep(&memory);
    pthread_mutex_unlock(&shared_lock);
    return ACL_OK;
}

EXPORT acl_error aclrtIpcMemSetImportPid(const char *key, int32_t *processes, size_t count)
{
    (void)key;
    (void)processes;
    (void)count;
    return ACL_OK; /* the memory is open to every process of the user */
}

EXPORT acl_error aclrtIpcMemImportByKey(void **start, const char *key, uint64_t flags)
{
    static const char name[] = "aclrtIpcMemImportByKey";
    (void)flags;
    struct shared memory = {.file = -1};
    memcpy(memory.key, key, KEY_BYTES - 1);
    int process, number;
    uintmax_t inode;
    if (sscanf(memory.key, "host-npu %d %d %" SCNuMAX " %zu", &process, &number, &inode, &memory.size) != 4)
        return host_fail(ACL_BAD_PARAMETER, NO_KEY, name);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", process, number);
    struct statx about;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    const bool is_open = file >= 0 && statx(file, "", AT_EMPTY_PATH, STATX_INO, &about) == 0 && about.stx_ino == inode;
    if (is_open)
        memory.start = mmap(NULL, memory.size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int cause = errno;
    if (file >= 0)
        close(file);
    if (!is_open)
        return host_fail(ACL_BAD_PARAMETER, "%s: process %d, which shared the memory, has ended or has freed it", name,
                         process);
    if (memory.start == MAP_FAILED)
        return host_fail(ACL_OUT_OF_MEMORY, "%s: %zu bytes: %s", name, memory.size, strerror(cause));
    add_memory_range(memory.start, memory.size, DEVICE_MEMORY);
    pthread_mutex_lock(&shared_lock);
    keep(&memory);
    pthread_mutex_unlock(&shared_lock);
    *start = memory.start;
    return ACL_OK;
}

/* With the lock held. */
static void stop_sharing(struct shared *memory)
{
    if (memory->file < 0) {
        remove_memory_range(memory->start, DEVICE_MEMORY, NULL);
        munmap(memory->start, memory->size);
    } else {
        /* The C library goes on to use the pages, which must not be the other process's any more. */
        if (mmap(memory->start, memory->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            MAP_FAILED)
            abort();
        close(memory->file);
    }
    free(memory);
}

/* Ends one sharing: by its key (the latest, if this process opened its own) or by the owner's address. */
static bool close_matching(const char *key, const void *start)
{
    struct shared *closed = NULL;
    pthread_mutex_lock(&shared_lock);
    for (struct shared **link = &all_shared; *link && !closed; link = &(*link)->next)
        if (key ? strncmp((*link)->key, key, KEY_BYTES) == 0 : (*link)->start == start && (*link)->file >= 0) {
            closed = *link;
            *link = closed->next;
            stop_sharing(closed);
            break;
        }
    pthread_mutex_unlock(&shared_lock);
    return closed != NULL;
}

EXPORT acl_error aclrtIpcMemClose(const char *key)
{
    if (close_matching(key, NULL))
        return ACL_OK;
    return host_fail(ACL_BAD_PARAMETER, NO_KEY, "aclrtIpcMemClose");
}

void unshare_memory(const void *start)
{
    close_matching(NULL, start);
}

bool is_shared(const void *start, size_t size)
{
    bool found = false;
    pthread_mutex_lock(&shared_lock);
    for (const struct shared *memory = all_shared; memory && !found; memory = memory->next)
        found = (const char *)start < (const char *)memory->start + memory->size &&
                (const char *)memory->start < (const char *)start + size;
    pthread_mutex_unlock(&shared_lock);
    return found;
}

/* Whatever an event was recorded behind is done when the call returns, in every process: there is nothing to wait for. */
static const char EVENT_KEY[] = "host-npu event";

EXPORT acl_error aclrtIpcGetEventHandle(void *event, void *handle)
{
    if (((struct event *)event)->model_id)
        return host_fail(ACL_EVENT_CAPTURED, "aclrtIpcGetEventHandle: the event was last recorded in a capture");
    memset(handle, 0, EVENT_HANDLE_BYTES);
    memcpy(handle, EVENT_KEY, sizeof EVENT_KEY);
    return ACL_OK;
}

struct event_handle { /* aclrtIpcEventHandle, passed by value */
    char bytes[EVENT_HANDLE_BYTES];
};

EXPORT acl_error aclrtIpcOpenEventHandle(struct event_handle handle, void **opened)
{
    if (memcmp(handle.bytes, EVENT_KEY, sizeof EVENT_KEY) != 0)
        return host_fail(ACL_BAD_PARAMETER, "aclrtIpcOpenEventHandle: the handle is of no event of a host NPU");
    struct event *event = calloc(1, sizeof *event);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!event)
        return host_fail(ACL_OUT_OF_MEMORY, "an event could not be allocated");
    event->recorded_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    *opened = event;
    return ACL_OK;
}
