/* prefix_disk_internal: what prefix_disk*.c share; nobody else includes it. */
#ifndef ENGINE_PREFIX_DISK_INTERNAL_H
#define ENGINE_PREFIX_DISK_INTERNAL_H

#include "engine/prefix_disk.h"

struct prefix_fetch {
    struct disk_fetch io;
    struct prefix_fetch *next;
    struct prefix_node **path; /* [n_path] pinned until it is over */
    int32_t n_path, n_taken;
    bool over, dropped;
};

/* The node of tokens [64 level, 64 level + n); NULL: there is none. */
struct prefix_node *prefix_disk_node(struct prefix_disk *d, const int32_t *tokens, int32_t level,
                                     int32_t n, bool make);
/* Nodes that have no copy of the kind yet rely on the file's; one that sessions may rely on is
 * better than one that they may not. */
void prefix_disk_attach(struct prefix_disk *d, struct disk_file *f, const int32_t *tokens);
/* Files whose nodes found something better. */
void prefix_disk_drop_idle_files(struct prefix_disk *d);
void prefix_disk_lose_file(struct prefix_disk *d, struct disk_file *f, const struct error *err);

void prefix_disk_step_fetches(struct prefix_disk *d);
void prefix_disk_step_saves(struct prefix_disk *d);

#endif
