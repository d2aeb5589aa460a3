#ifndef GOSSIP_SOCKET_H
#define GOSSIP_SOCKET_H
/* The libzmq sockets of a node, for control messages and for bulk data: a ROUTER that peers connect to and DEALERs that
 * connect, all CURVE over TCP. What protects every one of them from strangers and from peers that went away is set here;
 * what differs is told. A shell. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gossip/inflow.h"

#define SOCKET_EXTRA_BYTES 1024 /* what CURVE and ZMTP add to a frame, at most */
#define SOCKET_KEEPALIVE_PROBES 3

/* In what the sockets differ. */
struct socket_options {
    const uint8_t *curve_public, *curve_secret; /* 32 bytes each */
    uint64_t io_threads;   /* of the context that may serve it, a bit each; 0: all */
    size_t bytes_max;      /* of a frame */
    int send_queue;        /* messages */
    int receive_queue;     /* of a DEALER, messages; 0: no limit. A ROUTER has none */
    int unacknowledged_ms; /* a link on which something sent is not acknowledged for this long is dead */
    int keepalive_s;       /* on a link without traffic, from then on */
    int keepalive_probe_s; /* ... so often; dead after SOCKET_KEEPALIVE_PROBES without an answer */
};

/* Makes a ROUTER a door, behind which ZAP asks who it is in this domain. False: libzmq refused an option. */
bool socket_set_router(void *socket, const struct socket_options *options, const char *zap_domain);

/* Binds it to HOST:PORT, numeric; "*" is both families where the machine has IPv6, else IPv4; PORT 0 is any free one.
 * `*port` is the one that it has then. ERR_USAGE (the address), ERR_EXISTS (the port is taken), ERR_IO. */
int socket_bind(void *socket, const char *listen, uint16_t *port);

/* A DEALER that connects to "tcp://" and a numeric address; the caller closes it with zmq_close. NULL: no socket is left,
 * or the address or a key cannot be used. */
void *socket_dealer(void *context, const struct socket_options *options, const char *endpoint,
                    const uint8_t server_public[32]);

/* Reports connections and failed handshakes of a ROUTER that is not bound yet; the caller closes it with zmq_close. NULL:
 * no socket is left. */
void *socket_monitor(void *context, void *router);

/* Tells `inflow` all that is new; returns how many handshakes failed. */
unsigned socket_monitor_drain(void *monitor, struct inflow *inflow);

#endif
