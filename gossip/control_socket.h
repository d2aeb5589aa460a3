#ifndef GOSSIP_CONTROL_SOCKET_H
#define GOSSIP_CONTROL_SOCKET_H
/* What the sockets of control.h and control_join.h have of their own; gossip/socket.h has what they share with bulk
 * sockets. */

#include <stdbool.h>
#include <stdint.h>

#include "gossip/keys.h"

/* Keepalives find a peer that went away while no message was on its way. A probe and its answer take 104 bytes, on each
 * of two connections per peer: at one every 20 s that is 10 kB/s with 999 peers, which exchange messages only every few
 * minutes. Therefore, beyond CONTROL_KEEPALIVE_PEERS peers the interval grows with their number, so that any larger
 * mesh sends 3.2 probes a second. The side that only receives probes rarely, because a dead connection costs it no more
 * than a descriptor. */
#define CONTROL_KEEPALIVE_PEERS 64
#define CONTROL_KEEPALIVE_S 20

/* The seconds between two keepalive probes of one connection, in a node with `peers` peers. */
int control_keepalive_s(uint32_t peers);

/* Sets a ROUTER up to receive: CURVE server, ZAP domain, limits. Call it before socket_bind; the keys are copied.
 * False: libzmq refused an option. */
bool control_socket_set_router(void *socket, const struct keys *keys);

/* Returns a new DEALER that connects to a numeric address; the caller owns it and closes it with zmq_close. The keys
 * are copied. NULL: no socket is left, or the address or a key cannot be used. */
void *control_socket_dealer(void *context, const uint8_t curve_public[32], const uint8_t curve_secret[32],
                            const char *address, const uint8_t server_public[32], int keepalive_s);

#endif
