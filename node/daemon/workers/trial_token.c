#include "node/daemon/workers/trial_token.h"

#include <sodium.h>
#include <string.h>

#include "base/bytes.h"

_Static_assert(TOKEN_BYTES >= crypto_generichash_KEYBYTES_MIN, "a lease's token is a key");

void trial_token_of(lease_token lease, char out[TRIAL_TOKEN_BYTES])
{
    static const char label[] = "shoal trial token 1";
    uint8_t hash[32];
    (void)crypto_generichash(hash, sizeof hash, (const uint8_t *)label, sizeof label, lease.bytes, TOKEN_BYTES);
    memcpy(out, TRIAL_TOKEN_PREFIX, sizeof TRIAL_TOKEN_PREFIX - 1);
    bytes_to_hex(out + sizeof TRIAL_TOKEN_PREFIX - 1, hash, sizeof hash);
    sodium_memzero(hash, sizeof hash);
}

bool trial_token_is(lease_token lease, const char *text)
{
    char own[TRIAL_TOKEN_BYTES];
    trial_token_of(lease, own);
    bool is_it = strlen(text) == TRIAL_TOKEN_BYTES - 1 && sodium_memcmp(own, text, sizeof own) == 0;
    sodium_memzero(own, sizeof own);
    return is_it;
}
