#include "base/utf8.h"

/* First byte to length and to the allowed range of the second byte (table 3-7). */
static size_t sequence_shape(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (first < 0x80)
        return 1;
    if (first < 0xC2 || first > 0xF4)
        return 0;
    if (first == 0xE0)
        *low = 0xA0;
    else if (first == 0xED)
        *high = 0x9F; /* surrogates */
    else if (first == 0xF0)
        *low = 0x90;
    else if (first == 0xF4)
        *high = 0x8F; /* beyond U+10FFFF */
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

size_t utf8_decode(const char *bytes, size_t n, uint32_t *code_point)
{
    const unsigned char *p = (const unsigned char *)bytes;
    if (p[0] < 0x80) {
        *code_point = p[0];
        return 1;
    }
    unsigned char low, high;
    size_t length = sequence_shape(p[0], &low, &high);
    *code_point = UTF8_BAD;
    if (length == 0)
        return 1;
    uint32_t c = p[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if (i >= n || p[i] < low || p[i] > high)
            return i;
        c = c << 6 | (p[i] & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    *code_point = c;
    return length;
}

size_t utf8_encode_one(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return 0;
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

/* Length of the leading part that is plain ASCII, eight bytes at a time. */
static size_t ascii_run(struct str s, size_t from)
{
    size_t i = from;
    for (uint64_t word; i + 8 <= s.len; i += 8) {
        memcpy(&word, s.ptr + i, 8);
        if (word & 0x8080808080808080u)
            break;
    }
    while (i < s.len && (unsigned char)s.ptr[i] < 0x80)
        i++;
    return i;
}

bool utf8_valid(struct str s)
{
    for (size_t i = ascii_run(s, 0); i < s.len; i = ascii_run(s, i)) {
        uint32_t c;
        i += utf8_decode(s.ptr + i, s.len - i, &c);
        if (c == UTF8_BAD)
            return false;
    }
    return true;
}

size_t utf8_count(struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += ((unsigned char)s.ptr[i] & 0xC0) != 0x80;
    return n;
}

size_t utf8_complete(struct str s)
{
    for (size_t back = 1; back <= 3 && back <= s.len; back++) {
        size_t at = s.len - back;
        unsigned char byte = (unsigned char)s.ptr[at];
        if ((byte & 0xC0) == 0x80)
            continue;
        unsigned char low, high;
        uint32_t c;
        size_t length = sequence_shape(byte, &low, &high);
        if (length <= back)
            return s.len;
        /* Held back only if all that is there is a good beginning. */
        return utf8_decode(s.ptr + at, back, &c) == back ? at : s.len;
    }
    return s.len;
}

void utf8_repair(struct strbuf *out, struct str s)
{
    size_t start = 0;
    for (size_t i = ascii_run(s, 0); i < s.len; i = ascii_run(s, i)) {
        uint32_t c;
        size_t length = utf8_decode(s.ptr + i, s.len - i, &c);
        if (c == UTF8_BAD) {
            strbuf_append(out, s.ptr + start, i - start);
            strbuf_puts(out, "\xEF\xBF\xBD");
            start = i + length;
        }
        i += length;
    }
    if (start < s.len || s.len == 0)
        strbuf_append(out, s.ptr + start, s.len - start);
}
