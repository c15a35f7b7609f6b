/* Products of half-precision matrices by AVX-512: x1 (m, k) and x2 (k, n), batches of them, accumulated in float32.

The products of two elements are exact in float32, down to subnormal ones. A result is a function of its row, its column
and the depth alone, not of the number of rows, columns and threads, nor of strides. Its depth is split into blocks of
1024. In a block, 16 sums are accumulated by fused multiply-add: sum i adds products 2i + 1 and then 2i of every 32 for
bfloat16, products i and then 16 + i for float16. The sums are added pairwise: lanes 8 apart, 4 apart, 2 apart, 1 apart.
The totals of the blocks are added one after the other, then the bias, and the result is rounded once.

The dot products of AVX-512 BF16 compute the same, but take subnormal numbers for zero. Where a total is so small that
this could matter, it is computed again without them.

x2 is read in its own layout if its depth is contiguous, which is how linear layers store weights. Other layouts are
transposed block by block in the cache. x1 is converted to float32 a few rows at a time. */

#include <stdlib.h>
#include <string.h>

#include "vectors.h"

/* Strides are in elements; that of x1's depth is 1, and so is one of x2's. */
struct product {
    const uint16_t *x1, *x2;
    void *out;
    const float *bias; /* of each column; may be null */
    ptrdiff_t x1_batch, x1_row, x2_batch, x2_depth, x2_column, out_batch, out_row, out_column;
    ptrdiff_t batches, rows, columns, depth;
    int32_t kind, output; /* output is of the same kind, or float32 */
    int32_t uses_dots;    /* whether the dot products of AVX-512 BF16 may be used */
};

#ifdef HAS_VECTORS

/* 24 sums, 4 columns and a row of a tile stay in the 32 registers. */
enum { TILE_ROWS = 6, TILE_COLUMNS = 4 };
/* Elements of a step: a vector of halves. Six rows of a depth block in float32 fill half of the L1 cache. */
enum { STEP = 32, BLOCK_DEPTH = 1024 };
/* Rows and columns of a block. Its columns of a depth block take 256 KiB of the L2 cache. A row of its totals ends with
some that are not used: a tile writes four. */
enum { BLOCK_ROWS = 192, BLOCK_COLUMNS = 128, LEAST_COLUMNS = 8, ROW_SUMS = BLOCK_COLUMNS + LANES };
/* Steps of depth ahead that are prefetched before columns are transposed. */
enum { AHEAD = 64 };

/* The two vectors of a step, of which the first is added first. */
#define FIRST_BFLOAT16(at) \
    _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(at), _mm512_set1_epi32((int)0xffff0000)))
#define SECOND_BFLOAT16(at) _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(at), 16))
#define FIRST_FLOAT16(at) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(at)))
#define SECOND_FLOAT16(at) _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)((at) + LANES)))

/* Inline assembly, because compilers spill some of the sums when they allocate the registers. */
#define FMA(sum, row, column) __asm__("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(column))

/* Adds the halves of two vectors, lanes 8 apart: those of the first, then those of the second. */
AVX512 static inline __m512 add_eights(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
}

/* Adds lanes 4 apart of two such results: four lanes of 128 bits, one for each vector. */
AVX512 static inline __m512 add_fours(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* Adds elements 2 apart, and 1 apart, in lanes of 128 bits. */
AVX512 static inline __m512 add_twos(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
}

AVX512 static inline __m512 add_ones(__m512 a, __m512 b)
{
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* Writes the totals of a row of a tile. */
AVX512 static inline void store_one(const __m512 *sums, float *out)
{
    const __m512 fours = add_fours(add_eights(sums[0], sums[1]), add_eights(sums[2], sums[3]));
    const __m128 parts[] = {_mm512_castps512_ps128(fours), _mm512_extractf32x4_ps(fours, 1),
                            _mm512_extractf32x4_ps(fours, 2), _mm512_extractf32x4_ps(fours, 3)};
    const __m128 low = _mm_add_ps(_mm_movelh_ps(parts[0], parts[1]), _mm_movehl_ps(parts[1], parts[0]));
    const __m128 high = _mm_add_ps(_mm_movelh_ps(parts[2], parts[3]), _mm_movehl_ps(parts[3], parts[2]));
    _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xdd)));
}

/* Those of two rows. */
AVX512 static inline void store_two(__m512 sums[][TILE_COLUMNS], float *out)
{
    const __m512 left = add_fours(add_eights(sums[0][0], sums[1][0]), add_eights(sums[0][1], sums[1][1]));
    const __m512 right = add_fours(add_eights(sums[0][2], sums[1][2]), add_eights(sums[0][3], sums[1][3]));
    const __m512 twos = add_twos(left, right), ones = add_ones(twos, twos);
    const __m256 even = _mm512_castps512_ps256(ones), odd = _mm512_extractf32x8_ps(ones, 1);
    const __m256 rows = _mm256_unpacklo_ps(even, odd);
    _mm_storeu_ps(out, _mm256_castps256_ps128(rows));
    _mm_storeu_ps(out + ROW_SUMS, _mm256_extractf128_ps(rows, 1));
}

/* Those of four rows. */
AVX512 static inline void store_four(__m512 sums[][TILE_COLUMNS], float *out)
{
    __m512 columns[TILE_COLUMNS];
    UNROLLED for (int j = 0; j < TILE_COLUMNS; j++)
        columns[j] = add_fours(add_eights(sums[0][j], sums[1][j]), add_eights(sums[2][j], sums[3][j]));
    const __m512 rows = add_ones(add_twos(columns[0], columns[1]), add_twos(columns[2], columns[3]));
    _mm_storeu_ps(out, _mm512_castps512_ps128(rows));
    _mm_storeu_ps(out + ROW_SUMS, _mm512_extractf32x4_ps(rows, 1));
    _mm_storeu_ps(out + 2 * ROW_SUMS, _mm512_extractf32x4_ps(rows, 2));
    _mm_storeu_ps(out + 3 * ROW_SUMS, _mm512_extractf32x4_ps(rows, 3));
}

#define STORE_TOTALS \
    do { \
        enum { DONE = ROWS >= 4 ? 4 : 0 }; \
        if (ROWS >= 4) \
            store_four(sums, out); \
        if (ROWS - DONE >= 2) \
            store_two(sums + DONE, out + DONE * ROW_SUMS); \
        if (ROWS % 2) \
            store_one(sums[ROWS - 1], out + (ROWS - 1) * ROW_SUMS); \
    } while (0)

#define PREFETCH_COLUMNS \
    do { \
        _mm_prefetch(x2 + next, _MM_HINT_T0); \
        _mm_prefetch(x2 + x2_column + next, _MM_HINT_T0); \
        _mm_prefetch(x2 + 2 * x2_column + next, _MM_HINT_T0); \
        _mm_prefetch(last + next, _MM_HINT_T0); \
    } while (0)

#define HALF_STEP(vector, half) \
    do { \
        __m512 columns[TILE_COLUMNS]; \
        columns[0] = vector(x2), columns[1] = vector(x2 + x2_column); \
        columns[2] = vector(x2 + 2 * x2_column), columns[3] = vector(last); \
        UNROLLED for (int i = 0; i < ROWS; i++) { \
            const __m512 row = _mm512_load_ps(x1 + i * STEP + (half) * LANES); \
            UNROLLED for (int j = 0; j < TILE_COLUMNS; j++) FMA(sums[i][j], row, columns[j]); \
        } \
    } while (0)

/* Writes the totals of some rows by four columns over a number of steps, and prefetches what is `next` elements after
these columns. */
#define TILE(count, kind) \
    AVX512 static void tile_##kind##_##count(const float *x1, const uint16_t *x2, ptrdiff_t x2_column, \
                                             ptrdiff_t steps, ptrdiff_t next, float *out) \
    { \
        enum { ROWS = count }; \
        __m512 sums[ROWS][TILE_COLUMNS]; \
        const uint16_t *last = x2 + 3 * x2_column; \
        UNROLLED for (int i = 0; i < ROWS; i++) \
            UNROLLED for (int j = 0; j < TILE_COLUMNS; j++) sums[i][j] = _mm512_setzero_ps(); \
        for (; steps > 0; steps--, x1 += ROWS * STEP, x2 += STEP, last += STEP) { \
            PREFETCH_COLUMNS; \
            HALF_STEP(FIRST_##kind, 0); \
            HALF_STEP(SECOND_##kind, 1); \
        } \
        STORE_TOTALS; \
    }

#define DOT(sum, row, column) __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(row), "v"(column))

/* The same by dot products of rows of bfloat16. */
#define DOT_TILE(count) \
    AVX512 static void tile_DOT_##count(const float *rows, const uint16_t *x2, ptrdiff_t x2_column, ptrdiff_t steps, \
                                        ptrdiff_t next, float *out) \
    { \
        enum { ROWS = count }; \
        __m512 sums[ROWS][TILE_COLUMNS]; \
        const uint16_t *x1 = (const uint16_t *)rows, *last = x2 + 3 * x2_column; \
        UNROLLED for (int i = 0; i < ROWS; i++) \
            UNROLLED for (int j = 0; j < TILE_COLUMNS; j++) sums[i][j] = _mm512_setzero_ps(); \
        for (; steps > 0; steps--, x1 += ROWS * STEP, x2 += STEP, last += STEP) { \
            __m512i columns[TILE_COLUMNS]; \
            PREFETCH_COLUMNS; \
            columns[0] = _mm512_loadu_si512(x2), columns[1] = _mm512_loadu_si512(x2 + x2_column); \
            columns[2] = _mm512_loadu_si512(x2 + 2 * x2_column), columns[3] = _mm512_loadu_si512(last); \
            UNROLLED for (int i = 0; i < ROWS; i++) { \
                const __m512i row = _mm512_load_si512(x1 + i * STEP); \
                UNROLLED for (int j = 0; j < TILE_COLUMNS; j++) DOT(sums[i][j], row, columns[j]); \
            } \
        } \
        STORE_TOTALS; \
    }

#define TILES(kind) \
    TILE(1, kind) TILE(2, kind) TILE(3, kind) TILE(4, kind) TILE(5, kind) TILE(6, kind) \
    static const tile TILES_##kind[] = {tile_##kind##_1, tile_##kind##_2, tile_##kind##_3, \
                                        tile_##kind##_4, tile_##kind##_5, tile_##kind##_6};

typedef void (*tile)(const float *, const uint16_t *, ptrdiff_t, ptrdiff_t, ptrdiff_t, float *);
TILES(BFLOAT16)
TILES(FLOAT16)
DOT_TILE(1) DOT_TILE(2) DOT_TILE(3) DOT_TILE(4) DOT_TILE(5) DOT_TILE(6)
static const tile TILES_DOT[] = {tile_DOT_1, tile_DOT_2, tile_DOT_3, tile_DOT_4, tile_DOT_5, tile_DOT_6};

/* A total of a depth block that is smaller than this times the largest element of its row, or than this alone, is
computed again: what dot products lose is less than the smallest normal number times these for each product, which is
2^24 times less. */
static const float SMALL = 0x1p-92f;

struct job {
    const struct product *args;
    ptrdiff_t block_columns, blocks_down, blocks_across, blocks, taken, started;
    char *scratch;
};

/* The memory of a thread: totals of a block, those of rows in one depth block and of a tile, rows in float32, and
columns that are not read where they are. */
struct scratch {
    float totals[BLOCK_ROWS * ROW_SUMS], sums[TILE_ROWS * ROW_SUMS], exact[TILE_ROWS * ROW_SUMS];
    float rows[TILE_ROWS * BLOCK_DEPTH], wide_rows[TILE_ROWS * BLOCK_DEPTH], small[LANES];
    uint16_t columns[BLOCK_COLUMNS * BLOCK_DEPTH];
} __attribute__((aligned(64)));

/* A block of the result. */
struct block {
    ptrdiff_t batch, top, rows, left, columns;
};

static inline ptrdiff_t least(ptrdiff_t a, ptrdiff_t b)
{
    return a < b ? a : b;
}

static inline ptrdiff_t steps_of(ptrdiff_t depth)
{
    return (depth + STEP - 1) / STEP;
}

/* Loads up to a step of halves, followed by zeros; masked loads are slow on some processors. */
#define LOAD_STEP(at, count) \
    ((count) >= STEP ? _mm512_loadu_si512(at) : _mm512_maskz_loadu_epi16(first_halves(count), at))

/* The mask of the first `count` halves of a vector. */
static inline __mmask32 first_halves(ptrdiff_t count)
{
    return count >= STEP ? ~0u : ~0u >> (STEP - count);
}

/* Converts rows to float32, in the order in which a tile reads them; zeros follow the depth. */
AVX512 static void widen_rows(const struct product *args, const uint16_t *x1, ptrdiff_t rows, ptrdiff_t depth,
                              float *out)
{
    for (ptrdiff_t k = 0; k < depth; k += STEP)
        for (ptrdiff_t i = 0; i < rows; i++, out += STEP) {
            const __m512i halves = LOAD_STEP(x1 + i * args->x1_row + k, depth - k);
            if (args->kind == FLOAT16) {
                _mm512_store_ps(out, _mm512_cvtph_ps(_mm512_castsi512_si256(halves)));
                _mm512_store_ps(out + LANES, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)));
            } else {
                _mm512_store_si512(out, _mm512_and_si512(halves, _mm512_set1_epi32((int)0xffff0000)));
                _mm512_store_si512(out + LANES, _mm512_slli_epi32(halves, 16));
            }
        }
}

/* Copies rows in the order in which a tile reads them, and sets the size below which a total is computed again. */
AVX512 static void copy_rows(const struct product *args, const uint16_t *x1, ptrdiff_t rows, ptrdiff_t depth,
                             uint16_t *out, float *small)
{
    for (ptrdiff_t i = 0; i < rows; i++) {
        __m512i largest = _mm512_setzero_si512();
        for (ptrdiff_t k = 0; k < depth; k += STEP) {
            const __m512i halves = LOAD_STEP(x1 + i * args->x1_row + k, depth - k);
            largest = _mm512_max_epu16(largest, _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff)));
            _mm512_store_si512(out + k * rows + i * STEP, halves);
        }
        const __m512i high = _mm512_srli_epi32(largest, 16);
        const __m512i low = _mm512_and_si512(largest, _mm512_set1_epi32(0xffff));
        const uint32_t bits = _mm512_reduce_max_epu32(_mm512_max_epu32(high, low)) << 16;
        float magnitude;
        memcpy(&magnitude, &bits, sizeof magnitude);
        small[i] = bits == 0 ? 0 : SMALL * (magnitude > 1 ? magnitude : 1);
    }
}

/* Transposes up to 32 columns of a step. A word of a vector is two elements of a column, one after the other in depth;
unpacking gives the words of columns 0 to 3 of every 8, and of columns 4 to 7. */
AVX512 static void transpose_step(const uint16_t *x2, ptrdiff_t x2_depth, ptrdiff_t depth, ptrdiff_t columns,
                                  uint16_t *out)
{
    const __mmask32 kept = first_halves(columns);
    const ptrdiff_t ahead = AHEAD * x2_depth;
    __m512i even[LANES], odd[LANES];
    UNROLLED16 for (int i = 0; i < LANES; i++) {
        const uint16_t *at = x2 + 2 * i * x2_depth;
        _mm_prefetch(at + ahead, _MM_HINT_T1);
        _mm_prefetch(at + x2_depth + ahead, _MM_HINT_T1);
        const __m512i low = _mm512_maskz_loadu_epi16(2 * i < depth ? kept : 0, at);
        const __m512i high = _mm512_maskz_loadu_epi16(2 * i + 1 < depth ? kept : 0, at + x2_depth);
        even[i] = _mm512_unpacklo_epi16(low, high), odd[i] = _mm512_unpackhi_epi16(low, high);
    }
    transpose(even);
    transpose(odd);
    UNROLLED16 for (int i = 0; i < LANES; i++) {
        const ptrdiff_t column = i / 4 * 8 + i % 4;
        if (column < columns)
            _mm512_store_si512(out + column * BLOCK_DEPTH, even[i]);
        if (column + 4 < columns)
            _mm512_store_si512(out + (column + 4) * BLOCK_DEPTH, odd[i]);
    }
}

static void transpose_columns(const uint16_t *x2, ptrdiff_t x2_depth, ptrdiff_t depth, ptrdiff_t columns,
                              uint16_t *out)
{
    for (ptrdiff_t k = 0; k < depth; k += STEP)
        for (ptrdiff_t j = 0; j < columns; j += STEP)
            transpose_step(x2 + k * x2_depth + j, x2_depth, depth - k, columns - j, out + j * BLOCK_DEPTH + k);
}

/* Copies columns of contiguous depth, followed by zeros. */
AVX512 static void copy_columns(const uint16_t *x2, ptrdiff_t x2_column, ptrdiff_t depth, ptrdiff_t columns,
                                uint16_t *out)
{
    for (ptrdiff_t j = 0; j < columns; j++)
        for (ptrdiff_t k = 0; k < depth; k += STEP)
            _mm512_store_si512(out + j * BLOCK_DEPTH + k,
                               LOAD_STEP(x2 + j * x2_column + k, depth - k));
}

/* The columns of rows of a block in a depth block, and how far the columns of the next tile are from those of one. */
struct columns {
    const uint16_t *at;
    ptrdiff_t column, count, steps, next;
};

/* Writes the totals of up to six rows by all columns of a block. */
static void multiply_rows(tile multiply, const float *rows, struct columns columns, float *out)
{
    ptrdiff_t n = 0;
    for (; n + TILE_COLUMNS <= columns.count; n += TILE_COLUMNS, columns.at += TILE_COLUMNS * columns.column)
        multiply(rows, columns.at, columns.column, columns.steps, columns.next, out + n);
    /* One column four times, of which the first result is used: there are no others to read. */
    for (; n < columns.count; n++, columns.at += columns.column)
        multiply(rows, columns.at, 0, columns.steps, 0, out + n);
}

/* The sums of 16 columns of a row that dot products may have computed wrongly. */
AVX512 static inline __mmask16 small_sums(const float *sums, float small)
{
    return _mm512_cmp_ps_mask(_mm512_abs_ps(_mm512_loadu_ps(sums)), _mm512_set1_ps(small), _CMP_NGE_UQ);
}

/* Computes small sums of dot products again, tile by tile. */
AVX512 static void repeat_small(const struct product *args, const uint16_t *x1, ptrdiff_t rows, ptrdiff_t depth,
                                struct columns columns, struct scratch *scratch, float *sums)
{
    int is_wide = 0;
    for (ptrdiff_t n = 0; n < columns.count; n += TILE_COLUMNS) {
        const ptrdiff_t count = least(TILE_COLUMNS, columns.count - n);
        __mmask16 again[TILE_ROWS], any = 0;
        for (ptrdiff_t i = 0; i < rows; i++)
            any |= again[i] = small_sums(sums + i * ROW_SUMS + n, scratch->small[i]) & first_lanes(count);
        if (!any)
            continue;
        if (!is_wide)
            widen_rows(args, x1, rows, depth, scratch->wide_rows);
        is_wide = 1;
        const struct columns few = {columns.at + n * columns.column, columns.column, count, columns.steps, 0};
        multiply_rows(TILES_BFLOAT16[rows - 1], scratch->wide_rows, few, scratch->exact);
        for (ptrdiff_t i = 0; i < rows; i++)
            _mm512_mask_storeu_ps(sums + i * ROW_SUMS + n, again[i], _mm512_loadu_ps(scratch->exact + i * ROW_SUMS));
    }
}

/* Writes the totals of up to six rows by dot products. */
AVX512 static void dot_rows(const struct product *args, const uint16_t *x1, ptrdiff_t rows, ptrdiff_t depth,
                            struct columns columns, struct scratch *scratch, float *sums)
{
    copy_rows(args, x1, rows, depth, (uint16_t *)scratch->rows, scratch->small);
    multiply_rows(TILES_DOT[rows - 1], scratch->rows, columns, sums);
    __mmask16 any = 0;
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t n = 0; n < columns.count; n += LANES)
            any |= small_sums(sums + i * ROW_SUMS + n, scratch->small[i]) & first_lanes(columns.count - n);
    if (any)
        repeat_small(args, x1, rows, depth, columns, scratch, sums);
}

AVX512 static void add_sums(float *totals, const float *sums, ptrdiff_t rows, ptrdiff_t columns)
{
    for (ptrdiff_t i = 0; i < rows; i++, totals += ROW_SUMS, sums += ROW_SUMS)
        for (ptrdiff_t n = 0; n < columns; n += LANES)
            _mm512_storeu_ps(totals + n, _mm512_add_ps(_mm512_loadu_ps(totals + n), _mm512_loadu_ps(sums + n)));
}

/* Adds the products of a depth block to the totals of a block. */
AVX512 static void add_depth(const struct product *args, struct block block, ptrdiff_t start, ptrdiff_t depth,
                             struct scratch *scratch)
{
    const uint16_t *x1 = args->x1 + block.batch * args->x1_batch + block.top * args->x1_row + start;
    const uint16_t *x2 =
        args->x2 + block.batch * args->x2_batch + start * args->x2_depth + block.left * args->x2_column;
    struct columns columns = {x2, args->x2_column, block.columns, steps_of(depth), 0};
    if (args->x2_depth != 1 || depth % STEP) {
        if (args->x2_depth == 1)
            copy_columns(x2, args->x2_column, depth, block.columns, scratch->columns);
        else
            transpose_columns(x2, args->x2_depth, depth, block.columns, scratch->columns);
        columns.at = scratch->columns, columns.column = BLOCK_DEPTH;
    }
    columns.next = TILE_COLUMNS * columns.column;
    const ptrdiff_t parts = (block.rows + TILE_ROWS - 1) / TILE_ROWS;
    for (ptrdiff_t part = 0; part < parts; part++) {
        const ptrdiff_t row = block.rows * part / parts, rows = block.rows * (part + 1) / parts - row;
        const uint16_t *part_rows = x1 + row * args->x1_row;
        float *totals = scratch->totals + row * ROW_SUMS, *sums = start == 0 ? totals : scratch->sums;
        if (args->uses_dots)
            dot_rows(args, part_rows, rows, depth, columns, scratch, sums);
        else {
            widen_rows(args, part_rows, rows, depth, scratch->rows);
            multiply_rows((args->kind == FLOAT16 ? TILES_FLOAT16 : TILES_BFLOAT16)[rows - 1], scratch->rows, columns,
                          sums);
        }
        if (start != 0)
            add_sums(totals, sums, rows, block.columns);
    }
}

/* Adds the bias to the totals of a block, rounds and stores them. */
AVX512 static void store(const struct product *args, struct block block, const float *totals)
{
    for (ptrdiff_t i = 0; i < block.rows; i++, totals += ROW_SUMS) {
        const ptrdiff_t row = block.batch * args->out_batch + (block.top + i) * args->out_row;
        for (ptrdiff_t n = 0; n < block.columns; n += LANES) {
            const ptrdiff_t at = row + (block.left + n) * args->out_column;
            const __mmask16 kept = first_lanes(block.columns - n);
            __m512 values = _mm512_maskz_loadu_ps(kept, totals + n);
            if (args->bias)
                values = _mm512_add_ps(values, _mm512_maskz_loadu_ps(kept, args->bias + block.left + n));
            if (args->out_column == 1 && args->output == FLOAT32)
                _mm512_mask_storeu_ps((float *)args->out + at, kept, values);
            else if (args->out_column == 1)
                store_shorts((uint16_t *)args->out + at, kept, halves(values, args->output));
            else {
                uint32_t words[LANES];
                _mm512_storeu_si512(words, args->output == FLOAT32 ? _mm512_castps_si512(values)
                                                                    : halves(values, args->output));
                for (ptrdiff_t j = 0; j < LANES && n + j < block.columns; j++)
                    if (args->output == FLOAT32)
                        ((uint32_t *)args->out)[at + j * args->out_column] = words[j];
                    else
                        ((uint16_t *)args->out)[at + j * args->out_column] = (uint16_t)words[j];
            }
        }
    }
}

static struct block block_at(const struct job *job, ptrdiff_t number)
{
    const struct product *args = job->args;
    const ptrdiff_t of_batch = number % (job->blocks_down * job->blocks_across);
    struct block block = {.batch = number / (job->blocks_down * job->blocks_across),
                          .top = of_batch / job->blocks_across * BLOCK_ROWS,
                          .left = of_batch % job->blocks_across * job->block_columns};
    block.rows = least(BLOCK_ROWS, args->rows - block.top);
    block.columns = least(job->block_columns, args->columns - block.left);
    return block;
}

static void work(void *shared)
{
    struct job *job = shared;
    const struct product *args = job->args;
    const ptrdiff_t thread = __atomic_fetch_add(&job->started, 1, __ATOMIC_RELAXED);
    struct scratch *scratch = (struct scratch *)job->scratch + thread;
    for (;;) {
        const ptrdiff_t number = __atomic_fetch_add(&job->taken, 1, __ATOMIC_RELAXED);
        if (number >= job->blocks)
            return;
        const struct block block = block_at(job, number);
        if (args->depth <= 0)
            memset(scratch->totals, 0, sizeof scratch->totals);
        for (ptrdiff_t start = 0; start < args->depth; start += BLOCK_DEPTH)
            add_depth(args, block, start, least(BLOCK_DEPTH, args->depth - start), scratch);
        store(args, block, scratch->totals);
    }
}

SHOWN int graph_quant_half_product_serves(void)
{
    return has_avx512();
}

/* Returns 0, or 1 if memory is short. */
SHOWN int graph_quant_half_product(const struct product *call, parallel in_threads, int threads)
{
    if (call->batches <= 0 || call->rows <= 0 || call->columns <= 0)
        return 0;
    struct product checked = *call;
    checked.uses_dots = call->uses_dots && call->kind == BFLOAT16 && __builtin_cpu_supports("avx512bf16");
    const struct product *args = &checked;
    threads = in_threads ? threads : 1;
    struct job job = {.args = args, .blocks_down = (args->rows + BLOCK_ROWS - 1) / BLOCK_ROWS};
    for (job.block_columns = BLOCK_COLUMNS;; job.block_columns /= 2) {
        job.blocks_across = (args->columns + job.block_columns - 1) / job.block_columns;
        job.blocks = args->batches * job.blocks_down * job.blocks_across;
        if (job.blocks >= 4 * threads || threads == 1 || job.block_columns <= LEAST_COLUMNS)
            break;
    }
    job.scratch = aligned_alloc(64, sizeof(struct scratch) * (size_t)threads);
    if (!job.scratch)
        return 1;
    if (threads > 1)
        in_threads(work, &job, (unsigned)threads, 0);
    else
        work(&job);
    free(job.scratch);
    return 0;
}

#endif
