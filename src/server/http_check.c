#include "server/http_check.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include "base/mem.h"
#include "server/api_keys.h"
#include "server/server_state.h"

struct framing {
    int n_length, n_transfer, n_host, n_fields;
    size_t bytes, longest;
    bool bad_name, bad_transfer;
    struct str host;
};

static bool is_token(struct str name)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!isalnum((unsigned char)c) && (c == 0 || !strchr(others, c)))
            return false;
    }
    return name.len > 0;
}

static enum MHD_Result look(void *argument, enum MHD_ValueKind kind, const char *key,
                            size_t key_len, const char *value, size_t value_len)
{
    (void)kind;
    struct framing *f = argument;
    struct str name = { key, key_len }, text = { value, value ? value_len : 0 };
    size_t line = name.len + text.len + 4;
    f->n_fields++;
    f->bytes += line;
    f->longest = MAX(f->longest, line);
    if (!is_token(name) || memchr(text.ptr ? text.ptr : "", 0, text.len))
        f->bad_name = true;
    if (name.len == 14 && strncasecmp(key, "content-length", 14) == 0)
        f->n_length++;
    if (name.len == 4 && strncasecmp(key, "host", 4) == 0)
        f->n_host++;
    if (name.len == 17 && strncasecmp(key, "transfer-encoding", 17) == 0) {
        f->n_transfer++;
        struct str coding = str_trim(text);
        if (coding.len != 7 || strncasecmp(coding.ptr, "chunked", 7) != 0)
            f->bad_transfer = true;
    }
    return MHD_YES;
}

static bool refuse(struct exchange *x, int status, const char *why)
{
    exchange_error(x, status, NULL, NULL, "%s", why);
    x->close_after = true;
    return false;
}

bool http_check_framing(struct exchange *x, const char *version)
{
    struct framing f = { 0 };
    MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, look, &f);
    if (f.bad_name)
        return refuse(x, 400, "a header name is not a token, or a value holds a NUL");
    if (f.n_length > 1)
        return refuse(x, 400, "more than one Content-Length");
    if (f.n_host > 1)
        return refuse(x, 400, "more than one Host");
    if (f.n_length && f.n_transfer)
        return refuse(x, 400, "Content-Length together with Transfer-Encoding");
    if (f.n_transfer > 1 || f.bad_transfer)
        return refuse(x, 400, "Transfer-Encoding other than chunked");
    if (f.n_host == 0 && strcmp(version, "HTTP/1.1") == 0)
        return refuse(x, 400, "HTTP/1.1 without Host");
    if (f.longest > LIMIT_HEADER_LINE_BYTES || f.bytes > LIMIT_HEADERS_BYTES ||
        f.n_fields > (int)LIMIT_HEADER_COUNT)
        return refuse(x, 431, "headers too large: at most 100 fields, 8 KiB a line, 32 KiB in all");
    return true;
}

void http_check_target(struct exchange *x, const char *target)
{
    static const char *const schemes[] = { "http://", "https://" };
    struct str path = str_of(target);
    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
        size_t n = strlen(schemes[i]);
        if (strncasecmp(target, schemes[i], n) != 0)
            continue;
        size_t slash = str_find(path, STR("/"), n);
        slash = slash == STR_NONE ? path.len : slash;
        x->authority = (struct str){ mem_string(target + n, slash - n), slash - n };
        path = str_slice(path, slash, path.len);
        break;
    }
    x->path = path.len ? mem_string(path.ptr, path.len) : mem_string("/", 1);
}

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = c ? strchr(digits, tolower((unsigned char)c)) : NULL;
    return found ? (int)(found - digits) : -1;
}

size_t http_check_unescape(void *unused, struct MHD_Connection *connection, char *text)
{
    (void)unused;
    (void)connection;
    char *to = text;
    for (const char *from = text; *from; to++) {
        int high = from[0] == '%' ? hex_digit(from[1]) : -1;
        int low = high >= 0 ? hex_digit(from[2]) : -1;
        bool escaped = low >= 0 && high + low > 0;
        *to = (char)(escaped ? high << 4 | low : *from);
        from += escaped ? 3 : 1;
    }
    *to = 0;
    return (size_t)(to - text);
}

/* "localhost:8080", "[::1]:8080", "127.0.0.1" -> the name without the port. */
static struct str host_name(struct str host)
{
    if (host.len && host.ptr[0] == '[') {
        size_t end = str_find(host, STR("]"), 0);
        return end == STR_NONE ? host : str_slice(host, 0, end + 1);
    }
    size_t colon = str_find(host, STR(":"), 0);
    return colon == STR_NONE ? host : str_slice(host, 0, colon);
}

static bool is_loopback_name(struct str name)
{
    return (name.len == 9 && strncasecmp(name.ptr, "localhost", 9) == 0) ||
           str_starts(name, STR("127.")) || str_is(name, "[::1]");
}

bool server_host_is_loopback(const char *host)
{
    struct str name = str_of(host);
    return str_starts(name, STR("unix:")) || str_is(name, "::1") || is_loopback_name(name);
}

bool http_check_host(struct exchange *x)
{
    struct str bind = str_of(x->server->options.host);
    struct str bound = str_is(bind, "::1") ? STR("[::1]") : bind;
    struct str name = host_name(x->authority.ptr ? x->authority : exchange_header(x, "Host"));
    if (!is_loopback_name(bound) || name.len == 0 || is_loopback_name(name))
        return true;
    exchange_error(x, 403, NULL, NULL,
                   "Host is '%.*s', but this server is bound to %s: expected localhost, 127.0.0.1 "
                   "or [::1]",
                   STR_ARG(name), x->server->options.host);
    x->close_after = true;
    return false;
}

/* Takes the same time wherever the first difference is. */
static bool same_secret(struct str given, struct str key)
{
    unsigned char difference = given.len == key.len ? 0 : 1;
    for (size_t i = 0; i < given.len; i++)
        difference |= (unsigned char)(given.ptr[i] ^ key.ptr[key.len ? i % key.len : 0]);
    return difference == 0 && key.len > 0;
}

bool http_check_key(struct exchange *x)
{
    const struct server_options *o = &x->server->options;
    snprintf(x->client_name, sizeof x->client_name, "connection %d", x->fd);
    x->client = x->client_name;
    if (o->n_api_keys == 0)
        return true;
    struct str bearer = exchange_header(x, "Authorization");
    if (bearer.len > 7 && strncasecmp(bearer.ptr, "bearer ", 7) == 0)
        bearer = str_trim(str_slice(bearer, 7, bearer.len));
    else
        bearer = (struct str){ 0 };
    struct str header = str_trim(exchange_header(x, "x-api-key"));
    for (size_t i = 0; i < o->n_api_keys; i++) {
        struct str key = str_of(o->api_keys[i].key);
        if (same_secret(bearer, key) || same_secret(header, key)) {
            x->key = &o->api_keys[i];
            x->client = x->key->key;
            return true;
        }
    }
    exchange_error(x, 401, NULL, "invalid_api_key",
                   bearer.len || header.len
                       ? "the API key is not one of this server's"
                       : "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
    return false;
}

const char *http_allowed_origin(const struct exchange *x)
{
    const struct server_options *o = &x->server->options;
    struct str origin = exchange_header(x, "Origin");
    for (size_t i = 0; origin.len && i < o->n_cors_origins; i++) {
        if (strcmp(o->cors_origins[i], "*") == 0 || str_is(origin, o->cors_origins[i]))
            return o->cors_origins[i];
    }
    return NULL;
}
