/* Hugging Face folders, the hub cache, configuration from both sides, sharded safetensors, and what
 * a MODEL argument may be. All files are made here. */
#include "unit/cmocka_setup.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "formats/gguf_write.h"
#include "formats/model_source.h"
#include "formats/safetensors.h"

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

static char folder[] = "/tmp/ingot-source-XXXXXX";
static struct error e;

static char *in_folder(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static void make_folder(const char *name)
{
    assert_int_equal(mkdir(in_folder(name), 0755), 0);
}

static void put(const char *name, const char *text)
{
    MUST(file_write(in_folder(name), text, strlen(text), &e));
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/ingot-source-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* One F32 tensor of n elements, all bytes `fill`. */
static void put_safetensors(const char *name, const char *tensor, int n, char fill)
{
    struct strbuf b;
    char header[256];
    strbuf_init(&b, 10000);
    uint64_t length = (uint64_t)snprintf(header, sizeof(header),
                                         "{\"%s\":{\"dtype\":\"F32\",\"shape\":[%d],"
                                         "\"data_offsets\":[0,%d]}}", tensor, n, 4 * n);
    strbuf_append(&b, &length, 8);
    strbuf_puts(&b, header);
    for (int i = 0; i < 4 * n; i++)
        strbuf_putc(&b, fill);
    MUST(file_write(in_folder(name), b.ptr, b.len, &e));
    strbuf_release(&b);
}

static void sharded_safetensors(void **state)
{
    (void)state;
    struct weight_file f;
    assert_int_equal(safetensors_open_folder(&f, folder, &e), STATUS_NOT_FOUND);
    put_safetensors("a-1.safetensors", "x", 3, 1);
    MUST(safetensors_open_folder(&f, folder, &e));
    weight_file_close(&f);
    put_safetensors("a-2.safetensors", "y", 5, 2);
    REFUSED(safetensors_open_folder(&f, folder, &e), "2 .safetensors files");
    put("model.safetensors.index.json",
        "{\"weight_map\": {\"x\": \"a-1.safetensors\", \"y\": \"a-2.safetensors\"}}");
    MUST(safetensors_open_folder(&f, folder, &e));
    assert_int_equal(f.n_tensors, 2);
    const struct weight_tensor *y = weight_file_find(&f, STR("y"));
    assert_int_equal(y->bytes[19], 2);
    assert_int_equal(y->dim[0], 5);
    assert_string_equal(weight_tensor_path(&f, y), in_folder("a-2.safetensors"));
    MUST(weight_file_read_in(&f, &e));
    put_safetensors("a-2.safetensors", "y", 5, 9);
    assert_int_equal(y->bytes[19], 2);
    weight_file_close(&f);
    MUST(safetensors_open_folder(&f, folder, &e));
    put_safetensors("a-2.safetensors", "y", 5, 2);
    REFUSED(weight_file_read_in(&f, &e), "a-2.safetensors: another file");
    weight_file_close(&f);

    static const char *const bad[][2] = {
        { "{\"weight_map\": {\"x\": \"a-3.safetensors\"}}", "a-3.safetensors" },
        { "{\"weight_map\": {\"x\": \"../a-1.safetensors\"}}", "weight_map" },
        { "{\"weight_map\": {\"x\": \"a-1.safetensors\\u0000\"}}", "weight_map" },
        { "{\"weight_map\": {\"x\": 5}}", "weight_map" },
        { "{\"weight_map\": {\"y\": \"a-1.safetensors\"}}", "\"y\"" },
        { "{\"weight_map\": {\"x\": \"a-2.safetensors\", \"y\": \"a-1.safetensors\"}}", "\"x\"" },
        { "{}", "weight_map" },
        { "[]", "weight_map" },
        { "{\"weight_map\": {\"x\": \"a-1.safetensors\"}", "line" },
    };
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        put("model.safetensors.index.json", bad[i][0]);
        REFUSED(safetensors_open_folder(&f, folder, &e), bad[i][1]);
        weight_file_close(&f);
    }
    put_safetensors("a-2.safetensors", "x", 5, 2);
    put("model.safetensors.index.json",
        "{\"weight_map\": {\"x\": \"a-1.safetensors\", \"y\": \"a-2.safetensors\"}}");
    REFUSED(safetensors_open_folder(&f, folder, &e), "listed twice");
}

static void expect_template(const struct hf_config *c, const char *name, const char *expected)
{
    struct strbuf b;
    strbuf_init(&b, 1000);
    MUST(hf_config_chat_template(c, name, &b, &e));
    assert_string_equal(b.ptr, expected);
    strbuf_release(&b);
}

static void reopen(struct hf_config *c)
{
    hf_config_close(c);
    MUST(hf_config_open(c, folder, &e));
}

static void chat_templates(void **state)
{
    (void)state;
    struct hf_config c = { 0 };
    struct strbuf b;
    struct str token;
    strbuf_init(&b, 1000);
    REFUSED(hf_config_open(&c, folder, &e), "config.json");
    put("config.json", "{\"model_type\": \"x\", \"limit\": Infinity}");
    reopen(&c);
    assert_int_equal(hf_config_chat_template(&c, NULL, &b, &e), STATUS_NOT_FOUND);
    assert_false(hf_config_special_token(&c, "bos_token", &token));
    put("tokenizer_config.json", "{\"chat_template\": \"plain\", \"bos_token\": \"<s>\"}");
    put("special_tokens_map.json", "{\"eos_token\": {\"content\": \"</s>\"}}");
    reopen(&c);
    expect_template(&c, NULL, "plain");
    assert_int_equal(hf_config_chat_template(&c, "tool_use", &b, &e), STATUS_NOT_FOUND);
    assert_true(hf_config_special_token(&c, "bos_token", &token) && str_is(token, "<s>"));
    assert_true(hf_config_special_token(&c, "eos_token", &token) && str_is(token, "</s>"));
    put("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"default\", \"template\": "
                                 "\"first\"}, {\"name\": \"tool_use\", \"template\": \"tools\"}]}");
    reopen(&c);
    expect_template(&c, NULL, "first");
    expect_template(&c, "tool_use", "tools");
    put("chat_template.json", "{\"chat_template\": \"from json\"}");
    expect_template(&c, NULL, "from json");
    put("chat_template.jinja", "from jinja");
    expect_template(&c, NULL, "from jinja");
    make_folder("additional_chat_templates");
    put("additional_chat_templates/tool_use.jinja", "more");
    expect_template(&c, "tool_use", "more");
    assert_int_equal(hf_config_chat_template(&c, "../x", &b, &e), STATUS_NOT_FOUND);
    put("chat_template.jinja", "\xff");
    REFUSED(hf_config_chat_template(&c, NULL, &b, &e), "UTF-8");
    json_t *tokenizer;
    assert_int_equal(hf_config_load_tokenizer(&c, &tokenizer, &e), STATUS_NOT_FOUND);
    put("tokenizer.json", "{\"model\": {}}");
    MUST(hf_config_load_tokenizer(&c, &tokenizer, &e));
    json_decref(tokenizer);
    put("tokenizer.json", "[]");
    REFUSED(hf_config_load_tokenizer(&c, &tokenizer, &e), "object");
    put("generation_config.json", "{\"temperature\": 0.5, \"x\": \"\xff\"}");
    hf_config_close(&c);
    REFUSED(hf_config_open(&c, folder, &e), "generation_config.json");
    strbuf_release(&b);
}

static const char config_text[] =
    "{\"model_type\": \"outer\", \"tie\": true, \"n\": 1, \"text_config\": {"
    "\"model_type\": \"inner\","
    "\"n\": 32, \"eps\": 1e-6, \"theta\": 10000.0, \"none\": null, \"rope\": {\"theta\": 5e6,"
    "\"sections\": [3, 3, 2]}, \"types\": [\"a\", \"b\"], \"name\": \"x\", \"huge\": 5000000000,"
    "\"mixed\": [1, \"a\"], \"list\": [1.5, 2]}}";

static void check_config(const struct config_source *c)
{
    int64_t i;
    int32_t n, each[3];
    float f, floats[3];
    double d;
    bool b, flags[3];
    struct str s, types[2];
    size_t count;
    MUST(config_get_i64(c, "n", "n", &i, &e));
    assert_int_equal(i, 32);
    MUST(config_get_i32(c, "nothing|n", "nothing|n", 1, 100, &n, &e));
    REFUSED(config_get_i32(c, "n", "n", 1, 31, &n, &e), "1 to 31, found 32");
    REFUSED(config_get_i32(c, "huge", "huge", 0, INT32_MAX, &n, &e), "5000000000");
    assert_int_equal(config_get_i64(c, "absent", "absent", &i, &e), STATUS_NOT_FOUND);
    assert_non_null(strstr(e.message, "absent"));
    assert_int_equal(config_get_i64(c, NULL, NULL, &i, &e), STATUS_NOT_FOUND);
    REFUSED(config_get_i64(c, "name", "name", &i, &e), "\"x\"");
    REFUSED(config_get_i64(c, "rope.sections", "rope.sections", &i, &e), "integer");
    MUST(config_get_i32_or(c, "none", "none", 0, 9, 7, &n, &e));
    assert_int_equal(n, 7);
    REFUSED(config_get_i32_or(c, "name", "name", 0, 9, 7, &n, &e), "name");
    MUST(config_get_f64(c, "rope.theta", "rope.theta|theta", &d, &e));
    assert_true(d == 5e6);
    MUST(config_get_f64(c, "n", "n", &d, &e));
    assert_true(d == 32);
    MUST(config_get_f32_or(c, "eps", "eps", 1, &f, &e));
    assert_true(f == 1e-6f);
    MUST(config_get_f32_or(c, "none", "none", 2, &f, &e));
    assert_true(f == 2);
    MUST(config_get_bool(c, "tie", "tie", &b, &e));
    assert_true(b);
    MUST(config_get_bool_or(c, "none", "none", true, &b, &e));
    REFUSED(config_get_bool(c, "n", "n", &b, &e), "true or false");
    MUST(config_get_str(c, "name", "name", &s, &e));
    assert_true(str_is(s, "x"));
    MUST(config_get_str_or(c, "none", "none", STR("dflt"), &s, &e));
    assert_true(str_is(s, "dflt"));
    REFUSED(config_get_str(c, "n", "n", &s, &e), "string");
    MUST(config_count(c, "rope.sections", "rope.sections", &count, &e));
    assert_int_equal(count, 3);
    MUST(config_get_i32_each(c, "rope.sections", "rope.sections", each, 3, &e));
    assert_int_equal(each[2], 2);
    MUST(config_get_i32_each(c, "n", "n", each, 3, &e));
    assert_int_equal(each[2], 32);
    REFUSED(config_get_i32_each(c, "list", "list", each, 3, &e), "at least 3 elements, found 2");
    REFUSED(config_get_i32_each(c, "list", "list", each, 2, &e), "integers");
    MUST(config_get_f32_each(c, "list", "list", floats, 2, &e));
    assert_true(floats[0] == 1.5f && floats[1] == 2);
    MUST(config_get_bool_each(c, "tie", "tie", flags, 3, &e));
    assert_true(flags[2]);
    REFUSED(config_get_bool_each(c, "n", "n", flags, 3, &e), "true or false");
    MUST(config_get_str_each(c, "types", "types", types, 2, &e));
    assert_true(str_is(types[1], "b"));
    REFUSED(config_get_str_each(c, "types", "types", types, 1, &e), "found 2");
    REFUSED(config_get_str_each(c, "rope.sections", "rope.sections", types, 3, &e), "strings");
    assert_int_equal(config_kind(c, "n", "n"), CONFIG_INTEGER);
    assert_int_equal(config_kind(c, "tie", "tie"), CONFIG_BOOL);
    assert_int_equal(config_kind(c, "list", "list"), CONFIG_FLOAT);
    assert_int_equal(config_kind(c, "types", "types"), CONFIG_STRING);
    assert_int_equal(config_kind(c, "none", "none"), CONFIG_ABSENT);
    assert_true(config_is_array(c, "types", "types") && !config_is_array(c, "n", "n"));
    assert_true(config_has(c, "eps", "eps") && !config_has(c, "none", "none"));
}

static void config_from_json(void **state)
{
    (void)state;
    struct hf_config hf;
    MUST(hf_config_from_text(&hf, str_of(config_text), STR(""), &e));
    struct config_source c = { .json = hf.config };
    check_config(&c);
    assert_true(str_is(config_architecture(&c), "outer"));
    assert_true(str_is(config_text_model_type(&c), "inner"));
    int64_t i;
    MUST(config_get_i64(&c, NULL, "theta", &i, &e)); /* 10000.0 */
    assert_int_equal(i, 10000);
    REFUSED(config_get_i64(&c, NULL, "rope", &i, &e), "sections");
    assert_int_equal(config_kind(&c, NULL, "rope"), CONFIG_OTHER);
    struct str text[2];
    REFUSED(config_get_str_each(&c, NULL, "mixed", text, 2, &e), "strings");
    hf_config_close(&hf);
    REFUSED(hf_config_from_text(&hf, STR("[]"), STR(""), &e), "object");
}

static void write_gguf(const char *path, bool with_tensor)
{
    static const int32_t sections[] = { 3, 3, 2 };
    static const float list[] = { 1.5f, 2 };
    const struct str types[] = { STR("a"), STR("b") };
    struct gguf_writer *w;
    MUST(gguf_writer_open(&w, path, 0, &e));
    MUST(gguf_writer_put_str(w, "general.architecture", STR("arch"), &e));
    MUST(gguf_writer_put_u32(w, "arch.n", 32, &e));
    MUST(gguf_writer_put_u64(w, "arch.huge", 5000000000, &e));
    MUST(gguf_writer_put_f32(w, "arch.eps", 1e-6f, &e));
    MUST(gguf_writer_put_f32(w, "arch.rope.theta", 5e6f, &e));
    MUST(gguf_writer_put_bool(w, "arch.tie", true, &e));
    MUST(gguf_writer_put_str(w, "arch.name", STR("x"), &e));
    MUST(gguf_writer_put_array(w, "arch.rope.sections", GGUF_I32, sections, 3, &e));
    MUST(gguf_writer_put_array(w, "arch.list", GGUF_F32, list, 2, &e));
    MUST(gguf_writer_put_strings(w, "arch.types", types, 2, &e));
    if (with_tensor) {
        MUST(gguf_writer_declare(w, STR("t"), TENSOR_TYPE_F32, 1, (int64_t[]){ 2 }, &e));
        MUST(gguf_writer_write(w, "12345678", 8, &e));
    }
    MUST(gguf_writer_finish(w, &e));
    gguf_writer_free(w);
}

static void gguf_sources(void **state)
{
    (void)state;
    struct model_source *s;
    char *path = in_folder("m.gguf");
    write_gguf(path, true);
    MUST(model_source_open(&s, path, &e));
    assert_int_equal(s->kind, MODEL_SOURCE_GGUF);
    assert_null(s->generation_config);
    MUST(model_source_need_weights(s, &e));
    check_config(&s->config);
    assert_true(str_is(config_architecture(&s->config), "arch"));
    assert_int_equal(config_text_model_type(&s->config).len, 0);
    struct str name;
    MUST(config_get_str(&s->config, "=general.architecture", NULL, &name, &e));
    model_source_free(s);
    write_gguf(path, false);
    put("generation_config.json", "{\"top_k\": 5}");
    MUST(model_source_open(&s, path, &e));
    assert_null(s->weights);
    assert_int_equal(json_integer_value(json_object_get(s->generation_config, "top_k")), 5);
    REFUSED(model_source_need_weights(s, &e), "without tensors");
    model_source_free(s);
    put("generation_config.json", "[5");
    REFUSED(model_source_open(&s, path, &e), "generation_config.json");
    assert_null(s);
    REFUSED(model_source_open(&s, in_folder("none.gguf"), &e), "none.gguf");
    put("x.safetensors", "");
    REFUSED(model_source_open(&s, in_folder("x.safetensors"), &e), "size 0");
    put_safetensors("x.safetensors", "x", 3, 1);
    MUST(model_source_open(&s, in_folder("x.safetensors"), &e));
    assert_int_equal(s->weights->n_tensors, 1);
    REFUSED(model_source_need_weights(s, &e), "folder");
    model_source_free(s);
    put("bad.gguf", "hello");
    REFUSED(model_source_open(&s, in_folder("bad.gguf"), &e), "magic");
    put("tokenizer.json", "{}");
    MUST(model_source_open(&s, in_folder("tokenizer.json"), &e));
    assert_int_equal(s->kind, MODEL_SOURCE_TOKENIZER);
    REFUSED(model_source_need_weights(s, &e), "tokenizer");
    int64_t i;
    assert_int_equal(config_get_i64(&s->config, "n", "n", &i, &e), STATUS_NOT_FOUND);
    model_source_free(s);
}

static void folders_and_the_hub_cache(void **state)
{
    (void)state;
    struct model_source *s;
    REFUSED(model_source_open(&s, folder, &e), "neither config.json");
    make_folder("models--a--b");
    make_folder("models--a--b/snapshots");
    REFUSED(model_source_open(&s, in_folder("models--a--b"), &e), "no snapshot");
    make_folder("models--a--b/snapshots/old");
    put("models--a--b/snapshots/old/config.json", "{\"model_type\": \"old\"}");
    MUST(model_source_open(&s, in_folder("models--a--b"), &e));
    assert_string_equal(s->path, in_folder("models--a--b/snapshots/old"));
    assert_int_equal(s->kind, MODEL_SOURCE_HF);
    REFUSED(model_source_need_weights(s, &e), "without .safetensors");
    model_source_free(s);

    make_folder("models--a--b/snapshots/new");
    put("models--a--b/snapshots/new/config.json", config_text);
    struct timespec past[2] = { { 1000, 0 }, { 1000, 0 } };
    assert_int_equal(utimensat(AT_FDCWD, in_folder("models--a--b/snapshots/old"), past, 0), 0);
    put_safetensors("models--a--b/snapshots/new/model.safetensors", "x", 3, 1);
    MUST(model_source_open(&s, in_folder("models--a--b"), &e));
    assert_true(str_is(config_architecture(&s->config), "outer"));
    MUST(model_source_need_weights(s, &e));
    model_source_free(s);

    make_folder("models--a--b/refs");
    put("models--a--b/refs/main", "old\n");
    MUST(model_source_open(&s, in_folder("models--a--b"), &e));
    assert_true(str_is(config_architecture(&s->config), "old"));
    model_source_free(s);
    put("models--a--b/refs/main", "../../../etc");
    MUST(model_source_open(&s, in_folder("models--a--b"), &e));
    assert_true(str_is(config_architecture(&s->config), "outer"));
    model_source_free(s);

    put("models--a--b/snapshots/new/model.safetensors.index.json",
        "{\"weight_map\": {\"x\": \"gone.safetensors\"}}");
    REFUSED(model_source_open(&s, in_folder("models--a--b"), &e), "gone.safetensors");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sharded_safetensors, setup, teardown),
        cmocka_unit_test_setup_teardown(chat_templates, setup, teardown),
        cmocka_unit_test(config_from_json),
        cmocka_unit_test_setup_teardown(gguf_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(folders_and_the_hub_cache, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
