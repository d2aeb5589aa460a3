#include "gossip/control_socket.h"

#include <stdio.h>

#include "gossip/control.h"
#include "gossip/message.h"
#include "gossip/socket.h"

#define UNACKNOWLEDGED_MS 3000
#define KEEPALIVE_RECEIVER_S 300
#define KEEPALIVE_PROBE_S 5

/* A DEALER is never read: a peer sending to a DEALER blocks its own connection. */
static struct socket_options options_of(const uint8_t curve_public[32], const uint8_t curve_secret[32], int keepalive_s)
{
    return (struct socket_options){.curve_public = curve_public,
                                   .curve_secret = curve_secret,
                                   .bytes_max = MESSAGE_BYTES_MAX,
                                   .send_queue = CONTROL_QUEUE,
                                   .receive_queue = 1,
                                   .unacknowledged_ms = UNACKNOWLEDGED_MS,
                                   .keepalive_s = keepalive_s,
                                   .keepalive_probe_s = KEEPALIVE_PROBE_S};
}

bool control_socket_set_router(void *socket, const struct keys *keys)
{
    struct socket_options options = options_of(keys->curve_public, keys->curve_secret, KEEPALIVE_RECEIVER_S);
    return socket_set_router(socket, &options, ZAP_DOMAIN_CONTROL);
}

int control_keepalive_s(uint32_t peers)
{
    uint32_t s = (peers * CONTROL_KEEPALIVE_S + CONTROL_KEEPALIVE_PEERS - 1) / CONTROL_KEEPALIVE_PEERS;
    return s > CONTROL_KEEPALIVE_S ? (int)s : CONTROL_KEEPALIVE_S;
}

static void endpoint_of(char out[CONTROL_ADDRESS_BYTES + 8], const char *address)
{
    (void)snprintf(out, CONTROL_ADDRESS_BYTES + 8, "tcp://%s", address);
}

bool control_socket_set_dealer(void *socket, const uint8_t curve_public[32], const uint8_t curve_secret[32],
                               const char *address, const uint8_t server_public[32], int keepalive_s)
{
    struct socket_options options = options_of(curve_public, curve_secret, keepalive_s);
    char endpoint[CONTROL_ADDRESS_BYTES + 8];
    endpoint_of(endpoint, address);
    return socket_set_dealer(socket, &options, endpoint, server_public);
}

void *control_socket_dealer(void *context, const uint8_t curve_public[32], const uint8_t curve_secret[32],
                            const char *address, const uint8_t server_public[32], int keepalive_s)
{
    struct socket_options options = options_of(curve_public, curve_secret, keepalive_s);
    char endpoint[CONTROL_ADDRESS_BYTES + 8];
    endpoint_of(endpoint, address);
    return socket_dealer(context, &options, endpoint, server_public);
}
