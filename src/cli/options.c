#include "cli/options.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/option_value.h"

/* What matched a spelling: the value's index and whether the `--no-` form was used. */
struct match {
    size_t index;
    bool negated;
};

bool option_name(const struct option *row, size_t i, struct str *name)
{
    const char *at = row->names;
    for (; i > 0; i--) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    *name = (struct str){ at, strcspn(at, " ") };
    return name->len > 0;
}

bool option_takes_value(const struct option *row)
{
    return row->kind != OPTION_FLAG && row->kind != OPTION_REFUSED &&
           (row->value_name || row->words);
}

void option_variable_name(const struct option *row, bool negated, struct strbuf *out)
{
    struct str name;
    option_name(row, 0, &name);
    strbuf_puts(out, negated ? "INGOT_NO_" : "INGOT_");
    for (size_t i = 2; i < name.len; i++)
        strbuf_putc(out, name.ptr[i] == '-' ? '_' : (char)toupper((unsigned char)name.ptr[i]));
}

static bool matches_negated(struct str name, struct str given)
{
    return str_starts(given, STR("--no-")) && str_starts(name, STR("--")) &&
           str_eq(str_slice(given, 5, given.len), str_slice(name, 2, name.len));
}

static bool find_match(const struct options *o, struct str given, struct match *m)
{
    for (size_t i = 0; i < o->n_values; i++) {
        const struct option *row = o->values[i].row;
        struct str name;
        for (size_t k = 0; option_name(row, k, &name); k++) {
            bool negated = row->kind == OPTION_FLAG && matches_negated(name, given);
            if (negated || str_eq(name, given)) {
                *m = (struct match){ i, negated };
                return true;
            }
        }
    }
    return false;
}

/* Canonical name without dashes to its value; rows of a kind without values never match. */
static struct option_value *find_canonical(const struct options *o, struct str canonical)
{
    for (size_t i = 0; i < o->n_values; i++) {
        struct str name;
        option_name(o->values[i].row, 0, &name);
        if (name.len > 2 && str_eq(str_slice(name, 2, name.len), canonical) &&
            o->values[i].row->kind < OPTION_SETS)
            return &o->values[i];
    }
    return NULL;
}

/* Levenshtein distance of two short texts. */
static size_t distance(struct str a, struct str b)
{
    size_t row[64];
    if (a.len >= 64 || b.len >= 64)
        return 64;
    for (size_t j = 0; j <= b.len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.len; j++) {
            size_t above = row[j];
            size_t replace = diagonal + (a.ptr[i - 1] != b.ptr[j - 1]);
            row[j] = MIN(replace, MIN(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[b.len];
}

struct str suggest_nearest(struct str wrong, const struct str *names, size_t n)
{
    struct str best = { NULL, 0 };
    size_t limit = MAX((size_t)2, wrong.len / 3) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(wrong, names[i]);
        /* "--temp" is meant by "--tem": a common beginning counts as near. */
        if (wrong.len >= 4 && str_starts(names[i], wrong))
            d = MIN(d, (size_t)2);
        if (d < limit) {
            limit = d;
            best = names[i];
        }
    }
    return best;
}

static enum status unknown_flag(const struct options *o, struct str given, struct error *err)
{
    struct str *names = NULL;
    size_t n = 0, capacity = 0;
    for (size_t i = 0; i < o->n_values; i++) {
        struct str name;
        for (size_t k = 0; option_name(o->values[i].row, k, &name); k++) {
            if (o->values[i].row->kind >= OPTION_IGNORED)
                continue;
            void *items = names;
            mem_reserve(&items, &capacity, n + 1, sizeof(*names));
            names = items;
            names[n++] = name;
        }
    }
    struct str near = suggest_nearest(given, names, n);
    mem_free(names);
    if (near.len > 0)
        return error_set(err, STATUS_INVALID, "unknown flag %.*s; did you mean %.*s?",
                         STR_ARG(given), STR_ARG(near));
    return error_set(err, STATUS_INVALID, "unknown flag %.*s; see --help", STR_ARG(given));
}

static void add_argument(struct options *o, const char *text)
{
    void *items = o->arguments;
    mem_reserve(&items, &o->arguments_capacity, o->n_arguments + 1, sizeof(*o->arguments));
    o->arguments = items;
    o->arguments[o->n_arguments++] = text;
}

static enum status set_value(struct option_value *v, struct str who, const char *text,
                             enum option_source source, struct error *err)
{
    TRY(option_value_read(v, who, text, err));
    v->source = source;
    return STATUS_OK;
}

/* Applies a shorthand; the tables are ours, so an unknown target is a bug. The value behind "="
 * runs to the end of the list, so only the last target carries one. */
static enum status apply_sets(struct options *o, const struct option *row, struct str who,
                              const char *text, struct error *err)
{
    struct option targets = { .names = row->sets };
    struct str target;
    for (size_t k = 0; option_name(&targets, k, &target); k++) {
        size_t equals = str_find(target, STR("="), 0);
        const char *value = text;
        if (equals != STR_NONE) {
            value = target.ptr + equals + 1;
            target.len = equals;
        }
        struct option_value *v = find_canonical(o, target);
        CHECK(v != NULL && value != NULL);
        TRY(set_value(v, who, value, OPTION_COMMAND_LINE, err));
    }
    return STATUS_OK;
}

static enum status note_ignored(struct options *o, struct str given)
{
    if (o->ignored.len > 0)
        strbuf_puts(&o->ignored, ", ");
    strbuf_add(&o->ignored, given);
    return STATUS_OK;
}

/* An ignored flag of another program may take a word only sometimes ("--flash-attn on"). */
static bool wants_next(const struct option *row, const char *next)
{
    if (row->kind == OPTION_IGNORED && !row->value_name)
        return row->words && next && option_word_in(row->words, str_of(next));
    return option_takes_value(row);
}

/* Reads the flag at argv[*i]; moves *i past a value that stands in the next argument. */
static enum status read_flag_argument(struct options *o, int argc, char *const *argv, int *i,
                                      struct error *err)
{
    struct str given = str_of(argv[*i]);
    const char *text = NULL;
    size_t equals = str_find(given, STR("="), 0);
    if (equals != STR_NONE) {
        text = given.ptr + equals + 1;
        given.len = equals;
    }
    struct match m;
    if (!find_match(o, given, &m))
        return unknown_flag(o, given, err);
    struct option_value *v = &o->values[m.index];
    const struct option *row = v->row;

    if (row->kind == OPTION_REFUSED)
        return error_set(err, STATUS_INVALID, "%.*s is refused: %s", STR_ARG(given), row->help);
    if (row->kind == OPTION_FLAG) {
        if (text && m.negated)
            return error_set(err, STATUS_INVALID, "%.*s takes no value", STR_ARG(given));
        return set_value(v, given,
                         text        ? text
                         : m.negated ? "off"
                                     : "on",
                         OPTION_COMMAND_LINE, err);
    }
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    if (!text && wants_next(row, next)) {
        if (!next)
            return error_set(err, STATUS_INVALID, "%.*s needs a value (%s)", STR_ARG(given),
                             row->value_name ? row->value_name : row->words);
        text = next;
        ++*i;
    }
    if (row->kind == OPTION_IGNORED)
        return note_ignored(o, given);
    if (row->kind == OPTION_SETS)
        return apply_sets(o, row, given, text, err);
    return set_value(v, given, text, OPTION_COMMAND_LINE, err);
}

static enum status read_arguments(struct options *o, int argc, char *const *argv, struct error *err)
{
    bool flags = true;
    for (int i = 0; i < argc && !o->help; i++) {
        struct str given = str_of(argv[i]);
        if (flags && str_is(given, "--"))
            flags = false;
        else if (flags && (str_is(given, "--help") || str_is(given, "-h")))
            o->help = true;
        else if (flags && given.len > 1 && given.ptr[0] == '-')
            TRY(read_flag_argument(o, argc, argv, &i, err));
        else
            add_argument(o, argv[i]);
    }
    return STATUS_OK;
}

static enum status read_variable(struct option_value *v, struct error *err)
{
    struct strbuf name;
    strbuf_init(&name, 256);
    enum status s = STATUS_OK;
    bool is_switch = v->row->kind == OPTION_FLAG;
    for (int negated = is_switch; negated >= 0 && s == STATUS_OK; negated--) {
        strbuf_clear(&name);
        option_variable_name(v->row, negated, &name);
        const char *text = getenv(name.ptr);
        if (!text || !*text)
            continue;
        s = set_value(v, strbuf_str(&name), text, OPTION_VARIABLE, err);
        if (negated)
            v->flag = !v->flag;
    }
    strbuf_release(&name);
    return s;
}

static enum status fill_unset(struct options *o, bool read_variables, struct error *err)
{
    for (size_t i = 0; i < o->n_values; i++) {
        struct option_value *v = &o->values[i];
        struct str name;
        option_name(v->row, 0, &name);
        bool has_value = v->row->kind < OPTION_SETS;
        if (v->source == OPTION_UNSET && has_value && read_variables && str_starts(name, STR("--")))
            TRY(read_variable(v, err));
        if (v->source == OPTION_UNSET && has_value && v->row->fallback)
            TRY(set_value(v, name, v->row->fallback, OPTION_DEFAULT, err));
    }
    return STATUS_OK;
}

enum status options_parse(struct options *o, const struct option_group *const *groups,
                          bool read_variables, int argc, char *const *argv, struct error *err)
{
    *o = (struct options){ 0 };
    strbuf_init(&o->ignored, 4096);
    for (size_t g = 0; groups[g]; g++)
        o->n_values += groups[g]->n_rows;
    o->values = mem_array(struct option_value, o->n_values);
    size_t at = 0;
    for (size_t g = 0; groups[g]; g++)
        for (size_t i = 0; i < groups[g]->n_rows; i++)
            o->values[at++].row = &groups[g]->rows[i];
    TRY(read_arguments(o, argc, argv, err));
    return o->help ? STATUS_OK : fill_unset(o, read_variables, err);
}

void options_release(struct options *o)
{
    for (size_t i = 0; i < o->n_values; i++)
        mem_free(o->values[i].items);
    mem_free(o->values);
    mem_free(o->arguments);
    strbuf_release(&o->ignored);
    *o = (struct options){ 0 };
}

static const struct option_value *get(const struct options *o, const char *name)
{
    const struct option_value *v = find_canonical(o, str_of(name));
    CHECK(v != NULL);
    return v;
}

enum option_source options_source(const struct options *o, const char *name)
{
    return get(o, name)->source;
}

bool options_given(const struct options *o, const char *name)
{
    return get(o, name)->source >= OPTION_VARIABLE;
}

bool options_set(const struct options *o, const char *name)
{
    return get(o, name)->source != OPTION_UNSET;
}

bool options_flag(const struct options *o, const char *name)
{
    return get(o, name)->flag;
}

int64_t options_int(const struct options *o, const char *name)
{
    const struct option_value *v = get(o, name);
    return v->word ? 0 : v->integer;
}

uint64_t options_u64(const struct options *o, const char *name)
{
    const struct option_value *v = get(o, name);
    return v->word ? 0 : v->number;
}

double options_real(const struct options *o, const char *name)
{
    const struct option_value *v = get(o, name);
    return v->word ? 0 : v->real;
}

uint64_t options_bytes(const struct options *o, const char *name)
{
    return options_u64(o, name);
}

const char *options_text(const struct options *o, const char *name)
{
    return get(o, name)->text;
}

const char *options_word(const struct options *o, const char *name)
{
    return get(o, name)->word;
}

size_t options_count(const struct options *o, const char *name)
{
    return get(o, name)->n_items;
}

const char *options_item(const struct options *o, const char *name, size_t i)
{
    const struct option_value *v = get(o, name);
    CHECK(i < v->n_items);
    return v->items[i];
}

const char *options_argument(const struct options *o, size_t n)
{
    return n < o->n_arguments ? o->arguments[n] : NULL;
}
