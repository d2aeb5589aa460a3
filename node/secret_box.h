#ifndef NODE_SECRET_BOX_H
#define NODE_SECRET_BOX_H
/* Seals the values of secrets, and opens them (DESIGN 11). A value is under a key of its own (XSalsa20 and Poly1305),
 * and that key is in a box for each node (crypto_box_seal): under the X25519 key that belongs to the Ed25519 key of the
 * node's voucher. A shell: it takes random bytes. keys_start (gossip/keys.h) comes first. */

#include "gossip/keys.h"
#include "node/core/facts/facts.h"

#define SECRET_BOX_KEY_BYTES 32

/* A value in the clear, with its key. Wipe it with secret_box_wipe. */
struct secret_box_value {
    uint8_t key[SECRET_BOX_KEY_BYTES];
    uint32_t bytes;
    uint8_t text[FACT_SECRET_BYTES_MAX + FACT_SECRET_PAD_BYTES + 1]; /* ends in NUL */
};

/* Seals a value of 1 to FACT_SECRET_BYTES_MAX bytes under a new key. `name` is that of the value (fact_secret.value).
 * Returns the number of bytes in `sealed`. */
uint32_t secret_box_seal(struct secret_box_value *value, uint8_t name[FACT_SECRET_VALUE_BYTES],
                         uint8_t sealed[FACT_SECRET_SEALED_MAX]);

/* A copy for the node with this Ed25519 key. 0, or ERR_MALFORMED: that is no key. */
int secret_box_copy(const struct secret_box_value *value, node_id node, const uint8_t public_key[32],
                    uint8_t out[FACT_SECRET_COPY_BYTES]);

/* Opens a value with the key in the box for this node. 0; ERR_AUTH: the bytes are not what was sealed, or for another
 * node. */
int secret_box_open(const struct keys *keys, const struct fact_secret *fact,
                    const uint8_t box[FACT_SECRET_SEALED_KEY_BYTES], struct secret_box_value *out);

void secret_box_wipe(struct secret_box_value *value);

#endif
