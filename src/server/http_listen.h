/* http_listen: the socket that the server accepts connections on.
 *
 * HOST is an address or name, or "unix:PATH". Something that lies at PATH is replaced only if it
 * is a socket that nobody answers on: what a killed server leaves behind. Ownership: the listener
 * remembers the file that it made and removes no other; the descriptor is the caller's. */
#ifndef SERVER_HTTP_LISTEN_H
#define SERVER_HTTP_LISTEN_H

#include <sys/types.h>

#include "base/error.h"

struct http_listener {
    int port;        /* the one that was bound; 0 for unix:PATH */
    char *unix_path; /* NULL: TCP */
    dev_t device;    /* of the socket's file, */
    ino_t inode;     /* so that one that replaced it is left alone */
};

MUST_CHECK enum status http_listen(struct http_listener *, const char *host, int port, int *fd,
                                   struct error *err);
/* Removes the socket's file. A zeroed listener is fine. */
void http_listen_release(struct http_listener *);

#endif
