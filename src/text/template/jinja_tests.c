/* Tests: what may stand behind `is`. */
#include "text/template/jinja_ast.h"
#include "text/template/jinja_library.h"

#define TEST(name, condition)                                                \
    static struct jv name(struct jinja *r, struct jv self, struct jv *arg)   \
    {                                                                        \
        (void)r;                                                             \
        (void)arg;                                                           \
        return jv_bool(condition);                                           \
    }

TEST(test_defined, self.kind != JV_UNDEFINED)
TEST(test_undefined, self.kind == JV_UNDEFINED)
TEST(test_none, self.kind == JV_NONE)
TEST(test_boolean, self.kind == JV_BOOL)
TEST(test_true, self.kind == JV_BOOL && self.b)
TEST(test_false, self.kind == JV_BOOL && !self.b)
TEST(test_integer, self.kind == JV_INT || self.kind == JV_WIDE)
TEST(test_float, self.kind == JV_FLOAT)
TEST(test_number, jv_is_number(self))
TEST(test_string, self.kind == JV_STRING)
TEST(test_mapping, self.kind == JV_DICT)
TEST(test_iterable, jv_is_iterable(self))
TEST(test_callable, jv_is_callable(self))
TEST(test_escaped, self.kind == JV_STRING && self.s->markup)
TEST(test_same, jv_same(self, arg[0]))
TEST(test_filter, self.kind == JV_STRING && jinja_filter_find(jstr_str(self.s)))
TEST(test_test, self.kind == JV_STRING && jinja_test_find(jstr_str(self.s)))

static struct jv test_sequence(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)r;
    (void)arg;
    return jv_bool(self.kind == JV_UNDEFINED || self.kind == JV_STRING || self.kind == JV_BYTES ||
                   self.kind == JV_LIST || self.kind == JV_TUPLE || self.kind == JV_DICT ||
                   self.kind == JV_RANGE);
}

static struct jv modulo(struct jinja *r, struct jv self, struct jv by, int64_t expected)
{
    JV_TRY(rest, jinja_binary(r, JOP_MOD, self, by));
    bool equal = jv_equal(r, rest, jv_int(expected));
    return jv_bool(equal);
}

static struct jv test_odd(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    return modulo(r, self, jv_int(2), 1);
}

static struct jv test_even(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    return modulo(r, self, jv_int(2), 0);
}

static struct jv test_divisible(struct jinja *r, struct jv self, struct jv *arg)
{
    return modulo(r, self, arg[0], 0);
}

static struct jv test_case(struct jinja *r, struct jv self, const char *what)
{
    JV_TRY(text, jv_to_string(r, self));
    return jv_bool(jtext_is(text.s, what));
}

static struct jv test_lower(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    return test_case(r, self, "lower");
}

static struct jv test_upper(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    return test_case(r, self, "upper");
}

#define COMPARISON(name, op)                                               \
    static struct jv name(struct jinja *r, struct jv self, struct jv *arg) \
    {                                                                      \
        return jinja_compare(r, op, self, arg[0]);                         \
    }

COMPARISON(test_eq, JOP_EQ)
COMPARISON(test_ne, JOP_NE)
COMPARISON(test_lt, JOP_LT)
COMPARISON(test_le, JOP_LE)
COMPARISON(test_gt, JOP_GT)
COMPARISON(test_ge, JOP_GE)
COMPARISON(test_in, JOP_IN)

#define PLAIN(test_name, function) { .name = test_name, .run = function }
#define WITH_ONE(test_name, function) \
    { .name = test_name, .run = function, .n_required = 1, .parameters = { "other" } }

static const struct jinja_callable tests[] = {
    PLAIN("defined", test_defined),
    PLAIN("undefined", test_undefined),
    PLAIN("none", test_none),
    PLAIN("boolean", test_boolean),
    PLAIN("true", test_true),
    PLAIN("false", test_false),
    PLAIN("integer", test_integer),
    PLAIN("float", test_float),
    PLAIN("number", test_number),
    PLAIN("string", test_string),
    PLAIN("mapping", test_mapping),
    PLAIN("iterable", test_iterable),
    PLAIN("sequence", test_sequence),
    PLAIN("callable", test_callable),
    PLAIN("escaped", test_escaped),
    PLAIN("filter", test_filter),
    PLAIN("test", test_test),
    PLAIN("odd", test_odd),
    PLAIN("even", test_even),
    PLAIN("lower", test_lower),
    PLAIN("upper", test_upper),
    { .name = "divisibleby", .run = test_divisible, .n_required = 1, .parameters = { "num" } },
    WITH_ONE("sameas", test_same),
    WITH_ONE("eq", test_eq),
    WITH_ONE("equalto", test_eq),
    WITH_ONE("==", test_eq),
    WITH_ONE("ne", test_ne),
    WITH_ONE("!=", test_ne),
    WITH_ONE("lt", test_lt),
    WITH_ONE("lessthan", test_lt),
    WITH_ONE("<", test_lt),
    WITH_ONE("le", test_le),
    WITH_ONE("<=", test_le),
    WITH_ONE("gt", test_gt),
    WITH_ONE("greaterthan", test_gt),
    WITH_ONE(">", test_gt),
    WITH_ONE("ge", test_ge),
    WITH_ONE(">=", test_ge),
    { .name = "in", .run = test_in, .n_required = 1, .parameters = { "seq" } },
};

const struct jinja_callable *jinja_test_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_SIZE(tests); i++)
        if (str_is(name, tests[i].name))
            return &tests[i];
    return NULL;
}
