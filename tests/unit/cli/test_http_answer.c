/* http_answer: bodies of every framing, in pieces of every size, and answers that are none. */
#include "unit/cmocka_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/http_answer.h"

static void collect(void *user, struct str part)
{
    strbuf_add(user, part);
}

static enum status read_in(struct str in, size_t step, struct strbuf *body, struct error *e)
{
    struct http_answer a;
    enum status s = STATUS_OK;
    strbuf_clear(body);
    http_answer_init(&a, collect, body);
    for (size_t at = 0; at < in.len && s == STATUS_OK; at += step)
        s = http_answer_feed(&a, str_slice(in, at, at + step < in.len ? at + step : in.len), e);
    if (s == STATUS_OK)
        s = http_answer_end(&a, e);
    http_answer_release(&a);
    return s;
}

#define OK "HTTP/1.1 200 OK\r\n"
#define CHUNKED OK "Transfer-Encoding: chunked\r\n\r\n"

static void bodies(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { OK "\r\nup to the end", "up to the end" },
        { "HTTP/1.0 200\r\n\r\n", "" },
        { OK "Content-Length: 5\r\n\r\nhello and more", "hello" },
        { OK "Content-Length: 0\r\n\r\nmore", "" },
        { CHUNKED "5\r\nhello\r\n6;x=\"y\"\r\n world\r\n0\r\nTrailer: x\r\n\r\n", "hello world" },
        { CHUNKED "00000000000000000000000005\nhello\n0\n", "hello" },
        { OK "transfer-encoding:CHUNKED\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\n", "a" },
        { "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" OK "\r\nbody",
          "body" },
    };
    struct strbuf body;
    struct error e;
    strbuf_init(&body, 1000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct str in = str_of(cases[i][0]);
        for (size_t step = 1; step <= in.len; step++) {
            assert_int_equal(read_in(in, step, &body, &e), STATUS_OK);
            assert_true(str_is(strbuf_str(&body), cases[i][1]));
        }
    }
    strbuf_release(&body);
}

static void refusals(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "", "found the end" },
        { OK "Content-Length: 5\r\n", "found the end" },
        { OK "Content-Length: 5\r\n\r\nhell", "breaks off" },
        { OK "Content-Length: -5\r\n\r\nhello", "found \"-5\"" },
        { OK "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "expected one length" },
        { OK "Transfer-Encoding: gzip, chunked\r\n\r\n", "found \"gzip, chunked\"" },
        { OK "no field\r\n\r\n", "\"no field\"" },
        { "HTTP/1.1 2000 OK\r\n\r\n", "\"HTTP/1.1 2000 OK\"" },
        { "SSH-2.0-OpenSSH\r\n\r\n", "SSH-2.0" },
        { "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone", "404 Not Found: gone" },
        { CHUNKED "5\r\nhell", "breaks off" },
        { CHUNKED "5\r\nhello", "breaks off" },
        { CHUNKED "5\r\nhelloX", "expected the end of a chunk, found byte 0x58" },
        { CHUNKED "\r\nhello", "expected the size of a chunk, found byte 0x0d" },
        { CHUNKED ";x\r\nhello", "found byte 0x3b" },
        { CHUNKED "10000000000000000\r\n", "less than 2^64" },
    };
    struct strbuf body;
    struct error e;
    strbuf_init(&body, 1000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct str in = str_of(cases[i][0]);
        for (size_t step = 1; step <= in.len + 1; step++) {
            assert_int_not_equal(read_in(in, step, &body, &e), STATUS_OK);
            if (!strstr(e.message, cases[i][1]))
                fail_msg("\"%s\" does not mention \"%s\"", e.message, cases[i][1]);
        }
    }
    strbuf_release(&body);
}

/* A head without an end is refused when it is too long, not collected. */
static void endless_head(void **state)
{
    (void)state;
    struct http_answer a;
    struct error e;
    struct strbuf body;
    char field[1000];
    int n = 0;
    strbuf_init(&body, 10);
    http_answer_init(&a, collect, &body);
    memset(field, 'x', sizeof(field));
    assert_int_equal(http_answer_feed(&a, STR(OK), &e), STATUS_OK);
    while (http_answer_feed(&a, (struct str){ field, sizeof(field) }, &e) == STATUS_OK && n < 100)
        n++;
    assert_int_equal(n, 65);
    assert_non_null(strstr(e.message, "65536"));
    http_answer_release(&a);
    strbuf_release(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies),
        cmocka_unit_test(refusals),
        cmocka_unit_test(endless_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
