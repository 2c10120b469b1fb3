#include "text/template/jinja_unicode.h"

#include <utf8proc.h>

#include "base/compiler.h"
#include "base/utf8.h"
#include "text/template/jinja_casing.h"

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c);
}

bool junicode_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool junicode_is_alpha(uint32_t c)
{
    if (c < 0x80)
        return (c | 32) >= 'a' && (c | 32) <= 'z';
    utf8proc_category_t k = category(c);
    return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool junicode_is_decimal(uint32_t c)
{
    return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND;
}

static bool in_ranges(uint32_t c, const uint32_t (*ranges)[2], size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1])
            return true;
    return false;
}

bool junicode_is_digit(uint32_t c)
{
    return junicode_is_decimal(c) || in_ranges(c, casing_digits, ARRAY_SIZE(casing_digits));
}

bool junicode_is_numeric(uint32_t c)
{
    if (junicode_is_digit(c))
        return true;
    if (c < 0x80)
        return false;
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO ||
           in_ranges(c, casing_numerals, ARRAY_SIZE(casing_numerals));
}

bool junicode_is_upper(uint32_t c)
{
    if (c < 0x80)
        return c >= 'A' && c <= 'Z';
    return category(c) == UTF8PROC_CATEGORY_LU || (c >= 0x2160 && c <= 0x216F) ||
           (c >= 0x24B6 && c <= 0x24CF) || (c >= 0x1F130 && c <= 0x1F149) ||
           (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool junicode_is_lower(uint32_t c)
{
    if (c < 0x80)
        return c >= 'a' && c <= 'z';
    return category(c) == UTF8PROC_CATEGORY_LL ||
           in_ranges(c, casing_other_lower, ARRAY_SIZE(casing_other_lower));
}

bool junicode_is_title(uint32_t c)
{
    return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT;
}

bool junicode_is_cased(uint32_t c)
{
    return junicode_is_upper(c) || junicode_is_lower(c) || junicode_is_title(c);
}

bool junicode_is_case_ignorable(uint32_t c)
{
    if (c < 0x80)
        return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`';
    utf8proc_category_t k = category(c);
    return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
           k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == 0xB7 || c == 0x2018 ||
           c == 0x2019 || c == 0x2024 || c == 0x2027;
}

bool junicode_is_printable(uint32_t c)
{
    if (c < 0x7F)
        return c >= ' ';
    utf8proc_category_t k = category(c);
    return k != UTF8PROC_CATEGORY_CN && k != UTF8PROC_CATEGORY_CC && k != UTF8PROC_CATEGORY_CF &&
           k != UTF8PROC_CATEGORY_CS && k != UTF8PROC_CATEGORY_CO && k != UTF8PROC_CATEGORY_ZL &&
           k != UTF8PROC_CATEGORY_ZP && k != UTF8PROC_CATEGORY_ZS;
}

bool junicode_is_word(uint32_t c)
{
    if (c < 0x80)
        return junicode_is_alpha(c) || (c >= '0' && c <= '9');
    utf8proc_category_t k = category(c);
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
           k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_MC || junicode_is_numeric(c);
}

/* Row of the table of full conversions, or NULL. */
static const struct casing *full(uint32_t c)
{
    size_t low = 0, high = ARRAY_SIZE(casings);
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (casings[middle].from < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < ARRAY_SIZE(casings) && casings[low].from == c ? &casings[low] : NULL;
}

static size_t copy_full(const uint32_t from[3], uint32_t out[3])
{
    size_t n = 0;
    while (n < 3 && from[n]) {
        out[n] = from[n];
        n++;
    }
    return n;
}

size_t junicode_upper(uint32_t c, uint32_t out[3])
{
    const struct casing *row = c >= 0x80 ? full(c) : NULL;
    if (row)
        return copy_full(row->upper, out);
    out[0] = c < 0x80 ? (c >= 'a' && c <= 'z' ? c - 32 : c)
                      : (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
    return 1;
}

size_t junicode_title(uint32_t c, uint32_t out[3])
{
    const struct casing *row = c >= 0x80 ? full(c) : NULL;
    if (row)
        return copy_full(row->title, out);
    if (c < 0x80)
        return junicode_upper(c, out);
    out[0] = (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
    return 1;
}

size_t junicode_lower(uint32_t c, uint32_t out[3])
{
    if (c == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = c < 0x80 ? (c >= 'A' && c <= 'Z' ? c + 32 : c)
                      : (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    return 1;
}

size_t junicode_fold(uint32_t c, uint32_t out[3])
{
    if (c < 0x80)
        return junicode_lower(c, out);
    utf8proc_int32_t folded[4];
    int last = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)c, folded, 3,
                                                 UTF8PROC_CASEFOLD, &last);
    if (n < 1 || n > 3) {
        out[0] = c;
        return 1;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++)
        out[i] = (uint32_t)folded[i];
    return (size_t)n;
}

struct str junicode_strip(struct str s, bool left, bool right)
{
    size_t from = 0, to = s.len;
    uint32_t c;
    while (left && from < to) {
        size_t n = utf8_decode(s.ptr + from, to - from, &c);
        if (!junicode_is_space(c))
            break;
        from += n;
    }
    while (right && to > from) {
        size_t start = to - 1;
        while (start > from && to - start < 4 && ((unsigned char)s.ptr[start] & 0xC0) == 0x80)
            start--;
        (void)utf8_decode(s.ptr + start, to - start, &c);
        if (!junicode_is_space(c))
            break;
        to = start;
    }
    return str_slice(s, from, to);
}
