/* Quantisation of rows to int8 with a scale each, from the largest magnitude of the row, by AVX-512.

With v the row, multiplied by the smooth scales where there are any: y = rint(v * (127 / largest)), saturated, and 0 for
NaN; scale = largest * (1 / 127), or 1 / (127 / largest). Each step is rounded to float32. */

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

#ifdef HAS_VECTORS

/* Rows that a thread takes at a time. */
enum { ROWS = 8 };
static const float TOP = 127.0f, BOTTOM = -128.0f;

struct rows {
    const struct quantisation *args;
    ptrdiff_t taken;
};

AVX512 static inline __m512 values_at(const struct quantisation *args, ptrdiff_t row, ptrdiff_t at, __mmask16 kept)
{
    const __m512 values = load(args->x, row * args->stride + at, kept, args->kind);
    return args->smooth ? _mm512_mul_ps(values, _mm512_maskz_loadu_ps(kept, args->smooth + at)) : values;
}

AVX512 static float largest_of(const struct quantisation *args, ptrdiff_t row)
{
    __m512 largest = _mm512_setzero_ps();
    __mmask16 wrong = 0;
    for (ptrdiff_t at = 0; at < args->width; at += LANES) {
        const __m512 values = values_at(args, row, at, first_lanes(args->width - at));
        largest = _mm512_max_ps(largest, _mm512_abs_ps(values));
        wrong |= _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q);
    }
    return wrong ? NAN : _mm512_reduce_max_ps(largest);
}

AVX512 static void quantise_row(const struct quantisation *args, ptrdiff_t row)
{
    const float largest = largest_of(args, row), multiplier = TOP / largest;
    int8_t *y = args->y + row * args->width;
    for (ptrdiff_t at = 0; at < args->width; at += LANES) {
        const __mmask16 kept = first_lanes(args->width - at);
        const __m512 values = _mm512_mul_ps(values_at(args, row, at, kept), _mm512_set1_ps(multiplier));
        const __mmask16 right = _mm512_cmp_ps_mask(values, values, _CMP_ORD_Q);
        const __m512 bounded = _mm512_min_ps(_mm512_max_ps(values, _mm512_set1_ps(BOTTOM)), _mm512_set1_ps(TOP));
        const __m512i integers = _mm512_maskz_cvt_roundps_epi32(right, bounded, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm512_mask_cvtepi32_storeu_epi8(y + at, kept, integers);
    }
    args->scale[row] = args->inverts ? 1.0f / multiplier : largest * (1.0f / TOP);
}

static void work(void *shared)
{
    struct rows *all = shared;
    for (;;) {
        const ptrdiff_t first = __atomic_fetch_add(&all->taken, ROWS, __ATOMIC_RELAXED);
        if (first >= all->args->rows)
            return;
        for (ptrdiff_t row = first; row < all->args->rows && row < first + ROWS; row++)
            quantise_row(all->args, row);
    }
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
