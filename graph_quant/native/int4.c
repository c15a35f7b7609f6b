/* Unpacking of int4, for any processor: the compiler makes vectors of it. */

#include "vectors.h"

struct elements {
    const uint8_t *packed; /* two elements in each, low bits first */
    int8_t *y;
    ptrdiff_t bytes;
};

SHOWN int graph_quant_int4_serves(void)
{
    return 1;
}

SHOWN int graph_quant_int4(const struct elements *args, parallel in_threads, int threads)
{
    const uint8_t *restrict packed = args->packed;
    int8_t *restrict y = args->y;
    (void)in_threads;
    (void)threads;
    for (ptrdiff_t index = 0; index < args->bytes; index++) {
        y[2 * index] = (int8_t)((packed[index] & 15) ^ 8) - 8;
        y[2 * index + 1] = (int8_t)((packed[index] >> 4) ^ 8) - 8;
    }
    return 0;
}
