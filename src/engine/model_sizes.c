#include "engine/model_sizes.h"

#include <stdio.h>

#include "base/system_memory.h"

#define MIB (1024 * 1024)
#define BATCH_DEFAULT 512
#define CONTEXT_SMALLEST 512
/* Logits of one pass; more rows than this are spread over passes. */
#define LOGITS_BYTES (16 * MIB)
#define OUTPUTS_MOST 128
/* Without a limit on sequences the pool holds several contexts, if that is cheap. */
#define POOL_CONTEXTS 4
/* More sequences than these do not gain by drafting at the same time. */
#define DRAFT_SLOTS 4

static int64_t usable_memory(int64_t promised)
{
    struct system_memory memory;
    system_memory_read("", &memory);
    if (memory.usable_bytes == 0 || memory.usable_bytes > INT64_MAX)
        return INT64_MAX;
    return MAX((int64_t)memory.usable_bytes - promised, 0);
}

static enum status no_memory(const char *what, int64_t bytes, int64_t usable, int64_t promised,
                             struct error *err)
{
    if (promised == 0)
        return error_set(err, STATUS_NO_MEMORY, "%s %lld MiB, %lld MiB are free", what,
                         (long long)(bytes / MIB), (long long)(usable / MIB));
    return error_set(err, STATUS_NO_MEMORY,
                     "%s %lld MiB, %lld MiB are free beside %lld MiB that loaded models may "
                     "still fill",
                     what, (long long)(bytes / MIB), (long long)(usable / MIB),
                     (long long)(promised / MIB));
}

enum status model_sizes_check_weights(int64_t bytes, int64_t promised, struct error *err)
{
    int64_t usable = usable_memory(promised);
    return bytes <= usable ? STATUS_OK
                           : no_memory("the weights need", bytes, usable, promised, err);
}

static int32_t wanted_context(const struct engine_options *o, const struct model *model)
{
    int32_t trained = model->shape.context_length;
    if (o->context > 0)
        return o->context;
    if (trained <= 0)
        return CONTEXT_DEFAULT_MAX;
    return o->context_full ? trained : MIN(trained, CONTEXT_DEFAULT_MAX);
}

static void set_context(struct state_pool_options *state, int32_t context, int32_t contexts)
{
    state->context = context;
    state->pool_tokens = (int64_t)context * contexts;
}

/* Finds a context whose state fits: the wanted one, or smaller if nobody asked for it. */
static enum status fit_context(const struct engine_options *o, const struct model *model,
                               const struct device *dev, int64_t promised,
                               struct state_pool_options *state, struct error *err)
{
    bool fixed = o->context > 0 || o->context_full;
    int32_t wanted = wanted_context(o, model), context = wanted;
    int64_t usable = usable_memory(promised) / 10 * 9, bytes;
    for (;;) {
        set_context(state, context, 1);
        TRY(state_pool_bytes(&model->state, dev, state, &bytes, err));
        if (bytes <= usable)
            break;
        if (fixed || context <= CONTEXT_SMALLEST) {
            char what[64];
            snprintf(what, sizeof what, "the state of a context of %d tokens needs", context);
            return no_memory(what, bytes, usable, promised, err);
        }
        context = MAX(context / 4 * 3, CONTEXT_SMALLEST);
    }
    if (context < wanted)
        log_write(o->log, LOG_WARNING, "context shrunk from %d to %d tokens to fit %lld MiB",
                  wanted, context, (long long)(usable / MIB));
    int32_t trained = model->shape.context_length;
    if (trained > 0 && context > trained)
        log_write(o->log, LOG_WARNING,
                  "a context of %d tokens is longer than the %d that the model was trained on",
                  context, trained);
    int32_t contexts = MIN(state->n_sequences, POOL_CONTEXTS);
    for (; contexts > 1; contexts--) {
        set_context(state, context, contexts);
        TRY(state_pool_bytes(&model->state, dev, state, &bytes, err));
        if (bytes <= usable / 4)
            return STATUS_OK;
    }
    set_context(state, context, 1);
    return STATUS_OK;
}

enum status model_sizes_choose(const struct engine_options *o, const struct model *model,
                               const struct device *dev, int64_t promised,
                               struct model_sizes *sizes, struct error *err)
{
    struct state_pool_options *state = &sizes->state;
    state->k_type = o->k_type_set ? o->k_type : o->exact ? TENSOR_TYPE_F32 : TENSOR_TYPE_F16;
    state->v_type = o->v_type_set ? o->v_type : o->exact ? TENSOR_TYPE_F32 : TENSOR_TYPE_F16;
    state->n_sequences = o->max_sequences > 0 ? o->max_sequences : SEQUENCES_DEFAULT;
    state->batch_tokens = o->batch_tokens > 0 ? o->batch_tokens : BATCH_DEFAULT;
    state->n_draft_slots = MIN(state->n_sequences, DRAFT_SLOTS);
    TRY(fit_context(o, model, dev, promised, state, err));
    state->batch_tokens = MIN(state->batch_tokens, state->context);
    int64_t rows = LOGITS_BYTES / ((int64_t)sizeof(float) * model->shape.n_vocab);
    int32_t outputs = (int32_t)MAX(MIN(rows, OUTPUTS_MOST), 1);
    sizes->pass = (struct pass_size){
        .rows = MAX(state->batch_tokens, state->n_sequences),
        .sequences = state->n_sequences,
        .outputs = MAX(outputs, state->n_sequences),
    };
    sizes->pass.outputs = MIN(sizes->pass.outputs, sizes->pass.rows);
    return STATUS_OK;
}
