#ifndef NODE_HTTP_CERTIFICATE_H
#define NODE_HTTP_CERTIFICATE_H
/* The certificate of a door that speaks HTTPS: self-signed, ECDSA on P-256 (browsers take no Ed25519), of a key that
 * nothing else uses. Others trust it by its SHA-256, which stands in the node's signed record, and not by a signature
 * of somebody else's; so it says that it may sign no other certificate. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CERTIFICATE_PEM_BYTES_MAX 16384 /* certificate and key, as text */
#define CERTIFICATE_NAMES_MAX 64
#define CERTIFICATE_DAYS 3653 /* it is good for so long */
#define CERTIFICATE_LEFT_DAYS 30 /* and is made anew when less than this is left */

/* What a certificate is for: `owner` is the node's id as text, the names are DNS names and numeric addresses. */
struct certificate_wish {
    const char *owner;
    const char *names[CERTIFICATE_NAMES_MAX];
    size_t name_count;
    uint64_t now_s;
};

/* Whether the text holds a key and its certificate, of this owner, with all these names, good now and for long enough. */
bool certificate_is_good(const char *pem, size_t count, const struct certificate_wish *wish);

/* Makes a key and its certificate, as text, the certificate first. NULL, or a sentence's part that says what failed. */
const char *certificate_make(const struct certificate_wish *wish, char out[CERTIFICATE_PEM_BYTES_MAX], size_t *count);

#endif
