#include "train/group/handshake.h"

#include <string.h>

#include "base/bytes.h"

void handshake_init(struct handshake *self, const char *magic, uint32_t rank, uint64_t generation,
                    const uint8_t key[HANDSHAKE_KEY_BYTES], const char *group)
{
    *self = (struct handshake){.rank = rank, .generation = generation};
    memcpy(self->magic, magic, sizeof self->magic);
    memcpy(self->key, key, sizeof self->key);
    (void)crypto_generichash_init(&self->members, NULL, 0, HANDSHAKE_HASH_BYTES);
    handshake_add(self, group, strlen(group) + 1);
}

void handshake_add(struct handshake *self, const void *bytes, size_t count)
{
    (void)crypto_generichash_update(&self->members, bytes, count);
}

void handshake_added(struct handshake *self)
{
    (void)crypto_generichash_final(&self->members, self->members_hash, sizeof self->members_hash);
}

void handshake_end(struct handshake *self)
{
    sodium_memzero(self, sizeof *self);
}

/* ---- proofs ---- */

static void keyed_hash(const struct handshake *self, const char *label, const uint8_t *bytes, size_t count, uint8_t out[32])
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, self->key, sizeof self->key, 32);
    (void)crypto_generichash_update(&state, (const uint8_t *)label, strlen(label) + 1);
    (void)crypto_generichash_update(&state, bytes, count);
    (void)crypto_generichash_final(&state, out, 32);
}

static bool holds(const struct handshake *self, const char *label, const uint8_t *bytes, size_t count,
                  const uint8_t mac[HANDSHAKE_MAC_BYTES])
{
    uint8_t expected[HANDSHAKE_MAC_BYTES];
    keyed_hash(self, label, bytes, count, expected);
    return sodium_memcmp(expected, mac, sizeof expected) == 0;
}

void handshake_derive(const struct handshake *self, const char *label, const struct handshake_transcript *transcript,
                      uint8_t out[HANDSHAKE_KEY_BYTES])
{
    keyed_hash(self, label, transcript->bytes, sizeof transcript->bytes, out);
}

static bool transcript_holds(const struct handshake *self, const char *label, const struct handshake_transcript *transcript,
                             const uint8_t mac[HANDSHAKE_MAC_BYTES])
{
    return holds(self, label, transcript->bytes, sizeof transcript->bytes, mac);
}

/* ---- the connecting side ---- */

void handshake_hello(const struct handshake *self, uint32_t to, struct handshake_transcript *transcript,
                     uint8_t out[HANDSHAKE_HELLO_BYTES])
{
    memcpy(out, self->magic, 8);
    bytes_put_u32(out + 8, self->rank);
    bytes_put_u32(out + 12, to);
    bytes_put_u64(out + 16, self->generation);
    memcpy(out + 24, self->members_hash, HANDSHAKE_HASH_BYTES);
    randombytes_buf(out + 24 + HANDSHAKE_HASH_BYTES, HANDSHAKE_NONCE_BYTES);
    keyed_hash(self, "hello", out, HANDSHAKE_SIGNED_BYTES, out + HANDSHAKE_SIGNED_BYTES);
    memcpy(transcript->bytes, out, HANDSHAKE_SIGNED_BYTES);
}

bool handshake_hear_reply(const struct handshake *self, struct handshake_transcript *transcript,
                          const uint8_t reply[HANDSHAKE_REPLY_BYTES])
{
    memcpy(transcript->bytes + HANDSHAKE_SIGNED_BYTES, reply, HANDSHAKE_NONCE_BYTES);
    return transcript_holds(self, "reply", transcript, reply + HANDSHAKE_NONCE_BYTES);
}

void handshake_confirm(const struct handshake *self, const struct handshake_transcript *transcript,
                       uint8_t out[HANDSHAKE_MAC_BYTES])
{
    handshake_derive(self, "confirm", transcript, out);
}

bool handshake_hear_ready(const struct handshake *self, const struct handshake_transcript *transcript,
                          const uint8_t ready[HANDSHAKE_MAC_BYTES])
{
    return transcript_holds(self, "ready", transcript, ready);
}

/* ---- the accepting side ---- */

bool handshake_hear_hello(const struct handshake *self, struct handshake_transcript *transcript,
                          const uint8_t hello[HANDSHAKE_HELLO_BYTES], uint32_t *sender)
{
    if (memcmp(hello, self->magic, 8) != 0 || bytes_get_u32(hello + 12) != self->rank ||
        bytes_get_u64(hello + 16) != self->generation ||
        memcmp(hello + 24, self->members_hash, HANDSHAKE_HASH_BYTES) != 0 ||
        !holds(self, "hello", hello, HANDSHAKE_SIGNED_BYTES, hello + HANDSHAKE_SIGNED_BYTES)) {
        return false;
    }
    *sender = bytes_get_u32(hello + 8);
    memcpy(transcript->bytes, hello, HANDSHAKE_SIGNED_BYTES);
    return true;
}

void handshake_reply(const struct handshake *self, struct handshake_transcript *transcript,
                     uint8_t out[HANDSHAKE_REPLY_BYTES])
{
    randombytes_buf(out, HANDSHAKE_NONCE_BYTES);
    memcpy(transcript->bytes + HANDSHAKE_SIGNED_BYTES, out, HANDSHAKE_NONCE_BYTES);
    handshake_derive(self, "reply", transcript, out + HANDSHAKE_NONCE_BYTES);
}

bool handshake_hear_confirm(const struct handshake *self, const struct handshake_transcript *transcript,
                            const uint8_t confirm[HANDSHAKE_MAC_BYTES])
{
    return transcript_holds(self, "confirm", transcript, confirm);
}

void handshake_ready(const struct handshake *self, const struct handshake_transcript *transcript,
                     uint8_t out[HANDSHAKE_MAC_BYTES])
{
    handshake_derive(self, "ready", transcript, out);
}
