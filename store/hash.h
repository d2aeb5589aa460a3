#ifndef STORE_HASH_H
#define STORE_HASH_H
/* BLAKE2b-256 without a key: the name of every chunk and manifest. Arithmetic only, so cores may call it; libsodium
 * uses its vector versions once sodium_init has run, with the same result. */

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

/* `bytes` may be NULL when count is 0. */
hash256 hash_bytes(const void *bytes, size_t count);

/* For bytes that come in pieces. Opaque; lives wherever the caller puts it, is not kept anywhere else and needs no
 * closing. */
struct hash_stream {
    _Alignas(64) uint8_t opaque[384];
};

void hash_stream_init(struct hash_stream *stream);
void hash_stream_add(struct hash_stream *stream, const void *bytes, size_t count);

/* The hash of everything added; the stream must be initialised again before further use. */
hash256 hash_stream_finish(struct hash_stream *stream);

#endif
