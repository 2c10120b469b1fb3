/* Files of saved state: what was written is read back; nothing that is wrong with one is believed.
 */
#include "unit/cmocka_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "engine/state_file.h"

#define N_TOKENS 80
#define PAGE_BYTES 4096

static const struct state_shape shape = {
    .fingerprint = 0x1234,
    .page_tokens = 64,
    .n_vocab = 1000,
    .bytes = { PAGE_BYTES, 0, 100 },
};

struct sample {
    char path[64];
    uint8_t block[3][PAGE_BYTES];
    uint8_t *bytes; /* the whole file */
    size_t n;
};

static void read_whole(struct sample *s)
{
    FILE *f = fopen(s->path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    s->n = (size_t)ftell(f);
    rewind(f);
    s->bytes = mem_alloc(s->n);
    assert_int_equal(fread(s->bytes, 1, s->n, f), s->n);
    fclose(f);
}

/* Two pages, the second one of 16 tokens, and the fixed state behind them. */
static void make(struct sample *s)
{
    struct state_record record[3] = {
        { .level = 0, .n_tokens = 64, .kind = STATE_PAGED },
        { .level = 1, .n_tokens = 16, .kind = STATE_PAGED },
        { .level = 1, .n_tokens = 16, .kind = STATE_FIXED },
    };
    int32_t tokens[N_TOKENS];
    struct state_writer *w;
    struct error err = { 0 };
    for (int i = 0; i < N_TOKENS; i++)
        tokens[i] = i * 7 % 1000;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < PAGE_BYTES; k++)
            s->block[i][k] = (uint8_t)(i == 1 ? 0 : (k * 31 + k / 97 * i) & 255);
    snprintf(s->path, sizeof(s->path), "/tmp/test_state_file.%d.kv", (int)getpid());
    assert_int_equal(state_writer_open(&w, s->path, &err), STATUS_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            state_writer_add(w, &record[i], s->block[i], (size_t)shape.bytes[record[i].kind], &err),
            STATUS_OK);
    int64_t n;
    assert_int_equal(state_writer_commit(w, &shape, tokens, N_TOKENS, record, 3, &n, &err),
                     STATUS_OK);
    read_whole(s);
    assert_int_equal(n, s->n);
}

static void drop(struct sample *s)
{
    unlink(s->path);
    mem_free(s->bytes);
}

static void round_trip(void **state)
{
    (void)state;
    struct sample s;
    struct state_file f;
    struct error err = { 0 };
    make(&s);
    assert_int_equal(state_file_open(&f, s.path, &shape, &err), STATUS_OK);
    assert_int_equal(f.n_tokens, N_TOKENS);
    assert_int_equal(f.n_records, 3);
    assert_int_equal(f.tokens[79], 79 * 7 % 1000);
    struct state_reader *r = state_reader_new();
    uint8_t out[PAGE_BYTES];
    for (int i = 0; i < 3; i++) {
        size_t n = (size_t)shape.bytes[f.record[i].kind];
        assert_int_equal(state_reader_read(r, s.path, &f.record[i], out, n, &err), STATUS_OK);
        assert_memory_equal(out, s.block[i], n);
    }
    /* A page of zeros takes next to nothing. */
    assert_true(f.record[1].bytes < 64);
    /* Another length than the frame's. */
    assert_int_equal(state_reader_read(r, s.path, &f.record[2], out, 99, &err), STATUS_INVALID);
    assert_int_equal(state_reader_read(r, s.path, &f.record[2], out, 101, &err), STATUS_INVALID);
    state_reader_free(r);
    state_file_release(&f);
    drop(&s);
}

/* Every byte of the index and its ends is covered by a check. */
static void every_byte(void **state)
{
    (void)state;
    struct sample s;
    struct error err = { 0 };
    make(&s);
    struct state_file f;
    assert_int_equal(state_file_parse(&f, "sample", s.bytes, s.n, &shape, &err), STATUS_OK);
    size_t frames_end = (size_t)(f.record[2].offset + f.record[2].bytes);
    state_file_release(&f);
    for (size_t i = 0; i < s.n; i++) {
        if (i == 12)
            i = frames_end; /* frames have checksums of their own */
        s.bytes[i] ^= 0x40;
        enum status status = state_file_parse(&f, "sample", s.bytes, s.n, &shape, &err);
        if (status == STATUS_OK)
            fail_msg("byte %zu of %zu is not checked", i, s.n);
        s.bytes[i] ^= 0x40;
    }
    for (size_t n = 0; n < s.n; n++)
        assert_int_not_equal(state_file_parse(&f, "sample", s.bytes, n, &shape, &err), STATUS_OK);
    drop(&s);
}

static void pages_are_checked(void **state)
{
    (void)state;
    struct sample s;
    struct state_file f;
    struct error err = { 0 };
    uint8_t out[PAGE_BYTES];
    make(&s);
    assert_int_equal(state_file_open(&f, s.path, &shape, &err), STATUS_OK);
    for (int64_t at = f.record[0].offset; at < f.record[0].offset + f.record[0].bytes; at += 37) {
        FILE *file = fopen(s.path, "r+b");
        fseek(file, at, SEEK_SET);
        fputc(s.bytes[at] ^ 1, file);
        fclose(file);
        struct state_reader *r = state_reader_new();
        enum status status = state_reader_read(r, s.path, &f.record[0], out, PAGE_BYTES, &err);
        if (status == STATUS_OK)
            assert_memory_equal(out, s.block[0], PAGE_BYTES); /* a bit without meaning */
        state_reader_free(r);
        file = fopen(s.path, "r+b");
        fseek(file, at, SEEK_SET);
        fputc(s.bytes[at], file);
        fclose(file);
    }
    state_file_release(&f);
    drop(&s);
}

static void put(uint8_t *at, uint64_t value, int n)
{
    for (int i = 0; i < n; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* Indexes that say something impossible under a right checksum. */
static void lies(void **state)
{
    (void)state;
    struct sample s;
    make(&s);
    size_t index_bytes = 56 + 4 * N_TOKENS + 3 * 32, index = s.n - 16 - index_bytes;
    size_t record = index + 56 + 4 * N_TOKENS;
    const struct {
        size_t at;
        uint64_t value;
        int n;
        const char *says;
    } lie[] = {
        { index, 99, 8, "another model" },
        { index + 16, 4097, 8, "bytes of a block" },
        { index + 24, 1, 8, "bytes of a block" },
        { index + 40, 32, 4, "tokens of a page" },
        { index + 44, UINT32_MAX, 4, "bytes of its index" },
        { index + 48, UINT32_MAX, 4, "bytes of its index" },
        { index + 48, 0, 4, "bytes of its index" },
        { index + 56, 1000, 4, "a token below" },
        { index + 56, UINT32_MAX, 4, "a token below" },
        { record, 5, 4, "does not fit" },
        { record, UINT32_MAX, 4, "out of range" },
        { record + 4, 0, 4, "does not fit" },
        { record + 4, 65, 4, "does not fit" },
        { record + 8, 1, 4, "does not fit" }, /* a kind that the model has not */
        { record + 8, 3, 4, "out of range" },
        { record + 16, 0, 8, "does not fit" },
        { record + 16, UINT64_MAX, 8, "out of range" },
        { record + 16, INT64_MAX, 8, "does not fit" },
        { record + 24, 0, 8, "does not fit" },
        { record + 24, INT64_MAX, 8, "does not fit" },
        { record + 32, 0, 4, "does not fit" }, /* the first one again */
    };
    for (size_t i = 0; i < ARRAY_SIZE(lie); i++) {
        struct state_file f;
        struct error err = { 0 };
        uint8_t *copy = mem_copy(s.bytes, s.n);
        put(copy + lie[i].at, lie[i].value, lie[i].n);
        put(copy + s.n - 16, (uint32_t)crc32(0, copy + index, (uInt)index_bytes), 4);
        assert_int_not_equal(state_file_parse(&f, "sample", copy, s.n, &shape, &err), STATUS_OK);
        if (!strstr(err.message, lie[i].says))
            fail_msg("case %zu: expected '%s', found '%s'", i, lie[i].says, err.message);
        mem_free(copy);
    }
    drop(&s);
}

/* What the fuzzer starts from is believed. */
static void seeds(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        int32_t n_tokens, n_records;
    } seed[] = {
        { "fuzz/corpus/state_file/two_pages", 80, 3 },
        { "fuzz/corpus/state_file/later_page", 130, 2 },
        { "fuzz/corpus/state_file/no_records", 3, 0 },
    };
    for (size_t i = 0; i < ARRAY_SIZE(seed); i++) {
        struct state_file f;
        struct error err = { 0 };
        if (state_file_open(&f, seed[i].path, &shape, &err) != STATUS_OK)
            fail_msg("%s", err.message);
        assert_int_equal(f.n_tokens, seed[i].n_tokens);
        assert_int_equal(f.n_records, seed[i].n_records);
        state_file_release(&f);
    }
}

static void other_files(void **state)
{
    (void)state;
    struct sample s;
    struct state_file f;
    struct error err = { 0 };
    make(&s);
    assert_int_equal(state_file_open(&f, "/nowhere/x.kv", &shape, &err), STATUS_NOT_FOUND);
    assert_int_not_equal(state_file_open(&f, "/tmp", &shape, &err), STATUS_OK);
    char link[80];
    snprintf(link, sizeof(link), "%s.link", s.path);
    assert_int_equal(symlink(s.path, link), 0);
    assert_int_not_equal(state_file_open(&f, link, &shape, &err), STATUS_OK);
    unlink(link);
    drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),        cmocka_unit_test(every_byte),
        cmocka_unit_test(pages_are_checked), cmocka_unit_test(lies),
        cmocka_unit_test(seeds),             cmocka_unit_test(other_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
