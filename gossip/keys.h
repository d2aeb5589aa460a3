#ifndef GOSSIP_KEYS_H
#define GOSSIP_KEYS_H
/* A node's keys. One Ed25519 pair; the CURVE (X25519) pair for ZeroMQ is derived from it, so that one public key names
 * and authenticates a node everywhere. A shell: it reads random bytes and files. */

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

struct keys {
    node_id id; /* BLAKE2b-128 of sign_public */
    uint8_t sign_public[32];
    uint8_t sign_secret[64];
    uint8_t curve_public[32];
    uint8_t curve_secret[32];
};

/* Call once before anything else here: 0 or ERR_IO. */
int keys_start(void);

void keys_create(struct keys *out);
int keys_from_seed(const uint8_t seed[32], struct keys *out);

/* DIR/key, mode 0600: the 32-byte seed in hex. ERR_EXISTS if there is one already; ERR_NOT_FOUND, ERR_MALFORMED, ERR_IO;
 * ERR_REFUSED when others may read the file. `error` is one sentence. */
int keys_save(const struct keys *keys, const char *dir, char error[256]);
int keys_load(const char *dir, struct keys *out, char error[256]);

/* The sentence for a directory of a member of this mesh (its id in hex) that has no key any more. */
void keys_say_gone(const char *dir, const char *mesh, char error[256]);

/* DIR/key.next, a key that may take the place of DIR/key: made if there is none, or in any case if `afresh`. Errors as
 * above. */
int keys_next(const char *dir, bool afresh, struct keys *out, char error[256]);

/* DIR/key.next becomes DIR/key: a crash leaves the one or the other key in place. ERR_NOT_FOUND, ERR_IO. */
int keys_replace(const char *dir, char error[256]);

/* The CURVE public key of an Ed25519 public key; ERR_MALFORMED if it is not a point. */
int keys_curve_of(const uint8_t sign_public[32], uint8_t out[32]);

/* Signs and verifies a record envelope in place (gossip/record.h: context, mesh id, bytes before the signature). */
void keys_sign_record(const struct keys *keys, mesh_id mesh, uint8_t *envelope, size_t count);
int keys_verify_record(const uint8_t sign_public[32], mesh_id mesh, const uint8_t *envelope, size_t count);

void keys_wipe(struct keys *keys);

#endif
