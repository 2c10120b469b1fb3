/* attention_body: the tile kernels of attention in the vocabulary of one instruction set. Included
 * after vector_body.h by each vector_<isa>.c.
 *
 * A row's arithmetic never depends on the other rows of its tile: scores are one chain over k_dim,
 * values one chain over the keys, and keys that a row does not see add exact zeros.
 * Source: online softmax, Milakov & Gimelshein, arXiv:1805.02867, algorithm 3. */
#ifndef CPU_ATTENTION_BODY_H
#define CPU_ATTENTION_BODY_H

#include "quant/blocks.h"
#include "quant/float_convert.h"

#define TILE_ROWS 6                      /* query rows whose sums stay in registers */
#define GROUP_VECTORS (16 / VF_LANES)    /* vectors of a key group, or of 16 value columns */
#define BLOCK_VECTORS (KEY_BLOCK / VF_LANES)

/* Key groups: [k_dim][16] numbers; Q8_0: for every 32 of k_dim 16 scales, then [32][16] codes. */
static void vector_keys_to_f32(enum tensor_type type, const uint8_t *group, int dim, float *out)
{
    int n = dim * 16;
    switch (type) {
    case TENSOR_TYPE_F16:
        for (int i = 0; i < n; i += VF_LANES)
            vf_store(out + i, vf_load_f16((const uint16_t *)(const void *)group + i));
        break;
    case TENSOR_TYPE_BF16:
        for (int i = 0; i < n; i += VF_LANES)
            vf_store(out + i, vf_load_bf16((const uint16_t *)(const void *)group + i));
        break;
    case TENSOR_TYPE_Q8_0:
        for (int b = 0; b < dim / 32; b++, group += 16 * 34) {
            const int8_t *code = (const int8_t *)group + 32;
            for (int v = 0; v < GROUP_VECTORS; v++) {
                VF scale = vf_load_f16((const uint16_t *)(const void *)group + v * VF_LANES);
                for (int d = 0; d < 32; d++) {
                    int at = d * 16 + v * VF_LANES;
                    vf_store(out + b * 512 + at, vf_mul(scale, vf_load_i8(code + at)));
                }
            }
        }
        break;
    default: /* F32; kv_pages.c admits no other type */
        memcpy(out, group, (size_t)n * sizeof(float));
    }
}

static void vector_value_row(enum tensor_type type, const uint8_t *row, int dim, float *out)
{
    int i = 0;
    switch (type) {
    case TENSOR_TYPE_F16:
        for (; i + VF_LANES <= dim; i += VF_LANES)
            vf_store(out + i, vf_load_f16((const uint16_t *)(const void *)row + i));
        for (; i < dim; i++)
            out[i] = f16_to_f32(((const uint16_t *)(const void *)row)[i]);
        break;
    case TENSOR_TYPE_BF16:
        for (; i < dim; i++)
            out[i] = bf16_to_f32(((const uint16_t *)(const void *)row)[i]);
        break;
    case TENSOR_TYPE_Q8_0:
        for (; i < dim; i += 32, row += 34) {
            const struct block_q8_0 *b = (const void *)row;
            VF scale = vf_set(f16_to_f32(b->d));
            for (int j = 0; j < 32; j += VF_LANES)
                vf_store(out + i + j, vf_mul(scale, vf_load_i8(b->qs + j)));
        }
        break;
    default:
        memcpy(out, row, (size_t)dim * sizeof(float));
    }
}

static void vector_values_to_f32(enum tensor_type type, const uint8_t *rows, int n, int dim,
                                 float *out, int stride)
{
    size_t row_bytes = type == TENSOR_TYPE_F32    ? (size_t)dim * 4
                       : type == TENSOR_TYPE_Q8_0 ? (size_t)dim / 32 * 34
                                                  : (size_t)dim * 2;
    for (int j = 0; j < n; j++, rows += row_bytes, out += stride) {
        vector_value_row(type, rows, dim, out);
        memset(out + dim, 0, (size_t)(stride - dim) * sizeof(float));
    }
}

/* Scores of `rows` rows from r0 on against the whole block. */
HOT_INLINE void score_rows(const struct attention_tile *t, int r0, int rows)
{
    const float *q = t->q + (int64_t)r0 * t->k_dim;
    for (int g = 0; g < KEY_BLOCK / 16; g++) {
        const float *k = t->k + (int64_t)g * t->k_dim * 16;
        VF sum[TILE_ROWS][GROUP_VECTORS];
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                sum[r][v] = vf_set(0);
        for (int d = 0; d < t->k_dim; d++) {
            VF key[GROUP_VECTORS];
            for (int v = 0; v < GROUP_VECTORS; v++)
                key[v] = vf_load(k + d * 16 + v * VF_LANES);
            for (int r = 0; r < rows; r++) {
                VF query = vf_set(q[r * t->k_dim + d]);
                for (int v = 0; v < GROUP_VECTORS; v++)
                    sum[r][v] = vf_fma(query, key[v], sum[r][v]);
            }
        }
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                vf_store(t->score + (r0 + r) * KEY_BLOCK + g * 16 + v * VF_LANES, sum[r][v]);
    }
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

/* acc = acc * factor + sum over the keys first <= j < end of p[j] * v[j] */
HOT_INLINE void value_rows(const struct attention_tile *t, int r0, int rows, const float *factor,
                           int first, int end)
{
    const float *p = t->score + (int64_t)r0 * KEY_BLOCK;
    float *acc = t->acc + (int64_t)r0 * t->v_dim_padded;
    for (int d = 0; d < t->v_dim_padded; d += 16) {
        VF sum[TILE_ROWS][GROUP_VECTORS];
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                sum[r][v] = vf_mul(vf_set(factor[r]),
                                   vf_load(acc + r * t->v_dim_padded + d + v * VF_LANES));
        const float *value = t->v + (int64_t)first * t->v_dim_padded + d;
        for (int j = first; j < end; j++, value += t->v_dim_padded) {
            VF x[GROUP_VECTORS];
            for (int v = 0; v < GROUP_VECTORS; v++)
                x[v] = vf_load(value + v * VF_LANES);
            for (int r = 0; r < rows; r++) {
                VF weight = vf_set(p[r * KEY_BLOCK + j]);
                for (int v = 0; v < GROUP_VECTORS; v++)
                    sum[r][v] = vf_fma(weight, x[v], sum[r][v]);
            }
        }
        for (int r = 0; r < rows; r++)
            for (int v = 0; v < GROUP_VECTORS; v++)
                vf_store(acc + r * t->v_dim_padded + d + v * VF_LANES, sum[r][v]);
    }
}

HOT_INLINE void block_rows(const struct attention_tile *t, int r0, int rows, int n_keys)
{
    float factor[TILE_ROWS];
    int first = n_keys, end = 0;
    for (int r = 0; r < rows; r++) {
        first = t->first[r0 + r] < first ? t->first[r0 + r] : first;
        end = t->end[r0 + r] > end ? t->end[r0 + r] : end;
    }
    if (first >= end)
        return;
    score_rows(t, r0, rows);
    for (int r = 0; r < rows; r++)
        factor[r] = softmax_row(t, r0 + r);
    value_rows(t, r0, rows, factor, first, end);
}

static void vector_attention_block(const struct attention_tile *t, int n_keys)
{
    int r = 0;
    for (; r + TILE_ROWS <= t->n_rows; r += TILE_ROWS)
        block_rows(t, r, TILE_ROWS, n_keys);
    switch (t->n_rows - r) {
    case 1: block_rows(t, r, 1, n_keys); break;
    case 2: block_rows(t, r, 2, n_keys); break;
    case 3: block_rows(t, r, 3, n_keys); break;
    case 4: block_rows(t, r, 4, n_keys); break;
    case 5: block_rows(t, r, 5, n_keys); break;
    default: break;
    }
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
            vf_store(a + d, vf_fma(vf_load(b + d), vf_set(other),
                                   vf_mul(vf_load(a + d), vf_set(mine))));
    }
}

#define VECTOR_KERNELS(isa)                                                     \
    const struct vector_kernels vector_kernels_##isa = {                        \
        .name = #isa,                                                           \
        .rms_norm = vector_rms_norm,                                            \
        .add = vector_add,                                                      \
        .multiply = vector_multiply,                                            \
        .scale = vector_scale,                                                  \
        .softcap = vector_softcap,                                              \
        .activate = { vector_silu, vector_gelu_tanh, vector_gelu },             \
        .glu = { vector_glu_silu, vector_glu_gelu_tanh, vector_glu_gelu },      \
        .rope = { vector_rope_halves, vector_rope_neighbours },                 \
        .dot = vector_dot,                                                      \
        .keys_to_f32 = vector_keys_to_f32,                                      \
        .values_to_f32 = vector_values_to_f32,                                  \
        .attention_block = vector_attention_block,                              \
        .attention_merge = vector_attention_merge,                              \
    }

#endif
