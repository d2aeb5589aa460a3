#include "gossip/control.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sodium/crypto_generichash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "gossip/inflow.h"
#include "gossip/message.h"

/* MESSAGE_BYTES_MAX and what CURVE and ZMTP add. Without a limit one stranger's frame took 375 MB. */
#define FRAME_BYTES_MAX ((int64_t)MESSAGE_BYTES_MAX + 1024)
/* Of one connection without a whole message, many times the largest one. */
#define SILENT_BYTES_MAX (4u << 20)
#define HANDSHAKE_MS 2000
/* A link on which something sent is not acknowledged for this long is dead (TCP_USER_TIMEOUT). libzmq's own heartbeats
 * are not used: see docs/dependencies.md. */
#define UNACKNOWLEDGED_MS 3000
/* Keepalives find an end that went away while nothing was on its way. Each is 104 bytes with its answer, for each of two
 * connections with each peer: every 20 s that is 10 kB/s with 999 peers, who are said something only every few minutes.
 * So beyond KEEPALIVE_NEAR peers they are rare, and so are those of the side that only receives, to whom a dead
 * connection means no more than a descriptor. */
#define KEEPALIVE_NEAR 64
#define KEEPALIVE_NEAR_S 20
#define KEEPALIVE_FAR_S 600
#define KEEPALIVE_RECEIVER_S 300
#define KEEPALIVE_PROBE_S 5
#define KEEPALIVE_PROBES 3
#define CONNECT_MS 1000
#define RECONNECT_MS 100
#define RECONNECT_MS_MAX 1000
/* libzmq gives a connection up for ever after a protocol error (another program on the peer's port, a frame too large),
 * and says so to nobody. A peer that could not be sent to for this long gets a new socket. */
#define RENEW_MS 5000
#define SENDER_MESSAGES 1024
#define LETTER_BYTES 256 /* what a letter costs beside its message */
/* Each admitted key has room of its own for one message of any size, and takes what it needs beyond from what is shared. */
#define OWN_BYTES ((size_t)MESSAGE_BYTES_MAX + LETTER_BYTES)
#define SENDER_BYTES (CONTROL_QUEUE * OWN_BYTES)
#define SHARED_BYTES (16 * SENDER_BYTES)
#define ROUTING_ID_BYTES 256
#define HOST_BYTES 64
#define PEER_SLOTS (2 * CONTROL_PEERS_MAX) /* hash table: at most half full */

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93 /* zmq_draft.h; stable builds of libzmq 4.3 take it but do not name it */
#endif

struct peer {
    void *socket; /* NULL: free slot */
    node_id node;
    uint8_t curve_public[32];
    char address[CONTROL_ADDRESS_BYTES];
    uint64_t failing_since_ms; /* 0: the last send went through */
};

/* What of one key is in the inbox. */
struct sender {
    uint32_t messages;
    size_t bytes;
};

/* Taken from libzmq, not yet by the daemon. */
struct letter {
    struct letter *next;
    zmq_msg_t routing_id, message;
    unsigned frames; /* 2, or it is malformed */
    struct zap_identity from;
};

struct client {
    uint64_t handle; /* 0: free */
    uint64_t until_ms;
    uint8_t routing_id[ROUTING_ID_BYTES];
    size_t routing_id_bytes;
};

struct check {
    int fd; /* -1: free, or done */
    bool done;
    enum control_link link;
    node_id node;
    uint64_t until_ms;
};

struct control {
    void *context;
    struct zap *zap;
    void *router;
    void *monitor; /* reports connections and failed handshakes of the router */
    struct inflow inflow;
    uint8_t curve_public[32], curve_secret[32];
    uint16_t port;
    struct letter *inbox, **inbox_end;
    struct letter *reading; /* control_receive gave it out last */
    size_t shared_bytes; /* of all senders, what is beyond OWN_BYTES of each */
    uint64_t silenced; /* connections that brought bytes and no message */
    bool unread; /* libzmq had more than inbox_fill took */
    struct sender senders[ZAP_KEYS_MAX]; /* by zap_identity.slot */
    uint64_t last_client;
    struct client clients[CONTROL_CLIENTS_MAX];
    struct check checks[CONTROL_CHECKS_MAX];
    uint32_t peer_count;
    struct peer peers[PEER_SLOTS];
    struct control_statistics statistics;
};

static uint64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

/* Splits at the last colon and takes the brackets off. */
static bool address_split(const char *text, char host[HOST_BYTES], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text) {
        return false;
    }
    const char *begin = text;
    size_t bytes = (size_t)(colon - text);
    if (*begin == '[') {
        if (bytes < 3 || begin[bytes - 1] != ']') {
            return false;
        }
        begin++;
        bytes -= 2;
    } else if (memchr(begin, ':', bytes) != NULL) {
        return false; /* IPv6 wants brackets: who knows which part is the port otherwise? */
    }
    if (bytes >= HOST_BYTES) {
        return false;
    }
    uint32_t number = 0;
    size_t digits = strlen(colon + 1);
    for (const char *p = colon + 1; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || digits > 5) {
            return false;
        }
        number = number * 10 + (uint32_t)(*p - '0');
    }
    if (digits == 0 || number > 65535) {
        return false;
    }
    (void)bytes_copy_text_n(host, HOST_BYTES, begin, bytes);
    *port = (uint16_t)number;
    return true;
}

/* Numeric only: AI_NUMERICHOST keeps name servers out of it. */
static int address_parse(const char *text, struct sockaddr_storage *out, socklen_t *out_bytes)
{
    char host[HOST_BYTES], port_text[8];
    uint16_t port;
    if (!address_split(text, host, &port) || port == 0 || strcmp(host, "*") == 0) { /* glibc takes "*" for any host */
        return ERR_USAGE;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
    (void)snprintf(port_text, sizeof port_text, "%u", port);
    if (getaddrinfo(host, port_text, &hints, &found) != 0) {
        return ERR_USAGE;
    }
    memset(out, 0, sizeof *out);
    memcpy(out, found->ai_addr, found->ai_addrlen);
    *out_bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

int control_address_check(const char *address)
{
    struct sockaddr_storage parsed;
    socklen_t bytes;
    return strlen(address) >= CONTROL_ADDRESS_BYTES ? ERR_USAGE : address_parse(address, &parsed, &bytes);
}

static int address_format(const struct addrinfo *found, char out[CONTROL_ADDRESS_BYTES])
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return ERR_NOT_FOUND;
    }
    bool wide = found->ai_family == AF_INET6;
    char text[NI_MAXHOST + NI_MAXSERV + 4];
    (void)snprintf(text, sizeof text, "%s%s%s:%s", wide ? "[" : "", host, wide ? "]" : "", port);
    return bytes_copy_text(out, CONTROL_ADDRESS_BYTES, text) ? 0 : ERR_NOT_FOUND;
}

int control_address_resolve(const char *text, char out[CONTROL_ADDRESS_BYTES], char error[256])
{
    char host[HOST_BYTES], port_text[8];
    uint16_t port;
    if (!address_split(text, host, &port) || port == 0) {
        (void)snprintf(error, 256,
                       "The address \"%.80s\" is not HOST:PORT; write for example 10.0.0.5:7410 or [fd00::5]:7410.",
                       text);
        return ERR_USAGE;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    (void)snprintf(port_text, sizeof port_text, "%u", port);
    int failure = getaddrinfo(host, port_text, &hints, &found);
    if (failure != 0) {
        (void)snprintf(error, 256, "The host of \"%.80s\" was not found: %.80s.", text, gai_strerror(failure));
        return ERR_NOT_FOUND;
    }
    const struct addrinfo *chosen = found;
    for (const struct addrinfo *each = found; each != NULL; each = each->ai_next) {
        if (each->ai_family == AF_INET) { /* most labs' meshes are IPv4 throughout */
            chosen = each;
            break;
        }
    }
    int result = address_format(chosen, out);
    if (result != 0) {
        (void)snprintf(error, 256, "The host of \"%.80s\" has no usable address.", text);
    }
    freeaddrinfo(found);
    return result;
}

/* ---- sockets ----------------------------------------------------------------------------------------------------- */

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

/* No RCVHWM: the inbox bounds what waits, since libzmq aborts on a ping that it had read when the queue was full and the
 * connection broke (docs/dependencies.md).
 *
 * libzmq lets everybody in when a socket has a ZAP domain but the context no handler, unless ZMQ_ZAP_ENFORCE_DOMAIN is
 * set. Builds that lack the option are safe too: such connections have no User-Id, and zap_identify refuses what they
 * say. */
static bool set_router(void *socket, const struct keys *keys)
{
    static const char domain[] = ZAP_DOMAIN_CONTROL;
    (void)set_int(socket, ZMQ_ZAP_ENFORCE_DOMAIN, 1);
    return set_common(socket, keys->curve_public, keys->curve_secret, KEEPALIVE_RECEIVER_S) &&
           set_int(socket, ZMQ_CURVE_SERVER, 1) && set_int(socket, ZMQ_RCVHWM, 0) && set_int(socket, ZMQ_ROUTER_MANDATORY, 1) &&
           set_int(socket, ZMQ_BACKLOG, 256) && zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, domain, sizeof domain - 1) == 0;
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

static void *dealer_open(void *context, const uint8_t curve_public[32], const uint8_t curve_secret[32],
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

/* "*" is both families where the machine has IPv6, else IPv4. */
static int router_bind(void *socket, const char *listen)
{
    char host[HOST_BYTES], endpoint[HOST_BYTES + 24];
    uint16_t port;
    if (!address_split(listen, host, &port)) {
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

/* ---- inbox ------------------------------------------------------------------------------------------------------- */

static void letter_free(struct letter **letter)
{
    if (*letter != NULL) {
        (void)zmq_msg_close(&(*letter)->routing_id);
        (void)zmq_msg_close(&(*letter)->message);
        free(*letter);
        *letter = NULL;
    }
}

/* Reads one whole message: the routing id, which the ROUTER adds, and one frame. False: none is there. */
static bool letter_read(void *router, struct letter *letter)
{
    (void)zmq_msg_init(&letter->routing_id);
    (void)zmq_msg_init(&letter->message);
    if (zmq_msg_recv(&letter->routing_id, router, ZMQ_DONTWAIT) < 0) {
        return false;
    }
    letter->frames = 1;
    bool more = zmq_msg_more(&letter->routing_id) != 0;
    while (more) {
        zmq_msg_t frame;
        (void)zmq_msg_init(&frame);
        if (zmq_msg_recv(letter->frames == 1 ? &letter->message : &frame, router, ZMQ_DONTWAIT) < 0) {
            letter->frames = 0;
            break;
        }
        more = zmq_msg_more(letter->frames == 1 ? &letter->message : &frame) != 0;
        (void)zmq_msg_close(&frame);
        letter->frames++;
    }
    return true;
}

/* Is it a message, and whose? Asked when it is fresh: later its connection's descriptor may be another one's. */
static bool letter_accept(struct control *control, struct letter *letter)
{
    if (letter->frames != 2) {
        control->statistics.malformed++;
        return false;
    }
    if (zmq_msg_size(&letter->message) > MESSAGE_BYTES_MAX) {
        control->statistics.oversized++;
        return false;
    }
    return zap_identify(control->zap, &letter->message, control->port, &letter->from) == 0;
}

static size_t shared_part(const struct sender *sender)
{
    return sender->bytes > OWN_BYTES ? sender->bytes - OWN_BYTES : 0;
}

/* Of one sender, what is too much is dropped. */
static void inbox_put(struct control *control, struct letter *letter)
{
    if (!letter_accept(control, letter)) {
        letter_free(&letter);
        return;
    }
    struct sender *sender = &control->senders[letter->from.slot];
    struct sender then = {sender->messages + 1, sender->bytes + zmq_msg_size(&letter->message) + LETTER_BYTES};
    size_t shared_bytes = control->shared_bytes - shared_part(sender) + shared_part(&then);
    if (then.messages > SENDER_MESSAGES || then.bytes > SENDER_BYTES ||
        (shared_bytes > SHARED_BYTES && then.bytes > OWN_BYTES)) {
        control->statistics.overrun++;
        letter_free(&letter);
        return;
    }
    *sender = then;
    control->shared_bytes = shared_bytes;
    letter->next = NULL;
    *control->inbox_end = letter;
    control->inbox_end = &letter->next;
}

/* Takes what libzmq has received, so that it does not pile up there; a bounded number, so that the caller is not kept. */
static void inbox_fill(struct control *control)
{
    int count = 0;
    for (; count < CONTROL_TAKE_MAX; count++) {
        struct letter *letter = malloc(sizeof *letter);
        if (letter == NULL || !letter_read(control->router, letter)) {
            letter_free(&letter);
            break;
        }
        inflow_brought(&control->inflow, zmq_msg_get(&letter->message, ZMQ_SRCFD));
        inbox_put(control, letter);
    }
    control->unread = count == CONTROL_TAKE_MAX;
}

/* The oldest, for letter_free; NULL when it is empty. */
static struct letter *inbox_take(struct control *control)
{
    struct letter *letter = control->inbox;
    if (letter != NULL) {
        struct sender *sender = &control->senders[letter->from.slot];
        control->inbox = letter->next;
        control->inbox_end = control->inbox == NULL ? &control->inbox : control->inbox_end;
        control->shared_bytes -= shared_part(sender);
        sender->messages--;
        sender->bytes -= zmq_msg_size(&letter->message) + LETTER_BYTES;
        control->shared_bytes += shared_part(sender);
    }
    return letter;
}

/* ---- open and close ----------------------------------------------------------------------------------------------- */

static void *monitor_open(void *context, void *router)
{
    char endpoint[64];
    (void)snprintf(endpoint, sizeof endpoint, "inproc://shoal-control-%p", router);
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

static int port_read(struct control *control)
{
    char endpoint[128];
    size_t bytes = sizeof endpoint;
    const char *colon;
    if (zmq_getsockopt(control->router, ZMQ_LAST_ENDPOINT, endpoint, &bytes) != 0 ||
        (colon = strrchr(endpoint, ':')) == NULL) {
        return ERR_IO;
    }
    control->port = (uint16_t)strtoul(colon + 1, NULL, 10);
    return control->port > 0 ? 0 : ERR_IO;
}

static int control_start(struct control *control, const struct control_options *options)
{
    control->router = zmq_socket(options->context, ZMQ_ROUTER);
    if (control->router == NULL || !set_router(control->router, options->keys)) {
        return ERR_IO;
    }
    control->monitor = monitor_open(options->context, control->router);
    if (control->monitor == NULL) {
        return ERR_IO;
    }
    int result = router_bind(control->router, options->listen);
    result = result != 0 ? result : port_read(control);
    control->inflow = (struct inflow){.port = control->port, .bytes_max = SILENT_BYTES_MAX};
    return result;
}

int control_open(const struct control_options *options, struct control **out, char error[256])
{
    struct control *control = calloc(1, sizeof *control);
    if (control == NULL) {
        (void)snprintf(error, 256, "No memory is left for the control sockets.");
        return ERR_MEMORY;
    }
    control->context = options->context;
    control->zap = options->zap;
    memcpy(control->curve_public, options->keys->curve_public, 32);
    memcpy(control->curve_secret, options->keys->curve_secret, 32);
    control->inbox_end = &control->inbox;
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        control->checks[i].fd = -1;
    }
    int result = control_start(control, options);
    if (result == 0) {
        *out = control;
        return 0;
    }
    if (result == ERR_USAGE) {
        (void)snprintf(
            error, 256,
            "Cannot listen on \"%.80s\": it is not a numeric HOST:PORT, such as 10.0.0.5:7410, [::]:7410 or *:7410.",
            options->listen);
    } else if (result == ERR_EXISTS) {
        (void)snprintf(
            error, 256,
            "Cannot listen on %.80s: another program has that port; stop it or choose another with --listen.",
            options->listen);
    } else {
        (void)snprintf(error, 256, "Cannot listen on %.80s: %.100s.", options->listen, zmq_strerror(zmq_errno()));
    }
    control_close(&control);
    return result;
}

void control_close(struct control **control)
{
    struct control *self = *control;
    if (self == NULL) {
        return;
    }
    for (int i = 0; i < PEER_SLOTS; i++) {
        if (self->peers[i].socket != NULL) {
            (void)zmq_close(self->peers[i].socket);
        }
    }
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        if (self->checks[i].fd >= 0) {
            (void)close(self->checks[i].fd);
        }
    }
    letter_free(&self->reading);
    for (struct letter *letter = inbox_take(self); letter != NULL; letter = inbox_take(self)) {
        letter_free(&letter);
    }
    if (self->router != NULL) {
        (void)zmq_socket_monitor(self->router, NULL, 0);
        (void)zmq_close(self->router);
    }
    if (self->monitor != NULL) {
        (void)zmq_close(self->monitor);
    }
    inflow_close(&self->inflow);
    explicit_bzero(self, sizeof *self);
    free(self);
    *control = NULL;
}

uint16_t control_port(const struct control *control)
{
    return control->port;
}

size_t control_poll_items(struct control *control, zmq_pollitem_t items[CONTROL_POLL_MAX])
{
    size_t count = 0;
    items[count++] = (zmq_pollitem_t){.socket = control->router, .events = ZMQ_POLLIN};
    items[count++] = (zmq_pollitem_t){.socket = zap_socket(control->zap), .events = ZMQ_POLLIN};
    items[count++] = (zmq_pollitem_t){.socket = control->monitor, .events = ZMQ_POLLIN};
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        if (control->checks[i].fd >= 0) {
            items[count++] = (zmq_pollitem_t){.fd = control->checks[i].fd, .events = ZMQ_POLLOUT};
        }
    }
    return count;
}

uint64_t control_next_ms(const struct control *control)
{
    uint64_t next = control->inbox != NULL || control->unread ? 0 : UINT64_MAX;
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        if (control->checks[i].done) {
            return 0; /* an answer waits to be taken */
        }
        if (control->checks[i].fd >= 0 && control->checks[i].until_ms < next) {
            next = control->checks[i].until_ms;
        }
    }
    return next;
}

/* An event is two frames: number and value, then the address. */
static void monitor_drain(struct control *control)
{
    uint8_t frame[256];
    int count;
    while ((count = zmq_recv(control->monitor, frame, sizeof frame, ZMQ_DONTWAIT)) >= 0) {
        int more = 0;
        size_t bytes = sizeof more;
        uint16_t event;
        int32_t value;
        if (zmq_getsockopt(control->monitor, ZMQ_RCVMORE, &more, &bytes) != 0 || more == 0 || count != sizeof event + sizeof value) {
            continue;
        }
        memcpy(&event, frame, sizeof event);
        memcpy(&value, frame + sizeof event, sizeof value);
        inflow_event(&control->inflow, event, value);
        if (event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL || event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL) {
            control->statistics.failed++;
        }
    }
}

static void check_finish(struct check *check, enum control_link link)
{
    if (check->fd >= 0) {
        (void)close(check->fd);
    }
    check->fd = -1;
    check->done = true;
    check->link = link;
}

/* Nobody at the address, or no way to it, is silence: only the host's own refusal proves that its daemon is gone. */
static enum control_link link_of(int connect_errno)
{
    return connect_errno == 0              ? CONTROL_LINK_OPEN
           : connect_errno == ECONNREFUSED ? CONTROL_LINK_REFUSED
                                           : CONTROL_LINK_SILENT;
}

static void check_move(struct check *check, uint64_t now_ms)
{
    zmq_pollitem_t item = {.fd = check->fd, .events = ZMQ_POLLOUT};
    if (zmq_poll(&item, 1, 0) > 0) {
        int outcome = 0;
        socklen_t bytes = sizeof outcome;
        (void)getsockopt(check->fd, SOL_SOCKET, SO_ERROR, &outcome, &bytes);
        check_finish(check, link_of(outcome));
    } else if (now_ms >= check->until_ms) {
        check_finish(check, CONTROL_LINK_SILENT);
    }
}

void control_process(struct control *control)
{
    zap_process(control->zap);
    monitor_drain(control);
    inbox_fill(control);
    uint64_t now_ms = clock_ms();
    control->silenced += control->unread ? 0 : inflow_look(&control->inflow, now_ms);
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        if (control->checks[i].fd >= 0) {
            check_move(&control->checks[i], now_ms);
        }
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static uint64_t client_remember(struct control *control, zmq_msg_t *routing_id)
{
    struct client *slot = &control->clients[0];
    for (int i = 1; i < CONTROL_CLIENTS_MAX && slot->handle != 0; i++) {
        if (control->clients[i].handle < slot->handle) {
            slot = &control->clients[i]; /* the free one, else the oldest */
        }
    }
    size_t bytes = zmq_msg_size(routing_id);
    if (bytes > ROUTING_ID_BYTES) {
        return 0; /* libzmq allows 255 */
    }
    slot->handle = ++control->last_client;
    slot->until_ms = clock_ms() + CONTROL_CLIENT_MS;
    slot->routing_id_bytes = bytes;
    memcpy(slot->routing_id, zmq_msg_data(routing_id), bytes);
    return slot->handle;
}

int control_receive(struct control *control, struct control_incoming *out)
{
    letter_free(&control->reading);
    struct letter *letter;
    while ((letter = inbox_take(control)) != NULL && !zap_admits(control->zap, &letter->from)) {
        letter_free(&letter);
    }
    if (letter == NULL) {
        return ERR_AGAIN;
    }
    control->reading = letter;
    *out = (struct control_incoming){.from = letter->from,
                                     .bytes = zmq_msg_data(&letter->message),
                                     .count = zmq_msg_size(&letter->message)};
    const char *host = zmq_msg_gets(&letter->message, "Peer-Address");
    (void)bytes_copy_text(out->host, sizeof out->host, host != NULL ? host : "");
    if (out->from.kind == ZAP_INVITE) {
        out->client = client_remember(control, &letter->routing_id);
    }
    control->statistics.received++;
    control->statistics.received_bytes += out->count;
    return 0;
}

/* The slot of `node`, or the free one where it belongs. */
static struct peer *peer_slot(struct control *control, node_id node)
{
    size_t at = (size_t)bytes_hash64(node.bytes, NODE_ID_BYTES, 0) % PEER_SLOTS;
    while (control->peers[at].socket != NULL && !node_id_equal(control->peers[at].node, node)) {
        at = (at + 1) % PEER_SLOTS;
    }
    return &control->peers[at];
}

static void *peer_open(struct control *control, const char *address, const uint8_t curve_public[32])
{
    int keepalive_s = control->peer_count < KEEPALIVE_NEAR ? KEEPALIVE_NEAR_S : KEEPALIVE_FAR_S;
    return dealer_open(control->context, control->curve_public, control->curve_secret, address, curve_public, keepalive_s);
}

static void peer_renew(struct control *control, struct peer *peer)
{
    void *socket = peer_open(control, peer->address, peer->curve_public);
    if (socket != NULL) {
        (void)zmq_close(peer->socket);
        peer->socket = socket;
    }
}

static void peer_failed(struct control *control, struct peer *peer)
{
    uint64_t now_ms = clock_ms();
    if (peer->failing_since_ms == 0) {
        peer->failing_since_ms = now_ms;
    } else if (now_ms - peer->failing_since_ms >= RENEW_MS) {
        peer_renew(control, peer);
        peer->failing_since_ms = now_ms;
    }
}

int control_send(struct control *control, node_id to, const uint8_t *bytes, size_t count)
{
    if (count > MESSAGE_BYTES_MAX) {
        return ERR_USAGE;
    }
    struct peer *peer = peer_slot(control, to);
    if (peer->socket == NULL) {
        return ERR_NOT_FOUND;
    }
    if (zmq_send(peer->socket, bytes, count, ZMQ_DONTWAIT) < 0) {
        control->statistics.dropped++;
        peer_failed(control, peer);
        return ERR_AGAIN;
    }
    peer->failing_since_ms = 0;
    control->statistics.sent++;
    control->statistics.sent_bytes += count;
    return 0;
}

int control_reply(struct control *control, uint64_t client, const uint8_t *bytes, size_t count)
{
    struct client *found = NULL;
    for (int i = 0; client != 0 && i < CONTROL_CLIENTS_MAX; i++) {
        if (control->clients[i].handle == client && clock_ms() < control->clients[i].until_ms) {
            found = &control->clients[i];
        }
    }
    if (found == NULL) {
        return ERR_NOT_FOUND;
    }
    if (count > MESSAGE_BYTES_MAX) {
        return ERR_USAGE;
    }
    /* A ROUTER decides at the first frame: with MANDATORY it fails if the client is gone or its queue full. */
    if (zmq_send(control->router, found->routing_id, found->routing_id_bytes, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0 ||
        zmq_send(control->router, bytes, count, ZMQ_DONTWAIT) < 0) {
        control->statistics.dropped++;
        return ERR_AGAIN;
    }
    control->statistics.sent++;
    control->statistics.sent_bytes += count;
    return 0;
}

/* ---- peers and keys ---------------------------------------------------------------------------------------------- */

int control_peer(struct control *control, node_id node, const uint8_t sign_public[32], const char *address)
{
    uint8_t curve_public[32];
    if (control_address_check(address) != 0 || keys_curve_of(sign_public, curve_public) != 0) {
        return ERR_USAGE;
    }
    struct peer *peer = peer_slot(control, node);
    if (peer->socket != NULL && strcmp(peer->address, address) == 0 &&
        memcmp(peer->curve_public, curve_public, 32) == 0) {
        return 0;
    }
    if (peer->socket == NULL && control->peer_count == CONTROL_PEERS_MAX) {
        return ERR_FULL;
    }
    void *socket = peer_open(control, address, curve_public);
    if (socket == NULL) {
        return ERR_IO;
    }
    if (peer->socket != NULL) {
        (void)zmq_close(peer->socket);
    } else {
        control->peer_count++;
    }
    *peer = (struct peer){.socket = socket, .node = node};
    memcpy(peer->curve_public, curve_public, 32);
    (void)bytes_copy_text(peer->address, sizeof peer->address, address);
    return 0;
}

void control_peer_remove(struct control *control, node_id node)
{
    struct peer *peer = peer_slot(control, node);
    if (peer->socket == NULL) {
        return;
    }
    (void)zmq_close(peer->socket);
    peer->socket = NULL;
    control->peer_count--;
    /* Linear probing: those behind the gap move up if they belong before it. */
    for (size_t at = (size_t)(peer - control->peers + 1) % PEER_SLOTS; control->peers[at].socket != NULL;
         at = (at + 1) % PEER_SLOTS) {
        struct peer moved = control->peers[at];
        control->peers[at].socket = NULL;
        *peer_slot(control, moved.node) = moved;
    }
}

int control_admit(struct control *control, const uint8_t public_key[32], bool invite, bool gone)
{
    uint8_t curve_public[32];
    memcpy(curve_public, public_key, 32);
    if (!invite && keys_curve_of(public_key, curve_public) != 0) {
        return ERR_MALFORMED;
    }
    if (gone) {
        return zap_evict(control->zap, curve_public);
    }
    if (invite) {
        return zap_admit_invite(control->zap, curve_public);
    }
    node_id node;
    (void)crypto_generichash(node.bytes, NODE_ID_BYTES, public_key, 32, NULL, 0);
    return zap_admit_member(control->zap, curve_public, node);
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

int control_check_link(struct control *control, node_id node, const char *address)
{
    struct sockaddr_storage to;
    socklen_t to_bytes;
    if (address_parse(address, &to, &to_bytes) != 0) {
        return ERR_USAGE;
    }
    struct check *check = NULL;
    for (int i = 0; i < CONTROL_CHECKS_MAX && check == NULL; i++) {
        check = control->checks[i].fd < 0 && !control->checks[i].done ? &control->checks[i] : NULL;
    }
    if (check == NULL) {
        return ERR_FULL;
    }
    int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return ERR_IO;
    }
    *check = (struct check){.fd = fd, .node = node, .until_ms = clock_ms() + CONTROL_CHECK_MS};
    if (connect(fd, (struct sockaddr *)&to, to_bytes) == 0) {
        check_finish(check, CONTROL_LINK_OPEN);
    } else if (errno != EINPROGRESS) {
        check_finish(check, link_of(errno));
    }
    return 0;
}

int control_check_next(struct control *control, node_id *node, enum control_link *link)
{
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        if (control->checks[i].done) {
            control->checks[i].done = false;
            *node = control->checks[i].node;
            *link = control->checks[i].link;
            return 0;
        }
    }
    return ERR_AGAIN;
}

void control_statistics(struct control *control, struct control_statistics *out)
{
    struct zap_statistics zap;
    zap_statistics(control->zap, &zap);
    *out = control->statistics;
    out->refused = zap.refused;
    out->cut = zap.cut + control->silenced;
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

#define JOIN_DOORS_MAX (TOKEN_MEMBERS_MAX * TOKEN_ADDRESSES_MAX)
#define JOIN_PATIENCE_MS 4000 /* with one member, before the next is asked as well */

/* A member's address: waits to be connected, then to be answered. */
struct door {
    void *socket;
    const char *address;
    bool asked;
};

struct joining {
    struct door doors[JOIN_DOORS_MAX];
    size_t count;
    uint8_t request[JOIN_REQUEST_BYTES_MAX];
    size_t request_bytes;
};

static void joining_close(struct joining *joining)
{
    for (size_t i = 0; i < joining->count; i++) {
        (void)zmq_close(joining->doors[i].socket);
    }
}

static void joining_open(struct joining *joining, void *context, const struct token *token,
                         const uint8_t invite_key[32])
{
    for (uint32_t m = 0; m < token->member_count; m++) {
        const struct token_member *member = &token->members[m];
        uint8_t server[32];
        for (uint32_t a = 0; a < member->address_count && keys_curve_of(member->sign_public, server) == 0; a++) {
            const char *address = member->addresses[a];
            void *socket = control_address_check(address) != 0
                               ? NULL
                               : dealer_open(context, invite_key, token->secret, address, server, KEEPALIVE_NEAR_S);
            if (socket != NULL) {
                joining->doors[joining->count++] = (struct door){.socket = socket, .address = address};
            }
        }
    }
}

static int door_read(struct door *door, uint8_t *buffer, size_t capacity, struct join_answer *answer, char error[256])
{
    int count = zmq_recv(door->socket, buffer, capacity, ZMQ_DONTWAIT);
    if (count < 0) {
        return ERR_AGAIN;
    }
    struct join_answer decoded;
    if ((size_t)count > capacity || join_answer_decode(buffer, (size_t)count, &decoded) != 0) {
        (void)snprintf(error, 256,
                       "The member at %s answered something that this version of shoal does not understand; use the "
                       "version that it runs.",
                       door->address);
        return ERR_MALFORMED;
    }
    if (decoded.code != 0) {
        (void)snprintf(error, 256, "The member at %s refused: %.160s", door->address, decoded.text);
        return ERR_REFUSED;
    }
    *answer = decoded;
    return 0;
}

/* One round: reads answers, asks at one more open door if `ask`. */
static int joining_step(struct joining *joining, bool *ask, uint64_t wait_ms, uint8_t *buffer, size_t capacity,
                        struct join_answer *answer, char error[256])
{
    zmq_pollitem_t items[JOIN_DOORS_MAX];
    for (size_t i = 0; i < joining->count; i++) {
        short events = joining->doors[i].asked ? ZMQ_POLLIN : *ask ? ZMQ_POLLOUT : 0;
        items[i] = (zmq_pollitem_t){.socket = joining->doors[i].socket, .events = events};
    }
    if (zmq_poll(items, (int)joining->count, (long)wait_ms) < 0) {
        return zmq_errno() == EINTR ? ERR_AGAIN : ERR_IO;
    }
    for (size_t i = 0; i < joining->count; i++) {
        struct door *door = &joining->doors[i];
        if ((items[i].revents & ZMQ_POLLIN) != 0) {
            int result = door_read(door, buffer, capacity, answer, error);
            if (result != ERR_AGAIN) {
                return result;
            }
        }
        if ((items[i].revents & ZMQ_POLLOUT) != 0 && *ask && !door->asked) {
            door->asked = zmq_send(door->socket, joining->request, joining->request_bytes, ZMQ_DONTWAIT) >= 0;
            *ask = !door->asked;
        }
    }
    return ERR_AGAIN;
}

int control_join(void *context, const struct token *token, const struct keys *keys, const char *name,
                 uint64_t timeout_ms, uint8_t *buffer, size_t capacity, struct join_answer *answer, char error[256])
{
    CHECK(capacity >= MESSAGE_BYTES_MAX);
    uint8_t invite_key[32];
    token_invite_key(token, invite_key);
    struct joining joining = {0};
    joining.request_bytes = join_request_encode(keys, token->mesh, invite_key, name, joining.request);
    joining_open(&joining, context, token, invite_key);
    if (joining.count == 0) {
        (void)snprintf(error, 256,
                       "The token names no address that could be tried; ask for a new one with shoal invite.");
        return ERR_MALFORMED;
    }
    uint64_t now_ms = clock_ms(), end_ms = now_ms + timeout_ms, next_ask_ms = now_ms;
    bool asked_once = false;
    int result = ERR_AGAIN;
    while (result == ERR_AGAIN && now_ms < end_ms) {
        bool may_ask = now_ms >= next_ask_ms, ask = may_ask;
        uint64_t wait_ms = end_ms - now_ms < 250 ? end_ms - now_ms : 250;
        result = joining_step(&joining, &ask, wait_ms, buffer, capacity, answer, error);
        now_ms = clock_ms();
        if (may_ask && !ask) {
            asked_once = true;
            next_ask_ms = now_ms + JOIN_PATIENCE_MS;
        }
    }
    if (result == ERR_AGAIN) {
        result = ERR_TIMEOUT;
        (void)snprintf(error, 256,
                       asked_once ? "No member answered the request to join within %llu s; try again, or ask for a "
                                    "new token."
                                  : "No member let us in within %llu s: none of the %zu addresses in the token "
                                    "can be reached from here, or the token was revoked.",
                       (unsigned long long)(timeout_ms / 1000), joining.count);
    } else if (result == ERR_IO) {
        (void)snprintf(error, 256, "Waiting for members failed: %.100s.", zmq_strerror(zmq_errno()));
    }
    joining_close(&joining);
    return result;
}
