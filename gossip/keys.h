#ifndef GOSSIP_KEYS_H
#define GOSSIP_KEYS_H
/* A node's keys: one Ed25519 pair, and the CURVE (X25519) pair for ZeroMQ that is derived from it, so that one public
 * key names and authenticates a node everywhere. A shell: it reads random bytes and files. */

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

/* The keys of one node; secret, see keys_wipe. */
struct keys {
    node_id id; /* BLAKE2b-128 of sign_public */
    uint8_t sign_public[32];
    uint8_t sign_secret[64];
    uint8_t curve_public[32];
    uint8_t curve_secret[32];
};

/* Starts libsodium. Call it once, before all other functions here: 0 or ERR_IO. */
int keys_start(void);

/* Draws a new key. */
void keys_create(struct keys *out);

/* The keys that belong to an Ed25519 seed. 0, or ERR_MALFORMED: the seed makes no key; `*out` is unchanged then. */
int keys_from_seed(const uint8_t seed[32], struct keys *out);

/* Save and load DIR/key: the 32-byte seed in hexadecimal, mode 0600. Saving is atomic and synced: the file is whole or
 * absent after a crash. ERR_EXISTS (save): there is a key already; ERR_NOT_FOUND, ERR_MALFORMED (load); ERR_REFUSED
 * (load): other users may read the file; ERR_IO. After an error `error` is one sentence and `*out` is unchanged. */
int keys_save(const struct keys *keys, const char *dir, char error[256]);
int keys_load(const char *dir, struct keys *out, char error[256]);

/* Writes the sentence for the directory of a member of this mesh (its id in hex) that has lost its key. */
void keys_say_gone(const char *dir, const char *mesh, char error[256]);

/* Loads DIR/key.next, a key that may replace DIR/key later; draws and saves one first if there is none, or in any case
 * if `afresh`. Errors as for keys_save and keys_load. */
int keys_next(const char *dir, bool afresh, struct keys *out, char error[256]);

/* Renames DIR/key.next to DIR/key: a crash leaves either the old or the new key in place. ERR_NOT_FOUND, ERR_IO;
 * `error` is then one sentence. */
int keys_replace(const char *dir, char error[256]);

/* The CURVE public key that belongs to an Ed25519 public key; ERR_MALFORMED if that is not a curve point. */
int keys_curve_of(const uint8_t sign_public[32], uint8_t out[32]);

/* Sign a record envelope in place, and verify one. The signature covers the context, the mesh id and all bytes before
 * the signature (gossip/record.h). Signing needs an envelope of at most RECORD_ENVELOPE_BYTES_MAX bytes. Verifying
 * returns 0, ERR_MALFORMED (the length cannot be right) or ERR_AUTH (the signature is not valid). */
void keys_sign_record(const struct keys *keys, mesh_id mesh, uint8_t *envelope, size_t count);
int keys_verify_record(const uint8_t sign_public[32], mesh_id mesh, const uint8_t *envelope, size_t count);

/* Overwrites all keys with zeroes; call it when the keys are no longer needed. */
void keys_wipe(struct keys *keys);

#endif
