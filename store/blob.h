#ifndef STORE_BLOB_H
#define STORE_BLOB_H
/* Blobs: a checkpoint, a code directory or a configuration file is a manifest, the ordered list of the chunks that it
 * is made of. The encoded manifest is stored as a chunk itself, and its hash is the blob's name.
 *
 * A core: no allocation, arrays belong to the caller.
 *
 * An encoded manifest, version 1, is the MessagePack array
 *     [ 1, total_bytes, [chunk_bytes, ...], bin(32 * chunk_count: the hashes in order) ]
 * A blob of 0 bytes has no chunks. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

#define BLOB_VERSION 1
#define BLOB_CHUNK_BYTES (1u << 20)     /* chunks are cut to this size, */
#define BLOB_CHUNK_BYTES_MAX (4u << 20) /* or larger, up to this one, where there would be too many */
#define BLOB_CHUNKS_MAX (1u << 16)
#define BLOB_BYTES_MAX ((uint64_t)BLOB_CHUNKS_MAX * BLOB_CHUNK_BYTES_MAX) /* 256 GiB */

/* Bytes that the encoding of `chunk_count` chunks needs at most: 1 + 1 + 9 + 5 + 5 for the heads, per chunk 5 + 32. */
#define BLOB_ENCODED_BYTES(chunk_count) (21u + 37u * (size_t)(chunk_count))
_Static_assert(BLOB_ENCODED_BYTES(BLOB_CHUNKS_MAX) <= BLOB_CHUNK_BYTES_MAX, "a manifest fits into one chunk");

/* ---- cutting ---- */

/* Chunks of `chunk_bytes` each but the last one. */
struct blob_cut {
    uint64_t total_bytes;
    uint32_t chunk_bytes;
    uint32_t chunk_count;
};

/* How to cut `total_bytes`. `chunk_bytes` 0 means BLOB_CHUNK_BYTES, doubled while there would be more than
 * BLOB_CHUNKS_MAX chunks. ERR_FULL: too many chunks. ERR_USAGE: chunk_bytes above BLOB_CHUNK_BYTES_MAX. */
int blob_cut_plan(uint64_t total_bytes, uint32_t chunk_bytes, struct blob_cut *out);

/* Where chunk `index` (below chunk_count) begins, and its length. */
void blob_cut_chunk(const struct blob_cut *cut, uint32_t index, uint64_t *offset, uint32_t *bytes);

/* ---- manifests ---- */

struct blob_chunk {
    hash256 hash;
    uint32_t bytes;
};

struct blob_manifest {
    struct blob_chunk *chunks; /* the caller's array */
    uint32_t chunk_count;
    uint64_t total_bytes; /* the sum over the chunks */
};

/* Writes at most BLOB_ENCODED_BYTES(chunk_count) bytes. ERR_FULL: `out` is too small. ERR_USAGE: more than
 * BLOB_CHUNKS_MAX chunks, a chunk of 0 or more than BLOB_CHUNK_BYTES_MAX bytes, or another sum than total_bytes. */
int blob_encode(const struct blob_manifest *manifest, uint8_t *out, size_t capacity_bytes, size_t *out_bytes);

/* Reads the two counts, for allocating before blob_decode. Checks everything that blob_decode checks.
 * ERR_MALFORMED; ERR_VERSION: well-formed, but of another version. */
int blob_decode_counts(const uint8_t *bytes, size_t count, uint32_t *chunk_count, uint64_t *total_bytes);

/* Decodes bytes from anywhere into `chunks`, which has room for `capacity` and is what out->chunks points to then.
 * ERR_MALFORMED, ERR_VERSION, ERR_FULL (more than `capacity` chunks); `*out` and the array are then untouched. */
int blob_decode(const uint8_t *bytes, size_t count, struct blob_chunk *chunks, uint32_t capacity,
                struct blob_manifest *out);

/* One chunk in its place. */
struct blob_piece {
    hash256 hash;
    uint64_t offset;
    uint32_t bytes;
    uint32_t index;
};

/* Goes through the chunks in order: start with a zeroed piece; true as long as `piece` is another one. */
bool blob_next(const struct blob_manifest *manifest, struct blob_piece *piece);

/* ---- fetching ---- */

/* Decides which chunk to ask of whom next. Every chunk is asked of one holder at a time; after a failure of another
 * one, until none is left. Holders that fail are asked last; else the least busy one is, and ties are broken by
 * rendezvous weight, so that fetchers of the same blob spread differently over its chunks. */

#define BLOB_HOLDERS_MAX 16
#define BLOB_IN_FLIGHT_MAX 64

enum blob_fetch_state { BLOB_FETCH_WANTED, BLOB_FETCH_ASKED, BLOB_FETCH_PRESENT };

struct blob_fetch_slot {
    uint16_t refused; /* bit h: holder h failed for this chunk */
    uint8_t state;    /* enum blob_fetch_state */
    uint8_t holder;   /* while asked */
};
_Static_assert(BLOB_HOLDERS_MAX <= 16, "one bit per holder");

struct blob_holder {
    node_id node;
    uint32_t in_flight;
    uint32_t strikes; /* failures since the last success */
    bool gone;
};

struct blob_fetch {
    const struct blob_manifest *manifest; /* borrowed until the fetch ends */
    struct blob_fetch_slot *slots;        /* the caller's, one per chunk */
    struct blob_holder holders[BLOB_HOLDERS_MAX];
    uint32_t holder_count;
    uint32_t in_flight;
    uint32_t in_flight_max;
    uint32_t present_count;
    uint32_t scan_from; /* every slot below is present or asked */
};

struct blob_ask {
    node_id holder;
    struct blob_piece piece;
};

enum blob_answer { BLOB_ANSWER_STORED, BLOB_ANSWER_FAILED, BLOB_ANSWER_CORRUPT };

/* `slots` has one element per chunk of the manifest; all chunks are wanted then. `in_flight_max` is 1 to
 * BLOB_IN_FLIGHT_MAX. */
void blob_fetch_init(struct blob_fetch *fetch, const struct blob_manifest *manifest, struct blob_fetch_slot *slots,
                     uint32_t in_flight_max);

/* Chunk `index` is stored here already (or came from elsewhere, also while it is asked for). ERR_USAGE: no such index.
 */
int blob_fetch_present(struct blob_fetch *fetch, uint32_t index);

/* Another node to ask. Adding a known one forgives its failures. ERR_FULL at BLOB_HOLDERS_MAX. */
int blob_fetch_add_holder(struct blob_fetch *fetch, node_id node);

/* The node is dead: what it was asked for is wanted from others. ERR_NOT_FOUND: not a holder. */
int blob_fetch_holder_gone(struct blob_fetch *fetch, node_id node);

/* The next question, which the caller sends. ERR_AGAIN: nothing to ask before an answer comes (enough is in flight, or
 * all that is wanted is). ERR_NOT_FOUND: no holder is left for some chunk, which `*out` names with no holder; the
 * fetch can go on only with another holder. ERR_EXISTS: every chunk is present, the fetch is done.
 * piece.offset is always 0 here. */
int blob_fetch_next(struct blob_fetch *fetch, struct blob_ask *out);

/* An answer, or the lack of one, to a question. ERR_STALE: this chunk is not asked of this node now; ignored. */
int blob_fetch_answer(struct blob_fetch *fetch, uint32_t index, node_id node, enum blob_answer answer);

bool blob_fetch_done(const struct blob_fetch *fetch);

#endif
