/* normalizer: what happens to a stretch of text before it is split: Unicode normalization and
 * replacements. Immutable after normalizer_init().
 * Source: Unicode 15.0, chapter 3.11 and UAX 15. */
#ifndef TEXT_NORMALIZER_H
#define TEXT_NORMALIZER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "text/tokenizer/tokenizer_spec.h"

/* A byte buffer that is written from the start each time. */
struct text_buffer {
    char *ptr;
    size_t len, capacity;
};
void text_buffer_release(struct text_buffer *b);
void text_buffer_add(struct text_buffer *b, const char *bytes, size_t n);

struct normalizer {
    struct normalizer_step *steps; /* their texts lie in `texts` */
    size_t n;
    char *texts;
};

MUST_CHECK enum status normalizer_init(struct normalizer *z, const struct tokenizer_spec *spec,
                                       struct error *err);
void normalizer_release(struct normalizer *z);

/* The normalized text: either `text` itself or one of the buffers. `first`: the stretch lies at
 * the start of the whole text. */
struct str normalizer_run(const struct normalizer *z, struct str text, bool first, bool no_nfc,
                          struct text_buffer buffers[2]);

/* Appends NFC (or NFKC) of valid UTF-8; time is linear whatever the order of marks. */
void unicode_compose(struct str text, bool compatibility, struct text_buffer *out);
/* True: `text` is in NFC. False: it may not be. */
bool unicode_is_composed(struct str text);

#endif
