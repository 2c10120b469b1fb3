/* What a finished conversation costs beside its pages. */
#include "unit/engine/engine_fixture.h"

#include <malloc.h>

#include "engine/engine_internal.h"
#include "engine/scheduler_internal.h"

#define LLAMA "tests/data/golden/llama-base/model.gguf"
#define N_CONVERSATIONS 1000
#define N_WARM 50 /* buffers have grown to their size */
#define N_TOKENS 40
#define BYTES_EACH 1024

static void converse(const struct fixture *f, uint32_t seed)
{
    static struct answer ignored;
    int32_t tokens[N_TOKENS];
    fixture_tokens(f, tokens, N_TOKENS, seed);
    struct request_options o = fixture_request(f, tokens, N_TOKENS, 4);
    fixture_ask(f, &o, &ignored);
}

/* Pages and their copies are not of the heap. */
static int64_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
}

static void conversations_are_small(void **state)
{
    (void)state;
    struct engine_options o = { .device = "cpu", .n_threads = 1, .context = 256,
                                .max_sequences = 2, .no_text = true,
                                .cache_bytes = 256 << 20 };
    struct fixture f = fixture_start(LLAMA, &o);
    const struct prefix_counts *counts = &f.model->scheduler->prefixes.counts;
    for (uint32_t i = 0; i < N_WARM; i++)
        converse(&f, i);
    int64_t before = heap_bytes();
    int64_t nodes = counts->n_nodes;
    for (uint32_t i = 0; i < N_CONVERSATIONS; i++)
        converse(&f, 1000 + i);
    int64_t each = (heap_bytes() - before) / N_CONVERSATIONS;
    assert_int_equal(counts->n_nodes - nodes, N_CONVERSATIONS);
    if (each > BYTES_EACH)
        fail_msg("%lld bytes for each conversation, at most %d", (long long)each, BYTES_EACH);
    print_message("%lld bytes for each conversation\n", (long long)each);
    engine_free(f.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(conversations_are_small) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
