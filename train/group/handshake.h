#ifndef TRAIN_GROUP_HANDSHAKE_H
#define TRAIN_GROUP_HANDSHAKE_H
/* How two ranks of a group authenticate each other on any kind of connection: the messages and their checks. Sockets, retries
 * and descriptors belong to the transports (train/group/tcp/meet.c, train/group/shm/meet.c).
 *
 *     connector -> acceptor  hello    magic, sender, receiver, generation, hash of the member list, nonce, MAC
 *     acceptor -> connector  reply    nonce, MAC over the transcript so far
 *     connector -> acceptor  confirm  MAC
 *     acceptor -> connector  ready    MAC
 *
 * The MAC is BLAKE2b under the group's key, of a label and the transcript: the hello without its MAC, and the reply's nonce.
 * Both nonces are fresh, so messages of another connection are worthless; a replayed hello gets a reply and no more. The
 * transport's keys are derived from the transcript in the same way. */

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDSHAKE_KEY_BYTES 32
#define HANDSHAKE_HASH_BYTES 32
#define HANDSHAKE_NONCE_BYTES 32
#define HANDSHAKE_MAC_BYTES 32
#define HANDSHAKE_SIGNED_BYTES (8 + 4 + 4 + 8 + HANDSHAKE_HASH_BYTES + HANDSHAKE_NONCE_BYTES)
#define HANDSHAKE_HELLO_BYTES (HANDSHAKE_SIGNED_BYTES + HANDSHAKE_MAC_BYTES)
#define HANDSHAKE_REPLY_BYTES (HANDSHAKE_NONCE_BYTES + HANDSHAKE_MAC_BYTES)
/* an acceptor waits this long for a stranger; a connector waits twice as long, so that it gives up later */
#define HANDSHAKE_MS 2000

/* The facts that both ends must share, and the rank of this end. */
struct handshake {
    uint8_t magic[8]; /* of the transport */
    uint32_t rank;
    uint64_t generation;
    uint8_t key[HANDSHAKE_KEY_BYTES];
    uint8_t members_hash[HANDSHAKE_HASH_BYTES];
    crypto_generichash_state members; /* while members are added */
};

/* The messages of a connection as far as they are signed. */
struct handshake_transcript {
    uint8_t bytes[HANDSHAKE_SIGNED_BYTES + HANDSHAKE_NONCE_BYTES];
};

/* handshake_init starts with the name of the group, handshake_add adds each member's bytes in rank order, and handshake_added
 * finishes the hash of the member list. handshake_end wipes the key and everything else. */
void handshake_init(struct handshake *self, const char *magic, uint32_t rank, uint64_t generation,
                    const uint8_t key[HANDSHAKE_KEY_BYTES], const char *group);
void handshake_add(struct handshake *self, const void *bytes, size_t count);
void handshake_added(struct handshake *self);
void handshake_end(struct handshake *self);

/* The connecting side, in the order of the calls. `to` is the acceptor's rank. handshake_hear_* return whether the other end
 * has proved that it knows the key. */
void handshake_hello(const struct handshake *self, uint32_t to, struct handshake_transcript *transcript,
                     uint8_t out[HANDSHAKE_HELLO_BYTES]);
bool handshake_hear_reply(const struct handshake *self, struct handshake_transcript *transcript,
                          const uint8_t reply[HANDSHAKE_REPLY_BYTES]);
void handshake_confirm(const struct handshake *self, const struct handshake_transcript *transcript,
                       uint8_t out[HANDSHAKE_MAC_BYTES]);
bool handshake_hear_ready(const struct handshake *self, const struct handshake_transcript *transcript,
                          const uint8_t ready[HANDSHAKE_MAC_BYTES]);

/* The accepting side. *sender is the claimed rank, any number; it is proved once handshake_hear_confirm returns true. */
bool handshake_hear_hello(const struct handshake *self, struct handshake_transcript *transcript,
                          const uint8_t hello[HANDSHAKE_HELLO_BYTES], uint32_t *sender);
void handshake_reply(const struct handshake *self, struct handshake_transcript *transcript,
                     uint8_t out[HANDSHAKE_REPLY_BYTES]);
bool handshake_hear_confirm(const struct handshake *self, const struct handshake_transcript *transcript,
                            const uint8_t confirm[HANDSHAKE_MAC_BYTES]);
void handshake_ready(const struct handshake *self, const struct handshake_transcript *transcript,
                     uint8_t out[HANDSHAKE_MAC_BYTES]);

/* Derives a key that only the two ends of this connection know. */
void handshake_derive(const struct handshake *self, const char *label, const struct handshake_transcript *transcript,
                      uint8_t out[HANDSHAKE_KEY_BYTES]);

#endif
