/* Whose memory an address is. */
#ifndef GRAPH_QUANT_PLACES_H
#define GRAPH_QUANT_PLACES_H

#include "host_npu.h"

#include <stdbool.h>

enum place_kind { UNKNOWN_PLACE, DEVICE_MEMORY, HOST_MEMORY, REGISTERED_HOST };

bool note_place(const void *start, size_t size, enum place_kind kind);
bool drop_place(const void *start, enum place_kind kind); /* false: there was none */
enum place_kind place_of(const void *address);

#endif
