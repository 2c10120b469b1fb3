/* session_file: the manifest of a named session, which says what of a disk cache belongs to it.
 *
 *   ingot-session 1 89abcdef\n      version; crc32 of what follows, 8 hexadecimal digits
 *   {"model": "...",                what it was made with, for people
 *    "fingerprint": "16 digits",    see state_fingerprint.h
 *    "created": 0, "updated": 0,    seconds since 1970
 *    "tokens": [1, 2, ...],         the conversation from its start
 *    "files": ["....kv", ...],      that hold its state
 *    "client": ...}                 any JSON that its owner keeps there; may be absent
 *
 * disk_folder.h says where it lies. Files of state are never changed, so a manifest is all
 * that a session needs: a fork is a copy of it. A manifest is foreign input; the names of files in
 * it have the one form that a cache gives them, so that none leads out of the folder.
 * Ownership: session_file_release() frees the members. Threads: any, one at a time per struct. */
#ifndef ENGINE_SESSION_FILE_H
#define ENGINE_SESSION_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/strbuf.h"

#define SESSION_NAME_MOST 64
#define SESSION_FOLDER "sessions"
#define SESSION_SUFFIX ".session"
#define SESSION_FILE_MOST (64u << 20)

struct session_file {
    char *model;
    uint64_t fingerprint;
    int64_t created, updated;
    int32_t *tokens, n_tokens;
    char **file; /* [n_files] names without a folder */
    size_t n_files, files_room;
    json_t *client; /* NULL: none */
};

/* [A-Za-z0-9][A-Za-z0-9._-]{0,63} */
bool session_name_is_valid(struct str name);
/* INVALID, with what a name looks like. */
MUST_CHECK enum status session_name_check(struct str name, struct error *err);
char *session_path(const char *folder, const char *name); /* the caller frees */

/* INVALID: damaged; UNSUPPORTED: another version. `label` stands for its path. */
MUST_CHECK enum status session_file_parse(struct session_file *f, const char *label,
                                          struct str text, struct error *err);
void session_file_format(const struct session_file *f, struct strbuf *out);
/* In the folder of the manifests. NOT_FOUND: there is none. Never through a symbolic link. */
MUST_CHECK enum status session_file_read(struct session_file *f, const char *folder,
                                         const char *name, struct error *err);
/* Makes the folder if need be; the old manifest survives every failure. */
MUST_CHECK enum status session_file_write(const struct session_file *f, const char *folder,
                                          const char *name, struct error *err);
void session_file_copy(struct session_file *to, const struct session_file *from);
void session_file_add(struct session_file *f, const char *file); /* copied; once */
bool session_file_has(const struct session_file *f, const char *file);
void session_file_release(struct session_file *f); /* a zeroed one is allowed */

/* Calls `take` with the name of every manifest in the folder. */
void session_folder_list(const char *folder, void (*take)(void *user, const char *name),
                         void *user);

/* Removes what a killed process left half written there. */
void session_folder_clean(const char *folder);

/* What is said of a session: {name, model, tokens, bytes, created, updated}. `files` is the folder
 * of its state. */
json_t *session_file_describe(const struct session_file *f, const char *files, const char *name);

#endif
