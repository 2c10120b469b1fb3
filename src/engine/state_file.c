#include "engine/state_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"

#define VERSION 1
#define HEAD_BYTES 16
#define FIXED_BYTES 56
#define RECORD_BYTES 32
#define TAIL_BYTES 16

static const char magic[8] = { 'I', 'N', 'G', 'O', 'T', 'K', 'V', '\n' };

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_u64(const uint8_t *p)
{
    return get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

void state_file_release(struct state_file *f)
{
    mem_free(f->tokens);
    mem_free(f->record);
    *f = (struct state_file){ 0 };
}

static enum status damaged(struct error *err, const char *label, const char *what, uint64_t want,
                           uint64_t found)
{
    return error_set(err, STATUS_INVALID, "%s: damaged: %s: expected %llu, found %llu", label, what,
                     (unsigned long long)want, (unsigned long long)found);
}

/* Which file this is, from its first and last bytes. */
static enum status check_ends(const char *label, const uint8_t *head, const uint8_t *tail,
                              uint64_t file_bytes, uint32_t *index_bytes, struct error *err)
{
    if (memcmp(head, magic, sizeof(magic)) != 0)
        return error_set(err, STATUS_INVALID, "%s: not a file of saved state", label);
    if (get_u32(head + 8) != VERSION)
        return error_set(err, STATUS_UNSUPPORTED, "%s: expected version %d, found %u", label,
                         VERSION, get_u32(head + 8));
    if (memcmp(tail + 8, magic, sizeof(magic)) != 0)
        return error_set(err, STATUS_INVALID, "%s: damaged: its end is missing", label);
    *index_bytes = get_u32(tail + 4);
    uint64_t room = file_bytes - HEAD_BYTES - TAIL_BYTES;
    if (*index_bytes < FIXED_BYTES || *index_bytes > MIN(room, STATE_FILE_INDEX_MOST))
        return damaged(err, label, "bytes of its index at most", MIN(room, STATE_FILE_INDEX_MOST),
                       *index_bytes);
    return STATUS_OK;
}

static enum status check_shape(const char *label, const uint8_t *index,
                               const struct state_shape *shape, struct error *err)
{
    if (get_u64(index) != shape->fingerprint)
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: of another model or other settings: "
                         "expected fingerprint %016llx, found %016llx",
                         label, (unsigned long long)shape->fingerprint,
                         (unsigned long long)get_u64(index));
    for (int i = 0; i < STATE_FILE_KINDS; i++)
        if (get_u64(index + 16 + 8 * i) != (uint64_t)shape->bytes[i])
            return damaged(err, label, "bytes of a block", (uint64_t)shape->bytes[i],
                           get_u64(index + 16 + 8 * i));
    if (get_u32(index + 40) != (uint32_t)shape->page_tokens)
        return damaged(err, label, "tokens of a page", (uint64_t)shape->page_tokens,
                       get_u32(index + 40));
    return STATUS_OK;
}

static bool record_fits(const struct state_shape *shape, const struct state_record *r,
                        uint32_t n_tokens, uint64_t frames_end)
{
    uint64_t first = (uint64_t)r->level * (uint64_t)shape->page_tokens;
    uint64_t end;
    if (r->level < 0 || r->n_tokens < 1 || r->n_tokens > shape->page_tokens ||
        first + (uint64_t)r->n_tokens > n_tokens)
        return false;
    if (r->n_tokens < shape->page_tokens && first + (uint64_t)r->n_tokens != n_tokens)
        return false;
    return shape->bytes[r->kind] > 0 && r->offset >= HEAD_BYTES && r->bytes > 0 &&
           !__builtin_add_overflow((uint64_t)r->offset, (uint64_t)r->bytes, &end) &&
           end <= frames_end;
}

static enum status read_records(struct state_file *f, const char *label, const uint8_t *at,
                                const struct state_shape *shape, uint64_t frames_end,
                                struct error *err)
{
    for (int32_t i = 0; i < f->n_records; i++, at += RECORD_BYTES) {
        uint32_t level = get_u32(at), n = get_u32(at + 4), kind = get_u32(at + 8);
        uint64_t offset = get_u64(at + 16), bytes = get_u64(at + 24);
        if (kind >= STATE_FILE_KINDS || level > INT32_MAX || n > INT32_MAX || offset > INT64_MAX ||
            bytes > INT64_MAX)
            return error_set(err, STATUS_INVALID, "%s: damaged: record %d is out of range", label,
                             i);
        struct state_record *r = &f->record[i];
        *r = (struct state_record){ (int32_t)level, (int32_t)n, (enum state_kind)kind,
                                    (int64_t)offset, (int64_t)bytes };
        bool ascends =
            i == 0 || r[-1].level < r->level || (r[-1].level == r->level && r[-1].kind < r->kind);
        if (!ascends || !record_fits(shape, r, (uint32_t)f->n_tokens, frames_end))
            return error_set(err, STATUS_INVALID,
                             "%s: damaged: record %d (level %u, %u tokens, "
                             "kind %u) does not fit %d tokens and %llu bytes",
                             label, i, level, n, kind, f->n_tokens, (unsigned long long)frames_end);
    }
    return STATUS_OK;
}

/* index[n] was checked against its checksum; frames end where it begins. */
static enum status read_index(struct state_file *f, const char *label, const uint8_t *index,
                              uint32_t n, const struct state_shape *shape, uint64_t frames_end,
                              struct error *err)
{
    TRY(check_shape(label, index, shape, err));
    uint64_t n_tokens = get_u32(index + 44), n_records = get_u32(index + 48);
    uint64_t want = FIXED_BYTES + 4 * n_tokens + RECORD_BYTES * n_records;
    if (want != n)
        return damaged(err, label, "bytes of its index", want, n);
    f->created = (int64_t)get_u64(index + 8);
    f->n_tokens = (int32_t)n_tokens; /* within STATE_FILE_INDEX_MOST */
    f->n_records = (int32_t)n_records;
    f->tokens = mem_array(int32_t, (size_t)n_tokens);
    f->record = mem_array(struct state_record, (size_t)n_records);
    for (uint64_t i = 0; i < n_tokens; i++) {
        uint32_t token = get_u32(index + FIXED_BYTES + 4 * i);
        if (token >= (uint32_t)shape->n_vocab)
            return damaged(err, label, "a token below", (uint64_t)shape->n_vocab, token);
        f->tokens[i] = (int32_t)token;
    }
    return read_records(f, label, index + FIXED_BYTES + 4 * n_tokens, shape, frames_end, err);
}

static enum status check_index(struct state_file *f, const char *label, const uint8_t *index,
                               uint32_t n, const uint8_t *tail, uint64_t file_bytes,
                               const struct state_shape *shape, struct error *err)
{
    uint32_t sum = (uint32_t)crc32(0, index, n);
    if (sum != get_u32(tail))
        return damaged(err, label, "checksum of its index", get_u32(tail), sum);
    f->file_bytes = (int64_t)file_bytes;
    return read_index(f, label, index, n, shape, file_bytes - TAIL_BYTES - n, err);
}

static enum status too_short(struct error *err, const char *label, uint64_t n)
{
    return damaged(err, label, "bytes at least", HEAD_BYTES + FIXED_BYTES + TAIL_BYTES, n);
}

enum status state_file_parse(struct state_file *f, const char *label, const uint8_t *bytes,
                             size_t n, const struct state_shape *shape, struct error *err)
{
    *f = (struct state_file){ 0 };
    uint32_t index_bytes = 0;
    if (n < HEAD_BYTES + FIXED_BYTES + TAIL_BYTES)
        return too_short(err, label, n);
    const uint8_t *tail = bytes + n - TAIL_BYTES;
    TRY(check_ends(label, bytes, tail, n, &index_bytes, err));
    enum status status =
        check_index(f, label, tail - index_bytes, index_bytes, tail, n, shape, err);
    if (status != STATUS_OK)
        state_file_release(f);
    return status;
}

static bool read_at(int fd, uint8_t *out, size_t n, int64_t offset)
{
    while (n > 0) {
        ssize_t got = pread(fd, out, n, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        out += got;
        n -= (size_t)got;
        offset += got;
    }
    return true;
}

static enum status cannot_read(struct error *err, const char *path)
{
    enum status status = errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
    return error_set(err, status, "%s: cannot be read: %s", path, strerror(errno));
}

static enum status read_file(struct state_file *f, const char *path, int fd,
                             const struct state_shape *shape, struct error *err)
{
    struct stat info;
    uint8_t head[HEAD_BYTES], tail[TAIL_BYTES];
    if (fstat(fd, &info) != 0)
        return cannot_read(err, path);
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_INVALID, "%s: expected a regular file", path);
    uint64_t size = (uint64_t)info.st_size;
    if (size < HEAD_BYTES + FIXED_BYTES + TAIL_BYTES)
        return too_short(err, path, size);
    uint32_t n = 0;
    errno = EIO;
    if (!read_at(fd, head, sizeof(head), 0) ||
        !read_at(fd, tail, sizeof(tail), info.st_size - TAIL_BYTES))
        return cannot_read(err, path);
    TRY(check_ends(path, head, tail, size, &n, err));
    uint8_t *index = mem_alloc(n);
    enum status status = read_at(fd, index, n, info.st_size - TAIL_BYTES - (int64_t)n)
                             ? check_index(f, path, index, n, tail, size, shape, err)
                             : cannot_read(err, path);
    mem_free(index);
    return status;
}

enum status state_file_open(struct state_file *f, const char *path, const struct state_shape *shape,
                            struct error *err)
{
    *f = (struct state_file){ 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return cannot_read(err, path);
    enum status status = read_file(f, path, fd, shape, err);
    close(fd);
    if (status != STATUS_OK)
        state_file_release(f);
    return status;
}
