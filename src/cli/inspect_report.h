/* inspect_report: what a model's files say about themselves, as one JSON object.
 *
 * Works on any well-formed container: an architecture that no family reads gives "family": null,
 * a configuration that a family refuses gives "geometry": null and the reason under "problem".
 * Ownership: the result is the caller's reference. Threads: any. */
#ifndef CLI_INSPECT_REPORT_H
#define CLI_INSPECT_REPORT_H

#include <jansson.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "formats/model_source.h"

#define INSPECT_ARRAY_SHOWN 8 /* elements of a metadata array that are listed */

/* Members: path, format, version, alignment, parts, file_bytes, name, architecture, family,
 * problem, geometry, parameters, embedding_parameters, n_tensors, types, tokenizer,
 * chat_template, metadata, tensors. */
json_t *inspect_report(const struct model_source *source);

/* Appends the template's own text. NOT_FOUND: the model has none. */
MUST_CHECK enum status inspect_template(const struct model_source *source, struct strbuf *out,
                                        struct error *err);

#endif
