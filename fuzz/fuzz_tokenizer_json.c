/* tokenizer.json of any content: refused, or a tokenizer that encodes without harm. */
#include <stdint.h>

#include "text/tokenizer/tokenizer_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    struct tokenizer *t;
    struct str text = { (const char *)data, size };
    if (tokenizer_from_json(text, (struct str){ "", 0 }, &t, &err) != STATUS_OK)
        return 0;
    struct token_list ids = { 0 };
    struct strbuf back;
    strbuf_init(&back, 1 << 20);
    struct str sample = STR("The <|im_start|> w\xC3\xB6rld  \n\n 123 \xE4\xBD\xA0\xE5\xA5\xBD");
    if (tokenizer_encode(t, sample, TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_SPECIAL, &ids, &err) ==
            STATUS_OK &&
        tokenizer_decode(t, ids.ids, ids.n, &back, &err) != STATUS_OK)
        __builtin_trap(); /* an id outside the vocabulary */
    strbuf_release(&back);
    token_list_release(&ids);
    tokenizer_free(t);
    return 0;
}
