#include "server/http_body.h"

#include <string.h>
#include <strings.h>
#include <zlib.h>
#include <zstd.h>

#include "base/mem.h"

#define PIECE (64u << 10)

static bool is(struct str coding, const char *name)
{
    return coding.len == strlen(name) && strncasecmp(coding.ptr, name, coding.len) == 0;
}

bool http_body_coding_known(struct str coding)
{
    return coding.len == 0 || is(coding, "identity") || is(coding, "gzip") ||
           is(coding, "x-gzip") || is(coding, "zstd");
}

static enum status too_large(const struct strbuf *out, struct error *err)
{
    return error_set(err, STATUS_LIMIT, "body is larger than %zu bytes after decompression",
                     out->max);
}

/* One or more members, one after the other: RFC 1952, section 2.2. */
static enum status decode_gzip(struct str body, struct strbuf *out, struct error *err)
{
    z_stream z = { .next_in = (Bytef *)body.ptr, .avail_in = (uInt)body.len };
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return error_set(err, STATUS_NO_MEMORY, "gzip: cannot start");
    char *piece = mem_alloc(PIECE);
    int state = Z_OK;
    while (state == Z_OK && !out->overflow) {
        z.next_out = (Bytef *)piece;
        z.avail_out = PIECE;
        state = inflate(&z, Z_NO_FLUSH);
        strbuf_append(out, piece, PIECE - z.avail_out);
        if (state == Z_STREAM_END && z.avail_in > 0)
            state = inflateReset(&z);
    }
    bool complete = state == Z_STREAM_END && z.avail_in == 0;
    mem_free(piece);
    inflateEnd(&z);
    if (out->overflow)
        return too_large(out, err);
    return complete ? STATUS_OK
                    : error_set(err, STATUS_INVALID, "gzip body is damaged or incomplete");
}

static enum status decode_zstd(struct str body, struct strbuf *out, struct error *err)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    if (!z)
        return error_set(err, STATUS_NO_MEMORY, "zstd: cannot start");
    ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, 24); /* no window beyond the body limit */
    char *piece = mem_alloc(PIECE);
    ZSTD_inBuffer in = { body.ptr, body.len, 0 };
    size_t left = 1;
    while (!ZSTD_isError(left) && !out->overflow) {
        ZSTD_outBuffer o = { piece, PIECE, 0 };
        left = ZSTD_decompressStream(z, &o, &in);
        if (!ZSTD_isError(left))
            strbuf_append(out, piece, o.pos);
        if (in.pos == in.size && (left == 0 || o.pos < o.size))
            break;
    }
    mem_free(piece);
    ZSTD_freeDStream(z);
    if (out->overflow)
        return too_large(out, err);
    return left == 0 ? STATUS_OK
                     : error_set(err, STATUS_INVALID, "zstd body is damaged or incomplete");
}

enum status http_body_decode(struct str coding, struct strbuf *body, struct error *err)
{
    bool gzip = is(coding, "gzip") || is(coding, "x-gzip");
    if (!gzip && !is(coding, "zstd"))
        return STATUS_OK;
    struct strbuf plain;
    strbuf_init(&plain, body->max);
    enum status status = gzip ? decode_gzip(strbuf_str(body), &plain, err)
                              : decode_zstd(strbuf_str(body), &plain, err);
    strbuf_release(body);
    *body = plain;
    return status;
}
