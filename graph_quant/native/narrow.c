/* Narrow floats by AVX-512: blocks of 32 elements to codes of float8 or float4, and codes to bfloat16.

Encoding takes the largest magnitude of each block first, then the elements times one number for each block, rounded half
to even or down, and saturated; NaN becomes 0. Decoding looks codes up in a table, and multiplies by powers of two, which
only adds to exponents: the caller has checked that none overflows. */

#include "vectors.h"

struct blocks {
    const void *x; /* rows of `width` elements, contiguous */
    const float *multiplier; /* of each block; null to find the largest magnitudes */
    float *largest;
    uint8_t *y; /* a code in each byte */
    ptrdiff_t rows, width;
    int32_t kind, mantissa_bits, least, max_code, sign_bit, rounds_down;
};

struct codes {
    const uint8_t *x; /* rows of `width` codes */
    const uint16_t *table; /* the bfloat16 of each code */
    const uint8_t *scale; /* biased exponents, or null */
    uint16_t *y; /* contiguous rows */
    ptrdiff_t stride, scale_stride, rows, width;
    int32_t along_rows; /* whether the 32 elements that share a scale follow each other in a row, or are below another */
};

#ifdef HAS_VECTORS

enum { BLOCK = 32, WORDS = 32 };

AVX512 static inline __mmask32 first_words(ptrdiff_t count)
{
    return count >= WORDS ? 0xffffffffu : (1u << count) - 1;
}

AVX512 static inline __attribute__((always_inline)) void encode(const struct blocks *args, ptrdiff_t at, __mmask16 kept,
                                                                 __m512 multiplier, int32_t kind, int rounds_down)
{
    const __m512 product = _mm512_mul_ps(load(args->x, at, kept, kind), multiplier);
    const __mmask16 right = _mm512_cmp_ps_mask(product, product, _CMP_ORD_Q);
    const __m512i bits = _mm512_maskz_mov_epi32(right, _mm512_castps_si512(product));
    const __m512i least = _mm512_set1_epi32(args->least + 127);
    const __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __m512i exponent = _mm512_max_epi32(_mm512_srli_epi32(magnitude, 23), least);
    /* 2 ** (mantissa_bits - exponent), by its bits; where that is below every float the element saturates anyway. */
    const __m512i power = _mm512_sub_epi32(_mm512_set1_epi32(254 + args->mantissa_bits), exponent);
    const __m512 steps = _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_castsi512_ps(_mm512_slli_epi32(power, 23)));
    const __m512i whole = rounds_down ? _mm512_cvt_roundps_epi32(steps, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)
                                      : _mm512_cvt_roundps_epi32(steps, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512i code = _mm512_add_epi32(_mm512_sllv_epi32(_mm512_sub_epi32(exponent, least),
                                                      _mm512_set1_epi32(args->mantissa_bits)),
                                    _mm512_abs_epi32(whole));
    code = _mm512_min_epi32(code, _mm512_set1_epi32(args->max_code));
    const __mmask16 saturated = _mm512_cmpgt_epi32_mask(exponent, _mm512_set1_epi32(127 + 64));
    code = _mm512_mask_mov_epi32(code, saturated, _mm512_set1_epi32(args->max_code));
    const __m512i sign = _mm512_set1_epi32(args->sign_bit);
    code = _mm512_mask_or_epi32(code, _mm512_movepi32_mask(bits), code, sign);
    _mm_mask_storeu_epi8(args->y + at, kept, _mm512_cvtepi32_epi8(code));
}

AVX512 static inline __attribute__((always_inline)) void take_row(const struct blocks *args, ptrdiff_t row, int32_t kind,
                                                                   int rounds_down)
{
    const ptrdiff_t count = (args->width + BLOCK - 1) / BLOCK;
    for (ptrdiff_t block = 0; block < count; block++) {
        const ptrdiff_t at = row * args->width + block * BLOCK, rest = args->width - block * BLOCK;
        const __mmask16 low = first_lanes(rest), high = rest > LANES ? first_lanes(rest - LANES) : 0;
        if (args->multiplier) {
            const __m512 multiplier = _mm512_set1_ps(args->multiplier[row * count + block]);
            encode(args, at, low, multiplier, kind, rounds_down);
            if (high)
                encode(args, at + LANES, high, multiplier, kind, rounds_down);
        } else {
            /* As integers, so that NaN is the largest. */
            const __m512i signless = _mm512_set1_epi32(0x7fffffff);
            __m512i most = _mm512_and_si512(_mm512_castps_si512(load(args->x, at, low, kind)), signless);
            if (high)
                most = _mm512_max_epi32(
                    most, _mm512_and_si512(_mm512_castps_si512(load(args->x, at + LANES, high, kind)), signless));
            const int32_t largest = _mm512_reduce_max_epi32(most);
            __builtin_memcpy(args->largest + row * count + block, &largest, sizeof largest);
        }
    }
}

AVX512 static void take_any_row(const struct blocks *args, ptrdiff_t row)
{
#define OF_KIND(kind) (args->rounds_down ? take_row(args, row, kind, 1) : take_row(args, row, kind, 0))
    if (args->kind == FLOAT16)
        OF_KIND(FLOAT16);
    else if (args->kind == BFLOAT16)
        OF_KIND(BFLOAT16);
    else
        OF_KIND(FLOAT32);
}

/* The bfloat16 of 32 codes. */
AVX512 static inline __m512i look_up(const __m512i *table, __m512i codes)
{
    const __mmask32 second = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x40));
    const __mmask32 upper = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x80));
    __m512i quarters[4];
    for (int i = 0; i < 4; i++) quarters[i] = _mm512_permutex2var_epi16(table[2 * i], codes, table[2 * i + 1]);
    return _mm512_mask_blend_epi16(upper, _mm512_mask_blend_epi16(second, quarters[0], quarters[1]),
                                   _mm512_mask_blend_epi16(second, quarters[2], quarters[3]));
}

AVX512 static void decode_row(const struct codes *args, ptrdiff_t row, const __m512i *table)
{
    const __m512i bias = _mm512_set1_epi16(127), field = _mm512_set1_epi16(0x7f80);
    for (ptrdiff_t at = 0; at < args->width; at += WORDS) {
        const __mmask32 kept = first_words(args->width - at);
        const __m256i bytes = _mm256_maskz_loadu_epi8(kept, args->x + row * args->stride + at);
        __m512i values = look_up(table, _mm512_cvtepu8_epi16(bytes));
        if (args->scale) {
            __m512i scale;
            if (args->along_rows) {
                scale = _mm512_set1_epi16(args->scale[row * args->scale_stride + at / BLOCK]);
            } else {
                const uint8_t *from = args->scale + row / BLOCK * args->scale_stride + at;
                scale = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(kept, from));
            }
            const __m512i exponent = _mm512_and_si512(values, field);
            const __mmask32 scaled = _mm512_test_epi16_mask(values, field) & _mm512_cmpneq_epi16_mask(exponent, field);
            values = _mm512_mask_add_epi16(values, scaled, values, _mm512_slli_epi16(_mm512_sub_epi16(scale, bias), 7));
        }
        _mm512_mask_storeu_epi16(args->y + row * args->width + at, kept, values);
    }
}

SHOWN int graph_quant_encode_blocks_serves(void)
{
    return has_avx512();
}

/* Returns 0: nothing can fail. */
SHOWN int graph_quant_encode_blocks(const struct blocks *args, parallel in_threads, int threads)
{
    (void)in_threads;
    (void)threads;
    for (ptrdiff_t row = 0; row < args->rows; row++) take_any_row(args, row);
    return 0;
}

SHOWN int graph_quant_decode_codes_serves(void)
{
    return has_avx512();
}

AVX512 static void decode_rows(const struct codes *args)
{
    __m512i table[8];
    for (int i = 0; i < 8; i++) table[i] = _mm512_loadu_si512(args->table + WORDS * i);
    for (ptrdiff_t row = 0; row < args->rows; row++) decode_row(args, row, table);
}

/* Returns 0: nothing can fail. */
SHOWN int graph_quant_decode_codes(const struct codes *args, parallel in_threads, int threads)
{
    (void)in_threads;
    (void)threads;
    decode_rows(args);
    return 0;
}

#endif
