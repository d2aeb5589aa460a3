#ifndef GOSSIP_CONTROL_SOCKET_H
#define GOSSIP_CONTROL_SOCKET_H
/* The settings of the sockets of control.h and control_join.h; gossip/socket.h has the settings shared with bulk
 * sockets. */

#include <stdbool.h>
#include <stdint.h>

#include "gossip/keys.h"

/* Keepalives find a peer that went away while no message was under way. A probe with the answer takes 104 bytes, on
 * each of two connections per peer: one every 20 s is 10 kB/s with 999 peers, where messages are exchanged only every
 * few minutes. Therefore, beyond CONTROL_KEEPALIVE_PEERS peers the interval grows with the number of peers: any larger
 * mesh sends 3.2 probes a second. The receiving side probes rarely, because there a dead connection costs no more than
 * a descriptor. */
#define CONTROL_KEEPALIVE_PEERS 64
#define CONTROL_KEEPALIVE_S 20

/* The seconds between two keepalive probes of one connection, in a node with `peers` peers. */
int control_keepalive_s(uint32_t peers);

/* Sets a ROUTER up to receive: CURVE server, ZAP domain, limits. Call it before socket_bind; the keys are copied.
 * False: libzmq refused an option. */
bool control_socket_set_router(void *socket, const struct keys *keys);

/* Makes a DEALER of the caller one that connects to the control socket of a member at a numeric address, with the same
 * defences as a daemon's. `socket` is libzmq's handle, also of a socket that another library has made. False: libzmq refused
 * an option, the address or a key; the socket is then good for closing only. */
bool control_socket_set_dealer(void *socket, const uint8_t curve_public[32], const uint8_t curve_secret[32],
                               const char *address, const uint8_t server_public[32], int keepalive_s);

/* Returns a new DEALER that connects to a numeric address; the caller owns it and closes it with zmq_close. The keys
 * are copied. NULL: no socket is left, or the address or a key cannot be used. */
void *control_socket_dealer(void *context, const uint8_t curve_public[32], const uint8_t curve_secret[32],
                            const char *address, const uint8_t server_public[32], int keepalive_s);

#endif
