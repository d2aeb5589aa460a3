#ifndef NODE_BULK_WIRE_H
#define NODE_BULK_WIRE_H
/* The messages of the bulk sockets as bytes (docs/wire.md, "Bulk transfer"): a head in MessagePack and, for some kinds, a
 * second frame with data. Arithmetic only. Pointers in a decoded message point into the frames. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"

#define BULK_WIRE_VERSION 1
#define BULK_WIRE_HAS_MAX 1024
#define BULK_WIRE_PREFIX_BYTES_MAX 64
#define BULK_WIRE_HEAD_BYTES_MAX (32 * BULK_WIRE_HAS_MAX + 64) /* HAS is the largest */
#define BULK_WIRE_BODY_BYTES_MAX (4u << 20)
#define BULK_WIRE_ENTRY_BYTES_MAX (1u << 20)

enum bulk_wire_kind {
    BULK_GET = 1,      /* hash; answer DATA or STATUS */
    BULK_PUT = 2,      /* hash, body: the chunk; answer STATUS */
    BULK_HAS = 3,      /* hashes; answer HELD */
    BULK_APPEND = 4,   /* prefix, body: entries; answer STATUS */
    BULK_READ = 5,     /* prefix, from_sequence, bytes_max; answer ITEMS or STATUS */
    BULK_VERIFY = 6,   /* hash, of a manifest; answer STATUS */
    BULK_DATA = 16,    /* body: the chunk */
    BULK_HELD = 17,    /* bits: the i-th hash is bit i % 8 of byte i / 8 */
    BULK_ITEMS = 18,   /* more, body: entries */
    BULK_STATUS = 19   /* status */
};

enum bulk_wire_status {
    BULK_STORED = 0,
    BULK_MISSING = 1,
    BULK_FULL = 2,    /* the disk */
    BULK_DAMAGED = 3, /* the data have another hash */
    BULK_BUSY = 4,    /* ask again later */
    BULK_WAIT = 5,    /* no answer yet: the question waits for its turn */
    BULK_FAILED = 6,  /* the disk, or memory */
    BULK_UNKNOWN = 7  /* this version or kind of question is not known here */
};

struct bulk_message {
    uint8_t kind;
    uint32_t tag; /* the asker's; answers repeat it */
    hash256 hash;
    const uint8_t *hashes; /* HAS: 32 * hash_count bytes */
    uint32_t hash_count;
    const uint8_t *prefix;
    size_t prefix_bytes;
    uint64_t from_sequence;
    uint32_t bytes_max;
    const uint8_t *bits;
    size_t bits_bytes;
    uint8_t status;
    bool more;
    const uint8_t *body; /* NULL: none */
    size_t body_bytes;
};

/* Writes the head. ERR_FULL. */
int bulk_wire_encode(const struct bulk_message *message, uint8_t *out, size_t capacity, size_t *count);

/* `body` is NULL if there was one frame only. ERR_MALFORMED, `*out` untouched; ERR_VERSION: another version or kind, of
 * which out->kind and tag are set and nothing else. */
int bulk_wire_decode(const uint8_t *head, size_t head_bytes, const uint8_t *body, size_t body_bytes,
                     struct bulk_message *out);

/* Entries, as the body of APPEND and ITEMS: sequence and bytes by turns until the end. */
void bulk_wire_entry_write(struct pack_writer *writer, uint64_t sequence, const uint8_t *bytes, size_t count);

/* Takes the next entry of a reader over a decoded message's body; false at the end. */
bool bulk_wire_entry_read(struct pack_reader *reader, uint64_t *sequence, const uint8_t **bytes, size_t *count);

#endif
