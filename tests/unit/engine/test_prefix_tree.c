/* The prefix tree over a pool of its own: what goes first, and how the host's budget is kept. */
#include "unit/cmocka_setup.h"

#include <math.h>
#include <string.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "cpu/cpu_device.h"
#include "engine/prefix_tree.h"

#define PAGE STATE_PAGE_TOKENS

struct fixture {
    struct device *dev;
    struct state_piece piece;
    struct state_layout layout;
    struct state_pool *pool;
    struct sequence sequence;
    struct prefix_tree tree;
};

static void start(struct fixture *f, int32_t n_pages, int64_t host_pages)
{
    struct cpu_device_options cpu = { .n_threads = 1 };
    struct state_pool_options o = {
        .k_type = TENSOR_TYPE_F16,
        .v_type = TENSOR_TYPE_F16,
        .context = 8 * PAGE,
        .pool_tokens = (int64_t)n_pages * PAGE,
        .n_sequences = 2,
        .batch_tokens = PAGE,
    };
    struct error err = { 0 };
    *f = (struct fixture){ .piece = { .name = "kv", .n_kv_heads = 1, .k_dim = 16, .v_dim = 16 } };
    f->layout = (struct state_layout){ &f->piece, 1 };
    if (cpu_device_new(&cpu, &f->dev, &err) != STATUS_OK ||
        state_pool_new(&f->layout, f->dev, &o, &f->pool, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    sequence_init(&f->sequence, f->pool);
    prefix_tree_init(&f->tree, f->pool, 0);
    prefix_tree_limit(&f->tree, host_pages * f->tree.page_bytes);
}

static void stop(struct fixture *f)
{
    prefix_tree_release(&f->tree);
    assert_int_equal(f->pool->full.n_free, f->pool->full.n_pages);
    sequence_release(&f->sequence);
    state_pool_free(f->pool);
    f->dev->ops->release(f->dev);
}

static void tokens_of(int32_t *out, int32_t n, int32_t name)
{
    for (int32_t i = 0; i < n; i++)
        out[i] = name;
}

/* A finished conversation of n tokens, all of them `name`. */
static void converse(struct fixture *f, int32_t name, int32_t n)
{
    int32_t tokens[8 * PAGE];
    struct error err = { 0 };
    tokens_of(tokens, n, name);
    assert_int_equal(sequence_open(&f->sequence, f->pool, &err), STATUS_OK);
    assert_int_equal(sequence_reserve(&f->sequence, f->pool, n, &err), STATUS_OK);
    sequence_advance(&f->sequence, f->pool, n);
    assert_int_equal(prefix_tree_add_end(&f->tree, tokens, n, &f->sequence, false, &err),
                     STATUS_OK);
    sequence_close(&f->sequence, f->pool);
}

static int32_t known(struct fixture *f, int32_t name, int32_t n)
{
    int32_t tokens[8 * PAGE];
    tokens_of(tokens, n, name);
    return prefix_tree_find(&f->tree, tokens, n).n_tokens;
}

static void use(struct fixture *f, int32_t name, int32_t n)
{
    int32_t tokens[8 * PAGE];
    struct prefix_match match;
    struct error err = { 0 };
    bool from_host;
    tokens_of(tokens, n, name);
    assert_int_equal(sequence_open(&f->sequence, f->pool, &err), STATUS_OK);
    assert_int_equal(prefix_tree_take(&f->tree, tokens, n, &f->sequence, &match, &from_host, &err),
                     STATUS_OK);
    assert_int_equal(match.n_tokens, n);
}

static void rank_is_the_order_of_values(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int i = 0; i < 10000; i++) {
        double used[2], rank[2], now[2] = { 5000, 90000 };
        int32_t tokens[2];
        int64_t bytes[2];
        for (int k = 0; k < 2; k++) {
            seed = seed * 1664525u + 1013904223u;
            used[k] = (seed >> 8) % 5000;
            tokens[k] = 1 + (int32_t)(seed >> 12) % 64;
            bytes[k] = 1000 << (seed >> 28);
            rank[k] = prefix_rank(tokens[k], used[k], bytes[k]);
        }
        for (int k = 0; k < 2 && fabs(rank[0] - rank[1]) > 1e-9; k++) {
            double a = prefix_value(tokens[0], 1e-3, now[k] - used[0], bytes[0]);
            double b = prefix_value(tokens[1], 1e-3, now[k] - used[1], bytes[1]);
            assert_int_equal(a < b, rank[0] < rank[1]);
        }
    }
}

/* Tokens saved x seconds per token x recency / bytes, each term for itself. */
static void each_term_of_a_value(void **state)
{
    (void)state;
    double value = prefix_value(64, 1e-3, 0, 4096);
    assert_true(fabs(value - 64 * 1e-3 / 4096) < 1e-12);
    assert_true(fabs(prefix_value(128, 1e-3, 0, 4096) - 2 * value) < 1e-12);
    assert_true(fabs(prefix_value(64, 2e-3, 0, 4096) - 2 * value) < 1e-12);
    assert_true(fabs(prefix_value(64, 1e-3, 0, 8192) - value / 2) < 1e-12);
    assert_true(fabs(prefix_value(64, 1e-3, 600, 4096) - value / 2) < 1e-12);
    assert_true(prefix_value(64, 1e-3, 1e9, 4096) >= 0);
    assert_true(isfinite(prefix_value(64, 1e-3, 0, 0)));
    assert_true(fabs(prefix_rank(64, 0, 4096) - prefix_rank(64, 0, 8192) - 1) < 1e-9);
    assert_true(fabs(prefix_rank(128, 0, 4096) - prefix_rank(64, 0, 4096) - 1) < 1e-9);
}

static struct prefix_node *least_of(struct prefix_node *node, const double *rank, int n)
{
    struct prefix_node *least = NULL;
    for (int i = 0; i < n; i++) {
        double best = least ? rank[least - node] : INFINITY;
        bool equal = least && rank[i] <= best && rank[i] >= best;
        if (node[i].place[PREFIX_ORDER_HOST] &&
            (rank[i] < best || (equal && node[i].level > least->level)))
            least = &node[i];
    }
    return least;
}

/* Entering, moving and leaving at random, against looking at all of them. */
static void order(void **state)
{
    (void)state;
    enum { N = 50 };
    static struct prefix_node node[N];
    double rank[N] = { 0 };
    struct prefix_order o;
    uint32_t seed = 7;
    prefix_order_init(&o, PREFIX_ORDER_HOST, true);
    for (int i = 0; i < N; i++)
        node[i].level = i;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525u + 1013904223u;
        int which = (int)((seed >> 8) % N);
        if (seed >> 30) {
            rank[which] = (seed >> 16) % 40;
            prefix_order_put(&o, &node[which], rank[which]);
        } else {
            prefix_order_drop(&o, &node[which]);
        }
        assert_ptr_equal(prefix_order_first(&o), least_of(node, rank, N));
    }
    for (int i = 0; i < N; i++)
        prefix_order_drop(&o, &node[i]);
    prefix_order_release(&o);
}

/* Two more conversations than pages take those of the two unused for longest. */
static void longest_unused_first(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 0);
    for (int32_t name = 1; name <= 8; name++)
        converse(&f, name, PAGE);
    use(&f, 1, PAGE);
    sequence_close(&f.sequence, f.pool);
    converse(&f, 9, PAGE);
    converse(&f, 10, PAGE);
    for (int32_t name = 1; name <= 10; name++)
        assert_int_equal(known(&f, name, PAGE), name == 2 || name == 3 ? 0 : PAGE);
    stop(&f);
}

/* What a sequence uses stays, and so does what leads there; of a conversation the end goes. */
static void used_and_inner_pages_stay(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 0);
    struct sequence other;
    struct error err = { 0 };
    converse(&f, 1, 3 * PAGE);
    converse(&f, 2, 5 * PAGE);
    use(&f, 1, 3 * PAGE);
    sequence_init(&other, f.pool);
    assert_int_equal(sequence_open(&other, f.pool, &err), STATUS_OK);
    assert_int_equal(sequence_reserve(&other, f.pool, 5 * PAGE, &err), STATUS_OK);
    assert_int_equal(known(&f, 1, 3 * PAGE), 3 * PAGE);
    assert_int_equal(known(&f, 2, 5 * PAGE), 0);
    sequence_close(&other, f.pool);
    sequence_close(&f.sequence, f.pool);
    assert_int_equal(sequence_open(&other, f.pool, &err), STATUS_OK);
    assert_int_equal(sequence_reserve(&other, f.pool, 6 * PAGE, &err), STATUS_OK);
    assert_int_equal(known(&f, 1, 3 * PAGE), 0); /* a batch of pages goes at once */
    sequence_close(&other, f.pool);
    sequence_release(&other);
    stop(&f);
}

static void host_limit(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 100);
    struct prefix_tree *t = &f.tree;
    for (int32_t name = 1; name <= 40; name++)
        converse(&f, name, PAGE);
    assert_int_equal(t->counts.host_bytes, 32 * t->page_bytes);
    assert_int_equal(t->counts.n_nodes, 40);
    /* A larger budget changes nothing, a smaller one holds at once: the oldest go. */
    prefix_tree_limit(t, 1000 * t->page_bytes);
    assert_int_equal(t->counts.host_bytes, 32 * t->page_bytes);
    prefix_tree_limit(t, 10 * t->page_bytes + 1);
    assert_int_equal(t->counts.host_bytes, 10 * t->page_bytes);
    assert_int_equal(t->counts.dropped_host, 22);
    assert_int_equal(t->counts.n_nodes, 18);
    for (int32_t name = 1; name <= 40; name++)
        assert_int_equal(known(&f, name, PAGE), name <= 22 ? 0 : PAGE);
    /* It goes on holding. */
    converse(&f, 41, PAGE);
    assert_int_equal(t->counts.host_bytes, 10 * t->page_bytes);
    assert_int_equal(known(&f, 23, PAGE), 0);
    /* Less than a page, then nothing: what lies on the device is not concerned. */
    prefix_tree_limit(t, t->page_bytes - 1);
    assert_int_equal(t->counts.host_bytes, 0);
    prefix_tree_limit(t, 0);
    assert_int_equal(t->counts.n_nodes, 8);
    assert_int_equal(known(&f, 41, PAGE), PAGE);
    converse(&f, 42, PAGE);
    assert_int_equal(t->counts.host_bytes, 0);
    assert_int_equal(t->counts.dropped_pages, 1);
    stop(&f);
}

/* What is counted as promised: everything at first, then all but what was ever used. */
static void untouched(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 8, 0);
    int64_t each = f.pool->bytes / 8;
    assert_int_equal(state_pool_untouched(f.pool), 8 * each);
    converse(&f, 1, 2 * PAGE);
    assert_int_equal(state_pool_untouched(f.pool), 6 * each);
    use(&f, 1, 2 * PAGE);
    sequence_close(&f.sequence, f.pool);
    assert_int_equal(state_pool_untouched(f.pool), 6 * each);
    for (int32_t name = 2; name <= 20; name++)
        converse(&f, name, PAGE);
    assert_int_equal(state_pool_untouched(f.pool), 0);
    prefix_tree_release(&f.tree);
    assert_int_equal(state_pool_untouched(f.pool), 0);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_term_of_a_value),
        cmocka_unit_test(rank_is_the_order_of_values),
        cmocka_unit_test(order),
        cmocka_unit_test(longest_unused_first),
        cmocka_unit_test(used_and_inner_pages_stay),
        cmocka_unit_test(host_limit),
        cmocka_unit_test(untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
