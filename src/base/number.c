#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

static bool parse_digits(struct str s, uint64_t *out)
{
    uint64_t value = 0;
    if (s.len == 0)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(s.ptr[i] - '0'), &value))
            return false;
    }
    *out = value;
    return true;
}

bool number_parse_u64(struct str s, uint64_t *out)
{
    if (s.len && s.ptr[0] == '+')
        s = str_slice(s, 1, s.len);
    return parse_digits(s, out);
}

bool number_parse_i64(struct str s, int64_t *out)
{
    uint64_t magnitude;
    bool negative = s.len && s.ptr[0] == '-';
    if (s.len && (negative || s.ptr[0] == '+'))
        s = str_slice(s, 1, s.len);
    if (!parse_digits(s, &magnitude) || magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

static size_t count_digits(struct str s, size_t from)
{
    size_t n = 0;
    while (from + n < s.len && s.ptr[from + n] >= '0' && s.ptr[from + n] <= '9')
        n++;
    return n;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or behind the point. */
static bool is_decimal(struct str s)
{
    size_t i = s.len && (s.ptr[0] == '-' || s.ptr[0] == '+');
    size_t whole = count_digits(s, i), fraction = 0;
    i += whole;
    if (i < s.len && s.ptr[i] == '.') {
        fraction = count_digits(s, i + 1);
        i += 1 + fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (i < s.len && (s.ptr[i] == 'e' || s.ptr[i] == 'E')) {
        i++;
        if (i < s.len && (s.ptr[i] == '-' || s.ptr[i] == '+'))
            i++;
        size_t exponent = count_digits(s, i);
        if (exponent == 0)
            return false;
        i += exponent;
    }
    return i == s.len;
}

bool number_parse_double(struct str s, double *out)
{
    if (!is_decimal(s))
        return false;
    char small[64];
    char *text = s.len < sizeof(small) ? small : mem_alloc(s.len + 1);
    memcpy(text, s.ptr, s.len);
    text[s.len] = 0;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a constant object in glibc */
    double value = strtod_l(text, NULL, plain);
    freelocale(plain);
    if (text != small)
        mem_free(text);
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

/* The significant digits of value > 0 at `precision`, and its decimal exponent. The decimal
 * point, whatever the locale makes of it, is skipped. */
static size_t digits_of(double value, int precision, char digits[32], int *exponent)
{
    char text[64];
    snprintf(text, sizeof(text), "%.*e", precision - 1, value);
    size_t n = 0;
    const char *p = text;
    for (; *p && *p != 'e'; p++) {
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    }
    *exponent = *p ? (int)strtol(p + 1, NULL, 10) : 0;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = 0;
    return n;
}

static bool reads_back(double value, const char *digits, size_t n, int exponent)
{
    char text[64];
    double again;
    int length = snprintf(text, sizeof(text), "%.*se%d", (int)n, digits,
                          exponent - (int)n + 1);
    return number_parse_double((struct str){ text, (size_t)length }, &again) && again == value;
}

void number_put_double(struct strbuf *out, double value)
{
    if (isnan(value)) {
        strbuf_puts(out, "nan");
        return;
    }
    if (signbit(value))
        strbuf_putc(out, '-');
    value = fabs(value);
    if (isinf(value) || value == 0) {
        strbuf_puts(out, isinf(value) ? "inf" : "0.0");
        return;
    }
    char digits[32];
    int exponent;
    size_t n = 0;
    /* Normal numbers hold 15 digits; subnormal ones may need fewer. */
    for (int precision = value < 2.2250738585072014e-308 ? 1 : 15; precision <= 17; precision++) {
        n = digits_of(value, precision, digits, &exponent);
        if (reads_back(value, digits, n, exponent))
            break;
    }
    if (exponent < -4 || exponent >= 16) {
        strbuf_putc(out, digits[0]);
        if (n > 1) {
            strbuf_putc(out, '.');
            strbuf_append(out, digits + 1, n - 1);
        }
        strbuf_printf(out, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) {
        strbuf_puts(out, "0.");
        for (int i = -1; i > exponent; i--)
            strbuf_putc(out, '0');
        strbuf_append(out, digits, n);
        return;
    }
    for (int i = 0; i <= exponent; i++)
        strbuf_putc(out, (size_t)i < n ? digits[i] : '0');
    strbuf_putc(out, '.');
    if (n > (size_t)exponent + 1)
        strbuf_append(out, digits + exponent + 1, n - (size_t)exponent - 1);
    else
        strbuf_putc(out, '0');
}
