/* options: the one table-driven parser of command lines and INGOT_* variables.
 *
 * A command lists its flags in tables (struct option_group); from these tables come parsing,
 * --help, the man page and shell completion, so a flag exists in all of them or in none.
 *
 *     static const struct option rows[] = {
 *         OPT_TEXT("--prompt -p", "TEXT", NULL, "the question"),
 *         OPT_INT("--repeat -r", "N", "1", 1, 100, "how often"),
 *     };
 *     static const struct option_group group = OPTION_GROUP("example", "Example", rows);
 *
 * Spelling: `names` is a blank-separated list; the first is the canonical long flag, the others
 * are silent synonyms. `--flag V` and `--flag=V`; every switch has a `--no-` form; a value may
 * begin with a dash; `--` ends the flags. Precedence: command line, then variable (canonical
 * name in capitals behind INGOT_, `-` as `_`; of a switch also INGOT_NO_), then the table's
 * default.
 *
 * Values are read by canonical name without dashes: options_int(o, "repeat"). Asking for a name
 * that no table of the command has is a bug of ours and traps.
 *
 * Ownership: texts are borrowed from argv, the environment and the tables. Threads: read-only
 * after options_parse, then shared freely. Nothing here prints. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/error.h"
#include "base/strbuf.h"

enum option_kind {
    OPTION_FLAG,    /* switch with a --no- form */
    OPTION_INT,     /* whole number in [min, max], or one of words */
    OPTION_U64,     /* 0 to 2^64-1, or one of words */
    OPTION_REAL,    /* number in [min, max] or, with above_min, (min, max]; or one of words */
    OPTION_SIZE,    /* bytes; suffix K, M, G, T (powers of 1,024), plain numbers in `unit` */
    OPTION_TEXT,    /* any text */
    OPTION_LIST,    /* any text, repeatable */
    OPTION_CHOICE,  /* one of words */
    OPTION_SETS,    /* shorthand: sets the flags listed in `sets` */
    OPTION_IGNORED, /* accepted without effect, one notice; words or value_name: takes a value */
    OPTION_REFUSED, /* known from elsewhere, refused by name; help is the reason */
};

struct option {
    const char *names;
    enum option_kind kind;
    const char *value_name; /* in help: "N", "FILE"; NULL: no value, or words stand for it */
    const char *words;      /* "auto|off": allowed words, separated by bars */
    const char *fallback;   /* default, spelled as on the command line; NULL: unset */
    double min, max;
    bool above_min;         /* min itself is not allowed */
    uint64_t unit;          /* SIZE: what a plain number counts, 1 or 1 << 20 */
    const char *sets;       /* SETS: "a b=V" sets a to the flag's own value and b to V */
    const char *help;       /* one sentence without a final stop */
};

#define OPT_FLAG(names_, fallback_, help_) \
    { .names = names_, .kind = OPTION_FLAG, .fallback = fallback_, .help = help_ }
#define OPT_INT(names_, value_, fallback_, min_, max_, help_)                                    \
    { .names = names_, .kind = OPTION_INT, .value_name = value_, .fallback = fallback_,          \
      .min = min_, .max = max_, .help = help_ }
#define OPT_INT_OR(names_, value_, words_, fallback_, min_, max_, help_)                         \
    { .names = names_, .kind = OPTION_INT, .value_name = value_, .words = words_,                \
      .fallback = fallback_, .min = min_, .max = max_, .help = help_ }
#define OPT_U64_OR(names_, value_, words_, fallback_, help_)                                     \
    { .names = names_, .kind = OPTION_U64, .value_name = value_, .words = words_,                \
      .fallback = fallback_, .help = help_ }
#define OPT_REAL(names_, value_, fallback_, min_, max_, help_)                                   \
    { .names = names_, .kind = OPTION_REAL, .value_name = value_, .fallback = fallback_,         \
      .min = min_, .max = max_, .help = help_ }
#define OPT_REAL_ABOVE(names_, value_, fallback_, min_, max_, help_)                             \
    { .names = names_, .kind = OPTION_REAL, .value_name = value_, .fallback = fallback_,         \
      .min = min_, .max = max_, .above_min = true, .help = help_ }
#define OPT_BYTES(names_, words_, fallback_, help_)                                              \
    { .names = names_, .kind = OPTION_SIZE, .value_name = "BYTES", .words = words_,              \
      .fallback = fallback_, .unit = 1, .help = help_ }
#define OPT_MIB(names_, words_, fallback_, help_)                                                \
    { .names = names_, .kind = OPTION_SIZE, .value_name = "MIB", .words = words_,                \
      .fallback = fallback_, .unit = 1048576, .help = help_ }
#define OPT_TEXT(names_, value_, fallback_, help_)                                               \
    { .names = names_, .kind = OPTION_TEXT, .value_name = value_, .fallback = fallback_,         \
      .help = help_ }
#define OPT_LIST(names_, value_, help_) \
    { .names = names_, .kind = OPTION_LIST, .value_name = value_, .help = help_ }
#define OPT_CHOICE(names_, words_, fallback_, help_)                                             \
    { .names = names_, .kind = OPTION_CHOICE, .words = words_, .fallback = fallback_,            \
      .help = help_ }
#define OPT_SETS(names_, value_, sets_, help_)                                                   \
    { .names = names_, .kind = OPTION_SETS, .value_name = value_, .sets = sets_, .help = help_ }
#define OPT_IGNORED(names_, value_, words_, help_)                                               \
    { .names = names_, .kind = OPTION_IGNORED, .value_name = value_, .words = words_,            \
      .help = help_ }
#define OPT_REFUSED(names_, help_) { .names = names_, .kind = OPTION_REFUSED, .help = help_ }

/* Rows that belong together: one theme of `ingot --help THEME`, one heading elsewhere. */
struct option_group {
    const char *theme;
    const char *title;
    const struct option *rows;
    size_t n_rows;
    bool hidden; /* not in --help, man page and completion: spellings of other programs */
};
#define OPTION_GROUP(theme_, title_, rows_) { theme_, title_, rows_, ARRAY_SIZE(rows_), false }

enum option_source {
    OPTION_UNSET,
    OPTION_DEFAULT,
    OPTION_VARIABLE,
    OPTION_COMMAND_LINE,
};

struct option_value {
    const struct option *row;
    enum option_source source;
    const char *text; /* as given */
    const char *word; /* the allowed word that was given, else NULL */
    bool flag;
    int64_t integer;
    uint64_t number; /* U64; SIZE in bytes */
    double real;
    const char **items; /* LIST */
    size_t n_items, items_capacity;
};

struct options {
    struct option_value *values;
    size_t n_values;
    const char **arguments; /* what is no flag, in order */
    size_t n_arguments, arguments_capacity;
    struct strbuf ignored;  /* ", "-separated flags that were accepted without effect */
    bool help;              /* --help was met; what follows it was not read */
};

/* `groups` ends with NULL. argv holds the arguments only (no program and command name).
 * INVALID: a usage error, with the flag and what it takes in the message. Release in any case. */
MUST_CHECK enum status options_parse(struct options *o, const struct option_group *const *groups,
                                     bool read_variables, int argc, char *const *argv,
                                     struct error *err);
void options_release(struct options *o);

bool options_given(const struct options *o, const char *name); /* by command line or variable */
bool options_set(const struct options *o, const char *name);   /* given, or has a default */
enum option_source options_source(const struct options *o, const char *name);
bool options_flag(const struct options *o, const char *name);  /* false when unset */
int64_t options_int(const struct options *o, const char *name); /* 0 when unset or a word */
uint64_t options_u64(const struct options *o, const char *name);
double options_real(const struct options *o, const char *name);
uint64_t options_bytes(const struct options *o, const char *name);
const char *options_text(const struct options *o, const char *name); /* NULL when unset */
const char *options_word(const struct options *o, const char *name); /* NULL: not a word */
size_t options_count(const struct options *o, const char *name);     /* LIST */
const char *options_item(const struct options *o, const char *name, size_t i);
/* The n-th argument that is no flag; NULL beyond the last. */
const char *options_argument(const struct options *o, size_t n);

/* For help, man page and completion. option_name() copies the i-th of `names`; false: no more. */
bool option_name(const struct option *row, size_t i, struct str *name);
bool option_takes_value(const struct option *row);
/* "INGOT_MAX_TOKENS"; negated, for a switch: "INGOT_NO_MMAP". */
void option_variable_name(const struct option *row, bool negated, struct strbuf *out);

/* The entry of `names` nearest to `wrong`, or an empty text when none is near. */
struct str suggest_nearest(struct str wrong, const struct str *names, size_t n);

#endif
