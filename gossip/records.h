#ifndef GOSSIP_RECORDS_H
#define GOSSIP_RECORDS_H
/* The table of all records that a node holds: newest version of each (writer, kind, key). A core; memory comes from
 * the arena given at init. Envelopes are kept byte for byte.
 *
 * A record may be held back ("private"): a node's own record that is not on its disk yet is in the table, so that the
 * node's own decisions see it, but it is in no digest, and exchange never sends it. */

#include "base/arena.h"
#include "gossip/record.h"

#define RECORDS_BUCKETS 256

struct records_hash {
    uint64_t words[2]; /* sums, modulo 2^64, over all published entries: commutative, so it can be kept incrementally */
};

/* One held record. The entry keeps its address until it is forgotten; what it points to (`record`'s pointers and
 * `envelope`) is valid until a newer version of it is put. Callers only read it. */
struct records_entry {
    record_ident ident;
    struct record record;     /* points into `envelope` */
    uint32_t envelope_bytes;
    uint16_t block_bytes;     /* of the arena block that holds the envelope */
    bool published;           /* in the digests */
    bool on_disk : 1;         /* the caller's mark: this version is on the disk; false after a put */
    bool is_unfolded : 1;     /* the caller's mark, too: there was no memory for what it says; false after a put */
    bool is_unawaited : 1;    /* ... or to wait for its way to the disk */
    bool is_asked : 1;        /* ... of an own one: a user asked for it in this life */
    struct records_hash hash; /* while published: what this version adds to the digests */
    uint8_t *envelope;
    struct records_entry *next_in_bucket; /* sorted by ident, so no order depends on arrival */
};

struct records {
    struct arena *arena;
    struct records_entry **slots; /* open hash table by ident */
    uint32_t slot_count;          /* a power of two */
    uint32_t count;               /* entries, held back ones included */
    struct records_entry *buckets[RECORDS_BUCKETS]; /* by the ident's first byte */
    uint32_t published_counts[RECORDS_BUCKETS];
    struct records_hash bucket_hashes[RECORDS_BUCKETS];
    struct records_hash hash;
};

/* 0 or ERR_MEMORY. The arena is borrowed for the table's life. */
int records_init(struct records *records, struct arena *arena);

/* Puts one envelope (copied); `record` is what record_decode made of these very bytes. 0: it is new or newer, `*out` (may be
 * NULL) is its entry and the older version is gone; ERR_STALE: an equal or newer version is held; ERR_CORRUPT: the same version with other bytes before the
 * signature (equivocation), nothing changed; ERR_FULL: no memory, nothing changed (never for a version that is no longer
 * than the one that it replaces). `published` false holds it back. */
int records_put(struct records *records, const struct record *record, const uint8_t *envelope, size_t count, bool published,
                struct records_entry **out);

/* After the disk has it: stores the signature and takes the entry into the digests. 0 and no change if it is published
 * already; ERR_NOT_FOUND if that version has been replaced meanwhile. `out` may be NULL. */
int records_publish(struct records *records, record_ident ident, struct record_version version,
                    const uint8_t signature[RECORD_SIGNATURE_BYTES], struct records_entry **out);

/* Takes a record out, of the digests too, as if it had never come; the entry is gone. 0, or ERR_NOT_FOUND. */
int records_forget(struct records *records, record_ident ident);

/* NULL if nothing is held. */
struct records_entry *records_find(const struct records *records, record_ident ident);

/* Calls `visit` for every entry, held back ones included, in ident order; stops when it returns false. `visit` must not
 * put or forget records. */
void records_each(const struct records *records, bool (*visit)(void *context, const struct records_entry *entry),
                  void *context);

bool records_hash_equal(struct records_hash a, struct records_hash b);

#endif
