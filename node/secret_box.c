#include "node/secret_box.h"

#include <sodium.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"

_Static_assert(FACT_SECRET_SEALED_KEY_BYTES == SECRET_BOX_KEY_BYTES + crypto_box_SEALBYTES, "a box holds a key");
_Static_assert(SECRET_BOX_KEY_BYTES == crypto_secretbox_KEYBYTES, "the key is that of crypto_secretbox");
_Static_assert(FACT_SECRET_SEALED_MAX == FACT_SECRET_BYTES_MAX + FACT_SECRET_PAD_BYTES + crypto_secretbox_MACBYTES,
               "a full value fits");

/* A key seals one value only, so that no number beside it is needed. */
static const uint8_t no_nonce[crypto_secretbox_NONCEBYTES];

static void name_of(const struct secret_box_value *value, uint8_t name[FACT_SECRET_VALUE_BYTES])
{
    (void)crypto_generichash(name, FACT_SECRET_VALUE_BYTES, value->key, sizeof value->key, NULL, 0);
}

uint32_t secret_box_seal(struct secret_box_value *value, uint8_t name[FACT_SECRET_VALUE_BYTES],
                         uint8_t sealed[FACT_SECRET_SEALED_MAX])
{
    uint8_t padded[FACT_SECRET_BYTES_MAX + FACT_SECRET_PAD_BYTES];
    size_t bytes;
    CHECK(value->bytes > 0 && value->bytes <= FACT_SECRET_BYTES_MAX);
    randombytes_buf(value->key, sizeof value->key);
    name_of(value, name);
    memcpy(padded, value->text, value->bytes);
    CHECK(sodium_pad(&bytes, padded, value->bytes, FACT_SECRET_PAD_BYTES, sizeof padded) == 0);
    CHECK(crypto_secretbox_easy(sealed, padded, bytes, no_nonce, value->key) == 0);
    sodium_memzero(padded, sizeof padded);
    return (uint32_t)bytes + crypto_secretbox_MACBYTES;
}

int secret_box_copy(const struct secret_box_value *value, node_id node, const uint8_t public_key[32],
                    uint8_t out[FACT_SECRET_COPY_BYTES])
{
    uint8_t curve[crypto_box_PUBLICKEYBYTES];
    if (keys_curve_of(public_key, curve) != 0 ||
        crypto_box_seal(out + NODE_ID_BYTES, value->key, sizeof value->key, curve) != 0) {
        return ERR_MALFORMED;
    }
    memcpy(out, node.bytes, NODE_ID_BYTES);
    return 0;
}

int secret_box_open(const struct keys *keys, const struct fact_secret *fact,
                    const uint8_t box[FACT_SECRET_SEALED_KEY_BYTES], struct secret_box_value *out)
{
    uint8_t name[FACT_SECRET_VALUE_BYTES];
    size_t bytes = 0;
    if (fact->sealed_bytes <= crypto_secretbox_MACBYTES || fact->sealed_bytes > FACT_SECRET_SEALED_MAX ||
        crypto_box_seal_open(out->key, box, FACT_SECRET_SEALED_KEY_BYTES, keys->curve_public, keys->curve_secret) !=
            0) {
        return ERR_AUTH;
    }
    name_of(out, name);
    size_t padded = fact->sealed_bytes - crypto_secretbox_MACBYTES;
    if (memcmp(name, fact->value, sizeof name) != 0 ||
        crypto_secretbox_open_easy(out->text, fact->sealed, fact->sealed_bytes, no_nonce, out->key) != 0 ||
        sodium_unpad(&bytes, out->text, padded, FACT_SECRET_PAD_BYTES) != 0 || bytes == 0 ||
        bytes > FACT_SECRET_BYTES_MAX) {
        secret_box_wipe(out);
        return ERR_AUTH;
    }
    sodium_memzero(out->text + bytes, sizeof out->text - bytes);
    out->bytes = (uint32_t)bytes;
    return 0;
}

void secret_box_wipe(struct secret_box_value *value)
{
    sodium_memzero(value, sizeof *value);
}
