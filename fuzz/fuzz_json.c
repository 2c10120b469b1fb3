/* Seeds: fuzz/corpus/json. What is parsed has to be written as JSON that parses again. */
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = { (const char *)data + 1, size ? size - 1 : 0 };
    struct strbuf out;
    struct error e;
    json_t *value, *again;
    uint64_t n;
    if (size == 0 || json_parse(text, data[0] & 7, &value, &e) != STATUS_OK)
        return 0;
    (void)json_get_u64(text, value, "seed", &n);
    strbuf_init(&out, SIZE_MAX);
    json_write(&out, value);
    CHECK(json_parse(strbuf_str(&out), JSON_STRICT_UTF8, &again, &e) == STATUS_OK);
    json_decref(again);
    json_decref(value);
    strbuf_release(&out);
    return 0;
}
