#include "cli/http_client.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/strbuf.h"
#include "cli/http_answer.h"

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

static enum status read_answer(int s, struct http_answer *answer, struct error *err)
{
    char buffer[16384];
    while (!http_answer_done(answer)) {
        ssize_t n = recv(s, buffer, sizeof(buffer), 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, STATUS_IO, "cannot read the answer: %s", strerror(errno));
        if (n == 0)
            break;
        TRY(http_answer_feed(answer, (struct str){ buffer, (size_t)n }, err));
    }
    return http_answer_end(answer, err);
}

enum status http_request(const struct http_url *url, const char *path, const char *key,
                         struct str body, void (*piece)(void *user, struct str part), void *user,
                         struct error *err)
{
    int s = -1;
    TRY(open_connection(url, &s, err));
    enum status status = send_request(s, url, path, key, body, err);
    struct http_answer answer;
    http_answer_init(&answer, piece, user);
    if (status == STATUS_OK)
        status = read_answer(s, &answer, err);
    http_answer_release(&answer);
    close(s);
    return status;
}
