#ifndef NODE_BULK_WIRE_H
#define NODE_BULK_WIRE_H
/* The messages of the bulk sockets as bytes (docs/wire.md, "Bulk transfer"): a head in MessagePack and, for some kinds,
 * a second frame with data. Arithmetic only. The pointers of a decoded message point into the frames. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"
#include "node/bulk/stream.h"

#define BULK_WIRE_VERSION 1
#define BULK_WIRE_HAS_MAX 1024
#define BULK_WIRE_PREFIX_BYTES_MAX 64
#define BULK_WIRE_HEAD_BYTES_MAX (32 * BULK_WIRE_HAS_MAX + 64) /* HAS has the largest head */
#define BULK_WIRE_BODY_BYTES_MAX (4u << 20)
#define BULK_WIRE_QUESTION_BYTES_MAX (24u << 10)
#define BULK_WIRE_ENTRY_BYTES_MAX (1u << 20)
#define BULK_WIRE_RESET_BYTES_MAX 223

/* Behind each kind: the fields in use; questions first, then answers. */
enum bulk_wire_kind {
    BULK_GET = 1,      /* hash; answer DATA or STATUS */
    BULK_PUT = 2,      /* hash, body: the chunk; answer STATUS */
    BULK_HAS = 3,      /* hashes; answer HELD */
    BULK_APPEND = 4,   /* prefix, body: entries; answer STATUS */
    BULK_READ = 5,     /* prefix, from_sequence, bytes_max; answer ITEMS or STATUS */
    BULK_VERIFY = 6,   /* hash of a manifest; answer STATUS */
    BULK_ASK = 7,      /* prefix, from_sequence, question; answer ITEMS or STATUS */
    BULK_OPEN = 8,     /* stream, question; answer SEGMENT or RESET */
    BULK_SEGMENT = 9,  /* stream, offset, received, limit, ends, bytes; both ways (stream.h) */
    BULK_RESET = 10,   /* stream, code, bytes: a sentence; both ways, the stream has ended */
    BULK_DATA = 16,    /* body: the chunk */
    BULK_HELD = 17,    /* bits: the i-th hash is bit i % 8 of byte i / 8 */
    BULK_ITEMS = 18,   /* more, body: entries */
    BULK_STATUS = 19   /* status */
};

/* The outcome of a question. */
enum bulk_wire_status {
    BULK_STORED = 0,
    BULK_MISSING = 1,
    BULK_FULL = 2,    /* the disk is full */
    BULK_DAMAGED = 3, /* the data have another hash */
    BULK_BUSY = 4,    /* ask again later */
    BULK_WAIT = 5,    /* no answer yet: the question waits for its turn, and the answer will come */
    BULK_FAILED = 6,  /* a failure of the disk or for lack of memory */
    BULK_UNKNOWN = 7  /* the peer does not know this version or kind of question */
};

/* One message; fields that its kind does not use are zero. */
struct bulk_message {
    uint8_t kind;
    uint32_t tag; /* chosen for the question, repeated in the answer */
    hash256 hash;
    const uint8_t *hashes; /* HAS: 32 * hash_count bytes */
    uint32_t hash_count;
    const uint8_t *prefix;
    size_t prefix_bytes;
    uint64_t from_sequence;
    uint32_t bytes_max;
    const uint8_t *question; /* ASK */
    size_t question_bytes;
    const uint8_t *bits;
    size_t bits_bytes;
    uint8_t status;
    bool more;
    uint64_t stream; /* chosen by the asker, at random */
    uint64_t offset, received, limit;
    bool ends;
    uint8_t code; /* RESET: the error's number without its sign; 0: none */
    const uint8_t *bytes;
    size_t byte_count;
    const uint8_t *body; /* NULL: none */
    size_t body_bytes;
};

/* Encodes the head of a message; the body is a frame of its own. ERR_FULL: `capacity` is too small. */
int bulk_wire_encode(const struct bulk_message *message, uint8_t *out, size_t capacity, size_t *count);

/* Decodes a message; `body` is NULL if there was only one frame. ERR_MALFORMED: `*out` is unchanged; ERR_VERSION:
 * another version or kind, of which only out->kind and out->tag are set. */
int bulk_wire_decode(const uint8_t *head, size_t head_bytes, const uint8_t *body, size_t body_bytes,
                     struct bulk_message *out);

/* Appends an entry to the body of APPEND or ITEMS, in which sequence numbers and bytes alternate to the end. */
void bulk_wire_entry_write(struct pack_writer *writer, uint64_t sequence, const uint8_t *bytes, size_t count);

/* Takes the next entry of a reader over a decoded message's body; false at the end. */
bool bulk_wire_entry_read(struct pack_reader *reader, uint64_t *sequence, const uint8_t **bytes, size_t *count);

#endif
