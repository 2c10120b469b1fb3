/* family: what a network computes, told in ops. A family is only a forward pass.
 *
 * A model is one loaded network: configuration, weights on a device, state layout. It knows no
 * request, no tokenizer, no file name beyond its weights. Ownership: model_load makes it,
 * model_free drops it; the weight file must stay open as long as the model (weights may borrow
 * its mapping). Threads: read-only after load; forward runs on the engine thread. */
#ifndef MODELS_FAMILY_H
#define MODELS_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "models/state_layout.h"
#include "tensor/device.h"
#include "tensor/kv.h"
#include "tensor/step.h"

struct weight_set;   /* models/weight_set.h */
struct model_source; /* formats/model_source.h: weight file and configuration, GGUF or HF */
struct model;

/* What the engine and `inspect` need to know of any network. */
struct model_shape {
    int32_t n_layers, n_embd, n_vocab, n_heads, n_kv_heads, head_dim;
    int32_t context_length;     /* trained; 0: not stated */
    int32_t sliding_window;     /* 0: none */
    int64_t n_parameters, n_active_parameters;
};

struct forward_result {
    struct tensor logits; /* [batch->n_outputs][n_vocab], in step scratch */
    struct tensor hidden; /* [batch->n_rows][n_embd] after the final norm; only if want_hidden */
    bool want_hidden;
};

/* The state of all sequences as ops see it: one entry per piece of the layout. */
struct state_view {
    const struct kv_layer *kv; /* [n_pieces]; unused entries zero */
    uint8_t *const *fixed;     /* [n_pieces]: base of slot 0; slot s at + s * fixed_bytes */
};

struct model_family {
    const char *name;                 /* "llama" */
    const char *const *architectures; /* NULL-terminated: GGUF general.architecture values */
    const char *const *model_types;   /* NULL-terminated: HF model_type values */
    /* Fills model->shape, ->state and ->impl (in model->arena) from the configuration alone, so
     * that `plan` and `inspect` work on headers. */
    enum status (*read_config)(struct model *, const struct model_source *, struct error *);
    /* Binds every weight by name with its shape checked (models/weight_set.h). */
    enum status (*bind)(struct model *, struct weight_set *, struct error *);
    enum status (*forward)(const struct model *, struct step *, const struct state_view *,
                           struct forward_result *);
};

struct model {
    const struct model_family *family;
    struct arena arena;
    struct model_shape shape;
    struct state_layout state;
    struct device *dev;
    void *impl;              /* the family's own struct, in arena */
    struct weight **weights; /* all resident weights, for release and ledger */
    int32_t n_weights;
    int64_t weight_bytes;    /* resident beside the mapping */
};

/* The family of a source; UNSUPPORTED names the architecture and lists the known ones. */
MUST_CHECK enum status model_family_find(const struct model_source *,
                                         const struct model_family **, struct error *);
const struct model_family *const *model_families(void); /* NULL-terminated */

/* Called while loading; bytes of weights done and in all. */
struct model_progress {
    void (*report)(void *user, int64_t done, int64_t all);
    void *user;
};

/* Reads the configuration only: shape and state are valid, there are no weights. */
MUST_CHECK enum status model_open_config(const struct model_source *, struct model **out,
                                         struct error *err);
/* family NULL: the one of its name. */
MUST_CHECK enum status model_load(const struct model_source *, const struct model_family *family,
                                  struct device *, struct model **out,
                                  const struct model_progress *progress, struct error *err);
void model_free(struct model *);

/* Resident bytes that model_load would add on this device, from headers alone. */
MUST_CHECK enum status model_plan_bytes(const struct model_source *,
                                        const struct model_family *family, struct device *,
                                        int64_t *weight_bytes, int64_t *mapped_bytes,
                                        struct error *err);

#endif
