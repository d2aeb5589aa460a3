#ifndef STORE_HASH_H
#define STORE_HASH_H
/* BLAKE2b-256 (RFC 7693) without a key: the name of every chunk and manifest. Pure arithmetic, so cores may call it.
 * libsodium uses vector instructions once sodium_init has run, with the same result. */

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

/* The hash of `count` bytes; `bytes` may be NULL when count is 0. */
hash256 hash_bytes(const void *bytes, size_t count);

/* The state of a hash over bytes that come in pieces. Opaque; the caller owns the memory, and it needs no closing. */
struct hash_stream {
    _Alignas(64) uint8_t opaque[384];
};

/* Starts an empty hash, and appends bytes to it. */
void hash_stream_init(struct hash_stream *stream);
void hash_stream_add(struct hash_stream *stream, const void *bytes, size_t count);

/* Returns the hash of all bytes added; initialise the stream again before further use. */
hash256 hash_stream_finish(struct hash_stream *stream);

#endif
