#include "cli/bench_compare.h"

#include <stdio.h>

#include "base/json.h"

#define MAX_RESULT_BYTES ((size_t)16 << 20)

static double number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static bool has_rate(const json_t *row)
{
    return json_is_string(json_object_get(row, "test")) && number(row, "avg_ts") > 0 &&
           number(row, "best_ts") > 0;
}

static enum status read_results(const char *path, json_t **out, struct error *err)
{
    TRY(json_parse_file(path, MAX_RESULT_BYTES, JSON_STRICT_UTF8, out, err));
    size_t i, n = 0;
    json_t *row;
    json_array_foreach(*out, i, row)
        n += has_rate(row);
    if (n > 0)
        return STATUS_OK;
    json_decref(*out);
    *out = NULL;
    return error_set(err, STATUS_INVALID, "%s: expected the array of results of bench --json, "
                     "found no test with avg_ts and best_ts", path);
}

static const json_t *find(const json_t *rows, const json_t *like)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
        if (has_rate(row) &&
            json_equal(json_object_get(row, "test"), json_object_get(like, "test")) &&
            number(row, "threads") == number(like, "threads"))
            return row;
    return NULL;
}

static void tell_missing(const struct options *o, const json_t *rows, const json_t *others,
                         const char *path)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)(uintptr_t)rows, i, row)
        if (has_rate(row) && !find(others, row))
            cli_note(o, "%s, %d threads: only in %s",
                     json_string_value(json_object_get(row, "test")), (int)number(row, "threads"),
                     path);
}

static json_t *pair_up(const json_t *a, const json_t *b)
{
    json_t *pairs = json_array(), *row;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)a, i, row) {
        const json_t *other = has_rate(row) ? find(b, row) : NULL;
        if (!other)
            continue;
        double before = number(row, "avg_ts"), after = number(other, "avg_ts");
        json_array_append_new(
            pairs, json_pack("{s:O, s:i, s:f, s:f, s:f, s:f}", "test", json_object_get(row, "test"),
                             "threads", (int)number(row, "threads"), "a_ts", before, "b_ts", after,
                             "ratio", after / before, "best_ratio",
                             number(other, "best_ts") / number(row, "best_ts")));
    }
    return pairs;
}

static void print_table(const json_t *pairs)
{
    size_t i;
    json_t *row;
    printf("%-24s %7s %12s %12s %7s %7s\n", "test", "threads", "A tokens/s", "B tokens/s", "B/A",
           "best");
    json_array_foreach((json_t *)(uintptr_t)pairs, i, row)
        printf("%-24s %7d %12.2f %12.2f %7.3f %7.3f\n",
               json_string_value(json_object_get(row, "test")), (int)number(row, "threads"),
               number(row, "a_ts"), number(row, "b_ts"), number(row, "ratio"),
               number(row, "best_ratio"));
}

enum status bench_compare(const struct options *o, const char *path_a, const char *path_b,
                          struct error *err)
{
    json_t *a, *b = NULL;
    TRY(read_results(path_a, &a, err));
    enum status s = read_results(path_b, &b, err);
    json_t *pairs = s == STATUS_OK ? pair_up(a, b) : NULL;
    if (s == STATUS_OK && json_array_size(pairs) == 0)
        s = error_set(err, STATUS_INVALID, "%s and %s have no test with the same name and number "
                      "of threads", path_a, path_b);
    if (s == STATUS_OK) {
        tell_missing(o, a, b, path_a);
        tell_missing(o, b, a, path_b);
        if (options_flag(o, "json"))
            cli_print_json(json_incref(pairs));
        else
            print_table(pairs);
    }
    json_decref(pairs);
    json_decref(a);
    json_decref(b);
    return s;
}
