#include "gossip/control_socket.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "base/err.h"
#include "gossip/control.h"
#include "gossip/message.h"

/* MESSAGE_BYTES_MAX and what CURVE and ZMTP add. Without a limit one stranger's frame took 375 MB. */
#define FRAME_BYTES_MAX ((int64_t)MESSAGE_BYTES_MAX + 1024)
#define HANDSHAKE_MS 2000
/* A link on which something sent is not acknowledged for this long is dead (TCP_USER_TIMEOUT). libzmq's own heartbeats
 * are not used: see docs/dependencies.md. */
#define UNACKNOWLEDGED_MS 3000
#define KEEPALIVE_RECEIVER_S 300
#define KEEPALIVE_PROBE_S 5
#define KEEPALIVE_PROBES 3
#define CONNECT_MS 1000
#define RECONNECT_MS 100
#define RECONNECT_MS_MAX 1000

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93 /* zmq_draft.h; stable builds of libzmq 4.3 take it but do not name it */
#endif

static bool set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

/* What the ROUTER and all DEALERs share. */
static bool set_common(void *socket, const uint8_t curve_public[32], const uint8_t curve_secret[32], int keepalive_s)
{
    int64_t frame_bytes_max = FRAME_BYTES_MAX;
    return set_int(socket, ZMQ_LINGER, 0) && set_int(socket, ZMQ_SNDHWM, CONTROL_QUEUE) &&
           set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) && set_int(socket, ZMQ_TCP_MAXRT, UNACKNOWLEDGED_MS) &&
           set_int(socket, ZMQ_TCP_KEEPALIVE, 1) && set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, keepalive_s) &&
           set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, KEEPALIVE_PROBE_S) &&
           set_int(socket, ZMQ_TCP_KEEPALIVE_CNT, KEEPALIVE_PROBES) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_bytes_max, sizeof frame_bytes_max) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, curve_public, 32) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, curve_secret, 32) == 0;
}

/* No RCVHWM: the inbox bounds what waits, since libzmq aborts on a ping that it had read when the queue was full and
 * the connection broke (docs/dependencies.md).
 *
 * libzmq lets everybody in when a socket has a ZAP domain but the context no handler, unless ZMQ_ZAP_ENFORCE_DOMAIN is
 * set. Builds that lack the option are safe too: such connections have no User-Id, and zap_identify refuses what they
 * say. */
bool control_socket_set_router(void *socket, const struct keys *keys)
{
    static const char domain[] = ZAP_DOMAIN_CONTROL;
    (void)set_int(socket, ZMQ_ZAP_ENFORCE_DOMAIN, 1);
    return set_common(socket, keys->curve_public, keys->curve_secret, KEEPALIVE_RECEIVER_S) &&
           set_int(socket, ZMQ_CURVE_SERVER, 1) && set_int(socket, ZMQ_RCVHWM, 0) &&
           set_int(socket, ZMQ_ROUTER_MANDATORY, 1) && set_int(socket, ZMQ_BACKLOG, 256) &&
           zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, sizeof domain - 1) == 0;
}

/* Nothing is ever read from a DEALER: a peer that sends there anyway stops its own connection. */
static bool set_dealer(void *socket, const char *address, const uint8_t server_public[32])
{
    char endpoint[CONTROL_ADDRESS_BYTES + 8];
    (void)snprintf(endpoint, sizeof endpoint, "tcp://%s", address);
    return set_int(socket, ZMQ_RCVHWM, 1) && set_int(socket, ZMQ_IPV6, address[0] == '[') &&
           set_int(socket, ZMQ_IMMEDIATE, 1) && set_int(socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS) &&
           set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
           set_int(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX) &&
           zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_public, 32) == 0 && zmq_connect(socket, endpoint) == 0;
}

void *control_socket_dealer(void *context, const uint8_t curve_public[32], const uint8_t curve_secret[32],
                            const char *address, const uint8_t server_public[32], int keepalive_s)
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (socket != NULL &&
        !(set_common(socket, curve_public, curve_secret, keepalive_s) && set_dealer(socket, address, server_public))) {
        (void)set_int(socket, ZMQ_LINGER, 0);
        (void)zmq_close(socket);
        return NULL;
    }
    return socket;
}

int control_socket_bind(void *socket, const char *listen)
{
    char host[CONTROL_HOST_BYTES], endpoint[CONTROL_HOST_BYTES + 24];
    uint16_t port;
    if (!control_address_split(listen, host, &port)) {
        return ERR_USAGE;
    }
    bool any = strcmp(host, "*") == 0;
    bool wide = strchr(host, ':') != NULL;
    if (!any) {
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
        if (getaddrinfo(host, NULL, &hints, &found) != 0) {
            return ERR_USAGE;
        }
        freeaddrinfo(found);
    }
    char port_text[8] = "*";
    if (port != 0) {
        (void)snprintf(port_text, sizeof port_text, "%u", port);
    }
    (void)snprintf(endpoint, sizeof endpoint, "tcp://%s%s%s:%s", wide ? "[" : "", host, wide ? "]" : "", port_text);
    if ((any || wide) && set_int(socket, ZMQ_IPV6, 1) && zmq_bind(socket, endpoint) == 0) {
        return 0;
    }
    if (wide || (any && zmq_errno() == EADDRINUSE) || !set_int(socket, ZMQ_IPV6, 0) ||
        zmq_bind(socket, endpoint) != 0) {
        return zmq_errno() == EADDRINUSE ? ERR_EXISTS : ERR_IO;
    }
    return 0;
}
