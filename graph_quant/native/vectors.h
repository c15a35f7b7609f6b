/* Shared by the code for AVX-512. */

#ifndef GRAPH_QUANT_VECTORS_H
#define GRAPH_QUANT_VECTORS_H

#include <stddef.h>
#include <stdint.h>

#define SHOWN __attribute__((visibility("default")))

/* The numbers of torch's dtypes in structs. */
enum kind { INT32, BFLOAT16, FLOAT16, FLOAT32 };

/* As GOMP_parallel: calls the function in `threads` threads, or fewer. */
typedef void (*parallel)(void (*)(void *), void *, unsigned, unsigned);

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 9)
#define HAS_VECTORS 1
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define UNROLLED _Pragma("GCC unroll 8")
#define UNROLLED16 _Pragma("GCC unroll 16")

/* Loops that name this mask run without masks, which are slow on some processors. */
enum { LANES = 16, WHOLE_VECTOR = 0xffff };

static inline int has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
           && __builtin_cpu_supports("avx512dq");
}

/* The mask of the first `count` lanes. */
static inline uint16_t first_lanes(ptrdiff_t count)
{
    return count >= LANES ? 0xffff : (uint16_t)((1u << count) - 1);
}

/* Loads elements from `at` in the lanes of a mask, and zeros in the others. */
AVX512 static inline __m512 load(const void *from, ptrdiff_t at, __mmask16 kept, int32_t kind)
{
    const int is_whole = __builtin_constant_p(kept) && kept == WHOLE_VECTOR;
    if (kind == FLOAT32)
        return is_whole ? _mm512_loadu_ps((const float *)from + at)
                        : _mm512_maskz_loadu_ps(kept, (const float *)from + at);
    const __m256i bits = is_whole ? _mm256_loadu_si256((const __m256i *)((const uint16_t *)from + at))
                                  : _mm256_maskz_loadu_epi16(kept, (const uint16_t *)from + at);
    if (kind == FLOAT16)
        return _mm512_cvtph_ps(bits);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

/* The nearest half-precision values, a word each; all bits of bfloat16's NaN are set, as torch sets them. */
AVX512 static inline __m512i halves(__m512 values, int32_t kind)
{
    if (kind == FLOAT16)
        return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    __m512i bits = _mm512_castps_si512(values);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    return _mm512_mask_mov_epi32(_mm512_srli_epi32(rounded, 16), _mm512_cmp_ps_mask(values, values, _CMP_UNORD_Q),
                                 _mm512_set1_epi32(0xffff));
}

/* Store the words of a mask as bytes or as 16 bits. */
AVX512 static inline void store_bytes(void *to, __mmask16 kept, __m512i words)
{
    if (kept == WHOLE_VECTOR)
        _mm_storeu_si128(to, _mm512_cvtepi32_epi8(words));
    else
        _mm_mask_storeu_epi8(to, kept, _mm512_cvtepi32_epi8(words));
}

AVX512 static inline void store_shorts(void *to, __mmask16 kept, __m512i words)
{
    if (kept == WHOLE_VECTOR)
        _mm256_storeu_si256(to, _mm512_cvtepi32_epi16(words));
    else
        _mm256_mask_storeu_epi16(to, kept, _mm512_cvtepi32_epi16(words));
}

/* Transposes a square of 32-bit words. */
AVX512 static inline void transpose(__m512i *v)
{
    __m512i t[LANES];
    UNROLLED for (int i = 0; i < LANES; i += 4) {
        __m512i a = _mm512_unpacklo_epi32(v[i], v[i + 1]), b = _mm512_unpackhi_epi32(v[i], v[i + 1]);
        __m512i c = _mm512_unpacklo_epi32(v[i + 2], v[i + 3]), d = _mm512_unpackhi_epi32(v[i + 2], v[i + 3]);
        t[i] = _mm512_unpacklo_epi64(a, c), t[i + 1] = _mm512_unpackhi_epi64(a, c);
        t[i + 2] = _mm512_unpacklo_epi64(b, d), t[i + 3] = _mm512_unpackhi_epi64(b, d);
    }
    UNROLLED for (int i = 0; i < 4; i++) {
        __m512i a = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88), b = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xdd);
        __m512i c = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88);
        __m512i d = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xdd);
        v[i] = _mm512_shuffle_i32x4(a, c, 0x88), v[i + 8] = _mm512_shuffle_i32x4(a, c, 0xdd);
        v[i + 4] = _mm512_shuffle_i32x4(b, d, 0x88), v[i + 12] = _mm512_shuffle_i32x4(b, d, 0xdd);
    }
}

#endif
#endif
