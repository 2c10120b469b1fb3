/* session_folder: changes of named sessions while no engine has their folder.
 *
 * Their folder is `sessions`, or with NULL that of the disk cache `cache`, as disk_folder.h has it.
 * Each locks it for as long as it takes; CONFLICT: a process uses it.
 * NOT_FOUND: there is no session `name`; CONFLICT, too: there is one `to` already; INVALID: a bad
 * name, or a damaged session (which can be removed). Threads: any. */
#ifndef ENGINE_SESSION_FOLDER_H
#define ENGINE_SESSION_FOLDER_H

#include "base/error.h"

MUST_CHECK enum status session_folder_fork(const char *cache, const char *sessions,
                                           const char *name, const char *to, struct error *err);
MUST_CHECK enum status session_folder_rename(const char *cache, const char *sessions,
                                             const char *name, const char *to, struct error *err);
/* And the files that no other session relies on. */
MUST_CHECK enum status session_folder_delete(const char *cache, const char *sessions,
                                             const char *name, struct error *err);

#endif
