/* attention_body: the tile kernels of attention in the vocabulary of one instruction set. Included
 * after vector_body.h by each vector_<isa>.c.
 *
 * A row's arithmetic never depends on the other rows of its tile: scores are one chain over k_dim,
 * values one chain over the keys, and keys that a row does not see add exact zeros.
 * Source: online softmax, Milakov & Gimelshein, arXiv:1805.02867, algorithm 3. */
#ifndef CPU_ATTENTION_BODY_H
#define CPU_ATTENTION_BODY_H

#include "quant/float_convert.h"

#include "cpu/attention_unpack.h"

#define TILE_ROWS 6 /* query rows whose sums stay in registers */
#define BLOCK_VECTORS (KEY_BLOCK / VF_LANES)
#define BLOCK_GROUPS (KEY_BLOCK / KEY_GROUP)

/* Few rows leave registers free: so many groups of keys (or of 16 value columns) at once, so that
 * enough sums are under way to hide the latency of a product. */
HOT_INLINE int groups_at_once(int rows)
{
    int n = rows == 1 ? 4 : rows <= 3 ? 2 : 1;
    return n < BLOCK_GROUPS ? n : BLOCK_GROUPS;
}

/* --- into a tile: for many rows ----------------------------------------------------------- */

/* One key group to f32 [k_dim][16]; NULL: zeros. */
HOT_INLINE void unpack_keys(enum tensor_type type, const uint8_t *group, int dim, float *out)
{
    int elements = unpack_block_elements(type), each = unpack_step_elements(type);
    if (!group) {
        memset(out, 0, (size_t)(dim * 16) * sizeof(float));
        return;
    }
    for (int b = 0; b < dim / elements; b++, group += 16 * unpack_block_bytes(type))
        for (int v = 0; v < GROUP_VECTORS; v++) {
            VF scale = unpack_key_scale(type, group, v);
            const uint8_t *step = group + 16 * unpack_scale_bytes(type);
            float *to = out + b * elements * 16 + v * VF_LANES;
            for (int s = 0; s < elements / each; s++, to += 16 * each) {
                VF element[STEP_MAX];
                unpack_key_step(type, step, scale, v, element);
                for (int e = 0; e < each; e++)
                    vf_store(to + 16 * e, element[e]);
                step += 16 * unpack_step_bytes(type);
            }
        }
}

/* n value rows to f32 [n][stride], zeros behind dim. Plain numbers alone may end inside 16. */
HOT_INLINE void unpack_values(enum tensor_type type, const uint8_t *row, int n, int dim, float *out,
                              int stride)
{
    int64_t bytes = (int64_t)dim / unpack_block_elements(type) * unpack_block_bytes(type);
    const struct kv_codec *codec = dim % 16 ? kv_codec_of(type) : NULL;
    for (int j = 0; j < n; j++, row += bytes, out += stride) {
        int d = 0;
        for (; d + 16 <= dim; d += 16) {
            VF column[GROUP_VECTORS];
            unpack_value_columns(type, row, d, column);
            for (int v = 0; v < GROUP_VECTORS; v++)
                vf_store(out + d + v * VF_LANES, column[v]);
        }
        if (codec)
            kv_decode_row(codec, row + (int64_t)d * unpack_block_bytes(type), out + d, dim - d);
        memset(out + dim, 0, (size_t)(stride - dim) * sizeof(float));
    }
}

HOT_INLINE void unpack_tile(enum tensor_type k_type, enum tensor_type v_type, bool keys,
                            const struct attention_tile *t, int n_keys)
{
    for (int g = 0; g * KEY_GROUP < n_keys; g++) {
        if (keys) {
            unpack_keys(k_type, t->key_group[g], t->k_dim, t->k + g * KEY_GROUP * t->k_dim);
            continue;
        }
        int n = n_keys - g * KEY_GROUP < KEY_GROUP ? n_keys - g * KEY_GROUP : KEY_GROUP;
        float *to = t->v + g * KEY_GROUP * t->v_dim_padded;
        if (t->value_rows[g])
            unpack_values(v_type, t->value_rows[g], n, t->v_dim, to, t->v_dim_padded);
        else
            memset(to, 0, (size_t)(n * t->v_dim_padded) * sizeof(float));
    }
}

/* --- scores ------------------------------------------------------------------------------- */

/* Scores of `rows` rows from r0 on against n groups from g on that lie packed as `type`. Each
 * score is one chain of products over k_dim, however many are computed together. */
HOT_INLINE void score_groups(enum tensor_type type, const struct attention_tile *t, int r0,
                             int rows, int g, int n, const uint8_t *const group[])
{
    int elements = unpack_block_elements(type), each = unpack_step_elements(type);
    const float *q = t->q + (int64_t)r0 * t->k_dim;
    VF sum[TILE_ROWS][4][GROUP_VECTORS];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                sum[r][i][v] = vf_set(0);
    for (int b = 0; b < t->k_dim / elements; b++) {
        int64_t at = (int64_t)b * 16 * unpack_block_bytes(type);
        VF scale[4][GROUP_VECTORS];
        for (int i = 0; i < n; i++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                scale[i][v] = unpack_key_scale(type, group[g + i] + at, v);
        at += 16 * unpack_scale_bytes(type);
        for (int s = 0; s < elements / each; s++, at += 16 * unpack_step_bytes(type))
            for (int i = 0; i < n; i++)
                for (int v = 0; v < GROUP_VECTORS; v++) {
                    VF key[STEP_MAX];
                    unpack_key_step(type, group[g + i] + at, scale[i][v], v, key);
                    for (int e = 0; e < each; e++)
                        for (int r = 0; r < rows; r++) {
                            float x = q[r * t->k_dim + b * elements + s * each + e];
                            sum[r][i][v] = vf_fma(vf_set(x), key[e], sum[r][i][v]);
                        }
                }
    }
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                vf_store(t->score + (r0 + r) * KEY_BLOCK + (g + i) * 16 + v * VF_LANES,
                         sum[r][i][v]);
}

/* Groups that nobody sees score 0, which the mask hides. */
HOT_INLINE void score_rows(enum tensor_type type, const struct attention_tile *t, int r0, int rows,
                           int n_keys, const uint8_t *const group[])
{
    int g = 0, n = (n_keys + KEY_GROUP - 1) / KEY_GROUP, many = groups_at_once(rows);
    while (g < n && !group[g])
        g++;
    for (int r = r0; r < r0 + rows && g > 0; r++)
        memset(t->score + r * KEY_BLOCK, 0, (size_t)(g * KEY_GROUP) * sizeof(float));
    for (; g + many <= n; g += many)
        score_groups(type, t, r0, rows, g, many, group);
    for (; g < n; g++)
        score_groups(type, t, r0, rows, g, 1, group);
    for (int r = r0; r < r0 + rows && n < BLOCK_GROUPS; r++)
        memset(t->score + r * KEY_BLOCK + n * KEY_GROUP, 0,
               (size_t)((BLOCK_GROUPS - n) * KEY_GROUP) * sizeof(float));
}

/* Turns the scores of row r into exp(score - new maximum); returns the factor for what was summed
 * under the old maximum. */
HOT_INLINE float softmax_row(const struct attention_tile *t, int r)
{
    float *score = t->score + (int64_t)r * KEY_BLOCK;
    VF s[BLOCK_VECTORS], largest = vf_set(-INFINITY);
    VF first = vf_set((float)t->first[r]), end = vf_set((float)t->end[r]);
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        VF at = vf_add(vf_index(), vf_set((float)(v * VF_LANES)));
        s[v] = vf_load(score + v * VF_LANES);
        if (t->softcap > 0)
            s[v] = vf_mul(vf_set(t->softcap), vf_tanh(vf_div(s[v], vf_set(t->softcap))));
        s[v] = vf_where_less(at, end, s[v], vf_set(-INFINITY));
        s[v] = vf_where_less(at, first, vf_set(-INFINITY), s[v]);
        largest = vf_max(largest, s[v]);
    }
    float old = t->max[r], block = vf_largest(largest);
    float now = block > old ? block : old;
    /* Nothing visible so far: any finite maximum gives zeros. A NaN among the scores stays. */
    VF shift = vf_set(now == -INFINITY ? 0.0f : now), sum = vf_set(0);
    for (int v = 0; v < BLOCK_VECTORS; v++) {
        s[v] = vf_exp(vf_sub(s[v], shift));
        vf_store(score + v * VF_LANES, s[v]);
        sum = vf_add(sum, s[v]);
    }
    float factor = 1;
    if (now != old) {
        float lane[VF_LANES];
        vf_store(lane, vf_exp(vf_set(old - now)));
        factor = lane[0];
    }
    t->max[r] = now;
    t->sum[r] = t->sum[r] * factor + vf_sum(sum);
    return factor;
}

/* --- values ------------------------------------------------------------------------------- */

/* acc = acc * factor + sum over the keys first <= j < end of p[j] * v[j], for n times 16 columns
 * from d on; values lie in groups of 16 rows. One chain over the keys for each sum. */
HOT_INLINE void value_columns(enum tensor_type type, const struct attention_tile *t, int r0,
                              int rows, const float *factor, int first, int end, int d, int n,
                              const uint8_t *const group[], int64_t row_bytes)
{
    const float *p = t->score + (int64_t)r0 * KEY_BLOCK;
    float *acc = t->acc + (int64_t)r0 * t->v_dim_padded + d;
    VF sum[TILE_ROWS][4][GROUP_VECTORS];
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                sum[r][i][v] = vf_mul(vf_set(factor[r]),
                                      vf_load(acc + r * t->v_dim_padded + i * 16 + v * VF_LANES));
    for (int j = first; j < end;) {
        int stop = (j / KEY_GROUP + 1) * KEY_GROUP;
        stop = stop < end ? stop : end;
        const uint8_t *row = group[j / KEY_GROUP] + j % KEY_GROUP * row_bytes;
        for (; j < stop; j++, row += row_bytes)
            for (int i = 0; i < n; i++) {
                VF x[GROUP_VECTORS];
                unpack_value_columns(type, row, d + i * 16, x);
                for (int r = 0; r < rows; r++) {
                    VF weight = vf_set(p[r * KEY_BLOCK + j]);
                    for (int v = 0; v < GROUP_VECTORS; v++)
                        sum[r][i][v] = vf_fma(weight, x[v], sum[r][i][v]);
                }
            }
    }
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < n; i++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                vf_store(acc + r * t->v_dim_padded + i * 16 + v * VF_LANES, sum[r][i][v]);
}

HOT_INLINE void value_rows(enum tensor_type type, const struct attention_tile *t, int r0, int rows,
                           const float *factor, int first, int end, const uint8_t *const group[],
                           int64_t row_bytes)
{
    int d = 0, many = groups_at_once(rows);
    for (; d + 16 * many <= t->v_dim_padded; d += 16 * many)
        value_columns(type, t, r0, rows, factor, first, end, d, many, group, row_bytes);
    for (; d < t->v_dim_padded; d += 16)
        value_columns(type, t, r0, rows, factor, first, end, d, 1, group, row_bytes);
}

/* --- blocks ------------------------------------------------------------------------------- */

/* The keys of the block that any of the rows sees: first <= j < end. */
HOT_INLINE bool seen_keys(const struct attention_tile *t, int r0, int rows, int *first, int *end)
{
    *first = KEY_BLOCK, *end = 0;
    for (int r = r0; r < r0 + rows; r++) {
        *first = t->first[r] < *first ? t->first[r] : *first;
        *end = t->end[r] > *end ? t->end[r] : *end;
    }
    return *first < *end;
}

HOT_INLINE void tile_rows(const struct attention_tile *t, int r0, int rows, int n_keys)
{
    const uint8_t *keys[BLOCK_GROUPS], *values[BLOCK_GROUPS];
    float factor[TILE_ROWS];
    int first, end;
    if (!seen_keys(t, r0, rows, &first, &end))
        return;
    for (int g = 0; g < BLOCK_GROUPS; g++) {
        keys[g] = (const uint8_t *)(t->k + g * KEY_GROUP * t->k_dim);
        values[g] = (const uint8_t *)(t->v + g * KEY_GROUP * t->v_dim_padded);
    }
    score_rows(TENSOR_TYPE_F32, t, r0, rows, n_keys, keys);
    for (int r = 0; r < rows; r++)
        factor[r] = softmax_row(t, r0 + r);
    value_rows(TENSOR_TYPE_F32, t, r0, rows, factor, first, end, values,
               (int64_t)t->v_dim_padded * 4);
}

/* Calls of one type with the row count as a constant. */
#define BY_ROWS(n, call) \
    switch (n) { \
    case 1: \
        call(1); \
        break; \
    case 2: \
        call(2); \
        break; \
    case 3: \
        call(3); \
        break; \
    case 4: \
        call(4); \
        break; \
    case 5: \
        call(5); \
        break; \
    default: \
        call(6); \
    }

/* Rows in passes of nearly equal size. */
static void vector_attention_tile(const struct attention_tile *t, int n_keys)
{
    int passes = (t->n_rows + TILE_ROWS - 1) / TILE_ROWS;
    for (int i = 0, r = 0; i < passes; i++) {
        int n = (t->n_rows - r + passes - i - 1) / (passes - i);
#define TILE(rows) tile_rows(t, r, rows, n_keys)
        BY_ROWS(n, TILE)
#undef TILE
        r += n;
    }
}

#define DIRECT(name) \
    static void unpack_keys_##name(const struct attention_tile *t, int n_keys) \
    { \
        unpack_tile(TENSOR_TYPE_##name, TENSOR_TYPE_##name, true, t, n_keys); \
    } \
    static void unpack_values_##name(const struct attention_tile *t, int n_keys) \
    { \
        unpack_tile(TENSOR_TYPE_##name, TENSOR_TYPE_##name, false, t, n_keys); \
    } \
    static void score_##name(const struct attention_tile *t, int n_keys) \
    { \
        BY_ROWS(t->n_rows, SCORE_##name) \
    } \
    static void value_##name(const struct attention_tile *t, const float *factor, int first, \
                             int end) \
    { \
        int64_t bytes = (int64_t)t->v_dim / unpack_block_elements(TENSOR_TYPE_##name) * \
                        unpack_block_bytes(TENSOR_TYPE_##name); \
        BY_ROWS(t->n_rows, VALUE_##name) \
    }
#define SCORE(name, rows) score_rows(TENSOR_TYPE_##name, t, 0, rows, n_keys, t->key_group)
#define VALUE(name, rows) \
    value_rows(TENSOR_TYPE_##name, t, 0, rows, factor, first, end, t->value_rows, bytes)
#define SCORE_F32(rows) SCORE(F32, rows)
#define VALUE_F32(rows) VALUE(F32, rows)
#define SCORE_F16(rows) SCORE(F16, rows)
#define VALUE_F16(rows) VALUE(F16, rows)
#define SCORE_BF16(rows) SCORE(BF16, rows)
#define VALUE_BF16(rows) VALUE(BF16, rows)
#define SCORE_F8_E4M3(rows) SCORE(F8_E4M3, rows)
#define VALUE_F8_E4M3(rows) VALUE(F8_E4M3, rows)
#define SCORE_Q8_0(rows) SCORE(Q8_0, rows)
#define VALUE_Q8_0(rows) VALUE(Q8_0, rows)
#define SCORE_Q4_0(rows) SCORE(Q4_0, rows)
#define VALUE_Q4_0(rows) VALUE(Q4_0, rows)
#define SCORE_NVFP4(rows) SCORE(NVFP4, rows)
#define VALUE_NVFP4(rows) VALUE(NVFP4, rows)
#define SCORE_TURBO3(rows) SCORE(TURBO3, rows)
#define VALUE_TURBO3(rows) VALUE(TURBO3, rows)
#define SCORE_TURBO4(rows) SCORE(TURBO4, rows)
#define VALUE_TURBO4(rows) VALUE(TURBO4, rows)
DIRECT(F32)
DIRECT(F16)
DIRECT(BF16)
DIRECT(F8_E4M3)
DIRECT(Q8_0)
DIRECT(Q4_0)
DIRECT(NVFP4)
DIRECT(TURBO3)
DIRECT(TURBO4)

/* What one type of the cache needs. */
struct unpack_kernels {
    enum tensor_type type;
    void (*keys)(const struct attention_tile *, int n_keys);
    void (*values)(const struct attention_tile *, int n_keys);
    void (*score)(const struct attention_tile *, int n_keys);
    void (*value)(const struct attention_tile *, const float *factor, int first, int end);
};

static const struct unpack_kernels *unpack_kernels_of(enum tensor_type type)
{
    static const struct unpack_kernels all[] = {
#define KERNELS(name) \
    { TENSOR_TYPE_##name, unpack_keys_##name, unpack_values_##name, score_##name, value_##name },
        KERNELS(F32) KERNELS(F16) KERNELS(BF16) KERNELS(F8_E4M3) KERNELS(Q8_0) KERNELS(Q4_0)
            KERNELS(NVFP4) KERNELS(TURBO3) KERNELS(TURBO4)
#undef KERNELS
    };
    size_t i = 0;
    while (all[i].type != type)
        i++; /* kv_pages.c admits no other type */
    return &all[i];
}

/* The same chains of products as the tile's, from packed keys and values straight to registers. */
static void attention_direct(const struct attention_tile *t, const struct unpack_kernels *k,
                             const struct unpack_kernels *v, int n_keys)
{
    float factor[TILE_ROWS];
    int first, end;
    if (!seen_keys(t, 0, t->n_rows, &first, &end))
        return;
    k->score(t, n_keys);
    for (int r = 0; r < t->n_rows; r++)
        factor[r] = softmax_row(t, r);
    v->value(t, factor, first, end);
}

static void vector_attention_block(const struct attention_tile *t, int n_keys)
{
    const struct unpack_kernels *k = unpack_kernels_of(t->k_type);
    const struct unpack_kernels *v = unpack_kernels_of(t->v_type);
    if (t->n_rows <= TILE_ROWS && t->v_dim % 16 == 0) {
        attention_direct(t, k, v, n_keys);
        return;
    }
    k->keys(t, n_keys);
    v->values(t, n_keys);
    vector_attention_tile(t, n_keys);
}

static void vector_attention_merge(const struct attention_tile *into, const float *max,
                                   const float *sum, const float *acc)
{
    for (int r = 0; r < into->n_rows; r++) {
        float now = into->max[r] > max[r] ? into->max[r] : max[r];
        if (now == -INFINITY)
            continue;
        float lane[VF_LANES];
        vf_store(lane, vf_exp(vf_set(into->max[r] - now)));
        float mine = lane[0];
        vf_store(lane, vf_exp(vf_set(max[r] - now)));
        float other = lane[0];
        into->max[r] = now;
        into->sum[r] = into->sum[r] * mine + sum[r] * other;
        float *a = into->acc + (int64_t)r * into->v_dim_padded;
        const float *b = acc + (int64_t)r * into->v_dim_padded;
        for (int d = 0; d < into->v_dim_padded; d += VF_LANES)
            vf_store(a + d,
                     vf_fma(vf_load(b + d), vf_set(other), vf_mul(vf_load(a + d), vf_set(mine))));
    }
}

#define VECTOR_KERNELS(isa) \
    const struct vector_kernels vector_kernels_##isa = { \
        .name = #isa, \
        .rms_norm = vector_rms_norm, \
        .add = vector_add, \
        .multiply = vector_multiply, \
        .scale = vector_scale, \
        .softcap = vector_softcap, \
        .activate = { vector_silu, vector_gelu_tanh, vector_gelu }, \
        .glu = { vector_glu_silu, vector_glu_gelu_tanh, vector_glu_gelu }, \
        .rope = { vector_rope_halves, vector_rope_neighbours }, \
        .dot = vector_dot, \
        .attention_block = vector_attention_block, \
        .attention_merge = vector_attention_merge, \
    }

#endif
