#ifndef NODE_HTTP_CERTIFY_H
#define NODE_HTTP_CERTIFY_H
/* What shoal-http does with certificates beside serving. Each is the whole work of a process. */

#include "node/http/certificate.h"

#define CERTIFY_DONE 0
#define CERTIFY_FAILED 1  /* a part of a sentence stands on standard output */
#define CERTIFY_UNNAMED 3 /* the certificate does not name the host that was asked */

/* Reads a certificate and its key from standard input, and writes them to standard output if they are good for the
 * wish, else new ones. */
int certify_renew(const struct certificate_wish *wish);

/* Writes the certificate that the door at HOST:PORT, numeric, shows and has the key of. */
int certify_fetch(const char *where);

#endif
