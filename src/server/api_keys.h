/* api_keys: the keys that open a server, and what each allows.
 *
 *   KEY [priority=N]
 *
 * is how one is written, on the command line and as a line of a file; empty lines of a file and
 * those that begin with # say nothing. A key is printable ASCII without blanks. Its priority is
 * that of requests which name none, and the most that one may ask for.
 * Errors name the place and never the key. Ownership: texts are the arena's. Threads: whoever has
 * the list; once the server runs it is constant. */
#ifndef SERVER_API_KEYS_H
#define SERVER_API_KEYS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

#define API_KEYS_MOST 4096
#define API_KEY_MOST_BYTES 1024
#define API_KEYS_FILE_BYTES (1u << 20)

struct api_key {
    const char *key;
    int priority;      /* -1: requests say what they like */
    const char *where; /* "keys.txt:3" */
};

struct api_keys {
    struct arena *arena;
    struct api_key *key; /* [n], at most API_KEYS_MOST */
    size_t n;
};

void api_keys_init(struct api_keys *k, struct arena *arena);
/* INVALID: what is wrong with it. */
MUST_CHECK enum status api_keys_add(struct api_keys *k, struct str line, const char *where,
                                    struct error *err);
/* Every line of a file, which must hold a key. */
MUST_CHECK enum status api_keys_read(struct api_keys *k, const char *path, struct error *err);

#endif
