/* Known memory ranges: which kind of memory an address belongs to. */
#ifndef GRAPH_QUANT_MEMORY_RANGES_H
#define GRAPH_QUANT_MEMORY_RANGES_H

#include "host_npu.h"

#include <stdbool.h>

enum memory_kind { UNKNOWN_MEMORY, DEVICE_MEMORY, HOST_MEMORY, REGISTERED_HOST };

bool add_memory_range(const void *start, size_t size, enum memory_kind kind);
bool remove_memory_range(const void *start, enum memory_kind kind, size_t *size); /* false: no such range */
enum memory_kind memory_kind_of(const void *address);
bool is_within_range(const void *start, size_t size, enum memory_kind kind); /* one range holds all of it */
size_t allocated_on_device(void); /* bytes of the current device */

#endif
