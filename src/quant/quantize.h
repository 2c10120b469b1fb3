/* quantize: writes rows of binary32 in a tensor type, searching for the scales (and minimums) that
 * minimize the squared error, weighted by importance where there are importances.
 *
 * An importance says how much an error in a column matters: the mean square of the activations
 * that the column is multiplied with (an importance matrix). The result is a pure function of the
 * arguments. No state: any thread may quantize any rows. */
#ifndef QUANT_QUANTIZE_H
#define QUANT_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "quant/tensor_types.h"

/* True if quantize_rows knows the type. */
bool tensor_type_writable(enum tensor_type type);

/* Appends "F32, F16, ...": every writable type. */
void tensor_type_list_writable(struct strbuf *out);

/* x: [n_rows][n_cols]; importance: [n_cols], all >= 0, or NULL; out: n_rows times the bytes of a
 * row (tensor_type_row_bytes), at an even address. UNSUPPORTED if the type is not writable; INVALID
 * for a NaN, an infinity, a value beyond the largest of the type (never clamped silently), a bad
 * importance, or n_cols that is not a multiple of the block. */
MUST_CHECK enum status quantize_rows(enum tensor_type type, const float *x, const float *importance,
                                     int64_t n_rows, int64_t n_cols, void *out, struct error *err);

#endif
