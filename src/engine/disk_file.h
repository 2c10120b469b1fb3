/* disk_file: a file of saved state, and which nodes of a prefix tree rely on it.
 *
 *   node.disk[kind] -> {file, record}        file.node[record] -> node
 *
 * Both directions are kept, so that a node may go without its file and a file without its nodes.
 * Ownership: the list of a folder owns it. Threads: the engine thread. */
#ifndef ENGINE_DISK_FILE_H
#define ENGINE_DISK_FILE_H

#include <stdbool.h>

#include "engine/state_file.h"

struct prefix_node;
struct prefix_tree;

struct disk_file {
    struct disk_file *next, *next_alike; /* next_alike: in a bucket of disk_folder */
    char *path;
    int64_t bytes, used;      /* seconds since 1970 */
    struct prefix_tree *tree; /* NULL: no loaded model uses it, and there are no records */
    struct state_record *record;
    struct prefix_node **node; /* [n_records], NULL where nobody relies on it */
    int32_t n_records, n_live;
    int32_t pins;      /* named sessions that rely on it */
    bool for_sessions; /* it lies where they may */
};

struct disk_ref {
    struct disk_file *file; /* NULL: none */
    int32_t record;
};

struct disk_file *disk_file_new(const char *path, int64_t bytes, int64_t used);
void disk_file_free(struct disk_file *f); /* its nodes lose it */

/* Takes over the records. */
void disk_file_set_records(struct disk_file *f, struct state_record *record, int32_t n);
/* Every node loses it. */
void disk_file_detach(struct disk_file *f);

void disk_ref_set(struct disk_file *f, int32_t record, struct prefix_node *n);
void disk_ref_drop(struct disk_ref *ref);

#endif
