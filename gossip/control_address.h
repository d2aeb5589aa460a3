#ifndef GOSSIP_CONTROL_ADDRESS_H
#define GOSSIP_CONTROL_ADDRESS_H
/* Addresses of control sockets: numeric HOST:PORT, IPv6 in brackets ("[::1]:7410"). Host names are resolved once, when
 * the node is configured, because a slow name server must not stall the mesh. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONTROL_ADDRESS_BYTES 64
#define CONTROL_HOST_BYTES 64

/* Splits HOST:PORT at the last colon and removes the brackets of IPv6; the host may be a name or "*", the port may be
 * 0. False: `text` is not HOST:PORT. */
bool control_address_split(const char *text, char host[CONTROL_HOST_BYTES], uint16_t *port);

/* Reads numeric HOST:PORT with a port above 0 into a socket address, without asking a name server (AI_NUMERICHOST). 0
 * or ERR_USAGE. */
int control_address_parse(const char *text, struct sockaddr_storage *out, socklen_t *out_bytes);

/* 0 if `address` is numeric HOST:PORT with a port above 0, else ERR_USAGE. */
int control_address_check(const char *address);

/* Resolves HOST:PORT to a numeric address, IPv4 if the host has one. Blocks on name servers. ERR_USAGE: `text` is not
 * HOST:PORT, or its host is "*", 0.0.0.0 or ::, which belong to no machine; ERR_NOT_FOUND: the host has no address, at
 * least now. On failure `error` is one sentence. */
int control_address_resolve(const char *text, char out[CONTROL_ADDRESS_BYTES], char error[256]);

#endif
