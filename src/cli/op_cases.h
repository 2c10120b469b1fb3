/* op_cases: every op in many shapes and types, on any device, with the same random input.
 *
 * A case is pure data; op_case_run builds its input from the case's number alone, runs it on a
 * device and returns the result as host floats, so two devices can be compared and any one timed.
 * A new device plugs in by being passed; a new op is one run function and its rows in the list.
 * Threads: one at a time for each device. */
#ifndef CLI_OP_CASES_H
#define CLI_OP_CASES_H

#include "base/error.h"
#include "quant/tensor_types.h"
#include "tensor/device.h"

struct op_case {
    const char *op;            /* "linear" */
    enum tensor_type type;     /* of the weight, or of keys */
    enum tensor_type value_type; /* of values */
    int32_t rows;              /* of the batch */
    int32_t width, out_width;  /* columns of x; rows of the weight */
    int32_t heads, kv_heads, past, window;
    int32_t variant;           /* activation, style, options: each op says */
    float softcap;
    int32_t number;            /* seed of the input */
};

struct op_result {
    float *values; /* mem_free */
    size_t n;
    double seconds;         /* of the fastest repetition; 0: not timed */
    double multiplies;      /* of one run */
};

#define OP_NAME_BYTES 128
void op_case_name(const struct op_case *, char name[OP_NAME_BYTES]);

/* Calls `each` for all cases in a fixed order. bench: the shapes worth timing instead. */
void op_cases_list(bool bench, void (*each)(void *user, const struct op_case *), void *user);

/* time: repeats for about that long. UNSUPPORTED when the device refuses the type. */
MUST_CHECK enum status op_case_run(const struct op_case *, struct device *, double time,
                                   struct op_result *, struct error *);

/* How far b lies from the reference a, and what is allowed. Where the device quantizes activations:
 * rms of the difference / rms of a; else the largest |a - b| / (|a| + rms of a). Infinite where a
 * value is not a number. */
struct op_distance {
    double found, limit;
};
struct op_distance op_case_compare(const struct op_case *, bool exact, const struct op_result *a,
                                   const struct op_result *b);

#endif
