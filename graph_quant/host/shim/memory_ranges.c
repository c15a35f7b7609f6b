/* Known memory ranges: allocated for the device, or allocated or registered for the host. */
#include "memory_ranges.h"

#include <pthread.h>
#include <stdlib.h>

struct memory_range {
    const char *start;
    size_t size;
    enum memory_kind kind;
    int32_t device;
    struct memory_range *next;
};

static struct memory_range *ranges;
static pthread_mutex_t ranges_lock = PTHREAD_MUTEX_INITIALIZER;

bool add_memory_range(const void *start, size_t size, enum memory_kind kind)
{
    struct memory_range *range = malloc(sizeof *range);
    int32_t device = 0;
    if (!range)
        return false;
    aclrtGetDevice(&device);
    pthread_mutex_lock(&ranges_lock);
    *range = (struct memory_range){start, size, kind, device, ranges};
    ranges = range;
    pthread_mutex_unlock(&ranges_lock);
    return true;
}

bool remove_memory_range(const void *start, enum memory_kind kind, size_t *size)
{
    struct memory_range *removed = NULL;
    pthread_mutex_lock(&ranges_lock);
    for (struct memory_range **link = &ranges; *link; link = &(*link)->next)
        if ((*link)->start == start && (*link)->kind == kind) {
            removed = *link;
            *link = removed->next;
            break;
        }
    pthread_mutex_unlock(&ranges_lock);
    if (!removed)
        return false;
    if (size)
        *size = removed->size;
    free(removed);
    return true;
}

enum memory_kind memory_kind_of(const void *address)
{
    enum memory_kind kind = UNKNOWN_MEMORY;
    pthread_mutex_lock(&ranges_lock);
    for (const struct memory_range *range = ranges; range; range = range->next)
        if ((const char *)address >= range->start && (const char *)address < range->start + range->size) {
            kind = range->kind;
            break;
        }
    pthread_mutex_unlock(&ranges_lock);
    return kind;
}

bool is_within_range(const void *start, size_t size, enum memory_kind kind)
{
    bool found = false;
    pthread_mutex_lock(&ranges_lock);
    for (const struct memory_range *range = ranges; range && !found; range = range->next)
        found = range->kind == kind && (const char *)start >= range->start &&
                (const char *)start + size <= range->start + range->size;
    pthread_mutex_unlock(&ranges_lock);
    return found;
}

size_t allocated_on_device(void)
{
    size_t bytes = 0;
    int32_t device = 0;
    aclrtGetDevice(&device);
    pthread_mutex_lock(&ranges_lock);
    for (const struct memory_range *range = ranges; range; range = range->next)
        if (range->kind == DEVICE_MEMORY && range->device == device)
            bytes += range->size;
    pthread_mutex_unlock(&ranges_lock);
    return bytes;
}

/* Registered host memory: the device reaches all host memory here, at the same address. */
enum { ALREADY_REGISTERED = 507910, NOT_REGISTERED = 507911 };

static acl_error register_host_memory(const char *function, void *start, uint64_t size)
{
    if (memory_kind_of(start) == REGISTERED_HOST)
        return host_fail(ALREADY_REGISTERED, "%s: the memory has been registered already", function);
    if (!add_memory_range(start, size, REGISTERED_HOST))
        return host_fail(ACL_OUT_OF_MEMORY, "%s: no memory to register it", function);
    return ACL_OK;
}

EXPORT acl_error aclrtHostRegister(void *start, uint64_t size, int type, void **on_device)
{
    (void)type;
    *on_device = start;
    return register_host_memory("aclrtHostRegister", start, size);
}

EXPORT acl_error aclrtHostRegisterV2(void *start, uint64_t size, uint32_t flag)
{
    (void)flag;
    return register_host_memory("aclrtHostRegisterV2", start, size);
}

EXPORT acl_error aclrtHostUnregister(void *start)
{
    if (remove_memory_range(start, REGISTERED_HOST, NULL))
        return ACL_OK;
    return host_fail(NOT_REGISTERED, "aclrtHostUnregister: the memory has not been registered");
}

struct pointer_attributes { /* aclrtPtrAttributes */
    uint32_t device;
    int location;
    uint32_t page_size;
    uint32_t reserved[4];
};

EXPORT acl_error aclrtPointerGetAttributes(const void *pointer, struct pointer_attributes *answer)
{
    enum { ON_HOST = 0, ON_DEVICE = 1, UNREGISTERED = 2 };
    static const int locations[] = {[UNKNOWN_MEMORY] = UNREGISTERED, [DEVICE_MEMORY] = ON_DEVICE, [HOST_MEMORY] = ON_HOST,
                                    [REGISTERED_HOST] = ON_HOST};
    *answer = (struct pointer_attributes){.location = locations[memory_kind_of(pointer)]};
    return ACL_OK;
}
