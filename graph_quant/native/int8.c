/* The exact product of int8 matrices by the dot products of AVX-512 VNNI, x1 (m, k) and x2 (n, k), k side by side.

These instructions take unsigned bytes on one side. 128 is added to the bytes of x2, which adds 128 times the sum of a
row of x1 to each result and is subtracted again. x2 is read in its own layout. Sums wrap as int32 does.

Few rows are read in their own layout as well: a vector is 64 steps of depth of one row or column, and its lanes are summed
at the end. Many rows are packed first: a vector is sixteen rows with four steps of depth each, and is multiplied by four
steps of a column in all its lanes, so that no lanes have to be summed.

Results are int32, or the half-precision number nearest to ((float)sum * scale[n] * row_scale[m] + bias[n]), each step
rounded to float32. The compiler must not fuse the product and the sum of that: -ffp-contract=off. */

#include <stdlib.h>

#include "vectors.h"

struct product {
    const int8_t *x1, *x2;
    ptrdiff_t x1_stride, x2_stride, rows, columns, depth;
    void *out;
    const float *scale, *row_scale, *bias; /* for half-precision results; the last two may be null */
    int32_t output;
    int32_t scale_step; /* 0 where one scale is for all columns */
};

#ifdef HAS_VECTORS

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
/* For few rows: 24 sums, 4 columns and a row of a tile stay in the 32 registers. */
enum { TILE_ROWS = 6, TILE_COLUMNS = 4 };
/* For many rows: a panel has sixteen rows, a tile 8 columns by 3 panels; 32 columns of 16 bits fill a cache line. */
enum { TILE_PANELS = 3, PANEL_COLUMNS = 8, LINE = 32 };
/* Columns of a block for few rows; bytes of x1 that fit the L2 cache, for few rows and for many. */
enum { BLOCK_COLUMNS = 64, BLOCK_BYTES = 384 << 10, PANELS_BYTES = 768 << 10 };
/* Prefetch distance for a single row; depth up to which the next columns fit the L1 cache. */
enum { AHEAD = 8192, SHALLOW = 2048 };

/* Inline assembly, because compilers spill half of the sums when they allocate the registers. */
#define DOT(sum, unsigned_bytes, bytes) \
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(bytes))

VNNI static inline __m512i paired(__m512i a, __m512i b)
{
    return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

/* The totals of four vectors. */
VNNI static inline __m128i totals(const __m512i *sums)
{
    __m512i one = paired(sums[0], sums[1]), other = paired(sums[2], sums[3]);
    __m512i four = _mm512_add_epi32(_mm512_unpacklo_epi64(one, other), _mm512_unpackhi_epi64(one, other));
    __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(four), _mm512_extracti64x4_epi64(four, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

#define ROW(i) ((i) < 3 ? x1 + (i) * x1_stride : later_rows + ((i) - 3) * x1_stride)
#define COLUMN(j) ((j) < 3 ? x2 + (j) * x2_stride : last_column)
#define STEP(load) \
    do { \
        __m512i columns[TILE_COLUMNS]; \
        UNROLLED for (int j = 0; j < TILE_COLUMNS; j++) columns[j] = _mm512_xor_si512(load(COLUMN(j)), sign); \
        UNROLLED for (int i = 0; i < ROWS; i++) { \
            __m512i row = load(ROW(i)); \
            UNROLLED for (int j = 0; j < TILE_COLUMNS; j++) DOT(sums[i][j], columns[j], row); \
        } \
    } while (0)
#define WHOLE(at) _mm512_loadu_si512(at)
#define PART(at) _mm512_maskz_loadu_epi8(rest, at)

/* A tile of `rows` rows; memory `next` bytes after its columns is prefetched. */
#define TILE(count) \
    VNNI static void tile_##count(const int8_t *x1, ptrdiff_t x1_stride, const int8_t *x2, ptrdiff_t x2_stride, \
                                  ptrdiff_t depth, ptrdiff_t next, const int32_t *excess, int32_t *out, \
                                  ptrdiff_t out_stride, __mmask8 kept) \
    { \
        enum { ROWS = count }; \
        __m512i sums[ROWS][TILE_COLUMNS]; \
        const __m512i sign = _mm512_set1_epi8((char)0x80); \
        const int8_t *later_rows = x1 + 3 * x1_stride, *last_column = x2 + 3 * x2_stride; \
        UNROLLED for (int i = 0; i < ROWS; i++) \
            UNROLLED for (int j = 0; j < TILE_COLUMNS; j++) sums[i][j] = _mm512_setzero_si512(); \
        for (; depth >= 64; depth -= 64, x1 += 64, later_rows += 64, x2 += 64, last_column += 64) { \
            UNROLLED for (int j = 0; j < TILE_COLUMNS; j++) _mm_prefetch(COLUMN(j) + next, _MM_HINT_T0); \
            STEP(WHOLE); \
        } \
        if (depth > 0) { \
            const __mmask64 rest = ~0ull >> (64 - depth); \
            STEP(PART); \
        } \
        UNROLLED for (int i = 0; i < ROWS; i++) \
            _mm_mask_storeu_epi32(out + i * out_stride, kept, \
                                  _mm_sub_epi32(totals(sums[i]), _mm_set1_epi32(excess[i]))); \
    }

TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)

/* One row by the four columns of a tile, one after the other: memory that is read only once is read in order. */
VNNI static void single_row(const int8_t *x1, const int8_t *x2, ptrdiff_t x2_stride, ptrdiff_t depth, int32_t excess,
                            int32_t *out)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    __m512i sums[TILE_COLUMNS];
    for (int j = 0; j < TILE_COLUMNS; j++, x2 += x2_stride) {
        __m512i part[4];
        UNROLLED for (int i = 0; i < 4; i++) part[i] = _mm512_setzero_si512();
        ptrdiff_t k = 0;
        for (; k + 256 <= depth; k += 256) {
            UNROLLED for (int i = 0; i < 4; i++) {
                _mm_prefetch(x2 + k + 64 * i + AHEAD, _MM_HINT_T0);
                DOT(part[i], _mm512_xor_si512(WHOLE(x2 + k + 64 * i), sign), WHOLE(x1 + k + 64 * i));
            }
        }
        for (; k < depth; k += 64) {
            const __mmask64 rest = depth - k >= 64 ? ~0ull : ~0ull >> (64 - (depth - k));
            DOT(part[0], _mm512_xor_si512(PART(x2 + k), sign), PART(x1 + k));
        }
        sums[j] = _mm512_add_epi32(_mm512_add_epi32(part[0], part[1]), _mm512_add_epi32(part[2], part[3]));
    }
    _mm_storeu_si128((__m128i *)out, _mm_sub_epi32(totals(sums), _mm_set1_epi32(excess)));
}

typedef void (*tile)(const int8_t *, ptrdiff_t, const int8_t *, ptrdiff_t, ptrdiff_t, ptrdiff_t, const int32_t *,
                     int32_t *, ptrdiff_t, __mmask8);
static const tile TILES[] = {tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};

VNNI static int32_t excess_of(const int8_t *row, ptrdiff_t depth)
{
    const __m512i high = _mm512_set1_epi8((char)128);
    __m512i sum = _mm512_setzero_si512();
    for (; depth >= 64; depth -= 64, row += 64)
        DOT(sum, high, _mm512_loadu_si512(row));
    if (depth > 0)
        DOT(sum, high, _mm512_maskz_loadu_epi8(~0ull >> (64 - depth), row));
    return _mm512_reduce_add_epi32(sum);
}

/* The results of a row from its sums. */
VNNI static void rescale(const struct product *args, const int32_t *sums, ptrdiff_t row, ptrdiff_t start,
                         ptrdiff_t stop)
{
    uint16_t *out = (uint16_t *)args->out + row * args->columns;
    for (ptrdiff_t n = start; n < stop; n += LANES, sums += LANES) {
        const __mmask16 kept = first_lanes(stop - n);
        __m512 values = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(kept, sums));
        __m512 scale = args->scale_step ? _mm512_maskz_loadu_ps(kept, args->scale + n)
                                         : _mm512_set1_ps(args->scale[0]);
        values = _mm512_mul_ps(values, scale);
        if (args->row_scale)
            values = _mm512_mul_ps(values, _mm512_set1_ps(args->row_scale[row]));
        if (args->bias)
            values = _mm512_add_ps(values, _mm512_maskz_loadu_ps(kept, args->bias + n));
        store_shorts(out + n, kept, halves(values, args->output));
    }
}

/* The blocks of a thread, processed from `taken` on. A thread that has finished its own takes those of others. Each
share has its own cache line, because threads write to it. */
struct share {
    ptrdiff_t taken, end;
} __attribute__((aligned(64)));

struct job {
    const struct product *args;
    int threads;
    ptrdiff_t block_rows, block_columns, blocks_down, blocks_across, started;
    struct share *shares; /* of each thread */
    const int32_t *excess; /* of each row, for few rows */
    int8_t *scratch;          /* for the packed rows of a block of each thread, for many rows */
    ptrdiff_t scratch_per_thread;
};

/* A block of the result: `rows` rows from `top`, and columns from `left` to `right`. */
struct block {
    ptrdiff_t top, rows, left, right;
};

static struct block block_at(const struct job *job, ptrdiff_t number)
{
    const struct product *args = job->args;
    struct block block = {.top = number / job->blocks_across * job->block_rows,
                          .left = number % job->blocks_across * job->block_columns};
    block.rows = args->rows - block.top < job->block_rows ? args->rows - block.top : job->block_rows;
    const ptrdiff_t left_over = args->columns - block.left;
    block.right = left_over < job->block_columns ? args->columns : block.left + job->block_columns;
    return block;
}

VNNI static void block_of_few(const struct job *job, struct block block)
{
    const struct product *args = job->args;
    const ptrdiff_t left = block.left, right = block.right;
    const ptrdiff_t tiles = (block.rows + TILE_ROWS - 1) / TILE_ROWS;
    const ptrdiff_t next = args->depth <= SHALLOW ? TILE_COLUMNS * args->x2_stride : 0;
    int32_t sums[TILE_ROWS * BLOCK_COLUMNS];
    for (ptrdiff_t t = 0; t < tiles; t++) {
        const ptrdiff_t row = block.top + block.rows * t / tiles;
        const ptrdiff_t count = block.top + block.rows * (t + 1) / tiles - row;
        int32_t *out = args->output == INT32 ? (int32_t *)args->out + row * args->columns + left : sums;
        const ptrdiff_t out_stride = args->output == INT32 ? args->columns : BLOCK_COLUMNS;
        for (ptrdiff_t n = left; n < right; n += TILE_COLUMNS) {
            const ptrdiff_t width = right - n < TILE_COLUMNS ? right - n : TILE_COLUMNS;
            const int8_t *columns = args->x2 + n * args->x2_stride;
            if (width == TILE_COLUMNS && args->rows == 1)
                single_row(args->x1, columns, args->x2_stride, args->depth, job->excess[0], out + (n - left));
            else if (width == TILE_COLUMNS)
                TILES[count - 1](args->x1 + row * args->x1_stride, args->x1_stride, columns, args->x2_stride,
                                 args->depth, next, job->excess + row, out + (n - left), out_stride, 0xf);
            else /* one column four times, of which the first result is used: there are no others to read */
                for (ptrdiff_t j = 0; j < width; j++)
                    TILES[count - 1](args->x1 + row * args->x1_stride, args->x1_stride,
                                     columns + j * args->x2_stride, 0, args->depth, 0, job->excess + row,
                                     out + (n - left) + j, out_stride, 1);
        }
        if (args->output != INT32)
            for (ptrdiff_t i = 0; i < count; i++)
                rescale(args, sums + i * BLOCK_COLUMNS, row + i, left, right);
    }
}

/* Packs up to sixteen rows, a vector every `step` bytes, and sums their excess. */
VNNI static void lay_out(const int8_t *x1, ptrdiff_t x1_stride, ptrdiff_t rows, ptrdiff_t depth, int8_t *panel,
                         ptrdiff_t step, int32_t *excess)
{
    const __m512i high = _mm512_set1_epi8((char)128);
    __m512i sum = _mm512_setzero_si512();
    for (; depth > 0; depth -= 64, x1 += 64) {
        const __mmask64 rest = depth >= 64 ? ~0ull : ~0ull >> (64 - depth);
        __m512i v[LANES];
        UNROLLED16 for (int i = 0; i < LANES; i++) v[i] = i < rows ? PART(x1 + i * x1_stride) : _mm512_setzero_si512();
        transpose(v);
        UNROLLED16 for (int i = 0; i < LANES; i++) {
            if (4 * i >= depth)
                break;
            DOT(sum, high, v[i]);
            _mm512_store_si512(panel, v[i]);
            panel += step;
        }
    }
    _mm512_store_si512(excess, sum);
}

typedef int32_t word __attribute__((may_alias, aligned(1)));

static inline int32_t last_bytes(const int8_t *at, ptrdiff_t count)
{
    uint32_t bytes = 0;
    for (ptrdiff_t i = 0; i < count; i++)
        bytes |= (uint32_t)(uint8_t)at[i] << 8 * i;
    return (int32_t)bytes;
}

#define PANELS_STEP(bytes) \
    do { \
        __m512i rows[COUNT]; \
        UNROLLED for (int i = 0; i < COUNT; i++) rows[i] = _mm512_load_si512(panels + i * 64); \
        UNROLLED for (int j = 0; j < PANEL_COLUMNS; j++) { \
            __m512i column = _mm512_xor_si512(_mm512_set1_epi32(bytes), sign); \
            UNROLLED for (int i = 0; i < COUNT; i++) DOT(sums[i][j], column, rows[i]); \
        } \
        panels += COUNT * 64; \
    } while (0)

/* `panels` panels by eight columns; memory `next` bytes after these is prefetched. */
#define PANELS(count) \
    VNNI static void panels_##count(const int8_t *panels, const int32_t *excess, const int8_t *const *columns, \
                                    ptrdiff_t depth, ptrdiff_t next, int32_t *out) \
    { \
        enum { COUNT = count }; \
        __m512i sums[COUNT][PANEL_COLUMNS]; \
        const int8_t *x2[PANEL_COLUMNS]; \
        const __m512i sign = _mm512_set1_epi8((char)0x80); \
        ptrdiff_t k = 0; \
        UNROLLED for (int j = 0; j < PANEL_COLUMNS; j++) x2[j] = columns[j]; \
        UNROLLED for (int i = 0; i < COUNT; i++) \
            UNROLLED for (int j = 0; j < PANEL_COLUMNS; j++) \
                sums[i][j] = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_load_si512(excess + i * LANES)); \
        while (k + 64 <= depth) { \
            if (next) \
                UNROLLED for (int j = 0; j < PANEL_COLUMNS; j++) _mm_prefetch(x2[j] + k + next, _MM_HINT_T1); \
            for (const ptrdiff_t stop = k + 64; k < stop; k += 4) \
                PANELS_STEP(*(const word *)(x2[j] + k)); \
        } \
        for (; k + 4 <= depth; k += 4) \
            PANELS_STEP(*(const word *)(x2[j] + k)); \
        if (k < depth) \
            PANELS_STEP(last_bytes(x2[j] + k, depth - k)); \
        UNROLLED for (int i = 0; i < COUNT; i++) \
            UNROLLED for (int j = 0; j < PANEL_COLUMNS; j++) \
                _mm512_store_si512(out + (i * LINE + j) * LANES, sums[i][j]); \
    }

PANELS(1)
PANELS(2)
PANELS(3)

typedef void (*panels)(const int8_t *, const int32_t *, const int8_t *const *, ptrdiff_t, ptrdiff_t, int32_t *);
static const panels PANELS_OF[] = {panels_1, panels_2, panels_3};

/* Sixteen rows of a column, rescaled. */
VNNI static inline __m512i rescaled(const struct product *args, const int32_t *sums, __m512 row_scale, ptrdiff_t n)
{
    __m512 values = _mm512_cvtepi32_ps(_mm512_load_si512(sums));
    values = _mm512_mul_ps(values, _mm512_set1_ps(args->scale[n * args->scale_step]));
    if (args->row_scale)
        values = _mm512_mul_ps(values, row_scale);
    if (args->bias)
        values = _mm512_add_ps(values, _mm512_set1_ps(args->bias[n]));
    return halves(values, args->output);
}

/* Stores `rows` rows of a panel and `width` columns from n of it; sums are column-major. */
VNNI static void store(const struct product *args, const int32_t *sums, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t n,
                       ptrdiff_t width)
{
    const __mmask32 kept = ~0u >> (LINE - width);
    __m512i v[LANES];
    if (args->output == INT32) {
        for (int half = 0; half < LINE; half += LANES) {
            UNROLLED16 for (int j = 0; j < LANES; j++) v[j] = _mm512_load_si512(sums + (half + j) * LANES);
            transpose(v);
            int32_t *out = (int32_t *)args->out + row * args->columns + n + half;
            UNROLLED16 for (int i = 0; i < LANES; i++) {
                if (i < rows)
                    _mm512_mask_storeu_epi32(out + i * args->columns, (__mmask16)(kept >> half), v[i]);
            }
        }
        return;
    }
    const __mmask16 all = (__mmask16)(0xffffu >> (LANES - rows));
    const __m512 row_scale = args->row_scale ? _mm512_maskz_loadu_ps(all, args->row_scale + row) : _mm512_setzero_ps();
    UNROLLED16 for (int j = 0; j < LANES; j++) {
        const ptrdiff_t one = 2 * j < width ? 2 * j : 0, other = 2 * j + 1 < width ? 2 * j + 1 : 0;
        v[j] = _mm512_or_si512(rescaled(args, sums + one * LANES, row_scale, n + one),
                               _mm512_slli_epi32(rescaled(args, sums + other * LANES, row_scale, n + other), 16));
    }
    transpose(v);
    uint16_t *out = (uint16_t *)args->out + row * args->columns + n;
    UNROLLED16 for (int i = 0; i < LANES; i++) {
        if (i < rows)
            _mm512_mask_storeu_epi16(out + i * args->columns, kept, v[i]);
    }
}

/* How the panels of a block are divided into tiles: `count` of them from `first` for each tile. */
#define FOR_TILES(rows) \
    for (ptrdiff_t all = ((rows) + LANES - 1) / LANES, tiles = (all + TILE_PANELS - 1) / TILE_PANELS, t = 0, first = 0, \
                   count = all / tiles; \
         t < tiles; t++, first += count, count = all * (t + 1) / tiles - first)

VNNI static void block_of_many(const struct job *job, struct block block, const int8_t *scratch)
{
    const struct product *args = job->args;
    const int32_t *excess = (const int32_t *)scratch;
    const ptrdiff_t panel = (args->depth + 3) / 4 * 64;
    const ptrdiff_t n = block.left, width = block.right - n;
    const ptrdiff_t next = LINE * args->x2_stride;
    int32_t sums[TILE_PANELS * LINE * LANES] __attribute__((aligned(64)));
    scratch += job->block_rows * sizeof *excess;
    FOR_TILES(block.rows) {
        for (ptrdiff_t j = 0; j < width; j += PANEL_COLUMNS) {
            const int8_t *columns[PANEL_COLUMNS];
            for (ptrdiff_t i = 0; i < PANEL_COLUMNS; i++)
                columns[i] = args->x2 + (n + (j + i < width ? j + i : j)) * args->x2_stride;
            PANELS_OF[count - 1](scratch + first * panel, excess + first * LANES, columns, args->depth, t ? 0 : next,
                                 sums + j * LANES);
        }
        for (ptrdiff_t p = 0; p < count; p++) {
            const ptrdiff_t row = (first + p) * LANES, rows = block.rows - row < LANES ? block.rows - row : LANES;
            store(args, sums + p * LINE * LANES, block.top + row, rows, n, width);
        }
    }
}

/* Packs the rows of a block: their excess, then their panels. */
VNNI static void lay_out_rows(const struct job *job, struct block block, int8_t *scratch)
{
    const struct product *args = job->args;
    const ptrdiff_t panel = (args->depth + 3) / 4 * 64;
    int32_t *excess = (int32_t *)scratch;
    scratch += job->block_rows * sizeof *excess;
    FOR_TILES(block.rows) {
        for (ptrdiff_t p = 0; p < count; p++) {
            const ptrdiff_t row = (first + p) * LANES;
            lay_out(args->x1 + (block.top + row) * args->x1_stride, args->x1_stride, block.rows - row, args->depth,
                    scratch + first * panel + p * 64, count * 64, excess + row);
        }
    }
}

/* The index of an unprocessed block, a thread's own first; -1 if there is none. */
static ptrdiff_t next_block(struct job *job, ptrdiff_t thread)
{
    for (ptrdiff_t i = 0; i < job->threads; i++) {
        struct share *share = job->shares + (thread + i) % job->threads;
        if (__atomic_load_n(&share->taken, __ATOMIC_RELAXED) >= share->end)
            continue;
        const ptrdiff_t number = __atomic_fetch_add(&share->taken, 1, __ATOMIC_RELAXED);
        if (number < share->end)
            return number;
    }
    return -1;
}

/* The work of a thread. Each thread packs rows for itself: that is faster than waiting for others, and keeps them in
its own cache. */
static void work(void *shared)
{
    struct job *job = shared;
    const ptrdiff_t thread = __atomic_fetch_add(&job->started, 1, __ATOMIC_RELAXED);
    int8_t *scratch = job->scratch ? job->scratch + thread * job->scratch_per_thread : NULL;
    ptrdiff_t laid_out = -1;
    for (;;) {
        const ptrdiff_t number = next_block(job, thread);
        if (number < 0)
            return;
        const struct block block = block_at(job, number);
        if (!scratch) {
            block_of_few(job, block);
            continue;
        }
        if (block.top != laid_out)
            lay_out_rows(job, block, scratch);
        laid_out = block.top;
        block_of_many(job, block, scratch);
    }
}

SHOWN int graph_quant_int8_product_serves(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

/* Returns 0, or 1 if memory is short. */
SHOWN int graph_quant_int8_product(const struct product *args, parallel in_threads, int threads)
{
    if (args->rows <= 0 || args->columns <= 0)
        return 0;
    /* Rows that fill at least three quarters of their panels. */
    const int many = 4 * args->rows >= 3 * LANES * ((args->rows + LANES - 1) / LANES);
    const ptrdiff_t depth = args->depth > 4 ? (args->depth + 3) / 4 * 4 : 4;
    const ptrdiff_t fitting = many ? PANELS_BYTES / depth / LANES * LANES : BLOCK_BYTES / depth;
    const ptrdiff_t least = many ? LANES : TILE_ROWS;
    struct job job = {.args = args, .threads = in_threads ? threads : 1};
    job.block_rows = fitting < least ? least : fitting;
    job.block_columns = many ? LINE : BLOCK_COLUMNS;
    job.blocks_down = (args->rows + job.block_rows - 1) / job.block_rows;
    job.blocks_across = (args->columns + job.block_columns - 1) / job.block_columns;
    const ptrdiff_t blocks = job.blocks_down * job.blocks_across;
    struct share shares[job.threads];
    for (ptrdiff_t i = 0; i < job.threads; i++)
        shares[i] = (struct share){.taken = blocks * i / job.threads, .end = blocks * (i + 1) / job.threads};
    job.shares = shares;
    int32_t *excess = NULL;
    if (many) {
        const ptrdiff_t rows = (args->rows + job.blocks_down - 1) / job.blocks_down;
        job.block_rows = (rows + LANES - 1) / LANES * LANES;
        job.scratch_per_thread = job.block_rows * (depth + (ptrdiff_t)sizeof *excess);
        job.scratch = aligned_alloc(64, (size_t)(job.scratch_per_thread * job.threads));
        if (!job.scratch)
            return 1;
    } else {
        excess = malloc((size_t)args->rows * sizeof *excess);
        if (!excess)
            return 1;
        for (ptrdiff_t row = 0; row < args->rows; row++)
            excess[row] = excess_of(args->x1 + row * args->x1_stride, args->depth);
        job.excess = excess;
    }
    if (job.threads > 1)
        in_threads(work, &job, (unsigned)job.threads, 0);
    else
        work(&job);
    free(excess);
    free(job.scratch);
    return 0;
}

#endif
