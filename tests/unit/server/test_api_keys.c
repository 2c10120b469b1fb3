/* Keys and their priorities, from lines and files; what is wrong with one, without saying it. */
#include "unit/cmocka_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "server/api_keys.h"

static void lines(void **state)
{
    (void)state;
    static const struct {
        const char *line, *key;
        int priority;
    } cases[] = {
        { "secret", "secret", -1 },    { "  s  ", "s", -1 }, { "a priority=0", "a", 0 },
        { "b\t priority=9 ", "b", 9 }, { "#c", "#c", -1 }, /* a comment only in a file */
    };
    struct arena arena;
    struct api_keys k;
    struct error err = { 0 };
    arena_init(&arena, 0);
    api_keys_init(&k, &arena);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (api_keys_add(&k, str_of(cases[i].line), "here", &err) != STATUS_OK)
            fail_msg("%s: %s", cases[i].line, err.message);
        assert_string_equal(k.key[i].key, cases[i].key);
        assert_int_equal(k.key[i].priority, cases[i].priority);
    }
    assert_int_equal(k.n, ARRAY_SIZE(cases));
    arena_release(&arena);
}

/* Returns the message; NULL: it was read. */
static const char *read_text(struct str text, struct api_keys *k, struct error *err)
{
    char path[] = "/tmp/ingot-keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text.ptr, text.len) == (ssize_t)text.len);
    close(fd);
    enum status status = api_keys_read(k, path, err);
    unlink(path);
    return status == STATUS_OK ? NULL : err->message;
}

static void files(void **state)
{
    (void)state;
    struct arena arena;
    struct api_keys k;
    struct error err = { 0 };
    arena_init(&arena, 0);
    api_keys_init(&k, &arena);
    assert_null(read_text(STR("# ours\r\n\r\none priority=3\r\n   \ntwo"), &k, &err));
    assert_int_equal(k.n, 2);
    assert_string_equal(k.key[0].key, "one");
    assert_int_equal(k.key[0].priority, 3);
    assert_string_equal(k.key[1].key, "two");
    arena_release(&arena);
}

#define BAD(text, told) { { text, sizeof(text) - 1 }, told }

static void hostile(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        const char *told;
    } cases[] = {
        BAD("", "holds no key"),
        BAD("\n\n# nothing\n", "holds no key"),
        BAD("ok\nhush priority=10\n", ":2: expected nothing behind the key but priority=N"),
        BAD("hush priority=-1", ":1: expected nothing behind"),
        BAD("hush priority=", ":1: expected nothing behind"),
        BAD("hush priority=3 priority=3", ":1: expected nothing behind"),
        BAD("hush hush", ":1: expected nothing behind"),
        BAD("hush priority=99999999999999999999", ":1: expected nothing behind"),
        BAD("\n\npriority=3", ":3: expected KEY [priority=N], found no key"),
        BAD("hu\0sh", ":1: byte 3 of the key is 0x00"),
        BAD("\0\0\0\0", ":1: byte 1 of the key is 0x00"),
        BAD("hush priority=3\0", ":1: expected nothing behind"),
        BAD("hush\x7f", ":1: byte 5 of the key is 0x7f"),
        BAD("\xef\xbb\xbfhush", ":1: byte 1 of the key is 0xef"),
        BAD("ok\nhush\n\nhush priority=2\n", ":4: the same key as"),
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct arena arena;
        struct api_keys k;
        struct error err = { 0 };
        arena_init(&arena, 0);
        api_keys_init(&k, &arena);
        const char *message = read_text(cases[i].text, &k, &err);
        if (!message || !strstr(message, cases[i].told) || strstr(message, "hush"))
            fail_msg("%zu: %s", i, message ? message : "was read");
        arena_release(&arena);
    }
}

static void limits(void **state)
{
    (void)state;
    struct arena arena;
    struct api_keys k;
    struct error err = { 0 };
    char *text = mem_alloc(API_KEYS_FILE_BYTES + 1);
    memset(text, 'x', API_KEYS_FILE_BYTES + 1);
    arena_init(&arena, 0);
    api_keys_init(&k, &arena);
    assert_null(read_text((struct str){ text, API_KEY_MOST_BYTES }, &k, &err));
    const char *message = read_text((struct str){ text, API_KEY_MOST_BYTES + 1 }, &k, &err);
    assert_non_null(message);
    assert_non_null(strstr(message, ":1: the key has 1025 bytes, at most 1024"));
    assert_null(strstr(message, "xxx"));
    assert_non_null(read_text((struct str){ text, API_KEYS_FILE_BYTES + 1 }, &k, &err));
    for (int i = 1; i < API_KEYS_MOST; i++) {
        snprintf(text, 16, "%d", i);
        assert_int_equal(api_keys_add(&k, str_of(text), "here", &err), STATUS_OK);
    }
    assert_int_equal(api_keys_add(&k, STR("more"), "here", &err), STATUS_LIMIT);
    assert_int_equal(api_keys_add(&k, STR(""), "here", &err), STATUS_INVALID);
    assert_int_equal(api_keys_add(&k, STR(" \t"), "here", &err), STATUS_INVALID);
    mem_free(text);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines),
        cmocka_unit_test(files),
        cmocka_unit_test(hostile),
        cmocka_unit_test(limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
