/* vector_kernels: what one instruction set computes on rows of f32, and on tiles of attention.
 *
 * One table per set, all made of the same source (vector_body.h, attention_body.h) with the
 * vocabulary of the set (x86/vec_avx2.h, ...). Leaf functions of plain arguments: no threads, no
 * allocation. Exponentials are polynomials with an error of about one unit in the last place, so
 * exact mode runs them too. */
#ifndef CPU_VECTOR_KERNELS_H
#define CPU_VECTOR_KERNELS_H

#include <stdint.h>

#include "quant/tensor_types.h"
#include "tensor/ops.h"

#define KEY_GROUP 16 /* keys that lie interleaved in a page of keys: kv_pages.h */
#define KEY_BLOCK 64 /* keys of one step of the online softmax; divides every split of attention */

/* One tile of attention: rows (query tokens x heads of one key head) against blocks of keys.
 * All memory is the caller's, 64-aligned; v_dim_padded is v_dim rounded up to 16. */
struct attention_tile {
    int n_rows, k_dim, v_dim, v_dim_padded;
    enum tensor_type k_type, v_type;
    float softcap;          /* 0: none */
    const float *q;         /* [n_rows][k_dim], already scaled */
    /* The block, packed, by groups of 16 keys; NULL where no row sees the group. */
    const uint8_t *key_group[KEY_BLOCK / KEY_GROUP], *value_rows[KEY_BLOCK / KEY_GROUP];
    float *k;               /* scratch: [KEY_BLOCK / 16][k_dim][16] */
    float *v;               /* scratch: [KEY_BLOCK][v_dim_padded] */
    float *score;           /* [n_rows][KEY_BLOCK] */
    int32_t *first, *end;   /* [n_rows]: keys of the block that the row sees, first <= j < end */
    float *max, *sum;       /* [n_rows]: running maximum, sum of exp(score - max) */
    float *acc;             /* [n_rows][v_dim_padded]: sum of exp(score - max) * v */
};

struct vector_kernels {
    const char *name;
    /* out = x / sqrt(mean(x^2) + eps) * w; w NULL: 1; out may be x */
    void (*rms_norm)(float *out, const float *x, const float *w, int64_t n, float eps);
    void (*add)(float *out, const float *x, int64_t n);
    void (*multiply)(float *out, const float *x, int64_t n);
    void (*scale)(float *out, float factor, int64_t n);
    void (*softcap)(float *out, float cap, int64_t n);
    void (*activate[3])(float *out, int64_t n);                     /* by enum activation */
    void (*glu[3])(float *out, const float *gate, const float *up, int n);
    /* One head: n_pairs pairs turn by (cosine[i], sine[i]). By enum rope_style. */
    void (*rope[2])(float *x, const float *cosine, const float *sine, int64_t n_pairs);
    float (*dot)(const float *a, const float *b, int64_t n);

    /* Scores, softmax and values of the block that t->key_group and t->value_rows point to. */
    void (*attention_block)(const struct attention_tile *t, int n_keys);
    /* into = the softmax state of both; `from` covers keys behind those of `into`. */
    void (*attention_merge)(const struct attention_tile *into, const float *max, const float *sum,
                            const float *acc);
};

extern const struct vector_kernels vector_kernels_avx2, vector_kernels_avx512, vector_kernels_neon;

#endif
