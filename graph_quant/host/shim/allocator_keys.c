/*
 * CUDA builds of torch and torch_npu both register the options of their allocators in one set of libc10, and some
 * share a name (pinned_reserve_segment_size_mb). libc10 takes the second registration for an error and ends the
 * process while torch_npu loads.
 *
 * This library is loaded into the global scope before torch_npu, so its getMutableKeys is called instead of libc10's,
 * and gives one of the two a set of its own: libc10_cuda where torch is loaded after this library, so that torch_npu's
 * options are known to torch and CUDA's are not; torch_npu where torch, and with it libc10_cuda, was there first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "host_npu.h"

#define GET_MUTABLE_KEYS _ZN3c1016CachingAllocator26AcceleratorAllocatorConfig14getMutableKeysB5cxx11Ev
#define STRING_OF(name) #name
#define SYMBOL(name) STRING_OF(name)

static const char cuda_library[] = "libc10_cuda.so";

/* An empty std::unordered_set<std::string>, as libstdc++ lays it out; the caller's own code fills it. */
static struct string_set {
    void **buckets;
    size_t bucket_count;
    void *first;
    size_t element_count;
    float max_load_factor;
    size_t next_resize;
    void *single_bucket;
} separate_keys = {.bucket_count = 1, .max_load_factor = 1.0F};

static int is_cuda_separate;

static int is_in_library(const void *address, const char *library) {
    Dl_info info;
    return dladdr(address, &info) != 0 && strstr(info.dli_fname, library) != NULL;
}

static int is_loaded(const char *library) {
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (handle != NULL) dlclose(handle);
    return handle != NULL;
}

/* libc10 is loaded by whoever calls this; the symbol is looked up in it, past this library's own. */
static void *libc10_keys(void) {
    void *libc10 = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
    void *(*get_mutable_keys)(void) = NULL;
    if (libc10 != NULL) *(void **)&get_mutable_keys = dlsym(libc10, SYMBOL(GET_MUTABLE_KEYS));
    if (get_mutable_keys == NULL) abort(); /* a caller of libc10's function without libc10 */
    return get_mutable_keys();
}

EXPORT void *GET_MUTABLE_KEYS(void);

EXPORT void *GET_MUTABLE_KEYS(void) {
    const void *caller = __builtin_return_address(0);
    int is_cuda = is_in_library(caller, cuda_library);
    int is_second = is_in_library(caller, "libtorch_npu.so") && !is_cuda_separate && is_loaded(cuda_library);
    if (!is_cuda && !is_second) return libc10_keys();
    is_cuda_separate |= is_cuda;
    if (separate_keys.buckets == NULL) separate_keys.buckets = &separate_keys.single_bucket;
    return &separate_keys;
}
