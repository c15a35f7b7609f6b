/* The exact product of int8 matrices by the dot products of AVX-512 VNNI, x1 (m, k) and x2 (n, k), k side by side.

Such instructions take bytes without a sign on one side. The columns of x2 are taken 128 higher, which adds 128 times
the sum of its row of x1 to each result; that is taken off again. Nothing is packed or kept between calls. Sums wrap
as those of int32 do.

Results are int32, or the half-precision number nearest to ((float)sum * scale[n] * row_scale[m] + bias[n]), each step
rounded to float32. The compiler must not fuse the product and the sum of that: -ffp-contract=off. */

#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>

#define SHOWN __attribute__((visibility("default")))

enum output { INT32, BFLOAT16, FLOAT16 };

struct product {
    const int8_t *x1, *x2;
    ptrdiff_t x1_stride, x2_stride, rows, columns, depth;
    void *out;
    const float *scale, *row_scale, *bias; /* of the half-precision results; the last two may be null */
    int32_t output;
    int32_t scale_step; /* 0 where one scale is for all columns */
};

/* As GOMP_parallel: calls the function in so many threads, or fewer. */
typedef void (*parallel)(void (*)(void *), void *, unsigned, unsigned);

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 9)
#include <immintrin.h>

#define VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define UNROLLED _Pragma("GCC unroll 8")
/* Rows and columns of a tile: 24 sums, 4 columns and a row stay in the 32 registers. */
enum { TILE_ROWS = 6, TILE_COLUMNS = 4 };
/* Columns that are done before the next ones, and bytes of x1: what stays in the second cache. */
enum { BLOCK_COLUMNS = 64, BLOCK_BYTES = 384 << 10 };
/* How far ahead of a single row memory is asked for; a depth up to which the next columns fit the first cache. */
enum { AHEAD = 8192, SHALLOW = 2048 };

/* By its instruction: compilers spill half of the sums when they choose registers themselves. */
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

/* A tile of so many rows; what lies `next` bytes behind its columns is asked for. */
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

/* The upper halves, rounded to even; all bits of NaN are set, as torch sets them. */
VNNI static inline __m256i to_bfloat16(__m512 values)
{
    __m512i bits = _mm512_castps_si512(values);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __m256i upper = _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
    return _mm256_mask_mov_epi16(upper, _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q), _mm256_set1_epi16(-1));
}

VNNI static void rescale(const struct product *given, const int32_t *sums, ptrdiff_t row, ptrdiff_t start,
                         ptrdiff_t stop)
{
    uint16_t *out = (uint16_t *)given->out + row * given->columns;
    for (ptrdiff_t n = start; n < stop; n += 16, sums += 16) {
        const __mmask16 kept = stop - n >= 16 ? 0xffff : (__mmask16)((1u << (stop - n)) - 1);
        __m512 values = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(kept, sums));
        __m512 scale = given->scale_step ? _mm512_maskz_loadu_ps(kept, given->scale + n)
                                         : _mm512_set1_ps(given->scale[0]);
        values = _mm512_mul_ps(values, scale);
        if (given->row_scale)
            values = _mm512_mul_ps(values, _mm512_set1_ps(given->row_scale[row]));
        if (given->bias)
            values = _mm512_add_ps(values, _mm512_maskz_loadu_ps(kept, given->bias + n));
        _mm256_mask_storeu_epi16(out + n, kept,
                                 given->output == FLOAT16
                                     ? _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
                                     : to_bfloat16(values));
    }
}

struct job {
    const struct product *given;
    const int32_t *excess;
    ptrdiff_t block_rows, blocks_down, blocks_across, taken;
};

VNNI static void block(const struct job *job, ptrdiff_t place)
{
    const struct product *given = job->given;
    const ptrdiff_t top = place / job->blocks_across * job->block_rows;
    const ptrdiff_t left = place % job->blocks_across * BLOCK_COLUMNS;
    const ptrdiff_t rows = given->rows - top < job->block_rows ? given->rows - top : job->block_rows;
    const ptrdiff_t right = given->columns - left < BLOCK_COLUMNS ? given->columns : left + BLOCK_COLUMNS;
    const ptrdiff_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
    const ptrdiff_t next = given->depth <= SHALLOW ? TILE_COLUMNS * given->x2_stride : 0;
    int32_t sums[TILE_ROWS * BLOCK_COLUMNS];
    for (ptrdiff_t t = 0; t < tiles; t++) {
        const ptrdiff_t row = top + rows * t / tiles, count = top + rows * (t + 1) / tiles - row;
        int32_t *out = given->output == INT32 ? (int32_t *)given->out + row * given->columns + left : sums;
        const ptrdiff_t out_stride = given->output == INT32 ? given->columns : BLOCK_COLUMNS;
        for (ptrdiff_t n = left; n < right; n += TILE_COLUMNS) {
            const ptrdiff_t width = right - n < TILE_COLUMNS ? right - n : TILE_COLUMNS;
            const int8_t *columns = given->x2 + n * given->x2_stride;
            if (width == TILE_COLUMNS && given->rows == 1)
                single_row(given->x1, columns, given->x2_stride, given->depth, job->excess[0], out + (n - left));
            else if (width == TILE_COLUMNS)
                TILES[count - 1](given->x1 + row * given->x1_stride, given->x1_stride, columns, given->x2_stride,
                                 given->depth, next, job->excess + row, out + (n - left), out_stride, 0xf);
            else /* one column four times, of which the first is kept: there are no others to read */
                for (ptrdiff_t j = 0; j < width; j++)
                    TILES[count - 1](given->x1 + row * given->x1_stride, given->x1_stride,
                                     columns + j * given->x2_stride, 0, given->depth, 0, job->excess + row,
                                     out + (n - left) + j, out_stride, 1);
        }
        if (given->output != INT32)
            for (ptrdiff_t i = 0; i < count; i++)
                rescale(given, sums + i * BLOCK_COLUMNS, row + i, left, right);
    }
}

/* What a thread does: one block after the other, as long as there are any. */
static void work(void *shared)
{
    struct job *job = shared;
    const ptrdiff_t blocks = job->blocks_down * job->blocks_across;
    for (;;) {
        const ptrdiff_t place = __atomic_fetch_add(&job->taken, 1, __ATOMIC_RELAXED);
        if (place >= blocks)
            return;
        block(job, place);
    }
}

SHOWN int graph_quant_int8_serves(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
           && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vnni");
}

/* 0, or 1 where memory is short. */
SHOWN int graph_quant_int8_product(const struct product *given, parallel in_threads, int threads)
{
    if (given->rows <= 0 || given->columns <= 0)
        return 0;
    int32_t *excess = malloc((size_t)given->rows * sizeof *excess);
    if (!excess)
        return 1;
    for (ptrdiff_t row = 0; row < given->rows; row++)
        excess[row] = excess_of(given->x1 + row * given->x1_stride, given->depth);
    const ptrdiff_t fitting = BLOCK_BYTES / (given->depth > 0 ? given->depth : 1);
    struct job job = {.given = given, .excess = excess};
    job.block_rows = fitting < TILE_ROWS ? TILE_ROWS : fitting;
    job.blocks_down = (given->rows + job.block_rows - 1) / job.block_rows;
    job.blocks_across = (given->columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    if (in_threads && threads > 1)
        in_threads(work, &job, (unsigned)threads, 0);
    else
        work(&job);
    free(excess);
    return 0;
}

#else

SHOWN int graph_quant_int8_serves(void)
{
    return 0;
}

SHOWN int graph_quant_int8_product(const struct product *given, parallel in_threads, int threads)
{
    (void)given, (void)in_threads, (void)threads;
    return 1;
}

#endif
