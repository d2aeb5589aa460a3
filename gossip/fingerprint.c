#include "gossip/fingerprint.h"

#include <sodium.h>
#include <string.h>

#define DER_BYTES_MAX 8192

bool fingerprint_of_pem(const char *pem, size_t count, uint8_t out[FINGERPRINT_BYTES])
{
    static const char begin[] = "-----BEGIN CERTIFICATE-----\n", end[] = "-----END CERTIFICATE-----";
    uint8_t der[DER_BYTES_MAX];
    size_t bytes;
    const char *from = memmem(pem, count, begin, sizeof begin - 1);
    from = from != NULL ? from + sizeof begin - 1 : NULL;
    const char *to = from != NULL ? memmem(from, count - (size_t)(from - pem), end, sizeof end - 1) : NULL;
    if (to == NULL || sodium_base642bin(der, sizeof der, from, (size_t)(to - from), "\r\n", &bytes, NULL,
                                        sodium_base64_VARIANT_ORIGINAL) != 0) {
        return false;
    }
    (void)crypto_hash_sha256(out, der, bytes);
    return true;
}
