/* Seeds: fuzz/corpus/http_client. The first byte says into what pieces the answer is cut; its body
 * and the outcome must be those of the answer in one piece. The rest is also read as a URL. */
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "cli/http_answer.h"
#include "cli/http_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void collect(void *user, struct str part)
{
    strbuf_add(user, part);
}

static enum status read_answer(struct str in, size_t step, struct strbuf *body)
{
    struct http_answer a;
    struct error e;
    enum status s = STATUS_OK;
    strbuf_init(body, SIZE_MAX);
    http_answer_init(&a, collect, body);
    for (size_t at = 0; at < in.len && s == STATUS_OK; at += step)
        s = http_answer_feed(&a, str_slice(in, at, MIN(at + step, in.len)), &e);
    if (s == STATUS_OK)
        s = http_answer_end(&a, &e);
    http_answer_release(&a);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct strbuf whole, cut, url;
    struct http_url parts;
    struct error e;
    if (size < 2)
        return 0;
    struct str in = { (const char *)data + 1, size - 1 };
    enum status a = read_answer(in, in.len, &whole), b = read_answer(in, 1u + data[0], &cut);
    CHECK(a == b && str_eq(strbuf_str(&whole), strbuf_str(&cut)));
    strbuf_release(&whole);
    strbuf_release(&cut);
    strbuf_init(&url, 4096);
    strbuf_puts(&url, "http://");
    strbuf_add(&url, in);
    (void)!http_url_parse(url.ptr, &parts, &e);
    strbuf_release(&url);
    return 0;
}
