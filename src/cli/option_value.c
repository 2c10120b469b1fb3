#include "cli/option_value.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"

bool option_word_in(const char *words, struct str text)
{
    struct str rest = str_of(words);
    while (rest.len > 0) {
        size_t bar = str_find(rest, STR("|"), 0);
        size_t end = bar == STR_NONE ? rest.len : bar;
        if (str_eq(str_slice(rest, 0, end), text))
            return true;
        rest = bar == STR_NONE ? (struct str){ NULL, 0 } : str_slice(rest, bar + 1, rest.len);
    }
    return false;
}

static enum status refuse(struct str who, const struct option *row, const char *expected,
                          const char *found, struct error *err)
{
    const char *words = row->words ? row->words : "";
    bool several = strchr(words, '|') != NULL;
    const char *separator = *expected && *words ? " or " : "";
    return error_set(err, STATUS_INVALID, "%.*s: expected %s%s%s%s, found \"%s\"", STR_ARG(who),
                     expected, separator, several ? "one of " : "", words, found);
}

static bool read_flag(const char *text, bool *flag)
{
    struct str s = str_of(text);
    *flag = option_word_in("1|on|true|yes", s);
    return *flag || option_word_in("0|off|false|no", s);
}

static enum status read_int(struct option_value *v, struct str who, const char *text,
                            struct error *err)
{
    const struct option *row = v->row;
    int64_t n;
    if (number_parse_i64(str_of(text), &n) && (double)n >= row->min && (double)n <= row->max) {
        v->integer = n;
        return STATUS_OK;
    }
    char expected[96];
    if (row->max >= 9e15)
        snprintf(expected, sizeof(expected), "a whole number of at least %.0f", row->min);
    else
        snprintf(expected, sizeof(expected), "a whole number from %.0f to %.0f", row->min,
                 row->max);
    return refuse(who, row, expected, text, err);
}

static enum status read_real(struct option_value *v, struct str who, const char *text,
                             struct error *err)
{
    const struct option *row = v->row;
    double x;
    if (number_parse_double(str_of(text), &x) && x <= row->max &&
        (row->above_min ? x > row->min : x >= row->min)) {
        v->real = x;
        return STATUS_OK;
    }
    char expected[96];
    if (row->max >= 1e15)
        snprintf(expected, sizeof(expected), "a number %s %g",
                 row->above_min ? "above" : "of at least", row->min);
    else
        snprintf(expected, sizeof(expected), "a number %s %g %s %g",
                 row->above_min ? "above" : "from", row->min,
                 row->above_min ? "and at most" : "to", row->max);
    return refuse(who, row, expected, text, err);
}

static enum status read_size(struct option_value *v, struct str who, const char *text,
                             struct error *err)
{
    struct str s = str_of(text);
    uint64_t unit = v->row->unit, n;
    size_t suffix = s.len > 0 ? str_find(STR("kKmMgGtT"), str_slice(s, s.len - 1, s.len), 0)
                              : STR_NONE;
    if (suffix != STR_NONE) {
        unit = UINT64_C(1024) << (10 * (suffix / 2));
        s.len--;
    }
    if (number_parse_u64(s, &n) && !__builtin_mul_overflow(n, unit, &v->number))
        return STATUS_OK;
    return refuse(who, v->row,
                  v->row->unit > 1 ? "a number of MiB, or a size such as 512M or 8G"
                                   : "a size such as 512M or 8G",
                  text, err);
}

static void add_item(struct option_value *v, const char *text)
{
    void *items = v->items;
    mem_reserve(&items, &v->items_capacity, v->n_items + 1, sizeof(*v->items));
    v->items = items;
    v->items[v->n_items++] = text;
}

static enum status read_kind(struct option_value *v, struct str who, const char *text,
                             struct error *err)
{
    switch (v->row->kind) {
    case OPTION_FLAG:
        return read_flag(text, &v->flag) ? STATUS_OK : refuse(who, v->row, "on or off", text, err);
    case OPTION_INT:
        return read_int(v, who, text, err);
    case OPTION_U64:
        return number_parse_u64(str_of(text), &v->number)
                   ? STATUS_OK
                   : refuse(who, v->row, "a whole number from 0 to 18446744073709551615", text,
                            err);
    case OPTION_REAL:
        return read_real(v, who, text, err);
    case OPTION_SIZE:
        return read_size(v, who, text, err);
    case OPTION_LIST:
        add_item(v, text);
        return STATUS_OK;
    case OPTION_CHOICE:
        return refuse(who, v->row, "", text, err);
    case OPTION_TEXT:
    case OPTION_SETS:
    case OPTION_IGNORED:
    case OPTION_REFUSED:
        break;
    }
    return STATUS_OK;
}

enum status option_value_read(struct option_value *v, struct str who, const char *text,
                              struct error *err)
{
    if (v->row->words && option_word_in(v->row->words, str_of(text))) {
        v->word = v->text = text;
        return STATUS_OK;
    }
    TRY(read_kind(v, who, text, err));
    v->word = NULL;
    v->text = text;
    return STATUS_OK;
}
