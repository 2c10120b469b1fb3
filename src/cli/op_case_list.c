/* op_case_list: which cases there are: odd sizes around every vector length, all types, all
 * options. */
#include <stdio.h>
#include <string.h>

#include "cli/op_cases.h"
#include "cpu/matmul.h"
#include "quant/kv_codec.h"
#include "tensor/ops.h"

struct lister {
    void (*each)(void *user, const struct op_case *);
    void *user;
    int32_t number;
};

static void put(struct lister *l, struct op_case c)
{
    c.number = ++l->number;
    l->each(l->user, &c);
}

void op_case_name(const struct op_case *c, char name[OP_NAME_BYTES])
{
    int n = snprintf(name, OP_NAME_BYTES, "%s %s", c->op, tensor_type_name(c->type));
    if (c->value_type)
        n += snprintf(name + n, OP_NAME_BYTES - (size_t)n, "/%s", tensor_type_name(c->value_type));
    n += snprintf(name + n, OP_NAME_BYTES - (size_t)n, " rows=%d width=%d", c->rows, c->width);
    const struct {
        const char *what;
        int32_t value;
    } more[] = { { "out", c->out_width }, { "heads", c->heads },   { "kv", c->kv_heads },
                 { "past", c->past },     { "window", c->window }, { "variant", c->variant } };
    for (size_t i = 0; i < ARRAY_SIZE(more); i++)
        if (more[i].value)
            n += snprintf(name + n, OP_NAME_BYTES - (size_t)n, " %s=%d", more[i].what,
                          more[i].value);
    if (c->softcap > 0)
        snprintf(name + n, OP_NAME_BYTES - (size_t)n, " softcap=%g", (double)c->softcap);
}

static const enum tensor_type all_types[] = {
#define TYPE_ENTRY(name, id, elements, bytes, flags) TENSOR_TYPE_##name,
    TENSOR_TYPE_LIST(TYPE_ENTRY)
#undef TYPE_ENTRY
};
static const enum tensor_type kv_types[] = {
    TENSOR_TYPE_F32,  TENSOR_TYPE_F16,   TENSOR_TYPE_BF16,   TENSOR_TYPE_Q8_0,  TENSOR_TYPE_F8_E4M3,
    TENSOR_TYPE_Q4_0, TENSOR_TYPE_NVFP4, TENSOR_TYPE_TURBO3, TENSOR_TYPE_TURBO4,
};

static void list_products(struct lister *l)
{
    static const int32_t rows[] = { 1, 2, 5, 33 };
    for (size_t t = 0; t < ARRAY_SIZE(all_types); t++) {
        if (!matmul_supports(all_types[t], 512))
            continue;
        for (size_t r = 0; r < ARRAY_SIZE(rows); r++)
            put(l, (struct op_case){ .op = "linear", .type = all_types[t], .rows = rows[r],
                                     .width = 512, .out_width = 37,
                                     .variant = (int32_t)r * 2 % 8 });
        put(l, (struct op_case){ .op = "linear", .type = all_types[t], .rows = 3, .width = 768,
                                 .out_width = 16, .variant = 7 });
        put(l, (struct op_case){ .op = "linear_group", .type = all_types[t], .rows = 4,
                                 .width = 256, .out_width = 20 });
        for (int32_t a = ACTIVATION_SILU; a <= ACTIVATION_GELU; a++)
            put(l, (struct op_case){ .op = "linear_glu", .type = all_types[t], .rows = 2,
                                     .width = 256, .out_width = 33, .variant = a });
        put(l, (struct op_case){ .op = "embed", .type = all_types[t], .rows = 9, .width = 256,
                                 .out_width = 21 });
    }
    static const int32_t widths[] = { 1, 7, 8, 15, 17, 64, 100, 576 };
    for (size_t i = 0; i < ARRAY_SIZE(widths); i++) /* whole rows of plain numbers: any width */
        put(l, (struct op_case){ .op = "linear", .type = TENSOR_TYPE_F32, .rows = 3,
                                 .width = widths[i], .out_width = 18, .variant = 1 });
}

static void list_rows(struct lister *l)
{
    static const int32_t widths[] = { 2, 6, 8, 16, 30, 64, 576, 2050 };
    static const char *const ops[] = { "add", "multiply", "scale", "softcap", "select_rows" };
    for (size_t i = 0; i < ARRAY_SIZE(widths); i++) {
        struct op_case c = { .type = TENSOR_TYPE_F32, .rows = 11, .width = widths[i], .heads = 3 };
        for (size_t k = 0; k < ARRAY_SIZE(ops); k++) {
            c.op = ops[k];
            put(l, c);
        }
        for (c.op = "activate", c.variant = 0; c.variant <= ACTIVATION_GELU; c.variant++)
            put(l, c);
        for (c.op = "rms_norm", c.variant = 0; c.variant < 2; c.variant++)
            put(l, c);
        c.op = "rope";
        c.past = 1000;
        for (c.variant = 0; c.variant < 16; c.variant++)
            if (widths[i] % 4 == 0)
                put(l, c);
    }
}

/* Cases that the types can hold. */
static void put_attention(struct lister *l, struct op_case c)
{
    c.op = "attention";
    if (kv_row_bytes(c.type, c.width) && kv_row_bytes(c.value_type, c.out_width))
        put(l, c);
}

/* Whole, in a window, and capped. */
static void put_attention_variants(struct lister *l, struct op_case c)
{
    put_attention(l, c);
    c.window = 24;
    c.variant = 1;
    put_attention(l, c);
    c.window = 0;
    c.softcap = 5;
    put_attention(l, c);
}

/* Every geometry and length with one type; the others differ only in how a row is unpacked, so a
 * decode row and a chunk in each geometry are enough. */
static void list_attention(struct lister *l)
{
    static const struct {
        int32_t heads, kv_heads, k_dim, v_dim;
    } shape[] = { { 4, 4, 20, 12 },  { 4, 2, 16, 16 },   { 9, 3, 64, 64 }, { 4, 1, 256, 256 },
                  { 8, 1, 96, 32 },  { 14, 2, 128, 128 }, { 2, 2, 80, 80 } };
    static const struct {
        int32_t rows, past;
    } length[] = { { 1, 31 }, { 11, 60 }, { 1, 0 }, { 2, 700 }, { 40, 0 }, { 65, 40 } };
    for (size_t t = 0; t < ARRAY_SIZE(kv_types); t++)
        for (size_t i = 0; i < (kv_types[t] == TENSOR_TYPE_F16 ? ARRAY_SIZE(length) : 2); i++)
            for (size_t k = 0; k < ARRAY_SIZE(shape); k++)
                put_attention_variants(
                    l, (struct op_case){ .type = kv_types[t], .value_type = kv_types[t],
                                         .heads = shape[k].heads, .kv_heads = shape[k].kv_heads,
                                         .width = shape[k].k_dim, .out_width = shape[k].v_dim,
                                         .rows = length[i].rows, .past = length[i].past });
}

/* Every pair of types: one decode row and a few, over several splits. */
static void list_cache_pairs(struct lister *l)
{
    for (size_t k = 0; k < ARRAY_SIZE(kv_types); k++)
        for (size_t v = 0; v < ARRAY_SIZE(kv_types); v++)
            for (int32_t rows = 1; rows <= 9; rows += 8)
                put_attention(l, (struct op_case){ .type = kv_types[k], .value_type = kv_types[v],
                                                   .heads = 6, .kv_heads = 2, .width = 64,
                                                   .out_width = 64, .rows = rows, .past = 300 });
}

static void list_bench(struct lister *l)
{
    static const enum tensor_type types[] = { TENSOR_TYPE_F32, TENSOR_TYPE_BF16, TENSOR_TYPE_Q4_0,
                                              TENSOR_TYPE_Q4_1, TENSOR_TYPE_Q8_0, TENSOR_TYPE_Q4_K,
                                              TENSOR_TYPE_Q6_K };
    static const int32_t rows[] = { 1, 4, 64 };
    for (size_t t = 0; t < ARRAY_SIZE(types); t++)
        for (size_t r = 0; r < ARRAY_SIZE(rows); r++)
            put(l, (struct op_case){ .op = "linear", .type = types[t], .rows = rows[r],
                                     .width = 2048, .out_width = 2048 });
    for (size_t t = 0; t < ARRAY_SIZE(kv_types); t++) {
        struct op_case c = { .op = "attention", .type = kv_types[t], .value_type = kv_types[t],
                             .heads = 32, .kv_heads = 8, .width = 128, .out_width = 128 };
        c.rows = 1, c.past = 4096;
        put(l, c);
        c.rows = 256, c.past = 256;
        put(l, c);
    }
    static const char *const ops[] = { "add", "multiply", "activate", "rms_norm", "rope" };
    for (size_t k = 0; k < ARRAY_SIZE(ops); k++)
        for (size_t r = 0; r < ARRAY_SIZE(rows); r++)
            put(l, (struct op_case){ .op = ops[k], .type = TENSOR_TYPE_F32, .rows = rows[r],
                                     .width = 128, .heads = 32 });
}

void op_cases_list(bool bench, void (*each)(void *user, const struct op_case *), void *user)
{
    struct lister l = { .each = each, .user = user };
    if (bench) {
        list_bench(&l);
        return;
    }
    list_products(&l);
    list_rows(&l);
    list_attention(&l);
    list_cache_pairs(&l);
}
