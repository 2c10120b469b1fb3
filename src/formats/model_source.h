/* model_source: what a MODEL argument names, opened: tensors, configuration, side files.
 *
 * A .gguf file (first part of a split), a Hugging Face folder, a hub-cache folder
 * (models--ORG--NAME), or, for looking into them, a bare tokenizer.json, .safetensors file or
 * shard index. Opening reads headers only and works on any
 * well-formed container: that a family is known or that there are weights at all is asked by
 * whoever needs it. Ownership: everything lives until model_source_free().
 * Threads: read-only once opened. */
#ifndef FORMATS_MODEL_SOURCE_H
#define FORMATS_MODEL_SOURCE_H

#include "base/error.h"
#include "base/json.h"
#include "formats/config_source.h"
#include "formats/gguf.h"
#include "formats/hf_config.h"
#include "formats/weight_file.h"

enum model_source_kind {
    MODEL_SOURCE_GGUF,
    MODEL_SOURCE_HF,        /* a folder */
    MODEL_SOURCE_TOKENIZER, /* a tokenizer.json alone */
    MODEL_SOURCE_TENSORS,   /* .safetensors or its index alone: no configuration, no tokenizer */
};

struct model_source {
    enum model_source_kind kind;
    char *path;                        /* of the file, or of the folder after resolving */
    const struct weight_file *weights; /* NULL: there are no tensors */
    const struct gguf *gguf;           /* MODEL_SOURCE_GGUF only */
    const struct hf_config *hf;        /* MODEL_SOURCE_HF only */
    struct config_source config;       /* both members NULL: no configuration */
    const json_t *generation_config;   /* in the folder or beside the GGUF; NULL: none */
};

MUST_CHECK enum status model_source_open(struct model_source **out, const char *path,
                                         struct error *err);
/* Reads the files of the weights into memory instead of leaving them mapped. */
MUST_CHECK enum status model_source_read_in(struct model_source *s, struct error *err);
void model_source_free(struct model_source *s); /* NULL is allowed */

/* NOT_FOUND says that MODEL has no weights, and what it is instead; weights without a
 * configuration are none, either. */
MUST_CHECK enum status model_source_need_weights(const struct model_source *s, struct error *err);

#endif
