/* GGUF: values and getters, what the writer writes is read back, split archives, files that change
 * while they are open. All files are made here. */
#include "unit/cmocka_setup.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/mem.h"
#include "formats/gguf.h"
#include "formats/gguf_write.h"

#define MUST(call)                                                                     \
    do {                                                                               \
        if ((call) != STATUS_OK)                                                       \
            fail_msg("%s: %s", #call, e.message);                                      \
    } while (0)
#define REFUSED(call, mentions)                                                        \
    do {                                                                               \
        assert_int_not_equal(call, STATUS_OK);                                         \
        if (!strstr(e.message, mentions))                                              \
            fail_msg("\"%s\" does not mention \"%s\"", e.message, mentions);           \
    } while (0)

static char folder[] = "/tmp/ingot-gguf-XXXXXX";
static struct error e;

static char *in_folder(const char *name)
{
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static int count_files(void)
{
    DIR *d = opendir(folder);
    int n = -2;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void put_some_metadata(struct gguf_writer *w)
{
    static const int32_t ints[] = { -1, 2, 3 };
    static const float floats[] = { 0.5f, -2 };
    const struct str words[] = { STR("a"), STR(""), STR("\xc3\xa9\xc3\xa9") };
    MUST(gguf_writer_put_str(w, "general.architecture", STR("test"), &e));
    MUST(gguf_writer_put_u32(w, "test.block_count", 3, &e));
    MUST(gguf_writer_put_u64(w, "x.u64", UINT64_MAX, &e));
    MUST(gguf_writer_put_i32(w, "x.i32", -7, &e));
    MUST(gguf_writer_put_f32(w, "x.f32", 1.5f, &e));
    MUST(gguf_writer_put_bool(w, "x.bool", true, &e));
    MUST(gguf_writer_put_array(w, "x.ints", GGUF_I32, ints, 3, &e));
    MUST(gguf_writer_put_array(w, "x.floats", GGUF_F32, floats, 2, &e));
    MUST(gguf_writer_put_strings(w, "x.words", words, 3, &e));
    MUST(gguf_writer_put_strings(w, "x.none", words, 0, &e));
}

static void write_tensor(struct gguf_writer *w, const char *name, size_t n)
{
    uint8_t *bytes = mem_alloc(n);
    memset(bytes, name[0], n);
    MUST(gguf_writer_write(w, bytes, n / 3, &e));
    MUST(gguf_writer_write(w, bytes, n - n / 3, &e));
    mem_free(bytes);
}

/* "a": F32 [3][5], "b": Q8_0 [2][64], "c": one I32. */
static void write_file(const char *path, uint32_t alignment)
{
    struct gguf_writer *w;
    MUST(gguf_writer_open(&w, path, alignment, &e));
    put_some_metadata(w);
    MUST(gguf_writer_declare(w, STR("a"), TENSOR_TYPE_F32, 2, (int64_t[]){ 3, 5 }, &e));
    MUST(gguf_writer_declare(w, STR("b"), TENSOR_TYPE_Q8_0, 2, (int64_t[]){ 2, 64 }, &e));
    MUST(gguf_writer_declare(w, STR("c"), TENSOR_TYPE_I32, 0, NULL, &e));
    write_tensor(w, "a", 60);
    write_tensor(w, "b", 136);
    assert_false(file_exists(path));
    REFUSED(gguf_writer_finish(w, &e), "\"c\"");
    write_tensor(w, "c", 4);
    MUST(gguf_writer_finish(w, &e));
    gguf_writer_free(w);
}

static void check_metadata(const struct gguf *g)
{
    uint64_t u;
    int64_t i;
    double d;
    bool b;
    struct str s, words[3];
    const struct gguf_value *v;
    MUST(gguf_get_u64(g, "x.u64", &u, &e));
    assert_true(u == UINT64_MAX);
    REFUSED(gguf_get_i64(g, "x.u64", &i, &e), "x.u64");
    MUST(gguf_get_i64(g, "x.i32", &i, &e));
    assert_int_equal(i, -7);
    REFUSED(gguf_get_u64(g, "x.i32", &u, &e), "int32 -7");
    MUST(gguf_get_f64(g, "x.f32", &d, &e));
    assert_true(d == 1.5);
    MUST(gguf_get_f64(g, "x.u64", &d, &e));
    assert_true(d == 0x1p64);
    MUST(gguf_get_bool(g, "x.bool", &b, &e));
    assert_true(b);
    REFUSED(gguf_get_bool(g, "x.i32", &b, &e), "expected a bool");
    REFUSED(gguf_get_u64(g, "general.architecture", &u, &e), "string \"test\"");
    REFUSED(gguf_get_u64(g, "x.ints", &u, &e), "array of 3 int32");
    assert_int_equal(gguf_get_u64(g, "no.such", &u, &e), STATUS_NOT_FOUND);
    REFUSED(gguf_get_array(g, "x.ints", GGUF_F32, &v, &e), "array of float32");
    MUST(gguf_get_array(g, "x.ints", GGUF_I32, &v, &e));
    assert_true(gguf_value_i64(v, 0, &i) && i == -1);
    assert_false(gguf_value_i64(v, 3, &i));
    assert_false(gguf_value_u64(v, 0, &u));
    MUST(gguf_get_array(g, "x.words", GGUF_STRING, &v, &e));
    assert_true(gguf_strings(v, words));
    assert_true(str_is(words[0], "a") && words[1].len == 0);
    assert_true(str_is(words[2], "\xc3\xa9\xc3\xa9"));
    assert_false(gguf_strings(gguf_find(g, "x.ints"), words));
    assert_int_equal(gguf_find(g, "x.none")->count, 0);
    MUST(gguf_get_str(g, "general.architecture", &s, &e));
    assert_true(str_is(s, "test"));
    assert_true(gguf_value_u64(gguf_find_arch(g, "block_count"), 0, &u) && u == 3);
    assert_null(gguf_find_arch(g, "nothing"));
}

static void check_tensors(const struct gguf *g, uint32_t alignment)
{
    static const char *const names[] = { "a", "b", "c" };
    static const size_t sizes[] = { 60, 136, 4 };
    assert_int_equal(g->weights.n_tensors, 3);
    for (int i = 0; i < 3; i++) {
        const struct weight_tensor *t = weight_file_find(&g->weights, str_of(names[i]));
        assert_non_null(t);
        assert_int_equal(t->n_bytes, sizes[i]);
        assert_int_equal((uintptr_t)t->bytes % MIN(alignment, 4096u), 0);
        assert_int_equal(t->bytes[0], names[i][0]);
        assert_int_equal(t->bytes[t->n_bytes - 1], names[i][0]);
        weight_file_forget(&g->weights, t, 0, (t)->n_bytes);
    }
    const struct weight_tensor *b = weight_file_find(&g->weights, STR("b"));
    assert_int_equal(b->n_dims, 2);
    assert_int_equal(b->dim[0], 2);
    assert_int_equal(b->dim[1], 64);
    assert_int_equal(weight_tensor_elements(b), 128);
    assert_false(weight_file_damaged(&g->weights));
}

static void round_trip(void **state)
{
    (void)state;
    static const uint32_t alignments[] = { 0, 8, 64, 1 << 16 };
    static const char *const except[] = { "x.i32", NULL };
    for (size_t k = 0; k < ARRAY_SIZE(alignments); k++) {
        char *path = in_folder("a.gguf"), *copy = in_folder("b.gguf");
        write_file(path, alignments[k]);
        assert_int_equal(count_files(), 1);
        struct gguf g, again;
        MUST(gguf_open(&g, path, &e));
        assert_int_equal(g.alignment, alignments[k] ? alignments[k] : 32);
        check_metadata(&g);
        check_tensors(&g, g.alignment);
        struct gguf_writer *w;
        MUST(gguf_writer_open(&w, copy, 0, &e));
        MUST(gguf_writer_put_u32(w, "test.block_count", 9, &e));
        MUST(gguf_writer_copy_metadata(w, &g, except, &e));
        MUST(gguf_writer_finish(w, &e));
        gguf_writer_free(w);
        MUST(gguf_open(&again, copy, &e));
        uint64_t u;
        MUST(gguf_get_u64(&again, "test.block_count", &u, &e));
        assert_int_equal(u, 9);
        assert_null(gguf_find(&again, "x.i32"));
        assert_int_equal(again.n_pairs, 9);
        assert_int_equal(again.weights.n_tensors, 0);
        gguf_close(&again);
        gguf_close(&g);
        unlink(path);
        unlink(copy);
    }
}

static void writer_refuses(void **state)
{
    (void)state;
    struct gguf_writer *w;
    int64_t bad[] = { 2, 33 };
    REFUSED(gguf_writer_open(&w, in_folder("w.gguf"), 24, &e), "alignment");
    REFUSED(gguf_writer_open(&w, in_folder("no/w.gguf"), 0, &e), "no/w.gguf");
    MUST(gguf_writer_open(&w, in_folder("w.gguf"), 0, &e));
    MUST(gguf_writer_put_u32(w, "k", 1, &e));
    REFUSED(gguf_writer_put_u32(w, "k", 1, &e), "there already");
    REFUSED(gguf_writer_put_u32(w, "", 1, &e), "UTF-8");
    REFUSED(gguf_writer_put_u32(w, "\xff", 1, &e), "\\xff");
    REFUSED(gguf_writer_put_array(w, "arr", GGUF_U64, NULL, UINT64_MAX / 4, &e), "arr");
    struct gguf_value broken = { GGUF_STRING, true, 2, (const uint8_t *)"\1\0\0\0\0\0\0\0a", 9 };
    REFUSED(gguf_writer_put(w, "broken", &broken, &e), "broken");
    REFUSED(gguf_writer_declare(w, STR("t"), TENSOR_TYPE_Q8_0, 2, bad, &e), "33");
    REFUSED(gguf_writer_declare(w, STR("t"), TENSOR_TYPE_F8_E4M3, 1, bad, &e), "F8_E4M3");
    REFUSED(gguf_writer_declare(w, STR("t"), TENSOR_TYPE_F32, 5, bad, &e), "5 dimensions");
    REFUSED(gguf_writer_declare(w, STR("t"), TENSOR_TYPE_F32, 1, (int64_t[]){ 0 }, &e), "is 0");
    REFUSED(gguf_writer_declare(w, STR("t"), TENSOR_TYPE_F32, 2,
                                (int64_t[]){ INT64_MAX, 3 }, &e), "63 bits");
    MUST(gguf_writer_declare(w, STR("t"), TENSOR_TYPE_F32, 1, (int64_t[]){ 2 }, &e));
    REFUSED(gguf_writer_declare(w, STR("t"), TENSOR_TYPE_F32, 1, (int64_t[]){ 2 }, &e), "there");
    REFUSED(gguf_writer_write(w, "123456789", 9, &e), "\"t\"");
    MUST(gguf_writer_write(w, "12345678", 8, &e));
    REFUSED(gguf_writer_write(w, "1", 1, &e), "last tensor");
    REFUSED(gguf_writer_put_u32(w, "late", 1, &e), "written already");
    gguf_writer_free(w);
    assert_int_equal(count_files(), 0);
}

/* A limit on the file size stands for a full disk: write() fails in the same place. */
static int write_beyond_limit(void)
{
    struct rlimit limit = { 4096, 4096 };
    signal(SIGXFSZ, SIG_IGN);
    struct gguf_writer *w;
    static uint8_t bytes[8192];
    int64_t dim[] = { 2048 };
    if (gguf_writer_open(&w, in_folder("full.gguf"), 0, &e) != STATUS_OK ||
        gguf_writer_declare(w, STR("t"), TENSOR_TYPE_F32, 1, dim, &e) != STATUS_OK ||
        setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 1;
    if (gguf_writer_write(w, bytes, sizeof(bytes), &e) != STATUS_IO ||
        !strstr(e.message, "full.gguf"))
        return 2;
    if (gguf_writer_finish(w, &e) == STATUS_OK)
        return 3;
    gguf_writer_free(w);
    return count_files();
}

static int in_child(int (*body)(void))
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(body());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void full_disk(void **state)
{
    (void)state;
    assert_int_equal(in_child(write_beyond_limit), 0);
    assert_int_equal(count_files(), 0);
}

static void put_u16(struct gguf_writer *w, const char *key, uint16_t v)
{
    struct gguf_value value = { GGUF_U16, false, 1, (const uint8_t *)&v, 2 };
    MUST(gguf_writer_put(w, key, &value, &e));
}

/* One part with the tensor `name`, or none where it is NULL. */
static void write_part(const char *path, int no, int count, int n_all, const char *name)
{
    struct gguf_writer *w;
    MUST(gguf_writer_open(&w, path, 0, &e));
    put_u16(w, "split.no", (uint16_t)no);
    put_u16(w, "split.count", (uint16_t)count);
    MUST(gguf_writer_put_i32(w, "split.tensors.count", n_all, &e));
    if (no == 0)
        MUST(gguf_writer_put_str(w, "general.architecture", STR("test"), &e));
    if (name) {
        MUST(gguf_writer_declare(w, str_of(name), TENSOR_TYPE_F32, 1, (int64_t[]){ 8 }, &e));
        write_tensor(w, name, 32);
    }
    MUST(gguf_writer_finish(w, &e));
    gguf_writer_free(w);
}

static void split_archive(void **state)
{
    (void)state;
    char *first = in_folder("m-00001-of-00003.gguf"), *second = in_folder("m-00002-of-00003.gguf");
    char *third = in_folder("m-00003-of-00003.gguf");
    struct gguf g;
    write_part(first, 0, 3, 2, NULL);
    write_part(second, 1, 3, 2, "x");
    REFUSED(gguf_open(&g, first, &e), "m-00003-of-00003.gguf: part 3 of 3");
    write_part(third, 2, 3, 2, "y");
    MUST(gguf_open(&g, first, &e));
    assert_int_equal(g.weights.n_tensors, 2);
    const struct weight_tensor *y = weight_file_find(&g.weights, STR("y"));
    assert_int_equal(y->bytes[31], 'y');
    assert_string_equal(weight_tensor_path(&g.weights, y), third);
    weight_file_forget(&g.weights, y, 0, (y)->n_bytes);
    assert_int_equal(y->bytes[0], 'y');
    MUST(weight_file_read_in(&g.weights, &e));
    assert_ptr_equal(weight_file_find(&g.weights, STR("y")), y);
    assert_int_equal(truncate(second, 0), 0);
    assert_int_equal(truncate(third, 0), 0);
    weight_file_forget(&g.weights, y, 0, (y)->n_bytes);
    assert_int_equal(y->bytes[0], 'y');
    assert_int_equal(weight_file_find(&g.weights, STR("x"))->bytes[31], 'x');
    assert_false(weight_file_damaged(&g.weights) || weight_file_changed(&g.weights));
    gguf_close(&g);
    write_part(second, 1, 3, 2, "x");
    write_part(third, 2, 3, 2, "y");
    MUST(gguf_open(&g, first, &e));
    assert_int_equal(truncate(third, 50), 0);
    REFUSED(weight_file_read_in(&g.weights, &e), "m-00003-of-00003.gguf: became shorter");
    gguf_close(&g);

    REFUSED(gguf_open(&g, second, &e), "m-00001-of-00003.gguf");
    write_part(third, 2, 3, 2, "x");
    REFUSED(gguf_open(&g, first, &e), "listed twice");
    write_part(third, 1, 3, 2, "y");
    REFUSED(gguf_open(&g, first, &e), "split.no 2");
    write_part(third, 2, 4, 2, "y");
    REFUSED(gguf_open(&g, first, &e), "split.count 3");
    write_part(third, 2, 3, 5, "y");
    write_part(first, 0, 3, 5, NULL);
    REFUSED(gguf_open(&g, first, &e), "split.tensors.count is 5");
    unlink(first);
    unlink(second);
    unlink(third);

    char *joined = in_folder("model.gguf");
    write_part(joined, 0, 2, 1, "x");
    REFUSED(gguf_open(&g, joined, &e), "cat");
    write_part(joined, 0, 1, 1, "x");
    MUST(gguf_open(&g, joined, &e));
    gguf_close(&g);
    unlink(joined);
}

/* Shrinks and overwrites the file under an open reader that has the guard. */
static int read_while_it_changes(void)
{
    mapped_file_install_guard();
    struct gguf g;
    char *path = in_folder("s.gguf");
    if (gguf_open(&g, path, &e) != STATUS_OK)
        return 1;
    const struct weight_tensor *t = weight_file_find(&g.weights, STR("t"));
    FILE *f = fopen(path, "r+b");
    for (int i = 0; f && i < 4096; i++)
        fputc(0xFF, f);
    fclose(f);
    struct str words[3];
    for (size_t i = 0; i < g.n_pairs; i++) {
        char text[200];
        gguf_value_describe(&g.pairs[i].value, text, sizeof(text));
        if (g.pairs[i].value.type == GGUF_STRING && gguf_strings(&g.pairs[i].value, words) &&
            g.pairs[i].value.count)
            return 2; /* lengths of 0xFFFF... must be refused */
    }
    if (truncate(path, 0) != 0)
        return 3;
    unsigned sum = 0;
    for (size_t i = 0; i < t->n_bytes; i++)
        sum += t->bytes[i];
    if (!weight_file_damaged(&g.weights) || sum != 0)
        return 4;
    gguf_close(&g);
    return 0;
}

static void changes_while_open(void **state)
{
    (void)state;
    struct gguf_writer *w;
    char *path = in_folder("s.gguf");
    MUST(gguf_writer_open(&w, path, 4096, &e));
    put_some_metadata(w);
    MUST(gguf_writer_declare(w, STR("t"), TENSOR_TYPE_F32, 1, (int64_t[]){ 8192 }, &e));
    write_tensor(w, "t", 32768);
    MUST(gguf_writer_finish(w, &e));
    gguf_writer_free(w);
    assert_int_equal(in_child(read_while_it_changes), 0);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),    cmocka_unit_test(writer_refuses),
        cmocka_unit_test(full_disk),     cmocka_unit_test(split_archive),
        cmocka_unit_test(changes_while_open),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
