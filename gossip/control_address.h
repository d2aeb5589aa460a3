#ifndef GOSSIP_CONTROL_ADDRESS_H
#define GOSSIP_CONTROL_ADDRESS_H
/* Addresses of control sockets: numeric HOST:PORT, IPv6 in brackets ("[::1]:7410"). Names are resolved once, at
 * configuration time, because a name server must not stall the mesh. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONTROL_ADDRESS_BYTES 64
#define CONTROL_HOST_BYTES 64

/* Splits at the last colon and takes the brackets off; the host may be a name or "*". False if it is not HOST:PORT. */
bool control_address_split(const char *text, char host[CONTROL_HOST_BYTES], uint16_t *port);

/* Numeric only: AI_NUMERICHOST keeps name servers out of it. 0 or ERR_USAGE. */
int control_address_parse(const char *text, struct sockaddr_storage *out, socklen_t *out_bytes);

/* 0, or ERR_USAGE unless it is numeric HOST:PORT with a port above 0. */
int control_address_check(const char *address);

/* Makes a numeric address of HOST:PORT. Blocks on name servers. On failure `error` has one sentence. ERR_USAGE: it is not
 * HOST:PORT, or is "*", 0.0.0.0 or ::, which are no machine's; ERR_NOT_FOUND: the host has no address, now at least. */
int control_address_resolve(const char *text, char out[CONTROL_ADDRESS_BYTES], char error[256]);

#endif
