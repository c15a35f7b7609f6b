/* Few int8 rows times an int4 weight (k, n), packed along n, by the dot products of AVX-512 VNNI: one sum in int32 for
each group of k, row and column.

Four bytes of a lane are the elements of one column in four rows of the weight, from 0 to 15; the sum of x times 8 is
taken off first. */

#include <stdlib.h>

#include "vectors.h"

struct product {
    const int8_t *x; /* contiguous rows of groups * depth elements */
    const uint8_t *w; /* two elements in a byte, low bits first */
    int32_t *out; /* (group, row, column) */
    ptrdiff_t w_stride, rows, columns, depth, groups;
};

#ifdef HAS_VECTORS

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define INLINE static inline __attribute__((always_inline))

/* A tile is 64 bytes of a row of the weight: columns in 8 vectors, those of low halves in the first four. */
enum { TILE_BYTES = 64, TILE = 128, SUMS = 8, STEP = 4 };

struct tiles {
    const struct product *args;
    const int32_t *excess; /* 8 times the sum of x for each group and row */
    ptrdiff_t taken, count;
};

/* The elements of four rows, side by side: bytes 0 to 3 of each quarter, then 4 to 7, ... */
VNNI INLINE void interleave(const __m512i *rows, __m512i *columns)
{
    const __m512i low = _mm512_unpacklo_epi8(rows[0], rows[1]), high = _mm512_unpackhi_epi8(rows[0], rows[1]);
    const __m512i low2 = _mm512_unpacklo_epi8(rows[2], rows[3]), high2 = _mm512_unpackhi_epi8(rows[2], rows[3]);
    columns[0] = _mm512_unpacklo_epi16(low, low2);
    columns[1] = _mm512_unpackhi_epi16(low, low2);
    columns[2] = _mm512_unpacklo_epi16(high, high2);
    columns[3] = _mm512_unpackhi_epi16(high, high2);
}

VNNI INLINE void add_rows(const struct product *args, ptrdiff_t tile, ptrdiff_t group, ptrdiff_t row, int count,
                          const int32_t *excess)
{
    const ptrdiff_t width = args->groups * args->depth, left = args->columns / 2 - tile * TILE_BYTES;
    const __mmask64 kept = left >= TILE_BYTES ? ~0ull : (1ull << left) - 1;
    const __m512i nibble = _mm512_set1_epi8(15), eight = _mm512_set1_epi8(8);
    const uint8_t *w = args->w + group * args->depth * args->w_stride + tile * TILE_BYTES;
    const int8_t *x = args->x + row * width + group * args->depth;
    __m512i sums[2][SUMS];
    for (int r = 0; r < count; r++)
        for (int i = 0; i < SUMS; i++) sums[r][i] = _mm512_set1_epi32(-excess[group * args->rows + row + r]);
    for (ptrdiff_t k = 0; k < args->depth; k += STEP) {
        __m512i low[STEP], high[STEP], columns[SUMS];
        for (int i = 0; i < STEP; i++) {
            const __m512i bytes = _mm512_maskz_loadu_epi8(kept, w + (k + i) * args->w_stride);
            low[i] = _mm512_xor_si512(_mm512_and_si512(bytes, nibble), eight);
            high[i] = _mm512_xor_si512(_mm512_and_si512(_mm512_srli_epi16(bytes, 4), nibble), eight);
        }
        interleave(low, columns);
        interleave(high, columns + 4);
        for (int r = 0; r < count; r++) {
            int32_t four;
            __builtin_memcpy(&four, x + r * width + k, sizeof four);
            const __m512i elements = _mm512_set1_epi32(four);
            for (int i = 0; i < SUMS; i++) sums[r][i] = _mm512_dpbusd_epi32(sums[r][i], columns[i], elements);
        }
    }
    for (int r = 0; r < count; r++) {
        int32_t *out = args->out + (group * args->rows + row + r) * args->columns + tile * TILE;
        for (int i = 0; i < 4; i++) {
            __m512i pairs[2] = {_mm512_unpacklo_epi32(sums[r][i], sums[r][i + 4]),
                                _mm512_unpackhi_epi32(sums[r][i], sums[r][i + 4])};
            int32_t stored[2][16];
            _mm512_storeu_si512(stored[0], pairs[0]);
            _mm512_storeu_si512(stored[1], pairs[1]);
            for (int quarter = 0; quarter < 4; quarter++)
                for (int half = 0; half < 2; half++) {
                    const ptrdiff_t column = 32 * quarter + 8 * i + 4 * half;
                    if (tile * TILE + column < args->columns)
                        __builtin_memcpy(out + column, stored[half] + 4 * quarter, 4 * sizeof(int32_t));
                }
        }
    }
}

VNNI static void multiply_tile(const struct tiles *all, ptrdiff_t tile)
{
    const struct product *args = all->args;
    for (ptrdiff_t group = 0; group < args->groups; group++) {
        ptrdiff_t row = 0;
        for (; row + 2 <= args->rows; row += 2) add_rows(args, tile, group, row, 2, all->excess);
        if (row < args->rows)
            add_rows(args, tile, group, row, 1, all->excess);
    }
}

static void work(void *shared)
{
    struct tiles *all = shared;
    for (;;) {
        const ptrdiff_t tile = __atomic_fetch_add(&all->taken, 1, __ATOMIC_RELAXED);
        if (tile >= all->count)
            return;
        multiply_tile(all, tile);
    }
}

SHOWN int graph_quant_int4_product_serves(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

/* Returns 0, or 1 if memory is short. */
SHOWN int graph_quant_int4_product(const struct product *args, parallel in_threads, int threads)
{
    const ptrdiff_t width = args->groups * args->depth;
    int32_t *excess = malloc((size_t)(args->groups * args->rows) * sizeof *excess);
    if (!excess)
        return 1;
    for (ptrdiff_t group = 0; group < args->groups; group++)
        for (ptrdiff_t row = 0; row < args->rows; row++) {
            int32_t sum = 0;
            for (ptrdiff_t k = 0; k < args->depth; k++) sum += args->x[row * width + group * args->depth + k];
            excess[group * args->rows + row] = 8 * sum;
        }
    struct tiles all = {.args = args, .excess = excess, .count = (args->columns + TILE - 1) / TILE};
    if (in_threads && threads > 1)
        in_threads(work, &all, (unsigned)threads, 0);
    else
        work(&all);
    free(excess);
    return 0;
}

#endif
