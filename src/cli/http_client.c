#include "cli/http_client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/strbuf.h"

#define MAX_HEAD (64 << 10)
#define SILENCE_SECONDS 300

enum status http_url_parse(const char *url, struct http_url *out, struct error *err)
{
    struct str rest = str_of(url);
    if (!str_starts(rest, STR("http://")))
        return error_set(err, STATUS_INVALID, "--url: expected http://HOST[:PORT], found '%s'%s",
                         url, str_starts(rest, STR("https://")) ? " (there is no TLS)" : "");
    rest = str_slice(rest, 7, rest.len);
    size_t slash = str_find(rest, STR("/"), 0);
    struct str place = str_slice(rest, 0, slash == STR_NONE ? rest.len : slash);
    struct str base = slash == STR_NONE ? STR("") : str_slice(rest, slash, rest.len);
    while (str_ends(base, STR("/")))
        base.len--;
    size_t colon = str_find(place, STR(":"), 0);
    struct str host = str_slice(place, 0, colon == STR_NONE ? place.len : colon);
    struct str port = colon == STR_NONE ? STR("80") : str_slice(place, colon + 1, place.len);
    if (host.len == 0 || host.len >= sizeof(out->host) || port.len == 0 ||
        port.len >= sizeof(out->port) || base.len >= sizeof(out->base))
        return error_set(err, STATUS_INVALID, "--url: expected http://HOST[:PORT], found '%s'",
                         url);
    snprintf(out->host, sizeof(out->host), "%.*s", STR_ARG(host));
    snprintf(out->port, sizeof(out->port), "%.*s", STR_ARG(port));
    snprintf(out->base, sizeof(out->base), "%.*s", STR_ARG(base));
    return STATUS_OK;
}

static enum status open_connection(const struct http_url *url, int *out, struct error *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
    int failure = getaddrinfo(url->host, url->port, &hints, &list), s = -1;
    if (failure != 0)
        return error_set(err, STATUS_IO, "%s:%s: %s", url->host, url->port, gai_strerror(failure));
    for (struct addrinfo *a = list; a && s < 0; a = a->ai_next) {
        s = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (s >= 0 && connect(s, a->ai_addr, a->ai_addrlen) != 0) {
            int reason = errno;
            close(s);
            errno = reason;
            s = -1;
        }
    }
    freeaddrinfo(list);
    if (s < 0)
        return error_set(err, STATUS_IO, "%s:%s: %s", url->host, url->port, strerror(errno));
    struct timeval silence = { .tv_sec = SILENCE_SECONDS };
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
    *out = s;
    return STATUS_OK;
}

/* Where a body is: between chunks, inside one, behind the last. */
struct body_reader {
    bool chunked, ended, in_size, any_digit, in_extension;
    size_t left; /* of the chunk */
    int skip;    /* line end behind a chunk's data */
    bool bad;
};

static void read_size_byte(struct body_reader *r, char c)
{
    int digit = c >= '0' && c <= '9'                 ? c - '0'
                : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                     : -1;
    if (c == '\n') {
        r->bad |= !r->any_digit;
        r->ended = r->left == 0;
        r->in_size = false;
    } else if (digit >= 0 && !r->in_extension) {
        r->bad |= r->left > (SIZE_MAX >> 5);
        r->left = r->left * 16 + (size_t)digit;
        r->any_digit = true;
    } else {
        r->in_extension = true;
    }
}

static void read_body(struct body_reader *r, struct str in,
                      void (*piece)(void *user, struct str part), void *user)
{
    if (!r->chunked) {
        piece(user, in);
        return;
    }
    for (size_t i = 0; i < in.len && !r->ended && !r->bad;) {
        if (r->in_size) {
            read_size_byte(r, in.ptr[i++]);
        } else if (r->left > 0) {
            size_t n = r->left < in.len - i ? r->left : in.len - i;
            piece(user, str_slice(in, i, i + n));
            r->left -= n;
            i += n;
            r->skip = 2;
        } else if (--r->skip == 0) {
            i++;
            r->in_size = true;
            r->any_digit = r->in_extension = false;
        } else {
            i++;
        }
    }
}

static void keep_start(void *user, struct str part)
{
    struct strbuf *b = user;
    strbuf_add(b, part);
}

static enum status send_all(int s, struct str data, struct error *err)
{
    while (data.len > 0) {
        ssize_t n = send(s, data.ptr, data.len, MSG_NOSIGNAL);
        if (n <= 0)
            return error_set(err, STATUS_IO, "cannot send the request: %s", strerror(errno));
        data = str_slice(data, (size_t)n, data.len);
    }
    return STATUS_OK;
}

static enum status send_request(int s, const struct http_url *url, const char *path,
                                const char *key, struct str body, struct error *err)
{
    struct strbuf head;
    strbuf_init(&head, MAX_HEAD);
    strbuf_printf(&head, "%s %s%s HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n",
                  body.len ? "POST" : "GET", url->base, path, url->host, url->port);
    if (key)
        strbuf_printf(&head, "Authorization: Bearer %s\r\n", key);
    if (body.len)
        strbuf_printf(&head, "Content-Type: application/json\r\nContent-Length: %zu\r\n", body.len);
    strbuf_puts(&head, "\r\n");
    enum status status = send_all(s, strbuf_str(&head), err);
    strbuf_release(&head);
    return status == STATUS_OK ? send_all(s, body, err) : status;
}

/* The head's end in `head`, after reading; what follows it is the beginning of the body. */
static enum status read_head(int s, struct strbuf *head, size_t *end, struct error *err)
{
    char buffer[4096];
    while ((*end = str_find(strbuf_str(head), STR("\r\n\r\n"), 0)) == STR_NONE) {
        ssize_t n = recv(s, buffer, sizeof(buffer), 0);
        if (n <= 0 || head->overflow)
            return error_set(err, STATUS_IO, "expected the head of an HTTP answer, found %s",
                             n == 0  ? "the end"
                             : n < 0 ? strerror(errno)
                                     : "too much");
        strbuf_append(head, buffer, (size_t)n);
    }
    *end += 4;
    return STATUS_OK;
}

static enum status read_answer(int s, void (*piece)(void *user, struct str part), void *user,
                               struct error *err)
{
    struct strbuf head, refusal;
    size_t end;
    char buffer[16384];
    strbuf_init(&head, MAX_HEAD);
    strbuf_init(&refusal, 300);
    enum status status = read_head(s, &head, &end, err);
    if (status == STATUS_OK) {
        size_t length = head.len;
        strbuf_putc(&head, 0);
        struct str text = { head.ptr, length };
        bool good = str_starts(text, STR("HTTP/1.1 200")) || str_starts(text, STR("HTTP/1.0 200"));
        struct body_reader r = { .in_size = true };
        head.ptr[end - 1] = 0;
        r.chunked = strcasestr(head.ptr, "\r\ntransfer-encoding: chunked") != NULL;
        if (!good) {
            piece = keep_start;
            user = &refusal;
        }
        read_body(&r, str_slice(text, end, text.len), piece, user);
        ssize_t n = 1;
        while (!r.ended && !r.bad && (n = recv(s, buffer, sizeof(buffer), 0)) > 0)
            read_body(&r, (struct str){ buffer, (size_t)n }, piece, user);
        if (!good)
            status =
                error_set(err, STATUS_IO, "the server answers %.*s: %.*s",
                          (int)strcspn(head.ptr, "\r"), head.ptr, STR_ARG(strbuf_str(&refusal)));
        else if (r.bad || n < 0 || (r.chunked && !r.ended))
            status = error_set(err, STATUS_IO, "the server's answer breaks off");
    }
    strbuf_release(&head);
    strbuf_release(&refusal);
    return status;
}

enum status http_request(const struct http_url *url, const char *path, const char *key,
                         struct str body, void (*piece)(void *user, struct str part), void *user,
                         struct error *err)
{
    int s = -1;
    TRY(open_connection(url, &s, err));
    enum status status = send_request(s, url, path, key, body, err);
    if (status == STATUS_OK)
        status = read_answer(s, piece, user, err);
    close(s);
    return status;
}
