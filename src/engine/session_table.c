#include "engine/session_table.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "engine/state_file.h"

/* A turn is on disk within 5 s; nobody waits longer than this for a folder that hangs. */
#define WAIT_SECONDS 10
#define SESSIONS_MOST 10000

static void set_text(char **to, const char *text)
{
    mem_free(*to);
    *to = text ? mem_string(text, strlen(text)) : NULL;
}

static struct session *find(struct session_table *t, const char *name)
{
    struct session *s = t->first;
    while (s && strcmp(s->name, name) != 0)
        s = s->next;
    return s;
}

static struct session *add(struct session_table *t, const char *name)
{
    struct session *s = mem_new(struct session);
    s->name = mem_string(name, strlen(name));
    s->next = t->first;
    t->first = s;
    t->n++;
    return s;
}

static void free_session(struct session *s)
{
    session_file_release(&s->file);
    mem_free(s->name);
    mem_free(s->fault);
    mem_free(s->save_fault);
    mem_free(s);
}

/* A name that stands for nothing is forgotten. */
static void prune(struct session_table *t, struct session *s)
{
    if (s->busy || s->n_saving > 0 || s->stored || s->fault)
        return;
    struct session **link = &t->first;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    t->n--;
    free_session(s);
}

/* --- life ----------------------------------------------------------------------------------- */

struct reading {
    struct session_table *table;
    const struct log_sink *log;
};

static void read_one(void *user, const char *name)
{
    struct reading *r = user;
    struct error err = { 0 };
    struct session *s = add(r->table, name);
    s->stored = session_file_read(&s->file, r->table->folder, name, &err) == STATUS_OK;
    if (s->stored)
        return;
    set_text(&s->fault, err.message);
    log_write(r->log, LOG_ERROR, "session %s: %s; it is refused until it is deleted", name,
              err.message);
}

void session_table_init(struct session_table *t, const char *files, const char *folder,
                        const struct log_sink *log)
{
    *t = (struct session_table){ 0 };
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    if (!folder)
        return;
    t->files = mem_string(files, strlen(files));
    t->folder = mem_string(folder, strlen(folder));
    struct reading reading = { t, log };
    session_folder_list(t->folder, read_one, &reading);
}

void session_table_release(struct session_table *t)
{
    while (t->first) {
        struct session *s = t->first;
        t->first = s->next;
        free_session(s);
    }
    mem_free(t->files);
    mem_free(t->folder);
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
}

/* --- one user at a time --------------------------------------------------------------------- */

static enum status check_name(const struct session_table *t, const char *name, struct error *err)
{
    if (!t->folder)
        return error_set(err, STATUS_UNSUPPORTED,
                         "session: sessions are kept on disk only: none without a folder "
                         "(--session-dir DIR)");
    return session_name_check(str_of(name), err);
}

static enum status check_room(const struct session_table *t, struct error *err)
{
    if (t->n < SESSIONS_MOST)
        return STATUS_OK;
    return error_set(err, STATUS_LIMIT, "session: expected at most %d sessions, found %d",
                     SESSIONS_MOST, t->n);
}

static enum status in_use(struct error *err, const char *name)
{
    return error_set(err, STATUS_CONFLICT, "session %s: another request uses it", name);
}

static enum status damaged(struct error *err, const char *name, const char *reason)
{
    return error_set(err, STATUS_INVALID, "session %s: %s; delete the session, or restore the file",
                     name, reason);
}

/* Marks the pages of the conversation that the file holds. */
static void note_pages(const struct session_file *m, const struct state_file *f,
                       int32_t page_tokens, bool *there)
{
    int32_t alike = 0;
    while (alike < MIN(m->n_tokens, f->n_tokens) && m->tokens[alike] == f->tokens[alike])
        alike++;
    for (int32_t i = 0; i < f->n_records; i++) {
        const struct state_record *r = &f->record[i];
        int32_t end = MIN(r->level * page_tokens + r->n_tokens, m->n_tokens);
        bool whole = r->n_tokens == page_tokens || end == m->n_tokens;
        if (r->kind == STATE_PAGED && whole && end > r->level * page_tokens && end <= alike)
            there[r->level] = true;
    }
}

static enum status check_pages(const struct session_file *m, const struct state_shape *shape,
                               const bool *there, struct error *err)
{
    int32_t n = (m->n_tokens + shape->page_tokens - 1) / shape->page_tokens;
    for (int32_t i = 0; i < n && shape->bytes[STATE_PAGED] > 0; i++)
        if (!there[i])
            return error_set(
                err, STATUS_INVALID, "damaged: no file holds the state of tokens %d to %d",
                i * shape->page_tokens, MIN((i + 1) * shape->page_tokens, m->n_tokens) - 1);
    return STATUS_OK;
}

/* Once since the start: are its files whole, of this model, and all that it needs? Its only user
 * looks. */
static enum status look_at_files(struct session_table *t, struct session *s,
                                 const struct state_shape *shape, struct error *err)
{
    enum status status = STATUS_OK;
    bool *there = mem_array(bool, (size_t)(s->file.n_tokens / shape->page_tokens + 1));
    for (size_t i = 0; i < s->file.n_files && status == STATUS_OK; i++) {
        struct strbuf path;
        struct state_file index;
        strbuf_init(&path, PATH_MAX);
        strbuf_printf(&path, "%s/%s", t->files, s->file.file[i]);
        status = state_file_open(&index, path.ptr, shape, err);
        if (status == STATUS_OK) {
            note_pages(&s->file, &index, shape->page_tokens, there);
            state_file_release(&index);
        }
        strbuf_release(&path);
    }
    if (status == STATUS_OK)
        status = check_pages(&s->file, shape, there, err);
    mem_free(there);
    return status;
}

static enum status check_session(struct session_table *t, struct session *s,
                                 const struct state_shape *shape, struct error *err)
{
    struct error why = { 0 };
    pthread_mutex_lock(&t->lock);
    bool is_known = !s->stored || s->checked;
    pthread_mutex_unlock(&t->lock);
    if (is_known)
        return STATUS_OK;
    enum status status = look_at_files(t, s, shape, &why); /* no save is on its way yet */
    pthread_mutex_lock(&t->lock);
    s->checked = status == STATUS_OK;
    if (!s->checked)
        set_text(&s->fault, why.message);
    pthread_mutex_unlock(&t->lock);
    return status == STATUS_OK ? status : damaged(err, s->name, why.message);
}

static enum status claim(struct session_table *t, const char *name, const struct state_shape *shape,
                         struct session **out, struct error *err)
{
    struct session *s = find(t, name);
    if (s && s->busy)
        return in_use(err, name);
    if (s && s->fault)
        return damaged(err, name, s->fault);
    if (s && s->stored && s->file.fingerprint != shape->fingerprint)
        return error_set(err, STATUS_UNSUPPORTED,
                         "session %s: of another model or other settings (%s): expected "
                         "fingerprint %016llx, found %016llx",
                         name, s->file.model, (unsigned long long)shape->fingerprint,
                         (unsigned long long)s->file.fingerprint);
    if (!s)
        TRY(check_room(t, err));
    *out = s ? s : add(t, name);
    (*out)->busy = true;
    return STATUS_OK;
}

enum status session_claim(struct session_table *t, const char *name,
                          const struct state_shape *shape, struct session **out, struct error *err)
{
    TRY(check_name(t, name, err));
    pthread_mutex_lock(&t->lock);
    enum status status = claim(t, name, shape, out, err);
    pthread_mutex_unlock(&t->lock);
    TRY(status);
    status = check_session(t, *out, shape, err);
    if (status != STATUS_OK)
        session_let_go(t, *out);
    return status;
}

/* Under the lock: until nothing of `name` is being saved, or it takes too long. */
static struct session *find_saved(struct session_table *t, const char *name)
{
    struct timespec until;
    struct session *s;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    while ((s = find(t, name)) != NULL && s->n_saving > 0)
        if (pthread_cond_timedwait(&t->changed, &t->lock, &until) != 0)
            break;
    return find(t, name);
}

static bool is_there(const struct session *s)
{
    return s && (s->stored || s->fault);
}

enum status session_take(struct session_table *t, const char *name, struct session **out,
                         struct error *err)
{
    TRY(check_name(t, name, err));
    enum status status = STATUS_OK;
    pthread_mutex_lock(&t->lock);
    struct session *s = find_saved(t, name);
    if (s && (s->busy || s->n_saving > 0))
        status = in_use(err, name);
    else if (!is_there(s))
        status = error_set(err, STATUS_NOT_FOUND, "session %s: there is none of this name", name);
    else
        s->busy = true;
    pthread_mutex_unlock(&t->lock);
    *out = s;
    return status;
}

enum status session_take_new(struct session_table *t, const char *name, struct session **out,
                             struct error *err)
{
    TRY(check_name(t, name, err));
    enum status status = STATUS_OK;
    pthread_mutex_lock(&t->lock);
    if (find(t, name))
        status = error_set(err, STATUS_CONFLICT, "session %s: there is one of this name", name);
    else
        status = check_room(t, err);
    if (status == STATUS_OK) {
        *out = add(t, name);
        (*out)->busy = true;
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}

void session_let_go(struct session_table *t, struct session *s)
{
    pthread_mutex_lock(&t->lock);
    s->busy = false;
    prune(t, s);
    pthread_mutex_unlock(&t->lock);
}

enum status session_settle(struct session_table *t, const struct session *s, struct error *err)
{
    pthread_mutex_lock(&t->lock);
    (void)find_saved(t, s->name);
    enum status status = s->n_saving > 0 ? in_use(err, s->name) : STATUS_OK;
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* --- saving --------------------------------------------------------------------------------- */

void session_save_begin(struct session_table *t, struct session *s)
{
    pthread_mutex_lock(&t->lock);
    s->n_saving++;
    pthread_mutex_unlock(&t->lock);
}

void session_save_end(struct session_table *t, struct session *s, struct session_file *file,
                      const struct error *err)
{
    pthread_mutex_lock(&t->lock);
    s->n_saving--;
    set_text(&s->save_fault, file ? NULL : err->message);
    if (file) {
        session_file_release(&s->file);
        s->file = *file;
        s->stored = s->checked = true;
    }
    prune(t, s);
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

void session_forget(struct session_table *t, struct session *s)
{
    pthread_mutex_lock(&t->lock);
    s->file = (struct session_file){ 0 };
    s->stored = s->checked = false;
    set_text(&s->fault, NULL);
    set_text(&s->save_fault, NULL);
    pthread_mutex_unlock(&t->lock);
}

void session_table_damage(struct session_table *t, const char *file, const char *reason)
{
    pthread_mutex_lock(&t->lock);
    for (struct session *s = t->first; s; s = s->next)
        if (s->stored && !s->fault && session_file_has(&s->file, file))
            set_text(&s->fault, reason);
    pthread_mutex_unlock(&t->lock);
}

enum status session_check(struct session_table *t, const struct session *s, struct error *err)
{
    pthread_mutex_lock(&t->lock);
    enum status status = s->fault ? damaged(err, s->name, s->fault) : STATUS_OK;
    pthread_mutex_unlock(&t->lock);
    return status;
}

/* --- showing -------------------------------------------------------------------------------- */

static json_t *describe(const struct session_table *t, const struct session *s)
{
    json_t *value = s->stored ? session_file_describe(&s->file, t->files, s->name)
                              : json_pack("{s:s}", "name", s->name);
    json_object_set_new(value, "busy", json_boolean(s->busy));
    if (s->fault)
        json_object_set_new(value, "damaged", json_string(s->fault));
    if (s->save_fault)
        json_object_set_new(value, "not_saved", json_string(s->save_fault));
    return value;
}

static int compare(const void *a, const void *b)
{
    const struct session *const *p = a, *const *q = b;
    return strcmp((*p)->name, (*q)->name);
}

json_t *session_table_list(struct session_table *t)
{
    json_t *list = json_array();
    size_t n = 0;
    pthread_mutex_lock(&t->lock);
    for (struct session *s = t->first; s; s = s->next)
        if (s->n_saving > 0) {
            char name[SESSION_NAME_MOST + 1];
            snprintf(name, sizeof(name), "%s", s->name);
            (void)find_saved(t, name);
            break; /* whoever waited once has seen most of them end */
        }
    for (struct session *s = t->first; s; s = s->next)
        n += is_there(s);
    struct session **sorted = mem_array(struct session *, n);
    n = 0;
    for (struct session *s = t->first; s; s = s->next)
        if (is_there(s))
            sorted[n++] = s;
    qsort(sorted, n, sizeof(struct session *), compare);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, describe(t, sorted[i]));
    mem_free(sorted);
    pthread_mutex_unlock(&t->lock);
    return list;
}

enum status session_table_show(struct session_table *t, const char *name, json_t **out,
                               struct error *err)
{
    TRY(check_name(t, name, err));
    enum status status = STATUS_OK;
    pthread_mutex_lock(&t->lock);
    struct session *s = find_saved(t, name);
    if (is_there(s)) {
        *out = describe(t, s);
        if (s->stored && s->file.client)
            json_object_set(*out, "client", s->file.client);
    } else {
        status = error_set(err, STATUS_NOT_FOUND, "session %s: there is none of this name", name);
    }
    pthread_mutex_unlock(&t->lock);
    return status;
}
