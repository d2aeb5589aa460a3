#include "gossip/socket.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/err.h"
#include "gossip/control_address.h"

#define HANDSHAKE_MS 2000
#define CONNECT_MS 1000
#define RECONNECT_MS 100
#define RECONNECT_MS_MAX 1000
#define BACKLOG 256

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93 /* declared in zmq_draft.h only; stable builds of libzmq 4.3 accept the option */
#endif

static bool set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

/* Without ZMQ_MAXMSGSIZE one frame of a stranger took 375 MB. libzmq's own heartbeats are not used: see
 * docs/dependencies.md. */
static bool set_common(void *socket, const struct socket_options *options)
{
    int64_t frame_bytes_max = (int64_t)options->bytes_max + SOCKET_EXTRA_BYTES;
    return set_int(socket, ZMQ_LINGER, 0) && set_int(socket, ZMQ_SNDHWM, options->send_queue) &&
           set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS) &&
           set_int(socket, ZMQ_TCP_MAXRT, options->unacknowledged_ms) && set_int(socket, ZMQ_TCP_KEEPALIVE, 1) &&
           set_int(socket, ZMQ_TCP_KEEPALIVE_IDLE, options->keepalive_s) &&
           set_int(socket, ZMQ_TCP_KEEPALIVE_INTVL, options->keepalive_probe_s) &&
           set_int(socket, ZMQ_TCP_KEEPALIVE_CNT, SOCKET_KEEPALIVE_PROBES) &&
           zmq_setsockopt(socket, ZMQ_AFFINITY, &options->io_threads, sizeof options->io_threads) == 0 &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_bytes_max, sizeof frame_bytes_max) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, options->curve_public, 32) == 0 &&
           zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, options->curve_secret, 32) == 0;
}

/* No ZMQ_RCVHWM: the reader takes all messages and bounds them itself, because libzmq aborts on a ping that it had read
 * when the queue was full and the connection broke (docs/dependencies.md).
 *
 * libzmq admits every client when a socket has a ZAP domain but the context has no handler, unless
 * ZMQ_ZAP_ENFORCE_DOMAIN is set. Builds without the option are safe too: such connections have no User-Id, so
 * zap_identify refuses their messages. */
bool socket_set_router(void *socket, const struct socket_options *options, const char *zap_domain)
{
    (void)set_int(socket, ZMQ_ZAP_ENFORCE_DOMAIN, 1);
    return set_common(socket, options) && set_int(socket, ZMQ_CURVE_SERVER, 1) && set_int(socket, ZMQ_RCVHWM, 0) &&
           set_int(socket, ZMQ_ROUTER_MANDATORY, 1) && set_int(socket, ZMQ_BACKLOG, BACKLOG) &&
           zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, zap_domain, strlen(zap_domain)) == 0;
}

static int port_read(void *socket, uint16_t *port)
{
    char endpoint[128];
    size_t bytes = sizeof endpoint;
    const char *colon;
    if (zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &bytes) != 0 || (colon = strrchr(endpoint, ':')) == NULL) {
        return ERR_IO;
    }
    *port = (uint16_t)strtoul(colon + 1, NULL, 10);
    return *port > 0 ? 0 : ERR_IO;
}

int socket_bind(void *socket, const char *listen, uint16_t *port)
{
    char host[CONTROL_HOST_BYTES], endpoint[CONTROL_HOST_BYTES + 24];
    uint16_t wanted;
    if (!control_address_split(listen, host, &wanted)) {
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
    if (wanted != 0) {
        (void)snprintf(port_text, sizeof port_text, "%u", wanted);
    }
    (void)snprintf(endpoint, sizeof endpoint, "tcp://%s%s%s:%s", wide ? "[" : "", host, wide ? "]" : "", port_text);
    if ((any || wide) && set_int(socket, ZMQ_IPV6, 1) && zmq_bind(socket, endpoint) == 0) {
        return port_read(socket, port);
    }
    if (wide || (any && zmq_errno() == EADDRINUSE) || !set_int(socket, ZMQ_IPV6, 0) ||
        zmq_bind(socket, endpoint) != 0) {
        return zmq_errno() == EADDRINUSE ? ERR_EXISTS : ERR_IO;
    }
    return port_read(socket, port);
}

bool socket_set_dealer(void *socket, const struct socket_options *options, const char *endpoint,
                       const uint8_t server_public[32])
{
    return set_common(socket, options) && set_int(socket, ZMQ_RCVHWM, options->receive_queue) &&
           set_int(socket, ZMQ_IPV6, endpoint[strlen("tcp://")] == '[') && set_int(socket, ZMQ_IMMEDIATE, 1) &&
           set_int(socket, ZMQ_CONNECT_TIMEOUT, CONNECT_MS) && set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS) &&
           set_int(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX) &&
           zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_public, 32) == 0 && zmq_connect(socket, endpoint) == 0;
}

void *socket_dealer(void *context, const struct socket_options *options, const char *endpoint,
                    const uint8_t server_public[32])
{
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (socket != NULL && !socket_set_dealer(socket, options, endpoint, server_public)) {
        (void)set_int(socket, ZMQ_LINGER, 0);
        (void)zmq_close(socket);
        return NULL;
    }
    return socket;
}

void *socket_monitor(void *context, void *router)
{
    char endpoint[64];
    (void)snprintf(endpoint, sizeof endpoint, "inproc://shoal-monitor-%p", router);
    if (zmq_socket_monitor(router, endpoint,
                           ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                               ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) != 0) {
        return NULL;
    }
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    if (monitor != NULL && (!set_int(monitor, ZMQ_LINGER, 0) || zmq_connect(monitor, endpoint) != 0)) {
        (void)zmq_close(monitor);
        return NULL;
    }
    return monitor;
}

/* An event has two frames: number and value, then the address. */
unsigned socket_monitor_drain(void *monitor, struct inflow *inflow)
{
    uint8_t frame[256];
    int count;
    unsigned failed = 0;
    while ((count = zmq_recv(monitor, frame, sizeof frame, ZMQ_DONTWAIT)) >= 0) {
        int more = 0;
        size_t bytes = sizeof more;
        uint16_t event;
        int32_t value;
        if (zmq_getsockopt(monitor, ZMQ_RCVMORE, &more, &bytes) != 0 || more == 0 ||
            count != sizeof event + sizeof value) {
            continue;
        }
        memcpy(&event, frame, sizeof event);
        memcpy(&value, frame + sizeof event, sizeof value);
        inflow_event(inflow, event, value);
        failed += event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL || event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;
    }
    return failed;
}
