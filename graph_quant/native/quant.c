/* Quantisation of rows by AVX-512: to int8 with a scale each, from the largest magnitude of the row, or by an affine map.

With v the row, multiplied by the smooth scales where there are any: y = rint(v * (127 / largest)), saturated, and 0 for
NaN; scale = largest * (1 / 127), or 1 / (127 / largest). Each step is rounded to float32.

The affine map is y = sat(rint(v * scale + offset)), with scales for each element that groups of rows share, or with a
scale and an offset of each row from its smallest and its largest element. int4 is stored eight to an int32, or one to a
byte. */

#include <math.h>

#include "vectors.h"

struct quantisation {
    const void *x;
    const float *smooth; /* may be null */
    int8_t *y;
    float *scale;
    ptrdiff_t stride, rows, width; /* of x, in elements; y is contiguous */
    int32_t kind;
    int32_t inverts; /* whether the scale is the reciprocal of what elements are multiplied by */
};

struct affine {
    const void *x;
    const void *scale;  /* of each element of a row: one row of them for each group; null for scales from the extremes */
    const int64_t *ends; /* the row after the last of each group */
    const float *offset; /* one for all elements; may be null */
    const float *smooth; /* of each element of a row; may be null; with scales from the extremes */
    float *scales, *offsets; /* results, of each row, from the extremes */
    int8_t *y;
    ptrdiff_t stride, scale_stride, rows, width, groups;
    float low, high, top; /* the range of integers, and the one that the largest element gets */
    int32_t kind, scale_kind, packs;
};

#ifdef HAS_VECTORS

/* Rows that a thread takes at a time. */
enum { ROWS = 8 };
static const float TOP = 127.0f, BOTTOM = -128.0f;

struct rows {
    const struct quantisation *args;
    ptrdiff_t taken;
};

/* Rounds and saturates; NaN becomes 0. */
AVX512 static inline __m512i integers_of(__m512 values, float low, float high)
{
    const __mmask16 right = _mm512_cmp_ps_mask(values, values, _CMP_ORD_Q);
    const __m512 bounded = _mm512_min_ps(_mm512_max_ps(values, _mm512_set1_ps(low)), _mm512_set1_ps(high));
    return _mm512_maskz_cvt_roundps_epi32(right, bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Calls `step` with each position of a row and the mask of its elements. */
#define FOR_VECTORS(width, step) \
    do { \
        ptrdiff_t at = 0; \
        for (; at + LANES <= (width); at += LANES) step(at, WHOLE_VECTOR); \
        if (at < (width)) \
            step(at, first_lanes((width) - at)); \
    } while (0)

/* Four vectors, whose integers are stored together. */
enum { BLOCK = 4 * LANES };

/* The integers of four vectors as bytes, in order. The packs interleave quarters of them, which the permutation undoes.
 */
AVX512 static inline __m512i bytes_of(__m512i first, __m512i second, __m512i third, __m512i fourth)
{
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i quarters = _mm512_packs_epi16(_mm512_packs_epi32(first, second), _mm512_packs_epi32(third, fourth));
    return _mm512_permutexvar_epi32(order, quarters);
}

/* Stores the integers from `at` on of a row of y, each as a byte or two in one. */
AVX512 static inline __attribute__((always_inline)) void store_block(int8_t *y, ptrdiff_t at, int packs, __m512i bytes)
{
    if (!packs) {
        _mm512_storeu_si512(y + at, bytes);
        return;
    }
    const __m512i halves = _mm512_and_si512(bytes, _mm512_set1_epi8(15));
    const __m512i pairs = _mm512_maddubs_epi16(halves, _mm512_set1_epi16(0x1001)); /* the second times 16 */
    _mm256_storeu_si256((__m256i *)(y + at / 2), _mm512_cvtepi16_epi8(pairs));
}

/* Stores the integers from `at` on of a row of y, each as a byte or eight as a word. */
AVX512 static inline __attribute__((always_inline)) void store_integers(int8_t *y, ptrdiff_t at, __mmask16 kept,
                                                                         int packs, __m512i integers)
{
    if (!packs) {
        store_bytes(y + at, kept, integers);
        return;
    }
    const __m512i shifts = _mm512_set_epi32(28, 24, 20, 16, 12, 8, 4, 0, 28, 24, 20, 16, 12, 8, 4, 0);
    __m512i words = _mm512_sllv_epi32(_mm512_and_si512(integers, _mm512_set1_epi32(15)), shifts);
    words = _mm512_or_si512(words, _mm512_shuffle_epi32(words, 0xb1));
    words = _mm512_or_si512(words, _mm512_shuffle_epi32(words, 0x4e));
    words = _mm512_or_si512(words, _mm512_shuffle_i64x2(words, words, 0xb1));
    const __m128i high = _mm512_extracti32x4_epi32(words, 2);
    _mm_mask_storeu_epi32(y + at / 2, kept > 0xff ? 3 : 1, _mm_unpacklo_epi32(_mm512_castsi512_si128(words), high));
}

/* Stores what `integers` computes of each position of a row, and of the mask of its elements. */
#define STORE_ROW(y, width, packs, integers) \
    do { \
        ptrdiff_t at = 0; \
        for (; at + BLOCK <= (width); at += BLOCK) \
            store_block(y, at, packs, \
                        bytes_of(integers(at, WHOLE_VECTOR), integers(at + LANES, WHOLE_VECTOR), \
                                 integers(at + 2 * LANES, WHOLE_VECTOR), integers(at + 3 * LANES, WHOLE_VECTOR))); \
        for (; at + LANES <= (width); at += LANES) \
            store_integers(y, at, WHOLE_VECTOR, packs, integers(at, WHOLE_VECTOR)); \
        if (at < (width)) { \
            const __mmask16 kept = first_lanes((width) - at); \
            store_integers(y, at, kept, packs, integers(at, kept)); \
        } \
    } while (0)

AVX512 static inline __attribute__((always_inline)) void quantise_row(const struct quantisation *args, ptrdiff_t row,
                                                                       int32_t kind, int is_smoothed)
{
    const ptrdiff_t x_row = row * args->stride, width = args->width;
    __m512 most = _mm512_setzero_ps();
    __mmask16 wrong = 0;
#define SMOOTHED(at, kept) \
    (is_smoothed ? _mm512_mul_ps(load(args->x, x_row + (at), kept, kind), load(args->smooth, at, kept, FLOAT32)) \
                 : load(args->x, x_row + (at), kept, kind))
#define COMPARE(at, kept) \
    do { \
        const __m512 values = SMOOTHED(at, kept); \
        most = _mm512_max_ps(most, _mm512_abs_ps(values)); \
        wrong |= _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q); \
    } while (0)
    FOR_VECTORS(width, COMPARE);
#undef COMPARE
    const float largest = wrong ? NAN : _mm512_reduce_max_ps(most), multiplier = TOP / largest;
    const __m512 multipliers = _mm512_set1_ps(multiplier);
    int8_t *y = args->y + row * width;
#define QUANTISED(at, kept) integers_of(_mm512_mul_ps(SMOOTHED(at, kept), multipliers), BOTTOM, TOP)
    STORE_ROW(y, width, 0, QUANTISED);
    args->scale[row] = args->inverts ? 1.0f / multiplier : largest * (1.0f / TOP);
}

/* The same for each dtype, so that no loop has branches. */
AVX512 static void quantise_any_row(const struct quantisation *args, ptrdiff_t row)
{
    if (args->smooth)
        quantise_row(args, row, args->kind, 1);
    else if (args->kind == FLOAT16)
        quantise_row(args, row, FLOAT16, 0);
    else if (args->kind == BFLOAT16)
        quantise_row(args, row, BFLOAT16, 0);
    else
        quantise_row(args, row, args->kind, 0);
}

static void work(void *shared)
{
    struct rows *all = shared;
    for (;;) {
        const ptrdiff_t first = __atomic_fetch_add(&all->taken, ROWS, __ATOMIC_RELAXED);
        if (first >= all->args->rows)
            return;
        for (ptrdiff_t row = first; row < all->args->rows && row < first + ROWS; row++)
            quantise_any_row(all->args, row);
    }
}

struct affine_rows {
    const struct affine *args;
    ptrdiff_t taken;
};

AVX512 static inline __attribute__((always_inline)) void scale_row(const struct affine *args, ptrdiff_t row,
                                                                    ptrdiff_t group, int32_t kind, int32_t scale_kind,
                                                                    int packs)
{
    int8_t *y = args->y + row * args->width / (packs ? 2 : 1);
    const __m512 offset = _mm512_set1_ps(args->offset ? *args->offset : 0);
    const float low = args->low, high = args->high;
    const ptrdiff_t x_row = row * args->stride, scale_row = group * args->scale_stride, width = args->width;
#define SCALED(at, kept) \
    _mm512_mul_ps(load(args->x, x_row + (at), kept, kind), load(args->scale, scale_row + (at), kept, scale_kind))
#define MAPPED(at, kept) integers_of(SCALED(at, kept), low, high)
#define SHIFTED(at, kept) integers_of(_mm512_add_ps(SCALED(at, kept), offset), low, high)
    if (args->offset)
        STORE_ROW(y, width, packs, SHIFTED);
    else
        STORE_ROW(y, width, packs, MAPPED);
#undef MAPPED
}

/* Quantises a row with a scale and an offset from its extremes, of which the scale is at least 1e-12. */
AVX512 static inline __attribute__((always_inline)) void map_row(const struct affine *args, ptrdiff_t row, int32_t kind,
                                                                  int is_smoothed, int packs)
{
    const ptrdiff_t x_row = row * args->stride, width = args->width;
    const float low = args->low, high = args->high;
    __m512 most = _mm512_set1_ps(-INFINITY), least = _mm512_set1_ps(INFINITY);
    __mmask16 wrong = 0;
#define COMPARE(at, kept) \
    do { \
        const __m512 values = SMOOTHED(at, kept); \
        most = _mm512_mask_max_ps(most, kept, most, values); \
        least = _mm512_mask_min_ps(least, kept, least, values); \
        wrong |= _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q); \
    } while (0)
    FOR_VECTORS(width, COMPARE);
    const float largest = wrong ? NAN : _mm512_reduce_max_ps(most), smallest = wrong ? NAN : _mm512_reduce_min_ps(least);
    const float spread = (largest - smallest) / (args->top - low);
    const float scale = spread < 1e-12f ? 1e-12f : spread, shift = args->top - largest / scale;
    const __m512 multiplier = _mm512_set1_ps(1.0f / scale), offset = _mm512_set1_ps(shift);
    int8_t *y = args->y + row * width / (packs ? 2 : 1);
#define MAPPED(at, kept) \
    integers_of(_mm512_add_ps(_mm512_mul_ps(SMOOTHED(at, kept), multiplier), offset), low, high)
    STORE_ROW(y, width, packs, MAPPED);
    args->scales[row] = scale;
    args->offsets[row] = shift;
}

#define FOR_PACKING(row_function, ...) \
    do { \
        if (args->packs) \
            row_function(__VA_ARGS__, 1); \
        else \
            row_function(__VA_ARGS__, 0); \
    } while (0)

/* The same for each dtype, so that no loop has branches. */
AVX512 static void scale_any_row(const struct affine *args, ptrdiff_t row, ptrdiff_t group)
{
    if (args->kind == FLOAT16 && args->scale_kind == FLOAT16)
        FOR_PACKING(scale_row, args, row, group, FLOAT16, FLOAT16);
    else if (args->kind == BFLOAT16 && args->scale_kind == BFLOAT16)
        FOR_PACKING(scale_row, args, row, group, BFLOAT16, BFLOAT16);
    else
        FOR_PACKING(scale_row, args, row, group, args->kind, args->scale_kind);
}

AVX512 static void map_any_row(const struct affine *args, ptrdiff_t row)
{
    if (args->smooth)
        FOR_PACKING(map_row, args, row, args->kind, 1);
    else if (args->kind == FLOAT16)
        FOR_PACKING(map_row, args, row, FLOAT16, 0);
    else if (args->kind == BFLOAT16)
        FOR_PACKING(map_row, args, row, BFLOAT16, 0);
    else
        FOR_PACKING(map_row, args, row, args->kind, 0);
}

static void map_rows(void *shared)
{
    struct affine_rows *all = shared;
    const struct affine *args = all->args;
    for (;;) {
        const ptrdiff_t first = __atomic_fetch_add(&all->taken, ROWS, __ATOMIC_RELAXED);
        if (first >= args->rows)
            return;
        ptrdiff_t group = 0;
        for (ptrdiff_t row = first; row < args->rows && row < first + ROWS; row++) {
            if (!args->scale) {
                map_any_row(args, row);
                continue;
            }
            while (group < args->groups - 1 && args->ends[group] <= row) group++;
            scale_any_row(args, row, group);
        }
    }
}

SHOWN int graph_quant_affine_serves(void)
{
    return has_avx512();
}

/* Returns 0: nothing can fail. */
SHOWN int graph_quant_affine(const struct affine *args, parallel in_threads, int threads)
{
    struct affine_rows all = {.args = args};
    if (in_threads && threads > 1)
        in_threads(map_rows, &all, (unsigned)threads, 0);
    else
        map_rows(&all);
    return 0;
}

SHOWN int graph_quant_rows_serves(void)
{
    return has_avx512();
}

/* Returns 0: nothing can fail. */
SHOWN int graph_quant_rows(const struct quantisation *args, parallel in_threads, int threads)
{
    struct rows all = {.args = args};
    if (in_threads && threads > 1)
        in_threads(work, &all, (unsigned)threads, 0);
    else
        work(&all);
    return 0;
}

#endif
