#ifndef NODE_HTTP_TLS_H
#define NODE_HTTP_TLS_H
/* TLS in front of the gate: a thread that shakes hands with strangers, and carries what they say in clear, in either
 * direction, to a socket pair. The gate and the server have the other end of the pair, and know nothing of it.
 *
 *     stranger --TLS--> [this thread] --socket pair--> accept.c, gate.c --> server.c
 *
 * A connection is WAITING until its first byte is there, and costs two descriptors and no memory of GnuTLS so far; then
 * it SHAKES hands, is OPEN, and at last LINGERS, so that the stranger reads the answer to its end. */

#include <stdbool.h>
#include <stddef.h>

/* 1.3 and 1.2, and of the latter only what keeps the past secret when the key gets known. */
#define TLS_PRIORITY "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-RSA:%SERVER_PRECEDENCE"

#define TLS_CONNECTIONS_MAX 1024

/* Takes the key and its certificate, as text, and starts the thread. NULL, or why not. */
const char *tls_start(const char *pem, size_t count);

/* Hands over a connection. Returns the other end of its socket pair, the caller's, where nothing arrives before the
 * handshake is done; closing it ends the connection. -1: there are too many connections; `fd` is closed. */
int tls_take(int fd);

#endif
