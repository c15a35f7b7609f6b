/* Shared by the files of the host NPU: the part of the Ascend runtime ABI that it answers. */
#ifndef GRAPH_QUANT_HOST_NPU_H
#define GRAPH_QUANT_HOST_NPU_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef int acl_error; /* aclError: 0 is success */

enum {
    ACL_OK = 0,
    ACL_BAD_PARAMETER = 107000,
    ACL_BAD_DEVICE = 107001,
    ACL_OUT_OF_MEMORY = 207001, /* the code that torch_npu turns into OutOfMemoryError */
    ACL_NOT_SUPPORTED = 200001,
    ACL_NO_DRIVER_FEATURE = 207000, /* torch_npu prints it once and goes on as after success */
};

/* What the data sheet of the chip says; torch_npu shows it in get_device_properties. */
enum { DEVICE_CUBE_CORES = 20, DEVICE_VECTOR_CORES = 40, DEVICE_L2_BYTES = 192 << 20 };

/* Records why a call failed (torch_npu quotes it in its exception) and returns `code`. */
acl_error host_fail(acl_error code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For functions that exist only to be linked against: says so by name and fails. */
acl_error host_refuse(const char *function);

/* The same for C++ functions, which have no error code to return: throws std::runtime_error. */
_Noreturn void host_refuse_cxx(const char *function);

/* Fails, by the name of the function, for a device that is not there. */
acl_error check_device(const char *function, int64_t device);

/* The memory that a device reports. */
size_t host_device_size(void);

/* The device of this thread. */
acl_error aclrtGetDevice(int32_t *device);

#endif
