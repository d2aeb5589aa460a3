#ifndef GOSSIP_SOCKET_H
#define GOSSIP_SOCKET_H
/* The libzmq sockets of a node, for control messages and for bulk data: a ROUTER that peers connect to, and DEALERs
 * that connect to peers, all CURVE over TCP. The settings that protect every socket from strangers and from vanished
 * peers are made here; struct socket_options holds the differences. A shell. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gossip/inflow.h"

#define SOCKET_EXTRA_BYTES 1024 /* what CURVE and ZMTP add to a frame, at most */
#define SOCKET_KEEPALIVE_PROBES 3

/* The differences between sockets. */
struct socket_options {
    const uint8_t *curve_public, *curve_secret; /* 32 bytes each; copied */
    uint64_t io_threads;   /* bit mask of the context's threads that may serve the socket; 0: all */
    size_t bytes_max;      /* limit of a frame */
    int send_queue;        /* limit in messages */
    int receive_queue;     /* limit of a DEALER in messages; 0: no limit. A ROUTER has no limit */
    int unacknowledged_ms; /* a connection is dead if sent bytes are not acknowledged for this long */
    int keepalive_s;       /* seconds without traffic before the first keepalive probe */
    int keepalive_probe_s; /* seconds between probes; dead after SOCKET_KEEPALIVE_PROBES without an answer */
};

/* Sets a ROUTER up as a CURVE server with clients checked by ZAP in the domain. Call it before socket_bind. False:
 * libzmq refused an option. */
bool socket_set_router(void *socket, const struct socket_options *options, const char *zap_domain);

/* Binds a ROUTER to numeric HOST:PORT; "*" means both families if the machine has IPv6, else IPv4; PORT 0 means any
 * free port. `*port` becomes the bound port. ERR_USAGE (the address), ERR_EXISTS (the port is taken), ERR_IO. */
int socket_bind(void *socket, const char *listen, uint16_t *port);

/* Makes a DEALER one that connects to "tcp://" and a numeric address, and lets it connect. False: libzmq refused an option,
 * the address or a key; the socket is then good for closing only. */
bool socket_set_dealer(void *socket, const struct socket_options *options, const char *endpoint,
                       const uint8_t server_public[32]);

/* Returns a new DEALER that connects to `endpoint`, "tcp://" and a numeric address; the caller owns it and closes it
 * with zmq_close. NULL: no socket is left, or the address or a key cannot be used. */
void *socket_dealer(void *context, const struct socket_options *options, const char *endpoint,
                    const uint8_t server_public[32]);

/* Returns a socket that reports connections and failed handshakes of a ROUTER not bound yet. The caller owns the
 * socket: zmq_close. NULL: no socket is left. */
void *socket_monitor(void *context, void *router);

/* Passes all new events of the monitor to `inflow`; returns the number of failed handshakes among them. */
unsigned socket_monitor_drain(void *monitor, struct inflow *inflow);

#endif
