#ifndef STORE_SNAPSHOT_H
#define STORE_SNAPSHOT_H
/* Snapshots of files that a program has left, each stored as one blob: first a listing, then the bytes of the files. Every file
 * begins with a chunk of its own (a manifest allows chunks of any size), so a file that did not change is the same chunks in
 * the next snapshot: it is neither read nor stored nor sent again.
 *
 * The listing is the MessagePack array
 *     [1, [[path, kind, mode, bytes, mtime_ns, link], ...]]
 * with path and link as binary; the bytes of the files follow in the order of the entries. A parent stands before what it
 * holds. Times and modes are kept. Symbolic links stay links if they cannot lead out of the snapshot's root; other links,
 * sockets, devices and pipes are left out. Hard links become separate files. A shell. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/chunks_lmdb.h"

#define SNAPSHOT_ENTRIES_MAX 50000u
#define SNAPSHOT_PATH_BYTES 1024 /* of a path and of a link's target, with the NUL */
#define SNAPSHOT_DEPTH_MAX 32
#define SNAPSHOT_LISTING_BYTES_MAX (16u << 20)

enum snapshot_kind { SNAPSHOT_DIRECTORY, SNAPSHOT_FILE, SNAPSHOT_LINK };

/* A file as it was on this disk: a file with the same stamp has the same bytes. */
struct snapshot_stamp {
    uint64_t device, inode;
    int64_t mtime_ns, ctime_ns;
};

/* One entry; paths are relative, without "." and "..". */
struct snapshot_entry {
    char *path;
    char *link; /* LINK: the target; else NULL */
    enum snapshot_kind kind;
    uint32_t mode; /* the permissions */
    uint64_t bytes; /* FILE */
    uint64_t offset; /* FILE: in the blob; only after snapshot_read */
    int64_t mtime_ns;
    struct snapshot_stamp stamp;        /* FILE, only after snapshot_add */
    struct blob_chunk *chunks;          /* FILE, only after snapshot_add */
    uint32_t chunk_count;
};

/* All zero: empty. The caller owns it until snapshot_free. */
struct snapshot {
    struct snapshot_entry *entries;
    uint32_t count, capacity;
    uint64_t bytes;         /* sum of the file sizes */
    struct snapshot_batch *batch; /* chunks that are read and not stored yet; NULL: none. snapshot_put stores them */
    const struct snapshot *before; /* of the last snapshot_add or snapshot_take_over; borrowed */
    const struct snapshot_entry **before_order; /* its entries by path; NULL: not sorted yet */
    uint32_t left_out;      /* entries that were left out, and the first one's path and reason */
    char left_out_why[256];
};

/* Reads the file, link or directory `disk_path` (below the open directory `root`) with everything in it, and appends its
 * entries under the name `path`; parents of `path` that are not listed yet are listed, too. Chunks of files that `before` (may
 * be NULL; it does not change until snapshot_put) lists with the same stamp are taken over. The sum of the file sizes may be
 * `bytes_max`. Chunks are stored some MiB at a time, and the last ones by snapshot_put. On failure `error` is one
 * sentence and the snapshot is as before. ERR_NOT_FOUND: no such path. ERR_FULL: more than bytes_max or SNAPSHOT_ENTRIES_MAX.
 * ERR_AGAIN: a file vanished or shrank while it was read. ERR_IO, ERR_NO_SPACE, ERR_MEMORY. */
int snapshot_add(struct snapshot *snapshot, struct chunks *chunks, int root, const char *disk_path, const char *path,
                 const struct snapshot *before, uint64_t bytes_max, char *error, size_t error_size);

/* Removes all entries from number `count` on. */
void snapshot_cut(struct snapshot *snapshot, uint32_t count);

/* Appends the entry `path` of `before`, as in snapshot_add, and all entries below it. ERR_NOT_FOUND: `before` has none;
 * ERR_MEMORY. */
int snapshot_take_over(struct snapshot *snapshot, const struct snapshot *before, const char *path);

/* Stores the last chunks, listing and manifest. ERR_AGAIN: chunks were collected meanwhile, add all files again. ERR_FULL: too many chunks.
 * `*blob` names the snapshot, which has `*blob_bytes` bytes. */
int snapshot_put(struct snapshot *snapshot, struct chunks *chunks, hash256 *blob, uint64_t *blob_bytes, char *error,
                 size_t error_size);

/* Reads the listing of a snapshot from a file that holds the whole blob. The bytes may come from a stranger. ERR_MALFORMED,
 * ERR_VERSION, ERR_IO, ERR_MEMORY: `*out` is empty. */
int snapshot_read(int fd, uint64_t blob_bytes, struct snapshot *out);

/* True if `path` is `below` or lies below it; every path lies below "". */
bool snapshot_is_below(const char *path, const char *below);

/* Writes the entries below `from` (of a snapshot from snapshot_read) into the directory `dir`, which must exist: an entry
 * FROM/REST becomes DIR/REST, and FROM itself, a file, DIR/NAME with its last name. Entries that are there already are
 * replaced; no link is followed. `*count`: the files and links written. ERR_NOT_FOUND: nothing is listed below `from`. ERR_IO,
 * ERR_NO_SPACE. On failure `error` is one sentence. */
int snapshot_unpack(int fd, const struct snapshot *snapshot, const char *from, const char *dir, uint32_t *count, char *error,
                    size_t error_size);

/* Frees the entries; the snapshot is then empty. */
void snapshot_free(struct snapshot *snapshot);

#endif
