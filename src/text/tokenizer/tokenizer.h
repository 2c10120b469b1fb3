/* tokenizer: text to token ids and back.
 *
 * One object for four kinds: byte-level BPE (GPT-2 and its heirs), BPE over characters with byte
 * fallback (Gemma), BPE by scores (SentencePiece) and Unigram (best path by score). The text of
 * an encoding passes four steps: added tokens are cut out, the rest is normalized, split by the
 * published expressions (PCRE2), and each piece is turned into ids.
 *
 * Ownership: tokenizer_new() copies everything it needs from the spec. A tokenizer is immutable:
 * any number of threads may encode and decode with it at once. Text must be valid UTF-8 (see
 * utf8_repair); ill-formed text is refused.
 * Sources: Sennrich et al. 2016 (BPE), Kudo 2018 (Unigram), and the `tokenizers` package, whose
 * ids are the reference. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

struct tokenizer;
struct tokenizer_spec; /* tokenizer_spec.h */
struct jinja_span;     /* {from, to}, text/template/jinja.h */

#define TOKEN_NONE (-1)

/* A growing list of ids. Zeroed is empty. */
struct token_list {
    int32_t *ids;
    size_t n, capacity;
};
void token_list_release(struct token_list *list);
void token_list_add(struct token_list *list, int32_t id);

MUST_CHECK enum status tokenizer_new(const struct tokenizer_spec *spec, struct tokenizer **out,
                                     struct error *err);
void tokenizer_free(struct tokenizer *t); /* NULL is allowed */

enum tokenizer_flags {
    /* Spellings of control tokens in the text become those tokens. Without it only added tokens
     * that are not control tokens (<think>, ...) are recognized. */
    TOKENIZER_PARSE_SPECIAL = 1,
    /* Adds what the tokenizer puts around a text on its own (BOS, EOS). A text that already
     * begins with BOS gets no second one. */
    TOKENIZER_ADD_SPECIAL = 2,
    TOKENIZER_NO_NFC = 4, /* leaves out Unicode normalization where the tokenizer asks for it */
};

/* Appends the ids of `text`. INVALID: ill-formed UTF-8. LIMIT: longer than 1 GiB. */
MUST_CHECK enum status tokenizer_encode(const struct tokenizer *t, struct str text, unsigned flags,
                                        struct token_list *out, struct error *err);

/* A rendered prompt. Spans (sorted, disjoint) are the bytes that came from values: no control
 * token and no markup token (<think>, <tool_call>, ...) is recognized where it would touch one,
 * everywhere else all are. Apart from that the result is that of the whole text: pieces may
 * cross the edge of a span. ADD_SPECIAL and NO_NFC apply; PARSE_SPECIAL opens the spans too. */
MUST_CHECK enum status tokenizer_encode_spans(const struct tokenizer *t, struct str text,
                                              const struct jinja_span *spans, size_t n_spans,
                                              unsigned flags, struct token_list *out,
                                              struct error *err);

/* Appends the text of all ids: one space at the start is dropped where the tokenizer put it
 * there, ill-formed parts become U+FFFD. INVALID names an id outside the vocabulary. */
MUST_CHECK enum status tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t n,
                                        struct strbuf *out, struct error *err);

/* Turns a stream of ids into text: only whole characters leave it, U+FFFD for each maximal
 * ill-formed part as soon as nothing can complete it. It continues a prompt, so a leading space
 * is kept unless `at_start` was set. */
struct detokenizer {
    const struct tokenizer *tokenizer;
    char pending[4];
    unsigned n_pending;
    bool strip_space;  /* the next space is the one that the tokenizer put in front */
    bool skip_control; /* control tokens give no text */
};
void detokenizer_init(struct detokenizer *d, const struct tokenizer *t, bool at_start,
                      bool skip_control);
/* An id outside the vocabulary gives no text. */
void detokenizer_push(struct detokenizer *d, int32_t id, struct strbuf *out);
void detokenizer_flush(struct detokenizer *d, struct strbuf *out); /* the end of the stream */

enum token_type { /* numbered as in tokenizer.ggml.token_type */
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6,
};

/* Names of tokens with a role; TOKEN_NONE where the vocabulary has none. */
enum token_role {
    TOKEN_ROLE_BOS,
    TOKEN_ROLE_EOS,
    TOKEN_ROLE_EOT,
    TOKEN_ROLE_UNKNOWN,
    TOKEN_ROLE_PAD,
    TOKEN_ROLE_MASK,
    TOKEN_N_ROLES
};

int32_t tokenizer_n_tokens(const struct tokenizer *t);
int32_t tokenizer_role(const struct tokenizer *t, enum token_role role);
enum token_type tokenizer_type(const struct tokenizer *t, int32_t id);
bool tokenizer_is_control(const struct tokenizer *t, int32_t id); /* control or unknown */
/* The spelling in the vocabulary ("Ġthe", "<0x0A>"), and the bytes that the id stands for
 * (" the", "\n"). Borrowed; empty for an id outside the vocabulary. */
struct str tokenizer_text(const struct tokenizer *t, int32_t id);
struct str tokenizer_bytes(const struct tokenizer *t, int32_t id);
int32_t tokenizer_find(const struct tokenizer *t, struct str text); /* TOKEN_NONE if absent */
/* Ids that end an answer: eos, eot and the well-known turn ends that the vocabulary has. */
size_t tokenizer_stop_ids(const struct tokenizer *t, const int32_t **ids);
/* What ADD_SPECIAL puts in front and behind. */
size_t tokenizer_prefix_ids(const struct tokenizer *t, const int32_t **ids);
size_t tokenizer_suffix_ids(const struct tokenizer *t, const int32_t **ids);
bool tokenizer_adds_bos(const struct tokenizer *t);
const char *tokenizer_kind_name(const struct tokenizer *t); /* "byte-level BPE", ... */

#endif
