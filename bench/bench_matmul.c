/* bench_matmul: one thread's products per second for each type, n = 1, 4, 8, 512 tokens.
 * usage: bench_matmul [ISA [TYPE...]]; best of several runs, wall clock. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cpu/matmul.h"
#include "quant/float_convert.h"

#define COLS 2048
#ifndef ROWS
#define ROWS 8192
#endif

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void measure(const struct matmul_kernels *kernels, const struct weight *w, int64_t rows,
                    int n, bool exact, double *gops, double *gbs, size_t row_bytes)
{
    enum matmul_operand operand = matmul_operand_for(w->type, exact);
    size_t x_bytes = matmul_operand_bytes(operand, n, COLS);
    float *x = mem_array(float, (size_t)n *COLS), *out = mem_array(float, (size_t)(n * rows));
    void *packed = mem_try_pages(x_bytes);
    for (int i = 0; i < n * COLS; i++)
        x[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
    matmul_activate(kernels, operand, x, COLS, n, COLS, packed, 0, matmul_token_tiles(n));
    struct matmul_args args = {
        .w = w, .operand = operand, .x = packed, .n_tokens = n, .out = out, .out_stride = rows
    };
    int repeat = (int)(2e8 / ((double)rows * COLS * n)) + 1; /* some milliseconds a run */
    double best = 1e9, end = seconds() + 0.4;
    for (int runs = 0; runs < 3 || seconds() < end; runs++) {
        double start = seconds();
        for (int i = 0; i < repeat; i++)
            matmul_run(kernels, &args, 0, matmul_row_groups(rows));
        double t = (seconds() - start) / repeat;
        best = t < best ? t : best;
    }
    *gops = 2.0 * (double)rows * COLS * n / best * 1e-9;
    *gbs = (double)row_bytes * (double)rows / best * 1e-9;
    mem_free(x);
    mem_free(out);
    mem_release_pages(packed, x_bytes);
}

static void bench_type(const struct matmul_kernels *kernels, enum tensor_type type, bool exact)
{
    size_t row_bytes, bytes = matmul_packed_bytes(type, ROWS, COLS);
    if (!bytes || !tensor_type_row_bytes(type, COLS, &row_bytes))
        return;
    uint8_t *file = mem_alloc(row_bytes * ROWS);
    memset(file, 0x11, row_bytes * ROWS);
    void *packed = mem_try_pages(bytes);
    double start = seconds();
    matmul_pack(type, ROWS, COLS, file, packed, 0, ROWS / 16);
    start = seconds();
    matmul_pack(type, ROWS, COLS, file, packed, 0, ROWS / 16);
    double pack = (double)bytes / (seconds() - start) * 1e-9;
    struct weight w = { .type = type,
                        .n_experts = 1,
                        .n_rows = ROWS,
                        .n_cols = COLS,
                        .data = packed,
                        .layout = WEIGHT_LAYOUT_ROWS16 };
    static const int tokens[] = { 1, 2, 4, 8, 64, 512 };
    printf("%-8s pack %5.1f GB/s ", tensor_type_name(type), pack);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        double gops, gbs;
        measure(kernels, &w, tokens[i] >= 64 && ROWS > 1024 ? 1024 : ROWS, tokens[i], exact, &gops,
                &gbs, row_bytes);
        printf(" | n=%d %6.1f", tokens[i], gops);
        if (tokens[i] == 1)
            printf(" (%4.1f GB/s)", gbs);
    }
    printf("\n");
    fflush(stdout);
    mem_free(file);
    mem_release_pages(packed, bytes);
}

int main(int argc, char **argv)
{
    struct cpu_features features;
    cpu_features_read(&features);
    const char *isa = argc > 1 && strcmp(argv[1], "best") != 0 ? argv[1] : NULL;
    const struct matmul_kernels *kernels = matmul_kernels_choose(&features, isa);
    if (!kernels) {
        fprintf(stderr, "bench_matmul: %s is unknown or not available here\n", argv[1]);
        return 2;
    }
    printf("%s on %s; GOPS of one thread\n", matmul_kernels_name(kernels), features.model);
    static const enum tensor_type all[] = {
#define TYPE(name, id, elements, bytes, flags) id,
        TENSOR_TYPE_LIST(TYPE)
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool wanted = argc <= 2;
        for (int a = 2; a < argc; a++)
            wanted |= strcmp(argv[a], tensor_type_name(all[i])) == 0;
        if (wanted)
            bench_type(kernels, all[i], false);
    }
    return 0;
}
