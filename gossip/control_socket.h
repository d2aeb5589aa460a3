#ifndef GOSSIP_CONTROL_SOCKET_H
#define GOSSIP_CONTROL_SOCKET_H
/* The sockets under control.h and control_join.h: what is special about them (gossip/socket.h has the rest). */

#include <stdbool.h>
#include <stdint.h>

#include "gossip/keys.h"

/* Keepalives find an end that went away while nothing was on its way. Each is 104 bytes with its answer, for each of two
 * connections with each peer: every 20 s that is 10 kB/s with 999 peers, who are said something only every few minutes.
 * So beyond CONTROL_KEEPALIVE_PEERS peers they become rarer as these become more, 3.2 of them a second in any larger mesh; and those of the
 * side that only receives are rare, to whom a dead connection means no more than a descriptor. */
#define CONTROL_KEEPALIVE_PEERS 64
#define CONTROL_KEEPALIVE_S 20

/* Seconds between two of one connection, of so many. */
int control_keepalive_s(uint32_t peers);

/* Makes a ROUTER the door of a node. False: libzmq refused an option. */
bool control_socket_set_router(void *socket, const struct keys *keys);

/* A DEALER that connects to a numeric address; the caller closes it with zmq_close. NULL: no socket is left, or the address or a
 * key cannot be used. */
void *control_socket_dealer(void *context, const uint8_t curve_public[32], const uint8_t curve_secret[32],
                            const char *address, const uint8_t server_public[32], int keepalive_s);

#endif
