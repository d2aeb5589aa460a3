#ifndef GOSSIP_RECORDS_H
#define GOSSIP_RECORDS_H
/* The table of all records that a node holds: the newest version of each (writer, kind, key). A core; memory comes from
 * the arena given at init. Envelopes are kept byte for byte.
 *
 * A record may be held back: a node's own record that is not on disk yet is in the table, visible to the node's
 * decisions, but is in no digest and never sent by exchange (gossip/exchange.h). */

#include "base/arena.h"
#include "gossip/record.h"

#define RECORDS_BUCKETS 256

/* A digest of a set of records, 128 bits. */
struct records_hash {
    uint64_t words[2]; /* sums modulo 2^64 over all published entries; addition commutes, so each change updates them */
};

/* One record in the table. An entry keeps its address until forgotten; the pointers of `record` and `envelope` are
 * valid until a newer version of the record is put. Callers only read the entry, except for the marks. */
struct records_entry {
    record_ident ident;
    struct record record;     /* its pointers point into `envelope` */
    uint32_t envelope_bytes;
    uint16_t block_bytes;     /* size of the arena block that holds the envelope */
    bool published;           /* the entry is in the digests; false: held back */
    bool on_disk : 1;         /* a mark of the caller: this version is on the disk; cleared by a put */
    bool is_unfolded : 1;     /* a mark of the caller: no memory was left to apply the record; cleared by a put */
    bool is_unawaited : 1;    /* a mark of the caller: no memory was left to await the disk write; cleared by a put */
    bool is_asked : 1;        /* a mark of the caller on an own record: requested by a user since this boot; cleared by a put */
    struct records_hash hash; /* published: the version's part of the digests */
    uint8_t *envelope;
    struct records_entry *next_in_bucket; /* sorted by ident, so that no order depends on arrival */
};

/* The table. Read only through the functions below, and by exchange.c. */
struct records {
    struct arena *arena;
    struct records_entry **slots; /* open hash table, keyed by ident */
    uint32_t slot_count;          /* a power of two */
    uint32_t count;               /* entries, those held back included */
    struct records_entry *buckets[RECORDS_BUCKETS]; /* indexed by the ident's first byte */
    uint32_t published_counts[RECORDS_BUCKETS];
    struct records_hash bucket_hashes[RECORDS_BUCKETS];
    struct records_hash hash;
};

/* An empty table. The arena is borrowed for as long as the table is used. 0 or ERR_MEMORY. */
int records_init(struct records *records, struct arena *arena);

/* Puts a copy of an envelope into the table; `record` must be what record_decode gave for these very bytes. `published`
 * false holds the record back. 0: the record is new or newer, `*out` (may be NULL) is its entry, and the older version
 * is gone. Otherwise nothing has changed: ERR_STALE: an equal or newer version is in the table; ERR_CORRUPT: the same
 * version with other bytes before the signature (equivocation); ERR_FULL: no memory (never for a version no longer than
 * the replaced one). */
int records_put(struct records *records, const struct record *record, const uint8_t *envelope, size_t count, bool published,
                struct records_entry **out);

/* Publishes a version that was held back: stores its signature and adds the entry to the digests. Call it when the disk
 * has the record. 0, without a change if the entry is published already; `*out` (may be NULL) is the entry.
 * ERR_NOT_FOUND: the version has been replaced or forgotten meanwhile. */
int records_publish(struct records *records, record_ident ident, struct record_version version,
                    const uint8_t signature[RECORD_SIGNATURE_BYTES], struct records_entry **out);

/* Removes a record from the table and the digests, as if never received; the entry becomes invalid. 0 or ERR_NOT_FOUND. */
int records_forget(struct records *records, record_ident ident);

/* The entry of a record, held back or published; NULL if there is none. */
struct records_entry *records_find(const struct records *records, record_ident ident);

/* Calls `visit` for every entry, those held back included, in ident order, and stops when `visit` returns false.
 * `visit` must not put or forget records. `context` is passed through. */
void records_each(const struct records *records, bool (*visit)(void *context, const struct records_entry *entry),
                  void *context);

/* True if the two sets of published records are the same, but for collisions of the hash. */
bool records_hash_equal(struct records_hash a, struct records_hash b);

#endif
