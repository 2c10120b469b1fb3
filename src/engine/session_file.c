#include "engine/session_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/disk_folder.h"

#define HEAD "ingot-session "
#define VERSION "1 "
#define HEAD_BYTES (sizeof(HEAD VERSION) - 1 + 8 + 1)
#define TOKENS_MOST (1 << 24)
#define FILES_MOST (1 << 16)

/* --- names ---------------------------------------------------------------------------------- */

static bool is_letter_or_digit(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool session_name_is_valid(struct str name)
{
    if (name.len == 0 || name.len > SESSION_NAME_MOST || !is_letter_or_digit(name.ptr[0]))
        return false;
    for (size_t i = 1; i < name.len; i++)
        if (!is_letter_or_digit(name.ptr[i]) && name.ptr[i] != '.' && name.ptr[i] != '_' &&
            name.ptr[i] != '-')
            return false;
    return true;
}

enum status session_name_check(struct str name, struct error *err)
{
    if (session_name_is_valid(name))
        return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "session: expected a name of 1 to %d characters, first a letter or digit, "
                     "then also . _ -; found %zu bytes",
                     SESSION_NAME_MOST, name.len);
}

char *session_path(const char *folder, const char *name)
{
    struct strbuf path;
    strbuf_init(&path, PATH_MAX);
    strbuf_printf(&path, "%s/%s" SESSION_SUFFIX, folder, name);
    return strbuf_detach(&path);
}

void session_folder_list(const char *folder, void (*take)(void *user, const char *name), void *user)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL) {
        struct str name = str_of(entry->d_name);
        if (!str_ends(name, STR(SESSION_SUFFIX)))
            continue;
        name.len -= sizeof(SESSION_SUFFIX) - 1;
        if (!session_name_is_valid(name))
            continue;
        entry->d_name[name.len] = 0;
        take(user, entry->d_name);
    }
    if (dir)
        closedir(dir);
}

/* NAME.session.0123456789abcdef.tmp */
static bool is_half_written(struct str name)
{
    static const struct str end = { ".tmp", 4 };
    size_t tail = 1 + 16 + end.len;
    if (name.len <= tail || !str_ends(name, end))
        return false;
    for (size_t i = name.len - tail + 1; i < name.len - end.len; i++)
        if (!is_letter_or_digit(name.ptr[i]))
            return false;
    name.len -= tail;
    if (name.ptr[name.len] != '.' || !str_ends(name, STR(SESSION_SUFFIX)))
        return false;
    name.len -= sizeof(SESSION_SUFFIX) - 1;
    return session_name_is_valid(name);
}

void session_folder_clean(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)) != NULL)
        if (is_half_written(str_of(entry->d_name)))
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

/* --- the struct ----------------------------------------------------------------------------- */

void session_file_release(struct session_file *f)
{
    for (size_t i = 0; i < f->n_files; i++)
        mem_free(f->file[i]);
    mem_free(f->file);
    mem_free(f->model);
    mem_free(f->tokens);
    json_decref(f->client);
    *f = (struct session_file){ 0 };
}

bool session_file_has(const struct session_file *f, const char *file)
{
    for (size_t i = 0; i < f->n_files; i++)
        if (strcmp(f->file[i], file) == 0)
            return true;
    return false;
}

void session_file_add(struct session_file *f, const char *file)
{
    if (session_file_has(f, file))
        return;
    mem_reserve((void **)&f->file, &f->files_room, f->n_files + 1, sizeof(*f->file));
    f->file[f->n_files++] = mem_string(file, strlen(file));
}

void session_file_copy(struct session_file *to, const struct session_file *from)
{
    *to = (struct session_file){
        .fingerprint = from->fingerprint,
        .created = from->created,
        .updated = from->updated,
        .n_tokens = from->n_tokens,
        .model = from->model ? mem_string(from->model, strlen(from->model)) : NULL,
        .tokens = mem_copy(from->tokens, (size_t)from->n_tokens * sizeof(*from->tokens)),
        .client = json_incref(from->client),
    };
    for (size_t i = 0; i < from->n_files; i++)
        session_file_add(to, from->file[i]);
}

json_t *session_file_describe(const struct session_file *f, const char *files, const char *name)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < f->n_files; i++) {
        struct strbuf path;
        struct stat info;
        strbuf_init(&path, PATH_MAX);
        strbuf_printf(&path, "%s/%s", files, f->file[i]);
        if (lstat(path.ptr, &info) == 0)
            bytes += info.st_size;
        strbuf_release(&path);
    }
    return json_pack("{s:s,s:s,s:i,s:I,s:I,s:I}", "name", name, "model", f->model ? f->model : "",
                     "tokens", f->n_tokens, "bytes", (json_int_t)bytes, "created",
                     (json_int_t)f->created, "updated", (json_int_t)f->updated);
}

/* --- reading -------------------------------------------------------------------------------- */

static bool hex_number(struct str text, size_t n_digits, uint64_t *out)
{
    *out = 0;
    if (text.len != n_digits)
        return false;
    for (size_t i = 0; i < n_digits; i++) {
        char c = text.ptr[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        *out = *out << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return true;
}

static enum status bad_field(struct error *err, const char *label, const char *field,
                             const char *expected)
{
    return error_set(err, STATUS_INVALID, "%s: damaged: %s: expected %s", label, field, expected);
}

static enum status take_tokens(struct session_file *f, const char *label, const json_t *list,
                               struct error *err)
{
    size_t n = json_array_size(list);
    if (!json_is_array(list) || n == 0 || n > TOKENS_MOST)
        return bad_field(err, label, "tokens", "a list of 1 to 16777216 ids");
    f->tokens = mem_array(int32_t, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *token = json_array_get(list, i);
        json_int_t id = json_integer_value(token);
        if (!json_is_integer(token) || id < 0 || id > INT32_MAX)
            return bad_field(err, label, "tokens", "ids below 2147483648");
        f->tokens[i] = (int32_t)id;
    }
    f->n_tokens = (int32_t)n;
    return STATUS_OK;
}

static enum status take_files(struct session_file *f, const char *label, const json_t *list,
                              struct error *err)
{
    char own[18];
    size_t i;
    json_t *name;
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > FILES_MOST)
        return bad_field(err, label, "files", "a list of 1 to 65536 names");
    snprintf(own, sizeof(own), "%016llx-", (unsigned long long)f->fingerprint);
    mem_reserve((void **)&f->file, &f->files_room, json_array_size(list), sizeof(*f->file));
    json_array_foreach(list, i, name)
    {
        struct str text = json_str(name);
        if (!disk_folder_is_name(text) || !str_starts(text, str_of(own)))
            return bad_field(err, label, "files", "names of the cache, of this fingerprint");
        f->file[f->n_files++] = mem_string(text.ptr, text.len);
    }
    return STATUS_OK;
}

static enum status take_times(struct session_file *f, const char *label, const json_t *body,
                              struct error *err)
{
    const json_t *created = json_object_get(body, "created");
    const json_t *updated = json_object_get(body, "updated");
    f->created = json_integer_value(created);
    f->updated = json_integer_value(updated);
    if (!json_is_integer(created) || !json_is_integer(updated) || f->created < 0 || f->updated < 0)
        return bad_field(err, label, "created and updated", "seconds since 1970");
    return STATUS_OK;
}

static enum status take_body(struct session_file *f, const char *label, const json_t *body,
                             struct error *err)
{
    struct str model = json_str(json_object_get(body, "model"));
    if (!json_is_object(body) || !model.ptr || memchr(model.ptr, 0, model.len))
        return bad_field(err, label, "model", "a name");
    f->model = mem_string(model.ptr, model.len);
    if (!hex_number(json_str(json_object_get(body, "fingerprint")), 16, &f->fingerprint))
        return bad_field(err, label, "fingerprint", "16 hexadecimal digits");
    TRY(take_times(f, label, body, err));
    TRY(take_tokens(f, label, json_object_get(body, "tokens"), err));
    TRY(take_files(f, label, json_object_get(body, "files"), err));
    f->client = json_incref(json_object_get(body, "client"));
    return STATUS_OK;
}

static enum status check_head(const char *label, struct str text, struct error *err)
{
    uint64_t want;
    if (!str_starts(text, STR(HEAD)))
        return error_set(err, STATUS_INVALID, "%s: damaged: not a session", label);
    if (!str_starts(text, STR(HEAD VERSION)))
        return error_set(err, STATUS_UNSUPPORTED, "%s: expected version 1 of a session", label);
    if (text.len < HEAD_BYTES || text.ptr[HEAD_BYTES - 1] != '\n' ||
        !hex_number(str_slice(text, HEAD_BYTES - 9, HEAD_BYTES - 1), 8, &want))
        return error_set(err, STATUS_INVALID, "%s: damaged: its first line", label);
    struct str body = str_slice(text, HEAD_BYTES, text.len);
    uint64_t sum = crc32(0, (const uint8_t *)body.ptr, (uInt)body.len);
    if (sum != want)
        return error_set(err, STATUS_INVALID,
                         "%s: damaged: checksum: expected %08llx, found %08llx", label,
                         (unsigned long long)want, (unsigned long long)sum);
    return STATUS_OK;
}

enum status session_file_parse(struct session_file *f, const char *label, struct str text,
                               struct error *err)
{
    json_t *body;
    struct error why = { 0 };
    *f = (struct session_file){ 0 };
    if (text.len > SESSION_FILE_MOST)
        return error_set(err, STATUS_INVALID, "%s: damaged: expected at most %u bytes, found %zu",
                         label, SESSION_FILE_MOST, text.len);
    TRY(check_head(label, text, err));
    if (json_parse(str_slice(text, HEAD_BYTES, text.len), JSON_STRICT_UTF8 | JSON_UNIQUE_KEYS,
                   &body, &why) != STATUS_OK)
        return error_set(err, STATUS_INVALID, "%s: damaged: %s", label, why.message);
    enum status status = take_body(f, label, body, err);
    json_decref(body);
    if (status != STATUS_OK)
        session_file_release(f);
    return status;
}

static enum status read_all(int fd, const char *path, struct strbuf *out, struct error *err)
{
    struct stat info;
    char part[65536];
    ssize_t n = 0;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return error_set(err, STATUS_INVALID, "%s: damaged: expected a regular file", path);
    while (out->len <= SESSION_FILE_MOST && (n = read(fd, part, sizeof(part))) != 0) {
        if (n > 0)
            strbuf_append(out, part, (size_t)n);
        else if (errno != EINTR)
            return error_set(err, STATUS_IO, "%s: cannot be read: %s", path, strerror(errno));
    }
    return STATUS_OK;
}

enum status session_file_read(struct session_file *f, const char *folder, const char *name,
                              struct error *err)
{
    char *path = session_path(folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    enum status status;
    struct strbuf text;
    strbuf_init(&text, SESSION_FILE_MOST + 2 * 65536);
    if (fd < 0)
        status = error_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO,
                           "%s: cannot be read: %s", path, strerror(errno));
    else
        status = read_all(fd, path, &text, err);
    if (fd >= 0)
        close(fd);
    if (status == STATUS_OK)
        status = session_file_parse(f, path, strbuf_str(&text), err);
    strbuf_release(&text);
    mem_free(path);
    return status;
}

/* --- writing -------------------------------------------------------------------------------- */

void session_file_format(const struct session_file *f, struct strbuf *out)
{
    char fingerprint[17], head[HEAD_BYTES + 1];
    struct strbuf text;
    json_t *tokens = json_array(), *files = json_array();
    for (int32_t i = 0; i < f->n_tokens; i++)
        json_array_append_new(tokens, json_integer(f->tokens[i]));
    for (size_t i = 0; i < f->n_files; i++)
        json_array_append_new(files, json_string(f->file[i]));
    snprintf(fingerprint, sizeof(fingerprint), "%016llx", (unsigned long long)f->fingerprint);
    json_t *body =
        json_pack("{s:s,s:s,s:I,s:I,s:o,s:o,s:O*}", "model", f->model ? f->model : "",
                  "fingerprint", fingerprint, "created", (json_int_t)f->created, "updated",
                  (json_int_t)f->updated, "tokens", tokens, "files", files, "client", f->client);
    strbuf_init(&text, SESSION_FILE_MOST);
    json_write(&text, body);
    json_decref(body);
    snprintf(head, sizeof(head), HEAD VERSION "%08lx\n",
             crc32(0, (const uint8_t *)text.ptr, (uInt)text.len));
    strbuf_puts(out, head);
    strbuf_add(out, strbuf_str(&text));
    out->overflow |= text.overflow;
    strbuf_release(&text);
}

static enum status write_text(const char *path, struct str text, struct error *err)
{
    struct file_writer w;
    struct stat info;
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode))
        return error_set(err, STATUS_INVALID, "%s: expected a regular file", path);
    TRY(file_writer_open_private(&w, path, err));
    enum status status = file_writer_write(&w, text.ptr, text.len, err);
    if (status == STATUS_OK)
        return file_writer_commit(&w, err);
    file_writer_abort(&w);
    return status;
}

enum status session_file_write(const struct session_file *f, const char *folder, const char *name,
                               struct error *err)
{
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return error_set(err, STATUS_IO, "%s: cannot be made: %s", folder, strerror(errno));
    struct strbuf text;
    strbuf_init(&text, SESSION_FILE_MOST);
    session_file_format(f, &text);
    char *path = session_path(folder, name);
    enum status status = text.overflow ? error_set(err, STATUS_LIMIT, "%s: more than %u bytes",
                                                   path, SESSION_FILE_MOST)
                                       : write_text(path, strbuf_str(&text), err);
    mem_free(path);
    strbuf_release(&text);
    return status;
}
