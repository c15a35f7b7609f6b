/* Device memory that other processes open. */
#ifndef GRAPH_QUANT_IPC_H
#define GRAPH_QUANT_IPC_H

#include <stdbool.h>
#include <stddef.h>

enum { PAGE_BYTES = 4096 };

static inline size_t whole_pages(size_t size)
{
    return (size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Makes the memory that starts there private again, if it is shared. */
void unshare_memory(const void *start);
/* Whether a part of the memory is a file that another process may have opened. */
bool is_shared(const void *start, size_t size);

#endif
