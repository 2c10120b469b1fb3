/* Filters that make or take numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/number.h"
#include "text/template/jinja_filters.h"
#include "text/template/jinja_unicode.h"

struct jv filter_abs(struct jinja *r, struct jv self, struct jv *arg)
{
    (void)arg;
    if (self.kind == JV_FLOAT)
        return jv_float(fabs(self.f));
    if (jv_is_integer(self)) {
        __int128 i = jv_integer(self);
        return jv_wide(r, i < 0 ? -i : i);
    }
    return self.kind == JV_UNDEFINED ? jv_undefined_error(r, self)
                                     : jv_fail(r, JINJA_FAILURE_VALUE,
                                               "bad operand type for abs(): '%s'",
                                               jv_type_name(self));
}

/* Digits of an integer as int(text, base) takes them. */
static bool parse_python_int(struct str s, int64_t base, __int128 *out)
{
    s = junicode_strip(s, true, true);
    bool negative = s.len && s.ptr[0] == '-';
    if (s.len && (s.ptr[0] == '-' || s.ptr[0] == '+'))
        s = str_slice(s, 1, s.len);
    if (s.len > 2 && s.ptr[0] == '0') {
        char kind = (char)(s.ptr[1] | 32);
        int64_t named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
        if (named && (base == named || base == 0)) {
            base = named;
            s = str_slice(s, s.ptr[2] == '_' ? 3 : 2, s.len);
        }
    }
    if (base == 0)
        base = 10;
    *out = 0;
    bool digit_before = false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '_' && digit_before && i + 1 < s.len) {
            digit_before = false;
            continue;
        }
        int64_t digit = c >= '0' && c <= '9'               ? c - '0'
                        : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10
                                                             : 99;
        if (digit >= base || __builtin_mul_overflow(*out, (__int128)base, out) ||
            __builtin_add_overflow(*out, (__int128)digit, out))
            return false;
        digit_before = true;
    }
    if (negative)
        *out = -*out;
    return s.len > 0 && digit_before;
}

static bool parse_python_float(struct str s, double *out)
{
    char text[400];
    size_t n = 0;
    s = junicode_strip(s, true, true);
    for (size_t i = 0; i < s.len && n < sizeof text; i++) {
        bool between = i > 0 && i + 1 < s.len && junicode_is_decimal((unsigned char)s.ptr[i - 1]) &&
                       junicode_is_decimal((unsigned char)s.ptr[i + 1]);
        if (s.ptr[i] != '_' || !between)
            text[n++] = s.ptr[i];
    }
    if (n == sizeof text)
        return false;
    struct str number = { text, n };
    if (n && text[0] == '+')
        number = str_slice(number, 1, n);
    if (number_parse_double(number, out))
        return true;
    bool negative = number.len && number.ptr[0] == '-' && number.len == n;
    if (negative)
        number = str_slice(number, 1, number.len);
    char word[16] = "";
    for (size_t i = 0; i < number.len && i < sizeof word - 1; i++)
        word[i] = (char)(number.ptr[i] | 32);
    bool infinite = strcmp(word, "inf") == 0 || strcmp(word, "infinity") == 0;
    *out = (infinite ? (double)INFINITY : (double)NAN) * (negative ? -1 : 1);
    if (infinite || strcmp(word, "nan") == 0)
        return true;
    /* "1.", ".5" and numbers beyond the range of a double */
    char *end = NULL;
    text[MIN(n, sizeof text - 1)] = 0;
    for (size_t i = 0; i < n; i++)
        if (!strchr("0123456789.eE+-", text[i]))
            return false;
    *out = strtod(text, &end);
    return n > 0 && end == text + n;
}

static struct jv int_of_double(struct jinja *r, double d, struct jv fallback)
{
    return fabs(d) < 1e38 ? jv_wide(r, (__int128)d) : fallback;
}

struct jv filter_int(struct jinja *r, struct jv self, struct jv *arg)
{
    struct jv fallback = jarg_given(arg[0]) ? arg[0] : jv_int(0);
    int64_t base = 10;
    if (jarg_given(arg[1])) {
        JV_TRY(ok, jarg_integer(r, arg[1], &base));
    }
    __int128 i;
    double d;
    if (jv_is_integer(self))
        return jv_wide(r, jv_integer(self));
    if (self.kind == JV_FLOAT)
        return int_of_double(r, self.f, fallback);
    if (self.kind == JV_UNDEFINED)
        return jv_undefined_error(r, self);
    if (self.kind != JV_STRING)
        return fallback;
    if (parse_python_int(jstr_str(self.s), base, &i))
        return jv_wide(r, i);
    return parse_python_float(jstr_str(self.s), &d) ? int_of_double(r, d, fallback) : fallback;
}

struct jv filter_float(struct jinja *r, struct jv self, struct jv *arg)
{
    double d;
    if (jv_is_number(self))
        return jv_float(jv_double(self));
    if (self.kind == JV_UNDEFINED)
        return jv_undefined_error(r, self);
    if (self.kind == JV_STRING && parse_python_float(jstr_str(self.s), &d))
        return jv_float(d);
    return jarg_given(arg[0]) ? arg[0] : jv_float(0);
}

/* Halves go to the even neighbour, as in Python. */
static struct jv round_integer(struct jinja *r, __int128 i, int64_t digits)
{
    __int128 unit = 1;
    for (; digits < 0; digits++)
        if (__builtin_mul_overflow(unit, (__int128)10, &unit))
            return jv_int(0);
    __int128 rest = i % unit, base = i - rest;
    if (rest < 0) {
        rest += unit;
        base -= unit;
    }
    bool up = 2 * rest > unit || (2 * rest == unit && (base / unit) % 2);
    return jv_wide(r, up ? base + unit : base);
}

static double round_double(double f, int64_t digits)
{
    char text[400];
    if (!isfinite(f) || digits > 300)
        return f;
    if (digits < 0) {
        double unit = pow(10, (double)-digits), scaled = f / unit;
        return isfinite(unit) ? nearbyint(scaled) * unit : 0.0 * f;
    }
    (void)snprintf(text, sizeof text, "%.*f", (int)MIN(digits, 60), f);
    return strtod(text, NULL);
}

struct jv filter_round(struct jinja *r, struct jv self, struct jv *arg)
{
    int64_t digits = 0;
    struct str method = STR("common");
    if (jarg_given(arg[0])) {
        JV_TRY(ok, jarg_integer(r, arg[0], &digits));
    }
    if (jarg_given(arg[1])) {
        JV_TRY(name, jarg_string(r, arg[1], "round: method"));
        method = jstr_str(name.s);
    }
    if (!jv_is_number(self))
        return self.kind == JV_UNDEFINED ? jv_undefined_error(r, self)
                                         : jv_fail(r, JINJA_FAILURE_VALUE,
                                                   "type %s doesn't define __round__ method",
                                                   jv_type_name(self));
    if (str_is(method, "common")) {
        if (!jv_is_integer(self))
            return jv_float(round_double(self.f, digits));
        return round_integer(r, jv_integer(self), MIN(digits, 0));
    }
    if (!str_is(method, "ceil") && !str_is(method, "floor"))
        return jv_fail(r, JINJA_FAILURE_VALUE, "method must be common, ceil or floor");
    double unit = pow(10, (double)digits), scaled = jv_double(self) * unit;
    return jv_float((str_is(method, "ceil") ? ceil(scaled) : floor(scaled)) / unit);
}

struct jv filter_file_size(struct jinja *r, struct jv self, struct jv *arg)
{
    static const char prefixes[] = "kMGTPEZY";
    bool binary = jarg_given(arg[0]) && jv_truth(arg[0]);
    JV_TRY(size, filter_float(r, self, (struct jv[1]){ jv_none() }));
    if (size.kind == JV_NONE)
        return jv_fail(r, JINJA_FAILURE_VALUE, "filesizeformat: expected a number, got %s",
                       jv_type_name(self));
    double bytes = size.f, base = binary ? 1024 : 1000, unit = base;
    char text[400];
    if (bytes == 1)
        return jv_literal(r, "1 Byte");
    if (bytes < base) {
        (void)snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    } else {
        size_t i = 0;
        while (i < 7 && bytes >= unit * base) {
            unit *= base;
            i++;
        }
        (void)snprintf(text, sizeof text, "%.1f %c%sB", bytes / unit,
                       binary && i == 0 ? 'K' : prefixes[i], binary ? "i" : "");
    }
    struct jbuild b;
    jbuild_init(&b, r, 0);
    jbuild_puts(&b, text, false);
    return jbuild_finish(&b);
}
