#include "engine/sessions.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/disk_folder.h"
#include "engine/disk_store.h"
#include "engine/request.h"
#include "engine/session_table.h"

enum status sessions_available(const struct engine *e, struct error *err)
{
    const char *fault = e->disk ? disk_store_fault(e->disk) : NULL;
    if (e->disk && !fault)
        return STATUS_OK;
    if (fault)
        return error_set(err, STATUS_UNSUPPORTED, "session: none can be kept: %s", fault);
    return error_set(err, STATUS_UNSUPPORTED,
                     "session: named sessions live in a folder: expected --session-dir DIR or "
                     "--cache-dir DIR, found %s",
                     e->options.no_reuse ? "--no-cache-prompt" : "none");
}

/* --- strictness ----------------------------------------------------------------------------- */

struct spelling {
    const struct tokenizer *tokenizer;
    const int32_t *ids;
    int32_t n;
    struct str rest; /* of the id before */
};

/* -1: the end. */
static int next_byte(struct spelling *s)
{
    for (; s->rest.len == 0 && s->n > 0; s->n--)
        s->rest = tokenizer_bytes(s->tokenizer, *s->ids++);
    if (s->rest.len == 0)
        return -1;
    s->rest.len--;
    return (unsigned char)*s->rest.ptr++;
}

/* A client sends back text, which need not become the ids that were generated. */
static bool is_extended(const struct session_file *kept, const struct request *r, int32_t *n_alike)
{
    int32_t n = 0;
    while (n < MIN(kept->n_tokens, r->n_prompt) && kept->tokens[n] == r->tokens[n])
        n++;
    *n_alike = n;
    if (n == kept->n_tokens || !r->detokenizer.tokenizer)
        return n == kept->n_tokens;
    struct spelling old = { r->detokenizer.tokenizer, kept->tokens + n, kept->n_tokens - n, { 0 } };
    struct spelling new = { r->detokenizer.tokenizer, r->tokens + n, r->n_prompt - n, { 0 } };
    int byte;
    while ((byte = next_byte(&old)) >= 0)
        if (byte != next_byte(&new))
            return false;
    return true;
}

enum status sessions_check_extended(const struct engine *e, const struct request *r,
                                    struct error *err)
{
    int32_t n_alike;
    const struct session *s = r->session;
    TRY(session_settle(disk_store_sessions(e->disk), s, err));
    if (!s->stored || is_extended(&s->file, r, &n_alike))
        return STATUS_OK;
    return error_set(err, STATUS_DIVERGED,
                     "session %s: expected a prompt that begins with the %d tokens of the session, "
                     "found %d tokens of which the first %d are the same",
                     s->name, s->file.n_tokens, r->n_prompt, n_alike);
}

/* --- looking -------------------------------------------------------------------------------- */

json_t *engine_sessions(struct engine *e)
{
    struct error none;
    if (sessions_available(e, &none) != STATUS_OK)
        return json_array();
    return session_table_list(disk_store_sessions(e->disk));
}

enum status engine_session_show(struct engine *e, const char *name, json_t **out, struct error *err)
{
    TRY(sessions_available(e, err));
    return session_table_show(disk_store_sessions(e->disk), name, out, err);
}

/* --- changing ------------------------------------------------------------------------------- */

/* Becomes what `f` says, on disk and in the table; takes it over. With the device lock. */
static enum status put(struct engine *e, struct session *s, struct session_file *f,
                       struct error *err)
{
    struct session_table *t = disk_store_sessions(e->disk);
    enum status status = session_file_write(f, t->folder, s->name, err);
    if (status != STATUS_OK) {
        session_file_release(f);
        return status;
    }
    disk_store_pin(e->disk, f);
    disk_store_unpin(e->disk, &s->file);
    session_save_begin(t, s);
    session_save_end(t, s, f, NULL);
    return STATUS_OK;
}

static enum status unlink_manifest(const struct session_table *t, const char *name,
                                   struct error *err)
{
    char *path = session_path(t->folder, name);
    bool gone = unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR;
    enum status status =
        gone ? STATUS_OK
             : error_set(err, STATUS_IO, "%s: cannot be removed: %s", path, strerror(errno));
    mem_free(path);
    return status;
}

/* Those that nobody needs, the newest first: it builds on the others. */
static void erase_files(struct engine *e, const struct session_file *f)
{
    struct disk_folder *folder = disk_store_folder(e->disk);
    for (size_t i = f->n_files; i > 0; i--) {
        struct disk_file *file = disk_folder_find(folder, f->file[i - 1]);
        if (file && file->pins == 0 && !disk_folder_is_built_on(file))
            disk_folder_remove(folder, file, true);
    }
}

/* With the device lock; `erase`: its files, too. */
static enum status remove_session(struct engine *e, struct session *s, bool erase,
                                  struct error *err)
{
    struct session_table *t = disk_store_sessions(e->disk);
    TRY(unlink_manifest(t, s->name, err));
    struct session_file gone = s->file;
    session_forget(t, s);
    disk_store_unpin(e->disk, &gone);
    if (erase)
        erase_files(e, &gone);
    session_file_release(&gone);
    return STATUS_OK;
}

enum status engine_session_delete(struct engine *e, const char *name, struct error *err)
{
    struct session *s;
    TRY(sessions_available(e, err));
    struct session_table *t = disk_store_sessions(e->disk);
    TRY(session_take(t, name, &s, err));
    turn_lock(&e->device_lock);
    enum status status = remove_session(e, s, true, err);
    turn_unlock(&e->device_lock);
    session_let_go(t, s);
    return status;
}

/* Both are claimed. */
static enum status copy(struct engine *e, const struct session *from, struct session *to,
                        struct error *err)
{
    struct session_file file;
    if (from->fault)
        return error_set(err, STATUS_INVALID, "session %s: %s", from->name, from->fault);
    session_file_copy(&file, &from->file);
    enum status status = put(e, to, &file, err);
    if (status == STATUS_OK)
        to->checked = from->checked;
    return status;
}

static enum status copy_session(struct engine *e, const char *from, const char *to, bool moves,
                                struct error *err)
{
    struct session *a, *b;
    TRY(sessions_available(e, err));
    struct session_table *t = disk_store_sessions(e->disk);
    TRY(session_take(t, from, &a, err));
    enum status status = session_take_new(t, to, &b, err);
    if (status != STATUS_OK) {
        session_let_go(t, a);
        return status;
    }
    turn_lock(&e->device_lock);
    status = copy(e, a, b, err);
    if (status == STATUS_OK && moves)
        status = remove_session(e, a, false, err);
    turn_unlock(&e->device_lock);
    session_let_go(t, a);
    session_let_go(t, b);
    return status;
}

enum status engine_session_fork(struct engine *e, const char *from, const char *to,
                                struct error *err)
{
    return copy_session(e, from, to, false, err);
}

enum status engine_session_rename(struct engine *e, const char *from, const char *to,
                                  struct error *err)
{
    return copy_session(e, from, to, true, err);
}

enum status engine_session_set_client(struct engine *e, const char *name, json_t *client,
                                      struct error *err)
{
    struct session *s;
    struct session_file file;
    TRY(sessions_available(e, err));
    struct session_table *t = disk_store_sessions(e->disk);
    TRY(session_take(t, name, &s, err));
    enum status status =
        s->fault ? error_set(err, STATUS_INVALID, "session %s: %s", name, s->fault) : STATUS_OK;
    if (status == STATUS_OK && s->save_fault)
        status = error_set(err, STATUS_IO, "session %s: not saved: %s", name, s->save_fault);
    if (status == STATUS_OK) {
        session_file_copy(&file, &s->file);
        json_decref(file.client);
        file.client = json_incref(client);
        turn_lock(&e->device_lock);
        status = put(e, s, &file, err);
        turn_unlock(&e->device_lock);
    }
    session_let_go(t, s);
    return status;
}
