#ifndef NODE_HTTP_SERVER_H
#define NODE_HTTP_SERVER_H
/* Serves one request after the gate has let its head pass: checks where it comes from, finds its route, asks the
 * daemon. */

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/http/guard.h"

#define SERVER_CONNECTIONS_MAX 256

struct server_options {
    char cookie[32];                    /* its name: cookies ignore ports, so it holds the node's id */
    const char *hosts[GUARD_HOSTS_MAX]; /* names of this machine beside the loopback's */
    size_t host_count;
    bool is_tls;    /* what arrives was decrypted (tls.h) */
    bool is_beyond; /* other machines reach the door */
};

/* Starts libmicrohttpd, which serves each connection in a thread of its own. `options` is borrowed for good. False: it
 * cannot be started. */
bool server_start(const struct server_options *options);

/* Hands over a connection with a good head of a request. The descriptor is the server's from then on. */
void server_add(int fd, const void *address, size_t address_bytes);

/* Whether one more connection can be served. If as many are served as can be, the oldest whose token the daemon has not
 * taken gives way: who sends or reads a byte now and then keeps nobody out. */
bool server_make_room(void);

/* Waits until nothing is served any more, for `timeout_ms` at most. */
void server_finish(unsigned timeout_ms);

#endif
