#include "quant/quantize.h"

#include "base/mem.h"
#include "quant/quantize_internal.h"

static const struct writer {
    enum tensor_type type;
    float largest; /* magnitude */
    void (*quantize)(const float *x, const float *w, size_t n_blocks, void *out);
} writers[] = {
#define WRITER_ROW(name, largest) { TENSOR_TYPE_##name, largest, quantize_##name },
    WRITABLE_LIST(WRITER_ROW)
#undef WRITER_ROW
};

static const struct writer *find_writer(enum tensor_type type)
{
    for (size_t i = 0; i < ARRAY_SIZE(writers); i++)
        if (writers[i].type == type)
            return &writers[i];
    return NULL;
}

bool tensor_type_writable(enum tensor_type type)
{
    return type == TENSOR_TYPE_F32 || find_writer(type);
}

void tensor_type_list_writable(struct strbuf *out)
{
    strbuf_puts(out, "F32");
    for (size_t i = 0; i < ARRAY_SIZE(writers); i++)
        strbuf_printf(out, ", %s", tensor_type_name(writers[i].type));
}

static enum status refuse_type(enum tensor_type type, struct error *err)
{
    struct strbuf list;
    strbuf_init(&list, 1024);
    tensor_type_list_writable(&list);
    enum status s = error_set(err, STATUS_UNSUPPORTED, "cannot write type %s; writable types: %s",
                              tensor_type_name(type), list.ptr);
    strbuf_release(&list);
    return s;
}

static enum status check_row(const struct writer *writer, const float *x, int64_t row,
                             int64_t n_cols, struct error *err)
{
    for (int64_t j = 0; j < n_cols; j++) {
        if (x[j] >= -writer->largest && x[j] <= writer->largest)
            continue;
        return error_set(err, STATUS_INVALID,
                         "cannot write %s: row %lld, column %lld is %g; expected a number of "
                         "magnitude up to %g",
                         tensor_type_name(writer->type), (long long)row, (long long)j, (double)x[j],
                         (double)writer->largest);
    }
    return STATUS_OK;
}

/* Importances in units of their mean. A column that never mattered gets a little weight, so that
 * its values still decide where nothing else does. */
static enum status set_weights(float *weights, const float *importance, int64_t n_cols,
                               struct error *err)
{
    double sum = 0;
    for (int64_t j = 0; importance && j < n_cols; j++) {
        if (!(importance[j] >= 0 && importance[j] <= 3.4e38f))
            return error_set(err, STATUS_INVALID,
                             "importance of column %lld is %g; expected a finite number of at "
                             "least 0",
                             (long long)j, (double)importance[j]);
        sum += (double)importance[j];
    }
    double per_mean = sum > 0 ? (double)n_cols / sum : 0;
    for (int64_t j = 0; j < n_cols; j++)
        weights[j] = sum > 0 ? (float)((double)importance[j] * per_mean + 1e-5) : 1.0f;
    return STATUS_OK;
}

static enum status write_rows(const struct writer *writer, const float *x, const float *weights,
                              int64_t n_rows, int64_t n_cols, size_t row_bytes, void *out,
                              struct error *err)
{
    const struct tensor_type_info *info = tensor_type_info(writer->type);
    unsigned char *bytes = out;
    for (int64_t row = 0; row < n_rows; row++, x += n_cols, bytes += row_bytes) {
        TRY(check_row(writer, x, row, n_cols, err));
        writer->quantize(x, weights, (size_t)(n_cols / info->block_elements), bytes);
    }
    return STATUS_OK;
}

enum status quantize_rows(enum tensor_type type, const float *x, const float *importance,
                          int64_t n_rows, int64_t n_cols, void *out, struct error *err)
{
    const struct writer *writer = find_writer(type);
    size_t row_bytes;
    if (!tensor_type_writable(type))
        return refuse_type(type, err);
    if (n_rows < 0 || !tensor_type_row_bytes(type, n_cols, &row_bytes))
        return error_set(err, STATUS_INVALID,
                         "cannot write %s: expected rows of a multiple of %d columns, found %lld "
                         "rows of %lld",
                         tensor_type_name(type), tensor_type_info(type)->block_elements,
                         (long long)n_rows, (long long)n_cols);
    if (!writer) { /* F32: bits as they are, NaN included */
        memcpy(out, x, (size_t)n_rows * row_bytes);
        return STATUS_OK;
    }
    float *weights = mem_array(float, (size_t)n_cols);
    enum status s = set_weights(weights, importance, n_cols, err);
    if (s == STATUS_OK)
        s = write_rows(writer, x, weights, n_rows, n_cols, row_bytes, out, err);
    mem_free(weights);
    return s;
}
