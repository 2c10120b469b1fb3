#include "cli/thought_filter.h"

void thought_filter_init(struct thought_filter *f, bool inside,
                         void (*emit)(void *user, struct str text, bool is_thought), void *user)
{
    *f = (struct thought_filter){ .inside = inside, .emit = emit, .user = user };
    strbuf_init(&f->held, SIZE_MAX / 2);
}

/* Bytes at the end of `text` that begin `mark` and could become it. */
static size_t undecided(struct str text, struct str mark)
{
    size_t n = text.len < mark.len ? text.len : mark.len - 1;
    while (n > 0 && !str_starts(mark, str_slice(text, text.len - n, text.len)))
        n--;
    return n;
}

static void emit(struct thought_filter *f, struct str text)
{
    if (text.len > 0)
        f->emit(f->user, text, f->inside);
}

void thought_filter_push(struct thought_filter *f, struct str text)
{
    strbuf_add(&f->held, text);
    struct str rest = strbuf_str(&f->held);
    for (;;) {
        struct str mark = f->inside ? STR("</think>") : STR("<think>");
        size_t at = str_find(rest, mark, 0);
        if (at == STR_NONE) {
            size_t kept = undecided(rest, mark);
            emit(f, str_slice(rest, 0, rest.len - kept));
            rest = str_slice(rest, rest.len - kept, rest.len);
            break;
        }
        emit(f, str_slice(rest, 0, at));
        f->inside = !f->inside;
        rest = str_slice(rest, at + mark.len, rest.len);
    }
    char tail[16];
    memcpy(tail, rest.ptr, rest.len); /* shorter than a mark */
    strbuf_clear(&f->held);
    strbuf_append(&f->held, tail, rest.len);
}

void thought_filter_finish(struct thought_filter *f)
{
    emit(f, strbuf_str(&f->held));
    strbuf_release(&f->held);
}
