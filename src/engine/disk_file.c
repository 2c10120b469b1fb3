#include "engine/disk_file.h"

#include <string.h>

#include "base/mem.h"
#include "engine/prefix_tree.h"

struct disk_file *disk_file_new(const char *path, int64_t bytes, int64_t used)
{
    struct disk_file *f = mem_new(struct disk_file);
    f->path = mem_string(path, strlen(path));
    f->bytes = bytes;
    f->used = used;
    return f;
}

void disk_file_set_records(struct disk_file *f, struct state_record *record, int32_t n)
{
    CHECK(!f->record);
    f->record = record;
    f->node = mem_array(struct prefix_node *, (size_t)n);
    f->n_records = n;
}

void disk_file_detach(struct disk_file *f)
{
    for (int32_t i = 0; i < f->n_records; i++)
        if (f->node[i]) {
            struct prefix_node *n = f->node[i];
            disk_ref_drop(&n->disk[f->record[i].kind]);
            prefix_prune(f->tree, n); /* which may take other nodes of the file along */
        }
    mem_free(f->record);
    mem_free(f->node);
    f->record = NULL;
    f->node = NULL;
    f->n_records = 0;
    f->tree = NULL;
}

void disk_file_free(struct disk_file *f)
{
    if (!f)
        return;
    disk_file_detach(f);
    mem_free(f->path);
    mem_free(f);
}

void disk_ref_set(struct disk_file *f, int32_t record, struct prefix_node *n)
{
    struct disk_ref *ref = &n->disk[f->record[record].kind];
    CHECK(!ref->file && !f->node[record]);
    *ref = (struct disk_ref){ f, record };
    f->node[record] = n;
    f->n_live++;
}

void disk_ref_drop(struct disk_ref *ref)
{
    if (!ref->file)
        return;
    ref->file->node[ref->record] = NULL;
    ref->file->n_live--;
    ref->file = NULL;
}
