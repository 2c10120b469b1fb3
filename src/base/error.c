#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static const char *const names[] = {
#define STATUS_NAME(name, sentence) #name,
    STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
};
static const char *const sentences[] = {
#define STATUS_SENTENCE(name, sentence) sentence,
    STATUS_LIST(STATUS_SENTENCE)
#undef STATUS_SENTENCE
};

const char *status_name(enum status s)
{
    return (size_t)s < ARRAY_SIZE(names) ? names[s] : "UNKNOWN";
}

const char *status_sentence(enum status s)
{
    return (size_t)s < ARRAY_SIZE(sentences) ? sentences[s] : "unknown status";
}

/* Copies text into out, one line of UTF-8: every byte that could break a terminal or a log line
 * becomes \xNN. Stops before the first character that does not fit. */
static void copy_clean(char *out, size_t size, const char *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    size_t used = 0;
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t length = utf8_decode(text + i, n - i, &c);
        bool escape = c == UTF8_BAD || c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 ||
                      c == 0x2029;
        size_t wanted = escape ? 4 * length : length;
        if (used + wanted >= size)
            break;
        for (size_t k = 0; k < length; k++) {
            unsigned char byte = (unsigned char)text[i + k];
            if (escape) {
                out[used++] = '\\';
                out[used++] = 'x';
                out[used++] = hex[byte >> 4];
                out[used++] = hex[byte & 15];
            } else {
                out[used++] = (char)byte;
            }
        }
        i += length;
    }
    out[used] = 0;
}

enum status error_set_va(struct error *err, enum status s, const char *format, va_list arguments)
{
    if (!err)
        return s;
    char text[sizeof(err->message)];
    int n = vsnprintf(text, sizeof(text), format, arguments);
    err->status = s;
    if (n < 0)
        n = snprintf(text, sizeof(text), "%s", status_sentence(s));
    size_t length = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    if ((size_t)n > length) /* the cut may have split a character */
        length = utf8_complete((struct str){ text, length });
    copy_clean(err->message, sizeof(err->message), text, length);
    return s;
}

enum status error_set(struct error *err, enum status s, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    error_set_va(err, s, format, arguments);
    va_end(arguments);
    return s;
}

enum status error_prefix(struct error *err, const char *format, ...)
{
    if (!err)
        return STATUS_INTERNAL;
    char text[sizeof(err->message)];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (n < 0)
        return err->status;
    char old[sizeof(err->message)];
    memcpy(old, err->message, sizeof(old));
    size_t length = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
    copy_clean(err->message, sizeof(err->message), text, length);
    size_t used = strlen(err->message);
    struct str rest[2] = { STR(": "), str_of(old) };
    for (int i = 0; i < 2; i++) {
        size_t room = sizeof(err->message) - 1 - used;
        size_t wanted = rest[i].len;
        if (wanted > room)
            wanted = utf8_complete((struct str){ rest[i].ptr, room });
        memcpy(err->message + used, rest[i].ptr, wanted);
        used += wanted;
    }
    err->message[used] = 0;
    return err->status;
}

void check_failed(const char *condition, const char *file, int line)
{
    /* The one place that prints: the process is about to die of a bug of ours. */
    fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
    abort();
}
