#include "engine/pass.h"

#include <string.h>

#include "base/mem.h"

/* Splits the largest number of rows over n sequences, each at the end of a full context, where a
 * device may need most. */
static void worst_batch(struct pass *p, const struct state_pool *pool, int32_t n,
                        const struct sequence *stand_in)
{
    pass_begin(p);
    struct sequence s = *stand_in;
    for (int32_t i = 0; i < n; i++) {
        int32_t rows = p->size.rows / n + (i < p->size.rows % n ? 1 : 0);
        s.n_past = MAX(pool->options.context - rows, 0);
        int32_t left = p->size.outputs - p->batch.n_outputs;
        enum pass_outputs want = left >= rows ? PASS_ALL_ROWS : left > 0 ? PASS_LAST_ROW
                                                                         : PASS_NO_OUTPUT;
        pass_add(p, &s, NULL, rows, NULL, 0, want);
    }
    /* The outputs that were left over: any ascending rows will do. */
    p->batch.n_outputs = MIN(p->size.outputs, p->size.rows);
    for (int32_t i = 0; i < p->batch.n_outputs; i++)
        p->output_row[i] = p->size.rows - p->batch.n_outputs + i;
}

static void close_batch(struct pass *p);

static enum status measure_with(struct pass *p, struct device *dev, const struct state_pool *pool,
                                size_t *bytes, struct error *err)
{
    struct sequence stand_in;
    sequence_init(&stand_in, pool);
    stand_in.slot = 0;
    enum status status = STATUS_OK;
    int32_t counts[2] = { 1, MIN(p->size.sequences, p->size.rows) };
    *bytes = 0;
    for (int i = 0; i < 2 && status == STATUS_OK; i++) {
        worst_batch(p, pool, counts[i], &stand_in);
        close_batch(p);
        struct step step = { .dev = dev, .batch = &p->batch, .measure = true, .err = err };
        struct state_view view = state_pool_view(pool);
        struct forward_result result = { 0 };
        status = p->model->family->forward(p->model, &step, &view, &result);
        *bytes = MAX(*bytes, step.scratch_peak);
    }
    stand_in.slot = -1;
    sequence_release(&stand_in);
    return status;
}

static void take_arrays(struct pass *p, const struct model *model, struct pass_size size)
{
    *p = (struct pass){ .model = model, .size = size };
    p->token = mem_array(int32_t, (size_t)size.rows);
    p->position = mem_array(int32_t, 3 * (size_t)size.rows);
    p->row_sequence = mem_array(int32_t, (size_t)size.rows);
    p->output_row = mem_array(int32_t, (size_t)size.outputs);
    p->sequence = mem_array(struct batch_sequence, (size_t)size.sequences);
}

enum status pass_measure(const struct model *model, struct device *dev,
                         const struct state_pool *pool, struct pass_size size, size_t *bytes,
                         struct error *err)
{
    struct pass p;
    take_arrays(&p, model, size);
    enum status status = measure_with(&p, dev, pool, bytes, err);
    pass_release(&p);
    return status;
}

enum status pass_init(struct pass *p, const struct model *model, struct pass_size size,
                      size_t scratch_bytes, struct error *err)
{
    struct device *dev = model->dev;
    take_arrays(p, model, size);
    p->scratch_bytes = MAX(scratch_bytes, 1);
    void *scratch = NULL;
    enum status status = dev->ops->memory_take(dev, p->scratch_bytes, &scratch, err);
    p->scratch = scratch;
    if (status != STATUS_OK) {
        p->scratch = NULL;
        pass_release(p);
        return error_prefix(err, "scratch of a forward pass");
    }
    if (!dev->host_memory)
        p->host_logits = mem_array(float, (size_t)size.outputs * (size_t)model->shape.n_vocab);
    return STATUS_OK;
}

void pass_release(struct pass *p)
{
    if (p->scratch)
        p->model->dev->ops->memory_drop(p->model->dev, p->scratch, p->scratch_bytes);
    mem_free(p->host_logits);
    mem_free(p->token);
    mem_free(p->position);
    mem_free(p->row_sequence);
    mem_free(p->output_row);
    mem_free(p->sequence);
    *p = (struct pass){ 0 };
}

int64_t pass_untouched(const struct pass *p)
{
    return (int64_t)p->scratch_bytes / p->size.rows * (p->size.rows - p->rows_most);
}

void pass_begin(struct pass *p)
{
    p->batch = (struct batch){ 0 };
}

int32_t pass_add(struct pass *p, const struct sequence *s, const int32_t *tokens, int32_t n,
                 const int32_t *positions, int32_t stride, enum pass_outputs outputs)
{
    struct batch *b = &p->batch;
    CHECK(n > 0 && b->n_rows + n <= p->size.rows && b->n_sequences < p->size.sequences);
    int32_t first_output = b->n_outputs, size = p->size.rows;
    p->sequence[b->n_sequences] = sequence_in_batch(s, b->n_rows, n);
    for (int32_t i = 0; i < n; i++) {
        int32_t row = b->n_rows + i, at = s->n_past + i;
        p->token[row] = tokens ? tokens[i] : 0;
        p->row_sequence[row] = b->n_sequences;
        for (int32_t axis = 0; axis < 3; axis++)
            p->position[axis * size + row] =
                positions && at < stride ? positions[axis * stride + at] : at;
        bool wanted = outputs == PASS_ALL_ROWS || (outputs == PASS_LAST_ROW && i == n - 1);
        if (wanted) {
            CHECK(b->n_outputs < p->size.outputs);
            p->output_row[b->n_outputs++] = row;
        }
    }
    b->multi_section |= positions != NULL;
    b->n_rows += n;
    b->n_sequences++;
    return first_output;
}

/* The three axes were written `size.rows` apart; a batch wants them n_rows apart. */
static void close_batch(struct pass *p)
{
    struct batch *b = &p->batch;
    size_t n = (size_t)b->n_rows;
    for (int32_t axis = 1; axis < 3 && b->multi_section; axis++)
        memmove(p->position + (size_t)axis * n, p->position + axis * p->size.rows,
                n * sizeof(*p->position));
    b->token = p->token;
    b->position = p->position;
    b->sequence = p->sequence;
    b->row_sequence = p->row_sequence;
    b->output_row = p->output_row;
}

enum status pass_run(struct pass *p, const struct state_pool *pool, bool (*cancelled)(void *),
                     void *user, struct error *err)
{
    struct device *dev = p->model->dev;
    close_batch(p);
    struct step step = {
        .dev = dev, .batch = &p->batch, .scratch = p->scratch,
        .scratch_bytes = p->scratch_bytes, .err = err, .cancelled = cancelled,
        .cancel_user = user,
    };
    struct state_view view = state_pool_view(pool);
    p->result = (struct forward_result){ 0 };
    p->rows_most = MAX(p->rows_most, p->batch.n_rows);
    TRY(p->model->family->forward(p->model, &step, &view, &p->result));
    if (p->batch.n_outputs == 0 || !p->host_logits)
        return STATUS_OK;
    size_t bytes = (size_t)p->batch.n_outputs * (size_t)p->model->shape.n_vocab * sizeof(float);
    return dev->ops->copy_out(dev, p->host_logits, p->result.logits.data, bytes, err);
}

const float *pass_logits(const struct pass *p, int32_t output)
{
    CHECK(output >= 0 && output < p->batch.n_outputs);
    if (p->host_logits)
        return p->host_logits + (size_t)output * (size_t)p->model->shape.n_vocab;
    const struct tensor *t = &p->result.logits;
    return (const float *)((const uint8_t *)t->data + output * t->stride_bytes[0]);
}
