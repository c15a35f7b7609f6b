/* Device memory is host memory: allocation, release, copies, and how much there is. */
#include "capture.h"
#include "ipc.h"
#include "memory_ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Wide enough for every vector instruction and for torch_npu's own 512-byte blocks. */
enum { ALIGNMENT = 512 };
/* From this size on, memory is mapped in huge pages, as CANN does by default: weights are read about 1.5 times as fast
from them, more so on a virtual machine. Pages are committed when they are first written. */
enum { HUGE_PAGE = 2 << 20, LARGE = 4 << 20 };
/* From this size on, zeroing gives pages back instead of writing them: engines reserve and zero most of a device for
their caches, and use little of it. */
enum { ZERO_BY_PAGES = 64 << 20 };

static size_t read_number(const char *path, const char *format)
{
    char line[256];
    unsigned long long number = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, format, &number) == 1)
            break;
    fclose(file);
    return (size_t)number;
}

/* Bytes that the machine, or the container this runs in, has in all and has left. */
static void host_memory(size_t *available, size_t *total)
{
    *total = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    *available = read_number("/proc/meminfo", "MemAvailable: %llu kB") * 1024;
    if (*available == 0)
        *available = (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);

    /* In a container the cgroup's limit is what counts; "max" is not parsed as a number. */
    size_t limit = read_number("/sys/fs/cgroup/memory.max", "%llu");
    if (limit && limit < *total) {
        size_t used = read_number("/sys/fs/cgroup/memory.current", "%llu");
        size_t left = limit > used ? limit - used : 0;
        *total = limit;
        if (left < *available)
            *available = left;
    }
}

/* The size of a device: GRAPH_QUANT_MEMORY (checked when the runtime is loaded), else an A2's, on any machine that has
as much. It does not change while the process runs. */
size_t host_device_size(void)
{
    static size_t size;
    if (size)
        return size;
    const size_t a2 = (size_t)64 << 30;
    const char *asked = getenv("GRAPH_QUANT_MEMORY");
    if (asked && *asked) {
        char *unit;
        unsigned long long number = strtoull(asked, &unit, 10);
        const char *units = "KMGT", *known = *unit ? strchr(units, *unit) : NULL;
        size = (size_t)number << (known ? 10 * (known - units + 1) : 0);
    }
    if (!size) {
        size_t available, total;
        host_memory(&available, &total);
        size = total < a2 ? total : a2;
    }
    return size;
}

static void *map_large(size_t size)
{
    const size_t length = size + HUGE_PAGE;
    char *start = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return NULL;
    char *aligned = (char *)(((uintptr_t)start + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    char *end = aligned + ((size + 4095) & ~(size_t)4095);
    if (aligned > start)
        munmap(start, (size_t)(aligned - start));
    if (start + length > end)
        munmap(end, (size_t)(start + length - end));
    madvise(aligned, size & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE); /* a hint, which may be ignored */
    return aligned;
}

static void unmap_or_free(void *pointer, size_t size)
{
    if (size >= LARGE)
        munmap(pointer, size);
    else
        free(pointer);
}

static acl_error check_available(size_t size, enum memory_kind kind)
{
    size_t available, total;
    if (kind == DEVICE_MEMORY) {
        size_t used = allocated_on_device();
        available = host_device_size() > used ? host_device_size() - used : 0;
        if (size > available)
            return host_fail(ACL_OUT_OF_MEMORY, "%zu bytes asked for, %zu of the %zu bytes of the device available",
                             size, available, host_device_size());
        return ACL_OK;
    }
    /* Linux promises memory that it does not have; checking first turns a later kill into an error. */
    enum { ALWAYS_TRY = 64 << 20 };
    if (size <= ALWAYS_TRY)
        return ACL_OK;
    host_memory(&available, &total);
    if (size > available)
        return host_fail(ACL_OUT_OF_MEMORY, "%zu bytes asked for, %zu available on this machine", size, available);
    return ACL_OK;
}

static acl_error allocate(void **pointer, size_t size, enum memory_kind kind)
{
    acl_error status = check_available(size, kind);
    if (status != ACL_OK)
        return status;
    /* Whole pages, which another process may open. */
    const bool has_pages = kind == DEVICE_MEMORY && size >= PAGE_BYTES;
    if (size >= LARGE)
        *pointer = map_large(size);
    else if (posix_memalign(pointer, has_pages ? PAGE_BYTES : ALIGNMENT,
                            has_pages ? whole_pages(size) : size ? size : ALIGNMENT) != 0)
        *pointer = NULL;
    if (!*pointer || !add_memory_range(*pointer, size, kind)) {
        if (*pointer)
            unmap_or_free(*pointer, size);
        return host_fail(ACL_OUT_OF_MEMORY, "%zu bytes could not be allocated", size);
    }
    return ACL_OK;
}

static void release(void *pointer, enum memory_kind kind)
{
    size_t size = 0;
    remove_memory_range(pointer, kind, &size);
    if (kind == DEVICE_MEMORY)
        unshare_memory(pointer);
    unmap_or_free(pointer, size);
}

/* Zeroes memory; pages of a large part of device memory are given back, and read as zeros, unless they are a file's. */
EXPORT void host_zero(void *start, size_t size)
{
    char *first = (char *)(((uintptr_t)start + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    char *last = (char *)(((uintptr_t)start + size) & ~(uintptr_t)(HUGE_PAGE - 1));
    if (size < ZERO_BY_PAGES || !is_within_range(start, size, DEVICE_MEMORY) || is_shared(start, size) ||
        madvise(first, (size_t)(last - first), MADV_DONTNEED) != 0) {
        memset(start, 0, size);
        return;
    }
    memset(start, 0, (size_t)(first - (char *)start));
    memset(last, 0, (size_t)((char *)start + size - last));
}

EXPORT acl_error aclrtMalloc(void **pointer, size_t size, int policy)
{
    (void)policy;
    return allocate(pointer, size, DEVICE_MEMORY);
}

/* An older driver has no virtual addresses either: torch_npu warns, and goes on without expandable segments. */
EXPORT acl_error aclrtReserveMemAddress(void **address, size_t size, size_t alignment, void *expected, uint64_t flags)
{
    (void)address, (void)size, (void)alignment, (void)expected, (void)flags;
    return host_fail(ACL_NO_DRIVER_FEATURE, "aclrtReserveMemAddress: the host has no virtual addresses of a device");
}

EXPORT acl_error aclrtMallocAlign32(void **pointer, size_t size, int policy)
{
    return aclrtMalloc(pointer, size, policy);
}

EXPORT acl_error aclrtMallocHost(void **pointer, size_t size)
{
    return allocate(pointer, size, HOST_MEMORY);
}

EXPORT acl_error aclrtMallocHostWithCfg(void **pointer, uint64_t size, void *config)
{
    (void)config;
    return aclrtMallocHost(pointer, size);
}

EXPORT acl_error aclrtFree(void *pointer)
{
    release(pointer, DEVICE_MEMORY);
    return ACL_OK;
}

EXPORT acl_error aclrtFreeHost(void *pointer)
{
    release(pointer, HOST_MEMORY);
    return ACL_OK;
}

static acl_error check_room(const char *function, size_t count, size_t room)
{
    if (count <= room)
        return ACL_OK;
    return host_fail(ACL_BAD_PARAMETER, "%s: %zu bytes do not fit into %zu", function, count, room);
}

EXPORT acl_error aclrtMemcpy(void *target, size_t room, const void *source, size_t count, int kind)
{
    (void)kind;
    acl_error status = check_room("aclrtMemcpy", count, room);
    if (status == ACL_OK)
        status = may_block("aclrtMemcpy");
    if (status == ACL_OK && count)
        memmove(target, source, count);
    return status;
}

EXPORT acl_error aclrtMemcpyAsync(void *target, size_t room, const void *source, size_t count, int kind,
                                  void *stream)
{
    (void)kind;
    acl_error status = check_room("aclrtMemcpyAsync", count, room);
    if (status != ACL_OK || count == 0)
        return status;
    struct task task = {.target = target, .source = source, .size = count};
    if (captured(stream, COPY, &task, &status))
        return status;
    status = may_launch(stream_of(stream), "aclrtMemcpyAsync");
    if (status == ACL_OK)
        memmove(target, source, count);
    return status;
}

EXPORT acl_error aclrtMemcpyAsyncWithCondition(void *target, size_t room, const void *source, size_t count, int kind,
                                               void *stream)
{
    return aclrtMemcpyAsync(target, room, source, count, kind, stream);
}

EXPORT acl_error aclrtMemcpyBatch(void **targets, size_t *rooms, void **sources, size_t *counts, size_t batches,
                                  void *attributes, size_t *attribute_of, size_t attribute_count, size_t *failed)
{
    (void)attributes;
    (void)attribute_of;
    (void)attribute_count;
    acl_error status = ACL_OK;
    for (size_t i = 0; i < batches && status == ACL_OK; i++) {
        *failed = i;
        status = aclrtMemcpy(targets[i], rooms[i], sources[i], counts[i], 0);
    }
    return status;
}

EXPORT acl_error aclrtMemcpyBatchAsync(void **targets, size_t *rooms, void **sources, size_t *counts, size_t batches,
                                       void *attributes, size_t *attribute_of, size_t attribute_count, size_t *failed,
                                       void *stream)
{
    (void)attributes;
    (void)attribute_of;
    (void)attribute_count;
    acl_error status = ACL_OK;
    for (size_t i = 0; i < batches && status == ACL_OK; i++) {
        *failed = i;
        status = aclrtMemcpyAsync(targets[i], rooms[i], sources[i], counts[i], 0, stream);
    }
    return status;
}

static void set_memory(void *target, int32_t value, size_t count)
{
    if (value)
        memset(target, value, count);
    else
        host_zero(target, count);
}

EXPORT acl_error aclrtMemset(void *target, size_t room, int32_t value, size_t count)
{
    acl_error status = check_room("aclrtMemset", count, room);
    if (status == ACL_OK)
        status = may_block("aclrtMemset");
    if (status == ACL_OK && count)
        set_memory(target, value, count);
    return status;
}

EXPORT acl_error aclrtMemsetAsync(void *target, size_t room, int32_t value, size_t count, void *stream)
{
    acl_error status = check_room("aclrtMemsetAsync", count, room);
    if (status != ACL_OK || count == 0)
        return status;
    struct task task = {.target = target, .value = (uint64_t)value, .size = count};
    if (captured(stream, SET, &task, &status))
        return status;
    status = may_launch(stream_of(stream), "aclrtMemsetAsync");
    if (status == ACL_OK)
        set_memory(target, value, count);
    return status;
}

/* Moves lines between a cache and its memory: what they hold does not change. */
EXPORT acl_error aclrtCmoAsync(void *start, size_t size, int operation, void *stream)
{
    (void)start;
    (void)size;
    (void)operation;
    return may_launch(stream_of(stream), "aclrtCmoAsync");
}

/* Host memory reports its uncorrectable errors to the kernel, which ends the process: there are none to list. */
EXPORT acl_error aclrtGetMemUceInfo(int32_t device, void *list, size_t room, size_t *count)
{
    (void)device;
    (void)list;
    (void)room;
    *count = 0;
    return ACL_OK;
}

EXPORT acl_error aclrtGetMemInfo(int attribute, size_t *available, size_t *total)
{
    (void)attribute; /* HBM, DDR and huge pages are one and the same here */
    size_t used = allocated_on_device();
    *total = host_device_size();
    *available = *total > used ? *total - used : 0;
    return ACL_OK;
}
