/* cpu_rope: rotary positions. Cosines and sines of a pass are computed once and serve all layers
 * that use the same rope. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_internal.h"
#include "cpu/vector_kernels.h"

static size_t n_positions(const struct batch *b)
{
    return (size_t)b->n_rows * (b->multi_section ? 3 : 1);
}

static bool table_fits(const struct rope_table *t, const struct rope *r, const struct batch *b)
{
    return t->frequency && t->magnitude == r->magnitude && t->n_pairs == r->n_rotated / 2 &&
           t->n_rows == b->n_rows &&
           memcmp(t->frequency, r->frequency, (size_t)t->n_pairs * sizeof(float)) == 0 &&
           t->multi_section == b->multi_section && t->interleaved == r->interleaved_sections &&
           memcmp(t->section, r->section, sizeof t->section) == 0 &&
           memcmp(t->position, b->position, n_positions(b) * sizeof(int32_t)) == 0;
}

/* Grows in the largest pass so far; a steady state allocates nothing. */
static void reserve(struct rope_table *t, const struct rope *r, int32_t n_rows)
{
    size_t n_pairs = (size_t)r->n_rotated / 2;
    if (t->capacity_rows >= (size_t)n_rows && t->n_pairs == r->n_rotated / 2)
        return;
    size_t rows = MAX((size_t)n_rows, t->capacity_rows);
    t->capacity_rows = rows;
    t->frequency = mem_resize(t->frequency, n_pairs, sizeof(float));
    t->position = mem_resize(t->position, rows, 3 * sizeof(int32_t));
    t->cosine = mem_resize(t->cosine, rows, n_pairs * sizeof(float));
    t->sine = mem_resize(t->sine, rows, n_pairs * sizeof(float));
}

/* Which of the positions t, h, w turns pair i. */
static int section_of(const struct rope *r, int32_t i)
{
    if (r->interleaved_sections) {
        if (i % 3 == 1 && i < 3 * r->section[1])
            return 1;
        return i % 3 == 2 && i < 3 * r->section[2] ? 2 : 0;
    }
    int32_t end = 0;
    for (int k = 0; k < 3; k++) {
        end += r->section[k];
        if (i < end)
            return k;
    }
    return 0;
}

static void fill(struct rope_table *t, const struct rope *r, const struct batch *b)
{
    int32_t n_pairs = r->n_rotated / 2;
    reserve(t, r, b->n_rows);
    memcpy(t->frequency, r->frequency, (size_t)n_pairs * sizeof(float));
    t->magnitude = r->magnitude;
    t->n_pairs = n_pairs;
    t->n_rows = b->n_rows;
    t->multi_section = b->multi_section;
    t->interleaved = r->interleaved_sections;
    memcpy(t->section, r->section, sizeof t->section);
    memcpy(t->position, b->position, n_positions(b) * sizeof(int32_t));
    for (int32_t row = 0; row < b->n_rows; row++)
        for (int32_t i = 0; i < n_pairs; i++) {
            int section = b->multi_section ? section_of(r, i) : 0;
            int32_t position = b->position[section * b->n_rows + row];
            float angle = (float)position * r->frequency[i];
            t->cosine[row * n_pairs + i] = cosf(angle) * r->magnitude;
            t->sine[row * n_pairs + i] = sinf(angle) * r->magnitude;
        }
}

static const struct rope_table *table_of(struct cpu_device *d, const struct rope *r,
                                         const struct batch *b)
{
    for (int i = 0; i < ROPE_TABLES; i++)
        if (table_fits(&d->rope[i], r, b))
            return &d->rope[i];
    struct rope_table *t = &d->rope[d->rope_next];
    d->rope_next = (d->rope_next + 1) % ROPE_TABLES;
    fill(t, r, b);
    return t;
}

struct rope_job {
    const struct rope_table *table;
    void (*turn)(float *x, const float *cosine, const float *sine, int64_t n_pairs);
    struct tensor *x;
    int64_t rows_each;
};

static void rope_chunk(void *arg, int chunk, int thread)
{
    (void)thread;
    const struct rope_job *j = arg;
    int64_t from = chunk * j->rows_each, to = MIN(from + j->rows_each, j->x->dim[0]);
    for (int64_t r = from; r < to; r++)
        for (int64_t h = 0; h < j->x->dim[1]; h++)
            j->turn((float *)((uint8_t *)j->x->data + r * j->x->stride_bytes[0]) +
                        h * j->x->dim[2],
                    j->table->cosine + r * j->table->n_pairs,
                    j->table->sine + r * j->table->n_pairs, j->table->n_pairs);
}

enum status cpu_rope(struct step *s, struct tensor *x, const struct rope *r)
{
    struct cpu_device *d = cpu_of(s);
    struct rope_job job = { .table = table_of(d, r, s->batch), .turn = d->vector->rope[r->style],
                            .x = x };
    job.rows_each = MAX(1, 16384 / MAX(1, x->dim[1] * x->dim[2]));
    thread_pool_run(d->pool, (int)((x->dim[0] + job.rows_each - 1) / job.rows_each), rope_chunk,
                    &job);
    return STATUS_OK;
}

void cpu_rope_release(struct cpu_device *d)
{
    for (int i = 0; i < ROPE_TABLES; i++) {
        mem_free(d->rope[i].frequency);
        mem_free(d->rope[i].position);
        mem_free(d->rope[i].cosine);
        mem_free(d->rope[i].sine);
    }
}
