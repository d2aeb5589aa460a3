#ifndef NODE_DAEMON_LOCAL_CERTIFICATE_H
#define NODE_DAEMON_LOCAL_CERTIFICATE_H
/* The certificate of the HTTPS door and its key: the file DIR/http.pem, which only this account can read. A process of
 * shoal-http makes it, so that the daemon needs no library for it; the rule when is in node/http/certificate.h. */

#include "node/daemon/ground/daemon.h"

#define CERTIFICATE_BYTES_MAX 16384

/* Reads the certificate, or has one made if there is none, or none that will do for the names and addresses by which
 * the door is reached now. Waits until that is done. The certificate alone is put into another file that anybody may
 * read, daemon->http_certificate. `hash` is the SHA-256 of the certificate. False: `why` says what
 * is wrong. */
bool certificate_get(struct daemon *daemon, const char *program, char pem[CERTIFICATE_BYTES_MAX], size_t *count,
                     uint8_t hash[FACT_CERTIFICATE_HASH_BYTES], char why[128]);

#endif
