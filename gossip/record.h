#ifndef GOSSIP_RECORD_H
#define GOSSIP_RECORD_H
/* A record: the unit of replicated state, with one writer, one key and one version. The envelope below is frozen
 * (docs/wire.md); nodes store and forward it byte for byte.
 *
 *   u8 format = 1 | u16 kind | writer[16] | u64 boot | u64 seq | u8 key_bytes | key | u16 body_bytes | body | signature[64]
 *
 * Integers are big-endian. The signature (Ed25519, by the writer) covers RECORD_SIGN_CONTEXT, the mesh id and all bytes
 * before the signature. Cores neither sign nor verify: only verified records enter a core, and its own records are
 * signed after they leave it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

#define RECORD_SIGN_CONTEXT "shoal record 1"
#define RECORD_KEY_BYTES_MAX 96
#define RECORD_BODY_BYTES_MAX 8192
#define RECORD_SIGNATURE_BYTES 64
#define RECORD_HEAD_BYTES (1 + 2 + NODE_ID_BYTES + 8 + 8 + 1)
#define RECORD_ENVELOPE_BYTES_MAX \
    (RECORD_HEAD_BYTES + RECORD_KEY_BYTES_MAX + 2 + RECORD_BODY_BYTES_MAX + RECORD_SIGNATURE_BYTES)

/* boot = (number of the node's start << 32) | 32 random bits; seq counts within a boot. The larger version is newer. */
struct record_version {
    uint64_t boot;
    uint64_t seq;
};

/* < 0: a is older than b; 0: the same version; > 0: a is newer. */
static inline int record_version_compare(struct record_version a, struct record_version b)
{
    if (a.boot != b.boot) {
        return a.boot < b.boot ? -1 : 1;
    }
    return a.seq < b.seq ? -1 : a.seq > b.seq;
}

/* A decoded envelope. The pointers are borrowed: they point into the envelope. */
struct record {
    uint16_t kind;
    node_id writer;
    struct record_version version;
    const uint8_t *key;
    uint8_t key_bytes;
    const uint8_t *body;
    uint16_t body_bytes;
};

/* The name of (writer, kind, key) on the wire and in tables: BLAKE2b-128 of the three. */
typedef struct {
    uint8_t bytes[16];
} record_ident;

ID_FUNCTIONS(record_ident)

/* Decodes one envelope. ERR_MALFORMED, with `*out` unchanged, unless the bytes are exactly one well-formed record
 * within all bounds. The signature is not checked. */
int record_decode(const uint8_t *envelope, size_t count, struct record *out);

/* The length of the record that starts at `bytes`, for lists of records laid end to end; ERR_MALFORMED. */
int record_length(const uint8_t *bytes, size_t count, size_t *out);

/* Writes the envelope with a zero signature into the caller's buffer; returns its length, or 0 if a bound is exceeded
 * or `capacity` is too small. */
size_t record_encode(const struct record *record, uint8_t *out, size_t capacity);

/* The ident of a record; the key is hashed as it is. */
record_ident record_ident_of(node_id writer, uint16_t kind, const uint8_t *key, uint8_t key_bytes);

#endif
