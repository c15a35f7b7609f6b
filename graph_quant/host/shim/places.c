/* Which memory is whose: allocated for the device, allocated or registered for the host, or nobody's here. */
#include "places.h"

#include <pthread.h>
#include <stdlib.h>

struct place {
    const char *start;
    size_t size;
    enum place_kind kind;
    struct place *next;
};

static struct place *places;
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;

bool note_place(const void *start, size_t size, enum place_kind kind)
{
    struct place *place = malloc(sizeof *place);
    if (!place)
        return false;
    pthread_mutex_lock(&places_lock);
    *place = (struct place){start, size, kind, places};
    places = place;
    pthread_mutex_unlock(&places_lock);
    return true;
}

bool drop_place(const void *start, enum place_kind kind)
{
    struct place *dropped = NULL;
    pthread_mutex_lock(&places_lock);
    for (struct place **link = &places; *link; link = &(*link)->next)
        if ((*link)->start == start && (*link)->kind == kind) {
            dropped = *link;
            *link = dropped->next;
            break;
        }
    pthread_mutex_unlock(&places_lock);
    free(dropped);
    return dropped != NULL;
}

enum place_kind place_of(const void *address)
{
    enum place_kind kind = UNKNOWN_PLACE;
    pthread_mutex_lock(&places_lock);
    for (const struct place *place = places; place; place = place->next)
        if ((const char *)address >= place->start && (const char *)address < place->start + place->size) {
            kind = place->kind;
            break;
        }
    pthread_mutex_unlock(&places_lock);
    return kind;
}

/* Host memory that a device is to reach: here it reaches all of it, at the address it has. */
enum { ALREADY_REGISTERED = 507910, NOT_REGISTERED = 507911 };

static acl_error register_host_memory(const char *function, void *start, uint64_t size)
{
    if (place_of(start) == REGISTERED_HOST)
        return host_fail(ALREADY_REGISTERED, "%s: the memory has been registered already", function);
    if (!note_place(start, size, REGISTERED_HOST))
        return host_fail(ACL_OUT_OF_MEMORY, "%s: no memory to note that", function);
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
    if (drop_place(start, REGISTERED_HOST))
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
    static const int locations[] = {[UNKNOWN_PLACE] = UNREGISTERED, [DEVICE_MEMORY] = ON_DEVICE, [HOST_MEMORY] = ON_HOST,
                                    [REGISTERED_HOST] = ON_HOST};
    *answer = (struct pointer_attributes){.location = locations[place_of(pointer)]};
    return ACL_OK;
}
