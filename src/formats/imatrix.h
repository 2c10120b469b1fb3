/* imatrix: importances of weight columns, measured by running a model over a text.
 *
 * Reads both files that llama.cpp's imatrix tool writes: the older binary form and the GGUF form
 * (general.type = "imatrix"). A tensor's importances are mean squares of what its columns were
 * multiplied with, [n_matrices][n_columns], n_matrices > 1 for expert tensors. All are finite and
 * not negative; a matrix that met no input has ones, as in the tool that wrote it.
 * Ownership: names and values belong to the imatrix. Threads: read-only once opened.
 * Format: imatrix.c has the layouts. */
#ifndef FORMATS_IMATRIX_H
#define FORMATS_IMATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/strmap.h"

struct imatrix_entry {
    struct str name;      /* of the weight: "blk.0.ffn_down.weight" */
    const float *values;
    size_t n_values;      /* n_matrices * n_columns; the older form does not say how it splits */
};

struct imatrix {
    struct imatrix_entry *entries;
    size_t n_entries;
    uint64_t n_chunks;    /* pieces of text that were measured; 0: not stated */
    struct str dataset;   /* its name; empty: not stated */
    struct strmap index;
    struct arena arena;
};

/* On failure *m is released. */
MUST_CHECK enum status imatrix_open(struct imatrix *m, const char *path, struct error *err);
MUST_CHECK enum status imatrix_open_memory(struct imatrix *m, const char *label,
                                           const void *bytes, size_t n, struct error *err);
void imatrix_release(struct imatrix *m); /* a zeroed one is allowed */

/* NULL: absent. */
const struct imatrix_entry *imatrix_find(const struct imatrix *m, struct str name);

#endif
