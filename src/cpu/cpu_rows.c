/* cpu_rows: ops that treat each row alone: norms, elementwise maps, row selection. */
#include <string.h>

#include "cpu/cpu_internal.h"
#include "cpu/vector_kernels.h"

/* Below this many values a region costs more than it saves: about 2 us of work. */
#define VALUES_PER_CHUNK 16384

struct rows_job {
    const struct vector_kernels *vector;
    struct tensor *out;
    const struct tensor *x;
    const float *w;
    int64_t n_rows, n_parts, width; /* each row: n_parts runs of width values */
    int64_t rows_each;
    float value;
    enum activation activation;
    void (*run)(const struct rows_job *, float *out, const float *x);
};

static void rows_chunk(void *arg, int chunk, int thread)
{
    (void)thread;
    const struct rows_job *j = arg;
    int64_t from = chunk * j->rows_each, to = MIN(from + j->rows_each, j->n_rows);
    for (int64_t r = from; r < to; r++) {
        float *out = (float *)((uint8_t *)j->out->data + r * j->out->stride_bytes[0]);
        const float *x = (const float *)((const uint8_t *)j->x->data + r * j->x->stride_bytes[0]);
        for (int64_t p = 0; p < j->n_parts; p++)
            j->run(j, out + p * j->width, x + p * j->width);
    }
}

static enum status run_rows(struct step *s, struct rows_job *j)
{
    j->vector = cpu_of(s)->vector;
    j->n_rows = j->out->dim[0];
    int64_t row_values = MAX(1, j->n_parts * j->width);
    j->rows_each = MAX(1, VALUES_PER_CHUNK / row_values);
    thread_pool_run(cpu_of(s)->pool, (int)((j->n_rows + j->rows_each - 1) / j->rows_each),
                    rows_chunk, j);
    return STATUS_OK;
}

static int64_t row_values(const struct tensor *t)
{
    return t->n_dims == 3 ? t->dim[1] * t->dim[2] : t->dim[1];
}

static void norm_row(const struct rows_job *j, float *out, const float *x)
{
    j->vector->rms_norm(out, x, j->w, j->width, j->value);
}
static void add_row(const struct rows_job *j, float *out, const float *x)
{
    j->vector->add(out, x, j->width);
}
static void multiply_row(const struct rows_job *j, float *out, const float *x)
{
    j->vector->multiply(out, x, j->width);
}
static void scale_row(const struct rows_job *j, float *out, const float *x)
{
    (void)x;
    j->vector->scale(out, j->value, j->width);
}
static void softcap_row(const struct rows_job *j, float *out, const float *x)
{
    (void)x;
    j->vector->softcap(out, j->value, j->width);
}
static void activate_row(const struct rows_job *j, float *out, const float *x)
{
    (void)x;
    j->vector->activate[j->activation](out, j->width);
}

enum status cpu_rms_norm(struct step *s, struct tensor *out, const struct tensor *x,
                         const struct weight *w, float eps)
{
    int64_t width = x->dim[x->n_dims - 1];
    return run_rows(s, &(struct rows_job){ .out = out, .x = x, .w = w ? w->data : NULL,
                                           .n_parts = x->n_dims == 3 ? x->dim[1] : 1,
                                           .width = width, .value = eps, .run = norm_row });
}

enum status cpu_add(struct step *s, struct tensor *out, const struct tensor *x)
{
    return run_rows(s, &(struct rows_job){ .out = out, .x = x, .n_parts = 1,
                                           .width = row_values(out), .run = add_row });
}

enum status cpu_multiply(struct step *s, struct tensor *out, const struct tensor *x)
{
    return run_rows(s, &(struct rows_job){ .out = out, .x = x, .n_parts = 1,
                                           .width = row_values(out), .run = multiply_row });
}

enum status cpu_scale(struct step *s, struct tensor *out, float factor)
{
    return run_rows(s, &(struct rows_job){ .out = out, .x = out, .n_parts = 1, .value = factor,
                                           .width = row_values(out), .run = scale_row });
}

enum status cpu_softcap(struct step *s, struct tensor *out, float cap)
{
    return run_rows(s, &(struct rows_job){ .out = out, .x = out, .n_parts = 1, .value = cap,
                                           .width = row_values(out), .run = softcap_row });
}

enum status cpu_activate(struct step *s, struct tensor *out, enum activation activation)
{
    return run_rows(s, &(struct rows_job){ .out = out, .x = out, .n_parts = 1,
                                           .activation = activation, .width = row_values(out),
                                           .run = activate_row });
}

enum status cpu_select_rows(struct step *s, struct tensor *out, const struct tensor *x,
                            const int32_t *row, int32_t n)
{
    (void)s;
    size_t bytes = (size_t)row_values(out) * sizeof(float);
    for (int32_t i = 0; i < n; i++)
        memcpy((uint8_t *)out->data + i * out->stride_bytes[0],
               (const uint8_t *)x->data + row[i] * x->stride_bytes[0], bytes);
    return STATUS_OK;
}
