#include "cpu/kv_pages.h"

#include <math.h>
#include <string.h>

#include "cpu/cpu_internal.h"
#include "quant/blocks.h"
#include "quant/dequant.h"
#include "quant/float_convert.h"

#define GROUP 16
#define Q8_GROUP_BYTES (GROUP * (int64_t)sizeof(struct block_q8_0)) /* of 32 elements */

bool kv_type_supported(enum tensor_type type)
{
    return type == TENSOR_TYPE_F32 || type == TENSOR_TYPE_F16 || type == TENSOR_TYPE_BF16 ||
           type == TENSOR_TYPE_Q8_0;
}

static int64_t row_bytes(enum tensor_type type, int32_t dim)
{
    size_t bytes;
    CHECK(tensor_type_row_bytes(type, dim, &bytes));
    return (int64_t)bytes;
}

int64_t kv_page_bytes(const struct device *dev, enum tensor_type type, int32_t n_heads,
                      int32_t dim, int32_t page_tokens)
{
    (void)dev;
    size_t row;
    if (!kv_type_supported(type) || n_heads < 1 || dim < 1 || page_tokens < GROUP ||
        page_tokens % GROUP || !tensor_type_row_bytes(type, dim, &row))
        return 0;
    return (int64_t)row * n_heads * page_tokens;
}

/* Groups and rows take the same bytes for each token, so both kinds of page are addressed alike. */
static int64_t offset_of(const struct kv_layer *kv, int64_t row, int32_t head, int32_t line)
{
    return ((int64_t)head * kv->page_tokens + line) * row;
}

static uint8_t *key_group(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line)
{
    return kv->k_pages + page * kv->k_page_bytes +
           offset_of(kv, row_bytes(kv->k_type, kv->k_dim), head, line & ~(GROUP - 1));
}

static uint8_t *value_row(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line)
{
    return kv->v_pages + page * kv->v_page_bytes +
           offset_of(kv, row_bytes(kv->v_type, kv->v_dim), head, line);
}

const uint8_t *kv_key_group(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line)
{
    return key_group(kv, page, head, line);
}

const uint8_t *kv_value_row(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line)
{
    return value_row(kv, page, head, line);
}

/* 32 values to codes with one scale, rounded as binary16. Halves round away from zero. */
static uint16_t quantize_32(const float *x, int8_t *code)
{
    float largest = 0;
    for (int i = 0; i < 32; i++)
        largest = fmaxf(largest, fabsf(x[i]));
    float scale = largest / 127.0f, inverse = scale > 0 ? 1.0f / scale : 0;
    for (int i = 0; i < 32; i++)
        code[i] = (int8_t)roundf(x[i] * inverse);
    return f32_to_f16(scale);
}

static void store_key_q8_0(uint8_t *group, int32_t lane, int32_t dim, const float *key)
{
    for (int32_t d = 0; d < dim; d += 32, group += Q8_GROUP_BYTES) {
        int8_t code[32];
        uint16_t scale = quantize_32(key + d, code);
        memcpy(group + lane * 2, &scale, sizeof scale);
        for (int i = 0; i < 32; i++)
            group[GROUP * 2 + i * GROUP + lane] = (uint8_t)code[i];
    }
}

void kv_store_key(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line,
                  const float *key)
{
    uint8_t *group = key_group(kv, page, head, line);
    int32_t lane = line % GROUP;
    uint16_t *half = (void *)group;
    switch (kv->k_type) {
    case TENSOR_TYPE_F16:
        for (int32_t d = 0; d < kv->k_dim; d++)
            half[d * GROUP + lane] = f32_to_f16(key[d]);
        break;
    case TENSOR_TYPE_BF16:
        for (int32_t d = 0; d < kv->k_dim; d++)
            half[d * GROUP + lane] = f32_to_bf16(key[d]);
        break;
    case TENSOR_TYPE_Q8_0:
        store_key_q8_0(group, lane, kv->k_dim, key);
        break;
    default:
        for (int32_t d = 0; d < kv->k_dim; d++)
            memcpy(group + (d * GROUP + lane) * 4, key + d, sizeof(float));
    }
}

void kv_store_value(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line,
                    const float *value)
{
    uint8_t *row = value_row(kv, page, head, line);
    uint16_t *half = (void *)row;
    switch (kv->v_type) {
    case TENSOR_TYPE_F16:
        for (int32_t d = 0; d < kv->v_dim; d++)
            half[d] = f32_to_f16(value[d]);
        break;
    case TENSOR_TYPE_BF16:
        for (int32_t d = 0; d < kv->v_dim; d++)
            half[d] = f32_to_bf16(value[d]);
        break;
    case TENSOR_TYPE_Q8_0:
        for (int32_t d = 0; d < kv->v_dim; d += 32) {
            struct block_q8_0 *b = (struct block_q8_0 *)(void *)row + d / 32;
            b->d = quantize_32(value + d, b->qs);
        }
        break;
    default:
        memcpy(row, value, (size_t)kv->v_dim * sizeof(float));
    }
}

void kv_load_key(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line, float *key)
{
    const uint8_t *group = key_group(kv, page, head, line);
    int32_t lane = line % GROUP;
    const uint16_t *half = (const void *)group;
    for (int32_t d = 0; d < kv->k_dim; d++)
        switch (kv->k_type) {
        case TENSOR_TYPE_F16:
            key[d] = f16_to_f32(half[d * GROUP + lane]);
            break;
        case TENSOR_TYPE_BF16:
            key[d] = bf16_to_f32(half[d * GROUP + lane]);
            break;
        case TENSOR_TYPE_Q8_0: {
            const uint8_t *part = group + d / 32 * Q8_GROUP_BYTES;
            int8_t code = (int8_t)part[GROUP * 2 + d % 32 * GROUP + lane];
            key[d] = f16_to_f32(((const uint16_t *)(const void *)part)[lane]) * code;
            break;
        }
        default:
            memcpy(key + d, group + (d * GROUP + lane) * 4, sizeof(float));
        }
}

void kv_load_value(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line,
                   float *value)
{
    dequant_row(kv->v_type, value_row(kv, page, head, line), value, kv->v_dim);
}

/* --- append ------------------------------------------------------------------------------- */

struct append_job {
    const struct batch *batch;
    const struct kv_layer *kv;
    const struct tensor *k, *v;
    int32_t rows_each;
};

static void append_chunk(void *arg, int chunk, int thread)
{
    (void)thread;
    const struct append_job *j = arg;
    const struct batch *b = j->batch;
    int32_t from = chunk * j->rows_each, to = MIN(from + j->rows_each, b->n_rows);
    for (int32_t r = from; r < to; r++) {
        const struct batch_sequence *q = &b->sequence[b->row_sequence[r]];
        int32_t at = q->n_past + r - q->first_row;
        int32_t page = kv_page_of(j->kv, j->kv->window ? q->window_page : q->page, at);
        const uint8_t *k = (const uint8_t *)j->k->data + r * j->k->stride_bytes[0];
        const uint8_t *v = (const uint8_t *)j->v->data + r * j->v->stride_bytes[0];
        for (int32_t h = 0; h < j->kv->n_kv_heads; h++) {
            kv_store_key(j->kv, page, h, at % j->kv->page_tokens,
                         (const float *)(const void *)k + h * j->kv->k_dim);
            kv_store_value(j->kv, page, h, at % j->kv->page_tokens,
                           (const float *)(const void *)v + h * j->kv->v_dim);
        }
    }
}

static enum status check_pages(struct step *s, const struct kv_layer *kv)
{
    if (!kv_type_supported(kv->k_type) || !kv_type_supported(kv->v_type))
        return error_set(s->err, STATUS_UNSUPPORTED,
                         "cache type: the CPU keeps F32, F16, BF16 and Q8_0, found %s and %s",
                         tensor_type_name(kv->k_type), tensor_type_name(kv->v_type));
    for (int32_t i = 0; i < s->batch->n_sequences; i++) {
        const struct batch_sequence *q = &s->batch->sequence[i];
        const int32_t *table = kv->window ? q->window_page : q->page;
        for (int32_t r = 0; r < q->n_rows; r++)
            if (kv_page_of(kv, table, q->n_past + r) < 0)
                return error_set(s->err, STATUS_INTERNAL, "kv_append: token %d has no page",
                                 q->n_past + r);
    }
    return STATUS_OK;
}

enum status cpu_kv_append(struct step *s, const struct kv_layer *kv, const struct tensor *k,
                          const struct tensor *v)
{
    TRY(check_pages(s, kv));
    struct append_job job = { .batch = s->batch, .kv = kv, .k = k, .v = v };
    int32_t values = kv->n_kv_heads * (kv->k_dim + kv->v_dim);
    job.rows_each = MAX(1, 8192 / values);
    /* A key group is written by one thread at a time only if nobody shares its cache lines: rows
     * of one group in one chunk would need the places of all rows, and the stores are disjoint
     * anyway. */
    thread_pool_run(cpu_of(s)->pool, (s->batch->n_rows + job.rows_each - 1) / job.rows_each,
                    append_chunk, &job);
    return STATUS_OK;
}
