#include "text/template/jinja_spec.h"

#include <math.h>
#include <stdio.h>

#include "base/number.h"

struct jv jspec_fault(struct jinja *r, const char *why, char type)
{
    return type ? jv_fail(r, JINJA_FAILURE_VALUE, "%s: '%c'", why, type)
                : jv_fail(r, JINJA_FAILURE_VALUE, "%s", why);
}

static void put_padded(struct jbuild *b, const struct jspec *spec, const struct jstr *text,
                       size_t n_chars, char default_align)
{
    size_t width = spec->width > 0 ? (size_t)spec->width : 0;
    size_t missing = width > n_chars ? width - n_chars : 0;
    char align = spec->align ? spec->align : default_align;
    size_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    uint32_t fill = spec->fill ? spec->fill : ' ';
    for (size_t i = 0; i < left && !b->failed; i++)
        jbuild_char(b, fill, false);
    jbuild_str(b, text);
    for (size_t i = left; i < missing && !b->failed; i++)
        jbuild_char(b, fill, false);
}

/* digits of a non-negative integer in a base, into the end of the buffer; returns the start. */
static size_t base_digits(unsigned __int128 value, unsigned base, bool upper, char *out, size_t end)
{
    const char *set = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    do {
        out[--end] = set[(unsigned)(value % base)];
        value /= base;
    } while (value);
    return end;
}

#define NUMBER_BYTES 640

static size_t float_digits(double f, const struct jspec *spec, char *out, size_t size)
{
    char type = spec->type ? spec->type : 'g';
    int precision = spec->precision < 0 ? 6 : MIN(spec->precision, 300);
    char format[16];
    bool percent = type == '%';
    (void)snprintf(format, sizeof format, "%%%s.*%c", spec->alternate ? "#" : "",
                   percent ? 'f' : type == 'n' ? 'g' : type);
    int n = snprintf(out, size, format, precision, fabs(percent ? f * 100 : f));
    size_t len = n > 0 ? MIN((size_t)n, size - 2) : 0;
    if (percent)
        out[len++] = '%';
    return len;
}

/* Sign and prefix, zeros up to the width, digits with their grouping. */
static void put_number(struct jbuild *b, const struct jspec *spec, bool negative,
                       const char *prefix, const char *digits, size_t n)
{
    struct jbuild text;
    jbuild_init(&text, b->r, 0);
    char sign[2] = { negative ? '-' : spec->sign == '-' ? 0 : spec->sign, 0 };
    jbuild_puts(&text, sign, false);
    jbuild_puts(&text, prefix, false);
    size_t whole = 0;
    while (whole < n && digits[whole] != '.' && digits[whole] != 'e' && digits[whole] != 'E' &&
           digits[whole] != '%')
        whole++;
    unsigned group = spec->type == 'x' || spec->type == 'X' || spec->type == 'b' ||
                             spec->type == 'o'
                         ? 4
                         : 3;
    size_t width = spec->width > 0 ? (size_t)spec->width : 0;
    bool zeros = spec->zero && (!spec->align || spec->align == '=');
    size_t used = text.len + n, pad = zeros && width > used ? width - used : 0;
    if (spec->grouping) {
        pad = 0;
        while (zeros && used + pad + (whole + pad - 1) / group < width)
            pad++;
    }
    for (size_t i = 0; i < pad + whole && !text.failed; i++) {
        if (spec->grouping && i && (pad + whole - i) % group == 0)
            jbuild_bytes(&text, &spec->grouping, 1, false);
        jbuild_bytes(&text, i < pad ? "0" : digits + i - pad, 1, false);
    }
    jbuild_bytes(&text, digits + whole, n - whole, false);
    struct jv v = jbuild_finish(&text);
    if (JV_IS_FAILURE(v)) {
        b->failed = true;
        return;
    }
    struct jspec outer = *spec;
    if (outer.align == '=')
        outer.align = '>';
    put_padded(b, &outer, v.s, v.s->len, '>');
}

struct jv jspec_integer(struct jbuild *b, const struct jspec *spec, struct jv v)
{
    char digits[140];
    __int128 i = jv_integer(v);
    unsigned __int128 size = i < 0 ? -(unsigned __int128)i : (unsigned __int128)i;
    unsigned base = spec->type == 'x' || spec->type == 'X' ? 16
                    : spec->type == 'o'                    ? 8
                    : spec->type == 'b'                    ? 2
                                                           : 10;
    size_t start = base_digits(size, base, spec->type == 'X', digits, sizeof digits);
    char prefix[3] = { '0', spec->type, 0 };
    put_number(b, spec, i < 0, spec->alternate && base != 10 ? prefix : "", digits + start,
               sizeof digits - start);
    return jv_none();
}

struct jv jspec_float(struct jbuild *b, const struct jspec *spec, double f)
{
    char digits[NUMBER_BYTES];
    size_t n;
    if (!spec->type && spec->precision < 0) {
        struct strbuf text;
        strbuf_init(&text, 64);
        number_put_double(&text, fabs(f));
        n = MIN(text.len, sizeof digits);
        memcpy(digits, text.ptr, n);
        strbuf_release(&text);
    } else {
        n = float_digits(f, spec, digits, sizeof digits);
        /* Without a type the shortest form keeps one digit behind the point. */
        if (!spec->type && !memchr(digits, '.', n) && !memchr(digits, 'e', n) && isfinite(f)) {
            digits[n++] = '.';
            digits[n++] = '0';
        }
    }
    put_number(b, spec, signbit(f) && !isnan(f), "", digits, n);
    return jv_none();
}

struct jv jspec_text(struct jbuild *b, const struct jspec *spec, struct jstr *s)
{
    size_t n_chars = jstr_chars(s);
    if (spec->precision >= 0 && (size_t)spec->precision < n_chars) {
        n_chars = (size_t)spec->precision;
        JV_TRY(cut, jv_slice(b->r, s, 0, jstr_offset(s, n_chars)));
        s = cut.s;
    }
    put_padded(b, spec, s, n_chars, '<');
    return jv_none();
}
