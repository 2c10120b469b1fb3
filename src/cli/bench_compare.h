/* bench_compare: two results of `bench --json` side by side, one ratio a test.
 *
 * Tests belong together when name and number of threads are equal. Rows without a rate (those of
 * --peak) are left out; a test that only one file holds is told. Threads: the main thread. */
#ifndef CLI_BENCH_COMPARE_H
#define CLI_BENCH_COMPARE_H

#include "cli/cli.h"

/* Prints a table, or under --json one array of {test, threads, a_ts, b_ts, ratio, best_ratio}.
 * A ratio above 1: the second file is faster. */
MUST_CHECK enum status bench_compare(const struct options *o, const char *path_a,
                                     const char *path_b, struct error *err);

#endif
