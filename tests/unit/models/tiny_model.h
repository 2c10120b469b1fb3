/* tiny_model: one model, one sequence, no engine: what the tests of families run on. */
#ifndef TESTS_TINY_MODEL_H
#define TESTS_TINY_MODEL_H

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_device.h"
#include "formats/model_source.h"
#include "models/family.h"
#include "unit/cmocka_setup.h"

#ifndef TINY_TOKENS
#define TINY_TOKENS 512
#endif
#define TINY_PAGE 16
#define TINY_PAGES (TINY_TOKENS / TINY_PAGE)

struct tiny_options {
    bool exact;
    const char *isa;
    int n_threads;
    enum tensor_type kv_type;
};

struct tiny_model {
    struct model_source *source;
    struct device *dev;
    struct model *model;
    struct kv_layer *kv;
    int32_t page[TINY_PAGES];
    uint8_t *scratch;
    size_t scratch_bytes;
    float *logits; /* [TINY_TOKENS][n_vocab]: of the last pass */
    struct error err;
};

#define TINY_OK(t, call)                                     \
    do {                                                     \
        if ((call) != STATUS_OK)                             \
            fail_msg("%s", (t)->err.message);                \
    } while (0)

/* One pass over n tokens behind n_past others; all rows give logits. measure: scratch only. */
static inline enum status tiny_pass(struct tiny_model *t, const int32_t *token, int32_t n,
                                    int32_t n_past, bool measure)
{
    int32_t position[TINY_TOKENS], row_sequence[TINY_TOKENS], output[TINY_TOKENS];
    for (int32_t i = 0; i < n; i++) {
        position[i] = n_past + i;
        row_sequence[i] = 0;
        output[i] = i;
    }
    struct batch_sequence sequence = { .n_rows = n, .n_past = n_past, .page = t->page,
                                       .window_page = t->page };
    struct batch batch = { .n_rows = n, .n_sequences = 1, .n_outputs = n, .token = token,
                           .position = position, .sequence = &sequence,
                           .row_sequence = row_sequence, .output_row = output };
    struct step step = { .dev = t->dev, .batch = &batch, .scratch = t->scratch,
                         .scratch_bytes = t->scratch_bytes, .measure = measure, .err = &t->err };
    struct state_view state = { .kv = t->kv };
    struct forward_result result = { .want_hidden = measure };
    enum status s = t->model->family->forward(t->model, &step, &state, &result);
    if (s == STATUS_OK && measure)
        t->scratch_bytes = step.scratch_peak;
    else if (s == STATUS_OK)
        memcpy(t->logits, result.logits.data,
               (size_t)n * (size_t)t->model->shape.n_vocab * sizeof(float));
    return s;
}

static inline void tiny_make_state(struct tiny_model *t, enum tensor_type type)
{
    const struct state_layout *layout = &t->model->state;
    t->kv = mem_array(struct kv_layer, (size_t)layout->n_pieces);
    for (int32_t i = 0; i < layout->n_pieces; i++) {
        const struct state_piece *p = &layout->piece[i];
        struct kv_layer *kv = &t->kv[i];
        *kv = (struct kv_layer){ .n_kv_heads = p->n_kv_heads, .k_dim = p->k_dim, .v_dim = p->v_dim,
                                 .page_tokens = TINY_PAGE, .k_type = type, .v_type = type,
                                 .window = p->window };
        kv->k_page_bytes = t->dev->ops->kv_page_bytes(t->dev, type, p->n_kv_heads, p->k_dim,
                                                      TINY_PAGE);
        kv->v_page_bytes = t->dev->ops->kv_page_bytes(t->dev, type, p->n_kv_heads, p->v_dim,
                                                      TINY_PAGE);
        assert_true(kv->k_page_bytes > 0 && kv->v_page_bytes > 0);
        void *k, *v;
        TINY_OK(t, t->dev->ops->memory_take(t->dev, (size_t)kv->k_page_bytes * TINY_PAGES, &k,
                                            &t->err));
        TINY_OK(t, t->dev->ops->memory_take(t->dev, (size_t)kv->v_page_bytes * TINY_PAGES, &v,
                                            &t->err));
        /* What was never written must not matter: all ones are NaN in every type. */
        memset(k, 0xFF, (size_t)kv->k_page_bytes * TINY_PAGES);
        memset(v, 0xFF, (size_t)kv->v_page_bytes * TINY_PAGES);
        kv->k_pages = k;
        kv->v_pages = v;
    }
    for (int32_t i = 0; i < TINY_PAGES; i++)
        t->page[i] = (i * 7 + 3) % TINY_PAGES; /* scattered */
}

static inline void tiny_open(struct tiny_model *t, const char *path, const struct tiny_options *o)
{
    *t = (struct tiny_model){ 0 };
    TINY_OK(t, model_source_open(&t->source, path, &t->err));
    TINY_OK(t, cpu_device_new(&(struct cpu_device_options){ .n_threads = o->n_threads,
                                                            .exact = o->exact, .isa = o->isa },
                              &t->dev, &t->err));
    TINY_OK(t, model_load(t->source, NULL, t->dev, &t->model, NULL, &t->err));
    tiny_make_state(t, o->kv_type);
    static const int32_t zeros[TINY_TOKENS];
    TINY_OK(t, tiny_pass(t, zeros, TINY_TOKENS, 0, true));
    t->scratch = mem_try_pages(t->scratch_bytes);
    assert_non_null(t->scratch);
    t->logits = mem_array(float, (size_t)TINY_TOKENS * (size_t)t->model->shape.n_vocab);
}

static inline void tiny_close(struct tiny_model *t)
{
    for (int32_t i = 0; i < t->model->state.n_pieces; i++) {
        struct kv_layer *kv = &t->kv[i];
        t->dev->ops->memory_drop(t->dev, kv->k_pages, (size_t)kv->k_page_bytes * TINY_PAGES);
        t->dev->ops->memory_drop(t->dev, kv->v_pages, (size_t)kv->v_page_bytes * TINY_PAGES);
    }
    mem_free(t->kv);
    mem_free(t->logits);
    mem_release_pages(t->scratch, t->scratch_bytes);
    model_free(t->model);
    t->dev->ops->release(t->dev);
    model_source_free(t->source);
}

static inline int32_t tiny_largest(const float *logits, int32_t n)
{
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

#endif
