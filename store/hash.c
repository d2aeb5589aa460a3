#include "store/hash.h"

#include <sodium.h>

_Static_assert(sizeof(crypto_generichash_state) <= sizeof(struct hash_stream),
               "the opaque bytes hold libsodium's state");
_Static_assert(_Alignof(crypto_generichash_state) <= _Alignof(struct hash_stream), "and are aligned for it");

hash256 hash_bytes(const void *bytes, size_t count)
{
    hash256 hash;
    crypto_generichash(hash.bytes, sizeof hash.bytes, bytes, count, NULL, 0);
    return hash;
}

void hash_stream_init(struct hash_stream *stream)
{
    crypto_generichash_init((crypto_generichash_state *)(void *)stream->opaque, NULL, 0, HASH_BYTES);
}

void hash_stream_add(struct hash_stream *stream, const void *bytes, size_t count)
{
    crypto_generichash_update((crypto_generichash_state *)(void *)stream->opaque, bytes, count);
}

hash256 hash_stream_finish(struct hash_stream *stream)
{
    hash256 hash;
    crypto_generichash_final((crypto_generichash_state *)(void *)stream->opaque, hash.bytes, sizeof hash.bytes);
    return hash;
}
