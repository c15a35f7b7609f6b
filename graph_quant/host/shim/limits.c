/* Limits on cores and attributes of streams: they configure a device; the host stores and returns them. */
#include "capture.h"

static const uint32_t cores[LIMITS] = {[CUBE_CORES] = DEVICE_CUBE_CORES, [VECTOR_CORES] = DEVICE_VECTOR_CORES};
static uint32_t device_limit[LIMITS] = {DEVICE_CUBE_CORES, DEVICE_VECTOR_CORES};
static _Thread_local const struct stream *limited_by;

static acl_error check_kind(const char *function, int kind)
{
    if (kind >= 0 && kind < LIMITS)
        return ACL_OK;
    return host_fail(ACL_BAD_PARAMETER, "%s: resource %d is neither cube cores (0) nor vector cores (1)", function, kind);
}

static acl_error check_limit(const char *function, int kind, uint32_t value)
{
    acl_error status = check_kind(function, kind);
    if (status == ACL_OK && (value == 0 || value > cores[kind]))
        return host_fail(ACL_BAD_PARAMETER, "%s: the limit must be from 1 to %u cores, got %u", function, cores[kind],
                         value);
    return status;
}

EXPORT acl_error aclrtSetDeviceResLimit(int32_t device, int kind, uint32_t value)
{
    acl_error status = check_limit("aclrtSetDeviceResLimit", kind, value);
    if (status == ACL_OK)
        device_limit[kind] = value;
    return status == ACL_OK ? check_device("aclrtSetDeviceResLimit", device) : status;
}

EXPORT acl_error aclrtGetDeviceResLimit(int32_t device, int kind, uint32_t *value)
{
    acl_error status = check_kind("aclrtGetDeviceResLimit", kind);
    if (status == ACL_OK)
        *value = device_limit[kind];
    return status == ACL_OK ? check_device("aclrtGetDeviceResLimit", device) : status;
}

EXPORT acl_error aclrtResetDeviceResLimit(int32_t device)
{
    for (int kind = 0; kind < LIMITS; kind++)
        device_limit[kind] = cores[kind];
    return check_device("aclrtResetDeviceResLimit", device);
}

EXPORT acl_error aclrtSetStreamResLimit(void *handle, int kind, uint32_t value)
{
    acl_error status = check_limit("aclrtSetStreamResLimit", kind, value);
    if (status == ACL_OK)
        stream_of(handle)->limit[kind] = value;
    return status;
}

static uint32_t limit_of(const struct stream *stream, int kind)
{
    return stream && stream->limit[kind] ? stream->limit[kind] : device_limit[kind];
}

EXPORT acl_error aclrtGetStreamResLimit(void *handle, int kind, uint32_t *value)
{
    acl_error status = check_kind("aclrtGetStreamResLimit", kind);
    if (status == ACL_OK)
        *value = limit_of(stream_of(handle), kind);
    return status;
}

EXPORT acl_error aclrtResetStreamResLimit(void *handle)
{
    for (int kind = 0; kind < LIMITS; kind++)
        stream_of(handle)->limit[kind] = 0;
    return ACL_OK;
}

EXPORT acl_error aclrtUseStreamResInCurrentThread(void *handle)
{
    limited_by = stream_of(handle);
    return ACL_OK;
}

EXPORT acl_error aclrtUnuseStreamResInCurrentThread(void *handle)
{
    if (limited_by == stream_of(handle))
        limited_by = NULL;
    return ACL_OK;
}

EXPORT acl_error aclrtGetResInCurrentThread(int kind, uint32_t *value)
{
    acl_error status = check_kind("aclrtGetResInCurrentThread", kind);
    if (status == ACL_OK)
        *value = limit_of(limited_by, kind);
    return status;
}

enum { FAILURE_MODE = 1, OVERFLOW_CHECK = 2, LAST_ATTRIBUTE = 4 }; /* aclrtStreamAttr */

EXPORT acl_error aclrtSetStreamAttribute(void *handle, int attribute, const uint64_t *value)
{
    if (attribute < FAILURE_MODE || attribute > LAST_ATTRIBUTE)
        return host_fail(ACL_BAD_PARAMETER, "aclrtSetStreamAttribute: attribute %d is not known", attribute);
    /* Only the failure mode has 64 bits; the others fill the lower half of the union. */
    stream_of(handle)->attribute[attribute] = attribute == FAILURE_MODE ? *value : *(const uint32_t *)value;
    return ACL_OK;
}

EXPORT acl_error aclrtSetStreamFailureMode(void *handle, uint64_t mode)
{
    return aclrtSetStreamAttribute(handle, FAILURE_MODE, &mode);
}

EXPORT acl_error aclrtSetStreamOverflowSwitch(void *handle, uint32_t on)
{
    stream_of(handle)->attribute[OVERFLOW_CHECK] = on;
    return ACL_OK;
}

EXPORT acl_error aclrtGetStreamOverflowSwitch(void *handle, uint32_t *on)
{
    *on = (uint32_t)stream_of(handle)->attribute[OVERFLOW_CHECK];
    return ACL_OK;
}
