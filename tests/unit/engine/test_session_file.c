/* Manifests of named sessions: what was written is read back; nothing that is wrong with one is
 * believed. And the table of them: one user at a time, damage stays damage. */
#include "unit/cmocka_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "engine/session_table.h"
#include "engine/state_file.h"

#define FILE_A "0000000000001234-0000000000000001.kv"
#define FILE_B "0000000000001234-00000000000000ff.kv"

static const struct state_shape shape = {
    .fingerprint = 0x1234,
    .page_tokens = 64,
    .n_vocab = 1000,
    .bytes = { 4096, 0, 0 },
};

static void fill(struct session_file *f)
{
    static const int32_t tokens[] = { 0, 7, 2147483647 };
    *f = (struct session_file){ .fingerprint = 0x1234, .created = 5, .updated = 9 };
    f->model = mem_string("a \"model\"", 9);
    f->tokens = mem_copy(tokens, sizeof(tokens));
    f->n_tokens = 3;
    session_file_add(f, FILE_A);
    session_file_add(f, FILE_B);
    session_file_add(f, FILE_A);
    f->client = json_pack("{s:[s]}", "messages", "hi");
}

static void names(void **state)
{
    static const char *const good[] = { "a", "7", "A.b_c-d", "a..", "0.session" };
    static const char *const bad[] = { "",      ".",   "..",   "../a", "a/b", "/a",
                                       "-a",    "_a",  ".a",   "a b",  "a\n", "\xc3\xa9",
                                       "a\x7f", "a:b", "a%2f", "a\\b" };
    struct error err;
    char longest[SESSION_NAME_MOST + 2];
    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_true(session_name_is_valid(str_of(good[i])));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(session_name_check(str_of(bad[i]), &err), STATUS_INVALID);
    assert_false(session_name_is_valid((struct str){ "a\0b", 3 }));
    memset(longest, 'x', sizeof(longest));
    assert_true(session_name_is_valid((struct str){ longest, SESSION_NAME_MOST }));
    assert_false(session_name_is_valid((struct str){ longest, SESSION_NAME_MOST + 1 }));
}

static void round_trip(void **state)
{
    struct session_file f, back, copy;
    struct strbuf text;
    struct error err;
    (void)state;
    fill(&f);
    strbuf_init(&text, 1 << 20);
    session_file_format(&f, &text);
    assert_int_equal(session_file_parse(&back, "x", strbuf_str(&text), &err), STATUS_OK);
    session_file_copy(&copy, &back);
    session_file_release(&back);
    assert_string_equal(copy.model, f.model);
    assert_true(copy.fingerprint == f.fingerprint && copy.created == 5 && copy.updated == 9);
    assert_int_equal(copy.n_tokens, 3);
    assert_memory_equal(copy.tokens, f.tokens, 3 * sizeof(int32_t));
    assert_int_equal(copy.n_files, 2);
    assert_true(session_file_has(&copy, FILE_A) && session_file_has(&copy, FILE_B));
    assert_true(json_equal(copy.client, f.client));
    strbuf_release(&text);
    session_file_release(&copy);
    session_file_release(&f);
}

/* Any one byte changed or missing is noticed. */
static void damage(void **state)
{
    struct session_file f, back;
    struct strbuf text;
    struct error err;
    (void)state;
    fill(&f);
    strbuf_init(&text, 1 << 20);
    session_file_format(&f, &text);
    for (size_t i = 0; i < text.len; i++) {
        text.ptr[i] ^= 0x11;
        assert_int_not_equal(session_file_parse(&back, "x", strbuf_str(&text), &err), STATUS_OK);
        text.ptr[i] ^= 0x11;
        struct str cut = { text.ptr, i };
        assert_int_not_equal(session_file_parse(&back, "x", cut, &err), STATUS_OK);
    }
    strbuf_release(&text);
    session_file_release(&f);
}

/* With a checksum that is right. */
static enum status parse_sealed(const char *body, size_t n)
{
    struct session_file f;
    struct strbuf text;
    struct error err;
    strbuf_init(&text, 1 << 20);
    strbuf_printf(&text, "ingot-session 1 %08lx\n", crc32(0, (const uint8_t *)body, (uInt)n));
    strbuf_append(&text, body, n);
    enum status status = session_file_parse(&f, "x", strbuf_str(&text), &err);
    if (status == STATUS_OK)
        session_file_release(&f);
    strbuf_release(&text);
    return status;
}

#define BODY(model, fingerprint, created, tokens, files) \
    "{\"model\":" model ",\"fingerprint\":" fingerprint ",\"created\":" created \
    ",\"updated\":1,\"tokens\":" tokens ",\"files\":" files "}"
#define PRINT "\"0000000000001234\""
#define FILES "[\"" FILE_A "\"]"

static void hostile(void **state)
{
    static const char *const bad[] = {
        "",
        "null",
        "[]",
        "{}",
        BODY("1", PRINT, "1", "[1]", FILES),
        BODY("\"a\\u0000b\"", PRINT, "1", "[1]", FILES),
        BODY("\"m\"", "\"1234\"", "1", "[1]", FILES),
        BODY("\"m\"", "\"000000000000123G\"", "1", "[1]", FILES),
        BODY("\"m\"", "\"000000000000123A\"", "1", "[1]", FILES),
        BODY("\"m\"", PRINT, "-1", "[1]", FILES),
        BODY("\"m\"", PRINT, "1.5", "[1]", FILES),
        BODY("\"m\"", PRINT, "\"1\"", "[1]", FILES),
        BODY("\"m\"", PRINT, "1", "[]", FILES),
        BODY("\"m\"", PRINT, "1", "{}", FILES),
        BODY("\"m\"", PRINT, "1", "[-1]", FILES),
        BODY("\"m\"", PRINT, "1", "[2147483648]", FILES),
        BODY("\"m\"", PRINT, "1", "[18446744073709551615]", FILES),
        BODY("\"m\"", PRINT, "1", "[1.0]", FILES),
        BODY("\"m\"", PRINT, "1", "[\"1\"]", FILES),
        BODY("\"m\"", PRINT, "1", "[1]", "[]"),
        BODY("\"m\"", PRINT, "1", "[1]", "\"" FILE_A "\""),
        BODY("\"m\"", PRINT, "1", "[1]", "[1]"),
        BODY("\"m\"", PRINT, "1", "[1]", "[\"../../../../../../etc/passwd\"]"),
        BODY("\"m\"", PRINT, "1", "[1]", "[\"../" FILE_A "\"]"),
        BODY("\"m\"", PRINT, "1", "[1]", "[\"" FILE_A "/\"]"),
        BODY("\"m\"", PRINT, "1", "[1]", "[\"" FILE_A "\\u0000\"]"),
        BODY("\"m\"", PRINT, "1", "[1]", "[\"0000000000009999-0000000000000001.kv\"]"),
        BODY("\"m\"", PRINT, "1", "[1]", FILES) " 1",
        BODY("\"m\"", PRINT, "1", "[1]", FILES ",\"files\":" FILES),
    };
    (void)state;
    const char *good = BODY("\"m\"", PRINT, "1", "[1]", FILES);
    assert_int_equal(parse_sealed(good, strlen(good)), STATUS_OK);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(parse_sealed(bad[i], strlen(bad[i])), STATUS_INVALID);
    char deep[4096];
    memset(deep, '[', sizeof(deep));
    assert_int_equal(parse_sealed(deep, sizeof(deep)), STATUS_INVALID);
    struct session_file f;
    struct error err;
    assert_int_equal(session_file_parse(&f, "x", STR("ingot-session 2 00000000\n{}"), &err),
                     STATUS_UNSUPPORTED);
}

static void folder_of(char *out, size_t n)
{
    snprintf(out, n, "/tmp/test_session_file.%d", (int)getpid());
    mkdir(out, 0700);
}

static void on_disk(void **state)
{
    char folder[64], sessions[128], target[128];
    struct session_file f, back;
    struct error err;
    (void)state;
    fill(&f);
    folder_of(folder, sizeof(folder));
    snprintf(sessions, sizeof(sessions), "%s/sessions", folder);
    snprintf(target, sizeof(target), "%s/target", folder);
    assert_int_equal(session_file_read(&back, sessions, "a", &err), STATUS_NOT_FOUND);
    assert_int_equal(session_file_write(&f, sessions, "a", &err), STATUS_OK);
    assert_int_equal(session_file_read(&back, sessions, "a", &err), STATUS_OK);
    session_file_release(&back);
    struct stat info;
    char *path = session_path(sessions, "a"), *link = session_path(sessions, "link");
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(symlink(path, link), 0);
    assert_int_not_equal(session_file_read(&back, sessions, "link", &err), STATUS_OK);
    assert_int_not_equal(session_file_write(&f, sessions, "link", &err), STATUS_OK);
    unlink(link);
    assert_int_equal(symlink(target, link), 0); /* to nowhere */
    assert_int_not_equal(session_file_write(&f, sessions, "link", &err), STATUS_OK);
    assert_int_not_equal(stat(target, &info), 0);
    unlink(link);
    unlink(path);
    rmdir(sessions);
    rmdir(folder);
    mem_free(path);
    mem_free(link);
    session_file_release(&f);
}

/* Of what a killed process left, only that goes which is ours. */
static void half_written(void **state)
{
    static const char *const gone = "a.session.0123456789abcdef.tmp";
    static const char *const stays[] = { "a.session", "a.session.tmp", "a.0123456789abcdef.tmp" };
    char folder[64], path[128];
    (void)state;
    folder_of(folder, sizeof(folder));
    for (size_t i = 0; i <= ARRAY_SIZE(stays); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, i ? stays[i - 1] : gone);
        fclose(fopen(path, "w"));
    }
    session_folder_clean(folder);
    snprintf(path, sizeof(path), "%s/%s", folder, gone);
    assert_int_not_equal(access(path, F_OK), 0);
    for (size_t i = 0; i < ARRAY_SIZE(stays); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, stays[i]);
        assert_int_equal(unlink(path), 0);
    }
    rmdir(folder);
}

static void one_user(void **state)
{
    struct session_table t;
    struct session *a, *b;
    struct session_file f;
    struct error err = { 0 };
    char folder[64];
    (void)state;
    session_table_init(&t, NULL, NULL, NULL);
    assert_int_equal(session_claim(&t, "a", &shape, &a, &err), STATUS_UNSUPPORTED);
    session_table_release(&t);
    folder_of(folder, sizeof(folder));
    session_table_init(&t, folder, folder, NULL);
    assert_int_equal(session_claim(&t, "../a", &shape, &a, &err), STATUS_INVALID);
    assert_int_equal(session_claim(&t, "a", &shape, &a, &err), STATUS_OK);
    assert_int_equal(session_claim(&t, "a", &shape, &b, &err), STATUS_CONFLICT);
    assert_int_equal(session_take(&t, "a", &b, &err), STATUS_CONFLICT);
    assert_int_equal(session_take_new(&t, "a", &b, &err), STATUS_CONFLICT);
    session_let_go(&t, a); /* nothing was kept */
    assert_int_equal(t.n, 0);
    assert_int_equal(session_take(&t, "a", &b, &err), STATUS_NOT_FOUND);
    assert_int_equal(session_claim(&t, "a", &shape, &a, &err), STATUS_OK);
    session_save_begin(&t, a);
    session_let_go(&t, a);
    fill(&f);
    session_save_end(&t, a, &f, NULL);
    struct state_shape other = shape;
    other.fingerprint++;
    assert_int_equal(session_claim(&t, "a", &other, &b, &err), STATUS_UNSUPPORTED);
    assert_int_equal(session_claim(&t, "a", &shape, &b, &err), STATUS_OK);
    session_table_damage(&t, "0000000000001234-0000000000000009.kv", "not this one");
    assert_int_equal(session_check(&t, b, &err), STATUS_OK);
    session_table_damage(&t, FILE_B, "broken");
    assert_int_equal(session_check(&t, b, &err), STATUS_INVALID);
    assert_non_null(strstr(err.message, "broken"));
    session_let_go(&t, b);
    assert_int_equal(session_claim(&t, "a", &shape, &b, &err), STATUS_INVALID);
    assert_int_equal(session_take(&t, "a", &b, &err), STATUS_OK);
    session_file_release(&b->file);
    session_forget(&t, b);
    session_let_go(&t, b);
    assert_int_equal(t.n, 0);
    session_table_release(&t);
    rmdir(folder);
}

/* Files that are not there: damaged, not new. */
static void missing_files(void **state)
{
    struct session_table t;
    struct session *s;
    struct session_file f;
    struct error err = { 0 };
    char folder[64], sessions[128];
    (void)state;
    folder_of(folder, sizeof(folder));
    snprintf(sessions, sizeof(sessions), "%s/sessions", folder);
    fill(&f);
    assert_int_equal(session_file_write(&f, sessions, "a", &err), STATUS_OK);
    session_table_init(&t, folder, sessions, NULL);
    for (int i = 0; i < 2; i++)
        assert_int_equal(session_claim(&t, "a", &shape, &s, &err), STATUS_INVALID);
    json_t *list = session_table_list(&t);
    assert_int_equal(json_array_size(list), 1);
    assert_non_null(json_object_get(json_array_get(list, 0), "damaged"));
    json_decref(list);
    session_table_release(&t);
    char *path = session_path(sessions, "a");
    unlink(path);
    rmdir(sessions);
    rmdir(folder);
    mem_free(path);
    session_file_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),         cmocka_unit_test(round_trip),   cmocka_unit_test(damage),
        cmocka_unit_test(hostile),       cmocka_unit_test(on_disk),      cmocka_unit_test(one_user),
        cmocka_unit_test(missing_files), cmocka_unit_test(half_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
