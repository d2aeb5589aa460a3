#ifndef STORE_CHUNKS_LMDB_H
#define STORE_CHUNKS_LMDB_H
/* The `chunks` environment in DIR/chunks: chunks by their hash, blobs made of chunks, and series (metric points, logs).
 * A shell over LMDB.
 *
 * The map is 1 TiB if the address space allows it, else the largest halving that fits, down to 4 GiB. A write
 * transaction holds at most 16 MiB of data. Whatever a function stored is on disk when it returns 0.
 *
 * Any thread may call any function: a writer waits for other writers, a reader waits for nobody. A read copies under a
 * short transaction and hashes after it; callbacks run inside a transaction, so they must not write and must be short.
 *
 * ERR_NO_SPACE means that the disk (or the map) is full; stored data stays readable, and deleting makes room. On
 * failure an `error` argument becomes one sentence for people; it is unchanged on success. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/blob.h"

/* The size of the map, the smallest size to fall back to, and the limit of a transaction. */
#define CHUNKS_MAP_BYTES (1ull << 40)
#define CHUNKS_MAP_BYTES_MIN (1ull << 32)
#define CHUNKS_TRANSACTION_BYTES (16u << 20)

/* An open store; opaque. */
struct chunks;

/* Opens or creates DIR/chunks; DIR must exist. ERR_NO_SPACE, ERR_IO, ERR_CORRUPT, ERR_VERSION, ERR_MEMORY, ERR_USAGE.
 * The caller owns `*out` until chunks_close. */
int chunks_open(const char *dir, struct chunks **out, char *error, size_t error_size);

/* Closes the store and sets `*chunks` to NULL; no other call may be in progress. NULL inside is allowed. */
void chunks_close(struct chunks **chunks);

/* ---- chunks ---- */

/* Stores 1 to BLOB_CHUNK_BYTES_MAX bytes under their hash; 0 also if the chunk is stored already. ERR_CORRUPT: the
 * bytes have another hash. ERR_USAGE: `count`. ERR_NO_SPACE, ERR_IO. */
int chunks_put(struct chunks *chunks, hash256 hash, const void *bytes, size_t count);

/* Copies a chunk and checks its hash. ERR_NOT_FOUND; ERR_FULL: larger than capacity_bytes (BLOB_CHUNK_BYTES_MAX is
 * always enough). ERR_CORRUPT: damaged on disk; `buffer` then holds the damaged bytes, and the caller must delete the
 * chunk with chunks_delete before storing a good copy. */
int chunks_get(struct chunks *chunks, hash256 hash, void *buffer, size_t capacity_bytes, size_t *count);

/* True if a chunk with this name is stored; its bytes are not checked. The caller can rely on the answer for the
 * `idle_s` of chunks_collect, which leaves chunks that were asked for lately. */
bool chunks_has(struct chunks *chunks, hash256 hash);

/* Deletes a chunk. Chunks are shared between blobs: the caller must know that no blob needs it. ERR_NOT_FOUND,
 * ERR_NO_SPACE, ERR_IO. */
int chunks_delete(struct chunks *chunks, hash256 hash);

/* Calls `callback` for every stored chunk in the order of the hashes; a result other than 0 ends the walk and is
 * returned. */
typedef int chunks_each_fn(void *context, hash256 hash, size_t count);
int chunks_each(struct chunks *chunks, chunks_each_fn *callback, void *context);

/* The room for more data. */
struct chunks_space {
    uint64_t free_bytes;     /* what can still be stored: disk_bytes and reusable_bytes together, bounded by the map */
    uint64_t disk_bytes;     /* free on the file system for this user */
    uint64_t reusable_bytes; /* deleted, and kept in the file for new data */
    uint64_t file_bytes;     /* pages of the file in use or reusable */
};

/* Measures the room. 0; ERR_IO and others: `*out` is unchanged. */
int chunks_space(struct chunks *chunks, struct chunks_space *out);

/* ---- blobs ---- */

/* Cuts `total_bytes` of `fd` from offset 0 (with pread, so the position does not matter), stores the chunks and finally
 * the manifest, and gives the manifest's hash. While a thread writes 16 MiB, the next 16 MiB are read and hashed, so
 * the call takes 32 MiB of memory (less for less data). `chunk_bytes` 0: the default. Chunks that are collected
 * meanwhile are stored again. ERR_IO, also if fd has fewer bytes. ERR_NO_SPACE: the chunks stored so far stay.
 * ERR_AGAIN: chunks are collected faster than they are stored. ERR_FULL, ERR_USAGE (see blob_cut_plan), ERR_MEMORY. */
int chunks_put_blob_from_fd(struct chunks *chunks, int fd, uint64_t total_bytes, uint32_t chunk_bytes,
                            hash256 *manifest_hash, char *error, size_t error_size);

/* The same with chunks of the usual size that begin at `cuts`, ascending offsets below total_bytes (see
 * blob_cut_plan_at). Errors as of chunks_put_blob_from_fd. */
int chunks_put_blob_cut_at(struct chunks *chunks, int fd, uint64_t total_bytes, const uint64_t *cuts, size_t cut_count,
                           hash256 *manifest_hash, char *error, size_t error_size);

/* Reads and checks a manifest; `out->chunks` is allocated, and the caller frees it with chunks_manifest_free.
 * ERR_NOT_FOUND, ERR_CORRUPT (as chunks_get), ERR_MALFORMED (the chunk is not a manifest), ERR_VERSION, ERR_MEMORY. */
int chunks_manifest_get(struct chunks *chunks, hash256 manifest_hash, struct blob_manifest *out);

/* Frees the chunks of a manifest from chunks_manifest_get. */
void chunks_manifest_free(struct blob_manifest *manifest);

/* Writes the whole blob to `fd` from offset 0 (with pwrite; a file or memfd, which grows but is not truncated). On
 * ERR_NOT_FOUND and ERR_CORRUPT `*blamed` (may be NULL) is the hash of the missing or damaged chunk or manifest; the
 * chunks before it are written. Other errors as chunks_manifest_get, and ERR_NO_SPACE and ERR_IO of fd. */
int chunks_read_blob_to_fd(struct chunks *chunks, hash256 manifest_hash, int fd, hash256 *blamed, char *error,
                           size_t error_size);

/* As chunks_read_blob_to_fd, for the chunks with bytes of these ranges only, of a blob whose manifest need not be stored: it is
 * given, encoded. The file gets the size of the blob, with holes where nothing is read. */
int chunks_read_ranges_to_fd(struct chunks *chunks, const void *encoded, size_t encoded_bytes, const struct blob_range *ranges,
                             size_t range_count, int fd, hash256 *blamed, char *error, size_t error_size);

/* Checks that every chunk of the blob is stored and undamaged. Errors as chunks_read_blob_to_fd. */
int chunks_verify_blob(struct chunks *chunks, hash256 manifest_hash, hash256 *blamed, char *error, size_t error_size);

/* chunks_has for every chunk of this manifest, which need not be stored itself; true if all chunks are stored. */
bool chunks_has_all(struct chunks *chunks, const struct blob_manifest *manifest);

/* Lists the chunks of a blob that are not stored here (by name; chunks_verify_blob checks the bytes). At most
 * `capacity` are written to `missing`, in order; `*missing_count` counts all. Errors as chunks_manifest_get:
 * ERR_NOT_FOUND is the manifest itself. This does not count as asking for the chunks, so repeated calls keep no garbage
 * alive. */
int chunks_blob_missing(struct chunks *chunks, hash256 manifest_hash, struct blob_piece *missing, uint32_t capacity,
                        uint32_t *missing_count);

/* ---- collection ---- */

#define CHUNKS_DAMAGED_MAX 8 /* reported at a time; the next collection finds more */

/* What a collection deleted, and the damaged manifests that it met. */
struct chunks_collected {
    uint64_t chunks, bytes;
    uint32_t damaged_count;
    hash256 damaged[CHUNKS_DAMAGED_MAX];
};

/* Garbage collection: deletes every chunk that none of the `kept` blobs needs and that was neither stored nor asked for
 * (chunks_has) in the last `idle_s` seconds of time without suspends; use in an earlier process counts as use at the
 * moment the store was opened. `kept` may name a blob several times. The store stays usable meanwhile.
 *
 * A kept blob that is not stored is skipped; those of its chunks that are stored already are safe for `idle_s`. A blob
 * that takes longer to arrive may therefore lose its first chunks: call chunks_has_all before storing its manifest. A
 * kept chunk that is not a manifest (anybody may name any hash) stays, and nothing else follows from it.
 *
 * ERR_CORRUPT: the chunks of a kept blob cannot be determined, and nothing was deleted; `out->damaged` are manifests
 * that the caller must delete (chunks_delete), or the next collection fails again. ERR_VERSION: likewise, for a
 * manifest of a later program. ERR_MEMORY, ERR_NO_SPACE, ERR_IO: `*out` counts the deletions so far. */
int chunks_collect(struct chunks *chunks, const hash256 *kept, size_t kept_count, uint32_t idle_s,
                   struct chunks_collected *out);

/* The chunk whose hash follows `after`, and its size. ERR_NOT_FOUND: `after` is the last one or behind it. */
int chunks_next(struct chunks *chunks, hash256 after, hash256 *next, size_t *count);

/* ---- series ---- */

/* Append-only lists of entries with sequence numbers, each under a prefix that the caller chooses, e.g. experiment and
 * trial. The entries of two series never mix, even if one prefix begins with the other. */

#define SERIES_PREFIX_BYTES_MAX 64 /* at least 1 */
#define SERIES_ENTRY_BYTES_MAX (1u << 20)

/* One entry to append. */
struct series_entry {
    const void *prefix; /* `prefix` and `bytes` are borrowed */
    size_t prefix_bytes;
    uint64_t sequence;
    const void *bytes;
    size_t count;
};

/* Stores an entry and waits for the disk; 0 also if the sequence number exists already, which changes nothing. For many
 * entries use series_append_batch. ERR_USAGE (sizes), ERR_NO_SPACE, ERR_IO. */
int series_append(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t sequence, const void *bytes,
                  size_t count);

/* Stores many entries, in as few transactions as the 16 MiB allow. Errors as series_append; the first entries may be
 * stored then. */
int series_append_batch(struct chunks *chunks, const struct series_entry *entries, size_t entry_count);

/* Calls `callback` for the entries from `from_sequence` on, in order; `bytes` is valid during the callback. A result
 * other than 0 ends the walk and is returned. */
typedef int series_read_fn(void *context, uint64_t sequence, const uint8_t *bytes, size_t count);
int series_read(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t from_sequence,
                series_read_fn *callback, void *context);

/* Gives the highest sequence number. ERR_NOT_FOUND: the series is empty. */
int series_last(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t *sequence);

/* Gives the number of the newest entry that has at least `bytes` bytes of entries behind it; of a block, that of its last entry, and
 * its bytes count with a few for the numbers. ERR_NOT_FOUND: no entry has so many behind it. */
int series_older(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t bytes, uint64_t *sequence);

/* Deletes all entries of the series. 0 also if it is empty. */
int series_delete(struct chunks *chunks, const void *prefix, size_t prefix_bytes);

/* Deletes the oldest entries, those with numbers up to `last`; a block that also has later ones stays whole. 0 also if there is
 * none. */
int series_trim(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t last);

#define SERIES_BLOCK_BYTES (256u << 10) /* of entries in one block, and one entry more */

/* Compresses the oldest entries in blocks of about SERIES_BLOCK_BYTES, in smaller ones before a block that is there, and with `all`
 * the rest. A large entry is a block from the beginning. Readers see no difference. A later entry with a number between those of a block unpacks that block. ERR_CORRUPT, ERR_MEMORY, ERR_NO_SPACE,
 * ERR_IO: the blocks made so far stay. */
int series_pack(struct chunks *chunks, const void *prefix, size_t prefix_bytes, bool all);

/* Calls `callback` once for every series, in no transaction, so it may change that series. A result other than 0 ends the walk and
 * is returned. */
typedef int series_each_fn(void *context, const uint8_t *prefix, size_t prefix_bytes);
int series_each(struct chunks *chunks, series_each_fn *callback, void *context);

#endif
