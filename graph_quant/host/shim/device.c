/* The devices: identity, context, settings, and the small services torch_npu links against. */
#include "host_npu.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_DEVICES = 64 };

/* Each rank has a device of its own: there are as many as ranks on this machine, or as GRAPH_QUANT_DEVICES says. */
static uint32_t device_count(void)
{
    const char *asked = getenv("GRAPH_QUANT_DEVICES");
    if (!asked || !*asked)
        asked = getenv("LOCAL_WORLD_SIZE");
    long count = asked ? strtol(asked, NULL, 10) : 1;
    return count < 1 ? 1 : count > MOST_DEVICES ? MOST_DEVICES : (uint32_t)count;
}

acl_error check_device(const char *function, int64_t device)
{
    uint32_t count = device_count();
    if (device >= 0 && device < count)
        return ACL_OK;
    if (count == 1)
        return host_fail(ACL_BAD_DEVICE, "%s: the host NPU has device 0 only, got %lld", function, (long long)device);
    return host_fail(ACL_BAD_DEVICE, "%s: the host NPU has devices 0 to %u, got %lld", function, count - 1,
                     (long long)device);
}

static _Thread_local int32_t current_device;

EXPORT acl_error aclInit(const char *config)
{
    (void)config;
    return ACL_OK;
}

EXPORT acl_error aclFinalize(void)
{
    return ACL_OK;
}

EXPORT acl_error aclrtGetDeviceCount(uint32_t *count)
{
    *count = device_count();
    return ACL_OK;
}

EXPORT acl_error aclrtSetDevice(int32_t device)
{
    acl_error status = check_device("aclrtSetDevice", device);
    if (status == ACL_OK)
        current_device = device;
    return status;
}

EXPORT acl_error aclrtResetDevice(int32_t device)
{
    return check_device("aclrtResetDevice", device);
}

EXPORT acl_error aclrtGetDevice(int32_t *device)
{
    *device = current_device;
    return ACL_OK;
}

/* GRAPH_QUANT_SOC names the chip that the host reports; the default is the one that the documented rules are for. */
EXPORT const char *aclrtGetSocName(void)
{
    const char *name = getenv("GRAPH_QUANT_SOC");
    return name && *name ? name : "Ascend910B3";
}

EXPORT acl_error aclGetDeviceCapability(uint32_t device, int capability, int64_t *value)
{
    enum { CUBE_CORES = 0, VECTOR_CORES = 1, L2_BYTES = 2 };
    switch (capability) {
    case CUBE_CORES:
        *value = DEVICE_CUBE_CORES;
        break;
    case VECTOR_CORES:
        *value = DEVICE_VECTOR_CORES;
        break;
    case L2_BYTES:
        *value = DEVICE_L2_BYTES;
        break;
    default:
        return host_fail(ACL_BAD_PARAMETER, "aclGetDeviceCapability: capability %d is not known", capability);
    }
    return check_device("aclGetDeviceCapability", device);
}

enum { INF_AND_NAN, BFLOAT16, COMPILED_WHEN_CALLED }; /* aclCannAttr: properties of the chip and its operators */

EXPORT acl_error aclGetCannAttributeList(const int **attributes, size_t *count)
{
    static const int known[] = {INF_AND_NAN, BFLOAT16, COMPILED_WHEN_CALLED};
    *attributes = known;
    *count = sizeof known / sizeof *known;
    return ACL_OK;
}

EXPORT acl_error aclGetCannAttribute(int attribute, int32_t *value)
{
    *value = attribute == INF_AND_NAN || attribute == BFLOAT16;
    return ACL_OK;
}

EXPORT acl_error aclrtGetDeviceInfo(uint32_t device, int attribute, int64_t *value)
{
    enum { AICPUS = 1, AI_CORES = 101, CUBES = 102, VECTORS = 201, MEMORY_BYTES = 301, L2_BYTES = 302 }; /* aclrtDevAttr */
    switch (attribute) {
    case AICPUS:
        *value = sysconf(_SC_NPROCESSORS_ONLN);
        break;
    case AI_CORES:
    case CUBES:
        *value = DEVICE_CUBE_CORES;
        break;
    case VECTORS:
        *value = DEVICE_VECTOR_CORES;
        break;
    case MEMORY_BYTES:
        *value = (int64_t)host_device_size();
        break;
    case L2_BYTES:
        *value = DEVICE_L2_BYTES;
        break;
    default:
        return host_fail(ACL_BAD_PARAMETER, "aclrtGetDeviceInfo: attribute %d is not known", attribute);
    }
    return check_device("aclrtGetDeviceInfo", device);
}

EXPORT acl_error aclrtDeviceGetUuid(int32_t device, char answer[16])
{
    memcpy(answer, "graph_quant host", 16);
    answer[15] = (char)(answer[15] + device);
    return check_device("aclrtDeviceGetUuid", device);
}

/* The ids of a device inside and outside of a container are the same. */
EXPORT acl_error aclrtGetLogicDevIdByUserDevId(int32_t user, int32_t *logic)
{
    *logic = user;
    return check_device("aclrtGetLogicDevIdByUserDevId", user);
}

/* Calls return their errors; there are no pending ones. */
EXPORT acl_error aclrtGetLastError(int level)
{
    (void)level;
    return ACL_OK;
}

EXPORT acl_error aclrtPeekAtLastError(int level)
{
    return aclrtGetLastError(level);
}

/* Nothing runs on the device while a call is made from outside. */
EXPORT acl_error aclrtDeviceTaskAbort(int32_t device, uint32_t timeout)
{
    (void)timeout;
    return check_device("aclrtDeviceTaskAbort", device);
}

/* Super kernels join kernels into one launch; here a kernel is a call, whatever it is joined with. */
EXPORT acl_error aclskScopeBegin(const char *name, void *stream)
{
    (void)name;
    (void)stream;
    return ACL_OK;
}

EXPORT acl_error aclskScopeEnd(const char *name, void *stream)
{
    return aclskScopeBegin(name, stream);
}

EXPORT acl_error aclskOptimize(void *model, const void *options)
{
    (void)model;
    (void)options;
    return ACL_OK;
}

/*
 * The release of CANN that torch_npu asks for: it selects code paths by it, and warns about every path that it cannot
 * use when there is no version. releases/cann.py sets it.
 */
static char cann_version[sizeof "9.1.0"] = "9.1.0";

EXPORT void host_set_cann_version(const char *version)
{
    memcpy(cann_version, version, sizeof cann_version);
}

struct package_version { /* aclCANNPackageVersion */
    char version[128];
    char parts[4][64];
    char reserved[128];
};

EXPORT acl_error aclsysGetCANNVersion(int package, struct package_version *answer)
{
    (void)package;
    memset(answer, 0, sizeof *answer);
    strcpy(answer->version, cann_version);
    for (int part = 0; part < 3; part++)
        answer->parts[part][0] = cann_version[2 * part];
    return ACL_OK;
}

EXPORT acl_error aclsysGetVersionStr(char *package, char *answer)
{
    (void)package;
    strcpy(answer, cann_version);
    return ACL_OK;
}

/* A context stands for its device: torch_npu passes it around, also to threads that are to work on the same one. */
static char contexts[MOST_DEVICES];

EXPORT acl_error aclrtGetCurrentContext(void **context)
{
    *context = &contexts[current_device];
    return ACL_OK;
}

EXPORT acl_error aclrtSetCurrentContext(void *context)
{
    if ((char *)context >= contexts && (char *)context < contexts + MOST_DEVICES)
        current_device = (int32_t)((char *)context - contexts);
    return ACL_OK;
}

EXPORT acl_error aclrtGetPrimaryCtxState(int32_t device, uint32_t *flags, int32_t *active)
{
    if (flags)
        *flags = 0;
    *active = 1;
    return check_device("aclrtGetPrimaryCtxState", device);
}

EXPORT acl_error aclrtDeviceCanAccessPeer(int32_t *can_access, int32_t device, int32_t peer)
{
    (void)device;
    (void)peer;
    *can_access = 0;
    return ACL_OK;
}

EXPORT acl_error aclrtDeviceGetBareTgid(int32_t *process)
{
    *process = (int32_t)getpid();
    return ACL_OK;
}

/* Arithmetic on the host is IEEE arithmetic; quantisation saturates by its own rules. */
EXPORT acl_error aclrtSetDeviceSatMode(int mode)
{
    enum { SATURATING }; /* aclrtFloatOverflowMode */
    if (mode == SATURATING)
        return host_fail(ACL_BAD_PARAMETER, "aclrtSetDeviceSatMode: the host NPU computes infinities and NaN alone");
    return ACL_OK;
}

/* Compile options: stored and returned, as CANN does; nothing is compiled here. */
enum { OPTION_COUNT = 16, OPTION_SIZE = 256 };
static char options[OPTION_COUNT][OPTION_SIZE];
static pthread_mutex_t options_lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT acl_error aclSetCompileopt(int option, const char *value)
{
    if (option < 0 || option >= OPTION_COUNT || strlen(value) >= OPTION_SIZE)
        return host_fail(ACL_BAD_PARAMETER, "aclSetCompileopt: option %d with value %s is not known", option, value);
    pthread_mutex_lock(&options_lock);
    strcpy(options[option], value);
    pthread_mutex_unlock(&options_lock);
    return ACL_OK;
}

EXPORT size_t aclGetCompileoptSize(int option)
{
    return option >= 0 && option < OPTION_COUNT ? OPTION_SIZE : 0;
}

EXPORT acl_error aclGetCompileopt(int option, char *value, size_t length)
{
    if (option < 0 || option >= OPTION_COUNT || length < OPTION_SIZE)
        return host_fail(ACL_BAD_PARAMETER, "aclGetCompileopt: option %d does not fit into %zu bytes", option, length);
    pthread_mutex_lock(&options_lock);
    memcpy(value, options[option], OPTION_SIZE);
    pthread_mutex_unlock(&options_lock);
    return ACL_OK;
}

/* System parameters (determinism and the like): stored and returned; the host is deterministic anyway. */
static int64_t system_parameters[OPTION_COUNT];

EXPORT acl_error aclrtSetSysParamOpt(int option, int64_t value)
{
    if (option < 0 || option >= OPTION_COUNT)
        return host_fail(ACL_BAD_PARAMETER, "aclrtSetSysParamOpt: option %d is not known", option);
    pthread_mutex_lock(&options_lock);
    system_parameters[option] = value;
    pthread_mutex_unlock(&options_lock);
    return ACL_OK;
}

EXPORT acl_error aclrtCtxSetSysParamOpt(int option, int64_t value)
{
    return aclrtSetSysParamOpt(option, value);
}

EXPORT acl_error aclrtGetSysParamOpt(int option, int64_t *value)
{
    if (option < 0 || option >= OPTION_COUNT)
        return host_fail(ACL_BAD_PARAMETER, "aclrtGetSysParamOpt: option %d is not known", option);
    pthread_mutex_lock(&options_lock);
    *value = system_parameters[option];
    pthread_mutex_unlock(&options_lock);
    return ACL_OK;
}

/* Sets determinism of collectives; there are none on one device. */
EXPORT acl_error HcclSetConfig(int option, int64_t value)
{
    (void)option;
    (void)value;
    return ACL_OK;
}

/* Logging and profiling report to services that do not run here: these do nothing. */
EXPORT void aclAppLog(int level, const char *function, const char *file, uint32_t line, const char *format, ...)
{
    (void)level;
    (void)function;
    (void)file;
    (void)line;
    (void)format;
}

EXPORT int32_t MsprofRegisterCallback(uint32_t module, void *callback)
{
    (void)module;
    (void)callback;
    return 0;
}

EXPORT uint64_t MsprofSysCycleTime(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The bounded string functions of CANN's C library; -1 says that the text did not fit. */
EXPORT int vsnprintf_s(char *target, size_t room, size_t count, const char *format, va_list arguments)
{
    size_t limit = count < room ? count + 1 : room;
    int written = vsnprintf(target, limit, format, arguments);
    return written >= 0 && (size_t)written < limit ? written : -1;
}

EXPORT int snprintf_s(char *target, size_t room, size_t count, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf_s(target, room, count, format, arguments);
    va_end(arguments);
    return written;
}

EXPORT int strcpy_s(char *target, size_t room, const char *source)
{
    size_t length = strlen(source);
    if (length >= room)
        return -1;
    memcpy(target, source, length + 1);
    return 0;
}
