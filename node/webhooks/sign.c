#include "node/webhooks/sign.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define PREFIX "whsec_"
#define KEY_BYTES_MAX 4096

_Static_assert(sodium_base64_ENCODED_LEN(crypto_auth_hmacsha256_BYTES, sodium_base64_VARIANT_ORIGINAL) + 3 <=
                   WEBHOOK_SIGNATURE_BYTES,
               "a signature fits");

int webhook_sign(const char *secret, size_t secret_bytes, const char *id, uint64_t timestamp_s, const char *body,
                 size_t body_bytes, char out[WEBHOOK_SIGNATURE_BYTES])
{
    uint8_t key[KEY_BYTES_MAX], mac[crypto_auth_hmacsha256_BYTES];
    size_t key_bytes = 0;
    char head[WEBHOOK_ID_BYTES + 32];
    out[0] = '\0';
    if (secret_bytes >= strlen(PREFIX) && memcmp(secret, PREFIX, strlen(PREFIX)) == 0) {
        const char *end = NULL;
        const char *text = secret + strlen(PREFIX);
        size_t bytes = secret_bytes - strlen(PREFIX);
        if (sodium_base642bin(key, sizeof key, text, bytes, NULL, &key_bytes, &end, sodium_base64_VARIANT_ORIGINAL) !=
                0 ||
            end != text + bytes || key_bytes == 0) {
            return ERR_MALFORMED;
        }
    } else if (secret_bytes <= sizeof key) {
        key_bytes = secret_bytes;
        memcpy(key, secret, key_bytes);
    }
    crypto_auth_hmacsha256_state state;
    int head_bytes =
        snprintf(head, sizeof head, "%.*s.%llu.", WEBHOOK_ID_BYTES - 1, id, (unsigned long long)timestamp_s);
    (void)crypto_auth_hmacsha256_init(&state, key, key_bytes);
    (void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)head, (unsigned long long)head_bytes);
    (void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)body, body_bytes);
    (void)crypto_auth_hmacsha256_final(&state, mac);
    memcpy(out, "v1,", 3);
    (void)sodium_bin2base64(out + 3, WEBHOOK_SIGNATURE_BYTES - 3, mac, sizeof mac, sodium_base64_VARIANT_ORIGINAL);
    sodium_memzero(key, sizeof key);
    return 0;
}
