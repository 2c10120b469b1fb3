/* What a finished conversation costs beside its pages. */
#include "unit/cmocka_setup.h"

#include <malloc.h>

#include "engine/engine.h"
#include "engine/engine_internal.h"
#include "engine/scheduler_internal.h"

#define LLAMA "tests/data/golden/llama-base/model.gguf"
#define N_CONVERSATIONS 1000
#define N_WARM 50 /* buffers have grown to their size */
#define N_TOKENS 40
#define BYTES_EACH 1024

static int32_t n_vocab_of(const struct engine_model *m)
{
    return engine_model_info(m)->n_vocab;
}

static void converse(struct engine *e, struct engine_model *m, uint32_t seed)
{
    int32_t tokens[N_TOKENS];
    for (int32_t i = 0; i < N_TOKENS; i++) {
        seed = seed * 1664525u + 1013904223u;
        tokens[i] = (int32_t)((seed >> 8) % (uint32_t)n_vocab_of(m));
    }
    struct request_options o = { .model = m, .tokens = tokens, .n_tokens = N_TOKENS,
                                 .sampling = sampling_builtin, .max_tokens = 4,
                                 .ignore_eos = true, .n_logprobs = -1 };
    struct request *r = NULL;
    struct event event = { 0 };
    struct error err;
    if (engine_submit(e, &o, &r, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    while (request_wait(r, &event) && event.kind != EVENT_DONE)
        continue;
    assert_int_not_equal(event.finish, FINISH_ERROR);
    request_drop(r);
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
    struct engine *e;
    struct engine_model *m;
    struct error err;
    if (engine_new(&o, &e, &err) != STATUS_OK || engine_load(e, LLAMA, &m, &err) != STATUS_OK)
        fail_msg("%s", err.message);
    for (uint32_t i = 0; i < N_WARM; i++)
        converse(e, m, i);
    int64_t before = heap_bytes();
    int64_t nodes = m->scheduler->prefixes.counts.n_nodes;
    for (uint32_t i = 0; i < N_CONVERSATIONS; i++)
        converse(e, m, 1000 + i);
    int64_t each = (heap_bytes() - before) / N_CONVERSATIONS;
    assert_int_equal(m->scheduler->prefixes.counts.n_nodes - nodes, N_CONVERSATIONS);
    if (each > BYTES_EACH)
        fail_msg("%lld bytes for each conversation, at most %d", (long long)each, BYTES_EACH);
    print_message("%lld bytes for each conversation\n", (long long)each);
    engine_free(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(conversations_are_small) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
