/* A split archive is a row of files NAME-00001-of-0000N.gguf, each a whole GGUF with its own
 * tensors. Keys: split.no (from 0), split.count, split.tensors.count (of all parts together).
 * The first part carries the metadata and may have no tensors. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/strbuf.h"
#include "formats/gguf_internal.h"

#define PART_SUFFIX_LENGTH 20 /* "-00001-of-00003.gguf" */

static enum status optional_u64(const struct gguf *g, const char *key, uint64_t otherwise,
                                uint64_t *out, struct error *err)
{
    enum status s = gguf_get_u64(g, key, out, err);
    if (s != STATUS_NOT_FOUND)
        return s;
    *out = otherwise;
    return STATUS_OK;
}

/* The path of part `no` (from 0) for a path that ends as a part of `count` does; false if not. */
static bool part_path(const char *path, uint64_t no, uint64_t count, struct strbuf *out)
{
    struct str p = str_of(path);
    char ending[64];
    snprintf(ending, sizeof(ending), "-of-%05llu.gguf", (unsigned long long)count);
    if (count > 99999 || p.len < PART_SUFFIX_LENGTH || !str_ends(p, str_of(ending)))
        return false;
    struct str digits = str_slice(p, p.len - PART_SUFFIX_LENGTH, p.len - strlen(ending));
    if (digits.ptr[0] != '-')
        return false;
    for (size_t i = 1; i < digits.len; i++) {
        if (digits.ptr[i] < '0' || digits.ptr[i] > '9')
            return false;
    }
    strbuf_clear(out);
    strbuf_append(out, path, p.len - PART_SUFFIX_LENGTH);
    strbuf_printf(out, "-%05llu%s", (unsigned long long)no + 1, ending);
    return true;
}

static enum status refuse_wrong_start(const char *path, uint64_t no, uint64_t count,
                                      const struct strbuf *first, struct error *err)
{
    if (no != 0 && first->len)
        return error_set(err, STATUS_INVALID, "%s: part %llu of a split archive of %llu; open its "
                         "first part, %s", path, (unsigned long long)no + 1,
                         (unsigned long long)count, first->ptr);
    return error_set(err, STATUS_INVALID,
                     "%s: its metadata says part %llu of a split archive of %llu (split.no, "
                     "split.count), so its name has to end in -%05llu-of-%05llu.gguf; parts "
                     "joined with cat cannot be read, a GGUF split tool merges them", path,
                     (unsigned long long)no + 1, (unsigned long long)count,
                     (unsigned long long)no + 1, (unsigned long long)count);
}

static enum status add_part(struct gguf *g, const char *path, uint64_t no, uint64_t count,
                            struct error *err)
{
    struct gguf part;
    enum status s = gguf_open_part(&part, path, err);
    if (s == STATUS_NOT_FOUND)
        return error_set(err, s, "%s: part %llu of %llu of the split archive is missing", path,
                         (unsigned long long)no + 1, (unsigned long long)count);
    if (s != STATUS_OK)
        return s;
    uint64_t found_no = 0, found_count = 0;
    s = optional_u64(&part, "split.no", UINT64_MAX, &found_no, err);
    if (s == STATUS_OK)
        s = optional_u64(&part, "split.count", 0, &found_count, err);
    if (s != STATUS_OK)
        error_prefix(err, "%s", path);
    else if (found_no != no || found_count != count)
        s = error_set(err, STATUS_INVALID, "%s: expected split.no %llu and split.count %llu, "
                      "found %lld and %llu", path, (unsigned long long)no,
                      (unsigned long long)count, (long long)found_no,
                      (unsigned long long)found_count);
    else
        s = weight_file_merge(&g->weights, &part.weights, err);
    gguf_close(&part);
    return s;
}

static enum status join(struct gguf *g, const char *path, uint64_t count, struct strbuf *name,
                        struct error *err)
{
    uint64_t no, expected;
    TRY(optional_u64(g, "split.no", 0, &no, err));
    bool named = part_path(path, 0, count, name);
    if (no != 0 || !named || strcmp(name->ptr, path) != 0)
        return refuse_wrong_start(path, no, count, name, err);
    for (uint64_t i = 1; i < count; i++) {
        part_path(path, i, count, name);
        TRY(add_part(g, name->ptr, i, count, err));
    }
    TRY(optional_u64(g, "split.tensors.count", g->weights.n_tensors, &expected, err));
    if (expected != g->weights.n_tensors)
        return error_set(err, STATUS_INVALID, "%s: split.tensors.count is %llu, the %llu parts "
                         "hold %zu tensors", path, (unsigned long long)expected,
                         (unsigned long long)count, g->weights.n_tensors);
    return STATUS_OK;
}

enum status gguf_join_parts(struct gguf *g, const char *path, struct error *err)
{
    uint64_t count;
    enum status s = optional_u64(g, "split.count", 0, &count, err);
    if (s != STATUS_OK) {
        error_prefix(err, "%s", path);
        return s;
    }
    if (count <= 1)
        return STATUS_OK;
    struct strbuf name;
    strbuf_init(&name, 65536);
    s = join(g, path, count, &name, err);
    strbuf_release(&name);
    return s;
}
