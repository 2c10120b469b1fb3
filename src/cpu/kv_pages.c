#include "cpu/kv_pages.h"

#include <string.h>

#include "cpu/cpu_internal.h"
#include "quant/kv_codec.h"
#include "tensor/kv_balance.h"

#define GROUP 16

int64_t kv_page_bytes(const struct device *dev, enum tensor_type type, int32_t n_heads, int32_t dim,
                      int32_t page_tokens)
{
    (void)dev;
    if (n_heads < 1 || page_tokens < GROUP || page_tokens % GROUP)
        return 0;
    return kv_row_bytes(type, dim) * n_heads * page_tokens;
}

/* Groups and rows take the same bytes for each token, so both kinds of page are addressed alike. */
static int64_t offset_of(const struct kv_layer *kv, int64_t row, int32_t head, int32_t line)
{
    return ((int64_t)head * kv->page_tokens + line) * row;
}

static uint8_t *key_group(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line)
{
    return kv->k_pages + page * kv->k_page_bytes +
           offset_of(kv, kv_row_bytes(kv->k_type, kv->k_dim), head, line & ~(GROUP - 1));
}

static uint8_t *value_row(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line)
{
    return kv->v_pages + page * kv->v_page_bytes +
           offset_of(kv, kv_row_bytes(kv->v_type, kv->v_dim), head, line);
}

const uint8_t *kv_key_group(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line)
{
    return key_group(kv, page, head, line);
}

const uint8_t *kv_value_row(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line)
{
    return value_row(kv, page, head, line);
}

/* --- one key among 16 --------------------------------------------------------------------- */

/* n numbers of `unit` bytes that lie side by side in a row and 16 apart in a group. */
static void scatter(uint8_t *group, int lane, const uint8_t *row, int n, int unit)
{
    for (int i = 0; i < n; i++)
        memcpy(group + (i * GROUP + lane) * unit, row + i * unit, (size_t)unit);
}

static void gather(uint8_t *row, const uint8_t *group, int lane, int n, int unit)
{
    for (int i = 0; i < n; i++)
        memcpy(row + i * unit, group + (i * GROUP + lane) * unit, (size_t)unit);
}

void kv_store_key(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line,
                  const float *key)
{
    const struct kv_codec *c = kv_codec_of(kv->k_type);
    uint8_t *group = key_group(kv, page, head, line), row[KV_DIM_MAX * 4];
    int lane = line % GROUP, bytes = c->scale_bytes + c->code_bytes;
    int n_blocks = kv->k_dim / c->block_elements;
    float balanced[KV_DIM_MAX];
    if (kv->balance) {
        kv_balance_key(kv->balance, head, key, balanced);
        key = balanced;
    }
    kv_encode_row(c, key, kv->k_dim, TURBO_KEYS, row);
    if (c->scale_bytes == 0) {
        scatter(group, lane, row, n_blocks, c->code_unit);
        return;
    }
    for (int b = 0; b < n_blocks; b++, group += bytes * GROUP) {
        const uint8_t *block = row + b * bytes;
        scatter(group, lane, block, 1, c->scale_bytes);
        scatter(group + GROUP * c->scale_bytes, lane, block + c->scale_bytes,
                c->code_bytes / c->code_unit, c->code_unit);
    }
}

void kv_load_key(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line, float *key)
{
    const struct kv_codec *c = kv_codec_of(kv->k_type);
    const uint8_t *group = key_group(kv, page, head, line);
    uint8_t row[KV_DIM_MAX * 4];
    int lane = line % GROUP, bytes = c->scale_bytes + c->code_bytes;
    for (int b = 0; b < kv->k_dim / c->block_elements; b++, group += bytes * GROUP) {
        uint8_t *block = row + b * bytes;
        gather(block, group, lane, c->scale_bytes > 0, c->scale_bytes);
        gather(block + c->scale_bytes, group + GROUP * c->scale_bytes, lane,
               c->code_bytes / c->code_unit, c->code_unit);
    }
    kv_decode_row(c, row, key, kv->k_dim);
    if (c->rotated)
        turbo_unrotate(key, kv->k_dim, TURBO_KEYS);
    if (kv->balance)
        kv_unbalance_key(kv->balance, head, key);
}

void kv_store_value(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line,
                    const float *value)
{
    kv_encode_row(kv_codec_of(kv->v_type), value, kv->v_dim, TURBO_VALUES,
                  value_row(kv, page, head, line));
}

void kv_load_value(const struct kv_layer *kv, int32_t page, int32_t head, int32_t line,
                   float *value)
{
    const struct kv_codec *c = kv_codec_of(kv->v_type);
    kv_decode_row(c, value_row(kv, page, head, line), value, kv->v_dim);
    if (c->rotated)
        turbo_unrotate(value, kv->v_dim, TURBO_VALUES);
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
    if (!kv_row_bytes(kv->k_type, kv->k_dim) || !kv_row_bytes(kv->v_type, kv->v_dim))
        return error_set(s->err, STATUS_UNSUPPORTED,
                         "kv_append: no cache of %d values as %s and %d values as %s", kv->k_dim,
                         kv_type_name(kv->k_type), kv->v_dim, kv_type_name(kv->v_type));
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
