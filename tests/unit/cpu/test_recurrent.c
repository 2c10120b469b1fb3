/* Convolution and delta rule against plain sums, against values of another implementation, and
 * against themselves: however rows are cut into batches, every bit is the same. */
#include "unit/cmocka_setup.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_device.h"
#include "tensor/ops.h"

#define SCRATCH (1 << 16)

struct fixture {
    struct device *dev;
    struct error err;
    struct step step;
    struct batch batch;
    struct batch_sequence sequence[2];
};

static void open_fixture(struct fixture *f, int n_threads)
{
    *f = (struct fixture){ 0 };
    struct cpu_device_options o = { .n_threads = n_threads };
    if (cpu_device_new(&o, &f->dev, &f->err) != STATUS_OK)
        fail_msg("%s", f->err.message);
    f->batch = (struct batch){ .sequence = f->sequence, .n_sequences = 1 };
    f->step = (struct step){ .dev = f->dev,
                             .batch = &f->batch,
                             .err = &f->err,
                             .scratch = mem_try_pages(SCRATCH),
                             .scratch_bytes = SCRATCH };
}

static void close_fixture(struct fixture *f)
{
    mem_release_pages(f->step.scratch, SCRATCH);
    f->dev->ops->release(f->dev);
}

/* One sequence of n rows in slot 0; the last n_drafted are guesses, their state goes to slot 1. */
static void set_rows(struct fixture *f, int32_t n, int32_t n_drafted)
{
    f->batch.n_rows = n;
    f->sequence[0] =
        (struct batch_sequence){ .n_rows = n, .n_drafted = n_drafted, .draft_slot = 1 };
}

static struct weight weight_of(struct fixture *f, const float *data, int64_t rows, int64_t cols,
                               bool lookup)
{
    struct weight w = { .name = STR("w"),
                        .type = TENSOR_TYPE_F32,
                        .n_experts = 1,
                        .n_rows = rows,
                        .n_cols = cols,
                        .lookup = lookup };
    const struct weight_bytes from = { .data = data, .n = (size_t)(rows * cols) * 4 };
    if (f->dev->ops->weight_load(f->dev, &w, &from, &f->err))
        fail_msg("%s", f->err.message);
    return w;
}

static void fill(float *out, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        out[i] = (float)((double)(seed >> 8) / (1 << 23) - 1.0);
    }
}

/* --- convolution ---------------------------------------------------------------------------- */

enum { CHANNELS = 150, TAPS = 4, ROWS = 29 };

static void conv(struct fixture *f, const struct causal_conv *c, float *out, float *x, int32_t n)
{
    struct tensor y = tensor_2d(out, TENSOR_TYPE_F32, n, CHANNELS);
    struct tensor in = tensor_2d(x, TENSOR_TYPE_F32, n, CHANNELS);
    if (op_causal_conv(&f->step, &y, &in, c) != STATUS_OK)
        fail_msg("%s", f->err.message);
}

static void conv_is_a_sum(void **state)
{
    (void)state;
    static float w[CHANNELS * TAPS], x[ROWS * CHANNELS], whole[ROWS * CHANNELS],
        parts[ROWS * CHANNELS], window[2][9 * CHANNELS], after[9 * CHANNELS];
    fill(w, CHANNELS * TAPS, 1);
    fill(x, ROWS * CHANNELS, 2);
    for (int32_t dilation = 1; dilation <= 3; dilation += 2) {
        struct fixture f;
        open_fixture(&f, dilation);
        struct weight weight = weight_of(&f, w, CHANNELS, TAPS, true);
        int64_t bytes = (TAPS - 1) * dilation * CHANNELS * 4;
        struct causal_conv c = { .w = &weight,
                                 .dilation = dilation,
                                 .silu = dilation == 3,
                                 .state = { (uint8_t *)window, bytes } };
        memset(window, 0, sizeof window);
        set_rows(&f, ROWS, 0);
        conv(&f, &c, whole, x, ROWS);
        memcpy(after, window, (size_t)bytes);
        for (int r = 0; r < ROWS; r++)
            for (int ch = 0; ch < CHANNELS; ch++) {
                double sum = 0;
                for (int k = 0; k < TAPS; k++) {
                    int from = r - (TAPS - 1 - k) * dilation;
                    sum += from >= 0 ? (double)w[ch * TAPS + k] * x[from * CHANNELS + ch] : 0;
                }
                sum = c.silu ? sum / (1 + exp(-sum)) : sum;
                assert_true(fabs(sum - whole[r * CHANNELS + ch]) < 1e-5);
            }
        memset(window, 0, sizeof window);
        for (int32_t at = 0, n; at < ROWS; at += n) {
            n = MIN(1 + at % 6, ROWS - at);
            set_rows(&f, n, 0);
            conv(&f, &c, parts + at * CHANNELS, x + at * CHANNELS, n);
        }
        assert_memory_equal(parts, whole, sizeof whole);
        assert_memory_equal(window, after, (size_t)bytes);
        f.dev->ops->weight_release(f.dev, &weight);
        close_fixture(&f);
    }
}

/* Behind guesses there are two states: the one before them, and the one behind all. */
static void conv_keeps_both_states(void **state)
{
    (void)state;
    static float w[CHANNELS * TAPS], x[ROWS * CHANNELS], out[ROWS * CHANNELS],
        window[2][3 * CHANNELS], expected[2][3 * CHANNELS];
    fill(w, CHANNELS * TAPS, 3);
    fill(x, ROWS * CHANNELS, 4);
    struct fixture f;
    open_fixture(&f, 1);
    struct weight weight = weight_of(&f, w, CHANNELS, TAPS, true);
    struct causal_conv c = { .w = &weight,
                             .dilation = 1,
                             .state = { (uint8_t *)window, sizeof window[0] } };
    for (int32_t n = 2; n < 8; n++)
        for (int32_t guesses = 1; guesses < n; guesses++) {
            for (int32_t k = 0; k < 2; k++) {
                memset(window, 0, sizeof window);
                set_rows(&f, n - (k ? 0 : guesses), 0);
                conv(&f, &c, out, x, n - (k ? 0 : guesses));
                memcpy(expected[k], window[0], sizeof window[0]);
            }
            memset(window, 0, sizeof window);
            set_rows(&f, n, guesses);
            conv(&f, &c, out, x, n);
            assert_memory_equal(window, expected, sizeof window);
        }
    f.dev->ops->weight_release(f.dev, &weight);
    close_fixture(&f);
}

/* --- delta rule ----------------------------------------------------------------------------- */

/* Three rows, two heads of four; a decay for each key row. Source: the contract data of a Kimi
 * Delta Attention implementation. */
static void delta_is_the_published_rule(void **state)
{
    (void)state;
    static float q[] = { .466f, -.106f, -3.285f, -.875f, -1.078f, .279f,   .652f,  1.627f,
                         .763f, .414f,  -.686f,  -.094f, -.978f,  .183f,   .105f,  .965f,
                         .647f, 1.016f, 1.971f,  .416f,  -.894f,  -2.046f, -.337f, -.241f };
    static float k[] = { -.625f, -1.262f, .646f,  .825f,  .16f,   -.18f,   -.336f,  -1.413f,
                         .634f,  .526f,   -.077f, .424f,  -.451f, -1.276f, .728f,   -.733f,
                         -.754f, -.008f,  .785f,  1.155f, 2.025f, -1.41f,  -1.388f, .805f };
    static float v[] = { -1.458f, 1.594f, 1.465f, .176f, -.672f, .182f,  -2.463f, .526f,
                         .502f,   -.511f, .58f,   .226f, 1.422f, -.664f, -.092f,  1.386f,
                         -.407f,  -.635f, .181f,  .672f, -.914f, -.627f, .472f,   1.005f };
    static float decay[] = { 1.575f, -1.167f, 1.405f, -1.117f, -.994f,  1.287f, .503f,   .66f,
                             .124f,  .794f,   -.469f, -.728f,  -1.029f, -.171f, -.444f,  .544f,
                             .618f,  -.05f,   -.851f, .135f,   -.669f,  .102f,  -1.453f, 1.545f };
    static float beta[] = { .662f, .872f, 1.839f, -1.072f, 1.211f, -1.546f };
    static const float bias[] = { -.805f, -.483f, -1.106f, 1.53f, 1.945f, -1.292f, -.461f, .087f };
    static const float golden[] = {
        .239543f,  -.261887f, -.240693f, -.028916f, .212407f, -.057527f, .778511f,  -.166259f,
        .223263f,  -.232794f, .099446f,  .058621f,  .076383f, -.014326f, .40093f,   -.116787f,
        -.092343f, -.069017f, .088411f,  .118205f,  .071923f, -.056432f, -.076789f, .141126f
    };
    const float a[] = { expf(1.118f), expf(-.724f) };
    float out[24], s[2 * 4 * 4] = { 0 };
    struct fixture f;
    open_fixture(&f, 2);
    struct weight wa = weight_of(&f, a, 1, 2, false), wb = weight_of(&f, bias, 1, 8, false);
    int64_t heads[] = { 3, 2, 4 };
    struct tensor y = tensor_of(out, TENSOR_TYPE_F32, 3, heads);
    struct delta_net net = {
        .q = tensor_of(q, TENSOR_TYPE_F32, 3, heads),
        .k = tensor_of(k, TENSOR_TYPE_F32, 3, heads),
        .v = tensor_of(v, TENSOR_TYPE_F32, 3, heads),
        .decay = tensor_2d(decay, TENSOR_TYPE_F32, 3, 8),
        .beta = tensor_2d(beta, TENSOR_TYPE_F32, 3, 2),
        .a = &wa,
        .a_factor = -1,
        .bias = &wb,
        .scale = 0.5f,
        .l2_eps = 1e-6f,
        .state = { (uint8_t *)s, sizeof s },
    };
    set_rows(&f, 3, 0);
    if (op_delta_net(&f.step, &y, &net) != STATUS_OK)
        fail_msg("%s", f.err.message);
    for (int i = 0; i < 24; i++)
        assert_true(fabsf(out[i] - golden[i]) < 2e-6f);
    f.dev->ops->weight_release(f.dev, &wa);
    f.dev->ops->weight_release(f.dev, &wb);
    close_fixture(&f);
}

enum { HEADS = 6, KEY_HEADS = 2, K_DIM = 8, V_DIM = 12 };

struct delta_data {
    float q[ROWS * KEY_HEADS * K_DIM], k[ROWS * KEY_HEADS * K_DIM], v[ROWS * HEADS * V_DIM];
    float decay[ROWS * HEADS], beta[ROWS * HEADS], out[ROWS * HEADS * V_DIM];
    float state[2][HEADS * K_DIM * V_DIM];
};

static void delta_rows(struct fixture *f, struct delta_data *d, const struct weight *a, bool tiled,
                       int32_t from, int32_t n, int32_t n_drafted)
{
    const int64_t key[] = { n, KEY_HEADS, K_DIM }, value[] = { n, HEADS, V_DIM };
    struct tensor y = tensor_of(d->out + from * HEADS * V_DIM, TENSOR_TYPE_F32, 3, value);
    struct delta_net net = {
        .q = tensor_of(d->q + from * KEY_HEADS * K_DIM, TENSOR_TYPE_F32, 3, key),
        .k = tensor_of(d->k + from * KEY_HEADS * K_DIM, TENSOR_TYPE_F32, 3, key),
        .v = tensor_of(d->v + from * HEADS * V_DIM, TENSOR_TYPE_F32, 3, value),
        .decay = tensor_2d(d->decay + from * HEADS, TENSOR_TYPE_F32, n, HEADS),
        .beta = tensor_2d(d->beta + from * HEADS, TENSOR_TYPE_F32, n, HEADS),
        .a = a,
        .a_factor = 1,
        .scale = 1,
        .l2_eps = 1e-6f,
        .tiled = tiled,
        .state = { (uint8_t *)d->state, sizeof d->state[0] },
    };
    set_rows(f, n, n_drafted);
    if (op_delta_net(&f->step, &y, &net) != STATUS_OK)
        fail_msg("%s", f->err.message);
}

/* The rule in binary64, with whole matrices: S (I - beta k k^T) decay + beta k v^T. */
static void check_rule(const struct delta_data *d, const float *a, bool tiled)
{
    for (int h = 0; h < HEADS; h++) {
        double s[K_DIM][V_DIM] = { { 0 } };
        int kh = tiled ? h % KEY_HEADS : h / (HEADS / KEY_HEADS);
        for (int r = 0; r < ROWS; r++) {
            double q[K_DIM], k[K_DIM], qq = 1e-6, kk = 1e-6;
            for (int i = 0; i < K_DIM; i++) {
                q[i] = d->q[(r * KEY_HEADS + kh) * K_DIM + i];
                k[i] = d->k[(r * KEY_HEADS + kh) * K_DIM + i];
                qq += q[i] * q[i];
                kk += k[i] * k[i];
            }
            double g = exp(a[h] * log1p(exp((double)d->decay[r * HEADS + h])));
            double beta = 1 / (1 + exp(-(double)d->beta[r * HEADS + h]));
            for (int c = 0; c < V_DIM; c++) {
                double seen = 0, o = 0;
                for (int i = 0; i < K_DIM; i++)
                    seen += g * s[i][c] * k[i] / sqrt(kk);
                for (int i = 0; i < K_DIM; i++) {
                    double value = d->v[(r * HEADS + h) * V_DIM + c];
                    s[i][c] = g * s[i][c] + beta * k[i] / sqrt(kk) * (value - seen);
                    o += s[i][c] * q[i] / sqrt(qq);
                }
                assert_true(fabs(o - d->out[(r * HEADS + h) * V_DIM + c]) < 1e-5);
            }
        }
    }
}

static void delta_in_any_parts(void **state)
{
    (void)state;
    static struct delta_data whole, parts;
    static const float a[HEADS] = { -.1f, -.5f, -1, -2, -.01f, -.3f };
    for (int tiled = 0; tiled < 2; tiled++) {
        struct fixture f;
        open_fixture(&f, 1 + tiled);
        struct weight w = weight_of(&f, a, 1, HEADS, false);
        fill((float *)&whole, sizeof whole / 4, 9);
        memset(whole.state, 0, sizeof whole.state);
        parts = whole;
        delta_rows(&f, &whole, &w, tiled, 0, ROWS, 0);
        check_rule(&whole, a, tiled);
        for (int32_t at = 0, n; at < ROWS; at += n) {
            n = MIN(1 + at % 5, ROWS - at);
            delta_rows(&f, &parts, &w, tiled, at, n, 0);
        }
        assert_memory_equal(parts.out, whole.out, sizeof whole.out);
        assert_memory_equal(parts.state, whole.state, sizeof whole.state);
        /* Five rows, three of them guesses: then from the state before them, and behind them. */
        memset(parts.state, 0, sizeof parts.state);
        delta_rows(&f, &parts, &w, tiled, 0, 5, 3);
        memcpy(whole.state[1], parts.state[1], sizeof whole.state[1]);
        delta_rows(&f, &parts, &w, tiled, 2, 3, 0);
        assert_memory_equal(parts.state[0], whole.state[1], sizeof whole.state[1]);
        assert_memory_equal(parts.out, whole.out, sizeof whole.out);
        f.dev->ops->weight_release(f.dev, &w);
        close_fixture(&f);
    }
}

static void bad_shapes_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f, 1);
    float x[64] = { 0 }, y[64], w[32] = { 0 };
    struct weight packed = weight_of(&f, w, 8, 4, true), a = weight_of(&f, w, 1, 2, false);
    struct tensor in = tensor_2d(x, TENSOR_TYPE_F32, 2, 8),
                  out = tensor_2d(y, TENSOR_TYPE_F32, 2, 8);
    set_rows(&f, 2, 0);
    struct causal_conv c = { .w = &packed, .dilation = 1, .state = { (uint8_t *)w, 64 } };
    assert_int_equal(op_causal_conv(&f.step, &out, &in, &c), STATUS_INTERNAL);
    assert_string_equal(f.err.message, "causal_conv: expected a state of 96 bytes, found 64");
    c.dilation = 0;
    assert_int_equal(op_causal_conv(&f.step, &out, &in, &c), STATUS_INTERNAL);
    c.dilation = 1;
    c.state.bytes = 96;
    assert_int_equal(op_causal_conv(&f.step, &in, &in, &c), STATUS_INTERNAL);
    struct tensor heads = tensor_split(&in, 2, 4), three = tensor_split(&in, 4, 2);
    struct tensor each = tensor_2d(x, TENSOR_TYPE_F32, 2, 2), to = tensor_split(&out, 2, 4);
    struct delta_net net = { .q = heads,
                             .k = heads,
                             .v = heads,
                             .decay = each,
                             .beta = each,
                             .a = &a,
                             .a_factor = 1,
                             .scale = 1,
                             .state = { (uint8_t *)w, 127 } };
    assert_int_equal(op_delta_net(&f.step, &to, &net), STATUS_INTERNAL);
    assert_string_equal(f.err.message, "delta_net: expected a state of 128 bytes, found 127");
    net.q = three;
    assert_int_equal(op_delta_net(&f.step, &to, &net), STATUS_INTERNAL);
    assert_string_equal(f.err.message, "delta_net: q: expected F32 [2, 2, 4], found F32 [2, 4, 2]");
    f.dev->ops->weight_release(f.dev, &packed);
    f.dev->ops->weight_release(f.dev, &a);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_is_a_sum),
        cmocka_unit_test(conv_keeps_both_states),
        cmocka_unit_test(delta_is_the_published_rule),
        cmocka_unit_test(delta_in_any_parts),
        cmocka_unit_test(bad_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
