#ifndef STORE_BLOB_H
#define STORE_BLOB_H
/* Blobs: a checkpoint, a code directory or a configuration file is stored as chunks and a manifest, the ordered list of
 * the chunks. The encoded manifest is itself stored as a chunk, and its hash is the name of the blob.
 *
 * A core: no allocation, all arrays belong to the caller.
 *
 * An encoded manifest, version 1, is the MessagePack array
 *     [ 1, total_bytes, [chunk_bytes, ...], bin(32 * chunk_count: the hashes in order) ]
 * A blob of 0 bytes has no chunks. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

#define BLOB_VERSION 1
#define BLOB_CHUNK_BYTES (1u << 20)     /* the usual size of a chunk */
#define BLOB_CHUNK_BYTES_MAX (4u << 20) /* the size of chunks of the largest blobs, at most */
#define BLOB_CUTS_PER_CHUNK 16          /* a part is small below a 16th of a chunk */
#define BLOB_CHUNKS_MAX (1u << 16)
#define BLOB_BYTES_MAX ((uint64_t)BLOB_CHUNKS_MAX * BLOB_CHUNK_BYTES_MAX) /* 256 GiB */

/* An upper bound of the encoded bytes for `chunk_count` chunks: 1 + 1 + 9 + 5 + 5 for the heads, and 5 + 32 per chunk. */
#define BLOB_ENCODED_BYTES(chunk_count) (21u + 37u * (size_t)(chunk_count))
_Static_assert(BLOB_ENCODED_BYTES(BLOB_CHUNKS_MAX) <= BLOB_CHUNK_BYTES_MAX, "a manifest fits into one chunk");

/* ---- cutting ---- */

/* How a blob is cut. Without cuts: chunks of `chunk_bytes` each, except for the last. With cuts: chunks of at most
 * `chunk_bytes`. */
struct blob_cut {
    uint64_t total_bytes;
    uint32_t chunk_bytes;
    uint32_t chunk_count;
    const uint64_t *cuts; /* borrowed from the caller */
    size_t cut_count;     /* 0: none */
};

/* Plans how to cut `total_bytes`. `chunk_bytes` 0 means BLOB_CHUNK_BYTES, doubled until BLOB_CHUNKS_MAX chunks are
 * enough. ERR_FULL: too many chunks. ERR_USAGE: chunk_bytes above BLOB_CHUNK_BYTES_MAX. */
int blob_cut_plan(uint64_t total_bytes, uint32_t chunk_bytes, struct blob_cut *out);

/* The offset and the length of chunk `index`, which must be below chunk_count, of a blob without cuts. */
void blob_cut_chunk(const struct blob_cut *cut, uint32_t index, uint64_t *offset, uint32_t *bytes);

/* Plans as blob_cut_plan with the usual size, and lets a chunk begin at each of `cuts`, ascending offsets below
 * total_bytes. So a part of the blob that did not change is the same chunks in the next blob, even if parts before it have
 * another length by then. A part between two cuts becomes equal chunks, as few as possible. Small parts are joined, up
 * to BLOB_CUTS_PER_CHUNK-th of a chunk or the next part that is not small. Where BLOB_CHUNKS_MAX chunks are not enough, chunk_bytes
 * doubles; where that does not help, all cuts are left out. ERR_FULL: as blob_cut_plan. ERR_USAGE: the cuts do not ascend,
 * or lie beyond the end. */
int blob_cut_plan_at(uint64_t total_bytes, const uint64_t *cuts, size_t cut_count, struct blob_cut *out);

/* The walk over the chunks of a plan: start with a zeroed struct. */
struct blob_cut_walk {
    uint64_t offset;      /* of this chunk */
    uint32_t bytes;       /* of this chunk; 0: before the first */
    uint32_t equal_bytes; /* of the chunks of this part, but for the last */
    uint64_t part_end;    /* where the part ends that this chunk lies in */
    size_t next_cut;      /* the first cut that has not been looked at */
};

/* Steps to the next chunk; false when there is no further chunk. */
bool blob_cut_next(const struct blob_cut *cut, struct blob_cut_walk *walk);

/* ---- manifests ---- */

/* One chunk of a manifest, by name and size. */
struct blob_chunk {
    hash256 hash;
    uint32_t bytes;
};

/* A decoded manifest. */
struct blob_manifest {
    struct blob_chunk *chunks; /* belongs to the caller */
    uint32_t chunk_count;
    uint64_t total_bytes; /* the sum of the chunk sizes */
};

/* Encodes a manifest into at most BLOB_ENCODED_BYTES(chunk_count) bytes. ERR_FULL: `out` is too small. ERR_USAGE: more
 * than BLOB_CHUNKS_MAX chunks, a chunk of 0 or more than BLOB_CHUNK_BYTES_MAX bytes, or a sum other than total_bytes. */
int blob_encode(const struct blob_manifest *manifest, uint8_t *out, size_t capacity_bytes, size_t *out_bytes);

/* Reads the two counts, for allocating before blob_decode, and makes all checks of blob_decode. ERR_MALFORMED;
 * ERR_VERSION: well-formed, but of another version. */
int blob_decode_counts(const uint8_t *bytes, size_t count, uint32_t *chunk_count, uint64_t *total_bytes);

/* Decodes bytes from any source into the array `chunks` with room for `capacity`; out->chunks then points to that
 * array. ERR_MALFORMED, ERR_VERSION, ERR_FULL (more than `capacity` chunks): `*out` and the array are unchanged. */
int blob_decode(const uint8_t *bytes, size_t count, struct blob_chunk *chunks, uint32_t capacity,
                struct blob_manifest *out);

/* One chunk with its place in the blob. */
struct blob_piece {
    hash256 hash;
    uint64_t offset;
    uint32_t bytes;
    uint32_t index;
};

/* Iterates over the chunks in order: start with a zeroed piece; false when there is no further chunk. */
bool blob_next(const struct blob_manifest *manifest, struct blob_piece *piece);

/* Some bytes of a blob. */
struct blob_range {
    uint64_t from, count;
};

/* True if any byte of the piece is in one of the ranges, or if there are none: then all of the blob is meant. */
bool blob_is_wanted(const struct blob_piece *piece, const struct blob_range *ranges, size_t range_count);

/* ---- fetching ---- */

/* Decides which holder to ask for which chunk next. Every chunk is asked of one holder at a time, and after a failure
 * of the next, until no holder is left. Holders with failures are asked last; among the rest the least busy holder is
 * asked, and rendezvous weight (base/rendezvous.h) decides ties, so that fetchers of one blob spread over its chunks
 * differently. */

#define BLOB_HOLDERS_MAX 16
#define BLOB_IN_FLIGHT_MAX 64

/* The state of a chunk: to be asked for, asked of one holder, or stored here. */
enum blob_fetch_state { BLOB_FETCH_WANTED, BLOB_FETCH_ASKED, BLOB_FETCH_PRESENT };

/* The progress of one chunk. */
struct blob_fetch_slot {
    uint16_t refused; /* bit h: holder h failed to deliver this chunk */
    uint8_t state;    /* enum blob_fetch_state */
    uint8_t holder;   /* ASKED: index of the holder */
};
_Static_assert(BLOB_HOLDERS_MAX <= 16, "one bit per holder");

/* A node that may hold the blob. */
struct blob_holder {
    node_id node;
    uint32_t in_flight;
    uint32_t strikes; /* number of failures since the last success */
    bool gone;
};

/* One fetch. The caller owns it and the array of slots. */
struct blob_fetch {
    const struct blob_manifest *manifest; /* borrowed until the end of the fetch */
    struct blob_fetch_slot *slots;        /* borrowed likewise; one per chunk */
    struct blob_holder holders[BLOB_HOLDERS_MAX];
    uint32_t holder_count;
    uint32_t in_flight;
    uint32_t in_flight_max;
    uint32_t present_count;
    uint32_t scan_from; /* every slot below is present or asked */
};

/* A question: which node to ask for which chunk. */
struct blob_ask {
    node_id holder;
    struct blob_piece piece;
};

/* The chunk came and is stored; it did not come; or it came with another hash. */
enum blob_answer { BLOB_ANSWER_STORED, BLOB_ANSWER_FAILED, BLOB_ANSWER_CORRUPT };

/* Starts a fetch of all chunks of the manifest. `slots` has one element per chunk; `in_flight_max` is 1 to
 * BLOB_IN_FLIGHT_MAX. */
void blob_fetch_init(struct blob_fetch *fetch, const struct blob_manifest *manifest, struct blob_fetch_slot *slots,
                     uint32_t in_flight_max);

/* Chunk `index` is stored here, from whatever source, even if it is being asked for. ERR_USAGE: no such index. */
int blob_fetch_present(struct blob_fetch *fetch, uint32_t index);

/* Adds a node to ask; the failures of a known node are forgiven. ERR_FULL: BLOB_HOLDERS_MAX. */
int blob_fetch_add_holder(struct blob_fetch *fetch, node_id node);

/* The node is dead: chunks that were asked of it are wanted from other holders. ERR_NOT_FOUND: not a holder. */
int blob_fetch_holder_gone(struct blob_fetch *fetch, node_id node);

/* Gives the next question, which the caller must send; piece.offset is always 0 here. ERR_AGAIN: nothing to ask before
 * an answer comes (in_flight_max is reached, or every wanted chunk is asked for). ERR_NOT_FOUND: no holder is left for
 * a chunk, and `*out` names the chunk with no holder; the fetch can go on only with another holder. ERR_EXISTS: every
 * chunk is present, the fetch is done. */
int blob_fetch_next(struct blob_fetch *fetch, struct blob_ask *out);

/* Takes the answer to a question, or its failure. ERR_STALE: the chunk is not asked of this node now; ignored. */
int blob_fetch_answer(struct blob_fetch *fetch, uint32_t index, node_id node, enum blob_answer answer);

/* True if every chunk is present. */
bool blob_fetch_done(const struct blob_fetch *fetch);

#endif
