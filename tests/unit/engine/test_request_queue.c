/* Who is served next: priority, then the client who had least, then the order of arrival; and
 * what a pass of n rows is expected to take. */
#include "unit/cmocka_setup.h"

#include "base/compiler.h"
#include "base/mem.h"
#include "engine/pass_cost.h"
#include "engine/request.h"
#include "engine/request_queue.h"

static struct request *waiting(struct request_queue *q, char *client, int priority)
{
    struct request *r = mem_new(struct request);
    r->client = client;
    r->options.priority = priority;
    request_queue_add(q, r);
    return r;
}

static struct request *take(struct request_queue *q)
{
    struct request *r = request_queue_next(q);
    request_queue_remove(q, r);
    return r;
}

static void finish(struct request_queue *q, struct request *r)
{
    request_queue_forget(q, r);
    mem_free(r);
}

static void one_client_in_order(void **state)
{
    (void)state;
    struct request_queue q = { 0 };
    struct request *r[3];
    for (int i = 0; i < 3; i++)
        r[i] = waiting(&q, "a", 5);
    assert_ptr_equal(take(&q), r[0]);
    request_queue_add(&q, r[0]); /* had to make room: its number keeps its place */
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(take(&q), r[i]);
    assert_null(request_queue_next(&q));
    for (int i = 0; i < 3; i++)
        finish(&q, r[i]);
    request_queue_release(&q);
}

static void priority_first(void **state)
{
    (void)state;
    struct request_queue q = { 0 };
    struct request *five = waiting(&q, "a", 5), *nine = waiting(&q, "a", 9);
    struct request *none = waiting(&q, NULL, 0);
    assert_ptr_equal(take(&q), nine);
    assert_ptr_equal(take(&q), five);
    assert_ptr_equal(take(&q), none);
    finish(&q, five);
    finish(&q, nine);
    finish(&q, none);
    request_queue_release(&q);
}

/* A thousand requests of one client, then one of another: it is next but one. */
static void a_crowd_starves_nobody(void **state)
{
    (void)state;
    enum { CROWD = 1000 };
    struct request_queue q = { 0 };
    struct request *crowd[CROWD];
    for (int i = 0; i < CROWD; i++)
        crowd[i] = waiting(&q, "crowd", 5);
    struct request *served = take(&q);
    fair_share_charge(served->account, 100);
    struct request *single = waiting(&q, "single", 5);
    /* He starts level with the crowd, so the older request goes first: once. */
    assert_int_equal(single->account->served, 100);
    struct request *second = take(&q);
    assert_ptr_equal(second, crowd[1]);
    fair_share_charge(second->account, 100);
    assert_ptr_equal(take(&q), single);
    finish(&q, single);
    finish(&q, crowd[0]);
    finish(&q, crowd[1]);
    for (int i = 2; i < CROWD; i++) {
        struct request *r = take(&q);
        assert_ptr_equal(r, crowd[i]);
        finish(&q, r);
    }
    request_queue_release(&q);
}

static void equal_shares(void **state)
{
    (void)state;
    struct request_queue q = { 0 };
    struct request *r[40];
    for (int i = 0; i < 40; i++)
        r[i] = waiting(&q, i < 20 ? "a" : "b", 5);
    int64_t a = 0, b = 0;
    for (int i = 0; i < 20; i++) {
        struct request *next = take(&q);
        bool of_a = next->client[0] == 'a';
        int32_t rows = of_a ? 300 : 100; /* a's requests are three times as long */
        fair_share_charge(next->account, rows);
        *(of_a ? &a : &b) += rows;
    }
    assert_in_range(a, b - 300, b + 300);
    while (q.n > 0)
        take(&q);
    for (int i = 0; i < 40; i++)
        finish(&q, r[i]);
    request_queue_release(&q);
}

/* Connections come and go: their accounts do not pile up. */
static void accounts_are_forgotten(void **state)
{
    (void)state;
    struct request_queue q = { 0 };
    char name[16];
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "%d", i);
        finish(&q, (waiting(&q, name, 5), take(&q)));
    }
    int n = 0;
    for (struct fair_account *a = q.share.first; a; a = a->next)
        n++;
    assert_in_range(n, 1, 300);
    request_queue_release(&q);
}

static void cost_of_a_pass(void **state)
{
    (void)state;
    struct pass_cost c = { 0 };
    assert_true(pass_cost_seconds(&c, 10) == 0);
    for (int i = 0; i < 100; i++) {
        pass_cost_note(&c, 1, 0.007);
        pass_cost_note(&c, 100, 0.107);
    }
    assert_float_equal(pass_cost_seconds(&c, 1), 0.007, 1e-6);
    assert_float_equal(pass_cost_seconds(&c, 50.5), 0.057, 1e-6);
    assert_float_equal(pass_cost_seconds(&c, 200), 0.214, 1e-6);
    pass_cost_note(&c, 1, 5.0); /* the machine stalled */
    assert_true(pass_cost_seconds(&c, 1) < 0.01);
    for (int i = 0; i < 100; i++)
        pass_cost_note(&c, 1, 0.014);
    assert_float_equal(pass_cost_seconds(&c, 1), 0.014, 1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_client_in_order),    cmocka_unit_test(priority_first),
        cmocka_unit_test(a_crowd_starves_nobody), cmocka_unit_test(equal_shares),
        cmocka_unit_test(accounts_are_forgotten), cmocka_unit_test(cost_of_a_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
