/* softmax(scale * q k, hidden) v of one sequence by AVX-512: heads of queries over as many or fewer heads of keys.

Scores, weights, sums and results are float32. A score is the sum of its channels one after the other, by fused
multiply-add; a result is accumulated over its keys in the same manner, and divided by the sum of the weights. Weights are rounded
to the dtype of the operands for the product with values, and not for their sum, which adds every sixteenth
weight first, then the sixteen sums. A masked key has the least finite score.

Masked keys before the first and after the last key that a row attends to are skipped, unless a value is not finite:
its weight of zero would still give NaN. */

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

/* Strides are in elements; those of channels are 1. */
struct attention {
    const void *q, *k, *v;
    void *out;
    float *largest, *total; /* of each row, `copies` times */
    const uint8_t *mask;    /* not zero where a key is masked; may be null */
    ptrdiff_t q_head, q_row, k_head, k_row, v_head, v_row, out_head, out_row, rows_head, rows_row;
    ptrdiff_t mask_head, mask_row, mask_key; /* the last is 0 or 1 */
    ptrdiff_t heads, key_heads, queries, keys, channels, value_channels, copies;
    ptrdiff_t first, last; /* query i attends to the keys i + first to i + last */
    double scale; /* rounded to float32 */
    int32_t kind;
    int32_t blind_gives_zeros; /* whether a row without keys because of the mask is zero; else it is the mean of the values */
};

#ifdef HAS_VECTORS

/* Rows of a block, whose scores fit the L2 cache; keys whose values fit it too. */
enum { MAX_ROWS = 48, SCORES = 64 << 10, CHUNK = 256 };
static const float HIDDEN = -FLT_MAX;
/* From here on down, exp is 0 in float32. */
static const float VANISHING = -104.0f;

struct job {
    const struct attention *args;
    ptrdiff_t block_rows, blocks, width, depth, value_depth; /* the last three are multiples of a vector */
    float *scratch;
    ptrdiff_t scratch_per_thread, taken, started;
};

/* The buffers of a thread for one block. */
struct scratch {
    float *scores, *queries, *keys, *values, *sums;
};

static ptrdiff_t whole(ptrdiff_t count)
{
    return (count + LANES - 1) / LANES * LANES;
}

AVX512 static inline __m512 rounded(__m512 values, int32_t kind)
{
    if (kind == FLOAT32)
        return values;
    const __m512i bits = halves(values, kind);
    if (kind == FLOAT16)
        return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}

/* The exponential of numbers up to 0, off by less than one unit in the last position. */
AVX512 static inline __m512 exponential(__m512 x)
{
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p+0f)), _MM_FROUND_TO_NEAREST_INT);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e4p-1f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    __m512 y = _mm512_set1_ps(0x1.6c16c2p-10f); /* 1 / 6!, and so on */
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0x1.111112p-7f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0x1.555556p-5f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0x1.555556p-3f));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(0.5f));
    y = _mm512_fmadd_ps(y, _mm512_mul_ps(r, r), r);
    y = _mm512_scalef_ps(_mm512_add_ps(y, _mm512_set1_ps(1.0f)), n);
    return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, _mm512_set1_ps(VANISHING), _CMP_LE_OQ), _mm512_setzero_ps());
}

/* Scores of `rows` rows and sixteen keys, channel by channel. */
#define SCORES_OF(count) \
    AVX512 static void scores_##count(const float *queries, const float *keys, ptrdiff_t depth, float *out, \
                                      ptrdiff_t width) \
    { \
        __m512 sums[count]; \
        UNROLLED for (int i = 0; i < count; i++) sums[i] = _mm512_setzero_ps(); \
        for (ptrdiff_t d = 0; d < depth; d++) { \
            const __m512 key = _mm512_load_ps(keys + d * LANES); \
            UNROLLED for (int i = 0; i < count; i++) \
                sums[i] = _mm512_fmadd_ps(_mm512_set1_ps(queries[i * depth + d]), key, sums[i]); \
        } \
        UNROLLED for (int i = 0; i < count; i++) _mm512_store_ps(out + i * width, sums[i]); \
    }

SCORES_OF(8)
SCORES_OF(4)
SCORES_OF(2)
SCORES_OF(1)

/* Sums of `rows` rows and four vectors of channels, key by key. */
#define WEIGHTED_OF(count) \
    AVX512 static void weighted_##count(const float *weights, ptrdiff_t width, const float *values, ptrdiff_t depth, \
                                        ptrdiff_t keys, float *sums, int vectors) \
    { \
        __m512 parts[count][4]; \
        UNROLLED for (int i = 0; i < count; i++) \
            UNROLLED for (int c = 0; c < 4; c++) \
                parts[i][c] = c < vectors ? _mm512_load_ps(sums + i * depth + c * LANES) : _mm512_setzero_ps(); \
        for (ptrdiff_t j = 0; j < keys; j++) { \
            __m512 value[4]; \
            UNROLLED for (int c = 0; c < 4; c++) \
                value[c] = _mm512_load_ps(values + j * depth + (c < vectors ? c : 0) * LANES); \
            UNROLLED for (int i = 0; i < count; i++) { \
                const __m512 weight = _mm512_set1_ps(weights[i * width + j]); \
                UNROLLED for (int c = 0; c < 4; c++) parts[i][c] = _mm512_fmadd_ps(weight, value[c], parts[i][c]); \
            } \
        } \
        UNROLLED for (int i = 0; i < count; i++) \
            UNROLLED for (int c = 0; c < 4; c++) \
                if (c < vectors) \
                    _mm512_store_ps(sums + i * depth + c * LANES, parts[i][c]); \
    }

WEIGHTED_OF(6)
WEIGHTED_OF(4)
WEIGHTED_OF(2)
WEIGHTED_OF(1)

/* The head and query of a row. Rows of all heads that share keys are consecutive. */
struct row_position {
    ptrdiff_t head, query;
};

static inline struct row_position position_of(const struct attention *args, ptrdiff_t key_head, ptrdiff_t row)
{
    const ptrdiff_t group = args->heads / args->key_heads;
    return (struct row_position){key_head * group + row / args->queries, row % args->queries};
}

AVX512 static void read_queries(const struct job *job, ptrdiff_t key_head, ptrdiff_t first, ptrdiff_t rows, float *out)
{
    const struct attention *args = job->args;
    for (ptrdiff_t row = 0; row < rows; row++) {
        const struct row_position position = position_of(args, key_head, first + row);
        const ptrdiff_t at = position.head * args->q_head + position.query * args->q_row;
        for (ptrdiff_t d = 0; d < job->depth; d += LANES)
            _mm512_store_ps(out + row * job->depth + d,
                            load(args->q, at + d, first_lanes(args->channels - d), args->kind));
    }
}

/* Prefetches tokens that are read soon: the processor does not predict rows that are far apart. */
static inline void ask_for(const void *from, ptrdiff_t at, ptrdiff_t row, ptrdiff_t rows, ptrdiff_t channels,
                           int32_t kind)
{
    const ptrdiff_t bytes = kind == FLOAT32 ? 4 : 2;
    for (ptrdiff_t i = 0; i < rows; i++)
        for (ptrdiff_t byte = 0; byte < channels * bytes; byte += 64)
            _mm_prefetch((const char *)from + (at + i * row) * bytes + byte, _MM_HINT_T0);
}

/* Sixteen keys, channel by channel. */
AVX512 static void read_keys(const struct job *job, ptrdiff_t key_head, ptrdiff_t key, float *out)
{
    const struct attention *args = job->args;
    const ptrdiff_t at = key_head * args->k_head + key * args->k_row, left = args->keys - key - LANES;
    ask_for(args->k, at + LANES * args->k_row, args->k_row, left < LANES ? left : LANES, args->channels,
            args->kind);
    for (ptrdiff_t d = 0; d < job->depth; d += LANES) {
        const __mmask16 kept = first_lanes(args->channels - d);
        __m512i v[LANES];
        UNROLLED16 for (int i = 0; i < LANES; i++)
            v[i] = _mm512_castps_si512(
                load(args->k, at + i * args->k_row + d, key + i < args->keys ? kept : 0, args->kind));
        transpose(v);
        UNROLLED16 for (int i = 0; i < LANES; i++) _mm512_store_si512(out + (d + i) * LANES, v[i]);
    }
}

AVX512 static void read_values(const struct job *job, ptrdiff_t key_head, ptrdiff_t key, ptrdiff_t keys, float *out)
{
    const struct attention *args = job->args;
    for (ptrdiff_t j = 0; j < keys; j++) {
        const ptrdiff_t at = key_head * args->v_head + (key + j) * args->v_row;
        if (j + LANES < keys)
            ask_for(args->v, at + LANES * args->v_row, 0, 1, args->value_channels, args->kind);
        for (ptrdiff_t c = 0; c < job->value_depth; c += LANES)
            _mm512_store_ps(out + j * job->value_depth + c,
                            load(args->v, at + c, first_lanes(args->value_channels - c), args->kind));
    }
}

AVX512 static int are_finite(const struct attention *args, ptrdiff_t key_head, ptrdiff_t key, ptrdiff_t stop)
{
    const __m512i exponent = _mm512_set1_epi32(0x7f800000);
    for (; key < stop; key++) {
        const ptrdiff_t at = key_head * args->v_head + key * args->v_row;
        for (ptrdiff_t c = 0; c < args->value_channels; c += LANES) {
            const __m512i bits =
                _mm512_castps_si512(load(args->v, at + c, first_lanes(args->value_channels - c), args->kind));
            if (_mm512_cmpeq_epi32_mask(_mm512_and_si512(bits, exponent), exponent))
                return 0;
        }
    }
    return 1;
}

/* Which of sixteen keys are masked for a query. */
AVX512 static inline __mmask16 hidden_keys(const struct attention *args, struct row_position position, ptrdiff_t key)
{
    const __m512i at = _mm512_add_epi32(_mm512_set1_epi32((int32_t)key),
                                        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    const ptrdiff_t first = position.query + args->first, last = position.query + args->last;
    __mmask16 hidden = first > INT32_MAX || last < 0 ? 0xffff : 0;
    if (first > 0)
        hidden |= _mm512_cmplt_epi32_mask(at, _mm512_set1_epi32((int32_t)first));
    if (last < INT32_MAX)
        hidden |= _mm512_cmpgt_epi32_mask(at, _mm512_set1_epi32((int32_t)last));
    if (args->mask) {
        const uint8_t *mask = args->mask + position.head * args->mask_head + position.query * args->mask_row;
        if (!args->mask_key)
            return *mask ? 0xffff : hidden;
        const __m128i bytes = _mm_maskz_loadu_epi8(first_lanes(args->keys - key), mask + key);
        hidden |= _mm_test_epi8_mask(bytes, bytes);
    }
    return hidden;
}

/* Whether a row attends to some key; or has no score above that of masked keys, which then all have a weight of one;
or is fully masked. */
enum row_state { ATTENDS, NO_SCORE_ABOVE_MASKED, FULLY_MASKED };

/* Converts the scores from `start` to `stop` to weights, or all scores where masked keys have weights. */
AVX512 static enum row_state weigh(const struct attention *args, struct row_position position, float *scores, ptrdiff_t start,
                        ptrdiff_t stop)
{
    const __m512 least = _mm512_set1_ps(-INFINITY);
    __m512 most = least;
    __mmask16 wrong = 0, seen = 0;
    int hides = start > 0 || stop < args->keys;
    for (ptrdiff_t j = start; j < stop; j += LANES) {
        const __mmask16 kept = first_lanes(stop - j), hidden = hidden_keys(args, position, j) & kept;
        __m512 score = _mm512_mul_ps(_mm512_load_ps(scores + j), _mm512_set1_ps((float)args->scale));
        score = _mm512_mask_mov_ps(score, hidden, _mm512_set1_ps(HIDDEN));
        score = _mm512_mask_mov_ps(least, kept, score);
        _mm512_store_ps(scores + j, score);
        most = _mm512_max_ps(most, score);
        wrong |= _mm512_cmp_ps_mask(score, score, _CMP_UNORD_Q);
        hides |= hidden != 0;
        seen |= kept & ~hidden;
    }
    float largest = wrong ? NAN : _mm512_reduce_max_ps(most);
    const enum row_state state = !hides || !(largest <= HIDDEN) ? ATTENDS : seen ? NO_SCORE_ABOVE_MASKED : FULLY_MASKED;
    if (state != ATTENDS) {
        largest = HIDDEN;
        for (ptrdiff_t j = 0; j < args->keys; j++)
            if (j < start || j >= stop)
                scores[j] = HIDDEN;
        start = 0, stop = args->keys;
    }
    __m512 sum = _mm512_setzero_ps();
    for (ptrdiff_t j = start; j < stop; j += LANES) {
        const __m512 weight = exponential(_mm512_sub_ps(_mm512_load_ps(scores + j), _mm512_set1_ps(largest)));
        sum = _mm512_mask_add_ps(sum, first_lanes(stop - j), sum, weight);
        _mm512_store_ps(scores + j, rounded(weight, args->kind));
    }
    const float total = _mm512_reduce_add_ps(sum);
    const ptrdiff_t at = position.head * args->rows_head + position.query * args->rows_row;
    for (ptrdiff_t copy = 0; copy < args->copies; copy++)
        args->largest[at + copy] = largest, args->total[at + copy] = total;
    return state;
}

/* The range of keys that a row attends to; it starts at a multiple of a vector. */
struct span {
    ptrdiff_t start, stop;
};

/* The union of the ranges of `rows` rows. */
static inline struct span seen_by(const struct span *spans, ptrdiff_t rows)
{
    struct span all = {PTRDIFF_MAX, 0};
    for (ptrdiff_t row = 0; row < rows; row++) {
        all.start = spans[row].start < all.start ? spans[row].start : all.start;
        all.stop = spans[row].stop > all.stop ? spans[row].stop : all.stop;
    }
    return all;
}

/* Adds the values of `keys` keys from `key` to the sums of the rows that attend to some of them. */
AVX512 static void add_values(const struct job *job, struct scratch scratch, const struct span *spans, ptrdiff_t first_row,
                              ptrdiff_t rows, ptrdiff_t key, ptrdiff_t keys)
{
    const ptrdiff_t depth = job->value_depth, width = job->width;
    for (ptrdiff_t c = 0; c < depth; c += 4 * LANES) {
        const int vectors = depth - c < 4 * LANES ? (int)((depth - c) / LANES) : 4;
        for (ptrdiff_t row = first_row, count; row < first_row + rows; row += count) {
            const ptrdiff_t left = first_row + rows - row;
            count = left >= 6 ? 6 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            const struct span span = seen_by(spans + row, count);
            const ptrdiff_t from = span.start > key ? span.start : key;
            const ptrdiff_t to = span.stop < key + keys ? span.stop : key + keys;
            if (from >= to)
                continue;
            (count == 6   ? weighted_6
             : count == 4 ? weighted_4
             : count == 2 ? weighted_2
                          : weighted_1)(scratch.scores + row * width + from, width,
                                        scratch.values + (from - key) * depth + c, depth, to - from,
                                        scratch.sums + row * depth + c, vectors);
        }
    }
}

AVX512 static void add_keys(const struct job *job, struct scratch scratch, ptrdiff_t key_head, const struct span *spans,
                            ptrdiff_t first_row, ptrdiff_t rows)
{
    const struct span all = seen_by(spans + first_row, rows);
    memset(scratch.sums + first_row * job->value_depth, 0, (size_t)(rows * job->value_depth) * sizeof *scratch.sums);
    for (ptrdiff_t key = all.start; key < all.stop; key += CHUNK) {
        const ptrdiff_t keys = all.stop - key < CHUNK ? all.stop - key : CHUNK;
        read_values(job, key_head, key, keys, scratch.values);
        add_values(job, scratch, spans, first_row, rows, key, keys);
    }
}

AVX512 static void store_row(const struct job *job, struct row_position position, const float *sums, int is_void)
{
    const struct attention *args = job->args;
    const ptrdiff_t at = position.head * args->out_head + position.query * args->out_row;
    const __m512 total = _mm512_set1_ps(args->total[position.head * args->rows_head + position.query * args->rows_row]);
    for (ptrdiff_t c = 0; c < args->value_channels; c += LANES) {
        const __mmask16 kept = first_lanes(args->value_channels - c);
        const __m512 values = is_void ? _mm512_setzero_ps() : _mm512_div_ps(_mm512_load_ps(sums + c), total);
        if (args->kind == FLOAT32)
            _mm512_mask_storeu_ps((float *)args->out + at + c, kept, values);
        else
            store_shorts((uint16_t *)args->out + at + c, kept, halves(values, args->kind));
    }
}

/* Narrows a span by the bytes of a mask; it is empty where all keys are masked. */
AVX512 static struct span unmasked(const uint8_t *mask, struct span span)
{
    for (; span.start < span.stop; span.start += 64) {
        const ptrdiff_t left = span.stop - span.start;
        const __mmask64 kept = left < 64 ? ~0ull >> (64 - left) : ~0ull;
        const __m512i bytes = _mm512_maskz_loadu_epi8(kept, mask + span.start);
        const __mmask64 seen = _mm512_mask_testn_epi8_mask(kept, bytes, bytes);
        if (seen) {
            span.start += __builtin_ctzll(seen);
            break;
        }
    }
    if (span.start > span.stop)
        span.start = span.stop;
    while (span.stop > span.start) {
        const ptrdiff_t from = span.stop - span.start < 64 ? span.start : span.stop - 64;
        const __mmask64 kept = ~0ull >> (64 - (span.stop - from));
        const __m512i bytes = _mm512_maskz_loadu_epi8(kept, mask + from);
        const __mmask64 seen = _mm512_mask_testn_epi8_mask(kept, bytes, bytes);
        if (seen) {
            span.stop = from + 64 - __builtin_clzll(seen);
            break;
        }
        span.stop = from;
    }
    return span;
}

AVX512 static struct span seen_from(const struct attention *args, struct row_position position)
{
    const ptrdiff_t from = position.query + args->first, to = position.query + args->last + 1;
    struct span span = {from < 0 ? 0 : from < args->keys ? from : args->keys,
                        to < 0 ? 0 : to < args->keys ? to : args->keys};
    if (args->mask && span.start < span.stop) {
        const uint8_t *mask = args->mask + position.head * args->mask_head + position.query * args->mask_row;
        if (args->mask_key)
            span = unmasked(mask, span);
        else if (*mask)
            span.stop = span.start;
    }
    span.start = span.start / LANES * LANES;
    if (span.stop < span.start)
        span.stop = span.start;
    return span;
}

/* The spans of a block: all keys where masked values have to be added. */
AVX512 static void find_spans(const struct attention *args, ptrdiff_t key_head, ptrdiff_t first, ptrdiff_t rows,
                              struct span *spans)
{
    int is_narrow = 0;
    for (ptrdiff_t row = 0; row < rows; row++) {
        spans[row] = seen_from(args, position_of(args, key_head, first + row));
        is_narrow |= spans[row].start > 0 || spans[row].stop < args->keys;
    }
    if (is_narrow && !are_finite(args, key_head, 0, args->keys))
        for (ptrdiff_t row = 0; row < rows; row++)
            spans[row] = (struct span){0, args->keys};
}

AVX512 static void score(const struct job *job, struct scratch scratch, ptrdiff_t key_head, const struct span *spans,
                         ptrdiff_t rows)
{
    const struct span all = seen_by(spans, rows);
    for (ptrdiff_t key = all.start; key < all.stop; key += LANES) {
        read_keys(job, key_head, key, scratch.keys);
        for (ptrdiff_t row = 0, count; row < rows; row += count) {
            const float *queries = scratch.queries + row * job->depth;
            float *out = scratch.scores + row * job->width + key;
            const ptrdiff_t left = rows - row;
            count = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            const struct span span = seen_by(spans + row, count);
            if (key < span.start || key >= span.stop)
                continue;
            (count == 8   ? scores_8
             : count == 4 ? scores_4
             : count == 2 ? scores_2
                          : scores_1)(queries, scratch.keys, job->depth, out, job->width);
        }
    }
}

AVX512 static void block(const struct job *job, struct scratch scratch, ptrdiff_t key_head, ptrdiff_t first, ptrdiff_t rows)
{
    const struct attention *args = job->args;
    struct span spans[MAX_ROWS];
    enum row_state sights[MAX_ROWS];
    find_spans(args, key_head, first, rows, spans);
    const struct span all = seen_by(spans, rows);
    read_queries(job, key_head, first, rows, scratch.queries);
    score(job, scratch, key_head, spans, rows);
    for (ptrdiff_t row = 0; row < rows; row++) {
        float *weights = scratch.scores + row * job->width;
        sights[row] = weigh(args, position_of(args, key_head, first + row), weights, spans[row].start, spans[row].stop);
        if (sights[row] == ATTENDS) {
            const ptrdiff_t end = whole(spans[row].stop);
            memset(weights + all.start, 0, (size_t)(spans[row].start - all.start) * sizeof *weights);
            if (end < all.stop)
                memset(weights + end, 0, (size_t)(all.stop - end) * sizeof *weights);
        }
    }
    add_keys(job, scratch, key_head, spans, 0, rows);
    for (ptrdiff_t row = 0; row < rows; row++) {
        const struct row_position position = position_of(args, key_head, first + row);
        const int sees_none = position.query + args->last < 0 || position.query + args->first >= args->keys
                              || args->first > args->last;
        if (sights[row] != ATTENDS) {
            spans[row] = (struct span){0, args->keys};
            add_keys(job, scratch, key_head, spans, row, 1);
        }
        store_row(job, position, scratch.sums + row * job->value_depth,
                  sees_none || (sights[row] == FULLY_MASKED && args->blind_gives_zeros));
    }
}

static void work(void *shared)
{
    struct job *job = shared;
    const struct attention *args = job->args;
    const ptrdiff_t thread = __atomic_fetch_add(&job->started, 1, __ATOMIC_RELAXED);
    const ptrdiff_t all = args->heads / args->key_heads * args->queries;
    struct scratch scratch = {.scores = job->scratch + thread * job->scratch_per_thread};
    scratch.queries = scratch.scores + job->block_rows * job->width;
    scratch.keys = scratch.queries + job->block_rows * job->depth;
    scratch.values = scratch.keys + job->depth * LANES;
    scratch.sums = scratch.values + CHUNK * job->value_depth;
    for (;;) {
        const ptrdiff_t number = __atomic_fetch_add(&job->taken, 1, __ATOMIC_RELAXED);
        if (number >= job->blocks * args->key_heads)
            return;
        /* The last blocks of a head first: with causal masks they take longest. */
        const ptrdiff_t first = (job->blocks - 1 - number / args->key_heads) * job->block_rows;
        const ptrdiff_t rows = all - first < job->block_rows ? all - first : job->block_rows;
        block(job, scratch, number % args->key_heads, first, rows);
    }
}

SHOWN int graph_quant_attention_serves(void)
{
    return has_avx512();
}

/* Returns 0, or 1 if memory is short. No size is zero. */
SHOWN int graph_quant_attention(const struct attention *args, parallel in_threads, int threads)
{
    const ptrdiff_t all = args->heads / args->key_heads * args->queries;
    struct job job = {.args = args,
                      .width = whole(args->keys),
                      .depth = whole(args->channels),
                      .value_depth = whole(args->value_channels)};
    const ptrdiff_t fitting = SCORES / job.width;
    job.block_rows = fitting < 1 ? 1 : fitting < MAX_ROWS ? fitting : MAX_ROWS;
    job.block_rows = all < job.block_rows ? all : job.block_rows;
    job.blocks = (all + job.block_rows - 1) / job.block_rows;
    const ptrdiff_t scratch = job.block_rows * (job.width + job.depth + job.value_depth) + job.depth * LANES
                           + CHUNK * job.value_depth;
    job.scratch_per_thread = whole(scratch);
    threads = in_threads ? threads : 1;
    job.scratch = aligned_alloc(64, (size_t)(job.scratch_per_thread * threads) * sizeof *job.scratch);
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
