#ifndef NODE_WEBHOOKS_SIGN_H
#define NODE_WEBHOOKS_SIGN_H
/* Signatures of Standard Webhooks 1.0: HMAC-SHA256 over "ID.TIMESTAMP.BODY", in base64. Pure functions. */

#include <stddef.h>
#include <stdint.h>

#define WEBHOOK_SIGNATURE_BYTES 64 /* "v1," and 44 characters, with the NUL */
#define WEBHOOK_ID_BYTES 40        /* of an id, with the NUL */

/* Writes the value of webhook-signature. The secret is "whsec_" and base64, or else any bytes, which are the key as
 * they are. 0; ERR_MALFORMED: what follows "whsec_" is no base64; `out` is then empty. */
int webhook_sign(const char *secret, size_t secret_bytes, const char *id, uint64_t timestamp_s, const char *body,
                 size_t body_bytes, char out[WEBHOOK_SIGNATURE_BYTES]);

#endif
