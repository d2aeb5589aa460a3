#ifndef STORE_CHUNKS_LMDB_H
#define STORE_CHUNKS_LMDB_H
/* The `chunks` environment in DIR/chunks: chunks by their hash, blobs made of them, and series (metric points, logs).
 *
 * Its map is 1 TiB where the address space allows that, else the largest halving of it down to 4 GiB. A write
 * transaction holds at most 16 MiB of data. What a function stored is on disk when it returns 0.
 *
 * Any thread may call any function: writers wait for each other, readers for nobody. A read copies under a short
 * transaction and hashes after it; callbacks run inside one and must neither write nor last long.
 *
 * ERR_NO_SPACE means that the disk (or the map) is full; what was there before stays readable, and deleting makes room.
 * `error` arguments take one sentence for people on failure, and are untouched on success. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/blob.h"

#define CHUNKS_MAP_BYTES (1ull << 40)
#define CHUNKS_MAP_BYTES_MIN (1ull << 32)
#define CHUNKS_TRANSACTION_BYTES (16u << 20)

struct chunks;

/* Opens or creates DIR/chunks; DIR exists. ERR_NO_SPACE, ERR_IO, ERR_CORRUPT, ERR_VERSION, ERR_MEMORY, ERR_USAGE. The
 * caller owns `*out` and closes it with chunks_close. */
int chunks_open(const char *dir, struct chunks **out, char *error, size_t error_size);

/* Closes and clears; no other call may be going on. NULL inside is allowed. */
void chunks_close(struct chunks **chunks);

/* ---- chunks ---- */

/* Stores 1 to BLOB_CHUNK_BYTES_MAX bytes under their hash, once: if they are there it does nothing and returns 0.
 * ERR_CORRUPT: the bytes have another hash. ERR_USAGE: their number. ERR_NO_SPACE, ERR_IO. */
int chunks_put(struct chunks *chunks, hash256 hash, const void *bytes, size_t count);

/* Copies a chunk and checks its hash. ERR_NOT_FOUND; ERR_FULL: larger than capacity_bytes (BLOB_CHUNK_BYTES_MAX always
 * suffices). ERR_CORRUPT: damaged on disk; `buffer` then holds the damaged bytes. The caller deletes it with
 * chunks_delete before it stores a good copy. */
int chunks_get(struct chunks *chunks, hash256 hash, void *buffer, size_t capacity_bytes, size_t *count);

/* True if a chunk with that name is stored; its bytes are not looked at. Who is told so can rely on it for a while:
 * chunks_collect takes only what nobody has asked for. */
bool chunks_has(struct chunks *chunks, hash256 hash);

/* ERR_NOT_FOUND, ERR_NO_SPACE, ERR_IO. Chunks are shared between blobs: it is the caller who knows that none needs it.
 */
int chunks_delete(struct chunks *chunks, hash256 hash);

/* Calls back for every stored chunk in the order of the hashes; other than 0 ends the walk and is returned. */
typedef int chunks_each_fn(void *context, hash256 hash, size_t count);
int chunks_each(struct chunks *chunks, chunks_each_fn *callback, void *context);

struct chunks_space {
    uint64_t free_bytes;     /* what can still be stored: the next two together, bounded by the map */
    uint64_t disk_bytes;     /* free on the file system for this user */
    uint64_t reusable_bytes; /* deleted, and kept in the file for new chunks */
    uint64_t file_bytes;     /* pages of the file in use or reusable */
};

int chunks_space(struct chunks *chunks, struct chunks_space *out);

/* ---- blobs ---- */

/* Cuts `total_bytes` of `fd` from offset 0 (pread, so its position does not matter), stores the chunks, and at last the
 * manifest, whose hash it gives. The next 16 MiB are read and hashed while a thread writes the last ones; this takes
 * 32 MiB of memory while it runs (less for less data). `chunk_bytes` 0: the default. What is collected meanwhile is stored
 * again. ERR_IO: also if fd has fewer bytes. ERR_NO_SPACE: chunks stored so far stay. ERR_AGAIN: chunks are collected
 * faster than they are stored. ERR_FULL, ERR_USAGE (see blob_cut_plan), ERR_MEMORY. */
int chunks_put_blob_from_fd(struct chunks *chunks, int fd, uint64_t total_bytes, uint32_t chunk_bytes,
                            hash256 *manifest_hash, char *error, size_t error_size);

/* Reads and checks a manifest; `out->chunks` is allocated and freed with chunks_manifest_free. ERR_NOT_FOUND,
 * ERR_CORRUPT (as chunks_get), ERR_MALFORMED (a chunk that is not a manifest), ERR_VERSION, ERR_MEMORY. */
int chunks_manifest_get(struct chunks *chunks, hash256 manifest_hash, struct blob_manifest *out);
void chunks_manifest_free(struct blob_manifest *manifest);

/* Writes the whole blob to offsets 0 to its size of `fd` (pwrite; a file or memfd, which grows but is not cut). On
 * ERR_NOT_FOUND and ERR_CORRUPT `*blamed` (may be NULL) is the hash of the chunk, or of the manifest, that is missing
 * or damaged; what came before it is written. Others as chunks_manifest_get; ERR_NO_SPACE and ERR_IO of fd. */
int chunks_read_blob_to_fd(struct chunks *chunks, hash256 manifest_hash, int fd, hash256 *blamed, char *error,
                           size_t error_size);

/* The same without writing: is every chunk there and undamaged? */
int chunks_verify_blob(struct chunks *chunks, hash256 manifest_hash, hash256 *blamed, char *error, size_t error_size);

/* chunks_has of every chunk of this manifest, which need not be stored. */
bool chunks_has_all(struct chunks *chunks, const struct blob_manifest *manifest);

/* Which chunks are not stored here (by name; use chunks_verify_blob to look at the bytes). At most `capacity` go to
 * `missing`, in order; `*missing_count` counts all. As chunks_manifest_get: ERR_NOT_FOUND is the manifest itself. Looking
 * is not asking: who looks again and again keeps no garbage from being collected. */
int chunks_blob_missing(struct chunks *chunks, hash256 manifest_hash, struct blob_piece *missing, uint32_t capacity,
                        uint32_t *missing_count);

/* ---- collection ---- */

#define CHUNKS_DAMAGED_MAX 8 /* told of at a time; the next collection finds more */

struct chunks_collected {
    uint64_t chunks, bytes;
    uint32_t damaged_count;
    hash256 damaged[CHUNKS_DAMAGED_MAX];
};

/* Deletes every chunk that none of these blobs needs and that was neither stored nor asked for (chunks_has) in the last
 * `idle_s` seconds, in which the machine was not suspended; what an earlier process did counts as done when the store was
 * opened. `kept` may name a blob several times. A kept blob that is not here is passed over; its chunks that are here already
 * are safe for `idle_s`: a blob that takes longer than that to come may lose what came first, so whoever stores its manifest
 * looks with chunks_has_all before. A kept chunk that is no manifest (anybody may name any hash) stays, and means nothing
 * more. The store stays usable meanwhile.
 *
 * ERR_CORRUPT: nobody can tell which chunks a kept blob needs, and nothing was deleted; `out->damaged` are manifests that the
 * caller deletes (chunks_delete), or this goes on for ever. ERR_VERSION: the same, of a manifest that a later program wrote.
 * ERR_MEMORY, ERR_NO_SPACE, ERR_IO: what `*out` says was deleted. */
int chunks_collect(struct chunks *chunks, const hash256 *kept, size_t kept_count, uint32_t idle_s,
                   struct chunks_collected *out);

/* The chunk whose hash follows `after` in their order, and its size. ERR_NOT_FOUND behind the last one. */
int chunks_next(struct chunks *chunks, hash256 after, hash256 *next, size_t *count);

/* ---- series ---- */

/* Append-only lists of entries with a sequence number, under a prefix that the caller chooses, e.g. experiment and
 * trial. One series' entries never show in another, also if one prefix begins with the other. */

#define SERIES_PREFIX_BYTES_MAX 64 /* at least 1 */
#define SERIES_ENTRY_BYTES_MAX (1u << 20)

struct series_entry {
    const void *prefix; /* borrowed, like the bytes */
    size_t prefix_bytes;
    uint64_t sequence;
    const void *bytes;
    size_t count;
};

/* Stores an entry; if that sequence number is there already it does nothing and returns 0. ERR_USAGE (sizes),
 * ERR_NO_SPACE, ERR_IO. Waits for the disk: many entries are better put with series_append_batch. */
int series_append(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t sequence, const void *bytes,
                  size_t count);

/* The same for many, in as few transactions as the 16 MiB allow; on failure a beginning of them may be stored. */
int series_append_batch(struct chunks *chunks, const struct series_entry *entries, size_t entry_count);

/* Calls back for the entries from `from_sequence` on, in order. Other than 0 ends the walk and is returned. */
typedef int series_read_fn(void *context, uint64_t sequence, const uint8_t *bytes, size_t count);
int series_read(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t from_sequence,
                series_read_fn *callback, void *context);

/* The highest sequence number. ERR_NOT_FOUND: the series is empty. */
int series_last(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t *sequence);

/* Removes all entries of the series; an empty one may be deleted. */
int series_delete(struct chunks *chunks, const void *prefix, size_t prefix_bytes);

/* Removes the series whose prefix `is_dead` says yes to; it is asked once for each. */
typedef bool series_is_dead_fn(void *context, const uint8_t *prefix, size_t prefix_bytes);
int series_collect(struct chunks *chunks, series_is_dead_fn *is_dead, void *context);

#endif
