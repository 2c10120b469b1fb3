/* state_file: pages of state on disk, found by the tokens that made them.
 *
 *   offset   bytes
 *   0        8      "INGOTKV\n"
 *   8        4      version: 1
 *   12       4      zero
 *   16       ...    frames: one block of state each, in zstd's format with its checksum
 *   I        8      fingerprint of the model and of every setting that changes state
 *   I+8      8      seconds since 1970 when it was written
 *   I+16     8 x 3  bytes of a page, of a sliding page, of a slot; 0: the model has none
 *   I+40     4      tokens in a page
 *   I+44     4      n tokens
 *   I+48     4      r records
 *   I+52     4      zero
 *   I+56     4n     the tokens of the conversation from its start
 *            32r    records: level, tokens, kind, zero (4 bytes each), offset, bytes (8 each)
 *   end-16   4      crc32 of the index, which is all from I to here
 *   end-12   4      bytes of the index
 *   end-8    8      "INGOTKV\n"
 *
 * All numbers are little-endian. A record says which block its frame holds: the page of tokens
 * [64 level, 64 level + tokens), the sliding page of the same, or the fixed state behind them. A
 * file holds only what no other file had: the others are found by the same tokens. Frames are
 * compressed as little as zstd can, since keys and values hardly shrink; the format is there for
 * its checksum and for pages that are mostly zero.
 * A file is foreign input: nothing of it is believed before it is checked.
 * Ownership: state_file_release() frees the lists. Threads: any, one at a time per struct. */
#ifndef ENGINE_STATE_FILE_H
#define ENGINE_STATE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "models/state_layout.h"

#define STATE_FILE_KINDS 3 /* of enum state_kind */
#define STATE_FILE_INDEX_MOST (64u << 20)

/* What a file must agree on with the memory that it is read into. */
struct state_shape {
    uint64_t fingerprint;
    int32_t page_tokens, n_vocab;
    int64_t bytes[STATE_FILE_KINDS];
};

struct state_record {
    int32_t level, n_tokens;
    enum state_kind kind;
    int64_t offset, bytes; /* of its frame */
};

struct state_file {
    int32_t *tokens;
    struct state_record *record; /* ascending by level, then kind */
    int32_t n_tokens, n_records;
    int64_t created, file_bytes;
};

/* Reads and checks the index. INVALID: damaged; UNSUPPORTED: whole, but of another model, other
 * settings or another version. `path` is never a symbolic link. */
MUST_CHECK enum status state_file_open(struct state_file *f, const char *path,
                                       const struct state_shape *shape, struct error *err);
/* The same for a file in memory; `label` stands for its path. */
MUST_CHECK enum status state_file_parse(struct state_file *f, const char *label,
                                        const uint8_t *bytes, size_t n,
                                        const struct state_shape *shape, struct error *err);
void state_file_release(struct state_file *f); /* a zeroed one is allowed */

/* Reads one block at a time; keeps the last file mapped, since most blocks follow each other. */
struct state_reader;
struct state_reader *state_reader_new(void);
void state_reader_free(struct state_reader *r);  /* NULL is allowed */
void state_reader_close(struct state_reader *r); /* the file, not the reader */
/* Fills exactly `want` bytes; a frame of another length or checksum is INVALID. */
MUST_CHECK enum status state_reader_read(struct state_reader *r, const char *path,
                                         const struct state_record *record, uint8_t *out,
                                         size_t want, struct error *err);

/* Writes one file; it appears whole at commit, or never. */
struct state_writer;
MUST_CHECK enum status state_writer_open(struct state_writer **out, const char *path,
                                         struct error *err);
/* Fills offset and bytes of *record. */
MUST_CHECK enum status state_writer_add(struct state_writer *w, struct state_record *record,
                                        const uint8_t *block, size_t n, struct error *err);
/* Frees the writer in any case. *file_bytes: the size of the file. */
MUST_CHECK enum status state_writer_commit(struct state_writer *w, const struct state_shape *shape,
                                           const int32_t *tokens, int32_t n_tokens,
                                           const struct state_record *record, int32_t n_records,
                                           int64_t *file_bytes, struct error *err);
void state_writer_abort(struct state_writer *w); /* NULL is allowed */

#endif
