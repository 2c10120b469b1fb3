/* session_table: the named sessions of a disk cache, and who uses them now.
 *
 *   request       session_claim --> session_save_begin --> session_let_go
 *   engine thread                   (the writer writes)    session_save_end
 *   others        session_take ---- waits for what is being saved ---> session_let_go
 *
 * A name has one user at a time. A session whose manifest or files are damaged keeps its place with
 * the reason why, until it is deleted: it is never taken for a new one.
 * Ownership: the table owns its sessions; one is valid while it is claimed or saved. Threads: any;
 * `lock` guards everything, what a user of a session reads of it without the lock only changes
 * through that user. */
#ifndef ENGINE_SESSION_TABLE_H
#define ENGINE_SESSION_TABLE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/log.h"
#include "engine/session_file.h"

struct state_shape; /* engine/state_file.h */

struct session {
    struct session *next;
    char *name;
    struct session_file file; /* what is on disk, if `stored` */
    bool stored, checked;     /* checked: its files were looked at since the start */
    char *fault;              /* why it cannot be used; NULL: it can */
    char *save_fault;         /* why it is not on disk as it last was; NULL: it is */
    bool busy;
    int n_saving;
};

struct session_table {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *files, *folder; /* of the state and of the manifests; NULL: no sessions are kept */
    struct session *first;
    int n;
};

/* Reads the manifests in `folder` (NULL: none), whose files are in `files`; what is wrong with one
 * is logged and kept as its fault. */
void session_table_init(struct session_table *t, const char *files, const char *folder,
                        const struct log_sink *log);
void session_table_release(struct session_table *t); /* nobody uses one any more */

/* For a request; one of a new name is made. CONFLICT: in use; INVALID: a bad name, or damaged;
 * UNSUPPORTED: of another model. */
MUST_CHECK enum status session_claim(struct session_table *t, const char *name,
                                     const struct state_shape *shape, struct session **out,
                                     struct error *err);
/* For a change; one with a fault, too. Waits for what is being saved. NOT_FOUND: there is none. */
MUST_CHECK enum status session_take(struct session_table *t, const char *name, struct session **out,
                                    struct error *err);
/* The same for a name that nobody has; CONFLICT: somebody does. */
MUST_CHECK enum status session_take_new(struct session_table *t, const char *name,
                                        struct session **out, struct error *err);
void session_let_go(struct session_table *t, struct session *s);
/* Of one that is claimed: what it was saved with last is in `file` now. CONFLICT: the disk takes
 * too long. */
MUST_CHECK enum status session_settle(struct session_table *t, const struct session *s,
                                      struct error *err);

/* Between claim and let_go: a save is on its way, and ends later. */
void session_save_begin(struct session_table *t, struct session *s);
/* `file`: what is on disk now, taken over; NULL: it could not be saved, for the reason in *err. */
void session_save_end(struct session_table *t, struct session *s, struct session_file *file,
                      const struct error *err);

/* Of one that was taken: it is no more, once it is let go; its `file` is the caller's. */
void session_forget(struct session_table *t, struct session *s);

/* Everybody who relies on the file is damaged. */
void session_table_damage(struct session_table *t, const char *file, const char *reason);
/* INVALID: damaged since it was claimed. */
MUST_CHECK enum status session_check(struct session_table *t, const struct session *s,
                                     struct error *err);

/* All of them, or the one; waits for what is being saved. */
json_t *session_table_list(struct session_table *t);
MUST_CHECK enum status session_table_show(struct session_table *t, const char *name, json_t **out,
                                          struct error *err);

#endif
