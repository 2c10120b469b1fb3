/* Characters of strings, items of whatever can be walked. */
#include "base/utf8.h"
#include "text/template/jinja_value.h"

size_t jstr_chars(struct jstr *s)
{
    if (s->n_chars == JSTR_UNCOUNTED)
        s->n_chars = utf8_count(jstr_str(s));
    return s->n_chars;
}

size_t jstr_offset(struct jstr *s, size_t n_chars)
{
    size_t total = jstr_chars(s);
    if (n_chars >= total)
        return s->len;
    if (total == s->len)
        return n_chars;
    size_t at = 0;
    for (; n_chars; n_chars--)
        do
            at++;
        while (at < s->len && ((unsigned char)s->ptr[at] & 0xC0) == 0x80);
    return at;
}

/* --- walking -------------------------------------------------------------------------------- */

struct jv jiter_init(struct jinja *r, struct jiter *it, struct jv v)
{
    *it = (struct jiter){ .source = v, .counted = true };
    if (!jv_is_iterable(v))
        return jv_fail(r, JINJA_FAILURE_VALUE, "'%s' object is not iterable", jv_type_name(v));
    if (v.kind == JV_GENERATOR || v.kind == JV_LOOP) {
        it->counted = false;
        return v.kind == JV_LOOP
                   ? jv_fail(r, JINJA_FAILURE_VALUE, "a loop cannot be walked a second time")
                   : jv_none();
    }
    JV_TRY(n, jv_length(r, v));
    it->n = (size_t)n.i;
    return jv_none();
}

static bool entry_item(struct jinja *r, const struct jentry *e, unsigned kind, struct jv *item)
{
    if (kind != JV_ITEMS) {
        *item = kind == JV_VALUES ? e->value : e->key;
        return true;
    }
    struct jlist *pair = jlist_new(r, 2);
    if (!pair)
        return false;
    pair->n = 2;
    pair->items[0] = e->key;
    pair->items[1] = e->value;
    *item = (struct jv){ .kind = JV_TUPLE, .list = pair };
    return true;
}

static bool string_item(struct jinja *r, struct jiter *it, struct jv *item)
{
    struct jstr *s = it->source.s;
    if (it->at >= s->len)
        return false;
    uint32_t c;
    size_t n = it->source.kind == JV_BYTES ? 1 : utf8_decode(s->ptr + it->at, s->len - it->at, &c);
    *item = it->source.kind == JV_BYTES ? jv_int((unsigned char)s->ptr[it->at])
                                        : jv_slice(r, s, it->at, it->at + n);
    it->at += n;
    return !JV_IS_FAILURE(*item);
}

bool jiter_next(struct jinja *r, struct jiter *it, struct jv *item)
{
    struct jv source = it->source;
    if (!jinja_step(r, 1))
        return false;
    switch (source.kind) {
    case JV_STRING:
    case JV_BYTES:
        return string_item(r, it, item);
    case JV_LIST:
    case JV_TUPLE:
        if (it->at >= source.list->n)
            return false;
        *item = source.list->items[it->at++];
        return true;
    case JV_GENERATOR:
        if (source.list->taken >= source.list->n)
            return false;
        *item = source.list->items[source.list->taken++];
        return true;
    case JV_DICT:
    case JV_KEYS:
    case JV_VALUES:
    case JV_ITEMS:
        return it->at < source.dict->n &&
               entry_item(r, &source.dict->entries[it->at++], source.kind, item);
    case JV_RANGE:
        if (it->at >= source.range->n)
            return false;
        *item = jv_int(source.range->start + (int64_t)it->at++ * source.range->step);
        return true;
    default:
        return false;
    }
}

struct jv jv_list_of(struct jinja *r, struct jv v)
{
    struct jiter it;
    JV_TRY(started, jiter_init(r, &it, v));
    struct jlist *l = jlist_new(r, it.n);
    struct jv item;
    while (l && jiter_next(r, &it, &item))
        if (!jlist_push(r, l, item))
            break;
    return r->failure ? (struct jv){ .kind = JV_FAILURE } : jv_of_list(l);
}
