#include "engine/quantize_model.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/thread.h"
#include "engine/quantize_recipe.h"
#include "formats/gguf.h"
#include "formats/gguf_write.h"
#include "quant/dequant.h"
#include "quant/quantize.h"

#define QUANTIZATION_VERSION 2      /* general.quantization_version of today's block layouts */
#define PIECE_BYTES ((size_t)16 << 20) /* of output held at a time, unless one row is longer */
#define CHUNK_VALUES 16384          /* of input that a thread takes at a time, at least a row */
#define MAX_THREADS 256

struct job {
    struct gguf in;
    struct gguf_writer *out;
    struct quantize_recipe recipe;
    const struct quantize_model_options *options;
    struct quantize_model_result *result;
};

/* One piece of a tensor: consecutive rows, quantized by all threads. */
struct piece {
    const struct weight_tensor *tensor;
    enum tensor_type type;
    const float *importance;   /* NULL: none */
    int64_t importance_stride; /* 0: the same for all matrices of the tensor, else n_cols */
    int64_t rows_per_matrix;
    int64_t first_row, n_rows, n_cols, rows_per_chunk;
    size_t in_row_bytes, out_row_bytes;
    unsigned char *out;
    atomic_int_fast64_t next_row; /* within the piece */
    atomic_bool failed;
    pthread_mutex_t error_lock;
    int64_t error_row; /* of the error kept: the earliest, whatever thread found it first */
    struct error error;
};

static int64_t row_length(const struct weight_tensor *t)
{
    return t->n_dims ? t->dim[t->n_dims - 1] : 1;
}

static void keep_error(struct piece *p, int64_t row, const struct error *e)
{
    pthread_mutex_lock(&p->error_lock);
    if (!atomic_load(&p->failed) || row < p->error_row) {
        p->error = *e;
        p->error_row = row;
    }
    atomic_store(&p->failed, true);
    pthread_mutex_unlock(&p->error_lock);
}

/* Rows [first, first + n) of the piece, all of one matrix. */
static void quantize_chunk(struct piece *p, int64_t first, int64_t n, float *values)
{
    int64_t row = p->first_row + first;
    const float *importance = p->importance;
    if (importance)
        importance += row / p->rows_per_matrix * p->importance_stride;
    dequant_row(p->tensor->type, p->tensor->bytes + (size_t)row * p->in_row_bytes, values,
                n * p->n_cols);
    struct error e = { 0 };
    enum status s = quantize_rows(p->type, values, importance, n, p->n_cols,
                                  p->out + (size_t)first * p->out_row_bytes, &e);
    if (s != STATUS_OK) {
        error_prefix(&e, "tensor %.*s, rows from %lld on", STR_ARG(p->tensor->name),
                           (long long)row);
        keep_error(p, row, &e);
    }
}

static void *quantize_worker(void *argument)
{
    struct piece *p = argument;
    size_t value_bytes = (size_t)(p->rows_per_chunk * p->n_cols) * sizeof(float);
    float *values = mem_try_pages(value_bytes);
    if (!values) {
        struct error e = { 0 };
        error_set(&e, STATUS_NO_MEMORY, "tensor %.*s: no memory for %zu bytes of values",
                  STR_ARG(p->tensor->name), value_bytes);
        keep_error(p, p->first_row, &e);
        return NULL;
    }
    while (!atomic_load(&p->failed)) {
        int64_t first = atomic_fetch_add(&p->next_row, p->rows_per_chunk);
        int64_t end = MIN(first + p->rows_per_chunk, p->n_rows);
        while (first < end) {
            int64_t row = p->first_row + first;
            int64_t left = p->rows_per_matrix - row % p->rows_per_matrix;
            int64_t n = MIN(end - first, left);
            quantize_chunk(p, first, n, values);
            first += n;
        }
        if (end >= p->n_rows)
            break;
    }
    mem_release_pages(values, value_bytes);
    return NULL;
}

static enum status quantize_piece(struct piece *p, int n_threads, struct error *err)
{
    pthread_t threads[MAX_THREADS];
    int n_started = 0;
    atomic_store(&p->next_row, 0);
    int64_t n_chunks = (p->n_rows + p->rows_per_chunk - 1) / p->rows_per_chunk;
    int n_wanted = (int)MIN(MIN(n_threads, MAX_THREADS), n_chunks) - 1;
    while (n_started < n_wanted &&
           thread_start(&threads[n_started], quantize_worker, p) == 0)
        n_started++;
    quantize_worker(p); /* fewer threads than wanted only take longer */
    for (int i = 0; i < n_started; i++)
        pthread_join(threads[i], NULL);
    if (!atomic_load(&p->failed))
        return STATUS_OK;
    if (err)
        *err = p->error;
    return p->error.status;
}

static enum status find_importance(struct job *j, struct piece *p, struct error *err)
{
    const struct weight_tensor *t = p->tensor;
    bool is_wanted = tensor_type_info(p->type)->flags & TENSOR_TYPE_QUANTIZED;
    if (!j->options->importance || !is_wanted)
        return STATUS_OK;
    size_t n_values = 0;
    p->importance = j->options->importance(j->options->context, t->name, &n_values);
    if (!p->importance) {
        j->result->n_without_importance++;
        return STATUS_OK;
    }
    int64_t n_matrices = weight_tensor_elements(t) / (p->n_cols * p->rows_per_matrix);
    if (n_values == (size_t)p->n_cols)
        p->importance_stride = 0;
    else if (n_values == (size_t)(p->n_cols * n_matrices))
        p->importance_stride = p->n_cols;
    else
        return error_set(err, STATUS_INVALID,
                         "importances of %.*s: expected %lld or %lld values, found %zu",
                         STR_ARG(t->name), (long long)p->n_cols,
                         (long long)(p->n_cols * n_matrices), n_values);
    return STATUS_OK;
}

static enum status convert_rows(struct job *j, struct piece *p, struct error *err)
{
    int64_t n_rows = weight_tensor_elements(p->tensor) / p->n_cols;
    int64_t rows_per_piece = MAX((int64_t)(PIECE_BYTES / p->out_row_bytes), 1);
    rows_per_piece = MIN(rows_per_piece, n_rows);
    p->out = mem_try_pages((size_t)rows_per_piece * p->out_row_bytes);
    if (!p->out)
        return error_set(err, STATUS_NO_MEMORY, "no memory for %lld rows of %.*s",
                         (long long)rows_per_piece, STR_ARG(p->tensor->name));
    enum status s = STATUS_OK;
    for (p->first_row = 0; s == STATUS_OK && p->first_row < n_rows; p->first_row += p->n_rows) {
        p->n_rows = MIN(rows_per_piece, n_rows - p->first_row);
        s = quantize_piece(p, j->options->n_threads, err);
        if (s == STATUS_OK)
            s = gguf_writer_write(j->out, p->out, (size_t)p->n_rows * p->out_row_bytes, err);
    }
    mem_release_pages(p->out, (size_t)rows_per_piece * p->out_row_bytes);
    return s;
}

static enum status convert_tensor(struct job *j, const struct weight_tensor *t,
                                  enum tensor_type type, struct error *err)
{
    struct piece p = { .tensor = t, .type = type, .n_cols = row_length(t) };
    p.rows_per_matrix = t->n_dims >= 2 ? t->dim[t->n_dims - 2] : 1;
    p.rows_per_chunk = MAX(CHUNK_VALUES / p.n_cols, 1);
    if (!tensor_type_row_bytes(t->type, p.n_cols, &p.in_row_bytes) ||
        !tensor_type_row_bytes(type, p.n_cols, &p.out_row_bytes))
        return error_set(err, STATUS_INTERNAL, "tensor %.*s: rows of %lld do not fit %s",
                         STR_ARG(t->name), (long long)p.n_cols, tensor_type_name(type));
    TRY(find_importance(j, &p, err));
    pthread_mutex_init(&p.error_lock, NULL);
    enum status s = convert_rows(j, &p, err);
    pthread_mutex_destroy(&p.error_lock);
    return s;
}

static void tell(struct job *j, const struct weight_tensor *t, enum tensor_type type,
                 const char *reason)
{
    if (!reason || !j->options->note)
        return;
    struct strbuf text;
    strbuf_init(&text, 4096);
    strbuf_printf(&text, "%.*s %s: %s %s", STR_ARG(t->name), reason,
                  type == t->type ? "stays" : "becomes", tensor_type_name(type));
    j->options->note(j->options->context, text.ptr);
    strbuf_release(&text);
}

static enum status write_header(struct job *j, struct error *err)
{
    static const char *const replaced[] = { "general.file_type", "general.quantization_version",
                                            NULL };
    TRY(gguf_writer_copy_metadata(j->out, &j->in, replaced, err));
    if (j->recipe.file_type >= 0)
        TRY(gguf_writer_put_u32(j->out, "general.file_type", (uint32_t)j->recipe.file_type, err));
    TRY(gguf_writer_put_u32(j->out, "general.quantization_version", QUANTIZATION_VERSION, err));
    const struct weight_file *f = &j->in.weights;
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct weight_tensor *t = &f->tensors[i];
        const char *reason;
        enum tensor_type type = quantize_recipe_type(&j->recipe, t, &reason);
        tell(j, t, type, reason);
        TRY(gguf_writer_declare(j->out, t->name, type, t->n_dims, t->dim, err));
    }
    return STATUS_OK;
}

static enum status write_tensor(struct job *j, const struct weight_tensor *t, struct error *err)
{
    const char *reason;
    enum tensor_type type = quantize_recipe_type(&j->recipe, t, &reason);
    struct weight_tensor after = *t;
    size_t n_bytes;
    after.type = type;
    TRY(weight_tensor_size(&after, &n_bytes, err));
    j->result->bytes_before += t->n_bytes;
    j->result->bytes_after += n_bytes;
    if (type == t->type || n_bytes == 0) {
        TRY(gguf_writer_write(j->out, t->bytes, t->n_bytes, err));
    } else {
        j->result->n_changed++;
        TRY(convert_tensor(j, t, type, err));
    }
    weight_file_forget(&j->in.weights, t, 0, t->n_bytes);
    return STATUS_OK;
}

static enum status write_model(struct job *j, const char *out_path, struct error *err)
{
    const struct weight_file *f = &j->in.weights;
    quantize_recipe_fit(&j->recipe, f);
    j->result->n_tensors = f->n_tensors;
    TRY(gguf_writer_open(&j->out, out_path, j->in.alignment, err));
    TRY(write_header(j, err));
    for (size_t i = 0; i < f->n_tensors; i++) {
        TRY(write_tensor(j, &f->tensors[i], err));
        if (j->options->progress && j->options->progress(j->options->context, f->tensors[i].name,
                                                         i + 1, f->n_tensors))
            return error_set(err, STATUS_CANCELLED, "quantizing was cancelled");
    }
    if (weight_file_damaged(f))
        return error_set(err, STATUS_IO, "the input became shorter while it was read");
    return gguf_writer_finish(j->out, err);
}

/* The better weights would be gone, and no second try possible. */
static enum status refuse_own_input(const struct weight_file *f, const char *out_path,
                                    struct error *err)
{
    for (size_t i = 0; i < f->n_parts; i++)
        if (file_is_same(f->parts[i].path, out_path))
            return error_set(err, STATUS_INVALID, "%s: expected another file for the output, "
                             "found the input", out_path);
    return STATUS_OK;
}

enum status quantize_model(const char *in_path, const char *out_path,
                           const struct quantize_model_options *options,
                           struct quantize_model_result *result, struct error *err)
{
    struct job j = { .options = options, .result = result };
    *result = (struct quantize_model_result){ 0 };
    TRY(quantize_recipe_named(&j.recipe, options->type, err));
    TRY(gguf_open(&j.in, in_path, err));
    enum status s = refuse_own_input(&j.in.weights, out_path, err);
    if (s == STATUS_OK)
        s = write_model(&j, out_path, err);
    gguf_writer_free(j.out);
    gguf_close(&j.in);
    return s;
}
