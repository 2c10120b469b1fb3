#include "cli/http_answer.h"

#include <strings.h>

#include "base/compiler.h"
#include "base/number.h"

#define MAX_HEAD (64 << 10)
#define MAX_REFUSAL 300

static const struct str head_end = { "\r\n\r\n", 4 };

void http_answer_init(struct http_answer *a, void (*piece)(void *user, struct str part), void *user)
{
    *a = (struct http_answer){ .piece = piece, .user = user };
    strbuf_init(&a->head, MAX_HEAD);
    strbuf_init(&a->refusal, MAX_REFUSAL);
}

void http_answer_release(struct http_answer *a)
{
    strbuf_release(&a->head);
    strbuf_release(&a->refusal);
}

static bool same_name(struct str a, struct str b)
{
    return a.len == b.len && strncasecmp(a.ptr, b.ptr, a.len) == 0;
}

/* Cuts the first line off `rest`; without its end. */
static struct str take_line(struct str *rest)
{
    size_t end = str_find(*rest, STR("\r\n"), 0);
    struct str line = end == STR_NONE ? *rest : str_slice(*rest, 0, end);
    *rest = end == STR_NONE ? STR("") : str_slice(*rest, end + 2, rest->len);
    return line;
}

/* "HTTP/1.1 200 OK" to 200; 0: it is no status line. */
static int status_of(struct str line)
{
    if (!str_starts(line, STR("HTTP/1.1 ")) && !str_starts(line, STR("HTTP/1.0 ")))
        return 0;
    struct str number = str_slice(line, 9, line.len);
    size_t blank = str_find(number, STR(" "), 0);
    uint64_t n;
    if (blank != STR_NONE)
        number.len = blank;
    return number.len == 3 && number_parse_u64(number, &n) && n >= 100 ? (int)n : 0;
}

/* How the body ends: the fields that say it. */
static enum status read_fields(struct http_answer *a, struct str fields, struct error *err)
{
    bool chunked = false, has_length = false;
    uint64_t length = 0;
    while (fields.len > 0) {
        struct str line = take_line(&fields);
        size_t colon = str_find(line, STR(":"), 0);
        if (colon == STR_NONE || colon == 0)
            return error_set(err, STATUS_INVALID,
                             "expected a field of an HTTP answer, found "
                             "\"%.*s\"",
                             (int)MIN(line.len, (size_t)80), line.ptr);
        struct str name = str_slice(line, 0, colon);
        struct str value = str_trim(str_slice(line, colon + 1, line.len));
        if (same_name(name, STR("transfer-encoding"))) {
            if (!same_name(value, STR("chunked")))
                return error_set(err, STATUS_INVALID,
                                 "Transfer-Encoding: expected chunked, found "
                                 "\"%.*s\"",
                                 (int)MIN(value.len, (size_t)80), value.ptr);
            chunked = true;
        } else if (same_name(name, STR("content-length"))) {
            uint64_t n;
            if (!number_parse_u64(value, &n) || (has_length && n != length))
                return error_set(err, STATUS_INVALID,
                                 "Content-Length: expected one length, found "
                                 "\"%.*s\"",
                                 (int)MIN(value.len, (size_t)80), value.ptr);
            has_length = true;
            length = n;
        }
    }
    a->left = chunked ? 0 : length;
    a->any_digit = a->in_extension = false;
    a->state = chunked       ? HTTP_ANSWER_CHUNK_SIZE
               : !has_length ? HTTP_ANSWER_UNTIL_CLOSE
               : length > 0  ? HTTP_ANSWER_LENGTH
                             : HTTP_ANSWER_DONE;
    return STATUS_OK;
}

static enum status read_head(struct http_answer *a, struct error *err)
{
    struct str rest = strbuf_str(&a->head);
    rest.len -= 2; /* the empty line */
    struct str line = take_line(&rest);
    int status = status_of(line);
    if (status == 0)
        return error_set(err, STATUS_INVALID, "expected the head of an HTTP answer, found \"%.*s\"",
                         (int)MIN(line.len, (size_t)80), line.ptr);
    if (status < 200) {
        strbuf_clear(&a->head);
        return STATUS_OK;
    }
    a->good = status == 200;
    return read_fields(a, rest, err);
}

/* Takes bytes up to the end of the head; returns how many. */
static enum status feed_head(struct http_answer *a, struct str in, size_t *n_taken,
                             struct error *err)
{
    size_t before = a->head.len, from = before >= 3 ? before - 3 : 0;
    size_t n = MIN(in.len, MAX_HEAD - before);
    strbuf_append(&a->head, in.ptr, n);
    size_t end = str_find(strbuf_str(&a->head), head_end, from);
    if (end == STR_NONE && n < in.len)
        return error_set(err, STATUS_INVALID,
                         "expected the head of an HTTP answer, found more "
                         "than %d bytes without an end",
                         MAX_HEAD);
    *n_taken = end == STR_NONE ? n : end + 4 - before;
    if (end == STR_NONE)
        return STATUS_OK;
    a->head.len = end + 4;
    return read_head(a, err);
}

static void take_body(struct http_answer *a, struct str part)
{
    if (a->good)
        a->piece(a->user, part);
    else
        strbuf_append(&a->refusal, part.ptr, MIN(part.len, MAX_REFUSAL - a->refusal.len));
}

static enum status bad_chunk(const char *expected, char found, struct error *err)
{
    return error_set(err, STATUS_INVALID, "the answer breaks off: expected %s, found byte 0x%02x",
                     expected, (unsigned)(unsigned char)found);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    int letter = c | 32;
    return letter >= 'a' && letter <= 'f' ? letter - 'a' + 10 : -1;
}

static enum status feed_size(struct http_answer *a, char c, struct error *err)
{
    int digit = hex_digit(c);
    if (c == '\n') {
        if (!a->any_digit)
            return bad_chunk("the size of a chunk", c, err);
        a->state = a->left > 0 ? HTTP_ANSWER_CHUNK : HTTP_ANSWER_DONE;
    } else if (digit >= 0 && !a->in_extension) {
        if (a->left > (UINT64_MAX >> 4))
            return bad_chunk("a chunk of less than 2^64 bytes", c, err);
        a->left = a->left << 4 | (uint64_t)digit;
        a->any_digit = true;
    } else if (a->any_digit) {
        a->in_extension = true;
    } else {
        return bad_chunk("the size of a chunk", c, err);
    }
    return STATUS_OK;
}

static enum status feed_chunk_end(struct http_answer *a, char c, struct error *err)
{
    if (c == '\r' && !a->after_cr) {
        a->after_cr = true;
        return STATUS_OK;
    }
    if (c != '\n')
        return bad_chunk("the end of a chunk", c, err);
    a->state = HTTP_ANSWER_CHUNK_SIZE;
    a->any_digit = a->in_extension = false;
    return STATUS_OK;
}

/* A part of the body that is `left` long; what follows it is `next`. */
static size_t feed_counted(struct http_answer *a, struct str in, enum http_answer_state next)
{
    size_t n = in.len < a->left ? in.len : (size_t)a->left;
    take_body(a, str_slice(in, 0, n));
    a->left -= n;
    if (a->left == 0)
        a->state = next;
    a->after_cr = false;
    return n;
}

enum status http_answer_feed(struct http_answer *a, struct str in, struct error *err)
{
    while (in.len > 0 && a->state != HTTP_ANSWER_DONE) {
        size_t n = 1;
        switch (a->state) {
        case HTTP_ANSWER_HEAD:
            TRY(feed_head(a, in, &n, err));
            break;
        case HTTP_ANSWER_UNTIL_CLOSE:
            n = in.len;
            take_body(a, in);
            break;
        case HTTP_ANSWER_LENGTH:
            n = feed_counted(a, in, HTTP_ANSWER_DONE);
            break;
        case HTTP_ANSWER_CHUNK:
            n = feed_counted(a, in, HTTP_ANSWER_CHUNK_END);
            break;
        case HTTP_ANSWER_CHUNK_SIZE:
            TRY(feed_size(a, in.ptr[0], err));
            break;
        case HTTP_ANSWER_CHUNK_END:
            TRY(feed_chunk_end(a, in.ptr[0], err));
            break;
        case HTTP_ANSWER_DONE:
            break;
        }
        in = str_slice(in, n, in.len);
    }
    return STATUS_OK;
}

enum status http_answer_end(const struct http_answer *a, struct error *err)
{
    if (a->state == HTTP_ANSWER_HEAD)
        return error_set(err, STATUS_IO, "expected the head of an HTTP answer, found the end");
    if (!a->good) {
        struct str head = strbuf_str(&a->head), line = take_line(&head);
        return error_set(err, STATUS_IO, "the server answers %.*s: %.*s",
                         (int)MIN(line.len, (size_t)200), line.ptr,
                         STR_ARG(strbuf_str(&a->refusal)));
    }
    if (a->state != HTTP_ANSWER_DONE && a->state != HTTP_ANSWER_UNTIL_CLOSE)
        return error_set(err, STATUS_IO, "the answer breaks off");
    return STATUS_OK;
}
