/* bench_run: one measurement of a loaded model: tokens a second of reading or of writing.
 *
 * Reading (n_gen 0): a prompt of n_depth + n_prompt tokens; counted from where n_depth of them are
 * read. Writing (n_gen > 0): n_streams answers side by side, each behind n_depth tokens; counted
 * from where all have begun, for n_streams * n_gen tokens in all.
 * Threads: the caller's; events come from the engine thread. */
#ifndef CLI_BENCH_RUN_H
#define CLI_BENCH_RUN_H

#include "engine/engine.h"

struct bench_test {
    int n_prompt, n_gen, n_depth, n_streams;
};
struct bench_result {
    double average, best, deviation; /* tokens a second */
};

/* Tokens of context that the test needs for each stream. */
int bench_test_context(const struct bench_test *t);
/* "pp512", "tg128 @ d4096", "tg128 x 8" */
void bench_test_name(const struct bench_test *t, char *out, size_t size);
/* `repetitions` runs and one before that is not counted. CANCELLED after Ctrl-C. */
MUST_CHECK enum status bench_run(struct engine *engine, struct engine_model *model,
                                 const struct bench_test *t, int repetitions,
                                 struct bench_result *out, struct error *err);

#endif
