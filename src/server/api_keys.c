#include "server/api_keys.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/number.h"

#define PRIORITY STR("priority=")

void api_keys_init(struct api_keys *k, struct arena *arena)
{
    *k = (struct api_keys){ .arena = arena };
    k->key = arena_array(arena, struct api_key, API_KEYS_MOST);
}

/* The first word of *rest, which then begins behind it. */
static struct str next_word(struct str *rest)
{
    size_t n = 0;
    *rest = str_trim(*rest);
    while (n < rest->len && rest->ptr[n] != ' ' && rest->ptr[n] != '\t')
        n++;
    struct str word = str_slice(*rest, 0, n);
    *rest = str_slice(*rest, n, rest->len);
    return word;
}

static enum status check_key(struct str key, const char *where, struct error *err)
{
    if (key.len == 0)
        return error_set(err, STATUS_INVALID, "%s: an empty key opens nothing", where);
    if (str_starts(key, PRIORITY))
        return error_set(err, STATUS_INVALID, "%s: expected KEY [priority=N], found no key", where);
    if (key.len > API_KEY_MOST_BYTES)
        return error_set(err, STATUS_INVALID, "%s: the key has %zu bytes, at most %d are taken",
                         where, key.len, API_KEY_MOST_BYTES);
    for (size_t i = 0; i < key.len; i++)
        if (key.ptr[i] <= ' ' || key.ptr[i] > '~')
            return error_set(err, STATUS_INVALID,
                             "%s: byte %zu of the key is 0x%02x, expected printable ASCII", where,
                             i + 1, (unsigned char)key.ptr[i]);
    return STATUS_OK;
}

/* What stands there may be half of a key with a blank in it, so it is not printed. */
static enum status read_priority(struct str word, int *priority, const char *where,
                                 struct error *err)
{
    int64_t value = -1;
    bool good = str_starts(word, PRIORITY) && *priority < 0 &&
                number_parse_i64(str_slice(word, PRIORITY.len, word.len), &value) && value >= 0 &&
                value <= 9;
    *priority = (int)value;
    return good ? STATUS_OK
                : error_set(err, STATUS_INVALID,
                            "%s: expected nothing behind the key but priority=N, N from 0 to 9",
                            where);
}

enum status api_keys_add(struct api_keys *k, struct str line, const char *where, struct error *err)
{
    struct str rest = line, key = next_word(&rest), word;
    struct api_key added = { .priority = -1 };
    TRY(check_key(key, where, err));
    while ((word = next_word(&rest)).len)
        TRY(read_priority(word, &added.priority, where, err));
    for (size_t i = 0; i < k->n; i++)
        if (str_is(key, k->key[i].key))
            return error_set(err, STATUS_INVALID, "%s: the same key as %s", where, k->key[i].where);
    if (k->n == API_KEYS_MOST)
        return error_set(err, STATUS_LIMIT, "%s: more than %d keys", where, API_KEYS_MOST);
    added.key = arena_str(k->arena, key).ptr;
    added.where = arena_str(k->arena, str_of(where)).ptr;
    k->key[k->n++] = added;
    return STATUS_OK;
}

static enum status add_lines(struct api_keys *k, struct str text, const char *path,
                             struct error *err)
{
    size_t before = k->n;
    for (int line = 1; text.len; line++) {
        char where[512];
        size_t end = MIN(str_find(text, STR("\n"), 0), text.len);
        struct str found = str_trim(str_slice(text, 0, end));
        text = str_slice(text, MIN(end + 1, text.len), text.len);
        if (found.len == 0 || found.ptr[0] == '#')
            continue;
        snprintf(where, sizeof where, "%s:%d", path, line);
        TRY(api_keys_add(k, found, where, err));
    }
    return k->n > before ? STATUS_OK : error_set(err, STATUS_INVALID, "%s: holds no key", path);
}

enum status api_keys_read(struct api_keys *k, const char *path, struct error *err)
{
    struct strbuf text;
    strbuf_init(&text, API_KEYS_FILE_BYTES);
    enum status status = file_read(path, API_KEYS_FILE_BYTES, &text, err);
    if (status == STATUS_OK)
        status = add_lines(k, strbuf_str(&text), path, err);
    strbuf_release(&text);
    return status;
}
