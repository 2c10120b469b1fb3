/* Seeds: fuzz/corpus/session_file. The checksum is made right, so that the rest is reached. */
#include <stdio.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "base/strbuf.h"
#include "engine/session_file.h"

#define HEAD_BYTES 25

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(struct str text)
{
    struct session_file f, again;
    struct error e;
    struct strbuf out;
    if (session_file_parse(&f, "input", text, &e) != STATUS_OK)
        return;
    strbuf_init(&out, SESSION_FILE_MOST);
    session_file_format(&f, &out);
    CHECK(session_file_parse(&again, "output", strbuf_str(&out), &e) == STATUS_OK);
    strbuf_release(&out);
    session_file_release(&again);
    session_file_release(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse((struct str){ (const char *)data, size });
    if (size < HEAD_BYTES)
        return 0;
    struct strbuf sealed;
    strbuf_init(&sealed, size + 1);
    strbuf_printf(&sealed, "ingot-session 1 %08lx\n",
                  crc32(0, data + HEAD_BYTES, (uInt)(size - HEAD_BYTES)));
    strbuf_append(&sealed, data + HEAD_BYTES, size - HEAD_BYTES);
    parse(strbuf_str(&sealed));
    strbuf_release(&sealed);
    return 0;
}
